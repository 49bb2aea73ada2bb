import gzip
import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from synthscore import engines
from synthscore.engine import Engine, Prompt, Sampling, generate, label_log_probs
from synthscore.engines import open_engine
from synthscore.errors import EngineError, StoreError
from synthscore.store.engine import RecordedEngine, StoredEngine
from synthscore.store.file import Store
from tests import factories
from tests.cli.given import score, write
from tests.fakes import FakeEngine
from tests.models import save_model

LABELS = ("Better", "Worse", "Similar")
SAMPLING = Sampling(max_new_tokens=5)


def judge(prompt, labels):
    """Log-probabilities with all the digits that a float has, of which one is impossible."""
    return [-math.pi / (len(prompt.text) + 1), *[-math.inf] * (len(labels) - 1)]


def prompts(*texts):
    return [Prompt(text) for text in texts]


@pytest.fixture
def file(tmp_path):
    """A store with the verdicts and texts of one engine."""
    with Store(tmp_path / "answers.sqlite") as store:
        engine = StoredEngine(FakeEngine(judge), store)
        label_log_probs(engine, prompts("a", "bb"), LABELS)
        generate(engine, prompts("a", "bb"), SAMPLING, [1, 2])
    return tmp_path / "answers.sqlite"


def test_what_was_stored_is_given_to_the_last_bit_under_the_engine_s_own_name(file):
    asked, plain = prompts("bb", "a", "bb"), FakeEngine(judge)
    engine = open_engine(f"recorded:{file}")
    assert isinstance(engine, Engine)
    assert engine.signature == plain.signature
    told = []
    got = label_log_probs(engine, asked, LABELS, told.append)
    want = label_log_probs(plain, asked, LABELS)
    np.testing.assert_array_equal(got.log_probs, want.log_probs)
    assert (got.other_tokens, got.failures) == (want.other_tokens, {})
    assert (got.usage.n_in, got.usage.n_computed, sum(told)) == (0, 0, 3)
    assert generate(engine, asked, SAMPLING, [2, 1, 2]) == generate(plain, asked, SAMPLING, [2, 1, 2])


def test_a_miss_is_a_failure_of_its_row_that_says_what_is_missing(file):
    engine, told = RecordedEngine(str(file)), []
    got = label_log_probs(engine, [Prompt("a"), Prompt("a", "no"), Prompt("a" * 80)], LABELS, told.append)
    assert set(got.failures) == {1, 2}
    assert np.isnan(got.log_probs[1:]).all()
    assert sum(told) == 3
    ends = "a" * 60
    assert (
        f"holds no answer of model:fake|backend:fake to the prompt of 80 characters that ends in '{ends}'"
        in (got.failures[2])
    )
    assert f"(labels Better, Worse, Similar). Ask the model itself, with --store {file}" in got.failures[2]
    rows = generate(engine, prompts("a", "a", "c"), SAMPLING, [1, 2, 1])
    assert rows[0].text == "Text 1 of 1 characters."
    assert [type(row) for row in rows[1:]] == [EngineError, EngineError]
    assert "max_new_tokens=5" in str(rows[1])
    assert "seed 2" in str(rows[1])
    assert set(label_log_probs(engine, prompts("a"), ("Yes", "No")).failures) == {0}


def test_nothing_is_written_to_the_file(file):
    with Store(file) as store:
        before = store.batches()
    label_log_probs(RecordedEngine(str(file)), prompts("a", "new"), LABELS)
    with Store(file) as store:
        assert store.batches() == before


def test_one_of_several_engines_is_chosen_by_a_part_of_its_signature(file):
    with Store(file) as store:
        label_log_probs(StoredEngine(FakeEngine(name="other"), store), prompts("a"), LABELS)
    for part in ("", "#", "#backend:fake"):
        with pytest.raises(EngineError, match=r"answers of 2 engines.*expected one") as error:
            open_engine(f"recorded:{file}{part}")
        assert error.value.engines == ["model:fake|backend:fake", "model:other|backend:fake"]
        assert "model:other|backend:fake" in str(error.value)
    assert dict(open_engine(f"recorded:{file}#model:other").signature.parts)["model"] == "other"
    with pytest.raises(EngineError, match="0 engines whose signature contains 'nobody'"):
        open_engine(f"recorded:{file}#nobody")


def test_a_file_that_is_missing_empty_or_no_store_is_an_error(tmp_path):
    with pytest.raises(StoreError, match="no such file"):
        open_engine(f"recorded:{tmp_path}/none.sqlite")
    assert list(tmp_path.iterdir()) == []
    Store(tmp_path / "empty.sqlite").close()
    with pytest.raises(EngineError, match=r"answers of 0 engines, expected one\. It has: none at all"):
        open_engine(f"recorded:{tmp_path}/empty.sqlite")


def test_options_of_a_model_are_refused(file):
    with pytest.raises(EngineError, match="with dtype float32: its answers are given already"):
        open_engine(f"recorded:{file}", dtype="float32", device=None)


# ------------------------------------------------------------------------------------------------- the command line


@pytest.fixture
def scored(tmp_path, monkeypatch):
    """A folder with ladders, targets, and the scores of an engine whose answers are in answers.sqlite."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SYNTHSCORE_STORE", str(tmp_path / "default.sqlite"))
    factories.references(*(factories.ladder(f"c{i}", n=3) for i in range(2))).save("ladders")
    write("targets.jsonl", *({"id": f"t{i}", "context_id": f"c{i % 2}", "text": f"Text number {i}."} for i in range(6)))
    opened = engines.open_engine
    engine = FakeEngine(lambda prompt, labels: [math.log(0.9 / (2 + len(prompt.text) % (7 + i))) for i in range(3)])
    monkeypatch.setattr(engines, "open_engine", lambda name, **more: engine if name == "nano" else opened(name, **more))
    assert score("--model", "nano", "--store", "answers.sqlite", "-o", "scores.jsonl") == 0
    return engine


def test_scores_from_a_recording_are_the_same_to_the_last_byte(scored, tmp_path):
    n_asked = scored.n_judged
    assert score("--model", "recorded:answers.sqlite", "-o", "again.jsonl") == 0
    assert b"model:fake|backend:fake" in Path("scores.jsonl").read_bytes()
    assert Path("again.jsonl").read_bytes() == Path("scores.jsonl").read_bytes()
    assert scored.n_judged == n_asked
    assert not (tmp_path / "default.sqlite").exists(), "a recording is a store already"


def test_a_text_that_was_never_asked_about_is_unscored_with_the_reason(scored):
    write("targets.jsonl", {"id": "new", "context_id": "c0", "text": "A text that nobody has seen."})
    assert score("--model", "recorded:answers.sqlite", "-o", "again.jsonl") == 1
    row = json.loads(Path("again.jsonl").read_bytes())
    assert (row["score"], row["status"]) == (None, "unscored")
    assert "answers.sqlite holds no answer of model:fake|backend:fake to the prompt of" in row["reason"]


def test_a_store_beside_a_recording_is_a_usage_error(scored, capsys):
    assert score("--model", "recorded:answers.sqlite", "--store", "other.sqlite") == 2
    assert "--store other.sqlite does nothing with --model recorded:answers.sqlite" in capsys.readouterr().err
    assert score("--model", "recorded:answers.sqlite", "--store", "none", "-o", "again.jsonl") == 0


def test_a_store_of_former_code_answers_under_todays_signature(tmp_path):
    """Three questions about a small random model, answered before dates, bits and revisions were signed."""
    packed = Path(__file__).parent.parent / "data/former_answers.sqlite.gz"
    (tmp_path / "answers.sqlite").write_bytes(gzip.decompress(packed.read_bytes()))
    former = RecordedEngine(str(tmp_path / "answers.sqlite")).signature
    opened = open_engine(save_model(tmp_path / "tiny")).signature
    assert set(opened.differs(former)) <= {"model", "transformers", "torch"}  # whose values are the installation's
    todays = opened.with_(**{name: former.part(name) for name in ("model", "transformers", "torch")})
    asked = SimpleNamespace(signature=todays, answer=lambda *_: pytest.fail("asked again"))
    with Store(tmp_path / "answers.sqlite") as store:
        found = label_log_probs(
            StoredEngine(asked, store), prompts(*(f"Is summary {n} better?" for n in range(3))), LABELS[:2]
        )
    np.testing.assert_allclose(found.log_probs[0], [-6.758789623452506, -11.331525801852509])
    assert not found.failures
