"""Every answer of every model, kept under the hash of its question, so that nothing is asked twice.

One SQLite file, in WAL mode: a killed process loses at most the batch that it was writing, and several processes may
use it at once. Knows nothing of what is asked; a question is whatever can change its answer.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from .engines.base import Engine, Progress
from .errors import StoreError
from .types import Generation, LabelLogProbs, Prompt, Rival, Sampling, Signature, text_hash

FORMAT = 1
_APPLICATION = 0x53594E53  # "SYNS": tells a store from any other SQLite file
_AT_ONCE = 500  # keys in one query
_BUSY_S = 60.0  # how long to wait for another process that writes


class Answer(NamedTuple):
    """One stored answer. key : sha256 of the question; kind : "labels" or "text"; value : JSON; engine : signature."""

    key: bytes
    kind: str
    value: Any
    engine: str


def default_store_path() -> Path:
    """$SYNTHSCORE_STORE, or synthscore/answers.sqlite in the user's cache folder."""
    if path := os.environ.get("SYNTHSCORE_STORE"):
        return Path(path)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "synthscore" / "answers.sqlite"


class Store:
    """A file of answers.

    The first answer under a key stays: an answer is content-addressed, so a second one can only be the same.
    raises : StoreError. A corrupt file is renamed to <name>.corrupt-<time>, never mended or replaced in silence.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._lock = threading.Lock()
        self._file_id: tuple[int, int] | None = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(self.path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            message = f"cannot open the store {self.path}: {error}. Name another with --store or SYNTHSCORE_STORE"
            raise StoreError(message, path=self.path) from error
        try:
            with self._using():
                self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        status = self.path.stat()
        self._file_id = (status.st_dev, status.st_ino)
        # Tables before the mark: another process that creates the store right now sets both at once.
        (n_tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (application,) = self._db.execute("PRAGMA application_id").fetchone()
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if application != _APPLICATION and n_tables:
            message = f"{self.path} is a database of another program, expected a store. Name another file"
            raise StoreError(message, path=self.path)
        if version > FORMAT:
            message = f"{self.path} has format {version}, expected at most {FORMAT}. Install a newer synthscore"
            raise StoreError(message, path=self.path)
        self._db.text_factory = bytes  # values are ASCII; what is not shows as an error of JSON
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute("PRAGMA wal_autocheckpoint=16384")  # pages: fewer, larger copies into the file
        self._db.execute("PRAGMA cache_size=-65536")  # KiB: the keys are hashes, so each batch touches all of the tree
        if not n_tables:
            self._wal()
            with self._transaction():
                self._db.execute(
                    "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL,"
                    " engine TEXT NOT NULL, created_at INTEGER NOT NULL)"
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

    def get_many(self, keys: Iterable[bytes]) -> dict[bytes, Any]:
        """The values of those keys that are stored."""
        wanted = list(dict.fromkeys(keys))
        found: dict[bytes, Any] = {}
        with self._using():
            for start in range(0, len(wanted), _AT_ONCE):
                part = wanted[start : start + _AT_ONCE]
                query = f"SELECT key, value FROM answers WHERE key IN ({','.join('?' * len(part))})"
                for key, value in self._db.execute(query, part):
                    try:
                        found[key] = json.loads(value)
                    except ValueError as error:
                        raise sqlite3.DatabaseError(f"the answer {key.hex()} is not JSON") from error
        return found

    def put_many(self, answers: Iterable[Answer]) -> int:
        """Store answers in one transaction: all or none of them. How many were new."""
        now = int(time.time())
        return self._insert([(key, kind, json.dumps(value), engine, now) for key, kind, value, engine in answers])

    def _insert(self, rows: Sequence[tuple[Any, ...]]) -> int:
        with self._using(), self._transaction():
            before = self._db.total_changes
            text = "CAST(? AS TEXT)"  # rows of another store come as bytes
            self._db.executemany(
                f"INSERT INTO answers VALUES (?, {text}, {text}, {text}, ?) ON CONFLICT (key) DO NOTHING", rows
            )
            return self._db.total_changes - before

    def merge(self, other: str | os.PathLike[str]) -> int:
        """Take all answers of another store's file. How many were new."""
        path = Path(other)
        if not path.is_file():
            raise StoreError(f"cannot merge {path}: there is no such file. Check the path", path=path)
        n_new, last = 0, b""
        with Store(path) as source:
            while True:  # by key, so that neither store is locked for long, and an error names the file that has it
                with source._using():
                    query = "SELECT * FROM answers WHERE key > ? ORDER BY key LIMIT 10000"
                    rows = source._db.execute(query, (last,)).fetchall()
                if not rows:
                    return n_new
                n_new, last = n_new + self._insert(rows), rows[-1][0]

    def __len__(self) -> int:
        with self._using():
            (count,) = self._db.execute("SELECT count(*) FROM answers").fetchone()
        return int(count)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
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
                yield
            except sqlite3.Error as error:
                if type(error) is sqlite3.DatabaseError:  # "malformed", "not a database": not locked, not full
                    raise self._set_aside(error) from error
                message = (
                    f"cannot use the store {self.path}: {error}. Nothing stored is lost: see to the cause and run again"
                )
                raise StoreError(message, path=self.path) from error

    def _set_aside(self, error: sqlite3.Error) -> StoreError:
        self._db.close()
        aside = self.path.with_name(f"{self.path.name}.corrupt-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}")
        try:
            status = self.path.stat()
            if self._file_id == (status.st_dev, status.st_ino):  # else another process has set it aside already
                for suffix in ("", "-wal", "-shm"):
                    if Path(f"{self.path}{suffix}").exists():
                        os.replace(f"{self.path}{suffix}", f"{aside}{suffix}")
        except OSError as problem:
            message = f"the store {self.path} is corrupt ({error}) and cannot be renamed ({problem}). Move it away"
            return StoreError(message, path=self.path)
        message = f"the store {self.path} is corrupt ({error}); it is now {aside.name}. Run again to start a new one"
        return StoreError(message, path=self.path, set_aside=aside)


WRITE_BATCH = 16  # texts that are written before they are stored: a text costs as much as hundreds of verdicts


class StoredEngine:
    """An engine that is asked only what the store does not hold. Itself an Engine.

    Distinct questions that are missing go to the inner engine in the order given, `batch_size` at a time, and each
    batch is stored before the next is asked: a killed run resumes. Rows that failed are not stored.
    """

    def __init__(self, engine: Engine, store: Store, batch_size: int = 256) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected at least 1")
        self.engine, self.store, self.batch_size = engine, store, batch_size

    @property
    def signature(self) -> Signature:
        return self.engine.signature

    def label_log_probs(
        self, prompts: Sequence[Prompt], labels: Sequence[str], progress: Progress | None = None
    ) -> LabelLogProbs:
        """As the inner engine's; the token counts are of what was asked now."""
        labels, engine = tuple(labels), str(self.signature)
        keys = [_key("labels", engine, prompt, *labels) for prompt in prompts]
        failed: dict[bytes, str] = {}
        n_tokens = Counter[str]()

        def ask(rows: Sequence[int], told: Progress | None) -> dict[bytes, Any]:
            asked = self.engine.label_log_probs([prompts[row] for row in rows], labels, told)
            n_tokens.update(naive=asked.tokens_naive, computed=asked.tokens_computed)
            answers = {}
            for i, row in enumerate(rows):
                if i in asked.failures:
                    failed[keys[row]] = asked.failures[i]
                else:
                    rival = asked.rivals[i] if asked.rivals else None
                    said = None if rival is None else [rival.token, rival.log_prob]
                    answers[keys[row]] = {"log_probs": asked.log_probs[i].tolist(), "rival": said}
            return answers

        found = self._answers("labels", keys, ask, progress, self.batch_size)
        log_probs = np.full((len(keys), len(labels)), np.nan)
        rivals: list[Rival | None] = []
        for row, key in enumerate(keys):
            answer = found.get(key) or {}
            if answer:
                log_probs[row] = answer["log_probs"]
            rivals.append(Rival(*answer["rival"]) if answer.get("rival") else None)
        failures = {row: failed[key] for row, key in enumerate(keys) if key in failed}
        return LabelLogProbs(labels, log_probs, tuple(rivals), failures, n_tokens["naive"], n_tokens["computed"])

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int], progress: Progress | None = None
    ) -> list[Generation | Exception]:
        """As the inner engine's."""
        engine, how = str(self.signature), (sampling.max_new_tokens, sampling.temperature, sampling.top_p)
        keys = [
            _key("text", engine, prompt, *map(repr, how), str(seed))
            for prompt, seed in zip(prompts, seeds, strict=True)
        ]
        failed: dict[bytes, Exception] = {}

        def ask(rows: Sequence[int], told: Progress | None) -> dict[bytes, Any]:
            written = self.engine.generate([prompts[row] for row in rows], sampling, [seeds[row] for row in rows], told)
            answers = {}
            for row, text in zip(rows, written, strict=True):
                if isinstance(text, Generation):
                    answers[keys[row]] = [text.text, text.finish_reason, text.n_tokens]
                else:
                    failed[keys[row]] = text
            return answers

        found = self._answers("text", keys, ask, progress, min(self.batch_size, WRITE_BATCH))
        return [Generation(*found[key]) if key in found else failed[key] for key in keys]

    def _answers(
        self,
        kind: str,
        keys: Sequence[bytes],
        ask: Callable[[Sequence[int], Progress | None], Mapping[bytes, Any]],
        progress: Progress | None,
        batch_size: int,
    ) -> dict[bytes, Any]:
        """Stored answers, and those that `ask` gives for the first row of each missing key; failures have none."""
        found = self.store.get_many(keys)
        counts = Counter(keys)
        if progress and (n_stored := sum(counts[key] for key in found)):
            progress(n_stored)
        first: dict[bytes, int] = {}
        for row, key in enumerate(keys):
            if key not in found:
                first.setdefault(key, row)
        missing = list(first.values())
        engine = str(self.signature)
        for start in range(0, len(missing), batch_size):
            rows = missing[start : start + batch_size]
            answers = ask(rows, progress)
            self.store.put_many(Answer(key, kind, value, engine) for key, value in answers.items())
            found.update(answers)
            n_repeated = sum(counts[keys[row]] - 1 for row in rows)
            if progress and n_repeated:
                progress(n_repeated)
        return found


def _key(kind: str, engine: str, prompt: Prompt, *rest: str) -> bytes:
    return bytes.fromhex(text_hash(kind, engine, prompt.text, prompt.prefill, *rest))
