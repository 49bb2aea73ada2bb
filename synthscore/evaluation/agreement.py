"""Scores + human ratings -> how far they agree: inside contexts, over all texts, or over systems.

`per_context`: a correlation inside each context, and the plain mean of these. `pooled`: one correlation over all texts.
`system`: one correlation over the means of systems. What papers call them: docs/evaluation.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..types import BoolArray, FloatArray, IntArray
from .correlation import STATISTICS, Statistic, means, of_rows
from .intervals import index, p_value, spread

Level = Literal["per_context", "pooled", "system"]
LEVELS: tuple[Level, ...] = ("per_context", "pooled", "system")

LEAST_SYSTEMS = 3  # two points correlate with 1 or -1, whatever they are


@dataclass(frozen=True, slots=True)
class Agreement:
    """A correlation with people's ratings. value is NaN where there is none; `note` says why.

    low, high, stderr : over contexts, see intervals.spread; None and NaN where there are fewer than 2, or value is NaN
    n : texts, at the level `system` systems, that it rests on
    n_contexts : that it rests on. n_skipped : all others: fewer than 2 texts have both score and rating, or all ratings
        are equal
    n_constant : correlations that count 0, because all scores are equal
    n_unscored : rated texts without a score. n_unrated : texts without a rating
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

    value : agreement of the one minus that of the other. low, high, p : None as in Agreement; p is two-sided
    n_left_out : rated texts that only one of the two scores
    """

    value: float
    low: float | None
    high: float | None
    p: float | None
    n: int
    n_contexts: int
    n_left_out: int
    note: str = ""


def agreement(
    values: npt.ArrayLike,
    human: npt.ArrayLike,
    contexts: Sequence[str],
    systems: Sequence[str] | None = None,
    *,
    level: Level = "per_context",
    statistic: Statistic = "spearman",
) -> Agreement:
    """Correlation of scores with people's ratings.

    It is undefined where one side is constant: where all ratings are equal nobody could be right, and the context is
    skipped; where all scores are, a method that cannot tell texts apart is worth 0.

    values, human : shape (n,); NaN or None for an unscored or unrated text, which is left out and counted
    contexts, systems : length n; what each text was written for, and by which system (for the level `system`)
    raises : InputError for an infinite score or rating, columns of different length, an unknown name
    """
    return measure(values, human, contexts, systems, level, statistic).spread()


def difference(
    one: npt.ArrayLike,
    other: npt.ArrayLike,
    human: npt.ArrayLike,
    contexts: Sequence[str],
    systems: Sequence[str] | None = None,
    *,
    level: Level = "per_context",
    statistic: Statistic = "spearman",
) -> Difference:
    """Agreement of one method minus that of another, over the texts that both score; arguments as for agreement()."""
    one, other, human = (np.asarray(column, dtype=np.float64) for column in (one, other, human))
    check_lengths({"values": one, "other values": other, "ratings": human, "contexts": contexts})
    both = ~np.isnan(one) & ~np.isnan(other)
    first, second = (
        measure(np.where(both, column, np.nan), human, contexts, systems, level, statistic) for column in (one, other)
    )
    a, b = first.agreement, second.agreement
    n_contexts = min(a.n_contexts, b.n_contexts)
    n_left_out = int((~np.isnan(human) & (np.isnan(one) != np.isnan(other))).sum())
    value, note = a.value - b.value, a.note or b.note
    gap = spread(value, first.without() - second.without(), (-2.0, 2.0), note)
    p = None if gap.low is None else p_value(value, gap.stderr, n_contexts)
    return Difference(value, gap.low, gap.high, p, min(a.n, b.n), n_contexts, n_left_out, gap.note)


# ------------------------------------------------------------------------------------------------- how


class Points(NamedTuple):
    """The texts that have both score and rating. context, system : indices of each one's"""

    x: FloatArray
    y: FloatArray
    context: IntArray
    n_contexts: int
    system: IntArray


class Measured(NamedTuple):
    """agreement : without an interval. without : its value with each context left out, shape (n_contexts,), in the
    order in which they first occur; NaN for one that takes no part
    """

    agreement: Agreement
    without: Callable[[], FloatArray]

    def spread(self) -> Agreement:
        """With its interval."""
        stderr, low, high, note = spread(self.agreement.value, self.without(), note=self.agreement.note)
        return replace(self.agreement, stderr=stderr, low=low, high=high, note=note)


def measure(
    values: npt.ArrayLike,
    human: npt.ArrayLike,
    contexts: Sequence[str],
    systems: Sequence[str] | None,
    level: Level,
    statistic: Statistic,
    of_equal_ratings: float = np.nan,
) -> Measured:
    """What agreement() says before its interval, and what it says without each context; arguments and errors as there.

    of_equal_ratings : what counts where all ratings are equal; NaN: it is skipped
    """
    check_names(level=[level], statistic=[statistic])
    if systems is None and level == "system":
        raise InputError("systems is None, expected the system of each text: the level is 'system'. Give them")
    x, y = np.asarray(values, dtype=np.float64), np.asarray(human, dtype=np.float64)
    systems = [""] * len(x) if systems is None else systems
    check_lengths({"values": x, "ratings": y, "contexts": contexts, "systems": systems})
    for name, column in (("scores", x), ("ratings", y)):
        if (infinite := np.isinf(column)).any():
            raise InputError(
                f"cannot correlate {name} of which {int(infinite.sum())} of {len(column)} are infinite, expected "
                "finite numbers, or NaN for none. Leave these texts without one",
                value=float(column[infinite][0]),
            )
    rated, scored = ~np.isnan(y), ~np.isnan(x)
    both = rated & scored
    points = Points(x[both], y[both], index(contexts)[both], len(set(contexts)), index(systems)[both])
    found = (_inside if level == "per_context" else _over)(points, level, statistic, of_equal_ratings)
    n_unscored, n_unrated = int((rated & ~scored).sum()), int((~rated).sum())
    return found._replace(agreement=replace(found.agreement, n_unscored=n_unscored, n_unrated=n_unrated))


def check_names(**chosen: Sequence[str]) -> None:
    """Levels and statistics, one or more of each. raises : InputError"""
    there: Mapping[str, tuple[str, ...]] = {"level": LEVELS, "statistic": STATISTICS}
    for what, names in chosen.items():
        for name in names or [""]:
            if name not in there[what]:
                expected = ", ".join(there[what])
                raise InputError(f"{what} is {name!r}, expected one of {expected}. Name one of them", value=name)


def check_lengths(columns: Mapping[str, Sequence[str] | FloatArray]) -> None:
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        seen = ", ".join(f"{n} {name}" for name, n in lengths.items())
        raise InputError(f"{seen}: expected as many of each, one a text. Give each text one of each")


def _settled(
    x: FloatArray, y: FloatArray, statistic: Statistic, of_equal_ratings: float
) -> tuple[FloatArray, BoolArray]:
    """The correlation of each row of x with that of y, NaN is left out; and whether a side is constant."""
    constant_x, constant_y = np.ptp(x, axis=1) == 0, np.ptp(y, axis=1) == 0
    r = np.where(constant_x, 0.0, of_rows(x, y, statistic))
    return np.where(constant_y, of_equal_ratings, r), constant_x | constant_y


def _inside(points: Points, level: Level, statistic: Statistic, of_equal_ratings: float) -> Measured:
    sizes = np.bincount(points.context, minlength=points.n_contexts)
    r, constant = np.full(len(sizes), np.nan), np.zeros(len(sizes), dtype=bool)
    for contexts, rows in _by_size(points.context, sizes):
        r[contexts], constant[contexts] = _settled(points.x[rows], points.y[rows], statistic, of_equal_ratings)
    used = ~np.isnan(r)
    values, n_used = r[used], int(used.sum())
    agreement = Agreement(
        value=float(values.mean()) if n_used else np.nan,
        n_contexts=n_used,
        n_skipped=len(sizes) - n_used,
        n_constant=int((used & constant).sum()),
        n=int(sizes[used].sum()),
        note=""
        if n_used
        else f"none of {len(sizes)} contexts can be used: {(sizes < 2).sum()} have fewer than two texts with both "
        f"score and rating, and in {(sizes > 1).sum()} all ratings are equal",
    )

    def without() -> FloatArray:
        others = (values.sum() - r) / (n_used - 1) if n_used > 1 else np.full(len(r), np.nan)
        return np.asarray(others, dtype=np.float64)  # NaN where r is

    return Measured(agreement, cache(without))


def _by_size(context: IntArray, sizes: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """For each size from 2 up: the contexts with as many texts, and the rows of these, shape (n_contexts, size)."""
    order, starts = np.argsort(context, kind="stable"), np.cumsum(sizes) - sizes
    for size in np.unique(sizes[sizes > 1]):
        contexts = np.flatnonzero(sizes == size)
        yield contexts, order[starts[contexts][:, None] + np.arange(size)]


def _over(points: Points, level: Level, statistic: Statistic, of_equal_ratings: float) -> Measured:
    """One correlation: of all texts, or of the means of all systems."""
    x, y, context, n_contexts, system = points
    taking_part = np.unique(context)
    n, least, what = len(x), 2, "texts with both score and rating"
    if level == "system":
        n, least, what = len(np.unique(system)), LEAST_SYSTEMS, "systems with texts that have both"
    counts = {"n": n, "n_contexts": len(taking_part), "n_skipped": n_contexts - len(taking_part)}
    if n < least:
        note = f"{n} {what}, expected {least} or more"
        return Measured(Agreement(np.nan, **counts, note=note), lambda: np.full(n_contexts, np.nan))

    def of(rows: BoolArray) -> tuple[float, bool]:
        """Their correlation, and whether a side is constant."""
        one, other = x[rows], y[rows]
        if level == "system":
            texts: FloatArray = np.bincount(system[rows], minlength=system.max() + 1).astype(np.float64)
            sums: FloatArray = np.stack([np.bincount(system[rows], side, len(texts)) for side in (one, other)])
            one, other = means(sums, np.stack([texts, texts]))[:, texts > 0]
        if len(one) < least:
            return np.nan, False
        r, constant = _settled(one[None], other[None], statistic, of_equal_ratings)
        return float(r[0]), bool(constant[0])

    def without() -> FloatArray:
        values = np.full(n_contexts, np.nan)
        values[taking_part] = [of(context != each)[0] for each in taking_part]
        return values

    value, constant = of(np.ones(len(x), dtype=bool))
    note = "all ratings are equal" if np.isnan(value) else ""
    return Measured(Agreement(value, **counts, n_constant=int(constant and not note), note=note), cache(without))
