"""Comparisons -> the order under which they are most probable. NumPy: no model, no files.

    log P(order) = sum over calls of  w log p(the text that the order puts higher is better)

This is the linear ordering problem, solved exactly, over all subsets, for up to 18 candidates.
"""

from __future__ import annotations

import numpy as np

from ..errors import RankingError
from ..types import FloatArray, IntArray
from .comparisons import Comparisons
from .graph import Graph
from .result import Ranking

_MOST = 18  # candidates: 2^18 subsets, tens of megabytes, a fraction of a second
_FLOOR = 1e-12  # of a probability: a hard outcome against the order costs 27.6 nats, not everything


def likelihood_ranking(comparisons: Comparisons) -> Ranking:
    """The total order that makes the answers most probable; scores are positions in it, evenly spaced by 1, mean zero.

    Probabilities below 1e-12 count as 1e-12 (`settings["n_floored"]` calls). A candidate without comparisons has no
    position: NaN. `settings["n_best"]` is how many orders are equally probable; the one returned is one of them.
    raises : RankingError for more than 18 candidates, and where no comparison links some of those that have any
    source : arXiv:2307.07889, equation 12, with the product that it means instead of the sum that it prints
    """
    n = comparisons.n_candidates
    pairs = comparisons.pairs()
    games = Graph(n, pairs.i, pairs.j).degrees(pairs.games)
    present = np.flatnonzero(games > 0)
    if not 0 < len(present) <= _MOST:
        raise RankingError(
            f"cannot look at all orders of the {len(present)} candidates that were compared, expected 1 to {_MOST}. "
            "Take average-probability or poe-bt"
        )
    index = np.cumsum(games > 0) - 1
    compared = Graph(len(present), index[pairs.i], index[pairs.j])
    compared.require_connected([comparisons.ids[k] for k in present])
    above, n_floored = _log_likelihoods(comparisons)
    above = above[np.ix_(present, present)]
    order, n_best = _best_order(above)
    scores = np.full(n, np.nan)
    scores[present[order]] = (len(order) - 1) / 2 - np.arange(len(order))
    in_order = above[np.ix_(order, order)]
    return Ranking(
        ids=comparisons.ids,
        scores=scores,
        n_comparisons=games,
        method="likelihood",
        log_likelihood=float(np.triu(in_order, 1).sum()),
        settings={"n_floored": n_floored, "n_best": n_best},
    )


def _log_likelihoods(comparisons: Comparisons) -> tuple[FloatArray, int]:
    """above[i, j]: log-likelihood of the calls about i and j if i is above j; and how many calls were floored."""
    n = comparisons.n_candidates
    probs = np.exp(comparisons.log_probs)
    for_first, for_second = (probs[:, :2] + probs[:, 2:] / 2).T
    above = np.zeros((n, n))
    for higher, lower, p in (
        (comparisons.first, comparisons.second, for_first),
        (comparisons.second, comparisons.first, for_second),
    ):
        log_p = np.log(np.maximum(p, _FLOOR))
        np.add.at(above, (higher, lower), comparisons.weights * log_p)
    floored = np.minimum(for_first, for_second) < _FLOOR
    return above, int(floored.sum())


def _best_order(above: FloatArray) -> tuple[IntArray, int]:
    """An optimal order, best first, and the number of optimal orders.

    best[S] is the value of the best order of the texts in S among themselves; the lowest of them is tried in turn:

        best[S] = max over i in S of  best[S - i] + sum over j in S - i of above[j, i]

    Subsets are bit masks, and those with equally many texts are done together.
    """
    n = len(above)
    texts = np.arange(n)
    bits = np.int64(1) << np.arange(n, dtype=np.int64)
    below = np.zeros((1, n))  # below[S, i]: sum over j in S of above[j, i]
    sizes = np.zeros(1, dtype=np.int64)
    for j in range(n):
        below = np.concatenate([below, below + above[j]])
        sizes = np.concatenate([sizes, sizes + 1])
    best = np.zeros(1 << n)
    count = np.ones(1 << n)
    lowest = np.zeros(1 << n, dtype=np.int64)
    ends = np.cumsum(np.bincount(sizes))
    by_size = np.split(np.argsort(sizes, kind="stable"), ends[:-1])
    for subsets in by_size[1:]:
        member = (subsets[:, None] & bits) > 0
        rest = np.where(member, subsets[:, None] ^ bits, 0)
        if_lowest = best[rest] + below[rest, texts]
        value = np.where(member, if_lowest, -np.inf)
        top = value.max(axis=1)
        best[subsets] = top
        lowest[subsets] = value.argmax(axis=1)
        rounding = 1e-9 * np.maximum(1, np.abs(top))  # Orders that differ by less are equally good.
        equal = value >= (top - rounding)[:, None]
        count[subsets] = (equal * count[rest]).sum(axis=1)
    order = np.empty(n, dtype=np.int64)
    subset = (1 << n) - 1
    for position in range(n - 1, -1, -1):
        order[position] = lowest[subset]
        subset ^= 1 << int(order[position])
    return order, int(count[-1])  # Exact, since 18! < 2^53.
