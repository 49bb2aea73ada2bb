"""The filter of datatrove, in a pipeline of datatrove's."""

import json

import pytest

from synthscore.integrations.mount import Mount

from .conftest import text

pytest.importorskip("datatrove", reason="datatrove is not installed: make test-integrations")

from datatrove.data import Document
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.writers.jsonl import JsonlWriter

from synthscore.integrations.datatrove import SynthscoreFilter


def documents(n):
    return [Document(text(1 + k % 9 / 2), str(k), metadata={"context_id": f"c{1 + k % 2}"}) for k in range(n)]


def test_documents_below_are_dropped_and_those_without_a_score_are_unsure(judge, ladders, tmp_path):
    data = [*documents(50), Document(text(5), "lost", metadata={"context_id": "elsewhere"})]
    out = {name: JsonlWriter(str(tmp_path / name), compression=None) for name in ("kept", "others")}
    mount = Mount(references=ladders)
    pipeline = [data, SynthscoreFilter(mount, 3.0, exclusion_writer=out["others"], batch_size=16), out["kept"]]
    stats = LocalPipelineExecutor(pipeline, logging_dir=str(tmp_path / "logs")).run()
    kept, others = (
        [json.loads(line) for line in (tmp_path / name / "00000.jsonl").read_text().splitlines()] for name in out
    )
    values = {doc.id: score.value for doc, score in zip(documents(50), mount.scores(
        [{"id": doc.id, "context_id": doc.metadata["context_id"], "text": doc.text} for doc in documents(50)]
    ), strict=True)}  # fmt: skip
    assert {row["id"] for row in kept} == {id for id, value in values.items() if value >= 3}
    assert {row["id"]: row["metadata"]["synthscore"] for row in kept}.items() <= values.items()
    reasons = {row["id"]: row["metadata"]["filter_reason"] for row in others}
    assert reasons.pop("lost") == "unsure"
    assert set(reasons.values()) == {"dropped"}
    assert "there is no ladder" in next(row for row in others if row["id"] == "lost")["metadata"]["synthscore_reason"]
    [of] = [each.stats for each in stats.stats if each.name.endswith("synthscore")]
    dropped = {name: stat.total for name, stat in of.items() if name.startswith("dropped_")}
    assert dropped == {"dropped_dropped": len(reasons), "dropped_unsure": 1}


@pytest.mark.slow
def test_it_is_pickled_to_processes_that_load_a_judge_of_their_own(tmp_path):
    from tests import factories
    from tests.scoring.test_scorer import ladder

    factories.references(ladder("c1"), ladder("c2")).save(tmp_path / "ladders")
    mount = Mount(references=str(tmp_path / "ladders"), store=str(tmp_path / "store.sqlite"))
    pipeline = [documents(6), SynthscoreFilter(mount, 0.1), JsonlWriter(str(tmp_path / "kept"), compression=None)]
    LocalPipelineExecutor(pipeline, tasks=2, workers=2, start_method="spawn", logging_dir=str(tmp_path / "logs")).run()
    rows = [json.loads(line) for path in (tmp_path / "kept").iterdir() for line in path.read_text().splitlines()]
    assert len(rows) == 12  # a list goes to each task as it is
    assert all(row["metadata"]["synthscore_status"] == "ok" for row in rows)
