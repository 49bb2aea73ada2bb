"""Ladders that a person wrote: every form of them, and what is refused."""

import json

import pytest

from synthscore.errors import InputError, TaskError
from synthscore.ladders.handwritten import read_ladders
from synthscore.ladders.references import References
from synthscore.types import Context

TEXTS = ["Cats.", "The bridge is old.", "The bridge closes for a year."]
WANTED = {"task": "summarization", "attribute": "coherence"}
ARTICLE = "The old bridge closes for a year, since it has cracks."


def rows_of(form):
    if form == "list":
        return [{"article": ARTICLE, "rungs": TEXTS}]
    if form == "columns":
        return [{"context": ARTICLE, **{f"rung_{level}": text for level, text in enumerate(TEXTS, 1)}, "rung_4": ""}]
    if form == "text":
        return [{"context": ARTICLE, "rungs": json.dumps(TEXTS), **WANTED}]
    return [{"context": ARTICLE, "level": str(level), "text": text} for level, text in enumerate(TEXTS, 1)][::-1]


@pytest.mark.parametrize("form", ["list", "columns", "text", "rungs"])
def test_rows_of_every_form_give_the_same_ladder_marked_as_hand_written(form, tmp_path):
    (ladder,), left_out = read_ladders(rows_of(form), **WANTED)
    assert left_out == []
    assert [rung.text for rung in ladder.rungs] == TEXTS
    assert [rung.fraction for rung in ladder.rungs] == [0, 0.5, 1]
    assert {rung.provenance["writer"] for rung in ladder.rungs} == {"person"}
    assert ladder.context.text == ARTICLE
    References((ladder,)).save(tmp_path / "ladders")
    assert References.load(tmp_path / "ladders").ladders == (ladder,)


def test_a_folder_holds_a_folder_for_each_context_and_for_each_attribute(tmp_path):
    for context_id, levels in (("c1", ""), ("c2", "coherence"), ("c2", "fluency")):
        (tmp_path / context_id / levels).mkdir(parents=True, exist_ok=True)
        (tmp_path / context_id / "context.txt").write_text(f"{ARTICLE}\n")
        for level, text in enumerate(TEXTS, 1):
            (tmp_path / context_id / levels / f"{level}.txt").write_text(f"{text}\n")
    (tmp_path / "c1" / "notes.txt").write_text("not a rung")
    (tmp_path / "c1" / "2.txt").write_bytes(b"\xff")
    ladders, left_out = read_ladders(tmp_path, task="summarization")
    assert [(each.context_id, each.attribute, each.rungs[2].text) for each in ladders] == [
        ("c2", "coherence", TEXTS[2]), ("c2", "fluency", TEXTS[2]),
    ]  # fmt: skip
    said = " ".join(map(str, left_out))
    for words in ("notes.txt: expected FOLDER/CONTEXT/1.txt", "2.txt: 'utf-8' codec", "there is no 'attribute'"):
        assert words in said


@pytest.mark.parametrize(
    ("rows", "seen"),
    [
        ([{"context": ARTICLE, "rungs": ["One."]}], "1 rungs, expected at least 2"),
        ([{"context": ARTICLE, "rungs": ["One.", "One."]}], "two rungs are the same text"),
        ([{"context": ARTICLE, "rungs": ["One.", " "]}], "row 1: rung 2 is ' ', expected a text"),
        ([{"context": ARTICLE, "rungs": TEXTS, "writer": "degrade"}], "its writer is 'degrade', so nobody wrote it"),
        ([{"context": ARTICLE, "rungs": "[1,"}], "rungs is no list"),
        ([{"context": ARTICLE, "texts": TEXTS}], "there are no rungs, but 'context', 'texts'. Give them as a list"),
        ([{"context_id": "c9", "rungs": TEXTS}], "lacks its context's text"),
        ([{"context": ARTICLE, "level": 0, "text": "One."}], "level is 0, expected a whole number"),
        ([{"context": ARTICLE, "level": level, "text": f"Of {level}."} for level in (1, 3)], r"levels are \[1, 3\]"),
        ([{"context_id": "c", "context": text, "rungs": TEXTS} for text in ("One.", "Two.")], "already|another text"),
        ([{"context_id": "c", "context": "One.", "rungs": TEXTS}] * 2, "rung 1 of ladder summarization/c/coherence"),
    ],
)  # fmt: skip
def test_what_is_no_ladder_is_left_out_and_named_with_its_row_and_what_to_do(rows, seen):
    ladders, left_out = read_ladders(rows, **WANTED)
    assert len(ladders) == (len(rows) > 1 and rows[0].get("context_id") == "c")
    with pytest.raises(Exception, match=seen):
        raise left_out[0]


def test_a_context_may_come_from_a_file_of_its_own():
    ((ladder,), _) = read_ladders([{"id": "c1", "rungs": TEXTS}], contexts=[Context("c1", ARTICLE)], **WANTED)
    assert ladder.context == Context("c1", ARTICLE)


def test_a_task_that_there_is_not_is_an_error_and_an_attribute_of_a_row_leaves_out_its_ladder():
    with pytest.raises(TaskError, match="sumarization"):
        read_ladders(rows_of("list"), task="sumarization", attribute="coherence")
    with pytest.raises(TaskError, match="no attribute 'wit'"):
        read_ladders(rows_of("list"), task="summarization", attribute="wit")
    _, (error,) = read_ladders([{**rows_of("list")[0], "attribute": "wit"}], task="summarization")
    assert "no attribute 'wit'" in str(error)
    _, (error,) = read_ladders(rows_of("list"), task="summarization")
    assert isinstance(error, InputError)
    assert "there is no 'attribute'" in str(error)
