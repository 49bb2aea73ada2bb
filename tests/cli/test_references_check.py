"""`synthscore references check`: what is wrong with ladders, by their texts and by a judge."""

import json
from pathlib import Path

import pytest

from synthscore.cli.app import main
from synthscore.ladders.references import References
from tests.cli.given import CONTEXTS, ladder, read, shown, target, write


def test_check_names_what_is_wrong_and_what_to_do(engine, folder, capsys):
    ladders = [ladder("c1"), ladder("c2", order=(1, 2, 4, 3, 5)), ladder("c3", "fluency", failed=(1,))]
    References(ladders).save(folder / "ladders")
    assert main(["references", "check", "ladders", "-o", "checks.jsonl", "--positions", "scale.json", "-v"]) == 3
    out, err = capsys.readouterr()
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["task", "attribute", "ladders", "flagged", "rising", "margin", "inverted", "gaps", "words"]
    assert rows[1][:5] == ["summarization", "coherence", "2", "1", "1"]
    assert rows[1][6] == "1"
    assert rows[2][:5] == ["summarization", "fluency", "1", "1", "1"]
    assert rows[3][:4] == ["all", "3", "2", "2"]
    assert rows[1][-5:] == ["10"] * 5
    shown(
        out,
        "1 x inverted",
        "1 x failed",
        "-> write it again",
        "synthscore generate ... --findings FILE",
        "Most at fault (2 of 2)",
    )
    shown(out, "c2/coherence 1 +1.00 2 +1.00 3 -1.00 4 +1.00 5", "inverted 3-4: margin -1.00", "failed 1: the model")
    shown(err, "3 ladders, 52 questions; 2 flagged", "orders:2", "template:", "protocol:compare", "scale.json")
    checks = {row["context_id"]: row for row in read("checks.jsonl")}
    assert "inversions" not in checks["c2"]
    assert checks["c2"]["findings"][0]["kind"] == "inverted"
    assert checks["c2"]["findings"][0]["rewrite"] == [4]
    assert [row["ladder_hash"] for row in checks.values()] == [each.hash for each in ladders]
    assert [pair[:2] for pair in checks["c3"]["pairs"]] == [[a, b] for a in range(2, 6) for b in range(a + 1, 6)]
    assert checks["c3"]["n_failed"] == 1
    assert len(checks["c1"]["positions"]) == len(checks["c1"]["gaps"]) + 1 == 5
    assert main(["references", "check", "ladders", "--strict", "--attribute", "fluency", "-v"]) == 3
    shown(capsys.readouterr().err, "1 ladder, 12 questions", "orders:2")
    assert engine.n_judged == 52
    write("targets.jsonl", target("c1", 3.5, id="t"))
    anchored = ["--scoring", "anchored", "--scale", "scale.json", "--both-orders", "-a", "coherence"]
    assert main(["score", "targets.jsonl", "--references", "ladders", *anchored, "-o", "scores.jsonl"]) == 0
    assert read("scores.jsonl")[0]["status"] == "ok"
    assert engine.n_judged == 62


@pytest.mark.slow
def test_check_of_good_ladders_finds_nothing(engine, references, capsys):
    assert main(["references", "check", "ladders"]) == 0
    out, err = capsys.readouterr()
    assert "Flagged" not in out
    assert "at fault" not in out
    shown(err, "3 ladders, 60 questions; 0 flagged")
    assert engine.n_judged == 60


def test_check_without_a_judge_looks_at_the_texts_alone(folder, engine, capsys):
    References([ladder("c1", failed=(2, 3)), ladder("c2")]).save(folder / "ladders")
    assert main(["references", "check", "ladders", "--no-judge"]) == 3
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["task", "attribute", "ladders", "flagged", "words"]
    assert "rising" not in out
    shown(out, "2 x failed", "failed 2, 3: the model refused")
    assert engine.n_judged == 0
    assert "question" not in err
    options = ["--positions x.json", "--model other", "--store x", "--min-mass 0.5"]
    for option in (*options, "--prompts paper", "--tokenizer t", "--in-flight 2", "--protocol choose"):
        more = option.split()
        assert main(["references", "check", "ladders", "--no-judge", *more]) == 2
        shown(capsys.readouterr().err, more[0], "--no-judge")


def test_what_is_only_noted_counts_when_strict(engine, folder, capsys):
    References([ladder("c1", order=(1, 2, 3, 3.001, 5))]).save(folder / "ladders")
    assert main(["references", "check", "ladders"]) == 0
    shown(capsys.readouterr().out, "Only noted: 1 x level")
    assert main(["references", "check", "ladders", "--strict"]) == 3


def test_check_does_not_print_two_things_into_one_stream(engine, references, capsys):
    assert main(["references", "check", "ladders", "-o", "-"]) == 2
    shown(capsys.readouterr().err, "-o -", "name a file")
    assert engine.n_judged == 0


@pytest.mark.parametrize("option", ["--tokenizer t", "--in-flight 2"])
def test_an_option_that_this_kind_of_model_does_not_take_is_an_error_that_names_it(references, capsys, option):
    name, value = option.split()
    assert main(["references", "check", "ladders", "--model", "nano", name, value, "--store", "none"]) == 1
    shown(capsys.readouterr().err, "EngineError: cannot open 'nano'", f"{name.strip('-').replace('-', '_')} {value}")


def test_a_judge_that_answers_nothing_makes_no_scale(engine, references, capsys):
    def silent(prompt, labels):
        raise RuntimeError("no answer")

    engine.judge = silent
    assert main(["references", "check", "ladders", "-o", "checks.jsonl", "--positions", "scale.json"]) == 1
    assert read("checks.jsonl")[0]["positions"] == [None] * 5
    out, err = capsys.readouterr()
    shown(out, "summarization coherence 3 3 0 - 0 - - - - 10 10 10 10 10", "answered nothing", "3 x unanswered")
    shown(err, "no positions", "summarization/coherence", "answered nothing")
    assert not Path("scale.json").exists()


def test_positions_of_what_has_no_answers_are_left_out_and_named(engine, folder, capsys):
    References([ladder("c1"), ladder("c1", "fluency", failed=(1, 2, 3, 4))]).save(folder / "ladders")
    assert main(["references", "check", "ladders", "--positions", "scale.json"]) == 3
    shown(capsys.readouterr().err, "left out of scale.json", "answered nothing about", "summarization/fluency")
    assert [scale["attribute"] for scale in json.loads(Path("scale.json").read_text())["scales"]] == ["coherence"]


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
    assert main(["references", "check", "ladders", "-o", "checks.jsonl"]) == 3
    out = capsys.readouterr().out
    shown(out, "does not see the ladders of summarization/coherence (5 rungs) rise", "30 x inverted")
    rewrite = [finding["rewrite"] for row in read("checks.jsonl") for finding in row["findings"]]
    assert len(rewrite) == 30
    assert not any(rewrite), "what such a judge says of single rungs is no reason to write them again"


def test_a_ladder_of_one_rung_is_an_error_that_says_so(folder, capsys):
    import pyarrow.parquet as pq

    References([ladder("c1")]).save(folder / "ladders")
    rows = pq.read_table("ladders/ladders.parquet")
    pq.write_table(rows.slice(0, 1), "ladders/ladders.parquet")
    (folder / "ladders" / "manifest.json").unlink()
    assert main(["references", "check", "ladders", "--no-judge"]) == 1
    shown(capsys.readouterr().err, "c1/coherence", "1 rungs, expected at least 2")
