"""What the commands share: options, models, progress and messages. Results go to stdout, all else to stderr."""

from __future__ import annotations

import argparse
import math
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from .. import engines
from ..engine import Answers, Engine, Progress, Question
from ..errors import Reasons, SynthscoreError
from ..judging.verdicts import PROTOCOLS
from ..signature import Signature
from ..store import file as store
from ..store.engine import StoredEngine
from ..store.recorded import RecordedEngine
from .watched import Metered

OK, ERROR, USAGE, INCOMPLETE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 130, 141

ROWS_FILES = (".jsonl", ".jsonl.gz", ".csv", ".tsv", ".parquet")

Commands = Any  # what argparse's add_subparsers() returns; it has no public name


class Help(argparse.RawDescriptionHelpFormatter):
    """Help at most 100 columns wide, its examples as they were written."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=min(shutil.get_terminal_size().columns, 102) - 2)


class UsageError(SynthscoreError):
    """Options that contradict each other. Exit code 2."""


# ------------------------------------------------------------------------------------------------- options


def add_command(
    commands: Commands, name: str, run: Callable[[argparse.Namespace], int], usage: str, summary: str, text: str
) -> argparse.ArgumentParser:
    """A command whose help opens with its examples. text : the examples, then what the command does."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=summary,
        usage=f"synthscore {usage}",
        description=text.strip("\n"),
        formatter_class=Help,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser


def add_messages(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("messages")
    group.add_argument("-q", "--quiet", action="store_true", help="no progress, counts or signature on stderr")
    group.add_argument("--debug", action="store_true", help="show the traceback of an error")


def add_input(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("input")
    group.add_argument("--encoding", default="utf-8", metavar="NAME", help="of text files (default: utf-8)")
    group.add_argument(
        "--field",
        type=_field,
        action="append",
        default=[],
        metavar="NAME=COLUMN",
        help="which column holds a field of ours, such as text=summary; may be repeated",
    )


def add_model(
    parser: argparse.ArgumentParser, default: str | None, what: str, *, stored: bool = True, several: bool = False
) -> None:
    """several : --model may be repeated, and is a list"""
    group = parser.add_argument_group("model")
    group.add_argument("--model", action="append" if several else "store", default=default, metavar="M", help=what)
    group.add_argument(
        "--dtype",
        choices=("auto", "float32", "bfloat16"),
        help="of the weights (default: auto, which suits the device)",
    )
    group.add_argument(
        "--device",
        metavar="D",
        help="where the model runs: cpu, cuda, cuda:1, or auto: spread over all GPUs (default: a GPU if there is)",
    )
    group.add_argument(
        "--exact",
        action="store_const",
        const=True,
        help="one prompt at a time in float32: slow, but no number depends on what else is asked, to the last bit",
    )
    group.add_argument(
        "--tokenizer",
        metavar="T",
        help="of a server's model, folder or hub id (default: the one that the server names)",
    )
    group.add_argument(
        "--in-flight", type=whole(1), metavar="N", help="requests at a time, to each server (default: 16)"
    )
    if not stored:
        parser.set_defaults(store="none")
        return
    group.add_argument(
        "--store",
        metavar="FILE",
        help="keeps every answer of the model, so that nothing is asked twice; none: nowhere "
        f"(default: {home(store.default_store_path())})",
    )


def add_templates(parser: argparse._ActionsContainer) -> None:
    parser.add_argument(
        "--prompts",
        default="default",
        metavar="SET",
        help="template set: default, paper, or a folder with templates of your own (default: default)",
    )


JUDGE = "the judge: nano, a model on the hub, a folder, http://HOST:PORT/v1#MODEL, or recorded:STORE (default: nano)"


def add_judging(parser: argparse.ArgumentParser, attribute: str) -> None:
    """The options of a command that scores rows: what is asked, of whom, and how answers become scores.

    attribute : help of --attribute
    """
    group = parser.add_argument_group("judging")
    group.add_argument(
        "--references", required=True, metavar="FOLDER|HUB-ID", help="the ladders, as written by `synthscore generate`"
    )
    group.add_argument("--revision", metavar="R", help="commit, tag or branch of a hub dataset")
    group.add_argument(
        "--task", metavar="T", help="task, or folder with a task.toml (default: that of each row's ladder)"
    )
    add_protocol(group)
    group.add_argument(
        "--both-orders",
        action="store_true",
        help="ask about every pair in both orders and average: twice the questions, no position bias",
    )
    group.add_argument(
        "--samples",
        type=whole(1),
        metavar="N",
        help="score from N labels drawn from the probabilities (default: from the exact probabilities)",
    )
    group.add_argument("--seed", type=whole(0), metavar="N", help="of --samples and --targets-too (default: 0)")
    group.add_argument(
        "--partial",
        choices=("report", "rescale"),
        default="report",
        help="where a rung has no verdict: no score, but low and high; or the others' sum, stretched (default: report)",
    )
    group.add_argument("-a", "--attribute", action="append", metavar="A", help=attribute)
    add_model(parser, "nano", JUDGE)
    add_input(parser)
    add_messages(parser)


def add_protocol(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--protocol", choices=tuple(PROTOCOLS), default="compare", help="how the judge is asked (default: compare)"
    )
    group.add_argument(
        "--min-mass",
        type=number(0, 1),
        default=0.01,
        metavar="P",
        help="least probability, 0 to 1, that the labels have together for an answer to count (default: 0.01)",
    )
    add_templates(group)


def whole(least: int) -> Callable[[str], int]:
    """A parser of whole numbers of at least `least`."""

    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return value

    return parse


def number(least: float, most: float = math.inf) -> Callable[[str], float]:
    """A parser of finite numbers in [least, most]."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and least <= value <= most):
            span = f"of at least {least:g}" if math.isinf(most) else f"from {least:g} to {most:g}"
            raise argparse.ArgumentTypeError(f"{text!r} is not a number {span}")
        return value

    return parse


def rows_file(text: str) -> str:
    """A parser of files that rows can be written to, so that a wrong name shows before anything is asked."""
    if text != "-" and not text.lower().endswith(ROWS_FILES):
        raise argparse.ArgumentTypeError(f"cannot write {text!r}: expected a name that ends in {', '.join(ROWS_FILES)}")
    return text


def _field(text: str) -> tuple[str, str]:
    name, separator, column = text.partition("=")
    if not (name and separator and column):
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=COLUMN, such as text=summary")
    return name, column


# ------------------------------------------------------------------------------------------------- models


class Watched:
    """An engine whose calls show a progress bar, and that counts what it is asked.

    meter : what the model behind the store was asked; without a store, nothing is counted
    n_judged : questions asked so far, answered from the store or not
    """

    def __init__(self, engine: Engine, args: argparse.Namespace, meter: Metered | None = None) -> None:
        self.engine, self._args, self.meter = engine, args, meter or Metered(engine)
        self.n_judged = 0

    @property
    def signature(self) -> Signature:
        return self.engine.signature

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        n_judged = sum(question.kind != "text" for question in questions)
        self.n_judged += n_judged
        if progress is not None or n_judged < len(questions):  # who writes has a bar of their own
            return self.engine.answer(questions, progress)
        unit = "questions" if questions and questions[0].kind == "labels" else "texts"
        with bar(self._args, len(questions), unit, self.meter) as shown:
            return self.engine.answer(questions, shown)


_OPTIONS = ("dtype", "device", "exact", "tokenizer", "in_flight")


def open_engine(args: argparse.Namespace) -> Engine:
    """The model that the options name."""
    return engines.open_engine(args.model, **model_options(args))


def model_options(args: argparse.Namespace) -> dict[str, Any]:
    """How to open the model, as far as the options say."""
    options = {name: value for name in _OPTIONS if (value := getattr(args, name, None)) is not None}
    if options.get("device") == "auto":
        options["device_map"] = options.pop("device")
    return options


@contextmanager
def open_model(args: argparse.Namespace) -> Iterator[Watched]:
    """The model that the options name (args.engine: one that is open already), behind the store that they name."""
    with ExitStack() as stack:
        engine = getattr(args, "engine", None) or open_engine(args)
        if isinstance(engine, RecordedEngine):
            if args.store not in (None, "none"):
                raise UsageError(
                    f"--store {args.store} does nothing with --model {args.model}, which asks nothing. Leave one out"
                )
        elif args.store != "none":
            answers = stack.enter_context(store.Store(args.store or store.default_store_path()))
            meter = Metered(engine)
            yield Watched(StoredEngine(meter, answers), args, meter)
            return
        yield Watched(engine, args)


# ------------------------------------------------------------------------------------------------- messages


def note(args: argparse.Namespace, *lines: str, signature: str = "") -> None:
    """Print counts, and the signature of the numbers they are about, on stderr; not with --quiet."""
    within_demo = getattr(args, "within_demo", False)
    if not args.quiet:
        for line in lines if within_demo or not signature else [*lines, signature]:
            print("    " * within_demo + line, file=sys.stderr, flush=True)


def warn(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr)


@contextmanager
def bar(args: argparse.Namespace, total: int, unit: str, meter: Metered | None = None) -> Iterator[Progress]:
    """A progress bar on stderr where that is a terminal; it leaves nothing behind. meter : shows the tokens saved."""
    if args.quiet or not total or not sys.stderr.isatty():
        yield lambda n: None
        return
    from tqdm import tqdm

    with tqdm(total=total, unit=f" {unit}", leave=False, dynamic_ncols=True) as shown:

        def update(n: int) -> None:
            if meter is not None and meter.tokens_computed:
                saved = 1 - meter.tokens_computed / meter.tokens_naive
                shown.set_postfix_str(f"{saved:.0%} of tokens saved", refresh=False)
            shown.update(n)

        yield update


def counted(n: int, noun: str, plural: str = "") -> str:
    """1 rung, 2 rungs, 12 000 rungs."""
    return f"{spaced(n)} " + (noun if n == 1 else plural or f"{noun}s")


def spaced(n: int) -> str:
    return f"{n:,}".replace(",", " ")


def reasons(texts: Iterable[str], most: int = 5) -> list[str]:
    """Lines of reasons, the most frequent first; those alike but for names and numbers are one, shown by its first."""
    found = Reasons()
    found.add(*texts)
    return found.lines(most)


def table(rows: Iterable[Sequence[object]], headers: Sequence[str], width: int = 100) -> str:
    """Columns of text, numbers to the right; the last column is cut to what is left of the width."""
    cells = [list(headers)] + [[_cell(value) for value in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    right = [
        len(cells) > 1 and all(re.fullmatch(r"[-+]?[\d. ]*\d%?|-|", row[column]) for row in cells[1:])
        for column in range(len(headers))
    ]
    last = len(headers) - 1
    widths[last] = min(widths[last], max(width - sum(widths[:last]) - 2 * last, 20))
    return "\n".join(
        "  ".join(
            (clip(text, size).rjust if right[column] else clip(text, size).ljust)(size)
            for column, (text, size) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    )


def clip(text: str, size: int) -> str:
    """The text on one line, cut at `size` characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= size else flat[: max(size - 3, 0)].rstrip() + "..."


def _cell(value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "-"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def home(path: Path | str) -> str:
    """The path as people write it: ~ for their home."""
    try:
        return f"~/{Path(path).relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)


def fields(args: argparse.Namespace) -> Mapping[str, str]:
    return dict(args.field)
