"""`synthscore rank --curve`: agreement by budget, from a full set of comparisons."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ..evaluation.curves import Curve, efficiency_curves
from ..io.write import plain, replacing, write_rows
from ..ranking import METHODS
from ..ranking.comparisons import Comparisons, Ranking
from ..report.figures import Line, Panel
from ..report.figures import curves as drawn
from ..types import FloatArray
from .common import INCOMPLETE, OK, UsageError, counted, note, table
from .comparing import rated, read_ratings, stored
from .rank import CURVE_METHODS, WITH_STDERR


def run(args: argparse.Namespace) -> int:
    methods = {name: _method(name) for name in (args.methods.split(",") if args.methods else CURVE_METHODS)}
    budgets = _budgets(args.budgets) if args.budgets else None
    found = stored(args)
    human: list[FloatArray] | None = None
    truth = "what the same method says of the full set"
    if args.human:
        ratings = read_ratings(args)
        human = [rated(args, found.by, group, calls.ids, ratings) for group, calls in found.groups.items()]
        truth = f"the ratings of {args.human}"
    n_draws = args.draws or 100
    curves = efficiency_curves(
        list(found.groups.values()),
        methods,
        human=human,
        budgets=budgets,
        n_draws=n_draws,
        design=args.selection or "symmetric",
        seed=args.seed or 0,
    )
    rows = list(curve_rows(curves))
    if args.output:
        write_rows(rows, args.output)
    if args.plot:
        panel = Panel(f"{args.selection or 'symmetric'} selection", lines(curves), "calls in a context", "Spearman")
        with replacing(Path(args.plot)) as file:
            file.write(drawn([panel]).encode())
    if args.json:
        print(json.dumps(rows, allow_nan=False))
    elif args.output != "-":
        print(curve_table(curves))
    n_contexts = curves[0].n_contexts
    failed = {curve.method: int(curve.n_failed.sum()) for curve in curves if curve.n_failed.any()}
    note(
        args,
        *found.lines,
        f"Spearman with {truth}, mean over {counted(n_contexts, 'context')}; mean and sd of {n_draws} draws",
        *(f"{name} could not rank {counted(count, 'context')} (of all draws)" for name, count in failed.items()),
    )
    return OK if found.complete and not failed else INCOMPLETE


def curve_table(curves: Sequence[Curve]) -> str:
    """A row a budget, a column a method: mean and sd over draws."""
    rows = [
        (int(k), *(f"{curve.mean[place]:.3f} ± {curve.sd[place]:.3f}" for curve in curves))
        for place, k in enumerate(curves[0].n_calls)
    ]
    return table(rows, ("calls", *(curve.method for curve in curves)), width=200)


def curve_rows(curves: Sequence[Curve]) -> Iterator[dict[str, Any]]:
    """A row a method and budget. low, high : 95 % interval of the mean over draws."""
    for curve in curves:
        interval = curve.interval()
        for place, k in enumerate(curve.n_calls.tolist()):
            numbers = plain({"mean": curve.mean[place], "sd": curve.sd[place]})
            numbers |= plain(dict(zip(("low", "high"), interval[place], strict=True)))
            counts = {"n_draws": curve.values.shape[1], "n_contexts": curve.n_contexts}
            yield {"method": curve.method, "n_calls": k, **numbers, **counts, "n_failed": int(curve.n_failed[place])}


def lines(curves: Sequence[Curve]) -> list[Line]:
    """What a figure shows of curves: the mean over draws and its interval."""
    return [
        Line(curve.method, curve.n_calls.tolist(), curve.mean.tolist(), *curve.interval().T.tolist())
        for curve in curves
    ]


def _method(name: str) -> Callable[[Comparisons], Ranking]:
    if name not in METHODS or name == "pairs":  # which chooses its calls itself
        names = ", ".join(method for method in METHODS if method != "pairs")
        raise UsageError(f"--methods names {name!r}, expected some of {names}, with commas between")
    return partial(METHODS[name], stderr=None) if name in WITH_STDERR else METHODS[name]


def _budgets(text: str) -> list[int]:
    try:
        return sorted({int(word) for word in text.split(",")})
    except ValueError:
        raise UsageError(f"--budgets {text} is not whole numbers with commas between") from None
