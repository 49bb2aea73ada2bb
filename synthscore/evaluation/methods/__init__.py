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
from collections.abc import Mapping

from . import comparing, floors, ladders, overlap_metrics, rating
from .base import Kind, Method, MethodError, Tools
from .derived import SUMS, Sum, file_column, parse_sum

__all__ = ["KINDS", "Kind", "Method", "MethodError", "Tools", "method", "register", "split_methods", "uses"]

KINDS: dict[str, Kind] = {**ladders.KINDS, **rating.KINDS, **comparing.KINDS, **overlap_metrics.KINDS, **floors.KINDS}
"""Name -> kind of method; sums and files of scores have none."""

ELSEWHERE = ("bertscore", "gptscore", "bartscore", "unieval", "zepo", "pairs-beam", "meteor")
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
    if parts := _summed(spec):
        how, specs = spec.partition("(")[0], tuple(parts)
        if how not in SUMS:
            raise MethodError(f"cannot make {spec!r}: there is no sum {how!r}, expected one of {', '.join(SUMS)}")
        weights, names = parse_sum(specs)
        return Sum(how, specs, tuple(map(method, names)), weights)
    name, _, settings = spec.partition(":")
    if name == "file":
        return file_column(settings)
    if name in KINDS:
        return KINDS[name].method(spec, settings)
    if name in ELSEWHERE:
        raise MethodError(
            f"the method {name} is not part of synthscore, but of papers/ beside it. In a checkout of the repository, "
            "say `python -m papers evaluate ...` instead of `synthscore evaluate ...`; in Python, import papers",
            spec=spec,
        )
    raise MethodError(
        f"there is no method {spec!r}. There are: {', '.join(KINDS)}; zsum(A,B), ranksum(A,B) and file:PATH",
        spec=spec,
    )


def uses(spec: str) -> set[str]:
    """What the method needs of Tools: some of "judge" and "references"."""
    if parts := _summed(spec.strip()):
        return set().union(*map(uses, parse_sum(parts)[1]))
    kind = KINDS.get(spec.strip().partition(":")[0])
    return set(kind.uses) if kind else set()


def _summed(spec: str) -> list[str]:
    """What a sum adds up; empty where it is none."""
    of = re.fullmatch(r"\w+\((.*)\)", spec, re.DOTALL)
    return split_methods(of[1]) if of else []


def split_methods(specs: str) -> list[str]:
    """The specs in a text with commas between; a comma inside brackets or between options is none of them.

    >>> split_methods("length,g-eval:samples=20,seed=1,zsum(ladder,overlap)")
    ['length', 'g-eval:samples=20,seed=1', 'zsum(ladder,overlap)']
    """
    found: list[str] = []
    depth, start = 0, 0
    for index, character in enumerate(f"{specs},"):
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 0:
            part, start = specs[start:index].strip(), index + 1
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
