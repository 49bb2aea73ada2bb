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

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch
from transformers import AutoModelForSeq2SeqLM
from transformers.modeling_outputs import BaseModelOutput

from ...engine import Answer, Answers, Generation, Progress, Question, Sampling
from ...errors import EngineError, SynthscoreWarning
from ...types import IntArray
from ..labels import (
    MAX_ROWS,
    MOST_LOGITS,
    NOT_NUMBERS,
    Questions,
    Readings,
    TokenIds,
    choose_backend,
    chosen,
    disagreement,
    log_softmax,
)
from ..loading import LocalEngine, stop_ids
from ..tokens import Ids
from ..tree.writing import write
from .tokens import Seq2SeqTokenizer

Backend = Literal["padded", "single"]
_BACKENDS: dict[Backend, str] = {"padded": "side by side", "single": "one at a time, which is slower"}


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
        self._stop_ids = stop_ids(model, tokenizer)
        self._warned_of_length = False
        return choose_backend(name, backend, _BACKENDS, self._problem)

    @property
    def _own_parts(self) -> dict[str, str]:
        return {"decoder": "+".join(map(str, self.prompts.start))}  # the ids that it starts from

    def _judge(self, asked: Sequence[Question], progress: Progress | None) -> Answers:
        """log P(label | prompt), the whole label, summed over its surface forms, over the full vocabulary.

        log P(label) = log sum_form exp( sum_t log p(form_t | prompt, start, prefill, form_<t) )
        """
        questions = Questions(asked, self.prompts, self.name, progress)
        for group, texts, logits, n_tokens in self._decoded(questions):
            last = torch.tensor([len(text) - 1 for text in texts])
            questions.add(group, log_softmax(logits[torch.arange(len(texts)), last]), n_tokens)
        return questions.answers()

    def _written(
        self, prompts: Sequence[TokenIds], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[list[int], Sequence[Answer]]]:
        parts = [self.prompts.split(ids) for ids in prompts]
        self._warn_of_length([text for text, _ in parts])
        by_start: dict[Ids, list[int]] = {}  # a start is read side by side
        for index, (_, start) in enumerate(parts):
            by_start.setdefault(tuple(start.tolist()), []).append(index)
        for decoder_start, group in by_start.items():
            for batch in self._batches([parts[index][0] for index in group]):
                rows = [group[index] for index in batch]
                yield (
                    rows,
                    self._texts([parts[row][0] for row in rows], decoder_start, sampling, [seeds[i] for i in rows]),
                )

    def _texts(
        self, prompts: Sequence[TokenIds], start: Ids, sampling: Sampling, seeds: Sequence[int]
    ) -> list[Generation | Exception]:
        limits = [min(sampling.max_new_tokens, self.prompts.max_decoder_length - len(start))] * len(prompts)

        def made(**inputs: Any) -> list[Generation | Exception]:
            return write(self.model, inputs, limits, sampling, seeds, self._stop_ids, self.prompts.decode)

        inputs = {**_side_by_side(prompts), "decoder_input_ids": torch.tensor([start] * len(prompts))}
        texts: list[Generation | Exception] = _run(self, made, **inputs)
        return texts

    def _read(self, asked: Sequence[Question], progress: Progress | None) -> Answers:
        """Each prompt is encoded once, and its continuations are the decoder's text."""
        readings = Readings(asked, self.prompts, self.name, progress)
        for group, texts, logits, _ in self._decoded(readings):
            for row, (place, text) in enumerate(zip(group, texts, strict=True)):
                n_read = len(readings.sequences[place]) - readings.n_starts[place]
                first = len(text) - n_read
                readings.add(place, chosen(logits[row], np.arange(first - 1, len(text) - 1), text[first:]))
        return readings.answers()

    def _decoded(self, asked: Questions | Readings) -> Iterator[tuple[list[int], list[IntArray], torch.Tensor, int]]:
        """Every sequence once, some side by side: which they are; the decoder's part of each; the logits after each of
        its tokens; and the tokens run over. Each prompt is encoded once."""
        by_text: dict[bytes, list[tuple[int, IntArray]]] = {}  # prompt -> sequences, and the decoder's part of each
        for place, (ids, n_start) in enumerate(zip(asked.sequences, asked.n_starts, strict=True)):
            encoder, _ = self.prompts.split(ids[:n_start])
            by_text.setdefault(encoder.tobytes(), []).append((place, ids[len(encoder) :].astype(np.int64)))
        prompts = [np.frombuffer(encoder, dtype=np.int32) for encoder in by_text]
        self._warn_of_length(prompts)
        groups = list(by_text.values())
        vocabulary = self.model.config.get_text_config(decoder=True).vocab_size
        for batch in self._batches(prompts):
            encoded = _Encoded(self, [prompts[index] for index in batch])
            n_tokens = encoded.n_tokens
            rows = [(row, *one) for row, index in enumerate(batch) for one in groups[index]]
            rows.sort(key=lambda row: len(row[2]))
            longest = len(rows[-1][2])
            width = max(max(len(prompts[index]) for index in batch), longest)
            n_rows = min(MAX_ROWS, self.max_tokens // width, MOST_LOGITS // (vocabulary * longest))
            n_rows = 1 if self.backend == "single" else max(1, n_rows)
            for start in range(0, len(rows), n_rows):
                part, places, texts = map(list, zip(*rows[start : start + n_rows], strict=True))
                logits = encoded.read(part, texts)
                yield places, texts, logits, n_tokens + logits.shape[0] * logits.shape[1]
                n_tokens = 0

    def _batches(self, texts: Sequence[TokenIds]) -> Iterator[list[int]]:
        """Which texts to read side by side: those of similar length, the longest first, because memory fails early."""
        order = sorted(range(len(texts)), key=lambda index: len(texts[index]))
        while order:
            n_rows = max(1, min(MAX_ROWS, self.max_tokens // len(texts[order[-1]])))
            n_rows = 1 if self.backend == "single" else n_rows
            yield order[-n_rows:]
            order = order[:-n_rows]

    def _warn_of_length(self, texts: Sequence[TokenIds]) -> None:
        longest = max(map(len, texts), default=0)
        if longest > self.prompts.n_trained and not self._warned_of_length:
            self._warned_of_length = True
            warnings.warn(
                f"{self.name}: the longest prompt has {longest} tokens, and the model was trained with up to "
                f"{self.prompts.n_trained}. Its positions are relative, so it reads all of them; look whether it still "
                "judges well",
                SynthscoreWarning,
                stacklevel=3,
            )

    # -------------------------------------------------------------------------------------------- checks at load

    def _problem(self, backend: Backend) -> str:
        texts, token = self._check_texts()
        plain = torch.stack([self._plain(text, [*self.prompts.start, token, token]) for text in texts])
        if plain.isnan().any():
            return NOT_NUMBERS
        groups = [texts] if backend == "padded" else [[text] for text in texts]
        decoder = np.array([*self.prompts.start, token, token])
        found = [_Encoded(self, group).read(range(len(group)), [decoder] * len(group))[:, -3:] for group in groups]
        return disagreement(log_softmax(torch.cat(found)), plain, self.model.dtype)

    def _check_texts(self) -> tuple[list[TokenIds], int]:
        """Three texts of different lengths, and a token of ordinary text."""
        ids = self.prompts.tokenizer(_CHECK_TEXT, add_special_tokens=False)["input_ids"]
        n = min(96, self.prompts.max_length - len(self.prompts.framed([])))
        body = (list(ids) * n)[: 2 * n]
        parts = (body[:n], body[n // 2 : n], body[n : n + n // 4 + 1])
        return [np.array(self.prompts.framed(part), dtype=np.int32) for part in parts], ids[0]

    def _plain(self, text: TokenIds, decoder: list[int]) -> torch.Tensor:
        """Log-probabilities after the start and each token behind it, shape (3, vocabulary), by the plain forward."""
        ids, read = torch.tensor(text[None]).long(), torch.tensor([decoder])
        logits = _run(self, self.model, input_ids=ids, decoder_input_ids=read, use_cache=False).logits
        return log_softmax(logits[0, len(self.prompts.start) - 1 :])


class _Encoded:
    """What the encoder makes of texts side by side; equal ones are read once.

    n_tokens : that it ran over, padding included
    """

    def __init__(self, engine: Seq2SeqEngine, texts: Sequence[TokenIds]) -> None:
        self._engine = engine
        different = {text.tobytes(): text for text in texts}
        inputs = _side_by_side(list(different.values()))
        self.n_tokens = inputs["input_ids"].numel()
        self._states = _run(engine, engine.model.get_encoder(), **inputs)[0]
        mask = inputs["attention_mask"]
        self._mask = None if mask is None else mask.to(self._states.device)
        places = {text: row for row, text in enumerate(different)}
        self._rows = [places[text.tobytes()] for text in texts]

    def read(self, rows: Sequence[int], texts: Sequence[IntArray]) -> torch.Tensor:
        """Logits after each token of the decoder's texts, for some of the prompts, shape (n_rows, n_tokens,
        vocabulary). The shorter ones repeat their last token, where a decoder does not look."""
        width = max(map(len, texts))
        grid = np.stack([np.pad(text, (0, width - len(text)), mode="edge") for text in texts])
        places = torch.tensor([self._rows[row] for row in rows], device=self._states.device)
        logits: torch.Tensor = _run(
            self._engine,
            self._engine.model,
            encoder_outputs=BaseModelOutput(last_hidden_state=self._states[places]),
            attention_mask=None if self._mask is None else self._mask[places],
            decoder_input_ids=torch.from_numpy(grid),
            use_cache=False,
        ).logits
        return logits


def _side_by_side(texts: Sequence[TokenIds]) -> dict[str, Any]:
    """Padded on the right, with a mask; without padding there is nothing to mask, and attention is faster."""
    width = max(map(len, texts))
    ids = np.stack([np.pad(text, (0, width - len(text))) for text in texts]).astype(np.int64)
    mask = torch.arange(width) < torch.tensor([[len(text)] for text in texts])
    return {"input_ids": torch.from_numpy(ids), "attention_mask": None if mask.all() else mask.long()}


@torch.inference_mode()
def _run(engine: Seq2SeqEngine, module: Any, **arguments: Any) -> Any:
    """A forward, with token ids on the model's device. raises : EngineError, when memory does not suffice"""
    device = engine.model.device
    arguments = {name: each.to(device) if torch.is_tensor(each) else each for name, each in arguments.items()}
    try:
        return module(**arguments)
    except torch.cuda.OutOfMemoryError as error:
        raise EngineError(
            f"{engine.name}: out of memory with up to {engine.max_tokens} tokens of prompts side by side. "
            "Take a smaller max_tokens, dtype bfloat16, or a smaller model"
        ) from error


_CHECK_TEXT = """
Two newspapers wrote about the flood. Which of them is more exact? The bridge at the mill was closed on Sunday at noon,
said the council, and will open within 2 days; traffic goes by the old road. "It came fast," a farmer told us. Answer
with one word, "First" or "Second". First: the bridge is gone. Second: The bridge is closed until the water falls.
"""
