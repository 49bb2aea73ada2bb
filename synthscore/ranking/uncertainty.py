"""How far scores may be off: from the curvature of the likelihood, from the residuals, or by resampling comparisons."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from ..errors import InputError, RankingError, SynthscoreWarning
from ..types import FloatArray
from .comparisons import Comparisons
from .graph import Information
from .result import Ranking

Stderr = Literal["auto", "model", "sandwich"] | None
AUTOMATIC = 3_000  # candidates up to which "auto" computes errors: about 2 s, 100 MB


class Errors(NamedTuple):
    """Standard errors of scores, shape (N,), and of the shared parameter; the covariance of the scores, (N, N)."""

    scores: FloatArray
    theta: float
    covariance: FloatArray | None


def standard_errors(kind: Stderr, information: Information, slopes: FloatArray) -> Errors:
    """Of scores with mean zero.

    kind : "model": the inverse of the information H on the mean-zero subspace: right if the model is true
        "sandwich": H^-1 (sum over edges u u') H^-1, u the slope of an edge's log-likelihood: right for any variance of
            the answers about a pair and any correlation among them, if pairs are independent and there are many more
            than candidates. u^2 is divided by 1 - leverage (HC2), which is unbiased where the model is true. NaN if
            a pair is a bridge: its answers can be fitted exactly, so they leave nothing to measure.
            With a bias, the orders of a pair count as two pairs.
        "auto": "model" for at most 3,000 candidates, else None
        None: NaN. For large N take bootstrap(), whose memory is O(N) a replicate.
    information, slopes : at the scores; slopes has shape (n_edges,), dl/dd
    raises : RankingError for more than 20,000 candidates: the inverse is dense
    source : Huber (1967); White (1980); MacKinnon and White (1985) for HC2
    """
    if kind not in ("auto", "model", "sandwich", None):
        raise InputError(f"stderr is {kind!r}, expected 'auto', 'model', 'sandwich' or None")
    graph = information.graph
    n = graph.n
    if kind is None or (kind == "auto" and n > AUTOMATIC):
        return Errors(np.full(n, np.nan), float("nan"), None)
    covariance = information.covariance()
    if kind == "sandwich":
        # d_e - gamma: the shared parameter, if there is one, enters every edge with -1.
        shared = 0.0 if information.column is None else -1.0
        variance = np.diag(covariance)
        spread = variance[graph.i] + variance[graph.j] - 2 * covariance[graph.i, graph.j]
        if shared:
            spread += 2 * shared * (covariance[graph.i, n] - covariance[graph.j, n]) + variance[n]
        free = 1 - information.weights * spread
        with np.errstate(divide="ignore", invalid="ignore"):
            squares = np.where(free > 1e-9, slopes**2 / free, np.nan)
        if np.isnan(squares).any():
            covariance = np.full_like(covariance, np.nan)
        else:
            column = graph.divergence(shared * squares) if shared else None
            meat = Information(graph, squares, column=column, corner=float(squares.sum()))
            covariance = covariance @ meat.dense() @ covariance
    stderr = np.sqrt(np.diag(covariance))
    theta = float(stderr[n]) if len(stderr) > n else float("nan")
    return Errors(stderr[:n], theta, np.ascontiguousarray(covariance[:n, :n]))


@dataclass(frozen=True, slots=True, eq=False)
class Bootstrap:
    """Scores of resampled comparisons.

    scores : shape (n, N); NaN for a replicate that the method could not rank, and where it knows no score
    failures : why, for each replicate that could not be ranked
    """

    ids: tuple[str, ...]
    scores: FloatArray
    failures: tuple[str, ...]

    @property
    def stderr(self) -> FloatArray:
        """Standard deviation over the replicates that have a score, shape (N,); NaN with fewer than two."""
        known = np.count_nonzero(~np.isnan(self.scores), axis=0)
        total = np.nansum(self.scores, axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            squares = np.nansum((self.scores - total / known) ** 2, axis=0)
            return np.where(known > 1, np.sqrt(squares / (known - 1)), np.nan)


def bootstrap(
    method: Callable[[Comparisons], Ranking],
    comparisons: Comparisons,
    n: int,
    rng: np.random.Generator,
) -> Bootstrap:
    """Ranks n resamples: as many pairs as there are, with replacement, each with all calls about it.

    method : give it its options, and stderr=None to save time: functools.partial(soft_bradley_terry, stderr=None)
    warns : SynthscoreWarning if replicates could not be ranked (few comparisons; hard wins without prior). They are
        left out of intervals, which are then too narrow.
    raises : what method raises for the comparisons themselves
    source : Efron and Tibshirani (1993). Weights are carried along: a row of weight 2 is drawn as one.
    """
    method(comparisons)
    low, high = np.minimum(comparisons.first, comparisons.second), np.maximum(comparisons.first, comparisons.second)
    pairs, pair = np.unique(low * comparisons.n_candidates + high, return_inverse=True)
    scores = np.full((n, comparisons.n_candidates), np.nan)
    failures = []
    for replicate in range(n):
        drawn = np.bincount(rng.integers(0, len(pairs), len(pairs)), minlength=len(pairs))[pair]
        sample = comparisons.subset(drawn > 0)
        try:
            scores[replicate] = method(replace(sample, weights=sample.weights * drawn[drawn > 0])).scores
        except RankingError as error:
            failures.append(str(error))
    if failures:
        warnings.warn(
            f"{len(failures)} of {n} resamples could not be ranked, and are left out: {failures[0]}",
            SynthscoreWarning,
            stacklevel=2,
        )
    return Bootstrap(comparisons.ids, scores, tuple(failures))
