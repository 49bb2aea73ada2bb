"""An engine that counts what a model is really asked, and one that shows how far it is."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..engine import Engine, Generation, LabelLogProbs, Progress, Prompt, Sampling
from ..signature import Signature
from ..types import FloatArray
from .messages import Messages
from .talk import counted, spaced


class Metered:
    """An engine that counts the questions that a model is really asked, its tokens and its time."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.generate = engine, engine.generate
        self.n_asked = self.tokens_naive = self.tokens_computed = 0
        self.seconds = 0.0

    @property
    def signature(self) -> Signature:
        return self.engine.signature

    def label_log_probs(
        self, prompts: Sequence[Prompt], labels: Sequence[str], progress: Progress | None = None
    ) -> LabelLogProbs:
        start = time.perf_counter()
        answers = self.engine.label_log_probs(prompts, labels, progress)
        self.seconds += time.perf_counter() - start
        self.n_asked += len(prompts) - len(answers.failures)
        self.tokens_naive += answers.tokens_naive
        self.tokens_computed += answers.tokens_computed
        return answers

    def token_log_probs(
        self, prompts: Sequence[Prompt], continuations: Sequence[str], progress: Progress | None = None
    ) -> list[FloatArray | Exception]:
        start = time.perf_counter()
        answers = self.engine.token_log_probs(prompts, continuations, progress)
        self.seconds += time.perf_counter() - start
        self.n_asked += sum(not isinstance(answer, Exception) for answer in answers)
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

    def label_log_probs(
        self, prompts: Sequence[Prompt], labels: Sequence[str], progress: Progress | None = None
    ) -> LabelLogProbs:
        self.n_judged += len(prompts)
        if progress is not None:
            return self.engine.label_log_probs(prompts, labels, progress)
        with self.messages.bar(len(prompts), "questions", self.meter.saved) as shown:
            return self.engine.label_log_probs(prompts, labels, shown)

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int], progress: Progress | None = None
    ) -> list[Generation | Exception]:
        return self.engine.generate(prompts, sampling, seeds, progress)

    def token_log_probs(
        self, prompts: Sequence[Prompt], continuations: Sequence[str], progress: Progress | None = None
    ) -> list[FloatArray | Exception]:
        self.n_judged += len(prompts)
        if progress is not None:
            return self.engine.token_log_probs(prompts, continuations, progress)
        with self.messages.bar(len(prompts), "texts", self.meter.saved) as shown:
            return self.engine.token_log_probs(prompts, continuations, shown)
