"""A judge and the ladders that it has placed, kept: texts that come later are placed on the same scale, each alone.

What is placed with a scale does not depend on what else is placed with it, nor on the order. Reads and writes JSON.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...errors import InputError
from ...io.fields import parse_json
from ...io.write import write_whole
from ...signature import Signature, text_hash
from ...types import FloatArray, IntArray
from .model import JudgeModel, Posterior, Prior, SoftAnswers, centred_levels
from .positions import positions

FORMAT = 2  # 1: the errors of its judges counted both orders as two answers
_NAMED = 5  # ladders that fall; more of them are counted
_FREE = {"synthscore", "references", "scoring"}  # parts of a signature in which a scale and its use may differ


class Statistic(NamedTuple):
    """A statistic of many contexts: its value, that one's standard error, and the contexts, counted by their weight."""

    value: float
    stderr: float
    n: float

    @classmethod
    def of(cls, values: Mapping[str, Sequence[float]]) -> dict[str, Statistic]:
        """From JSON. raises : ValueError for what is no statistic"""
        found = {name: cls(*map(float, seen)) for name, seen in values.items()}
        if not all(math.isfinite(sum(seen)) and seen.stderr >= 0 and seen.n > 1 for seen in found.values()):
            raise ValueError(f"what was seen is {found}, expected numbers, errors of at least 0, more than 1 context")
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Anchors:
    """Where the rungs of one ladder stand.

    mean, cov : float64, shape (N,) and (N, N), rungs of the scale. ladder : Ladder.hash of what was placed, or ""
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
    seen : what drift is told by (`drift.Watch`); no score depends on it, nor the hash. Empty: fitted before there was
    """

    judge: JudgeModel
    ladders: Mapping[str, Anchors]
    task: str
    attribute: str
    signature: Signature
    seen: Mapping[str, Statistic] = field(default_factory=dict)

    @property
    def n_rungs(self) -> int:
        return self.judge.n_rungs

    @property
    def useless(self) -> str:
        """Why nothing can be placed by this judge; "" where it can."""
        if self.judge.rungs_rise:
            return ""
        falling = f"; it puts {self.falling_words} upside down" if self.falling else ""
        return (
            f"the judge does not see the ladders rise: over {self.judge.n_ladders} ladders of {self.n_rungs} rungs, "
            "its answers put higher rungs ahead by no more than chance or 0.2 nats, so that they are no scale"
            f"{falling}. Look at the ladders (references check), take another judge, or --scoring paper"
        )

    @property
    def falling(self) -> tuple[str, ...]:
        """The contexts whose ladder the judge sees fall, by more than twice the error of that: look at these ladders.
        Texts are placed on them all the same."""
        level = centred_levels(self.n_rungs)
        return tuple(
            name
            for name, anchors in self.ladders.items()
            if level @ anchors.mean < -2 * math.sqrt(level @ anchors.cov @ level)
        )

    @property
    def falling_words(self) -> str:
        """How many ladders fall, and the first of them by name."""
        names = [repr(name) for name in self.falling]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        return f"{len(names)} of them ({'contexts' if len(names) > 1 else 'context'} {', '.join(names[:_NAMED])}{more})"

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
        """Where targets stand, each by its own answers alone; one row an answer. Posterior.rungs is of each target's
        ladder.

        contexts : id of each target's context
        target : place in `contexts`. level : 1..N. swapped : as in Verdict
        verdicts : shape (n_answers, 3); better, worse, similar, of the target, which sum to 1 (`three_way`); one that
            was never given is left out
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
            n_ladders=n_targets,  # each target has a ladder of its own: none tells another one's rungs anything
            n_rungs=self.n_rungs,
            target_ladder=np.arange(n_targets),
            ladder=target,
            first=target + self.n_rungs,
            second=level - 1,
            sign=np.where(swapped, -1.0, 1.0),
            probs=_summing_to_1(verdicts),
            n_samples=n_samples,
        )
        return positions(answers, self.judge, self.prior(contexts))

    def prior(self, contexts: Sequence[str]) -> Prior:
        """Of targets, each with a ladder of its own."""
        n = self.n_rungs
        expected = self.judge.prior(1)
        covariance = np.linalg.inv(expected.precision[0])
        unknown = Anchors(expected.rungs[0], covariance, sharpness_sd=self.judge.sharpness_sd)
        names, index = np.unique(np.array(contexts, dtype=object), return_inverse=True)
        anchors = [self.ladders.get(name, unknown) for name in names]
        return Prior(
            rungs=np.array([one.mean for one in anchors]).reshape(-1, n)[index],
            precision=np.linalg.inv(np.array([one.cov for one in anchors]).reshape(-1, n, n))[index],
            sharpness=np.array([one.sharpness for one in anchors])[index],
            sharpness_sd=np.array([one.sharpness_sd for one in anchors])[index],
        )

    def check(self, signature: Signature) -> None:
        """raises : InputError where the questions would not be those that the scale was fitted on"""
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
        ladders = {
            name: asdict(anchors) | {"mean": anchors.mean.tolist(), "cov": anchors.cov.tolist()}
            for name, anchors in self.ladders.items()
        }
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
        text = _json({"format": FORMAT, "scales": [scale._plain() | {"seen": scale.seen} for scale in self]})
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
            made = cls(_scale(values) for values in content["scales"])
            _json([scale._plain() for scale in made]).encode()  # NaN and half a surrogate pair are ValueErrors
            return made
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise InputError(
                f"cannot read the scale {path}: {type(error).__name__}: {error}. Expected a file that `synthscore "
                "score --save-scale` wrote",
                source=str(path),
            ) from error


def three_way(verdicts: FloatArray, protocol: str) -> FloatArray:
    """Probabilities that sum to 1, shape (n, 3), of verdicts as this protocol gives them.

    Two answers, each with its own yes and no (yes_no_two_sided), are better and not worse, worse and not better, or
    neither of these, which counts as similar: better - worse stays what it was. The verdicts of other protocols sum to
    1 already, but for rounding. A row of NaN stays one.
    """
    if protocol != "yes_no_two_sided":
        return _summing_to_1(verdicts)
    better = verdicts[:, 0] * (1 - verdicts[:, 1])
    worse = verdicts[:, 1] * (1 - verdicts[:, 0])
    return np.stack([better, worse, 1 - better - worse], axis=1)


def _summing_to_1(verdicts: FloatArray) -> FloatArray:
    """Without what rounding has left; what is further off is no distribution, and stays: SoftAnswers refuse it."""
    total = verdicts.sum(axis=1, keepdims=True)
    return verdicts / np.where(np.abs(total - 1) > 1e-6, 1.0, total)


def _scale(values: Mapping[str, object]) -> Scale:
    """raises : ValueError, and its like, for what cannot be used"""
    of = dict(values)
    ladders = {
        name: Anchors(
            **{**each, "mean": np.array(each["mean"], dtype=float), "cov": np.array(each["cov"], dtype=float)}
        )
        for name, each in of["ladders"].items()  # type: ignore[attr-defined]
    }
    judge = JudgeModel.of(of["judge"])  # type: ignore[arg-type]
    for name, each in ladders.items():
        np.linalg.cholesky(each.cov)  # raises
        fits = each.mean.shape == (judge.n_rungs,) and len(each.cov) == judge.n_rungs
        if not fits or not max(abs(each.mean).max(), abs(each.sharpness), abs(each.sharpness_sd)) < 1e9:
            raise ValueError(f"the ladder {name!r} is {each}, expected {judge.n_rungs} positions, and numbers")
    seen = Statistic.of(of.get("seen", {}))  # type: ignore[arg-type]
    return Scale(
        judge=judge,
        ladders=ladders,
        task=str(of["task"]),
        attribute=str(of["attribute"]),
        signature=Signature.parse(str(of["signature"])),
        seen=seen,
    )


def _json(values: object) -> str:
    return json.dumps(values, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False)
