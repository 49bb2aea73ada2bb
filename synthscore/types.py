"""The nouns: frozen, checked when made, so that no later step checks again. No files, no models.

A higher score is better. `rank` 1 is best; `order` lists indices, best first. Probabilities are natural logs, float64.
What cannot be scored is *unscored*: value NaN (JSON null) with a status and a reason, and it is counted.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from .errors import InputError, LadderError, TaskError, did_you_mean
from .signature import text_hash

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]
K = TypeVar("K")
V = TypeVar("V")


def encodable(text: str) -> bool:
    """False for a text that holds half a surrogate pair, as JSON's \\ud800 makes one: no encoding can write it."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def blank(text: str) -> bool:
    """Whether nothing of it can be seen: white space, zero-width characters, soft hyphens, byte order marks, ..."""
    if text[:1].isalnum():  # the usual case, and quick
        return False
    return all(char.isspace() or unicodedata.category(char) in ("Cc", "Cf") for char in text)


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Key -> the values that came with it, in their order; keys in the order in which they first came."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _require_text(value: object, what: str, name: str) -> None:
    if not isinstance(value, str) or blank(value):
        raise InputError(f"{what}: {name} is {value!r}, expected a text that is not empty", field=name, value=value)
    if not encodable(value):
        raise InputError(
            f"{what}: {name} holds half of a surrogate pair, no character: {value!r:.60}. Decode the source again",
            field=name,
            value=value,
        )


# ------------------------------------------------------------------------------------------------- tasks


@dataclass(frozen=True, slots=True)
class Attribute:
    """One quality of a text: what it means, and the phrases that questions are made of."""

    name: str
    description: str
    more: str  # comparative adjective phrase: "Summary 2 is ___ than Summary 1"
    better: str  # base-form verb phrase: "Does Summary 2 ___ than Summary 1?"
    worse: str  # its opposite

    def __post_init__(self) -> None:
        for name in ("name", "description", "more", "better", "worse"):
            value = getattr(self, name)
            if not isinstance(value, str) or blank(value) or not encodable(value):
                raise TaskError(f"attribute {self.name!r}: {name} is {value!r}, expected a phrase that is not empty")

    @property
    def title(self) -> str:
        return self.name.replace("_", " ").capitalize()


@dataclass(frozen=True, slots=True)
class Task:
    """A kind of writing to judge: its nouns, its attributes, the words of its answers, and its own templates.

    Two tasks are equal where they ask in the same words, wherever they were read.

    templates : name -> source, of a user's own task; what it has none of is the template set's
    folder : that a user's own task was read from; "" for one of the package's
    carried_by : the references that it came with; "" for a task that was named or is the package's
    """

    name: str
    context_noun: str  # "article": what texts are written for
    text_noun: str  # "summary": what is judged
    texts_noun: str  # "summaries"
    length: str  # what a writer is asked for: "two to four sentences"
    attributes: Mapping[str, Attribute]
    facts_noun: str = "background facts"
    paper_context: str = "context"  # the papers' template variable that holds the context
    max_new_tokens: int = 256
    words: Sequence[int] = ()  # the least and the most that a text may have; (): any
    labels: Sequence[str] = ("Better", "Worse", "Similar")  # the answers of `compare`, in the task's language
    yes_no: Sequence[str] = ("Yes", "No")  # and of `yes_no`
    templates: Mapping[str, str] = field(default_factory=dict)
    folder: str = field(default="", compare=False)
    carried_by: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        for column in ("name", "context_noun", "text_noun", "texts_noun", "length", "facts_noun", "paper_context"):
            value = getattr(self, column)
            if not _is_phrase(value):
                raise TaskError(f"task {self.name!r}: {column} is {value!r}, expected a phrase on one line")
        if self.name.startswith(".") or set(self.name) & set("/\\"):
            raise TaskError(
                f"task {self.name!r}: name is {self.name!r}, expected one that a folder can have: without / and \\, "
                "and with no . before it"
            )
        if not self.attributes:
            raise TaskError(f"task {self.name!r} has no attributes, expected at least one [attributes.NAME] table")
        if type(self.max_new_tokens) is not int or self.max_new_tokens < 1:
            raise TaskError(
                f"task {self.name!r}: max_new_tokens is {self.max_new_tokens!r}, expected a whole number >= 1"
            )
        if self.words != () and not _is_range(self.words):
            raise TaskError(
                f"task {self.name!r}: words is {self.words!r}, expected the least and the most words of a text, "
                "such as [8, 120]"
            )
        self._require_answers("labels", 3, 'of better, worse and similar, such as ["Besser", "Schlechter", "Gleich"]')
        self._require_answers("yes_no", 2, 'for yes and no, such as ["Ja", "Nein"]')
        for column in ("words", "labels", "yes_no"):  # lists of a file
            object.__setattr__(self, column, tuple(getattr(self, column)))

    def _require_answers(self, column: str, n: int, meaning: str) -> None:
        """raises : TaskError where the answers of a protocol are not n words that can be told apart"""
        answers: object = getattr(self, column)
        is_list = isinstance(answers, list | tuple) and len(answers) == n
        words = list(answers) if isinstance(answers, list | tuple) else []
        if not is_list or not all(_is_phrase(word) and word == word.strip() for word in words):
            raise TaskError(f"task {self.name!r}: {column} is {answers!r}, expected the {n} words {meaning}")
        if len({word.casefold() for word in words}) < n:
            raise TaskError(f"task {self.name!r}: {column} is {answers!r}, expected {n} different words {meaning}")

    def attribute(self, name: str) -> Attribute:
        if name not in self.attributes:
            raise TaskError(
                f"task {self.name!r} has no attribute {name!r}. It has: {', '.join(self.attributes)}. "
                "Own attributes go into the task.toml of a folder, named with --task FOLDER."
                f"{did_you_mean(name, self.attributes)}",
                task=self.name,
                attribute=name,
            )
        return self.attributes[name]


def _is_phrase(value: object) -> bool:
    """Whether it is a text on one line, in which something can be seen."""
    if not isinstance(value, str) or blank(value) or not encodable(value):
        return False
    return all(unicodedata.category(char) != "Cc" for char in value)


def _is_range(value: object) -> bool:
    """Whether it is two whole numbers from 1, the first no more than the second."""
    if not isinstance(value, list | tuple) or list(map(type, value)) != [int, int]:
        return False
    return bool(1 <= value[0] <= value[1])


# ------------------------------------------------------------------------------------------------- texts


@dataclass(frozen=True, slots=True)
class Context:
    """What texts are written for: an article, a conversation, a story idea."""

    id: str
    text: str
    facts: str = ""  # knowledge given to the writer, if any
    references: tuple[str, ...] = ()  # texts by people, if any: the degraded writer starts from the first

    def __post_init__(self) -> None:
        _require_text(self.id, "context", "id")
        _require_text(self.text, f"context {self.id!r}", "text")
        if not all(isinstance(reference, str) and not blank(reference) for reference in self.references):
            raise InputError(f"context {self.id!r}: references hold an empty text; leave it out", field="references")


def same_context(one: str, other: str) -> bool:
    """Whether two texts are of one context: the same words in the same order, whatever white space is between them."""
    return one == other or one.split() == other.split()


def context_key(text: str) -> str:
    """Hex sha256 of a context's text, equal for two texts that are the same_context."""
    return text_hash(" ".join(text.split()))


@dataclass(frozen=True, slots=True)
class Target:
    """A text to judge."""

    id: str
    context_id: str
    text: str
    system: str | None = None

    def __post_init__(self) -> None:
        _require_text(self.id, "target", "id")
        _require_text(self.context_id, f"target {self.id!r}", "context_id")
        _require_text(self.text, f"target {self.id!r}", "text")


@dataclass(frozen=True, slots=True)
class Rung:
    """One text of a ladder, with all that is needed to make it again.

    level : 1 (worst) .. N (best). fraction : (level - 1) / (N - 1), the part of its key that nested ladders share.
    parents : text hashes of the worse and the better rung it was written between; empty for the two extremes.
    provenance : who wrote it and how (writer, model, revision, template hash, decoding, seed, attempt, ...).
    A failed rung has status "failed", a reason, and no text.
    """

    level: int
    fraction: float
    text: str
    status: Literal["ok", "failed"] = "ok"
    reason: str = ""
    parents: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status not in ("ok", "failed"):
            raise LadderError(f"rung {self.level}: status is {self.status!r}, expected 'ok' or 'failed'")
        if self.status == "ok" and blank(self.text):
            raise LadderError(f"rung {self.level} is empty, expected a text, or status 'failed' with a reason")
        if self.status == "failed" and (self.text or not self.reason):
            raise LadderError(f"rung {self.level} failed: expected a reason and no text, got text {self.text!r}")
        if not 0.0 <= self.fraction <= 1.0:
            raise LadderError(f"rung {self.level}: fraction is {self.fraction}, expected 0 (worst) .. 1 (best)")


@dataclass(frozen=True, slots=True)
class Ladder:
    """Texts of rising quality for one context and attribute, worst first: two or more, all different.

    wanted : of a ladder with fewer rungs than were asked for, how many those were: see `scale`; None for all others
    shared : texts of every context are compared with it, not only those of its own
    """

    context_id: str
    task: str
    attribute: str
    rungs: tuple[Rung, ...]
    context: Context | None = None  # carried along in releases, so that scoring needs no second file
    wanted: int | None = None
    shared: bool = False

    def __post_init__(self) -> None:
        name = f"ladder {self.context_id}/{self.attribute}"
        if len(self.rungs) < 2:
            raise LadderError(f"{name}: {len(self.rungs)} rungs, expected at least 2. Add a text", **self._key)
        if [rung.level for rung in self.rungs] != list(range(1, len(self.rungs) + 1)):
            raise LadderError(
                f"{name}: levels are {[rung.level for rung in self.rungs]}, expected 1..{len(self.rungs)}, worst "
                "first. Number them without a gap",
                **self._key,
            )
        fractions = [rung.fraction for rung in self.rungs]
        if fractions != sorted(fractions):
            raise LadderError(
                f"{name}: fractions are {fractions}, expected none below the one before: levels count from the worst",
                **self._key,
            )
        texts = [rung.text for rung in self.usable]
        if len(set(texts)) < len(texts):
            raise LadderError(f"{name}: two rungs are the same text, expected all different. Change one", **self._key)
        if self.wanted is not None and (type(self.wanted) is not int or self.wanted < 2):
            raise LadderError(f"{name}: {self.wanted!r} rungs were wanted, expected a whole number from 2", **self._key)

    @property
    def _key(self) -> dict[str, str]:
        return {"context_id": self.context_id, "attribute": self.attribute}

    @property
    def n_rungs(self) -> int:
        return len(self.rungs)

    @property
    def scale(self) -> int:
        """Scores on this ladder are on 1 (as good as the worst rung) to this number (as the best): that of its rungs,
        or, where it has fewer than were wanted, of those, so that scores on short and on whole ladders mean the same.
        """
        return self.wanted or self.n_rungs

    @property
    def usable(self) -> tuple[Rung, ...]:
        """The rungs that have a text."""
        return tuple(rung for rung in self.rungs if rung.status == "ok")

    @property
    def hash(self) -> str:
        """Changes when any rung's text, level or status changes, or the scale."""
        scale = [f"scale:{self.scale}"] if self.scale != self.n_rungs else []
        return text_hash(*(f"{rung.level}:{rung.status}:{rung.text}" for rung in self.rungs), *scale)


@dataclass(frozen=True, slots=True)
class ChosenLadder:
    """A ladder that a text is compared with. context : that the text was written for, which the judge is shown"""

    ladder: Ladder
    context: Context


# ------------------------------------------------------------------------------------------------- results


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judge answered about a text compared with one rung of its ladder: probabilities, which sum to 1.

    swapped : asked the other way round, about the rung; better is of the text all the same
    n_samples : how many sampled answers the probabilities are the frequencies of; None: they are exact
    """

    level: int
    swapped: bool
    better: float
    worse: float
    similar: float
    n_samples: int | None = None


Status = Literal["ok", "partial", "unscored"]


@dataclass(frozen=True, slots=True)
class Score:
    """One text's score. value is None where status is "unscored"; higher is better.

    low, high : with a stderr, an interval that the score is likely in; without, the least and the greatest that it can
        be, one pair of limits over all that is missing, rungs and labels. An unscored text may have them
    status : "ok"; "partial" (some verdicts are missing, and the method makes up for them); or "unscored"
    details : the scoring's own further numbers (raw, unit, label_mass, ...)
    verdicts : where the text was compared with a ladder, so that the score can be computed again
    """

    id: str
    context_id: str
    attribute: str
    value: float | None
    stderr: float | None = None
    low: float | None = None
    high: float | None = None
    n_comparisons: int = 0
    status: Status = "ok"
    reason: str = ""
    details: Mapping[str, float] = field(default_factory=dict)
    verdicts: tuple[Verdict, ...] = ()

    def __post_init__(self) -> None:
        scored = self.value is not None and math.isfinite(self.value)
        if scored != (self.status != "unscored") or (self.status != "ok" and not self.reason):
            raise ValueError(f"score {self.id!r}: value {self.value}, status {self.status!r}, reason {self.reason!r}")

    @property
    def reasons(self) -> list[str]:
        """One for each rung, or rungs that failed alike, that has one."""
        return re.split(r"; (?=rungs? \d)", self.reason) if self.reason else []


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens that answers took, as far as known. one + other: of both.

    n_in : in all prompts, each as long as it is
    n_computed : of these, what the model ran over; the rest it shared with other prompts or found in a cache. With
        padding it may be more
    n_out : written, reasoning included
    n_reasoning : of these, the reasoning
    """

    n_in: int = 0
    n_computed: int = 0
    n_out: int = 0
    n_reasoning: int = 0

    @property
    def n_cached(self) -> int:
        """Tokens of prompts that were not run over again."""
        return max(self.n_in - self.n_computed, 0)

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            n_in=self.n_in + other.n_in,
            n_computed=self.n_computed + other.n_computed,
            n_out=self.n_out + other.n_out,
            n_reasoning=self.n_reasoning + other.n_reasoning,
        )
