"""Verdicts of many texts -> what they say of each rung, and of the order in which the judge was asked. Pure NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..scoring.anchored.drift import verdict_table
from ..types import Verdict, grouped
from .read import ScoreRow


class MeanVerdicts(NamedTuple):
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
    as_asked: float = math.nan
    swapped: float = math.nan
    changed: float = math.nan

    @property
    def favour(self) -> float:
        """By how many points the judge prefers the text that it is asked about, whichever that is."""
        return 50 * (self.as_asked - self.swapped)


def verdicts_by_rung(rows: Iterable[ScoreRow]) -> list[MeanVerdicts]:
    table = verdict_table(score for score, _ in rows)
    found = []
    for level in np.unique(table[:, 1]).tolist():
        answers = table[table[:, 1] == level]
        better, worse, similar = answers[:, 3:6].mean(axis=0).tolist()
        tied = answers[:, 5] > answers[:, 3:5].max(axis=1)
        one_order = answers[answers[:, 2] == 0]
        other_order = answers[answers[:, 2] == 1]
        _, first, second = np.intersect1d(one_order[:, 0], other_order[:, 0], return_indices=True)
        asked = one_order[first, 3:6]
        swapped = other_order[second, 3:6]
        verdicts = MeanVerdicts(
            level=int(level),
            n=len(np.unique(answers[:, 0])),
            better=better,
            worse=worse,
            similar=similar,
            ties=float(tied.mean()),
            n_both=len(asked),
        )
        if len(asked):
            better_as_asked = asked[:, 0] > asked[:, 1]
            better_swapped = swapped[:, 0] > swapped[:, 1]
            changed = better_as_asked != better_swapped
            verdicts = verdicts._replace(
                as_asked=float(asked[:, 0].mean()), swapped=float(swapped[:, 0].mean()), changed=float(changed.mean())
            )
        found.append(verdicts)
    return found


def mean_verdicts(verdicts: Iterable[Verdict]) -> dict[int, tuple[float, float, float]]:
    """Of one text: level -> better, similar, worse, means over orders; the worst rung first."""
    by_level = grouped((each.level, (each.better, each.similar, each.worse)) for each in verdicts)
    return {level: tuple(np.mean(by_level[level], axis=0).tolist()) for level in sorted(by_level)}


def overall(both: Sequence[MeanVerdicts]) -> tuple[float, float]:
    """Mean favour in points, and the share of pairs that get another verdict in the other order.

    both : rungs with texts answered in both orders, one or more
    """
    weights = [rung.n_both for rung in both]
    favour = np.average([rung.favour for rung in both], weights=weights)
    changed = np.average([rung.changed for rung in both], weights=weights)
    return float(favour), float(changed)
