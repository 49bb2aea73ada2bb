"""PoE-g: every comparison measures a score difference, with Gaussian noise. Weighted least squares on the graph.

d_k = s_i - s_j ~ N(mu(p_k), sigma(p_k)^2)
L s = b,   L the Laplacian of weights w_k / sigma_k^2,   b_i = sum of +- w_k mu_k / sigma_k^2,   on mean zero
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..errors import InputError
from ..signature import Signature
from ..types import FloatArray, IntArray
from .comparisons import Comparisons, added_up
from .counts import Decisions, to_decide
from .graph import Graph, Information
from .result import Ranking
from .uncertainty import Errors, Stderr, standard_errors


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """An expert as numbers: mean and standard deviation of s_i - s_j for given p, linear in between.

    p : float64, shape (G,), rising from 0 to 1;  mean : shape (G,);  deviation : shape (G,), > 0
    """

    p: FloatArray
    mean: FloatArray
    deviation: FloatArray

    def __post_init__(self) -> None:
        if not len(self.p) == len(self.mean) == len(self.deviation) >= 2:
            raise ValueError(
                f"{len(self.p)} p, {len(self.mean)} means, {len(self.deviation)} deviations: expected G >= 2"
            )
        if self.p[0] != 0 or self.p[-1] != 1 or (np.diff(self.p) <= 0).any():
            raise ValueError(f"p runs from {self.p[0]} to {self.p[-1]}, expected rising values from 0 to 1")
        if not (np.isfinite(self.mean).all() and (self.deviation > 0).all() and np.isfinite(self.deviation).all()):
            raise ValueError("a mean is not finite, or a deviation not positive and finite")

    def __call__(self, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        return np.interp(p, self.p, self.mean), np.interp(p, self.p, self.deviation)


Expert = Literal["linear", "bt-moments"] | Table | Callable[[FloatArray], tuple[FloatArray, FloatArray]]


def gaussian(
    comparisons: Comparisons,
    *,
    expert: Expert = "linear",
    alpha: float = 1.0,
    bias: float | Literal["mean"] | None = None,
    sigma: float | None = None,
    stderr: Stderr = "auto",
) -> Ranking:
    """PoE-g: scores whose differences are nearest to what the probabilities say.

    expert : "linear": mu = alpha (p - beta), the same sigma for all
        "bt-moments": mu = -pi cot(pi p), sigma = pi / sin(pi p), those of soft Bradley-Terry's expert; 0 < p < 1
        a Table (see fit_table), or a function of p, shape (K,), that gives mu and sigma, both shape (K,)
    bias : beta, the p at which linear sees no difference: None: 1/2; a number; "mean": the mean p of the calls.
        It cancels where every pair is judged in both orders. > 1/2: the judge prefers what it is shown first.
    sigma : of linear; None: estimated from the residuals, which makes stderr right where the model is true:

            sigma^2 = sum w_k (mu_k - d_k)^2 / (sum w_k - (N - 1))

        A row of weight w counts as w calls. settings holds degrees_of_freedom, sum w_k - (N - 1); when they are few,
        take Student's t for intervals. With none left (a tree of single calls) sigma and stderr are NaN.
        Both calls about a pair share what the judge thinks of it: where they do, take stderr "sandwich".
    log_likelihood : sum w_k log N(mu_k; d_k, sigma_k^2); infinite if the fit is perfect
    raises : RankingError, with components, if the comparisons do not link all candidates; InputError, with row, if the
        expert gives no finite mu or no sigma > 0
    source : PoE (arXiv 2405.05894) 2.4; its anchor is a gauge, of no effect on these scores.
    """
    p = comparisons.probabilities
    beta = 0.5
    if bias == "mean":
        if not len(comparisons):
            Graph(comparisons.n_candidates, comparisons.first, comparisons.second).require_connected(comparisons.ids)
        beta = float(np.average(p, weights=comparisons.weights))
    elif bias is not None:
        beta = float(bias)
    if expert == "linear":
        settings: dict[str, object] = {"expert": "linear", "alpha": alpha, "beta": beta}
        return _ranked(comparisons, alpha * (p - beta), sigma, "poe-g", settings, stderr)
    if bias is not None or alpha != 1.0 or sigma is not None:
        raise ValueError("alpha, bias and sigma are the linear expert's; another expert says itself what p means")
    if expert == "bt-moments":
        smaller = np.minimum(p, comparisons.reversed().probabilities)  # 1 - p to full precision, too
        with np.errstate(divide="ignore"):
            mean = np.where(p > 0.5, np.pi, -np.pi) / np.tan(np.pi * smaller)
            deviation = np.pi / np.sin(np.pi * smaller)
        settings = {"expert": "bt-moments"}
    elif callable(expert):
        mean, deviation = expert(p)
        settings = {"expert": "table" if isinstance(expert, Table) else "custom"}
    else:
        raise ValueError(f"expert is {expert!r}, expected 'linear', 'bt-moments', a Table or a function of p")
    good = np.isfinite(mean) & np.isfinite(deviation) & (deviation > 0)
    if not good.all():
        row = int(np.argmin(good))
        raise InputError(
            f"comparison {row + 1}: for p = {p[row]} the expert gives mean {mean[row]} and deviation {deviation[row]}, "
            "expected finite numbers and a deviation > 0. Certain answers need expert='linear', or poe-bt",
            row=row + 1,
            value=float(p[row]),
        )
    return _ranked(comparisons, mean, deviation, "poe-g", settings, stderr)


def hard_gaussian(
    comparisons: Comparisons,
    *,
    decisions: Decisions = "averaged",
    alpha: float = 1.0,
    sigma: float | None = None,
    stderr: Stderr = "auto",
) -> Ranking:
    """PoE-g-hard: gaussian's linear expert on who won. On all pairs, an affine map of win_ratio.

    decisions : what a win is, as in win_ratio. alpha, sigma, stderr, raises : as in gaussian
    """
    hard = to_decide(comparisons, decisions)
    settings: dict[str, object] = {"decisions": decisions, "alpha": alpha}
    return _ranked(hard, alpha * (hard.decisions - 0.5), sigma, "poe-g-hard", settings, stderr)


def fit_table(comparisons: Comparisons, scores: FloatArray, *, n_bins: int = 10) -> Table:
    """An expert from labelled data: how large s_i - s_j is, on average, when the judge says p.

    scores : shape (N,), known, of the candidates (people's, say), on the scale that ranked scores shall have

    Every call counts in both directions, (p, d) and (1 - p, -d), so that mu(1 - p) = -mu(p). Calls, sorted by p, are
    cut into n_bins of equal weight; the means of d are made monotone in p by pooling neighbours (isotonic regression);
    deviations are root mean squares of d about them; a bin stands at its mean p, the outermost at 0 and 1 instead.
    raises : InputError for scores that are not finite, or bins without spread
    """
    d = scores[comparisons.first] - scores[comparisons.second]
    if scores.shape != (comparisons.n_candidates,) or not np.isfinite(d).all():
        raise InputError(
            f"scores have shape {scores.shape} and hold {np.count_nonzero(~np.isfinite(scores))} that are not finite, "
            f"expected a number for each of {comparisons.n_candidates} candidates. Leave out calls without"
        )
    p, w = comparisons.probabilities, comparisons.weights
    p, d, w = np.append(p, 1 - p), np.append(d, -d), np.append(w, w)
    order = np.argsort(p, kind="stable")
    p, d, w = p[order], d[order], w[order]
    # Equal p share a bin: which of them comes first says nothing.
    same = np.cumsum(np.append(0, np.diff(p) > 1e-12))
    middle = (np.cumsum(w) - w / 2) / w.sum()
    centre = np.bincount(same, w * middle) / np.bincount(same, w)
    place = np.unique(np.minimum((centre * n_bins).astype(np.int64), n_bins - 1)[same], return_inverse=True)[1]
    mass: FloatArray = np.bincount(place, w).astype(np.float64, copy=False)
    if len(mass) < 2:
        raise InputError("all probabilities fall into one bin, expected at least 2. Take other labelled comparisons")
    grid, mean = np.bincount(place, w * p) / mass, np.bincount(place, w * d) / mass
    mean, pooled = _pool(mean, mass)
    deviation = np.sqrt(np.bincount(pooled[place], w * (d - mean[place]) ** 2) / np.bincount(pooled[place], w))[pooled]
    if not (deviation > 0).all():
        raise InputError(
            f"{n_bins} bins leave some with a single score difference, so that their deviation is 0. Expected spread "
            "in each: take fewer bins, or more labelled comparisons"
        )
    grid[0], grid[-1] = 0.0, 1.0
    return Table(grid, mean, deviation)


def _pool(mean: FloatArray, mass: FloatArray) -> tuple[FloatArray, IntArray]:
    """The nearest sequence that never falls, and the block that each element is pooled into (adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []  # mean, mass, length
    for m, w in zip(mean.tolist(), mass.tolist(), strict=True):
        block = (m, w, 1)
        while blocks and blocks[-1][0] >= block[0]:
            m0, w0, n0 = blocks.pop()
            block = ((m0 * w0 + block[0] * block[1]) / (w0 + block[1]), w0 + block[1], n0 + block[2])
        blocks.append(block)
    lengths = [block[2] for block in blocks]
    return np.repeat([block[0] for block in blocks], lengths), np.repeat(np.arange(len(blocks)), lengths)


def _ranked(
    comparisons: Comparisons,
    mean: FloatArray,
    sigma: FloatArray | float | None,
    method: str,
    settings: dict[str, object],
    stderr: Stderr,
) -> Ranking:
    """sigma : of every call, of all, or None: estimated."""
    n, w = comparisons.n_candidates, comparisons.weights
    if sigma is not None and not np.all(np.asarray(sigma) > 0):
        raise ValueError(f"sigma is {sigma}, expected a number > 0, or None to estimate it")
    precision = w / np.square(1.0 if sigma is None else sigma)
    swapped = comparisons.first > comparisons.second
    i, j = np.minimum(comparisons.first, comparisons.second), np.maximum(comparisons.first, comparisons.second)
    flow = precision * np.where(swapped, -mean, mean)
    i, j, (weights, flow, games) = added_up(i, j, n, (precision, flow, w))
    graph = Graph(n, i, j)
    graph.require_connected(comparisons.ids)
    information, pull = Information(graph, weights), graph.divergence(flow)
    scores = information.solve(pull)
    residuals = mean - (scores[comparisons.first] - scores[comparisons.second])
    errors = standard_errors(stderr, information, flow - weights * graph.differences(scores))
    if sigma is None:
        freedom = float(w.sum()) - (n - 1)
        if np.abs(residuals).max() <= 1e-12 * np.abs(mean).max():  # rounding
            residuals = np.zeros_like(residuals)
        sigma = float(np.sqrt(w @ residuals**2 / freedom)) if freedom > 1e-9 else float("nan")
        settings = {**settings, "degrees_of_freedom": freedom}
        if stderr != "sandwich":  # which is of this scale already
            covariance = None if errors.covariance is None else sigma**2 * errors.covariance
            errors = Errors(sigma * errors.scores, errors.theta, covariance)
    if np.ndim(sigma) == 0:
        settings = {**settings, "sigma": float(sigma)}
    scaled = np.divide(residuals, sigma, out=np.zeros_like(residuals), where=residuals != 0)
    with np.errstate(divide="ignore"):
        densities = -0.5 * np.log(2 * np.pi * np.square(sigma)) - 0.5 * scaled**2
    left = float(np.abs(pull - information @ scores).max())
    return Ranking(
        comparisons.ids,
        scores,
        errors.scores,
        graph.degrees(games),
        method,
        converged=left <= 1e-9 * float(np.abs(flow).sum()),
        gradient=left,
        log_likelihood=float(w @ densities),
        settings=settings,
        covariance=errors.covariance,
        signature=comparisons.signature or Signature(()),
    )
