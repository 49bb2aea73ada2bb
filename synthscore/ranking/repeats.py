"""Comparisons of pairs that were asked unequally often -> the same, weighed by what the answers about a pair are worth.

A judge that is asked twice about a pair often repeats itself, so that two answers are not twice as good as one:

    n answers about a pair count as  n / (1 + (n - 1) rho)

where rho is the correlation of their errors: 1 for a judge that always repeats itself, 0 where each answer is an
independent coin flip. `correlate_errors` estimates rho, `weigh_in_decisions` and `weigh_as_median_pair` apply it.
"""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np

from ..errors import RankingError, SynthscoreWarning
from ..types import FloatArray
from .comparisons import Comparisons

CERTAIN = 0.01  # Mean answers nearer than this to 0 or 1 are moved this far from it, so that the fit to them converges.


def asked_alike(comparisons: Comparisons) -> bool:
    """Whether all pairs that were asked were asked equally often."""
    games = comparisons.pairs().games
    return not len(games) or bool(np.ptp(games) <= 1e-9 * games.max())


def correlate_errors(comparisons: Comparisons) -> float:
    """rho, 0 to 1: how far the errors of two answers about one pair are the same error.

    The error of an answer has two parts: one that all answers about its pair share, and one of that answer (call)
    alone. Both are measured as multiples of the variance v = mu (1 - mu) of a coin that falls as a Bradley-Terry fit to
    the pairs' mean answers expects (mu). Of pair e, with n_e answers p around their mean m_e,

        call = sum w (p - m_e)^2 / sum v_e (n_e - 1)
        pair = [sum (m_e - mu_e)^2 pairs / freedom - call sum v_e / n_e] / sum v_e,  at least 0
        rho  = pair / (pair + call)

    where the second sum takes out of the means' errors what the answers' own errors add to them. pairs : their number.
    freedom : pairs - (texts - 1). A row of weight w stands for w equal answers or, if it is sampled, for w answers in
    the proportions of its probabilities. Where the answers do not tell (nothing repeated, pairs that form a tree, texts
    that no pair links), rho is 1.
    source : moments of the one-way random-effects model, relative to the variance of a coin
    """
    from .bradley_terry import soft_bradley_terry

    pairs = comparisons.pairs()
    wins, _ = pairs.split_ties()
    n = pairs.games
    means = wins / n
    freedom = len(n) - (comparisons.n_candidates - 1)
    if freedom <= 0:
        return 1.0
    bounded = np.clip(means, CERTAIN, 1 - CERTAIN)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SynthscoreWarning)  # Scores that did not converge are near enough.
            bounded_means = Comparisons.from_probabilities(comparisons.ids, pairs.i, pairs.j, bounded)
            fit = soft_bradley_terry(bounded_means, stderr=None)
    except RankingError:
        return 1.0
    expected = 1 / (1 + np.exp(fit.scores[pairs.j] - fit.scores[pairs.i]))
    coin = expected * (1 - expected)
    _, pair = comparisons.numbered_pairs()
    swapped = comparisons.first > comparisons.second
    answers = np.where(swapped, 1 - comparisons.probabilities, comparisons.probabilities)
    around_means = comparisons.weights @ ((answers - means[pair]) ** 2 + _inside_rows(comparisons))
    repeated = coin @ np.maximum(n - 1, 0)
    if not repeated or around_means <= 1e-12 * repeated:  # What is left is a rounding error.
        return 1.0
    call_error = around_means / repeated
    off = np.sum((means - expected) ** 2) * len(n) / freedom  # The fit took up a part of these errors.
    pair_error = max(off - call_error * np.sum(coin / n), 0.0) / coin.sum()
    return float(pair_error / (pair_error + call_error))


def _inside_rows(comparisons: Comparisons) -> FloatArray:
    """Variance of the answers that a row is made of, shape (K,): 0 but for sampled ones. A tie is half a win."""
    wins, _, ties = np.exp(comparisons.log_probs).T
    variance: FloatArray = wins + ties / 4 - (wins + ties / 2) ** 2
    return np.where(comparisons.sampled, variance, 0.0)


def weigh_in_decisions(comparisons: Comparisons, rho: float) -> Comparisons:
    """As `weigh_as_median_pair`, in the unit of one decision: a pair weighs 1 where the judge repeats itself (rho = 1),
    however often it is asked, and n where its n answers are independent (rho = 0).
    """
    _, pair = comparisons.numbered_pairs()
    n = comparisons.pairs().games
    repeat_factor = 1 + (n - 1) * rho
    return replace(comparisons, weights=comparisons.weights / repeat_factor[pair])


def weigh_as_median_pair(comparisons: Comparisons, rho: float) -> Comparisons:
    """The same answers; those about a pair together weigh n / (1 + (n - 1) rho), n being what they weighed before.

    The unit is that in which a pair asked as often as the median one keeps its n: what stands beside answers, such as a
    prior, is worth as much as where all pairs are asked so often.
    """
    _, pair = comparisons.numbered_pairs()
    n = comparisons.pairs().games
    usual = float(np.median(n))
    share = (1 + (usual - 1) * rho) / (1 + (n - 1) * rho)
    return replace(comparisons, weights=comparisons.weights * share[pair])
