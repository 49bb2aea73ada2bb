"""Damage to the wording: slips that leave what is said nearly as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from numpy.random import Generator

from ..reading import plain, sentences, starts_sentence
from ..words import tables
from .base import Material, change_one, choose, edit, join, pick, put, shuffled


@edit
def dropped_word(text: str, rng: Generator, material: Material) -> str | None:
    def can_go(words: Sequence[str], i: int) -> bool:
        noun = words[i - 1] in ("the", "a", "an") and plain(words[i]) and words[i + 1] in tables().prepositions
        return words[i] in tables().droppable or noun

    return change_one(
        text,
        rng,
        lambda words: [i for i in range(1, len(words) - 1) if can_go(words, i)],
        lambda words, i: words.pop(i),
    )


@edit
def doubled_word(text: str, rng: Generator, material: Material) -> str | None:
    harmless = tables().harmless
    return change_one(
        text,
        rng,
        lambda words: [i for i, word in enumerate(words) if word.isalpha() and word.lower() not in harmless],
        lambda words, i: words.insert(i + 1, words[i].lower()),
    )


def _phrase(words: Sequence[str], rng: Generator, shortest: int, longest: int) -> tuple[int, int] | None:
    """A random run of words without a mark between them."""
    size = int(rng.integers(shortest, longest + 1))
    starts = [i for i in range(len(words) - size + 1) if all(w.isalnum() for w in words[i : i + size])]
    start = pick(rng, starts)
    return None if start is None else (start, start + size)


@edit
def repeated_phrase(text: str, rng: Generator, material: Material) -> str | None:
    words = text.split()
    span = _phrase(words, rng, 2, 4)
    if span is None:
        return None
    start, end = span
    copy = words[start:end]
    if starts_sentence(words, start):
        copy[0] = copy[0].lower()
    return join(words[:end] + copy + words[end:])


@edit
def shuffled_window(text: str, rng: Generator, material: Material) -> str | None:
    words = text.split()
    span = _phrase(words, rng, 3, 5) or _phrase(words, rng, 3, 3)
    if span is None:
        return None
    start, end = span
    made = [words[start + i] for i in shuffled(rng, end - start, 4)]
    return None if made == words[start:end] else join(words[:start] + made + words[end:])


@edit
def wrong_function_word(text: str, rng: Generator, material: Material) -> str | None:
    confused = tables().confused

    def change(words: list[str], i: int) -> None:
        words[i] = put(words[i], choose(rng, confused[words[i].lower()]))

    return change_one(
        text,
        rng,
        lambda words: [i for i, word in enumerate(words) if word.isalpha() and word.lower() in confused],
        change,
    )


@edit
def agreement(text: str, rng: Generator, material: Material) -> str | None:
    """ "they was", "he run"."""
    forms, known = tables().agreement, tables().stopwords

    def fits(words: Sequence[str]) -> list[int]:
        after_person = [i for i in range(1, len(words)) if words[i - 1].lower() in ("he", "she", "it")]
        verbs = [i for i in after_person if re.fullmatch(r"[a-z]{3,}[^s\W]s", words[i]) and words[i] not in known]
        return [i for i, word in enumerate(words) if word in forms] + verbs

    def change(words: list[str], i: int) -> None:
        words[i] = forms.get(words[i], words[i][:-1])

    return change_one(text, rng, fits, change)


def _wrong_form(words: Sequence[str], index: int) -> str:
    """A form of the word that is wrong here; "" where none is known."""
    word, before = words[index], words[index - 1].lower() if index else ""
    if not plain(word):
        return ""
    if word in tables().wrong_forms:
        return tables().wrong_forms[word]
    if before in (*tables().plural_before, *tables().number_words) and re.fullmatch(r"\w{3,}[^s]s", word):
        return word[:-1]
    if len(word) > 4 and word.endswith("ed") and word not in tables().not_past:
        return word[:-3] + "ying" if word.endswith("ied") else word[:-2] + "ing"
    if len(word) > 5 and word.endswith("ly") and index + 1 < len(words) and not word.endswith(("ily", "bly", "ply")):
        return word[:-2]
    return ""


@edit
def wrong_inflection(text: str, rng: Generator, material: Material) -> str | None:
    def change(words: list[str], i: int) -> None:
        words[i] = _wrong_form(words, i)

    return change_one(text, rng, lambda words: [i for i in range(len(words)) if _wrong_form(words, i)], change)


@edit
def cut_off_ending(text: str, rng: Generator, material: Material) -> str | None:
    whole = sentences(text)
    words = whole[-1].split() if whole else []
    if len(words) < 6 or not re.search(r"[.!?][\"')\]]*$", text.rstrip()):
        return None
    ends = range(max(3, len(words) - 7), len(words) - 1)
    after_function = [end for end in ends if words[end - 1].lower() in tables().stopwords]
    end = pick(rng, after_function or ends)
    return join([*whole[:-1], " ".join(words[:end]).rstrip(",;:.")])
