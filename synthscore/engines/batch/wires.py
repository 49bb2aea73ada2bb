"""A question -> the requests of a file, in the form that a service reads. Pure: no network and no files here.

A service that is new is a class more in FILE_FORMS. What each form is, and where it is described: docs/batches.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from ...engine import Question, Sampling
from ...errors import EngineError
from ..servers.anthropic import blocks_of
from ..servers.routes import SOFTWARE, constraint, schema
from ..tokens import PromptTokenizer
from .exact import requests_on_labels

THINKING = 4096
"""Tokens that a text may have besides its own, of a service that counts those in which a model thinks first. (What an
answer in words may have says its question: engines/words.py.)"""

Body = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """What of requests is the same for all questions.

    model : as the service knows it. tokens : of the model, to ask for the probabilities of labels
    template : what the service's chat template is given. thinking : whether that lets the model think
    effort : of reasoning; "": as the service has it
    """

    model: str
    tokens: PromptTokenizer | None = None
    template: Mapping[str, str] = field(default_factory=dict)
    thinking: bool = False
    effort: str = ""


class FileForm(ABC):
    """A form of files.

    name : in options and signatures
    key : the field that holds the id of a line
    exact : it can ask for the probabilities of labels, given the model's tokenizer
    takes : those of `thinking` and `effort` that it can say
    """

    name: ClassVar[str]
    key: ClassVar[str] = "custom_id"
    exact: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ()

    def requests(self, question: Question, how: Request) -> list[Body]:
        """One body for each request that the question takes.

        raises : EngineError for a question that cannot be asked so; LabelError; PromptTooLongError
        """
        if question.continuation is not None:
            raise EngineError("a file cannot ask how probable a given text is. Take a model that runs here")
        if question.sampling is None:
            raise EngineError(
                f"questions for {self.name} cannot ask for the probabilities of labels. Ask with --answers words, or, "
                "for vLLM, with --questions-format vllm and --tokenizer"
            )
        if question.prompt.prefill:
            raise EngineError(
                f"questions for {self.name} cannot begin the answer, here with {question.prompt.prefill!r:.60}. "
                "Take a template set without that"
            )
        return [self.body(question, question.sampling, how)]

    @abstractmethod
    def body(self, question: Question, sampling: Sampling, how: Request) -> Body:
        """Of a question that is answered by a text."""

    @abstractmethod
    def line(self, line_id: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """A request as a line of a file."""


class OpenAI(FileForm):
    """OpenAI's, which Azure, Together, Groq and others take as well; Mistral takes no more of it than it needs."""

    name = "openai"
    takes: ClassVar[tuple[str, ...]] = ("effort",)

    def body(self, question: Question, sampling: Sampling, how: Request) -> Body:
        body: Body = {
            "model": how.model,
            "messages": _messages(question),
            "max_completion_tokens": sampling.max_new_tokens if question.labels else _thinking(sampling),
        }
        if question.labels:
            body |= constraint("response_format", question.labels)
        return body | ({"reasoning_effort": how.effort} if how.effort else {})

    def line(self, line_id: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {self.key: line_id, "method": "POST", "url": "/v1/chat/completions", "body": body}


class VLLM(OpenAI):
    """`vllm run-batch`: OpenAI's line with what vLLM takes besides, as the live route sends it."""

    name = "vllm"
    exact = True
    takes = ("thinking", "effort")

    def requests(self, question: Question, how: Request) -> list[Body]:
        chat = {"chat_template_kwargs": {"enable_thinking": how.thinking, **how.template}}
        if question.sampling is None and question.continuation is None and how.tokens is not None:
            return requests_on_labels(question.prompt, question.labels, how.tokens, {"model": how.model, **chat})
        return [body | chat for body in super().requests(question, how)]

    def body(self, question: Question, sampling: Sampling, how: Request) -> Body:
        body: Body = {
            "model": how.model,
            "messages": _messages(question),
            "max_tokens": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": question.seed % 2**31,
            **({"stop": list(sampling.stop)} if sampling.stop else {}),
            **SOFTWARE["vllm"].writes,
        }
        if question.labels and not how.thinking:  # it would hold for what is thought, too
            body |= constraint(SOFTWARE["vllm"].constrains, question.labels)
        return body


class Anthropic(FileForm):
    """Anthropic's Message Batches."""

    name = "anthropic"
    takes = ("effort",)

    def body(self, question: Question, sampling: Sampling, how: Request) -> Body:
        body: Body = {
            "model": how.model,
            "max_tokens": sampling.max_new_tokens if question.labels else _thinking(sampling),
            "messages": [{"role": "user", "content": blocks_of(question.prompt, ttl="1h")}],
        }
        config: Body = {"effort": how.effort} if how.effort else {}
        if question.labels:
            config["format"] = {"type": "json_schema", "schema": schema(question.labels)}
        return body | ({"output_config": config} if config else {})

    def line(self, line_id: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {self.key: line_id, "params": body}


class Gemini(FileForm):
    """Gemini's batch files; the model is named where the job is made."""

    name = "gemini"
    key = "key"

    def body(self, question: Question, sampling: Sampling, how: Request) -> Body:
        config: Body = {
            "max_output_tokens": sampling.max_new_tokens if question.labels else _thinking(sampling),
        }
        if question.labels:
            config["response_mime_type"] = "application/json"
            verdict = {"type": "STRING", "enum": list(question.labels)}
            config["response_schema"] = {"type": "OBJECT", "properties": {"verdict": verdict}, "required": ["verdict"]}
        contents = [{"role": "user", "parts": [{"text": question.prompt.text}]}]
        return {"contents": contents, "generation_config": config}

    def line(self, line_id: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        return {self.key: line_id, "request": body}


FILE_FORMS: Mapping[str, FileForm] = {wire.name: wire for wire in (OpenAI(), Anthropic(), Gemini(), VLLM())}


def _messages(question: Question) -> list[Body]:
    return [{"role": "user", "content": question.prompt.text}]


def _thinking(sampling: Sampling) -> int:
    """Of a text by a service that counts what a model thinks into its limit."""
    return sampling.max_new_tokens + THINKING
