"""References, and the names of a task and attributes -> on what texts are judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..errors import LadderError
from ..judging.tasks import load_task
from ..ladders.references import References


def find_questions(
    references: References | None, task: str | None, attributes: Sequence[str] | None
) -> dict[str, tuple[str, ...]]:
    """Task -> the attributes to judge on, in order: those of the references, as far as they are named.

    Without references, those that are named; none where rows are to say.
    raises : LadderError for a task or attribute of which the references hold no ladder, or where they hold none at all
    """
    if references is None:
        return {load_task(task).name: tuple(attributes or ())} if task else {}
    if not len(references):
        raise LadderError(f"{references.source} holds no ladders at all. Make some with `synthscore generate`")
    there = dict(references.attributes_by_task)
    if task:
        name = load_task(task).name
        if name not in there:
            raise LadderError(f"{references.source} holds no ladders of task {name!r}, but of: {', '.join(there)}")
        there = {name: there[name]}
    for name in attributes or ():
        if not any(name in known for known in there.values()):
            others = ", ".join(dict.fromkeys(other for known in there.values() for other in known))
            raise LadderError(
                f"{references.source} holds no ladders for attribute {name!r}, but for: {others}. Name one of them, or "
                f"make the ladders with `synthscore generate ... --attribute {name}`",
                attribute=name,
            )
    chosen = {task: tuple(name for name in attributes or known if name in known) for task, known in there.items()}
    return {task: names for task, names in chosen.items() if names}


def ladder_lengths(references: References | None, questions: Mapping[str, Sequence[str]]) -> list[int]:
    """How many rungs the ladders of these tasks and attributes have: each number once, rising."""
    if references is None:
        return []
    lengths = {
        length
        for task, attributes in questions.items()
        for attribute in attributes
        for length in references.filter(task=task, attribute=attribute).lengths
    }
    return sorted(lengths)
