"""The methods that people compare with, by name. What they are: docs/baselines.md.

>>> from synthscore.evaluation.methods import Tools, method
>>> scores = method("g-eval:samples=20,seed=1")(ratings, "coherence", Tools(judge))

NAME                        a kind with its defaults
NAME:option=value,...       with options
file:PATH                   a column of scores out of a file; :option=value,... may follow
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from . import comparing, floors, ladders, overlap_metrics, placing, rating
from .base import Kind, Method, MethodError, Tools
from .columns import file_column

__all__ = ["KINDS", "Kind", "Method", "MethodError", "Tools", "method", "register", "split_methods", "uses"]

_MODULES = (ladders, placing, rating, comparing, overlap_metrics, floors)
KINDS: dict[str, Kind] = {name: kind for module in _MODULES for name, kind in module.KINDS.items()}
"""Name -> kind of method; files of scores have none."""

ELSEWHERE = ("bertscore", "gptscore", "bartscore", "unieval", "zepo", "pairs-beam", "meteor", "prompt-scoring")
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
    raise MethodError(f"there is no method {spec!r}. There are: {', '.join(KINDS)}; and file:PATH", spec=spec)


def uses(spec: str) -> set[str]:
    """What the method needs of Tools: some of "judge" and "references"."""
    kind = KINDS.get(spec.strip().partition(":")[0])
    return set(kind.uses) if kind else set()


def split_methods(specs: str) -> list[str]:
    """The specs in a text with commas between; a comma between options is none of them.

    >>> split_methods("length,g-eval:samples=20,seed=1,overlap")
    ['length', 'g-eval:samples=20,seed=1', 'overlap']
    """
    found = [spec.strip() for spec in re.split(r",(?!\s*\w+=)", specs)]
    if not all(found):
        raise MethodError(
            f"cannot tell the methods in {specs!r}: a name is empty. Expected names with commas between, such as "
            "length,overlap"
        )
    return found
