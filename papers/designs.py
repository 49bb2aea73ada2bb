"""Random comparisons, as the papers draw them: what `Selection` does not offer, because greedy pairs tell more.

A budget counts *calls*, as in synthscore.ranking.designs: int64, shape (n_calls, 2), first shown in column 0; no call
comes twice, and all candidates are connected.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from synthscore.ranking.designs import coin_flips, greedy, in_both_orders, numbered_calls, require_budget
from synthscore.types import IntArray

_DRAWS = 100  # disconnected draws before a spanning tree is drawn first


def random_calls(n: int, n_calls: int, rng: np.random.Generator) -> IntArray:
    """Any of the n (n - 1) calls, uniformly among the draws that connect all candidates.

    Where n_calls is so small that 100 draws did not connect them, a uniformly drawn spanning tree comes first, each of
    its pairs in an order that a coin decides, and the rest is drawn uniformly from what is left.

    raises : InputError for fewer than n - 1 calls, or more than there are
    """
    require_budget(n, n_calls, most=n * (n - 1))
    return _connected_draw(n, n_calls, n * (n - 1), rng)


def no_repeat(n: int, n_calls: int, rng: np.random.Generator) -> IntArray:
    """Any of the n (n - 1) / 2 pairs, drawn as by `random_calls`; a coin decides which text is first.

    raises : InputError for fewer than n - 1 calls, or more than there are pairs
    """
    require_budget(n, n_calls, most=n * (n - 1) // 2)
    return coin_flips(_connected_draw(n, n_calls, n * (n - 1) // 2, rng), rng)


def symmetric(n: int, n_calls: int, rng: np.random.Generator) -> IntArray:
    """n_calls / 2 of the pairs, drawn as by `random_calls`, each in both orders, one right after the other.

    raises : InputError for an odd number, fewer than 2 (n - 1), or more than n (n - 1)
    """
    require_budget(n, n_calls, most=n * (n - 1), both_orders=True)
    return in_both_orders(_connected_draw(n, n_calls // 2, n * (n - 1) // 2, rng))


DRAWN: Mapping[str, Callable[[int, int, np.random.Generator], IntArray]] = {
    "symmetric": symmetric,
    "greedy": greedy,
    "no-repeat": no_repeat,
    "random": random_calls,
}
"""Designs of a number of calls, by their names."""


def _coded(n: int, calls: IntArray) -> IntArray:
    codes: IntArray = ((calls[:, 1] - calls[:, 0]) % n - 1) * n + calls[:, 0]
    return codes


def _connected_draw(n: int, size: int, n_codes: int, rng: np.random.Generator) -> IntArray:
    for _ in range(_DRAWS):
        calls = numbered_calls(n, rng.choice(n_codes, size, replace=False))
        if connected(n, calls):
            return calls
    tree = coin_flips(_random_tree(n, rng), rng)
    codes = _coded(n, tree)
    if n_codes < n * (n - 1):  # pairs, not calls: a pair's code is the smaller of its two calls'
        codes = np.minimum(codes, _coded(n, tree[:, ::-1]))
    drawn = rng.choice(n_codes, size, replace=False)  # enough, because at most n - 1 of them are in the tree
    rest = drawn[~np.isin(drawn, codes)][: size - (n - 1)]
    return numbered_calls(n, np.concatenate([codes, rest]))


def _random_tree(n: int, rng: np.random.Generator) -> IntArray:
    """A spanning tree, uniformly out of all n^(n - 2), shape (n - 1, 2): where a random walk came from when it
    first reached each node (Aldous 1990, Broder 1989)."""
    node, came_from = 0, {0: -1}
    while len(came_from) < n:
        before, node = node, int(rng.integers(n))
        came_from.setdefault(node, before)
    del came_from[0]
    return np.array(list(came_from.items()), dtype=np.int64)


def connected(n: int, calls: IntArray) -> bool:
    graph = coo_array((np.ones(len(calls)), (calls[:, 0], calls[:, 1])), shape=(n, n))
    n_parts, _ = connected_components(graph, directed=False)
    return bool(n_parts == 1)
