"""`synthscore report`: results -> one page to look at."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path

from ..io.write import replacing
from .common import INCOMPLETE, OK, Commands, add_command, add_messages, counted, note, number

TEXT = """
Examples:
  $ synthscore report run/
  $ synthscore report scores.jsonl --targets targets.jsonl --references ladders/ -o report.html

Writes one HTML page with what is in a folder of results, or in the files named: how scores are distributed
and what a threshold keeps, one ladder with its texts to read, verdicts by rung, position bias, label mass,
the effect of length, what failed and why, agreement with people, efficiency curves, the signature. What
is not there is named. Files are known by their columns: rows of `synthscore score` (with --verdicts for
verdicts by rung, with --both-orders for position bias), `filter`, `rank`, `rank --curve` and `evaluate`,
texts, people's ratings, ladders. The page opens without a network, holds no script, and can be printed.
The exit code is 3 where something was left out while reading; the page says what.
"""


def add(commands: Commands) -> None:
    parser = add_command(
        commands, "report", run, "report FOLDER|SCORES [options]", "results -> one HTML page to look at", TEXT
    )
    parser.add_argument(
        "source",
        metavar="FOLDER|SCORES",
        help="a folder of results, or a file of scores (- for JSONL on stdin)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="- for stdout (default: report.html, in the folder or where you are)",
    )
    parser.add_argument("--targets", metavar="FILE", help="the texts, to read and to count words of")
    parser.add_argument("--references", metavar="FOLDER|HUB-ID", help="the ladders (default: those in the folder)")
    parser.add_argument("--human", metavar="FILE", help="people's ratings (default: those in the folder)")
    parser.add_argument(
        "--min-score", type=number(-math.inf), metavar="X", help="a threshold to draw and to count by, in rungs"
    )
    parser.add_argument(
        "--context", metavar="ID", help="whose ladder is shown (default: one with many texts, all of them scored)"
    )
    parser.add_argument("--title", metavar="TEXT", help="of the page (default: the name of the folder or file)")
    add_messages(parser)


def run(args: argparse.Namespace) -> int:
    from ..report import page, read_run

    found = read_run(args.source, targets=args.targets, references=args.references, human=args.human)
    html = page(found, title=args.title, min_score=args.min_score, context_id=args.context)
    data = html.encode("utf-8", "backslashreplace")  # an id may hold half a surrogate pair
    if args.output == "-":
        sys.stdout.buffer.write(data)
    else:
        folder = Path(args.source) if Path(args.source).is_dir() else Path()
        output = Path(args.output) if args.output else folder / "report.html"
        with replacing(output) as file:
            file.write(data)
        note(args, f"{output}: {len(data) / 1000:.0f} kB, from {counted(len(found.files), 'file')}")
    if found.left_out:
        note(args, "left out while reading:", *(f"  {line}" for line in found.left_out[:5]))
        if len(found.left_out) > 5:
            note(args, f"  and {len(found.left_out) - 5} more; the page has them")
    return INCOMPLETE if found.left_out else OK
