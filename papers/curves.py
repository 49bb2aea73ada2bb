"""How well does each method do with fewer calls? A stored full set of comparisons is thinned, ranked and judged again.
Pure NumPy: no model, no files.

The protocol of arXiv:2405.05894, section 5: for every budget K, draws of K calls; for each draw, every context is
ranked from it, and agreement with the truth is averaged over contexts; one number a draw. All methods see the same
draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from synthscore.errors import InputError, RankingError
from synthscore.evaluation.agreement import agreement
from synthscore.io.write import plain
from synthscore.ranking.comparisons import Comparisons
from synthscore.ranking.methods import method_of
from synthscore.ranking.result import Ranking
from synthscore.types import FloatArray, IntArray

from .designs import DRAWN

Selection = Literal["symmetric", "greedy", "no-repeat", "random"]

METHODS = ("win-ratio", "average-probability", "bt", "poe-g-hard", "poe-bt", "poe-g")
"""Methods of ranking that curves show by default."""


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

    def to_rows(self) -> Iterator[dict[str, Any]]:
        """A row a budget. low, high : 95 % interval of the mean over draws."""
        interval = self.interval()
        for row, k in enumerate(self.n_calls.tolist()):
            numbers = {"mean": self.mean[row], "sd": self.sd[row], "low": interval[row, 0], "high": interval[row, 1]}
            counts = {"n_draws": self.values.shape[1], "n_contexts": self.n_contexts}
            yield {"method": self.method, "n_calls": k, **plain(numbers), **counts, "n_failed": int(self.n_failed[row])}

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
    methods: Sequence[str] | Mapping[str, Callable[[Comparisons], Ranking]] = METHODS,
    *,
    human: Sequence[npt.ArrayLike] | None = None,
    budgets: Sequence[int] | None = None,
    n_draws: int = 100,
    design: Selection = "symmetric",
    seed: int = 0,
) -> list[Curve]:
    """One curve a method.

    contexts : all N (N - 1) calls of each; of the same call made more than once, the first counts
    methods : of ranking, by their names; or name -> a function of Comparisons, with its options (stderr=None saves half
        of the time)
    human : ratings of each context's candidates, in their order, shape (N,), NaN for none. None: what the same method
        says of the full set, so that curves end at 1 and cannot be compared with each other's truth.
    budgets : calls in a context. Default: default_budgets of all contexts
    design : how calls are drawn; "symmetric" and "greedy" take both orders of a pair, "no-repeat" one, "random" any
    raises : InputError for a set that is not full, a budget that a context cannot have;
        RankingError where a method cannot rank a full set that is to be its truth
    """
    methods = methods if isinstance(methods, Mapping) else thinnable(methods)
    if n_draws < 2:
        raise InputError(f"cannot tell a spread from {n_draws} draws, expected at least 2", value=n_draws)
    if human is not None and len(human) != len(contexts):
        raise InputError(f"{len(human)} sets of ratings for {len(contexts)} contexts, expected as many")
    full = [_full(comparisons) for comparisons in contexts]
    ends = np.array(budgets or default_budgets([c.n_candidates for c in contexts], design))
    truth = {
        name: [method(c).scores for c in full] if human is None else [np.asarray(h, np.float64) for h in human]
        for name, method in methods.items()
    }
    names = [str(k) for k, c in enumerate(full) for _ in range(c.n_candidates)]
    flat = {name: np.concatenate(scores) for name, scores in truth.items()}
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
                inside = agreement(np.round(np.concatenate(scores), 9), flat[name], names)
                values[name][row, draw] = inside.value
                n_contexts[name] = max(n_contexts[name], inside.n_contexts)
    return [Curve(name, ends, values[name], n_contexts[name], failed[name]) for name in methods]


def thinnable(names: Sequence[str]) -> dict[str, Callable[[Comparisons], Ranking]]:
    """Methods of ranking by their names, without standard errors, which no curve shows.

    raises : InputError for names of none
    """
    return {name: method_of(name).fast for name in names}


def default_budgets(sizes: Sequence[int], design: Selection = "symmetric") -> list[int]:
    """From 2 N calls to all that the design can have in steps of N; of N / 3 where N < 8, which would be few.

    sizes : N of each context; the budgets are those that all of them can have
    raises : InputError where there are none
    """
    n, least = max(sizes), min(sizes)
    both_orders = design in ("symmetric", "greedy")
    most = least * (least - 1) // (2 if design == "no-repeat" else 1)
    if most < (n - 1) * (1 + both_orders):
        raise InputError(
            f"contexts have {least} to {n} candidates: {most} calls are all of the smallest, and too few for the "
            "largest. Expected contexts of similar size: take those by themselves",
            value=tuple(sizes),
        )
    step = n if n >= 8 else max(1, n // 3)
    step += step % 2 if both_orders else 0
    return [*range(2 * n, most, step), most]


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
