"""PoE-g: every comparison measures a score difference, with Gaussian noise. Least squares on the graph of comparisons.

d_k = s_i - s_j ~ N(p_k - beta, sigma^2)
L s = b,   L the Laplacian of the weights w_k,   b_i = sum of +- w_k (p_k - beta),   on mean zero
"""

from __future__ import annotations

import numpy as np

from .comparisons import Comparisons, added_up
from .counts import Decisions, decided
from .graph import Graph, Information
from .result import Ranking
from .uncertainty import Stderr, dispersion, standard_errors


def gaussian(comparisons: Comparisons, *, bias: float | None = None, stderr: Stderr = "auto") -> Ranking:
    """PoE-g's linear expert: scores whose differences are nearest to what the probabilities say.

    bias : beta, the p at which there is no difference; None: 1/2. It cancels where every pair is judged in both orders.
        > 1/2: the judge prefers what it is shown first.
    stderr : see standard_errors, with the dispersion of the pairs, whose degrees_of_freedom settings hold; with none
        left (a tree of pairs) it is NaN. sigma in settings is of a single call; a row of weight w is w calls:

            sigma^2 = sum w_k (mu_k - d_k)^2 / (sum w_k - (N - 1)),   mu_k = p_k - beta

    log_likelihood : sum w_k log N(mu_k; d_k, sigma^2); infinite if the fit is perfect
    raises : RankingError if the comparisons do not link all candidates
    source : PoE (arXiv 2405.05894) 2.4; its anchor is a gauge, of no effect on these scores.
    """
    beta = 0.5 if bias is None else float(bias)
    return _ranked(comparisons, beta, "poe-g", {"beta": beta}, stderr)


def hard_gaussian(comparisons: Comparisons, *, decisions: Decisions = "averaged", stderr: Stderr = "auto") -> Ranking:
    """PoE-g-hard: `gaussian` on who won. On all pairs, an affine map of win_ratio.

    decisions : what a win is, as in win_ratio. stderr, raises : as in gaussian
    """
    return _ranked(decided(comparisons, decisions), 0.5, "poe-g-hard", {"decisions": decisions}, stderr)


def _ranked(comparisons: Comparisons, beta: float, method: str, settings: dict[str, object], stderr: Stderr) -> Ranking:
    n, w, mean = comparisons.n_candidates, comparisons.weights, comparisons.probabilities - beta
    swapped = comparisons.first > comparisons.second
    i, j = np.minimum(comparisons.first, comparisons.second), np.maximum(comparisons.first, comparisons.second)
    i, j, (flow, games) = added_up(i, j, n, (w * np.where(swapped, -mean, mean), w))
    graph = Graph(n, i, j)
    graph.require_connected(comparisons.ids)
    information, pull = Information(graph, games), graph.divergence(flow)
    scores = information.solve(pull)
    residuals = mean - (scores[comparisons.first] - scores[comparisons.second])
    freedom = float(w.sum()) - (n - 1)
    if np.abs(residuals).max() <= 1e-12 * np.abs(mean).max():  # rounding
        residuals = np.zeros_like(residuals)
    sigma = float(np.sqrt(w @ residuals**2 / freedom)) if freedom > 1e-9 else float("nan")
    slopes = flow - games * graph.differences(scores)
    phi, left_over = dispersion(information, slopes if residuals.any() else np.zeros_like(slopes), float("nan"))
    errors, _ = standard_errors(stderr, information, phi)
    scaled = np.divide(residuals, sigma, out=np.zeros_like(residuals), where=residuals != 0)
    with np.errstate(divide="ignore"):
        densities = -0.5 * np.log(2 * np.pi * np.square(sigma)) - 0.5 * scaled**2
    left = float(np.abs(pull - information @ scores).max())
    return Ranking(
        comparisons.ids,
        scores,
        graph.degrees(games),
        method,
        errors,
        converged=left <= 1e-9 * float(np.abs(flow).sum()),
        gradient=left,
        log_likelihood=float(w @ densities),
        settings=settings | {"degrees_of_freedom": left_over, "sigma": sigma},
    )
