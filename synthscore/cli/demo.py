"""`synthscore demo`: the whole flow on texts that come along, each step as the command that one would type."""

from __future__ import annotations

import json
import math
import shlex
import shutil
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..engine import Engine
from ..errors import SynthscoreError
from ..resources import resource
from .messages import Messages
from .options import ERROR, JUDGE, OK, Opening
from .talk import counted, table

TASKS = ("summarization", "dialogue", "story")
ATTRIBUTE = "coherence"  # an attribute of every task
MIN_SCORE = 4.0
N_RUNGS = 5
EXAMPLE = "sum-01"


def demo(
    *,
    output: Annotated[str, Parameter(name=["--output", "-o"])] = "synthscore-demo",
    model: Annotated[str, Parameter(group="model", help=JUDGE)] = "nano",
    opening: Opening = Opening(),
    messages: Messages = Messages(),
) -> int:
    """The whole flow in a minute: start here.

    For example:
      $ synthscore demo
      $ synthscore demo -o synthscore-demo --model Qwen/Qwen3-0.6B

    Runs the whole flow on small texts that come along (34 contexts of three tasks), with
    the embedded judge and without a network, in about a minute on two CPU cores: writes
    ladders, scores texts against them, filters by a threshold, checks the scores against
    ladders written by hand, and writes a report to open in a browser. Prints each step as
    the command that one would type, and keeps all files.

    Parameters
    ----------
    output
        folder where all files go
    """
    from ..io.write import write_rows
    from ..ladders.references import References

    start = time.perf_counter()
    run = _Demo(Path(output), model, opening, messages)
    run.folder.mkdir(parents=True, exist_ok=True)
    for name in (*TASKS, "targets"):
        shutil.copyfile(resource("data/demo") / f"{name}.jsonl", run.path(f"{name}.jsonl"))
    handwritten = References.load(resource("data/references/handwritten"))
    write_rows(_rungs_as_targets(handwritten), run.path("handwritten.jsonl"))
    try:
        for step in (_generate, _score, _filter, _check, _report):
            step(run)
    except _FailedError:  # its command has reported why
        return ERROR
    _print_end(run, time.perf_counter() - start)
    return OK


class _FailedError(SynthscoreError):
    """A command of the demo ended with an error."""


@dataclass
class _Demo:
    """Runs commands as if they were typed, with one judge that is loaded when it is first needed."""

    folder: Path
    model: str
    opening: Opening
    messages: Messages
    engine: Engine | None = field(default=None, init=False)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def rows(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in Path(self.path(name)).read_text(encoding="utf-8").splitlines()]

    def whole(self, name: str) -> tuple[list[dict[str, Any]], str]:
        """The rows whose score lacks no verdict, and how many others a mean over them leaves out, in words."""
        rows = self.rows(name)
        whole = [row for row in rows if row["status"] == "ok"]
        n_others = len(rows) - len(whole)
        return whole, f" ({counted(n_others, 'unscored text')} left out)" if n_others else ""

    @property
    def task_of(self) -> dict[str, str]:
        """By context id."""
        return {row["id"]: task for task in TASKS for row in self.rows(f"{task}.jsonl")}

    def command(self, *argv: str) -> None:
        """Print the command, then run it. raises : _FailedError"""
        from .app import run

        lines = textwrap.wrap(shlex.join(["synthscore", *argv]), 90, break_long_words=False, break_on_hyphens=False)
        print("  $ " + " \\\n      ".join(lines), flush=True)
        if run([*argv, *(["--quiet"] if self.messages.quiet else [])], engine=self.engine) == ERROR:
            raise _FailedError(f"synthscore {argv[0]} failed")

    def judge(self, *argv: str) -> None:
        """A command that asks the judge, with the options of the judge as far as they were given."""
        from ..engines import open_engine

        self.engine = self.engine or open_engine(self.model, **self.opening.options)
        given = {"model": self.model if self.model != "nano" else None, "dtype": self.opening.dtype}
        given |= {"device": self.opening.device, "store": self.opening.store}
        self.command(*argv, *(word for name, value in given.items() if value for word in (f"--{name}", value)))


def _generate(demo: _Demo) -> None:
    from ..ladders.references import References

    _heading(
        "1  Ladders",
        f"{N_RUNGS} texts of rising quality for every context and attribute. Here they are made by damaging a good "
        "text, which needs no model; `synthscore generate --model M` has a language model write them.",
    )
    for task in TASKS:
        options = ["--task", task, "--attribute", "all", "--rungs", str(N_RUNGS), "-o", demo.path("ladders")]
        demo.command("generate", demo.path(f"{task}.jsonl"), *options)
    _say(f"One of them, {EXAMPLE}/{ATTRIBUTE}, the worst text first:")
    for rung in References.load(demo.path("ladders")).find(EXAMPLE, ATTRIBUTE, TASKS[0]).rungs:
        text = rung.text or f"(failed: {rung.reason})"
        print(textwrap.fill(text, 98, initial_indent=f"    {rung.level}  ", subsequent_indent="       "))
    print(f"\n  And its article: synthscore references show {demo.path('ladders')} {EXAMPLE} -a {ATTRIBUTE}")


def _score(demo: _Demo) -> None:
    _heading(
        "2  Scores",
        f"{counted(len(demo.rows('targets.jsonl')), 'text')} by three made-up systems: careful, hasty, and broken in "
        "one of four ways. The judge compares each text with the rungs of its context, in both orders, so that no "
        f"place is favoured; the score is on their scale: 1 is like the worst rung, {N_RUNGS} like the best, "
        f"and {math.sqrt(N_RUNGS * (N_RUNGS + 1) / 2):.2f} is what a judge gives that cannot tell texts apart.",
    )
    options = ["--references", demo.path("ladders"), "--attribute", ATTRIBUTE, "--both-orders"]
    demo.judge("score", demo.path("targets.jsonl"), *options, "--verdicts", "-o", demo.path("scores.jsonl"))
    rows, left_out = demo.whole("scores.jsonl")
    task_of = demo.task_of
    found: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        of_system = found.setdefault(row["id"].rpartition("/")[2], {task: [] for task in TASKS})
        of_system[task_of[row["context_id"]]].append(row["score"])
    _say(f"Mean score in {ATTRIBUTE}, by system{left_out}:")
    means = [(system, *map(_mean, by_task.values())) for system, by_task in found.items()]
    _print_table(means, ("system", *TASKS))


def _filter(demo: _Demo) -> None:
    _heading(
        "3  A filter",
        "Scores are absolute, so a threshold means the same for every context. A text that lacks "
        "verdicts has no score; it is kept where they could not take it below the threshold.",
    )
    options = ["--references", demo.path("ladders"), "--attribute", ATTRIBUTE, "--both-orders"]
    options += ["--min-score", f"{MIN_SCORE:g}", "-o", demo.path("kept.jsonl"), "--dropped", demo.path("dropped.jsonl")]
    demo.judge("filter", demo.path("targets.jsonl"), *options)
    kept = {row["id"] for row in demo.rows("kept.jsonl")}
    texts = {row["id"]: row["text"] for row in demo.rows("targets.jsonl")}
    task_of = demo.task_of
    scored = [row for row in demo.rows("scores.jsonl") if row["score"] is not None]
    for task in TASKS:
        rows = sorted((row for row in scored if task_of[row["context_id"]] == task), key=lambda row: -row["score"])
        lines = [(f"{r['score']:.2f}", "kept" * (r["id"] in kept), r["id"], texts[r["id"]]) for r in rows]
        if len(lines) > 8:
            lines[4:-4] = [("...", "", "", "")]
        _say(f"{task.capitalize()}, the best and the worst of {len(rows)}:")
        _print_table(lines, ("score", "", "id", "text"))


def _check(demo: _Demo) -> None:
    rows = demo.rows("handwritten.jsonl")
    n_ladders = len({(row["context_id"], row["attribute"]) for row in rows})
    _heading(
        "4  A check",
        f"There are {counted(n_ladders, 'ladder')} of five texts written by hand, each meant to be better than the one "
        "before in one attribute. Scored like any other texts, against the ladders of step 1: do the scores rise too?",
    )
    options = ["--references", demo.path("ladders"), "--verdicts", "-o", demo.path("handwritten-scores.jsonl")]
    demo.judge("score", demo.path("handwritten.jsonl"), *options)
    level_of = {row["id"]: row["level"] for row in rows}
    scores, left_out = demo.whole("handwritten-scores.jsonl")
    task_of = demo.task_of
    lines = []
    for task in (*TASKS, "all"):
        of_task = [row for row in scores if task in ("all", task_of[row["context_id"]])]
        by_level = [_mean([row["score"] for row in of_task if level_of[row["id"]] == level]) for level in range(1, 6)]
        lines.append((task, *_agreement(of_task, level_of), *by_level))
    _say(
        "Spearman's correlation between rung and score, mean over ladders (1: always rising, 0: unrelated), and the "
        f"mean score of each rung{left_out}:"
    )
    _print_table(lines, ("task", "ladders", "Spearman", *(f"rung {level}" for level in range(1, 6))))


def _report(demo: _Demo) -> None:
    _heading("5  A report", "One page with all of this to look at: open it in a browser, it needs no network.")
    demo.command("report", str(demo.folder), "--min-score", f"{MIN_SCORE:g}")


def _print_end(demo: _Demo, seconds: float) -> None:
    _heading(f"Done in {seconds:.0f} s", f"All of it is in {demo.folder}/:")
    print(f"""\
    report.html               the report: open it in a browser
    ladders/                  the ladders: a dataset with a card, ladders/README.md
    scores.jsonl              a row a text: score, status, signature
    kept.jsonl                the texts that score {MIN_SCORE:g} or more, unchanged; the others: dropped.jsonl
    handwritten-scores.jsonl  the scores of step 4

  Next:
    a run on your own texts   synthscore generate --help
    do the ladders rise?      synthscore references check {demo.path("ladders")} -a {ATTRIBUTE}
    a stronger judge          synthscore demo --model Qwen/Qwen3-0.6B
    can a model judge?        synthscore doctor --model Qwen/Qwen3-0.6B""")


def _agreement(rows: Sequence[Mapping[str, Any]], level_of: Mapping[str, int]) -> tuple[int, str]:
    from ..evaluation.agreement import agreement

    scores, levels = [row["score"] for row in rows], [level_of[row["id"]] for row in rows]
    found = agreement(scores, levels, [f"{row['context_id']}/{row['attribute']}" for row in rows])
    return found.n_contexts, f"{found.value:.2f} +- {found.stderr:.2f}"


def _rungs_as_targets(references: Any) -> Iterator[dict[str, object]]:
    for ladder in references:
        about = {"context_id": ladder.context_id, "task": ladder.task, "attribute": ladder.attribute}
        for rung in ladder.usable:
            name = f"{ladder.context_id}/{ladder.attribute}/{rung.level}"
            yield {"id": name, **about, "level": rung.level, "text": rung.text}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _heading(title: str, text: str) -> None:
    print(f"\n{title}\n{'-' * len(title)}")
    print(textwrap.fill(text, 98, initial_indent="  ", subsequent_indent="  ") + "\n")


def _say(text: str) -> None:
    print("\n" + textwrap.fill(text, 98, initial_indent="  ", subsequent_indent="  "))


def _print_table(rows: Sequence[Sequence[object]], headers: Sequence[str]) -> None:
    print(textwrap.indent(table(rows, headers, 96), "    "))
