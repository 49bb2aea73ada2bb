"""Files of a release: its manifest, an index of its ladders, and the ladders that are asked for, one at a time.

The index holds no texts: memory follows from how many ladders a set has, not from how long they are. Of the texts, only
those that were read last are kept.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError, LadderError, ReferencesError
from ..io.fields import parse_json
from ..io.write import write_whole
from ..resources import hub_is_reachable
from ..signature import text_hash
from ..types import Context, Ladder, Rung
from .release import DATA, FORMAT, MAKE, MANIFEST, NEEDED, PROVENANCE, TASKS, Key

INDEXED = ["task", "context_id", "attribute", "level"]
MARKS = ("wanted", "shared")
"""Columns of marks that few ladders have."""
REPEATED = ["context", "facts"]  # in every row of a context: each is held once
N_KEPT_LADDERS, N_KEPT_GROUPS = 1024, 2  # that were read last

# Arrow's own memory pool keeps what was read and given back, some 20 MB. This has an effect before its first import.
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


class LadderFile:
    """A Parquet file of ladders. A file that changes after it was opened here is an error.

    path, name : of the file; of the release, for messages
    columns : their names
    raises : ReferencesError where it is no Parquet file
    """

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self._stamp = self._read_stamp()
        with self._open() as file:
            self._metadata = file.metadata
            self.columns: list[str] = file.schema_arrow.names
        self.n_groups: int = self._metadata.num_row_groups

    def read_group(self, group: int, columns: list[str] | None = None) -> Any:
        """A pyarrow Table. raises : ReferencesError"""
        if self._read_stamp() != self._stamp:
            raise ReferencesError(
                f"{self.path} was changed after its ladders were loaded. Load them again, or repeat the command: what "
                "a judge has answered is in the store",
                source=self.name,
            )
        repeated = [column for column in REPEATED if column in self.columns]
        with self._open(metadata=self._metadata, read_dictionary=repeated) as file:
            return file.read_row_group(group, columns=columns, use_threads=False)

    @contextmanager
    def _open(self, **how: Any) -> Iterator[Any]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            # Reading ahead would start threads, which take 1 MB more and are no faster with a local file.
            with pq.ParquetFile(self.path, pre_buffer=False, **how) as file:
                yield file
        except (pa.ArrowException, OSError) as error:
            remedy = "Make or download it again" if self.path.suffix == ".parquet" else MAKE
            message = f"cannot load {self.path}: not a whole Parquet file ({error}). {remedy}"
            raise ReferencesError(message, source=self.name) from error

    def _read_stamp(self) -> tuple[int, int, int]:
        status = self.path.stat()
        return status.st_ino, status.st_size, status.st_mtime_ns


def find_files(source: str | os.PathLike[str], revision: str | None) -> list[Path]:
    """The files of a references folder, of a folder of such folders, or of a Hub dataset, which is downloaded; or the
    file that is named itself.

    raises : ReferencesError
    """
    path = Path(source)
    name = str(path)
    if not path.exists() and re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name):
        path = _download(name, revision)
    elif not path.exists():
        raise ReferencesError(f"cannot load {name}: there is no such folder. Check the path. {MAKE}", source=name)
    elif revision is not None:
        raise ReferencesError(f"{name} is a folder here, which has no revision {revision!r}. Leave that out")
    file = path / DATA if path.is_dir() else path
    if file.exists():
        return [file]
    parquet = sorted((*path.glob("*.parquet"), *path.glob("*/*.parquet")))
    if parquet and all(file.name == DATA for file in parquet):
        return parquet
    advice = MAKE
    if parquet:
        advice = f"Name one of its files, such as {parquet[0]}"
    message = f"cannot load {path}: it holds no {DATA}, so it is no references folder. {advice}"
    raise ReferencesError(message, source=str(path))


def _download(dataset: str, revision: str | None) -> Path:
    """The folder of a dataset of the Hugging Face Hub, on this machine. raises : ReferencesError"""
    import huggingface_hub

    try:
        folder = huggingface_hub.snapshot_download(
            dataset, repo_type="dataset", revision=revision, local_files_only=not hub_is_reachable()
        )
    except Exception as error:  # offline, no such dataset, no access: many types, from several libraries
        raise ReferencesError(
            f"cannot load {dataset}: there is no such folder, and no such dataset could be had from the Hugging Face "
            f"Hub ({type(error).__name__}: {error}). Check the name; when offline, download it first "
            f"(hf download --repo-type dataset {dataset} --local-dir FOLDER) and name the folder",
            source=dataset,
        ) from error
    return Path(folder)


# ------------------------------------------------------------------------------------------------- index


class RowRun(NamedTuple):
    """Neighbouring rows of a row group: from first up to, not including, end, counted from the group's beginning."""

    group: int
    first: int
    end: int


@dataclass(frozen=True, slots=True, eq=False)
class ClosedLadder:
    """What the index knows of a ladder whose texts are still in its file.

    runs : its rows there. wanted, shared : as of Ladder
    """

    task: str
    context_id: str
    attribute: str
    file: LadderFile = field(repr=False)
    runs: Sequence[RowRun] = field(repr=False)
    wanted: int | None = None
    shared: bool = False

    @property
    def n_rungs(self) -> int:
        return sum(run.end - run.first for run in self.runs)

    @property
    def scale(self) -> int:
        return self.wanted or self.n_rungs


def key_of(ladder: Ladder | ClosedLadder) -> Key:
    return (ladder.task, ladder.context_id, ladder.attribute)


def read_index(file: LadderFile) -> list[ClosedLadder]:
    """The ladders of a file, in the order in which they first appear. raises : ReferencesError"""
    if missing := [column for column in NEEDED if column not in file.columns]:
        columns_there = ", ".join(file.columns)
        raise ReferencesError(
            f"cannot load {file.name}: it has no column {', '.join(missing)}, so it holds no ladders; it has: "
            f"{columns_there}",
            source=file.name,
        )
    runs: dict[Key, tuple[RowRun, ...]] = {}
    wanted: dict[Key, int] = {}  # of the ladders that are shorter than that
    shared: set[Key] = set()
    marks = [name for name in MARKS if name in file.columns]  # files of earlier versions have none
    for group in range(file.n_groups):
        table = file.read_group(group, [*INDEXED, *marks])
        unmarked = [None] * table.num_rows
        marked = {name: table.column(name).to_pylist() for name in marks}
        n_wanted, is_shared = (marked.get(name, unmarked) for name in MARKS)
        columns = [table.column(name).to_pylist() for name in INDEXED]
        for row, (task, context_id, attribute, level) in enumerate(zip(*columns, strict=True)):
            names = (task, context_id, attribute)
            if level is None or not all(isinstance(name, str) for name in names):
                values = ", ".join(f"{name} {value!r}" for name, value in zip(INDEXED, (*names, level), strict=True))
                raise ReferencesError(
                    f"cannot load {file.name}: ladder {'/'.join(map(str, names))}: {values}: nothing tells what its "
                    "texts are for",
                    source=file.name,
                )
            key = sys.intern(task), context_id, sys.intern(attribute)
            if is_shared[row] not in (None, False, True):
                raise ReferencesError(
                    f"cannot load {file.name}: ladder {'/'.join(key)}: shared is {is_shared[row]!r:.40}, expected true "
                    "or false. Make or download it again",
                    source=file.name,
                )
            if is_shared[row]:
                shared.add(key)
            n_rungs: Any = n_wanted[row]
            if isinstance(n_rungs, int):
                wanted[key] = n_rungs
            *before, last = runs.get(key) or (RowRun(group, row, row),)
            if (last.group, last.end) == (group, row):
                runs[key] = (*before, last._replace(end=row + 1))
            else:
                runs[key] = (*before, last, RowRun(group, row, row + 1))
    ladders = []
    for key, ladder_runs in runs.items():
        ladders.append(ClosedLadder(*key, file, ladder_runs, wanted=wanted.get(key), shared=key in shared))
    return ladders


# ------------------------------------------------------------------------------------------------- ladders


@lru_cache(N_KEPT_LADDERS)
def read_ladder(ladder: ClosedLadder) -> Ladder:
    """raises : ReferencesError where a text is not the one that was hashed, or the rows make no ladder"""
    rows: list[dict[str, Any]] = []
    for run in ladder.runs:
        table = _read_group(ladder.file, run.group)
        rows += table.slice(run.first, run.end - run.first).to_pylist()
    try:
        return rows_ladder(key_of(ladder), rows, ladder.shared)
    except ReferencesError as error:
        name = ladder.file.name
        raise ReferencesError(f"cannot load {name}: ladder {error}", source=name) from error


@lru_cache(N_KEPT_GROUPS)
def _read_group(file: LadderFile, group: int) -> Any:
    return file.read_group(group)


def rows_ladder(key: Key, rows: list[dict[str, Any]], shared: bool = False) -> Ladder:
    """One ladder; sorts its rows. raises : ReferencesError, with its name"""
    task, context_id, attribute = key
    context = None
    try:
        rows.sort(key=lambda row: row["level"])
        first = rows[0]
        if first.get("context") is not None:
            _require_hash(first, "context")
            references = tuple(first.get("references") or ())
            context = _shared_context(context_id, first["context"], first.get("facts") or "", references)
        rungs = tuple(map(_rung, rows))
        return Ladder(context_id, task, attribute, rungs, context, wanted=first.get("wanted"), shared=shared)
    except (LadderError, InputError, ValueError, TypeError, AttributeError) as error:
        raise ReferencesError(f"{'/'.join(key)}: {error}") from error


_shared_context = lru_cache(N_KEPT_LADDERS)(Context)  # one object for the ladders of a context, which are neighbours


def _rung(row: Mapping[str, Any]) -> Rung:
    provenance: dict[str, Any] = {}
    for key in PROVENANCE:
        value = row.get(key)
        if type(value) is str:
            value = sys.intern(value)  # The same words in thousands of rungs are held once.
        if value is not None:
            provenance[key] = value
    if row.get("extra"):
        provenance |= parse_json(row["extra"])
    level = row["level"]
    fraction = row.get("fraction")
    if fraction is None:
        raise LadderError(f"rung {level} has no fraction")
    _require_hash(row, "text")
    return Rung(
        level=level,
        fraction=fraction,
        text=row["text"] or "",
        status=row.get("status") or "ok",
        reason=row.get("reason") or "",
        parents=tuple(row.get("parents") or ()),
        provenance=provenance,
    )


def _require_hash(row: Mapping[str, Any], column: str) -> None:
    """raises : LadderError for another text than the one that was hashed"""
    stated = row.get(f"{column}_sha256")
    if stated and stated != text_hash(row[column] or ""):
        raise LadderError(
            f"rung {row['level']}: the {column} is not the one that was hashed. Make or download it again; if the "
            f"change is meant, empty {column}_sha256"
        )


# ------------------------------------------------------------------------------------------------- manifest


def read_manifest(folder: Path) -> dict[str, Any]:
    """What manifest.json says; nothing if there is none that can be read."""
    try:
        manifest = parse_json((folder / MANIFEST).read_text(encoding="utf-8"))
        json.dumps(manifest, ensure_ascii=False).encode()  # a ValueError for half a surrogate pair
    except (OSError, ValueError):
        return {}
    if not isinstance(manifest, dict):
        return {}
    return manifest


def write_manifest(folder: Path, manifest: Mapping[str, Any]) -> None:
    write_whole(folder / MANIFEST, (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode())


def check_manifest(file: Path, name: str) -> bool:
    """Whether a manifest beside a file of ladders states the file's hash. raises : ReferencesError where that is
    another, where the format is, or where the manifest cannot be read"""
    if file.name != DATA or not file.with_name(MANIFEST).exists():
        return False
    manifest = read_manifest(file.parent)
    hashes = manifest.get("sha256")
    stated = hashes.get(DATA) if isinstance(hashes, dict) else None
    problem = ""
    if not manifest:
        problem = f"its {MANIFEST} cannot be read"
    elif manifest.get("format") != FORMAT:
        problem = f"{MANIFEST} has format {manifest.get('format')!r}, expected {FORMAT}: install another synthscore"
    elif stated and (digest := file_sha256(file)) != stated:
        problem = f"sha256 of {DATA} is {digest}, {MANIFEST} says {stated}"
    if problem:
        remedy = f'Make or download it again; if the change is meant, take "sha256" out of {MANIFEST}'
        raise ReferencesError(f"cannot load {name}: {problem}. {remedy}", source=name)
    return bool(stated)


def file_sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def holds_ladders(path: Path) -> bool:
    """False for a folder that is not there, or empty, or that a first save was killed in. raises : ReferencesError"""
    entries = path.iterdir() if path.is_dir() else ()
    names = {entry.name for entry in entries if entry.name[0] != "." and entry.suffix != ".partial"}
    if (path.exists() and not path.is_dir()) or (names - {MANIFEST, TASKS} and DATA not in names):
        message = f"cannot save ladders in {path}: it is there, and no references folder. Name a new one"
        raise ReferencesError(message, source=str(path))
    return DATA in names


def read_about(folder: Path) -> dict[str, str]:
    """Licence, description and release of a folder's ladders, which those that are added must not lose.

    raises : ReferencesError, whose `source` is the manifest, where it is missing or cannot be read
    """
    manifest = read_manifest(folder)
    if not manifest:
        raise ReferencesError(
            f"cannot add ladders to {folder}: its {MANIFEST} is missing or is no JSON object, expected the licence and "
            "description of the ladders that are there. Put it back, or save all anew, with both and overwrite=True",
            source=str(folder / MANIFEST),
        )
    return {name: str(manifest.get(name, "")) for name in ("release", "licence", "description")}
