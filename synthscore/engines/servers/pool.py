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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...engine import Generation, LabelLogProbs, Progress, Prompt, Rival, Sampling
from ...errors import EngineError, ServerError, SynthscoreWarning
from ...signature import Signature
from ...types import FloatArray
from .server import Answer, Server

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
    """Rows that are asked in one request."""

    rows: list[int]
    key: bytes
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

    def label_log_probs(
        self, prompts: Sequence[Prompt], labels: Sequence[str], progress: Progress | None = None
    ) -> LabelLogProbs:
        """As far as the servers tell: log_probs is the most, floors the least that each label can have.

        raises : EngineError, where no server is left and nothing was answered; LabelError
        """
        self._check_prefill(prompts)
        n_labels = len(labels)
        log_probs = np.full((len(prompts), n_labels), np.nan)
        floors = log_probs.copy()
        rivals: list[Rival | None] = [None] * len(prompts)
        failures: dict[int, str] = {}
        n_tokens = n_computed = 0
        answers = self._run(
            prompts,
            self._members[0].server.max_rows,
            lambda server, rows: server.ask([prompts[row] for row in rows], labels),
            progress,
        )
        for row, answer in enumerate(answers):
            if isinstance(answer, Answer):
                log_probs[row], floors[row] = answer.known.most, answer.known.least
                rivals[row] = answer.rival
                n_tokens, n_computed = n_tokens + answer.n_tokens, n_computed + answer.n_computed
            else:
                failures[row] = str(answer)
        censored = floors < log_probs
        told = (None, None) if not censored.any() else (censored, floors)
        return LabelLogProbs(tuple(labels), log_probs, tuple(rivals), failures, n_tokens, n_computed, *told)

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int], progress: Progress | None = None
    ) -> list[Generation | Exception]:
        """One text a prompt, a request each. A server draws with a row's seed as it sees fit: some promise to draw the
        same text again, none to draw what another would."""
        self._check_prefill(prompts)

        def write(server: Server, rows: list[int]) -> list[Generation | EngineError]:
            return [server.write(prompts[row], sampling, seeds[row]) for row in rows]

        return list(self._run(prompts, 1, write, progress))

    def token_log_probs(
        self, prompts: Sequence[Prompt], continuations: Sequence[str], progress: Progress | None = None
    ) -> list[FloatArray | Exception]:
        """As the contract has it, where the server offers it; else each row has the EngineError that says so."""
        self._check_prefill(prompts)

        def read(server: Server, rows: list[int]) -> list[FloatArray | EngineError]:
            return server.read([prompts[row] for row in rows], [continuations[row] for row in rows])

        return list(self._run(prompts, self._members[0].server.max_rows, read, progress))

    def _check_prefill(self, prompts: Sequence[Prompt]) -> None:
        begun = next((prompt.prefill for prompt in prompts if prompt.prefill), "")
        if begun and not self._members[0].server.can_continue:
            raise EngineError(
                f"the prompts begin the answer with {begun!r}, which {self._members[0].server.url} cannot go on from. "
                "Take prompts without prefill, or a server that can (docs/servers.md)"
            )

    def _run(
        self,
        prompts: Sequence[Prompt],
        max_rows: int,
        ask: Callable[[Server, list[int]], Sequence[Any]],
        progress: Progress | None,
    ) -> list[Any]:
        """ask(server, rows) for all rows; each has its result, or an EngineError with the reason."""
        by_key: dict[bytes, list[int]] = {}
        for row, prompt in enumerate(prompts):
            by_key.setdefault(hashlib.sha256(prompt.text[:_ROUTE_CHARS].encode()).digest(), []).append(row)
        jobs = [
            _Job(rows[start : start + max_rows], key)
            for key, rows in by_key.items()
            for start in range(0, len(rows), max_rows)
        ]
        results = _Run(self._members, self._retry, ask, len(prompts)).of(jobs, self._in_flight, progress)
        gone = [f"{member.gone}" for member in self._members if member.gone]
        if results and len(gone) == len(self._members) and all(isinstance(r, EngineError) for r in results):
            raise EngineError(f"no server is left, and nothing was answered: {'; '.join(gone)}")
        return results


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

    def __init__(
        self,
        members: Sequence[_Member],
        retry: Retry,
        ask: Callable[[Server, list[int]], Sequence[Any]],
        n_rows: int,
    ) -> None:
        self._members, self._retry, self._ask = members, retry, ask
        self._queues: dict[_Member, deque[_Job]] = {member: deque() for member in members}
        self._results: list[Any] = [None] * n_rows
        self._n_open = self._n_told = 0
        self._broken: BaseException | None = None
        self._over = threading.Event()
        self._changed = threading.Condition()

    def of(self, jobs: Sequence[_Job], in_flight: int, progress: Progress | None) -> list[Any]:
        with self._changed:
            self._n_open = self._n_told = sum(len(job.rows) for job in jobs)
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
                    return self._results
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
                    answers = list(self._ask(member.server, job.rows))
                    if len(answers) != len(job.rows):
                        raise AssertionError(f"{len(answers)} answers of {len(job.rows)} rows")
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
                            self._done(job, answers)
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

    def _done(self, job: _Job, answers: Sequence[Any]) -> None:
        for row, answer in zip(job.rows, answers, strict=True):
            self._results[row] = answer
        self._n_open -= len(job.rows)

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
        elif type(error) in (EngineError, ServerError):  # this row cannot be asked
            self._done(job, [error] * len(job.rows))
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
                self._done(job, [EngineError(f"{error} (tried {job.n_failed} times)")] * len(job.rows))
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
            self._done(job, [EngineError(f"no server is left: {reasons}")] * len(job.rows))
            return
        order = sorted(left, key=lambda m: hashlib.sha256(job.key + m.server.url.encode()).digest())
        self._queues[next((member for member in order if member.well), order[0])].append(job)
