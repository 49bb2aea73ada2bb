"""Numbers -> SVG. What a page shows is drawn 360 units wide, so that it reads on a phone, and has its colours from
the classes of the page's style.

Every text and number goes through `tag`, which escapes it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from ..types import FloatArray, Verdict
from .verdicts import mean_verdicts
from .words import clip, clip_middle, number, percent, spaced

WIDTH = 360
LEFT, RIGHT = 40, WIDTH - 10
NAME = 22  # characters of a row's name

Scale = Callable[[float], float]


class Mark(NamedTuple):
    """A position on an axis, and what is written there."""

    at: float
    label: str


def tag(name: str, *inside: str, **attributes: float | str | None) -> Markup:
    """An element, all of it escaped. class_ for class, stroke_width for stroke-width; None leaves an attribute out."""
    shown = Markup("")
    for key, value in attributes.items():
        if value is not None:
            key = key.rstrip("_").replace("_", "-")
            shown += Markup(' {}="{}"').format(key, _plain(value))
    return Markup("<{0}{1}>{2}</{0}>").format(name, shown, Markup("").join(inside))


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.1f}".removesuffix(".0")


def _svg(height: float, title: str, description: str, *parts: Markup) -> Markup:
    size = f"0 0 {WIDTH} {_plain(height)}"
    return tag("svg", tag("title", title), tag("desc", description), *parts, viewBox=size, role="img")


def _text(x: float, y: float, text: str, class_: str | None = None, anchor: str | None = None) -> Markup:
    return tag("text", text, x=x, y=y, class_=class_, text_anchor=anchor)


def _path(d: str, class_: str) -> Markup:
    return tag("path", d=d, class_=class_)


def _down(x: float, top: float, bottom: float, class_: str) -> Markup:
    return _path(f"M{x:.1f} {top}V{bottom}", class_)


def _across(start: float, end: float, class_: str) -> Markup:
    """A line at y = 0."""
    return _path(f"M{start:.1f} 0H{end:.1f}", class_)


def _bar(x: float, y: float, width: float, height: float, class_: str) -> Markup:
    return tag("rect", x=x, y=y, width=width, height=height, class_=class_)


def _scale(low: float, high: float, start: float, end: float) -> Scale:
    span = high - low or 1.0
    return lambda value: start + (end - start) * (value - low) / span


def ticks(low: float, high: float) -> list[float]:
    """Round numbers within [low, high], 3 to 8 of them."""
    span = (high - low) or 1.0
    power = 10 ** math.floor(math.log10(span / 4))
    steps = (power * m for m in (1, 2, 5, 10))
    step = next(step for step in steps if span / step <= 7)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 10) for k in range(first, last + 1)]


def number_marks(low: float, high: float) -> list[Mark]:
    return [Mark(value, f"{value:g}".replace("-", "−")) for value in ticks(low, high)]


def rung_marks(n_rungs: int) -> list[Mark]:
    return [Mark(level, str(level)) for level in range(1, n_rungs + 1)]


# ------------------------------------------------------------------------------------------------- figures of a page


def histogram(
    values: FloatArray, span: tuple[float, float], marks: Sequence[Mark], *, n_bins: int, label: str, title: str,
    cut: float | None = None,
) -> Markup:  # fmt: skip
    """How many texts have each score. cut : a dashed line, with its number on top"""
    low, high = span
    if low == high:
        low, high = low - 0.5, high + 0.5
    counts = np.histogram(values, bins=n_bins, range=(low, high))[0].tolist()
    most = max(*counts, 1)
    top, bottom = 24.0, 152.0
    across = _scale(low, high, LEFT + 4, RIGHT - 4)
    up = _scale(0, most, bottom, top)
    parts = [_text(0, 11, "texts", "soft")]
    for level in (value for value in ticks(0, most) if value == round(value)):
        parts += [_path(f"M{LEFT} {up(level):.1f}H{RIGHT}", "grid")]
        parts += [_text(LEFT - 6, up(level) + 4, spaced(int(level)), anchor="end")]
    width = (across(high) - across(low)) / n_bins
    for index, count in enumerate(counts):
        if count:
            x = across(low) + index * width + 0.5
            height = max(bottom - up(count), 0.8)
            parts.append(_bar(x, up(count), max(width - 1, 0.5), height, "fill-a"))
    if cut is not None and low <= cut <= high:
        parts += [_down(across(cut), top - 8, bottom, "cut")]
        parts += [_text(across(cut), top - 11, f"{cut:g}", "strong", "middle")]
    parts.append(_path(f"M{LEFT} {bottom:.1f}H{RIGHT}", "axis"))
    described = f"{len(values)} values from {low:.3g} to {high:.3g}; the highest bar is {most}."
    return _rows(parts, across, marks, bottom, "grid", label, title, described)


class Dot(NamedTuple):
    """A value with its interval, NaN where it has none, and its name."""

    name: str
    value: float
    low: float = math.nan
    high: float = math.nan


def dots(
    rows: Sequence[Dot], span: tuple[float, float], marks: Sequence[Mark], *, label: str, title: str, class_: str,
    cut: float = math.nan,
) -> Markup:  # fmt: skip
    """A row a dot, its name before it and its value behind; where the value is NaN, no dot.

    marks : lines of class_ through all rows. cut : a dashed one; NaN: none
    """
    names = [clip_middle(row.name, NAME) for row in rows]
    longest = max(map(len, names), default=0)
    low, high = span
    across = _scale(low, high, 14 + 6.8 * longest, RIGHT - 44)
    parts = []
    if low <= cut <= high:
        parts.append(_down(across(cut), 0, _height(rows), "cut"))
    for index, row in enumerate(rows):
        shapes = [_across(across(low), across(high), "grid")]
        if not math.isnan(row.low) and not math.isnan(row.high):
            shapes.append(_across(across(row.low), across(row.high), "bar"))
        if not math.isnan(row.value):
            shapes.append(tag("circle", cx=across(row.value), cy=0, r=4.5, class_="fill-a"))
        shapes.append(_text(RIGHT, 4, number(row.value), "strong", "end"))
        parts.append(_row(index, names[index], *shapes))
    shown = [f"{clip(row.name, 30)} {number(row.value)}" for row in rows[:40]]
    described = f"{len(rows)} rows. {'; '.join(shown)}"
    return _rows(parts, across, marks, _height(rows), class_, label, title, described)


SHARES = [Mark(0, percent(0)), Mark(0.25, ""), Mark(0.5, percent(0.5)), Mark(0.75, ""), Mark(1, percent(1))]
COLOURS = ("fill-a", "fill-c", "fill-b")  # of better, similar, worse
_of_rows = _scale(0, 1, LEFT + 20, RIGHT - 20)


def shares(rows: Sequence[tuple[str, float, float, float]], *, label: str, title: str) -> Markup:
    """A bar a row that is split into better, similar and worse; those of two questions may sum to more, and fill it."""
    parts, described = [], []
    for index, (name, better, similar, worse) in enumerate(rows):
        ends = np.cumsum([0.0, *_of_one((better, similar, worse))])
        places = [_of_rows(end) for end in ends]
        bars = []
        for start, end, class_ in zip(places, places[1:], COLOURS, strict=False):
            bars.append(_bar(start, -8, end - start, 16, class_))
        parts.append(_row(index, name, *bars))
        described.append(f"{name}: better {percent(better)}, similar {percent(similar)}, worse {percent(worse)}")
    return _rows(parts, _of_rows, SHARES, _height(rows), "grid", label, title, "; ".join(described))


def _of_one(shares: npt.ArrayLike) -> list[float]:
    """The shares, or, where they sum to more than 1, their parts of the sum."""
    total = max(np.sum(shares), 1.0)
    found: list[float] = (np.asarray(shares) / total).tolist()
    return found


def _height(rows: Sequence[object]) -> float:
    return 22.0 * len(rows)


def _row(index: int, name: str, *shapes: Markup) -> Markup:
    """A name, and shapes around y = 0."""
    return tag("g", _text(0, 4, name, "name"), *shapes, transform=f"translate(0 {22 * index + 11})")


def _rows(
    rows: Sequence[Markup], across: Scale, marks: Sequence[Mark], bottom: float, class_: str, label: str, title: str,
    described: str,
) -> Markup:  # fmt: skip
    """Rows, or bars, over lines of class_ at the marks, which are named below."""
    gap = float(WIDTH)
    if len(marks) > 1:
        gap = across(marks[1].at) - across(marks[0].at)
    widest = max((len(mark.label) for mark in marks), default=0)
    marks = marks[:: math.ceil((7 * widest + 6) / gap)]  # names that do not run into each other
    lines, names = [], []
    for mark in marks:
        lines.append(_down(across(mark.at), 0, bottom, class_))
        if mark.label:
            names.append(_text(across(mark.at), bottom + 16, mark.label, anchor="middle"))
    middle = WIDTH / 2
    if marks:
        left, right = across(marks[0].at), across(marks[-1].at)
        middle = (left + right) / 2
    below = _text(middle, bottom + 34, label, "soft", "middle")
    return _svg(bottom + 40, title, described, *lines, *rows, *names, below)


def verdict_columns(verdicts: Sequence[Verdict], n_rungs: int, *, title: str) -> Markup:
    """A column a rung, worst rung first: better at the bottom, then similar, worse on top; means over orders.

    A rung without a verdict is a gap.
    """
    width, height = 9, 24
    parts = []
    for level, probs in mean_verdicts(verdicts).items():
        y = float(height)
        x = (level - 1) * width
        for share, class_ in zip(_of_one(probs), COLOURS, strict=True):
            y -= height * share
            parts.append(_bar(x, y, width - 1, height * share, class_))
    size = f"0 0 {width * n_rungs} {height}"
    return tag("svg", tag("title", title), *parts, viewBox=size, role="img", class_="verdicts")
