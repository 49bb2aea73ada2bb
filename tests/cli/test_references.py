"""`synthscore references`: list, show."""

from pathlib import Path

from synthscore.cli.app import main
from synthscore.ladders.references import References
from tests.cli.given import CONTEXTS, ladder, parse, score, shown, write


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
    shown(out, "c1 / coherence", CONTEXTS["c1"], "1 (worst) A text of quality 1,", "2 failed: the model refused")
    assert out.index("quality 1") < out.index("quality 3") < out.index("5 (best)")
    assert "fluency" not in out
    assert main(["references", "show", "ladders", "c1"]) == 0
    shown(capsys.readouterr().out, "c1 / coherence", "c1 / fluency")
    for argv in (["c9"], ["c1", "--attribute", "wit"], ["c1", "--task", "story"]):
        assert main(["references", "show", "ladders", *argv]) == 1
        shown(capsys.readouterr().err, "LadderError", "c1")


def test_ladders_alone_is_no_command_and_shows_the_help(capsys):
    assert main(["references"]) == 2
    shown(capsys.readouterr().out, "references check ladders/")


def test_import_takes_ladders_that_a_person_wrote(folder, capsys):
    rungs = ["Cats.", "The bridge is an old one.", "The bridge closes for a year."]
    write("mine.jsonl", {"article": "The old bridge has cracks.", "rungs": rungs}, {"article": "Another."})
    argv = ["references", "import", "mine.jsonl", "--task", "summarization", "-a", "coherence", "-o", "ladders"]
    assert main(argv) == 3
    err = capsys.readouterr().err
    shown(err, "reading context from 'article'", "1 row or ladder left out", "row 2: there are no rungs, but 'article'")
    shown(err, "1 ladder of 3 rungs imported", "ladders now holds 1 ladder")
    assert err.count("reading context") == 1
    assert main(["references", "list", "ladders"]) == 0
    shown(capsys.readouterr().out, "person")
    write("none.jsonl", {"article": "Another."})
    assert main([*argv[:2], "none.jsonl", *argv[3:-1], "new"]) == 1
    shown(capsys.readouterr().err, "InputError: none.jsonl holds no ladders", "there are no rungs")
    assert not Path("new").exists()


def test_own_rows_are_scored_on_own_ladders_without_any_id(folder, engine, capsys):
    rungs = [f"A text of quality {level}, which is all of it." for level in (1, 2, 3)]
    write("mine.jsonl", {"article": "The old bridge has cracks.", "rungs": rungs})
    argv = ["references", "import", "mine.jsonl", "--task", "summarization", "-a", "coherence", "-o", "ladders"]
    assert main(argv) == 0
    Path("own.csv").write_text("article,summary\nThe old bridge has cracks.,Text of quality 2.6.\n")
    assert score(targets="own.csv") == 0
    out, err = capsys.readouterr()
    shown(err, "reading text from 'summary', context from 'article'", "1 scored")
    assert 2.4 < parse(out)[0]["score"] < 3


def test_the_messages_alone_lead_from_a_csv_to_its_scores(folder, engine, capsys):
    Path("own.csv").write_text(
        "article,summary,rung_1,rung_2\nAn article.,Text of quality 2.,Of quality 1.,Of quality 3.\n"
    )
    given = ["references", "import", "own.csv"]
    for argv, *lead in (
        (["score", "own.csv"], "score needs --references: folder", "`synthscore references import` wrote them"),
        (["score", "own.csv", "--references", "mine"], "Make ladders with: synthscore generate; of texts of your"),
        (given, "references import needs --output: the references folder"),
        (
            [*given, "-o", "mine"],
            "there is no 'task', but 'rung_1', 'rung_2', 'summary', 'article'",
            "with --task NAME",
        ),
        ([*given, "-o", "mine", "--task", "summary"], "summarization"),
        ([*given, "-o", "mine", "--task", "summarization"], "with --attribute NAME"),
        ([*given, "-o", "mine", "--task", "summarization", "-a", "wit"], "coherence"),
    ):
        assert main(argv) != 0
        shown(capsys.readouterr().err, *lead)
    assert main([*given, "-o", "mine", "--task", "summarization", "-a", "coherence"]) == 0
    assert main(["score", "own.csv", "--references", "mine"]) == 0
