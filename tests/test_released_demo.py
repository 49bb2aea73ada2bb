"""data/demo and data/references/degraded: what is released loads, and is made again by its script."""

import sys

from synthscore.ladders.references import References
from synthscore.resources import resource
from training import references

DEMO, DEGRADED = resource("data/demo"), resource("data/references/degraded")


def test_datasets_loads_the_targets_of_the_demo_and_each_tasks_contexts(tmp_path, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets.disable_progress_bars()
    cache = str(tmp_path / "cache")
    rows = datasets.load_dataset(str(DEMO), cache_dir=cache)
    assert {split: len(part) for split, part in rows.items()} == {"test": 102}
    contexts = {
        row["id"]
        for task in ("summarization", "dialogue", "story")
        for row in datasets.load_dataset(str(DEMO), task, split="contexts", cache_dir=cache)
    }
    assert set(rows["test"]["context_id"]) == contexts


def test_every_degraded_ladder_has_all_its_rungs():
    ladders = References.load(DEGRADED)
    assert {ladder.n_rungs for ladder in ladders} == {5}
    assert all(rung.text and rung.status == "ok" for ladder in ladders for rung in ladder.rungs)


def test_the_degraded_ladders_and_their_card_are_made_again_by_one_command(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["references", "--out", str(tmp_path)])
    references.main()
    again, released = References.load(tmp_path / "degraded"), References.load(DEGRADED)
    assert again.ladders == released.ladders
    assert (tmp_path / "degraded/README.md").read_bytes() == (DEGRADED / "README.md").read_bytes()
    card = (DEGRADED / "README.md").read_text(encoding="utf-8")
    assert f"the {len(References.load(DEGRADED))} that have all five rungs" in card
