"""How far scores agree with people: as evaluation.json says, or computed from ratings. Knows no pages."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ..errors import InputError
from ..evaluation.agreement import LEVELS, Agreement, agreement
from ..evaluation.join import join
from ..evaluation.ratings import Ratings
from ..evaluation.result import Evaluation
from ..io.scores import score_row
from ..signature import Signature
from ..types import Score


class Figure(NamedTuple):
    """A correlation with people's ratings. low, high : interval, NaN where there is none. n : texts, or systems"""

    method: str
    attribute: str
    level: str
    statistic: str
    value: float
    low: float
    high: float
    n: int
    skipped: int


@dataclass(slots=True)
class Agreements:
    """ceilings : (attribute, level, statistic) -> what a method without error would reach, where that is known.
    lines : what was not compared with people, and why"""

    figures: list[Figure] = field(default_factory=list)
    ceilings: dict[tuple[str, str, str], float] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


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
        for attribute, column in joined.scores.items():
            human = ratings.human(attribute)
            for level in LEVELS:
                of = agreement(column.values, human, ratings.context_ids, ratings.systems, level=level)
                found.figures.append(_figure(name, attribute, level, "spearman", of))
    return found


def read_evaluation(folder: Path) -> Agreements:
    """raises : InputError for a folder that `synthscore evaluate` did not write"""
    evaluation = Evaluation.load(folder)
    return Agreements(
        [_figure(*place, found) for place, found in evaluation.agreements.items()],
        {place: found.ceiling for place, found in evaluation.people.items()},
        list(evaluation.left_out),
    )


def _figure(method: str, attribute: str, level: str, statistic: str, of: Agreement) -> Figure:
    low, high = (math.nan if end is None else end for end in (of.low, of.high))
    return Figure(method, attribute, level, statistic, of.value, low, high, of.n, of.n_skipped)
