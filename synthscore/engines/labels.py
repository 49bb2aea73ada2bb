"""Prompts and labels -> the token sequences to run, and what was answered -> LabelLogProbs. No model, no torch.

The first half of every engine that reads log-probabilities token by token. A label of several tokens is asked for by
running the prompt with its beginning too: log P(label) is the sum over its tokens.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..engine import LabelLogProbs, Progress, Prompt, Rival
from ..errors import EngineError, LabelError, SynthscoreWarning
from ..types import FloatArray
from .tokens import Ids, LabelForms, PromptTokenizer

TokenIds = npt.NDArray[np.int32]

NOT_NUMBERS = "the model answers with NaN, expected numbers. Try dtype float32"


@dataclass(frozen=True, slots=True)
class _Question:
    """Which label follows these ids? Equal prompts are one question. ids : int32 as bytes."""

    ids: bytes
    forms: LabelForms


class Questions:
    """What to run so that all prompts are answered, and what has been found.

    sequences : int32; every prompt, and every prompt with the beginning of a label of several tokens
    n_starts : for each, how many of its tokens are the prompt's (the rest begins a label)
    raises : LabelError, when labels collide or cannot be said. A prompt that cannot be asked is a failure of its row.
    """

    def __init__(
        self,
        prompts: Sequence[Prompt],
        labels: Sequence[str],
        tokenizer: PromptTokenizer,
        name: str,
        progress: Progress | None,
    ) -> None:
        self._labels, self._tokenizer, self._progress = tuple(labels), tokenizer, progress
        self._n_rows = len(prompts)
        self._rows: dict[_Question, list[int]] = {}  # and the rows that ask it
        self._failures: dict[int, str] = {}
        self.tokens_naive = self.tokens_computed = 0
        for row, prompt in enumerate(prompts):
            try:
                question = self._question(prompt)
            except LabelError:
                raise
            except EngineError as error:
                self._failures[row] = str(error)
            else:
                self._rows.setdefault(question, []).append(row)
                self.tokens_naive += len(question.ids) // 4
        if any(question.forms.boundary == "separate" for question in self._rows):
            warnings.warn(
                f"{name}: the tokenizer merges the labels {list(labels)} with the end of a prompt, "
                "so they are tokenised by themselves",
                SynthscoreWarning,
                stacklevel=4,
            )
        if progress and self._failures:
            progress(len(self._failures))

        self.sequences: list[TokenIds] = []
        self.n_starts: list[int] = []
        self._places: dict[tuple[bytes, Ids], int] = {}  # prompt and beginning of a label -> sequence
        self._needed: list[set[int]] = []  # after each sequence: the tokens whose log-probability is asked for
        self._asked_at: dict[int, list[_Question]] = {}
        self._values: dict[tuple[int, int], float] = {}
        self._top: dict[int, list[tuple[int, float]]] = {}
        for question in self._rows:
            for form in question.forms.all:
                for n in range(len(form)):
                    self._needed[self._place(question, form[:n])].add(form[n])
            self._asked_at.setdefault(self._places[question.ids, ()], []).append(question)

    def _question(self, prompt: Prompt) -> _Question:
        ids, forms = self._tokenizer.question(prompt, self._labels)
        return _Question(np.array(ids, dtype=np.int32).tobytes(), forms)

    def _place(self, question: _Question, start: Ids) -> int:
        key = (question.ids, start)
        if key not in self._places:
            self._places[key] = len(self.sequences)
            ids = np.frombuffer(question.ids, dtype=np.int32)
            self.sequences.append(np.concatenate([ids, np.array(start, dtype=np.int32)]) if start else ids)
            self.n_starts.append(len(ids))
            self._needed.append(set())
        return self._places[key]

    def needed(self, group: Sequence[int]) -> tuple[list[int], list[int], int]:
        """For the sequences of a group: rows of the group and tokens to be looked up, and how many of the most probable
        tokens to list, so that one of them begins no label."""
        pairs = [(row, token) for row, place in enumerate(group) for token in sorted(self._needed[place])]
        n_top = 1 + max(len(self._needed[place]) for place in group)
        return [row for row, _ in pairs], [token for _, token in pairs], n_top

    def add(
        self,
        group: Sequence[int],
        values: Iterable[float],
        top: Iterable[tuple[Sequence[int], Sequence[float]]],
        n_tokens: int,
    ) -> None:
        """What `needed` asked for: log-probabilities in its order; for each sequence its most probable tokens, with
        their log-probabilities; and how many tokens were run over."""
        rows, tokens, _ = self.needed(group)
        for row, token, value in zip(rows, tokens, values, strict=True):
            self._values[group[row], token] = value
        for place, (top_tokens, top_values) in zip(group, top, strict=True):
            self._top[place] = list(zip(top_tokens, top_values, strict=True))
        self.tokens_computed += n_tokens
        if self._progress and (n := sum(len(self._rows[q]) for place in group for q in self._asked_at.get(place, ()))):
            self._progress(n)

    def answers(self) -> LabelLogProbs:
        """Rows in the order of the prompts."""
        log_probs = np.full((self._n_rows, len(self._labels)), np.nan)
        rivals: list[Rival | None] = [None] * self._n_rows
        failures = dict(self._failures)
        for question, rows in self._rows.items():
            answer = self._log_probs(question)
            if np.isnan(answer).any():
                failures.update(dict.fromkeys(rows, NOT_NUMBERS))
                continue
            log_probs[rows] = answer
            rival = self._rival(question)
            for row in rows:
                rivals[row] = rival
        return LabelLogProbs(self._labels, log_probs, tuple(rivals), failures, self.tokens_naive, self.tokens_computed)

    def _log_probs(self, question: _Question) -> FloatArray:
        """log P(label), float64, shape (n_labels,)."""
        forms = question.forms.forms
        return np.array(
            [np.logaddexp.reduce([self._log_prob(question.ids, form) for form in group]) for group in forms]
        )

    def _log_prob(self, ids: bytes, form: Ids) -> float:
        return sum(self._values[self._places[ids, form[:n]], token] for n, token in enumerate(form))

    def _rival(self, question: _Question) -> Rival:
        """The most probable token that begins no label."""
        top = self._top[self._places[question.ids, ()]]
        token, log_prob = next(((t, v) for t, v in top if t not in question.forms.starts), (0, -np.inf))
        return Rival(self._tokenizer.tokenizer.decode([token]), log_prob)
