"""Two columns of numbers -> their correlation: of two vectors, or of many rows at once. NumPy and SciPy.
Knows nothing of levels: what is undefined, because one side is constant, is NaN.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from ..types import FloatArray

Statistic = Literal["spearman", "pearson", "kendall"]
STATISTICS: tuple[Statistic, ...] = ("spearman", "pearson", "kendall")

_CELLS = 2_000_000  # numbers in the largest array that is made at once: 16 MB
_SIDE = 200  # numbers in a row up to which all pairs are compared with each other at once


def correlation(values: npt.ArrayLike, human: npt.ArrayLike, statistic: Statistic = "spearman") -> float:
    """Of two vectors, in [-1, 1]; NaN where either side is constant, or empty.

    spearman : Pearson's correlation of the mid-ranks
    pearson : covariance by the two standard deviations
    kendall : tau-b, (concordant - discordant pairs) / sqrt(pairs untied in values * pairs untied in human)
    """
    x, y = (np.asarray(side, dtype=np.float64)[None] for side in (values, human))
    return float(of_rows(x, y, statistic)[0])


def of_rows(x: FloatArray, y: FloatArray, statistic: Statistic) -> FloatArray:
    """Correlation of each row of x with the same row of y: shape (n_rows, n) twice -> (n_rows,); NaN where n is 0."""
    if not x.shape[1]:
        return np.full(len(x), np.nan)
    if statistic == "kendall":
        return _tau_b(x, y)
    if statistic == "spearman":
        from scipy.stats import rankdata

        x, y = rankdata(x, axis=1), rankdata(y, axis=1)
    x, y = _centred(x), _centred(y)
    with np.errstate(invalid="ignore"):
        r = (x * y).sum(axis=1) / np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
    within: FloatArray = np.clip(r, -1.0, 1.0)  # rounding alone leads out of it
    return within


def _centred(rows: FloatArray) -> FloatArray:
    """Rows with mean 0, scaled so that no square overflows; a constant row, all 1 by then, is exactly 0."""
    size = np.abs(rows).max(axis=1, keepdims=True)
    scaled = np.divide(rows, size, out=np.zeros_like(rows), where=size > 0)
    centred: FloatArray = scaled - scaled.mean(axis=1, keepdims=True)
    return centred


def _tau_b(x: FloatArray, y: FloatArray) -> FloatArray:
    n_rows, n = x.shape
    if n > _SIDE:
        from scipy.stats import kendalltau

        return np.array([kendalltau(*row).statistic for row in zip(x, y, strict=True)])
    r = np.empty(n_rows)
    step = max(1, _CELLS // n**2)
    for start in range(0, n_rows, step):
        rows = slice(start, start + step)
        above, rated_above = (np.sign(side[rows, :, None] - side[rows, None, :]) for side in (x, y))
        both, one, other = (  # twice: concordant - discordant pairs, pairs untied in x, in y
            np.einsum("rij,rij->r", *two) for two in ((above, rated_above), (above, above), (rated_above, rated_above))
        )
        with np.errstate(invalid="ignore"):
            r[rows] = np.clip(both / np.sqrt(one * other), -1.0, 1.0)
    return r


def means(sums: FloatArray, n: FloatArray) -> FloatArray:
    """Rounded to 13 digits of the largest in the row, so that equal means are equal, however they were added up.

    sums, n : shape (n_rows, n_means); where n is 0 the mean is 0
    """
    quotients = np.divide(sums, n, out=np.zeros(sums.shape), where=n > 0)
    size = np.abs(quotients).max(axis=1, keepdims=True)
    unit = 10.0 ** np.floor(np.log10(size, out=np.zeros_like(size), where=size > 0))
    rounded: FloatArray = np.round(quotients / unit, 12)
    return rounded
