"""Prompt -> token ids for an encoder and a decoder, labels -> token ids behind the decoder's. Runs no model."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import numpy as np

from ...engine import Prompt
from ...errors import EngineError, PromptTooLongError
from ..labels import TokenIds
from ..tokens import Boundary, Ids, LabelForms, PromptTokenizer

_ANY_LENGTH = 1_000_000


class Seq2SeqTokenizer(PromptTokenizer):
    """Turns prompts and labels into token ids for one encoder-decoder model.

    The encoder's text is the prompt's, in its chat template or between the tokens that the tokenizer puts around a text
    (T5: the end token). The decoder's is the prefill, and labels go on from there: after an empty one "Better" is the
    beginning of a text. A prompt's ids are both, one behind the other: `split` parts them.

    start : decoder_start_token_id, then the token that texts begin with, if there is one: forced_bos_token_id, or what
        the tokenizer begins a text with. The model was trained with both, its targets being shifted by one.
    max_length, max_decoder_length : tokens that the encoder and the decoder take: entries in a table of positions; any
        number, where positions are relative
    n_trained : tokens up to which the model was trained, as far as its config or tokenizer says
    raises : EngineError, when the model does not say how its decoder starts
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        config = model.config
        self.max_decoder_length = _n_positions(getattr(config, "decoder", config), "max_decoder_position_embeddings")
        super().__init__(tokenizer, _n_positions(getattr(config, "encoder", config), "max_encoder_position_embeddings"))
        self.n_trained = self.max_length
        if self.max_length == _ANY_LENGTH:
            self.n_trained = min(getattr(config, "n_positions", None) or tokenizer.model_max_length, _ANY_LENGTH)
        self._decoder = PromptTokenizer(tokenizer, _ANY_LENGTH, framed=False)
        self.boundary = self._decoder.boundary
        self.start = self._start(model)
        self._control.add(self.start[0])  # if it is not one already: `split` looks for it
        self._decoder._control.add(self.start[0])
        whole = [] if self.has_template else tokenizer("a")["input_ids"]
        self._before = list(takewhile(self._control.__contains__, whole))
        self._behind = list(takewhile(self._control.__contains__, reversed(whole)))[::-1]

    def _start(self, model: Any) -> Ids:
        def setting(name: str) -> int | None:
            owners = (getattr(model, "generation_config", None), model.config)
            return next((value for owner in owners if (value := getattr(owner, name, None)) is not None), None)

        first, forced = setting("decoder_start_token_id"), setting("forced_bos_token_id")
        if first is None:
            raise EngineError(
                "the model's config names no decoder_start_token_id, so its answers cannot be begun. "
                "Set it in config.json: the token that the decoder was trained to start from"
            )
        begin = self._bos if forced is None else [forced]
        return (first, *(token for token in begin if token != first))

    @property
    def takes(self) -> str:
        if self.max_length < _ANY_LENGTH:
            return f"takes {self.max_length} tokens, and {self.max_decoder_length} of an answer"
        trained = f"; trained with up to {self.n_trained} tokens" if self.n_trained < _ANY_LENGTH else ""
        return f"takes prompts of any length{trained}"

    def framed(self, ids: Sequence[int]) -> list[int]:
        """The ids of a text with what the model expects around it."""
        return [*self._before, *ids, *self._behind]

    def render(self, prompt: Prompt) -> str:
        """The encoder's text, and on a last line the decoder's."""
        start = " ".join(self.spelled(self.start))
        return f"{super().render(Prompt(prompt.text))}\n(answer) {start}{prompt.prefill}"

    def encode(self, prompt: Prompt, room: int = 1) -> list[int]:
        """Token ids for the encoder, then those for the decoder. Never truncates.

        room : tokens that must still fit behind the decoder's
        raises : PromptTooLongError, with `n_tokens` and `max_tokens`
        """
        text, untrusted = self._render(Prompt(prompt.text))
        encoder = self.framed(self._encode(text, untrusted)[len(self._bos) :])
        if not encoder:
            raise EngineError("the prompt has no tokens, expected at least one. Give it a text")
        decoder = [*self.start, *self._decoder.encode(Prompt(prompt.prefill))]
        _check_length("prompt", len(encoder), self.max_length, f"the encoder takes {self.max_length}")
        _check_length(
            "beginning of the answer",
            len(decoder),
            self.max_decoder_length - room,
            f"the decoder takes {self.max_decoder_length}, and {room} must be left for the rest",
        )
        return encoder + decoder

    def split(self, ids: TokenIds) -> tuple[TokenIds, TokenIds]:
        """The encoder's and the decoder's part of encode(prompt): no prefill makes the token that the decoder starts
        with, a control token."""
        cut = int(np.flatnonzero(ids == self.start[0])[-1])
        return ids[:cut], ids[cut:]

    def label_forms(self, prompt: Prompt, labels: Sequence[str], ids: Sequence[int] | None = None) -> LabelForms:
        """The token sequences of each label behind the beginning of the answer.

        raises : LabelError, when labels collide or hold an unknown token
        """
        return self._decoder.label_forms(Prompt(prompt.prefill), labels)

    def question(self, prompt: Prompt, labels: Sequence[str]) -> tuple[list[int], LabelForms]:
        """A prompt and what may follow it. raises : PromptTooLongError, unless the longest label fits; LabelError"""
        forms = self.label_forms(prompt, labels)
        return self.encode(prompt, forms.n_longest), forms

    def continuation(self, prompt: Prompt, text: str) -> tuple[list[int], Ids, Boundary]:
        """The same, of a text that goes on from the beginning of the answer."""
        start = Prompt(prompt.prefill)
        added, boundary = self._decoder.added(start, text, self._decoder.encode(start))
        return self.encode(prompt, len(added)), added, boundary


def _n_positions(config: Any, own: str) -> int:
    """Entries in a table of positions; a million, where there is none."""
    for name in (own, "max_position_embeddings"):
        value = getattr(config, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return _ANY_LENGTH


def _check_length(what: str, n_tokens: int, max_tokens: int, why: str) -> None:
    if n_tokens > max_tokens:
        raise PromptTooLongError(
            f"the {what} has {n_tokens} tokens, expected at most {max_tokens}: {why}. Shorten it",
            n_tokens=n_tokens,
            max_tokens=max_tokens,
        )
