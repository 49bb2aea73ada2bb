from unittest import mock

import numpy as np
import pytest

from synthscore.engine import Engine, Generation, LabelLogProbs, Prompt, Question, Sampling, generate, label_log_probs
from synthscore.errors import StoreError
from synthscore.signature import text_hash
from synthscore.store import engine as stored
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
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
            assert (got.tokens_naive, got.tokens_computed) == ((3, 3) if run == 0 else (0, 0))
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
        (1 / 128, [256, 1024, 1920, 1920, 1720]),  # grows to the size that takes 15 s, fourfold at most
        (1e-6, [256, 1024, 4096, 1624]),
        (1.0, [256] * 8),  # never fewer
    ],
)
def test_a_batch_of_verdicts_takes_about_15_seconds(store, clock, seconds, sizes):
    inner = Paced(clock, seconds)
    label_log_probs(StoredEngine(inner, store), prompts(*range(sum(sizes))), LABELS)
    assert inner.calls == [("judge", size) for size in sizes]


@pytest.mark.slow
def test_a_batch_has_at_most_8192_verdicts_and_its_size_is_kept_for_the_next_call(store, clock):
    inner = Paced(clock, 0.0)
    engine = StoredEngine(inner, store)
    label_log_probs(engine, prompts(*range(256 + 1024 + 4096 + 8192)), LABELS)
    label_log_probs(engine, prompts(*range(20000, 28193)), LABELS)
    assert [size for _, size in inner.calls] == [256, 1024, 4096, 8192, 8192, 1]
    inner.seconds = 15 / 300
    label_log_probs(engine, prompts(*range(30000, 30000 + 8192 + 300)), LABELS)
    assert [size for _, size in inner.calls][6:] == [8192, 300]


def test_a_few_questions_say_nothing_of_the_pace_of_many(store, clock):
    inner = Paced(clock, 0.0)
    engine = StoredEngine(inner, store)
    label_log_probs(engine, prompts(*range(10)), LABELS)
    label_log_probs(engine, prompts(*range(10, 300)), LABELS)
    assert [size for _, size in inner.calls] == [10, 256, 34]


def test_a_batch_of_texts_is_small_and_adapts_on_its_own(store, clock):
    inner = Paced(clock, 0.5)
    engine = StoredEngine(inner, store)
    generate(engine, prompts(*range(76)), SAMPLING, [0] * 76)
    label_log_probs(engine, prompts(*range(300)), LABELS)
    assert [size for _, size in inner.calls] == [4, 16, 30, 26, 256, 44]
