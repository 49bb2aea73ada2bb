"""Comparisons by several judges -> one order, and what each judge is worth. No labels.

    >>> sets = ComparisonSets.load("comparisons.jsonl")  # with a column `judge`
    >>> found = rank_jury(sets, "poe-bt")

Judge m sees text i at t[m, i] (scoring/opinions.py), and answers about i, shown first, and j by d = t[m, i] - t[m, j]:

    bt, poe-bt           P(i) = sigma(d + bias[m]),   variance noise[m] V + spread[m] V^2,  V = P(i) P(j)
    poe-g, poe-g-hard    P(i) = 1/2 + d + bias[m],    variance noise[m]         (bt, poe-g-hard: of who won)

The first is Bradley-Terry with a slope for each judge, the second its Gaussian form, a product of experts of which each
is a judge. A coin's flip has noise = 1; log-odds that err by a normal amount have a spread near its square, as in
docs/anchored.md. The pair is the unit, in whichever orders and however often a judge was asked. Judges are fitted over
all contexts of an attribute, positions inside each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .._version import __version__
from ..errors import InputError, RankingError
from ..scoring.opinions import Belief, Bench, Juror, Seen, believe, disagreement, jurors, refit
from ..signature import Signature
from ..types import FloatArray, IntArray
from .comparisons import Comparisons, sums
from .result import Ranking, Rankings
from .sets import JUDGE, ComparisonSets, Group

METHODS = ("bt", "poe-bt", "poe-g", "poe-g-hard")
_ROUNDS, _TOLERANCE = 500, 1e-4
_STEP = 2.0  # by how much a position may move in a round, where answers level off: nats

Judged = Mapping[str, Comparisons]
"""Name of a judge -> its comparisons."""


def rank_jury(sets: ComparisonSets, method: str = "poe-bt") -> Rankings:
    """One order a group, of the comparisons of all its judges.

    sets : `by` holds "judge". method : one of METHODS
    Scores have mean zero, and the unit of the method: that of the judges' mean, by their shares. Each text starts as an
    average one, so that what is said of it once moves it less than what is said ten times. `disagreement` of each
    ranking is, for each text, the chance that such judges disagree so much: small where their errors do not explain it.
    raises : InputError for comparisons by one judge, or another method. Where judges do not agree at all, or one alone
        was asked, the group has no ranking
    source : Bradley-Terry with judges' slopes, arXiv 2602.16610
    """
    if method not in METHODS:
        raise InputError(f"method is {method!r}, expected one of {', '.join(METHODS)} for several judges", value=method)
    if len(sets.judges) < 2:
        seen = f"of one judge, {sets.judges[0]!r}" if sets.judges else "without a column judge"
        raise InputError(f"the comparisons are {seen}, expected two judges or more for a jury", field=JUDGE)
    place = sets.by.index(JUDGE)
    by = sets.by[:place] + sets.by[place + 1 :]
    groups: dict[Group, dict[str, Comparisons]] = {}
    for group, calls in sets.sets.items():
        groups.setdefault(group[:place] + group[place + 1 :], {})[group[place]] = calls
    questions: dict[Group, dict[Group, Judged]] = {}  # what judges are fitted on -> the groups that are ranked
    for group, judged in groups.items():
        of = tuple(value for name, value in zip(by, group, strict=True) if name != "context_id")
        questions.setdefault(of, {})[group] = judged
    signature = sets.signature if sets.signature.parts else Signature.of(synthscore=__version__)
    signature = signature.with_(comparisons=sets.fingerprint, method=f"jury,{method}")
    ids = {group: _ids(judged) for group, judged in groups.items()}
    found: dict[Group, Ranking | str] = {}
    jurors: dict[Group, tuple[Juror, ...]] = {}
    for of, asked in questions.items():
        try:
            fit = _Fit(asked, ids, method)
            found |= fit.rankings(signature)
            jurors[of] = fit.jurors()
        except RankingError as error:
            found |= dict.fromkeys(asked, str(error))
    ordered = {group: found[group] for group in groups}
    return Rankings(by, ordered, ids, signature, left_out=sets.left_out, jurors=jurors)


def _ids(judged: Judged) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for calls in judged.values() for name in calls.ids))


class _Calls(NamedTuple):
    """Calls about contexts of n texts.

    first, second : place of (judge, context, text). weight : those of a judge's calls about a pair sum to 1
    judge_of : of each pair. n_calls : shape (c, n); weight of the calls about each text, as given
    """

    groups: Sequence[Group]
    n: int
    judge: IntArray
    first: IntArray
    second: IntArray
    p: FloatArray
    weight: FloatArray
    pair: IntArray
    judge_of: IntArray
    n_calls: FloatArray


class _Fit:
    """The judges of one question, and where its texts stand for them: expectation and maximisation in turn.

    raises : RankingError for one judge, judges who do not agree, or a context that is too large
    """

    def __init__(self, asked: Mapping[Group, Judged], ids: Mapping[Group, tuple[str, ...]], method: str) -> None:
        from .graph import require_dense  # loads SciPy

        self.method, self.ids, self.asked = method, ids, asked
        self.judges = tuple(dict.fromkeys(name for judged in asked.values() for name in judged))
        if (m := len(self.judges)) < 2:
            raise RankingError(
                f"there is one judge, {self.judges[0]!r}, expected two or more. Rank by each: --by judge"
            )
        self.logistic = method in ("bt", "poe-bt")
        self.unit = 1.0 if self.logistic else 0.25  # of differences of t
        sizes: dict[int, list[Group]] = {}
        for group in asked:
            require_dense(m * len(ids[group]), "the positions of a jury", "Rank with one judge, or fewer candidates")
            sizes.setdefault(len(ids[group]), []).append(group)
        self.stacks = [self._calls(groups, n) for n, groups in sizes.items()]
        self.at = [np.zeros((m, len(stack.groups), stack.n)) for stack in self.stacks]
        self.bench = Bench(np.full(m, self.unit), np.full(m, self.unit**2 / 4))
        self.bias, self.noise, self.spread = np.zeros(m), np.full(m, self.unit**2), np.zeros(m)
        self.n_texts = float(sum(len(stack.groups) * (stack.n - 1) for stack in self.stacks))
        self.converged, before = False, self._parameters()
        for self.rounds in range(1, _ROUNDS + 1):
            self._round()
            after = self._parameters()
            self.change, before = float(np.abs(after - before).max()), after
            if self.change < _TOLERANCE:
                self.converged = True
                break
        if not (self.bench.slope > 1e-3 * self.unit).any():
            raise RankingError(
                f"the judges {', '.join(self.judges)} do not agree on any order: what one prefers, the others do not, "
                "so that nothing says whom to believe. Expected two that agree more than by chance. Rank by each: --by "
                "judge"
            )
        self.seen = [self._seen(stack, at) for stack, at in zip(self.stacks, self.at, strict=True)]
        self.beliefs = [believe(seen, self.bench) for seen in self.seen]
        self.scale = float(np.array([juror.share for juror in self.jurors()]) @ self.bench.slope)

    def _parameters(self) -> FloatArray:
        """In units of `unit`."""
        first = np.concatenate([self.bench.slope, self.bias]) / self.unit
        return np.concatenate([first, np.concatenate([self.bench.own, self.noise, self.spread]) / self.unit**2])

    def _calls(self, groups: Sequence[Group], n: int) -> _Calls:
        columns: list[tuple[FloatArray, ...]] = []
        for c, group in enumerate(groups):
            index = {name: k for k, name in enumerate(self.ids[group])}
            for m, judge in enumerate(self.judges):
                if (calls := self.asked[group].get(judge)) is None:
                    continue
                places = np.array([index[name] for name in calls.ids])
                at = (m * len(groups) + c) * n
                p = calls.decisions if self.method in ("bt", "poe-g-hard") else calls.probabilities
                columns.append((at + places[calls.first], at + places[calls.second], p, calls.weights))
        first, second, p, weight = (np.concatenate(column) for column in zip(*columns, strict=True))
        end = len(self.judges) * len(groups) * n
        keys, pair = np.unique(np.minimum(first, second) * end + np.maximum(first, second), return_inverse=True)
        size = len(groups) * n
        n_calls = (sums(first % size, weight, size) + sums(second % size, weight, size)).reshape(-1, n)
        weight = weight / np.bincount(pair, weight)[pair]
        return _Calls(groups, n, first // size, first, second, p, weight, pair, keys // end // size, n_calls)

    def _answers(self, stack: _Calls, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of each call: how far the answer is from what is expected; and V."""
        flat = at.ravel()
        d = flat[stack.first] - flat[stack.second] + self.bias[stack.judge]
        if not self.logistic:
            return stack.p - 0.5 - d, np.ones_like(d)
        p = 1 / (1 + np.exp(-np.clip(d, -700, 700)))
        return stack.p - p, p * (1 - p)

    def _seen(self, stack: _Calls, at: FloatArray) -> Seen:
        """The log-likelihood around these positions, to second order."""
        residual, variance = self._answers(stack, at)
        weight = stack.weight * self._weight(variance, stack.judge)
        push, hold = weight * residual, weight * variance
        size, n = at.size, stack.n
        information = np.zeros(size * n)
        for row, column, sign in ((0, 0, 1), (1, 1, 1), (0, 1, -1), (1, 0, -1)):
            cells = (stack.first, stack.second)[row] * n + (stack.first, stack.second)[column] % n
            information += sign * np.bincount(cells, hold, size * n)
        pull = np.bincount(stack.first, push, size) - np.bincount(stack.second, push, size)
        matrix = information.reshape(*at.shape, n)
        return Seen(matrix, pull.reshape(at.shape) + (matrix @ at[..., None])[..., 0])

    def _round(self) -> None:
        m = len(self.judges)
        moments, bias, pairs = np.zeros((m, m)), np.zeros((2, m)), []
        for k, stack in enumerate(self.stacks):
            belief = believe(self._seen(stack, self.at[k]), self.bench)
            step = belief.at - self.at[k]
            longest = np.abs(step).max(axis=(0, 2), keepdims=True)
            self.at[k] += step * (np.minimum(1.0, _STEP / np.maximum(longest, 1e-300)) if self.logistic else 1.0)
            # Where texts of a context stand as a whole, nothing says: that direction still has its prior.
            moments += belief.moments - len(stack.groups) * self.bench.covariance
            residual, variance = self._answers(stack, self.at[k])
            n_pairs = len(stack.judge_of)
            side = np.where(stack.first < stack.second, residual, -residual)  # for the same text in both orders
            off, side, v = (sums(stack.pair, stack.weight * each, n_pairs) for each in (residual, side, variance))
            weight = self._weight(v, stack.judge_of)
            bias += [sums(stack.judge_of, weight * each, m) for each in (off, v)]
            pairs.append((stack.judge_of, side**2 + v**2 * self._open(stack, belief, n_pairs), v))
        prior = self.unit**-2  # of a bias of one unit, so that it is never without an answer
        self.bias = self.bias + (bias[0] - prior * self.bias) / (bias[1] + prior)
        judge_of, squares, v = (np.concatenate(column) for column in zip(*pairs, strict=True))
        self._noise(*(sums(judge_of, each, m) for each in (v, v**2, v**3, squares, squares * v)))
        self.bench = refit(self.bench, moments, self.n_texts)

    def _weight(self, variance: FloatArray, judge: IntArray) -> FloatArray:
        """How many coins' flips an answer is worth."""
        return np.asarray(1 / (self.noise[judge] + self.spread[judge] * variance))

    def _noise(self, v1: FloatArray, v2: FloatArray, v3: FloatArray, one: FloatArray, two: FloatArray) -> None:
        """Noise and spread >= 0 that give the squares, and the squares times V, their sums; with a pair of 1/4 each.

        Not by the squares' own variances: where V is small, nothing happens, until it does.
        """
        few = 0.25
        v1, v3, one, two = v1 + few, v3 + few, one + (few * self.unit) ** 2, two + few**2
        self.coins = one / v1
        if self.method != "poe-bt":
            self.noise = self.coins
            return
        det = v1 * v3 - v2**2
        noise, spread = (v3 * one - v2 * two) / det, (v1 * two - v2 * one) / det
        self.noise = np.where(spread < 0, one / v1, np.maximum(noise, 1e-4))
        self.spread = np.where(noise < 0, two / v3, np.maximum(spread, 0.0))

    def _open(self, stack: _Calls, belief: Belief, n_pairs: int) -> FloatArray:
        """The variance of d that the answers leave, of each pair."""
        n = stack.n
        cov = belief.at_cov.reshape(-1, n)
        i, j = np.zeros(n_pairs, dtype=np.int64), np.zeros(n_pairs, dtype=np.int64)
        i[stack.pair], j[stack.pair] = stack.first, stack.second
        return np.asarray(cov[i, i % n] + cov[j, j % n] - 2 * cov[i, j % n])

    def rankings(self, signature: Signature) -> dict[Group, Ranking]:
        found = {}
        for stack, seen, belief in zip(self.stacks, self.seen, self.beliefs, strict=True):
            chances, apart = disagreement(seen, self.bench), np.eye(stack.n) - 1 / stack.n
            for c, group in enumerate(stack.groups):
                found[group] = Ranking(
                    self.ids[group],
                    np.where(stack.n_calls[c] > 0, apart @ belief.mean[c] * self.scale, np.nan),
                    stack.n_calls[c],
                    f"jury,{self.method}",
                    np.sqrt(np.diag(apart @ belief.cov[c] @ apart)) * self.scale,
                    self.converged,
                    self.rounds,
                    self.change,
                    signature=signature,
                    disagreement=chances[c],
                )
        return found

    def jurors(self) -> tuple[Juror, ...]:
        noise = self.coins * (1 if self.logistic else 4)
        return jurors(self.judges, self.bench, self.seen, self.beliefs, self.bias, noise, self.n_texts)
