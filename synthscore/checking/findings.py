"""What can be wrong with a ladder, by its texts alone and by a judge's comparisons of its rungs. Pure; asks nobody.

A finding names its rungs, its kind, its evidence, what to do, and the rungs that might be mended by writing them again.
It is *flagged*, or only noted: that a judge hardly tells neighbours apart, that it wrote the rungs itself, and what the
texts of rungs show that damage or a person wrote, where it may be meant (alike neighbours, cut endings, other lengths).
A rung without a text, and a refusal, is flagged whoever wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, pairwise

from ..judging.templates import load_task, task_names
from ..ladders.faults import ALIKE, Fault, bare, ends, faults, similarity
from ..ladders.write import schedule
from ..signature import Signature
from ..types import Ladder, Rung, Task
from .rungs import LadderCheck

MEANING: dict[str, tuple[str, str]] = {
    "failed": ("a rung has no text", "write it again, or generate shorter ladders"),
    "near-duplicate": ("two rungs have nearly the same words", "write it again, or generate shorter ladders"),
    "copied": ("a rung is copied from the context", "write it again, or take a model that follows instructions better"),
    "refusal": ("a rung is a refusal", "write it again, or take another writer"),
    "meta-text": ("a rung talks about itself or its task", "write it again, or take another writer"),
    "second-turn": ("somebody else speaks in it, too", "write it again, or take another writer"),
    "long": (
        "a rung is longer than its task allows",
        "write it again, or take a model that follows instructions better",
    ),
    "short": (
        "a rung is shorter than its task allows",
        "write it again, or take a model that follows instructions better",
    ),
    "unfinished": ("a rung does not end with a sentence", "write it again, or generate with more --max-new-tokens"),
    "length": (
        "length alone tells the rungs apart",
        "generate with another writer: a judge may be scoring length",
    ),
    "inverted": (
        "the judge finds a higher rung worse",
        "write it again, read it (references show), or take another judge",
    ),
    "level": ("the judge hardly tells two neighbours apart", "write it again, or generate shorter ladders"),
    "unanswered": ("the judge could not answer", "see the reason: synthscore doctor shows the prompt"),
    "own-judge": (
        "the judge wrote the rungs that it judges",
        "models tend to favour their own words: judge with another model",
    ),
}
"""Kind of finding -> what it means, and what to do."""

JUDGED = ("inverted", "level")
"""Kinds that a judge's comparisons of two rungs show."""

EVEN = 0.05  # margin, P(better) - P(worse), up to which a judge counts as finding two rungs equally good
_TIMES = 2.0  # Lengths are looked at where the longest rung is more than this many times as long as the shortest.
_PLAIN = ("degrade", "person")  # writers whose rungs may differ by little, end early or the like on purpose


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong, or worth knowing, about a ladder.

    levels : the rungs that it is about; empty for the ladder as a whole
    kind : one of MEANING
    evidence : what was seen, in words
    flagged : False where it is only noted
    rewrite : the rungs that, written again, might mend it
    amount : how bad it is, higher is worse; only compares findings of one kind on the same rungs
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
        name = self.kind
        if self.levels:
            name += f" {'-'.join(map(str, self.levels))}"
        return f"{name}: {self.evidence}"


def judged_findings(ladder: Ladder, check: LadderCheck) -> list[Finding]:
    """What a judge's comparisons of the rungs show. check : of this ladder"""
    findings = []
    neighbours = set(pairwise(check.levels))
    for levels, margin in check.pairs.items():
        lower, higher = levels
        rewrite = (last_written(ladder.n_rungs, levels),)
        evidence = f"margin {margin:+.2f} of rung {higher} against rung {lower}"
        if margin < -EVEN:
            findings.append(Finding(levels, "inverted", evidence, rewrite=rewrite, amount=-margin))
        elif margin <= EVEN and levels in neighbours:
            findings.append(Finding(levels, "level", evidence, flagged=False, rewrite=rewrite))
    if check.reason:
        findings.append(Finding((), "unanswered", check.reason, amount=check.n_unanswered))
    return findings


def last_written(n_rungs: int, levels: Iterable[int]) -> int:
    """The rung from which the fewest others are written; of the two extremes the worst, which can be damaged again."""
    order = [level for wave in schedule(n_rungs) for level in wave]
    inner = [level for level in levels if level not in (1, n_rungs)]
    if not inner:
        return min(levels)
    return max(inner, key=order.index)  # written last: the fewest depend on it


# ------------------------------------------------------------------------------------------------- texts alone


def text_findings(ladder: Ladder, judge: str = "", task: Task | None = None) -> list[Finding]:
    """What the texts alone show. judge : name of the model that judges, "" for none. task : None: by its name"""
    task = task or _known(ladder.task)
    findings = []
    for rung in ladder.rungs:
        if not rung.text:
            findings.append(Finding((rung.level,), "failed", rung.reason, rewrite=(rung.level,)))
    findings += _find_duplicates(ladder)
    for rung in ladder.usable:
        findings += _check_rung(ladder, rung, task)
    findings += _check_lengths(ladder)
    findings += _check_judge(ladder, judge)
    return sorted(findings, key=lambda finding: finding.levels)


def _on_purpose(*rungs: Rung) -> bool:
    """Whether what looks wrong with these rungs may be meant, as damage or a person wrote all of them."""
    return all(rung.provenance.get("writer") in _PLAIN for rung in rungs)


def _find_duplicates(ladder: Ladder) -> Iterator[Finding]:
    for worse, better in combinations(ladder.usable, 2):
        ratio = similarity(worse.text, better.text)
        if ratio <= ALIKE:
            continue
        levels = (worse.level, better.level)
        yield Finding(
            levels=levels,
            kind="near-duplicate",
            evidence=f"{100 * ratio:.0f} % of the words of rungs {worse.level} and {better.level} are the same, in the "
            "same order",
            flagged=not _on_purpose(worse, better),
            rewrite=(last_written(ladder.n_rungs, levels),),
            amount=ratio,
        )


def _check_rung(ladder: Ladder, rung: Rung, task: Task | None) -> Iterator[Finding]:
    text = rung.text.strip()
    body = bare(text, task, ladder.context)
    in_text = list(faults(body, task, ladder.context, best=rung.level == ladder.n_rungs))
    if body != text and not in_text:
        in_text.append(Fault("meta-text", "something stands around the text"))
    if not ends(text):
        in_text.append(Fault("unfinished", f"it ends: ...{text[-40:]!r}"))
    opening = text if len(text) <= 60 else f"{text[:60]}..."
    for fault in in_text:
        grave = fault.kind in ("failed", "refusal")
        evidence = fault.evidence
        if grave or fault.kind == "meta-text":
            evidence += f": {opening!r}"
        yield Finding(
            levels=(rung.level,),
            kind=fault.kind,
            evidence=evidence,
            flagged=grave or not _on_purpose(rung),
            rewrite=(rung.level,),
            amount=fault.amount,
        )


def _check_lengths(ladder: Ladder) -> Iterator[Finding]:
    lengths = [len(rung.text.split()) for rung in ladder.usable]
    if len(lengths) < 2 or max(lengths) <= _TIMES * min(lengths):
        return
    steps = list(pairwise(lengths))
    ever_longer = all(worse < better for worse, better in steps)
    ever_shorter = all(worse > better for worse, better in steps)
    if ever_longer or ever_shorter:
        evidence = f"the rungs have {', '.join(map(str, lengths))} words"
        yield Finding((), "length", evidence, amount=max(lengths) / min(lengths))


def _check_judge(ladder: Ladder, judge: str) -> Iterator[Finding]:
    if not judge:
        return
    writers = set()
    for rung in ladder.usable:
        signature = str(rung.provenance.get("model") or "")
        model = dict(Signature.of_any(signature).parts).get("model", signature)
        writers.add(_bare(model))
    if _bare(judge) in writers:
        evidence = f"{judge} is the judge, and wrote rungs of this ladder"
        yield Finding((), "own-judge", evidence, flagged=False)


def _bare(model: str) -> str:
    """Without its revision, in lower case."""
    return model.partition("@")[0].strip().lower()


@cache
def _known(task: str) -> Task | None:
    """A task of the package; None for a user's own task, whose folder is not known."""
    return load_task(task) if task in task_names() else None
