"""data/references/generated: the method made these ladders, and the files show it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from benchmarks.generated import BEGIN, BLIND, END, FOLDER, N_READ, drawn, figures, markdown, readings, released
from synthscore.engine import Answers, Generation, Progress, Question
from synthscore.judging.templates import Templates, load_task
from synthscore.ladders.prompted import PromptedWriter
from synthscore.ladders.references import References
from synthscore.ladders.write import derive_seed, generate_ladders, schedule
from synthscore.signature import Signature, text_hash
from synthscore.types import Ladder, grouped
from training.generated import OWN, SETS

WRITER = "model:a large language model, version not recorded|backend:batch-words|wire:openai"
HEX = set("0123456789abcdef")


@pytest.fixture(scope="module")
def sets():
    return released(FOLDER)


@pytest.fixture(scope="module")
def ladders(sets):
    return [ladder for each in sets.values() for ladder in each]


@pytest.fixture(scope="module")
def measured():
    return figures(FOLDER)


class Replay:
    """The writer of these ladders again: each text comes back for the seed that it was asked for with."""

    signature = Signature.parse(WRITER)

    def __init__(self, ladders: Sequence[Ladder]) -> None:
        self.texts: dict[int, str] = {}
        for ladder in ladders:
            texts = {text_hash(rung.text): rung.text for rung in ladder.rungs}
            for rung in ladder.rungs:
                made = rung.provenance
                for attempt in range(1, made["attempt"]):  # a text that is refused: its parent again
                    self.texts[derive_seed(made["key"], attempt)] = texts[rung.parents[0]]
                self.texts[made["sampling_seed"]] = rung.text

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        return Answers([Generation(self.texts[question.seed], "stop", 0) for question in questions])


def test_datasets_loads_all_rungs_in_one_line_and_each_set_by_its_name(tmp_path, monkeypatch, ladders, sets):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets.disable_progress_bars()
    cache = str(tmp_path / "cache")
    rows = datasets.load_dataset(str(FOLDER), cache_dir=cache)
    assert list(rows) == ["ladders"]
    assert len(rows["ladders"]) == sum(ladder.n_rungs for ladder in ladders)
    assert datasets.get_dataset_config_names(str(FOLDER)) == ["all", *SETS]
    for name, each in sets.items():
        assert len(datasets.load_dataset(str(FOLDER), name, split="ladders", cache_dir=cache)) == sum(
            ladder.n_rungs for ladder in each
        )


def test_the_folder_is_one_set_of_references_and_so_is_each_of_its_folders(ladders):
    whole = References.load(FOLDER)
    assert len(whole) == len(ladders) >= 250
    assert {ladder.hash for ladder in whole} == {ladder.hash for ladder in ladders}


def test_every_rung_says_how_it_was_made(ladders):
    for ladder in ladders:
        for rung in ladder.rungs:
            made = rung.provenance
            assert (rung.status, made["writer"], made["model"]) == ("ok", "prompt", WRITER)
            assert set(made["template_hash"]) | set(made["prompt_sha256"]) | set(made["context_sha256"]) <= HEX
            assert made["sampling_seed"] == derive_seed(made["key"], made["attempt"])
            assert made["attempt"] >= 1
            assert made["seed"] == 0


def test_parents_are_the_rungs_that_the_schedule_names(ladders):
    for ladder in ladders:
        hashes = {rung.level: text_hash(rung.text) for rung in ladder.rungs}
        extremes, *waves = schedule(ladder.n_rungs)
        there = set(extremes)
        assert [ladder.rungs[level - 1].parents for level in extremes] == [(), ()]
        for wave in waves:
            for level in wave:
                worse = max(other for other in there if other < level)
                better = min(other for other in there if other > level)
                assert ladder.rungs[level - 1].parents == (hashes[worse], hashes[better])
            there.update(wave)


def test_template_hashes_are_those_of_the_prompts_that_are_shipped(ladders):
    for (name, attribute), group in grouped(((each.task, each.attribute), each) for each in ladders).items():
        task = load_task(name)
        templates = Templates(replace(task, attributes={attribute: task.attribute(attribute)}), "default")
        for ladder in group:
            for rung in ladder.rungs:
                template = "between" if rung.parents else "extreme"
                stated = (rung.provenance["template"], rung.provenance["template_hash"])
                assert stated == (template, templates.hash(template))


@pytest.mark.parametrize("n_rungs", [5, 9])
def test_generate_with_the_same_answers_makes_the_same_ladders_again(sets, n_rungs):
    """Prompts, keys, seeds, hashes and refusals, to the last: only the writer's answers come from the release."""
    chosen = [ladder for ladder in sets[OWN] if ladder.n_rungs == n_rungs]
    writer = PromptedWriter(Replay(chosen))
    for (task, attribute), group in grouped(((each.task, each.attribute), each) for each in chosen).items():
        contexts = [ladder.context for ladder in group]
        assert generate_ladders(contexts, load_task(task), [attribute], writer, n_rungs=n_rungs) == group


def test_a_ladder_of_nine_holds_the_ladder_of_five(sets):
    nines = [ladder for ladder in sets[OWN] if ladder.n_rungs == 9]
    writer = PromptedWriter(Replay(nines))
    for ladder in nines:
        (five,) = generate_ladders([ladder.context], load_task(ladder.task), [ladder.attribute], writer, n_rungs=5)
        for rung, same in zip(five.rungs, ladder.rungs[::2], strict=True):
            assert replace(rung, level=same.level) == same


def test_the_nines_of_benchmarks_nest_too_and_a_fifth_of_all_ladders_are_of_nine(ladders):
    nines = [ladder for ladder in ladders if ladder.n_rungs == 9]
    assert 0.15 <= len(nines) / len(ladders) <= 0.25
    assert len(nines) + sum(ladder.n_rungs == 5 for ladder in ladders) == len(ladders)
    for ladder in nines:
        odd = ladder.rungs[::2]
        hashes = {text_hash(rung.text) for rung in odd}
        assert [rung.fraction for rung in odd] == [0, 0.25, 0.5, 0.75, 1]
        assert all(set(rung.parents) <= hashes for rung in odd)


def test_ladders_of_benchmarks_carry_no_text_of_their_contexts_but_its_hash(sets):
    import pyarrow.parquet as pq

    for name in SETS:
        rows = pq.read_table(FOLDER / name / "ladders.parquet").to_pylist()
        assert all(row["context_sha256"] for row in rows)
        if name == OWN:
            assert all(row["context"] for row in rows)
            continue
        assert {(row["context"], row["facts"], row["references"]) for row in rows} == {(None, None, None)}
        assert all(row["context_sha256"] in row["extra"] for row in rows)
        assert all(ladder.context is None for ladder in sets[name])


def test_each_context_of_a_benchmark_has_ladders_of_all_attributes_that_are_used(sets):
    for name, n_contexts, n_attributes in (("summeval", 25, 4), ("topicalchat", 15, 4), ("webnlg", 15, 3)):
        by_context = grouped((ladder.context_id, ladder.attribute) for ladder in sets[name])
        assert len(by_context) == n_contexts
        assert {len(set(attributes)) for attributes in by_context.values()} == {n_attributes}


def test_the_ladders_that_were_read_blind_are_those_that_their_hashes_drew(sets):
    read = readings(FOLDER, sets)
    assert [each.ladder.hash for each in read] == [ladder.hash for _, ladder in drawn(sets)]
    assert len(read) == N_READ
    assert all(sorted(each.levels) == [rung.level for rung in each.ladder.rungs] for each in read)


def test_a_reading_of_other_texts_is_an_error(sets, tmp_path):
    (tmp_path / BLIND).write_text('{"hash": "0", "shown": [1, 2], "order": "AB"}\n')
    with pytest.raises(KeyError):
        readings(tmp_path, sets)


def test_the_figures_of_the_card_are_those_of_the_files(measured):
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert card.split(BEGIN)[1].split(END)[0] == "\n" + markdown(measured) + "\n"
    assert measured["n_failed"] == 0


def test_the_set_is_small():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) < 1_000_000
