"""Answers about rungs -> how much the judge's position bias differs between texts. Pure NumPy."""

from __future__ import annotations

import numpy as np

from ...types import FloatArray
from .model import JudgeModel, Posterior, SoftAnswers, half_margin, variance
from .positions import log_odds_at


def find_bias_sd(answers: SoftAnswers, judge: JudgeModel, posterior: Posterior) -> float:
    """Standard deviation of the position bias between texts, by the answers about two rungs, nats.

    In log-odds an answer is off by (half_margin - expected) / V. Summed over the two orders in which a pair of rungs
    was asked about, errors of their positions cancel, and the bias b_a + b_b of the two rungs remains. With b = the
    part of the context + the part of the text, of variances C and T, the sums of two pairs of a ladder have the
    covariance

        4 C + T    if they share a rung,        4 C    if they share none,

    so that the variance of b is C + T = (4 C + T) - 3/4 (4 C).
    """
    bias_sums, weight = _sum_over_orders(answers.take(answers.first < answers.n_rungs), judge, posterior)
    shared, apart = _sum_products(weight * bias_sums)
    shared_weight, apart_weight = _sum_products(weight)
    rounding = 1e-9 * (weight**2).sum()  # A sum of weights below this is 0 but for rounding.
    cov_shared = 0.0
    if shared_weight > rounding:
        cov_shared = shared / shared_weight
    cov_apart = 0.0
    if apart_weight > rounding:
        cov_apart = max(apart / apart_weight, 0.0)
    return float(np.sqrt(max(cov_shared - 0.75 * cov_apart, 0.0)))


def _sum_over_orders(
    among_rungs: SoftAnswers, judge: JudgeModel, posterior: Posterior
) -> tuple[FloatArray, FloatArray]:
    """b_a + b_b of each pair of rungs, and its weight (the inverse of its error's variance), shape (n_ladders, N, N).

    The weight is 0 where a pair was not asked about in both orders.
    """
    n = among_rungs.n_rungs
    probs = judge.probs(log_odds_at(among_rungs, judge, posterior))
    var = np.maximum(variance(probs), 1e-12)
    off = among_rungs.sign * (among_rungs.half_margin - half_margin(probs)) / var
    precision = var / judge.dispersion(var, among_rungs.sampling)

    # The answers about rung a against b, as they were shown, are averaged in cell (a, b) of their ladder.
    usual = among_rungs.sign > 0
    shown_about = np.where(usual, among_rungs.first, among_rungs.second)
    shown_other = np.where(usual, among_rungs.second, among_rungs.first)
    cell = (among_rungs.ladder * n + shown_about) * n + shown_other
    shape = (among_rungs.n_ladders, n, n)
    total_precision = np.bincount(cell, precision, np.prod(shape)).reshape(shape)
    sums = np.bincount(cell, precision * off, np.prod(shape)).reshape(shape)
    error_var = 1 / np.maximum(total_precision, 1e-300)
    mean = sums * error_var

    # The other order of a pair is in the transposed cell.
    in_both_orders = (total_precision > 0) & (total_precision.swapaxes(1, 2) > 0)
    weight = np.where(in_both_orders, 1 / (error_var + error_var.swapaxes(1, 2)), 0.0)
    return mean + mean.swapaxes(1, 2), weight


def _sum_products(values: FloatArray) -> tuple[float, float]:
    """Sums of products of the values of two pairs of a ladder: of pairs that share a rung, and of pairs that do not.

    values : of pairs, shape (n_ladders, N, N), symmetric, 0 on the diagonal
    """
    squares = (values**2).sum()
    shared = (values.sum(axis=2) ** 2).sum() - squares
    all_products = ((values.sum(axis=(1, 2)) / 2) ** 2).sum()
    return float(shared), float(all_products - squares / 2 - shared)
