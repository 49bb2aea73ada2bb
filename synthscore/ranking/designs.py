"""Which questions a judge is asked about candidates. Pure NumPy: nothing here knows what a text or a judge is.

A budget counts *calls*: a pair asked in both orders is two of them. Calls are an int64 array of shape (n_calls, 2) with
the text that is shown first in column 0. No call comes twice, and all candidates are connected: without that no method
can put them on one scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..errors import InputError
from ..types import BoolArray, FloatArray, IntArray

_TIE = 1e-9  # Gains whose relative difference is smaller count as equal, so that rounding does not choose between them.


@dataclass(frozen=True, slots=True)
class Selection:
    """Which questions are asked about the candidates of each ranking.

    budget : number of questions, about the pairs that tell most (`greedy`); a pair in both orders is two questions.
        None: about all pairs
    orders : whether a pair is asked in "both" orders or in "one"
    seed : of the random choices
    raises : InputError for a value that none of these can have
    """

    budget: int | None = None
    orders: Literal["both", "one"] = "both"
    seed: int = 0

    def __post_init__(self) -> None:
        wrong = ""
        if self.orders not in ("both", "one"):
            wrong = f"orders is {self.orders!r}, expected one of both, one"
        elif self.budget is not None and self.budget < 1:
            wrong = f"budget is {self.budget}, expected 1 or more"
        elif self.seed < 0:
            wrong = f"seed is {self.seed}, expected 0 or more"
        if wrong:
            raise InputError(f"cannot choose what to ask: {wrong}. Change it")

    @property
    def both_orders(self) -> bool:
        """Whether each pair is asked about in both orders."""
        return self.orders == "both"

    def calls(self, n: int, rng: np.random.Generator) -> IntArray:
        """The calls about n candidates, shape (n_calls, 2): as many as the budget allows, or all where there are fewer.

        raises : InputError where the budget cannot connect all candidates
        """
        if self.budget is None:
            return all_pairs(n, both_orders=self.both_orders)
        return greedy(n, min(self.budget, n * (n - 1)), rng, both_orders=self.both_orders)

    def __str__(self) -> str:
        """For signatures."""
        pairs = "all" if self.budget is None else f"greedy,budget={self.budget}"
        orders = "both-orders" if self.both_orders else "one-order"
        return f"{pairs},{orders},seed={self.seed}"


def all_pairs(n: int, *, both_orders: bool = True) -> IntArray:
    """The calls about every pair, in both orders or in one. In one, each candidate is first in half of its pairs (even
    n: give or take one)."""
    require_budget(n, n - 1)  # Enough calls for any n: this only tests that there are two candidates or more.
    n_calls = n * (n - 1)
    if not both_orders:
        n_calls //= 2
    return numbered_calls(n, np.arange(n_calls))


def greedy(n: int, n_calls: int, rng: np.random.Generator, *, both_orders: bool = True) -> IntArray:
    """Calls about pairs that are chosen one by one so that the determinant of the information about scores grows most.

        start with the chain (1, 2), (2, 3), ...
        then always the pair of largest effective resistance  r_ij = A_ii + A_jj - 2 A_ij,  A the inverse information;
        det grows by the factor 1 + r_ij

    No pair comes twice before all have come once. The order of the candidates is random: the method itself would always
    choose the same pairs. With both_orders each pair is asked in both, one right after the other. Otherwise a coin
    decides, and a pair that comes again is asked in the other order.
    Any prefix of n - 1 or more pairs is the design for that budget.

    raises : InputError for a budget that is odd (with both_orders), below n - 1 pairs, or above n (n - 1) calls
    source : arXiv:2405.05894, section 3.6 and A.6. Memory grows with n squared; times: benchmarks/pair_selection.py
    """
    require_budget(n, n_calls, most=n * (n - 1), both_orders=both_orders)
    n_pairs = n_calls
    if both_orders:
        n_pairs = n_calls // 2
    pairs = rng.permutation(n)[_greedy_pairs(n, n_pairs)]
    if both_orders:
        return in_both_orders(pairs)
    all_once = n * (n - 1) // 2
    first_time = coin_flips(pairs[:all_once], rng)
    asked = set(map(tuple, first_time.tolist()))
    again = pairs[all_once:]
    turned = [(i, j) in asked for i, j in again.tolist()]
    again[turned] = again[turned, ::-1]
    return np.concatenate([first_time, again])


def require_budget(n: int, n_calls: int, most: int | None = None, both_orders: bool = False) -> None:
    """raises : InputError for fewer calls than connect n candidates, more than there are, or half a pair"""
    if n < 2:
        raise InputError(f"cannot choose pairs out of {n} candidates, expected at least 2", value=n)
    least = n - 1
    counted = ""
    if both_orders:
        least = 2 * (n - 1)
        counted = ", both orders counted"
    if n_calls < least or (most is not None and n_calls > most):
        raise InputError(
            f"cannot choose {n_calls} calls for {n} candidates: expected {least} (they must all be connected) to "
            f"{most}{counted}. Change the budget",
            value=n_calls,
        )
    if both_orders and n_calls % 2:
        raise InputError(
            f"cannot spend {n_calls} calls on pairs in both orders: expected an even number. "
            f"Take {n_calls - 1} or {n_calls + 1}",
            value=n_calls,
        )


def numbered_calls(n: int, codes: IntArray) -> IntArray:
    """The calls with these numbers, shape (n_codes, 2). Call c is

        first = c mod n;   second = (first + 1 + c // n) mod n

    The first n (n - 1) / 2 calls are all pairs once, the first n (n - 1) all pairs in both orders, and nothing of size
    n squared is needed to draw some of them.
    """
    distance, first = np.divmod(codes, np.int64(n))
    return np.stack([first, (first + distance + 1) % n], axis=1)


def coin_flips(pairs: IntArray, rng: np.random.Generator) -> IntArray:
    """The pairs, each in an order that a coin decides."""
    as_they_are = rng.random((len(pairs), 1)) < 0.5
    return np.where(as_they_are, pairs, pairs[:, ::-1])


def in_both_orders(pairs: IntArray) -> IntArray:
    """The pairs, each in both orders, one right after the other; shape (2 n_pairs, 2)."""
    return np.concatenate([pairs, pairs[:, ::-1]], axis=1).reshape(-1, 2)


# ------------------------------------------------------------------------------------------------- greedy search


def _greedy_pairs(n: int, n_pairs: int) -> IntArray:
    """Pairs i < j in the order in which they are chosen, shape (n_pairs, 2); always the same ones."""
    chain = np.arange(n, dtype=np.int64)
    pairs = np.stack([chain[:-1], chain[1:]], axis=1)
    resistance = np.abs(np.subtract.outer(chain, chain)).astype(np.float64)  # of the chain, A_ij = min(i, j)
    spare = np.triu(np.ones((n, n), dtype=np.bool_), 1)
    spare[pairs[:, 0], pairs[:, 1]] = False
    while True:
        # Rounding errors add up with every pick, relative to the resistances at the start of a stage. Computing these
        # anew whenever the number of pairs has doubled bounds the errors at the price of a few factorisations.
        n_picks = min(len(pairs), n_pairs - len(pairs))
        pairs = np.concatenate([pairs, _most_informative(resistance, spare, n_picks)])
        if len(pairs) == n_pairs:
            return pairs
        if not spare.any():
            spare = np.triu(np.ones_like(spare), 1)
        # Adding 1 / n makes the Laplacian invertible without changing any resistance.
        resistance = _resistance(_laplacian(n, pairs) + 1 / n)


def _laplacian(n: int, calls: IntArray) -> FloatArray:
    """The Laplacian of the graph in which each call is an edge of weight 1, shape (n, n)."""
    edges = np.zeros((n, n))
    np.add.at(edges, (calls[:, 0], calls[:, 1]), 1.0)
    edges += edges.T
    laplacian: FloatArray = np.diag(edges.sum(axis=1)) - edges
    return laplacian


def _resistance(information: FloatArray) -> FloatArray:
    """Effective resistance of every pair, A_ii + A_jj - 2 A_ij with A the inverse information, shape (n, n)."""
    covariance = np.linalg.inv(information)
    variance = np.diagonal(covariance)
    resistance: FloatArray = np.add.outer(variance, variance) - covariance - covariance.T
    return resistance


def _most_informative(resistance: FloatArray, spare: BoolArray, n_picks: int) -> IntArray:
    """The pairs i < j that greedily maximise prod (1 + r_ij), where the resistance r is brought up to date after each
    pick; shape (n_picks, 2) or, where `spare` ran out, fewer. Of equal ones, the first in row order.

    resistance : (n, n) symmetric, brought up to date in place
    spare : (n, n), whether a pair may be picked, only i < j; brought up to date in place
    """
    picks: list[tuple[int, int]] = []
    while len(picks) < n_picks and spare.any():
        gains = np.where(spare, resistance, -np.inf)
        best = gains >= gains.max() * (1 - _TIE)
        i, j = divmod(int(np.argmax(best)), len(gains))
        change = (resistance[j] - resistance[i]) / 2  # A (e_i - e_j), up to a constant that drops out
        resistance -= np.subtract.outer(change, change) ** 2 / (1 + resistance[i, j])
        spare[i, j] = False
        picks.append((i, j))
    return np.array(picks, dtype=np.int64).reshape(-1, 2)
