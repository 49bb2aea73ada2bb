"""Models that read two texts as isolated segments: exact label log-probabilities. They judge and do not write.

Such a model is an encoder. It reads each paragraph of a prompt in both directions, with all that both texts share
before it; the two texts do not see each other, and the cue at the end sees all (plan.py). So a text is read once,
however many others it is compared with, and as an encoder was trained to read it.

- together: prompts that share paragraphs are read in one forward, each paragraph once.
- single: one prompt a forward, so that a number depends on its own prompt alone.

A check at load compares them. Such a model's config.json has a part "synthscore" (model.marks_of).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch
from transformers import AutoModelForMaskedLM

from ...engine import Answers, Progress, Prompt, Question
from ..labels import Questions, TokenIds
from ..loading import LocalEngine, max_length
from ..logits import choose_backend, disagreement, log_softmax
from ..tokens import PromptTokenizer
from .model import ATTENTION, marks_of, states
from .plan import chunks, plan

Backend = Literal["together", "single"]
_BACKENDS: dict[Backend, str] = {"together": "together", "single": "one at a time, which is slower"}


class IsolatedEngine(LocalEngine):
    """A model that reads two texts as isolated segments, and judges. It does not write."""

    auto_class = AutoModelForMaskedLM
    kind = "a model that reads isolated segments"
    alone = "single"
    usual = 4096

    def _prepare(self, tokenizer: Any, backend: str) -> str:
        self.model.set_attn_implementation(ATTENTION)
        self.prompts = PromptTokenizer(tokenizer, max_length(self.model.config, tokenizer))
        self._marks = marks_of(self.model.config, tokenizer)
        return choose_backend(self.name, backend, _BACKENDS, self._problem)

    def _judge(self, asked: Sequence[Question], progress: Progress | None) -> Answers:
        """log P(label | prompt), summed over the label's surface forms, over the full vocabulary, in float32.

        A label of several tokens is read with its beginning as the end of the prompt's last paragraph.
        """
        questions = Questions(asked, self.prompts, self.name, progress)
        for group in self._groups(questions.sequences):
            log_probs, n_tokens = self._run([questions.sequences[place] for place in group])
            questions.add(group, log_probs, n_tokens)
        return questions.answers()

    def _write(self, asked: Sequence[Question], progress: Progress | None) -> Answers:
        return self._no("write a text", asked, progress)

    def _read(self, asked: Sequence[Question], progress: Progress | None) -> Answers:
        return self._no("say how probable a text is", asked, progress)

    def _groups(self, sequences: Sequence[TokenIds]) -> list[list[int]]:
        if self.backend == "single":
            return [[place] for place in range(len(sequences))]
        return chunks(sequences, self._marks, self.max_tokens)

    def _run(self, sequences: Sequence[TokenIds]) -> tuple[torch.Tensor, int]:
        """Log-probabilities of the token after each sequence, float32, shape (n_sequences, vocabulary), and the number
        of tokens run over."""
        together = plan(sequences, self._marks)
        with torch.inference_mode():
            read = states(self.model.base_model, [together], self.model.dtype)
            logits = self.model.cls(read[torch.from_numpy(together.ends)])
        return log_softmax(logits).cpu(), together.n_tokens

    def _problem(self, backend: Backend) -> str:
        if backend == "single":
            return ""
        sequences = [np.array(self.prompts.encode(Prompt(text)), dtype=np.int32) for text in _CHECK_TEXTS]
        alone = torch.cat([self._run([sequence])[0] for sequence in sequences])
        return disagreement(self._run(sequences)[0], alone, self.model.dtype)


_CONTEXT = "Article:\nA storm closed the harbour on Monday, and forty boats stayed in port. Nobody was hurt.\n\n"
_CHECK_TEXTS = [
    f"{_CONTEXT}Text 1:\n{one}\n\nText 2:\n{other}\n\nVerdict:"
    for one in ("The harbour is closed.", "It rained.")
    for other in ("Boats stayed in port after a storm.", "Forty boats sank.")
]
