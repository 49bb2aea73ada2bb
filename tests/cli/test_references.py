"""`synthscore references`: list, show, verify."""

from pathlib import Path

from synthscore.cli.app import main
from synthscore.ladders.references import References
from tests.cli.given import CONTEXTS, ladder, shown


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


def test_verify_finds_a_changed_file(references, capsys):
    assert main(["references", "verify", "ladders"]) == 0
    manifest = Path("ladders/manifest.json")
    manifest.write_text(manifest.read_text().replace('"n_rows": 15', '"n_rows": 14'))
    assert main(["references", "verify", "ladders"]) == 1
    shown(capsys.readouterr().out, "n_rows is 15, manifest.json says 14")


def test_ladders_alone_is_no_command_and_shows_the_help(capsys):
    assert main(["references"]) == 2
    shown(capsys.readouterr().out, "references check ladders/")
