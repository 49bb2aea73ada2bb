"""What a judge answered about rungs -> where it puts them, by how much it tells them apart, what that is worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..scoring.anchored.model import JudgeModel, variance
from ..scoring.anchored.scale import Scale
from ..scoring.anchored.scores import answers_of, fitted
from ..types import BoolArray, FloatArray, IntArray
from .rungs import RungVerdicts


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where a judge puts the rungs of all ladders of one attribute and one length.

    scale : the judge and the positions
    gaps : context id -> float64, shape (N - 1,), nats; by how much the judge tells each rung from the one below it,
        discrimination x distance. NaN beside a rung without a text, and for a ladder of which nothing was answered
    information : context id -> what the ladder tells of a text that stands anywhere on 1..N, relative to an even ladder
        (see `information`)
    trouble : why the positions mean nothing, in a sentence; gaps and information are then NaN. "" where they do
    """

    scale: Scale
    gaps: Mapping[str, FloatArray]
    information: Mapping[str, float]
    trouble: str = ""

    def standing(self, context_id: str) -> dict[str, Any]:
        """Of a ladder, for its row. positions, position_sd : of its rungs, on the scale 1..N; NaN in trouble"""
        anchors = self.scale.ladders[context_id]
        return {
            "gaps": self.gaps[context_id],
            "information": self.information[context_id],
            "positions": np.where(self.trouble, np.nan, anchors.mean),
            "position_sd": np.where(self.trouble, np.nan, np.sqrt(np.diag(anchors.cov))),
        }


def place_rungs(rungs: RungVerdicts) -> list[Placed]:
    """Positions of the rungs under the judge, pooled over the ladders of one attribute and length (docs/anchored.md).

    rungs : all of one task. Ladders of which nothing was answered are expected at 1..N, with the error of that.
    """
    groups: dict[tuple[str, int], list[int]] = {}
    for index, ladder in enumerate(rungs.ladders):
        groups.setdefault((ladder.attribute, ladder.n_rungs), []).append(index)
    placed = []
    for (attribute, _), members in sorted(groups.items()):
        ladders = {rungs.ladders[index].context_id: rungs.ladders[index] for index in members}
        renumbered = np.full(len(rungs.ladders), -1)
        renumbered[members] = np.arange(len(members))
        rows = np.flatnonzero(renumbered[rungs.indices[:, 0]] >= 0)
        pair = rungs.indices[rows]
        pair[:, 0] = renumbered[pair[:, 0]]
        none, by_order = np.zeros(0, dtype=np.int64), rungs.verdicts.by_order[:, rows]
        answers = answers_of(list(ladders.values()), none, pair, by_order, rungs.verdicts.protocol)
        task = rungs.ladders[members[0]].task
        scale, _ = fitted(answers, ladders, task, attribute, rungs.verdicts.signature)
        known: BoolArray = np.logical_not(np.isnan(by_order).any(axis=2))
        answered, trouble = set(pair[known.any(axis=0), 0].tolist()), _trouble(pair, known, scale)
        gaps, worth = {}, {}
        for index, (name, ladder) in enumerate(ladders.items()):
            stands = np.array([rung.status == "ok" and index in answered and not trouble for rung in ladder.rungs])
            at = np.where(stands, scale.ladders[name].mean, np.nan)
            gaps[name] = scale.judge.discrimination * np.diff(at)
            worth[name] = information(scale.judge, at[~np.isnan(at)])
        placed.append(Placed(scale, gaps, worth, trouble))
    return placed


def _trouble(pair: IntArray, answered: BoolArray, scale: Scale) -> str:
    """Why the answers place no rung. pair : as in answers_of. answered : shape (n_orders, n_pairs)"""
    name = f"the ladders of {scale.task}/{scale.attribute} ({scale.n_rungs} rungs)"
    if not answered.any():
        return f"The judge answered nothing about {name}, so that nothing says where their rungs stand."
    if answered.any(axis=1).sum() == 1 and not _circles(pair[answered.any(axis=0)]):
        return (
            f"Of {name} neighbours alone were asked about, and in one order: whether the judge favours a position or "
            "sees a distance cannot be told apart. Ask in both orders, or about all pairs of three rungs or more."
        )
    if not scale.judge.rungs_rise:
        return (
            f"The judge does not see {name} rise, so that they are no scale: take another judge, or write other "
            "ladders."
        )
    return ""


def _circles(pair: IntArray) -> bool:
    """Whether questions about a ladder's rungs close a circle: then distances must add up. pair : as in answers_of"""
    rungs = np.unique(np.concatenate([pair[:, [0, 1]], pair[:, [0, 2]]]), axis=0)
    n_rungs, n_pairs = np.bincount(rungs[:, 0]), np.bincount(pair[:, 0])
    return bool((n_pairs >= np.maximum(n_rungs, 1)).any())  # a tree of n rungs has n - 1 pairs


def information(judge: JudgeModel, rungs: FloatArray) -> float:
    """What rungs at these positions tell of a text, relative to an even ladder, 1..N: 1.0 is as much.

        mean_x 1 / I(x; 1..N)  /  mean_x 1 / I(x; rungs)      I = sum over rungs and orders  w a^2 V      x even on 1..N

    1 / I is the variance of a text's estimated position; a, w, V are the judge's discrimination, and the weight and the
    variance of an answer. NaN for no rungs. Positions count as known: two rungs in the wrong order cost nothing here,
    since an anchored scale knows it; the paper's sum does not.
    """
    if not len(rungs):
        return float("nan")
    even = np.arange(1.0, judge.n_rungs + 1)
    return _mean_variance(judge, even) / _mean_variance(judge, rungs)


def _mean_variance(judge: JudgeModel, rungs: FloatArray) -> float:
    x = np.linspace(1.0, judge.n_rungs, 101)
    d = judge.discrimination * (x[:, None] - rungs)
    probs = judge.probs(d[..., None] + judge.position_bias * np.array([1.0, -1.0]))
    known = (judge.weight(probs) * variance(probs)).sum(axis=(1, 2)) * judge.discrimination**2
    return float((1 / known).mean())
