"""How many broken lines do the tests notice?

    nice python -m benchmarks.mutants [--lines 120] [--seed 0] [--calls FILE] [--again]

One line after another is broken in a copy of the last commit: a comparison turned round or moved by one, + for -, * for
/, another constant, `and` for `or`, `min` for `max`, a `not` or a sign left out, two arguments swapped. Lines are drawn
at random from the rooms that compute and keep; messages, types and docstrings are left alone. Then the quick tests
run that call its function, the quickest first, until one fails; which these are is found out first, and kept in the
file of --calls. A test that takes four minutes of CPU time counts as a failure: it never ends. --again breaks the lines
of the kept result that no test noticed, in today's code, and runs the slow tests of their rooms as well; and those of a
run that did not end. Broken lines
that change nothing stand in SAME, with the reason.
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
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

ROOMS = ("io", "judging", "store", "ladders", "scoring", "thresholds", "ranking", "evaluation")
MOST_SECONDS = 240  # of CPU time, of one test
_FIRST = 12  # tests that run before the others are even collected
RESULT = Path(__file__).parent / "results" / "mutants.json"
ROOT = Path(__file__).parents[1]

SAME: dict[str, str] = {
    "probs = np.stack([verdicts.better[pairs], verdicts.worse[pairs], verdicts.similar[pairs]], axis=1)": "of "
    "arrays of one dimension, axis 1 is the last",
    "warnings.warn(message, SynthscoreWarning, stacklevel=3)": "a warning is shown without the line that it came from",
    "_CALM = 20.0  # rounds, half of those after which the weights of answers change by less and less": "the fit "
    "comes to rest at the same point, in other rounds",
    "in_order = comparisons.first != low": "the two orders have the same part in all that follows",
    'worst = [(-2.0, "")]  # (largest difference, key) of each answer': "below every difference, as -1",
    "sizes = np.concatenate([sizes, sizes + 2])": "subsets of equally many texts stay together, in the same order",
    "for name, k in zip(ids, part.tolist(), strict=False):": "there is one part for each id",
    "MAX_ITERATIONS = 99": "a bound that is far beyond what any fit takes",
    "n_contexts: int = 1": "whoever makes an Agreement says how many",
}
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

Calls = dict[str, dict[str, float]]
"""Function, as PATH:NAME -> the quick tests that call it, and how long each takes, seconds."""


def files_of(folder: Path, room: str = "") -> list[str]:
    """Those of a room, or of all of them; then those that import it."""
    rooms = "|".join([room] if room else ROOMS)
    ranked = []
    for file in sorted((folder / "tests").rglob("test_*.py")):
        near, text = file.parts[-2] in rooms.split("|"), file.read_text(encoding="utf-8")
        if near or re.search(rf"synthscore\.({rooms})\b|synthscore import .*\b({rooms})\b", text):
            ranked.append((not near, str(file.relative_to(folder))))
    return [file for _, file in sorted(ranked) if not file.startswith(("tests/papers", "tests/training"))]


def callers(folder: Path, calls: Calls, path: str, line: int) -> list[str]:
    """The quick tests that call the function of a line, the quickest first; of a line outside all functions, or in
    one that is called on import, those that call most of the module's."""
    tree = ast.parse((folder / path).read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    around = [node for node in functions if _first(node) <= line <= (node.end_lineno or 0)]
    if around and (found := calls.get(f"{path}:{max(around, key=_first).name}")):
        return sorted(found, key=lambda test: found[test])
    met = Counter(test for node in functions for test in calls.get(f"{path}:{node.name}", {}))
    return [test for test, _ in met.most_common()]


def _first(node: ast.FunctionDef) -> int:
    return min(each.lineno for each in [node, *node.decorator_list])


class Plugin:
    """Tells of the first test that fails; or, where `calls` is given, of what each one calls."""

    def __init__(self, told: Any, calls: Calls | None = None) -> None:
        self.told, self.calls, self.met = told, calls, set[CodeType]()

    def pytest_runtest_logstart(self) -> None:
        self.told.send("")

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and self.calls is None:
            self.told.send(f"{report.nodeid} (import)")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and self.calls is None:
            self.told.send(report.nodeid)
        if report.when == "teardown" and self.calls is not None:
            for code in self.met:
                name = code.co_filename.removeprefix(f"{os.getcwd()}/")
                if name.startswith("synthscore/"):
                    self.calls.setdefault(f"{name}:{code.co_name}", {})[report.nodeid] = self.seconds
            self.met.clear()

    def pytest_runtest_setup(self) -> None:
        if self.calls is not None:
            threading.settrace(self._enter)
            sys.settrace(self._enter)
            self.start = time.perf_counter()

    def pytest_runtest_teardown(self) -> None:
        if self.calls is not None:
            sys.settrace(None)
            self.seconds = time.perf_counter() - self.start

    def _enter(self, frame: Any, event: str, arg: object) -> None:
        self.met.add(frame.f_code)


def _run(folder: str, tests: list[str], told: Any, calls: Path | None) -> None:
    import pytest

    os.chdir(folder)
    os.setsid()
    sys.path.insert(0, folder)
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1), os.dup2(silent, 2)
    plugin = Plugin(told, {} if calls else None)
    how = ["-n0", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]  # imported already
    code = pytest.main([*how, *(["-m", "not slow"] if calls else ["-x"]), *tests], plugins=[plugin])
    if calls:
        calls.write_text(json.dumps(plugin.calls))
    told.send(None if code in (0, 5) or calls else f"pytest ended with {code}")  # 5: no tests
    os._exit(0)


def _cpu_seconds(pid: int) -> float:
    ticks = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[-1].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def noticed_by(folder: Path, tests: list[str], calls: Path | None = None) -> str:
    """The first test that fails; "" where none does. In a process that has what is heavy imported already.

    calls : a file for the functions that the quick ones of the tests call
    """
    here, there = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_run, args=(str(folder), tests, there, calls))
    process.start()
    there.close()
    try:
        begun = _cpu_seconds(process.pid)
        while _cpu_seconds(process.pid) - begun < MOST_SECONDS:
            if here.poll(1):
                if (name := here.recv()) != "":
                    return name or ""
                begun = _cpu_seconds(process.pid)
        return f"a test does not end in {MOST_SECONDS} s"
    except EOFError:
        sys.exit(f"the process that ran {tests[:3]} died")
    finally:
        if process.is_alive():
            os.killpg(process.pid, 9)
        process.join()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=Path, default=Path("calls.json"), help="of another run of this code, or made")
    parser.add_argument("--again", action="store_true", help="what the kept result lacks")
    args = parser.parse_args()
    for heavy in (
        "datasets",
        "pandas",
        "pyarrow.parquet",
        "scipy.optimize",
        "scipy.stats",
        "torch",
        "transformers",
        "pytest",
        "hypothesis",
        "hypothesis.strategies",
    ):
        importlib.import_module(heavy)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        archive = subprocess.Popen(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE)
        subprocess.run(["tar", "-x", "-C", name], stdin=archive.stdout, check=True)
        os.environ["PYTHONPATH"] = name
        if not args.calls.exists():
            noticed_by(folder, files_of(folder), calls=args.calls.resolve())
        calls = json.loads(args.calls.read_text())
        print(f"{len(calls)} functions are called by {len({test for of in calls.values() for test in of})} tests")
        mutants = json.loads(RESULT.read_text())["lines"] if args.again else drawn(folder, args.lines, args.seed)
        for number, mutant in enumerate(mutants, 1):
            if mutant.get("noticed_by") or ("noticed_by" in mutant and mutant["after"].strip() in SAME):
                continue
            path, start = folder / mutant["path"], time.perf_counter()
            sound = path.read_text(encoding="utf-8")
            lines = sound.split("\n")
            at = [i for i, line in enumerate(lines) if line == mutant["before"]][mutant["nth"]]
            lines[at] = mutant["after"]
            mutant["line"] = at + 1
            quick, room = callers(folder, calls, mutant["path"], at + 1), mutant["path"].split("/")[1]
            path.write_text("\n".join(lines), encoding="utf-8")
            near = [test for test in quick if test.startswith(f"tests/{room}/")]
            slow = ["-m", "slow", *files_of(folder, room)] if "noticed_by" in mutant else []
            runs = [near[:_FIRST], near[_FIRST:], [test for test in quick if test not in near], slow]
            mutant["noticed_by"] = next((by for tests in runs if tests and (by := noticed_by(folder, tests))), "")
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
