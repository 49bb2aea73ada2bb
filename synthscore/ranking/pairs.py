"""PairS: an order by merge sort that asks for comparisons as it goes. Pure NumPy; the judge is the caller's.

A search is a generator: it yields the calls that it needs next and is sent the answers. What can be asked at the same
time is one batch: all merges of one level, all paths of a beam, and, in `rank_many`, all problems.

    search = pairs_search(ids)
    calls = next(search)                 # int64, shape (k, 2): indices, first shown first
    calls = search.send(probabilities)   # of these calls; StopIteration.value is the result
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..types import FloatArray, IntArray
from .comparisons import Comparisons
from .result import Ranking

_FLOOR = 1e-9  # of a probability, before its log is taken


class Sorted(NamedTuple):
    """An order, and the comparisons that were asked for it."""

    ranking: Ranking
    comparisons: Comparisons


def pairs_search(
    ids: Sequence[str],
    *,
    gap: float = 0.0,
    beam_size: int = 1,
    score: Literal["mean", "sum"] = "mean",
    calibrate: bool = False,
    rng: np.random.Generator | None = None,
) -> Generator[IntArray, npt.ArrayLike, Sorted]:
    """Merge sort, worst first, each merge a beam search over the ways to interleave its two runs.

    With a and b the worst texts left in the two runs and p = P(a is better), a path goes on with b (if p >= 1/2 - gap),
    with a (if p <= 1/2 + gap), or with both. It scores log p for taking b, log(1 - p) for taking a.

    gap : how far from 1/2 an answer must be to be believed; 0 with beam_size 1 is PairS-greedy, at most
        N ceil(log2 N) pairs. PairS-beam: 0.1 to 0.2 with 1000 paths or more.
    score : "mean" over a path's choices, as published, or "sum". With a gap, either may prefer a false order even if
        every answer is right: paths have not answered the same questions.
    calibrate : ask both orders and average
    rng : sorts from a random order, which decides what is asked and what is shown first; None: as given
    answers : shape (k,), P(first is better); or (k, 3), log-probabilities as in Comparisons. NaN for a call without an
        answer, which ends the search: scores NaN, converged False, the call (two ids) in settings["failed"]
    returns : scores are places, evenly spaced by 1, mean zero. No pair is asked twice. settings has n_calls, n_rounds.
    raises : InputError for an answer that is no probability, or settings that are none
    source : arXiv:2403.16950
    """
    if len(ids) < 2:
        raise InputError(f"cannot sort {len(ids)} candidates, expected at least 2", value=len(ids))
    if not 0 <= gap <= 0.5 or beam_size < 1 or score not in ("mean", "sum"):
        raise InputError(
            f"cannot sort with gap={gap}, beam_size={beam_size}, score={score!r}: expected a gap from 0 to 0.5, a "
            'beam_size of at least 1, and the score "mean" or "sum"'
        )
    settings: dict[str, Any] = {"gap": gap, "beam_size": beam_size, "score": score, "calibrate": calibrate}
    asked: list[IntArray] = []
    answered: list[FloatArray] = []
    ascending = None
    sort = _sort(np.arange(len(ids)) if rng is None else rng.permutation(len(ids)), gap, beam_size, score == "mean")
    pairs = next(sort)
    while ascending is None and "failed" not in settings:
        calls = np.concatenate([pairs, pairs[:, ::-1]]) if calibrate else pairs
        log_probs = _log_probs((yield calls), len(calls))
        missing = np.isnan(log_probs).any(axis=1)
        asked.append(calls[~missing])
        answered.append(log_probs[~missing])
        if missing.any():
            first, second = calls[missing][0]
            settings["failed"] = (ids[first], ids[second])
            continue
        p = np.exp(log_probs[:, 0]) + np.exp(log_probs[:, 2]) / 2
        if calibrate:
            p = (p[: len(pairs)] + 1 - p[len(pairs) :]) / 2
        try:
            pairs = sort.send(p)
        except StopIteration as end:
            ascending = end.value
    calls = np.concatenate(asked)
    comparisons = Comparisons(tuple(ids), calls[:, 0], calls[:, 1], np.concatenate(answered), np.ones(len(calls)))
    scores = np.full(len(ids), np.nan)
    if ascending is not None:
        scores[ascending] = np.arange(len(ids)) - (len(ids) - 1) / 2
    ranking = Ranking(
        comparisons.ids,
        scores,
        np.full(len(ids), np.nan),
        np.bincount(calls.ravel(), minlength=len(ids)).astype(np.float64),
        "pairs",
        converged=ascending is not None,
        settings=settings | {"n_calls": len(calls), "n_rounds": len(asked)},
    )
    return Sorted(ranking, comparisons)


def rank_many(
    problems: Sequence[Sequence[str]],
    ask: Callable[[list[tuple[int, int, int]]], npt.ArrayLike],
    *,
    gap: float = 0.0,
    beam_size: int = 1,
    score: Literal["mean", "sum"] = "mean",
    calibrate: bool = False,
    rng: np.random.Generator | None = None,
) -> list[Sorted]:
    """Many searches side by side: `ask` is called once a round, with what all of them need next.

    problems : the candidates' ids of each
    ask : [(problem, first, second), ...] -> answers as in `pairs_search`, in the same order
    raises : InputError as `pairs_search`; ValueError if `ask` gives another number of answers
    """

    def tagged(problem: int, ids: Sequence[str]) -> Generator[IntArray, FloatArray, Sorted]:
        search = pairs_search(ids, gap=gap, beam_size=beam_size, score=score, calibrate=calibrate, rng=rng)
        calls = next(search)
        while True:
            answers = yield np.insert(calls, 0, problem, axis=1)
            try:
                calls = search.send(answers)
            except StopIteration as end:
                result: Sorted = end.value
                return result

    side_by_side = _together([tagged(problem, ids) for problem, ids in enumerate(problems)])
    answers: Any = None
    while True:
        try:
            calls = side_by_side.send(answers)
        except StopIteration as end:
            results: list[Sorted] = end.value
            return results
        answers = np.asarray(ask([(k, i, j) for k, i, j in calls.tolist()]), dtype=np.float64)
        if len(answers) != len(calls):
            raise ValueError(f"{len(answers)} answers to {len(calls)} calls, expected as many")


def _log_probs(answers: npt.ArrayLike, n: int) -> FloatArray:
    """Answers of either form as log-probabilities (n, 3); NaN where there is none."""
    given = np.asarray(answers, dtype=np.float64)
    if given.shape == (n, 3):
        return given
    if given.shape != (n,):
        raise ValueError(f"answers have shape {given.shape}, expected ({n},) or ({n}, 3)")
    if (bad := (given < 0) | (given > 1)).any():
        raise InputError(f"an answer is {given[bad][0]}, expected a probability from 0 to 1", value=given[bad][0])
    with np.errstate(divide="ignore"):
        return np.stack([np.log(given), np.log1p(-given), np.where(np.isnan(given), np.nan, -np.inf)], axis=1)


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


def _sort(run: IntArray, gap: float, beam_size: int, mean: bool) -> Generator[IntArray, FloatArray, IntArray]:
    """Yields pairs (k, 2), is sent P(first is better) (k,), returns the run, worst first."""
    if len(run) < 2:
        return run
    half = len(run) // 2
    left, right = yield from _together([_sort(part, gap, beam_size, mean) for part in (run[:half], run[half:])])
    return (yield from _merge(left, right, gap, beam_size, mean))


def _merge(
    left: IntArray, right: IntArray, gap: float, beam_size: int, mean: bool
) -> Generator[IntArray, FloatArray, IntArray]:
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
            heads, place = np.unique(taken[asks], return_inverse=True)
            p[asks] = (yield np.stack([left[heads], right[step - heads]], axis=1))[place]
        takes = np.stack(  # (paths, 2): may take the left head, the right head
            [np.where(asks, p <= 0.5 + gap, taken < len(left)), np.where(asks, p >= 0.5 - gap, other < len(right))],
            axis=1,
        )
        gain = np.log(np.maximum(np.stack([1 - p, p], axis=1), _FLOOR))
        if mean:
            gain = (gain - scores[:, None]) / (step + 1)
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
