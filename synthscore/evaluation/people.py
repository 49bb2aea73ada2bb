"""Ratings of single people -> how reliable their means are, and how far that lets any method agree with them. NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import compress

import numpy as np

from ..errors import InputError
from ..types import FloatArray, IntArray
from .agreement import LeaveOneOut, Level, measure
from .correlation import Statistic
from .intervals import all_equal, mean_without, spread
from .ratings import Ratings


@dataclass(frozen=True, slots=True)
class Reliability:
    """How far people agree on an attribute, at one level.

    one_against_others : correlation of one person's ratings with the mean of the others', mean over people
    reliability : correlation of the mean of all people with that of as many others; it follows from one_against_others
    ceiling : correlation of that mean with what people have in common, which a method without error would reach
    low, high : 95 % interval of the ceiling; None where there are fewer than 2 contexts
    n_texts : rated by two or more people
    n_single : rated texts that are left out: by one person, or only their mean is known
    n_people : ratings a text, harmonic mean
    n_contexts : contexts that the figures rest on
    note : why a figure is NaN, or there is no interval
    """

    one_against_others: float
    reliability: float
    ceiling: float
    low: float | None
    high: float | None
    n_texts: int
    n_single: int
    n_people: float
    n_contexts: int
    note: str = ""


def reliability(
    ratings: Ratings,
    attribute: str,
    *,
    level: Level = "per_context",
    statistic: Statistic = "spearman",
) -> Reliability:
    """How far the people who rated an attribute agree with each other.

    The j-th rating of each text is correlated with the mean of its other ratings, for each j; r is the mean over j.
    With one person's reliability q, m others and k people (harmonic means over texts), and errors that are independent
    and of one size:

        r = q sqrt(m) / sqrt(1 + (m - 1) q)         solved for q
        reliability = k q / (1 + (k - 1) q)         Spearman and Brown
        ceiling = sqrt(reliability)

    These hold for Pearson's correlation rho. The others are turned into it and back by what they are on average for n
    points of a normal pair with correlation rho: 2/pi asin(rho) for Kendall's, and for Spearman's

        6/pi (asin(rho) + (n - 2) asin(rho / 2)) / (n + 1)

    In simulations with 2 to 5 people and ratings of 1 to 5, the ceiling is off by 0.02 at most, Kendall's by 0.03.
    Contexts whose mean ratings are all equal are left out, as where methods are compared with people; in all others an
    undefined correlation, of a person who rates all texts alike, is 0.
    raises : InputError where no text has two ratings
    source : Spearman (1910); Brown (1910); Horst (1951) for parts of different size; Moran (1948) for ranks
    """
    several = _rated_by_several(ratings, attribute)
    correlations = _one_against_others(several, level, statistic)
    r = np.nan
    r_without = np.empty(0)
    note = ""
    if not correlations:
        note = "in no context do two texts have different mean ratings and the ratings of two people"
    else:
        values = [part.agreement.value for part in correlations]
        weights = [part.agreement.n for part in correlations]
        r = float(np.average(values, weights=weights))
        r_without = mean_without(values, [part.without for part in correlations], weights)
        if r < 0:
            note = f"no ceiling: people agree less than by chance, with {r:.3f}"
    infer = partial(
        _reliability_and_ceiling,
        n_others=_harmonic_mean(several.n_people - 1),
        n_people=_harmonic_mean(several.n_people),
        n_points=_points_a_correlation(correlations, level),
        statistic=statistic,
    )
    reliability_of_mean, ceiling = infer(r)
    interval = spread(r, r_without, note=note)
    low = high = None
    if interval.low is not None and interval.high is not None:
        _, low = infer(max(interval.low, 0.0))
        _, high = infer(max(interval.high, 0.0))
    return Reliability(
        one_against_others=r,
        reliability=reliability_of_mean,
        ceiling=ceiling,
        low=low,
        high=high,
        n_texts=len(several.contexts),
        n_single=several.n_single,
        n_people=_harmonic_mean(several.n_people),
        n_contexts=max((part.agreement.n_contexts for part in correlations), default=0),
        note=interval.note,
    )


# ------------------------------------------------------------------------------------------------- ratings of people


@dataclass(frozen=True, slots=True)
class _SeveralRatings:
    """The texts that two or more people rated, whose single ratings are known.

    single : ratings of single people, shape (n_texts, most of a text); NaN where a text has fewer
    n_people : ratings of each text, shape (n_texts,)
    contexts, systems : of each text, length n_texts
    n_single : further texts that are rated, but by one person, or only their mean is known
    """

    single: FloatArray
    n_people: IntArray
    contexts: list[str]
    systems: list[str]
    n_single: int


def _rated_by_several(ratings: Ratings, attribute: str) -> _SeveralRatings:
    """raises : InputError where no text has two ratings"""
    single = _single_ratings(ratings, attribute)
    n_people = (~np.isnan(single)).sum(axis=1)
    several = n_people >= 2
    if not several.any():
        raise InputError(
            f"cannot measure how far people agree on {attribute!r}: no text of {ratings.name} has the ratings of two "
            "people, expected two or more. Give single ratings, or leave this out",
            value=attribute,
        )
    rated_by_one = n_people == 1
    only_mean_known = (n_people == 0) & ~np.isnan(ratings.human(attribute))
    return _SeveralRatings(
        single=single[several],
        n_people=n_people[several],
        contexts=list(compress(ratings.context_ids, several)),
        systems=list(compress(ratings.systems, several)),
        n_single=int(rated_by_one.sum() + only_mean_known.sum()),
    )


def _single_ratings(ratings: Ratings, attribute: str) -> FloatArray:
    """Ratings of single people, shape (n_texts, most of a text); NaN where a text has fewer."""
    lists = [text.annotators.get(attribute, ()) for text in ratings]
    single = np.full((len(lists), max(map(len, lists), default=0)), np.nan)
    for row, ratings_of_text in zip(single, lists, strict=True):
        row[: len(ratings_of_text)] = ratings_of_text
    return single


# ------------------------------------------------------------------------------------------------- one against others


def _one_against_others(several: _SeveralRatings, level: Level, statistic: Statistic) -> list[LeaveOneOut]:
    """For each column of the ratings its agreement with the mean of the other columns, where there is one.

    Inside contexts, those whose texts all have the same mean rating take no part.
    """
    left_out = np.zeros(len(several.single), dtype=bool)
    if level == "per_context":
        left_out = all_equal(_mean_of_known(several.single), several.contexts)
    correlations = []
    for column in range(several.single.shape[1]):
        one = np.where(left_out, np.nan, several.single[:, column])
        others = _mean_of_known(np.delete(several.single, column, axis=1))
        agreement = measure(
            one,
            others,
            several.contexts,
            several.systems,
            level=level,
            statistic=statistic,
            of_equal_ratings=0.0,
        )
        correlations.append(agreement)
    return [part for part in correlations if not np.isnan(part.agreement.value)]


def _mean_of_known(rows: FloatArray) -> FloatArray:
    """The mean of each row without its NaN, shape (n_rows,); NaN where nothing is known.

    It is rounded to 9 digits behind the point, so that means that are equal but for rounding are equal.
    """
    known = ~np.isnan(rows)
    sums = np.where(known, rows, 0.0).sum(axis=1)
    with np.errstate(invalid="ignore"):
        mean: FloatArray = np.round(sums / known.sum(axis=1), 9)
    return mean


def _harmonic_mean(numbers: IntArray) -> float:
    return float(1 / np.mean(1 / numbers))


def _points_a_correlation(correlations: Sequence[LeaveOneOut], level: Level) -> float:
    """How many points a correlation rests on, mean over correlations: texts of a context, all texts, or systems."""
    if not correlations:
        return np.nan
    sizes = []
    for part in correlations:
        n_correlated = part.agreement.n_contexts if level == "per_context" else 1
        sizes.append(part.agreement.n / n_correlated)
    return float(np.mean(sizes))


# ------------------------------------------------------------------------------------------------- reliability


_RHO = np.sin(np.linspace(0, np.pi / 2, 2001))
"""Correlations from 0 to 1 at which _expected is tabulated; dense towards 1, where arcsines are steep."""


def _reliability_and_ceiling(
    r: float, n_others: float, n_people: float, n_points: float, statistic: Statistic
) -> tuple[float, float]:
    """What follows from r, the correlation of one person with the mean of m = n_others; NaN for a negative r.

    With rho, the correlation of a normal pair of which r is expected, k = n_people, and one person's reliability q:

        rho = q sqrt(m) / sqrt(1 + (m - 1) q),  so that
        q = rho (rho (m - 1) + sqrt(rho^2 (m - 1)^2 + 4 m)) / (2 m)
        reliability = k q / (1 + (k - 1) q),  ceiling = sqrt(reliability)

    and both are turned into what is expected of the statistic.
    """
    if not r >= 0:
        return float("nan"), float("nan")
    expected = _expected(_RHO, n_points, statistic)
    rho = float(np.interp(r, expected, _RHO))
    root = np.sqrt(rho**2 * (n_others - 1) ** 2 + 4 * n_others)
    q = rho * (rho * (n_others - 1) + root) / (2 * n_others)
    reliability_of_mean = n_people * q / (1 + (n_people - 1) * q)
    ceiling = np.sqrt(reliability_of_mean)
    as_statistic = np.interp([reliability_of_mean, ceiling], _RHO, expected)
    return float(as_statistic[0]), float(as_statistic[1])


def _expected(rho: FloatArray, n_points: float, statistic: Statistic) -> FloatArray:
    """The statistic's mean over samples of n_points from a normal pair of correlation rho (see reliability).

    Pearson's is taken to have none but rho: its bias is below 1 / (2 n_points).
    """
    if statistic == "pearson":
        return rho
    if statistic == "kendall":
        return 2 / np.pi * np.arcsin(rho)
    return 6 / np.pi / (n_points + 1) * (np.arcsin(rho) + (n_points - 2) * np.arcsin(rho / 2))
