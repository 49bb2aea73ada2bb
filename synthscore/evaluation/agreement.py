"""Scores + human ratings -> how far they agree: inside contexts, over all texts, or over systems.

`per_context`: a correlation inside each context, and the plain mean of these. `pooled`: one correlation over all texts.
`system`: one correlation over the means of systems. Papers use the same names for different levels: see ALIASES.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..types import BoolArray, FloatArray, IntArray
from .bootstrap import Draws, index, interval, no_interval, p_value, replicates
from .correlation import STATISTICS, Correlations, Statistic, of_systems, pooled

Level = Literal["per_context", "pooled", "system"]
LEVELS: tuple[Level, ...] = ("per_context", "pooled", "system")

ALIASES: Mapping[Level, Mapping[str, str]] = {
    "per_context": {
        "DS": "sample-level",
        "CA": "summary-level, context-level",
        "PoE": "summary-level, context-level",
        "UniEval": "summary level",
    },
    "pooled": {"DS": "summary-level", "UniEval": "sample level"},
    "system": {"DS": "system-level", "CA": "system-level", "PoE": "system-level", "UniEval": "system level"},
}
"""Level -> paper -> what the paper calls it. "sample" and "summary" are swapped between DS and UniEval."""

Found = TypeVar("Found", "Agreement", "Difference")

LEAST_SYSTEMS = 3  # two points correlate with 1 or -1, whatever they are


class NanPolicy(NamedTuple):
    """What a correlation counts as that is undefined, because one side is constant; None: it is left out.

    equal_ratings : all ratings are equal; goes first where both sides are constant
    equal_scores : all scores are equal
    summary : in words, and who does so
    """

    equal_ratings: float | None
    equal_scores: float | None
    summary: str

    def settle(self, found: Correlations) -> tuple[FloatArray, BoolArray]:
        """The correlations, undefined ones replaced, and which of them are left out."""
        r, left_out = found.r.copy(), np.zeros(len(found.r), dtype=bool)
        for constant, value in ((found.constant_x, self.equal_scores), (found.constant_y, self.equal_ratings)):
            r[constant] = np.nan if value is None else value
            left_out[constant] = value is None
        return r, left_out


NAN_POLICIES: Mapping[str, NanPolicy] = {
    "zero": NanPolicy(None, 0.0, "equal ratings are skipped, equal scores count 0: CA, PoE; the default"),
    "skip": NanPolicy(None, None, "both are skipped: G-Eval, UniEval, the efficiency curves of PoE"),
    "one": NanPolicy(1.0, 0.0, "equal ratings count 1 for everybody, equal scores 0: PairS, ZEPO"),
    "all-zero": NanPolicy(
        0.0, 0.0, "both count 0, so that the mean is over all contexts: how DS's formula can be read"
    ),
    "undefined": NanPolicy(np.nan, np.nan, "one such context and there is no figure: SciPy and a plain mean"),
}
"""Name -> policy. Skipping equal scores rewards a scorer that cannot tell texts apart; a 1 rewards everybody."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """A correlation with people's ratings. value is NaN where there is none; `note` says why.

    stderr : of the mean over contexts; NaN at other levels, and for fewer than 2 contexts
    n_contexts : that it rests on. n_skipped : all others
    n_constant : correlations that are undefined, and count what the policy says
    n_short : of n_skipped, contexts with too few texts that have both score and rating: fewer than 2; at other levels 0
    n : texts, at the level `system` systems, that it rests on
    n_unscored : rated texts without a score. n_unrated : texts without a rating
    low, high : interval, where contexts were drawn; None where there are fewer than 2, or value is NaN
    n_resamples : that have a value, and make the interval
    """

    value: float
    stderr: float
    n_contexts: int
    n_skipped: int
    n_constant: int
    n_short: int
    n: int
    n_unscored: int = 0
    n_unrated: int = 0
    low: float | None = None
    high: float | None = None
    n_resamples: int = 0
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
    n_resamples: int = 0
    note: str = ""


def agreement(
    values: npt.ArrayLike,
    human: npt.ArrayLike,
    contexts: Sequence[str],
    systems: Sequence[str] | None = None,
    *,
    level: Level = "per_context",
    statistic: Statistic = "spearman",
    nan_policy: str = "zero",
    draws: Draws | None = None,
) -> Agreement:
    """Correlation of scores with people's ratings.

    values, human : shape (n,); NaN or None for an unscored or unrated text, which is left out and counted
    contexts, systems : length n; what each text was written for, and by which system (for the level `system`)
    nan_policy : a name in NAN_POLICIES
    draws : of these contexts, for an interval; the same for all methods that are to be compared
    raises : InputError for an infinite score or rating, columns of different length, an unknown name, draws of other
        contexts
    """
    return measure(values, human, contexts, systems, level, statistic, nan_policy).drawn(draws, contexts)[0]


def difference(
    one: npt.ArrayLike,
    other: npt.ArrayLike,
    human: npt.ArrayLike,
    contexts: Sequence[str],
    systems: Sequence[str] | None = None,
    *,
    draws: Draws,
    level: Level = "per_context",
    statistic: Statistic = "spearman",
    nan_policy: str = "zero",
) -> Difference:
    """Agreement of one method minus that of another, over the texts that both score; arguments as for agreement()."""
    one, other, human = (np.asarray(column, dtype=np.float64) for column in (one, other, human))
    check_lengths({"values": one, "other values": other, "ratings": human, "contexts": contexts})
    both = ~np.isnan(one) & ~np.isnan(other)
    first, second = (
        measure(np.where(both, column, np.nan), human, contexts, systems, level, statistic, nan_policy)
        for column in (one, other)
    )
    a, b = first.agreement, second.agreement
    fewer = min(a, b, key=lambda side: side.n_contexts)
    n_left_out = int((~np.isnan(human) & (np.isnan(one) != np.isnan(other))).sum())
    found = Difference(a.value - b.value, None, None, None, min(a.n, b.n), fewer.n_contexts, n_left_out)
    found = replace(found, note=a.note or b.note)
    found, gaps = drawn(found, lambda counts: first.of_counts(counts) - second.of_counts(counts), draws, contexts)
    return found if found.low is None else replace(found, p=p_value(gaps))


# ------------------------------------------------------------------------------------------------- how


class Points(NamedTuple):
    """The texts that have both score and rating. context, system : indices of each one's"""

    x: FloatArray
    y: FloatArray
    context: IntArray
    n_contexts: int
    system: IntArray


class Measured(NamedTuple):
    """agreement : without an interval. of_counts : what bootstrap.replicates() asks for"""

    agreement: Agreement
    of_counts: Callable[[FloatArray], FloatArray]

    def drawn(self, draws: Draws | None, contexts: Sequence[str]) -> tuple[Agreement, FloatArray]:
        """With its interval; and its value in each resample, none where there is no interval."""
        if draws is None:
            return self.agreement, np.empty(0)
        return drawn(self.agreement, self.of_counts, draws, contexts)


def drawn(
    found: Found, of_counts: Callable[[FloatArray], FloatArray], draws: Draws, contexts: Sequence[str]
) -> tuple[Found, FloatArray]:
    """As Measured.drawn, of a difference too."""
    note = found.note or no_interval(found.n_contexts)
    again = np.empty(0) if note else replicates(of_counts, draws, contexts)
    ends = interval(again)
    if ends is None:
        return replace(found, note=note or "no resample has a value"), again
    return replace(found, low=ends.low, high=ends.high, n_resamples=ends.n), again


def measure(
    values: npt.ArrayLike,
    human: npt.ArrayLike,
    contexts: Sequence[str],
    systems: Sequence[str] | None,
    level: Level,
    statistic: Statistic,
    nan_policy: str,
) -> Measured:
    """What agreement() says before anything is drawn, and what it says of draws; arguments and errors as there."""
    check_names(level=[level], statistic=[statistic], nan_policy=[nan_policy])
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
    policy = NAN_POLICIES[nan_policy]
    found = _inside(points, statistic, policy) if level == "per_context" else _over(points, level, statistic, policy)
    n_unscored, n_unrated = int((rated & ~scored).sum()), int((~rated).sum())
    return found._replace(agreement=replace(found.agreement, n_unscored=n_unscored, n_unrated=n_unrated))


def check_names(**chosen: Sequence[str]) -> None:
    """Levels, statistics and policies, one or more of each. raises : InputError"""
    there = {"level": LEVELS, "statistic": STATISTICS, "nan_policy": tuple(NAN_POLICIES)}
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


def _inside(points: Points, statistic: Statistic, policy: NanPolicy) -> Measured:
    sizes = np.bincount(points.context, minlength=points.n_contexts)
    found = Correlations.unknown(len(sizes))
    for contexts, rows in _by_size(points.context, sizes):
        found.put(contexts, points.x[rows], points.y[rows], statistic)
    r, left_out = policy.settle(found)
    short = sizes < 2
    used = ~short & ~left_out
    values, n_used, n_short = r[used], int(used.sum()), int(short.sum())
    note = ""
    if not n_used:
        note = (
            f"none of {len(sizes)} contexts can be used: {n_short} have fewer than two texts with both score and "
            f"rating, and in {len(sizes) - n_short} all ratings or all scores are equal"
        )
    elif np.isnan(values).any():
        note = f"in {int(np.isnan(values).sum())} of {n_used} contexts all ratings or all scores are equal"
    agreement = Agreement(
        value=float(values.mean()) if n_used else np.nan,
        stderr=float(values.std(ddof=1) / np.sqrt(n_used)) if n_used > 1 else np.nan,
        n_contexts=n_used,
        n_skipped=len(sizes) - n_used,
        n_constant=int((used & (found.constant_x | found.constant_y)).sum()),
        n_short=n_short,
        n=int(sizes[used].sum()),
        note=note,
    )

    def of_counts(counts: FloatArray) -> FloatArray:
        drawn = counts[:, used]
        with np.errstate(invalid="ignore"):
            means: FloatArray = drawn @ values / drawn.sum(axis=1)
        return means

    return Measured(agreement, of_counts)


def _by_size(context: IntArray, sizes: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """For each size from 2 up: the contexts with as many texts, and the rows of these, shape (n_contexts, size)."""
    order, starts = np.argsort(context, kind="stable"), np.cumsum(sizes) - sizes
    for size in np.unique(sizes[sizes > 1]):
        contexts = np.flatnonzero(sizes == size)
        yield contexts, order[starts[contexts][:, None] + np.arange(size)]


def _over(points: Points, level: Level, statistic: Statistic, policy: NanPolicy) -> Measured:
    """One correlation: of all texts, or of the means of all systems."""
    x, y, context, n_contexts, system = points
    present = len(np.unique(context))
    n, least, what = len(x), 2, "texts with both score and rating"
    if level == "system":
        n, least, what = len(np.unique(system)), LEAST_SYSTEMS, "systems with texts that have both"
    agreement = Agreement(
        value=np.nan,
        stderr=np.nan,
        n_contexts=present,
        n_skipped=n_contexts - present,
        n_constant=0,
        n_short=n_contexts - present,
        n=n,
        note=f"{n} {what}, expected {least} or more",
    )
    if n < least:
        return Measured(agreement, lambda counts: np.full(len(counts), np.nan))
    if level == "system":
        resampled = of_systems(x, y, context, n_contexts, system, statistic, LEAST_SYSTEMS)
    else:
        resampled = pooled(x, y, context, n_contexts, statistic)
    found = resampled(np.ones((1, n_contexts)))
    r, left_out = policy.settle(found)
    constant = bool(found.constant_x[0] or found.constant_y[0])
    note = f"all {'ratings' if found.constant_y[0] else 'scores'} are equal" if np.isnan(r[0]) else ""
    agreement = replace(agreement, value=float(r[0]), n_constant=int(constant and not left_out[0]), note=note)
    return Measured(agreement, lambda counts: policy.settle(resampled(counts))[0])
