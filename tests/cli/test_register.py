"""No output is written over what the command reads, or over another output: every verb, option that writes and kind of
input, enumerated from the command line's own definitions."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from synthscore.cli import register
from synthscore.cli.app import build_app, main
from synthscore.cli.messages import USAGE
from synthscore.errors import InputError

KEPT = b"not to be lost\n"
NEEDED = {"attribute": "coherence", "task": "summarization", "guarantee": "precision>=0.9", "to": "argilla"}
"""Of options that a verb cannot do without; all others that it needs are files."""
IN_FOLDER = {
    "generate": "out/ladders.parquet",
    "references import": "out/manifest.json",
    "demo": "out/ladders/README.md",
    "evaluate": "out/scores/x.jsonl",
}
"""Verbs whose --output is the folder out -> a file that they replace in it."""
ONE_KIND = {"names": "length,file:{}", "model": "recorded:{}#nano"}


def verbs(parent=None, above=""):
    """(its words, its function's name, its options by field) of every verb and action."""
    for name in parent or (parent := build_app()):
        if not name.startswith("-"):
            verb, words = parent[name], f"{above} {name}".strip()
            if verb.default_command is None:
                yield from verbs(verb, words)
            else:
                options = verb.assemble_argument_collection(parse_docstring=True)
                by_field = {(each.keys or (each.field_info.name,))[-1]: each for each in options}
                yield words, verb.default_command.__name__, by_field


def is_text(option):
    return "str" in str(option.hint) and "Literal" not in str(option.hint) and not option.name.startswith("--no-")


FUNCTIONS = {words: function for words, function, _ in verbs()}
VERBS = {words: options for words, _, options in verbs()}
TEXTS = {words: [name for name, each in options.items() if is_text(each)] for words, options in VERBS.items()}
WRITERS = [(words, name) for words, names in TEXTS.items() for name in names if name in register.WRITTEN]


def command(words, **values):
    """The command line with these values, and with whatever else the verb needs."""
    argv = words.split()
    for name, each in sorted(VERBS[words].items(), key=lambda item: not item[1].name.isupper()):
        if name in values or (each.required and name != "*"):
            value = values.get(name) or NEEDED.get(name) or ("new" if name == "output" else f"some-{name}.jsonl")
            argv += [value] if each.name.isupper() else [each.name, value]
    return argv


def target(words, writer):
    """(value of the option that writes, file that is replaced)"""
    if writer == "output" and words in IN_FOLDER:
        return "out", Path(IN_FOLDER[words])
    path = Path("out", "page.html" if (words, writer) == ("report", "output") else "x.jsonl")
    return str(path), path


def inputs(words, writer, file):
    """(kind, value by option) of all that reads the file, or writes it, too."""
    for name in TEXTS[words]:
        if name in register.READ:
            yield name, {name: str(file)}
            yield f"{name}, a link", {name: "link.jsonl"}
        if name in ONE_KIND:
            yield f"{name}, {ONE_KIND[name]}", {name: ONE_KIND[name].format(file)}
        if name in register.READ and file.suffix != ".html" and name not in ("references", "ladders"):
            yield f"{name}, a folder", {name: str(file.parent)}
        if name in ("references", "ladders") and file.name in register.LADDERS:
            yield f"{name}, a folder", {name: str(file.parent)}
        if name in register.WRITTEN and name != writer and not (name == "output" and words in IN_FOLDER):
            yield f"{name}, another output", {name: str(file)}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNTHSCORE_STORE", str(tmp_path / "answers.sqlite"))
    monkeypatch.chdir(tmp_path)


def make(file):
    """The file, and link.jsonl, which leads to it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(KEPT)
    Path("link.jsonl").unlink(missing_ok=True)
    Path("link.jsonl").symlink_to(file)


def cases():
    """(words of a verb, what it writes and reads by field, file that is replaced, kind of input)"""
    for words, writer in WRITERS:
        value, file = target(words, writer)
        for kind, values in inputs(words, writer, file):
            if not (writer in register.STORES and kind.endswith("a folder")):  # a store grows, and may lie in one
                yield words, {writer: value, **values}, file, f"{writer} onto {kind}"


CASES = list(cases())


def test_every_option_that_is_a_text_is_in_one_table_of_the_register():
    tables = (register.WRITTEN, register.READ, register.WORDS)
    options = set(itertools.chain(*TEXTS.values()))
    for name in options:
        assert sum(name in table for table in tables) == 1, f"{name}: say in cli/register.py what it names"
    assert options == set(itertools.chain(*tables))


def test_every_verb_whose_output_is_a_folder_says_what_it_replaces_there():
    assert {words.split()[-1] for words in IN_FOLDER} == {name.rstrip("_") for name in register.FOLDERS}


def test_no_output_is_anything_that_its_command_reads_or_writes_too():
    """Of each pair of options, as the register sees them."""
    assert len(CASES) >= 150
    missed = []
    for words, values, file, kind in CASES:
        make(file)
        try:
            register.require_outputs_apart(FUNCTIONS[words], values)
        except InputError:
            continue
        missed.append(f"{words}: {kind}")
    assert not missed, "\n".join(missed)


def test_each_verb_is_refused_before_it_begins(capsys):
    """By the whole command line, one pair of options of each verb."""
    for words, values, file, _ in {case[0]: case for case in CASES}.values():
        make(file)
        code, said = main(command(words, **values)), capsys.readouterr().err
        assert (code, "Name another file" in said) == (USAGE, True), (words, said)
        assert file.read_bytes() == KEPT


@pytest.mark.parametrize(
    ("verb", "values", "read"),
    [
        ("score", {"output": "out/x.jsonl", "targets": "out/x.jsonl.partial"}, "out/x.jsonl.partial"),
        ("score", {"output": "link.jsonl", "targets": "out/x.jsonl.partial"}, "out/x.jsonl.partial"),
        ("score", {"questions_to": "out/x.jsonl", "targets": "out/x.jsonl.manifest"}, "out/x.jsonl.manifest"),
        ("score", {"questions_to": "out/x.jsonl", "targets": "out/x-2.jsonl"}, "out/x-2.jsonl"),
        ("score", {"log_file": "answers.sqlite"}, "answers.sqlite"),
        ("score", {"log_file": "answers.sqlite-wal"}, "answers.sqlite-wal"),
        ("score", {"log_file": "s-wal", "store": "s"}, "s-wal"),
        ("score", {"log_file": "s-shm", "model": ["recorded:s#nano"]}, "s-shm"),
        ("evaluate", {"scores": "run/scores/s.jsonl", "output": "run"}, "run/scores/s.jsonl"),
        ("evaluate", {"human": "run/ratings.jsonl", "output": "run"}, "run/ratings.jsonl"),
        ("evaluate", {"log_file": "run/evaluation.json", "output": "run"}, "run/evaluation.json"),
        ("generate", {"findings": "lad/ladders.parquet", "output": "lad"}, "lad/ladders.parquet"),
        ("generate", {"model": "lad", "output": "lad"}, "lad/README.md"),
    ],
)
def test_what_is_written_beside_a_file_or_in_a_folder_replaces_nothing_that_is_read(verb, values, read):
    for file in (Path("out/x.jsonl"), Path(read)):
        make(file)
    Path("link.jsonl").unlink()
    Path("link.jsonl").symlink_to("out/x.jsonl")
    with pytest.raises(InputError, match="Name another file"):
        register.require_outputs_apart(verb, values)


@pytest.mark.parametrize(
    ("verb", "values"),
    [
        ("generate", {"output": "lad", "findings": "lad/checks.jsonl"}),
        ("generate", {"output": "story", "task": "story", "attribute": ["coherence"]}),
        ("generate", {"output": "coherence", "task": "story", "attribute": ["coherence"]}),
        ("generate", {"output": "lad", "task": "lad/tasks/email"}),
        ("score", {"output": "lad/scores.jsonl", "references": "lad", "store": "lad/answers.sqlite"}),
        ("evaluate", {"output": "lad", "references": "lad", "scores": "lad/scores.jsonl"}),
    ],
)
def test_a_command_may_be_run_again_with_what_lies_beside_its_outputs(verb, values):
    for file in (
        "ladders.parquet",
        "README.md",
        "checks.jsonl",
        "scores.jsonl",
        "ratings.jsonl",
        "tasks/email/task.toml",
    ):
        for folder in ("lad", "story", "coherence"):
            make(Path(folder, file))
    for folder in ("story", "coherence"):
        Path(folder, "tasks/email/task.toml").unlink()
    register.require_outputs_apart(verb, values)


def test_what_stdin_is_read_from_is_not_replaced_in_a_folder():
    make(Path("run/scores/stdin.jsonl"))
    values = {"scores": "-", "output": "run"}
    code = f"from synthscore.cli import register; register.require_outputs_apart('evaluate', {values})"
    with Path("run/scores/stdin.jsonl").open() as stdin:
        done = subprocess.run([sys.executable, "-c", code], stdin=stdin, capture_output=True, text=True, check=False)
    assert "expected files of their own" in done.stderr
