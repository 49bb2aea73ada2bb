"""What a way to run a model is checked with when it is loaded: a config -> prompts that are long enough to see what the
model does beyond its windows, and the few layers of it that need be run for that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ..local import TokenIds

LEAST_LONG = 300
"""Tokens of a long prompt for models whose config names no window: some have chunks that their code alone knows."""
MOST_LONG = 4_608
"""Tokens that a long prompt has at most, so that models are opened in seconds; windows that are wider are not checked,
and prompts that are longer than these are run one at a time."""

LEAST_LAYERS = 4
"""Run over in a check with long prompts: a choice that rounding decides shows from the second layer on."""

_WINDOW = re.compile(r"window|chunk|topk$|compress|block_size")
_INDEX = re.compile(r"layer_?(idx|index|id|number)$|^idx$")


def windows(config: Any) -> list[int]:
    """The numbers of tokens, 2 and more, that a config names as those of a window, a chunk or a block, ascending.

    By their names, since each architecture has its own; a number that means something else makes a check longer.
    """
    found: set[int] = set()

    def search(name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, part in value.items():
                search(f"{name}.{key}", part)
        elif isinstance(value, (list, tuple)):
            for part in value:
                search(name, part)
        elif isinstance(value, int) and value >= 2 and _WINDOW.search(name):
            found.add(value)

    search("", {key: value for key, value in config.get_text_config().to_dict().items() if key != "layer_types"})
    return sorted(found)


def n_same(config: Any, longest: int) -> int:
    """Sequences up to this length are computed alike whatever is run beside them, as far as the config and a check of
    MOST_LONG tokens can tell. longest : tokens that the model takes"""
    wide = [window for window in windows(config) if MOST_LONG - 100 < window < longest]
    # Beyond index_topk tokens DeepSeek's sparse attention leaves some out. Many have a score of exactly 0, and which of
    # these are taken depends on the shape of what is run. Up to there it takes all.
    chosen = getattr(config.get_text_config(), "index_topk", None)
    return min([_n_same_positions(config), *wide, *([chosen] if isinstance(chosen, int) else [])])


def _n_same_positions(config: Any) -> int:
    """Sequences up to this length have positions that do not depend on what is run beside them."""
    text = config.get_text_config()
    rope = getattr(text, "rope_parameters", None) or {}
    kinds = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    changing = [kind for kind in kinds if kind.get("rope_type") in ("dynamic", "longrope")]
    if not changing:
        return 10**9
    original = [kind.get("original_max_position_embeddings") for kind in changing]
    original += [getattr(text, "original_max_position_embeddings", None), text.max_position_embeddings]
    return min(int(value) for value in original if value)


def short_sequences(ids: Sequence[int], longest: int) -> list[TokenIds]:
    """Three prompts of about 40 tokens that share beginnings of different lengths, each alone and with two labels."""
    n = min(40, longest - 1)
    text = np.resize(list(ids) or [0], 3 * n).astype(np.int32)
    prompts = (
        text[:n],
        np.concatenate([text[: n * 3 // 4], text[n : n + n // 4]]),
        np.concatenate([text[: n // 2], text[2 * n : 2 * n + n // 3]]),
    )
    return [np.append(prompt, label) for prompt in prompts for label in (prompt[:0], prompt[:1], prompt[1:2])]


def long_sequences(ids: Sequence[int], config: Any, longest: int) -> list[TokenIds]:
    """Three prompts that end beyond the widest window that is checked, of which two branch behind it and one before it;
    and what they share.

    longest : tokens that a prompt may have
    """
    inside = [window for window in windows(config) if window <= MOST_LONG - 100]
    border = min(max([LEAST_LONG, *inside]), longest - 80)
    if border < 20:  # the short prompts are as long as any
        return []
    text = np.resize(list(ids) or [0], border + 200).astype(np.int32)
    late, early = border + 20, border - 20
    return [
        text[: border + 60],
        np.concatenate([text[:late], text[late + 7 : late + 47]]),
        np.concatenate([text[:early], text[early + 7 : early + 77]]),
        text[:late],
        text[:early],
    ]


@contextmanager
def few_layers(model: Any, n_layers: int) -> Iterator[int]:
    """The model has its first layers alone inside, as many as hold one of each kind and LEAST_LAYERS at least; yields
    how many these are."""
    lists = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == n_layers]
    types = getattr(model.config.get_text_config(), "layer_types", None) or []
    kinds = [tuple(map(_kind, layers)) for layers in zip(*lists, strict=True)] or [()] * n_layers
    if len(types) == n_layers:
        kinds = list(zip(kinds, types, strict=True))
    n = max([LEAST_LAYERS, *(kinds.index(kind) + 1 for kind in kinds)]) if lists else n_layers
    n = min(n, n_layers)
    whole = [(layers, layers._modules) for layers in lists]
    try:
        for layers, modules in whole:
            layers._modules = dict(list(modules.items())[:n])
        yield n
    finally:
        for layers, modules in whole:
            layers._modules = modules


def _kind(layer: torch.nn.Module) -> tuple[Any, ...]:
    """What a layer is made of, and all that it holds in plain values but its own number."""
    return tuple(
        (
            name,
            type(module).__name__,
            *sorted(
                (key, str(value))
                for key, value in vars(module).items()
                if isinstance(value, (bool, int, float, str, type(None))) and not _INDEX.search(key)
            ),
        )
        for name, module in layer.named_modules()
    )
