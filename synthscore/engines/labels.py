"""Prompts, and labels or continuations -> token sequences to run; what a forward gives -> log-probabilities -> answers.

All of an engine whose model runs here, but the forward itself. A label of several tokens is asked for by
running the prompt with its beginning too: log P(label) is the sum over its tokens. A continuation is run once, and each
of its tokens is read behind those before it. Log-probabilities are of float32: neighbouring bfloat16 logits near 20 are
0.125 apart.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import TypeVar, cast

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


def _by_key(
    questions: Sequence[Question], key: Callable[[Question], K], progress: Progress | None
) -> tuple[dict[K, list[int]], list[Answer]]:
    """Rows by what they ask, so that it is asked once; and answers, so far the errors of rows that cannot be asked."""
    rows: dict[K, list[int]] = {}
    answers: list[Answer] = [EngineError("not asked")] * len(questions)
    for row, question in enumerate(questions):
        try:
            rows.setdefault(key(question), []).append(row)
        except LabelError:
            raise
        except EngineError as error:
            answers[row] = error
    n_failed = len(questions) - sum(map(len, rows.values()))
    if progress and n_failed:
        progress(n_failed)
    return rows, answers


class Questions:
    """What to run so that questions on the same labels are answered, and what has been found.

    sequences : int32; every prompt, and every prompt with the beginning of a label of several tokens
    n_starts : for each, how many of its tokens are the prompt's
    raises : LabelError, when labels collide or cannot be said
    """

    def __init__(
        self, questions: Sequence[Question], tokenizer: PromptTokenizer, name: str, progress: Progress | None
    ) -> None:
        def key(question: Question) -> tuple[bytes, LabelForms]:
            ids, forms = tokenizer.question(question.prompt, question.labels)
            return np.array(ids, dtype=np.int32).tobytes(), forms

        self._tokenizer, self._progress = tokenizer, progress
        self._rows, self._answers = _by_key(questions, key, progress)
        if any(forms.boundary == "separate" for _, forms in self._rows):
            warn_of_boundary(name, f"the labels {list(questions[0].labels)}")
        self.tokens_naive = sum(len(ids) // 4 * len(rows) for (ids, _), rows in self._rows.items())
        self.tokens_computed = 0
        self.sequences: list[TokenIds] = []
        self.n_starts: list[int] = []
        self._indices: dict[tuple[bytes, Ids], int] = {}  # prompt and beginning of a label -> sequence
        self._needed: list[set[int]] = []  # after each sequence: the tokens whose log-probability is asked for
        self._n_asked: Counter[int] = Counter()  # at each sequence that is a prompt: rows
        self._values: dict[tuple[int, int], float] = {}
        self._top: dict[int, list[tuple[int, float]]] = {}
        for (ids, forms), rows in self._rows.items():
            for form in forms.all:
                for n in range(len(form)):
                    self._needed[self._index(ids, form[:n])].add(form[n])
            self._n_asked[self._indices[ids, ()]] += len(rows)

    def _index(self, ids: bytes, start: Ids) -> int:
        if (ids, start) not in self._indices:
            self._indices[ids, start] = len(self.sequences)
            prompt = np.frombuffer(ids, dtype=np.int32)
            self.sequences.append(np.append(prompt, np.array(start, dtype=np.int32)))
            self.n_starts.append(len(prompt))
            self._needed.append(set())
        return self._indices[ids, start]

    def add(self, group: Sequence[int], log_probs: torch.Tensor, n_tokens: int) -> None:
        """What was found after a group of sequences, run over so many tokens; it may be empty.

        log_probs : of the token after each, float32, shape (n_sequences, vocabulary)
        """
        self.tokens_computed += n_tokens
        if not group:
            return
        pairs = [(row, token) for row, index in enumerate(group) for token in sorted(self._needed[index])]
        rows, tokens = map(list, zip(*pairs, strict=True))
        for (row, token), value in zip(pairs, log_probs[rows, tokens].tolist(), strict=True):
            self._values[group[row], token] = value
        n_top = 1 + max(len(self._needed[index]) for index in group)  # one of them begins no label
        best = log_probs.topk(min(n_top, log_probs.shape[-1]))
        for index, top, values in zip(group, best.indices.tolist(), best.values.tolist(), strict=True):
            self._top[index] = list(zip(top, values, strict=True))
        if self._progress and (n := sum(self._n_asked[index] for index in group)):
            self._progress(n)

    def answers(self) -> Answers:
        """In the order of the questions."""

        def log_prob(ids: bytes, form: Ids) -> float:
            return sum(self._values[self._indices[ids, form[:n]], token] for n, token in enumerate(form))

        for (ids, forms), rows in self._rows.items():
            log_probs = [float(np.logaddexp.reduce([log_prob(ids, form) for form in each])) for each in forms.forms]
            top = self._top[self._indices[ids, ()]]
            token, value = next(((token, value) for token, value in top if token not in forms.starts), (0, -np.inf))
            other = OtherToken(self._tokenizer.tokenizer.decode([token]), value)
            answer = EngineError(NOT_NUMBERS) if np.isnan(log_probs).any() else LabelAnswer(log_probs, other)
            for row in rows:
                self._answers[row] = answer
        return Answers(self._answers, self.tokens_naive, self.tokens_computed)


class Readings:
    """What to run so that all continuations are read, and what has been found.

    sequences : int32; prompts with their continuations behind them
    n_starts : for each, how many of its tokens are the prompt's
    """

    def __init__(
        self, questions: Sequence[Question], tokenizer: PromptTokenizer, name: str, progress: Progress | None
    ) -> None:
        n_separate = 0

        def key(question: Question) -> tuple[bytes, int]:
            nonlocal n_separate
            ids, added, boundary = tokenizer.continuation(question.prompt, question.continuation or "")
            n_separate += boundary == "separate"
            return np.array([*ids, *added], dtype=np.int32).tobytes(), len(ids)

        self._progress = progress
        rows, self._answers = _by_key(questions, key, progress)
        if n_separate:
            warn_of_boundary(name, f"{n_separate} of {len(questions)} continuations")
        self._rows = list(rows.values())
        self.sequences: list[TokenIds] = [np.frombuffer(ids, dtype=np.int32) for ids, _ in rows]
        self.n_starts = [n_start for _, n_start in rows]

    def add(self, index: int, log_probs: FloatArray) -> None:
        """What was read of a sequence: the log-probabilities of its tokens from n_start on, nats."""
        unusable = np.isnan(log_probs).any()
        for row in self._rows[index]:
            self._answers[row] = EngineError(NOT_NUMBERS) if unusable else log_probs.copy()
        if self._progress:
            self._progress(len(self._rows[index]))

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
