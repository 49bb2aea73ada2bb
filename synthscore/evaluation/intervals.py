"""Leave-one-context-out values of a figure -> its standard error, interval and p-value; and p-values -> p-values that
are corrected for many comparisons. All of it is right from two contexts on. NumPy and SciPy.

A context is what was sampled: its texts share an article and readers, and are not independent. Figures of one benchmark
leave out the same contexts, so that what makes one hard for all methods cancels in their differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..types import BoolArray, FloatArray, IntArray

CONFIDENCE = 0.95
LEAST_CONTEXTS = 6
"""With fewer contexts no difference can be told from chance: all of n contexts favour the same one of two equal methods
with the probability 2 / 2^n, and 2 / 2^5 is above .05."""

_NO_ERROR = 1e-12
"""A standard error below this counts as 0: it comes from rounding."""

_AT_AN_END = 1 - 1e-9
"""A value whose distance from the middle of its range is at least this share of half the range counts as at an end."""


class Spread(NamedTuple):
    """How far a figure varies with the contexts that were sampled.

    stderr : standard error, in the unit of the figure; NaN where there is no interval
    low, high : 95 % interval, or None
    note : why there is no interval, or ""
    """

    stderr: float
    low: float | None
    high: float | None
    note: str


def index(names: Sequence[str]) -> IntArray:
    """The number of each name, int64, shape (n,): names are numbered from 0 in the order in which they first occur."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], dtype=np.int64)


def all_equal(values: FloatArray, names: Sequence[str]) -> BoolArray:
    """Whether all values of a text's context are equal, shape (n,); NaN is no value.

    values : shape (n,). names : the context of each
    """
    context = index(names)
    low = np.full(len(context), np.inf)
    high = np.full(len(context), -np.inf)
    np.fmin.at(low, context, values)
    np.fmax.at(high, context, values)
    equal: BoolArray = low == high
    return equal[context]


def jackknife_error(without: FloatArray) -> float:
    """The standard error of a figure, from its values with each of two contexts or more left out, none of them NaN."""
    n = len(without)
    squares = (without - without.mean()) ** 2
    return float(np.sqrt((n - 1) / n * squares.sum()))


def spread(
    value: float,
    without: FloatArray,
    ends: tuple[float, float] = (-1.0, 1.0),
    note: str = "",
    degrees_of_freedom: int | None = None,
    confidence: float = CONFIDENCE,
) -> Spread:
    """The standard error and the interval of a figure, from its values with each context left out.

    The error is the jackknife's. The interval is that of Student's t, on a scale on which both ends of the figure's
    range are infinitely far away, and is taken back from there:

        se^2 = (n - 1) / n  sum (without - mean of without)^2
        u = (2 value - low end - high end) / (high end - low end)         value on the scale from -1 to 1
        z = artanh(u) +- t se / (dv/dz),     dv/dz = (high end - low end) / 2  (1 - u^2)

    so that the interval is longer on the side where there is room, as correlations scatter. For a mean over contexts se
    is the usual standard error of a mean. The three cases, in the order in which they are decided:

        se is 0, and the value neither in the middle nor at an end: no interval, since it may be chance that the figure
            stays the same without any one context, as with the ranks of a few systems
        se is 0 in the middle, or the value is at an end: the interval is the value itself. The middle is where the
            difference of two methods is that are equal in every context, which is no chance
        else: the interval above

    value : the figure of all contexts, within `ends`
    without : shape (n_contexts,); the value with each context left out, NaN for a context that takes no part
    ends : the least and the greatest value that the figure can have
    note : why there is no value; then there is no interval either
    degrees_of_freedom : of Student's t (default: the contexts that take part, less one)
    confidence : of the interval
    source : Efron and Tibshirani (1993), chapter 11; Fisher (1915) for the scale; benchmarks/few_contexts.py
    """
    known = without[~np.isnan(without)]
    n = len(known)
    if not note and n < 2:
        note = "no interval: it takes two contexts or more"
    if note:
        return Spread(stderr=float("nan"), low=None, high=None, note=note)

    stderr = jackknife_error(known)
    half_width = (ends[1] - ends[0]) / 2
    u = (value - ends[0]) / half_width - 1
    at_an_end = abs(u) >= _AT_AN_END
    if stderr < _NO_ERROR and abs(u) > 1e-9 and not at_an_end:
        note = "no interval: without any one context it is the same"
        return Spread(stderr=float("nan"), low=None, high=None, note=note)
    if stderr < _NO_ERROR or at_an_end:
        return Spread(stderr=stderr, low=value, high=value, note="")

    from scipy.special import stdtrit

    if degrees_of_freedom is None:
        degrees_of_freedom = n - 1
    t = stdtrit(degrees_of_freedom, (1 + confidence) / 2)
    reach = t * stderr / half_width / (1 - u * u)
    z = np.arctanh(u) + np.array([-reach, reach])
    low, high = (ends[0] + half_width * (1 + np.tanh(z))).tolist()
    return Spread(stderr=stderr, low=low, high=high, note="")


class ContextMean(NamedTuple):
    """A mean, and how far it varies with the contexts that were sampled.

    low, high : 95 % interval, NaN where there is none. stderr : standard error of `value`; NaN where there is none
    n_contexts : how many contexts it rests on
    """

    value: float
    low: float
    high: float
    stderr: float
    n_contexts: int


def mean_over_contexts(values: FloatArray, context_ids: Sequence[str]) -> ContextMean:
    """The mean of values, such as differences of scores, and its interval with each context left out in turn. Every
    value counts once: a context with more of them weighs more.

    values : shape (n,), one or more. context_ids : the context of each
    """
    mean = float(values.mean())
    context = index(context_ids)
    n_left = len(values) - np.bincount(context)
    sum_left = values.sum() - np.bincount(context, values)
    without = np.full(len(n_left), np.nan)
    np.divide(sum_left, n_left, out=without, where=n_left > 0)
    far = 1e4 * (1 + float(abs(values).max()))  # Scores have no ends: with ends so far away the interval is symmetric.
    interval = spread(mean, without, (-far, far))
    return ContextMean(
        value=mean,
        low=np.nan if interval.low is None else interval.low,
        high=np.nan if interval.high is None else interval.high,
        stderr=interval.stderr,
        n_contexts=len(n_left),
    )


def mean_score(values: FloatArray, context_ids: Sequence[str]) -> ContextMean:
    """The mean of the scores that there are, such as those of one system, and its interval over contexts; NaN where
    there are none.

    values : shape (n,), NaN where unscored. context_ids : the context of each text; "" stands for a context of its own
    """
    scored = np.flatnonzero(~np.isnan(values)).tolist()
    if not scored:
        return ContextMean(np.nan, np.nan, np.nan, np.nan, 0)
    names = [f"context {context_ids[row]}" if context_ids[row] else f"text {row}" for row in scored]
    return mean_over_contexts(values[scored], names)


def mean_without(
    values: Sequence[float], without: Sequence[FloatArray], weights: Sequence[float] | None = None
) -> FloatArray:
    """The mean of several figures over the same contexts, with each context left out: shape (n_contexts,).

    Where a context takes no part in a figure, the figure's full value is used. Where it takes part in none, the result
    is NaN.

    values : the full value of each figure, of all contexts; shape (n_figures,)
    without : for each figure, its value with each context left out, shape (n_contexts,), as for `spread`: NaN where the
        context takes no part
    weights : weight of each figure (default: all the same)
    """
    if not without:
        return np.empty(0)
    rows = np.stack(without)
    unused = np.isnan(rows)
    filled = np.where(unused, np.array(values)[:, None], rows)
    means = np.average(filled, axis=0, weights=weights)
    return np.where(unused.all(axis=0), np.nan, means)


def p_value(value: float, stderr: float, n_contexts: int) -> float:
    """The two-sided probability of a difference this large or larger where there is none, by Student's t.

        p = 2 P(T > |value| / stderr),  with n_contexts - 1 degrees of freedom

    It is never below `least_p_value`: with fewer than LEAST_CONTEXTS no difference is told from chance.
    """
    from scipy.special import stdtr

    if stderr > 0:
        t = abs(value) / stderr
    elif value:
        t = np.inf
    else:
        t = 0.0
    by_student = float(2 * stdtr(n_contexts - 1, -t))
    return max(by_student, least_p_value(n_contexts))


def least_p_value(n_contexts: int) -> float:
    """The probability that all contexts favour the same one of two equal methods: 2 / 2^n_contexts."""
    return 2.0 ** (1 - n_contexts)


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """p-values of many comparisons, corrected so that the probability of any false difference stays below the level at
    which they are read, however the comparisons depend on each other (Holm, 1979).

        corrected p of the k-th smallest of n = max over j <= k of min(1, (n - j + 1) p of the j-th smallest)

    p_values : shape (n,); NaN is no comparison, and stays NaN
    returns : shape (n,)
    """
    p = np.asarray(p_values, dtype=np.float64)
    n_compared = np.count_nonzero(~np.isnan(p))
    order = np.argsort(p, kind="stable")[:n_compared]  # NaN comes last
    factors = np.arange(n_compared, 0, -1)
    corrected = np.full_like(p, np.nan)
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(factors * p[order]))
    return corrected
