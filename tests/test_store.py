import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from synthscore.engines.base import Engine
from synthscore.errors import StoreError
from synthscore.store import Answer, Store, StoredEngine, default_store_path
from synthscore.types import Generation, LabelLogProbs, Prompt, Sampling, text_hash

from .fakes import FakeEngine

LABELS = ("Better", "Worse", "Similar")
SAMPLING = Sampling(max_new_tokens=5)


def key(i):
    return bytes.fromhex(text_hash(str(i)))


def answer(i, value=None):
    return Answer(key(i), "labels", {"n": i} if value is None else value, "engine")


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


# ------------------------------------------------------------------------------------------------- the store


def test_what_is_put_is_got_exactly_and_the_first_answer_stays(store):
    values = {"lp": [-1 / 3, -np.pi, float("-inf"), -5e-324], "token": "é\u2028\ud800\x00", "none": None}
    assert store.put_many([answer(1, values), answer(2), answer(2, {"other": 1})]) == 2
    assert store.put_many([answer(1, {"other": 1})]) == 0
    assert store.get_many([key(1), key(2), key(3), key(1)]) == {key(1): values, key(2): {"n": 2}}
    assert len(store) == 2
    assert store.get_many([]) == {}
    assert store.put_many([]) == 0


def test_many_keys_are_got_at_once(store):
    store.put_many(answer(i) for i in range(0, 3000, 2))
    found = store.get_many(key(i) for i in range(3000))
    assert found == {key(i): {"n": i} for i in range(0, 3000, 2)}


def test_a_batch_is_stored_whole_or_not_at_all(store):
    def answers():
        yield answer(1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.put_many(answers())
    with pytest.raises(StoreError, match="NOT NULL"):
        store.put_many([answer(1), Answer(key(2), None, {}, "engine")])
    assert len(store) == 0
    assert store.put_many([answer(1)]) == 1


def test_stores_merge(tmp_path, store):
    with Store(tmp_path / "part.sqlite") as part:
        part.put_many(answer(i, [f"é{i}"]) for i in range(5))
    store.put_many([answer(4, ["first"]), answer(9)])
    assert store.merge(tmp_path / "part.sqlite") == 4
    assert store.merge(tmp_path / "part.sqlite") == 0
    assert store.merge(store.path) == 0
    assert len(store) == 6
    assert store.get_many([key(0), key(4)]) == {key(0): ["é0"], key(4): ["first"]}
    with sqlite3.connect(store.path) as db:
        kinds = db.execute("SELECT DISTINCT kind, typeof(kind), engine, typeof(value) FROM answers").fetchall()
    db.close()
    assert kinds == [("labels", "text", "engine", "text")]
    with pytest.raises(StoreError, match="no such file"):
        store.merge(tmp_path / "missing.sqlite")
    assert not (tmp_path / "missing.sqlite").exists()


def test_the_default_path_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("SYNTHSCORE_STORE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_store_path() == tmp_path / "synthscore" / "answers.sqlite"
    monkeypatch.setenv("SYNTHSCORE_STORE", "/elsewhere/a.sqlite")
    assert str(default_store_path()) == "/elsewhere/a.sqlite"


# ------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("damage", ["garbage", "middle", "truncated"])
def test_a_corrupt_file_is_set_aside_and_told_never_recreated_in_silence(tmp_path, damage):
    path = tmp_path / "answers.sqlite"
    with Store(path) as store:
        store.put_many(answer(i) for i in range(2000))
    good = path.read_bytes()
    middle = good[:4096] + b"\xff" * (len(good) - 4096)
    path.write_bytes(
        {"garbage": b"not a database " * 500, "middle": middle, "truncated": good[: len(good) // 2]}[damage]
    )
    damaged = path.read_bytes()
    told = r"is corrupt .* it is now answers.sqlite.corrupt-.*Run again to start"
    with pytest.raises(StoreError, match=told) as error, Store(path) as store:
        store.get_many(key(i) for i in range(2000))
    assert not path.exists()
    assert error.value.set_aside.read_bytes() == damaged
    with Store(path) as store:
        assert len(store) == 0


def test_a_value_that_is_not_json_is_corruption_too(tmp_path, store):
    store.put_many([answer(1)])
    store._db.execute("UPDATE answers SET value = CAST(x'7bff' AS TEXT)")
    with pytest.raises(StoreError, match=r"is not JSON.*Run again to start a new one"):
        store.get_many([key(1)])


def test_a_corrupt_part_sets_the_part_aside_and_not_the_whole(tmp_path, store):
    store.put_many([answer(1)])
    with Store(tmp_path / "part.sqlite") as part:
        part.put_many(answer(i) for i in range(2000))
    data = (tmp_path / "part.sqlite").read_bytes()
    (tmp_path / "part.sqlite").write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    with pytest.raises(StoreError, match=r"part.sqlite is corrupt"):
        store.merge(tmp_path / "part.sqlite")
    assert store.get_many([key(1)])


def test_a_database_of_another_program_or_a_later_format_is_left_alone(tmp_path):
    path = tmp_path / "other.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.commit()
    db.close()
    with pytest.raises(StoreError, match="database of another program"):
        Store(path)
    Store(tmp_path / "new.sqlite").close()
    db = sqlite3.connect(tmp_path / "new.sqlite")
    db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(StoreError, match=r"has format 99, expected at most 1\. Install a newer synthscore"):
        Store(tmp_path / "new.sqlite")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.sqlite", "other.sqlite"]
    with pytest.raises(StoreError, match="cannot open the store"):
        Store(tmp_path)


# ------------------------------------------------------------------------------------------------- several processes

WRITER = textwrap.dedent("""
    import sys
    from synthscore.store import Answer, Store
    from synthscore.types import text_hash

    path, start, stop, batch = sys.argv[1], *map(int, sys.argv[2:])
    with Store(path) as store:
        for first in range(start, stop, batch):
            numbers = range(first, first + batch)
            store.put_many(Answer(bytes.fromhex(text_hash(str(i))), "labels", {"n": i}, "engine") for i in numbers)
            print(first + batch, flush=True)
""")


def writer(path, start, stop, batch):
    command = [sys.executable, "-c", WRITER, str(path), str(start), str(stop), str(batch)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_a_killed_writer_loses_nothing_that_it_had_stored(tmp_path):
    path, rng = tmp_path / "answers.sqlite", np.random.default_rng(0)
    for _ in range(3):
        process = writer(path, 0, 10**7, 37)
        process.stdout.readline()
        time.sleep(rng.uniform(0, 0.1))
        process.send_signal(signal.SIGKILL)
        done = [int(line) for line in process.communicate()[0].splitlines() if line.endswith("\n") or line]
        stored = done[-1] if done else 37
        with Store(path) as store:
            assert len(store) >= stored
            assert len(store) % 37 == 0, "half a batch"
            assert store.get_many(key(i) for i in range(stored)) == {key(i): {"n": i} for i in range(stored)}
            assert store._db.execute("PRAGMA integrity_check").fetchone() == (b"ok",)


def test_two_processes_write_at_once(tmp_path):
    path = tmp_path / "answers.sqlite"
    processes = [writer(path, start, start + 3000, 50) for start in (0, 2000)]
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    with Store(path) as store:
        assert store.get_many(key(i) for i in range(6000)) == {key(i): {"n": i} for i in range(5000)}


# ------------------------------------------------------------------------------------------------- the stored engine


def same(one: LabelLogProbs, other: LabelLogProbs):
    np.testing.assert_array_equal(one.log_probs, other.log_probs)
    assert (one.labels, one.rivals, one.failures) == (other.labels, other.rivals, other.failures)


def test_a_rerun_asks_nothing_and_gives_the_same_numbers_to_the_last_bit(tmp_path):
    plain, inner = FakeEngine(own_judge), FakeEngine(own_judge)
    asked = prompts(*"abcab")
    for run in range(2):
        with Store(tmp_path / "answers.sqlite") as store:
            engine = StoredEngine(inner, store)
            assert isinstance(engine, Engine)
            assert engine.signature == inner.signature
            got = engine.label_log_probs(asked, LABELS)
            same(got, plain.label_log_probs(asked, LABELS))
            assert (got.tokens_naive, got.tokens_computed) == ((3, 3) if run == 0 else (0, 0))
    assert inner.judged == prompts(*"abc")


def test_only_what_is_missing_is_asked_once_in_the_given_order_and_in_batches(store):
    inner = FakeEngine(own_judge)
    engine = StoredEngine(inner, store, batch_size=2)
    engine.label_log_probs(prompts("b"), LABELS)
    ticks = []
    got = engine.label_log_probs(prompts(*"dbdcaa"), LABELS, ticks.append)
    assert inner.judged == prompts(*"bdca")
    assert inner.calls == [("judge", 1), ("judge", 2), ("judge", 1)]
    assert sum(ticks) == 6
    assert ticks[0] == 1, "the stored row is told first"
    same(got, FakeEngine(own_judge).label_log_probs(prompts(*"dbdcaa"), LABELS))
    empty = engine.label_log_probs([], LABELS)
    assert (len(empty), len(inner.calls)) == (0, 3)


@pytest.mark.parametrize("change", ["prompt", "prefill", "labels", "model"])
def test_whatever_can_change_an_answer_is_another_question(store, change):
    inner = FakeEngine(own_judge)
    StoredEngine(inner, store).label_log_probs([Prompt("a", "b")], LABELS)
    prompt = {"prompt": Prompt("ab", ""), "prefill": Prompt("a", "c")}.get(change, Prompt("a", "b"))
    other = FakeEngine(own_judge, name="other") if change == "model" else inner
    labels = ("Worse", "Better", "Similar") if change == "labels" else LABELS
    n = other.n_judged
    StoredEngine(other, store).label_log_probs([prompt], labels)
    assert other.n_judged == n + 1


def test_failures_are_told_but_not_stored(store):
    inner = FakeEngine(own_judge, failures={"b": "too long"})
    engine = StoredEngine(inner, store)
    got = engine.label_log_probs(prompts(*"abb"), LABELS)
    assert dict(got.failures) == {1: "too long", 2: "too long"}
    assert np.isnan(got.log_probs[1:]).all()
    assert got.rivals[1] is None
    inner.failures.clear()
    again = engine.label_log_probs(prompts(*"abb"), LABELS)
    assert again.failures == {}
    assert inner.judged == prompts("a", "b", "b")


def test_an_engine_without_rivals_is_stored_as_well(store):
    class NoRivals(FakeEngine):
        def label_log_probs(self, prompts, labels, progress=None):
            got = super().label_log_probs(prompts, labels, progress)
            return LabelLogProbs(got.labels, got.log_probs, (), got.failures)

    for _ in range(2):
        got = StoredEngine(NoRivals(own_judge), store).label_log_probs(prompts(*"ab"), LABELS)
        assert got.rivals == (None, None)


def test_an_interrupted_run_keeps_the_finished_batches_and_resumes_with_the_rest(store):
    class Dies(FakeEngine):
        def label_log_probs(self, prompts, labels, progress=None):
            if len(self.calls) == 2:
                raise KeyboardInterrupt
            return super().label_log_probs(prompts, labels, progress)

    dying, inner = Dies(own_judge), FakeEngine(own_judge)
    with pytest.raises(KeyboardInterrupt):
        StoredEngine(dying, store, batch_size=3).label_log_probs(prompts(*range(10)), LABELS)
    assert len(store) == 6
    got = StoredEngine(inner, store, batch_size=3).label_log_probs(prompts(*range(10)), LABELS)
    assert inner.judged == prompts(6, 7, 8, 9)
    same(got, FakeEngine(own_judge).label_log_probs(prompts(*range(10)), LABELS))


def test_generations_are_stored_by_prompt_sampling_and_seed_and_exceptions_are_not(store):
    def write(prompt, seed):
        if seed == 13 and not mended:
            raise ValueError("unlucky")
        return Generation(f"{prompt.text}\n{seed} ü", "length", 7)

    mended = []
    inner = FakeEngine(writer=write)
    engine = StoredEngine(inner, store, batch_size=2)
    ticks = []
    rows = engine.generate(prompts("a", "a", "b", "a"), SAMPLING, [1, 13, 1, 1], ticks.append)
    assert rows[0] == rows[3] == Generation("a\n1 ü", "length", 7)
    assert rows[2] == Generation("b\n1 ü", "length", 7)
    assert isinstance(rows[1], ValueError)
    assert (sum(ticks), inner.n_written, len(store)) == (4, 3, 2)
    mended.append(True)
    again = engine.generate(prompts("a", "a", "b"), SAMPLING, [1, 13, 1])
    assert [row.text for row in again] == ["a\n1 ü", "a\n13 ü", "b\n1 ü"]
    assert inner.n_written == 4
    engine.generate(prompts("a"), Sampling(max_new_tokens=5, temperature=0.1), [1])
    assert inner.n_written == 5
    with pytest.raises(ValueError, match="zip"):
        engine.generate(prompts("a", "b"), SAMPLING, [1])


def test_a_label_question_and_a_writing_question_never_share_an_answer(store):
    inner = FakeEngine(own_judge)
    engine = StoredEngine(inner, store)
    engine.label_log_probs(prompts("a"), ("5", "0.7", "0.9", "1"))
    engine.generate(prompts("a"), SAMPLING, [1])
    assert (inner.n_judged, inner.n_written, len(store)) == (1, 1, 2)


def test_the_file_can_be_read_by_hand(store):
    StoredEngine(FakeEngine(own_judge), store).label_log_probs(prompts("a"), LABELS)
    db = sqlite3.connect(store.path)
    ((kind, value, engine, created_at),) = db.execute("SELECT kind, value, engine, created_at FROM answers")
    db.close()
    assert (kind, engine) == ("labels", "model:fake|backend:fake")
    assert set(json.loads(value)) == {"log_probs", "rival"}
    assert abs(created_at - time.time()) < 100
    assert os.path.exists(f"{store.path}-wal")
