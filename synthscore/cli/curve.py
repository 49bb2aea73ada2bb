"""`synthscore curve`: a full set of comparisons -> agreement by budget, for several methods."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from ..errors import InputError
from ..io.write import replacing, write_rows
from .common import (
    INCOMPLETE,
    OK,
    Commands,
    UsageError,
    add_command,
    add_input,
    add_messages,
    counted,
    note,
    rows_file,
    table,
    whole,
)
from .rank import add_groups, human_fields, stored

TEXT = """
Examples:
  $ synthscore curve comparisons.jsonl --human ratings.jsonl --plot curve.svg

How much is lost with fewer questions? Thins a full set of comparisons (both orders of every pair, as `synthscore
compare` asks without --budget), ranks what is left, and prints Spearman's correlation with people's ratings inside each
context, by the number of calls: mean and standard deviation over draws, which are the same for every method. Without
--human each method is compared with what it says of the full set. The exit code is 3 where something could not be
ranked, or read.
"""


def add(commands: Commands) -> None:
    parser = add_command(
        commands, "curve", run, "curve COMPARISONS [--human RATINGS] [options]",
        "a full set of comparisons -> agreement by budget", TEXT,
    )  # fmt: skip
    parser.add_argument("comparisons", metavar="COMPARISONS", help="all pairs, in both orders")
    parser.add_argument("-o", "--output", type=rows_file, metavar="FILE", help="a row for each method and budget")
    parser.add_argument("-a", "--attribute", action="append", metavar="A", help="of --human, where there are several")
    add_groups(parser)
    parser.add_argument("--methods", metavar="M,M", help="(default: those of docs/ranking.md that are quick)")
    parser.add_argument(
        "--selection",
        choices=("symmetric", "greedy", "random", "no-repeat"),
        default="symmetric",
        help="how calls are drawn (default: symmetric)",
    )
    parser.add_argument("--draws", type=whole(2), default=100, metavar="N", help="for each budget (default: 100)")
    parser.add_argument("--budgets", metavar="K,K", help="calls in a context (default: 2 N to all, in steps of N)")
    parser.add_argument("--seed", type=whole(0), default=0, metavar="N", help="of the draws (default: 0)")
    parser.add_argument("--plot", metavar="FILE.svg", help="draw it")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_input(parser)
    add_messages(parser)


def run(args: argparse.Namespace) -> int:
    from ..evaluation.curves import METHODS, efficiency_curves
    from ..evaluation.rankings import CandidateRatings

    if args.json and args.output == "-":
        raise UsageError("--json and -o - both write to stdout. Leave one out")
    budgets = _budgets(args.budgets) if args.budgets else None
    sets, lines = stored(args, args.comparisons, None)
    human, truth = None, "what the same method says of the full set"
    if args.human:
        ratings = CandidateRatings.load(args.human, encoding=args.encoding, fields=human_fields(args))
        attribute = (args.attribute or [None])[0]
        human = [ratings.of(calls.ids, sets.by, group, attribute) for group, calls in sets.sets.items()]
        truth = f"the ratings of {args.human}"
    try:
        methods = args.methods.split(",") if args.methods else METHODS
        curves = efficiency_curves(
            list(sets.sets.values()), methods, human=human, budgets=budgets, n_draws=args.draws,
            design=args.selection, seed=args.seed,
        )  # fmt: skip
    except InputError as error:
        raise UsageError(str(error)) from None
    rows = [row for curve in curves for row in curve.to_rows()]
    if args.output:
        write_rows(rows, args.output)
    if args.plot:
        from ..report.figures import Line, Panel, draw_curves

        shown = [
            Line(curve.method, curve.n_calls.tolist(), curve.mean.tolist(), *curve.interval().T.tolist())
            for curve in curves
        ]
        panel = Panel(f"{args.selection} selection", shown, "calls in a context", "Spearman")
        with replacing(Path(args.plot)) as file:
            file.write(draw_curves([panel]).encode())
    if args.json:
        print(json.dumps(rows, allow_nan=False))
    elif args.output != "-":
        cells = [
            (int(k), *(f"{curve.mean[row]:.3f} ± {curve.sd[row]:.3f}" for curve in curves))
            for row, k in enumerate(curves[0].n_calls)
        ]
        print(table(cells, ("calls", *(curve.method for curve in curves)), width=200))
    failed = {curve.method: int(curve.n_failed.sum()) for curve in curves if curve.n_failed.any()}
    n_contexts = counted(curves[0].n_contexts, "context")
    lines.append(f"Spearman with {truth}, mean over {n_contexts}; mean and sd of {args.draws} draws")
    lines += [f"{name} could not rank {counted(count, 'context')} (of all draws)" for name, count in failed.items()]
    note(args, *lines)
    return OK if sets.complete and not failed else INCOMPLETE


def _budgets(text: str) -> list[int]:
    try:
        return sorted({int(word) for word in text.split(",")})
    except ValueError:
        raise UsageError(f"--budgets {text} is not whole numbers with commas between") from None
