"""`synthscore redteam`: the table, the exit code, and going on where it was."""

import json
import re

from synthscore.cli.app import main
from tests.checking.test_redteam import OWN, ladders, reading
from tests.cli.given import shown
from tests.factories import references


def n_questions_of_a_rung():
    """Its text, plain and in each attack, is compared with the five rungs of its ladder."""
    return (1 + len(OWN)) * 5


def test_redteam_shows_families_and_fails_where_one_raises_too_much(engine, capsys, tmp_path):
    references(*ladders()).save(tmp_path / "ladders")
    command = ["redteam", "--ladders", "ladders", "--limit", "6", "--at-most", ".1"]
    engine.judge = reading(["[SYSTEM NOTE"]).judge
    assert main([*command, "-o", "r.json", "-v"]) == 1
    out = capsys.readouterr()
    n_harmless, n_orders = (sum(attack.family == family for attack in OWN) for family in ("harmless", "orders"))
    shown(out.out, f"harmless {6 * n_harmless} +0.00 0.00 0 %", f"orders {6 * n_orders}", f"{100 / n_orders:.0f} %")
    shown(out.out, "system (100 %)", "are raised by: orders.")
    n_asked = f"{6 * n_questions_of_a_rung():,}".replace(",", " ")
    shown(out.err, f"6 rungs, {len(OWN)} attacks", f"{n_asked} questions asked now", "|model:fake|")
    assert len(json.loads((tmp_path / "r.json").read_text())["attacks"]) == len(OWN)
    asked = engine.n_judged
    assert main(command[:-2]) == 0
    assert engine.n_judged == asked, "what was answered is in the store"


def test_redteam_counts_and_asks_nothing(engine, capsys, tmp_path):
    assert main(["redteam", "--dry-run", "--limit", "2", "--both-orders"]) == 0
    told = r"([\d ]+) questions(?: \(([\d ]+) with equal ones\))?, of which ([\d ]+) are to be asked"
    figures = re.match(told, capsys.readouterr().out).groups()
    n_distinct, n_questions, n_new = (int((figure or figures[0]).replace(" ", "")) for figure in figures)
    assert n_questions == 2 * 2 * n_questions_of_a_rung()
    assert 0.99 * n_questions < n_new == n_distinct, "few attacks leave a text as it was"
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
