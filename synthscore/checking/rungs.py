"""Ladders + judge -> what it makes of their rungs, compared with each other. Pure, given the engine.

A ladder's order is what its writer intended. Whether a judge sees that order too decides whether scores against the
ladder mean anything under that judge; this module asks, and keeps the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise

import numpy as np

from ..engine import Engine, Progress
from ..errors import LadderError
from ..judging.asking import Asking, ask
from ..judging.templates import Templates
from ..judging.verdicts import Pair, Verdicts
from ..types import IntArray, Ladder

BOTH_ORDERS = Asking(both_orders=True)
"""A judge that favours the text asked about would see every ladder rise."""


@dataclass(frozen=True, slots=True)
class LadderCheck:
    """What a judge makes of one ladder.

    levels : the levels that have a text, worst first; a failed rung is stepped over
    margins : p(Better) - p(Worse) of each of them against the one before, in [-1, 1]; one fewer than `levels`.
        Positive: the judge sees the ladder rise here. NaN where the judge could not be asked; `reason` says why.
    pairs : (lower level, higher level) -> margin of the higher against the lower, of all that the judge answered
    n_unanswered : pairs that it was asked about and did not answer
    """

    levels: tuple[int, ...]
    margins: tuple[float, ...]
    reason: str = ""
    pairs: Mapping[tuple[int, int], float] = field(default_factory=dict)
    n_unanswered: int = 0

    @property
    def cycles(self) -> tuple[tuple[int, int, int], ...]:
        """Three rungs of which the judge finds each better than one of the others: a < b < c < a, or the reverse."""
        found = []
        for a, b, c in combinations(self.levels, 3):
            if all(pair in self.pairs for pair in ((a, b), (b, c), (a, c))):
                steps = (self.pairs[a, b], self.pairs[b, c], -self.pairs[a, c])
                if min(steps) > 0 or max(steps) < 0:
                    found.append((a, b, c))
        return tuple(found)

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
        reasons, n_unanswered = ["" for _ in self.ladders], [0 for _ in self.ladders]
        margins = (self.verdicts.better - self.verdicts.worse).tolist()
        for row, (ladder, higher, lower) in enumerate(self.indices.tolist()):
            if math.isnan(margins[row]):
                reasons[ladder] = reasons[ladder] or self.verdicts.failures.get(row, "")
                n_unanswered[ladder] += 1
            else:
                pairs[ladder][lower + 1, higher + 1] = margins[row]
        return [
            LadderCheck(
                levels=tuple(rung.level for rung in ladder.usable),
                margins=tuple(found.get((a.level, b.level), math.nan) for a, b in pairwise(ladder.usable)),
                reason=reason,
                pairs=found,
                n_unanswered=missing,
            )
            for ladder, found, reason, missing in zip(self.ladders, pairs, reasons, n_unanswered, strict=True)
        ]


def ask_rungs(
    ladders: Sequence[Ladder],
    judge: Engine,
    templates: Templates,
    asking: Asking = BOTH_ORDERS,
    *,
    adjacent: bool = False,
    progress: Progress | None = None,
) -> RungVerdicts:
    """Ask the judge about every pair of rungs of each ladder.

    ladders : of the templates' task, each with its context. adjacent : ask about neighbours alone
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
        for lower, higher in pairwise(ladder.usable) if adjacent else combinations(ladder.usable, 2):
            pairs.append(Pair(ladder.context, ladder.attribute, target=higher.text, reference=lower.text))
            indices.append((index, higher.level - 1, lower.level - 1))
    verdicts = ask(pairs, judge, templates, asking, progress)
    return RungVerdicts(tuple(ladders), np.array(indices, dtype=np.int64).reshape(-1, 3), verdicts)
