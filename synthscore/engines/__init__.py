"""Models that judge and write. `open_engine` alone knows the kinds; torch is not imported before it is asked."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from ..errors import EngineError
from ..resources import resource
from .base import Engine, Progress

__all__ = ["Engine", "Progress", "open_engine"]


def open_engine(name: str, **options: Any) -> Engine:
    """An engine by name: "nano" (the embedded model), a model folder, "organisation/model" on the hub, or
    "recorded:FILE" (a store's answers; "recorded:FILE#PART" where it has several engines: part of a signature).

    options : those of CausalEngine.load (revision, dtype, device, device_map, max_tokens, backend)
    raises : EngineError, when the name means nothing or the model cannot be loaded
    """
    if re.match(r"https?://", name):
        raise EngineError(
            f"cannot open {name!r}: servers are not supported yet. Expected a folder or a hub id", model=name
        )
    kind, colon, _ = name.partition(":")
    if colon and kind == "recorded":
        return _open_recorded(name, options)
    if colon and kind == "vllm":
        raise EngineError(
            f"cannot open {name!r}: engines of kind {kind!r} are not supported yet. Expected a folder or a hub id",
            model=name,
        )
    folder = resource("data/nano") if name == "nano" else Path(name).expanduser()
    if not folder.is_dir():
        if name == "nano":
            raise EngineError(f"the embedded model is not at {folder}. Install synthscore again", model=name)
        if not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", name):
            raise EngineError(
                f"there is no model folder {name!r}, and it is not a hub id either. "
                "Expected 'nano', a folder with config.json, weights and tokenizer, or organisation/model",
                model=name,
            )
    from .causal import CausalEngine  # imports torch

    if folder.is_dir():
        return CausalEngine.load(folder, name=folder.resolve().name, **options)
    return CausalEngine.load(name, **options)


def _open_recorded(name: str, options: dict[str, Any]) -> Engine:
    given = [f"{key} {value}" for key, value in options.items() if value is not None]
    if given:
        raise EngineError(
            f"cannot open {name!r} with {', '.join(given)}: its answers are given already. Leave that out", model=name
        )
    from .recorded import RecordedEngine

    return RecordedEngine(name.partition(":")[2])
