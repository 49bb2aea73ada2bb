"""What was said when texts were compared: the input of every ranking method. Pure NumPy: no files, no model.

A comparison is one *call*: two texts were shown in an order, and an answer came back. Two calls about the same two texts,
one in each order, are two comparisons of one *pair*.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..types import FloatArray, IntArray, Signature


class Pairs(NamedTuple):
    """Comparisons added up over the calls about each pair; i < j, sorted, every pair once.

    i, j : int64, shape (n_pairs,)
    wins : float64, shape (n_pairs,); weight of the answers for i. losses : for j. ties : for neither.
    """

    i: IntArray
    j: IntArray
    wins: FloatArray
    losses: FloatArray
    ties: FloatArray

    @property
    def games(self) -> FloatArray:
        return self.wins + self.losses + self.ties


@dataclass(frozen=True, slots=True, eq=False)
class Comparisons:
    """Calls about pairs out of N candidates.

    ids : names of the candidates, all different
    first, second : int64, shape (K,); index of the text that was shown first, and second; never the same
    log_probs : float64, shape (K, 3), nats; log P(first is better), log P(second is better), log P(similar)
        Normalised: the three probabilities sum to 1. A hard outcome is 0 and -inf; a judge of two labels has -inf for
        similar.
    weights : float64, shape (K,), > 0; how many calls a row stands for
    signature : of the judge, where one was asked
    raises : InputError, with `row` (1-based), for anything else
    """

    ids: tuple[str, ...]
    first: IntArray
    second: IntArray
    log_probs: FloatArray
    weights: FloatArray
    signature: Signature | None = field(default=None)

    def __post_init__(self) -> None:
        n, k = len(self.ids), len(self.first)
        if len(set(self.ids)) < n:
            seen: set[str] = set()
            twice = next(i for i in self.ids if i in seen or seen.add(i))  # type: ignore[func-returns-value]
            raise InputError(f"candidate {twice!r} is named twice, expected all ids different", value=twice)
        if n < 2:
            raise InputError(f"{n} candidate{'s' * (n != 1)}, expected at least 2 to compare")
        if self.second.shape != (k,) or self.log_probs.shape != (k, 3) or self.weights.shape != (k,):
            raise ValueError(
                f"shapes {self.first.shape}, {self.second.shape}, {self.log_probs.shape}, {self.weights.shape}: "
                "expected (K,), (K,), (K, 3), (K,)"
            )
        with np.errstate(invalid="ignore"):
            total = np.exp(self.log_probs).sum(axis=1)
        bad = {
            f"an index outside 0..{n - 1}": (np.minimum(self.first, self.second) < 0)
            | (np.maximum(self.first, self.second) >= n),
            "a text that is compared with itself": self.first == self.second,
            "probabilities that do not sum to 1": ~(np.abs(total - 1) < 1e-6),
            "a weight that is not a positive number": ~((self.weights > 0) & np.isfinite(self.weights)),
        }
        for what, rows in bad.items():
            if rows.any():
                row = int(np.flatnonzero(rows)[0])
                raise InputError(f"comparison {row + 1} has {what}: {self._show(row)}", row=row + 1)

    def _show(self, row: int) -> str:
        probs = ", ".join(f"{p:.4g}" for p in np.exp(self.log_probs[row]))
        return f"first {self.first[row]}, second {self.second[row]}, probabilities {probs}, weight {self.weights[row]}"

    @classmethod
    def of(
        cls,
        records: Iterable[tuple[str, str, float] | tuple[str, str, float, float]],
        ids: Sequence[str] | None = None,
    ) -> Comparisons:
        """From (first, second, P(first is better)[, weight]) with names of candidates.

        ids : all candidates, where some may not have been compared, or their order matters; else as first met
        raises : InputError, with the row (1-based), for a probability outside [0, 1], an unknown id, ...
        """
        rows = [(*record, 1.0)[:4] for record in records]
        names = tuple(ids) if ids is not None else tuple(dict.fromkeys(name for row in rows for name in row[:2]))
        index = {name: place for place, name in enumerate(names)}
        for number, (first, second, *_) in enumerate(rows, 1):
            for name in (first, second):
                if name not in index:
                    raise InputError(
                        f"comparison {number} names {name!r}, which is no candidate. Candidates: {_some(names)}",
                        row=number,
                        value=name,
                    )
        return cls.from_probabilities(
            names,
            [index[row[0]] for row in rows],
            [index[row[1]] for row in rows],
            [row[2] for row in rows],
            [row[3] for row in rows],
        )

    @classmethod
    def from_probabilities(
        cls,
        ids: Sequence[str],
        first: npt.ArrayLike,
        second: npt.ArrayLike,
        probabilities: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
        signature: Signature | None = None,
    ) -> Comparisons:
        """From indices and P(first is better); a hard win is 1, a hard loss 0, and a draw 1/2 of each."""
        p = np.asarray(probabilities, dtype=np.float64)
        if (bad := ~((p >= 0) & (p <= 1))).any():
            row = int(np.flatnonzero(bad)[0])
            raise InputError(
                f"comparison {row + 1}: probability {p[row]}, expected 0 to 1", row=row + 1, value=float(p[row])
            )
        with np.errstate(divide="ignore"):
            log_probs = np.stack([np.log(p), np.log1p(-p), np.full_like(p, -np.inf)], axis=-1)
        first, second = np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64)
        given = np.ones(len(p)) if weights is None else np.asarray(weights, dtype=np.float64)
        return cls(tuple(ids), first, second, log_probs.reshape(-1, 3), given, signature)

    def __len__(self) -> int:
        return len(self.first)

    @property
    def n_candidates(self) -> int:
        return len(self.ids)

    @property
    def probabilities(self) -> FloatArray:
        """P(first is better), shape (K,), with half of what was said to be similar."""
        probs = np.exp(self.log_probs)
        p: FloatArray = probs[:, 0] + probs[:, 2] / 2
        return np.clip(p, 0.0, 1.0)

    @property
    def log_odds(self) -> FloatArray:
        """log P(first is better) - log P(second is better), nats, shape (K,). Without ties this is logit p.

        Exact where p itself rounds to 1. Infinite for hard outcomes, NaN for a certain "similar".
        """
        with np.errstate(invalid="ignore"):
            odds: FloatArray = self.log_probs[:, 0] - self.log_probs[:, 1]
        return odds

    @property
    def decisions(self) -> FloatArray:
        """1 where the first text won, 0 where the second did, 1/2 where neither is ahead; shape (K,)."""
        odds = self.log_odds
        return np.where(np.isnan(odds) | (odds == 0), 0.5, (odds > 0).astype(np.float64))

    def hard(self) -> Comparisons:
        """The same calls with their decisions instead of probabilities; neither ahead: similar."""
        d = self.decisions
        with np.errstate(divide="ignore"):
            log_probs = np.log(np.stack([d == 1, d == 0, d == 0.5], axis=-1).astype(np.float64))
        return replace(self, log_probs=log_probs)

    def shifted(self, shift: float) -> Comparisons:
        """Log-odds of every first text raised by `shift` nats, what is similar losing or gaining as the rest demands.

            l[first] + shift / 2,  l[second] - shift / 2,  normalised again
        """
        moved = self.log_probs + np.array([shift / 2, -shift / 2, 0.0])
        return replace(self, log_probs=moved - np.logaddexp.reduce(moved, axis=1, keepdims=True))

    def reversed(self) -> Comparisons:
        """Every call as if the texts had been shown in the other order."""
        return replace(self, first=self.second, second=self.first, log_probs=self.log_probs[:, [1, 0, 2]])

    def subset(self, rows: npt.ArrayLike) -> Comparisons:
        """Some of the calls (indices or a mask), among the same candidates."""
        chosen = np.asarray(rows)
        if chosen.dtype != np.bool_:
            chosen = chosen.astype(np.int64)
        return replace(
            self,
            first=self.first[chosen],
            second=self.second[chosen],
            log_probs=self.log_probs[chosen],
            weights=self.weights[chosen],
        )

    def averaged(self) -> Comparisons:
        """One comparison a pair, i < j: the mean answer over its calls, both orders alike, weighing as they all did.

        What the two-order average of PoE sees; hard() of it is PoE's "averaged" decision, hard() before it CA's
        "per call" one.
        """
        pairs = self.pairs()
        games = pairs.games
        with np.errstate(divide="ignore"):
            log_probs = np.log(np.stack([pairs.wins, pairs.losses, pairs.ties], axis=-1) / games[:, None])
        return replace(self, first=pairs.i, second=pairs.j, log_probs=log_probs, weights=games)

    def pairs(self) -> Pairs:
        """Sums over the calls about each pair (sparse: memory is in calls and pairs, never in N squared)."""
        low, high = np.minimum(self.first, self.second), np.maximum(self.first, self.second)
        keys, place = np.unique(low * np.int64(self.n_candidates) + high, return_inverse=True)
        probs = np.exp(self.log_probs) * self.weights[:, None]
        swapped = self.first > self.second
        wins = np.where(swapped, probs[:, 1], probs[:, 0])
        losses = np.where(swapped, probs[:, 0], probs[:, 1])
        i, j = np.divmod(keys, np.int64(self.n_candidates))
        n = len(keys)
        return Pairs(i, j, *(np.bincount(place, column, n) for column in (wins, losses, probs[:, 2])))


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Scores of N candidates, in the order of `ids`; higher is better.

    scores : float64, shape (N,). NaN for a candidate without comparisons where the method can say nothing of it.
        Methods that know scores only up to a shift (Bradley-Terry, Gaussian, orders) return them with mean zero.
    stderr : float64, shape (N,), of the score as it is returned; NaN where the method gives none
    n_comparisons : float64, shape (N,); weight of the comparisons each candidate took part in
    converged, iterations, gradient : whether the solver reached its tolerance; how often it went round; the largest
        |derivative of the log-likelihood| that is left. A closed form has converged after 0 iterations.
    log_likelihood : nats, of the comparisons under the scores; NaN where the method has no likelihood
    settings : what the method was told and what it estimated (gamma, nu, tau, ...)
    covariance : float64, shape (N, N), of the scores, where the method computed it
    """

    ids: tuple[str, ...]
    scores: FloatArray
    stderr: FloatArray
    n_comparisons: FloatArray
    method: str
    converged: bool = True
    iterations: int = 0
    gradient: float = 0.0
    log_likelihood: float = float("nan")
    settings: Mapping[str, Any] = field(default_factory=dict)
    covariance: FloatArray | None = None
    signature: Signature = field(default_factory=lambda: Signature(()))

    def __post_init__(self) -> None:
        n = len(self.ids)
        for name in ("scores", "stderr", "n_comparisons"):
            if getattr(self, name).shape != (n,):
                raise ValueError(f"{name} has shape {getattr(self, name).shape}, expected ({n},)")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def ranks(self) -> IntArray:
        """1 is best; equal scores (to 9 decimals: rounding must not split ties) share the better rank; 0: unscored."""
        scores = np.round(self.scores, 9)
        known = np.sort(scores[~np.isnan(scores)])
        better = len(known) - np.searchsorted(known, scores, side="right")
        return np.where(np.isnan(scores), 0, better + 1).astype(np.int64)

    @property
    def order(self) -> IntArray:
        """Indices, best first; equals in the order they were given, unscored last."""
        scores = np.round(self.scores, 9)
        return np.argsort(np.where(np.isnan(scores), np.inf, -scores), kind="stable")


def _some(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
