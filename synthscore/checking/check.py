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
from ..judging.templates import Templates
from ..ladders.references import References, find_task
from ..scoring.anchored.scale import Scale
from ..signature import Signature
from ..types import Ladder, Task, grouped
from .findings import JUDGED, Finding, judged_findings, text_findings
from .rungs import LadderCheck, Placed, ask_rungs, place_rungs


@dataclass(frozen=True, slots=True, eq=False)
class CheckedLadder:
    """A ladder and its findings. judged, placed : by a judge; None where none was asked"""

    ladder: Ladder
    findings: list[Finding]
    judged: LadderCheck | None = None
    placed: Placed | None = None

    @property
    def flagged(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.flagged]

    def has(self, kind: str, flagged: bool) -> bool:
        """Whether a finding of this kind is there that is flagged, or that is only noted."""
        return any(finding.kind == kind and finding.flagged == flagged for finding in self.findings)

    @property
    def words(self) -> dict[int, int]:
        """Level -> words of its text."""
        return {rung.level: len(rung.text.split()) for rung in self.ladder.usable}

    def to_row(self) -> dict[str, Any]:
        """As a row. rewrite : the rungs to write again. A judge that sees no ladder rise gives no reason for that"""
        blind = bool(self.placed and self.placed.trouble)
        findings = []
        for finding in self.findings:
            rewrite = finding.rewrite
            if blind and finding.kind in JUDGED:
                rewrite = ()
            findings.append(
                {
                    "kind": finding.kind,
                    "levels": finding.levels,
                    "flagged": finding.flagged,
                    "evidence": finding.evidence,
                    "advice": finding.advice,
                    "rewrite": rewrite,
                }
            )
        row = {
            "context_id": self.ladder.context_id,
            "task": self.ladder.task,
            "attribute": self.ladder.attribute,
            "ladder_hash": self.ladder.hash,
            "flagged": bool(self.flagged),
            "n_failed": self.ladder.n_rungs - len(self.ladder.usable),
            "levels": list(self.words),
            "lengths": list(self.words.values()),
            "findings": findings,
        }
        if self.judged and self.placed:
            anchors = self.placed.scale.ladders[self.ladder.context_id]
            position_sd = np.sqrt(np.diag(anchors.cov))
            row |= {
                "rising": self.judged.rising,
                "mean_margin": self.judged.mean_margin,
                "n_unanswered": self.judged.n_unanswered,
                "margins": self.judged.margins,
                "pairs": [[*levels, margin] for levels, margin in self.judged.pairs.items()],
                "gaps": self.placed.gaps[self.ladder.context_id],
                "positions": np.where(blind, np.nan, anchors.mean),
                "position_sd": np.where(blind, np.nan, position_sd),
                "reason": self.judged.reason,
            }
        return row


@dataclass(frozen=True, slots=True, eq=False)
class CheckReport:
    """What is wrong with ladders. Where no judge was asked, placed is empty and signature is None."""

    ladders: tuple[CheckedLadder, ...]
    placed: tuple[Placed, ...] = ()
    signature: Signature | None = None

    @property
    def n_flagged(self) -> int:
        return sum(bool(checked.flagged) for checked in self.ladders)

    def counts(self, flagged: bool) -> Counter[str]:
        """Kind of finding -> how many there are that are flagged, or that are only noted."""
        return Counter(
            finding.kind for checked in self.ladders for finding in checked.findings if finding.flagged == flagged
        )

    def worst(self) -> list[CheckedLadder]:
        """The flagged ladders, worst first: by the number of findings, then by the sum of their amounts, which do not
        compare between kinds."""

        def badness(checked: CheckedLadder) -> tuple[int, float]:
            return len(checked.flagged), sum(finding.amount for finding in checked.flagged)

        return sorted((checked for checked in self.ladders if checked.flagged), key=badness, reverse=True)

    def summaries(self) -> list[dict[str, Any]]:
        """A row an attribute, and where there are several, one of all (task "all").

        rising : ladders that rise. margin : mean. gaps : medians, nats; none where lengths differ
        words : mean lengths, by level from 1. What is not known is NaN.
        """
        groups = grouped(((checked.ladder.task, checked.ladder.attribute), checked) for checked in self.ladders)
        if len(groups) > 1:
            groups["all", ""] = list(self.ladders)
        return [_summary(*key, group) for key, group in groups.items()]

    def scales(self) -> list[Scale]:
        """Where the judge puts the rungs. raises : LadderError where that is known of none"""
        known = [placed.scale for placed in self.placed if not placed.trouble]
        if not known:
            troubles = " ".join(placed.trouble for placed in self.placed) or "No judge was asked."
            raise LadderError(f"no positions of rungs are known, expected those of one attribute at least. {troubles}")
        return known

    def to_rows(self) -> list[dict[str, Any]]:
        """A row a ladder, of plain values."""
        return [plain(checked.to_row()) for checked in self.ladders]


def check(
    ladders: Iterable[Ladder] | str | os.PathLike[str],
    judge: Engine | str | None = None,
    asking: Asking = Asking(),
    *,
    task: str | None = None,
) -> CheckReport:
    """Look for what is wrong with ladders: in their texts, and in a judge's comparisons of every two rungs of each.

    ladders : or their folder, or the id of a hub dataset
    judge : a model, or its name (open_judge: behind the default store); None: the texts alone
    asking : always in both orders
    task : folder of a task of one's own
    raises : LadderError for a ladder without its context; TaskError, TemplateError, LabelError
    """
    if isinstance(ladders, str | os.PathLike):
        ladders = References.load(ladders)
    if judge is None:
        named = find_task(ladders, task) if task else None
        carried = ladders.carried_tasks if isinstance(ladders, References) else {}
        by_texts = []
        for ladder in ladders:
            findings = text_findings(ladder, task=named or carried.get(ladder.task))
            by_texts.append(CheckedLadder(ladder, findings))
        return CheckReport(tuple(by_texts))
    judge = engines.open_judge(judge)
    checked: list[CheckedLadder] = []
    placed: list[Placed] = []
    signatures: list[Signature] = []
    for kind, group in by_task(ladders, task):
        rungs = ask_rungs(group, judge, Templates(kind, asking.prompts), asking)
        signatures.append(rungs.verdicts.signature)
        by_question = place_rungs(rungs)
        placed += by_question.values()
        name = judge.signature.part("model")
        for ladder, judged in zip(group, rungs.checks(), strict=True):
            findings = [*text_findings(ladder, name, kind), *judged_findings(ladder, judged)]
            on_scale = by_question[ladder.attribute, ladder.n_rungs]
            checked.append(CheckedLadder(ladder=ladder, findings=findings, judged=judged, placed=on_scale))
    return CheckReport(ladders=tuple(checked), placed=tuple(placed), signature=Signature.merged(signatures))


def by_task(ladders: Iterable[Ladder], named: str | None) -> Iterator[tuple[Task, list[Ladder]]]:
    """The ladders of each task. named : a task, or a folder with a task.toml, instead of that of the ladders"""
    for name, group in grouped((ladder.task, ladder) for ladder in ladders).items():
        yield find_task(ladders, named or name), group


def _summary(task: str, attribute: str, group: Sequence[CheckedLadder]) -> dict[str, Any]:
    checks = [checked.judged for checked in group if checked.judged]
    margins = [margin for check in checks for margin in check.margins]
    flagged = [finding for checked in group for finding in checked.flagged]
    highest = max((level for checked in group for level in checked.words), default=0)
    words = []
    for level in range(1, highest + 1):
        words.append(_of_known(np.mean, [checked.words.get(level, math.nan) for checked in group]))
    gaps = []
    if len({checked.ladder.n_rungs for checked in group}) == 1:  # Gaps of ladders of different lengths do not compare.
        gaps = [checked.placed.gaps[checked.ladder.context_id] for checked in group if checked.placed]
    return {
        "task": task,
        "attribute": attribute,
        "ladders": len(group),
        "flagged": sum(bool(checked.flagged) for checked in group),
        "rising": sum(check.rising for check in checks),
        "margin": _of_known(np.mean, margins),
        "inverted": sum(finding.kind == "inverted" for finding in flagged),
        "gaps": [_of_known(np.median, step) for step in zip(*gaps, strict=True)],
        "words": words,
    }


def _of_known(mean: Any, values: Iterable[float]) -> float:
    """The mean of the values that are not NaN; NaN where there are none."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return math.nan
    return float(mean(known))
