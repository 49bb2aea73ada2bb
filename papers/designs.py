"""Calls drawn at random, as the papers draw them: what `Selection` does not offer, because greedy pairs tell more.
NumPy and SciPy: no model, no files.

A budget counts *calls*, as in synthscore.ranking.designs; no call comes twice, and all candidates are connected.
"""

from __future__ import annotations

import numpy as np

from synthscore.errors import InputError
from synthscore.ranking import Comparisons, designs
from synthscore.types import IntArray


def symmetric(n: int, n_calls: int, rng: np.random.Generator) -> IntArray:
    """n_calls / 2 of the pairs, drawn as by `connecting`, each in both orders, one right after the other.

    returns : int64, shape (n_calls, 2), first shown in column 0
    raises : InputError for an odd number, fewer than 2 (n - 1), or more than n (n - 1)
    """
    designs.require_budget(n, n_calls, most=n * (n - 1), both_orders=True)
    n_pairs = n * (n - 1) // 2
    drawn = rng.choice(n_pairs, n_calls // 2, replace=False)
    others = np.setdiff1d(np.arange(n_pairs), drawn)
    pairs = designs.numbered_calls(n, np.concatenate([drawn, rng.permutation(others)]))
    return designs.in_both_orders(pairs[connecting(n, pairs[:, 0], pairs[:, 1], n_calls // 2)])


def thinned(calls: Comparisons, budget: str, design: str, rng: np.random.Generator) -> IntArray:
    """Rows of calls, as if no more had been asked: pairs in both orders that connect all candidates.

    budget : "all", of which nothing is left out, or "3N": three times as many calls as candidates; an odd number is one
        more. design : "symmetric", any pairs; or "greedy", as in ranking.designs, which needs all of them
    raises : InputError where there are not so many
    """
    if budget == "all":
        return np.arange(len(calls))
    n = calls.n_candidates
    n_calls = int(budget.removesuffix("N")) * n
    n_calls += n_calls % 2
    codes, rows = np.unique(calls.first * np.int64(n) + calls.second, return_index=True)
    first, second = np.divmod(codes, np.int64(n))
    other = np.searchsorted(codes, second * n + first)
    both = (first < second) & (codes[np.minimum(other, len(codes) - 1)] == second * n + first)
    needed = n * (n - 1) if design == "greedy" else n_calls
    if max(needed, n_calls) > 2 * both.sum():
        raise InputError(
            f"cannot draw {budget} = {n_calls} calls about {n} texts, pairs in both orders, {design}: that needs "
            f"{max(needed, n_calls)}, and there are answers to {2 * both.sum()}",
            value=budget,
        )
    if design == "greedy":
        pairs = designs.greedy(n, n_calls, rng)[::2]
        chosen = np.searchsorted(codes, pairs.min(axis=1) * n + pairs.max(axis=1))
    else:
        pairs = np.flatnonzero(both)[np.argsort(rng.permutation(both.sum()))]
        chosen = pairs[connecting(n, first[pairs], second[pairs], n_calls // 2)]
    return np.concatenate([rows[chosen], rows[other[chosen]]])


def connecting(n: int, i: IntArray, j: IntArray, n_edges: int) -> IntArray:
    """Places of n_edges of the edges (i, j), which are in a random order: the first ones, if these connect all nodes.

    If they do not, the edges that come to connect all (Kruskal's spanning tree) go before the others.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    tree = minimum_spanning_tree(csr_array((np.arange(1.0, len(i) + 1), (i, j)), shape=(n, n)))
    in_tree = np.zeros(len(i), dtype=np.bool_)
    in_tree[tree.data.astype(np.int64) - 1] = True
    return np.argsort(~in_tree, kind="stable")[:n_edges]
