"""A row of scores + a store of answers -> what the judge was asked about the text, and what it answered.

Prompts are made again, from the ladder, the text and the package's own templates, and looked up: nothing that a row
names is opened, and nobody is asked. Rows of other templates, and answers in words, are not found.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import NamedTuple

from ..engine import LabelAnswer, Question
from ..errors import SynthscoreError
from ..judging.asking import PROTOCOLS, Pair, ProtocolName, labels_of, prompt_of
from ..judging.templates import TEMPLATE_SETS, Templates
from ..signature import Signature
from ..store.engine import look_up, recorded_capabilities
from ..store.file import Store
from .read import Run, ScoreRow


class Exchange(NamedTuple):
    """One question about a text and the rung of this level, or, swapped, about the rung; and its answer.

    probs : label -> its probability. rather : what was likelier than the labels, or ""
    """

    level: int
    swapped: bool
    prompt: str
    probs: dict[str, float]
    rather: str


class Exchanges:
    """Those of a run's rows.

    file : a store of answers, which is only read
    raises : StoreError where it is none
    """

    def __init__(self, run: Run, file: str | os.PathLike[str]) -> None:
        self._run = run
        self._store = Store(file, create=False)
        engines = dict.fromkeys(batch.engine for batch in self._store.batches())
        self._engines = [Signature.parse(engine) for engine in engines]
        self._templates: dict[tuple[str, str], Templates] = {}

    def find(self, row: ScoreRow) -> list[Exchange]:
        """Of a row, worst rung first; empty where the store has none, or what was asked cannot be made again."""
        engine = self._engine_of(row.signature)
        if engine is None:
            return []
        try:
            asked = list(self._questions(row))
        except SynthscoreError:  # of a task or template that is not at hand
            return []
        keys = [question.key(str(engine)) for _, _, question in asked]
        answers = look_up(self._store, keys, [question for *_, question in asked], recorded_capabilities(engine))
        found = []
        for key, (level, swapped, question) in zip(keys, asked, strict=True):
            answer = answers.get(key)
            if isinstance(answer, LabelAnswer):
                probs = dict(zip(question.labels, map(math.exp, answer.log_probs), strict=True))
                rather = "" if answer.other_token is None else answer.other_token.token
                found.append(Exchange(level, swapped, question.prompt.text + question.prompt.prefill, probs, rather))
        return found

    def _engine_of(self, signature: Signature) -> Signature | None:
        """The engine of the store whose every part the score's signature has, the most of them."""
        parts = set(signature.parts)
        fitting = [engine for engine in self._engines if set(engine.parts) <= parts]
        return max(fitting, key=lambda engine: len(engine.parts), default=None)

    def _questions(self, row: ScoreRow) -> Iterator[tuple[int, bool, Question]]:
        """Level of the rung, whether the question is about it, and the question."""
        run, (score, signature) = self._run, row
        ladder, text = run.ladder(row), run.texts.get(score.id)
        protocol = signature.part("protocol")
        if ladder is None or ladder.context is None or ladder.context_id != score.context_id or text is None:
            return
        if protocol not in PROTOCOLS:
            return
        name: ProtocolName = protocol  # type: ignore[assignment]
        templates = self._templates_of(ladder.task, signature.part("template").rpartition("/")[0])
        if templates is None:
            return
        labels = labels_of(name, templates.task)
        sides = (False, True) if name == "yes_no_two_sided" else (False,)
        orders = (False, True) if signature.part("orders").startswith("2") else (False,)
        for rung in ladder.usable:
            pair = Pair(ladder.context, ladder.attribute, text.text, rung.text)
            for swapped in orders:
                for worse in sides:
                    prompt = prompt_of(pair, templates, name, swapped=swapped, worse=worse)
                    yield rung.level, swapped, Question(prompt, labels)

    def _templates_of(self, task: str, name: str) -> Templates | None:
        """None for a folder of somebody's own, which a row of a file may name and nobody here has typed."""
        if name not in TEMPLATE_SETS or self._run.references is None:
            return None
        if (task, name) not in self._templates:
            self._templates[task, name] = Templates(self._run.references.find_task(task), name)
        return self._templates[task, name]
