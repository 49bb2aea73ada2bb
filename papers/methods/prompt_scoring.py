"""Prompt scoring (arXiv:2307.07889): the first whole number on a scale that a judge writes.

The paper's text says temperature 1 and at most 5 tokens, its code writes greedily, at most 10: the default here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from synthscore.engine import Engine, Generation, Progress, Prompt, Sampling, generate
from synthscore.io.fields import Item
from synthscore.io.settings import Count, Seed, Share, Span
from synthscore.scoring.method import require_options
from synthscore.scoring.methods import MethodKind
from synthscore.scoring.methods.grading import Direct, GEval, Grading
from synthscore.signature import seeded_rng

Temperature = Annotated[float, Span(0)]


def prompt_scoring(
    score_mode: Literal["text", "argmax", "expectation"] = "text",
    scale: str = "1-10",
    template: str = "rate",
    temperature: Temperature | None = None,
    max_new_tokens: Count | None = None,
    samples: Count | None = None,
    seed: Seed = 0,
    min_mass: Share = 0.01,
    max_unreported: Share = 0.02,
) -> Grading:
    """What is written; or read off the probabilities, as g-eval and direct are."""
    writes, limited = score_mode == "text", (min_mass, max_unreported) != (0.01, 0.02)
    wrong = {
        f"samples does nothing with score_mode={score_mode}. Leave it out": samples and score_mode != "expectation",
        f"seed does nothing with score_mode={score_mode}. Leave it out": seed and score_mode == "argmax",
        f"seed={seed} does nothing where nothing is drawn. Say temperature=T, too": seed and writes and not temperature,
        f"temperature and max_new_tokens do nothing with score_mode={score_mode}. Leave them out": not writes
        and (temperature is not None or max_new_tokens is not None),
        "min_mass and max_unreported do nothing with score_mode=text. Leave them out": limited and score_mode == "text",
    }
    require_options("a rating", wrong)
    if score_mode == "expectation":
        return GEval(scale, template, min_mass, max_unreported, samples=samples, seed=seed)
    if score_mode == "argmax":
        return Direct(scale, template, min_mass, max_unreported)
    return Written(scale, template, temperature or 0.0, max_new_tokens or 10, seed)


@dataclass(frozen=True, slots=True)
class Written(Grading):
    """The number that the judge writes, and nothing else of its answer.

    temperature : 0 writes greedily; else all tokens may be drawn (top_p is 1), and what is drawn for a text depends on
        seed and on the text's ids and attribute alone
    """

    scale: str = "1-10"
    template: str = "rate"
    temperature: float = 0.0
    max_new_tokens: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        _ = self.ends

    @property
    def name(self) -> str:
        drawn = {"temperature": f"{self.temperature:g}", "seed": self.seed} if self.temperature else {}
        length = {"max_new_tokens": self.max_new_tokens} if self.max_new_tokens != 10 else {}
        return ",".join(["text", *(f"{name}={value}" for name, value in {**drawn, **length}.items())])

    def read(
        self, judge: Engine, prompts: Sequence[Prompt], items: Sequence[Item], attribute: str, progress: Progress | None
    ) -> list[str | dict[str, Any]]:
        low, high = self.ends
        sampling = Sampling(self.max_new_tokens, temperature=0.0)
        seeds = [0] * len(prompts)
        if self.temperature:
            sampling = Sampling(self.max_new_tokens, self.temperature, top_p=1.0)
            seeds = [_seed(self.seed, item, attribute) for item in items]
        made: list[str | dict[str, Any]] = []
        for written in generate(judge, prompts, sampling, seeds, progress):
            if not isinstance(written, Generation):
                made.append(str(written))
            elif (number := first_number(written.text, low, high)) is None:
                made.append(f"the judge wrote {written.text!r:.60}, expected a whole number from {low} to {high}")
            else:
                made.append({"value": float(number)})
        return made


def _seed(seed: int, item: Item, attribute: str) -> int:
    return int(seeded_rng(seed, item.id, item.context_id, attribute).integers(2**31))


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
