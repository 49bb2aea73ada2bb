"""What ranking makes of few calls: the protocol of the benchmark, and what docs/ranking.md claims of it."""

import math
from functools import partial

import numpy as np
import pytest

from benchmarks.ranking_claims import efficiency_curves, interval
from papers.designs import thinned
from synthscore.evaluation.correlation import correlation as spearman
from synthscore.ranking.bias import mean_debiasing, median_debiasing, pool
from synthscore.ranking.bradley_terry import soft_bradley_terry
from synthscore.ranking.closed_form import average_probability, win_ratio
from synthscore.ranking.comparisons import Comparisons
from synthscore.ranking.designs import all_pairs

N = 6


def judged(seed, n=N, bias=0.0, noise=1.0):
    rng = np.random.default_rng(seed)
    q, calls = rng.normal(size=n), all_pairs(n)
    odds = q[calls[:, 0]] - q[calls[:, 1]] + bias + noise * rng.normal(size=len(calls))
    ids = [f"c{k}" for k in range(n)]
    return Comparisons.from_probabilities(ids, calls[:, 0], calls[:, 1], 1 / (1 + np.exp(-odds))), q


CONTEXTS, TRUTH = zip(*(judged(seed) for seed in range(3)), strict=True)


def test_a_value_is_the_mean_over_contexts_of_the_correlation_under_one_draw():
    found = efficiency_curves(CONTEXTS, TRUTH, {"avg": average_probability}, 4, budgets=[12])["avg"]
    for draw in range(4):
        rng = np.random.default_rng([12, draw])
        used = [calls.subset(thinned(calls, "2N", "symmetric", rng)) for calls in CONTEXTS]
        expected = [spearman(average_probability(c).scores, q) for c, q in zip(used, TRUTH, strict=True)]
        assert found[0, draw] == pytest.approx(np.mean(expected))


def test_all_methods_see_the_same_draws():
    seen = {"one": [], "two": []}

    def watched(name, comparisons):
        seen[name].append((comparisons.first.tolist(), comparisons.second.tolist()))
        return win_ratio(comparisons)

    efficiency_curves(CONTEXTS, TRUTH, {name: partial(watched, name) for name in seen}, 3, budgets=[12, 18])
    assert seen["one"] == seen["two"]
    assert len(seen["one"]) == 2 * 3 * 3
    assert len({str(calls) for calls in seen["one"]}) > 10


@pytest.mark.parametrize("design", ["symmetric", "greedy", "random"])
def test_a_draw_of_all_calls_is_the_full_set_without_spread(design):
    methods = {"poe-bt": partial(soft_bradley_terry, stderr=None)}
    found = efficiency_curves(CONTEXTS, TRUTH, methods, 3, design, budgets=[30])["poe-bt"]
    full = np.mean([spearman(soft_bradley_terry(c).scores, q) for c, q in zip(CONTEXTS, TRUTH, strict=True)])
    np.testing.assert_allclose(found, full)


@pytest.mark.parametrize(("design", "both"), [("symmetric", True), ("greedy", True), ("random", False)])
def test_designs_ask_as_many_calls_in_both_orders_or_in_any(design, both):
    turned = []

    def checked(comparisons):
        calls = set(zip(comparisons.first.tolist(), comparisons.second.tolist(), strict=True))
        assert len(calls) == len(comparisons) == 12
        turned.extend((j, i) in calls for i, j in calls)
        return win_ratio(comparisons)

    efficiency_curves(CONTEXTS, TRUTH, {"m": checked}, 2, design, budgets=[12])
    assert all(turned) == both


def test_the_interval_is_students():
    values = np.array([0.1, 0.2, 0.4])
    half = 4.302652729911275 * values.std(ddof=1) / math.sqrt(3)
    np.testing.assert_allclose(interval(values), [values.mean() - half, values.mean() + half])


def simulated(bias, n=16, n_contexts=40):
    """Log-odds: quality, noise of the pair, noise of the call, bias for the first text."""
    rng, calls = np.random.default_rng(1), all_pairs(16)
    contexts, truth = [], []
    for _ in range(n_contexts):
        q, pair = rng.normal(size=n), rng.normal(size=(n, n))
        i, j = calls.T
        odds = q[i] - q[j] + (pair[i, j] - pair[j, i]) / math.sqrt(2) + 0.5 * rng.normal(size=len(calls)) + bias
        contexts.append(Comparisons.from_probabilities([f"c{k}" for k in range(n)], i, j, 1 / (1 + np.exp(-odds))))
        truth.append(q)
    return contexts, truth


POE_BT = partial(soft_bradley_terry, stderr=None)


@pytest.mark.slow
def test_probabilities_and_a_model_of_them_make_the_most_of_few_calls_and_no_difference_with_all():
    contexts, truth = simulated(1.0)
    methods = {"win": win_ratio, "avg": average_probability, "bt": POE_BT}
    random_pairs = efficiency_curves(contexts, truth, methods, 3, budgets=[48, 240])
    win, avg, poe = (values.mean(axis=1) for values in random_pairs.values())
    greedy = efficiency_curves(contexts, truth, {"bt": POE_BT}, 3, "greedy", budgets=[48, 240])["bt"].mean(axis=1)
    assert win[0] < avg[0] < poe[0] < greedy[0]
    assert avg[1] == pytest.approx(poe[1], abs=1e-9)
    assert greedy[1] == pytest.approx(poe[1], abs=1e-9)


@pytest.mark.slow
def test_estimating_the_bias_recovers_nearly_all_that_it_costs():
    (biased, truth), (fair, _) = simulated(1.0), simulated(0.0)
    draw = partial(efficiency_curves, truth=truth, n_draws=3, design="random", budgets=[48])
    methods = {
        "nothing": POE_BT,
        "mean": lambda calls: POE_BT(calls, bias=mean_debiasing(calls).shift),
        "mle": partial(POE_BT, bias="mle"),
    }
    nothing, mean, mle = (values.mean() for values in draw(biased, methods=methods).values())
    tau = median_debiasing(pool({str(k): calls for k, calls in enumerate(biased)}))
    threshold = draw([tau.apply(calls) for calls in biased], methods={"threshold": POE_BT})["threshold"].mean()
    best = draw(fair, methods={"best": POE_BT})["best"].mean()
    assert best - nothing > 0.04
    for repaired, share in ((mean, 0.7), (mle, 0.7), (threshold, 0.95)):
        assert (repaired - nothing) / (best - nothing) > share
