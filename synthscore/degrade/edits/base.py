"""What edits are made of: the material that they draw on, their register, and the small steps that they share."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import TypeVar

from numpy.random import Generator

from ...types import IntArray
from ..reading import bare, like, sentences


@dataclass(frozen=True, slots=True)
class Material:
    """What damage may draw on, besides the text itself."""

    context: str = ""  # source article, dialogue history (a turn a line), story idea, triples ("s | p | o", one a line)
    facts: str = ""
    foreign: tuple[str, ...] = ()  # texts of other contexts: foreign sentences, turns, names and values come from here


Edit = Callable[[str, Generator, Material], "str | None"]

EDITS: dict[str, Edit] = {}
"""Name -> edit: `dropped_word` is "dropped-word". It gives None where there is nothing that it could damage."""

T = TypeVar("T")


class NoPlaceError(Exception):
    """There is nothing here that the edit could damage."""


def edit(function: Callable[[str, Generator, Material], str]) -> Edit:
    """Put the function, which raises NoPlaceError where it finds no place, into the register."""

    @wraps(function)
    def made(text: str, rng: Generator, material: Material) -> str | None:
        try:
            return function(text, rng, material)
        except NoPlaceError:
            return None

    EDITS[function.__name__.replace("_", "-")] = made
    return made


def require(found: object) -> None:
    """raises : NoPlaceError"""
    if not found:
        raise NoPlaceError


def pick(rng: Generator, options: Sequence[T]) -> T:
    """raises : NoPlaceError for no options"""
    require(options)
    return options[int(rng.integers(len(options)))]


def about_as_long(rng: Generator, options: Sequence[str], n_words: int, tries: int = 3) -> str:
    """Of a few options drawn, the one whose number of words is nearest."""
    return min(
        [pick(rng, options) for _ in range(tries)],
        key=lambda option: abs(len(option.split()) - n_words),
    )


def shuffled(rng: Generator, n: int, tries: int) -> IntArray:
    """An order of 0..n-1 in which no number follows the one before it; any, after so many tries."""
    order = rng.permutation(n)
    for _ in range(tries):
        if all(order[i + 1] != order[i] + 1 for i in range(n - 1)):
            break
        order = rng.permutation(n)
    return order


def join(parts: Sequence[str]) -> str:
    return " ".join(part for part in parts if part)


def put(word: str, new: str) -> str:
    """`new` in place of the word's letters; marks before and after, and a capital, are kept."""
    match = re.match(r"^(\W*)(.*?)(\W*)$", word, re.DOTALL)
    before, core, after = match.groups() if match else ("", word, "")
    if core[:1].isupper() and not (core == "I" and len(core) == 1):
        new = new[:1].upper() + new[1:]
    return before + new + after


def mend_articles(words: list[str], index: int) -> None:
    """a / an before words[index], after that word has changed."""
    if 0 < index < len(words) and words[index - 1].lower() in ("a", "an"):
        vowel = words[index].lstrip("\"'`(")[:1].lower() in tuple("aeio")
        words[index - 1] = put(words[index - 1], "an" if vowel else "a")


def change_one(
    text: str,
    rng: Generator,
    fits: Callable[[list[str], int], object],
    change: Callable[[list[str], int], object],
) -> str:
    """The text with one word changed, of those that fit. change : does it, in place"""
    words = text.split()
    change(words, pick(rng, [i for i in range(len(words)) if fits(words, i)]))
    return join(words)


def exchange_one(text: str, rng: Generator, table: Mapping[str, str], read: Callable[[str], str] = bare) -> str:
    """The text with one word exchanged by the table. read : a word as the table spells it"""

    def change(words: list[str], i: int) -> None:
        words[i] = put(words[i], table[read(words[i])])
        mend_articles(words, i)

    return change_one(text, rng, lambda words, i: read(words[i]) in table, change)


def place(parts: Sequence[str], index: int, new: str, replace: bool) -> str:
    """The sentences with a new one in place of that at the index, or after it."""
    return join([*parts[: index + (not replace)], new, *parts[index + 1 :]])


def stock(text: str, ready: Sequence[str], rng: Generator, share: float) -> str:
    """A ready-made sentence between the sentences, or (a share of the times) in place of one of them."""
    parts, shown = sentences(text), {like(sentence, text): sentence for sentence in ready}
    free = [sentence for sentence in shown if sentence not in parts]
    index = pick(rng, [i for i, part in enumerate(parts) if part not in shown])
    require(free)
    replace = rng.random() < share
    new = about_as_long(rng, free, len(parts[index].split()), 2) if replace else pick(rng, free)
    return place(parts, index, new, replace)
