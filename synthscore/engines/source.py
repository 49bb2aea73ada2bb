"""A name -> where a model's files are: a folder, a GGUF file, or the hub; and their revision. Imports no torch.

Whoever made a model's files is not trusted. They can hold code, and pickled weights, which do whatever they like when
they are read: neither is run. Weights are read from safetensors and GGUF.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from ..errors import EngineError
from ..resources import cache_folder, hub_is_reachable, resource

EMBEDDED = {"nano": resource("data/nano")}
"""Models that come with the package -> their folders."""

_EXPECTED = (
    "Expected 'nano', a folder with config.json, weights (safetensors) and tokenizer, a GGUF file, or a hub id "
    "(organisation/model) that is reachable or already downloaded"
)
HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")
_KINDS = ("*.json", "*.safetensors", "*.bin", "*.txt", "*.model", "*.jinja")  # files that the revision is of
_LARGE = 1_000_000_000  # bytes of all files together, from which the hash is remembered
_SETTLED_NS = 2_000_000_000  # a file changed less than this ago could change again and show the same times
_PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


@dataclass(frozen=True, slots=True)
class Source:
    """name : for messages and signatures
    place : a folder, or a hub id
    revision : of the hub: a commit, tag or branch; None: the newest
    gguf : the one file that holds all, or None
    """

    name: str
    place: str | Path
    revision: str | None = None
    gguf: Path | None = None

    @classmethod
    def of(cls, name: str | Path, revision: str | None = None) -> Source:
        """raises : EngineError, where the name means nothing, or the weights are of a kind that is not read"""
        name = str(name)
        path = EMBEDDED[name] if name in EMBEDDED else Path(name).expanduser()
        if name and path.is_dir():
            return _in_folder(path.resolve(), revision)
        if path.suffix == ".gguf" and path.is_file():
            return _in_file(path.resolve(), revision)
        close = get_close_matches(name.lower(), EMBEDDED, n=1, cutoff=0.75)
        hub_id = HUB_ID.fullmatch(name) and path.suffix != ".gguf"
        if name in EMBEDDED or close or path.exists() or not hub_id:
            what = f"it is not at {path}; install synthscore again" if name in EMBEDDED else "it is no hub id either"
            guess = f"Did you mean {close[0]!r}? " if close and name not in EMBEDDED else ""
            raise EngineError(f"there is no model folder or file {name!r}, and {what}. {guess}{_EXPECTED}", model=name)
        return cls(name, name, revision)

    @property
    def arguments(self) -> dict[str, Any]:
        """Of every from_pretrained of transformers. Unless code is refused in so many words, it asks at a terminal."""
        found: dict[str, Any] = {"revision": self.revision, "trust_remote_code": False}
        if isinstance(self.place, str):
            found["local_files_only"] = not hub_is_reachable()
        if self.gguf is not None:  # a whole path, because a file of this name in the working folder would be preferred
            found["gguf_file"] = str(self.gguf)
        return found

    def file(self, name: str) -> Path | None:
        """One of the files beside the weights, fetched from the hub where need be; None, where there is none.

        raises : OSError, where the hub does not know the model, or cannot be asked
        """
        if isinstance(self.place, Path):
            return self.place / name if (self.place / name).is_file() else None
        from transformers.utils import cached_file

        place = cached_file(self.place, name, revision=self.revision, _raise_exceptions_for_missing_entries=False)
        return None if place is None else Path(place)

    def adapter_config(self) -> Path | None:
        """What makes it an adapter (adapters.py), if it is one. raises : OSError"""
        return self.file("adapter_config.json")

    def hash(self) -> str:
        """12 hex digits: of the commit of a model of the hub, or of the content of a folder or a file (revision_of).

        raises : OSError
        """
        if isinstance(self.place, Path):
            return revision_of(self.gguf or self.place)
        file = self.file("config.json") or self.adapter_config()
        if file is None:
            raise OSError(f"{self.name} has no config.json")
        return file.parent.name[:12]  # the hub's client keeps files in a folder that is named for the commit


def load_tokenizer(name: str, *, download: bool = True) -> Any:
    """A tokenizer by itself, of a folder or a hub id. raises : whatever transformers does

    download : the user named it; else, where a file did, it is taken from this machine alone
    """
    from transformers import AutoTokenizer

    reachable = download and (Path(name).is_dir() or hub_is_reachable())
    return AutoTokenizer.from_pretrained(name, trust_remote_code=False, local_files_only=not reachable)


def _in_file(path: Path, revision: str | None) -> Source:
    if revision is not None:
        raise EngineError(f"{path} is a file, which has no revision {revision!r}. Leave that out", model=path.name)
    if part := re.search(r"-\d+-of-(\d+)$", path.stem):
        raise EngineError(
            f"{path} is one of {int(part[1])} parts, expected a whole GGUF file. Join them: "
            "llama-gguf-split --merge FIRST_PART WHOLE",
            model=path.name,
        )
    return Source(path.stem, path.parent, gguf=path)


def _in_folder(folder: Path, revision: str | None) -> Source:
    files = sorted(folder.glob("*.gguf"))
    if files and not (folder / "config.json").exists():
        if len(files) > 1:
            names = ", ".join(file.name for file in files)
            raise EngineError(f"{folder} holds {len(files)} models: {names}. Name one of the files", model=folder.name)
        return _in_file(files[0], revision)
    pickled = sorted(file.name for kind in _PICKLED for file in folder.glob(kind) if file.name != "training_args.bin")
    if pickled and not any(folder.glob("*.safetensors")):
        raise EngineError(
            f"cannot load {folder.name!r}: its weights are pickled ({pickled[0]}), which runs what code it holds, "
            "expected safetensors; if you trust it, convert it (docs/engines.md, Files)",
            model=folder.name,
        )
    _refuse_weights_elsewhere(folder)
    return Source(folder.name, folder, revision)


def _refuse_weights_elsewhere(folder: Path) -> None:
    """raises : EngineError, where a config or an index names weights that do not lie in the folder itself, which
    `revision_of` would not see; and where files are missing, of which transformers says less."""
    for path in (folder / "config.json", *sorted(folder.glob("*.index.json"))):
        for name in _named_weights(path):
            if name in (".", "..") or re.search(r"[\\/:]", name):
                raise EngineError(
                    f"cannot load {folder.name!r}: {path.name} names the weights {name!r:.40}, expected files in the "
                    "folder itself; put them there, or download the model again",
                    model=folder.name,
                )
    index = folder / "model.safetensors.index.json"
    absent = [name for name in _named_weights(index) if not (folder / name).is_file()]
    if absent and not (folder / "model.safetensors").is_file():
        raise EngineError(
            f"cannot load {folder.name!r}: {len(absent)} of the files of weights that {index.name} names are not "
            f"there, such as {absent[0]!r:.40}; download the model again",
            model=folder.name,
        )


def _named_weights(path: Path) -> list[str]:
    """Files of weights that a config.json or an index names. None, where it cannot be read: loading says so."""
    with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
        content = json.loads(path.read_text("utf-8"))
        found = content["weight_map"].values() if path.name != "config.json" else [content["transformers_weights"]]
        return sorted({name for name in found if isinstance(name, str)})
    return []


def revision_of(model: Path) -> str:
    """12 hex digits that change with the content of a local model: config, tokenizer and weights. They are the same
    wherever it is.

    Hashing 140 GB takes minutes, so the hash of a large model is remembered together with the size and times of every
    file, and holds while none of them has changed.

    model : a folder; or a file, whose revision is the beginning of its SHA-256
    raises : OSError, for a file that cannot be read
    """
    files = [model] if model.is_file() else sorted({path for kind in _KINDS for path in model.glob(kind)})
    if sum(path.stat().st_size for path in files) < _LARGE:
        return _content_hash(files)
    # Before they are read: what changes meanwhile is then not what the note is about. Copying can set the time of the
    # last write back (cp -p, rsync -t), the time of the last change it cannot.
    stats = [(path.name, path.stat()) for path in files]
    seen = [[name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns] for name, stat in stats]
    settled = time.time_ns() - max(stat.st_ctime_ns for _, stat in stats) >= _SETTLED_NS
    path = cache_folder() / "revisions" / f"{hashlib.sha256(str(model.resolve()).encode()).hexdigest()[:16]}.json"
    with suppress(OSError, ValueError, LookupError, TypeError):  # a note that cannot be read is made again
        note = json.loads(path.read_text("utf-8"))
        if note["files"] == seen:
            return str(note["revision"])
    revision = _content_hash(files)
    if settled:
        with suppress(OSError):  # where the cache folder cannot be written, the next start hashes again
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = path.with_name(f"{path.name}.{os.getpid()}")
            draft.write_text(json.dumps({"model": str(model.resolve()), "files": seen, "revision": revision}), "utf-8")
            draft.replace(path)
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


@contextmanager
def opened_gguf(source: Source) -> Iterator[str]:
    """Inside, a GGUF file is parsed once, and without a progress bar: transformers does it for config, tokenizer and
    weights, some seconds each time. Gives how its weights are quantised ("Q4_1"); it dequantises each. "" for all other
    models."""
    if source.gguf is None:
        yield ""
        return
    if find_spec("gguf") is None:
        raise EngineError(
            f"cannot read {source.gguf}: GGUF files need the package gguf. pip install 'synthscore[gguf]'",
            model=source.name,
        )
    gguf: Any = import_module("gguf")
    reads = import_module("transformers.modeling_gguf_pytorch_utils")

    class PlainReader(gguf.GGUFReader):  # type: ignore[misc]
        """Reads of an array: each of the many thousand small pieces of a memory map costs several times as much."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value.view(np.ndarray) if name == "data" else value)

    with (
        patch.object(gguf, "GGUFReader", cache(PlainReader)),
        patch.object(gguf, "get_tensor_name_map", cache(gguf.get_tensor_name_map)),  # asked for by each module anew
        patch.object(reads, "tqdm", lambda rows, **_: rows),
    ):
        field = gguf.GGUFReader(str(source.gguf)).fields.get("general.file_type")
        yield "unknown" if field is None else gguf.LlamaFileType(field.contents()).name.replace("MOSTLY_", "")
