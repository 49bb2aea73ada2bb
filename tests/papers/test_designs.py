"""Random comparisons: what each way to draw them promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papers.designs import connecting, symmetric, thinned
from synthscore.errors import InputError
from synthscore.ranking import Comparisons, designs
from tests.ranking.test_designs import describe

SEEDS = st.integers(0, 2**32 - 1)


@given(st.integers(2, 15), st.floats(0, 1), SEEDS)
@settings(max_examples=100)
def test_a_draw_connects_all_within_its_budget_and_repeats_nothing(n, share, seed):
    least, most = 2 * (n - 1), n * (n - 1)
    budget = least + int(share * (most - least))
    budget -= budget % 2
    calls = symmetric(n, budget, np.random.default_rng(seed))
    design = describe(n, calls)
    assert calls.shape == (budget, 2)
    assert calls.dtype == np.int64
    assert ((calls >= 0) & (calls < n)).all()
    assert (calls[:, 0] != calls[:, 1]).all()
    assert len(set(map(tuple, calls.tolist()))) == budget
    assert design.log_det > -np.inf  # connected, so every text is covered
    assert design.n_pairs == design.n_both_orders == budget // 2
    np.testing.assert_array_equal(calls[::2], calls[1::2, ::-1])
    np.testing.assert_array_equal(calls, symmetric(n, budget, np.random.default_rng(seed)))


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        (16, "expected 18 .* to 90, both orders counted"),
        (19, "even number. Take 18 or 20"),
        (92, "to 90"),
    ],
)
def test_an_impossible_budget_is_refused_with_the_numbers(budget, says):
    with pytest.raises(InputError, match=says) as caught:
        symmetric(10, budget, np.random.default_rng(0))
    assert caught.value.value == budget


def test_two_candidates_are_one_pair_and_one_is_none():
    assert len(symmetric(2, 2, np.random.default_rng(0))) == 2
    with pytest.raises(InputError, match="1 candidates, expected at least 2"):
        symmetric(1, 0, np.random.default_rng(0))


def test_a_draw_that_connects_all_is_left_as_it_is():
    calls = symmetric(40, 1000, np.random.default_rng(3))
    drawn = np.random.default_rng(3).choice(40 * 39 // 2, 500, replace=False)
    expected = designs.in_both_orders(designs.numbered_calls(40, drawn))
    assert set(map(tuple, calls.tolist())) == set(map(tuple, expected.tolist()))


def test_a_budget_too_small_to_connect_by_chance_is_a_tree():
    calls = symmetric(1000, 2 * 999, np.random.default_rng(2))
    assert describe(1000, calls).log_det > -1e-6
    assert len(set(map(tuple, calls.tolist()))) == 2 * 999


# ------------------------------------------------------------------------------------------------- from a full set


def full(n):
    calls = designs.all_pairs(n)
    return Comparisons.from_probabilities([str(k) for k in range(n)], calls[:, 0], calls[:, 1], [0.5] * len(calls))


@settings(max_examples=30)
@given(st.integers(4, 9), st.integers(2, 3), st.integers(0, 999))
def test_some_calls_are_pairs_in_both_orders_that_connect_all_texts(n, per_text, seed):
    calls = full(n)
    used = calls.subset(thinned(calls, f"{per_text}N", "symmetric", np.random.default_rng(seed)))
    directed = set(zip(used.first.tolist(), used.second.tolist(), strict=True))
    assert len(directed) == len(used) == per_text * n + per_text * n % 2
    assert {(j, i) for i, j in directed} == directed
    reached = {0}
    for _ in range(n):
        reached |= {j for i, j in directed if i in reached}
    assert len(reached) == n


@settings(max_examples=30)
@given(st.integers(3, 7), st.integers(0, 999))
def test_pairs_that_connect_all_texts_anyway_are_a_uniform_draw(n, seed):
    i, j = np.triu_indices(n, 1)
    n_pairs = len(i) - 1  # all pairs but one connect all
    order = np.random.default_rng(seed).permutation(len(i))
    chosen = connecting(n, i[order], j[order], n_pairs)
    assert set(chosen.tolist()) == set(range(n_pairs))


def test_greedy_calls_are_those_of_the_design():
    calls = full(8)
    used = calls.subset(thinned(calls, "3N", "greedy", np.random.default_rng(5)))
    design = designs.greedy(8, 24, np.random.default_rng(5))
    assert set(zip(used.first.tolist(), used.second.tolist(), strict=True)) == set(map(tuple, design.tolist()))


def test_pairs_with_an_answer_in_one_order_are_not_drawn():
    calls = full(5)
    missing = (calls.first == 0) & (calls.second == 1)
    known = calls.subset(~missing)
    used = known.subset(thinned(known, "3N", "symmetric", np.random.default_rng(0)))
    assert (1, 0) not in set(zip(used.first.tolist(), used.second.tolist(), strict=True))
    with pytest.raises(InputError, match="greedy: that needs 20, and there are answers to 18"):
        thinned(known, "2N", "greedy", np.random.default_rng(0))
