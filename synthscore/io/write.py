"""Rows to files of any format, and to stdout. A file appears whole, or not at all. Knows nothing of what rows mean.

Rows go into one file or are sorted into several, in their order, in flat memory; all files take their names at the end.
Whoever was killed begins anew, and writes over what is there: what a judge answered is in the store.
"""

from __future__ import annotations

import datetime
import gzip
import json
import math
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from decimal import Decimal
from itertools import combinations, product
from pathlib import Path
from typing import IO, Any

import numpy as np

try:
    import fcntl
except ImportError:  # Windows: nothing keeps a second process from the same file
    fcntl = None  # type: ignore[assignment]

from ..errors import InputError, require_kind
from ..types import encodable
from .formats import find_format, split_gz
from .tables import ParquetRows


def write_rows(rows: Iterable[Mapping[str, Any]], out: str | os.PathLike[str]) -> int:
    """Write rows in the format that the file's name says (io/formats.py), or as JSONL to stdout ("-"). How many.

    A file appears whole or not at all. NaN becomes null; floats keep full precision. JSONL is written as rows come.
    """
    require_format(out)
    n_rows = 0
    with sorted_into({"rows": str(out)}) as outputs:
        for row in rows:
            outputs["rows"].write_lines(json_line(row))
            n_rows += 1
    return n_rows


def require_format(out: str | os.PathLike[str]) -> None:
    """The name is one of a file that rows can be written to, or "-" for stdout. raises : InputError for another"""
    require_kind("the file to write", out, (str, os.PathLike), "a path")
    if str(out) != "-":
        find_format(out, "write")


def require_apart(
    outputs: Iterable[tuple[str, str]], others: Iterable[tuple[str, str]] = (), *, growing: Sequence[str] = ()
) -> None:
    """No output is another file of the same command: it would be destroyed, or both would be written into one another.

    outputs, others : (what a file is called, its path), also several of one name; an output "-" is none, and another
        "-" is stdin. Of others, only what is there by now can be lost: a name that is no file, such as a task's, may be
        an output's too. In a folder that is read, no file is replaced but a page (.html)
    growing : outputs that are only added to, such as a store: they may lie in a folder that is read
    raises : InputError (field "paths"), also for links to one file
    """
    written = [(name, path) for name, path in outputs if path != "-"]
    others = list(others)
    read = [(name, path) for name, path in others if os.path.isfile(path) or path == "-"]
    pairs = [(one, other) for one, other in combinations(written, 2) if one[0] != other[0]]
    for (name, path), (other, second) in [*pairs, *product(written, read)]:
        if _same_file(path, second):
            both = repr(path) if path == second else f"{path!r} and {second!r}, the same file"
            raise InputError(
                f"{name} and {other} are both {both}, expected files of their own: what is written would replace what "
                "is read, or the other output. Name another file",
                field="paths",
                value=path,
            )
        if name not in growing and _same_file(_partial_of(path), second):
            raise InputError(
                f"{name} is {path!r}, which is written as {path}.partial until it is whole, and that is {other}. Name "
                "another file",
                field="paths",
                value=path,
            )
    folders = [(name, path) for name, path in others if os.path.isdir(path)]
    replaced = [(name, path) for name, path in written if name not in growing and not path.endswith(".html")]
    for (name, path), (other, folder) in product(replaced, folders):
        if os.path.isfile(path) and Path(folder).resolve() in Path(path).resolve().parents:
            raise InputError(
                f"{name} is {path!r}, a file of the folder {folder!r} that is read ({other}), expected a file "
                "elsewhere: it would be replaced. Name another file",
                field="paths",
                value=path,
            )


def _partial_of(path: str | os.PathLike[str]) -> str:
    """What a file is called until it is whole; a link stays a link."""
    return f"{os.path.realpath(path)}.partial"


def _same_file(one: str, other: str) -> bool:
    """other : "-" is stdin, which may be read from a file"""
    if os.path.isdir(one):
        return False
    if other == "-":
        with suppress(OSError):  # there may be no stdin
            return os.path.samestat(os.stat(one), os.fstat(0))
        return False
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def write_whole(path: str | os.PathLike[str], data: bytes) -> None:
    """A file that appears whole or not at all; "-" is stdout."""
    if str(path) == "-":
        write_stdout(data)
        return
    with replacing(path) as file:
        file.write(data)


def write_stdout(data: bytes) -> None:
    """To stdout, which in a notebook takes only text."""
    if hasattr(sys.stdout, "buffer"):
        sys.stdout.buffer.write(data)
    else:
        sys.stdout.write(data.decode())
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
    partial = Path(_partial_of(target))
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


_PLAIN = (str, int, bool, type(None))


def plain(value: Any) -> Any:
    """The value in JSON's own types: NaN and infinities, which JSON does not have, as null."""
    if type(value) in _PLAIN:  # nearly all values: each of the checks below takes its time
        return value
    if isinstance(value, float | np.floating):
        number = float(value)
        if math.isfinite(number):
            return number
        return None
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    if isinstance(value, Decimal):
        return _exact(value)
    if isinstance(value, os.PathLike):
        return str(value)
    return value


def _exact(value: Decimal) -> int | float | str | None:
    """As a number of JSON where that is the same number, else as its text; NaN and infinities as null."""
    if not value.is_finite():
        return None
    if value == value.to_integral_value():
        return int(value)
    number = float(value)
    if Decimal(repr(number)) == value:
        return number
    return str(value)


def _duration(value: datetime.timedelta) -> str:
    """ISO 8601, such as P1DT2H0M3.5S; of pandas to the nanosecond."""
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    sign = ""
    if value < datetime.timedelta(0):
        sign = "-"
    value = abs(value)
    minutes, seconds = divmod(value.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{value.microseconds:06}".rstrip("0").rstrip(".")
    return f"{sign}P{value.days}DT{hours}H{minutes}M{seconds}{fraction}S"


_JSON = json.JSONEncoder(ensure_ascii=False)  # json.dumps would make one for every row
_CONTROL = re.compile("[\x80-\x9f]")  # those below 32 JSON writes as escapes


def json_line(row: Mapping[str, Any]) -> bytes:
    """A row as a line of JSONL, with its end."""
    values = plain(row)
    try:
        line = _JSON.encode(values)
    except TypeError:
        raise _no_json(values) from None
    # Of half a surrogate pair only its escape can be written; a control character would change what a terminal shows.
    if not line.isascii() and (not encodable(line) or _CONTROL.search(line)):
        line = json.dumps(values)
    return line.encode() + b"\n"


def _no_json(values: Mapping[str, Any]) -> InputError:
    """Of a row, one of whose columns holds what JSON and CSV have no form for."""
    for column, value in values.items():
        try:
            json.dumps(value)
        except TypeError as error:
            kind = str(error).removeprefix("Object of type ").partition(" ")[0]
            return InputError(
                f"cannot write column {column!r}: it holds {kind}, expected texts, numbers, dates or lists of these. "
                "Write .parquet, or leave the column out",
                field=column,
                value=value,
            )
    raise AssertionError("every column can be written")


# ------------------------------------------------------------------------------------------------- outputs


@contextmanager
def sorted_into(paths: Mapping[str, str]) -> Iterator[dict[str, Output]]:
    """Outputs by name, whose files take their names when all rows are there; what was interrupted leaves nothing
    behind.

    paths : name of an output -> its file, or "-" for stdout
    raises : InputError where another process is writing the same files, and for rows that a format cannot hold
    """
    with ExitStack() as stack:
        outputs = {name: Output(path, stack) for name, path in paths.items()}
        yield outputs
        for output in outputs.values():
            output.finish()


class Output:
    """A file that rows are written to, open in a stack; or stdout, by the path "-"."""

    def __init__(self, path: str, stack: ExitStack) -> None:
        self._stack = stack
        self._format = None if path == "-" else find_format(path, "write")
        self._typed: ParquetRows | None = None
        if self._format is None:
            return
        self._file: Any = stack.enter_context(replacing(path))
        _, is_gzipped = split_gz(path)
        if is_gzipped:  # without a name or time: equal rows, equal bytes
            self._file = stack.enter_context(gzip.GzipFile("", "wb", fileobj=self._file, mtime=0))
        self._lines: Any = self._file  # or, of a table, what it will be made of
        if not self._format.lines:
            folder = Path(path).resolve().parent
            self._lines = stack.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115

    def write_lines(self, lines: bytes) -> None:
        """Lines of JSON."""
        if self._format is None:
            write_stdout(lines)
        else:
            self._lines.write(lines)

    def write_rows(self, rows: Iterable[Mapping[str, Any]], schema: Any = None) -> None:
        """schema : pyarrow's, of all rows of the output, whose types are kept where the format can"""
        if schema is None or self._format is None or not self._format.keeps_types:
            self.write_lines(b"".join(map(json_line, rows)))
            return
        if self._typed is None:
            self._typed = ParquetRows(self._file, schema)
            self._stack.callback(self._typed.close)
        self._typed.add(list(rows))

    def finish(self) -> None:
        """Make the table of which lines were written."""
        if self._format is not None and self._format.write is not None and self._typed is None:
            self._format.write(self._lines, self._file)
