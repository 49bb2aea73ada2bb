import math
import os

import numpy as np
import pytest

from synthscore import engines
from synthscore.cli.app import main
from synthscore.engine import Generation, Prompt, Sampling, generate, label_log_probs
from synthscore.engines.verify import Drift, replay, sample, verify
from synthscore.errors import EngineError, StoreError, SynthscoreWarning
from synthscore.signature import Signature
from synthscore.store.answers import Stored
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from tests.fakes import FakeEngine

LABELS = ("Better", "Worse")
ENGINE = "model:fake|backend:fake"
GREEDY, WARM = Sampling(9, 0.0), Sampling(9, 1.0)


def judge(prompt, labels):
    """Sure of the first label: -1, -2, ...; differs from prompt to prompt."""
    return [-(i + 1.0) - len(prompt.text) / 1000 for i in range(len(labels))]


def prompts(*texts):
    return [Prompt(str(text)) for text in texts]


def stored(path, texts=(), n=0, **more):
    with Store(path) as store:
        engine = StoredEngine(FakeEngine(judge, **more), store, batch_size=7)
        if texts:
            generate(engine, prompts(*texts), GREEDY, list(range(len(texts))))
        if n:
            label_log_probs(engine, [Prompt("p" * i, "x") for i in range(1, n + 1)], LABELS)
    return path


def drawn(path, kind="labels", n_sample=10**6, seed=0, engine=ENGINE):
    with Store(path) as store:
        return sample([store], engine, kind, n_sample, np.random.default_rng(seed))


# ------------------------------------------------------------------------------------------------- samples


def test_answers_whose_questions_are_damaged_are_not_drawn(tmp_path):
    stored(tmp_path / "a.sqlite", n=4)
    with Store(tmp_path / "a.sqlite") as store:
        store._db.execute("UPDATE batches SET questions = x'00'")
    with pytest.warns(SynthscoreWarning, match="without their questions"):
        answers, total = drawn(tmp_path / "a.sqlite")
    assert (answers, total) == ([], 4)


def test_a_sample_is_drawn_without_repetition_and_is_the_same_for_the_same_seed(tmp_path):
    path = stored(tmp_path / "a.sqlite", n=40)
    answers, n_stored = drawn(path, n_sample=15)
    assert n_stored == 40
    lengths = [len(answer.question.prompt.text) for answer in answers]
    assert len(set(lengths)) == 15
    assert lengths == sorted(lengths), "in stored order"
    assert answers == drawn(path, n_sample=15)[0]
    assert answers != drawn(path, n_sample=15, seed=1)[0]
    everything, _ = drawn(path, n_sample=41)
    assert [len(answer.question.prompt.text) for answer in everything] == list(range(1, 41))
    assert drawn(path, engine="nobody") == ([], 0)
    assert drawn(path, kind="text") == ([], 0)


def test_every_answer_is_drawn_as_often_as_any_other(tmp_path):
    path = stored(tmp_path / "a.sqlite", n=10)  # batches of 7 and 3
    counts = np.zeros(10)
    for seed in range(400):
        (answer,), _ = drawn(path, n_sample=1, seed=seed)
        counts[len(answer.question.prompt.text) - 1] += 1
    assert counts.min() > 18  # 40 expected, standard deviation 6


def test_answers_without_questions_are_not_drawn(tmp_path):
    path = stored(tmp_path / "a.sqlite", n=3)
    with Store(path) as store:
        store.put_many([Stored(b"k" * 32, "labels", {"log_probs": [0, 0], "rival": None}, ENGINE)])
    assert drawn(path)[1] == 3


def test_a_folder_is_all_its_stores(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: FakeEngine(judge))
    for name, n in (("b", 3), ("a", 2)):
        stored(tmp_path / f"{name}.sqlite", n=n)
    (tmp_path / "notes.txt").touch()
    assert [drift.n_stored for drift in verify(tmp_path)] == [5]
    with pytest.raises(StoreError, match="there is no such file"):
        verify(tmp_path / "any")
    (tmp_path / "empty").mkdir()
    with pytest.raises(StoreError, match=r"no store in .*empty: expected files named \*.sqlite"):
        verify(tmp_path / "empty")


# ------------------------------------------------------------------------------------------------- drift


def test_an_engine_that_answers_as_before_has_not_drifted(tmp_path):
    path = stored(tmp_path / "a.sqlite", "abc", n=12)
    for kind, n in (("labels", 12), ("text", 3)):
        answers, _ = drawn(path, kind)
        inner, told = FakeEngine(judge), []
        drift = replay(answers, 99, inner, 0.0, told.append)
        assert (drift.n_stored, drift.n_replayed, drift.n_beyond, drift.worst) == (99, n, 0, "")
        assert (drift.ok, drift.changed, sum(told)) == (True, {}, n)
        assert (inner.n_judged, inner.n_written) == ((12, 0) if kind == "labels" else (0, 3))
    assert math.isnan(drift.max_diff)


def test_drift_is_measured_in_nats_over_labels(tmp_path):
    def now(prompt, labels):
        first, second = judge(prompt, labels)
        return [first - 0.02 * (len(prompt.text) == 2), second + 0.01 * (len(prompt.text) <= 3)]

    answers, _ = drawn(stored(tmp_path / "a.sqlite", n=4))
    drift = replay(answers, 4, FakeEngine(now, name="new"), 0.015)
    assert drift.max_diff == pytest.approx(0.02)
    assert drift.n_beyond == 1
    assert drift.worst == answers[1].key.hex()
    assert not drift.ok
    assert drift.changed == {"model": ("fake", "new")}
    assert replay(answers, 4, FakeEngine(now), 0.021).ok


def test_a_difference_of_exactly_the_tolerance_is_within_it(tmp_path):
    answers, _ = drawn(stored(tmp_path / "a.sqlite", n=1))
    half = FakeEngine(lambda prompt, labels: [x - 0.5 for x in judge(prompt, labels)])
    assert replay(answers, 1, half, 0.5).n_beyond == 0
    assert replay(answers, 1, half, 0.4999).n_beyond == 1


def test_a_label_that_stays_impossible_has_not_drifted_and_one_that_becomes_so_has(tmp_path):
    def impossible(prompt, labels):
        return [-1.0, -math.inf]

    path = stored(tmp_path / "a.sqlite", n=2)
    answers, _ = drawn(path)
    gone = replay(answers, 2, FakeEngine(impossible), 1e-3)
    assert (gone.max_diff, gone.n_beyond) == (math.inf, 2)
    with Store(tmp_path / "b.sqlite") as store:
        label_log_probs(StoredEngine(FakeEngine(impossible), store), prompts("a"), LABELS)
    answers, _ = drawn(tmp_path / "b.sqlite")
    assert replay(answers, 1, FakeEngine(impossible), 0).max_diff == 0


def test_answers_to_different_labels_are_asked_with_their_own(tmp_path):
    with Store(tmp_path / "a.sqlite") as store:
        for labels in (LABELS, ("Yes", "No"), ("A", "B", "C")):
            label_log_probs(StoredEngine(FakeEngine(judge), store), prompts("a", "bb"), labels)
    answers, _ = drawn(tmp_path / "a.sqlite")
    inner = FakeEngine(judge)
    drift = replay(answers, 6, inner, 0)
    assert (drift.n_replayed, drift.ok, len(inner.calls)) == (6, True, 3)


def test_what_cannot_be_answered_now_is_a_failure_and_not_a_drift(tmp_path):
    path = stored(tmp_path / "a.sqlite", "ab", n=3)
    answers, _ = drawn(path)
    drift = replay(answers, 3, FakeEngine(judge, failures={"pp": "too long"}), 0)
    assert (drift.failures, drift.n_beyond, drift.max_diff, drift.ok) == (("too long",), 0, 0.0, False)
    texts, _ = drawn(path, "text")
    drift = replay(texts, 2, FakeEngine(writer=lambda prompt, seed: EngineError("no")), 0)
    assert (drift.failures, drift.texts, drift.n_beyond, drift.ok) == (("no", "no"), (), 0, False)


def test_labels_that_a_server_does_not_tell_are_left_out_and_counted(tmp_path):
    class Censors(FakeEngine):
        def answer_one(self, question):
            answer = super().answer_one(question)
            n = len(self.judged) - 1
            censored = [n == 1 or (n == 0 and label == 1) for label in range(len(LABELS))]
            log_probs = [-0.5 if hidden else p for hidden, p in zip(censored, answer.log_probs, strict=True)]
            return answer._replace(log_probs=log_probs, censored=censored if any(censored) else None)

    answers, _ = drawn(stored(tmp_path / "a.sqlite", n=3))
    drift = replay(answers, 3, Censors(judge), 1e-9)
    assert (drift.n_censored, drift.max_diff, drift.ok) == (3, 0.0, True)
    with Store(tmp_path / "b.sqlite") as store:
        label_log_probs(StoredEngine(Censors(judge), store), prompts("a", "b"), LABELS)
    answers, _ = drawn(tmp_path / "b.sqlite")
    drift = replay(answers[1:], 2, FakeEngine(judge), 1e-9)
    assert (drift.n_censored, drift.n_beyond) == (2, 0)
    assert math.isnan(drift.max_diff)


def test_a_text_that_differs_is_told_from_where(tmp_path):
    answers, _ = drawn(stored(tmp_path / "a.sqlite", ["a", "b", "c"]), "text")
    texts = {
        0: "Text 0 of 1 characters.",
        1: "Text 1 by 1 characters.",
        2: Generation("Text 2 of 1 characters.", "length", 5),
    }
    drift = replay(answers, 3, FakeEngine(writer=lambda prompt, seed: texts[seed]), 0)
    assert drift.n_beyond == 2
    assert drift.texts == (
        f"{answers[1].key.hex()[:12]}: from character 7: 'of 1 characters.' is now 'by 1 characters.'",
        f"{answers[2].key.hex()[:12]}: the same text: stop, 5 tokens is now length, 5",
    )


def test_texts_are_written_with_their_own_sampling_and_seed(tmp_path):
    asked = []

    class Seeing(FakeEngine):
        def answer_alike(self, questions, progress):
            texts, seeds = [one.prompt.text for one in questions], [one.seed for one in questions]
            asked.append((texts, questions[0].sampling, seeds))
            return super().answer_alike(questions, progress)

    with Store(tmp_path / "a.sqlite") as store:
        engine = StoredEngine(FakeEngine(), store)
        generate(engine, prompts("a", "b"), GREEDY, [5, 6])
        generate(engine, prompts("c"), WARM, [7])
    answers, _ = drawn(tmp_path / "a.sqlite", "text")
    assert replay(answers, 3, Seeing(), 0).ok
    assert asked == [(["a", "b"], GREEDY, [5, 6]), (["c"], WARM, [7])]


def test_parts_of_signatures_that_differ_are_named():
    one, other = Signature.of(model="a", dtype="x", torch="1"), Signature.of(model="a", torch="2", server="s")
    drift = Drift(one, other, "labels", 1, 1, 0)
    assert drift.changed == {"dtype": ("x", ""), "torch": ("1", "2"), "server": ("", "s")}


# ------------------------------------------------------------------------------------------------- the command line


@pytest.fixture
def opened(monkeypatch):
    """(name, options) of the engines that were opened; they judge as before, unless their backend is "off"."""
    calls = []

    def open_engine(name, **options):
        if name == "gone":
            raise EngineError("cannot load 'gone'")
        calls.append((name, options))
        off = 0.5 if options.get("backend") == "off" else 0.0
        return FakeEngine(lambda prompt, labels: [x - off for x in judge(prompt, labels)], name=name)

    monkeypatch.setattr(engines, "open_engine", open_engine)
    return calls


class Local(FakeEngine):
    signature = Signature.of(model="org/judge@0123", dtype="float32", backend="tree", max_tokens=512, chat="x")


def local(path, n=5, signature=None):
    engine = Local(judge)
    if signature:
        engine.__class__ = type("Other", (Local,), {"signature": signature})
    with Store(path) as store:
        label_log_probs(StoredEngine(engine, store), [Prompt("p" * i) for i in range(1, n + 1)], LABELS)
    return str(path)


def test_the_model_that_the_signature_names_is_opened_as_it_was_run(tmp_path, opened, capsys):
    path = local(tmp_path / "a.sqlite")
    assert main(["verify", path]) == 0
    assert opened == [("org/judge", {"dtype": "float32", "backend": "tree", "max_tokens": 512})]
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert lines[0] == str(Local.signature)
    assert "  model: org/judge@0123 is now org/judge" in lines
    assert "  dtype: float32 is now none" in lines
    assert lines[-2].split() == ["kind", "stored", "replayed", "failed", "beyond", "max"]
    assert lines[-1].split() == ["labels", "5", "5", "0", "0", "0.0e+00"]
    assert "5 answers replayed: 0 beyond 0.001 nats, 0 failed" in said.err


def test_another_backend_dtype_or_model_is_opened_instead(tmp_path, opened, capsys):
    path = local(tmp_path / "a.sqlite")
    options = ["--backend", "off", "--dtype", "bfloat16", "--device", "cpu", "--revision", "r"]
    assert main(["verify", path, *options]) == 3
    wanted = {"dtype": "bfloat16", "backend": "off", "max_tokens": 512, "device": "cpu", "revision": "r"}
    assert opened == [("org/judge", wanted)]
    assert capsys.readouterr().out.splitlines()[-2].split() == [
        "labels",
        "5",
        "5",
        "0",
        "5",
        "5.0e-01",
    ]
    assert main(["verify", path, "--backend", "off", "--tolerance", "0.6"]) == 0
    assert main(["verify", path, "--model", "http://host/v1"]) == 0
    assert opened[-1] == ("http://host/v1", {}), "a server runs as it does"
    assert main(["verify", path, "--model", "folder"]) == 0
    assert opened[-1] == ("folder", {"dtype": "float32", "backend": "tree", "max_tokens": 512})
    assert main(["verify", path, "--exact"]) == 0
    assert opened[-1] == ("org/judge", {"dtype": "float32", "max_tokens": 512, "exact": True})


def test_a_drift_has_every_number(tmp_path, opened):
    labels, texts = verify(stored(tmp_path / "a.sqlite", "ab", n=4), n_sample=3, options={"backend": "off"})
    assert labels.max_diff == 0.5
    assert (labels.n_stored, labels.n_replayed, labels.n_beyond) == (4, 3, 3)
    assert (str(labels.stored), str(labels.now), labels.changed) == (ENGINE, ENGINE, {})
    assert (texts.kind, texts.n_beyond) == ("text", 0)
    assert math.isnan(texts.max_diff)


def test_a_folder_of_shards_is_replayed_as_one_and_engines_apart(tmp_path, opened, capsys):
    stored(tmp_path / "part-1.sqlite", n=4)
    with Store(stored(tmp_path / "part-2.sqlite", "abc", name="other")) as store:
        label_log_probs(StoredEngine(FakeEngine(judge), store), prompts(1, 2, 3), LABELS)
    drifts = verify(tmp_path)
    assert [(str(drift.stored), drift.kind, drift.n_replayed) for drift in drifts] == [
        (ENGINE, "labels", 7),
        ("model:other|backend:fake", "text", 3),
    ]
    assert [name for name, _ in opened] == ["fake", "other"]
    assert main(["verify", str(tmp_path), "--kind", "text"]) == 0
    assert [name for name, _ in opened[2:]] == ["other"]
    assert main(["verify", str(tmp_path), "--model", "m"]) == 2
    assert "cannot replay the answers of 2 models: fake, other" in capsys.readouterr().err
    assert main(["verify", str(tmp_path), "--model", "m", "--engine", "other"]) == 0
    assert main(["verify", str(tmp_path), "--engine", "nobody"]) == 1
    assert "whose signature contains 'nobody'" in capsys.readouterr().err


def test_a_model_that_cannot_be_told_or_found_asks_for_its_name(tmp_path, opened, capsys):
    path = local(tmp_path / "a.sqlite", signature=Signature.of(model="m", backend="exact", server="vllm"))
    assert main(["verify", path]) == 1
    assert "cannot tell which model gave the answers of model:m|backend:exact|server:vllm" in capsys.readouterr().err
    assert main(["verify", path, "--model", "http://host/v1"]) == 0
    path = local(tmp_path / "b.sqlite", signature=Signature.of(model="gone@1"))
    assert main(["verify", path]) == 1
    assert "cannot load 'gone' It is what the store names: model:gone@1" in capsys.readouterr().err


def test_failures_and_texts_that_differ_are_shown(tmp_path, monkeypatch, capsys):
    path = stored(tmp_path / "a.sqlite", "abcdefgh", n=3)
    engine = FakeEngine(judge, lambda prompt, seed: "Other", failures={"pp": "the prompt is too long"})
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: engine)
    assert main(["verify", str(path)]) == 3
    out = capsys.readouterr().out
    assert "1 x the prompt is too long" in out
    assert out.count("from character 0: 'Text") == 5
    assert "  and 3 other texts" in out


def test_nothing_to_replay_is_an_error(tmp_path, opened, capsys):
    with Store(tmp_path / "a.sqlite") as store:
        store.put_many([Stored(b"k" * 32, "labels", {}, ENGINE)])
    assert main(["verify", str(store.path)]) == 1
    assert "no such answers with their questions" in capsys.readouterr().err
    assert main(["verify", str(tmp_path / "none.sqlite")]) == 1
    assert "there is no such file" in capsys.readouterr().err
    assert not os.path.exists(tmp_path / "none.sqlite")
    assert opened == []


def test_the_store_is_not_asked(tmp_path, opened, monkeypatch):
    """An engine that answers otherwise now is found out, although the store has its answers."""
    path = stored(tmp_path / "a.sqlite", n=2)
    monkeypatch.setenv("SYNTHSCORE_STORE", str(path))
    assert main(["verify", str(path), "--backend", "off"]) == 3


def test_nano_is_replayed_by_another_backend_within_its_rounding(tmp_path):
    with Store(tmp_path / "a.sqlite") as store:
        asked = [Prompt(f"Is text {i} better than text {j}?\nAnswer:") for i in range(3) for j in range(3)]
        nano = StoredEngine(engines.open_engine("nano"), store)
        label_log_probs(nano, asked, ("Better", "Worse", "Similar"))
    (drift,) = verify(store.path, n_sample=5, options={"backend": "single"})
    assert set(drift.changed) == {"backend"}
    assert drift.changed["backend"][1] == "single"
    assert drift.max_diff < 1e-4


@pytest.mark.parametrize("option", ["--sample=0", "--seed=-1", "--tolerance=-1", "--tolerance=nan"])
def test_a_sample_or_tolerance_that_makes_no_sense_is_a_usage_error(option, tmp_path, capsys):
    assert main(["verify", str(tmp_path), option]) == 2
    assert "expected at least 1, 0 and 0" in capsys.readouterr().err
