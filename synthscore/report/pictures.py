"""Numbers of a run -> the figures of its page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

from ..scoring.paper import rung_top
from ..types import FloatArray, Score
from . import figures as draw
from .agreement import Figure, nan_for_none
from .figures import Mark
from .ladders import VIEW, LadderView, interval
from .numbers import LengthEffect, ScoreGroup
from .verdicts import MeanVerdicts

RUNGS = 24  # of a figure


def distribution(group: ScoreGroup) -> Markup:
    low, high = group.span
    n_bins, label = 20, "score"
    if group.n_rungs is not None:
        label = f"score, in rungs (1 worst, {group.n_rungs} best)"
        if group.n_rungs <= 6:
            n_bins = max(4, round((high - low) * 4))
    title = f"Distribution of scores, {group.attribute}"
    values = group.values[group.scored]
    return draw.histogram(
        values, group.span, _marks(group), n_bins=n_bins, label=label, cut=group.min_score, title=title
    )


def _marks(group: ScoreGroup) -> list[Mark]:
    return draw.number_marks(*group.span) if group.n_rungs is None else draw.rung_marks(group.n_rungs)


def on_ladder(view: LadderView, min_score: float | None) -> Markup:
    scale, shown = view.ladder.scale, view.shown
    bounded = [score for score in view.unscored if interval(score).kind]
    dots = []
    for score in (*shown, *bounded[: VIEW - len(shown)]):
        low, high, _ = interval(score)
        dots.append(draw.Dot(short_id(score), nan_for_none(score.value), low, high))
    known = [end for dot in dots for end in dot[1:] if not math.isnan(end)]
    span = min([0.0, *known]), max([rung_top(scale), *known])
    label = f"score, in rungs (1 worst, {scale} best)"
    marks = [draw.Mark(view.place(rung.level), str(rung.level)) for rung in view.ladder.rungs]
    title = f"Texts on the ladder {view.title}"
    cut = nan_for_none(min_score)
    return draw.dots(dots, span, marks, label=label, title=title, class_="rule", cut=cut)


def short_id(score: Score) -> str:
    """A text's id without that of its context, under which it is shown."""
    return score.id.removeprefix(f"{score.context_id}/") or score.id


def verdicts_on(score: Score, n_rungs: int) -> Markup:
    """n_rungs : of the ladder, where the score does not say it"""
    n_rungs = round(score.details.get("n_rungs", n_rungs))
    return draw.verdict_columns(score.verdicts, n_rungs, title=f"Verdicts on {score.id} against each rung")


def by_rung(group: ScoreGroup) -> Markup:
    bars = [(f"rung {r.level}", r.better, r.similar, r.worse) for r in group.by_rung[:RUNGS]]
    return draw.shares(bars, label="mean over texts", title=f"Verdicts by rung, {group.attribute}")


def position_bias(group: ScoreGroup, both: Sequence[MeanVerdicts]) -> Markup:
    """A dot where the text is asked about, and a line to where the rung is."""
    pairs = []
    for rung in both[:RUNGS]:
        low, high = sorted((rung.as_asked, rung.swapped))
        pairs.append(draw.Dot(f"rung {rung.level}", rung.as_asked, low, high))
    title = f"Position bias, {group.attribute}"
    return draw.dots(pairs, (0.0, 1.0), draw.SHARES, label="P(better), mean over texts", title=title, class_="grid")


def label_mass(name: str, masses: FloatArray) -> Markup:
    title = f"Label mass, {name}"
    marks = [Mark(at, f"{at:g}") for at in (0, 0.25, 0.5, 0.75, 1)]
    return draw.histogram(masses, (0.0, 1.0), marks, n_bins=20, label="label mass", title=title)


def length(group: ScoreGroup, effect: LengthEffect) -> Markup:
    dots = [draw.Dot(f"{words:g} words", score) for words, score in effect.bins]
    title = f"Score by length, {group.attribute}"
    return draw.dots(dots, group.span, _marks(group), label="median score", title=title, class_="grid")


def agreement(own: Sequence[Figure], ends: tuple[float, float], ceiling: float) -> Markup:
    """All methods at one level on one attribute. ends : of the scale. ceiling : NaN where it is not known"""
    _, attribute, level, statistic, *_ = own[0]
    dots = [draw.Dot(figure.method, figure.value, figure.low, figure.high) for figure in own]
    label = f"{statistic}, {level}"
    title = f"Agreement with people, {attribute}, {level}"
    return draw.dots(dots, ends, draw.number_marks(*ends), label=label, title=title, class_="grid", cut=ceiling)
