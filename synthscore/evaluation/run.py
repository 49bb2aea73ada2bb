"""Ratings + methods -> an Evaluation: the scores of each method, and how far they agree with people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from ..errors import InputError, LabelError, LadderError, TaskError, TemplateError
from ..io.scores import Scores
from ..scoring.method import MethodError, Tools
from ..signature import Signature
from .agreement import Agreement, Difference, LeaveOneOut, Level, difference, measure
from .intervals import holm, mean_without, spread
from .methods.base import SetMethod
from .people import Reliability, reliability
from .ratings import Ratings
from .result import AUC, Evaluation, FigureKey, Mean, Settings

CANNOT = (MethodError, TaskError, LadderError, TemplateError, LabelError)
"""Errors that leave a method without any score on an attribute, while the others go on."""


def evaluate(
    ratings: Ratings,
    methods: Mapping[str, SetMethod],
    tools: Tools | None = None,
    *,
    attributes: Sequence[str] | None = None,
    left_out: Sequence[str] = (),
    settings: Settings | None = None,
    progress: Callable[[str, str], None] | None = None,
    **how: Any,
) -> Evaluation:
    """Score rated texts by each method, and measure how far the scores agree with people.

    methods : name -> method (synthscore.evaluation.methods.method makes one from its name); a column of scores from a
        file is a method, too (synthscore.evaluation.join)
    tools : what the methods may ask for (default: nothing)
    attributes : of the ratings (default: all)
    left_out : lines about what was left out, added to those of the ratings
    settings : which figures; or, as keywords, any of levels, statistics, against
    progress : called with a method and an attribute before its scores are made
    raises : InputError for an attribute that the ratings do not have; MethodError where `against` is no method

    A method that can score none leaves all unscored, with the reason.
    """
    settings = settings or Settings(**how)
    require_method(settings.against, methods)
    attributes = choose_attributes(ratings, attributes)
    scores = {}
    for name, attribute in product(methods, attributes):
        if progress:
            progress(name, attribute)
        scores[name, attribute] = _score(methods[name], ratings, attribute, tools or Tools())
    return _compute_figures(ratings, scores, settings, (*ratings.left_out, *left_out))


def _score(method: SetMethod, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
    """The scores of all texts. A method that can score none leaves all unscored, with the reason."""
    try:
        return method(ratings, attribute, tools)
    except CANNOT as error:
        unscored = tuple(text.unscored(attribute, str(error)) for text in ratings)
        return Scores(unscored, Signature(()))


def choose_attributes(ratings: Ratings, names: Sequence[str] | None) -> tuple[str, ...]:
    """The attributes of these names, each once (default: all). raises : InputError for one that the ratings lack"""
    if names is None:
        return ratings.attributes
    for name in names:
        if name not in ratings.attributes:
            raise InputError(
                f"the ratings {ratings.name} have no attribute {name!r}. They have: {', '.join(ratings.attributes)}",
                value=name,
            )
    return tuple(dict.fromkeys(names))


def require_method(against: str, methods: Iterable[str]) -> None:
    """raises : MethodError where `against` is none of them"""
    if against and against not in methods:
        raise MethodError(f"cannot contrast methods with {against!r}, expected one of them: {', '.join(methods)}")


# ------------------------------------------------------------------------------------------------- figures


def _compute_figures(
    ratings: Ratings, scores: Mapping[tuple[str, str], Scores], settings: Settings, left_out: tuple[str, ...]
) -> Evaluation:
    """scores : (method, attribute) -> the scores of all texts, in the order of the ratings"""
    methods = tuple(dict.fromkeys(method for method, _ in scores))
    attributes = tuple(dict.fromkeys(attribute for _, attribute in scores))
    others = [method for method in methods if settings.against and method != settings.against]
    rated_by_several = [attribute for attribute in attributes if _any_rated_by_several(ratings, attribute)]
    values = {key: column.values for key, column in scores.items()}
    human = {attribute: ratings.human(attribute) for attribute in attributes}
    names = ratings.context_ids, ratings.systems
    good_from: dict[str, float] = {}
    for attribute in attributes:
        threshold = settings.good_from_of(human[attribute])
        if threshold is not None:
            good_from[attribute] = threshold
    kinds: list[tuple[Level, str]] = [*settings.kinds]
    if good_from:
        kinds.append(("pooled", AUC))

    agreements: dict[FigureKey, Agreement] = {}
    means: dict[tuple[str, str, str], Mean] = {}
    contrasts: dict[FigureKey, Difference] = {}
    people: dict[tuple[str, str, str], Reliability] = {}
    for level, statistic in kinds:
        how = {attribute: _options(level, statistic, good_from.get(attribute, np.nan)) for attribute in attributes}
        for method in methods:
            parts = []
            for attribute in attributes:
                part = measure(values[method, attribute], human[attribute], *names, **how[attribute])
                agreements[FigureKey(method, attribute, level, statistic)] = part.agreement
                parts.append(part)
            means[method, level, statistic] = _mean_over_attributes(parts, statistic)
        differences = {}
        for method, attribute in product(others, attributes):
            one = values[method, attribute]
            other = values[settings.against, attribute]
            key = FigureKey(method, attribute, level, statistic)
            differences[key] = difference(one, other, human[attribute], *names, **how[attribute])
        contrasts |= _correct(differences)
        if statistic != AUC:
            for attribute in rated_by_several:
                people[attribute, level, statistic] = reliability(ratings, attribute, **how[attribute])
    return Evaluation(
        ratings=ratings,
        scores=scores,
        settings=settings,
        agreements=agreements,
        means=means,
        contrasts=contrasts,
        people=people,
        good_from=good_from,
        left_out=left_out,
    )


def _options(level: Level, statistic: str, good_from: float) -> dict[str, Any]:
    """A figure as `measure` is told of it. good_from : the least rating of a good text, for AUC"""
    if statistic == AUC:
        return {"level": level, "good_from": good_from}
    return {"level": level, "statistic": statistic}


def _mean_over_attributes(parts: Sequence[LeaveOneOut], statistic: str) -> Mean:
    values = [part.agreement.value for part in parts]
    mean = float(np.mean(values))
    without = mean_without(values, [part.without for part in parts])
    ends = (-1.0, 1.0)
    if statistic == AUC:
        ends = (0.0, 1.0)
    note = ""
    if np.isnan(mean):
        note = "an attribute has none"
    interval = spread(mean, without, ends, note=note)
    return Mean(value=mean, low=interval.low, high=interval.high)


def _correct(differences: Mapping[FigureKey, Difference]) -> dict[FigureKey, Difference]:
    """The differences with their p-values corrected for as many as there are."""
    p_values = [np.nan if gap.p is None else gap.p for gap in differences.values()]
    corrected = {}
    for (key, gap), p in zip(differences.items(), holm(p_values).tolist(), strict=True):
        corrected[key] = replace(gap, p_holm=None if np.isnan(p) else p)
    return corrected


def _any_rated_by_several(ratings: Ratings, attribute: str) -> bool:
    """Whether any text has the single ratings of two people or more."""
    return any(len(text.annotators.get(attribute, ())) > 1 for text in ratings)
