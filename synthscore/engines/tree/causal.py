"""Causal language models of transformers as engines: exact label log-probabilities, and texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from transformers import AutoModelForCausalLM

from ...engine import Answer, Answers, Progress, Question, Sampling
from ..labels import Questions, Readings, TokenIds
from ..loading import LocalEngine, max_length, stop_ids
from ..tokens import PromptTokenizer
from .forward import Forward
from .writing import Writer


class CausalEngine(LocalEngine):
    """A causal language model that judges and writes. backend : how prompts are run (forward.py)"""

    auto_class = AutoModelForCausalLM
    kind = "a causal language model"
    alone = "exact"
    usual = 2048

    def _prepare(self, tokenizer: Any, backend: str) -> str:
        self.prompts = PromptTokenizer(tokenizer, max_length(self.model.config, tokenizer))
        self._forward = Forward(
            self.model,
            name=self.name,
            max_length=self.prompts.max_length,
            max_tokens=self.max_tokens,
            check_ids=tokenizer(_CHECK_TEXT, add_special_tokens=False)["input_ids"],
            backend=backend,
        )
        self._writer = Writer(self._forward, stop_ids(self.model, tokenizer), self.prompts.decode)
        return self._forward.backend

    def _judge(self, asked: Sequence[Question], progress: Progress | None) -> Answers:
        """log P(label | prompt), the whole label, summed over its surface forms, over the full vocabulary.

        log P(label) = log sum_form exp( sum_t log p(form_t | prompt, form_<t) )
        """
        questions = Questions(asked, self.prompts, self.name, progress)
        for group, log_probs, n_tokens in (
            self._forward.next_log_probs(questions.sequences) if questions.sequences else ()
        ):
            if not group:
                questions.tokens_computed += n_tokens
                continue
            questions.add(group, log_probs, n_tokens)
        return questions.answers()

    def _written(
        self, prompts: Sequence[TokenIds], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[list[int], Sequence[Answer]]]:
        return self._writer.written(prompts, sampling, seeds)

    def _read(self, asked: Sequence[Question], progress: Progress | None) -> Answers:
        """Backend cascade runs over what rows begin with in common once; no other shares."""
        readings = Readings(asked, self.prompts, self.name, progress)
        for place, log_probs in self._forward.token_log_probs(readings.sequences, readings.n_starts):
            readings.add(place, log_probs)
        return readings.answers()


_CHECK_TEXT = """
Which of two summaries is better? A storm closed the harbour on Monday, and forty boats stayed in port. The mayor said
that repairs would take 3 weeks; fishermen expect to lose a third of their income. Nobody was hurt. Schools open again.
Summary 1: The harbour is closed after a storm. Summary 2: It rained. Answer with one word, "Better" or "Worse".
"""
