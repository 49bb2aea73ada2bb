"""One order or both; and both as a mean of probabilities or of log-odds: which tells better texts from worse ones?

    python -m benchmarks.both_orders > benchmarks/results/both_orders.txt

Real judges, from their recorded answers (results/both_orders_answers.json; no model is run): the first 24 curated
ladders, `compare` in float32, each rung against each lower one in both orders, and the middle one against itself. "in
order" is the share of the 240 pairs in which the higher rung is the better one (one order: mean of the two; chance is
1/2, and what a judge has that always says the same), with a standard error over ladders. "Spearman" is that of level
and score over all 120 rungs, each scored against its own ladder by the paper's sum; beside it the standard deviation
of these scores, in rungs, which a threshold needs. Intervals and errors are over ladders, which are few: differences
below .04 are noise.

A simulated judge shows why: log-odds of the two texts' difference, noise of half a nat, and a prior for the text asked
about, the same for all pairs or differing by 1 nat. Spearman of a text's quality and its score on five rungs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import numpy as np
from scipy.stats import spearmanr

from synthscore.judging.labels import TURNED, OrdersMean, both_in_one
from synthscore.scoring.paper import paper_sum, rung_equivalent
from synthscore.types import FloatArray

ANSWERS = Path(__file__).parent / "results" / "both_orders_answers.json"
PAIRS = [(higher, lower) for higher in range(5) for lower in range(higher)]  # as recorded; then rung 3 against itself
WAYS: tuple[Literal["one order"] | OrdersMean, ...] = ("one order", "probabilities", "log-odds")


def probabilities(log_probs: FloatArray) -> FloatArray:
    """Normalised over the labels; shape (..., 3)."""
    weights = np.exp(log_probs - log_probs.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def verdicts(by_order: FloatArray, way: Literal["one order"] | OrdersMean) -> FloatArray:
    """by_order : shape (2, n, 3), of the text in question, the second turned."""
    return by_order[0] if way == "one order" else both_in_one(by_order, "compare", way)


def ladder_scores(answers: FloatArray, way: Literal["one order"] | OrdersMean) -> tuple[FloatArray, FloatArray]:
    """Which of the pairs are in order, shape (10,); the scores of the five rungs. answers : shape (2, 11, 3)"""
    higher = np.stack([answers[0], answers[1][:, TURNED]])  # the verdicts on the higher rung, in both orders
    lower = np.stack([answers[1], answers[0][:, TURNED]])
    up, down = verdicts(higher, way), verdicts(lower, way)
    better, worse = np.zeros((5, 5)), np.zeros((5, 5))
    for (one, other), above, below in zip(PAIRS, up, down, strict=False):
        better[one, other], worse[one, other] = above[:2]
        better[other, one], worse[other, one] = below[:2]
    better[range(5), range(5)], worse[range(5), range(5)] = up[-1, :2]
    rises = [np.sign(up[:-1, 0] - up[:-1, 1]), -np.sign(down[:-1, 0] - down[:-1, 1])]
    return (np.mean(rises, axis=0) + 1) / 2, rung_equivalent(paper_sum(better, worse), 5)


def real() -> dict[str, dict[str, dict[str, float]]]:
    recorded = json.loads(ANSWERS.read_text(encoding="utf-8"))
    found: dict[str, dict[str, dict[str, float]]] = {}
    print("recorded answers               in order       Spearman       sd of scores")
    for judge, ladders in recorded.items():
        each = [probabilities(np.array(answers).reshape(2, 11, 3)) for answers in ladders.values()]
        log_odds = np.stack([np.log(answers[:, :-1, 0] / answers[:, :-1, 1]) for answers in each], axis=1)
        prior, signal = log_odds.mean(), float(np.sqrt(np.mean(((log_odds[0] - log_odds[1]) / 2) ** 2)))
        print(f"{judge}: prior {prior:+.2f} nats, signal {signal:.2f}")
        drawn = np.random.default_rng(0).integers(0, len(each), (1000, len(each)))
        for way in WAYS:
            rises, scores = map(np.array, zip(*(ladder_scores(answers, way) for answers in each), strict=True))
            level = np.tile(np.arange(5), len(each))
            pooled = float(spearmanr(scores.ravel(), level).statistic)
            sd = np.std([spearmanr(scores[rows].ravel(), level).statistic for rows in drawn])
            error = rises.mean(axis=1).std(ddof=1) / np.sqrt(len(each))
            print(f"  {way:<24}  {rises.mean():.3f} ± {error:.3f}  {pooled:.3f} ± {sd:.3f}  {scores.std():.2f}")
            found.setdefault(judge, {})[way] = {"in_order": rises.mean(), "spearman": pooled, "sd": scores.std()}
    return found


def simulated(n: int = 4000) -> dict[str, list[float]]:
    found = {}
    print("\nsimulated judge                Spearman: one order, probabilities, log-odds")
    for prior in (0.0, 1.0, 2.0, 4.0, 8.0):
        for spread in (0.0, 1.0):
            rng = np.random.default_rng(0)
            quality = rng.normal(0, 1.2, n)
            gap = quality[:, None] - np.linspace(-2, 2, 5)
            favour = prior + spread * rng.normal(size=gap.shape)
            odds = np.stack([gap + favour, gap - favour]) + rng.normal(0, 0.5, (2, *gap.shape))
            better = 1 / (1 + np.exp(-odds))
            by_order = np.stack([better, 1 - better, np.zeros_like(better)], axis=-1)
            scores = [paper_sum(*np.moveaxis(verdicts(by_order, way), -1, 0)[:2]) for way in WAYS]
            rho = [float(spearmanr(quality, score).statistic) for score in scores]
            print(f"  prior {prior:g} ± {spread:g} nats            " + "  ".join(f"{each:.3f}" for each in rho))
            found[f"{prior:g}±{spread:g}"] = rho
    return found


if __name__ == "__main__":
    print(json.dumps({"real": real(), "simulated": simulated()}))
