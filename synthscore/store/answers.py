"""Answers and their questions, and the rows that a store keeps of them.

Beside the answers to questions there are those of kind "verdicts", which have none: what they came to for a whole text,
on all rungs of its ladder (StoredVerdicts), so that a text is found again by one key.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any, NamedTuple

from ..engine import Prompt, Question, Sampling
from ..errors import InputError

_JSON = json.JSONEncoder(separators=(",", ":"))

VERDICTS = "verdicts"


class Stored(NamedTuple):
    """An answer as it is stored. key : sha256 of the question; value : JSON; engine : signature; question : None where
    it was not kept."""

    key: bytes
    kind: str
    value: Any
    engine: str
    question: Question | None = None


class Batch(NamedTuple):
    """Answers of one kind and engine that were written together. created_at : Unix time, seconds."""

    id: int
    kind: str
    engine: str
    created_at: int
    n_answers: int
    has_questions: bool


class BatchRows(NamedTuple):
    """A batch as it is stored. rows : (place, key, value)."""

    kind: str
    engine: str
    created_at: int
    questions: bytes | None
    rows: list[tuple[int, bytes, str]]


def to_row(answer: Stored, created_at: int) -> dict[str, Any]:
    """An answer with its question as a row of JSON. -inf, of an impossible label, is a text: JSON does not have it."""
    question: dict[str, Any] | None = None
    if answer.question is not None:
        asked, sampling = answer.question, answer.question.sampling
        question = {"text": asked.prompt.text, "prefill": asked.prompt.prefill}
        if asked.continuation is not None:
            question["continuation"] = asked.continuation
        elif sampling is None:
            question |= {"labels": list(asked.labels)} | ({"ordered": True} if asked.ordered else {})
        else:
            question |= {name: getattr(sampling, name) for name in ("max_new_tokens", "temperature", "top_p")}
            question |= {"seed": asked.seed} | ({"stop": list(sampling.stop)} if sampling.stop else {})
    return {
        "key": answer.key.hex(),
        "kind": answer.kind,
        "engine": answer.engine,
        "created_at": utc(created_at),
        "question": question,
        "answer": json.loads(_JSON.encode(answer.value), parse_constant=lambda name: str(float(name))),
    }


def utc(seconds: int) -> str:
    """Unix time as 2026-01-31T23:59:59Z."""
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def batch_rows(kind: str, engine: str, created_at: int, answers: Sequence[Stored]) -> BatchRows:
    """The rows of answers that all have a question, or that all have none."""
    rows = [(place, answer.key, _JSON.encode(answer.value)) for place, answer in enumerate(answers)]
    questions = [answer.question for answer in answers if answer.question is not None]
    return BatchRows(kind, engine, created_at, pack(questions) if questions else None, rows)


def crc(batch: int, place: int, key: bytes, value: bytes) -> int:
    """SQLite checks the structure of its pages, not their content: this finds a digit that has changed on disk."""
    return zlib.crc32(value, zlib.crc32(b"%d:%d:%b" % (batch, place, key)))


def intact(batch: int, place: int, key: bytes, value: bytes, checksum: int) -> bool:
    """Whether a stored answer has its checksum."""
    try:
        return crc(batch, place, key, value) == checksum
    except TypeError:  # a number or nothing where bytes should be
        return False


def pack(questions: Sequence[Question]) -> bytes:
    """Questions, compressed together. What a prompt shares with the beginning of the one before it is left out first:
    that is most of it, and may be longer than the 32 KiB that zlib looks back."""
    rows: list[tuple[Any, ...]] = []
    before = ""
    for question in questions:
        prompt, sampling = question.prompt, question.sampling
        kept = n_shared(before, prompt.text)
        begun = [prompt.prefill, prompt.n_shared] if prompt.n_shared else prompt.prefill
        row = (kept, prompt.text[kept:], begun)
        if question.continuation is not None:
            rows.append((*row, question.continuation))
        elif sampling is None:
            rows.append((*row, {"levels": question.labels} if question.ordered else question.labels))
        else:
            stop = (sampling.stop,) if sampling.stop else ()  # left out where it was before it was kept
            how = (sampling.max_new_tokens, sampling.temperature, sampling.top_p, *stop)
            rows.append((*row, how, question.seed))
        before = prompt.text
    return zlib.compress(_JSON.encode(rows).encode(), 1)  # level 6: 4 % smaller, slower by a fifth


def unpack(packed: bytes) -> list[Question]:
    """raises : sqlite3.DatabaseError, where this is not what `pack` gave"""
    try:
        questions, before = [], ""
        for kept, rest, begun, how, *seed in json.loads(zlib.decompress(packed)):
            before = before[:kept] + rest
            prompt = Prompt(before, *([begun] if isinstance(begun, str) else begun))
            if isinstance(how, str):
                questions.append(Question(prompt, continuation=how))
            elif seed:
                n_tokens, temperature, top_p, *stop = how
                questions.append(Question(prompt, (), Sampling(n_tokens, temperature, top_p, tuple(*stop)), *seed))
            elif isinstance(how, dict):
                questions.append(Question(prompt, tuple(how["levels"]), ordered=True))
            else:
                questions.append(Question(prompt, tuple(how)))
        return questions
    except (zlib.error, ValueError, TypeError, InputError) as error:
        raise sqlite3.DatabaseError(f"questions cannot be read: {error}") from error


def n_shared(one: str, other: str) -> int:
    """Characters that two texts share at their beginning."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
