"""Pairs that were asked unequally often: what repeated answers are worth, in scores and errors, by every method."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize

from synthscore.ranking import METHODS, Comparisons, rank
from synthscore.ranking.designs import all_pairs
from synthscore.ranking.repeats import asked_alike, correlate_errors, weigh_as_median_pair

from .test_solvers import linked, sigmoid

N = 14
IDS = tuple(f"c{k}" for k in range(N))
TRUTH = np.linspace(-1.5, 1.5, N)
PAIRS = all_pairs(N, both_orders=False)
SOFT = ("poe-bt", "bt-ties", "poe-g", "average-probability")


def asked(p, times):
    """Answers about PAIRS: p of each pair, or of each call."""
    call = np.repeat(np.arange(len(PAIRS)), times)
    return Comparisons.from_probabilities(IDS, *PAIRS[call].T, p[call] if len(p) == len(PAIRS) else p)


def some_often(rng):
    return np.where(rng.random(len(PAIRS)) < 0.25, 8, 1)


def answers(rng):
    """Of a judge whose errors are the pair's, and calibrated."""
    mean = sigmoid(TRUTH[PAIRS[:, 0]] - TRUTH[PAIRS[:, 1]])
    return rng.beta(3 * mean, 3 * (1 - mean)).clip(1e-9, 1 - 1e-9)


@pytest.mark.parametrize("name", [name for name in METHODS if name != "likelihood"])
def test_a_judge_that_repeats_itself_is_heard_once_on_each_pair(name):
    rng = np.random.default_rng(1)
    p = answers(rng)
    once, often = rank(asked(p, 1), name), rank(asked(p, some_often(rng)), name)
    np.testing.assert_allclose(often.scores, once.scores, atol=1e-7)
    np.testing.assert_allclose(often.stderr, once.stderr, rtol=1e-5)
    assert often.settings["rho"] == 1
    assert "rho" not in once.settings


def test_the_likeliest_order_is_that_of_the_pairs_however_often_they_were_asked():
    rng = np.random.default_rng(3)
    p = answers(rng)
    often = rank(asked(p, some_often(rng)), "likelihood")
    np.testing.assert_array_equal(often.ranks, rank(asked(p, 1), "likelihood").ranks)


def test_a_pair_that_is_decided_by_the_mean_of_its_calls_is_one_decision():
    rng = np.random.default_rng(11)
    times = some_often(rng)
    calls = asked(rng.random(times.sum()), times)
    once = calls.averaged()
    once = Comparisons(IDS, once.first, once.second, once.log_probs, np.ones(len(once)))
    for name in ("win-ratio", "colley", "bt", "poe-g-hard"):
        ours, theirs = METHODS[name](calls), METHODS[name](once)
        np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-8)
        np.testing.assert_allclose(ours.stderr, theirs.stderr, rtol=1e-6)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if "decisions" in method.options])
def test_each_call_is_a_decision_where_that_is_asked_for(name):
    rng = np.random.default_rng(4)
    calls = asked(answers(rng), some_often(rng))
    found = METHODS[name](calls, decisions="per_call")
    np.testing.assert_array_equal(found.scores, METHODS[name].formula(calls, decisions="per_call").scores)
    assert "rho" not in found.settings


@pytest.mark.parametrize(("shared", "low", "high"), [(1.0, 0.999, 1.0), (0.5, 0.35, 0.65), (0.0, 0.0, 0.15)])
def test_rho_is_the_share_of_the_error_that_answers_have_in_common(shared, low, high):
    rng = np.random.default_rng(5)
    found = []
    for _ in range(10):
        times = some_often(rng)
        mean = 0.5 + (TRUTH[PAIRS[:, 0]] - TRUTH[PAIRS[:, 1]]) / 10
        of_pair, of_call = rng.normal(0, 0.05, len(PAIRS)), rng.normal(0, 0.05, times.sum())
        p = np.repeat(mean + np.sqrt(shared) * of_pair, times) + np.sqrt(1 - shared) * of_call
        found.append(correlate_errors(asked(p.clip(0, 1), times)))
    assert low <= np.mean(found) <= high


def test_coins_all_count():
    rng = np.random.default_rng(6)
    times = rng.integers(2, 40, len(PAIRS))
    mean = sigmoid(TRUTH[PAIRS[:, 0]] - TRUTH[PAIRS[:, 1]])
    calls = asked((rng.random(times.sum()) < np.repeat(mean, times)).astype(float), times)
    assert correlate_errors(calls) < 0.02
    np.testing.assert_allclose(rank(calls).scores, METHODS["poe-bt"].formula(calls).scores, atol=0.05)


def test_rho_by_hand():
    """Moments of the residuals of a fit that a general minimiser finds."""
    rng = np.random.default_rng(7)
    calls = linked(rng, 6, 60, low=0.1)
    pairs = calls.pairs()
    mean = pairs.wins / pairs.games

    def loss(scores):
        d = scores[pairs.i] - scores[pairs.j]
        return float(np.sum(np.logaddexp(0, d) - mean * d)) + scores.sum() ** 2

    scores = optimize.minimize(loss, np.zeros(6), options={"gtol": 1e-9}).x
    expected = sigmoid(scores[pairs.i] - scores[pairs.j])
    within, repeated, between, alone, coins = 0.0, 0.0, 0.0, 0.0, 0.0
    for i, j, m, mu in zip(pairs.i, pairs.j, mean, expected, strict=True):
        of_pair = [
            (w, p if first == i else 1 - p)
            for first, second, w, p in zip(calls.first, calls.second, calls.weights, calls.probabilities, strict=True)
            if {first, second} == {i, j}
        ]
        n = sum(w for w, _ in of_pair)
        within += sum(w * (p - m) ** 2 for w, p in of_pair)
        repeated += mu * (1 - mu) * (n - 1)
        between += (m - mu) ** 2
        alone += mu * (1 - mu) / n
        coins += mu * (1 - mu)
    of_call = within / repeated
    of_pair = max((between * len(mean) / (len(mean) - 5) - of_call * alone) / coins, 0)
    assert correlate_errors(calls) == pytest.approx(of_pair / (of_pair + of_call), abs=1e-6)
    assert 0.01 < correlate_errors(calls) < 0.99


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_n_answers_count_as_n_over_one_and_rho_for_each_further_one(seed, rho):
    calls = linked(np.random.default_rng(seed), 6, 20)
    weighed = weigh_as_median_pair(calls, rho)
    n, weight = calls.pairs().games, weighed.pairs().games
    np.testing.assert_allclose(weight / weight[0], (n / (1 + (n - 1) * rho)) / (n[0] / (1 + (n[0] - 1) * rho)))
    np.testing.assert_allclose(weight[n == np.median(n)], np.median(n))
    np.testing.assert_allclose(weigh_as_median_pair(calls, 0.0).weights, calls.weights)
    np.testing.assert_allclose(weigh_as_median_pair(calls, 1.0).pairs().games, np.median(n))


@settings(max_examples=15)
@given(st.integers(0, 2**32 - 1))
def test_a_row_of_weight_w_is_w_rows_and_its_order_does_not_matter(seed):
    calls = linked(np.random.default_rng(seed), 6, 20)
    rows = np.repeat(np.arange(len(calls)), calls.weights.astype(int))
    chosen = calls.subset(rows)
    repeated = Comparisons(calls.ids, chosen.second, chosen.first, chosen.log_probs[:, [1, 0, 2]], np.ones(len(rows)))
    assert correlate_errors(repeated) == pytest.approx(correlate_errors(calls), abs=1e-9)
    for name in SOFT:
        ours, theirs = METHODS[name](calls), METHODS[name](repeated)
        np.testing.assert_allclose(theirs.scores, ours.scores, atol=1e-7)
        np.testing.assert_allclose(theirs.n_comparisons, ours.n_comparisons)


def test_pairs_asked_equally_often_are_left_as_they_are():
    rng = np.random.default_rng(8)
    calls = asked(answers(rng), 3)
    assert asked_alike(calls)
    assert METHODS["poe-bt"].weigh(calls) == (calls, {})
    assert rank(calls).settings.keys() == METHODS["poe-bt"].formula(calls).settings.keys()


@pytest.mark.parametrize(
    "calls",
    [
        Comparisons.from_records([("a", "b", 0.7), ("b", "a", 0.4), ("b", "c", 0.6)]),  # a tree
        Comparisons.from_records(
            [(x, y, p) for x, y in ("ab", "bc", "ca", "de", "ef", "fd") for p in (0.6, 0.7)][1:]
        ),  # groups
        Comparisons.from_records(
            [("a", "b", 0.7, 0.3), ("b", "a", 0.6, 0.2), ("b", "c", 0.6), ("a", "c", 0.6)]
        ),  # parts
        Comparisons.from_records([("a", "b", 1.0, 3.0), ("b", "c", 1.0), ("a", "c", 1.0)]),  # certain, and the same
    ],
)
def test_where_answers_do_not_tell_the_pair_is_the_unit(calls):
    assert correlate_errors(calls) == 1
    alike = calls.averaged()
    once = Comparisons(alike.ids, alike.first, alike.second, alike.log_probs, np.ones(len(alike)))
    found = METHODS["average-probability"](calls)
    np.testing.assert_allclose(found.scores, METHODS["average-probability"](once).scores)
    assert found.n_comparisons.sum() == pytest.approx(2 * calls.weights.sum())


def test_the_bootstrap_of_weighed_pairs_is_that_of_pairs_asked_once():
    rng = np.random.default_rng(9)
    p = answers(rng)
    once = rank(asked(p, 1), "poe-g", stderr="bootstrap")
    often = rank(asked(p, some_often(rng)), "poe-g", stderr="bootstrap")
    np.testing.assert_allclose(often.stderr, once.stderr, rtol=1e-6)


@pytest.mark.parametrize("name", ["poe-bt", "poe-g"])
def test_intervals_hold_where_half_of_the_error_is_the_pairs(name):
    """A short form of benchmarks/uneven_pairs.py, where as many intervals of the formula alone hold .77."""
    rng = np.random.default_rng(10)
    unit = 10.0 if name == "poe-g" else 1.0
    held = []
    for _ in range(60):
        times = some_often(rng)
        d = TRUTH[PAIRS[:, 0]] - TRUTH[PAIRS[:, 1]]
        if name == "poe-g":
            p = np.repeat(0.5 + d / 10 + rng.normal(0, 0.05, len(d)), times) + rng.normal(0, 0.05, times.sum())
        else:
            of_pair = rng.beta(5 * sigmoid(d), 5 * sigmoid(-d)).clip(0.01, 0.99)
            p = rng.beta(9 * np.repeat(of_pair, times), 9 * np.repeat(1 - of_pair, times))
        found = rank(asked(p.clip(1e-9, 1 - 1e-9), times), name)
        held.append(np.abs(found.scores - TRUTH / unit) < 1.645 * found.stderr)
    assert 0.86 < np.mean(held) < 0.94  # 840 intervals, not independent
