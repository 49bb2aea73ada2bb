"""A paper's table, made again for the models given: what was measured, with its interval, beside what was published.

The layout is the paper's, from figures/. A model that the paper has too is measured in the paper's rows; any
other gets rows of its own, and so does every model where the paper does not say which it asked. What cannot be measured
is a dash, and a footnote says why. What each table needs is in docs/tables.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from synthscore.errors import InputError, SynthscoreError
from synthscore.evaluation.ratings import Ratings
from synthscore.ladders.references import References
from synthscore.scoring.method import Tools

from .layout import Cell, MeasuredRow, Table
from .measures import Bench, Unmeasured
from .published import Column, Published, Row, published


def make_table(
    table: str,
    ratings: Mapping[str, Ratings],
    models: Mapping[str, Tools],
    *,
    writers: Mapping[str, References] | None = None,
    methods: Mapping[str, str] | None = None,
    prompts: Sequence[str] = (),
    n_draws: int | None = None,
    seed: int = 0,
) -> Table:
    """Measure every cell that can be.

    table : an id (published.table_ids). ratings : by name of the benchmark
    models : name -> judge and ladders. A name is the paper's, or that of the hub; else the model gets rows of its own
    writers : name of a model -> ladders that it wrote (ds3)
    methods : name of a row -> spec of a method for it, such as {"QuestEval": "file:questeval.jsonl"}; a name that no
        row has is a row more
    prompts : template sets in the place of a paper's first, second, ... prompt; without any, each model's own
    n_draws : of curves and of subsets of texts, where the paper's number takes too long
    raises : InputError for an id that is not there, or a row that such a table cannot have
    """
    of = published(table)
    known = {of.judge(name): tools for name, tools in models.items()}
    wrote = {of.judge(name): ladders for name, ladders in (writers or {}).items()}
    bench = Bench(ratings, known, writers=wrote, prompts=tuple(prompts), n_draws=n_draws, seed=seed)
    rows = _rows(of, tuple(known), tuple(wrote), methods or {})
    lines = []
    for row in rows:
        cells = []
        for column, value, sd in zip(of.columns, row.values, row.sd, strict=True):
            ask = of.ask(row, column)
            cell = Cell(published=value, published_sd=sd, decimals=ask["decimals"])
            cells.append(_measured(cell, bench, ask, column, of.unit) if _measurable(row, column, ask) else cell)
        lines.append(MeasuredRow(row, tuple(cells)))
    settings = {"seed": seed, "n_draws": n_draws, "prompts": list(prompts)}
    return Table(of, tuple(lines), tuple(_footnotes(of, lines)), settings)


def _measurable(row: Row, column: Column, ask: Mapping[str, Any]) -> bool:
    asked = "method" in ask or ask["measure"] not in ("agreement", "curve")
    return bool(column.of) and asked and column.name not in row.quoted


def _measured(cell: Cell, bench: Bench, ask: Mapping[str, Any], column: Column, unit: float) -> Cell:
    try:
        found = bench.figure(ask, column.of)
    except Unmeasured as error:
        return replace(cell, missing=(error.what, error.which))
    except SynthscoreError as error:
        return replace(cell, missing=(f"{type(error).__name__}:", str(error)))
    low, high = (None, None) if found.interval is None else (unit * end for end in found.interval)
    return replace(
        cell,
        value=unit * found.value,
        low=low,
        high=high,
        sd=None if found.sd is None else unit * found.sd,
        n_contexts=found.n_contexts,
        left_out=found.left_out,
    )


# ------------------------------------------------------------------------------------------------- rows


def _rows(of: Published, models: Sequence[str], writers: Sequence[str], methods: Mapping[str, str]) -> list[Row]:
    """The paper's, and other models' at the end of their sections, with what `methods` says of them; then new ones."""
    rows = list(of.rows)
    for key, names in (("judge", models), ("writer", writers)):
        papers = {row.ask.get(key) for row in of.rows}
        for name in names:
            for pattern in _patterns(of, key):
                if name not in papers or not pattern.ask[key]:
                    _insert(rows, _renamed(pattern, key, name, models))
    rows = [_with_method(row, methods[name]) if (name := _named(row, methods)) else row for row in rows]
    named = {name for row in rows for name in row.names}
    nothing = (None,) * len(of.columns)
    added = [(name, spec) for name, spec in methods.items() if name not in named]
    if added and (of.asks["measure"] != "agreement" or any("method" in column.ask for column in of.columns)):
        raise InputError(
            f"cannot add the row {added[0][0]!r} to {of.id}: its rows are no methods compared with people. Its "
            f"rows are: {', '.join(dict.fromkeys(row.name for row in of.rows))}",
            value=added[0][0],
        )
    return rows + [Row(name, "Added", {"method": spec}, nothing, nothing) for name, spec in added]


def _with_method(row: Row, spec: str) -> Row:
    """The row, measured by another method; by that alone where the paper does not say which model it asked."""
    stated = {name: value for name, value in row.ask.items() if value != ""}
    return replace(row, ask={**stated, "method": spec})


def _named(row: Row, methods: Mapping[str, str]) -> str:
    """What `methods` calls it; "" if it does not."""
    return next((name for name in (f"{row.section}/{row.name}", row.name) if name in methods), "")


def _patterns(of: Published, key: str) -> list[Row]:
    """A row for each thing that the table asks of a judge, or of a writer: those of the first one."""
    patterns: dict[str, Row] = {}
    for row in of.rows:
        if key in row.ask and not row.ask.get("fixed") and (key == "writer" or "writer" not in row.ask):
            asked = {name: value for name, value in row.ask.items() if name != key}
            patterns.setdefault(repr((asked, row.section.replace(row.ask[key], ""))), row)
    return list(patterns.values())


def _renamed(row: Row, key: str, name: str, models: Sequence[str]) -> Row:
    """The same asked of another. Its ladders are judged by the paper's judge, or else by the first model."""
    paper = row.ask[key]
    ask = {**row.ask, key: name}
    if key == "writer" and row.ask["judge"] not in models and models:
        ask["judge"] = models[0]
    line, section = f"{row.name} {name}", row.section
    if paper:
        line, section = row.name.replace(paper, name), row.section.replace(paper, name)
    if (line, section) == (row.name, row.section):
        section = f"{name}: {section}"
    nothing = (None,) * len(row.values)
    return replace(row, name=ask.get("calls", line), section=section, ask=ask, values=nothing, sd=nothing)


def _insert(rows: list[Row], row: Row) -> None:
    """At the end of its section, or as a section of its own."""
    same = [place for place, each in enumerate(rows) if each.section == row.section]
    rows.insert(same[-1] + 1 if same else len(rows), row)


# ------------------------------------------------------------------------------------------------- footnotes


def _footnotes(of: Published, lines: Sequence[MeasuredRow]) -> Iterator[str]:
    quoted = [
        line.row.name
        for line in lines
        if not any(_measurable(line.row, column, of.ask(line.row, column)) for column in of.columns)
    ]
    if quoted:
        yield f"Published only, nothing here measures them: {', '.join(dict.fromkeys(quoted))}"
    missing: dict[str, dict[str, list[str]]] = {}  # what there was not -> which -> cells
    left_out: dict[str, list[int]] = {}
    for line in lines:
        for column, cell in zip(of.columns, line.cells, strict=True):
            if cell.missing:
                what, which = cell.missing
                missing.setdefault(what, {}).setdefault(which, []).append(f"{line.row.name} {column.name}")
            for what, count in cell.left_out.items():
                left_out.setdefault(what, []).append(count)
    for what, names in missing.items():
        if what.endswith("Error:"):
            for which, cells in names.items():
                more = f" and {len(cells) - 1} more" if len(cells) > 1 else ""
                yield f"Not measured ({cells[0]}{more}): {which}"
        else:
            yield f"Not measured: {what} {', '.join(names)}"
    for what, counts in left_out.items():
        yield f"Left out: {what}: {min(counts)} to {max(counts)} in each of {len(counts)} cells"
