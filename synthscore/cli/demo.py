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

    Runs the whole flow on small texts that come along (34 contexts of three tasks), with the embedded judge
    and without a network, in about a minute on two CPU cores: writes ladders, scores texts against them,
    filters by a threshold, checks the scores against ladders written by hand, and writes a report to open
    in a browser. Prints each step as the command that one would type, and keeps all files.

    Parameters
    ----------
    output
        folder where all files go
    """
    from ..io.write import write_rows
    from ..ladders.references import References

    start = time.perf_counter()
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*TASKS, "targets"):
        shutil.copyfile(resource("data/demo") / f"{name}.jsonl", folder / f"{name}.jsonl")
    write_rows(
        _rungs_as_targets(References.load(resource("data/references/handwritten"))), folder / "handwritten.jsonl"
    )
    steps = _Demo(folder, model, opening, messages)
    for step in (_generate, _score, _filter, _check, _report):
        if step(steps) == ERROR:
            return ERROR
    _print_end(steps, time.perf_counter() - start)
    return OK


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

    def command(self, *argv: str, judged: bool = False) -> int:
        """Print the command, then run it."""
        from ..engines import open_engine
        from .app import run

        if judged:
            self.engine = self.engine or open_engine(self.model, **self.opening.options)
            argv = (*argv, *self._judge())
        print(_shell(["synthscore", *argv]), flush=True)
        return run([*argv, *(["--quiet"] if self.messages.quiet else [])], engine=self.engine)

    def _judge(self) -> Iterator[str]:
        """The options of the judge, as far as they were given."""
        given = {"model": self.model if self.model != "nano" else None, "dtype": self.opening.dtype}
        for name, value in {**given, "device": self.opening.device, "store": self.opening.store}.items():
            if value is not None:
                yield from (f"--{name}", value)


def _generate(demo: _Demo) -> int:
    from ..ladders.references import References

    _heading(
        "1  Ladders",
        f"{N_RUNGS} texts of rising quality for every context and attribute. Here they are made by damaging a good "
        "text, which needs no model; `synthscore generate --model M` has a language model write them.",
    )
    for task in TASKS:
        options = ["--task", task, "--attribute", "all", "--rungs", str(N_RUNGS), "-o", demo.path("ladders")]
        if demo.command("generate", demo.path(f"{task}.jsonl"), *options) == ERROR:
            return ERROR
    _say(f"One of them, {EXAMPLE}/{ATTRIBUTE}, the worst text first:")
    ladder = References.load(demo.path("ladders")).find(EXAMPLE, ATTRIBUTE, TASKS[0])
    for rung in ladder.rungs:
        text = rung.text or f"(failed: {rung.reason})"
        print(textwrap.fill(text, 98, initial_indent=f"    {rung.level}  ", subsequent_indent="       "))
    print(f"\n  And its article: synthscore references show {demo.path('ladders')} {EXAMPLE} -a {ATTRIBUTE}")
    return OK


def _score(demo: _Demo) -> int:
    _heading(
        "2  Scores",
        f"{counted(len(_rows(demo, 'targets.jsonl')), 'text')} by three made-up systems: careful, hasty, and broken in "
        "one of four ways. The judge compares each text with the rungs of its context, in both orders, so that no "
        f"place is favoured; the score is on their scale: 1 is like the worst rung, {N_RUNGS} like the best, "
        f"and {math.sqrt(N_RUNGS * (N_RUNGS + 1) / 2):.2f} is what a judge gives that cannot tell texts apart.",
    )
    options = ["--references", demo.path("ladders"), "--attribute", ATTRIBUTE, "--both-orders"]
    options += ["--verdicts", "-o", demo.path("scores.jsonl")]
    if demo.command("score", demo.path("targets.jsonl"), *options, judged=True) == ERROR:
        return ERROR
    tasks = _contexts(demo)
    scores: dict[str, dict[str, list[float]]] = {}
    whole, left_out = _whole(demo, "scores.jsonl")
    for row in whole:
        system = row["id"].rpartition("/")[2]
        scores.setdefault(system, {}).setdefault(tasks[row["context_id"]], []).append(row["score"])
    _say(f"Mean score in {ATTRIBUTE}, by system{left_out}:")
    rows = [(system, *(_mean(by_task.get(task, [])) for task in TASKS)) for system, by_task in scores.items()]
    print(_indent(table(rows, ("system", *TASKS))))
    return OK


def _filter(demo: _Demo) -> int:
    _heading(
        "3  A filter",
        "Scores are absolute, so a threshold means the same for every context. A text that lacks "
        "verdicts has no score; it is kept where they could not take it below the threshold.",
    )
    options = ["--references", demo.path("ladders"), "--attribute", ATTRIBUTE, "--both-orders"]
    options += ["--min-score", f"{MIN_SCORE:g}", "-o", demo.path("kept.jsonl"), "--dropped", demo.path("dropped.jsonl")]
    if demo.command("filter", demo.path("targets.jsonl"), *options, judged=True) == ERROR:
        return ERROR
    decisions = {row["id"]: row["synthscore"]["decision"] for row in _rows(demo, "dropped.jsonl")}
    decisions |= {row["id"]: "kept" for row in _rows(demo, "kept.jsonl")}
    texts = {row["id"]: row["text"] for row in _rows(demo, "targets.jsonl")}
    tasks = _contexts(demo)
    scored = [row for row in _rows(demo, "scores.jsonl") if row["score"] is not None]
    for task in TASKS:
        rows = sorted((row for row in scored if tasks[row["context_id"]] == task), key=lambda row: -row["score"])
        shown = rows if len(rows) <= 8 else [*rows[:4], None, *rows[-4:]]
        lines = []
        for row in shown:
            if row is None:
                lines.append(("...", "", "", ""))
            else:
                mark = decisions[row["id"]].replace("dropped", "")
                lines.append((f"{row['score']:.2f}", mark, row["id"], texts[row["id"]]))
        _say(f"{task.capitalize()}, the best and the worst of {len(rows)}:")
        print(_indent(table(lines, ("score", "", "id", "text"), 96)))
    return OK


def _check(demo: _Demo) -> int:
    rows = _rows(demo, "handwritten.jsonl")
    n_ladders = len({(row["context_id"], row["attribute"]) for row in rows})
    _heading(
        "4  A check",
        f"There are {counted(n_ladders, 'ladder')} of five texts written by hand, each meant to be better than the one "
        "before in one "
        "attribute. Scored like any other texts, against the ladders of step 1: do the scores rise too?",
    )
    options = ["--references", demo.path("ladders"), "--verdicts", "-o", demo.path("handwritten-scores.jsonl")]
    if demo.command("score", demo.path("handwritten.jsonl"), *options, judged=True) == ERROR:
        return ERROR
    levels = {row["id"]: row["level"] for row in rows}
    scores, left_out = _whole(demo, "handwritten-scores.jsonl")
    tasks = _contexts(demo)
    lines = []
    for task in (*TASKS, "all"):
        of_task = [row for row in scores if task in ("all", tasks[row["context_id"]])]
        by_level = [_mean([row["score"] for row in of_task if levels[row["id"]] == level]) for level in range(1, 6)]
        lines.append((task, *_agreement(of_task, levels), *by_level))
    _say(
        "Spearman's correlation between rung and score, mean over ladders (1: always rising, 0: unrelated), and the "
        f"mean score of each rung{left_out}:"
    )
    print(_indent(table(lines, ("task", "ladders", "Spearman", *(f"rung {level}" for level in range(1, 6))))))
    return OK


def _report(demo: _Demo) -> int:
    _heading("5  A report", "One page with all of this to look at: open it in a browser, it needs no network.")
    return demo.command("report", str(demo.folder), "--min-score", f"{MIN_SCORE:g}")


def _agreement(rows: Sequence[Mapping[str, Any]], levels: Mapping[str, int]) -> tuple[int, str]:
    from ..evaluation.agreement import agreement

    found = agreement(
        [row["score"] for row in rows],
        [levels[row["id"]] for row in rows],
        [f"{row['context_id']}/{row['attribute']}" for row in rows],
    )
    return found.n_contexts, f"{found.value:.2f} +- {found.stderr:.2f}"


def _print_end(demo: _Demo, seconds: float) -> None:
    _heading(f"Done in {seconds:.0f} s", f"All of it is in {demo.folder}/:")
    files = (
        ("report.html", "the report: open it in a browser"),
        ("ladders/", "the ladders: a dataset with a card, ladders/README.md"),
        ("scores.jsonl", "a row a text: score, status, signature"),
        ("kept.jsonl", f"the texts that score {MIN_SCORE:g} or more, unchanged; the others: dropped.jsonl"),
        ("handwritten-scores.jsonl", "the scores of step 4"),
    )
    for name, what in files:
        print(f"    {name:<26}{what}")
    _say("Next:")
    steps = (
        ("a run on your own texts", "synthscore generate --help"),
        ("do the ladders rise?", f"synthscore references check {demo.path('ladders')} -a {ATTRIBUTE}"),
        ("a stronger judge", "synthscore demo --model Qwen/Qwen3-0.6B"),
        ("can a model judge?", "synthscore doctor --model Qwen/Qwen3-0.6B"),
    )
    for what, command in steps:
        print(f"    {what:<26}{command}")


def _rungs_as_targets(references: Any) -> Iterator[dict[str, object]]:
    for ladder in references:
        for rung in ladder.usable:
            yield {
                "id": f"{ladder.context_id}/{ladder.attribute}/{rung.level}",
                "context_id": ladder.context_id,
                "task": ladder.task,
                "attribute": ladder.attribute,
                "level": rung.level,
                "text": rung.text,
            }


def _rows(demo: _Demo, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (demo.folder / name).read_text(encoding="utf-8").splitlines()]


def _whole(demo: _Demo, name: str) -> tuple[list[dict[str, Any]], str]:
    """The rows whose score lacks no verdict, and how many others a mean over them leaves out, in words."""
    rows = _rows(demo, name)
    whole = [row for row in rows if row["status"] == "ok"]
    n_others = len(rows) - len(whole)
    return whole, f" ({counted(n_others, 'unscored text')} left out)" if n_others else ""


def _contexts(demo: _Demo) -> dict[str, str]:
    """Context id -> task."""
    return {row["id"]: task for task in TASKS for row in _rows(demo, f"{task}.jsonl")}


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _shell(argv: Sequence[str]) -> str:
    """The command as one would type it, broken at 100 columns; an option stays with its value."""
    lines = [""]
    for index, word in enumerate(map(shlex.quote, argv)):
        option = index > 0 and argv[index - 1].startswith("-") and not word.startswith("-")
        value = argv[index + 1] if word.startswith("-") and index + 1 < len(argv) else ""
        if not option and len(lines[-1]) + len(word) + len(value) > 90:
            lines.append("     ")
        lines[-1] += f" {word}"
    return "  $" + " \\\n".join(lines)


def _heading(title: str, text: str) -> None:
    print(f"\n{title}\n{'-' * len(title)}")
    print(textwrap.fill(text, 98, initial_indent="  ", subsequent_indent="  ") + "\n")


def _say(text: str) -> None:
    print("\n" + textwrap.fill(text, 98, initial_indent="  ", subsequent_indent="  "))


def _indent(text: str) -> str:
    return textwrap.indent(text, "    ")
