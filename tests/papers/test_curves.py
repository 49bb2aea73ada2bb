"""Efficiency curves: the protocol, and a picture of them."""

import math
from functools import partial
from xml.etree import ElementTree

import numpy as np
import pytest

from papers.curves import efficiency_curves, t_interval
from papers.designs import symmetric
from papers.plot import Line, Panel, draw_curves
from synthscore.errors import InputError, RankingError
from synthscore.evaluation.correlation import correlation as spearman
from synthscore.ranking.bias import mean_debiasing, median_debiasing, pool
from synthscore.ranking.bradley_terry import soft_bradley_terry
from synthscore.ranking.closed_form import average_probability, win_ratio
from synthscore.ranking.comparisons import Comparisons
from synthscore.ranking.designs import all_pairs
from synthscore.ranking.result import Ranking

N = 6


def judged(seed, n=N, bias=0.0, noise=1.0):
    rng = np.random.default_rng(seed)
    q, calls = rng.normal(size=n), all_pairs(n)
    odds = q[calls[:, 0]] - q[calls[:, 1]] + bias + noise * rng.normal(size=len(calls))
    ids = [f"c{k}" for k in range(n)]
    return Comparisons.from_probabilities(ids, calls[:, 0], calls[:, 1], 1 / (1 + np.exp(-odds))), q


CONTEXTS, TRUTH = zip(*(judged(seed) for seed in range(3)), strict=True)


def test_a_value_is_the_mean_over_contexts_of_the_correlation_under_one_draw():
    (curve,) = efficiency_curves(CONTEXTS, {"avg": average_probability}, human=TRUTH, budgets=[12], n_draws=4, seed=7)
    for draw in range(4):
        rng = np.random.default_rng([7, 12, draw])
        found = []
        for comparisons, q in zip(CONTEXTS, TRUTH, strict=True):
            chosen = {tuple(call) for call in symmetric(N, 12, rng).tolist()}
            calls = zip(comparisons.first.tolist(), comparisons.second.tolist(), strict=True)
            rows = [row for row, call in enumerate(calls) if call in chosen]
            assert len(rows) == 12
            found.append(spearman(average_probability(comparisons.subset(rows)).scores, q))
        assert curve.values[0, draw] == pytest.approx(np.mean(found))
    assert curve.mean[0] == pytest.approx(curve.values.mean())
    assert curve.sd[0] == pytest.approx(np.std(curve.values[0], ddof=1))


def test_all_methods_see_the_same_draws():
    seen = {"one": [], "two": []}

    def watched(name, comparisons):
        seen[name].append((comparisons.first.tolist(), comparisons.second.tolist()))
        return win_ratio(comparisons)

    methods = {name: partial(watched, name) for name in seen}
    efficiency_curves(CONTEXTS, methods, human=TRUTH, budgets=[12, 16], n_draws=3)
    assert seen["one"] == seen["two"]
    assert len(seen["one"]) == 2 * 3 * 3
    assert len({str(calls) for calls in seen["one"]}) > 10


@pytest.mark.parametrize("design", ["symmetric", "greedy", "random"])
def test_a_draw_of_all_calls_is_the_full_set_without_spread(design):
    methods = {"poe-bt": partial(soft_bradley_terry, stderr=None)}
    (curve,) = efficiency_curves(CONTEXTS, methods, human=TRUTH, budgets=[30], n_draws=3, design=design)
    full = np.mean([spearman(soft_bradley_terry(c).scores, q) for c, q in zip(CONTEXTS, TRUTH, strict=True)])
    np.testing.assert_allclose(curve.values, full)
    assert curve.sd.tolist() == [pytest.approx(0, abs=1e-12)]
    assert (curve.n_contexts, curve.n_failed.tolist()) == (3, [0])


@pytest.mark.parametrize(("design", "both"), [("symmetric", True), ("greedy", True), ("no-repeat", False)])
def test_designs_ask_in_both_orders_or_in_one(design, both):
    def checked(comparisons):
        calls = set(zip(comparisons.first.tolist(), comparisons.second.tolist(), strict=True))
        assert all(((j, i) in calls) == both for i, j in calls)
        return win_ratio(comparisons)

    efficiency_curves(CONTEXTS, {"m": checked}, human=TRUTH, budgets=[12], n_draws=2, design=design)


def test_a_context_that_a_method_cannot_rank_is_left_out_and_counted():
    calls = []

    def picky(comparisons):
        calls.append(comparisons)
        if len(calls) % 3 == 1:
            raise RankingError("no")
        return win_ratio(comparisons)

    picky_one, plain = efficiency_curves(
        CONTEXTS, {"picky": picky, "plain": win_ratio}, human=TRUTH, budgets=[30], n_draws=2
    )
    assert picky_one.n_failed.tolist() == [2]
    others = [spearman(np.round(win_ratio(c).scores, 9), q) for c, q in zip(CONTEXTS[1:], TRUTH[1:], strict=True)]
    np.testing.assert_allclose(picky_one.values, np.mean(others))
    assert plain.n_failed.tolist() == [0]


def test_scores_that_differ_by_rounding_are_equal():
    comparisons, _ = judged(0, n=3)

    def nearly(calls):
        scores = np.array([1 / 3, 1 / 3 + 1e-16, 0.1])
        return Ranking(calls.ids, scores, np.full(3, np.nan), np.ones(3), "nearly")

    (curve,) = efficiency_curves([comparisons], {"m": nearly}, human=[[1, 2, 0]], budgets=[6], n_draws=2)
    np.testing.assert_allclose(curve.values, spearman([1, 1, 0], [1, 2, 0]))


def test_a_set_that_is_not_full_or_a_spread_of_one_draw_is_refused():
    with pytest.raises(InputError, match="not full: it has 29 of the 30 calls about 6"):
        efficiency_curves([CONTEXTS[0].subset(np.arange(29))], {"w": win_ratio}, human=TRUTH[:1], budgets=[12])
    with pytest.raises(InputError, match="1 draws, expected at least 2"):
        efficiency_curves(CONTEXTS, {"w": win_ratio}, human=TRUTH, budgets=[12], n_draws=1)
    with pytest.raises(InputError, match="1 sets of ratings for 3"):
        efficiency_curves(CONTEXTS, {"w": win_ratio}, human=TRUTH[:1], budgets=[12])


def test_the_interval_is_students():
    values = np.array([0.1, 0.2, 0.4])
    half = 4.302652729911275 * values.std(ddof=1) / math.sqrt(3)
    np.testing.assert_allclose(t_interval(values), [values.mean() - half, values.mean() + half])


# ------------------------------------------------------------------------------------------------- the picture


def test_a_figure_is_svg_with_every_name_in_it_escaped():
    x = [10, 20, 30]
    lines = [
        Line("a<b", x, [0.1, 0.2, 0.3], [0, 0.1, 0.2], [0.2, 0.3, 0.4]),
        Line("gap", x, [0.3, 0.3, math.nan], [0.3, 0.3, math.nan], [0.3, 0.3, math.nan]),
        Line("none", x, *[[math.nan] * 3] * 3),
    ]
    panels = [Panel("One & two", lines, "calls", "Spearman"), Panel("Other", lines[:1], "calls", "")]
    text = draw_curves(panels)
    assert "nan" not in text
    assert text == draw_curves(panels)
    root = ElementTree.fromstring(text)
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a<b", "gap", "none", "One & two", "Other", "Spearman", "10", "30"} <= set(words)


# ------------------------------------------------------------------------------------------------- the claims


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
    win, avg, poe = efficiency_curves(contexts, methods, human=truth, budgets=[48, 240], n_draws=3)
    greedy = efficiency_curves(contexts, {"bt": POE_BT}, human=truth, budgets=[48, 240], n_draws=3, design="greedy")[0]
    assert win.mean[0] < avg.mean[0] < poe.mean[0] < greedy.mean[0]
    assert avg.mean[1] == pytest.approx(poe.mean[1], abs=1e-9)
    assert greedy.mean[1] == pytest.approx(poe.mean[1], abs=1e-9)


@pytest.mark.slow
def test_estimating_the_bias_recovers_nearly_all_that_it_costs():
    (biased, truth), (fair, _) = simulated(1.0), simulated(0.0)
    draw = partial(efficiency_curves, human=truth, budgets=[48], n_draws=3, design="random")
    methods = {
        "nothing": POE_BT,
        "mean": lambda calls: POE_BT(calls, bias=mean_debiasing(calls).shift),
        "mle": partial(POE_BT, bias="mle"),
    }
    nothing, mean, mle = (curve.mean[0] for curve in draw(biased, methods))
    tau = median_debiasing(pool({str(k): calls for k, calls in enumerate(biased)}))
    (threshold,) = (curve.mean[0] for curve in draw([tau.apply(calls) for calls in biased], {"threshold": POE_BT}))
    (best,) = (curve.mean[0] for curve in draw(fair, {"best": POE_BT}))
    assert best - nothing > 0.04
    for repaired, share in ((mean, 0.7), (mle, 0.7), (threshold, 0.95)):
        assert (repaired - nothing) / (best - nothing) > share
