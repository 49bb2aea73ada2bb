"""Rows -> contexts, all or some of them. An error names its row, what it held and what to do."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ..errors import InputError
from ..types import Context, blank, encodable
from .fields import Row, id_of_text, is_missing, read_id, read_list, read_text, recognised, row_error, shorten
from .files import Source, each_row, read_rows

T = TypeVar("T")


def read_contexts(
    source: Source, *, encoding: str = "utf-8", fields: Mapping[str, str] | None = None
) -> tuple[list[Context], list[InputError]]:
    """Contexts, each id once, and the rows that hold none. A file of targets that carry their context works too.

    Columns: context_id (or, of a row without a target, id; without either, the key of the text); context (or, where
    there is no such column, and the row is no target, text); facts, references if any.
    """
    contexts: dict[str, Context] = {}
    errors: list[InputError] = []
    rows = read_rows(source, encoding=encoding, fields=fields)
    for _ in each_row(rows, lambda row: add_context(contexts, row), errors):
        pass
    return list(contexts.values()), errors


def add_context(known: MutableMapping[str, Context], row: Row) -> Context:
    """The row's context, put among those that are known. What a row leaves out, another of the same context may say;
    references are those of the first that names any, as the rows of texts that are references name the others alone.

    raises : InputError as context_from_row, and where the context has another text, or other facts, in an earlier row
    """
    ours = context_from_row(row)
    before = known.setdefault(ours.id, ours)
    for name in ("text", "facts"):
        here, there = getattr(ours, name), getattr(before, name)
        if here and there and here != there:
            raise row_error(
                row,
                _column_of(row, name),
                here,
                f"context {ours.id!r} has another {name} in an earlier row: {shorten(there)}",
                "Give each context an id of its own; targets need their context in a column named context",
                id=ours.id,
            )
    known[ours.id] = replace(before, facts=before.facts or ours.facts, references=before.references or ours.references)
    return known[ours.id]


def context_from_row(row: Row) -> Context:
    """The context that a row holds. raises: InputError, with source, row, field, value and, where known, id."""
    row = recognised(row)
    column = _column_of(row, "text")
    if "context_id" in row.values and not (row.has("id") and not row.has("context_id")):
        context_id = read_id(row, "context_id")
    elif "id" in row.values and not {"context", "text"} <= row.values.keys():
        context_id = read_id(row, "context_id", "id")
    else:  # an id would be the target's
        context_id = id_of_text(read_text(row, column))
    if "context" not in row.values and (why := _is_target(row)):
        problem = f"this row is a target ({why}); its context is missing"
        remedy = (
            "Add a column context, or say which column holds it: --field context=COLUMN, or give the file of contexts"
        )
        raise row_error(row, "context", None, problem, remedy, id=context_id)
    text = read_text(row, column, id=context_id)
    facts = ""
    if row.has("facts"):
        facts = row.values["facts"]
    if not isinstance(facts, str):
        raise row_error(row, "facts", facts, f"facts is {shorten(facts)}", "Give one string", id=context_id)
    return Context(context_id, text, facts, read_references(row, context_id))


def _column_of(row: Row, name: str) -> str:
    """Where a context's text, or its facts, stand."""
    if name == "text" and "context" in row.values:
        return "context"
    return name


def _is_target(row: Row) -> str:
    """What shows that the row's text is a target, not a context; "" where nothing does."""
    context_id, id_, system = (row.values.get(name) for name in ("context_id", "id", "system"))
    if not row.has("context_id"):
        return ""
    if row.has("system"):
        return f"its system is {shorten(system)}"
    if row.has("id") and str(id_) != str(context_id):
        return f"its id {shorten(id_)} is not its context_id {shorten(context_id)}"
    return ""


def read_references(row: Row, context_id: str) -> tuple[str, ...]:
    """A list of texts, or one text."""
    value = row.values.get("references")
    try:
        texts = read_list(value)
    except ValueError:
        texts = value
    if is_missing(texts):
        return ()
    if isinstance(texts, str):
        texts = [texts]
    if not isinstance(texts, Sequence) or not all(isinstance(v, str) and not blank(v) and encodable(v) for v in texts):
        problem = f"references is {shorten(value)}, expected a list of texts that are not empty"
        raise row_error(row, "references", value, problem, "Leave empty ones out", id=context_id)
    return tuple(texts)
