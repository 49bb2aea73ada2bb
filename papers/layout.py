"""A table of figures that were measured, beside those that were published: as Markdown and as JSON. No model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import groupby
from string import ascii_lowercase
from typing import Any

from synthscore.io.write import plain

from .published import Column, Published, Row

LEVELS = {
    "ds": {"per_context": "sample-level", "pooled": "summary-level", "system": "system-level"},
    **{name: {"per_context": "summary-level, context-level", "system": "system-level"} for name in ("ca", "poe")},
}
"""Paper -> level -> what the paper calls it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure of a table, in the table's unit.

    value, low, high : measured, with its interval over contexts; None where it was not measured
    sd : over draws or trials, where there are several
    n_contexts : that value rests on. left_out : what takes no part in it -> how many
    published, published_sd : None where the paper has none
    missing : what there was not, and which: why nothing was measured; empty where something was, or nothing can be
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    sd: float | None = None
    n_contexts: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    published: float | None = None
    published_sd: float | None = None
    missing: tuple[str, ...] = ()
    decimals: int = 2

    @property
    def within(self) -> bool | None:
        """Whether the published figure, before it was rounded, may lie in the interval; None without both."""
        if self.published is None or self.low is None or self.high is None:
            return None
        rounding = 0.5 * 10.0**-self.decimals + 1e-9
        return self.low - rounding <= self.published <= self.high + rounding

    def text(self, letters: str = "") -> str:
        """0.44 [0.40, 0.48] (0.46 a); the published figure in brackets, * where it is outside of the interval.

        - in the place of what could not be measured. Nothing stands there where nothing measures it.
        """
        shown = ["-"] if self.missing else []
        if self.value is not None:
            shown = [self._number(self.value, self.sd)]
        if self.low is not None:
            shown.append(f"[{self._number(self.low)}, {self._number(self.high)}]")
        if self.published is not None:
            mark = "*" if self.within is False else ""
            note = f" {letters}" if letters else ""
            shown.append(f"({self._number(self.published, self.published_sd)}{mark}{note})")
        return " ".join(shown)

    def _number(self, value: float | None, sd: float | None = None) -> str:
        assert value is not None
        spread = "" if sd is None else f" ± {sd:.{self.decimals}f}"
        return f"{value:.{self.decimals}f}{spread}"


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """row : the paper's, or one like it for another model, without figures"""

    row: Row
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """lines : the paper's rows, in their order, and those of other models. footnotes : what was not measured, and why

    settings : what was measured with
    """

    of: Published
    lines: tuple[MeasuredRow, ...]
    footnotes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.of.id}: {self.of.title} ({self.of.source}, Table {self.of.number})"

    @property
    def legend(self) -> str:
        how = []
        if "statistic" in self.of.asks:
            theirs = LEVELS[self.of.id.rstrip("0123456789")]
            levels = dict.fromkeys(column.ask.get("level", self.of.asks["level"]) for column in self.of.columns)
            names = [f"{level} (there: {theirs[level]})" if level in theirs else level for level in levels]
            how.append(f"{self.of.asks['statistic'].capitalize()}, {' and '.join(names)}")
        unit = " x 100" if self.of.unit == 100 else ""
        return "; ".join([*how, f"measured [95 % interval over contexts] (published){unit}; * outside of the interval"])

    def to_json(self) -> dict[str, Any]:
        columns = [{"name": column.name, "of": [list(of) for of in column.of]} for column in self.of.columns]
        return {
            "id": self.of.id,
            "source": self.of.source,
            "table": self.of.number,
            "title": self.of.title,
            **self.of.asks,
            "unit": self.of.unit,
            "columns": columns,
            "rows": [self._row_json(line) for line in self.lines],
            "notes": [note.text for note in self.of.notes if not note.rows and not note.columns],
            "footnotes": list(self.footnotes),
            "settings": dict(self.settings),
        }

    def _row_json(self, line: MeasuredRow) -> dict[str, Any]:
        cells = []
        for cell, column in zip(line.cells, self.of.columns, strict=True):
            notes = [self.of.notes[place].text for place in self._notes(line, column, cell)]
            more = {"within": cell.within, "missing": " ".join(cell.missing), "notes": notes}
            cells.append(plain(asdict(cell) | more))
        row = line.row
        return {"section": row.section, "name": row.name, "judge": row.ask.get("judge") or None, "cells": cells}

    def to_markdown(self) -> str:
        """One table, however wide."""
        heads = [_head(column, self.of.columns) for column in self.of.columns]
        rows = ["| | " + " | ".join(heads) + " |", "|---|" + "---:|" * len(heads)]
        for section, lines in groupby(self.lines, key=lambda line: line.row.section):
            rows += [f"| **{section}** |" + " |" * len(heads)] if section else []
            rows += [f"| {line.row.name} | " + " | ".join(self._texts(line)) + " |" for line in lines]
        notes = [f"- {note}" for note in self._below()]
        return "\n".join([f"**{self.title}**", "", self.legend, "", *rows, "", *notes]) + "\n"

    def _letters(self) -> dict[int, str]:
        """Of the notes that are about some cells only, by their places."""
        places = [place for place, note in enumerate(self.of.notes) if note.rows or note.columns]
        return {place: ascii_lowercase[k] for k, place in enumerate(places)}

    def _notes(self, line: MeasuredRow, column: Column, cell: Cell) -> list[int]:
        """Places of the notes about this cell; none where the paper has no figure."""
        there = () if cell.published is None else self._letters()
        return [place for place in there if self.of.notes[place].about(line.row, column)]

    def _texts(self, line: MeasuredRow) -> list[str]:
        letters = self._letters()
        return [
            cell.text("".join(letters[place] for place in self._notes(line, column, cell)))
            for cell, column in zip(line.cells, self.of.columns, strict=True)
        ]

    def _below(self) -> list[str]:
        letters = self._letters()
        notes = [f"{letter}: {self.of.notes[place].text}" for place, letter in letters.items()]
        return [*notes, *(n.text for place, n in enumerate(self.of.notes) if place not in letters), *self.footnotes]


def _head(column: Column, columns: Sequence[Column]) -> str:
    """The name, with the benchmark where there are several."""
    several = len({each.benchmark for each in columns if each.benchmark}) > 1
    return f"{column.benchmark} {column.name}" if several and column.benchmark else column.name
