"""Ladders to a released dataset and back: one row a rung, with all that is needed to make it again.

A release is a folder that `datasets.load_dataset` reads too: ladders.parquet, README.md (its card) and manifest.json
(its hashes). Equal ladders give equal bytes: no clock, a fixed order of rows. Knows nothing of models or scoring.
"""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..errors import LadderError, ReferencesError, require_kind
from ..io.fields import parse_json, shorten
from ..io.write import replacing, write_whole
from ..judging.tasks import load_task
from ..signature import text_hash
from ..types import Ladder
from .card import card_text
from .release import DATA, SPLIT, Key, key_of, ladder_rows, rows_ladders, source_rows, write_table

FORMAT = 1
CARD, MANIFEST = "README.md", "manifest.json"


@dataclass(frozen=True)
class References:
    """Ladders by task, context and attribute, in that order; each once. source : where they came from."""

    ladders: tuple[Ladder, ...]
    source: str = "memory"

    def __post_init__(self) -> None:
        ladders = tuple(sorted(self.ladders, key=key_of))
        for one, other in pairwise(ladders):
            if key_of(one) == key_of(other):
                raise ReferencesError(
                    f"{self.source} holds two ladders {'/'.join(key_of(one))}, expected one. Remove one, or keep the "
                    "two in folders of their own",
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
            parts += [*key_of(ladder), context.text if context else "", context.facts if context else "", ladder.hash]
        return text_hash(*parts)

    @cached_property
    def by_key(self) -> dict[Key, Ladder]:
        """(task, context id, attribute) -> ladder"""
        return {key_of(ladder): ladder for ladder in self.ladders}

    @cached_property
    def _context_ids(self) -> list[str]:
        return sorted({ladder.context_id for ladder in self.ladders})

    def find(self, context_id: str, attribute: str, task: str | None = None) -> Ladder:
        """The ladder of a context and an attribute. raises: LadderError, which names the nearest that there are."""
        tasks = self.tasks if task is None else (task,)
        found = [self.by_key[key] for name in tasks if (key := (name, context_id, attribute)) in self.by_key]
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
        index = bisect_left(ids, context_id)
        if index < len(ids) and ids[index] == context_id:
            names = sorted({f"{r.task}/{r.attribute}" for r in self.ladders if r.context_id == context_id})
            return f"this context has ladders for {', '.join(names[:5])}"
        near = ids[max(0, index - 100) : index + 100]  # not all of many: each target may fail to find one
        close = get_close_matches(context_id, near, n=5) or near[:5]
        return f"of its {len(ids)} contexts the nearest are {', '.join(map(repr, close))}"

    def filter(
        self, *, task: str | None = None, attribute: str | None = None, context_id: str | None = None
    ) -> References:
        """The ladders of one task, one attribute, one context."""
        wanted = (task, context_id, attribute)
        kept = (
            ladder
            for key, ladder in self.by_key.items()
            if all(name in (None, own) for name, own in zip(wanted, key, strict=True))
        )
        return References(tuple(kept), self.source)

    def select(
        self, *, task: str | None = None, attribute: str | None = None, context_id: str | None = None
    ) -> References:
        """As `filter`; task may be a folder with a task.toml. raises : LadderError where there are none"""
        named = load_task(task).name if task else None
        chosen = self.filter(task=named, attribute=attribute, context_id=context_id)
        if len(chosen):
            return chosen
        if context_id is not None and attribute:
            self.find(context_id, attribute, named)  # raises, naming the nearest
        wanted = {"context": context_id, "attribute": attribute, "task": task}
        names = ", ".join(f"{name} {value!r}" for name, value in wanted.items() if value) or "any kind"
        raise LadderError(
            f"{self.source} holds no ladder of {names}. It has the tasks {', '.join(self.tasks)}, the attributes "
            f"{', '.join(self.attributes)}, and the contexts {shorten(self._context_ids)}"
        )

    def n_differing(self, ladders: Iterable[Ladder]) -> int:
        """How many of these stand here with other texts, for the same task, context and attribute."""
        return sum(self.by_key.get(key_of(ladder), ladder).hash != ladder.hash for ladder in ladders)

    # --------------------------------------------------------------------------------------------- load and save

    @classmethod
    def load(cls, source: str | os.PathLike[str], *, revision: str | None = None) -> References:
        """The ladders of a release: a folder, its ladders.parquet, or the id of a dataset on the Hugging Face Hub.

        revision : branch, tag or commit of a Hub dataset; pin one for a number that others should get too.
        raises : ReferencesError, also where a text, or the file, is not the one that was hashed
        """
        require_kind("references", source, (str, os.PathLike), "a folder, a file or a hub id")
        name = str(source) if revision is None else f"{source}@{revision}"
        for problem in manifest_problems(Path(source)):
            raise ReferencesError(
                f"cannot load {name}: {problem}. Make or download it again; if the change is meant, take "
                f'"sha256" out of {MANIFEST}',
                source=name,
            )
        return cls(rows_ladders(source_rows(Path(source), revision), name), name)

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        licence: str = "",
        description: str = "",
        release: str = "",
        overwrite: bool = False,
        merge: bool = False,
    ) -> References:
        """Write the ladders as a release; returns all that the folder then holds.

        overwrite : replace the release that is there. merge : keep its other ladders, replace those with the same task,
        context and attribute; licence, description and release stay what they were unless given, and where they cannot
        be read, nothing is saved. A folder that holds anything else is refused either way. Each file appears whole or
        not at all, the manifest last.
        raises : ReferencesError
        """
        path = Path(folder)
        about = {"release": release, "licence": licence, "description": description}
        there = _holds_ladders(path)
        if there and not overwrite and not merge:
            message = f"cannot save ladders in {path}: it holds some already. Pass overwrite=True or merge=True"
            raise ReferencesError(message, source=str(path))
        ladders = {key_of(ladder): ladder for ladder in self.ladders}
        if merge and there:
            old = read_about(path)
            ladders = References.load(path).by_key | ladders
            about = {name: value or old[name] for name, value in about.items()}
        references = References(tuple(ladders.values()), str(path))
        references._write(path, about)
        return references

    def _write(self, path: Path, about: dict[str, str]) -> None:
        rows = [row for ladder in self.ladders for row in ladder_rows(ladder, about["release"])]
        with replacing(path / DATA) as file:
            write_table(rows, file)
            _write_manifest(path, {"format": FORMAT, **about})  # unsigned: a save that is killed can be repeated
        write_whole(path / CARD, card_text(self.ladders, self.hash, DATA, SPLIT, **about).encode())
        counts = {"hash": self.hash, "n_ladders": len(self), "n_rows": len(rows)}
        signed = {"sha256": {DATA: file_sha256(path / DATA)}}
        _write_manifest(path, {"format": FORMAT, **about, **counts, **signed})


def _write_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    write_whole(path / MANIFEST, (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode())


def _holds_ladders(path: Path) -> bool:
    """False for a folder that is not there, or empty, or that a first save was killed in. raises : ReferencesError"""
    entries = path.iterdir() if path.is_dir() else ()
    names = {entry.name for entry in entries if entry.name[0] != "." and entry.suffix != ".partial"}
    if (path.exists() and not path.is_dir()) or (names - {MANIFEST} and DATA not in names):
        message = f"cannot save ladders in {path}: it is there, and no references folder. Name a new one"
        raise ReferencesError(message, source=str(path))
    return DATA in names


def held_by(folder: str | os.PathLike[str]) -> References:
    """The ladders that are there, perhaps none. raises : ReferencesError where `save(folder, merge=True)` could not add
    others"""
    if not _holds_ladders(Path(folder)):
        return References((), str(folder))
    read_about(folder)
    return References.load(folder)


def read_about(folder: str | os.PathLike[str]) -> dict[str, str]:
    """Licence, description and release of a folder's ladders, which those that are added must not lose.

    raises : ReferencesError, whose `source` is the manifest, where it is missing or cannot be read
    """
    path = Path(folder)
    manifest = read_manifest(path)
    if not manifest:
        raise ReferencesError(
            f"cannot add ladders to {path}: its {MANIFEST} is missing or is no JSON object, expected the licence and "
            "description of the ladders that are there. Put it back, or save all anew, with both and overwrite=True",
            source=str(path / MANIFEST),
        )
    return {name: str(manifest.get(name, "")) for name in ("release", "licence", "description")}


def read_manifest(folder: Path) -> dict[str, Any]:
    """What manifest.json says; nothing if there is none that can be read."""
    try:
        manifest = parse_json((folder / MANIFEST).read_text(encoding="utf-8"))
        json.dumps(manifest, ensure_ascii=False).encode()  # a ValueError for half a surrogate pair
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def manifest_problems(source: Path) -> Iterator[str]:
    """Where the manifest beside ladders, if there is one, tells of another format or another file."""
    folder = source.parent if source.name == DATA else source
    manifest = read_manifest(folder) if (folder / DATA).exists() else {}
    if not manifest and (folder / DATA).exists() and (folder / MANIFEST).exists():
        yield f"its {MANIFEST} cannot be read"
    if manifest and manifest.get("format") != FORMAT:
        yield f"{MANIFEST} has format {manifest.get('format')!r}, expected {FORMAT}: install another synthscore"
    hashes = manifest.get("sha256")
    stated = hashes.get(DATA) if isinstance(hashes, dict) else None
    if stated and (has := file_sha256(folder / DATA)) != stated:
        yield f"sha256 of {DATA} is {has}, {MANIFEST} says {stated}"


def file_sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
