"""What is asked for anchored scores: texts against rungs, rungs against rungs, texts against texts.

All of it at once (synthscore.judging.verdicts), or in rounds: then adaptive.py says which question is next.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

from ...engine import Progress
from ...judging.asking import Inquiry
from ...judging.verdicts import Pair, Verdicts
from ...signature import text_hash
from ...types import BoolArray, FloatArray, IntArray, Ladder, Target
from ..texts import OnLadder
from .adaptive import Stop, ask_in_rounds
from .model import Answers
from .scale import Lengths, Scale, three_way
from .scores import answers_of, extended, lengths

BATCH = 10_000
"""Targets that are asked about in the same rounds."""


@dataclass(slots=True, eq=False)
class Group:
    """Targets on ladders of one length, and the pairs that are asked about.

    members : of each target, its place in the call. texts : the targets themselves. ladders : by context id
    place : of each target, place in ladders, shape (n_targets,)
    pair : as in answers_of. at : of each pair, its place among all pairs of the call
    length : as in Answers, rungs and targets; or None
    """

    n_rungs: int
    members: list[int]
    texts: list[Target]
    ladders: dict[str, Ladder]
    place: IntArray
    pair: list[tuple[int, int, int]]
    at: list[int]
    length: Lengths | None

    def answers(self, verdicts: Verdicts) -> Answers:
        """verdicts : of all pairs of the call"""
        pair = np.array(self.pair, dtype=np.int64).reshape(-1, 3)
        by_order = verdicts.by_order[:, self.at]
        return answers_of(list(self.ladders.values()), self.place, pair, by_order, verdicts.protocol, self.length)

    def among_rungs(self, attribute: str, placed: Container[str], n_before: int, both_orders: bool) -> list[Pair]:
        """Every rung is asked about against every other, of each ladder that is not placed yet.

        n_before : pairs of the call so far
        """
        pairs: list[Pair] = []
        for place, (name, ladder) in enumerate(self.ladders.items()):
            if name in placed:
                continue
            assert ladder.context is not None
            # In both orders, the question about (b, a) is that about (a, b) the other way round.
            for one, other in (combinations if both_orders else permutations)(ladder.usable, 2):
                self._add(n_before + len(pairs), (place, one.level - 1, other.level - 1))
                pairs.append(Pair(ladder.context, attribute, one.text, other.text))
        return pairs

    def among_targets(self, attribute: str, number: int, seed: int, n_before: int, both_orders: bool) -> list[Pair]:
        """Every target is asked about against `number` others of its context, or all there are.

        On a ring in an order that is drawn for each context, against the next ones: each is asked about as often as it
        is compared with, and no pair comes twice until all have.
        """
        pairs: list[Pair] = []
        for place, (name, ladder) in enumerate(self.ladders.items()):
            assert ladder.context is not None
            here = np.flatnonzero(self.place == place).tolist()
            here.sort(key=lambda k: self.texts[k].drawn_by)
            rng = np.random.default_rng([seed, int(text_hash(name, attribute)[:16], 16)])
            ring = [here[k] for k in rng.permutation(len(here)).tolist()]
            done = set()
            for step in range(1, min(number, len(ring) - 1) + 1):
                for k, one in enumerate(ring):
                    other = ring[(k + step) % len(ring)]
                    if both_orders and (other, one) in done:
                        continue  # the same question the other way round
                    done.add((one, other))
                    self._add(n_before + len(pairs), (place, self.n_rungs + one, self.n_rungs + other))
                    pairs.append(Pair(ladder.context, attribute, self.texts[one].text, self.texts[other].text))
        return pairs

    def _add(self, at: int, pair: tuple[int, int, int]) -> None:
        self.pair.append(pair)
        self.at.append(at)


def n_among_targets(n_targets: int, number: int, both_orders: bool) -> int:
    """Pairs that Group.among_targets makes of a context with so many targets."""
    most = n_targets * (n_targets - 1)
    return min(n_targets * number, most // 2 if both_orders else most)


def grouped(texts: Mapping[int, OnLadder], with_length: bool) -> list[Group]:
    """Groups of the texts by the length of their ladder, with their pairs of target and rung."""
    by_length: dict[int, list[int]] = {}
    for index, text in texts.items():
        by_length.setdefault(text.ladder.n_rungs, []).append(index)
    groups = []
    for n, members in sorted(by_length.items()):
        found = {texts[i].ladder.context_id: texts[i].ladder for i in members}
        places = {name: place for place, name in enumerate(found)}
        own = [texts[index].target for index in members]
        place = np.array([places[text.context_id] for text in own], dtype=np.int64)
        length = lengths(list(found.values()), [text.text for text in own], place) if with_length else None
        group = Group(n, members, own, found, place, [], [], length)
        for target, index in enumerate(members):
            for at, level in zip(texts[index].pairs, texts[index].levels, strict=True):
                group._add(at, (int(place[target]), n + target, level - 1))
        groups.append(group)
    return groups


def ask_adaptively(
    inquiry: Inquiry, groups: Sequence[Group], scales: Mapping[int, Scale], stop: Stop, progress: Progress | None
) -> dict[int, bool]:
    """Ask about rungs against each other, then about each target until the stop rule is met.

    scales : by length of ladder. On one whose judge does not see the rungs rise, nothing is asked
    returns : whether each target that was asked about, by its place in the call, meets the rule
    """
    asking = inquiry.asking
    n_orders = asking.n_orders
    n_skipped = sum(len(group.pair) for group in groups if not scales[group.n_rungs].judge.rungs_rise)
    if progress and n_skipped:
        progress(n_skipped * n_orders * asking.n_sides)
    groups = [group for group in groups if scales[group.n_rungs].judge.rungs_rise]
    met: dict[int, bool] = {}
    first = [
        at for group in groups for at, (_, one, _) in zip(group.at, group.pair, strict=True) if one < group.n_rungs
    ]
    if first:
        inquiry.ask(np.tile(first, n_orders), np.repeat([False, True][:n_orders], len(first)), progress)
    verdicts = inquiry.verdicts()
    for group in groups:
        n, scale = group.n_rungs, extended(group.answers(verdicts), group.ladders, scales[group.n_rungs])
        rows = np.full((len(group.members), n), -1, dtype=np.int64)  # places of pairs
        for at, (_, one, rung) in zip(group.at, group.pair, strict=True):
            if one >= n:
                rows[one - n, rung] = at
        by_context = np.argsort(group.place, kind="stable")  # prompts of a context share their beginning
        for start in range(0, len(by_context), BATCH):
            some = by_context[start : start + BATCH]

            def ask(target: IntArray, level: IntArray, swapped: BoolArray, own: IntArray = rows[some]) -> FloatArray:
                return three_way(inquiry.ask(own[target, level - 1], swapped, progress), asking.protocol)

            rounds = ask_in_rounds(
                scale,
                [group.texts[k].context_id for k in some.tolist()],
                ask,
                stop,
                both_orders=asking.both_orders,
                usable=rows[some] >= 0,
                lengths=None if group.length is None else (group.length[0][group.place[some]], group.length[1][some]),
            )
            met |= {group.members[k]: done for k, done in zip(some.tolist(), rounds.met.tolist(), strict=True)}
            if progress and (n_saved := int((rounds.n_full - rounds.n_asked).sum())):
                progress(n_saved * asking.n_sides)
    return met
