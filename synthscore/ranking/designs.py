"""Which comparisons to ask for. Pure NumPy and SciPy: nothing here knows what a text or a judge is.

A budget counts *calls*: a pair asked in both orders is two of them. A design is an int64 array of shape (n_calls, 2)
with the text that is shown first in column 0. No call comes twice, and all candidates are connected: without that no
method can put them on one scale.

    all_pairs       everything
    random_calls    of the N (N - 1) calls, any
    no_repeat       of the N (N - 1) / 2 pairs, each in an order that a coin decides
    symmetric       of the pairs, each in both orders
    greedy          the pairs that tell most about the scores, before any answer is known
    design          one of these by name
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from scipy.linalg.blas import dgemm
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ..errors import InputError
from ..types import BoolArray, FloatArray, IntArray

_DRAWS = 100  # disconnected draws before a spanning tree is drawn first
_TIE = 1e-9  # gains that differ by less, relatively, are equal: rounding must not choose between them
_BLOCK = 96  # picks that are applied to the resistances together
_WIDTH = 4000  # pairs that are kept up to date between two such blocks


# ------------------------------------------------------------------------------------------------- fixed designs


def all_pairs(n: int, *, both_orders: bool = True) -> IntArray:
    """Every pair, in both orders or in one. In one, each candidate is first in half of its pairs (even n: give or take
    one)."""
    _require(n, n - 1)
    return _decoded(n, np.arange(n * (n - 1) // (1 if both_orders else 2)))


def random_calls(n: int, n_calls: int, rng: np.random.Generator) -> IntArray:
    """Any of the n (n - 1) calls, uniformly among the draws that connect all candidates.

    Where n_calls is so small that 100 draws did not connect them, a uniformly drawn spanning tree comes first, each of
    its pairs in an order that a coin decides, and the rest is drawn uniformly from what is left.

    raises : InputError for fewer than n - 1 calls, or more than there are
    """
    _require(n, n_calls, most=n * (n - 1))
    return _connected_draw(n, n_calls, n * (n - 1), rng)


def no_repeat(n: int, n_calls: int, rng: np.random.Generator) -> IntArray:
    """Any of the n (n - 1) / 2 pairs, drawn as by `random_calls`; a coin decides which text is first.

    raises : InputError for fewer than n - 1 calls, or more than there are pairs
    """
    _require(n, n_calls, most=n * (n - 1) // 2)
    return _coin_flips(_connected_draw(n, n_calls, n * (n - 1) // 2, rng), rng)


def symmetric(n: int, n_calls: int, rng: np.random.Generator) -> IntArray:
    """n_calls / 2 of the pairs, drawn as by `random_calls`, each in both orders, one right after the other.

    raises : InputError for an odd number, fewer than 2 (n - 1), or more than n (n - 1)
    """
    _require(n, n_calls, most=n * (n - 1), both_orders=True)
    return _both_orders(_connected_draw(n, n_calls // 2, n * (n - 1) // 2, rng))


def greedy(n: int, n_calls: int, rng: np.random.Generator, *, both_orders: bool = True) -> IntArray:
    """Pairs chosen one by one so that the determinant of the information about the scores grows most.

        start with the chain (1, 2), (2, 3), ...
        then always the pair of largest effective resistance  r_ij = A_ii + A_jj - 2 A_ij,  A the inverse information;
        det grows by the factor 1 + r_ij

    No pair comes twice before all have come once. The order of the candidates is random: the method itself would always
    choose the same pairs. With both_orders each pair is asked in both, one right after the other. Otherwise a coin
    decides, and a pair that comes again is asked in the other order.
    The first calls are the design for that smaller budget, from n - 1 pairs upwards.

    raises : InputError for a budget that is odd (with both_orders), below n - 1 pairs, or above n (n - 1) calls
    source : arXiv:2405.05894, section 3.6 and A.6. Memory grows with n squared; times: benchmarks/pair_selection.py
    """
    _require(n, n_calls, most=n * (n - 1), both_orders=both_orders)
    pairs = rng.permutation(n)[_greedy_pairs(n, n_calls // 2 if both_orders else n_calls)]
    if both_orders:
        return _both_orders(pairs)
    all_once = n * (n - 1) // 2
    first_time = _coin_flips(pairs[:all_once], rng)
    asked = set(map(tuple, first_time.tolist()))
    again = [(j, i) if (i, j) in asked else (i, j) for i, j in pairs[all_once:].tolist()]
    return np.concatenate([first_time, np.array(again, dtype=np.int64).reshape(-1, 2)])


DRAWN: Mapping[str, Callable[[int, int, np.random.Generator], IntArray]] = {
    "symmetric": symmetric,
    "greedy": greedy,
    "no-repeat": no_repeat,
    "random": random_calls,
}
"""Designs of a number of calls, by their names."""


def design(name: str, n: int, n_calls: int | None, rng: np.random.Generator, *, both_orders: bool = True) -> IntArray:
    """A design by name, of n_calls, or of all there are where they are fewer. n_calls : None for "all"

    both_orders : of "all" and "greedy"; the others decide that themselves
    raises : InputError where the calls cannot connect all candidates
    """
    if name == "all":
        return all_pairs(n, both_orders=both_orders)
    most = n * (n - 1) // (2 if name == "no-repeat" else 1)
    drawn = partial(greedy, both_orders=both_orders) if name == "greedy" else DRAWN[name]
    return drawn(n, most if n_calls is None else min(n_calls, most), rng)


def _require(n: int, n_calls: int, most: int | None = None, both_orders: bool = False) -> None:
    if n < 2:
        raise InputError(f"cannot choose pairs out of {n} candidates, expected at least 2", value=n)
    least = 2 * (n - 1) if both_orders else n - 1
    if n_calls < least or (most is not None and n_calls > most):
        raise InputError(
            f"cannot choose {n_calls} calls for {n} candidates: expected {least} (they must all be connected) to "
            f"{most}{', both orders counted' if both_orders else ''}. Change the budget",
            value=n_calls,
        )
    if both_orders and n_calls % 2:
        raise InputError(
            f"cannot spend {n_calls} calls on pairs in both orders: expected an even number. "
            f"Take {n_calls - 1} or {n_calls + 1}",
            value=n_calls,
        )


# ------------------------------------------------------------------------------------------------- drawing


def _decoded(n: int, codes: IntArray) -> IntArray:
    """Calls by number. Code c is (c mod n, that plus c // n + 1, around the circle): the first n (n - 1) / 2 codes are
    all pairs once, the first n (n - 1) all calls, and nothing of size n squared is needed to draw some of them."""
    distance, first = np.divmod(codes, np.int64(n))
    return np.stack([first, (first + distance + 1) % n], axis=1)


def _coded(n: int, calls: IntArray) -> IntArray:
    codes: IntArray = ((calls[:, 1] - calls[:, 0]) % n - 1) * n + calls[:, 0]
    return codes


def _connected_draw(n: int, size: int, n_codes: int, rng: np.random.Generator) -> IntArray:
    for _ in range(_DRAWS):
        calls = _decoded(n, rng.choice(n_codes, size, replace=False))
        if _connected(n, calls):
            return calls
    tree = _coin_flips(_random_tree(n, rng), rng)
    codes = _coded(n, tree)
    if n_codes < n * (n - 1):  # pairs, not calls: a pair's code is the smaller of its two calls'
        codes = np.minimum(codes, _coded(n, tree[:, ::-1]))
    drawn = rng.choice(n_codes, size, replace=False)  # enough, because at most n - 1 of them are in the tree
    rest = drawn[~np.isin(drawn, codes)][: size - (n - 1)]
    return _decoded(n, np.concatenate([codes, rest]))


def _random_tree(n: int, rng: np.random.Generator) -> IntArray:
    """A spanning tree, uniformly out of all n^(n - 2), shape (n - 1, 2): where a random walk came from when it
    first reached each node (Aldous 1990, Broder 1989)."""
    node, came_from = 0, {0: -1}
    while len(came_from) < n:
        before, node = node, int(rng.integers(n))
        came_from.setdefault(node, before)
    del came_from[0]
    return np.array(list(came_from.items()), dtype=np.int64)


def _coin_flips(pairs: IntArray, rng: np.random.Generator) -> IntArray:
    return np.where(rng.random(len(pairs))[:, None] < 0.5, pairs, pairs[:, ::-1])


def _both_orders(pairs: IntArray) -> IntArray:
    return np.concatenate([pairs, pairs[:, ::-1]], axis=1).reshape(-1, 2)


def _connected(n: int, calls: IntArray) -> bool:
    graph = coo_array((np.ones(len(calls)), (calls[:, 0], calls[:, 1])), shape=(n, n))
    n_parts, _ = connected_components(graph, directed=False)
    return bool(n_parts == 1)


# ------------------------------------------------------------------------------------------------- information


def _greedy_pairs(n: int, n_pairs: int) -> IntArray:
    """Pairs i < j in the order in which they are chosen, shape (n_pairs, 2); always the same ones."""
    chain = np.arange(n, dtype=np.int64)
    pairs = np.stack([chain[:-1], chain[1:]], axis=1)
    resistance = np.abs(np.subtract.outer(chain, chain)).astype(np.float64)  # of the chain, A_ij = min(i, j)
    spare = np.triu(np.ones((n, n), dtype=np.bool_), 1)
    spare[pairs[:, 0], pairs[:, 1]] = False
    while True:
        # Rounding errors add up with the picks, and are relative to the resistances at the start of a stage, which
        # fall: a new start whenever the number of pairs has doubled bounds them, for a few factorisations.
        n_picks = min(len(pairs), n_pairs - len(pairs))
        pairs = np.concatenate([pairs, _most_informative(resistance, spare, n_picks)])
        if len(pairs) == n_pairs:
            return pairs
        if not spare.any():
            spare = np.triu(np.ones_like(spare), 1)
        resistance = _resistance(_laplacian(n, pairs) + 1 / n)


def _laplacian(n: int, calls: IntArray) -> FloatArray:
    flat = np.bincount(calls[:, 0] * np.int64(n) + calls[:, 1], minlength=n * n).reshape(n, n)
    edges = (flat + flat.T).astype(np.float64)
    laplacian: FloatArray = np.diag(edges.sum(axis=1)) - edges
    return laplacian


def _resistance(information: FloatArray) -> FloatArray:
    covariance = np.linalg.inv(information)
    variance = np.diagonal(covariance)
    resistance: FloatArray = np.add.outer(variance, variance) - covariance - covariance.T
    return resistance


def _most_informative(resistance: FloatArray, spare: BoolArray, n_picks: int) -> IntArray:
    """The pairs i < j that greedily maximise prod (1 + r_ij), r brought up to date after each; shape (n_picks, 2) or,
    where `spare` ran out, fewer.

    resistance : (n, n) symmetric C-ordered, brought up to date in place
    spare : (n, n), whether a pair may be picked, only i < j; brought up to date in place

    A pick lowers every gain or leaves it. So only the pairs that were best when last looked at are kept up to date, as
    long as the best of them is above all the others *then*; and the n x n resistances take many picks as one product
    of matrices. The picks are those of a search over all pairs (ties: the first in row order).
    """
    n = len(resistance)
    picks: list[tuple[int, int]] = []
    pending = np.empty((_BLOCK, n))  # r now = resistance - sum_m (pending[m, k] - pending[m, l])^2
    while True:
        m = 0
        i, j, gain, bound = _best(resistance, spare)
        if not len(gain):
            break
        while m < _BLOCK and len(picks) < n_picks:
            best = gain.max() * (1 - _TIE)
            if best < bound or best == -np.inf:  # another pair may be better, or none of these is left
                break
            at = int(np.argmax(gain >= best))
            a, b = i[at], j[at]
            change = (resistance[b] - resistance[a]) / 2  # A (e_a - e_b), up to a constant that drops out
            if m:
                change -= (pending[:m, a] - pending[:m, b]) @ pending[:m]
            change *= np.sqrt(1 / (1 + gain[at]))
            pending[m] = change
            m += 1
            gain -= (change[i] - change[j]) ** 2
            spare[a, b], gain[at] = False, -np.inf
            picks.append((int(a), int(b)))
        # - (u_k - u_l)^2 = 2 u_k u_l - u_k^2 - u_l^2, summed over picks: one product, added in place
        u, squares, ones = pending[:m], (pending[:m] ** 2).sum(axis=0), np.ones(n)
        left, right = np.vstack([2 * u, -squares, -ones]), np.vstack([u, ones, squares])
        dgemm(1.0, left.T, right.T, beta=1.0, c=resistance.T, trans_b=1, overwrite_c=1)
        if len(picks) == n_picks:
            break
    return np.array(picks, dtype=np.int64).reshape(-1, 2)


def _best(gains: FloatArray, spare: BoolArray) -> tuple[IntArray, IntArray, FloatArray, float]:
    """Pairs that may be picked and gain most, in row order; their gains; and what all other such pairs are below."""
    flat = np.where(spare, gains, -np.inf).ravel()
    bound = np.partition(flat, -_WIDTH)[-_WIDTH] if flat.size > _WIDTH else -np.inf
    bound = min(bound, flat.max() * (1 - _TIE))  # where many are equal, one can still be picked
    i, j = np.divmod(np.flatnonzero((flat >= bound) & (flat > -np.inf)), np.int64(len(gains)))
    return i, j, gains[i, j], float(bound)
