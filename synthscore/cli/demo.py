"""`synthscore demo`: the whole flow on texts that come along, each step as the command that one would type."""

from __future__ import annotations

import shlex
import shutil
import textwrap
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..resources import resource
from ..types import Score
from .messages import Messages
from .options import ERROR, OK, Judge, Output
from .talk import counted, table

TASKS = ("summarization", "dialogue", "story")


def demo(*, output: Output = "synthscore-demo", judge: Judge = Judge(), messages: Messages = Messages()) -> int:
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
    from ..evaluation.agreement import agreement
    from ..io.files import read_rows
    from ..io.scores import read_score
    from ..io.write import write_rows
    from ..ladders.references import References

    start, folder = time.perf_counter(), Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*TASKS, "targets"):
        shutil.copyfile(resource("data/demo") / f"{name}.jsonl", folder / f"{name}.jsonl")
    rungs = {  # of ladders written by hand: id -> the row of a target
        f"{ladder.context_id}/{ladder.attribute}/{rung.level}": (ladder, rung)
        for ladder in References.load(resource("data/references/handwritten"))
        for rung in ladder.usable
    }
    write_rows(
        (
            {"id": name, "context_id": of.context_id, "task": of.task, "attribute": of.attribute, "text": rung.text}
            for name, (of, rung) in rungs.items()
        ),
        folder / "handwritten.jsonl",
    )
    asking = [f"--{name}={value}" for name in ("model", "dtype", "device", "store") if (value := getattr(judge, name))]
    asking = ["--references", f"{folder}/ladders", *asking[judge.model == "nano" :]]
    coherence = [*asking, "-a", "coherence", "--both-orders"]

    def run(*argv: str) -> bool:
        return _run(argv, messages.quiet) != ERROR

    def scores_of(file: str) -> list[Score]:
        return [read_score(row)[0] for row in read_rows(folder / file) if not isinstance(row, Exception)]

    _heading("1  Ladders: texts of rising quality for every context and attribute, made by damaging a good text")
    for task in TASKS:
        run("generate", f"{folder}/{task}.jsonl", "--task", task, "-a", "all", "-o", f"{folder}/ladders")
    run("references", "show", f"{folder}/ladders", "sum-01", "-a", "coherence")

    _heading("2  Scores, in rungs, of texts by three made-up systems: 1 is like the worst rung, 5 like the best")
    files = [f"{folder}/targets.jsonl", "-o", f"{folder}/scores.jsonl"]
    if not run("score", *files, *coherence, "--verdicts"):
        return ERROR
    task_of = {ladder.context_id: ladder.task for ladder in References.load(folder / "ladders")}
    scores = scores_of("scores.jsonl")
    by_system = {}
    for system in dict.fromkeys(score.id.rpartition("/")[2] for score in scores):
        own = [score for score in scores if score.id.rpartition("/")[2] == system]
        by_system[system] = [_mean(score for score in own if task_of[score.context_id] == task) for task in TASKS]
    _table(f"Mean score in coherence, by system{_left_out(scores)}:", by_system, ("system", *TASKS))

    _heading("3  A filter: scores are absolute, so a threshold means the same for every context")
    files = [f"{folder}/targets.jsonl", "-o", f"{folder}/kept.jsonl", "--dropped", f"{folder}/dropped.jsonl"]
    if not run("filter", *files, *coherence, "--min-score", "4"):
        return ERROR

    _heading("4  A check: do texts that people wrote to be better and better have rising scores, too?")
    files = [f"{folder}/handwritten.jsonl", "-o", f"{folder}/handwritten-scores.jsonl"]
    if not run("score", *files, *asking, "--verdicts"):
        return ERROR
    scores = scores_of("handwritten-scores.jsonl")
    by_task = {}
    for task in (*TASKS, "all"):
        own = [score for score in scores if score.status == "ok" and task in ("all", task_of[score.context_id])]
        levels = [rungs[score.id][1].level for score in own]
        found = agreement([score.value for score in own], levels, [score.id.rpartition("/")[0] for score in own])
        means = [_mean(s for s, level in zip(own, levels, strict=True) if level == rung) for rung in range(1, 6)]
        by_task[task] = [found.n_contexts, f"{found.value:.2f} +- {found.stderr:.2f}", *means]
    about = "Spearman's correlation of rung and score, mean over ladders, and the mean score of each rung"
    headers = ("task", "ladders", "Spearman", *(f"rung {level}" for level in range(1, 6)))
    _table(f"{about}{_left_out(scores)}:", by_task, headers)

    _heading("5  A report: one page with all of this, for a browser")
    run("report", str(folder), "--min-score", "4")
    _heading(f"Done in {time.perf_counter() - start:.0f} s. All of it is in {folder}/; next, texts of your own:")
    print("  synthscore generate --help                      write ladders for them")
    print(f"  synthscore references check {folder}/ladders    do the ladders rise?")
    print("  synthscore doctor --model Qwen/Qwen3-0.6B       can a model judge?")
    return OK


@dataclass(frozen=True, kw_only=True)
class _Indented(Messages):
    """Counts of a step below its command, without signatures."""

    def note(self, *lines: str, signature: str = "") -> None:
        super().note(*(f"    {line}" for line in lines))


def _run(argv: tuple[str, ...], quiet: bool) -> int:
    """Print the command, then run it. The exit code."""
    from .app import build_app

    lines = textwrap.wrap(shlex.join(["synthscore", *argv]), 90, break_long_words=False, break_on_hyphens=False)
    print("  $ " + " \\\n      ".join(lines), flush=True)
    verb, given, _ = build_app(argv).parse_args(argv, exit_on_error=False, print_error=False)
    given.arguments["messages"] = _Indented(quiet=quiet)
    code: int = verb(*given.args, **given.kwargs)
    return code


def _left_out(scores: Iterable[Score]) -> str:
    n = sum(score.status != "ok" for score in scores)
    return f" ({counted(n, 'unscored text')} left out)" if n else ""


def _mean(scores: Iterable[Score]) -> float | None:
    values = [score.value for score in scores if score.status == "ok" and score.value is not None]
    return sum(values) / len(values) if values else None


def _heading(text: str) -> None:
    print(f"\n{textwrap.fill(text, 98)}\n")


def _table(title: str, rows: dict[str, list[object]], headers: Iterable[str]) -> None:
    shown = table([(name, *cells) for name, cells in rows.items()], tuple(headers), 96)
    print(f"\n{textwrap.fill(title, 98)}\n{textwrap.indent(shown, '    ')}")
