"""An engine whose model runs here: prompts, and labels or continuations -> token sequences to run; what a forward gives
-> log-probabilities -> answers.

All of it but the forward itself. A label of several tokens is asked for by running the prompt with its beginning too:
log P(label) is the sum over its tokens. A continuation is run once, and each of its tokens is read behind those before
it. Log-probabilities are of float32: neighbouring bfloat16 logits near 20 are 0.125 apart.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
import torch
import transformers

from ..engine import (
    Answer,
    Answers,
    Capabilities,
    Generation,
    Kind,
    LabelAnswer,
    OtherToken,
    Progress,
    Question,
    Sampling,
)
from ..errors import EngineError, LabelError
from ..signature import Signature
from ..store.parts import Take, gather
from ..types import FloatArray, IntArray, Usage
from .loading import DType, dtype_name, load, max_length, quantisation
from .source import Source
from .tokens import Ids, LabelForms, PromptTokenizer, ThinkingTokenizer, warn_of_boundary
from .words import LONG

TokenIds = npt.NDArray[np.int32]

MAX_ROWS = 16  # sequences side by side: bounds the logits, (rows, places, vocabulary)
MOST_LOGITS = 2**25  # at once, where they are read at many places: 128 MiB in float32
_BLOCK = 64  # rows

NOT_NUMBERS = "the model answers with NaN, expected numbers. Try dtype float32"

Part = tuple[Mapping[int, Answer], Usage]
"""Answers, each under the place of its question, and the tokens that they took."""

E = TypeVar("E", bound="LocalEngine")
K = TypeVar("K", bound=Hashable)


class LocalEngine:
    """An engine whose model is loaded here. `load` makes one from a folder or a hub id.

    auto_class, kind : of transformers, and what it is in words
    alone : the backend whose numbers depend on one prompt alone
    usual : max_tokens, where none is given
    can : what every engine of this class can do
    cannot : kinds of questions that it does not answer, and what that would be, in words
    own_parts : of the signature, behind the chat template's
    """

    auto_class: ClassVar[Any]
    kind: ClassVar[str]
    alone: ClassVar[str]
    usual: ClassVar[int]
    can: ClassVar[Capabilities] = Capabilities()
    cannot: ClassVar[Mapping[Kind, str]] = {}
    own_parts: Mapping[str, str] = {}
    prompts: PromptTokenizer

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        revision: str = "unknown",
        base: str = "",
        quantised: str = "",
        date: str = "",
        max_tokens: int | None = None,
        backend: str = "auto",
        thinking: bool = False,
    ) -> None:
        """name, revision, base, quantised, date : for the signature, as of loading.Loaded
        max_tokens : tokens in one forward; bounds memory, whatever the number of prompts
        backend : how prompts are run; "auto" takes the first that the model gets right; a named one is taken, or
            EngineError
        thinking : it thinks before it writes, and before it answers in words; not where its probabilities are asked for
        """
        self.model, self.name, self.revision = model.eval(), name, revision
        self.max_tokens = max_tokens or self.usual
        self.backend = self._prepare(tokenizer, backend)
        self.thinking = ThinkingTokenizer(tokenizer, self.prompts.max_length) if thinking else None
        self.signature = self._sign(base, quantised, date)
        description = f"run as {self.backend}, checked against the plain forward when it was loaded"
        self.capabilities = replace(self.can, reasons=thinking, tokenizer=self.prompts, description=description)

    @classmethod
    def load(
        cls: type[E],
        where: str | Path | Source,
        *,
        dtype: DType = "auto",
        max_tokens: int | None = None,
        backend: Any = "auto",
        exact: bool = False,
        thinking: bool = False,
        **options: Any,
    ) -> E:
        """A model from a folder, a GGUF file or the hub.

        dtype, options : of loading.load
        max_tokens, backend, thinking : as the engine says; None: its default
        exact : numbers that do not depend on what else is asked, to the last bit: the backend that reads prompts alone,
            float32 unless a dtype is named, texts one at a time. Slow: nothing is shared.
        raises : EngineError, when it cannot be loaded or is not of this kind
        """
        if exact:
            if backend not in ("auto", cls.alone):
                raise EngineError(f"exact=True with backend {backend!r}: expected one of the two")
            backend, dtype = cls.alone, "float32" if dtype == "auto" else dtype
        loaded = load(cls.auto_class, cls.kind, where, dtype=dtype, **options)
        return cls(
            loaded.model,
            loaded.tokenizer,
            name=loaded.name,
            revision=loaded.revision,
            base=loaded.base,
            quantised=loaded.quantised,
            date=loaded.date,
            max_tokens=max_tokens,
            backend=backend,
            thinking=thinking,
        )

    def _prepare(self, tokenizer: Any, backend: str) -> str:
        """Make `prompts` and all that answers need, and choose the backend: here, the only one. raises : EngineError"""
        self.prompts = PromptTokenizer(tokenizer, max_length(self.model.config, tokenizer))
        if backend not in ("auto", self.alone):
            raise EngineError(f"{self.name}: backend is {backend!r}, expected {self.alone!r}, or auto", model=self.name)
        return self.alone

    def _sign(self, base: str, quantised: str, date: str) -> Signature:
        """Model, revision, an adapter's base model, how its weights were quantised, dtype, backend, rendered chat
        template and the date that it prints, library versions.

        max_tokens is part of it below float32, where what is run together shows in the second digit.
        """
        dtype = dtype_name(self.model)
        parts = {"model": f"{self.name}@{self.revision}"} | ({"base": base} if base else {})
        if quantised:
            parts["gguf"] = quantised
        elif kept := quantisation(self.model):
            parts["quantised"] = kept
        parts |= {"dtype": dtype, "backend": self.backend}
        if dtype != "float32" and self.backend != self.alone:
            parts["max_tokens"] = str(self.max_tokens)
        chat = self.prompts.template_hash
        if self.thinking:
            parts["thinking"] = "on"
            chat += f"+{self.thinking.template_hash}"
        parts |= {"chat": chat, **({"date": date} if date else {}), **self.own_parts}
        if self.prompts.boundary == "separate":
            parts["boundary"] = "separate"
        return Signature.of(**parts, transformers=transformers.__version__, torch=torch.__version__)

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        """As the contract has it (engine.py)."""
        return gather(self, questions, progress)

    def answer_parts(self, questions: Sequence[Question], take: Take, progress: Progress | None = None) -> None:
        """The answers of each forward, as store/parts.py has it. Questions of one kind, with the same labels and
        sampling, go together."""
        groups: dict[tuple[Kind, object, object], list[int]] = {}
        for row, question in enumerate(questions):
            groups.setdefault((question.kind, question.labels, question.sampling), []).append(row)
        ways = {"labels": self._judge, "text": self._write, "tokens": self._read}
        for (kind, _, _), group in groups.items():
            way = self._refuse if kind in self.cannot else ways[kind]
            for part, usage in way([questions[row] for row in group]):
                take({group[place]: answer for place, answer in part.items()}, usage)
                if progress and part:
                    progress(len(part))

    def _refuse(self, questions: Sequence[Question]) -> Iterator[Part]:
        what = self.cannot[questions[0].kind]
        error = EngineError(f"{self.name} cannot {what}: it is {self.kind}. Take a language model", model=self.name)
        yield dict.fromkeys(range(len(questions)), error), Usage()

    def _judge(self, questions: Sequence[Question]) -> Iterator[Part]:
        """log P(label | prompt), the whole label, summed over its surface forms, over the full vocabulary.

        log P(label) = log sum_form exp( sum_t log p(form_t | prompt, form_<t) )
        """
        asked = Questions(questions, self.prompts, self.name)
        yield asked.failures, Usage(n_in=asked.n_tokens)
        for group, log_probs, n_tokens in self._next_log_probs(asked):
            yield asked.add(group, log_probs), Usage(n_computed=n_tokens)

    def _read(self, questions: Sequence[Question]) -> Iterator[Part]:
        """log P of each token of continuations."""
        asked = Readings(questions, self.prompts, self.name)
        yield asked.failures, Usage()
        for index, log_probs in self._token_log_probs(asked):
            yield asked.add(index, log_probs), Usage()

    def _write(self, questions: Sequence[Question]) -> Iterator[Part]:
        """Texts with the same sampling, each drawn with its question's seed alone.

        A text ends where the model ends it or before a stop string ("stop"), or is cut at max_new_tokens or where the
        model's context ends ("length"). What was thought before it is not part of it, and has LONG tokens of its own,
        unless labels are asked for: then max_new_tokens has room for it.
        """
        prompts_of = self.thinking or self.prompts

        def key(question: Question) -> tuple[bytes, int]:
            return np.array(prompts_of.encode(question.prompt), dtype=np.int32).tobytes(), question.seed

        by_key, failures = _rows_by(questions, key)
        yield failures, Usage()
        rows = list(by_key.values())
        prompts = [np.frombuffer(ids, dtype=np.int32) for ids, _ in by_key]
        sampling = whole = questions[0].sampling or Sampling()
        if self.thinking:
            n_tokens = sampling.max_new_tokens + (0 if questions[0].labels else LONG)
            whole = replace(sampling, max_new_tokens=n_tokens, stop=())
        for batch, texts in self._written(prompts, whole, [seed for _, seed in by_key]):
            found = [self._answer_of(text, sampling) for text in texts]
            answers = {row: text for index, text in zip(batch, found, strict=True) for row in rows[index]}
            n_out = sum(text.n_tokens for text in found if isinstance(text, Generation))
            yield answers, Usage(n_out=n_out)

    def _answer_of(self, text: Answer, sampling: Sampling) -> Answer:
        """Of what a model that thinks has written."""
        if self.thinking is None or not isinstance(text, Generation):
            return text
        return self.thinking.answer(text, sampling.stop)

    def _one_by_one(
        self, questions: Sequence[Question], ask: Callable[[Question], tuple[Answer, int]]
    ) -> Iterator[Part]:
        """Each by itself. ask : a question -> its answer, and the tokens read for it; it may raise EngineError"""
        for row, question in enumerate(questions):
            answer: Answer
            try:
                answer, n = ask(question)
            except EngineError as error:
                answer, n = error, 0
            yield {row: answer}, Usage(n_in=n, n_computed=n)

    def _next_log_probs(self, asked: Questions) -> Iterator[tuple[Sequence[int], torch.Tensor, int]]:
        """Every sequence once, some together: which they are, what Questions.add takes besides, and the tokens run
        over."""
        raise NotImplementedError

    def _token_log_probs(self, asked: Readings) -> Iterator[tuple[int, FloatArray]]:
        """Every sequence once: which it is, and what Readings.add takes besides."""
        raise NotImplementedError

    def _written(
        self, prompts: Sequence[TokenIds], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[list[int], Sequence[Answer]]]:
        """Every prompt once, some side by side: which they are, and their texts."""
        raise NotImplementedError


# -------------------------------------------------------------------------------------------- questions


def _rows_by(
    questions: Sequence[Question], key: Callable[[Question], K]
) -> tuple[dict[K, list[int]], dict[int, Answer]]:
    """Rows by what they ask, so that it is asked once; and the errors of rows that cannot be asked."""
    rows: dict[K, list[int]] = {}
    failures: dict[int, Answer] = {}
    for row, question in enumerate(questions):
        try:
            rows.setdefault(key(question), []).append(row)
        except LabelError:
            raise
        except EngineError as error:
            failures[row] = error
    return rows, failures


class Questions:
    """What to run so that questions on the same labels are answered, and what has been found.

    sequences : int32; every prompt, and every prompt with the beginning of a label of several tokens
    n_starts : for each, how many of its tokens are the prompt's
    n_tokens : in the prompts of all rows
    failures : the errors of rows that cannot be asked
    raises : LabelError, when labels collide or cannot be said
    """

    def __init__(self, questions: Sequence[Question], tokenizer: PromptTokenizer, name: str) -> None:
        def key(question: Question) -> tuple[bytes, LabelForms]:
            ids, forms = tokenizer.question(question.prompt, question.labels)
            return np.array(ids, dtype=np.int32).tobytes(), forms

        self._tokenizer = tokenizer
        rows, self.failures = _rows_by(questions, key)
        if any(forms.boundary == "separate" for _, forms in rows):
            warn_of_boundary(name, f"the labels {list(questions[0].labels)}")
        self.n_tokens = sum(len(ids) // 4 * len(same) for (ids, _), same in rows.items())
        self._asked = list(rows.items())
        self.sequences: list[TokenIds] = []
        self.n_starts: list[int] = []
        self._indices: dict[tuple[bytes, Ids], int] = {}  # prompt and beginning of a label -> sequence
        self._needed: list[set[int]] = []  # after each sequence: the tokens whose log-probability is asked for
        self._askers: list[list[int]] = []  # of each sequence: places in _asked
        self._n_open: list[int] = []  # of each in _asked: its sequences that have not been run
        self._values: dict[tuple[int, int], float] = {}
        self._top: dict[int, list[tuple[int, float]]] = {}
        for place, ((ids, forms), _) in enumerate(self._asked):
            starts = {form[:n]: None for form in forms.all for n in range(len(form))}
            for index in [self._index(ids, start) for start in starts]:
                self._askers[index].append(place)
            for form in forms.all:
                for n in range(len(form)):
                    self._needed[self._indices[ids, form[:n]]].add(form[n])
            self._n_open.append(len(starts))

    def _index(self, ids: bytes, start: Ids) -> int:
        if (ids, start) not in self._indices:
            self._indices[ids, start] = len(self.sequences)
            prompt = np.frombuffer(ids, dtype=np.int32)
            self.sequences.append(np.append(prompt, np.array(start, dtype=np.int32)))
            self.n_starts.append(len(prompt))
            self._needed.append(set())
            self._askers.append([])
        return self._indices[ids, start]

    def add(self, group: Sequence[int], log_probs: torch.Tensor) -> dict[int, Answer]:
        """What was found after a group of sequences; it may be empty. The rows that are answered by that.

        log_probs : of the token after each, float32, shape (n_sequences, vocabulary)
        """
        if not group:
            return {}
        pairs = [(row, token) for row, index in enumerate(group) for token in sorted(self._needed[index])]
        rows, tokens = map(list, zip(*pairs, strict=True))
        for (row, token), value in zip(pairs, log_probs[rows, tokens].tolist(), strict=True):
            self._values[group[row], token] = value
        n_top = 1 + max(len(self._needed[index]) for index in group)  # one of them begins no label
        best = log_probs.topk(min(n_top, log_probs.shape[-1]))
        for index, top, values in zip(group, best.indices.tolist(), best.values.tolist(), strict=True):
            self._top[index] = list(zip(top, values, strict=True))
        answered: dict[int, Answer] = {}
        for place in (place for index in group for place in self._askers[index]):
            self._n_open[place] -= 1
            if not self._n_open[place]:
                asked, rows_alike = self._asked[place]
                answered |= dict.fromkeys(rows_alike, self._answer(*asked))
        return answered

    def _answer(self, ids: bytes, forms: LabelForms) -> Answer:
        def log_prob(form: Ids) -> float:
            return sum(self._values[self._indices[ids, form[:n]], token] for n, token in enumerate(form))

        log_probs = [float(np.logaddexp.reduce([log_prob(form) for form in each])) for each in forms.forms]
        top = self._top[self._indices[ids, ()]]
        token, value = next(((token, value) for token, value in top if token not in forms.starts), (0, -np.inf))
        other = OtherToken(self._tokenizer.tokenizer.decode([token]), value)
        return EngineError(NOT_NUMBERS) if np.isnan(log_probs).any() else LabelAnswer(log_probs, other)


class Readings:
    """What to run so that all continuations are read, and what has been found.

    sequences : int32; prompts with their continuations behind them
    n_starts : for each, how many of its tokens are the prompt's
    failures : the errors of rows that cannot be read
    """

    def __init__(self, questions: Sequence[Question], tokenizer: PromptTokenizer, name: str) -> None:
        n_separate = 0

        def key(question: Question) -> tuple[bytes, int]:
            nonlocal n_separate
            ids, added, boundary = tokenizer.continuation(question.prompt, question.continuation or "")
            n_separate += boundary == "separate"
            return np.array([*ids, *added], dtype=np.int32).tobytes(), len(ids)

        rows, self.failures = _rows_by(questions, key)
        if n_separate:
            warn_of_boundary(name, f"{n_separate} of {len(questions)} continuations")
        self._rows = list(rows.values())
        self.sequences: list[TokenIds] = [np.frombuffer(ids, dtype=np.int32) for ids, _ in rows]
        self.n_starts = [n_start for _, n_start in rows]

    def add(self, index: int, log_probs: FloatArray) -> dict[int, Answer]:
        """What was read of a sequence: the log-probabilities of its tokens from n_start on, nats. The rows that are
        answered by that."""
        unusable = np.isnan(log_probs).any()
        return {row: EngineError(NOT_NUMBERS) if unusable else log_probs.copy() for row in self._rows[index]}


# -------------------------------------------------------------------------------------------- log-probabilities


def log_softmax(logits: torch.Tensor) -> torch.Tensor:
    """Log-probabilities of logits, nats, over the last axis, in float32."""
    return logits.float().log_softmax(-1)


def chosen(logits: torch.Tensor, rows: IntArray, tokens: IntArray) -> FloatArray:
    """log P of tokens[i] by logits[rows[i]], nats. In blocks: the logits in float32 would take as much memory again."""
    found = []
    for start in range(0, len(rows), _BLOCK):
        row, token = (torch.from_numpy(all_[start : start + _BLOCK]).to(logits.device) for all_ in (rows, tokens))
        found.append(log_softmax(logits[row]).gather(-1, token[:, None])[:, 0])
    values: FloatArray = torch.cat(found).double().cpu().numpy()
    return values
