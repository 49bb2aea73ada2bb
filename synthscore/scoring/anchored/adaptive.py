"""A scale and somebody to ask -> where targets stand, by as few questions as a stop rule needs. docs/adaptive.md.

In rounds: each target that is still open is compared with the rung that would tell most, all of them at once. Each
target's questions follow from its own answers alone, not from what else is asked. Knows no prompts and no engine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import InputError, unusable
from ...types import BoolArray, FloatArray, IntArray
from .model import JudgeModel, Posterior, variance
from .scale import Lengths, Scale

Ask = Callable[[IntArray, IntArray, BoolArray], FloatArray]
"""target, level (1..N), swapped (as in Verdict), each of shape (n,) -> better, worse, similar of the target, shape
(n, 3), which sum to 1 (`three_way`); a row of NaN where there is no answer. Questions are sorted by context, level,
order, so that what prompts share lies together."""

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


@dataclass(frozen=True, slots=True)
class Narrow:
    """Stops where the 90 % interval is at most `width` rungs wide."""

    width: float

    def __post_init__(self) -> None:
        _require(self.width > 0, "width", self.width, "above 0, in rungs")

    def met(self, mean: FloatArray, sd: FloatArray, to_come: FloatArray) -> BoolArray:
        from scipy.special import ndtri

        met: BoolArray = 2 * ndtri(0.95) * sd <= self.width
        return met


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


Stop = Narrow | Sure | SameDecision
"""When a target needs no more questions. Of `met`, all of shape (n,), rungs: mean and sd, of where targets stand by the
answers so far; to_come, standard deviation of the mean that all questions together would give, around this one."""


@dataclass(frozen=True, slots=True, eq=False)
class Rounds:
    """Where targets stand, and what was asked for it.

    posterior : by these answers, as of Scale.place
    target, level, swapped, probs : one row a question, in the order asked, as in Scale.place; NaN where it failed
    n_asked, n_full : int64, shape (n_targets,); questions asked, failed ones among them, and of the whole ladder
    met : bool, shape (n_targets,); False where the questions ran out before the stop rule was met
    """

    posterior: Posterior
    target: IntArray
    level: IntArray
    swapped: BoolArray
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
    lengths: Lengths | None = None,
) -> Rounds:
    """Ask about each target until the stop rule is met, by one answer at least, or no question is left.

    The next question is the one after which the variance of the target's position is expected to be least: in a linear
    normal model it is also the one by which fewest thresholds are decided wrongly.

        cov(x, x - r)^2 / (1 / h + var(x - r))      h: information of the answer on x - r, over what is known of it

    In both orders, it is of the order in which the target was asked about less: the model's position bias is one for
    all texts, a judge's is not.

    contexts : id of each target's context
    both_orders : a question may be asked in either order, each counts as one; False: as usual alone
    usable : shape (n_targets, N); rungs that can be asked about; None: all. What fails is not asked again
    lengths : as in Scale.place
    raises : InputError for a judge that does not see the rungs rise, or answers of another shape
    """
    n_targets, n, judge = len(contexts), scale.n_rungs, scale.judge
    if not scale.judge.rungs_rise:
        raise InputError(
            f"scale {scale.task}/{scale.attribute}: its judge does not see the ladders rise, so that no question tells "
            "where a text stands, expected a judge that does. Look at the ladders, or take another judge"
        )
    usable = np.ones((n_targets, n), dtype=bool) if usable is None else usable
    _require(usable.shape == (n_targets, n), "shape of usable", usable.shape, f"({n_targets}, {n})")
    left = np.repeat(usable[:, None], 1 + both_orders, axis=1)  # (n_targets, n_orders, N)
    n_full = left.sum(axis=(1, 2))
    context = np.unique(np.array(contexts, dtype=str), return_inverse=True)[1]
    precision = scale.prior(contexts).precision
    asked = np.zeros((0, 3), dtype=np.int64)  # target, level - 1, order
    probs = np.zeros((0, 3))
    met = np.zeros(n_targets, dtype=bool)
    open_ = np.arange(n_targets)
    n_rounds = 0
    while True:
        rows = np.isin(asked[:, 0], open_)
        posterior = _placed(scale, [contexts[k] for k in open_.tolist()], open_, asked[rows], probs[rows], lengths)
        answered = _answered(asked, probs, left.shape)[open_]
        known = _Known(judge, posterior, precision[open_], answered, _at(lengths, open_))
        to_come = known.to_come(left[open_])
        met[open_] = (posterior.n_answers > 0) & stop.met(posterior.mean, posterior.sd, to_come)
        going = ~met[open_] & left[open_].any(axis=(1, 2))
        if not going.any():
            break
        questions = known.best(left[open_], going)
        questions[:, 0] = open_[questions[:, 0]]
        target, rung, order = questions.T
        questions = questions[np.lexsort((target, order, rung, context[target]))]
        target, rung, order = questions.T
        answers = ask(target, rung + 1, order == 1)
        _require(answers.shape == (len(target), 3), "shape of the answers", answers.shape, f"({len(target)}, 3)")
        left[target, order, rung] = False
        asked, probs = np.concatenate([asked, questions]), np.concatenate([probs, answers])
        open_ = open_[going]
        n_rounds += 1
    everyone = np.arange(n_targets)
    return Rounds(
        posterior=_placed(scale, contexts, everyone, asked, probs, lengths),
        target=asked[:, 0],
        level=asked[:, 1] + 1,
        swapped=asked[:, 2] == 1,
        probs=probs,
        n_asked=np.bincount(asked[:, 0], minlength=n_targets),
        n_full=n_full,
        met=met,
        n_rounds=n_rounds,
    )


class _Known:
    """What the answers so far say of each target and its rungs, and what a question more would.

    cov : shape (n, N + 1, N + 1), of the target, then its rungs. info : of each question, shape (n, n_orders, N)
    """

    def __init__(
        self,
        judge: JudgeModel,
        posterior: Posterior,
        precision: FloatArray,
        answered: BoolArray,
        lengths: Lengths | None,
    ) -> None:
        self.judge = judge
        difference = posterior.mean[:, None] - posterior.rungs
        if lengths is not None and judge.length_effect is not None:
            difference = difference + judge.length_effect * (lengths[1][:, None] - lengths[0])
        signs = np.array([1.0, -1.0])[: answered.shape[1], None]
        known = np.where(answered, information(judge, difference[:, None], signs, None), 0.0).sum(axis=1)
        self.precision = _with(_prior(judge, precision), known)
        self.cov = _inverse(self.precision)
        self.info = information(judge, difference[:, None], signs, _of_differences(self.cov)[:, None])

    def to_come(self, left: BoolArray) -> FloatArray:
        """Stop.to_come: by as much as the variance falls, the mean moves (law of total variance)."""
        more = np.where(left, self.info, 0.0).sum(axis=1)
        final = _inverse(_with(self.precision, more))[:, 0, 0]
        to_come: FloatArray = np.sqrt(np.maximum(self.cov[:, 0, 0] - final, 0.0))
        return np.where(left.any(axis=(1, 2)), to_come, 0.0)

    def best(self, left: BoolArray, going: BoolArray) -> IntArray:
        """The question of each target that goes on, shape (n_questions, 3): target, level - 1, order."""
        with np.errstate(divide="ignore"):  # an answer that tells nothing
            off = 1 / self.info + _of_differences(self.cov)[:, None]
        fall = ((self.cov[:, 0, 0, None] - self.cov[:, 0, 1:]) ** 2)[:, None] / off
        target = np.flatnonzero(going)
        n_left = left.sum(axis=2)  # by order: a judge favours a position more in some texts than in others
        in_turn = left & (n_left == n_left.max(axis=1, keepdims=True))[:, :, None]
        at = np.where(in_turn, fall, -1.0).reshape(len(left), -1)[target].argmax(axis=1)
        order, rung = np.divmod(at, left.shape[2])
        questions: IntArray = np.stack([target, rung, order], axis=1)
        return questions


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


def _prior(judge: JudgeModel, precision: FloatArray) -> FloatArray:
    """Of the target and its rungs: inverse covariance, shape (n, N + 1, N + 1)."""
    n = precision.shape[-1]
    joint = np.zeros((len(precision), n + 1, n + 1))
    joint[:, 0, 0] = judge.text_sd**-2.0
    joint[:, 1:, 1:] = precision
    return joint


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
    inverse: FloatArray = np.linalg.inv(matrix).astype(np.float64)
    return inverse


def _of_differences(cov: FloatArray) -> FloatArray:
    """Variance of x - r of each rung, shape (n, N)."""
    own = cov.diagonal(0, 1, 2)
    differences: FloatArray = own[:, :1] + own[:, 1:] - 2 * cov[:, 0, 1:]
    return differences


def _answered(asked: IntArray, probs: FloatArray, shape: tuple[int, ...]) -> BoolArray:
    """Which questions have an answer, shape (n_targets, n_orders, N)."""
    answered = np.zeros(shape, dtype=bool)
    target, rung, order = asked[~np.isnan(probs).any(axis=1)].T
    answered[target, order, rung] = True
    return answered


def _placed(
    scale: Scale,
    contexts: Sequence[str],
    targets: IntArray,
    asked: IntArray,
    probs: FloatArray,
    lengths: Lengths | None,
) -> Posterior:
    """By the answers about these targets, failed ones left out. targets : rising, those that contexts are of"""
    known = ~np.isnan(probs).any(axis=1)
    target, rung, order = asked[known].T
    # In one order whatever the round: sums of the same numbers are then the same to the last bit.
    first = np.lexsort((order, rung, target))
    place = np.searchsorted(targets, target[first])
    return scale.place(contexts, place, rung[first] + 1, order[first] == 1, probs[known][first], _at(lengths, targets))


def _at(lengths: Lengths | None, targets: IntArray) -> Lengths | None:
    return None if lengths is None else (lengths[0][targets], lengths[1][targets])


def _side(difference: FloatArray, sd: FloatArray) -> FloatArray:
    """Probability that what is expected at a distance from the threshold lies on its other side."""
    from scipy.special import ndtr

    side: FloatArray = ndtr(-np.abs(difference) / np.maximum(sd, 1e-12))
    return side


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise unusable(name, value, expected)
