"""Reading the corpora: rows {"kind": article|story|dialogue, "source", "licence", "text"}.

    python -m training.corpora CORPORA [--benchmark FILE.jsonl.gz]

Prints what they hold, by kind, source and licence: the counts of training/SOURCES.md. With --benchmark: of how many of
its contexts the conversation, or the facts, share eight words in a row with what was trained on.
"""

from __future__ import annotations

import argparse
import gzip
import json
import lzma
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from synthscore.checking.counts import words_of

RUN = 8  # words in a row
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


def holdings(rows: Iterable[Mapping[str, Any]]) -> list[tuple[str, str, str, int, float]]:
    """(kind, source, licence, documents, megabytes of text), the largest of a kind first."""
    n_documents: Counter[tuple[str, str, str]] = Counter()
    n_bytes: Counter[tuple[str, str, str]] = Counter()
    for row in rows:
        key = (row["kind"], row["source"], row["licence"])
        n_documents[key] += 1
        n_bytes[key] += len(row["text"].encode())
    found = [(*key, n, round(n_bytes[key] / 1e6, 2)) for key, n in n_documents.items()]
    return sorted(found, key=lambda row: (row[0], -row[4]))


def runs(text: str) -> set[tuple[str, ...]]:
    """All eight words in a row of a text."""
    words = words_of(text)
    return {tuple(words[start : start + RUN]) for start in range(len(words) - RUN + 1)}


def shared(contexts: Mapping[str, str], documents: Iterable[str]) -> dict[str, int]:
    """How many runs of each text occur in the documents."""
    wanted = {name: runs(text) for name, text in contexts.items()}
    anywhere = set().union(*wanted.values())
    there: set[tuple[str, ...]] = set()
    for text in documents:
        there |= runs(text) & anywhere
    return {name: len(mine & there) for name, mine in wanted.items()}


def all_documents(corpora: Path) -> Iterator[dict[str, Any]]:
    """Training documents of all kinds, and then those held out."""
    for kind in _shards(corpora):
        yield from training_documents(corpora, kind)
    yield from _lines([corpora / "heldout.jsonl.xz"])


def _print_shared(corpora: Path, benchmark: Path) -> None:
    with gzip.open(benchmark, "rt", encoding="utf-8") as lines:
        rows = {row["context_id"]: row for row in map(json.loads, lines)}
    by_source: dict[str, list[str]] = defaultdict(list)
    for kind in _shards(corpora):
        for row in training_documents(corpora, kind):
            by_source[row["source"]].append(row["text"])
    for field in ("context", "facts"):
        texts = {name: row.get(field) or "" for name, row in rows.items()}
        for source, documents in sorted(by_source.items()):
            if n_shared := sum(n > 0 for n in shared(texts, documents).values()):
                print(f"{field} of {n_shared} of {len(texts)} contexts: {RUN} words in a row as in {source}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path)
    parser.add_argument("--benchmark", type=Path)
    args = parser.parse_args()
    if args.benchmark:
        _print_shared(args.corpora, args.benchmark)
        return
    for kind, source, licence, n_documents, megabytes in holdings(all_documents(args.corpora)):
        print(f"| {kind} | {source} | {licence} | {n_documents:,} | {megabytes:.2f} |")


if __name__ == "__main__":
    main()
