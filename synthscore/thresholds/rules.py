"""Scores -> decisions: kept, dropped or unsure. Knows no model, no files.

A rule decides each text by its own score. An unscored text is unsure, unless its limits decide it for MinScore.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from statistics import NormalDist
from typing import Literal

from ..errors import InputError, SynthscoreWarning, require_kind, unusable
from ..scoring.method import Limits
from ..signature import Signature
from ..types import Score

Decision = Literal["kept", "dropped", "unsure"]


class Rule(ABC):
    """How a score becomes a decision."""

    __slots__ = ()

    @abstractmethod
    def decide(self, score: Score) -> tuple[Decision, str]:
        """The decision, and why, in words."""

    @property
    @abstractmethod
    def words(self) -> str:
        """What is kept, in words: "at a score of 3.5 or more"."""

    def check(self, signature: Signature) -> None:  # noqa: B027
        """raises : CertificateError where the rule is only for scores of another signature"""


@dataclass(frozen=True, slots=True)
class MinScore(Rule):
    """Keeps texts that score at least `threshold`, drops the others.

    A text that lacks verdicts, scored or not, is unsure where it could be on either side of the threshold (`limits`). A
    score with a stderr, as that of answers in words, is taken at its value; AtLeast takes account of its error.
    """

    threshold: float

    def __post_init__(self) -> None:
        _require_finite(self.threshold)

    def decide(self, score: Score) -> tuple[Decision, str]:
        least, most = score_limits(score)
        if score.value is None:
            if least >= self.threshold:  # False for NaN.
                return "kept", f"unscored, but at least {least:.2f}: {score.reason}"
            if most < self.threshold:
                return "dropped", f"unscored, but at most {most:.2f}: {score.reason}"
            return "unsure", f"unscored: {score.reason}"
        if least >= self.threshold:
            return "kept", f"score {score.value:.2f}, at least {self.threshold:g}"
        if most < self.threshold:
            return "dropped", f"score {score.value:.2f}, below {self.threshold:g}"
        could = "anything"
        if math.isfinite(least) and math.isfinite(most):
            could = f"between {least:.2f} and {most:.2f}"
        why = f"score {score.value:.2f}, but it could be {could}, so {self.threshold:g} does not decide: {score.reason}"
        return "unsure", why

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
        require_kind("alpha", self.alpha, Real, "a number, more than 0 and at most 0.5")
        if not 0 < self.alpha <= 0.5:
            expected = "more than 0 and at most 0.5: the probability of a wrong decision that is allowed"
            raise unusable("alpha", self.alpha, expected, "Take 0.1 to keep what is good enough with probability 0.9")

    def decide(self, score: Score) -> tuple[Decision, str]:
        if score.value is None:
            return "unsure", f"unscored: {score.reason}"
        if score.stderr is None:
            raise InputError(
                f"cannot decide {score.id!r} with alpha = {self.alpha:g}: its score has no stderr, expected one. Score "
                "with --scoring anchored, or leave alpha out and decide by the score alone",
                field="stderr",
                value=None,
            )
        prob = self.prob(score.value, score.stderr)
        why = f"P(score >= {self.threshold:g}) = {prob:.3f}, score {score.value:.2f} +- {score.stderr:.2f}"
        if prob >= 1 - self.alpha:
            return "kept", why
        if prob <= self.alpha:
            return "dropped", why
        return "unsure", why

    def prob(self, value: float, stderr: float) -> float:
        """P(score >= threshold)."""
        if stderr == 0:
            return float(value >= self.threshold)
        return NormalDist().cdf((value - self.threshold) / stderr)

    @property
    def words(self) -> str:
        return f"at a score of {self.threshold:g} or more, each with probability {1 - self.alpha:g}"


def score_limits(score: Score) -> tuple[float, float]:
    """The least and the greatest value that the score can have, whatever the missing verdicts are.

    The limits of a score that lacks nothing are its value, and so are those of a score with a stderr, whose low and
    high are an interval that it is likely in. A partial score whose limits are not known could be anything. NaN where
    there is neither value nor limit.
    """
    value = math.nan if score.value is None else score.value
    if score.stderr is not None:
        return value, value
    low = value
    high = value
    if score.status == "partial":
        low = -math.inf
        high = math.inf
    if score.low is not None:
        low = score.low
    if score.high is not None:
        high = score.high
    return low, high


def check_threshold(threshold: float, limits: Limits) -> None:
    """A threshold must be one that scores can be on both sides of.

    limits : of the scores' method
    raises : InputError for a threshold off the scale of the scores
    warns : SynthscoreWarning for one where scores are a guess
    """
    if not limits.low <= threshold <= limits.high:
        message = (
            f"the threshold {threshold:g} is {limits.words}. Choose one from {limits.low:.4g} to {limits.high:.4g}"
        )
        raise InputError(message, field="threshold", value=threshold)
    if not limits.likely_low <= threshold <= limits.likely_high:
        warnings.warn(f"the threshold {threshold:g} is {limits.likely_words}", SynthscoreWarning, stacklevel=2)


def _require_finite(threshold: float) -> None:
    require_kind("threshold", threshold, Real, "a number on the scale of the scores")
    if not math.isfinite(threshold):
        raise unusable("threshold", threshold, "a finite number", "Choose one on the scale of the scores")
