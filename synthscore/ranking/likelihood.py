"""Comparisons -> the order under which they are most probable. NumPy: no model, no files.

    log P(order) = sum over calls of  w log p(the text that the order puts higher is better)

This is the linear ordering problem. Up to 18 candidates it is solved exactly, over all subsets; above that by a search.
"""

from __future__ import annotations

import numpy as np

from ..errors import InputError, RankingError
from ..types import FloatArray, IntArray
from .comparisons import Comparisons
from .graph import Graph
from .result import Ranking

_EXACT = 18  # candidates: 2^18 subsets, tens of megabytes, a fraction of a second
_FLOOR = 1e-12  # of a probability: a hard outcome against the order costs 27.6 nats, not everything
_STARTS = 50  # of the search


def likelihood_ranking(
    comparisons: Comparisons, *, rng: np.random.Generator | None = None, exact: bool | None = None
) -> Ranking:
    """The total order that makes the answers most probable; scores are positions in it, evenly spaced by 1, mean zero.

    exact : whether to look at all subsets, or to search: insertions of one text elsewhere until none helps, from the
        order of expected wins and from shaken copies of the best so far. Default: exact up to 18 candidates.
    rng : for the search; default seed 0
    Probabilities below 1e-12 count as 1e-12 (`settings["n_floored"]` calls). A candidate without comparisons has no
    position: NaN. `settings["n_best"]` is how many orders are equally probable (exact only); the one returned is one
    of them.
    raises : RankingError, with `components`, where no comparison links some of the candidates that have any;
        InputError for exact=True with more than 18
    source : arXiv:2307.07889, equation 12, with the product that it means instead of the sum that it prints
    """
    n = comparisons.n_candidates
    texts, weights = np.stack([comparisons.first, comparisons.second]), np.stack([comparisons.weights] * 2)
    n_comparisons: FloatArray = np.bincount(texts.ravel(), weights.ravel(), n).astype(np.float64)
    present = np.flatnonzero(n_comparisons > 0)
    if not len(present):
        raise RankingError("cannot order the candidates: there are 0 comparisons, expected at least 1")
    index = np.cumsum(n_comparisons > 0) - 1
    pairs = comparisons.pairs()
    Graph(len(present), index[pairs.i], index[pairs.j]).require_connected([comparisons.ids[k] for k in present])
    if exact and len(present) > _EXACT:
        raise InputError(
            f"cannot look at all orders of {len(present)} candidates, expected at most {_EXACT}. Use exact=False"
        )
    exact = len(present) <= _EXACT if exact is None else exact

    above, n_floored = _log_likelihoods(comparisons)
    above = above[np.ix_(present, present)]
    settings: dict[str, object] = {"exact": exact, "n_floored": n_floored}
    iterations = 0
    if exact:
        order, settings["n_best"] = _best_order(above)
    else:
        order, iterations = _searched_order(above, rng or np.random.default_rng(0))
        settings["n_starts"] = _STARTS
    scores = np.full(n, np.nan)
    scores[present[order]] = (len(order) - 1) / 2 - np.arange(len(order))
    return Ranking(
        comparisons.ids,
        scores,
        np.full(n, np.nan),
        n_comparisons,
        "likelihood",
        iterations=iterations,
        log_likelihood=_value(above, order),
        settings=settings,
    )


def _log_likelihoods(comparisons: Comparisons) -> tuple[FloatArray, int]:
    """above[i, j]: log-likelihood of the calls about i and j if i is above j; and how many calls were floored."""
    n = comparisons.n_candidates
    probs = np.exp(comparisons.log_probs)
    for_first, for_second = probs[:, 0] + probs[:, 2] / 2, probs[:, 1] + probs[:, 2] / 2
    above = np.zeros((n, n))
    for higher, lower, p in (
        (comparisons.first, comparisons.second, for_first),
        (comparisons.second, comparisons.first, for_second),
    ):
        np.add.at(above, (higher, lower), comparisons.weights * np.log(np.maximum(p, _FLOOR)))
    return above, int((np.minimum(for_first, for_second) < _FLOOR).sum())


def _value(above: FloatArray, order: IntArray) -> float:
    return float(np.triu(above[np.ix_(order, order)], 1).sum())


def _best_order(above: FloatArray) -> tuple[IntArray, int]:
    """An optimal order, best first, and the number of optimal orders.

    best[S] is the value of the best order of the texts in S among themselves; the lowest of them is tried in turn:

        best[S] = max over i in S of  best[S - i] + sum over j in S - i of above[j, i]

    Subsets are bit masks, and those with equally many texts are done together.
    """
    n = len(above)
    bits = np.int64(1) << np.arange(n, dtype=np.int64)
    below = np.zeros((1, n))  # below[S, i]: sum over j in S of above[j, i]
    sizes = np.zeros(1, dtype=np.int64)
    for j in range(n):
        below = np.concatenate([below, below + above[j]])
        sizes = np.concatenate([sizes, sizes + 1])
    best, count = np.zeros(1 << n), np.ones(1 << n)
    lowest = np.zeros(1 << n, dtype=np.int64)
    by_size = np.split(np.argsort(sizes, kind="stable"), np.cumsum(np.bincount(sizes))[:-1])
    for subsets in by_size[1:]:
        member = (subsets[:, None] & bits) > 0
        rest = np.where(member, subsets[:, None] ^ bits, 0)
        value = np.where(member, best[rest] + below[rest, np.arange(n)], -np.inf)
        top = value.max(axis=1)
        best[subsets], lowest[subsets] = top, value.argmax(axis=1)
        equal = value >= (top - 1e-9 * np.maximum(1, np.abs(top)))[:, None]  # rounding must not tell orders apart
        count[subsets] = (equal * count[rest]).sum(axis=1)
    order = np.empty(n, dtype=np.int64)
    subset = (1 << n) - 1
    for position in range(n - 1, -1, -1):
        order[position] = lowest[subset]
        subset ^= 1 << int(order[position])
    return order, int(count[-1])  # exact: 18! < 2^53


def _searched_order(above: FloatArray, rng: np.random.Generator) -> tuple[IntArray, int]:
    """A good order, best first, and the number of sweeps: iterated local search by insertion."""
    n = len(above)
    margin = above - above.T  # what is gained by i above j instead of below
    best, sweeps = _inserted(margin, np.argsort(-margin.sum(axis=1), kind="stable"), rng)
    best_value = _value(above, best)
    for _ in range(_STARTS - 1):
        shaken = best.copy()
        for _ in range(max(2, n // 10)):
            a, b = rng.choice(n, 2, replace=False)
            shaken[[a, b]] = shaken[[b, a]]
        order, more = _inserted(margin, shaken, rng)
        sweeps += more
        if (value := _value(above, order)) > best_value:
            best, best_value = order, value
    return best, sweeps


def _inserted(margin: FloatArray, order: IntArray, rng: np.random.Generator) -> tuple[IntArray, int]:
    """Each text in turn is moved to where the likelihood is largest, until a whole sweep moves none."""
    n, sweeps, moved = len(order), 0, True
    order = order.copy()
    while moved:
        moved = False
        sweeps += 1
        for text in rng.permutation(n):
            at = int(np.flatnonzero(order == text)[0])
            others = np.delete(order, at)
            # gain[k], up to a constant: above all but the first k of the others
            gain = -np.concatenate([[0.0], np.cumsum(margin[text, others])])
            to = int(gain.argmax())
            if gain[to] > gain[at] + 1e-9:  # nats; else rounding could go round in circles
                order = np.insert(others, to, text)
                moved = True
    return order, sweeps
