"""The graph of who was compared with whom: whether scores exist, and the linear systems and errors of scores.

Candidates are the vertices, and pairs that were compared are the edges, each with a weight. Every method of ranking
solves systems of one kind, on the graph's Laplacian (`Information`), and takes its errors from there
(`standard_errors`). `Graph` also tells where scores are not determined, or not finite. Nothing here knows of
probabilities. An N x N matrix is made only where a docstring says so.
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
PATIENCE = 4  # steps of conjugate gradients for each unknown, after which they stop where they are
MOST_DENSE = 10_000  # candidates up to which a dense matrix is made: it then has 0.8 GB

Stderr = Literal["auto", "model"] | None
AUTOMATIC = 3_000  # candidates up to which "auto" computes errors: about 2 s, 100 MB


class Graph:
    """Edges among n candidates; turns float64 arrays over edges into arrays over candidates, and back.

    i, j : int64, shape (n_edges,), the two ends of each edge; sorted by i, each (i, j) once
    """

    def __init__(self, n: int, i: IntArray, j: IntArray) -> None:
        self.n = n
        self.i = i
        self.j = j

    def differences(self, x: FloatArray) -> FloatArray:
        """x_i - x_j of every edge, shape (n_edges,). x : scores, shape (n,)"""
        return np.asarray(x[self.i] - x[self.j])

    def divergence(self, flow: FloatArray) -> FloatArray:
        """For every candidate, the sum of the flow over its edges: + where it is i, - where it is j. The transpose of
        differences."""
        return sum_by(self.i, flow, self.n) - sum_by(self.j, flow, self.n)

    def degrees(self, weights: FloatArray) -> FloatArray:
        """For every candidate, the total weight of its edges."""
        return self.sums(weights, weights)

    def sums(self, for_i: FloatArray, for_j: FloatArray) -> FloatArray:
        """For every candidate, the sum of for_i over the edges where it is i, and of for_j over those where it is j."""
        return sum_by(self.i, for_i, self.n) + sum_by(self.j, for_j, self.n)

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
        """Finite scores exist if and only if the graph of wins is strongly connected: if a chain of wins leads
        from every candidate to every other one (Ford 1957).

        wins, losses : shape (n_edges,), >= 0; weight of the answers for i, for j
        raises : RankingError if the likelihood grows for ever as a group of candidates moves away from the rest
        """
        if (wins > 0).all() and (losses > 0).all():
            return self.require_connected(ids)
        winner, loser = self._won_edges(wins, losses)
        part, groups = _components(ids, winner, loser, "strong")
        if len(groups) > 1:
            self.require_connected(ids)
            across = part[winner] != part[loser]
            winners = set(part[winner[across]].tolist())
            beaten = set(part[loser[across]].tolist())
            unbeaten = _show(group for number, group in groups.items() if number not in beaten)
            winless = _show(group for number, group in groups.items() if number not in winners)
            raise RankingError(
                f"scores are not finite: {unbeaten} never lost to the others, {winless} never won against the others, "
                "so their distance grows without end. Expected wins both ways across any split of the candidates. "
                "Take a prior (bt with prior='all'), soft probabilities, or more comparisons"
            )

    def _won_edges(self, wins: FloatArray, losses: FloatArray) -> tuple[IntArray, IntArray]:
        """The winner and the loser of each edge with wins, then of each with losses. One that has both comes twice."""
        won = wins > 0
        lost = losses > 0
        winner = np.concatenate([self.i[won], self.j[lost]])
        loser = np.concatenate([self.j[won], self.i[lost]])
        return winner, loser

    def require_finite_shift(self, wins: FloatArray, losses: FloatArray) -> None:
        """The bias gamma, which is subtracted from all differences, has to have a finite estimate.

        It has none where gamma can grow for ever (or fall, which is the same with -1 for 1) because scores can make up
        for it: where scores exist with x_i - x_j >= gamma on edges with wins and <= gamma on edges with losses. These
        are bounds on differences, and such scores exist if and only if no cycle of bounds adds up to less than 0, which
        is what Bellman and Ford's algorithm for shortest paths finds.

        wins, losses : as in require_finite
        The edges must be ordered as the texts were shown, strongly connected, and tell gamma from the scores.
        raises : RankingError if the likelihood grows for ever with gamma
        """
        won = wins > 0
        lost = losses > 0
        if won.all() and lost.all():
            return
        winner, loser = self._won_edges(wins, losses)
        for gamma, preferred in ((1.0, "second"), (-1.0, "first")):
            # An edge u -> v of length w is the bound x_v <= x_u + w, here from each edge's winner to its loser.
            bound = np.repeat([-gamma, gamma], [won.sum(), lost.sum()])
            # Only the smaller of two bounds on one difference is kept, since a sparse matrix would add them up.
            order = np.lexsort((bound, loser, winner))
            cell = winner[order] * self.n + loser[order]  # of the matrix of bounds, row by row
            is_first = np.append(True, cell[1:] > cell[:-1])
            kept = order[is_first]
            rows_and_columns = (winner[kept], loser[kept])
            bounds = sparse.csr_array((bound[kept], rows_and_columns), shape=(self.n, self.n))
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
    """The number of each candidate's component, where edges go from i to j; and the ids in each component."""
    n = len(ids)
    edges = sparse.coo_array((np.ones(len(i)), (i, j)), shape=(n, n))
    _, part = csgraph.connected_components(edges, connection=connection)
    ids_by_component = grouped(zip(part.tolist(), ids, strict=True))
    return part.astype(np.int64), ids_by_component


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
        gigabytes = 8 * n * n / 1e9
        raise RankingError(
            f"cannot hold {what} of {n} candidates ({gigabytes:.0f} GB), expected at most {MOST_DENSE}. {remedy}"
        )


class Information:
    """The information L about scores: minus the second derivative of a log-likelihood. It is the graph's Laplacian,

        L[a, a] = weight of a's edges + ridge;    L[a, b] = -weight of the edge (a, b)

    weights : of the edges, minus the second derivative by their difference; shape (n_edges,), >= 0
    ridge : added to the diagonal; without it L is singular, and solutions are those whose scores sum to 0
    everyone : shape (N, N); weights between all candidates, as of a prior, added to those of the edges
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
            self.diagonal += everyone @ np.ones(graph.n)  # the sums of its rows
        # Added to every element, this makes L regular without changing it for scores that sum to 0.
        self.gauge = 0.0
        if not ridge:
            self.gauge = float(self.diagonal.mean()) / graph.n

    def dense(self, gauge: float = 0.0) -> FloatArray:
        """L as a matrix, with the gauge added to every element between two scores."""
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
        x = None
        if len(b) <= SMALL:
            x = self._solve_dense(b)
        if x is None:
            x = self._solve_by_gradients(b, tolerance)
        if not self.ridge:
            n = self.graph.n
            x[:n] -= x[:n].mean()
        return x

    def _solve_dense(self, b: FloatArray) -> FloatArray | None:
        """By Cholesky; None where rounding leaves no positive definite matrix."""
        lower, failed = linalg.lapack.dpotrf(self.dense(self.gauge), lower=1)
        if failed:
            return None
        x, _ = linalg.lapack.dpotrs(lower, b, lower=1)
        return np.asarray(x)

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
                shared = x[-1]
                last = self.column @ scores + self.corner * shared
                y = np.append(y + self.column * shared, last)
            return y

        diagonal = np.append(self.diagonal, self.corner)[:size]  # the corner only where there is a last column
        scaling = sparse.diags_array(1 / diagonal)
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
    """How far the pairs' answers scatter around the scores, relative to what the likelihood expects; and the degrees of
    freedom of that estimate. Where these are few, intervals need Student's t.

        phi = sum over pairs of g^2 / h / freedom,   freedom = pairs - parameters

    g and h are the derivative and the curvature of a pair's log-likelihood: for a coin, g^2 is h on average, and phi is
    1. The pair is the unit, in whichever orders and however often it was asked, since a judge that says the same twice
    has decided once.

    slopes : derivatives of the edges' log-likelihoods, shape (n_edges,)
    unmeasured : phi where no freedom is left; 1 is that of coin flips
    source : quasi-likelihood, McCullagh and Nelder (1989), 9.2
    """
    graph = information.graph
    low, high = np.sort([graph.i, graph.j], axis=0)
    slopes_for_low = np.where(graph.i < graph.j, slopes, -slopes)
    _, _, (slope, curvature) = add_up(low, high, graph.n, (slopes_for_low, information.weights))
    # The sum of the scores is fixed, which leaves n - 1 of them; a parameter that all edges share is one more.
    n_parameters = graph.n - (information.column is None)
    freedom = max(len(slope) - n_parameters, 0)
    if not freedom:
        return unmeasured, 0
    parts = np.divide(slope**2, curvature, out=np.zeros_like(slope), where=curvature > 0)
    return float(parts.sum()) / freedom, freedom


def standard_errors(kind: Stderr, information: Information, phi: float | FloatArray) -> FloatArray:
    """Standard errors of scores with mean zero, and of the parameter that all edges share, if there is one.

    They are the roots of the diagonal of H^-1 M H^-1, where H is the information at the scores, and M is phi times the
    information of the edges alone. Where one phi holds for all edges, that is phi H^-1.

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
