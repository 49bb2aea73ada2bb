"""How many broken lines do the tests notice?

    CI=1 nice python -m benchmarks.mutants [--lines 120] [--seed 0] [--again]

One line after another is broken in a copy of the last commit: a comparison turned round or moved by one, + for -, * for
/, another constant, `and` for `or`, `min` for `max`, a `not` or a sign left out, two arguments swapped. Lines are drawn
at random from the rooms that compute and keep; messages, types and docstrings are left alone. Then the tests of the
room run, those that name the module first, and those outside that import the room, until one fails. A test of more than
four minutes counts as a failure: it never ends. --again breaks the lines of the kept result that no test noticed, in
today's code: broken lines that change nothing stand in SAME, with the reason.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

ROOMS = ("io", "judging", "store", "ladders", "scoring", "thresholds", "ranking", "evaluation")
MOST_SECONDS = 240  # of one test
RESULT = Path(__file__).parent / "results" / "mutants.json"
ROOT = Path(__file__).parents[1]

SAME: dict[str, str] = {}
"""Broken line, stripped -> why it does what the sound one does."""

_COMPARED = {
    ast.Lt: ("<=", ">="), ast.LtE: ("<", ">"), ast.Gt: (">=", "<="), ast.GtE: (">", "<"), ast.Eq: ("!=",),
    ast.NotEq: ("==",), ast.Is: ("is not",), ast.IsNot: ("is",), ast.In: ("not in",), ast.NotIn: ("in",),
}  # fmt: skip
_COMPUTED = {
    ast.Add: ("-",), ast.Sub: ("+",), ast.Mult: ("/",), ast.Div: ("*",), ast.FloorDiv: ("/",), ast.Pow: ("*",),
    ast.Mod: ("*",),
}  # fmt: skip
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "minimum": "maximum", "maximum": "minimum"}
_TEXTS = {"message", "seen", "remedy", "where", "advice", "hint", "reason", "why"}


# ------------------------------------------------------------------------------------------------- broken lines


def broken_lines(path: Path) -> dict[int, list[str]]:
    """Line number -> what it may become."""
    source = path.read_text(encoding="utf-8")
    found: dict[int, list[str]] = {}
    for node in _nodes(ast.parse(source)):
        for start, end, text in _breaks(node, source):
            lines = (source[:start] + text + source[end:]).split("\n")
            number = source.count("\n", 0, start) + 1
            if "\n" not in source[start:end] and _parses("\n".join(lines)):
                found.setdefault(number, []).append(lines[number - 1])
    return found


def _parses(source: str) -> bool:
    try:
        return bool(compile(source, "", "exec"))
    except SyntaxError:
        return False


def _nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Those that compute: no annotation, decorator, message or type."""
    for name, value in ast.iter_fields(tree):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST) and not _talks(node):
                yield node
                yield from _nodes(node)


def _talks(node: ast.AST) -> bool:
    names = {target.id for target in getattr(node, "targets", []) if isinstance(target, ast.Name)}
    types = isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.BitOr)
    return isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom) or bool(names & _TEXTS) or types


def _breaks(node: ast.AST, source: str) -> Iterator[tuple[int, int, str]]:
    """Start, end, and what stands there instead."""
    if isinstance(node, ast.Compare):
        for left, op, right in zip([node.left, *node.comparators], node.ops, node.comparators, strict=False):
            for other in _COMPARED[type(op)]:
                yield _end(left, source), _start(right, source), f" {other} "
    elif isinstance(node, ast.BinOp) and type(node.op) in _COMPUTED and not (_text(node.left) or _text(node.right)):
        between = source[_end(node.left, source) : _start(node.right, source)]
        for other in _COMPUTED[type(node.op)]:
            changed = re.sub(r"\*\*|//|[-+*/%]", other, between, count=1)
            yield _end(node.left, source), _start(node.right, source), changed
    elif isinstance(node, ast.BoolOp):
        word, other = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            start, end = _end(left, source), _start(right, source)
            yield start, end, re.sub(rf"\b{word}\b", other, source[start:end])
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        yield _start(node, source), _start(node.operand, source), ""
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float, bool):
        start, value = _start(node, source), node.value
        others = (not value,) if isinstance(value, bool) else (value + 1, value - 1) if isinstance(value, int) else ()
        for other in others or (value * 2 if value else 1.0,):
            yield start, _end(node, source), repr(other)
    elif isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in _NAMES:
            end = _end(node.func, source)
            yield end - len(name), end, _NAMES[name]
        if len(node.args) > 1 and all(isinstance(each, ast.Name | ast.Attribute) for each in node.args[:2]):
            (a, b), (c, d) = ((_start(each, source), _end(each, source)) for each in node.args[:2])
            if source[a:b] != source[c:d] and name != "isinstance":
                yield a, d, source[c:d] + source[b:c] + source[a:b]


def _text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _offset(source: str, line: int, column: int) -> int:
    lines = source.split("\n")
    return sum(len(each) + 1 for each in lines[: line - 1]) + len(lines[line - 1].encode()[:column].decode())


def _start(node: ast.AST, source: str) -> int:
    return _offset(source, node.lineno, node.col_offset)  # type: ignore[attr-defined]


def _end(node: ast.AST, source: str) -> int:
    return _offset(source, node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]


def drawn(folder: Path, n: int, seed: int) -> list[dict[str, str | int]]:
    """n lines, each with one way to break it."""
    rng = np.random.default_rng(seed)
    paths = [path for room in ROOMS for path in sorted((folder / "synthscore" / room).rglob("*.py"))]
    breaks = {path: broken_lines(path) for path in paths}
    places = [(path, number) for path in paths for number in sorted(breaks[path])]
    found = []
    for place in rng.permutation(len(places))[:n]:
        path, number = places[place]
        after = breaks[path][number][rng.integers(len(breaks[path][number]))]
        lines = path.read_text(encoding="utf-8").split("\n")
        nth = lines[: number - 1].count(lines[number - 1])  # so that it is found again in other code
        found.append({"path": str(path.relative_to(folder)), "before": lines[number - 1], "after": after, "nth": nth})
    return found


# ------------------------------------------------------------------------------------------------- tests


def tests_of(folder: Path, path: str) -> list[str]:
    """Test files: of the room, those that name the module first; then others that import the room."""
    module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    room, name = path.split("/")[1], module.rsplit(".", 1)[-1]
    ranked = []
    for file in sorted((folder / "tests").rglob("test_*.py")):
        text = file.read_text(encoding="utf-8")
        near = file.parts[-2] == room
        names = re.search(rf"\b{module}\b|synthscore\.{room}\S* import .*\b{name}\b", text)
        if near or re.search(rf"synthscore\.{room}\b|synthscore import .*\b{room}\b", text):
            ranked.append((not (near and names), not (near or names), not near, str(file.relative_to(folder))))
    return [file for *_, file in sorted(ranked)]


def _run(folder: str, files: list[str], told: multiprocessing.connection.Connection) -> None:  # type: ignore[name-defined]
    import pytest

    class First:
        def pytest_runtest_logstart(self) -> None:
            told.send("")

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                told.send(report.nodeid)

        def pytest_collectreport(self, report: pytest.CollectReport) -> None:
            if report.failed:
                told.send(f"{report.nodeid} (import)")

    os.chdir(folder)
    os.setsid()
    sys.path.insert(0, folder)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1), os.dup2(silent, 2)
    quiet = ["-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what is imported already
    code = pytest.main(["-x", "-n0", *quiet, *files], plugins=[First()])
    told.send(None if code == 0 else f"pytest ended with {code}")
    os._exit(0)


def noticed_by(folder: Path, files: list[str]) -> str:
    """The first test that fails; "" where none does. In a process that has what is heavy imported already."""
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_run, args=(str(folder), files, there))
    process.start()
    there.close()
    try:
        while here.poll(MOST_SECONDS):
            if (name := here.recv()) != "":
                return name or ""
        return f"a test does not end in {MOST_SECONDS} s"
    except EOFError:
        return "the process died"
    finally:
        if process.is_alive():
            os.killpg(process.pid, 9)
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", action="store_true", help="only what was not noticed; the kept result is completed")
    args = parser.parse_args()
    for heavy in ("datasets", "pandas", "pyarrow.parquet", "scipy.optimize", "scipy.stats", "torch", "transformers"):
        importlib.import_module(heavy)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archive = subprocess.Popen(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", name], stdin=archive.stdout, check=True)
        os.environ["PYTHONPATH"] = name
        assert not noticed_by(folder, ["tests/test_types.py"]), "a test fails with nothing broken"
        mutants = json.loads(RESULT.read_text())["lines"] if args.again else drawn(folder, args.lines, args.seed)
        for number, mutant in enumerate(mutants, 1):
            if mutant.get("noticed_by"):
                continue
            path, start = folder / mutant["path"], time.perf_counter()
            sound = path.read_text(encoding="utf-8")
            lines = sound.split("\n")
            at = [i for i, line in enumerate(lines) if line == mutant["before"]][mutant["nth"]]
            lines[at] = mutant["after"]
            path.write_text("\n".join(lines), encoding="utf-8")
            mutant["line"] = at + 1
            mutant["noticed_by"] = noticed_by(folder, tests_of(folder, mutant["path"]))
            path.write_text(sound, encoding="utf-8")
            mutant["seconds"] = round(time.perf_counter() - start)
            print(number, _told(mutant), flush=True)
            RESULT.write_text(json.dumps({"seed": args.seed, "lines": mutants}, indent=1) + "\n")
        tests = {mutant["noticed_by"] for mutant in mutants if "::" in mutant["noticed_by"]}
        if failing := noticed_by(folder, sorted(tests)):
            sys.exit(f"{failing} fails with nothing broken")
    same = [mutant for mutant in mutants if mutant["after"].strip() in SAME]
    left = [mutant for mutant in mutants if not mutant["noticed_by"] and mutant not in same]
    n = len(mutants) - len(same)
    told = [f"{len(mutants)} broken lines (seed {args.seed}), {len(same)} of them change nothing"]
    told += [f"noticed: {n - len(left)} of {n} = {(n - len(left)) / n:.1%}", "", "not noticed:", *map(_told, left)]
    told += ["", "change nothing:", *(f"{_told(each)}\n    {SAME[each['after'].strip()]}" for each in same)]
    RESULT.with_suffix(".txt").write_text("\n".join(told) + "\n")


def _told(mutant: dict[str, str | int]) -> str:
    by = mutant["noticed_by"] or "NOT NOTICED"
    line = f"{mutant['path']}:{mutant['line']}  {str(mutant['before']).strip()}  ->  {str(mutant['after']).strip()}"
    return f"{line}\n    {by} ({mutant['seconds']} s)"


if __name__ == "__main__":
    main()
