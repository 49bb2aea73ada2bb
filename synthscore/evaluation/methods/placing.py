"""Texts + ladders + judge -> where each text would stand on its ladder, in one question: which rung is it most like?

    value = sum over k of  level(k) p(k),   p(k) = P(rung k | prompt) / P(any rung | prompt)

All rungs are shown at once, so a text costs one question where comparisons cost one a rung:

    place           numbered, to any judge that writes numbers. It may go by the place of a rung in the list rather than
                    by the rung: with several orders, the value is the mean of theirs
    decision-score  as the levels of a `score` question, to a judge that decides
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np

from ...engine import MASS_UNREPORTED, Prompt, Question, decides, stacked
from ...io.scores import Scores
from ...judging.asking import unanswered
from ...judging.templates import Templates
from ...types import IntArray, Ladder, Score
from ..ratings import RatedText, Ratings
from .base import Kind, MethodError, Seed, Share, Span, Tools, by_context, judge_of, scored, signed, task_of
from .ladders import ladders_of, why_not_on

_HOW = ("from the worst to the best in one respect", "from the best to the worst in one respect", "in no order")


@dataclass(frozen=True, slots=True)
class Placing:
    """Asks about a text and all rungs at once.

    decides : by the levels of a `score` question, in one order
    orders : 1: the worst rung first; 2: and the best first; more: and others, drawn by seed, alike for all texts
    """

    decides: bool
    min_mass: Share = 0.01
    max_unreported: Share = 0.02
    orders: Annotated[int, Span(1, 20)] = 1
    seed: Seed = 0

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        judge = judge_of(tools)
        if self.decides and not decides(judge):
            raise MethodError(
                f"decision-score asks a judge that decides, and {judge.signature} does not. Name one "
                "(systemone:http://..., or a decision model), or take the method place"
            )
        task, asked = task_of(ratings, attribute)
        templates = Templates(task, tools.templates)
        references = ladders_of(tools, task, asked)
        ladders = {ladder.context_id: ladder for ladder in references}
        if len(sizes := {len(ladder.usable) for ladder in references}) != 1:
            raise MethodError(f"ladders of {sorted(sizes)} rungs: expected as many in each. Name ladders of one length")
        n = sizes.pop()
        found: list[float | str | Score] = [_why_not(text, ratings, ladders.get(text.context_id)) for text in ratings]
        rows = by_context(ratings, (row for row, why in enumerate(found) if not why))
        orders, questions, kind = self._shown(n), [], "level" if self.decides else "place"
        for text in (ratings.texts[row] for row in rows):
            ladder = ladders[text.context_id]
            context = ladder.context or ratings.contexts[text.context_id]
            ask = partial(templates.render, kind, context, asked)
            rungs = [rung.text for rung in ladder.usable]
            questions += [
                self._question(ask, text.text, [rungs[i] for i in order], k) for k, order in enumerate(orders)
            ]
        numbers = tuple(str(number) for number in range(1, n + 1))
        reported = MASS_UNREPORTED not in judge.signature.parts
        answers = stacked(numbers, judge.answer(questions), reported)
        failures = unanswered(answers, self.min_mass, self.max_unreported)
        probs, mass = answers.probs, answers.label_mass
        for place, row in enumerate(rows):
            text, each = ratings.texts[row], range(place * len(orders), (place + 1) * len(orders))
            if why := next((failures[question] for question in each if question in failures), ""):
                found[row] = why
                continue
            levels = np.array([rung.level for rung in ladders[text.context_id].usable], dtype=np.float64)
            value = np.mean([probs[question] @ levels[order] for question, order in zip(each, orders, strict=True)])
            details = {"label_mass": float(mass[list(each)].min())}
            found[row] = Score(text.id, text.context_id, attribute, float(value), details=details)
        template = f"{templates.name}/{kind}@{templates.hash(kind)}"
        drawn = f",seed={self.seed}" if self.orders > 2 else ""
        scoring = "decision-score" if self.decides else f"place,orders={self.orders}{drawn}"
        parts = {"template": template, "references": references.hash[:12], "scoring": scoring}
        return scored(ratings, attribute, found, signed(judge, task=task.name, attribute=asked.name, **parts))

    def _shown(self, n: int) -> list[IntArray]:
        """In which the rungs are shown, one a question."""
        rng = np.random.default_rng(self.seed)
        drawn = (rng.permutation(n) for _ in range(self.orders - 2))
        return [np.arange(n), np.arange(n)[::-1], *drawn][: self.orders]

    def _question(self, ask: partial[Prompt], text: str, rungs: list[str], k: int) -> Question:
        """The k-th about a text. rungs : in the order in which they are shown"""
        if self.decides:
            return Question(ask(text=text), tuple(rungs), ordered=True)
        prompt = ask(text=text, n=len(rungs), how=_HOW[min(k, 2)], rungs=rungs)
        return Question(prompt, tuple(str(number) for number in range(1, len(rungs) + 1)))


def _why_not(text: RatedText, ratings: Ratings, ladder: Ladder | None) -> str:
    return "there is no ladder for its context" if ladder is None else why_not_on(text, ratings, ladder)


KINDS: Mapping[str, Kind] = {
    "place": Kind(
        Placing,
        "which rung of its ladder a text is most like, all shown at once",
        ("judge", "references"),
        fixed={"decides": False},
    ),
    "decision-score": Kind(
        Placing,
        "the level that a judge decides, described by rungs",
        ("judge", "references"),
        fixed={"decides": True, "orders": 1, "seed": 0},
    ),
}
