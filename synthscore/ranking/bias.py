"""Comparisons -> whether the judge prefers the text that is shown first, and how to take that out. Pure NumPy.

P(A) is the share of calls that the first text wins: 1/2 for a judge that does not look at the order, where each pair
is asked in both orders or in a random one. `position_bias` measures it; `median_debiasing` and `mean_debiasing` find
the shift of log-odds that takes it out. All need the calls of a whole run (`pool`), not of one context.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..errors import InputError
from ..scoring.shares import Share, share
from ..signature import Signature
from ..types import BoolArray, FloatArray
from .comparisons import Comparisons


class PositionBias(NamedTuple):
    """How the order in which a judge sees two texts changes its answers.

    first_wins : P(A), of calls; a tie is half
    flipped : of pairs judged in both orders, those in which the other text wins in the other order; several calls in
        one order count by majority
    n_both_orders : pairs judged in both orders
    Intervals are Wilson's, at the effective number of independent answers: for flipped the number of pairs, and for
    first_wins m (1 - m) / variance, at most the number of calls. The variance is that over pairs, since calls about one
    pair are not independent.
    """

    first_wins: Share
    flipped: Share
    n_both_orders: int


def pool(contexts: Mapping[str, Comparisons]) -> Comparisons:
    """The calls of many contexts as one set; a candidate becomes "context/id". Nothing connects the contexts, so this
    is for what is measured over a whole run, not for ranking."""
    if not contexts:
        raise InputError("cannot pool the comparisons of 0 contexts, expected at least 1")
    sets = list(contexts.values())
    n_before = np.cumsum([0, *(calls.n_candidates for calls in sets[:-1])])
    offset = np.repeat(n_before, [len(calls) for calls in sets])
    first = np.concatenate([calls.first for calls in sets]) + offset
    second = np.concatenate([calls.second for calls in sets]) + offset
    n_samples = None
    if any(calls.n_samples is not None for calls in sets):
        n_samples = np.concatenate([calls.samples for calls in sets])
    ids: list[str] = []
    for name, calls in contexts.items():
        ids += [f"{name}/{candidate}" for candidate in calls.ids]
    return Comparisons(
        ids=tuple(ids),
        first=first,
        second=second,
        log_probs=np.concatenate([calls.log_probs for calls in sets]),
        weights=np.concatenate([calls.weights for calls in sets]),
        signature=Signature.merged(calls.signature for calls in sets),
        n_samples=n_samples,
    )


def position_bias(comparisons: Comparisons) -> PositionBias:
    """P(A), and how often a decision changes with the order."""
    keys, pair = comparisons.numbered_pairs()
    decisions = comparisons.decisions
    weights = comparisons.weights

    def majority(rows: BoolArray) -> tuple[BoolArray, FloatArray]:
        """Of each pair, whether these calls are about it, and who won them: 1 the first text, -1 the second, 0 none."""
        votes = weights[rows] * (decisions[rows] - 0.5)
        asked = np.bincount(pair[rows], minlength=len(keys)) > 0
        return asked, np.sign(np.bincount(pair[rows], votes, len(keys)))

    in_order = comparisons.first < comparisons.second
    asked, winner = majority(in_order)
    asked_back, winner_back = majority(~in_order)
    # The same place won in both orders, which is another text in each.
    same_place_won = winner * winner_back > 0
    flipped = same_place_won[asked & asked_back].astype(np.float64)
    n_both = len(flipped)
    return PositionBias(
        first_wins=share(decisions, weights, pair),
        flipped=share(flipped, np.ones(n_both), np.arange(n_both)),
        n_both_orders=n_both,
    )


# ------------------------------------------------------------------------------------------------- taking it out


class Debiasing(NamedTuple):
    """One number that every first text's log-odds are raised by; estimated on some calls, applied to these or others.

    shift : nats; negative where the judge prefers the first text. gamma of PoE.
    first_wins : P(A) of the calls it was estimated on, after the shift. Ties at the median keep it from 1/2.
    """

    shift: float
    first_wins: float

    @property
    def threshold(self) -> float:
        """tau: the probability from which on the first text counts as better, 1 / (1 + e^shift)."""
        return float(np.exp(-np.logaddexp(0, self.shift)))

    def apply(self, comparisons: Comparisons) -> Comparisons:
        """The same calls, shifted. raises : InputError where all answers are certain, so that nothing would change."""
        odds = comparisons.log_odds
        if len(odds) and np.isinf(odds).all():
            raise InputError(
                f"cannot take the position bias out of {len(odds)} certain answers (probability 0 or 1): a shift of "
                f"{self.shift:.3g} nats changes none, expected probabilities. Use a method that fits the bias, or "
                "both orders, averaged"
            )
        return comparisons.shifted(self.shift)


def median_debiasing(comparisons: Comparisons) -> Debiasing:
    """The shift that lets the first text win half of the calls: minus the median log-odds, so that tau is the median p.

        logit p' = logit p - logit tau

    Exact, because log-odds still differ where probabilities round to 1. A certain "similar" has no log-odds and is left
    out. It needs no labels, but calls in which the better texts favour no position: both orders, or random ones.
    raises : InputError where the median is infinite: half of the answers or more are certain
    source : arXiv:2307.07889, section 3.5
    """
    known = ~np.isnan(comparisons.log_odds)
    odds = comparisons.log_odds[known]
    weights = comparisons.weights[known]
    if not len(odds):
        raise InputError(f"cannot estimate a threshold: none of {len(comparisons)} calls prefers a text")
    order = np.argsort(odds, kind="stable")
    odds = odds[order]
    below = np.cumsum(weights[order])
    around = below[-1] / 2 * np.array([1 - 1e-12, 1 + 1e-12])
    middle = odds[np.searchsorted(below, around)]
    if np.isinf(middle).any():
        raise InputError(
            f"cannot estimate a threshold: the middle log-odds are {middle[0]} and {middle[1]}, expected finite ones. "
            f"{int(np.isinf(odds).sum())} of {len(odds)} answers are certain: use probabilities, or a method that "
            "fits the bias"
        )
    return _debiasing(-float(middle.mean()), comparisons)


def mean_debiasing(comparisons: Comparisons) -> Debiasing:
    """PoE's shift, gamma = -logit(mean p). Smaller than the judge's bias: p flattens where texts differ clearly.

    raises : InputError where the mean is 0 or 1
    source : arXiv:2405.05894, section 3.5, with the sign that its model implies
    """
    p = comparisons.probabilities
    mean = float("nan")
    if len(p):
        mean = float(np.average(p, weights=comparisons.weights))
    if not 0 < mean < 1:
        raise InputError(f"cannot estimate gamma: the mean probability of {len(p)} calls is {mean}, expected in (0, 1)")
    return _debiasing(float(np.log1p(-mean) - np.log(mean)), comparisons)


def _debiasing(shift: float, comparisons: Comparisons) -> Debiasing:
    certain = np.isinf(comparisons.log_odds).all()
    after = comparisons if certain else comparisons.shifted(shift)
    return Debiasing(shift, float(np.average(after.decisions, weights=after.weights)))
