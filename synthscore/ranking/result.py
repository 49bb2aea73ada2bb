"""What a ranking method returns: the scores of one set of candidates, or of many. Pure NumPy: no files, no model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..scoring.votes import Jury
from ..signature import Signature
from ..types import FloatArray, IntArray
from .bias import Debiasing, PositionBias
from .sets import Group, LeftOut


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Scores of N candidates, in the order of `ids`; higher is better.

    scores : float64, shape (N,). NaN for a candidate without comparisons, unless the method can score it.
        Methods that know scores only up to a shift (Bradley-Terry, Gaussian, orders) return them with mean zero.
    n_comparisons : float64, shape (N,); weight of the comparisons each candidate took part in
    stderr : float64, shape (N,), of the score as it is returned; NaN where the method gives none
    converged, iterations, gradient : whether the solver reached its tolerance; in how many iterations; and the largest
        absolute derivative of the log-likelihood at the end. A closed form has converged after 0 iterations.
    log_likelihood : nats, of the comparisons under the scores; NaN where the method has no likelihood
    settings : the method's options, and what it estimated (gamma, nu, tau, ...)
    """

    ids: tuple[str, ...]
    scores: FloatArray
    n_comparisons: FloatArray
    method: str
    stderr: FloatArray = field(default_factory=lambda: np.empty(0))  # Empty: NaN for all.
    converged: bool = True
    iterations: int = 0
    gradient: float = 0.0
    log_likelihood: float = float("nan")
    settings: Mapping[str, Any] = field(default_factory=dict)
    signature: Signature = field(default_factory=Signature)

    def __post_init__(self) -> None:
        if not len(self.stderr):
            object.__setattr__(self, "stderr", np.full(len(self.ids), np.nan))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def ranks(self) -> IntArray:
        """1 is best; scores that are equal to 9 decimals share the better rank, so that rounding splits no tie; 0:
        unscored."""
        scores = np.round(self.scores, 9)
        known = np.sort(scores[~np.isnan(scores)])
        better = len(known) - np.searchsorted(known, scores, side="right")
        return np.where(np.isnan(scores), 0, better + 1).astype(np.int64)

    @property
    def order(self) -> IntArray:
        """Indices, best first; equal scores in the order of `ids`, unscored candidates last."""
        scores = np.round(self.scores, 9)
        return np.argsort(np.where(np.isnan(scores), np.inf, -scores), kind="stable")

    def to_rows(self, names: Mapping[str, str] | None = None) -> Iterator[dict[str, Any]]:
        """One for each candidate, as `synthscore rank` writes them. names : columns that all of them have"""
        status = "ok"
        reason = ""
        if not self.converged:
            status = "unconverged"
            reason = f"stopped after {self.iterations} iterations"
        scores = np.round(self.scores, 9).tolist()  # The ranks are of scores to 9 decimals, too.
        columns = self.ids, scores, self.stderr.tolist(), self.ranks.tolist(), self.n_comparisons.tolist()
        for name, score, stderr, rank, n in zip(*columns, strict=True):
            row = {"id": name, **(names or {})}
            if math.isnan(score):
                yield row | _unscored("it was not compared with any other", self.signature)
                continue
            numbers = {"score": score, "stderr": stderr, "rank": rank, "n_comparisons": round(n, 9)}
            yield row | numbers | {"status": status, "reason": reason, "signature": str(self.signature)}


@dataclass(frozen=True, slots=True, eq=False)
class Rankings:
    """A ranking of each set of comparisons, or why there is none.

    by : the columns that tell sets apart
    by_group : values of these columns -> the set's ranking, or the reason why there is none
    ids : values of these columns -> the set's candidates
    debias : how a favour for a position was taken out
    bias : the judge's position bias over all sets; None where there are no comparisons
    shift : of log-odds, where one was estimated over all sets
    left_out : candidates in no set, with the reason
    juries : of several judges, who votes on each question: on the values of `by` without context_id
    """

    by: tuple[str, ...]
    by_group: Mapping[Group, Ranking | str]
    ids: Mapping[Group, tuple[str, ...]]
    signature: Signature
    debias: str = "none"
    bias: PositionBias | None = None
    shift: Debiasing | None = None
    left_out: tuple[LeftOut, ...] = ()
    juries: Mapping[Group, Jury] = field(default_factory=dict)

    def to_rows(self) -> Iterator[dict[str, Any]]:
        """One for each candidate, as `synthscore rank` writes them; without a ranking of its set, it is unscored."""
        for group, ranking in self.by_group.items():
            names = dict(zip(self.by, group, strict=True))
            if isinstance(ranking, str):
                for name in self.ids[group]:
                    yield {"id": name, **names} | _unscored(ranking, self.signature)
            else:
                yield from ranking.to_rows(names)
        for candidate in self.left_out:
            yield dict(candidate.names) | _unscored(candidate.reason, self.signature)


def _unscored(reason: str, signature: Signature) -> dict[str, Any]:
    numbers = {"score": None, "stderr": None, "rank": None, "n_comparisons": 0.0}
    return numbers | {"status": "unscored", "reason": reason, "signature": str(signature)}
