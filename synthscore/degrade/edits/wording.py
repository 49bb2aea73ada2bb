"""Damage to the wording: slips that leave what is said nearly as it is."""

from __future__ import annotations

import re
from collections.abc import Sequence

from numpy.random import Generator

from ..reading import plain, sentences, starts_sentence
from ..words import word_list, word_map, word_set
from .base import Material, change_one, edit, join, pick, put, require, shuffled


@edit
def dropped_word(text: str, rng: Generator, material: Material) -> str:
    def fits(words: Sequence[str], i: int) -> bool:
        if not 0 < i < len(words) - 1:
            return False
        noun = words[i - 1] in ("the", "a", "an") and plain(words[i]) and words[i + 1] in word_list("prepositions")
        return words[i] in word_set("droppable") or noun

    return change_one(text, rng, fits, lambda words, i: words.pop(i))


@edit
def doubled_word(text: str, rng: Generator, material: Material) -> str:
    return change_one(
        text,
        rng,
        lambda words, i: words[i].isalpha() and words[i].lower() not in word_set("harmless"),
        lambda words, i: words.insert(i + 1, words[i].lower()),
    )


def _phrases(words: Sequence[str], size: int) -> list[slice]:
    """All runs of so many words without a mark between them."""
    starts = range(len(words) - size + 1)
    return [slice(i, i + size) for i in starts if all(word.isalnum() for word in words[i : i + size])]


@edit
def repeated_phrase(text: str, rng: Generator, material: Material) -> str:
    words = text.split()
    phrase = pick(rng, _phrases(words, int(rng.integers(2, 5))))
    copy = words[phrase]
    if starts_sentence(words, phrase.start):
        copy[0] = copy[0].lower()
    return join(words[: phrase.stop] + copy + words[phrase.stop :])


@edit
def shuffled_window(text: str, rng: Generator, material: Material) -> str:
    words = text.split()
    phrase = pick(rng, _phrases(words, int(rng.integers(3, 6))) or _phrases(words, 3))
    window = words[phrase]
    made = [window[i] for i in shuffled(rng, len(window), 4)]
    require(made != window)
    return join(words[: phrase.start] + made + words[phrase.stop :])


@edit
def wrong_function_word(text: str, rng: Generator, material: Material) -> str:
    confused = word_map("confused")

    def change(words: list[str], i: int) -> None:
        words[i] = put(words[i], pick(rng, confused[words[i].lower()].split()))

    return change_one(text, rng, lambda words, i: words[i].isalpha() and words[i].lower() in confused, change)


@edit
def agreement(text: str, rng: Generator, material: Material) -> str:
    """They was; he run."""
    words, forms = text.split(), word_map("agreement")
    after_person = [i for i in range(1, len(words)) if words[i - 1].lower() in ("he", "she", "it")]
    verbs = [i for i in after_person if re.fullmatch(r"[a-z]{3,}[^s\W]s", words[i])]
    listed = [i for i, word in enumerate(words) if word in forms]
    index = pick(rng, listed + [i for i in verbs if words[i] not in word_set("stopwords")])
    words[index] = forms.get(words[index], words[index][:-1])
    return join(words)


def _wrong_form(words: Sequence[str], index: int) -> str:
    """A form of the word that is wrong here; "" where none is known."""
    word, before = words[index], words[index - 1].lower() if index else ""
    if not plain(word):
        return ""
    if word in word_map("wrong_forms"):
        return word_map("wrong_forms")[word]
    if before in (*word_set("plural_before"), *word_list("number_words")) and re.fullmatch(r"\w{3,}[^s]s", word):
        return word[:-1]
    if len(word) > 4 and word.endswith("ed") and word not in word_set("not_past"):
        return word[:-3] + "ying" if word.endswith("ied") else word[:-2] + "ing"
    if len(word) > 5 and word.endswith("ly") and index + 1 < len(words) and not word.endswith(("ily", "bly", "ply")):
        return word[:-2]
    return ""


@edit
def wrong_inflection(text: str, rng: Generator, material: Material) -> str:
    def change(words: list[str], i: int) -> None:
        words[i] = _wrong_form(words, i)

    return change_one(text, rng, _wrong_form, change)


@edit
def cut_off_ending(text: str, rng: Generator, material: Material) -> str:
    whole = sentences(text)
    words = whole[-1].split() if whole else []
    require(len(words) > 5 and re.search(r"[.!?][\"')\]]*$", text.rstrip()))
    ends = range(max(3, len(words) - 7), len(words) - 1)
    after_function = [end for end in ends if words[end - 1].lower() in word_set("stopwords")]
    end = pick(rng, after_function or ends)
    return join([*whole[:-1], " ".join(words[:end]).rstrip(",;:.")])
