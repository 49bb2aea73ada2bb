"""Text with separated columns (CSV): which character separates them, and lines that can be read a second time."""

from __future__ import annotations

import csv
import itertools
import re
from collections import deque
from collections.abc import Iterable, Iterator

SEPARATORS = ",;\t|"
_LOOKED_AT = 64  # lines, of which the header and the first row are
_NAMED = re.compile(r'"?sep=(.)"?\s*')  # Excel's own line, before the header


class CsvLines(Iterator[str]):
    """Lines of a file of rows, of which those of the row at hand can be read again. number : of the last one read"""

    def __init__(self, lines: Iterable[str]) -> None:
        self.number = 0
        self._lines = iter(lines)
        self._again: deque[str] = deque()
        self._row: list[str] = []

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._lines)
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
