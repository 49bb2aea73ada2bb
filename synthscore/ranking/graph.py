"""The graph of who was compared with whom: whether scores exist at all, and linear systems on its Laplacian.

Knows nothing of probabilities or likelihoods. An edge carries a weight; nothing here is ever N x N unless asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu

from ..errors import RankingError
from ..types import FloatArray, IntArray

SMALL = 128  # up to this many unknowns, a dense solve is as fast as anything
PATIENCE = 400  # steps of conjugate gradients; a graph that needs more is long and thin, and factorises without fill-in
MOST_DENSE = 20_000  # a covariance of this many candidates is 3.2 GB


class Graph:
    """Edges among n candidates: float64 arrays over edges go in, arrays over candidates come out, and back.

    i, j : int64, shape (n_edges,), sorted by i, each (i, j) once
    """

    def __init__(self, n: int, i: IntArray, j: IntArray) -> None:
        self.n, self.i, self.j = n, i, j
        self._counts = np.bincount(i, minlength=n)
        starts = np.concatenate([[0], np.cumsum(self._counts)]).astype(np.int32)
        self._upper = sparse.csr_array((np.ones(len(i)), j.astype(np.int32), starts), shape=(n, n))
        self._lower = self._upper.T
        self._ones = np.ones(n)

    def differences(self, x: FloatArray) -> FloatArray:
        """x_i - x_j of every edge."""
        return np.repeat(x, self._counts) - x[self.j]

    def divergence(self, flow: FloatArray) -> FloatArray:
        """The flow of each candidate's edges: + where it is i, - where it is j. The transpose of differences."""
        upper, lower = self.triangles(flow)
        return np.asarray(upper @ self._ones - lower @ self._ones)

    def degrees(self, weights: FloatArray) -> FloatArray:
        """For every candidate, the weight of its edges."""
        upper, lower = self.triangles(weights)
        return np.asarray(upper @ self._ones + lower @ self._ones)

    def triangles(self, weights: FloatArray) -> tuple[sparse.csr_array, sparse.csc_array]:
        """Each edge's weight at (i, j), and at (j, i). The index is shared: to check it takes longer than to use it."""
        upper, lower = copy(self._upper), copy(self._lower)
        upper.data = lower.data = weights
        return upper, lower

    def require_connected(self, ids: Sequence[str]) -> None:
        """raises : RankingError, with `components`, if some candidates are linked to others by no comparison."""
        n_parts, part = _components(self._upper, "weak")
        if n_parts > 1:
            components = _largest_first(_grouped(ids, part, n_parts))
            raise RankingError(
                f"scores are known up to a shift inside each of {n_parts} groups that no comparison links: "
                f"{_shown(components)}. Expected one group. Compare across groups, rank each by itself, or take "
                "a method that works without (bt with prior='all', colley, win-ratio, average-probability)",
                components=components,
            )

    def require_finite(self, ids: Sequence[str], wins: FloatArray, losses: FloatArray) -> None:
        """raises : RankingError if the likelihood grows for ever as a group of candidates moves away from the rest.

        wins, losses : shape (n_edges,), >= 0; weight of the answers for i, for j

        Finite scores exist if and only if the graph of wins is strongly connected (Ford 1957). `components` are its
        strong ones; `unbeaten` those that never lose to others, `winless` those that never win against others.
        """
        if (wins > 0).all() and (losses > 0).all():
            return self.require_connected(ids)
        i = np.concatenate([self.i[wins > 0], self.j[losses > 0]])
        j = np.concatenate([self.j[wins > 0], self.i[losses > 0]])
        beats = sparse.coo_array((np.ones(len(i)), (i, j)), shape=(self.n, self.n)).tocsr()
        n_parts, part = _components(beats, "strong")
        if n_parts > 1:
            self.require_connected(ids)
            groups = _grouped(ids, part, n_parts)
            across = part[i] != part[j]
            beaten, winning = set(part[j[across]].tolist()), set(part[i[across]].tolist())
            unbeaten = _largest_first(group for k, group in enumerate(groups) if k not in beaten)
            winless = _largest_first(group for k, group in enumerate(groups) if k not in winning)
            raise RankingError(
                f"scores are not finite: {_shown(unbeaten)} never lost to the others, {_shown(winless)} never won "
                "against the others, so their distance grows without end. Expected wins both ways across any split "
                "of the candidates. Take a prior (bt with prior='all'), soft probabilities, or more comparisons",
                components=_largest_first(groups),
                unbeaten=unbeaten,
                winless=winless,
            )


def _components(matrix: sparse.csr_array, connection: Literal["weak", "strong"]) -> tuple[int, IntArray]:
    """How many, and that of every candidate; numbered in the order of their first members."""
    n_parts, part = csgraph.connected_components(matrix, connection=connection)
    number = np.argsort(np.argsort(np.unique(part, return_index=True)[1]))
    return n_parts, number[part]


def _grouped(ids: Sequence[str], part: IntArray, n_parts: int) -> list[list[str]]:
    groups: list[list[str]] = [[] for _ in range(n_parts)]
    for name, k in zip(ids, part.tolist(), strict=True):
        groups[k].append(name)
    return groups


def _largest_first(groups: Iterable[Sequence[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(sorted(map(tuple, groups), key=len, reverse=True))


def _shown(groups: Sequence[Sequence[str]], most: int = 3) -> str:
    def one(group: Sequence[str]) -> str:
        names = ", ".join(map(repr, group[:most]))
        return "{" + names + (f" and {len(group) - most} more" if len(group) > most else "") + "}"

    return ", ".join(map(one, groups[:most])) + (f" and {len(groups) - most} more" if len(groups) > most else "")


@dataclass(frozen=True, eq=False)
class Complete:
    """A weight between every two candidates, as M numbers a candidate and a small matrix between them.

    weight of (a, b) = (basis core basis')[a, b];  basis : sparse, shape (N, M), rows sum to 1;  core : shape (M, M)
    """

    basis: sparse.csr_array
    core: FloatArray

    def degrees(self) -> FloatArray:
        mass = self.basis.T @ np.ones(self.basis.shape[0])
        degrees: FloatArray = self.basis @ (self.core @ mass)
        return degrees

    def dense(self) -> FloatArray:
        weights: FloatArray = self.basis @ (self.basis @ self.core.T).T
        return weights


class Information:
    """Minus the second derivative of a log-likelihood: the Laplacian of the weighted graph, and what comes on top.

        L[a, a] = weight of a's edges + ridge;  L[a, b] = -weight of (a, b)

    weights : shape (n_edges,), >= 0
    ridge : added to the diagonal; without it L is singular, and everything happens where the sum is 0
    complete : weights between all candidates, besides those of the edges
    column, corner : shape (N,) and a number; the row and column of one more parameter, last
    """

    def __init__(
        self,
        graph: Graph,
        weights: FloatArray,
        *,
        ridge: float = 0.0,
        complete: Complete | None = None,
        column: FloatArray | None = None,
        corner: float = 0.0,
    ) -> None:
        self.graph, self.weights, self.ridge, self.complete = graph, weights, ridge, complete
        self.column, self.corner = column, corner
        self._upper, self._lower = graph.triangles(weights)
        self._diagonal = graph.degrees(weights) + ridge + (0.0 if complete is None else complete.degrees())

    def __matmul__(self, x: FloatArray) -> FloatArray:
        scores = x[: self.graph.n]
        y: FloatArray = self._diagonal * scores - self._upper @ scores - self._lower @ scores
        if self.complete is not None:
            y -= self.complete.basis @ (self.complete.core @ (self.complete.basis.T @ scores))
        if self.column is not None:
            y = np.append(y + self.column * x[-1], self.column @ scores + self.corner * x[-1])
        return y

    def dense(self) -> FloatArray:
        n = self.graph.n
        matrix = np.zeros((n, n) if self.column is None else (n + 1, n + 1))
        matrix[self.graph.i, self.graph.j] = -self.weights
        matrix[:n, :n] += matrix[:n, :n].T
        if self.complete is not None:
            matrix[:n, :n] -= self.complete.dense()
        matrix[np.arange(n), np.arange(n)] += self._diagonal
        if self.column is not None:
            matrix[n, :n] = matrix[:n, n] = self.column
            matrix[n, n] = self.corner
        return matrix

    def solve(self, b: FloatArray, tolerance: float = 1e-12) -> FloatArray:
        """x with L x = b; without ridge, the one whose scores sum to 0 (those of b do).

        tolerance : of |L x - b|, relative to |b|, if reached by conjugate gradients
        """
        if len(b) <= SMALL:
            lower, failed = linalg.lapack.dpotrf(self._gauged(), lower=1)
            if not failed:
                return self._centred(linalg.lapack.dpotrs(lower, b, lower=1)[0])
        x, reached = _conjugate_gradients(self.__matmul__, self._jacobi(), b, tolerance)
        if not reached and self.complete is None:
            x = self._factorised(b)
        return self._centred(x)

    def covariance(self) -> FloatArray:
        """The inverse, dense; without ridge, on the vectors that sum to 0. O(N^3) time, O(N^2) memory."""
        n = self.graph.n
        if n > MOST_DENSE:
            raise RankingError(
                f"a covariance of {n} candidates takes {8 * n * n / 1e9:.0f} GB, expected at most {MOST_DENSE} "
                "candidates. Take stderr=None, and bootstrap() where errors are needed"
            )
        gauge = self._gauge()
        lower, failed = linalg.lapack.dpotrf(self._gauged(), lower=1)
        inverse, failed_too = linalg.lapack.dpotri(lower, lower=1)
        if failed or failed_too:
            raise RankingError("the information is singular: a parameter is not determined by these comparisons")
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        if gauge:
            inverse[:n, :n] -= 1 / (gauge * n * n)
        return np.asarray(inverse)

    def _jacobi(self) -> FloatArray:
        return self._diagonal if self.column is None else np.append(self._diagonal, self.corner)

    def _gauge(self) -> float:
        """What is added everywhere to make L regular without changing it where scores sum to 0."""
        return 0.0 if self.ridge else float(self._diagonal.mean()) / self.graph.n

    def _gauged(self) -> FloatArray:
        matrix = self.dense()
        matrix[: self.graph.n, : self.graph.n] += self._gauge()
        return matrix

    def _centred(self, x: FloatArray) -> FloatArray:
        if not self.ridge:
            x[: self.graph.n] -= x[: self.graph.n].mean()
        return x

    def _factorised(self, b: FloatArray) -> FloatArray:
        """By sparse LU, the first candidate at 0: little work where conjugate gradients are slow, on long chains."""
        matrix = sparse.diags_array(self._diagonal) - self._upper - self._lower
        if self.column is not None:
            column = sparse.coo_array(self.column[:, None])
            matrix = sparse.block_array([[matrix, column], [column.T, sparse.coo_array([[self.corner]])]])
        first = 0 if self.ridge else 1
        matrix = sparse.csc_array(matrix)[first:, first:]
        lu = splu(sparse.csc_matrix(matrix), permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0)
        x: FloatArray = np.append(np.zeros(first), lu.solve(b[first:]))
        return x


def _conjugate_gradients(
    multiply: Callable[[FloatArray], FloatArray], diagonal: FloatArray, b: FloatArray, tolerance: float
) -> tuple[FloatArray, bool]:
    """x with A x = b, and whether |A x - b| <= tolerance |b|. A positive semi-definite, b in its range.

    Starts from 0, so that x'Ax = x'b whenever it stops: Newton's method counts on that.
    """
    x, residual = np.zeros_like(b), b.copy()
    scaled = residual / diagonal
    direction = scaled.copy()
    product, goal = float(residual @ scaled), tolerance * float(np.sqrt(b @ b))
    for _ in range(PATIENCE):
        if float(np.sqrt(residual @ residual)) <= goal:
            return x, True
        image = multiply(direction)
        step = product / float(direction @ image)
        x += step * direction
        residual -= step * image
        np.divide(residual, diagonal, out=scaled)
        previous, product = product, float(residual @ scaled)
        direction *= product / previous
        direction += scaled
    return x, False
