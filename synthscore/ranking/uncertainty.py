"""How far scores may be off: from the curvature of the likelihood, or by resampling comparisons."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from ..errors import InputError, RankingError, SynthscoreWarning
from ..types import FloatArray
from .comparisons import Comparisons, added_up, distinct
from .graph import Information
from .result import Ranking

Stderr = Literal["auto", "model"] | None
AUTOMATIC = 3_000  # candidates up to which "auto" computes errors: about 2 s, 100 MB


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
    low, high = np.minimum(graph.i, graph.j), np.maximum(graph.i, graph.j)
    columns = np.where(graph.i < graph.j, slopes, -slopes), information.weights
    _, _, (slope, curvature) = added_up(low, high, graph.n, columns)
    freedom = max(len(slope) - (graph.n - 1) - (information.column is not None), 0)
    if not freedom:
        return unmeasured, 0
    parts = np.divide(slope**2, curvature, out=np.zeros_like(slope), where=curvature > 0)
    return float(parts.sum()) / freedom, freedom


def standard_errors(kind: Stderr, information: Information, phi: float | FloatArray) -> tuple[FloatArray, float]:
    """Of scores with mean zero, shape (N,), and of the parameter that all edges share: H^-1 M H^-1, H the information
    at the scores and M that of the edges alone, phi times.

    kind : "model"; "auto": the same for at most 3,000 candidates, else None; None: NaN
    phi : as `dispersion` measures it; or where it is known, shape (n_edges,): how often its decision was counted
    raises : RankingError for more than 10,000 candidates: the inverse is dense
    """
    if kind not in ("auto", "model", None):
        raise InputError(f"stderr is {kind!r}, expected 'auto', 'model' or None")
    n = information.graph.n
    if kind is None or (kind == "auto" and n > AUTOMATIC):
        return np.full(n, np.nan), float("nan")
    covariance = information.covariance()
    if isinstance(phi, float):
        variance = phi * np.diag(covariance)
    else:
        edges = Information(information.graph, phi * information.weights).dense()
        variance = ((covariance @ edges) * covariance).sum(axis=1)
    stderr = np.sqrt(variance)
    return stderr[:n], float(stderr[n]) if len(stderr) > n else float("nan")


def bootstrap(
    method: Callable[[Comparisons], Ranking],
    comparisons: Comparisons,
    n: int,
    rng: np.random.Generator,
) -> tuple[FloatArray, int]:
    """Ranks n resamples: as many pairs as there are, with replacement, each with all calls about it.

    returns : the standard deviation of each score over the replicates that have one, shape (N,), NaN with fewer than
        two; and how many replicates could be ranked
    warns : SynthscoreWarning if replicates could not be ranked (few comparisons; hard wins without prior). They are
        left out of errors, which are then too small.
    source : Efron and Tibshirani (1993). Weights are carried along: a row of weight 2 is drawn as one.
    """
    low, high = np.minimum(comparisons.first, comparisons.second), np.maximum(comparisons.first, comparisons.second)
    pairs, pair = distinct(low * comparisons.n_candidates + high, comparisons.n_candidates**2)
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
    known = np.count_nonzero(~np.isnan(scores), axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = np.nansum((scores - np.nansum(scores, axis=0) / known) ** 2, axis=0)
        return np.where(known > 1, np.sqrt(squares / (known - 1)), np.nan), n - len(failures)
