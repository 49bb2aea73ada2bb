"""Scores of rows, and what was asked for them: what comes out of a Scorer."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from ..io.texts import ItemBatch
from ..signature import Signature
from ..types import Score
from .votes import Jury


@dataclass(frozen=True, slots=True)
class Counts:
    """What was asked, and what came of it; of two batches of rows, one + other.

    statuses : of the scores. n_targets, n_attributes, n_rungs : asked about; rungs of a ladder, 0 where they differ
    n_questions : all of them. n_in_rounds, n_full : with a stop rule, those about texts, and of their whole ladders
    n_unmet : scores that do not meet the stop rule, though all was asked
    """

    statuses: Counter[str] = field(default_factory=Counter)
    n_targets: int = 0
    n_attributes: int = 0
    n_rungs: int = 0
    n_questions: int = 0
    n_in_rounds: int = 0
    n_full: int = 0
    n_unmet: int = 0

    def __add__(self, other: Counts) -> Counts:
        lengths = {counts.n_rungs for counts in (self, other) if counts.n_targets}
        summed = {column.name: getattr(self, column.name) + getattr(other, column.name) for column in fields(Counts)}
        n_attributes = max(self.n_attributes, other.n_attributes)
        n_rungs = lengths.pop() if len(lengths) == 1 else 0
        return replace(Counts(**summed), n_attributes=n_attributes, n_rungs=n_rungs)


LadderKind = tuple[str, str, int]
"""Task, attribute, number of rungs: what a scale is fitted for."""


@dataclass(frozen=True, slots=True)
class Scored:
    """rows[i] are the scores of item i, one an attribute, each with its signature.

    scales : that they are on. juries : of several judges, who votes
    """

    rows: Sequence[Sequence[tuple[Score, Signature]]]
    counts: Counts
    scales: Sequence[Any] = ()
    juries: Mapping[LadderKind, Jury] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[Score, Signature]]:
        return itertools.chain.from_iterable(self.rows)

    @property
    def used(self) -> tuple[Signature, ...]:
        """The signatures of what was asked about, each once."""
        same = {id(signature): signature for score, signature in self if score.n_comparisons or score.value is not None}
        return tuple(dict.fromkeys(same.values()))


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """Rows as they were read, some or all, and the scores of their items, in the same order."""

    batches: Sequence[ItemBatch]
    scored: Scored
