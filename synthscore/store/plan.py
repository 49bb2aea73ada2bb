"""Questions -> what it takes to ask them: how many the store does not hold, their tokens, the time. Asks nothing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..engine import Answers, Engine, Kind, Progress, Question
from ..errors import EngineError
from ..signature import Signature
from .engine import RecordedEngine, StoredEngine
from .file import Store

SAMPLE = 512  # questions whose tokens are counted, of one call
_PAUSE_S = 120  # between two batches of answers: after a longer time, another run wrote the second


class Plan:
    """An engine in the place of another, that counts what it is asked and answers nothing.

    sample : look at no more questions of a call than this, spread over all; None: at all
    n_questions : asked for
    pace : questions a second, as this engine's answers in the store came; None where that is not known
    """

    def __init__(self, engine: Engine, sample: int | None = None) -> None:
        self.engine, self.sample = engine, sample
        self.n_questions = self._n_seen = self._n_new = self._n_characters = 0
        self._n_tokens = self._n_read = 0  # tokens, and characters of the prompts that were tokenised
        self.pace: float | None = None
        self._new: set[bytes] = set()

    @property
    def signature(self) -> Signature:
        return self.engine.signature

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        """An EngineError for each."""
        self.n_questions += len(questions)
        seen = questions[:: max(1, len(questions) // self.sample)] if self.sample else questions
        self._n_seen += len(seen)
        asked = {} if isinstance(self.engine, RecordedEngine) else self._missing(seen)
        self._n_new += len(asked)
        self._n_characters += sum(_size(question) for question in asked.values())
        if asked and self._n_new == len(asked):
            self.pace = self._pace(next(iter(asked.values())).kind)
        tokens: Any = getattr(getattr(self.engine, "engine", self.engine), "prompts", None)
        for question in list(asked.values())[:: max(1, len(asked) // SAMPLE)] if tokens else ():
            try:
                self._n_tokens += len(tokens.encode(question.prompt))
            except EngineError:  # too long: it would fail
                continue
            self._n_read += _size(question)
        return Answers([EngineError("it was counted, not asked")] * len(questions))

    def _missing(self, questions: Sequence[Question]) -> dict[bytes, Question]:
        """Those that the store does not hold, each once."""
        keys = [question.key(str(self.signature)) for question in questions]
        stored = self._store.get_many(keys) if self._store else {}
        asked = zip(keys, questions, strict=True)
        new = {key: question for key, question in asked if key not in stored and key not in self._new}
        self._new |= new.keys()
        return new

    @property
    def _store(self) -> Store | None:
        return self.engine.store if isinstance(self.engine, StoredEngine) else None

    @property
    def n_new(self) -> int:
        """To be asked: not stored, and not the same as another."""
        return round(self.n_questions * self._n_new / max(self._n_seen, 1))

    @property
    def n_tokens(self) -> int:
        """In the prompts of the new ones."""
        characters = self.n_new * self._n_characters / max(self._n_new, 1)
        return round(characters * (self._n_tokens / self._n_read if self._n_read else 1 / 4))

    @property
    def tokenised(self) -> bool:
        """Whether a tokenizer has counted; else n_tokens is an estimate, of 4 characters each."""
        return self._n_read > 0

    def _pace(self, kind: Kind) -> float | None:
        engine, batches = str(self.signature), self._store.batches() if self._store else ()
        own = [batch for batch in batches if (batch.engine, batch.kind) == (engine, kind)]
        gaps = [(after.n_answers, after.created_at - before.created_at) for before, after in pairwise(own)]
        known = [(n, seconds) for n, seconds in gaps if 0 < seconds <= _PAUSE_S]
        return sum(n for n, _ in known) / sum(seconds for _, seconds in known) if known else None

    def of(self, n_questions: int) -> Plan:
        """This, for so many questions of the same kind."""
        self.n_questions = n_questions
        return self


def _size(question: Question) -> int:
    return len(question.prompt.text) + len(question.prompt.prefill) + len(question.continuation or "")
