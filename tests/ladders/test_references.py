import contextlib
import gc
import json
import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.errors import LadderError, ReferencesError
from synthscore.io.shards import Shard
from synthscore.io.write import replacing
from synthscore.ladders import tables
from synthscore.ladders.card import card_text
from synthscore.ladders.references import References
from synthscore.ladders.release import DATA
from synthscore.ladders.tables import N_KEPT_LADDERS, file_sha256
from synthscore.signature import text_hash
from synthscore.types import Context, Ladder, Rung, blank

FULL = {
    "writer": "prompt", "model": "model:a|dtype:b", "template": "between", "templates": "default", "seed": 3,
    "sampling_seed": 2**31 - 1, "temperature": 0.7, "top_p": 0.9, "max_new_tokens": 64, "attempt": 1,
    "finish_reason": "stop", "n_tokens": 12, "severity": 0.25, "kinds": ["drop", "swap"], "key": "ab" * 32,
    "template_hash": "x", "prompt_sha256": "y", "source": "reference 1", "created_at": "2025-01-01T00:00:00+00:00",
}  # fmt: skip
ODD = {"seed": 2**70, "attempt": True, "temperature": 1, "kinds": None, "model": ["a"], "own": {"a": [1, None, "é"]}}


def ladder(context_id="c1", attribute="coherence", task="summarization", n=3, provenance=FULL, context=True, **texts):
    rungs = [
        Rung(
            level,
            (level - 1) / (n - 1),
            texts.get(f"t{level}", f"Text {level} of {context_id}."),
            provenance=provenance,
        )
        for level in range(1, n + 1)
    ]
    if n > 2:
        rungs[1] = replace(rungs[1], parents=(text_hash(rungs[0].text), text_hash(rungs[-1].text)))
    about = Context(context_id, f"Article {context_id}.", "A fact.", ("A good text.",)) if context else None
    return Ladder(context_id, task, attribute, tuple(rungs), about)


def with_failed(whole):
    rungs = (replace(whole.rungs[0], text="", status="failed", reason="a refusal"), whole.rungs[1], whole.rungs[2])
    return replace(whole, rungs=(rungs[0], replace(rungs[1], parents=()), rungs[2]))


@pytest.fixture
def ladders():
    return [
        ladder("c2", "fluency", provenance=ODD),
        ladder("c1", "fluency", n=2, context=False, provenance={}),
        with_failed(ladder("c1")),
        ladder("c1", task="story", attribute="surprise", n=5),
    ]


def edit_rows(folder, change):
    """Change the rows of a release behind its back."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(folder / "ladders.parquet") as file:
        table = file.read()
    rows = table.to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows, table.schema), folder / "ladders.parquet")


# ------------------------------------------------------------------------------------------------- save and load


def test_saving_and_loading_gives_the_same_ladders_in_the_order_of_their_names(tmp_path, ladders):
    saved = References(ladders).save(tmp_path / "out")
    loaded = References.load(tmp_path / "out")
    assert loaded.ladders == saved.ladders
    assert loaded.hash == References(tuple(reversed(ladders))).hash
    assert [(x.task, x.context_id, x.attribute) for x in loaded] == [
        ("story", "c1", "surprise"), ("summarization", "c1", "coherence"),
        ("summarization", "c1", "fluency"), ("summarization", "c2", "fluency"),
    ]  # fmt: skip
    for was, found in zip(sorted(ladders, key=lambda x: (x.task, x.context_id, x.attribute)), loaded, strict=True):
        assert found == was
        for one, other in zip(was.rungs, found.rungs, strict=True):  # JSON tells 1 from 1.0 and from true
            assert json.dumps(one.provenance, sort_keys=True) == json.dumps(other.provenance, sort_keys=True)
    assert References.load(tmp_path / "out" / "ladders.parquet").ladders == saved.ladders


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
FILLED = TEXT.filter(lambda text: not blank(text))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
PROVENANCE = st.dictionaries(st.sampled_from(sorted(FULL)) | TEXT, JSON, max_size=6)


@settings(max_examples=40)
@given(
    texts=st.lists(FILLED, min_size=2, max_size=5, unique=True), context=FILLED, facts=TEXT,
    references=st.lists(FILLED, max_size=2), provenance=PROVENANCE, id=FILLED,
)  # fmt: skip
def test_nothing_is_lost_whatever_the_texts_and_the_provenance(
    tmp_path_factory, texts, context, facts, references, provenance, id
):
    rungs = tuple(
        Rung(i + 1, i / (len(texts) - 1), text, provenance=provenance if i else {}) for i, text in enumerate(texts)
    )
    whole = Ladder(id, "story", "surprise", rungs, Context(id, context, facts, tuple(references)))
    folder = tmp_path_factory.mktemp("references") / "out"
    References([whole]).save(folder)
    assert References.load(folder).ladders == (whole,)
    assert repr(References.load(folder).ladders[0].rungs[-1].text) == repr(texts[-1])


def test_equal_ladders_give_equal_bytes_whatever_their_order(tmp_path, ladders):
    References(ladders).save(tmp_path / "a", release="r", licence="CC0-1.0")
    References(reversed(ladders)).save(tmp_path / "b", release="r", licence="CC0-1.0")
    names = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert names == ["README.md", "ladders.parquet", "manifest.json"]
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_datasets_loads_a_saved_folder_offline(tmp_path, ladders, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets.disable_progress_bars()
    References(ladders).save(tmp_path / "out", licence="CC-BY-4.0", release='A: "release" #1')
    loaded = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))
    assert list(loaded) == ["ladders"]
    rows = list(loaded["ladders"])
    assert len(rows) == 3 + 3 + 2 + 5
    assert rows[0]["text"] == "Text 1 of c1."
    assert rows[5]["text"] is None
    assert (rows[5]["status"], rows[5]["reason"], rows[5]["n_rungs"]) == ("failed", "a refusal", 3)
    assert rows[6]["kinds"] == ["drop", "swap"]
    assert {row["release"] for row in rows} == {'A: "release" #1'}


def test_a_dataset_of_the_hub_is_downloaded_at_its_revision_and_read_as_a_folder(tmp_path, ladders, monkeypatch):
    import huggingface_hub

    References(ladders).save(tmp_path / "out")
    asked = []

    def snapshot_download(name, repo_type, revision, **_):
        asked.append((name, repo_type, revision))
        return str(tmp_path / "out")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    loaded = References.load("org/news-ladders", revision="v1")
    assert asked == [("org/news-ladders", "dataset", "v1")]
    assert loaded.ladders == References.load(tmp_path / "out").ladders
    assert loaded.source == "org/news-ladders@v1"
    edit_rows(tmp_path / "out", set_(0, "text", "Another text."))
    with pytest.raises(ReferencesError, match=r"cannot load org/news-ladders@v1: sha256 of ladders.parquet is"):
        References.load("org/news-ladders", revision="v1")


def test_a_dataset_that_cannot_be_had_says_how_to_go_on(monkeypatch):
    import huggingface_hub

    def snapshot_download(name, repo_type, revision, **_):
        raise ConnectionError("offline")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    with pytest.raises(ReferencesError, match=r"ConnectionError: offline.*hf download .*org/news --local-dir"):
        References.load("org/news")


def test_what_is_no_release_is_refused(tmp_path):
    with pytest.raises(ReferencesError, match="no such folder"):
        References.load(tmp_path / "missing")
    with pytest.raises(ReferencesError, match=r"holds no ladders.parquet"):
        References.load(tmp_path)
    (tmp_path / "ladders.parquet").write_bytes(b"PAR1")
    with pytest.raises(ReferencesError, match="not a whole Parquet file"):
        References.load(tmp_path)
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"text": ["a"]}), tmp_path / "ladders.parquet")
    with pytest.raises(ReferencesError, match=r"no column task, context_id, attribute, level.*it has: text"):
        References.load(tmp_path)


def test_a_folder_of_other_files_names_one_that_can_be_loaded(tmp_path, ladders):
    References(ladders).save(tmp_path / "out")
    (tmp_path / "story").mkdir()
    (tmp_path / "out" / "ladders.parquet").rename(tmp_path / "story" / "test.parquet")
    with pytest.raises(ReferencesError, match=r"no references folder. Name one of its files, such as .*story.test"):
        References.load(tmp_path)
    assert len(References.load(tmp_path / "story" / "test.parquet")) == len(References(ladders))


def test_two_ladders_of_one_name_are_refused(ladders):
    with pytest.raises(ReferencesError, match="two ladders story/c1/surprise"):
        References((*ladders, ladders[3]))


# ------------------------------------------------------------------------------------------------- folders


def test_a_folder_that_holds_something_is_never_overwritten_by_surprise(tmp_path, ladders):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "README.md").write_text("mine")
    for options in ({}, {"overwrite": True}, {"merge": True}):
        with pytest.raises(ReferencesError, match="no references folder"):
            References(ladders).save(tmp_path / "notes", **options)
    assert (tmp_path / "notes" / "README.md").read_text() == "mine"
    References(ladders[:1]).save(tmp_path / "out")
    with pytest.raises(ReferencesError, match="overwrite=True or merge=True"):
        References(ladders).save(tmp_path / "out")
    References(ladders[1:]).save(tmp_path / "out", overwrite=True)
    assert len(References.load(tmp_path / "out")) == 3


def test_merging_replaces_the_same_ladders_and_keeps_the_others_and_what_was_said(tmp_path, ladders):
    References(ladders).save(tmp_path / "out", licence="CC0-1.0", description="First.", release="r1")
    new = ladder("c1", t1="A new worst text.")
    merged = References([new, ladder("c9")]).save(tmp_path / "out", merge=True, description="Second.")
    assert merged.ladders == References.load(tmp_path / "out").ladders
    assert merged.find("c1", "coherence") == new
    assert len(merged) == 5
    text = (tmp_path / "out" / "README.md").read_text()
    assert "license: cc0-1.0" in text
    assert "Second." in text
    assert "# r1" in text
    assert References.load(tmp_path / "out")
    assert len(References([new]).save(tmp_path / "fresh", merge=True)) == 1


def test_a_save_that_fails_leaves_the_old_release_whole(tmp_path, ladders, monkeypatch):
    References(ladders).save(tmp_path / "out")

    def broken(rows, file):
        file.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr("synthscore.ladders.references.write_table", broken)
    with pytest.raises(OSError, match="disk full"):
        References(ladders[:1]).save(tmp_path / "out", overwrite=True)
    assert References.load(tmp_path / "out")
    assert len(list((tmp_path / "out").iterdir())) == 3


# ------------------------------------------------------------------------------------------------- finding


def test_finding_a_ladder(ladders):
    references = References(tuple(ladders), "news")
    assert references.find("c2", "fluency") == ladders[0]
    assert references.find("c1", "surprise", "story") == ladders[3]
    assert references.tasks == ("story", "summarization")
    assert references.attributes == ("coherence", "fluency", "surprise")
    assert len(references.filter(task="summarization")) == 3
    assert set(references.filter(attribute=["fluency", "surprise"]).attributes) == {"fluency", "surprise"}
    with pytest.raises(LadderError, match="holds no ladder of attribute 'clarity'"):
        references.select(attribute=["fluency", "clarity"])
    assert len(references.filter(task="summarization", attribute="fluency", context_id="c2")) == 1


def test_a_context_without_a_ladder_names_the_nearest_and_the_remedy():
    references = References(tuple(ladder(f"news-{i:04d}") for i in range(700)), "news")
    problem = r"no ladder news-04421/coherence in news: of its 700 contexts the nearest are .*'news-0442'"
    with pytest.raises(LadderError, match=problem + ".*Make it with: synthscore generate") as caught:
        references.find("news-04421", "coherence")
    assert (caught.value.context_id, caught.value.attribute) == ("news-04421", "coherence")
    with pytest.raises(LadderError, match=r"this context has ladders for summarization/coherence"):
        references.find("news-0001", "fluency")
    with pytest.raises(LadderError, match="no ladder story/news-0001/coherence"):
        references.find("news-0001", "coherence", "story")
    with pytest.raises(LadderError, match="holds none at all"):
        References(()).find("a", "b")


def test_a_name_in_two_tasks_asks_for_the_task():
    references = References((ladder("c"), ladder("c", task="story")))
    with pytest.raises(LadderError, match=r"2 ladders c/coherence, for the tasks story, summarization\. Say which"):
        references.find("c", "coherence")
    assert references.find("c", "coherence", "story").task == "story"


def test_the_hash_follows_texts_and_contexts_alone(ladders):
    whole = References(tuple(ladders)).hash
    other = [*ladders[:3], replace(ladders[3], context=Context("c1", "Another article."))]
    assert References(tuple(other)).hash != whole
    assert References((ladder("a", t2="x"),)).hash != References((ladder("a", t2="y"),)).hash
    assert References((ladder("a", provenance={}),)).hash == References((ladder("a"),)).hash


# ------------------------------------------------------------------------------------------------- hashes


def set_(row, name, value):
    return lambda rows: rows[row].update({name: value})


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (set_(0, "text", "Another text."), "story/c1/surprise: rung 1: the text is not the one that was hashed"),
        (set_(0, "context", "Another."), "story/c1/surprise: rung 1: the context is not the one that was hashed"),
        (set_(1, "level", 7), "levels are [1, 3, 4, 5, 7], expected 1..5"),
        (set_(5, "reason", ""), "rung 1 failed: expected a reason and no text"),
        (set_(0, "task", None), "task None"),
        (lambda rows: rows.append(rows[0]), "levels are [1, 1, 2, 3, 4, 5]"),
    ],
)
def test_changed_rows_are_not_loaded_without_the_hash_of_their_file_either(tmp_path, ladders, change, problem):
    References(ladders).save(tmp_path / "out")
    edit_rows(tmp_path / "out", change)
    with pytest.raises(ReferencesError, match=r"sha256 of ladders\.parquet is"):
        References.load(tmp_path / "out")
    (tmp_path / "out" / "manifest.json").unlink()
    with pytest.raises(ReferencesError) as found:
        References.load(tmp_path / "out")
    assert problem in str(found.value)


@pytest.mark.parametrize("broken", [None, "{", "[]", b"\xff"])
def test_ladders_are_not_added_where_the_licence_cannot_be_read(tmp_path, ladders, broken):
    manifest = tmp_path / "out" / "manifest.json"
    References(ladders).save(tmp_path / "out", licence="CC0", description="Ours.")
    manifest.unlink()
    if broken is not None:
        manifest.write_bytes(broken if isinstance(broken, bytes) else broken.encode())
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    with pytest.raises(ReferencesError, match=r"cannot add ladders to .*out: its manifest.json .* overwrite=True") as e:
        References([ladder("c9")]).save(tmp_path / "out", merge=True, licence="CC0")
    assert e.value.source == str(manifest)
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


def test_a_tampered_ladder_that_is_none_any_more_is_not_loaded(tmp_path, ladders):
    References(ladders).save(tmp_path / "out")
    edit_rows(tmp_path / "out", lambda rows: rows[1].update(text=rows[0]["text"], text_sha256=rows[0]["text_sha256"]))
    (tmp_path / "out" / "manifest.json").unlink()
    with pytest.raises(ReferencesError, match=r"story/c1/surprise: .*two rungs are the same"):
        References.load(tmp_path / "out")


def test_ladders_that_are_not_those_of_their_manifest_are_not_loaded(tmp_path, ladders):
    out = tmp_path / "out"
    References(ladders).save(out)
    whole = (out / "manifest.json").read_text()
    (out / "manifest.json").write_text(whole.replace('"format": 1', '"format": 99'))
    with pytest.raises(ReferencesError, match=r"manifest.json has format 99, expected 1"):
        References.load(out)
    (out / "manifest.json").write_text(whole)
    edit_rows(out, set_(0, "text", "Another text."))
    for source in (out, out / "ladders.parquet"):
        with pytest.raises(
            ReferencesError, match=r"sha256 of ladders.parquet is .*, manifest.json says .*Make or down"
        ):
            References.load(source)
    manifest = json.loads(whole)
    del manifest["sha256"]
    (out / "manifest.json").write_text(json.dumps(manifest))
    edit_rows(out, set_(0, "text_sha256", None))
    assert len(References.load(out)) == len(ladders)


def test_a_ladder_whose_levels_were_turned_round_is_refused(ladders):
    rungs = ladders[0].rungs
    turned = tuple(replace(rung, fraction=1 - rung.fraction) for rung in rungs)
    with pytest.raises(LadderError, match="expected none below the one before: levels count from the worst"):
        replace(ladders[0], rungs=turned)


def test_a_manifest_that_cannot_be_read_is_told_when_ladders_are_loaded(tmp_path, ladders):
    References(ladders).save(tmp_path / "out")
    (tmp_path / "out" / "manifest.json").write_text("{")
    with pytest.raises(ReferencesError, match=r"its manifest\.json cannot be read"):
        References.load(tmp_path / "out")


@pytest.mark.parametrize("at", ["ladders.parquet", "README.md", "manifest.json"])
def test_a_save_that_is_killed_can_be_repeated(tmp_path, ladders, monkeypatch, at):
    out = tmp_path / "out"
    References(ladders[:1]).save(out, licence="CC0")

    @contextlib.contextmanager
    def killed(path):
        with replacing(path) as file:
            yield file
            file.flush()
            if path.name == at and (at != "manifest.json" or b"sha256" in Path(file.name).read_bytes()):
                raise KeyboardInterrupt

    for module in ("ladders.references", "io.write"):
        monkeypatch.setattr(f"synthscore.{module}.replacing", killed)
    with pytest.raises(KeyboardInterrupt):
        References(ladders).save(out, merge=True)
    monkeypatch.undo()
    References(ladders).save(out, merge=True)
    assert References.load(out)
    assert len(References.load(out)) == len(ladders)
    assert json.loads((out / "manifest.json").read_text())["licence"] == "CC0"


# ------------------------------------------------------------------------------------------------- the card


def test_the_card_counts_and_names_what_is_inside(ladders):
    about = {"licence": "CC0 for all | texts", "description": "About news.", "release": "News 1"}
    text = card_text(ladders, "0" * 64, **about)
    assert text.startswith('---\npretty_name: "News 1"\nlicense: other\nlicense_name: "CC0 for all | texts"\n')
    for line in (
        "# News 1",
        "About news.",
        "4 ladders, 13 rungs, 1 of them failed",
        "| summarization | coherence | 1 | 1 | 3 | 1 |",
        "| summarization | coherence |  | 4 | 4 |",
        r"| prompt | `model:a\|dtype:b` | 8 | 1 |",
        "| a refusal | 1 |",
        "## What it is not",
    ):
        assert line in text
    assert "None stated" in card_text((), "0" * 64, release="", licence="", description="")


# ------------------------------------------------------------------------------------------------- opened one by one


def many(n, prefix="c"):
    """Ladders of three rungs; more than a row group's."""
    return [ladder(f"{prefix}{number:04d}", t3=f"Best of {prefix}{number:04d}.") for number in range(n)]


def opened_ladders(monkeypatch):
    """The keys of the ladders that are made of rows from now on."""
    made = []
    make = tables.rows_ladder

    def rows_ladder(key, *more):
        made.append(key)
        return make(key, *more)

    monkeypatch.setattr(tables, "rows_ladder", rows_ladder)
    return made


def test_a_ladder_is_opened_when_it_is_asked_for_and_once(tmp_path, monkeypatch):
    References(many(800)).save(tmp_path / "out")
    made = opened_ladders(monkeypatch)
    references = References.load(tmp_path / "out")
    assert len(references) == 800
    assert references.tasks == ("summarization",)
    assert references.attributes == ("coherence",)
    assert references.attributes_by_task == {"summarization": ("coherence",)}
    assert references.context_ids == tuple(f"c{number:04d}" for number in range(800))
    assert references.lengths == {3: 800}
    assert len(references.filter(context_id="c0007")) == 1
    assert ("summarization", "c0007", "coherence") in references
    assert made == []
    assert references.find("c0007", "coherence") == many(8)[7]
    assert references.filter(attribute="coherence").find("c0007", "coherence") == many(8)[7]
    assert made == [("summarization", "c0007", "coherence")]


def test_a_ladder_among_many_is_found_whole_without_reading_the_others(tmp_path):
    import pyarrow.parquet as pq

    ladders = many(800)
    References(ladders).save(tmp_path / "out")
    with pq.ParquetFile(tmp_path / "out" / DATA) as file:
        sizes = [file.metadata.row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    assert sizes == [1024, 1024, 352]  # some ladders lie in two of them
    references = References.load(tmp_path / "out")
    assert references.ladders == tuple(ladders)
    for number in (0, 341, 342, 799):
        assert references.find(f"c{number:04d}", "coherence") == ladders[number]


def test_a_table_whose_rows_stand_in_any_order_is_read_as_well(tmp_path):
    import pyarrow.parquet as pq

    ladders = many(50)
    References(ladders).save(tmp_path / "out")
    table = pq.read_table(tmp_path / "out" / DATA)
    order = [(7 * row) % table.num_rows for row in range(table.num_rows)]
    pq.write_table(table.take(order), tmp_path / "mixed.parquet", row_group_size=11)
    assert References.load(tmp_path / "mixed.parquet").ladders == tuple(ladders)


@pytest.fixture
def made_since():
    """All objects made since the test began that are still there: those before, a million, are not looked at."""
    gc.collect()
    gc.freeze()

    def objects():
        gc.collect()
        return gc.get_objects()

    yield objects
    gc.unfreeze()


def test_no_more_ladders_than_some_hundred_stay_in_memory(tmp_path, made_since):
    n = N_KEPT_LADDERS + 100
    References(many(n, "kept-")).save(tmp_path / "out")
    references = References.load(tmp_path / "out")

    def n_open():
        return sum(type(each) is Ladder and each.context_id.startswith("kept-") for each in made_since())

    assert 0 < max(n_open() for number, _ in enumerate(references) if number % 100 == 0) <= N_KEPT_LADDERS + 1
    for number in range(n):
        references.find(f"kept-{number:04d}", "coherence")
    assert n_open() == N_KEPT_LADDERS


def test_several_ladders_are_found_together_each_or_why_not(tmp_path):
    ladders = many(300)
    References(ladders).save(tmp_path / "out")
    references = References.load(tmp_path / "out")
    wanted = [("c0299", "coherence", None), ("c0000", "fluency", None), ("c0001", "coherence", "summarization")]
    last, none, first = references.find_all([*wanted, wanted[0]])[:3]
    assert (last, first) == (ladders[299], ladders[1])
    assert isinstance(none, LadderError)
    assert "no ladder c0000/fluency" in str(none)


def test_the_hash_is_the_same_whether_ladders_are_open_or_not(tmp_path):
    parts = []
    for each in many(300):
        parts += [each.task, each.context_id, each.attribute, each.context.text, each.context.facts, each.hash]
    References(many(300)).save(tmp_path / "out")
    assert References.load(tmp_path / "out").hash == References(many(300)).hash == text_hash(*parts)


def test_a_file_that_is_changed_or_replaced_after_it_was_loaded_is_not_read(tmp_path, ladders):
    References(ladders).save(tmp_path / "out")
    references = References.load(tmp_path / "out")
    edit_rows(tmp_path / "out", lambda rows: [row.update(text=f"{row['text']}!", text_sha256=None) for row in rows])
    with pytest.raises(ReferencesError, match=r"was changed after its ladders were loaded. Load them again"):
        references.find("c1", "surprise")
    References(ladders).save(tmp_path / "out", overwrite=True)
    with pytest.raises(ReferencesError, match=r"was changed after its ladders were loaded"):
        references.find("c1", "surprise")
    assert References.load(tmp_path / "out").find("c1", "surprise") == ladders[3]


def test_a_text_that_is_not_the_one_that_was_hashed_is_refused_when_its_ladder_is_opened(tmp_path, ladders):
    """Whatever the manifest says of the file."""
    References(ladders).save(tmp_path / "out")
    edit_rows(tmp_path / "out", set_(0, "text", "Another text."))
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    manifest["sha256"][DATA] = file_sha256(tmp_path / "out" / DATA)
    (tmp_path / "out" / "manifest.json").write_text(json.dumps(manifest))
    references = References.load(tmp_path / "out")
    assert references.find("c2", "fluency") == ladders[0]
    with pytest.raises(ReferencesError, match=r"story/c1/surprise: rung 1: the text is not the one that was hashed"):
        references.find("c1", "surprise")


def test_references_print_in_a_line_and_can_be_pickled(tmp_path, ladders):
    References(ladders).save(tmp_path / "out")
    loaded = References.load(tmp_path / "out")
    copy = pickle.loads(pickle.dumps(loaded))
    assert (copy.source, copy.ladders) == (loaded.source, loaded.ladders)
    assert repr(References(ladders, "news")) == "References('news', 4 ladders: 1 of story, 3 of summarization)"
    assert repr(References((), "none")) == "References('none', 0 ladders)"


def test_a_ladder_saved_without_its_contexts_text_keeps_the_hash_of_it(tmp_path, ladders):
    stated = ("abc", 7, None)  # a file may state anything
    rungs = [
        replace(rung, provenance={"context_sha256": value})
        for rung, value in zip(ladders[0].rungs, stated, strict=True)
    ]
    bare = replace(ladders[0], context=None, rungs=tuple(rungs))
    References([bare]).save(tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / DATA).to_pylist()
    assert [row["context"] for row in rows] == [None, None, None]
    assert [row["context_sha256"] for row in rows] == ["abc", None, None]
    assert References.load(tmp_path / "out").ladders == (bare,)


# ------------------------------------------------------------------------------------------------- by text


@pytest.mark.parametrize("saved", [True, False])
def test_a_ladder_is_found_by_its_contexts_text_whatever_white_space_and_id(tmp_path, ladders, saved):
    references = References(ladders)
    if saved:
        references.save(tmp_path / "out")
        references = References.load(tmp_path / "out")
    assert references.find_by_text(" Article\n  c2. ", "fluency") == ladders[0]
    assert references.find_by_text("Article c1.", "surprise", "story") == ladders[3]
    with pytest.raises(LadderError, match=r"no ladder fluency for the context 'Article c3.'"):
        references.find_by_text("Article c3.", "fluency")
    with pytest.raises(LadderError, match="no ladder"):  # this one does not carry its context
        references.find_by_text("Article c1.", "fluency")
    with pytest.raises(LadderError, match="no ladder story/fluency"):
        references.find_by_text("Article c2.", "fluency", "story")


def test_a_text_under_two_ids_is_found_where_the_rungs_are_the_same():
    one = ladder("a")
    same = replace(one, context_id="b", context=replace(one.context, id="b", text="Article\ta."))
    assert References((one, same)).find_by_text("Article a.", "coherence").hash == one.hash
    other = replace(ladder("c"), context=replace(one.context, id="c"))
    with pytest.raises(LadderError, match=r"with other rungs under the ids 'a', 'c'. Name the context's id"):
        References((one, other)).find_by_text("Article a.", "coherence")
    story = replace(one, task="story")
    with pytest.raises(LadderError, match=r"for the tasks story, summarization. Say which with task="):
        References((one, story)).find_by_text("Article a.", "coherence")


# ------------------------------------------------------------------------------------------------- folders of folders


def test_a_folder_of_folders_of_ladders_is_one_set(tmp_path):
    ladders = many(40)
    for index in (1, 2, 3):
        own = [each for each in ladders if Shard(index, 3).owns(each.context_id)]
        References(own).save(tmp_path / f"shard-{index}")
    whole = References.load(tmp_path)
    assert whole.ladders == tuple(ladders)
    assert whole.hash == References(ladders).hash
    assert whole.source == str(tmp_path)
    assert whole.find("c0012", "coherence") == ladders[12]
    (tmp_path / "shard-2" / "manifest.json").write_text("{")
    with pytest.raises(ReferencesError, match=r"shard-2: its manifest\.json cannot be read"):
        References.load(tmp_path)


def test_a_ladder_in_two_folders_counts_once_and_with_other_texts_names_both(tmp_path):
    References(many(5)).save(tmp_path / "all" / "one")
    References(many(3)).save(tmp_path / "all" / "two")
    assert References.load(tmp_path / "all").ladders == tuple(many(5))
    References([ladder("c0001")]).save(tmp_path / "all" / "two", overwrite=True)
    with pytest.raises(
        ReferencesError, match=r"all.one and .*all.two both hold a ladder summarization/c0001/coherence"
    ):
        References.load(tmp_path / "all")


def test_a_folder_of_ladders_and_other_tables_is_no_set(tmp_path, ladders):
    References(ladders).save(tmp_path / "one")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "test.parquet").write_bytes((tmp_path / "one" / DATA).read_bytes())
    with pytest.raises(ReferencesError, match=r"no references folder. Name one of its files, such as"):
        References.load(tmp_path)
