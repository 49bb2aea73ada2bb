"""A scale: a judge and the ladders that it has placed, on which later texts are placed, each alone. Kept as JSON.

Where a text is placed does not depend on what else is placed with the scale, nor on the order.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError, why_unreadable
from ...io.fields import parse_json
from ...io.write import write_whole
from ...signature import Signature, text_hash
from ...types import FloatArray, IntArray
from .model import JudgeModel, Posterior, Prior, SoftAnswers, centred_levels
from .positions import positions

FORMAT = 2  # 1: the errors of its judges counted both orders as two answers
_NAMED = 5  # falling ladders that a message names; it counts the others
_FREE = {"synthscore", "references", "scoring"}  # parts of a signature in which a scale and its use may differ


class Statistic(NamedTuple):
    """A statistic over contexts: its value, its standard error, and the effective number of contexts."""

    value: float
    stderr: float
    n: float

    @classmethod
    def from_json(cls, values: Mapping[str, Sequence[float]]) -> dict[str, Statistic]:
        """By name. raises : ValueError for what is no statistic"""
        statistics = {name: cls(*map(float, numbers)) for name, numbers in values.items()}
        for statistic in statistics.values():
            if not (math.isfinite(sum(statistic)) and statistic.stderr >= 0 and statistic.n > 1):
                raise ValueError(
                    f"what was seen is {statistics}, expected numbers, errors of at least 0, more than 1 context"
                )
        return statistics


@dataclass(frozen=True, slots=True, eq=False)
class Anchors:
    """Where the rungs of one ladder stand.

    mean, cov : float64, shape (N,) and (N, N), rungs of the scale
    ladder : Ladder.hash of the ladder that was placed, or ""
    sharpness, sharpness_sd : as in Prior, of this context
    """

    mean: FloatArray
    cov: FloatArray
    ladder: str = ""
    sharpness: float = 0.0
    sharpness_sd: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Scale:
    """The judge's parameters and the positions of ladders' rungs, for one (task, attribute) and one length of ladder.

    ladders : context id -> its anchors; a ladder that is not among them is expected at 1..N, as uneven as ladders are
    signature : what the answers came from; whoever uses the scale must ask in the same way (`check`)
    statistics : by name, what drift is measured against (`drift.Watch`), "seen" in a file; no score depends on it, nor
        does the hash. Empty: the scale was fitted before there were such
    """

    judge: JudgeModel
    ladders: Mapping[str, Anchors]
    task: str
    attribute: str
    signature: Signature
    statistics: Mapping[str, Statistic] = field(default_factory=dict)

    @property
    def n_rungs(self) -> int:
        return self.judge.n_rungs

    @property
    def useless(self) -> str:
        """Why nothing can be placed by this judge; "" where it can."""
        if self.judge.rungs_rise:
            return ""
        falling = ""
        if self.falling:
            falling = f"; it puts {self.falling_words} upside down"
        return (
            f"the judge does not see the ladders rise: over {self.judge.n_ladders} ladders of {self.n_rungs} rungs, "
            "its answers put higher rungs ahead by no more than chance or 0.2 nats, so that they are no scale"
            f"{falling}. Look at the ladders (references check), take another judge, or --scoring paper"
        )

    @property
    def falling(self) -> tuple[str, ...]:
        """The contexts whose ladder the judge sees fall, by more than two standard errors: look at these ladders.
        Texts are placed on them all the same."""
        level = centred_levels(self.n_rungs)
        falling = []
        for name, anchors in self.ladders.items():
            stderr = math.sqrt(level @ anchors.cov @ level)
            if level @ anchors.mean < -2 * stderr:
                falling.append(name)
        return tuple(falling)

    @property
    def falling_words(self) -> str:
        """How many ladders fall, and the first of them by name."""
        names = [repr(name) for name in self.falling]
        noun = "contexts" if len(names) > 1 else "context"
        shown = ", ".join(names[:_NAMED])
        if len(names) > _NAMED:
            shown += f" and {len(names) - _NAMED} more"
        return f"{len(names)} of them ({noun} {shown})"

    @property
    def hash(self) -> str:
        """Hex sha256; changes when any number of the scale does."""
        return text_hash(_json(self._plain()))

    def place(
        self,
        contexts: Sequence[str],
        target: IntArray,
        level: IntArray,
        swapped: npt.NDArray[np.bool_],
        verdicts: FloatArray,
        n_samples: FloatArray | None = None,
    ) -> Posterior:
        """Where targets stand, each by its own answers alone. Each target has its own row in Posterior.rungs.

        contexts : id of each target's context
        target : of each answer, the index in `contexts`. level : of the rung, 1..N. swapped : as in Verdict
        verdicts : shape (n_answers, 3); better, worse, similar, of the target, which sum to 1 (`three_way`)
        n_samples : shape (n_answers,), as in SoftAnswers; None: exact probabilities
        raises : InputError for levels that the scale has not, or numbers that are no probabilities
        """
        wrong = np.flatnonzero((level < 1) | (level > self.n_rungs))
        if len(wrong):
            raise InputError(
                f"a verdict is about rung {level[wrong[0]]}, expected 1..{self.n_rungs}, the rungs of this scale. "
                "Use the scale with ladders of its own length",
                value=int(level[wrong[0]]),
            )
        n_targets = len(contexts)
        answers = SoftAnswers(
            n_ladders=n_targets,  # A ladder for each target, so that no target changes another one's rungs.
            n_rungs=self.n_rungs,
            target_ladder=np.arange(n_targets),
            ladder=target,
            first=target + self.n_rungs,
            second=level - 1,
            sign=np.where(swapped, -1.0, 1.0),
            probs=_normalise(verdicts),
            n_samples=n_samples,
        )
        return positions(answers, self.judge, self.prior(contexts))

    def prior(self, contexts: Sequence[str]) -> Prior:
        """Of targets, each with a ladder for itself."""
        n = self.n_rungs
        expected = self.judge.prior(1)
        unknown = Anchors(
            mean=expected.rungs[0],
            cov=np.linalg.inv(expected.precision[0]),
            sharpness_sd=self.judge.sharpness_sd,
        )
        names, index = np.unique(np.array(contexts, dtype=object), return_inverse=True)
        anchors = [self.ladders.get(name, unknown) for name in names]
        mean = np.array([ladder.mean for ladder in anchors]).reshape(-1, n)
        cov = np.array([ladder.cov for ladder in anchors]).reshape(-1, n, n)
        sharpness = np.array([ladder.sharpness for ladder in anchors])
        sharpness_sd = np.array([ladder.sharpness_sd for ladder in anchors])
        return Prior(
            rungs=mean[index],
            precision=np.linalg.inv(cov)[index],
            sharpness=sharpness[index],
            sharpness_sd=sharpness_sd[index],
        )

    def check(self, signature: Signature) -> None:
        """raises : InputError where questions would be asked in another way than those that the scale was fitted on"""
        free = {*_FREE, "orders"} if self.judge.bias_known else _FREE
        for part, (ours, theirs) in self.signature.differs(signature).items():
            if part not in free:
                raise InputError(
                    f"the scale {self.task}/{self.attribute} is of {part} {ours!r}, and {part} is now {theirs!r}, "
                    "expected the same: a scale is what one judge makes of one question. Use what it was fitted with, "
                    "or fit one anew (--save-scale)",
                    field=part,
                    value=theirs,
                )

    def _plain(self) -> dict[str, object]:
        ladders = {}
        for name, anchors in self.ladders.items():
            ladders[name] = asdict(anchors) | {"mean": anchors.mean.tolist(), "cov": anchors.cov.tolist()}
        return {
            "task": self.task,
            "attribute": self.attribute,
            "signature": str(self.signature),
            "judge": self.judge.to_dict(),
            "ladders": ladders,
        }


class Scales(tuple[Scale, ...]):
    """Scales of several attributes, or lengths of ladder, in one JSON file; equal scales give equal bytes."""

    def save(self, path: str | os.PathLike[str]) -> None:
        scales = [scale._plain() | {"seen": scale.statistics} for scale in self]
        text = _json({"format": FORMAT, "scales": scales})
        write_whole(path, text.encode() + b"\n")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Scales:
        """From `save`. raises : InputError for a file that is missing or not what was saved"""
        try:
            content = parse_json(Path(path).read_text(encoding="utf-8"))
            if content["format"] != FORMAT:
                raise InputError(
                    f"{path} is a scale of format {content['format']!r}, expected {FORMAT}: the errors of one of "
                    "format 1 count both orders of a question as two answers. Fit it anew (--save-scale); what the "
                    "store holds is not asked again",
                    field="format",
                    value=content["format"],
                    source=str(path),
                )
            scales = cls(_read_scale(values) for values in content["scales"])
            _json([scale._plain() for scale in scales]).encode()  # NaN and half a surrogate pair are ValueErrors here.
            return scales
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise InputError(
                f"cannot read the scale {path}: {why_unreadable(error)}. Expected a file that `synthscore "
                "score --save-scale` wrote. Name one",
                source=str(path),
            ) from error


def three_way(verdicts: FloatArray, protocol: str) -> FloatArray:
    """Probabilities that sum to 1, shape (n, 3), of verdicts as this protocol gives them.

    The protocol yes_no_two_sided asks two questions, each answered by yes or no: better and not worse counts as better,
    worse and not better as worse, and all else as similar, so that better - worse stays what it was. The verdicts of
    other protocols sum to 1 already, but for rounding. A row of NaN stays one.
    """
    if protocol != "yes_no_two_sided":
        return _normalise(verdicts)
    better = verdicts[:, 0] * (1 - verdicts[:, 1])
    worse = verdicts[:, 1] * (1 - verdicts[:, 0])
    return np.stack([better, worse, 1 - better - worse], axis=1)


def _normalise(verdicts: FloatArray) -> FloatArray:
    """Without rounding errors. Rows whose sum is further from 1 stay as they are, and SoftAnswers refuse them."""
    total = verdicts.sum(axis=1, keepdims=True)
    only_rounding = ~(np.abs(total - 1) > 1e-6)
    return verdicts / np.where(only_rounding, total, 1.0)


def _read_scale(values: Mapping[str, Any]) -> Scale:
    """raises : ValueError, and its like, for what cannot be used"""
    judge = JudgeModel.from_dict(values["judge"])
    ladders = {}
    for name, anchors in values["ladders"].items():
        ladders[name] = _read_anchors(name, anchors, judge.n_rungs)
    return Scale(
        judge=judge,
        ladders=ladders,
        task=str(values["task"]),
        attribute=str(values["attribute"]),
        signature=Signature.parse(str(values["signature"])),
        statistics=Statistic.from_json(values.get("seen", {})),
    )


def _read_anchors(name: str, values: Mapping[str, Any], n_rungs: int) -> Anchors:
    """raises : ValueError, and its like, for what cannot be used"""
    mean = np.array(values["mean"], dtype=float)
    cov = np.array(values["cov"], dtype=float)
    anchors = Anchors(**{**values, "mean": mean, "cov": cov})
    np.linalg.cholesky(cov)  # LinAlgError, a ValueError, for what is no covariance
    fits = mean.shape == (n_rungs,) and len(cov) == n_rungs
    if not fits or not max(abs(mean).max(), abs(anchors.sharpness), abs(anchors.sharpness_sd)) < 1e9:
        raise ValueError(f"the ladder {name!r} is {anchors}, expected {n_rungs} positions, and numbers")
    return anchors


def _json(values: object) -> str:
    return json.dumps(values, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
