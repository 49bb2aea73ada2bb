"""`synthscore demo`: the whole flow on texts that come along, each step as the command that one would type."""

from __future__ import annotations

import json
import shlex
import shutil
import textwrap
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ..resources import resource
from .messages import ERROR, OK, Messages, UsageError, table
from .options import JudgeOptions, Output

TASKS = ("summarization", "dialogue", "story")
CHECKED = (
    "Counts of words alone order seven in ten pairs of such texts in coherence, so a high figure here is no proof that "
    "a judge reads. Before you rely on one, ask `synthscore doctor`, which shows both."
)


def demo(
    *, output: Output = "synthscore-demo", judge: JudgeOptions = JudgeOptions(), messages: Messages = Messages()
) -> int:
    """The whole flow in a minute: start here.

    For example:
      $ synthscore demo
      $ synthscore demo -o synthscore-demo --model Qwen/Qwen3-0.6B

    Runs the whole flow on small texts that come along, with the embedded judge and without a
    network, in about a minute on two CPU cores: shows ladders, scores texts against them,
    filters by a threshold, checks the scores on texts of known order by other writers, and
    writes a report to open in a browser. Prints each step as the command that one would type,
    and keeps all files.

    Args:
        output: folder where all files go
    """
    from ..io.write import write_rows
    from ..ladders.references import References
    from ..report import read_run
    from ..report.numbers import groups
    from ..report.systems import compare_systems

    start, folder = time.perf_counter(), Path(output)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--output {output} is a file, expected a folder. Name another")
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(resource("data/demo/summarization.jsonl"), folder / "summarization.jsonl")
    curated = resource("data/references/curated")
    ladders = [*References.load(curated / "first24").select(attribute="coherence")]
    contexts = {ladder.context_id for ladder in ladders}
    targets = map(json.loads, resource("data/demo/targets.jsonl").read_text(encoding="utf-8").splitlines())
    write_rows([row for row in targets if row["context_id"] in contexts], folder / "targets.jsonl")
    others = []
    for task in TASKS:
        first = References.load(curated / task / "test.parquet")
        for hand in ("hand2", "hand3"):
            for of in References.load(curated / task / f"{hand}.parquet").select(attribute="coherence"):
                others += [
                    {"id": f"{of.context_id}/{hand}/{rung.level}", "context_id": of.context_id, "task": task,
                     "attribute": of.attribute, "text": rung.text, "human": rung.level}
                    for rung in of.usable
                ]  # fmt: skip
                ladders.append(first.find(of.context_id, of.attribute))
    write_rows(others, folder / "others.jsonl")
    References(tuple({of.context_id: of for of in ladders}.values())).save(
        folder / "ladders", licence="CC0-1.0", description="Curated ladders of coherence.", overwrite=True
    )
    judged = ["--references", f"{folder}/ladders", "-a", "coherence", "--both-orders"]
    judged += ["--model", judge.named(messages)]
    for name in ("dtype", "device", "store"):
        value = getattr(judge, name)
        judged += [f"--{name}", value] if value is not None else []

    run = partial(_run, messages.quiet)
    _heading("1  Ladders: five texts of rising quality for a context and an attribute, each written by itself")
    run("references", "show", f"{folder}/ladders", "sum-01", "-a", "coherence")
    _heading(
        "For texts of your own a model writes them (--model). Without one they come from damage to a good text: "
        "at once, in a known order, and crude, as one sees:"
    )
    damaged = f"{folder}/damaged"
    run("generate", f"{folder}/summarization.jsonl", "--task", "summarization", "-a", "coherence", "-o", damaged)
    run("references", "show", damaged, "sum-01", "-a", "coherence")

    _heading("2  Scores, in rungs, of texts by three made-up systems: 1 is like the worst rung, 5 like the best")
    files = [f"{folder}/targets.jsonl", "-o", f"{folder}/scores.jsonl"]
    if not run("score", *files, *judged, "--verdicts"):
        return ERROR
    scored = read_run(folder / "scores.jsonl", targets=folder / "targets.jsonl")
    for compared in compare_systems(groups(scored), scored.systems):
        print("\nMean score in coherence, by system; unscored texts are left out:")
        rows = [(one.name, one.n_texts, one.n_unscored, one.mean) for one in compared.systems]
        print(textwrap.indent(table(rows, ("system", "texts", "unscored", "mean")), "    "))

    _heading("3  A filter: scores are absolute, so a threshold means the same for every context")
    files = [f"{folder}/targets.jsonl", "-o", f"{folder}/kept.jsonl", "--dropped", f"{folder}/dropped.jsonl"]
    if not run("filter", *files, *judged, "--min-score", "4"):
        return ERROR

    _heading("4  A check: do texts by other writers, each better than the last, have rising scores, too?")
    if not run("score", f"{folder}/others.jsonl", "-o", f"{folder}/others-scores.jsonl", *judged):
        return ERROR
    run("evaluate", f"{folder}/others-scores.jsonl", "--human", f"{folder}/others.jsonl")
    print(f"\n{textwrap.fill(CHECKED, 98)}")

    _heading("5  A report: one page with all of this, for a browser")
    run("report", str(folder), "--min-score", "4")
    _heading(f"Done in {time.perf_counter() - start:.0f} s. All of it is in {folder}/; next, texts of your own:")
    print("  synthscore generate --help                      write ladders for them")
    print(f"  synthscore references check {folder}/ladders    do the ladders rise?")
    print("  synthscore doctor --model Qwen/Qwen3-0.6B       what can a model judge?")
    return OK


@dataclass(frozen=True, kw_only=True)
class _Indented(Messages):
    """Counts of a step below its command, without signatures."""

    def note(self, *lines: str, signature: str = "") -> None:
        super().note(*(f"    {line}" for line in lines))


def _run(quiet: bool, *argv: str) -> bool:
    """Print the command, then run it. Whether it went well."""
    from .app import build_app

    lines = textwrap.wrap(shlex.join(["synthscore", *argv]), 90, break_long_words=False, break_on_hyphens=False)
    print("  $ " + " \\\n      ".join(lines), flush=True)
    verb, given, _ = build_app(argv).parse_args(argv, exit_on_error=False, print_error=False)
    given.arguments["messages"] = _Indented(quiet=quiet)
    return bool(verb(*given.args, **given.kwargs) != ERROR)


def _heading(text: str) -> None:
    print(f"\n{textwrap.fill(text, 98)}\n")
