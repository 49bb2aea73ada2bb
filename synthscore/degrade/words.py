"""The words of English that damage and reading know: data/degrade/words.toml, read once, when first needed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ..resources import read_toml, resource


@dataclass(frozen=True)
class Tables:
    """Tables by name; what each holds stands in the file."""

    abbreviations: frozenset[str]
    auxiliaries: frozenset[str]
    bound: frozenset[str]
    droppable: frozenset[str]
    harmless: frozenset[str]
    name_joiners: frozenset[str]
    not_past: frozenset[str]
    ornaments: frozenset[str]
    place_words: frozenset[str]
    plural_before: frozenset[str]
    stopwords: frozenset[str]
    titles: frozenset[str]

    big_numbers: tuple[str, ...]
    days: tuple[str, ...]
    dull_sentences: tuple[str, ...]
    fillers: tuple[str, ...]
    generic_replies: tuple[str, ...]
    months: tuple[str, ...]
    number_words: tuple[str, ...]
    ordinals: tuple[str, ...]
    prepositions: tuple[str, ...]
    spoilers: tuple[str, ...]
    stilted_closings: tuple[str, ...]
    stock_endings: tuple[str, ...]

    confused: Mapping[str, list[str]]
    feelings: Mapping[str, str]
    stilted: Mapping[str, str]
    wrong_forms: Mapping[str, str]
    agreement: Mapping[str, str]
    antonyms: Mapping[str, str]


@cache
def tables() -> Tables:
    found = read_toml(resource("data/degrade/words.toml"))
    return Tables(
        **{name: frozenset(words) for name, words in found["sets"].items()},
        **{name: tuple(words) for name, words in found["lists"].items()},
        **found["maps"],
        **{name: both_ways(pairs) for name, pairs in found["both_ways"].items()},
    )


def both_ways(pairs: Mapping[str, str]) -> dict[str, str]:
    """Each word of a pair -> the other; the first mention of a word counts."""
    table: dict[str, str] = {}
    for left, right in pairs.items():
        table.setdefault(left, right)
        table.setdefault(right, left)
    return table
