"""Lines of results, in the shapes of services, to questions that were written to files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from synthscore.engines.batch.ids import split_id


def lines_of(path: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def id_of(line: dict[str, Any]) -> str:
    return line.get("custom_id") or line["key"]


def body_of(line: dict[str, Any]) -> dict[str, Any]:
    return next(line[name] for name in ("body", "params", "request") if name in line)


def result(line: dict[str, Any], text: str, ended: str = "stop", model: str = "m", n_tokens: int = 7) -> dict[str, Any]:
    """The answer to a line in the shape of the service that the line is for. ended : stop, length, refusal"""
    if "params" in line:
        reason = {"stop": "end_turn", "length": "max_tokens", "refusal": "refusal"}[ended]
        content = [{"type": "thinking", "thinking": "", "signature": "s"}, {"type": "text", "text": text}]
        message = {"model": model, "content": content, "stop_reason": reason, "usage": {"output_tokens": n_tokens}}
        return {"custom_id": line["custom_id"], "result": {"type": "succeeded", "message": message}}
    if "key" in line:
        reason = {"stop": "STOP", "length": "MAX_TOKENS", "refusal": "SAFETY"}[ended]
        parts = [{"text": "thoughts", "thought": True}, {"text": text}]
        candidate = {"content": {"parts": parts, "role": "model"}, "finishReason": reason}
        usage = {"candidatesTokenCount": n_tokens}
        return {
            "key": line["key"],
            "response": {"candidates": [candidate], "modelVersion": model, "usageMetadata": usage},
        }
    reason = {"refusal": "content_filter"}.get(ended, ended)
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}
    return succeeded(line, {"model": model, "choices": [choice], "usage": {"completion_tokens": n_tokens}})


def chosen(line: dict[str, Any], log_prob_of: Callable[[int], float], model: str = "m") -> dict[str, Any]:
    """The answer of vLLM to a line that asks for chosen tokens."""
    wanted = line["body"]["logprob_token_ids"]
    told = [{"token": f"token_id:{token}", "logprob": log_prob_of(token), "bytes": []} for token in (3, *wanted)]
    choice = {"message": {"content": "x"}, "finish_reason": "length", "logprobs": {"content": [{"top_logprobs": told}]}}
    return succeeded(line, {"model": model, "choices": [choice], "usage": {"completion_tokens": 1}})


def succeeded(line: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    response = {"status_code": 200, "request_id": "r", "body": body}
    return {"id": "batch_req_1", "custom_id": line["custom_id"], "response": response, "error": None}


def failed(line: dict[str, Any], words: str = "it expired") -> dict[str, Any]:
    """The service's error in the place of an answer."""
    if "params" in line:
        return {"custom_id": line["custom_id"], "result": {"type": "errored", "error": {"error": {"message": words}}}}
    if "key" in line:
        return {"key": line["key"], "error": {"code": 13, "message": words}}
    return {"custom_id": line["custom_id"], "response": None, "error": {"code": "batch_expired", "message": words}}


def stem(line: dict[str, Any]) -> str:
    return split_id(id_of(line))[0]
