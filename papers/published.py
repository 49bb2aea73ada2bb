"""The figures that papers print, with where they stand: figures/ -> tables. No model.

A cell asks one question: what its table, its row and its column say of it, put together (`Published.ask`). How it is
answered is in `measures`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from synthscore.errors import InputError

FIGURES = Path(__file__).with_name("figures")
PAPERS = ("ds", "ca", "poe")
LABELS = ("name", "section", "values", "sd", "quoted")
"""What a row says beside its part of the question."""


@dataclass(frozen=True, slots=True)
class Column:
    """name : as the paper prints it. of : (benchmark, attribute), whose mean it is; empty where it is no agreement."""

    name: str
    of: tuple[tuple[str, str], ...]
    ask: Mapping[str, Any]

    @property
    def benchmark(self) -> str:
        """The one it is about; "" for none or several."""
        names = {benchmark for benchmark, _ in self.of}
        return names.pop() if len(names) == 1 else ""

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.name, self.benchmark, f"{self.benchmark}/{self.name}"))


@dataclass(frozen=True, slots=True)
class Row:
    """name, section : as the paper prints them. values, sd : a figure a column, None where there is none.

    ask : with "judge": "" where the paper does not say which model it asked
    quoted : columns in which the figure is repeated from elsewhere and is nothing to measure here
    """

    name: str
    section: str
    ask: Mapping[str, Any]
    values: tuple[float | None, ...]
    sd: tuple[float | None, ...]
    quoted: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        return frozenset((self.name, self.section, f"{self.section}/{self.name}"))


@dataclass(frozen=True, slots=True)
class Note:
    """What is wrong with figures, or not clear; of all of them where no rows and no columns are named."""

    text: str
    rows: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()

    def about(self, row: Row, column: Column) -> bool:
        return all(
            not names or any(name in there.names for name in names)
            for names, there in ((self.rows, row), (self.columns, column))
        )


@dataclass(frozen=True, slots=True)
class Published:
    """One table of a paper.

    id : "ds1". source : of the paper. number : of the table in it
    unit : what an agreement of 1 is printed as, 1 or 100
    """

    id: str
    source: str
    number: str
    title: str
    unit: float
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    notes: tuple[Note, ...]
    asks: Mapping[str, Any]
    judges: Mapping[str, tuple[str, ...]]  # as the paper calls them -> names on the hub

    def ask(self, row: Row, column: Column) -> dict[str, Any]:
        """What is to be measured; the row says more than the table, the column more than the row."""
        return {**self.asks, **row.ask, **column.ask}

    def judge(self, model: str) -> str:
        """The paper's name of a model, or the model's own where the paper has none."""
        return next((name for name, hub in self.judges.items() if model in hub), model)

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """That its columns are about, in their order."""
        return tuple(dict.fromkeys(benchmark for column in self.columns for benchmark, _ in column.of))


def table_ids() -> tuple[str, ...]:
    """Of all tables there are, in the order of the papers."""
    return tuple(_tables())


def published(table: str) -> Published:
    """raises : InputError for an id that is not there"""
    if table not in _tables():
        raise InputError(f"there is no table {table!r}. There are: {', '.join(_tables())}", value=table)
    return _tables()[table]


@cache
def _tables() -> dict[str, Published]:
    found = {}
    for paper in PAPERS:
        file = json.loads(FIGURES.joinpath(f"{paper}.json").read_text(encoding="utf-8"))
        judges = {name: tuple(hub) for name, hub in file["judges"].items()}
        for table in file["tables"]:
            found[table["id"]] = _table(table, file["source"], judges)
    return found


def _table(table: Mapping[str, Any], source: str, judges: Mapping[str, tuple[str, ...]]) -> Published:
    columns = tuple(
        Column(column["name"], tuple((b, a) for b, a in column["of"]), _rest(column, "name", "of"))
        for column in table["columns"]
    )
    rows = []
    for row in table["rows"]:
        rows.append(
            Row(
                name=row["name"],
                section=row.get("section", ""),
                ask=_rest(row, *LABELS),
                values=tuple(row["values"]),
                sd=tuple(row.get("sd", [None] * len(columns))),
                quoted=tuple(row.get("quoted", ())),
            )
        )
    return Published(
        id=table["id"],
        source=source,
        number=table["table"],
        title=table["title"],
        unit=table["unit"],
        columns=columns,
        rows=tuple(rows),
        notes=tuple(
            Note(note["text"], tuple(note.get("rows", ())), tuple(note.get("columns", ()))) for note in table["notes"]
        ),
        asks=_rest(table, "id", "table", "title", "unit", "columns", "rows", "notes"),
        judges=judges,
    )


def _rest(said: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in said.items() if name not in names}
