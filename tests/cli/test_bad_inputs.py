"""Inputs that cannot be used: what is told of each, and that no file is lost. Each line was told badly once."""

import gzip
import json
import shlex
import sys
from pathlib import Path

import pytest

from synthscore.cli.app import main
from synthscore.cli.messages import ERROR, USAGE
from tests.cli.given import CONTEXTS, shown, target

ROW = json.dumps(target("c1", 2)) + "\n"
SCORED = (
    '{"id": "a", "context_id": "c1", "attribute": "coherence", "score": NaN, "status": "ok", "signature": "model:m"}\n'
)
FILES = {
    "rows.jsonl": ROW,
    "notes.txt": "What nobody wants to lose.\n",
    "packed.jsonl": gzip.compress(ROW.encode()),
    "three.jsonl": json.dumps(target("c1", 2, attribute=3)) + "\n",
    "other.jsonl": '{"context": "Another article.", "text": "A text of quality 2."}\n',
    "scored.jsonl": SCORED,
    "odd.csv": "piece,worst,best\nAn article,bad,good\n",
    "gap.jsonl": '{"context": "An article.", "rung_1": "bad", "rung_3": "good"}\n',
    "fluent.jsonl": '{"context": "An article.", "attribute": "fluency", "rungs": ["bad", "good"]}\n',
    "bare.jsonl": '{"rungs": ["bad", "good"]}\n',
    "empty/.keep": "",
    "broken/ladders.parquet": "",
    "broken/manifest.json": "{",
}
IMPORT = "--task summarization -a coherence -o new"

TOLD = [
    ("score packed.jsonl --references ladders", ERROR, "compressed by gzip: give it a name that ends in .gz"),
    ("score three.jsonl --references ladders", ERROR, "the row's attribute is '3', and there are only ladders for coh"),
    ("score other.jsonl --references ladders", ERROR, "coherence for the context 'Another article.' in ladders"),
    (
        "score rows.jsonl --references ladders --field txt=text",
        USAGE,
        "there is no field 'txt'",
        "Did you mean 'text'?",
    ),
    ("score rows.jsonl --references ladders --field banana=text", USAGE, "no field 'banana', but text, context"),
    ("score rows.jsonl --references ladders -o notes.txt/rows.jsonl", ERROR, "a file stands where a folder is needed"),
    ("score rows.jsonl --references ladders --store notes.txt/s.sqlite", ERROR, "notes.txt: File exists. Name another"),
    ("score rows.jsonl --references ladders --store ''", ERROR, "the store '': it has no name"),
    (
        "filter rows.jsonl --references ladders -a coherence --certificate no.json",
        ERROR,
        "no.json: No such file or dir",
    ),
    ("references import gap.jsonl " + IMPORT, ERROR, "there is no rung_2, but rung_1, rung_3. Number the rungs from 1"),
    ("references import fluent.jsonl " + IMPORT, ERROR, "its attribute is 'fluency', and --attribute is 'coherence'"),
    ("score rows.jsonl --references rows.jsonl", ERROR, "of texts of your own: synthscore references import"),
    ("score rows.jsonl --references empty", ERROR, "of texts of your own: synthscore references import"),
    ("score rows.jsonl --references broken", ERROR, "its manifest.json cannot be read"),
    (f"score rows.jsonl --references ladders --samples {10**20}", USAGE, "expected 1 to 1,000,000,000, or"),
    ("score rows.jsonl --references ladders --min-mass nan", USAGE, "--min-mass is nan, expected a number from 0 to 1"),
    ("score rows.jsonl more.jsonl --references ladders", USAGE, "there is nothing that score would do with 'more.j"),
    ("score rows.jsonl --references ladders --log-file empty", USAGE, "--log-file is 'empty', a folder, expected"),
    ("score rows.jsonl --references ladders --model nano --store notes.txt", ERROR, "notes.txt is no store: file is"),
    ("store info --store notes.txt", ERROR, "notes.txt is no store: file is not a database. Name another file"),
    ("score rows.jsonl --references ladders --from inspect", ERROR, "Run: pip install 'synthscore[inspect-ai]'"),
    ("report scored.jsonl -o page.html", ERROR, "What could not be read: scored.jsonl row 1: its score is nan"),
    ("references import odd.csv " + IMPORT, ERROR, "no rungs, but 'piece', 'worst', 'best'", "--field rung_1=COLUMN"),
    ("references import bare.jsonl " + IMPORT, ERROR, "there is no 'context', but 'rungs'", "--field context=COLUMN"),
    ("export rows.jsonl --to argilla --sample -4", USAGE, "--sample", "Must be >= 1"),
    ("demo -o notes.txt", USAGE, "--output notes.txt is a file, expected a folder"),
    ("export rows.jsonl", USAGE, "--to: whose form, one of argilla, label-studio"),
]


@pytest.fixture
def files(folder, references):
    for name, text in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())


@pytest.mark.parametrize(("command", "code", "told"), [(line[0], line[1], line[2:]) for line in TOLD])
def test_what_cannot_be_used_is_told_and_kept(command, code, told, files, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)  # as where it is not installed
    assert main(shlex.split(command)) == code
    error = capsys.readouterr().err
    shown(error, *told)
    assert {name: Path(name).read_bytes() for name in FILES} == {
        name: text if isinstance(text, bytes) else text.encode() for name, text in FILES.items()
    }


def test_a_file_without_a_name_is_not_the_current_folder(references, capsys):
    assert main(["score", "", "--references", "ladders"]) == ERROR
    shown(capsys.readouterr().err, "without a name")


def test_a_folder_is_no_file_to_write(engine, references, capsys):
    Path("rows.jsonl").write_text(ROW)
    Path("page.html").mkdir()
    assert main(["score", "rows.jsonl", "--references", "ladders", "-o", "scores.jsonl"]) == 0
    for command in ("report scores.jsonl -o page.html", "score rows.jsonl --references ladders --save-scale page.html"):
        assert main(command.split()) == USAGE
        shown(capsys.readouterr().err, "is 'page.html', a folder, expected a file. Name a file in it")


def test_ladders_that_are_replaced_by_other_texts_are_counted(references, capsys):
    rows = [{"context_id": "c1", "context": CONTEXTS["c1"], "rungs": ["one text", "a better text"]}]
    Path("mine.json").write_text(json.dumps(rows))
    command = ["references", "import", "mine.json", "--task", "summarization", "-a", "coherence", "-o", "ladders"]
    assert main(command) == 0
    shown(capsys.readouterr().err, "ladders now holds 3 ladders; 1 that it held", "of other texts, gone")
    assert main(command) == 0
    assert "gone" not in capsys.readouterr().err
