"""Reward models: one number a text, how good it is as the reply to a prompt. They neither judge pairs nor write.

A model for sequence classification with one output (Skywork-Reward-V2 and its kind): prompt and text are the two turns
of its chat template, or of a tokenizer without one the two segments. Each text is read by itself, in one forward.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from transformers import AutoModelForSequenceClassification

from ..engine import Answer, Capabilities, Kind, Prompt, Question
from ..errors import EngineError
from ..types import blank
from .local import LocalEngine, Part


class RewardEngine(LocalEngine):
    """A model that says how good a reply is. A question with a continuation is answered with its reward alone."""

    auto_class = AutoModelForSequenceClassification
    kind = "a reward model"
    alone = "reward"
    usual = 1
    can = Capabilities(gives_rewards=True, reports_mass=False)
    cannot: ClassVar[Mapping[Kind, str]] = {"labels": "choose among labels", "text": "write"}

    def _prepare(self, tokenizer: Any, backend: str) -> str:
        if (n := self.model.config.num_labels) != 1:
            raise EngineError(
                f"{self.name} classifies into {n} classes, expected one output, a reward. Take a reward model, or a "
                "language model",
                model=self.name,
            )
        return super()._prepare(tokenizer, backend)

    def _read(self, questions: Sequence[Question]) -> Iterator[Part]:
        return self._one_by_one(questions, self._reward)

    @torch.inference_mode()
    def _reward(self, question: Question) -> tuple[Answer, int]:
        fields = self._encoded(question.prompt, question.continuation or "")
        n_tokens = fields["input_ids"].shape[-1]
        self.prompts.check_room(n_tokens, 0)
        reward = self.model(**{name: each.to(self.model.device) for name, each in fields.items()}).logits
        return reward.double().cpu().numpy().reshape(1), n_tokens

    def _encoded(self, prompt: Prompt, text: str) -> dict[str, torch.Tensor]:
        """Control tokens come from the template alone: what looks like one in a judged text is text."""
        tokenizer = self.prompts.tokenizer
        if blank(text):
            raise EngineError(f"{self.name} cannot read an empty text")
        if not tokenizer.chat_template:
            return dict(tokenizer(prompt.text, text, split_special_tokens=True, return_tensors="pt", verbose=False))
        turns = [{"role": "user", "content": prompt.text}, {"role": "assistant", "content": text}]
        return dict(
            tokenizer.apply_chat_template(
                turns, tokenize=True, return_dict=True, return_tensors="pt", sanitize_control_tokens=True
            )
        )
