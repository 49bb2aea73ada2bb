"""Ladders + judge -> what it makes of their rungs, compared with each other. Pure, given the engine.

A ladder's order is what its writer intended. Whether a judge sees that order too decides whether scores against the
ladder mean anything under that judge; this module asks, and keeps the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, pairwise

import numpy as np

from ..engine import Engine
from ..errors import LadderError
from ..judging.asking import Asking, Pair, Verdicts, ask
from ..judging.templates import Templates
from ..types import IntArray, Ladder


@dataclass(frozen=True, slots=True)
class LadderCheck:
    """What a judge makes of one ladder.

    levels : the levels that have a text, worst first; a failed rung is stepped over
    pairs : (lower level, higher level) -> margin, p(Better) - p(Worse) of the higher against the lower, in [-1, 1], of
        all that the judge answered
    n_unanswered : pairs that it was asked about and did not answer; reason : why, of the first
    """

    levels: tuple[int, ...]
    pairs: Mapping[tuple[int, int], float] = field(default_factory=dict)
    n_unanswered: int = 0
    reason: str = ""

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
        return sum(known) / len(known) if known else math.nan


@dataclass(frozen=True, slots=True, eq=False)
class RungVerdicts:
    """What a judge made of rungs compared with each other.

    indices : int64, shape (n_pairs, 3); ladder, the higher rung, the lower one, from 0. The verdicts are on the higher
    """

    ladders: tuple[Ladder, ...]
    indices: IntArray
    verdicts: Verdicts

    def checks(self) -> list[LadderCheck]:
        """One a ladder, in order."""
        pairs: list[dict[tuple[int, int], float]] = [{} for _ in self.ladders]
        unanswered: list[list[str]] = [[] for _ in self.ladders]
        margins = (self.verdicts.better - self.verdicts.worse).tolist()
        for row, (ladder, higher, lower) in enumerate(self.indices.tolist()):
            if math.isnan(margins[row]):
                unanswered[ladder].append(self.verdicts.failures.get(row, ""))
            else:
                pairs[ladder][lower + 1, higher + 1] = margins[row]
        return [
            LadderCheck(
                tuple(rung.level for rung in ladder.usable), found, len(reasons), next(filter(None, reasons), "")
            )
            for ladder, found, reasons in zip(self.ladders, pairs, unanswered, strict=True)
        ]


def ask_rungs(
    ladders: Sequence[Ladder],
    judge: Engine,
    templates: Templates,
    asking: Asking = Asking(),
) -> RungVerdicts:
    """Ask the judge about every pair of rungs of each ladder.

    ladders : of the templates' task, each with its context
    asking : always in both orders: a judge that favours the text asked about would see every ladder rise
    raises : LadderError for a ladder of another task or without its context; TemplateError, TaskError, LabelError
    """
    pairs, indices = [], []
    for index, ladder in enumerate(ladders):
        name = f"ladder {ladder.context_id}/{ladder.attribute}"
        if ladder.task != templates.task.name:
            raise LadderError(f"{name} is of task {ladder.task!r}, the templates of {templates.task.name!r}")
        if ladder.context is None:
            raise LadderError(
                f"{name} does not carry its context's text, which the judge has to see. Generate it again"
            )
        for lower, higher in combinations(ladder.usable, 2):
            pairs.append(Pair(ladder.context, ladder.attribute, target=higher.text, reference=lower.text))
            indices.append((index, higher.level - 1, lower.level - 1))
    verdicts = ask(pairs, judge, templates, replace(asking, both_orders=True), on_ladders=True)
    return RungVerdicts(tuple(ladders), np.array(indices, dtype=np.int64).reshape(-1, 3), verdicts)
