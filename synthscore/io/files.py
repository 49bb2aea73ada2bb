"""Files of any format, folders, pipes and mappings to rows, in batches. Knows nothing of formats, or what rows mean.

A row that cannot be read is handed on as an `InputError` between its good neighbours; only what makes a whole source
unusable (missing, wrong encoding, no such format) is raised.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from ..errors import InputError
from .fields import Row, mappings
from .formats import (
    RowBatch,
    find_format,
    list_formats,
    make_batches,
    parquet_tables,
    read_jsonl,
    table_batches,
    unreadable,
)

BATCH = 1024  # rows that are held at once

T = TypeVar("T")
Source = str | os.PathLike[str] | Iterable[Mapping[str, Any]]
"""A file, folder or pipe of rows; or rows: mappings, a pandas DataFrame, a datasets.Dataset."""


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
    batches = read_batches(source, BATCH, encoding=encoding, fields=fields)
    return itertools.chain.from_iterable(batch.rows for batch in batches)


def read_batches(
    source: Source, size: int, *, encoding: str = "utf-8", fields: Mapping[str, str] | None = None
) -> Iterator[RowBatch]:
    """The rows of `read_rows`, at most `size` at a time; where a batch begins follows from that alone."""
    fields = dict(fields or {})
    if not isinstance(source, str | os.PathLike):
        return make_batches(enumerate(mappings(source), 1), size, "rows", fields)
    path, name = Path(source), str(source)
    if name == "-":
        return read_jsonl(name, size, encoding, fields)
    if not name:
        raise InputError("cannot read a file without a name. Check the variable that was to hold it", source=name)
    if not path.exists():
        raise unreadable(name, "there is no such file or folder. Check the path")
    if path.is_dir():
        return _folder_batches(path, size, name, fields)
    return find_format(name, "read").read(name, size, encoding, fields)


def _folder_batches(path: Path, size: int, name: str, fields: dict[str, str]) -> Iterator[RowBatch]:
    saved, splits = (path / "state.json").exists(), (path / "dataset_dict.json").exists()
    if not saved and not splits:
        files = sorted(path.rglob("*.parquet"))
        if not files:
            raise unreadable(name, f"the folder holds no rows, expected {list_formats('read')}")
        batches = table_batches(parquet_tables(files, size), name, fields)
        return (RowBatch(batch.rows) for batch in batches)  # files may differ in their columns
    import datasets

    try:
        dataset: Any = datasets.load_from_disk(str(path))
    except Exception as error:  # many types, from two libraries
        raise unreadable(name, f"not a whole datasets folder ({error}). Make or download it again") from error
    if splits:
        if len(dataset) != 1:
            why = f"it holds the splits {', '.join(dataset)}. Name one: {path / min(dataset)}"
            raise unreadable(name, why, value=tuple(dataset))
        dataset = next(iter(dataset.values()))
    return table_batches(dataset.with_format("arrow").iter(size), name, fields)
