"""The questions of a batch into few bytes, and back, to a bounded size: a store may be a stranger's. Checksums of
answers."""

from __future__ import annotations

import json
import re
import sqlite3
import zlib
from collections.abc import Sequence
from typing import Any

from ..engine import Prompt, Question, Sampling
from ..errors import InputError
from ..io.fields import parse_json

MOST_UNPACKED = 1 << 28  # bytes of a batch's questions, and characters of their prompts: no batch of ours comes near
_MOST_FRAME = 1 << 22  # bytes of a batch's questions beside their texts: brackets, commas, numbers
_TEXT = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')  # in JSON

_JSON = json.JSONEncoder(separators=(",", ":"))

AnswerRow = tuple[int, int, bytes, bytes, int]
"""batch, place, key, value and checksum of an answer, as far as they are what they should be."""


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
            labels = (question.labels,) if question.labels else ()  # of an answer in words
            rows.append((*row, how, question.seed, *labels))
        before = prompt.text
    return zlib.compress(_JSON.encode(rows).encode(), 1)  # level 6: 4 % smaller, slower by a fifth


def unpack(packed: bytes) -> list[Question]:
    """raises : sqlite3.DatabaseError, where this is not what `pack` gave, or more than MOST_UNPACKED"""
    try:
        questions, before, n_characters = [], "", 0
        for kept, rest, begun, how, *seed in parse_json(_decompress(packed)):
            before = before[:kept] + rest
            n_characters += len(before)
            if n_characters > MOST_UNPACKED:
                raise ValueError(f"their prompts have more than {MOST_UNPACKED:,} characters")
            prompt = Prompt(before, *([begun] if isinstance(begun, str) else begun))
            if isinstance(how, str):
                questions.append(Question(prompt, continuation=how))
            elif seed:
                n_tokens, temperature, top_p, *stop = how
                sampling = Sampling(n_tokens, temperature, top_p, tuple(*stop))
                number, *labels = seed
                questions.append(Question(prompt, tuple(*labels), sampling, number))
            elif isinstance(how, dict):
                questions.append(Question(prompt, tuple(how["levels"]), ordered=True))
            else:
                questions.append(Question(prompt, tuple(how)))
            questions[-1].key("")  # which needs all of its parts to be what they should be
        return questions
    except (zlib.error, ValueError, TypeError, AttributeError, LookupError, InputError) as error:
        raise sqlite3.DatabaseError(f"questions cannot be read: {error}") from error


def _decompress(packed: bytes) -> str:
    """raises : ValueError where this would become more than MOST_UNPACKED, or too many objects for the memory"""
    decompressor = zlib.decompressobj()
    data = decompressor.decompress(packed, MOST_UNPACKED)
    if not decompressor.eof:
        raise ValueError(f"they are cut off, or have more than {MOST_UNPACKED:,} bytes")
    if len(_TEXT.sub(b"", data)) > _MOST_FRAME:
        raise ValueError(f"they have more than {_MOST_FRAME:,} bytes beside their texts")
    return data.decode()


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


def crc(batch: int, place: int, key: bytes, value: bytes) -> int:
    """SQLite checks the structure of its pages, not their content: this finds a digit that has changed on disk."""
    return zlib.crc32(value, zlib.crc32(b"%d:%d:%b" % (batch, place, key)))


def intact(batch: int, place: int, key: bytes, value: bytes, checksum: int) -> bool:
    """Whether a stored answer has its checksum."""
    try:
        return crc(batch, place, key, value) == checksum
    except (TypeError, ValueError, OverflowError):  # a number or nothing where bytes should be, or infinity
        return False


def value_of(row: AnswerRow) -> Any:
    """The value of an answer. raises : ValueError where it is not JSON, without a word where it has not its checksum"""
    if not intact(*row):
        raise ValueError
    return parse_json(row[3].decode())  # of bytes, json guesses the encoding each time
