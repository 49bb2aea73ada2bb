"""Rows sorted into files, a batch at a time: in their order, in flat memory; all files take their names at the end.

Whoever was killed begins anew, and writes over what is there: what a judge answered is in the store. Knows nothing of
what rows mean.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from .write import TABLES, ParquetTables, gzipped, replacing, write_stdout, write_tables

_ROWS = 4096  # that are converted at once


@contextmanager
def sorted_into(paths: Mapping[str, str]) -> Iterator[Outputs]:
    """Files that take their names when all rows are there; what was interrupted leaves nothing behind.

    paths : name of an output -> its file, or "-" for stdout
    raises : InputError where another process is writing the same files, and for rows that a format cannot hold
    """
    with ExitStack() as stack:
        outputs = Outputs(paths, stack)
        yield outputs
        outputs.finish()


class Outputs:
    """Files that are open in a stack. paths : as of `sorted_into`"""

    def __init__(self, paths: Mapping[str, str], stack: ExitStack) -> None:
        self.paths, self._stack = dict(paths), stack
        self._files: dict[str, IO[bytes]] = {}
        self._lines: dict[str, IO[bytes]] = {}  # the same; or, of tables, what they will be made of
        self._tables: dict[str, ParquetTables] = {}
        for name, path in self.paths.items():
            if path != "-":
                file: Any = stack.enter_context(replacing(path))
                self._files[name] = file
                if path.lower().endswith(".gz"):
                    file = stack.enter_context(gzipped(file))
                elif path.lower().endswith(TABLES):
                    lines = tempfile.TemporaryFile(dir=Path(path).resolve().parent)  # noqa: SIM115
                    file = stack.enter_context(lines)
                self._lines[name] = file

    def write(self, name: str, lines: bytes) -> None:
        """Lines of JSON to one of the outputs."""
        if name in self._lines:
            self._lines[name].write(lines)
        else:
            write_stdout(lines)
            sys.stdout.flush()

    def write_table(self, name: str, table: Any) -> None:
        """A table of Arrow's to a .parquet file, which keeps its types; it gets nothing else."""
        if name not in self._tables:
            self._tables[name] = ParquetTables(self._files[name], table.schema)
            self._stack.callback(self._tables[name].close)
        self._tables[name].add(table)

    def finish(self) -> None:
        """Make the tables of which lines were written."""
        for name, lines in self._lines.items():
            if self.paths[name].lower().endswith(TABLES) and name not in self._tables:
                write_tables(partial(_rows, lines), self.paths[name].lower(), self._files[name])


def _rows(lines: IO[bytes]) -> Iterator[list[dict[str, Any]]]:
    """Of JSON lines, from the first, some at a time."""
    lines.seek(0)
    while rows := [json.loads(line) for line in itertools.islice(lines, _ROWS)]:
        yield rows
