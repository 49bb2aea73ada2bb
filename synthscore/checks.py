"""Ladders + judge -> is each ladder rising? Every rung is compared with the one below it. Pure, given the engine.

A ladder's order is what its writer intended. Whether a judge sees that order too decides whether scores against the
ladder mean anything under that judge; this module asks, and keeps the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .engines.base import Engine, Progress
from .errors import LadderError
from .prompts import Templates
from .types import Ladder
from .verdicts import Pair, ask


@dataclass(frozen=True, slots=True)
class LadderCheck:
    """What a judge says of one ladder.

    levels : the levels that have a text, worst first; a failed rung is stepped over
    margins : p(Better) - p(Worse) of each of them against the one before, in [-1, 1]; one fewer than `levels`.
        Positive: the judge sees the ladder rise here. NaN where the judge could not be asked; `reason` says why.
    lengths : words of the text at each of `levels`: a judge that likes long texts sees a ladder of lengths rise
    """

    context_id: str
    task: str
    attribute: str
    levels: tuple[int, ...]
    margins: tuple[float, ...]
    lengths: tuple[int, ...]
    n_failed: int
    reason: str = ""

    @property
    def n_unanswered(self) -> int:
        return sum(math.isnan(margin) for margin in self.margins)

    @property
    def inversions(self) -> int:
        """Steps at which the judge finds the higher rung worse."""
        return sum(margin < 0 for margin in self.margins)

    @property
    def rising(self) -> bool:
        """Every step was judged, there is at least one, and at each the higher rung is the better one."""
        return bool(self.margins) and all(margin > 0 for margin in self.margins)

    @property
    def mean_margin(self) -> float:
        """Mean over the steps that were judged; NaN where there are none."""
        known = [margin for margin in self.margins if not math.isnan(margin)]
        return sum(known) / len(known) if known else math.nan


def check_ladders(
    ladders: Sequence[Ladder],
    judge: Engine,
    templates: Templates,
    *,
    protocol: str = "compare",
    both_orders: bool = True,
    min_mass: float = 0.01,
    progress: Progress | None = None,
) -> list[LadderCheck]:
    """Ask the judge about every pair of neighbouring rungs; one LadderCheck a ladder, in the order given.

    ladders : of the templates' task, each with its context
    both_orders : on by default, since a judge that favours the text asked about would see every ladder rise
    raises : LadderError for a ladder of another task or without its context; TemplateError, TaskError, LabelError
    """
    pairs, places = [], []
    for index, ladder in enumerate(ladders):
        name = f"ladder {ladder.context_id}/{ladder.attribute}"
        if ladder.task != templates.task.name:
            raise LadderError(f"{name} is of task {ladder.task!r}, the templates of {templates.task.name!r}")
        if ladder.context is None:
            raise LadderError(
                f"{name} does not carry its context's text, which the judge has to see. Generate it again"
            )
        usable = ladder.usable
        for step, (lower, higher) in enumerate(pairwise(usable)):
            pairs.append(Pair(ladder.context, ladder.attribute, target=higher.text, reference=lower.text))
            places.append((index, step))
    verdicts = ask(
        pairs, judge, templates, protocol=protocol, both_orders=both_orders, min_mass=min_mass, progress=progress
    )
    margins = [np.full(max(len(ladder.usable) - 1, 0), np.nan) for ladder in ladders]
    reasons = ["" for _ in ladders]
    for pair, (index, step) in enumerate(places):
        margins[index][step] = verdicts.better[pair] - verdicts.worse[pair]
        reasons[index] = reasons[index] or verdicts.failures.get(pair, "")
    return [
        LadderCheck(
            context_id=ladder.context_id,
            task=ladder.task,
            attribute=ladder.attribute,
            levels=tuple(rung.level for rung in ladder.usable),
            margins=tuple(margins[index].tolist()),
            lengths=tuple(len(rung.text.split()) for rung in ladder.usable),
            n_failed=ladder.n_rungs - len(ladder.usable),
            reason=reasons[index],
        )
        for index, ladder in enumerate(ladders)
    ]
