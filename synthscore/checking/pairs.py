"""Ladders -> pairs of rungs whose order is known, spread over ladders and distances from the first to the last."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, zip_longest
from typing import TypeVar

from ..judging.asking import Pair
from ..signature import text_hash
from ..types import Ladder, Rung, grouped
from .rungs import context_of

T = TypeVar("T")
Key = tuple[str, str]
"""A task and an attribute."""

DISTANCES = ("adjacent", "two apart", "far")


@dataclass(frozen=True, slots=True)
class RungPair:
    """Two rungs of a ladder."""

    ladder: Ladder
    lower: Rung
    higher: Rung

    @property
    def key(self) -> Key:
        return self.ladder.task, self.ladder.attribute

    @property
    def n_steps(self) -> int:
        return self.higher.level - self.lower.level

    @property
    def distance(self) -> int:
        """Index in DISTANCES."""
        return min(self.n_steps, len(DISTANCES)) - 1

    @property
    def hash(self) -> str:
        return text_hash(self.ladder.context_id, self.ladder.attribute, self.lower.text, self.higher.text)

    def question(self, attribute: str) -> Pair:
        """What the judge is asked about."""
        return Pair(context_of(self.ladder), attribute, target=self.higher.text, reference=self.lower.text)


def rung_pairs(ladders: Iterable[Ladder]) -> dict[Key, list[RungPair]]:
    """All pairs of each task and attribute, in an order of which every beginning is spread over ladders and distances.
    It is drawn by hashes, so that it does not depend on the order of the ladders.
    raises : LadderError for a ladder without its context
    """
    groups: dict[Key, list[list[RungPair]]] = {}
    for ladder in sorted(ladders, key=lambda ladder: (ladder.hash, ladder.context_id)):
        context_of(ladder)
        pairs = [RungPair(ladder, lower, higher) for lower, higher in combinations(ladder.usable, 2)]
        pairs.sort(key=lambda pair: pair.hash)
        if not pairs:
            continue
        by_distance: list[list[RungPair]] = [[] for _ in DISTANCES]
        for pair in pairs:
            by_distance[pair.distance].append(pair)
        group = groups.setdefault(pairs[0].key, [])
        start = len(group) % len(DISTANCES)  # Ladders begin with different distances.
        group.append(in_turn(by_distance[start:] + by_distance[:start]))
    return {key: in_turn(group) for key, group in sorted(groups.items())}


def widest_of_each_ladder(pairs: Iterable[RungPair]) -> list[RungPair]:
    """Of each ladder the pair whose rungs are furthest apart."""
    groups = grouped((id(pair.ladder), pair) for pair in pairs)
    return [max(group, key=lambda pair: pair.n_steps) for group in groups.values()]


def in_turn(queues: Iterable[Sequence[T]]) -> list[T]:
    """The first of each, then the second of each."""
    return [item for item in chain.from_iterable(zip_longest(*queues)) if item is not None]
