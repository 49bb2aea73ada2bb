"""`synthscore score`: targets -> scores."""

from __future__ import annotations

import argparse
import json
import math

from ..io.scores import score_row
from ..io.write import replacing, write_rows
from ..ladders.references import References
from ..scoring import bias as judge_bias
from ..scoring.anchored.scale import save_scales
from ..scoring.anchored.scores import lines as about
from ..scoring.rows import held_attributes, read_items
from ..thresholds.rules import check_on_scale
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
    fields,
    note,
    number,
    open_model,
    rows_file,
    warn,
)

TEXT = """
Examples:
  $ synthscore score targets.jsonl --references ladders/ > scores.jsonl
  $ synthscore score summaries.csv --references ladders/ --attribute coherence --field text=summary -o scores.csv

Scores every text on the scale of its ladder's rungs: 1 is as good as the worst rung, N as the best;
0 is worse than all, sqrt(N(N+1)) better than all (5.48 for N = 5). A row needs the columns context_id
and text, and may have id and system. A row with a column task or attribute is judged on that, unless
--task or --attribute overrules it.

Writes one row for each target and attribute, in the order of the targets: score, status (ok, partial
or unscored), reason, raw (the paper's sum, within +-N(N+1)/2), unit (raw / its bound), label_mass,
signature. Where some rungs have no verdict, there is no score, but it lies between low and high
whatever they had said; --partial rescale makes up for them, and calls the score partial. A row that
cannot be read or scored stays in its place, with a reason and no score. The exit code is 3 where a row
is partial or unscored.

With --scoring anchored the score is a position on the rung scale, by a model of the judge that is fitted
to all answers: it may lie outside 1..N (extrapolated is then 1), has a stderr, and is with 90 % between
low and high. The rungs of each ladder are asked about against each other, too: N (N - 1) questions.

With --scale FILE --adaptive each text is asked about in rounds, until its 90 % interval is --width W
rungs wide; or until all other questions together would hardly take its score to the other side of
--min-score X (--eps E); or, with --alpha P, until it is above or below X with 1 - P. Columns: questions,
questions_full, and met: 0 where all was asked and the rule is still not met.

What the judge favours besides quality (a position, a length) is printed and written with --bias FILE.
"""


def add(commands: Commands) -> None:
    parser = add_command(
        commands, "score", run, "score TARGETS --references FOLDER [options]", "texts -> scores on the rung scale", TEXT
    )
    parser.add_argument(
        "targets",
        metavar="TARGETS",
        help=".jsonl, .json, .csv, .tsv, .parquet, a datasets folder, or - for JSONL on stdin",
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
        "--verdicts",
        action="store_true",
        help="also write a column verdicts: of every rung and order asked, [level, swapped, better, worse, similar]",
    )
    parser.add_argument(
        "--bias", metavar="FILE", help="print what the judge favours besides quality, and write it by attribute, JSON"
    )
    group = judging.add_scoring(parser)
    group.add_argument(
        "--width", type=number(0), metavar="W", help="with --adaptive: until the 90 %% interval is so wide, in rungs"
    )
    group.add_argument(
        "--min-score",
        type=number(-math.inf),
        metavar="X",
        help="with --adaptive: until it is clear on which side of X the score is",
    )
    group.add_argument(
        "--alpha",
        type=number(0, 0.5),
        metavar="P",
        help="with --adaptive --min-score: until P(score >= X) is at least 1 - P, or at most P",
    )
    add_judging(parser, "may be repeated (default: all that the references hold)")


def run(args: argparse.Namespace) -> int:
    for name in ("width", "min_score", "alpha") if not args.adaptive else ():
        if getattr(args, name) is not None:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} changes nothing without --adaptive. Leave it out, or add that")
    scoring = judging.scoring_of(args)
    references = References.load(args.references, revision=args.revision)
    held_attributes(references, args.task, args.attribute)
    if args.min_score is not None:
        check_on_scale(args.min_score, max(ladder.n_rungs for ladder in references), args.scoring)
    items = read_items(args.targets, encoding=args.encoding, fields=fields(args))
    if not items:
        warn(f"{args.targets} holds no rows")
    with open_model(args) as engine:
        scorer = judging.row_scorer(args, references, engine, scoring)
        scored = judging.score_rows(args, scorer, items, engine)
    write_rows((score_row(score, signature, verdicts=args.verdicts) for score, signature in scored), args.output)
    if args.save_scale:
        save_scales(scored.scales, args.save_scale)
    found = scorer.biases(items, scored) if args.bias else {}
    if args.bias:
        with replacing(args.bias) as file:
            content = {name: bias.to_dict() for name, bias in found.items()}
            file.write(json.dumps(content, indent=1).encode() + b"\n")
    favoured = [line for name, bias in found.items() for line in judge_bias.lines(name, bias)]
    by_status: dict[str, list[Score]] = {"ok": [], "partial": [], "unscored": []}
    for score, _ in scored:
        by_status[score.status].append(score)
    lines = [line for status in ("partial", "unscored") for line in judging.why(status, by_status[status])]
    note(
        args,
        judging.summed_up(args, scored.shape, scored.n_questions, scored.statuses, scored.saved, scored.n_unmet),
        *lines,
        *about(scored.scales),
        *favoured,
        *([engine.meter.cost] if engine.meter.cost else []),
        signature=judging.merged(scored.used),
    )
    if by_status["unscored"] and not (by_status["ok"] or by_status["partial"]):
        warn("nothing could be scored")
        return ERROR
    return INCOMPLETE if by_status["partial"] or by_status["unscored"] else OK
