"""The parts of benchmarks/reward_hacking.py that its numbers stand on."""

import numpy as np
import pytest

from benchmarks.reward_hacking import CHEAT, LEVEL, Paid, among, drawn_at, draws, own_words, start, train
from synthscore.integrations.trl import Drawn
from synthscore.scoring.paper import paper_sum, rung_equivalent


@pytest.mark.parametrize("step", range(4))
def test_rungs_pay_what_the_reward_function_pays(step):
    drawn, margins = Drawn(3, (7, step)), np.random.default_rng(step).uniform(-1, 1, (2, 4, 5))
    levels = draws(3)[drawn_at(3, 8, step)[7]]
    assert list(levels) == drawn.levels(5)
    for margin, paid in zip(margins.reshape(-1, 5), among(margins, levels).ravel(), strict=True):
        some = margin[[level - 1 for level in levels]][None]
        value = rung_equivalent(paper_sum(np.maximum(some, 0), np.maximum(-some, 0)), 3)[0]
        assert paid == pytest.approx(drawn.value(value, 5))


@pytest.mark.parametrize(("wanted", "share"), [(~CHEAT, 0.0), (CHEAT, 1.0)])
def test_a_policy_learns_what_is_paid_and_a_judge_that_is_held_out_stops_it(wanted, share):
    values = np.tile(1.0 * wanted, (3, 1))
    end = train(Paid(values[None]), 5, 4, 500)
    assert end @ CHEAT == pytest.approx([share] * 4, abs=0.02)
    assert end.sum(axis=1) == pytest.approx([1] * 4)
    stopped = train(Paid(values[None], 1 - values), 5, 4, 500)
    assert stopped @ wanted == pytest.approx([start(5) @ wanted] * 4, abs=0.1)
    assert (start(3) @ (LEVEL == 5), start(3) @ CHEAT) == (0, pytest.approx(0.1))


def test_own_words_are_neither_in_the_source_nor_said_before():
    assert own_words("one two three four five", "a b c d") == 1
    assert own_words("one two three four five", "one two three four") == 0.5
    assert own_words("one two three four one two three four", "") == 0.8
