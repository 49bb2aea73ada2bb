"""Batches of Ray Data: worker processes that load a judge of their own."""

import os
import signal
from pathlib import Path

import pytest

from synthscore.integrations.batches import ScoreBatch
from tests import factories
from tests.scoring.test_scorer import ladder

from .conftest import text

ray = pytest.importorskip("ray", reason="Ray is not installed: make test-integrations")


class Mortal(ScoreBatch):
    """The first actor that is given a second batch is killed in the middle of it, so that others take over."""

    def __init__(self, died, **options):
        super().__init__(**options)
        self.died, self.n_batches = Path(died), 0

    def __call__(self, batch):
        self.n_batches += 1
        scored = super().__call__(batch)
        if self.n_batches == 2 and not self.died.exists():
            self.died.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return scored


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_batches_are_scored_in_workers_and_come_back_whole_though_one_is_killed(killed, tmp_path):
    factories.references(ladder("c1"), ladder("c2")).save(tmp_path / "ladders")
    rows = [{"text": text(1 + k % 6), "context_id": f"c{1 + k % 2}", "k": k} for k in range(24)]
    rows.append({"text": text(5), "context_id": "elsewhere", "k": 24})
    options = {"references": str(tmp_path / "ladders"), "store": str(tmp_path / "store.sqlite")}
    died = tmp_path / "died"
    scorer, more = (Mortal, {"died": str(died)}) if killed else (ScoreBatch, {})
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        found = (
            ray.data.from_items(rows)
            .map_batches(
                scorer,
                fn_constructor_kwargs={**options, **more},
                batch_size=4,
                compute=ray.data.ActorPoolStrategy(size=2),
            )
            .take_all()
        )
    finally:
        ray.shutdown()
    assert died.exists() == killed
    found.sort(key=lambda row: row["k"])
    alone = ScoreBatch(**options)({name: [row[name] for row in rows] for name in rows[0]})
    assert [row["k"] for row in found] == list(range(25))
    assert [row["synthscore_status"] for row in found] == ["ok"] * 24 + ["unscored"]
    assert [row["synthscore"] for row in found[:24]] == pytest.approx(alone["synthscore"][:24], abs=1e-4)
    assert found[24]["synthscore"] is None
