"""`synthscore filter`: targets -> those that score at least so much, unchanged."""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..references import References
from ..rows import Row, write_rows
from ..thresholds import AtLeast, Certificate, Decision, MinScore, Rule, check_on_scale
from ..types import Score, Signature
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

A row is unsure where the score does not decide it: some rungs have no verdict, and what they had said
matters; the probability is neither high nor low; a certificate has two thresholds, and it lies between
them; or it cannot be scored at all. Unsure rows are not kept, and are counted apart.

--dropped gets the rows that are not kept (without the unsure ones, where --unsure gets them), each with
a column synthscore: its score, stderr, the low and high that it could have, decision (dropped or unsure),
why, status and reason. The exit code is 3 where a row is partial, unsure or unscored.
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
        help="least score that is kept, in rungs: 0 to sqrt(N(N+1)), 5.48 for ladders of 5 rungs",
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
    references, held = judging.load(args)
    _check_attribute(args, held)
    _check_threshold(args, rule, references, held)
    items = judging.read_items(args)
    if not items:
        warn(f"{args.targets} holds no rows")
    with open_model(args) as engine:
        judged = judging.judge(args, items, references, held, engine)
    scores = [of_item[0] for of_item in judged.scores]
    if isinstance(rule, Certificate):
        _check_certificate(rule, scores, [of_item[0] for of_item in judged.signatures])
    decisions = [rule.decide(score) for score in scores]
    rows = list(zip(items, scores, decisions, strict=True))
    if args.unsure:
        write_rows(_explained(rows, ("unsure",)), args.unsure)
    if args.dropped:
        write_rows(_explained(rows, ("dropped",) if args.unsure else ("dropped", "unsure")), args.dropped)
    kept = (item.row for item, _, (decision, _) in rows if decision == "kept")
    write_rows((dict(row.values) for row in kept if isinstance(row, Row)), args.output)
    unscored = [score for score in scores if score.status == "unscored"]
    unsure = [
        replace(score, reason=score.reason or why)
        for _, score, (decision, why) in rows
        if decision == "unsure" and score.status != "unscored"
    ]
    n_kept, n_dropped = (sum(made == decision for made, _ in decisions) for decision in ("kept", "dropped"))
    note(
        args,
        judging.summary(args, judged),
        *judging.why("unsure", unsure),
        *judging.why("unscored", unscored),
        f"kept {n_kept} of {len(items)} {_words(rule)}; {n_dropped} dropped, "
        + (f"{len(unsure)} unsure, " if unsure else "")
        + f"{len(unscored)} unscored",
        *judged.cost,
        signature=judged.signature,
    )
    if items and len(unscored) == len(items):
        warn("nothing could be scored, so nothing was kept")
        return ERROR
    return OK if all(score.status == "ok" for score in scores) and not unsure else INCOMPLETE


def _rule(args: argparse.Namespace) -> MinScore | AtLeast | Certificate:
    if (args.min_score is None) == (args.certificate is None):
        raise UsageError("filter decides by --min-score X or by --certificate FILE: give one of them")
    if args.certificate is not None:
        if args.alpha is not None:
            raise UsageError("--alpha goes with --min-score: a certificate has its own confidence. Leave it out")
        return Certificate.load(args.certificate)
    if args.alpha is None:
        return MinScore(args.min_score)
    if args.scoring != "anchored":
        raise UsageError("--alpha needs the error of each score: add --scoring anchored")
    return AtLeast(args.min_score, args.alpha)


def _words(rule: Rule) -> str:
    if isinstance(rule, Certificate):
        promised = " and ".join(str(one.guarantee) for one in rule.certified)
        return f"with {promised}, confidence {rule.confidence:g}"
    assert isinstance(rule, MinScore | AtLeast)
    likely = f", each with probability {1 - rule.alpha:g}" if isinstance(rule, AtLeast) else ""
    return f"at a score of {rule.threshold:g} or more{likely}"


def _check_certificate(rule: Certificate, scores: Sequence[Score], signatures: Sequence[Signature]) -> None:
    """raises : CertificateError for a score of another judge, template, ladder or scoring than was certified"""
    seen = dict.fromkeys(
        str(signature) for score, signature in zip(scores, signatures, strict=True) if score.status != "unscored"
    )
    for line in seen:
        rule.check(Signature.parse(line))


def _check_attribute(args: argparse.Namespace, held: judging.Held) -> None:
    names = list(dict.fromkeys(name for attributes in held.values() for name in attributes))
    names = args.attribute or names
    if len(names) != 1:
        raise UsageError(
            f"filter decides by one attribute, and there are {len(names)}: {', '.join(names)}. Say which with one "
            "--attribute NAME; for several, filter the result again"
        )


def _check_threshold(args: argparse.Namespace, rule: Rule, references: References, held: judging.Held) -> None:
    sizes = sorted({ladder.n_rungs for ladder in references if ladder.attribute in held.get(ladder.task, ())})
    if isinstance(rule, Certificate):
        return
    if len(sizes) > 1:
        warn(f"the ladders have {', '.join(map(str, sizes))} rungs: {args.min_score:g} means another quality on each")
    check_on_scale(args.min_score, sizes[-1])


def _explained(
    rows: Sequence[tuple[judging.Item, Score, tuple[Decision, str]]], which: Sequence[Decision]
) -> Iterator[dict[str, Any]]:
    for item, score, (decision, why) in rows:
        if decision in which:
            row = dict(item.row.values) if isinstance(item.row, Row) else {"unreadable": vars(item.row).get("value")}
            about: dict[str, Any] = {"score": score.value, "stderr": score.stderr, "low": score.low, "high": score.high}
            about |= {"decision": decision, "why": why, "status": score.status, "reason": score.reason}
            yield row | {"synthscore": about}
