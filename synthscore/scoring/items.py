"""Rows -> items: the target of each, or why it holds none; every row, or those that are wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InputError
from ..io.contexts import of_some_contexts
from ..io.fields import Row, is_missing, make_row, read_target, recognised, row_error, row_number
from ..io.files import Source, read_rows
from ..types import Target, encodable


@dataclass(frozen=True, slots=True)
class Item:
    """One row of the input, and the target that it holds or the reason why it holds none.

    row : as it was read, under its own column names. task, attribute, context : what the row's columns of these names
    say, or ""
    """

    row: Row | InputError
    target: Target | InputError
    task: str = ""
    attribute: str = ""
    context: str = ""

    @property
    def known(self) -> Mapping[str, Any]:
        """What identifies the target, as far as the row says."""
        if isinstance(self.target, Target):
            return {"id": self.target.id, "context_id": self.target.context_id}
        return vars(self.target)


def read_item(row: Row | InputError, fields: Mapping[str, str] | None = None) -> Item:
    """fields : our name -> the row's own column"""
    ours = make_row(row.number, row.values, row.source, fields) if isinstance(row, Row) and fields else row
    try:
        if isinstance(ours, InputError):
            raise ours
        ours = recognised(ours)
    except InputError as error:
        return Item(row, error)
    target: Target | InputError
    try:
        target = read_target(ours)
    except InputError as error:
        target = error
    return Item(row, target, *(_word(ours, name) for name in ("task", "attribute", "context")))


def context_of(row: Row | InputError, fields: Mapping[str, str] | None = None) -> str:
    """The id of its context, as quickly as can be; of a row that names none, "row N", the same for whoever reads it."""
    value = row.values.get((fields or {}).get("context_id", "context_id")) if isinstance(row, Row) else None
    if isinstance(value, str) and value and encodable(value):
        return value
    return str(read_item(row, fields).known.get("context_id") or f"row {row_number(row)}")


def read_items(
    source: Source,
    *,
    encoding: str = "utf-8",
    fields: Mapping[str, str] | None = None,
    limit: int | None = None,
    only: Callable[[str], bool] | None = None,
) -> list[Item]:
    """Of every row, or those of some contexts (of_some_contexts); a second of one id (and attribute) is no target.

    only : whether the rows of a context, by its id as `context_of` reads it, are wanted
    """
    items: list[Item] = []
    rows: dict[tuple[str, str], int] = {}
    for row in read_rows(source, encoding=encoding):
        item = read_item(row, fields)
        if isinstance(item.target, Target) and isinstance(row, Row):
            first = rows.setdefault((item.target.id, item.attribute), row.number)
            if first != row.number:
                seen = f"target id {item.target.id!r} was already used by row {first}"
                remedy = "Give each target an id of its own in a column named id"
                error = row_error(row, "id", item.target.id, seen, remedy, **item.known)
                item = replace(item, target=error)
        items.append(item)
    if limit is not None:
        items = of_some_contexts(items, lambda item: item.known.get("context_id"), limit)
    return items if only is None else [item for item in items if only(context_of(item.row, fields))]


def _word(row: Row, name: str) -> str:
    value = row.values.get(name)
    if isinstance(value, str) or name == "context":
        return value.strip() if isinstance(value, str) else ""
    return "" if is_missing(value) else str(value)
