"""Causal language models of transformers as engines: exact label log-probabilities, and texts."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from ...engine import Answer, Sampling
from ...errors import SynthscoreWarning
from ...types import FloatArray
from ..loading import CHECK_TEXT, disagreement, max_length, stop_ids
from ..local import MAX_ROWS, LocalEngine, Questions, Readings, TokenIds
from ..tokens import PromptTokenizer
from . import writing
from .forward import Forward


class CausalEngine(LocalEngine):
    """A causal language model that judges and writes. backend : how prompts are run (forward.py)"""

    auto_class = AutoModelForCausalLM
    kind = "a causal language model"
    alone = "exact"
    usual = 2048

    def _prepare(self, tokenizer: Any, backend: str) -> str:
        self.prompts = PromptTokenizer(tokenizer, max_length(self.model.config, tokenizer))
        self._stop_ids = stop_ids(self.model, tokenizer)
        self._forward = Forward(
            self.model,
            name=self.name,
            max_length=self.prompts.max_length,
            max_tokens=self.max_tokens,
            check_ids=tokenizer(CHECK_TEXT, add_special_tokens=False)["input_ids"],
            backend=backend,
        )
        return self._forward.backend

    def _next_log_probs(self, asked: Questions) -> Iterator[tuple[Sequence[int], torch.Tensor, int]]:
        return self._forward.next_log_probs(asked.sequences)

    def _token_log_probs(self, asked: Readings) -> Iterator[tuple[int, FloatArray]]:
        """Backend cascade runs over what rows begin with in common once; no other shares."""
        return self._forward.token_log_probs(asked.sequences, asked.n_starts)

    def _written(
        self, prompts: Sequence[TokenIds], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[list[int], Sequence[Answer]]]:
        most, max_length = sampling.max_new_tokens, self.prompts.max_length

        def n_rows(n_tokens: int) -> int:
            """Beside others, a finished text would run past the end of the context."""
            n_tokens += most
            return 1 if n_tokens > max_length else min(self._n_rows, 4 * self.max_tokens // n_tokens)

        for batch in writing.batches(prompts, n_rows):
            beside = [prompts[row] for row in batch]
            limits = [min(most, max_length - len(ids)) for ids in beside]
            inputs, own = writing.padded_left(beside, self.model.device), [seeds[row] for row in batch]
            yield batch, writing.write(self.model, inputs, limits, sampling, own, self._stop_ids, self.prompts.decode)

    @cached_property
    def _n_rows(self) -> int:
        """Texts side by side: one, if padding on the left or the cache changes the numbers."""
        if self.backend == "exact":
            return 1
        prompts = self._forward.check_sequences[::2]
        token = int(prompts[0][0])
        plain = self._forward.table([*prompts, *(np.append(prompt, np.int32(token)) for prompt in prompts)], "exact")
        try:
            inputs = writing.padded_left(prompts, self.model.device)
            logits = writing.generated(self.model, inputs, 2, lambda ids, scores: [token] * len(ids)).logits
            problem = disagreement(torch.cat(logits).log_softmax(-1), plain, self.model.dtype)
        except Exception as error:
            problem = f"its forward fails on them ({type(error).__name__}: {str(error)[:200]})"
        if not problem:
            return MAX_ROWS
        warnings.warn(
            f"{self.name}: texts are written one at a time, which is slower, because side by side {problem}",
            SynthscoreWarning,
            stacklevel=5,
        )
        return 1
