"""Contexts + a writer -> Ladders. Decides which rung is written from which, and checks what comes back.

The extremes come first, then the midpoints between rungs that exist, all contexts and attributes level by level. No
files and no cache: what a rung is made from is hashed into its key, its seeds derive from the key, and the order of
asking is fixed, so that a store of answers below the engine resumes a killed run. A rung that cannot be written is a
failed rung with a reason; it never holds a text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import zip_longest
from typing import Any, Protocol

from ..engine import Progress
from ..errors import InputError, LadderError
from ..io.fields import shorten
from ..signature import text_hash
from ..types import Attribute, Context, Ladder, Rung, Task

# ------------------------------------------------------------------------------------------------- the schedule


@dataclass(frozen=True, slots=True)
class Step:
    """Write rung `level`; an extreme from the context alone, any other between its parents: a worse rung, a better."""

    level: int
    parents: tuple[int, ...] = ()


def schedule(n_rungs: int) -> tuple[tuple[Step, ...], ...]:
    """Which rung is written from which: the extremes 1 and N, then breadth-first midpoints, in waves.

        level = floor((worse + better) / 2)

    returns : ceil(log2(N - 1)) + 1 waves. The parents of a step are in earlier waves, so a wave can be asked at once.
        For N = 2^m + 1 every midpoint is exact and the ladders are nested. For other N a rung may be asked for as the
        middle of a gap that its level does not halve (N = 4: rung 2 between 1 and 4).
    raises : LadderError for fewer than two rungs.
    source : arXiv:2509.05440. Its neighbours i-1 and i+1 are circular if read literally; halving is what works.
    """
    if n_rungs < 2:
        raise LadderError(f"cannot make a ladder of {n_rungs} rungs: expected at least 2, the worst and the best")
    waves: list[tuple[Step, ...]] = [(Step(1), Step(n_rungs))]
    gaps = [(1, n_rungs)]
    while True:
        gaps = [(worse, better) for worse, better in gaps if better - worse >= 2]
        if not gaps:
            return tuple(waves)
        waves.append(tuple(Step((worse + better) // 2, (worse, better)) for worse, better in gaps))
        gaps = [half for a, b in gaps for half in ((a, (a + b) // 2), ((a + b) // 2, b))]


# ------------------------------------------------------------------------------------------------- ladders


@dataclass(frozen=True, slots=True)
class Job:
    """One rung to write. worse, better : texts of its parents, "" for an extreme or a writer that needs none.
    others : the texts that the ladder has so far; the new one must differ from them.
    attempt : number of the first attempt; each has another seed, so that a rung can be written again."""

    context: Context
    attribute: Attribute
    level: int
    n_rungs: int
    worse: str = ""
    better: str = ""
    others: tuple[str, ...] = ()
    attempt: int = 1

    @property
    def fraction(self) -> float:
        return (self.level - 1) / (self.n_rungs - 1)

    @property
    def parents(self) -> tuple[str, ...]:
        """Hashes of the parents' texts, worse first."""
        return (text_hash(self.worse), text_hash(self.better)) if self.worse and self.better else ()

    def written(self, text: str, provenance: Mapping[str, Any]) -> Rung:
        return Rung(self.level, self.fraction, text, parents=self.parents, provenance=provenance)

    def failed(self, reason: str, provenance: Mapping[str, Any]) -> Rung:
        return Rung(self.level, self.fraction, "", "failed", reason, self.parents, provenance)


class Writer(Protocol):
    """Writes rungs. name : its word in provenance. needs_parents : whether a rung between is made from its parents; if
    not, all jobs of a run come in one call, coarser levels first and of one wave the better first."""

    name: str
    needs_parents: bool

    def write(self, task: Task, jobs: Sequence[Job], progress: Progress | None = None) -> list[Rung]:
        """One rung a job, in order; `progress` is given how many were written. A job that fails gives a failed rung."""
        ...


def generate_ladders(
    contexts: Sequence[Context],
    task: Task,
    attributes: Sequence[str],
    writer: Writer,
    *,
    n_rungs: int = 5,
    progress: Progress | None = None,
) -> list[Ladder]:
    """One ladder for each context and attribute: contexts outer, attributes inner, in the order given.

    A context or attribute that is given twice gets one ladder. progress : given n_rungs rungs for each ladder.
    raises : InputError for two different contexts of one id, or no attribute; TaskError for an attribute that the task
        does not have; LadderError for n_rungs < 2; whatever the engine raises for a whole call. A single rung that
        cannot be written raises nothing: it is a failed rung with a reason, and so are the rungs that need it.
    """
    schedule(n_rungs)  # raises
    names = [attributes] if isinstance(attributes, str) else attributes
    chosen = [task.attribute(name) for name in dict.fromkeys(names)]
    if not chosen:
        raise InputError(f"no attribute to write ladders for. Task {task.name!r} has: {', '.join(task.attributes)}")
    levels = range(1, n_rungs + 1)
    drafts = [Draft(context, attribute, n_rungs, levels) for context in _unique(contexts) for attribute in chosen]
    write_rungs(task, drafts, writer, progress)
    return [
        Ladder(
            context_id=draft.context.id,
            task=task.name,
            attribute=draft.attribute.name,
            rungs=tuple(draft.rungs[level] for level in levels),
            context=draft.context,
        )
        for draft in drafts
    ]


@dataclass(slots=True)
class Draft:
    """A ladder of which some rungs are to be written.

    levels : of these rungs. rungs : level -> rung, of those that are there; `write_rungs` adds the others
    again : the text and the attempt that the first of the levels is to be unlike, where it is written again
    """

    context: Context
    attribute: Attribute
    n_rungs: int
    levels: Sequence[int]
    rungs: dict[int, Rung] = field(default_factory=dict)
    again: tuple[str, int] | None = None

    def jobs(self, steps: Sequence[Step], writer: Writer) -> list[Job]:
        """Those of the steps that are to be written; one whose parents failed is a failed rung at once."""
        jobs = []
        others = tuple(rung.text for rung in self.rungs.values() if rung.text)
        for step in steps:
            if step.level not in self.levels:
                continue
            job = Job(self.context, self.attribute, step.level, self.n_rungs, others=others)
            if self.again and step.level == self.levels[0]:
                text, attempt = self.again
                job = replace(job, others=(*others, text) if text else others, attempt=attempt + 1)
            parents = [self.rungs[level] for level in step.parents] if writer.needs_parents else []
            if failed := " and ".join(f"rung {parent.level}" for parent in parents if parent.status == "failed"):
                provenance = {"writer": writer.name, "context_sha256": text_hash(self.context.text)}
                self.rungs[step.level] = job.failed(f"it is written from {failed}, which failed", provenance)
            else:
                jobs.append(replace(job, worse=parents[0].text, better=parents[1].text) if parents else job)
        return jobs


def write_rungs(task: Task, drafts: Sequence[Draft], writer: Writer, progress: Progress | None = None) -> None:
    """Write what is missing of all drafts, wave by wave."""
    for wave in zip_longest(*(_waves(draft.n_rungs, writer) for draft in drafts), fillvalue=()):
        steps = list(zip(drafts, wave, strict=True))
        due = [(draft, job) for draft, own in steps for job in draft.jobs(own, writer)]
        n_orphans = sum(step.level in draft.levels for draft, own in steps for step in own) - len(due)
        if progress and n_orphans:
            progress(n_orphans)
        written = writer.write(task, [job for _, job in due], progress) if due else []
        for (draft, job), rung in zip(due, written, strict=True):
            draft.rungs[job.level] = rung


def _waves(n_rungs: int, writer: Writer) -> tuple[tuple[Step, ...], ...]:
    waves = schedule(n_rungs)
    if writer.needs_parents:
        return waves
    # One wave, still coarse to fine: of two equal texts the one on fewer ladders fails.
    return (tuple(step for wave in waves for step in sorted(wave, key=lambda step: -step.level)),)


def _unique(contexts: Sequence[Context]) -> list[Context]:
    unique: dict[str, Context] = {}
    for context in contexts:
        if unique.setdefault(context.id, context) != context:
            raise InputError(
                f"two different contexts (or their facts or references) have the id {context.id!r}: "
                f"{shorten(unique[context.id].text)} and {shorten(context.text)}. Give each its own id",
                field="id",
                value=context.id,
            )
    return list(unique.values())


# ------------------------------------------------------------------------------------------------- keys and seeds


def hash_parts(parts: Mapping[str, object]) -> str:
    """Hex sha256 of the parts by name; JSON keeps them apart, so that no two different sets of parts look alike."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def subject(task: Task, job: Job) -> dict[str, object]:
    """What a rung is about: the parts of its key that do not depend on the writer."""
    context, attribute = job.context, job.attribute
    return {
        "context": [context.id, context.text, context.facts],
        "attribute": [attribute.name, attribute.description, attribute.more, attribute.better, attribute.worse],
        "task": [task.name, task.context_noun, task.text_noun, task.texts_noun, task.facts_noun, task.length],
    }


def derive_seed(key: str, attempt: int) -> int:
    """31 bits, the most that every engine and server takes as a seed."""
    return int(hashlib.sha256(f"{key}:{attempt}".encode()).hexdigest()[:8], 16) >> 1


def now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
