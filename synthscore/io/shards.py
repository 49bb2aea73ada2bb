"""A run that is shared out among machines: each works on the contexts that a hash of their ids gives to its shard."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import InputError, unusable
from ..signature import text_hash


@dataclass(frozen=True, slots=True)
class Shard:
    """One of the shards of a run: `2/7`. index : from 1 to count. raises : InputError"""

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise InputError(f"shard is {self}, expected 1/n to n/n. Count shards from 1", field="shard", value=self)

    @classmethod
    def parse(cls, text: str) -> Shard:
        """The shard that `i/n` names. raises : InputError"""
        index, _, count = text.partition("/")
        if not (index.isdecimal() and count.isdecimal()):
            raise unusable("shard", text, "i/n", "As in 2/7, the second of seven")
        return cls(int(index), int(count))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def owns(self, context_id: str) -> bool:
        """Whether a context belongs to this shard; every machine, verb and order of rows gives the same answer."""
        return int(text_hash(context_id)[-16:], 16) % self.count == self.index - 1
