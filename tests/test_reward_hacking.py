"""The parts of benchmarks/reward_hacking.py that its numbers stand on."""

import numpy as np
import pytest

from benchmarks.reward_hacking import CHEAT, LEVEL, Paid, own_words, start, train


@pytest.mark.parametrize(("wanted", "share"), [(~CHEAT, 0.0), (CHEAT, 1.0)])
def test_a_policy_learns_what_is_paid_and_a_judge_that_is_held_out_stops_it(wanted, share):
    values = np.tile(1.0 * wanted, (3, 1))
    end = train(Paid(values), 5, 4, 500)
    assert end @ CHEAT == pytest.approx([share] * 4, abs=0.02)
    assert end.sum(axis=1) == pytest.approx([1] * 4)
    stopped = train(Paid(values, 1 - values), 5, 4, 500)
    assert stopped @ wanted == pytest.approx([start(5) @ wanted] * 4, abs=0.1)
    assert (start(3) @ (LEVEL == 5), start(3) @ CHEAT) == (0, pytest.approx(0.1))


def test_own_words_are_neither_in_the_source_nor_said_before():
    assert own_words("one two three four five", "a b c d") == 1
    assert own_words("one two three four five", "one two three four") == 0.5
    assert own_words("one two three four one two three four", "") == 0.8
