"""Texts + model -> how probable the model finds each, token by token: GPTScore and BARTScore.

    score = 1/m sum_i log P(t_i | prompt, t_<i)         nats per token; at most 0, higher is better

The direction says what t is, and what the prompt gives:

    source-to-text      the text, given its context
    text-to-reference   the reference, given the text: does the text say what the reference says?
    reference-to-text   the text, given the reference: does it say nothing else?
    f, harmonic         arithmetic and harmonic mean of the last two

GPTScore (arXiv:2302.04166) asks, by a template, for a text that is good in the attribute; BARTScore (arXiv:2106.11520)
gives the context or the text as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np

from synthscore.engine import Prompt, token_log_probs
from synthscore.evaluation.methods.base import by_context, scored, signed, task_of, why_not_asked
from synthscore.evaluation.methods.overlap_metrics import Which, reference_texts
from synthscore.evaluation.ratings import Ratings
from synthscore.io.scores import Scores
from synthscore.judging.templates import Templates
from synthscore.scoring.method import MethodError, Tools
from synthscore.scoring.methods import MethodKind
from synthscore.types import Context, FloatArray, Score

Direction = Literal["source-to-text", "text-to-reference", "reference-to-text", "f", "harmonic"]
SOURCE, RECALL, PRECISION = "source-to-text", "text-to-reference", "reference-to-text"
DIRECTIONS: Mapping[str, tuple[str, ...]] = {
    SOURCE: (SOURCE,),
    RECALL: (RECALL,),
    PRECISION: (PRECISION,),
    "f": (RECALL, PRECISION),
    "harmonic": (RECALL, PRECISION),
}
"""Direction -> those that are read for it."""

Reading = tuple[str | None, str]
"""The text that the prompt gives, None for the context; and the text that is read."""


@dataclass(frozen=True, slots=True)
class Likelihood:
    """Reads all texts in one call, without the token that ends a text.

    instructed : by a template (GPTScore)
    direction : see above. references, system, own : see reference_texts; the reference with the highest score counts

    `details` hold n_tokens and sum of what was read; where two directions were, the score of each instead; and where
    there were several references, `reference`: the number of the one that counts, from 1.
    """

    instructed: bool
    direction: Direction = "source-to-text"
    references: Which = "first"
    system: str = ""
    own: bool = False

    def __post_init__(self) -> None:
        if self.direction == SOURCE and (self.references != "first" or self.system or self.own):
            raise MethodError(
                f"cannot read {SOURCE} with references, system or own: it compares no text with a reference. Leave "
                f"them out, or name another direction: {', '.join(list(DIRECTIONS)[1:])}"
            )

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        judge = tools.require_judge()
        ask, said = self._asking(ratings, attribute, tools)
        found: list[float | str | Score] = [""] * len(ratings)
        readings: dict[int, list[Reading]] = {}
        for row, wanted in enumerate(self._readings(ratings)):
            if isinstance(wanted, str):
                found[row] = wanted
            else:
                readings[row] = wanted
        rows = by_context(ratings, readings)
        contexts = [ratings.contexts[ratings.texts[row].context_id] for row in rows for _ in readings[row]]
        asked = [reading for row in rows for reading in readings[row]]
        prompts = [ask(context, given) for context, (given, _) in zip(contexts, asked, strict=True)]
        read = iter(token_log_probs(judge, prompts, [text for _, text in asked]))
        for row in rows:
            text, answer = ratings.texts[row], self._score(list(islice(read, len(readings[row]))))
            found[row] = answer if isinstance(answer, str) else Score(text.id, text.context_id, attribute, **answer)
        how = f"{'gptscore' if self.instructed else 'bartscore'},{self.direction}"
        if self.direction != SOURCE:
            how += f",references={f'system {self.system}' if self.system else self.references}"
        signature = signed(judge, **said, scoring=how)
        return scored(ratings, attribute, found, signature)

    def _asking(
        self, ratings: Ratings, attribute: str, tools: Tools
    ) -> tuple[Callable[[Context, str | None], Prompt], dict[str, str]]:
        """What makes a prompt of a context and the text that is given; and what the signature says of it."""
        if not self.instructed:
            return lambda context, given: Prompt(context.text if given is None else given), {"template": "none"}
        task, asked = task_of(ratings, attribute, tools.references)
        templates = Templates(task, tools.asking.prompts)

        def ask(context: Context, given: str | None) -> Prompt:
            if given is None:
                return templates.render("likelihood", context, asked)
            return templates.render("paraphrase", context, asked, given=given)

        name = "likelihood" if self.direction == SOURCE else "paraphrase"
        template = f"{templates.name}/{name}@{templates.hash(name)}"
        return ask, {"template": template, "task": task.name, "attribute": asked.name}

    def _readings(self, ratings: Ratings) -> Iterator[list[Reading] | str]:
        """What to read for each text: for each reference each direction; or why it cannot be scored."""
        if self.direction == SOURCE:
            for text, why in zip(ratings, why_not_asked(ratings), strict=True):
                yield why or [(None, text.text)]
            return
        references = reference_texts(ratings, self.references, self.system, self.own)
        for text, why, against in zip(ratings, why_not_asked(ratings), references, strict=True):
            if why or isinstance(against, str):
                yield why or str(against)
            else:
                yield [
                    (text.text, reference) if direction == RECALL else (reference, text.text)
                    for reference in against
                    for direction in DIRECTIONS[self.direction]
                ]

    def _score(self, read: Sequence[FloatArray | Exception]) -> str | dict[str, Any]:
        """What a Score is made of, or why there is none. read : as _readings has it"""
        means = []
        for tokens in read:
            if isinstance(tokens, Exception):
                return str(tokens)
            if np.isneginf(tokens).any():
                place = int(np.isneginf(tokens).argmax()) + 1
                return f"the model holds token {place} of {len(tokens)} for impossible, so that they have no mean"
            means.append(float(tokens.mean()))
        directions = DIRECTIONS[self.direction]
        by_reference = np.array(means).reshape(-1, len(directions))
        values = by_reference.mean(axis=1)
        if self.direction == "harmonic":
            product, total = by_reference.prod(axis=1), by_reference.sum(axis=1)
            values = np.divide(2 * product, total, out=np.zeros_like(total), where=total != 0)
        best = int(values.argmax())
        details = dict(zip((name.replace("-", "_") for name in directions), by_reference[best].tolist(), strict=True))
        if len(directions) == 1:
            tokens = read[best]
            assert not isinstance(tokens, Exception)
            details = {"n_tokens": float(len(tokens)), "sum": float(tokens.sum())}
        if len(values) > 1:
            details["reference"] = best + 1.0
        return {"value": float(values[best]), "details": details}


GPTSCORE = MethodKind(
    Likelihood,
    "mean log-probability of the text's tokens, behind an instruction",
    ("judge",),
    fixed={"instructed": True},
)
BARTSCORE = MethodKind(
    Likelihood,
    "mean log-probability of the text's tokens, behind the bare context",
    ("judge",),
    fixed={"instructed": False},
)
