"""Files of rows, changed: each reader gives or refuses every row, and raises nothing outside the error tree."""

import csv
import gzip
import io
import itertools
import json
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import synthscore as ss
from synthscore.errors import InputError
from synthscore.evaluation.join import join
from synthscore.evaluation.ratings import Ratings
from synthscore.io.contexts import read_contexts
from synthscore.io.files import list_items, read_rows
from synthscore.io.scores import Scores
from synthscore.io.write import write_rows
from synthscore.ladders.handwritten import read_ladders
from synthscore.ranking.judge import compare
from synthscore.ranking.sets import ComparisonSets
from synthscore.report.read import read_run
from synthscore.thresholds.labels import Labelled
from tests import factories
from tests.fakes import FakeEngine

from .changes import as_json, changed_bytes, changed_values, count_lines, refused, settled

SIGNATURE = "synthscore:0.1|model:m|task:summarization|attribute:coherence"
CHAT = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": [{"type": "text", "text": "So."}]}]
SCORE = {
    "context_id": "c1",
    "attribute": "coherence",
    "score": 3.5,
    "stderr": 0.5,
    "low": 3.0,
    "high": 4.0,
    "n_comparisons": 5,
    "status": "ok",
    "reason": "",
    "label_mass": 0.9,
    "signature": SIGNATURE,
}
VERDICTS = [[1, 0, 0.7, 0.2, 0.1], [2, 1, 0.5, 0.25, 0.25]]
ROWS = {
    "targets": [
        {"id": "a", "context_id": "c1", "text": "text of q=2 .", "system": "s", "context": "Article c1."},
        {"id": "b", "article": "Article c1.", "summary": "text of q=4 .", "attribute": "coherence"},
        {"id": "c", "messages": CHAT, "task": "summarization"},
        {"id": 4, "context_id": "c1", "text": "text of q=3 .", "note": [1, {"deep": [None]}]},
    ],
    "contexts": [
        {"context_id": "c1", "context": "An article.", "facts": "", "references": ["One.", "Two."]},
        {"id": "c2", "text": "Another.", "references": '["Three."]'},
    ],
    "ratings": [
        {
            "id": "a",
            "context_id": "c1",
            "system": "s",
            "text": "A.",
            "context": "C.",
            "human": {"coherence": 3},
            "human_raw": {"coherence": [2, 4]},
            "references": ["R."],
        },
        {"id": "b", "context_id": "c1", "text": "B.", "human.coherence": 2.5, "human_raw": '{"coherence": [2, 3]}'},
    ],
    "scores": [
        {"id": "a", **SCORE, "verdicts": VERDICTS, "label": True, "human": 4, "method": "ladder", "system": "s"},
        {"id": "b", **SCORE, "verdicts": json.dumps(VERDICTS), "label": 0, "human": 1},
        {"id": "c", **SCORE, "score": None, "status": "unscored", "reason": "empty", "label": "true"},
    ],
    "comparisons": [
        {"first": "a", "second": "b", "probability": 0.7, "context_id": "c1", "weight": 1, "signature": SIGNATURE},
        {
            "first": "b",
            "second": "c",
            "log_p_first": -0.1,
            "log_p_second": -3.0,
            "log_p_tie": "-inf",
            "context_id": "c1",
        },
        {"first": "a", "second": "c", "winner": "tie", "context_id": "c1"},
        {"first": "a", "second": "c", "outcome": 0.5, "context_id": "c1"},
    ],
    "ladders": [
        {"context_id": "c1", "context": "C.", "task": "summarization", "attribute": "coherence", "rungs": ["a", "b"]},
        {
            "context_id": "c2",
            "context": "D.",
            "task": "summarization",
            "attribute": "coherence",
            "rung_1": "a",
            "rung_2": "b",
        },
        {
            "context_id": "c3",
            "context": "E.",
            "task": "summarization",
            "attribute": "coherence",
            "level": 1,
            "text": "a",
        },
    ],
}
READERS = {
    "targets": lambda path: len(list_items(path)),
    "candidates": lambda path: compare(path, FakeEngine(), task="summarization", attribute="coherence"),
    "contexts": lambda path: read_contexts(path),
    "ratings": lambda path: Ratings.load(path, attribute="coherence"),
    "joined": lambda path: join(factories.rated(), str(path)),
    "scores": lambda path: Scores.load(path),
    "labels": lambda path: Labelled.load(path),
    "labels by people": lambda path: Labelled.load(path, good_from=3),
    "comparisons": lambda path: ComparisonSets.load(path),
    "ladders": lambda path: read_ladders(path),
    "report": lambda path: read_run(path),
}
FORMATS = (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".jsonl.gz")


def written(rows, suffix: str) -> bytes:
    """As somebody else may write them: NaN, half surrogate pairs and columns of several types where a format can."""
    if suffix == ".json":
        return as_json(rows)
    if suffix.startswith(".jsonl"):
        lines = b"\n".join(map(as_json, rows))
        return gzip.compress(lines, 1) if suffix.endswith("gz") else lines
    columns = list(dict.fromkeys(name for row in rows for name in row))
    if suffix == ".parquet":
        found = {}
        for name in columns:
            values = [row.get(name) for row in rows]
            try:
                found[ascii(name)[1:-1]] = pa.array(values)
                pq.write_table(pa.table({"x": pa.array(values)}), io.BytesIO())
            except (pa.ArrowException, OverflowError, UnicodeEncodeError):
                found[ascii(name)[1:-1]] = pa.array([ascii(value) for value in values])
        file = io.BytesIO()
        pq.write_table(pa.table(found), file)
        return file.getvalue()
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t" if suffix == ".tsv" else ",")
    cells = [
        [json.dumps(row[name]) if isinstance(row.get(name), list | dict) else row.get(name) for name in columns]
        for row in rows
    ]
    writer.writerows([columns, *cells])
    return text.getvalue().encode(errors="replace")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("rows")


@pytest.mark.parametrize("reader", READERS)
@settled(40)
@given(data=st.data())
def test_a_reader_of_changed_values_gives_its_rows_or_says_why_not(reader, data, folder):
    kind = {"labels by people": "scores", "labels": "scores", "candidates": "targets", "joined": "scores"}.get(reader)
    kind = (
        kind or data.draw(st.sampled_from(["scores", "ratings", "targets"])) if reader == "report" else kind or reader
    )
    rows = [row for row in data.draw(changed_values(ROWS[kind])) if isinstance(row, dict)]
    path = folder / f"rows{data.draw(st.sampled_from(FORMATS))}"
    path.write_bytes(written(rows, "".join(path.suffixes)))
    with refused():
        READERS[reader](path)


@settled(150)
@given(data=st.data())
def test_every_row_of_a_changed_file_is_read_or_refused_and_none_is_made_up(data, folder):
    rows = ROWS[data.draw(st.sampled_from(sorted(ROWS)))]
    path = folder / f"file{data.draw(st.sampled_from(FORMATS))}"
    changed = data.draw(changed_bytes(written(rows, "".join(path.suffixes))))
    path.write_bytes(changed)
    with refused():
        found = list(read_rows(path))
        items = list_items(path)
        assert len(items) == len(found)
        if path.suffix == ".jsonl":
            assert len(found) == count_lines(changed)
        if path.suffix == ".parquet":
            assert len(found) == pq.read_metadata(path).num_rows


@settled(100)
@given(
    rows=changed_values(ROWS["targets"] * 3),
    suffix=st.sampled_from(FORMATS),
    out=st.sampled_from(FORMATS[:1] + FORMATS[2:]),
)
def test_filter_puts_every_row_into_one_of_its_files(rows, suffix, out, folder):
    path = folder / f"all{suffix}"
    path.write_bytes(
        written(rows if suffix.startswith(".json") else [row for row in rows if isinstance(row, dict)], suffix)
    )
    outputs = {name: folder / f"{name}{out}" for name in ("kept", "dropped", "unsure")}
    for output in outputs.values():
        output.unlink(missing_ok=True)
    with refused():
        n_rows = len(list(read_rows(path)))
        found = ss.filter(path, factories.references(factories.ladder()), FakeEngine(), 3.0, **outputs)
        assert found.n_rows == n_rows == sum(len(list(read_rows(output))) for output in outputs.values())


@settled(60)
@given(rows=changed_values(ROWS["scores"]), suffix=st.sampled_from(FORMATS[:1] + FORMATS[2:]))
def test_whatever_is_read_can_be_written_or_is_refused(rows, suffix, folder):
    source, copy = folder / "source.json", folder / f"copy{suffix}"
    source.write_bytes(as_json(rows))
    with refused():
        found = [row.values for row in read_rows(source) if not isinstance(row, InputError)]
        assert write_rows(found, copy) == len(found)
        assert len(list(read_rows(copy))) == len(found) or not any(found)


@settled(40)
@given(lines=changed_bytes(written(ROWS["targets"], ".jsonl")))
def test_every_line_of_stdin_is_read_or_refused(lines):
    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(lines))
    try:
        with refused():
            assert len(list_items("-")) == count_lines(lines)
    finally:
        sys.stdin = before


@settled(40)
@given(
    names=st.dictionaries(
        st.sampled_from(["text", "context_id", "id", "context", "\ud800"]),
        st.sampled_from(["summary", "id", "text", "x", ""]),
    )
)
def test_columns_under_any_names_cost_no_row(names, folder):
    for suffix in FORMATS:
        path = folder / f"named{suffix}"
        path.write_bytes(written(ROWS["targets"], suffix))
        with refused():
            assert len(list(itertools.chain(read_rows(path, fields=names)))) == len(ROWS["targets"])
