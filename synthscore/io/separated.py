"""Text with separated columns (CSV) -> rows: which character separates them, and what a row costs that is broken."""

from __future__ import annotations

import csv
import itertools
import logging
import re
from collections import deque
from collections.abc import Iterable, Iterator

from ..errors import InputError
from .fields import Fields, bad_row, check_columns, shorten, unreadable

LONGEST = 1 << 26  # characters of a line, and of a CSV field; the csv module stops at 131 072 unless told
_LOG = logging.getLogger(__name__)

SEPARATORS = ",;\t|"
_LOOKED_AT = 64  # lines, of which the header and the first row are
_COMPUTED = re.compile(r"""=\s*[\w"'({\[@+-]|[@+-]\S*\w\(""")
"""How a formula begins: = and a value, or a call of a function behind another sign."""
_NAMED = re.compile(r'"?sep=(.)"?\s*')  # Excel's own line, before the header


def csv_rows(lines: CsvLines, usual: str, named: str, name: str, fields: Fields) -> Iterator[tuple[int, object]]:
    """The number of each row, and its values, or why it has none: a broken one costs itself alone.

    usual, named : what separates columns, where the file does not show it; and whatever it shows, "" for nothing
    """
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST))
    first = "".join(lines.peek(1))
    delimiter = named or find_separator(lines, usual)
    if delimiter != usual and not named:
        shown = {"\t": "a tab"}.get(delimiter, repr(delimiter))
        _LOG.info("%s: reading columns separated by %s; to read others: --separator CHARACTER", name, shown)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        header = next(reader, [])
    except csv.Error as error:
        why = f"its header is not CSV ({error}). Mend its quotes and line ends"
        if "new-line" in str(error) and "\n" not in first:
            why = "its lines end in CR alone. Save it again, with the line ends of Windows (CR LF) or Unix (LF)"
        raise unreadable(name, why, line=lines.number) from error
    check_header(header, name, fields)
    number = 0
    while True:
        line = lines.begin()
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            number += 1
            yield number, _broken_row(name, number, line, lines.number, error)
            lines.again_from_second()
            continue
        if not cells:  # an empty line
            continue
        number += 1
        if len(cells) != len(header):
            yield number, _uneven_row(name, number, line, lines.number, cells, header, delimiter)
            continue
        yield number, dict(zip(header, map(_as_written, cells), strict=True))


def _as_written(cell: str) -> str:
    """Without the apostrophe that keeps a spreadsheet from computing a text."""
    if cell[:1] == "'" and is_formula(cell):
        return cell[1:]
    return cell


def check_header(header: list[str], name: str, fields: Fields) -> None:
    """raises : InputError for a column that is named twice, and where one of the fields is not there"""
    if len(set(header)) < len(header):
        raise unreadable(name, f"its header names a column twice: {header}. Rename one", value=header)
    if header:
        check_columns(header, name, fields)


def _broken_row(name: str, number: int, line: int, last: int, error: csv.Error) -> InputError:
    """line, last : the first and the last of the lines that were taken for it"""
    why = f"not CSV ({error})"
    if last > line:
        why = f"a quote that it opens is not closed as it should be up to line {last} ({error}), so reading went on"
        why += f" at line {line + 1}"
    return bad_row(name, number, f"{why}. Mend its quotes: a quote inside a text is doubled", line)


def _uneven_row(
    name: str, number: int, line: int, last: int, cells: list[str], header: list[str], delimiter: str
) -> InputError:
    why = f"{len(cells)} fields"
    if last > line:
        why += f", from this line to line {last}"
    why += f", expected {len(header)} as in the header: {shorten(cells)}. Quote texts that hold a {delimiter!r}"
    return bad_row(name, number, why, line, value=cells)


class CsvLines(Iterator[str]):
    """Lines of a file of rows, of which those of the row at hand can be read again. number : of the last one read"""

    def __init__(self, lines: Iterable[str]) -> None:
        self.number = 0
        self._lines = iter(lines)
        self._again: deque[str] = deque()
        self._row: list[str] = []

    def __next__(self) -> str:
        if not self._again:
            self._again.append(next(self._lines))
        line = self._again.popleft()
        self.number += 1
        self._row.append(line)
        return line

    def peek(self, n: int) -> list[str]:
        """The next lines, which stay to be read."""
        self._again.extend(itertools.islice(self._lines, n - len(self._again)))
        return list(self._again)

    def begin(self) -> int:
        """A row begins: the number of its first line."""
        self._row.clear()
        return self.number + 1

    def again_from_second(self) -> None:
        """The row at hand was not what its first line promised: its other lines are read anew."""
        again = self._row[1:]
        self._again.extendleft(reversed(again))
        self.number -= len(again)


def find_separator(lines: CsvLines, usual: str) -> str:
    """What separates columns: what a line sep=; says, which is then read; else the character by which the header and
    the first row have equally many columns, the most that any has; else the usual one, or what the header has most."""
    beginning = lines.peek(_LOOKED_AT)
    if beginning and (named := _NAMED.fullmatch(beginning[0])):
        next(lines)
        return named[1]
    n_columns = {mark: _n_columns(beginning, mark) for mark in dict.fromkeys(usual + SEPARATORS)}
    alike = {mark: n[0] for mark, n in n_columns.items() if len(n) == 2 and n[0] == n[1] > 1}
    if alike:
        return max(alike, key=lambda mark: alike[mark])
    by_header = {mark: n[0] for mark, n in n_columns.items() if n and n[0] > 1}
    if usual in by_header or not by_header:
        return usual
    return max(by_header, key=lambda mark: by_header[mark])


def _n_columns(lines: list[str], separator: str) -> list[int]:
    """Of the header and of the first row, as far as these lines hold them."""
    try:
        rows = csv.reader(lines, delimiter=separator)
        return [len(row) for row in itertools.islice((row for row in rows if row), 2)]
    except csv.Error:
        return []


def is_formula(cell: str) -> bool:
    """Whether a spreadsheet may compute the text of a cell, or ask another program for it (@PROGRAM|'...'!CELL); in CSV
    such a text has an apostrophe before it."""
    text = cell.lstrip("'").lstrip("\t\r\n")
    if text[:1] not in ("=", "@", "+", "-"):
        return False
    return bool(_COMPUTED.match(text)) or -1 < text.find("|") < text.rfind("!")
