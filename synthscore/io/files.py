"""Files to rows and back: JSONL, JSON, CSV, Parquet, saved datasets and pipes. Knows nothing of what rows mean.

A row that cannot be read is handed on as an `InputError` between its good neighbours; only what makes a whole source
unusable (missing, wrong encoding, no such format) is raised.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import itertools
import json
import os
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError
from .fields import Row, shorten

FORMATS = ".jsonl, .ndjson, .json (each also .gz), .csv, .tsv, .parquet, a datasets folder, or - for JSONL on stdin"
_LONGEST_FIELD = 1 << 26  # characters in a CSV field; the csv module stops at 131 072 unless told
_BATCH = 1024  # rows of a Parquet or Arrow file held at once

Source = str | os.PathLike[str] | Iterable[Mapping[str, Any]]
"""A file, folder or pipe of rows; or rows: mappings, a pandas DataFrame, a datasets.Dataset."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Neighbouring rows of a source, and what they were read from: the `lines` of a JSONL file, or an Arrow `table`."""

    rows: Sequence[Row | InputError]
    lines: Sequence[str] = ()
    table: Any = None


def read_rows(
    source: Source, *, encoding: str = "utf-8", fields: Mapping[str, str] | None = None
) -> Iterator[Row | InputError]:
    """The rows of a file, folder, pipe ("-") or iterable of mappings, one at a time; a broken one as an InputError.

    fields : our name -> the source's column, where they differ: {"text": "summary"}
    raises : InputError for a source that cannot be used at all: missing, of no known format, or in another encoding.
    """
    fields = dict(fields or {})
    if not isinstance(source, str | os.PathLike):
        return _mapping_rows(enumerate(mappings(source), 1), "rows", fields)
    if str(source) == "-":
        return _json_lines(_source_lines(source, encoding), "stdin", fields)
    path, name = Path(source), str(source)
    if not path.exists():
        raise InputError(f"cannot read {name}: there is no such file or folder. Check the path", source=name)
    if path.is_dir():
        return _folder_rows(path, name, fields)
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    if suffix == ".parquet":
        return _parquet_rows([path], name, fields)
    if suffix not in (".jsonl", ".ndjson", ".json", ".csv", ".tsv"):
        raise InputError(f"cannot read {name}: its format is unknown, expected {FORMATS}", source=name)
    lines = _source_lines(source, encoding)
    if suffix == ".json":
        return _json_rows(lines, name, fields)
    if suffix in (".csv", ".tsv"):
        return _csv_rows(lines, "," if suffix == ".csv" else "\t", name, fields)
    return _json_lines(lines, name, fields)


def read_batches(source: Source, size: int | None, *, encoding: str = "utf-8") -> Iterator[RowBatch]:
    """The rows of `read_rows`, at most `size` at a time (None: all); where a batch begins follows from that alone."""
    name = str(source) if isinstance(source, str | os.PathLike) else ""
    suffix = Path(name.removesuffix(".gz")).suffix.lower()
    if suffix == ".parquet" and Path(name).is_file():
        yield from _parquet_batches(Path(name), size)
    elif name == "-" or (suffix in (".jsonl", ".ndjson") and Path(name).is_file()):
        yield from _line_batches(_source_lines(name, encoding), "stdin" if name == "-" else name, size)
    else:
        rows = read_rows(source, encoding=encoding)
        while batch := list(itertools.islice(rows, size)):
            yield RowBatch(batch)


def mappings(source: object) -> Iterable[object]:
    """What stands in an iterable, a DataFrame or a Dataset, row for row; it need not be mappings yet (make_row)."""
    pandas = sys.modules.get("pandas")  # whoever has a DataFrame has imported it
    if pandas is not None and isinstance(source, pandas.DataFrame):
        found: Iterable[object] = source.astype(object).where(source.notna(), None).to_dict("records")
        return found
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise InputError(
            f"cannot read rows from {shorten(source)}, expected a file, or rows: mappings, a "
            "DataFrame or a Dataset. Put what it holds into a list of rows",
            value=source,
        )
    return source


def _source_lines(source: str | os.PathLike[str], encoding: str) -> Iterator[str]:
    if str(source) == "-":
        return _lines(_decoded(lambda: nullcontext(sys.stdin.buffer), encoding, "stdin"))
    opener = gzip.open if str(source).endswith(".gz") else open
    return _lines(_decoded(lambda: opener(source, "rb"), encoding, str(source)))


def _line_batches(lines: Iterator[str], name: str, size: int | None) -> Iterator[RowBatch]:
    numbered = ((n, line) for n, line in enumerate(lines, 1) if not line.isspace())
    while batch := list(itertools.islice(numbered, size)):
        rows = [make_row(n, _parsed(n, line, name), name) for n, line in batch]
        yield RowBatch(rows, [line for _, line in batch])


def _parquet_batches(path: Path, size: int | None) -> Iterator[RowBatch]:
    import pyarrow as pa

    number = 0
    batches = _arrow_batches([path], str(path), size or _BATCH)
    if size is None and (read := list(batches)):
        batches = iter(pa.Table.from_batches(read).combine_chunks().to_batches())
    for table in batches:
        rows = list(_table_rows([table], str(path), {}, number))
        yield RowBatch(rows, table=table)
        number += table.num_rows


# ------------------------------------------------------------------------------------------------- bytes -> rows


def _decoded(opened: Callable[[], AbstractContextManager[Any]], encoding: str, name: str) -> Iterator[str]:
    """Chunks of text. Decoded here, not by open(), to know the byte at which a wrong encoding shows."""
    try:
        if codecs.lookup(encoding).name == "utf-8":
            encoding = "utf-8-sig"  # accepts a byte order mark
        decoder = codecs.getincrementaldecoder(encoding)()
    except LookupError:
        message = f"cannot read {name}: there is no encoding {encoding!r}, expected one such as utf-8 or cp1252"
        raise InputError(message, source=name) from None
    start, line = 0, 1  # position of the chunk in the file
    with opened() as stream:
        while True:
            try:
                chunk = stream.read(1 << 16)
            except (OSError, EOFError, zlib.error) as error:
                message = f"cannot read {name} beyond line {line}: {error}. Make or download the file again"
                raise InputError(message, source=name, line=line) from error
            pending = decoder.getstate()[0]
            try:
                text = decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                data = pending + chunk
                offset, line = start - len(pending) + error.start, line + data[: error.start].count(b"\n")
                raise InputError(
                    f"cannot read {name}: byte {offset} (line {line}) is 0x{data[error.start]:02x}, which is not "
                    f"{encoding.removesuffix('-sig')}. {_guess(data, start - len(pending))}",
                    source=name, offset=offset, line=line,
                ) from None  # fmt: skip
            if text:
                yield text
            if not chunk:
                return
            start, line = start + len(chunk), line + chunk.count(b"\n")


def _guess(data: bytes, start: int) -> str:
    if start == 0 and data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "The file starts like utf-16: pass --encoding utf-16"
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        return "Pass its encoding with --encoding NAME"
    return "It may be cp1252 (Windows, Western Europe): pass --encoding cp1252"


def _lines(chunks: Iterator[str]) -> Iterator[str]:
    """Lines with their ends. Split at \\n alone: texts may hold the other characters that str.splitlines splits at."""
    pending: list[str] = []
    for chunk in chunks:
        first, *rest = chunk.split("\n")
        pending.append(first)
        if rest:
            yield "".join(pending) + "\n"
            for line in rest[:-1]:
                yield line + "\n"
            pending = [rest[-1]]
    if last := "".join(pending):
        yield last


def _mapping_rows(rows: Iterable[tuple[int, object]], name: str, fields: dict[str, str]) -> Iterator[Row | InputError]:
    for number, values in rows:
        yield make_row(number, values, name, fields)


def make_row(number: int, values: object, name: str = "rows", fields: Mapping[str, str] = {}) -> Row | InputError:
    """The row, or why these values are none; a column that is renamed is nothing else."""
    if isinstance(values, InputError):
        return values
    if isinstance(values, Mapping):
        if fields:
            taken = {*fields, *fields.values()}
            renamed = {ours: values[theirs] for ours, theirs in fields.items() if theirs in values}
            values = {column: value for column, value in values.items() if column not in taken} | renamed
        return Row(number, values, name, fields)
    hint = ". An array of rows goes into a file named .json" if isinstance(values, list) else ""
    message = f'{name} row {number}: it is {shorten(values)}, expected an object such as {{"text": "..."}}{hint}'
    return InputError(message, source=name, row=number, value=values)


def _json_lines(lines: Iterator[str], name: str, fields: dict[str, str]) -> Iterator[Row | InputError]:
    numbered = ((number, line) for number, line in enumerate(lines, 1) if not line.isspace())
    return _mapping_rows(((number, _parsed(number, line, name)) for number, line in numbered), name, fields)


def _parsed(number: int, line: str, name: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        message = f"{name} row {number}: not JSON ({error}): {shorten(line.strip())}. Mend or remove the line"
        return InputError(message, source=name, row=number, value=line)


def _json_rows(chunks: Iterator[str], name: str, fields: dict[str, str]) -> Iterator[Row | InputError]:
    """A .json file: an array of objects, one object, or, like .jsonl, an object a line."""
    text = "".join(chunks)
    first = text.lstrip()[:1]
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        if first != "[":
            yield from _json_lines(_lines(iter([text])), name, fields)
            return
        message = f"cannot read {name}: not JSON ({error}). Mend it, or write an object a line into a .jsonl file, "
        raise InputError(message + "where a broken line costs only itself", source=name) from error
    yield from _mapping_rows(enumerate(whole if isinstance(whole, list) else [whole], 1), name, fields)


def _check_columns(columns: Sequence[str], name: str, fields: Mapping[str, str]) -> None:
    for ours, theirs in fields.items():
        if theirs not in columns:
            seen = ", ".join(map(repr, columns))
            message = f"cannot read {name}: {ours} is to be in column {theirs!r}, but its columns are {seen}"
            raise InputError(message, source=name, field=ours, value=theirs)


def _csv_rows(lines: Iterator[str], delimiter: str, name: str, fields: dict[str, str]) -> Iterator[Row | InputError]:
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_FIELD))
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    header = next(reader, [])
    if len(set(header)) < len(header):
        message = f"cannot read {name}: its header names a column twice: {header}. Rename one"
        raise InputError(message, source=name, value=header)
    if len(header) == 1 and (other := next((c for c in ";\t," if c in header[0]), None)):
        message = f"cannot read {name}: its header is one column, {header[0]!r}, separated by {other!r} rather than "
        raise InputError(message + f"{delimiter!r}. Save it as .csv with commas or .tsv with tabs", source=name)
    _check_columns(header, name, fields if header else {})

    def parsed() -> Iterator[tuple[int, object]]:
        number = 0
        while True:
            line = reader.line_num + 1
            where = f"{name} row {number + 1} (line {line})"
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                number += 1
                message = f"{where}: not CSV ({error}). Mend its quotes: a quote inside a text is doubled"
                yield number, InputError(message, source=name, row=number, line=line)
                continue
            if not cells:  # an empty line
                continue
            number += 1
            if len(cells) == len(header):
                yield number, dict(zip(header, cells, strict=True))
            else:
                message = f"{where}: {len(cells)} fields, expected {len(header)} as in the header: {shorten(cells)}"
                remedy = f"{message}. Quote texts that hold a {delimiter!r}"
                yield number, InputError(remedy, source=name, row=number, line=line, value=cells)

    yield from _mapping_rows(parsed(), name, fields)


def _table_rows(
    tables: Iterable[Any], name: str, fields: dict[str, str], number: int = 0
) -> Iterator[Row | InputError]:
    """Rows of Arrow tables or record batches, numbered through. number : of the row before the first"""

    def parsed(number: int) -> Iterator[tuple[int, object]]:
        for table in tables:
            _check_columns(table.schema.names, name, fields)
            try:
                for values in table.to_pylist():
                    number += 1
                    yield number, values
            except UnicodeDecodeError:  # Arrow does not check the strings that it stores
                for index in range(table.num_rows):
                    number += 1
                    try:
                        yield number, table.slice(index, 1).to_pylist()[0]
                    except UnicodeDecodeError as error:
                        message = f"{name} row {number}: a text is not UTF-8 ({error}). Write it again as UTF-8"
                        yield number, InputError(message, source=name, row=number)

    return _mapping_rows(parsed(number), name, fields)


def _parquet_rows(paths: Sequence[Path], name: str, fields: dict[str, str]) -> Iterator[Row | InputError]:
    return _table_rows(_arrow_batches(paths, name, _BATCH), name, fields)


def _arrow_batches(paths: Sequence[Path], name: str, size: int) -> Iterator[Any]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in paths:
        try:
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=size)
        except (pa.ArrowException, OSError) as error:
            message = f"cannot read {path}: not a whole Parquet file ({error}). Make or download it again"
            raise InputError(message, source=name) from error


def _folder_rows(path: Path, name: str, fields: dict[str, str]) -> Iterator[Row | InputError]:
    saved, splits = (path / "state.json").exists(), (path / "dataset_dict.json").exists()
    if not saved and not splits:
        files = sorted(path.rglob("*.parquet"))
        if not files:
            raise InputError(f"cannot read the folder {name}: it holds no rows, expected {FORMATS}", source=name)
        return _parquet_rows(files, name, fields)
    import datasets

    dataset: Any = datasets.load_from_disk(str(path))
    if splits:
        if len(dataset) != 1:
            message = f"cannot read {name}: it holds the splits {', '.join(dataset)}. Name one: {path / min(dataset)}"
            raise InputError(message, source=name, value=tuple(dataset))
        dataset = next(iter(dataset.values()))
    return _table_rows(dataset.with_format("arrow").iter(_BATCH), name, fields)
