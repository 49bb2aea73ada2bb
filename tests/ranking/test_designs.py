"""Which pairs are asked: what each design promises, and the greedy search against another way to it."""

from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.csgraph import connected_components

from synthscore.errors import InputError
from synthscore.ranking import designs as selection
from synthscore.ranking.designs import Selection, all_pairs, greedy

laplacian = selection._laplacian
SEEDS = st.integers(0, 2**32 - 1)


class Design(NamedTuple):
    """What a set of calls amounts to.

    n_pairs : pairs that are asked at all. n_both_orders : of these, in both orders
    min_degree, max_degree : over candidates, how many different others each is compared with
    log_det : log of the number of spanning trees of the graph that has an edge a call; what `greedy` makes large.
        -inf where the calls do not connect all candidates.
    """

    n_calls: int
    n_pairs: int
    n_both_orders: int
    min_degree: int
    max_degree: int
    log_det: float


def describe(n, calls):
    """Counts and log-determinant of calls among n candidates; time grows with n cubed."""
    directed = np.unique(calls[:, 0] * np.int64(n) + calls[:, 1])
    low, high = np.sort(np.stack(np.divmod(directed, np.int64(n))), axis=0)
    edges, asked = np.unique(low * np.int64(n) + high, return_counts=True)
    degree = np.bincount(np.concatenate(np.divmod(edges, np.int64(n))), minlength=n)
    log_det = -np.inf
    if connected_components(laplacian(n, calls), directed=False)[0] == 1:
        log_det = float(np.linalg.slogdet(laplacian(n, calls) + 1 / n)[1] - np.log(n))
    return Design(len(calls), len(edges), int((asked == 2).sum()), int(degree.min()), int(degree.max()), log_det)


def _rng(seed=0):
    return np.random.default_rng(seed)


def pairs_of(calls):
    return {frozenset(call) for call in calls.tolist()}


# ------------------------------------------------------------------------------------------------- promises


@pytest.mark.parametrize("orders", ["both", "one"])
def test_a_selection_asks_about_all_pairs_or_as_many_as_the_budget_has_up_to_all_calls(orders):
    both = orders == "both"
    np.testing.assert_array_equal(Selection(orders=orders).calls(5, _rng()), all_pairs(5, both_orders=both))
    for budget, asked in ((8, 8), (20, 20), (22, 20)):
        calls = Selection(budget, orders).calls(5, _rng(3))
        np.testing.assert_array_equal(calls, greedy(5, asked, _rng(3), both_orders=both))
    with pytest.raises(InputError, match="cannot choose 2 calls"):
        Selection(2, orders).calls(5, _rng())


@given(st.integers(2, 15))
def test_all_pairs_are_all_pairs_and_no_text_is_first_more_often_than_it_must(n):
    both = all_pairs(n)
    assert sorted(map(tuple, both.tolist())) == [(i, j) for i in range(n) for j in range(n) if i != j]
    one = all_pairs(n, both_orders=False)
    assert len(one) == n * (n - 1) // 2
    assert pairs_of(one) == set(map(frozenset, combinations(range(n), 2)))
    assert np.ptp(np.bincount(one[:, 0], minlength=n)) <= 1 - n % 2


@given(st.integers(2, 15), st.floats(0, 1), SEEDS, st.booleans())
@settings(max_examples=100)
def test_greedy_calls_connect_all_within_their_budget_and_repeat_nothing(n, share, seed, both):
    least, most = (n - 1) * (1 + both), n * (n - 1)
    budget = least + int(share * (most - least))
    budget -= budget % 2 if both else 0
    calls = greedy(n, budget, _rng(seed), both_orders=both)
    design = describe(n, calls)
    assert calls.shape == (budget, 2)
    assert calls.dtype == np.int64
    assert ((calls >= 0) & (calls < n)).all()
    assert (calls[:, 0] != calls[:, 1]).all()
    assert len(set(map(tuple, calls.tolist()))) == budget
    assert design.log_det > -np.inf  # connected, so every text is covered
    assert design.min_degree >= 1
    np.testing.assert_array_equal(calls, greedy(n, budget, _rng(seed), both_orders=both))
    if both:
        np.testing.assert_array_equal(calls[::2], calls[1::2, ::-1])
        assert design.n_pairs == design.n_both_orders == budget // 2
    else:
        assert design.n_pairs == min(budget, n * (n - 1) // 2)


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        (16, r"16 calls for 10 candidates: expected 18 .* to 90, both orders counted"),
        (21, "even number. Take 20 or 22"),
        (92, "to 90"),
    ],
)
def test_an_impossible_budget_is_refused_with_the_numbers(budget, says):
    with pytest.raises(InputError, match=says) as caught:
        greedy(10, budget, _rng())
    assert caught.value.value == budget


def test_one_candidate_cannot_be_compared():
    for call in (lambda: all_pairs(1), lambda: greedy(1, 0, _rng())):
        with pytest.raises(InputError, match="1 candidates, expected at least 2"):
            call()


def test_two_candidates_are_one_pair():
    assert all_pairs(2, both_orders=False).tolist() == [[0, 1]]
    assert sorted(greedy(2, 2, _rng()).tolist()) == [[0, 1], [1, 0]]


def test_which_text_is_first_is_a_coin_flip():
    calls = np.concatenate([greedy(12, 40, _rng(seed), both_orders=False) for seed in range(100)])
    assert (calls[:, 0] < calls[:, 1]).mean() == pytest.approx(0.5, abs=4 * 0.5 / np.sqrt(4000))


def test_the_number_of_spanning_trees_is_counted():
    ring = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])
    assert np.exp(describe(4, ring).log_det) == pytest.approx(4)
    twice = np.concatenate([ring, ring[:, ::-1]])
    assert np.exp(describe(4, twice).log_det) == pytest.approx(4 * 2**3)
    assert describe(4, twice)[:5] == (8, 4, 4, 2, 2)
    assert describe(4, ring[:2])[3:] == (0, 2, -np.inf)
    assert np.exp(describe(5, all_pairs(5, both_orders=False)).log_det) == pytest.approx(5**3)


# ------------------------------------------------------------------------------------------------- greedy


def _plain_greedy(n, n_pairs):
    """The same rule by Sherman-Morrison on the inverse, a search over all pairs for each pick."""
    pairs = [(i, i + 1) for i in range(n - 1)]
    place = np.arange(1, n)
    inverse = np.pad(np.minimum.outer(place, place).astype(float), ((1, 0), (1, 0)))  # candidate 0 pinned at 0
    i, j = np.triu_indices(n, 1)
    left = (j - i > 1).astype(int)
    while len(pairs) < n_pairs:
        gain = np.where(left > 0, inverse[i, i] + inverse[j, j] - 2 * inverse[i, j], -np.inf)
        best = int(np.argmax(gain >= gain.max() * (1 - 1e-9)))
        column = inverse[:, i[best]] - inverse[:, j[best]]
        inverse -= np.outer(column, column) / (1 + gain[best])
        left[best] -= 1
        if not left.any():
            left += 1
        pairs.append((int(i[best]), int(j[best])))
    return np.array(pairs)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 13, 16, 20])
def test_greedy_picks_exactly_what_a_search_over_all_pairs_picks(n):
    n_pairs = n * (n - 1)  # every pair twice
    np.testing.assert_array_equal(selection._greedy_pairs(n, n_pairs), _plain_greedy(n, n_pairs))


def test_greedy_is_as_good_as_a_search_on_the_inverse_over_many_picks():
    n, n_pairs = 150, 1500
    fast, plain = selection._greedy_pairs(n, n_pairs), _plain_greedy(n, n_pairs)
    np.testing.assert_array_equal(fast, plain)
    assert describe(n, fast).log_det == pytest.approx(describe(n, plain).log_det, abs=1e-6)


def test_resistances_are_brought_up_to_date_without_drift():
    n = 60
    pairs = selection._greedy_pairs(n, 600)
    start = pairs[: n - 1]
    resistance = np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float)
    spare = np.triu(np.ones((n, n), dtype=np.int64), 2)
    picks = selection._most_informative(resistance, spare, 600 - (n - 1))
    np.testing.assert_array_equal(np.concatenate([start, picks]), pairs)
    direct = selection._resistance(selection._laplacian(n, pairs) + 1 / n)
    np.testing.assert_allclose(resistance, direct, atol=1e-12)
    assert spare.sum() == n * (n - 1) // 2 - 600


def test_resistances_are_computed_anew_when_the_number_of_pairs_has_doubled(monkeypatch):
    numbers = []
    monkeypatch.setattr(selection, "_laplacian", lambda n, pairs: numbers.append(len(pairs)) or laplacian(n, pairs))
    selection._greedy_pairs(20, 170)
    assert numbers == [38, 76, 152]


def test_sixteen_texts_and_24_pairs_give_the_published_regular_design():
    calls = greedy(16, 48, _rng(3))
    assert describe(16, calls[::2])[3:5] == (3, 3)
    assert describe(16, calls[::2]).log_det == pytest.approx(12.39, abs=0.005)
    every = all_pairs(16, both_orders=False)
    drawn = [describe(16, _rng(seed).permutation(every)[:24]).log_det for seed in range(200)]
    assert max(drawn) < 12.39
    assert np.median(drawn) < 11


def test_the_start_of_a_greedy_design_is_the_design_for_that_budget():
    np.testing.assert_array_equal(greedy(9, 50, _rng(7))[:30], greedy(9, 30, _rng(7)))


def test_greedy_draws_differ_by_which_text_is_which():
    assert len({tuple(sorted(map(tuple, greedy(8, 24, _rng(seed)).tolist()))) for seed in range(20)}) > 15
    assert len({round(describe(8, greedy(8, 24, _rng(seed))).log_det, 9) for seed in range(20)}) == 1


def test_a_pair_that_comes_again_is_asked_in_the_other_order():
    calls = greedy(7, 42, _rng(4), both_orders=False)
    assert len(pairs_of(calls[:21])) == 21
    assert len(set(map(tuple, calls.tolist()))) == 42
    some = greedy(7, 25, _rng(4), both_orders=False)
    assert describe(7, some)[1:3] == (21, 4)
