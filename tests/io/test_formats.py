"""The table of formats: what a file's name says, and what rows that are chosen keep."""

import gzip
import json

import pytest

from synthscore.errors import InputError
from synthscore.io import files, formats
from synthscore.io.files import read_items, read_rows
from synthscore.io.formats import FORMATS, find_format, is_readable, list_formats
from synthscore.io.write import write_rows

ROWS = [{"id": str(number), "text": f"Text {number}."} for number in range(5)]


@pytest.mark.parametrize("format", FORMATS, ids=lambda format: format.suffix)
def test_a_format_is_known_by_its_suffix_in_any_case_and_compressed_where_it_may_be(format):
    names = [f"a/Rows.v2{format.suffix}", f"ROWS{format.suffix.upper()}"]
    zipped = [f"{name}{gz}" for name in names for gz in (".gz", ".GZ")]
    for name in names + zipped * format.gzipped:
        assert find_format(name, "read") is format
        assert is_readable(name)
    if not format.gzipped:
        assert not any(map(is_readable, zipped))


@pytest.mark.parametrize("name", ["rows", "rows.gz", "rows.xlsx", "rows.jsonl.zip", "rows.parquet.gz", ".jsonl"])
@pytest.mark.parametrize("use", ["read", "write"])
def test_a_name_of_no_format_is_refused_with_those_there_are(name, use):
    with pytest.raises(InputError, match=f"cannot {use} {name}: its format is unknown") as refused:
        find_format(name, use)
    assert list_formats(use) in str(refused.value)
    assert refused.value.source == name
    assert not is_readable(name)


def test_a_format_that_rows_are_only_read_from_is_refused_for_writing_and_not_named_there(tmp_path):
    with pytest.raises(InputError, match=r"cannot write .*json: its format is unknown") as refused:
        write_rows(ROWS, tmp_path / "rows.json")
    assert ".json," not in str(refused.value)
    assert ".json," in list_formats("read")


@pytest.mark.parametrize("suffix", [each.suffix + gz for each in FORMATS for gz in ("", ".GZ") if each.serves("write")])
def test_what_is_written_in_any_format_is_read_again(tmp_path, suffix):
    if not is_readable(f"rows{suffix}"):
        with pytest.raises(InputError, match="its format is unknown"):
            write_rows(ROWS, tmp_path / f"rows{suffix}")
        return
    write_rows(ROWS, tmp_path / f"rows{suffix}")
    assert [row.values for row in read_rows(tmp_path / f"rows{suffix}")] == ROWS
    is_gzip = (tmp_path / f"rows{suffix}").read_bytes()[:2] == b"\x1f\x8b"
    assert is_gzip == suffix.endswith(".GZ")


def test_equal_rows_make_equal_bytes_in_a_compressed_table(tmp_path):
    for name in ("a.csv.gz", "b.csv.gz"):
        write_rows(ROWS, tmp_path / name)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    write_rows(ROWS, tmp_path / "a.csv")
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == (tmp_path / "a.csv").read_bytes()


def test_files_of_lines_can_be_joined_end_to_end_and_only_they(tmp_path):
    for format in FORMATS:
        if format.serves("write"):
            path = tmp_path / f"rows{format.suffix}"
            write_rows(ROWS[:2], path)
            path.write_bytes(path.read_bytes() * 2)
            values = [row.values for row in read_rows(path)]
            assert (values == ROWS[:2] * 2) == format.lines


def test_the_table_is_looked_up_when_a_file_is(monkeypatch):
    monkeypatch.setattr(formats, "FORMATS", FORMATS[:1])
    assert list_formats("write") == ".jsonl (each also .gz), or - for JSONL on stdout"
    assert not is_readable("rows.csv")


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_chosen_rows_come_once_each_in_their_order_whatever_the_batches(tmp_path, suffix, size, monkeypatch):
    rows = [{"id": str(i), "context_id": f"c{i % 3}", "text": f"Text {i}."} for i in range(20)]
    write_rows(rows, tmp_path / f"rows{suffix}")
    monkeypatch.setattr(files, "BATCH", size)
    batches = list(read_items(tmp_path / f"rows{suffix}", only=lambda key: key != "c1"))
    wanted = [row for row in rows if row["context_id"] != "c1"]
    assert [item.row.values for batch in batches for item in batch.items] == wanted
    assert [item.id for batch in batches for item in batch.items] == [row["id"] for row in wanted]
    assert all(len(batch.items) < 2 * size for batch in batches)
    for batch in batches:
        if suffix == ".parquet":
            assert batch.schema.names == ["id", "context_id", "text"]
        else:
            assert [json.loads(item.row.line) for item in batch.items] == [item.row.values for item in batch.items]
