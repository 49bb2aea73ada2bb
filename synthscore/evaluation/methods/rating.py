"""Texts + judge -> the number that the judge gives each: direct scoring, G-Eval, prompt scoring.

What it answers on a scale of whole numbers is read in one of three ways:

    argmax        the most probable number of the scale; of equally probable ones the lowest
    expectation   sum over k of  k p(k),   p(k) = P(k | prompt) / P(any number of the scale | prompt)
    text          what it writes, greedily: the first whole number on the scale
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ...engine import Engine, Generation, Prompt, Sampling, generate, label_log_probs
from ...errors import LabelError
from ...io.scores import Scores
from ...judging.asking import unanswered
from ...judging.templates import Templates
from ...scoring.paper import sample_verdicts
from ...signature import text_hash
from ...types import FloatArray, Score
from ..ratings import RatedText, Ratings
from .base import (
    Count,
    Kind,
    MethodError,
    Seed,
    Share,
    Tools,
    by_context,
    judge_of,
    require,
    scored,
    signed,
    task_of,
    why_not_asked,
)

WRITING = Sampling(max_new_tokens=10, temperature=0.0)
"""As in the code of arXiv:2307.07889."""


@dataclass(frozen=True, slots=True)
class Rating:
    """Asks for a whole number on a scale, about all texts in one call.

    score_mode : how the answer is read, see above. scale : "1-5". template : which file of the set asks
    samples : of "expectation": the mean of so many draws from p instead; what is drawn for a text depends on seed and
        on the text's ids and attribute alone
    min_mass, max_unreported : what counts as an answer, as in judging.asking.Asking

    `details` hold label_mass, expectation and argmax, whichever of them is the value. Where a server did not report all
    labels, `low` and `high` are the least and the greatest that the value can be; what is drawn has none.
    """

    score_mode: Literal["argmax", "expectation", "text"]
    scale: str = "1-5"
    template: str = "rate"
    samples: Count | None = None
    seed: Seed = 0
    min_mass: Share = 0.01
    max_unreported: Share = 0.02

    def __post_init__(self) -> None:
        is_scale = re.fullmatch(r"\d+-\d+", self.scale) and self.ends[0] < self.ends[1]
        limits = self.min_mass != 0.01 or self.max_unreported != 0.02
        wrong = {
            f"scale is {self.scale!r}, expected two whole numbers such as 1-5, the lower one first": not is_scale,
            "samples are drawn with score_mode=expectation. Leave them out": self.samples
            and self.score_mode != "expectation",
            f"seed={self.seed} does nothing where nothing is drawn. Say samples=N, too": self.seed and not self.samples,
            "min_mass and max_unreported do nothing with score_mode=text. Leave them out": self.score_mode == "text"
            and limits,
        }
        require("a rating", wrong)

    @property
    def ends(self) -> tuple[int, int]:
        low, high = self.scale.split("-")
        return int(low), int(high)

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        judge = judge_of(tools)
        task, asked = task_of(ratings, attribute)
        templates = Templates(task, tools.templates)
        found: list[float | str | Score] = [*why_not_asked(ratings)]
        rows = by_context(ratings, (row for row, why in enumerate(found) if not why))
        texts = [ratings.texts[row] for row in rows]
        rate = partial(templates.rate, attribute=asked, low=self.ends[0], high=self.ends[1], template=self.template)
        prompts = [rate(ratings.contexts[text.context_id], text=text.text) for text in texts]
        read = self._written if self.score_mode == "text" else partial(self._reported, texts, attribute)
        for row, text, answer in zip(rows, texts, read(judge, prompts), strict=True):
            found[row] = answer if isinstance(answer, str) else Score(text.id, text.context_id, attribute, **answer)
        drawn = "" if self.samples is None else f",samples={self.samples},seed={self.seed}"
        signature = signed(
            judge,
            template=f"{templates.name}/{self.template}@{templates.hash(self.template)}",
            labels=f"{self.ends[0]}..{self.ends[1]}",
            task=task.name,
            attribute=asked.name,
            scoring=self.score_mode + drawn,
        )
        return scored(ratings, attribute, found, signature)

    def _reported(
        self, texts: Sequence[RatedText], attribute: str, judge: Engine, prompts: Sequence[Prompt]
    ) -> Iterator[str | dict[str, Any]]:
        """By the probabilities of the numbers: what a Score is made of, or why there is none."""
        numbers = np.arange(self.ends[0], self.ends[1] + 1, dtype=np.float64)
        try:
            answers = label_log_probs(judge, prompts, [f"{number:.0f}" for number in numbers])
        except LabelError as error:
            raise MethodError(
                f"cannot read numbers from {self.scale} out of this judge's probabilities: {error}; such as scale=1-9. "
                "Or take what it writes: prompt-scoring:score_mode=text"
            ) from error
        failures = unanswered(answers, self.min_mass, self.max_unreported)
        columns = (answers.probs, answers.unreported.tolist(), answers.label_mass.tolist())
        for row, (text, p, unreported, mass) in enumerate(zip(texts, *columns, strict=True)):
            if row in failures:
                yield failures[row]
                continue
            argmax, expectation = float(numbers[p.argmax()]), float(p @ numbers)
            found: dict[str, Any] = {"value": argmax if self.score_mode == "argmax" else expectation}
            found["details"] = {"label_mass": mass, "expectation": expectation, "argmax": argmax}
            if self.samples is not None:
                name = text_hash(text.id, text.context_id, attribute)
                rng = np.random.default_rng([self.seed, int(name[:16], 16)])
                found["value"] = float(sample_verdicts(p, self.samples, rng) @ numbers)
            elif unreported:
                found["low"], found["high"] = self._limits(p, unreported, numbers)
            if unreported:
                found["reason"] = "the server did not report all labels"
            yield found

    def _limits(self, p: FloatArray, unreported: float, numbers: FloatArray) -> tuple[float, float]:
        """The least and the greatest value, where each of p may be off by as much as is not reported."""
        if self.score_mode == "argmax":
            may_be = numbers[p >= p.max() - 2 * unreported]
            return float(may_be[0]), float(may_be[-1])
        low, high = self.ends
        off = unreported * (high - low)  # so much of p, from one end of the scale to the other
        return max(float(p @ numbers) - off, low), min(float(p @ numbers) + off, high)

    def _written(self, judge: Engine, prompts: Sequence[Prompt]) -> Iterator[str | dict[str, Any]]:
        low, high = self.ends
        for written in generate(judge, prompts, WRITING, [0] * len(prompts)):
            if not isinstance(written, Generation):
                yield str(written)
            elif (number := first_number(written.text, low, high)) is None:
                yield f"the judge wrote {written.text!r:.60}, expected a whole number from {low} to {high}"
            else:
                yield {"value": float(number)}


def first_number(text: str, low: int, high: int) -> int | None:
    """The first whole number from low to high in a text, not counting one that names the scale ("1 to 10").

    None where there is none, or where one with a fraction comes before: 8.5 out of 10 is no 10.
    """
    scale = rf"\b{low}\s*(?:to|and|-|\u2013)\s*{high}\b"
    for number in re.findall(r"-?\d+(?:[.,]\d+)*", re.sub(scale, " ", text)):
        if not number.lstrip("-").isdigit():
            return None
        if low <= int(number) <= high:
            return int(number)
    return None


KINDS: Mapping[str, Kind] = {
    "direct": Kind(partial(Rating, score_mode="argmax"), "the most probable number from 1 to 5", ("judge",)),
    "g-eval": Kind(partial(Rating, score_mode="expectation"), "the expected number from 1 to 5", ("judge",)),
    "prompt-scoring": Kind(
        partial(Rating, score_mode="text", scale="1-10"), "the number from 1 to 10 that the judge writes", ("judge",)
    ),
}
