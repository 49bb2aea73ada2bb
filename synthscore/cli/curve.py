"""`synthscore curve`: a full set of comparisons -> agreement by budget, for several methods."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from .messages import Messages
from .options import INCOMPLETE, OK, Attributes, Input, RowsIn, RowsOut, Seed, UsageError, usage
from .rank import By, Human, load, load_human
from .talk import counted, table


def curve(
    comparisons: RowsIn,
    /,
    *,
    output: RowsOut | None = None,
    human: Human = None,
    attribute: Attributes = None,
    by: By = None,
    methods: str | None = None,
    selection: Literal["symmetric", "greedy", "random", "no-repeat"] = "symmetric",
    budgets: str | None = None,
    draws: int = 100,
    seed: Seed = 0,
    plot: str | None = None,
    input: Input = Input(),
    messages: Messages = Messages(),
) -> int:
    """A full set of comparisons -> agreement by budget.

    For example:
      $ synthscore curve comparisons.jsonl --human ratings.jsonl --plot curve.svg
      $ synthscore curve comparisons.jsonl --methods poe-bt,bt --budgets 48,96 -o curve.jsonl

    How much is lost with fewer questions? Thins a full set of comparisons (both orders of every
    pair, as `synthscore compare` asks without --budget), ranks what is left, and prints
    Spearman's correlation with people's ratings inside each context, by the number of calls: mean
    and standard deviation over draws, which are the same for every method. Without --human each
    method is compared with what it says of the full set. The exit code is 3 where something could
    not be ranked, or read.

    Parameters
    ----------
    comparisons
        file with all pairs, in both orders
    output
        file of rows, one for each method and budget; -: JSONL on stdout, instead of the table
    attribute
        which of the attributes that --human rates, where the comparisons name none
    methods
        with commas between (default: win-ratio, average-probability, bt, poe-g-hard, poe-bt, poe-g)
    selection
        how calls are drawn
    budgets
        calls in a context, with commas between (default: 2 N to all, in steps of N)
    draws
        for each budget
    plot
        SVG file to draw it in
    """
    from ..evaluation.curves import METHODS, efficiency_curves, thinnable
    from ..io.write import replacing, write_rows

    with usage():
        chosen = thinnable(methods.split(",") if methods else METHODS)
    ends = _budgets(budgets) if budgets else None
    sets, lines = load(comparisons, by, input, messages)
    truth, ratings = "what the same method says of the full set", None
    if human:
        of = load_human(human, input)
        one = attribute[0] if attribute else None
        ratings = [of.of(calls.ids, sets.by, group, one) for group, calls in sets.sets.items()]
        truth = f"the ratings of {human}"
    curves = efficiency_curves(
        list(sets.sets.values()), chosen, human=ratings, budgets=ends, n_draws=draws, design=selection, seed=seed
    )
    if output:
        write_rows((row for each in curves for row in each.to_rows()), output)
    if plot:
        from ..report.figures import Line, Panel, draw_curves

        shown = [
            Line(each.method, each.n_calls.tolist(), each.mean.tolist(), *each.interval().T.tolist()) for each in curves
        ]
        panel = Panel(f"{selection} selection", shown, "calls in a context", "Spearman")
        with replacing(Path(plot)) as file:
            file.write(draw_curves([panel]).encode())
    if output != "-":
        cells = [
            (int(k), *(f"{each.mean[row]:.3f} ± {each.sd[row]:.3f}" for each in curves))
            for row, k in enumerate(curves[0].n_calls)
        ]
        print(table(cells, ("calls", *(each.method for each in curves)), width=200))
    failed = {each.method: int(each.n_failed.sum()) for each in curves if each.n_failed.any()}
    n_contexts = counted(curves[0].n_contexts, "context")
    lines.append(f"Spearman with {truth}, mean over {n_contexts}; mean and sd of {draws} draws")
    lines += [f"{name} could not rank {counted(count, 'context')} (of all draws)" for name, count in failed.items()]
    messages.note(*lines)
    return OK if sets.complete and not failed else INCOMPLETE


def _budgets(text: str) -> list[int]:
    try:
        return sorted({int(word) for word in text.split(",")})
    except ValueError:
        raise UsageError(f"--budgets {text} is not whole numbers with commas between") from None
