"""The contract of an engine: whole prompts in, exact numbers out, in the order given.

Callers pass as many prompts as they like, in any order; sharing, batching and memory are the engine's business.
A row that cannot be answered fails alone, with a reason; the others are answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from ..types import Generation, LabelLogProbs, Prompt, Sampling, Signature

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
