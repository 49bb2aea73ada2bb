"""The mean of several judges with equal weights: its error, and who has a vote."""

import numpy as np
import pytest

from synthscore.scoring.votes import find_alike, mean_of_votes, share_votes

N = 20_000


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def off_by(errors, variance=0.0):
    """How far the mean of judges with these errors is from the truth, and how far it says to be; rms."""
    mean, stderr = mean_of_votes(errors, np.full(errors.shape, variance))
    return np.sqrt((mean**2).mean()), np.sqrt((stderr**2).mean())


def test_the_errors_of_judges_who_share_nothing_are_divided_by_their_number(rng):
    true, said = off_by(0.5 * rng.normal(size=(4, N)))
    assert said == pytest.approx(true, rel=0.03)
    true, said = off_by(0.5 * rng.normal(size=(4, N)), 0.25)  # the judges know of it
    assert said == pytest.approx(true, rel=0.03)


@pytest.mark.parametrize("shared", [0.3, 0.8, 1.0])
def test_an_error_that_two_of_three_judges_share_is_not_divided_by_two(rng, shared):
    own, common = rng.normal(size=(3, N)), rng.normal(size=N)
    own[:2] = np.sqrt(1 - shared) * own[:2] + np.sqrt(shared) * common
    true, said = off_by(own)
    assert said == pytest.approx(true, rel=0.03)
    assert said > 1.04 * off_by(rng.normal(size=(3, N)))[1]


def test_an_error_that_all_judges_share_stays_as_large_as_each_of_them_knows_it_to_be(rng):
    common = 0.5 * rng.normal(size=N)
    true, said = off_by(np.stack([common, common]), 0.25)
    assert said == pytest.approx(0.5)
    assert said == pytest.approx(true, rel=0.03)


def test_judges_who_err_differently_are_never_taken_for_better_than_they_are(rng):
    for sds in ([0.1, 0.1, 1.0], [0.1, 1.0, 1.0], [0.2, 0.5]):
        true, said = off_by(np.array(sds)[:, None] * rng.normal(size=(len(sds), N)))
        assert true * 0.97 < said < 2 * true


def test_a_text_of_fewer_judges_has_the_larger_error_and_one_of_none_has_no_score(rng):
    values = 0.5 * rng.normal(size=(3, N))
    values[0, :2], values[1, 0], values[:, 5] = np.nan, np.nan, np.nan
    mean, stderr = mean_of_votes(values, np.full(values.shape, 0.01))
    assert stderr[0] > stderr[1] > stderr[2] > 0
    assert mean[0] == values[2, 0]
    assert mean[1] == pytest.approx(values[1:, 1].mean())
    assert np.isnan([mean[5], stderr[5]]).all()


def answers(rng, truth, noise):
    d = {(i, j): truth[i] - truth[j] for i in range(len(truth)) for j in range(i)}
    return {pair: float(odds + noise * rng.normal()) for pair, odds in d.items()}


def test_judges_who_agree_because_they_are_right_do_not_err_alike(rng):
    truth = 0.5 * rng.normal(size=25)
    one, other = answers(rng, truth, 0.1), answers(rng, truth, 0.1)
    assert np.corrcoef(list(one.values()), list(other.values()))[0, 1] > 0.95
    alike = find_alike({"one": one, "other": other, "copy": one})
    assert abs(alike["one", "other"]) < 0.15
    assert alike["one", "copy"] == 1


@pytest.mark.parametrize("sure", [3.0, 10.0])
def test_judges_who_are_certain_of_most_pairs_do_not_err_alike_for_that(rng, sure):
    truth = sure * rng.normal(size=30)
    one, other = answers(rng, truth, 1.0), answers(rng, truth, 1.0)
    alike = find_alike({"one": one, "other": other, "copy": one})
    assert abs(alike["one", "other"]) < 0.3  # .8 and .97 where all that is certain counts as 5 nats
    assert alike["one", "copy"] == 1


def test_what_no_answer_contradicts_tells_nothing_of_who_errs_alike(rng):
    chain = {(k, k + 1): float(rng.normal()) for k in range(8)}
    other = {pair: float(rng.normal()) for pair in chain}
    assert np.isnan(find_alike({"chain": chain, "other": other})["chain", "other"])
    assert np.isnan(find_alike({"chain": chain, "silent": {}})["chain", "silent"])
    few = {(0, 1): 0.3, (1, 2): 0.1, (0, 2): 0.9}
    assert np.isnan(find_alike({"few": few, "twice": {pair: 2 * odds for pair, odds in few.items()}})["few", "twice"])


def test_those_who_err_alike_share_a_vote_in_whatever_order_they_come():
    alike = {("a", "b"): 0.2, ("a", "c"): 0.95, ("a", "d"): float("nan"), ("b", "c"): 0.1, ("b", "d"): 0.89}
    assert share_votes("abcd", alike | {("c", "d"): 0.3}) == (("b",), ("a", "c"), ("d",))
    assert share_votes("abcd", alike | {("c", "d"): 0.91}) == (("b",), ("a", "c", "d"))
