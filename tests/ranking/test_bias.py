"""Position bias: what is measured, and what is left of it after a shift."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.errors import InputError
from synthscore.ranking.bias import mean_debiasing, median_debiasing, pool, position_bias
from synthscore.ranking.comparisons import Comparisons
from synthscore.ranking.designs import all_pairs
from synthscore.scoring.shares import share
from synthscore.signature import Signature
from tests.factories import random_calls, turned

SEEDS = st.integers(0, 2**32 - 1)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _judged(log_odds, calls, n):
    with np.errstate(over="ignore"):
        p = _sigmoid(np.asarray(log_odds, dtype=float))
    return Comparisons.from_probabilities([str(k) for k in range(n)], calls[:, 0], calls[:, 1], p)


def _judge(n=12, bias=0.0, noise=0.0, seed=0, calls=None, scale=1.0):
    """A judge whose log-odds are the difference of qualities, plus `bias` for the first text, plus noise a call."""
    rng = np.random.default_rng(seed)
    quality = rng.normal(size=n) * scale
    calls = all_pairs(n) if calls is None else calls
    odds = quality[calls[:, 0]] - quality[calls[:, 1]] + bias + noise * rng.normal(size=len(calls))
    return _judged(odds, calls, n)


# ------------------------------------------------------------------------------------------------- measuring


def test_a_worked_example_of_all_kinds_of_pairs():
    records = [
        *[("a", "b", 0.9), ("b", "a", 0.2)],  # a in both orders
        *[("a", "c", 0.8), ("c", "a", 0.7)],  # the first in both
        *[("a", "d", 0.5), ("d", "a", 0.5)],  # a tie in both
        *[("b", "c", 0.5), ("c", "b", 0.6)],  # a tie in one
        ("b", "d", 0.3),  # one order only
    ]
    found = position_bias(Comparisons.from_records(records))
    assert found.first_wins.value == pytest.approx((1 + 0 + 1 + 1 + 0.5 + 0.5 + 0.5 + 1 + 0) / 9)
    assert (found.first_wins.n, found.n_both_orders) == (9, 4)
    assert (found.flipped.value, found.flipped.n) == (0.25, 4)


@given(SEEDS)
@settings(max_examples=25)
def test_reversing_every_call_turns_the_preference_round_and_leaves_the_flips(seed):
    rng = np.random.default_rng(seed)
    judged = _judge(7, bias=0.7, noise=1, seed=seed, calls=random_calls(7, 25, rng))
    there, back = position_bias(judged), position_bias(turned(judged))
    assert back.first_wins.value == pytest.approx(1 - there.first_wins.value)
    assert back.first_wins.low == pytest.approx(1 - there.first_wins.high)
    assert repr(back.flipped) == repr(there.flipped)  # repr: NaN where no pair was asked in both orders


def test_an_unbiased_judge_in_both_orders_has_half_and_no_flips():
    found = position_bias(_judge(bias=0))
    assert (found.first_wins.value, found.flipped.value) == (0.5, 0)


def test_a_judge_that_sees_only_the_place_flips_every_pair():
    found = position_bias(_judge(bias=50))
    assert (found.first_wins.value, found.flipped.value) == (1, 1)


def test_a_share_of_single_pairs_has_wilsons_interval():
    # Newcombe (1998), table I: 81 of 263, and 0 of 20
    found = share(np.repeat([1.0, 0.0], [81, 182]), np.ones(263), np.arange(263))
    assert found[:3] == pytest.approx((0.3080, 0.2553, 0.3662), abs=5e-5)
    assert share(np.zeros(20), np.ones(20), np.arange(20))[:3] == pytest.approx((0, 0, 0.1611), abs=5e-5)


def test_calls_about_one_pair_are_not_independent_answers():
    values = np.repeat([1.0, 0.0, 1.0, 1.0, 0.0], 40)
    together = share(values, np.ones(200), np.repeat(np.arange(50), 4))  # each pair asked 4 times, the same answer
    assert together[:3] == pytest.approx(share(values[::4], np.ones(50), np.arange(50))[:3])
    opposed = share(np.tile([1.0, 0.0], 50), np.ones(100), np.repeat(np.arange(50), 2))
    assert opposed == share(np.tile([1.0, 0.0], 50), np.ones(100), np.arange(100))  # never surer than 100 calls
    values = np.append(np.tile([1.0, 0.0], 49), [1.0, 1.0])
    nearly = share(values, np.ones(100), np.repeat(np.arange(50), 2))
    assert nearly == share(values, np.ones(100), np.arange(100))
    assert nearly == pytest.approx(share(values, np.full(100, 3.0), np.repeat(np.arange(50), 2)))
    assert np.isnan(share(np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)).value)


def test_nineteen_of_twenty_intervals_hold_the_share():
    rng = np.random.default_rng(4)
    held = []
    for _ in range(400):
        pair_p = rng.beta(2, 3, size=60)
        values = (rng.random((60, 3)) < pair_p[:, None]).astype(float).ravel()
        found = share(values, np.ones(180), np.repeat(np.arange(60), 3))
        held.append(found.low <= 0.4 <= found.high)
    assert np.mean(held) == pytest.approx(0.95, abs=0.035)  # 3 binomial sd of 400 draws


def test_several_calls_in_one_order_count_by_majority_and_weights_are_calls():
    calls = Comparisons.from_records([("a", "b", 0.9), ("a", "b", 0.8), ("a", "b", 0.1), ("b", "a", 0.3, 3.0)])
    found = position_bias(calls)
    assert (found.flipped.value, found.n_both_orders) == (0, 1)
    assert found.first_wins.value == pytest.approx(2 / 6)


def test_pooled_contexts_keep_their_texts_apart():
    one, two = (
        Comparisons.from_records([("a", "b", 0.9), ("b", "a", 0.6)]),
        Comparisons.from_records([("b", "a", 0.2, 2.0)]),
    )
    both = pool({"x": one, "y": two})
    assert both.ids == ("x/a", "x/b", "y/b", "y/a")
    assert both.first.tolist() == [0, 1, 2]
    assert both.second.tolist() == [1, 0, 3]
    np.testing.assert_array_equal(both.weights, [1, 1, 2])
    judge, other = Signature.of(model="one"), Signature.of(model="two")
    assert pool({"x": replace(one, signature=judge), "y": replace(two, signature=judge)}).signature == judge
    assert pool({"x": replace(one, signature=judge), "y": replace(two, signature=other)}).signature == Signature.merged(
        [judge, other]
    )
    with pytest.raises(InputError, match="0 contexts"):
        pool({})


# ------------------------------------------------------------------------------------------------- debiasing


@given(SEEDS, st.floats(-4, 4))
@settings(max_examples=40)
def test_after_the_median_shift_the_first_text_wins_half(seed, bias):
    rng = np.random.default_rng(seed)
    judged = _judge(9, bias=bias, noise=1, seed=seed, calls=random_calls(9, int(rng.integers(8, 60)), rng))
    found = median_debiasing(judged)
    after = found.apply(judged)
    assert found.first_wins == pytest.approx(0.5, abs=1e-12)  # no ties here
    assert position_bias(after).first_wins.value == pytest.approx(found.first_wins)
    order = np.argsort(judged.log_odds)
    assert (np.diff(after.log_odds[order]) >= -1e-9).all()  # monotone


def test_ties_at_the_median_are_ties_afterwards_and_the_share_reached_is_told():
    p = np.array([0.3] * 5 + [0.71] * 4 + [0.95] * 2)
    judged = _judged(np.log(p / (1 - p)), all_pairs(4)[:11], 4)
    found = median_debiasing(judged)
    assert found.threshold == pytest.approx(0.71)
    after = found.apply(judged)
    assert (after.decisions == 0.5).sum() == 4
    assert found.first_wins == pytest.approx((4 / 2 + 2) / 11)


def test_a_judge_without_bias_is_left_as_it_is():
    judged = _judge(bias=0, seed=3)
    found = median_debiasing(judged)
    assert found.shift == pytest.approx(0, abs=1e-12)
    assert found.threshold == pytest.approx(0.5)
    np.testing.assert_allclose(found.apply(judged).log_odds, judged.log_odds, atol=1e-9)


@given(SEEDS)
@settings(max_examples=20)
def test_threshold_and_shift_are_one_number(seed):
    judged = _judge(8, bias=1.3, noise=1, seed=seed)
    found = median_debiasing(judged)
    p, tau = judged.probabilities, found.threshold
    alpha = (1 - tau) / tau
    assert tau == pytest.approx(np.median(p), abs=0.02)
    after = found.apply(judged)
    np.testing.assert_allclose(after.probabilities, alpha * p / (alpha * p + 1 - p), rtol=1e-9)
    clear = np.abs(judged.log_odds + found.shift) > 1e-9
    np.testing.assert_array_equal(after.decisions[clear], (p > tau)[clear])


def test_probabilities_that_round_to_one_still_have_a_median():
    odds = np.array([38.0, 39, 40, 41, 42, 43])
    log_probs = np.stack([-np.log1p(np.exp(-odds)), -odds, np.full(6, -np.inf)], axis=1)
    calls = all_pairs(4)[:6]
    judged = Comparisons(tuple("abcd"), calls[:, 0], calls[:, 1], log_probs, np.ones(6))
    assert (judged.probabilities == 1).all()
    found = median_debiasing(judged)
    assert found.shift == pytest.approx(-40.5)
    assert found.first_wins == 0.5


def test_a_weight_counts_as_so_many_calls_in_the_median():
    light = Comparisons.from_records([("a", "b", 0.2), ("b", "c", 0.4), ("c", "a", 0.9, 3.0)])
    heavy = Comparisons.from_records([("a", "b", 0.2), ("b", "c", 0.4), *[("c", "a", 0.9)] * 3])
    for estimate in (median_debiasing, mean_debiasing):
        assert estimate(light).shift == pytest.approx(estimate(heavy).shift)
        assert estimate(light).first_wins == pytest.approx(estimate(heavy).first_wins)


def test_a_threshold_from_the_whole_run_is_applied_to_a_context():
    contexts = {str(seed): _judge(6, bias=1.2, noise=0.5, seed=seed) for seed in range(10)}
    found = median_debiasing(pool(contexts))
    assert found.shift == pytest.approx(-1.2, abs=0.2)
    before, after = (
        position_bias(pool(each)).first_wins
        for each in (contexts, {name: found.apply(each) for name, each in contexts.items()})
    )
    assert before.low > 0.6
    assert after.value == pytest.approx(found.first_wins)


def test_gamma_has_the_sign_and_the_shrinkage_of_the_published_judge():
    rng = np.random.default_rng(0)
    n = 300
    judged = _judge(n, bias=1.2, seed=1, calls=random_calls(n, 20_000, rng), scale=1.0)
    gamma = mean_debiasing(judged)
    assert judged.probabilities.mean() == pytest.approx(0.71, abs=0.02)
    assert gamma.shift == pytest.approx(-0.89, abs=0.08)
    assert gamma.threshold == pytest.approx(judged.probabilities.mean())
    assert median_debiasing(judged).shift == pytest.approx(-1.2, abs=0.08)


@given(SEEDS, st.sampled_from([mean_debiasing, median_debiasing]))
@settings(max_examples=20)
def test_reversing_every_call_turns_the_shift_round(seed, estimate):
    judged = _judge(7, bias=-0.8, noise=1, seed=seed)
    assert estimate(turned(judged)).shift == pytest.approx(-estimate(judged).shift, abs=1e-9)


def test_similar_keeps_its_place_between_the_two():
    log_probs = np.log([[0.6, 0.2, 0.2], [0.5, 0.3, 0.2], [0.45, 0.35, 0.2], [1e-300, 1e-300, 1.0]])
    log_probs[3] = -np.inf, -np.inf, 0
    judged = Comparisons(("a", "b"), np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0]), log_probs, np.ones(4))
    found = median_debiasing(judged)
    assert found.shift == pytest.approx(-np.log(5 / 3))
    after = found.apply(judged)
    np.testing.assert_allclose(after.decisions, [1, 0.5, 0, 0.5])
    assert np.exp(after.log_probs[3, 2]) == 1
    np.testing.assert_allclose(np.exp(after.log_probs).sum(axis=1), 1)


def test_certain_answers_have_no_threshold_and_are_not_shifted():
    hard = _judge(6, bias=0.5, seed=2).hard()
    with pytest.raises(InputError, match=r"30 of 30 answers are certain"):
        median_debiasing(hard)
    found = mean_debiasing(hard)
    assert found.first_wins == pytest.approx(hard.decisions.mean())
    with pytest.raises(InputError, match="position bias out of 30 certain answers"):
        found.apply(hard)
    ties = Comparisons.from_records([("a", "b", 0.5)]).hard()
    with pytest.raises(InputError, match="none of 1 calls prefers"):
        median_debiasing(ties)


def test_a_few_certain_answers_stay_certain():
    judged = Comparisons.from_records(
        [("a", "b", 1.0), ("b", "c", 0.7), ("c", "a", 0.6), ("a", "c", 0.8), ("b", "a", 0.0)]
    )
    found = median_debiasing(judged)
    assert found.threshold == pytest.approx(0.7)
    np.testing.assert_array_equal(found.apply(judged).probabilities[[0, 4]], [1, 0])


def test_all_first_or_none_has_no_gamma():
    for p in (0.0, 1.0):
        with pytest.raises(InputError, match=r"mean probability of 1 calls is \d.0"):
            mean_debiasing(Comparisons.from_records([("a", "b", p)]))
