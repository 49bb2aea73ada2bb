"""Rows with people's ratings -> Ratings. Knows nothing of benchmarks, methods or files: rows come from io.

A row names a text by id, or by context_id and system, and says what people gave it, in one of these ways:

    human                  attribute -> rating
    human.ATTR, human_ATTR a column for each attribute
    human, attribute       one rating a row
    human_raw              attribute -> ratings of single people, beside or instead of their mean in human

A rating is a number, or a list of the ratings of single people, whose mean is taken and never rounded; null is no
rating. text, context, facts and references may be there, too. No other column is looked at: scores are no ratings.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...io.fields import Row, check_number, encodable, is_missing, read_id, read_names, row_error, shorten
from ...io.files import Source, read_rows
from ...io.nouns import context_from_row
from ...signature import text_hash
from ...types import Context
from .types import RatedText, Ratings

_TOLERANCE = 1e-6  # a mean and its ratings may differ by this: published means are rounded to 10 digits

Said = tuple[float | None, tuple[float, ...]]
"""Mean, or None where nobody rated; and the ratings of single people, where they are known."""


def read_ratings(
    source: Source,
    *,
    encoding: str = "utf-8",
    fields: Mapping[str, str] | None = None,
    name: str | None = None,
    task: str = "",
    attribute: str | None = None,
    scales: Mapping[str, tuple[float, float]] | None = None,
) -> Ratings:
    """A user's own ratings: a file of any kind that io reads, or mappings.

    fields : our name -> the source's column, where they differ: {"human.coherence": "expert_1"}
    attribute : what a single column human is about, where there is no column attribute
    scales : attribute -> (lowest, highest) rating; a row beyond it is broken
    Without a column context_id all texts are of one context, "". Rows that hold no rating that can be used are left out
    and counted in Ratings.left_out, with the first of each kind; so are ratings that are null.
    raises : InputError for a source without a single rating, a text that is rated twice on an attribute, or two texts
        of one id
    """
    found = collect(read_rows(source, encoding=encoding, fields=fields), attribute=attribute, scales=scales or {})
    if not found.texts:
        first = f", and the first row that has none says: {found.errors[0]}" if found.errors else ""
        raise InputError(
            f"{source if isinstance(source, str | os.PathLike) else 'the source'} holds no ratings, expected rows with "
            f"id, or context_id and system, and human{first}. Name columns with --field human.ATTRIBUTE=COLUMN"
        )
    named = isinstance(source, str | os.PathLike) and str(source) != "-"
    return Ratings(
        name=name or (Path(str(source)).name.split(".")[0] if named else "ratings"),
        texts=tuple(found.texts),
        attributes=found.attributes,
        contexts=found.contexts,
        task=task,
        scales=dict(scales or {}),
        source=f"{Path(str(source)).name if named else 'rows'}@{_fingerprint(found.texts)}",
        left_out=(*found.broken, *found.unrated),
    )


@dataclass(slots=True)
class Found:
    """What rows hold. texts : those that somebody rated, in the order in which they come."""

    texts: list[RatedText] = field(default_factory=list)
    attributes: tuple[str, ...] = ()
    contexts: dict[str, Context] = field(default_factory=dict)
    errors: list[InputError] = field(default_factory=list)
    n_rows: int = 0
    unrated: tuple[str, ...] = ()  # lines: texts and ratings that are not there

    @property
    def broken(self) -> tuple[str, ...]:
        """Lines: rows that could not be used, by the field that is wrong, each with its first."""
        by_field: dict[str, list[InputError]] = {}
        for error in self.errors:
            by_field.setdefault(getattr(error, "field", "row"), []).append(error)
        return tuple(f"{len(errors)} of {self.n_rows} rows ({name}): {errors[0]}" for name, errors in by_field.items())


@dataclass(slots=True)
class _Text:
    """A text while its rows are read."""

    context_id: str
    system: str
    text: str
    row: int
    said: dict[str, Said] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)  # attribute -> row


def collect(
    rows: Iterable[Row | InputError],
    *,
    attribute: str | None = None,
    scales: Mapping[str, tuple[float, float]],
) -> Found:
    """All that rows hold. raises : InputError, as read_ratings"""
    found = Found()
    texts: dict[str, _Text] = {}
    n_null = 0
    for row in rows:
        found.n_rows += 1
        try:
            if isinstance(row, InputError):
                raise row
            names = read_names(row)
            id_, context_id, system = names.id, names.context_id or "", names.system or ""
            text = _text(row)
            said, nulls = _ratings(row, attribute, scales)
            if row.has("context") and context_id:
                _add_context(row, found.contexts)
        except InputError as error:
            found.errors.append(error)
            continue
        n_null += nulls
        known = texts.setdefault(id_, _Text(context_id, system, text, row.number))
        if (known.context_id, known.system) != (context_id, system) or (text and known.text and text != known.text):
            seen = f"text {id_!r} has another text, context or system in row {known.row}"
            raise row_error(row, "id", id_, seen, "Give each text an id of its own")
        known.text = known.text or text
        _add(row, known, id_, said)
    _finish(found, texts, n_null)
    return found


def _text(row: Row) -> str:
    """It may be empty, or not there at all."""
    value = row.values.get("text")
    if is_missing(value):
        return ""
    if not isinstance(value, str) or not encodable(value):
        raise row_error(row, "text", value, f"text is {shorten(value)}, expected a text", "Mend it, or leave it out")
    return value


def _ratings(row: Row, attribute: str | None, scales: Mapping[str, tuple[float, float]]) -> tuple[dict[str, Said], int]:
    """Attribute -> what was said; and how many ratings of single people are null."""
    raw = _mapping(row, "human_raw")
    values = _by_attribute(row, attribute, bool(raw))
    said: dict[str, Said] = {}
    n_null = 0
    if values:  # groups of people, such as experts and a crowd: what `human` says is the rating that counts
        raw = {name: single for name, single in raw.items() if not isinstance(single, Mapping)}
    for name in dict.fromkeys((*values, *raw)):
        mean, single, nulls = _numbers(row, name, values.get(name))
        n_null += nulls
        if name in raw:
            of_single, single, nulls = _numbers(row, name, raw[name])
            n_null += nulls
            if mean is not None and of_single is not None and abs(mean - of_single) > _TOLERANCE:
                seen = f"{name} is {mean:g}, but the mean of {list(single)} is {of_single:g}"
                raise row_error(row, "human_raw", raw[name], seen, "Mend whichever is wrong, or leave out one")
            mean = mean if of_single is None else of_single
        low, high = scales.get(name, (-np.inf, np.inf))
        for value in (mean, *single):
            if value is not None and not low - _TOLERANCE <= value <= high + _TOLERANCE:
                seen = f"{name} is {value:g}, expected {low:g} to {high:g}"
                raise row_error(row, "human", value, seen, "Mend the rating, or say what the scale is")
        said[name] = mean, single
    return said, n_null


def _by_attribute(row: Row, attribute: str | None, has_raw: bool) -> dict[str, Any]:
    """Attribute -> what stands in the row's columns."""
    columns = {
        match[1]: value
        for column, value in row.values.items()
        if column != "human_raw" and (match := re.fullmatch(r"human[._](.+)", column))
    }
    if "human" not in row.values:
        if not columns and not has_raw:
            seen = f"there is no 'human' and no 'human.ATTRIBUTE', but {', '.join(map(repr, row.values))}"
            raise row_error(row, "human", None, seen, "Add it, or say which column holds it: human=COLUMN")
        return columns
    value = _parsed(row.values["human"])
    if isinstance(value, Mapping):
        values = {str(name): rating for name, rating in value.items()}
    elif row.has("attribute"):
        values = {read_id(row, "attribute"): value}
    elif attribute is not None:
        values = {attribute: value}
    elif is_missing(value):
        values = {}
    else:
        seen = f"human is {shorten(value)}, and nothing says of which attribute"
        raise row_error(row, "attribute", None, seen, "Add a column attribute, or pass attribute=NAME")
    if twice := sorted(values.keys() & columns.keys()):
        seen = f"{twice[0]} is in 'human' and in a column of its own"
        raise row_error(row, "human", twice[0], seen, "Leave out one of them")
    return values | columns


def _mapping(row: Row, name: str) -> Mapping[str, Any]:
    value = _parsed(row.values.get(name))
    if is_missing(value):
        return {}
    if not isinstance(value, Mapping):
        seen = f"{name} is {shorten(value)}, expected attribute -> ratings"
        raise row_error(row, name, value, seen, "Write it as an object, or leave it out")
    return value


def _parsed(value: Any) -> Any:
    """A list or object that was written as JSON, as CSV files must."""
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        try:
            return json.loads(value)
        except ValueError:
            return value
    return value


def _numbers(row: Row, name: str, value: Any) -> tuple[float | None, tuple[float, ...], int]:
    """Mean, the ratings of single people, and how many of them are null."""
    value = _parsed(value)
    if is_missing(value):
        return None, (), 0
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        single = tuple(rating for item in value if (rating := _rating(row, name, item)) is not None)
        return sum(single) / len(single) if single else None, single, len(value) - len(single)
    return _rating(row, name, value), (), 0


def _rating(row: Row, name: str, value: object) -> float | None:
    expected, remedy = "a number, or a list of numbers", "Mend it, or write null where nobody rated"
    return check_number(row, "human", value, expected, called=name, remedy=remedy)


def _add_context(row: Row, contexts: dict[str, Context]) -> None:
    context = context_from_row(row)
    known = contexts.setdefault(context.id, context)
    for name in ("text", "facts", "references"):
        ours, theirs = getattr(context, name), getattr(known, name)
        if ours != theirs:
            seen = f"context {context.id!r} has another {name} in an earlier row: {shorten(theirs)}"
            raise row_error(row, "context" if name == "text" else name, ours, seen, "Give each context its own id")


def _add(row: Row, text: _Text, id_: str, said: Mapping[str, Said]) -> None:
    """raises : InputError where it is rated already"""
    for name, (mean, single) in said.items():
        if mean is None:
            text.said.setdefault(name, (None, ()))
            continue
        if name in text.rows:
            seen = f"text {id_!r} is rated on {name} a second time, after row {text.rows[name]}"
            remedy = "Leave out one of them, or put the ratings of several people into a list"
            raise row_error(row, "id", id_, seen, remedy)
        text.said[name], text.rows[name] = (mean, single), row.number


def _finish(found: Found, texts: Mapping[str, _Text], n_null: int) -> None:
    names = list(dict.fromkeys(name for text in texts.values() for name in text.said))
    rated = {name: [id_ for id_, text in texts.items() if name in text.rows] for name in names}
    found.attributes = tuple(name for name in names if rated[name])
    silent = [id_ for id_, text in texts.items() if not text.rows]
    found.texts = [
        RatedText(
            id_,
            text.context_id,
            text.system,
            text.text,
            {name: mean for name, (mean, _) in text.said.items() if mean is not None},
            {name: single for name, (_, single) in text.said.items() if single},
        )
        for id_, text in texts.items()
        if text.rows
    ]
    lines = [f"{len(silent)} texts: nobody rated them, such as {', '.join(map(repr, silent[:3]))}"] if silent else []
    for name in names:
        if n_missing := len(found.texts) - len(rated[name]):
            lines.append(f"{n_missing} texts: not rated on {name}")
    if n_null:
        lines.append(f"{n_null} ratings of single people: null")
    found.unrated = tuple(lines)


def _fingerprint(texts: Iterable[RatedText]) -> str:
    """12 hex digits that change when any text or rating does."""
    return text_hash(
        *(
            repr(
                (
                    text.id,
                    text.context_id,
                    text.system,
                    text.text,
                    sorted(text.human.items()),
                    sorted(text.annotators.items()),
                )
            )
            for text in texts
        )
    )[:12]
