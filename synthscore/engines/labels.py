"""Prompts, and labels or continuations -> token sequences to run; what a forward gives -> log-probabilities -> answers.

All of an engine whose model runs here, but the forward itself. A label of several tokens is asked for by
running the prompt with its beginning too: log P(label) is the sum over its tokens. A continuation is run once, and each
of its tokens is read behind those before it. Log-probabilities are of float32: neighbouring bfloat16 logits near 20 are
0.125 apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt
import torch

from ..engine import Answer, Answers, LabelAnswer, OtherToken, Progress, Question
from ..errors import EngineError, LabelError, SynthscoreWarning
from ..types import FloatArray, IntArray
from .tokens import Ids, LabelForms, PromptTokenizer, warn_of_boundary

TokenIds = npt.NDArray[np.int32]

MAX_ROWS = 16  # sequences side by side: bounds the logits, (rows, places, vocabulary)
MOST_LOGITS = 2**25  # at once, where they are read at many places: 128 MiB in float32
_BLOCK = 64  # rows

NOT_NUMBERS = "the model answers with NaN, expected numbers. Try dtype float32"


K = TypeVar("K", bound=Hashable)
Backend = TypeVar("Backend", bound=str)


class _Asked(Generic[K]):
    """Rows by what they ask, so that it is asked once. A row that cannot be asked has its error.

    sequences : int32; what to run
    n_starts : for each, how many of its tokens are the prompt's
    """

    def __init__(self, questions: Sequence[Question], tokenizer: PromptTokenizer, progress: Progress | None) -> None:
        self._tokenizer, self._progress = tokenizer, progress
        self._answers: list[Answer] = [EngineError("not asked")] * len(questions)
        self._rows: dict[K, list[int]] = {}
        self.sequences: list[TokenIds] = []
        self.n_starts: list[int] = []
        for row, question in enumerate(questions):
            try:
                self._rows.setdefault(self._key(question), []).append(row)
            except LabelError:
                raise
            except EngineError as error:
                self._answers[row] = error
        n_failed = len(questions) - sum(map(len, self._rows.values()))
        if progress and n_failed:
            progress(n_failed)

    def _key(self, question: Question) -> K:
        """What is asked: the same of rows that are answered alike. raises : EngineError"""
        raise NotImplementedError

    def _answered(self, key: K, answer: Answer) -> None:
        for row in self._rows[key]:
            self._answers[row] = answer.copy() if isinstance(answer, np.ndarray) else answer


class _Question(NamedTuple):
    """Which label follows these ids? ids : int32 as bytes"""

    ids: bytes
    forms: LabelForms


class Questions(_Asked[_Question]):
    """What to run so that questions on the same labels are answered, and what has been found.

    sequences : every prompt, and every prompt with the beginning of a label of several tokens
    raises : LabelError, when labels collide or cannot be said
    """

    def __init__(
        self, questions: Sequence[Question], tokenizer: PromptTokenizer, name: str, progress: Progress | None
    ) -> None:
        super().__init__(questions, tokenizer, progress)
        self.tokens_naive = sum(len(asked.ids) // 4 * len(rows) for asked, rows in self._rows.items())
        self.tokens_computed = 0
        if any(asked.forms.boundary == "separate" for asked in self._rows):
            warn_of_boundary(name, f"the labels {list(questions[0].labels)}")
        self._indices: dict[tuple[bytes, Ids], int] = {}  # prompt and beginning of a label -> sequence
        self._needed: list[set[int]] = []  # after each sequence: the tokens whose log-probability is asked for
        self._asked_at: dict[int, list[_Question]] = {}
        self._values: dict[tuple[int, int], float] = {}
        self._top: dict[int, list[tuple[int, float]]] = {}
        for question in self._rows:
            for form in question.forms.all:
                for n in range(len(form)):
                    self._needed[self._index(question, form[:n])].add(form[n])
            self._asked_at.setdefault(self._indices[question.ids, ()], []).append(question)

    def _key(self, question: Question) -> _Question:
        ids, forms = self._tokenizer.question(question.prompt, question.labels)
        return _Question(np.array(ids, dtype=np.int32).tobytes(), forms)

    def _index(self, question: _Question, start: Ids) -> int:
        key = (question.ids, start)
        if key not in self._indices:
            self._indices[key] = len(self.sequences)
            ids = np.frombuffer(question.ids, dtype=np.int32)
            self.sequences.append(np.concatenate([ids, np.array(start, dtype=np.int32)]) if start else ids)
            self.n_starts.append(len(ids))
            self._needed.append(set())
        return self._indices[key]

    def add(self, group: Sequence[int], log_probs: torch.Tensor, n_tokens: int) -> None:
        """What was found after a group of sequences, run over so many tokens.

        log_probs : of the token after each, float32, shape (n_sequences, vocabulary)
        """
        pairs = [(row, token) for row, index in enumerate(group) for token in sorted(self._needed[index])]
        rows, tokens = map(list, zip(*pairs, strict=True))
        for (row, token), value in zip(pairs, log_probs[rows, tokens].tolist(), strict=True):
            self._values[group[row], token] = value
        n_top = 1 + max(len(self._needed[index]) for index in group)  # one of them begins no label
        best = log_probs.topk(min(n_top, log_probs.shape[-1]))
        for index, top, values in zip(group, best.indices.tolist(), best.values.tolist(), strict=True):
            self._top[index] = list(zip(top, values, strict=True))
        self.tokens_computed += n_tokens
        if self._progress and (n := sum(len(self._rows[q]) for index in group for q in self._asked_at.get(index, ()))):
            self._progress(n)

    def answers(self) -> Answers:
        """In the order of the questions."""
        for question in self._rows:
            log_probs = self._log_probs(question)
            if np.isnan(log_probs).any():
                self._answered(question, EngineError(NOT_NUMBERS))
            else:
                self._answered(question, LabelAnswer(log_probs.tolist(), self._other_token(question)))
        return Answers(self._answers, self.tokens_naive, self.tokens_computed)

    def _log_probs(self, question: _Question) -> FloatArray:
        """log P(label), float64, shape (n_labels,)."""
        forms = question.forms.forms
        return np.array(
            [np.logaddexp.reduce([self._log_prob(question.ids, form) for form in group]) for group in forms]
        )

    def _log_prob(self, ids: bytes, form: Ids) -> float:
        return sum(self._values[self._indices[ids, form[:n]], token] for n, token in enumerate(form))

    def _other_token(self, question: _Question) -> OtherToken:
        """The most probable token that begins no label."""
        top = self._top[self._indices[question.ids, ()]]
        token, log_prob = next(((t, v) for t, v in top if t not in question.forms.starts), (0, -np.inf))
        return OtherToken(self._tokenizer.tokenizer.decode([token]), log_prob)


class Readings(_Asked[tuple[bytes, int]]):
    """What to run so that all continuations are read, and what has been found.

    sequences : prompts with their continuations behind them
    """

    def __init__(
        self, questions: Sequence[Question], tokenizer: PromptTokenizer, name: str, progress: Progress | None
    ) -> None:
        self._n_separate = 0
        super().__init__(questions, tokenizer, progress)
        if self._n_separate:
            warn_of_boundary(name, f"{self._n_separate} of {len(questions)} continuations")
        self._keys = list(self._rows)
        self.sequences = [np.frombuffer(ids, dtype=np.int32) for ids, _ in self._keys]
        self.n_starts = [n_start for _, n_start in self._keys]

    def _key(self, question: Question) -> tuple[bytes, int]:
        ids, added, boundary = self._tokenizer.continuation(question.prompt, question.continuation or "")
        self._n_separate += boundary == "separate"
        return np.array([*ids, *added], dtype=np.int32).tobytes(), len(ids)

    def add(self, index: int, log_probs: FloatArray) -> None:
        """What was read of a sequence: the log-probabilities of its tokens from n_start on, nats."""
        key = self._keys[index]
        self._answered(key, EngineError(NOT_NUMBERS) if np.isnan(log_probs).any() else log_probs)
        if self._progress:
            self._progress(len(self._rows[key]))

    def answers(self) -> Answers:
        """In the order of the questions."""
        return Answers(self._answers)


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


def disagreement(found: torch.Tensor, plain: torch.Tensor, dtype: torch.dtype) -> str:
    """In words, if log-probabilities differ by more than rounding; "" if they do not.

    Looks at the 50 most probable tokens of each row. Rounding is below 1e-4 nats in float32. Below float32 it grows
    with the numbers, 5 % of the largest at most; a wrong mask or position changes log-probabilities by nats.
    """
    top = plain.topk(min(50, plain.shape[-1])).indices
    found, plain = found.gather(-1, top), plain.gather(-1, top)
    difference = float((found - plain).abs().max())
    tolerance = 1e-4 if dtype == torch.float32 else max(0.1, 0.05 * float(plain.abs().max()))
    if difference <= tolerance:
        return ""
    return f"log-probabilities differ by {difference:.2g} nats from the plain forward, expected {tolerance:.2g}"


def choose_backend(
    name: str, wanted: str, backends: Mapping[Backend, str], problem_of: Callable[[Backend], str]
) -> Backend:
    """The first way to run a model that gives the numbers of its plain forward; or the one that is wanted, if it does.

    backends : in the order in which they are tried -> how prompts are then run, in words
    problem_of : why a backend is wrong, "" if it is not; it may raise whatever a forward raises
    raises : EngineError. warns : where the first backend is not the one that is taken
    """
    if wanted != "auto" and wanted not in backends:
        raise EngineError(f"{name}: backend is {wanted!r}, expected one of {', '.join(backends)}, or auto", model=name)
    problems: list[str] = []
    for backend in backends if wanted == "auto" else (cast("Backend", wanted),):
        try:
            problem = problem_of(backend)
        except Exception as error:  # a forward that does not take our arguments fails in its own way
            problem = f"its forward fails on {backend} input ({type(error).__name__}: {str(error)[:200]})"
        if not problem:
            if problems:
                words = f"{name}: prompts are run {backends[backend]}, because as {', '.join(problems)}"
                warnings.warn(words, SynthscoreWarning, stacklevel=6)
            return backend
        problems.append(f"{backend}, {problem}")
    remedy = "Take another model" if wanted == "auto" else "Try backend 'auto'"
    raise EngineError(f"{name} cannot be run right as {'; as '.join(problems)}. {remedy}", model=name)
