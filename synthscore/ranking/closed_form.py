"""Scores without a search: shares of comparisons won, Colley's ratings, and PoE-g, the least squares of differences."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..errors import InputError
from .comparisons import Comparisons, Pairs, add_up, sum_by
from .graph import Graph, Information, Stderr, dispersion, standard_errors
from .result import Ranking

Decisions = Literal["averaged", "per_call"]


def decide(comparisons: Comparisons, decisions: Decisions) -> Comparisons:
    """Comparisons that each have a winner. decisions : of the mean answer about each pair, or of each call"""
    if decisions not in ("averaged", "per_call"):
        raise InputError(f"decisions is {decisions!r}, expected averaged or per_call", value=decisions)
    if decisions == "averaged":
        comparisons = comparisons.averaged()
    return comparisons.hard()


def win_ratio(comparisons: Comparisons, *, decisions: Decisions = "averaged") -> Ranking:
    """The share of its comparisons that a candidate wins, on [0, 1]; a draw is half a win. NaN without comparisons.

    decisions : "averaged": a pair is won by whoever the mean of its calls prefers, and that counts for all of them, as
        in PoE's tables, where every method sees the average of both orders; "per_call": each call is won or lost by
        itself, as in CA. The same where no pair was judged twice. The default is that of all hard methods here.
    source : CA (arXiv 2307.07889) Eq. 3; PoE (arXiv 2405.05894) 4.1
    """
    return _shares(comparisons, decide(comparisons, decisions).pairs(), "win-ratio", {"decisions": decisions})


def average_probability(comparisons: Comparisons) -> Ranking:
    """The mean probability that a candidate is the better one, on [0, 1]. NaN without comparisons.

    source : PoE (arXiv 2405.05894) 4.1
    """
    return _shares(comparisons, comparisons.pairs(), "average-probability", {})


def _shares(comparisons: Comparisons, pairs: Pairs, method: str, settings: dict[str, object]) -> Ranking:
    graph = Graph(comparisons.n_candidates, pairs.i, pairs.j)
    games = graph.degrees(pairs.games)
    won = graph.degrees(pairs.ties / 2)
    won += sum_by(pairs.i, pairs.wins, graph.n)
    won += sum_by(pairs.j, pairs.losses, graph.n)
    scores = np.divide(won, games, out=np.full(graph.n, np.nan), where=games > 0)
    return Ranking(ids=comparisons.ids, scores=scores, n_comparisons=games, method=method, settings=settings)


def colley(comparisons: Comparisons, *, decisions: Decisions = "averaged") -> Ranking:
    """Colley's ratings: win ratios that allow for the strength of the opponents. Around 1/2; any comparisons will do.

        (2 I + diag(n_i) - n_ij) x = 1 + (wins_i - losses_i) / 2

    decisions : what a win is, as in win_ratio
    source : Colley (2002). Each candidate also has a win and a loss against an imaginary one of 1/2.
    """
    pairs = decide(comparisons, decisions).pairs()
    graph = Graph(comparisons.n_candidates, pairs.i, pairs.j)
    system = Information(graph, pairs.games, ridge=2.0)
    scores = system.solve(1 + graph.divergence(pairs.wins - pairs.losses) / 2)
    return Ranking(
        ids=comparisons.ids,
        scores=scores,
        n_comparisons=graph.degrees(pairs.games),
        method="colley",
        settings={"decisions": decisions},
    )


def gaussian(comparisons: Comparisons, *, bias: float | None = None, stderr: Stderr = "auto") -> Ranking:
    """PoE-g's linear expert: scores whose differences are nearest to what the probabilities say.

        d_k = s_i - s_j ~ N(p_k - beta, sigma^2)
        L s = b,   L the Laplacian of the weights w_k,   b_i = sum of +- w_k (p_k - beta),   on mean zero

    bias : beta, the p at which there is no difference; None: 1/2. It cancels where every pair is judged in both orders.
        > 1/2: the judge prefers what it is shown first.
    stderr : see standard_errors, with the dispersion of the pairs, whose degrees_of_freedom settings hold; with none
        left (a tree of pairs) it is NaN
    raises : RankingError if the comparisons do not link all candidates
    source : PoE (arXiv 2405.05894) 2.4; its anchor is a gauge, of no effect on these scores.
    """
    beta = 0.5 if bias is None else float(bias)
    return _least_squares(comparisons, beta, "poe-g", {"beta": beta}, stderr)


def hard_gaussian(comparisons: Comparisons, *, decisions: Decisions = "averaged", stderr: Stderr = "auto") -> Ranking:
    """PoE-g-hard: `gaussian` on who won. On all pairs, an affine map of win_ratio.

    decisions : what a win is, as in win_ratio. stderr, raises : as in gaussian
    """
    return _least_squares(decide(comparisons, decisions), 0.5, "poe-g-hard", {"decisions": decisions}, stderr)


def _least_squares(
    comparisons: Comparisons, beta: float, method: str, settings: dict[str, object], stderr: Stderr
) -> Ranking:
    n = comparisons.n_candidates
    w = comparisons.weights
    mean = comparisons.probabilities - beta
    swapped = comparisons.first > comparisons.second
    low, high = np.sort([comparisons.first, comparisons.second], axis=0)
    for_low = np.where(swapped, -mean, mean)
    i, j, (flow, games) = add_up(low, high, n, (w * for_low, w))
    graph = Graph(n, i, j)
    graph.require_connected(comparisons.ids)
    information = Information(graph, games)
    scores = information.solve(graph.divergence(flow))
    slopes = flow - games * graph.differences(scores)
    if np.abs(slopes).max() <= 1e-12 * np.abs(flow).max():  # Only rounding errors are left.
        slopes = np.zeros_like(slopes)
    phi, freedom = dispersion(information, slopes, float("nan"))
    gradient = float(np.abs(graph.divergence(slopes)).max())
    return Ranking(
        ids=comparisons.ids,
        scores=scores,
        n_comparisons=graph.degrees(games),
        method=method,
        stderr=standard_errors(stderr, information, phi),
        converged=gradient <= 1e-9 * float(np.abs(flow).sum()),
        gradient=gradient,
        settings=settings | {"degrees_of_freedom": freedom},
    )
