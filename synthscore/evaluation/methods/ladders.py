"""Texts + ladders + judge -> scores on the rung scale: this project's own method, in its variants."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

from ...io.scores import Scores
from ...judging.asking import Asking, ProtocolName
from ...ladders.references import References
from ...scoring.paper import Paper
from ...scoring.scorer import Scorer
from ...types import Attribute, Context, Ladder, Score, Target, Task, blank
from ..ratings import RatedText, Ratings
from .base import (
    Count,
    Kind,
    MethodError,
    Seed,
    Share,
    Span,
    Tools,
    by_context,
    judge_of,
    require,
    scored,
    task_of,
)


@dataclass(frozen=True, slots=True)
class OnLadders:
    """Scores texts against the ladders of `Tools.references`.

    n_rungs : takes the ladder of so many rungs out of each; None: the ladders as they are
    """

    both_orders: bool = False
    protocol: ProtocolName = "compare"
    samples: Count | None = None
    seed: Seed = 0
    n_rungs: Annotated[int, Span(2)] | None = None
    min_mass: Share = 0.01
    max_unreported: Share = 0.02

    def __post_init__(self) -> None:
        require("ladder", {f"seed is {self.seed}, expected with samples=N": self.seed and self.samples is None})

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        judge = judge_of(tools)
        task, asked = task_of(ratings, attribute)
        there = ladders_of(tools, task, asked)
        ladders = {ladder.context_id: self._ladder(ladder, ratings.contexts) for ladder in there}
        scorer = Scorer(
            References(tuple(ladders.values()), there.source),
            judge,
            attribute=asked.name,
            task=task.name,
            asking=Asking(self.protocol, self.both_orders, tools.templates, self.min_mass, self.max_unreported),
            scoring=Paper(self.samples, self.seed),
        )
        found: list[float | str | Score] = [why_not_on(text, ratings, ladders.get(text.context_id)) for text in ratings]
        rows = by_context(ratings, (row for row, why in enumerate(found) if not why))
        texts = (ratings.texts[row] for row in rows)
        scores = scorer.score([Target(text.id, text.context_id, text.text) for text in texts])
        for row, score in zip(rows, scores, strict=True):
            found[row] = replace(score, attribute=attribute)
        return scored(ratings, attribute, found, scores.signature)

    def _ladder(self, ladder: Ladder, contexts: Mapping[str, Context]) -> Ladder:
        """With fewer rungs if wanted, and with its context, if that is known."""
        rungs = ladder.rungs
        if self.n_rungs is not None:
            step, rest = divmod(len(rungs) - 1, self.n_rungs - 1)
            if rest or not step:
                raise MethodError(
                    f"cannot take {self.n_rungs} rungs, evenly spaced, out of the {len(rungs)} of ladder "
                    f"{ladder.context_id}/{ladder.attribute}. 2, 3, 5, 9, ... are in each other; write ladders of 9"
                )
            rungs = tuple(replace(rung, level=level) for level, rung in enumerate(rungs[::step], 1))
        return replace(ladder, rungs=rungs, context=ladder.context or contexts.get(ladder.context_id))


def ladders_of(tools: Tools, task: Task, attribute: Attribute) -> References:
    """raises : MethodError where there are none"""
    if tools.references is None:
        raise MethodError("this method needs ladders, and there are none. Name them: --references LADDERS")
    there = tools.references.filter(task=task.name, attribute=attribute.name)
    if not len(there):
        names = sorted({f"{ladder.task}/{ladder.attribute}" for ladder in tools.references})
        raise MethodError(
            f"{there.source} holds no ladder for {task.name}/{attribute.name}, but for {', '.join(names) or 'nothing'}"
            ". Make some with: synthscore generate"
        )
    return there


def why_not_on(text: RatedText, ratings: Ratings, ladder: Ladder | None) -> str:
    """Why a text is not compared with its ladder, or ""."""
    if blank(text.text):
        return "the text is empty"
    context = ratings.contexts.get(text.context_id)
    if ladder and ladder.context and context and ladder.context.text.split() != context.text.split():
        return (
            f"the ladder of {text.context_id!r} was written for another context of this id: "
            f"{ladder.context.text!r:.60}, expected {context.text!r:.60}. Generate ladders from these ratings' contexts"
        )
    return ""


KINDS: Mapping[str, Kind] = {
    "ladder": Kind(OnLadders, "compared with a ladder's rungs, on the rung scale", ("judge", "references"))
}
