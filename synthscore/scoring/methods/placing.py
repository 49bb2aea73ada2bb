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
from typing import Annotated

import numpy as np

from ...engine import Engine, Progress, Prompt, Question, ask_engine, capabilities_of, stacked
from ...io.settings import Seed, Share, Span
from ...judging.labels import unanswered
from ...types import ChosenLadder, IntArray, Score
from ..ladder import LadderChoice, find_ladders, ladder_parts, on_scale, unscored
from ..method import Limits, Method, MethodError, SimplePlan, Texts, Tools, sign

_HOW = ("from the worst to the best in one respect", "from the best to the worst in one respect", "in no order")


@dataclass(frozen=True, slots=True)
class Place(Method):
    """Asks about a text and all rungs at once, by their numbers.

    orders : 1: the worst rung first; 2: and the best first; more: and others, drawn by seed, alike for all texts
    ladders : as LadderMethod.ladders
    """

    min_mass: Share = 0.01
    max_unreported: Share = 0.02
    orders: Annotated[int, Span(1, 20)] = 1
    seed: Seed = 0
    ladders: LadderChoice | None = None

    uses = ("judge", "references")
    on_rungs = True

    @property
    def name(self) -> str:
        drawn = f",seed={self.seed}" if self.orders > 2 else ""
        return f"place,orders={self.orders}{drawn}"

    template = "place"

    def limits(self, n_rungs: int) -> Limits:
        words = f"outside the scale of places, which for ladders of {n_rungs} rungs is 1 to {n_rungs}"
        return Limits(low=1.0, high=float(n_rungs), words=words)

    def plan(self, texts: Texts, tools: Tools) -> SimplePlan:
        judge = tools.require_judge()
        references = tools.require_references(texts.task, texts.attribute)
        scores: dict[int, Score] = {}
        by_length: dict[int, dict[int, ChosenLadder]] = {}  # how many rungs are shown -> index -> ladder
        chosen_ladders = find_ladders(texts, references, self.ladders)
        for index, (item, chosen) in enumerate(zip(texts.items, chosen_ladders, strict=True)):
            if isinstance(chosen, str):
                scores[index] = unscored(item, texts.scored_as, chosen)
            else:
                by_length.setdefault(len(chosen.ladder.usable), {})[index] = chosen
        signature = sign(
            judge,
            texts,
            **texts.templates.signature_parts(self.template),
            **ladder_parts(texts, references, self.ladders),
            scoring=self.name,
        )

        def ask(progress: Progress | None) -> list[Score]:
            for n_rungs, ladders in by_length.items():
                scores.update(self._place(texts, ladders, n_rungs, judge, progress))
            return [scores[index] for index in range(len(texts.items))]

        compared = [index for ladders in by_length.values() for index in ladders]
        return SimplePlan(
            signature=signature,
            n_questions=len(compared) * self.orders,
            n_rungs=dict.fromkeys(compared, 0),
            ask=ask,
        )

    def _place(
        self, texts: Texts, ladders: Mapping[int, ChosenLadder], n_rungs: int, judge: Engine, progress: Progress | None
    ) -> dict[int, Score]:
        """The scores of texts whose ladders show as many rungs. ladders : by index of an item"""
        orders = self._orders(n_rungs)
        rows = texts.in_contexts(ladders)
        questions = []
        for row in rows:
            for number, order in enumerate(orders):
                questions.append(self._question(texts, row, ladders[row], order, number))
        labels = tuple(str(number) for number in range(1, n_rungs + 1))
        answers = stacked(labels, ask_engine(judge, questions, progress), capabilities_of(judge).reports_mass)
        failures = unanswered(answers, self.min_mass, self.max_unreported)
        probs = answers.probs
        mass = answers.label_mass
        scores: dict[int, Score] = {}
        for index, row in enumerate(rows):
            item = texts.items[row]
            ladder = ladders[row].ladder
            asked = range(index * len(orders), (index + 1) * len(orders))  # the questions about this text
            failed = [failures[question] for question in asked if question in failures]
            if failed:
                scores[row] = unscored(item, texts.scored_as, failed[0])
                continue
            levels = np.array([rung.level for rung in ladder.usable], dtype=np.float64)
            expected = [probs[question] @ levels[order] for question, order in zip(asked, orders, strict=True)]
            value = np.mean(expected)
            details = {"n_rungs": float(ladder.n_rungs), "label_mass": float(mass[list(asked)].min())}
            score = Score(item.id, item.context_id, texts.scored_as, float(value), details=details)
            scores[row] = on_scale(score, ladder)
        return scores

    def _orders(self, n_rungs: int) -> list[IntArray]:
        """The orders in which the rungs are shown, one a question."""
        rng = np.random.default_rng(self.seed)
        rising = np.arange(n_rungs)
        drawn = [rng.permutation(n_rungs) for _ in range(self.orders - 2)]
        return [rising, rising[::-1], *drawn][: self.orders]

    def _question(self, texts: Texts, row: int, chosen: ChosenLadder, order: IntArray, number: int) -> Question:
        """A question about a text. order : in which the rungs are shown. number : of the order"""
        rungs = [chosen.ladder.usable[index].text for index in order]
        shown = {"n": len(rungs), "how": _HOW[min(number, 2)], "rungs": rungs}
        prompt = self._prompt(texts, row, chosen, **shown)
        return Question(prompt, tuple(str(label) for label in range(1, len(rungs) + 1)))

    def _prompt(self, texts: Texts, row: int, chosen: ChosenLadder, **shown: object) -> Prompt:
        text = texts.items[row].require_target().text
        return texts.templates.render(self.template, chosen.context, texts.attribute, text=text, **shown)


@dataclass(frozen=True, slots=True)
class DecisionScore(Place):
    """Asks a judge that decides for one of several levels, which the rungs describe, worst first."""

    orders: Annotated[int, Span(1, 1)] = 1

    template = "level"

    @property
    def name(self) -> str:
        return "decision-score"

    def plan(self, texts: Texts, tools: Tools) -> SimplePlan:
        judge = tools.require_judge()
        if not capabilities_of(judge).decides:
            raise MethodError(
                f"decision-score asks a judge that decides, and {judge.signature} does not. Name one "
                "(systemone:http://..., or a decision model), or take the method place"
            )
        return Place.plan(self, texts, tools)

    def _question(self, texts: Texts, row: int, chosen: ChosenLadder, order: IntArray, number: int) -> Question:
        rungs = tuple(rung.text for rung in chosen.ladder.usable)
        return Question(self._prompt(texts, row, chosen), rungs, ordered=True)
