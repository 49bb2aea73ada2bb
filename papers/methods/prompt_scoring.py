"""Prompt scoring (arXiv:2307.07889): the first whole number on a scale that a judge writes, greedily."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from synthscore.engine import Engine, Generation, Progress, Prompt, Sampling, generate
from synthscore.io.fields import Item
from synthscore.io.settings import Count, Seed, Share
from synthscore.scoring.method import require_options
from synthscore.scoring.methods import MethodKind
from synthscore.scoring.methods.grading import Direct, GEval, Grading

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
) -> Grading:
    """What is written; or read off the probabilities, as g-eval and direct are."""
    drawn, limited = bool(samples or seed), (min_mass, max_unreported) != (0.01, 0.02)
    wrong = {
        f"samples and seed do nothing with score_mode={score_mode}. Leave them out": drawn
        and score_mode != "expectation",
        "min_mass and max_unreported do nothing with score_mode=text. Leave them out": limited and score_mode == "text",
    }
    require_options("a rating", wrong)
    if score_mode == "expectation":
        return GEval(scale, template, min_mass, max_unreported, samples=samples, seed=seed)
    if score_mode == "argmax":
        return Direct(scale, template, min_mass, max_unreported)
    return Written(scale, template)


@dataclass(frozen=True, slots=True)
class Written(Grading):
    """The number that the judge writes, and nothing else of its answer."""

    scale: str = "1-10"
    template: str = "rate"

    def __post_init__(self) -> None:
        _ = self.ends

    @property
    def name(self) -> str:
        return "text"

    def read(
        self, judge: Engine, prompts: Sequence[Prompt], items: Sequence[Item], attribute: str, progress: Progress | None
    ) -> list[str | dict[str, Any]]:
        low, high = self.ends
        made: list[str | dict[str, Any]] = []
        for written in generate(judge, prompts, WRITING, [0] * len(prompts), progress):
            if not isinstance(written, Generation):
                made.append(str(written))
            elif (number := first_number(written.text, low, high)) is None:
                made.append(f"the judge wrote {written.text!r:.60}, expected a whole number from {low} to {high}")
            else:
                made.append({"value": float(number)})
        return made


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


PROMPT_SCORING = MethodKind(prompt_scoring, "the number from 1 to 10 that the judge writes", ("judge",))
