"""Shares of pairs, their errors over ladders, and when they decide that a judge can judge."""

import math
from itertools import product

import numpy as np
import pytest

from benchmarks.doctor import doctor, draw, draw_biased
from synthscore.checking.rates import decide, rate


def spread(n_right, n, n_ladders=9):
    """So many pairs in order, over all ladders alike, and the ladder of each pair."""
    right = (np.arange(n) >= n - n_right).astype(float)
    return right, [place % n_ladders for place in range(n)]


def test_a_rate_and_its_error_are_those_of_ladders_not_of_pairs():
    right = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0, np.nan])
    assert rate(right, list("aaabbbb")) == pytest.approx((0.5, 0.5, 6)), "two ladders, one wholly right"
    # of six ladders: sqrt(6 / 5 sum of 1/4) / 6
    assert rate(right, list("abcdefg")) == pytest.approx((0.5, math.sqrt(6 / 5 * 6 / 4) / 6, 6))
    mean, stderr, n = rate(right[:3], list("aaa"))
    assert (mean, n) == (1.0, 3)
    assert math.isnan(stderr)
    assert math.isnan(rate(right[6:], ["a"]).value)


@pytest.mark.parametrize(
    ("n_right", "n", "decision"),
    [
        (11, 12, "can"),  # (11/12 - 1/2) / .148 = 2.8 errors above chance
        (10, 12, "cannot tell yet"),  # 2.25: a coin has as many once in 52 runs
        (5, 12, "cannot"),
        (18, 24, "cannot tell yet"),
        (19, 24, "can"),
        (34, 48, "can"),
        (33, 48, "cannot tell yet"),
        (31, 48, "cannot tell yet"),
        (28, 48, "cannot"),
    ],
)
def test_a_share_decides_at_each_look(n_right, n, decision):
    right, ladders = spread(n_right, n)
    assert decide(right, ladders) == decision


def test_with_many_pairs_two_thirds_divide_those_that_can_from_those_that_cannot():
    assert decide(*spread(1340, 2000, 200)) == "can"
    assert decide(*spread(1320, 2000, 200)) == "cannot"


def test_pairs_of_ladders_that_are_wholly_right_or_wrong_weigh_less():
    right = np.repeat([1.0, 1.0, 1.0, 1.0, 1.0, 0.0], 8)
    assert decide(right, np.arange(48) % 6) == "can"
    assert decide(right, np.repeat(range(6), 8)) == "cannot tell yet"


def test_what_is_too_little_is_not_told_yet():
    assert decide(np.ones(11), range(11)) == "cannot tell yet", "less than twelve"
    assert decide(np.ones(30), [place % 3 for place in range(30)]) == "cannot tell yet", "three ladders"
    missing = np.where(np.arange(24) < 13, np.nan, 1.0)
    assert decide(missing, range(24)) == "cannot tell yet", "what has no answer does not count"
    assert decide(np.full(12, np.nan), range(12)) == "cannot", "nothing is answered"


@pytest.mark.parametrize(("alike", "n_ladders"), list(product((0.0, 0.2), (5, 9))))
@pytest.mark.parametrize("drawn", [draw, draw_biased])
def test_over_all_looks_a_coin_seldom_passes_and_three_in_four_are_seldom_refused(drawn, alike, n_ladders):
    rng = np.random.default_rng(5)
    for share, wrong, most in ((0.5, "can", 0.05), (0.75, "cannot", 0.1)):
        runs = [doctor(drawn(rng, share, alike, n_ladders))[0] for _ in range(300)]
        assert runs.count(wrong) / 300 <= most + 0.025  # two standard errors of 300 runs at .05
        assert runs.count("can" if wrong == "cannot" else "cannot") > 150


def test_a_judge_with_position_bias_has_the_share_it_is_said_to_have():
    many = draw_biased(np.random.default_rng(0), 0.75, 0.0, 2000)
    assert many.mean() == pytest.approx(0.75, abs=0.01)  # 20,000 pairs: an error of .002
    assert (many == 0.5).mean() == pytest.approx(0.4, abs=0.02)
