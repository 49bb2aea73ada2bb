"""What to ask next, where that depends on the answers: in rounds, or for a sort. NumPy and SciPy: whoever answers is
the caller's, a `judge.Judge` or a set of stored comparisons. All that can be asked at the same time is asked in one go.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..signature import Signature, text_hash
from ..types import FloatArray, IntArray
from .bradley_terry import bradley_terry
from .comparisons import Comparisons
from .designs import greedy, next_pairs
from .pairs import rank_many
from .result import Ranking

Call = tuple[int, int, int]
"""Problem, text shown first, text shown second: 0-based places."""

Answer = Callable[[Sequence[Call]], FloatArray]
"""log P(first is better), log P(second is better), log P(similar) of calls, nats, shape (k, 3); NaN: no answer."""

_SIMILAR = np.array([-np.inf, -np.inf, 0.0])


def ask_in_rounds(
    problems: Sequence[Sequence[str]], answer: Answer, budgets: Sequence[int], rngs: Sequence[np.random.Generator]
) -> list[Comparisons]:
    """Spends each problem's budget of calls where the answers so far leave most open (designs.next_pairs).

    problems : the ids of each. returns : what was answered

    First the N - 1 pairs of a greedy design in one order, then N calls a round, chosen under the scores of bt with its
    prior, which are defined for any answers. A call without an answer is spent, and not asked again before the others.
    """
    asked = [np.empty((0, 2), dtype=np.int64) for _ in budgets]
    answers = [np.empty((0, 3)) for _ in budgets]
    while True:
        chosen: dict[int, IntArray] = {}
        for k, (budget, rng) in enumerate(zip(budgets, rngs, strict=True)):
            ids, left = problems[k], budget - len(asked[k])
            if not len(asked[k]):
                chosen[k] = greedy(len(ids), min(budget, len(ids) - 1), rng, both_orders=False)
            elif left > 0:
                known = ~np.isnan(answers[k][:, 0])
                scores = bradley_terry(compared(ids, asked[k][known], answers[k][known]), stderr=None)
                # An answer that did not come counts as one here: else its text would be the least known for ever.
                seen = compared(ids, asked[k], np.where(known[:, None], answers[k], _SIMILAR))
                chosen[k] = next_pairs(seen, scores, min(left, len(ids)), rng)
        if not chosen:
            break
        told = answer([(k, i, j) for k, calls in chosen.items() for i, j in calls.tolist()])
        parts = np.split(told, np.cumsum([len(calls) for calls in chosen.values()])[:-1])
        for (k, calls), part in zip(chosen.items(), parts, strict=True):
            asked[k], answers[k] = np.concatenate([asked[k], calls]), np.concatenate([answers[k], part])
    found = []
    for ids, calls, given in zip(problems, asked, answers, strict=True):
        good = ~np.isnan(given[:, 0])
        found.append(compared(ids, calls[good], given[good]))
    return found


def merge_sort(
    problems: Sequence[Sequence[str]],
    answer: Answer,
    *,
    gap: float = 0.0,
    beam_size: int = 1,
    both_orders: bool = False,
    seed: int = 0,
) -> list[Ranking]:
    """PairS (see ranking.pairs) of many problems side by side, all their questions of a round in one call.

    problems : the ids of each
    both_orders : ask about a pair in both, and average
    seed : of the order that the sort starts from, which is a permutation of the sorted ids: the same for the same ids
    """
    starts = []
    for ids in problems:
        rng = np.random.default_rng([seed, int(text_hash(*sorted(ids))[:16], 16)])
        starts.append(np.argsort(np.array(ids))[rng.permutation(len(ids))])
    found = rank_many(
        [[ids[place] for place in start] for ids, start in zip(problems, starts, strict=True)],
        lambda calls: answer([(k, int(starts[k][i]), int(starts[k][j])) for k, i, j in calls]),
        gap=gap,
        beam_size=beam_size,
        calibrate=both_orders,
    )
    rankings = []
    for ids, start, (ranking, _) in zip(problems, starts, found, strict=True):
        back = np.argsort(start)
        rankings.append(
            replace(
                ranking,
                ids=tuple(ids),
                scores=ranking.scores[back],
                n_comparisons=ranking.n_comparisons[back],
                settings={**ranking.settings, "seed": seed},
            )
        )
    return rankings


def stored_merge_sort(
    comparisons: Comparisons, *, gap: float = 0.0, beam_size: int = 1, both_orders: bool = False, seed: int = 0
) -> Ranking:
    """PairS on answers that are there already: the mean of those to the call, else of those in the other order.

    It asks only for what it needs; where an answer is missing, the search ends: scores NaN, converged False, and the
    two ids in settings["failed"].
    """
    n, known = comparisons.n_candidates, comparisons.pairs(ordered=True)
    with np.errstate(divide="ignore"):
        means = np.log(np.stack([known.wins, known.losses, known.ties], axis=1) / known.games[:, None])
    answers = {int(i * n + j): mean for i, j, mean in zip(known.i, known.j, means, strict=True)}

    def answer(calls: Sequence[Call]) -> FloatArray:
        rows = []
        for _, i, j in calls:
            other = answers.get(j * n + i, np.full(3, np.nan))[[1, 0, 2]]
            rows.append(answers.get(i * n + j, other))
        return np.array(rows).reshape(-1, 3)

    (ranking,) = merge_sort([comparisons.ids], answer, gap=gap, beam_size=beam_size, both_orders=both_orders, seed=seed)
    return replace(ranking, signature=comparisons.signature or Signature(()))


def compared(
    ids: Sequence[str],
    calls: IntArray,
    answers: Sequence[FloatArray] | FloatArray,
    signature: Signature | None = None,
) -> Comparisons:
    """Calls, shape (k, 2), and their log-probabilities as Comparisons of weight 1."""
    log_probs = np.array(answers, dtype=np.float64).reshape(-1, 3)
    return Comparisons(tuple(ids), calls[:, 0], calls[:, 1], log_probs, np.ones(len(calls)), signature)
