"""Lines with bands, over counts as shades -> an SVG file, drawn by matplotlib."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib import rc_context
from matplotlib.figure import Figure

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")  # told apart by all eyes
DASHES = ("-", "--", ":", "-.")


class Line(NamedTuple):
    """x rising; low and high : the band around y. NaN: a gap at the end of the line"""

    name: str
    x: npt.ArrayLike
    y: npt.ArrayLike
    low: npt.ArrayLike
    high: npt.ArrayLike


class Shading(NamedTuple):
    """x_edges, y_edges : of the cells. counts : shape (n_x, n_y); the darker, the more, and 0 is white"""

    x_edges: npt.ArrayLike
    y_edges: npt.ArrayLike
    counts: npt.ArrayLike


class Panel(NamedTuple):
    title: str
    lines: Sequence[Line]
    x_label: str
    y_label: str
    shading: Shading | None = None


def draw_curves(panels: Sequence[Panel]) -> str:
    """An SVG file: panels side by side, all with the same y axis, a legend in each."""
    figure = Figure(figsize=(3.9 * len(panels), 3.4), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels, strict=True):
        if panel.shading:
            x_edges, y_edges, counts = map(np.asarray, panel.shading)
            axes.pcolormesh(x_edges, y_edges, np.ma.masked_equal(counts.T, 0), cmap="Greys", alpha=0.6, rasterized=True)
        for index, line in enumerate(panel.lines):
            colour, dash = COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)]
            axes.plot(line.x, line.y, dash, color=colour, label=line.name)
            axes.fill_between(line.x, line.low, line.high, color=colour, alpha=0.15, linewidth=0)
        axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
        axes.grid(axis="y", color="#e4e4e4")
        axes.legend(frameon=False)
    out = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "synthscore"}):  # words as words; the same bytes each time
        figure.savefig(out, format="svg", metadata={"Date": None})
    return out.getvalue()
