"""Answers -> whether a judge sees ladders rise. Pure NumPy, without a model, before anything is fitted.

The better the rung that a text is compared with, the lower should be its margin. So the margin of an answer is
regressed on how far the text asked about is above the other one, by least squares, with a constant for each target in
each order, and for each ladder. `sees_rise` asks whether the slope is clearly above 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...types import BoolArray, FloatArray, IntArray
from .correlation import pairs_of
from .model import SoftAnswers

_CLEAR = 2.0  # standard errors by which a slope clearly differs from 0
_MOSTLY = 1.645  # normal quantile of a one-sided sign test at 95 %
# Squared residual, noise V + spread V^2, of an answer with V = 1/5 by the priors of noise and spread, .05 and .7.
_TYPICAL = 0.05 / 5 + 0.7 / 25


class _Regression(NamedTuple):
    """The columns of the least squares, all of shape (n_answers,); up and half_margin are centred in each group.

    up : how many levels the text asked about is above the other one. half_margin : of the answer, for that text
    ladder, group, pair : numbers of the answer's; a group has its own constant
    """

    up: FloatArray
    half_margin: FloatArray
    ladder: IntArray
    group: IntArray
    pair: IntArray

    @classmethod
    def from_answers(cls, answers: SoftAnswers) -> _Regression:
        n = answers.n_rungs
        among_rungs = answers.first < n
        sign: FloatArray = np.where(among_rungs, answers.sign, 1.0)
        # Where a target stands is not known, but the same for all of its answers, so that its constant takes that up.
        level = np.where(among_rungs, answers.first, 0)
        up: FloatArray = sign * (level - answers.second)
        group_of_target = answers.n_ladders + 2 * (answers.first - n) + (answers.sign > 0)
        groups = np.where(among_rungs, answers.ladder, group_of_target)
        group = np.unique(groups, return_inverse=True)[1]
        return cls(
            up=_centre(up, group),
            half_margin=_centre(sign * answers.half_margin, group),
            ladder=answers.ladder,
            group=group,
            pair=np.unique(pairs_of(answers), return_inverse=True)[1],
        )

    def take(self, rows: BoolArray) -> _Regression:
        return _Regression(
            up=self.up[rows],
            half_margin=self.half_margin[rows],
            ladder=self.ladder[rows],
            group=self.group[rows],
            pair=self.pair[rows],
        )


def _centre(values: FloatArray, group: IntArray) -> FloatArray:
    """The values less the mean of their group."""
    mean = np.bincount(group, values) / np.bincount(group)
    return np.asarray(values - mean[group])


def sees_rise(answers: SoftAnswers) -> bool:
    """Whether answers favour higher rungs by more than two standard errors, from their noise and between ladders.

    Where clearly more ladders rise than fall (by a sign test of those that clearly do either), the falling ladders are
    bad ladders rather than a sign of a bad judge, and are left out.
    """
    regression = _Regression.from_answers(answers)
    if not regression.up.any():
        return False
    rises, falls = _rising_and_falling(regression, answers.n_ladders)
    n_up, n_down = int(rises.sum()), int(falls.sum())
    if n_up - n_down > _MOSTLY * np.sqrt(n_up + n_down):
        regression = regression.take(~falls[regression.ladder])
    return _rises(regression)


def falling_ladders(answers: SoftAnswers) -> BoolArray:
    """The ladders whose answers favour lower rungs by more than two standard errors, shape (n_ladders,)."""
    return _rising_and_falling(_Regression.from_answers(answers), answers.n_ladders)[1]


def _rising_and_falling(regression: _Regression, n_ladders: int) -> tuple[BoolArray, BoolArray]:
    """The ladders that clearly do either, shape (n_ladders,) each."""
    slope, stderr = slope_of_ladders(regression, n_ladders)
    return slope > _CLEAR * stderr, slope < -_CLEAR * stderr


def slope_of_ladders(regression: _Regression, n_ladders: int) -> tuple[FloatArray, FloatArray]:
    """How much an answer's half_margin rises from one rung of a ladder to the next, and the standard error, both of
    shape (n_ladders,). Where a ladder has no answers, the slope is 0 and its error infinite.
    """
    up, half_margin, ladder, group, pair = regression

    def sum_by_ladder(values: FloatArray) -> FloatArray:
        return np.bincount(ladder, values, n_ladders).astype(np.float64)

    size = np.maximum(sum_by_ladder(up**2), 1e-300)
    slope = sum_by_ladder(up * half_margin) / size
    score = np.bincount(pair, up * (half_margin - slope[ladder] * up))  # of each pair of texts
    ladder_of_pair = np.zeros(len(score), dtype=np.int64)
    ladder_of_pair[pair] = ladder
    scatter = np.bincount(ladder_of_pair, score**2, n_ladders)
    first_of_group = np.unique(group, return_index=True)[1]
    n_constants = np.bincount(ladder[first_of_group], minlength=n_ladders)
    count = sum_by_ladder(np.ones_like(up))
    freedom = np.maximum(count - n_constants - 1, 0)
    stderr = np.sqrt((scatter * count + _TYPICAL * size) / (freedom + 1)) / size
    return slope, np.where(count > 0, stderr, np.inf)


def _rises(regression: _Regression) -> bool:
    """Whether all ladders together rise, by the larger of two standard errors: over pairs of texts, or over ladders."""
    up, half_margin, ladder, group, pair = regression
    size = up @ up
    slope = (up @ half_margin) / size
    residual = half_margin - slope * up
    freedom = max(len(residual) - len(np.unique(group)) - 1, 0)
    # Both are variances of slope * size. That over pairs is drawn towards the typical one, as there may be few answers.
    scatter = (np.bincount(pair, up * residual) ** 2).sum()
    over_pairs = (scatter * len(residual) + _TYPICAL * size) / (freedom + 1)
    over_ladders = (np.bincount(ladder, up * residual) ** 2).sum()
    return bool(slope * size > _CLEAR * np.sqrt(max(over_pairs, over_ladders)))
