"""How well does each method do with fewer calls? A stored full set of comparisons is thinned, ranked and judged again.
Pure NumPy: no model, no files.

The protocol of arXiv:2405.05894, section 5: for every budget K, draws of K calls; for each draw, every context is
ranked from it, and agreement with the truth is averaged over contexts; one number a draw. All methods see the same
draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from synthscore.errors import InputError, RankingError
from synthscore.evaluation.agreement import agreement
from synthscore.ranking.comparisons import Comparisons
from synthscore.ranking.result import Ranking
from synthscore.types import FloatArray, IntArray

from .designs import DRAWN

Selection = Literal["symmetric", "greedy", "no-repeat", "random"]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """Agreement of one method with the truth, by budget.

    n_calls : int64, shape (B,); calls in each context
    values : float64, shape (B, n_draws); Spearman's correlation inside each context, mean over contexts
    n_contexts : whose truth has an order to agree with
    n_failed : int64, shape (B,); contexts, over all draws, that the method could not rank. They are left out.
    """

    method: str
    n_calls: IntArray
    values: FloatArray
    n_contexts: int
    n_failed: IntArray

    @property
    def mean(self) -> FloatArray:
        """Over draws, shape (B,)."""
        mean: FloatArray = self.values.mean(axis=1)
        return mean

    @property
    def sd(self) -> FloatArray:
        """Over draws, shape (B,); 0 where a draw is all calls there are."""
        sd: FloatArray = self.values.std(axis=1, ddof=1)
        return sd

    def interval(self, level: float = 0.95) -> FloatArray:
        """Of the mean over draws, by Student's t, shape (B, 2): these contexts, other draws."""
        return t_interval(self.values, level)


def t_interval(values: FloatArray, level: float = 0.95) -> FloatArray:
    """Of the mean over the last axis, shape (..., 2)."""
    from scipy.stats import t

    n = values.shape[-1]
    mean = values.mean(axis=-1)
    half = t.ppf((1 + level) / 2, n - 1) * values.std(axis=-1, ddof=1) / np.sqrt(n)
    return np.stack([mean - half, mean + half], axis=-1)


def efficiency_curves(
    contexts: Sequence[Comparisons],
    methods: Mapping[str, Callable[[Comparisons], Ranking]],
    *,
    human: Sequence[npt.ArrayLike],
    budgets: Sequence[int],
    n_draws: int = 100,
    design: Selection = "symmetric",
    seed: int = 0,
) -> list[Curve]:
    """One curve a method.

    contexts : all N (N - 1) calls of each; of the same call made more than once, the first counts
    methods : name -> a way to rank, with its options (stderr=None saves half of the time)
    human : ratings of each context's candidates, in their order, shape (N,), NaN for none
    budgets : calls in a context
    design : how calls are drawn; "symmetric" and "greedy" take both orders of a pair, "no-repeat" one, "random" any
    raises : InputError for a set that is not full, a budget that a context cannot have
    """
    if n_draws < 2:
        raise InputError(f"cannot tell a spread from {n_draws} draws, expected at least 2", value=n_draws)
    if len(human) != len(contexts):
        raise InputError(f"{len(human)} sets of ratings for {len(contexts)} contexts, expected as many")
    full = [_full(comparisons) for comparisons in contexts]
    ends = np.array(budgets)
    truth = np.concatenate([np.asarray(ratings, np.float64) for ratings in human])
    names = [str(k) for k, c in enumerate(full) for _ in range(c.n_candidates)]
    values = {name: np.empty((len(ends), n_draws)) for name in methods}
    failed = {name: np.zeros(len(ends), dtype=np.int64) for name in methods}
    n_contexts = dict.fromkeys(methods, 0)
    for row, n_calls in enumerate(ends.tolist()):
        for draw in range(n_draws):
            rng = np.random.default_rng([seed, n_calls, draw])
            masks = [c.subset(_drawn(c, DRAWN[design](c.n_candidates, n_calls, rng))) for c in full]
            for name, method in methods.items():
                scores = [_scores(method, mask) for mask in masks]
                failed[name][row] += sum(bool(np.isnan(s).all()) for s in scores)
                # Equal but for rounding is equal, or ties would be split by noise.
                inside = agreement(np.round(np.concatenate(scores), 9), truth, names)
                values[name][row, draw] = inside.value
                n_contexts[name] = max(n_contexts[name], inside.n_contexts)
    return [Curve(name, ends, values[name], n_contexts[name], failed[name]) for name in methods]


def _full(comparisons: Comparisons) -> Comparisons:
    """The calls in the order of their codes, first * N + second; one of each."""
    n = comparisons.n_candidates
    codes, rows = np.unique(comparisons.first * np.int64(n) + comparisons.second, return_index=True)
    if len(codes) < n * (n - 1):
        raise InputError(
            f"cannot thin a set that is not full: it has {len(codes)} of the {n * (n - 1)} calls about {n} candidates, "
            "both orders of every pair. Ask for the others, or leave candidates out"
        )
    return comparisons.subset(rows)


def _drawn(full: Comparisons, calls: IntArray) -> IntArray:
    n = full.n_candidates
    codes: IntArray = calls[:, 0] * (n - 1) + calls[:, 1] - (calls[:, 1] > calls[:, 0])  # no call is (i, i)
    return codes


def _scores(method: Callable[[Comparisons], Ranking], calls: Comparisons) -> FloatArray:
    try:
        return method(calls).scores
    except RankingError:
        return np.full(calls.n_candidates, np.nan)
