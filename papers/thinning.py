"""All calls about N texts -> some of them, as if no more had been asked. NumPy and SciPy: no model, no files."""

from __future__ import annotations

import numpy as np

from synthscore.errors import InputError
from synthscore.ranking import Comparisons, designs
from synthscore.types import IntArray


def thinned(calls: Comparisons, budget: str, design: str, rng: np.random.Generator) -> IntArray:
    """Rows of calls: pairs in both orders that connect all candidates.

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
        chosen = np.flatnonzero(both)[connecting(n, first[both], second[both], n_calls // 2, rng)]
    return np.concatenate([rows[chosen], rows[other[chosen]]])


def connecting(n: int, i: IntArray, j: IntArray, n_pairs: int, rng: np.random.Generator) -> IntArray:
    """Places of n_pairs of the pairs (i, j): the first ones in a random order, if these connect all candidates.

    If they do not, the pairs that come to connect all (Kruskal's spanning tree) go before the others.
    """
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import minimum_spanning_tree

    place = rng.permutation(len(i))
    tree = minimum_spanning_tree(csr_array((place + 1.0, (i, j)), shape=(n, n)))
    in_tree = np.zeros(len(i), dtype=bool)
    in_tree[np.argsort(place)[tree.data.astype(np.int64) - 1]] = True
    return np.lexsort((place, ~in_tree))[:n_pairs]
