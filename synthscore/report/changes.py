"""Two runs -> one, whose sections show both, and what changes from the first to the second. No files, no page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..evaluation.correlation import correlation
from ..evaluation.intervals import mean_over_contexts
from ..signature import Signature
from ..thresholds.rules import MinScore
from ..types import Score
from .agreement import Agreements, Figure
from .numbers import ScoreGroup, floats, groups
from .read import Run

MOVED = 5  # texts to read


def side_by_side(one: Run, other: Run) -> Run:
    """Both runs as one: files, methods and what was left out are named after their run.

    Of a text that both have, and of ladders and ratings, the first run's are shown.
    """
    if one.name == other.name:
        one, other = replace(one, name="A"), replace(other, name="B")
    both = Run(
        name=f"{one.name} and {other.name}",
        texts=other.texts | one.texts,
        systems=other.systems | one.systems,
        references=one.references or other.references,
        ratings=one.ratings or other.ratings,
        sides=(one, other),
    )
    if one.evaluation or other.evaluation:
        both.evaluation = Agreements()
    for run in both.sides:
        several = len(run.scores) > 1
        for name, rows in run.scores.items():
            both.scores[f"{run.name}: {name}" if several else run.name] = rows
        for file in run.files:
            both.files.append(file._replace(name=f"{run.name}: {file.name}"))
        both.unused += _named_after(run, run.unused)
        both.left_out += _named_after(run, run.left_out)
        if both.evaluation and run.evaluation:
            _add_evaluation(both.evaluation, run, run.evaluation)
    return both


def _named_after(run: Run, lines: Iterable[str]) -> list[str]:
    return [f"{run.name}: {line}" for line in lines]


def _add_evaluation(both: Agreements, run: Run, evaluation: Agreements) -> None:
    for name in ("figures", "means", "differences"):
        figures: list[Figure] = getattr(evaluation, name)
        getattr(both, name).extend(figure._replace(method=f"{run.name}: {figure.method}") for figure in figures)
    both.ceilings |= evaluation.ceilings
    both.lines += _named_after(run, evaluation.lines)
    against = dict.fromkeys(filter(None, (both.against, evaluation.against)))
    both.against = " and ".join(against)


class RunChange(NamedTuple):
    """From one group to the same of the other run, over the n texts that both score.

    name : attribute, and method where there are several. n_alone : texts that only one of them scores. means : of both
    difference : its mean and 95 % interval over contexts, NaN where the two are on different scales. rank : Spearman's
    crossed : texts that reach min_score only in the other run, and only in the first; None without one
    moved : of the texts that moved most, the scores in both
    """

    name: str
    n: int
    n_alone: int
    moved: list[tuple[Score, Score]]
    means: tuple[float, float]
    difference: tuple[float, float, float]
    rank: float
    crossed: tuple[int, int] | None


def changes(run: Run, min_score: float | None = None) -> list[RunChange]:
    """Groups of the same attribute, and of the same method where a run has several."""
    if not run.sides:
        return []
    before, after = (_by_name(side, min_score) for side in run.sides)
    return [_change(name, before[name], after[name]) for name in before if name in after]


def _by_name(run: Run, min_score: float | None) -> dict[str, ScoreGroup]:
    found = groups(run, min_score)
    if len(run.scores) > 1:
        return {f"{group.attribute}, {group.name}": group for group in found}
    return {group.attribute: group for group in found}


def _scored_by_id(group: ScoreGroup) -> dict[str, Score]:
    return {score.id: score for score, _ in group.rows if score.value is not None}


def _change(name: str, one: ScoreGroup, other: ScoreGroup) -> RunChange:
    first, second = _scored_by_id(one), _scored_by_id(other)
    pairs = [(score, second[text_id]) for text_id, score in first.items() if text_id in second]
    before = floats(score.value for score, _ in pairs)
    after = floats(score.value for _, score in pairs)
    moved = np.argsort(-abs(after - before), kind="stable")
    means = math.nan, math.nan
    if pairs:
        means = float(before.mean()), float(after.mean())
    difference = math.nan, math.nan, math.nan
    if pairs and (one.n_rungs, one.scale) == (other.n_rungs, other.scale):
        difference = mean_over_contexts(after - before, [score.context_id for score, _ in pairs])[:3]
    crossed = None
    if one.min_score is not None:
        rule = MinScore(one.min_score)
        kept = [tuple(rule.decide(score)[0] == "kept" for score in pair) for pair in pairs]
        crossed = kept.count((False, True)), kept.count((True, False))
    return RunChange(
        name=name,
        n=len(pairs),
        n_alone=len(first) + len(second) - 2 * len(pairs),
        moved=[pairs[i] for i in moved[:MOVED]],
        means=means,
        difference=difference,
        rank=correlation(before, after),
        crossed=crossed,
    )


def signature_changes(run: Run) -> dict[str, tuple[str | None, str | None]]:
    """Part of the signatures -> what it is in each run, where that differs."""
    if not run.sides:
        return {}
    before, after = map(_signature, run.sides)
    return before.differs(after)


def _signature(run: Run) -> Signature:
    return Signature.merged(row.signature for row in run.rows if row.signature.parts)
