"""Several servers of one model as one engine: who is asked, how often, and what happens when one fails.

Rows whose prompts begin alike go to the same server, so that its prefix cache stays warm; they move on when it is
down, or too slow for the others, which have none left. A request is tried again where that can help (429, 5xx,
timeouts, cut connections, unusable answers), later each time and as late as the server says. A server that fails
several times in a row is set aside, asked for its health later, and given up when that fails too.
"""

from __future__ import annotations

import hashlib
import logging
import math
import queue
import random
import threading
import time
import warnings
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ...engine import Answer, Answers, Capabilities, Progress, Question
from ...errors import EngineError, InputError, LabelError, ServerError, SynthscoreWarning, Unasked
from ...store.parts import PART_N, PART_S, Take, gather
from ...types import Usage
from ..pool import same_signature
from .anthropic import API, AnthropicServer
from .decisions import WIRES, DecisionServer
from .routes import Words
from .served import metered
from .server import Server

_LOG = logging.getLogger(__name__)
_ROUTE_CHARS = 1000  # of a prompt: instructions and the beginning of its context
_OPTIONS = {"method", "tokenizer", "date", "thinking", "reasoning_effort", "top_k", "timeout_s"}
AnyServer = Server | DecisionServer | AnthropicServer
_LOOK_AGAIN = 0.02  # seconds, while all servers are set aside
_PATIENCE = 1.0  # seconds that a server which has no rows left waits before it takes those of another
_TOO_MUCH = {400, 413, 422}  # refusals that may be about one of several questions


@dataclass(frozen=True, slots=True)
class Retry:
    """When a request is tried again, and when a server is given up. Seconds.

    tries : of one request. first_wait, longest_wait : before the second try, then twice as long each time, times a
        random number from 0.5 to 1; a server's Retry-After counts as well, up to the longest
    aside_after, aside_for : failures in a row that set a server aside, and for how long (twice as long each time)
    asides : times that it is set aside, with no answer in between, before it is given up
    """

    tries: int = 6
    first_wait: float = 0.5
    longest_wait: float = 60.0
    aside_after: int = 5
    aside_for: float = 5.0
    asides: int = 4

    def wait(self, n_failed: int, retry_after: float | None) -> float:
        wait = min(self.first_wait * 2.0 ** (n_failed - 1), self.longest_wait) * random.uniform(0.5, 1.0)
        return max(wait, min(retry_after or 0.0, self.longest_wait))


class _Member:
    """A server and how it does, changed under `lock` alone.

    in_flight, room : requests at a time. news : what became of it that the user should know, until that is told
    """

    def __init__(self, server: AnyServer, in_flight: int) -> None:
        self.server, self.lock = server, threading.Lock()
        self.in_flight = 1 if server.one_by_one else in_flight
        self.room = threading.Semaphore(self.in_flight)
        self.news = queue.SimpleQueue[str]()
        self.failures = 0  # in a row
        self.asides = 0  # since it last answered
        self.aside_until = 0.0  # of time.monotonic(); 0: it is well
        self.gone = ""  # why it was given up

    def failed(self, error: ServerError, retry: Retry) -> None:
        """What a failed request means for the server."""
        with self.lock:
            if error.fatal:
                self.gone = str(error)
            elif error.retryable and error.status != 429:  # busy is not ill
                self.failures += 1
                if self.failures >= retry.aside_after and not self.aside_until:
                    self._set_aside(error, retry)

    def answered(self) -> None:
        with self.lock:
            self.failures = self.asides = 0

    def _set_aside(self, error: ServerError, retry: Retry) -> None:
        self.asides += 1
        self.aside_until = time.monotonic() + retry.aside_for * 2 ** (self.asides - 1)
        if error.fatal or self.asides > retry.asides:
            self.gone = f"{error} (it was set aside {self.asides - 1} times)"
            self.news.put(f"a server is asked nothing more: {self.gone}")
        elif self.asides == 1:
            times = f"{self.failures} times in a row"
            self.news.put(f"a server failed {times} and is left alone for a while; the last time: {error}")

    def check(self, retry: Retry) -> None:
        """Ask one that was set aside for its health, if it is time. The others meanwhile go on without it."""
        with self.lock:
            if not 0 < self.aside_until <= time.monotonic():
                return
            self.aside_until = math.inf
        try:
            self.server.check()
        except ServerError as error:
            with self.lock:
                self._set_aside(error, retry)
        else:
            with self.lock:
                self.failures, self.aside_until = 0, 0.0


class _Outcome(NamedTuple):
    """Of questions that went together: an answer each, and the tokens that they took; or why nothing can be asked, with
    labels that cannot be asked of any row, or by our own mistake."""

    answers: Sequence[Answer]
    usage: Usage
    error: Exception | None


class _Waiting:
    """The rows of a call that are still to be asked, each group of them in the queue of the server that it belongs to.
    Safe to use from several threads."""

    def __init__(self, members: Sequence[_Member]) -> None:
        self._lock = threading.Lock()
        self._queues: dict[_Member, deque[list[int]]] = {member: deque() for member in members}

    def put(self, member: _Member, rows: list[int]) -> None:
        self._queues[member].append(rows)

    def take_own(self, member: _Member) -> list[int]:
        """Rows for one request to this server, of its own queue; [] where none are left."""
        with self._lock:
            groups = self._queues[member]
            if not groups:
                return []
            rows, rest = _parted(groups.popleft(), member)
            if rest:
                groups.appendleft(rest)
            return rows

    def take_others(self, member: _Member) -> list[int]:
        """Rows for one request to this server, from the end of the longest queue; [] where each has no more waiting
        than its server can be sent at once."""
        with self._lock:
            owner, groups = max(self._queues.items(), key=lambda item: len(item[1]))
            if len(groups) <= owner.in_flight:
                return []
            rows, rest = _parted(groups.pop(), member)
            if rest:
                groups.append(rest)
            return rows


def _parted(group: list[int], member: _Member) -> tuple[list[int], list[int]]:
    """What the server is sent in one request, and what is left. It may change from one moment to the next."""
    most = member.server.most_together
    return group[:most], group[most:]


class _Arrived:
    """What has come of a call's questions, given on within PART_S, or as PART_N are there.

    n : rows that have come
    """

    def __init__(self, take: Take, progress: Progress | None) -> None:
        self._take, self._progress = take, progress
        self._part: dict[int, Answer] = {}
        self._usage = Usage()
        self._given_at = time.monotonic()
        self.n = 0
        self.all_failed = True

    @property
    def left_s(self) -> float:
        """Seconds until what has come is to be given on."""
        if len(self._part) >= PART_N:
            return 0.0
        return max(0.0, self._given_at + PART_S - time.monotonic())

    def add(self, rows: Sequence[int], outcome: _Outcome) -> None:
        """raises : what was raised where nothing can be asked"""
        if outcome.error is not None:
            raise outcome.error
        self._part.update(zip(rows, outcome.answers, strict=True))
        self._usage += outcome.usage
        self.n += len(outcome.answers)
        self.all_failed &= all(isinstance(answer, EngineError) for answer in outcome.answers)
        if self._progress:
            self._progress(len(outcome.answers))

    def give(self) -> None:
        try:
            self._take(self._part, self._usage)
        except KeyboardInterrupt:  # nobody knows how far it came: it is given once more, at the end
            raise
        except BaseException:
            self._part, self._usage = {}, Usage()
            raise
        self._part, self._usage = {}, Usage()
        self._given_at = time.monotonic()


class ServerPool:
    """Servers of one model as one Engine.

    in_flight : requests at a time, to each server
    raises : EngineError, where the servers are not the same: model, software, or what they offer
    """

    def __init__(self, servers: Sequence[AnyServer], *, in_flight: int = 16, retry: Retry | None = None) -> None:
        if not servers or in_flight < 1:
            raise InputError(
                f"cannot ask {len(servers)} servers, {in_flight} requests at a time: expected 1 or more. Give both"
            )
        self._members = [_Member(server, in_flight) for server in servers]
        self._retry = retry or Retry()
        self.signature = same_signature([(f"the server {server.url}", server.signature) for server in servers])

    @property
    def capabilities(self) -> Capabilities:
        """The same of all servers, as their signatures are."""
        return self._members[0].server.capabilities

    @classmethod
    def open(cls, name: str, *, in_flight: int = 16, retry: Retry | None = None, **options: Any) -> ServerPool:
        """From a name: "http://host:8000/v1#model" or "...#model@revision", or several, with commas between them.

        options : those of Server, or a method of DecisionServer or AnthropicServer. warns : of a server that does not
            answer, which is left out; and where nothing tells which weights are served
        raises : EngineError, where none answers, or one cannot be used
        """
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
                servers.append(_open(url, model, retry or Retry(), options))
            except ServerError as error:
                if error.fatal or len(addresses) == 1:
                    raise
                failures.append(str(error))
        if not servers:
            raise EngineError(f"none of {len(addresses)} servers answers: {'; '.join(failures)}. Start one")
        for failure in failures:
            warnings.warn(f"{failure}. Going on without it", SynthscoreWarning, stacklevel=2)
        if not (servers[0].version or servers[0].revision):
            warnings.warn(
                f"the server {servers[0].url} reports neither its version nor its model's weights, so the store cannot "
                f"tell other weights under the name {servers[0].model!r}, and would give the answers of these. Name "
                f"what it serves: {servers[0].url}#{servers[0].model}@REVISION, another one for other weights",
                SynthscoreWarning,
                stacklevel=2,
            )
        return cls(servers, in_flight=in_flight, retry=retry)

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        """As `answer_parts`."""
        return gather(self, questions, progress)

    def answer_parts(self, questions: Sequence[Question], take: Take, progress: Progress | None = None) -> None:
        """Replies as they come, some together. Questions that go in one request fail or succeed together
        where it does. Where `take` raises Unasked nothing more is asked, and what is on its way still comes.

        raises : EngineError, where no server is left and nothing was answered; LabelError
        """
        waiting = _Waiting(self._members)
        for rows in self._members[0].server.together(questions):
            waiting.put(self._order(questions[rows[0]])[0], rows)
        over, done = threading.Event(), queue.SimpleQueue[tuple[list[int], _Outcome]]()

        def ask(member: _Member, rows: list[int]) -> None:
            asked = [questions[row] for row in rows]
            others = [other for other in self._order(asked[0]) if other is not member]
            outcome = self._ask(asked, [member, *others], over)
            if outcome.error is not None:
                over.set()
            done.put((rows, outcome))

        def work(member: _Member) -> None:
            while not over.is_set() and (rows := waiting.take_own(member)):
                ask(member, rows)
            over.wait(_PATIENCE)
            while not over.is_set() and (rows := waiting.take_others(member)):
                ask(member, rows)

        # Threads that do not keep the process: an interrupt need not wait for requests that are on their way.
        workers = [
            threading.Thread(target=work, args=(member,), daemon=True)
            for member in self._members
            for _ in range(min(member.in_flight, len(questions)))
        ]
        arrived = _Arrived(take, progress)
        try:
            for worker in workers:
                worker.start()
            while arrived.n < len(questions):
                with suppress(queue.Empty):
                    arrived.add(*done.get(timeout=arrived.left_s))
                self._tell_news()
                if not arrived.left_s:
                    arrived.give()
        except Unasked:
            over.set()
            for worker in workers:
                worker.join()
            raise
        finally:
            over.set()
            while not done.empty():
                rows, outcome = done.get()
                if outcome.error is None:
                    arrived.add(rows, outcome)
            arrived.give()
        self._tell_news()
        if arrived.n and arrived.all_failed and all(member.gone for member in self._members):
            raise EngineError(f"no server is left, and nothing was answered: {self._reasons()}")

    def _tell_news(self) -> None:
        """On the caller's thread, where a warning may be an exception."""
        for member in self._members:
            while not member.news.empty():
                warnings.warn(member.news.get(), SynthscoreWarning, stacklevel=2)

    def _order(self, question: Question) -> list[_Member]:
        """The servers in an order that belongs to how the prompt begins (rendezvous hashing)."""
        start = hashlib.sha256(question.prompt.text[:_ROUTE_CHARS].encode()).digest()
        return sorted(self._members, key=lambda m: hashlib.sha256(start + m.server.url.encode()).digest())

    def _ask(self, questions: Sequence[Question], order: Sequence[_Member], over: threading.Event) -> _Outcome:
        """What comes of questions that go together, with the tokens of all tries. Each half is asked by itself, where
        one of them may be why they were refused, or they were too many for the time."""
        with metered() as spent:
            try:
                answers, error = self._tried(questions, order, over), None
            except Exception as raised:
                answers, error = [], raised
        divisible = isinstance(error, ServerError) and (error.timed_out or error.status in _TOO_MUCH)
        if divisible and len(questions) > 1:
            half = len(questions) // 2
            first, second = (self._ask(part, order, over) for part in (questions[:half], questions[half:]))
            usage = sum(spent, first.usage + second.usage)
            return _Outcome([*first.answers, *second.answers], usage, first.error or second.error)
        if isinstance(error, EngineError) and not isinstance(error, LabelError):
            answers, error = [error] * len(questions), None
        return _Outcome(answers, sum(spent, Usage()), error)

    def _tried(self, questions: Sequence[Question], order: Sequence[_Member], over: threading.Event) -> list[Answer]:
        """Ask the first server that is well, again and again where that can help.

        raises : EngineError, of these questions; LabelError, of all with their labels
        """
        n_failed = 0
        while (member := self._well(order, over)) is not None:
            try:
                with member.room:
                    answers = member.server.answer_all(questions)
            except ServerError as error:
                member.failed(error, self._retry)
                if error.fatal:
                    continue
                n_failed += 1
                _LOG.debug("%s (try %d)", error, n_failed)
                if not error.retryable or (error.timed_out and len(questions) > 1):
                    raise
                if n_failed >= self._retry.tries:
                    raise EngineError(f"{error} (tried {n_failed} times)") from error
                if not member.aside_until:
                    over.wait(self._retry.wait(n_failed, error.retry_after))
            else:
                member.answered()
                return answers
        raise EngineError(f"no server is left: {self._reasons()}")

    def _well(self, order: Sequence[_Member], over: threading.Event) -> _Member | None:
        """The first that is well, as soon as one is; None where none is left, or all is over."""
        while not over.is_set() and (left := [member for member in order if not member.gone]):
            for member in left:
                member.check(self._retry)
                if not member.gone and not member.aside_until:
                    return member
            over.wait(_LOOK_AGAIN)
        return None

    def _reasons(self) -> str:
        return "; ".join(member.gone for member in self._members)


def _open(url: str, model: str | None, retry: Retry, options: dict[str, Any]) -> AnyServer:
    n_failed = 0
    while True:
        try:
            return _server(url, model, options)
        except ServerError as error:
            n_failed += 1
            nobody = error.status is None and not error.cut
            if not error.retryable or nobody or n_failed >= retry.tries:
                raise
            time.sleep(retry.wait(n_failed, error.retry_after))


def _server(url: str, model: str | None, options: dict[str, Any]) -> AnyServer:
    """One that reports log-probabilities, of our own prompts; else one that decides, by its own; else one that only
    writes, and can be asked in words. Anthropic's only where it is named so."""
    timeout = {name: value for name, value in options.items() if name == "timeout_s"}
    method = options.get("method", "auto")
    if method == AnthropicServer.name:
        if others := sorted(set(options) - {"method", "thinking", "reasoning_effort", "timeout_s"}):
            raise EngineError(f"cannot open anthropic:{model} with {', '.join(others)}: it takes none. Leave that out")
        return AnthropicServer(url, model, **{name: value for name, value in options.items() if name != "method"})
    if urlsplit(url).hostname == urlsplit(API).hostname:
        raise EngineError(
            f"{url} is Anthropic's address, which takes its own key. Name it anthropic:{model or 'MODEL'}"
        )
    if method in WIRES and (date := options.get("date")):
        raise EngineError(
            f"cannot set the date {date}: the server {url} puts its own words around questions. Leave that out"
        )
    if method in WIRES:
        return DecisionServer(url, model, method=method, **timeout)
    try:
        return Server(url, model, **options)
    except EngineError as error:
        if method != "auto" or options.get("date") or isinstance(error, ServerError):
            raise
        with suppress(EngineError):
            return DecisionServer(url, model, **timeout)
        if not (options.get("tokenizer") or options.get("top_k")):  # which are for log-probabilities
            with suppress(EngineError):
                return Server(url, model, **{**options, "method": Words.name})
        raise
