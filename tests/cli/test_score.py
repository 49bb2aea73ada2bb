"""`synthscore score`: rows of targets in, rows of scores out."""

import io
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import synthscore
from synthscore import engines
from synthscore.cli.app import main
from synthscore.cli.messages import short_signature
from synthscore.engine import Answers
from synthscore.ladders.references import References
from synthscore.resources import resource
from synthscore.types import Context, Usage
from tests.cli.given import CONTEXTS, ladder, parse, quality_judge, read, score, shown, target, write
from tests.fakes import FakeEngine


def test_score_puts_each_text_on_the_scale_of_its_rungs_in_the_order_of_the_rows(engine, references, capsys):
    write("targets.jsonl", target("c2", 4), target("c1", 1), target("c3", 9), target("c1", -9))
    assert score() == 0
    out, err = capsys.readouterr()
    rows = parse(out)
    assert [row["context_id"] for row in rows] == ["c2", "c1", "c3", "c1"]
    assert [row["score"] for row in rows] == pytest.approx([4, 1, math.sqrt(30), 0], abs=0.35)
    assert {row["status"] for row in rows} == {"ok"}
    assert rows[0]["signature"].startswith(f"synthscore:{synthscore.__version__}|model:fake|")
    shown(err, "4 targets x 5 rungs = 20 questions; 4 scored", short_signature(rows[0]["signature"]))
    assert engine.n_judged == 20


def test_a_file_and_a_pipe_of_the_same_rows_give_the_same_bytes(engine, references, monkeypatch):
    write("targets.jsonl", target("c1", 2), "not JSON", target("c1", 2) | {"text": " "}, {"text": "No context."})
    assert score("-q", "-o", "of_file.jsonl") == 3
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path("targets.jsonl").read_bytes())))
    assert score("-q", "-o", "of_pipe.jsonl", targets="-") == 3
    assert Path("of_file.jsonl").read_bytes() == Path("of_pipe.jsonl").read_bytes()


@pytest.mark.parametrize(
    ("allowed", "code"), [("1", 3), ("2", 0), ("9", 0), ("0", 3), ("49.9%", 3), ("50%", 0), ("100%", 0)]
)
def test_so_many_open_rows_as_are_allowed_do_not_stop_a_pipeline(engine, references, allowed, code, capsys):
    """Two of four."""
    write("targets.jsonl", target("c1", 2), target("c9", 3), "not JSON", target("c2", 4))
    assert score("--allow-unscored", allowed) == code
    out, err = capsys.readouterr()
    assert [row["status"] for row in parse(out)] == ["ok", "unscored", "unscored", "ok"]
    assert "2 scored, 2 unscored" in err
    argv = ["filter", "targets.jsonl", "--references", "ladders", "--min-score", "1", "--allow-unscored", allowed]
    assert main(argv) == code


@pytest.mark.parametrize("allowed", ["-1", "x", "101%", "nan%", "0.5", "1e2%%", "²"])
def test_what_allows_neither_a_number_nor_a_share_is_refused(references, allowed, capsys):
    assert score(f"--allow-unscored={allowed}") == 2
    assert "expected a number of rows, such as 10, or a share, such as 0.5%" in capsys.readouterr().err


def test_where_nothing_is_scored_no_number_of_rows_makes_it_well(engine, references):
    write("targets.jsonl", target("c9", 3))
    assert score("--allow-unscored", "100%") == 1


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
    shown(rows[1]["reason"], "row 2: ", "expected a text that is not empty")
    shown(rows[2]["reason"], "row 3", "not JSON")
    shown(rows[3]["reason"], "row 4", "context_id")
    shown(rows[4]["reason"], "no ladder", "c9")
    shown(rows[5]["reason"], "row 6", "'good' was already used by row 1")
    shown(
        capsys.readouterr().err,
        "2 of 7 targets x 5 rungs = 10 questions; 2 scored, 5 unscored",
        "1 x row 2: ",
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
    shown(err, "3 of 5 targets, 2 attributes: 15 questions; 3 scored, 2 unscored")
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
    shown(err, f"= {engine.n_judged} questions; 1 scored")
    shown(parse(out)[0]["signature"], f"protocol:{protocol}|", f"orders:{1 + both}")
    assert f"protocol:{protocol}" in parse(out)[0]["signature"]


def test_a_text_on_a_ladder_that_lacks_a_rung_has_no_score_but_low_and_high(engine, folder, capsys):
    References([ladder("c1", failed=(5,))]).save(folder / "ladders")
    write("targets.jsonl", target("c1", 9))
    assert score() == 1  # nothing is scored
    out, err = capsys.readouterr()
    (row,) = parse(out)
    assert (row["status"], row["score"]) == ("unscored", None)
    assert [row["low"], row["high"]] == pytest.approx([math.sqrt(20), math.sqrt(30)], abs=0.1)
    shown(err, "1 target x 4 rungs = 4 questions; 0 scored, 1 unscored", "rung 5 has no text: the model refused")


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
    shown(err, "3 of 4 targets x 5 rungs = 15 questions; 3 scored, 1 unscored")
    write("targets.jsonl", target("c1", 3, article=other))
    assert score("--field", "context=article") == 1
    shown(parse(capsys.readouterr().out)[0]["reason"], "made for another text")


def test_blank_space_around_a_context_makes_it_no_other_text(engine, folder, capsys):
    padded = Context("c1", f"\n{CONTEXTS['c1']} ")
    References([replace(ladder("c1"), context=padded)]).save(folder / "ladders")
    write("targets.jsonl", target("c1", 3, context=f"{CONTEXTS['c1']}\n\n"))
    assert score() == 0


def test_a_ladder_without_its_context_needs_rows_that_have_it(engine, folder, capsys):
    References([replace(ladder("c1"), context=None)]).save(folder / "ladders")
    write("targets.jsonl", target("c1", 3))
    assert score() == 1
    shown(parse(capsys.readouterr().out)[0]["reason"], "does not carry its context")
    write("targets.jsonl", target("c1", 3, context="An article, from the row."))
    assert score() == 0
    assert "An article, from the row." in engine.judged[0].text


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
    stored = engine.n_judged
    assert 0 < stored < 500
    told = f"interrupted. Run the same command again to go on: {stored} answers of this run are in the store"
    assert capsys.readouterr().err.splitlines()[-1] == told
    for more in ((), ("--store", "none")):
        assert score("-o", "scores.jsonl", *more) == 130
        assert "interrupted, and no answer of this run is in a store" in capsys.readouterr().err
    assert not Path("scores.jsonl").exists()
    monkeypatch.setattr(engine, "answer", answer)
    assert score("-o", "scores.jsonl") == 0
    assert engine.n_judged == 500
    assert [row["id"] for row in read("scores.jsonl")] == [str(i) for i in range(100)]


def test_a_run_of_so_many_questions_at_most_stops_and_the_same_command_goes_on(engine, references, capsys):
    write("targets.jsonl", *[target(f"c{1 + i % 3}", i / 20, id=str(i)) for i in range(20)])  # 100 questions
    for n_left in (60, 20):
        assert score("-o", "scores.jsonl", "--max-questions", "40") == 4
        told = f"40 were asked now, and what was answered is stored; at least {n_left} more are unasked"
        shown(capsys.readouterr().err, "stopped: 40 questions, as many as", told, "Run the same command again to go on")
        assert [path.name for path in Path().glob("scores*")] == []
    assert score("-o", "scores.jsonl", "--max-questions", "40") == 0
    assert (engine.n_judged, len(read("scores.jsonl"))) == (100, 20)
    shown(capsys.readouterr().err, "20 questions asked now")


class Priced(FakeEngine):
    def answer(self, questions, progress=None):
        return Answers(super().answer(questions).rows, Usage(n_in=1000, n_computed=400, n_out=30, n_reasoning=20))


def test_tokens_and_their_price_are_told_and_kept_and_end_a_run(folder, references, capsys, monkeypatch):
    engine = Priced(quality_judge)
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: engine)
    Path("prices.toml").write_text("[fake]\nin = 10\ncached = 1\nout = 100\n")  # 7 600 millionths a call
    write("targets.jsonl", *[target(f"c{1 + i % 3}", i / 20, id=str(i)) for i in range(20)])
    limited = ["--price", "prices.toml", "--cost-limit", "0.01", "-o", "scores.jsonl"]
    assert score(*limited) == 4  # after calls of 8 and 32 questions
    shown(capsys.readouterr().err, "stopped: 0.0152 spent, by prices.toml, of at most 0.01. 40 were asked now")
    assert score("--price", "prices.toml", "-o", "scores.jsonl") == 0  # in calls of 8, 32 and 20
    told = "3 000 tokens in, 1 800 of them cached, 90 out, 60 of these reasoning; cost 0.0228"
    shown(capsys.readouterr().err, "60 questions asked now", told)
    assert main(["store", "info"]) == 0
    line = next(line for line in capsys.readouterr().out.splitlines() if "5000" in line)
    assert [word for word in line.split() if word.isdigit()] == ["100", "0", "5000", "3000", "150", "100"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--cost-limit", "1"], "--cost-limit needs --price"),
        (["--max-questions", "5", "--store", "none"], "--max-questions counts what comes into a store"),
        (["--price", "nowhere.toml"], "cannot read the prices nowhere.toml"),
        (["--price", "other.toml"], "other.toml has no price of 'fake', only of dear"),
    ],
)
def test_a_limit_that_cannot_be_kept_is_refused_before_anything_is_asked(engine, references, capsys, options, told):
    Path("other.toml").write_text("[dear]\nin = 10\nout = 100\n")
    write("targets.jsonl", target("c1", 3))
    assert score(*options) in (1, 2)
    assert told in capsys.readouterr().err
    assert engine.n_judged == 0


def test_a_progress_bar_is_drawn_only_on_a_terminal(engine, references, capsys, monkeypatch):
    write("targets.jsonl", target("c1", 3))
    assert score() == 0
    assert "rows/s" not in capsys.readouterr().err
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert score("--store", "none") == 0
    assert "0/1 [" in capsys.readouterr().err


def test_a_task_of_ones_own_goes_all_the_way(engine, folder, capsys):
    task = resource("prompts").joinpath("summarization/task.toml").read_text()
    Path("mine").mkdir()
    Path("mine/task.toml").write_text(task.replace('name = "summarization"', 'name = "abstracts"'))
    References([ladder("c1", task="abstracts")]).save(folder / "ladders")
    write("targets.jsonl", target("c1", 3))
    assert score() == 1  # nothing says where the task is
    shown(capsys.readouterr().err, "'abstracts'", "a folder with a task.toml")
    assert score("--task", "mine", "-v") == 0
    shown(capsys.readouterr().err, "1 scored", "task:abstracts")
    assert main(["references", "check", "ladders", "--task", "mine"]) == 0
    assert main(["references", "show", "ladders", "c1", "--task", "mine"]) == 0


@pytest.mark.parametrize(
    ("options", "said"),
    [([], "100% of 40 verdicts find the text the better one"), (["--both-orders"], "in 100% of 40 pairs: asked about")],
)
@pytest.mark.parametrize("verb", [["score"], ["filter", "--min-score", "3"]], ids=lambda verb: verb[0])
def test_score_and_filter_warn_once_of_a_judge_that_says_the_same_whatever_it_is_shown(
    engine, references, capsys, verb, options, said
):
    write("targets.jsonl", *(target("c1", 3, id=str(i)) for i in range(8)))
    engine.judge = lambda prompt, labels: [math.log(p) for p in (0.9, 0.05, 0.02)]
    assert main([*verb, "targets.jsonl", "--references", "ladders", *options]) == 0
    err = capsys.readouterr().err
    assert err.count("warning:") == 1
    shown(err, said, "synthscore doctor")


# ------------------------------------------------------------------------------------------------- several judges


def judges(monkeypatch):
    """One of them sees less clearly."""

    def fair(prompt, labels):
        return [0.3 * value - 0.5 for value in quality_judge(prompt, labels)]

    found = {"good": FakeEngine(quality_judge, name="good"), "fair": FakeEngine(fair, name="fair")}
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: found[name])


MODELS = ("--model", "good", "--model", "fair")


def test_several_judges_score_and_filter_together(references, monkeypatch, capsys):
    judges(monkeypatch)
    write("targets.jsonl", *(target(c, q, id=f"{c}-{q}") for c in CONTEXTS for q in (1.5, 2.5, 3.5, 4.5)))
    assert score(*MODELS, "--scoring", "anchored", "-o", "scores.jsonl") == 0
    err = capsys.readouterr().err
    shown(
        err, "good: coherence, 5 rungs: judge tells", "a jury of 2 on coherence/5 rungs, with equal weights: good, fair"
    )
    rows = read("scores.jsonl")
    assert [row["score"] for row in rows] == pytest.approx([1.5, 2.5, 3.5, 4.5] * 3, abs=0.5)
    assert all(row["low"] < row["score"] < row["high"] and row["n_comparisons"] == 10 for row in rows)
    assert "model:fair & good|" in rows[0]["signature"]
    kept = ["filter", "targets.jsonl", "--references", "ladders", "-a", "coherence", "--min-score", "3"]
    assert main([*kept, *MODELS, "--scoring", "anchored", "-o", "kept.jsonl"]) == 0
    assert [row["id"] for row in read("kept.jsonl")] == [f"{c}-{q}" for c in CONTEXTS for q in (3.5, 4.5)]
    shown(capsys.readouterr().err, "a jury of 2 on coherence/5 rungs, with equal weights: good, fair")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "several judges score together by anchored scoring"),
        (("--scoring", "anchored", "--save-scale", "s.json"), "--save-scale is of one judge"),
        (("--scoring", "anchored", "--verdicts"), "--verdicts is of one judge"),
    ],
)
def test_what_is_of_one_judge_is_refused_for_several(references, monkeypatch, capsys, options, words):
    judges(monkeypatch)
    write("targets.jsonl", target("c1", 2))
    assert score(*MODELS, *options) == 2
    shown(capsys.readouterr().err, words)
