"""Ratings + methods -> an Evaluation: what each method says of each text, and how far it agrees with people."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from ..errors import InputError, LabelError, LadderError, SynthscoreError, TaskError, TemplateError
from ..io.scores import Scores
from ..signature import Signature
from ..types import FloatArray
from .agreement import Agreement, Difference, difference, measure
from .intervals import holm, mean_without, spread
from .methods.base import Method, MethodError, Tools
from .people import Reliability, reliability
from .ratings import Ratings
from .result import Evaluation, Mean, Place, Settings

CANNOT = (MethodError, TaskError, LadderError, TemplateError, LabelError)
"""What leaves a method without any score on an attribute, while the others go on."""

Progress = Callable[[str, str], None]
"""Called with a method and an attribute before its scores are made."""


def evaluate(
    ratings: Ratings,
    methods: Mapping[str, Method],
    tools: Tools | None = None,
    *,
    attributes: Sequence[str] | None = None,
    left_out: Sequence[str] = (),
    settings: Settings | None = None,
    progress: Progress | None = None,
    **how: Any,
) -> Evaluation:
    """What methods say of rated texts, and how far that agrees with people.

    methods : name -> method (synthscore.evaluation.methods.method makes one from its name)
    attributes : of the ratings (default: all)
    left_out : lines, beside those of the ratings
    settings : which figures; or, as keywords, any of levels, statistics, against
    raises : InputError for an attribute that the ratings do not have; MethodError where `against` is no method

    A method that can score none leaves all unscored, with the reason.
    """
    settings = settings or Settings(**how)
    require_method(settings.against, methods)
    attributes = attributes_of(ratings, attributes)
    scores: dict[tuple[str, str], Scores] = {}
    for name, method in methods.items():
        for attribute in attributes:
            if progress:
                progress(name, attribute)
            try:
                scores[name, attribute] = method(ratings, attribute, tools or Tools())
            except CANNOT as error:
                scores[name, attribute] = Scores(
                    tuple(text.unscored(attribute, str(error)) for text in ratings), Signature(())
                )
    return evaluate_scores(ratings, scores, settings, left_out)


def run_methods(ratings: Ratings, methods: Iterable[Method], tools: Tools, attributes: Sequence[str]) -> None:
    """What methods ask, for a judge that only counts it (Plan): whatever they find is dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method, attribute in product(methods, attributes):
            with suppress(SynthscoreError):
                method(ratings, attribute, tools)


def attributes_of(ratings: Ratings, names: Sequence[str] | None) -> tuple[str, ...]:
    """raises : InputError for one that the ratings do not have"""
    for name in names or ():
        if name not in ratings.attributes:
            raise InputError(
                f"the ratings {ratings.name} have no attribute {name!r}. They have: {', '.join(ratings.attributes)}",
                value=name,
            )
    return ratings.attributes if names is None else tuple(dict.fromkeys(names))


def require_method(against: str, methods: Iterable[str]) -> None:
    """raises : MethodError where `against` is none of them"""
    if against and against not in methods:
        raise MethodError(f"cannot contrast methods with {against!r}, expected one of them: {', '.join(methods)}")


def evaluate_scores(
    ratings: Ratings,
    scores: Mapping[tuple[str, str], Scores],
    settings: Settings | None = None,
    left_out: Sequence[str] = (),
) -> Evaluation:
    """How far scores agree with people. scores : (method, attribute) -> those of all texts"""
    settings = settings or Settings()
    methods, attributes = (tuple(dict.fromkeys(names)) for names in zip(*scores, strict=True))
    require_method(settings.against, methods)
    texts = ratings.context_ids, ratings.systems
    human = {attribute: ratings.human(attribute) for attribute in attributes}
    values = {key: column.values for key, column in scores.items()}
    agreements: dict[Place, Agreement] = {}
    means: dict[tuple[str, str, str], Mean] = {}
    people: dict[tuple[str, str, str], Reliability] = {}
    contrasts: dict[Place, Difference] = {}
    for level, statistic in settings.kinds:
        how: dict[str, Any] = {"level": level, "statistic": statistic}
        gaps: dict[Place, Difference] = {}
        for method in methods:
            parts: list[tuple[Agreement, FloatArray]] = []
            for attribute in attributes:
                place, column = Place(method, attribute, level, statistic), values[method, attribute]
                parts.append(measure(column, human[attribute], *texts, **how))
                agreements[place] = parts[-1][0]
                if settings.against not in ("", method):
                    other = values[settings.against, attribute]
                    gaps[place] = difference(column, other, human[attribute], *texts, **how)
            each = [found.value for found, _ in parts]
            mean = float(np.mean(each))
            without = mean_without(each, [without for _, without in parts])
            ends = spread(mean, without, note="an attribute has none" if np.isnan(mean) else "")
            means[method, level, statistic] = Mean(mean, ends.low, ends.high)
        for attribute in attributes:
            if any(len(text.annotators.get(attribute, ())) > 1 for text in ratings):
                people[attribute, level, statistic] = reliability(ratings, attribute, **how)
        corrected = holm([np.nan if gap.p is None else gap.p for gap in gaps.values()]).tolist()
        for (place, gap), p in zip(gaps.items(), corrected, strict=True):
            contrasts[place] = replace(gap, p_holm=None if np.isnan(p) else p)
    lines = (*ratings.left_out, *left_out)
    return Evaluation(ratings, scores, settings, agreements, means, contrasts, people, lines)
