"""What a judge answered about rungs -> where it puts them, by how much it tells them apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..scoring.anchored.scale import Scale
from ..scoring.anchored.scores import answers_of, fitted
from ..types import FloatArray, Ladder
from .rungs import RungVerdicts


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Where a judge puts the rungs of all ladders of one attribute and one length.

    scale : the judge and the positions
    gaps : context id -> float64, shape (N - 1,), nats; by how much the judge tells each rung from the one below it,
        discrimination x distance. NaN beside a rung without a text, and for a ladder of which nothing was answered
    trouble : why the positions mean nothing, in a sentence; gaps are then NaN. "" where they do
    """

    scale: Scale
    gaps: Mapping[str, FloatArray]
    trouble: str = ""

    def holds(self, ladder: Ladder) -> bool:
        return (self.scale.attribute, self.scale.n_rungs) == (ladder.attribute, ladder.n_rungs)

    def standing(self, context_id: str) -> dict[str, Any]:
        """Of a ladder, for its row. positions, position_sd : of its rungs, on the scale 1..N; NaN in trouble"""
        anchors = self.scale.ladders[context_id]
        return {
            "gaps": self.gaps[context_id],
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
        known = np.isfinite(by_order).all(axis=2).any(axis=0)
        answered = set(pair[known, 0].tolist())
        trouble = _trouble(scale, bool(answered))
        gaps = {}
        for index, (name, ladder) in enumerate(ladders.items()):
            stands = np.array([rung.status == "ok" and index in answered and not trouble for rung in ladder.rungs])
            anchors = scale.ladders[name]
            nats = scale.judge.discrimination * np.exp(anchors.sharpness)
            gaps[name] = nats * np.diff(np.where(stands, anchors.mean, np.nan))
        placed.append(Placed(scale, gaps, trouble))
    return placed


def _trouble(scale: Scale, answered: bool) -> str:
    """Why the answers place no rung. answered : whether there are any"""
    name = f"the ladders of {scale.task}/{scale.attribute} ({scale.n_rungs} rungs)"
    if not answered:
        return f"The judge answered nothing about {name}, so that nothing says where their rungs stand."
    if not scale.judge.rungs_rise:
        return f"The judge does not see {name} rise, so that they are no scale: take another judge, or other ladders."
    return ""
