"""What a model is asked, what it answers, and the contract of an engine: whole prompts in, exact numbers out, in the
order given.

Callers pass as many prompts as they like, in any order; sharing, batching and memory are the engine's business.
A row that cannot be answered fails alone, with a reason; the others are answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from .errors import EngineError, InputError, unusable
from .signature import Signature, text_hash
from .types import BoolArray, FloatArray

Kind = Literal["labels", "text", "tokens"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the user says to the model, and how the answer starts. Plain text throughout: special tokens come from
    the model's chat template alone, so a string in a judged text that looks like one stays plain text.

    n_shared : characters at its beginning that come before the texts that are judged: instructions and context, with
        which other prompts begin too; 0: not known
    """

    text: str
    prefill: str = ""
    n_shared: int = 0

    @property
    def divided(self) -> tuple[str, str]:
        """What decision models are given: a state, and a question's instructions. A prompt of which it is not known
        where its texts begin is a state."""
        text, n = self.text, self.n_shared
        return (text[:n].strip(), text[n:].strip()) if n else (text, "Choose the answer.")


@dataclass(frozen=True, slots=True)
class OtherToken:
    """The most probable token that no label starts with: what the model would rather answer."""

    token: str
    log_prob: float


@dataclass(frozen=True, slots=True, eq=False)
class LabelLogProbs:
    """How probable each label is as the answer to each prompt, over the model's full vocabulary.

    labels : label words, in column order
    log_probs : float64, shape (n_prompts, n_labels), nats; not normalised over the labels
        log P(label | prompt), the whole label, summed over its surface forms. NaN in rows that failed.
    other_tokens : per prompt, or None for a row that failed
    failures : row index -> reason, for rows that could not be asked
    tokens_naive, tokens_computed : tokens in all prompts, and tokens that the model really ran over
    censored : bool, shape of log_probs, or None where nothing is; True: a server did not report this label, and
        log_probs holds the most that it can be
    floors : float64, shape of log_probs, or None; the least that a censored label can be, -inf (and None): not known
    mass_reported : False where log_probs are normalised over the labels, because a judge that chooses among given
        options does not report what else it would say
    """

    labels: tuple[str, ...]
    log_probs: FloatArray
    other_tokens: tuple[OtherToken | None, ...] = ()
    failures: Mapping[int, str] = field(default_factory=dict)
    tokens_naive: int = 0
    tokens_computed: int = 0
    censored: BoolArray | None = None
    floors: FloatArray | None = None
    mass_reported: bool = True

    def __post_init__(self) -> None:
        rows = np.flatnonzero(np.isnan(self.log_probs).any(axis=1))
        if set(rows.tolist()) != set(self.failures):
            raise ValueError(f"rows {rows.tolist()} are NaN but failures name rows {sorted(self.failures)}")
        if (self.log_probs > 1e-4).any():
            raise ValueError(f"a log-probability is {np.nanmax(self.log_probs)}, expected at most 0")

    def __len__(self) -> int:
        return len(self.log_probs)

    @property
    def label_mass(self) -> FloatArray:
        """Probability that the answer is any of the labels, shape (n_prompts,). Near 0: wrong template or labels.

        With what is censored at its floor: the least that it can be. NaN where it is not reported, or a row failed.
        """
        mass: FloatArray = (np.exp(self.log_probs) - self._open).sum(axis=1)
        return mass if self.mass_reported else np.full_like(mass, np.nan)

    @property
    def probs(self) -> FloatArray:
        """Probabilities renormalised over the labels, shape (n_prompts, n_labels). NaN where all are impossible.

        What is censored counts as the most that it can be; `unreported` says how much that matters.
        """
        top = self.log_probs.max(axis=1, keepdims=True)
        weights = np.exp(self.log_probs - np.where(np.isneginf(top), np.nan, top))
        probs: FloatArray = weights / weights.sum(axis=1, keepdims=True)
        return probs

    @property
    def unreported(self) -> FloatArray:
        """The most by which any of `probs` can be off for what is censored, shape (n_prompts,); 0 where nothing is.

            sum_l (most_l - least_l) / sum_l most_l

        The difference of two of `probs` can be off by twice this. NaN where a row failed or all labels are impossible.
        """
        most = np.exp(self.log_probs).sum(axis=1)
        unreported: FloatArray = self._open.sum(axis=1) / np.where(most == 0, np.nan, most)
        return unreported

    @property
    def _open(self) -> FloatArray:
        """How much of each label's probability was not reported, shape of log_probs; NaN in rows that failed."""
        most = np.exp(self.log_probs)
        if self.censored is None:
            return np.zeros_like(most) * most
        least = 0.0 if self.floors is None else np.exp(self.floors)
        return np.where(self.censored, most - least, 0.0 * most)


@dataclass(frozen=True, slots=True)
class Generation:
    """One text that a model wrote. finish_reason: "stop" (it ended by itself) or "length" (it was cut)."""

    text: str
    finish_reason: Literal["stop", "length"]
    n_tokens: int


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to decode. temperature 0 is greedy. Each row has its own seed, so that rows do not depend on each other.

    stop : a text ends before the first of these strings, if it comes to that
    """

    max_new_tokens: int = 256
    temperature: float = 0.7
    top_p: float = 0.9
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.max_new_tokens < 1 or self.temperature < 0 or not 0 < self.top_p <= 1 or "" in self.stop:
            raise InputError(
                f"cannot write so: {self}, expected max_new_tokens >= 1, temperature >= 0, 0 < top_p <= 1, and stop "
                "strings that are not empty. Change what is not",
                field="sampling",
            )


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked: a prompt, and which labels to judge, or how to write and from which seed, or what to read.

    ordered : the labels are texts that describe levels, worst first, to a model that decides (Capabilities.decides)
    """

    prompt: Prompt
    labels: tuple[str, ...] = ()
    sampling: Sampling | None = None
    seed: int = 0
    continuation: str | None = None
    ordered: bool = False

    @property
    def kind(self) -> Kind:
        if self.continuation is not None:
            return "tokens"
        return "labels" if self.sampling is None else "text"

    def key(self, engine: str) -> bytes:
        """sha256 of all that can change the answer of the engine with this signature."""
        how: Iterable[str] = (*self.labels, "levels") if self.ordered else self.labels
        if self.sampling is not None:
            sampling = self.sampling
            numbers = (sampling.max_new_tokens, sampling.temperature, sampling.top_p)
            how = (*map(repr, numbers), str(self.seed), *sampling.stop)
        if self.continuation is not None:
            how = (self.continuation,)
        return bytes.fromhex(text_hash(self.kind, engine, self.prompt.text, self.prompt.prefill, *how))


Progress = Callable[[int], None]
"""Called with the number of questions that have just been answered."""


class LabelAnswer(NamedTuple):
    """How probable each label is as the answer to one prompt: a row of LabelLogProbs, which says what the parts are."""

    log_probs: Sequence[float]
    other_token: OtherToken | None = None
    censored: Sequence[bool] | None = None
    floors: Sequence[float] | None = None


Answer: TypeAlias = "LabelAnswer | Generation | FloatArray | Exception"
"""Of a question by its kind: labels, text, or tokens; an EngineError where it could not be answered.

tokens : log P(token | prompt, tokens before it) of each token of the continuation, nats, float64, over the full
    vocabulary, without the token that ends a text. A continuation is plain text: no control token arises from it.
    Prompt and continuation are tokenised as one string; where the tokenizer merges across their border, the
    continuation by itself, with a warning. An empty continuation fails, and one for which there is no room. Of a
    reward model one number, in the model's own unit: how good the continuation is as the reply to the prompt.
"""


@dataclass(frozen=True, slots=True)
class Answers:
    """One answer a question, in order; and over questions on labels, as far as known: tokens in all prompts, and tokens
    that the model really ran over."""

    rows: Sequence[Answer]
    tokens_naive: int = 0
    tokens_computed: int = 0


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do. The defaults are those of a language model of which no more is known.

    gives_rewards : it answers a question with a continuation by one number, a reward, and none on labels
    decides : it chooses among options that it is given, rather than says a word. It takes labels that describe levels
        (Question.ordered), and no prefill.
    reports_mass : log-probabilities of labels are not normalised over the labels (LabelLogProbs.mass_reported)
    served : a server answers, which may put its own chat template around a prompt
    tokenizer : makes the tokens that the model reads: a PromptTokenizer (engines/tokens.py), or what has its takes,
        has_template, render, encode, label_forms and spelled. None: a server makes them, or they are not known.
    description : how the model is run, or what its server reports, in words; "" where nobody says
    """

    gives_rewards: bool = False
    decides: bool = False
    reports_mass: bool = True
    served: bool = False
    tokenizer: Any = None
    description: str = ""


@runtime_checkable
class Engine(Protocol):
    """A model that judges and writes.

    An engine that is no plain language model also has an attribute `capabilities`, of type Capabilities. It stays the
    same as long as the signature does. An engine around another one passes on `capabilities_of` that one. The attribute
    is no member of this protocol, so that a class with `signature` and `answer` alone is an engine.
    """

    @property
    def signature(self) -> Signature:
        """Model, revision, dtype, backend and their versions: whatever can change an answer."""
        ...

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        """Of questions of any kinds, in the order given. One that cannot be answered has its EngineError.

        A label's probability is exact, for any number of tokens, over the full vocabulary. It stands for its surface
        forms ("Better", " Better"), which are distinct token sequences, none a prefix of another; their probabilities
        are added. A text is drawn with its question's seed alone.
        raises : LabelError, when labels collide or cannot be said
        """
        ...


def capabilities_of(engine: Engine) -> Capabilities:
    """What the engine says that it can do; the defaults of Capabilities, where it says nothing.

    raises : InputError, where the attribute is of another type
    """
    capabilities: object = getattr(engine, "capabilities", Capabilities())
    if not isinstance(capabilities, Capabilities):
        name = f"capabilities of {type(engine).__name__}"
        raise unusable(name, capabilities, "a value of synthscore.engine.Capabilities", "Make it one, or leave it out")
    return capabilities


class EngineAround:
    """What engines around another one have in common: its signature and capabilities are theirs."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def signature(self) -> Signature:
        return self.engine.signature

    @property
    def capabilities(self) -> Capabilities:
        return capabilities_of(self.engine)


KEPT: ContextVar[dict[Any, Any] | None] = ContextVar("synthscore_kept", default=None)
"""What engines keep of what they read, each under a key of its own; None: nothing is kept."""


@contextmanager
def together() -> Iterator[None]:
    """Calls of engines inside ask about the same contexts, so that what one has read the next need not read again."""
    mark = KEPT.set({})
    try:
        yield
    finally:
        KEPT.reset(mark)


def label_log_probs(
    engine: Engine, prompts: Sequence[Prompt], labels: Sequence[str], progress: Progress | None = None
) -> LabelLogProbs:
    """How probable each label is as the answer to each prompt. raises : LabelError, as the engine does"""
    labels = tuple(labels)
    answers = engine.answer([Question(prompt, labels) for prompt in prompts], progress)
    return stacked(labels, answers, capabilities_of(engine).reports_mass)


def stacked(labels: tuple[str, ...], answers: Answers, mass_reported: bool = True) -> LabelLogProbs:
    """Answers to questions on the same labels, as columns."""
    nothing = LabelAnswer((np.nan,) * len(labels))
    failures = {row: str(answer) for row, answer in enumerate(answers.rows) if isinstance(answer, Exception)}
    rows = cast("list[LabelAnswer]", list(answers.rows))
    for row in failures:
        rows[row] = nothing
    log_probs = np.array([answer.log_probs for answer in rows], dtype=np.float64).reshape(len(rows), len(labels))
    censored = floors = None
    if any(answer.censored is not None for answer in rows):
        censored, floors = np.zeros(log_probs.shape, dtype=bool), np.full(log_probs.shape, -np.inf)
        for row, answer in enumerate(rows):
            if answer.censored is not None:
                censored[row] = answer.censored
                floors[row] = -np.inf if answer.floors is None else answer.floors
    return LabelLogProbs(
        labels=labels,
        log_probs=log_probs,
        other_tokens=tuple([answer.other_token for answer in rows]),
        failures=failures,
        tokens_naive=answers.tokens_naive,
        tokens_computed=answers.tokens_computed,
        censored=censored,
        floors=floors,
        mass_reported=mass_reported,
    )


def generate(
    engine: Engine,
    prompts: Sequence[Prompt],
    sampling: Sampling,
    seeds: Sequence[int],
    progress: Progress | None = None,
) -> list[Generation | Exception]:
    """One text a prompt; row i is drawn with seeds[i] alone. A row that fails holds its EngineError."""
    questions = [Question(prompt, (), sampling, int(seed)) for prompt, seed in zip(prompts, seeds, strict=True)]
    return cast("list[Generation | Exception]", list(engine.answer(questions, progress).rows))


def token_log_probs(
    engine: Engine, prompts: Sequence[Prompt], continuations: Sequence[str], progress: Progress | None = None
) -> list[FloatArray | Exception]:
    """log P of each token of continuations[i] as the answer to prompts[i] (Answer). A row that fails holds its
    EngineError. raises : EngineError for a reward model, which does not know it"""
    if capabilities_of(engine).gives_rewards:
        raise EngineError(f"a reward model does not report how probable a text is: {engine.signature}. Take another")
    questions = [Question(prompt, continuation=text) for prompt, text in zip(prompts, continuations, strict=True)]
    return cast("list[FloatArray | Exception]", list(engine.answer(questions, progress).rows))


def rewards(
    engine: Engine, prompts: Sequence[Prompt], texts: Sequence[str], progress: Progress | None = None
) -> list[float | Exception]:
    """How good texts[i] is as the reply to prompts[i], by a reward model. A row that fails holds its EngineError."""
    questions = [Question(prompt, continuation=text) for prompt, text in zip(prompts, texts, strict=True)]
    rows = engine.answer(questions, progress).rows
    return [row if isinstance(row, Exception) else float(cast("FloatArray", row)[0]) for row in rows]
