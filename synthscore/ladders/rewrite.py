"""What a check found wrong with ladders -> drafts of these ladders in which the rungs at fault are to be written again.

A draft keeps the rungs that are replaced, so that nothing is lost where no better text comes (`Draft.ladder`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import InputError
from ..io.files import read_rows
from ..signature import text_hash
from ..types import Ladder, grouped
from .references import References
from .release import Key
from .write import Draft


@dataclass(frozen=True, slots=True)
class FaultyRungs:
    """Rungs of a ladder that a check found at fault.

    ladder_hash : of the ladder as it was checked
    reasons : level -> what is wrong
    """

    ladder_hash: str
    reasons: Mapping[int, str]


def read_findings(path: str) -> dict[Key, FaultyRungs]:
    """The rungs at fault, by ladder, as `references check -o FILE` wrote them.

    raises : InputError for a row that is none of a check
    """
    faulty: dict[Key, FaultyRungs] = {}
    for row in read_rows(path):
        if isinstance(row, InputError):
            raise row
        values = row.values
        try:
            key = (values["task"], values["context_id"], values["attribute"])
            flagged = [finding for finding in values["findings"] if finding["flagged"]]
            reasons = grouped(
                (level, f"{finding['kind']}: {finding['evidence']}")
                for finding in flagged
                for level in finding["rewrite"]
            )
            joined = {level: "; ".join(lines) for level, lines in reasons.items()}
            faulty[key] = FaultyRungs(values["ladder_hash"], joined)
        except (KeyError, TypeError) as error:
            raise InputError(
                f"{path} row {row.number}: it has {', '.join(values)}, which is no row of a check: expected task, "
                "context_id, attribute, ladder_hash and findings. Write it with: synthscore references check FOLDER -o "
                "FILE.jsonl",
                source=path,
                row=row.number,
            ) from error
    return faulty


def redraft(
    drafts: Sequence[Draft],
    task: str,
    there: References,
    faulty: Mapping[Key, FaultyRungs],
    writer: str,
) -> tuple[list[Draft], list[str]]:
    """Drafts of existing ladders, in which only the rungs at fault, and the rungs that were written from them, are to
    be written.

    drafts : of new ladders. there : the ladders that there are. writer : the name of who writes now
    returns : what is to be written; and why rungs at fault stay as they are, a line each
    raises : InputError where a ladder with rungs at fault is not there, or has no such rungs
    """
    due: list[Draft] = []
    kept: list[str] = []
    for draft in drafts:
        key = (task, draft.context.id, draft.attribute.name)
        name = "/".join(key)
        ladder = None
        if key in there:
            ladder = there.find(draft.context.id, draft.attribute.name, task)
        faults = faulty.get(key)
        if faults is None or not faults.reasons:
            if ladder is None:
                due.append(draft)
            continue
        if ladder is None or not set(faults.reasons) <= {rung.level for rung in ladder.rungs}:
            named = ", ".join(map(str, faults.reasons))
            raise InputError(
                f"the findings name rungs {named} of the ladder {name}, which are not in the folder. Name the folder "
                "that was checked",
                value=name,
            )
        if ladder.hash != faults.ladder_hash:
            kept.append(f"{name}: its texts are not those that were checked. Check it again")
        elif ladder.context != draft.context:
            kept.append(f"{name}: it was written for another context of this id. Give the context that it was made for")
        else:
            levels, left = _levels(ladder, faults, writer)
            kept += left
            if levels:
                due.append(_draft_again(draft, ladder, levels, faults))
    return due, kept


def _levels(ladder: Ladder, faults: FaultyRungs, writer: str) -> tuple[set[int], list[str]]:
    """The levels to be written again; and why other levels stay: this writer must not replace another writer's
    texts."""
    levels: set[int] = set()
    left: list[str] = []
    for level in faults.reasons:
        together = _written_from(ladder, level)
        texts = (rung for rung in ladder.usable if rung.level in together)
        others = {str(rung.provenance.get("writer", "not known")) for rung in texts} - {writer}
        if others:
            left.append(
                f"{ladder.context_id}/{ladder.attribute} rung {level}: the writer of a text that would go is "
                f"{', '.join(sorted(others))!r}, not {writer!r}. Edit the text by hand, or have its own writer write it"
            )
        else:
            levels |= together
    return levels, left


def _written_from(ladder: Ladder, level: int) -> set[int]:
    """The level, and all that was written from its text, or from what was written from it."""
    levels = {level}
    while True:
        gone = {text_hash(rung.text) for rung in ladder.usable if rung.level in levels}
        more = {rung.level for rung in ladder.rungs if gone & set(rung.parents)}
        if more <= levels:
            return levels
        levels |= more


def _draft_again(draft: Draft, ladder: Ladder, levels: set[int], faults: FaultyRungs) -> Draft:
    """A draft of this ladder, in which these levels are to be written."""
    parent = "written from a rung that was written again"
    kept = {rung.level: rung for rung in ladder.rungs if rung.level not in levels}
    replaced = {rung.level: rung for rung in ladder.rungs if rung.level in levels}
    reasons = {level: faults.reasons.get(level, parent) for level in levels}
    return Draft(
        context=draft.context,
        attribute=draft.attribute,
        n_rungs=ladder.n_rungs,
        levels=sorted(levels),
        rungs=kept,
        replaced=replaced,
        reasons=reasons,
        wanted=ladder.wanted,
    )
