"""The methods that people compare with, by name. What they are: docs/baselines.md.

>>> from synthscore.evaluation.methods import Tools, method
>>> scores = method("g-eval:samples=20,seed=1")(ratings, "coherence", Tools(judge))

NAME                        a kind with its defaults
NAME:option=value,...       with options
zsum(A,B), ranksum(A,B)     methods added up
file:PATH                   a column of scores out of a file; :option=value,... may follow
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from . import comparing, floors, ladders, overlap_metrics, rating
from .base import Kind, Method, MethodError, Tools

__all__ = ["KINDS", "Kind", "Method", "MethodError", "Tools", "method", "register", "split_methods"]

KINDS: dict[str, Kind] = {**ladders.KINDS, **rating.KINDS, **comparing.KINDS, **overlap_metrics.KINDS, **floors.KINDS}
"""Name -> kind of method; sums and files of scores have none."""

ELSEWHERE = ("bertscore", "gptscore", "bartscore", "unieval", "zepo", "meteor")
"""Kinds of papers/, which lies beside the package in its repository."""


def register(kinds: Mapping[str, Kind]) -> None:
    """Further kinds. raises : MethodError for a name that is taken"""
    if taken := sorted(kinds.keys() & KINDS.keys()):
        raise MethodError(f"cannot register {', '.join(taken)}: there are such methods. Choose other names")
    KINDS.update(kinds)


def method(spec: str) -> Method:
    """The method of a name; its spec is the name that tables show.

    raises : MethodError for a name or an option that is not there, or a value that an option does not take
    """
    spec = spec.strip()
    if sum_of := re.fullmatch(r"(\w+)\((.*)\)", spec, re.DOTALL):
        from .combine import combined

        how, parts = sum_of.groups()
        return combined(how, split_methods(parts))
    name, _, said = spec.partition(":")
    if name == "file":
        from .columns import column

        return column(said)
    if name in ELSEWHERE and name not in KINDS:
        raise MethodError(
            f"the method {name} is not part of synthscore, but of papers/ beside it. In a checkout of the repository, "
            f"say `python -m papers evaluate ...` instead of `synthscore evaluate ...`; in Python, import papers",
            spec=spec,
        )
    if name not in KINDS:
        raise MethodError(
            f"there is no method {spec!r}. There are: {', '.join(KINDS)}; zsum(A,B), ranksum(A,B) and file:PATH",
            spec=spec,
        )
    kind = KINDS[name]
    return kind.make(**_options(spec, said, kind.options or {}))


def split_methods(specs: str) -> list[str]:
    """The specs in a text with commas between; a comma inside brackets or between options is none of them.

    >>> split_methods("length,g-eval:samples=20,seed=1,zsum(ladder,overlap)")
    ['length', 'g-eval:samples=20,seed=1', 'zsum(ladder,overlap)']
    """
    found: list[str] = []
    depth, start = 0, 0
    for place, character in enumerate(f"{specs},"):
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 0:
            part, start = specs[start:place].strip(), place + 1
            if found and re.match(r"\w+=", part):
                found[-1] += f",{part}"
            else:
                found.append(part)
    if depth or not all(found):
        raise MethodError(
            f"cannot tell the methods in {specs!r}: a bracket is open or a name is empty. Expected names with commas "
            "between, such as length,zsum(ladder,overlap)"
        )
    return found


def _options(spec: str, said: str, parsers: Mapping[str, Callable[[str], object]]) -> dict[str, object]:
    """What is said behind the name of a kind: "samples=20,seed=1"."""
    options: dict[str, object] = {}
    for part in said.split(",") if said else ():
        name, equals, text = (piece.strip() for piece in part.partition("="))
        parser = parsers.get(name)
        if not equals or parser is None or name in options:
            seen = f"{name!r} twice" if name in options else f"{part!r}"
            raise MethodError(
                f"cannot make the method {spec!r}: it says {seen}. Expected options as NAME=VALUE, each once, out of: "
                f"{', '.join(parsers) or 'none'}",
                spec=spec,
            )
        try:
            options[name] = parser(text)
        except ValueError as error:
            expected = "a whole number" if parser is int else "a number" if parser is float else error
            raise MethodError(
                f"cannot make the method {spec!r}: {name} is {text!r}, expected {expected}", spec=spec
            ) from error
    return options
