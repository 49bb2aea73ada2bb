"""Prompts and continuations -> the token sequences to run, and what was read -> rows. No model, no torch.

A continuation is read as a label is, but for all of its tokens: the sequence is run once, and what is read there is the
log-probability of each token after those before it.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from ..engine import Answer, Answers, Progress, Question
from ..errors import EngineError, SynthscoreWarning
from ..types import FloatArray
from .labels import NOT_NUMBERS, TokenIds
from .tokens import PromptTokenizer


class Readings:
    """What to run so that all continuations are read, and what has been found.

    sequences : int32; prompts with their continuations behind them, each once
    n_starts : for each, how many of its tokens are the prompt's
    A row that cannot be read has its error.
    """

    def __init__(
        self,
        asked: Sequence[Question],
        tokenizer: PromptTokenizer,
        name: str,
        progress: Progress | None,
    ) -> None:
        self._progress = progress
        self._answers: list[Answer] = [EngineError("not read")] * len(asked)
        self._rows: list[list[int]] = []  # that ask for each sequence
        self.sequences: list[TokenIds] = []
        self.n_starts: list[int] = []
        places: dict[tuple[bytes, int], int] = {}
        n_separate = 0
        for row, question in enumerate(asked):
            try:
                ids, added, boundary = tokenizer.continuation(question.prompt, question.continuation or "")
            except EngineError as error:
                self._answers[row] = error
                continue
            n_separate += boundary == "separate"
            sequence = np.array([*ids, *added], dtype=np.int32)
            key = sequence.tobytes(), len(ids)
            if key not in places:
                places[key] = len(self.sequences)
                self.sequences.append(sequence)
                self.n_starts.append(len(ids))
                self._rows.append([])
            self._rows[places[key]].append(row)
        if n_separate:
            warnings.warn(
                f"{name}: the tokenizer merges {n_separate} of {len(asked)} continuations with the end of their "
                "prompts, so they are tokenised by themselves",
                SynthscoreWarning,
                stacklevel=4,
            )
        n_failed = len(asked) - sum(map(len, self._rows))
        if progress and n_failed:
            progress(n_failed)

    def tell(self, place: int, log_probs: FloatArray | EngineError) -> None:
        """What was read of a sequence: the log-probabilities of its tokens from n_start on, nats; or why not."""
        if not isinstance(log_probs, EngineError) and np.isnan(log_probs).any():
            log_probs = EngineError(NOT_NUMBERS)
        for row in self._rows[place]:
            self._answers[row] = log_probs if isinstance(log_probs, EngineError) else log_probs.copy()
        if self._progress:
            self._progress(len(self._rows[place]))

    def answers(self) -> Answers:
        """In the order of the questions."""
        return Answers(self._answers)
