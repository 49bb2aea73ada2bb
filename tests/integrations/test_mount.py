"""A scorer made of strings and numbers: pickled, made again, shared, late."""

import asyncio
import multiprocessing
import pickle
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from synthscore.errors import EngineError, InputError
from synthscore.integrations import mount as module
from synthscore.integrations.mount import Mount, row_of
from synthscore.scoring.anchored import Anchored, Scales
from synthscore.scoring.scorer import Scorer
from tests import factories
from tests.scoring.test_scorer import ladder, soft_judge

from .conftest import text

ROWS = [row_of(k, text(1 + k), context_id=f"c{1 + k % 2}") for k in range(4)]


def test_importing_the_package_or_the_room_loads_no_mount_and_no_torch():
    code = "import sys, synthscore.integrations; print(sorted(m for m in sys.modules if m.startswith('synthscore')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['synthscore', 'synthscore._version', 'synthscore.integrations']"


def test_what_is_loaded_is_loaded_once_for_all_that_are_made_alike(judge, ladders):
    made = Mount(references=ladders)
    assert made.scorer is pickle.loads(pickle.dumps(made)).scorer is replace(made, deadline_s=9).scorer
    assert made.scorer is not replace(made, both_orders=True).scorer
    assert len({made, Mount(references=ladders), Mount(references=ladders, deadline_s=1)}) == 2


def test_scores_are_those_of_the_scorer_at_once_or_one_at_a_time(judge, ladders):
    made = Mount(references=ladders)
    scores = made.scores(ROWS)
    assert scores == list(made.scorer.score(ROWS))

    async def singly():
        return await asyncio.gather(*map(made.score_one, ROWS))

    assert asyncio.run(singly()) == scores
    assert made.unit(scores[0]) == pytest.approx((scores[0].value - 1) / 4)
    assert made.unit(made.scores([row_of(0, text(30), context_id="c1")])[0]) == 1  # better than the best rung
    assert made.unit(made.scores([row_of(0, text(1), context_id="elsewhere")])[0]) is None


def test_a_context_is_found_by_its_key_or_by_its_text():
    row = {"id": "7", "text": "a"}
    assert row_of(7, "a", context_id="c1", prompt="A prompt.") == {**row, "context_id": "c1"}
    assert row_of(7, "a", prompt="An article.") == {**row, "context": "An article."}
    both = row_of(7, "a", context_id="c1", context="An article.")
    assert both == {**row, "context_id": "c1", "context": "An article."}  # so that the two can be held together


def test_texts_without_a_score_by_the_deadline_are_unscored_and_the_rest_of_the_world_goes_on(judge, ladders):
    let = threading.Event()
    judge.judge = lambda *asked: let.wait(10) and soft_judge(*asked)
    made = Mount(references=ladders, deadline_s=0.05)
    assert [(s.status, s.reason) for s in made.scores(ROWS[:2])] == [("unscored", "no answer within 0.05 s")] * 2
    let.set()
    assert replace(made, deadline_s=10.0).scores(ROWS[2:])[0].status == "ok"


def test_what_breaks_the_judge_is_raised(judge, ladders, monkeypatch):
    def broken(*_):
        raise EngineError("gone")

    monkeypatch.setattr(judge, "answer", broken)
    with pytest.raises(EngineError, match="gone"):
        Mount(references=ladders, deadline_s=5).scores(ROWS)


def test_a_scale_that_was_kept_is_used(judge, ladders, tmp_path):
    scorer = Scorer(ladders, judge, attribute="coherence", scoring=Anchored())
    scorer.score([{**row, "text": row["text"] + " word" * k} for k, row in enumerate(ROWS)])
    Scales(scorer.scales).save(tmp_path / "scale.json")
    made = Mount(references=ladders, scale=str(tmp_path / "scale.json"))
    assert [score.status for score in made.scores(ROWS)] == ["ok"] * 4
    assert f"scoring:anchored,scale={scorer.scales[0].hash[:12]}" in made.signature


def test_the_fingerprint_is_of_the_fields_and_of_what_the_ladders_hold(ladders, tmp_path):
    made = Mount(references=ladders)
    assert made.fingerprint == Mount(references=ladders).fingerprint
    others = [replace(made, both_orders=True), replace(made, store="none")]
    assert len({each.fingerprint for each in [made, *others]}) == 3
    before = made.fingerprint
    factories.references(ladder("c1"), ladder("c2", n=4)).save(ladders, overwrite=True)
    assert made.fingerprint != before


def test_made_from_the_environment(monkeypatch):
    with pytest.raises(InputError, match="SYNTHSCORE_REFERENCES"):
        Mount.from_environment()
    for name, value in {"REFERENCES": "ladders/", "BOTH_ORDERS": "true", "DEADLINE_S": "2.5", "MODEL": ""}.items():
        monkeypatch.setenv(f"SYNTHSCORE_{name}", value)
    made = Mount.from_environment()
    assert (made.references, made.model, made.both_orders, made.deadline_s) == ("ladders/", "nano", True, 2.5)
    monkeypatch.setenv("SYNTHSCORE_BOTH_ORDERS", "perhaps")
    with pytest.raises(InputError, match="SYNTHSCORE_BOTH_ORDERS is 'perhaps', expected a bool"):
        Mount.from_environment()


def _of_a_child(made):
    return len(module._LOADED), [score.value for score in made.scores(ROWS)]


@pytest.mark.skipif(not hasattr(module.os, "fork"), reason="there is no fork here")
def test_a_process_that_was_forked_loads_its_own(judge, ladders):
    made = Mount(references=ladders)
    values = [score.value for score in made.scores(ROWS)]
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(_of_a_child, (made,)).get(30) == (0, values)


def test_a_mount_that_asks_nano_says_so_once_and_one_with_another_judge_does_not(judge, ladders, caplog):
    for options in ({"model": "q"}, {}, {"both_orders": True}):
        Mount(references=ladders, **options).scores(ROWS)
    assert [record.message.partition(",")[0] for record in caplog.records] == ["texts are judged by nano"]
