"""Attention over the chunks of a token tree, for models of transformers that let their attention be replaced.

What each token attends to is plan.py's, how it does is attention.py's. Keys and values of earlier chunks are kept only
where the next one needs them, so that memory does not grow with the number of prompts; or all, where more calls on the
same contexts follow. Grouped heads, sliding windows, soft caps and sinks are computed; any other argument that a model
gives to its attention is refused, never ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from transformers import AttentionInterface
from transformers.pytorch_utils import Conv1D

from ...errors import EngineError
from ...types import IntArray
from .attention import How, Tables, in_blocks, in_two_calls
from .plan import Chunk, Range
from .trie import Packed

_NAME = "synthscore_cascade"
_HARMLESS = {
    "position_ids", "cache_position", "use_cache", "return_dict", "logits_to_keep",
    "output_attentions", "output_hidden_states", "output_router_logits",
}  # fmt: skip
Piece = tuple[int, torch.Tensor, torch.Tensor]
"""Neighbours in a tree: the first of them, and keys and values of all, shape (1, n_heads, n_tokens, d_head)."""
Memory = dict[Any, list[Piece]]
"""Attention module -> what it keeps, in the order of the tree."""


@dataclass(eq=False)
class Pass:
    """A chunk on its way through the layers of a model.

    reads : places in the chunk whose last hidden state is read, ascending; the last layer is spared all else it can be
    memory : keys and values of earlier chunks. next_memory : what is kept of them and of this one
    n_layers : of the model
    keeps_all : and not what the next chunk needs alone
    """

    tree: Packed
    chunk: Chunk
    reads: IntArray
    memory: Memory
    n_layers: int
    keeps_all: bool = False
    next_memory: Memory = field(default_factory=dict)
    _tables: dict[torch.device, Tables] = field(default_factory=dict)

    def tables(self, device: torch.device) -> Tables:
        if device not in self._tables:
            self._tables[device] = Tables.of(self.chunk, self.tree.positions, self.reads, device)
        return self._tables[device]


_PASS: ContextVar[Pass | None] = ContextVar("synthscore_pass", default=None)


@contextmanager
def cascading(model: Any, current: Pass) -> Iterator[None]:
    """The model attends over `current` inside; outside as before.

    raises : EngineError on leaving, when the model has attended in some other way
    """
    configs = {id(c): c for module in model.modules() if (c := getattr(module, "config", None)) is not None}.values()
    before = [(config, config._attn_implementation_internal) for config in configs]
    mark = _PASS.set(current)
    hooks = [hook for linear in _last_linears(model, current.n_layers) for hook in _spare(linear, current)]
    try:
        for config in configs:
            config._attn_implementation_internal = _NAME
        yield
    finally:
        _PASS.reset(mark)
        for hook in hooks:
            hook.remove()
        for config, name in before:
            config._attn_implementation_internal = name
    if len(current.next_memory) != current.n_layers:
        raise EngineError(
            f"{len(current.next_memory)} of {current.n_layers} layers attend through transformers' attention interface"
        )


def _last_linears(model: Any, n_layers: int) -> list[torch.nn.Module]:
    """The linear maps in the last layer of the first list of n_layers layers that the model has. Not modules that are
    made of one and do more, such as a router that returns a choice of experts."""
    lists = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == n_layers]
    plain = (torch.nn.Linear.forward, Conv1D.forward)
    return [m for layers in lists[:1] for m in layers[-1].modules() if type(m).forward in plain]


def _spare(linear: torch.nn.Module, current: Pass) -> list[Any]:
    """Hooks by which a linear map of the last layer runs over the tokens that are read alone, once it has attended.

    Nothing but what happens to each token by itself comes after that, so the others may be left at zero.
    """

    def before(module: Any, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        states = inputs[0]
        if len(current.next_memory) < current.n_layers or states.shape[:-1] != (1, len(current.chunk)):
            return None
        return (states[:, current.tables(states.device).reads], *inputs[1:])

    def after(module: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor | None:
        if len(current.next_memory) < current.n_layers or output.shape[:-1] != (1, len(current.reads)):
            return None
        whole = output.new_zeros(1, len(current.chunk), output.shape[-1])
        whole[:, current.tables(output.device).reads] = output
        return whole

    return [linear.register_forward_pre_hook(before), linear.register_forward_hook(after)]


def _attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    is_causal: bool | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """What transformers calls in each layer: (1, n_heads, n_tokens, d_head) -> (1, n_tokens, n_heads, d_head)."""
    current = _PASS.get()
    refused = {name for name, value in others.items() if name not in _HARMLESS and value is not None}
    causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
    if (
        current is None
        or refused
        or attention_mask is not None
        or not causal
        or module in current.next_memory
        or query.shape[:1] + query.shape[2:3] != (1, len(current.chunk))
        or key.shape[2] != len(current.chunk)
    ):
        raise EngineError(
            f"{type(module).__name__} attends in a way that cannot be shared: mask {attention_mask is not None}, "
            f"causal {causal}, arguments {sorted(refused)}, shapes {tuple(query.shape)}, {tuple(key.shape)}"
        )
    chunk, tables = current.chunk, current.tables(query.device)
    pieces = [*current.memory.get(module, []), (chunk.start, key, value)]

    def stem_of(ranges: tuple[Range, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        _, keys, values = zip(*_cut(pieces, ranges), strict=True)
        return (keys[0], values[0]) if len(keys) == 1 else (torch.cat(keys, dim=2), torch.cat(values, dim=2))

    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    only_reads = getattr(module, "layer_idx", None) == current.n_layers - 1
    if (
        query.device.type == "cpu"
        and query.dtype == torch.bfloat16
        and not (softcap or sliding_window or s_aux is not None)
    ):
        merged = in_blocks(query, key, value, scale, tables, stem_of, only_reads)
    else:
        how = How(scale, softcap, sliding_window)
        merged = in_two_calls(query, key, value, how, tables, stem_of, only_reads, s_aux)
    kept = ((0, chunk.stop),) if current.keeps_all else chunk.needed
    current.next_memory[module] = [(first, _own(k), _own(v)) for first, k, v in _cut(pieces, kept)]
    return merged[None], None


AttentionInterface.register(_NAME, _attention)


def _cut(pieces: list[Piece], ranges: tuple[Range, ...]) -> Iterator[Piece]:
    """The tokens of these ranges, as views."""
    for start, stop in ranges:
        for first, k, v in pieces:
            a, b = max(start - first, 0), min(stop - first, k.shape[2])
            if a < b:
                yield first + a, k[:, :, a:b], v[:, :, a:b]


def _own(states: torch.Tensor) -> torch.Tensor:
    """A copy, where they would hold on to the memory of more than themselves."""
    return states if states.untyped_storage().nbytes() == states.nbytes else states.clone()
