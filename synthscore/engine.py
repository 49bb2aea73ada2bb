"""What a model is asked, what it answers, and the contract of an engine: whole prompts in, exact numbers out, in the
order given.

Callers pass as many prompts as they like, in any order; sharing, batching and memory are the engine's business.
A row that cannot be answered fails alone, with a reason; the others are answered.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from .errors import EngineError, InputError, SynthscoreWarning, unusable
from .signature import Signature, text_hash
from .types import BoolArray, FloatArray, Usage

Kind = Literal["labels", "text", "tokens"]

MOST_LOG_PROB = 1e-4
"""A log-probability above this is none, nats; what float32 rounds to above 0 is below it."""
MOST_MASS = 1.01
"""Probabilities of distinct answers that add up to more are none; some servers round what they report."""


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
    usage : tokens that all answers took
    censored : bool, shape of log_probs, or None where nothing is; True: a server did not report this label, and
        log_probs holds the most that it can be
    floors : float64, shape of log_probs, or None; the least that a censored label can be, -inf (and None): not known
    mass_reported : False where log_probs are normalised over the labels, because a judge that chooses among given
        options does not report what else it would say
    n_samples : float64, shape (n_prompts,), or None where all is exact: log_probs are of the frequencies of labels
        among so many answers in words; inf where they are exact, NaN in rows that failed
    """

    labels: tuple[str, ...]
    log_probs: FloatArray
    other_tokens: tuple[OtherToken | None, ...] = ()
    failures: Mapping[int, str] = field(default_factory=dict)
    usage: Usage = field(default_factory=Usage)
    censored: BoolArray | None = None
    floors: FloatArray | None = None
    mass_reported: bool = True
    n_samples: FloatArray | None = None

    def __post_init__(self) -> None:
        rows = np.flatnonzero(np.isnan(self.log_probs).any(axis=1))
        if set(rows.tolist()) != set(self.failures):
            raise ValueError(f"rows {rows.tolist()} are NaN but failures name rows {sorted(self.failures)}")
        if (self.log_probs > MOST_LOG_PROB).any():
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
    def least(self) -> FloatArray:
        """The least that each label's log-probability can be, shape of log_probs, which are the most that it can be."""
        if self.censored is None:
            return self.log_probs
        floors = np.full_like(self.log_probs, -np.inf) if self.floors is None else self.floors
        return np.where(self.censored, floors, self.log_probs)

    @property
    def unreported(self) -> FloatArray:
        """The most by which any of `probs` can be off for what is censored, shape (n_prompts,); 0 where nothing is.

            sum_l (most_l - least_l) / sum_l most_l

        NaN where a row failed or all labels are impossible. What this leaves open of a verdict: judging/asking.py.
        """
        most = np.exp(self.log_probs).sum(axis=1)
        unreported: FloatArray = self._open.sum(axis=1) / np.where(most == 0, np.nan, most)
        return unreported

    @property
    def _open(self) -> FloatArray:
        """How much of each label's probability was not reported, shape of log_probs; NaN in rows that failed."""
        return np.exp(self.log_probs) - np.exp(self.least)


@dataclass(frozen=True, slots=True)
class Generation:
    """One text that a model wrote.

    finish_reason : "stop" (it ended by itself), "length" (it was cut), or, of a question that wants a label in words,
        "refusal" (the model or its provider refused); a refusal of another text is an EngineError
    """

    text: str
    finish_reason: Literal["stop", "length", "refusal"]
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

    labels, with sampling : a text that is to end in one of these labels, one of the samples of a judge that answers in
        words (engines/words.py), each with a seed of its own
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
            in_words = ("labels", *self.labels) if self.labels else ()
            how = (*map(repr, numbers), str(self.seed), *sampling.stop, *in_words)
        if self.continuation is not None:
            how = (self.continuation,)
        return bytes.fromhex(text_hash(self.kind, engine, self.prompt.text, self.prompt.prefill, *how))


Progress = Callable[[int], None]
"""Called with the number of questions that have just been answered."""


class LabelAnswer(NamedTuple):
    """How probable each label is as the answer to one prompt: a row of LabelLogProbs, which says what the parts are.

    n_samples : None for exact probabilities
    """

    log_probs: Sequence[float]
    other_token: OtherToken | None = None
    censored: Sequence[bool] | None = None
    floors: Sequence[float] | None = None
    n_samples: int | None = None


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
    """One answer a question, in order; and the tokens that they took."""

    rows: Sequence[Answer]
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What an engine can do. The defaults are those of a language model of which no more is known.

    judges : it answers questions on labels; False: it only writes, as a server that reports no log-probabilities
    reasons : it may reason before it answers, so that its answers in words need room for that
    gives_rewards : it answers a question with a continuation by one number, a reward, and none on labels
    decides : it chooses among options that it is given, rather than says a word. It takes labels that describe levels
        (Question.ordered), and no prefill.
    reports_mass : log-probabilities of labels are not normalised over the labels (LabelLogProbs.mass_reported)
    answers : "probabilities"; "choices": the label that it chose has all the probability, or several share it evenly;
        or "words": how often each label was said in a few answers. Choices and words have no log-odds, so both orders
        of a question are averaged in probability.
    served : a server answers, which may put its own chat template around a prompt
    tokenizer : makes the tokens that the model reads: a PromptTokenizer (engines/tokens.py), or what has its takes,
        has_template, render, encode, label_forms and spelled. None: a server makes them, or they are not known.
    description : how the model is run, or what its server reports, in words; "" where nobody says
    """

    judges: bool = True
    reasons: bool = False
    gives_rewards: bool = False
    decides: bool = False
    reports_mass: bool = True
    answers: Literal["probabilities", "choices", "words"] = "probabilities"
    served: bool = False
    tokenizer: Any = None
    description: str = ""


@runtime_checkable
class Engine(Protocol):
    """A model that judges and writes.

    An engine that is no plain language model also has an attribute `capabilities`, of type Capabilities. It stays the
    same as long as the signature does. An engine around another one passes on `capabilities_of` that one. One that need
    not wait for its last answer also has a method `answer_parts` (store/parts.py). Neither is a member of this
    protocol, so that a class with `signature` and `answer` alone is an engine.
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


def ask_engine(engine: Engine, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
    """What the engine answers. What is no answer (find_fault) becomes the EngineError of its question.

    raises : as the engine does; EngineError where it does not give one answer a question
    warns : of what is no answer, once, with their number
    """
    answers = engine.answer(questions, progress)
    require_all(engine, len(answers.rows), questions)
    rows, faults = split_faults(engine, questions, dict(enumerate(answers.rows)))
    warn_of_faults(engine, faults, len(questions))
    return replace(answers, rows=list(rows.values())) if faults else answers


def require_all(engine: Engine, n_answers: int, questions: Sequence[object]) -> None:
    """raises : EngineError where it did not give one answer a question"""
    if n_answers != len(questions):
        raise EngineError(
            f"{engine.signature} gave {n_answers} answers to {len(questions)} questions, expected one each. "
            "Mend the engine"
        )


def split_faults(
    engine: Engine, questions: Sequence[Question], rows: Mapping[int, Answer]
) -> tuple[dict[int, Answer], dict[int, str]]:
    """Answers by the places of their questions, with an EngineError for what is none; and what is wrong with those."""
    gives_rewards = capabilities_of(engine).gives_rewards
    checked, faults = dict(rows), {}
    for row, answer in rows.items():
        if isinstance(answer, Exception):
            continue
        if fault := find_fault(answer, questions[row], gives_rewards=gives_rewards):
            faults[row] = fault
            checked[row] = EngineError(f"{engine.signature} gave no usable answer: {fault}")
    return checked, faults


def warn_of_faults(engine: Engine, faults: Mapping[int, str], n_questions: int) -> None:
    if faults:
        warnings.warn(
            f"{len(faults)} of {n_questions} answers of {engine.signature} cannot be used and count as failed; "
            f"the first: {faults[min(faults)]}. Mend the engine",
            SynthscoreWarning,
            stacklevel=4,
        )


def find_fault(answer: object, question: Question, *, gives_rewards: bool = False) -> str:
    """Why this cannot be the answer to the question, whoever gave it; "" where it can.

    Log-probabilities are numbers, as many as there are labels, -inf or finite, none above 0, of a mass of at most 1
    (but for rounding: MOST_LOG_PROB, MOST_MASS), and what is censored can be at least its floor. A reward is finite.
    """
    try:
        if question.kind == "labels":
            return _fault_of_labels(answer, len(question.labels))
        if question.kind == "text":
            return _fault_of_text(answer, in_words=bool(question.labels))
        if not isinstance(answer, np.ndarray) or answer.ndim != 1 or answer.dtype.kind != "f" or not len(answer):
            return f"it is {answer!r:.80}, expected an array of floats, one a token"
        if gives_rewards:
            is_reward = len(answer) == 1 and np.isfinite(answer).all()
            return "" if is_reward else f"it is {answer!r:.80}, expected one finite number"
        return _fault_of_log_probs(answer.tolist())
    except (TypeError, ValueError, OverflowError) as error:
        return f"it is {answer!r:.80}: {error}"


def _fault_of_labels(answer: Any, n_labels: int) -> str:
    if not isinstance(answer, LabelAnswer):
        return f"it is {answer!r:.80}, expected a LabelAnswer"
    most, censored, floors = answer.log_probs, answer.censored, answer.floors
    other: Any = answer.other_token
    if len(most) != n_labels:
        return f"it has {len(most)} log-probabilities, expected {n_labels}"
    if fault := _fault_of_log_probs(most):
        return fault
    least = most
    if censored is not None:
        floors = [-math.inf] * n_labels if floors is None else floors
        are_bools = all(isinstance(each, bool | np.bool_) for each in censored)
        if not are_bools or not len(censored) == len(floors) == n_labels:
            return f"censored is {censored!r:.80} and floors {floors!r:.80}, expected one of each a label"
        if fault := _fault_of_log_probs(floors):
            return f"of the floors, {fault}"
        least = [low if hidden else high for low, high, hidden in zip(floors, most, censored, strict=True)]
        if any(low > high + MOST_LOG_PROB for low, high in zip(least, most, strict=True)):
            return f"floors are {floors!r:.80}, expected at most the log-probabilities {most!r:.80}"
    elif floors is not None:
        return f"floors are {floors!r:.80}, expected none where nothing is censored"
    n_samples: Any = answer.n_samples
    if n_samples is not None and (isinstance(n_samples, bool) or not isinstance(n_samples, int) or n_samples < 1):
        return f"n_samples is {n_samples!r:.80}, expected a whole number of at least 1, or None"
    if (mass := math.fsum(map(math.exp, least))) > MOST_MASS:
        return f"the probabilities of its labels add up to {mass:.4g}, expected at most 1"
    if other is not None and not (isinstance(other, OtherToken) and isinstance(other.token, str)):
        return f"other_token is {other!r:.80}, expected an OtherToken or None"
    return _fault_of_log_probs([other.log_prob]) if other is not None else ""


def _fault_of_text(answer: Any, *, in_words: bool) -> str:
    if not isinstance(answer, Generation) or not isinstance(answer.text, str):
        return f"it is {answer!r:.80}, expected a Generation with a text"
    answer.text.encode()  # half a surrogate pair cannot be written
    ends = ("stop", "length", "refusal") if in_words else ("stop", "length")
    if answer.finish_reason not in ends:
        return f"finish_reason is {answer.finish_reason!r:.80}, expected one of {', '.join(ends)}"
    n_tokens: Any = answer.n_tokens
    if isinstance(n_tokens, bool) or not isinstance(n_tokens, Integral) or n_tokens < 0:
        return f"n_tokens is {n_tokens!r:.80}, expected a whole number of at least 0"
    return ""


def _fault_of_log_probs(values: Sequence[Any]) -> str:
    for value in values:
        is_number = isinstance(value, float) or (isinstance(value, Real) and not isinstance(value, bool))
        if not is_number or not value <= MOST_LOG_PROB:
            return f"a log-probability is {value!r:.80}, expected a number of at most 0"
        float(value)  # an OverflowError for a whole number that no float holds
    return ""


def label_log_probs(
    engine: Engine, prompts: Sequence[Prompt], labels: Sequence[str], progress: Progress | None = None
) -> LabelLogProbs:
    """How probable each label is as the answer to each prompt. raises : LabelError, as the engine does"""
    labels = tuple(labels)
    answers = ask_engine(engine, [Question(prompt, labels) for prompt in prompts], progress)
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
    n_samples = None
    if any(answer.n_samples is not None for answer in rows):
        n_samples = np.array([answer.n_samples or np.inf for answer in rows], dtype=np.float64)
        n_samples[list(failures)] = np.nan
    return LabelLogProbs(
        labels=labels,
        log_probs=log_probs,
        other_tokens=tuple([answer.other_token for answer in rows]),
        failures=failures,
        usage=answers.usage,
        censored=censored,
        floors=floors,
        mass_reported=mass_reported,
        n_samples=n_samples,
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
    return cast("list[Generation | Exception]", list(ask_engine(engine, questions, progress).rows))


def token_log_probs(
    engine: Engine, prompts: Sequence[Prompt], continuations: Sequence[str], progress: Progress | None = None
) -> list[FloatArray | Exception]:
    """log P of each token of continuations[i] as the answer to prompts[i] (Answer). A row that fails holds its
    EngineError. raises : EngineError for a reward model, which does not know it"""
    if capabilities_of(engine).gives_rewards:
        raise EngineError(f"a reward model does not report how probable a text is: {engine.signature}. Take another")
    questions = [Question(prompt, continuation=text) for prompt, text in zip(prompts, continuations, strict=True)]
    return cast("list[FloatArray | Exception]", list(ask_engine(engine, questions, progress).rows))


def rewards(
    engine: Engine, prompts: Sequence[Prompt], texts: Sequence[str], progress: Progress | None = None
) -> list[float | Exception]:
    """How good texts[i] is as the reply to prompts[i], by a reward model. A row that fails holds its EngineError."""
    questions = [Question(prompt, continuation=text) for prompt, text in zip(prompts, texts, strict=True)]
    rows = ask_engine(engine, questions, progress).rows
    return [row if isinstance(row, Exception) else float(cast("FloatArray", row)[0]) for row in rows]
