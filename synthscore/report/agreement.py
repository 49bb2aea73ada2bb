"""A run -> how far its scores agree with people: as evaluation.json says, or computed from the ratings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..evaluation.agreement import LEVELS, agreement, draw_contexts
from ..evaluation.ratings import join
from .read import EVALUATION, Run
from .score_row import ScoreRow


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
class Found:
    """ceilings : (attribute, level, statistic) -> what a method without error would reach, where that is known.
    lines : what was not held against people, and why"""

    figures: list[Figure] = field(default_factory=list)
    ceilings: dict[tuple[str, str, str], float] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


def with_people(run: Run) -> Found:
    """An evaluation.json that is not as it should be is left out of the run, and named."""
    if run.evaluation is not None:
        try:
            return _of_evaluation(run.evaluation)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            run.left_out.append(f"{EVALUATION}: it is not as `synthscore evaluate` writes it ({error!r})")
    found = Found()
    if run.ratings is not None:
        draws = draw_contexts(run.ratings.context_ids, np.random.default_rng(0))
        for name, rows in run.scores.items():
            try:
                joined = join(run.ratings, map(_mapping, rows))
            except InputError as error:
                found.lines.append(f"{name}: {error}")
                continue
            found.lines += [f"{name}: {line}" for line in joined.lines]
            for attribute, values in joined.values.items():
                human = run.ratings.human(attribute)
                for level in LEVELS:
                    of = agreement(
                        values, human, run.ratings.context_ids, run.ratings.systems, level=level, draws=draws
                    )
                    value, low, high = (_number(end) for end in (of.value, of.low, of.high))
                    place = (name, attribute, level, "spearman")
                    found.figures.append(Figure(*place, value, low, high, of.n, of.n_skipped))
    return found


def _mapping(row: ScoreRow) -> dict[str, Any]:
    names = ("id", "context_id", "attribute", "status", "reason", "signature")
    return {"score": row.value} | {name: getattr(row, name) for name in names}


def _of_evaluation(of: Mapping[str, Any]) -> Found:
    """Of several methods, or of one, whose attributes are at the top."""
    rest = of if "methods" in of else of.get("about", {})
    if "methods" in of:
        methods = {name: method["attributes"] for name, method in of["methods"].items()}
    else:
        methods = {rest.get("method", "scores"): {name: levels for name, levels in of.items() if name != "about"}}
    found = Found(lines=[str(line) for line in rest.get("left_out", ())])
    for method, attributes in methods.items():
        for attribute, level, statistic, figure in _leaves(attributes):
            value, low, high = (_number(figure[name]) for name in ("value", "low", "high"))
            n, skipped = int(figure["n"]), int(figure["skipped"])
            found.figures.append(Figure(method, attribute, level, statistic, value, low, high, n, skipped))
    for attribute, level, statistic, people in _leaves(rest.get("people", {})):
        found.ceilings[attribute, level, statistic] = _number(people["ceiling"])
    return found


def _leaves(attributes: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    for attribute, levels in attributes.items():
        for level, statistics in levels.items():
            for statistic, figure in statistics.items():
                yield attribute, level, statistic, figure


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
