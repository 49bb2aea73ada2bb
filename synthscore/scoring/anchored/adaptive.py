"""A scale and somebody to ask -> where targets stand, by as few questions as a stop rule needs. docs/adaptive.md.

In rounds: each target that is still open is compared with the rung that would tell most, all of them at once. Each
target's questions follow from its own answers alone, not from what else is asked. Knows no prompts and no engine.
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
    """Stops where P(position >= threshold) is at most alpha, or at least 1 - alpha."""

    threshold: float
    alpha: float = 0.05

    def __post_init__(self) -> None:
        _require(math.isfinite(self.threshold), "threshold", self.threshold, "a number, in rungs")
        _require(0 < self.alpha < 0.5, "alpha", self.alpha, "between 0 and 0.5")

    def met(self, mean: FloatArray, sd: FloatArray, to_come: FloatArray) -> BoolArray:
        return _side(mean - self.threshold, sd) <= self.alpha


@dataclass(frozen=True, slots=True)
class SameDecision:
    """Stops where the score that all questions together would give is on the other side of the threshold with at most
    eps. A text that even all of them leave in doubt is not asked about for ever, as it is by Sure."""

    threshold: float
    eps: float = 0.02

    def __post_init__(self) -> None:
        _require(math.isfinite(self.threshold), "threshold", self.threshold, "a number, in rungs")
        _require(0 < self.eps < 0.5, "eps", self.eps, "between 0 and 0.5")

    def met(self, mean: FloatArray, sd: FloatArray, to_come: FloatArray) -> BoolArray:
        return _side(mean - self.threshold, to_come) <= self.eps


Stop = Sure | SameDecision
"""When a target needs no more questions. Of `met`, all of shape (n,), rungs: mean and sd, of where targets stand by the
answers so far; to_come, standard deviation of the mean that all questions together would give, around this one."""


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Where targets stand, and what was asked for it.

    posterior : by these answers, as of Scale.place
    probs : float64, shape (n_targets, n_orders, N, 3); the answers; NaN where there is none
    n_asked, n_full : int64, shape (n_targets,); questions asked, failed ones among them, and of the whole ladder
    met : bool, shape (n_targets,); False where the questions ran out before the stop rule was met
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
    """Ask about each target until the stop rule is met, by one answer at least, or no question is left.

    The next question is the one after which the variance of the target's position is expected to be least: in a linear
    normal model it is also the one by which fewest thresholds are decided wrongly.

        cov(x, x - r)^2 / (1 / h + var(x - r))      h: what the answer adds to the information on x - r

    In both orders, it is of the order in which the target was asked about less: the model's position bias is one for
    all texts, a judge's is not.

    contexts : id of each target's context
    both_orders : a question may be asked in either order, each counts as one; False: as usual alone
    usable : shape (n_targets, N); rungs that can be asked about; None: all. What fails is not asked again
    n_samples : how many samples each answer is of, where all can be read; inf: it is exact
    scale : of a judge that sees the rungs rise
    """
    n_targets = len(contexts)
    n = scale.n_rungs
    judge = scale.judge.of_samples(n_samples)
    usable = np.ones((n_targets, n), dtype=bool) if usable is None else usable
    left = np.repeat(usable[:, None], 1 + both_orders, axis=1)  # (n_targets, n_orders, N)
    n_full = left.sum(axis=(1, 2))
    probs = np.full((*left.shape, 3), np.nan)
    context = np.unique(np.array(contexts, dtype=str), return_inverse=True)[1]
    precision = scale.prior(contexts).precision
    met = np.zeros(n_targets, dtype=bool)
    open_ = np.arange(n_targets)
    n_rounds = 0
    while True:
        posterior = _placed(scale, [contexts[k] for k in open_.tolist()], probs[open_], n_samples)
        known = _Known(judge, posterior, precision[open_], _answered(probs[open_]))
        to_come = known.to_come(left[open_])
        met[open_] = (posterior.n_answers > 0) & stop.met(posterior.mean, posterior.sd, to_come)
        going = ~met[open_] & left[open_].any(axis=(1, 2))
        if not going.any():
            break
        target, rung, order = known.best(left[open_], going).T
        target = open_[target]
        sort = np.lexsort((target, order, rung, context[target]))
        target = target[sort]
        rung = rung[sort]
        order = order[sort]
        answers = ask(target, rung + 1, order == 1)
        waits = np.isinf(answers[:, 0])  # its next question depends on this answer
        probs[target, order, rung] = np.where(waits[:, None], np.nan, answers)
        left[target, order, rung] = False
        left[target[waits]] = False
        open_ = open_[going]
        n_rounds += 1
    posterior = _placed(scale, contexts, probs, n_samples)
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


def _placed(scale: Scale, contexts: Sequence[str], probs: FloatArray, n_samples: float) -> Posterior:
    """By the answers, in one order whatever the round: sums of the same numbers are then the same to the last bit."""
    target, rung, order = np.nonzero(_answered(probs).swapaxes(1, 2))
    counts = np.full(len(target), n_samples)
    return scale.place(contexts, target, rung + 1, order == 1, probs[target, order, rung], counts)


class _Known:
    """What the answers so far say of each target and its rungs, and what a question more would.

    cov : shape (n, N + 1, N + 1), of the target, then its rungs. certain, info : of each question by itself, shape
        (n, n_orders, N), where texts stand, and on average over where they may stand
    """

    def __init__(self, judge: JudgeModel, posterior: Posterior, precision: FloatArray, answered: BoolArray) -> None:
        self.judge = judge
        by = np.exp(posterior.sharpness)[:, None]
        difference = posterior.mean[:, None] - posterior.rungs
        difference = (by * difference)[:, None]  # in rungs of the median context
        by = by[:, None]
        signs = np.array([1.0, -1.0])[: answered.shape[1], None]
        self.answered = answered
        self.certain = by**2 * information(judge, difference, signs, None)
        n = precision.shape[-1]
        self.prior = np.zeros((len(precision), n + 1, n + 1))
        self.prior[:, 0, 0], self.prior[:, 1:, 1:] = judge.text_sd**-2.0, precision
        self.cov = _inverse(self.precision_by(self.certain, answered))
        unsure = by**2 * _of_differences(self.cov)[:, None]
        self.info = by**2 * information(judge, difference, signs, unsure)

    def precision_by(self, info: FloatArray, asked: BoolArray) -> FloatArray:
        """Of target and rungs, where these questions have an answer. info : of each question by itself"""
        of_rungs = information_of_rungs(self.judge, info, asked)
        return _with(self.prior, of_rungs / effect_of_neighbours(self.judge, of_rungs)[:, None])

    def to_come(self, left: BoolArray) -> FloatArray:
        """Stop.to_come: by as much as the variance falls, the mean moves (law of total variance)."""
        info = np.where(self.answered, self.certain, self.info)
        final = _inverse(self.precision_by(info, self.answered | left))[:, 0, 0]
        to_come: FloatArray = np.sqrt(np.maximum(self.cov[:, 0, 0] - final, 0.0))
        return np.where(left.any(axis=(1, 2)), to_come, 0.0)

    def gain(self) -> FloatArray:
        """What each question more would add to what is known of x - r, shape (n, n_orders, N): less, where the same
        pair, or rungs beside it, have been asked about."""
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
        with np.errstate(divide="ignore"):  # an answer that tells nothing
            off = 1 / self.gain() + _of_differences(self.cov)[:, None]
        fall = ((self.cov[:, 0, 0, None] - self.cov[:, 0, 1:]) ** 2)[:, None] / off
        target = np.flatnonzero(going)
        n_left = left.sum(axis=2)  # by order: a judge favours a position more in some texts than in others
        in_turn = left & (n_left == n_left.max(axis=1, keepdims=True))[:, :, None]
        at = np.where(in_turn, fall, -1.0).reshape(len(left), -1)[target].argmax(axis=1)
        order, rung = np.divmod(at, left.shape[2])
        return np.stack([target, rung, order], axis=1)


def information(
    judge: JudgeModel, difference: FloatArray, sign: FloatArray | float, spread: FloatArray | None
) -> FloatArray:
    """Of an answer, on x - r. difference : x - r, rungs. spread : its variance, to average over; None: it is known."""
    d = judge.discrimination * difference + judge.position_bias * sign
    if spread is None:
        probs = variance(judge.probs(d))
    else:
        nodes = d[..., None] + judge.discrimination * np.sqrt(spread)[..., None] * NODES
        probs = variance(judge.probs(nodes))
    info: FloatArray = judge.discrimination**2 * probs / (judge.noise + judge.spread * probs)
    return info if spread is None else info @ WEIGHTS


def _with(precision: FloatArray, info: FloatArray) -> FloatArray:
    """And answers about the differences of the target and its rungs. info : shape (n, N)"""
    joint = precision.copy()
    joint[:, 0, 0] += info.sum(axis=1)
    joint[:, 0, 1:] -= info
    joint[:, 1:, 0] -= info
    rungs = np.arange(1, joint.shape[1])
    joint[:, rungs, rungs] += info
    return joint


def _inverse(matrix: FloatArray) -> FloatArray:
    return np.linalg.inv(matrix).astype(np.float64)


def _of_differences(cov: FloatArray) -> FloatArray:
    """Variance of x - r of each rung, shape (n, N)."""
    own = cov.diagonal(0, 1, 2)
    return own[:, :1] + own[:, 1:] - 2 * cov[:, 0, 1:]


def _side(difference: FloatArray, sd: FloatArray) -> FloatArray:
    """Probability that what is expected at a distance from the threshold lies on its other side."""
    from scipy.special import ndtr

    return ndtr(-np.abs(difference) / np.maximum(sd, 1e-12))


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise unusable(name, value, expected)
