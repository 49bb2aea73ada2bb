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

from ...engine import Answer, Answers, Progress, Question, Sampling
from ...errors import EngineError, SynthscoreWarning
from ...types import FloatArray, IntArray
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
        for answers, group, texts, n_encoded in self._decoded(questions):
            logits, last = answers.read(_side_by_side(texts)), torch.tensor([len(text) - 1 for text in texts])
            n_tokens = n_encoded + logits.shape[0] * logits.shape[1]
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
            limit = min(sampling.max_new_tokens, self.prompts.max_decoder_length - len(decoder_start))
            for batch in self._batches([parts[index][0] for index in group]):
                rows = [group[index] for index in batch]
                answers = _Encoded(self, [parts[row][0] for row in rows]).answers(range(len(rows)))
                logits = answers.read([decoder_start] * len(rows))[:, -1]
                limits, chosen = [limit] * len(rows), [seeds[row] for row in rows]
                yield rows, write(answers, logits, limits, sampling, chosen, self._stop_ids, self.prompts.decode)

    def _read(self, asked: Sequence[Question], progress: Progress | None) -> Answers:
        """Each prompt is encoded once, and its continuations are the decoder's text."""
        readings = Readings(asked, self.prompts, self.name, progress)
        for answers, group, texts, _ in self._decoded(readings):
            n_starts = [
                readings.n_starts[place] - len(readings.sequences[place]) + len(text)
                for place, text in zip(group, texts, strict=True)
            ]
            for place, log_probs in zip(group, answers.chosen(texts, n_starts), strict=True):
                readings.add(place, log_probs)
        return readings.answers()

    def _decoded(self, asked: Questions | Readings) -> Iterator[tuple[_Answers, list[int], list[IntArray], int]]:
        """Every sequence once, some side by side: their answers, still empty; which they are; the decoder's part of
        each; and the tokens that the encoder ran over since the last. Each prompt is encoded once."""
        by_text: dict[bytes, list[tuple[int, IntArray]]] = {}  # prompt -> sequences, and the decoder's part of each
        for place, (ids, n_start) in enumerate(zip(asked.sequences, asked.n_starts, strict=True)):
            encoder, _ = self.prompts.split(ids[:n_start])
            by_text.setdefault(encoder.tobytes(), []).append((place, ids[len(encoder) :].astype(np.int64)))
        prompts = [np.frombuffer(encoder, dtype=np.int32) for encoder in by_text]
        self._warn_of_length(prompts)
        groups = list(by_text.values())
        for batch in self._batches(prompts):
            encoded = _Encoded(self, [prompts[index] for index in batch])
            n_encoded = encoded.n_tokens
            rows = [(row, *one) for row, index in enumerate(batch) for one in groups[index]]
            rows.sort(key=lambda row: len(row[2]))
            width = max(max(len(prompts[index]) for index in batch), len(rows[-1][2]))
            n_rows = 1 if self.backend == "single" else max(1, min(MAX_ROWS, self.max_tokens // width))
            for start in range(0, len(rows), n_rows):
                part, places, texts = map(list, zip(*rows[start : start + n_rows], strict=True))
                yield encoded.answers(part), places, texts, n_encoded
                n_encoded = 0

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
        found = [torch.cat(rows) for rows in zip(*(self._both_ways(group, token) for group in groups), strict=True)]
        return next((problem for each in found if (problem := disagreement(each, plain, self.model.dtype))), "")

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

    @torch.inference_mode()
    def _both_ways(self, texts: list[TokenIds], token: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The same as it is judged, all at once, and as it is written; shape (n_texts, 3, vocabulary)."""
        n, encoded = len(texts), _Encoded(self, texts)
        once = encoded.answers(range(n)).read([[*self.prompts.start, token, token]] * n)[:, -3:]
        rows = encoded.answers(range(n))
        steps = [rows.read([self.prompts.start] * n)[:, -1], rows.step([token] * n), once[:, -1].clone()]
        rows.keep([n - 1])
        steps[2][-1] = rows.step([token])[0]
        return log_softmax(once), log_softmax(torch.stack(steps, dim=1))


class _Encoded:
    """What the encoder makes of texts side by side; equal ones are read once.

    n_tokens : that it ran over, padding included
    """

    def __init__(self, engine: Seq2SeqEngine, texts: Sequence[TokenIds]) -> None:
        self._engine = engine
        different = {text.tobytes(): text for text in texts}
        width = max(map(len, texts))
        ids = torch.zeros((len(different), width), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, text in enumerate(different.values()):
            ids[row, : len(text)] = torch.from_numpy(text.astype(np.int64))
            mask[row, : len(text)] = 1
        self.n_tokens = ids.numel()
        # Without padding there is nothing to mask, and attention is faster.
        self._mask = None if mask.all() else mask.to(engine.model.device)
        self._states = _run(engine, engine.model.get_encoder(), input_ids=ids, attention_mask=self._mask)[0]
        places = {text: row for row, text in enumerate(different)}
        self._rows = [places[text.tobytes()] for text in texts]

    def answers(self, rows: Sequence[int]) -> _Answers:
        """Answers to some of the texts, still empty."""
        places = torch.tensor([self._rows[row] for row in rows], device=self._states.device)
        return _Answers(self._engine, self._states[places], None if self._mask is None else self._mask[places])


class _Answers:
    """Decoder texts side by side, as far as they are read: all of one length, each with the states of its prompt."""

    def __init__(self, engine: Seq2SeqEngine, states: torch.Tensor, mask: torch.Tensor | None) -> None:
        self._engine, self._states, self._mask = engine, states, mask
        self._cache: Any = None

    def read(self, tokens: Sequence[Sequence[int]]) -> torch.Tensor:
        """Read as many more tokens in each row; logits after each, shape (n_rows, n_tokens, vocabulary)."""
        output = _run(
            self._engine,
            self._engine.model,
            encoder_outputs=BaseModelOutput(last_hidden_state=self._states),
            attention_mask=self._mask,
            decoder_input_ids=torch.tensor(tokens),
            past_key_values=self._cache,
            use_cache=True,
        )
        self._cache = output.past_key_values
        logits: torch.Tensor = output.logits
        return logits

    def chosen(self, texts: Sequence[IntArray], n_starts: Sequence[int]) -> list[FloatArray]:
        """Log-probabilities of the tokens of each row's text from n_start on; some columns at a time, for memory."""
        grid = _side_by_side([ids[:-1] for ids in texts])
        width = len(grid[0])
        vocabulary = self._engine.model.config.get_text_config(decoder=True).vocab_size
        n_columns = max(1, MOST_LOGITS // (vocabulary * len(texts)))
        found: list[list[FloatArray]] = [[] for _ in texts]
        for first in range(0, width, n_columns):
            logits = self.read([row[first : first + n_columns] for row in grid])
            for row, (ids, n_start) in enumerate(zip(texts, n_starts, strict=True)):
                places = np.arange(max(first, n_start - 1), min(first + n_columns, len(ids) - 1))
                if len(places):
                    found[row].append(chosen(logits[row], places - first, ids[places + 1]))
        return [np.concatenate(pieces) for pieces in found]

    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        """Logits of the token after these, shape (n_rows, vocabulary)."""
        return self.read([[token] for token in tokens])[:, -1]

    def keep(self, rows: list[int]) -> None:
        """Go on with these rows only."""
        places = torch.tensor(rows, device=self._states.device)
        self._states = self._states[places]
        self._mask = None if self._mask is None else self._mask[places]
        self._cache.batch_select_indices(places)


@torch.inference_mode()
def _run(engine: Seq2SeqEngine, module: Any, **arguments: Any) -> Any:
    """A forward, with token ids on the model's device. raises : EngineError, when memory does not suffice"""
    device = engine.model.device
    arguments |= {name: ids.to(device) for name, ids in arguments.items() if name.endswith("input_ids")}
    try:
        return module(**arguments)
    except torch.cuda.OutOfMemoryError as error:
        raise EngineError(
            f"{engine.name}: out of memory with up to {engine.max_tokens} tokens of prompts side by side. "
            "Take a smaller max_tokens, dtype bfloat16, or a smaller model"
        ) from error


def _side_by_side(texts: Sequence[IntArray]) -> list[list[int]]:
    """The shorter ones repeat their last token, where a decoder does not look."""
    width = max(map(len, texts))
    return [np.pad(text, (0, width - len(text)), mode="edge").tolist() for text in texts]


_CHECK_TEXT = """
Two newspapers wrote about the flood. Which of them is more exact? The bridge at the mill was closed on Sunday at noon,
said the council, and will open within 2 days; traffic goes by the old road. "It came fast," a farmer told us. Answer
with one word, "First" or "Second". First: the bridge is gone. Second: The bridge is closed until the water falls.
"""
