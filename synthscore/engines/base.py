"""The contract of an engine: whole prompts in, exact numbers out, in the order given.

Callers pass as many prompts as they like, in any order; sharing, batching and memory are the engine's business.
A row that cannot be answered fails alone, with a reason; the others are answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from ..types import FloatArray, Generation, LabelLogProbs, Prompt, Sampling, Signature

Progress = Callable[[int], None]
"""Called with the number of prompts that have just been answered."""


@runtime_checkable
class Engine(Protocol):
    """A model that judges and writes."""

    @property
    def signature(self) -> Signature:
        """Model, revision, dtype, backend and their versions: whatever can change an answer."""
        ...

    def label_log_probs(
        self, prompts: Sequence[Prompt], labels: Sequence[str], progress: Progress | None = None
    ) -> LabelLogProbs:
        """Exact log P(label | prompt) for each label, any number of tokens, over the full vocabulary.

        Each label stands for its surface forms ("Better", " Better"), which are distinct token sequences, none a prefix
        of another; their probabilities are added. raises LabelError when labels collide or cannot be said.
        """
        ...

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int], progress: Progress | None = None
    ) -> list[Generation | Exception]:
        """One text a prompt; row i is drawn with seeds[i] alone. A row that fails holds its EngineError."""
        ...

    def token_log_probs(
        self, prompts: Sequence[Prompt], continuations: Sequence[str], progress: Progress | None = None
    ) -> list[FloatArray | Exception]:
        """log P(token | prompt, tokens before it) of each token of continuations[i] as the answer to prompts[i], nats,
        float64, over the full vocabulary, without the token that ends a text.

        A continuation is plain text: no control token arises from it. Prompt and continuation are tokenised as one
        string; where the tokenizer merges across their border, the continuation by itself, with a warning. A row that
        fails holds its EngineError: an empty continuation, or one for which there is no room behind its prompt.
        """
        ...
