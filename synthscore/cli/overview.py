"""Scores -> what a person at a terminal wants to know: a table of systems and attributes, in place of rows."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from .messages import clip, counted, spaced, table

if TYPE_CHECKING:
    from ..io.fields import Item
    from ..scoring.scorer import ScoredBatch
    from ..types import Score

MOST = 40  # lines of a table


def is_terminal() -> bool:
    """Whether somebody reads stdout as it comes."""
    return sys.stdout.isatty()


@dataclass(slots=True)
class _Cell:
    """values, contexts : of each text of a system on an attribute; NaN where unscored"""

    values: list[float] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)


class Overview:
    """Means of scores, with their intervals over contexts; it holds a number and a context for each score."""

    def __init__(self) -> None:
        self._cells: dict[tuple[str, str], _Cell] = {}  # by attribute and system

    def add(self, part: ScoredBatch) -> None:
        """The scores of some rows."""
        items = (item for batch in part.batches for item in batch.items)
        for item, scores in zip(items, part.scored.rows, strict=True):
            for score, _ in scores:
                self._add(item, score)

    def _add(self, item: Item, score: Score) -> None:
        system = "" if isinstance(item.target, Exception) else item.target.system or ""
        cell = self._cells.setdefault((score.attribute, system), _Cell())
        cell.values.append(math.nan if score.value is None else score.value)
        cell.contexts.append(score.context_id or "")

    def lines(self) -> Iterator[str]:
        """The table: of each attribute the highest mean first; rows that have none last."""
        from ..evaluation.intervals import mean_score

        found = []
        for (attribute, system), cell in self._cells.items():
            mean = mean_score(np.array(cell.values), cell.contexts)
            place = (attribute, math.isnan(mean.value), -mean.value, system)
            found.append((place, attribute, system, mean, cell))
        found.sort(key=lambda one: one[0])
        rows: list[tuple[object, ...]] = []
        for _, attribute, system, mean, cell in found[:MOST]:
            interval = "-" if math.isnan(mean.low) else f"{mean.low:.2f} to {mean.high:.2f}"
            n_scored = int((~np.isnan(cell.values)).sum())
            counts = spaced(n_scored), spaced(len(cell.values) - n_scored)
            shown = mean.value if n_scored else None
            rows.append((clip(attribute, 20) or "-", clip(system, 24) or "-", shown, interval, *counts))
        yield table(rows, ("attribute", "system", "mean", "95 % interval", "scored", "unscored"))
        if len(found) > MOST:
            yield f"and {counted(len(found) - MOST, 'line')} more"
        yield "A row for each text: -o scores.jsonl (or .csv, .parquet), or into a pipe"
