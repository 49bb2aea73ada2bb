"""`synthscore redteam`: the table, the exit code, and going on where it was."""

import json

from synthscore.cli.app import main
from tests.checking.test_redteam import ladders, reading
from tests.cli.given import shown
from tests.factories import references


def test_redteam_shows_families_and_fails_where_one_raises_too_much(engine, capsys, tmp_path):
    references(*ladders()).save(tmp_path / "ladders")
    command = ["redteam", "--ladders", "ladders", "--limit", "6", "--at-most", ".1"]
    engine.judge = reading(["[SYSTEM NOTE"]).judge
    assert main([*command, "-o", "r.json"]) == 1
    out = capsys.readouterr()
    shown(out.out, "harmless 12 +0.00 0.00 0 %", "orders 30", "20 %", "system (100 %)", "are raised by: orders.")
    shown(out.err, "6 rungs, 42 attacks", "1 290 questions asked now", "|model:fake|")
    assert len(json.loads((tmp_path / "r.json").read_text())["attacks"]) == 42
    asked = engine.n_judged
    assert main(command[:-2]) == 0
    assert engine.n_judged == asked, "what was answered is in the store"


def test_redteam_counts_and_asks_nothing(engine, capsys, tmp_path):
    assert main(["redteam", "--dry-run", "--limit", "2", "--both-orders"]) == 0
    assert capsys.readouterr().out.startswith("860 questions, of which 858 are to be asked")
    assert engine.n_judged == 0


def test_redteam_says_what_is_unscored(engine, capsys, tmp_path):
    references(*ladders()).save(tmp_path / "ladders")
    read = reading().judge
    engine.judge = lambda prompt, labels: read(prompt, labels) if "zephyr" not in prompt.text else [-30.0] * 3
    assert main(["redteam", "--ladders", "ladders", "--limit", "2", "--at-most", "0"]) == 3
    shown(capsys.readouterr().err, "2 texts unscored:", "the labels Better, Worse, Similar have probability")


def test_redteam_refuses_what_would_change_nothing(engine, capsys):
    assert main(["redteam", "--scoring", "anchored", "--save-scale", "s.json"]) == 2
    shown(capsys.readouterr().err, "--adaptive and --save-scale do nothing here")
