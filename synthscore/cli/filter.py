"""`synthscore filter`: targets -> those that score at least so much, unchanged."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import Any, Literal

from ..errors import InputError
from ..references import References
from ..rows import Row, write_rows
from ..types import Score
from . import judging
from .common import (
    ERROR,
    INCOMPLETE,
    OK,
    Commands,
    UsageError,
    add_command,
    add_judging,
    note,
    number,
    open_model,
    rows_file,
    warn,
)

Decision = Literal["kept", "below", "undecided", "unscored"]

TEXT = """
Examples:
  $ synthscore filter targets.jsonl --references ladders/ --attribute coherence --min-score 3.5 > kept.jsonl
  $ synthscore filter - --references ladders/ --attribute fluency --min-score 3 --dropped dropped.jsonl

Keeps the rows whose text scores at least --min-score on the rung scale (see `synthscore score --help`):
as they were, all their columns unchanged, in their order. Where some rungs have no verdict, a row is
kept only if it scores enough whatever they had said; if that depends on them it is undecided. Rows that
are undecided or cannot be scored are not kept, and are counted apart. The exit code is 3 where a row is
partial or unscored. --dropped gets all rows that are not kept, each with a column synthscore: its
score, the low and high that it could have, decision (below, undecided or unscored), status and reason.
"""


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "filter",
        run,
        "filter TARGETS --references FOLDER --min-score X [options]",
        "texts -> those that score well enough",
        TEXT,
    )
    parser.add_argument(
        "targets",
        metavar="TARGETS",
        help=".jsonl, .json, .csv, .tsv, .parquet, a datasets folder, or - for JSONL on stdin",
    )
    parser.add_argument(
        "--min-score",
        type=number(-math.inf),
        required=True,
        metavar="X",
        help="least score that is kept, in rungs: 0 to sqrt(N(N+1)), 5.48 for ladders of 5 rungs",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=rows_file,
        default="-",
        metavar="FILE",
        help=".jsonl, .csv or .parquet (default: JSONL on stdout)",
    )
    parser.add_argument(
        "--dropped", type=rows_file, metavar="FILE", help="where to write the rows that are not kept (default: nowhere)"
    )
    add_judging(parser, "one; may be left out where the references hold only one")


def run(args: argparse.Namespace) -> int:
    references, held = judging.load(args)
    _check_attribute(args, held)
    _check_threshold(args, references, held)
    items = judging.read_items(args)
    if not items:
        warn(f"{args.targets} holds no rows")
    with open_model(args) as engine:
        judged = judging.judge(args, items, references, held, engine)
    scores = [of_item[0] for of_item in judged.scores]
    decisions = [decide(score, args.min_score) for score in scores]
    if args.dropped:
        write_rows(_dropped(items, scores, decisions), args.dropped)
    rows = (item.row for item, decision in zip(items, decisions, strict=True) if decision == "kept")
    write_rows((dict(row.values) for row in rows if isinstance(row, Row)), args.output)
    of: dict[Decision, list[Score]] = {"kept": [], "below": [], "undecided": [], "unscored": []}
    for score, decision in zip(scores, decisions, strict=True):
        of[decision].append(score)
    undecided = f"{len(of['undecided'])} undecided, " if of["undecided"] else ""
    note(
        args,
        judging.summary(args, judged),
        *judging.why("undecided", of["undecided"]),
        *judging.why("unscored", of["unscored"]),
        f"kept {len(of['kept'])} of {len(items)} at a score of {args.min_score:g} or more; "
        f"{len(of['below'])} below, {undecided}{len(of['unscored'])} unscored",
        *judged.cost,
        signature=judged.signature,
    )
    if items and len(of["unscored"]) == len(items):
        warn("nothing could be scored, so nothing was kept")
        return ERROR
    return OK if all(score.status == "ok" for score in scores) and not of["undecided"] else INCOMPLETE


def decide(score: Score, min_score: float) -> Decision:
    """Whether a text scores enough: decided only where no missing verdict or untold label could change the answer."""
    if score.value is None:
        return "unscored"
    partial = score.status == "partial"
    low = score.low if score.low is not None else -math.inf if partial else score.value
    high = score.high if score.high is not None else math.inf if partial else score.value
    if low >= min_score:
        return "kept"
    return "below" if high < min_score else "undecided"


def _check_attribute(args: argparse.Namespace, held: judging.Held) -> None:
    names = list(dict.fromkeys(name for attributes in held.values() for name in attributes))
    names = args.attribute or names
    if len(names) != 1:
        raise UsageError(
            f"filter decides by one attribute, and there are {len(names)}: {', '.join(names)}. Say which with one "
            "--attribute NAME; for several, filter the result again"
        )


def _check_threshold(args: argparse.Namespace, references: References, held: judging.Held) -> None:
    sizes = sorted({ladder.n_rungs for ladder in references if ladder.attribute in held.get(ladder.task, ())})
    if len(sizes) > 1:
        warn(f"the ladders have {', '.join(map(str, sizes))} rungs: {args.min_score:g} means another quality on each")
    n_rungs = sizes[-1]
    most = math.sqrt(n_rungs * (n_rungs + 1))
    if not 0 <= args.min_score <= most:
        raise InputError(
            f"--min-score {args.min_score:g} is outside the rung scale, which for ladders of {n_rungs} rungs is 0 "
            f"(worse than all) to sqrt(N(N+1)) = {most:.2f} (better than all). 1 is as good as the worst rung, "
            f"{n_rungs} as the best",
            field="min_score",
            value=args.min_score,
        )


def _dropped(items: list[judging.Item], scores: list[Score], decisions: list[Decision]) -> Iterator[dict[str, Any]]:
    for item, score, decision in zip(items, scores, decisions, strict=True):
        if decision != "kept":
            row = dict(item.row.values) if isinstance(item.row, Row) else {"unreadable": vars(item.row).get("value")}
            about = {"score": score.value, "low": score.low, "high": score.high, "decision": decision}
            yield row | {"synthscore": about | {"status": score.status, "reason": score.reason}}
