"""A folder of results, or files by name -> Run: whatever is there, each file known by its columns. Knows no pages.

A broken row, or a file of the folder that cannot be read, is left out and named; the rest is read.
"""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError, SynthscoreError
from ..evaluation.ratings.types import Ratings
from ..io.fields import Row, read_number, require_number, row_error, shorten
from ..io.files import read_rows
from ..io.nouns import target_from_row
from ..ladders.references import References
from ..ladders.release import DATA
from ..types import Target
from .calibration import CALIBRATION, Calibration, read_calibration
from .score_row import AGAIN, ScoreRow, score_row, word

SUFFIXES = (".jsonl", ".jsonl.gz", ".ndjson", ".csv", ".tsv", ".parquet")
EVALUATION = "evaluation.json"


class File(NamedTuple):
    """A file that was read: what it holds, how many rows, and how many could not be used."""

    name: str
    holds: str
    n_rows: int
    n_left_out: int = 0


class CurvePoint(NamedTuple):
    """Agreement of one method at one budget of calls, with the interval of its mean over draws."""

    method: str
    n_calls: int
    mean: float
    low: float
    high: float


@dataclass(slots=True)
class Run:
    """What a report is made of.

    scores : name of the file or method -> its rows. texts : id -> text. curves : name of the file -> points
    filtered : "kept", "dropped", "unsure" -> how many rows `synthscore filter` sorted there
    evaluation : as evaluation.json holds it
    unused : files that hold nothing that a report shows. left_out : what could not be read, and why
    """

    name: str
    scores: dict[str, list[ScoreRow]] = field(default_factory=dict)
    texts: dict[str, Target] = field(default_factory=dict)
    references: References | None = None
    ratings: Ratings | None = None
    evaluation: Mapping[str, Any] | None = None
    calibration: Calibration | None = None
    curves: dict[str, list[CurvePoint]] = field(default_factory=dict)
    filtered: Counter[str] = field(default_factory=Counter)
    files: list[File] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    @property
    def rows(self) -> Iterator[ScoreRow]:
        for rows in self.scores.values():
            yield from rows


def read_run(
    source: str | os.PathLike[str],
    *,
    targets: str | os.PathLike[str] | None = None,
    references: str | os.PathLike[str] | None = None,
    human: str | os.PathLike[str] | None = None,
) -> Run:
    """What is known of a run.

    source : a folder, or a file of scores. targets : texts. references : ladders. human : people's ratings; these
    three also where the folder holds none, or others
    raises : InputError where the source, or a file named here, cannot be read, or where nothing can be shown
    """
    path = Path(source)
    run = Run(path.resolve().name if path.is_dir() else path.name)
    if targets is not None:
        _read_file(run, str(targets), str(targets), "texts")
    if human is not None:
        _read_ratings(run, str(human), str(human))
    if path.is_dir():
        _read_folder(run, path)
    else:
        _read_file(run, str(source), "stdin" if str(source) == "-" else path.name)
    if references is not None:
        run.references = References.load(references)
        run.files.append(File(str(references), "ladders", len(run.references)))
    elif path.is_dir():
        _find_references(run, path)
    if not (run.scores or run.curves or run.evaluation):
        seen = f"seen: {', '.join(run.unused) or 'nothing'}"
        raise InputError(
            f"cannot report on {source}: it holds no scores, curve or evaluation ({seen}). Expected rows with the "
            f"columns score and status, as `synthscore score` writes them, or {EVALUATION}",
            source=str(source),
        )
    return run


# ------------------------------------------------------------------------------------------------- files


def _read_folder(run: Run, folder: Path) -> None:
    """All files of the folder and of its folder scores/; targets first, so that their texts count, then scores."""
    found = [path for path in (*folder.iterdir(), *folder.glob("scores/*")) if path.is_file()]
    first = ("scores", "targets")
    for path in sorted(found, key=lambda path: (-first.index(path.stem) if path.stem in first else 1, str(path))):
        name = path.relative_to(folder).as_posix()
        try:
            if name == EVALUATION:
                run.evaluation = _evaluation(path)
                run.files.append(File(name, "agreement with people", 1))
            elif name == CALIBRATION:
                run.calibration = read_calibration(path)
                run.files.append(File(name, "a certificate", 1))
            elif name.lower().endswith(SUFFIXES) and name != DATA and not name.startswith("."):
                _read_file(run, str(path), name)
        except InputError as error:
            run.left_out.append(str(error))


def _read_file(run: Run, source: str, name: str, kind: str = "") -> None:
    """Add what a file of rows holds. kind : what that is; "": as its first good row says"""
    rows = read_rows(source)
    ahead: list[Row | InputError] = []
    for row in rows:
        ahead.append(row)
        if isinstance(row, Row):
            kind = kind or _kind(name, row.values)
            break
    if kind == "ratings":
        _read_ratings(run, source, name)
    elif kind:
        errors: list[InputError] = []
        n_rows = _TAKE[kind](run, name, _good(chain(ahead, rows), errors), errors)
        run.files.append(File(name, kind, n_rows, len(errors)))
        run.left_out += map(str, errors)
    else:
        run.unused.append(name)
        run.left_out += [str(row) for row in ahead if isinstance(row, InputError)]


def _kind(name: str, columns: Mapping[str, Any]) -> str:
    if {"score", "status"} <= columns.keys():
        return "scores"
    if {"method", "n_calls", "mean"} <= columns.keys():
        return "curve"
    if any(column == "human" or column.startswith(("human.", "human_")) for column in columns):
        return "ratings"
    if "synthscore" in columns:
        return "dropped texts"
    if {"context_id", "text"} <= columns.keys():
        return "kept texts" if Path(name).name.startswith("kept") else "texts"
    return ""


def _good(rows: Iterable[Row | InputError], errors: list[InputError]) -> Iterator[Row]:
    for row in rows:
        if isinstance(row, InputError):
            errors.append(row)
        else:
            yield row


def _read_ratings(run: Run, source: str, name: str) -> None:
    from ..evaluation.ratings.read import read_ratings

    if run.ratings is not None:
        run.unused.append(name)
        return
    run.ratings = read_ratings(source)
    for text in run.ratings:
        if text.text.strip():
            run.texts.setdefault(text.id, Target(text.id, text.context_id, text.text, text.system or None))
    run.files.append(File(name, "ratings by people", len(run.ratings), len(run.ratings.left_out)))
    run.left_out += run.ratings.left_out


def _find_references(run: Run, folder: Path) -> None:
    """The ladders of the folder that the scores' signatures name, or the first there are."""
    found = []
    for path in sorted((folder, *(path for path in folder.iterdir() if path.is_dir()))):
        if (path / DATA).exists():
            try:
                found.append((path.name, References.load(path)))
            except SynthscoreError as error:
                run.left_out.append(str(error))
    named = {row.part("references") for row in run.rows}
    found.sort(key=lambda ladders: ladders[1].hash[:12] not in named)
    for place, (name, references) in enumerate(found):
        if place == 0:
            run.references = references
            run.files.append(File(f"{name}/", "ladders", len(references)))
        else:
            run.unused.append(f"{name}/")


def _evaluation(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        message = f"cannot read {path.name}: not JSON ({error}). Run `synthscore evaluate` again"
        raise InputError(message, source=str(path)) from error
    if not isinstance(found, dict):
        raise InputError(f"cannot read {path.name}: it is {shorten(found)}, expected an object", source=str(path))
    return found


# ------------------------------------------------------------------------------------------------- rows


def _take_scores(run: Run, name: str, rows: Iterable[Row], errors: list[InputError]) -> int:
    """A row of `synthscore evaluate` says which method it is of; other rows are of the method that the file is."""
    methods: dict[str, list[ScoreRow]] = {}
    for row in rows:
        try:
            methods.setdefault(word(row.values.get("method")) or _stem(name), []).append(score_row(row))
        except InputError as error:
            errors.append(error)
    for method, taken in methods.items():
        run.scores[method if method not in run.scores else f"{method} ({name})"] = taken
    return sum(map(len, methods.values()))


def _take_texts(run: Run, name: str, rows: Iterable[Row], errors: list[InputError]) -> int:
    n_taken, others = 0, []
    for row in rows:
        try:
            target = target_from_row(row)
        except InputError as error:
            errors.append(error)
            continue
        n_taken += 1
        if run.texts.setdefault(target.id, target).text != target.text:
            others.append(target.id)
    if others:
        ids = ", ".join(map(repr, others[:3])) + (", ..." if len(others) > 3 else "")
        seen = f"{len(others)} of its texts have an id under which another text was read: {ids}"
        run.left_out.append(f"{name}: {seen}. The one read first is shown")
    return n_taken


def _take_kept(run: Run, name: str, rows: Iterable[Row], errors: list[InputError]) -> int:
    n_taken = _take_texts(run, name, rows, errors)
    run.filtered["kept"] += n_taken
    return n_taken


def _take_dropped(run: Run, name: str, rows: Iterable[Row], errors: list[InputError]) -> int:
    def counted() -> Iterator[Row]:
        for row in rows:
            about = row.values.get("synthscore")
            try:
                about = json.loads(about) if isinstance(about, str) else about
                run.filtered[word(about["decision"])] += 1  # type: ignore[index]
            except (ValueError, TypeError, KeyError):
                seen = f"its synthscore is {shorten(about)}, expected a decision"
                errors.append(row_error(row, "synthscore", about, seen, AGAIN))
                continue
            if "unreadable" not in row.values:
                yield row

    return _take_texts(run, name, counted(), errors)


def _take_curve(run: Run, name: str, rows: Iterable[Row], errors: list[InputError]) -> int:
    points = []
    for row in rows:
        try:
            calls = require_number(row, "n_calls")
            numbers = [read_number(row, column) for column in ("mean", "low", "high")]
            mean, low, high = (math.nan if number is None else number for number in numbers)
            points.append(CurvePoint(word(row.values["method"]), int(calls), mean, low, high))
        except InputError as error:
            errors.append(error)
    run.curves[_stem(name) if _stem(name) not in run.curves else name] = points
    return len(points)


_TAKE = {
    "scores": _take_scores,
    "texts": _take_texts,
    "kept texts": _take_kept,
    "dropped texts": _take_dropped,
    "curve": _take_curve,
}


def _stem(name: str) -> str:
    return Path(name.removesuffix(".gz")).stem
