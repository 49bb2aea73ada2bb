"""Answers -> how much of their noise they share, and what each is worth when others say the same. Pure NumPy.

The noise of an answer belongs partly to the pair of texts: the judge errs alike in the other order, and when it is
asked again. And partly to the text and one end of its ladder: the judge errs alike on neighbouring rungs. With z the
residual of an answer, divided by its standard deviation,

    cor(z, z') = pair              of two answers about the same two texts
    cor(z, z') = rung^|j - k|      of a text's answers about rungs j and k (those about one rung taken together)

`find_pair_correlation` and `find_rung_correlation` estimate the two. `Evidence` weighs answers by them, so that ten
answers that repeat each other do not count as ten. An error that all answers about a text share looks like its quality,
and no residual shows it.

Where each answer is the mean of n samples, only the judge's settled opinions correlate, and sampling adds noise to each
answer alone. The opinion's share of the variance of z is

    f^2 = m / (1/n + (1 - 1/n) m)        m = noise + spread V;   f^2 = 1 for exact probabilities

so that cor(z, z') = pair f f', and likewise with rung.
"""

from __future__ import annotations

import numpy as np

from ...types import BoolArray, FloatArray, IntArray
from .model import JudgeModel, Posterior, Residuals, SoftAnswers, variance

_PAIR = 0.5  # prior of the correlation of two answers about the same texts
_FEW_PAIRS = 20.0  # the prior counts as this many pairs
_LEAST = -0.5  # It is below 0 where the bias differs between texts, since a bias has opposite signs in the two orders.
_MOST = 1.0
# The correlations of neighbours that are tried. A higher one is nearly common to all rungs, and would look like the
# text's quality.
_GRID = np.linspace(0.0, 0.95, 20)


def pairs_of(answers: SoftAnswers) -> IntArray:
    """A number for the two texts that each answer is about, whichever comes first, shape (n_answers,)."""
    n = answers.n_rungs
    target_and_rung = (answers.first - n) * n + answers.second
    low = np.minimum(answers.first, answers.second)
    high = np.maximum(answers.first, answers.second)
    n_of_targets = answers.n_targets * n  # The numbers of pairs of rungs follow on those with a target.
    two_rungs = n_of_targets + (answers.ladder * n + low) * n + high
    pairs: IntArray = np.where(answers.first < n, two_rungs, target_and_rung)
    return pairs


class Evidence:
    """The weights of answers that are not independent. Keeps what does not change from one step to the next."""

    def __init__(self, answers: SoftAnswers, judge: JudgeModel) -> None:
        self.judge = judge
        self.shape = answers.n_targets, answers.n_rungs
        self.sampling = answers.sampling
        self.pairs = pairs_of(answers)
        n_others = np.bincount(self.pairs)[self.pairs] - 1  # about the same two texts
        self.repeat_factor = 1 + n_others * judge.pair_correlation
        self.about = answers.first >= answers.n_rungs
        self.target = answers.first[self.about] - answers.n_rungs
        self.rung = self.target * answers.n_rungs + answers.second[self.about]  # a number for each target and rung

    def weight(self, probs: FloatArray) -> FloatArray:
        """How many answers drawn from P each answer is worth, shape (n_answers,). probs : P of each answer

            w / (1 + (k - 1) pair) / effect        w = JudgeModel.weight, k answers about the same two texts

        and of sampled answers w / (1 + pair f (sum of f over the others)) / effect. The effect is that of the text's
        neighbouring rungs (`effect_of_neighbours`); answers about two rungs have none.
        """
        weight = self.weight_of_pairs(probs)
        if self.judge.rung_correlation:
            info = self.by_rung(weight * variance(probs))
            effect = effect_of_neighbours(self.judge, info, self.share_by_rung(probs, weight))
            weight[self.about] /= effect[self.target]
        return weight

    def weight_of_pairs(self, probs: FloatArray) -> FloatArray:
        """As `weight`, without the effect of neighbouring rungs."""
        if self.sampling is None:
            return self.judge.weight(probs) / self.repeat_factor
        share = share_of_opinion(self.judge, variance(probs), self.sampling)
        return self.judge.weight(probs, self.sampling) / self._sampled_repeat_factor(share)

    def _sampled_repeat_factor(self, share: FloatArray) -> FloatArray:
        """1 + pair f (sum of f over the other answers about the pair); repeat_factor where all f are 1. share : f^2"""
        f: FloatArray = np.sqrt(share)
        others = np.bincount(self.pairs, f)[self.pairs] - f
        factor: FloatArray = 1 + f * others * self.judge.pair_correlation
        return factor

    def share_by_rung(self, probs: FloatArray, weight: FloatArray) -> FloatArray | None:
        """The share f^2 of the answers about each target and rung taken together, shape (n_targets, N); None: 1.

        k answers with the same f have together f^2 (1 + (k - 1) pair) / (1 + (k - 1) pair f^2): repeating the question
        averages the sampling noise, but not the opinion.

        weight : of `weight_of_pairs`
        """
        if self.sampling is None:
            return None
        share = share_of_opinion(self.judge, variance(probs), self.sampling)
        share = share * self.repeat_factor / self._sampled_repeat_factor(share)
        info = weight * variance(probs)
        total = self.by_rung(info)
        return np.divide(self.by_rung(info * share), total, out=np.zeros_like(total), where=total > 0)

    def by_rung(self, values: FloatArray) -> FloatArray:
        """Sums over the answers about each target and rung, shape (n_targets, N)."""
        n_targets, n = self.shape
        sums = np.bincount(self.rung, values[self.about], n_targets * n).astype(np.float64)
        return sums.reshape(n_targets, n)


def share_of_opinion(judge: JudgeModel, var: FloatArray, sampling: FloatArray) -> FloatArray:
    """f^2, the share of the judge's settled opinion in an answer's noise, shape of var: 1 for exact probabilities."""
    share: FloatArray = judge.dispersion(var) / judge.dispersion(var, sampling)
    return np.minimum(share, 1.0)


def effect_of_neighbours(judge: JudgeModel, info: FloatArray, share: FloatArray | None = None) -> FloatArray:
    """How many times as large a text's variance is as independent answers with this information would leave it.

        g' C g / g' g        g = sqrt(info), C_jk = rung_correlation^|j - k| f_j f_k, C_jj = 1

    info : shape (n_targets, N), in any unit. share : f^2 of each rung; None: 1
    returns : shape (n_targets,); 1 where there is no information
    """
    g = np.sqrt(info)
    independent = (g**2).sum(axis=1)
    if share is not None:
        g = g * np.sqrt(share)
    correlated = independent.copy()
    for lag in range(1, g.shape[1]):  # The rounding of a matrix product would depend on the number of texts.
        correlated += 2 * judge.rung_correlation**lag * (g[:, lag:] * g[:, :-lag]).sum(axis=1)
    effect: FloatArray = np.divide(correlated, independent, out=np.ones_like(independent), where=independent > 0)
    return effect


def information_of_rungs(judge: JudgeModel, info: FloatArray, asked: BoolArray) -> FloatArray:
    """What the questions that were asked tell together about each rung's distance x - r, shape (n_targets, N).

    Without the effect of neighbours.
    info : of each question by itself, shape (n_targets, n_orders, N). asked : which were, the same shape
    """
    n_asked = np.maximum(asked.sum(axis=1), 1)
    repeat_factor = 1 + (n_asked - 1) * judge.pair_correlation
    info_of_rungs: FloatArray = np.where(asked, info, 0.0).sum(axis=1) / repeat_factor
    return info_of_rungs


def decay(correlation: float, n_rungs: int) -> FloatArray:
    """correlation^|j - k|, shape (N, N)."""
    rungs = np.arange(n_rungs)
    matrix: FloatArray = correlation ** np.abs(rungs[:, None] - rungs).astype(np.float64)
    return matrix


def find_pair_correlation(answers: SoftAnswers, judge: JudgeModel, off: Residuals) -> float:
    """The correlation of the noise of answers about the same two texts, from pairs that were asked about repeatedly.

        sum of z z'  /  sum of (z^2 + z'^2) / 2        over any two answers about the same texts

    Positions are fitted to the residuals and hide their own variance in them. Such answers share it, so that it is
    added to both sums. The prior is added as so many pairs.
    """
    # Residuals of two rungs are turned to the same one of the two, and those of samples to the share of the opinion.
    turned_round = (answers.first < answers.n_rungs) & (answers.first > answers.second)
    factor = np.where(turned_round, -1.0, 1.0)
    weight = judge.weight(off.probs, off.sampling)
    if off.sampling is not None:
        factor = factor * np.sqrt(share_of_opinion(judge, off.variance, off.sampling))
    z = factor * off.residual * np.sqrt(weight / off.variance)
    hidden = factor * np.sqrt(weight * off.variance * off.hidden)
    pairs = np.unique(pairs_of(answers), return_inverse=True)[1]
    n_others = np.bincount(pairs) - 1
    products = _FEW_PAIRS * _PAIR
    squares = _FEW_PAIRS
    for values in (z, hidden):
        pair_squares = np.bincount(pairs, values**2)
        pair_products = np.bincount(pairs, values) ** 2 - pair_squares
        products += float(pair_products @ (n_others > 0))
        squares += float(pair_squares @ n_others)
    if off.sampling is not None:  # Only the opinion's share, f^2, of f^2 z^2 counts.
        by_sampling = np.bincount(pairs, factor**2 * (1 - factor**2))
        squares -= float(by_sampling @ n_others)
    return float(np.clip(products / squares, _LEAST, _MOST))


def find_rung_correlation(answers: SoftAnswers, judge: JudgeModel, posterior: Posterior, off: Residuals) -> float:
    """The correlation of the noise of answers about a text and neighbouring rungs, less one standard error.

    Moving a text moves the residuals z of its rungs along g, the root of their information. So the text's position,
    which was fitted, hides what z has along g. What is left, y = P z, is orthogonal to g. Over all texts that were
    asked about on every rung,

        ratio = sum of y_j y_j+1 / sum of y_j y_j

    and the correlation is the one of `_GRID`, interpolated, whose C would give this ratio. The errors of the rungs hide
    a part of y y', which is added. With sampled answers the ratio may hardly depend on the correlation: that is drawn
    towards 0, the more, the smaller the ratio's whole span is beside its standard error.
    """
    n = answers.n_rungs
    evidence = Evidence(answers, judge)
    weight = evidence.weight_of_pairs(off.probs)
    info = evidence.by_rung(weight * off.variance)
    whole = (info > 0).all(axis=1)
    if n < 3 or whole.sum() < 2:
        return 0.0

    g = np.sqrt(info[whole])
    z = evidence.by_rung(weight * off.residual)[whole] / g
    unit = g / np.linalg.norm(g, axis=1, keepdims=True)
    project = np.eye(n) - unit[:, :, None] * unit[:, None, :]  # P of each text
    y = np.einsum("tjk,tk->tj", project, z)
    rung_cov = posterior.rung_cov[answers.target_ladder[whole]]
    rung_errors = judge.discrimination**2 * g[:, :, None] * rung_cov * g[:, None, :]
    outer = y[:, :, None] * y[:, None, :] + project @ rung_errors @ project

    same = np.eye(n)
    neighbours = np.eye(n, k=1) / 2 + np.eye(n, k=-1) / 2
    squares = np.einsum("tjk,jk->t", outer, same)
    products = np.einsum("tjk,jk->t", outer, neighbours)
    ratio = products.sum() / squares.sum()
    scatter = ((products - ratio * squares) ** 2).sum()
    stderr = np.sqrt(scatter * len(squares) / (len(squares) - 1)) / squares.sum()

    share = evidence.share_by_rung(off.probs, weight)
    if share is not None:
        share = share[whole]
    expected_squares = _expect_sum(project @ same @ project, share)
    expected_products = _expect_sum(project @ neighbours @ project, share)
    ratios = [over / under for over, under in zip(expected_products, expected_squares, strict=True)]
    correlation = float(np.interp(ratio - stderr, ratios, _GRID))
    if share is not None:
        span = ratios[-1] - ratios[0]
        correlation *= float(span**2 / (span**2 + stderr**2))
    return correlation


def _expect_sum(matrices: FloatArray, share: FloatArray | None) -> list[float]:
    """What the sum over texts of the elements of (matrix * C) would be, for each correlation of `_GRID`.

    matrices : shape (n_texts, N, N). share : f^2 of each text and rung; None: 1
    """
    n = matrices.shape[-1]
    by_sampling = 0.0  # Sampling noise is of each rung alone, whatever the correlation.
    opinions = matrices
    if share is not None:
        f = np.sqrt(share)
        opinions = matrices * f[:, :, None] * f[:, None, :]
        by_sampling = np.einsum("tjj,tj->", matrices, 1 - share).item()
    total = opinions.sum(axis=0)
    return [(decay(correlation, n) * total).sum() + by_sampling for correlation in _GRID.tolist()]
