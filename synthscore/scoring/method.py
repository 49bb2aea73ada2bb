"""A method gives each text a number: what it is given, what it promises, and what it plans to ask.

A method of one's own is a class with `plan`; `synthscore.register_method` gives it a name, by which
every verb takes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..engine import Engine, Progress
from ..errors import InputError, LadderError, SynthscoreError
from ..io.fields import Item
from ..judging.asking import Asking
from ..judging.templates import Templates
from ..ladders.references import References
from ..signature import Signature
from ..types import Attribute, Context, Score, Task

if TYPE_CHECKING:
    from .whole import WholeTextStore


class MethodError(SynthscoreError):
    """A method that is not known, or that lacks something: a judge, ladders, references by people, a package."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What methods may ask for.

    judge : the model that is asked, behind its store. references : ladders. asking : how the judge is asked
    whole_texts : where the verdicts on whole texts are kept, for who needs no details of scores; None: nowhere
    """

    judge: Engine | None = None
    references: References | None = None
    asking: Asking = Asking()
    whole_texts: WholeTextStore | None = None

    def require_judge(self) -> Engine:
        """raises : MethodError where there is none"""
        if self.judge is None:
            raise MethodError(
                "this method asks a judge, and there is none. Name one: --model MODEL, or Tools(judge=...)"
            )
        return self.judge

    def require_references(self, task: Task, attribute: Attribute) -> References:
        """The ladders, some of which are of this task and attribute. raises : MethodError where there are none"""
        if self.references is None:
            raise MethodError("this method needs ladders, and there are none. Name them: --references LADDERS")
        by_task = self.references.attributes_by_task
        if attribute.name not in by_task.get(task.name, ()):
            names = [f"{task}/{name}" for task, attributes in by_task.items() for name in attributes]
            raise MethodError(
                f"{self.references.source} holds no ladder for {task.name}/{attribute.name}, but for "
                f"{', '.join(names) or 'nothing'}. Make some with: synthscore generate"
            )
        return self.references


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts to judge on one attribute of one task.

    templates : the prompts of the task. items : each holds a target
    contexts : context id -> context, besides what items carry
    named : the attribute's name in the scores, where that is another than the task's
    """

    templates: Templates
    attribute: Attribute
    items: Sequence[Item]
    contexts: Mapping[str, Context] = field(default_factory=dict)
    named: str = ""

    @property
    def task(self) -> Task:
        return self.templates.task

    @property
    def scored_as(self) -> str:
        return self.named or self.attribute.name

    def context(self, item: Item, references: References | None = None) -> Context | None:
        """What the item's text was written for: as the caller knows it, as its row says, or as its ladder carries it;
        None where nobody knows."""
        if item.context_id in self.contexts:
            return self.contexts[item.context_id]
        if item.context:
            return Context(id=item.context_id, text=item.context)
        try:
            ladder = references and references.find(item.context_id, self.attribute.name, self.task.name)
        except LadderError:
            return None
        return ladder.context if ladder else None

    def in_contexts(self, indices: Iterable[int]) -> list[int]:
        """Indices of items in the order to ask about them: those of one context side by side, for their prompts share
        their beginning."""
        places: dict[str, list[int]] = {}
        for index in indices:
            places.setdefault(self.items[index].context_id, []).append(index)
        return [index for context in places.values() for index in context]


@dataclass(frozen=True, slots=True)
class Limits:
    """Which numbers the scores of a method can be.

    low, high : no score lies outside. words : what they are, for an error: "outside the scale of ..., 1 to 5"
    likely_low, likely_high : outside of which scores are a guess. likely_words : for a warning
    """

    low: float = -inf
    high: float = inf
    words: str = ""
    likely_low: float = -inf
    likely_high: float = inf
    likely_words: str = ""

    def __str__(self) -> str:
        """As a signature says them: "0..1"."""
        return f"{self.low:g}..{self.high:g}"


@dataclass(slots=True, kw_only=True)
class MethodPlan(ABC):
    """What a method asks about texts, and what it makes of the answers.

    signature : of the scores, as far as it is known before anything is asked
    n_questions : the most that is asked. n_asked : so far, with what was asked before
    n_rungs : index of an item that is asked about -> the rungs that it is compared with; 0 where there are none
    scales : that the scores are on, where the method fits such (scoring/anchored/scale.py)
    """

    signature: Signature
    n_questions: int = 0
    n_asked: int = 0
    n_rungs: Mapping[int, int] = field(default_factory=dict)
    scales: Sequence[Any] = ()

    @abstractmethod
    def score(self, progress: Progress | None = None) -> Sequence[Score]:
        """One Score an item, in the order of the items. raises : what asking raises"""


@dataclass(slots=True, kw_only=True)
class SimplePlan(MethodPlan):
    """Of a method whose texts are asked about in one go, or not at all.

    ask : gives one Score an item, in the order of the items
    """

    ask: Callable[[Progress | None], Sequence[Score]]

    def score(self, progress: Progress | None = None) -> Sequence[Score]:
        self.n_asked = self.n_questions
        return self.ask(progress)


class ScoreKind:
    """What is known of scores before anything is asked.

    alone : whether each score follows from its own text alone, so that texts can be scored some at a time
    gives_errors : whether scores have a stderr
    on_rungs : whether scores are on the scale of the ladders' rungs, 1 as good as the worst; else the signature says
        which they are on, by `limits`
    """

    alone: bool = True
    gives_errors: bool = False
    on_rungs: bool = False

    def limits(self, n_rungs: int) -> Limits:
        """Which numbers the scores can be. n_rungs : the ladders' greatest scale (Ladder.scale); 0 without ladders"""
        return Limits()

    def require_alone(self) -> None:
        """raises : InputError where scores follow from all texts together"""
        if not self.alone:
            raise InputError(
                "these scores follow from all texts together, and here not all are there at once. Score all in one "
                "call",
                field="method",
            )


class Method(ScoreKind, ABC):
    """A way to give each text a number.

    uses : what of Tools it needs: "judge", "references"
    asks_pairs : whether texts are compared with others, in the orders and by the protocol of Tools.asking
    """

    uses: Sequence[str] = ("judge",)
    asks_pairs: bool = False

    @abstractmethod
    def plan(self, texts: Texts, tools: Tools) -> MethodPlan:
        """What is to be asked about these texts. Nothing is asked yet.

        raises : MethodError where nothing can be scored at all; LabelError, TemplateError, TaskError
        """


def sign(judge: Engine | None, texts: Texts, **parts: object) -> Signature:
    """The version, the judge's signature, these parts, and what was judged."""
    judges = dict(judge.signature.parts) if judge else {}
    of_texts = {"task": texts.task.name, "attribute": texts.attribute.name}
    scoring = parts.pop("scoring", "")
    return Signature.of(synthscore=__version__, **judges).with_(**parts, **of_texts, scoring=scoring)


def require_options(kind: str, wrong: Mapping[str, object]) -> None:
    """raises : MethodError for the first statement about the options that holds"""
    for what, holds in wrong.items():
        if holds:
            raise MethodError(f"cannot make {kind}: {what}")
