"""The graph of who was compared with whom: whether scores exist, linear systems on its Laplacian, and standard errors.

Edges carry weights; nothing here knows of probabilities. An N x N matrix is made only where a docstring says so.
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
from .comparisons import add_up, sum_by

SMALL = 128  # unknowns up to which a dense solve is as fast as conjugate gradients
PATIENCE = 4  # steps of conjugate gradients for each unknown
MOST_DENSE = 10_000  # candidates up to which a dense matrix is made: it then has 0.8 GB

Stderr = Literal["auto", "model"] | None
AUTOMATIC = 3_000  # candidates up to which "auto" computes errors: about 2 s, 100 MB


class Graph:
    """Edges among n candidates: float64 arrays over edges go in, arrays over candidates come out, and back.

    i, j : int64, shape (n_edges,), sorted by i, each (i, j) once
    """

    def __init__(self, n: int, i: IntArray, j: IntArray) -> None:
        self.n = n
        self.i = i
        self.j = j

    def differences(self, x: FloatArray) -> FloatArray:
        """x_i - x_j of every edge."""
        return np.asarray(x[self.i] - x[self.j])

    def divergence(self, flow: FloatArray) -> FloatArray:
        """For every candidate, the sum of the flow over its edges: + where it is i, - where it is j. The transpose of
        differences."""
        return sum_by(self.i, flow, self.n) - sum_by(self.j, flow, self.n)

    def degrees(self, weights: FloatArray) -> FloatArray:
        """For every candidate, the total weight of its edges."""
        return self.sums(weights, weights)

    def sums(self, of_i: FloatArray, of_j: FloatArray) -> FloatArray:
        """For every candidate, the sum of of_i over the edges where it is i, and of of_j over those where it is j."""
        return sum_by(self.i, of_i, self.n) + sum_by(self.j, of_j, self.n)

    def require_connected(self, ids: Sequence[str]) -> None:
        """raises : RankingError if some candidates are linked to others by no comparison"""
        _, groups = _components(ids, self.i, self.j, "weak")
        if len(groups) > 1:
            raise RankingError(
                f"scores are known up to a shift inside each of {len(groups)} groups that no comparison links: "
                f"{_show(groups.values())}. Expected one group. Compare across groups, rank each by itself, or take "
                "a method that works without (bt with prior='all', colley, win-ratio, average-probability)"
            )

    def require_finite(self, ids: Sequence[str], wins: FloatArray, losses: FloatArray) -> None:
        """Finite scores exist if and only if the graph of wins is strongly connected (Ford 1957).

        wins, losses : shape (n_edges,), >= 0; weight of the answers for i, for j
        raises : RankingError if the likelihood grows for ever as a group of candidates moves away from the rest
        """
        won = wins > 0
        lost = losses > 0
        if won.all() and lost.all():
            return self.require_connected(ids)
        i = np.concatenate([self.i[won], self.j[lost]])
        j = np.concatenate([self.j[won], self.i[lost]])
        part, groups = _components(ids, i, j, "strong")
        if len(groups) > 1:
            self.require_connected(ids)
            across = part[i] != part[j]
            beaten = set(part[j[across]].tolist())
            winners = set(part[i[across]].tolist())
            unbeaten = _show(group for k, group in groups.items() if k not in beaten)
            winless = _show(group for k, group in groups.items() if k not in winners)
            raise RankingError(
                f"scores are not finite: {unbeaten} never lost to the others, {winless} never won against the others, "
                "so their distance grows without end. Expected wins both ways across any split of the candidates. "
                "Take a prior (bt with prior='all'), soft probabilities, or more comparisons"
            )

    def require_finite_shift(self, wins: FloatArray, losses: FloatArray) -> None:
        """gamma is subtracted from all differences. It has no finite estimate where, for gamma = 1 or -1, scores exist
        with x_i - x_j >= gamma on edges with wins and <= gamma on edges with losses. Such scores exist if and only if
        no cycle of these bounds is negative.

        The edges must be ordered as the texts were shown, strongly connected, and tell gamma from the scores.

        raises : RankingError if the likelihood grows for ever with gamma
        """
        won = wins > 0
        lost = losses > 0
        if won.all() and lost.all():
            return
        source = np.concatenate([self.i[won], self.j[lost]])
        target = np.concatenate([self.j[won], self.i[lost]])
        for gamma, preferred in ((1.0, "second"), (-1.0, "first")):
            bound = np.concatenate([np.full(int(won.sum()), -gamma), np.full(int(lost.sum()), gamma)])
            # Only the smaller of two bounds on one difference is kept, since a sparse matrix would add them up.
            order = np.lexsort((bound, target, source))
            key = source[order] * self.n + target[order]
            kept = order[np.append(True, key[1:] > key[:-1])]
            bounds = sparse.csr_array((bound[kept], (source[kept], target[kept])), shape=(self.n, self.n))
            try:
                csgraph.bellman_ford(bounds, indices=np.array([0]))
            except csgraph.NegativeCycleError:  # No such scores exist: gamma is finite on this side.
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


def _show(groups: Iterable[Sequence[str]]) -> str:
    """The three largest groups, in braces, with three names of each."""

    def show_three(words: Sequence[str]) -> str:
        shown = ", ".join(words[:3])
        if len(words) > 3:
            shown += f" and {len(words) - 3} more"
        return shown

    largest_first = sorted(groups, key=len, reverse=True)
    names = [show_three([repr(name) for name in group]) for group in largest_first]
    return show_three([f"{{{group}}}" for group in names])


def require_dense(n: int, what: str, remedy: str) -> None:
    """raises : RankingError where there are too many candidates for a dense matrix. what : is to be computed"""
    if n > MOST_DENSE:
        raise RankingError(
            f"cannot hold {what} of {n} candidates ({8 * n * n / 1e9:.0f} GB), expected at most {MOST_DENSE}. {remedy}"
        )


class Information:
    """Minus the second derivative of a log-likelihood: the Laplacian of the weighted graph, with these additions.

        L[a, a] = weight of a's edges + ridge;  L[a, b] = -weight of (a, b)

    weights : shape (n_edges,), >= 0
    ridge : added to the diagonal; without it L is singular, and solutions are those whose scores sum to 0
    everyone : shape (N, N); weights between all candidates, added to those of the edges
    column, corner : shape (N,) and a number; the last row and column, of a parameter that all edges share
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
        self.graph = graph
        self.weights = weights
        self.ridge = ridge
        self.everyone = everyone
        self.column = column
        self.corner = corner
        self.diagonal = graph.degrees(weights) + ridge
        if everyone is not None:
            self.diagonal += everyone @ np.ones(graph.n)
        # Added to every element, this makes L regular without changing it for scores that sum to 0.
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
        """x with L x = b; without ridge, the x whose scores sum to 0, for b whose scores do.

        tolerance : of |L x - b|, relative to |b|, where conjugate gradients are used
        """
        x = self._solve_dense(b) if len(b) <= SMALL else None
        if x is None:
            x = self._solve_by_gradients(b, tolerance)
        if not self.ridge:
            n = self.graph.n
            x[:n] -= x[:n].mean()
        return x

    def _solve_dense(self, b: FloatArray) -> FloatArray | None:
        """By Cholesky; None where rounding leaves no positive definite matrix."""
        lower, failed = linalg.lapack.dpotrf(self.dense(self.gauge), lower=1)
        return None if failed else np.asarray(linalg.lapack.dpotrs(lower, b, lower=1)[0])

    def _solve_by_gradients(self, b: FloatArray, tolerance: float) -> FloatArray:
        """By conjugate gradients, sparse."""
        n = self.graph.n
        size = len(b)
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

        scaling = sparse.diags_array(1 / np.append(self.diagonal, self.corner)[:size])
        system = LinearOperator((size, size), product, dtype=np.float64)
        # Starting from 0 gives x'Lx = x'b wherever it stops, on which Newton's method relies.
        x, _ = cg(system, b, rtol=tolerance, atol=0.0, maxiter=PATIENCE * size, M=scaling)
        return np.asarray(x)

    def covariance(self) -> FloatArray:
        """The inverse, an N x N matrix; without ridge, on the vectors that sum to 0. O(N^3) time, O(N^2) memory."""
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
    """The variance of the pairs' answers around the scores, relative to the one that the curvature implies; and its
    degrees of freedom. Where these are few, intervals need Student's t.

        phi = sum over pairs of g^2 / h / freedom,   freedom = pairs - parameters

    g and h are the derivative and the curvature of a pair's log-likelihood. The pair is the unit, in whichever orders
    and however often it was asked, since a judge that says the same twice has decided once.

    slopes : derivatives of the edges' log-likelihoods, shape (n_edges,)
    unmeasured : phi where no freedom is left; 1 is that of coin flips
    source : quasi-likelihood, McCullagh and Nelder (1989), 9.2
    """
    graph = information.graph
    low, high = np.sort([graph.i, graph.j], axis=0)
    columns = np.where(graph.i < graph.j, slopes, -slopes), information.weights
    _, _, (slope, curvature) = add_up(low, high, graph.n, columns)
    n_parameters = graph.n - (information.column is None)
    freedom = max(len(slope) - n_parameters, 0)
    if not freedom:
        return unmeasured, 0
    parts = np.divide(slope**2, curvature, out=np.zeros_like(slope), where=curvature > 0)
    return float(parts.sum()) / freedom, freedom


def standard_errors(kind: Stderr, information: Information, phi: float | FloatArray) -> FloatArray:
    """Of scores with mean zero, and of the parameter that all edges share, if there is one.

    They are the roots of the diagonal of H^-1 M H^-1, where H is the information at the scores, and M is phi times the
    information of the edges alone.

    kind : "model"; "auto": the same for at most 3,000 candidates, else None; None: NaN
    phi : as `dispersion` measures it; or, where it is known, of each edge, shape (n_edges,): how often its one decision
        was counted
    raises : RankingError for more than 10,000 candidates, because the inverse is a dense matrix
    """
    if kind not in ("auto", "model", None):
        raise InputError(f"stderr is {kind!r}, expected 'auto', 'model' or None")
    n = information.graph.n
    if kind is None or (kind == "auto" and n > AUTOMATIC):
        n_parameters = n if information.column is None else n + 1
        return np.full(n_parameters, np.nan)
    covariance = information.covariance()
    if isinstance(phi, float):
        variance = phi * np.diag(covariance)
    else:
        edges = Information(information.graph, phi * information.weights).dense()
        variance = ((covariance @ edges) * covariance).sum(axis=1)
    return np.asarray(np.sqrt(variance))
