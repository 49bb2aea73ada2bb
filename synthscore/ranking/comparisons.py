"""The answers about pairs of texts: the input of every ranking method. Pure NumPy: no files, no model.

A comparison is one *call*: two texts were shown in an order, and an answer came back. Two calls about the same two
texts, one in each order, are two comparisons of one *pair*.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..signature import Signature
from ..types import BoolArray, FloatArray, IntArray

# Log-odds nearer to 0 than this, in nats, count as even: rounding, as of (p + 1 - q) / 2 with p = q, decides nothing.
EVEN = 1e-12


class Pairs(NamedTuple):
    """Comparisons added up over the calls about each pair; sorted by (i, j), every pair once, i < j unless ordered.

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

    def split_ties(self) -> tuple[FloatArray, FloatArray]:
        """Wins and losses, each with half of the ties."""
        return self.wins + self.ties / 2, self.losses + self.ties / 2


@dataclass(frozen=True, slots=True, eq=False)
class Comparisons:
    """Calls about pairs out of N candidates.

    ids : names of the candidates, all different
    first, second : int64, shape (K,); index of the text that was shown first, and second; never the same
    log_probs : float64, shape (K, 3), nats; log P(first is better), log P(second is better), log P(similar)
        Normalised: the three probabilities sum to 1. A hard outcome is 0 and -inf; a judge of two labels has -inf for
        similar.
    weights : float64, shape (K,), > 0; how many calls a row stands for
    signature : of the judge; without parts where none signed
    n_samples : float64, shape (K,); how many sampled answers the probabilities of a row are the frequencies of, each of
        them a decision; inf for probabilities of the judge's own; None: all are
    raises : InputError, with `row` (1-based), for anything else
    """

    ids: tuple[str, ...]
    first: IntArray
    second: IntArray
    log_probs: FloatArray
    weights: FloatArray
    signature: Signature = field(default_factory=Signature)
    n_samples: FloatArray | None = None

    def __post_init__(self) -> None:
        n = len(self.ids)
        k = len(self.first)
        if len(set(self.ids)) < n:
            twice = next(name for name, count in Counter(self.ids).items() if count > 1)
            raise InputError(f"candidate {twice!r} is named twice, expected all ids different", value=twice)
        if n < 2:
            noun = "candidate" if n == 1 else "candidates"
            raise InputError(f"{n} {noun}, expected at least 2 to compare")
        arrays = (self.first, self.second, self.log_probs, self.weights)
        shapes = [array.shape for array in arrays]
        whole_numbers = all(array.dtype.kind in "iu" for array in (self.first, self.second))
        if shapes != [(k,), (k,), (k, 3), (k,)] or not whole_numbers:
            kinds = ", ".join(f"{array.dtype} {array.shape}" for array in arrays)
            raise InputError(
                f"first, second, log_probs, weights are {kinds}, expected whole numbers (K,), (K,), and (K, 3), (K,)"
            )
        low, high = np.sort([self.first, self.second], axis=0)
        probs = np.exp(self.log_probs)
        total = probs.sum(axis=1)
        good = {  # what is wrong with a row -> which rows are good in this respect
            f"an index outside 0..{n - 1}": (low >= 0) & (high < n),
            "a text that is compared with itself": low < high,
            "probabilities that do not sum to 1": np.abs(total - 1) < 1e-6,  # False for NaN
            "a weight that is not a positive number": (self.weights > 0) & (self.weights < np.inf),
        }
        if self.n_samples is not None:
            good["a number of samples below 1"] = self.n_samples >= 1
        for what, rows in good.items():
            if not rows.all():
                row = int(np.argmin(rows))
                shown = ", ".join(f"{p:.4g}" for p in probs[row])
                raise InputError(
                    f"comparison {row + 1} has {what}: first {self.first[row]}, second {self.second[row]}, "
                    f"probabilities {shown}, weight {self.weights[row]}",
                    row=row + 1,
                )

    @classmethod
    def from_records(
        cls,
        records: Iterable[tuple[str, str, float] | tuple[str, str, float, float]],
        ids: Sequence[str] | None = None,
    ) -> Comparisons:
        """From (first, second, P(first is better)[, weight]) with names of candidates.

        ids : all candidates, where some may not have been compared, or their order matters; else as first met
        raises : InputError, with the row (1-based), for a probability outside [0, 1], an unknown id, ...
        """
        rows = list(records)
        if ids is None:
            ids = list(dict.fromkeys(name for row in rows for name in row[:2]))
        names = tuple(ids)
        index = {name: k for k, name in enumerate(names)}
        for number, row in enumerate(rows, 1):
            if not 3 <= len(row) <= 4 or row[0] not in index or row[1] not in index:
                shown = ", ".join(map(repr, names[:5]))
                if len(names) > 5:
                    shown += ", ..."
                raise InputError(
                    f"comparison {number} is {row!r}, expected (first, second, P(first is better)[, weight]) of the "
                    f"{len(names)} candidates {shown}",
                    row=number,
                    value=row,
                )
        first = [index[row[0]] for row in rows]
        second = [index[row[1]] for row in rows]
        weights = [float(row[3]) if len(row) == 4 else 1.0 for row in rows]
        return cls.from_probabilities(names, first, second, [row[2] for row in rows], weights)

    @classmethod
    def from_probabilities(
        cls,
        ids: Sequence[str],
        first: Sequence[int] | IntArray,
        second: Sequence[int] | IntArray,
        probabilities: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
    ) -> Comparisons:
        """From indices and P(first is better); a hard win is 1, a hard loss 0, and a draw 1/2 of each."""
        p = np.asarray(probabilities, dtype=np.float64)
        good = (p >= 0) & (p <= 1)
        if not good.all():
            row = int(np.argmin(good))
            number = row + 1
            raise InputError(
                f"comparison {number}: probability {p[row]}, expected 0 to 1", row=number, value=float(p[row])
            )
        log_probs = np.full((p.size, 3), -np.inf)
        with np.errstate(divide="ignore"):
            np.log(p, out=log_probs[:, 0])
            np.log1p(-p, out=log_probs[:, 1])
        if weights is None:
            weights = np.ones(p.shape)
        index_type = None if len(first) else np.int64
        return cls(
            ids=tuple(ids),
            first=np.array(first, dtype=index_type),
            second=np.array(second, dtype=index_type),
            log_probs=log_probs,
            weights=np.asarray(weights, dtype=np.float64),
        )

    def __len__(self) -> int:
        return len(self.first)

    @property
    def samples(self) -> FloatArray:
        """n_samples, inf where it is None; shape (K,)."""
        if self.n_samples is None:
            return np.full(len(self), np.inf)
        return self.n_samples

    @property
    def sampled(self) -> BoolArray:
        """Which rows are frequencies of sampled answers, shape (K,)."""
        sampled: BoolArray = np.isfinite(self.samples)
        return sampled

    @property
    def n_candidates(self) -> int:
        return len(self.ids)

    @property
    def n_comparisons(self) -> FloatArray:
        """Weight of the calls about each candidate, shape (N,)."""
        both = np.concatenate([self.first, self.second])
        return sum_by(both, np.tile(self.weights, 2), self.n_candidates)

    @property
    def probabilities(self) -> FloatArray:
        """P(first is better), shape (K,), with half of P(similar)."""
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
        """1 where the first text won, 0 where the second did, 1/2 where neither is ahead by EVEN nats; shape (K,)."""
        odds = self.log_odds
        return np.where(np.abs(odds) > EVEN, (odds > 0).astype(np.float64), 0.5)  # NaN, a certain "similar": 1/2

    def hard(self) -> Comparisons:
        """The same calls with decisions instead of probabilities; where neither text is ahead, it is similar. Rows of
        sampled answers stay as they are, since each of their answers is a decision already."""
        decisions = self.decisions
        log_probs = np.empty((len(self), 3))
        for label, decision in enumerate((1.0, 0.0, 0.5)):
            log_probs[:, label] = np.where(decisions == decision, 0.0, -np.inf)
        return replace(self, log_probs=np.where(self.sampled[:, None], self.log_probs, log_probs))

    def smoothed(self) -> Comparisons:
        """Rows of sampled answers get half an answer more for each text, so that none of them is certain.

        p = (n p + 1/2) / (n + 1),   and P(similar) = n P(similar) / (n + 1);   weights stay
        """
        if self.n_samples is None:
            return self
        sampled = self.sampled[:, None]
        n = np.where(sampled, self.n_samples[:, None], 1.0)
        counts = n * np.exp(self.log_probs) + np.array([0.5, 0.5, 0.0])
        with np.errstate(divide="ignore"):
            more = np.log(counts / (n + 1))
        return replace(self, log_probs=np.where(sampled, more, self.log_probs))

    def shifted(self, shift: float) -> Comparisons:
        """Log-odds of every first text raised by `shift` nats.

        l[first] + shift / 2,  l[second] - shift / 2,  normalised again
        """
        moved = self.log_probs + np.array([shift / 2, -shift / 2, 0.0])
        return replace(self, log_probs=moved - np.logaddexp.reduce(moved, axis=1, keepdims=True))

    def subset(self, rows: npt.ArrayLike) -> Comparisons:
        """Some of the calls (indices or a mask), among the same candidates."""
        chosen = np.asarray(rows)
        if chosen.dtype != np.bool_:
            chosen = chosen.astype(np.int64)
        columns = {name: getattr(self, name) for name in ("first", "second", "log_probs", "weights", "n_samples")}
        taken = {name: values[chosen] for name, values in columns.items() if values is not None}
        return replace(self, **taken)

    def averaged(self) -> Comparisons:
        """One comparison for each pair, i < j: the mean answer over its calls in either order, with their total weight.

        This is PoE's average over both orders. hard() after it gives PoE's "averaged" decision, hard() before it CA's
        "per call" decision.
        """
        pairs = self.pairs()
        games = pairs.games
        answers = np.stack([pairs.wins, pairs.losses, pairs.ties], axis=-1)
        with np.errstate(divide="ignore"):
            log_probs = np.log(answers / games[:, None])
        return replace(self, first=pairs.i, second=pairs.j, log_probs=log_probs, weights=games, n_samples=None)

    def numbered_pairs(self) -> tuple[IntArray, IntArray]:
        """The sorted numbers of the pairs, min(i, j) N + max(i, j); and of each call, its index among them."""
        low, high = np.sort([self.first, self.second], axis=0)
        numbers, pair = np.unique(low * self.n_candidates + high, return_inverse=True)
        return numbers, pair

    def pairs(self, *, ordered: bool = False) -> Pairs:
        """Sums over the calls about each pair. Memory grows with calls and pairs, not with N squared.

        ordered : one sum for each order of a pair instead; i was shown first, j second
        """
        wins, losses, ties = (np.exp(self.log_probs) * self.weights[:, None]).T
        i = self.first
        j = self.second
        if not ordered:
            swapped = i > j
            i, j = np.sort([i, j], axis=0)
            wins, losses = np.where(swapped, [losses, wins], [wins, losses])
        i, j, sums = add_up(i, j, self.n_candidates, (wins, losses, ties))
        wins, losses, ties = sums
        return Pairs(i=i, j=j, wins=wins, losses=losses, ties=ties)


def add_up(
    i: IntArray, j: IntArray, n: int, columns: Sequence[FloatArray]
) -> tuple[IntArray, IntArray, list[FloatArray]]:
    """Each (i, j) once, sorted, and the sums of the columns over its rows. i and j are 0..n-1."""
    cells, cell = np.unique(i * n + j, return_inverse=True)
    sums = [sum_by(cell, column, len(cells)) for column in columns]
    return cells // n, cells % n, sums


def sum_by(index: IntArray, values: FloatArray, n: int) -> FloatArray:
    """Sums of the values at each index, shape (n,)."""
    return np.bincount(index, values, n).astype(np.float64, copy=False)  # bincount of no values gives integers
