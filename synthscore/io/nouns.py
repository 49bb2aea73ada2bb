"""Rows to nouns and back: contexts, targets, scores. An error names its row, what it held and what to do.

Rows come from rows.py, broken ones as `InputError`s among the good, and leave through it. Knows nothing of models.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..signature import Signature
from ..types import Context, Score, Target
from .files import Row, Source, encodable, plain, read_rows, shorten, write_rows

__all__ = [
    "Row", "context_from_row", "read_contexts", "read_rows", "read_targets",
    "score_row", "target_from_row", "write_rows",
]  # fmt: skip


def read_contexts(
    source: Source, *, encoding: str = "utf-8", fields: Mapping[str, str] | None = None
) -> tuple[list[Context], list[InputError]]:
    """Contexts, each id once, and the rows that hold none. A file of targets that carry their context works too.

    Columns: context_id (or id); context (or, where there is no such column, and the row is no target, text); facts,
    references if any.
    """
    contexts: dict[str, Context] = {}
    rows: dict[str, int] = {}  # context id -> the row that it was taken from
    errors: list[InputError] = []
    for row in read_rows(source, encoding=encoding, fields=fields):
        try:
            if isinstance(row, InputError):
                raise row
            context = context_from_row(row)
            known = contexts.setdefault(context.id, context)
            rows.setdefault(context.id, row.number)
            for name in ("text", "facts", "references"):
                ours, theirs = getattr(context, name), getattr(known, name)
                if ours and ours != theirs:
                    raise _row_error(
                        row,
                        "context" if name == "text" and "context" in row.values else name,
                        ours,
                        f"context {context.id!r} already has another {name} (row {rows[context.id]})",
                        "Give each context an id of its own; targets need their context in a column named context",
                        id=context.id,
                    )
        except InputError as error:
            errors.append(error)
    return list(contexts.values()), errors


def read_targets(
    source: Source, *, encoding: str = "utf-8", fields: Mapping[str, str] | None = None
) -> tuple[list[Target], list[InputError]]:
    """Targets in the order of the source, all ids different, and the rows that hold none.

    Columns: context_id, text; system and id if any. id defaults to "<context_id>/<system>", or, without a system,
    to "<context_id>/<row number>"; what is drawn for such a text depends on its words, not on its row.
    """
    targets: dict[str, Target] = {}
    rows: dict[str, int] = {}
    errors: list[InputError] = []
    for row in read_rows(source, encoding=encoding, fields=fields):
        try:
            if isinstance(row, InputError):
                raise row
            target = target_from_row(row)
            if target.id in targets:
                seen = f"target id {target.id!r} was already used by row {rows[target.id]}"
                remedy = "Give each target an id of its own in a column named id"
                raise _row_error(row, "id", target.id, seen, remedy, **_known(row))
            targets[target.id] = target
            rows[target.id] = row.number
        except InputError as error:
            errors.append(error)
    return list(targets.values()), errors


def context_from_row(row: Row) -> Context:
    """The context that a row holds. raises: InputError, with source, row, field, value and, where known, id."""
    context_id = _id(row, "context_id" if not _missing(row.values.get("context_id")) else "id", "context_id")
    if "context" not in row.values and (why := _is_target(row)):
        seen = f"this row is a target ({why}); its context is missing"
        remedy = "Add a column context, or say which column holds it: context=COLUMN, or give the file of contexts"
        raise _row_error(row, "context", None, seen, remedy, id=context_id)
    text = _text(row, "context" if "context" in row.values else "text", id=context_id)
    facts = row.values.get("facts")
    if _missing(facts):
        facts = ""
    if not isinstance(facts, str):
        raise _row_error(row, "facts", facts, f"facts is {shorten(facts)}", "Give one string", id=context_id)
    return Context(context_id, text, facts, _references(row, context_id))


def target_from_row(row: Row) -> Target:
    """The target that a row holds. raises: InputError, with source, row, field, value and, where known, id."""
    context_id = _id(row, "context_id", "context_id")
    known = _known(row)
    text = _text(row, "text", **known)
    numbered = known["system"] is None and _missing(row.values.get("id"))  # as in _known
    return Target(known["id"], context_id, text, known["system"], numbered)


def _is_target(row: Row) -> str:
    """What shows that the row's text is a target, not a context; "" where nothing does."""
    context_id, own, system = (row.values.get(name) for name in ("context_id", "id", "system"))
    if _missing(context_id):
        return ""
    if not _missing(system):
        return f"its system is {shorten(system)}"
    if not _missing(own) and str(own) != str(context_id):
        return f"its id {shorten(own)} is not its context_id {shorten(context_id)}"
    return ""


def _known(row: Row) -> dict[str, Any]:
    """What identifies a row's target, whether or not its text is good: id, context_id, system."""
    context_id = _id(row, "context_id", "context_id")
    system = None if _missing(row.values.get("system")) else _id(row, "system", "system")
    own = not _missing(row.values.get("id"))
    target_id = _id(row, "id", "id") if own else f"{context_id}/{row.number if system is None else system}"
    return {"id": target_id, "context_id": context_id, "system": system}


def _missing(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _row_error(row: Row, name: str, value: object, seen: str, remedy: str, **data: object) -> InputError:
    return InputError(
        f"{row.source} row {row.number}: {seen}. {remedy}",
        source=row.source, row=row.number, field=name, value=value, **data,
    )  # fmt: skip


def _absent(row: Row, name: str, **data: object) -> InputError:
    column = row.fields.get(name, name)
    seen = f"there is no {column!r}, but {', '.join(map(repr, row.values)) or 'nothing at all'}"
    return _row_error(row, name, None, seen, f"Add it, or say which column holds it: {name}=COLUMN", **data)


def _id(row: Row, column: str, name: str) -> str:
    """An id: a text, or a whole number (as CSV and JSON would write it)."""
    if column not in row.values:
        raise _absent(row, name)
    value = row.values[column]
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip() or not encodable(value):
        raise _row_error(
            row, name, value, f"{column} is {shorten(value)}, expected a text that is not empty", "Fill it"
        )
    return value


def _text(row: Row, name: str, **data: object) -> str:
    if name not in row.values:
        raise _absent(row, name, **data)
    value = row.values[name]
    column = row.fields.get(name, name)
    if not isinstance(value, str) or not value.strip():
        seen = f"{column} is {shorten(value)}, expected a text that is not empty"
        raise _row_error(row, name, value, seen, "Fill it, or remove the row", **data)
    if not encodable(value):
        seen = f"{column} holds half a surrogate pair, which no encoding can write: {shorten(value)}"
        raise _row_error(row, name, value, seen, "Write the text again as UTF-8", **data)
    return value


def _references(row: Row, context_id: str) -> tuple[str, ...]:
    """A list of texts, one text, or (as CSV has no lists) a JSON list in one text."""
    value = row.values.get("references")
    if _missing(value):
        return ()
    if isinstance(value, str):
        if value.lstrip().startswith("["):
            try:
                parsed = json.loads(value)
            except ValueError:
                parsed = None
            value = parsed if isinstance(parsed, list) else [value]
        else:
            value = [value]
    if not isinstance(value, Sequence) or not all(isinstance(v, str) and v.strip() and encodable(v) for v in value):
        seen = f"references is {shorten(value)}, expected a list of texts that are not empty"
        raise _row_error(row, "references", value, seen, "Leave empty ones out", id=context_id)
    return tuple(value)


def score_row(score: Score, signature: Signature, *, verdicts: bool = False) -> dict[str, Any]:
    """One row: the score, its error, its details, and the signature that makes the number citable.

    verdicts : also a column of what the judge said, as lists [level, swapped (1 or 0), better, worse, similar]
    """
    row = {name: plain(getattr(score, name)) for name in ("id", "context_id", "attribute")}
    row |= {"score": score.value, "stderr": score.stderr, "low": score.low, "high": score.high}
    row |= {"n_comparisons": score.n_comparisons, "status": score.status, "reason": score.reason}
    if clash := sorted(row.keys() & score.details.keys()):
        raise ValueError(f"score {score.id!r}: details {clash} have the names of columns; rename them")
    row |= dict(score.details)
    if verdicts:
        row["verdicts"] = [[v.level, int(v.swapped), v.better, v.worse, v.similar] for v in score.verdicts]
    return {name: plain(value) for name, value in row.items()} | {"signature": str(signature)}
