"""Contexts + a writer -> Ladders. Decides which rung is written from which, and checks what comes back.

The extremes come first, then the midpoints between rungs that exist. Each round asks for everything that can be written
now, over all contexts and attributes, including texts that are asked for again. There are no files and no cache: the
key of a rung is a hash of what it is made from, its seeds derive from the key, and the order of asking is fixed, so
that a store of answers below the engine resumes a killed run. A rung that cannot be written is a failed rung with a
reason and no text; rungs that would be written from it are written between the nearest rungs that exist.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Literal, Protocol, runtime_checkable

from ..engine import Progress
from ..errors import InputError, LadderError, Postponed, Unasked
from ..io.fields import shorten
from ..signature import text_hash
from ..types import Attribute, Context, Ladder, Rung, Task
from .faults import Fault

# ------------------------------------------------------------------------------------------------- the schedule


def schedule(n_rungs: int) -> list[list[int]]:
    """The order in which rungs are written: the extremes 1 and N, from the context alone, then waves of midpoints. Each
    midpoint lies between its parents, the two nearest levels of the waves before it.

        level = floor((worse + better) / 2)

    returns : ceil(log2(N - 1)) + 1 waves of levels. A wave can be asked at once. For N = 2^m + 1 every midpoint is
        exact and the ladders are nested. For other N a rung may be asked for as the middle of a gap that its level does
        not halve (N = 4: rung 2 between 1 and 4).
    raises : LadderError for fewer than two rungs.
    source : arXiv:2509.05440. Its neighbours i-1 and i+1 are circular if read literally; halving is what works.
    """
    if n_rungs < 2:
        raise LadderError(f"cannot make a ladder of {n_rungs} rungs: expected at least 2, the worst and the best")
    waves = [[1, n_rungs]]
    there = [1, n_rungs]
    while middles := [(worse + better) // 2 for worse, better in pairwise(there) if better - worse > 1]:
        waves.append(middles)
        there = sorted(there + middles)
    return waves


# ------------------------------------------------------------------------------------------------- ladders

MOST_RUNGS = 5
"""Of a ladder whose number of rungs is left to its writer."""


@dataclass(frozen=True, slots=True)
class Job:
    """One rung to write.

    worse, better : texts of its parents, "" for an extreme or a writer that needs none
    others : the texts that the ladder has so far; the new one must differ from them
    first : number of the first attempt; each has another seed, so that a rung can be written again
    refused : what was wrong with the texts that were written for it so far
    """

    context: Context
    attribute: Attribute
    level: int
    n_rungs: int
    worse: str
    better: str
    others: tuple[str, ...]
    first: int
    refused: tuple[Fault, ...]

    @property
    def attempt(self) -> int:
        return self.first + len(self.refused)

    @property
    def fraction(self) -> float:
        return (self.level - 1) / (self.n_rungs - 1)

    @property
    def parents(self) -> tuple[str, ...]:
        """Hashes of the parents' texts, worse first."""
        if not (self.worse and self.better):
            return ()
        return text_hash(self.worse), text_hash(self.better)

    def written(self, text: str, provenance: Mapping[str, Any]) -> Rung:
        return Rung(self.level, self.fraction, text, parents=self.parents, provenance=provenance)

    def failed(self, reason: str, provenance: Mapping[str, Any]) -> Rung:
        return Rung(
            level=self.level,
            fraction=self.fraction,
            text="",
            status="failed",
            reason=reason,
            parents=self.parents,
            provenance=provenance,
        )


class Writer(Protocol):
    """Writes rungs.

    name : in provenance
    needs_parents : whether a rung between two others is made from their texts; if not, all jobs of a run come in one
        call, coarser levels first, and in each wave the better rungs first
    """

    name: str
    needs_parents: bool

    def write(
        self, task: Task, jobs: Sequence[Job], progress: Progress | None = None
    ) -> Sequence[Rung | Fault | Postponed]:
        """For each job, in order, a rung; or what is wrong with its text, which is then asked for again in the next
        round; or that its text will come later. `progress` is called with the number of jobs asked for. A job that
        fails gives a failed rung."""
        ...


@runtime_checkable
class PlanningWriter(Writer, Protocol):
    """A writer that knows before it writes how many rungs of a ladder will come out different."""

    def most_rungs(self, task: Task, jobs: Sequence[Job]) -> Sequence[int]:
        """How many rungs, up to n_rungs, the ladder of each job can have; n_rungs where none can be written.

        jobs : one for each ladder, of which nothing is written yet
        """
        ...


def generate_ladders(
    contexts: Sequence[Context],
    task: Task,
    attributes: Sequence[str],
    writer: Writer,
    *,
    n_rungs: int | Literal["auto"] = "auto",
    progress: Progress | None = None,
) -> list[Ladder]:
    """One ladder for each context and attribute: contexts outer, attributes inner, in the order given.

    A context or attribute that is given twice gets one ladder.
    n_rungs : "auto": MOST_RUNGS, or as many as the writer can make, with scores on 1..MOST_RUNGS all the same
    progress : given the number of rungs of each ladder
    raises : InputError for two different contexts of one id, or no attribute; TaskError for an attribute that the task
        does not have; LadderError for n_rungs < 2; whatever the engine raises for a whole call. A single rung that
        cannot be written raises nothing: it is a failed rung with a reason, and so are the rungs that need it.
    """
    drafts = draft_ladders(contexts, task, attributes, MOST_RUNGS if n_rungs == "auto" else n_rungs)
    if n_rungs == "auto":
        fit_rungs(task, drafts, writer)
    write_rungs(task, drafts, writer, progress)
    return [draft.ladder(task) for draft in drafts]


def draft_ladders(
    contexts: Sequence[Context], task: Task, attributes: Sequence[str], n_rungs: int = MOST_RUNGS
) -> list[Draft]:
    """The ladders of `generate_ladders`, in their order, with nothing written. raises : as it does, but the engine"""
    schedule(n_rungs)  # raises
    names = [attributes] if isinstance(attributes, str) else attributes
    chosen = [task.attribute(name) for name in dict.fromkeys(names)]
    if not chosen:
        raise InputError(f"no attribute to write ladders for. Task {task.name!r} has: {', '.join(task.attributes)}")
    levels = range(1, n_rungs + 1)
    return [Draft(context, attribute, n_rungs, levels) for context in _unique(contexts) for attribute in chosen]


def fit_rungs(task: Task, drafts: Sequence[Draft], writer: Writer) -> None:
    """Give new ladders fewer rungs where their writer knows that it cannot make all."""
    if not isinstance(writer, PlanningWriter):
        return
    new = [draft for draft in drafts if not draft.rungs and not draft.replaced]
    for draft, n_rungs in zip(new, writer.most_rungs(task, [draft.job(1) for draft in new]), strict=True):
        if n_rungs < draft.n_rungs:
            draft.wanted = draft.n_rungs
            draft.n_rungs = n_rungs
            draft.levels = range(1, n_rungs + 1)


@dataclass(slots=True)
class Draft:
    """A ladder of which some rungs are to be written.

    wanted : as of Ladder
    levels : of these rungs. rungs : level -> rung, of those that are there; `write_rungs` adds the others
    replaced : level -> the rung that was there, where it is written again; new texts are unlike all of these
    reasons : level -> why it is written again
    refused : level -> what was wrong with the texts that were written for it so far
    """

    context: Context
    attribute: Attribute
    n_rungs: int
    levels: Sequence[int]
    rungs: dict[int, Rung] = field(default_factory=dict)
    replaced: Mapping[int, Rung] = field(default_factory=dict)
    reasons: Mapping[int, str] = field(default_factory=dict)
    refused: dict[int, tuple[Fault, ...]] = field(default_factory=dict)
    wanted: int | None = None

    @property
    def missing(self) -> list[int]:
        """Levels that have no rung yet, coarse to fine."""
        waves = schedule(self.n_rungs)
        return [level for wave in waves for level in wave if level in self.levels and level not in self.rungs]

    def jobs(self, writer: Writer) -> list[Job]:
        """The rungs that can be asked for now: the extremes, then the first missing one between each two neighbours
        that exist. A rung that can no longer have two neighbours fails at once."""
        missing = self.missing
        if not writer.needs_parents:  # in one round; of two equal texts the one on fewer ladders, or the worse, fails
            waves = schedule(self.n_rungs)
            return [self.job(level) for wave in waves for level in sorted(wave, reverse=True) if level in missing]
        if extremes := [level for level in missing if level in (1, self.n_rungs)]:
            return [self.job(level) for level in extremes]
        jobs = []
        there = sorted(level for level, rung in self.rungs.items() if rung.text)
        for worse, better in pairwise(there):
            if between := [level for level in missing if worse < level < better]:
                texts = (self.rungs[worse].text, self.rungs[better].text)
                jobs.append(self.job(between[0], *texts))
        for level in missing:
            if not there or not there[0] < level < there[-1]:
                lost = " and ".join(f"rung {end}" for end in (1, self.n_rungs) if end not in there)
                provenance = {"writer": writer.name, "context_sha256": text_hash(self.context.text)}
                reason = f"it would be written between two rungs, and {lost} failed"
                self.rungs[level] = self.job(level).failed(reason, provenance)
        return jobs

    def job(self, level: int, worse: str = "", better: str = "") -> Job:
        """To write this rung. worse, better : texts of its parents"""
        others = [rung.text for rung in (*self.rungs.values(), *self.replaced.values()) if rung.text]
        n_before = 0
        if level in self.replaced:
            n_before = _last_attempt(self.replaced[level])
        return Job(
            context=self.context,
            attribute=self.attribute,
            level=level,
            n_rungs=self.n_rungs,
            worse=worse,
            better=better,
            others=tuple(others),
            first=n_before + 1,
            refused=self.refused.get(level, ()),
        )

    @property
    def lost(self) -> str:
        """Why a ladder that is written again stays as it was: no text came for a rung that had one.
        "" where it changes."""
        for level, before in self.replaced.items():
            if before.text and not self.rungs[level].text:
                return f"rung {level} could not be written again: {self.rungs[level].reason}"
        return ""

    def ladder(self, task: Task) -> Ladder:
        """The ladder, once all is written. A ladder that is written again takes all its new rungs, or none of them
        where a text would be lost. The history of a rung keeps the texts that it replaced, and those that were written
        and not taken."""
        rungs = dict(self.rungs)
        for level, before in self.replaced.items():
            new = rungs[level]
            if self.lost:
                why = f"{self.reasons[level]}; not taken: {self.lost}"
                rungs[level] = _remembering(before, before, _entry(new, "not taken", why))
            else:
                rungs[level] = _remembering(new, before, _entry(before, "replaced", self.reasons[level]))
        return Ladder(
            context_id=self.context.id,
            task=task.name,
            attribute=self.attribute.name,
            rungs=tuple(rungs[level] for level in range(1, self.n_rungs + 1)),
            context=self.context,
            wanted=self.wanted,
        )


def _history(rung: Rung) -> list[dict[str, Any]]:
    return list(rung.provenance.get("history") or ())


def _last_attempt(rung: Rung) -> int:
    """Number of the last attempt to write it, taken or not."""
    tried = [rung.provenance, *(entry["provenance"] for entry in _history(rung))]
    return max(int(provenance.get("attempt") or 1) for provenance in tried)


def _remembering(rung: Rung, before: Rung, entry: dict[str, Any]) -> Rung:
    """The rung with the history of the rung before it, and a further entry."""
    return replace(rung, provenance={**rung.provenance, "history": [*_history(before), entry]})


def _entry(rung: Rung, what: str, why: str) -> dict[str, Any]:
    """A text that is no longer, or never was, in the ladder, with all that is needed to make it again."""
    provenance = {key: value for key, value in rung.provenance.items() if key != "history"}
    return {"what": what, "why": why, "text": rung.text, "reason": rung.reason, "provenance": provenance}


def write_rungs(task: Task, drafts: Sequence[Draft], writer: Writer, progress: Progress | None = None) -> None:
    """Write the missing rungs of all drafts, in rounds. progress : called once for each rung, when it is first asked
    for.

    A draft waits where one of its texts will come later, together with its other texts of that round, because each text
    must differ from those before it. The other drafts are finished.
    raises : Unasked, where drafts wait
    """
    going = list(drafts)
    while n_missing := sum(len(draft.missing) for draft in going):
        due = [(draft, job) for draft in going for job in draft.jobs(writer)]
        n_lost = n_missing - sum(len(draft.missing) for draft in going)
        n_first = sum(not job.refused for _, job in due)
        tell = _up_to(n_lost + n_first, progress)
        tell(n_lost)
        written: Sequence[Rung | Fault | Postponed] = []
        if due:
            written = writer.write(task, [job for _, job in due], tell)
        waiting = set()
        for (draft, _), rung in zip(due, written, strict=True):
            if isinstance(rung, Postponed):
                waiting.add(id(draft))
        going = [draft for draft in going if id(draft) not in waiting]
        for (draft, job), rung in zip(due, written, strict=True):
            if id(draft) in waiting or isinstance(rung, Postponed):
                continue
            if isinstance(rung, Fault):
                draft.refused[job.level] = (*job.refused, rung)
            else:
                draft.rungs[job.level] = rung
    if n_waiting := len(drafts) - len(going):
        raise Unasked(f"{n_waiting} of {len(drafts)} ladders wait for texts. Have them written, and run again")


def _up_to(most: int, progress: Progress | None) -> Progress:
    """Progress that passes on no more than this in total."""

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
    """Hex sha256 of the named parts, as JSON, in which different sets of parts are never the same text."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def subject(task: Task, job: Job) -> dict[str, object]:
    """The parts of a rung's key that do not depend on its writer."""
    context = job.context
    attribute = job.attribute
    phrases = [attribute.name, attribute.description, attribute.more, attribute.better, attribute.worse]
    nouns = [task.name, task.context_noun, task.text_noun, task.texts_noun, task.facts_noun, task.length]
    return {
        "context": [context.id, context.text, context.facts],
        "attribute": phrases,
        "task": nouns,
    }


def derive_seed(key: str, attempt: int) -> int:
    """31 bits, the most that every engine and server takes as a seed."""
    digest = hashlib.sha256(f"{key}:{attempt}".encode())
    return int(digest.hexdigest()[:8], 16) >> 1
