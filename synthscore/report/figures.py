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

from ..types import BoolArray, FloatArray, Verdict
from .words import clip, clip_middle, number, percent, spaced

WIDTH = 360
LEFT, RIGHT = 40, WIDTH - 10
NAME = 22  # characters of a row's name

Scale = Callable[[float], float]


class Mark(NamedTuple):
    """A position on an axis, and what is written there."""

    at: float
    label: str


def tag(name: str, *inside: str, **attributes: object) -> Markup:
    """An element, all of it escaped. class_ for class, stroke_width for stroke-width; None leaves an attribute out."""
    shown = Markup("").join(
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), _plain(value))
        for key, value in attributes.items()
        if value is not None
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, shown, Markup("").join(inside))


def _plain(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float | np.floating) else str(value)


def _svg(height: float, title: str, description: str, *parts: Markup) -> Markup:
    size = f"0 0 {WIDTH} {_plain(float(height))}"
    return tag("svg", tag("title", title), tag("desc", description), *parts, viewBox=size, role="img")


def _text(x: float, y: float, text: str, class_: str | None = None, anchor: str | None = None) -> Markup:
    return tag("text", text, x=float(x), y=float(y), class_=class_, text_anchor=anchor)


def _path(d: str, class_: str) -> Markup:
    return tag("path", d=d, class_=class_)


def _bar(x: float, y: float, width: float, height: float, class_: str) -> Markup:
    return tag("rect", x=float(x), y=float(y), width=float(width), height=float(height), class_=class_)


def _scale(low: float, high: float, start: float, end: float) -> Scale:
    span = high - low or 1.0
    return lambda value: start + (end - start) * (value - low) / span


def ticks(low: float, high: float) -> list[float]:
    """Round numbers, 4 to 9 of them, from below `low` to above `high`."""
    span = (high - low) or 1.0
    power = 10 ** math.floor(math.log10(span / 4))
    step = next(power * m for m in (1, 2, 5, 10) if span / (power * m) <= 7)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(k * step, 10) for k in range(first, max(last, first + 1) + 1)]


def number_marks(low: float, high: float) -> list[Mark]:
    """Round numbers within [low, high]."""
    return [
        Mark(value, f"{value:g}".replace("-", "−")) for value in ticks(low, high) if low - 1e-9 <= value <= high + 1e-9
    ]


def rung_marks(n_rungs: int) -> list[Mark]:
    step = max(1, math.ceil(n_rungs / 12))
    return [Mark(level, str(level)) for level in range(1, n_rungs + 1, step)]


# ------------------------------------------------------------------------------------------------- figures of a page


def histogram(
    values: FloatArray, span: tuple[float, float], marks: Sequence[Mark], *, n_bins: int, label: str, title: str,
    cut: float | None = None,
) -> Markup:  # fmt: skip
    """How many texts have each score. cut : a dashed line, with its number on top"""
    low, high = span if span[1] > span[0] else (span[0] - 0.5, span[1] + 0.5)
    counts = np.histogram(values, bins=n_bins, range=(low, high))[0].tolist()
    most = max(*counts, 1)
    top, bottom = 24.0, 152.0
    across, up = _scale(low, high, LEFT + 4, RIGHT - 4), _scale(0, most, bottom, top)
    parts = [_text(0, 11, "texts", "soft")]
    for level in (value for value in ticks(0, most) if value == round(value) and value <= most):
        parts += [_path(f"M{LEFT} {up(level):.1f}H{RIGHT}", "grid")]
        parts += [_text(LEFT - 6, up(level) + 4, spaced(int(level)), anchor="end")]
    width = (across(high) - across(low)) / n_bins
    for index, count in enumerate(counts):
        if count:
            x, height = across(low) + index * width + 0.5, max(bottom - up(count), 0.8)
            parts.append(_bar(x, up(count), max(width - 1, 0.5), height, "fill-a"))
    if cut is not None and low <= cut <= high:
        parts += [_path(f"M{across(cut):.1f} {top - 8}V{bottom}", "cut")]
        parts += [_text(across(cut), top - 11, f"{cut:g}", "strong", "middle")]
    parts += [_path(f"M{LEFT} {bottom:.1f}H{RIGHT}", "axis")]
    for mark in marks:
        parts += [_path(f"M{across(mark.at):.1f} {bottom:.1f}v4", "axis")]
        parts += [_text(across(mark.at), bottom + 16, mark.label, anchor="middle")]
    parts.append(_text((LEFT + RIGHT) / 2, bottom + 33, label, "soft", "middle"))
    described = f"{len(values)} values from {low:.3g} to {high:.3g}; the highest bar is {most}."
    return _svg(bottom + 40, title, described, *parts)


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
    across = _scale(*span, 14 + 6.8 * max(map(len, names), default=0), RIGHT - 44)
    parts = [_path(f"M{across(cut):.1f} 0V{_height(rows)}", "cut")] if span[0] <= cut <= span[1] else []
    for index, row in enumerate(rows):
        shapes = [_path(f"M{across(span[0]):.1f} 0H{across(span[1]):.1f}", "grid")]
        if not math.isnan(row.low) and not math.isnan(row.high):
            shapes.append(_path(f"M{across(row.low):.1f} 0H{across(row.high):.1f}", "bar"))
        if not math.isnan(row.value):
            shapes.append(tag("circle", cx=across(row.value), cy=0, r=4.5, class_="fill-a"))
        parts.append(_row(index, names[index], *shapes, _text(RIGHT, 4, number(row.value), "strong", "end")))
    described = f"{len(rows)} rows. " + "; ".join(f"{clip(row.name, 30)} {number(row.value)}" for row in rows[:40])
    return _rows(parts, across, marks, _height(rows), class_, label, title, described)


def control(points: FloatArray, lines: Sequence[float], out: BoolArray, *, label: str, title: str) -> Markup:
    """Series of values, left to right, each around its line. points, out : shape (n, n_series)"""
    bottom, ends = 206.0, [*points.ravel().tolist(), *lines]
    across, up = _scale(0, max(len(points) - 1, 1), LEFT + 6, RIGHT - 6), _scale(min(ends), max(ends), bottom, 24)
    parts = [_text(0, 11, "rung", "soft")]
    for name, line, values, wrong in zip(
        range(1, len(lines) + 1), lines, points.T.tolist(), out.T.tolist(), strict=True
    ):
        parts += [
            _path(f"M{LEFT} {up(line):.1f}H{RIGHT}", "rule"),
            _text(LEFT - 6, up(line) + 4, str(name), None, "end"),
        ]
        parts += [
            tag("circle", cx=across(at), cy=up(value), r=2.2, class_="fill-b" if beyond else "fill-a")
            for at, (value, beyond) in enumerate(zip(values, wrong, strict=True))
        ]
    parts.append(_text((LEFT + RIGHT) / 2, bottom + 24, label, "soft", "middle"))
    return _svg(bottom + 32, title, f"{len(points)} points a rung; {int(out.sum())} beyond the limits.", *parts)


SHARES = [Mark(at, percent(at) if at in (0, 0.5, 1) else "") for at in (0, 0.25, 0.5, 0.75, 1)]
_of_rows = _scale(0, 1, LEFT + 20, RIGHT - 20)


def shares(rows: Sequence[tuple[str, float, float, float]], *, label: str, title: str) -> Markup:
    """A bar a row that is split into better, similar and worse; those of two questions may sum to more, and fill it."""
    parts = []
    for index, (name, *probs) in enumerate(rows):
        ends = np.cumsum([0.0, *_of_one(probs)])
        bars = [
            _bar(_of_rows(start), -8, _of_rows(end) - _of_rows(start), 16, class_)
            for start, end, class_ in zip(ends, ends[1:], ("fill-a", "fill-c", "fill-b"), strict=False)
        ]
        parts.append(_row(index, name, *bars))
    described = "; ".join(
        f"{name}: better {percent(better)}, similar {percent(similar)}, worse {percent(worse)}"
        for name, better, similar, worse in rows
    )
    return _rows(parts, _of_rows, SHARES, _height(rows), "grid", label, title, described)


def _of_one(shares: npt.ArrayLike) -> list[float]:
    """The shares, or, where they sum to more than 1, their parts of the sum."""
    found: list[float] = (np.asarray(shares) / max(np.sum(shares), 1.0)).tolist()
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
    """Rows over lines of class_ at the marks, which are named below."""
    gap = across(marks[1].at) - across(marks[0].at) if len(marks) > 1 else WIDTH
    widest = max((len(mark.label) for mark in marks), default=0)
    marks = marks[:: math.ceil((7 * widest + 6) / gap)]  # names that do not run into each other
    lines = [_path(f"M{across(mark.at):.1f} 0V{bottom}", class_) for mark in marks]
    names = [_text(across(mark.at), bottom + 16, mark.label, anchor="middle") for mark in marks if mark.label]
    middle = (across(marks[0].at) + across(marks[-1].at)) / 2 if marks else WIDTH / 2
    below = _text(middle, bottom + 34, label, "soft", "middle")
    return _svg(bottom + 40, title, described, *lines, *rows, *names, below)


def verdict_columns(verdicts: Sequence[Verdict], n_rungs: int, *, title: str) -> Markup:
    """A column a rung, worst rung first: better at the bottom, then similar, worse on top; means over orders.

    A rung without a verdict is a gap.
    """
    width, height = 9, 24
    by_level: dict[int, list[tuple[float, float, float]]] = {}
    for v in verdicts:
        by_level.setdefault(v.level, []).append((v.better, v.similar, v.worse))
    parts = []
    for level, probs in by_level.items():
        y = float(height)
        for share, class_ in zip(_of_one(np.mean(probs, axis=0)), ("fill-a", "fill-c", "fill-b"), strict=True):
            y -= height * share
            parts.append(_bar((level - 1) * width, y, width - 1, height * share, class_))
    size = f"0 0 {width * n_rungs} {height}"
    return tag("svg", tag("title", title), *parts, viewBox=size, role="img", class_="verdicts")
