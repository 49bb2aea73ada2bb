"""The frame of the command line, and what every verb promises."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from cyclopts import Token

import synthscore
from synthscore.cli.app import VERBS, build_app, main
from synthscore.cli.help import flowing
from synthscore.cli.messages import BROKEN_PIPE, ERROR, STOPPED, USAGE
from synthscore.errors import Unasked
from synthscore.io.write import write_rows
from tests.cli.given import CONTEXTS, shown


def commands(app=None, path=()):
    """Every command that can be run: its words, and its App."""
    app = app or build_app()
    for name in app:
        if name.startswith("-"):
            continue
        inner = app[name]
        below = list(commands(inner, (*path, name)))
        yield from below or [((*path, name), inner)]


COMMANDS = {" ".join(path): app for path, app in commands()}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_short_help_is_two_screens_of_the_options_that_are_most_used(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([*command.split(), "--help"]) == 0
    text = capsys.readouterr().out
    options = re.findall(r"^│ \*? *(--[a-z-]+)", text, re.MULTILINE)
    assert len(options) <= 15
    assert len(text.splitlines()) <= 100
    assert text.endswith(f"\nAll options: synthscore {command} --help all\n")
    first = [name for name in ("--model", "--references", "--attribute") if name in options]
    assert options[: len(first)] == first


@pytest.mark.parametrize("command", ["", *(f"{command} --help all" for command in COMMANDS)])
@pytest.mark.parametrize("width", [80, 100])
def test_every_help_fits_the_terminal_and_has_an_example_that_parses(command, width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    assert main(command.split() or ["--help"]) == 0
    text = capsys.readouterr().out
    assert all(len(line) <= width for line in text.splitlines())
    examples = re.findall(r"^ *\$ synthscore (.+(?:(?<=\\)\n.+)*)", text, re.MULTILINE)
    assert examples
    for example in examples:
        words = re.sub(r"\\\n", " ", example).split(" > ")[0].split(" | ")[0].split()
        words = [word.strip("'\"") for word in words]
        if words[0] in VERBS:
            build_app().parse_args(words, exit_on_error=False, print_error=False)  # raises where the example is wrong


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_says_what_it_does(command):
    for argument in COMMANDS[command].assemble_argument_collection(parse_docstring=True):
        if argument.show:
            assert argument.parameter.help, argument.name


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_that_is_a_whole_number_refuses_others(command):
    for argument in COMMANDS[command].assemble_argument_collection(parse_docstring=True):
        if argument.hint is int or int in get_args(argument.hint):
            with pytest.raises(ValueError, match=r"1\.5 is no whole number"):
                argument.parameter.converter(int, [Token(value="1.5")])


def test_paragraphs_of_a_help_flow_and_its_other_lines_stand():
    text = "One\nparagraph\nof lines.\n\nThen:\n  name  what it is\n  $ synthscore demo -o folder\n\nEnd."
    wide = "One paragraph of lines.\n\nThen:\n  name  what it is\n  $ synthscore demo -o folder\n\nEnd."
    assert flowing(text, 80) == wide
    narrow = "One paragraph of\nlines.\n\nThen:\n  name  what it\n        is\n"
    narrow += "  $ synthscore \\\n      demo -o \\\n      folder\n\nEnd."
    assert flowing(text, 16) == narrow


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["repor"], 'Did you mean "report"'),
        (["report"], "SOURCE"),
        (["report", "run/", "--min-scor", "3"], "Did you mean --min-score"),
        (["report", "run/", "--min-score", "high"], "high"),
    ],
)
def test_a_command_line_that_means_nothing_is_a_usage_error(argv, told, capsys):
    assert main(argv) == USAGE
    assert told in capsys.readouterr().err


def test_no_command_shows_the_help(capsys):
    assert main([]) == USAGE
    assert "synthscore demo" in capsys.readouterr().out


def test_completion_of_a_shell_knows_verbs_and_options(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(["--install-completion", "--shell", "bash"]) == 0
    script = (tmp_path / ".local/share/bash-completion/completions/synthscore").read_text(encoding="utf-8")
    assert all(word in script for word in ("redteam", "--at-most", "--references"))
    assert "\x1b" not in capsys.readouterr().out, "colours are for terminals"


def test_version_and_exit_codes_are_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"synthscore {synthscore.__version__}\n"
    assert main(["--help"]) == 0
    shown(capsys.readouterr().out, "0 all well", "3 done, but some rows failed", "4 stopped", "130 interrupted")


GENERATE = ("generate", "x.jsonl", "--task", "story", "-a", "coherence", "-o", "z")


@pytest.mark.parametrize(
    "argv",
    [
        ["score"],
        ["cook"],
        ["score", "x.jsonl", "--references", "y", "--samples", "0"],
        ["score", "x.jsonl", "--references", "y", "--min-mass", "2"],
        ["doctor", "--max-unreported", "2"],
        ["references", "check", "x", "--max-unreported", "-1"],
        ["score", "x.jsonl", "--references", "y", "--field", "text"],
        ["score", "x.jsonl", "--references", "y", "-o", "scores.txt"],
        ["score", "x.jsonl", "--references", "y", "--seed", "0"],
        ["filter", "x.jsonl", "--references", "y", "--min-score", "nan"],
        [*GENERATE, "--rungs", "1"],
        [*GENERATE, "--writer", "prompt"],
        [*GENERATE, "--temperature", "0"],
    ],
)
def test_a_command_line_that_makes_no_sense_gives_2(argv, capsys):
    assert main(argv) == USAGE
    assert capsys.readouterr().err


def test_the_help_says_of_each_verb_what_its_own_help_begins_with():
    app = build_app()
    assert {name: str(app[name].help).strip().split("\n")[0] for name in VERBS} == VERBS


def test_help_is_quick_and_loads_no_heavy_library():
    code = f"""
import sys, time
from synthscore.cli.app import main
main(["--help"])
quick = time.process_time()  # of this process alone, whatever else the machine does
unneeded = {{"numpy", "jinja2", "synthscore.cli.score"}} & set(sys.modules)
assert not unneeded, unneeded
for verb in {list(COMMANDS)}:
    assert main([*verb.split(), "--help"]) == 0, verb
assert main(["evaluate", "--list"]) == 0
heavy = {{"torch", "transformers", "datasets", "pyarrow", "scipy", "tqdm", "pandas"}} & set(sys.modules)
assert not heavy, heavy
assert quick < 0.8, quick  # 0.25 where nobody else computes
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_reader_that_leaves_early_is_no_traceback(references):
    code = "import sys; from synthscore.cli.app import main; sys.exit(main(['references', 'list', 'ladders']))"
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert done.returncode == BROKEN_PIPE
    assert done.stderr == b""


def test_an_error_is_one_paragraph_and_debug_shows_where_it_came_from(capsys, references):
    argv = ["score", "nowhere.jsonl", "--references", "ladders", "--model", "nano"]
    assert main(argv) == ERROR
    error = capsys.readouterr().err
    assert error.startswith("InputError: cannot read nowhere.jsonl")
    assert error.count("\n") == 1
    assert main([*argv, "--debug"]) == ERROR
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        "filter x.jsonl --references L --min-score 3 -o x.jsonl",
        "filter x.jsonl --references L --min-score 3 -o kept.jsonl --dropped x.jsonl",
        "filter y.jsonl --references L --min-score 3 -o kept.jsonl --dropped ./kept.jsonl",
        "score x.jsonl --references L -o x.jsonl",
        "score x.jsonl --references L -o link.jsonl",
        "score y.jsonl --references L -o x.jsonl --store x.jsonl",
        "score y.jsonl --references L -o x.jsonl --model recorded:x.jsonl",
        "calibrate x.jsonl --guarantee precision>=.9 -o x.jsonl",
        "report x.jsonl -o x.jsonl",
    ],
)
def test_no_output_is_another_file_of_the_command(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("x.jsonl").write_text("not to be lost\n")
    Path("link.jsonl").symlink_to("x.jsonl")
    assert main(command.split()) == 2
    assert "expected files of their own" in capsys.readouterr().err
    assert Path("x.jsonl").read_text() == "not to be lost\n"


LADDERS = b"not to be lost\n"


@pytest.mark.parametrize(
    "command",
    [
        "score t.jsonl --references lad -o lad/ladders.parquet",
        "score t.jsonl --references lad -o new.jsonl --log-file lad/ladders.parquet",
        "score t.jsonl --references lad --scoring anchored -o new.jsonl --save-scale lad/ladders.parquet",
        "score t.jsonl --references link -o lad/ladders.parquet",
        "filter t.jsonl --references lad --min-score 3 -o kept.jsonl --dropped lad/ladders.parquet",
        "references check lad --positions lad/ladders.parquet",
        "references check lad -o lad/ladders.parquet",
        "score t.jsonl --references R --model lad -o lad/ladders.parquet",
        "score t.jsonl --references R --prompts lad -o lad/ladders.parquet",
        "score t.jsonl --references R --task lad -o lad/ladders.parquet",
        "report lad -o lad/ladders.parquet",
        "score t.jsonl --references R --model recorded:lad/ladders.parquet#nano -o lad/ladders.parquet",
        "filter lad/ladders.parquet.partial --references R --min-score 3 -o lad/ladders.parquet",
    ],
)
def test_no_output_replaces_what_lies_in_a_folder_that_is_read(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("lad").mkdir()
    Path("link").symlink_to("lad")
    for name in ("ladders.parquet", "ladders.parquet.partial"):
        Path("lad", name).write_bytes(LADDERS)
    assert main(command.split()) == 2
    assert "Name another file" in capsys.readouterr().err or command.startswith("report")
    assert [file.read_bytes() for file in sorted(Path("lad").iterdir())] == [LADDERS, LADDERS]


def test_no_output_is_the_store_of_the_environment_or_the_file_behind_stdin(tmp_path, monkeypatch, capsys):
    file = tmp_path / "o.jsonl"
    file.write_bytes(LADDERS)
    monkeypatch.setenv("SYNTHSCORE_STORE", str(file))
    assert main(["score", "t.jsonl", "--references", "R", "-o", str(file)]) == 2
    assert "output and SYNTHSCORE_STORE are both" in capsys.readouterr().err
    code = "import sys; from synthscore.cli.app import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "score", "-", "--references", "R", "-o", str(file)]
    with file.open() as stdin:
        done = subprocess.run(command, stdin=stdin, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, file.read_bytes()) == (2, LADDERS)
    assert "expected files of their own" in done.stderr


def test_an_output_may_have_the_name_of_a_task_or_an_attribute(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for task, attribute in (("summarization", "coherence"), ("story", "coherence")):
        for output in (task, attribute):
            main(["generate", "none.jsonl", "--task", task, "-a", attribute, "-o", output])
            assert "expected files of their own" not in capsys.readouterr().err
    assert main(["score", "y.jsonl", "--references", "L", "-o", "new.jsonl", "--store", "new.jsonl"]) == 2
    assert "expected files of their own" in capsys.readouterr().err


def test_a_command_whose_questions_remain_unasked_ends_with_code_4_and_one_line(engine, references, capsys, folder):
    def stop(questions, progress=None):
        raise Unasked("3 questions are unasked. Run the same command again to go on")

    engine.answer = stop
    write_rows([{"context_id": next(iter(CONTEXTS)), "text": "Good."}], "targets.jsonl")
    assert main(["score", "targets.jsonl", "--references", "ladders", "-o", "scores.jsonl"]) == STOPPED
    assert capsys.readouterr().err.splitlines()[-1].startswith("stopped: 3 questions are unasked. Run the same")
    assert not [path for path in folder.iterdir() if path.name.startswith("scores")]
