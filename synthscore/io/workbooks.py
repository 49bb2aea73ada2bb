"""The first sheet of an Excel workbook (.xlsx) -> rows. A cell whose value cannot be known, an error or a formula that
was never computed, costs its row alone."""

from __future__ import annotations

import itertools
import logging
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

from .fields import Fields, bad_row, unreadable
from .separated import check_header

_LOG = logging.getLogger(__name__)
_MOST_BYTES = 1 << 31  # of a workbook that is unpacked: a small file may become any number
_LAST_LINE = 1 << 20  # of a sheet, by Excel's own limit
_COMPUTE = "Open the workbook in Excel and save it, or paste the column as values"


def workbook_rows(path: str, fields: Fields) -> Iterator[tuple[int, object]]:
    """The number of each row, and its values, or why it has none; rows of empty cells are none.

    raises : InputError for what is no workbook, or without openpyxl
    """
    try:
        import openpyxl
    except ImportError:
        remedy = "Run: pip install 'synthscore[excel]'; or save the sheet as CSV UTF-8"
        raise unreadable(path, f"the openpyxl package is not installed. {remedy}") from None
    try:
        with zipfile.ZipFile(path) as parts:
            n_bytes = sum(part.file_size for part in parts.infolist())
        if n_bytes > _MOST_BYTES:
            raise unreadable(path, f"it unpacks to {n_bytes:,} bytes. Save the sheet as CSV UTF-8")
        # One has what formulas came to when the file was saved, the other shows which cells are formulas.
        values, formulas = (openpyxl.load_workbook(path, read_only=True, data_only=only) for only in (True, False))
        try:
            yield from _rows(path, values, formulas, fields)
        finally:
            values.close()
            formulas.close()
    except (zipfile.BadZipFile, OSError, KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        why = "it is no whole .xlsx file, or has a password. Save it again, or its sheet as CSV UTF-8"
        raise unreadable(path, why) from error


def _rows(path: str, values: Any, formulas: Any, fields: Fields) -> Iterator[tuple[int, object]]:
    names = values.sheetnames
    sheet, written = values.worksheets[0], formulas.worksheets[0]
    if len(names) > 1:
        others = ", ".join(map(repr, names[1:]))
        _LOG.info(
            "%s: reading the first sheet, %r, not %s; to read another, move it to the front", path, names[0], others
        )
    for one in (sheet, written):
        one.reset_dimensions()  # what a file says of its size may be wrong
    header: list[str] = []
    number = -1  # of the header that is to come
    for line, (cells, sources) in enumerate(zip(sheet.iter_rows(), written.iter_rows(), strict=True), 1):
        if line > _LAST_LINE:
            raise unreadable(path, f"its sheet has more than {_LAST_LINE:,} rows. Save it as CSV UTF-8")
        if not any(map(_is_filled, sources)):
            continue
        number += 1
        if not header:
            header = [str(cell.value or "") for cell in cells]
            while header and not header[-1]:
                header.pop()
            check_header([name for name in header if name], path, fields)
        elif fault := _fault(cells, sources, header):
            yield number, bad_row(path, number, fault, line)
        else:
            by_column = itertools.zip_longest(header, cells[: len(header)])
            yield number, {name: _value(cell) for name, cell in by_column if name}


def _is_filled(cell: Any) -> bool:
    return cell.value is not None


def _value(cell: Any) -> Any:
    if cell is None:  # the row is shorter than the header
        return None
    if not isinstance(cell.value, str):
        return cell.value
    from openpyxl.utils.escape import unescape

    return unescape(cell.value)  # _x000D_ is how a workbook writes CR


def _fault(cells: Sequence[Any], sources: Sequence[Any], header: Sequence[str]) -> str:
    """What is wrong with a row, with the cell's name; "" for a good one."""
    for column, (cell, source) in enumerate(zip(cells, sources, strict=True)):
        if cell.value is None and source.value is None:
            continue
        if column >= len(header) or not header[column]:
            return f"{source.coordinate} is filled, but its column has no name. Name it in the first row, or empty it"
        if source.data_type == "f" and cell.value is None:
            return f"{source.coordinate} holds a formula whose value is not in the file. {_COMPUTE}"
        if cell.data_type == "e":
            return f"{source.coordinate} is {cell.value}. Mend its formula, or empty the cell"
    return ""
