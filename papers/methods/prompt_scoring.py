"""Prompt scoring (arXiv:2307.07889): the first whole number on a scale that a judge writes, greedily."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from synthscore.engine import Engine, Generation, Prompt, Sampling, generate
from synthscore.evaluation.methods.base import Count, Kind, Method, Seed, Share, Tools, require
from synthscore.evaluation.methods.rating import Rating, rated, scale_ends
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.io.scores import Scores

WRITING = Sampling(max_new_tokens=10, temperature=0.0)
"""As in the paper's code."""


def prompt_scoring(
    score_mode: Literal["text", "argmax", "expectation"] = "text",
    scale: str = "1-10",
    template: str = "rate",
    samples: Count | None = None,
    seed: Seed = 0,
    min_mass: Share = 0.01,
    max_unreported: Share = 0.02,
) -> Method:
    """What is written; or read off the probabilities, as g-eval and direct are."""
    if score_mode != "text":
        return Rating(score_mode, scale, template, samples, seed, min_mass, max_unreported)
    limits = (min_mass, max_unreported) != (0.01, 0.02)
    require(
        "a rating",
        {
            "samples and seed do nothing with score_mode=text. Leave them out": samples or seed,
            "min_mass and max_unreported do nothing with score_mode=text. Leave them out": limits,
        },
    )
    return Written(scale_ends(scale), template)


@dataclass(frozen=True, slots=True)
class Written:
    """ends : of the scale. template : which file of the set asks"""

    ends: tuple[int, int]
    template: str = "rate"

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        return rated(ratings, attribute, tools, self.ends, self.template, "text", self._read)

    def _read(
        self, judge: Engine, prompts: Sequence[Prompt], texts: Sequence[RatedText], attribute: str
    ) -> Iterator[str | dict[str, Any]]:
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
    "prompt-scoring": Kind(prompt_scoring, "the number from 1 to 10 that the judge writes", ("judge",)),
}
