"""The manifest of a release: what it says of the ladders beside it, and whether they are those that it was made for."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import ReferencesError
from ..io.fields import parse_json
from ..io.write import write_whole
from .release import DATA, FORMAT, MANIFEST


def read_manifest(folder: Path) -> dict[str, Any]:
    """What manifest.json says; nothing if there is none that can be read."""
    try:
        manifest = parse_json((folder / MANIFEST).read_text(encoding="utf-8"))
        json.dumps(manifest, ensure_ascii=False).encode()  # a ValueError for half a surrogate pair
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


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
    elif stated and (found := file_sha256(file)) != stated:
        problem = f"sha256 of {DATA} is {found}, {MANIFEST} says {stated}"
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
    if (path.exists() and not path.is_dir()) or (names - {MANIFEST} and DATA not in names):
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
