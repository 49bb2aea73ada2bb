"""One way from a row to its score: whichever door a row comes in by, it gets the same id, status, reason and value.

Rows x doors. A door that has no place for something (a mount gets one text without a file, `evaluate` joins rows by
their id) is given the rows that it can be given.
"""

import asyncio
import json
import re

import pandas
import pytest

import synthscore as ss
import synthscore.integrations.mount as mount
from synthscore import engines
from synthscore.cli.app import main
from synthscore.integrations.batches import ScoreBatch
from synthscore.integrations.mount import Mount, row_of
from synthscore.integrations.trl import Reward
from tests.factories import ladder, references
from tests.fakes import FakeEngine
from tests.scoring.test_scorer import soft_judge

pytestmark = pytest.mark.filterwarnings("ignore:the ladders have")

TEXT = "text of q=3 ."
ROWS = {
    "good": {"context_id": "c1", "context": "Article c1.", "text": TEXT},
    "no context": {"context_id": "c1", "text": TEXT},
    "another context's text": {"context_id": "c1", "context": "Another article altogether.", "text": TEXT},
    "context in other spaces": {"context_id": "c1", "context": " Article\t c1.\n", "text": TEXT},
    "context without an id": {"context": "Article  c2.", "text": TEXT},
    "id that no ladder has": {"context_id": "elsewhere", "context": "Article c2.", "text": TEXT},
    "no ladder at all": {"context_id": "elsewhere", "text": TEXT},
    "no ladder for this text": {"context": "An article without a ladder.", "text": TEXT},
    "an attribute without ladders": {"context_id": "c1", "attribute": "fluency", "text": TEXT},
    "a task without ladders": {"context_id": "c1", "task": "story", "text": TEXT},
    "text is null": {"context_id": "c1", "text": None},
    "text is NaN": {"context_id": "c1", "text": float("nan")},
    "text is a number": {"context_id": "c1", "text": 7},
    "text is an object": {"context_id": "c1", "text": {"a": "b"}},
    "text is empty": {"context_id": "c1", "text": ""},
    "text is invisible": {"context_id": "c1", "text": "\u200b \ufeff"},
    "context is a number": {"context": 7, "text": TEXT},
    "no such columns": {"words": "a"},
}
EXPECTED = {
    "good": "",
    "no context": "",
    "another context's text": "the ladder of context 'c1' was made for another text of that id",
    "context in other spaces": "",
    "context without an id": "",
    "id that no ladder has": "",
    "no ladder at all": "there is no ladder summarization/elsewhere/coherence",
    "no ladder for this text": "there is no ladder summarization/coherence for the context 'An article without",
    "an attribute without ladders": "the row's attribute is 'fluency', and there are only ladders for coherence",
    "a task without ladders": "the row's task is 'story', and there are only ladders of summarization",
    "text is null": "text is None, expected a text that is not empty",
    "text is NaN": "text is None, expected a text that is not empty",
    "text is a number": "text is 7, expected a text. Write the text there",
    "text is an object": "text is {'a': 'b'}, expected a text. Write the text there",
    "text is empty": "text is '', expected a text that is not empty",
    "text is invisible": "text is '\\u200b \\ufeff', expected a text that is not empty",
    "context is a number": "context is 7, expected a text. Write the text there",
    "no such columns": "there is no 'context_id', but",
}
SCORED = {name for name, reason in EXPECTED.items() if not reason}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("one_way")
    references(ladder("c1"), ladder("c2")).save(path / "ladders")
    return path


@pytest.fixture
def door(folder, monkeypatch):
    engine = FakeEngine(soft_judge)
    monkeypatch.setattr(engines, "open_engine", lambda name, **options: engine)
    monkeypatch.setattr(mount, "_LOADED", {})
    monkeypatch.chdir(folder)
    return folder


def rows_of(names, **more):
    return [{"id": name, **ROWS[name], **more} for name in names]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def said(status, reason, value):
    """Without what names the file and the row, which differ from door to door."""
    plain = re.sub(r"^row \d+: ", "", reason or "")
    return status, plain, None if value is None else round(value, 9)


def of_scores(scores):
    return {score.id: said(score.status, score.reason, score.value) for score in scores}


# ------------------------------------------------------------------------------------------------- doors


def by_score(rows):
    main(["score", write(_path("rows.jsonl"), rows), "--references", "ladders", "-o", "scores.jsonl", "--quiet"])
    found = [json.loads(line) for line in _path("scores.jsonl").read_text().splitlines()]
    return {row["id"]: said(row["status"], row["reason"], row["score"]) for row in found}


def by_filter(rows):
    argv = ["filter", write(_path("rows.jsonl"), rows), "--references", "ladders", "--min-score", "5.4", "--quiet"]
    main([*argv, "-o", "kept.jsonl", "--dropped", "dropped.jsonl"])
    assert not _path("kept.jsonl").read_text()  # nothing is that good, so that all rows say what they score
    found = [json.loads(line) for line in _path("dropped.jsonl").read_text().splitlines()]
    return {
        row["id"]: said(row["synthscore"]["status"], row["synthscore"]["reason"], row["synthscore"]["score"])
        for row in found
    }


def by_filter_in_python(rows):
    sorted_rows = ss.filter(rows, "ladders", "judge", 5.4)
    return {
        row["id"]: said(row["synthscore"]["status"], row["synthscore"]["reason"], row["synthscore"]["score"])
        for row in [*sorted_rows.dropped, *sorted_rows.unsure]
    }


def by_file(rows):
    return of_scores(ss.Scorer("ladders", "judge").score(write(_path("rows.jsonl"), rows)))


def by_mappings(rows):
    return of_scores(ss.Scorer("ladders", "judge").score(rows))


def by_data_frame(rows):
    return of_scores(ss.Scorer("ladders", "judge").score(pandas.DataFrame(rows)))


def by_score_one(rows):
    scorer = ss.Scorer("ladders", "judge")

    async def every():
        return await asyncio.gather(*map(scorer.score_one, rows))

    return of_scores(asyncio.run(every()))


def by_mount(rows):
    return of_scores(Mount(references="ladders", model="judge").scores(rows))


def by_batch(rows):
    columns = {name: [row.get(name) for row in rows] for name in ("text", "context_id", "context")}
    done = ScoreBatch(references="ladders", model="judge")(columns)
    results = zip(done["synthscore_status"], done["synthscore_reason"], done["synthscore"], strict=True)
    return {row["id"]: said(*result) for row, result in zip(rows, results, strict=True)}


def by_row_of(rows):
    """As datatrove, MLflow and pytest make rows of what they have."""
    made = [
        row_of(row["id"], row.get("text"), context_id=row.get("context_id"), context=row.get("context")) for row in rows
    ]
    return of_scores(Mount(references="ladders", model="judge").scores(made))


def by_evaluate(rows):
    found = {}
    for row in rows:
        beside = {
            "id": "beside",
            **ROWS["good"],
            "context_id": "c2",
            "context": "Article c2.",
        }  # a method that can score no text at all fails as a whole
        rated = [{**each, "human": 3, "attribute": "coherence"} for each in (row, beside)]
        ratings = write(_path("ratings.jsonl"), rated)
        argv = ["evaluate", "--human", ratings, "--task", "summarization", "--methods", "ladder", "-o", "evaluated"]
        main([*argv, "--references", "ladders", "--quiet"])
        file = _path("evaluated") / "scores" / "ladder.jsonl"
        found |= {
            one["id"]: said(one["status"], one["reason"], one["score"])
            for one in map(json.loads, file.read_text().splitlines())
            if one["id"] != "beside"
        }
        file.unlink()
    return found


def _path(name):
    from pathlib import Path

    return Path.cwd() / name


FILES = [by_score, by_filter, by_file]
PYTHON = [by_filter_in_python, by_mappings, by_data_frame, by_score_one, by_mount]
COLUMNS = [by_batch, by_row_of]
"""Doors of tools that have a text, a context and its id, and no other columns."""

WITHOUT_COLUMNS = {"no such columns"}
OF_ATTRIBUTES = {"an attribute without ladders", "a task without ladders"}
NOT_RATED = WITHOUT_COLUMNS | OF_ATTRIBUTES | {"context is a number"}
"""Rows that `evaluate` leaves out and counts: a rating is of a text of a context, on its own attribute."""


@pytest.mark.parametrize("open_door", [*FILES, *PYTHON, *COLUMNS, by_evaluate], ids=lambda door: door.__name__)
def test_a_row_has_the_same_id_status_reason_and_value_whichever_door_it_comes_in_by(door, open_door):
    names = set(ROWS)
    if open_door in COLUMNS:
        names -= WITHOUT_COLUMNS | OF_ATTRIBUTES
    if open_door is by_data_frame:  # has every column in every row
        names -= WITHOUT_COLUMNS
    if open_door is by_evaluate:
        names -= NOT_RATED | {"context without an id", "no ladder for this text"}
    if open_door is by_score_one:  # each row is the first of its call
        names -= {"context is a number", *WITHOUT_COLUMNS}
    names = [name for name in ROWS if name in names]
    value = by_mappings(rows_of(["good"]))["good"][2]
    assert value == pytest.approx(3, abs=1)
    results = open_door(rows_of(names))
    for name in names:
        key = name if name in results else f"row {names.index(name) + 1}"  # a row whose context cannot be read
        status, reason, score = results.pop(key)
        if name in SCORED:
            assert (status, reason, score) == ("ok", "", value), name
        else:
            assert (status, score) == ("unscored", None), name
            assert reason.startswith(EXPECTED[name]), (name, reason)
    assert not results


@pytest.mark.parametrize("open_door", [*FILES, *PYTHON[:3], by_mount, by_row_of], ids=lambda door: door.__name__)
def test_the_second_row_of_an_id_is_unscored_whichever_door_it_comes_in_by(door, open_door):
    rows = rows_of(["good", "no context"])
    rows[1]["id"] = "good"
    results = _in_order(open_door, rows)
    assert [status for status, _, _ in results] == ["ok", "unscored"]
    assert results[1][1].startswith("target id 'good' was already used by row 1")


def _in_order(open_door, rows):
    """A dict by id would lose one of the two: the results as a list, by a spy on how they are put together."""
    results = []

    class Spy(dict):
        def __init__(self, pairs):
            results.extend(value for _, value in pairs)

    made = open_door.__globals__["said"]

    def spy(*args):
        results.append(made(*args))
        return results[-1]

    open_door.__globals__["said"] = spy
    try:
        open_door(rows)
    finally:
        open_door.__globals__["said"] = made
    return results


def test_a_line_that_cannot_be_read_is_unscored_in_every_file(door):
    path = door / "rows.jsonl"
    good = json.dumps({"id": "good", **ROWS["good"]})
    path.write_bytes(good.encode() + b'\n{"id": "broken\n' + b'{"id": "bytes", "text": "\xff"}\n[1]\n')
    scores = list(ss.Scorer("ladders", "judge").score(str(path)))
    assert [(score.id, score.status) for score in scores] == [
        ("good", "ok"), ("row 2", "unscored"), ("row 3", "unscored"), ("row 4", "unscored"),
    ]  # fmt: skip
    main(["score", str(path), "--references", "ladders", "-o", "scores.jsonl", "--quiet"])
    rows = [json.loads(line) for line in (door / "scores.jsonl").read_text().splitlines()]
    assert [(row["id"], row["status"], row["reason"]) for row in rows] == [
        (score.id, score.status, score.reason) for score in scores
    ]
    argv = ["filter", str(path), "--references", "ladders", "--min-score", "1", "--quiet"]
    main([*argv, "-o", "kept.jsonl", "--dropped", "dropped.jsonl"])
    assert len((door / "kept.jsonl").read_text().splitlines()) == 1
    dropped = [json.loads(line)["synthscore"] for line in (door / "dropped.jsonl").read_text().splitlines()]
    assert [row["reason"] for row in dropped] == [score.reason for score in scores[1:]]


def test_a_reward_of_nothing_said_is_the_least_and_of_another_context_none(door):
    rewards = Reward(references="ladders", model="judge")(
        prompts=["a prompt"] * 3, completions=[TEXT, "", TEXT], context_id=["c1", "c1", "elsewhere"]
    )
    assert rewards[0] == pytest.approx(3, abs=1)
    assert rewards[1:] == [0.0, None]


def test_compare_reads_texts_by_the_same_rules(door):
    names = ["good", "another context's text", "text is null", "text is a number", "no such columns"]
    sets = ss.compare(
        [*rows_of(names), {**ROWS["good"], "id": "better"}, {**ROWS["good"], "id": "good"}],
        "judge",
        task="summarization",
        attribute="coherence",
    )
    reasons = {out.names["id"]: re.sub(r"^rows row \d+: ", "", out.reason) for out in sets.left_out}
    assert reasons["text is null"].startswith(EXPECTED["text is null"])
    assert reasons["text is a number"].startswith(EXPECTED["text is a number"])
    assert reasons["row 5"].startswith(EXPECTED["no such columns"])
    assert reasons["another context's text"].startswith("context 'c1' has another text in an earlier row")
    assert reasons["good"].startswith("target id 'good' was already used by row 1")
