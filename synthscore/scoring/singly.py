"""Texts that are asked for one at a time, from many places at once -> calls of many texts.

Knows nothing of texts and scores. One thread of its own makes the calls, one after another, so that whoever waits may
stand in any thread, and in any event loop; and so that a model is never asked twice at the same time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class MicroBatcher(Generic[T, R]):
    """Gathers rows for a few milliseconds, and has them answered in one call.

    answer : rows -> as many answers, in their order. What it raises is raised to everybody whose row was in the call
    key : rows of one key stand together in a call
    wait_s : how long a call waits for others. most : callers of one call; so many wait no longer
    """

    def __init__(
        self,
        answer: Callable[[Sequence[T]], Sequence[R]],
        key: Callable[[T], str],
        wait_s: float = 0.005,
        most: int = 256,
    ) -> None:
        self._answer, self._key, self._wait_s, self._most = answer, key, wait_s, most
        self._waiting: list[tuple[Sequence[T], Future[Sequence[R]]]] = []
        self._lock, self._full = threading.Lock(), threading.Event()
        self._running = False

    def submit(self, rows: Sequence[T]) -> Future[Sequence[R]]:
        """The answers, when they are there. Cancelled before its call began, a future's rows are not asked about."""
        found: Future[Sequence[R]] = Future()
        with self._lock:
            self._waiting.append((rows, found))
            if len(self._waiting) >= self._most:
                self._full.set()
            if not self._running:
                self._running = True
                threading.Thread(target=self._run, name="synthscore", daemon=True).start()
        return found

    def _run(self) -> None:
        """Call after call, until nobody waits."""
        while True:
            self._full.wait(self._wait_s)
            with self._lock:
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                if not batch:
                    self._running = False
                    return
                if len(self._waiting) < self._most:
                    self._full.clear()
            self._call([(rows, found) for rows, found in batch if found.set_running_or_notify_cancel()])

    def _call(self, batch: Sequence[tuple[Sequence[T], Future[Sequence[R]]]]) -> None:
        rows = [row for own, _ in batch for row in own]
        order = sorted(range(len(rows)), key=lambda index: self._key(rows[index]))
        try:
            answers = self._answer([rows[index] for index in order])
            by_row = dict(zip(order, answers, strict=True))
        except BaseException as error:
            for _, found in batch:
                found.set_exception(error)
            return
        index = iter(range(len(rows)))
        for own, found in batch:
            found.set_result([by_row[next(index)] for _ in own])
