"""`synthscore evaluate --table`: tables of the papers, for the models given."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

from ..errors import BenchmarkError
from ..evaluation.published import published
from ..evaluation.ratings import Ratings, load_benchmark
from ..evaluation.tables import make_table
from ..io.write import replacing
from ..ladders.references import load_references
from . import agreeing
from .common import INCOMPLETE, OK, UsageError, bar, note
from .evaluate import open_tools


def run(args: argparse.Namespace) -> int:
    for option in ("scores", "human", "methods", "attribute", "task", "level", "statistic", "against"):
        if value := getattr(args, option):
            raise UsageError(f"{option} {value} does nothing with --table, which says what is measured. Leave it out")
    if args.nan_policy != "zero":
        raise UsageError(f"--nan-policy {args.nan_policy} does nothing with --table. Leave it out")
    if not args.data:
        raise UsageError("--table measures on benchmarks: in which folder do their files lie? Name it with --data DIR")
    asked = {name: published(name) for name in args.table}
    benchmarks = [args.benchmark] if args.benchmark else [name for of in asked.values() for name in of.benchmarks]
    ratings, absent = _benchmarks(args, dict.fromkeys(benchmarks))
    writers = {name: load_references(folder) for name, folder in args.writer}
    prompts = args.prompts.split(",") if args.prompts != "default" else []
    args.prompts = prompts[0] if prompts else args.prompts
    n_cells = sum(len(of.rows) * len(of.columns) for of in asked.values())
    with open_tools(args, args.model or []) as tools, bar(args, n_cells, "cells") as shown:
        made = [
            make_table(
                name,
                ratings,
                {model.rpartition("#")[2]: each for model, each in tools.items() if model},
                writers=writers,
                methods=dict(args.row),
                prompts=prompts,
                n_draws=args.draws,
                n_resamples=args.resamples,
                seed=args.seed,
                progress=lambda *_: shown(1),
            )
            for name in asked
        ]
    if args.output:
        for each in made:
            for suffix, text in ((".md", each.to_markdown()), (".json", json.dumps(each.to_json(), indent=1) + "\n")):
                with replacing(Path(args.output) / "tables" / f"{each.of.id}{suffix}") as file:
                    file.write(text.encode())
    if args.json:
        print(json.dumps({each.of.id: each.to_json() for each in made}, ensure_ascii=False, allow_nan=False))
    else:
        print("\n".join(each.to_text(agreeing.width()) for each in made), end="")
    note(args, *(f"not measured: {error}" for error in absent))
    return INCOMPLETE if absent else OK


def _benchmarks(args: argparse.Namespace, names: Iterable[str]) -> tuple[dict[str, Ratings], list[BenchmarkError]]:
    """Those that lie in --data, and why the others do not.

    raises : BenchmarkError for one that lies there and is not whole
    """
    found: dict[str, Ratings] = {}
    absent: list[BenchmarkError] = []
    for name in names:
        try:
            found[name] = load_benchmark(name, args.data)
        except BenchmarkError as error:
            if not hasattr(error, "files"):
                raise
            absent.append(error)
    return found, absent
