"""What can be wrong with a ladder, and what a judge's comparisons of its rungs show. Pure; asks nobody.

A finding names its rungs, its kind and evidence, what to do, and which rungs writing again might mend. It is *flagged*,
or only noted where it is usual for who wrote the rungs: damage leaves neighbours alike and endings cut.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..ladders.write import schedule
from ..types import Ladder
from .rungs import LadderCheck

MEANING: dict[str, tuple[str, str]] = {
    "failed": ("a rung has no text", "repair it, or generate shorter ladders"),
    "near-duplicate": ("two rungs have nearly the same words", "repair it, or generate shorter ladders"),
    "copied": ("a rung is copied from the context", "repair it, or take a model that follows instructions better"),
    "refusal": ("a rung is a refusal", "repair it, or take another writer"),
    "meta-text": ("a rung talks about itself or its task", "repair it, or take another writer"),
    "second-turn": ("somebody else speaks in it, too", "repair it, or take another writer"),
    "long": ("a rung is longer than its task allows", "repair it, or take a model that follows instructions better"),
    "short": ("a rung is shorter than its task allows", "repair it, or take a model that follows instructions better"),
    "unfinished": ("a rung does not end with a sentence", "repair it, or generate with more --max-new-tokens"),
    "length": (
        "length alone tells the rungs apart",
        "a judge that likes length sees it rise: score with --debias length, or generate with another writer",
    ),
    "inverted": ("the judge finds a higher rung worse", "repair it, read it (references show), or take another judge"),
    "level": ("the judge hardly tells two neighbours apart", "repair it, or generate shorter ladders"),
    "unanswered": ("the judge could not answer", "see the reason: synthscore doctor shows the prompt"),
    "own-judge": (
        "the judge wrote the rungs that it judges",
        "models tend to favour their own words: judge with another model",
    ),
}
"""Kind of finding -> what it means, and what to do."""

EVEN = 0.05  # margin up to which a judge counts as finding two rungs equally good


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong, or worth knowing, about a ladder.

    levels : the rungs that it is about; empty for the ladder as a whole. kind : one of MEANING
    evidence : what was seen, in words
    flagged : False where it is only noted
    rewrite : the rungs that, written again, might mend it
    amount : how bad it is, to compare findings of one kind on the same rungs
    """

    levels: tuple[int, ...]
    kind: str
    evidence: str
    flagged: bool = True
    rewrite: tuple[int, ...] = ()
    amount: float = 1.0

    @property
    def advice(self) -> str:
        return MEANING[self.kind][1]

    def __str__(self) -> str:
        rungs = f" {'-'.join(map(str, self.levels))}" if self.levels else ""
        return f"{self.kind}{rungs}: {self.evidence}"


def flagged(findings: Sequence[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.flagged]


def judged_findings(ladder: Ladder, check: LadderCheck) -> list[Finding]:
    """What a judge's comparisons of the rungs show. check : of this ladder"""
    found = []
    neighbours = set(pairwise(check.levels))
    for (lower, higher), margin in check.pairs.items():
        levels, rewrite = (lower, higher), (last_written(ladder.n_rungs, (lower, higher)),)
        seen = f"margin {margin:+.2f} of rung {higher} against rung {lower}"
        if margin < -EVEN:
            found.append(Finding(levels, "inverted", seen, rewrite=rewrite, amount=-margin))
        elif margin <= EVEN and levels in neighbours:
            found.append(Finding(levels, "level", seen, flagged=False, rewrite=rewrite))
    if check.reason:
        found.append(Finding((), "unanswered", check.reason, amount=check.n_unanswered))
    return found


def last_written(n_rungs: int, levels: Iterable[int]) -> int:
    """The one that fewest others are written from; of the two extremes, the worst: damage can be done again."""
    order = [step.level for wave in schedule(n_rungs) for step in wave]
    inner = [level for level in levels if level not in (1, n_rungs)]
    return max(inner, key=order.index) if inner else min(levels)
