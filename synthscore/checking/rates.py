"""Shares of pairs in order, their errors over ladders, and whether they decide that a judge can judge. Pure NumPy.

After 12, 24 and 48 pairs of an attribute a rule looks whether they decide; undecided attributes are asked on. With p
the share in order, n pairs, and e(q) its standard error for a judge that has a share q in order:

    can       p >= 2/3   and   p - 1/2 >= 2.4 e(1/2)    enough of them, and clearly more than chance
    cannot    p <  2/3   and   3/4 - p >= 1.8 e(3/4)    clearly less than what is useful

    e(q)^2 = max(s^2, q (1 - q) / n  [1 + r (sum of n_l^2 / n - 1)])

s is the error measured over ladders, n_l the pairs of ladder l, and r = 0.1 the least correlation that is assumed
between pairs of one ladder, since few ladders measure it badly. 2.4 and 1.8 were set so that the errors hold over all
looks together: benchmarks/doctor.py.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from ..types import FloatArray

Decision = Literal["can", "cannot", "cannot tell yet"]

LOOKS = (12, 24, 48)
"""Pairs of an attribute at each look."""

FEWEST_LADDERS = 4
"""Fewer say too little of how alike the pairs of one ladder are."""

CHANCE, ENOUGH, USEFUL = 1 / 2, 2 / 3, 3 / 4
ALIKE = 0.1
ERRORS_ABOVE_CHANCE = 2.4
ERRORS_BELOW_USEFUL = 1.8


class Rate(NamedTuple):
    """A mean over n pairs, with its standard error over their ladders; NaN where n is 0 (and the error of 1)."""

    value: float
    stderr: float
    n: int


def rate(values: FloatArray, clusters: Sequence[Hashable]) -> Rate:
    """Mean of what is known. clusters : of each value, such as its ladder; those of one are not independent"""
    known, groups = _known(values, clusters)
    n = len(known)
    if not n:
        return Rate(math.nan, math.nan, 0)
    mean = float(known.mean())
    sums = np.bincount(groups, known - mean)
    n_groups = len(sums)
    if n_groups < 2:
        return Rate(mean, math.nan, n)
    spread = float(sums @ sums) * n_groups / (n_groups - 1)
    return Rate(mean, math.sqrt(spread) / n, n)


def decide(in_order: FloatArray, ladders: Sequence[Hashable]) -> Decision:
    """Whether a judge can tell better texts from worse ones, as above.

    in_order : float64, shape (n_pairs,); 1, 1/2 for a tie, 0, NaN where there is no answer
    ladders : of each pair its ladder
    returns : "cannot tell yet" for less than 12 answers, or less than four ladders; "cannot" where nothing was answered
    """
    share, stderr, n = rate(in_order, ladders)
    if not n:
        return "cannot"
    _, groups = _known(in_order, ladders)
    sizes = np.bincount(groups)
    if n < LOOKS[0] or len(sizes) < FEWEST_LADDERS:
        return "cannot tell yet"
    inflation = 1 + ALIKE * (float(sizes @ sizes) / n - 1)

    def error(truth: float) -> float:
        return max(stderr, math.sqrt(truth * (1 - truth) / n * inflation))

    above_chance = share - CHANCE >= ERRORS_ABOVE_CHANCE * error(CHANCE)
    below_useful = USEFUL - share >= ERRORS_BELOW_USEFUL * error(USEFUL)
    if share >= ENOUGH and above_chance:
        return "can"
    if share < ENOUGH and below_useful:
        return "cannot"
    return "cannot tell yet"


def _known(values: FloatArray, clusters: Sequence[Hashable]) -> tuple[FloatArray, np.ndarray]:
    """The values that are no NaN, and of each its cluster, 0-based in the order in which they come."""
    numbers: dict[Hashable, int] = {}
    rows = np.flatnonzero(~np.isnan(values))
    groups = [numbers.setdefault(clusters[row], len(numbers)) for row in rows.tolist()]
    return values[rows], np.array(groups, dtype=np.int64)
