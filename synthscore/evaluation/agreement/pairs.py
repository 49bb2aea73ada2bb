"""Scores + human ratings -> how many pairs of texts the scores order as people do. Pure NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ...types import FloatArray
from .bootstrap import Draws, interval, no_interval, replicates
from .levels import points_of


@dataclass(frozen=True, slots=True)
class PairAccuracy:
    """Share of the pairs of texts in a context that scores order as people do. NaN where there is no pair.

    value : 1 for a perfect scorer, 0 for its opposite; a pair with equal scores is half
    n : pairs with different ratings. n_tied : of these, those with equal scores
    n_tied_ratings : pairs with equal ratings, left out
    n_unscored : rated texts without a score. n_unrated : texts without a rating
    low, high : interval, where contexts were drawn; None where there are fewer than 2, or value is NaN; `note` says so
    """

    value: float
    n: int
    n_tied: int
    n_tied_ratings: int
    n_unscored: int
    n_unrated: int
    low: float | None = None
    high: float | None = None
    note: str = ""


def pair_accuracy(
    values: npt.ArrayLike,
    human: npt.ArrayLike,
    contexts: Sequence[str],
    *,
    draws: Draws | None = None,
    confidence: float = 0.95,
) -> PairAccuracy:
    """Of all pairs of all contexts, each pair counting the same; arguments as for agreement()."""
    points = points_of(values, human, contexts)
    # Of each context: pairs that people order, those in the same order, those with equal scores, pairs that they tie.
    ordered, right, tied, tied_ratings = np.zeros((4, points.n_contexts))
    for context in range(points.n_contexts):
        rows = points.place == context
        first, second = np.triu_indices(int(rows.sum()), 1)
        x, y = points.x[rows], points.y[rows]
        gap = np.round(y[first] - y[second], 9)  # rounding must not untie two means
        agree = np.sign(x[first] - x[second]) * np.sign(gap)
        ordered[context], tied_ratings[context] = (gap != 0).sum(), (gap == 0).sum()
        tied[context] = ((agree == 0) & (gap != 0)).sum()
        right[context] = (agree > 0).sum() + tied[context] / 2
    n = int(ordered.sum())
    found = PairAccuracy(
        value=float(right.sum() / n) if n else np.nan,
        n=n,
        n_tied=int(tied.sum()),
        n_tied_ratings=int(tied_ratings.sum()),
        n_unscored=points.n_unscored,
        n_unrated=points.n_unrated,
        note="" if n else "no context has two texts with scores and different ratings",
    )
    if draws is None:
        return found

    def of_counts(counts: FloatArray) -> FloatArray:
        with np.errstate(invalid="ignore"):
            share: FloatArray = counts @ right / (counts @ ordered)
        return share

    note = found.note or no_interval(int((ordered > 0).sum()))
    ends = None if note else interval(replicates(of_counts, draws, contexts), confidence)
    return replace(found, note=note) if ends is None else replace(found, low=ends.low, high=ends.high)
