"""The file below a store: one SQLite database in WAL mode, opened, made, or set aside.

Several threads and processes may use it at once. Knows nothing of what its rows mean.
"""

from __future__ import annotations

import os
import shlex
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from ..errors import StoreError
from ..resources import cache_folder

D = TypeVar("D", bound="Database")

FORMAT = 2
_APPLICATION = 0x53594E53  # "SYNS": tells a store from any other SQLite file
_BUSY_S = 60.0  # how long to wait for another process that writes
_CHECKPOINT = 16384  # pages in the WAL before they go into the file: fewer, larger copies


class Database:
    """The file. path : None for $SYNTHSCORE_STORE, or synthscore/answers.sqlite in the user's cache folder

    create : make it where there is none
    raises : StoreError. A file that SQLite cannot read is renamed to <name>.corrupt-<time>
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, create: bool = True) -> None:
        path = path or os.environ.get("SYNTHSCORE_STORE") or cache_folder() / "answers.sqlite"
        self.path = Path(path).expanduser()
        self._lock = threading.Lock()
        self._file_id: tuple[int, int] | None = None
        if not create and not self.path.is_file():
            raise StoreError(f"cannot open the store {path}: there is no such file. Check the path", path=self.path)
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

    # -------------------------------------------------------------------------------------------- the file

    def _prepare(self) -> None:
        status = self.path.stat()
        self._file_id = (status.st_dev, status.st_ino)
        # Tables before the mark: another process that creates the store right now sets both at once.
        n_tables = self._pragma("SELECT count(*) FROM sqlite_master")
        application, version = self._pragma("PRAGMA application_id"), self._pragma("PRAGMA user_version")
        if application != _APPLICATION and n_tables:
            message = f"{self.path} is a database of another program, expected a store. Name another file"
            raise StoreError(message, path=self.path)
        if n_tables and version != FORMAT:
            remedy = "Install a newer synthscore" if version > FORMAT else "Name another file"
            message = f"cannot use the store {self.path}: it has format {version}, expected {FORMAT}. {remedy}"
            raise StoreError(message, path=self.path)
        self._db.text_factory = bytes  # what is not UTF-8 shows as a wrong checksum
        self._db.execute("PRAGMA synchronous=NORMAL")
        self._db.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT}")
        self._db.execute("PRAGMA cache_size=-65536")  # KiB: the keys are hashes, so each batch touches all of the tree
        if not n_tables:
            self._db.execute("PRAGMA auto_vacuum=INCREMENTAL")  # lets the file shrink a little at a time
            self._wal()
            with self._transaction():
                self._create()

    def _create(self) -> None:
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS batches (id INTEGER PRIMARY KEY, kind TEXT NOT NULL, engine TEXT NOT NULL,"
            " created_at INTEGER NOT NULL, questions BLOB)"
        )
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS answers (batch INTEGER NOT NULL, place INTEGER NOT NULL,"
            " key BLOB NOT NULL UNIQUE, value TEXT NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (batch, place))"
            " WITHOUT ROWID"
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

    # -------------------------------------------------------------------------------------------- SQLite

    def close(self) -> None:
        self._db.close()

    def __enter__(self: D) -> D:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _pragma(self, query: str) -> int:
        """The one number that a query gives."""
        (value,) = self._db.execute(query).fetchone()
        return int(value)

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
            except (sqlite3.Error, UnicodeDecodeError) as error:
                # "malformed", "not a database": not its subclasses, such as locked or full; but the tables are known
                broken = type(error) in (sqlite3.DatabaseError, UnicodeDecodeError)
                if broken or str(error).startswith(("no such ", "unsupported file format")):
                    raise self._set_aside(error) from error
                message = (
                    f"cannot use the store {self.path}: {error}. Nothing stored is lost: see to the cause and run again"
                )
                raise StoreError(message, path=self.path) from error

    def _set_aside(self, error: Exception) -> StoreError:
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
        message = (
            f"the store {self.path} is corrupt ({error}); it is now {aside.name}. Take its good answers into a new "
            f"one: synthscore store salvage {shlex.quote(str(aside))} -o {shlex.quote(str(self.path))}. Or run again "
            "to start from nothing"
        )
        return StoreError(message, path=self.path, set_aside=aside)
