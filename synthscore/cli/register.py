"""What a command reads and writes, by its options: nothing is written over what is read, or over another output.

Each option whose value is a string is in WRITTEN, READ or WORDS (words name no file). An option that is in none counts
as read, and a test fails until it is in one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError

LADDERS = ("ladders.parquet", "manifest.json", "README.md")
RUN = ("evaluation.json", "ratings.jsonl", "scores/*.jsonl")
ROWS = ("summarization", "targets", "others", "scores", "kept", "dropped", "others-scores")
FOLDERS: Mapping[str, tuple[str, ...]] = {
    "generate": LADDERS,
    "import_": LADDERS,
    "evaluate": RUN,
    "demo": (
        *(f"{rows}.jsonl" for rows in ROWS),
        "report.html",
        *(f"{folder}/{file}" for folder in ("ladders", "damaged") for file in LADDERS),
    ),
}
"""Functions of verbs whose --output is a folder -> what they replace in it, as patterns. A task in a folder of ladders
is not among it: it is written anew as it was read."""

_FOLDERS_OF = {("output", verb) for verb in FOLDERS}

FILES = ("output", "dropped", "unsure", "save_scale", "positions", "log_file", "questions_to")
STORES = ("store", "file")
WRITTEN = (*FILES, *STORES)
"""Options that name what is written. A store grows, and is not replaced."""

READ = (
    *("targets", "candidates", "scores", "texts", "source", "other", "answers", "parts", "damaged", "comparisons"),
    *("contexts", "findings", "human", "data", "labels", "questions", "attacks", "certificate", "scale", "price"),
    *("references", "ladders", "task", "prompts", "model", "tokenizer", "names"),
)
"""Options that name what is read: files, folders, "-" for stdin, models, FILE of recorded:FILE#PART or file:FILE."""

WORDS = (
    *("attribute", "ladder", "context", "context_id", "benchmark", "against", "method", "debias", "stderr", "by"),
    *("revision", "device", "date", "reasoning_effort", "encoding", "field", "separator", "guarantee", "engine"),
    *("served_as", "allow_unscored", "title"),
)
"""Options whose values name no file, whatever there is of that name."""

_LADDERS_OF = ("references", "ladders")
"""Options that name a folder of ladders, in which nothing else is read."""


def require_outputs_apart(verb: str, options: Mapping[str, Any]) -> None:
    """Before anything is opened. verb : the function's name. options : its arguments by name, as they were given

    raises : InputError where what would be written is read by the command, written by it twice, or lies in a folder
        that it reads
    """
    values = [(name, value) for name, value in _values(options) if isinstance(value, str) and value]
    written = [(name, value) for name, value in values if name in WRITTEN]
    if not written:
        return
    from ..io.write import require_apart

    for name, value in written:
        if name in FILES and (name, verb) not in _FOLDERS_OF and os.path.isdir(value):
            problem = f"{_typed(name)} is {value!r}, a folder, expected a file. Name a file in it"
            raise InputError(problem, field=_typed(name), value=value)
    outputs = [(_typed(name), path) for name, value in written for path in _replaced(verb, name, value)]
    require_apart(outputs, [*_all_read(values), *_stores(values)], growing=[*map(_typed, STORES)])


def _values(options: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Each value by its option; groups of options and lists taken apart."""
    for name, value in options.items():
        if is_dataclass(value):
            yield from _values({field.name: getattr(value, field.name) for field in fields(value)})
        elif isinstance(value, list | tuple):
            yield from ((name, one) for one in value)
        else:
            yield name, value


def _typed(name: str) -> str:
    """The option as it is typed, without its hyphens."""
    return {"file": "store", "names": "methods"}.get(name, name.replace("_", "-"))


def _replaced(verb: str, name: str, value: str) -> Iterator[str]:
    """What is written for this value of an option. Of a folder, what is there now and what is always made."""
    yield value
    if value == "-":
        return
    if name == "questions_to":
        path = Path(value)
        yield f"{value}.manifest"
        yield from map(str, path.parent.glob(f"{path.stem}-[0-9]*{path.suffix}"))
    if name == "output" and verb in FOLDERS:
        yield from _in_folder(value, FOLDERS[verb])


def _in_folder(folder: str, patterns: tuple[str, ...]) -> Iterator[str]:
    for pattern in patterns:
        yield from map(str, Path(folder).glob(pattern)) if "*" in pattern else (os.path.join(folder, pattern),)


def _all_read(values: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """What is read, by its option."""
    for name, value in values:
        if name in WRITTEN or name in WORDS:
            continue
        for path in _paths(name, value):
            if name == "task" and os.path.isdir(path) and _is_of_package(path):
                continue
            if name in _LADDERS_OF and os.path.isdir(path):
                nested = tuple(f"*/{file}" for file in LADDERS)
                yield from ((_typed(name), file) for file in _in_folder(path, LADDERS + nested))
            else:
                yield _typed(name), path


def _is_of_package(task: str) -> bool:
    """Whether this is a task of the package, of which there happens to be a folder, too."""
    from ..judging.templates import task_names

    return task in task_names()


def _paths(name: str, value: str) -> Iterator[str]:
    """A value as a path; and those that may stand in it, as in recorded:FILE#PART and file:FILE."""
    yield value
    for part in value.split(",") if name in ("model", "names") else ():
        _, colon, rest = part.partition(":")
        if colon:
            yield rest
            yield rest.partition("#")[0]


def _stores(values: list[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The store that is used where none is named; and what SQLite keeps beside every store."""
    named = [("store", value) for name, value in values if name in STORES]
    if not named:
        from ..resources import default_store

        where = "SYNTHSCORE_STORE" if os.environ.get("SYNTHSCORE_STORE") else "the store in your cache"
        named = [(where, str(default_store()))]
        yield from named
    recorded = [path for name, value in values if name == "model" for path in _paths(name, value)]
    for store, path in (*named, *(("model", path) for path in recorded)):
        yield from ((store, f"{path}{end}") for end in ("-wal", "-shm"))
