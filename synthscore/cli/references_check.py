"""`synthscore references check`: what is wrong with ladders."""

from __future__ import annotations

import argparse
import json
import math
import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..checking.findings import MEANING, Finding, Placed, flagged, judged_findings, n_words, place_rungs, text_findings
from ..checking.rungs import LadderCheck, ask_rungs
from ..engine import Engine
from ..errors import LadderError
from ..io.write import plain, write_rows
from ..judging.asking import Asking
from ..judging.tasks import load_task
from ..judging.templates import Templates
from ..ladders.references import References
from ..scoring.anchored.scale import save_scales
from ..signature import Signature
from ..types import Ladder, Task
from .common import (
    INCOMPLETE,
    JUDGE,
    OK,
    Commands,
    UsageError,
    add_command,
    add_model,
    add_protocol,
    clip,
    counted,
    note,
    open_model,
    reasons,
    rows_file,
    table,
    warn,
    whole,
)
from .judging import merged

_SHOWN = 3  # findings of a ladder that are printed

CHECK = """
Examples:
  $ synthscore references check ladders/ --no-judge
  $ synthscore references check ladders/ --attribute coherence
  $ synthscore references check ladders/ --model Qwen/Qwen3-8B --positions scale.json -o checks.jsonl

Looks at the texts (failed, copied, unfinished or nearly equal rungs, refusals, length), and asks the judge
about every two rungs of a ladder, in both orders. Prints for each attribute:

  ladders   how many there are; flagged: how many of them have something wrong
  rising    how many of them the judge sees rise at every step
  margin    mean p(Better) - p(Worse) of a rung against the one below it, -1 to 1; above 0 it rises
  inverted  pairs of rungs that the judge sees the wrong way round; cycles: A > B > C > A
  gaps      by how much the judge tells neighbours apart, from the worst to the best: medians, in nats
  info      what a ladder tells about a text, mean; 1.00: as much as rungs at even distances
  words     mean length of the worst ... best rung: where it grows, a judge may be scoring length

then what was found and what to do, and the ladders with the most of it. The exit code is 3 where
something is flagged. docs/ladders.md explains each kind.
"""


def add(actions: Commands) -> None:
    parser = add_command(
        actions, "check", run_check, "references check REFERENCES [options]", "what is wrong with the ladders?", CHECK
    )
    parser.add_argument("--json", action="store_true", help="print everything as one JSON object, and no tables")
    parser.add_argument("--strict", action="store_true", help="exit code 3 also for what is only noted")
    parser.add_argument("--worst", type=whole(0), default=5, metavar="N", help="ladders to name (default: 5)")
    parser.add_argument("-o", "--output", type=rows_file, metavar="FILE", help="also write a row a ladder to a file")
    parser.add_argument(
        "--positions",
        metavar="FILE",
        help="also write where the judge puts the rungs, for `score --scoring anchored --scale FILE`",
    )
    add_asking(parser)


def add_asking(parser: argparse.ArgumentParser) -> None:
    """The options of a command that asks a judge about rungs."""
    group = parser.add_argument_group("judging")
    group.add_argument("--no-judge", action="store_true", help="look at the texts alone, and ask no model")
    group.add_argument("--adjacent", action="store_true", help="ask about neighbours alone: fewer questions, no cycles")
    group.add_argument("--one-order", action="store_true", help="ask about each pair once: half the questions")
    add_protocol(group)
    add_model(parser, "nano", JUDGE)


# ------------------------------------------------------------------------------------------------- check


@dataclass(frozen=True, slots=True)
class Checked:
    """A ladder and all that is known of it; where nobody was asked, judged is None and all that follows is missing."""

    ladder: Ladder
    findings: list[Finding]
    judged: LadderCheck | None = None
    gaps: tuple[float, ...] = ()
    information: float = math.nan
    positions: tuple[float, ...] = ()
    position_sd: tuple[float, ...] = ()

    @property
    def flagged(self) -> list[Finding]:
        return flagged(self.findings)

    def row(self) -> dict[str, Any]:
        judged = self.judged
        found = [
            {"kind": f.kind, "levels": list(f.levels), "flagged": f.flagged, "evidence": f.evidence, "advice": f.advice}
            for f in self.findings
        ]
        row: dict[str, Any] = {
            "context_id": self.ladder.context_id,
            "task": self.ladder.task,
            "attribute": self.ladder.attribute,
            "flagged": bool(self.flagged),
            "n_failed": self.ladder.n_rungs - len(self.ladder.usable),
            "levels": [rung.level for rung in self.ladder.usable],
            "lengths": [n_words(rung.text) for rung in self.ladder.usable],
            "findings": found,
        }
        if judged:
            row |= {
                "rising": judged.rising,
                "mean_margin": judged.mean_margin,
                "n_unanswered": judged.n_unanswered,
                "margins": list(judged.margins),
                "pairs": [[lower, higher, margin] for (lower, higher), margin in judged.pairs.items()],
                "gaps": list(self.gaps),
                "information": self.information,
                "positions": list(self.positions),
                "position_sd": list(self.position_sd),
                "reason": judged.reason,
            }
        plain_row: dict[str, Any] = plain(row)
        return plain_row


def run_check(args: argparse.Namespace) -> int:
    check_options(args)
    chosen = chosen_ladders(args)
    asked = ""
    signatures: list[Signature] = []
    placed: list[Placed] = []
    if args.no_judge:
        checked = [Checked(ladder, text_findings(ladder)) for ladder in chosen]
    else:
        with open_model(args) as engine:
            checked = []
            for task, ladders in by_task(chosen, args.task):
                more, found, signature = judge_ladders(args, ladders, task, engine)
                checked += more
                placed += found
                signatures.append(signature)
            asked = f", {counted(engine.n_judged, 'question')}"
    if args.output:
        write_rows((each.row() for each in checked), args.output)
    if args.json:
        print(json.dumps(_summary(checked, placed, merged(signatures)), indent=1, ensure_ascii=False))
    else:
        _print(checked, placed, args.worst)
    if args.positions:
        _save_positions(placed, args.positions)
    bad = sum(bool(each.flagged) for each in checked)
    failing = [finding.evidence for each in checked for finding in each.findings if finding.kind == "unanswered"]
    note(
        args,
        f"{counted(len(checked), 'ladder')}{asked}; {bad} flagged",
        *([f"{counted(len(failing), 'ladder')} not fully answered:", *reasons(failing)] if failing else []),
        *([f"positions of the rungs: {args.positions}"] if args.positions else []),
        signature=merged(signatures),
    )
    noted = args.strict and any(each.findings for each in checked)
    return INCOMPLETE if bad or noted else OK


def _save_positions(placed: Sequence[Placed], path: str) -> None:
    """raises : LadderError where nothing places any of them"""
    known = [each.scale for each in placed if not each.trouble]
    troubles = [each.trouble for each in placed if each.trouble]
    if not known:
        raise LadderError(f"no positions of rungs are known, and {path} is not written. {' '.join(troubles)}")
    for trouble in troubles:
        warn(f"left out of {path}: {trouble}")
    save_scales(known, path)


def check_options(args: argparse.Namespace, writes: bool = False) -> None:
    """raises : UsageError for options that would change nothing, or that do not go together"""
    given = [name for name in ("adjacent", "one_order") if getattr(args, name)]
    opening = ("positions", "device", "dtype", "exact", "store", "tokenizer", "in_flight")
    given += [name for name in opening if not writes and getattr(args, name)]  # of a repair they are the writer's, too
    usual = {"model": "nano", "protocol": "compare", "min_mass": 0.01, "prompts": "default"}
    given += [name for name, value in usual.items() if getattr(args, name) != value]
    if args.no_judge and given:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UsageError(f"--no-judge asks no model, so {names} would change nothing: leave one or the other out")
    if not writes and args.positions and args.adjacent and args.one_order:
        raise UsageError(
            "--positions with --adjacent and --one-order: whether the judge favours a place or sees a distance cannot "
            "be told apart by these questions. Leave --adjacent or --one-order out"
        )
    if not writes and args.output == "-":
        raise UsageError(
            "-o - would write rows into what check prints: name a file, or take --json alone, which prints them too"
        )


def by_task(ladders: Sequence[Ladder] | References, own: str | None) -> Iterator[tuple[Task, list[Ladder]]]:
    for name in dict.fromkeys(ladder.task for ladder in ladders):
        yield load_task(own or name), [ladder for ladder in ladders if ladder.task == name]


def judge_ladders(
    args: argparse.Namespace, ladders: Sequence[Ladder], task: Task, engine: Engine, place: bool = True
) -> tuple[list[Checked], list[Placed], Signature]:
    said = ask_rungs(
        ladders,
        engine,
        Templates(task, args.prompts),
        Asking(args.protocol, not args.one_order, args.prompts, args.min_mass),
        adjacent=args.adjacent,
    )
    placed = place_rungs(said) if place else []
    by_key = {(each.scale.attribute, each.scale.n_rungs): each for each in placed}
    judge = dict(engine.signature.parts).get("model", args.model)
    checked = []
    for ladder, check in zip(ladders, said.checks(), strict=True):
        findings = [*text_findings(ladder, judge), *judged_findings(ladder, check)]
        found = by_key.get((ladder.attribute, ladder.n_rungs))
        if found is None:
            checked.append(Checked(ladder, findings, check))
            continue
        name, anchors = ladder.context_id, found.scale.ladders[ladder.context_id]
        checked.append(
            Checked(
                ladder,
                findings,
                check,
                tuple(found.gaps[name].tolist()),
                found.information[name],
                tuple(np.where(found.trouble, np.nan, anchors.mean).tolist()),
                tuple(np.where(found.trouble, np.nan, np.sqrt(np.diag(anchors.cov))).tolist()),
            )
        )
    return checked, placed, said.verdicts.signature


def _print(checked: Sequence[Checked], placed: Sequence[Placed], worst: int) -> None:
    judged = any(each.judged for each in checked)
    groups: dict[tuple[str, str], Sequence[Checked]] = {}
    for each in checked:
        key = (each.ladder.task, each.ladder.attribute)
        groups[key] = [*groups.get(key, ()), each]
    if len(groups) > 1:
        groups["all", ""] = checked
    of_judge = ("rising", "margin", "inverted", "cycles") if judged else ()
    rows = [(*key, *_counts(group, judged)) for key, group in groups.items()]
    print(table(rows, ("task", "attribute", "ladders", "flagged", *of_judge)))
    of_steps = ("gaps (nats)", "info") if judged else ()
    rows = [(*key, *_steps_of(group, judged)) for key, group in groups.items()]
    print("\nFrom the worst rung to the best:\n" + table(rows, ("task", "attribute", *of_steps, "words")))
    for trouble in (each.trouble for each in placed if each.trouble):
        print("\n" + textwrap.fill(trouble, 86, break_on_hyphens=False))
    for title, wanted in (("Flagged:", True), ("Only noted:", False)):
        _print_kinds(checked, wanted, title)
    bad = sorted((each for each in checked if each.flagged), key=_fault, reverse=True)
    if bad and worst:
        print(f"\nMost at fault ({min(worst, len(bad))} of {len(bad)}):")
    for each in bad[:worst]:
        ladder, found = each.ladder, each.flagged
        print(f"  {ladder.task}/{ladder.context_id}/{ladder.attribute}  {_steps(each)}".rstrip())
        alike: dict[tuple[str, str], list[str]] = {}
        for finding in found:
            alike.setdefault((finding.kind, finding.evidence), []).append("-".join(map(str, finding.levels)))
        for (kind, evidence), rungs in list(alike.items())[:_SHOWN]:
            name = f"{kind} {', '.join(rungs)}".strip()
            print(f"      {clip(f'{name}: {evidence}', 94)}")
        if len(alike) > _SHOWN:
            print(f"      and {len(alike) - _SHOWN} more")
    if bad and worst:
        print("\nTo read one: synthscore references show FOLDER CONTEXT_ID -a ATTRIBUTE")


def _fault(each: Checked) -> tuple[int, float]:
    """How much is wrong; amounts of different kinds do not compare, so that findings count first."""
    return len(each.flagged), sum(finding.amount for finding in each.flagged)


def _print_kinds(checked: Sequence[Checked], wanted: bool, title: str) -> None:
    """How often each kind of finding is there, what it means and what to do."""
    found = [(f.kind, place) for place, each in enumerate(checked) for f in each.findings if f.flagged == wanted]
    if not found:
        return
    print(f"\n{title}")
    times = Counter(kind for kind, _ in found)
    ladders = Counter(kind for kind, _ in set(found))
    width = max(len(f"{n} x {kind}") for kind, n in times.items())
    for kind, n in times.most_common():
        meaning, advice = MEANING[kind]
        print(f"  {f'{n} x {kind}':<{width}}  {meaning}, in {counted(ladders[kind], 'ladder')}")
        if wanted:
            print(f"  {'':<{width}}  -> {advice}")


def _counts(group: Sequence[Checked], judged: bool) -> tuple[object, ...]:
    start = (len(group), sum(bool(each.flagged) for each in group))
    if not judged:
        return start
    checks = [each.judged for each in group if each.judged]
    margins = [margin for check in checks for margin in check.margins if not math.isnan(margin)]
    kinds = Counter(finding.kind for each in group for finding in each.flagged)
    rising = sum(check.rising for check in checks)
    return (*start, rising, float(np.mean(margins)) if margins else None, kinds["inverted"], kinds["cycle"])


def _steps_of(group: Sequence[Checked], judged: bool) -> tuple[object, ...]:
    by_level: dict[int, list[int]] = {}
    for each in group:
        for rung in each.ladder.usable:
            by_level.setdefault(rung.level, []).append(n_words(rung.text))
    levels = range(1, max(by_level, default=0) + 1)
    words = " ".join(f"{np.mean(by_level[level]):.0f}" if level in by_level else "-" for level in levels)
    known = [each.information for each in group if not math.isnan(each.information)]
    return (_gaps(group), float(np.mean(known)) if known else None, words) if judged else (words,)


def _gaps(group: Sequence[Checked]) -> str:
    """Medians over ladders; ladders of one length only, since theirs are the same steps."""
    if len({each.ladder.n_rungs for each in group}) != 1:
        return "-"
    steps = np.array([each.gaps for each in group])
    known = [column[~np.isnan(column)] for column in steps.T]
    return " ".join(f"{np.median(column):.1f}" if len(column) else "-" for column in known)


def _steps(each: Checked) -> str:
    """1 +0.31 2 -0.05 3: the margins between the levels."""
    check = each.judged
    if check is None or not check.levels:
        return ""
    text = str(check.levels[0])
    for level, margin in zip(check.levels[1:], check.margins, strict=True):
        text += f" {'?' if math.isnan(margin) else f'{margin:+.2f}'} {level}"
    return text


def _summary(checked: Sequence[Checked], placed: Sequence[Placed], signature: str) -> dict[str, Any]:
    """What --json prints."""
    scales = [
        {
            "task": each.scale.task,
            "attribute": each.scale.attribute,
            "n_rungs": each.scale.n_rungs,
            "n_ladders": len(each.gaps),
            "n_answers": each.scale.judge.n_answers,
            "rungs_rise": each.scale.judge.rungs_rise and not each.trouble,
            "trouble": each.trouble,
            "nats_per_rung": None if each.trouble else each.scale.judge.discrimination,
            "position_bias": None if each.trouble else each.scale.judge.position_bias,
            "mean_information": float(np.mean(known)) if (known := _known(each)) else None,
        }
        for each in placed
    ]
    return {
        "n_ladders": len(checked),
        "n_flagged": sum(bool(each.flagged) for each in checked),
        "kinds": dict(Counter(finding.kind for each in checked for finding in each.flagged).most_common()),
        "noted": dict(Counter(f.kind for each in checked for f in each.findings if not f.flagged).most_common()),
        "attributes": scales,
        "ladders": [each.row() for each in checked],
        "signature": signature,
    }


def _known(placed: Placed) -> list[float]:
    return [value for value in placed.information.values() if not math.isnan(value)]


# ------------------------------------------------------------------------------------------------- which ladders


def chosen_ladders(args: argparse.Namespace, context_id: str | None = None) -> References:
    """The ladders that the options name. raises : LadderError where there are none."""
    references = References.load(args.references, revision=args.revision)
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
