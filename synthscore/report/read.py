"""A folder of results, or files by name -> Run: whatever is there, each file known by its columns. Knows no pages.

A broken row, or a file of the folder that cannot be read, is left out and named; the rest is read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError, SynthscoreError
from ..evaluation.ratings import Ratings
from ..io.fields import Row, read_item
from ..io.files import each_row, good_rows, read_rows
from ..io.formats import is_readable, split_gz
from ..io.scores import read_score
from ..ladders.references import References
from ..ladders.release import DATA
from ..signature import Signature
from ..types import Ladder, Score, Target, blank
from .agreement import Agreements, read_evaluation

EVALUATION = "evaluation.json"
Place = str | os.PathLike[str]


class ScoreRow(NamedTuple):
    """A row of a file of scores."""

    score: Score
    signature: Signature


class File(NamedTuple):
    """A file that was read: what it holds, how many rows, and how many could not be used."""

    name: str
    holds: str
    n_rows: int
    n_left_out: int = 0


@dataclass(slots=True)
class Run:
    """What a report is made of.

    scores : name of the file or method -> its rows. texts : id -> text. systems : id -> what wrote the text
    why : id and attribute -> the reason that a judge gave in words (`score --why`)
    evaluation : what `synthscore evaluate` found
    unused : files that hold nothing that a report shows. left_out : what could not be read, and why
    sides : the two runs that this one is made of
    """

    name: str
    scores: dict[str, list[ScoreRow]] = field(default_factory=dict)
    texts: dict[str, Target] = field(default_factory=dict)
    systems: dict[str, str] = field(default_factory=dict)
    why: dict[tuple[str, str], str] = field(default_factory=dict)
    references: References | None = None
    ratings: Ratings | None = None
    evaluation: Agreements | None = None
    files: list[File] = field(default_factory=list)
    unused: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    sides: tuple[Run, ...] = ()
    _shared: dict[tuple[str, str, str], Ladder | None] = field(default_factory=dict)

    @property
    def rows(self) -> Iterator[ScoreRow]:
        return chain.from_iterable(self.scores.values())

    def ladder(self, row: ScoreRow) -> Ladder | None:
        """The ladder that the text was scored on: of its signature's task, or, where that names none, the only one."""
        if self.references is None:
            return None
        context_id = row.score.context_id
        attribute = row.signature.part("attribute") or row.score.attribute
        task = row.signature.part("task")
        kind, _, shared = row.signature.part("ladder").partition("@")
        if kind == "shared":
            if (task, attribute, shared) not in self._shared:
                ladders = self.references.filter(task=task or None, attribute=attribute)
                found = (ladder for ladder in ladders if ladder.hash.startswith(shared))
                self._shared[task, attribute, shared] = next(found, None)
            return self._shared[task, attribute, shared]
        tasks = [task] if task else self.references.tasks
        tasks = [task for task in tasks if (task, context_id, attribute) in self.references]
        return self.references.find(context_id, attribute, tasks[0]) if len(tasks) == 1 else None


def read_run(
    source: Place,
    *,
    targets: Place | None = None,
    references: Place | None = None,
    human: Place | None = None,
) -> Run:
    """What is known of a run.

    source : a folder, or a file of scores. targets : texts. references : ladders. human : people's ratings.
    These three also where the folder holds none, or others
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
    if not (run.scores or run.evaluation):
        names = [*run.unused, *(file.name for file in run.files)]
        listing = f"seen: {', '.join(names) or 'nothing'}"
        first = f". What could not be read: {run.left_out[0]}" if run.left_out else ""
        raise InputError(
            f"cannot report on {source}: it holds no scores or evaluation ({listing}). Expected rows with the columns "
            f"score and status, as `synthscore score` writes them, or {EVALUATION}{first}",
            source=str(source),
        )
    return run


# ------------------------------------------------------------------------------------------------- files


def _read_folder(run: Run, folder: Path) -> None:
    """All files of the folder and of its folder scores/; targets first, so that their texts count, then scores."""
    paths = (*folder.iterdir(), *folder.glob("scores/*"))
    found = [path for path in paths if path.is_file()]
    first = {"targets": 0, "scores": 1}
    for path in sorted(found, key=lambda path: (first.get(path.stem, 2), str(path))):
        name = path.relative_to(folder).as_posix()
        try:
            if name == EVALUATION:
                run.evaluation = read_evaluation(folder)
                run.files.append(File(name, "agreement with people", 1))
            elif is_readable(path) and name != DATA and not name.startswith("."):
                _read_file(run, str(path), name)
        except InputError as error:
            run.left_out.append(str(error))


def _read_file(run: Run, source: str, name: str, kind: str = "") -> None:
    """Add what a file of rows holds. kind : what that is; "": as its first good row says"""
    errors: list[InputError] = []
    rows = good_rows(read_rows(source), errors)
    first = next(rows, None)
    kind = kind or (_kind(first.values) if first else "")
    if kind == "ratings":
        _read_ratings(run, source, name)
        return
    if kind:
        take = _take_scores if kind == "scores" else _take_texts
        n_taken = take(run, name, chain([first] if first else [], rows), errors)
        run.files.append(File(name, kind, n_taken, len(errors)))
    else:
        run.unused.append(name)
    run.left_out += map(str, errors)


def _kind(columns: Mapping[str, Any]) -> str:
    if {"score", "status"} <= columns.keys():
        return "scores"
    if any(column == "human" or column.startswith(("human.", "human_")) for column in columns):
        return "ratings"
    return "texts" if {"context_id", "text"} <= columns.keys() else ""


def _take_scores(run: Run, name: str, rows: Iterable[Row], errors: list[InputError]) -> int:
    """A row of `synthscore evaluate` says which method it is of; other rows are of the method that the file is."""
    bare, _ = split_gz(name)
    methods: dict[str, list[ScoreRow]] = {}
    for values, row in each_row(rows, lambda row: (row.values, ScoreRow(*read_score(row))), errors):
        methods.setdefault(str(values.get("method") or bare.stem), []).append(row)
        if isinstance(reason := values.get("why"), str):
            run.why[row.score.id, row.score.attribute] = reason
        _say_system(run, row.score.id, values.get("system"))
    for method, taken in methods.items():
        run.scores[method if method not in run.scores else f"{method} ({name})"] = taken
    return sum(map(len, methods.values()))


def _take_texts(run: Run, name: str, rows: Iterable[Row], errors: list[InputError]) -> int:
    n_taken, others = 0, []
    readable = (row for row in rows if "unreadable" not in row.values)  # `synthscore filter` says so of such rows
    for target in each_row(readable, lambda row: read_item(row).require_target(), errors):
        n_taken += 1
        _say_system(run, target.id, target.system)
        if run.texts.setdefault(target.id, target).text != target.text:
            others.append(target.id)
    if others:
        ids = ", ".join(map(repr, others[:3]))
        if len(others) > 3:
            ids += ", ..."
        problem = f"{len(others)} of its texts have an id under which another text was read: {ids}"
        run.left_out.append(f"{name}: {problem}. The one read first is shown")
    return n_taken


def _say_system(run: Run, text_id: str, system: object) -> None:
    if system:
        run.systems.setdefault(text_id, str(system))


def _read_ratings(run: Run, source: str, name: str) -> None:
    if run.ratings is not None:
        run.unused.append(name)
        return
    run.ratings = Ratings.load(source)
    for text in run.ratings:
        _say_system(run, text.id, text.system)
        if not blank(text.text):
            run.texts.setdefault(text.id, Target(text.id, text.context_id, text.text, text.system or None))
    run.files.append(File(name, "ratings by people", len(run.ratings), len(run.ratings.left_out)))
    run.left_out += run.ratings.left_out


def _find_references(run: Run, folder: Path) -> None:
    """The ladders of the folder that the scores' signatures name, or the first there are."""
    found = []
    for path in sorted((folder, *folder.iterdir())):
        if (path / DATA).exists():
            try:
                found.append((path.name, References.load(path)))
            except SynthscoreError as error:
                run.left_out.append(str(error))
    named = {row.signature.part("references") for row in run.rows}
    found.sort(key=lambda ladders: ladders[1].hash[:12] not in named)
    for name, references in found[:1]:
        run.references = references
        run.files.append(File(f"{name}/", "ladders", len(references)))
    run.unused += [f"{name}/" for name, _ in found[1:]]
