"""What answers have in common -> how much they are worth together. Pure NumPy.

The noise of an answer is partly of the pair of texts: the judge says the same in the other order, and when it is asked
again. And it is partly of the text and this end of the ladder: the judge errs alike on neighbouring rungs. With z the
residual of an answer over its standard deviation,

    cor(z, z') = pair              of two answers about the same two texts
    cor(z, z') = rung^|j - k|      of the answers about a text and rungs j and k, those about a rung taken together

What all answers about a text have in common looks like its quality: no residual shows it.

Of answers that are n samples, it is the settled opinions that correlate so. The share of z^2 that is theirs is

    f^2 = m / (1/n + (1 - 1/n) m)        m = noise + spread V;   1 for exact probabilities

so that cor(z, z') = pair f f', and the same with rung. What sampling adds is of each answer alone.
"""

from __future__ import annotations

import numpy as np

from ...types import BoolArray, FloatArray, IntArray
from .model import JudgeModel, Posterior, Residuals, SoftAnswers, variance

_PAIR = 0.5  # prior of the correlation of two answers about the same texts
_FEW_PAIRS = 20.0  # how many pairs that counts as
_LEAST, _MOST = -0.5, 1.0  # below 0: a bias that differs by text goes out in both orders
_GRID = np.linspace(0.0, 0.95, 20)  # correlations of neighbours; higher ones are nearly common to all rungs


def pairs_of(answers: SoftAnswers) -> IntArray:
    """Which two texts each answer is about, a number for each pair, shape (n_answers,)."""
    n = answers.n_rungs
    low, high = np.minimum(answers.first, answers.second), np.maximum(answers.first, answers.second)
    of_rungs = answers.n_targets * n + (answers.ladder * n + low) * n + high
    pairs: IntArray = np.where(answers.first < n, of_rungs, (answers.first - n) * n + answers.second)
    return pairs


class Evidence:
    """The weights of answers that are not independent. What does not change from one step to the next is kept."""

    def __init__(self, answers: SoftAnswers, judge: JudgeModel) -> None:
        self.judge = judge
        self.shape = answers.n_targets, answers.n_rungs
        self.sampling = answers.sampling
        self.pairs = pairs_of(answers)
        self.repeated = 1 + (np.bincount(self.pairs)[self.pairs] - 1) * judge.pair_correlation
        self.about = answers.first >= answers.n_rungs
        self.target = answers.first[self.about] - answers.n_rungs
        self.place = self.target * answers.n_rungs + answers.second[self.about]

    def weight(self, probs: FloatArray) -> FloatArray:
        """How many answers drawn from P each answer is worth, shape (n_answers,). probs : P of each answer

            w / (1 + (k - 1) pair) / effect        w = JudgeModel.weight, k answers about the same two texts

        of sampled answers w / (1 + pair f sum of the others' f). effect is that of `effect_of_neighbours` on all
        answers about a text.
        """
        weight = self.weight_of_pairs(probs)
        if self.judge.rung_correlation:
            info = self.by_rung(weight * variance(probs))
            effect = effect_of_neighbours(self.judge, info, self.share_by_rung(probs, weight))
            weight[self.about] /= effect[self.target]
        return weight

    def weight_of_pairs(self, probs: FloatArray) -> FloatArray:
        """As `weight`, but for what neighbouring rungs share."""
        if self.sampling is None:
            return self.judge.weight(probs) / self.repeated
        return self.judge.weight(probs, self.sampling) / self._repeated(np.sqrt(self._share(probs, self.sampling)))

    def _share(self, probs: FloatArray, sampling: FloatArray) -> FloatArray:
        return share_of_opinion(self.judge, variance(probs), sampling)

    def _repeated(self, root: FloatArray) -> FloatArray:
        """Of answers that share `root`, f, of their noise: `repeated`, where all f are 1."""
        others = np.bincount(self.pairs, root)[self.pairs] - root
        repeated: FloatArray = 1 + root * others * self.judge.pair_correlation
        return repeated

    def share_by_rung(self, probs: FloatArray, weight: FloatArray) -> FloatArray | None:
        """The share f^2 of the answers about each target and rung taken together, shape (n_targets, N); None: 1.

        weight : of `weight_of_pairs`. Of k answers alike, f^2 (1 + (k - 1) pair) / (1 + (k - 1) pair f^2): what they
        share is not divided by k.
        """
        if self.sampling is None:
            return None
        share = self._share(probs, self.sampling)
        share = share * self.repeated / self._repeated(np.sqrt(share))
        info = weight * variance(probs)
        total = self.by_rung(info)
        return np.divide(self.by_rung(info * share), total, out=np.zeros_like(total), where=total > 0)

    def by_rung(self, values: FloatArray) -> FloatArray:
        """Sums over the answers about each target and rung, shape (n_targets, N)."""
        sums = np.bincount(self.place, values[self.about], self.shape[0] * self.shape[1]).astype(np.float64)
        return sums.reshape(self.shape)


def share_of_opinion(judge: JudgeModel, var: FloatArray, sampling: FloatArray) -> FloatArray:
    """f^2, what of an answer's noise is the judge's settled opinion, shape of var: 1 for exact probabilities."""
    share: FloatArray = judge.dispersion(var) / judge.dispersion(var, sampling)
    return np.minimum(share, 1.0)


def effect_of_neighbours(judge: JudgeModel, info: FloatArray, share: FloatArray | None = None) -> FloatArray:
    """How many times as uncertain (in variance) a text is as independent answers with this information would leave it.

        g' C g / g' g        g = sqrt(info), C_jk = rung_correlation^|j - k| f_j f_k, C_jj = 1

    info : shape (n_targets, N), in any unit. share : f^2 of each rung; None: 1
    returns : shape (n_targets,); 1 where there is no information
    """
    g = np.sqrt(info)
    own = (g**2).sum(axis=1)
    g = g if share is None else g * np.sqrt(share)
    together = own.copy()
    for lag in range(1, g.shape[1]):  # not as a matrix product, whose rounding depends on how many texts there are
        together += 2 * judge.rung_correlation**lag * (g[:, lag:] * g[:, :-lag]).sum(axis=1)
    effect: FloatArray = np.divide(together, own, out=np.ones_like(own), where=own > 0)
    return effect


def information_of_rungs(judge: JudgeModel, info: FloatArray, asked: BoolArray) -> FloatArray:
    """On x - r of each rung, of the questions that were asked, shape (n_targets, N), before what neighbours share.

    info, asked : shape (n_targets, n_orders, N); of each question by itself
    """
    count = np.maximum(asked.sum(axis=1), 1)
    total: FloatArray = np.where(asked, info, 0.0).sum(axis=1) / (1 + (count - 1) * judge.pair_correlation)
    return total


def decay(correlation: float, n_rungs: int) -> FloatArray:
    """correlation^|j - k|, shape (N, N)."""
    rungs = np.arange(n_rungs)
    matrix: FloatArray = correlation ** np.abs(rungs[:, None] - rungs).astype(np.float64)
    return matrix


def find_pair_correlation(answers: SoftAnswers, judge: JudgeModel, off: Residuals) -> float:
    """Of the noise of answers about the same two texts, as those tell that were asked about more than once.

        sum of z z'  /  sum of (z^2 + z'^2) / 2        over all two answers about the same texts

    What the positions hide of residuals is their own variance, which such answers share: it is added to both sums.
    """
    towards = np.where((answers.first < answers.n_rungs) & (answers.first > answers.second), -1.0, 1.0)
    weight = judge.weight(off.probs, off.sampling)
    if off.sampling is not None:
        towards = towards * np.sqrt(share_of_opinion(judge, off.variance, off.sampling))
    z = towards * off.residual * np.sqrt(weight / off.variance)
    hidden = towards * np.sqrt(weight * off.variance * off.hidden)
    pairs = np.unique(pairs_of(answers), return_inverse=True)[1]
    others = np.bincount(pairs) - 1
    together, apart = _FEW_PAIRS * _PAIR, _FEW_PAIRS
    for values in (z, hidden):
        squares = np.bincount(pairs, values**2)
        together += float((np.bincount(pairs, values) ** 2 - squares) @ (others > 0))
        apart += float(squares @ others)
    if off.sampling is not None:  # of f^2 z^2 the share f^2 is the opinion's
        apart -= float(np.bincount(pairs, towards**2 * (1 - towards**2)) @ others)
    return float(np.clip(together / apart, _LEAST, _MOST))


def find_rung_correlation(answers: SoftAnswers, judge: JudgeModel, posterior: Posterior, off: Residuals) -> float:
    """Of the noise of answers about a text and neighbouring rungs: what residuals show, less one standard error.

    Where a text is moved, the residuals z of its rungs move by g, the root of their information. What is orthogonal to
    g says nothing of the position: y = P z. Over all texts that were asked about on every rung,

        ratio = sum of y_j y_j+1 / sum of y_j y_j

    and the correlation is the one whose P C P have this ratio. What the errors of rungs hide of y y' is added to it. Of
    sampled answers it is drawn towards 0, as far as no correlation moves the ratio by more than its own error.
    """
    n = answers.n_rungs
    evidence = Evidence(answers, judge)
    weight = evidence.weight_of_pairs(off.probs)
    info = evidence.by_rung(weight * off.variance)
    whole = (info > 0).all(axis=1)
    if n < 3 or whole.sum() < 2:
        return 0.0
    g = np.sqrt(info[whole])
    unit = g / np.linalg.norm(g, axis=1, keepdims=True)
    project = np.eye(n) - unit[:, :, None] * unit[:, None, :]
    y = np.einsum("tjk,tk->tj", project, evidence.by_rung(weight * off.residual)[whole] / g)
    errors = judge.discrimination**2 * g[:, :, None] * posterior.rung_cov[answers.target_ladder[whole]] * g[:, None, :]
    seen = y[:, :, None] * y[:, None, :] + project @ errors @ project
    here, beside = np.eye(n), np.eye(n, k=1) / 2 + np.eye(n, k=-1) / 2
    squares, products = (np.einsum("tjk,jk->t", seen, each) for each in (here, beside))
    ratio = products.sum() / squares.sum()
    spread = ((products - ratio * squares) ** 2).sum() * len(squares) / (len(squares) - 1)
    through = [project @ each @ project for each in (here, beside)]
    expected = [matrices.sum(axis=0) for matrices in through]
    of_sampling = [0.0, 0.0]  # of each rung by itself, whatever the correlation
    share = evidence.share_by_rung(off.probs, weight)
    if share is not None:
        f = np.sqrt(share[whole])
        expected = [(matrices * f[:, :, None] * f[:, None, :]).sum(axis=0) for matrices in through]
        of_sampling = [np.einsum("tjj,tj->", matrices, 1 - share[whole]).item() for matrices in through]
    at_here, at_beside = ([(decay(c, n) * each).sum() for c in _GRID.tolist()] for each in expected)
    ratios = [(b + of_sampling[1]) / (h + of_sampling[0]) for h, b in zip(at_here, at_beside, strict=True)]
    stderr = np.sqrt(spread) / squares.sum()
    found = float(np.interp(ratio - stderr, ratios, _GRID))
    if share is not None:  # where sampling hides the opinions, any correlation fits the ratio
        told = ratios[-1] - ratios[0]
        found *= float(told**2 / (told**2 + stderr**2))
    return found
