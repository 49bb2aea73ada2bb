"""A run -> the numbers of each section of its report. No files, no page.

A *group* is the scores of one file, or of one method, on one attribute.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..errors import alike
from ..evaluation.agreement import agreement
from ..evaluation.correlation import correlation
from ..thresholds.rules import MinScore
from ..types import BoolArray, FloatArray, Ladder, Score, Target
from .read import Run, Scored
from .verdicts import RungVerdicts, verdicts_by_rung


class Decisions(NamedTuple):
    """What a threshold does: texts that reach it, that may or may not, that do not, and that have no score.

    An unscored text that its limits decide is kept or below.
    """

    threshold: float
    kept: int
    undecided: int
    below: int
    unscored: int


@dataclass(frozen=True, eq=False)
class Group:
    """name : of the file or method. n_rungs : of the scale that the scores are on; None: it is not a scale of rungs.

    min_score : a threshold that means something on this scale
    """

    name: str
    attribute: str
    rows: tuple[Scored, ...]
    n_rungs: int | None
    min_score: float | None = None

    @cached_property
    def values(self) -> FloatArray:
        """Shape (n,), NaN where unscored."""
        return floats(score.value for score, _ in self.rows)

    @cached_property
    def stderr(self) -> FloatArray:
        """Shape (n,), NaN where a score has none."""
        return floats(score.stderr for score, _ in self.rows)

    @cached_property
    def scored(self) -> BoolArray:
        return ~np.isnan(self.values)

    @cached_property
    def count(self) -> Counter[str]:
        """Rows by status."""
        return Counter(score.status for score, _ in self.rows)

    @cached_property
    def by_rung(self) -> list[RungVerdicts]:
        """Verdicts against each level, worst first; empty without verdicts."""
        return verdicts_by_rung(self.rows)

    @cached_property
    def quarters(self) -> list[float]:
        """What a quarter of the scores is below, half of them, and three quarters; NaN without scores."""
        known = self.values[self.scored]
        return np.quantile(known, (0.25, 0.5, 0.75)).tolist() if len(known) else [math.nan] * 3

    @property
    def span(self) -> tuple[float, float]:
        """The least and the greatest score: that there are, or that the scale of rungs has."""
        known = self.values[self.scored] if self.scored.any() else np.zeros(1)
        low, high = float(known.min()), float(known.max())
        return (low, high) if self.n_rungs is None else (min(low, 0.0), max(high, rung_top(self.n_rungs)))

    def decide(self, threshold: float) -> Decisions:
        """As `synthscore filter --min-score` does, but that what is undecided and has no score is unscored."""
        rule = MinScore(threshold)
        decided = np.array([rule.decide(score)[0] for score, _ in self.rows])
        kept, unsure, below = (decided == name for name in ("kept", "unsure", "dropped"))
        numbers = (kept, unsure & self.scored, below, unsure & ~self.scored)
        return Decisions(threshold, *(int(rows.sum()) for rows in numbers))

    @cached_property
    def chosen(self) -> Decisions | None:
        return None if self.min_score is None else self.decide(self.min_score)

    @cached_property
    def thresholds(self) -> list[Decisions]:
        """At every half rung, or, on a scale that has no rungs, at every tenth of the texts; and at min_score."""
        if self.n_rungs is None:
            at = np.quantile(self.values[self.scored], np.arange(1, 10) / 10)
        else:
            step = 0.5 if self.n_rungs <= 12 else self.n_rungs / 24
            at = np.arange(step, self.n_rungs + step / 2, step)
        own = set() if self.min_score is None else {self.min_score}
        return [self.decide(threshold) for threshold in sorted({*at.tolist(), *own})]


def rung_top(n_rungs: int) -> float:
    """The score of a text that is better than all rungs."""
    return math.sqrt(n_rungs * (n_rungs + 1))


def groups(run: Run, min_score: float | None = None) -> list[Group]:
    """Those on scales of rungs first.

    min_score : a threshold for the groups on scales of rungs, or, where there are none, for all
    """
    found: dict[tuple[str, str], list[Scored]] = {}
    for name, rows in run.scores.items():
        for row in rows:
            found.setdefault((name, row.score.attribute), []).append(row)
    sizes = {
        key: {scale_of(row, run.ladder(row)) for row in rows if row.score.value is not None}
        for key, rows in found.items()
    }
    n_rungs = {key: own.pop() if len(own) == 1 else None for key, own in sizes.items()}
    on_rungs = any(n_rungs.values())
    listed = [
        Group(*key, tuple(rows), n_rungs[key], min_score if n_rungs[key] or not on_rungs else None)
        for key, rows in found.items()
    ]
    return sorted(listed, key=lambda group: group.n_rungs is None)


def scale_of(row: Scored, ladder: Ladder | None) -> int | None:
    """How many rungs the scale of a score has; None where it is on no scale of rungs.

    Anchored scores say so. The paper's are sqrt(raw + N(N+1)/2), where raw = unit N(N+1)/2, in as many digits as they
    were written. Of others the signature says that they are such scores, and the ladder, how many rungs it has.
    """
    n_rungs, raw, unit = (row.score.details.get(name) for name in ("n_rungs", "raw", "unit"))
    scoring = row.part("scoring")
    if n_rungs is not None:
        return round(n_rungs) if n_rungs >= 2 else None
    if row.score.value is not None and raw is not None and unit is not None:
        bound = row.score.value**2 - raw
        found = round((math.sqrt(1 + 8 * bound) - 1) / 2) if 0 < bound < 1e6 else 0
        exact = found * (found + 1) / 2
        fits = abs(bound - exact) <= 0.02 * exact and abs(raw - unit * exact) <= 0.02 * exact
        return found if fits and found >= 2 else None
    if ladder and re.match("paper|anchored", scoring) and "rung_values" not in scoring:
        return ladder.n_rungs
    return None


# ------------------------------------------------------------------------------------------------- systems


class System(NamedTuple):
    """means, stderr : of its scored texts on each attribute; NaN without any, or of one text"""

    name: str
    n_texts: int
    n_unscored: int
    means: FloatArray
    stderr: FloatArray

    @property
    def mean(self) -> float:
        """Over attributes."""
        return float(self.means.mean())


def by_system(found: Sequence[Group], systems: Mapping[str, str]) -> list[tuple[list[Group], list[System]]]:
    """For each file or method, its groups and its systems, the best first; without those that know of fewer than two.

    systems : id -> name
    """
    by_name: dict[str, list[Group]] = {}
    for group in found:
        by_name.setdefault(group.name, []).append(group)
    tables = []
    for own in by_name.values():
        of = [np.array([systems.get(score.id, "") for score, _ in group.rows]) for group in own]
        names = sorted(set(np.concatenate(of).tolist()) - {""})
        rows = [_system(name, [g.values[at == name] for g, at in zip(own, of, strict=True)]) for name in names]
        tables.append((own, sorted(rows, key=lambda one: (math.isnan(one.mean), -one.mean))))
    return [(own, rows) for own, rows in tables if len(rows) > 1]


def _system(name: str, known: Sequence[FloatArray]) -> System:
    scored = [values[~np.isnan(values)] for values in known]
    means = [values.mean() if len(values) else np.nan for values in scored]
    errors = [values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else np.nan for values in scored]
    n_unscored = sum(map(len, known)) - sum(map(len, scored))
    return System(name, max(map(len, known)), n_unscored, np.array(means), np.array(errors))


# ------------------------------------------------------------------------------------------------- mass, length


def masses(run: Run) -> list[tuple[float, str, Score]]:
    """Label mass, file or method, and score, of each that has a mass; the lowest first."""
    known = [
        (mass, name, score)
        for name, rows in run.scores.items()
        for score, _ in rows
        if (mass := score.details.get("label_mass")) is not None
    ]
    return sorted(known, key=lambda one: one[0])


@dataclass(frozen=True, slots=True, eq=False)
class LengthEffect:
    """Scores against words.

    bins : (median length, median score) of up to eight parts of all texts, about equally many in each
    pooled, inside : Spearman's correlation over all texts, and inside contexts (mean)
    """

    bins: tuple[tuple[float, float], ...]
    pooled: float
    inside: float


def length_effect(group: Group, texts: Mapping[str, Target]) -> LengthEffect | None:
    """None where fewer than three scored texts can be read."""
    known = [score for score, _ in group.rows if score.value is not None and score.id in texts]
    if len(known) < 3:
        return None
    words = np.array([len(texts[score.id].text.split()) for score in known])
    values = floats(score.value for score in known)
    edges = np.quantile(words, np.linspace(0, 1, max(1, min(8, len(known) // 5)) + 1)[1:-1])
    part = np.searchsorted(edges, words)  # equal lengths stay together
    bins = [(float(np.median(words[part == k])), float(np.median(values[part == k]))) for k in np.unique(part)]
    inside = agreement(values, words, [score.context_id for score in known]).value
    return LengthEffect(tuple(bins), correlation(values, words), inside)


# ------------------------------------------------------------------------------------------------- failures


class Failure(NamedTuple):
    """Rows that failed for one reason. ids : the first few"""

    name: str
    status: str
    n: int
    reason: str
    ids: tuple[str, ...]


def failures(run: Run) -> list[Failure]:
    """Reasons of rows that are not whole, the most frequent first; those alike but for names and numbers are one.

    A row that lacks several rungs counts once for each different reason.
    """
    found: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for name, rows in run.scores.items():
        for score, _ in rows:
            if score.reason or score.status != "ok":
                reasons = {alike(reason): reason for reason in score.reasons}
                for kind, reason in reasons.items():
                    found.setdefault((name, score.status, kind), []).append((score.id, reason))
    listed = [
        Failure(name, status, len(rows), rows[0][1], tuple(dict.fromkeys(own for own, _ in rows))[:5])
        for (name, status, _), rows in found.items()
    ]
    return sorted(listed, key=lambda failure: -failure.n)


def floats(values: Iterable[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
