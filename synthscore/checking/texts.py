"""Ladders -> what is wrong with them by their texts alone: no judge, no files."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import combinations, pairwise

from ..judging.tasks import load_task, task_names
from ..ladders.faults import ALIKE, Fault, alike, bare, ends, faults
from ..signature import Signature
from ..types import Ladder, Rung, Task
from .findings import Finding, last_written

_TIMES = 2.0  # longest rung / shortest
_PLAIN = ("degrade", "person")  # writers whose rungs differ by little, or end early, on purpose


def text_findings(ladder: Ladder, judge: str = "", task: Task | None = None) -> list[Finding]:
    """What the texts alone show. judge : name of the model that judges, "" for none. task : None: by its name"""
    task = task or _known(ladder.task)
    found = [
        *(Finding((r.level,), "failed", r.reason, rewrite=(r.level,)) for r in ladder.rungs if not r.text),
        *_alike(ladder),
        *(found for rung in ladder.usable for found in _of_rung(ladder, rung, task)),
        *_lengths(ladder),
        *_own_judge(ladder, judge),
    ]
    return sorted(found, key=lambda each: each.levels)


def _on_purpose(*rungs: Rung) -> bool:
    return all(rung.provenance.get("writer") in _PLAIN for rung in rungs)


def _alike(ladder: Ladder) -> Iterator[Finding]:
    for a, b in combinations(ladder.usable, 2):
        if (ratio := alike(a.text, b.text)) > ALIKE:
            levels = (a.level, b.level)
            seen = f"{100 * ratio:.0f} % of the words of rungs {a.level} and {b.level} are the same, in the same order"
            yield Finding(
                levels, "near-duplicate", seen, flagged=not _on_purpose(a, b), amount=ratio,
                rewrite=(last_written(ladder.n_rungs, levels),),
            )  # fmt: skip


def _of_rung(ladder: Ladder, rung: Rung, task: Task | None) -> Iterator[Finding]:
    text = rung.text.strip()
    body = bare(text, task, ladder.context)
    found = list(faults(body, task, ladder.context, best=rung.level == ladder.n_rungs))
    if body != text and not found:
        found.append(Fault("meta-text", "something stands around the text"))
    if not ends(text):
        found.append(Fault("unfinished", f"it ends: ...{text[-40:]!r}"))
    for fault in found:
        grave = fault.kind in ("failed", "refusal")
        seen = f"{fault.evidence}: {_opening(text)}" if grave or fault.kind == "meta-text" else fault.evidence
        flagged = grave or not _on_purpose(rung)
        yield Finding((rung.level,), fault.kind, seen, flagged, (rung.level,), fault.amount)


def _lengths(ladder: Ladder) -> Iterator[Finding]:
    lengths = [len(rung.text.split()) for rung in ladder.usable]
    if len(lengths) < 2 or max(lengths) <= _TIMES * min(lengths):
        return
    ways = {(b > a) - (b < a) for a, b in pairwise(lengths)}
    if len(ways) == 1:
        seen = f"the rungs have {', '.join(map(str, lengths))} words"
        yield Finding((), "length", seen, amount=max(lengths) / min(lengths))


def _own_judge(ladder: Ladder, judge: str) -> Iterator[Finding]:
    writers = (str(rung.provenance.get("model") or "") for rung in ladder.usable)
    if judge and _bare(judge) in {_bare(dict(Signature.of_any(name).parts).get("model", name)) for name in writers}:
        seen = f"{judge} is the judge, and wrote rungs of this ladder"
        yield Finding((), "own-judge", seen, flagged=False)


def _bare(model: str) -> str:
    """Without its revision, in lower case."""
    return model.partition("@")[0].strip().lower()


@cache
def _known(task: str) -> Task | None:
    """None for a task of one's own, whose folder is not at hand."""
    return load_task(task) if task in task_names() else None


def _opening(text: str) -> str:
    return repr(text[:60] + ("..." if len(text) > 60 else ""))
