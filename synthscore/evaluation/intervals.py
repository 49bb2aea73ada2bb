"""A figure with each context left out in turn -> its standard error, interval and p-value, right from two contexts on;
p-values corrected for many comparisons. NumPy and SciPy.

A context is what was sampled: its texts share an article and readers, and are not independent. Figures of one benchmark
leave out the same contexts, so that what makes one hard for all methods cancels in their differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..types import FloatArray, IntArray

LEVEL = 0.95
LEAST_CONTEXTS = 6
"""With fewer, even differences that all have one sign have a chance above .05, 2 / 2^n: none is told from chance."""


class Spread(NamedTuple):
    """Of a figure over contexts. low, high : 95 % interval, or None, and then `note` says why; stderr is NaN then"""

    stderr: float
    low: float | None
    high: float | None
    note: str


def index(names: Sequence[str]) -> IntArray:
    """Of each name among the different ones, in the order in which they first occur."""
    indices = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.array([indices[name] for name in names], dtype=np.int64)


def spread(
    value: float, without: FloatArray, ends: tuple[float, float] = (-1.0, 1.0), note: str = "", free: int | None = None
) -> Spread:
    """
    value : of all contexts, within `ends`
    without : shape (n_contexts,); the value with each context left out, NaN for one that takes no part
    note : why there is no value, if so
    free : degrees of freedom; contexts less one by default

    The jackknife's standard error, and an interval by Student's t on a scale on which the ends are infinitely far:

        se^2 = (n - 1) / n  sum (without - mean of without)^2
        u = (2 value - low end - high end) / (high end - low end),    z = artanh(u) +- t se / (du/dz)

    so that it is longer on the side where there is room, as correlations scatter. For a mean over contexts se is that
    of the mean.
    source : Efron and Tibshirani (1993), chapter 11; Fisher (1915) for the scale; benchmarks/few_contexts.py
    """
    known = without[~np.isnan(without)]
    n = len(known)
    if not note and n < 2:
        note = "no interval: it takes two contexts or more"
    if note:
        return Spread(float("nan"), None, None, note)
    stderr = float(np.sqrt((n - 1) / n * ((known - known.mean()) ** 2).sum()))
    half = (ends[1] - ends[0]) / 2
    u = (value - ends[0]) / half - 1
    if stderr < 1e-12 and 1e-9 < abs(u) < 1 - 1e-9:  # as ranks of a few systems
        return Spread(float("nan"), None, None, "no interval: without any one context it is the same")
    if stderr < 1e-12 or abs(u) >= 1 - 1e-9:
        return Spread(stderr, value, value, "")
    from scipy.special import stdtrit

    reach = stdtrit(n - 1 if free is None else free, (1 + LEVEL) / 2) * stderr / half / (1 - u * u)
    low, high = (ends[0] + half * (1 + np.tanh(np.arctanh(u) + np.array([-reach, reach])))).tolist()
    return Spread(stderr, low, high, "")


def mean_without(
    values: Sequence[float], without: Sequence[FloatArray], weights: Sequence[float] | None = None
) -> FloatArray:
    """Of a mean of figures over the same contexts: its value with each context left out, NaN where none uses it.

    values, without : of each figure, as for `spread`. weights : of each figure; all the same by default
    """
    if not without:
        return np.empty(0)
    each = np.stack(without)
    unused = np.isnan(each)
    filled = np.where(unused, np.array(values)[:, None], each)
    return np.where(unused.all(axis=0), np.nan, np.average(filled, axis=0, weights=weights))


def p_value(value: float, stderr: float, n_contexts: int) -> float:
    """Two-sided, of a difference being 0, by Student's t; never below 2 / 2^n, the chance that n contexts that favour
    neither all favour the same: with fewer than LEAST_CONTEXTS no difference is told from chance.
    """
    from scipy.special import stdtr

    t = abs(value) / stderr if stderr > 0 else np.inf if value else 0.0
    return max(float(2 * stdtr(n_contexts - 1, -t)), 2.0 ** (1 - n_contexts))


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """p-values of many comparisons, corrected so that the chance of any false difference stays below the level,
    whatever the dependence (Holm, 1979): shape (n,). NaN stays NaN and is no comparison.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")[: np.count_nonzero(~np.isnan(p))]  # NaN comes last
    corrected = np.full_like(p, np.nan)
    left = np.arange(len(order), 0, -1)  # comparisons that are not rejected before this one
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(left * p[order]))
    return corrected
