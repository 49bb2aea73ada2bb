"""The words of English that damage and reading know: data/degrade/words.toml, read once, when first needed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from ..resources import read_toml, resource


@cache
def word_set(name: str) -> frozenset[str]:
    return frozenset(_tables()["sets"][name])


@cache
def word_list(name: str) -> tuple[str, ...]:
    """Words, or ready-made sentences, in an order that counts."""
    return tuple(_tables()["lists"][name])


@cache
def word_map(name: str) -> Mapping[str, str]:
    """A word -> what may stand in its place; of a table of both ways, either."""
    found = _tables()
    return found["maps"][name] if name in found["maps"] else both_ways(found["both_ways"][name])


def both_ways(pairs: Mapping[str, str]) -> dict[str, str]:
    """Each word of a pair -> the other; the first mention of a word counts."""
    table: dict[str, str] = {}
    for left, right in pairs.items():
        table.setdefault(left, right)
        table.setdefault(right, left)
    return table


@cache
def _tables() -> dict[str, dict[str, Any]]:
    return read_toml(resource("data/degrade/words.toml"))
