"""Unasked questions -> files for a batch service, and the manifest beside them, in flat memory.

Questions lie on disk until all are known, because their order is that of their prompts: what prompts share at their
beginning is then computed once, by whoever keeps it.
"""

from __future__ import annotations

import json
import pickle
import re
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from ...engine import Question
from ...errors import InputError, SynthscoreError, Unasked
from ...io.write import replacing
from .ids import custom_id, stem_of
from .manifest import CHUNK, Asked, Manifest, chunk_line, head_line, manifest_of
from .wires import FILE_FORMS

MOST_LINES = 50_000  # of one file: what every service takes
MOST_BYTES = 100_000_000
_BREAKS = re.compile("[\x85\u2028\u2029]")  # which many a reader of lines takes for the end of one


class QuestionFile:
    """Where questions are written to instead of being asked. To be used in a `with`.

    path : of the file; of further ones, with a number before its ending
    n : distinct questions so far
    """

    def __init__(self, path: str | Path, *, most_lines: int = MOST_LINES, most_bytes: int = MOST_BYTES) -> None:
        self.path = Path(path).expanduser()
        self.n = 0
        self._most = (most_lines, most_bytes)
        self._asked: Asked | None = None
        self._stack = ExitStack()
        self._spool: sqlite3.Connection | None = None

    def __enter__(self) -> QuestionFile:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def add(self, asked: Asked, questions: Mapping[bytes, tuple[Question, Sequence[Mapping[str, Any]]]]) -> None:
        """asked : the same each time. questions : by their keys, each with its requests"""
        self._asked = asked
        rows = (
            (key, question.prompt.text.encode(), pickle.dumps(question), self._lines(key, bodies))
            for key, (question, bodies) in questions.items()
        )
        spool = self._opened()
        spool.execute("BEGIN")
        self.n += spool.executemany("INSERT OR IGNORE INTO spool VALUES (?, ?, ?, ?)", rows).rowcount
        spool.execute("COMMIT")

    def _lines(self, key: bytes, bodies: Sequence[Mapping[str, Any]]) -> bytes:
        assert self._asked is not None
        wire, stem = FILE_FORMS[self._asked.wire], stem_of(key)
        return b"".join(_encoded(wire.line(custom_id(stem, part), body)) for part, body in enumerate(bodies))

    def _opened(self) -> sqlite3.Connection:
        if self._spool is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            folder = tempfile.TemporaryDirectory(prefix=".questions-", dir=self.path.parent)
            self._spool = sqlite3.connect(Path(self._stack.enter_context(folder)) / "spool", isolation_level=None)
            self._stack.callback(self._spool.close)
            for pragma in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE"):
                self._spool.execute(f"PRAGMA {pragma}")
            self._spool.execute("CREATE TABLE spool (key BLOB PRIMARY KEY, text BLOB, question BLOB, lines BLOB)")
        return self._spool

    def save(self) -> list[Path]:
        """Write the files and the manifest; all of them appear, or none. What the manifest held before stays in it.

        raises : InputError where the manifest is there and cannot be read, or is for another judge
        """
        assert self._asked is not None
        before = self._before(self._asked)
        with ExitStack() as stack:
            parts = _Parts(self.path, self._most, stack)
            manifest = stack.enter_context(replacing(manifest_of(self.path)))
            manifest.write(head_line(self._asked))
            written: set[str] = set()
            for chunk in self._chunks():
                stems = [stem_of(key) for key, _, _ in chunk]
                for _, _, lines in chunk:
                    parts.write(lines)
                manifest.write(chunk_line(stems, [question for _, question, _ in chunk]))
                written.update(stems)
            for old in before.chunks() if before else ():
                if not written.issuperset(old.stems):
                    manifest.write(old.line)
        return parts.paths

    def _before(self, asked: Asked) -> Manifest | None:
        """What is in the place of the manifest."""
        path = manifest_of(self.path)
        if not path.exists():
            return None
        before = Manifest(path)
        if before.asked != asked:
            raise InputError(
                f"cannot write questions to {self.path}: its manifest {path} is of questions for another judge, "
                f"{before.asked.signature}, and these are for {asked.signature}. Name another file",
                source=str(self.path),
            )
        return before

    def _chunks(self) -> Iterator[list[tuple[bytes, Question, bytes]]]:
        """Keys, questions and lines, in the order of the prompts."""
        spool = self._opened()
        rowids = [row for (row,) in spool.execute("SELECT rowid FROM spool ORDER BY text, rowid")]
        query = "SELECT key, question, lines FROM spool WHERE rowid = ?"
        for start in range(0, len(rowids), CHUNK):
            rows = (spool.execute(query, (row,)).fetchone() for row in rowids[start : start + CHUNK])
            yield [(key, pickle.loads(question), lines) for key, question, lines in rows]


class _Parts:
    """Files of lines, none longer than may be; they take their names when the stack is closed."""

    def __init__(self, path: Path, most: tuple[int, int], stack: ExitStack) -> None:
        self.path = path
        self.paths: list[Path] = []
        self._most_lines, self._most_bytes = most
        self._stack = stack
        self._file: IO[bytes] | None = None
        self._n_lines = self._n_bytes = 0

    def write(self, lines: bytes) -> None:
        """Of one question."""
        n_lines, n_bytes = self._n_lines + lines.count(b"\n"), self._n_bytes + len(lines)
        if self._file is None or n_lines > self._most_lines or n_bytes > self._most_bytes:
            n = len(self.paths) + 1
            self.paths.append(self.path if n == 1 else self.path.with_stem(f"{self.path.stem}-{n}"))
            self._file = self._stack.enter_context(replacing(self.paths[-1]))
            n_lines, n_bytes = lines.count(b"\n"), len(lines)
        self._file.write(lines)
        self._n_lines, self._n_bytes = n_lines, n_bytes


def _encoded(line: Mapping[str, Any]) -> bytes:
    text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
    if not text.isascii():
        text = _BREAKS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return text.encode() + b"\n"


@contextmanager
def unasked_to(path: str | Path) -> Iterator[QuestionFile]:
    """Questions that come up inside are written to files, and end what asks them.

    raises : Unasked at the end, where there are any, also in the place of an error: it may be for want of the answers
    """
    with QuestionFile(path) as questions:
        try:
            yield questions
        except SynthscoreError:
            if not questions.n:
                raise
        if questions.n:
            paths = questions.save()
            what = "1 question" if questions.n == 1 else f"{questions.n:,} questions".replace(",", " ")
            raise Unasked(
                f"{what} in {', '.join(map(str, paths))}; have them answered, then `synthscore store add`, then the "
                "same command (docs/batches.md)"
            )
