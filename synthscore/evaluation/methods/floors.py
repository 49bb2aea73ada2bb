"""Methods that cost nothing: counts of words, and two rows that show what a table's figures are worth.

What any other method adds is how much better than the best of these it agrees with people.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

import numpy as np

from ..._version import __version__
from ...io.scores import Scores
from ...signature import Signature, text_hash
from ..ratings.types import Ratings
from .base import Kind, Method, MethodError, Tools, scored

WORDS: Mapping[str, Callable[[str], list[str]]] = {
    "letters": re.compile(r"\w+").findall,
    "english": re.compile(r"[a-z0-9']+").findall,
    "spaces": str.split,
}
"""What a word of a text in lower case is: a run of letters and digits of any script; a run of a to z, digits and
apostrophes, so that "don't" is one; or what stands between spaces, with its punctuation."""

Found = Iterable[float | str]  # a number a text, or the reason why it has none


@dataclass(slots=True)
class PerText:
    """A method that says the same on every attribute: computed once for the ratings last asked about."""

    compute: Callable[[Ratings], Found]
    signature: Signature
    _last: tuple[Ratings, tuple[float | str, ...]] | None = None

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        if self._last is None or self._last[0] is not ratings:
            self._last = ratings, tuple(self.compute(ratings))
        return scored(ratings, attribute, self._last[1], self.signature)


# ------------------------------------------------------------------------------------------------ of the text alone


def length(words: str = "letters") -> Method:
    """Number of words."""
    split = _splitter(words)
    return _counted("length", words, lambda ratings: (len(split(text.text)) for text in ratings))


def type_token_ratio(words: str = "letters") -> Method:
    """Number of different words / number of words."""
    split = _splitter(words)

    def ratios(ratings: Ratings) -> Iterator[float | str]:
        for text in ratings:
            found = split(text.text)
            yield len(set(found)) / len(found) if found else "the text has no words"

    return _counted("type-token-ratio", words, ratios)


# ------------------------------------------------------------------------------------------------ against the source


def overlap(n: int = 2, words: str = "english") -> Method:
    """Share of the text's runs of n words that its source, the context with its facts, holds.

    Unscored: a text of fewer than n words; with words="english", one most of whose letters are not a to z.
    """
    if n < 1:
        raise MethodError(f"cannot make overlap: n is {n}, expected 1 or more words. Leave n out, it is 2 then", n=n)
    split = _splitter(words)

    def share(text: str, source: str) -> float | str:
        if words == "english" and _mostly_other_letters(text):
            return "most of its letters are not a to z, which words=english reads; take words=letters"
        found = source_overlap(text, source, n, words)
        if np.isnan(found):
            return f"the text has {len(split(text))} words, and a share of runs of {n} needs at least {n}"
        return found

    return _counted("overlap", words, _held_against_source(share), n=n)


def source_overlap(text: str, source: str, n: int = 2, words: str = "english") -> float:
    """Share of the text's runs of n words that the source holds, each as often as the text has it.

    NaN where the text has fewer than n words.
    """
    mine, theirs = (_runs(_splitter(words)(side), n) for side in (text, source))
    known = set(theirs)
    return sum(run in known for run in mine) / len(mine) if mine else float("nan")


def copied_span(words: str = "letters") -> Method:
    """Share of the text's words that are in its longest run of words that its source holds."""
    split = _splitter(words)

    def share(text: str, source: str) -> float | str:
        mine = split(text)
        if not mine:
            return "the text has no words"
        return SequenceMatcher(None, mine, split(source), autojunk=False).find_longest_match().size / len(mine)

    return _counted("copied-span", words, _held_against_source(share))


def _held_against_source(share: Callable[[str, str], float | str]) -> Callable[[Ratings], Found]:
    def compute(ratings: Ratings) -> Iterator[float | str]:
        for text in ratings:
            context = ratings.contexts.get(text.context_id)
            if context is None:
                yield f"the text of its context {text.context_id!r} is not known"
            else:
                yield share(text.text, f"{context.text} {context.facts}")

    return compute


def _mostly_other_letters(text: str) -> bool:
    a_to_z = [character.isascii() for character in text if character.isalpha()]
    return 2 * sum(a_to_z) < len(a_to_z)


def _runs(words: list[str], n: int) -> list[tuple[str, ...]]:
    return list(zip(*(words[start:] for start in range(n)), strict=False))


def _splitter(words: str) -> Callable[[str], list[str]]:
    if words not in WORDS:
        raise MethodError(f"cannot count words: words is {words!r}, expected one of {', '.join(WORDS)}", words=words)
    return lambda text: WORDS[words](text.lower())


def _counted(name: str, words: str, compute: Callable[[Ratings], Found], **options: object) -> PerText:
    return PerText(compute, Signature.of(synthscore=__version__, method=name, **options, words=words))


# ------------------------------------------------------------------------------------------------ sanity rows


def constant() -> Method:
    """0 for every text: shows what a table does with a method that tells no texts apart (its NaN policy)."""
    return PerText(lambda ratings: [0.0] * len(ratings), Signature.of(synthscore=__version__, method="constant"))


def random(seed: int = 0) -> Method:
    """A draw from [0, 1) a text and attribute, which does not depend on the other texts."""
    if seed < 0:
        raise MethodError(
            f"cannot draw at random: seed is {seed}, expected 0 or more, such as random:seed=1", seed=seed
        )

    def draws(ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        seeds = ([seed, int(text_hash(text.id, attribute)[:16], 16)] for text in ratings)
        found = (float(np.random.default_rng(own).random()) for own in seeds)
        return scored(ratings, attribute, found, Signature.of(synthscore=__version__, method="random", seed=seed))

    return draws


KINDS: Mapping[str, Kind] = {
    "length": Kind(length, "number of words", options={"words": str}),
    "overlap": Kind(overlap, "share of the text's word pairs that its source holds", options={"n": int, "words": str}),
    "copied-span": Kind(copied_span, "share of the text that is one copied run of words", options={"words": str}),
    "type-token-ratio": Kind(type_token_ratio, "different words / words", options={"words": str}),
    "constant": Kind(constant, "0 for every text: what the NaN policy makes of it", options={}),
    "random": Kind(random, "a draw a text: what chance gives", options={"seed": int}),
}
