"""`synthscore filter`: targets -> those that score well enough, unchanged, some rows at a time."""

from __future__ import annotations

import argparse
import math

from ..errors import InputError
from ..ladders.references import References
from ..scoring.anchored.scale import Scales
from ..store.engine import StoredEngine
from ..thresholds.certificate import Certificate
from ..thresholds.filter import Filtered, check, filter
from ..thresholds.rules import AtLeast, MinScore, Rule
from . import judging
from .common import (
    ERROR,
    INCOMPLETE,
    OK,
    Commands,
    UsageError,
    add_command,
    add_judging,
    fields,
    note,
    number,
    open_model,
    rows_file,
    warn,
)

TEXT = """
Examples:
  $ synthscore filter targets.jsonl --references ladders/ --attribute coherence --min-score 3.5 > kept.jsonl
  $ synthscore filter - --references ladders/ --attribute fluency --min-score 3 --dropped dropped.jsonl
  $ synthscore filter targets.jsonl --references ladders/ --certificate certificate.json -o kept.jsonl

Keeps the rows whose text scores well enough on the rung scale (see `synthscore score --help`): as they
were, all their columns unchanged, in their order. What is well enough:

  --min-score X              a score of X or more
  --min-score X --alpha P    X or more with probability 1 - P, by the score's error (--scoring anchored)
  --certificate FILE         what `synthscore calibrate` has certified; other scores are refused

A row is unsure where the score does not decide it: the probability is neither high nor low; a
certificate has two thresholds, and it lies between them; or it is unscored, and where some rungs have no
verdict, what they had said matters. Unsure rows are not kept, and are counted apart.

--dropped gets the rows that are not kept (without the unsure ones, where --unsure gets them), each with
a column synthscore: its score, stderr, the low and high that it could have, decision (dropped or unsure),
why, status and reason. The exit code is 3 where a row is partial, unsure or unscored.

Rows are read, decided and written some at a time, in little memory; until the end, FILE is FILE.partial. A run
that was killed is run again by the same command: what the judge answered is in the store. With --scoring
anchored and no --scale, scores depend on each other: all rows are then read at once.
"""


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "filter",
        run,
        "filter TARGETS --references FOLDER (--min-score X | --certificate FILE) [options]",
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
        metavar="X",
        help="least score that is kept, in rungs: 1 as good as the worst, N as the best; 0 to sqrt(N(N+1)) with "
        "--scoring paper, 5.48 for 5 rungs",
    )
    parser.add_argument(
        "--alpha",
        type=number(0, 0.5),
        metavar="P",
        help="with --scoring anchored: keep where P(score >= X) >= 1 - P, drop where it is P or less",
    )
    parser.add_argument("--certificate", metavar="FILE", help="decide by a certificate of `synthscore calibrate`")
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
    parser.add_argument(
        "--unsure", type=rows_file, metavar="FILE", help="where to write the unsure ones (default: with the dropped)"
    )
    judging.add_scoring(parser)
    add_judging(parser, "one; may be left out where the references hold only one")


def run(args: argparse.Namespace) -> int:
    rule = _rule(args)
    scoring = judging.scoring_of(args)
    references = References.load(args.references, revision=args.revision)
    attribute = args.attribute[0] if args.attribute else None
    named = {"kept": args.output, "dropped": args.dropped, "unsure": args.unsure}
    paths = {name: path for name, path in named.items() if path}
    if len(args.attribute or ()) > 1:
        raise UsageError(f"filter decides by one attribute, not by {', '.join(args.attribute)}. Say which with one -a")
    try:
        check(references, rule, task=args.task, attribute=attribute, scoring=scoring, paths=paths)
    except InputError as error:
        if vars(error).get("field") == "threshold":
            raise
        raise UsageError(str(error)) from error
    with open_model(args) as engine:
        found = filter(
            args.targets,
            references,
            engine,
            rule,
            task=args.task,
            attribute=attribute,
            scoring=scoring,
            asking=judging.asking_of(args),
            **named,
            at_once=bool(args.save_scale),
            encoding=args.encoding,
            fields=fields(args),
            store=engine.engine.store if isinstance(engine.engine, StoredEngine) else None,
        )
        cost = [engine.meter.cost] if engine.meter.cost else []
    if args.save_scale:
        Scales(found.scales).save(args.save_scale)
    if not found.n_rows:
        warn(f"{args.targets} holds no rows")
    lines = [judging.summed_up(args, found.shape, found.n_questions, found.statuses, found.saved, found.n_unmet)]
    note(args, *lines, *_lines(found, rule), *cost, signature=judging.merged(found.signatures))
    if found.n_rows and found.n_open == found.n_rows:
        warn("nothing could be scored, so nothing was kept")
        return ERROR
    return OK if found.complete else INCOMPLETE


def _lines(found: Filtered, rule: Rule) -> list[str]:
    decided = found.statuses["unscored"] - found.n_open
    return [
        *(["unsure:", *lines] if (lines := found.why_unsure.lines()) else []),
        *(["unscored:", *lines] if (lines := found.why_unscored.lines()) else []),
        f"kept {found.decisions['kept']} of {found.n_rows} {rule.words}; {found.decisions['dropped']} dropped, "
        + (f"{found.n_unsure} unsure, " if found.n_unsure else "")
        + f"{found.n_open} unscored"
        + (f"; {decided} unscored by what they can be at least or most" if decided else ""),
    ]


def _rule(args: argparse.Namespace) -> Rule:
    if (args.min_score is None) == (args.certificate is None):
        raise UsageError("filter decides by --min-score X or by --certificate FILE: give one of them")
    if args.certificate is not None:
        if args.alpha is not None:
            raise UsageError("--alpha goes with --min-score: a certificate has its own confidence. Leave it out")
        return Certificate.load(args.certificate)
    if args.alpha is None:
        return MinScore(args.min_score)
    try:
        return AtLeast(args.min_score, args.alpha)
    except InputError as error:  # which names alpha
        raise UsageError(f"--{error}") from error
