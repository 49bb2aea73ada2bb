"""How far scores agree with people: as evaluation.json says, or computed from ratings. Knows no pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from ..errors import InputError
from ..evaluation import Evaluation, FigureKey, Mean, evaluate
from ..evaluation.agreement import Agreement, Difference
from ..evaluation.join import join
from ..evaluation.ratings import Ratings
from ..evaluation.result import AUC
from ..io.scores import score_row
from ..signature import Signature
from ..types import Score


class Figure(NamedTuple):
    """A correlation with people's ratings, or how much more it is than another method's.

    low, high : interval, NaN where there is none. n : texts, or systems. star : a difference that is told from chance
    """

    method: str
    attribute: str
    level: str
    statistic: str
    value: float
    low: float
    high: float
    n: int = 0
    skipped: int = 0
    star: bool = False


@dataclass(slots=True)
class Agreements:
    """means : over attributes, where there are several. differences : from the method `against`
    ceilings : (attribute, level, statistic) -> what a method without error would reach, where that is known.
    lines : what was not compared with people, and why"""

    figures: list[Figure] = field(default_factory=list)
    means: list[Figure] = field(default_factory=list)
    differences: list[Figure] = field(default_factory=list)
    against: str = ""
    ceilings: dict[tuple[str, str, str], float] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    @property
    def statistic(self) -> str:
        """Which is shown, where there are several."""
        found = {figure.statistic for figure in self.figures}
        return "spearman" if "spearman" in found else min(found - {AUC}, default="")

    def add(self, evaluation: Evaluation) -> None:
        """Its figures."""
        for key, agreement in evaluation.agreements.items():
            self.figures.append(_figure(key, agreement, n=agreement.n, skipped=agreement.n_skipped))
        for key, gap in evaluation.contrasts.items():
            self.differences.append(_figure(key, gap, star=gap.p_holm is not None and gap.p_holm < 0.05))
        if len(evaluation.attributes) > 1:
            for (method, level, statistic), mean in evaluation.means.items():
                self.means.append(_figure(FigureKey(method, "mean", level, statistic), mean))
        self.ceilings |= {key: people.ceiling for key, people in evaluation.people.items()}

    def table(self, figures: Iterable[Figure], level: str) -> Table:
        """Of the figures at this level: a row a method, the best first, by the last column."""
        rows: dict[str, dict[str, Figure]] = {}
        for figure in figures:
            if (figure.level, figure.statistic) == (level, self.statistic):
                rows.setdefault(figure.method, {})[figure.attribute] = figure
        columns = list(dict.fromkeys(chain.from_iterable(rows.values())))
        best = sorted(rows.items(), key=lambda row: best_first(row[1].get(columns[-1])))
        return Table(columns, best)


class Table(NamedTuple):
    """columns : attributes, and their mean. rows : methods, and their figures by attribute"""

    columns: list[str]
    rows: list[tuple[str, dict[str, Figure]]]


def best_first(figure: Figure | None) -> float:
    """A key to sort by; those without a value come last."""
    return math.inf if figure is None or math.isnan(figure.value) else -figure.value


def agreements(ratings: Ratings, scores: Mapping[str, Iterable[tuple[Score, Signature]]]) -> Agreements:
    """Spearman's, at all levels. scores : name of the file or method -> its rows"""
    found = Agreements()
    for name, rows in scores.items():
        try:
            joined = join(ratings, [score_row(*row) for row in rows])
        except InputError as error:
            found.lines.append(f"{name}: {error}")
            continue
        found.lines += [f"{name}: {line}" for line in joined.lines]
        found.add(evaluate(ratings, {name: joined}, attributes=[*joined.scores], statistics=("spearman",)))
    return found


def read_evaluation(folder: Path) -> Agreements:
    """raises : InputError for a folder that `synthscore evaluate` did not write"""
    evaluation = Evaluation.load(folder)
    found = Agreements(against=evaluation.settings.against, lines=list(evaluation.left_out))
    found.add(evaluation)
    return found


def _figure(
    key: FigureKey, value: Agreement | Mean | Difference, *, n: int = 0, skipped: int = 0, star: bool = False
) -> Figure:
    low, high = nan_for_none(value.low), nan_for_none(value.high)
    return Figure(*key, value=value.value, low=low, high=high, n=n, skipped=skipped, star=star)


def nan_for_none(end: float | None) -> float:
    return math.nan if end is None else end
