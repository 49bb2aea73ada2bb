"""Random comparisons: what each way to draw them promises."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papers import designs
from papers.designs import DRAWN, no_repeat, random_calls, symmetric
from synthscore.errors import InputError
from tests.ranking.test_designs import describe, pairs_of

SEEDS = st.integers(0, 2**32 - 1)


def _rng(seed=0):
    return np.random.default_rng(seed)


@given(st.integers(2, 15), st.floats(0, 1), SEEDS, st.sampled_from(["random", "no-repeat", "symmetric"]))
@settings(max_examples=100)
def test_every_design_connects_all_within_its_budget_and_repeats_nothing(n, share, seed, name):
    least = (n - 1) * (2 if name == "symmetric" else 1)
    most = n * (n - 1) // (2 if name == "no-repeat" else 1)
    budget = least + int(share * (most - least))
    budget -= budget % 2 if name == "symmetric" else 0
    calls = DRAWN[name](n, budget, _rng(seed))
    design = describe(n, calls)
    assert calls.shape == (budget, 2)
    assert calls.dtype == np.int64
    assert ((calls >= 0) & (calls < n)).all()
    assert (calls[:, 0] != calls[:, 1]).all()
    assert len(set(map(tuple, calls.tolist()))) == budget
    assert design.log_det > -np.inf  # connected, so every text is covered
    np.testing.assert_array_equal(calls, DRAWN[name](n, budget, _rng(seed)))
    if name == "symmetric":
        np.testing.assert_array_equal(calls[::2], calls[1::2, ::-1])
        assert design.n_pairs == design.n_both_orders == budget // 2
    if name == "no-repeat":
        assert design.n_pairs == budget


@pytest.mark.parametrize(
    ("draw", "budget", "says"),
    [
        (random_calls, 8, r"8 calls for 10 candidates: expected 9 .* to 90"),
        (random_calls, 91, "expected 9 .* to 90"),
        (no_repeat, 46, "expected 9 .* to 45"),
        (symmetric, 16, "expected 18 .* to 90, both orders counted"),
        (symmetric, 19, "even number. Take 18 or 20"),
        (symmetric, 92, "to 90"),
    ],
)
def test_an_impossible_budget_is_refused_with_the_numbers(draw, budget, says):
    with pytest.raises(InputError, match=says) as caught:
        draw(10, budget, _rng())
    assert caught.value.value == budget


def test_two_candidates_are_one_pair_and_one_is_none():
    assert len(random_calls(2, 1, _rng())) == 1
    with pytest.raises(InputError, match="1 candidates, expected at least 2"):
        random_calls(1, 0, _rng())


@pytest.mark.slow
def test_random_calls_are_uniform_among_the_connected_ones():
    counts: dict[frozenset[tuple[int, int]], int] = {}
    rng = _rng(5)
    for _ in range(6000):
        calls = frozenset(map(tuple, random_calls(3, 3, rng).tolist()))
        counts[calls] = counts.get(calls, 0) + 1
    # 20 sets of 3 of the 6 calls; none has fewer than two different pairs
    assert len(counts) == 20
    assert min(counts.values()) > 300 - 6 * 17  # binomial sd 16.9


def test_which_text_is_first_is_a_coin_flip():
    calls = np.concatenate([no_repeat(12, 40, _rng(seed)) for seed in range(100)])
    assert (calls[:, 0] < calls[:, 1]).mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(4000))


@pytest.mark.parametrize(("draw", "budget"), [(random_calls, 1000), (no_repeat, 999), (symmetric, 2000)])
def test_a_budget_too_small_to_connect_by_chance_starts_from_a_tree(draw, budget):
    calls = draw(1000, budget, _rng(2))
    assert describe(1000, calls).log_det > -1e-6
    assert len(set(map(tuple, calls.tolist()))) == budget


def test_the_tree_is_uniform_among_all_trees():
    counts: dict[frozenset[frozenset[int]], int] = {}
    rng = _rng(1)
    for _ in range(3200):
        tree = frozenset(pairs_of(designs._random_tree(4, rng)))
        counts[tree] = counts.get(tree, 0) + 1
    assert len(counts) == 16  # Cayley: 4^2
    assert min(counts.values()) > 200 - 6 * 14


def test_the_rest_after_a_tree_repeats_none_of_it(monkeypatch):
    monkeypatch.setattr(designs, "_DRAWS", 0)
    for n in (2, 3, 4, 5, 6, 9):
        pairs = n * (n - 1) // 2
        assert pairs_of(no_repeat(n, pairs, _rng(n))) == set(map(frozenset, combinations(range(n), 2)))
        assert len(set(map(tuple, random_calls(n, 2 * pairs, _rng(n)).tolist()))) == 2 * pairs
        assert len(pairs_of(no_repeat(n, n - 1, _rng(n)))) == n - 1
        assert describe(n, random_calls(n, n - 1, _rng(n))).log_det == pytest.approx(0, abs=1e-9)
