"""Answers -> how much of their noise they share, and what each is worth when others say the same. Pure NumPy.

The noise of an answer belongs partly to the pair of texts: the judge errs alike in the other order, and when it is
asked again. And partly to the text and one end of its ladder: the judge errs alike on neighbouring rungs. With z_a the
residual of answer a, divided by its standard deviation,

    cor(z_a, z_b) = pair              a and b: two answers about the same two texts
    cor(z_j, z_k) = rung^|j - k|      j and k: two rungs that one text was compared with, all answers about a rung
                                      taken together

pair is JudgeModel.pair_correlation, and rung JudgeModel.rung_correlation. `find_pair_correlation` and
`find_rung_correlation` estimate them. `Evidence` weighs answers by them, so that ten answers that repeat each other do
not count as ten. An error that all answers about a text share looks like its quality, and no residual shows it.

Where each answer is the mean of n samples, only the judge's opinions correlate. (Its opinion is what that mean would be
after samples without end.) Sampling adds noise to each answer alone. The opinion's share of the variance of z is

    f^2 = m / (1/n + (1 - 1/n) m)        m = noise + spread V (JudgeModel.dispersion)
    f^2 = 1                              for exact probabilities

so that cor(z_a, z_b) = pair f_a f_b, and cor(z_j, z_k) = rung^|j - k| f_j f_k.
"""

from __future__ import annotations

import numpy as np

from ...types import BoolArray, FloatArray, IntArray
from .model import JudgeModel, Posterior, Residuals, SoftAnswers, variance

_PAIR = 0.5  # prior of the correlation of two answers about the same texts
# The prior counts as this many terms of the sums. Two answers a and b are two terms, (a, b) and (b, a), so that the
# prior weighs as much as ten pairs of answers.
_FEW_TERMS = 20.0
# The range of `pair`. It is below 0 where the bias differs between texts, since a bias has opposite signs in the two
# orders.
_LEAST = -0.5
_MOST = 1.0
# The values of `rung` that are tried. With a higher one all rungs would share nearly the same error, which looks like
# the text's quality.
_GRID = np.linspace(0.0, 0.95, 20)


def pairs_of(answers: SoftAnswers) -> IntArray:
    """A number for the two texts that each answer is about, the same in both orders, shape (n_answers,)."""
    n = answers.n_rungs
    target_and_rung = (answers.first - n) * n + answers.second
    low = np.minimum(answers.first, answers.second)
    high = np.maximum(answers.first, answers.second)
    n_with_target = answers.n_targets * n  # Numbers from here on are those of two rungs.
    two_rungs = n_with_target + (answers.ladder * n + low) * n + high
    pairs: IntArray = np.where(answers.first < n, two_rungs, target_and_rung)
    return pairs


class Evidence:
    """The weights of answers that are not independent. Keeps what does not change while positions are fitted."""

    def __init__(self, answers: SoftAnswers, judge: JudgeModel) -> None:
        self.judge = judge
        self.shape = answers.n_targets, answers.n_rungs
        self.sampling = answers.sampling
        self.pairs = pairs_of(answers)
        n_others = np.bincount(self.pairs)[self.pairs] - 1  # about the same two texts
        self.repeat_factor = 1 + n_others * judge.pair_correlation
        self.of_target = answers.first >= answers.n_rungs  # whether an answer is about a target, not about two rungs
        self.target = answers.first[self.of_target] - answers.n_rungs
        self.target_and_rung = self.target * answers.n_rungs + answers.second[self.of_target]  # a number for the two

    def weight(self, probs: FloatArray) -> FloatArray:
        """How many answers drawn from P each answer is worth, shape (n_answers,). probs : P of each answer

            exact probabilities:  w / (1 + pair (k - 1)) / effect
            samples:              w / (1 + pair f_a (sum of f_b over the k - 1 others)) / effect

        where k answers are about the same two texts, and w is JudgeModel.weight. The effect is that of the text's
        neighbouring rungs (`effect_of_neighbours`), and 1 for answers about two rungs.
        """
        weight = self.weight_of_pairs(probs)
        if self.judge.rung_correlation:
            info = self.by_rung(weight * variance(probs))
            effect = effect_of_neighbours(self.judge, info, self.share_by_rung(probs, weight))
            weight[self.of_target] /= effect[self.target]
        return weight

    def weight_of_pairs(self, probs: FloatArray) -> FloatArray:
        """The weights without the effect of neighbouring rungs; arguments and result as of `weight`."""
        if self.sampling is None:
            return self.judge.weight(probs) / self.repeat_factor
        share = share_of_opinion(self.judge, variance(probs), self.sampling)
        return self.judge.weight(probs, self.sampling) / self._sampled_repeat_factor(share)

    def _sampled_repeat_factor(self, share: FloatArray) -> FloatArray:
        """1 + pair f_a (sum of f_b over the other answers about the pair), shape (n_answers,); where all f are 1, this
        is repeat_factor.

        share : f^2 of each answer, shape (n_answers,)
        """
        f: FloatArray = np.sqrt(share)
        others = np.bincount(self.pairs, f)[self.pairs] - f
        factor: FloatArray = 1 + f * others * self.judge.pair_correlation
        return factor

    def share_by_rung(self, probs: FloatArray, weight: FloatArray) -> FloatArray | None:
        """The opinion's share f^2 of all answers about a target and a rung taken together, shape (n_targets, N).

            f^2 (1 + (k - 1) pair) / (1 + (k - 1) pair f^2)        of k answers with the same f

        Where pair > 0 it is larger than that of one answer, because repeating the question averages the sampling noise,
        but not the opinion.

        weight : as `weight_of_pairs` gives it
        returns : None for exact probabilities, where it is 1; 0 for a rung that was not asked about
        """
        if self.sampling is None:
            return None
        share = share_of_opinion(self.judge, variance(probs), self.sampling)
        share = share * self.repeat_factor / self._sampled_repeat_factor(share)
        info = weight * variance(probs)
        total = self.by_rung(info)
        return np.divide(self.by_rung(info * share), total, out=np.zeros_like(total), where=total > 0)

    def by_rung(self, values: FloatArray) -> FloatArray:
        """Sums over the answers about each target and rung, shape (n_targets, N). values : shape (n_answers,)"""
        n_targets, n = self.shape
        sums = np.bincount(self.target_and_rung, values[self.of_target], n_targets * n).astype(np.float64)
        return sums.reshape(n_targets, n)


def share_of_opinion(judge: JudgeModel, var: FloatArray, sampling: FloatArray) -> FloatArray:
    """f^2, the opinion's share of the variance of an answer's noise, shape of var: 1 for exact probabilities.

    var : V. sampling : 1/n, shape of var
    """
    share: FloatArray = judge.dispersion(var) / judge.dispersion(var, sampling)
    return np.minimum(share, 1.0)


def effect_of_neighbours(judge: JudgeModel, info: FloatArray, share: FloatArray | None = None) -> FloatArray:
    """How many times as large the variance of a text's position is as it would be if answers about its rungs were
    independent.

        g^T C g / g^T g        g_j = sqrt(info_j),   C_jk = rung_correlation^|j - k| f_j f_k,   C_jj = 1

    info : what the answers about each rung tell of the position, shape (n_targets, N), in any unit
    share : f^2 of each target and rung, shape (n_targets, N); None: 1
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
    """What the questions that were asked tell together about a text's distance x - r from each rung, shape
    (n_targets, N); without the effect of neighbours.

    info : of each question by itself, shape (n_targets, n_orders, N); its unit is that of the result
    asked : which questions were asked, the same shape
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

        sum of z_a z_b  /  sum of (z_a^2 + z_b^2) / 2        over any two answers a and b about the same texts

    Both sums have (a, b) and (b, a) as two terms, and the prior counts as _FEW_TERMS more. Positions are fitted to the
    answers, and so make residuals smaller by the variance of the positions. Answers about the same texts share that
    part, so that it is added to both sums (`hidden`).

    Of sampled answers, f z takes the place of z. Then E[f_a z_a f_b z_b] = pair f_a^2 f_b^2, and E[(f z)^2] = f^2, of
    which the opinion is f^4; the rest, f^2 (1 - f^2), is taken from the second sum.
    """
    # Residuals of two rungs are turned round where `first` is the higher one, so that all are about the lower one.
    turned_round = (answers.first < answers.n_rungs) & (answers.first > answers.second)
    direction = np.where(turned_round, -1.0, 1.0)
    weight = judge.weight(off.probs, off.sampling)
    f = np.ones(len(answers))
    if off.sampling is not None:
        f = np.sqrt(share_of_opinion(judge, off.variance, off.sampling))
    z = f * direction * off.residual * np.sqrt(weight / off.variance)
    hidden = f * np.sqrt(weight * off.variance * off.hidden)  # of the same error in all answers about the pair
    pairs = np.unique(pairs_of(answers), return_inverse=True)[1]
    n_others = np.bincount(pairs) - 1
    products = _FEW_TERMS * _PAIR
    squares = _FEW_TERMS
    for values in (z, hidden):
        pair_squares = np.bincount(pairs, values**2)
        pair_products = np.bincount(pairs, values) ** 2 - pair_squares  # each product twice
        products += float(pair_products @ (n_others > 0))
        squares += float(pair_squares @ n_others)
    if off.sampling is not None:
        by_sampling = np.bincount(pairs, f**2 * (1 - f**2))
        squares -= float(by_sampling @ n_others)
    return float(np.clip(products / squares, _LEAST, _MOST))


def find_rung_correlation(answers: SoftAnswers, judge: JudgeModel, posterior: Posterior, off: Residuals) -> float:
    """The correlation of the noise of answers about a text and neighbouring rungs, less one standard error, so that
    chance alone seldom gives a correlation.

    Of one text, z_j is the residual of all answers about rung j, divided by its standard deviation, and g_j the root of
    their information. Moving the text changes z in proportion to g. The text's position was fitted, so that it hides
    what z has along g. What is left is y = P z, where P takes away the part along g. Over all texts that were asked
    about on every rung,

        ratio = sum of y_j y_j+1 / sum of y_j y_j

    The correlation is the one with whose C (`effect_of_neighbours`) this ratio, less its standard error, would be
    expected; it is interpolated between the values of `_GRID`. Rungs were fitted, too, and their errors hide a part of
    y y^T, which is added.
    With sampled answers the expected ratio may hardly depend on the correlation. Then the correlation is drawn towards
    0, the more, the smaller the range of expected ratios is beside the standard error of the ratio.

    returns : 0 for ladders of two rungs, or with fewer than two such texts
    """
    n = answers.n_rungs
    evidence = Evidence(answers, judge)
    weight = evidence.weight_of_pairs(off.probs)
    info = evidence.by_rung(weight * off.variance)
    asked_on_all = (info > 0).all(axis=1)
    if n < 3 or asked_on_all.sum() < 2:
        return 0.0

    g = np.sqrt(info[asked_on_all])
    z = evidence.by_rung(weight * off.residual)[asked_on_all] / g
    unit = g / np.linalg.norm(g, axis=1, keepdims=True)
    project = np.eye(n) - unit[:, :, None] * unit[:, None, :]  # P of each text, shape (n_texts, N, N)
    y = np.einsum("tjk,tk->tj", project, z)
    ladder = answers.target_ladder[asked_on_all]
    nats_a_rung = judge.discrimination * np.exp(posterior.sharpness[ladder])
    g_errors = nats_a_rung[:, None] * g
    rung_errors = g_errors[:, :, None] * posterior.rung_cov[ladder] * g_errors[:, None, :]
    outer = y[:, :, None] * y[:, None, :] + project @ rung_errors @ project  # y y^T and what the rungs hide of it

    # The sums over y_j y_k are those of the elements of outer * identity and of outer * neighbours.
    identity = np.eye(n)
    neighbours = np.eye(n, k=1) / 2 + np.eye(n, k=-1) / 2
    squares = np.einsum("tjk,jk->t", outer, identity)
    products = np.einsum("tjk,jk->t", outer, neighbours)
    ratio = products.sum() / squares.sum()
    scatter = ((products - ratio * squares) ** 2).sum()
    stderr = np.sqrt(scatter * len(squares) / (len(squares) - 1)) / squares.sum()

    share = evidence.share_by_rung(off.probs, weight)
    if share is not None:
        share = share[asked_on_all]
    expected_squares = _expect_sum(project @ identity @ project, share)
    expected_products = _expect_sum(project @ neighbours @ project, share)
    # np.interp needs ratios that do not fall. These rise, but may turn near the end of the grid where some rungs were
    # asked about much more often than others.
    ratios = np.maximum.accumulate(np.divide(expected_products, expected_squares))
    correlation = float(np.interp(ratio - stderr, ratios, _GRID))
    if share is not None:
        ratio_range = ratios[-1] - ratios[0]
        correlation *= float(ratio_range**2 / (ratio_range**2 + stderr**2))
    return correlation


def _expect_sum(matrices: FloatArray, share: FloatArray | None) -> list[float]:
    """The sum over texts, j and k of matrix_jk C_jk, for each correlation of `_GRID`; C as in `effect_of_neighbours`.

    matrices : shape (n_texts, N, N). share : f^2 of each text and rung; None: 1
    """
    n = matrices.shape[-1]
    by_sampling = 0.0  # Sampling noise adds 1 - f^2 to C_jj, and nothing elsewhere, whatever the correlation.
    opinions = matrices
    if share is not None:
        f = np.sqrt(share)
        opinions = matrices * f[:, :, None] * f[:, None, :]
        by_sampling = np.einsum("tjj,tj->", matrices, 1 - share).item()
    total = opinions.sum(axis=0)
    return [(decay(correlation, n) * total).sum() + by_sampling for correlation in _GRID.tolist()]
