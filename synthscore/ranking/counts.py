"""Scores that count: win-ratio, average probability, and Colley's ratings. No model of the judge, no likelihood."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..errors import InputError
from .comparisons import Comparisons, Pairs
from .graph import Graph, Information
from .result import Ranking

Decisions = Literal["averaged", "per_call"]


def decided(comparisons: Comparisons, decisions: Decisions) -> Comparisons:
    """With a winner each: the mean answers about every pair, over its calls and both orders; or every call."""
    if decisions not in ("averaged", "per_call"):
        raise InputError(f"decisions is {decisions!r}, expected averaged or per_call", value=decisions)
    return (comparisons.averaged() if decisions == "averaged" else comparisons).hard()


def win_ratio(comparisons: Comparisons, *, decisions: Decisions = "averaged") -> Ranking:
    """The share of its comparisons that a candidate wins, on [0, 1]; a draw is half a win. NaN without comparisons.

    decisions : "averaged": a pair is won by whoever the mean of its calls prefers, and that counts for all of them, as
        in PoE's tables, where every method sees the average of both orders; "per_call": each call is won or lost by
        itself, as in CA. The same where no pair was judged twice. The default is that of all hard methods here.
    source : CA (arXiv 2307.07889) Eq. 3; PoE (arXiv 2405.05894) 4.1
    """
    pairs = decided(comparisons, decisions).pairs()
    return _shares(comparisons, pairs, "win-ratio", {"decisions": decisions})


def average_probability(comparisons: Comparisons) -> Ranking:
    """The mean probability that a candidate is the better one, on [0, 1]. NaN without comparisons.

    source : PoE (arXiv 2405.05894) 4.1
    """
    return _shares(comparisons, comparisons.pairs(), "average-probability", {})


def colley(comparisons: Comparisons, *, decisions: Decisions = "averaged") -> Ranking:
    """Colley's ratings: win-ratios that mind the strength of whom one met. Around 1/2; any comparisons do.

        (2 I + diag(n_i) - n_ij) x = 1 + (wins_i - losses_i) / 2

    decisions : what a win is, as in win_ratio
    source : Colley (2002). It is the mean of a win and a loss against a player of 1/2, and the real games.
    """
    pairs = decided(comparisons, decisions).pairs()
    graph = Graph(comparisons.n_candidates, pairs.i, pairs.j)
    system = Information(graph, pairs.games, ridge=2.0)
    scores = system.solve(1 + graph.divergence(pairs.wins - pairs.losses) / 2)
    return Ranking(comparisons.ids, scores, graph.degrees(pairs.games), "colley", settings={"decisions": decisions})


def _shares(comparisons: Comparisons, pairs: Pairs, method: str, settings: dict[str, object]) -> Ranking:
    graph = Graph(comparisons.n_candidates, pairs.i, pairs.j)
    games = graph.degrees(pairs.games)
    won = graph.degrees(pairs.ties / 2) + np.bincount(pairs.i, pairs.wins, graph.n)
    won += np.bincount(pairs.j, pairs.losses, graph.n)
    scores = np.divide(won, games, out=np.full(graph.n, np.nan), where=games > 0)
    return Ranking(comparisons.ids, scores, games, method, settings=settings)
