"""Texts + judge -> the number that the judge gives each: direct scoring, G-Eval, prompt scoring.

What it answers on a scale of whole numbers is read in one of three ways:

    argmax        the most probable number of the scale; of equally probable ones the lowest
    expectation   sum over k of  k p(k),   p(k) = P(k | prompt) / P(any number of the scale | prompt)
    text          what it writes, greedily: the first whole number on the scale
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ..._version import __version__
from ...engine import Engine, Generation, Prompt, Sampling, generate, label_log_probs
from ...errors import LabelError
from ...io.scores import Scores
from ...judging.asking import Asking
from ...judging.templates import Templates
from ...scoring.paper import sample_verdicts
from ...signature import Signature, text_hash
from ...types import FloatArray, Score
from ..ratings.types import RatedText, Ratings
from .base import ANSWERS, Kind, Method, MethodError, Tools, judge_of, scored, task_of, why_not_asked

WRITING = Sampling(max_new_tokens=10, temperature=0.0)
"""As in the code of arXiv:2307.07889."""


@dataclass(frozen=True, slots=True)
class Rating:
    """Asks for a whole number from low to high, about all texts in one call.

    mode : how the answer is read, see above. template : which file of the set asks
    n_samples : of "expectation": the mean of so many draws from p instead; what is drawn for a text depends on seed and
        on the text's ids and attribute alone
    answers : what counts as one

    `details` hold label_mass, expectation and argmax, whichever of them is the value. Where a server did not tell all
    labels, `low` and `high` are the least and the greatest that the value can be; what is drawn has none.
    """

    low: int
    high: int
    mode: str
    template: str = "rate"
    n_samples: int | None = None
    seed: int = 0
    answers: Asking = Asking()

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        judge = judge_of(tools)
        task, asked = task_of(ratings, attribute)
        templates = Templates(task, tools.templates)
        found: list[float | str | Score] = [*why_not_asked(ratings)]
        # By context: the prompts of one share their beginning.
        rows = sorted((row for row, why in enumerate(found) if not why), key=lambda row: ratings.texts[row].context_id)
        texts = [ratings.texts[row] for row in rows]
        rate = partial(templates.rate, attribute=asked, low=self.low, high=self.high, template=self.template)
        prompts = [rate(ratings.contexts[text.context_id], text=text.text) for text in texts]
        read = self._written(judge, prompts) if self.mode == "text" else self._told(judge, prompts, texts, attribute)
        for row, text, answer in zip(rows, texts, read, strict=True):
            found[row] = answer if isinstance(answer, str) else Score(text.id, text.context_id, attribute, **answer)
        drawn = "" if self.n_samples is None else f",samples={self.n_samples},seed={self.seed}"
        signature = Signature.of(synthscore=__version__, **dict(judge.signature.parts)).with_(
            template=f"{templates.name}/{self.template}@{templates.hash(self.template)}",
            labels=f"{self.low}..{self.high}",
            task=task.name,
            attribute=asked.name,
            scoring=self.mode + drawn,
        )
        return scored(ratings, attribute, found, signature)

    def _told(
        self, judge: Engine, prompts: Sequence[Prompt], texts: Sequence[RatedText], attribute: str
    ) -> Iterator[str | dict[str, Any]]:
        """By the probabilities of the numbers: what a Score is made of, or why there is none."""
        numbers = np.arange(self.low, self.high + 1, dtype=np.float64)
        try:
            answers = label_log_probs(judge, prompts, [f"{number:.0f}" for number in numbers])
        except LabelError as error:
            raise MethodError(
                f"cannot read numbers from {self.low} to {self.high} out of this judge's probabilities: {error}; such "
                "as scale=1-9. Or take what it writes: prompt-scoring:score_mode=text"
            ) from error
        failures = self.answers.unanswered(answers)
        columns = (answers.probs, answers.unreported.tolist(), answers.label_mass.tolist())
        for row, (text, p, slack, mass) in enumerate(zip(texts, *columns, strict=True)):
            if row in failures:
                yield failures[row]
                continue
            argmax, expectation = float(numbers[p.argmax()]), float(p @ numbers)
            found: dict[str, Any] = {"value": argmax if self.mode == "argmax" else expectation}
            found["details"] = {"label_mass": mass, "expectation": expectation, "argmax": argmax}
            if self.n_samples is not None:
                name = text_hash(text.id, text.context_id, attribute)
                rng = np.random.default_rng([self.seed, int(name[:16], 16)])
                found["value"] = float(sample_verdicts(p, self.n_samples, rng) @ numbers)
            elif slack:
                found["low"], found["high"] = self._limits(p, slack, numbers)
            if slack:
                found["reason"] = "the server did not report all labels"
            yield found

    def _limits(self, p: FloatArray, slack: float, numbers: FloatArray) -> tuple[float, float]:
        """The least and the greatest value, where each of p may be off by slack."""
        if self.mode == "argmax":
            may_be = numbers[p >= p.max() - 2 * slack]
            return float(may_be[0]), float(may_be[-1])
        off = slack * (self.high - self.low)  # so much of p, from one end of the scale to the other
        return max(float(p @ numbers) - off, self.low), min(float(p @ numbers) + off, self.high)

    def _written(self, judge: Engine, prompts: Sequence[Prompt]) -> Iterator[str | dict[str, Any]]:
        for written in generate(judge, prompts, WRITING, [0] * len(prompts)):
            if not isinstance(written, Generation):
                yield str(written)
            elif (number := first_number(written.text, self.low, self.high)) is None:
                yield f"the judge wrote {written.text!r:.60}, expected a whole number from {self.low} to {self.high}"
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


# ------------------------------------------------------------------------------------------------- kinds


def direct(*, score_mode: str = "argmax", **options: Any) -> Method:
    """The one number that the judge gives."""
    return _rating("direct", score_mode, ("argmax", "text"), **options)


def g_eval(*, samples: int | None = None, seed: int | None = None, **options: Any) -> Method:
    """The mean of the numbers that the judge may give."""
    if seed is not None and samples is None:
        raise MethodError(f"cannot make g-eval: seed={seed} does nothing where nothing is drawn. Say samples=N, too")
    if (samples is not None and samples < 1) or (seed is not None and seed < 0):
        raise MethodError(f"cannot make g-eval: samples is {samples}, seed {seed}, expected samples >= 1, seed >= 0")
    return _rating("g-eval", "expectation", ("expectation",), n_samples=samples, seed=seed or 0, **options)


def prompt_scoring(*, score_mode: str = "text", scale: str = "1-10", **options: Any) -> Method:
    """The number that the judge writes."""
    return _rating("prompt-scoring", score_mode, ("text", "argmax", "expectation"), scale, **options)


def _rating(kind: str, mode: str, modes: Sequence[str], scale: str = "1-5", **options: Any) -> Rating:
    ends = re.fullmatch(r"(\d+)-(\d+)", scale)
    low, high = (int(end) for end in ends.groups()) if ends else (0, 0)
    if not low < high:
        raise MethodError(f"cannot make {kind}: scale is {scale!r}, expected LOW-HIGH, such as 1-5", scale=scale)
    if mode not in modes:
        raise MethodError(f"cannot make {kind}: score_mode is {mode!r}, expected one of {', '.join(modes)}", mode=mode)
    if mode == "text" and (given := options.keys() & ANSWERS.keys()):
        raise MethodError(
            f"cannot make {kind}: {', '.join(sorted(given))} does nothing with score_mode=text. Leave it out"
        )
    answers = Asking(**{name: options.pop(name) for name in ANSWERS.keys() & options.keys()})
    return Rating(low, high, mode, answers=answers, **options)


_SCALE: Mapping[str, Callable[[str], object]] = {"scale": str, "template": str, **ANSWERS}

KINDS: Mapping[str, Kind] = {
    "direct": Kind(direct, "the most probable number from 1 to 5", ("judge",), {**_SCALE, "score_mode": str}),
    "g-eval": Kind(g_eval, "the expected number from 1 to 5", ("judge",), {**_SCALE, "samples": int, "seed": int}),
    "prompt-scoring": Kind(
        prompt_scoring, "the number from 1 to 10 that the judge writes", ("judge",), {**_SCALE, "score_mode": str}
    ),
}
