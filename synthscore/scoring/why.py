"""Why a text stands where it does, in words: one question about the rungs that it stands between.

It is asked after the score, of a judge that also writes, and is no part of the number nor of its signature.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ..engine import Engine, Generation, Progress, Prompt, Sampling, generate
from ..errors import EngineError
from ..io.fields import Item
from ..judging.templates import Templates
from ..ladders.references import References
from ..types import Ladder, Score
from .ladder import find_ladders
from .method import Texts
from .scorer import ScoredBatch

SAMPLING = Sampling(max_new_tokens=160, temperature=0.0, top_p=1.0)


@dataclass(frozen=True, slots=True)
class Explainer:
    """Asks what the better one does better, of each scored text and the rungs below and above it.

    task : a folder with a task.toml, or a name; None: that of each score's ladder
    """

    references: References
    judge: Engine
    task: str | None = None

    def explain(self, batch: ScoredBatch, progress: Progress | None = None) -> list[list[str | None]]:
        """Of each item of the batch, of each of its scores: the reason; None where there is no score, or no ladder.

        raises : EngineError, where not one reason could be written
        """
        items = [item for part in batch.batches for item in part.items]
        reasons: list[list[str | None]] = [[None] * len(rows) for rows in batch.scored.rows]
        templates_of = cache(lambda task: Templates(self.references.find_task(task)))
        asked: list[tuple[int, int]] = []
        prompts: list[Prompt] = []
        for index, (item, rows) in enumerate(zip(items, batch.scored.rows, strict=True)):
            for place, (score, signature) in enumerate(rows):
                task = self.task or signature.part("task")
                attribute = signature.part("attribute")
                if score.value is None or not task or not attribute:
                    continue
                prompt = self._prompt(item, score, templates_of(task), attribute)
                if prompt is not None:
                    asked.append((index, place))
                    prompts.append(prompt)
        texts = generate(self.judge, prompts, SAMPLING, [0] * len(prompts), progress)
        for (index, place), text in zip(asked, texts, strict=True):
            if isinstance(text, Generation):
                reasons[index][place] = " ".join(text.text.split())
        failures = [text for text in texts if isinstance(text, Exception)]
        if texts and len(failures) == len(texts):
            raise EngineError(
                f"no reason could be written: {failures[0]}. Take a judge that writes, or leave --why out"
            )
        return reasons

    def _prompt(self, item: Item, score: Score, templates: Templates, attribute: str) -> Prompt | None:
        texts = Texts(templates=templates, attribute=templates.task.attribute(attribute), items=[item])
        (chosen,) = find_ladders(texts, self.references)
        if isinstance(chosen, str) or score.value is None:
            return None
        worse, better = rungs_around(chosen.ladder, score.value)
        shown = {"worse": worse, "text": item.require_target().text, "better": better}
        return templates.render("why", chosen.context, texts.attribute, **shown)


def rungs_around(ladder: Ladder, value: float) -> tuple[str, str]:
    """The texts of the best rung that is no better than a score, and of the worst that is better; "" where none is."""
    worse = ""
    for rung in ladder.usable:
        position = 1 + rung.fraction * (ladder.scale - 1)
        if position > value:
            return worse, rung.text
        worse = rung.text
    return worse, ""
