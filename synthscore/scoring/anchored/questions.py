"""What is asked for anchored scores: texts against rungs, and rungs against rungs.

All of it at once (synthscore.judging.asking), or in rounds: then adaptive.py says which question is next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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
from .scores import answers_of, extended

MOST_CHARACTERS = 2**16
"""Of the texts and contexts that share their rounds, but for a context's last ones: so little that models keep what
they read of it from one round to the next (engine.together), enough that a round is not a few short prompts."""


@dataclass(frozen=True, slots=True, eq=False)
class LengthGroup:
    """Targets on ladders of one length, and the pairs that are asked about.

    members : of each target, its index in the call. ladders : by context id
    ladder_of : of each target, index in ladders, shape (n_targets,)
    compared : as in answers_of. pairs : index of each among all pairs of the call, shape (n_pairs,)
    """

    n_rungs: int
    members: list[int]
    ladders: dict[str, Ladder]
    ladder_of: IntArray
    compared: IntArray
    pairs: IntArray

    def answers(self, verdicts: Verdicts) -> SoftAnswers:
        """verdicts : of all pairs of the call"""
        return answers_of(
            n_rungs=self.n_rungs,
            n_ladders=len(self.ladders),
            ladder_of=self.ladder_of,
            compared=self.compared,
            by_order=verdicts.by_order[:, self.pairs],
            protocol=verdicts.protocol,
            n_samples=verdicts.n_samples[:, self.pairs],
        )


def grouped(
    texts: Mapping[int, OnLadder],
    pairs: list[Pair],
    attribute: str,
    scales: Mapping[int, Scale],
    both_orders: bool,
) -> list[LengthGroup]:
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
        names = {name: index for index, name in enumerate(ladders)}
        ladder_of = [names[texts[index].ladder.context_id] for index in members]
        compared: list[tuple[int, int, int]] = []
        asked: list[int] = []
        for target, index in enumerate(members):
            asked += texts[index].pairs
            compared += [(ladder_of[target], n + target, level - 1) for level in texts[index].levels]
        placed = scales[n].ladders if n in scales else {}
        for name, ladder in ladders.items():
            if name in placed:
                continue
            assert ladder.context is not None
            # In both orders, the question about (b, a) is that about (a, b) the other way round.
            for one, other in (combinations if both_orders else permutations)(ladder.usable, 2):
                asked.append(len(pairs))
                compared.append((names[name], one.level - 1, other.level - 1))
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
    returns : whether each target that was asked about, by its place in the call, meets the rule
    """
    asking = inquiry.asking
    met = dict[int, bool]()
    rising = [group for group in groups if scales[group.n_rungs].judge.rungs_rise]
    n_skipped = sum(len(group.pairs) for group in groups if group not in rising)
    if progress and n_skipped:
        progress(n_skipped * asking.n_questions)
    first = [pair for group in rising for pair in group.pairs[group.compared[:, 1] < group.n_rungs].tolist()]
    if first:
        orders = [False, True][: asking.n_orders]
        inquiry.ask(np.tile(first, len(orders)), np.repeat(orders, len(first)), progress)
        if inquiry.postponed(np.array(first)).any():  # the scale depends on them, and on it which questions come next
            return met
    verdicts = inquiry.verdicts()
    for group in rising:
        n = group.n_rungs
        scale = extended(group.answers(verdicts), group.ladders, scales[n])
        of_texts = group.compared[:, 1] >= n
        _, text, rung = group.compared[of_texts].T
        pair_of = np.full((len(group.members), n), -1, dtype=np.int64)
        pair_of[text - n, rung] = group.pairs[of_texts]
        contexts = list(group.ladders)
        scale_of = np.array([ladder.scale for ladder in group.ladders.values()])[group.ladder_of]
        for block in _blocks(group, pair_of.max(axis=1), scale_of, inquiry.pairs):
            own = pair_of[block]
            threshold = rescaled(stop.threshold, int(scale_of[block[0]]), n)

            def ask(target: IntArray, level: IntArray, swapped: BoolArray, own: IntArray = own) -> FloatArray:
                pair = own[target, level - 1]
                found = three_way(inquiry.ask(pair, swapped, progress), asking.protocol)
                return np.where(inquiry.postponed(pair)[:, None], np.inf, found)

            with together():
                rounds = ask_in_rounds(
                    scale,
                    [contexts[index] for index in group.ladder_of[block].tolist()],
                    ask,
                    replace(stop, threshold=threshold),
                    both_orders=asking.n_orders == 2,
                    usable=own >= 0,
                    n_samples=float(inquiry.signature.part("votes") or "inf"),
                )
            met |= {group.members[k]: done for k, done in zip(block.tolist(), rounds.met.tolist(), strict=True)}
            n_saved = int((rounds.n_full - rounds.n_asked).sum())
            if progress and n_saved:
                progress(n_saved * asking.n_sides)
    return met


def _blocks(group: LengthGroup, pair: IntArray, scale_of: IntArray, pairs: Sequence[Pair]) -> Iterator[IntArray]:
    """The group's targets, those of a context side by side, in blocks of MOST_CHARACTERS and of one scale.

    pair : of each target, one of the pairs that it is in; -1: none. scale_of : of each target's ladder
    """
    block: list[int] = []
    n = 0
    last = -1
    for target in np.lexsort((group.ladder_of, scale_of)).tolist():
        other_scale = block and scale_of[target] != scale_of[block[0]]
        if other_scale or n > MOST_CHARACTERS or (n > MOST_CHARACTERS / 2 and group.ladder_of[target] != last):
            yield np.array(block, dtype=np.int64)
            block = []
            n = 0
            last = -1
        block.append(target)
        if pair[target] >= 0:
            asked = pairs[pair[target]]
            n += len(asked.target) + (len(asked.context.text) if group.ladder_of[target] != last else 0)
        last = group.ladder_of[target]
    yield np.array(block, dtype=np.int64)
