"""`synthscore generate`: contexts -> ladders."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..engine import Sampling
from ..errors import InputError
from ..io.nouns import read_contexts
from ..judging.tasks import load_task, task_names
from ..ladders.degraded import DegradedWriter
from ..ladders.prompted import PromptedWriter
from ..ladders.references import References, read_about
from ..ladders.write import Writer, generate_ladders
from ..types import Context, Ladder, Task
from .common import (
    ERROR,
    INCOMPLETE,
    OK,
    Commands,
    UsageError,
    add_command,
    add_input,
    add_messages,
    add_model,
    add_templates,
    bar,
    counted,
    fields,
    note,
    number,
    open_model,
    reasons,
    warn,
    whole,
)

DEFAULT = Sampling()
MAX_ATTEMPTS = 5

TEXT = """
Examples:
  $ synthscore generate contexts.jsonl --task summarization --attribute coherence -o ladders/
  $ synthscore generate contexts.jsonl --task summarization --attribute all --model Qwen/Qwen3-8B -o ladders/

Writes a ladder for every context and attribute: texts of rising quality, the worst first. A row needs a
column id (or context_id) and text (or context), and may have facts and references. Two writers:

  prompt    the model --model writes them: the best and the worst first, then those between
  degrade   needs no model: takes the row's first reference (or, for summaries, central sentences) as
            the best, and damages it more and more in the attribute: the order is known by construction

FOLDER is then a dataset with a card, which `synthscore score --references` and datasets.load_dataset
read. Ladders that it holds already stay, those for the same task, context and attribute are replaced.
A killed run is simply repeated: what the model wrote is in the store.
"""


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "generate",
        run,
        "generate CONTEXTS --task T --attribute A -o FOLDER [options]",
        "contexts -> ladders of texts of rising quality",
        TEXT,
    )
    parser.add_argument(
        "contexts",
        metavar="CONTEXTS",
        help=".jsonl, .json, .csv, .tsv, .parquet, a datasets folder, or - for JSONL on stdin",
    )
    parser.add_argument(
        "-o", "--output", required=True, metavar="FOLDER", help="the references folder to write or add to"
    )
    parser.add_argument(
        "--task", required=True, metavar="T", help=f"{', '.join(task_names())}, or a folder with a task.toml"
    )
    parser.add_argument(
        "-a",
        "--attribute",
        required=True,
        action="append",
        metavar="A",
        help="may be repeated; all: every one of the task",
    )
    group = parser.add_argument_group("writing")
    group.add_argument(
        "--writer",
        choices=("degrade", "prompt"),
        help="who writes (default: prompt where there is a --model, else degrade)",
    )
    group.add_argument(
        "--rungs", type=whole(2), default=5, metavar="N", help="texts in a ladder, 2 or more (default: 5)"
    )
    group.add_argument("--seed", type=whole(0), default=0, metavar="N", help="another seed, other texts (default: 0)")
    group.add_argument(
        "--temperature",
        type=number(0),
        metavar="X",
        help=f"0 always takes the likeliest token (default: {DEFAULT.temperature:g})",
    )
    group.add_argument(
        "--top-p",
        type=number(0, 1),
        metavar="P",
        help=f"draw from the likeliest tokens up to P, above 0 (default: {DEFAULT.top_p:g})",
    )
    group.add_argument("--max-new-tokens", type=whole(1), metavar="N", help="tokens in a text (default: the task's)")
    group.add_argument(
        "--max-attempts", type=whole(1), metavar="N", help=f"how often a text is asked for (default: {MAX_ATTEMPTS})"
    )
    add_templates(group)
    add_model(parser, None, "the writer: a model on the hub, or a folder")
    add_input(parser)
    add_messages(parser)


def run(args: argparse.Namespace) -> int:
    task = load_task(args.task)
    attributes = list(task.attributes) if "all" in args.attribute else list(dict.fromkeys(args.attribute))
    for name in attributes:
        task.attribute(name)
    kind = args.writer or ("prompt" if args.model else "degrade")
    if kind == "prompt" and not args.model:
        raise UsageError("--writer prompt needs a model that can write: name one with --model (nano can only judge)")
    if kind == "degrade" and args.model:
        raise UsageError(f"--writer degrade asks no model: leave --model {args.model} out, or take --writer prompt")
    if kind == "degrade":
        _check_unused(args)
    sampling = _sampling(args, task)
    _check_folder(Path(args.output))
    contexts, errors = read_contexts(args.contexts, encoding=args.encoding, fields=fields(args))
    if errors:
        warn(f"{counted(len(errors), 'row')} of {args.contexts} left out:")
        for line in reasons(map(str, errors)):
            warn(line)
    if not contexts:
        raise InputError(f"{args.contexts} holds no context that ladders could be written for", source=args.contexts)
    if kind == "degrade":
        ladders = _generate(args, contexts, task, attributes, DegradedWriter(seed=args.seed))
        signature = f"writer:degrade|seed:{args.seed}"
    else:
        with open_model(args) as engine:
            writer = PromptedWriter(
                engine,
                templates=args.prompts,
                sampling=sampling,
                seed=args.seed,
                max_attempts=MAX_ATTEMPTS if args.max_attempts is None else args.max_attempts,
            )
            ladders = _generate(args, contexts, task, attributes, writer)
            signature = str(engine.signature.with_(writer="prompt", templates=args.prompts, seed=args.seed))
    total = References(tuple(ladders)).save(args.output, merge=True)
    failed = [rung.reason for ladder in ladders for rung in ladder.rungs if rung.status == "failed"]
    n_written = sum(ladder.n_rungs for ladder in ladders) - len(failed)
    note(
        args,
        f"{counted(len(contexts), 'context')} x {counted(len(attributes), 'attribute')} x "
        f"{counted(args.rungs, 'rung')}: {counted(n_written, 'rung')} written, {len(failed)} failed",
        *reasons(failed),
        f"{args.output} now holds {counted(len(total), 'ladder')}",
        signature=f"{signature}|references:{total.hash[:12]}",
    )
    if not n_written:
        warn("not one rung could be written")
        return ERROR
    return INCOMPLETE if failed or errors else OK


def _check_unused(args: argparse.Namespace) -> None:
    """Degrading asks no model. raises : UsageError that names the options that only a model's writing uses"""
    names = ("temperature", "top_p", "max_new_tokens", "max_attempts", "dtype", "device", "store")
    given = [f"--{name.replace('_', '-')}" for name in names if getattr(args, name) is not None]
    given += ["--prompts"] if args.prompts != "default" else []
    if given:
        raise UsageError(
            f"--writer degrade asks no model, so {', '.join(given)} would change nothing: leave them out, or name a "
            "model that writes with --model"
        )


def _sampling(args: argparse.Namespace, task: Task) -> Sampling:
    """How to decode, before any model is loaded. raises : UsageError for what no model can decode with"""
    given = {name: value for name in ("temperature", "top_p") if (value := getattr(args, name)) is not None}
    max_new_tokens = task.max_new_tokens if args.max_new_tokens is None else args.max_new_tokens
    try:
        return Sampling(max_new_tokens, **given)
    except ValueError as error:
        raise UsageError(
            f"cannot write with these options: {error}. Change --max-new-tokens, --temperature or --top-p"
        ) from error


def _check_folder(path: Path) -> None:
    """Before anything is asked: can ladders be written there? raises : ReferencesError"""
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        References.load(path)
        read_about(path)


def _generate(
    args: argparse.Namespace, contexts: list[Context], task: Task, attributes: list[str], writer: Writer
) -> list[Ladder]:
    with bar(args, len(contexts) * len(attributes) * args.rungs, "rungs") as progress:
        return generate_ladders(contexts, task, attributes, writer, n_rungs=args.rungs, progress=progress)
