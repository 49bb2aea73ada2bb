"""data/references/curated: the released ladders are what their card says."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from benchmarks.curated import (
    ABOUT,
    BEGIN,
    END,
    FOLDER,
    SPREAD,
    figures,
    markdown,
    misses,
    moved,
    readings,
    released,
    tau,
)
from synthscore.ladders.references import References

FIRST = FOLDER / "first24"
FILES = sorted(set(FOLDER.glob("*/*.parquet")) - set(FIRST.iterdir()))


@pytest.fixture(scope="module")
def ladders():
    return released(FOLDER)


@pytest.fixture(scope="module")
def counted():
    return figures(FOLDER)


def test_datasets_loads_a_configuration_a_task_by_the_card_alone_and_names_them_where_none_is_named(
    tmp_path, monkeypatch
):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets.disable_progress_bars()
    tasks = sorted({path.parent.name for path in FILES})
    assert set(datasets.get_dataset_config_names(str(FOLDER))) == {*tasks, "first24"}
    with pytest.raises(
        ValueError, match=r"pick one among the available configs: \['summarization', 'dialogue', .*'first24'"
    ):
        datasets.load_dataset(str(FOLDER), cache_dir=str(tmp_path / "cache"))
    first = datasets.load_dataset(str(FOLDER), "first24", split="ladders", cache_dir=str(tmp_path / "cache"))
    assert len(first) == 5 * len(References.load(FIRST)) == 120
    for task in tasks:
        splits = datasets.load_dataset(str(FOLDER), task, cache_dir=str(tmp_path / "cache"))
        assert set(splits) == {path.stem for path in FILES if path.parent.name == task}
        for name, rows in splits.items():
            assert len(rows) == pq.read_metadata(FOLDER / task / f"{name}.parquet").num_rows
            assert rows.features["level"].dtype == "int64"
            assert rows.features["kendall_tau"].dtype == "float64"
            assert rows.features["where"].feature.dtype == "string"


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_each_file_is_a_references_file_whose_hashes_are_right(path):
    assert References.load(path).tasks == (path.parent.name,)


def test_a_context_is_in_one_half_with_all_its_ladders(ladders):
    halves = {(one.ladder.context_id, one.split) for one in ladders}
    assert len(halves) == len({context for context, _ in halves})
    assert {one.split for one in ladders if one.hand > 1} == {"test"}


def test_every_ladder_has_five_different_texts_of_nearly_one_length(ladders, counted):
    assert all(len({rung.text for rung in one.ladder.rungs}) == 5 for one in ladders)
    beyond = [one.key for one in ladders if one.spread > SPREAD]
    assert len(beyond) == counted["ladders_beyond_10_percent"] == 0, beyond


def test_where_quotes_its_text_and_only_the_best_rung_has_no_flaw(ladders):
    for one in ladders:
        assert [bool(quoted) for quoted in one.where] == [True] * 4 + [False], one.key
        for rung, quoted in zip(one.ladder.rungs, one.where, strict=True):
            assert [words for words in quoted if words not in rung.text] == [], one.key


def test_kendalls_tau_is_that_of_the_readings_of_these_very_texts(ladders):
    found, by_key = {}, {one.key: one for one in ladders}
    for reading in readings(FOLDER):
        key = tuple(reading[name] for name in ("task", "context_id", "attribute", "hand"))
        assert reading["hash"] == by_key[key].ladder.hash
        found.setdefault(key, []).append(tau(reading))
    assert {one.key for one in ladders if one.tau is not None} == set(found)
    for one in ladders:
        values = found.get(one.key)
        assert one.tau == (pytest.approx(sum(values) / len(values)) if values else None), one.key


def test_tau_is_1_for_the_order_as_written_and_minus_1_for_the_reverse():
    shown = [3, 1, 5, 2, 4]
    assert tau({"shown": shown, "order": "BDAEC"}) == 1
    assert tau({"shown": shown, "order": "CEADB"}) == -1
    assert tau({"shown": shown, "order": "BDACE"}) == pytest.approx(0.8)


def test_no_single_count_goes_with_the_rung_further_than_it_may(counted):
    assert [names for names in misses(counted).values() if names] == []
    assert all(name in counted["groups"][0]["counts"] for names in ABOUT.values() for name in names)


def test_a_count_is_held_to_its_ceiling_without_the_attributes_that_it_is_about(counted):
    [task] = [each for each in counted["groups"] if each["task"] == "support_replies" and not each["attribute"]]
    [rest] = [each for each in counted["groups"] if each["attribute"] == "politeness"]
    assert task["held"]["place of the runs"] == rest["counts"]["place of the runs"]
    assert task["held"]["length"] == pytest.approx(task["counts"]["length"])


def test_scores_that_move_as_one_keep_their_order_and_others_do_not():
    assert moved(np.array([[1.0, 2, 3], [2, 3, 4]])) == (1, 1, pytest.approx(1))
    assert moved(np.array([[1.0, 2, 3], [3, 2, 1]])) == (pytest.approx(4 / 3), 0, pytest.approx(-1))


def test_the_figures_of_the_card_are_those_of_the_files(counted):
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert card.split(BEGIN)[1].split(END)[0].strip() == markdown(counted).strip()
    assert json.loads((FOLDER / "figures.json").read_text(encoding="utf-8")) == json.loads(json.dumps(counted))


def test_the_card_shows_a_ladder_to_learn_from_as_it_is_released(ladders):
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    shown = [one for one in ladders if all(rung.text in card for rung in one.ladder.rungs)]
    assert {one.split for one in shown} == {"train"}
