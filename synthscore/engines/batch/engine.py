"""A model that is asked through files alone: "batch:NAME", its name as the service knows it. Nothing need be reachable.

Behind a store it is asked only what that lacks. With a QuestionFile it writes that down, and each question is
Postponed; without, each fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from ...engine import Answer, Answers, Capabilities, Progress, Question
from ...errors import EngineError, Postponed, unusable
from ...signature import Signature
from ..source import load_tokenizer
from ..tokens import PromptTokenizer, settle_template
from .manifest import Asked
from .wires import FILE_FORMS, Body, Request
from .write import QuestionFile

_MOST_TOKENS = 1_000_000  # in a prompt: how many the service takes is not known here


class BatchEngine:
    """model : as the service knows it. wire : the form of the files, one of FILE_FORMS
    tokenizer : the model's, folder or hub id, for exact probabilities of labels; its chat template is the service's
    date : as of loading.load. thinking : let its chat template have it think; reasoning_effort : as the service has it
    questions : where they are written to; None: they fail
    download : whether a tokenizer that is not on this machine is downloaded: not where a file named it
    """

    def __init__(
        self,
        model: str,
        *,
        wire: str = "openai",
        tokenizer: str | None = None,
        date: str | None = None,
        thinking: bool = False,
        reasoning_effort: str | None = None,
        questions: QuestionFile | None = None,
        download: bool = True,
        **others: Any,
    ) -> None:
        if others:
            what = ", ".join(f"{name} {value}" for name, value in others.items())
            raise EngineError(f"cannot open batch:{model} with {what}: it is asked through files. Leave that out")
        if not model:
            raise EngineError("batch: names no model, expected batch:NAME, as the service knows it. Name it")
        if wire not in FILE_FORMS:
            raise unusable("questions_format", wire, f"one of {', '.join(FILE_FORMS)}", "Name one")
        self.wire = FILE_FORMS[wire]
        for name, value in (("thinking", thinking), ("effort", reasoning_effort)):
            if value and name not in self.wire.takes:
                raise EngineError(f"questions for {wire} cannot say {name} {value}. Leave it out, or take another form")
        self.tokens: PromptTokenizer | None = None
        self.tokenizer = tokenizer or ""
        self.questions = questions
        template: dict[str, str] = {}
        if tokenizer:
            if not self.wire.exact:
                raise EngineError(
                    f"a tokenizer does nothing with questions for {wire}, which cannot ask for chosen tokens. Leave it "
                    "out, or write questions for vllm"
                )
            self.tokens, template = _load_tokenizer(tokenizer, date, download=download)
        elif date:
            raise EngineError(f"the date {date} does nothing without the model's tokenizer. Name that, or leave it out")
        signed: dict[str, str] = {"backend": "batch-ids" if self.tokens else "batch-words", "wire": wire}
        if self.tokens:
            signed["chat"] = self.tokens.template_hash
            signed |= {"boundary": "separate"} if self.tokens.boundary == "separate" else {}
            signed |= template
        self.how = Request(model, self.tokens, template, thinking, reasoning_effort or "")
        signed |= {"thinking": "on"} if thinking else {}
        signed |= {"effort": self.how.effort} if self.how.effort else {}
        self.signature: Signature = Signature.of(model=model, **signed)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(
            judges=self.tokens is not None,
            reasons=self.how.thinking or (self.wire.name != "vllm" and self.how.effort != "none"),
            served=True,
            tokenizer=self.tokens,
            description=f"asked through files alone, which {self.wire.name} reads (docs/batches.md)",
        )

    @property
    def asked(self) -> Asked:
        """As manifests have it."""
        return Asked(str(self.signature), self.how.model, self.wire.name, self.tokenizer)

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        """Postponed, once they are written down; an EngineError where there is no file for them, or no way to ask."""
        rows: list[Answer] = []
        written: dict[bytes, tuple[Question, list[Body]]] = {}
        signature = str(self.signature)
        for question in questions:
            try:
                if self.questions is None:
                    raise EngineError(
                        f"batch:{self.how.model} is asked through files alone, and this question has no answer in the "
                        "store. Write it to one with --questions-to FILE"
                    )
                bodies = self.wire.requests(question, self.how)
            except EngineError as error:
                rows.append(error)
                continue
            written[question.key(signature)] = question, bodies
            rows.append(Postponed())
        if self.questions is not None and written:
            self.questions.add(self.asked, written)
        if progress:
            progress(len(questions))
        return Answers(rows)


def _load_tokenizer(name: str, date: str | None, *, download: bool) -> tuple[PromptTokenizer, dict[str, str]]:
    """The tokenizer, and what the service's chat template is given, so that it prints the same day."""
    try:
        tokenizer = load_tokenizer(name, download=download)
    except Exception as error:  # transformers raises whatever it likes
        raise EngineError(
            f"the tokenizer {name!r} cannot be loaded ({str(error)[:200]}). Name a folder or hub id: --tokenizer"
        ) from error
    plain = tokenizer.apply_chat_template
    if printed := settle_template(tokenizer, date):
        day = datetime.strptime(printed, "%Y-%m-%d").strftime("%d %b %Y")
        turns: Any = [{"role": "user", "content": "a"}]
        how = {"tokenize": False, "add_generation_prompt": True, "enable_thinking": False}
        if plain(turns, date_string=day, **how) != tokenizer.apply_chat_template(turns, **how):
            raise EngineError(
                f"the chat template of {name!r} prints the day on which it is used, and takes no other from a "
                "request. Ask this model live, or with --answers words and no tokenizer"
            )
        return PromptTokenizer(tokenizer, _MOST_TOKENS), {"date_string": day}
    return PromptTokenizer(tokenizer, _MOST_TOKENS), {}
