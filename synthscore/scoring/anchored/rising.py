"""Answers -> whether a judge sees ladders rise: before anything is fitted, and without a model. Pure NumPy.

The margin of an answer is regressed on the level of its rung, by least squares, with a constant for each target in each
order, and for each ladder.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...types import BoolArray, FloatArray, IntArray
from .correlation import pairs_of
from .model import SoftAnswers

_CLEAR = 2.0  # standard errors
_MOSTLY = 1.645  # of a sign test, one-sided, 95 %
_TYPICAL = 0.05 / 5 + 0.7 / 25  # squared residual of an answer of variance 1/5, by the priors of noise and spread


class _Regression(NamedTuple):
    """What least squares works on, centred in each group; all of shape (n_answers,).

    up : by how many levels the text asked about is above the other one. margin : of the answer, for that text
    ladder, group, pair : of the answer; a group has a constant of its own
    """

    up: FloatArray
    margin: FloatArray
    ladder: IntArray
    group: IntArray
    pair: IntArray

    @classmethod
    def of(cls, answers: SoftAnswers) -> _Regression:
        n = answers.n_rungs
        of_rungs = answers.first < n
        asked: FloatArray = np.where(of_rungs, answers.sign, 1.0)
        up: FloatArray = asked * (np.where(of_rungs, answers.first, 0) - answers.second)
        of_target = answers.n_ladders + 2 * (answers.first - n) + (answers.sign > 0)
        group = np.unique(np.where(of_rungs, answers.ladder, of_target), return_inverse=True)[1]
        up, margins = (
            values - (np.bincount(group, values) / np.bincount(group))[group] for values in (up, asked * answers.margin)
        )
        return cls(up, margins, answers.ladder, group, np.unique(pairs_of(answers), return_inverse=True)[1])

    def take(self, rows: BoolArray) -> _Regression:
        return _Regression(self.up[rows], self.margin[rows], self.ladder[rows], self.group[rows], self.pair[rows])


def sees_rise(answers: SoftAnswers) -> bool:
    """Whether answers favour higher rungs by more than twice the error of that: of their noise, and of ladders.

    Where clearly more ladders rise than fall (by a sign test of those that clearly do either), it is not the judge who
    sees them fall: these few are left out of the question.
    """
    regression = _Regression.of(answers)
    if not regression.up.any():
        return False
    slope, stderr = slope_of_ladders(regression, answers.n_ladders)
    falls = slope < -_CLEAR * stderr
    n_up, n_down = int((slope > _CLEAR * stderr).sum()), int(falls.sum())
    if n_up - n_down > _MOSTLY * np.sqrt(n_up + n_down):
        regression = regression.take(~falls[regression.ladder])
    return _rises(regression)


def slope_of_ladders(regression: _Regression, n_ladders: int) -> tuple[FloatArray, FloatArray]:
    """By how much an answer's margin rises from one rung of a ladder to the next, and the standard error of that.

    Where a ladder has no answers the slope is 0 and its error infinite; shape (n_ladders,).
    """
    up, margin, ladder, group, pair = regression

    def over(values: FloatArray) -> FloatArray:
        return np.bincount(ladder, values, n_ladders).astype(np.float64)

    size = np.maximum(over(up**2), 1e-300)
    slope = over(up * margin) / size
    of_pair = np.bincount(pair, up * (margin - slope[ladder] * up))
    ladder_of = np.zeros(len(of_pair), dtype=np.int64)
    ladder_of[pair] = ladder
    scatter = np.bincount(ladder_of, of_pair**2, n_ladders)
    n_constants = np.bincount(ladder[np.unique(group, return_index=True)[1]], minlength=n_ladders)
    count = over(np.ones_like(up))
    free = np.maximum(count - n_constants - 1, 0)
    stderr = np.sqrt((scatter * count + _TYPICAL * size) / (free + 1)) / size
    return slope, np.where(count > 0, stderr, np.inf)


def _rises(regression: _Regression) -> bool:
    """Of all ladders together: the larger of two errors counts, by pairs of texts and by ladders."""
    up, margin, ladder, group, pair = regression
    size = up @ up
    slope = (up @ margin) / size
    left = margin - slope * up
    free = max(len(left) - len(np.unique(group)) - 1, 0)
    by_pairs = ((np.bincount(pair, up * left) ** 2).sum() * len(left) + _TYPICAL * size) / (free + 1)
    by_ladders = (np.bincount(ladder, up * left) ** 2).sum()
    return bool(slope * size > _CLEAR * np.sqrt(max(by_pairs, by_ladders)))
