"""Scores of one file on one attribute -> which system is best, and which ones cannot be told apart from it.

Systems are compared inside contexts: what makes a context hard for all of them cancels. No files, no page.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

import numpy as np

from ..evaluation.intervals import ContextMean, holm, least_p_value, mean_over_contexts, mean_score, p_value
from ..types import IntArray, grouped
from .numbers import ScoreGroup

LEVEL = 0.05
"""A difference whose p-value is below this is told from chance."""


class System(NamedTuple):
    """means : of its scored texts on each attribute; NaN where none is scored"""

    name: str
    n_texts: int
    n_unscored: int
    means: Sequence[ContextMean]

    @property
    def mean(self) -> float:
        """Over attributes."""
        return fmean(mean.value for mean in self.means)


class Rival(NamedTuple):
    """A system that is not the best. below : how far its scores are below those of the best, mean over the contexts
    that have scored texts of both; None where no context has. p : of that difference, corrected for the number of
    systems (Holm); NaN where nothing is known"""

    name: str
    below: ContextMean | None
    p: float

    @property
    def apart(self) -> bool:
        """Whether the difference is told from chance."""
        return self.below is not None and self.below.value > 0 and self.p < LEVEL


@dataclass(frozen=True)
class Standing:
    """The systems of one group: the one with the highest mean, and the others, the nearest first.

    n_texts, n_scored, n_contexts : of all its systems
    """

    group: ScoreGroup
    best: str
    mean: float
    rivals: tuple[Rival, ...]
    n_texts: int
    n_scored: int
    n_contexts: int

    @property
    def alike(self) -> list[Rival]:
        """Those that cannot be told apart from the best."""
        return [rival for rival in self.rivals if not rival.apart]

    @property
    def n_shared(self) -> int:
        """The most contexts that have scored texts of the best and of one other."""
        return max((rival.below.n_contexts for rival in self.rivals if rival.below), default=0)

    @property
    def least_p(self) -> float:
        """Below this no rival's p can be, whatever the scores in the contexts that there are."""
        n_compared = sum(rival.below is not None for rival in self.rivals)
        return min(1.0, n_compared * least_p_value(self.n_shared)) if n_compared else math.nan


@dataclass(frozen=True)
class Comparison:
    """The systems of one file or method. systems : the highest mean over attributes first
    standings : of each attribute on which a system has scored texts"""

    groups: Sequence[ScoreGroup]
    systems: Sequence[System]
    standings: Sequence[Standing]

    @property
    def name(self) -> str:
        return self.groups[0].name

    def sign(self, system: str, attribute: str) -> str:
        """ "best"; "alike", where it cannot be told apart from the best; or ""."""
        for standing in self.standings:
            if standing.group.attribute == attribute:
                alike = any(rival.name == system for rival in standing.alike)
                return "best" if standing.best == system else "alike" if alike else ""
        return ""


def compare_systems(found: Sequence[ScoreGroup], systems: Mapping[str, str]) -> list[Comparison]:
    """Of each file or method; without those that know of fewer than two systems. systems : id -> name"""
    comparisons = []
    for groups in grouped((group.name, group) for group in found).values():
        written_by = [np.array([systems.get(score.id, "") for score, _ in group.rows]) for group in groups]
        names = sorted({*np.concatenate(written_by).tolist()} - {""})
        if len(names) < 2:
            continue
        rows = []
        for name in names:
            own_rows = [np.flatnonzero(by == name) for by in written_by]
            rows.append(_system(name, groups, own_rows))
        rows.sort(key=lambda one: (math.isnan(one.mean), -one.mean))
        standings = [_standing(group, by) for group, by in zip(groups, written_by, strict=True)]
        comparisons.append(Comparison(groups, rows, [standing for standing in standings if standing is not None]))
    return comparisons


def _system(name: str, found: Sequence[ScoreGroup], own_rows: Sequence[IntArray]) -> System:
    """own_rows : of each group, the places of the system's rows"""
    means = [
        mean_score(group.values[own], [group.rows[row].score.context_id for row in own.tolist()])
        for group, own in zip(found, own_rows, strict=True)
    ]
    n_unscored = 0
    for group, own in zip(found, own_rows, strict=True):
        n_unscored += int((~group.scored[own]).sum())
    return System(name, n_texts=max(map(len, own_rows)), n_unscored=n_unscored, means=means)


def _means(values: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: fmean(numbers) for name, numbers in values.items()}


def _standing(group: ScoreGroup, written_by: np.ndarray) -> Standing | None:
    """None where no text of a system is scored. written_by : the system of each row, "" where none is known"""
    values: dict[str, list[float]] = {}
    by_context: dict[str, dict[str, list[float]]] = {}
    for (score, _), name in zip(group.rows, written_by.tolist(), strict=True):
        if name and score.value is not None:
            values.setdefault(name, []).append(score.value)
            if score.context_id:
                by_context.setdefault(name, {}).setdefault(score.context_id, []).append(score.value)
    if not values:
        return None
    means = _means(values)
    best = min(means, key=lambda name: (-means[name], name))
    contexts = {name: _means(values_by_context) for name, values_by_context in by_context.items()}
    others = sorted(means.keys() - {best})
    gaps = [_below(contexts.get(best, {}), contexts.get(name, {})) for name in others]
    corrected = holm(np.array([math.nan if gap is None else _p_value(gap) for gap in gaps]))
    rivals = [Rival(name, gap, float(p)) for name, gap, p in zip(others, gaps, corrected, strict=True)]
    return Standing(
        group=group,
        best=best,
        mean=means[best],
        rivals=tuple(sorted(rivals, key=lambda rival: (-means[rival.name], rival.name))),
        n_texts=int((written_by != "").sum()),
        n_scored=sum(map(len, values.values())),
        n_contexts=len({context for of in contexts.values() for context in of}),
    )


def _below(best: Mapping[str, float], other: Mapping[str, float]) -> ContextMean | None:
    """best, other : context -> the mean score of the system's texts there"""
    both = sorted(best.keys() & other.keys())
    if not both:
        return None
    return mean_over_contexts(np.array([best[context] - other[context] for context in both]), both)


def _p_value(gap: ContextMean) -> float:
    return math.nan if math.isnan(gap.stderr) else p_value(gap.value, gap.stderr, gap.n_contexts)
