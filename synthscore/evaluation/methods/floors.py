"""Texts -> scores by methods that cost nothing: counts of words, a constant, and random numbers.

They are the floor that any other method stands on: a judge is worth what it agrees with people better than the best of
these. The constant and the random numbers show what figures in a table mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal

import numpy as np

from ...io.scores import Scores
from ...io.settings import Count, Seed
from ...scoring.method import Tools
from ...scoring.methods import MethodKind
from ...signature import Signature, seeded_rng
from ..ratings import Ratings
from .base import SetMethod, scored, signed

FLOORS = ("length", "overlap", "copied-span", "type-token-ratio")
"""Methods that any judge should be better than."""

Words = Literal["letters", "english", "spaces"]

WORDS: Mapping[str, Callable[[str], list[str]]] = {
    "letters": re.compile(r"\w+").findall,
    "english": re.compile(r"[a-z0-9']+").findall,
    "spaces": str.split,
}
"""What a word of a text in lower case is: a run of letters and digits of any script; a run of a to z, digits and
apostrophes, so that "don't" is one; or what stands between spaces, with its punctuation."""


@dataclass(slots=True)
class PerText:
    """A method whose scores are the same on every attribute. They are kept for the ratings that were scored last.

    compute : for each text a number, or the reason why it has none
    """

    compute: Callable[[Ratings], Iterable[float | str]]
    signature: Signature
    _last: tuple[Ratings, tuple[float | str, ...]] | None = None

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        if self._last is None or self._last[0] is not ratings:
            self._last = ratings, tuple(self.compute(ratings))
        return scored(ratings, attribute, self._last[1], self.signature)


def length(words: Words = "letters") -> SetMethod:
    """Number of words."""
    return _score_words("length", words, lambda text: len(_split(text, words)))


def type_token_ratio(words: Words = "letters") -> SetMethod:
    """Number of different words / number of words."""

    def ratio(text: str) -> float | str:
        tokens = _split(text, words)
        if not tokens:
            return "the text has no words"
        return len(set(tokens)) / len(tokens)

    return _score_words("type-token-ratio", words, ratio)


def overlap(n: Count = 2, words: Words = "english") -> SetMethod:
    """Share of the text's runs of n words that its source, the context with its facts, holds.

    Unscored: a text of fewer than n words; with words="english", one most of whose letters are not a to z.
    """

    def share(text: str, source: str) -> float | str:
        a_to_z = [character.isascii() for character in text if character.isalpha()]
        if words == "english" and 2 * sum(a_to_z) < len(a_to_z):
            return "most of its letters are not a to z, which words=english reads; take words=letters"
        overlap_share = source_overlap(text, source, n, words)
        if np.isnan(overlap_share):
            return f"the text has {len(_split(text, words))} words, and a share of runs of {n} needs at least {n}"
        return overlap_share

    return _score_beside_source("overlap", words, share, n=n)


def source_overlap(text: str, source: str, n: int = 2, words: Words = "english") -> float:
    """Share of the text's runs of n words that the source holds, each as often as the text has it.

    NaN where the text has fewer than n words.
    """
    runs = _runs(_split(text, words), n)
    if not runs:
        return float("nan")
    known = set(_runs(_split(source, words), n))
    return sum(run in known for run in runs) / len(runs)


def _runs(tokens: Sequence[str], n: int) -> list[tuple[str, ...]]:
    """All runs of n words."""
    return [tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1)]


def copied_span(words: Words = "letters") -> SetMethod:
    """Share of the text's words that are in its longest run of words that its source holds."""

    def share(text: str, source: str) -> float | str:
        tokens = _split(text, words)
        if not tokens:
            return "the text has no words"
        matcher = SequenceMatcher(None, tokens, _split(source, words), autojunk=False)
        return matcher.find_longest_match().size / len(tokens)

    return _score_beside_source("copied-span", words, share)


def _split(text: str, words: str) -> list[str]:
    return WORDS[words](text.lower())


def _score_words(name: str, words: str, score: Callable[[str], float | str]) -> PerText:
    return PerText(lambda ratings: (score(text.text) for text in ratings), signed(method=name, words=words))


def _score_beside_source(name: str, words: str, share: Callable[[str, str], float | str], **options: object) -> PerText:
    def compute(ratings: Ratings) -> Iterator[float | str]:
        for text in ratings:
            context = ratings.contexts.get(text.context_id)
            if context is None:
                yield f"the text of its context {text.context_id!r} is not known"
            else:
                yield share(text.text, f"{context.text} {context.facts}")

    return PerText(compute, signed(method=name, **options, words=words))


# ------------------------------------------------------------------------------------------------ sanity rows


def constant() -> SetMethod:
    """0 for every text: shows the figures of a method that tells no texts apart."""
    return PerText(lambda ratings: [0.0] * len(ratings), signed(method="constant"))


def random(seed: Seed = 0) -> SetMethod:
    """A draw from [0, 1) a text and attribute, which does not depend on the other texts."""

    def draws(ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        values = (float(seeded_rng(seed, text.id, attribute).random()) for text in ratings)
        return scored(ratings, attribute, values, signed(method="random", seed=seed))

    return draws


KINDS: Mapping[str, MethodKind] = {
    "length": MethodKind(length, "number of words"),
    "overlap": MethodKind(overlap, "share of the text's word pairs that its source holds"),
    "copied-span": MethodKind(copied_span, "share of the text that is one copied run of words"),
    "type-token-ratio": MethodKind(type_token_ratio, "different words / words"),
    "constant": MethodKind(constant, "0 for every text: what a table makes of it"),
    "random": MethodKind(random, "a draw a text: what chance gives"),
}
