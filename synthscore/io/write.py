"""Rows to files: JSONL, CSV, Parquet, stdout. A file appears whole, or not at all. Knows nothing of what rows mean."""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..errors import InputError
from .fields import encodable


def write_rows(rows: Iterable[Mapping[str, Any]], out: str | os.PathLike[str]) -> int:
    """Write rows as .jsonl (or .jsonl.gz), .csv, .tsv or .parquet by suffix, or as JSONL to stdout ("-"). How many.

    A file appears whole or not at all. NaN becomes null; floats keep full precision. JSONL is written as rows come.
    """
    if str(out) == "-":
        return _write_jsonl(rows, getattr(sys.stdout, "buffer", None) or _TextOnly())
    path = Path(out)
    suffix = Path(str(path).removesuffix(".gz")).suffix.lower()
    writers: dict[str, Callable[[Iterable[Mapping[str, Any]], IO[bytes]], int]] = {
        ".jsonl": _write_jsonl,
        ".ndjson": _write_jsonl,
        ".csv": lambda rows, file: _write_csv(rows, file, ","),
        ".tsv": lambda rows, file: _write_csv(rows, file, "\t"),
        ".parquet": _write_parquet,
    }
    if suffix not in writers or (path.suffix == ".gz" and suffix not in (".jsonl", ".ndjson")):
        message = f"cannot write {path}: its format is unknown, expected .jsonl, .jsonl.gz, .csv, .tsv or .parquet"
        raise InputError(message, source=str(path))
    with replacing(path) as file:
        if path.suffix != ".gz":
            return writers[suffix](rows, file)
        with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:  # no name, no time: equal rows, equal bytes
            return _write_jsonl(rows, compressed)


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write that takes its name when it is complete; if writing fails, what was there stays."""
    target = Path(os.path.realpath(path))  # a link stays a link
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists() and not target.is_file():  # a pipe or device: never put a file in its place
        with target.open("wb") as file:
            yield file
        return
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


class _TextOnly:
    """A stdout without bytes below it, as in a notebook."""

    def write(self, data: bytes) -> int:
        return sys.stdout.write(data.decode())

    def flush(self) -> None:
        sys.stdout.flush()


def plain(value: Any) -> Any:
    """The value in JSON's own types: NaN and infinities, which JSON does not have, as null."""
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return str(value) if isinstance(value, os.PathLike) else value


def _write_jsonl(rows: Iterable[Mapping[str, Any]], file: Any) -> int:
    count = 0
    for row in rows:
        file.write(json_line(row))
        count += 1
    file.flush()
    return count


def json_line(row: Mapping[str, Any]) -> bytes:
    """A row as a line of JSONL, with its end."""
    values = plain(row)
    line = json.dumps(values, ensure_ascii=False)
    if not encodable(line):  # half a surrogate pair: only its escape can be written
        line = json.dumps(values)
    return line.encode() + b"\n"


def _columns(rows: Iterable[Mapping[str, Any]]) -> tuple[list[dict[str, Any]], list[str]]:
    table: list[dict[str, Any]] = [plain(row) for row in rows]
    return table, list(dict.fromkeys(name for row in table for name in row))


def _write_csv(rows: Iterable[Mapping[str, Any]], file: IO[bytes], delimiter: str) -> int:
    table, columns = _columns(rows)
    write_cells(table, columns, file, delimiter)
    return len(table)


def write_cells(table: Iterable[Mapping[str, Any]], columns: Sequence[str], file: IO[bytes], delimiter: str) -> None:
    """Rows of JSON's own types as CSV under these columns."""

    def cell(value: Any) -> Any:
        return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)

    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, delimiter=delimiter)  # lines end in \r\n, so that a lone \r in a text is quoted as well
    try:
        if columns:
            writer.writerow(columns)
        writer.writerows([cell(row.get(column)) for column in columns] for row in table)
    except UnicodeEncodeError as error:
        raise InputError(f"cannot write CSV: {error}. Write the text again as UTF-8, or write .jsonl") from error
    finally:
        text.detach()


def _write_parquet(rows: Iterable[Mapping[str, Any]], file: IO[bytes]) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table, columns = _columns(rows)
    arrays = [arrow_column(column, table) for column in columns]
    pq.write_table(pa.table(arrays, names=columns), file)
    return len(table)


def arrow_column(column: str, table: Sequence[Mapping[str, Any]], type_: Any = None) -> Any:
    """The column of rows of JSON's own types; type_ : what it must be, rather than what its values are."""
    import pyarrow as pa

    try:
        return pa.array([row.get(column) for row in table], type_)
    except (pa.ArrowException, UnicodeEncodeError) as error:
        message = f"cannot write column {column!r} as Parquet: {error}. Give it one type, or write .jsonl"
        raise InputError(message, field=column) from error
