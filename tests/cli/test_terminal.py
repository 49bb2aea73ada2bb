"""What a person at a terminal sees: an answer in place of rows, counts of rows, lines that fit; what a pipe gets."""

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from synthscore.cli.app import main
from synthscore.cli.messages import Messages, broken, short_signature
from synthscore.cli.options import _RowProgress
from synthscore.errors import did_you_mean, where_they_part
from synthscore.evaluation.intervals import mean_over_contexts
from synthscore.io.files import BATCH
from tests.cli.given import parse, read, score, shown, target, write

SYSTEMS = {"good": 4.0, "poor": 2.0}


@pytest.fixture
def terminal(monkeypatch):
    """stdout is one."""
    monkeypatch.setattr("synthscore.cli.score.is_terminal", lambda: True)


def write_targets():
    rows = [
        target(context, quality + step / 4, id=f"{context}/{name}", system=name)
        for step, context in enumerate(("c1", "c2", "c3"))
        for name, quality in SYSTEMS.items()
    ]
    write("targets.jsonl", *rows, target("nowhere", 3, id="x", system="poor"))


def test_a_terminal_gets_a_table_of_systems_and_a_pipe_and_a_file_get_the_same_rows(
    engine, references, capsys, monkeypatch
):
    write_targets()
    assert score() == 3
    piped = capsys.readouterr().out
    assert score("-o", "scores.jsonl") == 3
    assert Path("scores.jsonl").read_text() == piped
    capsys.readouterr()
    monkeypatch.setattr("synthscore.cli.score.is_terminal", lambda: True)
    assert score() == 3
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0].split() == ["attribute", "system", "mean", "95", "%", "interval", "scored", "unscored"]
    for line, name in zip(lines[1:3], SYSTEMS, strict=True):
        own = [row for row in parse(piped) if row["id"].endswith(name)]
        found = mean_over_contexts(np.array([row["score"] for row in own]), [row["context_id"] for row in own])
        assert line.split()[:3] == ["coherence", name, f"{found.value:.2f}"]
        assert f"{found.low:.2f} to {found.high:.2f}" in line
    assert [line.split()[-2:] for line in lines[1:3]] == [["3", "0"], ["3", "1"]]
    assert "-o scores.jsonl" in lines[-1]
    assert max(map(len, lines)) <= 80
    shown(err, "6 of 7 targets x 5 rungs = 30 questions; 6 scored, 1 unscored")


def test_a_row_that_is_unscored_before_it_is_read_counts_in_the_table(engine, references, capsys, terminal):
    write("targets.jsonl", target("c1", 3), {"context_id": "c1", "text": ""})
    assert score() == 3
    assert re.search(r"coherence +- +3\.\d\d +- +1 +1", capsys.readouterr().out)


@pytest.mark.parametrize("options", [["-o", "-"], ["--verdicts"], ["--to", "otel"]])
def test_whoever_asks_for_rows_gets_rows_on_a_terminal_too(engine, references, capsys, terminal, options):
    write("targets.jsonl", target("c1", 3))
    assert score(*options) == 0
    assert len(parse(capsys.readouterr().out)) == 1


def test_where_nothing_can_be_asked_all_targets_are_counted(engine, references, capsys):
    write("targets.jsonl", *(target("nowhere", 3, id=str(i)) for i in range(30)))
    assert score() == 1
    shown(capsys.readouterr().err, "0 of 30 targets, 0 attributes: 0 questions; 0 scored, 30 unscored")


# ------------------------------------------------------------------------------------------------- progress, lines


def test_progress_counts_rows_of_each_call_as_its_questions_are_answered():
    done = []
    rows = _RowProgress(done.append)
    rows.begin(10, 4)
    rows.add(5)
    assert sum(done) == 2
    rows.add(3)
    assert sum(done) == 3
    rows.begin(0, 3)  # nothing is asked about these
    assert sum(done) == 4
    rows.begin(6, 6)
    assert sum(done) == 7
    rows.add(12)  # no more rows than there are
    assert sum(done) == 13


def test_the_bar_of_many_rows_ends_at_all_of_them(engine, references, monkeypatch):
    n = BATCH + 20
    write("targets.jsonl", *(target("c1", i / 500, id=str(i)) for i in range(n)))
    bars = []

    def bar(self, total, unit):
        bars.append([total, unit, 0])

        class Shown:
            def __enter__(self):
                return lambda n: bars[-1].__setitem__(2, bars[-1][2] + n)

            def __exit__(self, *error):
                pass

        return Shown()

    monkeypatch.setattr(Messages, "bar", bar)
    assert score("-o", "o.jsonl", "--store", "none") == 0
    assert bars == [[None, "rows", n]]
    bars.clear()
    write("targets.jsonl", *(target("c1", i, id=str(i)) for i in range(3)))
    assert score("-o", "o.jsonl", "--store", "none") == 0
    assert bars == [[3, "rows", 3]]


def test_a_line_on_a_terminal_is_broken_between_words_and_above_the_bar(monkeypatch):
    err = io.StringIO()
    err.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.setenv("COLUMNS", "40")
    messages = Messages()
    with messages.bar(10, "rows"):
        messages.note("7 864 questions, of which 7 864 are to be asked: about 2 771 049 tokens")
    shown = err.getvalue()
    assert "  0%|" in shown
    lines = [line for line in re.split(r"[\r\n]", shown) if "questions" in line or "tokens" in line]
    assert all("%|" not in line for line in lines)  # not glued to the bar
    assert [line.replace("\N{NO-BREAK SPACE}", " ").strip() for line in lines] == [
        "7 864 questions, of which 7 864 are to", "be asked: about 2 771 049 tokens",
    ]  # fmt: skip


def test_a_broken_line_keeps_its_indent_and_its_numbers():
    assert broken("  3 x " + "word " * 10, 30).splitlines()[1].startswith("  word")
    assert broken("a 12 000 b", 7) == "a\n12\N{NO-BREAK SPACE}000\nb"
    assert broken("", 80) == ""


def test_a_long_signature_is_one_short_line_and_whole_where_that_is_asked(engine, references, capsys):
    write("targets.jsonl", target("c1", 3))
    assert score("-o", "o.jsonl") == 0
    signature = read("o.jsonl")[0]["signature"]
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == short_signature(signature)
    assert len(last) < 60
    assert score("-o", "o.jsonl", "-v", "--log-file", "log") == 0
    assert signature in capsys.readouterr().err
    assert signature in Path("log").read_text()
    assert short_signature("references:0123") == "references:0123"
    assert short_signature(signature) != short_signature(f"{signature}x")


# ------------------------------------------------------------------------------------------------- messages


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(engine, references, capsys):
    write("targets.jsonl", target("c1", 3))
    for name in ("consistancy", "Coherence", "coherance"):
        assert score("-a", name) == 1
        assert ("Did you mean 'coherence'?" in capsys.readouterr().err) == (name != "consistancy")
    assert score("--task", "Summarization") == 1
    shown(capsys.readouterr().err, "no task 'Summarization'", "Did you mean 'summarization'?")
    write("rows.jsonl", {"context_id": "c1", "summary": "A text of quality 3."})
    assert score("--field", "text=sumary", targets="rows.jsonl") == 1
    shown(capsys.readouterr().err, "there is no 'sumary'", "Did you mean 'summary'?")
    assert did_you_mean("banana", ["coherence"]) == ""


def test_a_field_that_is_named_twice_is_refused(engine, references, capsys):
    write("targets.jsonl", target("c1", 3, system="a"))
    assert score("--field", "text=text", "--field", "text=system") == 2
    assert "--field text is given twice, as text and system" in capsys.readouterr().err


def test_excerpts_show_where_two_texts_part(engine, references, capsys):
    start = "The car ferry Marrin Star lost power on Tuesday evening, "
    one, other = where_they_part(f"{start}two kilometres off.", f"{start}and then it sank.")
    assert ("two kilometres" in one, "and then it sank" in other) == (True, True)
    assert one != other
    assert where_they_part("short", "short and more") == ("short", "short and more")
    article = "Article 1. It has a second sentence, and that was cut"
    write("targets.jsonl", target("c1", 3, context=article))
    assert score("-o", "o.jsonl") == 1
    reason = read("o.jsonl")[0]["reason"]
    assert "where they part" in reason
    assert "is about" in reason
    assert "was cut" in reason


def test_what_is_filled_with_something_else_is_not_to_be_filled(engine, references, capsys):
    write("targets.jsonl", {"context_id": "c1", "text": 1}, {"context_id": "c1", "text": ""})
    assert score("-o", "o.jsonl") == 1
    number, empty = (row["reason"] for row in read("o.jsonl"))
    assert "say which column holds it" in number
    assert "Fill it" not in number
    assert "Fill it" in empty


def test_doctor_refuses_a_folder_to_write_to_before_anything_is_asked(engine, folder, capsys):
    (folder / "out").mkdir()
    assert main(["doctor", "-o", "out"]) == 2
    assert "--output is 'out', a folder" in capsys.readouterr().err
    assert engine.n_judged == 0


def test_the_table_of_a_wide_run_stays_within_80_columns(engine, references, capsys, terminal):
    write("targets.jsonl", target("c1", 3, system="a system with a name that is rather long " * 3))
    assert score() == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
