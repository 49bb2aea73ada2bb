"""Texts on ladders -> the questions of anchored scores: texts against rungs, and rungs against rungs.

Ladders of different lengths have scales of their own, so that texts are grouped by length (`group_by_length`). Then all
is asked at once (synthscore.judging.asking), or in rounds (`ask_adaptively`): adaptive.py says which question is next.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, permutations

import numpy as np

from ...engine import Progress, together
from ...judging.asking import Inquiry, Pair, Verdicts
from ...types import BoolArray, FloatArray, IntArray, Ladder
from ..ladder import OnLadder, rescaled
from .adaptive import Stop, ask_in_rounds
from .model import SoftAnswers
from .scale import Scale, three_way
from .scores import add_ladders, gather_answers

MOST_CHARACTERS = 2**16
"""Length of the texts and contexts that are asked about in the same rounds; the last context's texts may exceed it.
Little enough that a model keeps what it has read from one round to the next (engine.together), and enough that a round
is more than a few short prompts."""


@dataclass(frozen=True, slots=True, eq=False)
class LengthGroup:
    """Targets on ladders of one length, and the pairs that are asked about.

    members : of each target, its index in the call. ladders : by context id
    ladder_of : of each target, index in ladders, shape (n_targets,)
    compared : as in gather_answers. pairs : index of each among all pairs of the call, shape (n_pairs,)
    """

    n_rungs: int
    members: list[int]
    ladders: dict[str, Ladder]
    ladder_of: IntArray
    compared: IntArray
    pairs: IntArray

    def answers(self, verdicts: Verdicts) -> SoftAnswers:
        """verdicts : of all pairs of the call"""
        return gather_answers(
            n_rungs=self.n_rungs,
            n_ladders=len(self.ladders),
            ladder_of=self.ladder_of,
            compared=self.compared,
            by_order=verdicts.by_order[:, self.pairs],
            protocol=verdicts.protocol,
            n_samples=verdicts.n_samples[:, self.pairs],
        )


def group_by_length(
    *,
    texts: Mapping[int, OnLadder],
    pairs: list[Pair],
    attribute: str,
    scales: Mapping[int, Scale],
    both_orders: bool,
) -> list[LengthGroup]:
    """The texts by the length of their ladder.

    pairs : of texts and rungs. Pairs of two rungs are added to it: every rung against every other, of each ladder that
        no scale has placed
    scales : by length of ladder
    """
    by_length: dict[int, list[int]] = {}
    for index, text in texts.items():
        by_length.setdefault(text.ladder.n_rungs, []).append(index)
    groups = []
    for n, members in sorted(by_length.items()):
        ladders = {texts[index].ladder.context_id: texts[index].ladder for index in members}
        numbers = {name: number for number, name in enumerate(ladders)}
        ladder_of = [numbers[texts[index].ladder.context_id] for index in members]
        # Ladder, text and rung of each pair that is asked about, numbered as in SoftAnswers, and the pair's own index.
        compared: list[tuple[int, int, int]] = []
        asked: list[int] = []
        for target, index in enumerate(members):
            asked += texts[index].pairs
            for level in texts[index].levels:
                compared.append((ladder_of[target], n + target, level - 1))
        placed: Collection[str] = ()
        if n in scales:
            placed = scales[n].ladders
        for name, ladder in ladders.items():
            if name in placed:
                continue
            assert ladder.context is not None
            # Where both orders are asked, the pair (b, a) is the pair (a, b) the other way round.
            pick = combinations if both_orders else permutations
            for one, other in pick(ladder.usable, 2):
                asked.append(len(pairs))
                compared.append((numbers[name], one.level - 1, other.level - 1))
                pairs.append(Pair(ladder.context, attribute, one.text, other.text))
        group = LengthGroup(
            n_rungs=n,
            members=members,
            ladders=ladders,
            ladder_of=np.array(ladder_of, dtype=np.int64),
            compared=np.array(compared, dtype=np.int64).reshape(-1, 3),
            pairs=np.array(asked, dtype=np.int64),
        )
        groups.append(group)
    return groups


def ask_adaptively(
    inquiry: Inquiry, groups: Sequence[LengthGroup], scales: Mapping[int, Scale], stop: Stop, progress: Progress | None
) -> dict[int, bool]:
    """Ask about rungs against each other, then about each target until the stop rule is met.

    scales : by length of ladder. On one whose judge does not see the rungs rise, nothing is asked
    returns : whether each target that was asked about meets the rule, by its index in the call
    """
    asking = inquiry.asking
    met: dict[int, bool] = {}
    rising = [group for group in groups if scales[group.n_rungs].judge.rungs_rise]
    n_skipped = sum(len(group.pairs) for group in groups if group not in rising)
    if progress and n_skipped:
        progress(n_skipped * asking.n_questions)
    among_rungs: list[int] = []
    for group in rising:
        among_rungs += group.pairs[group.compared[:, 1] < group.n_rungs].tolist()
    if among_rungs:
        orders = [False, True][: asking.n_orders]
        pair = np.tile(among_rungs, len(orders))
        swapped = np.repeat(orders, len(among_rungs))
        inquiry.ask(pair, swapped, progress)
        if inquiry.postponed(np.array(among_rungs)).any():  # Without these answers, no next question can be chosen.
            return met
    verdicts = inquiry.verdicts()
    for group in rising:
        n = group.n_rungs
        scale = add_ladders(group.answers(verdicts), group.ladders, scales[n])
        about_texts = group.compared[:, 1] >= n
        _, text, rung = group.compared[about_texts].T
        pair_of = np.full((len(group.members), n), -1, dtype=np.int64)  # -1: not asked about
        pair_of[text - n, rung] = group.pairs[about_texts]
        contexts = list(group.ladders)
        scale_of = np.array([ladder.scale for ladder in group.ladders.values()])[group.ladder_of]
        for block in _blocks(group, pair_of.max(axis=1), scale_of, inquiry.pairs):
            block_pairs = pair_of[block]
            threshold = rescaled(stop.threshold, int(scale_of[block[0]]), n)

            def ask(
                target: IntArray, level: IntArray, swapped: BoolArray, block_pairs: IntArray = block_pairs
            ) -> FloatArray:
                pair = block_pairs[target, level - 1]
                probs = three_way(inquiry.ask(pair, swapped, progress), asking.protocol)
                return np.where(inquiry.postponed(pair)[:, None], np.inf, probs)

            block_contexts = [contexts[index] for index in group.ladder_of[block].tolist()]
            n_samples = float(inquiry.signature.part("votes") or "inf")
            with together():
                rounds = ask_in_rounds(
                    scale=scale,
                    contexts=block_contexts,
                    ask=ask,
                    stop=replace(stop, threshold=threshold),
                    both_orders=asking.n_orders == 2,
                    usable=block_pairs >= 0,
                    n_samples=n_samples,
                )
            for target, done in zip(block.tolist(), rounds.met.tolist(), strict=True):
                met[group.members[target]] = done
            n_saved = int((rounds.n_full - rounds.n_asked)[rounds.met].sum())
            if progress and n_saved:
                progress(n_saved * asking.n_sides)
    return met


def _blocks(group: LengthGroup, pair: IntArray, scale_of: IntArray, pairs: Sequence[Pair]) -> Iterator[IntArray]:
    """The group's targets, those of a context side by side, in blocks of MOST_CHARACTERS and of one scale.

    pair : of each target, one of the pairs that it is in; -1: none. scale_of : of each target's ladder
    """
    block: list[int] = []
    n_characters = 0
    last = -1
    for target in np.lexsort((group.ladder_of, scale_of)).tolist():
        ladder = group.ladder_of[target]
        other_scale = block and scale_of[target] != scale_of[block[0]]
        full = n_characters > MOST_CHARACTERS or (n_characters > MOST_CHARACTERS / 2 and ladder != last)
        if other_scale or full:
            yield np.array(block, dtype=np.int64)
            block = []
            n_characters = 0
            last = -1
        block.append(target)
        if pair[target] >= 0:
            asked = pairs[pair[target]]
            n_characters += len(asked.target)
            if ladder != last:
                n_characters += len(asked.context.text)
        last = ladder
    yield np.array(block, dtype=np.int64)
