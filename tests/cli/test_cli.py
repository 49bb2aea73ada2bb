"""The command line, run in process with an engine that reads quality from the text: "quality 3" beats "quality 2"."""

import io
import json
import math
import os
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import synthscore
from synthscore import engines
from synthscore.cli.app import main
from synthscore.cli.options import ROWS_FILES
from synthscore.cli.talk import clip, counted, reasons, table
from synthscore.io.write import write_rows
from synthscore.ladders.references import References
from synthscore.resources import resource
from synthscore.signature import Signature
from synthscore.thresholds.certificate import Certificate, Certified, Guarantee
from synthscore.types import Context, Ladder, Rung
from tests.cli.test_app import COMMANDS
from tests.fakes import FakeEngine

CONTEXTS = {f"c{i}": f"Article {i}. It has a second sentence, and that is about something else." for i in (1, 2, 3)}


def quality_judge(prompt, labels):
    """Compares the numbers behind "quality" in the two texts; the reference is shown first."""
    reference, target = (float(number) for number in re.findall(r"quality (-?[\d.]+\d|-?\d)", prompt.text))
    better = 1 / (1 + math.exp(-8 * (target - reference)))
    probs = {"Better": better, "Worse": 1 - better, "Similar": 1e-4, "Yes": better, "No": 1 - better}
    probs |= {"A": 1 - better, "B": better}
    return [math.log(max(0.95 * probs[label], 1e-12)) for label in labels]


@pytest.fixture
def engine(monkeypatch):
    engine = FakeEngine(quality_judge)
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: engine)
    return engine


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Every test in a folder of its own, with a store of its own."""
    monkeypatch.setenv("SYNTHSCORE_STORE", str(tmp_path / "answers.sqlite"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def damage(monkeypatch):
    """Damage that always finds something to damage."""
    monkeypatch.setattr(
        "synthscore.ladders.degraded.degrade",
        lambda good, *, severity, **more: good + f" Damage: {severity:g}." * (severity > 0),
    )


def ladder(context_id, attribute="coherence", task="summarization", n_rungs=5, failed=(), order=None):
    rungs = []
    for level in range(1, n_rungs + 1):
        fraction, quality = (level - 1) / (n_rungs - 1), (order or range(1, n_rungs + 1))[level - 1]
        if level in failed:
            rungs.append(Rung(level, fraction, "", "failed", "the model refused", provenance={"writer": "test"}))
        else:
            rungs.append(Rung(level, fraction, f"A text of quality {quality}.", provenance={"writer": "test"}))
    return Ladder(context_id, task, attribute, tuple(rungs), Context(context_id, CONTEXTS[context_id]))


@pytest.fixture
def references(folder):
    References([ladder(context_id) for context_id in CONTEXTS]).save(folder / "ladders")


def target(context_id, quality, **more):
    return {"context_id": context_id, "text": f"Text of quality {quality}.", **more}


def write(name, *rows):
    """A JSONL file; a row that is a text is written as it is."""
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def read(name):
    return [json.loads(line) for line in Path(name).read_text(encoding="utf-8").splitlines()]


def parse(text):
    return [json.loads(line) for line in text.splitlines()]


def shown(text, *words):
    """All of the words are in the text, however it was wrapped."""
    flat = " ".join(text.split())
    missing = [word for word in words if word not in flat]
    assert not missing, f"{missing} not in: {flat}"


# ------------------------------------------------------------------------------------------------- all commands


def test_the_commands_are_those_that_were_promised():
    assert set(COMMANDS) == {
        *("calibrate", "compare", "curve", "demo", "doctor", "evaluate", "filter", "generate", "rank", "report"),
        *("score", "verify"),
        *(f"references {action}" for action in ("card", "check", "diff", "list", "repair", "show", "verify")),
        *(f"store {action}" for action in ("info", "merge", "prune", "salvage", "show")),
    }


def test_version_and_exit_codes_are_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"synthscore {synthscore.__version__}\n"
    assert main(["--help"]) == 0
    shown(capsys.readouterr().out, "0 all well", "3 done, but some rows failed", "130 interrupted")


@pytest.mark.parametrize(
    "argv",
    [
        [],
        ["score"],
        ["cook"],
        ["score", "x.jsonl", "--references", "y", "--samples", "0"],
        ["score", "x.jsonl", "--references", "y", "--min-mass", "2"],
        ["score", "x.jsonl", "--references", "y", "--field", "text"],
        ["score", "x.jsonl", "--references", "y", "-o", "scores.txt"],
        ["score", "x.jsonl", "--references", "y", "--seed", "0"],
        ["filter", "x.jsonl", "--references", "y", "--min-score", "3", "--seed", "1"],
        ["filter", "x.jsonl", "--references", "y", "--min-score", "nan"],
        ["generate", "x.jsonl", "--task", "story", "-a", "coherence", "-o", "z", "--rungs", "1"],
        ["generate", "x.jsonl", "--task", "story", "-a", "coherence", "-o", "z", "--writer", "prompt"],
        ["generate", "x.jsonl", "--task", "story", "-a", "coherence", "-o", "z", "--writer", "degrade", "--model", "m"],
    ],
)
def test_a_command_line_that_makes_no_sense_gives_2(argv, capsys):
    assert main(argv) == 2
    assert any(capsys.readouterr())


def test_the_command_line_starts_without_the_heavy_libraries():
    code = (
        "import sys; from synthscore.cli.app import main; main(['score', '--help']); "
        "heavy = {'torch', 'transformers', 'datasets', 'pyarrow', 'scipy', 'tqdm', 'pandas'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_reader_that_leaves_early_is_no_traceback(references):
    write("targets.jsonl", target("c1", 3))
    code = "import sys; from synthscore.cli.app import main; sys.exit(main(['references', 'card', 'ladders']))"
    environment = {**os.environ, "PYTHONPATH": str(Path(synthscore.__file__).parents[2])}
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=writer, stderr=subprocess.PIPE, env=environment, check=False
    )
    os.close(writer)
    assert done.returncode == 141
    assert done.stderr == b""


def test_an_error_is_one_paragraph_and_debug_shows_where_it_came_from(capsys, references):
    argv = ["score", "nowhere.jsonl", "--references", "ladders"]
    assert main(argv) == 1
    error = capsys.readouterr().err
    assert error.startswith("InputError: cannot read nowhere.jsonl")
    assert error.count("\n") == 1
    assert main([*argv, "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------- score


def score(*argv, targets="targets.jsonl"):
    return main(["score", targets, "--references", "ladders", *argv])


def test_score_puts_each_text_on_the_scale_of_its_rungs_in_the_order_of_the_rows(engine, references, capsys):
    write("targets.jsonl", target("c2", 4), target("c1", 1), target("c3", 9), target("c1", -9))
    assert score() == 0
    out, err = capsys.readouterr()
    rows = parse(out)
    assert [row["context_id"] for row in rows] == ["c2", "c1", "c3", "c1"]
    assert [row["score"] for row in rows] == pytest.approx([4, 1, math.sqrt(30), 0], abs=0.35)
    assert {row["status"] for row in rows} == {"ok"}
    assert rows[0]["signature"].startswith(f"synthscore:{synthscore.__version__}|model:fake|")
    shown(err, "4 targets x 5 rungs = 20 questions; 4 scored", "model:fake|backend:fake|template:default/compare")
    assert engine.n_judged == 20


def test_a_row_that_cannot_be_read_or_scored_stays_in_its_place_with_its_reason(engine, references, capsys):
    write(
        "targets.jsonl",
        target("c1", 2, id="good"),
        target("c1", 2, id="empty") | {"text": "  "},
        '{"context_id": "c1", "text": "Text of quality 3.", "id": "bro',
        {"text": "No context, quality 3."},
        target("c9", 3, id="no ladder"),
        target("c1", 3, id="good"),
        target("c3", 5, id="last"),
    )
    assert score("-o", "scores.jsonl") == 3
    rows = read("scores.jsonl")
    assert [row["status"] for row in rows] == ["ok", *["unscored"] * 5, "ok"]
    assert [row["score"] is None for row in rows] == [False, *[True] * 5, False]
    assert [row["id"] for row in rows] == ["good", "empty", "row 3", "row 4", "no ladder", "good", "last"]
    assert {row["attribute"] for row in rows} == {"coherence"}
    shown(rows[1]["reason"], "targets.jsonl row 2", "expected a text that is not empty")
    shown(rows[2]["reason"], "row 3", "not JSON")
    shown(rows[3]["reason"], "row 4", "context_id")
    shown(rows[4]["reason"], "no ladder", "c9")
    shown(rows[5]["reason"], "row 6", "'good' was already used by row 1")
    shown(
        capsys.readouterr().err, "2 targets x 5 rungs = 10 questions; 2 scored, 5 unscored", "1 x targets.jsonl row 2"
    )


def test_nothing_scored_is_an_error_but_the_reasons_are_written(engine, references, capsys):
    write("targets.jsonl", target("c9", 3))
    assert score() == 1
    out, err = capsys.readouterr()
    assert parse(out)[0]["status"] == "unscored"
    shown(err, "warning: nothing could be scored")


def test_an_empty_file_gives_an_empty_result_and_a_warning(engine, references, capsys):
    write("targets.jsonl")
    assert score() == 0
    out, err = capsys.readouterr()
    assert out == ""
    shown(err, "warning: targets.jsonl holds no rows")


def test_every_attribute_of_the_references_is_scored_unless_one_is_named(engine, folder, capsys):
    References([ladder("c1", "fluency"), ladder("c1"), ladder("c2")]).save(folder / "ladders")
    write("targets.jsonl", target("c1", 3), target("c2", 3))
    assert score("-q") == 3
    rows = parse(capsys.readouterr().out)
    assert [(row["context_id"], row["attribute"], row["status"]) for row in rows] == [
        *(("c1", "coherence", "ok"), ("c1", "fluency", "ok")),
        *(("c2", "coherence", "ok"), ("c2", "fluency", "unscored")),
    ]
    assert score("--attribute", "coherence") == 0
    assert [row["attribute"] for row in parse(capsys.readouterr().out)] == ["coherence"] * 2


def test_rows_go_to_the_task_that_they_name_or_whose_ladders_hold_their_context(engine, folder, capsys):
    ladders = [ladder("c1"), ladder("c2"), ladder("c2", "surprise", "story"), ladder("c3", "surprise", "story")]
    References(ladders).save(folder / "ladders")
    write(
        "targets.jsonl",
        target("c1", 3),
        target("c2", 3, task="story"),
        target("c3", 3),
        target("c2", 3),
        target("c9", 1),
    )
    assert score() == 3
    out, err = capsys.readouterr()
    rows = parse(out)
    assert [row["attribute"] for row in rows] == ["coherence", "surprise", "surprise", "", ""]
    shown(rows[3]["reason"], "'c2' has ladders of story, summarization", "--task")
    shown(err, "3 targets, 2 attributes: 15 questions; 3 scored, 2 unscored")
    assert score("--task", "story", "-q") == 3
    statuses = [row["status"] for row in parse(capsys.readouterr().out)]
    assert statuses == ["unscored", "ok", "ok", "ok", "unscored"]


def test_a_row_that_names_an_attribute_is_judged_on_that_alone(engine, folder, capsys):
    References([ladder("c1", "fluency"), ladder("c1")]).save(folder / "ladders")
    rows = [target("c1", 3, id="x", attribute=name) for name in ("fluency", "coherence", "relevance")]
    write("targets.jsonl", *rows)
    assert score() == 3
    rows = parse(capsys.readouterr().out)
    assert [(row["attribute"], row["status"]) for row in rows] == [
        *(("fluency", "ok"), ("coherence", "ok"), ("relevance", "unscored")),
    ]
    shown(rows[2]["reason"], "attribute is 'relevance'", "only ladders for coherence, fluency")


def test_a_row_of_another_task_is_not_judged_as_this_one(engine, references, capsys):
    write("targets.jsonl", target("c1", 3, task="story"), target("c1", 4))
    assert score() == 3
    rows = parse(capsys.readouterr().out)
    assert rows[0]["status"] == "unscored"
    shown(rows[0]["reason"], "the row's task is 'story'", "--task")


def test_a_pipe_goes_through(engine, references, monkeypatch, capsys):
    rows = json.dumps(target("c1", 2)) + "\n" + json.dumps(target("c2", 3)) + "\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(rows.encode())))
    assert score("-q", targets="-") == 0
    out, err = capsys.readouterr()
    assert len(parse(out)) == 2
    assert err == ""


def test_csv_in_another_encoding_with_its_own_column_names(engine, references, capsys):
    text = "doc,summary\nc1,Café text of quality 4.\n"
    Path("targets.csv").write_bytes(text.encode("cp1252"))
    options = ["--field", "context_id=doc", "--field", "text=summary"]
    assert score(*options, targets="targets.csv") == 1
    shown(capsys.readouterr().err, "InputError", "not utf-8", "--encoding cp1252")
    assert (
        score(
            *options,
            "--encoding",
            "cp1252",
            targets="targets.csv",
        )
        == 0
    )
    assert parse(capsys.readouterr().out)[0]["score"] == pytest.approx(4, abs=0.2)
    assert "Café" in engine.judged[0].text


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--attribute", "wit"], ["'wit'", "coherence", "synthscore generate"]),
        (["--task", "story"], ["'story'", "summarization"]),
        (["--task", "cooking"], ["'cooking'", "a folder with a task.toml"]),
        (["--prompts", "nowhere"], ["'nowhere'", "default, paper"]),
    ],
)
def test_what_the_references_do_not_hold_is_an_error_that_says_what_they_hold(engine, references, capsys, argv, words):
    write("targets.jsonl", target("c1", 3))
    assert score(*argv) == 1
    shown(capsys.readouterr().err, *words)
    assert engine.n_judged == 0


def test_references_that_are_not_there_are_an_error(engine, capsys):
    write("targets.jsonl", target("c1", 3))
    assert score() == 1
    shown(capsys.readouterr().err, "ReferencesError", "ladders")


@pytest.mark.parametrize(
    ("protocol", "n_questions"), [("compare", 5), ("yes_no", 5), ("yes_no_two_sided", 10), ("choose", 5)]
)
@pytest.mark.parametrize("both", [False, True])
def test_every_protocol_counts_its_questions(engine, references, capsys, protocol, n_questions, both):
    if protocol == "yes_no_two_sided":
        engine.judge = lambda prompt, labels: [math.log(0.4), math.log(0.5)]
    write("targets.jsonl", target("c1", 3))
    assert score("--protocol", protocol, *(["--both-orders"] if both else [])) == 0
    out, err = capsys.readouterr()
    assert engine.n_judged == n_questions * (1 + both)
    shown(err, f"= {engine.n_judged} questions; 1 scored", f"protocol:{protocol}", f"orders:{1 + both}")
    assert f"protocol:{protocol}" in parse(out)[0]["signature"]


def test_a_text_on_a_partial_ladder_has_a_score_only_on_request(engine, folder, capsys):
    References([ladder("c1", failed=(5,))]).save(folder / "ladders")
    write("targets.jsonl", target("c1", 9))
    assert score() == 1  # nothing is scored
    out, err = capsys.readouterr()
    (row,) = parse(out)
    assert (row["status"], row["score"]) == ("unscored", None)
    assert [row["low"], row["high"]] == pytest.approx([math.sqrt(20), math.sqrt(30)], abs=0.1)
    shown(err, "1 target x 4 rungs = 4 questions; 0 scored, 1 unscored", "rung 5 has no text: the model refused")
    assert score("--partial", "rescale") == 3
    out, err = capsys.readouterr()
    assert parse(out)[0]["raw"] == pytest.approx(15, abs=0.75)
    shown(err, "0 scored, 1 partial", "rescaled")


def test_a_row_with_another_text_of_its_context_is_not_judged_by_the_ladder(engine, references, capsys):
    other = "Article 1 as a second newspaper printed it, with much more in it."
    write(
        "targets.jsonl",
        target("c1", 3, id="same", context=f"  {CONTEXTS['c1']}\n"),
        target("c1", 3, id="none"),
        target("c1", 3, id="empty", context=""),
        target("c1", 3, id="other", context=other),
    )
    assert score() == 3
    out, err = capsys.readouterr()
    rows = {row["id"]: row for row in parse(out)}
    assert {name: row["status"] for name, row in rows.items()} == {
        **dict.fromkeys(("same", "none", "empty"), "ok"),
        "other": "unscored",
    }
    reason = rows["other"]["reason"]
    shown(
        reason, "made for another text", CONTEXTS["c1"][:40], other[:40], "Generate ladders for this file", "other ids"
    )
    assert other[:41] not in reason
    shown(err, "3 targets x 5 rungs = 15 questions; 3 scored, 1 unscored")
    write("targets.jsonl", target("c1", 3, article=other))
    assert score("--field", "context=article") == 1
    shown(parse(capsys.readouterr().out)[0]["reason"], "made for another text")


def test_blank_space_around_a_context_makes_it_no_other_text(engine, folder, capsys):
    padded = Context("c1", f"\n{CONTEXTS['c1']} ")
    References([replace(ladder("c1"), context=padded)]).save(folder / "ladders")
    write("targets.jsonl", target("c1", 3, context=f"{CONTEXTS['c1']}\n\n"))
    assert score() == 0


def test_a_ladder_without_its_context_says_so_whatever_the_row_holds(engine, folder, capsys):
    References([replace(ladder("c1"), context=None)]).save(folder / "ladders")
    write("targets.jsonl", target("c1", 3, context="Any text."))
    assert score() == 1
    shown(parse(capsys.readouterr().out)[0]["reason"], "does not carry its context")


def test_labels_that_are_no_answer_leave_a_text_unscored_with_the_other_token(engine, references, capsys):
    engine.judge = lambda prompt, labels: [math.log(0.001)] * len(labels)
    write("targets.jsonl", target("c1", 3))
    assert score() == 1
    shown(parse(capsys.readouterr().out)[0]["reason"], "probability 0.003 together", "'The'", "synthscore doctor")
    assert score("--min-mass", "0.001") == 0


def test_samples_are_seeded(engine, references, capsys):
    engine.judge = lambda prompt, labels: [math.log(0.3)] * len(labels)
    write("targets.jsonl", target("c1", 3))

    def sampled(*argv):
        assert score("--samples", "3", *argv) == 0
        return parse(capsys.readouterr().out)[0]

    first, again, other = sampled(), sampled(), sampled("--seed", "1")
    assert first == again
    assert first["raw"] != other["raw"]
    assert "samples=3,seed=0" in first["signature"]


def test_a_second_run_asks_nothing_and_gives_the_same(engine, references, capsys):
    write("targets.jsonl", target("c1", 3), target("c2", 4))
    assert score() == 0
    first = capsys.readouterr().out
    assert engine.n_judged == 10
    assert score() == 0
    assert capsys.readouterr().out == first
    assert engine.n_judged == 10
    assert score("--store", "none") == 0
    assert capsys.readouterr().out == first
    assert engine.n_judged == 20
    assert not Path("none").exists()


def test_an_interrupted_run_goes_on_where_it_was(engine, references, capsys, monkeypatch):
    targets = [target(f"c{1 + i % 3}", i / 100, id=str(i)) for i in range(100)]  # 500 questions: two batches
    write("targets.jsonl", *targets)
    answer = engine.answer

    def interrupted(questions, progress=None):
        if engine.n_judged:
            raise KeyboardInterrupt
        return answer(questions, progress)

    monkeypatch.setattr(engine, "answer", interrupted)
    assert score("-o", "scores.jsonl") == 130
    shown(capsys.readouterr().err, "interrupted", "again to go on", "in the store")
    assert not Path("scores.jsonl").exists()
    stored = engine.n_judged
    assert 0 < stored < 500
    monkeypatch.setattr(engine, "answer", answer)
    assert score("-o", "scores.jsonl") == 0
    assert engine.n_judged == 500
    assert [row["id"] for row in read("scores.jsonl")] == [str(i) for i in range(100)]


def test_a_progress_bar_is_drawn_only_on_a_terminal(engine, references, capsys, monkeypatch):
    write("targets.jsonl", target("c1", 3))
    assert score() == 0
    assert "questions/s" not in capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert score("--store", "none") == 0
    assert "0/5 [" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------- filter


def keep(*argv, targets="targets.jsonl"):
    return main(["filter", targets, "--references", "ladders", *argv])


def test_filter_keeps_the_rows_as_they_were_in_their_order(engine, references, capsys):
    rows = [
        target("c3", 5, id="a", note={"kept": [1, None]}),
        target("c1", 2, id="b"),
        target("c2", 4, id="c", score=7.25),
        target("c2", 4, id="c", score=7.25),  # the same id twice: both rows are judged
    ]
    write("targets.jsonl", *rows)
    assert keep("--min-score", "3.5") == 0
    out, err = capsys.readouterr()
    assert parse(out) == [rows[0], rows[2], rows[3]]
    assert [list(row) for row in parse(out)] == [list(row) for row in (rows[0], rows[2], rows[3])]
    shown(err, "4 scored", "kept 3 of 4 at a score of 3.5 or more; 1 dropped, 0 unscored", "model:fake")


def test_filter_writes_what_it_drops_with_the_reason_and_counts_the_unscored_apart(engine, references, capsys):
    write(
        "targets.jsonl", target("c1", 1, id="low"), target("c9", 4, id="lost"), "not JSON", target("c1", 4, id="high")
    )
    assert keep("--min-score", "3.5", "-o", "kept.jsonl", "--dropped", "dropped.jsonl") == 3
    assert [row["id"] for row in read("kept.jsonl")] == ["high"]
    low, lost, broken = read("dropped.jsonl")
    assert low["synthscore"]["status"] == "ok"
    assert low["synthscore"]["score"] == pytest.approx(1, abs=0.35)
    assert low | {"synthscore": 0} == target("c1", 1, id="low") | {"synthscore": 0}
    assert lost["synthscore"]["score"] is None
    shown(lost["synthscore"]["reason"], "c9")
    assert broken["unreadable"].strip() == "not JSON"
    shown(capsys.readouterr().err, "kept 1 of 4", "1 dropped, 2 unscored")


@pytest.mark.parametrize("partial", ["report", "rescale"])
def test_filter_decides_without_some_verdicts_only_where_these_could_not_change_that(engine, folder, capsys, partial):
    References([ladder("c1", failed=(2, 3, 4, 5)), ladder("c2", failed=(1,)), ladder("c3")]).save(folder / "ladders")
    write(
        "targets.jsonl",
        target("c1", -9, id="worse than rung 1"),  # 0 .. sqrt(28): nothing is known of four rungs
        target("c1", 9, id="better than rung 1"),  # sqrt(2) .. sqrt(30)
        target("c2", 9, id="best"),  # sqrt(28) .. sqrt(30)
        target("c2", -9, id="worst"),  # 0 .. sqrt(2)
        target("c3", 5, id="whole"),
    )
    argv = ["--min-score", "3.5", "-o", "kept.jsonl", "--dropped", "dropped.jsonl", "--partial", partial]
    assert keep(*argv) == 3
    assert [row["id"] for row in read("kept.jsonl")] == ["best", "whole"]
    dropped = {row["id"]: row["synthscore"] for row in read("dropped.jsonl")}
    assert {name: row["decision"] for name, row in dropped.items()} == {
        "worse than rung 1": "unsure",
        "better than rung 1": "unsure",
        "worst": "dropped",
    }
    worse = dropped["worse than rung 1"]
    assert worse["status"] == ("partial" if partial == "rescale" else "unscored")
    assert (worse["score"] is None) == (partial == "report")
    assert [worse["low"], worse["high"]] == pytest.approx([0, math.sqrt(28)], abs=0.1)
    shown(worse["reason"], "rung 2 has no text: the model refused")
    said = {
        "rescale": (
            "1 scored, 4 partial unsure: 8 x such as: rung 2 has no text",
            "kept 2 of 5 at a score of 3.5 or more; 1 dropped, 2 unsure, 0 unscored",
        ),
        "report": (
            "1 scored, 4 unscored unscored: 10 x such as: rung 2 has no text",
            "1 dropped, 2 unscored; 2 unscored by what they can be at least or most",
        ),
    }
    shown(capsys.readouterr().err, *said[partial])


def test_filter_says_that_verdicts_were_missing_even_where_it_could_decide(engine, folder, capsys):
    References([ladder("c1", failed=(1,))]).save(folder / "ladders")
    write("targets.jsonl", target("c1", 9))
    assert keep("--min-score", "3.5") == 3
    assert len(parse(capsys.readouterr().out)) == 1


def test_filter_writes_what_is_unsure_apart_by_the_error_of_each_score(engine, references, capsys):
    write("targets.jsonl", target("c1", -9, id="bad"), target("c1", 3.5, id="middle"), target("c2", 9, id="good"))
    argv = ["--min-score", "3.5", "--alpha", "0.1", "--scoring", "anchored", "-o", "kept.jsonl"]
    assert keep(*argv, "--dropped", "dropped.jsonl", "--unsure", "unsure.jsonl") == 3
    kept, dropped, unsure = (read(f"{name}.jsonl") for name in ("kept", "dropped", "unsure"))
    assert {row["id"] for rows in (kept, dropped, unsure) for row in rows} == {"bad", "middle", "good"}
    assert unsure[0]["synthscore"]["decision"] == "unsure"
    shown(unsure[0]["synthscore"]["why"], "P(score >= 3.5) = ")
    shown(capsys.readouterr().err, "unsure: 1 x P(score >= 3.5) = ", "each with probability 0.9")


@pytest.mark.filterwarnings("ignore:the threshold 5.6 is outside")
def test_filter_takes_a_threshold_beyond_the_rungs_on_the_anchored_scale(engine, references, capsys):
    write("targets.jsonl", target("c1", -9, id="bad"), target("c2", 9, id="good"))
    keep("--min-score", "5.6", "--scoring", "anchored", "--dropped", "dropped.jsonl")
    decided = {row["id"]: row["synthscore"] for row in read("dropped.jsonl")}
    assert decided["bad"]["decision"] == "dropped"
    shown(capsys.readouterr().err, "2 targets", "dropped")


def test_filter_decides_by_a_certificate_and_refuses_it_for_other_scores(engine, references, capsys):
    write("targets.jsonl", target("c1", 1, id="bad"), target("c2", 5, id="good"))
    main(["score", "targets.jsonl", "--references", "ladders", "-a", "coherence", "-o", "scores.jsonl"])
    signature = Signature.parse(read("scores.jsonl")[0]["signature"])
    certified = (Certified(Guarantee.parse("precision>=0.9"), 3.5, 40, 40, 1.0, 0.92, 0.9),)
    Certificate(certified, 0.9, 3.5, 3.5, 40, 20, 0, signature).save("good.json")
    Certificate(certified, 0.9, 3.5, 3.5, 40, 20, 0, signature.with_(model="another")).save("stale.json")
    assert keep("-a", "coherence", "-o", "kept.jsonl", "--certificate", "good.json") == 0
    assert [row["id"] for row in read("kept.jsonl")] == ["good"]
    shown(capsys.readouterr().err, "kept 1 of 2 with precision>=0.9, confidence 0.9; 1 dropped")
    assert keep("-a", "coherence", "--certificate", "stale.json") == 1
    shown(capsys.readouterr().err, "CertificateError", "model was another")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "give one of them"),
        (["--min-score", "3", "--certificate", "x.json"], "give one of them"),
        (["--min-score", "3", "--alpha", "0.1"], "anchored"),
        (["--certificate", "x.json", "--alpha", "0.1"], "Leave it out"),
    ],
)
def test_filter_refuses_options_that_do_not_go_together(engine, references, capsys, argv, message):
    write("targets.jsonl", target("c1", 1))
    assert keep(*argv) == 2
    shown(capsys.readouterr().err, message)


def test_filter_keeps_columns_that_were_renamed_for_reading(engine, references, capsys):
    row = {"doc": "c1", "summary": "Text of quality 5.", "text": "The file's own text column."}
    write("targets.jsonl", row)
    assert keep("--min-score", "3", "--field", "context_id=doc", "--field", "text=summary") == 0
    assert parse(capsys.readouterr().out) == [row]


@pytest.mark.parametrize("threshold", ["-0.1", "5.5"])
def test_a_threshold_outside_the_scale_is_an_error_that_names_the_range(engine, references, capsys, threshold):
    write("targets.jsonl", target("c1", 3))
    assert keep("--min-score", threshold) == 1
    shown(capsys.readouterr().err, f"threshold {threshold}", "0 (worse than all)", "5.48 (better than all)")
    assert engine.n_judged == 0


def test_a_threshold_at_an_end_of_the_scale_is_allowed(engine, references, capsys):
    write("targets.jsonl", target("c1", -9))
    assert keep("--min-score", "0") == 0
    assert len(parse(capsys.readouterr().out)) == 1


def test_a_score_at_the_threshold_is_kept(engine, references, capsys):
    engine.judge = lambda prompt, labels: [math.log(0.3)] * len(labels)  # no preference: exactly sqrt(15)
    write("targets.jsonl", target("c1", 3))
    assert keep("--min-score", repr(math.sqrt(15))) == 0
    assert len(parse(capsys.readouterr().out)) == 1


def test_filter_takes_one_attribute(engine, folder, capsys):
    References([ladder("c1", "fluency"), ladder("c1")]).save(folder / "ladders")
    write("targets.jsonl", target("c1", 3))
    assert keep("--min-score", "2") == 2
    shown(capsys.readouterr().err, "coherence, fluency", "one --attribute")
    assert keep("--min-score", "2", "-a", "fluency", "-a", "coherence") == 2
    capsys.readouterr()
    assert keep("--min-score", "2", "-a", "fluency") == 0
    assert len(parse(capsys.readouterr().out)) == 1


def test_filter_after_score_asks_nothing(engine, references, capsys):
    write("targets.jsonl", target("c1", 3))
    assert score() == 0
    assert keep("--min-score", "2") == 0
    assert engine.n_judged == 5


def test_parquet_and_csv_come_out_too(engine, references, capsys):
    import pyarrow.parquet as pq

    write("targets.jsonl", target("c1", 5, id="a"), target("c2", 1, id="b"))
    assert keep("--min-score", "3", "-o", "kept.parquet", "--dropped", "dropped.csv") == 0
    assert pq.read_table("kept.parquet").to_pylist() == [target("c1", 5, id="a")]
    shown(Path("dropped.csv").read_text(), "b", '""status"": ""ok""')


# ------------------------------------------------------------------------------------------------- generate


def contexts(*ids):
    write("contexts.jsonl", *({"id": i, "text": CONTEXTS[i], "references": [reference(i)]} for i in ids))


def reference(context_id):
    sentence = "The council of {0} met on Monday. It spoke of the bridge, which is old. Nobody voted against the plan. "
    return sentence.format(context_id) + "Work begins in May and will take a year, says the mayor."


def generate(*argv, source="contexts.jsonl", attribute="coherence", task="summarization", output="ladders"):
    return main(["generate", source, "--task", task, "-a", attribute, "-o", output, *argv])


def test_generate_writes_ladders_that_score_can_read(engine, damage, capsys):
    contexts("c1", "c2")
    assert generate("--rungs", "3", "-a", "fluency") == 0
    shown(
        capsys.readouterr().err,
        "2 contexts x 2 attributes x 3 rungs: 12 rungs written, 0 failed",
        "now holds 4 ladders",
    )
    ladders = References.load("ladders")
    assert [(ladder.context_id, ladder.attribute, ladder.n_rungs) for ladder in ladders] == [
        *(("c1", "coherence", 3), ("c1", "fluency", 3), ("c2", "coherence", 3), ("c2", "fluency", 3)),
    ]
    assert ladders.find("c1", "coherence").rungs[-1].text == reference("c1")
    engine.judge = lambda prompt, labels: [math.log(0.3)] * 3
    write("targets.jsonl", {"context_id": "c1", "text": "A text."})
    assert score("--attribute", "fluency") == 0
    assert main(["references", "verify", "ladders"]) == 0


def test_generate_asks_nothing_where_the_ladders_could_not_be_added(engine, damage, capsys):
    contexts("c1")
    assert generate("--rungs", "3") == 0
    Path("ladders/manifest.json").write_text("{")
    assert generate("--rungs", "3", "--model", "fake") == 1
    shown(capsys.readouterr().err, "cannot add ladders to ladders", "manifest.json is missing or is no JSON object")
    assert not engine.written


def test_generate_for_all_attributes_keeps_the_other_ladders_and_replaces_the_same(damage, capsys):
    contexts("c1")
    assert generate("--rungs", "3") == 0
    contexts("c2")
    assert generate("--rungs", "2", attribute="all") == 0
    sizes = {(ladder.context_id, ladder.attribute): ladder.n_rungs for ladder in References.load("ladders")}
    names = ("coherence", "consistency", "fluency", "relevance")
    assert sizes == {("c1", "coherence"): 3} | {("c2", name): 2 for name in names}
    contexts("c1")
    assert generate("--rungs", "2") == 0
    assert References.load("ladders").find("c1", "coherence").n_rungs == 2
    assert len(References.load("ladders")) == 5


def test_a_model_writes_and_a_killed_run_asks_only_for_the_rest(engine, capsys, monkeypatch):
    contexts("c1", "c2")
    answer = engine.answer

    def killed(questions, progress=None):
        if engine.n_written:
            raise KeyboardInterrupt
        return answer(questions, progress)

    monkeypatch.setattr(engine, "answer", killed)
    assert generate("--model", "fake", "--rungs", "3") == 130
    assert engine.n_written == 4  # the worst and the best of two contexts
    assert not Path("ladders").exists()
    monkeypatch.setattr(engine, "answer", answer)
    assert generate("--model", "fake", "--rungs", "3") == 0
    assert engine.n_written == 6
    first = References.load("ladders").hash
    assert generate("--model", "fake", "--rungs", "3") == 0
    assert engine.n_written == 6
    assert References.load("ladders").hash == first
    shown(capsys.readouterr().err, "2 contexts x 1 attribute x 3 rungs: 6 rungs written, 0 failed", "model:fake")


def test_the_options_of_writing_reach_the_writer(engine, damage):
    contexts("c1")
    options = ["--temperature", "0.5", "--top-p", "0.8", "--max-new-tokens", "77", "--prompts", "paper"]
    assert generate("--model", "fake", "--rungs", "2", "--seed", "3", *options) == 0
    (model_ladder,) = References.load("ladders")
    for rung in model_ladder.rungs:
        found = {
            name: rung.provenance[name] for name in ("temperature", "top_p", "max_new_tokens", "seed", "templates")
        }
        assert found == {"temperature": 0.5, "top_p": 0.8, "max_new_tokens": 77, "seed": 3, "templates": "paper"}
    assert generate("--rungs", "2", "--seed", "4") == 0
    (damaged,) = References.load("ladders")
    assert {rung.provenance["seed"] for rung in damaged.rungs} == {4}


def test_what_no_model_can_decode_with_is_a_usage_error_before_a_model_is_loaded(capsys, monkeypatch):
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: pytest.fail("a model was loaded"))
    contexts("c1")
    for option, value in (
        *(("--top-p", "0"), ("--top-p", "1.1"), ("--temperature", "-1"), ("--temperature", "inf")),
        ("--max-new-tokens", "0"),
    ):
        assert generate("--model", "fake", option, value) == 2
        shown(capsys.readouterr().err, option)
    assert not Path("ladders").exists()


@pytest.mark.parametrize("writer", [[], ["--writer", "degrade"]])
def test_options_that_only_a_model_would_use_are_refused_by_name_without_one(damage, capsys, writer):
    contexts("c1")
    options = {
        "--prompts": "paper",
        "--temperature": "0.7",
        "--top-p": "0.9",
        "--max-new-tokens": "9",
        "--max-attempts": "5",
        "--dtype": "auto",
        "--device": "cpu",
        "--store": "none",
    }
    for option, value in options.items():
        assert generate(*writer, option, value) == 2
        shown(capsys.readouterr().err, "UsageError", f"so {option} would change nothing")
    assert generate(*writer, *(word for pair in options.items() for word in pair)) == 2
    shown(capsys.readouterr().err, *options)
    assert not Path("ladders").exists()
    assert generate(*writer, "--prompts", "default", "--rungs", "2", "--seed", "1") == 0


def test_a_file_of_targets_without_their_contexts_is_not_taken_for_one_of_contexts(damage, capsys):
    write("contexts.jsonl", target("c1", 3, system="s1"))
    assert generate() == 1
    shown(capsys.readouterr().err, "this row is a target", "holds no context")


def test_a_task_of_ones_own_goes_all_the_way(engine, folder, capsys):
    task = resource("prompts").joinpath("summarization/task.toml").read_text()
    Path("mine").mkdir()
    Path("mine/task.toml").write_text(task.replace('name = "summarization"', 'name = "abstracts"'))
    References([ladder("c1", task="abstracts")]).save(folder / "ladders")
    write("targets.jsonl", target("c1", 3))
    assert score() == 1  # nothing says where the task is
    shown(capsys.readouterr().err, "'abstracts'", "a folder with a task.toml")
    assert score("--task", "mine") == 0
    shown(capsys.readouterr().err, "1 scored", "task:abstracts")
    assert main(["references", "check", "ladders", "--task", "mine"]) == 0
    assert main(["references", "show", "ladders", "c1", "--task", "mine"]) == 0


def test_failed_rungs_are_counted_with_their_reasons(engine, capsys):
    engine.writer = lambda prompt, seed: "" if "best" in prompt.text else f"Text {seed}."
    contexts("c1", "c2")
    assert generate("--model", "fake", "--rungs", "2", "--max-attempts", "2") == 3
    shown(capsys.readouterr().err, "2 rungs written, 2 failed", "2 x ")
    assert {rung.status for ladder in References.load("ladders") for rung in ladder.rungs} == {"ok", "failed"}


def test_rows_that_hold_no_context_are_left_out_and_named(damage, capsys):
    contexts("c1")
    with Path("contexts.jsonl").open("a") as file:
        file.write('{"id": "c7"\n{"id": "c8", "text": ""}\n')
    assert generate("--rungs", "2") == 3
    shown(capsys.readouterr().err, "2 rows of contexts.jsonl left out", "row 2", "row 3", "1 context x 1 attribute")
    assert len(References.load("ladders")) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"attribute": "wit"}, ["TaskError", "'wit'", "coherence, consistency"]),
        ({"task": "cooking"}, ["TaskError", "'cooking'", "story"]),
    ],
)
def test_an_unknown_task_or_attribute_is_named_with_those_that_there_are(capsys, options, words):
    contexts("c1")
    assert generate(**options) == 1
    shown(capsys.readouterr().err, *words)
    assert not Path("ladders").exists()


def test_a_folder_that_holds_something_else_is_refused_before_anything_is_asked(engine, capsys):
    contexts("c1")
    write("ladders.jsonl")
    Path("ladders").mkdir()
    assert generate("--model", "fake", "--rungs", "2") == 0
    Path("other").mkdir()
    Path("other/thesis.tex").touch()
    asked = engine.n_written
    assert generate("--model", "fake", "--seed", "1", output="other") == 1
    shown(capsys.readouterr().err, "ReferencesError", "other")
    assert engine.n_written == asked


def test_rows_files_are_those_that_rows_can_be_written_to(folder):
    for suffix in ROWS_FILES:
        assert write_rows([{"a": "b"}], folder / f"x{suffix}") == 1


def test_a_file_without_contexts_is_an_error(capsys):
    write("contexts.jsonl", {"id": "c1"})
    assert generate() == 1
    shown(capsys.readouterr().err, "holds no context")


# ------------------------------------------------------------------------------------------------- references


def test_list_counts_the_ladders(folder, capsys):
    References([ladder("c1", failed=(2,)), ladder("c2"), ladder("c3", "surprise", "story", 3)]).save(folder / "ladders")
    assert main(["references", "list", "ladders", "--contexts"]) == 0
    out = capsys.readouterr().out
    header, *rows = (line.split() for line in out.splitlines()[:3])
    assert header == ["task", "attribute", "ladders", "rungs", "each", "failed", "rungs", "written", "by"]
    assert rows == [["story", "surprise", "1", "3", "0", "test"], ["summarization", "coherence", "2", "5", "1", "test"]]
    shown(out, "summarization: c1, c2", "story: c3")


def test_show_prints_a_ladder_from_the_worst_rung_to_the_best(folder, capsys):
    References([ladder("c1", failed=(2,)), ladder("c1", "fluency")]).save(folder / "ladders")
    assert main(["references", "show", "ladders", "c1", "--attribute", "coherence"]) == 0
    out = capsys.readouterr().out
    shown(out, "c1 / coherence", CONTEXTS["c1"], "1 (worst) A text of quality 1.", "2 failed: the model refused")
    assert out.index("quality 1") < out.index("quality 3") < out.index("5 (best)")
    assert "fluency" not in out
    assert main(["references", "show", "ladders", "c1"]) == 0
    shown(capsys.readouterr().out, "c1 / coherence", "c1 / fluency")
    for argv in (["c9"], ["c1", "--attribute", "wit"], ["c1", "--task", "story"]):
        assert main(["references", "show", "ladders", *argv]) == 1
        shown(capsys.readouterr().err, "LadderError", "c1")


def test_check_names_what_is_wrong_and_what_to_do(engine, folder, capsys):
    ladders = [ladder("c1"), ladder("c2", order=(1, 2, 4, 3, 5)), ladder("c3", "fluency", failed=(1,))]
    References(ladders).save(folder / "ladders")
    assert main(["references", "check", "ladders", "-o", "checks.jsonl", "--positions", "scale.json"]) == 3
    out, err = capsys.readouterr()
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["task", "attribute", "ladders", "flagged", "rising", "margin", "inverted", "cycles"]
    assert rows[1][:5] == ["summarization", "coherence", "2", "1", "1"]
    assert rows[1][6:] == ["1", "0"]
    assert rows[2][:5] == ["summarization", "fluency", "1", "1", "1"]
    assert rows[3][:4] == ["all", "3", "2", "2"]
    assert "5 5 5 5 5" in out.partition("From the worst rung to the best")[2]
    shown(out, "1 x inverted", "1 x failed", "-> repair it", "Most at fault (2 of 2)")
    shown(out, "c2/coherence 1 +1.00 2 +1.00 3 -1.00 4 +1.00 5", "inverted 3-4: margin -1.00", "failed 1: the model")
    shown(err, "3 ladders, 52 questions; 2 flagged", "orders:2", "template:", "protocol:compare", "scale.json")
    checks = {row["context_id"]: row for row in read("checks.jsonl")}
    assert "inversions" not in checks["c2"]
    assert checks["c2"]["findings"][0]["kind"] == "inverted"
    assert [pair[:2] for pair in checks["c3"]["pairs"]] == [[a, b] for a in range(2, 6) for b in range(a + 1, 6)]
    assert checks["c3"]["n_failed"] == 1
    assert len(checks["c1"]["positions"]) == len(checks["c1"]["gaps"]) + 1 == 5
    assert main(["references", "check", "ladders", "--strict", "--attribute", "fluency", "--one-order"]) == 3
    shown(capsys.readouterr().err, "1 ladder, 6 questions", "orders:1")
    assert engine.n_judged == 52
    write("targets.jsonl", target("c1", 3.5, id="t"))
    anchored = ["--scoring", "anchored", "--scale", "scale.json", "--both-orders", "-a", "coherence"]
    assert main(["score", "targets.jsonl", "--references", "ladders", *anchored, "-o", "scores.jsonl"]) == 0
    assert read("scores.jsonl")[0]["status"] == "ok"
    assert engine.n_judged == 62


def test_check_of_good_ladders_finds_nothing(engine, references, capsys):
    assert main(["references", "check", "ladders"]) == 0
    out, err = capsys.readouterr()
    assert "Flagged" not in out
    assert "at fault" not in out
    shown(err, "3 ladders, 60 questions; 0 flagged")
    assert main(["references", "check", "ladders", "--adjacent", "--strict"]) == 0
    shown(capsys.readouterr().err, "3 ladders, 24 questions")
    assert engine.n_judged == 60


def test_check_without_a_judge_looks_at_the_texts_alone(folder, engine, capsys):
    References([ladder("c1", failed=(2, 3)), ladder("c2")]).save(folder / "ladders")
    assert main(["references", "check", "ladders", "--no-judge"]) == 3
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["task", "attribute", "ladders", "flagged"]
    assert "rising" not in out
    shown(out, "2 x failed", "failed 2, 3: the model refused")
    assert engine.n_judged == 0
    assert "question" not in err
    options = ["--positions x.json", "--adjacent", "--model other", "--one-order", "--store x", "--min-mass 0.5"]
    for option in (*options, "--prompts paper", "--tokenizer t", "--in-flight 2", "--protocol choose"):
        more = option.split()
        assert main(["references", "check", "ladders", "--no-judge", *more]) == 2
        shown(capsys.readouterr().err, more[0], "--no-judge")


def test_what_is_only_noted_counts_when_strict(engine, folder, capsys):
    References([ladder("c1", order=(1, 2, 3, 3.001, 5))]).save(folder / "ladders")
    assert main(["references", "check", "ladders"]) == 0
    shown(capsys.readouterr().out, "Only noted: 1 x level")
    assert main(["references", "check", "ladders", "--strict"]) == 3


def test_check_prints_everything_as_json(engine, folder, capsys):
    References([ladder("c1"), ladder("c2", order=(1, 2, 4, 3, 5)), ladder("c3", failed=(1,))]).save(folder / "ladders")
    assert main(["references", "check", "ladders", "--json"]) == 3
    said = json.loads(capsys.readouterr().out)
    assert (said["n_ladders"], said["n_flagged"], said["kinds"]) == (3, 2, {"inverted": 1, "failed": 1})
    assert said["ladders"][2]["gaps"][0] is None
    assert said["attributes"][0]["rungs_rise"] is True
    assert 0 < said["attributes"][0]["mean_information"] < 1.5
    assert "orders:2" in said["signature"]
    assert "template:" in said["signature"]


@pytest.mark.parametrize("more", [["--json"], []])
def test_check_does_not_print_two_things_into_one_stream(engine, references, capsys, more):
    assert main(["references", "check", "ladders", *more, "-o", "-"]) == 2
    shown(capsys.readouterr().err, "-o -", "--json")
    assert engine.n_judged == 0


@pytest.mark.parametrize("option", ["--tokenizer t", "--in-flight 2"])
def test_an_option_that_this_kind_of_model_does_not_take_is_an_error_that_names_it(references, capsys, option):
    name, value = option.split()
    assert main(["references", "check", "ladders", "--model", "nano", name, value, "--store", "none"]) == 1
    shown(capsys.readouterr().err, "EngineError: cannot open 'nano'", f"{name.strip('-').replace('-', '_')} {value}")


def test_the_options_of_a_model_that_is_loaded_here_are_those_that_are_named():
    import inspect

    from synthscore import engines
    from synthscore.engines.loading import LocalEngine

    assert set(inspect.signature(LocalEngine.load).parameters) == {"path_or_id", *engines._LOADED}


def test_a_judge_that_answers_nothing_makes_no_scale(engine, references, capsys):
    def silent(prompt, labels):
        raise RuntimeError("no answer")

    engine.judge = silent
    assert main(["references", "check", "ladders", "--json"]) == 3
    said = json.loads(capsys.readouterr().out)
    assert said["attributes"][0]["rungs_rise"] is False
    assert said["attributes"][0]["nats_per_rung"] is None
    assert said["ladders"][0]["positions"] == [None] * 5
    assert main(["references", "check", "ladders", "--positions", "scale.json"]) == 1
    out, err = capsys.readouterr()
    shown(out, "summarization coherence - - - - -", "answered nothing", "3 x unanswered")
    shown(err, "no positions", "summarization/coherence", "answered nothing")
    assert not Path("scale.json").exists()


def test_positions_of_what_has_no_answers_are_left_out_and_named(engine, folder, capsys):
    References([ladder("c1"), ladder("c1", "fluency", failed=(1, 2, 3, 4))]).save(folder / "ladders")
    assert main(["references", "check", "ladders", "--positions", "scale.json"]) == 3
    shown(capsys.readouterr().err, "left out of scale.json", "answered nothing about", "summarization/fluency")
    assert [scale["attribute"] for scale in json.loads(Path("scale.json").read_text())["scales"]] == ["coherence"]


def test_one_order_of_neighbours_tells_no_positions(engine, references, capsys):
    asked = ["references", "check", "ladders", "--adjacent", "--one-order"]
    assert main([*asked, "--positions", "scale.json"]) == 2
    shown(capsys.readouterr().err, "--adjacent", "--one-order", "--positions")
    assert engine.n_judged == 0
    assert main(asked) == 0
    shown(capsys.readouterr().out, "summarization coherence - - - - -", "one order")


def test_the_ladder_with_the_most_faults_comes_first_answered_or_not(engine, folder, capsys):
    References([ladder("c1", order=(1, 2, 4, 3, 5)), ladder("c2")]).save(folder / "ladders")
    answered = engine.judge

    def picky(prompt, labels):
        if "Article 2" in prompt.text:
            raise RuntimeError("too long")
        return answered(prompt, labels)

    engine.judge = picky
    assert main(["references", "check", "ladders", "--worst", "1"]) == 3
    shown(capsys.readouterr().out, "Most at fault (1 of 2): summarization/c2/coherence")


def test_many_small_faults_come_before_a_single_great_one(engine, folder, capsys):
    ladders = [ladder("c1", order=(1, 2, 4, 3, 5)), ladder("c2", order=(1, 3, 2.98, 2.96, 5))]
    References(ladders).save(folder / "ladders")
    assert main(["references", "check", "ladders", "--worst", "1"]) == 3
    shown(capsys.readouterr().out, "4 x inverted", "Most at fault (1 of 2): summarization/c2/coherence")


def test_check_says_where_a_judge_sees_all_ladders_fall(engine, folder, capsys):
    References([ladder(name, order=(5, 4, 3, 2, 1)) for name in CONTEXTS]).save(folder / "ladders")
    assert main(["references", "check", "ladders"]) == 3
    out = capsys.readouterr().out
    shown(out, "does not see the ladders of summarization/coherence (5 rungs) rise", "30 x inverted")


def test_a_ladder_of_one_rung_is_an_error_that_says_so(folder, capsys):
    import pyarrow.parquet as pq

    References([ladder("c1")]).save(folder / "ladders")
    rows = pq.read_table("ladders/ladders.parquet")
    pq.write_table(rows.slice(0, 1), "ladders/ladders.parquet")
    assert main(["references", "check", "ladders", "--no-judge"]) == 1
    shown(capsys.readouterr().err, "c1/coherence", "1 rungs, expected at least 2")


def test_verify_finds_a_changed_file(references, capsys):
    assert main(["references", "verify", "ladders"]) == 0
    manifest = Path("ladders/manifest.json")
    manifest.write_text(manifest.read_text().replace('"n_rows": 15', '"n_rows": 14'))
    assert main(["references", "verify", "ladders"]) == 1
    shown(capsys.readouterr().out, "n_rows is 15, manifest.json says 14")


def test_diff_and_card(folder, references, capsys):
    References([ladder("c1"), ladder("c2", order=(1, 2, 4, 3, 5))]).save(folder / "other")
    assert main(["references", "diff", "ladders", "other"]) == 0
    out, err = capsys.readouterr()
    shown(out, "removed summarization/c3/coherence", "changed summarization/c2/coherence: text of rungs 3, 4")
    shown(err, "2 differences")
    assert main(["references", "card", "ladders"]) == 0
    shown(capsys.readouterr().out, "summarization", "ladders.parquet")


# ------------------------------------------------------------------------------------------------- doctor and demo


def test_doctor_shows_what_a_judge_says(engine, capsys):
    engine.judge = lambda prompt, labels: [math.log(p) for p in (0.5, 0.2, 0.1)]
    assert main(["doctor", "--task", "dialogue", "-a", "naturalness"]) == 0
    out = capsys.readouterr().out
    shown(out, "fake", "dialogue, naturalness, template set default", "Mill Street", "Better, Worse, Similar")
    shown(out, "good text asked about 0.500 0.200 0.100 0.800 'The' (0.050)", "questions/s", "does not find the good")
    engine.judge = lambda prompt, labels: [math.log(0.001)] * 3
    assert main(["doctor"]) == 1
    shown(capsys.readouterr().out, "cannot judge", "0.003 together")


@pytest.mark.parametrize("protocol", ["compare", "yes_no", "yes_no_two_sided", "choose"])
def test_doctor_knows_every_protocol(engine, capsys, protocol):
    def judge(prompt, labels):
        good_first = prompt.text.index("so that its heating") < prompt.text.index("bananas")
        if "less coherently" in prompt.text:
            good_first = not good_first
        first = 0.8 if good_first == (labels[0] == "A") else 0.1
        return [math.log(p) for p in (first, 0.9 - first, 0.01)[: len(labels)]]

    engine.judge = judge
    assert main(["doctor", "--protocol", protocol]) == 0
    shown(capsys.readouterr().out, "It can judge")


def words_judge(prompt, labels):
    """Likes the text with more of the context's words in it."""
    context, first, second = re.split(r"\n\n\w+ 1:\n|\n\n\w+ 2:\n", prompt.text)

    def known(text):
        words = re.findall(r"\w+", text.lower())
        return sum(word in context.lower() for word in words) / max(len(words), 1)

    better = 1 / (1 + math.exp(-10 * (known(second) - known(first))))
    return [math.log(0.9 * p) for p in (better, 0.99 - 0.99 * better + 1e-3, 0.01)]


def test_the_demo_runs_to_its_end_and_prints_commands_that_work(engine, capsys, folder):
    engine.judge = words_judge
    assert main(["demo", "-o", "out"]) == 0
    out, err = capsys.readouterr()
    assert err.count("model:") == 0
    assert max(map(len, out.splitlines())) <= 100
    commands = [shlex.split(line) for line in re.findall(r"^  \$ (.*)$", re.sub(r" \\\n +", " ", out), re.M)]
    steps = ["generate", "generate", "generate", "score", "filter", "score", "report"]
    assert [command[1] for command in commands] == steps
    assert Path("out/report.html").is_file()
    asked = engine.n_judged
    before = Path("out/scores.jsonl").read_bytes()
    for command in commands:
        assert main(command[1:]) in (0, 3)
    assert engine.n_judged == asked
    assert Path("out/scores.jsonl").read_bytes() == before
    assert len(read("out/kept.jsonl")) + len(read("out/dropped.jsonl")) == len(read("out/targets.jsonl"))
    shown(out, "Spearman", "summarization", "dialogue", "story", "all")


def test_the_demo_goes_on_over_texts_without_a_score_and_leaves_them_out_of_its_means(engine, capsys):
    def often_mute(prompt, labels):
        if len(prompt.text) % 3 == 0:
            raise ValueError("no answer")
        return words_judge(prompt, labels)

    engine.judge = often_mute
    assert main(["demo", "-o", "out"]) == 0
    out, err = capsys.readouterr()
    scores = read("out/scores.jsonl")
    n_left_out = sum(row["status"] != "ok" for row in scores)
    assert {"ok", "unscored"} <= {row["status"] for row in scores}
    shown(out, f"by system ({n_left_out} unscored texts left out)", "Done in")
    about = [row["synthscore"] for row in read("out/dropped.jsonl")]
    n_open = sum(row["status"] == "unscored" and row["decision"] == "unsure" for row in about)
    assert n_open
    shown(err, f"{n_open} unscored;")
    careful = [row["score"] for row in scores if row["status"] == "ok" and re.match("sto.*careful", row["id"])]
    assert re.search(rf"^    careful .* {sum(careful) / len(careful):.2f}$", out, re.M)


# ------------------------------------------------------------------------------------------------- what is printed


def test_reasons_that_differ_only_in_names_and_numbers_are_one():
    texts = ["row 3: 'a' is empty", "row 5: 'b' is empty", "row 9: too long", *["again"] * 3]
    assert reasons(texts) == ["  3 x again", "  2 x such as: row 3: 'a' is empty", "  1 x row 9: too long"]
    assert reasons(map(str.upper, "abcd"), most=2) == ["  1 x A", "  1 x B", "  2 x other reasons"]
    assert reasons([]) == []


def test_a_table_lines_up_and_cuts_its_last_column():
    lines = table([("a", 1.5, "x " * 80), ("bb", None, "y")], ("name", "score", "text"), width=40).splitlines()
    assert lines[0] == "name  score  text"
    assert lines[1].startswith("a      1.50  x x")
    assert lines[1].endswith("...")
    assert len(lines[1]) <= 40
    assert lines[2] == "bb        -  y"


def test_counts_read_as_words():
    assert [counted(n, "rung") for n in (0, 1, 12000)] == ["0 rungs", "1 rung", "12 000 rungs"]
    assert clip("one\n two  three", 9) == "one tw..."
