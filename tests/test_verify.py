"""benchmarks/verify.py: a sample of stored answers, asked again of the model that the user names."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.verify import difference, main
from synthscore import engines
from synthscore.engine import Generation, LabelAnswer, Prompt, Question, Sampling
from synthscore.errors import EngineError, StoreError
from synthscore.signature import Signature
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from tests.fakes import FakeEngine, stored_in_batches

LABELS = ("Better", "Worse")
HTTP = "http://somewhere.example/v1#judge"


def judge(prompt, labels):
    """Differs from prompt to prompt."""
    return [-(i + 1.0) - len(prompt.text) / 1000 for i in range(len(labels))]


@pytest.fixture
def store(tmp_path):
    """Twenty verdicts, two texts and two readings by the model "fake", in batches of seven."""
    path = tmp_path / "answers.sqlite"
    questions = [Question(Prompt("p" * i), LABELS) for i in range(1, 21)]
    questions += [Question(Prompt("write"), sampling=Sampling(9, 1.0), seed=seed) for seed in (1, 2)]
    questions += [Question(Prompt("read"), continuation=text) for text in ("It rained", "It snowed all day")]
    with Store(path) as store:
        stored_in_batches(FakeEngine(judge), store, 7).answer(questions)
    return str(path)


@pytest.fixture
def opened(monkeypatch):
    """calls : names of the models that were opened. engine : what opens"""
    models = SimpleNamespace(calls=[], engine=FakeEngine(judge))

    def open_engine(name):
        models.calls.append(name)
        return models.engine

    monkeypatch.setattr(engines, "open_engine", open_engine)
    return models


def test_a_model_that_answers_as_before_is_within_any_tolerance(store, opened, capsys):
    assert main([store, "--model", "fake", "--sample", "15", "--tolerance", "0"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1::2] == [
        "  labels: 15 replayed, 0 failed, 0 beyond, max 0.0e+00",
        "  text: 2 replayed, 0 failed, 0 beyond, max 0.0e+00",
        "  tokens: 2 replayed, 0 failed, 0 beyond, max 0.0e+00",
    ]
    assert len({len(prompt.text) for prompt in opened.engine.judged}) == 15, "drawn without repetition"


def test_answers_that_moved_and_answers_that_failed_are_counted_apart(store, opened, capsys):
    opened.engine = FakeEngine(
        lambda prompt, labels: [value - 0.5 * (len(prompt.text) == 2) for value in judge(prompt, labels)],
        lambda prompt, seed: EngineError("no") if seed == 1 else "Another text.",
        failures={"ppp": "too long"},
    )
    assert main([store, "--model", "fake"]) == 3
    out = capsys.readouterr().out
    assert "labels: 20 replayed, 1 failed, 1 beyond, max 5.0e-01" in out
    assert "text: 2 replayed, 1 failed, 1 beyond, max inf" in out
    assert "tokens: 2 replayed, 0 failed, 0 beyond" in out


def test_only_the_model_that_the_user_names_is_opened_and_asked_nothing_if_it_is_another(tmp_path, opened):
    path = tmp_path / "other.sqlite"
    with Store(path) as store:
        theirs = FakeEngine(judge, name=HTTP)
        StoredEngine(theirs, store).answer([Question(Prompt("secret"), LABELS)])
    with pytest.raises(SystemExit, match=r"no answers with their questions by the model 'fake'.*nothing was asked"):
        main([str(path), "--model", "mine"])
    assert opened.calls == ["mine"]
    assert opened.engine.calls == []


def test_the_same_model_run_in_another_way_is_asked_and_the_parts_that_differ_are_named(store, opened, capsys):
    class Other(FakeEngine):
        signature = Signature.of(model="fake", backend="exact")

    opened.engine = Other(judge)
    assert main([store, "--model", "fake"]) == 0
    assert "  backend: fake is now exact" in capsys.readouterr().out.splitlines()


def test_a_store_that_is_not_there_is_an_error_and_is_not_made(tmp_path, opened):
    with pytest.raises(StoreError, match="there is no such file"):
        main([str(tmp_path / "none.sqlite"), "--model", "fake"])
    assert opened.calls == []
    assert not (tmp_path / "none.sqlite").exists()


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        (LabelAnswer([-1.0, -2.0]), LabelAnswer([-1.25, -2.0]), 0.25),
        (LabelAnswer([-1.0, -math.inf]), LabelAnswer([-1.0, -math.inf]), 0.0),
        (LabelAnswer([-1.0, -9.0]), LabelAnswer([-1.0, -math.inf]), math.inf),
        (LabelAnswer([-1.0, -2.0], censored=[False, True]), LabelAnswer([-1.5, -9.0]), 0.5),
        (LabelAnswer([-1.0], censored=[True]), LabelAnswer([-2.0]), 0.0),
        (Generation("It rained.", "stop", 3), Generation("It rained.", "length", 3), math.inf),
        (np.array([-1.0, -2.0]), np.array([-1.0]), math.inf),
        (np.array([-1.0, -2.0]), np.array([-1.0, -2.125]), 0.125),
        (np.array([-1.0]), EngineError("no"), math.nan),
    ],
)
def test_the_difference_of_two_answers_is_that_of_their_furthest_numbers(was, now, expected):
    assert difference(was, now) == pytest.approx(expected, nan_ok=True)
