"""A format is one row of io/formats.py: everything that reads, writes, finds or names files goes by that table."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from synthscore.cli.app import main
from synthscore.io import formats
from synthscore.io.fields import RowBatch, make_batches
from synthscore.io.formats import Format
from synthscore.report import read_run
from tests.cli.given import read, score, target, write


def read_python(path, size, encoding, fields):
    """Rows as a literal of Python's, a list of dicts."""
    import ast

    rows = ast.literal_eval(Path(path).read_text(encoding=encoding))
    return make_batches(iter(enumerate(rows, 1)), size, path, fields)


def write_python(lines, file):
    lines.seek(0)
    file.write(repr([json.loads(line) for line in lines]).encode())


OWN = Format(suffix=".pyrows", read=read_python, write=write_python, gzipped=False)


@pytest.fixture
def own(monkeypatch):
    monkeypatch.setattr(formats, "FORMATS", (*formats.FORMATS, OWN))


def test_a_format_that_is_a_row_of_the_table_is_read_and_written_by_score_and_seen_by_report(own, engine, references):
    rows = [target("c1", 3, id="a"), target("c2", 1, id="b")]
    write("targets.jsonl", *rows)
    Path("targets.pyrows").write_text(repr(rows))
    assert score("-o", "scores.jsonl") == 0
    assert score("-o", "run/scores.pyrows", targets="targets.pyrows") == 0
    assert Path("run/scores.pyrows").read_text()[:2] == "[{"
    run = read_run("run")
    assert [row.score.value for row in run.scores["scores"]] == [row["score"] for row in read("scores.jsonl")]


def test_a_format_that_is_a_row_of_the_table_is_written_by_filter_whichever_format_is_read(own, engine, references):
    write("targets.jsonl", target("c1", 5, id="a"), target("c2", 1, id="b"))
    argv = ["filter", "targets.jsonl", "--references", "ladders", "--min-score", "3"]
    assert main([*argv, "-o", "kept.pyrows", "--dropped", "dropped.pyrows"]) == 0
    [batch] = read_python("kept.pyrows", 9, "utf-8", {})
    assert isinstance(batch, RowBatch)
    assert [row.values["id"] for row in batch.rows] == ["a"]


@pytest.mark.parametrize("verb", ["score", "filter", "compare"])
def test_a_format_that_is_a_row_of_the_table_is_named_by_help(verb):
    code = (
        "from synthscore.io import formats\n"
        "own = formats.Format(suffix='.pyrows', read=formats.read_jsonl, lines=True, gzipped=False)\n"
        "formats.FORMATS = (*formats.FORMATS, own)\n"
        "from synthscore.cli.app import main\n"
        f"main(['{verb}', '--help'])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    words = "".join(letter for letter in done.stdout if letter not in " \n│")
    assert words.count(".parquet,.pyrows,") == 2  # what is read, and what is written
