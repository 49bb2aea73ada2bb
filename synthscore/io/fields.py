"""What stands in a row's columns: the one reader of ids, texts, numbers and flags, and of how an error names its row.

A value reads alike whatever file it comes from. Nothing stands in a column (`is_missing`) where it holds null, NaN or
an empty text.

    number   an int, a float, a Decimal, a number of NumPy's; or a text of one as JSON writes it, with spaces around:
             "0.5", " -3 ", "1e3", ".5", "+2"; also "inf" and "nan", in any case, as CSV files have them: NaN is missing
             not: booleans, "0,5" (a comma may be meant either way), "1_000", "½", dates
    flag     true or false; 1 or 0, also as 1.0 and 0.0; texts of these, in any case, with spaces around
    id       a text that is not blank, as it stands; or an int, as JSON writes it. Not: booleans, 1.5
    text     a text that is not blank and can be encoded, as it stands

Whatever else stands there is an InputError with `source`, `row`, `field` and `value`: never a 0, never left out.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from ..errors import InputError
from ..types import encodable

MEND = "Mend or remove the row"
_FLAGS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a source. number : 1-based; the line of a JSONL file, the data row of any other."""

    number: int
    values: Mapping[str, Any]
    source: str = "rows"
    fields: Mapping[str, str] = field(default_factory=dict)  # our name -> the source's column, where they differ

    def has(self, name: str) -> bool:
        """Whether anything stands in the column."""
        return not is_missing(self.values.get(name))


@dataclass(frozen=True, slots=True)
class Names:
    """Which text a row is about. id : its own, or "context_id/system"; None for a name that the row does not give."""

    id: str
    context_id: str | None
    system: str | None


def is_missing(value: object) -> bool:
    """Null, NaN (also as a Decimal) or an empty text: nothing stands there."""
    if isinstance(value, str):
        return not value
    return value is None or (isinstance(value, float | np.floating | Decimal) and math.isnan(value))


def row_error(row: Row, name: str, value: object, seen: str, remedy: str, **data: object) -> InputError:
    """The error of a row. name : the field. seen : what stands there, and was expected. remedy : a whole sentence"""
    return InputError(
        f"{row.source} row {row.number}: {seen}. {remedy}",
        source=row.source, row=row.number, field=name, value=value, **data,
    )  # fmt: skip


def require_column(row: Row, name: str, remedy: str = "", data: Mapping[str, object] | None = None) -> None:
    """raises : InputError where the row has no such column at all"""
    if name not in row.values:
        column = row.fields.get(name, name)
        seen = f"there is no {column!r}, but {', '.join(map(repr, row.values)) or 'nothing at all'}"
        remedy = remedy or f"Add it, or say which column holds it: --field {name}=COLUMN; in Python, rename it"
        raise row_error(row, name, None, seen, remedy, **(data or {}))


def read_id(row: Row, name: str, column: str | None = None) -> str:
    """The id in the column. column : where it is not called by its name"""
    column = column or name
    require_column(row, column)
    value = row.values[column]
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value.strip() or not encodable(value):
        seen = f"{column} is {shorten(value)}, expected a text that is not empty"
        raise row_error(row, name, value, seen, "Fill it")
    return value


def find_id(row: Row, name: str) -> str | None:
    """The id in the column; None where nothing stands there, or there is no such column."""
    return read_id(row, name) if row.has(name) else None


def read_names(row: Row) -> Names:
    """Which text the row is about: by its id, or by its context's id and its system."""
    names = {name: find_id(row, name) for name in ("id", "context_id", "system")}
    if names["id"] is None and None in (names["context_id"], names["system"]):
        seen = f"nothing says which text it is about: its columns are {', '.join(map(repr, row.values)) or 'none'}"
        remedy = "Add id, or context_id and system, or name their columns: id=COLUMN"
        raise row_error(row, "id", None, seen, remedy)
    return Names(names["id"] or f"{names['context_id']}/{names['system']}", names["context_id"], names["system"])


def read_text(row: Row, name: str, **data: object) -> str:
    """The text in the column. data : further attributes of the error"""
    require_column(row, name, data=data)
    value, column = row.values[name], row.fields.get(name, name)
    if not isinstance(value, str) or not value.strip():
        seen = f"{column} is {shorten(value)}, expected a text that is not empty"
        raise row_error(row, name, value, seen, "Fill it, or remove the row", **data)
    if not encodable(value):
        seen = f"{column} holds half a surrogate pair, which no encoding can write: {shorten(value)}"
        raise row_error(row, name, value, seen, "Write the text again as UTF-8", **data)
    return value


def read_number(
    row: Row, name: str, expected: str = "a number, or null where there is none", *, finite: bool = True
) -> float | None:
    """The number in the column; None where there is none. expected : for the error. finite : not ±inf"""
    return check_number(row, name, row.values.get(name), expected, finite=finite)


def require_number(
    row: Row, name: str, expected: str = "a number", *, finite: bool = True, remedy: str = MEND
) -> float:
    """As read_number, where there must be one."""
    value = row.values.get(name)
    number = check_number(row, name, value, expected, finite=finite, remedy=remedy)
    if number is None:
        raise row_error(row, name, value, f"{name} is {shorten(value)}, expected {expected}", remedy)
    return number


def check_number(
    row: Row,
    name: str,
    value: object,
    expected: str = "a number",
    *,
    called: str = "",
    finite: bool = True,
    remedy: str = MEND,
) -> float | None:
    """As read_number, of a value in the column: in a list, or under a key. called : what the error calls it"""
    if is_missing(value):
        return None
    number = _number(value)
    if number is None or (finite and math.isinf(number)):
        raise row_error(row, name, value, f"{called or name} is {shorten(value)}, expected {expected}", remedy)
    return None if math.isnan(number) else number


def _number(value: object) -> float | None:
    """None for what is no number."""
    if isinstance(value, str) and (not value.strip().isascii() or "_" in value):
        return None
    if isinstance(value, bool | np.bool_) or not isinstance(
        value, str | int | float | Decimal | np.integer | np.floating
    ):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):  # an int of more than 308 digits
        return None


def read_flag(row: Row, name: str, *, remedy: str = MEND) -> bool | None:
    """The flag in the column, None where there is none."""
    value = row.values.get(name)
    if is_missing(value):
        return None
    flag = _FLAGS.get(str(value).strip().lower())
    if flag is None:
        seen = f"{name} is {shorten(value)}, expected true or 1, or false or 0"
        raise row_error(row, name, value, seen, remedy)
    return flag


def shorten(value: object) -> str:
    """What was seen, for an error message: at most 80 characters."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
