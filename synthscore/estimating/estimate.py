"""Rows of scores and of a few labels -> the mean rating of texts, the share that is good, differences of systems."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Literal

import numpy as np

from ..errors import InputError, unusable
from ..io.fields import Row, read_number, row_error, shorten
from ..io.files import Source
from ..io.write import plain
from ..signature import Signature
from ..thresholds.drawn import Drawn, require_like_scores
from ..thresholds.labels import LabelledRows, counted, left_out_lines, read_good, require_line
from .prediction_powered import IntervalEstimate, Means, mean_labels, share_interval, t_interval

WIDER = 1.02
"""Labels alone are taken where, with the scores, the interval would be longer by more than this factor."""

FEW_LABELS, FEW_CONTEXTS = 30, 20
"""With fewer, intervals were not checked (benchmarks/estimate.py)."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The mean rating of texts, or the share that is good: of all texts, of a system, or of one system minus another.

    value : by labels and scores together
    labels_alone, scores_alone : by either alone, for comparison; scores have a scale of their own
    weight : of the scores, lambda; NaN for a difference
    n_labels, n_contexts : labels, and contexts that have one; of a difference, of the system with fewer
    note : why there is no interval, or a caveat about it
    """

    system: str
    minus: str
    value: IntervalEstimate
    labels_alone: IntervalEstimate
    scores_alone: IntervalEstimate
    weight: float
    n_labels: int
    n_contexts: int
    n_texts: int
    note: str = ""

    @property
    def name(self) -> str:
        if self.minus:
            return f"{self.system} - {self.minus}"
        return self.system or "all"

    def to_row(self) -> dict[str, Any]:
        figures = {"": self.value, "labels_": self.labels_alone, "scores_": self.scores_alone}
        numbers = {}
        for prefix, figure in figures.items():
            for name in ("value", "stderr", "low", "high"):
                numbers[f"{prefix}{name}"] = getattr(figure, name)
        counts = {name: getattr(self, name) for name in ("n_labels", "n_contexts", "n_texts", "note")}
        row = {"system": self.system, "minus": self.minus, **numbers, "lambda": self.weight, **counts}
        return {name: plain(value) for name, value in row.items()}


@dataclass(frozen=True, slots=True)
class Estimates:
    """Of all texts; or of each system, the best first, and then the difference of each two.

    confidence : of each interval by itself
    drawn : how labelled texts were drawn, as far as their rows say
    left_out : what was read and is not used, and why; a line a reason, with a count. n_broken : rows among it
    """

    rows: tuple[Estimate, ...]
    confidence: float
    signature: Signature
    drawn: Drawn
    left_out: tuple[str, ...] = ()
    n_broken: int = 0

    def __iter__(self) -> Iterator[Estimate]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> Estimate:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def to_rows(self) -> list[dict[str, Any]]:
        """One row an estimate."""
        about = {"confidence": self.confidence, "drawn": self.drawn, "signature": str(self.signature)}
        return [row.to_row() | about for row in self.rows]


def estimate(
    scores: Source,
    labels: Source | None = None,
    *,
    by: Literal["system"] | None = None,
    min_score: float | None = None,
    good_from: float | None = None,
    confidence: float = 0.9,
    attribute: str | None = None,
    encoding: str = "utf-8",
    fields: Mapping[str, str] | None = None,
) -> Estimates:
    """The mean rating of all texts, by the scores of all and people's ratings of a few, drawn at random.

    The labels correct the mean of the scores, which know about all texts; where the scores do not help, labels alone
    are used (prediction_powered.mean_labels). Errors allow for texts of one context being alike.

    scores, labels, attribute, encoding, fields : as for LabelledRows.load
    by : estimates of each system, and of their differences; a system is that of a column `system`, or of an id
        CONTEXT/SYSTEM
    min_score : what is estimated is the share of good texts: by people, whose column `label` is true, or `human` at
        least good_from; by score, whose score is at least this. None: the mean of `human`
    confidence : of an interval, such as 0.9 or 0.95
    warns : SynthscoreWarning where the scores of labelled texts and others differ (drawn.require_like_scores)
    raises : InputError, also where labelled texts were chosen by their score
    """
    if not 0 < confidence < 1:
        raise unusable("confidence", confidence, "a number above 0 and below 1, such as 0.9 or 0.95")
    if by not in (None, "system"):
        raise unusable("by", by, "'system', or None for all texts together")
    require_line("min_score", min_score)
    require_line("good_from", good_from)
    if min_score is None and good_from is not None:
        raise InputError(
            f"good_from is {good_from:g}, but there is no min_score: a share of good texts needs both. Say from which "
            "score on a text counts as good (--min-score), or leave --good-from out, for the mean rating",
            field="min_score",
        )
    read_label = _read_rating if min_score is None else partial(read_good, good_from=good_from)
    rows = LabelledRows.load(scores, labels, read_label, attribute=attribute, encoding=encoding, fields=fields)
    groups = _groups(rows, by)
    require_like_scores(rows.values, rows.labelled, rows.contexts, groups)
    values = rows.values
    if min_score is not None:
        values = np.where(np.isnan(values), np.nan, values >= min_score)
    n_all_contexts = int(rows.contexts.max()) + 1
    means = {}
    made = []
    for system, which in groups.items():
        means[system] = mean_labels(rows.labels[which], values[which], rows.contexts[which], n_all_contexts)
        counts = {"n_labels": int(rows.labelled[which].sum()), "n_texts": int(which.sum())}
        row, means[system] = make_estimate(system, "", means[system], counts, confidence, share=min_score is not None)
        made.append(row)
    made.sort(key=lambda row: -row.value.value if row.n_labels else math.inf)  # The best comes first.
    for one, other in list(combinations(made, 2)):
        counts = {name: min(getattr(one, name), getattr(other, name)) for name in ("n_labels", "n_texts")}
        difference = means[one.system].minus(means[other.system])
        made.append(make_estimate(one.system, other.system, difference, counts, confidence, share=False)[0])
    left_out = left_out_lines(rows.errors, unmatched=rows.unmatched)
    return Estimates(
        rows=tuple(made),
        confidence=confidence,
        signature=rows.signature,
        drawn=rows.drawn,
        left_out=(*left_out, *_without(rows)),
        n_broken=len(rows.errors),
    )


def make_estimate(
    system: str, minus: str, means: Means, counts: Mapping[str, int], confidence: float, *, share: bool
) -> tuple[Estimate, Means]:
    """The estimate, and the means that it is made from: labels alone where scores would only widen the interval."""

    def interval(which: Literal["corrected", "labels_alone", "scores_alone"], variance_of: float) -> IntervalEstimate:
        mean = getattr(means, which)
        if share:
            return share_interval(mean, confidence, variance_of * (1 - variance_of))
        return t_interval(mean, confidence)

    labels_alone = interval("labels_alone", means.labels_alone.value)
    corrected = interval("corrected", means.labels_alone.value)
    n_contexts = means.labels_alone.n_contexts
    without_scores = not corrected.width <= WIDER * labels_alone.width
    if without_scores:
        means, corrected = means.by_labels_alone(), labels_alone
    note = _note(counts["n_labels"], n_contexts, labels_alone, means.weight)
    if without_scores and not note:
        note = "labels alone: with the scores the interval would be longer"
    made = Estimate(
        system=system,
        minus=minus,
        value=corrected,
        labels_alone=labels_alone,
        scores_alone=interval("scores_alone", means.scores_alone.value),
        weight=math.nan if minus else means.weight,
        n_contexts=n_contexts,
        note=note,
        **counts,
    )
    return made, means


def _note(n_labels: int, n_contexts: int, labels_alone: IntervalEstimate, weight: float) -> str:
    if n_contexts < 2:
        return f"no interval: labels are of {counted(n_contexts, 'context', 'contexts')}, expected 2 or more"
    if math.isnan(labels_alone.low):
        return "no interval: labels do not differ between contexts, and do not say how they vary"
    if n_labels < FEW_LABELS or n_contexts < FEW_CONTEXTS:
        return f"few labels: intervals were checked from {FEW_LABELS} labels of {FEW_CONTEXTS} contexts on"
    if weight == 1:
        return "lambda is at its most, 1: scores on as wide a scale as the labels would tell more"
    return ""


def _read_rating(row: Row) -> float | None:
    if not row.has("human") and row.has("label"):
        problem = f"there is no 'human', but label is {shorten(row.values['label'])}: it says which texts are good"
        remedy = "For the share of good texts say which scores are good (--min-score)"
        raise row_error(row, "human", None, problem, remedy)
    return read_number(row, "human")


def _groups(rows: LabelledRows, by: Literal["system"] | None) -> dict[str, np.ndarray]:
    """System -> which texts are of it; without `by`, "" -> all texts."""
    if by is None:
        return {"": np.ones(len(rows.scores), dtype=bool)}
    systems = np.array(rows.systems)
    if without := [score.id for score, system in zip(rows.scores, rows.systems, strict=True) if not system]:
        raise InputError(
            f"cannot estimate by system: {len(without)} of {len(systems)} texts name none, such as {without[0]!r}. "
            "Give the rows of scores a column system, or the texts ids CONTEXT/SYSTEM",
            field="system",
            value=without[0],
        )
    return {system: systems == system for system in dict.fromkeys(rows.systems)}


def _without(rows: LabelledRows) -> Iterator[str]:
    if n := sum(score.value is None for score in rows.scores):
        texts = counted(n, "text is", "texts are")
        yield f"{texts} unscored: each is taken to have the mean score"
    if n := sum(not score.context_id for score in rows.scores):
        yield f"{counted(n, 'text names', 'texts name')} no context: each is taken for one of its own"
