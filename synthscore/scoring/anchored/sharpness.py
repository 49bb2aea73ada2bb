"""Answers and positions -> how much of a ladder's length is the judge's sharpness on its context. Pure NumPy.

Some ladders look longer than others: in nats of the judge, a ladder is exp(g + s) times as long as the median one. It
may be that the judge is sharper on that context (g), or that the rungs really are further apart (s, the stretch).
Comparisons among rungs cannot separate the two. Texts can, because a sharper judge also sees the texts of that context
spread further apart. Over contexts,

    L = log length of the ladder   =  g + s
    T = log spread of the texts    =  g + h         h : how much more the texts of this context really differ
    cov(L, T) = var(g)

where g, s and h are independent and normal. `Lengths` measures L and T, `find_deviations` the standard deviations of g,
s and h over all contexts, and `find_sharpness` g itself for each context.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...types import FloatArray, IntArray
from .model import JudgeModel, Posterior, SoftAnswers, centred_levels

_LEAST_KNOWN = 0.05  # Answers are taken to show at least this share of a difference, so that nothing is divided by 0.
_LEAST_FREEDOM = 1e-9  # Stands for 0 degrees of freedom in a division: the result is then as good as infinite.
_LEAST_VAR = 1e-12  # Stands for a variance of 0 in a division.


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """L and T of each context and the variances of their errors, shape (n_ladders,). Both are logs of ratios, without a
    unit: above 0 where the ladder is longer, or the texts are further apart, than usual.

    ladder, ladder_var : L and the variance of its error
    spread, spread_var : T and the variance of its error, which is inf where fewer than two texts have answers
    """

    ladder: FloatArray
    ladder_var: FloatArray
    spread: FloatArray
    spread_var: FloatArray

    @classmethod
    def measure(cls, answers: SoftAnswers, posterior: Posterior, judge: JudgeModel) -> Lengths:
        """L and T, from where rungs and texts stand.

        posterior : by a judge that is equally sharp on all contexts (JudgeModel.equally_sharp), so that all of g + s
            counts as stretch
        """
        ladder, ladder_var = _ladder_lengths(posterior, judge)
        spread, spread_var, n_texts = _text_spreads(answers, posterior, judge)
        # T is known up to a constant, which is chosen so that T - L = h - s is 0 on average over contexts.
        stretch = judge.rung_sd[1]
        weight = _normalise(1 / (spread_var + stretch**2))
        mean_difference = weight @ (spread - ladder)
        spread = np.where(n_texts > 1, spread - mean_difference, 0.0)
        # Subtracting that average costs a share sum(w^2) of the information, the same for every context; all of it for
        # a single one.
        share_left = max(1 - float(weight @ weight), _LEAST_FREEDOM)
        return cls(ladder=ladder, ladder_var=ladder_var, spread=spread, spread_var=spread_var / share_left)


def _ladder_lengths(posterior: Posterior, judge: JudgeModel) -> tuple[FloatArray, FloatArray]:
    """L of each context and the variance of its error, shape (n_ladders,).

        length^2 = sum of (rung - mean of rungs)^2 / what that sum is expected to be for the median ladder

    The prior pulls the positions of rungs towards the median ladder, so that the posterior shows only a share, `known`,
    of the difference in length. Dividing by this share undoes the pull.
    """
    n = judge.n_rungs
    _, stretch, uneven = judge.rung_sd
    level = centred_levels(n)
    size = level @ level
    # A ladder's slope is sum of level * rung / size. Its variance after the answers, and before them:
    slope_var = np.einsum("n,cnm,m->c", level, posterior.rung_cov, level) / size**2
    slope_prior_var = stretch**2 + uneven**2 / size
    known = np.maximum(1 - slope_var / slope_prior_var, _LEAST_KNOWN)
    centre = posterior.rungs.mean(axis=1, keepdims=True)
    squares = ((posterior.rungs - centre) ** 2).sum(axis=1)
    expected_squares = size + uneven**2 * (n - 1)
    length_squared = np.maximum(squares / expected_squares, 1e-6)  # The logarithm of 0 is not finite.
    log_length = np.log(length_squared) / 2
    return log_length / known, slope_var / known


def _text_spreads(
    answers: SoftAnswers, posterior: Posterior, judge: JudgeModel
) -> tuple[FloatArray, FloatArray, IntArray]:
    """T of each context up to a constant, the variance of its error, and how many texts have answers: three arrays of
    shape (n_ladders,).

        spread^2 = variance of the texts' positions + mean of the variances of their errors        in rungs squared

    The prior pulls texts towards the mean. So the posterior shows only the square of the share `known`:

        d log(spread^2) / d log(true variance of the texts) = known^2

    since the variance of the positions is a share `known` of spread^2 (the errors are the rest, and come from the
    prior), and true differences are a share `known` of that variance (answers' noise is the rest).
    Texts that are as far apart as usual show just that, whatever `known`, so that the difference of log(spread) from
    log(target_sd) is what is divided by it.
    The log of a variance with f degrees of freedom has the error variance trigamma(f / 2), and T is half of that log.
    """
    from scipy.special import polygamma

    n_ladders = answers.n_ladders
    asked = posterior.n_answers > 0
    ladder = answers.target_ladder[asked]
    position = posterior.mean[asked]
    n_texts: IntArray = np.bincount(ladder, minlength=n_ladders)
    divisor = np.maximum(n_texts, 1)
    mean_position = np.bincount(ladder, position, n_ladders) / divisor
    error_var = np.bincount(ladder, posterior.sd[asked] ** 2, n_ladders) / divisor
    freedom = np.maximum(n_texts - 1, 1)
    squares = np.bincount(ladder, (position - mean_position[ladder]) ** 2, n_ladders)
    spread_squared = squares / freedom + error_var
    known = np.maximum(1 - error_var / judge.target_sd**2, _LEAST_KNOWN)
    log_spread = np.log(np.maximum(spread_squared, _LEAST_VAR)) / 2 - math.log(judge.target_sd)
    log_spread_var = polygamma(1, freedom / 2) / 4
    spread_var = np.where(n_texts > 1, log_spread_var / known**2, np.inf)
    return log_spread / known**2, spread_var, n_texts


class Deviations(NamedTuple):
    """Standard deviations over contexts of g (`sharpness`), s (`stretch`) and h (`spread`).

    told_apart : how far the texts could tell g from s, from 0 (not at all: each gets half of the variance of L) to 1
    """

    sharpness: float
    stretch: float
    spread: float
    told_apart: float


def find_deviations(lengths: Lengths, prior: float, n_prior: float) -> Deviations:
    """Divide the variance of L between sharpness (g) and stretch (s).

    There are two estimates of var(g). Without texts it is guessed to be half of var(L), give or take the other half.
    With texts it is cov(L, T). The result is the mean of the two, each weighted by the inverse of its error variance.

    prior : standard deviation of L that is expected before any answer, and counts as n_prior ladders
    """
    ladder = lengths.ladder
    spread = lengths.spread
    # var(g) + var(s): the variance of L without that of its measurement.
    squares = float(np.maximum(ladder**2 - lengths.ladder_var, 0).sum())
    ladder_var_true = (squares + n_prior * prior**2) / (len(ladder) + n_prior)

    # Contexts count the less, the worse their T is known; `freedom` is the effective number of contexts, less 1.
    weight = _normalise(1 / (lengths.spread_var + ladder_var_true))
    freedom = _LEAST_FREEDOM
    if weight.any():
        freedom = max(1 / float(weight @ weight) - 1, _LEAST_FREEDOM)
    ladder_error_var = float(weight @ lengths.ladder_var)
    finite_spread_var = np.where(weight > 0, lengths.spread_var, 0.0)
    spread_error_var = float(weight @ finite_spread_var)

    cov = _weighted_covariance(ladder, spread, weight, freedom)
    spread_var_measured = _weighted_covariance(spread, spread, weight, freedom)
    # The covariance of two normal variables has an error variance of var(L) var(T) / freedom, where both include the
    # errors of measurement. var(T), which may come out small by chance, counts as at least that of g alone if L were
    # all g.
    ladder_var_measured = ladder_var_true + ladder_error_var
    least_spread_var = ladder_var_true + spread_error_var
    cov_error_var = max(spread_var_measured, least_spread_var) * ladder_var_measured / freedom
    precision = 1 / cov_error_var
    guess_precision = 4 / ladder_var_true**2
    told_apart = precision / (precision + guess_precision)

    estimate = told_apart * cov + (1 - told_apart) * ladder_var_true / 2
    sharpness_var = float(np.clip(estimate, 0.0, ladder_var_true))
    h_var = max(spread_var_measured - sharpness_var - spread_error_var, 0.0)
    return Deviations(
        sharpness=math.sqrt(sharpness_var),
        stretch=math.sqrt(ladder_var_true - sharpness_var),
        spread=math.sqrt(h_var),
        told_apart=float(told_apart),
    )


def find_sharpness(lengths: Lengths, judge: JudgeModel) -> tuple[FloatArray, FloatArray]:
    """g of each context and the standard deviation of its error, shape (n_ladders,).

    Three estimates of g are averaged, each weighted by its precision, the inverse of its error variance:

        L, with the error variance var(s) + ladder_var
        T, with the error variance var(h) + spread_var
        0, which is expected before any answer, with the error variance var(g)

    judge : its rung_sd (stretch), spread_sd and sharpness_sd are the deviations of s, h and g
    """
    stretch = judge.rung_sd[1]
    ladder_precision = 1 / np.maximum(stretch**2 + lengths.ladder_var, _LEAST_VAR)
    text_precision = 1 / (judge.spread_sd**2 + lengths.spread_var)
    prior_precision = max(judge.sharpness_sd, 1e-12) ** -2
    var = 1 / (prior_precision + ladder_precision + text_precision)
    sharpness = (ladder_precision * lengths.ladder + text_precision * lengths.spread) * var
    return sharpness, np.sqrt(var)


def _weighted_covariance(x: FloatArray, y: FloatArray, weight: FloatArray, freedom: float) -> float:
    """The covariance of x and y over contexts, corrected for their own mean by the factor 1 + 1 / freedom.

    x, y, weight : shape (n_ladders,); the weights sum to 1, or all are 0
    freedom : one less than the number of contexts that these weights are worth
    """
    products = (x - weight @ x) * (y - weight @ y)
    return float(weight @ products) * (1 + 1 / freedom)


def _normalise(weight: FloatArray) -> FloatArray:
    """The weights divided by their sum; where all are 0, they stay so."""
    if not weight.any():
        return weight
    shares: FloatArray = weight / weight.sum()
    return shares
