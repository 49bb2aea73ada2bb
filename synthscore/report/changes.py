"""Two runs -> one, whose sections show both, and what changes from the first to the second. No files, no page."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

import numpy as np

from ..evaluation.correlation import correlation
from ..evaluation.intervals import index, spread
from ..signature import Signature
from ..thresholds.rules import MinScore
from ..types import Score
from .agreement import Agreements
from .numbers import Group, floats, groups
from .read import File, Run

T = TypeVar("T")
MOVED = 5  # texts to read


def side_by_side(one: Run, other: Run) -> Run:
    """Both runs as one: files, methods and what was left out are named after their run; drift is of one run alone.

    Of a text that both have, and of ladders and ratings, the first run's are shown.
    """
    runs = (one, other) if one.name != other.name else (replace(one, name="A"), replace(other, name="B"))
    return Run(
        " and ".join(run.name for run in runs),
        {name: rows for run in runs for name, rows in _named(run, run.scores).items()},
        other.texts | one.texts,
        other.systems | one.systems,
        one.references or other.references,
        one.ratings or other.ratings,
        _evaluations(runs) if one.evaluation or other.evaluation else None,
        files=[File(f"{run.name}: {file.name}", *file[1:]) for run in runs for file in run.files],
        unused=[f"{run.name}: {name}" for run in runs for name in run.unused],
        left_out=[f"{run.name}: {line}" for run in runs for line in run.left_out],
        sides=runs,
    )


def _named(run: Run, values: Mapping[str, T]) -> dict[str, T]:
    """By the name of the run, before that of the method where there are several."""
    return {f"{run.name}: {name}" if len(values) > 1 else run.name: value for name, value in values.items()}


def _evaluations(runs: tuple[Run, ...]) -> Agreements:
    both = Agreements()
    for run in runs:
        if run.evaluation:
            for name in ("figures", "means", "differences"):
                own = getattr(run.evaluation, name)
                getattr(both, name).extend(each._replace(method=f"{run.name}: {each.method}") for each in own)
            both.ceilings |= run.evaluation.ceilings
            both.lines += [f"{run.name}: {line}" for line in run.evaluation.lines]
            both.against = " and ".join(dict.fromkeys(filter(None, (both.against, run.evaluation.against))))
    return both


class Change(NamedTuple):
    """From one group to the same of the other run, over the n texts that both score.

    name : attribute, and method where there are several. n_alone : texts that only one of them scores. means : of both
    difference : its mean and 95 % interval over contexts, NaN where the two are on different scales. rank : Spearman's
    crossed : texts that reach min_score only in the other run, and only in the first; None without one
    moved : of the texts that moved most, the scores in both
    """

    name: str
    n: int
    n_alone: int
    means: tuple[float, float]
    difference: tuple[float, float, float]
    rank: float
    crossed: tuple[int, int] | None
    moved: list[tuple[Score, Score]]


def changes(run: Run, min_score: float | None = None) -> list[Change]:
    """Groups of the same attribute, and of the same method where a run has several."""
    one, other = (
        {
            (f", {group.name}" if len(side.scores) > 1 else "", group.attribute): group
            for group in groups(side, min_score)
        }
        for side in run.sides or (Run(""), Run(""))
    )
    return [_change(own[1] + own[0], one[own], other[own]) for own in one if own in other]


def _change(name: str, one: Group, other: Group) -> Change:
    first, second = ({s.id: s for s, _ in group.rows if s.value is not None} for group in (one, other))
    pairs = [(score, second[text_id]) for text_id, score in first.items() if text_id in second]
    before, after = floats(score.value for score, _ in pairs), floats(score.value for _, score in pairs)
    moved = sorted(range(len(pairs)), key=lambda i: -abs(after[i] - before[i]))
    crossed = None
    if one.min_score is not None:
        rule = MinScore(one.min_score)
        kept = [tuple(rule.decide(score)[0] == "kept" for score in pair) for pair in pairs]
        crossed = kept.count((False, True)), kept.count((True, False))
    return Change(
        name, len(pairs), len(first) + len(second) - 2 * len(pairs),
        (float(before.mean()), float(after.mean())) if pairs else (math.nan, math.nan),
        _difference(pairs) if one.n_rungs == other.n_rungs else (math.nan,) * 3,
        correlation(before, after) if len(pairs) > 1 else math.nan, crossed, [pairs[i] for i in moved[:MOVED]],
    )  # fmt: skip


def _difference(pairs: list[tuple[Score, Score]]) -> tuple[float, float, float]:
    """Mean of second less first, and its interval with each context left out in turn."""
    if not pairs:
        return (math.nan,) * 3
    more = np.array([(after.value or 0.0) - (before.value or 0.0) for before, after in pairs])
    context = index([score.context_id for score, _ in pairs])
    left = len(more) - np.bincount(context)
    without = np.full(len(left), np.nan)
    np.divide(more.sum() - np.bincount(context, more), left, out=without, where=left > 0)
    far = 1e4 * (1 + float(abs(more).max()))  # scores have no ends
    found = spread(float(more.mean()), without, (-far, far))
    low, high = (math.nan if end is None else end for end in (found.low, found.high))
    return float(more.mean()), low, high


def signature_changes(run: Run) -> dict[str, tuple[str | None, str | None]]:
    """Part of the signatures -> what it is in each run, where that differs."""
    if not run.sides:
        return {}
    merged = [Signature.merged(row.signature for row in side.rows if row.signature.parts) for side in run.sides]
    return merged[0].differs(merged[1])
