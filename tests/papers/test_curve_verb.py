"""`python -m papers curve`: agreement by the number of calls."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from papers.__main__ import main
from synthscore.ranking.designs import all_pairs
from tests.cli.given import read, write


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write_full(n=5, contexts=3):
    rows = []
    for c in range(contexts):
        rng = np.random.default_rng(c)
        q = rng.normal(size=n)
        for i, j in all_pairs(n).tolist():
            p = 1 / (1 + math.exp(-(q[i] - q[j] + rng.normal())))
            rows.append({"context_id": f"c{c}", "first": f"t{i}", "second": f"t{j}", "probability": p})
        write(f"human{c}.jsonl", *[{"id": f"t{i}", "context_id": f"c{c}", "human": x} for i, x in enumerate(q)])
    write("calls.jsonl", *rows)
    write("human.jsonl", *[row for c in range(contexts) for row in read(f"human{c}.jsonl")])


def curve(*options):
    return main(["curve", "calls.jsonl", "--draws", "4", *options])


def test_a_curve_is_a_table_rows_json_and_a_picture(capsys):
    write_full()
    options = ("--human", "human.jsonl", "--methods", "win-ratio,poe-bt", "--plot", "c.svg", "-o", "curve.csv")
    assert curve(*options) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[0].split() == ["calls", "win-ratio", "poe-bt"]
    assert [line.split()[0] for line in out.splitlines()[1:]] == ["10", "12", "14", "16", "18", "20"]
    assert out.splitlines()[-1].count("± 0.000") == 2
    assert "Spearman with the ratings of human.jsonl, mean over 3 contexts; mean and sd of 4 draws" in err
    assert ">win-ratio</text>" in Path("c.svg").read_text()
    assert Path("curve.csv").read_text().splitlines()[0].startswith("method,n_calls,mean,sd,low,high")
    assert curve(*options[:4], "-o", "-") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 12
    assert rows[0]["low"] < rows[0]["mean"] < rows[0]["high"]
    assert rows[0]["n_contexts"] == 3


def test_a_curve_without_ratings_says_what_it_is_compared_with(capsys):
    write_full()
    assert curve("--methods", "poe-g", "--budgets", "20,10", "--selection", "greedy") == 0
    out, err = capsys.readouterr()
    assert "Spearman with what the same method says of the full set" in err
    assert out.splitlines()[2].split() == ["20", "1.000", "±", "0.000"]
    found = []
    for selection in ("greedy", "symmetric", "random", "no-repeat"):
        assert curve("--methods", "poe-g", "--budgets", "10", "--selection", selection, "-o", "-") == 0
        found.append(json.loads(capsys.readouterr().out)["mean"])
    assert len(set(found)) == 4


def test_a_curve_in_which_something_could_not_be_ranked_says_so(capsys):
    rows = [{"first": i, "second": j, "outcome": o} for i, j, o in (("a", "b", 1), ("b", "a", 0), ("a", "c", 1))]
    rows += [{"first": i, "second": j, "outcome": o} for i, j, o in (("c", "a", 0), ("b", "c", 1), ("c", "b", 0))]
    write("calls.jsonl", *rows)
    write("human.jsonl", *[{"id": name, "human": h} for name, h in zip("abc", (3, 2, 1), strict=True)])
    assert curve("--methods", "poe-bt,bt", "--human", "human.jsonl", "--budgets", "6") == 3
    out, err = capsys.readouterr()
    assert "poe-bt could not rank 4 contexts (of all draws)" in err
    assert out.splitlines()[1].split() == ["6", "nan", "±", "nan", "1.000", "±", "0.000"]


@pytest.mark.parametrize("wrong", [("--methods", "elo"), ("--methods", "pairs"), ("--draws", "1")])
def test_what_cannot_be_thinned_is_said(wrong, capsys):
    write_full()
    assert curve(*wrong) == 1
    assert "InputError" in capsys.readouterr().err
