"""Contexts drawn with replacement -> intervals, p-values, p-values corrected for many comparisons. NumPy.

A context is what was sampled: its texts share an article and readers, and are not independent. The same draws are used
for all methods, so that what makes a context hard for all of them cancels in their differences.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..types import FloatArray, IntArray

_CELLS = 128_000  # numbers in the largest array that is made at once: 1 MB stays in a core's cache


@dataclass(frozen=True, slots=True, eq=False)
class Draws:
    """Resamples of contexts, as many contexts in each as there are.

    contexts : their names, in the order in which they first occur
    counts : uint32, shape (n_resamples, n_contexts); how often each was drawn
    """

    contexts: tuple[str, ...]
    counts: npt.NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.counts)


def draw_contexts(contexts: Sequence[str], rng: np.random.Generator, n_resamples: int = 1000) -> Draws:
    """contexts : of each text, in any order, or each once."""
    if n_resamples < 1:
        raise InputError(f"n_resamples is {n_resamples}, expected at least 1. Raise it", value=n_resamples)
    names = tuple(dict.fromkeys(contexts))
    n = len(names)
    counts = rng.multinomial(n, np.full(n, 1 / n), n_resamples) if n else np.zeros((n_resamples, 0))
    return Draws(names, counts.astype(np.uint32))


def replicates(of_counts: Callable[[FloatArray], FloatArray], draws: Draws, contexts: Sequence[str]) -> FloatArray:
    """The value of each resample, shape (n_resamples,).

    of_counts : how often each context was drawn, shape (n, n_contexts), in the order in which they first occur ->
        values, shape (n,)
    contexts : of each text
    raises : InputError where draws are of other contexts
    """
    columns = {name: column for column, name in enumerate(draws.contexts)}
    names = dict.fromkeys(contexts)
    strange = [name for name in names if name not in columns]
    if strange:
        raise InputError(
            f"{len(strange)} of {len(names)} contexts are not among the {len(columns)} of the draws, the first is "
            f"{strange[0]!r}. Draw from the contexts of these texts"
        )
    counts = draws.counts[:, [columns[name] for name in names]]
    step = max(1, _CELLS // max(len(contexts), 1))
    parts = [of_counts(counts[start : start + step].astype(np.float64)) for start in range(0, len(counts), step)]
    return np.concatenate(parts)


def index(names: Sequence[str]) -> IntArray:
    """Of each name among the different ones, in the order in which they first occur."""
    indices = {name: i for i, name in enumerate(dict.fromkeys(names))}
    return np.array([indices[name] for name in names], dtype=np.int64)


def interval(replicates: FloatArray) -> tuple[float, float] | None:
    """The middle 95 % of the replicates, NaN left out; None where all are NaN.

    source : Efron and Tibshirani (1993), chapter 13. Somewhat too narrow for fewer than some 20 contexts. At the level
        `system` it reaches too far down: means of systems scatter more once contexts are drawn again.
    """
    known = replicates[~np.isnan(replicates)]
    if not len(known):
        return None
    low, high = np.quantile(known, [(1 - 0.95) / 2, (1 + 0.95) / 2]).tolist()
    return low, high


class Spread(NamedTuple):
    """Of a figure over contexts.

    low, high : interval, or None, and then `note` says why. replicates : the value of each resample
    """

    low: float | None
    high: float | None
    note: str
    replicates: FloatArray


def spread(
    of_counts: Callable[[FloatArray], FloatArray], draws: Draws, contexts: Sequence[str], n_contexts: int, note: str
) -> Spread:
    """of_counts, draws, contexts : as for replicates. n_contexts : that the figure rests on. note : why it is NaN"""
    if not note and n_contexts < 2:
        note = f"no interval: {n_contexts} context, and contexts are what is drawn"
    again = np.empty(0) if note else replicates(of_counts, draws, contexts)
    low, high = interval(again) or (None, None)
    return Spread(low, high, note or ("no resample has a value" if low is None else ""), again)


def p_value(replicates: FloatArray) -> float:
    """Two-sided, of a difference being 0: twice the share of its replicates on the rarer side of 0, 0 itself included.

        p = min(1, 2 (1 + min(#<=0, #>=0)) / (1 + n))

    At least 2 / (1 + n): take more resamples where many comparisons are corrected. NaN without replicates.
    source : Davison and Hinkley (1997), section 4.2, for the 1 that is added
    """
    known = replicates[~np.isnan(replicates)]
    if not len(known):
        return float("nan")
    rarer = min(int((known <= 0).sum()), int((known >= 0).sum()))
    return min(1.0, 2 * (1 + rarer) / (1 + len(known)))


def holm(p_values: npt.ArrayLike) -> FloatArray:
    """p-values of many comparisons, corrected so that the chance of any false difference stays below the level,
    whatever the dependence (Holm, 1979): shape (n,). NaN stays NaN and is no comparison.
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")[: np.count_nonzero(~np.isnan(p))]  # NaN comes last
    corrected = np.full_like(p, np.nan)
    left = np.arange(len(order), 0, -1)  # comparisons that are not rejected before this one
    corrected[order] = np.minimum(1.0, np.maximum.accumulate(left * p[order]))
    return corrected
