"""PairS: an order by merge sort that asks for comparisons as it goes. Pure NumPy; the judge is the caller's.

A search is a generator: it yields the calls that it needs next and is sent the answers. What can be asked at the same
time is one batch: all merges of one level, all paths of a beam, and all problems.
Source: arXiv:2403.16950
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt

from synthscore.errors import InputError
from synthscore.evaluation.methods.comparing import Compared, Protocol
from synthscore.io.settings import Count, Seed, Share, Span
from synthscore.judging.asking import Asking
from synthscore.ranking import ComparisonSets, PairJudge, Ranking, Rankings, Selection
from synthscore.ranking.judge import Call
from synthscore.ranking.sets import GROUPS
from synthscore.scoring.methods import MethodKind
from synthscore.signature import seeded_rng
from synthscore.types import FloatArray, IntArray

Answer = Callable[[Sequence[Call]], FloatArray]
"""log P(first is better), log P(second is better), log P(similar) of calls, nats, shape (k, 3); NaN: no answer."""

_FLOOR = 1e-9  # of a probability, before its log is taken


def merge_sort(
    problems: Sequence[Sequence[str]],
    answer: Answer,
    *,
    gap: float = 0.0,
    beam_size: int = 1,
    both_orders: bool = False,
    seed: int = 0,
) -> list[Ranking]:
    """Sorts many problems side by side, worst first, each merge a beam search over the ways to interleave its two runs.

    With a and b the worst texts left in the two runs and p = P(a is better), a path goes on with b (if p >= 1/2 - gap),
    with a (if p <= 1/2 + gap), or with both. It scores log p for taking b, log(1 - p) for taking a, mean over choices.

    problems : the ids of each
    gap : how far from 1/2 an answer must be to be believed; 0 with beam_size 1 is PairS-greedy, at most
        N ceil(log2 N) pairs. PairS-beam: 0.1 to 0.2 with 1000 paths or more. With a gap, a false order may be preferred
        even if every answer is right: paths have not answered the same questions.
    both_orders : ask about a pair in both, and average
    seed : of the order that a sort starts from, a permutation of the sorted ids: the same for the same ids, whatever
        their order
    returns : scores are positions, evenly spaced by 1, mean zero. No pair is asked twice. A call without an answer ends
        its sort: scores NaN, converged False, the call (two ids) in settings["failed"].
    raises : InputError for settings that are none
    """
    if not 0 <= gap <= 0.5 or beam_size < 1:
        raise InputError(
            f"cannot sort with gap={gap}, beam_size={beam_size}: expected a gap from 0 to 0.5, and a beam_size "
            "of at least 1"
        )
    settings = {"gap": gap, "beam_size": beam_size, "both_orders": both_orders, "seed": seed}
    side_by_side = _together([_search(k, ids, settings) for k, ids in enumerate(problems)])
    answers: Any = None
    while True:
        try:
            calls = side_by_side.send(answers)
        except StopIteration as end:
            rankings: list[Ranking] = end.value
            return rankings
        answers = answer([(k, i, j) for k, i, j in calls.tolist()])


def _start(ids: Sequence[str], seed: int) -> IntArray:
    rng = seeded_rng(seed, *sorted(ids))
    start: IntArray = np.argsort(np.array(ids))[rng.permutation(len(ids))]
    return start


def _search(problem: int, ids: Sequence[str], settings: Mapping[str, Any]) -> Generator[IntArray, FloatArray, Ranking]:
    """Yields calls (k, 3): the problem, first shown, second shown; is sent their log-probabilities (k, 3)."""
    games, n_rounds, both_orders = np.zeros(len(ids)), 0, settings["both_orders"]
    sort = _sort(_start(ids, settings["seed"]), settings["gap"], settings["beam_size"])

    def ranking(scores: FloatArray, **more: object) -> Ranking:
        found = {**settings, "n_calls": int(games.sum() / 2), "n_rounds": n_rounds, **more}
        return Ranking(tuple(ids), scores, games, "pairs", converged=not more, settings=found)

    pairs = next(sort)
    while True:
        calls = np.concatenate([pairs, pairs[:, ::-1]]) if both_orders else pairs
        log_probs = yield np.insert(calls, 0, problem, axis=1)
        missing = np.isnan(log_probs).any(axis=1)
        games += np.bincount(calls[~missing].ravel(), minlength=len(ids))
        n_rounds += 1
        if missing.any():
            return ranking(np.full(len(ids), np.nan), failed=tuple(ids[k] for k in calls[missing][0]))
        p = np.exp(log_probs[:, 0]) + np.exp(log_probs[:, 2]) / 2
        if both_orders:
            p = (p[: len(pairs)] + 1 - p[len(pairs) :]) / 2
        try:
            pairs = sort.send(p)
        except StopIteration as end:
            return ranking(np.argsort(end.value).astype(np.float64) - (len(ids) - 1) / 2)


def _together(searches: Sequence[Generator[IntArray, Any, Any]]) -> Generator[IntArray, FloatArray, list[Any]]:
    """Runs searches side by side: their wishes as one array, its answers dealt out by row; their results, in order."""
    results: list[Any] = [None] * len(searches)
    answers: list[Any] = [None] * len(searches)
    running: Sequence[int] = range(len(searches))
    while True:
        wanted: dict[int, IntArray] = {}
        for k in running:
            try:
                wanted[k] = searches[k].send(answers[k])
            except StopIteration as end:
                results[k] = end.value
        if not wanted:
            return results
        ends = np.cumsum([len(calls) for calls in wanted.values()])
        parts = np.split((yield np.concatenate(list(wanted.values()))), ends[:-1])
        answers = [None] * len(searches)
        for k, part in zip(wanted, parts, strict=True):
            answers[k] = part
        running = list(wanted)


def _sort(run: IntArray, gap: float, beam_size: int) -> Generator[IntArray, FloatArray, IntArray]:
    """Yields pairs (k, 2), is sent P(first is better) (k,), returns the run, worst first."""
    if len(run) < 2:
        return run
    half = len(run) // 2
    left, right = yield from _together([_sort(part, gap, beam_size) for part in (run[:half], run[half:])])
    return (yield from _merge(left, right, gap, beam_size))


def _merge(left: IntArray, right: IntArray, gap: float, beam_size: int) -> Generator[IntArray, FloatArray, IntArray]:
    """All paths have taken `step` texts: one that took a from the left has taken step - a from the right. So two heads
    meet in one step only, and what several paths ask there is asked once."""
    taken = np.zeros(1, dtype=np.int64)  # from the left, by each path
    scores = np.zeros(1)
    steps: list[tuple[IntArray, npt.NDArray[np.bool_]]] = []  # each path's parent, and whether it took the left head
    for step in range(len(left) + len(right)):
        other = step - taken
        asks = (taken < len(left)) & (other < len(right))
        p = np.full(len(taken), np.nan)  # P(left head is better)
        if asks.any():
            heads, head = np.unique(taken[asks], return_inverse=True)
            p[asks] = (yield np.stack([left[heads], right[step - heads]], axis=1))[head]
        takes = np.stack(  # (paths, 2): may take the left head, the right head
            [np.where(asks, p <= 0.5 + gap, taken < len(left)), np.where(asks, p >= 0.5 - gap, other < len(right))],
            axis=1,
        )
        gain = np.log(np.maximum(np.stack([1 - p, p], axis=1), _FLOOR))
        gain = (gain - scores[:, None]) / (step + 1)  # of a mean
        after = scores[:, None] + np.where(asks[:, None], gain, 0.0)
        parent, side = np.nonzero(takes)
        keep = np.argsort(-after[parent, side], kind="stable")[:beam_size]
        parent, side, scores = parent[keep], side[keep], after[parent, side][keep]
        taken = taken[parent] + (side == 0)
        steps.append((parent, side == 0))
    path, from_left = 0, np.zeros(len(steps), dtype=np.bool_)
    for step in range(len(steps) - 1, -1, -1):
        parent, took_left = steps[step]
        from_left[step], path = took_left[path], parent[path]
    run = np.empty(len(steps), dtype=np.int64)
    run[from_left], run[~from_left] = left, right
    return run


# ------------------------------------------------------------------------------------------------- the method


@dataclass(frozen=True, slots=True)
class Sorted(Compared):
    """A Compared that asks as it sorts. selection : says the seed and the orders"""

    gap: float = 0.0
    beam_size: int = 1

    def rank(self, judge: PairJudge) -> tuple[ComparisonSets, Rankings]:
        ids = {problem.group: problem.ids for problem in judge.problems}
        both_orders, seed = self.selection.both_orders, self.selection.seed
        orders = merge_sort(
            [*ids.values()], judge, gap=self.gap, beam_size=self.beam_size, both_orders=both_orders, seed=seed
        )
        found = {group: _reason(order) or order for group, order in zip(ids, orders, strict=True)}
        sets = ComparisonSets(GROUPS, dict(zip(ids, judge.comparisons(), strict=True)), failures=tuple(judge.failures))
        return sets, Rankings(GROUPS, found, ids, judge.signature)


def _reason(order: Ranking) -> str:
    """Why there is no order, or ""."""
    one, other = order.settings.get("failed", ("", ""))
    return f"the sort needs an answer about {one!r} and {other!r}, and there is none" if one else ""


def pairs_beam(
    *,
    gap: Annotated[float, Span(0, 0.5)] = 0.1,
    beam: Count = 1000,
    protocol: Protocol = "choose",
    orders: Literal["one", "both"] = "one",
    seed: Seed = 0,
    pool: bool = False,
    min_mass: Share = 0.01,
    max_unreported: Share = 0.02,
) -> Sorted:
    """PairS."""
    asking = Asking(protocol, min_mass=min_mass, max_unreported=max_unreported)
    selection = Selection(orders=orders, seed=seed)
    about = {"selection": sort_of(selection), "method": "pairs", "gap": f"{gap:g}", "beam": beam}
    return Sorted(selection, "pairs", about, asking, pool=pool, gap=gap, beam_size=beam)


def sort_of(selection: Selection) -> str:
    """For signatures."""
    return str(selection).replace("all", "sort", 1)


PAIRS_BEAM = MethodKind(pairs_beam, "PairS: a sort that asks as it goes", ("judge",))
