"""Options that verbs share."""

import pytest

from synthscore.cli.app import main
from synthscore.cli.options import ROWS_FILES
from synthscore.io.write import write_rows


def test_rows_files_are_those_that_rows_can_be_written_to(folder):
    for suffix in ROWS_FILES:
        assert write_rows([{"a": "b"}], folder / f"x{suffix}") == 1


@pytest.mark.parametrize(
    "verb", ["score", "filter", "rank", "compare", "doctor", "references check", "references repair"]
)
def test_what_a_server_may_leave_unreported_is_an_option_of_every_verb_that_asks_a_judge(verb, capsys):
    main([*verb.split(), "--help"])
    assert "--max-unreported" in capsys.readouterr().out
