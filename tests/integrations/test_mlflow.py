"""The scorer of MLflow, in an evaluation of MLflow's."""

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
    data.append({"inputs": {"context_id": "elsewhere"}, "outputs": text(4)})
    scorer = SynthscoreScorer(mount=Mount(references=ladders), aggregations=["mean", "min"])
    found = mlflow.genai.evaluate(data=data, scorers=[scorer])
    rows = [{"id": str(k), **row["inputs"], "text": row["outputs"]} for k, row in enumerate(data)]
    expected = ss.Scorer(ladders, "nano").score(rows)
    table = found.result_df
    print(table.columns, found.metrics, len(expected))
    assert len(table) == 17
