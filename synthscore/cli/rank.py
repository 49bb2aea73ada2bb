"""`synthscore rank`: candidates, or comparisons of them -> scores and ranks."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..io.write import write_rows
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
    counted,
    note,
    reasons,
    rows_file,
    spaced,
    warn,
    whole,
)
from .compare import add_judging, add_sorting, chosen, judged

if TYPE_CHECKING:  # SciPy takes a while to load, and --help does not need it
    from ..ranking import ComparisonSets, Rankings

TEXT = """
Examples:
  $ synthscore rank --comparisons comparisons.csv
  $ synthscore rank --comparisons comparisons.csv --method bt-ties -o ranking.jsonl
  $ synthscore rank candidates.jsonl --task summarization -a coherence --budget 48 -o ranking.jsonl

Ranks texts by comparing them with each other. Comparisons come from a file: a row has first and second
(ids, in the order shown), one of probability (that the first is better), log_odds, log_p_first with
log_p_second and log_p_tie, winner (an id, or tie) or outcome (first, second, tie), and maybe weight,
context_id and attribute: each of these is ranked apart. Or a judge is asked about candidates, as
`synthscore compare` does.

Writes one row for each candidate: id, score (higher is better; its scale is the method's), stderr, rank
(1 is best), n_comparisons, status (ok, unconverged or unscored), reason, signature. What was estimated
goes to stderr. Nothing is debiased unless --debias asks for it. The exit code is 3 where a row could
not be read or scored, a call was not answered, or a method did not converge.
"""

JUDGING = ("task", "contexts", "protocol", "selection", "budget", "min_mass", "prompts", "model", "store")
MOVED = {
    "--curve": "`synthscore curve COMPARISONS` draws efficiency curves",
    "--save-comparisons": "`synthscore compare CANDIDATES ... -o FILE` writes them, and `synthscore rank "
    "--comparisons FILE` ranks from them",
}


def add(commands: Commands) -> None:
    from ..ranking.methods import DEBIAS, METHODS, RESAMPLES, STDERR

    parser = add_command(
        commands,
        "rank",
        run,
        "rank CANDIDATES --task T -a A [options]\n       synthscore rank --comparisons FILE [options]",
        "texts compared with each other -> an order",
        TEXT,
    )
    parser.add_argument(
        "candidates",
        metavar="CANDIDATES",
        nargs="?",
        help="the texts: .jsonl, .json, .csv, .tsv, .parquet, a datasets folder, or - for JSONL on stdin; with "
        "--comparisons: who else there is (only ids are read)",
    )
    parser.add_argument("-o", "--output", type=rows_file, metavar="FILE", help="rows (default: JSONL on stdout)")
    parser.add_argument("--comparisons", metavar="FILE", help="rank from these; no model is asked")
    add_groups(parser)
    group = parser.add_argument_group("method")
    group.add_argument("--method", choices=tuple(METHODS), default="poe-bt", help="(default: poe-bt; docs/ranking.md)")
    group.add_argument(
        "--debias",
        choices=DEBIAS,
        default="none",
        help="take out the favour for a position: median or mean, by shifting all log-odds of the run; gamma, by the "
        "run's mean inside poe-bt or poe-g; mle, estimated with poe-bt's scores (default: none)",
    )
    group.add_argument(
        "--decisions",
        choices=("averaged", "per_call"),
        help="of hard methods: a pair is won by its mean answer, or each call by itself (default: averaged)",
    )
    group.add_argument("--prior", choices=("all", "observed", "none"), help="of bt: pseudo-wins (default: all)")
    add_sorting(group)
    group.add_argument(
        "--stderr",
        choices=STDERR,
        default="auto",
        help=f"from the likelihood, the residuals, or {RESAMPLES} resamples of the pairs (default: auto: the "
        "likelihood, for up to 3 000 candidates)",
    )
    group.add_argument("--seed", type=whole(0), metavar="N", help="of whatever is drawn (default: 0)")
    add_judging(parser)
    add_model(parser, None, JUDGE)
    add_input(parser)
    add_messages(parser)
    for option, new in MOVED.items():
        parser.add_argument(option, nargs="*", action=Moved, help=argparse.SUPPRESS, metavar=new)


class Moved(argparse.Action):
    """An option that another command has now."""

    def __call__(self, parser: argparse.ArgumentParser, *seen: Any) -> None:
        parser.error(f"{self.option_strings[0]} is no option of rank any more: {self.metavar}")


def add_groups(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by",
        action="append",
        metavar="COLUMN",
        help="rank each value of this column of the comparisons apart; may be repeated; none: all together (default: "
        "context_id and attribute, where there are such columns)",
    )
    parser.add_argument(
        "--human", metavar="FILE", help="people's ratings, to print agreement with: rows with id, context_id, human"
    )


def run(args: argparse.Namespace) -> int:
    from ..ranking.methods import METHODS, rank

    options = options_of(args)
    try:
        METHODS[args.method].check(options, debias=args.debias, stderr=args.stderr)
    except InputError as error:
        raise UsageError(str(error)) from None
    if args.comparisons:
        for name in JUDGING:
            if getattr(args, name) not in (None, "default"):
                raise UsageError(f"--{name.replace('_', '-')} is for a judge: --comparisons asks none. Leave one out")
        sets, lines = stored(args, args.comparisons, args.candidates)
    elif not args.candidates:
        raise UsageError("there is nothing to rank. Name a file of candidates, or one with --comparisons")
    elif args.by:
        raise UsageError("--by is for --comparisons: of candidates, each context and attribute is ranked by itself")
    else:
        design = args.selection or ("sort" if args.method == "pairs" else "")
        protocol = args.protocol or ("compare" if args.method == "bt-ties" else "choose")
        sets, lines = judged(args, chosen(args, design), protocol)
    rankings = rank(sets, args.method, debias=args.debias, stderr=args.stderr, seed=args.seed or 0, **options)
    rows = list(rankings.to_rows())
    write_rows(rows, args.output or "-")
    note(args, *lines, *about_bias(rankings), *summary(rankings, args.method), *agreement(args, rankings),
         signature=str(rankings.signature))  # fmt: skip
    for group, ranking in rankings.of.items():
        if not isinstance(ranking, str) and not ranking.converged:
            left = f"{ranking.iterations} iterations leave a derivative of {ranking.gradient:.2g}"
            of = f" for {'/'.join(group)}" if group else ""
            warn(f"{args.method} did not converge{of}: {left}. Its scores are not final")
    statuses = {row["status"] for row in rows}
    if statuses <= {"unscored"}:
        warn("nothing could be ranked")
        return ERROR
    return OK if statuses == {"ok"} and sets.complete else INCOMPLETE


def options_of(args: argparse.Namespace) -> dict[str, Any]:
    """What was said about the method."""
    names = ("decisions", "prior", *(("gap", "beam_size") if args.comparisons or args.method == "pairs" else ()))
    options = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if options.get("prior") == "none":
        options["prior"] = None
    if args.orders and (args.comparisons or args.method == "pairs"):
        options["both_orders"] = args.orders == "both"
    return options


def stored(args: argparse.Namespace, comparisons: str, candidates: str | None) -> tuple[ComparisonSets, list[str]]:
    """The comparisons of a file; and in words, what it holds."""
    from ..ranking import ComparisonSets

    sets = ComparisonSets.load(
        comparisons,
        by=None if args.by is None else tuple(name for name in args.by if name != "none"),
        candidates=candidates,
        encoding=args.encoding,
        fields={name: column for name, column in args.field if name != "human"},
    )
    if sets.signature and sets.signature.mixed:
        differ = ", ".join(f"{name} ({values})" for name, values in sets.signature.mixed)
        warn(
            f"the comparisons are not all by one judge: they differ in {differ}, and so does the signature of what is "
            "made of them. For an order by each judge, keep a file for each"
        )
    n_calls, n_texts = (sum(map(count, sets.sets.values())) for count in (len, lambda calls: calls.n_candidates))
    lines = [
        f"{counted(n_calls, 'comparison')} of {counted(n_texts, 'candidate')} in {counted(len(sets.sets), 'group')}"
    ]
    if sets.errors:
        lines += [f"{counted(len(sets.errors), 'row')} left out:", *reasons(map(str, sets.errors))]
    return sets, lines


# ------------------------------------------------------------------------------------------------- in words


def about_bias(rankings: Rankings) -> Iterator[str]:
    """What the judge makes of the order of two texts, and what was done about it."""
    bias, shift = rankings.bias, rankings.shift
    if bias is None:
        return
    first = bias.first_wins
    line = f"the first text wins {first.value:.3f} ({first.low:.3f} to {first.high:.3f}) of {spaced(first.n)} calls"
    if bias.n_both_orders:
        pairs = f"{counted(bias.n_both_orders, 'pair')} asked in both orders get another winner"
        line += f"; {bias.flipped.value:.1%} of {pairs}"
    yield line
    if shift is None:
        return
    if rankings.debias == "gamma":
        yield f"gamma {shift.shift:+.4f} nats, from the mean probability {shift.threshold:.4f} of the first text"
    else:
        yield (
            f"log-odds of first texts shifted by {shift.shift:+.4f} nats (threshold {shift.threshold:.4f}): they now "
            f"win {shift.first_wins:.3f}"
        )


def summary(rankings: Rankings, method: str) -> Iterator[str]:
    """How the method fared: what it estimated, as a range over groups."""
    good = [ranking for ranking in rankings.of.values() if not isinstance(ranking, str)]
    n_scored = sum(not math.isnan(score) for ranking in good for score in ranking.scores.tolist())
    n_all = sum(map(len, rankings.ids.values())) + len(rankings.left_out)
    line = f"{method}: {counted(n_scored, 'candidate')} of {spaced(n_all)} ranked"
    if good:
        n_converged = sum(ranking.converged for ranking in good)
        yield f"{line}, {n_converged} of {counted(len(rankings.of), 'ranking')} converged"
        values: dict[str, list[Any]] = {}
        for ranking in good:
            found = {**ranking.settings, "iterations": ranking.iterations, "log-likelihood": ranking.log_likelihood}
            for name, value in found.items():
                if value is not None and not (name == "log-likelihood" and math.isnan(value)):
                    values.setdefault(name, []).append(value)
        yield "; ".join(f"{name} {_range(seen)}" for name, seen in values.items())
    else:
        yield line
    why = [ranking for ranking in rankings.of.values() if isinstance(ranking, str)]
    why += [each.reason for each in rankings.left_out]
    if why:
        yield from ("unscored:", *reasons(why))


def _range(values: list[Any]) -> str:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(values):
        return "/".join(dict.fromkeys(map(str, values)))
    low, high = min(numbers), max(numbers)
    return f"{low:.6g}" if low == high else f"{low:.4g} to {high:.4g}"


def human_fields(args: argparse.Namespace) -> dict[str, str]:
    """Columns of --human; the others are those of what is ranked."""
    return {name: column for name, column in args.field if name == "human"}


def agreement(args: argparse.Namespace, rankings: Rankings) -> Iterator[str]:
    """With people, inside each group."""
    if not args.human:
        return
    from ..evaluation.rankings import CandidateRatings, agreement_with_people

    ratings = CandidateRatings.load(args.human, encoding=args.encoding, fields=human_fields(args))
    for name, found in agreement_with_people(rankings, ratings, (args.attribute or [None])[0]).items():
        text = f"agreement with people{f', {name}' if name else ''}: Spearman {found.value:.3f}"
        text += f" ± {found.stderr:.3f}" if found.n_contexts > 1 else ""
        text += f", {counted(found.n_contexts, 'group')}"
        yield text + (f", {found.n_skipped} skipped" if found.n_skipped else "")
