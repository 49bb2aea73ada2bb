"""Rows of any source -> items: the text to judge that each row holds, or the reason why it holds none. In batches.

This is the one reader of texts to judge. The command line, Python, other tools' mounts and `evaluate` all use it, so
that a row is the same text with the same id, or fails for the same reason, whichever way it comes in.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..errors import InputError
from ..signature import text_hash
from ..types import Target
from .contexts import require_limit
from .fields import Row, is_missing, make_row, read_target, recognised, row_error, row_number, target_names
from .files import BATCH, Source, read_batches
from .formats import RowBatch

Wanted = Callable[[str], bool]
"""Whether the rows of a context are wanted, by its id."""


class Item(NamedTuple):
    """One row of the input: the text that it holds to be judged, or the error that says why it holds none.

    number : of the row in its source, from 1
    id, context_id : of the text, as far as the row says them; else "row 7" and ""
    task, attribute, context : what the columns of these names say, or ""
    names_context : whether the row itself says its context's id, so that the id is not one made from a text
    """

    number: int
    target: Target | InputError
    id: str
    context_id: str = ""
    task: str = ""
    attribute: str = ""
    context: str = ""
    names_context: bool = True

    @property
    def shard_key(self) -> str:
        """What decides which shard the row belongs to: its context, or, where none is known, the row itself."""
        return self.context_id or f"row {self.number}"


@dataclass(frozen=True, slots=True)
class ItemBatch:
    """Neighbouring rows as they were read, and the item of each."""

    read: RowBatch
    items: Sequence[Item]


def read_item(row: Row | InputError, fields: Mapping[str, str] | None = None) -> Item:
    """The item of one row. fields : our name -> the row's own column"""
    if isinstance(row, InputError):
        number = row_number(row)
        return Item(number=number, target=row, id=f"row {number}")
    names: dict[str, Any] = {"id": f"row {row.number}", "context_id": ""}
    target: Target | InputError
    ours = make_row(row.number, row.values, row.source, fields) if fields else row
    try:
        assert isinstance(ours, Row)
        ours = recognised(ours)
        names = target_names(ours)
        target = read_target(ours, names)
    except InputError as error:
        target = error
    assert isinstance(ours, Row)
    return Item(
        number=row.number,
        target=target,
        id=names["id"],
        context_id=names["context_id"],
        task=_word(ours, "task"),
        attribute=_word(ours, "attribute"),
        context=_context(ours),
        names_context=ours.has("context_id"),
    )


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


def _word(row: Row, name: str) -> str:
    value = row.values.get(name)
    if isinstance(value, str):
        return value.strip()
    return "" if is_missing(value) else str(value)


def _context(row: Row) -> str:
    value = row.values.get("context")
    return value.strip() if isinstance(value, str) else ""
