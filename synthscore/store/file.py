"""Every answer of every model, kept under the hash of its question, so that nothing is asked twice.

One SQLite file, in WAL mode: a killed process loses at most the batch that it was writing, and several processes may
use it at once. Answers lie in the batches in which they were written; a batch holds what its answers have in common,
and their questions, compressed together, so that answers can be looked at and asked again.
"""

from __future__ import annotations

import json
import os
import shlex
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..engine import Question
from ..errors import StoreError, SynthscoreWarning
from ..resources import default_store
from .forks import renew_after_fork
from .packing import AnswerRow, crc, pack, unpack, value_of
from .runs import EngineRun, read_runs, write_runs
from .salvage import SOUND_BATCH, BatchRows, readable_parts, sound_rows

FORMAT = 2
_AT_ONCE = 500  # keys in one query
_APPLICATION = 0x53594E53  # "SYNS": tells a store from any other SQLite file
_MAGIC = b"SQLite format 3\0"  # how each file of SQLite begins
_BUSY_S = 60.0  # how long to wait for another process that writes
_CHECKPOINT = 16384  # pages in the WAL before they go into the file: fewer, larger copies
_CACHE_KIB = 8192  # of pages: what a batch of keys touches, which are hashes. More pages give no speed

_LEFT_OPEN: list[sqlite3.Connection] = []
"""Connections of the process before a fork, which SQLite allows nobody to use or close here. Python closes what nothing
refers to."""

_JSON = json.JSONEncoder(separators=(",", ":"))


VERDICTS = "verdicts"
"""A kind of answers, which have no question: what those to questions came to for a whole text, on all rungs of its
ladder (store/engine.py: StoredVerdicts), so that a text is found again by one key."""


class Stored(NamedTuple):
    """An answer as it is stored. key : sha256 of the question; value : JSON; engine : signature; question : None where
    it was not kept."""

    key: bytes
    kind: str
    value: Any
    engine: str
    question: Question | None = None


class Batch(NamedTuple):
    """Answers of one kind and engine that were written together. created_at : Unix time, seconds."""

    id: int
    kind: str
    engine: str
    created_at: int
    n_answers: int
    has_questions: bool


class Store:
    """A file of answers.

    The first answer under a key stays: an answer is content-addressed, so a second one can only be the same.

    path : None for $SYNTHSCORE_STORE, or synthscore/answers.sqlite in the user's cache folder
    create : make the file where there is none
    read_only : the file or its folder cannot be written to: what it holds can be read, and nothing can be stored
    raises : StoreError. A file that SQLite cannot read is never mended or replaced silently; `salvage` copies its good
        answers into another
    warns : of answers without their checksum, which count as missing and are replaced when they are stored again
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, create: bool = True) -> None:
        self.path = Path(default_store() if path is None else path).expanduser()
        self._lock = threading.Lock()
        self._inherited = False  # the connection is that of the process from which this one was forked
        self._damaged: set[AnswerRow] = set()  # answers that count as missing, as far as met
        if path == "":
            raise self._error("cannot open the store '': it has no name. Name a file, or leave it out for your own")
        if self.path.is_dir():
            raise self._error(f"cannot open the store {self.path}: it is a folder. Name a file in it")
        if not create and not self.path.is_file():
            raise self._error(f"cannot open the store {self.path}: there is no such file. Check the path")
        writable = (os.access(place, os.W_OK) for place in (self.path, self.path.parent))
        self.read_only = self.path.is_file() and not all(writable)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = self._connect()
        except (OSError, sqlite3.Error) as error:
            message = f"cannot open the store {self.path}: {_cause(error)}"
            raise self._error(f"{message}. Name another with --store or SYNTHSCORE_STORE") from error
        try:
            with self._using():
                self._prepare()
        except BaseException:
            self._db.close()
            raise
        renew_after_fork(self)

    def begin_anew(self) -> None:
        """In a process that was forked: with a lock of its own, and a connection of its own when it is next used."""
        self._lock, self._inherited = threading.Lock(), True
        _LEFT_OPEN.append(self._db)

    def _connect(self) -> sqlite3.Connection:
        connect = partial(sqlite3.connect, timeout=_BUSY_S, isolation_level=None, check_same_thread=False, uri=True)
        uri = self.path.absolute().as_uri()
        db = connect(f"{uri}?mode=ro" if self.read_only else uri)
        if self.read_only:
            try:
                db.execute("PRAGMA schema_version").fetchone()
            except sqlite3.Error:  # it has to be told that no other process writes the -shm that cannot be made
                db.close()
                db = connect(f"{uri}?immutable=1")
        return db

    def require_writable(self, what: str = "") -> None:
        """raises : StoreError where it is read_only. what : of the store, which the message says"""
        if self.read_only:
            message = f"cannot write to the store {self.path}{what}: the file or its folder can only be read"
            raise self._error(f"{message}. Copy it to where it can be written, and name the copy")

    def _error(self, message: str) -> StoreError:
        return StoreError(message, path=self.path)

    def close(self) -> None:
        if not self._inherited:
            self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def get_many(self, keys: Iterable[bytes], read: Callable[[bytes, Any], Any] | None = None) -> dict[bytes, Any]:
        """The values of those keys that are stored.

        read : turns a key and its value into what is returned; its ValueError says why the value is not usable
        warns : of answers without their checksum, and of those that are not usable: they are left out
        """
        wanted = list(dict.fromkeys(keys))
        values: dict[bytes, Any] = {}
        damaged: dict[AnswerRow, str] = {}
        with self._using():
            for start in range(0, len(wanted), _AT_ONCE):
                part = wanted[start : start + _AT_ONCE]
                query = (
                    f"SELECT batch, place, key, value, checksum FROM answers WHERE key IN ({','.join('?' * len(part))})"
                )
                for row in self._db.execute(query, part):
                    try:
                        value = value_of(row)
                        values[row[2]] = value if read is None else read(row[2], value)
                    except ValueError as error:
                        damaged[row] = str(error)
        self._warn_of(damaged)
        return values

    def put_many(self, answers: Iterable[Stored], run: EngineRun | None = None) -> int:
        """Store answers in one transaction, all or none of them. Returns how many were new.

        run : that they come from, with all that it took so far
        """
        groups: dict[tuple[str, str, bool], list[Stored]] = {}
        for answer in answers:
            groups.setdefault((answer.kind, answer.engine, answer.question is None), []).append(answer)
        runs = [] if run is None else [run]
        if not groups and not runs:
            return 0
        now = int(time.time())
        batches = [batch_rows(kind, engine, now, group) for (kind, engine, _), group in groups.items()]
        return self._write(batches, runs)

    def _write(self, batches: Iterable[BatchRows], runs: Sequence[EngineRun] = ()) -> int:
        n_new, damaged = 0, tuple(self._damaged)
        with self._using(), self._transaction():
            # Damaged answers would keep their keys from being stored again, unless another process has replaced them.
            # They are removed only when answers are written, so that reading changes nothing.
            self._db.executemany(
                "DELETE FROM answers WHERE batch = ? AND place = ?"
                " AND CAST(key AS BLOB) IS CAST(? AS BLOB) AND CAST(value AS BLOB) IS CAST(? AS BLOB)"
                " AND checksum IS ?",
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
            if runs:
                write_runs(self._db, runs)
        self._damaged.difference_update(damaged)
        return n_new

    def _warn_of(self, damaged: Mapping[AnswerRow, str]) -> None:
        """damaged : and what is wrong with each that has its checksum; "" for those that have not"""
        new = {row: fault for row, fault in damaged.items() if row not in self._damaged}
        self._damaged |= new.keys()
        unusable = [fault for fault in new.values() if fault]
        if n_damaged := len(new) - len(unusable):
            self._warn(
                f"{_n_answers(n_damaged)} in the store {self.path} without the right checksum: damaged on disk, "
                "they count as missing until they are asked again. The others are good. "
                "Copy the file to a disk that is sound"
            )
        if unusable:
            self._warn(
                f"{_n_answers(len(unusable))} in the store {self.path} cannot be used and count as missing until they "
                f"are asked again; the first: {unusable[0]}. Take answers only from whom you trust"
            )

    def _warn(self, text: str) -> None:
        warnings.warn(text, SynthscoreWarning, stacklevel=4)

    def batches(self) -> list[Batch]:
        """All batches, in the order in which they came into this file."""
        with self._using():
            rows = self._db.execute(
                f"SELECT id, kind, engine, created_at, n, questions IS NOT NULL, {SOUND_BATCH} FROM"
                " (SELECT batch, count(*) AS n FROM answers GROUP BY batch) JOIN batches ON id = batch ORDER BY id"
            ).fetchall()
            if n_lost := sum(n_answers for *_, n_answers, _, is_sound in rows if not is_sound):
                self._warn(
                    f"{_n_answers(n_lost)} in the store {self.path} are left out: their batch has no kind, engine "
                    "or time that can be read. Copy the file to a disk that is sound"
                )
            batches = []
            for id_, kind, engine, created_at, n_answers, has_questions, is_sound in rows:
                if not is_sound:
                    continue
                batch = Batch(
                    id=id_,
                    kind=kind.decode(),
                    engine=engine.decode(),
                    created_at=created_at,
                    n_answers=n_answers,
                    has_questions=bool(has_questions),
                )
                batches.append(batch)
            return batches

    def runs(self) -> list[EngineRun]:
        """What runs took, the oldest first; none of a store that was made before they were kept."""
        with self._using():
            return read_runs(self._db)

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
        questions: dict[int, Question] = {}  # by their answer's place
        try:
            if raw.questions is not None:
                questions = dict(enumerate(unpack(raw.questions)))
                if not all(place in questions for place, *_ in raw.rows):
                    questions = {}  # They may belong to other answers.
                    raise sqlite3.DatabaseError("there are more answers than questions")
        except sqlite3.DatabaseError as error:
            warnings.warn(
                f"the {len(raw.rows)} answers of batch {batch.id} in the store {self.path} come without their "
                f"questions, which are damaged on disk: {error}. Copy the file to a disk that is sound",
                SynthscoreWarning,
                stacklevel=2,
            )
        return [
            Stored(key, raw.kind, json.loads(value), raw.engine, questions.get(place)) for place, key, value in raw.rows
        ]

    def merge(self, other: str | os.PathLike[str]) -> int:
        """Copy all answers of another store's file, their questions, and what runs took. Returns how many were new."""
        with Store(other, create=False) as source:  # a batch at a time, so that neither store is locked for long
            batches = (source._read(batch.id) for batch in source.batches())
            n_new = sum(self._write([batch]) for batch in batches if batch is not None)
            if runs := source.runs():
                self._write([], runs)
            return n_new

    def salvage(self, damaged: str | os.PathLike[str]) -> int:
        """Copy the answers of a damaged store's file that SQLite can read and whose checksum is right. Returns how many
        were new.

        damaged : with the -wal beside it, if there is one; it stays as it is
        raises : StoreError where no good answer is in it
        """
        path = Path(damaged)
        if not path.is_file() or path.resolve() == self.path.resolve():
            why = "there is no such file"
            if path.is_file():
                why = "that is the store itself"
            raise StoreError(f"cannot salvage {path}: {why}. Name the damaged file, and a new store", path=path)
        n_new: list[int] = []
        for part in readable_parts(path):
            if isinstance(part, BatchRows):
                n_new.append(self._write([part]))
            elif n_new:
                self._write([], part)
        if not n_new:
            message = f"cannot salvage {path}: SQLite reads no answer with a right checksum in it"
            raise StoreError(f"{message}, expected a store of format {FORMAT}. Ask the models again", path=path)
        return sum(n_new)

    def _read(self, batch: int) -> BatchRows | None:
        """A batch as it is stored, without the answers that do not have their checksum."""
        with self._using():
            query = "SELECT batch, place, key, value, checksum FROM answers WHERE batch = ? ORDER BY place"
            rows = self._db.execute(query, (batch,)).fetchall()
            query = f"SELECT kind, engine, created_at, questions FROM batches WHERE id = ? AND {SOUND_BATCH}"
            if (stored := self._db.execute(query, (batch,)).fetchone()) is None:
                return None
            kind, engine, created_at, questions = stored
        kept, damaged = sound_rows(rows)
        self._warn_of(damaged)
        if not kept:
            return None
        return BatchRows(kind.decode(), engine.decode(), created_at, questions, kept)

    def __len__(self) -> int:
        with self._using():
            return self._pragma("SELECT count(*) FROM answers")

    @property
    def size_bytes(self) -> int:
        """Of the file, once the WAL is in it."""
        with self._using():
            return self._pragma("PRAGMA page_count") * self._pragma("PRAGMA page_size")

    def _prepare(self) -> None:
        # Tables before the mark: another process that creates the store right now sets both at once.
        n_tables = self._pragma("SELECT count(*) FROM sqlite_master")
        application, version = self._pragma("PRAGMA application_id"), self._pragma("PRAGMA user_version")
        if application != _APPLICATION and n_tables:
            raise self._error(f"{self.path} is a database of another program, expected a store. Name another file")
        if n_tables and version != FORMAT:
            remedy = "Name another file"
            if version > FORMAT:
                remedy = "Install a newer synthscore"
            raise self._error(f"cannot use the store {self.path}: it has format {version}, expected {FORMAT}. {remedy}")
        self._db.text_factory = bytes  # what is not UTF-8 shows as a wrong checksum
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT}")
        self._db.execute(f"PRAGMA cache_size=-{_CACHE_KIB}")
        if not n_tables:
            self._wal()
            with self._transaction():
                self._db.execute(
                    "CREATE TABLE IF NOT EXISTS batches (id INTEGER PRIMARY KEY, kind TEXT NOT NULL,"
                    " engine TEXT NOT NULL, created_at INTEGER NOT NULL, questions BLOB)"
                )
                self._db.execute(
                    "CREATE TABLE IF NOT EXISTS answers (batch INTEGER NOT NULL, place INTEGER NOT NULL,"
                    " key BLOB NOT NULL UNIQUE, value TEXT NOT NULL, checksum INTEGER NOT NULL,"
                    " PRIMARY KEY (batch, place)) WITHOUT ROWID"
                )
                self._db.execute(f"PRAGMA application_id={_APPLICATION}")
                self._db.execute(f"PRAGMA user_version={FORMAT}")

    def _wal(self) -> None:
        """Switch to WAL. SQLite does not wait here for another process that does the same, so this does."""
        deadline = time.monotonic() + _BUSY_S
        while True:
            try:
                self._db.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)

    def _pragma(self, query: str) -> int:
        """The one number that a query gives."""
        (value,) = self._db.execute(query).fetchone()
        return int(value)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self.require_writable()
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            if self._db.in_transaction:  # a full disk has ended it already
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    @contextmanager
    def _using(self) -> Iterator[None]:
        """One thread at a time, and SQLite's errors as StoreErrors."""
        with self._lock:
            try:
                if self._inherited:
                    self._db, self._inherited = self._connect(), False
                    self._prepare()
                yield
            except (sqlite3.Error, UnicodeDecodeError) as error:
                # "malformed", "not a database": not its subclasses, such as locked or full; but the tables are known
                broken = type(error) in (sqlite3.DatabaseError, UnicodeDecodeError)
                if broken or str(error).startswith(("no such ", "unsupported file format")):
                    raise self._corrupt(error) from error
                remedy = "Nothing stored is lost. See to that, or name a store elsewhere, and run again"
                raise self._error(f"cannot use the store {self.path}: {_cause(error)}. {remedy}") from error

    def _corrupt(self, error: Exception) -> StoreError:
        self._db.close()
        with suppress(OSError), self.path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                message = f"{self.path} is no store: {error}. Name another file"
                return self._error(f"{message}; of a store whose first bytes are damaged nothing is left")
        old, new = (shlex.quote(f"{self.path}{end}") for end in ("", ".new"))
        return self._error(
            f"the store {self.path} is corrupt ({error}). Take its good answers into a new one, and name that: "
            f"synthscore store salvage {old} -o {new}. Or move it away, to start from nothing"
        )


_CAUSES = {
    "disk I/O error": "its disk is full, or failed to read or write",
    "database or disk is full": "its disk is full",
    "database is locked": f"another process has been writing to it for {_BUSY_S:.0f} s",
    "unable to open database file": "it, or its folder, cannot be opened or made",
    "attempt to write a readonly database": "it can only be read",
}
"""What SQLite calls a state of the disk or the file, in words that say where to look."""


def _cause(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return _CAUSES.get(str(error), str(error))


# ------------------------------------------------------------------------------------------------- rows of a store


def to_row(answer: Stored, created_at: int) -> dict[str, Any]:
    """An answer with its question as a row of JSON. The log-probability of an impossible label is the text "-inf",
    since JSON has no infinities."""
    question: dict[str, Any] | None = None
    if answer.question is not None:
        question = _question_row(answer.question)
    return {
        "key": answer.key.hex(),
        "kind": answer.kind,
        "engine": answer.engine,
        "created_at": utc(created_at),
        "question": question,
        "answer": json.loads(_JSON.encode(answer.value), parse_constant=lambda name: str(float(name))),
    }


def _question_row(question: Question) -> dict[str, Any]:
    row: dict[str, Any] = {"text": question.prompt.text, "prefill": question.prompt.prefill}
    sampling = question.sampling
    if question.continuation is not None:
        row["continuation"] = question.continuation
    elif sampling is None:
        row["labels"] = list(question.labels)
        if question.ordered:
            row["ordered"] = True
    else:
        row |= {name: getattr(sampling, name) for name in ("max_new_tokens", "temperature", "top_p")}
        row["seed"] = question.seed
        if sampling.stop:
            row["stop"] = list(sampling.stop)
        if question.labels:
            row["labels"] = list(question.labels)
    return row


def utc(seconds: int) -> str:
    """Unix time as 2026-01-31T23:59:59Z."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def batch_rows(kind: str, engine: str, created_at: int, answers: Sequence[Stored]) -> BatchRows:
    """The rows of answers that all have a question, or that all have none."""
    rows = [(place, answer.key, _JSON.encode(answer.value)) for place, answer in enumerate(answers)]
    questions = [answer.question for answer in answers if answer.question is not None]
    if not questions:
        return BatchRows(kind, engine, created_at, None, rows)
    return BatchRows(kind, engine, created_at, pack(questions), rows)


def _n_answers(n: int) -> str:
    return f"{n} {'answer' if n == 1 else 'answers'}"
