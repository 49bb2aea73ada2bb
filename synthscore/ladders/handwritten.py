"""Texts that a person wrote for ladders -> Ladders, marked as hand-written. Knows nothing of models.

A row is a whole ladder (`rungs`, a list, or `rung_1`, `rung_2`, ..., worst first) or one rung (`level` and `text`). A
folder holds a folder for each context, with context.txt and 1.txt (the worst), 2.txt, ...; those of several attributes
lie in a folder each, of its name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import InputError, LadderError, SynthscoreError, TaskError
from ..io.contexts import add_context, context_from_row
from ..io.fields import (
    Row,
    is_missing,
    read_id,
    read_list,
    read_text,
    recognised,
    require_column,
    require_number,
    row_error,
    shorten,
    target_names,
)
from ..io.files import Source, read_rows
from ..judging.templates import load_task
from ..signature import text_hash
from ..types import Context, Ladder, Rung, Task
from .references import References
from .release import Key

WRITER = "person"


def read_ladders(
    source: Source,
    *,
    task: str | None = None,
    attribute: str | None = None,
    contexts: Sequence[Context] = (),
    shared: bool = False,
    encoding: str = "utf-8",
    fields: Mapping[str, str] | None = None,
) -> tuple[References, list[SynthscoreError]]:
    """The ladders that rows or a folder hold, with their tasks, and why rows and ladders are left out.

    task, attribute : instead of what the rows say in columns of these names; a task is a name, or a folder
    contexts : of rows without their own
    shared : as Ladder's, of all of them
    raises : InputError for a source that cannot be read at all; TaskError for an unknown task or attribute
    """
    tasks: dict[str, Task] = {}
    if task:
        tasks[task] = load_task(task)
        if attribute:
            tasks[task].attribute(attribute)  # raises
    known = {context.id: context for context in contexts}
    texts: dict[Key, dict[int, str]] = defaultdict(dict)
    left_out: list[SynthscoreError] = []
    folder = isinstance(source, str | Path) and any(Path(source).glob("*/context.txt"))
    rows = _folder_rows(Path(str(source)), encoding) if folder else read_rows(source, encoding=encoding, fields=fields)
    for row in rows:
        try:
            if isinstance(row, InputError):
                raise row
            row = recognised(row)
            if row.has("writer") and row.values["writer"] != WRITER:
                problem = f"its writer is {shorten(row.values['writer'])}, so nobody wrote it by hand"
                remedy = "Ladders that are made are used as they are"
                raise row_error(row, "writer", row.values["writer"], problem, remedy)
            for name, given in (("task", task), ("attribute", attribute)):
                if not given:
                    require_column(row, name, f"Say it with --{name} NAME, or in such a column")
                elif row.has(name) and row.values[name] != given and name == "attribute":
                    problem = f"its attribute is {shorten(row.values[name])}, and --attribute is {given!r}"
                    raise row_error(row, name, row.values[name], problem, "Leave the option out, or mend the column")
            row_task = task or read_id(row, "task")
            row_attribute = attribute or read_id(row, "attribute")
            context_id, rungs = _texts(row)
            if row_task not in tasks:
                tasks[row_task] = load_task(row_task)
            key = (tasks[row_task].name, context_id, row_attribute)
            if row.has("context") or (row.has("text") and "level" not in row.values):
                add_context(known, row)
            if double := texts[key].keys() & rungs:
                problem = f"rung {min(double)} of ladder {'/'.join(key)} was already given"
                raise row_error(row, "level", min(double), problem, "Give each rung once")
            texts[key] |= rungs
        except (InputError, TaskError) as error:
            left_out.append(error)
    by_name = {known_task.name: known_task for known_task in tasks.values()}
    ladders = []
    for key, rungs in texts.items():
        try:
            ladder = _ladder(key, rungs, by_name[key[0]], known.get(key[1]))
            ladders.append(replace(ladder, shared=shared))
        except (LadderError, TaskError) as error:
            left_out.append(error)
    return References(ladders, str(source), by_name.values()), left_out


def _ladder(key: Key, texts: Mapping[int, str], task: Task, context: Context | None) -> Ladder:
    """raises : LadderError, TaskError"""
    _, context_id, attribute = key
    task.attribute(attribute)
    if context is None:
        raise LadderError(
            f"ladder {'/'.join(key)} lacks its context's text, which the judge is shown. Add a column context, or name "
            "the file of contexts: --contexts FILE",
            context_id=context_id,
        )
    provenance = {"writer": WRITER, "context_sha256": text_hash(context.text)}
    last = max(len(texts) - 1, 1)
    rungs = []
    for index, level in enumerate(sorted(texts)):
        fraction = min(index / last, 1.0)
        rungs.append(Rung(level=level, fraction=fraction, text=texts[level], provenance=provenance))
    return Ladder(
        context_id=context_id,
        task=task.name,
        attribute=attribute,
        rungs=tuple(rungs),
        context=context,
    )


def _texts(row: Row) -> tuple[str, dict[int, str]]:
    """The id of the row's context, and its texts by level."""
    if "level" in row.values:
        level = require_number(row, "level", "a whole number, 1 for the worst rung")
        if level < 1 or level % 1:
            problem = f"level is {shorten(row.values['level'])}, expected a whole number, 1 for the worst rung"
            raise row_error(row, "level", level, problem, "Number the rungs from the worst to the best")
        return target_names(row)["context_id"], {int(level): read_text(row, "text")}
    rungs = row.values.get("rungs")
    try:
        rungs = read_list(rungs)
    except ValueError as error:
        remedy = "Write it as JSON, or each rung into a column of its own: rung_1, rung_2, ..."
        raise row_error(row, "rungs", rungs, f"rungs is no list ({error})", remedy) from error
    if rungs is None:
        columns = {}
        for name in row.values:
            if match := re.fullmatch(r"rung_?(\d+)", str(name)):
                columns[int(match[1])] = name
        missing = [level for level in range(1, max(columns, default=0)) if level not in columns]
        if missing:
            names = ", ".join(columns[level] for level in sorted(columns))
            problem = f"there is no rung_{missing[0]}, but {names}"
            raise row_error(row, "rungs", None, problem, "Number the rungs from 1, without a gap")
        rungs = [row.values[columns[level]] for level in sorted(columns)]
        while rungs and is_missing(rungs[-1]):
            rungs.pop()
    if not isinstance(rungs, Sequence) or isinstance(rungs, str) or not rungs:
        remedy = (
            "Give them as a list in rungs, as rung_1, rung_2, ..., or as a row each with level and text; where "
            "columns have other names: --field rung_1=COLUMN --field rung_2=COLUMN --field context=COLUMN"
        )
        columns_there = ", ".join(repr(row.fields.get(name, name)) for name in row.values)
        raise row_error(row, "rungs", rungs, f"there are no rungs, but {columns_there}", remedy)
    name = "context_id" if row.has("context_id") or not row.has("id") else "id"
    if not {name, "text"} & row.values.keys():
        require_column(row, "context")
    context_id = read_id(row, "context_id", name) if name in row.values else context_from_row(row).id
    texts = {}
    for level, text in enumerate(rungs, 1):
        column = f"rung {level}"
        texts[level] = read_text(Row(row.number, {column: text}, row.source), column)
    return context_id, texts


def _folder_rows(folder: Path, encoding: str) -> Iterator[Row | InputError]:
    """A row a rung."""
    for number, file in enumerate(sorted(folder.glob("*/**/*.txt")), 1):
        context_id, *attribute, name = file.relative_to(folder).parts
        if name == "context.txt":
            continue
        try:
            if not file.stem.isdecimal() or len(attribute) > 1:
                message = f"{file}: expected FOLDER/CONTEXT/1.txt, or FOLDER/CONTEXT/ATTRIBUTE/1.txt. Rename it"
                raise InputError(message, source=str(file))
            values = {"context_id": context_id, "level": file.stem, "text": _read(file, encoding)}
            if (about := folder / context_id / "context.txt").exists():
                values["context"] = _read(about, encoding)
            if attribute:
                values["attribute"] = attribute[0]
            yield Row(number, values, str(folder))
        except InputError as error:
            yield error


def _read(file: Path, encoding: str) -> str:
    """raises : InputError"""
    try:
        return file.read_text(encoding=encoding).strip()
    except (OSError, ValueError, LookupError) as error:
        raise InputError(f"cannot read {file}: {error}. Name its encoding with --encoding", source=str(file)) from error
