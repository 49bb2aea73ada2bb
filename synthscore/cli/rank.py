"""`synthscore rank`: candidates, or comparisons of them -> scores and ranks."""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..errors import InputError, RankingError
from ..io.write import write_rows
from ..signature import Signature
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
    reasons,
    rows_file,
    spaced,
    warn,
    whole,
)

if TYPE_CHECKING:  # SciPy takes a while to load, and --help does not need it
    from ..ranking import Comparisons, Ranking
    from .comparing import Found

    Ranked = Mapping[tuple[str, ...], Ranking | str]  # a group's ranking, or why there is none

TEXT = """
Examples:
  $ synthscore rank --comparisons comparisons.csv
  $ synthscore rank --comparisons comparisons.csv --method bt-ties -o ranking.jsonl
  $ synthscore rank candidates.jsonl --task summarization -a coherence --budget 48 -o ranking.jsonl
  $ synthscore rank --comparisons comparisons.jsonl --curve --human ratings.jsonl --plot curve.svg

Ranks texts by comparing them with each other. Comparisons come from a file: a row has first and second
(ids, in the order shown), one of probability (that the first is better), log_odds, log_p_first with
log_p_second and log_p_tie, winner (an id, or tie) or outcome (first, second, tie), and maybe weight,
context_id and attribute: each of these is ranked apart. Or a judge is asked about candidates: rows with
context_id, text and context (or --contexts FILE), and maybe id and system.

Writes one row for each candidate: id, score (higher is better; its scale is the method's), stderr, rank
(1 is best), n_comparisons, status (ok, unconverged or unscored), reason, signature. What was estimated
goes to stderr. Nothing is debiased unless --debias asks for it. The exit code is 3 where a row could
not be read or scored, a call was not answered, or a method did not converge.
"""

SELECTIONS = ("all", "random", "no-repeat", "symmetric", "greedy", "sequential")
DECISIONS = {"decisions": "averaged"}
OPTIONS: Mapping[str, Mapping[str, Any]] = {  # method of ranking.METHODS -> its options here, with their defaults
    "win-ratio": DECISIONS,
    "average-probability": {},
    "colley": DECISIONS,
    "bt": DECISIONS | {"prior": "all"},
    "poe-bt": {},
    "bt-ties": {},
    "poe-g": {},
    "poe-g-hard": DECISIONS,
    "likelihood": {},
    "pairs": {"gap": 0.0, "beam_size": 1},
}
WITH_STDERR = ("bt", "poe-bt", "bt-ties", "poe-g", "poe-g-hard")
RESAMPLES = 200
CURVE_METHODS = ("win-ratio", "average-probability", "bt", "poe-g-hard", "poe-bt", "poe-g")


def add(commands: Commands) -> None:
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
    _add_method(parser)
    _add_judging(parser)
    add_model(parser, None, JUDGE)
    _add_curve(parser)
    add_input(parser)
    add_messages(parser)


def _add_method(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("method")
    group.add_argument("--method", choices=tuple(OPTIONS), help="(default: poe-bt; docs/ranking.md)")
    group.add_argument(
        "--debias",
        choices=("none", "threshold", "mean", "gamma", "mle"),
        default="none",
        help="take out the favour for a place: threshold (median) or mean, by shifting all log-odds of the run; gamma, "
        "by the run's mean inside poe-bt or poe-g; mle, estimated with poe-bt's scores (default: none)",
    )
    group.add_argument(
        "--decisions",
        choices=("averaged", "per_call"),
        help="of hard methods: a pair is won by its mean answer, or each call by itself (default: averaged)",
    )
    group.add_argument("--prior", choices=("all", "observed", "none"), help="of bt: pseudo-wins (default: all)")
    group.add_argument("--gap", type=number(0, 0.5), metavar="P", help="of pairs: doubt around 1/2 (default: 0)")
    group.add_argument("--beam-size", type=whole(1), metavar="N", help="of pairs: paths kept (default: 1)")
    group.add_argument(
        "--stderr",
        choices=("auto", "model", "sandwich", "bootstrap", "none"),
        default="auto",
        help=f"from the likelihood, the residuals, or {RESAMPLES} resamples of the pairs (default: auto: the "
        "likelihood, for up to 3 000 candidates)",
    )
    group.add_argument("--seed", type=whole(0), metavar="N", help="of whatever is drawn (default: 0)")


def _add_judging(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("judging")
    group.add_argument("--task", metavar="T", help="task, or folder with a task.toml")
    group.add_argument("-a", "--attribute", action="append", metavar="A", help="may be repeated")
    group.add_argument("--contexts", metavar="FILE", help="the contexts (default: column context of the candidates)")
    group.add_argument(
        "--protocol",
        choices=("choose", "compare", "yes_no"),
        help="choose: A or B; compare: Better, Worse or Similar (default: compare for bt-ties, else choose)",
    )
    group.add_argument(
        "--selection",
        choices=SELECTIONS,
        help="which pairs: all; random calls; random pairs in one order (no-repeat) or both (symmetric); greedy: most "
        "informative beforehand; sequential: after each round of answers (default: greedy, or all without --budget)",
    )
    group.add_argument(
        "--budget", type=whole(1), metavar="CALLS", help="questions about each context and attribute; two a pair in "
        "both orders"
    )  # fmt: skip
    group.add_argument(
        "--orders", choices=("both", "one"), help="of all, greedy and pairs: ask about a pair in both (default: both)"
    )
    group.add_argument(
        "--min-mass",
        type=number(0, 1),
        metavar="P",
        help="least probability, 0 to 1, that the labels have together for an answer to count (default: 0.01)",
    )
    add_templates(group)
    group.add_argument(
        "--save-comparisons", type=rows_file, metavar="FILE", help="what was answered, for --comparisons later"
    )


def _add_curve(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("efficiency curve")
    group.add_argument(
        "--curve",
        action="store_true",
        help="thin a full set of --comparisons: agreement with --human by budget, for several methods (without "
        "--human: with what each method says of the full set). --selection says how (default: symmetric)",
    )
    group.add_argument("--methods", metavar="M,M", help=f"(default: {','.join(CURVE_METHODS)})")
    group.add_argument("--draws", type=whole(2), metavar="N", help="of calls, for each budget (default: 100)")
    group.add_argument("--budgets", metavar="K,K", help="calls in a context (default: 2 N to all, in steps of N)")
    group.add_argument("--plot", metavar="FILE.svg", help="draw it")
    group.add_argument("--json", action="store_true", help="print JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    check(args)
    from . import comparing

    if args.curve:
        from . import curve

        return curve.run(args)
    found = comparing.stored(args) if args.comparisons else comparing.judged(args)
    ratings = comparing.read_ratings(args) if args.human else None
    groups, options, lines = debiased(args, found.groups)
    ranked = {group: ranking(args, calls, options) for group, calls in groups.items()}
    signature = _signature(args, found)
    rows = list(_rows(found, ranked, signature))
    write_rows(rows, args.output or "-")
    lines = [*found.lines, *lines, *_summary(args, found, ranked)]
    if ratings is not None:
        lines += comparing.agreement(args, found, ranked, ratings)
    note(args, *lines, signature=str(signature))
    for group, result in ranked.items():
        if not isinstance(result, str) and not result.converged:
            left = f"{result.iterations} iterations leave a derivative of {result.gradient:.2g}"
            of = f" for {'/'.join(group)}" if group else ""
            warn(f"{args.method} did not converge{of}: {left}. Its scores are not final")
    statuses = {row["status"] for row in rows}
    if statuses <= {"unscored"}:
        warn("nothing could be ranked")
        return ERROR
    return OK if statuses == {"ok"} and found.complete else INCOMPLETE


# ------------------------------------------------------------------------------------------------- options


def check(args: argparse.Namespace) -> None:
    """raises : UsageError for options that contradict each other, or do nothing together"""
    if args.curve:
        _refuse(args, ("method",), "with --curve, which draws --methods")
    args.method = args.method or "poe-bt"
    asked = ["task", "contexts", "protocol", "min_mass", "save_comparisons", "budget", "model", "store"]
    asked += [] if args.curve else ["selection"]
    asked += [] if args.method == "pairs" and not args.curve else ["orders"]
    curve = ("methods", "draws", "budgets", "plot")
    if args.comparisons:
        _refuse(args, asked, "with --comparisons, which asks no model")
        if args.prompts != "default":
            raise UsageError(f"--prompts {args.prompts} does nothing with --comparisons. Leave it out")
    elif args.curve:
        raise UsageError("--curve thins comparisons that are there: name them with --comparisons FILE")
    elif not args.candidates:
        raise UsageError("there is nothing to rank. Name a file of candidates, or one with --comparisons")
    else:
        _check_judging(args)
    if args.curve:
        _refuse(args, ("decisions", "prior", "gap", "beam_size"), "with --curve, where methods have their defaults")
        if args.debias != "none" or args.stderr != "auto":
            raise UsageError("--debias and --stderr do nothing with --curve. Leave them out")
        if args.json and args.output == "-":
            raise UsageError("--json and -o - both write to stdout. Leave one out")
        if args.selection in ("all", "sequential"):
            raise UsageError(f"--selection {args.selection} does not thin. Take symmetric, greedy, random or no-repeat")
        return
    _refuse(args, curve, "without --curve")
    if args.json:
        raise UsageError("--json does nothing without --curve: rows are JSON already. Leave it out")
    mine = OPTIONS[args.method]
    _refuse(args, {"decisions", "prior", "gap", "beam_size"} - set(mine), f"with --method {args.method}")
    allowed = {"gamma": ("poe-bt", "poe-g"), "mle": ("poe-bt",)}.get(args.debias)
    if (allowed and args.method not in allowed) or (args.debias != "none" and args.method == "pairs"):
        methods = " and ".join(allowed) if allowed else "all methods but pairs"
        raise UsageError(f"--debias {args.debias} is for {methods}, not {args.method}. Take another")
    simple = args.stderr in ("auto", "none")
    if not simple and args.stderr != "bootstrap" and args.method not in WITH_STDERR:
        raise UsageError(f"--stderr {args.stderr} is for {', '.join(WITH_STDERR)}. For {args.method}: bootstrap")
    if (args.stderr, args.method) in (("sandwich", "bt-ties"), ("bootstrap", "pairs")):
        raise UsageError(f"--stderr {args.stderr} does not go with --method {args.method}. Leave it out")
    if args.comparisons and args.method != "pairs" and args.stderr != "bootstrap":
        _refuse(args, ("seed",), "here: nothing is drawn")


def _check_judging(args: argparse.Namespace) -> None:
    _refuse(args, ("by",), "without --comparisons: each context and attribute is ranked apart")
    if not args.task or not args.attribute:
        raise UsageError("to ask a judge, say --task T and --attribute A; or give --comparisons FILE")
    if args.method == "pairs":
        _refuse(args, ("selection", "budget"), "with --method pairs, which chooses its questions itself")
        return
    selection = args.selection or ("greedy" if args.budget else "all")
    if (selection == "all") == bool(args.budget):
        need = "asks about all pairs: leave --budget out" if args.budget else "needs a number of calls: --budget CALLS"
        raise UsageError(f"--selection {selection} {need}")
    if selection not in ("all", "greedy"):
        _refuse(args, ("orders",), f"with --selection {selection}, which decides that itself")


def _refuse(args: argparse.Namespace, names: Any, why: str) -> None:
    for name in names:
        value = getattr(args, name)
        if value is not None:
            shown = " ".join(value) if isinstance(value, list) else value
            raise UsageError(f"--{name.replace('_', '-')} {shown} does nothing {why}. Leave it out")


# ------------------------------------------------------------------------------------------------- ranking


def debiased(
    args: argparse.Namespace, groups: Mapping[tuple[str, ...], Comparisons]
) -> tuple[Mapping[tuple[str, ...], Comparisons], dict[str, Any], list[str]]:
    """The comparisons to rank, options of the method, and what was found about the place."""
    from ..ranking import mean_debiasing, median_debiasing, pool, position_bias

    if not groups:
        return groups, {}, []
    run = pool({"/".join(group) or "all": calls for group, calls in groups.items()})
    bias = position_bias(run)
    first = bias.first_wins
    lines = [f"the first text wins {first.value:.3f} ({first.low:.3f} to {first.high:.3f}) of {spaced(len(run))} calls"]
    if bias.n_both_orders:
        flipped = f"{bias.flipped.value:.1%} of {counted(bias.n_both_orders, 'pair')} asked in both orders"
        lines[0] += f"; {flipped} get another winner"
    if args.debias in ("none", "mle"):
        return groups, {"bias": "mle"} if args.debias == "mle" else {}, lines
    shift = median_debiasing(run) if args.debias == "threshold" else mean_debiasing(run)
    if args.debias == "gamma":
        if args.method == "poe-g":
            beta = 1 / (1 + math.exp(shift.shift))
            return groups, {"bias": beta}, [*lines, f"beta {beta:.4f}, the mean probability of the first text"]
        return groups, {"bias": shift.shift}, [*lines, f"gamma {shift.shift:+.4f} nats, from the mean probability"]
    lines.append(
        f"log-odds of first texts shifted by {shift.shift:+.4f} nats (threshold {shift.threshold:.4f}): they now win "
        f"{shift.first_wins:.3f}"
    )
    return {group: shift.apply(calls) for group, calls in groups.items()}, {}, lines


def options_of(args: argparse.Namespace, method: str) -> dict[str, Any]:
    """What was said about the method, and its defaults for the rest."""
    options = {
        name: default if getattr(args, name) is None else getattr(args, name)
        for name, default in OPTIONS[method].items()
    }
    return {name: None if value == "none" else value for name, value in options.items()}


def function(args: argparse.Namespace, options: Mapping[str, Any], *, stderr: bool) -> Callable[..., Ranking]:
    """The method as a function of comparisons alone."""
    from ..ranking import METHODS

    kind = args.stderr if stderr and args.stderr not in ("none", "bootstrap") else None
    more: dict[str, Any] = {"stderr": kind} if args.method in WITH_STDERR else {}
    if args.method == "pairs":
        more = {"seed": args.seed or 0, "calibrate": args.orders == "both"}
    return partial(METHODS[args.method], **options_of(args, args.method), **options, **more)


def ranking(args: argparse.Namespace, calls: Comparisons, options: Mapping[str, Any]) -> Ranking | str:
    """What the method makes of a group's comparisons, or why it cannot."""
    from dataclasses import replace

    import numpy as np

    from ..ranking import bootstrap

    with warnings.catch_warnings(record=True):  # that it did not converge is in the result, and told with the group
        warnings.simplefilter("always")
        try:
            found = function(args, options, stderr=True)(calls)
            if args.stderr == "bootstrap":
                rng = np.random.default_rng(args.seed or 0)
                sample = bootstrap(function(args, options, stderr=False), calls, RESAMPLES, rng)
                settings = {**found.settings, "resamples": RESAMPLES - len(sample.failures)}
                found = replace(found, stderr=sample.stderr, settings=settings)
        except (RankingError, InputError) as error:
            return str(error)
    if failed := found.settings.get("failed"):
        return f"the sort needs an answer about {failed[0]!r} and {failed[1]!r}, and there is none"
    return found


# ------------------------------------------------------------------------------------------------- what comes out


def _rows(found: Found, ranked: Ranked, signature: Signature) -> Iterator[dict[str, Any]]:
    for group, result in ranked.items():
        names = dict(zip(found.by, group, strict=True))
        calls = found.groups[group]
        for place, name in enumerate(calls.ids):
            row: dict[str, Any] = {"id": name} | names
            if isinstance(result, str) or math.isnan(result.scores[place]):
                reason = result if isinstance(result, str) else "it was not compared with any other"
                yield row | _unscored(reason) | {"signature": str(signature)}
                continue
            numbers = {"score": float(result.scores[place]), "stderr": float(result.stderr[place])}
            numbers |= {"rank": int(result.ranks[place]), "n_comparisons": round(float(result.n_comparisons[place]), 9)}
            status = {"status": "ok" if result.converged else "unconverged", "reason": ""}
            if not result.converged:
                status["reason"] = f"stopped after {result.iterations} iterations"
            yield row | numbers | status | {"signature": str(signature)}
    for row, reason in found.left_out:
        yield row | _unscored(reason) | {"signature": str(signature)}


def _unscored(reason: str) -> dict[str, Any]:
    numbers = {"score": None, "stderr": None, "rank": None, "n_comparisons": 0.0}
    return numbers | {"status": "unscored", "reason": reason}


def _summary(args: argparse.Namespace, found: Found, ranked: Ranked) -> list[str]:
    """How the method fared: what it estimated, as a range over groups."""
    good = [result for result in ranked.values() if not isinstance(result, str)]
    n_scored = sum(not math.isnan(score) for result in good for score in result.scores.tolist())
    n_all = sum(len(calls.ids) for calls in found.groups.values()) + len(found.left_out)
    lines = [f"{args.method}: {counted(n_scored, 'candidate')} of {spaced(n_all)} ranked"]
    if good:
        values: dict[str, list[Any]] = {}
        for result in good:
            for name, value in {**result.settings, "iterations": result.iterations}.items():
                if value is not None:
                    values.setdefault(name, []).append(value)
            if not math.isnan(result.log_likelihood):
                values.setdefault("log-likelihood", []).append(result.log_likelihood)
        n_converged = sum(result.converged for result in good)
        lines[0] += f", {n_converged} of {counted(len(ranked), 'ranking')} converged"
        lines.append("; ".join(f"{name} {_range(seen)}" for name, seen in values.items()))
    why = [result for result in ranked.values() if isinstance(result, str)]
    why += [reason for _, reason in found.left_out]
    return [*lines, "unscored:", *reasons(why)] if why else lines


def _range(values: list[Any]) -> str:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(values):
        return "/".join(dict.fromkeys(map(str, values)))
    low, high = min(numbers), max(numbers)
    return f"{low:.6g}" if low == high else f"{low:.4g} to {high:.4g}"


def _signature(args: argparse.Namespace, found: Found) -> Signature:
    from ..ranking.comparisons import joint_signature
    from ..ranking.rows import fingerprint

    base = joint_signature(found.groups.values()) or Signature.of(synthscore=__version__)
    method = {"method": args.method, **options_of(args, args.method)}
    if args.method == "pairs":
        method["seed"] = args.seed or 0
    return base.with_(comparisons=fingerprint(found.groups), **method, debias=args.debias, stderr=args.stderr)
