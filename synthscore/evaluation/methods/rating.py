"""Texts + judge -> the number that the judge gives each: direct scoring, G-Eval.

What it answers on a scale of whole numbers is read in one of two ways:

    argmax        the most probable number of the scale; of equally probable ones the lowest
    expectation   sum over k of  k p(k),   p(k) = P(k | prompt) / P(any number of the scale | prompt)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from ...engine import Engine, Prompt, label_log_probs
from ...errors import LabelError
from ...io.scores import Scores
from ...judging.asking import unanswered, unreported_note
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

Read = Callable[[Engine, Sequence[Prompt], Sequence[RatedText], str], Iterator[str | dict[str, Any]]]
"""Judge, prompts, the texts that they are about, attribute -> what a Score of each is made of, or why there is none."""


def rated(
    ratings: Ratings, attribute: str, tools: Tools, ends: tuple[int, int], template: str, scoring: str, read: Read
) -> Scores:
    """Asks for a number from one end to the other, about all texts in one call, and reads the answers.

    template : which file of the set asks. scoring : part of the signature
    """
    judge = judge_of(tools)
    task, asked = task_of(ratings, attribute)
    templates = Templates(task, tools.templates)
    found: list[float | str | Score] = [*why_not_asked(ratings)]
    rows = by_context(ratings, (row for row, why in enumerate(found) if not why))
    texts = [ratings.texts[row] for row in rows]
    rate = partial(templates.rate, attribute=asked, low=ends[0], high=ends[1], template=template)
    prompts = [rate(ratings.contexts[text.context_id], text=text.text) for text in texts]
    for row, text, answer in zip(rows, texts, read(judge, prompts, texts, attribute), strict=True):
        found[row] = answer if isinstance(answer, str) else Score(text.id, text.context_id, attribute, **answer)
    signature = signed(
        judge,
        template=f"{templates.name}/{template}@{templates.hash(template)}",
        labels=f"{ends[0]}..{ends[1]}",
        task=task.name,
        attribute=asked.name,
        scoring=scoring,
    )
    return scored(ratings, attribute, found, signature)


def scale_ends(scale: str) -> tuple[int, int]:
    """1 and 5, of "1-5". raises : MethodError"""
    ends = re.fullmatch(r"(\d+)-(\d+)", scale)
    if not ends or int(ends[1]) >= int(ends[2]):
        raise MethodError(
            f"cannot make a rating: scale is {scale!r}, expected two whole numbers such as 1-5, the lower one first"
        )
    return int(ends[1]), int(ends[2])


@dataclass(frozen=True, slots=True)
class Rating:
    """Asks for a whole number on a scale, and reads the probabilities of all of them.

    score_mode : how the answer is read, see above. scale : "1-5". template : which file of the set asks
    samples : of "expectation": the mean of so many draws from p instead; what is drawn for a text depends on seed and
        on the text's ids and attribute alone
    min_mass, max_unreported : what counts as an answer, as in judging.asking.Asking

    `details` hold label_mass, expectation and argmax, whichever of them is the value. Where a server did not report all
    labels, `low` and `high` are the least and the greatest that the value can be; what is drawn has none.
    """

    score_mode: Literal["argmax", "expectation"]
    scale: str = "1-5"
    template: str = "rate"
    samples: Count | None = None
    seed: Seed = 0
    min_mass: Share = 0.01
    max_unreported: Share = 0.02

    def __post_init__(self) -> None:
        _ = self.ends
        wrong = {
            "samples are drawn with score_mode=expectation. Leave them out": self.samples
            and self.score_mode != "expectation",
            f"seed={self.seed} does nothing where nothing is drawn. Say samples=N, too": self.seed and not self.samples,
        }
        require("a rating", wrong)

    @property
    def ends(self) -> tuple[int, int]:
        return scale_ends(self.scale)

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        drawn = "" if self.samples is None else f",samples={self.samples},seed={self.seed}"
        scoring = self.score_mode + drawn
        return rated(ratings, attribute, tools, self.ends, self.template, scoring, self._reported)

    def _reported(
        self, judge: Engine, prompts: Sequence[Prompt], texts: Sequence[RatedText], attribute: str
    ) -> Iterator[str | dict[str, Any]]:
        numbers = np.arange(self.ends[0], self.ends[1] + 1, dtype=np.float64)
        try:
            answers = label_log_probs(judge, prompts, [f"{number:.0f}" for number in numbers])
        except LabelError as error:
            raise MethodError(
                f"cannot read numbers from {self.scale} out of this judge's probabilities: {error}; such as scale=1-9"
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
            if note := unreported_note(unreported):
                found["reason"] = note
            yield found

    def _limits(self, p: FloatArray, unreported: float, numbers: FloatArray) -> tuple[float, float]:
        """The least and the greatest value, where each of p may be off by as much as is not reported."""
        if self.score_mode == "argmax":
            may_be = numbers[p >= p.max() - 2 * unreported]
            return float(may_be[0]), float(may_be[-1])
        low, high = self.ends
        off = unreported * (high - low)  # so much of p, from one end of the scale to the other
        return max(float(p @ numbers) - off, low), min(float(p @ numbers) + off, high)


KINDS: Mapping[str, Kind] = {
    "direct": Kind(partial(Rating, score_mode="argmax"), "the most probable number from 1 to 5", ("judge",)),
    "g-eval": Kind(partial(Rating, score_mode="expectation"), "the expected number from 1 to 5", ("judge",)),
}
