"""One OpenAI-compatible server: what it can do, and how it is asked. Routing, health and retries are pool.py's.

A server tells what it can; the first of these that it does is taken, and the signature says which:

- ids (vLLM): log-probabilities of chosen tokens behind a prompt of token ids, `logprob_token_ids` of /v1/completions.
  https://github.com/vllm-project/vllm/pull/43463
- generate (SGLang): the same by `token_ids_logprob` of its /generate. Not /v1/score, which joins query and item with a
  delimiter token under --enable-mis, and gives a probability of 0 to a token that it did not find.
- topk: the k most probable tokens, by id, behind a prompt of token ids (older vLLM; llama.cpp).
- chat, text: the k most probable tokens as text, behind a message in the server's own chat template, or behind a text.

`ids`, `generate` and `topk` need the model's tokenizer here, which is checked against the server's /tokenize; prompts
are then the very tokens that CausalEngine would run. In `topk`, `chat` and `text`, labels that were not told are
censored (steps.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ...engine import Answer, Generation, LabelAnswer, OtherToken, Prompt, Question, Sampling
from ...errors import EngineError, LabelError, ServerError, SynthscoreWarning
from ...signature import Signature
from ...types import FloatArray
from ..tokens import Boundary, Ids, PromptTokenizer
from .http import Http, number, root_of, whole
from .replies import Used, chosen_step, first_token, log_probs_of, token_id
from .steps import Step, known_from_ids, known_from_text, next_tokens

Method = Literal["ids", "generate", "topk", "chat", "text"]
METHODS: tuple[Method, ...] = ("ids", "generate", "topk", "chat", "text")
_CONTINUES = {"vllm", "sglang", "llamacpp"}  # go on with an answer that the request began
_PROBE = Prompt("Is ice cold? Answer with one word: Yes or No.")


class Told(NamedTuple):
    """An answer; and of one about labels, as far as the server says: tokens of the prompt, and tokens run over."""

    answer: Answer
    n_tokens: int = 0
    n_computed: int = 0


class Server:
    """A server that is up and has the model. Safe to use from several threads.

    url : up to and with "/v1". model : its name there; may be left out where the server has one only
    method : "auto", or one of METHODS. top_k : how many tokens to ask for where they cannot be chosen
    tokenizer : a folder or hub id; None: the one that the server names, where it can be loaded here
    raises : ServerError when it is not to be reached; EngineError when it cannot be used
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        method: Method | Literal["auto"] = "auto",
        tokenizer: str | None = None,
        top_k: int = 20,
        timeout_s: float = 600.0,
    ) -> None:
        if method not in ("auto", *METHODS):
            raise EngineError(f"method is {method!r}, expected 'auto' or one of {', '.join(METHODS)}")
        self.url = url.rstrip("/")
        self._http = Http(self.url, timeout_s)
        entry = self._find_model(model)
        self.model = str(entry["id"])
        owner = str(entry.get("owned_by", ""))
        self.kind = owner if owner in _CONTINUES else "unknown"
        self.version = self._version()
        self.top_k, self._limit = top_k, "max_tokens"
        max_length = entry.get("max_model_len")
        self._max_length = max_length if isinstance(max_length, int) else 1_000_000
        self.tokens: PromptTokenizer | None = None
        self.method: Method = self._choose(method, tokenizer or None, str(entry.get("root") or self.model))

    @property
    def signature(self) -> Signature:
        """The same for servers that are interchangeable: no address in it."""
        software = f"{self.kind}/{self.version}" if self.version else self.kind
        how = f"server-{self.method}" + ("" if self.method in ("ids", "generate") else f"{self.top_k}")
        chat = self.tokens.template_hash if self.tokens else "none" if self.method == "text" else "server"
        boundary = {"boundary": "separate"} if self.tokens and self.tokens.boundary == "separate" else {}
        return Signature.of(model=self.model, backend=how, chat=chat, **boundary, server=software)

    @property
    def can_continue(self) -> bool:
        """Whether an answer can begin with a given text (Prompt.prefill)."""
        return self.tokens is not None or self.method == "text" or self.kind in _CONTINUES

    def check(self) -> None:
        """raises : ServerError, unless the server answers and has the model."""
        self._find_model(self.model)

    # -------------------------------------------------------------------------------------------- asking

    def answer(self, question: Question) -> Told:
        """A text is drawn with its seed as the server sees fit: some promise to draw the same again, none to draw what
        another would.
        raises : ServerError, when the request failed; EngineError where this server cannot be asked so; LabelError
        """
        used = Used()
        if question.sampling is not None:
            answer: Answer = self._write(question.prompt, question.sampling, question.seed)
        elif question.continuation is not None:
            answer = self._read(question.prompt, question.continuation)
        else:
            answer = self._ask(question.prompt, question.labels, used)
        return Told(answer, used.first, used.computed)

    def _ask(self, prompt: Prompt, labels: Sequence[str], used: Used) -> LabelAnswer:
        if self.tokens is None:
            known = known_from_text(
                labels, lambda start: self._text_step(prompt, start, used), can_continue=self.can_continue
            )
        else:
            ids = tuple(self.tokens.encode(prompt))
            forms = self.tokens.label_forms(prompt, labels, ids)
            self.tokens.check_room(len(ids), forms.n_longest)
            self._warn_of_boundary(forms.boundary, f"the labels {list(labels)}")
            known = known_from_ids(forms, lambda start: self._ids_step(ids + start, next_tokens(forms, start), used))
        other = None
        if known.other is not None:
            token, log_prob = known.other
            other = OtherToken(token if isinstance(token, str) else self._spelled(token), log_prob)
        censored = known.least < known.most
        if not censored.any():
            return LabelAnswer(known.most.tolist(), other)
        return LabelAnswer(known.most.tolist(), other, censored.tolist(), known.least.tolist())

    def _ids_step(self, ids: Ids, wanted: Sequence[int], used: Used) -> Step[int]:
        """What is told of the token after ids. wanted : the tokens that matter."""
        if self.method == "generate":
            body = {
                "input_ids": list(ids),
                # At temperature 0 SGLang's log-probabilities are those of the model itself.
                "sampling_params": {"max_new_tokens": 1, "temperature": 0},
                "return_logprob": True,
                "top_logprobs_num": 1,
                "token_ids_logprob": list(wanted),
            }
            reply = self._http.post(f"{root_of(self.url)}/generate", body)
            with self._http.reading(reply):
                meta = reply["meta_info"]
                used.add(meta["prompt_tokens"], meta.get("cached_tokens"))
                triples = [*meta["output_top_logprobs"][0], *meta["output_token_ids_logprobs"][0]]
                told = {whole(token): number(log_prob) for log_prob, token, *_ in triples}
                return chosen_step(told, wanted)
        asked = {"model": self.model, "prompt": list(ids), "max_tokens": 1, "temperature": 0, "logprobs": self.top_k}
        if self.kind in ("vllm", "unknown"):
            asked |= {"return_tokens_as_token_ids": True}
        if self.method == "ids":
            asked |= {"logprobs": 1, "logprob_token_ids": list(wanted)}
        reply = self._http.post("/completions", asked)
        with self._http.reading(reply):
            entries = [(token_id(token), log_prob) for token, log_prob in first_token(reply, used, "id")]
            return chosen_step(dict(entries), wanted) if self.method == "ids" else Step.of_top(entries, self.top_k)

    def _read(self, prompt: Prompt, text: str) -> FloatArray:
        """By `echo` of /v1/completions, which tells the tokens of the prompt, too (vLLM)."""
        if self.tokens is None or self.method == "generate":
            raise self._no_reading()
        start, added, boundary = self.tokens.continuation(prompt, text)
        self._warn_of_boundary(boundary, "a continuation")
        ids = [*start, *added]
        asked = {"model": self.model, "prompt": ids, "max_tokens": 1, "temperature": 0, "logprobs": 1, "echo": True}
        reply = self._http.post("/completions", asked | {"return_tokens_as_token_ids": True})
        with self._http.reading(reply):
            (choice,) = reply["choices"]
            tokens, log_probs = choice["logprobs"]["tokens"], choice["logprobs"]["token_logprobs"]
            if len(tokens) < len(ids):
                raise self._no_reading()
            if [token_id(token) for token in tokens[: len(ids)]] != ids:
                raise ValueError("log-probabilities of other tokens than were asked for")
            # vLLM writes -9999 for what is impossible, because JSON has no infinity
            return log_probs_of([None if v == -9999 else v for v in log_probs[len(start) : len(ids)]])

    def _no_reading(self) -> EngineError:
        return EngineError(
            f"{self.model} cannot be asked how probable a given text is: not offered by this server, {self.url}, as "
            f"it is asked ({self.method}). Take vLLM with the model's tokenizer, or a model "
            "that runs here"
        )

    def _warn_of_boundary(self, boundary: Boundary, what: str) -> None:
        if boundary == "separate":
            warnings.warn(
                f"{self.model}: the tokenizer merges {what} with the end of a prompt, so they are tokenised by "
                "themselves",
                SynthscoreWarning,
                stacklevel=3,
            )

    def _text_step(self, prompt: Prompt, start: str, used: Used) -> Step[str]:
        """What is told of the token after an answer that begins with start."""
        if self.method == "text":
            body = {"prompt": prompt.text + prompt.prefill + start, "logprobs": self.top_k}
            reply = self._http.post("/completions", self._body(max_tokens=1, temperature=0, **body))
        else:
            body = self._chat(prompt, start) | {"logprobs": True, "top_logprobs": self.top_k}
            reply = self._http.post("/chat/completions", self._body(max_tokens=1, temperature=0, **body))
        with self._http.reading(reply):
            entries = [(str(token), log_prob) for token, log_prob in first_token(reply, used, "token")]
            return Step.of_top(entries, self.top_k)

    # -------------------------------------------------------------------------------------------- writing

    def _write(self, prompt: Prompt, sampling: Sampling, seed: int) -> Generation:
        """One text. raises : ServerError; EngineError for a prompt that this server cannot be given."""
        how: dict[str, Any] = {
            "max_tokens": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": seed % 2**31,  # llama.cpp takes 32 bits
        }
        if sampling.stop:
            how["stop"] = list(sampling.stop)
        if self.kind in ("vllm", "sglang"):  # or the model's generation_config.json would have its say
            how |= {"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0}
        if self.tokens is not None:
            ids = self.tokens.encode(prompt)
            self.tokens.check_room(len(ids), sampling.max_new_tokens)
            reply = self._http.post("/completions", self._body(prompt=ids, **how))
        elif self.method == "text":
            reply = self._http.post("/completions", self._body(prompt=prompt.text + prompt.prefill, **how))
        else:
            reply = self._http.post("/chat/completions", self._body(**self._chat(prompt, ""), **how))
        with self._http.reading(reply):
            (choice,) = reply["choices"]
            text = choice["message"]["content"] if "message" in choice else choice["text"]
            if not isinstance(text, str):
                raise ValueError(f"the text is {text!r}")
            reason, n_tokens = choice["finish_reason"], whole(reply["usage"]["completion_tokens"])
        if reason not in ("stop", "length"):
            raise EngineError(f"{self.model} ended its text with {reason!r}, expected 'stop' or 'length'")
        return Generation(text, reason, n_tokens)

    def _chat(self, prompt: Prompt, start: str) -> dict[str, Any]:
        """The messages that make the server's chat template end where the rest of the answer begins."""
        messages = [{"role": "user", "content": prompt.text}]
        chat: dict[str, Any] = {"messages": messages}
        if self.kind in ("vllm", "sglang"):
            chat["chat_template_kwargs"] = {"enable_thinking": False}
        if begun := prompt.prefill + start:
            if not self.can_continue:
                raise EngineError(f"{self.model}: this server cannot go on with an answer that begins with {begun!r}")
            messages.append({"role": "assistant", "content": begun})
            if self.kind != "llamacpp":  # which takes a last message of the model's as a beginning anyway
                chat |= {"add_generation_prompt": False, "continue_final_message": True}
        return chat

    def _body(self, *, max_tokens: int, **rest: Any) -> dict[str, Any]:
        return {"model": self.model, self._limit: max_tokens, **rest}

    # -------------------------------------------------------------------------------------------- what it can do

    def _find_model(self, wanted: str | None) -> Mapping[str, Any]:
        reply = self._http.get("/models")
        with self._http.reading(reply):
            entries = {str(entry["id"]): entry for entry in reply["data"]}
        if wanted is None and len(entries) == 1:
            return dict(next(iter(entries.values())))
        if wanted is None or wanted not in entries:
            names = ", ".join(list(entries)[:10]) + (", ..." if len(entries) > 10 else "")
            what = "several models" if wanted is None else f"no model {wanted!r}"
            raise ServerError(
                f"the server {self.url} has {what if entries else 'no models'}; it has: {names or 'none'}. "
                f"Name one of them: {self.url}#MODEL",
                fatal=True,
                model=wanted,
            )
        return dict(entries[wanted])

    def _version(self) -> str:
        """The server software's version, as far as it tells; "" if it does not."""
        place = {"vllm": "/version", "sglang": "/get_server_info", "llamacpp": "/props"}.get(self.kind)
        if place is None:
            return ""
        try:
            reply = self._http.get(root_of(self.url) + place)
        except ServerError:
            return ""
        return str(reply.get("version") or reply.get("build_info") or "")

    def _choose(self, wanted: Method | Literal["auto"], tokenizer: str | None, root: str) -> Method:
        """The best of what the server turns out to offer. raises : EngineError, with what each lacked."""
        lacks: dict[str, str] = {}
        if wanted in ("auto", "ids", "generate", "topk"):
            try:
                if tokenizer or wanted != "auto" or self.kind in ("vllm", "sglang"):
                    self.tokens = self._load_tokenizer(tokenizer or root)
            except EngineError as error:
                if tokenizer or wanted != "auto":
                    raise
                warnings.warn(f"{error} Until then only its most probable tokens", SynthscoreWarning, stacklevel=4)
        tried = METHODS if wanted == "auto" else (wanted,)
        for method in tried:
            if method in ("chat", "text"):
                self.tokens = None
            elif self.tokens is None:
                continue
            if lack := self._lack(method):
                lacks[method] = lack
                continue
            return method
        raise EngineError(
            f"cannot ask the server {self.url} about {self.model}: "
            + "; ".join(f"{method}: {lack}" for method, lack in lacks.items())
            + ". Expected log-probabilities from /v1/completions or /v1/chat/completions (docs/servers.md)"
        )

    def _lack(self, method: Method) -> str:
        """What the server lacks for a method, found out by asking so; "" if nothing."""
        self.method = method
        for _ in range(3):
            try:
                self.answer(Question(_PROBE, ("Yes", "No")))
            except LabelError:
                raise
            except ServerError as error:
                if error.status == 400 and "max_completion_tokens" in str(error) and self._limit == "max_tokens":
                    self._limit = "max_completion_tokens"  # OpenAI's newer models; others know max_tokens only
                elif error.status == 400 and self.top_k > 5 and method in ("topk", "chat", "text"):
                    self.top_k = 5  # the most that OpenAI's /v1/completions gives
                elif error.retryable and error.status is not None:
                    raise
                else:
                    return str(error)
            except EngineError as error:
                return str(error)
            else:
                return ""
        return "refused every form of the request"

    def _load_tokenizer(self, name: str) -> PromptTokenizer:
        """The tokenizer, once the server's own agrees with it."""
        from transformers import AutoTokenizer

        try:
            tokens = PromptTokenizer(AutoTokenizer.from_pretrained(name), self._max_length)
        except Exception as error:  # transformers raises whatever it likes
            raise EngineError(
                f"the tokenizer {name!r} of the server {self.url} cannot be loaded here ({str(error)[:200]}). "
                "Name it with the option tokenizer, a folder or hub id, so that chosen tokens can be asked for."
            ) from error
        text = tokens.render(_PROBE)
        here = tokens.tokenizer(text, add_special_tokens=False)["input_ids"]
        asked = {"model": self.model, "prompt": text, "content": text, "add_special_tokens": False}
        reply = self._http.post(f"{root_of(self.url)}/tokenize", asked)
        with self._http.reading(reply):
            there = [whole(token) for token in reply["tokens"]]
        if here != there:
            raise EngineError(
                f"the tokenizer {name!r} is not that of {self.model} on {self.url}: it makes {here[:8]} ... of a text "
                f"of which the server makes {there[:8]} ... . Name the right one"
            )
        return tokens

    def _spelled(self, token: int) -> str:
        assert self.tokens is not None
        return str(self.tokens.tokenizer.decode([token]))
