"""One OpenAI-compatible server: what it can do, and how it is asked. Routing, health and retries are pool.py's.

The first way of ROUTES (routes.py) that a server offers is taken, and the signature says which. Those behind token ids
need the model's tokenizer here, which is checked against the server's /tokenize; prompts are then the very tokens that
CausalEngine would run. Labels that were not reported are censored (steps.py). A server whose replies name another model
than was asked for is signed as that one; one that changes it later fails.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

from ...engine import Answer, Capabilities, Generation, Prompt, Question, Sampling
from ...errors import EngineError, InputError, LabelError, ServerError, SynthscoreWarning
from ...signature import Signature
from ..source import load_tokenizer
from ..tokens import PromptTokenizer, settle_template, warn_of_boundary
from ..words import LONG, SHORT
from .http import root_of
from .parameters import OF_LOG_PROBS, Parameters, named_parameters
from .routes import ROUTES, SOFTWARE, Route, Words, constraint, one_choice, whole
from .served import Served
from .steps import Known, NextToken, known_from_ids, known_from_text, next_tokens

METHODS = (*(route.name for route in ROUTES), Words.name)
TOP_K = (1000, 100, 20, 5)
"""How many of the most probable tokens are asked for: the first number that the server takes. The last of 1000 is never
above 0.001 and mostly below 1e-5; the whole vocabulary would tell little more, at fifty times the bytes."""

_ALIKE = 0.05  # nats: between two ways to ask the same of a server that others ask meanwhile
T = TypeVar("T")
_PROBE = Prompt("Is ice cold? Answer with one word: Yes or No.")
_LABELS = ("Yes", "No")
_IN_WORDS = Question(_PROBE, _LABELS, Sampling(max_new_tokens=SHORT, temperature=1.0, top_p=1.0))


class Server(Served):
    """A server that is up and has the model. Safe to use from several threads.

    url : up to and with "/v1". model : its name there; may be left out where the server has one only
    method : "auto", or one of METHODS; "words": it only writes, and no log-probabilities are looked for
    thinking : the chat template lets the model reason, where the server takes that from a request
    reasoning_effort : that is sent with each request; "": none, and "none" where the server wants it so
    top_k : how many tokens to ask for where they cannot be chosen; None: as TOP_K
    tokenizer : a folder or hub id; None: the one that the server names, where it can be loaded here
    date : as of loading.load, where the tokenizer is here; elsewhere the server's template prints what it does
    raises : ServerError when it is not to be reached; EngineError when it cannot be used
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        method: str = "auto",
        tokenizer: str | None = None,
        date: str | None = None,
        thinking: bool = False,
        reasoning_effort: str = "",
        top_k: int | None = None,
        timeout_s: float = 600.0,
    ) -> None:
        if method not in ("auto", *METHODS):
            raise EngineError(f"method is {method!r}, expected 'auto' or one of {', '.join(METHODS)}")
        super().__init__(url, model, timeout_s)
        self._sizes = TOP_K if top_k is None else (top_k,)
        self._judging = Parameters.asked_for(reasoning_effort)
        self._thinking = thinking
        self._reasons = thinking or reasoning_effort not in ("", "none")
        self.tokens: PromptTokenizer | None = None
        self._date, self._printed = date, ""
        if method == Words.name:
            self._route: Route = Words()
            self._learn_words()
        else:
            self._route = self._choose(method, tokenizer or None, str(self.entry.get("root") or self.model))
        self._writing = Parameters(self._judging.limit, self._judging.effort or None, self._judging.wanted)
        if self.tokens is None and self.owner not in SOFTWARE:
            self._learn_to_write()

    @property
    def signature(self) -> Signature:
        """The same for servers that are interchangeable: no address in it.

        effort, judging_without, writing_without : what is sent, or left out, because the server refuses the default
        constrained : in words, by which field of the request an answer is one of the labels; thinking : it is let think
        """
        server = self.server if self.owner in SOFTWARE else "unknown"
        how = f"server-{self.method}" + ("" if self._route.complete else f"{self.top_k}")
        in_words = {"constrained": self._constrains or "no"} if self.method == Words.name else {}
        chat = self.tokens.template_hash if self.tokens else "server"
        boundary = {"boundary": "separate"} if self.tokens and self.tokens.boundary == "separate" else {}
        asked = {
            "date": self._printed if self.tokens else "",
            **in_words,
            "thinking": "on" if self._thinking else "",
            "effort": self._judging.effort,
            "judging_without": self._judging.changes_texts,
            "writing_without": self._writing.changes_texts,
        }
        differs = {name: value for name, value in asked.items() if value}
        return Signature.of(**self.signed_model, backend=how, chat=chat, **boundary, **differs, server=server)

    @property
    def method(self) -> str:
        return self._route.name

    @property
    def capabilities(self) -> Capabilities:
        if self.method == Words.name:
            room = "it reasons before it answers" if self._reasons else "it answers at once"
            description = f"is asked in words, answers limited by {self._constrains or 'nothing'}; {room}"
            return Capabilities(judges=False, reasons=self._reasons, served=True, description=description)
        reports = f"reports the probability of chosen tokens, exactly (server-{self.method})"
        if not self._route.complete:
            reports = f"reports its {self.top_k} most probable tokens, so less probable labels have bounds"
            if self.top_k < TOP_K[0]:
                reports += "; vLLM, SGLang and llama.cpp would report more (docs/servers.md)"
        return Capabilities(reasons=self._reasons, served=True, tokenizer=self.tokens, description=reports)

    def check(self) -> None:
        """raises : ServerError, unless the server answers and has the model."""
        super().check()
        if "owned_by" not in self.entry:  # it lists no models
            if self.method == Words.name:
                self._say(_IN_WORDS)
            else:
                self._known(_PROBE, _LABELS)

    # -------------------------------------------------------------------------------------------- asking

    def together(self, questions: Sequence[Question]) -> list[list[int]]:
        """Which questions go in one request: each by itself."""
        return [[row] for row in range(len(questions))]

    def answer_all(self, questions: Sequence[Question]) -> list[Answer]:
        """Of questions that go together. raises : as `answer`"""
        return [self.answer(question) for question in questions]

    def answer(self, question: Question) -> Answer:
        """A text is drawn with its seed as the server sees fit: some promise to draw the same again, none to draw what
        another would.
        raises : ServerError, when the request failed; EngineError where this server cannot be asked so; LabelError
        """
        if question.sampling is not None:
            if question.labels:
                return self._say(question)
            return self._write(question.prompt, question.sampling, question.seed)
        if question.continuation is not None:
            raise EngineError(
                f"{self.model} on {self.url} cannot be asked how probable a given text is: not offered by servers. "
                "Take a model that runs here"
            )
        if self.method == Words.name:
            name = f"the model {self.model} on {self.url}"
            raise LabelError(f"{name} reports no log-probabilities. Ask it in words: --answers words")
        known, _ = self._known(question.prompt, question.labels)
        return known.answer(self.tokens.spell if self.tokens else str)

    def _known(self, prompt: Prompt, labels: Sequence[str]) -> tuple[Known, NextToken[Any]]:
        """What is known of labels, and the first step."""
        steps: list[NextToken[Any]] = []

        def post(body: Mapping[str, Any], read: Callable[[Mapping[str, Any]], T], /) -> T:
            reply = self._post(self._route, body)
            with self.http.reading(reply):
                return read(reply)

        def step(asked: Any, wanted: Sequence[Any]) -> NextToken[Any]:
            steps.append(self._route.ask(post, asked, wanted, self.top_k))
            return steps[-1]

        if self.tokens is not None:
            ids, forms = self.tokens.question(prompt, labels)
            if forms.boundary == "separate":
                warn_of_boundary(self.model, f"the labels {list(labels)}")
            known = known_from_ids(forms, lambda start: step([*ids, *start], next_tokens(forms, start)))
        else:
            spells = self.software.spells

            def behind(path: tuple[str, ...]) -> NextToken[str]:
                return step(self._chat(prompt, ""), path) if spells else step(self._chat(prompt, "".join(path)), ())

            known = known_from_text(labels, behind, can_continue=spells or self.software.goes_on is not None)
        return known, steps[0]

    def _post(self, route: Route, body: Mapping[str, Any]) -> dict[str, Any]:
        if route.at_root:
            return self.sent(f"{root_of(self.url)}{route.path}", body)
        if not route.by_ids:
            body = self._judging.sent({"max_tokens": 1, **body})
        return self.sent(route.path, {"model": self.model, **body})

    # -------------------------------------------------------------------------------------------- writing

    def _write(self, prompt: Prompt, sampling: Sampling, seed: int) -> Generation:
        """One text. raises : ServerError; EngineError for a prompt that this server cannot be given."""
        how: dict[str, Any] = {
            "model": self.model,
            "max_tokens": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": seed % 2**31,  # llama.cpp takes 32 bits
        }
        if sampling.stop:
            how["stop"] = list(sampling.stop)
        how |= self.software.writes
        if self.tokens is not None:
            ids = self.tokens.encode(prompt)
            self.tokens.check_room(len(ids), sampling.max_new_tokens)
            reply = self.sent("/completions", {"prompt": ids, **how})
        else:
            reply = self.sent("/chat/completions", self._writing.sent(self._chat(prompt, "") | how))
        text, reason, n_tokens = self._read_text(reply)
        ended = _ended(reason)
        if "stop" in self._writing.without and (ends := [text.find(end) for end in sampling.stop if end in text]):
            text, ended = text[: min(ends)], "stop"
        return Generation(text, ended, n_tokens)

    def _read_text(self, reply: Mapping[str, Any]) -> tuple[str, str, int]:
        """A text, why it ended, and its tokens. One that was all reasoning, or refused, may be none."""
        with self.http.reading(reply):
            choice = one_choice(reply)
            message = choice.get("message") or {"content": choice.get("text")}
            reason, n_tokens = choice["finish_reason"], whole(reply["usage"]["completion_tokens"])
            if message.get("refusal"):
                return str(message["refusal"]), "content_filter", n_tokens
            text = message["content"]
            if text is None and reason != "stop":
                text = ""
            if not isinstance(text, str):
                raise ValueError(f"the text is {text!r}")
        return text, reason, n_tokens

    def _say(self, question: Question) -> Generation:
        """One answer in words, as it was given; its label is read elsewhere. raises : as _write"""
        text, reason, n_tokens = self._read_text(self._said(question))
        return Generation(text, "refusal" if reason == "content_filter" else _ended(reason), n_tokens)

    def _said(self, question: Question) -> dict[str, Any]:
        """The reply to a question in words."""
        sampling = question.sampling or Sampling()
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": sampling.max_new_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": question.seed,
            **self.software.writes,
            **self._chat(question.prompt, ""),
        }
        if self._constrains:
            body |= constraint(self._constrains, question.labels)
        return self.sent("/chat/completions", self._judging.sent(body))

    @property
    def _constrains(self) -> str:
        """How answers in words are made one of the labels; "": not at all. Servers of open models would hold also what
        the model thinks to it."""
        name = self.software.constrains
        thinks = self._reasons and self.owner in SOFTWARE
        return "" if thinks or name in self._judging.without else name

    def _learn_words(self) -> None:
        """How the server is asked in words, by one question: which parameters it takes, and whether it reasons before
        it answers, which is switched off where that can be, unless the user asks for it. raises : ServerError"""
        probe = _IN_WORDS
        if self._reasons:
            probe = replace(probe, sampling=Sampling(max_new_tokens=LONG, temperature=1.0, top_p=1.0))
        while True:
            try:
                reply = self._said(probe)
            except ServerError as error:
                if self._judging.learn(error):
                    continue
                if error.status not in (400, 422, 500) or not self._constrains:
                    raise
                self._judging.without.add(self._constrains)  # refused in words that name nothing
                continue
            if self._reasons or not _reasoned(reply):
                return
            if self._judging.effort == "":
                self._judging.effort = "none"
            else:
                self._reasons = True

    def _learn_to_write(self) -> None:
        """Which parameters the server takes when it writes, found out by asking so. What else fails, fails its text."""
        while True:
            try:
                self._write(_PROBE, Sampling(max_new_tokens=16, stop=("\n\n",)), seed=0)
            except ServerError as error:
                if self._writing.learn(error):
                    continue
                if error.status == 429:  # nothing was learnt
                    raise
            except EngineError:
                pass
            return

    def _chat(self, prompt: Prompt, start: str) -> dict[str, Any]:
        """The messages that make the server's chat template end where the rest of the answer begins."""
        messages = [{"role": "user", "content": prompt.text}]
        chat: dict[str, Any] = {"messages": messages, **self.software.chat}
        if self._thinking and self.software.chat:
            chat["chat_template_kwargs"] = {"enable_thinking": True}
        if begun := prompt.prefill + start:
            if self.software.goes_on is None:
                raise EngineError(f"{self.model}: this server cannot go on with an answer that begins with {begun!r}")
            messages.append({"role": "assistant", "content": begun})
            chat |= self.software.goes_on
        return chat

    # -------------------------------------------------------------------------------------------- what it can do

    def _choose(self, wanted: str, tokenizer: str | None, root: str) -> Route:
        """The best of what the server turns out to offer. raises : EngineError, with what each lacked."""
        lacks: dict[str, str] = {}
        tried = [route() for route in ROUTES if wanted in ("auto", route.name)]
        named = bool(tokenizer) or wanted != "auto"
        if tokenizer and self.software.spells:
            raise EngineError(
                f"the server {self.url} ({self.owner}) takes text alone, no token ids. Leave the tokenizer out"
            )
        if tried[0].by_ids and (named or self.software.names_tokenizer):
            try:
                self.tokens = self._load_tokenizer(tokenizer or root)
            except EngineError as error:
                if named or (isinstance(error, ServerError) and self._is_gone()):
                    raise
                warnings.warn(f"{error} Until then only its most probable tokens", SynthscoreWarning, stacklevel=4)
        for route in tried:
            if not route.by_ids:
                self.tokens = None
            elif self.tokens is None:
                continue
            if not (lack := self._lack(route)):
                if self._date and self.tokens is None:
                    raise EngineError(
                        f"the server {self.url} puts its own chat template around questions, in which no date can be "
                        "set. Name the model's tokenizer, or leave the date out"
                    )
                return route
            lacks[route.name] = lack
        raise EngineError(
            f"cannot ask the server {self.url} about {self.model}: "
            + "; ".join(f"{method}: {lack}" for method, lack in lacks.items())
            + ". A judge needs log-probabilities from /v1/completions or /v1/chat/completions: ask this one in words "
            "(--answers words), or take another (docs/servers.md)"
        )

    def _lack(self, route: Route) -> str:
        """What the server lacks for a way to ask, found out by asking so; "" if nothing."""
        self._route, sizes = route, list(self._sizes)
        while True:
            self.top_k = sizes[0]
            try:
                _, first = self._known(_PROBE, _LABELS)
            except ServerError as error:
                named = named_parameters(error)
                # 500: how some refuse what they did not expect
                smaller = error.status in (400, 422, 500) and len(sizes) > 1 and not route.complete
                if smaller and (not named or named & OF_LOG_PROBS):
                    del sizes[0]
                elif not route.by_ids and self._judging.learn(error):
                    sizes = list(self._sizes)
                elif smaller:
                    del sizes[0]
                elif error.retryable and (error.status is not None or self._is_gone()):
                    raise
                elif not route.by_ids and named & OF_LOG_PROBS:
                    words = f" ({error})" if error.status else ""
                    return f'it reports no log-probabilities, even with the reasoning effort "none"{words}'
                else:
                    return str(error)
            except EngineError as error:
                return str(error)
            else:
                if route.complete or len(sizes) == 1 or len(first.reported) > self.top_k / 2:
                    return self._doubt(route.checked_by()) if route.checked_by else ""
                del sizes[0]  # it reports fewer than it was asked for

    def _is_gone(self) -> bool:
        """Whether nobody answers any more, so that what failed says nothing about a way to ask."""
        try:
            super().check()
        except ServerError as error:
            return error.status is None
        return False

    def _doubt(self, other: Route) -> str:
        """How what it tells differs from what another way tells, both of a warm cache; "" if it does not."""
        mine, lack = self._route, self._lack(other)
        truth = None if lack else self._known(_PROBE, _LABELS)[0]
        self._route = mine
        known = self._known(_PROBE, _LABELS)[0]
        if not truth or ((known.least <= truth.most + _ALIKE) & (truth.least <= known.most + _ALIKE)).all():
            return lack
        return f"its log-probabilities {known.most.round(3)} are not those of {other.name}, {truth.most.round(3)}"

    def _load_tokenizer(self, name: str) -> PromptTokenizer:
        """The tokenizer, once the server's own agrees with it."""
        longest = self.entry.get("max_model_len")
        longest = longest if isinstance(longest, int) else 1_000_000
        try:
            tokenizer = load_tokenizer(name)
            self._printed = settle_template(tokenizer, self._date)
            tokens = PromptTokenizer(tokenizer, longest)
        except InputError:
            raise
        except Exception as error:  # transformers raises whatever it likes
            raise EngineError(
                f"the tokenizer {name!r} of the server {self.url} cannot be loaded here ({str(error)[:200]}). "
                "Name it with the option tokenizer, a folder or hub id, so that chosen tokens can be asked for."
            ) from error
        text = tokens.render(_PROBE)
        here = tokens.tokenizer(text, add_special_tokens=False)["input_ids"]
        asked = {"model": self.model, "prompt": text, "content": text, "add_special_tokens": False}
        reply = self.http.post(f"{root_of(self.url)}/tokenize", asked)
        with self.http.reading(reply):
            there = [whole(token) for token in reply["tokens"]]
        if here != there:
            raise EngineError(
                f"the tokenizer {name!r} is not that of {self.model} on {self.url}: it makes {here[:8]} ... of a text "
                f"of which the server makes {there[:8]} ... . Name the right one"
            )
        return tokens


def _ended(reason: str) -> Literal["stop", "length"]:
    """raises : EngineError for any other reason"""
    ends: dict[str, Literal["stop", "length"]] = {"stop": "stop", "length": "length"}
    if reason not in ends:
        raise EngineError(f"a text ended with {reason!r}, expected 'stop' or 'length'")
    return ends[reason]


def _reasoned(reply: Mapping[str, Any]) -> bool:
    """Whether a reply shows that the model reasoned before it answered, in whatever field servers show that."""
    choice = (reply.get("choices") or [{}])[0]
    message = choice.get("message") or {}
    usage = reply.get("usage") or {}
    n_tokens = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
    content = message.get("content") or ""
    cut = choice.get("finish_reason") == "length" and (not content or "<think>" in content)
    return bool(n_tokens or message.get("reasoning") or message.get("reasoning_content") or cut)
