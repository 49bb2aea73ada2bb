"""Shared beginnings for any model that keeps a cache: a token tree -> forwards that each go on from a kept cache.

A node of the tree is a run of tokens without a branch. What several sequences begin with is read by itself, and the
model's cache behind it (keys and values, states of convolutions and recurrences) is kept until the last of its
branches has been read. The ends of sequences are read side by side from copies of that cache, padded on the right:
a causal model does not see the padding, and what it leaves in the cache is thrown away.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from ...errors import EngineError
from ...types import IntArray
from .trie import Packed

MOST_REREAD = 128
"""Tokens that are read once for each of the ends below them, where a cache of their own would cost more (measured: a
forward of few tokens and the copies of a cache take as long as about 100 tokens side by side)."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One forward.

    stem : the token of the tree whose cache the rows go on from; -1: from none
    rows : int64, tokens of the tree, each row a way down from the stem. Of one row, or padded to the longest
    reads : the tokens after which the model is read, as (row, place in the row); each token once in all steps
    keeps : its only row ends where branches begin, so that its cache is kept, under the row's last token
    last : no later step goes on from the same stem
    """

    stem: int
    rows: tuple[IntArray, ...]
    reads: tuple[tuple[int, int], ...]
    keeps: bool
    last: bool

    @property
    def n_tokens(self) -> int:
        """Without padding."""
        return sum(map(len, self.rows))


def steps(tree: Packed, max_tokens: int, max_rows: int, most_reread: int = MOST_REREAD) -> Iterator[Step]:
    """The forwards that read a tree, depth first, so that few caches are kept at once.

    max_tokens : in the rows of one forward with their padding, and 8 times that with their copies of the cache; a row
        that is longer is alone
    """
    nodes = _Nodes.of(tree, most_reread)
    open_reads = np.zeros(tree.n_tokens, dtype=bool)
    open_reads[tree.ends] = True

    def step(stem: int, rows: list[IntArray], *, keeps: bool, last: bool) -> Step:
        reads = []
        for row, tokens in enumerate(rows):
            reads += [(row, int(place)) for place in np.flatnonzero(open_reads[tokens])]
            open_reads[tokens] = False
        return Step(stem, tuple(rows), tuple(reads), keeps, last)

    waiting = [(-1, True)]  # a node, and whether it is the last to be read of those below its parent
    while waiting:
        node, last = waiting.pop()
        end = -1
        if node >= 0:
            tokens = np.arange(nodes.starts[node], nodes.stops[node])
            yield step(int(tree.parents[tokens[0]]), [tokens], keeps=True, last=last)
            end = int(tokens[-1])
        inner = [child for child in nodes.children[node] if not nodes.is_flat[child]]
        tips = [tip for child in nodes.children[node] if nodes.is_flat[child] for tip in nodes.tips(child)]
        n_before = int(tree.positions[end]) + 1 if end >= 0 else 0
        batches = list(_batches(tips, n_before, max_tokens, max_rows))
        for k, rows in enumerate(batches):
            yield step(end, rows, keeps=False, last=not inner and k == len(batches) - 1)
        waiting += [(child, k == 0) for k, child in enumerate(reversed(inner))]


def _batches(rows: list[IntArray], n_before: int, max_tokens: int, max_rows: int) -> Iterator[list[IntArray]]:
    """Rows of similar length, the longest first."""
    rows = sorted(rows, key=len, reverse=True)
    while rows:
        width = len(rows[0])
        n = min(max_rows, max_tokens // width, 8 * max_tokens // (n_before + width))
        yield rows[: max(1, n)]
        rows = rows[max(1, n) :]


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """Runs of tokens without a branch, [starts[k], stops[k]), in depth-first order.

    parents : the node above, -1: none
    children : of each node; under -1 those without a parent
    is_flat : whether the node and all below it are read once for each end below
    """

    tree: Packed
    starts: IntArray
    stops: IntArray
    parents: list[int]
    children: dict[int, list[int]]
    is_flat: list[bool]

    @classmethod
    def of(cls, tree: Packed, most_reread: int) -> _Nodes:
        n = tree.n_tokens
        branches = np.flatnonzero(tree.parents != np.arange(-1, n - 1))  # where a token does not follow its neighbour
        starts = np.unique(np.concatenate([np.zeros(min(n, 1), dtype=np.int64), branches, tree.parents[branches] + 1]))
        stops = np.append(starts[1:], n)[: len(starts)]
        above = tree.parents[starts]
        parents = np.where(above < 0, -1, np.searchsorted(starts, above, side="right") - 1).tolist()
        children: dict[int, list[int]] = {node: [] for node in range(-1, len(starts))}
        for node, parent in enumerate(parents):
            children[parent].append(node)
        n_tips, is_flat = [0] * len(starts), [True] * len(starts)
        for node in range(len(starts) - 1, -1, -1):
            below = children[node]
            n_tips[node] = sum(n_tips[child] for child in below) or 1
            again = (n_tips[node] - 1) * int(stops[node] - starts[node])
            is_flat[node] = again <= most_reread and all(is_flat[child] for child in below)
        return cls(tree, starts, stops, parents, children, is_flat)

    def tips(self, node: int) -> Iterator[IntArray]:
        """The ways from this node's first token to each end below it."""
        waiting: list[tuple[int, IntArray]] = [(node, np.empty(0, dtype=np.int64))]
        while waiting:
            node, way = waiting.pop()
            way = np.append(way, np.arange(self.starts[node], self.stops[node]))
            if not self.children[node]:
                yield way
            waiting += [(child, way) for child in self.children[node]]


# -------------------------------------------------------------------------------------------- caches

_NAMES = ("past_key_values", "cache_params")
"""Under which transformers' models take and return a cache that is one of its classes."""


_APPENDING = (DynamicLayer, DynamicSlidingWindowLayer)
"""Layers that never write to their keys and values, but make new ones: all rows may have views of the same."""


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A model's cache behind one sequence. name : of the argument under which the model takes it"""

    name: str
    cache: Any

    @classmethod
    def of(cls, output: Any) -> Kept:
        """What a forward has left. raises : EngineError, where that is nothing, or nothing that can be branched"""
        for name in _NAMES:
            cache = getattr(output, name, None)
            if cache is not None:
                if not hasattr(cache, "reorder_cache"):
                    raise EngineError(f"its cache is a {type(cache).__name__}, expected one of transformers' classes")
                return cls(name, cache)
        raise EngineError("it returns no cache")

    def branched(self, n_rows: int) -> Kept:
        """The same for so many rows. Nothing that a model writes to is shared with it."""
        memo: dict[int, Any] = {}
        viewed: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for index, layer in enumerate(getattr(self.cache, "layers", ())):
            if type(layer) in _APPENDING and layer.is_initialized:
                viewed[index] = layer.keys, layer.values
                memo |= {id(states): states[:, :, :0] for states in viewed[index]}
        cache = deepcopy(self.cache, memo)
        cache.reorder_cache(torch.zeros(n_rows, dtype=torch.long))
        for index, states in viewed.items():
            layer = cache.layers[index]
            layer.keys, layer.values = (each.expand(n_rows, -1, -1, -1) for each in states)
        return Kept(self.name, cache)
