"""A damaged file of answers -> the batches in it that can still be read."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from .answers import BatchRows, intact


def readable_batches(path: Path) -> Iterator[BatchRows]:
    """What can be read of a damaged file, of a copy: SQLite would change it."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "damaged.sqlite"
        for suffix in ("", "-wal"):
            if Path(f"{path}{suffix}").exists():
                shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
        with closing(sqlite3.connect(copy)) as db:
            db.text_factory = bytes
            db.execute("PRAGMA writable_schema=ON")  # so that it opens a file that was cut off
            query = "SELECT id, kind, engine, created_at FROM batches"
            query += " WHERE (typeof(kind), typeof(engine), typeof(created_at)) = ('text', 'text', 'integer')"
            batches = {row[0]: row[1:] for row in _readable(db, query, "id")}
            for id_, (*names, created_at) in sorted(batches.items()):
                kind, engine = (name.decode(errors="replace") for name in names)
                query = f"SELECT place, key, value, checksum FROM answers WHERE batch = {id_}"
                found = {row[0]: row for row in _readable(db, query, "place") if intact(id_, *row)}
                rows = [(place, key, value.decode()) for _, (place, key, value, _) in sorted(found.items())]
                questions = next(_readable(db, f"SELECT questions FROM batches WHERE id = {id_}", "id"), (None,))[0]
                if rows:
                    yield BatchRows(kind, engine, created_at, questions, rows)


def _readable(db: sqlite3.Connection, query: str, order: str) -> Iterator[tuple[Any, ...]]:
    """The rows before the first page that SQLite cannot read, and those behind the last."""
    for direction in ("ASC", "DESC"):
        with suppress(sqlite3.DatabaseError):
            yield from db.execute(f"{query} ORDER BY {order} {direction}")
            return
