"""Mending, and `references repair`: rungs at fault are written again, and no good rung is ever lost."""

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore import engines
from synthscore.checking.findings import Finding, flagged, judged_findings, text_findings
from synthscore.checking.mending import mend as mend_by
from synthscore.checking.repair import Writers
from synthscore.checking.rungs import ask_rungs
from synthscore.cli.app import main
from synthscore.engine import Sampling
from synthscore.errors import EngineError
from synthscore.io.write import write_rows
from synthscore.judging.tasks import load_task
from synthscore.judging.templates import Templates
from synthscore.ladders import references
from synthscore.ladders.degraded import DegradedWriter
from synthscore.ladders.prompted import PromptedWriter
from synthscore.ladders.references import References
from synthscore.ladders.write import generate_ladders
from synthscore.resources import resource
from synthscore.signature import text_hash
from synthscore.types import Context, Rung
from tests.fakes import FakeEngine

TASK = load_task("summarization")
TEMPLATES = Templates(TASK)
CONTEXTS = [
    Context(f"c{i}", f"Article {i}. It has a second sentence, and that is about something else.") for i in (1, 2)
]


def number_judge(prompt, labels):
    """Compares the numbers behind "quality" in the two texts; the reference is shown first."""
    reference, target = (float(number) for number in re.findall(r"quality (-?\d+)", prompt.text)[-2:])
    better = 1 / (1 + math.exp((reference - target) / 10))
    probs = {"Better": better, "Worse": 1 - better, "Similar": 1e-4}
    return [math.log(0.95 * probs[label]) for label in labels]


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


def written(slips=(), n_rungs=5, contexts=CONTEXTS[:1]):
    """Ladders by an author, and the engine that wrote them. Its order: 1, 5, 3, 2, 4."""
    engine = FakeEngine(number_judge, Author(slips))
    made = generate_ladders(contexts, TASK, ["coherence"], PromptedWriter(engine, max_attempts=1), n_rungs=n_rungs)
    return made, engine


def checker(engine):
    def check(ladders):
        checks = ask_rungs(ladders, engine, TEMPLATES).checks()
        return [[*text_findings(each), *judged_findings(each, c)] for each, c in zip(ladders, checks, strict=True)]

    return check


def mend(ladders, engine, **options):
    writer = PromptedWriter(engine, max_attempts=1)
    return mend_by(ladders, TASK, checker(engine), lambda *_: writer, **options)


def texts(ladder):
    return [rung.text for rung in ladder.rungs]


def wrong(ladder, engine):
    return [str(finding) for finding in flagged(checker(engine)([ladder])[0])]


def bad(quality, seed=1):
    return text(quality, 500 + seed)


# ------------------------------------------------------------------------------------------------- the library


def test_a_ladder_without_faults_is_not_touched():
    made, engine = written()
    saved = []
    assert wrong(made[0], engine) == []
    n = engine.n_written
    assert mend(made, engine, save=saved.append) == (made, [])
    assert engine.n_written == n
    assert saved == []


def test_only_the_rung_at_fault_is_written_again_and_the_history_keeps_its_text():
    made, engine = written({4: bad(70)})  # rung 2 is better than rung 3
    (mended,), (done,) = mend(made, engine)
    assert wrong(made[0], engine)
    assert wrong(mended, engine) == []
    assert [k for k, (a, b) in enumerate(zip(texts(made[0]), texts(mended), strict=True), 1) if a != b] == [2]
    assert (done.level, done.also, done.refused) == (2, (), "")
    assert "inverted 2-3" in done.why
    (entry,) = mended.rungs[1].provenance["history"]
    assert entry["what"] == "replaced"
    assert entry["text"] == bad(70)
    assert "inverted 2-3" in entry["why"]
    assert entry["at"]
    assert entry["provenance"] == made[0].rungs[1].provenance
    assert mended.rungs[1].provenance["attempt"] == 2
    assert mended.rungs[1].provenance["key"] == made[0].rungs[1].provenance["key"]
    assert mended.rungs[0] == made[0].rungs[0]


def test_what_is_written_from_a_rung_is_written_again_with_it_and_from_its_new_text():
    made, engine = written({3: "I'm sorry, but I can't help with that. Really of quality 50."})
    made = [replace(made[0], rungs=tuple(refusing(r) if r.level == 3 else r for r in made[0].rungs))]
    (mended,), (done,) = mend(made, engine)
    assert (done.level, set(done.also), done.refused) == (3, {2, 4}, "")
    for level, parents in ((2, (1, 3)), (4, (3, 5))):
        prompt = engine.written[-2 if level == 2 else -1].text
        assert all(mended.rungs[parent - 1].text in prompt for parent in parents)
    assert sound(mended)
    assert "rung 3" in mended.rungs[1].provenance["history"][0]["why"]


def test_rungs_that_were_written_without_a_failed_middle_stay_when_it_is_written():
    made, engine = written({3: ""})
    (mended,), (done,) = mend(made, engine)
    assert (done.level, done.also, done.refused) == (3, (), "")
    assert [text for text in texts(made[0]) if text] == [text for k, text in enumerate(texts(mended), 1) if k != 3]
    assert mended.rungs[2].parents == (text_hash(texts(made[0])[1]), text_hash(texts(made[0])[3]))


def test_a_rung_that_was_written_from_another_than_usual_is_written_again_with_it():
    made, engine = written({3: "", 4: bad(120)})  # rung 4 is between rungs 2 and 5, and rung 2 is better than the best
    _, done = mend(made, engine, attempts=1)
    assert next(each for each in done if each.level == 2).also == (4,)


def refusing(rung):
    """A refusal that got past the writer, as from another program."""
    said = "I'm sorry, but I can't help with that, which is of quality 50."
    return replace(rung, text=said, status="ok", reason="")


def sound(ladder):
    """Whether each text that was written between two is between these two still."""
    levels = {text_hash(rung.text): rung.level for rung in ladder.usable}
    between = [(*(levels.get(parent, 0) for parent in rung.parents), rung.level) for rung in ladder.rungs]
    return all(0 < low < level < high for low, high, level in (each for each in between if len(each) == 3))


def test_a_new_text_with_the_same_fault_is_refused_and_tried_again_with_another_seed():
    made, engine = written({4: bad(70), 6: bad(80, 2), 7: bad(90, 3)})
    (mended,), done = mend(made, engine)
    assert [bool(each.refused) for each in done] == [True, True, False]
    assert "still inverted 2-3" in done[0].refused
    history = mended.rungs[1].provenance["history"]
    assert [(each["what"], each["attempt"]) for each in history] == [
        ("not taken", 2), ("not taken", 3), ("replaced", 1)]  # fmt: skip
    assert [each["text"] for each in history] == [bad(80, 2), bad(90, 3), bad(70)]
    assert mended.rungs[1].provenance["attempt"] == 4


def test_when_the_attempts_are_used_up_the_old_text_stays_and_a_later_run_goes_on():
    made, engine = written({4: bad(70), 6: bad(80, 2), 7: bad(90, 3)})
    (kept,), done = mend(made, engine, attempts=2)
    assert texts(kept) == texts(made[0])
    assert kept.hash == made[0].hash
    assert [each.refused != "" for each in done] == [True, True]
    (mended,), (last,) = mend([kept], engine, attempts=2)
    assert last.refused == ""
    assert mended.rungs[1].provenance["attempt"] == 4
    assert wrong(mended, engine) == []


def test_a_new_text_that_mends_its_fault_and_makes_another_is_refused():
    made, engine = written({4: bad(70), 6: bad(-5, 2)})  # then rung 2 is below 3, and below 1
    (mended,), done = mend(made, engine)
    assert "new: inverted 1-2" in done[0].refused
    assert done[1].refused == ""
    assert wrong(mended, engine) == []


@pytest.mark.parametrize(
    ("after", "refused"),
    [
        ([], ""),
        ([("inverted", (3, 4), 0.3)], ""),
        ([("inverted", (3, 4), 0.31)], "worse: inverted 3-4"),
        ([("inverted", (3, 5), 0.1)], "new: inverted 3-5"),
        ([("copied", (3,), 0.1)], "new: copied 3"),
        ([("inverted", (2, 3), 0.1)], "still inverted 2-3"),
    ],
)
def test_a_fault_elsewhere_may_stay_and_may_not_get_worse(after, refused):
    made, engine = written()

    def finding(kind, levels, amount, **more):
        return Finding(levels, kind, "seen", amount=amount, **more)

    before = [finding("inverted", (2, 3), 0.2, rewrite=(2,)), finding("inverted", (3, 4), 0.3)]
    then = [finding(*each) for each in after]
    noted = finding("copied", (2,), 1.0, flagged=False)

    def check(ladders):
        return [before if texts(each) == texts(made[0]) else [*then, noted] for each in ladders]

    (mended,), (done,) = mend_by(made, TASK, check, lambda *_: PromptedWriter(engine), attempts=1)
    assert done.refused.partition(": seen")[0] == refused
    assert (texts(mended) == texts(made[0])) == bool(refused)


def test_a_rung_that_nobody_can_write_again_is_left_and_named_once():
    made, engine = written({4: bad(70)})
    kept, (done,) = mend_by(made, TASK, checker(engine), lambda *_: "by hand")
    assert kept == made
    assert (done.level, done.refused) == (2, "by hand")


def by_hand(rung):
    return replace(rung, provenance={"writer": "person"})


def test_a_rung_that_failed_is_written_and_one_that_fails_again_is_kept_as_it_was():
    made, engine = written({4: "", 6: ""})
    assert made[0].rungs[1].status == "failed"
    (mended,), done = mend(made, engine)
    assert [each.refused for each in done] == ["rung 2 failed: it is empty (attempt 2, the last)", ""]
    assert mended.rungs[1].status == "ok"
    assert mended.rungs[1].provenance["history"][-1]["reason"].startswith("it is empty")


def test_a_failed_extreme_is_written_first_and_then_all_that_failed_with_it():
    made, engine = written({1: ""})
    assert [rung.status for rung in made[0].rungs] == ["failed", "failed", "failed", "failed", "ok"]
    (mended,), done = mend(made, engine)
    assert [rung.status for rung in mended.rungs] == ["ok"] * 5
    assert [(each.level, each.also) for each in done] == [(1, (3, 2, 4))]
    assert sound(mended)


def test_a_good_rung_that_would_be_lost_with_its_parent_is_not_lost():
    made, engine = written({7: ""})  # rung 2, when it is written from the new rung 3
    made = [replace(made[0], rungs=tuple(refusing(r) if r.level == 3 else r for r in made[0].rungs))]
    judged = engine.n_judged
    (kept,), (done,) = mend(made, engine, attempts=1)
    assert done.refused.startswith("rung 2 failed:")
    assert texts(kept) == texts(made[0])
    assert engine.n_judged == judged + 20, "the judge is not asked about what is not taken in any case"


def test_the_old_text_once_more_is_asked_for_anew_at_once():
    made, engine = written({4: bad(70), 6: bad(70)})
    writer = PromptedWriter(engine, max_attempts=2)
    (mended,), (done,) = mend_by(made, TASK, checker(engine), lambda *_: writer)
    assert done.refused == ""
    assert mended.rungs[1].provenance["attempt"] == 3


def test_greedy_texts_would_come_out_the_same_and_are_left():
    engine = FakeEngine(number_judge, Author({4: bad(70)}))
    writer = PromptedWriter(engine, sampling=Sampling(temperature=0.0))
    made = generate_ladders(CONTEXTS[:1], TASK, ["coherence"], writer)
    n = engine.n_written
    kept, (done,) = mend(made, engine)
    assert kept == made
    assert engine.n_written == n
    assert "greedily" in done.refused


def test_a_ladder_without_its_context_is_left():
    made, engine = written({4: bad(70)})
    bare = [replace(made[0], context=None)]
    findings = checker(engine)(made)
    kept, (done,) = mend_by(bare, TASK, lambda _: findings, lambda *_: PromptedWriter(engine))
    assert kept == bare
    assert "context" in done.refused


@pytest.mark.slow
@settings(max_examples=25)
@given(st.dictionaries(st.integers(1, 25), st.sampled_from(["", "I cannot help.", bad(10), bad(45, 2), bad(95, 3)])))
def test_whatever_the_writer_does_no_ladder_gets_worse_and_no_good_text_is_lost(slips):
    made, engine = written(slips)
    (mended,), done = mend(made, engine, attempts=2)
    before, after = wrong(made[0], engine), wrong(mended, engine)
    names = [{line.partition(":")[0] for line in lines} for lines in (before, after)]
    assert names[1] <= names[0]
    assert {r.level for r in made[0].usable} <= {r.level for r in mended.usable}
    kept = [entry["text"] for rung in mended.rungs for entry in rung.provenance.get("history", ())]
    assert all(old.text in (*kept, new.text) for old, new in zip(made[0].rungs, mended.rungs, strict=True))
    assert sound(mended)
    assert len(done) <= 2 * 5


def test_ladders_are_mended_together_and_each_as_if_alone():
    made, engine = written({6: bad(70), 8: bad(80)}, contexts=CONTEXTS)
    calls = len(engine.calls)
    together, _ = mend(made, engine)
    assert sum(kind == "write" for kind, _ in engine.calls[calls:]) <= 4
    for one, each in zip(made, together, strict=True):
        fresh = FakeEngine(number_judge, Author())
        assert texts(mend([one], fresh)[0][0]) == texts(each)


def test_damaged_rungs_get_other_damage_and_the_best_stays():
    article = resource("data/demo") / "summarization.jsonl"
    rows = [json.loads(line) for line in article.read_text().splitlines()][:4]
    contexts = [Context(r["id"], r["text"], references=tuple(r["references"])) for r in rows]
    made = generate_ladders(contexts, TASK, ["coherence"], DegradedWriter())
    target = made[1].rungs[2]

    def check(ladders):
        return [
            [f for f in [REFUSAL] if each.context_id == made[1].context_id and each.rungs[2].text == target.text]
            for each in ladders
        ]

    writer = DegradedWriter(lenders=contexts)
    mended, (done,) = mend_by(made, TASK, check, lambda *_: writer)
    assert (done.level, done.also, done.refused) == (3, (), "")
    new = mended[1].rungs[2]
    assert new.text not in texts(made[1])
    assert new.provenance["severity"] == target.provenance["severity"]
    assert new.provenance["attempt"] == 2
    assert new.provenance["key"] != target.provenance["key"]
    assert [a == b for a, b in zip(mended[1].rungs, made[1].rungs, strict=True)] == [True, True, False, True, True]
    assert mended[0] == made[0]
    alone, _ = mend_by(made[1:2], TASK, check, lambda *_: writer)
    assert texts(alone[0]) == texts(mended[1]), "borrowed from the same contexts, whoever is repaired with it"


REFUSAL = Finding((3,), "refusal", "seen", rewrite=(3,))


# ------------------------------------------------------------------------------------------------- the command


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SYNTHSCORE_STORE", str(tmp_path / "answers.sqlite"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def saved(slips, monkeypatch, contexts=CONTEXTS):
    made, engine = written(slips, contexts=contexts)
    References(made).save("ladders")
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: engine)
    return made, engine


SLIPS = {7: bad(80), 8: bad(20, 4)}  # of c1, rung 2 is above its rung 3 and rung 4 below: two rounds


def test_repair_writes_the_folder_and_a_second_run_has_nothing_to_do(monkeypatch, capsys):
    made, engine = saved(SLIPS, monkeypatch)
    assert main(["references", "repair", "ladders", "--writer-model", "fake"]) == 0
    out, err = capsys.readouterr()
    assert "mended" in out
    assert "0 ladders still flagged" in err
    mended = References.load("ladders")
    assert all(wrong(each, engine) == [] for each in mended)
    assert mended.hash != References(tuple(made)).hash
    n, before = engine.n_written, Path("ladders/ladders.parquet").read_bytes()
    assert main(["references", "repair", "ladders"]) == 0
    assert "No rung is to be written again" in capsys.readouterr().out
    assert engine.n_written == n
    assert Path("ladders/ladders.parquet").read_bytes() == before


def test_a_manifest_that_a_killed_run_left_behind_is_written_anew(monkeypatch):
    made, _ = saved({}, monkeypatch)
    manifest = Path("ladders/manifest.json")
    stale = manifest.read_text()
    other = [
        replace(made[0], rungs=(*made[0].rungs[:1], replace(made[0].rungs[1], text=text(25, 99)), *made[0].rungs[2:])),
        made[1],
    ]
    References(other).save("ladders", overwrite=True)
    manifest.write_text(json.dumps({key: value for key, value in json.loads(stale).items() if key != "sha256"}))
    assert main(["references", "repair", "ladders"]) == 0
    assert json.loads(manifest.read_text())["sha256"]
    assert [each.hash for each in References.load("ladders")] == [each.hash for each in other]


@pytest.mark.parametrize("change", ["a ladder less", "a newer format", "no manifest"])
def test_what_no_killed_run_leaves_behind_is_not_signed_anew(monkeypatch, capsys, change):
    made, _ = saved({}, monkeypatch)
    manifest = Path("ladders/manifest.json")
    said = json.loads(manifest.read_text())
    if change == "a ladder less":
        References(made[:1]).save("ladders", overwrite=True)
    said |= {"format": 2} if change == "a newer format" else {}
    manifest.write_text(json.dumps(said))
    if change == "no manifest":
        manifest.unlink()
    files = {path: path.read_bytes() for path in Path("ladders").iterdir()}
    assert main(["references", "repair", "ladders"]) == 1
    assert "ReferencesError: cannot" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in Path("ladders").iterdir()} == files


def test_the_model_that_wrote_is_opened_and_another_is_an_error(monkeypatch, capsys):
    _, _engine = saved(SLIPS, monkeypatch)
    opened = []
    other = FakeEngine(number_judge, Author(), name="other")
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: opened.append(name) or other)
    assert main(["references", "repair", "ladders", "--store", "none"]) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert opened == ["nano", "fake"]
    assert "'fake'" in error
    assert "--writer-model" in error
    assert main(["references", "repair", "ladders", "--store", "none", "--writer-model", "other"]) == 0
    assert any("model:other" in str(r.provenance["model"]) for each in References.load("ladders") for r in each.rungs)


@pytest.mark.parametrize("moment", ["judge", "write", "save-card", "save-manifest"])
def test_a_fault_in_the_middle_leaves_the_folder_loadable_and_the_next_run_finishes(monkeypatch, moment):
    _made, engine = saved({**SLIPS, 9: bad(-9, 5), 11: bad(90, 7), 12: bad(91, 8)}, monkeypatch)
    before = References.load("ladders")
    count = 0

    def broken(*args, **options):
        nonlocal count
        count += moment.startswith("save") or args[0][0].kind == {"judge": "labels", "write": "text"}[moment]
        if count > (0 if moment.startswith("save") else 1):
            raise KeyboardInterrupt
        return real(*args, **options)

    if moment.startswith("save"):
        owner, attribute = references, "card_text" if moment == "save-card" else "file_sha256"
        real = getattr(owner, attribute)
    else:
        owner, attribute = engine, "answer"
        real = getattr(owner, attribute)
    with monkeypatch.context() as patch:
        patch.setattr(owner, attribute, broken)
        code = main(["references", "repair", "ladders", "--writer-model", "fake"])
    assert code == 130
    after = References.load("ladders")
    assert [len(each.usable) for each in after] == [5, 5]
    for old, new in zip(before, after, strict=True):
        assert {line.partition(":")[0] for line in wrong(new, engine)} <= {
            line.partition(":")[0] for line in wrong(old, engine)
        }
    assert main(["references", "repair", "ladders", "--writer-model", "fake", "--attempts", "6"]) == 0
    assert all(wrong(each, engine) == [] for each in References.load("ladders"))


def test_a_killed_run_repeated_gives_what_one_run_gives(monkeypatch):
    made, _engine = saved(SLIPS, monkeypatch)
    assert main(["references", "repair", "ladders", "--writer-model", "fake", "--store", "a.sqlite"]) == 0
    whole = References.load("ladders")
    References(made).save("ladders", overwrite=True)
    real, calls = References.save, []

    def once(*args, **options):
        if calls:
            raise KeyboardInterrupt
        calls.append(1)
        return real(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(References, "save", once)
        assert main(["references", "repair", "ladders", "--writer-model", "fake", "--store", "a.sqlite"]) == 130
    (half, _), (old, _) = References.load("ladders"), made
    assert [a != b for a, b in zip(texts(half), texts(old), strict=True)] == [False, True, False, False, False]
    assert main(["references", "repair", "ladders", "--writer-model", "fake", "--store", "a.sqlite"]) == 0
    assert References.load("ladders").hash == whole.hash


def test_texts_that_are_not_what_their_hashes_say_are_not_signed_anew(monkeypatch, capsys):
    import pyarrow.parquet as pq

    saved(SLIPS, monkeypatch)
    rows = pq.read_table("ladders/ladders.parquet")
    texts = [f"{text} Changed." for text in rows["text"].to_pylist()]
    changed = rows.set_column(rows.column_names.index("text"), "text", [texts])
    pq.write_table(changed, "ladders/ladders.parquet")
    assert main(["references", "repair", "ladders"]) == 1
    assert "ReferencesError: cannot" in capsys.readouterr().err
    assert main(["references", "repair", "nowhere"]) == 1
    assert "no references folder" in " ".join(capsys.readouterr().err.split())


def test_hand_written_rungs_are_left_and_said_so(monkeypatch, capsys):
    made, _engine = saved(SLIPS, monkeypatch)
    References([replace(x, rungs=tuple(map(by_hand, x.rungs))) for x in made]).save("ladders", overwrite=True)
    assert main(["references", "repair", "ladders"]) == 3
    assert "edit the text by hand" in capsys.readouterr().out
    assert [texts(each) for each in References.load("ladders")] == [texts(each) for each in made]


@pytest.mark.parametrize("provenance", [{"writer": "person"}, {}])
@pytest.mark.parametrize("writer", ["prompt", "degrade"])
def test_a_rung_by_hand_is_left_whoever_wrote_the_others(monkeypatch, capsys, provenance, writer):
    made, _ = saved(SLIPS, monkeypatch)
    mixed = []
    for each in made:
        told = [r.provenance if writer == "prompt" else {"writer": writer, "model": "", "seed": 0} for r in each.rungs]
        told[1] = told[3] = provenance
        rungs = zip(each.rungs, told, strict=True)
        mixed.append(replace(each, rungs=tuple(replace(rung, provenance=said) for rung, said in rungs)))
    References(mixed).save("ladders", overwrite=True)
    assert main(["references", "repair", "ladders", "--writer-model", "fake"]) == 3
    out = capsys.readouterr().out
    assert "edit the text by hand" in out
    assert str(provenance.get("writer", "not known")) in out
    assert [texts(each) for each in References.load("ladders")] == [texts(each) for each in made]


def test_a_failed_rung_that_says_no_model_is_written_by_the_one_of_the_others(monkeypatch):
    made, engine = written()
    lost = {"writer": made[0].rungs[1].provenance["writer"]}
    rungs = [replace(r, status="failed", text="", reason="x", provenance=lost) if r.level == 2 else r
             for r in made[0].rungs]  # fmt: skip
    References([replace(made[0], rungs=tuple(rungs))]).save("ladders")
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: engine)
    assert main(["references", "repair", "ladders", "--writer-model", "fake"]) == 0
    (mended,) = References.load("ladders")
    assert len(mended.usable) == 5


def test_a_damaged_rung_among_written_ones_keeps_the_seed_of_its_damage():
    made, _ = written()
    damaged = replace(made[0].rungs[1], provenance={"writer": "degrade", "seed": 7})
    mixed = replace(made[0], rungs=(made[0].rungs[0], damaged, *made[0].rungs[2:]))
    writer = Writers(lambda name: None)(mixed, damaged)
    assert isinstance(writer, DegradedWriter)
    assert writer.seed == 7


def test_a_rung_that_was_written_with_stop_strings_is_written_again_with_them():
    engine = FakeEngine(number_judge, Author())
    writer = PromptedWriter(engine, sampling=Sampling(stop=("\n\n",)))
    (made,) = generate_ladders(CONTEXTS[:1], TASK, ["coherence"], writer)
    again = Writers(lambda name: engine)(made, made.rungs[1])
    assert again.sampling == writer.sampling


def test_a_text_of_another_writer_is_not_lost_with_the_rung_that_it_is_written_from():
    made, engine = written()
    rungs = tuple(refusing(r) if r.level == 3 else by_hand(r) if r.level == 2 else r for r in made[0].rungs)
    (kept,), (done,) = mend([replace(made[0], rungs=rungs)], engine)
    assert kept.rungs == rungs
    assert (done.level, done.also) == (3, ())
    assert "rung 2" in done.refused
    assert "'person'" in done.refused
    failed = tuple(replace(r, text="", status="failed", reason="lost") if r.level == 2 else r for r in rungs)
    (mended,), (done, *_) = mend([replace(made[0], rungs=failed)], engine)
    assert done.refused == ""
    assert wrong(mended, engine) == []


def test_what_is_said_of_the_judges_server_is_not_said_of_a_writer_that_is_loaded_here(monkeypatch):
    _, engine = saved(SLIPS, monkeypatch)
    before = References.load("ladders")
    opened = {}
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: opened.update({name: options}) or engine)
    there = {"tokenizer": "t", "in_flight": 3}
    asked = ["--model", "http://host/v1#m", "--tokenizer", "t", "--in-flight", "3", "--store", "none"]
    for writer, told in (("fake", {}), ("http://other/v1#m", there)):
        References(before).save("ladders", overwrite=True)
        assert main(["references", "repair", "ladders", *asked, "--writer-model", writer]) == 0
        assert opened.pop("http://host/v1#m") == there
        assert opened.pop(writer) == told


def test_texts_alone_are_mended_without_asking_a_judge(monkeypatch):
    made, engine = written(contexts=CONTEXTS[:1])
    refused = replace(made[0], rungs=tuple(refusing(r) if r.level == 2 else r for r in made[0].rungs))
    References([refused]).save("ladders")
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: engine)
    assert main(["references", "repair", "ladders", "--no-judge", "--writer-model", "fake"]) == 0
    assert engine.n_judged == 0
    (mended,) = References.load("ladders")
    assert [a != b for a, b in zip(texts(refused), texts(mended), strict=True)] == [False, True, False, False, False]


def test_damaged_ladders_are_repaired_without_a_model(monkeypatch, capsys):
    demo = resource("data/demo") / "dialogue.jsonl"
    write_rows([json.loads(line) for line in demo.read_text().splitlines()][:4], "dialogue.jsonl")
    assert main(["generate", "dialogue.jsonl", "--task", "dialogue", "-a", "groundedness", "-o", "ladders"]) in (0, 3)
    before = References.load("ladders")
    n_failed = sum(rung.status == "failed" for each in before for rung in each.rungs)
    assert n_failed
    capsys.readouterr()
    code = main(["references", "repair", "ladders", "--no-judge"])
    after = References.load("ladders")
    left = sum(rung.status == "failed" for each in after for rung in each.rungs)
    assert left <= n_failed
    assert code == (3 if left else 0)
    for old, new in zip(before, after, strict=True):
        assert all(a.text == b.text for a, b in zip(old.rungs, new.rungs, strict=True) if a.status == "ok")


def test_where_the_judge_sees_nothing_rise_its_word_is_not_taken(monkeypatch, capsys):
    contexts = [Context(f"c{i}", f"Article {i}. It is short.") for i in range(6)]
    made, _ = saved({}, monkeypatch, contexts)
    fallen = [replace(each, rungs=tuple(turned(each))) for each in made]
    fallen[0] = replace(fallen[0], rungs=tuple(refusing(r) if r.level == 2 else r for r in fallen[0].rungs))
    References(fallen).save("ladders", overwrite=True)
    assert main(["references", "repair", "ladders", "--writer-model", "fake"]) == 3
    err = " ".join(capsys.readouterr().err.split())
    assert "does not see the ladders of summarization/coherence" in err
    assert "6 ladders still flagged" in err
    after = References.load("ladders")
    changed = [(old.context_id, k) for old, new in zip(fallen, after, strict=True)
               for k, (a, b) in enumerate(zip(texts(old), texts(new), strict=True), 1) if a != b]  # fmt: skip
    assert changed == [("c0", 2)]


def turned(ladder):
    """The rungs upside down, as if they were written so."""
    for rung, other in zip(ladder.rungs, reversed(ladder.rungs), strict=True):
        yield replace(rung, text=other.text, parents=())


def test_a_writer_that_does_not_open_is_an_error_that_says_where_to_name_it(monkeypatch, capsys):
    _, engine = saved(SLIPS, monkeypatch)

    def opened(name, **options):
        if name == "fake":
            raise EngineError("there is no such model")
        return engine

    monkeypatch.setattr(engines, "open_engine", opened)
    assert main(["references", "repair", "ladders"]) == 1
    error = " ".join(capsys.readouterr().err.split())
    assert "'fake' does not open: there is no such model" in error
    assert "--writer-model" in error


def test_the_history_can_be_read(monkeypatch, capsys):
    saved(SLIPS, monkeypatch)
    assert main(["references", "repair", "ladders", "--writer-model", "fake"]) == 0
    capsys.readouterr()
    assert main(["references", "show", "ladders", "c1"]) == 0
    assert bad(80) not in " ".join(capsys.readouterr().out.split())
    assert main(["references", "show", "ladders", "c1", "--history"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert bad(80) in out
    assert "replaced 20" in out
    assert "inverted 2-3" in out


def test_rung_histories_survive_the_folder(tmp_path):
    made, engine = written({4: bad(70)})
    mended, _ = mend(made, engine)
    References(mended).save(tmp_path / "ladders")
    (back,) = References.load(tmp_path / "ladders")
    assert back.rungs[1].provenance["history"] == mended[0].rungs[1].provenance["history"]
    assert isinstance(back.rungs[1], Rung)
