"""Ladders + judge -> its comparisons of their rungs with each other, and the rungs' positions. Pure, given the engine.

A ladder's order is what its writer intended. Scores against the ladder mean something under a judge only if the judge
sees that order too: in its comparisons, in the positions of the rungs, and in the gaps between them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np

from ..engine import Engine
from ..errors import LadderError
from ..judging.asking import Asking, Pair, Verdicts, ask
from ..judging.templates import Templates
from ..scoring.anchored.scale import Scale
from ..scoring.anchored.scores import fit_scale, gather_answers
from ..types import Context, FloatArray, IntArray, Ladder, grouped


@dataclass(frozen=True, slots=True)
class LadderCheck:
    """A judge's comparisons of the rungs of one ladder.

    levels : the levels that have a text, worst first; a failed rung is stepped over
    pairs : (lower level, higher level) -> margin, p(Better) - p(Worse) of the higher against the lower, in [-1, 1], of
        all that the judge answered
    n_unanswered : pairs that it was asked about and did not answer; reason : why, of the first
    """

    levels: tuple[int, ...]
    pairs: Mapping[tuple[int, int], float]
    n_unanswered: int
    reason: str

    @property
    def margins(self) -> tuple[float, ...]:
        """Of each level against the one before: positive where the judge sees the ladder rise; NaN for no answer."""
        return tuple(self.pairs.get(step, math.nan) for step in pairwise(self.levels))

    @property
    def rising(self) -> bool:
        """Every step was judged, there is at least one, and at each the higher rung is the better one."""
        return bool(self.margins) and all(margin > 0 for margin in self.margins)

    @property
    def mean_margin(self) -> float:
        """Mean over the steps that were judged; NaN where there are none."""
        known = [margin for margin in self.margins if not math.isnan(margin)]
        if not known:
            return math.nan
        return sum(known) / len(known)


@dataclass(frozen=True, slots=True, eq=False)
class JudgedRungs:
    """A judge's verdicts on rungs compared with each other.

    indices : int64, shape (n_pairs, 3); ladder, the higher rung, the lower one, from 0. The verdicts are on the higher
    """

    ladders: tuple[Ladder, ...]
    indices: IntArray
    verdicts: Verdicts

    def checks(self) -> list[LadderCheck]:
        """One a ladder, in order."""
        pairs: list[dict[tuple[int, int], float]] = [{} for _ in self.ladders]
        failures: list[list[str]] = [[] for _ in self.ladders]
        margins = (self.verdicts.better - self.verdicts.worse).tolist()
        for row, (ladder, higher, lower) in enumerate(self.indices.tolist()):
            if math.isnan(margins[row]):
                failures[ladder].append(self.verdicts.failures.get(row, ""))
            else:
                pairs[ladder][lower + 1, higher + 1] = margins[row]
        checks = []
        for index, ladder in enumerate(self.ladders):
            check = LadderCheck(
                levels=tuple(rung.level for rung in ladder.usable),
                pairs=pairs[index],
                n_unanswered=len(failures[index]),
                reason=next(filter(None, failures[index]), ""),
            )
            checks.append(check)
        return checks


def context_of(ladder: Ladder) -> Context:
    """raises : LadderError for a ladder without its context"""
    if ladder.context is None:
        raise LadderError(
            f"ladder {ladder.context_id}/{ladder.attribute} does not carry its context's text, which the judge has to "
            "see. Generate it again"
        )
    return ladder.context


def ask_rungs(
    ladders: Sequence[Ladder],
    judge: Engine,
    templates: Templates,
    asking: Asking = Asking(),
) -> JudgedRungs:
    """Ask the judge about every pair of rungs of each ladder.

    ladders : of the templates' task, each with its context
    asking : always in both orders: a judge that favours the text asked about would see every ladder rise
    raises : LadderError for a ladder of another task or without its context; TemplateError, TaskError, LabelError
    """
    pairs = []
    indices = []
    for index, ladder in enumerate(ladders):
        context = context_of(ladder)
        if ladder.task != templates.task.name:
            name = f"ladder {ladder.context_id}/{ladder.attribute}"
            raise LadderError(f"{name} is of task {ladder.task!r}, the templates of {templates.task.name!r}")
        for lower, higher in combinations(ladder.usable, 2):
            pairs.append(Pair(context, ladder.attribute, target=higher.text, reference=lower.text))
            indices.append((index, higher.level - 1, lower.level - 1))
    verdicts = ask(pairs, judge, templates, replace(asking, both_orders=True), on_ladders=True)
    return JudgedRungs(tuple(ladders), np.array(indices, dtype=np.int64).reshape(-1, 3), verdicts)


# ------------------------------------------------------------------------------------------------- positions


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


def place_rungs(rungs: JudgedRungs) -> dict[tuple[str, int], Placed]:
    """Positions of the rungs under the judge, pooled over the ladders of one attribute and length (docs/anchored.md):
    these two -> what is made of them.

    rungs : all of one task. Ladders of which nothing was answered are expected at 1..N, with the error of that.
    """
    groups = grouped(((ladder.attribute, ladder.n_rungs), index) for index, ladder in enumerate(rungs.ladders))
    placed = {}
    for (attribute, n_rungs), members in sorted(groups.items()):
        ladders = {rungs.ladders[index].context_id: rungs.ladders[index] for index in members}
        rows = np.isin(rungs.indices[:, 0], members)
        compared = rungs.indices[rows]
        compared[:, 0] = np.searchsorted(members, compared[:, 0])
        no_targets = np.zeros(0, dtype=np.int64)
        answers = gather_answers(
            n_rungs=n_rungs,
            n_ladders=len(ladders),
            ladder_of=no_targets,
            compared=compared,
            by_order=rungs.verdicts.by_order[:, rows],
            protocol=rungs.verdicts.protocol,
            n_samples=rungs.verdicts.n_samples[:, rows],
        )
        task = rungs.ladders[members[0]].task
        scale, _ = fit_scale(answers, ladders, task, attribute, rungs.verdicts.signature)
        answered = set(answers.ladder.tolist())
        name = f"the ladders of {task}/{attribute} ({scale.n_rungs} rungs)"
        trouble = ""
        if not answered:
            trouble = f"The judge answered nothing about {name}, so that nothing says where their rungs stand."
        elif not scale.judge.rungs_rise:
            trouble = (
                f"The judge does not see {name} rise, so that they are no scale: take another judge, or other ladders."
            )
        gaps = {}
        for index, (context_id, ladder) in enumerate(ladders.items()):
            has_text = np.array([rung.status == "ok" for rung in ladder.rungs])
            stands = has_text & (index in answered) & (not trouble)
            anchors = scale.ladders[context_id]
            nats_a_rung = scale.judge.discrimination * np.exp(anchors.sharpness)
            known_positions = np.where(stands, anchors.mean, np.nan)
            gaps[context_id] = nats_a_rung * np.diff(known_positions)
        placed[attribute, n_rungs] = Placed(scale, gaps, trouble)
    return placed
