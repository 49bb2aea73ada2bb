"""A model's files -> its revision: 12 hex digits that change with the content of config, tokenizer and weights.

Small models are hashed whole each time. Hashing 140 GB takes minutes, so the hash of a large one is remembered
together with the size and times of every file, and holds while none of them has changed. Knows nothing of transformers.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

from ..resources import cache_folder

_KINDS = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model", "*.jinja")
_LARGE = 1_000_000_000  # bytes of all files together, from which the hash is remembered
_SETTLED_NS = 2_000_000_000  # a file changed less than this ago could change again and show the same times


def revision_of(model: Path) -> str:
    """12 hex digits that change with the content of a local model. They are the same wherever it is.

    model : a folder; or a file, whose revision is the beginning of its SHA-256
    raises : OSError, for a file that cannot be read
    """
    files = [model] if model.is_file() else sorted({path for kind in _KINDS for path in model.glob(kind)})
    if sum(path.stat().st_size for path in files) < _LARGE:
        return _content_hash(files)
    seen = _times(files)  # before they are read: what changes meanwhile is then not what the note is about
    settled = time.time_ns() - max(int(changed) for *_, changed in seen) >= _SETTLED_NS
    path = cache_folder() / "revisions" / f"{hashlib.sha256(str(model.resolve()).encode()).hexdigest()[:16]}.json"
    if (revision := _remembered(path, seen)) is not None:
        return revision
    revision = _content_hash(files)
    if settled:
        _remember(path, {"model": str(model.resolve()), "files": seen, "revision": revision})
    return revision


def _content_hash(files: Sequence[Path]) -> str:
    """Over all bytes, and names and sizes in a folder. Part of every signature of a local model: another way of hashing
    renames all."""
    digest = hashlib.sha256()
    for path in files:
        if path.suffix != ".gguf":  # such a file is alone, and its SHA-256 is what hubs show
            digest.update(f"{path.name}:{path.stat().st_size}:".encode())
        with open(path, "rb") as file:
            while block := file.read(1 << 24):
                digest.update(block)
    return digest.hexdigest()[:12]


def _times(files: Sequence[Path]) -> list[list[str | int]]:
    """Name, size, time of the last write, and time of the last change of each file, in ns.

    Copying can set the time of the last write back (cp -p, rsync -t), the time of the last change it cannot.
    """
    found = [(path.name, path.stat()) for path in files]
    return [[name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns] for name, stat in found]


def _remembered(path: Path, seen: list[list[str | int]]) -> str | None:
    """The revision, if it is of these very files; None also where the note cannot be read: it is made again."""
    try:
        note = json.loads(path.read_text("utf-8"))
        return str(note["revision"]) if note["files"] == seen else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _remember(path: Path, note: dict[str, object]) -> None:
    """Where the cache folder cannot be written, the next start hashes again."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.write_text(json.dumps(note), "utf-8")
        draft.replace(path)
    except OSError:
        return
