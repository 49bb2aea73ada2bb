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
_PSEUDO = 0.5  # answers that are added, shared out over the labels, so that no rung counts as certain
_ENOUGH = 100.0  # samples that exact probabilities weigh as much as, where rungs beside each other are pooled


class SumError(NamedTuple):
    """Of a score in rung equivalents: its standard error, and the ends of its 90 % interval."""

    stderr: float
    low: float
    high: float


def variance_of_sum(better: FloatArray, worse: FloatArray, n_samples: FloatArray, *, two_sided: bool) -> float:
    """Sampling variance of the paper's sum of a text, where each rung counts as the mean of its orders.

        sum over rungs i of  i^2 r V_i  sum over orders o of  1 / (n_io O^2)

    V_i : variance of one answer's better - worse on rung i, by the frequencies of its orders and, at half their weight,
        of the rungs beside it. Half an answer is added, so that four answers that agree are not taken for certain.
        V_i holds two noises: of sampling, and of what the judge is settled in for one order of one pair
    r : the share of V_i that is sampling: how the answers to one question differ among each other, over V_i, for
        questions with two samples or more. As a prior, one question's worth of r = 1 is added: where each question has
        one sample, nothing tells, r is 1, and the error is at most too large

    better, worse, n_samples : shape (O, N), of each order and rung; n_samples is inf for exact probabilities
    two_sided : better and worse are answers to two questions, so that they do not exclude each other
    """
    n_orders = len(better)
    n_rungs = better.shape[1]
    squares = np.arange(1.0, n_rungs + 1) ** 2
    counted = np.minimum(n_samples, _ENOUGH)
    near = np.eye(n_rungs) + (np.eye(n_rungs, k=1) + np.eye(n_rungs, k=-1)) / 2
    n_labels = 2 if two_sided else 3
    pseudo = _PSEUDO / n_labels
    total = near @ counted.sum(axis=0) + _PSEUDO
    pooled_better = (near @ (counted * better).sum(axis=0) + pseudo) / total
    pooled_worse = (near @ (counted * worse).sum(axis=0) + pseudo) / total
    of_rung = _variance(pooled_better, pooled_worse, two_sided)
    several = counted > 1
    within = float((counted * _variance(better, worse, two_sided) * several @ squares).sum())
    if_all_sampling = float(((counted - 1) * of_rung @ squares).sum())
    prior = float(of_rung @ squares)
    share = (within + prior) / (if_all_sampling + prior)
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
    stderr = 0.0
    if e:
        stderr = e / (math.sqrt(square) + math.sqrt(square + e))
    return SumError(stderr, low, high)
