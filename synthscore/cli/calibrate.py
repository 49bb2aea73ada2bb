"""`synthscore calibrate`: scores with people's labels -> a certificate that `filter` keeps by."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .common import (
    INCOMPLETE,
    OK,
    Commands,
    UsageError,
    add_command,
    add_input,
    add_messages,
    counted,
    fields,
    note,
    number,
    warn,
)

if TYPE_CHECKING:
    from ..thresholds.certificate import Certificate, Certified
    from ..thresholds.labels import Labelled

TEXT = """
Examples:
  $ synthscore calibrate labels.jsonl --guarantee "precision>=0.9" -o run/calibration.json
  $ synthscore calibrate scores.jsonl --labels people.csv --good-from 4 --guarantee "recall>=0.95"

Finds the threshold that keeps most and still holds what was promised, with the confidence asked for:
precision>=P (of the kept texts, at least the share P is good), recall>=R (of the good texts, at least
R are not dropped) or fpr<=F (of the bad texts, at most F are kept). With recall beside another
promise there are two thresholds, and what lies between them is unsure.

LABELS are rows of `synthscore score` with a column label (true or 1 for good, false or 0 for bad), or
human with --good-from; or the labels are in a file of their own, joined on id, or on context_id and
system. The promise is about texts drawn as the labelled ones were, each by itself: label texts of many
contexts, chosen at random. It needs labels enough; where there are too few, the error says how many.

Writes JSON: the certificate, for `synthscore filter --certificate FILE`, with the signature of the scores,
which filter checks; what each threshold keeps of the labelled texts; and how often texts are good, by
score. The exit code is 3 where rows
could not be used, and 1 where the promise cannot be made.
"""


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "calibrate",
        run,
        "calibrate LABELS --guarantee G [options]",
        "scores with people's labels -> a threshold with a guarantee",
        TEXT,
    )
    parser.add_argument("scores", metavar="LABELS", help="rows with score, signature and label (or human)")
    parser.add_argument(
        "--guarantee",
        action="append",
        required=True,
        metavar="G",
        help='"precision>=P", "recall>=R" or "fpr<=F", in quotes; may be repeated: then all hold together',
    )
    parser.add_argument(
        "--confidence",
        type=number(0, 1),
        default=0.9,
        metavar="C",
        help="probability that the guarantees hold, over draws of the labelled texts (default: 0.9)",
    )
    parser.add_argument("-o", "--output", default="-", metavar="FILE", help=".json (default: stdout)")
    group = parser.add_argument_group("labels")
    group.add_argument("--labels", metavar="FILE", help="labels in a file of their own; LABELS are then only scores")
    group.add_argument("--good-from", type=number(-math.inf), metavar="X", help="good is whose human is at least X")
    group.add_argument("-a", "--attribute", metavar="A", help="which, where the scores are of several")
    group.add_argument(
        "--one-per-context", action="store_true", help="of several texts of a context take one, by a hash of its id"
    )
    group = parser.add_argument_group("thresholds")
    group.add_argument(
        "--start",
        type=number(-math.inf),
        metavar="X",
        help="strictest threshold tested for precision, chosen before seeing these scores (default: the one that keeps "
        "a twentieth of them, or as many as the test needs; docs/thresholds.md)",
    )
    group.add_argument(
        "--step", type=number(0), default=0.01, metavar="X", help="thresholds are multiples of it (default: 0.01)"
    )
    group.add_argument(
        "--min-score",
        type=number(-math.inf),
        metavar="X",
        help="also hold P(score >= X), by which `filter --min-score X --alpha A` decides, against the labels",
    )
    add_input(parser)
    add_messages(parser)


def run(args: argparse.Namespace) -> int:
    from ..thresholds.calibrate import calibrate, looked_at
    from ..thresholds.certificate import Guarantee
    from ..thresholds.labels import Labelled

    if not 0 < args.confidence < 1 or not args.step > 0:
        raise UsageError(
            f"--confidence {args.confidence:g} --step {args.step:g}: expected 0 < C < 1 and a step above 0"
        )
    guarantees = [Guarantee.parse(text) for text in args.guarantee]
    labelled = Labelled.load(
        args.scores,
        args.labels,
        good_from=args.good_from,
        attribute=args.attribute,
        one_per_context=args.one_per_context,
        encoding=args.encoding,
        fields=fields(args),
    )
    certificate = calibrate(labelled, guarantees, args.confidence, step=args.step, start=args.start)
    shown = looked_at(labelled, certificate, args.min_score)
    if args.output == "-":
        content = {"certificate": certificate.to_dict(), **shown}
        print(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))
        sys.stdout.flush()
    else:
        certificate.save(args.output, **shown)
    if args.min_score is not None and "reliability" not in shown:
        warn("the scores have no stderr, so there is no P(score >= X) to hold against the labels")
    note(args, *_lines(labelled, certificate), signature=str(certificate.signature))
    return INCOMPLETE if labelled.n_broken else OK


def _lines(labelled: Labelled, certificate: Certificate) -> Iterator[str]:
    of = f" of {counted(labelled.n_contexts, 'context')}" if labelled.n_contexts else ""
    unscored = f", {certificate.n_unscored} of them unscored" if certificate.n_unscored else ""
    yield f"{counted(len(labelled), 'labelled text')}{of}, {certificate.n_good} good{unscored}"
    yield from labelled.left_out
    for each in certificate.certified:
        yield _line(each)
    rule = certificate.decide_many(labelled.value)
    n_unsure = int((rule == "unsure").sum())
    yield (
        f"keeps from {certificate.keep_from:g}, drops below {certificate.drop_below:g}: of the labelled texts "
        f"{int((rule == 'kept').sum())} kept, {int((rule == 'dropped').sum())} dropped, {n_unsure} unsure"
    )
    if 0 < labelled.n_contexts < len(labelled):
        yield (
            f"note: {counted(len(labelled), 'text')} are of only {counted(labelled.n_contexts, 'context')}. Texts of "
            "one context are alike, and the confidence is as stated only for texts drawn each by itself. Take one text "
            "of each with --one-per-context"
        )


def _line(each: Certified) -> str:
    share = {"precision": "kept texts are good", "recall": "good texts are at or above it", "fpr": "bad texts are kept"}
    return (
        f"{each.guarantee} at {each.threshold:g}, confidence {each.level:g}: {each.n_hit} of {each.n} "
        f"{share[each.guarantee.kind]} ({100 * each.observed:.1f} %)"
    )
