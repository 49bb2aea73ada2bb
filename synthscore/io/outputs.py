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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ..errors import InputError
from .write import TABLES, gzipped, replacing, write_groups, write_stdout, write_tables

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
        targets = {name: Path(os.path.realpath(path)) for name, path in self.paths.items() if path != "-"}
        self._partials = {name: path.with_name(f"{path.name}.partial") for name, path in targets.items()}
        self._files: dict[str, IO[bytes]] = {}
        try:
            for name, partial in self._partials.items():
                self._files[name] = _locked(partial)
        except InputError:
            self._close()
            raise

    def write(self, name: str, data: bytes) -> None:
        """To one of the outputs: lines of JSON or, for all of an output, messages of an Arrow stream."""
        if name in self._files:
            self._files[name].write(data)
        else:
            write_stdout(data)
            sys.stdout.flush()

    def arrow(
        self, name: str, batch: Any, rows: Sequence[int], more: tuple[str, Mapping[str, type], Sequence[Any]] | None
    ) -> bytes:
        """Those rows of a record batch as messages of an Arrow stream, for `write`.

        more : a further column, of objects: its name, their fields (float or str), and one for each row
        """
        import pyarrow as pa

        chosen = batch.take(pa.array(rows, pa.int64()))
        columns, schema = list(chosen.columns), chosen.schema
        for index, column in enumerate(schema):
            if pa.types.is_dictionary(column.type):  # which a message does not carry
                columns[index] = columns[index].dictionary_decode()
                schema = schema.set(index, column.with_type(column.type.value_type))
        if more is not None:
            column, fields, values = more
            kinds = {float: pa.float64(), str: pa.string()}
            field = pa.field(column, pa.struct([(each, kinds[kind]) for each, kind in fields.items()]))
            index = schema.get_field_index(column)
            if index < 0:
                index, schema = len(schema), schema.append(field)
            schema = schema.set(index, field)
            columns[index : index + 1] = [pa.array(values, field.type)]
        made = pa.RecordBatch.from_arrays(columns, schema=schema)
        start = b"" if self._files[name].tell() else schema.serialize().to_pybytes()
        return start + (made.serialize().to_pybytes() if rows else b"")

    def finish(self) -> None:
        """Give all files their names. raises : InputError for rows that a format cannot hold"""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
        for name, partial in self._partials.items():
            _give_name(partial, Path(os.path.realpath(self.paths[name])))

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """What was interrupted leaves nothing behind."""
        if kind is not None:
            for partial in self._partials.values():
                partial.unlink(missing_ok=True)
        self._close()

    def _close(self) -> None:
        for file in self._files.values():
            file.close()


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


# ------------------------------------------------------------------------------------------------- partial -> whole


def _give_name(partial: Path, target: Path) -> None:
    name = target.name.lower()
    special = target.exists() and not target.is_file()  # a pipe or device
    if not special and name.endswith((".jsonl", ".ndjson")):
        os.replace(partial, target)
        return
    with replacing(target) as file:
        _convert(partial, name, file)
    partial.unlink()


def _convert(partial: Path, name: str, file: IO[bytes]) -> None:
    """name : whose ending says the format"""
    with partial.open("rb") as data:
        arrow = data.read(1) == b"\xff"  # as no JSON begins
        data.seek(0)
        if arrow:
            _to_parquet(data, file)
        elif name.endswith(TABLES):
            write_tables(lambda: _tables(partial), name, file)
        else:
            with gzipped(file) if name.endswith(".gz") else nullcontext(file) as stream:
                shutil.copyfileobj(data, stream)


def _tables(partial: Path) -> Iterator[list[dict[str, Any]]]:
    """Rows of JSON lines, some at a time."""
    with partial.open("rb") as lines:
        while table := [json.loads(line) for line in itertools.islice(lines, _ROWS)]:
            yield table


def _to_parquet(data: IO[bytes], file: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pa.ipc.open_stream(data) as stream, pq.ParquetWriter(file, stream.schema) as writer:
        write_groups(writer, (pa.Table.from_batches([batch]) for batch in stream))
