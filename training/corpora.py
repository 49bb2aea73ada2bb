"""Reading the corpora: rows {"kind": article|story|dialogue, "source", "licence", "text"}."""

from __future__ import annotations

import json
import lzma
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HALVES = ("choose", "report")


def documents(corpora: Path, seed: int | list[int]) -> Iterator[dict[str, Any]]:
    """All training documents, again and again, kinds mixed, in a seeded order of shards."""
    rng = np.random.default_rng(seed)
    while True:
        shards = _shards(corpora)
        streams = {kind: _lines([paths[i] for i in rng.permutation(len(paths))]) for kind, paths in shards.items()}
        while streams:
            kind = list(streams)[rng.integers(len(streams))]
            row = next(streams[kind], None)
            if row is None:
                del streams[kind]
            else:
                yield row


def training_documents(corpora: Path, kind: str) -> Iterator[dict[str, Any]]:
    """The training documents of a kind, each once, as they come."""
    return _lines(_shards(corpora).get(kind, []))


def numbered(path: Path) -> Iterator[tuple[str, str]]:
    """The lines of a file, each behind its source: "FILE:LINE", counted from 0."""
    name = path.name.removesuffix(".jsonl.xz")
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            yield f"{name}:{number}", line


def heldout(corpora: Path, half: str) -> Iterator[dict[str, Any]]:
    """The documents of which nothing was trained on; those to choose on, or those to report on."""
    rows = list(_lines([corpora / "heldout.jsonl.xz"]))
    order = np.random.default_rng(7).permutation(len(rows))
    for index in order[HALVES.index(half) :: 2]:
        yield rows[index]


def _shards(corpora: Path) -> dict[str, list[Path]]:
    """The files of each kind of training documents, by name."""
    by_kind: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(corpora.glob("*.jsonl.xz")):
        if not path.name.startswith("heldout"):
            by_kind[path.name.split("-")[0]].append(path)
    if not by_kind:
        raise SystemExit(f"{corpora} holds no *.jsonl.xz")
    return by_kind


def _lines(paths: list[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        for _, line in numbered(path):
            yield json.loads(line)
