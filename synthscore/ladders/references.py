"""Ladders to a released dataset and back: one row a rung, with all that is needed to make it again.

A release is a folder that `datasets.load_dataset` reads too: ladders.parquet, README.md (its card) and manifest.json
(its hashes). Equal ladders give equal bytes: no clock, a fixed order of rows. Knows nothing of models or scoring.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from ..errors import LadderError, ReferencesError
from ..io.fields import shorten
from ..io.write import replacing
from ..signature import text_hash
from ..types import Context, Ladder
from .card import card_text
from .release import DATA, SPLIT, Key, ladder_rows, rows_ladders, source_rows, write_table

FORMAT = 1
CARD, MANIFEST = "README.md", "manifest.json"


@dataclass(frozen=True)
class References:
    """Ladders by task, context and attribute, in that order; each once. source : where they came from."""

    ladders: tuple[Ladder, ...]
    source: str = "memory"

    def __post_init__(self) -> None:
        ladders = tuple(sorted(self.ladders, key=_key))
        for one, other in pairwise(ladders):
            if _key(one) == _key(other):
                raise ReferencesError(
                    f"{self.source} holds two ladders {_name(_key(one))}, expected one. Remove one, or keep the two in "
                    "folders of their own",
                    context_id=one.context_id, attribute=one.attribute, task=one.task,
                )  # fmt: skip
        object.__setattr__(self, "ladders", ladders)

    def __len__(self) -> int:
        return len(self.ladders)

    def __iter__(self) -> Iterator[Ladder]:
        return iter(self.ladders)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        return tuple(sorted({ladder.task for ladder in self.ladders}))

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        return tuple(sorted({ladder.attribute for ladder in self.ladders}))

    @cached_property
    def hash(self) -> str:
        """Hex sha256; changes when any rung changes, or a context that the ladders carry."""
        parts: list[str] = []
        for ladder in self.ladders:
            context = ladder.context
            parts += [*_key(ladder), context.text if context else "", context.facts if context else "", ladder.hash]
        return text_hash(*parts)

    @cached_property
    def _by_key(self) -> dict[Key, Ladder]:
        return {_key(ladder): ladder for ladder in self.ladders}

    @cached_property
    def _context_ids(self) -> list[str]:
        return sorted({ladder.context_id for ladder in self.ladders})

    def find(self, context_id: str, attribute: str, task: str | None = None) -> Ladder:
        """The ladder of a context and an attribute. raises: LadderError, which names the nearest that there are."""
        tasks = self.tasks if task is None else (task,)
        found = [self._by_key[key] for name in tasks if (key := (name, context_id, attribute)) in self._by_key]
        if len(found) == 1:
            return found[0]
        wanted = f"{context_id}/{attribute}" if task is None else f"{task}/{context_id}/{attribute}"
        if found:
            names = ", ".join(ladder.task for ladder in found)
            message = f"{self.source} holds {len(found)} ladders {wanted}, for the tasks {names}. Say which with task="
        else:
            near = self._nearest(context_id)
            message = f"there is no ladder {wanted} in {self.source}: {near}. Make it with: synthscore generate"
        raise LadderError(message, context_id=context_id, attribute=attribute, task=task)

    def _nearest(self, context_id: str) -> str:
        ids = self._context_ids
        if not ids:
            return "it holds none at all"
        place = bisect_left(ids, context_id)
        if place < len(ids) and ids[place] == context_id:
            names = sorted({f"{r.task}/{r.attribute}" for r in self.ladders if r.context_id == context_id})
            return f"this context has ladders for {', '.join(names[:5])}"
        near = ids if len(ids) <= 500 else ids[max(0, place - 100) : place + 100]  # each target may fail to find one
        close = get_close_matches(context_id, near, n=5) or near[:5]
        return f"of its {len(ids)} contexts the nearest are {', '.join(map(repr, close))}"

    def context(self, context_id: str, task: str | None = None) -> Context:
        """The context that the ladders carry. raises: LadderError if none does."""
        context = self._contexts.get((task, context_id))
        if context is None:
            raise LadderError(
                f"no ladder in {self.source} carries the context {context_id!r}: {self._nearest(context_id)}. "
                "Pass the contexts as a file, or generate again",
                context_id=context_id, task=task,
            )  # fmt: skip
        return context

    @cached_property
    def _contexts(self) -> dict[tuple[str | None, str], Context]:
        contexts: dict[tuple[str | None, str], Context] = {}
        for ladder in self.ladders:
            if ladder.context is not None:
                contexts.setdefault((ladder.task, ladder.context_id), ladder.context)
                contexts.setdefault((None, ladder.context_id), ladder.context)
        return contexts

    def filter(
        self, *, task: str | None = None, attribute: str | None = None, context_ids: Collection[str] | None = None
    ) -> References:
        """The ladders of one task, one attribute, some contexts."""
        wanted = None if context_ids is None else set(context_ids)
        kept = (
            ladder
            for ladder in self.ladders
            if task in (None, ladder.task)
            and attribute in (None, ladder.attribute)
            and (wanted is None or ladder.context_id in wanted)
        )
        return References(tuple(kept), self.source)


# ------------------------------------------------------------------------------------------------- save and load


def save_references(
    ladders: Iterable[Ladder],
    folder: str | os.PathLike[str],
    *,
    licence: str = "",
    description: str = "",
    release: str = "",
    overwrite: bool = False,
    merge: bool = False,
) -> References:
    """Write ladders as a release; returns all that the folder then holds.

    overwrite : replace the release that is there. merge : keep its other ladders, replace those with the same task,
    context and attribute; licence, description and release stay what they were unless given, and where they cannot be
    read, nothing is saved. A folder that holds anything else is refused either way. Each file appears whole or not at
    all, the manifest last.
    raises : ReferencesError
    """
    path = Path(folder)
    there = path.is_dir() and any(not entry.name.startswith(".") for entry in path.iterdir())
    if (path.exists() and not path.is_dir()) or (there and not (path / DATA).exists()):
        message = f"cannot save ladders in {path}: it is there, and no references folder. Name a new one"
        raise ReferencesError(message, source=str(path))
    if there and not overwrite and not merge:
        message = f"cannot save ladders in {path}: it holds some already. Pass overwrite=True or merge=True"
        raise ReferencesError(message, source=str(path))
    references = References(tuple(ladders), str(path))
    about = {"release": release, "licence": licence, "description": description}
    if merge and there:
        new = {_key(ladder) for ladder in references}
        kept = [ladder for ladder in load_references(path) if _key(ladder) not in new]
        references = References((*references.ladders, *kept), str(path))
        old = read_about(path)
        about = {name: value or old[name] for name, value in about.items()}

    rows = [row for ladder in references for row in ladder_rows(ladder, about["release"])]
    with replacing(path / DATA) as file:
        write_table(rows, file)
    with replacing(path / CARD) as file:
        file.write(card(references, **about).encode())
    manifest = {
        "format": FORMAT,
        **about,
        "hash": references.hash,
        "n_ladders": len(references),
        "n_rows": len(rows),
        "sha256": {DATA: _file_sha256(path / DATA)},
    }
    with replacing(path / MANIFEST) as file:
        file.write((json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode())
    return references


def read_about(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Licence, description and release of a folder's ladders, which those that are added must not lose.

    raises : ReferencesError, whose `source` is the manifest, where it is missing or cannot be read
    """
    path = Path(folder)
    manifest = _manifest(path)
    if not manifest:
        raise ReferencesError(
            f"cannot add ladders to {path}: its {MANIFEST} is missing or is no JSON object, expected the licence and "
            f"description of the ladders that are there. Put it back; or say them again, and save all anew: "
            f"save_references([*load_references({str(path)!r}), ...], {str(path)!r}, overwrite=True, licence=..., "
            "description=...)",
            source=str(path / MANIFEST),
        )
    return {name: str(manifest.get(name, "")) for name in ("release", "licence", "description")}


def load_references(source: str | os.PathLike[str], *, revision: str | None = None) -> References:
    """The ladders of a release: a folder, its ladders.parquet, or the id of a dataset on the Hugging Face Hub.

    revision : branch, tag or commit of a Hub dataset; pin one for a number that others should get too.
    raises : ReferencesError
    """
    name = str(source) if revision is None else f"{source}@{revision}"
    return References(rows_ladders(source_rows(Path(source), revision), name), name)


def card(references: References, *, release: str = "", licence: str = "", description: str = "") -> str:
    """The dataset card of a release, as Markdown."""
    return card_text(
        references.ladders, references.hash, DATA, SPLIT, release=release, licence=licence, description=description
    )


def _key(ladder: Ladder) -> Key:
    return (ladder.task, ladder.context_id, ladder.attribute)


def _name(key: Key) -> str:
    return "/".join(key)


def _file_sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _manifest(folder: Path) -> dict[str, Any]:
    """What manifest.json says; nothing if there is none that can be read."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


# ------------------------------------------------------------------------------------------------- verify and diff


def verify(folder: str | os.PathLike[str]) -> list[str]:
    """What is wrong with a release, in words; nothing if it is what its hashes say and each ladder is complete.

    raises : ReferencesError if there is no release to look at.
    """
    path = Path(folder)
    data = path / DATA if path.is_dir() else path
    try:
        rows = source_rows(path, None)
    except ReferencesError as error:
        if not data.exists():
            raise
        return [str(error)]
    problems = _row_problems(rows)
    if path.is_dir():
        problems += _manifest_problems(path, rows)
    if not problems:  # each row is right: is the whole?
        try:
            references = References(rows_ladders(rows, str(path)), str(path))
        except ReferencesError as error:
            return [str(error)]
        said = _manifest(path).get("hash")
        if path.is_dir() and said != references.hash:
            problems.append(f"the hash of all texts is {references.hash}, {MANIFEST} says {said}")
    return problems


def _manifest_problems(path: Path, rows: list[dict[str, Any]]) -> list[str]:
    manifest = _manifest(path)
    if not manifest:
        return [f"{MANIFEST} is missing or not JSON: nothing says what {DATA} should hold"]
    if manifest.get("format") != FORMAT:
        return [f"{MANIFEST} has format {manifest.get('format')!r}, expected {FORMAT}: install another synthscore"]
    n_ladders = len({(row["task"], row["context_id"], row["attribute"]) for row in rows})
    hashes = manifest.get("sha256")
    found = {
        f"sha256 of {DATA}": (hashes.get(DATA) if isinstance(hashes, dict) else None, _file_sha256(path / DATA)),
        "n_rows": (manifest.get("n_rows"), len(rows)),
        "n_ladders": (manifest.get("n_ladders"), n_ladders),
    }
    return [f"{name} is {has}, {MANIFEST} says {said}" for name, (said, has) in found.items() if said != has]


def _row_problems(rows: list[dict[str, Any]]) -> list[str]:
    for number, row in enumerate(rows, 1):
        if empty := [name for name in ("task", "context_id", "attribute", "level") if row[name] is None]:
            return [f"row {number} says no {', '.join(empty)}: nothing tells what its text is for"]
    problems = []
    ladders: dict[Key, list[dict[str, Any]]] = {}
    contexts: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        key = (row["task"], row["context_id"], row["attribute"])
        ladders.setdefault(key, []).append(row)
        name, text, context = f"{'/'.join(map(str, key))} rung {row['level']}", row["text"], row.get("context")
        status, reason = row.get("status"), row.get("reason")
        if status not in ("ok", "failed") or (status == "failed") != (text is None) or (text is None) != bool(reason):
            problems.append(f"{name}: status {status!r}, text {shorten(text)} and reason {reason!r} do not agree")
        if row.get("text_sha256") != (None if text is None else text_hash(text)):
            problems.append(f"{name}: the text is not the one that was hashed")
        if context is not None:
            contexts.setdefault((row["task"], row["context_id"]), set()).add(context)
            if row.get("context_sha256") != text_hash(context):
                problems.append(f"{name}: the context is not the one that was hashed")
    for (task, context_id), texts in contexts.items():
        if len(texts) > 1:
            problems.append(f"{task}/{context_id}: {len(texts)} different contexts have this id")
    for key, group in ladders.items():
        problems += _ladder_problems("/".join(map(str, key)), group)
    return problems


def _ladder_problems(name: str, group: list[dict[str, Any]]) -> list[str]:
    problems = []
    levels, n_rungs = sorted(row["level"] for row in group), group[0].get("n_rungs")
    if {row.get("n_rungs") for row in group} != {n_rungs} or levels != list(range(1, (n_rungs or 0) + 1)):
        problems.append(f"{name}: levels are {levels}, expected each of 1..{n_rungs} once")
    texts = [row["text"] for row in group if row["text"] is not None]
    if len(set(texts)) < len(texts):
        problems.append(f"{name}: two rungs are the same text")
    level = {text_hash(row["text"]): row["level"] for row in group if row["text"] is not None}
    for row in group:
        fraction = (row["level"] - 1) / max(1, (n_rungs or 2) - 1)
        if row.get("fraction") is None or abs(row["fraction"] - fraction) > 1e-9:
            problems.append(f"{name} rung {row['level']}: fraction is {row.get('fraction')}, expected {fraction:g}")
        parents = [level.get(parent, 0) for parent in row.get("parents") or ()]
        if 0 in parents:
            problems.append(f"{name} rung {row['level']}: written between texts that are no longer in its ladder")
        elif parents and (len(parents) != 2 or not parents[0] < row["level"] < parents[1]):
            problems.append(f"{name} rung {row['level']}: its parents are rungs {parents}, expected a worse, a better")
    return problems


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
    before, after = old._by_key, new._by_key
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
        yield Change("context", *_key(old))
    if old.n_rungs != new.n_rungs:
        yield Change("n_rungs", *_key(old))
    pairs = list(zip(old.rungs, new.rungs, strict=False))
    rest = tuple(range(len(pairs) + 1, max(old.n_rungs, new.n_rungs) + 1))
    texts = tuple(a.level for a, b in pairs if a.text != b.text)
    if texts + rest:
        yield Change("text", *_key(old), texts + rest)
    if levels := tuple(a.level for a, b in pairs if (a.status, a.reason) != (b.status, b.reason)):
        yield Change("status", *_key(old), levels)
    made = [tuple((r.parents, r.fraction, dict(r.provenance) | {"created_at": None}) for r in pair) for pair in pairs]
    if levels := tuple(level for level, (a, b) in enumerate(made, 1) if a != b):
        yield Change("provenance", *_key(old), levels)
