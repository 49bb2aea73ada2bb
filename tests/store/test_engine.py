from unittest import mock

import numpy as np
import pytest

from synthscore.engine import (
    Engine,
    Generation,
    LabelLogProbs,
    Prompt,
    Question,
    Sampling,
    generate,
    label_log_probs,
)
from synthscore.errors import EngineError, InputError, StoreError, Unasked
from synthscore.signature import Signature, text_hash
from synthscore.store import engine as stored
from synthscore.store.budget import Budget, Price, Prices, model_names
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from synthscore.store.runs import Spent
from synthscore.types import Usage
from tests.fakes import FakeEngine, even_judge, stored_in_batches

LABELS = ("Better", "Worse", "Similar")
SAMPLING = Sampling(max_new_tokens=5)


def prompts(*texts):
    return [Prompt(str(text)) for text in texts]


def own_judge(prompt, labels):
    """Log-probabilities that differ from prompt to prompt, with all the digits that a float has."""
    n = len(prompt.text) + int(text_hash(prompt.text)[:6], 16)
    return [-np.pi - n / 7 - i for i in range(len(labels))]


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "answers.sqlite") as store:
        yield store


def same(one: LabelLogProbs, other: LabelLogProbs):
    np.testing.assert_array_equal(one.log_probs, other.log_probs)
    assert (one.labels, one.other_tokens, one.failures) == (other.labels, other.other_tokens, other.failures)


def test_a_rerun_asks_nothing_and_gives_the_same_numbers_to_the_last_bit(tmp_path):
    plain, inner = FakeEngine(own_judge), FakeEngine(own_judge)
    asked = prompts(*"abcab")
    for run in range(2):
        with Store(tmp_path / "answers.sqlite") as store:
            engine = StoredEngine(inner, store)
            assert isinstance(engine, Engine)
            assert engine.signature == inner.signature
            got = label_log_probs(engine, asked, LABELS)
            same(got, label_log_probs(plain, asked, LABELS))
            assert (got.usage.n_in, got.usage.n_computed) == ((3, 3) if run == 0 else (0, 0))
    assert inner.judged == prompts(*"abc")


def test_only_what_is_missing_is_asked_once_in_the_given_order_and_in_batches(store):
    inner = FakeEngine(own_judge)
    engine = stored_in_batches(inner, store, 2)
    label_log_probs(engine, prompts("b"), LABELS)
    ticks = []
    got = label_log_probs(engine, prompts(*"dbdcaa"), LABELS, ticks.append)
    assert inner.judged == prompts(*"bdca")
    assert inner.calls == [("judge", 1), ("judge", 2), ("judge", 1)]
    assert sum(ticks) == 6
    assert ticks[0] == 1, "the stored row is told first"
    same(got, label_log_probs(FakeEngine(own_judge), prompts(*"dbdcaa"), LABELS))
    empty = label_log_probs(engine, [], LABELS)
    assert (len(empty), len(inner.calls)) == (0, 3)


@pytest.mark.parametrize("change", ["prompt", "prefill", "labels", "model"])
def test_whatever_can_change_an_answer_is_another_question(store, change):
    inner = FakeEngine(own_judge)
    label_log_probs(StoredEngine(inner, store), [Prompt("a", "b")], LABELS)
    prompt = {"prompt": Prompt("ab", ""), "prefill": Prompt("a", "c")}.get(change, Prompt("a", "b"))
    other = FakeEngine(own_judge, name="other") if change == "model" else inner
    labels = ("Worse", "Better", "Similar") if change == "labels" else LABELS
    n = other.n_judged
    label_log_probs(StoredEngine(other, store), [prompt], labels)
    assert other.n_judged == n + 1


def test_a_store_that_can_only_be_read_answers_what_it_holds_and_refuses_the_rest_before_it_is_asked(tmp_path):
    path, inner = tmp_path / "answers.sqlite", FakeEngine(own_judge)
    with Store(path) as store:
        before = label_log_probs(StoredEngine(inner, store), prompts("a", "b"), LABELS)
    data = path.read_bytes()
    with mock.patch("os.access", return_value=False), Store(path) as store:
        engine = StoredEngine(inner, store)
        same(label_log_probs(engine, prompts("a", "b"), LABELS), before)
        with pytest.raises(StoreError, match=r"which lacks 1 of 2 answers: .* can only be read"):
            label_log_probs(engine, prompts("b", "c"), LABELS)
        assert inner.judged == prompts("a", "b")
    assert path.read_bytes() == data


def test_failures_are_told_but_not_stored(store):
    inner = FakeEngine(own_judge, failures={"b": "too long"})
    engine = StoredEngine(inner, store)
    got = label_log_probs(engine, prompts(*"abb"), LABELS)
    assert dict(got.failures) == {1: "too long", 2: "too long"}
    assert np.isnan(got.log_probs[1:]).all()
    assert got.other_tokens[1] is None
    inner.failures.clear()
    again = label_log_probs(engine, prompts(*"abb"), LABELS)
    assert again.failures == {}
    assert inner.judged == prompts("a", "b", "b")


def test_an_engine_that_reports_no_other_token_is_stored_as_well(store):
    class Silent(FakeEngine):
        def answer_one(self, question):
            return super().answer_one(question)._replace(other_token=None)

    for _ in range(2):
        got = label_log_probs(StoredEngine(Silent(own_judge), store), prompts(*"ab"), LABELS)
        assert got.other_tokens == (None, None)


def test_an_interrupted_run_keeps_the_finished_batches_and_resumes_with_the_rest(store):
    class Dies(FakeEngine):
        def answer(self, questions, progress=None):
            if len(self.calls) == 2:
                raise KeyboardInterrupt
            return super().answer(questions, progress)

    dying, inner = Dies(own_judge), FakeEngine(own_judge)
    with pytest.raises(KeyboardInterrupt):
        label_log_probs(stored_in_batches(dying, store, 3), prompts(*range(10)), LABELS)
    assert len(store) == 6
    got = label_log_probs(stored_in_batches(inner, store, 3), prompts(*range(10)), LABELS)
    assert inner.judged == prompts(6, 7, 8, 9)
    same(got, label_log_probs(FakeEngine(own_judge), prompts(*range(10)), LABELS))


def test_generations_are_stored_by_prompt_sampling_and_seed_and_exceptions_are_not(store):
    def write(prompt, seed):
        if seed == 13 and not mended:
            raise ValueError("unlucky")
        return Generation(f"{prompt.text}\n{seed} ü", "length", 7)

    mended = []
    inner = FakeEngine(writer=write)
    engine = stored_in_batches(inner, store, 2)
    ticks = []
    rows = generate(engine, prompts("a", "a", "b", "a"), SAMPLING, [1, 13, 1, 1], ticks.append)
    assert rows[0] == rows[3] == Generation("a\n1 ü", "length", 7)
    assert rows[2] == Generation("b\n1 ü", "length", 7)
    assert isinstance(rows[1], ValueError)
    assert (sum(ticks), inner.n_written, len(store)) == (4, 3, 2)
    mended.append(True)
    again = generate(engine, prompts("a", "a", "b"), SAMPLING, [1, 13, 1])
    assert [row.text for row in again] == ["a\n1 ü", "a\n13 ü", "b\n1 ü"]
    assert inner.n_written == 4
    for n, other in enumerate([Sampling(5, 0.1), Sampling(5, 0.7, 0.8), Sampling(6)], 5):
        generate(engine, prompts("a"), other, [1])
        assert inner.n_written == n
    with pytest.raises(ValueError, match="zip"):
        generate(engine, prompts("a", "b"), SAMPLING, [1])


def test_a_text_that_may_stop_elsewhere_is_another_text(store):
    inner = FakeEngine(writer=lambda prompt, seed: Generation("a. b", "stop", 3))
    engine = StoredEngine(inner, store)
    for n, stop in enumerate([(), (".",), (".", "b"), (".b",), ("b", ".")], 1):
        generate(engine, prompts("a"), Sampling(5, stop=stop), [1])
        assert inner.n_written == n
        (answer,) = store.read(store.batches()[-1])
        assert answer.question == Question(Prompt("a"), (), Sampling(5, stop=stop), 1)
        assert answer.key == answer.question.key(answer.engine)


def test_without_stop_strings_a_text_keeps_the_key_that_it_had_before_they_were_part_of_it():
    key = Question(Prompt("a", "b"), (), Sampling(5, 0.5, 0.25), 7).key("engine")
    assert key.hex() == text_hash("text", "engine", "a", "b", "5", "0.5", "0.25", "7")


def test_a_label_question_and_a_writing_question_never_share_an_answer(store):
    inner = FakeEngine(own_judge)
    engine = StoredEngine(inner, store)
    label_log_probs(engine, prompts("a"), ("5", "0.7", "0.9", "1"))
    generate(engine, prompts("a"), SAMPLING, [1])
    assert (inner.n_judged, inner.n_written, len(store)) == (1, 1, 2)


# ------------------------------------------------------------------------------------------------- questions


def test_questions_are_stored_with_their_answers(store):
    engine = StoredEngine(FakeEngine(own_judge), store)
    label_log_probs(engine, [Prompt("a text", "The "), Prompt("a tent")], LABELS)
    generate(engine, prompts("é\n", "é\n"), SAMPLING, [np.int64(3), 4])
    labels, texts = store.batches()
    assert (labels.kind, labels.n_answers, labels.has_questions) == ("labels", 2, True)
    assert (texts.kind, texts.n_answers, texts.engine) == ("text", 2, "model:fake|backend:fake")
    questions = [answer.question for answer in [*store.read(labels), *store.read(texts)]]
    assert questions == [
        Question(Prompt("a text", "The "), LABELS),
        Question(Prompt("a tent"), LABELS),
        Question(Prompt("é\n"), (), SAMPLING, 3),
        Question(Prompt("é\n"), (), SAMPLING, 4),
    ]
    for batch in (labels, texts):
        for answer in store.read(batch):
            assert answer.question.key(batch.engine) == answer.key
            assert store.get_many([answer.key]) == {answer.key: answer.value}


# ------------------------------------------------------------------------------------------------- censored labels


class Censoring(FakeEngine):
    """Does not tell the last label of prompts that hold an x."""

    def answer_one(self, question):
        answer = super().answer_one(question)
        if "x" not in question.prompt.text:
            return answer
        *others, last = answer.log_probs
        floors = [*[-np.inf] * len(others), last - 1.5] if self.name == "floors" else None
        return answer._replace(censored=[*[False] * len(others), True], floors=floors)


@pytest.mark.parametrize("name", ["floors", "no floors"])
def test_what_a_server_did_not_tell_is_stored_as_that(store, name):
    asked = prompts("a", "x", "b")
    plain = label_log_probs(Censoring(even_judge, name=name), asked, LABELS)
    inner = Censoring(even_judge, name=name)
    for _ in range(2):
        got = label_log_probs(StoredEngine(inner, store), asked, LABELS)
        same(got, plain)
        np.testing.assert_array_equal(got.censored, plain.censored)
        np.testing.assert_array_equal(got.unreported, plain.unreported)
        np.testing.assert_array_equal(got.label_mass, plain.label_mass)
    assert inner.n_judged == 3
    assert label_log_probs(StoredEngine(inner, store), prompts("a", "b"), LABELS).censored is None


# ------------------------------------------------------------------------------------------------- the size of a batch


@pytest.fixture
def clock(monkeypatch):
    """A clock that only moves when told."""
    now = [0.0]
    monkeypatch.setattr(stored.time, "monotonic", lambda: now[0])
    return now


class Paced(FakeEngine):
    """Takes so many seconds a question."""

    def __init__(self, clock, seconds):
        super().__init__(own_judge)
        self.clock, self.seconds = clock, seconds

    def answer(self, questions, progress=None):
        self.clock[0] += self.seconds * len(questions)
        return super().answer(questions, progress)


@pytest.mark.parametrize(
    ("seconds", "sizes"),
    [
        (1 / 128, [8, 32, 128, 512, 1920, 1920, 100]),  # grows to the size that takes 15 s, fourfold at most
        (1e-6, [8, 32, 128, 512, 2048, 100]),
        (1.0, [8, 15, 15, 2]),
        (10.0, [8, 8, 8]),  # never fewer
    ],
)
def test_an_engine_that_answers_at_its_end_is_asked_as_much_as_takes_about_15_seconds(store, clock, seconds, sizes):
    inner = Paced(clock, seconds)
    label_log_probs(StoredEngine(inner, store), prompts(*range(sum(sizes))), LABELS)
    assert inner.calls == [("judge", size) for size in sizes]


def test_the_size_of_a_call_is_kept_for_the_next_and_is_at_most_8192(store, clock):
    inner = Paced(clock, 0.0)
    engine = StoredEngine(inner, store)
    engine.source.sizes["labels"] = 8192
    label_log_probs(engine, prompts(*range(8200)), LABELS)
    assert [size for _, size in inner.calls] == [8192, 8]
    inner.seconds = 15 / 300
    label_log_probs(engine, prompts(*range(10000, 10000 + 1000)), LABELS)
    label_log_probs(engine, prompts(*range(20000, 20000 + 301)), LABELS)
    assert [size for _, size in inner.calls][2:] == [1000, 300, 1]


def test_texts_are_asked_for_few_at_a_time_at_a_pace_of_their_own(store, clock):
    inner = Paced(clock, 0.5)
    engine = StoredEngine(inner, store)
    generate(engine, prompts(*range(76)), SAMPLING, [0] * 76)
    label_log_probs(engine, prompts(*range(20)), LABELS)
    assert [size for _, size in inner.calls] == [1, 4, 16, 30, 25, 8, 12]


# ------------------------------------------------------------------------------------------------- as they come


class InTurn(FakeEngine):
    """Gives each answer when it is there; before the one numbered `ends_at` it raises `ends_with`."""

    def __init__(self, clock, seconds, ends_at=None, ends_with=KeyboardInterrupt):
        super().__init__(own_judge)
        self.clock, self.seconds, self.ends_at, self.ends_with = clock, seconds, ends_at, ends_with

    def answer_parts(self, questions, take, progress=None):
        for row, question in enumerate(questions):
            self.clock[0] += self.seconds
            if self.n_judged == self.ends_at:
                raise self.ends_with
            answer = self.answer_one(question)
            take({row: answer}, Usage(n_in=10, n_computed=4, n_out=3, n_reasoning=2))


@pytest.mark.parametrize("ends_with", [KeyboardInterrupt, EngineError("no server is left"), MemoryError])
def test_whatever_ends_a_call_every_answer_that_came_is_stored(store, clock, ends_with):
    dying = StoredEngine(InTurn(clock, 0.01, ends_at=68, ends_with=ends_with), store)
    with pytest.raises(type(ends_with) if isinstance(ends_with, Exception) else ends_with):
        label_log_probs(dying, prompts(*range(200)), LABELS)
    assert len(store) == dying.n_kept == 68
    rest = FakeEngine(own_judge)
    label_log_probs(StoredEngine(rest, store), prompts(*range(200)), LABELS)
    assert rest.judged == prompts(*range(68, 200))


@pytest.mark.parametrize(("seconds", "sizes"), [(2.0, [1] * 20), (0.125, [4] * 5), (0.001, [16, 4])])
def test_answers_of_half_a_second_are_stored_together_but_few_at_a_time(store, clock, seconds, sizes):
    label_log_probs(StoredEngine(InTurn(clock, seconds), store), prompts(*range(20)), LABELS)
    assert [batch.n_answers for batch in store.batches()] == sizes


def test_an_interrupt_while_answers_are_being_stored_loses_none(store, clock, monkeypatch):
    engine, put, interrupts = StoredEngine(InTurn(clock, 1.0), store), store.put_many, [True]

    def interrupted(*args):
        if len(store) == 3 and interrupts:
            interrupts.pop()
            raise KeyboardInterrupt
        return put(*args)

    monkeypatch.setattr(store, "put_many", interrupted)
    with pytest.raises(KeyboardInterrupt):
        label_log_probs(engine, prompts(*range(9)), LABELS)
    assert (len(store), engine.n_kept, engine.spent.n_asked) == (4, 4, 4)


def test_what_a_run_took_is_stored_with_its_answers(tmp_path, clock):
    path = tmp_path / "answers.sqlite"
    with Store(path) as store:
        engine = StoredEngine(InTurn(clock, 2.0), store)
        label_log_probs(engine, prompts(*"abc"), LABELS)
        label_log_probs(engine, prompts(*"abcd"), LABELS)
        assert engine.spent == Spent(8.0, 4, 0, Usage(40, 16, 12, 8))
    with Store(path) as store:
        (run,) = store.runs()
        assert (run.kind, run.engine, run.spent) == ("labels", str(engine.signature), engine.spent)
        failing = StoredEngine(FakeEngine(own_judge, failures={"e": "no"}), store)
        label_log_probs(failing, prompts("e"), LABELS)
        assert sorted(run.spent.n_failed for run in store.runs()) == [0, 1]


def test_a_store_of_the_former_version_has_no_runs_and_gets_them(tmp_path, clock):
    path = tmp_path / "answers.sqlite"
    with Store(path) as store:
        label_log_probs(StoredEngine(InTurn(clock, 1.0), store), prompts(*"ab"), LABELS)
        store._db.execute("DROP TABLE runs")
    with mock.patch("os.access", return_value=False), Store(path) as store:
        assert store.runs() == []
        label_log_probs(StoredEngine(FakeEngine(own_judge), store), prompts(*"ab"), LABELS)
    with Store(path) as store:
        label_log_probs(StoredEngine(InTurn(clock, 1.0), store), prompts(*"abc"), LABELS)
        assert [run.spent.n_answers for run in store.runs()] == [1]


def test_a_merge_and_a_salvage_take_what_runs_took_each_once(tmp_path, clock):
    with Store(tmp_path / "part.sqlite") as part:
        engine = StoredEngine(InTurn(clock, 1.0), part)
        label_log_probs(engine, prompts(*"ab"), LABELS)
        with Store(tmp_path / "all.sqlite") as whole:
            whole.merge(part.path)
            label_log_probs(engine, prompts(*"abc"), LABELS)
            whole.merge(part.path)
            whole.merge(part.path)
            assert whole.runs() == part.runs()
            assert whole.runs()[0].spent.n_answers == 3
        with Store(tmp_path / "saved.sqlite") as saved:
            saved.salvage(part.path)
            assert saved.runs() == part.runs()


@pytest.mark.parametrize("change", ["n_in = -1", "seconds = 1e999", "engine = x'ff'", "n_out = 'many'", "id = 7"])
def test_a_run_that_is_none_is_left_out(store, clock, change):
    engine = StoredEngine(InTurn(clock, 1.0), store)
    label_log_probs(engine, prompts("a"), LABELS)
    store._db.execute(f"UPDATE runs SET {change}")
    assert store.runs() == []


# ------------------------------------------------------------------------------------------------- a budget


def test_no_more_is_asked_than_the_budget_allows_and_the_same_call_goes_on(store):
    asked = prompts(*range(25))
    for n_now, n_left in ((10, 15), (10, 5)):
        inner = FakeEngine(own_judge)
        engine = StoredEngine(inner, store)
        engine.budget = Budget(max_questions=10)
        engine.budget.watch(engine, "fake")
        with pytest.raises(Unasked, match=f"10 were asked now.* at least {n_left} more are unasked"):
            label_log_probs(engine, asked, LABELS)
        assert (inner.n_judged, engine.budget.n_kept) == (n_now, 10)
    engine = StoredEngine(FakeEngine(own_judge), store)
    engine.budget = Budget(max_questions=5)
    engine.budget.watch(engine, "fake")
    same(label_log_probs(engine, asked, LABELS), label_log_probs(FakeEngine(own_judge), asked, LABELS))


def test_nothing_more_is_asked_once_the_money_is_spent(store, clock):
    inner = InTurn(clock, 1.0)
    engine = StoredEngine(inner, store)
    price = Price(read=10.0, cached=1.0, written=100.0)  # 4 x 10 + 6 x 1 + 3 x 100 = 346 millionths a question
    engine.budget = Budget(Prices({"fake": price}, "p.toml"), max_cost=0.001)
    engine.budget.watch(engine, "fake")
    with pytest.raises(Unasked, match=r"0\.001038 spent, by p\.toml, of at most 0\.001\. 3 were .* 7 more"):
        label_log_probs(engine, prompts(*range(10)), LABELS)
    assert (inner.n_judged, len(store)) == (3, 3)
    with pytest.raises(Unasked, match="at least 7 more"):
        label_log_probs(engine, prompts(*range(10)), LABELS)
    assert inner.n_judged == 3
    label_log_probs(engine, prompts(*range(3)), LABELS)  # what is stored costs nothing


def test_money_that_is_just_enough_for_the_last_question_stops_nothing(store, clock):
    engine = StoredEngine(InTurn(clock, 1.0), store)
    engine.budget = Budget(Prices({"fake": Price(10.0, 1.0, 100.0)}, "p.toml"), max_cost=0.001)
    engine.budget.watch(engine, "fake")
    label_log_probs(engine, prompts(*range(3)), LABELS)


PRICES = """
["gpt-x"]
in = 1.25
cached = 0.125
out = 10
"""


def test_prices_are_read_from_toml_and_json_and_found_by_any_name_of_the_model(tmp_path):
    (tmp_path / "p.toml").write_text(PRICES)
    (tmp_path / "p.json").write_text('{"gpt-x": {"in": 1.25, "cached": 0.125, "out": 10}}')
    for name in ("p.toml", "p.json"):
        price = Prices.load(tmp_path / name).price_of(
            *model_names(Signature.of(model="gpt-x-2026@r1"), "http://h/v1#gpt-x")
        )
        assert price.cost(Usage(n_in=3_000_000, n_computed=1_000_000, n_out=100_000)) == 1.25 + 0.25 + 1.0


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "expected a table for each model"),
        ("[m]\nin = 1\n", "m is {'in': 1}, expected the numbers in and out"),
        ("[m]\nin = 1\nout = 2\nwrite = 3\n", "expected the numbers in and out"),
        ("[m]\nin = 1\nout = -2\n", "m: out is -2, expected the price of a million tokens"),
        ("[m]\nin = nan\nout = 2\n", "m: in is nan"),
        ("[m]\nin = true\nout = 2\n", "m: in is True"),
        ("[m\n", "cannot read the prices"),
        ("[m]\nin = 1\nout = 2\n", "has no price of 'other', only of m"),
    ],
)
def test_prices_that_are_none_are_refused(tmp_path, text, told):
    (tmp_path / "p.toml").write_text(text)
    with pytest.raises(InputError) as error:
        Prices.load(tmp_path / "p.toml").price_of("other")
    assert told in str(error.value)
