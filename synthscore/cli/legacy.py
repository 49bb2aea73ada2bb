"""The command line: a thin file a command, each of which reads, calls the library and writes."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from .._version import __version__
from ..errors import SynthscoreError
from . import filter
from .common import BROKEN_PIPE, ERROR, INTERRUPTED, USAGE, Help, UsageError
from .messages import STEP

COMMANDS = (filter,)

TEXT = """
Examples:
  $ synthscore demo
  $ synthscore generate contexts.jsonl --task summarization --attribute coherence -o ladders/
  $ synthscore score targets.jsonl --references ladders/ > scores.jsonl
  $ synthscore filter targets.jsonl --references ladders/ --min-score 3.5 > kept.jsonl
  $ synthscore rank candidates.jsonl --task summarization -a coherence --budget 48 > ranking.jsonl

Absolute quality scores for generated texts: a judge model compares each text with a ladder of synthetic
references; or an order of texts that are compared with each other. Results go to stdout or -o;
progress, counts, warnings and the signature of the numbers go to stderr.
"""

EXIT_CODES = """
exit codes:
  0    all well
  1    an error: nothing, or not everything, could be done
  2    the command line was not understood
  3    done, but some rows failed, or could be scored only in part or not at all
  130  interrupted (Ctrl-C): what the model answered is in the store, so run the command again to go on
  141  whoever read the output left early
"""


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="synthscore",
        usage="synthscore COMMAND ... [--help]",
        description=TEXT.strip("\n"),
        epilog=EXIT_CODES,
        formatter_class=Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"synthscore {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code (`synthscore --help` lists them)."""
    try:
        args = build_parser().parse_args(argv)
    except SystemExit as stop:  # argparse has printed the help or what is wrong
        return stop.code if isinstance(stop.code, int) else USAGE
    try:
        if (step := STEP.get()) is not None:
            args.engine, args.within_demo = step.engine, True
        with _plain_warnings():
            code: int = args.run(args)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or Python complains once more when it ends
        return BROKEN_PIPE
    except KeyboardInterrupt:
        kept = (
            "" if getattr(args, "store", "none") == "none" else ": what the model has answered so far is in the store"
        )
        print(f"\ninterrupted. Run the same command again to go on{kept}", file=sys.stderr)
        return INTERRUPTED
    except (SynthscoreError, OSError) as error:
        if args.debug:
            traceback.print_exc()
        print(f"{type(error).__name__}: {' '.join(str(error).split())}", file=sys.stderr)
        return USAGE if isinstance(error, UsageError) else ERROR


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings as a line for whoever runs the command, without the line of code that gave them."""
    before = warnings.formatwarning
    warnings.formatwarning = lambda message, *where, **more: f"warning: {message}\n"
    try:
        yield
    finally:
        warnings.formatwarning = before
