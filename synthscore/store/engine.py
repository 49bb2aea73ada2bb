"""Engines that ask a model only what the store does not hold, or nothing, or count it; and verdicts on whole texts."""

from __future__ import annotations

import binascii
import hashlib
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..engine import (
    Answer,
    Answers,
    Capabilities,
    Engine,
    EngineAround,
    Generation,
    Kind,
    LabelAnswer,
    OtherToken,
    Progress,
    Question,
    ask_engine,
    find_fault,
)
from ..errors import EngineError
from ..signature import Signature, text_hash
from ..types import Context, FloatArray, Ladder, Score
from .file import VERDICTS, Store, Stored

_ROUNDING = 1e-9  # of a probability that was normalised in float64
SAMPLE = 512  # questions whose tokens a QuestionCounter counts, of one call
_PAUSE_S = 120  # between two batches of answers: after a longer time, another run wrote the second
BATCH_S = 15.0  # how long a batch should take: what a killed run loses
# Questions in a batch; a text costs as much as tens of verdicts, minutes on a small machine.
LEAST: dict[Kind, int] = {"labels": 256, "text": 4, "tokens": 256}
MOST = 8192
_GROWTH = 4  # a batch is at most so many times as large as the one before: a pace may have been luck


@dataclass(slots=True)
class Asked:
    """What a model was really asked so far: n questions on labels and readings that it answered, in so many seconds."""

    n: int = 0
    seconds: float = 0.0
    tokens_naive: int = 0
    tokens_computed: int = 0


class StoredEngine(EngineAround):
    """An engine that is asked only what the store does not hold. Itself an Engine.

    Distinct questions that are missing go to the inner engine in the order given, a batch at a time, and each batch is
    stored before the next is asked: a killed run resumes. Rows that failed are not stored.

    A batch has as many as take about 15 s at the pace of the last one, 256 (texts: 4) to 8192, because one that ends
    within a context makes the engine compute its beginning once more.
    """

    def __init__(self, engine: Engine, store: Store) -> None:
        super().__init__(engine)
        self.store = store
        self.asked = Asked()
        self._sizes: dict[Kind, int] = dict(LEAST)

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        """As the inner engine's; the token counts are of what was asked now."""
        engine = str(self.signature)
        keys = [question.key(engine) for question in questions]
        answers = look_up(self.store, keys, questions, self.capabilities)
        counts = Counter(keys)
        if progress and (n_stored := sum(counts[key] for key in answers)):
            progress(n_stored)
        missing: dict[Kind, dict[bytes, Question]] = {}
        for key, question in zip(keys, questions, strict=True):
            if key not in answers:
                missing.setdefault(question.kind, {}).setdefault(key, question)
        if missing:
            n_missing = sum(map(len, missing.values()))
            self.store.require_writable(f", which lacks {n_missing} of {len(set(keys))} answers")
        naive = computed = 0
        for kind, asked in missing.items():
            items, start = list(asked.items()), 0
            while start < len(items):
                batch = items[start : start + self._sizes[kind]]
                began = time.monotonic()
                found = ask_engine(self.engine, [question for _, question in batch], progress)
                self._count(kind, found, time.monotonic() - began)
                self.store.put_many(
                    Stored(key, kind, stored_value(answer), engine, question)
                    for (key, question), answer in zip(batch, found.rows, strict=True)
                    if not isinstance(answer, Exception)
                )
                answers.update(zip((key for key, _ in batch), found.rows, strict=True))
                naive, computed = naive + found.tokens_naive, computed + found.tokens_computed
                if progress and (n_repeated := sum(counts[key] - 1 for key, _ in batch)):
                    progress(n_repeated)
                start += len(batch)
        return Answers([answers[key] for key in keys], naive, computed)

    def _count(self, kind: Kind, found: Answers, seconds: float) -> None:
        """What was asked now; and the size of the next batch, so that it takes BATCH_S."""
        asked, n_asked = self.asked, len(found.rows)
        if n_judged := sum(not isinstance(row, Exception | Generation) for row in found.rows):
            asked.n, asked.seconds = asked.n + n_judged, asked.seconds + seconds
        asked.tokens_naive += found.tokens_naive
        asked.tokens_computed += found.tokens_computed
        wanted = n_asked * BATCH_S / max(seconds, 1e-9)
        if n_asked >= LEAST[kind]:  # a few questions say little of the pace of many
            self._sizes[kind] = int(min(max(wanted, LEAST[kind]), MOST, _GROWTH * self._sizes[kind]))


def store_of(engine: Engine) -> Store | None:
    """Where an engine keeps its answers, of a StoredEngine or one around it; None where it keeps none."""
    store: Store | None = getattr(engine, "store", None)
    if store is None and isinstance(engine, EngineAround):
        return store_of(engine.engine)
    return store


class StoredVerdicts:
    """The judge's verdicts on whole texts: a short hash and a look into the store, where a text has been scored before,
    rather than a prompt, its hash and its answer for every rung.

    Only of texts whose every rung has a verdict, with all labels reported: all else is scored from its answers as ever.

    asked : how the judge was asked (the signature of Verdicts), with whatever decides if an answer counts
    """

    def __init__(self, store: Store, engine: Signature, asked: str) -> None:
        self.store, self.engine, self.asked = store, str(engine), asked

    def begun(self, ladder: Ladder, context: Context) -> Any:
        """A hash of all that the verdicts depend on but the text, for `key`. context : that the text was written for"""
        parts = (self.asked, ladder.task, ladder.attribute, context.text, context.facts, ladder.hash)
        return hashlib.sha256(text_hash(VERDICTS, self.engine, *parts).encode())

    @staticmethod
    def key(begun: Any, text: str) -> bytes:
        digest = begun.copy()
        digest.update(text.encode())
        return bytes(digest.digest())

    def get_many(self, keys: Sequence[bytes], n_rungs: int, n_orders: int) -> dict[bytes, FloatArray]:
        """Of the keys that are stored: better, worse, similar of each rung, worst first, in each order asked; shape
        (n_rungs, n_orders, 3), every bit as it was. warns : of what is no such verdict, which counts as missing"""

        def read(key: bytes, value: Any) -> FloatArray:
            if not isinstance(value, str):
                raise ValueError(f"verdicts are {value!r:.80}, expected base64")
            verdicts = np.frombuffer(binascii.a2b_base64(value), dtype="<f8").reshape(n_rungs, n_orders, 3)
            if not ((verdicts >= 0) & (verdicts <= 1 + _ROUNDING)).all():
                raise ValueError(f"verdicts are {verdicts.tolist()!r:.80}, expected probabilities")
            return verdicts

        return self.store.get_many(keys, read)

    def put_many(self, scores: Mapping[bytes, Score], n_rungs: int, n_orders: int) -> int:
        """Keep what the scores were computed from, of those that are whole. How many were new."""
        answers = []
        for key, score in scores.items():
            verdicts = {(v.level, v.swapped): (v.better, v.worse, v.similar) for v in score.verdicts}
            if score.status == "ok" and score.low is None and not score.reason and len(verdicts) == n_rungs * n_orders:
                value = np.array([verdicts[at] for at in sorted(verdicts)], dtype="<f8").tobytes()
                answers.append(Stored(key, VERDICTS, binascii.b2a_base64(value, newline=False).decode(), self.engine))
        return self.store.put_many(answers)


def stored_value(answer: LabelAnswer | Generation | FloatArray) -> Any:
    """What is stored of an answer; JSON keeps every bit of its numbers."""
    if isinstance(answer, Generation):
        return [answer.text, answer.finish_reason, answer.n_tokens]
    if isinstance(answer, np.ndarray):
        return answer.tolist()
    other = answer.other_token
    value: dict[str, Any] = {
        "log_probs": list(answer.log_probs),
        "rival": None if other is None else [other.token, other.log_prob],
    }
    if answer.censored is not None:
        value["censored"] = list(answer.censored)
        if answer.floors is not None:
            value["floors"] = list(answer.floors)
    return value


def answer_of(kind: Kind, value: Any) -> LabelAnswer | Generation | FloatArray:
    """The answer of which this was stored. raises : ValueError for what no answer is stored as"""
    try:
        return _answer_of(kind, value)
    except (TypeError, LookupError, AttributeError) as error:
        raise ValueError(f"no answer is stored as {value!r:.80}") from error


def _answer_of(kind: Kind, value: Any) -> LabelAnswer | Generation | FloatArray:
    if kind == "text":
        return Generation(*value)
    if kind == "tokens":
        return np.array(value)  # of floats, if they are numbers
    other = value["rival"]
    return LabelAnswer(
        value["log_probs"], OtherToken(*other) if other else None, value.get("censored"), value.get("floors")
    )


def look_up(
    store: Store, keys: Sequence[bytes], questions: Sequence[Question], capabilities: Capabilities
) -> dict[bytes, Answer]:
    """The usable answers that are stored. keys : of the questions. capabilities : of whoever answered them

    warns : of those that are not usable, which count as missing
    """
    asked = dict(zip(keys, questions, strict=True))

    def read(key: bytes, value: Any) -> Answer:
        answer = answer_of(asked[key].kind, value)
        if fault := find_fault(answer, asked[key], gives_rewards=capabilities.gives_rewards):
            raise ValueError(fault)
        return answer

    return store.get_many(keys, read)


def recorded_capabilities(signature: Signature) -> Capabilities:
    """What the engine with this signature could do, for whoever has only its answers.

    A store holds answers under signatures and nothing else about their engines, and old stores must go on working: so
    here, and nowhere else, the parts are read that engines sign such answers with. `format` is the prompt's of a server
    that decides, whatever its wire. Answers about pairs that others published (`published`) are choices.
    """
    parts = dict(signature.parts)
    gives_rewards = parts.get("backend") == "reward"
    return Capabilities(
        gives_rewards=gives_rewards,
        decides=parts.get("backend") == "decision" or "format" in parts,
        reports_mass=not gives_rewards and parts.get("mass") != "unreported",
        answers="choices" if parts.get("answers") == "choices" or "published" in parts else "probabilities",
    )


class RecordedEngine:
    """The engine whose answers a store holds, under its own signature. What is not there is a failure of its row.

    file : FILE, or FILE#PART, where the signature of one engine alone contains PART
    raises : StoreError, where the file is no store; EngineError, where it does not hold answers of exactly one engine
    """

    def __init__(self, file: str) -> None:
        name, _, part = file.partition("#")
        self.path = Path(name).expanduser()
        with Store(self.path, create=False) as store:
            engines = list(dict.fromkeys(batch.engine for batch in store.batches()))
        fitting = [engine for engine in engines if part in engine]
        if len(fitting) != 1:
            what = f"{len(fitting)} engines" + (f" whose signature contains {part!r}" if part else "")
            listed = "".join(f"\n  {engine}" for engine in engines) or " none at all"
            raise EngineError(
                f"cannot replay {self.path}: it holds answers of {what}, expected one. It has:{listed}\n"
                f"Name one by a part of its signature: recorded:{self.path}#PART",
                path=self.path,
                engines=engines,
            )
        self.signature: Signature = Signature.parse(fitting[0])
        self.capabilities = recorded_capabilities(self.signature)

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        keys = [question.key(str(self.signature)) for question in questions]
        with Store(self.path, create=False) as store:
            found = look_up(store, keys, questions, self.capabilities)
        if progress:
            progress(len(questions))
        pairs = zip(keys, questions, strict=True)
        return Answers(
            [found[key] if key in found else EngineError(self._missing(question)) for key, question in pairs]
        )

    def _missing(self, question: Question) -> str:
        prompt = question.prompt
        end = f"{prompt.text[-60:]}{prompt.prefill}"
        how = f"labels {', '.join(question.labels)}"
        if question.sampling is not None:
            how = f"{question.sampling}, seed {question.seed}"
        if question.continuation is not None:
            how = f"the continuation {question.continuation[:60]!r}"
        return (
            f"{self.path} holds no answer of {self.signature} to the prompt of {len(prompt.text)} characters that ends "
            f"in {end!r} ({how}). Ask the model itself, with --store {self.path}"
        )


class QuestionCounter(EngineAround):
    """An engine in the place of another, that counts what it is asked and answers nothing.

    n_questions : asked for
    pace : questions a second, as this engine's answers in the store came; None where that is not known
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.pace: float | None = None
        self.n_questions = self._n_counted = self._n_new = self._n_characters = 0
        self._n_tokens = self._n_read = 0  # tokens, and characters of the prompts that were tokenised
        self._new: set[bytes] = set()

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        """An EngineError for each."""
        self.n_questions += len(questions)
        self._n_counted += len(questions)
        asked = {} if isinstance(self.engine, RecordedEngine) else self._missing(questions)
        if asked and not self._n_new:
            self.pace = self._pace(next(iter(asked.values())).kind)
        self._n_new += len(asked)
        self._n_characters += sum(_size(question) for question in asked.values())
        self._count_tokens(list(asked.values()))
        return Answers([EngineError("it was counted, not asked")] * len(questions))

    def _count_tokens(self, asked: Sequence[Question]) -> None:
        """Of some of the questions, where the model's tokenizer is at hand."""
        tokenizer = self.capabilities.tokenizer
        if tokenizer is None:
            return
        for question in asked[:: max(1, len(asked) // SAMPLE)]:
            try:
                self._n_tokens += len(tokenizer.encode(question.prompt))
            except EngineError:  # too long: it would fail
                continue
            self._n_read += _size(question)

    def _missing(self, questions: Sequence[Question]) -> dict[bytes, Question]:
        """Those that the store does not hold, each once."""
        keys = [question.key(str(self.signature)) for question in questions]
        store = store_of(self.engine)
        stored = look_up(store, keys, questions, self.capabilities) if store else {}
        asked = zip(keys, questions, strict=True)
        new = {key: question for key, question in asked if key not in stored and key not in self._new}
        self._new |= new.keys()
        return new

    @property
    def n_new(self) -> int:
        """To be asked: not stored, and not the same as another."""
        return round(self.n_questions * self._n_new / max(self._n_counted, 1))

    @property
    def n_tokens(self) -> int:
        """In the prompts of the new ones."""
        characters = self.n_new * self._n_characters / max(self._n_new, 1)
        return round(characters * (self._n_tokens / self._n_read if self._n_read else 1 / 4))

    @property
    def tokenised(self) -> bool:
        """Whether a tokenizer has counted; else n_tokens is an estimate, of 4 characters each."""
        return self._n_read > 0

    def _pace(self, kind: Kind) -> float | None:
        store = store_of(self.engine)
        engine, batches = str(self.signature), store.batches() if store else ()
        own = [batch for batch in batches if (batch.engine, batch.kind) == (engine, kind)]
        gaps = [(after.n_answers, after.created_at - before.created_at) for before, after in pairwise(own)]
        known = [(n, seconds) for n, seconds in gaps if 0 < seconds <= _PAUSE_S]
        return sum(n for n, _ in known) / sum(seconds for _, seconds in known) if known else None

    def scaled_to(self, n_questions: int) -> QuestionCounter:
        """This, for so many questions of the same kind."""
        self.n_questions = n_questions
        return self


def _size(question: Question) -> int:
    return len(question.prompt.text) + len(question.prompt.prefill) + len(question.continuation or "")
