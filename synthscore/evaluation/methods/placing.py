"""Texts + ladders + judge -> where each text would stand on its ladder, in one question: which rung is it most like?

    value = sum over k of  level(k) p(k),   p(k) = P(number of rung k | prompt) / P(any number of a rung | prompt)

All rungs are shown at once, so a text costs one question where comparisons cost one a rung. A judge may go by the place
of a rung in the list rather than by the rung: with several orders, the value is the mean of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from ...engine import label_log_probs
from ...io.scores import Scores
from ...judging.asking import unanswered
from ...judging.templates import Templates
from ...types import Score
from ..ratings import Ratings
from .base import Kind, MethodError, Seed, Share, Span, Tools, by_context, judge_of, scored, signed, task_of
from .ladders import ladders_of, why_not_on

_HOW = ("from the worst to the best in one respect", "from the best to the worst in one respect", "in no order")


@dataclass(frozen=True, slots=True)
class Placing:
    """orders : 1: the worst rung first; 2: and the best first; more: and others, drawn by seed, alike for all texts"""

    orders: Annotated[int, Span(1, 20)] = 1
    seed: Seed = 0
    min_mass: Share = 0.01
    max_unreported: Share = 0.02

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        judge = judge_of(tools)
        task, asked = task_of(ratings, attribute)
        templates = Templates(task, tools.templates)
        references = ladders_of(tools, task, asked)
        ladders = {ladder.context_id: ladder for ladder in references}
        if len(sizes := {len(ladder.usable) for ladder in references}) != 1:
            raise MethodError(f"ladders of {sorted(sizes)} rungs: expected as many in each. Name ladders of one length")
        n = sizes.pop()
        found: list[float | str | Score] = [
            why_not_on(text, ratings, ladders.get(text.context_id))
            or ("" if text.context_id in ladders else f"there is no ladder for the context {text.context_id!r}")
            for text in ratings
        ]
        rows = by_context(ratings, (row for row, why in enumerate(found) if not why))
        rng = np.random.default_rng(self.seed)
        orders = [np.arange(n), np.arange(n)[::-1], *(rng.permutation(n) for _ in range(self.orders - 2))][
            : self.orders
        ]
        prompts = []
        for k, order in enumerate(orders):
            for text in (ratings.texts[row] for row in rows):
                ladder = ladders[text.context_id]
                shown = {"n": n, "how": _HOW[min(k, 2)], "rungs": [ladder.usable[place].text for place in order]}
                context = ladder.context or ratings.contexts[text.context_id]
                prompts.append(templates.render("place", context, asked, text=text.text, **shown))
        answers = label_log_probs(judge, prompts, [str(number) for number in range(1, n + 1)])
        failures = unanswered(answers, self.min_mass, self.max_unreported)
        mass = answers.label_mass.reshape(len(orders), -1).min(axis=0).tolist()
        for place, row in enumerate(rows):
            text, each = ratings.texts[row], range(place, len(prompts), len(rows))
            if why := next((failures[question] for question in each if question in failures), ""):
                found[row] = why
                continue
            levels = np.array([rung.level for rung in ladders[text.context_id].usable], dtype=np.float64)
            values = [answers.probs[question] @ levels[order] for question, order in zip(each, orders, strict=True)]
            value, details = float(np.mean(values)), {"label_mass": mass[place]}
            found[row] = Score(text.id, text.context_id, attribute, value, details=details)
        scoring = f"place,orders={self.orders}" + (f",seed={self.seed}" if self.orders > 2 else "")
        parts = {"template": f"{templates.name}/place@{templates.hash('place')}", "references": references.hash[:12]}
        own = {"task": task.name, "attribute": asked.name, "scoring": scoring}
        return scored(ratings, attribute, found, signed(judge, **parts, **own))


KINDS: Mapping[str, Kind] = {
    "place": Kind(Placing, "which rung of its ladder a text is most like, all shown at once", ("judge", "references"))
}
