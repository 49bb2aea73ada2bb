"""Ladders to rows of a released table and back, one row a rung, and the Parquet file or Hub dataset that holds them.

A rung's provenance has columns for the keys that matter to readers and `extra` (JSON) for all others: nothing is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import InputError, LadderError, ReferencesError
from ..io.fields import parse_json
from ..io.write import plain
from ..signature import text_hash
from ..types import Context, Ladder, Rung

DATA = "ladders.parquet"
MAKE = "Make ladders with: synthscore generate; of texts of your own: synthscore references import"
SPLIT = "ladders"  # the one split of the dataset
Key = tuple[str, str, str]  # task, context id, attribute

COLUMNS: dict[str, type] = {
    "release": str, "task": str, "context_id": str, "context": str, "facts": str, "references": list,
    "context_sha256": str, "attribute": str, "n_rungs": int, "level": int, "fraction": float, "text": str,
    "text_sha256": str, "parents": list, "status": str, "reason": str,
}  # fmt: skip
PROVENANCE: dict[str, type] = {  # the keys of a rung's provenance that have a column; all others are in `extra`
    "writer": str, "model": str, "templates": str, "template": str, "template_hash": str, "prompt_sha256": str,
    "max_new_tokens": int, "temperature": float, "top_p": float, "seed": int, "sampling_seed": int, "attempt": int,
    "finish_reason": str, "n_tokens": int, "source": str, "severity": float, "kinds": list, "key": str,
    "created_at": str,
}  # fmt: skip
NEEDED = ("task", "context_id", "attribute", "level", "text")


def ladder_rows(ladder: Ladder, release: str) -> Iterator[dict[str, Any]]:
    """A row a rung; text and its hash are null where the rung failed."""
    context = ladder.context
    for rung in ladder.rungs:
        provenance: dict[str, Any] = plain(dict(rung.provenance))
        columns = {key: value for key, value in provenance.items() if _fits(value, PROVENANCE.get(key))}
        extra = {key: value for key, value in provenance.items() if key not in columns}
        yield {
            "release": release or None,
            "task": ladder.task,
            "context_id": ladder.context_id,
            "context": context.text if context else None,
            "facts": context.facts if context else None,
            "references": list(context.references) if context else None,
            "context_sha256": text_hash(context.text) if context else None,
            "attribute": ladder.attribute,
            "n_rungs": ladder.n_rungs,
            "level": rung.level,
            "fraction": rung.fraction,
            "text": rung.text or None,
            "text_sha256": text_hash(rung.text) if rung.text else None,
            "parents": list(rung.parents),
            "status": rung.status,
            "reason": rung.reason,
            **columns,
            "extra": json.dumps(extra, ensure_ascii=False, sort_keys=True) if extra else None,
        }


def _fits(value: object, kind: type | None) -> bool:
    """Whether a column gives the value back exactly as it was."""
    if kind is list:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63
    return kind is not None and isinstance(value, kind)


def write_table(rows: list[dict[str, Any]], file: Any) -> None:
    """The rows as Parquet, all columns in every file, equal bytes for equal rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {str: pa.string(), int: pa.int64(), float: pa.float64(), list: pa.list_(pa.string())}
    columns = COLUMNS | PROVENANCE | {"extra": str}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    # A context is in every row of its ladders: a dictionary page that takes them all stores it once.
    pq.write_table(
        pa.Table.from_pylist(rows, schema), file, compression="zstd", dictionary_pagesize_limit=64 << 20
    )  # fmt: skip


def source_rows(source: str | Path, revision: str | None) -> list[dict[str, Any]]:
    """The rows of a references folder, a Parquet file or a Hub dataset. raises : ReferencesError"""
    path, name = Path(source), str(source)
    if path.exists():
        import pyarrow as pa
        import pyarrow.parquet as pq

        if revision is not None:
            raise ReferencesError(f"{name} is a folder here, which has no revision {revision!r}; leave it out")
        file = path / DATA if path.is_dir() else path
        if not file.exists():
            held = sorted((*path.glob("*.parquet"), *path.glob("*/*.parquet")))
            advice = f". Name one of its files, such as {held[0]}" if held else ""
            advice = advice or f". {MAKE}"
            message = f"cannot load {name}: it holds no {DATA}, so it is no references folder{advice}"
            raise ReferencesError(message, source=name)
        try:
            with pq.ParquetFile(file) as parquet:
                table = parquet.read()
        except (pa.ArrowException, OSError) as error:
            remedy = "Make or download it again" if file.suffix == ".parquet" else MAKE
            message = f"cannot load {file}: not a whole Parquet file ({error}). {remedy}"
            raise ReferencesError(message, source=name) from error
    elif re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name):
        table = _hub_table(name, revision)
    else:
        raise ReferencesError(f"cannot load {name}: there is no such folder. Check the path. {MAKE}", source=name)
    if missing := [column for column in NEEDED if column not in table.column_names]:
        seen = ", ".join(table.column_names)
        message = f"cannot load {name}: it has no column {', '.join(missing)}, so it holds no ladders; it has: {seen}"
        raise ReferencesError(message, source=name)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _hub_table(name: str, revision: str | None) -> Any:
    import datasets

    try:
        splits: Any = datasets.load_dataset(name, revision=revision)
    except Exception as error:  # offline, no such dataset, no access: many types, from three libraries
        raise ReferencesError(
            f"cannot load {name}: there is no such folder, and no such dataset could be had from the Hugging Face Hub "
            f"({type(error).__name__}: {error}). Check the name; when offline, download it first "
            f"(hf download --repo-type dataset {name} --local-dir FOLDER) and name the folder",
            source=name,
        ) from error
    if SPLIT not in splits and len(splits) > 1:
        message = f"cannot load {name}: it has the splits {', '.join(splits)}, expected one named {SPLIT}"
        raise ReferencesError(message, source=name)
    return splits[SPLIT if SPLIT in splits else next(iter(splits))].with_format("arrow")[:]


def key_of(ladder: Ladder) -> Key:
    return (ladder.task, ladder.context_id, ladder.attribute)


def grouped(rows: Iterable[dict[str, Any]]) -> dict[Key, list[dict[str, Any]]]:
    """The rows of each ladder, in the order in which they come."""
    groups: dict[Key, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["task"], row["context_id"], row["attribute"]), []).append(row)
    return groups


def rows_ladders(rows: Iterable[dict[str, Any]], name: str) -> tuple[Ladder, ...]:
    """The ladders that rows hold, in the order in which they first appear. raises : ReferencesError"""
    contexts: dict[Context, Context] = {}  # one object a context, however many rows carry it
    try:
        return tuple(rows_ladder(key, group, contexts) for key, group in grouped(rows).items())
    except ReferencesError as error:
        raise ReferencesError(f"cannot load {name}: ladder {error}", source=name) from error


def rows_ladder(key: Key, group: list[dict[str, Any]], contexts: dict[Context, Context]) -> Ladder:
    """One ladder; sorts its rows. contexts : those that are known, and more. raises : ReferencesError, with its name"""
    (task, context_id, attribute), context = key, None
    if None in key or any(row["level"] is None for row in group):
        seen = ", ".join(f"{column} {group[0][column]!r}" for column in NEEDED[:-1])
        raise ReferencesError(f"{'/'.join(map(str, key))}: {seen}: nothing tells what its texts are for")
    try:
        group.sort(key=lambda row: row["level"])
        first = group[0]
        if first.get("context") is not None:
            _require_hash(first, "context")
            references = tuple(first.get("references") or ())
            context = Context(context_id, first["context"], first.get("facts") or "", references)
            context = contexts.setdefault(context, context)
        return Ladder(context_id, task, attribute, tuple(map(_rung, group)), context)
    except (LadderError, InputError, ValueError, TypeError, AttributeError) as error:
        raise ReferencesError(f"{'/'.join(key)}: {error}") from error


def _rung(row: Mapping[str, Any]) -> Rung:
    provenance = {key: row[key] for key in PROVENANCE if row.get(key) is not None}
    provenance |= parse_json(row["extra"]) if row.get("extra") else {}
    level, fraction = row["level"], row.get("fraction")
    if fraction is None:
        raise LadderError(f"rung {level} has no fraction")
    _require_hash(row, "text")
    text, parents = row["text"] or "", tuple(row.get("parents") or ())
    return Rung(level, fraction, text, row.get("status") or "ok", row.get("reason") or "", parents, provenance)


def _require_hash(row: Mapping[str, Any], column: str) -> None:
    """raises : LadderError for another text than the one that was hashed"""
    if (stated := row.get(f"{column}_sha256")) and stated != text_hash(row[column] or ""):
        raise LadderError(
            f"rung {row['level']}: the {column} is not the one that was hashed. Make or download it again; if the "
            f"change is meant, empty {column}_sha256"
        )
