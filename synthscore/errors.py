"""The error tree. Every error says what could not be done, what was seen, what was expected and what to do next,
and carries its data as attributes, so that no caller parses the text."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any


class SynthscoreError(Exception):
    """Root of all errors that synthscore raises on purpose. Keyword arguments become attributes."""

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.__dict__.update(data)


class InputError(SynthscoreError):
    """A row or file that cannot be used, and what is known of it.

    source : the file. row : its number in the source, from 1; 0: not known. field : the column or option. value : what
    stood there
    """

    source: str = ""
    row: int = 0
    field: str = ""
    value: object = None

    @property
    def of_row(self) -> str:
        """The message without the name of the source: so a row of results is the same whatever its file is called."""
        return str(self).removeprefix(f"{self.source} ") if self.row else str(self)


def in_short(error: object, most: int) -> str:
    """The first sentence of a library's message, in one line of so many characters."""
    first = re.split(r"(?<=[.!?])\s", str(error).strip(), maxsplit=1)[0]
    words = " ".join(first.split()).rstrip(".")
    return words if len(words) <= most else words[: most - 3] + "..."


_REMEDIES = {
    errno.ENOENT: "Check the path",
    errno.EEXIST: "Name another: a file stands where a folder is needed",
    errno.ENOTDIR: "Name another: a file stands where a folder is needed",
    errno.ENOSPC: "Make room on the disk, or name a file elsewhere",
    errno.EDQUOT: "Make room on the disk, or name a file elsewhere",
    errno.EFBIG: "Make room on the disk, or name a file elsewhere",
    errno.EACCES: "Name one that you may read or write",
    errno.EROFS: "Name one that you may read or write",
}


def in_plain_words(error: OSError) -> str:
    """What the system refuses, of which file, and what to do."""
    what = error.strerror or str(error)
    if error.filename is not None:
        what = f"{error.filename}: {what}"
    return f"{what}. {_REMEDIES.get(error.errno or 0, 'See to that, and run again')}"


def why_unreadable(error: Exception) -> str:
    """Why a file is not what it should be, by what reading it raised."""
    if isinstance(error, OSError):
        return error.strerror or str(error)
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, json.JSONDecodeError):
        return f"it is not JSON ({error})"
    if isinstance(error, KeyError):
        return f"it has no {error}"
    if unknown := re.search(r"unexpected keyword argument ('\w+')", str(error)):
        return f"it has an unexpected {unknown[1]}"
    if isinstance(error, TypeError | AttributeError | IndexError):
        return "it is of another form"
    return str(error)


def unusable(name: str, value: object, expected: str, remedy: str = "Change it") -> InputError:
    """An option, or argument, that cannot be as it is."""
    return InputError(f"{name} is {value!r}, expected {expected}. {remedy}", field=name, value=value)


def require_kind(name: str, value: object, kind: type | tuple[type, ...], expected: str) -> None:
    """raises : InputError where a value is not of this kind; True and False are no numbers"""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise unusable(name, value, expected)


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """ " Did you mean 'coherence'?", for the end of a message; "" where nothing known is like the name."""
    by_spelling = {other.casefold(): other for other in known}
    close = get_close_matches(str(name).casefold(), by_spelling, n=1, cutoff=0.7)
    return f" Did you mean {by_spelling[close[0]]!r}?" if close else ""


def where_they_part(one: str, other: str, width: int = 40) -> tuple[str, str]:
    """Of two texts, for a message, the words around the place from which they differ; of those that are cut an ..."""
    one, other = (" ".join(text.split()) for text in (one, other))
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    start = max(0, same - width // 2)
    first, second = (
        ("..." if start else "") + text[start : start + width] + ("..." if len(text) > start + width else "")
        for text in (one, other)
    )
    return first, second


class TaskError(SynthscoreError):
    """An unknown task or attribute, or a task folder that does not say what it must."""


class TemplateError(SynthscoreError):
    """A template that is missing, does not parse, or names an undefined variable."""


class LadderError(SynthscoreError):
    """A ladder that cannot be made or used. Attributes where known: `context_id`, `attribute`, `level`."""


class DegradeError(SynthscoreError):
    """A text in which the damage asked for finds nothing to damage."""


class ReferencesError(SynthscoreError):
    """A references folder that is missing, unreadable, or not what its hashes say."""


class StoreError(SynthscoreError):
    """A store of answers that cannot be read or written."""


class EngineError(SynthscoreError):
    """A model that cannot be loaded, or fails its self-check."""


class LabelError(EngineError):
    """Labels that a model cannot tell apart or cannot say in the rendered position."""


class PromptTooLongError(EngineError):
    """A prompt with more tokens than the model takes. Attributes: `n_tokens`, `max_tokens`."""


class ServerError(EngineError):
    """A request to a model server that failed. Attributes: `status` (of HTTP, or None), `retryable` (the same request
    may succeed later), `fatal` (no request to this server can), `cut` (the connection broke off: somebody is there),
    `timed_out` (no answer in time), `retry_after` (seconds that it asked for, or None), `parameter` (that of the
    request which it refuses, or leaves unanswered; "" where it reports none)."""

    status: int | None = None
    retryable: bool = False
    fatal: bool = False
    cut: bool = False
    timed_out: bool = False
    retry_after: float | None = None
    parameter: str = ""


class Unasked(SynthscoreError):
    """Questions remain unasked on purpose: a limit is reached, or they were written to a file. What was answered is
    kept, so that whoever asks the same again goes on. It is not the failure of a row, so nothing between an engine and
    the command line may catch it; that ends with exit code 4 and the line "stopped: MESSAGE"."""


class Postponed(EngineError):
    """A question that was written to a file, to be answered later: the row of answers that it has until then. Whoever
    would ask more by its answer waits for it."""

    WORDS = "it was written to a file, and is not answered yet"

    def __init__(self) -> None:
        super().__init__(self.WORDS)


class SynthscoreWarning(UserWarning):
    """Something works, but not as one would expect."""


class RankingError(SynthscoreError):
    """Comparisons that do not determine scores."""


class BenchmarkError(SynthscoreError):
    """A benchmark that is not known, or whose files are missing, incomplete, or in a form that is not known.
    Attributes where known: `benchmark`, `folder`, `file`."""


class CertificateError(SynthscoreError):
    """A certificate that cannot be made, read or used. Attributes where known: `differs` (part of the signature ->
    (certified, now)), `needed` (labelled texts), `seen`."""


def alike(reason: str) -> str:
    """A reason without its names and numbers: what reasons of one kind have in common."""
    return re.sub(r"'[^']*'|\"[^\"]*\"|\S*\d\S*", "#", reason)


class Reasons:
    """Reasons, counted; those alike but for names and numbers are one. Of any number of texts, in flat memory."""

    MOST = 1000  # groups that are kept apart

    def __init__(self) -> None:
        self._groups: dict[str, tuple[int, str, bool]] = {}  # how many, the first, and whether others differ from it

    def add(self, *texts: str) -> None:
        for text in texts:
            key = alike(text)
            if key not in self._groups and len(self._groups) >= self.MOST:
                key = text = "many other reasons"
            n, first, differ = self._groups.get(key, (0, text, False))
            self._groups[key] = n + 1, first, differ or text != first

    def lines(self, most: int = 5) -> list[str]:
        """The most frequent first, each shown by its first."""
        ordered = sorted(self._groups.values(), key=lambda group: -group[0])
        lines = [f"  {n} x {'such as: ' if differ else ''}{first}" for n, first, differ in ordered[:most]]
        rest = sum(n for n, _, _ in ordered[most:])
        return lines + ([f"  {rest} x other reasons"] if rest else [])
