"""The manifest beside a file of questions: who is asked what under which id, from which `add.py` makes rows of a store.

JSON, a line at a time: the judge first, then chunks of questions, compressed together, with the stems of their ids. It
may be damaged, or a stranger's: a question counts where its own key, by the judge's signature, gives the stem that the
manifest has for it, and a chunk that cannot be read is left out and counted.
"""

from __future__ import annotations

import binascii
import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...engine import Question
from ...errors import InputError
from ...io.fields import parse_json
from ...signature import Signature
from ...store.packing import pack, unpack
from .ids import stem_of

FORMAT = 1
CHUNK = 512  # questions that are compressed, and later read, together
BACKENDS = ("batch-words", "batch-ids")
_MOST_LINE = 1 << 28  # bytes of a chunk


@dataclass(frozen=True, slots=True)
class Asked:
    """Whom the questions of a file are for.

    signature : of the engine. model : as the service knows it. wire : the form of the file
    tokenizer : folder or hub id; "" where none is needed
    """

    signature: str
    model: str
    wire: str
    tokenizer: str = ""


def manifest_of(path: Path) -> Path:
    """Of a file of questions."""
    return path.with_name(f"{path.name}.manifest")


def head_line(asked: Asked) -> bytes:
    return _line({"synthscore_questions": FORMAT, **asdict(asked)})


def chunk_line(stems: Sequence[str], questions: Sequence[Question]) -> bytes:
    packed = binascii.b2a_base64(pack(questions), newline=False).decode()
    return _line({"ids": list(stems), "questions": packed})


def _line(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class ManifestBlock:
    """Questions of a manifest as they lie there. line : its bytes; packed : as base64"""

    stems: tuple[str, ...]
    packed: str
    line: bytes

    def questions(self, signature: str) -> list[tuple[bytes, Question] | None]:
        """Each with its key; None where its key does not give its id. raises : ValueError where it cannot be read"""
        try:
            questions = unpack(binascii.a2b_base64(self.packed, strict_mode=True))
        except sqlite3.DatabaseError as error:
            raise ValueError(str(error)) from error
        if len(questions) != len(self.stems):
            raise ValueError(f"{len(questions)} questions with {len(self.stems)} ids, expected one each")
        keyed = [(question.key(signature), question) for question in questions]
        return [pair if stem_of(pair[0]) == stem else None for pair, stem in zip(keyed, self.stems, strict=True)]


class Manifest:
    """A manifest that is there. n_damaged : lines that are no chunk, once `chunks` has met them

    raises : InputError, where the file is none, or says of itself what it cannot
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.n_damaged = 0
        try:
            with path.open("rb") as file:
                self.asked = self._head(file.readline(_MOST_LINE))
        except OSError as error:
            raise InputError(f"cannot read the manifest {path}: {error.strerror}. Check the path") from error

    def _head(self, line: bytes) -> Asked:
        try:
            row = parse_json(line.decode())
            version, asked = row.pop("synthscore_questions"), Asked(**row)
            if not all(isinstance(value, str) for value in asdict(asked).values()):
                raise TypeError("not all of it is text")
            signature = Signature.parse(asked.signature)
        except (ValueError, TypeError, LookupError, AttributeError, InputError) as error:
            raise self._error(f"its first line is none of a manifest ({error!s:.200})") from error
        if version != FORMAT:
            raise self._error(f"it has format {version!r:.20}, expected {FORMAT}")
        if signature.part("backend") not in BACKENDS or signature.part("model") != asked.model:
            raise self._error(
                f"it is for the judge {asked.signature[:200]}, expected one that is asked through files, by the name "
                f"{asked.model!r:.80}"
            )
        return asked

    def _error(self, what: str) -> InputError:
        return InputError(
            f"cannot use the manifest {self.path}: {what}. Write the questions again, with the command that wrote them",
            source=str(self.path),
        )

    def chunks(self) -> Iterator[ManifestBlock]:
        """Those that can be read."""
        self.n_damaged = 0
        with self.path.open("rb") as file:
            file.readline(_MOST_LINE)
            while line := file.readline(_MOST_LINE):
                try:
                    row = parse_json(line.decode())
                    stems, packed = row["ids"], row["questions"]
                    if not isinstance(packed, str) or not all(isinstance(stem, str) for stem in stems):
                        raise TypeError
                    chunk = ManifestBlock(tuple(stems), packed, line)
                except (ValueError, TypeError, LookupError):
                    self.n_damaged += 1
                    continue
                yield chunk
