"""Options that verbs share."""

import pytest

from synthscore.cli.app import main
from tests.cli.given import shown


@pytest.mark.parametrize("name", ["scores.xlsx", "scores", "scores.gz"])
def test_a_file_that_no_rows_can_be_written_to_is_refused_before_anything_is_read(folder, capsys, name):
    assert main(["score", "missing.jsonl", "--references", "missing", "-o", name]) == 2
    shown(capsys.readouterr().err, f"cannot write {name}", ".jsonl, .jsonl.gz, .csv, .tsv or .parquet")
