"""What several judges make of the same texts -> their mean, with equal weights, and an error that is true of it.

Nothing is learnt: judges who agree may be right together or wrong together, and without labels nothing says which. What
can be seen is who says the same: two judges whose answers err alike have one vote.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from ..types import FloatArray

SAME = 0.9
"""Spearman's correlation of two judges' residuals above which they have one vote."""

ENOUGH = 10  # pairs beyond one for each text: fewer residuals correlate by chance
CERTAIN = 5.0  # nats: of log-odds further out, no more is known than that, so that a hard answer is a number
_ROUNDS = 200

TextPair = tuple[Hashable, Hashable]
Vote = tuple[str, ...]
"""The names of the judges who share it."""


class Jury(NamedTuple):
    """Whose scores a mean is made of.

    votes : that count, equally. left_out : name of a judge -> why it has none
    lacking : name of a judge -> what it has not scored, and why
    alike : names of two judges -> Spearman's correlation of their residuals; NaN where the answers do not tell
    """

    votes: tuple[Vote, ...]
    left_out: Mapping[str, str]
    alike: Mapping[tuple[str, str], float]
    lacking: Mapping[str, str] = {}


def find_alike(answers: Mapping[str, Mapping[TextPair, float]]) -> dict[tuple[str, str], float]:
    """Which judges err alike: for every two, Spearman's correlation of their residuals.

    answers : name of a judge -> pair of texts -> log-odds of its answer that the first is better, nats
    """
    left = {name: _residuals(given) for name, given in answers.items()}
    return {(one, other): _correlation(left[one], left[other]) for one, other in combinations(left, 2)}


def _residuals(answers: Mapping[TextPair, float]) -> dict[TextPair, float]:
    """What answers are beyond an order of the texts: log-odds less the difference t_a - t_b that fits all of them best.

    Of what judges agree on because it is so, nothing is left. An answer that is certain says that the difference is
    CERTAIN or more: where it is, by the fit, the answer is not beyond it. By least squares and these answers in turn.
    """
    if not answers:
        return {}
    from scipy import sparse
    from scipy.sparse.linalg import lsqr

    numbers = {text: k for k, text in enumerate(dict.fromkeys(chain.from_iterable(answers)))}
    columns = [numbers[text] for text in chain.from_iterable(answers)]
    signs = np.tile([1.0, -1.0], len(answers))
    rows = np.repeat(np.arange(len(answers)), 2)
    design = sparse.csr_array((signs, (rows, columns)), shape=(len(answers), len(numbers)))
    said = np.clip(np.array(list(answers.values())), -CERTAIN, CERTAIN)
    certain = np.abs(said) == CERTAIN
    log_odds, scores = said, np.zeros(len(numbers))
    for _ in range(_ROUNDS):
        scores = lsqr(design, log_odds, x0=scores, atol=1e-9, btol=1e-9)[0]
        explained = design @ scores
        beyond = certain & (np.sign(said) * explained > CERTAIN)
        if not (np.abs(np.where(beyond, explained, said) - log_odds) > 1e-3).any():
            break
        log_odds = np.where(beyond, explained, said)
    left = np.where(beyond, 0.0, said - explained)  # of what the fit explains exactly nothing is left, not rounding
    return dict(zip(answers, left.tolist(), strict=True))


def _correlation(one: Mapping[TextPair, float], other: Mapping[TextPair, float]) -> float:
    from scipy.stats import spearmanr

    common = [pair for pair in one if pair in other]
    x, y = (np.array([values[pair] for pair in common]) for values in (one, other))
    if common and np.array_equal(x, y):
        return 1.0
    n_texts = len(set(chain.from_iterable(common)))
    if len(common) - n_texts < ENOUGH or min(np.ptp(x), np.ptp(y)) < 1e-6:  # rounding of answers that fit an order
        return float("nan")
    return float(spearmanr(x, y).statistic)


def share_votes(names: Iterable[str], alike: Mapping[tuple[str, str], float]) -> tuple[Vote, ...]:
    """Judges by vote: those who err alike, or each like another one of them, share one."""
    votes: list[Vote] = []
    for name in names:
        same = [vote for vote in votes if any(alike[other, name] > SAME for other in vote)]
        votes = [vote for vote in votes if vote not in same]
        votes.append((*chain.from_iterable(same), name))
    return tuple(votes)


def mean_of_members(values: FloatArray) -> FloatArray:
    """The mean of the rows that have a number, shape (n,); NaN where none has. values : shape (m, n)"""
    known = ~np.isnan(values)
    count = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    mean: FloatArray = np.divide(total, count, out=np.full(len(total), np.nan), where=count > 0)
    return mean


def mean_of_votes(values: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The mean score of each text, and its standard error; shape (n,), NaN where nobody has scored the text.

    values, variance : shape (m, n); each vote's score of each text on one scale, and its own error squared; NaN: none

        stderr^2 = (v + extra) (1 + (m - 1) rho) / m

    v is the mean of the votes' variances. What votes make of the texts besides, `extra`, and how far errors are shared,
    rho, follow from how far votes are apart, if all err as much, and those that are furthest apart share nothing:

        D_ab = mean of (x_a - x_b)^2;   v + extra = max(D / 2, v);   rho = 1 - mean(D / 2) / (v + extra)

    So an error that two votes share is not divided by two. What all votes share is no more than v can show.
    """
    known = ~np.isnan(values)
    n_votes = known.sum(axis=0)
    mean = mean_of_members(values)
    own = mean_of_members(np.where(known, variance, np.nan))
    differences = [one - other for one, other in combinations(values, 2)]
    apart = [np.nanmean(d**2) / 2 for d in differences if not np.isnan(d).all()]
    typical = float(np.nanmean(own))
    extra = max(max(apart, default=0.0) - typical, 0.0)
    rho = 1 - np.mean(apart) / (typical + extra) if apart and typical + extra else 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        stderr = np.sqrt((own + extra) * (1 + (n_votes - 1) * rho) / n_votes)
    return mean, stderr
