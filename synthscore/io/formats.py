"""The formats of files: how rows are read from each, how they are written, and which format a file's name says it has.

`FORMATS`, at the end, is the only list of them: `io/files.py` reads by it, `io/write.py` writes by it, a report finds
the files of a folder by it, and help and messages name what it holds. A new format is one more row of it, a function
that reads it, and, if rows are to be written in it, one that writes it. Knows nothing of what rows mean.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal

from ..errors import InputError
from .assumed import ASSUMED
from .fields import (
    Fields,
    RowBatch,
    bad_row,
    check_columns,
    make_batches,
    make_row,
    parse_json,
    shorten,
    unreadable,
)
from .separated import LONGEST, CsvLines, csv_rows
from .tables import write_csv, write_parquet
from .workbooks import workbook_rows

Use = Literal["read", "write"]
_OTHER_WORKBOOKS = (".xls", ".xlsm", ".xlsb", ".ods")


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """One way to keep rows in a file: a row of the table `FORMATS`.

    suffix : which names of such files end in, in lower case and before a .gz
    read : gives the rows of such a file, in batches: takes its path, the most rows of a batch, the encoding of its text
        and Fields. Raises an InputError, also after some rows, for a file that cannot be read at all
    lines : whether a file is a line for each row. Then rows are written as they come, and files of rows can be joined
        end to end. Otherwise it is a table, whose columns must all be known before its first row is written
    write : makes a table of all rows: takes a file that holds them as lines of JSON, and the file to write. Raises an
        InputError for rows that the format cannot hold. None for lines, and where rows are only read
    keeps_types : whether columns have types, as Parquet's: rows that come with a schema are written by it
    gzipped : whether it may be compressed by gzip, with a .gz after the suffix
    """

    suffix: str
    read: Callable[[str, int, str, Fields], Iterator[RowBatch]]
    lines: bool = False
    write: Callable[[IO[bytes], IO[bytes]], None] | None = None
    keeps_types: bool = False
    gzipped: bool = True

    def serves(self, use: Use) -> bool:
        """Whether rows can be read from it, as from all formats, or written to it."""
        return use == "read" or self.lines or self.write is not None


def find_format(path: str | os.PathLike[str], use: Use) -> Format:
    """The format that a file's name says it has, in upper or lower case.

    raises : InputError for a name of no format, or of one that rows are only read from; it lists those there are
    """
    for format in FORMATS:
        if format.serves(use) and _is_named(path, format):
            return format
    if use == "read" and (assumed := ASSUMED.get().format):
        return next(format for format in FORMATS if format.suffix == f".{assumed}")
    remedy = "Name a file of one of these formats"
    if Path(path).suffix.lower() in _OTHER_WORKBOOKS:
        remedy = "Save the workbook as .xlsx, or its sheet as CSV UTF-8 (Excel: File, Save As)"
    elif use == "read":
        remedy += ", or say which it is: --input-format jsonl"
    expected = f"expected {list_formats(use)}. {remedy}"
    raise InputError(f"cannot {use} {path}: its format is unknown, {expected}", source=str(path))


def is_readable(path: str | os.PathLike[str]) -> bool:
    """Whether a file's name says that it has a format of which rows can be read."""
    return any(_is_named(path, format) for format in FORMATS)


def list_formats(use: Use) -> str:
    """All that rows are read from, or written to, as messages and help name it."""
    formats = [format for format in FORMATS if format.serves(use)]
    gzipped = ", ".join(format.suffix for format in formats if format.gzipped)
    others = [format.suffix for format in formats if not format.gzipped]
    more = {"read": "a datasets folder, or - for JSONL on stdin", "write": "or - for JSONL on stdout"}
    return ", ".join([f"{gzipped} (each also .gz)", *others, more[use]])


def split_gz(path: str | os.PathLike[str]) -> tuple[Path, bool]:
    """The path without a .gz at its end, and whether there was one: then the file is compressed."""
    whole = Path(path)
    is_gzipped = whole.suffix.lower() == ".gz"
    if is_gzipped:
        whole = whole.with_suffix("")
    return whole, is_gzipped


def _is_named(path: str | os.PathLike[str], format: Format) -> bool:
    bare, is_gzipped = split_gz(path)
    return bare.suffix.lower() == format.suffix and (format.gzipped or not is_gzipped)


# ------------------------------------------------------------------------------------------------- reading


def read_jsonl(path: str, size: int, encoding: str, fields: Fields) -> Iterator[RowBatch]:
    """An object a line; a line that cannot be read costs itself alone. path : "-" for stdin"""
    name = _shown(path)
    return _line_batches(_lines(path, encoding, ESCAPED), size, name, fields)


def _shown(path: str) -> str:
    """What messages call a file."""
    return {"-": "stdin"}.get(path, path)


def _line_batches(lines: Iterable[str], size: int, name: str, fields: Fields) -> Iterator[RowBatch]:
    """An object a line."""
    numbered = enumerate(lines, 1)
    rows = ((number, _parsed(number, line, name), line) for number, line in numbered if not line.isspace())
    return make_batches(rows, size, name, fields)


def _parsed(number: int, line: str, name: str) -> object:
    try:
        if not line.isascii() and (escaped := re.search("[\udc80-\udcff]", line)):
            why = f"byte {ord(escaped[0]) - 0xDC00:#x} is not of the file's encoding"
            return bad_row(name, number, f"{why}: {shorten(line.strip())}. {_RECODE}", value=line)
        return parse_json(line, object_pairs_hook=_each_once)
    except ValueError as error:
        why = f"not JSON ({error}): {shorten(line.strip())}. Mend or remove the line"
        return bad_row(name, number, why, value=line)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} stands there twice")
    return values


def _read_json(path: str, size: int, encoding: str, fields: Fields) -> Iterator[RowBatch]:
    """An array of objects, one object, or, like .jsonl, an object a line."""
    name = _shown(path)
    text = "".join(_lines(path, encoding, longest=-1))
    try:
        whole = parse_json(text, object_pairs_hook=_each_once)
    except ValueError as error:
        if text.lstrip()[:1] != "[":
            yield from _line_batches(io.StringIO(text, newline="\n"), size, name, fields)
            return
        remedy = "Mend it, or write an object a line into a .jsonl file, where a broken line costs only itself"
        raise unreadable(name, f"not JSON ({error}). {remedy}") from error
    if not isinstance(whole, list):
        whole = [whole]
    yield from make_batches(enumerate(whole, 1), size, name, fields)


def _read_csv(path: str, size: int, encoding: str, fields: Fields, delimiter: str) -> Iterator[RowBatch]:
    """A header, then a row a line; a line of other fields than the header's costs itself alone.

    delimiter : where neither the user nor the file says which
    """
    name = _shown(path)
    lines = CsvLines(_lines(path, encoding))
    return make_batches(csv_rows(lines, delimiter, ASSUMED.get().separator, name, fields), size, name, fields)


def _read_workbook(path: str, size: int, encoding: str, fields: Fields) -> Iterator[RowBatch]:
    """encoding : plays no part, as a workbook says its own"""
    return make_batches(workbook_rows(path, fields), size, path, fields)


def _read_parquet(path: str, size: int, encoding: str, fields: Fields) -> Iterator[RowBatch]:
    """Rows with the types of their columns. encoding : plays no part, for its texts are UTF-8"""
    return table_batches(parquet_tables([Path(path)], size), path, fields)


def table_batches(tables: Iterable[Any], name: str, fields: Fields) -> Iterator[RowBatch]:
    """Rows of Arrow tables, numbered through."""
    number = 0
    for table in tables:
        check_columns(table.schema.names, name, fields)
        try:
            values = table.to_pylist()
        except UnicodeDecodeError as error:  # Arrow does not check the strings that it stores
            which = f"of the rows {number + 1} to {number + table.num_rows}"
            why = f"{which}, one holds a text that is not UTF-8 ({error}). Write it again"
            raise unreadable(name, why) from error
        rows = [make_row(index, row, name, fields) for index, row in enumerate(values, number + 1)]
        yield RowBatch(rows, schema=table.schema)
        number += len(values)


def parquet_tables(paths: Sequence[Path], size: int) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                for batch in file.iter_batches(batch_size=size):
                    yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError) as error:
            why = f"not a whole Parquet file ({error}). Make or download it again"
            raise unreadable(str(path), why) from error


# ------------------------------------------------------------------------------------------------- bytes -> lines


ESCAPED = "surrogateescape"  # a byte that cannot be read is half a surrogate pair, as no JSON that was read holds it
_NOT_TEXT = {
    b"\x1f\x8b": "The file is compressed by gzip: give it a name that ends in .gz",
    b"PK": "The file is a zip archive, or a workbook of Excel: unpack it, or give it a name that ends in .xlsx",
    **dict.fromkeys((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE), "The file starts like utf-16: pass --encoding utf-16"),
}
"""What the first two bytes of a file say that it is, if that is no text in UTF-8; and what to do."""
_RECODE = "Mend that line, or name the encoding of the file, such as --encoding cp1252 (Windows, Western Europe)"


def _not_text(beginning: bytes) -> str:
    """What to do with a file that begins with these four bytes; "" where they may be text in UTF-8."""
    if beginning in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE):
        return "The file starts like utf-32: pass --encoding utf-32"
    if beginning == b"PAR1":
        return "The file is Parquet: give it a name that ends in .parquet"
    if beginning[:2] == b"\0\0":
        return "The file begins with zeros, as no text does: make or download it again"
    if beginning[:2] not in _NOT_TEXT and 0 in beginning[:2]:  # as ASCII in 16 bits, without a mark
        order = "le"
        if beginning[0] == 0:
            order = "be"
        return f"The file looks like utf-16 without its mark: pass --encoding utf-16-{order}"
    return _NOT_TEXT.get(beginning[:2], "")


def _open_bytes(source: str) -> AbstractContextManager[Any]:
    """What a file holds, without its compression. source : "-" for stdin, which stays open"""
    if source == "-":
        return nullcontext(sys.stdin.buffer)
    _, is_gzipped = split_gz(source)
    return gzip.open(source) if is_gzipped else open(source, "rb")


def _lines(source: str, encoding: str, errors: str = "strict", longest: int = LONGEST) -> Iterator[str]:
    """Lines with their ends. Split at \\n alone: texts may hold the other characters that str.splitlines splits at.

    longest : characters from which on a line is refused; -1: none
    errors : ESCAPED, where a byte that cannot be read costs its line alone
    """
    name, number = _shown(source), 0
    try:
        if codecs.lookup(encoding).name == "utf-8":
            encoding = "utf-8-sig"  # accepts a byte order mark
    except LookupError:
        why = (
            f"there is no encoding {encoding!r}, expected one such as utf-8 or cp1252. Name the one that wrote the file"
        )
        raise unreadable(name, why) from None
    try:
        with _open_bytes(source) as data:
            text = io.TextIOWrapper(data, encoding=encoding, errors=errors, newline="\n")
            try:
                for number, line in enumerate(iter(partial(text.readline, longest), ""), 1):
                    if number == 1 and (remedy := _not_text(line[:4].encode(errors=ESCAPED))):
                        raise unreadable(name, remedy, line=1)
                    if len(line) == longest:
                        most = f"{longest:,}".replace(",", " ")
                        remedy = "Is it a file of rows? Split or remove the line"
                        raise unreadable(name, f"line {number} has {most} characters or more. {remedy}", line=number)
                    yield line
            finally:
                text.detach()
    except UnicodeDecodeError as error:
        line_number = number + 1 + error.object[: error.start].count(b"\n")
        encoding = encoding.removesuffix("-sig")
        problem = f"line {line_number} holds the byte 0x{error.object[error.start]:02x}, which is not {encoding}"
        raise unreadable(name, f"{problem}. {_not_text(error.object[:4]) or _RECODE}", line=line_number) from None
    except (OSError, EOFError, zlib.error) as error:
        message = f"cannot read {name} beyond line {number + 1}: {error}. Make or download the file again"
        raise InputError(message, source=name, line=number + 1) from error


# ------------------------------------------------------------------------------------------------- the table


FORMATS: tuple[Format, ...] = (
    Format(suffix=".jsonl", read=read_jsonl, lines=True),
    Format(suffix=".ndjson", read=read_jsonl, lines=True),
    Format(suffix=".json", read=_read_json),  # a whole array: only read, for .jsonl holds the same rows
    Format(suffix=".csv", read=partial(_read_csv, delimiter=","), write=partial(write_csv, delimiter=",")),
    Format(suffix=".tsv", read=partial(_read_csv, delimiter="\t"), write=partial(write_csv, delimiter="\t")),
    Format(suffix=".xlsx", read=_read_workbook, gzipped=False),
    Format(
        suffix=".parquet",
        read=_read_parquet,
        write=write_parquet,
        keeps_types=True,
        gzipped=False,  # it is compressed inside
    ),
)
