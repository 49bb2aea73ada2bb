"""`synthscore rank`: candidates, or comparisons of them -> scores and ranks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any

from cyclopts import Parameter

from ..io.settings import given_options
from ..io.write import write_rows
from ..ranking import METHODS, ComparisonSets, Rankings, rank_jury
from ..ranking import rank as rank_sets
from ..ranking.methods import DEBIAS, RESAMPLES, STDERR, default_method, method_of
from ..ranking.sets import JUDGE
from .compare import ComparingOptions
from .messages import ERROR, OK, Messages, UsageError, counted, reasons, spaced, usage
from .options import FileIn, Input, Judges, RowsIn, RowsOut, Seed, Tolerance
from .score import jury_lines

By = Annotated[
    list[str] | None,
    Parameter(
        help="rank each value of this column of the comparisons by itself; may be repeated; none: all together "
        "(default: context_id and attribute, where there are such columns); judge: each judge by itself"
    ),
]


def rank(
    candidates: RowsIn | None = None,
    /,
    *,
    comparisons: FileIn | None = None,
    output: RowsOut = "-",
    by: By = None,
    method: Annotated[
        str | None,
        Parameter(
            group="method",
            help=f"{', '.join(METHODS)}: docs/ranking.md (default: poe-bt, of answers in words bt); "
            "options as NAME:OPTION=VALUE: decisions=averaged or per_call "
            "(of hard methods: a pair is won by its mean answer, or each call by itself), prior=all, observed or none "
            "(of bt: pseudo-wins)",
        ),
    ] = None,
    debias: Annotated[
        str,
        Parameter(
            group="method",
            help=f"take out the favour for a position: {', '.join(DEBIAS)}. median, mean: by shifting all log-odds "
            "of the run; gamma: by the run's mean inside poe-bt or poe-g; mle: estimated with poe-bt's scores",
        ),
    ] = "none",
    stderr: Annotated[
        str,
        Parameter(
            group="method",
            help=f"{', '.join(STDERR)}: from the likelihood, or {RESAMPLES} resamples of the pairs; "
            "auto: the likelihood, for up to 3 000 candidates",
        ),
    ] = "auto",
    seed: Seed = 0,
    judging: ComparingOptions = ComparingOptions(),
    judge: Judges = Judges(),
    input: Input = Input(),
    tolerance: Tolerance = Tolerance(),
    messages: Messages = Messages(),
) -> int:
    """Texts compared with each other -> an order.

    For example:
      $ synthscore rank --comparisons comparisons.csv
      $ synthscore rank --comparisons comparisons.csv --method bt-ties -o ranking.jsonl
      $ synthscore rank candidates.jsonl --task summarization -a coherence --budget 48 -o ranking.jsonl

    Ranks texts by comparing them with each other. Comparisons come from a file: a row has first
    and second (ids, in the order shown), one of probability (that the first is better), log_odds,
    log_p_first with log_p_second and log_p_tie, winner (an id, or tie) or outcome (first, second,
    tie), and maybe weight, context_id and attribute: each context and attribute is ranked by itself. Or a judge is
    asked about candidates, as `synthscore compare` does. Several judges (--model A --model B, or a column
    judge) make one order, the mean of theirs (docs/jury.md).

    Writes one row for each candidate: id, score (higher is better; its scale is the method's),
    stderr, rank (1 is best), n_comparisons, status (ok, unconverged or unscored), reason,
    signature. Messages say what was estimated. Nothing is debiased unless --debias asks for it.
    The exit code is 3 where more than --allow-unscored allows of rows could not be read or scored,
    calls were not answered, or scores did not converge.

    Args:
        comparisons: file to rank from; no model is asked
    """
    # Options are checked before anything is read; the default may yet become bt, once answers in words have been read.
    chosen, _, given = (method or "poe-bt").partition(":")
    with usage():
        options = {name: None if value == "none" else value for name, value in given_options(given).items()}
        method_of(chosen).check(options, debias=debias, stderr=stderr)
    _refuse_contradictions(candidates, comparisons, by, judging, judge)
    if comparisons is not None:
        sets, lines = load_comparisons(comparisons, by, input, messages)
    else:
        assert candidates is not None
        if not judging.protocol:
            judging = replace(judging, protocol="compare" if chosen == "bt-ties" else "choose")
        sets, lines = judging.ask(candidates, judge, seed, input, messages)
        if judging.dry_run:
            print(*lines, sep="\n")
            return OK
    if not method:
        chosen = default_method(sets)
    is_jury = len(sets.judges) > 1 and JUDGE not in (by or ())
    rank_all = rank_jury if is_jury else rank_sets
    rankings = rank_all(sets, chosen, debias=debias, stderr=stderr, seed=seed, **options)
    rows = list(rankings.to_rows())
    write_rows(rows, output)
    lines += [*describe_bias(rankings), *summarise(rankings, chosen), *jury_lines(rankings.juries)]
    messages.note(*lines, signature=str(rankings.signature))
    for line in describe_unconverged(rankings, chosen):
        messages.warn(line)
    statuses = Counter(row["status"] for row in rows)
    if statuses["unscored"] == len(rows):
        messages.warn("nothing could be ranked")
        return ERROR
    # Questions without an answer and rows that could not be read. A candidate that was left out has a row.
    n_without_row = sets.n_open - len(sets.left_out)
    return tolerance.exit_code(n_without_row + len(rows) - statuses["ok"], n_without_row + len(rows))


def _refuse_contradictions(
    candidates: str | None,
    comparisons: str | None,
    by: Sequence[str] | None,
    judging: ComparingOptions,
    judge: Judges,
) -> None:
    """raises : UsageError for the first options that contradict each other"""
    if comparisons is not None:
        asks = candidates is not None or judge != Judges()
        if asks or judging != ComparingOptions():
            raise UsageError(
                "--comparisons asks no judge. Leave out the candidates, and the options of judge, model and attribute"
            )
        return
    if judging.shard:
        raise UsageError(
            "--shard shares out what a judge is asked, and an order is signed with all comparisons. Take synthscore "
            "compare --shard i/n for each shard, join the rows with cat, and take synthscore rank --comparisons"
        )
    if candidates is None:
        raise UsageError("there is nothing to rank. Name a file of candidates, or one with --comparisons")
    if by:
        raise UsageError("--by is for --comparisons: of candidates, each context and attribute is ranked by itself")


def load_comparisons(
    comparisons: str, by: Sequence[str] | None, input: Input, messages: Messages
) -> tuple[ComparisonSets, list[str]]:
    """The comparisons of a file, and lines that say what it holds.

    by : columns to group by, "none" for no column; None: the default of ComparisonSets.load
    """
    columns = None
    if by is not None:
        columns = tuple(name for name in by if name != "none")
    sets = ComparisonSets.load(
        comparisons,
        by=columns,
        encoding=input.encoding,
        fields=input.fields,
    )
    if sets.signature.mixed and not sets.judges:
        differ = ", ".join(f"{name} ({values})" for name, values in sets.signature.mixed)
        messages.warn(
            f"the comparisons are not all by one judge: they differ in {differ}, and so does the signature of what is "
            "made of them. To rank by each judge, and to take the mean, give the rows a column judge"
        )
    n_calls = counted(sum(map(len, sets.sets.values())), "comparison")
    n_texts = counted(sum(calls.n_candidates for calls in sets.sets.values()), "candidate")
    lines = [f"{n_calls} of {n_texts} in {counted(len(sets.sets), 'group')}"]
    if sets.errors:
        lines += [f"{counted(len(sets.errors), 'row')} left out:", *reasons(map(str, sets.errors))]
    return sets, lines


# ------------------------------------------------------------------------------------------------- in words


def describe_bias(rankings: Rankings) -> Iterator[str]:
    """Lines about the judge's position bias, and how it was taken out."""
    bias = rankings.bias
    shift = rankings.shift
    if bias is None:
        return
    first = bias.first_wins
    share = f"{first.value:.3f} ({first.low:.3f} to {first.high:.3f})"
    line = f"the first text wins {share} of {spaced(first.n)} calls"
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


def summarise(rankings: Rankings, method: str) -> Iterator[str]:
    """How many candidates were ranked, and what the method estimated, as a range over groups."""
    good = [ranking for ranking in rankings.by_group.values() if not isinstance(ranking, str)]
    n_scored = sum(not math.isnan(score) for ranking in good for score in ranking.scores.tolist())
    n_all = sum(map(len, rankings.ids.values())) + len(rankings.left_out)
    line = f"{method}: {counted(n_scored, 'candidate')} of {spaced(n_all)} ranked"
    if good:
        n_converged = sum(ranking.converged for ranking in good)
        yield f"{line}, {n_converged} of {counted(len(rankings.by_group), 'ranking')} converged"
        values: dict[str, list[Any]] = {}
        for ranking in good:
            estimates = {**ranking.settings, "iterations": ranking.iterations}
            if not math.isnan(ranking.log_likelihood):
                estimates["log-likelihood"] = ranking.log_likelihood
            for name, value in estimates.items():
                if value is not None:
                    values.setdefault(name, []).append(value)
        yield "; ".join(f"{name} {_range(numbers)}" for name, numbers in values.items())
    else:
        yield line
    why = [ranking for ranking in rankings.by_group.values() if isinstance(ranking, str)]
    why += [candidate.reason for candidate in rankings.left_out]
    if why:
        yield from ("unscored:", *reasons(why))


def describe_unconverged(rankings: Rankings, method: str) -> Iterator[str]:
    """One line about the rankings that did not converge, however many; none where all did."""
    by_group = {
        group: ranking
        for group, ranking in rankings.by_group.items()
        if not isinstance(ranking, str) and not ranking.converged
    }
    if not by_group:
        return
    group, first = next(iter(by_group.items()))
    where = ""
    if len(rankings.by_group) > 1:
        n_groups = counted(len(rankings.by_group), "ranking")
        where = f" in {len(by_group)} of {n_groups}, {'/'.join(group)} the first"
    derivative = f"{first.iterations} iterations leave a derivative of {first.gradient:.2g}"
    yield f"{method} did not converge{where}: {derivative}. Such scores are not final"


def _range(values: list[Any]) -> str:
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    if len(numbers) < len(values):
        return "/".join(dict.fromkeys(map(str, values)))
    low, high = min(numbers), max(numbers)
    return f"{low:.6g}" if low == high else f"{low:.4g} to {high:.4g}"
