"""`synthscore references check`: what is wrong with ladders."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ..judging.asking import ProtocolName
from .messages import Messages, UsageError, Watched, clip, counted, exit_code, format_number, reasons, table
from .options import Answering, Count, JudgeOptions, MoreRows, OneTask, OnlyAttributes, Revision, Source, given

if TYPE_CHECKING:
    from ..checking.check import CheckedLadder, CheckReport

SHOWN = 3  # findings of a ladder that are printed


@Parameter(name="*", group="model")
@dataclass(frozen=True, kw_only=True)
class RungJudging(Answering, JudgeOptions):
    """How a judge is asked about rungs; or that none is."""

    no_judge: bool = False
    "look at the texts alone, and ask no model"
    protocol: ProtocolName = "compare"
    "how the judge is asked"

    @contextmanager
    def engine(self, messages: Messages, *more: str) -> Iterator[Watched | None]:
        """The judge; None with --no-judge. more : other options that were given and need one

        raises : UsageError for options that would change nothing
        """
        if not self.no_judge:
            with self.open(self.named(messages), messages) as engine:
                yield engine
            return
        if unused := [name for name in (*given(self), *more) if name != "--no-judge"]:
            raise UsageError(
                f"--no-judge asks no model, so {', '.join(unused)} would change nothing: leave one or the other out"
            )
        yield None


def check(
    source: Source,
    /,
    *,
    strict: bool = False,
    worst: Count = 5,
    output: Annotated[MoreRows, Parameter(name=["--output", "-o"])] = None,
    positions: str | None = None,
    revision: Revision = None,
    attribute: OnlyAttributes = None,
    task: OneTask = None,
    judging: RungJudging = RungJudging(),
    messages: Messages = Messages(),
) -> int:
    """What is wrong with the ladders?

    For example:
      $ synthscore references check ladders/ --no-judge
      $ synthscore references check ladders/ --attribute coherence
      $ synthscore references check ladders/ --model Qwen/Qwen3-8B --positions scale.json

    Looks at the texts (failed, copied, unfinished or nearly equal rungs, refusals, length), and asks the judge
    about every two rungs of a ladder, in both orders. Prints for each attribute:

      ladders   how many there are; flagged: how many of them have something wrong
      rising    how many of them the judge sees rise at every step
      margin    mean p(Better) - p(Worse) of a rung against the one below it, -1 to 1; above 0 it rises
      inverted  pairs of rungs that the judge sees the wrong way round
      gaps      by how much the judge tells neighbours apart, from the worst to the best: medians, in nats
      words     mean length of the worst ... best rung: where it grows, a judge may be scoring length

    then what was found and what to do, and the ladders with the most of it. The exit code is 3 where
    something is flagged. docs/ladders.md explains each kind.

    Args:
        strict: exit code 3 also for what is only noted
        worst: ladders to name
        output: also write a row a ladder to a file: findings with evidence and advice, margins, positions
        positions: also write where the judge puts the rungs, for `score --scoring anchored --scale FILE`
    """
    from ..checking.check import check as check_ladders
    from ..io.write import write_rows
    from ..ladders.references import References
    from ..scoring.anchored.scale import Scales

    if output == "-":
        raise UsageError("-o - would write rows into what check prints: name a file")
    chosen = References.load(source, revision=revision).select(task=task, attribute=attribute)
    with judging.engine(messages, *(["--positions"] if positions else [])) as engine:
        report = check_ladders(chosen, engine, judging.asking(judging.protocol, both_orders=True), task=task)
    if output:
        write_rows(report.to_rows(), output)
    _print(report, worst)
    if positions:
        scales = report.scales()
        for checked in report.placed:
            if checked.trouble:
                messages.warn(f"left out of {positions}: {checked.trouble}")
        Scales(scales).save(positions)
    findings = [finding for checked in report.ladders for finding in checked.findings]
    failing = [finding.evidence for finding in findings if finding.kind == "unanswered"]
    asked = f", {counted(engine.n_judged, 'question')}" if engine else ""
    messages.note(
        f"{counted(len(chosen), 'ladder')}{asked}; {report.n_flagged} flagged",
        *([f"{counted(len(failing), 'ladder')} not fully answered:", *reasons(failing)] if failing else []),
        *([f"positions of the rungs: {positions}"] if positions else []),
        *(engine.cost if engine else []),
        signature=str(report.signature or ""),
    )
    noted = strict and any(checked.findings for checked in report.ladders)
    return exit_code(not report.n_flagged and not noted)


def _print(report: CheckReport, worst: int) -> None:
    rows, judged = report.summaries(), report.signature is not None
    columns = ["task", "attribute", "ladders", "flagged", *(["rising", "margin", "inverted"] * judged)]
    steps = {**({"gaps": 1} if judged else {}), "words": 0}  # and their digits
    cells = [[*(row[name] for name in columns), *(_steps(row[name], n) for name, n in steps.items())] for row in rows]
    print(table(cells, [*columns, *steps], 160))
    for trouble in (checked.trouble for checked in report.placed if checked.trouble):
        print("\n" + textwrap.fill(trouble, 86, break_on_hyphens=False))
    for title, flagged in (("Flagged:", True), ("Only noted:", False)):
        _print_kinds(report, flagged, title)
    bad = report.worst()
    if bad and worst:
        print(f"\nMost at fault ({min(worst, len(bad))} of {len(bad)}):")
        for checked in bad[:worst]:
            _print_ladder(checked)
        print("\nTo read one: synthscore references show FOLDER CONTEXT_ID -a ATTRIBUTE")
        print("To have flagged rungs written again: check with -o FILE, then synthscore generate ... --findings FILE")


def _steps(values: Sequence[float], digits: int) -> str:
    return " ".join(format_number(value, f".{digits}f") for value in values) or "-"


def _print_kinds(report: CheckReport, flagged: bool, title: str) -> None:
    """How often each kind of finding is there, what it means and what to do."""
    from ..checking.findings import MEANING

    times = report.counts(flagged)
    width = max((len(f"{n} x {kind}") for kind, n in times.items()), default=0)
    if times:
        print(f"\n{title}")
    for kind, n in times.most_common():
        meaning, advice = MEANING[kind]
        where = sum(one.has(kind, flagged) for one in report.ladders)
        print(f"  {f'{n} x {kind}':<{width}}  {meaning}, in {counted(where, 'ladder')}")
        if flagged:
            print(f"  {'':<{width}}  -> {advice}")


def _print_ladder(checked: CheckedLadder) -> None:
    ladder, steps = checked.ladder, ""
    if checked.judged and checked.judged.levels:  # 1 +0.31 2 -0.05 3: the margins between the levels
        levels = checked.judged.levels
        margins = ("?" if math.isnan(margin) else f"{margin:+.2f}" for margin in checked.judged.margins)
        steps = " ".join([str(levels[0]), *(f"{m} {level}" for m, level in zip(margins, levels[1:], strict=True))])
    print(f"  {ladder.task}/{ladder.context_id}/{ladder.attribute}  {steps}".rstrip())
    alike: dict[tuple[str, str], list[str]] = {}
    for finding in checked.flagged:
        alike.setdefault((finding.kind, finding.evidence), []).append("-".join(map(str, finding.levels)))
    for (kind, evidence), rungs in list(alike.items())[:SHOWN]:
        name = f"{kind} {', '.join(rungs)}".strip()
        print(f"      {clip(f'{name}: {evidence}', 94)}")
    if len(alike) > SHOWN:
        print(f"      and {len(alike) - SHOWN} more")
