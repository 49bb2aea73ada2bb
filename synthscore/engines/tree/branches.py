"""Shared beginnings for any model that keeps a cache: a token tree -> forwards that each go on from a kept cache.

A node of the tree is a run of tokens without a branch. What several sequences begin with is read by itself, and the
model's cache behind it (keys and values, states of convolutions and recurrences) is kept until the last of its
branches has been read. The ends of sequences are read side by side from copies of that cache, padded on the right:
a causal model does not see the padding, and what it leaves in the cache is thrown away.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
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

FORWARD = 64
"""Tokens of padding that a forward more is worth."""

BLOCK = 64
"""Tokens that gated delta rules read at once, whatever the config says: behind a multiple of them their states are
rounded as in the plain forward."""


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


def steps(
    tree: Packed, max_tokens: int, max_rows: int, most_reread: int = MOST_REREAD, block: int = 1
) -> Iterator[Step]:
    """The forwards that read a tree, depth first, so that few caches are kept at once.

    max_tokens : in the rows of one forward with their padding, and 8 times that with their copies of the cache; a row
        that is longer is alone
    block : caches are kept behind a multiple of so many tokens alone; what is shared after it is read for each end
    """
    stems = _stems(tree, most_reread, block)
    open_reads = np.zeros(tree.n_tokens, dtype=bool)
    open_reads[tree.ends] = True

    def step(stem: int, rows: list[IntArray], *, keeps: bool, last: bool) -> Step:
        reads = []
        for row, tokens in enumerate(rows):
            reads += [(row, int(place)) for place in np.flatnonzero(open_reads[tokens])]
            open_reads[tokens] = False
        return Step(stem, tuple(rows), tuple(reads), keeps, last)

    nothing: IntArray = np.empty(0, dtype=np.int64)
    waiting = [(-1, nothing, True)]  # a stem, a row that goes on from it to the next one, whether it is the last to
    while waiting:
        above, row, last = waiting.pop()
        stem = above
        if len(row):
            yield step(above, [row], keeps=True, last=last)
            stem = int(row[-1])
        ways = stems.pop(stem)
        n_before = int(tree.positions[stem]) + 1 if stem >= 0 else 0
        batches = list(_batches(ways.tips, n_before, max_tokens, max_rows))
        for k, rows in enumerate(batches):
            yield step(stem, rows, keeps=False, last=not ways.inner and k == len(batches) - 1)
        waiting += [(stem, way, k == 0) for k, way in enumerate(reversed(ways.inner))]


@dataclass(frozen=True, slots=True)
class _Ways:
    """The rows that go on from one stem: inner end in a stem of their own, tips in the end of a sequence."""

    inner: list[IntArray] = field(default_factory=list)
    tips: list[IntArray] = field(default_factory=list)


def _stems(tree: Packed, most_reread: int, block: int) -> dict[int, _Ways]:
    """Each token behind which a cache is kept -> the rows that go on from it; under -1 those from the beginning."""
    nodes = _Nodes.of(tree, most_reread)
    stem_in: dict[int, int] = {}  # node -> the one token in it behind which a cache is kept
    for node in (node for node, is_flat in enumerate(nodes.is_flat) if not is_flat):
        n_kept = (int(tree.positions[nodes.stops[node] - 1]) + 1) // block * block
        place = node  # of the last of these tokens: this node or one above
        while place >= 0 and tree.positions[nodes.starts[place]] >= n_kept:
            place = nodes.parents[place]
        if place >= 0:
            stem_in[place] = int(nodes.starts[place] - tree.positions[nodes.starts[place]]) + n_kept - 1
    stems = {-1: _Ways()}
    nothing: IntArray = np.empty(0, dtype=np.int64)
    waiting = [(root, -1, nothing) for root in reversed(nodes.children[-1])]  # a node, its stem, the way between them
    while waiting:
        node, stem, way = waiting.pop()
        way = np.append(way, np.arange(nodes.starts[node], nodes.stops[node]))
        if node in stem_in:
            n_above = len(way) - (int(nodes.stops[node]) - 1 - stem_in[node])
            stems[stem].inner.append(way[:n_above])
            stem, way = stem_in[node], way[n_above:]
            stems[stem] = _Ways()
        if not nodes.children[node]:
            stems[stem].tips.append(way)
        waiting += [(child, stem, way) for child in reversed(nodes.children[node])]
    return stems


def _batches(rows: list[IntArray], n_before: int, max_tokens: int, max_rows: int) -> Iterator[list[IntArray]]:
    """Rows of similar length, the longest first, so that padding and forwards together cost the least."""
    rows = sorted(rows, key=len, reverse=True)
    best = [(0, 0)] * (len(rows) + 1)  # from this row on: tokens, and where the first batch ends
    for start in range(len(rows) - 1, -1, -1):
        width = len(rows[start])
        most = max(1, min(max_rows, max_tokens // width, 8 * max_tokens // (n_before + width)))
        stops = range(start + 1, min(start + most, len(rows)) + 1)
        best[start] = min((FORWARD + width * (stop - start) + best[stop][0], stop) for stop in stops)
    start = 0
    while start < len(rows):
        stop = best[start][1]
        yield rows[start:stop]
        start = stop


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """Runs of tokens without a branch, [starts[k], stops[k]), in depth-first order.

    parents : the node above, -1: none
    children : of each node; under -1 those without a parent
    is_flat : whether the node and all below it are read once for each end below
    """

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
        return cls(starts, stops, parents, children, is_flat)


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

    @property
    def recurs(self) -> bool:
        """Whether it holds states of recurrences, and not keys, values and the last tokens of convolutions alone."""
        for layer in getattr(self.cache, "layers", ()):
            states = getattr(layer, "recurrent_states", None)
            states = list(states.values()) if isinstance(states, dict) else [states]
            if any(state is not None for state in states):
                return True
        return False

    def branched(self, n_rows: int, passing: Passing | None = None) -> Kept:
        """The same for so many rows. Nothing that a model writes to is shared with it.

        passing : the rows are read to their ends in one forward, whose keys and values are put there
        """
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
            layer.keys, layer.values = (before.expand(n_rows, -1, -1, -1) for before in states)
            if passing:
                layer.update = passing.joining(layer.keys, layer.values)
        return Kept(self.name, cache)


class Passing:
    """Memory for the keys and values of one layer after another, each until the next one attends."""

    def __init__(self) -> None:
        self._keys, self._values = _Scratch(), _Scratch()

    def joining(self, keys: torch.Tensor, values: torch.Tensor) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
        """A layer's `update` that keeps nothing: what is before the new keys and values, and these."""

        def update(key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> Any:
            return self._keys.joined(keys, key_states), self._values.joined(values, value_states)

        return update


class _Scratch:
    """Memory that is used again as soon as nobody holds what was in it: new memory of this size costs as much as to
    fill it."""

    def __init__(self) -> None:
        self._memory = torch.empty(0)
        self._holder: weakref.ref[torch.Tensor] | None = None

    def joined(self, before: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """Shape (n_rows, n_heads, n_tokens, d_head)."""
        n_rows, n_heads, n_new, d_head = states.shape
        shape = (n_rows, n_heads, before.shape[2] + n_new, d_head)
        n = math.prod(shape)
        same = (self._memory.dtype, self._memory.device) == (states.dtype, states.device)
        if not same or len(self._memory) < n or (self._holder and self._holder() is not None):
            self._memory = states.new_empty(n)
        joined = self._memory[:n].view(shape)
        torch.cat([before, states], dim=2, out=joined)
        self._holder = weakref.ref(joined)
        return joined
