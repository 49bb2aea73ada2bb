"""Which row of a source used an id first, in memory that does not grow with the rows."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from ..errors import InputError

IdKey = tuple[str, str]
"""An attribute and an id of a row."""


class IdRegister:
    """The row that used each id first. The ids themselves are compared, so that no two are taken for one.

    The ids of the first batch are held in memory, since most sources have no other; those of more batches lie in a
    temporary database of SQLite's, which has no name and goes when it is closed.
    """

    def __init__(self) -> None:
        self._first_batch: Mapping[IdKey, int] | None = None
        self._db: sqlite3.Connection | None = None

    def first_rows(self, uses: Mapping[IdKey, int]) -> Mapping[IdKey, int]:
        """Of each of these ids the row that used it first, among these and all that were given before.

        uses : of one batch, each id and the row that used it first within the batch
        raises : InputError where the disk has no room for the ids
        """
        if self._first_batch is None:
            self._first_batch = uses
            return uses
        try:
            if self._db is None:
                self._db = _open_database()
                _add(self._db, self._first_batch)
                self._first_batch = {}
            if _add(self._db, uses) == len(uses):
                return uses
            query = "SELECT row FROM ids WHERE attribute = ? AND id = ?"
            return {key: self._db.execute(query, _encode(key)).fetchone()[0] for key in uses}
        except sqlite3.Error as error:
            raise InputError(
                f"cannot keep the ids of the rows in a temporary file: {error}. Make room there, or name another "
                "folder for temporary files with the environment variable TMPDIR"
            ) from error

    def close(self) -> None:
        if self._db is not None:
            self._db.close()


def _open_database() -> sqlite3.Connection:
    # Whoever reads rows may go on in another thread than that in which they began.
    db = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA cache_size=-2048")  # KiB
    db.execute("PRAGMA journal_mode=OFF")
    db.execute("CREATE TABLE ids (attribute BLOB, id BLOB, row INTEGER, PRIMARY KEY (attribute, id)) WITHOUT ROWID")
    return db


def _encode(key: IdKey) -> tuple[bytes, bytes]:
    attribute, id_ = key
    return attribute.encode("utf-8", "surrogatepass"), id_.encode("utf-8", "surrogatepass")


def _add(db: sqlite3.Connection, uses: Mapping[IdKey, int]) -> int:
    """Add the ids that are not there yet. Returns how many were not."""
    rows = ((*_encode(key), row) for key, row in uses.items())
    db.execute("BEGIN")
    n_new = db.executemany("INSERT OR IGNORE INTO ids VALUES (?, ?, ?)", rows).rowcount
    db.execute("COMMIT")
    return n_new
