"""Rungs: does a judge see each ladder rise?"""

import math
import re

import pytest

from synthscore.checking.rungs import LadderCheck, ask_rungs
from synthscore.errors import LadderError
from synthscore.judging.templates import Templates, load_task
from tests import factories
from tests.fakes import FakeEngine

TEMPLATES = Templates(load_task("summarization"))


def number_judge(prompt, labels):
    """Reads "quality K" out of both texts (the reference is shown first) and compares the two numbers."""
    reference, target = (int(number) for number in re.findall(r"quality (\d+)", prompt.text))
    better = 0.5 + 0.1 * max(-4, min(4, target - reference))
    return [math.log(0.9 * p) for p in (better, 0.99 - better, 0.01)]


def ladder(*qualities, context_id="c1", context=True, task="summarization"):
    """None is a failed rung."""
    texts = [q and f"Text of quality {q}" + " word" * level for level, q in enumerate(qualities, 1)]
    about = "An article." if context else None
    return factories.ladder(context_id, task=task, texts=texts, reason="refused", context=about)


def checked(ladders, judge, templates):
    return ask_rungs(ladders, judge, templates).checks()


def test_a_rising_ladder_has_positive_margins_of_the_size_that_the_judge_gives():
    (check,) = checked([ladder(1, 2, 4)], FakeEngine(number_judge), TEMPLATES)
    assert check.rising
    assert check.margins == pytest.approx([0.2, 0.4], abs=1e-3)
    assert check.mean_margin == pytest.approx(0.3, abs=1e-3)
    assert check.levels == (1, 2, 3)


def test_an_inverted_step_is_found_where_it_is():
    rising, falling = checked([ladder(1, 2, 3), ladder(1, 3, 2)], FakeEngine(number_judge), TEMPLATES)
    assert rising.rising
    assert not falling.rising
    assert falling.margins[0] > 0 > falling.margins[1]


def test_a_tie_is_not_rising():
    (check,) = checked([ladder(1, 2)], FakeEngine(), TEMPLATES)
    assert check.margins == (0.0,)
    assert not check.rising


def test_both_orders_are_asked_so_that_a_judge_that_favours_a_position_sees_nothing_rise():
    def position_judge(prompt, labels):
        return [math.log(0.8), math.log(0.1), math.log(0.1)]

    engine = FakeEngine(position_judge)
    (check,) = checked([ladder(1, 2, 3)], engine, TEMPLATES)
    assert check.margins == pytest.approx([0.0, 0.0])
    assert engine.n_judged == 6


def test_a_failed_rung_is_stepped_over():
    (check,) = checked([ladder(1, None, 3)], FakeEngine(number_judge), TEMPLATES)
    assert check.levels == (1, 3)
    assert check.rising


def test_what_the_judge_could_not_answer_is_nan_with_its_reason_and_not_rising():
    def picky(prompt, labels):
        if "quality 3" in prompt.text:
            raise RuntimeError("too long")
        return number_judge(prompt, labels)

    (check,) = checked([ladder(1, 2, 3)], FakeEngine(picky), TEMPLATES)
    assert check.margins[0] > 0
    assert math.isnan(check.margins[1])
    assert check.n_unanswered == 2
    assert check.reason == "too long"
    assert not check.rising
    assert check.mean_margin == check.margins[0]
    assert list(check.pairs) == [(1, 2)]


def test_a_ladder_with_fewer_than_two_texts_asks_nothing_and_is_not_rising():
    engine = FakeEngine(number_judge)
    (check,) = checked([ladder(None, 2)], engine, TEMPLATES)
    assert check == LadderCheck((2,), pairs={}, n_unanswered=0, reason="")
    assert not check.rising
    assert math.isnan(check.mean_margin)
    assert engine.n_judged == 0


@pytest.mark.parametrize(
    ("bad", "words"), [(ladder(1, 2, context=False), "context's text"), (ladder(1, 2, task="story"), "'story'")]
)
def test_a_ladder_that_cannot_be_asked_about_is_an_error(bad, words):
    with pytest.raises(LadderError, match=words):
        checked([bad], FakeEngine(number_judge), TEMPLATES)


def test_no_ladders_no_checks():
    assert checked([], FakeEngine(number_judge), TEMPLATES) == []
