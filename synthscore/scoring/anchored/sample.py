"""Answers -> those on which a judge is fitted: of many a sample, spread over all ladders; none about bad ladders."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...types import BoolArray
from .model import SoftAnswers

MOST_ANSWERS = 50_000


def choose_answers(answers: SoftAnswers, most: int = MOST_ANSWERS) -> SoftAnswers:
    """The answers about some targets, as many as have no more than `most` answers together.

    Every ladder has one target in the sample before any has a second. The choice depends on the numbers of targets and
    answers alone.
    """
    if len(answers) <= most:
        return answers
    rng = np.random.default_rng(0)
    n = answers.n_rungs
    n_targets = answers.n_targets
    ladder_of = answers.target_ladder

    # turn : 0 for one target of each ladder, drawn at random, 1 for a second one, and so on.
    by_ladder = np.lexsort((rng.random(n_targets), ladder_of))
    first_of_ladder = np.searchsorted(ladder_of[by_ladder], ladder_of[by_ladder])
    turn = np.empty(n_targets, dtype=np.int64)
    turn[by_ladder] = np.arange(n_targets) - first_of_ladder

    # Targets are taken turn by turn, ladders in a random order, while the answers about them are not too many. The
    # first target of a ladder brings the answers about its rungs with it.
    ladder_order = rng.permutation(answers.n_ladders)
    order = np.lexsort((ladder_order[ladder_of], turn))
    among_rungs = answers.first < n
    about = np.where(among_rungs, 0, answers.first - n)
    target_costs = np.bincount(about[~among_rungs], minlength=n_targets)
    ladder_costs = np.bincount(answers.ladder[among_rungs], minlength=answers.n_ladders)
    costs = target_costs[order] + np.where(turn[order] == 0, ladder_costs[ladder_of[order]], 0)
    n_kept = max(1, int(np.searchsorted(np.cumsum(costs), most, "right")))
    kept = np.zeros(answers.n_targets, dtype=bool)
    kept[order[:n_kept]] = True
    ladders = np.zeros(answers.n_ladders, dtype=bool)
    ladders[ladder_of[kept]] = True
    return _keep(answers, ladders, kept)


def leave_out(answers: SoftAnswers, ladders: BoolArray) -> SoftAnswers:
    """The answers about other ladders than these, and about texts on them. ladders : bool, shape (n_ladders,)"""
    if not ladders.any():
        return answers
    return _keep(answers, ~ladders, ~ladders[answers.target_ladder])


def _keep(answers: SoftAnswers, ladders: BoolArray, targets: BoolArray) -> SoftAnswers:
    """The answers about these ladders, and about these targets on them, with the numbers of both anew."""
    n = answers.n_rungs
    among_rungs = answers.first < n
    about = np.where(among_rungs, 0, answers.first - n)
    some = answers.take(np.where(among_rungs, ladders[answers.ladder], targets[about]))
    new_ladder = np.cumsum(ladders) - 1
    new_code = np.concatenate([np.arange(n), n + np.cumsum(targets) - 1])
    return replace(
        some,
        n_ladders=int(ladders.sum()),
        target_ladder=new_ladder[answers.target_ladder[targets]],
        ladder=new_ladder[some.ladder],
        first=new_code[some.first],
    )
