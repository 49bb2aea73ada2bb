"""Answers about rungs -> by how much the judge's position bias differs from text to text. Pure NumPy."""

from __future__ import annotations

import numpy as np

from ...types import FloatArray
from .model import JudgeModel, Posterior, SoftAnswers, margin, variance
from .positions import log_odds_at


def bias_between_texts(answers: SoftAnswers, judge: JudgeModel, posterior: Posterior) -> float:
    """By how much the bias differs between texts, as rungs show it that are asked about, nats.

    In log-odds an answer is off by (margin - expected) / V. For two rungs, each asked about once, this is summed: where
    they stand goes out, and the bias of both texts is left. Two sums that share a rung have its bias in common; those
    that do not, what is the context's.
    """
    n = answers.n_rungs
    some = answers.take(answers.first < n)
    probs = judge.probs(log_odds_at(some, judge, posterior))
    var = np.maximum(variance(probs), 1e-12)
    off = some.sign * (some.margin - margin(probs)) / var
    known = var / judge.dispersion(var, some.sampling)
    about, other = np.where(some.sign > 0, (some.first, some.second), (some.second, some.first))
    place = (some.ladder * n + about) * n + other
    shape = (answers.n_ladders, n, n)
    weight, sums = (np.bincount(place, each, np.prod(shape)).reshape(shape) for each in (known, known * off))
    unsure = 1 / np.maximum(weight, 1e-300)
    mean = sums * unsure
    both = np.where((weight > 0) & (weight.swapaxes(1, 2) > 0), 1 / (unsure + unsure.swapaxes(1, 2)), 0.0)
    (shared, apart), (n_shared, n_apart) = _products(both * (mean + mean.swapaxes(1, 2))), _products(both)
    least = 1e-9 * (both**2).sum()  # what rounding leaves where no two pairs share a rung, or none is apart
    of_texts = shared / n_shared if n_shared > least else 0.0
    of_contexts = max(apart / n_apart, 0.0) if n_apart > least else 0.0
    return float(np.sqrt(max(of_texts - 0.75 * of_contexts, 0.0)))  # one has 4 times what contexts differ by


def _products(values: FloatArray) -> tuple[float, float]:
    """Of the pairs of each ladder: sums of products of two that share a rung, and of two that do not.

    values : of pairs, shape (n_ladders, N, N), symmetric, 0 on the diagonal
    """
    squares = (values**2).sum()
    sharing = (values.sum(axis=2) ** 2).sum() - squares
    return float(sharing), float(((values.sum(axis=(1, 2)) / 2) ** 2).sum() - squares / 2 - sharing)
