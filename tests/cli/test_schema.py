"""`synthscore schema`: real rows of every kind are as their schema says, and have no column that it does not name."""

import json

import jsonschema
import pytest

from synthscore.cli.app import main
from synthscore.cli.schema import row_schema
from synthscore.ladders.release import source_rows
from synthscore.resources import resource
from tests.cli.given import CONTEXTS, parse, read, score, target, write

KINDS = ("target", "context", "score", "ranking", "comparison", "ladder")


def check(kind, rows):
    assert rows
    known = row_schema(kind)
    jsonschema.Draft202012Validator.check_schema(known)
    for row in rows:
        jsonschema.validate(row, known)
        assert row.keys() <= known["properties"].keys()


@pytest.mark.parametrize("kind", KINDS)
def test_a_schema_is_printed_for_every_kind(kind, capsys):
    assert main(["schema", kind]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == kind


@pytest.mark.parametrize("options", [[], ["--verdicts"], ["--scoring", "anchored"], ["--samples", "3"]])
def test_scores_are_as_their_schema_says(engine, references, options):
    write("targets.jsonl", *(target(c, q) for c in CONTEXTS for q in (1.2, 3.4, 4.9)), {"text": "no context"})
    assert score(*options, "-o", "scores.jsonl") == 3
    rows = read("scores.jsonl")
    assert {row["status"] for row in rows} == {"ok", "unscored"}
    check("score", rows)


def test_comparisons_and_rankings_are_as_their_schemas_say(engine, references):
    rows = [target(c, q, system=f"s{q}", context=text) for c, text in CONTEXTS.items() for q in (1, 2, 4)]
    write("candidates.jsonl", *rows, target("c1", 7, system="alone", context="Another text."))
    main(["compare", "candidates.jsonl", "--task", "summarization", "-a", "coherence", "-o", "comparisons.jsonl"])
    main(["rank", "--comparisons", "comparisons.jsonl", "-o", "ranking.jsonl"])
    check("comparison", read("comparisons.jsonl"))
    check("ranking", read("ranking.jsonl"))


def test_ladders_and_what_is_read_are_as_their_schemas_say(references):
    check("ladder", source_rows("ladders", None))
    check("ladder", source_rows(resource("data/references/degraded"), None)[:20])
    check("target", parse((resource("data/demo") / "targets.jsonl").read_text(encoding="utf-8")))
    contexts = parse((resource("data/demo") / "story.jsonl").read_text(encoding="utf-8"))
    check("context", [{name: row[name] for name in row if name != "task"} for row in contexts])


def test_a_row_that_says_something_else_is_refused():
    row = {"id": "a", "context_id": "c", "attribute": "x", "score": "3", "status": "ok"}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(row, row_schema("score"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"text": "of what?"}, row_schema("target"))
