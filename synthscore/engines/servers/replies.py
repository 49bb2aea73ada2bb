"""What the parts of a server's reply say: the tokens told for one place, log-probabilities, tokens used. Pure.

raises : ValueError and its like, for what cannot be true; Http.reading makes a failed try of it
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from ...types import FloatArray
from .http import number
from .steps import Step

_TOKEN_ID = re.compile(r"token_id:(\d+)")


class Used:
    """Tokens of the first request about a prompt, and those that all requests about it ran over."""

    def __init__(self) -> None:
        self.first, self.computed = 0, 0

    def add(self, n_prompt: Any, n_cached: Any) -> None:
        n_prompt = n_prompt if isinstance(n_prompt, int) else 0
        self.first = self.first or n_prompt
        self.computed += n_prompt - (n_cached if isinstance(n_cached, int) else 0)


def first_token(reply: Mapping[str, Any], used: Used, by: Literal["id", "token"]) -> list[tuple[int | str, float]]:
    """The tokens told for the first place of the answer, in both of the forms in which servers tell them."""
    usage = reply.get("usage") or {}
    used.add(usage.get("prompt_tokens"), (usage.get("prompt_tokens_details") or {}).get("cached_tokens"))
    (choice,) = reply["choices"]
    told = choice["logprobs"]
    if told is None:
        raise ValueError("no log-probabilities")
    if "content" not in told:
        return [(token, number(log_prob)) for token, log_prob in told["top_logprobs"][0].items()]
    top = told["content"][0]["top_logprobs"]
    return [(entry.get(by, entry["token"]), number(entry["logprob"])) for entry in top]


def token_id(token: int | str) -> int:
    if isinstance(token, int):
        return token
    found = _TOKEN_ID.fullmatch(token)
    if not found:
        raise ValueError(f"the token {token!r}, expected its id")
    return int(found[1])


def log_probs_of(told: Sequence[Any]) -> FloatArray:
    """None: impossible. raises : ValueError, for what cannot be log-probabilities"""
    log_probs = np.array([-math.inf if value is None else number(value) for value in told])
    if not len(log_probs) or log_probs.max() > 1e-4:
        raise ValueError(f"log-probabilities {told!r:.100}, expected some, all at most 0")
    return log_probs


def chosen_step(told: Mapping[int, float], wanted: Sequence[int]) -> Step[int]:
    if missing := sorted(set(wanted) - set(told)):
        raise ValueError(f"no log-probabilities of the tokens {missing}, which were asked for")
    return Step.of_chosen(list(told.items()))
