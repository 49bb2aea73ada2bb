"""The paper's sum, the rung scale, the mean of both orders, and sampling from stored probabilities."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from synthscore.errors import InputError
from synthscore.scoring.paper import paper_bound, paper_sum, rung_equivalent, sample_verdicts


@st.composite
def verdicts(draw, n_rungs=None, n_targets=None):
    """Better, worse, similar: shape (3, n_targets, n_rungs), positive, summing to 1."""
    shape = (3, n_targets or draw(st.integers(1, 4)), n_rungs or draw(st.integers(2, 17)))
    weights = draw(hnp.arrays(np.float64, shape, elements=st.floats(1e-6, 1)))
    return weights / weights.sum(axis=0)


def ideal(quality, n_rungs):
    """What an ideal judge says of a text exactly as good as rung `quality`."""
    rungs = np.arange(1, n_rungs + 1)
    return (rungs < quality)[None].astype(float), (rungs > quality)[None].astype(float)


def test_a_worked_example():
    better, worse = [[0.9, 0.7, 0.4, 0.2, 0.1]], [[0.05, 0.2, 0.4, 0.7, 0.8]]
    # 1 * .85 + 2 * .5 + 3 * 0 + 4 * -.5 + 5 * -.7
    assert paper_sum(better, worse) == pytest.approx([-3.65])
    assert rung_equivalent([-3.65], 5) == pytest.approx([np.sqrt(11.35)])
    assert paper_bound(5) == 15


@pytest.mark.parametrize("n_rungs", [2, 3, 5, 9])
def test_an_ideal_judge_gives_a_rung_its_own_number(n_rungs):
    for quality in range(1, n_rungs + 1):
        raw = paper_sum(*ideal(quality, n_rungs))
        assert raw == pytest.approx([quality**2 - n_rungs * (n_rungs + 1) / 2])
        assert rung_equivalent(raw, n_rungs) == pytest.approx([quality])


@pytest.mark.parametrize(("n_rungs", "bound"), [(2, 3), (3, 6), (5, 15), (9, 45)])
def test_the_bound_is_met_only_by_all_better_or_all_worse(n_rungs, bound):
    ones, zeros = np.ones((1, n_rungs)), np.zeros((1, n_rungs))
    assert paper_bound(n_rungs) == bound
    assert paper_sum(ones, zeros) == [bound]
    assert paper_sum(zeros, ones) == [-bound]
    assert rung_equivalent([-bound, bound], n_rungs) == pytest.approx([0, np.sqrt(n_rungs * (n_rungs + 1))])
    nearly = ones.copy()
    nearly[0, 0] = 0.99
    assert paper_sum(nearly, zeros)[0] < bound


@given(verdicts())
def test_the_sum_stays_within_its_bound_and_turns_with_the_verdicts(p):
    better, worse, _ = p
    raw = paper_sum(better, worse)
    assert (np.abs(raw) <= paper_bound(better.shape[1])).all()
    np.testing.assert_allclose(paper_sum(worse, better), -raw, atol=1e-12)


@given(verdicts(), st.data())
def test_the_sum_rises_with_each_probability_of_better(p, data):
    better, worse, similar = p
    rung = data.draw(st.integers(0, better.shape[1] - 1))
    more = better.copy()
    more[:, rung] += similar[:, rung]  # what was called similar is now called better
    assert (paper_sum(more, worse) > paper_sum(better, worse)).all()


@given(verdicts())
def test_equal_probabilities_score_zero(p):
    np.testing.assert_allclose(paper_sum(p[0], p[0]), 0, atol=1e-12)


@given(st.integers(2, 17), st.lists(st.floats(-1, 1), min_size=2, max_size=20))
def test_the_rung_scale_keeps_the_order_and_can_be_undone(n_rungs, units):
    raw = np.array(units) * paper_bound(n_rungs)
    rungs = rung_equivalent(raw, n_rungs)
    np.testing.assert_allclose(rungs**2 - paper_bound(n_rungs), raw, atol=1e-9)
    np.testing.assert_array_equal(rungs[np.argsort(raw, kind="stable")], np.sort(rungs))


def test_without_all_verdicts_there_is_no_sum():
    better, worse = np.array([[1.0, np.nan, 1.0], [1.0] * 3]), np.array([[0.0, np.nan, 0.0], [0.0] * 3])
    raw = paper_sum(better, worse)
    assert np.isnan(raw[0])  # 4 would count the second rung as a tie
    assert raw[1] == 6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: paper_sum([[1.2]], [[0.0]]), "outside"),
        (lambda: paper_sum([[0.5, 0.5]], [[0.5]]), "expected one"),
        (lambda: paper_sum([0.5], [0.5]), "n_targets"),
        (lambda: rung_equivalent([15.1], 5), "outside"),
    ],
)
def test_wrong_shapes_and_values_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


@given(verdicts(n_targets=1, n_rungs=5), st.integers(1, 30), st.integers(0, 2**32))
def test_draws_are_multiples_of_one_nth_and_sum_to_one(p, n, seed):
    drawn = sample_verdicts(np.moveaxis(p, 0, -1), n, np.random.default_rng(seed))
    np.testing.assert_allclose(drawn.sum(axis=-1), 1)
    np.testing.assert_allclose(drawn * n, np.round(drawn * n), atol=1e-9)


def test_draws_are_unbiased_spread_as_one_over_root_n_and_exact_in_the_limit():
    rng = np.random.default_rng(0)
    probs = np.array([0.5, 0.3, 0.2])
    spread = {}
    for n in (4, 64):
        drawn = sample_verdicts(np.tile(probs, (40_000, 1)), n, rng)[:, 0]
        spread[n] = drawn.std()
        assert drawn.mean() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(40_000 * n))  # five standard errors
        assert spread[n] == pytest.approx(np.sqrt(0.25 / n), rel=0.03)
    assert spread[4] / spread[64] == pytest.approx(4, rel=0.05)
    assert sample_verdicts(probs[None], 10**9, rng)[0] == pytest.approx(probs, abs=1e-4)


def test_a_pair_without_a_verdict_stays_without_one_when_sampled():
    drawn = sample_verdicts([[0.5, 0.5, 0.0], [np.nan] * 3], 3, np.random.default_rng(0))
    assert np.isnan(drawn[1]).all()
    assert not np.isnan(drawn[0]).any()
