"""A server of decisions: typed questions about one state, answered with a probability for each option given.

Two wire forms, `/v1/systemone` (vLLM, SGLang, llama.cpp, transformers serve, TypeSafe) and OpenAI's `/v1/decisions`. A
prompt is cut where the texts that are judged begin (Prompt.n_shared): what is before is the state, the rest one
question's instructions, its labels the options. Questions with the same state go in one request. What the model reads
around that is the server's own prompt, so server and version are part of the signature, and control tokens in a judged
text are the server's business.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from ...engine import Answer, Capabilities, LabelAnswer, Prompt, Question
from ...errors import EngineError, ServerError
from ...signature import Signature
from .routes import number
from .served import Served

_PROBE = Question(Prompt("Ice is cold.\n\nIs ice cold?", n_shared=12), ("Yes", "No"))
_MOST, _FIRST = 64, 8
"""Questions in a request: what vLLM and transformers take (OpenAI takes 400), and before the server's pace is known."""
_SHARE_OF_TIMEOUT = 0.25  # of the time that a request has: what one should take, by the pace of the one before


class OptionProbs(NamedTuple):
    """Probabilities of the options, and of all options together, where it is reported."""

    probs: Mapping[str, float]
    mass: float | None


class Wire(ABC):
    """A form of requests and replies. name : in model names and signatures; its path below /v1, too."""

    name: ClassVar[str]

    @abstractmethod
    def body(self, questions: Sequence[Question]) -> dict[str, Any]:
        """The request. questions : with one state"""

    @abstractmethod
    def read(self, reply: Mapping[str, Any], place: int) -> OptionProbs | None:
        """What is reported of the question at this place, levels by their number from 0; None where it was refused."""


class SystemOne(Wire):
    """https://docs.typesafe.ai/api; mass as vLLM 0.33 (diagnostics) or SGLang 0.5.23 (x_label_mass) reports it."""

    name = "systemone"

    def body(self, questions: Sequence[Question]) -> dict[str, Any]:
        asked = {}
        for place, question in enumerate(questions):
            labels = list(question.labels) if question.ordered else dict.fromkeys(question.labels)
            kind = "score" if question.ordered else "choice"
            asked[str(place)] = {"type": kind, "instructions": question.prompt.divided[1], "criteria": labels}
        return {"state": questions[0].prompt.divided[0], "questions": asked}

    def read(self, reply: Mapping[str, Any], place: int) -> OptionProbs | None:
        answer = reply["answers"][str(place)]
        if answer["type"] == "refusal":
            return None
        diagnostics = (reply.get("diagnostics") or {}).get(str(place), {})
        return OptionProbs(answer["probabilities"], diagnostics.get("label_mass", answer.get("x_label_mass")))


class OpenAIDecisions(Wire):
    """https://platform.openai.com/docs/api-reference/decisions (openai 3.54); mass as vLLM 0.33 reports it."""

    name = "decisions"

    def body(self, questions: Sequence[Question]) -> dict[str, Any]:
        asked: list[dict[str, Any]] = []
        for place, question in enumerate(questions):
            kind, options = "choice", {"choices": [{"value": label} for label in question.labels]}
            if question.ordered:
                levels = [{"label": str(level), "description": text} for level, text in enumerate(question.labels)]
                kind, options = "score", {"levels": levels}
            asked.append({"type": kind, "name": str(place), "instructions": question.prompt.divided[1], **options})
        return {"input": questions[0].prompt.divided[0], "questions": asked}

    def read(self, reply: Mapping[str, Any], place: int) -> OptionProbs | None:
        answer = reply["answers"][place]
        if answer["type"] == "refusal":
            return None
        told = reply.get("diagnostics") or {}
        diagnostics = told[place] if isinstance(told, list) else told.get(str(place), {})
        by = "label" if answer["type"] == "score" else "value"
        return OptionProbs(
            {each[by]: each["probability"] for each in answer["probabilities"]}, diagnostics.get("label_mass")
        )


WIRES: Mapping[str, Wire] = {wire.name: wire for wire in (SystemOne(), OpenAIDecisions())}


class DecisionServer(Served):
    """A server that is up and decides. Safe to use from several threads.

    url, model : as of Server. method : "auto", or one of WIRES
    raises : ServerError when it is not to be reached; EngineError when it cannot be used
    """

    def __init__(self, url: str, model: str | None = None, *, method: str = "auto", timeout_s: float = 600.0) -> None:
        super().__init__(url, model, timeout_s)
        self._request_s = _SHARE_OF_TIMEOUT * timeout_s
        self.most_together = _FIRST
        self._wire, reply = self._choose(method)
        with self.http.reading(reply, _remedy(self._wire)):
            told = self._wire.read(reply, 0)
            self._reports_mass = told is not None and told.mass is not None
        self._format = str(reply.get("prompt_format_version") or "unreported")

    @property
    def signature(self) -> Signature:
        """The same for servers that are interchangeable. format : of the prompt, which is the server's own"""
        mass = {} if self._reports_mass else {"mass": "unreported"}
        backend = f"server-{self._wire.name}"
        return Signature.of(
            **self.signed_model, backend=backend, chat="server", format=self._format, **mass, server=self.server
        )

    @property
    def capabilities(self) -> Capabilities:
        mass = "and" if self._reports_mass else "but not"
        reports = f"reports the labels' probabilities, {mass} their mass"
        return Capabilities(
            decides=True,
            reports_mass=self._reports_mass,
            served=True,
            description=f"asks in its own words (/v1/{self._wire.name}); {reports}",
        )

    def together(self, questions: Sequence[Question]) -> list[list[int]]:
        """Which questions go in one request: those of one kind with the same state."""
        groups: dict[tuple[str, ...], list[int]] = {}
        for row, question in enumerate(questions):
            prompt = question.prompt
            groups.setdefault((prompt.divided[0], prompt.prefill, question.kind), []).append(row)
        return list(groups.values())

    def answer_all(self, questions: Sequence[Question]) -> list[Answer]:
        """Of questions that go together, most_together at most, which is then set by what they took.

        raises : ServerError, when the request failed; EngineError, where they cannot be asked of a server that decides
        """
        first = questions[0]
        if first.kind != "labels":
            raise EngineError(f"{self.model} decides among labels: it writes nothing, and reads no given text")
        if begun := first.prompt.prefill:
            raise EngineError(f"{self.model} decides: it cannot go on from {begun!r}. Take other prompts")
        began = time.monotonic()
        try:
            reply = self._post(self._wire, questions)
        except ServerError as error:
            if error.timed_out:
                self.most_together = max(1, len(questions) // 2)
            raise
        seconds_each = (time.monotonic() - began) / len(questions)
        self.most_together = int(min(max(1, self._request_s / max(seconds_each, 1e-9)), _MOST))
        with self.http.reading(reply, _remedy(self._wire)):
            reported = [self._wire.read(reply, place) for place in range(len(questions))]
            return [self._answer(*pair) for pair in zip(reported, questions, strict=True)]

    def _answer(self, told: OptionProbs | None, question: Question) -> LabelAnswer | EngineError:
        if told is None:
            return EngineError(f"{self.model} refuses to answer this question")
        names = map(str, range(len(question.labels))) if question.ordered else question.labels
        probs = [number(told.probs[name]) for name in names]
        if len(told.probs) != len(probs) or min(probs) < 0 or not 0.99 < math.fsum(probs) < 1.01:
            raise ValueError(f"the probabilities {told.probs}, expected one of each label, 1 together")
        if self._reports_mass != (told.mass is not None):
            raise ValueError("the label mass is reported of some answers only")
        mass = 1.0 if told.mass is None else number(told.mass)
        if not 0 <= mass <= 1 + 1e-4:  # a sum of rounded numbers
            raise ValueError(f"the label mass {mass}, expected a number from 0 to 1")
        return LabelAnswer([math.log(p * mass / math.fsum(probs)) if p * mass else -math.inf for p in probs])

    def _post(self, wire: Wire, questions: Sequence[Question]) -> dict[str, Any]:
        return self.sent(f"/{wire.name}", {"model": self.model, **wire.body(questions)})

    def _choose(self, method: str) -> tuple[Wire, dict[str, Any]]:
        """The first form that the server knows, and its reply. raises : EngineError"""
        lacks = []
        for wire in [WIRES[method]] if method != "auto" else WIRES.values():
            try:
                return wire, self._post(wire, [_PROBE])
            except ServerError as error:
                if error.retryable:
                    raise
                lacks.append(str(error))
        message = f"cannot ask the server {self.url} about {self.model}: {'; '.join(lacks)}"
        raise EngineError(f"{message}. {_remedy(wire)}")


def _remedy(wire: Wire) -> str:
    """What to do about a server that does not answer in this form."""
    others = " or ".join(f"{name}:" for name in WIRES if name != wire.name)
    return (
        f"If it does not offer /v1/{wire.name}, write {others} in the place of {wire.name}:, or leave that out, so "
        "that the model is asked for log-probabilities (docs/servers.md)"
    )
