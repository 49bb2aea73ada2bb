"""Ladders (and a judge) -> a report of what is wrong with them. Reads and writes no files, prints nothing."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import engines
from ..engine import Engine
from ..errors import LadderError
from ..io.write import plain
from ..judging.asking import Asking
from ..judging.tasks import load_task
from ..judging.templates import Templates
from ..ladders.references import References
from ..scoring.anchored.scale import Scale
from ..signature import Signature
from ..types import Ladder, Task
from .findings import Finding, flagged, judged_findings
from .positions import Placed, place_rungs
from .rungs import BOTH_ORDERS, LadderCheck, ask_rungs
from .texts import text_findings


@dataclass(frozen=True, slots=True, eq=False)
class CheckedLadder:
    """A ladder and what is known of it. judged : None where no judge was asked; placed : nor what it makes of rungs"""

    ladder: Ladder
    findings: list[Finding]
    judged: LadderCheck | None = None
    placed: Placed | None = None

    @property
    def flagged(self) -> list[Finding]:
        return flagged(self.findings)

    @property
    def words(self) -> dict[int, int]:
        """Level -> words of its text."""
        return {rung.level: len(rung.text.split()) for rung in self.ladder.usable}

    def to_row(self) -> dict[str, Any]:
        row: dict[str, Any] = {
            "context_id": self.ladder.context_id,
            "task": self.ladder.task,
            "attribute": self.ladder.attribute,
            "flagged": bool(self.flagged),
            "n_failed": self.ladder.n_rungs - len(self.ladder.usable),
            "levels": list(self.words),
            "lengths": list(self.words.values()),
            "findings": [
                {"kind": f.kind, "levels": f.levels, "flagged": f.flagged, "evidence": f.evidence, "advice": f.advice}
                for f in self.findings
            ],
        }
        if judged := self.judged:
            row |= {
                "rising": judged.rising,
                "mean_margin": judged.mean_margin,
                "n_unanswered": judged.n_unanswered,
                "margins": judged.margins,
                "pairs": [[lower, higher, margin] for (lower, higher), margin in judged.pairs.items()],
                **(self.placed.standing(self.ladder.context_id) if self.placed else {}),
                "reason": judged.reason,
            }
        plain_row: dict[str, Any] = plain(row)
        return plain_row


@dataclass(frozen=True, slots=True, eq=False)
class CheckReport:
    """What is wrong with ladders. placed, signature : empty, and None, where no judge was asked"""

    ladders: tuple[CheckedLadder, ...]
    placed: tuple[Placed, ...] = ()
    signature: Signature | None = None

    @property
    def n_flagged(self) -> int:
        return sum(bool(each.flagged) for each in self.ladders)

    def counts(self, flagged: bool) -> Counter[str]:
        """Kind of finding -> how many there are that are flagged, or that are only noted."""
        return Counter(f.kind for each in self.ladders for f in each.findings if f.flagged == flagged)

    def worst(self) -> list[CheckedLadder]:
        """Those with something flagged, most at fault first: amounts of different kinds do not compare, so that the
        number of findings counts first."""
        bad = (each for each in self.ladders if each.flagged)
        return sorted(bad, key=lambda each: (-len(each.flagged), -sum(finding.amount for finding in each.flagged)))

    def summaries(self) -> list[dict[str, Any]]:
        """A row an attribute, and where there are several, one of all (task "all").

        rising : ladders that rise. margin, info : means. gaps : medians, nats; none where lengths differ. words : mean
        lengths, by level from 1. What is not known is NaN.
        """
        groups: dict[tuple[str, str], list[CheckedLadder]] = {}
        for each in self.ladders:
            groups.setdefault((each.ladder.task, each.ladder.attribute), []).append(each)
        if len(groups) > 1:
            groups["all", ""] = list(self.ladders)
        return [_summary(*key, group) for key, group in groups.items()]

    def scales(self) -> list[Scale]:
        """Where the judge puts the rungs. raises : LadderError where that is known of none"""
        known = [each.scale for each in self.placed if not each.trouble]
        if not known:
            troubles = " ".join(each.trouble for each in self.placed) or "No judge was asked."
            raise LadderError(f"no positions of rungs are known, expected those of one attribute at least. {troubles}")
        return known

    def to_rows(self) -> list[dict[str, Any]]:
        """A row a ladder."""
        return [each.to_row() for each in self.ladders]

    def to_dict(self) -> dict[str, Any]:
        """Everything, of plain values."""
        return {
            "n_ladders": len(self.ladders),
            "n_flagged": self.n_flagged,
            "kinds": dict(self.counts(True).most_common()),
            "noted": dict(self.counts(False).most_common()),
            "attributes": [_scale_row(each) for each in self.placed],
            "ladders": self.to_rows(),
            "signature": str(self.signature or ""),
        }


def check(
    ladders: Iterable[Ladder] | str | os.PathLike[str],
    judge: Engine | str | None = None,
    asking: Asking = BOTH_ORDERS,
    *,
    adjacent: bool = False,
    task: str | None = None,
    place: bool = True,
) -> CheckReport:
    """Look for what is wrong with ladders: in their texts, and in what a judge says of every two rungs of each.

    ladders : or their folder, or the id of a hub dataset
    judge : a model, or its name (open_judge: behind the default store); None: the texts alone
    adjacent : ask about neighbours alone, so that no cycle is found. task : folder of a task of one's own
    place : also where the judge puts the rungs, which takes a fit
    raises : LadderError for a ladder without its context; TaskError, TemplateError, LabelError
    """
    chosen = list(References.load(ladders) if isinstance(ladders, str | os.PathLike) else ladders)
    if judge is None:
        return CheckReport(tuple(CheckedLadder(ladder, text_findings(ladder)) for ladder in chosen))
    judge = engines.open_judge(judge)
    checked: list[CheckedLadder] = []
    placed: list[Placed] = []
    signatures: list[Signature] = []
    for own, group in by_task(chosen, task):
        rungs = ask_rungs(group, judge, Templates(own, asking.prompts), asking, adjacent=adjacent)
        signatures.append(rungs.verdicts.signature)
        found = place_rungs(rungs) if place else []
        placed += found
        name = dict(judge.signature.parts).get("model", "")
        for ladder, judged in zip(group, rungs.checks(), strict=True):
            findings = [*text_findings(ladder, name), *judged_findings(ladder, judged)]
            size = (ladder.attribute, ladder.n_rungs)
            placement = next((each for each in found if (each.scale.attribute, each.scale.n_rungs) == size), None)
            checked.append(CheckedLadder(ladder, findings, judged, placement))
    return CheckReport(tuple(checked), tuple(placed), Signature.merged(signatures))


def by_task(ladders: Sequence[Ladder], own: str | None) -> Iterator[tuple[Task, list[Ladder]]]:
    """The ladders of each task. own : folder of a task of one's own"""
    for name in dict.fromkeys(ladder.task for ladder in ladders):
        yield load_task(own or name), [ladder for ladder in ladders if ladder.task == name]


def _summary(task: str, attribute: str, group: Sequence[CheckedLadder]) -> dict[str, Any]:
    checks = [each.judged for each in group if each.judged]
    kinds = Counter(finding.kind for each in group for finding in each.flagged)
    levels = range(1, 1 + max((level for each in group for level in each.words), default=0))
    alike = len({each.ladder.n_rungs for each in group}) == 1  # the gaps of other lengths are of other steps
    placed = [(each.placed, each.ladder.context_id) for each in group if each.placed]
    steps = zip(*(at.gaps[name] for at, name in placed), strict=True) if alike else ()
    return {
        "task": task,
        "attribute": attribute,
        "ladders": len(group),
        "flagged": sum(bool(each.flagged) for each in group),
        "rising": sum(check.rising for check in checks),
        "margin": _of_known(np.mean, [margin for check in checks for margin in check.margins]),
        "inverted": kinds["inverted"],
        "cycles": kinds["cycle"],
        "gaps": [_of_known(np.median, step) for step in steps],
        "info": _of_known(np.mean, [at.information[name] for at, name in placed]),
        "words": [_of_known(np.mean, [each.words.get(level, math.nan) for each in group]) for level in levels],
    }


def _of_known(mean: Any, values: Iterable[float]) -> float:
    """Of what is not NaN; NaN where nothing is known."""
    known = [value for value in values if not math.isnan(value)]
    return float(mean(known)) if known else math.nan


def _scale_row(placed: Placed) -> dict[str, Any]:
    scale, judge, trouble = placed.scale, placed.scale.judge, placed.trouble
    row: dict[str, Any] = plain(
        {
            "task": scale.task,
            "attribute": scale.attribute,
            "n_rungs": scale.n_rungs,
            "n_ladders": len(placed.gaps),
            "n_answers": judge.n_answers,
            "rungs_rise": judge.rungs_rise and not trouble,
            "trouble": trouble,
            "nats_per_rung": None if trouble else judge.discrimination,
            "position_bias": None if trouble else judge.position_bias,
            "mean_information": _of_known(np.mean, list(placed.information.values())),
        }
    )
    return row
