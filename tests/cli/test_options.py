"""Options that verbs share."""

import pytest

from synthscore.cli.app import main
from tests.cli.given import shown


@pytest.mark.parametrize("name", ["scores.xlsx", "scores", "scores.gz"])
def test_a_file_that_no_rows_can_be_written_to_is_refused_before_anything_is_read(folder, capsys, name):
    assert main(["score", "missing.jsonl", "--references", "missing", "-o", name]) == 2
    shown(capsys.readouterr().err, f"cannot write {name}", ".jsonl, .jsonl.gz, .csv, .tsv or .parquet")


@pytest.mark.parametrize(
    "verb", ["score", "filter", "rank", "compare", "doctor", "references check", "references repair"]
)
def test_what_a_server_may_leave_unreported_is_an_option_of_every_verb_that_asks_a_judge(verb, capsys):
    main([*verb.split(), "--help"])
    assert "--max-unreported" in capsys.readouterr().out
