"""A thin server around one CausalEngine that speaks as vLLM does: HTTP in threads, one thread that asks the model.

Requests that wait while the model is busy are asked of it together, so that prompts which begin alike share their
beginnings. No streaming, no tools, no keys: a judge for programs on the same machine or a trusted network.

    GET  /health, /version, /v1/models
    POST /v1/chat/completions    one user message, maybe the beginning of the answer; texts, or one token's log-probs
    POST /v1/completions         text or token ids, no chat template; also logprob_token_ids, as vLLM has it
    POST /tokenize
"""

from __future__ import annotations

import json
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import torch

from synthscore.engine import Generation, Prompt, Sampling, generate, label_log_probs
from synthscore.engines import open_engine
from synthscore.engines.tree.causal import CausalEngine
from synthscore.errors import EngineError, LabelError
from synthscore.signature import seeded_rng

_MOST_BYTES = 64 << 20  # of a request
_OWN = {"model", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed", "logprobs", "user"}
_TEXT = _OWN | {"prompt", "stop", "logprob_token_ids", "return_tokens_as_token_ids"}
_TEMPLATE = {"add_generation_prompt", "continue_final_message", "chat_template_kwargs"}
_CHAT = _OWN | _TEMPLATE | {"messages", "stop", "top_logprobs", "logprob_token_ids", "return_tokens_as_token_ids"}
_CHAT |= {"structured_outputs"}
_NEUTRAL = {
    "n": 1,
    "stream": False,
    "stop": None,
    "echo": False,
    "frequency_penalty": 0,
    "presence_penalty": 0,
    "top_k": -1,
    "min_p": 0,
    "repetition_penalty": 1,
}


class Refused(Exception):
    """A request that is answered with an HTTP error."""

    def __init__(self, status: int, message: str, kind: str = "BadRequestError") -> None:
        super().__init__(message)
        self.status, self.kind = status, kind


# ------------------------------------------------------------------------------------------------- the model's thread


@dataclass(frozen=True, slots=True, eq=False)
class _Task:
    """Something to ask the model. Tasks of the same `kind` are asked in one go: ask(all their items) -> all answers."""

    kind: tuple[Any, ...]
    items: Sequence[Any]
    ask: Callable[[list[Any]], Sequence[Any]]
    answers: Future[Sequence[Any]]


class _ModelThread:
    """Asks the model, one go at a time, all that waits."""

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def ask(self, kind: tuple[Any, ...], items: Sequence[Any], ask: Callable[[list[Any]], Sequence[Any]]) -> Any:
        answers: Future[Sequence[Any]] = Future()
        self._tasks.put(_Task(kind, items, ask, answers))
        return answers.result()

    def close(self) -> None:
        self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            waiting: list[_Task | None] = [task]
            while not self._tasks.empty():
                waiting.append(self._tasks.get())
            by_kind: dict[tuple[Any, ...], list[_Task]] = {}
            for other in waiting:
                if other is not None:
                    by_kind.setdefault(other.kind, []).append(other)
            for tasks in by_kind.values():
                self._go(tasks)
            if None in waiting:
                return

    def _go(self, tasks: list[_Task]) -> None:
        try:
            answers = list(tasks[0].ask([item for task in tasks for item in task.items]))
        except Exception as error:
            for task in tasks:
                task.answers.set_exception(error)
            return
        for task in tasks:
            task.answers.set_result(answers[: len(task.items)])
            del answers[: len(task.items)]


# ------------------------------------------------------------------------------------------------- what is served


class ModelServer:
    """A CausalEngine behind HTTP. `serve_forever` blocks; `close` ends it.

    root : where the model's tokenizer is
    host, port : where; port 0 takes a free one, which `url` then names
    """

    def __init__(self, engine: CausalEngine, root: str, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.engine, self.root = engine, root
        self._model = _ModelThread()
        self._read: dict[tuple[int, ...], torch.Tensor] = {}
        service = self

        class Handler(_Handler):
            served = service

        self._http = ThreadingHTTPServer((host, port), Handler)
        self._http.daemon_threads = True
        name = f"[{host}]" if ":" in host else host
        self.url = f"http://{name}:{self._http.server_address[1]}/v1"

    def serve_forever(self) -> None:
        self._http.serve_forever(poll_interval=0.1)

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._model.close()

    def get(self, path: str) -> dict[str, Any]:
        if path == "/health":
            return {"status": "ok"}
        if path == "/version":
            return {"version": "0.0"}
        if path == "/v1/models":
            return {"object": "list", "data": [self._entry()]}
        raise Refused(404, f"there is no {path} here", "NotFoundError")

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        paths = {
            "/v1/chat/completions": self._chat,
            "/v1/completions": self._complete,
            "/tokenize": self._tokenize,
        }
        if path not in paths:
            raise Refused(404, f"there is no {path} here. There are: {', '.join(paths)}", "NotFoundError")
        if body.get("model") != self.engine.name:
            message = f"the model {body.get('model')!r} is not here. Expected {self.engine.name!r}"
            raise Refused(404, message, "NotFoundError")
        return paths[path](body)

    def _entry(self) -> dict[str, Any]:
        return {
            "id": self.engine.name,
            "object": "model",
            "owned_by": "vllm",
            "root": self.root,
            "max_model_len": self.engine.prompts.max_length,
        }

    def _chat(self, body: Mapping[str, Any]) -> dict[str, Any]:
        _check(body, _CHAT)
        prompt, sampling, seed = _prompt(body), _sampling(body), _seed(body)
        if body.get("logprobs"):
            _check_first_token(sampling)
            ids = self.engine.prompts.encode(prompt)
            k, wanted = body.get("top_logprobs", 0), body.get("logprob_token_ids") or []
            as_ids = body.get("return_tokens_as_token_ids")
            entries = [
                {"token": f"token_id:{i}" if as_ids else token, "logprob": log_prob, "bytes": list(token.encode())}
                for i, token, log_prob in self._spelled(self._told(ids, k, wanted))
            ]
            content = {"content": [entries[0] | {"top_logprobs": entries if wanted else entries[: int(k)]}]}
            message = {"role": "assistant", "content": entries[0]["token"]}
            return self._reply("chat.completion", {"message": message, "logprobs": content}, "length", len(ids), 1)
        if choices := (body.get("structured_outputs") or {}).get("choice"):
            text = self._chosen(prompt, choices, seed)
        else:
            text = self._written(("write", sampling), (prompt, seed), lambda items: self._write(items, sampling))
        n_prompt = len(self.engine.prompts.encode(prompt))
        message = {"role": "assistant", "content": text.text}
        return self._reply("chat.completion", {"message": message}, text.finish_reason, n_prompt, text.n_tokens)

    def _complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        _check(body, _TEXT)
        given, sampling, seed = body.get("prompt"), _sampling(body), _seed(body)
        if isinstance(given, str):
            ids = list(self.engine.prompts.tokenizer(given, verbose=False)["input_ids"])
        elif isinstance(given, list) and given and all(type(i) is int and 0 <= i < self._n_ids for i in given):
            ids = given
        else:
            raise Refused(400, f"prompt: {given!r:.60}, expected a text or a list of token ids below {self._n_ids}")
        self.engine.prompts.check_room(len(ids), 1)
        if body.get("logprobs") is not None:
            _check_first_token(sampling)
            wanted = body.get("logprob_token_ids") or []
            told = self._told(ids, 0 if wanted else body["logprobs"], wanted)
            ((_, text, first),) = self._spelled(told[:1])
            if body.get("return_tokens_as_token_ids"):
                top = {f"token_id:{index}": log_prob for index, log_prob in told}
            else:
                top = {token: log_prob for _, token, log_prob in self._spelled(told)}
            logprobs = {"tokens": [next(iter(top))], "token_logprobs": [first], "top_logprobs": [top]}
            return self._reply("text_completion", {"text": text, "logprobs": logprobs}, "length", len(ids), 1)
        text = self._written(("continue",), ids, lambda items: [self._continue(ids, sampling, seed) for ids in items])
        return self._reply("text_completion", {"text": text.text}, text.finish_reason, len(ids), text.n_tokens)

    def _tokenize(self, body: Mapping[str, Any]) -> dict[str, Any]:
        text = body.get("prompt")
        if not isinstance(text, str):
            raise Refused(400, "prompt: expected a text")
        return {"tokens": self.engine.prompts.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]}

    def _reply(
        self, kind: str, choice: dict[str, Any], finish_reason: str, n_prompt: int, n_written: int
    ) -> dict[str, Any]:
        return {
            "object": kind,
            "created": int(time.time()),
            "model": self.engine.name,
            "choices": [{"index": 0, "finish_reason": finish_reason} | choice],
            "usage": {"prompt_tokens": n_prompt, "completion_tokens": n_written, "total_tokens": n_prompt + n_written},
        }

    # -------------------------------------------------------------------------------------------- asking the model

    @property
    def _n_ids(self) -> int:
        return int(self.engine.model.get_input_embeddings().num_embeddings)

    def _written(self, kind: tuple[Any, ...], item: Any, ask: Callable[[list[Any]], Sequence[Any]]) -> Generation:
        (text,) = self._model.ask(kind if kind[0] == "write" else (*kind, object()), [item], ask)
        if isinstance(text, Exception):
            raise text
        assert isinstance(text, Generation)
        return text

    def _write(self, items: list[tuple[Prompt, int]], sampling: Sampling) -> list[Generation | Exception]:
        return generate(self.engine, [prompt for prompt, _ in items], sampling, [seed for _, seed in items])

    def _chosen(self, prompt: Prompt, choices: list[str], seed: int) -> Generation:
        """One of the choices, drawn by the model's probabilities of them; vLLM draws token by token."""
        (found,) = self._model.ask(
            ("choose", object()), [prompt], lambda items: [label_log_probs(self.engine, items, choices)]
        )
        drawn = seeded_rng(seed, prompt.text).choice(len(choices), p=found.probs[0])
        return Generation(choices[drawn], "stop", 1)

    def _spelled(self, told: list[tuple[int, float]]) -> list[tuple[int, str, float]]:
        decode = self.engine.prompts.tokenizer.decode
        return [(index, decode([index]), log_prob) for index, log_prob in told]

    def _told(self, ids: list[int], k: Any, wanted: Any) -> list[tuple[int, float]]:
        """Tokens after ids, the most probable first: it, the k most probable ones, and the wanted ones."""
        n_ids = self._n_ids
        if type(k) is not int or not 0 <= k <= n_ids:
            raise Refused(400, f"{k!r} most probable tokens, expected a number from 0 to {n_ids}")
        if not isinstance(wanted, list) or not all(type(i) is int and 0 <= i < n_ids for i in wanted):
            raise Refused(400, f"logprob_token_ids: {wanted!r:.60}, expected a list of token ids below {n_ids}")
        if (key := tuple(ids)) not in self._read:  # asked for again by other routes, and with other biases
            (self._read[key],) = self._model.ask(("next", object()), [ids], lambda _: [self._next(ids)])
        log_probs = self._read[key]
        top = log_probs.topk(max(k, 1)).indices.tolist()
        order = [*top, *(index for index in dict.fromkeys(wanted) if index not in top)]
        return list(zip(order, log_probs[order].tolist(), strict=True))

    @torch.inference_mode()
    def _next(self, ids: list[int]) -> torch.Tensor:
        """Log-probabilities of the token after ids: one plain forward, which is what the engine is checked against."""
        model = self.engine.model
        logits = model(input_ids=torch.tensor([ids], device=model.device), use_cache=False).logits[0, -1]
        log_probs: torch.Tensor = logits.float().log_softmax(-1).cpu()
        return log_probs

    def _continue(self, ids: list[int], sampling: Sampling, seed: int) -> Generation | Exception:
        """Written as chats are: what the model's generation config prefers has no say."""
        ((_, (text,)),) = self.engine._written([np.array(ids, dtype=np.int32)], sampling, [seed])
        return text


# ------------------------------------------------------------------------------------------------- requests


def _check(body: Mapping[str, Any], known: set[str]) -> None:
    """raises : Refused, for a field that would change the answer and is not known here."""
    for name, value in body.items():
        if name not in known and (name not in _NEUTRAL or value not in (None, _NEUTRAL[name])):
            raise Refused(400, f"{name} is {value!r:.60}, which this server cannot do. Leave it out")


def _check_first_token(sampling: Sampling) -> None:
    if sampling.max_new_tokens != 1 or sampling.temperature != 0:
        raise Refused(400, "logprobs are told of the first token only. Set max_tokens 1 and temperature 0")


def _prompt(body: Mapping[str, Any]) -> Prompt:
    """One message of the user's, and maybe the beginning of the answer to go on with."""
    messages = body.get("messages")
    roles = [message.get("role") for message in messages] if isinstance(messages, list) else None
    begun = bool(body.get("continue_final_message"))
    if roles != (["user", "assistant"] if begun else ["user"]):
        raise Refused(400, f"messages: {roles}, expected one of the user's, then maybe one to continue")
    assert isinstance(messages, list)
    texts = [message.get("content") for message in messages]
    if not all(isinstance(text, str) for text in texts):
        raise Refused(400, "messages: expected their content to be text")
    if body.get("add_generation_prompt", not begun) == begun or body.get("chat_template_kwargs", _QUIET) != _QUIET:
        raise Refused(400, "the chat template is rendered with the header of the answer, and without thinking")
    return Prompt(*texts)


_QUIET = {"enable_thinking": False}


def _sampling(body: Mapping[str, Any]) -> Sampling:
    n_tokens = body.get("max_completion_tokens", body.get("max_tokens", 256))
    temperature, top_p, stop = body.get("temperature", 1.0), body.get("top_p", 1.0), body.get("stop") or ()
    try:
        return Sampling(n_tokens, temperature, top_p, stop=tuple([stop] if isinstance(stop, str) else stop))
    except (TypeError, ValueError) as error:
        raise Refused(400, str(error)) from None


def _seed(body: Mapping[str, Any]) -> int:
    seed = body.get("seed", 0)
    if type(seed) is not int:
        raise Refused(400, f"seed: {seed!r}, expected a whole number")
    return seed


class _Handler(BaseHTTPRequestHandler):
    served: ModelServer
    protocol_version = "HTTP/1.1"
    timeout = 60  # seconds, of a connection on which nothing comes

    def do_GET(self) -> None:
        self._answer(lambda: self.served.get(self.path.partition("?")[0]))

    def do_POST(self) -> None:
        self._answer(lambda: self.served.post(self.path.partition("?")[0], self._body()))

    def _body(self) -> dict[str, Any]:
        size = self.headers.get("Content-Length", "")
        if not size.isdigit() or int(size) > _MOST_BYTES:
            self.close_connection = True  # what it holds has not been read
            raise Refused(413, f"Content-Length {size!r}, expected at most {_MOST_BYTES} bytes")
        try:
            body = json.loads(self.rfile.read(int(size)))
        except ValueError as error:
            raise Refused(400, f"the request is not JSON: {error}") from None
        if not isinstance(body, dict):
            raise Refused(400, "the request is not a JSON object")
        return body

    def _answer(self, answer: Callable[[], dict[str, Any]]) -> None:
        try:
            self._send(200, answer())
        except Refused as error:
            self._refuse(error.status, error.kind, str(error))
        except LabelError as error:
            self._refuse(400, "LabelError", str(error))
        except EngineError as error:
            self._refuse(400, type(error).__name__, str(error))
        except (BrokenPipeError, ConnectionResetError):  # whoever asked has left
            self.close_connection = True
        except Exception as error:
            self._refuse(500, "InternalServerError", f"{type(error).__name__}: {error}")

    def _refuse(self, status: int, kind: str, message: str) -> None:
        self._send(status, {"error": {"message": message, "type": kind, "param": None, "code": status}})

    def _send(self, status: int, reply: dict[str, Any]) -> None:
        data = json.dumps(reply, allow_nan=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: prompts and addresses are nobody else's business."""


if __name__ == "__main__":
    server = ModelServer(open_engine(sys.argv[1]), sys.argv[1])
    print(server.url, flush=True)
    server.serve_forever()
