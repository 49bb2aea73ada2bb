"""Shared beginnings for any model that keeps a cache: a token tree -> forwards that each go on from a kept cache.

A node of the tree is a run of tokens without a branch. What several sequences begin with is read by itself, and the
model's cache behind it (keys and values, states of convolutions and recurrences) is kept until the last of its
branches has been read. A token behind which a cache is kept is called a stem, and is named by its index in the tree;
-1 stands for the empty beginning. The ends of sequences are read side by side from copies of the stem's cache, padded
on the right: a causal model does not see the padding, and what it leaves in the cache is thrown away.
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
"""A node gets a cache only where the ends below it would have to read more tokens again without one, all together. A
forward of few tokens, and the copies of its cache, take as long as about 100 tokens read side by side (measured)."""

FORWARD = 64
"""What one more forward costs, in tokens: it is worth while where it saves more padding than this."""

MOST_ATTENDED = 4.7
"""Tokens that the rows of one forward attend to, each row its own and those of its cache, in units of max_tokens. Each
row has the keys and values of its cache for itself, so that this bounds memory. Rows of 940 tokens are read ten at a
time; to read 256 of them sixteen at a time would save 2 %, by FORWARD."""

BLOCK = 64
"""How many tokens gated delta rules read at once, whatever the config says. Only behind a multiple of so many tokens
is their state rounded as in the plain forward."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """One forward.

    stem : the token of the tree whose cache the rows go on from; -1: from an empty one
    rows : int64 each; indices of tokens in the tree, one below the other, the first of them below the stem. Rows differ
        in length: whoever runs the step pads them to the longest
    reads : the tokens after which the model's output is read, as (row, index in the row). Over all steps each end of a
        sequence is read once
    keeps : whether the cache behind the step is kept: it has one row, whose last token is a stem
    last : whether no later step goes on from the same stem
    """

    stem: int
    rows: tuple[IntArray, ...]
    reads: tuple[tuple[int, int], ...]
    keeps: bool
    last: bool

    @property
    def n_tokens(self) -> int:
        """Tokens in all rows, without padding."""
        return sum(map(len, self.rows))


def steps(
    tree: Packed, max_tokens: int, max_rows: int, most_reread: int = MOST_REREAD, block: int = 1
) -> Iterator[Step]:
    """The forwards that read a tree, depth first, so that few caches are kept at once.

    max_tokens : bounds the rows of one forward, where width is the longest row and cache the tokens up to the stem:
        rows * width <= max_tokens, and rows * (cache + width) <= MOST_ATTENDED * max_tokens. A longer row is alone
    max_rows : of one forward
    most_reread : see MOST_REREAD
    block : caches are kept only behind a multiple of so many tokens; what is shared beyond is read for each end
    """
    stems = _stems(tree, most_reread, block)
    open_reads = np.zeros(tree.n_tokens, dtype=bool)
    open_reads[tree.ends] = True

    def step(stem: int, rows: list[IntArray], *, keeps: bool, last: bool) -> Step:
        reads = []
        for row, tokens in enumerate(rows):
            reads += [(row, int(index)) for index in np.flatnonzero(open_reads[tokens])]
            open_reads[tokens] = False  # Rows of later steps may hold these tokens again.
        return Step(stem, tuple(rows), tuple(reads), keeps, last)

    nothing: IntArray = np.empty(0, dtype=np.int64)
    # A stem, the row from it to the next stem, and whether this is the last step that goes on from it. The first entry
    # has no row: it stands for the empty beginning itself.
    waiting = [(-1, nothing, True)]
    while waiting:
        above, row, last = waiting.pop()
        stem = above
        if len(row):
            yield step(above, [row], keeps=True, last=last)
            stem = int(row[-1])
        below = stems.pop(stem)
        n_before = int(tree.positions[stem]) + 1 if stem >= 0 else 0
        batches = list(_batches(below.to_ends, n_before, max_tokens, max_rows))
        for k, rows in enumerate(batches):
            yield step(stem, rows, keeps=False, last=not below.to_stems and k == len(batches) - 1)
        # Entries are popped from the back, so that of these k = 0 comes last.
        waiting += [(stem, row, k == 0) for k, row in enumerate(reversed(below.to_stems))]


@dataclass(frozen=True, slots=True)
class _Below:
    """The rows that go on from one stem, each an array of tokens: those whose last token is the next stem, and those
    whose last token is the end of a sequence, without a stem on the way."""

    to_stems: list[IntArray] = field(default_factory=list)
    to_ends: list[IntArray] = field(default_factory=list)


def _stems(tree: Packed, most_reread: int, block: int) -> dict[int, _Below]:
    """Each stem -> the rows that go on from it; under -1 those from the empty beginning."""
    nodes = _Nodes.of(tree, most_reread)
    # Each node that is not flat wants a cache behind its last token; the number of tokens from the beginning to there
    # is rounded down to a multiple of `block`. The last token that is left may lie in a node above. Nodes for which it
    # lies in the same one want the same token there: the last one in it that ends a block.
    stem_in: dict[int, int] = {}  # node -> the stem in it
    for node in (node for node, is_flat in enumerate(nodes.is_flat) if not is_flat):
        n_kept = (int(tree.positions[nodes.stops[node] - 1]) + 1) // block * block
        holder = nodes.at_position(node, n_kept - 1)
        if holder >= 0:
            stem_in[holder] = int(nodes.starts[holder] - nodes.depths[holder]) + n_kept - 1
    stems = {-1: _Below()}
    nothing: IntArray = np.empty(0, dtype=np.int64)
    # A node, the last stem above it, and the tokens between the two.
    waiting = [(root, -1, nothing) for root in reversed(nodes.children[-1])]
    while waiting:
        node, stem, row = waiting.pop()
        row = np.append(row, np.arange(nodes.starts[node], nodes.stops[node]))
        if node in stem_in:
            n_to_stem = len(row) - (int(nodes.stops[node]) - 1 - stem_in[node])
            stems[stem].to_stems.append(row[:n_to_stem])
            stem, row = stem_in[node], row[n_to_stem:]
            stems[stem] = _Below()
        if not nodes.children[node]:
            stems[stem].to_ends.append(row)
        waiting += [(child, stem, row) for child in reversed(nodes.children[node])]
    return stems


def _batches(rows: list[IntArray], n_before: int, max_tokens: int, max_rows: int) -> Iterator[list[IntArray]]:
    """Rows in batches of similar length, the longest first, so that padding and forwards together cost the least.

    n_before : tokens in the cache that each row goes on from. max_tokens, max_rows : as of `steps`
    """
    rows = sorted(rows, key=len, reverse=True)
    # Of the rows from each one on: what reading them costs, in tokens, and where the first of their batches ends.
    best = [(0, 0)] * (len(rows) + 1)
    for start in range(len(rows) - 1, -1, -1):
        width = len(rows[start])  # of a batch that starts here: no later row is longer
        most = max(1, min(max_rows, max_tokens // width, int(MOST_ATTENDED * max_tokens) // (n_before + width)))
        stops = range(start + 1, min(start + most, len(rows)) + 1)
        best[start] = min((FORWARD + width * (stop - start) + best[stop][0], stop) for stop in stops)
    start = 0
    while start < len(rows):
        stop = best[start][1]
        yield rows[start:stop]
        start = stop


@dataclass(frozen=True, slots=True, eq=False)
class _Nodes:
    """Runs of tokens without a branch, in depth-first order. Node k holds the tokens starts[k] to stops[k] - 1.

    depths : position in its sequences of each node's first token, from 0
    parents : the node above each node, -1: none
    children : node -> the nodes right below it; under -1 those without a parent
    is_flat : whether no cache is kept for the node, nor for any below it: their tokens are read again for each end of
        a sequence below
    """

    starts: IntArray
    stops: IntArray
    depths: IntArray
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
        n_ends = [0] * len(starts)  # nodes without a child at or below each node
        is_flat = [True] * len(starts)
        for node in range(len(starts) - 1, -1, -1):
            below = children[node]
            n_ends[node] = sum(n_ends[child] for child in below) or 1
            n_reread = (n_ends[node] - 1) * int(stops[node] - starts[node])
            is_flat[node] = n_reread <= most_reread and all(is_flat[child] for child in below)
        return cls(starts, stops, tree.positions[starts], parents, children, is_flat)

    def at_position(self, node: int, position: int) -> int:
        """The node that holds the token at a position of the sequences through `node`: itself or one above it.

        position : from 0 to that of the node's last token; -1, before all tokens, is in node -1
        """
        while node >= 0 and self.depths[node] > position:
            node = self.parents[node]
        return node


# -------------------------------------------------------------------------------------------- caches

_NAMES = ("past_key_values", "cache_params")
"""Arguments and outputs by which transformers' models take and return a cache of one of its classes."""


_APPENDING = (DynamicLayer, DynamicSlidingWindowLayer)
"""Layers of a cache that never write to their keys and values, but make new ones: all rows may have views of the same
memory."""


@dataclass(frozen=True, slots=True, eq=False)
class Kept:
    """A model's cache behind one sequence. name : of the argument under which the model takes it"""

    name: str
    cache: Any

    @classmethod
    def of(cls, output: Any) -> Kept:
        """The cache in the output of a forward. raises : EngineError where none is, or one that cannot be branched"""
        for name in _NAMES:
            cache = getattr(output, name, None)
            if cache is not None:
                if not hasattr(cache, "reorder_cache"):
                    raise EngineError(f"its cache is a {type(cache).__name__}, expected one of transformers' classes")
                return cls(name, cache)
        raise EngineError("it returns no cache")

    @property
    def recurs(self) -> bool:
        """Whether the cache holds states of recurrences, beside keys, values and the last tokens of convolutions."""
        for layer in getattr(self.cache, "layers", ()):
            states = getattr(layer, "recurrent_states", None)
            states = list(states.values()) if isinstance(states, dict) else [states]
            if any(state is not None for state in states):
                return True
        return False

    def branched(self, n_rows: int, passing: Passing | None = None) -> Kept:
        """The cache for n_rows rows, each of which goes on from this one. They share no memory that a model writes to.

        passing : memory for the keys and values, where one forward reads all rows to their ends, so that nothing of
            them has to be kept; None: each row keeps its own
        """
        memo: dict[int, Any] = {}
        viewed: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        for index, layer in enumerate(getattr(self.cache, "layers", ())):
            if type(layer) in _APPENDING and layer.is_initialized:
                viewed[index] = layer.keys, layer.values
                # deepcopy takes these empty stand-ins; the rows get views of the real keys and values below.
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
    """Memory for the keys and values of all layers of one forward, which need it one after another: what a layer has
    put there is overwritten when the next layer attends."""

    def __init__(self) -> None:
        self._keys, self._values = _Scratch(), _Scratch()

    def joining(self, keys: torch.Tensor, values: torch.Tensor) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
        """An `update` for a layer: it returns `keys` and `values`, each followed by the new ones, and keeps nothing."""

        def update(key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any) -> Any:
            return self._keys.joined(keys, key_states), self._values.joined(values, value_states)

        return update


class _Scratch:
    """Memory that is used again once nobody holds the tensor that was last in it. To ask for new memory of this size
    would take as long as to fill it."""

    def __init__(self) -> None:
        self._memory = torch.empty(0)
        self._holder: weakref.ref[torch.Tensor] | None = None

    def joined(self, before: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        """`before` and behind it `states`, along the tokens; shape (n_rows, n_heads, n_tokens, d_head), as of both."""
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
