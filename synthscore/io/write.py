"""Rows to files: JSONL, CSV, Parquet, stdout. A file appears whole, or not at all. Knows nothing of what rows mean.

Rows go into one file or are sorted into several, in their order, in flat memory; all files take their names at the end.
Whoever was killed begins anew, and writes over what is there: what a judge answered is in the store.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import io
import itertools
import json
import math
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

try:
    import fcntl
except ImportError:  # Windows: nothing keeps a second process from the same file
    fcntl = None  # type: ignore[assignment]

from ..errors import InputError, require_kind
from ..types import encodable
from .fields import is_formula

TABLES = (".csv", ".tsv", ".parquet")
"""Formats that need to know all columns before their first row is written."""

GROUP = 1 << 25  # bytes of a Parquet row group, uncompressed
_ROWS = 4096  # that are converted at once


def write_rows(rows: Iterable[Mapping[str, Any]], out: str | os.PathLike[str]) -> int:
    """Write rows as .jsonl (or .jsonl.gz), .csv, .tsv or .parquet by suffix, or as JSONL to stdout ("-"). How many.

    A file appears whole or not at all. NaN becomes null; floats keep full precision. JSONL is written as rows come.
    """
    require_format(out)
    n_rows = 0
    with sorted_into({"rows": str(out)}) as outputs:
        for row in rows:
            outputs.write("rows", json_line(row))
            n_rows += 1
    return n_rows


def require_format(out: str | os.PathLike[str]) -> str:
    """The name of a file that rows can be written to, in lower case. raises : InputError for another"""
    require_kind("the file to write", out, (str, os.PathLike), "a path")
    name = Path(out).name.lower()
    if name != "-" and not name.endswith((".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz", *TABLES)):
        message = f"cannot write {out}: its format is unknown, expected .jsonl, .jsonl.gz, .csv, .tsv or .parquet"
        raise InputError(f"{message}. Give it such a name", source=str(out))
    return name


def require_apart(outputs: Mapping[str, str], others: Mapping[str, str] | None = None) -> None:
    """No output is another file of the same command: it would be destroyed, or both would be written into one another.

    outputs, others : what a file is called -> its path; "-" is none, and neither is a folder. Of others, only what is a
        file by now can be lost: a name that is none, such as a task's, may be an output's too
    raises : InputError (field "paths"), also for links to one file
    """
    others = {name: path for name, path in (others or {}).items() if os.path.isfile(path)}
    files = [(name, path) for name, path in [*outputs.items(), *others.items()] if path != "-"]
    for index, (name, path) in enumerate(files[: sum(path != "-" for path in outputs.values())]):
        for other, second in files[index + 1 :]:
            if _same_file(path, second):
                both = repr(path) if path == second else f"{path!r} and {second!r}, the same file"
                raise InputError(
                    f"{name} and {other} are both {both}, expected files of their own: what is written would replace "
                    "what is read, or the other output. Name another file",
                    field="paths",
                    value=path,
                )


def _same_file(one: str, other: str) -> bool:
    if os.path.isdir(one):
        return False
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """A file that appears whole or not at all."""
    with replacing(path) as file:
        file.write(data)


def write_stdout(data: bytes) -> None:
    """To stdout, which in a notebook takes only text."""
    buffer = getattr(sys.stdout, "buffer", None)
    sys.stdout.write(data.decode()) if buffer is None else buffer.write(data)
    sys.stdout.flush()


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file to write that takes its name when it is complete; if writing fails, what was there stays. Until then it is
    FILE.partial; what a killed process left under that name is written over.

    raises : InputError where another process is writing it
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        raise InputError(f"cannot write {path}: it is a folder. Name a file in it, or another", source=str(path))
    if target.exists() and not target.is_file():  # a pipe or device: never put a file in its place
        with target.open("wb") as file:
            yield file
        return
    partial = target.with_name(f"{target.name}.partial")
    try:
        with _locked(partial) as file:
            try:
                yield file
                file.flush()
                os.fsync(file.fileno())
                if os.name == "nt":
                    file.close()
                os.replace(partial, target)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(partial)):
            raise
        raise OSError(error.errno, f"{error.strerror}; what was there is as it was", str(path)) from error


def _locked(partial: Path) -> IO[bytes]:
    """The file, empty, for this process alone."""
    while True:
        file = open(partial, "r+b", opener=lambda path, flags: os.open(path, flags | os.O_CREAT, 0o666))  # noqa: SIM115
        try:
            if fcntl is not None:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise InputError(
                f"cannot write {partial}: another process is writing it. Wait for it, or name another output",
                source=str(partial),
            ) from None
        except OSError:  # a file system without locks
            pass
        if partial.exists() and os.path.samestat(os.fstat(file.fileno()), partial.stat()):
            file.truncate()
            return file
        file.close()  # the other process gave the file its name just now


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


def json_line(row: Mapping[str, Any]) -> bytes:
    """A row as a line of JSONL, with its end."""
    values = plain(row)
    line = json.dumps(values, ensure_ascii=False)
    if not encodable(line):  # half a surrogate pair: only its escape can be written
        line = json.dumps(values)
    return line.encode() + b"\n"


# ------------------------------------------------------------------------------------------------- outputs


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
                if path.lower().endswith(".gz"):  # without a name or time: equal rows, equal bytes
                    file = stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0))
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

    def write_table(self, name: str, table: Any) -> None:
        """A table of Arrow's to a .parquet file, which keeps its types; it gets nothing else."""
        if name not in self._tables:
            self._tables[name] = ParquetTables(self._files[name], table.schema)
            self._stack.callback(self._tables[name].close)
        self._tables[name].add(table)

    def finish(self) -> None:
        """Make the tables of which lines were written."""
        for name, lines in self._lines.items():
            if (path := self.paths[name].lower()).endswith(".parquet") and name not in self._tables:
                _write_parquet(lines, self._files[name])
            elif path.endswith((".csv", ".tsv")):
                _write_csv(lines, self._files[name], "\t" if path.endswith(".tsv") else ",")


def _rows(lines: IO[bytes]) -> Iterator[list[dict[str, Any]]]:
    """Of JSON lines, from the first, some at a time."""
    lines.seek(0)
    while rows := [json.loads(line) for line in itertools.islice(lines, _ROWS)]:
        yield rows


def _write_csv(lines: IO[bytes], file: IO[bytes], delimiter: str) -> None:
    """raises : InputError for half a surrogate pair"""

    def cell(value: Any) -> Any:
        if isinstance(value, str):
            return f"'{value}" if is_formula(value) else value
        return None if value is None else json.dumps(value, ensure_ascii=False)

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


def _write_parquet(lines: IO[bytes], file: IO[bytes]) -> None:
    """raises : InputError for a column of several types, and for half a surrogate pair"""
    import pyarrow as pa

    schema, what = pa.schema([]), ""
    try:
        for rows in _rows(lines):
            for column in dict.fromkeys(column for row in rows for column in row):
                what = f"column {column!r}"
                found = pa.schema([(column, pa.array([row.get(column) for row in rows]).type)])
                schema = pa.unify_schemas([schema, found], promote_options="permissive")
        what = "the rows"
        tables = ParquetTables(file, schema)
        for rows in _rows(lines):
            tables.add(pa.Table.from_pylist(rows, schema))
        tables.close()
    except (pa.ArrowException, UnicodeEncodeError, OverflowError) as error:  # a whole number of more than 64 bits
        message = f"cannot write {what} as Parquet: {error}. Give each column one type, or write .jsonl"
        raise InputError(message) from error


class ParquetTables:
    """Arrow tables on their way into a Parquet file, joined into row groups that are worth their name."""

    def __init__(self, file: IO[bytes], schema: Any) -> None:
        import pyarrow.parquet as pq

        self._writer = pq.ParquetWriter(file, schema)
        self._waiting: list[Any] = []

    def add(self, table: Any) -> None:
        self._waiting.append(table)
        if sum(each.nbytes for each in self._waiting) >= GROUP:
            self._write()

    def close(self) -> None:
        self._write()
        self._writer.close()

    def _write(self) -> None:
        import pyarrow as pa

        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting))
        self._waiting.clear()
