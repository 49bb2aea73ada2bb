"""Scores -> decisions: what is kept, what is dropped, and what the score does not decide. Pure NumPy: no model.

A rule decides each text by its own score. What is unscored is unsure, but where its limits decide it by MinScore.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError, SynthscoreWarning
from ..signature import Signature
from ..types import BoolArray, FloatArray, Score

Decision = Literal["kept", "dropped", "unsure"]
Decisions = npt.NDArray[np.str_]


class Rule(ABC):
    """How a score becomes a decision."""

    __slots__ = ()

    @abstractmethod
    def decided(self, value: FloatArray, stderr: FloatArray, low: FloatArray, high: FloatArray) -> Decisions:
        """As decide_many, with NaN for whatever is not known."""

    @abstractmethod
    def why(self, score: Score, decision: Decision) -> str:
        """Why a text that has a score was decided so, in words."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What is kept, in words: "at a score of 3.5 or more"."""

    def check(self, signature: Signature) -> None:  # noqa: B027
        """raises : CertificateError where the rule is only for scores of another signature"""

    def decide(self, score: Score) -> tuple[Decision, str]:
        """The decision, and why."""
        [decision] = self.decide_scores([score])
        return decision, _why_unscored(score, decision) if score.value is None else self.why(score, decision)

    def decide_scores(self, scores: Sequence[Score]) -> list[Decision]:
        numbers = [(score.value, score.stderr, score.low, score.high) for score in scores]
        value, stderr, low, high = np.array(numbers, dtype=np.float64).reshape(-1, 4).T  # None becomes NaN
        least, most = limits(value, stderr, low, high, np.array([score.status == "partial" for score in scores], bool))
        found: list[Decision] = self.decided(value, stderr, least, most).tolist()
        return found

    def decide_many(
        self,
        value: FloatArray,
        stderr: FloatArray | None = None,
        low: FloatArray | None = None,
        high: FloatArray | None = None,
    ) -> Decisions:
        """`decide` of many, all of shape (n,); NaN where there is none. value NaN: unscored, and perhaps low and high.

        A partial score whose limits are not known has low -inf and high inf, unless it has a stderr.
        """
        nothing = np.full(len(value), np.nan)
        return self.decided(value, *(nothing if numbers is None else numbers for numbers in (stderr, low, high)))


@dataclass(frozen=True, slots=True)
class MinScore(Rule):
    """Keeps what scores at least `threshold`, drops the rest.

    What has `low` and `high` and no stderr, scored or not, could be anything between them (rungs without a verdict,
    labels that were not reported): it is unsure where they lie on both sides of the threshold, or are not known.
    """

    threshold: float

    def __post_init__(self) -> None:
        _require_finite(self.threshold)

    def decided(self, value: FloatArray, stderr: FloatArray, low: FloatArray, high: FloatArray) -> Decisions:
        least, most = limits(value, stderr, low, high)
        found = np.where(least >= self.threshold, "kept", "unsure")  # NaN is not
        return np.where(most < self.threshold, "dropped", found)

    def why(self, score: Score, decision: Decision) -> str:
        if decision != "unsure":
            return f"score {score.value:.2f}, {'at least' if decision == 'kept' else 'below'} {self.threshold:g}"
        known = score.low is not None and score.high is not None
        could = f"between {score.low:.2f} and {score.high:.2f}" if known else "anything"
        return f"score {score.value:.2f}, but it could be {could}, and {self.threshold:g} decides: {score.reason}"

    @property
    def words(self) -> str:
        return f"at a score of {self.threshold:g} or more"


@dataclass(frozen=True, slots=True)
class AtLeast(Rule):
    """Keeps where P(score >= threshold) >= 1 - alpha, drops where it is <= alpha.

    The score's error is taken as normal: the probability is Phi((value - threshold) / stderr).
    raises : InputError where a score has no stderr, and unless 0 < alpha <= 0.5
    """

    threshold: float
    alpha: float

    def __post_init__(self) -> None:
        _require_finite(self.threshold)
        if not 0 < self.alpha <= 0.5:
            raise InputError(
                f"alpha is {self.alpha}, expected more than 0 and at most 0.5: the probability of a wrong decision "
                "that is allowed. 0.1 keeps what is good enough with probability 0.9",
                field="alpha",
                value=self.alpha,
            )

    def decided(self, value: FloatArray, stderr: FloatArray, low: FloatArray, high: FloatArray) -> Decisions:
        without = np.flatnonzero(~np.isnan(value) & ~(stderr >= 0))
        if len(without):
            raise InputError(
                f"cannot decide with alpha = {self.alpha:g}: {len(without)} of {len(value)} scores have no stderr (the "
                f"first is number {without[0] + 1}), expected one each. Score with --scoring anchored, or leave alpha "
                "out and decide by the score alone",
                field="stderr",
                value=None,
            )
        margin = NormalDist().inv_cdf(1 - self.alpha) * stderr
        decided = np.where(value - self.threshold >= margin, "kept", "unsure")
        return np.where((decided != "kept") & (value - self.threshold <= -margin), "dropped", decided)

    def prob(self, value: float, stderr: float) -> float:
        """P(score >= threshold)."""
        if stderr == 0:
            return float(value >= self.threshold)
        return NormalDist().cdf((value - self.threshold) / stderr)

    def why(self, score: Score, decision: Decision) -> str:
        assert score.value is not None
        assert score.stderr is not None
        prob = self.prob(score.value, score.stderr)
        return f"P(score >= {self.threshold:g}) = {prob:.3f}, score {score.value:.2f} +- {score.stderr:.2f}"

    @property
    def words(self) -> str:
        return f"at a score of {self.threshold:g} or more, each with probability {1 - self.alpha:g}"


def check_on_scale(threshold: float, n_rungs: int, scoring: Literal["paper", "anchored"] = "paper") -> None:
    """Paper scores have ends. Positions have none, but beyond the rungs they are a guess.

    raises : InputError for a threshold that no paper score on a ladder of n_rungs rungs could be on both sides of; on
        the anchored scale, for one that is further from the rungs than a ladder is long, surely a slip
    warns : SynthscoreWarning for one outside 1..N on the anchored scale
    """
    if scoring == "anchored":
        if not 1 - n_rungs <= threshold <= 2 * n_rungs:
            raise InputError(
                f"the threshold {threshold:g} is far outside the anchored scale, whose rungs stand at 1..{n_rungs}: "
                f"expected {1 - n_rungs} to {2 * n_rungs}. Choose one between the worst rung, 1, and the best, "
                f"{n_rungs}",
                field="threshold",
                value=threshold,
            )
        if not 1 <= threshold <= n_rungs:
            warnings.warn(
                f"the threshold {threshold:g} is outside 1..{n_rungs}, where anchored scores are extrapolated: no rung "
                "is there to tell texts apart. Choose one between the rungs, or trust such decisions less",
                SynthscoreWarning,
                stacklevel=2,
            )
        return
    most = math.sqrt(n_rungs * (n_rungs + 1))
    if not 0 <= threshold <= most:
        raise InputError(
            f"the threshold {threshold:g} is outside the rung scale, which for ladders of {n_rungs} rungs is 0 (worse "
            f"than all) to sqrt(N(N+1)) = {most:.2f} (better than all). 1 is as good as the worst rung, {n_rungs} as "
            "the best. Choose one between these",
            field="threshold",
            value=threshold,
        )


def limits(
    value: FloatArray,
    stderr: FloatArray | None = None,
    low: FloatArray | None = None,
    high: FloatArray | None = None,
    partial: BoolArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """The least and the greatest that each score can be, whatever is missing from it: its value, if nothing is.

    Of a score with a stderr, low and high are an interval that it is likely in, not limits: it counts as its value.

    value, stderr, low, high : shape (n,); NaN where there is none
    partial : bool, shape (n,); whether the score lacks verdicts, so that without low or high it could be anything
    returns : shape (n,) each; NaN where there is neither value nor limit
    """
    bounded = np.ones(len(value), dtype=bool) if stderr is None else np.isnan(stderr)
    unknown = np.full(len(value), np.nan)
    sides = []
    for known, anything in ((low, -np.inf), (high, np.inf)):
        known = unknown if known is None else known
        otherwise = value if partial is None else np.where(partial, anything, value)
        sides.append(np.where(bounded, np.where(np.isnan(known), otherwise, known), value))
    return sides[0], sides[1]


def _why_unscored(score: Score, decision: Decision) -> str:
    if decision == "kept":
        return f"unscored, but at least {score.low:.2f}: {score.reason}"
    if decision == "dropped":
        return f"unscored, but at most {score.high:.2f}: {score.reason}"
    return f"unscored: {score.reason}"


def _require_finite(threshold: float) -> None:
    if not math.isfinite(threshold):
        message = f"threshold is {threshold}, expected a finite number. Choose one on the scale of the scores"
        raise InputError(message, value=threshold)
