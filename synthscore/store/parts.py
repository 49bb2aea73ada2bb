"""Answers as they come: an engine passes each answer on before its last one is there, so that it can be stored.

Any engine can be asked like this (`in_parts`): an engine that gives all answers at the end is asked some questions at a
time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from ..engine import (
    Answer,
    Answers,
    Engine,
    EngineAround,
    Kind,
    Progress,
    Question,
    require_all,
    split_faults,
    warn_of_faults,
)
from ..types import Usage

PART_S, PART_N = 0.5, 16
"""Answers that have come are given on and stored together: those of so many seconds, but no more than so many. It is
what a process that is killed loses."""

BATCH_S = 15.0
"""Seconds that one call should take of an engine that gives its answers at its end."""
LEAST: Mapping[Kind, int] = {"labels": 8, "text": 1, "tokens": 8}
"""Questions in its first call; a text costs as much as tens of verdicts, minutes on a small machine."""
MOST = 8192
"""Questions in a call of any engine: bounds memory."""
_GROWTH = 4  # a call has at most so many times as many questions as the one before: a pace may have been luck

Take = Callable[[Mapping[int, Answer], Usage], None]
"""Called with answers as they come, each under the place of its question, and with the tokens that they took; every
PART_S, where the engine can, even if none came. What an interrupt kept from being taken comes once more."""


@runtime_checkable
class AnswersInParts(Engine, Protocol):
    """An engine that gives its answers as they come."""

    def answer_parts(self, questions: Sequence[Question], take: Take, progress: Progress | None = None) -> None:
        """As `answer`, with every answer given to `take`, on the caller's thread.

        What `take` raises ends the call, and so does an interrupt: what has come by then is given to `take` before the
        exception goes on.
        """
        ...


def in_parts(engine: Engine) -> AnswersInParts:
    """The engine, or one around it that asks it some questions at a time."""
    return engine if isinstance(engine, AnswersInParts) else InBatches(engine)


def gather(engine: AnswersInParts, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
    """What an engine answers in parts, as `Engine.answer` gives it."""
    rows: dict[int, Answer] = {}
    total = Usage()

    def take(part: Mapping[int, Answer], usage: Usage) -> None:
        nonlocal total
        rows.update(part)
        total += usage

    engine.answer_parts(questions, take, progress)
    return Answers([rows[row] for row in range(len(questions))], total)


def ask_in_parts(
    engine: AnswersInParts, questions: Sequence[Question], take: Take, progress: Progress | None = None
) -> None:
    """Give all answers to `take`. What is no answer (find_fault) becomes the EngineError of its question.

    raises : as the engine does; EngineError where it does not give one answer a question
    warns : of what is no answer, once, with their number
    """
    answered: set[int] = set()
    faults: dict[int, str] = {}

    def check(part: Mapping[int, Answer], usage: Usage) -> None:
        if part and part.keys() <= answered:
            return
        checked, wrong = split_faults(engine, questions, part)
        faults.update(wrong)
        take(checked, usage)
        answered.update(part)

    engine.answer_parts(questions, check, progress)
    require_all(engine, len(answered), questions)
    warn_of_faults(engine, faults, len(questions))


class InBatches(EngineAround):
    """An engine that is asked some questions of one kind at a time: few at first, then as many as take about BATCH_S at
    the pace of the last call. A killed run loses the answers of one call.

    A call that ends within a context makes the engine compute its beginning once more.

    most : questions in a call
    """

    def __init__(self, engine: Engine, most: int = MOST) -> None:
        super().__init__(engine)
        self.most = most
        self.sizes: dict[Kind, int] = dict(LEAST)

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        return gather(self, questions, progress)

    def answer_parts(self, questions: Sequence[Question], take: Take, progress: Progress | None = None) -> None:
        by_kind: dict[Kind, list[int]] = {}
        for row, question in enumerate(questions):
            by_kind.setdefault(question.kind, []).append(row)
        for kind, rows in by_kind.items():
            start = 0
            while start < len(rows):
                batch = rows[start : start + self.sizes[kind]]
                began = time.monotonic()
                answers = self.engine.answer([questions[row] for row in batch], progress)
                require_all(self.engine, len(answers.rows), batch)
                seconds = time.monotonic() - began
                if (
                    len(batch) == self.sizes[kind] or seconds > BATCH_S
                ):  # fewer questions say little of the pace of many
                    wanted = len(batch) * BATCH_S / max(seconds, 1e-9)
                    self.sizes[kind] = int(min(max(wanted, LEAST[kind]), self.most, _GROWTH * self.sizes[kind]))
                take(dict(zip(batch, answers.rows, strict=True)), answers.usage)
                start += len(batch)
