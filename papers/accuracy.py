"""Do single decisions agree with people, and with the order that all decisions give? Pure NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from synthscore.errors import InputError
from synthscore.ranking.comparisons import Comparisons
from synthscore.scoring.shares import Share, share
from synthscore.types import FloatArray


def pairwise_accuracy(comparisons: Comparisons, human: npt.ArrayLike) -> Share:
    """Share of the calls that choose the text which people rate higher. 1 for a perfect judge, 0 for its opposite.

    A tie of the judge is half. Calls about texts that are rated the same, or of which one is not rated, are left out.
    95 % interval, pairs being the independent answers.

    human : shape (N,), in the order of the candidates; higher is better, NaN for none
    raises : InputError for another number of ratings
    source : arXiv:2307.07889, section 5.4
    """
    ratings = _ratings(comparisons, human)
    gap = np.round(ratings[comparisons.first] - ratings[comparisons.second], 9)  # rounding must not untie two means
    counted = ~np.isnan(gap) & (gap != 0)
    used = comparisons.subset(counted)
    decisions = used.decisions
    right = np.where(gap[counted] > 0, decisions, 1 - decisions)
    _, pair = used.numbered_pairs()
    return share(right, used.weights, pair)


class SelfConsistency(NamedTuple):
    """How well the order of some of the candidates, from the calls among them alone, is that of all calls.

    final : share of the pairs in the order that win-ratios over all calls give; pairs that these tie are left out
    gold : in the order of people's ratings, pairs with equal ratings left out; NaN where there are none
    A tie in the small order is half.
    """

    final: float
    gold: float


def self_consistency(
    comparisons: Comparisons,
    size: int,
    rng: np.random.Generator,
    *,
    human: npt.ArrayLike,
    n_draws: int = 1000,
) -> SelfConsistency:
    """Of random subsets of this size, their win-ratios, and how these order the pairs in them.

    human : shape (N,), as for pairwise_accuracy
    raises : InputError where a pair of candidates was never compared, or the size is not in 2..N
    source : arXiv:2307.07889, section 5.5; ties are unstated there
    """
    n = comparisons.n_candidates
    pairs = comparisons.hard().pairs()
    wins, games = np.zeros((n, n)), np.zeros((n, n))
    wins[pairs.i, pairs.j], wins[pairs.j, pairs.i] = pairs.wins + pairs.ties / 2, pairs.losses + pairs.ties / 2
    games[pairs.i, pairs.j] = games[pairs.j, pairs.i] = pairs.games
    if len(pairs.i) < n * (n - 1) // 2:
        raise InputError(
            f"cannot draw subsets: {n * (n - 1) // 2 - len(pairs.i)} of {n * (n - 1) // 2} pairs of candidates were "
            "never compared, expected all"
        )
    full = np.round(wins.sum(axis=1) / games.sum(axis=1), 9)
    ratings = _ratings(comparisons, human)
    if not 2 <= size <= n:
        raise InputError(f"cannot draw {size} of {n} candidates, expected 2 to {n}", value=size)
    drawn = rng.permuted(np.tile(np.arange(n), (n_draws, 1)), axis=1)[:, :size]
    rows, columns = drawn[:, :, None], drawn[:, None, :]
    small = np.round(wins[rows, columns].sum(axis=2) / games[rows, columns].sum(axis=2), 9)
    return SelfConsistency(_same_order(small, full[drawn]), _same_order(small, ratings[drawn]))


def _same_order(small: FloatArray, truth: FloatArray) -> float:
    gap, right = (np.sign(side[:, :, None] - side[:, None, :]) for side in (small, truth))
    used = ~np.isnan(right) & (right != 0)
    return float((1 + gap[used] * right[used]).mean() / 2) if used.any() else float("nan")


def _ratings(comparisons: Comparisons, human: npt.ArrayLike) -> FloatArray:
    ratings = np.asarray(human, dtype=np.float64)
    if ratings.shape != (comparisons.n_candidates,):
        raise InputError(
            f"cannot compare with ratings of shape {ratings.shape}, expected ({comparisons.n_candidates},): one for "
            "each candidate, in their order"
        )
    return ratings
