"""`synthscore references`: look at ladders, check them, compare them."""

from __future__ import annotations

import argparse
import math
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

from .. import references as library
from ..checks import LadderCheck, check_ladders
from ..errors import LadderError
from ..prompts import Templates
from ..references import References, load_references
from ..rows import write_rows
from ..tasks import load_task
from ..types import Ladder
from .common import (
    ERROR,
    INCOMPLETE,
    JUDGE,
    OK,
    Commands,
    add_command,
    add_messages,
    add_model,
    add_protocol,
    counted,
    note,
    open_model,
    reasons,
    rows_file,
    table,
    whole,
)

TEXT = """
Examples:
  $ synthscore references list ladders/
  $ synthscore references show ladders/ news-7 --attribute coherence
  $ synthscore references check ladders/ --model nano

Looks at ladders: list counts them, show prints one to read, check asks a judge whether they rise, verify
compares them with their hashes, diff compares two folders, card prints the dataset card. Each has a
--help of its own.
"""

LIST = """
Example:
  $ synthscore references list ladders/

Prints a table: how many ladders and rungs there are for each task and attribute, how many rungs failed,
and who wrote them.
"""

SHOW = """
Examples:
  $ synthscore references show ladders/ news-7
  $ synthscore references show ladders/ news-7 --attribute coherence

Prints the ladders of one context to read, the worst rung first. A failed rung is shown with its reason.
"""

CHECK = """
Examples:
  $ synthscore references check ladders/
  $ synthscore references check ladders/ --model Qwen/Qwen3-8B --strict -o checks.jsonl

Asks the judge about every two neighbouring rungs, in both orders, and prints for each attribute:

  ladders   how many there are
  rising    how many of them the judge sees rise at every step
  margin    mean p(Better) - p(Worse) of a rung against the one below it, -1 to 1; above 0 it rises
  inverted  steps that the judge sees fall
  failed    rungs without a text
  words     mean length of the worst ... best rung: where it grows, a judge may be scoring length

and then the ladders that rise least. With --strict the exit code is 3 where a ladder does not rise.
"""

VERIFY = """
Example:
  $ synthscore references verify ladders/

Compares every text with its hash, the files with the manifest, and every ladder with the rules for
ladders. Prints the problems, one a line; the exit code is then 1.
"""

DIFF = """
Example:
  $ synthscore references diff ladders/ ladders-2/

Prints how the ladders of B differ from those of A. The exit code is 0 whether they do or not.
"""

CARD = """
Example:
  $ synthscore references card ladders/ > README.md

Prints the dataset card: what the ladders are, how they were made, how to read them.
"""


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "references",
        run_list,
        "references list|show|check|verify|diff|card ...",
        "look at ladders, check them",
        TEXT,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)

    add_command(actions, "list", run_list, "references list REFERENCES", "a table of the ladders", LIST)
    show = add_command(
        actions, "show", run_show, "references show REFERENCES CONTEXT_ID", "print ladders to read", SHOW
    )
    check = add_command(
        actions,
        "check",
        run_check,
        "references check REFERENCES [options]",
        "do the ladders rise under a judge?",
        CHECK,
    )
    verify = add_command(
        actions, "verify", run_verify, "references verify REFERENCES", "compare ladders with their hashes", VERIFY
    )
    diff = add_command(actions, "diff", run_diff, "references diff A B", "compare two sets of ladders", DIFF)
    add_command(actions, "card", run_card, "references card REFERENCES", "print the dataset card", CARD)
    for name, action in actions.choices.items():
        if name not in ("diff", "verify"):
            action.add_argument("references", metavar="REFERENCES", help="references folder, or id of a hub dataset")
            action.add_argument("--revision", metavar="R", help="commit, tag or branch of a hub dataset")
    verify.add_argument("references", metavar="REFERENCES", help="references folder")
    diff.add_argument("a", metavar="A", help="references folder, or id of a hub dataset")
    diff.add_argument("b", metavar="B", help="another")

    show.add_argument("context_id", metavar="CONTEXT_ID", help="whose ladders; `references list --contexts` names them")
    actions.choices["list"].add_argument("--contexts", action="store_true", help="name the contexts too")
    for action in (show, check):
        action.add_argument("-a", "--attribute", metavar="A", help="only this one (default: all)")
        action.add_argument(
            "--task", metavar="T", help="only this one; a folder with a task.toml for a task of your own"
        )
    check.add_argument("--strict", action="store_true", help="exit code 3 where a ladder does not rise")
    check.add_argument("--worst", type=whole(0), default=5, metavar="N", help="ladders to name (default: 5)")
    check.add_argument("-o", "--output", type=rows_file, metavar="FILE", help="also write a row a ladder to a file")
    group = check.add_argument_group("judging")
    group.add_argument("--one-order", action="store_true", help="ask about each pair once: half the questions")
    add_protocol(group)
    add_model(check, "nano", JUDGE)
    for action in actions.choices.values():
        add_messages(action)


def run_list(args: argparse.Namespace) -> int:
    references = load_references(args.references, revision=args.revision)
    groups: dict[tuple[str, str], list[Ladder]] = {}
    for ladder in references:
        groups.setdefault((ladder.task, ladder.attribute), []).append(ladder)
    rows = []
    for (task, attribute), ladders in groups.items():
        rungs = [rung for ladder in ladders for rung in ladder.rungs]
        sizes = sorted({ladder.n_rungs for ladder in ladders})
        writers = Counter(str(rung.provenance.get("writer", "unknown")) for rung in rungs)
        rows.append(
            (
                task,
                attribute,
                len(ladders),
                "/".join(map(str, sizes)),
                sum(rung.status == "failed" for rung in rungs),
                ", ".join(writers),
            )
        )
    print(table(rows, ("task", "attribute", "ladders", "rungs each", "failed rungs", "written by")))
    if args.contexts:
        for task in references.tasks:
            ids = dict.fromkeys(ladder.context_id for ladder in references if ladder.task == task)
            print(f"\n{task}: {', '.join(ids)}")
    note(args, counted(len(references), "ladder"), signature=f"references:{references.hash[:12]}")
    return OK


def run_show(args: argparse.Namespace) -> int:
    chosen = _chosen(args, args.context_id)
    for number, ladder in enumerate(chosen):
        print("\n" * bool(number) + f"{ladder.task} / {ladder.context_id} / {ladder.attribute}")
        if number == 0 and ladder.context:
            print(_indented(ladder.context.text, "   "))
        for rung in ladder.rungs:
            best = " (worst)" if rung.level == 1 else " (best)" if rung.level == ladder.n_rungs else ""
            print(f"\n  {rung.level}{best}" + (f" failed: {rung.reason}" if rung.status == "failed" else ""))
            if rung.text:
                print(_indented(rung.text, "     "))
    return OK


def run_check(args: argparse.Namespace) -> int:
    chosen = _chosen(args)
    checks: list[LadderCheck] = []
    with open_model(args) as engine:
        for task in dict.fromkeys(ladder.task for ladder in chosen):
            checks += check_ladders(
                [ladder for ladder in chosen if ladder.task == task],
                engine,
                Templates(load_task(args.task or task), args.prompts),
                protocol=args.protocol,
                both_orders=not args.one_order,
                min_mass=args.min_mass,
            )
        signature = engine.signature.with_(protocol=args.protocol, orders=1 if args.one_order else 2)
    groups: dict[tuple[str, str], list[LadderCheck]] = {}
    for check in checks:
        groups.setdefault((check.task, check.attribute), []).append(check)
    rows = [(*key, *_row(group)) for key, group in groups.items()]
    if len(rows) > 1:
        rows.append(("all", "", *_row(checks)))
    print(table(rows, ("task", "attribute", "ladders", "rising", "margin", "inverted", "failed", "words")))
    falling = sorted((check for check in checks if not check.rising), key=_badness)
    if falling and args.worst:
        print(f"\nRising least ({min(args.worst, len(falling))} of {len(falling)} that do not rise at every step):")
        for check in falling[: args.worst]:
            print(f"  {check.context_id}/{check.attribute}  {_steps(check)}")
    if args.output:
        write_rows(map(_check_row, checks), args.output)
    unanswered = [check.reason for check in checks if check.n_unanswered]
    also = f", {len(unanswered)} of them not fully answered" if unanswered else ""
    note(
        args,
        f"{counted(len(checks), 'ladder')}, {counted(engine.n_judged, 'question')}; "
        f"{len(checks) - len(falling)} rising, {len(falling)} not{also}",
        *reasons(unanswered),
        signature=str(signature),
    )
    return INCOMPLETE if falling and args.strict else OK


def run_verify(args: argparse.Namespace) -> int:
    problems = library.verify(args.references)
    for problem in problems:
        print(problem)
    note(args, f"{args.references}: {counted(len(problems), 'problem')}")
    return ERROR if problems else OK


def run_diff(args: argparse.Namespace) -> int:
    changes = library.diff(load_references(args.a), load_references(args.b))
    for change in changes:
        print(change)
    note(args, counted(len(changes), "difference"))
    return OK


def run_card(args: argparse.Namespace) -> int:
    print(library.card(load_references(args.references, revision=args.revision)))
    return OK


def _chosen(args: argparse.Namespace, context_id: str | None = None) -> References:
    """The ladders that the options name. raises : LadderError where there are none."""
    references = load_references(args.references, revision=args.revision)
    task = load_task(args.task).name if args.task else None
    chosen = references.filter(
        task=task, attribute=args.attribute, context_ids=None if context_id is None else [context_id]
    )
    if not len(chosen):
        if context_id is not None and args.attribute:
            references.find(context_id, args.attribute, task)  # raises, naming the nearest
        contexts = list(dict.fromkeys(ladder.context_id for ladder in references))
        wanted = [f"{name} {value!r}" for name, value in _wanted(args, context_id) if value]
        raise LadderError(
            f"{args.references} holds no ladder of {', '.join(wanted) or 'any kind'}. It has the tasks "
            f"{', '.join(references.tasks)}, the attributes {', '.join(references.attributes)}, and "
            f"{counted(len(contexts), 'context')}: {', '.join(contexts[:8])}{', ...' if len(contexts) > 8 else ''}"
        )
    return chosen


def _wanted(args: argparse.Namespace, context_id: str | None) -> list[tuple[str, str | None]]:
    return [("context", context_id), ("attribute", args.attribute), ("task", args.task)]


def _indented(text: str, indent: str) -> str:
    """Wrapped at 100 columns; the text's own line breaks stay."""
    lines = text.splitlines() or [""]
    return "\n".join(
        textwrap.fill(line, 100, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
        for line in lines
    )


def _row(checks: list[LadderCheck]) -> tuple[object, ...]:
    margins = [margin for check in checks for margin in check.margins if not math.isnan(margin)]
    by_level: dict[int, list[int]] = {}
    for check in checks:
        for level, length in zip(check.levels, check.lengths, strict=True):
            by_level.setdefault(level, []).append(length)
    return (
        len(checks),
        sum(check.rising for check in checks),
        sum(margins) / len(margins) if margins else None,
        sum(check.inversions for check in checks),
        sum(check.n_failed for check in checks),
        " ".join(_mean(by_level.get(level, ())) for level in range(1, max(by_level, default=0) + 1)),
    )


def _mean(lengths: Sequence[int]) -> str:
    return str(round(sum(lengths) / len(lengths))) if lengths else "-"


def _badness(check: LadderCheck) -> tuple[float, float]:
    lowest = min((margin for margin in check.margins if not math.isnan(margin)), default=-2.0)
    return (lowest, -check.inversions)


def _steps(check: LadderCheck) -> str:
    """1 +0.31 2 -0.05 3: the margins between the levels."""
    if not check.levels:
        return "no rung has a text"
    text = str(check.levels[0])
    for level, margin in zip(check.levels[1:], check.margins, strict=True):
        text += f" {'?' if math.isnan(margin) else f'{margin:+.2f}'} {level}"
    return text + (f"  ({check.n_failed} failed)" if check.n_failed else "")


def _check_row(check: LadderCheck) -> dict[str, Any]:
    return {
        "context_id": check.context_id,
        "task": check.task,
        "attribute": check.attribute,
        "rising": check.rising,
        "mean_margin": check.mean_margin,
        "inversions": check.inversions,
        "n_failed": check.n_failed,
        "n_unanswered": check.n_unanswered,
        "levels": list(check.levels),
        "margins": list(check.margins),
        "lengths": list(check.lengths),
        "reason": check.reason,
    }
