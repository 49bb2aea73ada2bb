"""Many answers -> some of them, spread over all ladders, that a judge is fitted on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .model import SoftAnswers

MOST_ANSWERS = 50_000


def choose_answers(answers: SoftAnswers, most: int = MOST_ANSWERS) -> SoftAnswers:
    """The answers about as many targets as have `most` together, a target of every ladder before a second of any."""
    if len(answers) <= most:
        return answers
    rng = np.random.default_rng(0)
    n = answers.n_rungs
    ladder_of = answers.target_ladder
    order = np.lexsort((rng.random(answers.n_targets), ladder_of))
    starts = np.searchsorted(ladder_of[order], ladder_of[order])
    turn = np.empty(answers.n_targets, dtype=np.int64)
    turn[order] = np.arange(answers.n_targets) - starts
    order = np.lexsort((rng.permutation(answers.n_ladders)[ladder_of], turn))
    among_rungs = answers.first < n
    about = np.where(among_rungs, 0, answers.first - n)
    costs = np.bincount(about[~among_rungs], minlength=answers.n_targets)[order]
    of_ladder = np.bincount(answers.ladder[among_rungs], minlength=answers.n_ladders)
    costs = costs + np.where(turn[order] == 0, of_ladder[ladder_of[order]], 0)
    kept = np.zeros(answers.n_targets, dtype=bool)
    ladders = np.zeros(answers.n_ladders, dtype=bool)
    kept[order[: max(1, int(np.searchsorted(np.cumsum(costs), most, "right")))]] = True
    ladders[ladder_of[kept]] = True
    some = answers.take(np.where(among_rungs, ladders[answers.ladder], kept[about]))
    new_ladder = np.cumsum(ladders) - 1
    new_code = np.concatenate([np.arange(n), n + np.cumsum(kept) - 1])
    return replace(
        some,
        n_ladders=int(ladders.sum()),
        target_ladder=new_ladder[ladder_of[kept]],
        ladder=new_ladder[some.ladder],
        first=new_code[some.first],
    )
