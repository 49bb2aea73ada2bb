"""An engine that counts what a model is really asked, and one that shows how far it is."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..engine import Answers, Engine, Generation, Progress, Question
from ..signature import Signature
from .messages import Messages
from .talk import counted, spaced


class Metered:
    """An engine that counts the questions that a model really judges, its tokens and its time."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.n_asked = self.tokens_naive = self.tokens_computed = 0
        self.seconds = 0.0

    @property
    def signature(self) -> Signature:
        return self.engine.signature

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        start = time.perf_counter()
        answers = self.engine.answer(questions, progress)
        seconds = time.perf_counter() - start
        if n_judged := sum(not isinstance(row, Exception | Generation) for row in answers.rows):
            self.n_asked, self.seconds = self.n_asked + n_judged, self.seconds + seconds
        self.tokens_naive += answers.tokens_naive
        self.tokens_computed += answers.tokens_computed
        return answers

    def saved(self) -> float | None:
        """The share of all prompts' tokens that the model did not have to run over; None where that is not known."""
        return 1 - self.tokens_computed / self.tokens_naive if self.tokens_computed else None

    @property
    def cost(self) -> str:
        """In words; "" where nothing was asked."""
        if not self.n_asked:
            return ""
        rate = self.n_asked / max(self.seconds, 1e-9)
        asked = f"{counted(self.n_asked, 'question')} asked now, {rate:{',.0f' if rate >= 100 else '.2g'}} a second"
        if not self.tokens_computed:
            return asked
        return f"{asked}: {counted(self.tokens_computed, 'token')} run over instead of {spaced(self.tokens_naive)}"


class Watched:
    """An engine whose calls show a progress bar, and that counts what it is asked.

    meter : what the model behind the store was asked; without a store, nothing is counted
    n_judged : questions asked so far, answered from the store or not
    """

    def __init__(self, engine: Engine, messages: Messages, meter: Metered | None = None) -> None:
        self.engine, self.messages, self.meter = engine, messages, meter or Metered(engine)
        self.n_judged = 0

    @property
    def signature(self) -> Signature:
        return self.engine.signature

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        n_judged = sum(question.kind != "text" for question in questions)
        self.n_judged += n_judged
        if progress is not None or n_judged < len(questions):  # who writes has a bar of their own
            return self.engine.answer(questions, progress)
        unit = "questions" if questions and questions[0].kind == "labels" else "texts"
        with self.messages.bar(len(questions), unit, self.meter.saved) as shown:
            return self.engine.answer(questions, shown)
