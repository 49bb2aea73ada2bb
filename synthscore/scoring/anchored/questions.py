"""What is asked for anchored scores: texts against rungs, and rungs against rungs.

All of it at once (synthscore.judging.asking), or in rounds: then adaptive.py says which question is next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


@dataclass(frozen=True, slots=True, eq=False)
class Group:
    """Targets on ladders of one length, and the pairs that are asked about.

    members : of each target, its index in the call. ladders : by context id
    ladder_of : of each target, index in ladders, shape (n_targets,)
    pair : as in answers_of. at : of each pair, its index among all pairs of the call, shape (n_pairs,)
    """

    n_rungs: int
    members: list[int]
    ladders: dict[str, Ladder]
    ladder_of: IntArray
    pair: IntArray
    at: IntArray

    def answers(self, verdicts: Verdicts) -> Answers:
        """verdicts : of all pairs of the call"""
        by_order = verdicts.by_order[:, self.at]
        return answers_of(list(self.ladders.values()), self.ladder_of, self.pair, by_order, verdicts.protocol)


def grouped(
    texts: Mapping[int, OnLadder],
    pairs: list[Pair],
    attribute: str,
    scales: Mapping[int, Scale],
    both_orders: bool,
) -> list[Group]:
    """The texts by the length of their ladder.

    pairs : of texts and rungs. Those among rungs are added: every rung is asked about against every other, of each
        ladder that no scale has placed. scales : by length of ladder
    """
    by_length: dict[int, list[int]] = {}
    for index, text in texts.items():
        by_length.setdefault(text.ladder.n_rungs, []).append(index)
    groups = []
    for n, members in sorted(by_length.items()):
        ladders = {texts[index].ladder.context_id: texts[index].ladder for index in members}
        places = {name: place for place, name in enumerate(ladders)}
        of = [places[texts[index].ladder.context_id] for index in members]
        pair = [(of[k], n + k, level - 1) for k, index in enumerate(members) for level in texts[index].levels]
        at = [pair for index in members for pair in texts[index].pairs]
        placed = scales[n].ladders if n in scales else {}
        for name in [name for name in ladders if name not in placed]:
            ladder = ladders[name]
            assert ladder.context is not None
            # In both orders, the question about (b, a) is that about (a, b) the other way round.
            for one, other in (combinations if both_orders else permutations)(ladder.usable, 2):
                at.append(len(pairs))
                pair.append((places[name], one.level - 1, other.level - 1))
                pairs.append(Pair(ladder.context, attribute, one.text, other.text))
        group = Group(
            n_rungs=n,
            members=members,
            ladders=ladders,
            ladder_of=np.array(of, dtype=np.int64),
            pair=np.array(pair, dtype=np.int64).reshape(-1, 3),
            at=np.array(at, dtype=np.int64),
        )
        groups.append(group)
    return groups


def ask_adaptively(
    inquiry: Inquiry, groups: Sequence[Group], scales: Mapping[int, Scale], stop: Stop, progress: Progress | None
) -> dict[int, bool]:
    """Ask about rungs against each other, then about each target until the stop rule is met.

    scales : by length of ladder. On one whose judge does not see the rungs rise, nothing is asked
    returns : whether each target that was asked about, by its place in the call, meets the rule
    """
    asking, met = inquiry.asking, dict[int, bool]()
    rising = [group for group in groups if scales[group.n_rungs].judge.rungs_rise]
    n_skipped = sum(len(group.at) for group in groups) - sum(len(group.at) for group in rising)
    if progress and n_skipped:
        progress(n_skipped * asking.n_questions)
    first = [at for group in rising for at in group.at[group.pair[:, 1] < group.n_rungs].tolist()]
    if first:
        orders = [False, True][: asking.n_orders]
        inquiry.ask(np.tile(first, len(orders)), np.repeat(orders, len(first)), progress)
    verdicts = inquiry.verdicts()
    for group in rising:
        n, scale = group.n_rungs, extended(group.answers(verdicts), group.ladders, scales[group.n_rungs])
        rows = np.full((len(group.members), n), -1, dtype=np.int64)  # places of pairs
        _, one, rung = group.pair.T
        rows[one[one >= n] - n, rung[one >= n]] = group.at[one >= n]
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
