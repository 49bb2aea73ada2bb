"""Maximum likelihood on a graph: one solver for the Bradley-Terry family.

Each edge has a log-likelihood that is concave in its score difference d_e = s_i - s_j and, if there is one, in a
parameter that all edges share. Knows nothing of comparisons.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from scipy import sparse

from ..types import FloatArray
from .graph import Complete, Graph, Information

# A full Newton step whose differences change by at most this raises the likelihood: see _step.
SAFE_CHANGE = 1.79
# A gradient is small far out on the likelihood's flat tails, too; there every step is about 1 nat. The last step before
# the end must be shorter than this.
LAST_STEP = 0.01
NODES = 14  # Chebyshev nodes in a cell one nat wide: tanh(d / 2) to 1e-15


class Slopes(NamedTuple):
    """Derivatives of the log-likelihood l_e(d_e, theta) of every edge.

    d, theta : dl/dd and dl/dtheta
    dd, dtheta : -d2l/dd2 and -d2l/(dd dtheta)
    corner : the sum of -d2l/dtheta2
    """

    d: FloatArray
    dd: FloatArray
    theta: FloatArray | None = None
    dtheta: FloatArray | None = None
    corner: float = 0.0


class Likelihood(Protocol):
    def slopes(self, d: FloatArray, theta: float) -> Slopes: ...


class Fit(NamedTuple):
    """scores : mean zero. gradient : the largest |derivative| left. information : at the scores."""

    scores: FloatArray
    theta: float
    converged: bool
    iterations: int
    gradient: float
    slopes: Slopes
    information: Information


class Everyone:
    """A prior: epsilon wins for every candidate against every other one, both ways.

        log p(s) = epsilon sum over pairs of log sigma(d) + log sigma(-d)

    The N^2 pairs are never formed. The sums over them are smooth in the score alone, so they are taken over Chebyshev
    nodes in cells one nat wide and interpolated, to rounding: O(N) time and memory. While candidates are fewer than
    nodes, they are the nodes.
    """

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon

    def slopes(self, scores: FloatArray) -> tuple[FloatArray, Complete]:
        """d log p / ds, shape (N,), and minus the second derivative."""
        basis, nodes = _interpolation(scores)
        pull = np.tanh((nodes[:, None] - nodes[None, :]) / 2)
        mass = basis.T @ np.ones(len(scores))
        gradient = -self.epsilon * (basis @ (pull @ mass))
        return gradient, Complete(basis, self.epsilon / 2 * (1 - pull**2))


def _interpolation(scores: FloatArray) -> tuple[sparse.csr_array, FloatArray]:
    """A sparse (N, M) matrix and M nodes: smooth f(scores) = matrix @ f(nodes)."""
    n = len(scores)
    cells, cell = np.unique(np.floor(scores), return_inverse=True)
    if n <= NODES * len(cells):
        return sparse.csr_array((np.ones(n), np.arange(n), np.arange(n + 1)), shape=(n, n)), scores
    angles = (np.arange(NODES) + 0.5) * np.pi / NODES
    nodes = (cells[:, None] + 0.5 + np.cos(angles) / 2).ravel()
    # The discrete cosine transform turns values at the nodes into Chebyshev coefficients.
    coefficients = 2 / NODES * np.cos(np.outer(np.arange(NODES), angles))
    coefficients[0] /= 2
    values = np.polynomial.chebyshev.chebvander(2 * (scores - cells[cell]) - 1, NODES - 1) @ coefficients
    columns = (NODES * cell[:, None] + np.arange(NODES)).ravel()
    starts = np.arange(0, NODES * n + 1, NODES)
    return sparse.csr_array((values.ravel(), columns, starts), shape=(n, len(nodes))), nodes


class _Point:
    """A point on the way up: derivatives there."""

    def __init__(
        self, graph: Graph, likelihood: Likelihood, prior: Everyone | None, scores: FloatArray, theta: float
    ) -> None:
        self.scores, self.theta, self._graph = scores, theta, graph
        self.slopes = likelihood.slopes(graph.differences(scores), theta)
        self.gradient = graph.divergence(self.slopes.d)
        self._complete: Complete | None = None
        if prior is not None:
            pull, self._complete = prior.slopes(scores)
            self.gradient += pull
        self.gradient -= self.gradient.mean()  # 0 but for rounding
        if self.slopes.theta is not None:
            self.gradient = np.append(self.gradient, self.slopes.theta.sum())

    def information(self) -> Information:
        dtheta = self.slopes.dtheta
        return Information(
            self._graph,
            self.slopes.dd,
            complete=self._complete,
            column=None if dtheta is None else self._graph.divergence(dtheta),
            corner=self.slopes.corner,
        )


def maximise(
    graph: Graph,
    likelihood: Likelihood,
    games: FloatArray,
    *,
    start: FloatArray | None = None,
    theta: float = 0.0,
    prior: Everyone | None = None,
    tolerance: float = 1e-9,
    max_iterations: int = 100,
) -> Fit:
    """The scores (mean zero) and theta of greatest likelihood, by Newton's method.

    games : shape (n_edges,), the weight of each edge's comparisons, > 0
    tolerance : converged when no derivative is more than this for each unit of weight it sums over
    """
    scale = graph.degrees(games) + (0.0 if prior is None else 2 * prior.epsilon * (graph.n - 1))
    start = np.zeros(graph.n) if start is None else start - start.mean()
    point = _Point(graph, likelihood, prior, start, theta)
    if point.slopes.theta is not None:
        scale = np.append(scale, games.sum())
    change, first = np.inf, float(np.sqrt(point.gradient @ point.gradient))
    for iteration in range(max_iterations + 1):
        left = float(np.max(np.abs(point.gradient) / scale))
        converged = left == 0 or (left <= tolerance and change <= LAST_STEP)
        if converged or iteration == max_iterations:
            break
        # The nearer to the top, the more exact: a step that is no better than its start would be wasted on the way.
        information, size = point.information(), float(np.sqrt(point.gradient @ point.gradient))
        step = information.solve(point.gradient, tolerance=max(1e-10, min(0.05, size / first)))
        point, change = _step(graph, likelihood, prior, point, step)
    gradient = float(np.abs(point.gradient).max())
    return Fit(point.scores, point.theta, converged, iteration, gradient, point.slopes, point.information())


def _step(
    graph: Graph, likelihood: Likelihood, prior: Everyone | None, start: _Point, step: FloatArray
) -> tuple[_Point, float]:
    """The next point, and by how much a difference or theta may have changed on the way to it.

    Along a line the third derivative of these likelihoods is at most c times the second, where c is the largest change
    of a difference (and of theta). So f(t) - f(0) >= a (t - (exp(c t) - 1 - c t) / c^2), a > 0 the slope at the start,
    which is > 0 for t = 1 up to c = 1.79, and greatest at t = log(1 + c) / c for any c. A longer step is taken
    where the likelihood, concave, still rises at its end.
    (Sun and Tran-Dinh, Generalized self-concordant functions, 2019, nu = 2.)
    """
    n = graph.n
    change = float(np.ptp(step[:n])) + float(np.abs(step[n:]).sum())

    def at(length: float) -> _Point:
        moved = start.scores + length * step[:n]
        theta = start.theta + length * float(step[n:].sum())
        return _Point(graph, likelihood, prior, moved, theta)

    point = at(1.0)
    if change <= SAFE_CHANGE or float(point.gradient @ step) >= 0:
        return point, change
    length = float(np.log1p(change)) / change
    return at(length), length * change
