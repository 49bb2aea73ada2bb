import numpy as np
import pytest

from synthscore.errors import InputError
from synthscore.io.fields import Row
from synthscore.io.scores import Scores, read_score, score_row
from synthscore.io.write import write_rows
from synthscore.signature import Signature
from synthscore.types import Score, Verdict

SIGNATURE = Signature.of(synthscore="0.1", model="m@1")
ROWS = (
    Score("c/s", "c", "coherence", 3.5, low=3.0, high=4.0, n_comparisons=5, details={"raw": -2.75, "unit": -0.1}),
    Score("c/t", "c", "coherence", 1 / 3, stderr=0.1, status="partial", reason="rung 2: no answer",
          verdicts=(Verdict(1, False, 0.5, 0.25, 0.25), Verdict(1, True, 0.1, 0.9, 0.0))),
    Score("d/s", "d", "coherence", None, status="unscored", reason="no ladder"),
)  # fmt: skip


def row(**changes):
    return Row(2, score_row(ROWS[0], SIGNATURE) | changes, "scores.csv")


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz", ".csv", ".tsv", ".parquet"])
def test_scores_survive_every_format(tmp_path, suffix):
    scores = Scores(ROWS, SIGNATURE)
    scores.save(tmp_path / f"scores{suffix}")
    assert Scores.load(tmp_path / f"scores{suffix}") == scores


def test_scores_are_rows_with_their_signature_and_a_table_with_nan_where_there_is_none():
    scores = Scores(ROWS, SIGNATURE)
    assert scores.to_rows() == [score_row(score, SIGNATURE) for score in ROWS]
    assert "verdicts" not in scores.to_rows()[1]
    pandas = pytest.importorskip("pandas")
    table = scores.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    np.testing.assert_array_equal(table["score"], scores.values)
    assert set(table["signature"]) == {str(SIGNATURE)}


def test_scores_of_several_attributes_are_loaded_one_at_a_time(tmp_path):
    other = Score("c/s", "c", "fluency", 2.0)
    signature = SIGNATURE.with_(attribute="fluency")
    write_rows([*Scores(ROWS, SIGNATURE).to_rows(), score_row(other, signature)], tmp_path / "scores.jsonl")
    with pytest.raises(InputError, match=r"2 signatures, of the attributes coherence, fluency; expected one\. Name"):
        Scores.load(tmp_path / "scores.jsonl")
    assert Scores.load(tmp_path / "scores.jsonl", attribute="fluency") == Scores((other,), signature)
    with pytest.raises(InputError, match="0 signatures, of the attributes none"):
        Scores.load(tmp_path / "scores.jsonl", attribute="style")


def test_columns_of_others_are_no_details():
    score, signature = read_score(row(method="7", system="8", note="good", rank=2))
    assert score.details == {"raw": -2.75, "unit": -0.1, "rank": 2.0}
    assert signature == SIGNATURE


@pytest.mark.parametrize(
    ("changes", "seen"),
    [({"score": "high"}, "score is 'high', expected a number"), ({"stderr": "inf"}, "stderr is 'inf', expected"),
     ({"score": None}, "its score is None and its status 'ok'"), ({"status": "unscored"}, "status 'unscored'"),
     ({"status": "good"}, "its status 'good'"), ({"verdicts": "[[0, 0, 1, 0, 0]]"}, "levels from 1"),
     ({"verdicts": [[1, 0, 2, 0, 0]]}, "probabilities"), ({"verdicts": "none"}, "verdicts is 'none'"),
     ({"id": None}, "nothing says which text")],
)  # fmt: skip
def test_a_broken_row_of_scores_is_an_error_with_its_number(changes, seen):
    with pytest.raises(InputError, match=r"scores\.csv row 2") as caught:
        read_score(row(**changes))
    assert seen in str(caught.value)
    assert caught.value.row == 2


def test_details_may_not_have_the_names_of_columns():
    with pytest.raises(InputError, match=r"details \['signature'\] have the names of columns"):
        score_row(Score("a", "c", "x", 1.0, details={"signature": 1.0}), SIGNATURE)


def test_a_score_row_is_flat_and_ends_with_its_signature():
    score = Score("c/s", "c", "coherence", 3.5, stderr=float("nan"), details={"unit": np.float64(0.5), "raw": np.nan})
    row = score_row(score, Signature.of(synthscore="0.1"))
    assert row == {
        "id": "c/s", "context_id": "c", "attribute": "coherence", "score": 3.5, "stderr": None, "low": None,
        "high": None, "n_comparisons": 0, "status": "ok", "reason": "", "unit": 0.5, "raw": None,
        "signature": "synthscore:0.1",
    }  # fmt: skip
    assert list(row)[-1] == "signature"
    unscored = score_row(Score("a", "c", "x", None, status="unscored", reason="empty text"), Signature(()))
    assert (unscored["score"], unscored["reason"]) == (None, "empty text")
