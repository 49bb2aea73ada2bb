"""Texts + ladders + judge -> scores on the rung scale: this project's own method, in its variants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any

from ...io.scores import Scores
from ...judging.asking import Asking
from ...judging.verdicts import PROTOCOLS, ProtocolName
from ...ladders.references import References
from ...scoring.paper import Paper
from ...scoring.scorer import Scorer
from ...types import Context, Ladder, Score, Target
from ..ratings.types import RatedText, Ratings
from .base import ANSWERS, Kind, Method, MethodError, Tools, judge_of, scored, switch, task_of


@dataclass(frozen=True, slots=True)
class OnLadders:
    """Scores texts against the ladders of `Tools.references`.

    n_rungs : takes the ladder of so many rungs out of each; None: the ladders as they are
    rung_values : instead of 1..N, worst rung first; one alone stands for all. The value is then the weighted sum
    """

    scoring: Paper = Paper()
    asking: Asking = Asking()
    n_rungs: int | None = None
    rung_values: tuple[float, ...] | None = None

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        judge = judge_of(tools)
        task, asked = task_of(ratings, attribute)
        if tools.references is None:
            raise MethodError("this method needs ladders, and there are none. Name them: --references LADDERS")
        held = tools.references.filter(task=task.name, attribute=asked.name)
        if not len(held):
            names = sorted({f"{ladder.task}/{ladder.attribute}" for ladder in tools.references})
            raise MethodError(
                f"{held.source} holds no ladder for {task.name}/{asked.name}, but for {', '.join(names) or 'nothing'}. "
                "Make some with: synthscore generate"
            )
        ladders = {ladder.context_id: self._ladder(ladder, ratings.contexts) for ladder in held}
        scorer = Scorer(
            References(tuple(ladders.values()), held.source),
            judge,
            attribute=asked.name,
            task=task.name,
            asking=replace(self.asking, prompts=str(tools.templates)),
            scoring=replace(self.scoring, rung_values=self._values(ladders)),
        )
        found: list[float | str | Score] = [_why_not(text, ratings, ladders.get(text.context_id)) for text in ratings]
        # By context: the prompts of one share their beginning.
        rows = sorted((row for row, why in enumerate(found) if not why), key=lambda row: ratings.texts[row].context_id)
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

    def _values(self, ladders: Mapping[str, Ladder]) -> tuple[float, ...] | None:
        if self.rung_values is None:
            return None
        sizes = sorted({ladder.n_rungs for ladder in ladders.values()})
        values = self.rung_values * sizes[0] if len(self.rung_values) == 1 else self.rung_values
        if sizes != [len(values)]:
            raise MethodError(
                f"cannot weigh rungs by {'/'.join(f'{value:g}' for value in values)}: the ladders have "
                f"{' or '.join(map(str, sizes))} rungs, expected one value a rung, worst first"
            )
        return values


def _why_not(text: RatedText, ratings: Ratings, ladder: Ladder | None) -> str:
    """Why a text is not held against its ladder, or ""."""
    if not text.text.strip():
        return "the text is empty"
    context = ratings.contexts.get(text.context_id)
    if ladder and ladder.context and context and ladder.context.text.split() != context.text.split():
        return (
            f"the ladder of {text.context_id!r} was written for another context of this id: "
            f"{ladder.context.text!r:.60}, expected {context.text!r:.60}. Generate ladders from these ratings' contexts"
        )
    return ""


def ladder(
    *,
    both_orders: bool = False,
    protocol: ProtocolName = "compare",
    samples: int | None = None,
    seed: int | None = None,
    n_rungs: int | None = None,
    rung_values: tuple[float, ...] | None = None,
    **answers: Any,
) -> Method:
    """The score of the rung scale; options as those of Asking and Paper."""
    wrong = {
        f"protocol is {protocol!r}, expected one of {', '.join(PROTOCOLS)}": protocol not in PROTOCOLS,
        f"samples is {samples}, expected 1 or more": samples is not None and samples < 1,
        f"seed is {seed}, expected 0 or more, with samples=N": seed is not None and (samples is None or seed < 0),
        f"n_rungs is {n_rungs}, expected 2 or more": n_rungs is not None and n_rungs < 2,
    }
    for what, holds in wrong.items():
        if holds:
            raise MethodError(f"cannot make ladder: {what}")
    return OnLadders(Paper(samples, seed or 0), Asking(protocol, both_orders, **answers), n_rungs, rung_values)


def _numbers(text: str) -> tuple[float, ...]:
    with suppress(ValueError):
        if all(map(isfinite, numbers := tuple(map(float, text.split("/"))))):
            return numbers
    raise ValueError("numbers with / between, such as 1/2/3/4/5, or one for all rungs")


_OPTIONS: Mapping[str, Callable[[str], object]] = {
    "both_orders": switch,
    "protocol": str,
    "samples": int,
    "seed": int,
    "n_rungs": int,
    "rung_values": _numbers,
    **ANSWERS,
}

KINDS: Mapping[str, Kind] = {
    "ladder": Kind(ladder, "held against a ladder's rungs, on the rung scale", ("judge", "references"), _OPTIONS)
}
