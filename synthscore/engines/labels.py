"""Prompts and labels -> the token sequences to run, and what was answered -> answers. No model, no torch.

The first half of every engine that reads log-probabilities token by token. A label of several tokens is asked for by
running the prompt with its beginning too: log P(label) is the sum over its tokens.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..engine import Answer, Answers, LabelAnswer, OtherToken, Progress, Prompt, Question
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
    """What to run so that questions on the same labels are answered, and what has been found.

    sequences : int32; every prompt, and every prompt with the beginning of a label of several tokens
    n_starts : for each, how many of its tokens are the prompt's (the rest begins a label)
    raises : LabelError, when labels collide or cannot be said. A prompt that cannot be asked is a failure of its row.
    """

    def __init__(
        self,
        asked: Sequence[Question],
        tokenizer: PromptTokenizer,
        name: str,
        progress: Progress | None,
    ) -> None:
        self._labels, self._tokenizer, self._progress = asked[0].labels, tokenizer, progress
        self._answers: list[Answer] = [EngineError("not asked")] * len(asked)
        self._rows: dict[_Question, list[int]] = {}  # and the rows that ask it
        self.tokens_naive = self.tokens_computed = 0
        n_failed = 0
        for row, prompt in enumerate(one.prompt for one in asked):
            try:
                question = self._question(prompt)
            except LabelError:
                raise
            except EngineError as error:
                self._answers[row] = error
                n_failed += 1
            else:
                self._rows.setdefault(question, []).append(row)
                self.tokens_naive += len(question.ids) // 4
        if any(question.forms.boundary == "separate" for question in self._rows):
            warnings.warn(
                f"{name}: the tokenizer merges the labels {list(self._labels)} with the end of a prompt, "
                "so they are tokenised by themselves",
                SynthscoreWarning,
                stacklevel=4,
            )
        if progress and n_failed:
            progress(n_failed)

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

    def answers(self) -> Answers:
        """In the order of the questions."""
        for question, rows in self._rows.items():
            log_probs = self._log_probs(question)
            answer: Answer = EngineError(NOT_NUMBERS)
            if not np.isnan(log_probs).any():
                answer = LabelAnswer(log_probs.tolist(), self._other_token(question))
            for row in rows:
                self._answers[row] = answer
        return Answers(self._answers, self.tokens_naive, self.tokens_computed)

    def _log_probs(self, question: _Question) -> FloatArray:
        """log P(label), float64, shape (n_labels,)."""
        forms = question.forms.forms
        return np.array(
            [np.logaddexp.reduce([self._log_prob(question.ids, form) for form in group]) for group in forms]
        )

    def _log_prob(self, ids: bytes, form: Ids) -> float:
        return sum(self._values[self._places[ids, form[:n]], token] for n, token in enumerate(form))

    def _other_token(self, question: _Question) -> OtherToken:
        """The most probable token that begins no label."""
        top = self._top[self._places[question.ids, ()]]
        token, log_prob = next(((t, v) for t, v in top if t not in question.forms.starts), (0, -np.inf))
        return OtherToken(self._tokenizer.tokenizer.decode([token]), log_prob)
