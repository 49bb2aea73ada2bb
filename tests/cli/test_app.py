"""The frame of the command line, and what every verb promises."""

import re

import pytest

from synthscore.cli.app import VERBS, build_app, main
from synthscore.cli.options import USAGE


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


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_help_has_an_example_that_parses(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert main([*command.split(), "--help"]) == 0
    text = capsys.readouterr().out
    assert all(len(line) <= 100 for line in text.splitlines())
    examples = re.findall(r"^ *\$ synthscore (.+(?:\\\n.+)*)", text, re.MULTILINE)
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
