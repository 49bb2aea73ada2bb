"""Scores of the same texts by several judges -> their mean, and its error.

Judges whose answers err alike share one vote (`find_alike`, `share_votes`), and votes have equal weights
(`mean_of_votes`): without labels nothing tells whether judges who agree are right together or wrong together. An error
that votes seem to share is not divided by their number.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from itertools import chain, combinations
from typing import NamedTuple

import numpy as np

from ..types import FloatArray

SAME = 0.9
"""Spearman's correlation of two judges' residuals above which they have one vote."""

ENOUGH = 10  # Pairs beyond one for each text. With fewer, residuals correlate by chance.
CERTAIN = 5.0  # Nats. Larger log-odds, and the infinite ones of hard answers, only say: this much or more.
_ROUNDS = 200

TextPair = tuple[Hashable, Hashable]
Vote = tuple[str, ...]
"""One vote: the names of the judges who share it."""


class Jury(NamedTuple):
    """Whose scores a mean is made of.

    votes : which all count the same. left_out : name of a judge -> why it has no vote
    lacking : name of a judge -> which texts it has not scored, and why
    alike : names of two judges -> Spearman's correlation of their residuals; NaN where the answers do not tell
    """

    votes: tuple[Vote, ...]
    left_out: Mapping[str, str]
    alike: Mapping[tuple[str, str], float]
    lacking: Mapping[str, str] = {}


def find_alike(answers: Mapping[str, Mapping[TextPair, float]]) -> dict[tuple[str, str], float]:
    """Which judges err alike: for every two, Spearman's correlation of their residuals.

    answers : name of a judge -> pair of texts -> log-odds of its answer that the first is better, nats
    returns : (name, name) -> correlation. Of two names, the one that comes first in `answers` comes first
    """
    left = {name: _residuals(given) for name, given in answers.items()}
    return {(one, other): _correlation(left[one], left[other]) for one, other in combinations(left, 2)}


def _residuals(answers: Mapping[TextPair, float]) -> dict[TextPair, float]:
    """Log-odds of answers, less the difference t_a - t_b of scores that fit all of them best: what no order explains.

    What judges agree on because texts really differ is in the scores, and so not in the residuals. An answer that is
    certain only says that the difference is CERTAIN or more. If the fitted difference is that large too, the residual
    is 0. Which answers these are depends on the fit, and the fit on them, so that both are found in turn.
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
    answered = np.clip(np.array(list(answers.values())), -CERTAIN, CERTAIN)
    certain = np.abs(answered) == CERTAIN
    log_odds = answered
    scores = np.zeros(len(numbers))
    for _ in range(_ROUNDS):
        scores = lsqr(design, log_odds, x0=scores, atol=1e-9, btol=1e-9)[0]
        explained = design @ scores
        beyond = certain & (np.sign(answered) * explained > CERTAIN)
        new_log_odds = np.where(beyond, explained, answered)
        if not (np.abs(new_log_odds - log_odds) > 1e-3).any():
            break
        log_odds = new_log_odds
    left = np.where(beyond, 0.0, answered - explained)
    return dict(zip(answers, left.tolist(), strict=True))


def _correlation(one: Mapping[TextPair, float], other: Mapping[TextPair, float]) -> float:
    from scipy.stats import spearmanr

    common = [pair for pair in one if pair in other]
    x = np.array([one[pair] for pair in common])
    y = np.array([other[pair] for pair in common])
    if common and np.array_equal(x, y):
        return 1.0
    n_texts = len(set(chain.from_iterable(common)))
    if len(common) - n_texts < ENOUGH:
        return float("nan")
    if min(np.ptp(x), np.ptp(y)) < 1e-6:  # An order explains all answers, and what is left is rounding.
        return float("nan")
    return float(spearmanr(x, y).statistic)


def share_votes(names: Iterable[str], alike: Mapping[tuple[str, str], float]) -> tuple[Vote, ...]:
    """The votes of judges: one for each connected group of the graph that links judges who err alike.

    names : in the order of `find_alike`, as the keys of alike are ordered
    alike : two names -> correlation of their residuals; above SAME they are linked, and NaN links nobody
    """
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

    values, variance : shape (m, n); each vote's score of each text on one scale, and the square of its standard error;
        NaN where the vote has not scored the text

        stderr^2 = (v + extra) (1 + (m - 1) rho) / m        of a text that m votes have scored

    v is the mean variance of the votes of this text, and v_bar the mean of v over texts. `extra` is the variance of
    errors that these do not show, and rho the correlation of the errors of two votes; both are the same for all texts.
    They follow from how far votes a and b are apart, if all err as much, and those that are furthest apart share no
    error:

        D_ab = mean over texts of (x_a - x_b)^2
        v_bar + extra = max(D / 2, v_bar)        by the largest D
        rho = 1 - mean(D / 2) / (v_bar + extra)

    So an error that two votes share is not divided by two. An error that all votes share does not show in D.
    """
    known = ~np.isnan(values)
    n_votes = known.sum(axis=0)
    mean = mean_of_members(values)
    mean_variance = mean_of_members(np.where(known, variance, np.nan))
    half_squares = []  # D / 2 of every two votes
    for one, other in combinations(values, 2):
        difference = one - other
        if not np.isnan(difference).all():
            half_squares.append(np.nanmean(difference**2) / 2)
    typical = float(np.nanmean(mean_variance))
    extra = max(max(half_squares, default=0.0) - typical, 0.0)
    rho = 1.0
    if half_squares and typical + extra:
        rho = 1 - np.mean(half_squares) / (typical + extra)
    with np.errstate(divide="ignore", invalid="ignore"):
        stderr = np.sqrt((mean_variance + extra) * (1 + (n_votes - 1) * rho) / n_votes)
    return mean, stderr
