"""A token tree -> chunks of bounded size, and what each token of a chunk attends to. Pure NumPy: no model, no text.

A tree (trie.py) is cut into *nodes*: runs of tokens without a branch. In a chunk, a token attends to two kinds of keys:

- its *path*: the tokens of its own node up to itself, and of small nodes right above it. Paths are read side by side,
  causally; a small node is read once for each path through it, which costs less than to read it by itself.
- the *stem*: everything above the path. All tokens below a stem read its keys in one go.

Both attentions come with the logarithm of their sums, by which they are merged (cascade.py). Chunks are cut in
depth-first order, so that a later chunk needs no keys of earlier ones but those on the way to its first token, and of
tokens that an earlier call has read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...types import IntArray
from .trie import Packed

Range = tuple[int, int]
"""Tokens of the tree, [start, stop)."""


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """Tokens one after another, each seeing those before it and all of the stem.

    tokens : int64, places in the chunk. Paths may share their first ones
    stem : from the root downwards, so that all of it and the path are one beginning of a sequence
    """

    tokens: IntArray
    stem: tuple[Range, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Tokens [start, stop) of a tree.

    paths : every token is on one at least
    needed : the tokens so far whose keys the next chunk needs
    """

    start: int
    stop: int
    paths: tuple[Path, ...]
    needed: tuple[Range, ...]

    def __len__(self) -> int:
        return self.stop - self.start


def plan(tree: Packed, max_tokens: int, start: int = 0) -> Iterator[Chunk]:
    """The chunks of a tree, in depth-first order, each of max_tokens tokens, the last of at most so many.

    start : the tokens before it have been read, and their keys are at hand
    """
    n = tree.n_tokens
    branches = np.flatnonzero(tree.parents != np.arange(-1, n - 1))
    runs = np.append(0, branches)  # where a token does not follow its neighbour
    # Nodes start at each branch, and right behind the token that it branches from.
    cuts = np.unique(np.concatenate([runs, tree.parents[branches] + 1]))

    def way(token: int) -> tuple[Range, ...]:
        """From the root to this token; -1: none."""
        ranges: tuple[Range, ...] = ()
        while token >= 0:
            first = int(runs[np.searchsorted(runs, token, side="right") - 1])
            ranges = ((first, token + 1), *ranges)
            token = int(tree.parents[first])
        return ranges

    while start < n:
        stop = min(start + max_tokens, n)  # all alike: libraries compile and keep something for each new size
        inner = cuts[np.searchsorted(cuts, start, side="right") : np.searchsorted(cuts, stop)].tolist()
        nodes = list(pairwise([start, *inner, stop]))
        yield Chunk(start, stop, _paths(tree, nodes, way), way(int(tree.parents[stop])) if stop < n else ())
        start = stop


def _paths(tree: Packed, nodes: list[Range], way: Callable[[int], tuple[Range, ...]]) -> tuple[Path, ...]:
    start = nodes[0][0]
    index = {last - 1: place for place, (_, last) in enumerate(nodes)}  # a node's last token -> the node
    parents = [index.get(int(tree.parents[a]), -1) for a, _ in nodes]  # -1: none in this chunk
    depth = tree.positions[[a for a, _ in nodes]]
    n_paths = [0] * len(nodes)  # tips below, in this chunk
    for node in range(len(nodes) - 1, -1, -1):
        n_paths[node] = max(n_paths[node], 1)
        if parents[node] >= 0:
            n_paths[parents[node]] += n_paths[node]

    tails: list[tuple[Range, ...]] = []  # the path of each node, from its stem down
    stems: list[tuple[Range, ...]] = []
    is_stem = [False] * len(nodes)  # whether the nodes below read it as a stem
    for node, (a, b) in enumerate(nodes):
        parent = parents[node]
        folded = parent >= 0 and not is_stem[parent]
        stems.append(stems[parent] if folded else way(int(tree.parents[a])))
        tails.append((*(tails[parent] if folded else ()), (a, b)))
        n_tail = sum(last - first for first, last in tails[-1])
        is_stem[node] = _pays(n_tail, n_paths[node], int(depth[node]) + b - a)
    folds = {parents[node] for node in range(len(nodes)) if parents[node] >= 0 and not is_stem[parents[node]]}
    tips = [node for node in range(len(nodes)) if node not in folds]
    tokens = [np.concatenate([np.arange(a, b) for a, b in tails[node]]) - start for node in tips]
    return tuple(Path(ids, stems[node]) for ids, node in zip(tokens, tips, strict=True))


def _pays(n_tail: int, n_paths: int, n_stem: int) -> bool:
    """Whether a node that ends n_tail tokens below its stem is better read as a stem than once for each path below.

    In products of a query and a key: reading it again for each path but one, against gathering the n_stem keys of the
    new stem (about 24 each, measured) and one more call.
    """
    return (n_paths - 1) * n_tail * (n_tail + 200) / 2 > 24 * n_stem + 4000
