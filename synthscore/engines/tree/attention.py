"""Attention of a chunk's tokens to their paths and stems, by the kernels at hand. Plain tensors: no model, no tree.

A token attends to its path and to its stem (plan.py) in two calls, whose results are merged by the logarithms of their
sums, as if it had been one softmax:

    out = out_path + (out_stem - out_path) * sigmoid(lse_stem - lse_path)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from ...types import IntArray
from .plan import Chunk, Range

_ALONE = {"cpu"}  # devices whose kernel gains nothing from paths side by side: to gather them costs as much as it does
_ROWS = 128  # queries at once in in_blocks, so that their scores stay in the cache
_BLOCK = 2**24  # scores at once where attention is computed in plain steps: 64 MiB in float32

Places = slice | torch.Tensor
"""Of tokens in a chunk; a run of neighbours is a slice, which needs no copy."""


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """A chunk's plan on one device. positions : of all tokens of the tree

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
    chunk: Chunk
    positions: torch.Tensor

    @classmethod
    def of(cls, chunk: Chunk, positions: IntArray, reads: IntArray, device: torch.device) -> Tables:
        def at(places: IntArray) -> Places:
            if len(places) and (np.diff(places) == 1).all():
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
            chunk,
            torch.from_numpy(positions).to(device),
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


def in_two_calls(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    how: How,
    tables: Tables,
    stem_of: StemOf,
    only_reads: bool,
    s_aux: torch.Tensor | None,
) -> torch.Tensor:
    """Attention to the paths, all side by side, and to each stem, merged; shape (n_tokens, n_heads, d_head)."""
    outs, sums = [], []
    for places, n_paths in tables.paths:
        q, k, v = (_rows(states, places, n_paths) for states in (query, key, value))
        steps = torch.arange(q.shape[2], device=q.device)
        out, lse = how.attend(q, k, v, how.mask(steps, steps), causal=True)
        outs.append(out.transpose(1, 2).flatten(0, 1))  # (n_places, n_heads, d_head)
        sums.append(lse.transpose(1, 2).flatten(0, 1))
    merged, total = torch.cat(outs)[tables.places], torch.cat(sums)[tables.places]

    here = tables.positions[tables.chunk.start : tables.chunk.stop]
    for stem, tokens, read_tokens in tables.groups:
        places = read_tokens if only_reads else tokens
        q = _rows(query, places)
        if not q.shape[2]:
            continue
        k, v = stem_of(stem)
        above = torch.cat([tables.positions[a:b] for a, b in stem])
        out, lse = how.attend(q, k, v, how.mask(here[places], above), causal=False)
        further, before = lse[0].transpose(0, 1), total[places]
        share = torch.sigmoid(further - before).to(out.dtype)[..., None]
        merged[places] = torch.lerp(merged[places], out[0].transpose(0, 1), share)
        total[places] = torch.logaddexp(before, further)
    if s_aux is not None:  # a key that every token sees, with a value of zero
        merged = merged * torch.sigmoid(total - s_aux.to(total.dtype)).to(merged.dtype)[..., None]
    return merged


def in_blocks(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    scale: float,
    tables: Tables,
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
            keys[:, :, n_stem : n_stem + n] = _rows(key, places)[0].transpose(1, 2)
            values[:, n_stem : n_stem + n] = _rows(value, places)[0]
            q, out = _rows(query, places)[0], query.new_zeros(n, n_heads, d_value)
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
            merged[places] = out
    return merged


def _round_up(n: int) -> int:
    return -(-n // 32) * 32  # other sizes are slower, and each new one is compiled and kept by the library


@dataclass(frozen=True, slots=True)
class How:
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
        has_kernel = self.softcap is None and q.shape[-1] == v.shape[-1]
        if has_kernel and q.device.type == "cpu":
            bias = None if mask is None else torch.zeros(mask.shape, dtype=q.dtype).masked_fill_(~mask, -math.inf)
            out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
                q, k, v, 0.0, causal and mask is None, attn_mask=bias, scale=self.scale
            )
            if mask is not None and not (seen := mask.any(dim=1)).all():
                out = torch.where(seen[:, None], out, 0)
                lse = torch.where(seen, lse, -math.inf)
            return out, lse
        n_heads, n_keys = q.shape[1], k.shape[2]
        k, v = (states.repeat_interleave(n_heads // k.shape[1], dim=1) for states in (k, v))
        if has_kernel and mask is None and q.is_cuda and q.dtype != torch.float32:
            out, lse, *_ = torch.ops.aten._scaled_dot_product_flash_attention(
                q, k, v, 0.0, causal, False, scale=self.scale
            )
            return out, lse[..., : q.shape[2]]
        # No kernel for these arguments or this device: plain steps, in float32, some queries at a time.
        if causal and mask is None:
            mask = torch.ones(q.shape[2], n_keys, dtype=torch.bool, device=q.device).tril()
        k, v = k.float(), v.float()
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

    def mask(self, queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor | None:
        """Which keys each query sees, by the positions of both; None where the window reaches back to the first key."""
        if self.window is None or queries.max() - keys.min() < self.window:
            return None
        behind = queries[:, None] - keys
        return (behind >= 0) & (behind < self.window)


def _rows(states: torch.Tensor, places: Places, n: int = 1) -> torch.Tensor:
    """Some tokens, n times as many side by side: (1, n_heads, n_tokens, d) -> (n, n_heads, n_places / n, d)."""
    by_token = states[0].transpose(0, 1)[places]  # in most models a token's heads lie side by side in memory
    return by_token.view(n, len(by_token) // n, *by_token.shape[1:]).transpose(1, 2)
