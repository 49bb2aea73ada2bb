"""Several engines of one model as one: the same answers, whoever gives them, and what happens when one fails."""

import threading
from collections import Counter

import numpy as np
import pytest

from synthscore.engine import KEPT, Answers, Generation, LabelAnswer, Prompt, Question, Sampling, together
from synthscore.engines import open_engine
from synthscore.engines.pool import EnginePool
from synthscore.errors import EngineError, InputError, LabelError, SynthscoreWarning, Unasked
from synthscore.signature import Signature
from synthscore.types import Usage
from tests.models import TEXT

LABELS = ("Better", "Worse", "Similar")
QUESTIONS = [Question(Prompt(f"{TEXT[: 60 * (n % 3)]} Is summary {n} better?"), LABELS) for n in range(80)]


class Counting:
    """Answers a question by the length of its prompt, half a part at a time. raises : `error`, if there is one, before
    its question number `n_good`, counted over all calls."""

    def __init__(self, model="m", error=None, n_good=0):
        self.signature = Signature.of(model=model)
        self.error, self.n_good, self.asked = error, n_good, []

    def answer(self, questions, progress=None):
        raise NotImplementedError

    def answer_parts(self, questions, take, progress=None):
        self.kept = KEPT.get()
        for start in range(0, len(questions), 8):
            part = questions[start : start + 8]
            if self.error and len(self.asked) >= self.n_good:
                raise self.error
            self.asked += part
            rows = {start + n: LabelAnswer([-float(len(q.prompt.text))] * 3) for n, q in enumerate(part)}
            take(rows, Usage(n_in=len(part)))


def lengths(answers):
    return [-answer.log_probs[0] for answer in answers.rows]


def expected():
    return [len(question.prompt.text) for question in QUESTIONS]


def test_a_model_on_two_devices_answers_as_on_one(local, folder):
    pool = open_engine(folder, device="cpu, cpu")
    assert isinstance(pool, EnginePool)
    assert pool.signature == local.signature
    assert pool.capabilities.description == local.capabilities.description
    writing = Sampling(max_new_tokens=4)
    questions = [*QUESTIONS, *(Question(Prompt(f"Write {n}."), sampling=writing, seed=n) for n in range(20))]
    found, single = pool.answer(questions), local.answer(questions)
    for answer, other in zip(found.rows, single.rows, strict=True):
        if isinstance(other, Generation):
            assert answer == other
        else:
            np.testing.assert_allclose(answer.log_probs, other.log_probs, atol=1e-5)
    assert found.usage.n_in == single.usage.n_in


def test_every_engine_takes_part_and_every_question_is_asked_once():
    start = threading.Barrier(2, timeout=10)

    class Waits(Counting):
        def answer_parts(self, *arguments):
            if not self.asked:
                start.wait()
            super().answer_parts(*arguments)

    engines = [Waits(), Waits()]
    told = []
    answers = EnginePool(engines).answer(QUESTIONS, told.append)
    assert lengths(answers) == expected()
    assert answers.usage.n_in == sum(told) == len(QUESTIONS)
    assert all(engine.asked for engine in engines)
    assert Counter(question.prompt.text for engine in engines for question in engine.asked) == Counter(
        question.prompt.text for question in QUESTIONS
    )


def test_an_engine_that_gives_all_answers_at_its_end_can_be_one_of_them():
    class Plain:
        signature = Signature.of(model="m")

        def answer(self, questions, progress=None):
            return Answers([LabelAnswer([-float(len(question.prompt.text))] * 3) for question in questions])

    assert lengths(EnginePool([Plain(), Counting()]).answer(QUESTIONS)) == expected()


@pytest.mark.parametrize("n_good", [0, 8])
def test_what_an_engine_that_fails_has_not_answered_is_asked_of_the_others(n_good):
    bad, good = Counting(error=RuntimeError("no memory"), n_good=n_good), Counting()
    with pytest.warns(SynthscoreWarning, match=r"1 of 2 engines of model:m failed.*: no memory"):
        answers = EnginePool([bad, good]).answer(QUESTIONS)
    assert lengths(answers) == expected()
    assert len(bad.asked) == n_good
    assert len(good.asked) == len(QUESTIONS) - n_good


def test_where_no_engine_is_left_what_the_last_one_raised_is_raised():
    engines = [Counting(error=EngineError("no memory")) for _ in range(2)]
    with pytest.warns(SynthscoreWarning, match="no memory"), pytest.raises(EngineError, match=r"^no memory$"):
        EnginePool(engines).answer(QUESTIONS)


def test_labels_that_cannot_be_said_are_not_asked_of_another_engine():
    error = LabelError("they collide")
    first, second = Counting(error=error), Counting(error=error)
    with pytest.raises(LabelError, match="they collide"):
        EnginePool([first, second]).answer(QUESTIONS[:16])  # one part
    assert hasattr(first, "kept")
    assert not hasattr(second, "kept")


def test_what_take_raises_ends_the_call_and_all_threads():
    engines = [Counting(), Counting()]
    rows = {}

    def take(part, usage):
        rows.update(part)
        if len(rows) == 24:
            raise Unasked("enough")

    before = threading.active_count()
    with pytest.raises(Unasked):
        EnginePool(engines).answer_parts(QUESTIONS, take)
    assert threading.active_count() == before
    assert 24 <= len(rows) < len(QUESTIONS)
    assert len(rows) >= sum(len(engine.asked) for engine in engines) - 16  # but for one part of each on its way


def test_engines_keep_what_calls_that_belong_together_share():
    engines = [Counting(), Counting()]
    with together():
        EnginePool(engines).answer(QUESTIONS)
        assert engines[0].kept is KEPT.get() is not None


def test_no_engine_one_twice_and_engines_that_differ_make_no_pool():
    engine = Counting()
    with pytest.raises(InputError, match="pool of 0 engines"):
        EnginePool([])
    with pytest.raises(InputError, match="pool of 2 engines, 1 of them different"):
        EnginePool([engine, engine])
    with pytest.raises(EngineError, match=r"engine 1 and engine 2 are not alike: model:m and model:n\. Expected"):
        EnginePool([engine, Counting(model="n")])


def test_a_device_that_is_not_there_is_named(folder):
    with pytest.raises(EngineError, match="cannot use the device 'cpus'"):
        open_engine(folder, device="cpu,cpus")
