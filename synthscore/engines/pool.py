"""Several engines of one model, each on a device of its own, as one Engine.

Questions are divided into parts by their texts, so that prompts which begin alike mostly go to the same engine. Each
engine answers one part at a time in a thread of its own, and takes the next when it is done, so that a faster one
answers more. What an engine that fails has not answered is asked of the others.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextvars import copy_context
from queue import SimpleQueue
from typing import NamedTuple
from warnings import warn

from ..engine import Answer, Answers, Capabilities, Engine, Progress, Question, capabilities_of
from ..errors import EngineError, InputError, LabelError, SynthscoreWarning, Unasked
from ..signature import Signature
from ..store.parts import PART_N, Take, gather, in_parts
from ..types import Usage

_PARTS = 4
"""Parts of a call for each engine. With fewer, engines wait longer for the last one; with more, what prompts begin with
is read more often."""


class _Came(NamedTuple):
    """What an engine did: answers by row and their tokens; and at the end of its part the rows that it did not answer,
    with what it raised instead.

    number : of the engine
    rows_left : None, while it is at work
    """

    number: int
    answers: Mapping[int, Answer]
    usage: Usage
    rows_left: list[int] | None = None
    error: BaseException | None = None


class EnginePool:
    """engines : of one model, with the same signature

    raises : InputError, where there is none, or one comes twice; EngineError, where their answers could differ
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        n_different = len(set(map(id, engines)))
        if not engines or n_different < len(engines):
            raise InputError(
                f"cannot make a pool of {len(engines)} engines, {n_different} of them different: expected 1 or more, "
                "all different. Give each once",
                field="engines",
            )
        self.signature = same_signature([(f"engine {n}", engine.signature) for n, engine in enumerate(engines, 1)])
        self._engines = [in_parts(engine) for engine in engines]

    @property
    def capabilities(self) -> Capabilities:
        return capabilities_of(self._engines[0])

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        """As `answer_parts`."""
        return gather(self, questions, progress)

    def answer_parts(self, questions: Sequence[Question], take: Take, progress: Progress | None = None) -> None:
        """The answers of all engines as they come. An engine that raises is asked nothing more in this call.

        raises : what the last engine raised, where none is left; LabelError at once. warns : of an engine that failed
        """
        idle = list(range(len(self._engines)))
        waiting = deque(_parts(questions, len(self._engines)))
        came = SimpleQueue[_Came]()
        over = threading.Event()
        workers: dict[int, threading.Thread] = {}

        def work(index: int, rows: list[int]) -> None:
            left = set(rows)
            error = None

            def give(part: Mapping[int, Answer], usage: Usage) -> None:
                if over.is_set():
                    raise Unasked("the call is over")
                answers = {rows[place]: answer for place, answer in part.items()}
                left.difference_update(answers)
                came.put(_Came(index, answers, usage))

            try:
                self._engines[index].answer_parts([questions[row] for row in rows], give)
            except BaseException as raised:
                error = raised
            came.put(_Came(index, {}, Usage(), [row for row in rows if row in left], error))

        try:
            while (idle and waiting) or workers:
                while idle and waiting:
                    index = idle.pop(0)
                    rows = waiting.popleft()
                    # In a context of its own, which holds what calls that belong together keep (engine.together).
                    context = copy_context()
                    workers[index] = threading.Thread(target=context.run, args=(work, index, rows), daemon=True)
                    workers[index].start()
                part = came.get()
                if part.rows_left is None:
                    take(part.answers, part.usage)
                    if progress and part.answers:
                        progress(len(part.answers))
                    continue
                workers.pop(part.number).join()
                if part.error is None:
                    idle.append(part.number)
                    continue
                if isinstance(part.error, LabelError) or not (idle or workers):
                    raise part.error
                warn(
                    f"1 of {len(self._engines)} engines of {self.signature} failed, and the others are asked what it "
                    f"has not answered: {part.error}",
                    SynthscoreWarning,
                    stacklevel=2,
                )
                waiting.append(part.rows_left)
        finally:
            over.set()
            for worker in workers.values():
                worker.join()
            while not came.empty():
                part = came.get()
                take(part.answers, part.usage)


def same_signature(members: Sequence[tuple[str, Signature]]) -> Signature:
    """That of all members of a pool. members : their names and signatures. raises : EngineError, where one differs"""
    (first, signature), *others = members
    for name, other in others:
        if other != signature:
            raise EngineError(
                f"{first} and {name} are not alike: {signature} and {other}. Expected the same of all, so that it does "
                "not matter which answers"
            )
    return signature


def _parts(questions: Sequence[Question], n_engines: int) -> Iterator[list[int]]:
    """Rows in the order of their prompts' texts, in parts of about the same size."""
    rows = sorted(range(len(questions)), key=lambda row: questions[row].prompt.text)
    size = max(PART_N, -(-len(rows) // (_PARTS * n_engines)))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
