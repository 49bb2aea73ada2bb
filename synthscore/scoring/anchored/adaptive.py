"""A scale and a function that asks -> where targets stand, by as few questions as a stop rule needs. docs/adaptive.md.

`ask_in_rounds` places all targets by the answers so far, asks about each that does not meet the rule (`Sure`,
`SameDecision`) the one question that would tell most about it (`_Known.best`), and begins again. A target's questions
follow from its own answers alone, not from those about other targets. Knows no prompts and no engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import unusable
from ...types import BoolArray, FloatArray, IntArray
from .correlation import effect_of_neighbours, information_of_rungs
from .model import JudgeModel, Posterior, variance
from .scale import Scale

Ask = Callable[[IntArray, IntArray, BoolArray], FloatArray]
"""target, level (1..N), swapped (as in Verdict), each of shape (n,) -> better, worse, similar of the target, shape
(n, 3), which sum to 1 (`three_way`); a row of NaN where there is no answer, of inf where it will come later. Questions
are sorted by context, level, order, so that what prompts share lies together."""

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@dataclass(frozen=True, slots=True)
class Sure:
    """Stops where it is known on which side of the threshold a text is: where P(position >= threshold) is at most
    alpha, or at least 1 - alpha."""

    threshold: float
    alpha: float = 0.05

    def __post_init__(self) -> None:
        _require(math.isfinite(self.threshold), "threshold", self.threshold, "a number, in rungs")
        _require(0 < self.alpha < 0.5, "alpha", self.alpha, "between 0 and 0.5")

    def met(self, mean: FloatArray, sd: FloatArray, to_come: FloatArray) -> BoolArray:
        return _side(mean - self.threshold, sd) <= self.alpha


@dataclass(frozen=True, slots=True)
class SameDecision:
    """Stops where the probability is at most eps that all questions together would put the score on the other side of
    the threshold. Unlike Sure, it also stops for a text that even all questions would leave in doubt."""

    threshold: float
    eps: float = 0.02

    def __post_init__(self) -> None:
        _require(math.isfinite(self.threshold), "threshold", self.threshold, "a number, in rungs")
        _require(0 < self.eps < 0.5, "eps", self.eps, "between 0 and 0.5")

    def met(self, mean: FloatArray, sd: FloatArray, to_come: FloatArray) -> BoolArray:
        return _side(mean - self.threshold, to_come) <= self.eps


Stop = Sure | SameDecision
"""When a target needs no more questions. The arguments of `met` have shape (n,), in rungs: mean and sd of the targets'
positions by the answers so far; to_come is how far (standard deviation) the mean would still move if all remaining
questions were asked."""


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Where targets stand, and what was asked for it.

    posterior : by these answers, as of Scale.place
    probs : float64, shape (n_targets, n_orders, N, 3); the answers; NaN where there is none
    n_asked, n_full : int64, shape (n_targets,); questions asked (failed ones count, and those whose answer is still to
        come), and those of the whole ladder
    met : bool, shape (n_targets,); False where the questions ran out before the stop rule was met, or where an answer
        is still to come
    """

    posterior: Posterior
    probs: FloatArray
    n_asked: IntArray
    n_full: IntArray
    met: BoolArray
    n_rounds: int


def ask_in_rounds(
    scale: Scale,
    contexts: Sequence[str],
    ask: Ask,
    stop: Stop,
    *,
    both_orders: bool = True,
    usable: BoolArray | None = None,
    n_samples: float = math.inf,
) -> Rounds:
    """Ask about each target until the stop rule is met and it has an answer, or no question is left.

    The next question is the one that is expected to lower the variance of the target's position most, by

        cov(x, x - r)^2 / (1 / h + var(x - r))      h: what the answer adds to the information on x - r

    In a linear normal model it also leaves the fewest decisions wrong. Where both orders can be asked, the question is
    asked in the order that the target was asked in less: the model has one position bias for all texts, but a judge's
    bias differs between them.

    contexts : id of each target's context
    both_orders : a question may be asked in either order, and each counts as one; False: only about the target
    usable : shape (n_targets, N); rungs that can be asked about; None: all. A failed question is not asked again
    n_samples : how many samples each answer is of, where all can be read; inf: it is exact
    scale : of a judge that sees the rungs rise
    """
    n_targets = len(contexts)
    n = scale.n_rungs
    judge = scale.judge.for_samples(n_samples)
    if usable is None:
        usable = np.ones((n_targets, n), dtype=bool)
    left = np.repeat(usable[:, None], 1 + both_orders, axis=1)  # (n_targets, n_orders, N)
    n_full = left.sum(axis=(1, 2))
    probs = np.full((*left.shape, 3), np.nan)
    context = np.unique(np.array(contexts, dtype=str), return_inverse=True)[1]
    precision = scale.prior(contexts).precision
    met = np.zeros(n_targets, dtype=bool)
    open_ = np.arange(n_targets)
    n_rounds = 0
    while True:
        posterior = _place(scale, [contexts[k] for k in open_.tolist()], probs[open_], n_samples)
        known = _Known(judge, posterior, precision[open_], _answered(probs[open_]))
        to_come = known.to_come(left[open_])
        met[open_] = (posterior.n_answers > 0) & stop.met(posterior.mean, posterior.sd, to_come)
        going = ~met[open_] & left[open_].any(axis=(1, 2))
        if not going.any():
            break
        target, rung, order = known.best(left[open_], going).T
        target = open_[target]
        sort = np.lexsort((target, order, rung, context[target]))  # as `Ask` takes them
        target = target[sort]
        rung = rung[sort]
        order = order[sort]
        answers = ask(target, rung + 1, order == 1)
        waits = np.isinf(answers[:, 0])  # No question follows until this answer has come.
        probs[target, order, rung] = np.where(waits[:, None], np.nan, answers)
        left[target, order, rung] = False
        open_ = np.setdiff1d(open_[going], target[waits])
        n_rounds += 1
    posterior = _place(scale, contexts, probs, n_samples)
    return Rounds(
        posterior=posterior,
        probs=probs,
        n_asked=n_full - left.sum(axis=(1, 2)),
        n_full=n_full,
        met=met,
        n_rounds=n_rounds,
    )


def _answered(probs: FloatArray) -> BoolArray:
    """Which questions have an answer, shape (n_targets, n_orders, N)."""
    return np.logical_not(np.isnan(probs).any(axis=-1))


def _place(scale: Scale, contexts: Sequence[str], probs: FloatArray, n_samples: float) -> Posterior:
    """Where targets stand by their answers. These are always sorted alike, so that sums agree to the last bit."""
    target, rung, order = np.nonzero(_answered(probs).swapaxes(1, 2))
    counts = np.full(len(target), n_samples)
    return scale.place(
        contexts=contexts,
        target=target,
        level=rung + 1,
        swapped=order == 1,
        verdicts=probs[target, order, rung],
        n_samples=counts,
    )


class _Known:
    """What the answers so far say about each target and its rungs, and what one more question would add.

    cov : shape (n, N + 1, N + 1); of the target, then its rungs
    certain, info : information of each question by itself, shape (n, n_orders, N): at the estimated positions, and
        averaged over where the texts may stand
    """

    def __init__(self, judge: JudgeModel, posterior: Posterior, precision: FloatArray, answered: BoolArray) -> None:
        self.judge = judge
        sharpness = np.exp(posterior.sharpness)[:, None]
        difference = posterior.mean[:, None] - posterior.rungs
        difference = (sharpness * difference)[:, None]  # in rungs of the median context
        sharpness = sharpness[:, None]
        signs = np.array([1.0, -1.0])[: answered.shape[1], None]
        self.answered = answered
        self.certain = sharpness**2 * information(judge, difference, signs, None)
        n = precision.shape[-1]
        self.prior = np.zeros((len(precision), n + 1, n + 1))
        self.prior[:, 0, 0] = judge.text_sd**-2.0
        self.prior[:, 1:, 1:] = precision
        self.cov = _inverse(self.precision_by(self.certain, answered))
        difference_var = sharpness**2 * _difference_variances(self.cov)[:, None]
        self.info = sharpness**2 * information(judge, difference, signs, difference_var)

    def precision_by(self, info: FloatArray, asked: BoolArray) -> FloatArray:
        """Of target and rungs, where these questions have an answer. info : of each question by itself"""
        by_rung = information_of_rungs(self.judge, info, asked)
        return _add_information(self.prior, by_rung / effect_of_neighbours(self.judge, by_rung)[:, None])

    def to_come(self, left: BoolArray) -> FloatArray:
        """How far the mean would still move, as Stop.met takes it.

        By the law of total variance, that has the variance by which the posterior variance would fall.
        """
        info = np.where(self.answered, self.certain, self.info)
        final = _inverse(self.precision_by(info, self.answered | left))[:, 0, 0]
        to_come: FloatArray = np.sqrt(np.maximum(self.cov[:, 0, 0] - final, 0.0))
        return np.where(left.any(axis=(1, 2)), to_come, 0.0)

    def gain(self) -> FloatArray:
        """Information on x - r that each further question would add, shape (n, n_orders, N): less where the same pair,
        or neighbouring rungs, have been asked about."""
        now = information_of_rungs(self.judge, self.certain, self.answered)
        info = np.where(self.answered, self.certain, self.info)
        gain = np.zeros_like(info)
        for order in range(info.shape[1]):
            asked = self.answered.copy()
            asked[:, order] = True
            gain[:, order] = information_of_rungs(self.judge, info, asked) - now
        return np.maximum(gain, 0.0) / effect_of_neighbours(self.judge, now)[:, None, None]

    def best(self, left: BoolArray, going: BoolArray) -> IntArray:
        """The question of each target that goes on, shape (n_questions, 3): target, level - 1, order."""
        with np.errstate(divide="ignore"):  # An answer that tells nothing has a gain of 0.
            off = 1 / self.gain() + _difference_variances(self.cov)[:, None]
        cov_with_difference = self.cov[:, 0, 0, None] - self.cov[:, 0, 1:]  # of x with x - r
        fall = (cov_with_difference**2)[:, None] / off  # of the variance of x, by each question
        target = np.flatnonzero(going)
        n_left = left.sum(axis=2)
        less_asked_order = n_left == n_left.max(axis=1, keepdims=True)
        in_turn = left & less_asked_order[:, :, None]
        fall_by_question = np.where(in_turn, fall, -1.0).reshape(len(left), -1)
        question = fall_by_question[target].argmax(axis=1)
        order, rung = np.divmod(question, left.shape[2])
        return np.stack([target, rung, order], axis=1)


def information(
    judge: JudgeModel, difference: FloatArray, sign: FloatArray | float, difference_var: FloatArray | None
) -> FloatArray:
    """Information of one answer on x - r.

    difference : x - r, rungs. difference_var : variance of x - r, over which the information is averaged; None: x - r
    is known
    """
    d = judge.discrimination * difference + judge.position_bias * sign
    if difference_var is not None:
        d = d[..., None] + judge.discrimination * np.sqrt(difference_var)[..., None] * NODES
    var = variance(judge.probs(d))
    info: FloatArray = judge.discrimination**2 * var / (judge.noise + judge.spread * var)
    if difference_var is not None:
        return info @ WEIGHTS
    return info


def _add_information(precision: FloatArray, info: FloatArray) -> FloatArray:
    """The precision with information on the differences between the target and its rungs. info : shape (n, N)"""
    joint = precision.copy()
    joint[:, 0, 0] += info.sum(axis=1)
    joint[:, 0, 1:] -= info
    joint[:, 1:, 0] -= info
    rungs = np.arange(1, joint.shape[1])
    joint[:, rungs, rungs] += info
    return joint


def _inverse(matrix: FloatArray) -> FloatArray:
    return np.linalg.inv(matrix).astype(np.float64)


def _difference_variances(cov: FloatArray) -> FloatArray:
    """Variance of x - r of each rung, shape (n, N)."""
    variances = cov.diagonal(0, 1, 2)
    return variances[:, :1] + variances[:, 1:] - 2 * cov[:, 0, 1:]


def _side(difference: FloatArray, sd: FloatArray) -> FloatArray:
    """Probability that a position lies on the other side of the threshold than its mean.

    difference : of the mean from the threshold
    """
    from scipy.special import ndtr

    return ndtr(-np.abs(difference) / np.maximum(sd, 1e-12))


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise unusable(name, value, expected)
