"""Ladders to rows of a released table, one row a rung, and the Parquet file that holds them.

A rung's provenance has columns for the keys that matter to readers and `extra` (JSON) for all others: nothing is lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from ..io.write import plain
from ..signature import text_hash
from ..types import Ladder

FORMAT = 1
DATA, MANIFEST, TASKS = "ladders.parquet", "manifest.json", "tasks"
MAKE = "Make ladders with: synthscore generate; of texts of your own: synthscore references import"
SPLIT = "ladders"  # the one split of the dataset
N_ROWS = 1024  # of a row group: few enough to read one for a single ladder, enough to be packed well
Key = tuple[str, str, str]  # task, context id, attribute

COLUMNS: dict[str, type] = {
    "release": str, "task": str, "context_id": str, "context": str, "facts": str, "references": list,
    "context_sha256": str, "attribute": str, "shared": bool, "n_rungs": int, "wanted": int, "level": int,
    "fraction": float,
    "text": str, "text_sha256": str, "parents": list, "status": str, "reason": str,
}  # fmt: skip
PROVENANCE: dict[str, type] = {  # the keys of a rung's provenance that have a column; all others are in `extra`
    "writer": str, "model": str, "templates": str, "template": str, "template_hash": str, "prompt_sha256": str,
    "max_new_tokens": int, "temperature": float, "top_p": float, "seed": int, "sampling_seed": int, "attempt": int,
    "finish_reason": str, "n_tokens": int, "source": str, "severity": float, "kinds": list, "key": str,
    "created_at": str,
}  # fmt: skip
NEEDED = ("task", "context_id", "attribute", "level", "text")


def ladder_rows(ladder: Ladder, release: str) -> Iterator[dict[str, Any]]:
    """A row a rung; text and its hash are null where the rung failed, and `wanted` where the ladder has all rungs.

    A ladder without its context's text keeps the text's hash, where its rungs know it.
    """
    context = ladder.context
    for rung in ladder.rungs:
        provenance: dict[str, Any] = plain(dict(rung.provenance))
        columns = {key: value for key, value in provenance.items() if _fits(value, PROVENANCE.get(key))}
        extra = {key: value for key, value in provenance.items() if key not in columns}
        context_hash = provenance.get("context_sha256")
        if context:
            context_hash = text_hash(context.text)
        elif not isinstance(context_hash, str):
            context_hash = None
        yield {
            "release": release or None,
            "task": ladder.task,
            "context_id": ladder.context_id,
            "context": context.text if context else None,
            "facts": context.facts if context else None,
            "references": list(context.references) if context else None,
            "context_sha256": context_hash,
            "attribute": ladder.attribute,
            "shared": ladder.shared,
            "n_rungs": ladder.n_rungs,
            "wanted": ladder.wanted,
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


def write_table(rows: Iterable[dict[str, Any]], file: Any) -> None:
    """The rows as Parquet, all columns in every file, equal bytes for equal rows.

    A row group holds some hundred ladders, so that one can be opened without the others.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {str: pa.string(), bool: pa.bool_(), int: pa.int64(), float: pa.float64(), list: pa.list_(pa.string())}
    columns = COLUMNS | PROVENANCE | {"extra": str}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    # A context is in every row of its ladders: a dictionary page that takes them all stores it once.
    with pq.ParquetWriter(file, schema, compression="zstd", dictionary_pagesize_limit=64 << 20) as writer:
        waiting = iter(rows)
        while group := list(islice(waiting, N_ROWS)):
            writer.write_table(pa.Table.from_pylist(group, schema))
