"""Columns of batches, in datasets."""

import datasets
import numpy as np
import pytest

from synthscore.integrations.batches import ScoreBatch
from synthscore.io.fields import id_of_text
from tests import factories
from tests.scoring.test_scorer import ladder

from .conftest import text

COLUMNS = {"text": [text(2), text(4), text(5), ""], "context_id": ["c1", "c2", "elsewhere", "c1"], "other": [*"abcd"]}


@pytest.fixture
def rows(tmp_path):
    datasets.Dataset.from_dict(COLUMNS).to_parquet(tmp_path / "rows.parquet")
    return datasets.load_dataset("parquet", data_files=str(tmp_path / "rows.parquet"), cache_dir=str(tmp_path / "c"))[
        "train"
    ]


def test_each_row_has_its_score_or_null_and_why(judge, ladders, rows):
    found = rows.map(ScoreBatch(references=ladders), batched=True, batch_size=3)
    assert found.column_names == [*COLUMNS, "synthscore", "synthscore_status", "synthscore_reason"]
    scores = ScoreBatch(references=ladders).scores([{k: v for k, v in row.items() if k != "other"} for row in rows])
    assert found["synthscore"][:] == [score.value for score in scores]
    assert found["synthscore_status"][:] == ["ok", "ok", "unscored", "unscored"]
    assert "there is no ladder" in found["synthscore_reason"][2]


def test_what_was_mapped_is_kept_until_the_ladders_change(judge, ladders, rows):
    def mapped(**options):
        before = judge.n_judged
        return rows.map(ScoreBatch(references=ladders, **options), batched=True)._fingerprint, judge.n_judged - before

    first, again = mapped(), mapped()
    assert first[0] == again[0]
    assert (first[1] > 0, again[1]) == (True, 0)
    assert mapped(both_orders=True)[0] != first[0]
    factories.references(ladder("c1", n=4), ladder("c2")).save(ladders, overwrite=True)
    changed = mapped()
    assert changed[0] != first[0]


def test_contexts_may_be_told_by_their_texts_and_columns_be_arrays(judge, tmp_path):
    factories.references(ladder(id_of_text("An article."))).save(tmp_path / "by_text")
    batch = {"summary": np.array([text(2), text(4)]), "article": np.array(["An article.", "Another."])}
    made = ScoreBatch(references=str(tmp_path / "by_text"), text="summary", context="article")
    assert made(batch)["synthscore_status"] == ["ok", "unscored"]


def test_a_first_batch_without_any_score_does_not_decide_what_the_column_holds(judge, ladders):
    rows = datasets.Dataset.from_dict({"text": [text(2), text(4)], "context_id": ["elsewhere", "c2"]})
    scored = ScoreBatch(references=ladders)
    found = rows.map(scored, batched=True, batch_size=1, writer_batch_size=1, features=scored.features(rows.features))
    assert found["synthscore"][0] is None
    assert found["synthscore"][1] > 1
    assert list(found.features)[-3:] == ["synthscore", "synthscore_status", "synthscore_reason"]
