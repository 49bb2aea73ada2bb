"""`synthscore evaluate`: scores or methods, and what people said -> how far they agree."""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from ..errors import InputError
from ..evaluation.agreement import LEVELS, NAN_POLICIES, STATISTICS
from ..evaluation.folder import RunFolder
from ..evaluation.methods import KINDS, Tools, method, split_methods
from ..evaluation.ratings import BENCHMARKS, Joined, Ratings, join, load_benchmark, read_ratings
from ..evaluation.result import Column, Settings
from ..evaluation.run import attributes_of, evaluate_columns, joined_columns, require_method, score_columns
from ..ladders.references import References
from . import agreeing
from .common import (
    ERROR,
    INCOMPLETE,
    JUDGE,
    OK,
    Commands,
    UsageError,
    Watched,
    add_command,
    add_input,
    add_messages,
    add_model,
    add_templates,
    bar,
    note,
    open_model,
    table,
    warn,
    whole,
)

TEXT = """
Examples:
  $ synthscore evaluate scores.jsonl --human ratings.jsonl
  $ synthscore evaluate scores.jsonl --human ratings.jsonl --methods length,overlap --against scores --json
  $ synthscore evaluate --benchmark summeval --data DIR --methods length,g-eval,poe-bt --model M -o run/
  $ synthscore evaluate --list

How far scores agree with people: rank correlations inside each context, over all texts and over systems,
each with its interval over contexts. Scores come from a file, as `synthscore score` writes it, whose rows
are joined to the ratings on id, or on context_id and system; or from methods, which are run here. Ratings
come from a file with id (or context_id and system) and human, or are a benchmark's, whose files lie in
a folder of yours: nothing is downloaded.

With -o, scores are written as they come, and the same command run again goes on from them; what a model
answered is in its store. The exit code is 3 where a text could not be scored, or a row could not be used.
"""

FLOORS = ("length", "overlap", "type-token-ratio")
"""What is evaluated where no methods are named: what costs nothing, and any judge should be better than."""


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "evaluate",
        run,
        "evaluate SCORES --human RATINGS [options]\n       synthscore evaluate --benchmark NAME --data DIR [options]",
        "scores or methods -> agreement with people",
        TEXT,
    )
    parser.add_argument(
        "scores", nargs="?", metavar="SCORES", help="rows with score, attribute, and id or context_id and system"
    )
    parser.add_argument("-o", "--output", metavar="FOLDER", help="scores, ratings and figures, for `synthscore report`")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--list", action="store_true", help="print the methods and benchmarks there are")
    _add_ratings(parser)
    _add_methods(parser)
    _add_figures(parser)
    parser.add_argument("--table", action="append", help=argparse.SUPPRESS)
    add_model(parser, None, f"{JUDGE}; may be repeated", several=True)
    add_input(parser)
    add_messages(parser)


def _add_ratings(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("ratings")
    group.add_argument(
        "--human", metavar="FILE", help="people's ratings: rows with id, or context_id and system; human"
    )
    group.add_argument("--benchmark", choices=tuple(BENCHMARKS), metavar="NAME", help=", ".join(BENCHMARKS))
    group.add_argument("--data", metavar="DIR", help="folder that the files of the benchmarks lie in")
    group.add_argument("-a", "--attribute", action="append", metavar="A", help="may be repeated (default: all)")
    group.add_argument("--task", metavar="T", help="of the texts of --human, to run methods that ask a judge")


def _add_methods(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("methods")
    group.add_argument(
        "--methods",
        metavar="M,M",
        help=f"names, with options as NAME:OPTION=VALUE; see --list and docs/baselines.md (default without SCORES: "
        f"{','.join(FLOORS)}, and with --references ladder)",
    )
    group.add_argument("--references", metavar="FOLDER|HUB-ID", help="the ladders, as written by `synthscore generate`")
    group.add_argument("--revision", metavar="R", help="commit, tag or branch of a hub dataset")
    add_templates(group)


def _add_figures(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("figures")
    group.add_argument(
        "--level", choices=LEVELS, action="append", help="may be repeated (default: per_context; in JSON and -o all)"
    )
    group.add_argument(
        "--statistic",
        choices=STATISTICS,
        action="append",
        help="may be repeated (default: spearman; in JSON and -o all)",
    )
    group.add_argument(
        "--nan-policy",
        choices=tuple(NAN_POLICIES),
        default="zero",
        help="what a correlation counts as in a context whose ratings or scores are all equal (default: zero; "
        "docs/evaluation.md)",
    )
    group.add_argument(
        "--resamples", type=whole(0), default=1000, metavar="N", help="of contexts, for intervals (default: 1000)"
    )
    group.add_argument("--seed", type=whole(0), default=0, metavar="N", help="of --resamples (default: 0)")
    group.add_argument(
        "--against", metavar="METHOD", help="the differences from this method, with intervals; SCORES go by their name"
    )


def run(args: argparse.Namespace) -> int:
    if args.list:
        print("\n".join(_list()))
        return OK
    if args.table:
        raise UsageError(
            "the papers' tables are made by papers/, which lies beside synthscore in its repository. In a checkout, "
            f"say: python -m papers {' '.join(args.table)} --data DIR --model M"
        )
    plan = _plan(args)
    methods = {spec: method(spec) for spec, _ in plan.values()}
    kept = args.json or args.output  # what is only shown has no more figures than are shown
    settings = Settings(
        args.level or (LEVELS if kept else LEVELS[:1]),
        args.statistic or (STATISTICS if kept else STATISTICS[:1]),
        args.nan_policy,
        args.against or "",
        args.resamples,
        args.seed,
    )
    require_method(settings.against, [*([_name(args.scores)] if args.scores else []), *plan])
    ratings = _ratings(args)
    attributes = attributes_of(ratings, args.attribute)
    folder = RunFolder(Path(args.output), ratings) if args.output else None
    columns: dict[tuple[str, str], Column] = {}
    left_out: list[str] = []
    complete = not (args.human and ratings.left_out)
    if args.scores:
        joined = _joined(args, ratings)
        left_out += joined.left_out
        complete &= not left_out
        if silent := [attribute for attribute in attributes if attribute not in joined.values]:
            left_out.append(f"{', '.join(silent)}: {args.scores} holds no scores")
        attributes = tuple(joined.values) if silent else attributes
        columns |= joined_columns(_name(args.scores), joined, ratings, attributes, folder)
    with (
        open_tools(args, [model for _, model in plan.values()]) as tools,
        bar(args, len(plan) * len(attributes), "methods x attributes") as shown,
    ):
        for label, (spec, model) in plan.items():
            made = {label: methods[spec]}
            columns |= score_columns(ratings, made, tools[model], attributes, folder, lambda *_: shown(1))
        cost = [judge.meter.cost for each in tools.values() if isinstance(judge := each.judge, Watched)]
    evaluation = evaluate_columns(ratings, columns, settings, left_out)
    if folder:
        folder.write(evaluation)
    if args.json:
        figures = evaluation.of_one_method() if args.scores and not plan else evaluation.to_json()
        print(json.dumps(figures, ensure_ascii=False, allow_nan=False))
    else:
        levels, statistics = args.level or LEVELS[:1], args.statistic or STATISTICS[:1]
        print("\n".join(agreeing.lines(evaluation, levels, statistics, agreeing.width())))
    note(args, *filter(None, cost), *agreeing.signatures(evaluation))
    if not any(column.n_scored for column in columns.values()):
        warn("nothing could be scored")
        return ERROR
    return OK if complete and not any(c.n_unscored or c.n_partial for c in columns.values()) else INCOMPLETE


# ------------------------------------------------------------------------------------------------- options


def _plan(args: argparse.Namespace) -> dict[str, tuple[str, str]]:
    """Name in the tables -> the method, and the model that it asks, if any.

    raises : UsageError for options that contradict each other, or do nothing together
    """
    if bool(args.human) == bool(args.benchmark):
        said = "both" if args.human else "neither"
        raise UsageError(
            f"{said} of --human and --benchmark is given, expected one: whose ratings are they held against?"
        )
    if bool(args.benchmark) != bool(args.data):
        raise UsageError("--benchmark NAME and --data DIR go together: where do the benchmark's files lie?")
    if args.task and args.benchmark:
        raise UsageError(
            f"--task {args.task} does nothing with --benchmark {args.benchmark}, which has one. Leave it out"
        )
    specs = list(dict.fromkeys(split_methods(args.methods))) if args.methods else []
    if not specs and not args.scores:
        specs = [*FLOORS, *(["ladder"] if args.references else [])]
    uses = set().union(*map(_uses, specs))
    for option, use in (("model", "judge"), ("references", "references")):
        if getattr(args, option) and use not in uses:
            raise UsageError(
                f"--{option} does nothing: none of the methods uses it. Leave it out, or name one that does"
            )
    if "references" in uses and not args.references:
        needing = ", ".join(spec for spec in specs if "references" in _uses(spec))
        raise UsageError(f"{needing} needs ladders. Name them: --references FOLDER")
    if args.prompts != "default" and "judge" not in uses:
        raise UsageError(f"--prompts {args.prompts} does nothing: none of the methods asks a judge. Leave it out")
    if args.against and not args.resamples:
        raise UsageError("--against needs resamples, and --resamples is 0")
    if args.scores and _name(args.scores) in specs:
        raise UsageError(f"{args.scores} and a method are both called {_name(args.scores)}. Rename the file")
    models = list(dict.fromkeys(args.model or ["nano"]))
    plan = {}
    for spec in specs:
        for model in models if "judge" in _uses(spec) else [""]:
            plan[f"{spec} ({model})" if model and len(models) > 1 else spec] = spec, model
    return plan


def _name(scores: str) -> str:
    """What a file of scores goes by."""
    return "stdin" if scores == "-" else Path(scores).name.split(".")[0]


def _uses(spec: str) -> set[str]:
    """What a method needs of Tools."""
    if sum_of := re.fullmatch(r"\w+\((.*)\)", spec, re.DOTALL):
        parts = (part.rpartition("*")[2] for part in split_methods(sum_of[1]))
        return set().union(*map(_uses, parts))
    kind = KINDS.get(spec.partition(":")[0])
    return set(kind.uses) if kind else set()


def _list() -> Iterator[str]:
    yield "methods (docs/baselines.md):"
    kinds = [(name, ", ".join(kind.uses), kind.summary) for name, kind in KINDS.items()]
    yield table(kinds, ("name", "needs", "what it is"), agreeing.width())
    yield "zsum(A,B), ranksum(A,B)  methods added up\nfile:PATH                scores out of a file"
    yield "\nbenchmarks (docs/benchmarks.md):"
    ratings = [(name, each.task, ", ".join(each.scales)) for name, each in BENCHMARKS.items()]
    yield table(ratings, ("name", "task", "attributes"), agreeing.width())


# ------------------------------------------------------------------------------------------------- what goes in


def _ratings(args: argparse.Namespace) -> Ratings:
    if args.benchmark:
        return load_benchmark(args.benchmark, args.data)
    only = args.attribute[0] if args.attribute and len(args.attribute) == 1 else None
    fields = {name: column for name, column in args.field if name != "score"}
    return read_ratings(args.human, encoding=args.encoding, fields=fields, task=args.task or "", attribute=only)


def _joined(args: argparse.Namespace, ratings: Ratings) -> Joined:
    fields = {name: column for name, column in args.field if args.benchmark or name == "score"}
    asked = args.attribute or ratings.attributes
    only = asked[0] if len(asked) == 1 else None
    joined = join(ratings, args.scores, encoding=args.encoding, fields=fields, attribute=only)
    for name in args.attribute or ():
        if name not in joined.values:
            raise InputError(
                f"{args.scores} holds no scores on {name}, only on {', '.join(joined.values)}. Leave it out of "
                "--attribute",
                value=name,
            )
    return joined


@contextmanager
def open_tools(args: argparse.Namespace, models: Iterable[str]) -> Iterator[dict[str, Tools]]:
    """Model -> what methods that ask it work with; "" is no model."""
    references = References.load(args.references, revision=args.revision) if args.references else None
    with ExitStack() as stack:
        tools = {"": Tools(None, references, args.prompts)}
        for model in dict.fromkeys(filter(None, models)):
            judge = stack.enter_context(open_model(argparse.Namespace(**vars(args) | {"model": model})))
            tools[model] = replace(tools[""], judge=judge)
        yield tools
