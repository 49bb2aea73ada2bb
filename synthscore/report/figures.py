"""Numbers -> inline SVG, drawn 360 units wide so that it reads on a phone. Colours are classes of the page's style.

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
from .layout import percent
from .lines import ticks

WIDTH = 360
SERIES = 7  # colours and dashes of lines in the page's style: .s0 .. .s6
LEFT, RIGHT = 40, WIDTH - 10

Scale = Callable[[float], float]


class Mark(NamedTuple):
    """A place on an axis, and what is written there."""

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


def _text(x: float, y: float, text: str, class_: str = "", anchor: str | None = None) -> Markup:
    return tag("text", text, x=float(x), y=float(y), class_=class_ or None, text_anchor=anchor)


def _path(d: str, class_: str) -> Markup:
    return tag("path", d=d, class_=class_)


def _scale(low: float, high: float, start: float, end: float) -> Scale:
    span = high - low or 1.0
    return lambda value: start + (end - start) * (value - low) / span


def _axis(across: Scale, marks: Sequence[Mark], y: float, label: str) -> list[Markup]:
    """A horizontal axis with its marks below, and the label below them."""
    parts = [_path(f"M{LEFT} {y:.1f}H{RIGHT}", "axis")]
    for mark in marks:
        parts += [_path(f"M{across(mark.at):.1f} {y:.1f}v4", "axis")]
        parts += [_text(across(mark.at), y + 16, mark.label, anchor="middle")]
    return [*parts, _text((LEFT + RIGHT) / 2, y + 33, label, "soft", "middle")]


def number_marks(low: float, high: float) -> list[Mark]:
    """Round numbers within [low, high]."""
    return [Mark(value, f"{value:g}") for value in ticks(low, high) if low - 1e-9 <= value <= high + 1e-9]


def rung_marks(n_rungs: int) -> list[Mark]:
    step = max(1, math.ceil(n_rungs / 12))
    return [Mark(level, str(level)) for level in range(1, n_rungs + 1, step)]


# ------------------------------------------------------------------------------------------------- figures


def histogram(
    whole: FloatArray, partial: FloatArray, span: tuple[float, float], marks: Sequence[Mark], *,
    n_bins: int, label: str, lines: Sequence[Mark], title: str,
) -> Markup:  # fmt: skip
    """How many texts have each score; partial ones on top, lighter. lines : dashed, with a word at their top"""
    low, high = span if span[1] > span[0] else (span[0] - 0.5, span[1] + 0.5)
    counts = [np.histogram(values, bins=n_bins, range=(low, high))[0] for values in (whole, partial)]
    most = max(int((counts[0] + counts[1]).max()), 1)
    top, bottom = 22.0, 150.0
    across, up = _scale(low, high, LEFT + 4, RIGHT - 4), _scale(0, most, bottom, top)
    parts = [_path(f"M{LEFT} {up(value):.1f}H{RIGHT}", "grid") for value in _count_ticks(most)]
    parts += [_text(LEFT - 6, up(value) + 4, f"{value:,}".replace(",", " "), "", "end") for value in _count_ticks(most)]
    width = (across(high) - across(low)) / n_bins
    for place in range(n_bins):
        base = 0
        for count, class_ in zip((int(of[place]) for of in counts), ("fill-a", "fill-a part"), strict=True):
            if count:
                x, y = across(low) + place * width + 0.5, up(base + count)
                height = max(up(base) - y, 0.8)
                parts.append(tag("rect", x=x, y=y, width=max(width - 1, 0.5), height=height, class_=class_))
            base += count
    for line in lines:
        if low <= line.at <= high:
            x = across(line.at)
            parts += [_path(f"M{x:.1f} {top - 8}V{bottom}", "cut")]
            parts += [_text(x, top - 11, line.label, "strong", _anchor(x))]
    described = f"{len(whole) + len(partial)} values from {low:.3g} to {high:.3g}; the highest bar is {most}."
    return _svg(bottom + 40, title, described, *parts, *_axis(across, marks, bottom, label))


def _count_ticks(most: int) -> list[int]:
    return [round(value) for value in ticks(0, most) if value == round(value) and value <= most]


def _anchor(x: float) -> str:
    """Where a word at x starts, so that it stays inside the figure."""
    return "start" if x < LEFT + 30 else "end" if x > RIGHT - 30 else "middle"


class Dot(NamedTuple):
    """A value with its interval, NaN where it has none, under a label."""

    label: str
    value: float
    low: float = math.nan
    high: float = math.nan


def dots(
    rows: Sequence[Dot], span: tuple[float, float], marks: Sequence[Mark], *, label: str, title: str, class_: str,
    cut: float = math.nan,
) -> Markup:  # fmt: skip
    """A row a dot, its label above it; where the value is NaN, no dot.

    marks : lines of class_ through all rows. cut : a dashed one; NaN: none
    """
    step, top = 27.0, 22.0
    bottom = top + step * len(rows) + 2
    across = _scale(*span, 14, RIGHT - 44)  # the values stand beyond
    parts = []
    for mark in marks:
        parts += [_path(f"M{across(mark.at):.1f} {top}V{bottom}", class_)]
        parts += [_text(across(mark.at), y, mark.label, "", "middle") for y in (top - 6, bottom + 14)]
    if span[0] <= cut <= span[1]:
        parts.append(_path(f"M{across(cut):.1f} {top}V{bottom}", "cut"))
    for place, row in enumerate(rows):
        y = top + step * place
        parts.append(_text(14, y + 11, clip(row.label, 40), "halo"))
        parts.append(_text(RIGHT, y + 11, _two(row.value), "halo strong", "end"))
        if not math.isnan(row.low) and not math.isnan(row.high):
            parts.append(_path(f"M{across(row.low):.1f} {y + 18:.1f}H{across(row.high):.1f}", "bar"))
        if not math.isnan(row.value):
            parts.append(tag("circle", cx=across(row.value), cy=y + 18, r=4.5, class_="fill-a"))
    described = f"{len(rows)} rows. " + "; ".join(f"{clip(row.label, 30)} {_two(row.value)}" for row in rows[:40])
    return _svg(bottom + 36, title, described, *parts, _text((RIGHT - 30) / 2, bottom + 30, label, "soft", "middle"))


def _two(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.2f}"


def shares(rows: Sequence[tuple[str, float, float, float]], *, title: str) -> Markup:
    """A bar a row that is split into better, similar and worse; those of two questions may sum to more, and fill it."""
    step, top = 22.0, 6.0
    across = _scale(0, 1, LEFT + 24, RIGHT)
    parts = []
    for place, (label, *said) in enumerate(rows):
        y, start = top + step * place, 0.0
        parts.append(_text(LEFT + 16, y + 12, label, "", "end"))
        for share, class_ in zip(_of_one(said), ("fill-a", "fill-c", "fill-b"), strict=True):
            width = across(start + share) - across(start)
            parts.append(tag("rect", x=across(start), y=y, width=width, height=16, class_=class_))
            start += share
    bottom = top + step * len(rows)
    parts += [_text(across(at), bottom + 12, percent(at), "", _anchor(across(at))) for at in (0, 0.5, 1)]
    described = "; ".join(
        f"{label}: better {percent(better)}, similar {percent(similar)}, worse {percent(worse)}"
        for label, better, similar, worse in rows
    )
    return _svg(bottom + 18, title, described, *parts)


def _of_one(shares: npt.ArrayLike) -> list[float]:
    """The shares, or, where they sum to more than 1, their parts of the sum."""
    found: list[float] = (np.asarray(shares) / max(np.sum(shares), 1.0)).tolist()
    return found


def dumbbells(rows: Sequence[tuple[str, float, float]], *, label: str, title: str) -> Markup:
    """Two shares a row: the first a full dot, the second a ring."""
    step, top = 22.0, 6.0
    bottom = top + step * len(rows)
    across = _scale(0, 1, LEFT + 24, RIGHT - 6)
    parts = [_path(f"M{across(at):.1f} {top}V{bottom}", "grid") for at in (0, 0.25, 0.5, 0.75, 1)]
    parts += [_text(across(at), bottom + 13, percent(at), "", "middle") for at in (0, 0.5, 1)]
    for place, (name, first, second) in enumerate(rows):
        y = top + step * place + 10
        parts.append(_text(LEFT + 14, y + 4, name, "", "end"))
        parts.append(_path(f"M{across(first):.1f} {y}H{across(second):.1f}", "bar"))
        parts.append(tag("circle", cx=across(first), cy=y, r=5, class_="fill-a"))
        parts.append(tag("circle", cx=across(second), cy=y, r=4.5, class_="ring"))
    parts.append(_text(WIDTH / 2, bottom + 30, label, "soft", "middle"))
    described = "; ".join(f"{name}: {percent(first)} and {percent(second)}" for name, first, second in rows)
    return _svg(bottom + 36, title, described, *parts)


def said(verdicts: Sequence[Verdict], n_rungs: int, *, title: str) -> Markup:
    """A column a rung, worst rung first: better at the bottom, then similar, worse on top; means over orders.

    A rung without a verdict is a gap.
    """
    width, height = 9, 24
    by_level: dict[int, list[tuple[float, float, float]]] = {}
    for v in verdicts:
        by_level.setdefault(v.level, []).append((v.better, v.similar, v.worse))
    parts = []
    for level, of in by_level.items():
        y = float(height)
        for share, class_ in zip(_of_one(np.mean(of, axis=0)), ("fill-a", "fill-c", "fill-b"), strict=True):
            y -= height * share
            x = (level - 1) * width
            parts.append(tag("rect", x=x, y=y, width=width - 1, height=height * share, class_=class_))
    size = f"0 0 {width * n_rungs} {height}"
    return tag("svg", tag("title", title), *parts, viewBox=size, role="img", class_="said")


def scatter(
    words: Sequence[float], values: Sequence[float], bins: Sequence[tuple[float, float]], span: tuple[float, float],
    marks: Sequence[Mark], *, label: str, title: str,
) -> Markup:  # fmt: skip
    """Points over words, which are drawn on a logarithmic scale, and a line through the middle of each bin."""
    least, most = min(words) / 1.1, max(words) * 1.1
    top, bottom = 8.0, 160.0
    logs, up = _scale(math.log(least), math.log(most), LEFT, RIGHT), _scale(*span, bottom, top)

    def across(n_words: float) -> float:
        return logs(math.log(n_words))

    parts = [_path(f"M{LEFT} {up(mark.at):.1f}H{RIGHT}", "grid") for mark in marks]
    parts += [_text(LEFT - 6, up(mark.at) + 4, mark.label, "", "end") for mark in marks]
    # one path for all points: a few characters each
    points = "".join(f"M{across(x):.0f} {up(y):.0f}h0" for x, y in zip(words, values, strict=True))
    parts.append(_path(points, "points"))
    line = "L".join(f"{across(x):.1f} {up(y):.1f}" for x, y in bins)
    parts.append(_path(f"M{line}", "trend"))
    shown = [Mark(value, f"{value:g}") for value in _log_ticks(least, most)]
    described = f"{len(words)} points, {min(words):g} to {max(words):g} words."
    return _svg(bottom + 40, title, described, *parts, *_axis(across, shown, bottom, label))


def _log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, ... within [low, high]; of many, the powers of ten; in a narrow range, round numbers."""
    if high < 4 * low:
        return [mark.at for mark in number_marks(low, high)]
    found = [m * 10.0**k for k in range(12) for m in (1, 2, 5) if low <= m * 10.0**k <= high]
    return found if len(found) <= 8 else [value for value in found if f"{value:.0e}"[0] == "1"]


class Curve(NamedTuple):
    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


def curves(lines: Sequence[Curve], *, x_label: str, title: str) -> Markup:
    """Lines with bands; NaN: a gap at the end of a line. Its legend is the page's."""
    known = [value for line in lines for value in (*line.y, *line.low, *line.high) if not math.isnan(value)]
    xs = [x for line in lines for x in line.x]
    y_ticks = ticks(min(known, default=0.0), max(known, default=1.0))
    top, bottom = 8.0, 190.0
    across, up = _scale(min(xs), max(xs), LEFT + 4, RIGHT - 6), _scale(y_ticks[0], y_ticks[-1], bottom, top)
    parts = []
    for y in y_ticks:
        parts += [_path(f"M{LEFT} {up(y):.1f}H{RIGHT}", "grid"), _text(LEFT - 6, up(y) + 4, f"{y:g}", "", "end")]
    for number, line in enumerate(lines):
        at = [k for k, y in enumerate(line.y) if not math.isnan(y)]
        band = [k for k in at if not (math.isnan(line.low[k]) or math.isnan(line.high[k]))]
        series = f"s{number % SERIES}"
        if band:
            upper = [f"{across(line.x[k]):.1f} {up(line.high[k]):.1f}" for k in band]
            lower = [f"{across(line.x[k]):.1f} {up(line.low[k]):.1f}" for k in reversed(band)]
            parts.append(_path(f"M{'L'.join(upper + lower)}Z", f"band {series}"))
        if at:
            path = "L".join(f"{across(line.x[k]):.1f} {up(line.y[k]):.1f}" for k in at)
            parts.append(_path(f"M{path}", f"line {series}"))
    described = f"{len(lines)} lines: {', '.join(clip(line.name, 40) for line in lines)}."
    return _svg(bottom + 40, title, described, *parts, *_axis(across, number_marks(min(xs), max(xs)), bottom, x_label))


def legend_line(number: int) -> Markup:
    """A piece of the line of this number, for a legend."""
    path = _path("M0 6h26", f"line s{number % SERIES}")
    return tag("svg", path, viewBox="0 0 26 12", class_="key", aria_hidden="true")


def clip(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"
