"""A command line of a page -> what a terminal would show. What synthscore is asked to do runs in this process."""

from __future__ import annotations

import contextlib
import glob
import io
import json
import re
import shlex
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO
from unittest import mock

from .pages import tomllib

REPOSITORY = Path(__file__).resolve().parents[2]
COMMENT = re.compile(r"(?:^|\s)#\s.*")
ASSIGNMENT = re.compile(r"[A-Z_]+=\S*$")
TOOLS = ("cat", "cp", "head", "ls", "mkdir")  # run as they are


def run(line: str) -> tuple[int, str]:
    """Exit code of the last program of a pipe, and stdout and stderr together.

    raises : ValueError, for a program that no page should name
    """
    words = [word for part in line.split("\\\n") for word in _words(COMMENT.sub("", part))]
    terminal = io.BytesIO()
    code, data = 0, b""
    stages = list(_stages(words))
    for index, (argv, files) in enumerate(stages):
        with contextlib.ExitStack() as stack:
            if "<" in files:
                data = Path(files["<"]).read_bytes()
            pipe = io.BytesIO()
            out: BinaryIO = pipe if index + 1 < len(stages) else terminal
            if target := files.get(">") or files.get(">>"):
                out = stack.enter_context(open(target, "wb" if ">" in files else "ab"))
            code = _run_one(argv, data, out, terminal)
            data = pipe.getvalue()
    return code, terminal.getvalue().decode()


def _words(line: str) -> Iterator[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|<>")
    lexer.commenters, lexer.whitespace_split = "", True
    for word in lexer:
        found = sorted(glob.glob(word)) if "*" in word and f"'{word}'" not in line and f'"{word}"' not in line else []
        yield from found or [word]


def _stages(words: Sequence[str]) -> Iterator[tuple[list[str], dict[str, str]]]:
    """Programs of a pipe with their arguments, and the files that they read and write."""
    argv: list[str] = []
    files: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if word == "|":
            yield argv, files
            argv, files = [], {}
        elif word in ("<", ">", ">>"):
            files[word] = next(rest)
        elif argv or not ASSIGNMENT.match(word):
            argv.append(word)
    yield argv, files


def _run_one(argv: Sequence[str], data: bytes, out: BinaryIO, terminal: BinaryIO) -> int:
    program, *rest = argv
    if program in TOOLS:
        done = subprocess.run(argv, input=data, capture_output=True)
        out.write(done.stdout)
        terminal.write(done.stderr)
        return done.returncode
    if program in ("synthscore", "python") and (main := _main(argv)):
        with _streams(data, out, terminal), _printed_warnings():
            return main[0](main[1])
    if argv[:2] == ["vllm", "run-batch"]:
        _run_batch(rest[rest.index("-i") + 1], rest[rest.index("-o") + 1], rest[rest.index("--model") + 1])
        return 0
    checks: dict[str, Callable[[Sequence[str]], bool]] = {
        "python": lambda rest: rest[0] == "-m" and _module(rest[1]).is_file(),
        "make": lambda rest: all(re.search(f"^{name}:", (REPOSITORY / "Makefile").read_text(), re.M) for name in rest),
        "pip": lambda rest: rest[0] == "install" and _installs(rest[-1]),
        "vllm": lambda rest: rest[0] == "serve",
    }
    if program not in checks or not checks[program](rest):
        raise ValueError(f"a page runs {shlex.join(argv)!r}, which is not there")
    return 0


def _run_batch(questions: str, answers: str, model: str) -> None:
    """Answers a file as vLLM's would look, with labels and texts that are made up."""
    from tests.batch_lines import body_of, lines_of, result

    with open(answers, "w", encoding="utf-8") as out:
        for line in lines_of(questions):
            labels = body_of(line).get("structured_outputs", {}).get("choice", ["A text of some words."])
            text = labels[sum(map(ord, line["custom_id"])) % len(labels)]
            out.write(json.dumps(result(line, text, model=model)) + "\n")


def _main(argv: Sequence[str]) -> tuple[Callable[[Sequence[str]], int], Sequence[str]] | None:
    """What runs in this process, with its arguments."""
    if argv[0] == "synthscore":
        from synthscore.cli.app import main

        return main, argv[1:]
    if argv[1:3] == ["-m", "papers"]:
        from papers.__main__ import main as papers_main

        return papers_main, argv[3:]
    return None


def _module(name: str) -> Path:
    return (REPOSITORY / name.replace(".", "/")).with_suffix(".py")


def _installs(what: str) -> bool:
    """Whether `pip install WHAT` installs synthscore, with extras that it has, or papers/."""
    if what == "papers":
        return (REPOSITORY / what / "pyproject.toml").is_file()
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    named = re.fullmatch(r"(?:\.|synthscore)(?:\[(.+)\])?", what)
    return bool(named) and set((named[1] or "").split(",")) <= {"", *project["optional-dependencies"]}


@contextlib.contextmanager
def _streams(data: bytes, out: BinaryIO, terminal: BinaryIO) -> Iterator[None]:
    """stdin, stdout and stderr as text over these bytes; stdout and stderr in the order in which they are written."""
    kept = io.TextIOWrapper(terminal, encoding="utf-8", write_through=True)
    shown = kept if out is terminal else io.TextIOWrapper(out, encoding="utf-8", write_through=True)
    stdin = mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
    try:
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(kept), stdin:
            yield
    finally:
        for stream in {kept, shown}:
            stream.detach()


@contextlib.contextmanager
def _printed_warnings() -> Iterator[None]:
    """Warnings on stderr, as whoever types the command sees them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (UserWarning, RuntimeWarning):
            warnings.simplefilter("default", kind)
        warnings.showwarning = lambda message, category, filename, lineno, file=None, line=None: print(
            warnings.formatwarning(message, category, filename, lineno, line), end="", file=sys.stderr
        )
        yield
