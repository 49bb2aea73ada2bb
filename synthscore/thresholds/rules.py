"""Scores -> decisions: what is kept, what is dropped, and what the score does not decide. Pure NumPy: no model.

A rule decides each text by its own score. What is unscored is unsure, but where its limits decide it by MinScore.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any, Literal, Protocol, get_args

import numpy as np
import numpy.typing as npt

from ..errors import CertificateError, InputError, SynthscoreWarning
from ..signature import Signature
from ..types import BoolArray, FloatArray, Score

Decision = Literal["kept", "dropped", "unsure"]
Decisions = npt.NDArray[np.str_]
Kind = Literal["precision", "recall", "fpr"]
FORMAT = 1


class Rule(Protocol):
    """How a score becomes a decision."""

    def decide(self, score: Score) -> tuple[Decision, str]:
        """The decision, and why."""

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


@dataclass(frozen=True, slots=True)
class MinScore:
    """Keeps what scores at least `threshold`, drops the rest.

    What has `low` and `high` and no stderr, scored or not, could be anything between them (rungs without a verdict,
    labels that were not told): it is unsure where they lie on both sides of the threshold, or are not known.
    """

    threshold: float

    def __post_init__(self) -> None:
        _require_finite("threshold", self.threshold)

    def decide(self, score: Score) -> tuple[Decision, str]:
        return _decide(self, score)

    def decide_many(
        self,
        value: FloatArray,
        stderr: FloatArray | None = None,
        low: FloatArray | None = None,
        high: FloatArray | None = None,
    ) -> Decisions:
        return _between(value, stderr, low, high, self.threshold, self.threshold)

    def why(self, score: Score, decision: Decision) -> str:
        return _why_between(score, decision, self.threshold, self.threshold)


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Keeps where P(score >= threshold) >= 1 - alpha, drops where it is <= alpha.

    The score's error is taken as normal: the probability is Phi((value - threshold) / stderr).
    raises : InputError where a score has no stderr, and unless 0 < alpha <= 0.5
    """

    threshold: float
    alpha: float

    def __post_init__(self) -> None:
        _require_finite("threshold", self.threshold)
        if not 0 < self.alpha <= 0.5:
            raise InputError(
                f"alpha is {self.alpha}, expected more than 0 and at most 0.5: the probability of a wrong decision "
                "that is allowed. 0.1 keeps what is good enough with probability 0.9",
                field="alpha",
                value=self.alpha,
            )

    def decide(self, score: Score) -> tuple[Decision, str]:
        return _decide(self, score)

    def decide_many(
        self,
        value: FloatArray,
        stderr: FloatArray | None = None,
        low: FloatArray | None = None,
        high: FloatArray | None = None,
    ) -> Decisions:
        stderr = np.full(len(value), np.nan) if stderr is None else stderr
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


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What is promised: precision or recall of at least `bound`, or a false-positive rate (fpr) of at most `bound`.

    precision : of the kept, the share that is good
    recall : of the good, the share that is not dropped. What is unscored counts as missed
    fpr : of the bad, the share that is kept
    """

    kind: Kind
    bound: float

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind) or not 0 < self.bound < 1:
            raise InputError(
                f"the guarantee {self.kind} {self.bound:g} is not known, expected precision>=P, recall>=R or fpr<=F, "
                "each of P, R, F more than 0 and less than 1",
                field="guarantee",
                value=(self.kind, self.bound),
            )

    @classmethod
    def parse(cls, text: str) -> Guarantee:
        """From "precision>=0.9", "recall>=0.9" or "fpr<=0.05"."""
        for kind in get_args(Kind):
            sign = "<=" if kind == "fpr" else ">="
            name, found, bound = text.replace(" ", "").partition(sign)
            if found and name == kind:
                try:
                    return cls(kind, float(bound))
                except ValueError:
                    break
        raise InputError(
            f"cannot read the guarantee {text!r}: expected precision>=P, recall>=R or fpr<=F, such as precision>=0.9 "
            "(in quotes, or the shell takes > for itself)",
            field="guarantee",
            value=text,
        )

    def __str__(self) -> str:
        return f"{self.kind}{'<=' if self.kind == 'fpr' else '>='}{self.bound:g}"


@dataclass(frozen=True, slots=True)
class Certified:
    """A guarantee, the threshold at which it holds, and what was seen there.

    n : labelled texts that the share is of (the kept, the good or the bad). n_hit : of these, the good, not dropped
    or kept ones. observed : n_hit / n. limit : what the true share is beyond, at least (fpr: at most), at `level`
    level : the confidence of this guarantee alone; with several, they hold together with the certificate's
    """

    guarantee: Guarantee
    threshold: float
    n: int
    n_hit: int
    observed: float
    limit: float
    level: float


@dataclass(frozen=True, slots=True)
class Certificate:
    """Keeps from `keep_from` up, drops below `drop_below`; between them it is unsure. A rule, made by `calibrate`.

    signature : of the scores that were labelled; with others nothing is promised (`check`)
    confidence : probability, over draws of the labelled texts, that all guarantees hold of texts drawn like them
    """

    certified: tuple[Certified, ...]
    confidence: float
    keep_from: float
    drop_below: float
    n_rows: int
    n_good: int
    n_unscored: int
    signature: Signature

    def __post_init__(self) -> None:
        if not self.certified or not self.drop_below <= self.keep_from:
            raise CertificateError(
                f"a certificate of {len(self.certified)} guarantees keeps from {self.keep_from} and drops below "
                f"{self.drop_below}, expected at least one, and keep_from >= drop_below. Make it with calibrate"
            )

    def decide(self, score: Score) -> tuple[Decision, str]:
        return _decide(self, score)

    def decide_many(
        self,
        value: FloatArray,
        stderr: FloatArray | None = None,
        low: FloatArray | None = None,
        high: FloatArray | None = None,
    ) -> Decisions:
        """By the value alone, as the labelled texts were counted: `stderr`, `low` and `high` are not used."""
        decided = np.where(value >= self.keep_from, "kept", "unsure")
        return np.where(value < self.drop_below, "dropped", decided)

    def why(self, score: Score, decision: Decision) -> str:
        return _why_between(score, decision, self.drop_below, self.keep_from)

    def check(self, signature: Signature) -> None:
        """raises : CertificateError naming the parts that differ (`.differs`: part -> (certified, now))"""
        certified, now = dict(self.signature.parts), dict(signature.parts)
        differs = {
            part: (certified.get(part), now.get(part))
            for part in dict.fromkeys([*certified, *now])
            if certified.get(part) != now.get(part)
        }
        if differs:
            parts = "; ".join(
                f"{part} was {was or 'absent'}, is {now or 'absent'}" for part, (was, now) in differs.items()
            )
            raise CertificateError(
                f"the certificate does not hold for these scores: {parts}. Expected the judge, templates, ladders and "
                "scoring that were certified. Use those, or score the labelled texts again and calibrate anew",
                differs=differs,
            )

    def to_dict(self) -> dict[str, Any]:
        content = asdict(self) | {"format": FORMAT, "signature": dict(self.signature.parts)}
        content["certified"] = [{**asdict(each), "guarantee": str(each.guarantee)} for each in self.certified]
        return content

    @classmethod
    def from_dict(cls, content: Any) -> Certificate:
        """raises : CertificateError for what `to_dict` did not make"""
        try:
            values = dict(content)
            if (format_ := values.pop("format")) != FORMAT:
                raise CertificateError(
                    f"the certificate has format {format_!r}, expected {FORMAT}. Calibrate anew with this version"
                )
            values["certified"] = tuple(
                Certified(**{**each, "guarantee": Guarantee.parse(each["guarantee"])}) for each in values["certified"]
            )
            values["signature"] = Signature.of(**values["signature"])
            return cls(**values)
        except (KeyError, TypeError, ValueError, AttributeError, InputError) as error:
            raise CertificateError(
                f"cannot read the certificate: {type(error).__name__}: {error}. Expected what `synthscore calibrate` "
                "wrote. Calibrate anew"
            ) from error

    def save(self, path: str | os.PathLike[str], **more: Any) -> None:
        """One JSON file; equal certificates give equal bytes. more : further parts of the file, beside it"""
        from ..io.write import replacing

        with replacing(path) as file:
            content = {"certificate": self.to_dict(), **more}
            file.write((json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Certificate:
        """raises : CertificateError for a file that is missing or holds no certificate"""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))["certificate"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CertificateError(
                f"cannot read the certificate {path}: {type(error).__name__}: {error}. Expected a file that "
                "`synthscore calibrate` wrote. Calibrate anew"
            ) from error
        return cls.from_dict(content)


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


def _decide(rule: MinScore | AtLeast | Certificate, score: Score) -> tuple[Decision, str]:
    value, stderr, low, high = (_one(number) for number in (score.value, score.stderr, score.low, score.high))
    least, most = limits(value, stderr, low, high, np.array([score.status == "partial"]))
    [decided] = rule.decide_many(value, stderr, least, most)
    decision: Decision = str(decided)  # type: ignore[assignment]
    return decision, _why_unscored(score, decision) if score.value is None else rule.why(score, decision)


def _why_unscored(score: Score, decision: Decision) -> str:
    if decision == "kept":
        return f"unscored, but at least {score.low:.2f}: {score.reason}"
    if decision == "dropped":
        return f"unscored, but at most {score.high:.2f}: {score.reason}"
    return f"unscored: {score.reason}"


def _one(number: float | None) -> FloatArray:
    return np.array([np.nan if number is None else number], dtype=np.float64)


def _between(
    value: FloatArray,
    stderr: FloatArray | None,
    low: FloatArray | None,
    high: FloatArray | None,
    drop_below: float,
    keep_from: float,
) -> Decisions:
    """Decided where whatever is missing from a score changes nothing; with a stderr, low and high are no limits."""
    least, most = limits(value, stderr, low, high)
    decided = np.where(least >= keep_from, "kept", "unsure")  # NaN is not
    return np.where(most < drop_below, "dropped", decided)


def _why_between(score: Score, decision: Decision, drop_below: float, keep_from: float) -> str:
    if decision == "kept":
        return f"score {score.value:.2f}, at least {keep_from:g}"
    if decision == "dropped":
        return f"score {score.value:.2f}, below {drop_below:g}"
    if drop_below < keep_from:
        return f"score {score.value:.2f}, between {drop_below:g} and {keep_from:g}"
    known = score.low is not None and score.high is not None
    could = f"between {score.low:.2f} and {score.high:.2f}" if known else "anything"
    return f"score {score.value:.2f}, but it could be {could}, and {keep_from:g} decides: {score.reason}"


def _require_finite(name: str, value: float) -> None:
    if not math.isfinite(value):
        raise InputError(
            f"{name} is {value}, expected a finite number. Choose one on the scale of the scores", value=value
        )
