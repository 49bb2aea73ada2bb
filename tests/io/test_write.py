import csv
import datetime
import io
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.errors import InputError
from synthscore.io.files import read_rows
from synthscore.io.write import json_line, replacing, write_rows

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
ANY_ROWS = st.lists(st.fixed_dictionaries({"id": TEXT.filter(bool), "text": TEXT}), min_size=1, max_size=5)


def jsonl(path, *rows):
    path.write_bytes(b"".join((r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n" for r in rows))
    return path


def good(rows):
    return [row for row in rows if not isinstance(row, InputError)]


@settings(max_examples=60)
@given(rows=ANY_ROWS, suffix=st.sampled_from([".jsonl", ".jsonl.gz", ".csv", ".tsv", ".csv.gz", ".parquet"]))
def test_texts_survive_every_format(tmp_path_factory, rows, suffix):
    path = tmp_path_factory.mktemp("rows") / f"rows{suffix}"
    assert write_rows(rows, path) == len(rows)
    back = list(read_rows(path))
    assert [row.values for row in back] == rows
    if suffix not in (".jsonl", ".jsonl.gz"):
        assert [row.number for row in back] == list(range(1, len(rows) + 1))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_keep_full_precision_in_jsonl_and_csv(tmp_path_factory, value):
    for suffix in (".jsonl", ".csv"):
        path = tmp_path_factory.getbasetemp() / f"floats{suffix}"
        write_rows([{"score": value}], path)
        assert float(next(iter(read_rows(path))).values["score"]) == value


def test_what_json_does_not_have_becomes_null_and_the_rest_stays(tmp_path):
    rows = [{"a": float("nan"), "b": float("inf"), "c": np.float32(0.5), "d": {"e": [np.nan, np.int64(3)]}, "f": True}]
    write_rows(rows, tmp_path / "a.jsonl")
    assert json.loads((tmp_path / "a.jsonl").read_text()) == {
        "a": None, "b": None, "c": 0.5, "d": {"e": [None, 3]}, "f": True,
    }  # fmt: skip


def test_jsonl_is_readable_by_people_and_half_a_surrogate_pair_is_written_as_its_escape(tmp_path):
    write_rows([{"text": "naïve 日本"}, {"text": "\ud800"}], tmp_path / "a.jsonl")
    assert "naïve 日本" in (tmp_path / "a.jsonl").read_text(encoding="utf-8")
    assert good(read_rows(tmp_path / "a.jsonl"))[1].values == {"text": "\ud800"}


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_rows_with_different_columns_get_the_union_of_columns(tmp_path, suffix):
    write_rows([{"a": "1"}, {"a": "2", "b": "x"}], tmp_path / f"a{suffix}")
    assert [row.values["b"] for row in good(read_rows(tmp_path / f"a{suffix}"))] in (["", "x"], [None, "x"])


def test_csv_output_is_read_by_the_standard_reader(tmp_path):
    write_rows([{"a": 'say "hi",\r\nthen', "b": None, "c": [1, "é"], "d": True}], tmp_path / "a.csv")
    (row,) = csv.DictReader(io.StringIO((tmp_path / "a.csv").read_bytes().decode(), newline=""))
    assert row == {"a": 'say "hi",\r\nthen', "b": "", "c": '[1, "é"]', "d": "true"}


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = jsonl(tmp_path / "a.jsonl", {"old": 1})

    def rows():
        yield {"new": 1}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_rows(rows(), path)
    assert path.read_text() == '{"old": 1}\n'
    assert [p.name for p in tmp_path.iterdir()] == ["a.jsonl"]


def test_writing_through_a_link_keeps_the_link(tmp_path):
    target = jsonl(tmp_path / "target.jsonl")
    (tmp_path / "link.jsonl").symlink_to(target)
    with replacing(tmp_path / "link.jsonl") as file:
        file.write(b"x")
    assert (tmp_path / "link.jsonl").is_symlink()
    assert target.read_text() == "x"


def test_rows_with_mixed_types_cannot_become_a_parquet_column(tmp_path):
    with pytest.raises(InputError, match="cannot write column 'a' as Parquet"):
        write_rows([{"a": 1}, {"a": "x"}], tmp_path / "a.parquet")
    assert not list(tmp_path.iterdir())


def test_an_unknown_format_is_refused_before_anything_is_read_or_written(tmp_path):
    (tmp_path / "a.docx").write_bytes(b"")
    with pytest.raises(InputError, match=r"format is unknown, expected \.jsonl"):
        read_rows(tmp_path / "a.docx")
    with pytest.raises(InputError, match="format is unknown"):
        write_rows([], tmp_path / "b.docx")
    with pytest.raises(InputError, match="no such file"):
        read_rows(tmp_path / "missing.jsonl")


@pytest.mark.parametrize(
    "text",
    ["=1+1", "'=1", "= 2", "@SUM(A1)", "+HYPERLINK(A1)", "-2+3+cmd|' /C calc'!A0", "\t=1+1", "-1+SUM(A1:A9)"],
)
def test_no_text_is_a_formula_in_csv_and_it_is_read_as_it_was(tmp_path, text):
    path = tmp_path / "t.csv"
    write_rows([{"id": text, "n": -1.5}], path)
    assert path.read_text().splitlines()[1].startswith("'" + text[:2])
    (row,) = read_rows(path)
    assert row.values == {"id": text, "n": "-1.5"}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "- one (or two)",
            "-3",
            "-1.5",
            "+44 20 7946 0000",
            "@anna hello",
            "'tis",
            "@ferry (Tarn) is late",
            "- a | b",
        ),
        *("-Yes! A library", "== History ==", "=)", "=> so", "+1 (I agree)!", "-a! b|c"),
    ],
)
def test_a_text_that_is_no_formula_stands_in_csv_as_it_is(tmp_path, text):
    write_rows([{"id": text}], tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text().splitlines()[1] == text


def test_a_full_disk_is_told_with_the_file_that_was_to_be_written(tmp_path):
    with (
        pytest.raises(OSError, match=r"No space left on device; what was there is as it was: .*t\.jsonl"),
        replacing(tmp_path / "t.jsonl"),
    ):
        raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (Decimal("1.50"), 1.5),
        (Decimal("7"), 7),
        (Decimal("1E+3"), 1000),
        (Decimal("0.1"), 0.1),
        (Decimal("12345678901234567890.123456789"), "12345678901234567890.123456789"),
        (Decimal("NaN"), None),
        (datetime.timedelta(days=1, hours=2, microseconds=3_500_000), "P1DT2H0M3.5S"),
        (datetime.timedelta(seconds=-1), "-P0DT0H0M1S"),
        ([Decimal("2.5")], [2.5]),
    ],
)
def test_a_value_that_json_does_not_have_is_written_as_the_same_number_or_its_text(value, written):
    assert json.loads(json_line({"value": value})) == {"value": written}


def test_columns_of_parquet_of_all_types_are_written_to_lines_and_bytes_are_refused_by_name(tmp_path):
    rows = {"text": ["a"], "price": [Decimal("1.10")], "took": [datetime.timedelta(minutes=3)]}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")
    read = [row.values for row in read_rows(tmp_path / "rows.parquet")]
    for name in ("out.jsonl", "out.csv"):
        assert write_rows(read, tmp_path / name) == 1
    assert json.loads((tmp_path / "out.jsonl").read_text()) == {"text": "a", "price": 1.1, "took": "P0DT0H3M0S"}
    for value, kind in ((b"ab", "bytes"), ([1, b"ab"], "bytes"), ({1, 2}, "set"), (object(), "object")):
        with pytest.raises(InputError, match=f"cannot write column 'image': it holds {kind}") as refused:
            write_rows([{"text": "a", "image": value}], tmp_path / "out.jsonl")
        assert refused.value.field == "image"
