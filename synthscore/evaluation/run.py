"""Ratings + methods -> an Evaluation: what each method says of each text, and how far it agrees with people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, LabelError, LadderError, TaskError, TemplateError
from ..io.scores import Scores
from ..signature import Signature
from ..types import FloatArray, Score
from .agreement import (  # fmt: skip
    CORRECTIONS,
    Agreement,
    Draws,
    Reliability,
    adjusted,
    agreement,
    difference,
    draw_contexts,
    reliability,
)
from .agreement.bootstrap import interval, no_interval, replicates
from .agreement.levels import measure
from .folder import Rows, RunFolder, ratings_hash, score_rows
from .methods.base import Method, MethodError, Tools
from .ratings.join import Joined
from .ratings.types import Ratings
from .result import Column, Contrast, Evaluation, Mean, Place, Settings

CANNOT = (MethodError, TaskError, LadderError, TemplateError, LabelError)
"""What leaves a method without any score on an attribute, while the others go on."""

Progress = Callable[[str, str], None]
"""Called with a method and an attribute before its scores are made."""

Columns = Mapping[tuple[str, str], Column]
"""(method, attribute) -> what the method says."""


def evaluate(
    ratings: Ratings,
    methods: Mapping[str, Method],
    tools: Tools | None = None,
    *,
    attributes: Sequence[str] | None = None,
    folder: str | Path | None = None,
    progress: Progress | None = None,
    **how: Any,
) -> Evaluation:
    """What methods say of rated texts, and how far that agrees with people.

    methods : name -> method (synthscore.evaluation.methods.method makes one from its name)
    attributes : of the ratings (default: all)
    folder : where scores are written as they come, and read back from; see RunFolder
    how : of Settings: levels, statistics, nan_policy, against, n_resamples, seed
    raises : InputError for an attribute that the ratings do not have; MethodError where `against` is no method
    """
    tools, settings = tools or Tools(), Settings(**how)
    require_method(settings.against, methods)
    run = RunFolder(Path(folder), ratings) if folder else None
    columns = score_columns(ratings, methods, tools, attributes_of(ratings, attributes), run, progress)
    evaluation = evaluate_columns(ratings, columns, settings)
    if run:
        run.write(evaluation)
    return evaluation


def attributes_of(ratings: Ratings, names: Sequence[str] | None) -> tuple[str, ...]:
    """raises : InputError for one that the ratings do not have"""
    for name in names or ():
        if name not in ratings.attributes:
            raise InputError(
                f"the ratings {ratings.name} have no attribute {name!r}. They have: {', '.join(ratings.attributes)}",
                value=name,
            )
    return ratings.attributes if names is None else tuple(dict.fromkeys(names))


# ------------------------------------------------------------------------------------------------- scores


def score_columns(
    ratings: Ratings,
    methods: Mapping[str, Method],
    tools: Tools,
    attributes: Sequence[str],
    run: RunFolder | None = None,
    progress: Progress | None = None,
) -> dict[tuple[str, str], Column]:
    """What each method says of each text. A method that can score none leaves all unscored, with the reason."""
    columns: dict[tuple[str, str], Column] = {}
    state = run.state(tools) if run else ""
    for name, method in methods.items():
        for attribute in attributes:
            rows = run.scores(name, attribute, state) if run else None
            if rows is None:
                if progress:
                    progress(name, attribute)
                scores = _scores(ratings, method, attribute, tools)
                rows = list(score_rows(name, scores, ratings, verdicts=run is not None))
                if run:
                    run.add(name, attribute, state, rows)
            columns[name, attribute] = _column(name, attribute, rows)
    return columns


def _scores(ratings: Ratings, method: Method, attribute: str, tools: Tools) -> Scores:
    try:
        return method(ratings, attribute, tools)
    except CANNOT as error:
        rows = [Score(t.id, t.context_id, attribute, None, status="unscored", reason=str(error)) for t in ratings]
        return Scores(tuple(rows), Signature(()))


def _column(method: str, attribute: str, rows: Rows) -> Column:
    return Column(
        method,
        attribute,
        values=np.array([row["score"] for row in rows], dtype=np.float64),  # null becomes NaN
        signature=rows[0]["signature"] if rows else "",
        n_partial=sum(row["status"] == "partial" for row in rows),
        reasons=tuple(row["reason"] for row in rows if row["status"] == "unscored"),
    )


def joined_columns(
    name: str, joined: Joined, ratings: Ratings, attributes: Sequence[str], run: RunFolder | None = None
) -> dict[tuple[str, str], Column]:
    """The columns of a file of scores that was joined to ratings."""
    columns: dict[tuple[str, str], Column] = {}
    for attribute in attributes:
        rows = list(_joined_rows(name, joined, ratings, attribute))
        if run:
            run.add(name, attribute, "", rows)
        columns[name, attribute] = _column(name, attribute, rows)
    return columns


def _joined_rows(name: str, joined: Joined, ratings: Ratings, attribute: str) -> Iterator[dict[str, Any]]:
    unscored = dict(joined.unscored[attribute])
    unscored |= dict.fromkeys(joined.without_score[attribute], "it has no row of scores")
    partial = joined.partial[attribute]
    signature = " and ".join(joined.signatures[attribute])
    for text, value in zip(ratings, joined.values[attribute].tolist(), strict=True):
        status = "unscored" if text.id in unscored else "partial" if text.id in partial else "ok"
        yield {
            "method": name, "id": text.id, "context_id": text.context_id, "system": text.system, "attribute": attribute,
            "score": None if status == "unscored" else value, "status": status,
            "reason": unscored.get(text.id) or partial.get(text.id, ""), "signature": signature,
        }  # fmt: skip


# ------------------------------------------------------------------------------------------------- agreement


def require_method(against: str, methods: Iterable[str]) -> None:
    """raises : MethodError where `against` is none of them"""
    if against and against not in methods:
        raise MethodError(f"cannot contrast methods with {against!r}, expected one of them: {', '.join(methods)}")


def evaluate_columns(
    ratings: Ratings, columns: Columns, settings: Settings | None = None, left_out: Sequence[str] = ()
) -> Evaluation:
    """How far columns of scores agree with people. left_out : lines, beside those of the ratings"""
    settings = settings or Settings()
    methods, attributes = (tuple(dict.fromkeys(names)) for names in zip(*columns, strict=True))
    require_method(settings.against, methods)
    rng = np.random.default_rng(settings.seed)
    n_resamples = settings.n_resamples
    draws = draw_contexts(ratings.context_ids, rng, n_resamples) if n_resamples else None
    ask = _Asked(ratings, columns, settings, draws)
    kinds = [(level, statistic) for level in settings.levels for statistic in settings.statistics]
    return Evaluation(
        name=ratings.name,
        source=ratings.source,
        hash=ratings_hash(ratings),
        n_texts=len(ratings),
        n_contexts=len(set(ratings.context_ids)),
        n_systems=len({system for system in ratings.systems if system}),
        methods=methods,
        attributes=attributes,
        settings=settings,
        columns=columns,
        agreements={
            place: ask.agreement(place)
            for m in methods
            for a in attributes
            for k in kinds
            for place in [Place(m, a, *k)]
        },
        means={(m, *kind): ask.mean(m, attributes, *kind) for m in methods for kind in kinds},
        contrasts=tuple(
            each for kind in kinds if settings.against for each in ask.contrasts(methods, attributes, *kind)
        ),
        people={(a, *kind): found for a in attributes for kind in kinds if (found := ask.people(a, *kind))},
        left_out=(*ratings.left_out, *left_out),
    )


@dataclass(frozen=True)
class _Asked:
    """What is asked of synthscore.evaluation.agreement, with all that the questions have in common."""

    ratings: Ratings
    columns: Columns
    settings: Settings
    draws: Draws | None

    @cached_property
    def _texts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return self.ratings.context_ids, self.ratings.systems

    @cached_property
    def _human(self) -> dict[str, FloatArray]:
        return {attribute: self.ratings.human(attribute) for attribute in self.ratings.attributes}

    def agreement(self, place: Place) -> Agreement:
        values = self.columns[place.method, place.attribute].values
        return agreement(
            values,
            self._human[place.attribute],
            *self._texts,
            draws=self.draws,
            **self._kind(place.level, place.statistic),
        )

    def _kind(self, level: str, statistic: str) -> dict[str, Any]:
        return {"level": level, "statistic": statistic, "nan_policy": self.settings.nan_policy}

    def mean(self, method: str, attributes: Sequence[str], level: str, statistic: str) -> Mean:
        """The resamples of all attributes are the same, so that their mean is resampled with them."""
        found = [
            measure(self.columns[method, a].values, self._human[a], *self._texts, **self._kind(level, statistic))
            for a in attributes
        ]
        value = float(np.mean([one.agreement.value for one in found]))
        if self.draws is None or np.isnan(value) or any(no_interval(one.agreement.n_contexts) for one in found):
            return Mean(value, None, None)
        ends = interval(np.mean([replicates(one.of_counts, self.draws, self._texts[0]) for one in found], axis=0))
        return Mean(value, *(ends[:2] if ends else (None, None)))

    def contrasts(
        self, methods: Sequence[str], attributes: Sequence[str], level: str, statistic: str
    ) -> list[Contrast]:
        against = self.settings.against
        assert self.draws is not None
        found = {
            Place(method, attribute, level, statistic): difference(
                self.columns[method, attribute].values,
                self.columns[against, attribute].values,
                self._human[attribute],
                *self._texts,
                draws=self.draws,
                **self._kind(level, statistic),
            )
            for method in methods
            if method != against
            for attribute in attributes
        }
        p = [np.nan if each.p is None else each.p for each in found.values()]
        corrected = zip(*(adjusted(p, how).tolist() for how in CORRECTIONS), strict=True)
        return [
            Contrast(place, against, each, *(None if np.isnan(value) else value for value in both))
            for (place, each), both in zip(found.items(), corrected, strict=True)
        ]

    def people(self, attribute: str, level: str, statistic: str) -> Reliability | None:
        """None where single ratings are not known."""
        if not any(len(text.annotators.get(attribute, ())) > 1 for text in self.ratings):
            return None
        how: dict[str, Any] = {"level": level, "statistic": statistic}
        return reliability(self.ratings, attribute, draws=self.draws, **how)
