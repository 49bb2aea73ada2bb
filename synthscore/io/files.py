"""Rows of any source, files, folders, pipes and mappings, in batches; and the texts to judge that they hold.

A row that cannot be read is handed on as an `InputError` between its good neighbours; only what makes a whole source
unusable (missing, wrong encoding, no such format) is raised. `read_items` is the one reader of texts to judge: the
command line, Python, other tools' mounts and `evaluate` all use it, so that a row is the same text with the same id, or
fails for the same reason, whichever way it comes in.
"""

from __future__ import annotations

import itertools
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..errors import InputError
from ..signature import text_hash
from ..types import Target
from .assumed import ASSUMED
from .fields import Item, Row, RowBatch, make_batches, mappings, read_item, row_error, unreadable
from .formats import find_format, list_formats, parquet_tables, read_jsonl, table_batches

BATCH = 1024  # rows that are held at once

T = TypeVar("T")
Source = str | os.PathLike[str] | Iterable[Mapping[str, Any]]
"""A file, folder or pipe of rows; or rows: mappings, a pandas DataFrame, a datasets.Dataset."""

Wanted = Callable[[str], bool]
"""Whether the rows of a context are wanted, by its id."""


def each_row(rows: Iterable[Row | InputError], read: Callable[[Row], T], errors: list[InputError]) -> Iterator[T]:
    """What is read from each row; why others hold none, or could not be read, goes to the errors."""
    for row in rows:
        try:
            if isinstance(row, InputError):
                raise row
            yield read(row)
        except InputError as error:
            errors.append(error)


def good_rows(rows: Iterable[Row | InputError], errors: list[InputError]) -> Iterator[Row]:
    """The rows that could be read; why others could not goes to the errors."""
    return each_row(rows, lambda row: row, errors)


def read_rows(
    source: Source, *, encoding: str = "utf-8", fields: Mapping[str, str] | None = None
) -> Iterator[Row | InputError]:
    """The rows of a file, folder, pipe ("-") or iterable of mappings; a broken one as an InputError.

    fields : our name -> the source's column, where they differ: {"text": "summary"}
    raises : InputError for a source that cannot be used at all: missing, of no known format, or in another encoding.
    """
    batches = read_batches(source, BATCH, encoding=encoding, fields=fields)
    return itertools.chain.from_iterable(batch.rows for batch in batches)


def read_batches(
    source: Source, size: int, *, encoding: str = "utf-8", fields: Mapping[str, str] | None = None
) -> Iterator[RowBatch]:
    """The rows of `read_rows`, at most `size` at a time; where a batch begins follows from that alone."""
    fields = dict(fields or {})
    if not isinstance(source, str | os.PathLike):
        return make_batches(enumerate(mappings(source), 1), size, "rows", fields)
    path, name = Path(source), str(source)
    if name == "-":
        read = find_format(name, "read").read if ASSUMED.get().format else read_jsonl
        return read(name, size, encoding, fields)
    if not name:
        raise InputError("cannot read a file without a name. Check the variable that was to hold it", source=name)
    if not path.exists():
        raise unreadable(name, "there is no such file or folder. Check the path")
    if path.is_dir():
        return _folder_batches(path, size, name, fields)
    return find_format(name, "read").read(name, size, encoding, fields)


def _folder_batches(path: Path, size: int, name: str, fields: dict[str, str]) -> Iterator[RowBatch]:
    saved, splits = (path / "state.json").exists(), (path / "dataset_dict.json").exists()
    if not saved and not splits:
        files = sorted(path.rglob("*.parquet"))
        if not files:
            raise unreadable(name, f"the folder holds no rows, expected {list_formats('read')}. Name a file")
        batches = table_batches(parquet_tables(files, size), name, fields)
        return (RowBatch(batch.rows) for batch in batches)  # files may differ in their columns
    import datasets

    try:
        dataset: Any = datasets.load_from_disk(str(path))
    except Exception as error:  # many types, from two libraries
        raise unreadable(name, f"not a whole datasets folder ({error}). Make or download it again") from error
    if splits:
        if len(dataset) != 1:
            why = f"it holds the splits {', '.join(dataset)}. Name one: {path / min(dataset)}"
            raise unreadable(name, why, value=tuple(dataset))
        dataset = next(iter(dataset.values()))
    return table_batches(dataset.with_format("arrow").iter(size), name, fields)


# ------------------------------------------------------------------------------------------------- texts to judge


@dataclass(frozen=True, slots=True)
class ItemBatch:
    """Items of neighbouring rows, and the Arrow schema of a source whose columns have types."""

    items: Sequence[Item]
    schema: Any = None


def read_items(
    source: Source | Iterable[Target | Mapping[str, Any]],
    *,
    encoding: str = "utf-8",
    fields: Mapping[str, str] | None = None,
    limit: int | None = None,
    only: Wanted | None = None,
) -> Iterator[ItemBatch]:
    """Every row of a source, in its order, a batch at a time. The second row of one id and attribute is an error.

    source : a file, folder or "-"; or rows: Targets, mappings, a pandas DataFrame, a datasets.Dataset
    limit : only the rows of so many contexts (some_contexts), and those of which no context is known;
        their rows are then held at once
    only : of an item's `shard_key`, whether the row is wanted
    raises : InputError for a source that cannot be read at all
    """
    batches = _read_all(source, encoding, fields)
    if only is not None:
        batches = _wanted(batches, only)
    if limit is None:
        return batches
    some_contexts((), limit)  # or InputError, before anything is read
    return _rebatched(_of_few_contexts(itertools.chain.from_iterable(batch.items for batch in batches), limit))


def list_items(source: Source | Iterable[Target | Mapping[str, Any]]) -> list[Item]:
    """As read_items, all of them at once. raises : as read_items"""
    return [item for batch in read_items(source) for item in batch.items]


def _read_all(source: Any, encoding: str, fields: Mapping[str, str] | None) -> Iterator[ItemBatch]:
    with closing(IdRegister()) as register:
        for batch in read_batches(source, BATCH, encoding=encoding):
            items = [read_item(row, fields) for row in batch.rows]
            uses: dict[IdKey, int] = {}
            for item in items:
                if isinstance(item.target, Target):
                    uses.setdefault((item.attribute, item.id), item.number)
            first_rows = register.first_rows(uses)
            yield ItemBatch([_refuse_repeated(item, first_rows) for item in items], batch.schema)


def _refuse_repeated(item: Item, first_rows: Mapping[IdKey, int]) -> Item:
    """The item, or the error where another row used its id before. first_rows : the row that used each id first"""
    if isinstance(item.row, Row) and isinstance(item.target, Target):
        first = first_rows[item.attribute, item.id]
        if first != item.number:
            problem = f"target id {item.id!r} was already used by row {first}"
            remedy = "Give each target an id of its own in a column named id"
            return item._replace(target=row_error(item.row, "id", item.id, problem, remedy))
    return item


def _rebatched(items: Iterable[Item]) -> Iterator[ItemBatch]:
    items = iter(items)
    while chosen := list(itertools.islice(items, BATCH)):
        yield ItemBatch(chosen)


def _wanted(batches: Iterable[ItemBatch], only: Wanted) -> Iterator[ItemBatch]:
    """The rows that are wanted, in batches of BATCH rows or some more.

    The last batch may have no rows: its schema still says which columns there are.
    """
    waiting: list[Item] = []
    schema = None
    for batch in batches:
        schema = batch.schema
        waiting += [item for item in batch.items if only(item.shard_key)]
        if len(waiting) >= BATCH:
            yield ItemBatch(waiting, schema)
            waiting = []
    yield ItemBatch(waiting, schema)


def _of_few_contexts(items: Iterable[Item], limit: int) -> list[Item]:
    """The rows of `some_contexts`, in their order; those of twice as many contexts are held at a time."""
    by_context: dict[str, list[Item]] = {}
    for item in items:
        by_context.setdefault(item.context_id, []).append(item)
        if len(by_context) > 2 * limit:
            by_context = _fewest(by_context, limit)
    kept = itertools.chain.from_iterable(_fewest(by_context, limit).values())
    return sorted(kept, key=lambda item: item.number)


def _fewest(by_context: Mapping[str, list[Item]], limit: int) -> dict[str, list[Item]]:
    taken = some_contexts(filter(None, by_context), limit)
    return {name: items for name, items in by_context.items() if name in taken or not name}


def some_contexts(ids: Iterable[str], limit: int | None) -> frozenset[str]:
    """So many of these ids of contexts, or all: those with the lowest hashes. Whoever has the same contexts gets the
    same ones, in whatever order they come, and those of a lower limit are among them. raises : InputError below 1"""
    if limit is None:
        return frozenset(ids)
    if limit < 1:
        raise InputError(f"cannot take {limit} contexts, expected 1 or more. Leave the limit out for all", value=limit)
    return frozenset(sorted(set(ids), key=text_hash)[:limit])


# ------------------------------------------------------------------------------------------------- ids that come twice

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
