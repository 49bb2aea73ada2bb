"""What evaluation asks of a method: scores of all rated texts on one attribute.

A method that gives each text a number by itself (scoring/method.py) is asked through `OnRatings`; others, which look at
whole sets of texts or at references by people, are functions of the ratings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from ..._version import __version__
from ...engine import Engine
from ...errors import InputError
from ...io.fields import Item, text_fault
from ...io.scores import Scores
from ...judging.templates import Templates
from ...ladders.references import References, find_task
from ...scoring.ladder import unscored
from ...scoring.method import Method, MethodError, Texts, Tools
from ...signature import Signature
from ...types import Attribute, Score, Target, Task, blank
from ..ratings import RatedText, Ratings


class SetMethod(Protocol):
    """Scores of all texts on one attribute, in the order of ratings.texts; higher is better.

    A text that cannot be scored is unscored, with the reason; it is never left out.
    raises : MethodError where nothing can be scored at all
    """

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores: ...


@dataclass(frozen=True, slots=True)
class OnRatings:
    """A method that gives each text a number by itself, as a SetMethod."""

    method: Method

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        task, asked = task_of(ratings, attribute, tools.references)
        items = [_item(number, text, ratings) for number, text in enumerate(ratings, 1)]
        good = [index for index, item in enumerate(items) if isinstance(item.target, Target)]
        texts = Texts(
            templates=Templates(task, tools.asking.prompts),
            attribute=asked,
            items=[items[index] for index in good],
            contexts=ratings.contexts,
            named=attribute,
        )
        plan = self.method.plan(texts, tools)
        scores = dict(zip(good, plan.score(), strict=True))
        rows = []
        for index, item in enumerate(items):
            score = scores.get(index)
            rows.append(score or unscored(item, attribute, str(item.target)))
        return scored(ratings, attribute, rows, plan.signature)


def _item(number: int, text: RatedText, ratings: Ratings) -> Item:
    context = ratings.contexts.get(text.context_id)
    try:
        if why := _why_unreadable(text):
            raise InputError(why)
        target: Target | InputError = Target(text.id, text.context_id, text.text, text.system)
    except InputError as error:
        target = error
    return Item(
        number=number,
        target=target,
        id=text.id,
        context_id=text.context_id,
        context=context.text if context else "",
    )


# ------------------------------------------------------------------------------------------------- what they need


def task_of(ratings: Ratings, attribute: str, references: References | None = None) -> tuple[Task, Attribute]:
    """The task whose templates ask about these texts, and its attribute that means this one.

    references : ladders, which may carry the task
    raises : MethodError where the ratings name no task; TaskError where the task has no such attribute; InputError as
        References.find_task
    """
    if not ratings.task:
        raise MethodError(
            f"the ratings {ratings.name} name no task, whose templates a judge could be asked with. Name one of "
            "synthscore.task_names(), or a folder with a task.toml"
        )
    task = find_task(references, ratings.task)
    return task, asked_about(ratings, attribute, task)


def asked_about(ratings: Ratings, attribute: str, task: Task) -> Attribute:
    """The task's attribute that means this one of the ratings. raises : TaskError where it has none"""
    return task.attribute(ratings.asked_as.get(attribute, attribute))


def _why_unreadable(text: RatedText) -> str:
    return text.fault or ". ".join(filter(None, text_fault(text.text)))


def why_not_asked(ratings: Ratings) -> list[str]:
    """For each text why no judge can be asked about it, or ""."""
    reasons = []
    for text in ratings:
        reason = ""
        if blank(text.text):
            reason = _why_unreadable(text)
        elif text.context_id not in ratings.contexts:
            reason = f"the text of its context {text.context_id!r} is not known"
        reasons.append(reason)
    return reasons


def by_context(ratings: Ratings, rows: Iterable[int]) -> list[int]:
    """Rows in the order to ask about them: the prompts of one context share their beginning."""
    return sorted(rows, key=lambda row: ratings.texts[row].context_id)


# ------------------------------------------------------------------------------------------------- what they give


def signed(judge: Engine | None = None, /, **parts: object) -> Signature:
    """The version, the judge's signature, and these parts."""
    judges = dict(judge.signature.parts) if judge else {}
    return Signature.of(synthscore=__version__, **judges).with_(**parts)


def scored(ratings: Ratings, attribute: str, results: Iterable[float | str | Score], signature: Signature) -> Scores:
    """Scores from a result for each text: a number, the reason why there is none, or a whole Score.

    raises : MethodError where no text has a number
    """
    rows = []
    for text, value in zip(ratings, results, strict=True):
        if isinstance(value, Score):
            rows.append(value)
        elif isinstance(value, str):
            rows.append(text.unscored(attribute, value))
        else:
            rows.append(Score(id=text.id, context_id=text.context_id, attribute=attribute, value=float(value)))
    reasons = Counter(row.reason for row in rows if row.value is None)
    if rows and reasons.total() == len(rows):
        ((reason, count),) = reasons.most_common(1)
        raise MethodError(
            f"cannot score any of the {len(rows)} texts of {ratings.name} on {attribute}; {count} of them: {reason}",
            reasons=reasons,
        )
    return Scores(tuple(rows), signature)
