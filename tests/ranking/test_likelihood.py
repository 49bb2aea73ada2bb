"""The most probable order: all subsets against all orders."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.errors import RankingError
from synthscore.ranking.comparisons import Comparisons
from synthscore.ranking.designs import all_pairs
from synthscore.ranking.likelihood import likelihood_ranking
from tests.factories import random_calls, turned

SEEDS = st.integers(0, 2**32 - 1)


def _random(n, rng, calls=None):
    calls = all_pairs(n) if calls is None else calls
    return Comparisons.from_probabilities(
        [str(k) for k in range(n)], calls[:, 0], calls[:, 1], rng.random(len(calls)), rng.integers(1, 4, len(calls))
    )


def _log_likelihood(comparisons, order):
    place = np.argsort(order)
    p = np.clip(comparisons.probabilities, 1e-12, None)
    q = np.clip(np.exp(comparisons.log_probs[:, 1]) + np.exp(comparisons.log_probs[:, 2]) / 2, 1e-12, None)
    first_higher = place[comparisons.first] < place[comparisons.second]
    return comparisons.weights @ np.log(np.where(first_higher, p, q))


@given(SEEDS, st.integers(2, 6))
@settings(max_examples=40)
def test_the_order_is_the_best_of_all_orders(seed, n):
    rng = np.random.default_rng(seed)
    comparisons = _random(n, rng, random_calls(n, int(rng.integers(n - 1, n * (n - 1) + 1)), rng))
    found = likelihood_ranking(comparisons)
    values = [_log_likelihood(comparisons, np.array(order)) for order in permutations(range(n))]
    assert found.log_likelihood == pytest.approx(max(values))
    assert _log_likelihood(comparisons, found.order) == pytest.approx(max(values))
    assert found.settings["n_best"] == sum(np.isclose(values, max(values), rtol=0, atol=1e-9))


@given(SEEDS)
@settings(max_examples=15)
def test_exchanging_better_and_worse_turns_the_order_round(seed):
    comparisons = _random(6, np.random.default_rng(seed))
    opposite = Comparisons(
        comparisons.ids, comparisons.second, comparisons.first, comparisons.log_probs, comparisons.weights
    )
    found, turned = (likelihood_ranking(each) for each in (comparisons, opposite))
    np.testing.assert_allclose(turned.scores, -found.scores)
    assert turned.log_likelihood == pytest.approx(found.log_likelihood)


@given(SEEDS)
@settings(max_examples=15)
def test_the_order_shown_does_not_matter_and_names_move_with_their_texts(seed):
    rng = np.random.default_rng(seed)
    comparisons = _random(7, rng)
    found = likelihood_ranking(comparisons).scores
    np.testing.assert_allclose(likelihood_ranking(turned(comparisons)).scores, found)
    place = rng.permutation(7)
    moved = Comparisons(
        comparisons.ids, place[comparisons.first], place[comparisons.second], comparisons.log_probs, comparisons.weights
    )
    np.testing.assert_allclose(likelihood_ranking(moved).scores[place], found)


@given(st.permutations(range(9)), st.sampled_from([0.51, 0.9, 1.0]))
@settings(max_examples=20)
def test_transitive_answers_give_their_order(quality, p):
    quality = np.array(quality)
    calls = all_pairs(9, both_orders=False)
    answers = np.where(quality[calls[:, 0]] > quality[calls[:, 1]], p, 1 - p)
    comparisons = Comparisons.from_probabilities([str(k) for k in range(9)], calls[:, 0], calls[:, 1], answers)
    found = likelihood_ranking(comparisons)
    np.testing.assert_allclose(found.scores, quality - 4)
    assert found.settings["n_floored"] == (36 if p == 1 else 0)
    assert np.isnan(found.stderr).all()
    np.testing.assert_allclose(found.n_comparisons, 8)


def test_the_product_is_maximised_and_not_the_printed_sum():
    # x above y above z loses one factor of 0.01; the sum p + (1 - p) would not mind it
    comparisons = Comparisons.from_records([("x", "y", 0.9), ("y", "z", 0.9), ("x", "z", 0.01)])
    found = likelihood_ranking(comparisons)
    assert [comparisons.ids[k] for k in found.order] in (["y", "z", "x"], ["z", "x", "y"])
    assert found.log_likelihood == pytest.approx(np.log(0.9 * 0.99 * 0.1))
    assert found.settings["n_best"] == 2


def test_a_wrong_hard_outcome_costs_what_the_floor_says():
    comparisons = Comparisons.from_records([("a", "b", 1.0), ("b", "c", 1.0), ("c", "a", 1.0), ("a", "c", 0.6)])
    found = likelihood_ranking(comparisons)
    assert found.log_likelihood == pytest.approx(np.log(1e-12) + np.log(0.6))
    assert found.settings["n_floored"] == 3


def test_similar_is_half_for_either():
    log_probs = np.log(np.array([[0.2, 0.5, 0.3]]))
    comparisons = Comparisons(("a", "b"), np.array([0]), np.array([1]), log_probs, np.array([2.0]))
    found = likelihood_ranking(comparisons)
    assert found.scores.tolist() == [-0.5, 0.5]
    assert found.log_likelihood == pytest.approx(2 * np.log(0.65))
    assert likelihood_ranking(turned(comparisons)).log_likelihood == pytest.approx(found.log_likelihood)


def test_a_candidate_without_comparisons_has_no_place():
    found = likelihood_ranking(Comparisons.from_records([("a", "c", 0.9), ("c", "d", 0.8)], ids=["a", "b", "c", "d"]))
    np.testing.assert_array_equal(found.scores, [1, np.nan, 0, -1])
    assert found.ranks.tolist() == [1, 0, 2, 3]


def test_groups_that_nothing_connects_are_named():
    comparisons = Comparisons.from_records([("a", "b", 0.9), ("c", "d", 0.9)])
    with pytest.raises(RankingError, match=r"2 groups .* \{'a', 'b'\}, \{'c', 'd'\}"):
        likelihood_ranking(comparisons)
    with pytest.raises(RankingError, match="the 0 candidates that were compared, expected 1 to 18"):
        likelihood_ranking(comparisons.subset([]))


def test_more_texts_than_all_subsets_can_be_looked_at_of_are_refused():
    rng = np.random.default_rng(3)
    with pytest.raises(RankingError, match=r"all orders of the 19 candidates .* Take average-probability"):
        likelihood_ranking(_random(19, rng, random_calls(19, 60, rng)))
    assert likelihood_ranking(_random(18, rng, random_calls(18, 60, rng))).settings["n_best"] >= 1
