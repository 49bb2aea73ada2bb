import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.cli.app import main
from synthscore.engine import Prompt, Question, Sampling, generate, label_log_probs
from synthscore.errors import StoreError, SynthscoreWarning
from synthscore.signature import text_hash
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store, Stored
from synthscore.store.packing import n_shared, pack, unpack
from tests.fakes import FakeEngine

from .. import kills

LABELS = ("Better", "Worse", "Similar")


def key(i):
    return bytes.fromhex(text_hash(str(i)))


def answer(i, value=None, question=None):
    return Stored(key(i), "labels", {"n": i} if value is None else value, "engine", question)


def question(i):
    return Question(Prompt(f"A beginning that all share, and {i}."), LABELS)


def by_hand(path, query):
    with sqlite3.connect(path) as db:
        rows = db.execute(query).fetchall()
    db.close()
    return rows


def words(rng, n):
    """A text of n characters that does not compress."""
    return "".join(map(chr, rng.integers(33, 5000, n)))


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
        store.put_many([answer(1), Stored(key(2), None, {}, "engine")])
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
    query = "SELECT DISTINCT kind, typeof(kind), engine, typeof(value) FROM answers JOIN batches ON id = batch"
    assert by_hand(store.path, query) == [("labels", "text", "engine", "text")]
    with pytest.raises(StoreError, match="no such file"):
        store.merge(tmp_path / "missing.sqlite")
    assert not (tmp_path / "missing.sqlite").exists()


def test_the_default_path_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("SYNTHSCORE_STORE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Store() as store:
        assert store.path == tmp_path / "synthscore" / "answers.sqlite"
    monkeypatch.setenv("SYNTHSCORE_STORE", f"{tmp_path}/elsewhere/a.sqlite")
    with Store() as store:
        assert store.path == tmp_path / "elsewhere" / "a.sqlite"


# ------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize("damage", ["middle", "truncated"])
def test_a_corrupt_file_is_told_and_stays_as_it_is_never_recreated_in_silence(tmp_path, damage):
    path = tmp_path / "answers.sqlite"
    with Store(path) as store:
        store.put_many(answer(i) for i in range(2000))
    good = path.read_bytes()
    middle = good[:4096] + b"\xff" * (len(good) - 4096)
    path.write_bytes({"middle": middle, "truncated": good[: len(good) // 2]}[damage])
    damaged = path.read_bytes()
    told = r"is corrupt .* synthscore store salvage \S*answers.sqlite -o \S*answers.sqlite.new. Or move it away"
    for _ in range(2):
        with pytest.raises(StoreError, match=told), Store(path) as store:
            store.get_many(key(i) for i in range(2000))
    assert path.read_bytes() == damaged


@pytest.mark.parametrize("column", ["batch", "place", "key", "value", "checksum"])
def test_a_digit_that_changed_on_disk_costs_that_answer_alone(store, column):
    first = answer(1, {"log_probs": [-1.25]})
    store.put_many([first, answer(2)])
    change = {"key": f"x'{key(3).hex()}'", "value": """'{"log_probs":[-1.75]}'"""}.get(column, f"{column} + 5")
    store._db.execute(f"UPDATE answers SET {column} = {change} WHERE place = 0")
    if column == "batch":
        store._db.execute("INSERT INTO batches SELECT 6, kind, engine, created_at, questions FROM batches")
    with pytest.warns(SynthscoreWarning, match=r"^1 answer in the store .*answers.sqlite without the right checksum"):
        assert store.get_many([key(1), key(2), key(3)]) == {key(2): {"n": 2}}
    assert store.get_many([key(1), key(2), key(3)]) == {key(2): {"n": 2}}, "told once"
    assert [got for batch in store.batches() for got in store.read(batch)] == [answer(2)]
    assert store.put_many([first]) == 1, "it does not keep its key from being stored again"
    assert store.get_many([key(1), key(2), key(3)]) == {key(1): first.value, key(2): {"n": 2}}
    assert len(store) == 2


def test_damaged_answers_are_told_in_one_warning_and_asked_again_by_an_engine(store):
    inner = FakeEngine()
    asked = [Prompt(str(i)) for i in range(1500)]
    label_log_probs(StoredEngine(inner, store), asked, LABELS)
    store._db.execute("UPDATE answers SET checksum = checksum + 1 WHERE place % 3 = 0")
    n = inner.n_judged
    with pytest.warns(SynthscoreWarning, match="answers in the store") as told:
        got = label_log_probs(StoredEngine(inner, store), asked, LABELS)
    (warning,) = told
    assert str(warning.message).startswith(f"{inner.n_judged - n} answers in the store")
    assert inner.n_judged - n >= 500
    assert not got.failures
    label_log_probs(StoredEngine(inner, store), asked, LABELS)
    assert (inner.n_judged, len(store)) == (n + int(str(warning.message).split()[0]), 1500)


def test_a_merge_takes_the_good_answers_of_a_damaged_part(tmp_path, store):
    with Store(tmp_path / "part.sqlite") as part:
        part.put_many(answer(i) for i in range(3))
        part._db.execute("UPDATE answers SET checksum = checksum + 1 WHERE place = 0")
    with pytest.warns(SynthscoreWarning, match=r"1 answer in the store .*part.sqlite"):
        assert store.merge(tmp_path / "part.sqlite") == 2
    assert store.get_many(map(key, range(3))) == {key(i): {"n": i} for i in (1, 2)}


def flipped(tmp_path):
    """Copies of a store of 300 answers, each with one bit flipped: from byte 100 on, because the header says what file
    it is."""
    with Store(tmp_path / "good.sqlite") as store:
        store.put_many(answer(i, question=question(i)) for i in range(300))
    good, rng = (tmp_path / "good.sqlite").read_bytes(), np.random.default_rng(0)
    for flip in range(60):
        path, data = tmp_path / f"{flip}.sqlite", bytearray(good)
        data[rng.integers(100, len(data))] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        yield path


def require_right(store):
    """Every answer that is read is right, and its question is right or none."""
    for i, value in store.get_many(key(i) for i in range(300)).items():
        assert i == key(value["n"])
    for batch in store.batches():
        for got in store.read(batch):
            n = got.value["n"]  # its engine has no checksum
            assert got._replace(engine="engine", question=None) == answer(n)
            assert got.question in (None, question(n))


@pytest.mark.filterwarnings("ignore::synthscore.errors.SynthscoreWarning")
def test_a_flipped_bit_is_never_read_as_an_answer(tmp_path):
    """Every answer that is read from a damaged file is right; the rest is missing, or the file is an error."""
    n_told = 0
    for path in flipped(tmp_path):
        try:
            with Store(path) as store:
                require_right(store)
        except StoreError:
            n_told += 1
            assert path.exists()
    assert 2 < n_told < 40


def test_a_broken_page_costs_the_answers_on_it_and_salvage_brings_the_others_back(tmp_path):
    """Long values, which overflow their page; batches with and without questions."""
    rng = np.random.default_rng(0)
    values = {i: {"n": i, "text": words(rng, int(rng.choice([5, 900, 9000])))} for i in range(400)}
    with Store(tmp_path / "a.sqlite") as store:
        for start in range(0, 400, 50):
            asked = question if start % 100 else lambda i: None
            store.put_many(answer(i, values[i], asked(i)) for i in range(start, start + 50))
        dates = [(batch.kind, batch.engine, batch.created_at, batch.has_questions) for batch in store.batches()]
    good, n_back = (tmp_path / "a.sqlite").read_bytes(), []
    path = tmp_path / "damaged.sqlite"
    pages = [page for page in range(len(good) // 4096) if b"Better" not in good[4096 * page : 4096 * (page + 1)]]
    for page in pages[5::40]:
        damaged = good[: 4096 * page] + rng.bytes(4096) + good[4096 * (page + 1) :]
        path.write_bytes(damaged)
        with Store(tmp_path / f"new-{page}.sqlite") as new:
            n_back.append(new.salvage(path))
            found = new.get_many(map(key, range(400)))
            assert len(found) == len(new) == n_back[-1]
            assert found == {key(value["n"]): values[value["n"]] for value in found.values()}
            if n_back[-1] == 400:
                assert [(b.kind, b.engine, b.created_at, b.has_questions) for b in new.batches()] == dates
                assert new.read(new.batches()[1])[7].question == question(57)
            assert new.salvage(path) == 0, "it has them all"
        assert path.read_bytes() == damaged
    assert len(n_back) > 5
    assert min(n_back) >= 400 - 4096 // 40, "bytes of a page and of the smallest row"
    assert min(n_back) < 400


def test_salvage_reads_what_is_in_the_wal_alone_and_leaves_out_what_has_no_checksum(tmp_path):
    with Store(tmp_path / "a.sqlite") as store:
        for i in range(30):
            store.put_many([answer(i)])
        store._db.execute("UPDATE answers SET checksum = 0 WHERE batch < 3")
        for suffix in ("", "-wal"):  # as a crash of the machine leaves them
            shutil.copy(f"{store.path}{suffix}", tmp_path / f"b.sqlite{suffix}")
    with Store(tmp_path / "new.sqlite") as new:
        assert new.salvage(tmp_path / "b.sqlite") == 28


def test_answers_come_back_without_questions_or_an_engine_that_cannot_be_read(tmp_path, store):
    store.put_many([answer(1, question=question(1)), answer(2, question=question(2))])
    store.put_many([answer(4)])
    store._db.execute("UPDATE batches SET questions = x'00' WHERE id = 1")
    store._db.execute("UPDATE batches SET engine = CAST(x'ff' AS TEXT) WHERE id = 2")
    with Store(tmp_path / "new.sqlite") as new:
        assert new.salvage(store.path) == 3
        with pytest.warns(SynthscoreWarning, match="2 answers of batch 1 .* without their questions"):
            found = [answer for batch in new.batches() for answer in new.read(batch)]
        assert found == [answer(1), answer(2), answer(4)._replace(engine="\ufffd")]


def test_a_batch_whose_questions_broke_off_keeps_its_answers(tmp_path, store):
    rng = np.random.default_rng(0)
    asked = Question(Prompt(words(rng, 50_000)), LABELS)
    store.put_many([answer(1, question=asked)])
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = store.path.read_bytes()
    (tmp_path / "damaged.sqlite").write_bytes(data[: len(data) - 3 * 4096])
    with Store(tmp_path / "new.sqlite") as new:
        assert new.salvage(tmp_path / "damaged.sqlite") == 1
        assert new.read(new.batches()[0]) == [answer(1)]


def test_salvage_of_nothing_says_so(tmp_path, store):
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "garbage").write_bytes(np.random.default_rng(0).bytes(100_000))
    for name in ("empty", "garbage"):
        with pytest.raises(StoreError, match="reads no answer with a right checksum"):
            store.salvage(tmp_path / name)
    with pytest.raises(StoreError, match="no such file"):
        store.salvage(tmp_path / "missing")
    with pytest.raises(StoreError, match="is the store itself"):
        store.salvage(store.path)


def test_a_table_that_has_lost_a_column_is_corruption(store):
    store.put_many([answer(1)])
    store._db.execute("ALTER TABLE answers RENAME COLUMN value TO valve")
    with pytest.raises(StoreError, match=r"is corrupt \(no such column"):
        store.get_many([key(1)])


@pytest.mark.parametrize(
    ("packed", "told"), [(b"garbage", "cannot be read"), (zlib.compress(b"[]"), "more answers than questions")]
)
def test_answers_whose_questions_cannot_be_read_come_without_them(store, packed, told):
    store.put_many([answer(1, question=question(1)), answer(2, question=question(2))])
    store._db.execute("UPDATE batches SET questions = ?", (packed,))
    (batch,) = store.batches()
    with pytest.warns(SynthscoreWarning, match=f"the 2 answers of batch 1 .* without their questions.*{told}"):
        assert store.read(batch) == [answer(1), answer(2)]
    assert store.path.exists()


@pytest.mark.parametrize("damage", ["truncated", "flipped", "gone"])
def test_a_damaged_wal_costs_its_last_batches_and_spoils_nothing(tmp_path, damage):
    with Store(tmp_path / "a.sqlite") as store:
        store.put_many([answer(0)])
        store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for i in range(1, 30):
            store.put_many([answer(i)])
        for suffix in ("", "-wal"):  # as a crash of the machine leaves them
            shutil.copy(f"{store.path}{suffix}", tmp_path / f"b.sqlite{suffix}")
    wal = tmp_path / "b.sqlite-wal"
    data = wal.read_bytes()
    half = len(data) // 2
    wal.write_bytes(
        {"truncated": data[: half + 11], "flipped": data[:half] + b"\xff" + data[half + 1 :], "gone": b""}[damage]
    )
    with Store(tmp_path / "b.sqlite") as store:
        found = store.get_many(key(i) for i in range(30))
        assert store._db.execute("PRAGMA integrity_check").fetchone() == (b"ok",)
    assert found == {key(i): {"n": i} for i in range(len(found))}
    assert len(found) == 1 if damage == "gone" else 5 < len(found) < 25


def test_a_corrupt_part_sets_the_part_aside_and_not_the_whole(tmp_path, store):
    store.put_many([answer(1)])
    with Store(tmp_path / "part.sqlite") as part:
        part.put_many(answer(i) for i in range(2000))
    data = (tmp_path / "part.sqlite").read_bytes()
    (tmp_path / "part.sqlite").write_bytes(data[:4096] + b"\xff" * (len(data) - 4096))
    with pytest.raises(StoreError, match=r"part.sqlite is corrupt"):
        store.merge(tmp_path / "part.sqlite")
    assert store.get_many([key(1)])


def test_a_database_of_another_program_or_another_format_is_left_alone(tmp_path):
    path = tmp_path / "other.sqlite"
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE bookmarks (url TEXT)")
    db.commit()
    db.close()
    with pytest.raises(StoreError, match="database of another program"):
        Store(path)
    Store(tmp_path / "new.sqlite").close()
    for version, remedy in ((99, "Install a newer synthscore"), (1, "Name another file")):
        db = sqlite3.connect(tmp_path / "new.sqlite")
        db.execute(f"PRAGMA user_version={version}")
        db.close()
        with pytest.raises(StoreError, match=rf"has format {version}, expected 2\. {remedy}"):
            Store(tmp_path / "new.sqlite")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["new.sqlite", "other.sqlite"]
    with pytest.raises(StoreError, match="cannot open the store"):
        Store(tmp_path)


# ------------------------------------------------------------------------------------------------- several processes

WRITER = textwrap.dedent("""
    import sys
    from synthscore.store.file import Stored
    from synthscore.store.file import Store
    from synthscore.signature import text_hash


    path, start, stop, batch = sys.argv[1], *map(int, sys.argv[2:])
    with Store(path) as store:
        for first in range(start, stop, batch):
            numbers = range(first, first + batch)
            store.put_many(Stored(bytes.fromhex(text_hash(str(i))), "labels", {"n": i}, "engine") for i in numbers)
            print(first + batch, flush=True)
""")


def writer(path, start, stop, batch):
    command = [sys.executable, "-c", WRITER, str(path), str(start), str(stop), str(batch)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs kill -9")
def test_a_killed_writer_loses_nothing_that_it_had_stored_and_spoils_nothing(tmp_path):
    """benchmarks/kills.py does the same a hundred times."""
    counts = kills.kill_often(tmp_path / "answers.sqlite", n_kills=8, n=10_000)
    assert counts == sorted(set(counts)), "every run went on where the one before was killed"


def test_two_processes_write_at_once(tmp_path):
    path = tmp_path / "answers.sqlite"
    processes = [writer(path, start, start + 3000, 50) for start in (0, 2000)]
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    with Store(path) as store:
        assert store.get_many(key(i) for i in range(6000)) == {key(i): {"n": i} for i in range(5000)}


def test_several_threads_use_one_store(store):
    with ThreadPoolExecutor(8) as pool:
        n_new = list(
            pool.map(lambda start: store.put_many(answer(i) for i in range(start, start + 40)), range(0, 400, 20))
        )
        found = list(pool.map(lambda i: store.get_many([key(i)]), range(420)))
    assert sum(n_new) == len(store) == 420
    assert found == [{key(i): {"n": i}} for i in range(420)]


# ------------------------------------------------------------------------------------------------- questions

TEXTS = st.text(st.characters(codec="utf-8"), max_size=30)
QUESTIONS = st.builds(
    lambda shared, text, prefill, labels, ordered: Question(
        Prompt(shared + text, prefill, len(shared)), tuple(labels), ordered=ordered
    ),
    st.sampled_from(["", "The same beginning, é, ", "The same end"]),
    TEXTS,
    TEXTS,
    st.lists(TEXTS, max_size=3),
    st.booleans(),
)
WRITINGS = st.builds(
    lambda text, n, temperature, seed, stop: Question(Prompt(text), (), Sampling(n, temperature, 0.9, stop), seed),
    TEXTS,
    st.integers(1, 999),
    st.floats(0, 2) | st.integers(0, 1),
    st.integers(0, 2**63),
    st.lists(TEXTS.filter(bool), max_size=2).map(tuple),
)


@settings(max_examples=60)
@given(st.lists(QUESTIONS) | st.lists(WRITINGS))
def test_questions_come_back_as_they_were_to_the_key(questions):
    got = unpack(pack(questions))
    assert got == questions
    assert [q.key("engine") for q in got] == [q.key("engine") for q in questions]


@settings(max_examples=60)
@given(st.text("ab", max_size=12), st.text("ab", max_size=12))
def test_what_two_texts_share_is_their_longest_common_beginning(one, other):
    same = [a == b for a, b in zip(one, other, strict=False)]
    assert n_shared(one, other) == [*same, False].index(False)


def test_what_prompts_share_is_stored_once_however_long_it_is():
    rng = np.random.default_rng(0)
    context, ends = words(rng, 100_000), [words(rng, 50) for _ in range(40)]
    one = len(pack([Question(Prompt(context + ends[0]))]))
    forty = len(pack([Question(Prompt(context + end)) for end in ends]))
    assert forty - one < 40 * 400  # bytes; an end takes at most 6 a character, and the context hundreds of thousands


def test_answers_with_and_without_questions_lie_in_batches_of_their_own(store):
    store.put_many([answer(1), answer(2, question=question(2)), answer(3), answer(4, question=question(4))])
    without, with_ = store.batches()
    assert (without.n_answers, without.has_questions, with_.n_answers, with_.has_questions) == (2, False, 2, True)
    assert store.read(without) == [answer(1), answer(3)]
    assert store.read(with_) == [answer(2, question=question(2)), answer(4, question=question(4))]


def test_an_answer_that_was_there_leaves_the_others_their_own_questions(store):
    store.put_many([answer(2, question=question(2))])
    store.put_many(answer(i, question=question(i)) for i in (1, 2, 3))
    first, second = store.batches()
    assert (first.n_answers, second.n_answers) == (1, 2)
    assert store.read(second) == [answer(1, question=question(1)), answer(3, question=question(3))]
    store.put_many(answer(i, question=question(i)) for i in (1, 2, 3))
    assert by_hand(store.path, "SELECT count(*) FROM batches") == [(2,)], "a batch without a new answer is not kept"


def test_a_merge_carries_questions_along(tmp_path, store):
    with Store(tmp_path / "part.sqlite") as part:
        for start in range(0, 9000, 900):
            part.put_many(answer(i, question=question(i)) for i in range(start, start + 900))
        part.put_many([answer(9000)])
    store.put_many([answer(5)])
    assert store.merge(tmp_path / "part.sqlite") == 9000
    batches = store.batches()
    assert [batch.n_answers for batch in batches] == [1, 899, *[900] * 9, 1]
    assert [batch.has_questions for batch in batches] == [False, *[True] * 10, False]
    for batch in batches[1:-1]:
        for got in store.read(batch):
            assert got == answer(got.value["n"], question=question(got.value["n"]))


def test_a_merge_keeps_the_dates(tmp_path, store):
    with Store(tmp_path / "part.sqlite") as part:
        part.put_many([answer(1)])
        part._db.execute("UPDATE batches SET created_at = 1234567890")
    store.merge(tmp_path / "part.sqlite")
    assert [batch.created_at for batch in store.batches()] == [1234567890]


# ------------------------------------------------------------------------------------------------- size


def fill(store, batches, n=30):
    """Batches of n answers, about 70 kB each; the batch of number i is stored at second i."""
    for i in batches:
        rng = np.random.default_rng(i)
        questions = [Question(Prompt(words(rng, 800)), LABELS) for _ in range(n)]
        with mock.patch("time.time", lambda i=i: i):
            store.put_many(answer(1000 * i + j, {"n": i}, questions[j]) for j in range(n))


# ------------------------------------------------------------------------------------------------- by hand


def test_the_file_can_be_read_by_hand(store):
    label_log_probs(StoredEngine(FakeEngine(), store), [Prompt("a")], LABELS)
    query = "SELECT kind, value, engine, created_at FROM answers JOIN batches ON id = batch"
    ((kind, value, engine, created_at),) = by_hand(store.path, query)
    assert (kind, engine) == ("labels", "model:fake|backend:fake")
    assert set(json.loads(value)) == {"log_probs", "rival"}
    assert abs(created_at - time.time()) < 100
    assert os.path.exists(f"{store.path}-wal")


# ------------------------------------------------------------------------------------------------- the command line


@pytest.fixture
def filled(store):
    """Two engines, verdicts and texts, with and without questions."""
    label_log_probs(StoredEngine(FakeEngine(), store), [Prompt("a", "x"), Prompt("b")], LABELS)
    generate(StoredEngine(FakeEngine(name="other"), store), [Prompt("c")], Sampling(9, 0, 0.5), [7])
    store.put_many([answer(1, {"log_probs": [-1.5, float("-inf")], "rival": None})])
    store._db.execute("UPDATE batches SET created_at = 86400 * id")
    return store


def test_info_counts_answers_by_engine_and_kind(filled, capsys):
    assert main(["store", "info", "--store", str(filled.path)]) == 0
    first, blank, header, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{filled.path}: ")
    assert first.endswith("0.02 MB, format 2, 4 answers")
    assert blank == ""
    assert header.split("  ")[0] == "kind"
    assert [row.split() for row in rows[:3]] == [
        ["labels", "2", "2", "1970-01-02", "1970-01-02", "model:fake|backend:fake"],
        ["text", "1", "1", "1970-01-03", "1970-01-03", "model:other|backend:fake"],
        ["labels", "1", "0", "1970-01-04", "1970-01-04", "engine"],
    ]
    assert any("model:fake|backend:fake" in row for row in rows[3:]), "what each engine took"


def test_show_writes_answers_with_their_questions(filled, capsys):
    show = ["store", "show", "--store", str(filled.path)]
    assert main(show) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == {
        "key": Question(Prompt("a", "x"), LABELS).key("model:fake|backend:fake").hex(),
        "kind": "labels",
        "engine": "model:fake|backend:fake",
        "created_at": "1970-01-02T00:00:00Z",
        "question": {"text": "a", "prefill": "x", "labels": list(LABELS)},
        "answer": {"log_probs": [np.log(0.3)] * 3, "rival": ["The", np.log(0.05)]},
    }
    how = {"max_new_tokens": 9, "temperature": 0, "top_p": 0.5, "seed": 7}
    assert rows[2]["question"] == {"text": "c", "prefill": "", **how}
    assert rows[2]["answer"] == ["Text 7 of 1 characters.", "stop", 5]
    assert rows[3]["question"] is None
    assert rows[3]["answer"]["log_probs"] == [-1.5, "-inf"]
    for options, n in [
        (["--kind", "labels"], 3),
        (["--engine", "other"], 1),
        (["--engine", "fake", "--kind", "labels", "--limit", "1"], 1),
        (["--engine", "nobody"], 0),
    ]:
        assert main([*show, *options]) == 0
        said = capsys.readouterr()
        assert len(said.out.splitlines()) == n
        assert ("no answer" in said.err) == (n == 0)


def test_merge_says_what_it_did(filled, tmp_path, capsys):
    with Store(tmp_path / "big.sqlite") as big:
        fill(big, range(1, 30))
    whole = str(tmp_path / "new" / "whole.sqlite")
    assert main(["store", "merge", str(filled.path), str(big.path), "--store", whole]) == 0
    said = capsys.readouterr().err
    assert f"{filled.path}: 4 new answers\n" in said
    assert f"{whole}: 874 answers\n" in said


def test_salvage_says_how_many_came_back(store, tmp_path, capsys):
    store.put_many(answer(i, question=question(i)) for i in range(200))
    damaged, new = tmp_path / "damaged.sqlite", tmp_path / "new" / "answers.sqlite"
    store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(store.path, damaged)
    by_hand(damaged, "UPDATE answers SET checksum = 0 WHERE place < 3")
    assert main(["store", "salvage", str(damaged), "-o", str(new)]) == 0
    assert f"{new}: 197 answers of {damaged} came back" in capsys.readouterr().err
    assert main(["store", "salvage", "missing.sqlite", "-o", str(tmp_path / "none.sqlite")]) == 1
    assert "cannot salvage missing.sqlite: there is no such file" in capsys.readouterr().err
    assert not (tmp_path / "none.sqlite").exists()


@pytest.mark.parametrize("action", ["info", "show"])
def test_looking_at_a_store_that_is_not_there_makes_none(tmp_path, action, capsys):
    path = tmp_path / "none.sqlite"
    assert main(["store", *action.split(), "--store", str(path)]) == 1
    assert "there is no such file" in capsys.readouterr().err
    assert not path.exists()


def test_nothing_is_merged_if_a_part_is_not_there(filled, tmp_path, capsys):
    whole = tmp_path / "whole.sqlite"
    assert main(["store", "merge", str(filled.path), "missing.sqlite", "--store", str(whole)]) == 1
    assert "cannot merge missing.sqlite" in capsys.readouterr().err
    assert not whole.exists()


def test_a_disk_that_takes_no_more_is_told_in_words_and_what_was_stored_stays(tmp_path):
    """As on a full disk: SQLite calls that an I/O error."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    kept = []
    store = Store(tmp_path / "s.sqlite")

    def fill():
        for number in range(100):
            store.put_many([answer(number, "x" * 5000)])
            kept.append(key(number))

    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
        with pytest.raises(StoreError, match=r"its disk is full, or failed .*\. Nothing stored is lost\. See to that"):
            fill()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    store.close()
    assert kept
    with Store(tmp_path / "s.sqlite") as again:
        assert again.get_many(key(number) for number in range(100)).keys() == set(kept)
