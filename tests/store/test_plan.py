"""What a run would take, counted by an engine that asks nothing."""

import pytest

from synthscore.engine import Capabilities, Prompt, Question
from synthscore.engines.words import InWords
from synthscore.store.engine import QuestionCounter
from synthscore.store.file import Store
from synthscore.store.runs import EngineRun, Spent
from tests.fakes import FakeEngine, stored_in_batches


def questions(n, length=40):
    return [Question(Prompt(f"{k:04d}".ljust(length, ".")), ("A", "B")) for k in range(n)]


class Words:
    """A tokenizer of ten characters a token."""

    def encode(self, prompt):
        return list(range(len(prompt.text) // 10))


@pytest.fixture
def engine(tmp_path):
    with Store(tmp_path / "store.sqlite") as store:
        yield stored_in_batches(FakeEngine(lambda prompt, labels: [-1.0, -1.0]), store, 10)


def test_nothing_is_asked_and_what_is_stored_or_asked_twice_is_not_counted_as_new(engine):
    engine.answer(questions(20))
    plan = QuestionCounter(engine)
    rows = plan.answer(questions(50)).rows + plan.answer(questions(50)).rows
    assert all(isinstance(row, Exception) for row in rows)
    assert (plan.n_questions, plan.n_distinct, plan.n_new, plan.n_tokens) == (100, 50, 30, 300)
    assert not plan.tokenised
    assert engine.engine.n_judged == 20
    assert len(engine.store) == 20


def test_a_tokenizer_at_hand_counts(engine):
    engine.engine.capabilities = Capabilities(tokenizer=Words())
    plan = QuestionCounter(engine)
    plan.answer(questions(8))
    assert (plan.n_tokens, plan.tokenised) == (32, True)


def test_each_of_few_questions_is_counted(engine):
    class Dense:
        def encode(self, prompt):
            return range(4 if len(prompt.text) == 40 else 5)

    engine.engine.capabilities = Capabilities(tokenizer=Dense())
    plan = QuestionCounter(engine)
    plan.answer([*questions(1, 40), *questions(2, 200)[1:]])
    assert plan.n_tokens == 9


def test_some_questions_tell_of_all(engine):
    engine.answer(questions(500))
    plan = QuestionCounter(engine)
    plan.answer(questions(1000))
    assert (plan.n_questions, plan.n_new, plan.n_tokens) == (1000, 500, 5000)
    assert (plan.scaled_to(4000).n_new, plan.n_tokens) == (2000, 20_000)


def test_the_pace_is_that_of_the_engines_last_runs(engine, tmp_path):
    before = QuestionCounter(engine)
    before.answer(questions(10))
    assert before.pace is None
    name = str(engine.signature)
    runs = [
        EngineRun(b"1", "labels", name, 1, Spent(1000.0, 5000, 0)),  # long ago, on another machine
        EngineRun(b"2", "labels", name, 2, Spent(20.0, 150, 50)),
        EngineRun(b"3", "labels", name, 3, Spent(1.0, 4, 0)),  # too few to tell a pace by themselves
        EngineRun(b"4", "text", name, 4, Spent(1.0, 900, 0)),
        EngineRun(b"5", "labels", "another", 5, Spent(1.0, 900, 0)),
    ]
    for run in runs:
        engine.store.put_many([], run)
    after = QuestionCounter(engine)
    after.answer(questions(100))
    assert after.pace == pytest.approx(204 / 21)


def test_in_words_the_samples_are_counted_that_the_store_lacks(engine):
    judge = InWords(engine, n_votes=1)
    judge.answer(questions(10))
    plan = QuestionCounter.replacing(InWords(engine, n_votes=3))
    plan.front.answer(questions(40))
    assert (plan.n_samples, plan.n_questions, plan.n_distinct, plan.n_new) == (3, 120, 120, 110)
    assert plan.front.signature == InWords(engine, n_votes=3).signature
    alone = QuestionCounter.replacing(engine)
    alone.front.answer(questions(40))
    assert (alone.front, alone.n_new) == (alone, 40)
