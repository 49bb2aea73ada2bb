"""Lines with bands -> an SVG figure, self-contained, a few kilobytes. Knows nothing of what is drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # told apart by all eyes
DASHES = ("", "6 3", "2 2", "8 2 2 2", "", "6 3", "2 2")


class Line(NamedTuple):
    """x rising; low and high : the band around y."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]


class Panel(NamedTuple):
    title: str
    lines: Sequence[Line]
    x_label: str
    y_label: str


def figure(panels: Sequence[Panel], width: int = 380, height: int = 320) -> str:
    """Panels side by side, all with the same y axis; a legend in each. NaN: a gap at the end of a line."""
    values = [v for p in panels for line in p.lines for v in (*line.low, *line.high) if not math.isnan(v)]
    y_ticks = ticks(min(values, default=0.0), max(values, default=1.0))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width * len(panels)}" height="{height}" '
        f'viewBox="0 0 {width * len(panels)} {height}" font-family="sans-serif" font-size="11" fill="#222">',
        f'<rect width="{width * len(panels)}" height="{height}" fill="#fff"/>',
    ]
    for place, panel in enumerate(panels):
        parts += [f'<g transform="translate({place * width} 0)">', *_panel(panel, y_ticks, width, height), "</g>"]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(panel: Panel, y_ticks: Sequence[float], width: int, height: int) -> list[str]:
    left, right, top, bottom = 52, width - 14, 30, height - 44
    x_values = [x for line in panel.lines for x in line.x]
    x_ticks = [t for t in ticks(min(x_values), max(x_values)) if min(x_values) <= t <= max(x_values)]

    def across(x: float) -> float:
        span = max(x_values) - min(x_values) or 1
        return left + 8 + (right - left - 16) * (x - min(x_values)) / span

    def up(y: float) -> float:
        return bottom - (bottom - top) * (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0])

    parts = [f'<text x="{left}" y="18" font-size="12" font-weight="bold">{escape(panel.title)}</text>']
    for y in y_ticks:
        parts.append(f'<path d="M{left} {up(y):.1f}H{right}" stroke="#e4e4e4"/>')
        parts.append(f'<text x="{left - 6}" y="{up(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in x_ticks:
        parts.append(f'<path d="M{across(x):.1f} {bottom}v4" stroke="#888"/>')
        parts.append(f'<text x="{across(x):.1f}" y="{bottom + 16}" text-anchor="middle">{x:g}</text>')
    parts.append(f'<path d="M{left} {bottom}H{right}" stroke="#888"/>')
    middle, centre = (left + right) / 2, (top + bottom) / 2
    parts.append(f'<text x="{middle:.0f}" y="{height - 10}" text-anchor="middle">{escape(panel.x_label)}</text>')
    turned = f'transform="translate(13 {centre:.0f}) rotate(-90)" text-anchor="middle"'
    parts.append(f"<text {turned}>{escape(panel.y_label)}</text>")
    for number, line in enumerate(panel.lines):
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        known = [k for k, y in enumerate(line.y) if not math.isnan(y)]
        upper = [f"{across(line.x[k]):.1f} {up(line.high[k]):.1f}" for k in known]
        lower = [f"{across(line.x[k]):.1f} {up(line.low[k]):.1f}" for k in reversed(known)]
        path = "L".join(f"{across(line.x[k]):.1f} {up(line.y[k]):.1f}" for k in known)
        if not known:
            continue
        parts.append(f'<path d="M{"L".join(upper + lower)}Z" fill="{colour}" fill-opacity="0.15"/>')
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6" stroke-dasharray="{dash}"/>')
    rows = len(panel.lines)
    start = right - 12 - max(26 + 6.2 * len(line.name) for line in panel.lines)
    box = start - 6, bottom - 14 - 15 * rows, right - start + 6, 15 * rows + 8
    parts.append(
        '<rect x="{:.0f}" y="{:.0f}" width="{:.0f}" height="{:.0f}" fill="#fff" fill-opacity="0.85"/>'.format(*box)
    )
    for number, line in enumerate(panel.lines):
        colour, dash = COLOURS[number % len(COLOURS)], DASHES[number % len(DASHES)]
        y = bottom - 14 - 15 * (rows - 1 - number)
        parts.append(
            f'<path d="M{start:.0f} {y - 4}h22" stroke="{colour}" stroke-width="1.6" stroke-dasharray="{dash}"/>'
        )
        parts.append(f'<text x="{start + 27:.0f}" y="{y}">{escape(line.name)}</text>')
    return parts


def ticks(low: float, high: float) -> list[float]:
    """Round numbers, 4 to 9 of them, from below `low` to above `high`."""
    span = (high - low) or 1.0
    power = 10 ** math.floor(math.log10(span / 4))
    step = next(power * m for m in (1, 2, 5, 10) if span / (power * m) <= 7)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(k * step, 10) for k in range(first, max(last, first + 1) + 1)]
