"""Every answer of every model, kept under the hash of its question, so that nothing is asked twice.

One SQLite file, in WAL mode: a killed process loses at most the batch that it was writing, and several processes may
use it at once. Answers lie in the batches in which they were written; a batch holds what its answers have in common,
and their questions, compressed together, so that answers can be looked at and asked again.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..engine import Question
from ..errors import StoreError, SynthscoreWarning
from .answers import Batch, BatchRows, Contents, Stored, batch_rows, crc, intact, to_row, unpack
from .database import FORMAT, Database
from .salvage import Salvaged, Wreck

MIN_BYTES = 1_000_000  # least bound on a store's size: below it, little more than the last batch would be kept
_AT_ONCE = 500  # keys in one query


class Store(Database):
    """A file of answers.

    The first answer under a key stays: an answer is content-addressed, so a second one can only be the same.

    path : None for $SYNTHSCORE_STORE, or synthscore/answers.sqlite in the user's cache folder
    create : make the file where there is none
    raises : StoreError. A file that SQLite cannot read is renamed to <name>.corrupt-<time>, never mended or replaced in
        silence; `salvage` takes over what is good in it
    warns : of answers without their checksum, which count as missing and are replaced when they are stored again
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, create: bool = True) -> None:
        super().__init__(path, create=create)
        self._db.create_function("intact", 5, intact, deterministic=True)
        self._damaged: set[tuple[int, int]] = set()  # batch and place of answers without their checksum, as far as met

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, Any]:
        """The values of those keys that are stored. warns : of answers without their checksum, which are left out"""
        wanted = list(dict.fromkeys(keys))
        found: dict[bytes, Any] = {}
        damaged: list[tuple[int, int]] = []
        with self._using():
            for start in range(0, len(wanted), _AT_ONCE):
                part = wanted[start : start + _AT_ONCE]
                query = (
                    f"SELECT batch, place, key, value, checksum FROM answers WHERE key IN ({','.join('?' * len(part))})"
                )
                for row in self._db.execute(query, part):
                    if intact(*row):
                        found[row[2]] = json.loads(row[3].decode())  # of bytes, json guesses the encoding each time
                    else:
                        damaged.append(row[:2])
        self._warn_of(damaged)
        return found

    def put_many(self, answers: Iterable[Stored]) -> int:
        """Store answers in one transaction: all or none of them. How many were new."""
        groups: dict[tuple[str, str, bool], list[Stored]] = {}
        for answer in answers:
            groups.setdefault((answer.kind, answer.engine, answer.question is None), []).append(answer)
        if not groups:
            return 0
        now = int(time.time())
        return self._write([batch_rows(kind, engine, now, group) for (kind, engine, _), group in groups.items()])

    def _write(self, batches: Iterable[BatchRows]) -> int:
        n_new, damaged = 0, tuple(self._damaged)
        with self._using(), self._transaction():
            # Damaged answers that no other process has replaced would keep their keys from being stored again. They go
            # only when answers are written: who only reads changes nothing.
            self._db.executemany(
                "DELETE FROM answers WHERE batch = ? AND place = ?"
                " AND NOT intact(batch, place, key, CAST(value AS BLOB), checksum)",
                damaged,
            )
            for batch in batches:
                common = (batch.kind, batch.engine, batch.created_at, batch.questions)
                id_ = self._db.execute("INSERT INTO batches VALUES (NULL, ?, ?, ?, ?)", common).lastrowid or 0
                n_inserted = self._db.executemany(
                    "INSERT INTO answers VALUES (?, ?, ?, ?, ?) ON CONFLICT (key) DO NOTHING",
                    [(id_, *row, crc(id_, *row[:2], row[2].encode())) for row in batch.rows],
                ).rowcount
                if not n_inserted:
                    self._db.execute("DELETE FROM batches WHERE id = ?", (id_,))
                n_new += n_inserted
        self._damaged.difference_update(damaged)
        return n_new

    def _warn_of(self, damaged: Iterable[tuple[int, int]]) -> None:
        if new := set(damaged) - self._damaged:
            self._damaged |= new
            warnings.warn(
                f"{len(new)} {'answer' if len(new) == 1 else 'answers'} in the store {self.path} without the right "
                "checksum: damaged on disk, they count as missing until they are asked again. The others are good. "
                "Copy the file to a disk that is sound",
                SynthscoreWarning,
                stacklevel=3,
            )

    def batches(self) -> list[Batch]:
        """All batches, in the order in which they came into this file."""
        with self._using():
            rows = self._db.execute(
                "SELECT id, kind, engine, created_at, n, questions IS NOT NULL FROM"
                " (SELECT batch, count(*) AS n FROM answers GROUP BY batch) JOIN batches ON id = batch ORDER BY id"
            ).fetchall()
            return [Batch(i, kind.decode(), engine.decode(), at, n, bool(q)) for i, kind, engine, at, n, q in rows]

    def contents(self) -> list[Contents]:
        """What is stored, by engine and kind, in the order in which each came."""
        with self._using():
            rows = self._db.execute(
                "SELECT kind, engine, count(*), sum(questions IS NOT NULL), min(created_at), max(created_at)"
                " FROM answers JOIN batches ON id = batch GROUP BY kind, engine ORDER BY min(id)"
            ).fetchall()
            return [Contents(kind.decode(), engine.decode(), *counts) for kind, engine, *counts in rows]

    def rows(self, engine: str = "", kind: str | None = None) -> Iterator[dict[str, Any]]:
        """Answers with their questions as rows of JSON. engine : part of a signature"""
        for batch in self.batches():
            if engine in batch.engine and kind in (None, batch.kind):
                yield from (to_row(answer, batch.created_at) for answer in self.read(batch))

    def read(self, batch: Batch) -> list[Stored]:
        """The answers of a batch, with their questions where they are kept; none if it has gone in the meantime.

        warns : of answers without their checksum, which are left out, and of questions that cannot be read
        """
        raw = self._read(batch.id)
        if raw is None:
            return []
        questions = self._questions(batch.id, raw)
        return [
            Stored(key, raw.kind, json.loads(value), raw.engine, questions.get(place)) for place, key, value in raw.rows
        ]

    def _questions(self, batch: int, raw: BatchRows) -> dict[int, Question]:
        """By their answer's place; none where any is missing, because then they may be those of other answers."""
        if raw.questions is None:
            return {}
        try:
            questions = dict(enumerate(unpack(raw.questions)))
            if all(place in questions for place, *_ in raw.rows):
                return questions
            error = "there are more answers than questions"
        except sqlite3.DatabaseError as problem:
            error = str(problem)
        warnings.warn(
            f"the {len(raw.rows)} answers of batch {batch} in the store {self.path} come without their questions, "
            f"which are damaged on disk: {error}. Copy the file to a disk that is sound",
            SynthscoreWarning,
            stacklevel=3,
        )
        return {}

    def merge(self, other: str | os.PathLike[str]) -> int:
        """Take all answers of another store's file, and their questions. How many were new."""
        with Store(other, create=False) as source:  # a batch at a time, so that neither store is locked for long
            found = (source._read(batch.id) for batch in source.batches())
            return sum(self._write([batch]) for batch in found if batch is not None)

    def salvage(self, damaged: str | os.PathLike[str]) -> Salvaged:
        """Take every good answer, by its checksum, of a damaged store's file, and the questions that can be read.

        damaged : of format 2, with the -wal beside it, if there is one; it stays as it is
        raises : StoreError where no good answer is in it
        """
        path = Path(damaged)
        if not path.is_file() or path.resolve() == self.path.resolve():
            why = "that is the store itself" if path.is_file() else "there is no such file"
            raise StoreError(f"cannot salvage {path}: {why}. Name the file that was set aside", path=path)
        wreck = Wreck(path)
        if not wreck.answers:
            message = f"cannot salvage {path}: its {path.stat().st_size} bytes hold no answer with a right checksum"
            raise StoreError(f"{message}, expected a store of format {FORMAT}. Ask the models again", path=path)
        n_answers = sum(map(len, wreck.answers.values()))
        n_new = sum(self._write([batch]) for batch in wreck.rows())
        return Salvaged(n_answers, n_new, len(wreck.lost), wreck.n_questions_lost)

    def _read(self, batch: int) -> BatchRows | None:
        """A batch as it is stored, without the answers that do not have their checksum."""
        with self._using():
            query = "SELECT batch, place, key, value, checksum FROM answers WHERE batch = ? ORDER BY place"
            rows = self._db.execute(query, (batch,)).fetchall()
            query = "SELECT kind, engine, created_at, questions FROM batches WHERE id = ?"
            if (found := self._db.execute(query, (batch,)).fetchone()) is None:
                return None
            kind, engine, created_at, questions = found
            kind, engine = kind.decode(), engine.decode()
        self._warn_of(row[:2] for row in rows if not intact(*row))
        kept = [(place, key, value.decode()) for _, place, key, value, _ in filter(lambda row: intact(*row), rows)]
        return BatchRows(kind, engine, created_at, questions, kept) if kept else None

    def __len__(self) -> int:
        with self._using():
            return self._pragma("SELECT count(*) FROM answers")

    # -------------------------------------------------------------------------------------------- size

    @property
    def size_bytes(self) -> int:
        """Of the file, once the WAL is in it."""
        with self._using():
            return self._pragma("PRAGMA page_count") * self._pragma("PRAGMA page_size")

    def prune(self, max_bytes: int) -> int:
        """Drop the oldest batches, and their questions, until the file takes at most max_bytes; the newest batch stays.

        Other processes may use the store meanwhile; what they look for may be gone. How many answers were dropped.
        """
        if max_bytes < MIN_BYTES:
            message = f"cannot keep the store {self.path} within {max_bytes} bytes: expected at least {MIN_BYTES}"
            raise StoreError(f"{message}. Name a larger bound", path=self.path, max_bytes=max_bytes)
        n_dropped = 0
        while True:
            with self._using(), self._transaction():
                pages = self._pragma("PRAGMA page_count") - self._pragma("PRAGMA freelist_count")
                n_batches = self._pragma("SELECT count(*) FROM batches")
                if pages * self._pragma("PRAGMA page_size") <= max_bytes or n_batches < 2:
                    break
                query = "SELECT id FROM batches ORDER BY created_at, id LIMIT ?"
                oldest = self._db.execute(query, (max(1, n_batches // 64),)).fetchall()
                n_dropped += self._db.executemany("DELETE FROM answers WHERE batch = ?", oldest).rowcount
                self._db.executemany("DELETE FROM batches WHERE id = ?", oldest)
        with self._using():
            while self._pragma("PRAGMA freelist_count"):  # some pages at a time, so that others can write between
                self._db.execute("PRAGMA incremental_vacuum(4096)").fetchall()
            self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # else the file shrinks some time later
        return n_dropped
