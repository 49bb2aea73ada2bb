"""A line of a results or error file -> whose answer it is, and what it says; by its shape, whoever wrote it.

    {"custom_id", "response": {"status_code", "body"}, "error"}     OpenAI, Azure, Together, Groq, vLLM, Mistral
    {"custom_id", "result": {"type", "message" or "error"}}         Anthropic
    {"key", "response" or "error"}                                  Gemini

Nothing in a line is trusted: what is not as expected is a ValueError, which says what was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..servers.routes import whole
from .ids import split_id

Row: TypeAlias = Mapping[str, Any]
Shape = Literal["openai", "anthropic", "gemini"]
Reason = Literal["stop", "length", "refusal"]


@dataclass(frozen=True, slots=True)
class Reply:
    """One line. stem, part : of its id. model : that the service names; "" where it names none
    error : in the service's words, where there is no answer; else body : the answer, in the form `shape`
    """

    stem: str
    part: int
    shape: Shape
    model: str = ""
    error: str = ""
    body: Row | None = None


def read_reply(row: object) -> Reply:
    """Of a line. raises : ValueError where it has none of the shapes"""
    try:
        if not isinstance(row, dict):
            raise ValueError("it is no object")
        if "custom_id" in row:
            stem, part = split_id(row["custom_id"])
            return _of_anthropic(stem, part, row["result"]) if "result" in row else _of_openai(stem, part, row)
        return _of_gemini(*split_id(row["key"]), row)
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"it is {row!r:.200}, which has none of the shapes of answers") from error


def _of_openai(stem: str, part: int, row: Row) -> Reply:
    error = row.get("error")
    response: Any = row.get("response") if error else row["response"]
    body: Any = (response or {}).get("body")
    error = error or (body or {}).get("error")
    if error or response is None or response.get("status_code", 200) != 200:
        return Reply(stem, part, "openai", error=_words(error or response))
    model = body["model"]
    return Reply(stem, part, "openai", _text(model), body=body)


def _of_anthropic(stem: str, part: int, result: Row) -> Reply:
    if result["type"] != "succeeded":
        return Reply(stem, part, "anthropic", error=_words(result.get("error") or result["type"]))
    message = result["message"]
    return Reply(stem, part, "anthropic", _text(message["model"]), body=message)


def _of_gemini(stem: str, part: int, row: Row) -> Reply:
    if row.get("error") or row.get("response") is None:
        return Reply(stem, part, "gemini", error=_words(row["error"]))
    response = row["response"]
    named = _text(_either(response, "modelVersion", "model_version", ""))
    return Reply(stem, part, "gemini", named.removeprefix("models/"), body=response)


def read_text(shape: Shape, body: Row) -> tuple[str, Reason, int]:
    """The text of an answer, how it ended, and its tokens. raises : ValueError"""
    try:
        text, reason, n_tokens = _TEXTS[shape](body)
        text.encode()  # half a surrogate pair cannot be stored
        return text, reason, n_tokens
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"the answer is {body!r:.200}, which cannot be read") from error


def _openai_text(body: Row) -> tuple[str, Reason, int]:
    (choice,) = body["choices"]
    message = choice["message"]
    n_tokens = whole(body["usage"]["completion_tokens"])
    if message.get("refusal"):
        return _text(message["refusal"]), "refusal", n_tokens
    reason = choice["finish_reason"]
    if reason == "content_filter":
        return _text(message.get("content") or ""), "refusal", n_tokens
    if message.get("content") is None and reason == "length":  # it was still thinking
        return "", "length", n_tokens
    return _text(message["content"]), _ended(reason, {"stop": "stop", "length": "length"}), n_tokens


_ANTHROPIC: Mapping[str, Reason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


def _anthropic_text(body: Row) -> tuple[str, Reason, int]:
    texts = [_text(block["text"]) for block in body["content"] if block["type"] == "text"]
    n_tokens = whole(body["usage"]["output_tokens"])
    return (texts[-1] if texts else ""), _ended(body["stop_reason"], _ANTHROPIC), n_tokens


_GEMINI: Mapping[str, Reason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    **dict.fromkeys(("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII"), "refusal"),
}


def _gemini_text(body: Row) -> tuple[str, Reason, int]:
    usage = _either(body, "usageMetadata", "usage_metadata", {})
    n_tokens = whole(_either(usage, "candidatesTokenCount", "candidates_token_count", 0))
    candidates = list(body.get("candidates") or ())
    if not candidates and _either(body, "promptFeedback", "prompt_feedback", None):
        return "", "refusal", n_tokens
    (candidate,) = candidates
    parts = (candidate.get("content") or {}).get("parts") or ()
    text = "".join(_text(part["text"]) for part in parts if "text" in part and not part.get("thought"))
    return text, _ended(_either(candidate, "finishReason", "finish_reason", None), _GEMINI), n_tokens


_TEXTS: Mapping[Shape, Callable[[Row], tuple[str, Reason, int]]] = {
    "openai": _openai_text,
    "anthropic": _anthropic_text,
    "gemini": _gemini_text,
}


def same_model(asked: str, answered: str) -> bool:
    """Whether a reply by one name can be from a model that was asked for by another: a dated form of that name."""
    dated = rf"{re.escape(asked.removeprefix('models/'))}(-\d{{4}}-?\d\d-?\d\d|-\d{{3}})?"
    return re.fullmatch(dated, answered) is not None


def _ended(reason: object, known: Mapping[str, Reason]) -> Reason:
    if not isinstance(reason, str) or reason not in known:
        raise ValueError(f"the text ended with {reason!r:.60}, expected one of {', '.join(known)}")
    return known[reason]


def _either(row: Row, name: str, other: str, default: Any) -> Any:
    return row[name] if name in row else row.get(other, default)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.80}, expected a text")
    return value


def _words(error: object) -> str:
    """What a service says of an error; the message, where it has one."""
    for _ in range(3):
        if isinstance(error, dict):
            error = error.get("message") or error.get("error") or error.get("body") or error.get("code") or error
    return f"{error!s:.300}"
