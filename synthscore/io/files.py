"""Files to rows and back: JSONL, JSON, CSV, Parquet, saved datasets and pipes. Knows nothing of what rows mean.

A row that cannot be read is handed on as an `InputError` between its good neighbours; only what makes a whole source
unusable (missing, wrong encoding, no such format) is raised.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import itertools
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..errors import InputError
from .fields import Row, is_formula, make_row, mappings, parse_json, shorten

FORMATS = ".jsonl, .ndjson, .json (each also .gz), .csv, .tsv, .parquet, a datasets folder, or - for JSONL on stdin"
_LONGEST_FIELD = 1 << 26  # characters in a CSV field; the csv module stops at 131 072 unless told
_BATCH = 1024  # rows of a Parquet or Arrow file held at once

T = TypeVar("T")
Source = str | os.PathLike[str] | Iterable[Mapping[str, Any]]
"""A file, folder or pipe of rows; or rows: mappings, a pandas DataFrame, a datasets.Dataset."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Neighbouring rows of a source, and what they were read from: the `lines` of a JSONL file, or a `table` of Arrow's
    where all have the same columns."""

    rows: Sequence[Row | InputError]
    lines: Sequence[str] = ()
    table: Any = None


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
    batches = read_batches(source, _BATCH, encoding=encoding, fields=fields)
    return itertools.chain.from_iterable(batch.rows for batch in batches)


def read_batches(
    source: Source, size: int, *, encoding: str = "utf-8", fields: Mapping[str, str] | None = None
) -> Iterator[RowBatch]:
    """The rows of `read_rows`, at most `size` at a time; where a batch begins follows from that alone."""
    fields = dict(fields or {})
    if not isinstance(source, str | os.PathLike):
        return _batched(enumerate(mappings(source), 1), size, "rows", fields)
    path, name = Path(source), str(source)
    if name == "-":
        return _line_batches(_lines(name, encoding, ESCAPED), size, "stdin", fields)
    if not name:
        raise InputError("cannot read a file without a name. Check the variable that was to hold it", source=name)
    if not path.exists():
        raise _unreadable(name, "there is no such file or folder. Check the path")
    if path.is_dir():
        return _folder_batches(path, size, name, fields)
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    if suffix == ".parquet":
        return _table_batches(_parquet_tables([path], size), name, fields)
    if suffix in (".jsonl", ".ndjson"):
        return _line_batches(_lines(name, encoding, ESCAPED), size, name, fields)
    if suffix == ".json":
        return _json_batches(_lines(name, encoding), size, name, fields)
    if suffix in (".csv", ".tsv"):
        delimiter = "," if suffix == ".csv" else "\t"
        return _batched(_csv_rows(_lines(name, encoding), delimiter, name, fields), size, name, fields)
    raise _unreadable(name, f"its format is unknown, expected {FORMATS}")


def _unreadable(name: str, why: str, **data: object) -> InputError:
    return InputError(f"cannot read {name}: {why}", source=name, **data)


def _bad_row(name: str, number: int, why: str, line: int | None = None, **data: object) -> InputError:
    """line : of the file, where rows may be longer than that"""
    where = f"{name} row {number}" if line is None else f"{name} row {number} (line {line})"
    return InputError(f"{where}: {why}", source=name, row=number, line=line, **data)


# ------------------------------------------------------------------------------------------------- formats


def _batched(rows: Iterator[tuple[int, object]], size: int, name: str, fields: dict[str, str]) -> Iterator[RowBatch]:
    while batch := list(itertools.islice(rows, size)):
        yield RowBatch([make_row(number, values, name, fields) for number, values in batch])


def _line_batches(lines: Iterable[str], size: int, name: str, fields: dict[str, str]) -> Iterator[RowBatch]:
    """An object a line."""
    numbered = ((number, line) for number, line in enumerate(lines, 1) if not line.isspace())
    while batch := list(itertools.islice(numbered, size)):
        rows = [make_row(number, _parsed(number, line, name), name, fields) for number, line in batch]
        yield RowBatch(rows, [line for _, line in batch])


def _parsed(number: int, line: str, name: str) -> object:
    try:
        if escaped := None if line.isascii() else re.search("[\udc80-\udcff]", line):
            found = f"byte {ord(escaped[0]) - 0xDC00:#x} is not of the file's encoding"
            return _bad_row(name, number, f"{found}: {shorten(line.strip())}. {_RECODE}", value=line)
        return parse_json(line, object_pairs_hook=_each_once)
    except ValueError as error:
        why = f"not JSON ({error}): {shorten(line.strip())}. Mend or remove the line"
        return _bad_row(name, number, why, value=line)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands there twice")
    return found


def _json_batches(lines: Iterable[str], size: int, name: str, fields: dict[str, str]) -> Iterator[RowBatch]:
    """A .json file: an array of objects, one object, or, like .jsonl, an object a line."""
    text = "".join(lines)
    try:
        whole = parse_json(text, object_pairs_hook=_each_once)
    except ValueError as error:
        if text.lstrip()[:1] != "[":
            yield from _line_batches(io.StringIO(text, newline="\n"), size, name, fields)
            return
        remedy = "Mend it, or write an object a line into a .jsonl file, where a broken line costs only itself"
        raise _unreadable(name, f"not JSON ({error}). {remedy}") from error
    yield from _batched(enumerate(whole if isinstance(whole, list) else [whole], 1), size, name, fields)


def _check_columns(columns: Sequence[str], name: str, fields: Mapping[str, str]) -> None:
    for ours, theirs in fields.items():
        if theirs not in columns:
            why = f"{ours} is to be in column {theirs!r}, but its columns are {', '.join(map(repr, columns))}"
            raise _unreadable(name, why, field=ours, value=theirs)


def _csv_rows(lines: Iterable[str], delimiter: str, name: str, fields: dict[str, str]) -> Iterator[tuple[int, object]]:
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
    except csv.Error as error:
        why = f"its header is not CSV ({error}). Mend its quotes and line ends"
        raise _unreadable(name, why, line=reader.line_num) from error
    if len(set(header)) < len(header):
        raise _unreadable(name, f"its header names a column twice: {header}. Rename one", value=header)
    if len(header) == 1 and (other := next((c for c in ";\t," if c in header[0]), None)):
        why = f"its header is one column, {header[0]!r}, separated by {other!r} rather than {delimiter!r}"
        raise _unreadable(name, f"{why}. Save it as .csv with commas or .tsv with tabs")
    _check_columns(header, name, fields if header else {})

    number = 0
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            number += 1
            why = f"not CSV ({error}). Mend its quotes: a quote inside a text is doubled"
            yield number, _bad_row(name, number, why, line)
            continue
        if not cells:  # an empty line
            continue
        number += 1
        if len(cells) == len(header):
            texts = (cell[1:] if cell[:1] == "'" and is_formula(cell) else cell for cell in cells)
            yield number, dict(zip(header, texts, strict=True))
        else:
            why = f"{len(cells)} fields, expected {len(header)} as in the header: {shorten(cells)}"
            yield number, _bad_row(name, number, f"{why}. Quote texts that hold a {delimiter!r}", line, value=cells)


def _table_batches(tables: Iterable[Any], name: str, fields: dict[str, str]) -> Iterator[RowBatch]:
    """Rows of Arrow tables, numbered through."""
    number = 0
    for table in tables:
        _check_columns(table.schema.names, name, fields)
        try:
            found = table.to_pylist()
        except UnicodeDecodeError as error:  # Arrow does not check the strings that it stores
            rows = f"of the rows {number + 1} to {number + table.num_rows}"
            why = f"{rows}, one holds a text that is not UTF-8 ({error}). Write it again"
            raise _unreadable(name, why) from error
        yield RowBatch([make_row(at, values, name, fields) for at, values in enumerate(found, number + 1)], table=table)
        number += len(found)


def _parquet_tables(paths: Sequence[Path], size: int) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=size):
                    yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError) as error:
            why = f"not a whole Parquet file ({error}). Make or download it again"
            raise _unreadable(str(path), why) from error


def _folder_batches(path: Path, size: int, name: str, fields: dict[str, str]) -> Iterator[RowBatch]:
    saved, splits = (path / "state.json").exists(), (path / "dataset_dict.json").exists()
    if not saved and not splits:
        files = sorted(path.rglob("*.parquet"))
        if not files:
            raise _unreadable(name, f"the folder holds no rows, expected {FORMATS}")
        batches = _table_batches(_parquet_tables(files, size), name, fields)
        return (RowBatch(batch.rows) for batch in batches)  # files may differ in their columns
    import datasets

    try:
        dataset: Any = datasets.load_from_disk(str(path))
    except Exception as error:  # many types, from two libraries
        raise _unreadable(name, f"not a whole datasets folder ({error}). Make or download it again") from error
    if splits:
        if len(dataset) != 1:
            why = f"it holds the splits {', '.join(dataset)}. Name one: {path / min(dataset)}"
            raise _unreadable(name, why, value=tuple(dataset))
        dataset = next(iter(dataset.values()))
    return _table_batches(dataset.with_format("arrow").iter(size), name, fields)


# ------------------------------------------------------------------------------------------------- bytes -> lines


ESCAPED = "surrogateescape"  # a byte that cannot be read is half a surrogate pair, as no JSON that was read holds it
_NOT_TEXT = {
    b"\x1f\x8b": "The file is compressed by gzip: give it a name that ends in .gz",
    **dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "The file starts like utf-16: pass --encoding utf-16"),
}
"""What the first two bytes of a file say that it is, if that is no text in UTF-8; and what to do."""
_RECODE = "Mend that line, or name the encoding of the file, such as --encoding cp1252 (Windows, Western Europe)"


def _lines(source: str, encoding: str, errors: str = "strict") -> Iterator[str]:
    """Lines with their ends. Split at \\n alone: texts may hold the other characters that str.splitlines splits at.

    errors : ESCAPED, where a byte that cannot be read costs its line alone
    """
    name, number = "stdin" if source == "-" else source, 0
    try:
        if codecs.lookup(encoding).name == "utf-8":
            encoding = "utf-8-sig"  # accepts a byte order mark
    except LookupError:
        why = f"there is no encoding {encoding!r}, expected one such as utf-8 or cp1252"
        raise _unreadable(name, why) from None
    try:
        opened: Any = nullcontext(sys.stdin.buffer) if source == "-" else None
        with opened or (gzip.open(source) if source.endswith(".gz") else open(source, "rb")) as data:
            text = io.TextIOWrapper(data, encoding=encoding, errors=errors, newline="\n")
            try:
                for number, line in enumerate(text, 1):
                    if number == 1 and (remedy := _NOT_TEXT.get(line[:2].encode(errors=ESCAPED))):
                        raise _unreadable(name, remedy, line=1)
                    yield line
            finally:
                text.detach()
    except UnicodeDecodeError as error:
        at = number + 1 + error.object[: error.start].count(b"\n")
        seen = (
            f"line {at} holds the byte 0x{error.object[error.start]:02x}, which is not {encoding.removesuffix('-sig')}"
        )
        raise _unreadable(name, f"{seen}. {_NOT_TEXT.get(error.object[:2], _RECODE)}", line=at) from None
    except (OSError, EOFError, zlib.error) as error:
        message = f"cannot read {name} beyond line {number + 1}: {error}. Make or download the file again"
        raise InputError(message, source=name, line=number + 1) from error
