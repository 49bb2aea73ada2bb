import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.errors import InputError
from synthscore.ranking.comparisons import Comparisons, add_up
from synthscore.ranking.result import Ranking
from tests.factories import turned


@st.composite
def comparisons(draw, low=0.01, both_labels=False):
    n = draw(st.integers(2, 6))
    k = draw(st.integers(1, 20))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    first = rng.integers(0, n, k)
    second = (first + rng.integers(1, n, k)) % n
    weights = rng.integers(1, 4, k).astype(float)
    if both_labels:
        return Comparisons.from_probabilities(list("abcdef"[:n]), first, second, rng.uniform(low, 1 - low, k), weights)
    log_probs = np.log(rng.dirichlet(np.ones(3), k))
    return Comparisons(tuple("abcdef"[:n]), first, second, log_probs, weights)


def sums_by_hand(c, ordered):
    sums = {}
    for first, second, row, weight in zip(c.first, c.second, c.log_probs, c.weights, strict=True):
        win, lose, tie = weight * np.exp(row)
        key = (int(first), int(second))
        if not ordered and first > second:
            key, win, lose = key[::-1], lose, win
        sums[key] = sums.get(key, np.zeros(3)) + np.array([win, lose, tie])
    return dict(sorted(sums.items()))


@settings(max_examples=50)
@given(comparisons(), st.booleans())
def test_pairs_are_what_a_loop_over_the_calls_adds_up(c, ordered):
    pairs, expected = c.pairs(ordered=ordered), sums_by_hand(c, ordered)
    assert list(zip(pairs.i.tolist(), pairs.j.tolist(), strict=True)) == list(expected)
    np.testing.assert_allclose(
        np.stack([pairs.wins, pairs.losses, pairs.ties], -1), list(expected.values()), rtol=1e-13
    )
    np.testing.assert_allclose(pairs.games.sum(), c.weights.sum())


def test_pairs_of_no_calls_are_none():
    assert [len(column) for column in Comparisons.from_records([], ids=["a", "b"]).pairs()] == [0] * 5


def test_adding_up_sorts_and_keeps_what_is_there_once():
    i, j, (total,) = add_up(np.array([2, 0, 2, 0]), np.array([0, 1, 0, 2]), 3, [np.array([1.0, 2.0, 3.0, 4.0])])
    assert (i.tolist(), j.tolist(), total.tolist()) == ([0, 0, 2], [1, 2, 0], [2.0, 4.0, 4.0])


def test_candidates_are_those_met_first_unless_they_are_named():
    records = [("b", "a", 0.7), ("a", "c", 0.2, 3.0)]
    met, named = Comparisons.from_records(records), Comparisons.from_records(records, ids=["a", "b", "c", "d"])
    assert met.ids == ("b", "a", "c")
    assert met.first.tolist() == [0, 1]
    assert named.second.tolist() == [0, 2]
    assert named.n_candidates == 4
    assert met.weights.tolist() == [1.0, 3.0]
    np.testing.assert_allclose(met.probabilities, [0.7, 0.2])


@given(st.floats(0, 1))
def test_probability_and_log_odds_are_of_the_text_shown_first(p):
    c = Comparisons.from_records([("a", "b", p)])
    assert c.probabilities[0] == pytest.approx(p, abs=1e-15)
    with np.errstate(divide="ignore"):
        assert c.log_odds[0] == pytest.approx(np.log(p) - np.log1p(-p), abs=1e-9)


def test_log_odds_are_exact_where_the_probability_rounds_to_1():
    c = Comparisons(("a", "b"), np.array([0]), np.array([1]), np.array([[-np.exp(-50.0), -50.0, -np.inf]]), np.ones(1))
    assert c.probabilities[0] == 1.0
    assert c.log_odds[0] == pytest.approx(50.0)


def test_half_of_what_is_similar_counts_for_each():
    c = Comparisons(("a", "b"), np.array([0]), np.array([1]), np.log([[0.5, 0.2, 0.3]]), np.ones(1))
    assert c.probabilities[0] == pytest.approx(0.65)


def test_a_decision_is_the_text_that_is_ahead_and_rounding_is_no_lead():
    log_probs = np.log(np.array([[0.3, 0.2, 0.5], [0.1, 0.9, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]) + 1e-300)
    log_probs[log_probs < -600] = -np.inf
    c = Comparisons(("a", "b"), np.zeros(4, dtype=int), np.ones(4, dtype=int), log_probs, np.ones(4))
    assert c.decisions.tolist() == [1.0, 0.0, 0.5, 0.5]
    hard = c.hard()
    assert np.exp(hard.log_probs).tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1]]
    nearly_even = np.array([[np.log(0.5) + 1e-14, np.log(0.5), -np.inf]])
    assert Comparisons(("a", "b"), np.array([0]), np.array([1]), nearly_even, np.ones(1)).decisions.tolist() == [0.5]
    for p in np.linspace(0.01, 0.99, 50):
        both_orders = Comparisons.from_records([("a", "b", p), ("b", "a", p)])
        assert both_orders.averaged().decisions.tolist() == [0.5]


@settings(max_examples=30)
@given(comparisons(both_labels=True), st.floats(-3, 3))
def test_a_shift_adds_to_the_log_odds_and_back_again_is_nothing(c, shift):
    np.testing.assert_allclose(c.shifted(shift).log_odds, c.log_odds + shift, atol=1e-9)
    np.testing.assert_allclose(c.shifted(shift).shifted(-shift).log_probs, c.log_probs, atol=1e-9)


@settings(max_examples=30)
@given(comparisons())
def test_a_shift_keeps_probabilities_normalised_and_certain_answers_certain(c):
    np.testing.assert_allclose(np.exp(c.shifted(1.5).log_probs).sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(c.hard().shifted(1.5).decisions, c.decisions)


@settings(max_examples=30)
@given(comparisons())
def test_reversing_all_calls_changes_no_pair(c):
    for ours, theirs in zip(c.pairs(), turned(c).pairs(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-13)
    np.testing.assert_allclose(turned(c).probabilities, 1 - c.probabilities, atol=1e-12)


@settings(max_examples=30)
@given(comparisons())
def test_averaging_keeps_the_sums_of_every_pair(c):
    averaged = c.averaged()
    assert (averaged.first < averaged.second).all()
    assert len(averaged) == len(c.pairs().i)
    for ours, theirs in zip(c.pairs(), averaged.pairs(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_a_subset_is_chosen_by_mask_or_by_index():
    c = Comparisons.from_records([("a", "b", 0.1, 1.0), ("b", "c", 0.2, 2.0), ("c", "a", 0.3, 3.0)])
    for chosen in (c.subset([True, False, True]), c.subset([0, 2])):
        assert chosen.ids == c.ids
        assert chosen.weights.tolist() == [1.0, 3.0]
        assert chosen.second.tolist() == [1, 0]
        np.testing.assert_allclose(chosen.probabilities, [0.1, 0.3])
    assert len(c.subset([])) == 0


@pytest.mark.parametrize(
    ("records", "row", "words"),
    [
        ([("a", "b", 0.5), ("a", "b", 1.5)], 2, "probability 1.5"),
        ([("a", "b", float("nan"))], 1, "probability nan"),
        ([("a", "b", 0.5), ("b", "b", 0.5)], 2, "compared with itself"),
        ([("a", "b", 0.5, 0.0)], 1, "weight"),
        ([("a", "b", 0.5, float("inf"))], 1, "weight"),
        ([("a", "b", 0.5, float("nan"))], 1, "weight"),
        ([("a", "b", 0.5), ("a", "b")], 2, "expected"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(records, row, words):
    with pytest.raises(InputError, match=words) as caught:
        Comparisons.from_records(records, ids=["a", "b"])
    assert caught.value.row == row


def test_an_unknown_candidate_is_named_with_its_row():
    with pytest.raises(
        InputError, match=r"comparison 2 is \('a', 'z', 0.5\), expected .* of the 2 candidates 'a', 'b'"
    ) as caught:
        Comparisons.from_records([("a", "b", 0.5), ("a", "z", 0.5)], ids=["a", "b"])
    assert (caught.value.row, caught.value.value) == (2, ("a", "z", 0.5))


def test_an_index_that_is_no_candidate_is_named_with_its_row():
    for first, second in ((0, 2), (-1, 1)):
        with pytest.raises(InputError, match=r"index outside 0\.\.1") as caught:
            Comparisons.from_probabilities(["a", "b"], [0, first], [1, second], [0.5, 0.5])
        assert caught.value.row == 2


def test_a_place_between_two_candidates_is_not_rounded():
    with pytest.raises(InputError, match="whole numbers"):
        Comparisons.from_probabilities(["a", "b"], [0.5], [1], [0.5])
    with pytest.raises(InputError, match="whole numbers"):
        Comparisons(("a", "b"), np.array([0.0]), np.array([1.0]), np.log([[0.4, 0.6, 1e-300]]), np.ones(1))


@pytest.mark.parametrize("log_probs", [[0.0, 0.0, -np.inf], [-1.0, -1.0, -1.0], [np.nan, 0.0, -np.inf]])
def test_probabilities_sum_to_1(log_probs):
    with pytest.raises(InputError, match="sum to 1") as caught:
        Comparisons(("a", "b"), np.array([0]), np.array([1]), np.array([log_probs]), np.ones(1))
    assert caught.value.row == 1


def test_shapes_that_do_not_fit_are_told():
    with pytest.raises(InputError, match=r"\(K, 3\)"):
        Comparisons(("a", "b"), np.array([0]), np.array([1]), np.zeros((1, 2)), np.ones(1))
    with pytest.raises(InputError, match=r"float64 \(2,\), expected"):
        Comparisons.from_probabilities(["a", "b"], [0], [1], [0.5], [1.0, 2.0])


def test_two_candidates_are_the_least_and_names_differ():
    with pytest.raises(InputError, match="1 candidate, expected at least 2"):
        Comparisons.from_records([], ids=["a"])
    with pytest.raises(InputError, match="0 candidates"):
        Comparisons.from_records([])
    with pytest.raises(InputError, match="'a' is named twice"):
        Comparisons.from_records([], ids=["a", "b", "a"])


def ranking(scores):
    n = len(scores)
    return Ranking(tuple(map(str, range(n))), np.array(scores, dtype=float), np.zeros(n), "test")


def test_rank_1_is_best_equals_share_the_better_rank_and_unscored_have_none():
    r = ranking([0.1, np.nan, 0.3, 0.3 - 1e-12, -1.0])
    assert r.ranks.tolist() == [3, 0, 1, 1, 4]
    assert r.order.tolist() == [2, 3, 0, 4, 1]
