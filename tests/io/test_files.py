import gzip
import json
import subprocess
import sys

import pytest

from synthscore.errors import InputError
from synthscore.io.files import read_rows
from synthscore.io.write import write_rows


def jsonl(path, *rows):
    path.write_bytes(b"".join((r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n" for r in rows))
    return path


def good(rows):
    return [row for row in rows if not isinstance(row, InputError)]


def test_a_json_file_is_an_array_an_object_or_lines(tmp_path):
    path = tmp_path / "a.json"
    for text in ('[{"a": 1},\n {"a": 2}]', '{"a": 1}\n{"a": 2}\n'):
        path.write_text(text)
        assert [(row.number, row.values) for row in good(read_rows(path))] == [(1, {"a": 1}), (2, {"a": 2})]
    path.write_text('{\n "a": 1\n}')
    assert good(read_rows(path))[0].values == {"a": 1}
    path.write_text('[{"a": 1},, {"a": 2}]')
    with pytest.raises(InputError, match="not JSON"):
        list(read_rows(path))


def test_stdin_holds_json_lines():
    code = (
        "from synthscore.io.files import *; from synthscore.io.write import *; "
        "print([r.values for r in read_rows('-')]); write_rows([{'é': 1}], '-')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input='{"a": "ü"}\n\n{"a": 2}'.encode(), capture_output=True, check=True
    )
    assert done.stdout.decode() == "[{'a': 'ü'}, {'a': 2}]\n" + '{"é": 1}\n'


def test_a_saved_dataset_is_read_and_one_with_several_splits_asks_for_one(tmp_path):
    import datasets

    datasets.disable_progress_bars()
    dataset = datasets.Dataset.from_list([{"text": "a", "list": ["x"]}, {"text": "b", "list": []}])
    dataset.save_to_disk(tmp_path / "one")
    assert [row.values for row in good(read_rows(tmp_path / "one"))] == list(dataset)
    assert [row.values for row in good(read_rows(dataset))] == list(dataset)
    datasets.DatasetDict(test=dataset).save_to_disk(tmp_path / "single")
    assert [row.values for row in good(read_rows(tmp_path / "single"))] == list(dataset)
    datasets.DatasetDict(train=dataset, test=dataset).save_to_disk(tmp_path / "two")
    with pytest.raises(InputError, match=r"holds the splits train, test. Name one: .*two/test"):
        read_rows(tmp_path / "two")
    assert len(list(read_rows(tmp_path / "two" / "test"))) == 2


def test_a_folder_of_parquet_files_is_numbered_through(tmp_path):
    write_rows([{"a": 1}, {"a": 2}], tmp_path / "data" / "0.parquet")
    write_rows([{"a": 3}], tmp_path / "data" / "1.parquet")
    assert [(row.number, row.values["a"]) for row in good(read_rows(tmp_path))] == [(1, 1), (2, 2), (3, 3)]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no rows"):
        read_rows(tmp_path / "empty")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match="not a whole Parquet file"):
        list(read_rows(tmp_path / "bad.parquet"))


def test_a_parquet_text_that_is_not_utf8_makes_its_file_unreadable(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    raw = pa.array([b"good", b"\xff\xfe", b"fine"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"text": raw}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="of the rows 1 to 3, one holds a text that is not UTF-8"):
        list(read_rows(tmp_path / "a.parquet"))


def test_empty_files_hold_no_rows(tmp_path):
    for name in ("a.jsonl", "a.csv"):
        (tmp_path / name).write_bytes(b"")
        assert list(read_rows(tmp_path / name)) == []


def test_a_key_that_stands_twice_in_a_row_is_an_error_of_that_row(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_text('{"text": "one", "text": "two"}\n{"text": "three"}\n')
    error, row = read_rows(path)
    assert "row 1: not JSON ('text' stands there twice)" in str(error)
    assert row.values == {"text": "three"}


def test_a_byte_that_is_not_utf_8_amid_utf_8_is_to_be_mended_and_not_read_as_something_else(tmp_path):
    for suffix, header in ((".csv", b"text\n"), (".json", b"")):
        path = tmp_path / f"t{suffix}"
        path.write_bytes(header + b'"caf\xe9"\n' + '"café"\n'.encode())
        with pytest.raises(InputError, match=r"holds the byte 0xe9, .* Mend that line"):
            list(read_rows(path))


def test_a_byte_that_is_not_utf_8_costs_its_line_alone(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes('{"text": "café"}\n'.encode() + b'{"text": "caf\xe9"}\n{"text": "tea"}\n')
    first, error, last = read_rows(path)
    assert [row.values["text"] for row in (first, last)] == ["café", "tea"]
    assert "t.jsonl row 2: byte 0xe9 is not of the file's encoding" in str(error)
    assert "--encoding" in str(error)


def test_a_compressed_file_without_the_name_of_one_is_told_so(tmp_path):
    for name in ("t.jsonl", "t.csv"):
        (tmp_path / name).write_bytes(gzip.compress(b'{"text": "tea"}'))
        with pytest.raises(InputError, match=r"compressed by gzip: give it a name that ends in \.gz"):
            list(read_rows(tmp_path / name))


def test_a_datasets_folder_that_is_damaged_is_named(tmp_path):
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(InputError, match="not a whole datasets folder"):
        list(read_rows(tmp_path))
