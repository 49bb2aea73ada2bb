"""The first sheet of a workbook, as people send them."""

import datetime
import io
import logging
import sys
import zipfile

import openpyxl
import pytest

from synthscore.errors import InputError
from synthscore.io.files import list_items, read_rows


@pytest.fixture
def workbook(tmp_path):
    """Makes a workbook of rows, its path; and cells of it that are given by name."""

    def make(*rows, name="rows.xlsx", **cells):
        book = openpyxl.Workbook()
        for row in rows:
            book.active.append(row)
        for cell, value in cells.items():
            book.active[cell] = value
        book.save(tmp_path / name)
        return str(tmp_path / name)

    return make


HEADER = ["id", "context_id", "text"]


def test_values_keep_their_types_and_whole_numbers_are_ids(workbook):
    when = datetime.datetime(2026, 1, 2, 3)
    path = workbook(
        [*HEADER, "when", "share"], [1, 2.0, "Größe,\nzwei Zeilen.", when, 0.5], [2, 2, "Kurz.", None, -1.5]
    )
    first, second = read_rows(path)
    assert first.values == {"id": 1, "context_id": 2, "text": "Größe,\nzwei Zeilen.", "when": when, "share": 0.5}
    assert (second.values["when"], second.values["share"]) == (None, -1.5)
    assert [item.id for item in list_items(path)] == ["1", "2"]


def test_empty_rows_are_none_wherever_they_stand(workbook):
    path = workbook([], HEADER, [], ["a", "c", "One."], [None, None, None], ["b", "c", "Two."], [])
    assert [row.values["id"] for row in read_rows(path)] == ["a", "b"]


def test_a_cell_whose_value_is_not_known_costs_its_row_and_is_named(workbook):
    path = workbook(
        [*HEADER, None], ["a", "c", "=A1&B1"], ["b", "c", "Good."], ["c", "c", "#N/A"], ["d", "c", "Four.", "more"]
    )
    formula, good, error, unnamed = read_rows(path)
    assert good.values == {"id": "b", "context_id": "c", "text": "Good."}
    assert "row 1 (line 2): C2 holds a formula whose value is not in the file. Open the workbook" in str(formula)
    assert "row 3 (line 4): C4 is #N/A. Mend its formula" in str(error)
    assert "row 4 (line 5): D5 is filled, but its column has no name. Name it" in str(unnamed)


def test_of_several_sheets_the_first_is_read_and_it_is_said(workbook, caplog, tmp_path):
    path = workbook(HEADER, ["a", "c", "One."])
    book = openpyxl.load_workbook(path)
    book.create_sheet("Notes").append(["nothing of this"])
    book.save(path)
    with caplog.at_level(logging.INFO):
        assert len(list(read_rows(path))) == 1
    assert "reading the first sheet, 'Sheet', not 'Notes'" in caplog.text


def test_a_header_that_names_a_column_twice_or_not_is_refused(workbook):
    with pytest.raises(InputError, match="names a column twice"):
        list(read_rows(workbook(["id", "text", "text"], ["a", "b", "c"])))
    with pytest.raises(InputError, match=r"text is to be in column 'summary'.*Did you mean 'sumary'"):
        list(read_rows(workbook(["id", "sumary"], ["a", "b"]), fields={"text": "summary"}))


@pytest.mark.parametrize("data", [b"", b"no workbook", b"\xd0\xcf\x11\xe0 with a password"])
def test_what_is_no_workbook_is_refused_with_what_to_do(tmp_path, data):
    (tmp_path / "rows.xlsx").write_bytes(data)
    with pytest.raises(InputError, match=r"no whole \.xlsx file, or has a password\. Save it again"):
        list(read_rows(tmp_path / "rows.xlsx"))


def changed(path, part, old, new):
    """The workbook with other words in one of its parts."""
    packed = io.BytesIO()
    with zipfile.ZipFile(path) as before, zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as after:
        for name in before.namelist():
            data = before.read(name)
            if name == part:
                assert old in data
                data = data.replace(old, new)
            after.writestr(name, data)
    with open(path, "wb") as file:
        file.write(packed.getvalue())


def test_what_a_sheet_says_of_its_size_is_not_believed(workbook):
    path = workbook(HEADER, ["a", "c", "One."])
    changed(path, "xl/worksheets/sheet1.xml", b'ref="A1:C2"', b'ref="A1:XFD1048576"')
    (row,) = read_rows(path)
    assert row.values == {"id": "a", "context_id": "c", "text": "One."}


def test_a_sheet_of_more_rows_than_a_workbook_has_is_refused_in_time(workbook, monkeypatch):
    monkeypatch.setattr("synthscore.io.workbooks._LAST_LINE", 1000)
    path = workbook(HEADER, ["a", "c", "One."])
    changed(path, "xl/worksheets/sheet1.xml", b'<row r="2">', b'<row r="99999999999">')
    with pytest.raises(InputError, match="more than 1,000 rows"):
        list(read_rows(path))


def test_a_workbook_that_unpacks_to_more_than_memory_is_refused(workbook, monkeypatch):
    monkeypatch.setattr("synthscore.io.workbooks._MOST_BYTES", 1000)
    with pytest.raises(InputError, match=r"it unpacks to [\d,]+ bytes\. Save the sheet as CSV"):
        list(read_rows(workbook(HEADER)))


def test_without_openpyxl_the_extra_is_named(workbook, monkeypatch):
    path = workbook(HEADER)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(InputError, match=r"not installed\. Run: pip install 'synthscore\[excel\]'"):
        list(read_rows(path))
