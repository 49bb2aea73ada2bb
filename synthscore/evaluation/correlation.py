"""Two columns of numbers -> their correlation: of two vectors, of many rows at once, of resampled contexts. NumPy and
SciPy. Knows nothing of levels: what is undefined, because one side is constant, is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..types import BoolArray, FloatArray, IntArray

Statistic = Literal["spearman", "pearson", "kendall"]
STATISTICS: tuple[Statistic, ...] = ("spearman", "pearson", "kendall")

_CELLS = 2_000_000  # numbers in the largest array that is made at once: 16 MB
_SIDE = 1_000  # numbers in a row up to which all pairs are compared with each other at once


def correlation(values: npt.ArrayLike, human: npt.ArrayLike, statistic: Statistic = "spearman") -> float:
    """Of two vectors, in [-1, 1]; NaN where either side is constant.

    spearman : Pearson's correlation of the mid-ranks
    pearson : covariance by the two standard deviations
    kendall : tau-b, (concordant - discordant pairs) / sqrt(pairs untied in values * pairs untied in human)
    """
    x, y = (np.asarray(side, dtype=np.float64)[None] for side in (values, human))
    return float(of_rows(x, y, statistic)[0])


class Correlations(NamedTuple):
    """Of n pairs of columns, shape (n,): r, NaN where a side is constant, and which side is."""

    r: FloatArray
    constant_x: BoolArray
    constant_y: BoolArray

    @classmethod
    def unknown(cls, n: int) -> Correlations:
        return cls(np.full(n, np.nan), np.zeros(n, dtype=bool), np.zeros(n, dtype=bool))

    def put(self, indices: IntArray, x: FloatArray, y: FloatArray, statistic: Statistic) -> None:
        """Fills in what the rows of x and y correlate with, at these indices."""
        self.r[indices] = of_rows(x, y, statistic)
        self.constant_x[indices], self.constant_y[indices] = np.ptp(x, axis=1) == 0, np.ptp(y, axis=1) == 0


def of_rows(x: FloatArray, y: FloatArray, statistic: Statistic) -> FloatArray:
    """Correlation of each row of x with the same row of y: shape (n_rows, n) twice -> (n_rows,)."""
    if statistic == "kendall":
        return _tau_b(x, y)
    if statistic == "spearman":
        from scipy.stats import rankdata

        x, y = rankdata(x, axis=1), rankdata(y, axis=1)
    x, y = _centred(x), _centred(y)
    with np.errstate(invalid="ignore"):
        r = (x * y).sum(axis=1) / np.sqrt((x * x).sum(axis=1) * (y * y).sum(axis=1))
    return _rounding_off(r)


def _centred(rows: FloatArray) -> FloatArray:
    """Rows with mean 0, scaled so that no square overflows; a constant row, all 1 by then, is exactly 0."""
    size = np.abs(rows).max(axis=1, keepdims=True)
    scaled = np.divide(rows, size, out=np.zeros_like(rows), where=size > 0)
    centred: FloatArray = scaled - scaled.mean(axis=1, keepdims=True)
    return centred


def _rounding_off(r: FloatArray) -> FloatArray:
    """Rounding alone leads out of [-1, 1]."""
    return np.clip(r, -1.0, 1.0)


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
        r[rows] = _ratio(*(np.einsum("rij,rij->r", *two) for two in _three(above, rated_above)))
    return r


def _three(above: FloatArray, rated_above: FloatArray) -> tuple[tuple[FloatArray, FloatArray], ...]:
    """Factors whose products, summed, are twice: concordant - discordant pairs, pairs untied in x, in y."""
    return (above, rated_above), (above, above), (rated_above, rated_above)


def _ratio(both: FloatArray, one: FloatArray, other: FloatArray) -> FloatArray:
    with np.errstate(invalid="ignore"):
        return _rounding_off(both / np.sqrt(one * other))


# ------------------------------------------------------------------------------------------------- resampled contexts


Resampled = Callable[[FloatArray], Correlations]
"""How often each context was drawn, shape (n_resamples, n_contexts) -> the correlation of each resample."""


def pooled(x: FloatArray, y: FloatArray, of_context: IntArray, n_contexts: int, statistic: Statistic) -> Resampled:
    """Of all texts together.

    x, y : float64, shape (n,), finite. of_context : int64, shape (n,), 0-based; the context of each text
    A context that is drawn twice brings each of its texts twice.
    """
    of_counts = (_weighted_tau_b if statistic == "kendall" else _weighted)(x, y, of_context, n_contexts, statistic)
    constant_x, constant_y = (_constant(side, of_context, n_contexts) for side in (x, y))
    return lambda counts: Correlations(of_counts(counts), constant_x(counts), constant_y(counts))


def _constant(values: FloatArray, of_context: IntArray, n_contexts: int) -> Callable[[FloatArray], BoolArray]:
    low, high = np.full(n_contexts, np.inf), np.full(n_contexts, -np.inf)
    np.minimum.at(low, of_context, values)
    np.maximum.at(high, of_context, values)

    def of_counts(counts: FloatArray) -> BoolArray:
        drawn = counts > 0
        least, most = np.where(drawn, low, np.inf).min(axis=1), np.where(drawn, high, -np.inf).max(axis=1)
        constant: BoolArray = most <= least
        return constant

    return of_counts


def _weighted(
    x: FloatArray, y: FloatArray, of_context: IntArray, n_contexts: int, statistic: Statistic
) -> Callable[[FloatArray], FloatArray]:
    """Pearson's: a text counts as often as its context was drawn. Spearman's, of the mid-ranks among what was drawn."""

    def values(side: FloatArray) -> Callable[[FloatArray], FloatArray]:
        if statistic == "pearson":
            scaled = side[None] / (np.abs(side).max(initial=0.0) or 1.0)  # no square overflows
            return lambda weights: scaled
        level, order = np.unique(side, return_inverse=True)[1], np.argsort(side, kind="stable")
        starts = np.flatnonzero(np.diff(level[order], prepend=-1))

        def mid_ranks(weights: FloatArray) -> FloatArray:
            tied = np.add.reduceat(weights[:, order], starts, axis=1)  # copies of each value: exact halves
            middle: FloatArray = (tied.cumsum(axis=1) - tied / 2)[:, level]
            return middle

        return mid_ranks

    sides = [values(x), values(y)]

    def of_counts(counts: FloatArray) -> FloatArray:
        weights = counts[:, of_context]
        n = weights.sum(axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            a, b = (side - (weights * side).sum(axis=1, keepdims=True) / n for side in (of(weights) for of in sides))
        return _ratio(*((weights * one * other).sum(axis=1) for one, other in ((a, b), (a, a), (b, b))))

    return of_counts


def _weighted_tau_b(
    x: FloatArray, y: FloatArray, of_context: IntArray, n_contexts: int, statistic: Statistic
) -> Callable[[FloatArray], FloatArray]:
    """Pairs are counted once for each two contexts; a resample weighs them by how often both were drawn."""
    order = np.argsort(of_context, kind="stable")
    x, y, present = x[order], y[order], np.unique(of_context)
    starts = np.searchsorted(of_context[order], present)
    tables = np.zeros((3, n_contexts, n_contexts))
    for context, rows in zip(present, np.split(np.arange(len(x)), starts[1:]), strict=True):
        step = max(1, _CELLS // len(x))
        for part in (rows[start : start + step] for start in range(0, len(rows), step)):
            above, rated_above = (np.sign(side[part, None] - side[None, :]) for side in (x, y))
            for table, two in zip(tables, _three(above, rated_above), strict=True):
                table[context, present] += np.add.reduceat(np.einsum("ij,ij->j", *two), starts)

    def of_counts(counts: FloatArray) -> FloatArray:
        return _ratio(*(((counts @ table) * counts).sum(axis=1) for table in tables))

    return of_counts


# ------------------------------------------------------------------------------------------------- means of systems


def of_systems(
    x: FloatArray,
    y: FloatArray,
    of_context: IntArray,
    n_contexts: int,
    system: IntArray,
    statistic: Statistic,
    least: int,
) -> Resampled:
    """Of the means of systems over their texts.

    x, y, of_context : as for pooled. system : int64, shape (n,); of each text
    A resample in which fewer than `least` systems have a text is NaN, and neither side counts as constant.
    """
    from scipy.sparse import coo_array

    names, system = np.unique(system, return_inverse=True)
    texts_of, x_of, y_of = (
        coo_array((side, (system, of_context)), (len(names), n_contexts)).tocsr() for side in (np.ones_like(x), x, y)
    )

    def of_counts(counts: FloatArray) -> Correlations:
        texts, sum_x, sum_y = (np.asarray((of_context @ counts.T).T) for of_context in (texts_of, x_of, y_of))
        mean_x, mean_y = _means(sum_x, texts), _means(sum_y, texts)
        found = Correlations.unknown(len(counts))
        patterns, group = np.unique(texts > 0, axis=0, return_inverse=True)  # resamples that know the same systems
        for k, known in enumerate(patterns):
            if known.sum() >= least:
                rows = np.flatnonzero(group.reshape(-1) == k)
                found.put(rows, mean_x[np.ix_(rows, known)], mean_y[np.ix_(rows, known)], statistic)
        return found

    return of_counts


def _means(sums: FloatArray, n: FloatArray) -> FloatArray:
    """Rounded to 13 digits of the largest in the row, so that equal means are equal, however they were added up."""
    means = np.divide(sums, n, out=np.zeros_like(sums), where=n > 0)
    size = np.abs(means).max(axis=1, keepdims=True)
    unit = 10.0 ** np.floor(np.log10(size, out=np.zeros_like(size), where=size > 0))
    rounded: FloatArray = np.round(means / unit, 12)
    return rounded
