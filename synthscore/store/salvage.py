"""What can still be read of a store's file that is damaged: its batches, their sound answers, and what runs took."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

from .packing import AnswerRow, value_of
from .runs import EngineRun, read_runs

SOUND_BATCH = (
    "(typeof(kind), typeof(engine), typeof(created_at)) = ('text', 'text', 'integer')"
    " AND created_at BETWEEN 0 AND 253402300799"  # the last second that a date can be of
)
"""A condition on rows of batches."""


class BatchRows(NamedTuple):
    """A batch as it is stored. rows : (place, key, value)."""

    kind: str
    engine: str
    created_at: int
    questions: bytes | None
    rows: list[tuple[int, bytes, str]]


def readable_parts(path: Path) -> Iterator[BatchRows | list[EngineRun]]:
    """The readable batches of a damaged file, then what runs took. A copy is read, because SQLite would change the
    file."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "damaged.sqlite"
        for suffix in ("", "-wal"):
            if Path(f"{path}{suffix}").exists():
                shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
        with closing(sqlite3.connect(copy)) as db:
            db.text_factory = bytes
            db.execute("PRAGMA writable_schema=ON")  # so that it opens a file that was cut off
            query = f"SELECT id, kind, engine, created_at FROM batches WHERE {SOUND_BATCH}"
            batches = {row[0]: row[1:] for row in _readable(db, query, "id")}
            for id_, (*names, created_at) in sorted(batches.items()):
                kind, engine = (name.decode(errors="replace") for name in names)
                query = f"SELECT batch, place, key, value, checksum FROM answers WHERE batch = {id_}"
                sound, _ = sound_rows(_readable(db, query, "place"))
                rows = sorted({row[0]: row for row in sound}.values())
                questions = next(_readable(db, f"SELECT questions FROM batches WHERE id = {id_}", "id"), (None,))[0]
                if rows:
                    yield BatchRows(kind, engine, created_at, questions, rows)
            with suppress(sqlite3.DatabaseError, UnicodeDecodeError):
                yield read_runs(db)


def sound_rows(rows: Iterable[AnswerRow]) -> tuple[list[tuple[int, bytes, str]], dict[AnswerRow, str]]:
    """Place, key and value of the rows whose checksum is right and whose value is JSON; and the others, with what is
    wrong."""
    sound: list[tuple[int, bytes, str]] = []
    damaged: dict[AnswerRow, str] = {}
    for row in rows:
        try:
            value_of(row)
            sound.append((row[1], row[2], row[3].decode()))
        except ValueError as error:
            damaged[row] = str(error)
    return sound, damaged


def _readable(db: sqlite3.Connection, query: str, order: str) -> Iterator[tuple[Any, ...]]:
    """The rows before the first page that SQLite cannot read, and those behind the last."""
    for direction in ("ASC", "DESC"):
        with suppress(sqlite3.DatabaseError):
            yield from db.execute(f"{query} ORDER BY {order} {direction}")
            return
