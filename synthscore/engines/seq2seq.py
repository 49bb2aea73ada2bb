"""Encoder-decoder models of transformers (T5 and its kin) as engines: exact label log-probabilities, and texts.

The prompt is the encoder's text, with the tokens that the model was trained to see around it. The beginning of the
answer (prefill) and the labels are the decoder's text, behind its start tokens; a label's log-probability is the sum
over its tokens, without the one that ends a text.

An encoder reads a prompt in both directions, so what prompts share cannot be read once; equal prompts are. The decoder
reads the answer and the beginnings of labels of several tokens as rows of their own. Two ways to run the same numbers:

- padded: prompts of similar length side by side, padded on the right, with a mask.
- single: one prompt a forward, so that a number depends on its own prompt alone, to the last bit.

A check at load compares them with the plain forward. Packing prompts one behind the other behind a block-diagonal mask
is as exact with T5's positions, but slower at every length: benchmarks/seq2seq.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForSeq2SeqLM
from transformers.modeling_outputs import BaseModelOutput

from ..engine import Answer, Prompt, Sampling
from ..errors import EngineError, PromptTooLongError
from ..types import FloatArray, IntArray
from .loading import CHECK_TEXT, choose_backend, disagreement, n_positions, stop_ids
from .local import MAX_ROWS, MOST_LOGITS, NOT_NUMBERS, LocalEngine, Questions, Readings, TokenIds, chosen, log_softmax
from .tokens import Boundary, Ids, LabelForms, PromptTokenizer
from .tree.writing import batches, side_by_side, write

_BACKENDS = {"padded": "side by side", "single": "one at a time, which is slower"}
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
    raises : EngineError, when the model does not say how its decoder starts
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        config = model.config

        def most(part: str) -> int:
            names = (f"max_{part}_position_embeddings", "max_position_embeddings")
            return n_positions(getattr(config, part, config), names) or _ANY_LENGTH

        self.max_decoder_length = most("decoder")
        super().__init__(tokenizer, most("encoder"))
        trained = min(getattr(config, "n_positions", None) or tokenizer.model_max_length, _ANY_LENGTH)
        self.takes = "takes prompts of any length"
        if self.max_length < _ANY_LENGTH:
            self.takes = f"takes {self.max_length} tokens, and {self.max_decoder_length} of an answer"
        elif trained < _ANY_LENGTH:
            self.takes += f"; trained with up to {trained} tokens"
        self._decoder = PromptTokenizer(tokenizer, _ANY_LENGTH, framed=False)
        self.boundary = self._decoder.boundary

        def setting(name: str) -> int | None:
            owners = (getattr(model, "generation_config", None), config)
            return next((value for owner in owners if (value := getattr(owner, name, None)) is not None), None)

        first, forced = setting("decoder_start_token_id"), setting("forced_bos_token_id")
        if first is None:
            raise EngineError(
                "the model's config names no decoder_start_token_id, so its answers cannot be begun. "
                "Set it in config.json: the token that the decoder was trained to start from"
            )
        begin = self._bos if forced is None else [forced]
        self.start: Ids = (first, *(token for token in begin if token != first))
        for tokens in (self, self._decoder):
            tokens._control.add(first)  # if it is not one already: `split` looks for it
        whole = [] if self.has_template else tokenizer("a")["input_ids"]
        self._before = list(takewhile(self._control.__contains__, whole))
        self._behind = list(takewhile(self._control.__contains__, reversed(whole)))[::-1]

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
        most = self.max_decoder_length
        _check_length("prompt", encoder, self.max_length, f"the encoder takes {self.max_length}")
        why = f"the decoder takes {most}, and {room} must be left for the rest"
        _check_length("beginning of the answer", decoder, most - room, why)
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


def _check_length(what: str, ids: Ids | list[int], most: int, why: str) -> None:
    if len(ids) > most:
        message = f"the {what} has {len(ids)} tokens, expected at most {most}: {why}. Shorten it"
        raise PromptTooLongError(message, n_tokens=len(ids), max_tokens=most)


class Seq2SeqEngine(LocalEngine):
    """An encoder-decoder model that judges and writes.

    max_tokens : of prompts side by side in one forward, padding included; bounds memory. On a CPU more are slower: the
        mask is as large as the attention (benchmarks/seq2seq.py)
    """

    auto_class = AutoModelForSeq2SeqLM
    kind = "an encoder-decoder language model"
    alone = "single"
    usual = 1024
    prompts: Seq2SeqTokenizer

    def _prepare(self, tokenizer: Any, backend: str) -> str:
        model, name = self.model, self.name
        if model.dtype == torch.float16:
            raise EngineError(f"{name}: float16 overflows in models like T5. Expected dtype float32 or bfloat16")
        if getattr(model.config, "attention_type", "") == "block_sparse":  # also changes with the length of a batch
            raise EngineError(
                f"{name}: its attention is drawn at random (attention_type block_sparse), expected the same numbers "
                'each time. Set attention_type to "original_full" in its config.json'
            )
        self.prompts = Seq2SeqTokenizer(model, tokenizer)
        self.own_parts = {"decoder": "+".join(map(str, self.prompts.start))}  # the ids that it starts from
        self._stop_ids = stop_ids(model, tokenizer)
        return choose_backend(name, backend, _BACKENDS, self._problem)

    def _next_log_probs(self, asked: Questions) -> Iterator[tuple[Sequence[int], torch.Tensor, int]]:
        for group, texts, logits, n_tokens in self._decoded(asked):
            last = torch.tensor([len(text) - 1 for text in texts])
            yield group, log_softmax(logits[torch.arange(len(texts)), last]), n_tokens

    def _token_log_probs(self, asked: Readings) -> Iterator[tuple[int, FloatArray]]:
        """Each prompt is encoded once, and its continuations are the decoder's text."""
        for group, texts, logits, _ in self._decoded(asked):
            for row, (index, text) in enumerate(zip(group, texts, strict=True)):
                first = len(text) - len(asked.sequences[index]) + asked.n_starts[index]
                yield index, chosen(logits[row], np.arange(first - 1, len(text) - 1), text[first:])

    def _written(
        self, prompts: Sequence[TokenIds], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[list[int], Sequence[Answer]]]:
        by_start: dict[Ids, list[int]] = {}  # a start is read side by side
        for index, ids in enumerate(prompts):
            by_start.setdefault(tuple(self.prompts.split(ids)[1].tolist()), []).append(index)
        for start, group in by_start.items():
            texts = [self.prompts.split(prompts[index])[0] for index in group]
            for batch in batches(texts, self._n_beside):
                rows, n = [group[index] for index in batch], len(batch)
                inputs = side_by_side([texts[index] for index in batch], left=False)
                written = self._run(
                    write,
                    model=self.model,
                    inputs={**inputs, "decoder_input_ids": torch.tensor([start] * n)},
                    limits=[min(sampling.max_new_tokens, self.prompts.max_decoder_length - len(start))] * n,
                    sampling=sampling,
                    seeds=[seeds[row] for row in rows],
                    stop_ids=self._stop_ids,
                    decode=self.prompts.decode,
                )
                yield rows, written

    def _n_beside(self, n_tokens: int) -> int:
        return 1 if self.backend == "single" else min(MAX_ROWS, self.max_tokens // n_tokens)

    def _decoded(self, asked: Questions | Readings) -> Iterator[tuple[list[int], list[IntArray], torch.Tensor, int]]:
        """Every sequence once, some side by side: which they are; the decoder's part of each; the logits after each of
        its tokens; and the tokens run over. Each prompt is encoded once."""
        by_text: dict[bytes, list[tuple[int, IntArray]]] = {}  # prompt -> sequences, and the decoder's part of each
        for place, (ids, n_start) in enumerate(zip(asked.sequences, asked.n_starts, strict=True)):
            encoder, _ = self.prompts.split(ids[:n_start])
            by_text.setdefault(encoder.tobytes(), []).append((place, ids[len(encoder) :].astype(np.int64)))
        prompts, groups = [np.frombuffer(text, dtype=np.int32) for text in by_text], list(by_text.values())
        vocabulary = self.model.config.get_text_config(decoder=True).vocab_size
        for batch in batches(prompts, self._n_beside):
            states, mask = self._encode([prompts[index] for index in batch])
            n_tokens = states.shape[0] * states.shape[1]
            rows = [(row, *one) for row, index in enumerate(batch) for one in groups[index]]
            rows.sort(key=lambda row: len(row[2]))
            longest = len(rows[-1][2])
            n_rows = min(self._n_beside(max(states.shape[1], longest)), MOST_LOGITS // (vocabulary * longest))
            for start in range(0, len(rows), n_rows := max(1, n_rows)):
                part, places, texts = map(list, zip(*rows[start : start + n_rows], strict=True))
                logits = self._decode(states[part], None if mask is None else mask[part], texts)
                yield places, texts, logits, n_tokens + logits.shape[0] * logits.shape[1]
                n_tokens = 0

    def _encode(self, texts: Sequence[TokenIds]) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The encoder's states of texts side by side, shape (n_texts, n_tokens, d_model), and what is no padding."""
        inputs = side_by_side(texts, left=False)
        return self._run(self.model.get_encoder(), **inputs)[0], inputs["attention_mask"]

    def _decode(self, states: torch.Tensor, mask: torch.Tensor | None, texts: Sequence[IntArray]) -> torch.Tensor:
        """Logits after each token of the decoder's texts, shape (n_rows, n_tokens, vocabulary). The shorter ones repeat
        their last token, where a decoder does not look."""
        width = max(map(len, texts))
        grid = np.stack([np.pad(text, (0, width - len(text)), mode="edge") for text in texts])
        logits: torch.Tensor = self._run(
            self.model,
            encoder_outputs=BaseModelOutput(last_hidden_state=states),
            attention_mask=mask,
            decoder_input_ids=torch.from_numpy(grid),
            use_cache=False,
        ).logits
        return logits

    @torch.inference_mode()
    def _run(self, module: Any, **arguments: Any) -> Any:
        """A forward, with token ids on the model's device. raises : EngineError, when memory does not suffice"""
        for name, each in arguments.items():
            if isinstance(each, torch.Tensor):
                arguments[name] = each.to(self.model.device)
        try:
            return module(**arguments)
        except torch.cuda.OutOfMemoryError as error:
            raise EngineError(
                f"{self.name}: out of memory with up to {self.max_tokens} tokens of prompts side by side. "
                "Take a smaller max_tokens, dtype bfloat16, or a smaller model"
            ) from error

    def _problem(self, backend: str) -> str:
        """Why a backend must not be used with this model; "" if it may. Asks three texts of different lengths, each
        with two tokens of an answer."""
        ids = self.prompts.tokenizer(CHECK_TEXT, add_special_tokens=False)["input_ids"]
        n = min(96, self.prompts.max_length - len(self.prompts.framed([])))
        body = (ids * n)[: 2 * n]
        parts = (body[:n], body[n // 2 : n], body[n : n + n // 4 + 1])
        texts = [np.array(self.prompts.framed(part), dtype=np.int32) for part in parts]
        answer = np.array([*self.prompts.start, ids[0], ids[0]])
        read = {"decoder_input_ids": torch.from_numpy(answer)[None], "use_cache": False}
        alone = [torch.from_numpy(text)[None].long() for text in texts]
        plain = torch.cat([self._run(self.model, input_ids=text, **read).logits for text in alone])
        if plain.isnan().any():
            return NOT_NUMBERS
        groups = [texts] if backend == "padded" else [[text] for text in texts]
        found = torch.cat([self._decode(*self._encode(group), [answer] * len(group)) for group in groups])
        return disagreement(log_softmax(found[:, -3:]), log_softmax(plain[:, -3:]), self.model.dtype)
