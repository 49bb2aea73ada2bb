"""A GGUF file, as transformers reads it: each weight dequantised, no memory saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

from ..errors import EngineError
from .source import Source


@contextmanager
def opened(source: Source) -> Iterator[str]:
    """Inside, a GGUF file is parsed once, and without a progress bar: transformers does it for config, tokenizer and
    weights, some seconds each time. Gives how its weights are quantised ("Q4_1")."""
    if find_spec("gguf") is None:
        raise EngineError(
            f"cannot read {source.gguf}: GGUF files need the package gguf. pip install 'synthscore[gguf]'",
            model=source.name,
        )
    gguf: Any = import_module("gguf")
    reads = import_module("transformers.modeling_gguf_pytorch_utils")
    with patch.object(gguf, "GGUFReader", cache(gguf.GGUFReader)), patch.object(reads, "tqdm", lambda rows, **_: rows):
        field = gguf.GGUFReader(str(source.gguf)).fields.get("general.file_type")
        yield "unknown" if field is None else gguf.LlamaFileType(field.contents()).name.replace("MOSTLY_", "")
