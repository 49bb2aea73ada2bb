"""Is a judge linear? What its probabilities say of how far apart people rate two texts. NumPy: no model, no files.

Of the calls about the texts of each context, p is P(first is better), and the difference is the rating of the text
shown first less that of the other. Two lines are fitted over all calls, and held against the curve that the calls make:

    difference = slope (p - bias)               what poe-g takes for granted; with the same spread everywhere
    log p / (1 - p) = bias + slope difference   what Bradley-Terry takes for granted

source : arXiv:2405.05894, appendix C.7: figure 9 is the joint distribution of p and the difference, figure 10 the mean
    and the variance of the differences of calls whose p lies within a window. How wide theirs is, is not stated.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from synthscore.errors import InputError
from synthscore.evaluation.intervals import jackknife_error, spread
from synthscore.io.write import plain
from synthscore.ranking import Comparisons
from synthscore.types import FloatArray, IntArray

if TYPE_CHECKING:
    from .plot import Panel

N_PROBABILITIES, N_DIFFERENCES = 20, 11
"""Windows of equal width from 0 to 1, and from the least difference to the greatest: an odd number, so that one of them
lies around 0."""

LEAST_CALLS = 30
"""That a window holds whose standard deviation is shown."""


class Estimate(NamedTuple):
    """low, high : 95 % interval over contexts; None where there is none"""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Line:
    """How nearly a straight line y is, of x.

    slope, stderr : of least squares over the calls; its standard error, over contexts
    at_zero, zero_at : y where x is 0; x where y is 0
    calls : squared correlation over the calls: how much of y the line explains
    curve : squared correlation of the means of the windows, by the calls in them: how straight the curve is; None where
        fewer than four windows hold calls
    sd : standard deviation of y about the line. least_sd, greatest_sd : of the windows with LEAST_CALLS or more
    edges : of the windows of x, shape (n + 1,). n_calls, x, y, y_sd : of each, shape (n,); NaN where there are no calls
    missing : why there is no line; then figures are None, and the windows empty
    """

    slope: float | None = None
    stderr: float | None = None
    at_zero: float | None = None
    zero_at: float | None = None
    calls: Estimate | None = None
    curve: Estimate | None = None
    sd: float | None = None
    least_sd: float | None = None
    greatest_sd: float | None = None
    edges: tuple[float, ...] = ()
    n_calls: tuple[float, ...] = ()
    x: tuple[float, ...] = ()
    y: tuple[float, ...] = ()
    y_sd: tuple[float, ...] = ()
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Linearity:
    """One judge on one attribute.

    difference : the line of the difference, of p. log_odds : that of log p / (1 - p), of the difference
    joint : calls by windows of p and of the difference, shape (N_PROBABILITIES, N_DIFFERENCES); figure 9
    differences : edges of the windows of the difference, shape (N_DIFFERENCES + 1,)
    mean_probability : P(first is better), mean of the calls; 1/2 of a judge without a favour for a position
    left_out : what takes no part -> how many
    """

    judge: str
    benchmark: str
    attribute: str
    n_calls: int
    n_contexts: int
    mean_probability: float
    difference: Line
    log_odds: Line
    joint: tuple[tuple[float, ...], ...]
    differences: tuple[float, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    signature: str = ""


def linearity(
    problems: Sequence[Comparisons],
    human: Sequence[FloatArray],
    *,
    judge: str = "",
    benchmark: str = "",
    attribute: str = "",
    left_out: Mapping[str, int] | None = None,
) -> Linearity:
    """problems : the calls of each context. human : the ratings of their candidates, NaN for none
    raises : InputError where no call is about two texts with ratings
    """
    p, log_odds, differences, weights, context = [], [], [], [], []
    n_unrated = 0
    for number, (calls, ratings) in enumerate(zip(problems, human, strict=True)):
        gap = np.round(ratings[calls.first] - ratings[calls.second], 9)
        rated = ~np.isnan(gap)
        n_unrated += int((~rated).sum())
        p.append(calls.probabilities[rated])
        log_odds.append(calls.log_odds[rated])
        differences.append(gap[rated])
        weights.append(calls.weights[rated])
        context.append(np.full(int(rated.sum()), number))
    if not sum(map(len, p)):
        raise InputError(f"cannot say how linear {judge or 'a judge'} is: no call is about two texts with ratings")
    x, odds, y, w, numbers = map(np.concatenate, (p, log_odds, differences, weights, context))
    most = float(np.abs(y).max()) or 1.0
    by_probability = np.linspace(0.0, 1.0, N_PROBABILITIES + 1)
    by_difference = np.linspace(-most, most, N_DIFFERENCES + 1)
    if n_certain := int((~np.isfinite(odds)).sum()):
        of_odds = Line(missing=f"the log-odds of {n_certain} of {len(odds)} calls are infinite: p is 0 or 1")
    else:
        of_odds = fit_line(y, odds, w, numbers, by_difference, names=("difference", "log-odds"))
    left_out = {**(left_out or {}), "calls about a text that nobody rated": n_unrated}
    return Linearity(
        judge=judge,
        benchmark=benchmark,
        attribute=attribute,
        n_calls=len(x),
        n_contexts=len(np.unique(numbers)),
        mean_probability=float(w @ x / w.sum()),
        difference=fit_line(x, y, w, numbers, by_probability, names=("p", "difference")),
        log_odds=of_odds,
        joint=tuple(map(tuple, np.histogram2d(x, y, [by_probability, by_difference], weights=w)[0].tolist())),
        differences=tuple(by_difference.tolist()),
        left_out={what: count for what, count in left_out.items() if count},
        signature=str(problems[0].signature),
    )


def fit_line(
    x: FloatArray,
    y: FloatArray,
    weights: FloatArray,
    context: IntArray,
    edges: FloatArray,
    *,
    names: tuple[str, str] = ("x", "y"),
) -> Line:
    """The line of y in x, by weighted least squares, beside the means of y in windows of x.

    x, y, weights, context : shape (n_calls,); context is numbered from 0. edges : of the windows, which hold all x
    names : of x and y
    """
    n_windows = len(edges) - 1
    window = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, n_windows - 1)
    powers = np.stack([weights * power for power in (np.ones_like(x), x, y, x * x, x * y, y * y)], axis=1)
    by_context = np.zeros((int(context.max()) + 1, n_windows, powers.shape[1]))
    np.add.at(by_context, (context, window), powers)
    total = by_context.sum(axis=0)
    if same := _all_same(total, *names):
        return Line(missing=f"all calls have the same {same}")
    there = np.flatnonzero(by_context[..., 0].sum(axis=1) > 0)
    figures = _figures(total)
    # Added up anew, for what subtraction leaves of an empty window is not always 0.
    without = _figures(np.stack([by_context[there[there != context]].sum(axis=0) for context in there]))
    n, mean_x, mean_y, _, _, mean_yy = _means(total)
    with np.errstate(invalid="ignore"):
        sd = np.sqrt(np.maximum(mean_yy - mean_y**2, 0.0))
    counted = sd[n >= LEAST_CALLS]
    slope, at_zero = float(figures["slope"]), float(figures["at_zero"])
    return Line(
        slope=slope,
        stderr=_jackknife(without["slope"]),
        at_zero=at_zero,
        zero_at=-at_zero / slope if slope else None,
        calls=_squared(float(figures["calls"]), without["calls"]),
        curve=_squared(float(figures["curve"]), without["curve"]) if (n > 0).sum() > 3 else None,
        sd=float(figures["sd"]),
        least_sd=float(counted.min()) if len(counted) else None,
        greatest_sd=float(counted.max()) if len(counted) else None,
        edges=tuple(edges.tolist()),
        n_calls=tuple(n.tolist()),
        x=tuple(mean_x.tolist()),
        y=tuple(mean_y.tolist()),
        y_sd=tuple(sd.tolist()),
    )


def _all_same(total: FloatArray, x_name: str, y_name: str) -> str:
    """The name of what does not vary, "" where both do."""
    n, x, y, xx, _, yy = total.sum(axis=0)
    for name, first, second in ((x_name, x, xx), (y_name, y, yy)):
        if second / n - (first / n) ** 2 <= 1e-14 * second / n:  # rounding is no variation
            return name
    return ""


def _means(sums: FloatArray) -> tuple[FloatArray, ...]:
    """Weight, and means of x, y, x x, x y, y y; NaN where there is no weight. sums : shape (..., 6)"""
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums[..., 1:] / sums[..., :1]
    return sums[..., 0], *np.moveaxis(means, -1, 0)


def _figures(sums: FloatArray) -> dict[str, FloatArray]:
    """slope, at_zero, sd and both correlations; NaN where they are not defined. sums : shape (..., n_windows, 6)"""
    _, x, y, xx, xy, yy = _means(sums.sum(axis=-2))
    n, window_x, window_y, *_ = _means(sums)
    off_x, off_y = (np.where(n > 0, means - mean[..., None], 0.0) for means, mean in ((window_x, x), (window_y, y)))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = n / n.sum(axis=-1, keepdims=True)
        slope = (xy - x * y) / (xx - x * x)
        calls = (xy - x * y) / np.sqrt((xx - x * x) * (yy - y * y))
        spreads = (share * off_x**2).sum(axis=-1) * (share * off_y**2).sum(axis=-1)
        curve = (share * off_x * off_y).sum(axis=-1) / np.sqrt(spreads)
    sd = np.sqrt(np.maximum((yy - y * y) * (1 - calls**2), 0.0))
    return {"slope": slope, "at_zero": y - slope * x, "calls": calls, "curve": curve, "sd": sd}


def _jackknife(without: FloatArray) -> float | None:
    """Standard error of a figure, from its values with each context left out; None for a single context."""
    known = without[~np.isnan(without)]
    return jackknife_error(known) if len(known) > 1 else None


def _squared(correlation: float, without: FloatArray) -> Estimate | None:
    """Of the interval too; it begins at 0 where the sign is not certain."""
    if np.isnan(correlation):
        return None
    value = float(np.clip(correlation, -1.0, 1.0))
    interval = spread(value, np.clip(without, -1.0, 1.0))
    if interval.low is None or interval.high is None:
        return Estimate(value**2, None, None)
    ends = sorted((interval.low**2, interval.high**2))
    return Estimate(value**2, 0.0 if interval.low < 0 < interval.high else ends[0], ends[1])


# ------------------------------------------------------------------------------------------------- drawing


def draw(rows: Sequence[Linearity]) -> dict[str, str]:
    """Name of a file -> SVG, one for each judge and benchmark, a panel an attribute: the joint distribution of p and
    the difference, the means of the windows with a standard deviation above and below, and the line."""
    from .plot import draw_curves  # imports matplotlib

    panels: dict[str, list[Panel]] = {}
    for row in rows:
        if not row.difference.missing:
            name = re.sub(r"[^A-Za-z0-9.-]+", "-", f"linearity-{row.benchmark}-{row.judge}").strip("-.")
            panels.setdefault(f"{name}.svg", []).append(_panel(row))
    return {name: draw_curves(drawn) for name, drawn in panels.items()}


def _panel(row: Linearity) -> Panel:
    from .plot import Line as Drawn
    from .plot import Panel, Shading

    line = row.difference
    assert line.slope is not None
    assert line.at_zero is not None
    x, y, sd = (np.array(column)[np.array(line.n_calls) > 0] for column in (line.x, line.y, line.y_sd))
    ends = np.array([0.0, 1.0])
    straight = line.at_zero + line.slope * ends
    return Panel(
        title=f"{row.benchmark}, {row.attribute}",
        lines=[
            Drawn("mean ± sd", x, y, y - sd, y + sd),
            Drawn("line", ends, straight, straight, straight),
        ],
        x_label="P(first is better)",
        y_label="difference of ratings",
        shading=Shading(line.edges, row.differences, row.joint),
    )


# ------------------------------------------------------------------------------------------------- printing


def to_json(rows: Sequence[Linearity]) -> list[dict[str, Any]]:
    return [{name: plain(value) for name, value in asdict(row).items()} for row in rows]


def to_markdown(rows: Sequence[Linearity]) -> str:
    """A row a judge and attribute; below it, why figures are missing."""
    lines = [
        "**What a judge's probabilities say of people's ratings** (arXiv:2405.05894, figures 9 and 10)",
        "",
        "R2 over the calls, R2 of the curve [95 % interval over contexts]; slopes with their standard error. Left: the "
        "difference of two ratings, of p; right: log-odds, of the difference",
        "",
        "| judge | attribute | calls | mean p | points from p = 0 to 1 | R2 calls | R2 curve | sd, least to greatest "
        "| nats a point | nats at 0 | R2 calls | R2 curve |",
        "|---|---|" + "---:|" * 10,
    ]
    reasons: dict[str, int] = {}
    for row in rows:
        left = _shown(row.difference, reasons)
        right = _shown(row.log_odds, reasons)
        about = (row.judge, f"{row.benchmark} {row.attribute}", f"{row.n_calls:,}", f"{row.mean_probability:.2f}")
        spreads = _spreads(row.difference)
        bias = "-" if row.log_odds.at_zero is None else f"{round(row.log_odds.at_zero, 2) + 0.0:+.2f}"
        lines.append(f"| {' | '.join((*about, *left, spreads, right[0], bias, *right[1:]))} |")
    notes = [f"{number}. {reason}" for reason, number in reasons.items()] + list(_left_out(rows))
    return "\n".join([*lines, "", *notes]).rstrip() + "\n"


def _shown(line: Line, reasons: dict[str, int]) -> tuple[str, str, str]:
    """Slope, and both R2. reasons : why there is no line -> number, which this adds to"""
    if line.missing:
        dash = f"- ({reasons.setdefault(line.missing, len(reasons) + 1)})"
        return dash, dash, dash
    error = "" if line.stderr is None else f" ± {line.stderr:.2f}"
    return f"{line.slope:.2f}{error}", _interval(line.calls), _interval(line.curve)


def _interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return "-"
    if estimate.low is None or estimate.high is None:
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


def _spreads(line: Line) -> str:
    if line.sd is None:
        return "-"
    ends = "" if line.least_sd is None else f" ({line.least_sd:.2f} to {line.greatest_sd:.2f})"
    return f"{line.sd:.2f}{ends}"


def _left_out(rows: Sequence[Linearity]) -> Iterator[str]:
    for row in rows:
        for what, count in row.left_out.items():
            yield f"- {row.judge}, {row.benchmark} {row.attribute}, left out: {what}: {count}"
