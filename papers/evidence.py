"""What a ladder is worth: how far scores agree with people inside contexts and across them, on a text's own ladder, on
another context's and on one that all texts share, beside grades without any ladder. A table of figures, and of the
differences that answer the question; for whatever judges and ladders there are.

Ladders have a name by how they were made: damaged, curated, generated. Where there are generated ones, the texts are
those of the contexts that have them, unless all are wanted. What cannot be measured says why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from synthscore.engine import Answers, Engine, EngineAround, Progress, Question
from synthscore.errors import LadderError, SynthscoreError
from synthscore.evaluation.agreement import Agreement, Difference, agreement, difference, even_split
from synthscore.evaluation.methods import Tools, method
from synthscore.evaluation.methods.base import task_of
from synthscore.evaluation.ratings import Ratings
from synthscore.io.scores import Scores
from synthscore.io.write import plain
from synthscore.ladders.references import References
from synthscore.resources import resource
from synthscore.signature import text_hash
from synthscore.store.engine import store_of
from synthscore.store.file import Store, Stored
from synthscore.types import FloatArray, Ladder

CONFIDENCE = 0.9
"""Of the intervals of this table, over contexts."""

Rungs = Literal["own", "foreign", "shared"]
RUNGS: tuple[Rungs, ...] = ("own", "foreign", "shared")
FIGURES = {"inside": {"level": "per_context"}, "pooled": {"level": "pooled"}, "auc": {"level": "pooled"}}
"""Name -> at which level: Spearman's correlation inside contexts and over all texts, and AUC over all texts."""

ON_LADDERS = {
    "ladder": "ladder:both_orders=yes",
    "ladder, anchored": "ladder:scoring=anchored,both_orders=yes",
    "place": "place:orders=2",
}
"""Methods that compare texts with rungs: name in the table -> spec, without which rungs."""

GRADES = {"direct": "direct", "g-eval": "g-eval"}
FLOORS = {name: name for name in ("length", "overlap", "copied-span")}
METHODS = (*ON_LADDERS, *GRADES, *FLOORS)


@dataclass(frozen=True, slots=True)
class Row:
    """A way to score texts. judge : "" for floors. ladders, rungs : "" where the method uses none"""

    judge: str
    method: str
    ladders: str = ""
    rungs: Rungs | Literal[""] = ""

    @property
    def spec(self) -> str:
        """Of the method."""
        if not self.rungs:
            return (GRADES | FLOORS)[self.method]
        return f"{ON_LADDERS[self.method]},ladders={self.rungs}"


@dataclass(frozen=True, slots=True)
class Cell:
    """What a row gives on an attribute of a benchmark.

    inside, pooled, auc : with intervals at CONFIDENCE; None where nothing could be measured, and `missing` says why
    good_from : the least rating of a good text, for auc. n_texts, n_scored : rated, and scored of these
    questions : asked for a text. signature : of the scores
    """

    benchmark: str
    attribute: str
    row: Row
    inside: Agreement | None = None
    pooled: Agreement | None = None
    auc: Agreement | None = None
    good_from: float = np.nan
    n_texts: int = 0
    n_scored: int = 0
    n_contexts: int = 0
    questions: float = np.nan
    signature: str = ""
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Gap:
    """How much better a row agrees with people than another, over the texts that both score; fields as Cell's."""

    benchmark: str
    attribute: str
    row: Row
    other: Row
    inside: Difference
    pooled: Difference
    auc: Difference


@dataclass(frozen=True, slots=True)
class Evidence:
    """cells : one a row, attribute and benchmark. gaps : of rows with a text's own rungs, less the same row with
    others', and less the expected grade of the same judge. notes : what the texts and ladders are"""

    cells: tuple[Cell, ...]
    gaps: tuple[Gap, ...]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        def flat(noun: Cell | Gap) -> dict[str, Any]:
            return {name: plain(value) for name, value in asdict(noun).items()}

        return {
            "confidence": CONFIDENCE,
            "cells": [flat(cell) for cell in self.cells],
            "gaps": [flat(gap) for gap in self.gaps],
            "notes": list(self.notes),
        }


class Counted(EngineAround):
    """A judge that notes which questions it was asked. n_questions : so many, with repeated ones

    kinds : key of each question -> its kind
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.n_questions = 0
        self.kinds: dict[bytes, str] = {}

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        self.n_questions += len(questions)
        name = str(self.signature)
        self.kinds |= {question.key(name): question.kind for question in questions}
        return self.engine.answer(questions, progress)


# ------------------------------------------------------------------------------------------------- ladders


def curated(task: str) -> References:
    """The released ladders of a task that people and models wrote for other contexts than any benchmark's."""
    file = resource("data/references/curated") / task / "test.parquet"
    return References.load(file) if file.exists() else References()


def of_task(ladders: References, ratings: Ratings) -> References:
    """Those of the benchmark's task. A ladder that was released without its context's text gets it from there."""

    def completed(ladder: Ladder) -> Ladder:
        known = ratings.contexts.get(ladder.context_id)
        return ladder if ladder.context or known is None else replace(ladder, context=known)

    return References(map(completed, ladders.filter(task=task_name(ratings))), ladders.source)


def task_name(ratings: Ratings) -> str:
    task, _ = task_of(ratings, ratings.attributes[0])
    return task.name


def with_shared(ladders: References, attribute: str, context_id: str | None = None) -> References:
    """With one ladder of the attribute as the one that texts of all contexts are compared with.

    context_id : whose; None: of the ladders with all their rungs, the first by the hash of its context's id
    raises : LadderError where there is none
    """
    if context_id is None:
        whole = [ladder for ladder in ladders if ladder.attribute == attribute and len(ladder.usable) == ladder.n_rungs]
        if not whole:
            raise LadderError(f"{ladders.source} holds no whole ladder of {attribute}", attribute=attribute)
        context_id = min((ladder.context_id for ladder in whole), key=text_hash)
    return ladders.filter(attribute=attribute).share(context_id)


# ------------------------------------------------------------------------------------------------- measuring


@dataclass(slots=True)
class Measuring:
    """Texts of a benchmark, and what they are scored with.

    judges : name -> judge. sets : name -> ladders of the benchmark's task. shared : name of a set -> the context whose
    ladder is shared
    """

    ratings: Ratings
    judges: Mapping[str, Counted]
    sets: Mapping[str, References]
    shared: Mapping[str, str] = field(default_factory=dict)

    def rows(self, methods: Iterable[str]) -> Iterator[Row]:
        wanted = set(methods)
        for judge in self.judges:
            for ladders in self.sets:
                for rungs in RUNGS:
                    yield from (Row(judge, name, ladders, rungs) for name in ON_LADDERS if name in wanted)
            yield from (Row(judge, name) for name in GRADES if name in wanted)
        yield from (Row("", name) for name in FLOORS if name in wanted)

    def measure(self, row: Row, attribute: str) -> tuple[Cell, FloatArray | None]:
        """The cell, and the scores that it rests on; None where there are none."""
        human = self.ratings.human(attribute)
        good_from = even_split(human)
        empty = Cell(
            benchmark=self.ratings.name,
            attribute=attribute,
            row=row,
            good_from=good_from,
            n_texts=int((~np.isnan(human)).sum()),
            n_contexts=len(set(self.ratings.context_ids)),
        )
        judge = self.judges.get(row.judge)
        before = judge.n_questions if judge else 0
        try:
            scores = self._scores(row, attribute, judge)
        except SynthscoreError as error:
            return replace(empty, missing=" ".join(str(error).split())), None
        values = scores.values
        contexts = self.ratings.context_ids
        cell = replace(
            empty,
            inside=agreement(values, human, contexts, confidence=CONFIDENCE),
            pooled=agreement(values, human, contexts, level="pooled", confidence=CONFIDENCE),
            auc=agreement(values, human, contexts, level="pooled", good_from=good_from, confidence=CONFIDENCE),
            n_scored=int((~np.isnan(human) & ~np.isnan(values)).sum()),
            questions=(judge.n_questions - before) / len(self.ratings) if judge else 0.0,
            signature=str(scores.signature),
        )
        return cell, values

    def _scores(self, row: Row, attribute: str, judge: Counted | None) -> Scores:
        """raises : SynthscoreError where nothing can be scored"""
        ladders = None
        if row.rungs:
            ladders = self.sets[row.ladders]
            _, asked = task_of(self.ratings, attribute)
            ids = {ladder.context_id for ladder in ladders.filter(attribute=asked.name)}
            if not ids:
                raise LadderError(f"no {row.ladders} ladders of {asked.name}")
            if row.rungs == "own" and ids.isdisjoint(self.ratings.context_ids):
                raise LadderError(f"the {row.ladders} ladders are of other contexts than the benchmark's")
            if row.rungs == "shared":
                ladders = with_shared(ladders, asked.name, self.shared.get(row.ladders))
        return method(row.spec)(self.ratings, attribute, Tools(judge=judge, references=ladders))


def measure_all(
    measuring: Sequence[Measuring], attributes: Sequence[str] | None = None, methods: Iterable[str] = METHODS
) -> Evidence:
    """attributes : those of the benchmarks that are named so; None: all"""
    cells, gaps, notes = [], [], []
    methods = tuple(methods)
    for each in measuring:
        names = [name for name in each.ratings.attributes if attributes is None or name in attributes]
        notes += [f"{each.ratings.name}: {each.ratings.source}"]
        notes += [f"{each.ratings.name}, {name} ladders: {ladders.hash[:12]}" for name, ladders in each.sets.items()]
        for attribute in names:
            found = {row: each.measure(row, attribute) for row in each.rows(methods)}
            cells += [cell for cell, _ in found.values()]
            values = {row: scores for row, (_, scores) in found.items() if scores is not None}
            gaps += [_gap(each.ratings, attribute, *pair, values) for pair in _pairs(values)]
    return Evidence(tuple(cells), tuple(gaps), tuple(notes))


def _pairs(rows: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    """Which rows are compared: own rungs with others', and with a grade."""
    there = dict.fromkeys(rows)
    for row in there:
        if row.rungs == "own":
            others = (replace(row, rungs="foreign"), replace(row, rungs="shared"), Row(row.judge, "g-eval"))
            yield from ((row, other) for other in others if other in there)


def _gap(ratings: Ratings, attribute: str, row: Row, other: Row, values: Mapping[Row, FloatArray]) -> Gap:
    human, contexts = ratings.human(attribute), ratings.context_ids
    columns = values[row], values[other], human, contexts
    return Gap(
        benchmark=ratings.name,
        attribute=attribute,
        row=row,
        other=other,
        inside=difference(*columns, confidence=CONFIDENCE),
        pooled=difference(*columns, level="pooled", confidence=CONFIDENCE),
        auc=difference(*columns, level="pooled", good_from=even_split(human), confidence=CONFIDENCE),
    )


def save_answers(judges: Iterable[Counted], path: str | Path) -> int:
    """The answers that judges gave, without their questions, into a store of their own: from it the table is made again
    without asking, and no text of a benchmark is in it. How many were new."""
    n_new = 0
    with Store(path) as shared:
        for judge in judges:
            store = store_of(judge.engine)
            if store is None:
                continue
            name = str(judge.signature)
            values = store.get_many(judge.kinds)
            n_new += shared.put_many(Stored(key, judge.kinds[key], value, name) for key, value in values.items())
    return n_new


# ------------------------------------------------------------------------------------------------- printing


def to_markdown(evidence: Evidence) -> str:
    """For each benchmark a table of rows by attributes, and one of differences; why cells are empty stands below."""
    lines: list[str] = []
    for benchmark in dict.fromkeys(cell.benchmark for cell in evidence.cells):
        cells = [cell for cell in evidence.cells if cell.benchmark == benchmark]
        gaps = [gap for gap in evidence.gaps if gap.benchmark == benchmark]
        lines += [f"### {benchmark}", "", *_cells_table(cells), ""]
        if gaps:
            lines += [f"**{benchmark}: own rungs less ...**, [90 % interval over contexts]", "", *_gaps_table(gaps), ""]
    lines += [f"- {note}" for note in evidence.notes]
    return "\n".join(lines) + "\n"


def _cells_table(cells: Sequence[Cell]) -> Iterator[str]:
    attributes = {cell.attribute: cell.good_from for cell in cells}
    heads = [f"{name} (AUC: {good_from:.3g} or more)" for name, good_from in attributes.items()]
    yield f"| judge | method | ladders | rungs | questions a text | scored | {' | '.join(heads)} |"
    yield "|---|---|---|---|---:|---:|" + "---:|" * len(heads)
    by_row: dict[Row, dict[str, Cell]] = {}
    for cell in cells:
        by_row.setdefault(cell.row, {})[cell.attribute] = cell
    reasons: dict[str, int] = {}
    for row, by_attribute in by_row.items():
        shown = [_figures(by_attribute[name], reasons) for name in attributes]
        there = [cell for cell in by_attribute.values() if not cell.missing]
        questions = f"{np.mean([cell.questions for cell in there]):.3g}" if there and row.judge else "-"
        scored = f"{sum(c.n_scored for c in there) / sum(c.n_texts for c in there):.0%}" if there else "-"
        names = (row.judge or "none", row.method, row.ladders or "-", row.rungs or "-", questions, scored, *shown)
        yield f"| {' | '.join(names)} |"
    yield ""
    n_texts, n_contexts = max(cell.n_texts for cell in cells), max(cell.n_contexts for cell in cells)
    yield (
        f"{n_texts} texts of {n_contexts} contexts. Spearman inside contexts / pooled / AUC; "
        "each with its interval in the JSON"
    )
    if reasons:
        yield ""
        yield from (f"{number}. {reason}" for reason, number in reasons.items())


def _figures(cell: Cell, reasons: dict[str, int]) -> str:
    """reasons : why cells are empty -> number, which this adds to"""
    if cell.missing or cell.inside is None or cell.pooled is None or cell.auc is None:
        return f"- ({reasons.setdefault(cell.missing, len(reasons) + 1)})"
    return " / ".join(_number(figure.value) for figure in (cell.inside, cell.pooled, cell.auc))


def _gaps_table(gaps: Sequence[Gap]) -> Iterator[str]:
    yield "| judge | method | ladders | less | attribute | inside | pooled | AUC |"
    yield "|---|---|---|---|---|---:|---:|---:|"
    for gap in gaps:
        less = gap.other.rungs or gap.other.method
        shown = [_interval(figure) for figure in (gap.inside, gap.pooled, gap.auc)]
        yield f"| {' | '.join((gap.row.judge, gap.row.method, gap.row.ladders, less, gap.attribute, *shown))} |"


def _interval(figure: Difference) -> str:
    if figure.low is None or figure.high is None:
        return _number(figure.value)
    return f"{_number(figure.value, signed=True)} [{_number(figure.low)}, {_number(figure.high)}]"


def _number(value: float, *, signed: bool = False) -> str:
    if np.isnan(value):
        return "-"
    text = f"{value:+.2f}" if signed else f"{value:.2f}"
    return text.replace("0.", ".", 1)
