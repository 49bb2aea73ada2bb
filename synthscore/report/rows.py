"""A run -> pages with every row, in a folder beside the report: lists by score, and the texts themselves.

A list holds the scores of one group (a file and attribute), of all systems or of one, the best first; each row leads to
its text on a page of texts, which stand in the order of their contexts, all scores of a text together. However many
rows there are, a page stays small.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ..errors import InputError
from ..types import grouped
from .exchanges import Exchange, Exchanges
from .numbers import ScoreGroup, best_first, groups
from .page import template
from .read import Run, ScoreRow
from .verdicts import mean_verdicts

INDEX = "index.html"
LISTED, TEXTS, TEXTS_WITH_EXCHANGES = 1000, 100, 10
"""Rows of a list, texts of a page, and of one with what the judge was asked about each."""

MOST_SYSTEMS = 40
"""Systems that have lists of their own."""

MOST_EXCHANGES = 2000
"""Rows whose exchanges are shown: some ten kilobytes each."""

_PAGE = re.compile(r"index\.html|(list-\d+|texts)-\d+\.html")


class RowList(NamedTuple):
    """title : what its rows have in common. pages : names of its pages"""

    group: ScoreGroup
    title: str
    rows: Sequence[ScoreRow]
    pages: Sequence[str]

    def ends(self, number: int) -> tuple[float | None, float | None]:
        """The first and the last score of a page."""
        start = number * LISTED
        listed = self.rows[start : start + LISTED]
        return listed[0].score.value, listed[-1].score.value


class TextRows(NamedTuple):
    """A text, and its scores with what the judge was asked for them. place : its number in the run"""

    place: int
    id: str
    context_id: str
    scores: Sequence[tuple[ScoreGroup, ScoreRow]]


def row_pages(
    run: Run, *, title: str | None = None, report: str = "", store: str | None = None
) -> Iterator[tuple[str, str]]:
    """Names of files and their HTML, the first the one to begin on. They lead to each other by their names alone.

    report : address of the report. store : answers to show with the rows
    raises : StoreError where the store is none
    """
    found = groups(run)
    exchanges = None if store is None else Exchanges(run, store)
    texts = _texts(found)
    n_texts = TEXTS if exchanges is None else TEXTS_WITH_EXCHANGES
    lists = [each for group in found for each in _lists(run, group)]
    lists = [
        each._replace(pages=[f"list-{at}-{number}.html" for number in range(1, 1 + -(-len(each.rows) // LISTED))])
        for at, each in enumerate(lists, 1)
    ]
    shown = _to_exchange(found) if exchanges else set()
    shared = {
        "title": title or f"Scores of {run.name}",
        "report": report,
        "run": run,
        "several": len(run.scores) > 1,
        "page_of": lambda place: f"texts-{place // n_texts + 1}.html",
    }
    place_of = {(text.context_id, text.id): text.place for text in texts}
    by_group = grouped((each.group, each) for each in lists)
    first = {"n_texts": len(texts), "lists": by_group, "n_exchanged": len(shown) if exchanges else None}
    n_rows = sum(len(group.rows) for group in found)
    yield INDEX, template("rows.html.jinja").render(kind="index", n_rows=n_rows, **first, **shared)
    for each in lists:
        for number, name in enumerate(each.pages):
            rows = each.rows[number * LISTED : (number + 1) * LISTED]
            listed = [(row.score, place_of[row.score.context_id, row.score.id]) for row in rows]
            about = {"of": each, "number": number, "listed": listed, "others": by_group[each.group]}
            yield name, template("rows.html.jinja").render(kind="list", **about, **shared)
    n_pages = -(-len(texts) // n_texts)
    for number in range(1, n_pages + 1):
        part = texts[(number - 1) * n_texts : number * n_texts]
        asked: dict[int, list[Exchange]] = {}
        if exchanges:
            rows = [row for text in part for _, row in text.scores if id(row.score) in shown]
            asked = {id(row.score): exchanges.find(row) for row in rows}
        about = {"part": part, "number": number, "n_pages": n_pages, "asked": asked, "key": id, "verdicts": _better}
        yield f"texts-{number}.html", template("rows.html.jinja").render(kind="texts", **about, **shared)


def _texts(found: Iterable[ScoreGroup]) -> list[TextRows]:
    """In the order of their contexts, and in a context as they came."""
    rows = ((group, row) for group in found for row in group.rows)
    scores = grouped(((row.score.context_id, row.score.id), (group, row)) for group, row in rows)
    contexts = grouped((context_id, (text_id, context_id)) for context_id, text_id in scores)
    ordered = chain.from_iterable(contexts.values())
    return [
        TextRows(place, text_id, context_id, scores[context_id, text_id])
        for place, (text_id, context_id) in enumerate(ordered)
    ]


def _lists(run: Run, group: ScoreGroup) -> Iterator[RowList]:
    """All rows of a group, those of each of its systems, and those that are not whole; without a page yet."""
    ranked = sorted(group.rows, key=lambda row: best_first(row.score))
    yield RowList(group, "all", ranked, ())
    by_system = grouped((run.systems.get(row.score.id, ""), row) for row in ranked)
    by_system.pop("", None)
    if 1 < len(by_system) <= MOST_SYSTEMS:
        for name in sorted(by_system):
            yield RowList(group, name, by_system[name], ())
    if not_whole := [row for row in ranked if row.score.status != "ok"]:
        yield RowList(group, "partial or unscored", not_whole, ())


def _to_exchange(found: Sequence[ScoreGroup]) -> set[int]:
    """Scores, by identity, whose exchanges are shown: where there are too many, those that are not whole, then the
    lowest and the highest by turns."""
    chosen: dict[int, None] = {}
    ranked = [sorted(group.rows, key=lambda row: best_first(row.score)) for group in found]
    whole = [[row.score for row in rows if row.score.status == "ok"] for rows in ranked]
    for row in chain.from_iterable(ranked):
        if row.score.status != "ok":
            chosen[id(row.score)] = None
    for depth in range(max(map(len, whole), default=0)):
        if len(chosen) >= MOST_EXCHANGES:
            break
        for scores in whole:
            if depth < len(scores):
                chosen[id(scores[depth])] = None
                chosen[id(scores[-1 - depth])] = None
    return set(list(chosen)[:MOST_EXCHANGES])


def _better(row: ScoreRow) -> list[float]:
    """P(better) against each rung that has a verdict, worst first; the mean of both orders."""
    by_level = mean_verdicts(row.score.verdicts)
    return [better for better, _, _ in by_level.values()]


# ------------------------------------------------------------------------------------------------- files


def rows_folder(page: str | os.PathLike[str]) -> Path:
    """Where the pages of a report's rows go: report.html -> report-rows/, beside it.

    raises : InputError where that, or the folder that they are in until they are whole, holds anything else
    """
    folder = Path(page).with_name(f"{Path(page).stem}-rows")
    for place in (folder, _partial(folder)):
        _require_pages(place)
    return folder


def _partial(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.partial")


def _require_pages(folder: Path) -> None:
    """raises : InputError where the folder is there and is none of pages alone"""
    if not folder.exists() and not folder.is_symlink():
        return
    if folder.is_symlink() or not folder.is_dir():
        what = "it is no folder"
    else:
        names = sorted(path.name for path in folder.iterdir())
        others = [name for name in names if not _PAGE.fullmatch(name)]
        what = f"it holds {others[0]!r}, which no report wrote" if others else ""
    if what:
        raise InputError(
            f"cannot write pages of rows to {folder}: {what}. Expected a folder of such pages alone, or none yet. Name "
            "another --output",
            field="paths",
            value=str(folder),
        )


def write_pages(folder: Path, pages: Iterable[tuple[str, str]]) -> int:
    """A folder with these pages alone, once they are all there; until then they are in FOLDER.partial. How many bytes.

    raises : InputError where either folder holds anything else
    """
    partial = _partial(folder)
    for place in (partial, folder):
        _require_pages(place)
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir(parents=True)
    n_bytes = 0
    for name, html in pages:
        n_bytes += (partial / name).write_bytes(html.encode("utf-8", "backslashreplace"))
    if folder.exists():
        shutil.rmtree(folder)
    partial.rename(folder)
    return n_bytes
