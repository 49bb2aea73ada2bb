"""Maximum likelihood on a graph: one solver for the Bradley-Terry family.

Each edge has a log-likelihood that is concave in its score difference d_e = s_i - s_j and, if there is one, in a
parameter that all edges share. Knows nothing of comparisons.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from ..types import FloatArray
from .graph import Graph, Information, require_dense

# A full Newton step whose differences change by at most this raises the likelihood: see _step.
SAFE_CHANGE = 1.79
# A gradient is small far out on the likelihood's flat tails, too; there every step is about 1 nat. The last step before
# the end must be shorter than this.
LAST_STEP = 0.01
TOLERANCE = 1e-9  # of a derivative, for each unit of weight that it sums over
MAX_ITERATIONS = 100


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
    """games : float64, shape (n_edges,), > 0; the weight of each edge's comparisons"""

    games: FloatArray

    def slopes(self, d: FloatArray, theta: float) -> Slopes: ...


class Fit(NamedTuple):
    """scores : mean zero. gradient : the largest |derivative| left. information : at the scores."""

    scores: FloatArray
    theta: float
    converged: bool
    iterations: int
    gradient: float
    information: Information


class _Point:
    """A point on the way up: derivatives there."""

    def __init__(self, graph: Graph, likelihood: Likelihood, prior: float, scores: FloatArray, theta: float) -> None:
        self.scores, self.theta, self._graph = scores, theta, graph
        self.slopes = likelihood.slopes(graph.differences(scores), theta)
        self.gradient = graph.divergence(self.slopes.d)
        self._everyone: FloatArray | None = None
        if prior:
            pull = np.tanh(np.subtract.outer(scores, scores) / 2)
            self.gradient -= prior * (pull @ np.ones(graph.n))
            self._everyone = prior / 2 * (1 - pull**2)
        self.gradient -= self.gradient.mean()  # 0 but for rounding
        if self.slopes.theta is not None:
            self.gradient = np.append(self.gradient, self.slopes.theta.sum())

    def information(self) -> Information:
        dtheta = self.slopes.dtheta
        return Information(
            self._graph,
            self.slopes.dd,
            everyone=self._everyone,
            column=None if dtheta is None else self._graph.divergence(dtheta),
            corner=self.slopes.corner,
        )


def maximise(
    graph: Graph,
    likelihood: Likelihood,
    *,
    start: FloatArray,
    theta: float = 0.0,
    prior: float = 0.0,
) -> Fit:
    """The scores (mean zero) and theta of greatest likelihood, by Newton's method.

    prior : wins of every candidate against every other one, both ways: prior times the sum over all pairs of
        log sigma(d) + log sigma(-d) is added to the log-likelihood. O(N^2) time and memory
    raises : RankingError for a prior on more than 10,000 candidates
    """
    if prior:
        require_dense(graph.n, "a prior on all pairs", "Take poe-bt, or bt with prior='observed'")
    scale = graph.degrees(likelihood.games) + 2 * prior * (graph.n - 1)
    point = _Point(graph, likelihood, prior, start - start.mean(), theta)
    if point.slopes.theta is not None:
        scale = np.append(scale, likelihood.games.sum())
    change, first = np.inf, float(np.sqrt(point.gradient @ point.gradient))
    for iteration in range(MAX_ITERATIONS + 1):
        left = float(np.max(np.abs(point.gradient) / scale))
        converged = left == 0 or (left <= TOLERANCE and change <= LAST_STEP)
        if converged or iteration == MAX_ITERATIONS:
            break
        # The nearer to the top, the more exact: a step that is no better than its start would be wasted on the way.
        information, size = point.information(), float(np.sqrt(point.gradient @ point.gradient))
        step = information.solve(point.gradient, tolerance=max(1e-10, min(0.05, size / first)))
        point, change = _step(graph, likelihood, prior, point, step)
    gradient = float(np.abs(point.gradient).max())
    return Fit(point.scores, point.theta, converged, iteration, gradient, point.information())


def _step(graph: Graph, likelihood: Likelihood, prior: float, start: _Point, step: FloatArray) -> tuple[_Point, float]:
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
