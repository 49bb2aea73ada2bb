"""Scores -> what a person at a terminal wants to know: a table of systems and attributes, in place of rows."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import fmean
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
    """values, contexts : of each scored text of a system on an attribute"""

    values: list[float] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)
    n_unscored: int = 0

    @property
    def mean(self) -> float:
        """Minus infinity where nothing is scored, so that it comes last."""
        return fmean(self.values) if self.values else -math.inf


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
        if score.value is None:
            cell.n_unscored += 1
        else:
            cell.values.append(score.value)
            cell.contexts.append(score.context_id or f"{len(cell.values)}")

    def lines(self) -> Iterator[str]:
        """The table: of each attribute the highest mean first; rows that have none last."""
        from ..evaluation.intervals import mean_over_contexts

        cells = sorted(self._cells.items(), key=lambda named: (named[0][0], -named[1].mean, named[0][1]))
        rows: list[tuple[object, ...]] = []
        for (attribute, system), cell in cells[:MOST]:
            interval = "-"
            if cell.values:
                found = mean_over_contexts(np.array(cell.values), cell.contexts)
                if not math.isnan(found.low):
                    interval = f"{found.low:.2f} to {found.high:.2f}"
            mean = cell.mean if cell.values else None
            counts = spaced(len(cell.values)), spaced(cell.n_unscored)
            rows.append((clip(attribute, 20) or "-", clip(system, 24) or "-", mean, interval, *counts))
        yield table(rows, ("attribute", "system", "mean", "95 % interval", "scored", "unscored"))
        if len(cells) > MOST:
            yield f"and {counted(len(cells) - MOST, 'line')} more"
        yield "A row for each text: -o scores.jsonl (or .csv, .parquet), or into a pipe"
