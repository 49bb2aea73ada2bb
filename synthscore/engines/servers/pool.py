"""Several servers of one model as one engine: who is asked, how often, and what happens when one fails.

Rows whose prompts begin alike go to the same server, so that its prefix cache stays warm; they move on when it is
down. A request is tried again where that can help (429, 5xx, timeouts, cut connections, unusable answers), later each
time and as late as the server says. A server that fails several times in a row is set aside, asked for its health
later, and given up when that fails too.
"""

from __future__ import annotations

import hashlib
import random
import threading
import time
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...engine import Answer, Answers, Progress, Question
from ...errors import EngineError, LabelError, ServerError, SynthscoreWarning
from ...signature import Signature
from .server import Server

_ROUTE_CHARS = 1000  # of a prompt: instructions and the beginning of its context
_OPTIONS = {"method", "tokenizer", "top_k", "timeout_s"}
_NO_JOB = object()


@dataclass(frozen=True, slots=True)
class Retry:
    """When a request is tried again, and when a server is given up. Seconds.

    tries : of one request. first_wait, longest_wait : before the second try, then twice as long each time, times a
        random number from 0.5 to 1; a server's Retry-After counts as well, up to the longest
    aside_after, aside_for : failures in a row that set a server aside, and for how long (twice as long each time)
    health_checks : that fail in a row before a server is given up
    """

    tries: int = 6
    first_wait: float = 0.5
    longest_wait: float = 60.0
    aside_after: int = 5
    aside_for: float = 5.0
    health_checks: int = 4

    def wait(self, n_failed: int, retry_after: float | None) -> float:
        wait = min(self.first_wait * 2.0 ** (n_failed - 1), self.longest_wait) * random.uniform(0.5, 1.0)
        return max(wait, min(retry_after or 0.0, self.longest_wait))


@dataclass(eq=False, slots=True)
class _Member:
    """A server and how it does."""

    server: Server
    failures: int = 0  # in a row
    aside_until: float = 0.0  # of time.monotonic()
    checks: int = 0  # health checks failed in a row
    checking: bool = False
    gone: str = ""  # why it was given up

    @property
    def well(self) -> bool:
        return not self.gone and not self.aside_until


@dataclass(eq=False, slots=True)
class _Job:
    """A question, by its row. start : hash of how its prompt begins"""

    row: int
    start: bytes
    n_failed: int = 0


class ServerPool:
    """Servers of one model as one Engine.

    in_flight : requests at a time, to each server
    raises : EngineError, where the servers are not the same: model, software, or what they offer
    """

    def __init__(self, servers: Sequence[Server], *, in_flight: int = 16, retry: Retry | None = None) -> None:
        if not servers or in_flight < 1:
            raise ValueError(f"{len(servers)} servers, in_flight {in_flight}: expected at least 1 of each")
        self._members = [_Member(server) for server in servers]
        self._in_flight, self._retry = in_flight, retry or Retry()
        self.signature: Signature = servers[0].signature
        for server in servers[1:]:
            if server.signature != self.signature:
                raise EngineError(
                    f"the servers {servers[0].url} and {server.url} are not alike: {self.signature} and "
                    f"{server.signature}. Expected the same of all, so that it does not matter which answers"
                )

    @classmethod
    def open(cls, name: str, *, in_flight: int = 16, retry: Retry | None = None, **options: Any) -> ServerPool:
        """From a name: "http://host:8000/v1#model", or several, with commas between them.

        options : those of Server. A server that does not answer is left out with a warning.
        raises : EngineError, where none answers, or one cannot be used
        """
        retry = retry or Retry()
        if others := sorted(set(options) - _OPTIONS):
            raise EngineError(
                f"cannot open {name!r} with {', '.join(others)}: how a server runs its model is decided where it is "
                "started. Leave that out",
                model=name,
            )
        addresses = [part.strip().partition("#")[::2] for part in name.split(",")]
        models = {model for _, model in addresses if model}
        if len(models) > 1:
            raise EngineError(
                f"servers of different models: {', '.join(sorted(models))}. Expected one model", model=name
            )
        model = next(iter(models), None)
        servers, failures = [], []
        for url, _ in addresses:
            try:
                servers.append(_open(url, model, retry, options))
            except ServerError as error:
                if error.fatal or len(addresses) == 1:
                    raise
                failures.append(str(error))
        if not servers:
            raise EngineError(f"none of {len(addresses)} servers answers: {'; '.join(failures)}. Start one")
        for failure in failures:
            warnings.warn(f"{failure}. Going on without it", SynthscoreWarning, stacklevel=2)
        return cls(servers, in_flight=in_flight, retry=retry)

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        """As far as the servers report, a request at least for each question.

        raises : EngineError, where no server is left and nothing was answered; LabelError
        """
        self._check_prefill(questions)
        starts = [hashlib.sha256(question.prompt.text[:_ROUTE_CHARS].encode()).digest() for question in questions]
        jobs = [_Job(row, start) for row, start in enumerate(starts)]
        answers = _Run(self._members, self._retry, questions).of(jobs, self._in_flight, progress)
        gone = [f"{member.gone}" for member in self._members if member.gone]
        if questions and len(gone) == len(self._members) and all(isinstance(r, EngineError) for r in answers.rows):
            raise EngineError(f"no server is left, and nothing was answered: {'; '.join(gone)}")
        return answers

    def _check_prefill(self, questions: Sequence[Question]) -> None:
        begun = next((question.prompt.prefill for question in questions if question.prompt.prefill), "")
        if begun and not self._members[0].server.can_continue:
            raise EngineError(
                f"the prompts begin the answer with {begun!r}, which {self._members[0].server.url} cannot go on from. "
                "Take prompts without prefill, or a server that can (docs/servers.md)"
            )


def _open(url: str, model: str | None, retry: Retry, options: dict[str, Any]) -> Server:
    n_failed = 0
    while True:
        try:
            return Server(url, model, **options)
        except ServerError as error:
            n_failed += 1
            if not error.retryable or error.status is None or n_failed >= retry.tries:  # None: nobody is there
                raise
            time.sleep(retry.wait(n_failed, error.retry_after))


class _Run:
    """One call's jobs on the way to their results. All state is behind one lock."""

    def __init__(self, members: Sequence[_Member], retry: Retry, questions: Sequence[Question]) -> None:
        self._members, self._retry, self._questions = members, retry, questions
        self._queues: dict[_Member, deque[_Job]] = {member: deque() for member in members}
        self._rows: list[Any] = [None] * len(questions)
        self._naive = self._computed = 0
        self._n_open = self._n_told = 0
        self._broken: BaseException | None = None
        self._over = threading.Event()
        self._changed = threading.Condition()

    def of(self, jobs: Sequence[_Job], in_flight: int, progress: Progress | None) -> Answers:
        with self._changed:
            self._n_open = self._n_told = len(jobs)
            for job in jobs:
                self._route(job)
        # Threads that do not keep the process: an interrupt need not wait for requests that are on their way.
        for member in self._members:
            for _ in range(min(in_flight, len(jobs))):
                threading.Thread(target=self._work, args=(member,), daemon=True).start()
        try:
            while True:
                with self._changed:
                    if self._n_open and self._n_told == self._n_open and not self._broken:
                        self._changed.wait(1.0)
                    n_done, self._n_told = self._n_told - self._n_open, self._n_open
                    broken, n_open = self._broken, self._n_open
                if progress and n_done:
                    progress(n_done)
                if broken:
                    raise broken
                if not n_open:
                    return Answers(self._rows, self._naive, self._computed)
        finally:
            with self._changed:
                self._over.set()
                for member in self._members:
                    member.checking = False
                self._changed.notify_all()

    def _work(self, member: _Member) -> None:
        while (job := self._take(member)) is not None:
            try:
                if isinstance(job, _Job):
                    found = member.server.answer(self._questions[job.row])
                else:
                    member.server.check()
            except Exception as error:
                with self._changed:
                    if not self._over.is_set():
                        self._failed(member, job if isinstance(job, _Job) else None, error)
                    self._changed.notify_all()
                if isinstance(job, _Job) and isinstance(error, ServerError) and error.retryable:
                    self._again(member, job, error)
            else:
                with self._changed:
                    member.failures = member.checks = 0
                    if not self._over.is_set():
                        if isinstance(job, _Job):
                            self._naive, self._computed = (
                                self._naive + found.n_tokens,
                                self._computed + found.n_computed,
                            )
                            self._done(job, found.answer)
                        else:
                            member.aside_until, member.checking = 0.0, False
                            self._route_all()
                    self._changed.notify_all()

    def _take(self, member: _Member) -> _Job | object | None:
        """The next job for a server, _NO_JOB where it is to be asked for its health, None where all is over."""
        with self._changed:
            while True:
                if self._over.is_set() or member.gone:
                    return None
                if member.well and self._queues[member]:
                    return self._queues[member].popleft()
                wait = 1.0
                if member.aside_until and not member.checking:
                    wait = member.aside_until - time.monotonic()
                    if wait <= 0:
                        member.checking = True
                        return _NO_JOB
                self._changed.wait(wait)

    def _done(self, job: _Job, answer: Answer) -> None:
        self._rows[job.row] = answer
        self._n_open -= 1

    def _failed(self, member: _Member, job: _Job | None, error: Exception) -> None:
        """What a failure means for the server; and for the job, unless it is to be tried again."""
        if isinstance(error, ServerError) and error.fatal:
            self._give_up(member, str(error))
            if job:
                self._route(job)
        elif job is None:  # a health check
            member.checks, member.checking = member.checks + 1, False
            if member.checks >= self._retry.health_checks:
                self._give_up(member, str(error))
            else:
                self._set_aside(member)
        elif isinstance(error, ServerError) and error.retryable:
            job.n_failed += 1
            if error.status == 429:  # busy, not ill
                return
            member.failures += 1
            if member.failures >= self._retry.aside_after and member.well:
                self._set_aside(member)
        elif isinstance(error, EngineError) and not isinstance(error, LabelError):  # this question cannot be asked
            self._done(job, error)
        else:  # labels that cannot be asked of any row, or our own mistake
            self._broken = error
            self._over.set()

    def _again(self, member: _Member, job: _Job, error: ServerError) -> None:
        """Try a job again after a while, on the server that it then belongs to."""
        last = job.n_failed >= self._retry.tries
        if not last and member.well:
            self._over.wait(self._retry.wait(job.n_failed, error.retry_after))
        with self._changed:
            if self._over.is_set():
                return
            if last:
                self._done(job, EngineError(f"{error} (tried {job.n_failed} times)"))
            else:
                self._route(job)
            self._changed.notify_all()

    def _set_aside(self, member: _Member) -> None:
        member.aside_until = time.monotonic() + self._retry.aside_for * 2**member.checks
        self._route_all()

    def _give_up(self, member: _Member, why: str) -> None:
        member.gone = why
        self._route_all()

    def _route_all(self) -> None:
        jobs = [job for queue in self._queues.values() for job in queue]
        for queue in self._queues.values():
            queue.clear()
        for job in jobs:
            self._route(job)

    def _route(self, job: _Job) -> None:
        """To the first server that is well, in an order that is the job's own (rendezvous hashing)."""
        left = [member for member in self._members if not member.gone]
        if not left:
            reasons = "; ".join(member.gone for member in self._members)
            self._done(job, EngineError(f"no server is left: {reasons}"))
            return
        order = sorted(left, key=lambda m: hashlib.sha256(job.start + m.server.url.encode()).digest())
        self._queues[next((member for member in order if member.well), order[0])].append(job)
