"""Ladders with findings -> ladders with fewer: rungs at fault are written again, by their own writer.

A new text is taken only if what was wrong with the old one is gone and nothing else of the ladder has become worse.
What was replaced, and what was written and not taken, stays in the rung's provenance under "history". Knows nothing of
files: `save` is given the ladders that have changed after each round, so that a killed repair goes on where it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import LadderError
from ..ladders.release import key_of
from ..ladders.write import Draft, Step, Writer, now, schedule, write_rungs
from ..signature import text_hash
from ..types import Ladder, Rung, Task
from .findings import Finding, flagged

Check = Callable[[Sequence[Ladder]], Sequence[Sequence[Finding]]]
"""What is wrong with each ladder."""

WriterOf = Callable[[Ladder, Rung], "Writer | str"]
"""Who wrote this rung and can write it again, or why nobody can."""


@dataclass(frozen=True, slots=True)
class Repair:
    """One attempt to write a rung again.

    also : levels of the rungs that are written from it, which were written again with it
    why : what was wrong. refused : why the new text was not taken; "" where it was
    """

    task: str
    context_id: str
    attribute: str
    level: int
    also: tuple[int, ...]
    why: str
    refused: str = ""


def mend(
    ladders: Sequence[Ladder],
    task: Task,
    check: Check,
    writer_of: WriterOf,
    *,
    attempts: int = 3,
    save: Callable[[Sequence[Ladder]], object] | None = None,
) -> tuple[list[Ladder], list[Repair]]:
    """The ladders, in their order, with what could be mended, and what was tried.

    ladders : of the task, each with its context; one that does not carry it is left as it is
    attempts : how often a rung is written again, at most; what earlier calls have tried is not tried again
    raises : whatever check, writers and save raise; what was saved before stays
    """
    cases = [_Case(ladder, flagged(findings)) for ladder, findings in zip(ladders, check(ladders), strict=True)]
    done: list[Repair] = []
    while trials := [trial for case in cases if (trial := _next(case, task, writer_of, attempts, done))]:
        for writer in {id(trial.writer): trial.writer for trial in trials}.values():
            write_rungs(task, [trial.draft for trial in trials if trial.writer is writer], writer)
        written = [trial.written() for trial in trials]
        found = iter(check([ladder for ladder in written if isinstance(ladder, Ladder)]))
        for trial, ladder in zip(trials, written, strict=True):
            done.append(trial.settle(ladder, flagged(next(found)) if isinstance(ladder, Ladder) else ()))
        if save:
            save([trial.case.ladder for trial in trials])
    return [case.ladder for case in cases], done


@dataclass(slots=True)
class _Case:
    """A ladder as it is now, and how often each of its rungs was written again."""

    ladder: Ladder
    findings: Sequence[Finding]
    tried: Counter[int] = field(default_factory=Counter)

    @property
    def steps(self) -> list[Step]:
        return [step for wave in schedule(self.ladder.n_rungs) for step in wave]

    def why(self, level: int) -> list[Finding]:
        return [finding for finding in self.findings if level in finding.rewrite]

    def repair(self, levels: Sequence[int], refused: str) -> Repair:
        """What was tried for the first of the levels, which were written again together."""
        why = "; ".join(map(str, self.why(levels[0])))
        return Repair(*key_of(self.ladder), levels[0], tuple(levels[1:]), why, refused)


@dataclass(slots=True)
class _Trial:
    """A rung of a ladder, and what is written from it, written again; draft.levels are in the order of writing."""

    case: _Case
    writer: Writer
    draft: Draft

    def written(self) -> Ladder | str:
        """The ladder with its new rungs; or why it is not to be taken, whatever a judge says."""
        old = self.case.ladder
        new = [self.draft.rungs[level] for level in self.draft.levels]
        for rung in new:
            if not rung.text and (rung is new[0] or old.rungs[rung.level - 1].text):
                return f"rung {rung.level} failed: {rung.reason}"
        try:
            return _with(old, new)
        except LadderError as error:  # a writer that gives a text twice
            return str(error)

    def settle(self, written: Ladder | str, findings: Sequence[Finding]) -> Repair:
        """Take the new rungs, or refuse them; either way the history says so. findings : of what was written"""
        case, levels, old = self.case, self.draft.levels, self.case.ladder
        worse = _worse(case.findings, case.why(levels[0]), findings)
        done = case.repair(levels, written if isinstance(written, str) else worse)
        case.tried[levels[0]] += 1
        if done.refused:
            rung = old.rungs[levels[0] - 1]
            entry = _entry(self.draft.rungs[levels[0]], "not taken", f"{done.why}; not taken: {done.refused}")
            case.ladder = _with(old, [_remembering(rung, rung, entry)])
            return done
        taken = []
        for level in levels:
            rung = old.rungs[level - 1]
            why = done.why if level == levels[0] else f"written from rung {levels[0]}, which was written again"
            taken.append(_remembering(self.draft.rungs[level], rung, _entry(rung, "replaced", why)))
        case.ladder, case.findings = _with(old, taken), findings
        return done


def _next(case: _Case, task: Task, writer_of: WriterOf, attempts: int, done: list[Repair]) -> _Trial | None:
    """The rung at fault that comes first in the order of writing, while there are attempts left."""
    for step in case.steps:
        if case.why(step.level) and case.tried[step.level] < attempts:
            trial = _trial(case, task, step, writer_of)
            if isinstance(trial, _Trial):
                return trial
            case.tried[step.level] = attempts  # there is no use in trying
            done.append(case.repair([step.level], trial))
    return None


def _trial(case: _Case, task: Task, step: Step, writer_of: WriterOf) -> _Trial | str:
    """Or why the rung cannot be written again."""
    ladder, rung = case.ladder, case.ladder.rungs[step.level - 1]
    if ladder.context is None:
        return "the ladder does not carry its context's text"
    if rung.provenance.get("temperature") == 0:
        return "it was decoded greedily (temperature 0) and would come out the same: generate with a temperature"
    writer = writer_of(ladder, rung)
    if isinstance(writer, str):
        return writer
    levels = [step.level]
    for other in case.steps if writer.needs_parents else ():
        child = ladder.rungs[other.level - 1]
        gone = [ladder.rungs[level - 1] for level in levels]
        meant = any(each.level in other.parents and (each.text or not child.text) for each in gone)
        if meant or any(text_hash(each.text) in child.parents for each in gone):
            levels.append(other.level)
    for level in levels[1:]:  # what is written from it goes with it, and must not be lost
        name = ladder.rungs[level - 1].provenance.get("writer")
        if ladder.rungs[level - 1].status == "ok" and name != rung.provenance.get("writer"):
            return (
                f"rung {level} would be written again with it, and its writer is {str(name or 'not known')!r}: "
                "edit the text by hand"
            )
    rungs = {rung.level: rung for rung in ladder.rungs if rung.level not in levels}
    there = [other for other, rung in rungs.items() if rung.text]
    if writer.needs_parents and step.parents and not (there and min(there) < step.level < max(there)):
        return "a rung that it would be written from failed"
    attempt = max(int(each.get("attempt") or 1) for each in (rung.provenance, *_history(rung)))
    attribute = task.attribute(ladder.attribute)
    draft = Draft(ladder.context, attribute, ladder.n_rungs, levels, rungs, again=(rung.text, attempt))
    return _Trial(case, writer, draft)


def _worse(old: Sequence[Finding], why: Sequence[Finding], new: Sequence[Finding]) -> str:
    """Why the new ladder is not to be taken: a finding that should be gone, or that was not there, or not as bad."""
    should_go = {(finding.kind, finding.levels) for finding in why}
    before = {(finding.kind, finding.levels): finding.amount for finding in old}
    for finding in new:
        key = (finding.kind, finding.levels)
        if key in should_go:
            return f"still {finding}"
        if key not in before or finding.amount > before[key] + 1e-9:
            return f"{'worse' if key in before else 'new'}: {finding}"
    return ""


def _with(ladder: Ladder, rungs: Iterable[Rung]) -> Ladder:
    """The ladder with these rungs in the places of its own."""
    new = {rung.level: rung for rung in rungs}
    return replace(ladder, rungs=tuple(new.get(rung.level, rung) for rung in ladder.rungs))


def _history(rung: Rung) -> list[dict[str, Any]]:
    return list(rung.provenance.get("history") or ())


def _remembering(rung: Rung, before: Rung, entry: dict[str, Any]) -> Rung:
    """The rung with the history of the one before, and an entry more."""
    return replace(rung, provenance={**rung.provenance, "history": [*_history(before), entry]})


def _entry(rung: Rung, what: str, why: str) -> dict[str, Any]:
    """A text that is not in the ladder (any more), with all that it takes to make it again."""
    provenance = {key: value for key, value in rung.provenance.items() if key != "history"}
    return {
        "what": what,
        "why": why,
        "at": now(),
        "text": rung.text,
        "reason": rung.reason,
        "attempt": int(provenance.get("attempt") or 1),
        "provenance": provenance,
    }
