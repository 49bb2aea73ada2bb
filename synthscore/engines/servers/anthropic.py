"""Anthropic's Messages API: it writes, and judges in words. No log-probabilities, temperature, seed or begun answers.

https://platform.claude.com/docs/en/api/messages, version 2026-10-21; the types are those of anthropic 2.14. What a
model refuses (an answer limited to the labels, or thinking that is switched off) is learnt when it is opened, from no
list of models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from ...engine import Answer, Capabilities, Generation, Prompt, Question, Sampling
from ...errors import EngineError, LabelError, ServerError
from ...signature import Signature
from ..words import LONG, SHORT
from .http import Access
from .routes import schema, whole
from .served import Served, split_revision

API = "https://api.anthropic.com/v1"
VERSION = "2026-10-21"

_QUESTION = Prompt("Is ice cold? Answer with one word: Yes or No.")
_LABELS = ("Yes", "No")
_ENDS: Mapping[str, Literal["stop", "length"]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
}


class AnthropicServer(Served):
    """A model of Anthropic's. Safe to use from several threads.

    url, model : as of Server; the model has to be named. thinking : it thinks before it answers, as far as it likes;
    else that is switched off, where the model takes that
    reasoning_effort : sent as output_config.effort; "": none
    raises : ServerError when it is not to be reached; EngineError when it cannot be used
    """

    name: ClassVar[str] = "messages"
    access: ClassVar[Access] = Access(("ANTHROPIC_API_KEY",), {"anthropic-version": VERSION})

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        thinking: bool = False,
        reasoning_effort: str = "",
        timeout_s: float = 600.0,
    ) -> None:
        if url.rstrip("/") == API and not self.access.key:
            raise EngineError(
                f"cannot ask {model} at {API}: no key is set. Put yours in the environment: ANTHROPIC_API_KEY",
                model=model,
            )
        super().__init__(url, model, timeout_s)
        self._effort = reasoning_effort
        self._thinking = "adaptive" if thinking else "disabled"
        self._limits_answers = True
        self._learn()

    @property
    def signature(self) -> Signature:
        """constrained : how an answer in words is one of the labels. thinking : "default" where the model takes no word
        on it, and does as it likes. The server's version is that of the API."""
        return Signature.of(
            **self.signed_model,
            backend=f"server-{self.name}",
            chat="server",
            constrained="output_config" if self._limits_answers else "no",
            thinking={"adaptive": "on", "disabled": "off"}.get(self._thinking, "default"),
            **({"effort": self._effort} if self._effort else {}),
            server=self.server,
        )

    @property
    def _reasons(self) -> bool:
        return self._thinking != "disabled"

    @property
    def capabilities(self) -> Capabilities:
        limits = "limited to the labels" if self._limits_answers else "limited by nothing"
        room = "it may think before it answers" if self._reasons else "it answers at once"
        description = f"is asked in words, answers {limits}; {room}"
        return Capabilities(judges=False, reasons=self._reasons, served=True, description=description)

    def check(self) -> None:
        """raises : ServerError, unless the server answers and has the model."""
        self._ask(_QUESTION, (), SHORT)

    def together(self, questions: Sequence[Question]) -> list[list[int]]:
        """Which questions go in one request: each by itself."""
        return [[row] for row in range(len(questions))]

    def answer_all(self, questions: Sequence[Question]) -> list[Answer]:
        """Of questions that go together. raises : as `answer`"""
        return [self.answer(question) for question in questions]

    def answer(self, question: Question) -> Answer:
        """Two samples of a question differ as the model likes: it takes no seed and no temperature.

        raises : ServerError, when the request failed; EngineError where this server cannot be asked so; LabelError
        """
        if question.continuation is not None:
            raise EngineError(f"{self.model} cannot be asked how probable a given text is. Take a model that runs here")
        if question.sampling is None:
            raise LabelError(f"{self.model} reports no log-probabilities. Ask it in words: --answers words")
        if begun := question.prompt.prefill:
            raise EngineError(
                f"{self.model} cannot go on with an answer that begins with {begun!r}. Take other prompts"
            )
        limit = question.sampling.max_new_tokens
        if question.labels:
            return self._read(self._ask(question.prompt, question.labels, limit), in_words=True)
        reply = self._ask(question.prompt, (), limit + LONG if self._reasons else limit)
        return ended_at(self._read(reply, in_words=False), question.sampling)

    # -------------------------------------------------------------------------------------------- requests

    def _ask(self, prompt: Prompt, labels: Sequence[str], limit: int) -> dict[str, Any]:
        """The reply to one message. What it shares with others is marked, so that it is read from the cache."""
        output: dict[str, Any] = {"effort": self._effort} if self._effort else {}
        if labels and self._limits_answers:
            output["format"] = {"type": "json_schema", "schema": schema(labels)}
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": limit,
            "messages": [{"role": "user", "content": blocks_of(prompt)}],
        }
        if output:
            body["output_config"] = output
        if self._thinking:
            body["thinking"] = {"type": self._thinking}
        return self.sent("/messages", body)

    def _read(self, reply: Mapping[str, Any], *, in_words: bool) -> Generation:
        """The last text of a reply, after what was thought. raises : EngineError, where there is none to come"""
        with self.http.reading(reply):
            texts = [str(block["text"]) for block in reply["content"] if block["type"] == "text"]
            text = texts[-1] if texts else ""
            reason, n_tokens = str(reply["stop_reason"]), whole(reply["usage"]["output_tokens"])
            details = reply.get("stop_details") or {}
            why = details.get("explanation") or details.get("category") or text
        if reason == "refusal" and in_words:
            return Generation(str(why), "refusal", n_tokens)
        if reason not in _ENDS:
            more = f" ({why})" if reason == "refusal" and why else ""
            raise EngineError(f"a text of {self.model} ended with {reason!r}{more}, expected one of {', '.join(_ENDS)}")
        return Generation(text, _ENDS[reason], n_tokens)

    # -------------------------------------------------------------------------------------------- what it can do

    def _learn(self) -> None:
        """How the model is asked, found out by one question; of what it refuses, the part that it names goes first."""
        while True:
            try:
                self._ask(_QUESTION, _LABELS, LONG if self._reasons else SHORT)
            except ServerError as error:
                if error.status not in (400, 422):
                    raise
                can_do_without_thinking = self._thinking == "disabled"
                if can_do_without_thinking and ("thinking" in str(error) or not self._limits_answers):
                    self._thinking = ""
                elif self._limits_answers:
                    self._limits_answers = False
                else:
                    raise
            else:
                return

    def _find_model(self, wanted: str | None) -> tuple[Mapping[str, Any], str]:
        """The name as it is: an alias is in no list, and one that there is not is refused when it is asked."""
        if wanted is None:
            raise EngineError("Anthropic has several models. Name one: anthropic:MODEL")
        model, revision = split_revision(wanted)
        return {"id": model, "owned_by": "anthropic"}, revision

    def _find_version(self) -> str:
        return VERSION


def blocks_of(prompt: Prompt, **cache: str) -> list[dict[str, Any]]:
    """The content of a message. What the prompt shares with others is marked to be kept. cache : how"""
    shared, rest = prompt.text[: prompt.n_shared], prompt.text[prompt.n_shared :]
    if not shared.strip() or not rest.strip():  # blocks of white space alone are refused
        return [{"type": "text", "text": prompt.text}]
    kept = {"type": "text", "text": shared, "cache_control": {"type": "ephemeral", **cache}}
    return [kept, {"type": "text", "text": rest}]


def ended_at(text: Generation, sampling: Sampling) -> Generation:
    """Before a stop string. They are not sent: Anthropic refuses those of white space."""
    places = [place for end in sampling.stop if (place := text.text.find(end)) >= 0]
    return Generation(text.text[: min(places)], "stop", text.n_tokens) if places else text
