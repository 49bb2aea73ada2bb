"""Is a ladder longer than others, or is the judge sharper on its context? Pure NumPy.

In the judge's nats a ladder is exp(g + s) times as long as the median one, because the judge is sharper on its context
(g) or because the ladder is stretched (s): rungs against each other cannot tell. Texts can: those of a context on which
the judge is sharp lie further apart, too. So, over contexts,

    L = log length of the ladder  =  g + s,      T = log spread of the texts  =  g + h,      cov(L, T) = var(g)

where h is how much the texts of contexts really differ in spread. All three are taken as normal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...types import FloatArray, IntArray
from .model import JudgeModel, Posterior, SoftAnswers, centred_levels

_LEAST_KNOWN = 0.05  # Answers count as telling at least this share of a difference, so that nothing is divided by 0.


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """L and T of each context, against the median ladder, and the variances of their errors; shape (n_ladders,).

    spread_var is inf where fewer than two texts of a context have answers.
    """

    ladder: FloatArray
    ladder_var: FloatArray
    spread: FloatArray
    spread_var: FloatArray

    @classmethod
    def measure(cls, answers: SoftAnswers, posterior: Posterior, judge: JudgeModel) -> Lengths:
        """posterior : by a judge that is equally sharp on all contexts (JudgeModel.equally_sharp), so that all of g + s
        counts as stretch
        """
        ladder, ladder_var = _ladder_lengths(posterior, judge)
        spread, spread_var, count = _text_spreads(answers, posterior, judge)
        stretch = judge.rung_sd[1]
        weight = _normalise(1 / (spread_var + stretch**2))
        spread = np.where(count > 1, spread - weight @ (spread - ladder), 0.0)
        # The weighted mean of T was subtracted, so a single context says nothing, and errors are larger by that.
        return cls(
            ladder=ladder,
            ladder_var=ladder_var,
            spread=spread,
            spread_var=spread_var / max(1 - float(weight @ weight), 1e-9),
        )


def _ladder_lengths(posterior: Posterior, judge: JudgeModel) -> tuple[FloatArray, FloatArray]:
    """L of each context and the variance of its error, shape (n_ladders,).

    The posterior draws each length towards the expected one and shows only the part `known` of the difference, by which
    it is therefore divided.
    """
    n = judge.n_rungs
    _, stretch, uneven = judge.rung_sd
    level = centred_levels(n)
    size = level @ level
    unknown = np.einsum("n,cnm,m->c", level, posterior.rung_cov, level) / size**2
    known = np.maximum(1 - unknown / (stretch**2 + uneven**2 / size), _LEAST_KNOWN)
    centre = posterior.rungs.mean(axis=1, keepdims=True)
    squares = ((posterior.rungs - centre) ** 2).sum(axis=1)
    length = np.log(np.maximum(squares / (size + uneven**2 * (n - 1)), 1e-6)) / 2
    return length / known, unknown / known


def _text_spreads(
    answers: SoftAnswers, posterior: Posterior, judge: JudgeModel
) -> tuple[FloatArray, FloatArray, IntArray]:
    """T of each context up to a constant, the variance of its error, and the texts with answers, shape (n_ladders,).

    The posterior shows only the square of the part `known` of the spread, by which it is therefore divided.
    """
    from scipy.special import polygamma

    n_ladders = answers.n_ladders
    asked = posterior.n_answers > 0
    ladder = answers.target_ladder[asked]
    mean = posterior.mean[asked]
    count: IntArray = np.bincount(ladder, minlength=n_ladders)
    divisor = np.maximum(count, 1)
    middle = np.bincount(ladder, mean, n_ladders) / divisor
    unknown = np.bincount(ladder, posterior.sd[asked] ** 2, n_ladders) / divisor
    freedom = np.maximum(count - 1, 1)
    squares = np.bincount(ladder, (mean - middle[ladder]) ** 2, n_ladders) / freedom + unknown
    known = np.maximum(1 - unknown / judge.target_sd**2, _LEAST_KNOWN)
    spread = np.log(np.maximum(squares, 1e-12)) / 2 / known**2
    error = np.where(count > 1, polygamma(1, freedom / 2) / 4 / known**2, np.inf)
    return spread, error, count


class Deviations(NamedTuple):
    """Standard deviations of g, s and h; told_apart says how far the texts could tell g from s, 0 (half each) to 1."""

    sharpness: float
    stretch: float
    spread: float
    told_apart: float


def find_deviations(lengths: Lengths, prior: float, n_prior: float) -> Deviations:
    """Divide the variance of L between g and s.

    The guess without texts is half of it, with the standard deviation total / 2. cov(L, T) also estimates the variance
    of g; the result is the mean of both, each weighted by the inverse of its variance.

    prior : standard deviation of L that counts as n_prior ladders
    """
    ladder = lengths.ladder
    measured = float(np.maximum(ladder**2 - lengths.ladder_var, 0).sum())
    total = (measured + n_prior * prior**2) / (len(ladder) + n_prior)
    weight = _normalise(1 / (lengths.spread_var + total))
    freedom = 1e-9
    if weight.any():
        freedom = max(1 / float(weight @ weight) - 1, 1e-9)
    spread_var = float(weight @ np.where(weight > 0, lengths.spread_var, 0.0))
    ladder_var = float(weight @ lengths.ladder_var)
    off_ladder = ladder - weight @ ladder
    off_spread = lengths.spread - weight @ lengths.spread
    cov = float(weight @ (off_ladder * off_spread)) * (1 + 1 / freedom)
    var = float(weight @ (off_spread * off_spread)) * (1 + 1 / freedom)
    var_of_cov = max(var, total + spread_var) * (total + ladder_var) / freedom
    precision = 1 / var_of_cov
    prior_precision = 4 / total**2
    told_apart = precision / (precision + prior_precision)
    sharp = float(np.clip(told_apart * cov + (1 - told_apart) * total / 2, 0.0, total))
    spread = max(var - sharp - spread_var, 0.0)
    return Deviations(
        sharpness=math.sqrt(sharp),
        stretch=math.sqrt(total - sharp),
        spread=math.sqrt(spread),
        told_apart=float(told_apart),
    )


def find_sharpness(lengths: Lengths, judge: JudgeModel) -> tuple[FloatArray, FloatArray]:
    """g of each context by its L and T, and the standard deviation of its error, shape (n_ladders,)."""
    by_ladder = 1 / np.maximum(judge.rung_sd[1] ** 2 + lengths.ladder_var, 1e-12)
    by_texts = 1 / (judge.spread_sd**2 + lengths.spread_var)
    var = 1 / (max(judge.sharpness_sd, 1e-12) ** -2 + by_ladder + by_texts)
    sharpness = (by_ladder * lengths.ladder + by_texts * lengths.spread) * var
    return sharpness, np.sqrt(var)


def _normalise(weight: FloatArray) -> FloatArray:
    """The weights divided by their sum; zeros stay zeros."""
    return weight / weight.sum() if weight.any() else weight
