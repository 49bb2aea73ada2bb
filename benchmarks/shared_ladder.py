"""What does one ladder for all texts cost from a store, beside a ladder for each context?

    python -m benchmarks.shared_ladder [--rows 100000] [--repeats 3]
    python -m benchmarks.shared_ladder --tokens BENCHMARKS --model MODEL [--articles 16]

`synthscore filter` over rows whose verdicts are stored, as in benchmarks/filter.py (no judge is asked; a process of its
own on one core, from its start to its end; MB: the largest resident memory):

    own               1 000 contexts, whose ladders carry their texts
    shared            the same rows, all compared with the ladder of one context (--ladder)
    shared, far       every row has a context of its own, 100 words, which it carries

Reading and looking up cannot be less than with own ladders: the ceiling is 1. Rows of `far` are longer, so that the
time of parsing them alone stands beside. Memory must not grow with rows: `far` is also run over a fifth of its rows.

--tokens: what a model that is asked really reads of a text, in tokens, on articles and summaries of SummEval (all 16 of
an article, or one of each), against the ladder of its article, by damage, or that of the first article for all. Only
the model's tokenizer and the kind of its engine matter.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from papers.benchmarks import BENCHMARKS
from synthscore.engine import Answers, Engine, EngineAround, Progress, Question
from synthscore.engines import open_engine
from synthscore.judging.asking import Asking
from synthscore.judging.templates import load_task
from synthscore.ladders.degraded import DegradedWriter
from synthscore.ladders.references import References
from synthscore.ladders.write import generate_ladders
from synthscore.scoring.scorer import Scorer

from .filter import make, parse_only, timed


def make_far(folder: Path, n_rows: int) -> None:
    """Rows of which each has a context of its own; and the first fifth of them."""
    rng = random.Random(1)
    words = [f"word{i}" for i in range(500)]
    with (folder / "far.jsonl").open("w") as file, (folder / "fifth.jsonl").open("w") as fifth:
        for i in range(n_rows):
            context = f"{' '.join(rng.choices(words, k=100))} {i}"
            line = json.dumps({"id": f"t{i}", "context": context, "text": " ".join(rng.choices(words, k=14))}) + "\n"
            file.write(line)
            if i < n_rows // 5:
                fifth.write(line)


class Counted(EngineAround):
    """Adds up the tokens of what it is asked."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.naive = self.computed = 0

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        found = self.engine.answer(questions, progress)
        self.naive += found.tokens_naive
        self.computed += found.tokens_computed
        return found


def count_tokens(data: str, model: str, n_articles: int) -> None:
    ratings = BENCHMARKS["summeval"].load(data).limited(n_articles)
    contexts = list(ratings.contexts.values())
    task = load_task("summarization")
    ladders = generate_ladders(contexts, task, ["coherence"], DegradedWriter())
    references = References(ladders)
    first: dict[str, dict[str, str]] = {}
    rows = [{"id": t.id, "context_id": t.context_id, "text": t.text} for t in ratings]
    for row in rows:
        first.setdefault(row["context_id"], row)
    engine = open_engine(model)
    results = {}
    for what, chosen, ladders in (
        ("own, 16 texts a context", rows, references),
        ("own, a text a context", list(first.values()), references),
        ("shared, 16 texts a context", rows, references.share(contexts[0].id)),
        ("shared, a text a context", list(first.values()), references.share(contexts[0].id)),
    ):
        counted = Counted(engine)
        Scorer(ladders, counted, attribute="coherence", asking=Asking(both_orders=True)).score(chosen)
        n = len(chosen)
        results[what] = {"texts": n, "naive": counted.naive / n, "computed": counted.computed / n}
        print(f"{what:28} {n:4} texts  {counted.naive / n:7,.0f} tokens a text, {counted.computed / n:6,.0f} computed")
    print(json.dumps({"model": str(engine.signature), "articles": n_articles, **results}))


def command(folder: Path, rows: str, *more: str) -> list[str]:
    argv = ["filter", str(folder / rows), "--references", str(folder / "ladders"), "--min-score", "3.9", *more]
    return [*argv, "--store", str(folder / "answers.sqlite"), "-o", str(folder / "kept.jsonl")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tokens", metavar="BENCHMARKS")
    parser.add_argument("--model")
    parser.add_argument("--articles", type=int, default=16)
    args = parser.parse_args()
    if args.tokens:
        count_tokens(args.tokens, args.model, args.articles)
        return
    results: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder, args.rows)
        make_far(folder, args.rows)
        commands = {
            "own": command(folder, "rows.jsonl"),
            "shared": command(folder, "rows.jsonl", "--ladder", "c0"),
            "shared, far": command(folder, "far.jsonl", "--ladder", "c0"),
            "shared, far, a fifth": command(folder, "fifth.jsonl", "--ladder", "c0"),
        }
        truth = {}
        for what, argv in commands.items():
            timed(argv, "--fill")
            truth[what] = (folder / "kept.jsonl").read_bytes()
        runs: dict[str, list[dict[str, float]]] = {what: [] for what in commands}
        for _ in range(args.repeats):  # in turn, so that what else the machine does falls on all alike
            for what, argv in commands.items():
                runs[what].append(timed(argv)[0])
                if (folder / "kept.jsonl").read_bytes() != truth[what]:
                    sys.exit(f"{what}: the rows kept differ from those of the first run")
        parse = {what: parse_only(folder / f"{what}.jsonl")["CPU"] for what in ("rows", "far")}
    for what, found in runs.items():
        n = args.rows // 5 if "fifth" in what else args.rows
        cpu = statistics.median(run["CPU"] for run in found)
        spread = f"{min(run['CPU'] for run in found):.1f}-{max(run['CPU'] for run in found):.1f}"
        memory = max(run["MB"] for run in found)
        results[what] = {"rows": n, "CPU": cpu, "rows/CPU s": n / cpu, "MB": memory}
        print(f"{what:22} {n:8,} rows  CPU {cpu:6.1f} s ({spread})  {n / cpu:9,.0f} rows/CPU s  {memory:5.0f} MB")
    ratio = results["shared"]["rows/CPU s"] / results["own"]["rows/CPU s"]
    far = results["shared, far"]["rows/CPU s"] / results["own"]["rows/CPU s"]
    print(f"shared / own: {ratio:.2f}; shared, far / own: {far:.2f}; lines parsed alone: {parse['rows']:.1f} s, far "
          f"{parse['far']:.1f} s")  # fmt: skip
    machine = {"machine": platform.machine(), "python": platform.python_version()}
    print(json.dumps({**machine, "ratio": ratio, "ratio_far": far, "parse": parse, **results}))


if __name__ == "__main__":
    main()
