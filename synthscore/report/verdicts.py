"""Verdicts of many texts -> what they say of each rung, and of the order in which the judge was asked. Pure NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..scoring.anchored.drift import verdict_table
from .read import Scored


class RungVerdicts(NamedTuple):
    """Verdicts on texts against the rungs of one level: mean probabilities.

    n, better, worse, similar : over both orders where both were asked. ties : share of answers with Similar on top
    as_asked, swapped : P(better), in each order, over the n_both texts answered in both; NaN without
    changed : share of these whose verdict (better or worse, by margin) is another in the other order
    """

    level: int
    n: int
    better: float
    worse: float
    similar: float
    ties: float
    n_both: int
    as_asked: float
    swapped: float
    changed: float

    @property
    def favour(self) -> float:
        """By how many points the judge prefers the text that it is asked about, whichever that is."""
        return 50 * (self.as_asked - self.swapped)


def verdicts_by_rung(rows: Iterable[Scored]) -> list[RungVerdicts]:
    table = verdict_table(score for score, _ in rows)
    found = []
    for level in np.unique(table[:, 1]).tolist():
        at = table[table[:, 1] == level]
        better, worse, similar = at[:, 3:].mean(axis=0).tolist()
        ties = float((at[:, 5] > at[:, 3:5].max(axis=1)).mean())
        one, other = (at[at[:, 2] == swapped] for swapped in (0, 1))
        _, first, second = np.intersect1d(one[:, 0], other[:, 0], return_indices=True)
        asked, swapped = one[first, 3:], other[second, 3:]
        both = (math.nan,) * 3
        if len(asked):
            changed = ((asked[:, 0] > asked[:, 1]) != (swapped[:, 0] > swapped[:, 1])).mean()
            both = float(asked[:, 0].mean()), float(swapped[:, 0].mean()), float(changed)
        n = len(np.unique(at[:, 0]))
        found.append(RungVerdicts(int(level), n, better, worse, similar, ties, len(asked), *both))
    return found


def overall(by_rung: Sequence[RungVerdicts]) -> tuple[float, float]:
    """Mean favour in points, and the share of pairs that get another verdict in the other order; NaN without both."""
    both = [rung for rung in by_rung if rung.n_both]
    if not both:
        return math.nan, math.nan
    means = np.average([(rung.favour, rung.changed) for rung in both], axis=0, weights=[rung.n_both for rung in both])
    return float(means[0]), float(means[1])
