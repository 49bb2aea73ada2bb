"""The table of formats: what a file's name says, and what rows that are chosen keep."""

import contextvars
import gzip
import io
import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from synthscore.errors import InputError
from synthscore.io import files, formats
from synthscore.io.assumed import ASSUMED, Assumed
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


@pytest.mark.parametrize("name", ["rows", "rows.gz", "rows.xls", "rows.jsonl.zip", "rows.parquet.gz", ".jsonl"])
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


# ------------------------------------------------------------------------------------------------- what people have


def read_all(path, **how):
    return [str(row) if isinstance(row, InputError) else dict(row.values) for row in read_rows(path, **how)]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("id;text\r\n1;Hello, world\r\n", {"id": "1", "text": "Hello, world"}),
        ("\ufeffid;text\r\n1;Hello, world\r\n", {"id": "1", "text": "Hello, world"}),
        ("id\ttext\n1\tHello, world; all\n", {"id": "1", "text": "Hello, world; all"}),
        ("id|text\n1|Hello, world; all\n", {"id": "1", "text": "Hello, world; all"}),
        ("sep=;\nid;text\n1;Hello\n", {"id": "1", "text": "Hello"}),
        ('"sep=|"\nid|text\n1|a\n', {"id": "1", "text": "a"}),
        ("id;text, long;n\n1;Hello, you;3\n", {"id": "1", "text, long": "Hello, you", "n": "3"}),
        ('id,"a;b"\n1,"x;y"\n', {"id": "1", "a;b": "x;y"}),
        ('id;text\n1;"two\nlines; all"\n', {"id": "1", "text": "two\nlines; all"}),
        ("text\nHello; you, and | me\n", "2 fields"),
        ("text\nHello; you\n", {"text": "Hello; you"}),
        ("id;text\n", None),
    ],
)
def test_what_separates_columns_is_recognised(text, columns, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text(text, newline="")
    rows = read_all(file)
    if isinstance(columns, str):
        assert columns in rows[0]
    else:
        assert rows == [columns] * (columns is not None)


def test_what_separates_columns_is_said_where_it_is_not_the_usual_one(tmp_path, caplog):
    file = tmp_path / "rows.csv"
    file.write_text("id;text\n1;a\n")
    with caplog.at_level("INFO", logger="synthscore"):
        read_all(file)
    assert "rows.csv: reading columns separated by ';'; to read others: --separator CHARACTER" in caplog.text


def assuming(**what):
    return contextvars.copy_context().run(lambda: (ASSUMED.set(Assumed(**what)), contextvars.copy_context())[1])


def test_a_separator_that_is_named_is_taken_whatever_the_file_shows(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("id,a;text\n1,b;c\n")
    assert assuming(separator=";").run(read_all, file) == [{"id,a": "1,b", "text": "c"}]
    assert assuming(separator=",").run(read_all, file) == [{"id": "1", "a;text": "b;c"}]
    file.write_text("id^text\n1^c\n")
    assert assuming(separator="^").run(read_all, file) == [{"id": "1", "text": "c"}]


def test_a_format_that_is_named_is_that_of_files_whose_names_say_none(tmp_path, monkeypatch):
    part, named = tmp_path / "part.aa", tmp_path / "rows.jsonl"
    part.write_text("id,text\n1,a\n")
    named.write_text('{"id": 2}\n')
    with pytest.raises(InputError, match="or say which it is: --input-format jsonl"):
        read_all(part)
    assert assuming(format="csv").run(read_all, part) == [{"id": "1", "text": "a"}]
    assert assuming(format="csv").run(read_all, named) == [{"id": 2}]
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"id;text\n1;a\n")))
    assert assuming(format="csv").run(read_all, "-") == [{"id": "1", "text": "a"}]


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 99), st.from_regex(r"[abc][abc ,;|\n']{0,8}", fullmatch=True)), min_size=1, max_size=12
    ),
    broken=st.sets(st.integers(0, 11), max_size=3),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
def test_a_quote_without_its_end_costs_its_row_alone(rows, broken, tmp_path):
    """Whatever the other rows hold, each of them is read, and each broken one is an error that names its line."""
    lines, expected = ["id,text,end\n"], []
    for index, (id_, text) in enumerate(rows):
        if index in broken:
            lines.append(f'{id_},"Oops {text.replace(chr(10), " ")},\n')
        else:
            lines.append(f'{id_},"{text}",x\n')
            expected.append({"id": str(id_), "text": text, "end": "x"})
    file = tmp_path / "rows.csv"
    file.write_text("".join(lines), newline="")
    found = read_all(file)
    assert [row for row in found if isinstance(row, dict)] == expected
    errors = [row for row in found if isinstance(row, str)]
    starts = [1 + sum(line.count("\n") for line in lines[: 1 + index]) for index in sorted(broken) if index < len(rows)]
    assert [int(re.search(r"\(line (\d+)\)", error)[1]) for error in errors] == starts


def test_the_message_of_a_quote_without_its_end_says_which_lines_it_took(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text('id,text\n1,a\n2,"Oops\n' + "".join(f"{n},ok\n" for n in range(3, 23)))
    rows = read_all(file)
    assert rows[1].startswith(
        f"{file} row 2 (line 3): a quote that it opens is not closed as it should be up to line 23"
    )
    assert "reading went on at line 4" in rows[1]
    assert [row["id"] for row in rows if isinstance(row, dict)] == ["1", *map(str, range(3, 23))]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"PK\x03\x04\x14\x00", "zip archive, or a workbook of Excel"),
        (b"PAR1\x15\x04", "is Parquet"),
        ("id,text\n".encode("utf-16-le"), "--encoding utf-16-le"),
        ("id,text\n".encode("utf-16-be"), "--encoding utf-16-be"),
        (b"id,text\r1,a\r", "its lines end in CR alone"),
        (b'id,text\r1,"a"\r', "its lines end in CR alone"),
    ],
)
def test_what_a_file_is_rather_than_csv_is_said(data, told, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_bytes(data)
    with pytest.raises(InputError, match=told):
        read_all(file)


def test_a_line_without_an_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(formats._lines, "__defaults__", ("strict", 1000))
    for name, start in (("a.jsonl", '{"text": "'), ("a.csv", "id,text\n1,")):
        file = tmp_path / name
        file.write_text(f'{start}{"x" * 5000}"}}\n')
        with pytest.raises(InputError, match=r"line \d has 1 000 characters or more"):
            read_all(file)
    file = tmp_path / "a.json"
    file.write_text(json.dumps([{"text": "x" * 5000}]))
    assert len(read_all(file)) == 1
