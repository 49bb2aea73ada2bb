"""JSON lines -> tables: CSV and Parquet, which need to know all columns before their first row is written."""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import IO, Any

from ..errors import InputError
from .separated import is_formula

GROUP = 1 << 25  # bytes of a Parquet row group, uncompressed
_ROWS = 4096  # that are converted at once


def _rows(lines: IO[bytes]) -> Iterator[list[dict[str, Any]]]:
    """Of JSON lines, from the first, some at a time."""
    lines.seek(0)
    while rows := [json.loads(line) for line in itertools.islice(lines, _ROWS)]:
        yield rows


def write_csv(lines: IO[bytes], file: IO[bytes], delimiter: str) -> None:
    """raises : InputError for half a surrogate pair"""

    def cell(value: Any) -> Any:
        if isinstance(value, str) and is_formula(value):
            return f"'{value}"
        if isinstance(value, str):
            return value
        if value is None:
            return None
        return json.dumps(value, ensure_ascii=False)

    columns = list(dict.fromkeys(column for rows in _rows(lines) for row in rows for column in row))
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    writer = csv.writer(text, delimiter=delimiter)  # lines end in \r\n, so that a lone \r in a text is quoted as well
    try:
        if columns:
            writer.writerow(columns)
        writer.writerows([cell(row.get(column)) for column in columns] for rows in _rows(lines) for row in rows)
    except UnicodeEncodeError as error:
        raise InputError(f"cannot write CSV: {error}. Write the text again as UTF-8, or write .jsonl") from error
    finally:
        text.detach()


def write_parquet(lines: IO[bytes], file: IO[bytes]) -> None:
    """raises : InputError for a column of several types, and for half a surrogate pair"""
    import pyarrow as pa

    schema, what = pa.schema([]), ""
    try:
        for rows in _rows(lines):
            for column in dict.fromkeys(column for row in rows for column in row):
                what = f"column {column!r}"
                column_schema = pa.schema([(column, pa.array([row.get(column) for row in rows]).type)])
                schema = pa.unify_schemas([schema, column_schema], promote_options="permissive")
        what = "the rows"
        writer = ParquetRows(file, schema)
        for rows in _rows(lines):
            writer.add(rows)
        writer.close()
    except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:  # a whole number of more than 64 bits
        message = f"cannot write {what} as Parquet: {error}. Give each column one type, or write .jsonl"
        raise InputError(message) from error


class ParquetRows:
    """Rows on their way into a Parquet file, in row groups that are worth their name. schema : pyarrow's"""

    def __init__(self, file: IO[bytes], schema: Any) -> None:
        import pyarrow.parquet as pq

        self.schema = schema
        self._writer = pq.ParquetWriter(file, schema)
        self._waiting: list[Any] = []

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        import pyarrow as pa

        self._waiting.append(pa.Table.from_pylist(rows, self.schema))
        if sum(table.nbytes for table in self._waiting) >= GROUP:
            self._write()

    def close(self) -> None:
        self._write()
        self._writer.close()

    def _write(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting))
        self._waiting.clear()
