"""Scores + human ratings -> how far they agree: inside contexts, over all texts, or over systems.

`measure` is the core: it takes the texts that have both (`_Pairs`), computes a figure at one of three levels, again
without each context in turn, and makes an interval of these (intervals.py). The levels:

    per_context    a correlation inside each context, and the plain mean of these
    pooled         one correlation over all texts
    system         one correlation over the mean scores and mean ratings of systems

What papers call them: docs/evaluation.md. Over all texts there is also the AUC: how well a threshold on the scores, the
same in every context, can tell the good texts from the others. `agreement` gives one figure, `difference` compares two
methods over the texts that both score.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..types import BoolArray, FloatArray, IntArray
from .correlation import STATISTICS, Statistic, auc, correlation
from .intervals import CONFIDENCE, index, p_value, spread

Level = Literal["per_context", "pooled", "system"]
LEVELS: tuple[Level, ...] = ("per_context", "pooled", "system")

LEAST_TEXTS = 2
_TOLERANCE = 1e-9  # of ratings, which may be means and have rounding errors
LEAST_SYSTEMS = 3  # The correlation of two points is always 1 or -1.


@dataclass(frozen=True, slots=True)
class Agreement:
    """A correlation with people's ratings; or an AUC.

    value : in [-1, 1], of an AUC in [0, 1]; NaN where there is none, and `note` says why
    low, high, stderr : 95 % interval and standard error over contexts (intervals.spread); None and NaN where fewer than
        two contexts take part, or value is NaN
    n : texts that it rests on; at the level `system`, systems
    n_contexts : contexts that it rests on
    n_skipped : all other contexts: fewer than two texts have both score and rating, or all ratings are equal
    n_constant : figures that count although one side is constant: where all scores are equal, a correlation is 0, an
        AUC 1/2; where all ratings are, a correlation counts only if `measure` has a value for that (of_equal_ratings)
    n_unscored : rated texts without a score
    n_unrated : texts without a rating
    """

    value: float
    low: float | None = None
    high: float | None = None
    n: int = 0
    stderr: float = np.nan
    n_contexts: int = 0
    n_skipped: int = 0
    n_constant: int = 0
    n_unscored: int = 0
    n_unrated: int = 0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """How much better one method agrees with people than another, over the texts that both score.

    value : agreement of the one minus that of the other
    low, high, p : 95 % interval and two-sided p-value; None where Agreement has no interval
    n, n_contexts : texts (at the level `system`, systems) and contexts that it rests on
    n_left_out : rated texts that only one of the two scores
    note : why value is NaN, or there is no interval
    p_holm : p corrected for all differences at a level and by a statistic (Holm), where there are several
    """

    value: float
    low: float | None
    high: float | None
    p: float | None
    n: int
    n_contexts: int
    n_left_out: int
    note: str = ""
    p_holm: float | None = None


class LeaveOneOut(NamedTuple):
    """An agreement over all contexts, and what it would be without each of them.

    without : shape (n_contexts,), in the order in which the contexts first occur; NaN for one that takes no part
    """

    agreement: Agreement
    without: FloatArray


def agreement(
    values: npt.ArrayLike,
    human: npt.ArrayLike,
    contexts: Sequence[str],
    systems: Sequence[str] | None = None,
    *,
    level: Level = "per_context",
    statistic: Statistic = "spearman",
    good_from: float | None = None,
    confidence: float = CONFIDENCE,
) -> Agreement:
    """Correlation of scores with people's ratings; or, with good_from, the AUC.

    A correlation is undefined where one side is constant. Where all ratings are equal nobody could be right, and the
    context is skipped. Where all scores are equal the method cannot tell texts apart, and the correlation counts 0.

    values, human : shape (n,); NaN or None for an unscored or unrated text, which is left out and counted
    contexts, systems : length n; what each text was written for, and by which system (for the level `system`)
    good_from : texts that people rate so or higher are good; the figure is then the probability that a good text has a
        higher score than one that is not good, of any context (level `pooled`), whatever the statistic
    confidence : of the interval
    raises : InputError for an infinite score or rating, columns of different length, an unknown name
    """
    measured = measure(
        values,
        human,
        contexts,
        systems,
        level=level,
        statistic=statistic,
        good_from=good_from,
        confidence=confidence,
    )
    return measured.agreement


def difference(
    one: npt.ArrayLike,
    other: npt.ArrayLike,
    human: npt.ArrayLike,
    contexts: Sequence[str],
    systems: Sequence[str] | None = None,
    *,
    level: Level = "per_context",
    statistic: Statistic = "spearman",
    good_from: float | None = None,
    confidence: float = CONFIDENCE,
) -> Difference:
    """Agreement of one method minus that of another, over the texts that both score. Arguments as for agreement()."""
    one = np.asarray(one, dtype=np.float64)
    other = np.asarray(other, dtype=np.float64)
    human = np.asarray(human, dtype=np.float64)
    check_lengths({"values": one, "other values": other, "ratings": human, "contexts": contexts})

    scored_by_both = ~np.isnan(one) & ~np.isnan(other)
    scored_by_one_only = np.isnan(one) != np.isnan(other)
    # Of these only the values are used, not their intervals, so the confidence does not matter.
    measure_here = partial(measure, level=level, statistic=statistic, good_from=good_from)
    first, first_without = measure_here(np.where(scored_by_both, one, np.nan), human, contexts, systems)
    second, second_without = measure_here(np.where(scored_by_both, other, np.nan), human, contexts, systems)
    note = ""
    if np.isnan(first.value):
        note = first.note
    elif np.isnan(second.value):
        note = second.note
    value = first.value - second.value
    # Equal for both, which have the same texts, unless a figure is undefined for one of them.
    n_contexts = min(first.n_contexts, second.n_contexts)
    ends = (-2.0, 2.0)
    if good_from is not None:
        ends = (-1.0, 1.0)
    interval = spread(value, first_without - second_without, ends=ends, note=note, confidence=confidence)
    p = None
    if interval.low is not None:
        p = p_value(value, interval.stderr, n_contexts)
    return Difference(
        value=value,
        low=interval.low,
        high=interval.high,
        p=p,
        n=min(first.n, second.n),
        n_contexts=n_contexts,
        n_left_out=int((~np.isnan(human) & scored_by_one_only).sum()),
        note=interval.note,
    )


def measure(
    values: npt.ArrayLike,
    human: npt.ArrayLike,
    contexts: Sequence[str],
    systems: Sequence[str] | None,
    *,
    level: Level,
    statistic: Statistic = "spearman",
    of_equal_ratings: float = np.nan,
    good_from: float | None = None,
    confidence: float = CONFIDENCE,
) -> LeaveOneOut:
    """The agreement, and its value with each context left out. Arguments and errors as for agreement().

    of_equal_ratings : the value of a correlation where all ratings are equal (default: NaN, and it is skipped)
    """
    check_names(level=[level], statistic=[statistic])
    if systems is None and level == "system":
        raise InputError("systems is None, expected the system of each text: the level is 'system'. Give them")
    if good_from is not None and level != "pooled":
        raise InputError(f"level is {level!r}, expected 'pooled': good texts are told from others over all contexts")
    pairs = _pair(values, human, contexts, systems)
    if good_from is not None:
        relate = partial(_separate_good, good_from=good_from)
        why_undefined = f"all ratings are {good_from:g} or more, or none is"
        if np.isnan(good_from):  # `even_split` of ratings that are all equal
            why_undefined = "all ratings are equal"
        estimate = _over_all_contexts(pairs, relate, why_undefined, by_system=False)
        ends = (0.0, 1.0)
    else:
        relate = partial(_correlate, statistic=statistic, of_equal_ratings=of_equal_ratings)
        if level == "per_context":
            estimate = _mean_over_contexts(pairs, relate)
        else:
            estimate = _over_all_contexts(pairs, relate, "all ratings are equal", by_system=level == "system")
        ends = (-1.0, 1.0)
    undefined = bool(np.isnan(estimate.value))
    interval = spread(
        estimate.value,
        estimate.without,
        ends=ends,
        note=estimate.why_undefined if undefined else "",
        confidence=confidence,
    )
    figure = Agreement(
        value=estimate.value,
        low=interval.low,
        high=interval.high,
        n=estimate.n,
        stderr=interval.stderr,
        n_contexts=estimate.n_contexts,
        n_skipped=pairs.n_contexts - estimate.n_contexts,
        n_constant=0 if undefined else estimate.n_constant,
        n_unscored=pairs.n_unscored,
        n_unrated=pairs.n_unrated,
        note=interval.note,
    )
    return LeaveOneOut(agreement=figure, without=estimate.without)


# ------------------------------------------------------------------------------------------------- texts with both


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The texts that have both a score and a rating.

    values, human : scores and ratings, shape (n,)
    context, system : numbers of each text's context and system, shape (n,)
    n_contexts : of all texts, also of those that lack a score or a rating
    n_unscored, n_unrated : as in Agreement
    """

    values: FloatArray
    human: FloatArray
    context: IntArray
    system: IntArray
    n_contexts: int
    n_unscored: int
    n_unrated: int


def _pair(
    values: npt.ArrayLike, human: npt.ArrayLike, contexts: Sequence[str], systems: Sequence[str] | None
) -> _Pairs:
    """The texts that have both. raises : InputError for an infinite number, or columns of different length"""
    scores = np.asarray(values, dtype=np.float64)
    ratings = np.asarray(human, dtype=np.float64)
    if systems is None:
        systems = [""] * len(scores)
    check_lengths({"values": scores, "ratings": ratings, "contexts": contexts, "systems": systems})
    _check_finite("scores", scores)
    _check_finite("ratings", ratings)
    scored = ~np.isnan(scores)
    rated = ~np.isnan(ratings)
    both = scored & rated
    return _Pairs(
        values=scores[both],
        human=ratings[both],
        context=index(contexts)[both],
        system=index(systems)[both],
        n_contexts=len(set(contexts)),
        n_unscored=int((rated & ~scored).sum()),
        n_unrated=int((~rated).sum()),
    )


def _check_finite(name: str, column: FloatArray) -> None:
    infinite = np.isinf(column)
    if infinite.any():
        raise InputError(
            f"cannot correlate {name} of which {int(infinite.sum())} of {len(column)} are infinite, expected "
            "finite numbers, or NaN for none. Leave these texts without one",
            value=float(column[infinite][0]),
        )


# ------------------------------------------------------------------------------------------------- levels


@dataclass(frozen=True, slots=True)
class _Estimate:
    """What a level makes of the pairs.

    value, n, n_contexts : as in Agreement
    without : value with each context left out, shape (n_contexts,), as in LeaveOneOut
    n_constant : correlations of which one side is constant, and that count
    why_undefined : what to say if value is NaN
    """

    value: float
    without: FloatArray
    n: int
    n_contexts: int
    n_constant: int
    why_undefined: str


Relate = Callable[[FloatArray, FloatArray], tuple[float, bool]]
"""From scores and ratings to the figure (NaN where it is undefined), and whether one side is constant."""


def _separate_good(values: FloatArray, human: FloatArray, good_from: float) -> tuple[float, bool]:
    """The AUC, and whether all scores are equal."""
    good = human >= good_from - _TOLERANCE
    return auc(values, good), bool(np.ptp(values) == 0)


def _correlate(
    values: FloatArray, human: FloatArray, statistic: Statistic, of_equal_ratings: float
) -> tuple[float, bool]:
    """The correlation, and whether one side is constant. Equal scores count 0."""
    if np.ptp(human) == 0:
        return of_equal_ratings, True
    if np.ptp(values) == 0:
        return 0.0, True
    return correlation(values, human, statistic), False


def _mean_over_contexts(pairs: _Pairs, relate: Relate) -> _Estimate:
    """The mean of the correlations r_c inside each of m contexts that have one.

    value = 1/m sum r_c,    value without c = (sum r - r_c) / (m - 1)
    """
    sizes = np.bincount(pairs.context, minlength=pairs.n_contexts)
    in_order = np.argsort(pairs.context, kind="stable")
    texts_by_context = np.split(in_order, np.cumsum(sizes)[:-1])
    r = np.full(pairs.n_contexts, np.nan)
    constant = np.zeros(pairs.n_contexts, dtype=bool)
    for context in np.flatnonzero(sizes >= LEAST_TEXTS):
        texts = texts_by_context[context]
        r[context], constant[context] = relate(pairs.values[texts], pairs.human[texts])
    used = ~np.isnan(r)
    m = int(used.sum())
    value = np.nan
    without = np.full(pairs.n_contexts, np.nan)
    if m > 0:
        value = float(r[used].mean())
    if m > 1:
        without = (r[used].sum() - r) / (m - 1)  # NaN where r is NaN.
    n_too_few = int((sizes < LEAST_TEXTS).sum())
    why_undefined = (
        f"none of {len(sizes)} contexts can be used: {n_too_few} have fewer than two texts with both score and rating, "
        f"and in {len(sizes) - n_too_few} all ratings are equal"
    )
    return _Estimate(
        value=value,
        without=without,
        n=int(sizes[used].sum()),
        n_contexts=m,
        n_constant=int((constant & used).sum()),
        why_undefined=why_undefined,
    )


def _over_all_contexts(pairs: _Pairs, relate: Relate, why_undefined: str, *, by_system: bool) -> _Estimate:
    """One figure over all texts, or over the means of systems; and over what remains without each context."""
    if by_system:
        n = len(np.unique(pairs.system))
        least = LEAST_SYSTEMS
        why_too_few = f"{n} systems with texts that have both, expected {least} or more"
    else:
        n = len(pairs.values)
        least = LEAST_TEXTS
        why_too_few = f"{n} texts with both score and rating, expected {least} or more"

    def figure_of(texts: BoolArray) -> tuple[float, bool]:
        values = pairs.values[texts]
        human = pairs.human[texts]
        if by_system:
            values = _means(values, pairs.system[texts])
            human = _means(human, pairs.system[texts])
        if len(values) < least:
            return np.nan, False
        return relate(values, human)

    value, constant = figure_of(np.ones(len(pairs.values), dtype=bool))
    taking_part = np.unique(pairs.context)
    without = np.full(pairs.n_contexts, np.nan)
    if n >= least:
        for context in taking_part:
            without[context], _ = figure_of(pairs.context != context)
    return _Estimate(
        value=value,
        without=without,
        n=n,
        n_contexts=len(taking_part),
        n_constant=int(constant),
        why_undefined=why_undefined if n >= least else why_too_few,
    )


def _means(values: FloatArray, group: IntArray) -> FloatArray:
    """The mean of each group that has members, in a unit in which the largest mean lies between 1 and 10.

    Means are rounded to 12 decimals, because rounding errors, which depend on the order of texts, would otherwise make
    equal means differ. The unit changes no correlation.

    values, group : shape (n,)
    returns : shape (n_groups,)
    """
    sizes = np.bincount(group)
    sums = np.bincount(group, values)
    has_members = sizes > 0
    means = sums[has_members] / sizes[has_members]
    largest = np.abs(means).max(initial=0.0)
    unit = 1.0
    if largest > 0:
        unit = 10.0 ** np.floor(np.log10(largest))
    return np.asarray(np.round(means / unit, 12), dtype=np.float64)


def even_split(human: npt.ArrayLike) -> float:
    """The rating that splits texts most evenly into those that reach it and those that do not; NaN where all ratings
    are equal. It is the same for every method, since it depends on ratings alone.

    human : shape (n,); NaN for an unrated text
    """
    ratings = np.asarray(human, dtype=np.float64)
    ratings = ratings[~np.isnan(ratings)]
    if not len(ratings) or not np.ptp(ratings):
        return float("nan")
    candidates = np.unique(ratings)[1:]  # All texts reach the least rating, which therefore splits nothing.
    shares = (ratings[None, :] >= candidates[:, None]).mean(axis=1)
    return float(candidates[np.abs(shares - 0.5).argmin()])


# ------------------------------------------------------------------------------------------------- checks


def check_names(**chosen: Sequence[str]) -> None:
    """Levels and statistics, one or more of each. raises : InputError"""
    known: Mapping[str, tuple[str, ...]] = {"level": LEVELS, "statistic": STATISTICS}
    for what, names in chosen.items():
        for name in names or [""]:
            if name not in known[what]:
                expected = ", ".join(known[what])
                raise InputError(f"{what} is {name!r}, expected one of {expected}. Name one of them", value=name)


def check_lengths(columns: Mapping[str, Sequence[str] | FloatArray]) -> None:
    """raises : InputError for columns that do not all have the same length"""
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        given = ", ".join(f"{n} {name}" for name, n in lengths.items())
        raise InputError(f"{given}: expected as many of each, one a text. Give each text one of each")
