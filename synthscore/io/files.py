"""Rows of any source, files, folders, pipes and mappings, in batches; and the texts to judge that they hold.

A row that cannot be read is handed on as an `InputError` between its good neighbours; only what makes a whole source
unusable (missing, wrong encoding, no such format) is raised. `read_items` is the one reader of texts to judge: the
command line, Python, other tools' mounts and `evaluate` all use it, so that a row is the same text with the same id, or
fails for the same reason, whichever way it comes in.
"""

from __future__ import annotations

import heapq
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..errors import InputError
from ..signature import text_hash
from ..types import Target
from .fields import Item, Row, RowBatch, make_batches, mappings, read_item, row_error
from .formats import find_format, list_formats, parquet_tables, read_jsonl, table_batches, unreadable

BATCH = 1024  # rows that are held at once

T = TypeVar("T")
Source = str | os.PathLike[str] | Iterable[Mapping[str, Any]]
"""A file, folder or pipe of rows; or rows: mappings, a pandas DataFrame, a datasets.Dataset."""

Wanted = Callable[[str], bool]
"""Whether the rows of a context are wanted, by its id."""


def good_rows(rows: Iterable[Row | InputError], errors: list[InputError]) -> Iterator[Row]:
    """The rows that could be read; why others could not goes to the errors."""
    for row in rows:
        if isinstance(row, InputError):
            errors.append(row)
        else:
            yield row


def each_row(rows: Iterable[Row], read: Callable[[Row], T], errors: list[InputError]) -> Iterator[T]:
    """What is read from each row; why others hold none goes to the errors."""
    for row in rows:
        try:
            yield read(row)
        except InputError as error:
            errors.append(error)


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
        return read_jsonl(name, size, encoding, fields)
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
            raise unreadable(name, f"the folder holds no rows, expected {list_formats('read')}")
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
    """Neighbouring rows as they were read, and the item of each."""

    read: RowBatch
    items: Sequence[Item]


def read_items(
    source: Source | Iterable[Target | Mapping[str, Any]],
    *,
    encoding: str = "utf-8",
    fields: Mapping[str, str] | None = None,
    limit: int | None = None,
    only: Wanted | None = None,
    size: int | None = None,
) -> Iterator[ItemBatch]:
    """Every row of a source, in its order, a batch at a time. The second row of one id and attribute is an error.

    source : a file, folder or "-"; or rows: Targets, mappings, a pandas DataFrame, a datasets.Dataset
    limit : only the rows of so many contexts (io.contexts.some_contexts), and those of which no context is known;
        their rows are then held at once
    only : of an item's `shard_key`, whether the row is wanted
    size : rows of a batch (default: BATCH)
    raises : InputError for a source that cannot be read at all
    """
    size = size or BATCH
    batches = _refuse_ids_given_twice(_read(source, encoding, fields, size))
    if only is not None:
        batches = _wanted(batches, only, size)
    if limit is not None:
        require_limit(limit)
        batches = _rebatched(_of_few_contexts(batches, limit), size)
    return batches


def list_items(source: Source | Iterable[Target | Mapping[str, Any]]) -> list[Item]:
    """As read_items, all of them at once. raises : as read_items"""
    return [item for batch in read_items(source) for item in batch.items]


def _read(source: Any, encoding: str, fields: Mapping[str, str] | None, size: int) -> Iterator[ItemBatch]:
    for batch in read_batches(source, size, encoding=encoding):
        yield ItemBatch(read=batch, items=[read_item(row, fields) for row in batch.rows])


def _refuse_ids_given_twice(batches: Iterator[ItemBatch]) -> Iterator[ItemBatch]:
    """Remembers a 64-bit hash of each id, and the number of its row, so that millions of rows need little memory."""
    first_rows: dict[int, int] = {}
    for batch in batches:
        items = list(batch.items)
        for index, item in enumerate(items):
            if isinstance(item.target, InputError):
                continue
            first = first_rows.setdefault(hash((item.attribute, item.id)), item.number)
            if first != item.number:
                items[index] = item._replace(target=_given_twice(batch.read.rows[index], item, first))
        yield ItemBatch(read=batch.read, items=items)


def _given_twice(row: Row | InputError, item: Item, first: int) -> InputError:
    assert isinstance(row, Row)
    seen = f"target id {item.id!r} was already used by row {first}"
    return row_error(row, "id", item.id, seen, "Give each target an id of its own in a column named id")


_Single = tuple[Item, Row | InputError, Sequence[str]]
"""An item, the row that it was read from, and the line of the file, if the file has lines."""


def _singles(batches: Iterable[ItemBatch]) -> Iterator[_Single]:
    for batch in batches:
        for index, item in enumerate(batch.items):
            yield item, batch.read.rows[index], batch.read.lines[index : index + 1]


def _rebatched(singles: Iterable[_Single], size: int) -> Iterator[ItemBatch]:
    singles = iter(singles)
    while chosen := list(itertools.islice(singles, size)):
        yield _make_batch(chosen)


def _make_batch(singles: Sequence[_Single], schema: Any = None) -> ItemBatch:
    rows = [row for _, row, _ in singles]
    lines = [line for _, _, own_line in singles for line in own_line]
    return ItemBatch(read=RowBatch(rows, lines, schema), items=[item for item, _, _ in singles])


def _wanted(batches: Iterable[ItemBatch], only: Wanted, size: int) -> Iterator[ItemBatch]:
    """The rows that are wanted, with their lines, in batches of `size` rows or some more.

    The last batch may have no rows: its schema still says which columns there are.
    """
    waiting: list[_Single] = []
    schema = None
    for batch in batches:
        schema = batch.read.schema
        waiting += [single for single in _singles([batch]) if only(single[0].shard_key)]
        if len(waiting) >= size:
            yield _make_batch(waiting, schema)
            waiting = []
    yield _make_batch(waiting, schema)


def _of_few_contexts(batches: Iterable[ItemBatch], limit: int) -> list[_Single]:
    """The rows of the contexts with the lowest hashes; rows of other contexts are let go as soon as that is known."""
    by_context: dict[str, list[_Single]] = {}
    highest: list[tuple[int, str]] = []  # a heap of the contexts kept, the one with the highest hash first
    let_go: set[str] = set()
    for single in _singles(batches):
        context_id = single[0].context_id
        if context_id in let_go:
            continue
        if context_id and context_id not in by_context:
            heapq.heappush(highest, (-int(text_hash(context_id), 16), context_id))
            if len(highest) > limit:
                _, gone = heapq.heappop(highest)
                by_context.pop(gone, None)
                let_go.add(gone)
                if gone == context_id:
                    continue
        by_context.setdefault(context_id, []).append(single)
    kept = [single for singles in by_context.values() for single in singles]
    return sorted(kept, key=lambda single: single[0].number)


def require_limit(limit: int) -> None:
    """raises : InputError for less than one context"""
    if limit < 1:
        raise InputError(f"cannot take {limit} contexts, expected 1 or more. Leave the limit out for all", value=limit)
