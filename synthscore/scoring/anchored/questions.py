"""What is asked for anchored scores: texts against rungs, and rungs against rungs.

All of it at once (synthscore.judging.asking), or in rounds: then adaptive.py says which question is next.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

import numpy as np

from ...engine import Progress, together
from ...judging.asking import Inquiry, Pair, Verdicts
from ...types import BoolArray, FloatArray, IntArray, Ladder
from ..paper import OnLadder
from .adaptive import Stop, ask_in_rounds
from .model import Answers
from .scale import Scale, three_way
from .scores import answers_of, extended

MOST_CHARACTERS = 2**16
"""Of the texts and contexts that share their rounds, but for a context's last ones: so little that models keep what
they read of it from one round to the next (engine.together), enough that a round is not a few short prompts."""


@dataclass(slots=True, eq=False)
class Group:
    """Targets on ladders of one length, and the pairs that are asked about.

    members : of each target, its index in the call. ladders : by context id
    ladder_of : of each target, index in ladders, shape (n_targets,)
    pair : as in answers_of. at : of each pair, its index among all pairs of the call
    """

    n_rungs: int
    members: list[int]
    ladders: dict[str, Ladder]
    ladder_of: IntArray
    pair: list[tuple[int, int, int]]
    at: list[int]

    def answers(self, verdicts: Verdicts) -> Answers:
        """verdicts : of all pairs of the call"""
        pair = np.array(self.pair, dtype=np.int64).reshape(-1, 3)
        by_order = verdicts.by_order[:, self.at]
        return answers_of(list(self.ladders.values()), self.ladder_of, pair, by_order, verdicts.protocol)

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
                self.at.append(n_before + len(pairs))
                self.pair.append((place, one.level - 1, other.level - 1))
                pairs.append(Pair(ladder.context, attribute, one.text, other.text))
        return pairs


def grouped(texts: Mapping[int, OnLadder]) -> list[Group]:
    """Groups of the texts by the length of their ladder, with their pairs of target and rung."""
    by_length: dict[int, list[int]] = {}
    for index, text in texts.items():
        by_length.setdefault(text.ladder.n_rungs, []).append(index)
    groups = []
    for n, members in sorted(by_length.items()):
        found = {texts[i].ladder.context_id: texts[i].ladder for i in members}
        places = {name: place for place, name in enumerate(found)}
        place = [places[texts[index].ladder.context_id] for index in members]
        pair = [(place[k], n + k, level - 1) for k, index in enumerate(members) for level in texts[index].levels]
        at = [pair for index in members for pair in texts[index].pairs]
        groups.append(Group(n, members, found, np.array(place, dtype=np.int64), pair, at))
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
        contexts = list(group.ladders)
        for some in _blocks(group, rows.max(axis=1), inquiry.pairs):

            def ask(target: IntArray, level: IntArray, swapped: BoolArray, own: IntArray = rows[some]) -> FloatArray:
                return three_way(inquiry.ask(own[target, level - 1], swapped, progress), asking.protocol)

            with together():
                rounds = ask_in_rounds(
                    scale,
                    [contexts[place] for place in group.ladder_of[some].tolist()],
                    ask,
                    stop,
                    both_orders=asking.both_orders,
                    usable=rows[some] >= 0,
                )
            met |= {group.members[k]: done for k, done in zip(some.tolist(), rounds.met.tolist(), strict=True)}
            if progress and (n_saved := int((rounds.n_full - rounds.n_asked).sum())):
                progress(n_saved * asking.n_sides)
    return met


def _blocks(group: Group, pair: IntArray, pairs: Sequence[Pair]) -> Iterator[IntArray]:
    """The group's targets, those of a context side by side, in blocks of MOST_CHARACTERS.

    pair : of each target, one of the pairs that it is in; -1: none
    """
    block: list[int] = []
    n, last = 0, -1
    for target in np.argsort(group.ladder_of, kind="stable").tolist():
        if n > MOST_CHARACTERS or (n > MOST_CHARACTERS / 2 and group.ladder_of[target] != last):
            yield np.array(block, dtype=np.int64)
            block, n, last = [], 0, -1
        block.append(target)
        if pair[target] >= 0:
            asked = pairs[pair[target]]
            n += len(asked.target) + (len(asked.context.text) if group.ladder_of[target] != last else 0)
        last = group.ladder_of[target]
    yield np.array(block, dtype=np.int64)
