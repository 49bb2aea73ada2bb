"""`generate --findings`: rungs that a check flags are written again, and no text is ever lost."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore import engines
from synthscore.cli.app import main
from synthscore.errors import InputError
from synthscore.io.write import write_rows
from synthscore.judging.templates import load_task
from synthscore.ladders import references
from synthscore.ladders.degraded import DegradedWriter
from synthscore.ladders.prompted import PromptedWriter
from synthscore.ladders.references import References
from synthscore.ladders.rewrite import FaultyRungs, read_findings, redraft
from synthscore.ladders.tables import key_of
from synthscore.ladders.write import draft_ladders, generate_ladders, write_rungs
from synthscore.resources import resource
from synthscore.signature import text_hash
from synthscore.types import Context
from tests.cli.given import shown
from tests.fakes import FakeEngine

TASK = load_task("summarization")
CONTEXTS = [
    Context(f"c{i}", f"Article {i}. It has a second sentence, and that is about something else.") for i in (1, 2)
]
REFUSAL = "I'm sorry, but I can't help with that, which is of quality 50."


class Author:
    """Writes texts of the quality between those of its parents; `slips` : the n-th texts that come out otherwise."""

    def __init__(self, slips=()):
        self.slips, self.n = dict(slips), 0

    def __call__(self, prompt, seed):
        self.n += 1
        if self.n in self.slips:
            return self.slips[self.n]
        qualities = [int(number) for number in re.findall(r"quality (\d+)", prompt.text)]
        if not qualities:
            return text(100 if "best" in prompt.text else 0, seed)
        return text(sum(qualities) // 2, seed)


def text(quality, seed):
    words = " ".join(f"word{(seed * k) % 9973}" for k in range(1, 8))
    return f"Text of quality {quality}, with {words}."


def written(slips=(), contexts=CONTEXTS[:1]):
    """Ladders of five by an author, and the engine that wrote them. Its order: 1, 5, 3, 2, 4."""
    engine = FakeEngine(writer=Author(slips))
    made = generate_ladders(contexts, TASK, ["coherence"], PromptedWriter(engine, max_attempts=1), n_rungs=5)
    return made, engine


def again(ladder, engine, *levels, writer=None, **faults):
    """The ladder with these rungs written again; and why others stay."""
    writer = writer or PromptedWriter(engine, max_attempts=1)
    faulty = FaultyRungs(faults.get("hash", ladder.hash), dict.fromkeys(levels, "copied: all of it"))
    drafts = draft_ladders([faults.get("context", ladder.context)], TASK, ["coherence"])
    drafts, kept = redraft(drafts, TASK.name, References([ladder]), {key_of(ladder): faulty}, writer.name)
    write_rungs(TASK, drafts, writer)
    lost = [draft.lost for draft in drafts if draft.lost]
    return (drafts[0].ladder(TASK) if drafts else ladder), [*kept, *lost]


def texts(ladder):
    return [rung.text for rung in ladder.rungs]


def changed(old, new):
    """Levels whose texts differ."""
    return [level for level, (a, b) in enumerate(zip(texts(old), texts(new), strict=True), 1) if a != b]


def sound(ladder):
    """Whether each text that was written between two is between these two still."""
    levels = {text_hash(rung.text): rung.level for rung in ladder.usable}
    between = [(*(levels.get(parent, 0) for parent in rung.parents), rung.level) for rung in ladder.rungs]
    return all(0 < low < level < high for low, high, level in (each for each in between if len(each) == 3))


def edited(ladder, level, **changes):
    rungs = tuple(replace(rung, **changes) if rung.level == level else rung for rung in ladder.rungs)
    return replace(ladder, rungs=rungs)


# ------------------------------------------------------------------------------------------------- the library


def test_only_the_rung_at_fault_is_written_again_with_the_next_seed_and_its_history_keeps_the_old_text():
    (made,), engine = written()
    new, kept = again(made, engine, 2)
    assert (changed(made, new), kept) == ([2], [])
    old, rung = made.rungs[1].provenance, new.rungs[1].provenance
    assert (rung["attempt"], rung["key"]) == (2, old["key"])
    assert rung["sampling_seed"] != old["sampling_seed"]
    (entry,) = rung["history"]
    assert (entry["what"], entry["why"], entry["text"]) == ("replaced", "copied: all of it", made.rungs[1].text)
    assert entry["provenance"] == old
    assert new.rungs[0] == made.rungs[0]


def test_what_was_written_from_a_rung_is_written_again_with_it_and_from_its_new_text():
    (made,), engine = written()
    new, _ = again(made, engine, 3)
    assert changed(made, new) == [2, 3, 4]
    assert sound(new)
    assert "written from a rung" in new.rungs[1].provenance["history"][0]["why"]
    whole, _ = again(new, engine, 1)
    assert changed(new, whole) == [1, 2, 3, 4]
    assert sound(whole)


def test_a_rung_that_was_written_from_another_than_usual_is_written_again_with_it():
    (made,), engine = written({3: ""})  # so that rung 4 is between rungs 2 and 5
    new, _ = again(made, engine, 2)
    assert changed(made, new) == [2, 4]
    assert sound(new)


def test_a_rung_that_failed_is_written_and_those_that_were_written_without_it_stay():
    (made,), engine = written({3: ""})
    new, _ = again(made, engine, 3)
    assert changed(made, new) == [3]
    assert new.rungs[2].parents == (text_hash(made.rungs[1].text), text_hash(made.rungs[3].text))


def test_a_failed_extreme_is_written_with_all_that_failed_with_it():
    (made,), engine = written({1: ""})
    assert [rung.status for rung in made.rungs] == ["failed"] * 4 + ["ok"]
    new, _ = again(made, engine, 1, 2, 3, 4)
    assert [rung.status for rung in new.rungs] == ["ok"] * 5
    assert sound(new)


def test_a_ladder_that_would_lose_a_text_stays_as_it_was_and_a_later_run_goes_on_with_the_attempts():
    (made,), engine = written({6: "", 8: REFUSAL})
    first, (lost,) = again(made, engine, 2)
    assert lost.startswith("rung 2 could not be written again: it is empty")
    assert first.hash == made.hash
    (entry,) = first.rungs[1].provenance["history"]
    assert (entry["what"], entry["provenance"]["attempt"]) == ("not taken", 2)
    second, _ = again(first, engine, 4, 2)  # rung 2 is well, and 4 a refusal
    assert second.hash == made.hash
    third, kept = again(second, engine, 2, 4)
    assert (changed(made, third), kept) == ([2, 4], [])
    assert [rung.provenance["attempt"] for rung in third.rungs] == [1, 4, 1, 3, 1]
    assert [entry["what"] for entry in third.rungs[1].provenance["history"]] == ["not taken", "not taken", "replaced"]


def test_a_rung_without_a_text_that_fails_again_holds_up_no_other():
    (made,), engine = written({4: "", 6: ""})
    new, kept = again(made, engine, 2, 4)
    assert (changed(made, new), kept) == ([4], [])
    assert new.rungs[1].status == "failed"
    assert new.rungs[1].provenance["attempt"] == 2


def test_the_old_text_once_more_is_not_taken_for_a_new_one():
    (made,), engine = written()
    engine.writer = lambda prompt, seed: made.rungs[1].text
    same, (lost,) = again(made, engine, 2)
    assert same.hash == made.hash
    assert "rung 2" in lost


@pytest.mark.parametrize(
    ("levels", "level", "writer"), [((2,), 2, "person"), ((3,), 4, "person"), ((1,), 2, None), ((2,), 2, "degrade")]
)
def test_a_text_of_another_writer_is_left_and_so_is_what_it_was_written_from(levels, level, writer):
    (made,), engine = written()
    mixed = edited(made, level, provenance={"writer": writer} if writer else {})
    new, (kept,) = again(mixed, engine, *levels)
    assert new == mixed
    assert f"c1/coherence rung {levels[0]}: the writer of a text that would go is {writer or 'not known'!r}" in kept
    assert "'prompt'" in kept


def test_beside_a_rung_that_is_left_others_are_written():
    (made,), engine = written()
    mixed = edited(made, 2, provenance={"writer": "person"})
    new, kept = again(mixed, engine, 2, 4)
    assert changed(mixed, new) == [4]
    assert len(kept) == 1


def test_a_ladder_that_is_not_the_one_that_was_checked_is_left():
    (made,), engine = written()
    n = engine.n_written
    other = edited(made, 3, text="Another text of quality 50.")
    assert again(other, engine, 2, hash=made.hash) == (
        other, ["summarization/c1/coherence: its texts are not those that were checked. Check it again"]
    )  # fmt: skip
    same, (kept,) = again(made, engine, 2, context=Context("c1", "Another article."))
    assert same == made
    assert "another context of this id" in kept
    assert engine.n_written == n


def test_a_ladder_that_the_folder_lacks_is_written_as_ever_and_one_without_faults_stays():
    made, _ = written(contexts=CONTEXTS)
    drafts = draft_ladders(CONTEXTS, TASK, ["coherence"])
    there = References([made[0]])
    faulty = {key_of(made[0]): FaultyRungs(made[0].hash, {})}
    (draft,), kept = redraft(drafts, TASK.name, there, faulty, "prompt")
    assert (draft.context, list(draft.levels), kept) == (CONTEXTS[1], [1, 2, 3, 4, 5], [])


@pytest.mark.parametrize("there", [True, False])
def test_findings_about_rungs_that_the_folder_does_not_hold_are_an_error(there):
    (made,), _ = written()
    key = key_of(made)
    drafts = draft_ladders(CONTEXTS[:1], TASK, ["coherence"])
    with pytest.raises(InputError, match=r"rungs 2, 6 of the ladder summarization/c1/coherence, which are not in"):
        redraft(
            drafts,
            TASK.name,
            References([made] if there else []),
            {key: FaultyRungs(made.hash, {2: "", 6: ""})},
            "prompt",
        )


@settings(max_examples=40)
@given(
    st.dictionaries(st.integers(1, 15), st.sampled_from(["", "I cannot help.", text(10, 501), text(45, 502)])),
    st.sets(st.integers(1, 5), min_size=1),
)
def test_whatever_the_writer_does_no_text_is_lost_and_every_rung_is_between_its_parents(slips, levels):
    (made,), engine = written(slips)
    failed = {rung.level for rung in made.rungs if not rung.text}  # which a check names too
    new, _ = again(made, engine, *sorted(levels | failed))
    assert {rung.level for rung in made.usable} <= {rung.level for rung in new.usable}
    kept = [entry["text"] for rung in new.rungs for entry in rung.provenance.get("history", ())]
    assert all(old.text in (*kept, now.text) for old, now in zip(made.rungs, new.rungs, strict=True))
    assert sound(new)


def test_a_damaged_rung_gets_other_damage_of_its_severity_unlike_all_texts_that_were_there():
    rows = [json.loads(line) for line in (resource("data/demo") / "summarization.jsonl").read_text().splitlines()][:4]
    contexts = [Context(row["id"], row["text"], references=tuple(row["references"])) for row in rows]
    made = generate_ladders(contexts, TASK, ["coherence"], DegradedWriter())[1]
    new, kept = again(made, None, 2, 3, writer=DegradedWriter(lenders=contexts))
    assert (changed(made, new), kept) == ([2, 3], [])
    assert not {texts(new)[1], texts(new)[2]} & {*texts(made)}
    provenance = new.rungs[2].provenance
    assert (provenance["severity"], provenance["attempt"]) == (made.rungs[2].provenance["severity"], 2)


# ------------------------------------------------------------------------------------------------- the command


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNTHSCORE_STORE", str(tmp_path / "answers.sqlite"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def engine(monkeypatch):
    """What wrote the ladders of `folder`; of c1, rung 2 is a refusal that got past the writer."""
    made, engine = written(contexts=CONTEXTS)
    References((edited(made[0], 2, text=REFUSAL), made[1])).save("ladders")
    write_rows([{"id": context.id, "text": context.text} for context in CONTEXTS], "contexts.jsonl")
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: engine)
    return engine


def check():
    return main(["references", "check", "ladders", "--no-judge", "-o", "checks.jsonl"])


def generate(*more, task="summarization", attribute="coherence"):
    on = ["--task", task, "-a", attribute, "-o", "ladders", "--findings", "checks.jsonl"]
    return main(["generate", "contexts.jsonl", *on, *more])


def test_generate_writes_what_a_check_flags_and_keeps_all_else(engine, capsys):
    assert check() == 3
    n, before = engine.n_written, References.load("ladders").ladders
    capsys.readouterr()
    assert generate("--model", "fake") == 0
    shown(
        capsys.readouterr().err,
        "2 contexts x 1 attribute, 1 ladder of them missing or at fault: 1 rung written, 0 failed",
        "ladders now holds 2 ladders",
    )
    after = References.load("ladders")
    assert engine.n_written == n + 1
    assert [changed(old, new) for old, new in zip(before, after, strict=True)] == [[2], []]
    assert check() == 0
    assert generate("--model", "fake") == 0
    assert engine.n_written == n + 1
    assert References.load("ladders").hash == after.hash
    assert main(["references", "show", "ladders", "c1", "--history"]) == 0
    shown(capsys.readouterr().out, "replaced: refusal: it is a refusal:", REFUSAL)


def test_findings_of_before_the_ladder_changed_change_nothing_and_it_is_said(engine, capsys):
    assert check() == 3
    assert generate("--model", "fake") == 0
    after, n = References.load("ladders").hash, engine.n_written
    assert generate("--model", "fake") == 3
    shown(capsys.readouterr().err, "kept as they were:", "not those that were checked. Check it again")
    assert (References.load("ladders").hash, engine.n_written) == (after, n)


def test_a_rung_for_which_no_better_text_comes_keeps_its_own(engine, capsys):
    check()
    before = References.load("ladders").ladders
    engine.writer = lambda prompt, seed: ""
    assert generate("--model", "fake") == 1
    shown(capsys.readouterr().err, "kept as they were:", "c1/coherence: rung 2 could not be written again: it is empty")
    assert [texts(each) for each in References.load("ladders")] == [texts(each) for each in before]


@pytest.mark.parametrize("moment", ["write", "save"])
def test_a_killed_run_loses_nothing_and_repeated_it_ends_as_one_that_was_not(engine, monkeypatch, moment):
    check()
    before = Path("ladders/ladders.parquet").read_bytes()

    def killed(*args, **options):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(*((engine, "answer") if moment == "write" else (references, "card_text")), killed)
        assert generate("--model", "fake") == 130
    n = engine.n_written
    if moment == "write":
        assert Path("ladders/ladders.parquet").read_bytes() == before
    assert all(len(each.usable) == 5 for each in References.load("ladders"))
    assert generate("--model", "fake") == (0 if moment == "write" else 3)  # its texts are not those that were checked
    assert engine.n_written == (n + 1 if moment == "write" else n)
    assert json.loads(Path("ladders/manifest.json").read_text())["sha256"]
    assert check() == 0


def test_texts_that_are_not_what_their_hashes_say_are_not_written_again(engine, capsys):
    check()
    said = json.loads(Path("ladders/manifest.json").read_text())
    Path("ladders/manifest.json").write_text(json.dumps(said | {"sha256": {"ladders.parquet": "0" * 64}}))
    n = engine.n_written
    assert generate("--model", "fake") == 1
    shown(capsys.readouterr().err, "ReferencesError: cannot load ladders", "sha256")
    assert engine.n_written == n


def test_damaged_ladders_are_written_again_without_a_model(capsys):
    demo = resource("data/demo") / "dialogue.jsonl"
    write_rows([json.loads(line) for line in demo.read_text().splitlines()][:4], "contexts.jsonl")
    on = ["--task", "dialogue", "-a", "groundedness", "-o", "ladders", "--rungs", "9"]
    assert main(["generate", "contexts.jsonl", *on]) == 3
    before = References.load("ladders").ladders
    n_failed = sum(rung.status == "failed" for each in before for rung in each.rungs)
    assert n_failed
    check()
    generate(task="dialogue", attribute="groundedness")
    after = References.load("ladders")
    assert sum(rung.status == "failed" for each in after for rung in each.rungs) <= n_failed
    for old, new in zip(before, after, strict=True):
        assert all(a.text == b.text for a, b in zip(old.rungs, new.rungs, strict=True) if a.status == "ok")


def test_histories_survive_the_folder(tmp_path):
    (made,), engine = written()
    new, _ = again(made, engine, 2)
    References((new,)).save(tmp_path / "ladders")
    (back,) = References.load(tmp_path / "ladders")
    assert back.rungs[1].provenance["history"] == new.rungs[1].provenance["history"]


@pytest.mark.parametrize(
    "row",
    [
        {"id": "c1", "text": "A text."},
        {"task": "summarization", "context_id": "c1", "attribute": "coherence", "ladder_hash": "x", "findings": "none"},
        {"task": "summarization", "context_id": "c1", "attribute": "coherence", "findings": []},
        {"task": [], "context_id": "c1", "attribute": "coherence", "ladder_hash": "x", "findings": []},
    ],
)
def test_a_file_that_no_check_wrote_is_an_error_that_names_the_row(row):
    write_rows([row], "checks.jsonl")
    with pytest.raises(InputError, match=r"checks.jsonl row 1: .* no row of a check.*references check FOLDER -o"):
        read_findings("checks.jsonl")
