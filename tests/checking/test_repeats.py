"""The same question twice: what a judge that answers in words makes of it."""

from collections import Counter

import pytest

from synthscore.checking.repeats import Repeats, ask_twice
from synthscore.engine import Question
from synthscore.engines.words import InWords, find_in_words, sample_seed
from synthscore.judging.asking import PROTOCOLS, Asking
from synthscore.ladders.references import References
from synthscore.resources import resource
from tests.fakes import FakeEngine

LADDERS = References.load(resource("data/references/curated/first24")).ladders
LABELS = PROTOCOLS["compare"]


def repeats(n_differ, labels, n_read=12):
    return Repeats(n_asked=12, n_read=n_read, n_differ=n_differ, label_counts=Counter(labels))


def test_a_judge_that_never_contradicts_itself_gains_nothing_by_votes():
    assert repeats(0, {"Better": 12, "Worse": 12}).worth(5) == pytest.approx(1.0)


def test_answers_that_differ_as_those_to_two_questions_are_worth_all_of_them():
    """Half of all answers are Better: two of different questions differ in half of the cases."""
    assert repeats(6, {"Better": 12, "Worse": 12}).worth(5) == pytest.approx(5.0)


def test_the_worked_example():
    found = repeats(3, {"Better": 12, "Worse": 12})
    assert found.correlation == pytest.approx(1 - (3 / 12) / 0.5)
    assert found.worth(3) == pytest.approx(3 / (1 + 2 * 0.5))
    assert "3 of 12 questions that were asked twice got two different answers: three votes" in found.words


@pytest.mark.parametrize("found", [repeats(0, {"Better": 24}), repeats(0, {}, n_read=0)])
def test_of_one_label_alone_nothing_can_be_told(found):
    assert found.worth(3) is None
    assert found.words.endswith("cannot be told from that")


class Moody(FakeEngine):
    """Says Better first, and at the second time Worse of every third text."""

    def __init__(self):
        super().__init__(writer=self.speak)

    def speak(self, prompt, seed):
        is_second = seed == sample_seed(Question(prompt, LABELS), 1)
        return "Worse" if is_second and len(prompt.text) % 3 == 0 else "Better"


def test_a_dozen_questions_are_asked_twice_and_failed_samples_left_out():
    engine = Moody()
    found = ask_twice(InWords(engine, 1), LADDERS, Asking())
    assert engine.n_written == 24
    assert (found.n_asked, found.n_read) == (12, 12)
    assert 0 < found.n_differ < 12
    silent = ask_twice(InWords(FakeEngine(writer=lambda prompt, seed: "Hm."), 1), LADDERS, Asking())
    assert silent.n_read == 0


def test_the_engine_that_asks_in_words_is_found_behind_others():
    class Around:
        def __init__(self, engine):
            self.engine = engine

    inner = InWords(FakeEngine())
    assert find_in_words(Around(Around(inner))) is inner
    assert find_in_words(Around(FakeEngine())) is None
