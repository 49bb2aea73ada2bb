"""Rows, what stands in their columns, and the texts to judge that they hold: the one reader of ids, texts, numbers and
flags, whichever way a row comes in.

A value reads alike whatever file it comes from. Nothing stands in a column (`is_missing`) where it holds null, NaN or
an empty text.

    number   an int, a float, a Decimal, a number of NumPy's; or a text of one as JSON writes it, with spaces around:
             "0.5", " -3 ", "1e3", ".5", "+2"; also "inf" and "nan", in any case, as CSV files have them: NaN is missing
             not: booleans, "0,5" (a comma may be meant either way), "1_000", "½", dates
    flag     true or false; 1 or 0, also as 1.0 and 0.0; texts of these, in any case, with spaces around
    id       a text that is not `types.blank`, as it stands; or a whole number, as JSON writes an int: 1.0 is 1. Not:
             booleans, 1.5
    text     a text that is not blank and can be encoded, as it stands; or a chat, as `recognised` reads it

Whatever else stands there is an InputError with `source`, `row`, `field` and `value`: never a 0, never left out.
"""

from __future__ import annotations

import itertools
import json
import logging
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError, did_you_mean
from ..signature import text_hash
from ..types import Target, blank, encodable

MEND = "Mend or remove the row"
Fields = Mapping[str, str]
"""Our name for a column -> the name that it has in a source, where they differ."""

_LOG = logging.getLogger(__name__)
_USUAL = {
    "text": ("summary", "response", "output", "completion", "answer", "generation", "prediction"),
    "context": ("article", "document", "prompt", "question", "dialogue", "source"),
    "context_id": ("article_id", "doc_id", "document_id", "source_id", "prompt_id"),
}
"""Our name -> what others call such a column, likeliest first."""
_CHATS = ("messages", "conversations", "conversation")
"""Columns that hold a chat, of which the last message is the text."""
_ROLES = {"human": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant"}
"""How ShareGPT calls whose message it is."""
_BEGINS_A_CHAT = re.compile(r'\s*\[\s*\{\s*"(role|content|from|value)"')
_DOUBTFUL = ("source",)  # may as well say where a text is from
_MOST_NESTED = 100  # lists and objects in one another
_NUMBERS = (str, int, float, Decimal, np.integer, np.floating)
_EXACT = 2**53  # beyond, a float is not one whole number
_FLAGS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a source.

    number : from 1; the line of a JSONL file, the data row of any other
    values : column, by our name where it has one -> what stands in it
    source : name of the file, for errors
    fields : as Fields
    line : the line of a JSONL file, as it was read; "" of any other
    """

    number: int
    values: Mapping[str, Any]
    source: str = "rows"
    fields: Mapping[str, str] = field(default_factory=dict)
    line: str = ""

    def has(self, name: str) -> bool:
        """Whether anything stands in the column."""
        return not is_missing(self.values.get(name))


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Neighbouring rows of a source, and the Arrow `schema` of a source whose columns have types."""

    rows: Sequence[Row | InputError]
    schema: Any = None


class Item(NamedTuple):
    """One row of the input: the text that it holds to be judged, or the error that says why it holds none.

    number : of the row in its source, from 1
    id, context_id : of the text, as far as the row says them; else "row 7" and ""
    task, attribute, context : what the columns of these names say, or ""
    names_context : whether the row itself says its context's id, so that the id is not one made from a text
    row : as it was read
    """

    number: int
    target: Target | InputError
    id: str
    context_id: str = ""
    task: str = ""
    attribute: str = ""
    context: str = ""
    names_context: bool = True
    row: Row | InputError = Row(0, {})

    @property
    def shard_key(self) -> str:
        """What decides which shard the row belongs to: its context, or, where none is known, the row itself."""
        return self.context_id or f"row {self.number}"

    def require_target(self) -> Target:
        """raises : InputError where the row holds none"""
        if isinstance(self.target, InputError):
            raise self.target
        return self.target


def mappings(source: object) -> Iterable[object]:
    """What an iterable, a DataFrame or a Dataset holds, row for row. Whether these are mappings, make_row checks."""
    pandas = sys.modules.get("pandas")  # whoever has a DataFrame has imported it
    if pandas is not None and isinstance(source, pandas.DataFrame):
        records: Iterable[object] = source.astype(object).where(source.notna(), None).to_dict("records")
        return records
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise InputError(
            f"cannot read rows from {shorten(source)}, expected a file, or rows: mappings, a "
            "DataFrame or a Dataset. Put what it holds into a list of rows",
            value=source,
        )
    return source


def make_row(
    number: int, values: object, source: str = "rows", fields: Mapping[str, str] = {}, line: str = ""
) -> Row | InputError:
    """The row that holds these values, or the error that says why they make none. Arguments as of Row."""
    if isinstance(values, InputError):
        return values
    if isinstance(values, Target):
        values = {"id": values.id, "context_id": values.context_id, "text": values.text, "system": values.system}
    if isinstance(values, Mapping):
        if fields:
            values = rename_columns(values, fields)
        return Row(number, values, source, fields, line)
    message = f'{source} row {number}: it is {shorten(values)}, expected an object such as {{"text": "..."}}'
    if isinstance(values, list):
        message += ". An array of rows goes into a file named .json"
    return InputError(message, source=source, row=number, value=values)


def rename_columns(values: Mapping[str, Any], fields: Fields) -> dict[str, Any]:
    """The values under our names. A column that `fields` gives our name does not appear under its own name as well."""
    taken = {*fields, *fields.values()}
    ours = {name: values[column] for name, column in fields.items() if column in values}
    return {column: value for column, value in values.items() if column not in taken} | ours


def make_batches(rows: Iterator[tuple[Any, ...]], size: int, source: str, fields: Fields) -> Iterator[RowBatch]:
    """Batches of up to `size` rows. rows : of each its number, what it holds, and its line if it has one"""
    while batch := list(itertools.islice(rows, size)):
        yield RowBatch([make_row(number, values, source, fields, *line) for number, values, *line in batch])


@dataclass(frozen=True, slots=True)
class Names:
    """Which text a row is about.

    id : the text's own, or "context_id/system". context_id, system : None where the row does not give it
    """

    id: str
    context_id: str | None
    system: str | None


def is_missing(value: object) -> bool:
    """Whether nothing stands there: null, NaN (also as a Decimal) or an empty text."""
    if isinstance(value, str):
        return not value
    return value is None or (isinstance(value, float | np.floating | Decimal) and math.isnan(value))


def row_error(row: Row, name: str, value: object, problem: str, remedy: str, **data: object) -> InputError:
    """The error of a row.

    name : the field. problem : what stands there, and what was expected. remedy : what to do, a whole sentence
    """
    return InputError(
        f"{row.source} row {row.number}: {problem}. {remedy}",
        source=row.source, row=row.number, field=name, value=value, **data,
    )  # fmt: skip


def bad_row(source: str, number: int, why: str, line: int | None = None, **data: object) -> InputError:
    """The error of a row that could not be read. line : number of the file's line, where a row may have several"""
    where = f"{source} row {number}"
    if line is not None:
        where += f" (line {line})"
    return InputError(f"{where}: {why}", source=source, row=number, line=line, **data)


def unreadable(source: str, why: str, **data: object) -> InputError:
    """The error of a source that cannot be read at all."""
    return InputError(f"cannot read {source}: {why}", source=source, **data)


def check_columns(columns: Sequence[str], source: str, fields: Fields) -> None:
    """Checks a source whose columns are known before its rows.

    raises : InputError where `fields` names a column that is not there
    """
    for ours, theirs in fields.items():
        if theirs not in columns:
            why = f"{ours} is to be in column {theirs!r}, but its columns are {', '.join(map(repr, columns))}"
            hint = did_you_mean(theirs, columns)
            raise unreadable(source, f"{why}. Name one of them.{hint}", field=ours, value=theirs)


def require_column(row: Row, name: str, remedy: str = "", data: Mapping[str, object] | None = None) -> None:
    """raises : InputError where the row has no such column at all; whether anything stands in it does not matter

    remedy : what to do, "" for the usual. data : further attributes of the error
    """
    if name not in row.values:
        column, there_are = row.fields.get(name, name), (repr(row.fields.get(there, there)) for there in row.values)
        problem = f"there is no {column!r}, but {', '.join(there_are) or 'nothing at all'}"
        if taken := next((ours for ours, theirs in row.fields.items() if theirs == name != ours), ""):
            remedy = f"That column is read as {taken!r}, by --field {taken}={name}. Leave that out"
        there = {str(column).lower(): column for column in row.values}
        guess = next((there[usual] for usual in _USUAL.get(name, ()) if usual in there), "COLUMN")
        remedy = remedy or f"Add it, or say which column holds it: --field {name}={guess}; in Python, rename it"
        if column != name:
            remedy += did_you_mean(column, map(str, row.values))
        raise row_error(row, name, None, problem, remedy, **(data or {}))


def recognised(row: Row) -> Row:
    """The row with its text, context and context_id under these names, where it has them under one usual name each.

    A list of messages, mappings with role and content, is read as text: one message as its content, several as a line
    "Role: content" each. Of a column messages (ShareGPT: conversations, with from and value) the last is the text, an
    assistant's, and those before are the context. In CSV a list is JSON.
    Logs which column was read as which.
    raises : InputError for a chat that does not end with an assistant's message, or has no other message
    """
    columns = _recognised_columns(tuple(row.values), frozenset(row.fields))
    ours: dict[str, Any] = {name: row.values[column] for name, column in columns.items()}
    taken = {name: column for name, column in columns.items() if name != column}
    column = ""
    if "text" not in ours:
        column = next((name for name in _CHATS if row.has(name)), "")
    if column and (chat := _messages(row.values[column])):
        if chat[-1][0] != "assistant" or len(chat) < 2:
            problem = f"{column} holds one message"
            if len(chat) > 1:
                problem = f"{column} ends with one of {chat[-1][0]!r}"
            remedy = "Give the chat up to the answer that is judged, or name the columns: --field text=COLUMN"
            raise row_error(row, "text", row.values[column], f"{problem}, expected others and an assistant's", remedy)
        ours["text"] = chat[-1][1]
        taken["text"] = column
        if is_missing(ours.get("context")):
            ours["context"] = [{"role": role, "content": content} for role, content in chat[:-1]]
            taken["context"] = column
    if taken:
        listed = ", ".join(f"{name} from {column!r}" for name, column in taken.items())
        _LOG.info("%s: reading %s; to read others: --field NAME=COLUMN", row.source, listed)
    joined = False
    for name in ("text", "context"):
        if chat := _messages(ours.get(name)):
            joined = True
            lines = [f"{role.capitalize()}: {content}" for role, content in chat]
            if len(chat) == 1:
                lines = [chat[0][1]]
            ours[name] = "\n".join(lines)
    if not (taken or joined):
        return row
    others = {column: value for column, value in row.values.items() if column not in taken.values()}
    return replace(row, values=others | ours, fields={**row.fields, **taken})


@lru_cache(maxsize=64)  # the rows of a file have the same columns
def _recognised_columns(columns: tuple[str, ...], named: frozenset[str]) -> Mapping[str, str]:
    """Our name -> the column that is read as it. named : our names whose columns the caller has chosen (Row.fields)"""
    there: dict[str, str] = {}
    for column in columns:
        there.setdefault(str(column).lower(), column)
    recognised_as: dict[str, str] = {}
    for name, usual in _USUAL.items():
        if name in columns:
            recognised_as[name] = name
        elif name not in named:
            usual_here = [there[other] for other in (name, *usual) if other in there]
            certain = [column for column in usual_here if str(column).lower() not in _DOUBTFUL]
            candidates = certain
            # A column "source" counts only if nothing else fits, and not beside a column "text": there it may well say
            # where the text is from.
            if not certain and "text" not in columns:
                candidates = usual_here
            if len(candidates) == 1:
                recognised_as[name] = candidates[0]
    return recognised_as


def _messages(value: object) -> list[tuple[str, str]]:
    """(role, content) of each message of a chat; an empty list where the value is no chat of texts."""
    chat: list[tuple[str, str]] = []
    if isinstance(value, str) and _BEGINS_A_CHAT.match(value):
        with suppress(ValueError):
            value = read_list(value)
    if isinstance(value, str) or not isinstance(value, Sequence):
        return []
    for message in value:
        role = content = None
        if isinstance(message, Mapping):
            role, content = message.get("role"), message.get("content")
            if role is None and content is None:
                role, content = message.get("from"), message.get("value")
                if isinstance(role, str):
                    role = _ROLES.get(role, role)
        if isinstance(content, list) and all(isinstance(part, Mapping) and "text" in part for part in content):
            content = "\n".join(str(part["text"]) for part in content)
        if not isinstance(role, str) or not isinstance(content, str):
            return []
        chat.append((role, content))
    return chat


def id_of_text(text: str) -> str:
    """The id of a context that has none of its own: 16 hex digits of its text's hash."""
    return text_hash(text.strip())[:16]


def read_id(row: Row, name: str, column: str | None = None) -> str:
    """The id in the column.

    name : the field, for errors. column : where the id stands; None: in the column of this name
    raises : InputError where no id stands there
    """
    column = column or name
    require_column(row, column)
    value = row.values[column]
    if isinstance(value, str):
        if encodable(value) and not blank(value):
            return value
    elif isinstance(value, int | np.integer) and not isinstance(value, bool):
        return str(value)
    elif isinstance(value, float | np.floating | Decimal) and -_EXACT <= value <= _EXACT and value == int(value):
        return str(int(value))  # pandas makes floats of whole numbers where one is missing
    if isinstance(value, str) or is_missing(value):
        raise row_error(row, name, value, f"{column} is {shorten(value)}, expected a text that is not empty", "Fill it")
    problem = f"{column} is {shorten(value)}, expected a text or a whole number"
    raise row_error(row, name, value, problem, "Write the id as text")


def find_id(row: Row, name: str) -> str | None:
    """The id in the column; None where nothing stands there, or there is no such column."""
    if not row.has(name):
        return None
    return read_id(row, name)


def read_names(row: Row) -> Names:
    """Which text the row is about: by its id, or by its context's id and its system."""
    names = {name: find_id(row, name) for name in ("id", "context_id", "system")}
    if names["id"] is None and None in (names["context_id"], names["system"]):
        problem = f"nothing says which text it is about: its columns are {', '.join(map(repr, row.values)) or 'none'}"
        remedy = "Add id, or context_id and system, or name their columns: --field id=COLUMN"
        raise row_error(row, "id", None, problem, remedy)
    return Names(names["id"] or f"{names['context_id']}/{names['system']}", names["context_id"], names["system"])


def text_fault(value: object, column: str = "text") -> tuple[str, str]:
    """What is wrong with a value that is to be a text, and what to do about it; "" and "" for a good one."""
    if not isinstance(value, str) and not is_missing(value):
        remedy = "Write the text there, or say which column holds it: --field NAME=COLUMN"
        return f"{column} is {shorten(value)}, expected a text", remedy
    if not isinstance(value, str) or blank(value):
        shown = value if isinstance(value, str) else None  # NaN is how pandas writes null
        return f"{column} is {shorten(shown)}, expected a text that is not empty", "Fill it, or remove the row"
    if not encodable(value):
        problem = f"{column} holds half a surrogate pair, which no encoding can write: {shorten(value)}"
        return problem, "Write the text again as UTF-8"
    return "", ""


def read_text(row: Row, name: str, **data: object) -> str:
    """The text in the column. data : further attributes of the error. raises : InputError where no text stands there"""
    require_column(row, name, data=data)
    value = row.values[name]
    problem, remedy = text_fault(value, row.fields.get(name, name))
    if problem:
        raise row_error(row, name, value, problem, remedy, **data)
    return str(value)


def read_number(row: Row, name: str, expected: str = "a number, or null where there is none") -> float | None:
    """The number in the column; None where nothing stands there.

    expected : what the error says was expected. raises : InputError where something else than a number stands there
    """
    return check_number(row, name, row.values.get(name), expected)


def require_number(row: Row, name: str, expected: str = "a number", *, finite: bool = True) -> float:
    """As read_number, but raises InputError where nothing stands there. finite : whether ±inf is refused"""
    value = row.values.get(name)
    number = check_number(row, name, value, expected, finite=finite)
    if number is None:
        raise row_error(row, name, value, f"{name} is {shorten(value)}, expected {expected}", MEND)
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
    """As read_number, of a value that stands in the column inside a list, or under a key.

    called : what the error calls the value, "" for the field. finite : whether ±inf is refused
    """
    if is_missing(value):
        return None
    number = None
    # float() also reads "1_000" and digits of other scripts, which JSON does not.
    plausible = not isinstance(value, str) or (value.strip().isascii() and "_" not in value)
    if plausible and isinstance(value, _NUMBERS) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):  # an int of more than 308 digits
            number = float(value)
    if number is None or (finite and math.isinf(number)):
        raise row_error(row, name, value, f"{called or name} is {shorten(value)}, expected {expected}", remedy)
    if math.isnan(number):
        return None
    return number


def read_flag(row: Row, name: str, *, remedy: str = MEND) -> bool | None:
    """The flag in the column; None where nothing stands there. raises : InputError for anything but a flag"""
    value = row.values.get(name)
    if is_missing(value):
        return None
    flag = _FLAGS.get(str(value).strip().lower())
    if flag is None:
        problem = f"{name} is {shorten(value)}, expected true or 1, or false or 0"
        raise row_error(row, name, value, problem, remedy)
    return flag


def target_names(row: Row) -> dict[str, Any]:
    """What identifies a row's target, whether or not its text is good: id, context_id, system.

    A row that has a context, but no context_id, gets the id that is made from the context (`id_of_text`).
    """
    if not row.has("context_id") and row.has("context"):
        context_id = id_of_text(read_text(row, "context"))
    else:
        missing = " --field text=COLUMN" * ("text" not in row.values)
        remedy = "Add it, or its text as context, or say which column holds which: --field context_id=COLUMN"
        require_column(row, "context_id", f"{remedy} (or context=COLUMN){missing}; in Python, rename them")
        context_id = read_id(row, "context_id")
    system = find_id(row, "system")
    target_id = find_id(row, "id") or f"{context_id}/{system or row.number}"
    return {"id": target_id, "context_id": context_id, "system": system}


def read_item(row: Row | InputError, fields: Mapping[str, str] | None = None) -> Item:
    """The item of one row. fields : as Fields, for a row that still has the names of its source"""
    if isinstance(row, InputError):
        return Item(number=row.row, target=row, id=f"row {row.row}", row=row)
    names: dict[str, Any] = {"id": f"row {row.number}", "context_id": ""}
    target: Target | InputError
    ours = row
    if fields:
        ours = replace(row, values=rename_columns(row.values, fields), fields=fields)
    try:
        ours = recognised(ours)
        names = target_names(ours)
        target = Target(text=read_text(ours, "text", **names), **names)
    except InputError as error:
        target = error
    return Item(
        number=row.number,
        target=target,
        id=names["id"],
        context_id=names["context_id"],
        task=_word(ours, "task"),
        attribute=_word(ours, "attribute"),
        context=_context(ours),
        names_context=ours.has("context_id"),
        row=row,
    )


def _word(row: Row, name: str) -> str:
    """What stands in the column as a text, "" for nothing."""
    value = row.values.get(name)
    if isinstance(value, str):
        return value.strip()
    if is_missing(value):
        return ""
    return str(value)


def _context(row: Row) -> str:
    """The context, "" where none stands there, or something else than a text."""
    value = row.values.get("context")
    if not isinstance(value, str):
        return ""
    return value.strip()


def parse_json(text: str, **how: Any) -> Any:
    """As json.loads. raises : ValueError, also for what is nested more than 100 deep: nothing could be made of it"""
    try:
        value = _decoder(**how).decode(text)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    if text.count("[") + text.count("{") <= _MOST_NESTED:
        return value
    level = [value]
    for _ in range(_MOST_NESTED):
        inside = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level = [item for items in inside for item in items]
    if level:
        raise ValueError(f"it is nested more than {_MOST_NESTED} deep")
    return value


def read_list(value: Any) -> Any:
    """The list that a text holds as JSON, since CSV has no lists; any other value as it is.

    raises : ValueError for a text that begins as a list but is none
    """
    if isinstance(value, str) and value.lstrip().startswith("["):
        return parse_json(value)
    return value


@cache
def _decoder(**how: Any) -> json.JSONDecoder:
    return json.JSONDecoder(**how)  # json.loads would make one for every row


def shorten(value: object) -> str:
    """A value as an error message shows it: its repr, at most 80 characters."""
    text = repr(value)
    if len(text) <= 80:
        return text
    return text[:77] + "..."
