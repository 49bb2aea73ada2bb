"""Errors of scores against closed forms and simulations, resampling, and experts fitted from labelled data."""

from functools import partial

import numpy as np
import pytest

from synthscore.errors import InputError, RankingError, SynthscoreWarning
from synthscore.ranking.bradley_terry import bradley_terry, bradley_terry_ties, soft_bradley_terry
from synthscore.ranking.closed_form import average_probability, gaussian, win_ratio
from synthscore.ranking.comparisons import Comparisons
from synthscore.ranking.methods import METHODS, bootstrap

from .test_solvers import full, linked, sigmoid


def test_the_error_of_a_duel_is_that_of_its_log_odds():
    c = Comparisons.from_records([("a", "b", 1.0, 30.0), ("a", "b", 0.0, 10.0)])
    ranked = bradley_terry(c, decisions="per_call", prior=None)
    assert 2 * ranked.stderr[0] == pytest.approx(np.sqrt(1 / 30 + 1 / 10))  # Woolf's, of log(30 / 10)


@pytest.mark.parametrize("bias", [None, "mle"])
def test_errors_are_the_curvature_of_the_log_likelihood_times_what_the_pairs_differ(bias):
    c = linked(np.random.default_rng(0), 6, 40)
    ranked = soft_bradley_terry(c, bias=bias)
    p, w, h = c.probabilities, c.weights, 1e-4
    centre = np.eye(6) - 1 / 6
    at = np.append(ranked.scores, ranked.settings.get("gamma", 0.0))

    def value(x):
        d = x[c.first] - x[c.second] - x[6]
        return -float(w @ (p * np.logaddexp(0, -d) + (1 - p) * np.logaddexp(0, d)))

    step = h * np.eye(7)
    curvature = -np.array(
        [[value(at + a + b) - value(at + a - b) - value(at - a + b) + value(at - a - b) for b in step] for a in step]
    ) / (4 * h * h)
    used = 7 if bias == "mle" else 6
    d = at[c.first] - at[c.second] - at[6]
    pair = np.minimum(c.first, c.second) * 6 + np.maximum(c.first, c.second)
    slope = np.bincount(pair, np.where(c.first < c.second, 1, -1) * w * (p - sigmoid(d)))
    weight = np.bincount(pair, w * sigmoid(d) * sigmoid(-d))
    there = weight > 0
    freedom = there.sum() - used + 1
    assert ranked.settings["degrees_of_freedom"] == freedom
    phi = (slope[there] ** 2 / weight[there]).sum() / freedom
    inverse = phi * np.linalg.pinv(curvature[:used, :used], rcond=1e-5)
    expected = np.diag(centre @ inverse[:6, :6] @ centre)
    np.testing.assert_allclose(ranked.stderr**2, expected, rtol=1e-3, atol=1e-5)
    if bias == "mle":
        assert ranked.settings["gamma_stderr"] == pytest.approx(np.sqrt(inverse[6, 6]), rel=1e-3)


@pytest.mark.parametrize("name", ["bt", "poe-bt", "poe-g", "poe-g-hard"])
def test_a_pair_that_is_asked_again_is_no_second_decision(name):
    """The second answer repeats the first, in the other order: the scores stand as surely as on the first alone."""
    rng, n = np.random.default_rng(12), 12
    i, j = np.triu_indices(n, 1)
    d = np.linspace(-1, 1, n)[i] - np.linspace(-1, 1, n)[j]
    p = sigmoid(d + 2 * rng.normal(size=len(d)))
    ids = [str(k) for k in range(n)]
    options = {"prior": None} if name == "bt" else {}
    once = METHODS[name](Comparisons.from_probabilities(ids, i, j, p), **options)
    both = Comparisons.from_probabilities(ids, np.append(i, j), np.append(j, i), np.append(p, 1 - p))
    np.testing.assert_allclose(METHODS[name](both, **options).stderr, once.stderr, rtol=1e-6)


def test_a_prior_is_no_decision():
    """H^-1 M H^-1 by hand, of two candidates: 8 wins in one pair, which are one decision, and the prior's 1 and 1."""
    ranked = bradley_terry(Comparisons.from_records([("a", "b", 1.0, 6.0), ("a", "b", 0.8, 2.0)]))
    curvature = 0.9 * 0.1  # 8 wins and 0 losses, and one each way: p is .9
    assert ranked.scores[0] - ranked.scores[1] == pytest.approx(np.log(9))
    assert 2 * ranked.stderr[0] == pytest.approx(np.sqrt(8 * 8 * curvature) / (10 * curvature))


def test_errors_are_computed_unless_there_are_many_candidates_or_they_are_not_wanted(monkeypatch):
    c = linked(np.random.default_rng(3), 30, 100, three=True)
    for method in (soft_bradley_terry, bradley_terry, bradley_terry_ties, gaussian):
        assert np.isfinite(method(c).stderr).all()
        assert np.isnan(method(c, stderr=None).stderr).all()
        with pytest.raises(InputError, match="stderr is 'hessian'"):
            method(c, stderr="hessian")
    monkeypatch.setattr("synthscore.ranking.graph.AUTOMATIC", 29)
    assert np.isnan(gaussian(c).stderr).all()
    assert np.isfinite(gaussian(c, stderr="model").stderr).all()
    monkeypatch.setattr("synthscore.ranking.graph.MOST_DENSE", 29)
    with pytest.raises(RankingError, match="bootstrap"):
        gaussian(c, stderr="model")


def test_ninety_percent_intervals_hold_the_truth_in_ninety_percent_of_cases():
    """A short form of benchmarks/coverage.py: hard answers for Bradley-Terry, Gaussian noise for PoE-g."""
    rng, n, inside = np.random.default_rng(5), 8, {"bt": [], "gaussian": []}
    truth = np.linspace(-1, 1, n)
    first, second = np.nonzero(~np.eye(n, dtype=bool))
    first, second = np.tile(first, 3), np.tile(second, 3)
    ids = [str(k) for k in range(n)]
    for _ in range(150):
        won = rng.random(len(first)) < sigmoid(truth[first] - truth[second])
        hard = Comparisons.from_probabilities(ids, first, second, won.astype(float))
        ranked = bradley_terry(hard, prior=None, decisions="per_call")
        inside["bt"].append(np.abs(ranked.scores - truth) < 1.645 * ranked.stderr)
        p = 0.5 + 0.1 * (truth[first] - truth[second]) + rng.normal(0, 0.05, len(first))
        ranked = gaussian(Comparisons.from_probabilities(ids, first, second, p))
        inside["gaussian"].append(np.abs(10 * ranked.scores - truth) < 1.645 * 10 * ranked.stderr)
    for name, rows in inside.items():
        assert 0.86 < np.mean(rows) < 0.94, name  # 1,200 intervals, not independent


# ------------------------------------------------------------------------------------------------- resampling


def test_the_bootstrap_finds_the_error_of_a_mean():
    rng = np.random.default_rng(6)
    p = rng.uniform(0.2, 0.8, 400)
    c = Comparisons.from_probabilities([str(k) for k in range(401)], np.zeros(400, dtype=int), np.arange(1, 401), p)
    stderr, n_ranked = bootstrap(average_probability, c, 400, rng)
    assert n_ranked == 400
    assert stderr[0] == pytest.approx(p.std() / 20, rel=0.15)


def test_a_pair_is_drawn_with_all_its_calls():
    rng = np.random.default_rng(7)
    c = full(rng, 12)
    again = Comparisons(
        c.ids, np.tile(c.first, 5), np.tile(c.second, 5), np.tile(c.log_probs, (5, 1)), np.tile(c.weights, 5)
    )
    method = partial(gaussian, stderr=None)
    by_pair, _ = bootstrap(method, c, 200, np.random.default_rng(8))
    np.testing.assert_allclose(bootstrap(method, again, 200, np.random.default_rng(8))[0], by_pair)


def test_the_same_seed_gives_the_same_resamples_for_every_method():
    c = full(np.random.default_rng(9), 12)
    for method in (win_ratio, partial(bradley_terry, stderr=None), partial(soft_bradley_terry, stderr=None)):
        ours, theirs = (bootstrap(method, c, 20, np.random.default_rng(10)) for _ in range(2))
        np.testing.assert_array_equal(ours[0], theirs[0])


def test_resamples_that_cannot_be_ranked_are_counted_and_left_out():
    c = Comparisons.from_records([("a", "b", 0.7), ("b", "c", 0.6), ("c", "d", 0.6), ("a", "d", 0.7)])
    scores = []

    def kept(calls, **options):
        ranked = soft_bradley_terry(calls, **options)
        scores.append(ranked.scores)
        return ranked

    with pytest.warns(SynthscoreWarning, match="resamples could not be ranked, and are left out: scores are known"):
        stderr, n_ranked = bootstrap(partial(kept, stderr=None), c, 50, np.random.default_rng(11))
    assert 0 < len(scores) == n_ranked < 50
    np.testing.assert_allclose(stderr, np.std(scores, axis=0, ddof=1))
