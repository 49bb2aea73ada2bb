"""Numbers of a run -> the figures of its page."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from ..scoring.anchored.drift import Drift
from ..scoring.anchored.scale import Seen
from ..types import FloatArray, Score
from . import figures as draw
from .agreement import Figure
from .figures import Mark
from .ladders import VIEW, LadderView, interval
from .numbers import Group, LengthEffect, rung_top
from .verdicts import RungVerdicts

RUNGS = 24  # of a figure
POINTS = 60  # of a control chart; more contexts are averaged, neighbours together
LIMIT = 3.0  # standard deviations


def distribution(group: Group) -> Markup:
    n_rungs, (low, high) = group.n_rungs, group.span
    return draw.histogram(
        group.values[group.scored],
        group.span,
        _marks(group),
        n_bins=20 if n_rungs is None or n_rungs > 6 else max(4, round((high - low) * 4)),
        label="score" if n_rungs is None else f"score, in rungs (1 worst, {n_rungs} best)",
        cut=group.min_score,
        title=f"Distribution of scores, {group.attribute}",
    )


def _marks(group: Group) -> list[Mark]:
    return draw.number_marks(*group.span) if group.n_rungs is None else draw.rung_marks(group.n_rungs)


def on_ladder(view: LadderView, min_score: float | None) -> Markup:
    n_rungs, shown = view.ladder.n_rungs, view.shown
    bounded = [score for score in view.unscored if interval(score).kind]
    dots = [
        draw.Dot(short_id(score), math.nan if score.value is None else score.value, *interval(score)[:2])
        for score in (*shown, *bounded[: VIEW - len(shown)])
    ]
    known = [end for dot in dots for end in dot[1:] if not math.isnan(end)]
    return draw.dots(
        dots,
        (min([0.0, *known]), max([rung_top(n_rungs), *known])),
        draw.rung_marks(n_rungs),
        label=f"score, in rungs (1 worst, {n_rungs} best)",
        title=f"Texts on the ladder {view.title}",
        class_="rule",
        cut=math.nan if min_score is None else min_score,
    )


def short_id(score: Score) -> str:
    """A text's id without that of its context, under which it is shown."""
    return score.id.removeprefix(f"{score.context_id}/") or score.id


def verdicts_on(score: Score, n_rungs: int) -> Markup:
    return draw.verdict_columns(score.verdicts, n_rungs, title=f"Verdicts on {score.id} against each rung")


def by_rung(group: Group) -> Markup:
    bars = [(f"rung {r.level}", r.better, r.similar, r.worse) for r in group.by_rung[:RUNGS]]
    return draw.shares(bars, label="mean over texts", title=f"Verdicts by rung, {group.attribute}")


def position_bias(group: Group, both: Sequence[RungVerdicts]) -> Markup:
    """A dot where the text is asked about, and a line to where the rung is."""
    pairs = [draw.Dot(f"rung {r.level}", r.as_asked, *sorted((r.as_asked, r.swapped))) for r in both[:RUNGS]]
    return draw.dots(
        pairs, (0.0, 1.0), draw.SHARES, label="P(better), mean over texts",
        title=f"Position bias, {group.attribute}", class_="grid",
    )  # fmt: skip


def label_mass(name: str, masses: FloatArray) -> Markup:
    marks = [Mark(at, f"{at:g}") for at in (0, 0.25, 0.5, 0.75, 1)]
    title = f"Label mass, {name}"
    return draw.histogram(masses, (0.0, 1.0), marks, n_bins=20, label="label mass", title=title)


def length(group: Group, effect: LengthEffect) -> Markup:
    return draw.dots(
        [draw.Dot(f"{words:g} words", score) for words, score in effect.bins], group.span, _marks(group),
        label="median score", title=f"Score by length, {group.attribute}", class_="grid",
    )  # fmt: skip


def agreement(own: Sequence[Figure], ends: tuple[float, float], ceiling: float) -> Markup:
    """All methods at one level on one attribute. ends : of the scale. ceiling : NaN where it is not known"""
    _, attribute, level, statistic, *_ = own[0]
    return draw.dots(
        [draw.Dot(figure.method, figure.value, figure.low, figure.high) for figure in own],
        ends, draw.number_marks(*ends), label=f"{statistic}, {level}",
        title=f"Agreement with people, {attribute}, {level}", class_="grid", cut=ceiling,
    )  # fmt: skip


def control(drift: Drift) -> Markup:
    """Where each context puts its rungs, in the order of the run, around where the fit's contexts put them."""
    seen = np.array(list(drift.rungs.values()))
    parts = np.array_split(seen, min(POINTS, len(seen)))
    points = np.array([part.mean(axis=0) for part in parts])
    was = {change.name: change.was for change in drift.changes}
    level = np.arange(1, seen.shape[1] + 1) - (seen.shape[1] + 1) / 2
    lines, variance = (seen.shape[1] + 1) / 2 + level * was["sharpness"].value, level**2 * _squared(was["sharpness"])
    for k, own in enumerate(was.get(f"rung {k + 1}") for k in range(seen.shape[1])):
        if own is not None:
            lines[k], variance[k] = lines[k] + own.value - (k + 1), variance[k] + _squared(own)
    out = np.abs(points - lines) > LIMIT * np.sqrt(variance / np.array([[len(part)] for part in parts]))
    label = "contexts, in the order of the run" + f", {len(parts[0])} a point" * (len(parts[0]) > 1)
    return draw.control(points, lines.tolist(), out, label=label, title=f"Where rungs are seen, {drift.of}")


def _squared(seen: Seen) -> float:
    """Variance between contexts."""
    return seen.stderr**2 * seen.n
