"""A run -> the numbers of each section of its report. Pure NumPy: no files, no page.

A *group* is the scores of one file, or of one method, on one attribute.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from ..errors import alike
from ..evaluation.agreement import per_context, spearman
from ..signature import Signature
from ..thresholds.rules import limits
from ..types import BoolArray, FloatArray, IntArray, Ladder, Target
from .read import Run
from .score_row import ScoreRow


@dataclass(frozen=True, eq=False)
class Group:
    """name : of the file or method. n_rungs : of the scale that the scores are on; None: it is not a scale of rungs.

    min_score : a threshold that means something on this scale
    """

    name: str
    attribute: str
    rows: tuple[ScoreRow, ...]
    n_rungs: int | None
    min_score: float | None = None

    @cached_property
    def values(self) -> FloatArray:
        """Shape (n,), NaN where unscored."""
        return _floats(row.value for row in self.rows)

    @cached_property
    def stderr(self) -> FloatArray:
        """Shape (n,), NaN where a row tells none."""
        return _floats(row.stderr for row in self.rows)

    @cached_property
    def bounds(self) -> tuple[FloatArray, FloatArray]:
        """The least and the greatest that each score can be, as `synthscore filter` takes them."""
        partial = np.array([row.status == "partial" for row in self.rows], dtype=bool)
        low, high = (_floats(getattr(row, name) for row in self.rows) for name in ("low", "high"))
        return limits(self.values, self.stderr, low, high, partial)

    @cached_property
    def scored(self) -> BoolArray:
        return ~np.isnan(self.values)

    @cached_property
    def count(self) -> Counter[str]:
        """Rows by status."""
        return Counter(row.status for row in self.rows)

    @cached_property
    def by_rung(self) -> list[RungVerdicts]:
        """What the judge said against each level, worst first; empty without verdicts."""
        return _by_rung(self.rows)

    @property
    def median(self) -> float:
        return float(np.median(self.values[self.scored])) if self.scored.any() else float("nan")

    @property
    def span(self) -> tuple[float, float]:
        """The least and the greatest score: that there are, or that the scale of rungs has."""
        known = self.values[self.scored] if self.scored.any() else np.zeros(1)
        low, high = float(known.min()), float(known.max())
        return (low, high) if self.n_rungs is None else (min(low, 0.0), max(high, rung_top(self.n_rungs)))


def rung_top(n_rungs: int) -> float:
    """The score of a text that is better than all rungs."""
    return float(np.sqrt(n_rungs * (n_rungs + 1)))


def groups(run: Run, min_score: float | None = None) -> list[Group]:
    """min_score : a threshold for the groups on scales of rungs, or, where there are none, for all"""
    found: dict[tuple[str, str], list[ScoreRow]] = {}
    for name, rows in run.scores.items():
        for row in rows:
            found.setdefault((name, row.attribute), []).append(row)
    sizes = {key: _n_rungs(rows) for key, rows in found.items()}
    on_rungs = any(sizes.values())
    return [
        Group(*key, tuple(rows), sizes[key], min_score if sizes[key] or not on_rungs else None)
        for key, rows in found.items()
    ]


def _n_rungs(rows: Sequence[ScoreRow]) -> int | None:
    """The scale of all scored rows, where it is one scale of rungs."""
    sizes = {row.n_rungs for row in rows if row.value is not None}
    return sizes.pop() if len(sizes) == 1 else None


# ------------------------------------------------------------------------------------------------- scores


class Decisions(NamedTuple):
    """What a threshold does: texts that reach it, that may or may not, that do not, and that have no score.

    An unscored text that its limits decide is kept or below.
    """

    threshold: float
    kept: int
    undecided: int
    below: int
    unscored: int


def decisions(group: Group, threshold: float) -> Decisions:
    """As `synthscore filter --min-score` decides: kept where the least that a score can be reaches the threshold."""
    low, high = group.bounds
    kept, below = low >= threshold, high < threshold
    open_ = ~(kept | below)
    n_open, n_unscored = int((open_ & group.scored).sum()), int((open_ & ~group.scored).sum())
    return Decisions(threshold, int(kept.sum()), n_open, int(below.sum()), n_unscored)


def thresholds(group: Group) -> list[Decisions]:
    """At every half rung, or, on a scale that has no rungs, at every tenth of the texts."""
    if group.n_rungs is None:
        tenths = np.quantile(group.values[group.scored], np.arange(1, 10) / 10)
        return [decisions(group, float(value)) for value in dict.fromkeys(tenths.tolist())]
    step = 0.5 if group.n_rungs <= 12 else group.n_rungs / 24
    return [decisions(group, float(value)) for value in np.arange(step, group.n_rungs + step / 2, step)]


# ------------------------------------------------------------------------------------------------- verdicts


class RungVerdicts(NamedTuple):
    """What the judge said of texts held against the rungs of one level: mean probabilities.

    n, better, worse, similar : over both orders where both were asked. ties : share of answers with Similar on top
    as_asked, swapped : P(better), in each order, over the n_both texts answered in both; NaN without
    changed : share of these whose verdict (better or worse, by margin) is another in the other order
    """

    level: int
    n: int
    better: float
    worse: float
    similar: float
    ties: float
    n_both: int
    as_asked: float
    swapped: float
    changed: float

    @property
    def favour(self) -> float:
        """By how many points the judge prefers the text that it is asked about, whichever that is."""
        return 50 * (self.as_asked - self.swapped)


def _by_rung(rows: Sequence[ScoreRow]) -> list[RungVerdicts]:
    table = np.array(
        [
            (place, v.level, v.swapped, v.better, v.worse, v.similar)
            for place, row in enumerate(rows)
            for v in row.verdicts
        ]
    ).reshape(-1, 6)
    found = []
    for level in np.unique(table[:, 1]).tolist():
        at = table[table[:, 1] == level]
        both = _both_orders(at)
        better, worse, similar = at[:, 3:].mean(axis=0).tolist()
        ties = float((at[:, 5] > at[:, 3:5].max(axis=1)).mean())
        found.append(RungVerdicts(int(level), len(np.unique(at[:, 0])), better, worse, similar, ties, *both))
    return found


def _both_orders(at: FloatArray) -> tuple[int, float, float, float]:
    """n_both, as_asked, swapped and changed of the rows of one level."""
    orders = [at[at[:, 2] == swapped] for swapped in (0, 1)]
    _, *places = np.intersect1d(orders[0][:, 0], orders[1][:, 0], return_indices=True)
    asked, swapped = (order[place, 3:] for order, place in zip(orders, places, strict=True))
    if not len(asked):
        return 0, float("nan"), float("nan"), float("nan")
    changed = ((asked[:, 0] > asked[:, 1]) != (swapped[:, 0] > swapped[:, 1])).mean()
    return len(asked), float(asked[:, 0].mean()), float(swapped[:, 0].mean()), float(changed)


def overall(by_rung: Sequence[RungVerdicts]) -> tuple[float, float]:
    """Mean favour in points, and the share of pairs that get another verdict in the other order; NaN without both."""
    n = np.array([rung.n_both for rung in by_rung], dtype=np.float64)
    if not n.sum():
        return float("nan"), float("nan")
    known = n > 0
    means = [np.array([getattr(rung, name) for rung in by_rung])[known] for name in ("favour", "changed")]
    return float(means[0] @ n[known] / n.sum()), float(means[1] @ n[known] / n.sum())


# ------------------------------------------------------------------------------------------------- mass, length


def masses(run: Run) -> list[tuple[float, str, ScoreRow]]:
    """Label mass, file or method, and row, of each row that tells it; the lowest first."""
    known = [
        (row.label_mass, name, row) for name, rows in run.scores.items() for row in rows if row.label_mass is not None
    ]
    return sorted(known, key=lambda one: one[0])


@dataclass(frozen=True, slots=True, eq=False)
class LengthEffect:
    """Scores against words.

    words, values : shape (n_shown,); of all n texts, or of some, spread evenly over the lengths
    bins : (median length, median score) of up to eight parts of all texts, about equally many in each
    pooled, inside : Spearman's correlation over all texts, and inside contexts (mean of n_contexts)
    """

    words: IntArray
    values: FloatArray
    n: int
    bins: tuple[tuple[float, float], ...]
    pooled: float
    inside: float
    n_contexts: int


def length_effect(group: Group, texts: Mapping[str, Target], most: int) -> LengthEffect | None:
    """None where fewer than three scored texts can be read. most : points shown"""
    known = [row for row in group.rows if row.value is not None and row.id in texts]
    if len(known) < 3:
        return None
    words = np.array([len(texts[row.id].text.split()) for row in known])
    values = _floats(row.value for row in known)
    inside = per_context(values, words, [row.context_id for row in known])
    edges = np.quantile(words, np.linspace(0, 1, max(1, min(8, len(known) // 5)) + 1)[1:-1])
    part = np.searchsorted(edges, words)  # equal lengths stay together
    bins = [(float(np.median(words[part == k])), float(np.median(values[part == k]))) for k in np.unique(part)]
    order = np.lexsort((values, words))
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(most, len(order))).round().astype(int))]
    return LengthEffect(
        words[shown],
        values[shown],
        len(known),
        tuple(bins),
        spearman(values, words),
        inside.value,
        inside.n_contexts,
    )


# ------------------------------------------------------------------------------------------------- failures


class Failure(NamedTuple):
    """Rows that failed for one reason. ids : the first few"""

    name: str
    status: str
    n: int
    reason: str
    ids: tuple[str, ...]


def failures(run: Run) -> list[Failure]:
    """Reasons of rows that are not whole, the most frequent first; those alike but for names and numbers are one.

    A row that lacks several rungs counts once for each different reason.
    """
    found: dict[tuple[str, str, str], list[tuple[str, str]]] = {}
    for name, rows in run.scores.items():
        for row in rows:
            if row.reason or row.status != "ok":
                reasons = {alike(reason): reason for reason in re.split(r"; (?=rung \d)", row.reason)}
                for kind, reason in reasons.items():
                    found.setdefault((name, row.status, kind), []).append((row.id, reason))
    listed = [
        Failure(name, status, len(rows), rows[0][1], tuple(islice(dict.fromkeys(own for own, _ in rows), 5)))
        for (name, status, _), rows in found.items()
    ]
    return sorted(listed, key=lambda failure: -failure.n)


# ------------------------------------------------------------------------------------------------- one ladder


@dataclass(frozen=True, slots=True)
class LadderView:
    """A ladder, and the texts that were scored on it, best first."""

    name: str
    ladder: Ladder
    rows: tuple[ScoreRow, ...]


def ladder_views(run: Run, found: Sequence[Group], context_id: str | None = None, most: int = 4) -> list[LadderView]:
    """The ladders of one context: the one with the most texts, all of them scored; or those of the context named.

    Empty without ladders, or where none of them is a scored text's. most : views of a named context
    """
    ladders: dict[tuple[str, str], list[Ladder]] = {}
    for ladder in run.references or ():
        ladders.setdefault((ladder.context_id, ladder.attribute), []).append(ladder)
    views = []
    for group in found:
        own: dict[tuple[str, str], list[ScoreRow]] = {}
        for row in group.rows if group.n_rungs is not None else ():
            if context_id in (None, row.context_id):
                own.setdefault((row.part("task"), row.context_id), []).append(row)
        for (task, context), rows in own.items():
            asked = rows[0].part("attribute") or group.attribute
            of_tasks = [ladder for ladder in ladders.get((context, asked), ()) if task in ("", ladder.task)]
            if len(of_tasks) == 1 and of_tasks[0].n_rungs == group.n_rungs:
                rows.sort(key=lambda row: -np.inf if row.value is None else row.value, reverse=True)
                views.append(LadderView(group.name, of_tasks[0], tuple(rows)))
    best = sorted(views, key=_instructive, reverse=True)
    return best[: 1 if context_id is None else most]


def _instructive(view: LadderView) -> tuple[bool, bool, bool, int, float]:
    """All scored, all rungs there, verdicts to see, many texts, far apart."""
    values = _floats(row.value for row in view.rows)
    whole = all(row.status == "ok" for row in view.rows)
    spread = float(np.ptp(values)) if whole else 0.0
    full = len(view.ladder.usable) == view.ladder.n_rungs
    return whole, full, any(row.verdicts for row in view.rows), len(view.rows), spread


# ------------------------------------------------------------------------------------------------- signature


def merged_signature(rows: Iterable[ScoreRow]) -> tuple[dict[str, list[str]], list[str]]:
    """Part -> its values, of all signatures; and the signatures themselves, each once."""
    lines = list(dict.fromkeys(row.signature for row in rows if row.signature))
    parts: dict[str, dict[str, None]] = {}
    for line in lines:
        for name, value in Signature.of_any(line).parts:
            parts.setdefault(name, {})[value] = None
    return {name: list(values) for name, values in parts.items()}, lines


def _floats(values: Iterable[float | None]) -> FloatArray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
