"""Rows sorted into files, a batch at a time: in their order, in flat memory, and a killed run goes on where it was.

Until all rows are there, FILE is FILE.partial, and a journal beside it says how many rows of the input are done, and
how long each file was then, with its checksum. Whoever goes on cuts the files to that length. Knows nothing of what
rows mean.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import shutil
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from ..errors import InputError
from .write import arrow_column, replacing, write_cells

try:
    import fcntl
except ImportError:  # Windows: nothing keeps a second process from the same files
    fcntl = None  # type: ignore[assignment]

JOURNAL_S = 1.0  # how often the journal is written: what a killed run loses, but for the batch that it was in
_ROWS = 4096  # that are converted at once
_GROUP = 1 << 25  # bytes of a Parquet row group, uncompressed


class Outputs:
    """Files that take their names when all rows are there.

    paths : name of an output -> its file, or "-" for stdout; the first one's name is the journal's
    run : what the rows follow from, hashed: a run with the same goes on with what is there. "": begin anew
    n_rows, state : of the input, how many rows are done, and what the earlier run counted in them; 0 and {} at first
    discarded : rows of another run, that were there and are begun anew
    raises : InputError where another process is writing the same files
    """

    def __init__(self, paths: Mapping[str, str], run: str = "") -> None:
        self.paths, self.run = dict(paths), run
        self.n_rows, self.discarded = 0, 0
        self.state: dict[str, Any] = {}
        self._state = "{}"
        self._whole = False
        self._saved_at = time.monotonic()
        targets = {name: Path(os.path.realpath(path)) for name, path in self.paths.items() if path != "-"}
        self._partials = {name: path.with_name(f"{path.name}.partial") for name, path in targets.items()}
        first = next(iter(self.paths))
        self._journal = Path(f"{self._partials[first]}.json") if run and first in targets else None
        self._files: dict[str, IO[bytes]] = {}
        try:
            for name, partial in self._partials.items():
                self._files[name] = _locked(partial)
        except InputError:
            for file in self._files.values():
                file.close()
            raise
        self._crcs = dict.fromkeys(self._files, 0)
        self._ends = {name: [0, 0] for name in self._files}  # size and checksum at the last commit
        self._read_journal()
        for name, file in self._files.items():
            size, self._crcs[name] = self._ends[name]
            file.truncate(size)
            file.seek(size)

    def write(self, name: str, data: bytes) -> None:
        """To one of the outputs: lines of JSON or, for all of an output, messages of an Arrow stream."""
        if name in self._files:
            self._files[name].write(data)
            self._crcs[name] = zlib.crc32(data, self._crcs[name])
        elif (buffer := getattr(sys.stdout, "buffer", None)) is not None:
            buffer.write(data)
        else:
            sys.stdout.write(data.decode())

    def arrow(
        self, name: str, batch: Any, rows: Sequence[int], more: tuple[str, Mapping[str, type], Sequence[Any]] | None
    ) -> bytes:
        """Those rows of a record batch as messages of an Arrow stream, for `write`.

        more : a further column, of objects: its name, their fields (float or str), and one for each row
        """
        import pyarrow as pa

        chosen = batch.take(pa.array(rows, pa.int64()))
        columns, schema = list(chosen.columns), chosen.schema
        for place, column in enumerate(schema):
            if pa.types.is_dictionary(column.type):  # which a message does not carry
                columns[place] = columns[place].dictionary_decode()
                schema = schema.set(place, column.with_type(column.type.value_type))
        if more is not None:
            column, fields, values = more
            kinds = {float: pa.float64(), str: pa.string()}
            field = pa.field(column, pa.struct([(each, kinds[kind]) for each, kind in fields.items()]))
            place = schema.get_field_index(column)
            if place < 0:
                place, schema = len(schema), schema.append(field)
            schema = schema.set(place, field)
            columns[place : place + 1] = [pa.array(values, field.type)]
        made = pa.RecordBatch.from_arrays(columns, schema=schema)
        start = b"" if self._files[name].tell() else schema.serialize().to_pybytes()
        return start + (made.serialize().to_pybytes() if rows else b"")

    def commit(self, n_rows: int, state: Mapping[str, Any]) -> None:
        """n_rows rows of the input are done; state : JSON, given back to whoever goes on from here."""
        self.n_rows, self._state = n_rows, json.dumps(state)  # as it is now
        self._ends = {name: [file.tell(), self._crcs[name]] for name, file in self._files.items()}
        if "-" in self.paths.values():
            sys.stdout.flush()
        if time.monotonic() - self._saved_at >= JOURNAL_S:
            self._save()

    def finish(self) -> None:
        """Give all files their names. raises : InputError for rows that a format cannot hold"""
        self._whole = True
        self._save()
        try:
            for name, partial in self._partials.items():
                _give_name(partial, Path(os.path.realpath(self.paths[name])))
        except InputError:
            self.n_rows = 0  # nothing to go on with: the same rows would fail again
            raise
        if self._journal is not None:
            self._journal.unlink(missing_ok=True)

    def __enter__(self) -> Outputs:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """What was interrupted stays as it was at the last commit, or goes where it could not be gone on with."""
        if kind is not None and self.n_rows and self._journal is not None:
            self._save()
        elif kind is not None:
            for left in (*self._partials.values(), *([self._journal] if self._journal else ())):
                left.unlink(missing_ok=True)
        for file in self._files.values():
            file.close()

    def _save(self) -> None:
        if self._journal is None:
            for file in self._files.values():
                file.flush()
            return
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())  # what the journal says is there must be there first
        content = {"run": self.run, "n_rows": self.n_rows, "whole": self._whole, "ends": self._ends}
        new = Path(f"{self._journal}.new")
        with new.open("wb") as journal:
            journal.write(json.dumps({**content, "state": self._state}).encode())
            journal.flush()
            os.fsync(journal.fileno())
        os.replace(new, self._journal)
        self._saved_at = time.monotonic()

    def _read_journal(self) -> None:
        if self._journal is None or not self._journal.exists():
            return
        try:
            saved = json.loads(self._journal.read_bytes())
            ends, whole = dict(saved["ends"]), bool(saved["whole"])
            other = [name for name, file in self._files.items() if not _begins(file, *ends[name])]
            named = [name for name in other if whole and not self._partials[name].stat().st_size]
        except (ValueError, KeyError, TypeError):
            return  # not a journal of these files: nothing is known of their rows
        if saved["run"] != self.run or other != named:
            self.discarded = saved["n_rows"]
            return
        self.n_rows, self._state, self._ends, self._whole = saved["n_rows"], saved["state"], ends, whole
        self.state = json.loads(self._state)
        for name in named:  # the run before was killed when it had given this one its name
            self._files.pop(name).close()
            self._partials.pop(name).unlink()


def _begins(file: IO[bytes], size: int, crc: int) -> bool:
    """The file has so many bytes, or more, and the first of them have this checksum."""
    found, left = 0, size
    file.seek(0)
    while left and (data := file.read(min(left, 1 << 20))):
        found, left = zlib.crc32(data, found), left - len(data)
    return not left and found == crc


def _locked(partial: Path) -> IO[bytes]:
    """The file, made where there is none, for this process alone."""
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
    if name.endswith(".parquet"):
        _to_parquet(partial, file)
    elif name.endswith((".csv", ".tsv")):
        columns = dict.fromkeys(column for table in _tables(partial) for row in table for column in row)
        rows = (row for table in _tables(partial) for row in table)
        write_cells(rows, list(columns), file, "," if name.endswith(".csv") else "\t")
    else:
        with partial.open("rb") as lines:
            if name.endswith(".gz"):
                with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:  # no name, no time
                    shutil.copyfileobj(lines, compressed)
            else:
                shutil.copyfileobj(lines, file)


def _tables(partial: Path) -> Iterator[list[dict[str, Any]]]:
    """Rows of JSON lines, some at a time."""
    with partial.open("rb") as lines:
        while table := [json.loads(line) for line in itertools.islice(lines, _ROWS)]:
            yield table


def _to_parquet(partial: Path, file: IO[bytes]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with partial.open("rb") as data:
        arrow = data.read(1) == b"\xff"  # as no JSON begins
        data.seek(0)
        if arrow:
            with pa.ipc.open_stream(data) as stream, pq.ParquetWriter(file, stream.schema) as writer:
                _write_groups(writer, (pa.Table.from_batches([batch]) for batch in stream))
            return
    schema = pa.schema([])
    for table in _tables(partial):
        for column in dict.fromkeys(column for row in table for column in row):
            found = pa.schema([(column, arrow_column(column, table).type)])
            try:
                schema = pa.unify_schemas([schema, found], promote_options="permissive")
            except pa.ArrowException as error:
                message = f"cannot write column {column!r} as Parquet: {error}. Give it one type, or write .jsonl"
                raise InputError(message, field=column) from error
    with pq.ParquetWriter(file, schema) as writer:
        made = ([arrow_column(field.name, table, field.type) for field in schema] for table in _tables(partial))
        _write_groups(writer, (pa.table(columns, schema=schema) for columns in made))


def _write_groups(writer: Any, tables: Iterable[Any]) -> None:
    """Tables, joined into row groups that are worth their name."""
    import pyarrow as pa

    waiting: list[Any] = []
    for table in tables:
        waiting.append(table)
        if sum(each.nbytes for each in waiting) >= _GROUP:
            writer.write_table(pa.concat_tables(waiting))
            waiting = []
    if waiting:
        writer.write_table(pa.concat_tables(waiting))
