"""Texts that are asked for one at a time, from many places at once -> calls of many texts.

Knows nothing of texts and scores. One thread of its own makes the calls, one after another, so that whoever waits may
stand in any thread, and in any event loop; and so that a model is never asked twice at the same time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

from ..store.forks import renew_after_fork

T = TypeVar("T")
R = TypeVar("R")

IDLE_S = 1.0  # after which the thread ends; the next row begins another


@dataclass(slots=True)
class _Waiting(Generic[T, R]):
    """rows : in one call together, whoever else is in it. until : when it waits no longer, on the monotonic clock"""

    rows: Sequence[T]
    until: float
    found: Future[Sequence[R]] = field(default_factory=Future)


class MicroBatcher(Generic[T, R]):
    """Gathers rows for a few milliseconds, and has them answered in one call.

    answer : rows -> as many answers, in their order. What it raises is raised to everybody whose row was in the call
    wait_s : how long the first row waits for others. most : number of rows from which on none waits
    """

    def __init__(
        self,
        answer: Callable[[Sequence[T]], Sequence[R]],
        wait_s: float = 0.005,
        most: int = 256,
    ) -> None:
        self._answer = answer
        self._wait_s = wait_s
        self._most = most
        self.begin_anew()
        renew_after_fork(self)

    def begin_anew(self) -> None:
        """With nobody waiting and without a thread, as in a process that was forked."""
        self._queue: deque[_Waiting[T, R]] = deque()
        self._n_rows = 0  # in the queue
        self._changed = threading.Condition()
        self._running = False

    def submit(self, rows: Sequence[T]) -> Future[Sequence[R]]:
        """The answers, when they are there. Cancelled before its call began, a future's rows are not asked about."""
        waiting: _Waiting[T, R] = _Waiting(rows, time.monotonic() + self._wait_s)
        with self._changed:
            self._queue.append(waiting)
            self._n_rows += len(rows)
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="synthscore", daemon=True).start()
            if len(self._queue) == 1 or self._n_rows >= self._most:
                self._changed.notify()
        return waiting.found

    def _run(self) -> None:
        while batch := self._next():
            rows = [row for waiting in batch for row in waiting.rows]
            try:
                answers = [answer for _, answer in zip(rows, self._answer(rows), strict=True)]
            except BaseException as error:
                for waiting in batch:
                    waiting.found.set_exception(error)
                continue
            left = iter(answers)
            for waiting in batch:
                waiting.found.set_result(list(islice(left, len(waiting.rows))))

    def _next(self) -> list[_Waiting[T, R]]:
        """What is asked about together, the oldest first; nothing where nobody has come for a while."""
        batch: list[_Waiting[T, R]] = []
        with self._changed:
            while not batch:
                if not self._changed.wait_for(lambda: self._queue, IDLE_S):
                    self._running = False
                    break
                while (left := self._queue[0].until - time.monotonic()) > 0 and self._n_rows < self._most:
                    self._changed.wait(left)
                n_rows = 0
                while self._queue and n_rows < self._most:
                    waiting = self._queue.popleft()
                    self._n_rows -= len(waiting.rows)
                    if waiting.found.set_running_or_notify_cancel():
                        batch.append(waiting)
                        n_rows += len(waiting.rows)
        return batch
