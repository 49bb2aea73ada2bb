"""Token sequences -> one packed tree in which every distinct prefix is one token. Pure NumPy: no model, no text.

A model that reads the tree, each token at its own depth and seeing only its ancestors, computes for every sequence
what it would compute for that sequence by itself; what the sequences share is computed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...types import IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Packed:
    """Token sequences merged into a tree, in depth-first order: a parent comes before its children.

    ids : int64, shape (n_tokens,)
    positions : int64, shape (n_tokens,); depth in the tree, which is the place of the token in its sequences
    parents : int64, shape (n_tokens,); index of the token before, -1 at the first token of a sequence
    ends : int64, shape (n_sequences,); index of each sequence's last token, in the order the sequences were given
    """

    ids: IntArray
    positions: IntArray
    parents: IntArray
    ends: IntArray

    @property
    def n_tokens(self) -> int:
        return len(self.ids)


def pack(sequences: Sequence[npt.ArrayLike]) -> Packed:
    """Merge token sequences into one tree: n_tokens is the number of distinct prefixes, duplicates cost nothing.

    sequences : lists of token ids >= 0, none empty
    raises : ValueError for an empty sequence or a negative id
    """
    rows = [np.asarray(sequence, dtype=np.int32) for sequence in sequences]
    for index, row in enumerate(rows):
        if row.ndim != 1 or not len(row) or row.min() < 0:
            raise ValueError(f"sequence {index} is {row.tolist()!r:.80}, expected token ids >= 0, at least one")
    ids, positions, parents = ([np.empty(0, dtype=np.int64)] for _ in range(3))
    ends = np.empty(len(rows), dtype=np.int64)
    # Behind -1, the parent of first tokens: the tree index of each token of the current sequence.
    path = np.full(1 + max(map(len, rows), default=0), -1, dtype=np.int64)
    n_tokens = 0
    before = np.empty(0, dtype=np.int32)
    keys = [row.astype(">i4").tobytes() for row in rows]  # big-endian bytes compare like the ids, in C
    # In lexicographic order a sequence shares more with its neighbour than with any other, and a prefix comes first.
    for index in sorted(range(len(rows)), key=keys.__getitem__):
        row = rows[index]
        n_most = min(len(before), len(row))
        n_shared = int(np.append(before[:n_most] != row[:n_most], True).argmax())
        n_new = len(row) - n_shared
        path[n_shared + 1 : len(row) + 1] = np.arange(n_tokens, n_tokens + n_new)
        parents.append(path[n_shared : len(row)].copy())
        ids.append(row[n_shared:].astype(np.int64))
        positions.append(np.arange(n_shared, len(row)))
        n_tokens += n_new
        ends[index] = path[len(row)]
        before = row
    return Packed(np.concatenate(ids), np.concatenate(positions), np.concatenate(parents), ends)


def grow(tree: Packed, sequences: Sequence[npt.ArrayLike]) -> Packed:
    """The tree and behind it what these sequences have that it has not: its own tokens stay where they are.

    The last token of each sequence is new even if the tree has it, because it is read.

    returns : with the ends of these sequences
    """
    below = dict(zip(zip(tree.parents.tolist(), tree.ids.tolist(), strict=True), range(tree.n_tokens), strict=True))
    hung = []
    for row in map(np.asarray, sequences):
        at, n = -1, 0
        for token in row[:-1].tolist():
            if (child := below.get((at, token))) is None:
                break
            at, n = child, n + 1
        hung.append(np.append(at + 1, row[n:]))
    more = pack(hung)  # a tree for each place of this one, on a root of its own, which names the place
    is_root = more.parents < 0
    place = (more.ids[is_root] - 1)[np.cumsum(is_root) - 1]
    index = np.where(is_root, place, np.cumsum(~is_root) - 1 + tree.n_tokens)
    depth = np.append(tree.positions, -1)[place] + more.positions
    new = ~is_root
    return Packed(
        np.append(tree.ids, more.ids[new]),
        np.append(tree.positions, depth[new]),
        np.append(tree.parents, index[more.parents[new]]),
        index[more.ends],
    )
