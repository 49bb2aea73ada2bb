"""Contexts + a writer -> Ladders. Decides which rung is written from which, and checks what comes back.

The extremes come first, then the midpoints between rungs that exist: in each round all that can be asked for now, over
all contexts and attributes, texts to be asked for again among them. No files and no cache: what a rung is made from is
hashed into its key, its seeds derive from the key, and the order of asking is fixed, so that a store of answers below
the engine resumes a killed run. A rung that cannot be written is a failed rung with a reason; it never holds a text,
and those that would be written from it are written between the nearest that exist.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from itertools import pairwise
from typing import Any, Protocol

from ..engine import Progress
from ..errors import InputError, LadderError
from ..io.fields import shorten
from ..signature import text_hash
from ..types import Attribute, Context, Ladder, Rung, Task
from .faults import Fault

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
    first : number of the first attempt; each has another seed, so that a rung can be written again.
    refused : what was wrong with the texts that were written for it so far."""

    context: Context
    attribute: Attribute
    level: int
    n_rungs: int
    worse: str = ""
    better: str = ""
    others: tuple[str, ...] = ()
    first: int = 1
    refused: tuple[Fault, ...] = ()

    @property
    def attempt(self) -> int:
        return self.first + len(self.refused)

    def again(self, fault: Fault) -> Job:
        return replace(self, refused=(*self.refused, fault))

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

    def write(self, task: Task, jobs: Sequence[Job], progress: Progress | None = None) -> Sequence[Rung | Job]:
        """One rung a job, in order, or the job as it is to be asked for again, in the next round; `progress` is given
        how many were asked for. A job that fails gives a failed rung."""
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
    open : level -> the job of a rung that is asked for again
    """

    context: Context
    attribute: Attribute
    n_rungs: int
    levels: Sequence[int]
    rungs: dict[int, Rung] = field(default_factory=dict)
    again: tuple[str, int] | None = None
    open: dict[int, Job] = field(default_factory=dict)

    @property
    def missing(self) -> list[int]:
        """Levels that have no rung yet, coarse to fine."""
        order = [step.level for wave in schedule(self.n_rungs) for step in wave]
        return [level for level in order if level in self.levels and level not in self.rungs]

    def jobs(self, writer: Writer) -> list[Job]:
        """What can be asked for now: the extremes, then the first of those missing between two neighbours that exist.
        What no rung can be between any more is a failed rung at once."""
        missing = self.missing
        if not writer.needs_parents:  # in one round; of two equal texts the one on fewer ladders, or the worse, fails
            waves = [sorted((step.level for step in wave), reverse=True) for wave in schedule(self.n_rungs)]
            return [self._job(level) for wave in waves for level in wave if level in missing]
        if extremes := [level for level in missing if level in (1, self.n_rungs)]:
            return [self._job(level) for level in extremes]
        jobs, there = [], sorted(level for level, rung in self.rungs.items() if rung.text)
        for worse, better in pairwise(there):
            if between := [level for level in missing if worse < level < better]:
                jobs.append(self._job(between[0], self.rungs[worse].text, self.rungs[better].text))
        for level in missing:
            if not there or not there[0] < level < there[-1]:
                lost = " and ".join(f"rung {end}" for end in (1, self.n_rungs) if end not in there)
                provenance = {"writer": writer.name, "context_sha256": text_hash(self.context.text)}
                reason = f"it would be written between two rungs, and {lost} failed"
                self.rungs[level] = self._job(level).failed(reason, provenance)
        return jobs

    def _job(self, level: int, worse: str = "", better: str = "") -> Job:
        others = tuple(rung.text for rung in self.rungs.values() if rung.text)
        text, attempt = self.again if self.again and level == self.levels[0] else ("", 0)
        others = (*others, text) if text else others
        if level in self.open:
            return replace(self.open[level], others=others)
        return Job(self.context, self.attribute, level, self.n_rungs, worse, better, others, attempt + 1)


def write_rungs(task: Task, drafts: Sequence[Draft], writer: Writer, progress: Progress | None = None) -> None:
    """Write what is missing of all drafts, in rounds. progress : told of each rung once, when it is first asked for."""
    while n_missing := sum(len(draft.missing) for draft in drafts):
        due = [(draft, job) for draft in drafts for job in draft.jobs(writer)]
        n_lost = n_missing - sum(len(draft.missing) for draft in drafts)
        tell = _up_to(n_lost + sum(not job.refused for _, job in due), progress)
        tell(n_lost)
        written = writer.write(task, [job for _, job in due], tell) if due else []
        for (draft, job), rung in zip(due, written, strict=True):
            if isinstance(rung, Job):
                draft.open[job.level] = rung
            else:
                draft.rungs[job.level] = rung


def _up_to(most: int, progress: Progress | None) -> Progress:
    def tell(n: int) -> None:
        nonlocal most
        n = min(n, most)
        most -= n
        if progress and n:
            progress(n)

    return tell


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
