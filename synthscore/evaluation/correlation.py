"""Two columns of numbers -> their correlation. NumPy and SciPy.

It knows nothing of levels. A correlation that is undefined, because one side is constant, is NaN.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from ..types import FloatArray

Statistic = Literal["spearman", "pearson", "kendall"]
STATISTICS: tuple[Statistic, ...] = ("spearman", "pearson", "kendall")

_FEW = 200  # numbers of which all pairs are compared with each other at once


def correlation(values: npt.ArrayLike, human: npt.ArrayLike, statistic: Statistic = "spearman") -> float:
    """The correlation of two vectors, in [-1, 1]; NaN where either side is constant, or empty.

        r = sum x y / sqrt(sum x^2 sum y^2),  with x and y made of values and human as the statistic says:

    spearman : the ranks less their mean, where equal numbers have the mean of their ranks
    pearson : the numbers less their mean
    kendall : tau-b, the signs of the differences of all pairs: (concordant - discordant pairs) / sqrt(pairs untied in
        values * pairs untied in human)
    values, human : shape (n,)
    """
    x = np.asarray(values, dtype=np.float64)
    y = np.asarray(human, dtype=np.float64)
    if not len(x):
        return float("nan")
    if statistic == "kendall" and len(x) > _FEW:
        from scipy.stats import kendalltau

        return float(kendalltau(x, y).statistic)
    prepare = {"spearman": _centred_ranks, "pearson": _centred, "kendall": _signs}[statistic]
    x, y = prepare(x), prepare(y)
    covariance = (x * y).sum()
    with np.errstate(invalid="ignore"):
        r = covariance / np.sqrt((x * x).sum() * (y * y).sum())
    return float(np.clip(r, -1.0, 1.0))  # rounding alone leads out of it


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
    return float((ranks[is_good].sum() - n_good * (n_good + 1) / 2) / (n_good * n_bad))


def _signs(values: FloatArray) -> FloatArray:
    """For each pair of numbers whether the first is above (1), below (-1) or equal (0), shape (n, n)."""
    return np.asarray(np.sign(np.subtract.outer(values, values)), dtype=np.float64)


def _ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1 for the lowest; equal numbers all have the mean of their ranks.

    Contexts are many and short: all pairs of a few numbers are compared at once, which is faster than sorting them.
    """
    if len(values) > _FEW or np.isnan(values).any():
        from scipy.stats import rankdata

        return np.asarray(rankdata(values), dtype=np.float64)
    n_below = np.greater.outer(values, values).sum(axis=1)
    n_equal = np.equal.outer(values, values).sum(axis=1)
    return np.asarray(n_below + (n_equal + 1) / 2, dtype=np.float64)


def _centred(values: FloatArray) -> FloatArray:
    """Less their mean. They are scaled first so that no square overflows; equal numbers, all 1 then, give exactly 0."""
    size = np.abs(values).max()
    scaled = values / size if size > 0 else np.zeros_like(values)
    centred: FloatArray = scaled - scaled.mean()
    return centred


def _centred_ranks(values: FloatArray) -> FloatArray:
    return _centred(_ranks(values))
