"""Is a ladder longer than others, or is the judge sharper on its context? Pure NumPy.

In the judge's nats a ladder is exp(g + s) times as long as the median one, because the judge is sharper on its context
(g) or because the ladder is stretched (s): rungs against each other cannot tell. Texts can: those of a context on which
the judge is sharp lie further apart, too. So, over contexts,

    L = log length of the ladder  =  g + s,      T = log spread of the texts  =  g + h,      cov(L, T) = var(g)

with h, by how much the texts of contexts really differ in spread. All three are taken as normal.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...types import FloatArray
from .model import JudgeModel, Posterior, SoftAnswers, centred_levels

_LEAST_KNOWN = 0.05  # share of what lengths differ by that answers must tell, or they count as telling this much


@dataclass(frozen=True, slots=True, eq=False)
class Lengths:
    """L and T of each context, against the median ladder, and the variances of their errors; shape (n_ladders,).

    spread_error is inf where fewer than two texts of a context have answers.
    """

    ladder: FloatArray
    ladder_error: FloatArray
    spread: FloatArray
    spread_error: FloatArray

    @classmethod
    def of(cls, answers: SoftAnswers, posterior: Posterior, judge: JudgeModel) -> Lengths:
        """posterior : without sharpness, by a judge (JudgeModel.alike) whose ladders have all of g + s as stretch

        What answers leave open is drawn towards what is expected: of what lengths differ by, only the part `known` is
        seen, of the spread of texts its square. That is undone.
        """
        from scipy.special import polygamma

        n, n_ladders, (_, stretch, uneven) = judge.n_rungs, answers.n_ladders, judge.rung_sd
        level = centred_levels(n)
        size = level @ level
        left = np.einsum("n,cnm,m->c", level, posterior.rung_cov, level) / size**2
        known = np.maximum(1 - left / (stretch**2 + uneven**2 / size), _LEAST_KNOWN)
        squares = ((posterior.rungs - posterior.rungs.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        ladder = np.log(np.maximum(squares / (size + uneven**2 * (n - 1)), 1e-6)) / 2 / known

        asked = posterior.n_answers > 0
        at = answers.target_ladder[asked]
        mean = posterior.mean[asked]
        count = np.bincount(at, minlength=n_ladders)
        middle, left_open = (
            np.bincount(at, values, n_ladders) / np.maximum(count, 1) for values in (mean, posterior.sd[asked] ** 2)
        )
        free = np.maximum(count - 1, 1)
        squares = np.bincount(at, (mean - middle[at]) ** 2, n_ladders) / free + left_open
        seen = np.maximum(1 - left_open / judge.target_sd**2, _LEAST_KNOWN)
        spread = np.log(np.maximum(squares, 1e-12)) / 2 / seen**2
        error = np.where(count > 1, polygamma(1, free / 2) / 4 / seen**2, np.inf)
        # How spread texts usually are is told by these very contexts: by one of them alone, T tells nothing.
        weight = _normalised(1 / (error + stretch**2))
        spread = np.where(count > 1, spread - weight @ (spread - ladder), 0.0)
        return cls(ladder, left / known, spread, error / max(1 - weight @ weight, 1e-9))


class Deviations(NamedTuple):
    """Standard deviations of g, s and h; and how far answers have told g and s apart, from 0 (half each) to 1."""

    sharpness: float
    stretch: float
    spread: float
    told: float


def share(lengths: Lengths, prior: float, n_prior: float) -> Deviations:
    """The variance of L is half g's before any text is seen; cov(L, T) moves that as far as its own error lets it.

    prior : standard deviation of L that counts as n_prior ladders
    """
    ladder = lengths.ladder
    own = float(np.maximum(ladder**2 - lengths.ladder_error, 0).sum())
    total = (own + n_prior * prior**2) / (len(ladder) + n_prior)
    weight = _normalised(1 / (lengths.spread_error + total))
    free = max(1 / float(weight @ weight) - 1, 1e-9) if weight.any() else 1e-9
    error = float(weight @ np.where(weight > 0, lengths.spread_error, 0.0))
    off = lengths.spread - weight @ lengths.spread
    cov, var = (float(weight @ (values * off)) * (1 + 1 / free) for values in (ladder - weight @ ladder, off))
    of_cov = max(var, total + error) * (total + float(weight @ lengths.ladder_error)) / free
    precision = 1 / of_cov, 4 / total**2
    told = precision[0] / sum(precision)
    sharp = float(np.clip(told * cov + (1 - told) * total / 2, 0.0, total))
    spread = max(var - sharp - error, 0.0)
    return Deviations(math.sqrt(sharp), math.sqrt(total - sharp), math.sqrt(spread), float(told))


def sharpness(lengths: Lengths, judge: JudgeModel) -> tuple[FloatArray, FloatArray]:
    """g of each context by its L and T, and the standard deviation of what they leave of it, shape (n_ladders,)."""
    by_ladder = 1 / np.maximum(judge.rung_sd[1] ** 2 + lengths.ladder_error, 1e-12)
    by_texts = 1 / (judge.spread_sd**2 + lengths.spread_error)
    var = 1 / (max(judge.sharpness_sd, 1e-12) ** -2 + by_ladder + by_texts)
    return (by_ladder * lengths.ladder + by_texts * lengths.spread) * var, np.sqrt(var)


def _normalised(weight: FloatArray) -> FloatArray:
    """Summing to 1, where there is any."""
    return weight / weight.sum() if weight.any() else weight
