"""A method is anything that gives each text a number: a judge in some protocol, a metric, a count of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from ...engine import Engine
from ...errors import SynthscoreError
from ...io.scores import Scores
from ...judging.tasks import load_task
from ...ladders.references import References
from ...signature import Signature
from ...types import Attribute, Score, Task
from ..ratings.types import Ratings


class MethodError(SynthscoreError):
    """A method that is not known, or that lacks something: a judge, ladders, references by people, a package."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What methods may ask for.

    judge : the model that is asked, behind its store. references : ladders. templates : a set, or a folder
    """

    judge: Engine | None = None
    references: References | None = None
    templates: str = "default"


class Method(Protocol):
    """Scores of all texts on one attribute, in the order of ratings.texts; higher is better.

    A text that cannot be scored is unscored, with the reason; it is never left out.
    raises : MethodError where nothing can be scored at all
    """

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores: ...


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of method, as it is listed and made: "g-eval", or "g-eval:samples=20" with an option.

    make : keyword options -> the method. summary : one line for a list. uses : what of Tools it needs
    """

    make: Callable[..., Method]
    summary: str
    uses: tuple[str, ...] = ()
    options: Mapping[str, Callable[[str], object]] | None = None  # name -> parser of its text


def fraction(text: str) -> float:
    """A parser of options. raises : ValueError for what is no number from 0 to 1"""
    with suppress(ValueError):
        if 0 <= (number := float(text)) <= 1:
            return number
    raise ValueError("a number from 0 to 1")


def switch(text: str) -> bool:
    """A parser of options. raises : ValueError for what is neither yes nor no"""
    if text not in ("yes", "no"):
        raise ValueError("yes or no")
    return text == "yes"


ANSWERS: Mapping[str, Callable[[str], object]] = {"min_mass": fraction, "max_unreported": fraction}
"""Options of methods that read probabilities: what counts as an answer, as in judging.asking.Asking."""


def judge_of(tools: Tools) -> Engine:
    """raises : MethodError where there is none"""
    if tools.judge is None:
        raise MethodError("this method asks a judge, and there is none. Name one: --model MODEL, or Tools(judge=...)")
    return tools.judge


def task_of(ratings: Ratings, attribute: str) -> tuple[Task, Attribute]:
    """The task whose templates ask about these texts, and its attribute that means this one.

    raises : MethodError where the ratings name no task; TaskError where the task has no such attribute
    """
    if not ratings.task:
        raise MethodError(
            f"the ratings {ratings.name} name no task, whose templates a judge could be asked with. Name one of "
            "synthscore.task_names(), or a folder with a task.toml"
        )
    task = load_task(ratings.task)
    return task, task.attribute(ratings.asked_as.get(attribute, attribute))


def why_not_asked(ratings: Ratings) -> list[str]:
    """For each text why nobody can be asked about it, or ""."""
    return [
        "the text is empty"
        if not text.text.strip()
        else f"the text of its context {text.context_id!r} is not known"
        if text.context_id not in ratings.contexts
        else ""
        for text in ratings
    ]


def scored(ratings: Ratings, attribute: str, found: Iterable[float | str | Score], signature: Signature) -> Scores:
    """Scores from what was found for each text: a number, or the reason why there is none; or all of the Score.

    raises : MethodError where no text has a number
    """
    rows = []
    for text, value in zip(ratings, found, strict=True):
        if isinstance(value, Score):
            rows.append(value)
        elif isinstance(value, str):
            rows.append(Score(text.id, text.context_id, attribute, None, status="unscored", reason=value))
        else:
            rows.append(Score(text.id, text.context_id, attribute, float(value)))
    reasons = Counter(row.reason for row in rows if row.value is None)
    if rows and reasons.total() == len(rows):
        ((reason, count),) = reasons.most_common(1)
        raise MethodError(
            f"cannot score any of the {len(rows)} texts of {ratings.name} on {attribute}; {count} of them: {reason}",
            reasons=reasons,
        )
    return Scores(tuple(rows), signature)
