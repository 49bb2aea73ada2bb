"""`synthscore filter`: the rows that are good enough, as they were."""

import math
from pathlib import Path

import pytest

from synthscore.cli.app import main
from synthscore.ladders.references import References
from synthscore.signature import Signature
from synthscore.thresholds.certificate import Certificate, Certified, Guarantee
from tests.cli.given import ladder, parse, read, score, shown, target, write


def keep(*argv, targets="targets.jsonl"):
    return main(["filter", targets, "--references", "ladders", *argv])


def test_filter_keeps_the_rows_as_they_were_in_their_order(engine, references, capsys):
    rows = [
        target("c3", 5, id="a", note={"kept": [1, None]}),
        target("c1", 2, id="b"),
        target("c2", 4, id="c", score=7.25),
        target("c2", 4, id="d", score=7.25),  # the same text twice: both rows are judged
    ]
    write("targets.jsonl", *rows)
    assert keep("--min-score", "3.5", "-v") == 0
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


def test_filter_decides_without_some_verdicts_only_where_these_could_not_change_that(engine, folder, capsys):
    References([ladder("c1", failed=(2, 3, 4, 5)), ladder("c2", failed=(1,)), ladder("c3")]).save(folder / "ladders")
    write(
        "targets.jsonl",
        target("c1", -9, id="worse than rung 1"),  # 0 .. sqrt(28): nothing is known of four rungs
        target("c1", 9, id="better than rung 1"),  # sqrt(2) .. sqrt(30)
        target("c2", 9, id="best"),  # sqrt(28) .. sqrt(30)
        target("c2", -9, id="worst"),  # 0 .. sqrt(2)
        target("c3", 5, id="whole"),
    )
    argv = ["--min-score", "3.5", "-o", "kept.jsonl", "--dropped", "dropped.jsonl"]
    assert keep(*argv) == 3
    assert [row["id"] for row in read("kept.jsonl")] == ["best", "whole"]
    dropped = {row["id"]: row["synthscore"] for row in read("dropped.jsonl")}
    assert {name: row["decision"] for name, row in dropped.items()} == {
        "worse than rung 1": "unsure",
        "better than rung 1": "unsure",
        "worst": "dropped",
    }
    worse = dropped["worse than rung 1"]
    assert (worse["status"], worse["score"]) == ("unscored", None)
    assert [worse["low"], worse["high"]] == pytest.approx([0, math.sqrt(28)], abs=0.1)
    shown(worse["reason"], "rungs 2,3,4,5 have no text: the model refused")
    shown(
        capsys.readouterr().err,
        "1 scored, 4 unscored unscored: 2 x rungs 2,3,4,5 have no text",
        "1 dropped, 2 unscored; 2 unscored by what they can be at least or most",
    )


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


@pytest.mark.slow
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
    certified = (Certified(Guarantee.parse("precision>=0.9"), 3.5, 40, 40, 0.9),)
    Certificate(certified, 0.9, 3.5, 3.5, 40, 20, 0, signature).save("good.json")
    Certificate(certified, 0.9, 3.5, 3.5, 40, 20, 0, signature.with_(model="another")).save("stale.json")
    assert keep("-a", "coherence", "-o", "kept.jsonl", "--certificate", "good.json") == 0
    assert [row["id"] for row in read("kept.jsonl")] == ["good"]
    shown(capsys.readouterr().err, "kept 1 of 2 with precision>=0.9, confidence 0.9; 1 dropped")
    engine.calls.clear()
    assert keep("-a", "coherence", "--certificate", "stale.json", "--store", "none") == 1
    assert not engine.calls
    shown(capsys.readouterr().err, "CertificateError", "model was another")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "give one of them"),
        (["--min-score", "3", "--certificate", "x.json"], "give one of them"),
        (["--min-score", "3", "--alpha", "0.1"], "Use anchored scoring (--scoring anchored)"),
        (["--min-score", "3", "--seed", "1"], "--seed 1 changes nothing without --samples N"),
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
