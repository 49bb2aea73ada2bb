"""Ratings of single people -> how reliable their means are, and how far that lets any method agree with them. NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..errors import InputError
from ..types import BoolArray, FloatArray
from .agreement import Agreement, Level, measure
from .correlation import Statistic
from .intervals import index, mean_without, spread
from .ratings import Ratings


@dataclass(frozen=True, slots=True)
class Reliability:
    """How far people agree on an attribute, at one level.

    one_against_others : correlation of one person's ratings with the mean of the others', mean over people
    reliability : correlation of the mean of all with that of as many other people; from one_against_others
    ceiling : correlation of that mean with what people share, which a method without error would reach
    low, high : interval of the ceiling; None where there are fewer than 2 contexts
    n_texts : rated by two or more people. n_single : rated, but by one, or only their mean is known: left out
    n_people : ratings a text, harmonic mean
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

    For each place j in the lists of ratings, the j-th against the mean of the others; r is the mean over j. With one
    person's reliability q, m others and k people (harmonic means over texts), errors independent and of one size:

        r = q sqrt(m) / sqrt(1 + (m - 1) q)         solved for q
        reliability = k q / (1 + (k - 1) q)         Spearman and Brown
        ceiling = sqrt(reliability)

    These hold for Pearson's correlation. Others are taken there and back by what they are on average for n points of a
    normal pair with correlation rho: 2/pi asin(rho) for Kendall's, for Spearman's

        6/pi (asin(rho) + (n - 2) asin(rho / 2)) / (n + 1)

    In simulations with 2 to 5 people and ratings of 1 to 5, the ceiling is off by 0.02 at most, Kendall's by 0.03.
    Contexts whose mean ratings are all equal are left out, as where methods are compared with people; in all others an
    undefined correlation, of a person who rates all texts alike, is 0.
    raises : InputError where no text has two ratings
    source : Spearman (1910); Brown (1910); Horst (1951) for parts of different size; Moran (1948) for ranks
    """
    everybody = _single_ratings(ratings, attribute)
    n_people = (~np.isnan(everybody)).sum(axis=1)
    several = n_people >= 2
    if not several.any():
        raise InputError(
            f"cannot measure how far people agree on {attribute!r}: no text of {ratings.name} has the ratings of two "
            "people, expected two or more. Give single ratings, or leave this out",
            value=attribute,
        )
    n_single = int((n_people == 1).sum() + (~np.isnan(ratings.human(attribute)) & (n_people == 0)).sum())
    single, n_people = everybody[several], n_people[several]
    contexts, systems = (
        [name for name, used in zip(names, several, strict=True) if used]
        for names in (ratings.context_ids, ratings.systems)
    )
    parts = _one_against_others(single, contexts, systems, level, statistic)
    values, weights = [part.value for part, _ in parts], [part.n for part, _ in parts]
    r, n_each, note = np.nan, np.nan, ""
    if not parts:
        note = "in no context do two texts have different mean ratings and the ratings of two people"
    else:
        r = float(np.average(values, weights=weights))
        n_each = float(np.mean([part.n / part.n_contexts if level == "per_context" else part.n for part, _ in parts]))
        note = f"no ceiling: people agree less than by chance, with {r:.3f}" if r < 0 else ""
    n_contexts = max((part.n_contexts for part, _ in parts), default=0)
    n_others, k = 1 / np.mean(1 / (n_people - 1)), 1 / np.mean(1 / n_people)
    limits = partial(_limits, n_others=float(n_others), k=float(k), n=n_each, statistic=statistic)
    ends = spread(r, mean_without(values, [without for _, without in parts], weights), note=note)
    low, high = (None if end is None else limits(max(end, 0.0))[1] for end in (ends.low, ends.high))
    reliability_of_all, ceiling = limits(r)
    return Reliability(
        one_against_others=r,
        reliability=reliability_of_all,
        ceiling=ceiling,
        low=low,
        high=high,
        n_texts=int(several.sum()),
        n_single=n_single,
        n_people=float(k),
        n_contexts=n_contexts,
        note=ends.note,
    )


def _one_against_others(
    single: FloatArray, contexts: Sequence[str], systems: Sequence[str], level: Level, statistic: Statistic
) -> list[tuple[Agreement, FloatArray]]:
    """Agreement of the ratings in each column with the means of the other columns; without those that have none."""
    equal = _in_equal_contexts(single, contexts) if level == "per_context" else np.zeros(len(single), dtype=bool)
    parts = []
    for j in range(single.shape[1]):
        one = np.where(equal, np.nan, single[:, j])
        others = _mean(np.delete(single, j, axis=1))
        parts.append(measure(one, others, contexts, systems, level, statistic, of_equal_ratings=0.0))
    return [part for part in parts if not np.isnan(part[0].value)]


def _in_equal_contexts(single: FloatArray, contexts: Sequence[str]) -> BoolArray:
    """Whether all texts of a text's context have the same mean rating."""
    of_context, mean = index(contexts), _mean(single)
    low, high = np.full(of_context.max() + 1, np.inf), np.full(of_context.max() + 1, -np.inf)
    np.minimum.at(low, of_context, mean)
    np.maximum.at(high, of_context, mean)
    equal: BoolArray = (low == high)[of_context]
    return equal


_RHO = np.sin(np.linspace(0, np.pi / 2, 2001))  # dense towards 1, where arcsines are steep


def _limits(r: float, n_others: float, k: float, n: float, statistic: Statistic) -> tuple[float, float]:
    """Reliability and ceiling, from the correlation of one with the mean of n_others; NaN for a negative one."""
    if not r >= 0:
        return float("nan"), float("nan")
    expected = _of_normal(_RHO, n, statistic)
    rho = float(np.interp(r, expected, _RHO))
    one = rho * (rho * (n_others - 1) + np.sqrt(rho**2 * (n_others - 1) ** 2 + 4 * n_others)) / (2 * n_others)
    all_people = k * one / (1 + (k - 1) * one)
    reliability_of_all, ceiling = np.interp([all_people, np.sqrt(all_people)], _RHO, expected).tolist()
    return reliability_of_all, ceiling


def _of_normal(rho: FloatArray, n: float, statistic: Statistic) -> FloatArray:
    """Mean over samples of n from a normal pair with correlation rho; for Pearson's, but for a bias below 1 / (2 n)."""
    if statistic == "pearson":
        return rho
    if statistic == "kendall":
        return 2 / np.pi * np.arcsin(rho)
    return 6 / np.pi / (n + 1) * (np.arcsin(rho) + (n - 2) * np.arcsin(rho / 2))


def _single_ratings(ratings: Ratings, attribute: str) -> FloatArray:
    """Ratings of single people, shape (n_texts, most of a text); NaN where a text has fewer."""
    lists = [text.annotators.get(attribute, ()) for text in ratings]
    single = np.full((len(lists), max(map(len, lists), default=0)), np.nan)
    for row, ratings_of_text in zip(single, lists, strict=True):
        row[: len(ratings_of_text)] = ratings_of_text
    return single


def _mean(rows: FloatArray) -> FloatArray:
    """Of what is known in each row, NaN where nothing is; to 9 digits, so that rounding unties no two means."""
    known = ~np.isnan(rows)
    with np.errstate(invalid="ignore"):
        mean: FloatArray = np.round(np.where(known, rows, 0.0).sum(axis=1) / known.sum(axis=1), 9)
    return mean
