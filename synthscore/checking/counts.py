"""Pairs of rungs -> those that counts of characters and words alone put in order. What a judge is to be better than.

A text is counted beside its source, the context with its facts. What the counts say of quality is learnt from the
ladders themselves: for each context from those of the other contexts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from ..types import FloatArray, Ladder, grouped
from .rungs import context_of

RIDGE = 10.0
"""Penalty on the weights, in rows, with each count scaled to a spread of 1."""

WORD = re.compile(r"\w+")
FUNCTION_WORDS = frozenset(
    WORD.findall(
        """
        a about after again all also an and any are as at be been before being both but by can could did do does for
        from had has have he her here him his how i if in into is it its just may me more most my no nor not now of
        off on once only or other our out over own s same she should so some such t than that the their them then
        there these they this those through to too under until up us very was we were what when where which while who
        whom why will with would you your
        """
    )
)
PRONOUNS = frozenset(
    WORD.findall(
        """
        he her hers him his i it its me mine my our ours she that their theirs them these they this those us we who whom
        whose you your yours
        """
    )
)
MARKS = {
    "commas": ",",
    "; and :": ";:",
    "question marks": "?",
    "exclamation marks": "!",
    "quotes": '"“”',
    "apostrophes": "'’",
}
"""Name of a count -> the characters that are counted, a word of the text."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def words_of(text: str) -> list[str]:
    """In lower case, without punctuation."""
    return WORD.findall(text.lower())


def surface_counts(text: str, source: str) -> dict[str, float]:
    """What can be counted of a text beside its source, by name."""
    words = words_of(text)
    origin = words_of(source)
    known = set(origin)
    n = max(1, len(words))
    pairs = list(pairwise(words))
    known_pairs = set(pairwise(origin))
    copied = [pair in known_pairs for pair in pairs]
    content = [word for word in words if word not in FUNCTION_WORDS]
    sentences = [len(WORD.findall(sentence)) for sentence in _SENTENCE_END.split(text)]
    # One character a pair, so that a run of copied pairs is a word.
    runs = "".join("x" if is_copied else " " for is_copied in copied).split()
    counts: dict[str, float] = {}
    counts["words"] = len(words)
    counts["letters a word"] = sum(map(len, words)) / n
    counts["different words"] = len(set(words)) / n
    counts["repeated pairs"] = 1 - len(set(pairs)) / max(1, len(pairs))
    counts["pairs of the source"] = sum(copied) / max(1, len(pairs))
    counts["longest copied run"] = max(map(len, runs), default=0) / n
    counts["content words of the source"] = sum(word in known for word in content) / max(1, len(content))
    numbers = [word for word in words if word[0].isdigit()]
    counts["numbers"] = len(numbers) / n
    counts["numbers that the source lacks"] = sum(word not in known for word in numbers) / n
    counts["function words"] = 1 - len(content) / n
    counts["pronouns"] = sum(word in PRONOUNS for word in words) / n
    counts["capitals"] = sum(word[0].isupper() for word in WORD.findall(text)) / n
    counts["sentences"] = len(sentences)
    counts["words a sentence"] = float(np.mean(sentences))
    counts["spread of sentences"] = float(np.std(sentences))
    for name, characters in MARKS.items():
        counts[name] = sum(text.count(character) for character in characters) / n
    return counts


def count_quality(ladders: Sequence[Ladder]) -> list[dict[int, float]]:
    """For each ladder: level -> quality of that rung by the counts; higher is better.

    A ridge regression of the rung on the counts, both centred within each ladder, on the ladders of all other contexts.
    ladders : of one attribute, each with its context; NaN where there is one context alone, so nothing to learn from
    """
    counts = [_centred_counts(ladder) for ladder in ladders]
    spread = np.concatenate(counts).std(axis=0)
    scaled = [rows / np.where(spread > 0, spread, 1.0) for rows in counts]
    grams = np.array([rows.T @ rows for rows in scaled])
    slopes = np.array([rows.T @ np.arange(len(rows)) for rows in scaled])
    weights = {}
    for context, rows in grouped((ladder.context_id, row) for row, ladder in enumerate(ladders)).items():
        others = np.delete(np.arange(len(ladders)), rows)
        gram = grams[others].sum(axis=0) + RIDGE * np.eye(len(spread))
        weights[context] = np.full(len(spread), np.nan)
        if len(others):
            weights[context] = np.linalg.solve(gram, slopes[others].sum(axis=0))
    quality = []
    for ladder, ladder_counts in zip(ladders, scaled, strict=True):
        levels = [rung.level for rung in ladder.usable]
        values = (ladder_counts @ weights[ladder.context_id]).tolist()
        quality.append(dict(zip(levels, values, strict=True)))
    return quality


def _centred_counts(ladder: Ladder) -> FloatArray:
    """Shape (n_rungs, n_counts)."""
    context = context_of(ladder)
    source = f"{context.text} {context.facts}"
    rows: FloatArray = np.array([list(surface_counts(rung.text, source).values()) for rung in ladder.usable])
    rows -= rows.mean(axis=0)
    return rows
