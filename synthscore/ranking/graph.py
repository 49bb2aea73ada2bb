"""The graph of who was compared with whom: whether scores exist at all, linear systems on its Laplacian, and how far
scores that solve them may be off.

Knows nothing of probabilities. An edge carries a weight; nothing here is ever N x N unless asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import LinearOperator, cg

from ..errors import InputError, RankingError
from ..types import FloatArray, IntArray, grouped
from .comparisons import added_up, sum_by

SMALL = 128  # up to this many unknowns, a dense solve is as fast as anything
PATIENCE = 4  # steps of conjugate gradients for each unknown
MOST_DENSE = 10_000  # a matrix of this many candidates is 0.8 GB

Stderr = Literal["auto", "model"] | None
AUTOMATIC = 3_000  # candidates up to which "auto" computes errors: about 2 s, 100 MB


class Graph:
    """Edges among n candidates: float64 arrays over edges go in, arrays over candidates come out, and back.

    i, j : int64, shape (n_edges,), sorted by i, each (i, j) once
    """

    def __init__(self, n: int, i: IntArray, j: IntArray) -> None:
        self.n, self.i, self.j = n, i, j

    def differences(self, x: FloatArray) -> FloatArray:
        """x_i - x_j of every edge."""
        return np.asarray(x[self.i] - x[self.j])

    def divergence(self, flow: FloatArray) -> FloatArray:
        """The flow of each candidate's edges: + where it is i, - where it is j. The transpose of differences."""
        return sum_by(self.i, flow, self.n) - sum_by(self.j, flow, self.n)

    def degrees(self, weights: FloatArray) -> FloatArray:
        """For every candidate, the weight of its edges."""
        return self.sums(weights, weights)

    def sums(self, of_i: FloatArray, of_j: FloatArray) -> FloatArray:
        """For every candidate, what its edges have for i where it is i, and for j where it is j."""
        return sum_by(self.i, of_i, self.n) + sum_by(self.j, of_j, self.n)

    def require_connected(self, ids: Sequence[str]) -> None:
        """raises : RankingError if some candidates are linked to others by no comparison"""
        _, groups = _components(ids, self.i, self.j, "weak")
        if len(groups) > 1:
            raise RankingError(
                f"scores are known up to a shift inside each of {len(groups)} groups that no comparison links: "
                f"{_shown(groups.values())}. Expected one group. Compare across groups, rank each by itself, or take "
                "a method that works without (bt with prior='all', colley, win-ratio, average-probability)"
            )

    def require_finite(self, ids: Sequence[str], wins: FloatArray, losses: FloatArray) -> None:
        """raises : RankingError if the likelihood grows for ever as a group of candidates moves away from the rest.

        wins, losses : shape (n_edges,), >= 0; weight of the answers for i, for j

        Finite scores exist if and only if the graph of wins is strongly connected (Ford 1957).
        """
        if (wins > 0).all() and (losses > 0).all():
            return self.require_connected(ids)
        won, lost = wins > 0, losses > 0
        i = np.concatenate([self.i[won], self.j[lost]])
        j = np.concatenate([self.j[won], self.i[lost]])
        part, groups = _components(ids, i, j, "strong")
        if len(groups) > 1:
            self.require_connected(ids)
            across = part[i] != part[j]
            beaten, winners = set(part[j[across]].tolist()), set(part[i[across]].tolist())
            unbeaten = _shown(group for k, group in groups.items() if k not in beaten)
            winless = _shown(group for k, group in groups.items() if k not in winners)
            raise RankingError(
                f"scores are not finite: {unbeaten} never lost to the others, {winless} never won against the others, "
                "so their distance grows without end. Expected wins both ways across any split of the candidates. "
                "Take a prior (bt with prior='all'), soft probabilities, or more comparisons"
            )

    def require_finite_shift(self, wins: FloatArray, losses: FloatArray) -> None:
        """raises : RankingError if the likelihood grows for ever with gamma, which is taken from all differences.

        It does where scores exist with x_i - x_j >= gamma on edges with wins and <= gamma on those with losses, for
        gamma = 1 or -1: such differences exist if and only if no cycle of these bounds is negative. The edges, in the
        order of showing, are strongly connected and tell gamma from the scores.
        """
        won, lost = wins > 0, losses > 0
        if won.all() and lost.all():
            return
        source = np.concatenate([self.i[won], self.j[lost]])
        target = np.concatenate([self.j[won], self.i[lost]])
        for gamma, preferred in ((1.0, "second"), (-1.0, "first")):
            bound = np.concatenate([np.full(int(won.sum()), -gamma), np.full(int(lost.sum()), gamma)])
            # The smaller of two bounds on one difference counts; a sparse matrix would add them up.
            order = np.lexsort((bound, target, source))
            key = source[order] * self.n + target[order]
            one = order[np.append(True, key[1:] > key[:-1])]
            bounds = sparse.csr_array((bound[one], (source[one], target[one])), shape=(self.n, self.n))
            try:
                csgraph.bellman_ford(bounds, indices=np.array([0]))
            except csgraph.NegativeCycleError:
                continue
            raise RankingError(
                f"bias='mle': the place decides: no finite gamma, since the {preferred} text wins wherever the scores "
                "leave it open. Expected answers against the place, too. Show more pairs in both orders, take soft "
                "probabilities, or give bias a number or None"
            )


def _components(
    ids: Sequence[str], i: IntArray, j: IntArray, connection: Literal["weak", "strong"]
) -> tuple[IntArray, dict[int, list[str]]]:
    """The number of each candidate's component, where edges go from i to j; and the ids of each."""
    edges = sparse.coo_array((np.ones(len(i)), (i, j)), shape=(len(ids), len(ids)))
    _, part = csgraph.connected_components(edges, connection=connection)
    return part.astype(np.int64), grouped(zip(part.tolist(), ids, strict=True))


def _shown(groups: Iterable[Sequence[str]]) -> str:
    """The three largest, and three names of each."""

    def some(shown: Sequence[str]) -> str:
        more = [f"{len(shown) - 3} more"] if len(shown) > 3 else []
        return " and ".join([", ".join(shown[:3]), *more])

    largest_first = sorted(groups, key=len, reverse=True)
    in_braces = [some([repr(name) for name in group]) for group in largest_first]
    return some([f"{{{names}}}" for names in in_braces])


def require_dense(n: int, what: str, remedy: str) -> None:
    """raises : RankingError for what would need a matrix of too many candidates"""
    if n > MOST_DENSE:
        raise RankingError(
            f"cannot hold {what} of {n} candidates ({8 * n * n / 1e9:.0f} GB), expected at most {MOST_DENSE}. {remedy}"
        )


class Information:
    """Minus the second derivative of a log-likelihood: the Laplacian of the weighted graph, and what comes on top.

        L[a, a] = weight of a's edges + ridge;  L[a, b] = -weight of (a, b)

    weights : shape (n_edges,), >= 0
    ridge : added to the diagonal; without it L is singular, and everything happens where the sum is 0
    everyone : shape (N, N); weights between all candidates, besides those of the edges
    column, corner : shape (N,) and a number; the row and column of one more parameter, last
    """

    def __init__(
        self,
        graph: Graph,
        weights: FloatArray,
        *,
        ridge: float = 0.0,
        everyone: FloatArray | None = None,
        column: FloatArray | None = None,
        corner: float = 0.0,
    ) -> None:
        self.graph, self.weights, self.ridge, self.everyone = graph, weights, ridge, everyone
        self.column, self.corner = column, corner
        of_everyone = 0.0 if everyone is None else everyone @ np.ones(graph.n)
        self.diagonal = graph.degrees(weights) + ridge + of_everyone
        # What is added between all candidates to make L regular without changing it where scores sum to 0.
        self.gauge = 0.0 if ridge else float(self.diagonal.mean()) / graph.n

    def dense(self, gauge: float = 0.0) -> FloatArray:
        n = self.graph.n
        size = n if self.column is None else n + 1
        matrix = np.zeros((size, size))
        scores = matrix[:n, :n]
        scores[self.graph.i, self.graph.j] = -self.weights
        scores += scores.T
        if self.everyone is not None:
            scores -= self.everyone
        scores[np.arange(n), np.arange(n)] += self.diagonal
        scores += gauge
        if self.column is not None:
            matrix[n, :n] = matrix[:n, n] = self.column
            matrix[n, n] = self.corner
        return matrix

    def solve(self, b: FloatArray, tolerance: float = 1e-12) -> FloatArray:
        """x with L x = b; without ridge, the one whose scores sum to 0 (those of b do).

        tolerance : of |L x - b|, relative to |b|, if reached by conjugate gradients
        """
        n, failed = self.graph.n, True
        if len(b) <= SMALL:
            lower, failed = linalg.lapack.dpotrf(self.dense(self.gauge), lower=1)
        if failed:
            edges = sparse.csr_array((self.weights, (self.graph.i, self.graph.j)), shape=(n, n))
            back = edges.T

            def product(x: FloatArray) -> FloatArray:
                scores = x[:n]
                y: FloatArray = self.diagonal * scores - edges @ scores - back @ scores
                if self.everyone is not None:
                    y -= self.everyone @ scores
                if self.column is not None:
                    y = np.append(y + self.column * x[-1], self.column @ scores + self.corner * x[-1])
                return y

            size = len(b)
            scaling = sparse.diags_array(1 / np.append(self.diagonal, self.corner)[:size])
            system = LinearOperator((size, size), product, dtype=np.float64)
            # From 0, so that x'Lx = x'b whenever it stops: Newton's method counts on that.
            x, _ = cg(system, b, rtol=tolerance, atol=0.0, maxiter=PATIENCE * len(b), M=scaling)
        else:
            x = linalg.lapack.dpotrs(lower, b, lower=1)[0]
        if not self.ridge:
            x[:n] -= x[:n].mean()
        return np.asarray(x)

    def covariance(self) -> FloatArray:
        """The inverse, dense; without ridge, on the vectors that sum to 0. O(N^3) time, O(N^2) memory."""
        n = self.graph.n
        require_dense(n, "the errors", "Take stderr='bootstrap' or 'none'")
        lower, failed = linalg.lapack.dpotrf(self.dense(self.gauge), lower=1)
        inverse, failed_too = linalg.lapack.dpotri(lower, lower=1)
        if failed or failed_too:
            raise RankingError("the information is singular: a parameter is not determined by these comparisons")
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        if self.gauge:
            inverse[:n, :n] -= 1 / (self.gauge * n * n)
        return np.asarray(inverse)


# ------------------------------------------------------------------------------------------------- errors


def dispersion(information: Information, slopes: FloatArray, unmeasured: float) -> tuple[float, int]:
    """How many times as far from the scores the pairs' answers are as the curvature says, squared; and the degrees of
    freedom it rests on. When these are few, take Student's t for intervals.

        phi = sum over pairs of g^2 / h / freedom,   freedom = pairs - parameters

    The pair is the unit, in whichever orders and however often it was asked: what a judge says twice is one decision.

    g, h : derivative and curvature of a pair's log-likelihood, sums of slopes, shape (n_edges,), and of the weights
    unmeasured : phi where no freedom is left. 1: each call is a coin's flip
    source : quasi-likelihood, McCullagh and Nelder (1989), 9.2
    """
    graph = information.graph
    low, high = np.sort([graph.i, graph.j], axis=0)
    columns = np.where(graph.i < graph.j, slopes, -slopes), information.weights
    _, _, (slope, curvature) = added_up(low, high, graph.n, columns)
    n_parameters = graph.n - (information.column is None)
    freedom = max(len(slope) - n_parameters, 0)
    if not freedom:
        return unmeasured, 0
    parts = np.divide(slope**2, curvature, out=np.zeros_like(slope), where=curvature > 0)
    return float(parts.sum()) / freedom, freedom


def standard_errors(kind: Stderr, information: Information, phi: float | FloatArray) -> FloatArray:
    """Of scores with mean zero, and of the parameter that all edges share, if there is one: H^-1 M H^-1, H the
    information at the scores and M that of the edges alone, phi times.

    kind : "model"; "auto": the same for at most 3,000 candidates, else None; None: NaN
    phi : as `dispersion` measures it; or where it is known, shape (n_edges,): how often its decision was counted
    raises : RankingError for more than 10,000 candidates: the inverse is dense
    """
    if kind not in ("auto", "model", None):
        raise InputError(f"stderr is {kind!r}, expected 'auto', 'model' or None")
    n = information.graph.n
    if kind is None or (kind == "auto" and n > AUTOMATIC):
        return np.full(n if information.column is None else n + 1, np.nan)
    covariance = information.covariance()
    if isinstance(phi, float):
        variance = phi * np.diag(covariance)
    else:
        edges = Information(information.graph, phi * information.weights).dense()
        variance = ((covariance @ edges) * covariance).sum(axis=1)
    return np.asarray(np.sqrt(variance))
