"""Where nobody named a model, nano judges, and one line on stderr says what it cannot do."""

import pytest

from synthscore.cli.app import main
from synthscore.cli.options import NANO_JUDGES
from tests.cli.given import CONTEXTS, target, write

SCORE = ["score", "targets.jsonl", "--references", "ladders", "-o", "scores.jsonl"]


@pytest.fixture(autouse=True)
def rows(references):
    write("targets.jsonl", target("c1", 3.5), target("c2", 2.5))
    write("candidates.jsonl", *(target("c1", quality, context=CONTEXTS["c1"]) for quality in (1, 2, 3)))


@pytest.mark.parametrize(
    "argv",
    [
        SCORE,
        ["filter", "targets.jsonl", "--references", "ladders", "--min-score", "3", "-o", "kept.jsonl"],
        ["compare", "candidates.jsonl", "--task", "summarization", "-a", "coherence", "-o", "calls.jsonl"],
        ["rank", "candidates.jsonl", "--task", "summarization", "-a", "coherence", "-o", "order.jsonl"],
        ["references", "check", "ladders"],
        ["doctor", "--ladders", "ladders", "--pairs", "2"],
        ["redteam", "--ladders", "ladders", "--limit", "1"],
    ],
    ids=lambda argv: " ".join(argv[:2]) if argv[0] == "references" else argv[0],
)
def test_a_line_says_once_what_nano_cannot_do_where_no_model_is_named(argv, engine, capsys):
    main(argv)
    assert capsys.readouterr().err.count(NANO_JUDGES) == 1
    main([*argv, "--model", "nano"])
    assert NANO_JUDGES not in capsys.readouterr().err


def test_quiet_keeps_the_line_back_and_where_no_judge_is_asked_there_is_none(engine, capsys):
    assert main([*SCORE, "--quiet"]) == 0
    main(["references", "check", "ladders", "--no-judge"])
    assert capsys.readouterr().err.count(NANO_JUDGES) == 0
