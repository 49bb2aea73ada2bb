"""Whatever gives an answer, it is checked where it is read: from an engine, a store, a recording."""

import base64
import contextlib
import json
import math
import sqlite3
import warnings
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscore.cli.app import main
from synthscore.engine import (
    Answers,
    Capabilities,
    Generation,
    LabelAnswer,
    OtherToken,
    Prompt,
    Question,
    Sampling,
    ask_engine,
    find_fault,
    generate,
    label_log_probs,
    rewards,
    token_log_probs,
)
from synthscore.errors import EngineError, StoreError, SynthscoreWarning
from synthscore.signature import Signature
from synthscore.store import packing
from synthscore.store.engine import RecordedEngine, StoredEngine, StoredVerdicts, answer_of
from synthscore.store.file import VERDICTS, Store, Stored
from synthscore.store.packing import crc, unpack
from tests.fakes import FakeEngine
from tests.fuzz.changes import as_json, changed_values, settled

LABELS = ("Better", "Worse", "Similar")
SAMPLING = Sampling(max_new_tokens=5)
ASKED = {
    "labels": Question(Prompt("p"), LABELS),
    "text": Question(Prompt("p"), (), SAMPLING),
    "tokens": Question(Prompt("p"), continuation="two words"),
}
GOOD = {
    "labels": {"log_probs": [-1.0, -2.0, -3.0], "rival": ["The", -4.0]},
    "text": ["a text", "stop", 2],
    "tokens": [-0.5, -0.25],
}
NAN, INF, HUGE = math.nan, math.inf, 10**400


def labels(*log_probs, **parts):
    return LabelAnswer(log_probs, **parts)


USABLE = [
    labels(-1.0, -2.0, -3.0),
    labels(-INF, -INF, -INF),
    labels(0.0, -INF, -INF),
    labels(5e-5, -INF, -40),  # float32
    labels(*np.log([0.3, 0.3, 0.4]).astype(np.float32)),
    labels(-0.1, -0.1, -0.1, censored=[False, True, True]),  # the most that they can be: together more than 1
    labels(-0.1, -3.0, -3.0, censored=[False, True, True], floors=[-INF, -5.0, -INF]),
    labels(-1.0, -1.5, -2.0, other_token=OtherToken("The", -INF)),
]
UNUSABLE = [
    labels(-0.05, -0.05, -0.05),
    labels(-1.0, -2.0),
    labels(-1.0, -2.0, -3.0, -4.0),
    labels(NAN, -2.0, -3.0),
    labels(INF, -2.0, -3.0),
    labels(0.5, -2.0, -3.0),
    labels(-HUGE, -2.0, -3.0),
    labels("-1.0", -2.0, -3.0),
    labels(True, -2.0, -3.0),
    labels(False, -2.0, -3.0),
    labels(None, -2.0, -3.0),
    LabelAnswer(None),
    LabelAnswer("abc"),
    labels(-1.0, -2.0, -3.0, censored=[False, True]),
    labels(-1.0, -2.0, -3.0, censored=[0, 1, 0]),
    labels(-1.0, -2.0, -3.0, censored=[False, True, False], floors=[-INF, -1.0, -INF]),
    labels(-1.0, -2.0, -3.0, censored=[False, True, False], floors=[-INF, NAN, -INF]),
    labels(-1.0, -2.0, -3.0, censored=[False, True, False], floors=[-INF]),
    labels(-1.0, -2.0, -3.0, floors=[-INF] * 3),
    labels(-1.0, -2.0, -3.0, other_token=["The", -4.0]),
    labels(-1.0, -2.0, -3.0, other_token=OtherToken(5, -4.0)),
    labels(-1.0, -2.0, -3.0, other_token=OtherToken("The", 4.0)),
    Generation("a", "stop", 1),
    None,
]


@pytest.mark.parametrize("answer", USABLE)
def test_an_answer_on_labels_that_can_be_one_is_taken(answer):
    assert find_fault(answer, ASKED["labels"]) == ""


@pytest.mark.parametrize("answer", UNUSABLE)
def test_an_answer_on_labels_that_cannot_be_one_is_named(answer):
    assert find_fault(answer, ASKED["labels"])


@pytest.mark.parametrize(
    "answer",
    [
        Generation("a", "end", 1),
        Generation("a", "stop", -1),
        Generation("a", "stop", 1.5),
        Generation("a", "stop", True),
        Generation(None, "stop", 1),
        Generation("\ud800", "stop", 1),
        labels(-1.0, -2.0, -3.0),
        "a",
    ],
)
def test_a_text_that_cannot_be_one_is_named(answer):
    assert find_fault(Generation("a", "length", np.int64(1)), ASKED["text"]) == ""
    assert find_fault(answer, ASKED["text"])


@pytest.mark.parametrize(
    ("answer", "is_token", "is_reward"),
    [
        (np.array([-1.0, -INF]), True, False),
        (np.array([-1.0]), True, True),
        (np.array([1.0]), False, True),
        (np.array([-INF]), True, False),
        (np.array([NAN]), False, False),
        (np.array([]), False, False),
        (np.array([[-1.0]]), False, False),
        (np.array(["-1.0"]), False, False),
        (np.array([True]), False, False),
        ([-1.0], False, False),
    ],
)
def test_what_was_read_of_a_continuation_is_log_probabilities_or_one_reward(answer, is_token, is_reward):
    assert (find_fault(answer, ASKED["tokens"]) == "") == is_token
    assert (find_fault(answer, ASKED["tokens"], gives_rewards=True) == "") == is_reward


# ------------------------------------------------------------------------------------------------- of an engine


class Giving:
    """Gives these answers, whatever it is asked."""

    signature = Signature.of(model="odd")

    def __init__(self, *rows, gives_rewards=False):
        self.rows, self.capabilities = rows, Capabilities(gives_rewards=gives_rewards)

    def answer(self, questions, progress=None):
        return Answers(self.rows)


def test_what_an_engine_gives_that_is_no_answer_fails_its_question_with_one_warning(tmp_path):
    engine = Giving(labels(-1.0, -2.0, -3.0), labels(-0.05, -0.05, -0.05), labels(NAN, -1.0, -1.0), EngineError("no"))
    asked = [Prompt(str(i)) for i in range(4)]
    told = r"^2 of 4 answers of model:odd cannot be used and count as failed; the first: .* add up to 2.854, expected"
    with pytest.warns(SynthscoreWarning, match=told) as warned:
        got = label_log_probs(engine, asked, LABELS)
    assert len(warned) == 1
    assert set(got.failures) == {1, 2, 3}
    assert "add up to 2.854" in got.failures[1]
    with Store(tmp_path / "s.sqlite") as store:
        with pytest.warns(SynthscoreWarning, match=told) as warned:
            label_log_probs(StoredEngine(engine, store), asked, LABELS)
        assert len(warned) == 1
        assert len(store) == 1, "what cannot be used is not stored"


def test_every_door_to_an_engine_is_checked():
    with pytest.warns(SynthscoreWarning, match="finish_reason"):
        assert isinstance(generate(Giving(Generation("a", "x", 1)), [Prompt("p")], SAMPLING, [0])[0], EngineError)
    with pytest.warns(SynthscoreWarning, match="a log-probability is nan"):
        assert isinstance(token_log_probs(Giving(np.array([NAN])), [Prompt("p")], ["a"])[0], EngineError)
    with pytest.warns(SynthscoreWarning, match="expected one finite number"):
        found = rewards(Giving(np.array([INF]), gives_rewards=True), [Prompt("p")], ["a"])
    assert isinstance(found[0], EngineError)


def test_an_engine_gives_one_answer_a_question():
    with pytest.raises(EngineError, match="gave 0 answers to 1 questions, expected one each"):
        ask_engine(Giving(), [ASKED["labels"]])


# ------------------------------------------------------------------------------------------------- of a store


def put(path, kind, text, questions=None, created_at=0):
    """A store of one answer with a right checksum, of the engine "model:fake|backend:fake"."""
    engine = str(FakeEngine().signature)
    key = ASKED[kind].key(engine)
    with Store(path) as store:
        store.put_many([Stored(key, kind, GOOD[kind], engine, ASKED[kind])])
        checksum = crc(1, 0, key, text)
        store._db.execute("UPDATE answers SET value = CAST(? AS TEXT), checksum = ?", (text, checksum))
        if questions is not None:
            store._db.execute("UPDATE batches SET questions = ?", (questions,))
        store._db.execute("UPDATE batches SET created_at = ?", (created_at,))
    return path


def ask_again(path, kind):
    """What a store and a recording of it give."""
    with Store(path) as store:
        inner = FakeEngine()
        stored = StoredEngine(inner, store).answer([ASKED[kind]]).rows[0]
        n_asked = len(inner.calls)
        again = StoredEngine(inner, store).answer([ASKED[kind]]).rows[0]
        assert len(inner.calls) == n_asked, "what cannot be used is replaced"
        assert repr(stored) == repr(again)
    return stored, n_asked


BAD_VALUES = [
    ("labels", b'{"log_probs":[-0.05,-0.05,-0.05],"rival":null}'),
    ("labels", b'{"log_probs":[NaN,-1.0,-1.0],"rival":null}'),
    ("labels", b'{"log_probs":[1e308,-1.0,-1.0],"rival":null}'),
    ("labels", b'{"log_probs":["-1.0","-1.0","-1.0"],"rival":null}'),
    ("labels", b'{"log_probs":[-1.0,-2.0],"rival":null}'),
    ("labels", b'{"log_probs":[-1.0,-2.0,-3.0],"rival":5}'),
    ("labels", b"null"),
    ("labels", b"{}"),
    ("labels", b"[1,2]"),
    ("labels", b"no JSON"),
    ("labels", b"\xff"),
    ("labels", b"[" * 100_000),
    ("labels", b'{"log_probs":' * 50_000),
    ("labels", b'{"log_probs":' + b"[" * 500 + b"]" * 500 + b"}"),
    ("text", b'["a","stop",2,3]'),
    ("text", b'["a","stop","2"]'),
    ("text", b"[null,null,null]"),
    ("tokens", b'["-1.0"]'),
    ("tokens", b"[1.0]"),
    ("tokens", b"[[-1.0],[-1.0,-2.0]]"),
    ("tokens", b"{}"),
]


@pytest.mark.parametrize(("kind", "text"), BAD_VALUES)
def test_a_stored_answer_that_cannot_be_used_counts_as_missing_and_is_replaced(kind, text, tmp_path):
    path = put(tmp_path / "s.sqlite", kind, text)
    with pytest.warns(SynthscoreWarning, match="1 answer in the store .* cannot be used and count as missing"):
        (row,) = RecordedEngine(str(path)).answer([ASKED[kind]]).rows
    assert isinstance(row, EngineError)
    with pytest.warns(SynthscoreWarning, match="cannot be used") as warned:
        found, n_asked = ask_again(path, kind)
    assert len(warned) == n_asked == 1
    assert find_fault(found, ASKED[kind]) == ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not isinstance(RecordedEngine(str(path)).answer([ASKED[kind]]).rows[0], EngineError)


@pytest.mark.parametrize("kind", list(GOOD))
@settled(120)
@given(data=st.data())
def test_a_stored_answer_with_other_values_in_it_is_as_good_as_any_or_missing(kind, data, tmp_path_factory):
    text = as_json(data.draw(changed_values(GOOD[kind])))
    path = put(tmp_path_factory.mktemp("s") / "s.sqlite", kind, text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SynthscoreWarning)
        (recorded,) = RecordedEngine(str(path)).answer([ASKED[kind]]).rows
        found, n_asked = ask_again(path, kind)
    assert n_asked == isinstance(recorded, EngineError)
    assert find_fault(found, ASKED[kind]) == ""
    if kind == "labels":
        assert math.fsum(map(math.exp, found.log_probs)) <= 1.01 or found.censored is not None


def test_verdicts_on_whole_texts_that_are_none_count_as_missing(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        verdicts = StoredVerdicts(store, Signature.of(model="m"), "asked")
        values = [5, None, [], "x", "AAAA", *map(base64_of, ([0.5, NAN, 0.5], [2.0, 0.0, 0.0], [-0.1, 0.5, 0.6]))]
        keys = [bytes([i]) * 32 for i in range(len(values) + 1)]
        store.put_many(
            Stored(key, VERDICTS, value, "e")
            for key, value in zip(keys, [*values, base64_of([0.2, 0.3, 0.5])], strict=True)
        )
        with pytest.warns(SynthscoreWarning, match=f"{len(values)} answers in the store .* cannot be used") as warned:
            found = verdicts.get_many(keys, 1, 1)
    assert len(warned) == 1
    assert {key: value.tolist() for key, value in found.items()} == {keys[-1]: [[[0.2, 0.3, 0.5]]]}


def base64_of(values):
    return base64.b64encode(np.array(values, dtype="<f8").tobytes()).decode()


def test_answer_of_says_what_cannot_be_one():
    assert answer_of("text", ["a", "stop", 1]) == Generation("a", "stop", 1)
    with pytest.raises(ValueError, match="no answer is stored as"):
        answer_of("labels", [])


# ------------------------------------------------------------------------------------------------- a stranger's file

VERBS = {
    "info": ["info", "--store", "{stranger}"],
    "show": ["show", "--store", "{stranger}"],
    "merge": ["merge", "{stranger}", "--store", "{new}"],
    "salvage": ["salvage", "{stranger}", "-o", "{new}"],
}


def run(verb, stranger, tmp_path):
    """What it warns of. Anything but an error of the tree would leave main()."""
    new = tmp_path / "new.sqlite"
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert main(["store", *(part.format(stranger=stranger, new=new) for part in VERBS[verb])]) in (0, 1)
    return " ".join(str(warning.message) for warning in warned)


@pytest.mark.parametrize("verb", list(VERBS))
@pytest.mark.parametrize("text", [b"[" * 100_000, b'{"a":' * 50_000, b"no JSON", b"\xff", b"NaN", b"9" * 5000])
def test_a_value_that_is_no_json_is_counted_as_damaged(verb, text, tmp_path, capsys):
    warned = run(verb, put(tmp_path / "s.sqlite", "labels", text), tmp_path)
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    if verb == "show" and text != b"NaN":
        assert out == ""
        assert "1 answer in the store" in warned + err


@pytest.mark.parametrize(
    "questions",
    [
        b"x",
        zlib.compress(b"[" * 100_000),
        zlib.compress(b"[[0,[],[],[]]]"),
        zlib.compress(b'[[0,"a","",{}]]'),
        zlib.compress(b'[[0,"a",[5,"x"],["A"]]]'),
        zlib.compress(b'[[0,"a","",[1,2]]]'),
        zlib.compress(b'[[0,"\\ud800","",["A"]]]'),
        zlib.compress(b'[[0,"a","",["A"]]]')[:-6],
        zlib.compress(b"[" + b"[]," * 2_000_000 + b"[]]", 1),
        5,
        1.5,
    ],
)
def test_questions_that_cannot_be_read_cost_no_answer(questions, tmp_path, capsys):
    path = put(tmp_path / "s.sqlite", "labels", as_json(GOOD["labels"]), questions)
    warned = "".join(run(verb, path, tmp_path) for verb in VERBS)
    out, err = capsys.readouterr()
    (row,) = map(json.loads, filter(lambda line: line.startswith("{"), out.splitlines()))
    assert row["question"] is None
    assert row["answer"] == GOOD["labels"]
    assert "come without their questions" in warned + err


def test_questions_are_unpacked_to_a_bounded_size(monkeypatch):
    packed = zlib.compress(b'[[0,"' + b"x" * 100_000 + b'","",["A"]]' + b',[100000,"","",["A"]]' * 20 + b"]")
    assert len(unpack(packed)) == 21
    for most, said in ((10_000, "more than 10,000 bytes"), (1_000_000, "more than 1,000,000 characters")):
        monkeypatch.setattr(packing, "MOST_UNPACKED", most)
        with pytest.raises(sqlite3.DatabaseError, match=said):
            unpack(packed)


@pytest.mark.parametrize("created_at", [2**60, -1, -(2**63), 253402300800, "x", 1.5, b"x"])
def test_a_time_that_is_none_leaves_the_batch_out(created_at, tmp_path, capsys):
    path = put(tmp_path / "s.sqlite", "labels", as_json(GOOD["labels"]), created_at=created_at)
    warned = "".join(run(verb, path, tmp_path) for verb in VERBS)
    out, err = capsys.readouterr()
    assert "0 answers" in out
    assert "no kind, engine or time that can be read" in warned + err


def test_no_signature_changes_what_a_terminal_shows(tmp_path, capsys):
    path = put(tmp_path / "s.sqlite", "labels", as_json(GOOD["labels"]))
    with Store(path) as store:
        store._db.execute("UPDATE batches SET engine = ?", ("model:a\x1b[2Jb\x9bc\nd",))
    for verb in VERBS:
        run(verb, path, tmp_path)
    assert main(["store", "show", "--store", str(path), "--kind", "text"]) == 0
    out, err = capsys.readouterr()
    assert "model:a" in out
    assert not set("\x1b\x9b") & set(out + err)
    with pytest.raises(EngineError, match="answers of 0 engines"):
        RecordedEngine(f"{path}#other")


@settled(40)
@given(data=st.data())
def test_the_verbs_of_a_store_take_any_json_for_what_it_holds(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("s")
    text = as_json(data.draw(changed_values(GOOD["labels"])))
    packed = [[0, "p", "", ["Better", "Worse", "Similar"]], [1, "q", ["", 1], {"levels": ["a", "b"]}]]
    packed += [[0, "r", "", [5, 0.5, 0.9], 3], [0, "s", "", "two words"]]
    questions = zlib.compress(as_json(data.draw(changed_values(packed))))
    path = put(folder / "s.sqlite", "labels", text, questions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SynthscoreWarning)
        with Store(path) as store:
            assert all(json.dumps(row) for row in store.rows())
            for batch in store.batches():
                assert all(each.question is None or each.question.key("e") for each in store.read(batch))
        with Store(folder / "n.sqlite") as new:
            assert new.merge(path) in (0, 1)
        with Store(folder / "m.sqlite") as new, contextlib.suppress(StoreError):
            new.salvage(path)
