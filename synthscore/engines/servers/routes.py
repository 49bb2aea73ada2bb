"""How servers are asked for the token after a prompt, and what replies say: a small class a way, a row a software.

A way that is new is a class more in ROUTES; a software that is new, a row more in SOFTWARE. No network here.

raises : ValueError and its like, for what cannot be true of a reply; Http.reading makes a failed try of it
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from ...errors import EngineError
from ...types import Usage
from .steps import NextToken, unbiased

T = TypeVar("T")
_IMPOSSIBLE = -9999.0  # how vLLM writes a log-probability of -inf; llama.cpp writes -3.4e38
_TOKEN_ID = re.compile(r"token_id:(\d+)")


@dataclass(frozen=True, slots=True)
class Software:
    """What a server software does in its own way. The fields are those of requests.

    version_at : where it reports its version
    chat : with every chat; thinking is switched off
    goes_on : with a chat whose last message begins the answer; None: it cannot go on from that
    spells : a grammar makes it begin its answer with given tokens, and log-probabilities are those without the grammar
    one_by_one : it reads one prompt at a time, and keeps the last: the requests of a question should come together
    writes : with every text, or the model's generation_config.json would have its say
    constrains : how an answer in words is made one of the labels: a name of CONSTRAINTS
    names_tokenizer : it names the model's tokenizer
    """

    version_at: str = ""
    chat: Mapping[str, Any] = field(default_factory=dict)
    goes_on: Mapping[str, Any] | None = None
    one_by_one: bool = False
    spells: bool = False
    writes: Mapping[str, Any] = field(default_factory=dict)
    constrains: str = "response_format"
    names_tokenizer: bool = False


_OURS: dict[str, Any] = {
    "chat": {"chat_template_kwargs": {"enable_thinking": False}},
    "goes_on": {"add_generation_prompt": False, "continue_final_message": True},
    "writes": {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
    "names_tokenizer": True,
}
_LLAMA_CPP = {"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0}  # or it draws from 40 tokens, and penalises repeats
SOFTWARE: Mapping[str, Software] = {
    "vllm": Software("/version", constrains="structured_outputs", **_OURS),
    "sglang": Software("/get_server_info", constrains="regex", **_OURS),
    # goes_on: it takes a last message of the model's as a beginning anyway
    "llamacpp": Software("/props", _OURS["chat"], {}, writes=_LLAMA_CPP, constrains="grammar"),
    "llama-cpp-python": Software(
        "/openapi.json", one_by_one=True, spells=True, writes=_LLAMA_CPP, constrains="grammar"
    ),
}
ANONYMOUS = "me"
"""The owner of a model behind llama_cpp.server, and behind others: its description of itself tells."""


def constraint(name: str, labels: Sequence[str]) -> dict[str, Any]:
    """The fields of a request by which its answer is one of the labels. name : of CONSTRAINTS"""
    if name == "structured_outputs":  # vLLM
        return {name: {"choice": list(labels)}}
    if name == "regex":  # SGLang
        return {name: f"({'|'.join(map(re.escape, labels))})"}
    if name == "grammar":  # llama.cpp
        return {name: f"root ::= {' | '.join(json.dumps(label, ensure_ascii=False) for label in labels)}"}
    return {name: {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": schema(labels)}}}


def schema(labels: Sequence[str]) -> dict[str, Any]:
    """Of a JSON object whose one value is one of the labels."""
    verdict = {"type": "string", "enum": list(labels)}
    return {
        "type": "object",
        "properties": {"verdict": verdict},
        "required": ["verdict"],
        "additionalProperties": False,
    }


class NoLogProbsError(ValueError):
    """A reply that has no log-probabilities, though they were asked for."""

    parameter = "logprobs"


class Post(Protocol):
    """Sends a request, and reads its reply: what is not as expected in that fails the try."""

    def __call__(self, body: Mapping[str, Any], read: Callable[[Mapping[str, Any]], T], /) -> T: ...


class Route(ABC):
    """A way to ask for the token after a prompt.

    name : in signatures and options
    path : asked below /v1, or below the server's root (at_root)
    by_ids : behind token ids, made here by the model's tokenizer; else through the server's chat template
    complete : all tokens that matter are reported; else the k most probable ones
    checked_by : another way, which must report the same when the server is opened
    """

    name: ClassVar[str]
    path = "/completions"
    at_root = False
    by_ids = True
    complete = False
    checked_by: ClassVar[type[Route] | None] = None

    @abstractmethod
    def ask(self, post: Post, prompt: Any, wanted: Sequence[Any], top_k: int) -> NextToken[Any]:
        """What is reported of the token. prompt : token ids, or the fields of a chat. wanted : the tokens that matter;
        behind a chat template, those that the answer is made to begin with"""


class ChosenIds(Route):
    """Chosen tokens by logprob_token_ids: vLLM. https://github.com/vllm-project/vllm/pull/43463"""

    name, complete = "ids", True

    def ask(self, post: Post, prompt: Any, wanted: Sequence[int], top_k: int) -> NextToken[int]:
        asked = _completion(prompt, 1) | {"logprob_token_ids": list(wanted)}
        return post(asked, lambda reply: NextToken.of_chosen(dict(_with_ids(reply)), wanted))


class Generate(Route):
    """Chosen tokens by token_ids_logprob: SGLang."""

    name, path, at_root, complete = "generate", "/generate", True, True

    def ask(self, post: Post, prompt: Any, wanted: Sequence[int], top_k: int) -> NextToken[int]:
        def read(reply: Mapping[str, Any]) -> NextToken[int]:
            meta = reply["meta_info"]
            triples = [*meta["output_top_logprobs"][0], *meta["output_token_ids_logprobs"][0]]
            return NextToken.of_chosen({whole(token): number(log_prob) for log_prob, token, *_ in triples}, wanted)

        # At temperature 0 SGLang's log-probabilities are those of the model itself.
        asked = {"input_ids": list(prompt), "sampling_params": {"max_new_tokens": 1, "temperature": 0}}
        reported = {"return_logprob": True, "top_logprobs_num": 1, "token_ids_logprob": list(wanted)}
        return post(asked | reported, read)


class TopIds(Route):
    """The k most probable tokens, by id: older vLLM; llama-server."""

    name = "topk"

    def ask(self, post: Post, prompt: Any, wanted: Sequence[int], top_k: int) -> NextToken[int]:
        return post(_completion(prompt, top_k), lambda reply: NextToken.of_top(_with_ids(reply), top_k))


class Biased(Route):
    """Chosen tokens through a bias on their logits, which makes them the most probable: llama-server.

    With post_sampling_probs it reports the probabilities after the bias, which `unbiased` turns back. The biases that
    were good for one prompt are tried first with the next, so that most prompts take one request.
    """

    name, path, at_root, complete, checked_by = "bias", "/completion", True, True, TopIds

    def __init__(self) -> None:
        self._bias: dict[int, float] = {}

    def ask(self, post: Post, prompt: Any, wanted: Sequence[int], top_k: int) -> NextToken[int]:
        # The bias comes first in its chain of samplers, and at temperature 1 nothing else changes a probability.
        chain = {"samplers": ["temperature"], "temperature": 1.0, "post_sampling_probs": True, "cache_prompt": True}
        asked = {"prompt": list(prompt), "n_predict": 1, "n_probs": len(wanted) + 20, **chain}
        bias = {token: self._bias.get(token, 4.0) for token in wanted}

        def read(reply: Mapping[str, Any]) -> tuple[NextToken[int], dict[int, float]]:
            top = reply["completion_probabilities"][0]["top_probs"]
            return unbiased([(whole(entry["id"]), number(entry["prob"])) for entry in top], bias)

        for _ in range(6):
            step, better = post(asked | {"logit_bias": [list(pair) for pair in bias.items()]}, read)
            if not better:
                return step
            self._bias |= better
            bias = better
        raise EngineError("the biases that show the labels' tokens were not found within 6 requests")


class Chat(Route):
    """The k most probable tokens, as text, behind a message in the server's own chat template."""

    name, path, by_ids = "chat", "/chat/completions", False

    def ask(self, post: Post, prompt: Any, wanted: Sequence[str], top_k: int) -> NextToken[str]:
        asked = {**prompt, "temperature": 0, "logprobs": True, "top_logprobs": top_k}
        if wanted:  # then a character that no label begins with: more than the tokens themselves
            spelled = json.dumps("".join(wanted), ensure_ascii=False)
            asked |= {"grammar": f'root ::= {spelled} "\\n"', "max_tokens": len(wanted) + 1}

        def read(reply: Mapping[str, Any]) -> NextToken[str]:
            if wanted:
                places = reply["choices"][0]["logprobs"]["content"]
                if [place["token"] for place in places[: len(wanted)]] != list(wanted) or len(places) <= len(wanted):
                    return NextToken({}, 0.0, 0.0)  # spelled in other tokens: any may have any probability
            return NextToken.of_top([(str(token), p) for token, p in told_token(reply, "token", len(wanted))], top_k)

        return post(asked, read)


class Words(Route):
    """No log-probabilities: the server writes, and is asked for labels in words (engines/words.py)."""

    name, path, by_ids, complete = "words", "/chat/completions", False, True

    def ask(self, post: Post, prompt: Any, wanted: Sequence[Any], top_k: int) -> NextToken[Any]:
        raise EngineError("it is asked in words, and for no log-probabilities")


ROUTES: tuple[type[Route], ...] = (ChosenIds, Generate, Biased, TopIds, Chat)
"""The first that a server turns out to offer is taken."""


def _completion(ids: Sequence[int], n_top: int) -> dict[str, Any]:
    asked = {"prompt": list(ids), "max_tokens": 1, "temperature": 0}
    return asked | {"logprobs": n_top, "return_tokens_as_token_ids": True}


def _with_ids(reply: Mapping[str, Any]) -> list[tuple[int, float]]:
    return [(token_id(token), log_prob) for token, log_prob in told_token(reply, "id")]


def one_choice(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """raises : KeyError, TypeError, ValueError where there is not one choice, as was asked for"""
    choices: Sequence[Mapping[str, Any]] = reply["choices"]
    if len(choices) != 1:
        raise ValueError(f"{len(choices)} choices, expected 1")
    return choices[0]


def told_token(reply: Mapping[str, Any], by: Literal["id", "token"], at: int = 0) -> list[tuple[int | str, float]]:
    """The tokens reported at one place of the answer, in both of the forms in which servers report them."""
    reported = one_choice(reply).get("logprobs")
    if not reported:
        raise NoLogProbsError("no log-probabilities")
    if "content" not in reported:
        return [(token, number(log_prob)) for token, log_prob in reported["top_logprobs"][at].items()]
    if not reported["content"]:
        raise NoLogProbsError("no log-probabilities")
    top = reported["content"][at]["top_logprobs"]
    return [(entry.get(by, entry["token"]), number(entry["logprob"])) for entry in top]


def token_id(token: int | str) -> int:
    if isinstance(token, int):
        return whole(token)
    found = _TOKEN_ID.fullmatch(token)
    if not found:
        raise ValueError(f"the token {token!r}, expected its id")
    return whole(int(found[1]))


def usage_of(reply: Mapping[str, Any]) -> Usage:
    """The tokens of a reply, as far as it reports them, in the words of any server. What is no whole number counts as
    not reported: an answer is none the worse for that."""

    def count(*path: str) -> int:
        value: Any = reply
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31 else 0

    def first(*paths: tuple[str, ...]) -> int:
        return next((n for path in paths if (n := count(*path))), 0)

    n_in = first(
        ("usage", "prompt_tokens"), ("usage", "input_tokens"), ("meta_info", "prompt_tokens"), ("tokens_evaluated",)
    )
    n_cached = first(
        ("usage", "prompt_tokens_details", "cached_tokens"),
        ("usage", "input_tokens_details", "cached_tokens"),
        ("usage", "prompt_cache_hit_tokens"),  # DeepSeek
        ("meta_info", "cached_tokens"),
        ("timings", "cache_n"),
    )
    read, made = count("usage", "cache_read_input_tokens"), count("usage", "cache_creation_input_tokens")
    if read or made:  # Anthropic: beside the input tokens, not among them
        n_in, n_cached = n_in + read + made, read
    n_out = first(
        ("usage", "completion_tokens"), ("usage", "output_tokens"), ("meta_info", "completion_tokens"),
        ("tokens_predicted",),
    )  # fmt: skip
    n_reasoning = first(
        ("usage", "completion_tokens_details", "reasoning_tokens"),
        ("usage", "output_tokens_details", "reasoning_tokens"),
        ("usage", "output_tokens_details", "thinking_tokens"),
    )
    return Usage(n_in=n_in, n_computed=max(n_in - n_cached, 0), n_out=n_out, n_reasoning=n_reasoning)


def number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value <= 1e300:  # nor is NaN
        raise ValueError(f"{'null' if value is None else repr(value)}, expected a number")
    return -math.inf if value <= _IMPOSSIBLE else float(value)


def whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise ValueError(f"{value!r}, expected a whole number")
    return value
