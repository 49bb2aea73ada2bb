"""What is wrong with a release, and how two sets of ladders differ, in words. Judges nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..errors import ReferencesError
from ..io.fields import shorten
from ..signature import text_hash
from ..types import Ladder
from .references import FORMAT, MANIFEST, References, file_sha256, read_manifest
from .release import DATA, Key, grouped, key_of, ladder_rows, rows_ladder, rows_ladders, source_rows

_WRONG = {
    "text_sha256": "the text is not the one that was hashed",
    "context_sha256": "the context is not the one that was hashed",
}
_COLUMNS = ("n_rungs", "fraction", "text_sha256", "context", "context_sha256")  # that follow from the others


def verify(folder: str | os.PathLike[str]) -> list[str]:
    """What is wrong with a release, in words; nothing if it is what its hashes say and each ladder is complete.

    raises : ReferencesError if there is no release to look at.
    """
    path = Path(folder)
    try:
        rows = source_rows(path, None)
    except ReferencesError as error:
        if not (path / DATA if path.is_dir() else path).exists():
            raise
        return [str(error)]
    problems = [problem for key, group in grouped(rows).items() for problem in _ladder_problems(key, group)]
    texts: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        texts.setdefault((row["task"], row["context_id"]), set()).add(row.get("context") or "")
    for (task, context_id), found in texts.items():
        if len(found - {""}) > 1:
            problems.append(f"{task}/{context_id}: {len(found - {''})} different contexts have this id")
    if path.is_dir():
        problems += _manifest_problems(path, rows)
    if path.is_dir() and not problems:  # each row is right: is the whole?
        total, said = References(rows_ladders(rows, str(path))).hash, read_manifest(path).get("hash")
        problems += [f"the hash of all texts is {total}, {MANIFEST} says {said}"] * (said != total)
    return problems


def _ladder_problems(key: Key, group: list[dict[str, Any]]) -> Iterator[str]:
    """Where the rows of a ladder are not those that it would be saved as."""
    name = "/".join(map(str, key))
    try:
        ladder = rows_ladder(key, group)
    except ReferencesError as error:
        yield str(error)
        return
    levels = {text_hash(rung.text): rung.level for rung in ladder.usable}
    for row, rung, expected in zip(group, ladder.rungs, ladder_rows(ladder, ""), strict=True):
        where = f"{name} rung {rung.level}"
        expected["fraction"] = (rung.level - 1) / (ladder.n_rungs - 1)
        for column in _COLUMNS:
            seen, value = row.get(column), expected[column]
            if abs(seen - value) > 1e-9 if column == "fraction" else seen != value:
                yield f"{where}: {_WRONG.get(column, f'{column} is {shorten(seen)}, expected {shorten(value)}')}"
        parents = [levels.get(parent, 0) for parent in rung.parents]
        if 0 in parents:
            yield f"{where}: written between texts that are no longer in its ladder"
        elif parents and (len(parents) != 2 or not parents[0] < rung.level < parents[1]):
            yield f"{where}: its parents are rungs {parents}, expected a worse, a better"


def _manifest_problems(path: Path, rows: list[dict[str, Any]]) -> list[str]:
    manifest = read_manifest(path)
    if not manifest:
        return [f"{MANIFEST} is missing or not JSON: nothing says what {DATA} should hold"]
    if manifest.get("format") != FORMAT:
        return [f"{MANIFEST} has format {manifest.get('format')!r}, expected {FORMAT}: install another synthscore"]
    hashes = manifest.get("sha256")
    found = {
        f"sha256 of {DATA}": (hashes.get(DATA) if isinstance(hashes, dict) else None, file_sha256(path / DATA)),
        "n_rows": (manifest.get("n_rows"), len(rows)),
        "n_ladders": (manifest.get("n_ladders"), len(grouped(rows))),
    }
    return [f"{name} is {has}, {MANIFEST} says {said}" for name, (said, has) in found.items() if said != has]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two sets of ladders. levels : the rungs that it is about; empty for the whole ladder."""

    kind: Literal["added", "removed", "text", "status", "provenance", "context", "n_rungs"]
    task: str
    context_id: str
    attribute: str
    levels: tuple[int, ...] = ()

    def __str__(self) -> str:
        name = f"{self.task}/{self.context_id}/{self.attribute}"
        if self.kind in ("added", "removed"):
            return f"{self.kind} {name}"
        return f"changed {name}: {self.kind}" + (f" of rungs {', '.join(map(str, self.levels))}" if self.levels else "")


def diff(old: References, new: References) -> list[Change]:
    """What to do to `old` to get `new`, ladder by ladder; nothing if they hold the same, whenever it was made."""
    before, after = old.by_key, new.by_key
    changes = []
    for key in sorted(before.keys() | after.keys()):
        if key not in after:
            changes.append(Change("removed", *key))
        elif key not in before:
            changes.append(Change("added", *key))
        else:
            changes += _ladder_changes(before[key], after[key])
    return changes


def _ladder_changes(old: Ladder, new: Ladder) -> Iterator[Change]:
    if old.context != new.context:
        yield Change("context", *key_of(old))
    if old.n_rungs != new.n_rungs:
        yield Change("n_rungs", *key_of(old))
    pairs = list(zip(old.rungs, new.rungs, strict=False))
    rest = tuple(range(len(pairs) + 1, max(old.n_rungs, new.n_rungs) + 1))
    texts = tuple(a.level for a, b in pairs if a.text != b.text)
    if texts + rest:
        yield Change("text", *key_of(old), texts + rest)
    if levels := tuple(a.level for a, b in pairs if (a.status, a.reason) != (b.status, b.reason)):
        yield Change("status", *key_of(old), levels)
    made = [tuple((r.parents, r.fraction, dict(r.provenance) | {"created_at": None}) for r in pair) for pair in pairs]
    if levels := tuple(level for level, (a, b) in enumerate(made, 1) if a != b):
        yield Change("provenance", *key_of(old), levels)
