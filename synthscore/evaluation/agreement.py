"""Scores + human ratings -> how far they agree: inside contexts, over all texts, or over systems.

`per_context`: a correlation inside each context, and the plain mean of these. `pooled`: one correlation over all texts.
`system`: one correlation over the means of systems. What papers call them: docs/evaluation.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..types import BoolArray, FloatArray, IntArray
from .correlation import STATISTICS, Statistic, correlation
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
    return measure(values, human, contexts, systems, level, statistic)[0]


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
    (a, without_a), (b, without_b) = (
        measure(np.where(both, column, np.nan), human, contexts, systems, level, statistic) for column in (one, other)
    )
    n_contexts = min(a.n_contexts, b.n_contexts)
    n_left_out = int((~np.isnan(human) & (np.isnan(one) != np.isnan(other))).sum())
    value, note = a.value - b.value, next((each.note for each in (a, b) if np.isnan(each.value)), "")
    gap = spread(value, without_a - without_b, (-2.0, 2.0), note)
    p = None if gap.low is None else p_value(value, gap.stderr, n_contexts)
    return Difference(value, gap.low, gap.high, p, min(a.n, b.n), n_contexts, n_left_out, gap.note)


# ------------------------------------------------------------------------------------------------- how


def measure(
    values: npt.ArrayLike,
    human: npt.ArrayLike,
    contexts: Sequence[str],
    systems: Sequence[str] | None,
    level: Level,
    statistic: Statistic,
    of_equal_ratings: float = np.nan,
) -> tuple[Agreement, FloatArray]:
    """What agreement() says; and its value with each context left out, shape (n_contexts,), in the order in which they
    first occur, NaN for one that takes no part. Arguments and errors as there.

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
    x, y, context, system = x[both], y[both], index(contexts)[both], index(systems)[both]
    n_contexts = len(set(contexts))

    def settled(one: FloatArray, other: FloatArray) -> tuple[float, bool]:
        """The correlation; and whether a side is constant."""
        if np.ptp(other) == 0:
            return of_equal_ratings, True
        return (0.0, True) if np.ptp(one) == 0 else (correlation(one, other, statistic), False)

    def over(rows: BoolArray) -> tuple[float, bool]:
        """Of all these texts, or of the means of their systems."""
        one, other = x[rows], y[rows]
        if level == "system":
            one, other = _means(one, system[rows]), _means(other, system[rows])
        return settled(one, other) if len(one) >= least else (np.nan, False)

    if level == "per_context":
        sizes = np.bincount(context, minlength=n_contexts)
        groups = np.split(np.argsort(context, kind="stable"), np.cumsum(sizes)[:-1])
        found = [settled(x[rows], y[rows]) if len(rows) > 1 else (np.nan, False) for rows in groups]
        r, constant = np.array([each for each, _ in found]), np.array([flat for _, flat in found])
        used = ~np.isnan(r)
        n_used, total = int(used.sum()), r[used].sum()
        value, n, n_constant = (float(r[used].mean()) if n_used else np.nan), int(sizes[used].sum()), constant & used
        without = (total - r) / (n_used - 1) if n_used > 1 else np.full(len(r), np.nan)  # NaN where r is
        note = (
            f"none of {len(sizes)} contexts can be used: {(sizes < 2).sum()} have fewer than two texts with both "
            f"score and rating, and in {(sizes > 1).sum()} all ratings are equal"
        )
    else:
        taking_part, without = np.unique(context), np.full(n_contexts, np.nan)
        n, least, what, n_used = len(x), 2, "texts with both score and rating", len(taking_part)
        if level == "system":
            n, least, what = len(np.unique(system)), LEAST_SYSTEMS, "systems with texts that have both"
        value, n_constant = over(np.ones(len(x), dtype=bool))
        note = "all ratings are equal" if n >= least else f"{n} {what}, expected {least} or more"
        if n >= least:
            without[taking_part] = [over(context != each)[0] for each in taking_part]
    stderr, low, high, note = spread(value, without, note=note if np.isnan(value) else "")
    return Agreement(
        value,
        low,
        high,
        n,
        stderr,
        n_used,
        n_contexts - n_used,
        0 if np.isnan(value) else int(np.sum(n_constant)),
        int((rated & ~scored).sum()),
        int((~rated).sum()),
        note,
    ), without


def _means(values: FloatArray, group: IntArray) -> FloatArray:
    """Of each group, in units of a power of ten; rounded to 13 digits of the largest, so that equal means are equal,
    however they were added up."""
    n = np.bincount(group)
    found = np.bincount(group, values)[n > 0] / n[n > 0]
    size = np.abs(found).max(initial=0.0)
    return np.asarray(np.round(found / (10.0 ** np.floor(np.log10(size)) if size > 0 else 1.0), 12), dtype=np.float64)


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
