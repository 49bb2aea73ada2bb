"""What runs took: answers, seconds and tokens of one engine, a row a run and kind of question, beside its answers.

Older stores lack this table. They are read as if nothing were known, and get the table with the first answers that are
stored with their run.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable
from dataclasses import astuple
from typing import Any, NamedTuple

from ..types import Usage

_TABLE = (
    "CREATE TABLE IF NOT EXISTS runs (id BLOB NOT NULL, kind TEXT NOT NULL, engine TEXT NOT NULL,"
    " began_at INTEGER NOT NULL, seconds REAL NOT NULL, n_answers INTEGER NOT NULL, n_failed INTEGER NOT NULL,"
    " n_in INTEGER NOT NULL, n_computed INTEGER NOT NULL, n_out INTEGER NOT NULL, n_reasoning INTEGER NOT NULL,"
    " PRIMARY KEY (id, kind, engine)) WITHOUT ROWID"
)
_COLUMNS = "id, kind, engine, began_at, seconds, n_answers, n_failed, n_in, n_computed, n_out, n_reasoning"


class Spent(NamedTuple):
    """What questions took. seconds : of waiting for answers

    n_answers, n_failed : questions that were answered, and those that were not. one + other: of both
    """

    seconds: float = 0.0
    n_answers: int = 0
    n_failed: int = 0
    usage: Usage = Usage()

    @property
    def n_asked(self) -> int:
        return self.n_answers + self.n_failed

    def __add__(self, other: Spent) -> Spent:  # type: ignore[override]
        return Spent(
            seconds=self.seconds + other.seconds,
            n_answers=self.n_answers + other.n_answers,
            n_failed=self.n_failed + other.n_failed,
            usage=self.usage + other.usage,
        )


class EngineRun(NamedTuple):
    """What an engine was asked so far by one process, questions of one kind.

    id : of the run, at random. began_at : Unix time, seconds
    """

    id: bytes
    kind: str
    engine: str
    began_at: int
    spent: Spent = Spent()


def write_runs(db: sqlite3.Connection, runs: Iterable[EngineRun]) -> None:
    """Each run replaces its earlier row, if that counted fewer questions."""
    db.execute(_TABLE)
    db.executemany(
        f"INSERT INTO runs VALUES ({', '.join('?' * 11)}) ON CONFLICT (id, kind, engine) DO UPDATE SET"
        " seconds = excluded.seconds, n_answers = excluded.n_answers, n_failed = excluded.n_failed,"
        " n_in = excluded.n_in, n_computed = excluded.n_computed, n_out = excluded.n_out,"
        " n_reasoning = excluded.n_reasoning"
        " WHERE excluded.n_answers + excluded.n_failed >= n_answers + n_failed",
        [(*run[:4], *run.spent[:3], *astuple(run.spent.usage)) for run in runs],
    )


def read_runs(db: sqlite3.Connection) -> list[EngineRun]:
    """The oldest first, without those that are not what they should be."""
    if not db.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'runs'").fetchone():
        return []
    rows = db.execute(f"SELECT {_COLUMNS} FROM runs ORDER BY began_at, id").fetchall()
    return [run for row in rows if (run := _run_of(*row))]


def _run_of(id_: Any, kind: Any, engine: Any, began_at: Any, seconds: Any, *counts: Any) -> EngineRun | None:
    are_counts = all(isinstance(n, int) and n >= 0 for n in (began_at, *counts))
    if not are_counts or not isinstance(seconds, float) or not 0 <= seconds < math.inf or not isinstance(id_, bytes):
        return None
    try:
        kind, engine = kind.decode(), engine.decode()
    except (AttributeError, UnicodeDecodeError):
        return None
    n_answers, n_failed, *tokens = counts
    return EngineRun(id_, kind, engine, began_at, Spent(seconds, n_answers, n_failed, Usage(*tokens)))
