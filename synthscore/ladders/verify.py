"""A release -> what is wrong with it, in words. Judges nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import ReferencesError
from ..io.fields import shorten
from ..signature import text_hash
from .references import MANIFEST, References, manifest_problems, read_manifest
from .release import DATA, Key, grouped, ladder_rows, rows_ladder, rows_ladders, source_rows

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
        total, stated = References(rows_ladders(rows, str(path))).hash, read_manifest(path).get("hash")
        problems += [f"the hash of all texts is {total}, {MANIFEST} says {stated}"] * (stated != total)
    return problems


def _ladder_problems(key: Key, group: list[dict[str, Any]]) -> Iterator[str]:
    """Where the rows of a ladder are not those that it would be saved as."""
    name = "/".join(map(str, key))
    try:
        ladder = rows_ladder(key, group, {})
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
    found = {"n_rows": len(rows), "n_ladders": len(grouped(rows))}
    stated = ((name, has, manifest.get(name)) for name, has in found.items())
    other = [f"{name} is {has}, {MANIFEST} says {says}" for name, has, says in stated if says != has]
    unsigned = f"sha256 of {DATA} is not in {MANIFEST}: a save was killed, or it was taken out"
    return [*manifest_problems(path), *other, *([] if manifest.get("sha256") else [unsigned])]
