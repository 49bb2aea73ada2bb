"""A damaged file of answers -> the good answers in it. Without SQLite, which stops at the first page it cannot read.

Every page is read by itself (https://sqlite.org/fileformat2.html), whatever points to it: of what looks like an answer,
its checksum says whether it is one. So neither the trees above the rows nor the schema need be whole.
"""

from __future__ import annotations

import mmap
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .answers import BatchRows, intact, unpack

UNKNOWN = "unknown"  # kind and engine of answers whose batch cannot be read; they are found by their key as ever
_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR = 0x0D, 0x0A, 0x02
_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}  # serial type -> bytes
_BROKEN = (IndexError, ValueError)  # what reading garbage as a cell may raise


class Salvaged(NamedTuple):
    """n_answers : good ones that were found, n_new of them not in the store before. n_lost : answers of which the file
    still has a trace, a place or a wrong checksum; of a page that is gone no trace may be left. n_questions_lost : good
    answers whose batch, or its questions, cannot be read; they are kept without a question."""

    n_answers: int
    n_new: int
    n_lost: int
    n_questions_lost: int


class _Cell(NamedTuple):
    """Where a row lies. rowid : None in an index, and `answers` is one: it has no rowid."""

    pages: _Pages
    number: int
    start: int
    size: int
    rowid: int | None


@dataclass
class Wreck:
    """What is left in a damaged file. A store that is in use is not a wreck: merge it.

    answers : batch -> place -> where it lies; every one has its checksum. lost : (batch, place) of others
    """

    path: Path
    answers: dict[int, dict[int, _Cell]] = field(default_factory=dict)
    batches: dict[int, _Cell] = field(default_factory=dict)
    lost: set[tuple[int, int]] = field(default_factory=set)
    n_questions_lost: int = 0

    def __post_init__(self) -> None:
        for pages in _versions(self.path):
            for number in pages.numbers():
                for cell in _cells(pages, number):
                    self._look(cell)
        self.lost -= {(batch, place) for batch, places in self.answers.items() for place in places}

    def _look(self, cell: _Cell) -> None:
        try:
            row = _record(cell)
        except _BROKEN:
            return
        if cell.rowid is not None:
            if [type(value) for value in row[:4]] == [type(None), bytes, bytes, int]:
                self.batches.setdefault(cell.rowid, cell)
        elif [type(value) for value in row] == [bytes, int, int]:  # the index of keys
            self.lost.add((row[1], row[2]))
        elif [type(value) for value in row] == [int, int, bytes, bytes, int]:
            if intact(*row):
                self.answers.setdefault(row[0], {}).setdefault(row[1], cell)
            else:
                self.lost.add((row[0], row[1]))

    def rows(self) -> Iterator[BatchRows]:
        """The good answers by batch, as a store writes them."""
        for batch, places in sorted(self.answers.items()):
            rows = [_record(cell) for _, cell in sorted(places.items())]
            common: list[Any] = [None, UNKNOWN, UNKNOWN, int(self.path.stat().st_mtime)]
            if batch in self.batches:
                common = _record(self.batches[batch])
                common[1:3] = (name.decode(errors="replace") for name in common[1:3])
            _, kind, engine, created_at, *found = common
            questions = found[0] if found else b""  # None where none were kept, not where they are lost
            if questions is not None and not _answered(questions, places):
                self.n_questions_lost += len(rows)
                questions = None
            kept = [(place, key, value.decode()) for _, place, key, value, _ in rows]
            yield BatchRows(kind, engine, created_at, questions, kept)


def _answered(questions: Any, places: Mapping[int, object]) -> bool:
    """Whether questions can be read, and are those of these places."""
    try:
        return max(places) < len(unpack(questions))
    except (sqlite3.DatabaseError, TypeError):  # not bytes, where they should be
        return False


# ------------------------------------------------------------------------------------------------- pages


class _Pages(NamedTuple):
    """The pages of a file, numbered from 1, each of `size` bytes, `usable` of them for rows. newer : those that the WAL
    has of some"""

    data: Any  # bytes, or a map of them
    size: int
    usable: int
    newer: Mapping[int, bytes]

    def numbers(self) -> Iterator[int]:
        n_pages = -(-len(self.data) // self.size)
        yield from range(1, n_pages + 1)
        yield from sorted(number for number in self.newer if number > n_pages)

    def page(self, number: int) -> bytes:
        if number in self.newer:
            return self.newer[number]
        page = bytes(self.data[(number - 1) * self.size : number * self.size]) if number > 0 else b""
        if not page:
            raise IndexError(f"no page {number}")
        return page


def _versions(path: Path) -> Iterator[_Pages]:
    """The file with its write-ahead log over it; and without, because a frame that is torn must not hide its page."""
    with path.open("rb") as file:
        data: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if path.stat().st_size else b""
    head = bytes(data[:100])
    size, n_reserved = 4096, 0  # SQLite's own, where the header is not one
    if head.startswith(b"SQLite format 3\0") and len(head) == 100:
        named, n_reserved = int.from_bytes(head[16:18], "big"), head[20]
        named = 65536 if named == 1 else named
        size = named if named >= 512 and named.bit_count() == 1 else size
    plain = _Pages(data, size, size - n_reserved, {})
    beside = Path(f"{path}-wal")
    if newer := _newer(beside.read_bytes() if beside.is_file() else b"", size):
        yield plain._replace(newer=newer)
    yield plain


def _newer(wal: bytes, size: int) -> dict[int, bytes]:
    """The pages of a write-ahead log; the later frame of a page counts."""
    newer = {}
    if len(wal) >= 32 and wal[:3] == b"\x37\x7f\x06" and int.from_bytes(wal[8:12], "big") == size:
        for start in range(32, len(wal) - 24 - size + 1, 24 + size):
            if wal[start + 8 : start + 16] == wal[16:24]:  # else it is of a log before this one
                newer[int.from_bytes(wal[start : start + 4], "big")] = wal[start + 24 : start + 24 + size]
    return newer


def _cells(pages: _Pages, number: int) -> Iterator[_Cell]:
    """What the page points to, if it is one of rows."""
    page, head = pages.page(number), 100 if number == 1 else 0
    kind = page[head] if len(page) > head else 0
    if kind not in (_TABLE_LEAF, _INDEX_LEAF, _INDEX_INTERIOR):
        return
    interior = kind == _INDEX_INTERIOR
    n_cells = int.from_bytes(page[head + 3 : head + 5], "big")
    first = head + (12 if interior else 8)
    for at in range(first, min(first + 2 * n_cells, len(page)), 2):
        start = int.from_bytes(page[at : at + 2], "big") + 4 * interior  # a child's number comes first
        rowid = None
        try:
            size, start = _varint(page, start)
            if kind == _TABLE_LEAF:
                rowid, start = _varint(page, start)
        except IndexError:
            continue
        yield _Cell(pages, number, start, size, rowid)


def _record(cell: _Cell) -> list[Any]:
    """The values of a row, as far as they are whole; a text as its bytes, so that what is not UTF-8 shows as a wrong
    checksum. raises : one of _BROKEN, where it cannot be a row"""
    payload = _payload(cell)
    end, at = _varint(payload, 0)
    if not 0 < end <= len(payload):
        raise ValueError(f"a header of {end} bytes in {len(payload)}")
    values: list[Any] = []
    start = end
    while at < end:
        type_, at = _varint(payload, at)
        if type_ in (0, 8, 9):
            values.append((None, 0, 1)[max(type_ - 7, 0)])
            continue
        n_bytes = _INTEGERS.get(type_, (type_ - 12) // 2)  # no column has fractions, which are of type 7
        value = payload[start : start + n_bytes]
        if n_bytes < 0 or len(value) < n_bytes:
            break
        start += n_bytes
        values.append(int.from_bytes(value, "big", signed=True) if type_ in _INTEGERS else value)
    return values


def _payload(cell: _Cell) -> bytes:
    """The bytes of a row: those on its page, then those on the chain of pages that it overflows to, until it breaks."""
    pages, size, usable = cell.pages, cell.size, cell.pages.usable
    if not 0 < size <= len(pages.data) + len(pages.newer) * pages.size:
        raise ValueError(f"a row of {size} bytes")
    most = usable - 35 if cell.rowid is not None else (usable - 12) * 64 // 255 - 23
    least = (usable - 12) * 32 // 255 - 23
    n_here = size
    if size > most:
        n_here = least + (size - least) % (usable - 4)
        n_here = n_here if n_here <= most else least
    page, chain = pages.page(cell.number), set[int]()
    parts, left = [page[cell.start : cell.start + n_here]], size - n_here
    at = cell.start + n_here
    while left > 0:
        number = int.from_bytes(page[at : at + 4], "big")
        if number in chain:
            break
        chain.add(number)
        try:
            page, at = pages.page(number), 0
        except IndexError:
            break
        parts.append(page[4 : 4 + min(left, usable - 4)])
        left -= usable - 4
    return b"".join(parts)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of 1 to 9 bytes, and where it ends. raises : IndexError"""
    value = 0
    for i in range(8):
        byte = data[at + i]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + i + 1
    return value << 8 | data[at + 8], at + 9
