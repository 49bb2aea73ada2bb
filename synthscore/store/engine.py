"""Engines that ask a model only what the store does not hold, or nothing, or count it; and verdicts on whole texts."""

from __future__ import annotations

import binascii
import hashlib
import math
import struct
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any
from uuid import uuid4

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
    find_fault,
)
from ..errors import EngineError
from ..signature import Signature, text_hash
from ..types import Context, FloatArray, Ladder, Score, Usage
from .budget import Budget
from .file import VERDICTS, Store, Stored
from .parts import MOST, PART_N, PART_S, ask_in_parts, in_parts
from .runs import EngineRun, Spent

_ROUNDING = 1e-9  # of a probability that was normalised in float64
SAMPLE = 512  # questions whose tokens a QuestionCounter counts, of one call
_ENOUGH = 100  # questions that tell an engine's pace


class StoredEngine(EngineAround):
    """An engine that is asked only what the store does not hold. Itself an Engine.

    Missing questions go to the inner engine, each once, in the order given. An answer is stored when it comes, together
    with others of the same half second (parts.PART_S), whatever ends the call, so that a run that was interrupted or
    killed continues where it was. Failed rows are not stored.

    runs : the questions that the inner engine was asked so far, and what they took, by kind. n_kept : answers stored so
    far
    budget : when that is enough; None: never
    """

    def __init__(self, engine: Engine, store: Store) -> None:
        super().__init__(engine)
        self.store = store
        self.source = in_parts(engine)
        self.runs: dict[Kind, EngineRun] = {}
        self.n_kept = 0
        self.budget: Budget | None = None

    @property
    def spent(self) -> Spent:
        """By questions of all kinds."""
        return sum((run.spent for run in self.runs.values()), Spent())

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        """The answers as from the inner engine; tokens are those of the questions that were asked now.

        raises : Unasked, where the budget does not allow all that is missing; what was answered is stored
        """
        keys = [question.key(str(self.signature)) for question in questions]
        answers = look_up(self.store, keys, questions, self.capabilities)
        counts = Counter(keys)
        if progress and (n_stored := sum(counts[key] for key in answers)):
            progress(n_stored)
        missing: dict[Kind, dict[bytes, Question]] = {}
        for key, question in zip(keys, questions, strict=True):
            if key not in answers:
                missing.setdefault(question.kind, {}).setdefault(key, question)
        n_left = n_missing = sum(map(len, missing.values()))
        if missing:
            self.store.require_writable(f", which lacks {n_missing} of {len(counts)} answers")
        usage = Usage()
        for kind, asked in missing.items():
            items = list(asked.items())
            for start in range(0, len(items), MOST):
                batch = items[start : start + MOST]
                allowed = batch[: self.budget.room(len(batch))] if self.budget else batch
                n_left -= len(allowed)
                with _Keeper(self, kind, allowed, n_left) as keeper:
                    ask_in_parts(self.source, [question for _, question in allowed], keeper.take, progress)
                if self.budget and len(allowed) < len(batch):
                    raise self.budget.stop(n_left)
                answers |= {batch[row][0]: answer for row, answer in keeper.answers.items()}
                usage += keeper.usage
                if progress and (n_repeated := sum(counts[key] - 1 for key, _ in batch)):
                    progress(n_repeated)
        return Answers([answers[key] for key in keys], usage)


class _Keeper:
    """Stores the answers to some questions of one kind as they come, several at a time (PART_S, PART_N). The last ones
    are stored even where an exception ends the call.

    n_left : questions of the call that come after these. answers : by the places of their questions. usage : of all
    """

    def __init__(self, engine: StoredEngine, kind: Kind, asked: Sequence[tuple[bytes, Question]], n_left: int) -> None:
        self._engine, self._kind, self._asked, self._n_left = engine, kind, asked, n_left
        self._signature = str(engine.signature)
        self._waiting: dict[int, Answer] = {}
        self._asked_at = self._kept_at = time.monotonic()
        self.answers: dict[int, Answer] = {}
        self.usage = Usage()
        engine.runs.setdefault(kind, EngineRun(uuid4().bytes, kind, self._signature, int(time.time())))

    def take(self, part: Mapping[int, Answer], usage: Usage) -> None:
        """raises : Unasked, where the budget is spent and questions are left"""
        if not part or not part.keys() <= self.answers.keys():  # else it was taken before it was interrupted
            self.answers |= part
            self._waiting |= part
            self._count(part, usage)
        if len(self._waiting) >= PART_N or time.monotonic() - self._kept_at >= PART_S:
            self._keep()
        if budget := self._engine.budget:
            budget.require_more(self._n_left + len(self._asked) - len(self.answers))

    def _count(self, part: Mapping[int, Answer], usage: Usage) -> None:
        """In the run, up to now."""
        self.usage += usage
        now, run = time.monotonic(), self._engine.runs[self._kind]
        n_failed = sum(isinstance(answer, Exception) for answer in part.values())
        spent = Spent(now - self._asked_at, len(part) - n_failed, n_failed, usage)
        self._engine.runs[self._kind] = run._replace(spent=run.spent + spent)
        self._asked_at = now

    def _keep(self) -> None:
        if self._waiting:
            answers = []
            for row, answer in sorted(self._waiting.items()):
                if isinstance(answer, Exception):
                    continue
                key, question = self._asked[row]
                stored = Stored(
                    key=key,
                    kind=self._kind,
                    value=stored_value(answer),
                    engine=self._signature,
                    question=question,
                )
                answers.append(stored)
            self._engine.n_kept += self._engine.store.put_many(answers, self._engine.runs[self._kind])
            self._waiting = {}
        self._kept_at = time.monotonic()

    def __enter__(self) -> _Keeper:
        return self

    def __exit__(self, *error: object) -> None:
        self._keep()


def store_of(engine: Engine) -> Store | None:
    """Where an engine keeps its answers, of a StoredEngine or one around it; None where it keeps none."""
    store: Store | None = getattr(engine, "store", None)
    if store is None and isinstance(engine, EngineAround):
        return store_of(engine.engine)
    return store


def stored_engine(engine: Engine) -> StoredEngine | None:
    """The engine that stores answers, among those around each other; None where none does."""
    inner: Engine | None = engine
    while inner is not None and not isinstance(inner, StoredEngine):
        inner = getattr(inner, "engine", None)
    return inner


class StoredVerdicts:
    """The judge's verdicts on whole texts: a short hash and a look into the store, where a text has been scored before,
    rather than a prompt, its hash and its answer for every rung.

    Only of texts whose every rung has a verdict, with all labels reported: all else is scored from its answers as ever.

    asked : how the judge was asked (the signature of Verdicts), with whatever decides if an answer counts
    """

    def __init__(self, store: Store, engine: Signature, asked: str) -> None:
        self.store, self.engine, self.asked = store, str(engine), asked

    def begun(self, ladder: Ladder, context: Context) -> Any:
        """A hash, for `key`, of all that the verdicts depend on besides the text. context : of the text"""
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

        shape = n_rungs, n_orders, 3
        numbers = struct.Struct(f"<{math.prod(shape)}d")

        def read(key: bytes, value: Any) -> bytes:
            if not isinstance(value, str):
                raise ValueError(f"verdicts are {value!r:.80}, expected base64")
            data = binascii.a2b_base64(value)
            if len(data) != numbers.size:
                raise ValueError(f"verdicts are {len(data)} bytes, expected {numbers.size}")
            probs = numbers.unpack(data)  # of so few numbers faster than NumPy
            if not (min(probs) >= 0 and max(probs) <= 1 + _ROUNDING and sum(probs) >= 0):  # a sum with NaN is NaN
                raise ValueError(f"verdicts are {probs!r:.80}, expected probabilities")
            return data

        data = self.store.get_many(keys, read)
        return dict(zip(data, np.frombuffer(b"".join(data.values()), dtype="<f8").reshape(-1, *shape), strict=True))

    def put_many(self, scores: Mapping[bytes, Score], n_rungs: int, n_orders: int) -> int:
        """Store the verdicts of the complete scores. Returns how many were new."""
        answers = []
        for key, score in scores.items():
            verdicts = {(v.level, v.swapped): (v.better, v.worse, v.similar) for v in score.verdicts}
            if score.status == "ok" and score.low is None and not score.reason and len(verdicts) == n_rungs * n_orders:
                value = np.array([verdicts[asked] for asked in sorted(verdicts)], dtype="<f8").tobytes()
                answers.append(Stored(key, VERDICTS, binascii.b2a_base64(value, newline=False).decode(), self.engine))
        return self.store.put_many(answers)


def stored_value(answer: LabelAnswer | Generation | FloatArray) -> Any:
    """An answer as it is stored. JSON keeps every bit of its numbers."""
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
            stored = look_up(store, keys, questions, self.capabilities)
        if progress:
            progress(len(questions))
        rows = []
        for key, question in zip(keys, questions, strict=True):
            rows.append(stored[key] if key in stored else EngineError(self._missing(question)))
        return Answers(rows)

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
    """An engine that replaces another, counts the questions that it is asked, and answers none.

    front : the engine that is asked in the place of the one that it was made of (`replacing`)
    n_samples : questions that `front` makes of one on labels
    n_questions : asked for, equal ones each time
    pace : questions a second, as this engine's answers in the store came; None where that is not known
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.front: Engine = self
        self.n_samples = 1
        self.pace: float | None = None
        self.n_questions = self._n_counted = self._n_new = self._n_characters = 0
        self._n_tokens = self._n_read = 0  # tokens, and characters of the prompts that were tokenised
        self._distinct: set[bytes] = set()
        self._new: set[bytes] = set()

    @classmethod
    def replacing(cls, engine: Engine) -> QuestionCounter:
        """One in the place of the engine that stores answers, or else of the innermost: those around it, which make
        other questions of what they are asked, go on doing so."""
        if isinstance(engine, StoredEngine) or not isinstance(engine, EngineAround):
            return cls(engine)
        plan = cls.replacing(engine.engine)
        front = copy(engine)
        front.engine = plan.front
        plan.front = front
        plan.n_samples *= getattr(engine, "n_votes", 1)
        return plan

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        """An EngineError for each."""
        self.n_questions += len(questions)
        self._n_counted += len(questions)
        keys = [question.key(str(self.signature)) for question in questions]
        self._distinct.update(keys)
        asked = {} if isinstance(self.engine, RecordedEngine) else self._missing(keys, questions)
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

    def _missing(self, keys: Sequence[bytes], questions: Sequence[Question]) -> dict[bytes, Question]:
        """The questions that the store does not hold, each once."""
        store = store_of(self.engine)
        stored = look_up(store, keys, questions, self.capabilities) if store else {}
        asked = zip(keys, questions, strict=True)
        new = {key: question for key, question in asked if key not in stored and key not in self._new}
        self._new |= new.keys()
        return new

    @property
    def n_distinct(self) -> int:
        """Different questions, over all calls."""
        return round(self.n_questions * len(self._distinct) / max(self._n_counted, 1))

    @property
    def n_new(self) -> int:
        """To be asked: not stored, and not the same as another."""
        return round(self.n_questions * self._n_new / max(self._n_counted, 1))

    @property
    def n_tokens(self) -> int:
        """In the prompts of the new ones."""
        characters = self.n_new * self._n_characters / max(self._n_new, 1)
        tokens_a_character = self._n_tokens / self._n_read if self._n_read else 1 / 4
        return round(characters * tokens_a_character)

    @property
    def tokenised(self) -> bool:
        """Whether a tokenizer has counted; else n_tokens is an estimate, of 4 characters each."""
        return self._n_read > 0

    def _pace(self, kind: Kind) -> float | None:
        """Questions a second, by the last runs that asked this engine enough; None where that is not known."""
        store = store_of(self.engine)
        if store is None:
            return None
        engine = str(self.signature)
        n_asked = 0
        seconds = 0.0
        for run in reversed(store.runs()):
            if (run.engine, run.kind) == (engine, kind) and n_asked < _ENOUGH:
                n_asked += run.spent.n_asked
                seconds += run.spent.seconds
        return n_asked / seconds if seconds else None

    def scaled_to(self, n_questions: int) -> QuestionCounter:
        """The same counter, for this number of questions of the same kind."""
        self.n_questions = n_questions
        return self


def _size(question: Question) -> int:
    return len(question.prompt.text) + len(question.prompt.prefill) + len(question.continuation or "")
