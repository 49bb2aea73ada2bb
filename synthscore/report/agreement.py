"""How far scores agree with people: as evaluation.json says, or computed from ratings. Knows no pages."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..evaluation.agreement import LEVELS, agreement
from ..evaluation.bootstrap import draw_contexts
from ..evaluation.join import join
from ..evaluation.ratings import Ratings
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
    draws = draw_contexts(ratings.context_ids, np.random.default_rng(0))
    for name, rows in scores.items():
        try:
            joined = join(ratings, [score_row(*row) for row in rows])
        except InputError as error:
            found.lines.append(f"{name}: {error}")
            continue
        found.lines += [f"{name}: {line}" for line in joined.lines]
        for attribute, values in joined.values.items():
            human = ratings.human(attribute)
            for level in LEVELS:
                of = agreement(values, human, ratings.context_ids, ratings.systems, level=level, draws=draws)
                value, low, high = (_number(end) for end in (of.value, of.low, of.high))
                place = (name, attribute, level, "spearman")
                found.figures.append(Figure(*place, value, low, high, of.n, of.n_skipped))
    return found


def read_evaluation(path: Path) -> Agreements:
    """Of several methods, or of one, whose attributes are at the top.

    raises : InputError for a file that `synthscore evaluate` did not write
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        rest = content if "methods" in content else content["about"]
        if "methods" in content:
            methods = {name: method["attributes"] for name, method in content["methods"].items()}
        else:
            methods = {rest["method"]: {name: levels for name, levels in content.items() if name != "about"}}
        found = Agreements(lines=[str(line) for line in rest.get("left_out", ())])
        for method, attributes in methods.items():
            for attribute, level, statistic, figure in _leaves(attributes):
                value, low, high = (_number(figure[name]) for name in ("value", "low", "high"))
                n, skipped = int(figure["n"]), int(figure["skipped"])
                found.figures.append(Figure(method, attribute, level, statistic, value, low, high, n, skipped))
        for attribute, level, statistic, people in _leaves(rest.get("people", {})):
            found.ceilings[attribute, level, statistic] = _number(people["ceiling"])
        return found
    except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError) as error:
        raise InputError(
            f"cannot read {path.name}: it is not as `synthscore evaluate` writes it ({error!r}). Evaluate again",
            source=str(path),
        ) from error


def _leaves(attributes: Mapping[str, Any]) -> Iterator[tuple[str, str, str, Mapping[str, Any]]]:
    for attribute, levels in attributes.items():
        for level, statistics in levels.items():
            for statistic, figure in statistics.items():
                yield attribute, level, statistic, figure


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)
