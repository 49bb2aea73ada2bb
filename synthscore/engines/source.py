"""A name -> where a model's files are: a folder, a GGUF file, or the hub. Reads no weights; imports no torch.

Whoever made a model's files is not trusted. They can hold code, and pickled weights, which do whatever they like when
they are read: neither is run. Weights are read from safetensors and GGUF.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ..errors import EngineError
from ..resources import resource
from .revision import revision_of

EMBEDDED = {"nano": "data/nano"}
"""Models that come with the package -> their folders in it."""

EXPECTED = (
    "Expected 'nano', a folder with config.json, weights (safetensors) and tokenizer, a GGUF file, or a hub id "
    "(organisation/model) that is reachable or already downloaded"
)
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
        path = resource(EMBEDDED[name]) if name in EMBEDDED else Path(name).expanduser()
        if name and path.is_dir():
            return _in_folder(path.resolve(), revision)
        if path.suffix == ".gguf" and path.is_file():
            return _in_file(path.resolve(), revision)
        close = get_close_matches(name.lower(), EMBEDDED, n=1, cutoff=0.75)
        hub_id = re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", name) and path.suffix != ".gguf"
        if name in EMBEDDED or close or path.exists() or not hub_id:
            what = f"it is not at {path}; install synthscore again" if name in EMBEDDED else "it is no hub id either"
            guess = f"Did you mean {close[0]!r}? " if close and name not in EMBEDDED else ""
            raise EngineError(f"there is no model folder or file {name!r}, and {what}. {guess}{EXPECTED}", model=name)
        return cls(name, name, revision)

    @property
    def arguments(self) -> dict[str, Any]:
        """Of every from_pretrained of transformers. Unless code is refused in so many words, it asks at a terminal."""
        found: dict[str, Any] = {"revision": self.revision, "trust_remote_code": False}
        if self.gguf is not None:  # a whole path, because a file of this name in the working folder would be preferred
            found["gguf_file"] = str(self.gguf)
        return found

    def hash(self) -> str:
        """12 hex digits that change with the content of a folder or a file on this machine (revision.py)."""
        return revision_of(self.gguf or Path(self.place))


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
            f"cannot load {folder}: its weights are pickled ({pickled[0]}), and such a file runs whatever code it "
            "holds when it is read. Expected safetensors. If you trust it, convert it: with the class that its "
            "config.json names, CLASS.from_pretrained(FOLDER, use_safetensors=False).save_pretrained(FOLDER)",
            model=folder.name,
        )
    return Source(folder.name, folder, revision)
