"""Rows sorted into files, a batch at a time: in their order, in flat memory; all files take their names at the end.

Until all rows are there, FILE is FILE.partial. Whoever was killed begins anew, and writes over it: what a judge
answered is in the store. Knows nothing of what rows mean.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ..errors import InputError
from .write import TABLES, ParquetTables, gzipped, replacing, write_stdout, write_tables

try:
    import fcntl
except ImportError:  # Windows: nothing keeps a second process from the same files
    fcntl = None  # type: ignore[assignment]

_ROWS = 4096  # that are converted at once


class Outputs:
    """Files that take their names when all rows are there.

    paths : name of an output -> its file, or "-" for stdout
    raises : InputError where another process is writing the same files
    """

    def __init__(self, paths: Mapping[str, str]) -> None:
        self.paths = dict(paths)
        self._targets = {name: Path(os.path.realpath(path)) for name, path in paths.items() if path != "-"}
        self._files: dict[str, IO[bytes]] = {}
        self._tables: dict[str, ParquetTables] = {}
        try:
            for name, target in self._targets.items():
                self._files[name] = _locked(_partial(target))
        except InputError:
            self._close()
            raise

    def write(self, name: str, lines: bytes) -> None:
        """Lines of JSON to one of the outputs."""
        if name in self._files:
            self._files[name].write(lines)
        else:
            write_stdout(lines)
            sys.stdout.flush()

    def write_table(self, name: str, table: Any) -> None:
        """A table of Arrow's to a .parquet file, which keeps its types; it gets nothing else."""
        if name not in self._tables:
            self._tables[name] = ParquetTables(self._files[name], table.schema)
        self._tables[name].add(table)

    def finish(self) -> None:
        """Give all files their names. raises : InputError for rows that a format cannot hold"""
        for tables in self._tables.values():
            tables.close()
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        for name, target in self._targets.items():
            _give_name(_partial(target), target, name in self._tables)

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """What was interrupted leaves nothing behind."""
        if kind is not None:
            for target in self._targets.values():
                _partial(target).unlink(missing_ok=True)
        self._close()

    def _close(self) -> None:
        for tables in self._tables.values():
            tables.close()
        for file in self._files.values():
            file.close()


def _partial(target: Path) -> Path:
    return target.with_name(f"{target.name}.partial")


def _locked(partial: Path) -> IO[bytes]:
    """The file, empty, for this process alone."""
    partial.parent.mkdir(parents=True, exist_ok=True)
    while True:
        file = os.fdopen(os.open(partial, os.O_RDWR | os.O_CREAT, 0o666), "r+b")
        try:
            if fcntl is not None:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise InputError(
                f"cannot write {partial}: another process is writing it. Wait for it, or name another output",
                source=str(partial),
            ) from None
        if partial.exists() and os.path.samestat(os.fstat(file.fileno()), partial.stat()):
            file.truncate()
            return file
        file.close()  # the other process gave the file its name just now


def _give_name(partial: Path, target: Path, is_table: bool) -> None:
    """is_table : it holds Parquet, and not lines of JSON"""
    name = target.name.lower()
    special = target.exists() and not target.is_file()  # a pipe or device
    if not special and (is_table or name.endswith((".jsonl", ".ndjson"))):
        os.replace(partial, target)
        return
    with replacing(target) as file:
        if name.endswith(TABLES) and not is_table:
            write_tables(lambda: _rows(partial), name, file)
        else:
            with partial.open("rb") as data, gzipped(file) if name.endswith(".gz") else nullcontext(file) as stream:
                shutil.copyfileobj(data, stream)
    partial.unlink()


def _rows(partial: Path) -> Iterator[list[dict[str, Any]]]:
    """Of JSON lines, some at a time."""
    with partial.open("rb") as lines:
        while rows := [json.loads(line) for line in itertools.islice(lines, _ROWS)]:
            yield rows
