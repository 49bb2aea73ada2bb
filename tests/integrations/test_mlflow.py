"""The scorer of MLflow, in an evaluation of MLflow's."""

import numpy as np
import pytest

from .conftest import text

mlflow = pytest.importorskip("mlflow", reason="MLflow is not installed: make test-integrations")

import synthscore as ss  # noqa: E402
from synthscore.integrations.mlflow import SynthscoreScorer  # noqa: E402
from synthscore.integrations.mount import Mount  # noqa: E402


def test_an_evaluation_has_a_score_a_row_and_an_error_where_there_is_none(judge, ladders, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    data = [{"inputs": {"context_id": f"c{1 + k % 2}"}, "outputs": text(1 + k / 4)} for k in range(16)]
    data.append({"inputs": {"context_id": "elsewhere"}, "outputs": text(9)})
    scorer = SynthscoreScorer(mount=Mount(references=ladders), aggregations=["mean", "min"])
    found = mlflow.genai.evaluate(data=data, scorers=[scorer])
    rows = [{"id": str(k), **row["inputs"], "text": row["outputs"]} for k, row in enumerate(data)]
    expected = ss.Scorer(ladders, "nano").score(rows)
    table = found.result_df.set_index("response")
    assert dict(table["synthscore/value"].dropna()) == pytest.approx(
        {row["outputs"]: score.value for row, score in zip(data[:-1], expected, strict=False)}
    )
    assert "there is no ladder" in table["synthscore/error_message"][text(9)]
    assert found.metrics["synthscore/mean"] == pytest.approx(np.nanmean(expected.values))
    assert found.metrics["synthscore/min"] == pytest.approx(np.nanmin(expected.values))
    [said, *_] = table["assessments"][text(2.0)]
    assert said["source"] == {"source_type": "LLM_JUDGE", "source_id": str(expected.signature)}


def test_of_a_mapping_the_one_text_is_judged_and_of_several_none(judge, ladders):
    scorer = SynthscoreScorer(mount=Mount(references=ladders))
    about = {"inputs": {"context_id": "c1"}}
    plain, one, several = (
        scorer(**about, outputs=outputs)
        for outputs in (text(3), {"response": text(3), "n": 1}, {"response": text(3), "thought": "a"})
    )
    assert one.value == plain.value
    assert several.value is None
    assert "thought" in several.error_message
