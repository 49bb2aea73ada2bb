"""Frequencies of sampled answers -> how far the paper's sum may be from that of infinitely many samples.

The error is that of sampling alone: as N grows it goes to 0, and exact probabilities have none. What the judge's
opinion of a pair is off by stays in the sum however often it is asked, and no frequency shows it (docs/equations.md).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..types import FloatArray

LEVEL = 0.9
"""Probability of the interval from low to high."""

_WIDTH = 1.6448536269514722  # of 90 %, in standard errors
_PSEUDO = 0.5  # answers, shared out over the labels, so that no rung counts as certain
_ENOUGH = 100.0  # samples; exact probabilities weigh as so many where the rungs beside them are looked at


class SumError(NamedTuple):
    """Of a score in rung equivalents: its standard error, and the ends of its 90 % interval."""

    stderr: float
    low: float
    high: float


def variance_of_sum(better: FloatArray, worse: FloatArray, n_samples: FloatArray, *, two_sided: bool) -> float:
    """Sampling variance of the paper's sum of a text, where each rung counts as the mean of its orders.

        sum over rungs i of  i^2 r V_i  sum over orders o of  1 / (n_io O^2)

    V_i : variance of one answer's better - worse on rung i, by the frequencies of all orders of this rung and, half as
        much, of those beside it, with half an answer more: so that four answers that agree are not taken for certain.
        It holds both noises, of sampling and of what the judge is settled in for one order of one pair.
    r : the share of it that is sampling: of questions with two samples or more, how they differ among each other, over
        V_i; with one question's worth of r = 1 added. With one sample a question nothing tells, and r is 1: the error
        is then at most too large.

    better, worse, n_samples : shape (O, N), of each order and rung; n_samples is inf for exact probabilities
    two_sided : better and worse are answers to two questions, so that they do not exclude each other
    """
    n_orders = len(better)
    n_rungs = better.shape[1]
    squares = np.arange(1.0, n_rungs + 1) ** 2
    counted = np.minimum(n_samples, _ENOUGH)
    near = np.eye(n_rungs) + (np.eye(n_rungs, k=1) + np.eye(n_rungs, k=-1)) / 2
    total = near @ counted.sum(axis=0) + _PSEUDO
    each = _PSEUDO / (2 if two_sided else 3)
    pooled_better, pooled_worse = ((near @ (counted * p).sum(axis=0) + each) / total for p in (better, worse))
    of_rung = _variance(pooled_better, pooled_worse, two_sided)
    within = float((counted * _variance(better, worse, two_sided) * (counted > 1) @ squares).sum())
    expected = float(((counted - 1) * of_rung @ squares).sum())
    prior = float(of_rung @ squares)
    share = (within + prior) / (expected + prior)
    by_rung = squares * of_rung * share * (1 / n_samples).sum(axis=0) / n_orders**2
    return float(by_rung.sum())


def _variance(better: FloatArray, worse: FloatArray, two_sided: bool) -> FloatArray:
    """Of better - worse of one answer drawn from these probabilities."""
    variance: FloatArray = better * (1 - better) + worse * (1 - worse)
    if not two_sided:
        variance = variance + 2 * better * worse
    return variance


def error_on_rungs(raw: float, variance: float, n_rungs: int) -> SumError:
    """The error of a paper's sum `raw` in rung equivalents r = sqrt(raw + bound).

        stderr = e / (r + sqrt(r^2 + e)),     e = sqrt(variance)

    To first order e / (2 r), the delta method, but finite at r = 0. low, high : raw -+ 1.645 e, within the scale, as
    rung equivalents
    """
    bound = n_rungs * (n_rungs + 1) / 2
    e = math.sqrt(variance)
    square = max(raw + bound, 0.0)
    low = math.sqrt(max(square - _WIDTH * e, 0.0))
    high = math.sqrt(min(square + _WIDTH * e, 2 * bound))
    return SumError(e / (math.sqrt(square) + math.sqrt(square + e)) if e else 0.0, low, high)
