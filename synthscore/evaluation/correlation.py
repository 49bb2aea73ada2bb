"""Two columns of numbers -> how far they agree: a correlation, or the AUC. NumPy and SciPy.

A correlation tells whether scores and ratings rise together, from -1 to 1; the AUC how often a good text has a higher
score than a bad one. Where one side is constant neither is defined, and the result is NaN. Knows nothing of contexts.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from ..types import FloatArray

Statistic = Literal["spearman", "pearson", "kendall"]
STATISTICS: tuple[Statistic, ...] = ("spearman", "pearson", "kendall")

_FEW = 200
"""Up to this many numbers, all pairs are compared directly; above it SciPy sorts. Contexts are many and have few texts
each, and for few numbers comparing is faster than sorting."""


def correlation(values: npt.ArrayLike, human: npt.ArrayLike, statistic: Statistic = "spearman") -> float:
    """The correlation of two vectors, in [-1, 1]; NaN where either side is constant, or empty.

        r = sum x y / sqrt(sum x^2 sum y^2)

    where x is made of values, and y of human, as the statistic says:

    pearson : the numbers less their mean
    spearman : the ranks less their mean, where equal numbers have the mean of their ranks
    kendall : the signs of the differences of all pairs, so that r is tau-b, (concordant - discordant pairs) /
        sqrt(pairs that differ in values * pairs that differ in human)
    values, human : shape (n,)
    """
    x = np.asarray(values, dtype=np.float64)
    y = np.asarray(human, dtype=np.float64)
    if not len(x):
        return float("nan")
    match statistic:
        case "pearson":
            return _cosine(_centred(x), _centred(y))
        case "spearman":
            return _cosine(_centred(_ranks(x)), _centred(_ranks(y)))
        case "kendall":
            if len(x) <= _FEW:
                return _cosine(_signs_of_differences(x), _signs_of_differences(y))
            from scipy.stats import kendalltau

            return float(kendalltau(x, y).statistic)


def _cosine(x: FloatArray, y: FloatArray) -> float:
    """sum x y / sqrt(sum x^2 sum y^2), in [-1, 1]; NaN where x or y is all 0."""
    with np.errstate(invalid="ignore"):
        r = (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum())
    return float(np.clip(r, -1.0, 1.0))  # Rounding could lead out of this range.


def auc(values: npt.ArrayLike, good: npt.ArrayLike) -> float:
    """The probability that a good text has a higher value than a bad one, half for equal values; NaN where all texts
    are good, or none is.

        (sum of the ranks of the good - g (g + 1) / 2) / (g b),    g good texts, b bad ones

    values : shape (n,). good : bool, shape (n,)
    source : Mann and Whitney (1947)
    """
    is_good = np.asarray(good, dtype=bool)
    n_good = int(is_good.sum())
    n_bad = len(is_good) - n_good
    if not n_good or not n_bad:
        return float("nan")
    ranks = _ranks(np.asarray(values, dtype=np.float64))
    # The good texts' ranks among each other are 1 + 2 + ... + g; what is left counts the bad ones that they beat.
    n_beaten = ranks[is_good].sum() - n_good * (n_good + 1) / 2
    return float(n_beaten / (n_good * n_bad))


def _signs_of_differences(values: FloatArray) -> FloatArray:
    """For each pair of numbers whether the first is above the second (1), below (-1) or equal (0), shape (n, n)."""
    return np.asarray(np.sign(np.subtract.outer(values, values)), dtype=np.float64)


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1 for the lowest; equal numbers all have the mean of their ranks."""
    if len(values) > _FEW or np.isnan(values).any():
        from scipy.stats import rankdata

        return np.asarray(rankdata(values), dtype=np.float64)
    n_below = np.greater.outer(values, values).sum(axis=1)
    n_equal = np.equal.outer(values, values).sum(axis=1)
    return np.asarray(n_below + (n_equal + 1) / 2, dtype=np.float64)


def _centred(values: FloatArray) -> FloatArray:
    """The numbers less their mean, in a unit in which the largest is 1, so that no square overflows.

    Equal numbers give exactly 0: in that unit they are all 1.
    """
    size = np.abs(values).max()
    if not size > 0:
        return np.zeros_like(values)
    scaled = values / size
    centred: FloatArray = scaled - scaled.mean()
    return centred
