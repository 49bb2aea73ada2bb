"""The Bradley-Terry family: scores under which the comparisons are most likely. P(i beats j) = sigma(s_i - s_j).

Symbols: d = s_i - s_j, sigma(d) = 1 / (1 + exp(-d)). Log-likelihoods are in nats.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ..errors import RankingError, SynthscoreWarning
from ..types import FloatArray
from .closed_form import Decisions, decide
from .comparisons import Comparisons, Pairs
from .graph import Graph, Information, Stderr, dispersion, require_dense, standard_errors
from .result import Ranking

Prior = Literal["all", "observed"]

# A full Newton step whose differences change by at most this raises the likelihood: see maximise.
SAFE_CHANGE = 1.79
# A gradient is small far out on the likelihood's flat tails, too; there every step is about 1 nat. The last step before
# the end must be shorter than this.
LAST_STEP = 0.01
TOLERANCE = 1e-9  # of a derivative, for each unit of weight that it sums over
MAX_ITERATIONS = 100


def bradley_terry(
    comparisons: Comparisons,
    *,
    decisions: Decisions = "averaged",
    prior: Prior | None = "all",
    stderr: Stderr = "auto",
) -> Ranking:
    """Bradley-Terry on who won; how sure the judge was does not count.

        maximise  sum over pairs of  W_ij log sigma(d) + W_ji log sigma(-d),   W = wins + ties / 2

    decisions : what a win is, as in win_ratio
    prior : "all": every pair of candidates gets 1 / (N - 1) wins each way, which is one win and one loss in total for
        each candidate, so that scores are finite for any comparisons, linked or not; "observed": the same wins only
        for pairs that were compared; None: no wins are added
    stderr : see standard_errors. With decisions "averaged" a pair is one decision there, however often it was asked;
        with "per_call" each call is one
    A score is accepted when |W_i - expected W_i| is at most 1e-9 of i's comparisons.
    warns : SynthscoreWarning, if that is not reached in 100 iterations; then `converged` is False
    raises : RankingError if the scores are not finite or not comparable; for a prior on all pairs of more than 10,000
    source : PoE (arXiv 2405.05894) 2.2: its text says "observed", its code does "all".
    """
    pseudo_wins = 1 / (comparisons.n_candidates - 1)
    pairs = decide(comparisons, decisions).pairs()
    wins, losses = pairs.split_ties()
    if prior == "observed":
        wins = wins + pseudo_wins
        losses = losses + pseudo_wins
    return _rank(
        comparisons,
        pairs,
        Logistic(wins, losses),
        method="bt",
        settings={"decisions": decisions, "prior": prior},
        prior=pseudo_wins if prior == "all" else 0.0,
        phi=pairs.games if decisions == "averaged" else 1.0,  # averaged: one decision, counted `games` times
        stderr=stderr,
    )


def soft_bradley_terry(
    comparisons: Comparisons, *, bias: float | Literal["mle"] | None = None, stderr: Stderr = "auto"
) -> Ranking:
    """PoE-BT: Bradley-Terry on the judge's probabilities. No prior.

        maximise  sum over calls k of  w_k [p_k log sigma(d_k) + (1 - p_k) log sigma(-d_k)],   d_k = s_i - s_j - gamma

    bias : gamma, nats: < 0 if the judge prefers what it is shown first. A number; "mle": estimated with the scores;
        None: 0. Needed where not all pairs are judged in both orders.
    stderr : see standard_errors, with phi measured by `dispersion`, whose degrees_of_freedom are in settings; with no
        freedom left, phi = 1, as if each call were an independent coin
    If no scores have sigma(d) equal to the mean of p, as for a judge that is too sure, the scores converge to other
    values than the truth, and no standard error makes up for that (docs/ranking.md).

    warns, raises : as bradley_terry; with "mle", RankingError if the comparisons do not tell gamma from the scores, or
        gamma is not finite
    source : PoE (arXiv 2405.05894) 2.3 and A.8. log_likelihood leaves out the Z, which do not depend on the scores.
    """
    pairs = comparisons.pairs(ordered=bias is not None)
    gamma = None if bias == "mle" else float(bias or 0.0)
    settings: dict[str, Any] = {"bias": bias}
    if bias not in (None, "mle"):
        settings["gamma"] = gamma
    return _rank(
        comparisons,
        pairs,
        Logistic(*pairs.split_ties(), gamma),
        method="poe-bt",
        settings=settings,
        stderr=stderr,
    )


def bradley_terry_ties(comparisons: Comparisons, *, stderr: Stderr = "auto") -> Ranking:
    """Davidson's model: Bradley-Terry in which "similar" is an answer of its own. Soft or hard, as the calls are.

        P(i wins) = e^(d/2) / D,   P(j wins) = e^(-d/2) / D,   P(similar) = 2 nu / D,   D = e^(d/2) + e^(-d/2) + 2 nu

    nu : estimated with the scores; in settings, with log_nu_stderr. 0 if nothing is similar: then this is poe-bt. Equal
        candidates are similar with probability nu / (1 + nu).
    warns, raises : as bradley_terry; RankingError also if everything is similar
    source : Davidson (1970), with nu halved.
    """
    pairs = comparisons.pairs()
    likelihood: Logistic | Davidson
    if pairs.ties.any():
        if not (pairs.wins + pairs.losses).any():
            raise RankingError(
                "all comparisons are similar, so that nu is infinite and all scores are equal. Expected some wins. "
                "Take colley or average-probability, or ask the judge for two labels"
            )
        likelihood = Davidson(pairs.wins, pairs.losses, pairs.ties)
        settings = {}
    else:
        likelihood = Logistic(pairs.wins, pairs.losses)
        settings = {"nu": 0.0}
    return _rank(comparisons, pairs, likelihood, method="bt-ties", settings=settings, stderr=stderr)


class Slopes(NamedTuple):
    """Derivatives of the log-likelihood l_e(d_e, theta) of every edge, concave in the difference d_e and, if there is
    one, in a parameter theta that all edges share. Curvatures are negated second derivatives. Shape (n_edges,).

    slope, curvature : dl/dd and -d2l/dd2
    slope_theta : dl/dtheta
    curvature_mixed : -d2l/(dd dtheta)
    curvature_theta : -d2l/dtheta2, summed over the edges
    """

    slope: FloatArray
    curvature: FloatArray
    slope_theta: FloatArray | None = None
    curvature_mixed: FloatArray | None = None
    curvature_theta: float = 0.0


class Logistic:
    """The log-likelihood wins log sigma(d - gamma) + losses log sigma(gamma - d).

    wins, losses : of each edge, shape (n_edges,)
    gamma : nats; None: it is estimated, as the parameter theta that all edges share
    start : where the search for theta starts; None: there is no theta
    """

    def __init__(self, wins: FloatArray, losses: FloatArray, gamma: float | None = 0.0) -> None:
        self.wins = wins
        self.losses = losses
        self.gamma = gamma
        self.games = wins + losses
        self.start = 0.0 if gamma is None else None

    def require_finite(self, graph: Graph, ids: Sequence[str]) -> None:
        """raises : RankingError where no scores, or no gamma, are the most likely ones"""
        graph.require_finite(ids, self.wins, self.losses)
        if self.gamma is None:
            _require_told_apart(graph, self.games)
            graph.require_finite_shift(self.wins, self.losses)

    def estimates(self, theta: float, stderr: float) -> dict[str, float]:
        """What was estimated beside the scores, for settings."""
        return {"gamma": theta, "gamma_stderr": stderr}

    def slopes(self, d: FloatArray, theta: float) -> Slopes:
        # exp once, then products: both tails keep full precision, and where p is nearly 1, a score depends on 1 - p.
        # Beyond 700 nats exp overflows, and low is 0 to 300 digits.
        odds = np.exp(np.minimum(self._shifted(d, theta), 700.0))
        low = 1 / (1.0 + odds)
        high = odds * low
        slope = low * self.wins - high * self.losses
        curvature = self.games * high * low
        if self.gamma is not None:
            return Slopes(slope, curvature)
        return Slopes(slope, curvature, -slope, -curvature, float(curvature.sum()))

    def _shifted(self, d: FloatArray, theta: float) -> FloatArray:
        gamma = theta if self.gamma is None else self.gamma
        return d - gamma

    def log_likelihood(self, d: FloatArray, theta: float) -> float:
        x = self._shifted(d, theta)
        below = np.log1p(np.exp(-np.abs(x)))
        softplus = np.maximum(x, 0) + below
        return float(self.wins @ x - self.games @ softplus)


class Davidson:
    """The log-likelihood wins log P(i wins) + losses log P(j wins) + ties log P(similar); theta is log nu.

    wins, losses, ties : of each edge, shape (n_edges,)
    """

    def __init__(self, wins: FloatArray, losses: FloatArray, ties: FloatArray) -> None:
        self.wins = wins
        self.losses = losses
        self.ties = ties
        self.games = wins + losses + ties
        # At this nu, equal candidates are similar as often as all pairs are, which keeps the first step short.
        self.start = float(np.log(ties.sum() / (wins + losses).sum()))

    def require_finite(self, graph: Graph, ids: Sequence[str]) -> None:
        """raises : RankingError where no scores are the most likely ones"""
        graph.require_finite(ids, self.wins + self.ties, self.losses + self.ties)

    def estimates(self, theta: float, stderr: float) -> dict[str, float]:
        """What was estimated beside the scores, for settings."""
        return {"nu": float(np.exp(theta)), "log_nu_stderr": stderr}

    def _log_probs(self, d: FloatArray, theta: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        similar = np.full_like(d, np.log(2) + theta)
        total = np.logaddexp(np.logaddexp(d / 2, -d / 2), similar)
        return d / 2 - total, -d / 2 - total, similar - total

    def slopes(self, d: FloatArray, theta: float) -> Slopes:
        win, lose, tie = map(np.exp, self._log_probs(d, theta))
        # This is (wins - games * win - losses + games * lose) / 2, written without differences of large numbers.
        by_decided = self.wins * (2 * lose + tie) - self.losses * (2 * win + tie)
        slope = (by_decided + self.ties * (lose - win)) / 2
        either = win + lose
        slope_theta = self.ties * either - (self.wins + self.losses) * tie
        curvature = self.games * (win * lose + tie * either / 4)
        curvature_mixed = -self.games * tie * (win - lose) / 2
        curvature_theta = float((self.games * tie * either).sum())
        return Slopes(slope, curvature, slope_theta, curvature_mixed, curvature_theta)

    def log_likelihood(self, d: FloatArray, theta: float) -> float:
        win, lose, tie = self._log_probs(d, theta)
        return float(self.wins @ win + self.losses @ lose + self.ties @ tie)


def _rank(
    comparisons: Comparisons,
    pairs: Pairs,
    likelihood: Logistic | Davidson,
    *,
    method: str,
    settings: dict[str, Any],
    prior: float = 0.0,
    phi: float | FloatArray | None = None,
    stderr: Stderr,
) -> Ranking:
    """The scores that are most likely, with what else was estimated in settings.

    prior : as in maximise. phi : as in standard_errors; None: measured
    """
    graph = Graph(comparisons.n_candidates, pairs.i, pairs.j)
    if not prior:
        likelihood.require_finite(graph, comparisons.ids)
    won = graph.sums(likelihood.wins, likelihood.losses)
    lost = graph.sums(likelihood.losses, likelihood.wins)
    start = np.log((won + 0.5) / (lost + 0.5))  # the scores, if all opponents were equally good
    start -= start.mean()
    if likelihood.start is not None:
        start = np.append(start, likelihood.start)
    top, converged, iterations = maximise(graph, likelihood, start=start, prior=prior)
    gradient = float(np.abs(top.gradient).max())
    if not converged:
        warnings.warn(
            f"{method} did not converge: {iterations} iterations leave a derivative of {gradient:.2g}, and the "
            f"scores span {np.ptp(top.scores):.3g} nats. Expected {TOLERANCE:.0e} for each comparison. If the span is "
            "large, the comparisons are nearly or fully separable: take bt with prior='all'",
            SynthscoreWarning,
            stacklevel=3,
        )
    if phi is None:
        phi, settings["degrees_of_freedom"] = dispersion(top.information, top.slopes.slope, unmeasured=1.0)
    errors = standard_errors(stderr, top.information, phi)
    if likelihood.start is not None:
        settings |= likelihood.estimates(top.theta, float(errors[-1]))
    return Ranking(
        ids=comparisons.ids,
        scores=top.scores,
        n_comparisons=graph.degrees(pairs.games),
        method=method,
        stderr=errors[: graph.n],
        converged=converged,
        iterations=iterations,
        gradient=gradient,
        log_likelihood=likelihood.log_likelihood(graph.differences(top.scores), top.theta),
        settings=settings,
    )


def _require_told_apart(graph: Graph, games: FloatArray) -> None:
    """raises : RankingError if scores can move so that every difference changes by the same amount, as it does with
    gamma."""
    pull = graph.divergence(games)
    fitted = float(pull @ Information(graph, games).solve(pull))
    if games.sum() - fitted <= 1e-9 * games.sum():
        raise RankingError(
            "bias='mle': the comparisons do not tell the effect of the position from the scores, since scores exist "
            "that give every first text the same lead. Expected a pair in both orders, or a cycle that is not "
            "balanced. Show some pairs in the other order, or give bias a number or None"
        )


# ------------------------------------------------------------------------------------------------- Newton's method


class Point:
    """Scores (mean zero) and theta during the search, and the derivatives of the log-likelihood there.

    parameters : scores, then theta if there is one
    theta : 0 where there is none
    gradient : dl/dparameters
    """

    def __init__(self, graph: Graph, likelihood: Logistic | Davidson, prior: float, parameters: FloatArray) -> None:
        self.parameters = parameters
        self.scores = parameters[: graph.n]
        self.theta = float(parameters[graph.n :].sum())
        self.slopes = likelihood.slopes(graph.differences(self.scores), self.theta)
        gradient = graph.divergence(self.slopes.slope)
        everyone = None
        if prior:
            differences = np.subtract.outer(self.scores, self.scores)
            pull = np.tanh(differences / 2)
            gradient -= prior * (pull @ np.ones(graph.n))
            everyone = prior / 2 * (1 - pull**2)
        gradient -= gradient.mean()  # The mean is a rounding error.
        column = None
        if self.slopes.slope_theta is not None and self.slopes.curvature_mixed is not None:
            gradient = np.append(gradient, self.slopes.slope_theta.sum())
            column = graph.divergence(self.slopes.curvature_mixed)
        self.gradient = gradient
        self.information = Information(
            graph, self.slopes.curvature, everyone=everyone, column=column, corner=self.slopes.curvature_theta
        )


def maximise(
    graph: Graph, likelihood: Logistic | Davidson, *, start: FloatArray, prior: float = 0.0
) -> tuple[Point, bool, int]:
    """The point where the likelihood is greatest, by Newton's method; whether it converged, and in how many iterations.

    start : scores, mean zero; and theta, if edges share one
    prior : wins of every candidate against every other one, both ways: prior times the sum over all pairs of
        log sigma(d) + log sigma(-d) is added to the log-likelihood. O(N^2) time and memory

    A full Newton step can overshoot. How far it is safe follows from a bound: along a line the third derivative of
    these likelihoods is at most c times the second, where c is the largest change of a difference (and of theta). So
    the likelihood f, after a share t of the step, has risen by

        f(t) - f(0) >= a (t - (exp(c t) - 1 - c t) / c^2),     a > 0 the slope at the start

    which is above 0 for the full step, t = 1, up to c = 1.79 (SAFE_CHANGE), and greatest at t = log(1 + c) / c for any
    c. So a larger step is shortened to this t, unless the likelihood, which is concave, still rises at its end.
    raises : RankingError for a prior on more than 10,000 candidates
    source : Sun and Tran-Dinh, Generalized self-concordant functions, 2019, nu = 2
    """
    if prior:
        require_dense(graph.n, "a prior on all pairs", "Take poe-bt, or bt with prior='observed'")
    point = Point(graph, likelihood, prior, start)
    scale = graph.degrees(likelihood.games) + 2 * prior * (graph.n - 1)
    scale = np.append(scale, likelihood.games.sum())[: len(start)]
    change = np.inf
    first_size = float(np.linalg.norm(point.gradient))
    for iteration in range(MAX_ITERATIONS + 1):
        largest = float(np.max(np.abs(point.gradient) / scale))
        converged = largest == 0 or (largest <= TOLERANCE and change <= LAST_STEP)
        if converged or iteration == MAX_ITERATIONS:
            break
        # Steps far from the top need not be exact.
        size = float(np.linalg.norm(point.gradient))
        tolerance = max(1e-10, min(0.05, size / first_size))
        step = point.information.solve(point.gradient, tolerance=tolerance)
        start = point.parameters
        change_of_scores = float(np.ptp(step[: graph.n]))
        change = change_of_scores + float(np.abs(step[graph.n :]).sum())
        point = Point(graph, likelihood, prior, start + step)
        if change > SAFE_CHANGE and float(point.gradient @ step) < 0:
            length = float(np.log1p(change)) / change
            point = Point(graph, likelihood, prior, start + length * step)
            change = length * change
    return point, converged, iteration
