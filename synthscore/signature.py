"""What a number depends on, as one printable line; and the hash of texts that goes into it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import InputError

if TYPE_CHECKING:
    import numpy as np


def text_hash(*texts: str) -> str:
    """Hex sha256 of texts, each preceded by its length, so that ("ab", "c") and ("a", "bc") differ."""
    return texts_hash(texts)


def texts_hash(texts: Iterable[str]) -> str:
    """As text_hash, of more texts than are in memory at a time."""
    digest = hashlib.sha256()
    for text in texts:
        data = text.encode()
        digest.update(f"{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()


def file_hash(path: str | Path) -> str:
    """The first 12 hex digits of a file's sha256. raises : OSError where it cannot be read"""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()[:12]


def seeded_rng(seed: int, *names: str) -> np.random.Generator:
    """For what is drawn about what has these names: numbers that depend on the seed and them alone."""
    import numpy as np  # not where only --help is printed

    return np.random.default_rng([seed, int(text_hash(*names)[:16], 16)])


@dataclass(frozen=True, slots=True)
class Signature:
    """Everything that can change a number, as one printable line: `synthscore:0.2.0|model:nano@1f2e|...`.

    In the line, a "|" inside a value is "%7C", and a "%" is "%25".
    """

    parts: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, **parts: object) -> Signature:
        return cls(tuple((key, str(value)) for key, value in parts.items()))

    @classmethod
    def parse(cls, line: str) -> Signature:
        """The signature that prints as this line."""
        signature = cls.of_any(line)
        if not all(key and ":" in part for (key, _), part in zip(signature.parts, line.split("|"), strict=True)):
            raise InputError(f"cannot read the signature {line!r}: expected NAME:VALUE|NAME:VALUE|...", value=line)
        return signature

    @classmethod
    def of_any(cls, line: str) -> Signature:
        """As `parse`, of any line: to show what a file says. What has no colon is a name without a value."""
        parts = (part.partition(":") for part in line.split("|"))
        return cls(tuple((key, value.replace("%7C", "|").replace("%25", "%")) for key, _, value in parts))

    def part(self, name: str) -> str:
        """The value of a part; "" where there is none of this name."""
        return dict(self.parts).get(name, "")

    def with_(self, **parts: object) -> Signature:
        """A signature with parts added or replaced."""
        merged = dict(self.parts) | {key: str(value) for key, value in parts.items()}
        return Signature(tuple(merged.items()))

    @classmethod
    def merged(cls, signatures: Iterable[Signature]) -> Signature:
        """The signature of what several made together: a part in which they differ holds all values, "a & b", sorted.

        A part that one of them lacks is "none" there: `model:m & none`. In whatever order, and of what was merged
        before, it is the same.
        """
        each = [dict(signature.parts) for signature in sorted(set(signatures), key=str)]
        keys = dict.fromkeys(key for parts in each for key in parts)
        values = {key: {value for parts in each for value in parts.get(key, "none").split(" & ")} for key in keys}
        return cls(tuple((key, " & ".join(sorted(found))) for key, found in values.items()))

    def differs(self, other: Signature) -> dict[str, tuple[str | None, str | None]]:
        """Part -> its value here, and in the other; None where there is no such part."""
        ours, theirs = dict(self.parts), dict(other.parts)
        return {key: (ours.get(key), theirs.get(key)) for key in ours | theirs if ours.get(key) != theirs.get(key)}

    @property
    def mixed(self) -> tuple[tuple[str, str], ...]:
        """The parts in which those that made it together differ."""
        return tuple((key, value) for key, value in self.parts if " & " in value)

    def __str__(self) -> str:
        escaped = ((key, value.replace("%", "%25").replace("|", "%7C")) for key, value in self.parts)
        return "|".join(f"{key}:{value}" for key, value in escaped)
