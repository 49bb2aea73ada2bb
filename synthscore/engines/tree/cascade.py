"""Attention over the chunks of a token tree, for models of transformers that let their attention be replaced.

A token attends to its path and to its stem (plan.py) in two calls, whose results are merged by the logarithms of their
sums, as if it had been one softmax:

    out = out_path + (out_stem - out_path) * sigmoid(lse_stem - lse_path)

Keys and values of earlier chunks are kept only for the nodes right above the next one, so memory does not grow with the
number of prompts. Grouped heads, sliding windows, soft caps and sinks are computed; any other argument that a model
gives to its attention is refused, never ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from transformers import AttentionInterface
from transformers.pytorch_utils import Conv1D

from ...errors import EngineError
from ...types import IntArray
from .plan import Chunk, Range
from .trie import Packed

_NAME = "synthscore_cascade"
_HARMLESS = frozenset(
    {
        "position_ids",
        "cache_position",
        "use_cache",
        "output_attentions",
        "output_hidden_states",
        "output_router_logits",
        "return_dict",
    }
)
_ALONE = {"cpu"}  # devices whose kernel gains nothing from paths side by side: to gather them costs as much as it does
_ROWS = 128  # queries at once in _in_blocks, so that their scores stay in the cache
_BLOCK = 2**24  # scores at once where attention is computed in plain steps: 64 MiB in float32

Memory = dict[Any, dict[Range, tuple[torch.Tensor, torch.Tensor]]]
"""Attention module -> node of the tree -> its keys and values, shape (1, n_heads, n_tokens, d_head)."""

Whole = dict[Any, tuple[torch.Tensor, torch.Tensor]]
"""Attention module -> keys and values of a chunk."""


@dataclass(eq=False)
class Pass:
    """A chunk on its way through the layers of a model.

    reads : places in the chunk whose last hidden state is read, ascending; the last layer is spared all else it can be
    memory : keys and values of the nodes above the chunk. next_memory : those above the next one
    n_layers : of the model
    keep_all : whether `whole` gets the keys and values of all tokens of the chunk
    """

    tree: Packed
    chunk: Chunk
    reads: IntArray
    memory: Memory
    n_layers: int
    keep_all: bool = False
    next_memory: Memory = field(default_factory=dict)
    whole: Whole = field(default_factory=dict)
    _tables: dict[torch.device, _Tables] = field(default_factory=dict)

    def tables(self, device: torch.device) -> _Tables:
        if device not in self._tables:
            self._tables[device] = _Tables.of(self.chunk, self.reads, device)
        return self._tables[device]


Places = slice | torch.Tensor
"""Of tokens in a chunk; a run of neighbours is a slice, which needs no copy."""


@dataclass(frozen=True, slots=True, eq=False)
class _Tables:
    """A chunk's plan on one device.

    paths : paths of similar length side by side, a shorter one repeating its last token: their places, and their number
    places : where each token is found in the paths, all flattened one after another
    groups : (stem, tokens that see it, those of them that are read)
    blocks : stem -> (places of a path, its length, those of its tokens that are read, as indices into the path)
    """

    paths: list[tuple[Places, int]]
    places: Places
    groups: list[tuple[tuple[Range, ...], Places, Places]]
    blocks: dict[tuple[Range, ...], list[tuple[Places, int, torch.Tensor]]]
    reads: torch.Tensor

    @classmethod
    def of(cls, chunk: Chunk, reads: IntArray, device: torch.device) -> _Tables:
        def at(places: IntArray) -> Places:
            if len(places) and places[-1] - places[0] == len(places) - 1 and (np.diff(places) == 1).all():
                return slice(int(places[0]), int(places[-1]) + 1)
            return torch.from_numpy(places).to(device)

        matrices = _matrices([path.tokens for path in chunk.paths], side_by_side=device.type not in _ALONE)
        flat = np.concatenate([matrix.ravel() for matrix in matrices])
        places = np.empty(len(chunk), dtype=np.int64)
        places[flat[::-1]] = np.arange(len(flat))[::-1]  # the first place: a last token's later ones are padding
        below: dict[tuple[Range, ...], list[IntArray]] = {}
        for path in chunk.paths:
            below.setdefault(path.stem, []).append(path.tokens)
        groups = [(stem, np.unique(np.concatenate(tokens))) for stem, tokens in below.items() if stem]
        return cls(
            [(at(matrix.ravel()), len(matrix)) for matrix in matrices],
            at(places),
            [(stem, at(tokens), at(np.intersect1d(tokens, reads))) for stem, tokens in groups],
            {
                stem: [(at(t), len(t), torch.from_numpy(np.flatnonzero(np.isin(t, reads)))) for t in paths]
                for stem, paths in below.items()
            },
            torch.from_numpy(reads).to(device),
        )


def _matrices(paths: list[IntArray], *, side_by_side: bool) -> list[IntArray]:
    """Each path as a matrix of one row; or paths of similar length as the rows of one."""
    if not side_by_side:
        return [path[None] for path in paths]
    batches: list[list[IntArray]] = []
    for path in sorted(paths, key=len, reverse=True):
        if not batches or len(path) < 0.9 * len(batches[-1][0]):
            batches.append([])
        batches[-1].append(path)
    return [np.stack([np.pad(path, (0, len(rows[0]) - len(path)), mode="edge") for path in rows]) for rows in batches]


StemOf = Callable[[tuple[Range, ...]], tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of a stem, shape (1, n_heads, n_tokens, d_head) each."""

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
    """The linear maps in the last layer of the first list of n_layers layers that the model has."""
    lists = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == n_layers]
    return [m for layers in lists[:1] for m in layers[-1].modules() if isinstance(m, (torch.nn.Linear, Conv1D))]


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
    memory = current.memory.get(module, {})

    def stem_of(ranges: tuple[Range, ...]) -> tuple[torch.Tensor, torch.Tensor]:
        found = [memory[node] if node[0] < chunk.start else _slice(key, value, node, chunk.start) for node in ranges]
        if len(found) == 1:
            return found[0]
        return torch.cat([k for k, _ in found], dim=2), torch.cat([v for _, v in found], dim=2)

    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    only_reads = getattr(module, "layer_idx", None) == current.n_layers - 1
    if (
        query.device.type == "cpu"
        and query.dtype == torch.bfloat16
        and not (softcap or sliding_window or s_aux is not None)
    ):
        merged = _in_blocks(query, key, value, scale, tables, stem_of, only_reads)
    else:
        how = _How(scale, softcap, sliding_window)
        merged = _in_two_calls(query, key, value, how, current, tables, stem_of, only_reads, s_aux)
    current.next_memory[module] = {
        node: memory[node] if node[0] < chunk.start else _slice(key, value, node, chunk.start, copy=True)
        for node in chunk.kept
    }
    if current.keep_all:
        current.whole[module] = (key, value)
    return merged[None], None


AttentionInterface.register(_NAME, _attention)


def _in_two_calls(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    how: _How,
    current: Pass,
    tables: _Tables,
    stem_of: StemOf,
    only_reads: bool,
    s_aux: torch.Tensor | None,
) -> torch.Tensor:
    """Attention to the paths, all side by side, and to each stem, merged; shape (n_tokens, n_heads, d_head)."""
    outs, sums = [], []
    for places, n_paths in tables.paths:
        q, k, v = (_rows(states, places, n_paths) for states in (query, key, value))
        out, lse = how.attend(q, k, v, how.path_mask(q), causal=True)
        outs.append(out.transpose(1, 2).flatten(0, 1))  # (n_places, n_heads, d_head)
        sums.append(lse.transpose(1, 2).flatten(0, 1))
    merged, total = _take(torch.cat(outs), tables.places), _take(torch.cat(sums), tables.places)

    for stem, tokens, read_tokens in tables.groups:
        places = read_tokens if only_reads else tokens
        q = _rows(query, places, 1)
        if not q.shape[2]:
            continue
        k, v = stem_of(stem)
        out, lse = how.attend(q, k, v, how.stem_mask(current, stem, places, q), causal=False)
        _merge(merged, total, places, out[0].transpose(0, 1), lse[0].transpose(0, 1))
    if s_aux is not None:  # a key that every token sees, with a value of zero
        merged = merged * torch.sigmoid(total - s_aux.to(total.dtype)).to(merged.dtype)[..., None]
    return merged


def _in_blocks(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    tables: _Tables,
    stem_of: StemOf,
    only_reads: bool,
) -> torch.Tensor:
    """The same by matrix products over one path and its stem at a time: the fastest on a CPU in bfloat16.

    The fused kernel is no faster in bfloat16 than in float32 there, and slow for short paths (docs/engines.md).
    """
    n_heads, n_tokens, d_head = query.shape[1:]
    n_groups, d_value = key.shape[1], value.shape[-1]
    merged = query.new_zeros(n_tokens, n_heads, d_value)
    for stem, paths in tables.blocks.items():
        n_stem = sum(b - a for a, b in stem)
        n_keys = _round_up(n_stem + max(n for _, n, _ in paths))
        keys = key.new_zeros(n_groups, d_head, n_keys)  # transposed: the product wants them so
        values = value.new_zeros(n_groups, n_keys, d_value)
        if stem:
            stem_keys, stem_values = stem_of(stem)
            keys[:, :, :n_stem], values[:, :n_stem] = stem_keys[0].transpose(1, 2), stem_values[0]
        buffers = [query.new_empty(n_heads * _ROWS * n_keys) for _ in range(2)]
        for places, n, reads in paths:
            keys[:, :, n_stem : n_stem + n] = _rows(key, places, 1)[0].transpose(1, 2)
            values[:, n_stem : n_stem + n] = _rows(value, places, 1)[0]
            q, out = _rows(query, places, 1)[0], query.new_zeros(n, n_heads, d_value)
            chosen = reads if only_reads else torch.arange(n)
            for rows in (chosen[start : start + _ROWS] for start in range(0, len(chosen), _ROWS)):
                n_rows, width = _round_up(len(rows)), _round_up(n_stem + int(rows[-1]) + 1)
                first = n_stem + int(rows[0])
                shape = (n_groups, n_heads // n_groups * n_rows, width)
                scores, weights = (buffer[: math.prod(shape)].view(shape) for buffer in buffers)
                padded = torch.cat([rows, rows[-1:].expand(n_rows - len(rows))])
                block = q.index_select(1, padded).reshape(n_groups, -1, d_head)
                torch.baddbmm(scores, block, keys[:, :, :width], beta=0, alpha=scale, out=scores)
                ahead = torch.arange(first, width) > n_stem + padded[:, None]
                scores.view(n_heads, n_rows, width)[:, :, first:].masked_fill_(ahead, -math.inf)
                torch.softmax(scores, dim=-1, out=weights)
                seen = torch.bmm(weights, values[:, :width]).view(n_heads, n_rows, d_value)
                out.index_copy_(0, rows, seen[:, : len(rows)].transpose(0, 1))
            if isinstance(places, slice):
                merged[places] = out
            else:
                merged.index_copy_(0, places, out)
    return merged


def _round_up(n: int) -> int:
    return -(-n // 32) * 32  # other sizes are slower, and each new one is compiled and kept by the library


@dataclass(frozen=True, slots=True)
class _How:
    """softmax(cap(scale * q k)) v. window : a token sees so many, itself included; None: all."""

    scale: float
    softcap: float | None
    window: int | None

    def attend(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, *, causal: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention, and the log of its sums in float32, shape (n, n_heads, n_queries).

        mask : bool, shape (n_queries, n_keys), True where a query sees a key; with it, `causal` is in it already
        A query that sees nothing: 0, and -inf.
        """
        same_size = q.shape[-1] == v.shape[-1]
        if self.softcap is None and same_size and q.device.type == "cpu":
            bias = None if mask is None else torch.zeros(mask.shape, dtype=q.dtype).masked_fill_(~mask, -math.inf)
            out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                q, k, v, 0.0, causal and mask is None, attn_mask=bias, scale=self.scale
            )
            if mask is not None and not (seen := mask.any(dim=1)).all():
                out = torch.where(seen[:, None], out, 0)
                lse = torch.where(seen, lse, -math.inf)
            return out, lse
        if self.softcap is None and same_size and mask is None and q.is_cuda and q.dtype != torch.float32:
            k, v = (states.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for states in (k, v))
            out, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(
                q, k, v, 0.0, causal, False, scale=self.scale
            )
            return out, lse[..., : q.shape[2]]
        return self._attend_plainly(q, k, v, mask, causal=causal)

    def _attend_plainly(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, *, causal: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The same in plain steps, in float32, some queries at a time: for arguments and devices without a kernel."""
        n_heads, n_keys = q.shape[1], k.shape[2]
        if causal and mask is None:
            mask = torch.ones(q.shape[2], n_keys, dtype=torch.bool, device=q.device).tril()
        k, v = (states.repeat_interleave(n_heads // k.shape[1], dim=1).float() for states in (k, v))
        outs, sums = [], []
        step = max(1, _BLOCK // (q.shape[0] * n_heads * n_keys))
        for start in range(0, q.shape[2], step):
            scores = q[:, :, start : start + step].float() @ k.transpose(2, 3) * self.scale
            if self.softcap is not None:
                scores = self.softcap * torch.tanh(scores / self.softcap)
            if mask is not None:
                scores = scores.masked_fill(~mask[start : start + step], -math.inf)
            lse = scores.logsumexp(dim=-1)
            weights = (scores - lse.nan_to_num(neginf=0.0)[..., None]).exp()
            outs.append(weights @ v)
            sums.append(lse)
        return torch.cat(outs, dim=2).to(q.dtype), torch.cat(sums, dim=2)

    def path_mask(self, q: torch.Tensor) -> torch.Tensor | None:
        """For paths that are longer than the window."""
        n = q.shape[2]
        if self.window is None or n <= self.window:
            return None
        behind = torch.arange(n, device=q.device)[:, None] - torch.arange(n, device=q.device)
        return (behind >= 0) & (behind < self.window)

    def stem_mask(
        self, current: Pass, stem: tuple[Range, ...], places: slice | torch.Tensor, q: torch.Tensor
    ) -> torch.Tensor | None:
        """For stems that reach further back than the window."""
        if self.window is None:
            return None
        at, tree = current.chunk.start, current.tree.positions
        chosen = places if isinstance(places, slice) else places.cpu().numpy()
        own = tree[at : current.chunk.stop][chosen]
        keys = np.concatenate([tree[a:b] for a, b in stem])
        if own.max() - keys.min() < self.window:
            return None
        return torch.from_numpy(own[:, None] - keys < self.window).to(q.device)


def _rows(states: torch.Tensor, places: slice | torch.Tensor, n: int) -> torch.Tensor:
    """Some tokens, n times as many side by side: (1, n_heads, n_tokens, d) -> (n, n_heads, n_places / n, d)."""
    if isinstance(places, slice) and n == 1:
        return states[:, :, places]
    by_token = _take(states[0].transpose(0, 1), places)  # in most models a token's heads lie side by side in memory
    return by_token.view(n, len(by_token) // n, *by_token.shape[1:]).transpose(1, 2)


def _take(states: torch.Tensor, places: slice | torch.Tensor) -> torch.Tensor:
    return states[places] if isinstance(places, slice) else states.index_select(0, places)


def _slice(
    key: torch.Tensor, value: torch.Tensor, node: Range, start: int, *, copy: bool = False
) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values of a node that lies in the chunk; a copy does not hold on to the rest of the chunk."""
    k, v = (states[:, :, node[0] - start : node[1] - start] for states in (key, value))
    return (k.clone(), v.clone()) if copy else (k, v)


def _merge(
    merged: torch.Tensor, total: torch.Tensor, places: slice | torch.Tensor, out: torch.Tensor, lse: torch.Tensor
) -> None:
    """Add the attention to further keys: out (n, n_heads, d_head), lse (n, n_heads), of the tokens at `places`."""
    here, here_lse = _take(merged, places), _take(total, places)
    share = torch.sigmoid(lse - here_lse).to(here.dtype)[..., None]
    both, both_lse = torch.lerp(here, out, share), torch.logaddexp(here_lse, lse)
    if isinstance(places, slice):
        merged[places], total[places] = both, both_lse
    else:
        merged.index_copy_(0, places, both)
        total.index_copy_(0, places, both_lse)
