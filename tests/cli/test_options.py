"""Options that verbs share."""

from synthscore.cli.options import ROWS_FILES
from synthscore.io.write import write_rows


def test_rows_files_are_those_that_rows_can_be_written_to(folder):
    for suffix in ROWS_FILES:
        assert write_rows([{"a": "b"}], folder / f"x{suffix}") == 1
