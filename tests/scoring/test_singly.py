"""One text at a time, concurrently: who gets what, whoever else is late, cancelled, or in a batch that fails."""

import asyncio
import os
import random
import threading
import time

import pytest

from synthscore.errors import EngineError, InputError
from synthscore.scoring import singly
from synthscore.scoring.singly import MicroBatcher
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from tests import factories
from tests.fakes import FakeEngine
from tests.scoring.test_scorer import ladder, soft_judge


class Doubler:
    """Doubles numbers, and keeps what each of its calls was. It has no patience for a batch with a 13."""

    def __init__(self, seconds=0.0):
        self.calls, self.seconds, self.at_once = [], seconds, 0

    def __call__(self, numbers):
        self.at_once += 1
        assert self.at_once == 1, "two calls at the same time"
        time.sleep(self.seconds)
        self.calls.append(list(numbers))
        self.at_once -= 1
        if 13 in numbers:
            raise EngineError("thirteen")
        return [2 * number for number in numbers]


LONG = 60.0
"""Seconds for which a row waits for others where a test says who they are: the clock then ends no wait, however busy
the machine is, and a call is made when so many rows are there."""


def batcher(answer, **options):
    return MicroBatcher(answer, **options)


async def one(batch, number):
    return (await asyncio.wrap_future(batch.submit([number])))[0]


async def many(batch, numbers):
    return await asyncio.gather(*(one(batch, number) for number in numbers), return_exceptions=True)


def test_each_of_a_thousand_gets_its_own_answer_and_few_calls_are_made():
    answer = Doubler()
    batch = batcher(answer, wait_s=LONG, most=250)
    assert asyncio.run(many(batch, range(100, 1100))) == [2 * n for n in range(100, 1100)]
    assert [len(call) for call in answer.calls] == [250, 250, 250, 250]


def test_a_row_for_which_no_others_come_is_answered_alone():
    answer = Doubler()
    assert batcher(answer, wait_s=0.01, most=250).submit([7]).result(60) == [14]
    assert answer.calls == [[7]]


def test_rows_of_one_caller_stay_together_and_in_order():
    batch = batcher(answer := Doubler(), wait_s=LONG, most=4)
    found = [batch.submit(list(range(start, start + 3))) for start in (20, 30, 40, 50)]
    assert [each.result(60) for each in found] == [[40, 42, 44], [60, 62, 64], [80, 82, 84], [100, 102, 104]]
    assert answer.calls == [[20, 21, 22, 30, 31, 32], [40, 41, 42, 50, 51, 52]]


def test_a_batch_that_fails_fails_for_those_in_it_and_the_next_goes_on():
    batch = batcher(Doubler(), wait_s=LONG, most=10)
    found = asyncio.run(many(batch, range(5, 35)))
    assert [isinstance(each, EngineError) for each in found] == [True] * 10 + [False] * 20
    assert found[10:] == [2 * number for number in range(15, 35)]


def test_answers_of_the_wrong_number_are_an_error_of_all_of_them():
    with pytest.raises(ValueError, match="shorter"):
        batcher(lambda numbers: numbers[1:]).submit([1, 2]).result(5)


def test_whoever_is_cancelled_before_the_call_is_not_asked_about():
    answer = Doubler()

    async def main():
        batch = batcher(answer, wait_s=LONG, most=301)
        tasks = [asyncio.ensure_future(one(batch, number)) for number in range(100, 400)]
        await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        await asyncio.gather(*tasks[::3], return_exceptions=True)
        assert await one(batch, 400) == 800  # the last of 301, for which the others waited
        return await asyncio.gather(*tasks, return_exceptions=True)

    found = asyncio.run(main())
    [call] = answer.calls
    assert sorted(call) == [*(n for n in range(100, 400) if (n - 100) % 3), 400]
    assert [each if isinstance(each, int) else type(each) for each in found] == [
        2 * n if (n - 100) % 3 else asyncio.CancelledError for n in range(100, 400)
    ]


def test_a_thousand_in_several_threads_and_loops_with_cancelled_and_failing_ones():
    answer = Doubler(0.001)
    batch = batcher(answer, wait_s=0.002, most=32)
    wrong = []

    def crowd(seed):
        draw = random.Random(seed)

        async def main():
            async def ask(number):
                await asyncio.sleep(draw.random() / 10)
                task = asyncio.ensure_future(one(batch, number))
                if number % 5 == 0:
                    await asyncio.sleep(draw.random() / 100)
                    task.cancel()
                try:
                    found = await task
                except (asyncio.CancelledError, EngineError):
                    return
                if found != 2 * number:
                    wrong.append((number, found))

            await asyncio.gather(*(ask(number) for number in [*range(100, 349), 13]))

        asyncio.run(main())

    threads = [threading.Thread(target=crowd, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not wrong
    asked = {number for call in answer.calls for number in call}
    assert {n for n in range(100, 349) if n % 5} <= asked
    assert batch.submit([4]).result(5) == [8]


def test_the_thread_ends_when_nobody_comes_and_begins_again(monkeypatch):
    monkeypatch.setattr(singly, "IDLE_S", 0.01)
    batch = batcher(Doubler())
    for number in (3, 4):
        assert batch.submit([number]).result(5) == [2 * number]
        deadline = time.monotonic() + 5
        while batch._running and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not batch._running


# ------------------------------------------------------------------------------------------------- of a scorer


def rows(n):
    return [{"id": f"t{k}", "context_id": f"c{1 + k % 2}", "text": f"text q={1 + k % 9 / 2} ."} for k in range(n)]


def scorer(judge=soft_judge, **options):
    ladders = factories.references(ladder("c1"), ladder("c2"))
    return factories.scorer(ladders, FakeEngine(judge), **options)


def test_scores_asked_for_one_at_a_time_are_those_of_one_call():
    alone, together = scorer(), scorer()

    async def main():
        return await asyncio.gather(*(alone.score_one(row) for row in rows(300)))

    assert asyncio.run(main()) == list(together.score(rows(300)))
    assert len(alone.judge.calls) < 20


def test_a_row_that_cannot_be_scored_is_unscored_among_the_others():
    async def main():
        each = scorer()
        return await asyncio.gather(each.score_one(rows(1)[0]), each.score_one({"id": "x", "text": ""}))

    good, bad = asyncio.run(main())
    assert good.status == "ok"
    assert (bad.id, bad.status, bad.value) == ("row 1", "unscored", None)


def test_a_text_without_a_score_by_its_deadline_is_unscored_and_says_so():
    let = threading.Event()

    def waiting(prompt, labels):
        let.wait(10)
        return soft_judge(prompt, labels)

    each = scorer(waiting)

    async def main():
        late = await asyncio.gather(*(each.score_one(row, within_s=0.05) for row in rows(2)))
        let.set()
        return [*late, await each.score_one(rows(3)[2], within_s=10)]

    *late, good = asyncio.run(main())
    assert [(score.id, score.status, score.reason) for score in late] == [
        (f"t{k}", "unscored", "no answer within 0.05 s") for k in range(2)
    ]
    assert good.status == "ok"


def test_what_breaks_the_judge_is_raised_to_everybody_in_the_call():
    each = scorer()
    each.judge.answer = lambda *_: (_ for _ in ()).throw(EngineError("the server is gone"))

    async def main():
        return await asyncio.gather(*(each.score_one(row) for row in rows(5)), return_exceptions=True)

    assert [str(error) for error in asyncio.run(main())] == ["the server is gone"] * 5


def test_scores_that_depend_on_the_other_texts_of_a_call_are_refused():
    with pytest.raises(InputError, match="Give a scale"):
        asyncio.run(scorer(scoring="anchored").score_one(rows(1)[0]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_that_was_forked_asks_with_a_thread_and_a_store_of_its_own(tmp_path):
    first, second = rows(2)
    ladders = factories.references(ladder("c1"), ladder("c2"))
    with Store(tmp_path / "a.sqlite") as store:
        each = factories.scorer(ladders, StoredEngine(FakeEngine(soft_judge), store))
        assert asyncio.run(each.score_one(first)).status == "ok"  # so that there is a thread
        inherited = store._db
        read, write = os.pipe()
        if not os.fork():
            found = asyncio.run(each.score_one(second, within_s=20))
            os.write(write, f"{found.status} {found.reason} {store._db is inherited}".encode())
            os._exit(0)
        assert os.read(read, 1000).decode() == "ok  False"
        os.wait()
        n_asked = each.judge.engine.n_judged
        assert asyncio.run(each.score_one(second)).status == "ok"
        assert each.judge.engine.n_judged == n_asked  # what the other process asked is in the file
