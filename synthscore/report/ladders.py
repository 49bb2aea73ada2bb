"""A run -> the ladders to read, and where texts stand on them. No files, no page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from ..scoring.anchored.scores import LEVEL
from ..scoring.ladder import rescaled
from ..types import Ladder, Rung, Score
from .numbers import ScoreGroup, best_first
from .read import Run

VIEW = 40  # texts on one ladder
VIEWS = 4  # of a context that is named
ENDS = 5  # texts that are best, worst, most uncertain


class LadderView(NamedTuple):
    """A ladder, and the texts that were scored on it, best first. name : of the file or method"""

    name: str
    ladder: Ladder
    scores: tuple[Score, ...]

    @property
    def title(self) -> str:
        return f"{self.ladder.context_id}, {self.ladder.attribute}"

    @property
    def scored(self) -> list[Score]:
        return [score for score in self.scores if score.value is not None]

    @property
    def unscored(self) -> list[Score]:
        return [score for score in self.scores if score.value is None]

    @property
    def shown(self) -> list[Score]:
        """The best and the worst, where there are more than VIEW."""
        half = VIEW // 2
        others = self.scored[half:]
        return self.scored[:half] + others[-half:]

    @property
    def steps(self) -> list[Rung | Score]:
        """All rungs and the texts shown, best first."""
        steps: list[Rung | Score] = [*self.ladder.rungs, *self.shown]
        return sorted(steps, key=self._height, reverse=True)

    def place(self, level: int) -> float:
        """Where a rung stands on the ladder's scale."""
        return rescaled(level, self.ladder.n_rungs, self.ladder.scale)

    def _height(self, step: Rung | Score) -> tuple[float, bool]:
        """A key to sort by; of a text and a rung at the same place, the text is above."""
        if isinstance(step, Rung):
            return self.place(step.level), False
        return -best_first(step), True


def ladder_views(run: Run, found: Sequence[ScoreGroup], context_id: str | None = None) -> list[LadderView]:
    """The ladders of one context: the one with the most texts, all of them scored; or those of the context named.

    Empty without ladders, or where none of them is a scored text's; of a context that is named, VIEWS at most
    """
    views = []
    for group in found:
        ladders: dict[tuple[str, str, str], Ladder] = {}
        scores: dict[tuple[str, str, str], list[Score]] = {}
        for row in group.rows:
            ladder = run.ladder(row) if context_id in (None, row.score.context_id) else None
            if ladder and ladder.scale == group.n_rungs:
                key = ladder.task, ladder.context_id, ladder.attribute
                ladders[key] = ladder
                scores.setdefault(key, []).append(row.score)
        for key, ladder in ladders.items():
            views.append(LadderView(group.name, ladder, tuple(sorted(scores[key], key=best_first))))
    views.sort(key=_instructive, reverse=True)
    return views[: 1 if context_id is None else VIEWS]


def _instructive(view: LadderView) -> tuple[bool, bool, bool, int, float]:
    """All scored, all rungs there, verdicts to see, many texts, far apart."""
    whole = all(score.status == "ok" for score in view.scores)
    spread = 0.0
    if whole:
        spread = best_first(view.scores[-1]) - best_first(view.scores[0])
    full = len(view.ladder.usable) == view.ladder.n_rungs
    has_verdicts = any(score.verdicts for score in view.scores)
    return whole, full, has_verdicts, len(view.scores), spread


class Interval(NamedTuple):
    """kind : what the ends are; "" where they are not known, and NaN"""

    low: float
    high: float
    kind: str


LIKELY, POSSIBLE = f"{100 * LEVEL:.0f} % interval", "whatever is missing"


def interval(score: Score) -> Interval:
    """In which a score with an error is likely to be, or else the least and the greatest that it can be."""
    if score.stderr is not None and score.value is not None:
        half = NormalDist().inv_cdf((1 + LEVEL) / 2) * score.stderr
        return Interval(score.value - half, score.value + half, LIKELY)
    if score.low is not None and score.high is not None:
        return Interval(score.low, score.high, POSSIBLE)
    return Interval(math.nan, math.nan, "")


class Extremes(NamedTuple):
    """Texts of a group to read. unsure : empty where nothing tells how sure a score is"""

    group: ScoreGroup
    best: list[Score]
    worst: list[Score]
    unsure: list[Score]


def extremes(group: ScoreGroup) -> Extremes:
    """No text is among the best and the worst; any may be uncertain."""
    scored = [score for score, _ in group.rows if score.value is not None]
    scored.sort(key=best_first)
    n = min(ENDS, len(scored) // 2)
    doubt = sorted(scored, key=_doubt, reverse=True)
    unsure = [score for score in doubt[: max(n, 1)] if any(_doubt(score))]
    worst = scored[::-1][:n]
    return Extremes(group, scored[:n], worst, unsure)


def _doubt(score: Score) -> tuple[float, float]:
    """Length of the interval; of those that have none, what verdicts leave to other labels than the likeliest."""
    low, high, kind = interval(score)
    left = [1 - max(v.better, v.similar, v.worse) for v in score.verdicts]
    return high - low if kind else 0.0, sum(left) / len(left) if left else 0.0
