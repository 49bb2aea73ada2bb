"""A method is anything that gives each text a number: a judge in some protocol, a metric, a count of words.

What methods share: the kinds and their options, which are read off a kind's own parameters; what they need of ratings
and tools; and how what they found becomes Scores.
"""

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NamedTuple, Protocol, get_args, get_origin

from ..._version import __version__
from ...engine import Engine
from ...errors import InputError, SynthscoreError
from ...io.scores import Scores
from ...judging.tasks import load_task
from ...ladders.references import References
from ...ranking.methods import given_options
from ...signature import Signature
from ...types import Attribute, Score, Task, blank
from ..ratings import Ratings


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


# ------------------------------------------------------------------------------------------------- kinds and options


class Span(NamedTuple):
    """The numbers that an option takes, both ends included."""

    low: float
    high: float = math.inf


Count = Annotated[int, Span(1)]
Seed = Annotated[int, Span(0)]
Share = Annotated[float, Span(0, 1)]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of method, as it is listed and made: "g-eval", or "g-eval:samples=20" with an option.

    make : options -> the method; its parameters are the options, and their types say which texts they take
    summary : one line for a list. uses : what of Tools it needs. fixed : arguments of make that are no options
    """

    make: Callable[..., Method]
    summary: str
    uses: tuple[str, ...] = ()
    fixed: Mapping[str, object] = field(default_factory=dict)

    @property
    def options(self) -> Mapping[str, Any]:
        """Name -> type."""
        parameters = inspect.signature(self.make, eval_str=True).parameters
        return {name: of.annotation for name, of in parameters.items() if name not in self.fixed}

    def method(self, spec: str, settings: str) -> Method:
        """The method of the options that a spec holds: "samples=20,seed=1". raises : MethodError"""
        types = self.options
        try:
            given = given_options(settings, types)
            options = {name: read_option(name, types[name], text) for name, text in given.items()}
        except InputError as error:
            raise MethodError(f"cannot make the method {spec!r}: {error}", spec=spec) from error
        return self.make(**self.fixed, **options)


def read_option(name: str, of: Any, text: str) -> object:
    """The value of an option. of : its type. raises : InputError"""
    if type(None) in get_args(of):  # no value is what it has without being named
        of = next(each for each in get_args(of) if each is not type(None))
    span = Span(-math.inf)
    if get_origin(of) is Annotated:
        of, span = get_args(of)
    if get_origin(of) is Literal or of is bool:
        choices: Mapping[str, object] = (
            {"yes": True, "no": False} if of is bool else {each: each for each in get_args(of)}
        )
        if text in choices:
            return choices[text]
        expected = "yes or no" if of is bool else f"one of {', '.join(choices)}"
    elif of not in (int, float):
        return of(text)
    else:
        with suppress(ValueError):
            if span.low <= (number := of(text)) <= span.high and math.isfinite(number):
                return number
        ends = f" from {span.low:g} to {span.high:g}" if span.high < math.inf else f" of {span.low:g} or more"
        expected = ("a whole number" if of is int else "a number") + (ends if span.low > -math.inf else "")
    raise InputError(f"{name} is {text!r}, expected {expected}", value=text)


def require(kind: str, wrong: Mapping[str, object]) -> None:
    """raises : MethodError for the first statement about the options that holds"""
    for what, holds in wrong.items():
        if holds:
            raise MethodError(f"cannot make {kind}: {what}")


# ------------------------------------------------------------------------------------------------- what they need


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
        if blank(text.text)
        else f"the text of its context {text.context_id!r} is not known"
        if text.context_id not in ratings.contexts
        else ""
        for text in ratings
    ]


def by_context(ratings: Ratings, rows: Iterable[int]) -> list[int]:
    """Rows in the order to ask about them: the prompts of one context share their beginning."""
    return sorted(rows, key=lambda row: ratings.texts[row].context_id)


# ------------------------------------------------------------------------------------------------- what they give


def signed(judge: Engine | None = None, /, **parts: object) -> Signature:
    """The version, the judge's signature, and these parts."""
    judges = dict(judge.signature.parts) if judge else {}
    return Signature.of(synthscore=__version__, **judges).with_(**parts)


def scored(ratings: Ratings, attribute: str, found: Iterable[float | str | Score], signature: Signature) -> Scores:
    """Scores from what was found for each text: a number, or the reason why there is none; or all of the Score.

    raises : MethodError where no text has a number
    """
    rows = []
    for text, value in zip(ratings, found, strict=True):
        if isinstance(value, Score):
            rows.append(value)
        elif isinstance(value, str):
            rows.append(text.unscored(attribute, value))
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
