"""`synthscore compare`: candidates and a judge -> comparisons of them."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .common import (
    ERROR,
    INCOMPLETE,
    JUDGE,
    OK,
    Commands,
    UsageError,
    add_command,
    add_input,
    add_messages,
    add_model,
    add_templates,
    counted,
    note,
    number,
    open_model,
    reasons,
    rows_file,
    warn,
    whole,
)

if TYPE_CHECKING:  # SciPy takes a while to load, and --help does not need it
    from ..ranking import ComparisonSets, Selection

TEXT = """
Examples:
  $ synthscore compare candidates.jsonl --task summarization -a coherence -o comparisons.jsonl
  $ synthscore compare candidates.jsonl --task summarization -a coherence --budget 48 | synthscore rank --comparisons -

Asks a judge which of two candidates is better: rows with context_id, text and context (or --contexts FILE), and maybe
id and system; those of one context are compared with each other. Writes one row for each answer: context_id, attribute,
first and second (ids, in the order shown), the natural-log probabilities log_p_first, log_p_second and log_p_tie,
weight, signature: what `synthscore rank --comparisons` and `synthscore curve` take. The exit code is 3 where a row
could not be read, or a question was not answered.
"""

DESIGNS = ("all", "random", "no-repeat", "symmetric", "greedy", "sequential", "sort")


def add(commands: Commands) -> None:
    parser = add_command(
        commands, "compare", run, "compare CANDIDATES --task T -a A [options]",
        "texts compared with each other by a judge -> comparisons", TEXT,
    )  # fmt: skip
    parser.add_argument("candidates", metavar="CANDIDATES", help="the texts, or - for JSONL on stdin")
    parser.add_argument("-o", "--output", type=rows_file, metavar="FILE", help="rows (default: JSONL on stdout)")
    add_judging(parser)
    group = parser.add_argument_group("sort")
    add_sorting(group)
    group.add_argument("--seed", type=whole(0), metavar="N", help="of whatever is drawn (default: 0)")
    add_model(parser, None, JUDGE)
    add_input(parser)
    add_messages(parser)


def add_judging(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("judging")
    group.add_argument("--task", metavar="T", help="task, or folder with a task.toml")
    group.add_argument("-a", "--attribute", action="append", metavar="A", help="may be repeated")
    group.add_argument("--contexts", metavar="FILE", help="the contexts (default: column context of the candidates)")
    group.add_argument(
        "--protocol",
        choices=("choose", "compare", "yes_no"),
        help="choose: A or B; compare: Better, Worse or Similar, which bt-ties wants (default: choose)",
    )
    group.add_argument(
        "--selection",
        choices=DESIGNS,
        help="which pairs: all; random calls; random pairs in one order (no-repeat) or both (symmetric); greedy: most "
        "informative beforehand; sequential: after each round of answers; sort: as a merge sort needs them, for method "
        "pairs (default: greedy, or all without --budget)",
    )
    group.add_argument(
        "--budget", type=whole(1), metavar="CALLS", help="questions about each context and attribute; two a pair in "
        "both orders"
    )  # fmt: skip
    group.add_argument(
        "--orders", choices=("both", "one"), help="of all, greedy and sort: ask about a pair in both (default: both; "
        "of sort: one)"
    )  # fmt: skip
    group.add_argument(
        "--min-mass",
        type=number(0, 1),
        metavar="P",
        help="least probability, 0 to 1, that the labels have together for an answer to count (default: 0.01)",
    )
    add_templates(group)


def add_sorting(group: argparse._ActionsContainer) -> None:
    group.add_argument("--gap", type=number(0, 0.5), metavar="P", help="of a sort: doubt around 1/2 (default: 0)")
    group.add_argument("--beam-size", type=whole(1), metavar="N", help="of a sort: paths kept (default: 1)")


def run(args: argparse.Namespace) -> int:
    sets, lines = judged(args, chosen(args, args.selection or ""), args.protocol or "choose")
    sets.save(args.output or "-")
    note(args, *lines, signature=str(sets.signature or ""))
    if not sets.sets:
        warn("nothing could be compared")
        return ERROR
    return OK if sets.complete else INCOMPLETE


def chosen(args: argparse.Namespace, design: str) -> Selection:
    """raises : UsageError for options that contradict each other"""
    from ..ranking import Selection

    if not args.task or not args.attribute:
        raise UsageError("to ask a judge, say --task T and --attribute A")
    try:
        return Selection(design, args.budget, args.orders, args.seed or 0, args.gap or 0.0, args.beam_size or 1)
    except InputError as error:
        raise UsageError(str(error)) from None


def judged(args: argparse.Namespace, selection: Selection, protocol: Any) -> tuple[ComparisonSets, list[str]]:
    """The answers of a judge about the candidates of a file; and in words, what was asked."""
    from ..judging.asking import Asking
    from ..ranking import compare

    args.model = args.model or "nano"
    with open_model(args) as engine:
        sets = compare(
            args.candidates,
            engine,
            task=args.task,
            attribute=args.attribute,
            selection=selection,
            contexts=args.contexts,
            asking=Asking(protocol, False, args.prompts, 0.01 if args.min_mass is None else args.min_mass),
            encoding=args.encoding,
            fields={name: column for name, column in args.field if name != "human"},
        )
        cost = engine.meter.cost
    n_candidates = sum(calls.n_candidates for calls in sets.sets.values())
    n_calls = sum(len(calls) for calls in sets.sets.values())
    asked = f"{counted(len(sets.sets), 'ranking')} of {counted(n_candidates, 'candidate')}"
    lines = [f"{asked}: {counted(n_calls + len(sets.failures), 'call')} ({selection}), {n_calls} answered"]
    lost = Counter(failure.group for failure in sets.failures)
    n_small = sum(len(calls) + lost[group] < (args.budget or 0) for group, calls in sets.sets.items())
    if n_small:
        lines.append(f"{counted(n_small, 'ranking')} cannot have {args.budget} calls: all there are were asked")
    if sets.failures:
        lines += ["not answered:", *reasons(failure.reason for failure in sets.failures)]
    return sets, [*lines, cost] if cost else lines
