"""A run -> the numbers of each section of its report. No files, no page.

A *group* is the scores of one file, or of one method, on one attribute.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..errors import alike
from ..evaluation.agreement import agreement
from ..evaluation.correlation import correlation
from ..io.scores import one_scale
from ..scoring.paper import rung_top
from ..thresholds.rules import MinScore
from ..types import BoolArray, FloatArray, Score, Target
from .read import Run, ScoreRow
from .verdicts import MeanVerdicts, verdicts_by_rung


class ThresholdCounts(NamedTuple):
    """What a threshold does: texts that reach it, that may or may not, and that do not.

    An unscored text that its limits decide is kept or below; another is none of these.
    """

    threshold: float
    kept: int
    undecided: int
    below: int


@dataclass(frozen=True, eq=False)
class ScoreGroup:
    """name : of the file or method. n_rungs : of the scale that the scores are on; None: it is not a scale of rungs.

    scale : as the signatures name it, "1..5"; "" where they name none
    min_score : a threshold that means something on this scale
    """

    name: str
    attribute: str
    rows: tuple[ScoreRow, ...]
    n_rungs: int | None
    scale: str = ""
    min_score: float | None = None

    @cached_property
    def values(self) -> FloatArray:
        """Shape (n,), NaN where unscored."""
        return floats(score.value for score, _ in self.rows)

    @cached_property
    def scored(self) -> BoolArray:
        return ~np.isnan(self.values)

    @cached_property
    def count(self) -> Counter[str]:
        """Rows by status."""
        return Counter(score.status for score, _ in self.rows)

    @cached_property
    def by_rung(self) -> list[MeanVerdicts]:
        """Verdicts against each level, worst first; empty without verdicts."""
        return verdicts_by_rung(self.rows)

    @cached_property
    def quarters(self) -> list[float]:
        """What a quarter of the scores is below, half of them, and three quarters; NaN without scores."""
        known = self.values[self.scored]
        if not len(known):
            return [math.nan] * 3
        quarters: list[float] = np.quantile(known, (0.25, 0.5, 0.75)).tolist()
        return quarters

    @property
    def span(self) -> tuple[float, float]:
        """The least and the greatest score: that there are, or that the scale of rungs has."""
        known = self.values[self.scored] if self.scored.any() else np.zeros(1)
        low, high = float(known.min()), float(known.max())
        if self.n_rungs is not None:
            low, high = min(low, 0.0), max(high, rung_top(self.n_rungs))
        return low, high

    def decide(self, threshold: float) -> ThresholdCounts:
        """As `synthscore filter --min-score` does, but that what is undecided and has no score is not counted."""
        rule = MinScore(threshold)
        decided = np.array([rule.decide(score)[0] for score, _ in self.rows])
        return ThresholdCounts(
            threshold=threshold,
            kept=int((decided == "kept").sum()),
            undecided=int(((decided == "unsure") & self.scored).sum()),
            below=int((decided == "dropped").sum()),
        )

    @cached_property
    def chosen(self) -> ThresholdCounts | None:
        return None if self.min_score is None else self.decide(self.min_score)

    @cached_property
    def thresholds(self) -> list[ThresholdCounts]:
        """At every half rung, or, on a scale that has no rungs, at every tenth of the texts; and at min_score."""
        if self.n_rungs is None:
            thresholds = np.quantile(self.values[self.scored], np.arange(1, 10) / 10)
        else:
            step = 0.5 if self.n_rungs <= 12 else self.n_rungs / 24
            thresholds = np.arange(step, self.n_rungs + step / 2, step)
        shown = set(thresholds.tolist())
        if self.min_score is not None:
            shown.add(self.min_score)
        return [self.decide(threshold) for threshold in sorted(shown)]


def groups(run: Run, min_score: float | None = None) -> list[ScoreGroup]:
    """Those on scales of rungs first.

    min_score : a threshold for the groups on scales of rungs, or, where there are none, for all
    raises : InputError where the signatures of a group name several scales
    """
    rows_of_group: dict[tuple[str, str], list[ScoreRow]] = {}
    for name, rows in run.scores.items():
        for row in rows:
            rows_of_group.setdefault((name, row.score.attribute), []).append(row)
    found = []
    for (name, attribute), rows in rows_of_group.items():
        sizes = {n_rungs_of(row.score) for row in rows if row.score.value is not None}
        n_rungs = sizes.pop() if len(sizes) == 1 else None
        scale = one_scale(f"{name}, {attribute}", (row.signature for row in rows))
        found.append(ScoreGroup(name=name, attribute=attribute, rows=tuple(rows), n_rungs=n_rungs, scale=scale))
    found.sort(key=lambda group: not group.n_rungs)
    on_rungs = [group for group in found if group.n_rungs] or found
    return [replace(group, min_score=min_score) for group in on_rungs] + found[len(on_rungs) :]


def best_first(score: Score) -> float:
    """A key to sort by; what has no score comes last."""
    return math.inf if score.value is None else -score.value


def n_rungs_of(score: Score) -> int | None:
    """How many rungs the scale of a score has, as the score says; None where it is on no scale of rungs."""
    n_rungs = score.details.get("scale", score.details.get("n_rungs"))
    return round(n_rungs) if n_rungs and n_rungs >= 2 else None


# ------------------------------------------------------------------------------------------------- mass, length


def masses(run: Run) -> list[tuple[float, str, Score]]:
    """Label mass, file or method, and score, of each that has a mass; the lowest first."""
    known = []
    for name, rows in run.scores.items():
        for score, _ in rows:
            mass = score.details.get("label_mass")
            if mass is not None:
                known.append((mass, name, score))
    return sorted(known, key=lambda one: one[0])


class LengthEffect(NamedTuple):
    """Scores against words.

    bins : (median length, median score) of up to eight parts of all texts, about equally many in each
    pooled, inside : Spearman's correlation over all texts, and inside contexts (mean)
    """

    bins: tuple[tuple[float, float], ...]
    pooled: float
    inside: float


def length_effect(group: ScoreGroup, texts: Mapping[str, Target]) -> LengthEffect | None:
    """None where fewer than three scored texts can be read."""
    scored = (score for score, _ in group.rows if score.value is not None)
    known = [score for score in scored if score.id in texts]
    if len(known) < 3:
        return None
    words = np.array([len(texts[score.id].text.split()) for score in known])
    values = floats(score.value for score in known)
    n_parts = max(1, min(8, len(known) // 5))
    edges = np.quantile(words, np.linspace(0, 1, n_parts + 1)[1:-1])
    part = np.searchsorted(edges, words)  # equal lengths stay together
    bins = []
    for number in np.unique(part):
        texts_of_part = part == number
        bins.append((float(np.median(words[texts_of_part])), float(np.median(values[texts_of_part]))))
    inside = agreement(values, words, [score.context_id for score in known]).value
    return LengthEffect(tuple(bins), correlation(values, words), inside)


# ------------------------------------------------------------------------------------------------- failures


class FailedRows(NamedTuple):
    """Rows that failed for one reason. ids : the first few"""

    name: str
    status: str
    n: int
    reason: str
    ids: tuple[str, ...]


def failures(run: Run) -> list[FailedRows]:
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
    listed = []
    for (name, status, _), failed in found.items():
        ids = tuple(dict.fromkeys(text_id for text_id, _ in failed))[:5]
        _, reason = failed[0]
        listed.append(FailedRows(name=name, status=status, n=len(failed), reason=reason, ids=ids))
    return sorted(listed, key=lambda rows: -rows.n)


def floats(values: Iterable[float | None]) -> FloatArray:
    """NaN for None."""
    return np.array([*values], dtype=np.float64)
