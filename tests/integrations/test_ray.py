"""Batches of Ray Data: worker processes that load a judge of their own."""

import pytest

from synthscore.integrations.batches import ScoreBatch
from tests import factories
from tests.scoring.test_scorer import ladder

from .conftest import text

ray = pytest.importorskip("ray", reason="Ray is not installed: make test-integrations")


@pytest.mark.slow
def test_batches_are_scored_in_workers_and_come_back_whole(tmp_path):
    factories.references(ladder("c1"), ladder("c2")).save(tmp_path / "ladders")
    rows = [{"text": text(1 + k), "context_id": f"c{1 + k % 2}", "k": k} for k in range(6)]
    rows.append({"text": text(5), "context_id": "elsewhere", "k": 6})
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        options = {"references": str(tmp_path / "ladders"), "store": str(tmp_path / "store.sqlite")}
        found = (
            ray.data.from_items(rows)
            .map_batches(ScoreBatch, fn_constructor_kwargs=options, batch_size=4, concurrency=1)
            .take_all()
        )
    finally:
        ray.shutdown()
    found.sort(key=lambda row: row["k"])
    alone = ScoreBatch(**options)({name: [row[name] for row in rows] for name in rows[0]})
    assert [row["synthscore_status"] for row in found] == ["ok"] * 6 + ["unscored"]
    assert [row["synthscore"] for row in found[:6]] == pytest.approx(alone["synthscore"][:6], abs=1e-4)
    assert found[6]["synthscore"] is None
