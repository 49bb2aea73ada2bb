"""Two columns of numbers -> their correlation. NumPy and SciPy.
Knows nothing of levels: what is undefined, because one side is constant, is NaN.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from ..types import FloatArray

Statistic = Literal["spearman", "pearson", "kendall"]
STATISTICS: tuple[Statistic, ...] = ("spearman", "pearson", "kendall")

_SIDE = 200  # numbers up to which all pairs are compared with each other at once


def correlation(values: npt.ArrayLike, human: npt.ArrayLike, statistic: Statistic = "spearman") -> float:
    """Of two vectors, in [-1, 1]; NaN where either side is constant, or empty.

    spearman : Pearson's correlation of the mid-ranks
    pearson : covariance by the two standard deviations
    kendall : tau-b, (concordant - discordant pairs) / sqrt(pairs untied in values * pairs untied in human)
    """
    x, y = (np.asarray(side, dtype=np.float64) for side in (values, human))
    if not len(x):
        return float("nan")
    if statistic == "kendall" and len(x) > _SIDE:
        from scipy.stats import kendalltau

        return float(kendalltau(x, y).statistic)
    if statistic == "kendall":
        x, y = (np.sign(np.subtract.outer(side, side)) for side in (x, y))  # who is above whom
    elif statistic == "spearman":
        x, y = _centred(_ranks(x)), _centred(_ranks(y))
    else:
        x, y = _centred(x), _centred(y)
    with np.errstate(invalid="ignore"):
        r = (x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum())
    return float(np.clip(r, -1.0, 1.0))  # rounding alone leads out of it


def _ranks(values: FloatArray) -> FloatArray:
    """From 1, equal ones with the mean of theirs. Of a few by all pairs at once: contexts are many and short."""
    if len(values) > _SIDE or np.isnan(values).any():
        from scipy.stats import rankdata

        return np.asarray(rankdata(values), dtype=np.float64)
    below, equal = np.greater.outer(values, values).sum(axis=1), np.equal.outer(values, values).sum(axis=1)
    return np.asarray(below + (equal + 1) / 2, dtype=np.float64)


def _centred(values: FloatArray) -> FloatArray:
    """With mean 0, scaled so that no square overflows; constant ones, all 1 by then, are exactly 0."""
    size = np.abs(values).max()
    scaled = values / size if size > 0 else np.zeros_like(values)
    centred: FloatArray = scaled - scaled.mean()
    return centred
