"""Texts + judge -> the number that the judge gives each: direct scoring, G-Eval.

What it answers on a scale of whole numbers is read in one of two ways:

    argmax        the most probable number of the scale; of equally probable ones the lowest
    expectation   sum over k of  k p(k),   p(k) = P(k | prompt) / P(any number of the scale | prompt)
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...engine import Engine, Progress, Prompt, label_log_probs
from ...errors import LabelError
from ...io.fields import Item
from ...io.settings import Count, Seed, Share
from ...judging.labels import unanswered, unreported_note
from ...signature import seeded_rng
from ...types import FloatArray, Score
from ..ladder import unscored
from ..method import Limits, Method, MethodError, SimplePlan, Texts, Tools, require_options, sign
from ..paper import sample_verdicts


class Grading(Method):
    """Asks the judge for a number on a scale, about each text by itself. What of the answer is the number, `read` says.

    scale : "1-5". template : which file of the set asks
    """

    scale: str
    template: str

    @property
    def ends(self) -> tuple[int, int]:
        """1 and 5, of "1-5". raises : MethodError"""
        ends = re.fullmatch(r"(\d+)-(\d+)", self.scale)
        if not ends or int(ends[1]) >= int(ends[2]):
            raise MethodError(
                f"cannot make a rating: scale is {self.scale!r}, expected two whole numbers such as 1-5, the lower one "
                "first"
            )
        return int(ends[1]), int(ends[2])

    @property
    @abstractmethod
    def name(self) -> str:
        """What a signature says of it."""

    @abstractmethod
    def read(
        self, judge: Engine, prompts: Sequence[Prompt], items: Sequence[Item], attribute: str, progress: Progress | None
    ) -> list[str | dict[str, Any]]:
        """Asks, and says what a Score of each item is made of, or why there is none."""

    def limits(self, n_rungs: int) -> Limits:
        low, high = self.ends
        words = f"outside the scale of the grades, which is {low} to {high}"
        return Limits(low=float(low), high=float(high), words=words)

    def plan(self, texts: Texts, tools: Tools) -> SimplePlan:
        judge = tools.require_judge()
        low, high = self.ends
        scores: dict[int, Score] = {}
        prompts: dict[int, Prompt] = {}
        for index in texts.in_contexts(range(len(texts.items))):
            item = texts.items[index]
            context = texts.context(item, tools.references)
            if context is None:
                why = f"the text of its context {item.context_id!r} is not known. Add it to the row, as context"
                scores[index] = unscored(item, texts.scored_as, why)
                continue
            text = item.require_target().text
            prompts[index] = texts.templates.rate(
                context, texts.attribute, text=text, low=low, high=high, template=self.template
            )
        signature = sign(
            judge,
            texts,
            **texts.templates.signature_parts(self.template),
            labels=f"{low}..{high}",
            scoring=self.name,
            scale=self.limits(0),
        )

        def ask(progress: Progress | None) -> list[Score]:
            items = [texts.items[index] for index in prompts]
            answers = self.read(judge, list(prompts.values()), items, texts.scored_as, progress)
            for index, item, answer in zip(prompts, items, answers, strict=True):
                if isinstance(answer, str):
                    scores[index] = unscored(item, texts.scored_as, answer)
                else:
                    scores[index] = Score(item.id, item.context_id, texts.scored_as, **answer)
            return [scores[index] for index in range(len(texts.items))]

        return SimplePlan(
            signature=signature,
            n_questions=len(prompts),
            n_rungs=dict.fromkeys(prompts, 0),
            ask=ask,
        )


@dataclass(frozen=True, slots=True)
class Direct(Grading):
    """The most probable number on the scale, by the probabilities of all of them.

    min_mass, max_unreported : what counts as an answer, as in judging.asking.Asking

    `details` hold label_mass, expectation and argmax, whichever of them is the value. Where a server did not report all
    labels, `low` and `high` are the least and the greatest that the value can be.
    """

    scale: str = "1-5"
    template: str = "rate"
    min_mass: Share = 0.01
    max_unreported: Share = 0.02

    def __post_init__(self) -> None:
        _ = self.ends

    @property
    def name(self) -> str:
        return "argmax"

    def read(
        self, judge: Engine, prompts: Sequence[Prompt], items: Sequence[Item], attribute: str, progress: Progress | None
    ) -> list[str | dict[str, Any]]:
        numbers = np.arange(self.ends[0], self.ends[1] + 1, dtype=np.float64)
        try:
            answers = label_log_probs(judge, prompts, [f"{number:.0f}" for number in numbers], progress)
        except LabelError as error:
            raise MethodError(
                f"cannot read numbers from {self.scale} out of this judge's probabilities: {error}; such as scale=1-9"
            ) from error
        failures = unanswered(answers, self.min_mass, self.max_unreported)
        probs = answers.probs
        unreported = answers.unreported.tolist()
        mass = answers.label_mass.tolist()
        made: list[str | dict[str, Any]] = []
        for row, item in enumerate(items):
            if row in failures:
                made.append(failures[row])
                continue
            p = probs[row]
            argmax = float(numbers[p.argmax()])
            expectation = float(p @ numbers)
            score = self._value(item, attribute, p, numbers, unreported[row])
            score["details"] = {"label_mass": mass[row], "expectation": expectation, "argmax": argmax}
            if note := unreported_note(unreported[row]):
                score["reason"] = note
            made.append(score)
        return made

    def _value(
        self, item: Item, attribute: str, p: FloatArray, numbers: FloatArray, unreported: float
    ) -> dict[str, Any]:
        """Value, low and high. p : of each number. unreported : by how much each may be off"""
        value = {"value": float(numbers[p.argmax()])}
        if not unreported:
            return value
        may_be = numbers[p >= p.max() - 2 * unreported]
        return {**value, "low": float(may_be[0]), "high": float(may_be[-1])}


@dataclass(frozen=True, slots=True)
class GEval(Direct):
    """The expected number on the scale, by the probabilities of all of them.

    samples : the mean of so many draws from these instead; what is drawn for a text depends on seed and on the text's
        ids and attribute alone, and has no limits
    """

    samples: Count | None = None
    seed: Seed = 0

    def __post_init__(self) -> None:
        _ = self.ends
        idle = self.seed and not self.samples
        require_options("a rating", {f"seed={self.seed} does nothing where nothing is drawn. Say samples=N, too": idle})

    @property
    def name(self) -> str:
        return "expectation" if self.samples is None else f"expectation,samples={self.samples},seed={self.seed}"

    def _value(
        self, item: Item, attribute: str, p: FloatArray, numbers: FloatArray, unreported: float
    ) -> dict[str, Any]:
        if self.samples is not None:
            rng = seeded_rng(self.seed, item.id, item.context_id, attribute)
            return {"value": float(sample_verdicts(p, self.samples, rng) @ numbers)}
        expectation = float(p @ numbers)
        if not unreported:
            return {"value": expectation}
        low, high = self.ends
        off = unreported * (high - low)  # so much of p, from one end of the scale to the other
        return {"value": expectation, "low": max(expectation - off, low), "high": min(expectation + off, high)}
