"""Rows of scores + ratings -> the scores of each rated text, and what did not match on either side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..errors import InputError
from ..io.fields import Row, read_id, read_names, read_number, require_column, row_error
from ..io.files import Source, read_rows
from ..io.scores import Scores
from ..scoring.method import Tools
from ..signature import Signature
from ..types import Score
from .ratings import RatedText, Ratings

NO_ROW = "it has no row of scores"
"""Why a text is unscored that no row is about."""


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Scores beside ratings.

    scores : attribute -> the scores of all texts, in the order of ratings.texts, with the reason where one has none;
        without attributes on which there are only ratings
    unmatched : rows that are about no rated text, or about an attribute on which nobody rated
    errors : rows that could not be read
    """

    scores: Mapping[str, Scores]
    unmatched: tuple[str, ...] = ()
    errors: tuple[InputError, ...] = ()

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        """The scores of these texts, all of which were joined, as a method of evaluation gives them."""
        ids = {text.id for text in ratings}
        column = self.scores[attribute]
        return Scores(tuple(score for score in column if score.id in ids), column.signature)

    @property
    def lines(self) -> list[str]:
        """Lines for people: what did not match, counted, with the first few names."""
        lines = []
        for name, scores in self.scores.items():
            unscored = [score for score in scores if score.value is None]
            without_row = [score.id for score in unscored if score.reason == NO_ROW]
            with_reason = [score.id for score in unscored if score.reason != NO_ROW]
            if without_row:
                lines.append(f"{name}: {len(without_row)} rated texts without a score: {_first(without_row)}")
            if with_reason:
                lines.append(f"{name}: {len(with_reason)} unscored: {_first(with_reason)}")
        return lines + self.left_out

    @property
    def left_out(self) -> list[str]:
        """Lines for people: rows that are compared with nothing, counted, with the first few."""
        lines = []
        if self.unmatched:
            lines.append(f"{len(self.unmatched)} scores of texts that nobody rated: {_first(self.unmatched)}")
        if self.errors:
            lines.append(f"{len(self.errors)} rows that hold no score, such as: {self.errors[0]}")
        return lines


def join(
    ratings: Ratings,
    rows: Source,
    *,
    encoding: str = "utf-8",
    fields: Mapping[str, str] | None = None,
    attribute: str | None = None,
) -> Joined:
    """Rows as `synthscore score` writes them, or any with attribute, score, and id or context_id and system.

    fields : our name -> the rows' column, where they differ
    attribute : what rows without a column attribute are about

    A row is about the text of its id, if their contexts agree, or else of its context_id and system. Its attribute is
    one of the ratings, or the task's attribute that one of them is asked as.
    raises : InputError for a second row about a text and attribute, and where no row is about a rated text
    """
    lookup = _Lookup.of_ratings(ratings)
    matched = _Matched()
    unmatched: list[str] = []
    errors: list[InputError] = []
    for row in read_rows(rows, encoding=encoding, fields=fields):
        try:
            if isinstance(row, InputError):
                raise row
            match = lookup.find(row, attribute)
            value = _read_score(row)
        except InputError as error:
            errors.append(error)
            continue
        if match.attribute is None or match.text is None:
            unmatched.append(f"row {row.number}, {match.id}/{row.values.get('attribute', attribute)}")
        else:
            matched.add(row, match.text, match.attribute, value)
    if not matched.scores:
        raise _nothing_matched(ratings, unmatched, errors)
    scores = {name: matched.of_all(ratings, name) for name in ratings.attributes if name in matched.scores}
    return Joined(scores, unmatched=tuple(unmatched), errors=tuple(errors))


# ------------------------------------------------------------------------------------------------- rated texts


class _Match(NamedTuple):
    """What a row is about.

    id : that the row gives
    text, attribute : of the ratings; None where they have no such text or attribute
    """

    id: str
    text: RatedText | None
    attribute: str | None


@dataclass(frozen=True, slots=True)
class _Lookup:
    """How rows name what was rated.

    by_id : text's id -> text
    by_system : context's id and system -> text, where there is one text of that system alone
    attributes : name that rows give -> attribute of the ratings
    """

    by_id: Mapping[str, RatedText]
    by_system: Mapping[tuple[str, str], RatedText]
    attributes: Mapping[str, str]

    @classmethod
    def of_ratings(cls, ratings: Ratings) -> _Lookup:
        n_texts = Counter((text.context_id, text.system) for text in ratings)
        by_system = {}
        for text in ratings:
            key = (text.context_id, text.system)
            if text.system and n_texts[key] == 1:
                by_system[key] = text
        n_meanings = Counter(ratings.asked_as.values())
        attributes = {task: name for name, task in ratings.asked_as.items() if n_meanings[task] == 1}
        # A name that the ratings and the task give to different attributes means that of the ratings.
        attributes |= {name: name for name in ratings.attributes}
        return cls(by_id={text.id: text for text in ratings}, by_system=by_system, attributes=attributes)

    def find(self, row: Row, attribute: str | None) -> _Match:
        """attribute : what rows without a column attribute are about. raises : InputError for a row without names"""
        if attribute is None or "attribute" in row.values:
            attribute = read_id(row, "attribute")
        names = read_names(row)
        text = self.by_id.get(names.id) if row.has("id") else None
        contexts_differ = text and names.context_id and text.context_id and names.context_id != text.context_id
        if text is None or contexts_differ:
            system = names.system or names.id  # rows of rankings call a system id
            text = self.by_system.get((names.context_id or "", system))
        return _Match(names.id, text, self.attributes.get(attribute))


# ------------------------------------------------------------------------------------------------- scores


@dataclass(frozen=True, slots=True)
class _Matched:
    """Scores of rated texts.

    scores : attribute -> text's id -> score
    rows : attribute and text's id -> number of the row
    signatures : attribute -> those of its rows, in their order; a mapping, because sets have none
    """

    scores: dict[str, dict[str, Score]] = field(default_factory=dict)
    rows: dict[tuple[str, str], int] = field(default_factory=dict)
    signatures: dict[str, dict[str, None]] = field(default_factory=dict)

    def add(self, row: Row, text: RatedText, attribute: str, value: float | None) -> None:
        """raises : InputError for a second row about a text and attribute"""
        key = (attribute, text.id)
        if key in self.rows:
            twice = f"text {text.id!r} has a second score on {attribute}, after row {self.rows[key]}"
            raise row_error(row, "id", text.id, twice, "Give one of them, or each method a file of its own")
        self.rows[key] = row.number
        self.scores.setdefault(attribute, {})[text.id] = _score(row, text, attribute, value)
        signature = row.values.get("signature")
        if signature:
            self.signatures.setdefault(attribute, {})[str(signature)] = None

    def of_all(self, ratings: Ratings, attribute: str) -> Scores:
        """Of all rated texts; those that no row is about are unscored."""
        by_id = self.scores[attribute]
        scores = [by_id.get(text.id) or text.unscored(attribute, NO_ROW) for text in ratings]
        signatures = [Signature.of_any(signature) for signature in self.signatures.get(attribute, ())]
        return Scores(tuple(scores), Signature.merged(signatures))


def _read_score(row: Row) -> float | None:
    """None where the row says that there is none. raises : InputError"""
    require_column(row, "score")
    number = read_number(row, "score")
    if number is not None and row.values.get("status") == "unscored":
        contradiction = f"status is 'unscored', but score is {number:g}"
        raise row_error(row, "status", "unscored", contradiction, "Mend whichever is wrong")
    return number


def _score(row: Row, text: RatedText, attribute: str, value: float | None) -> Score:
    status = row.values.get("status")
    reason = row.values.get("reason")
    if value is None:
        return text.unscored(attribute, str(reason or status or "no score"))
    if status == "partial":
        return Score(text.id, text.context_id, attribute, value, status="partial", reason=str(reason or "partial"))
    return Score(text.id, text.context_id, attribute, value)


def _nothing_matched(ratings: Ratings, unmatched: Sequence[str], errors: Sequence[InputError]) -> InputError:
    example = repr(ratings.texts[0].id) if len(ratings) else "none: there are no ratings"
    others = ""
    first_error = ""
    if unmatched:
        others = f"; there are {len(unmatched)} of other texts or attributes: {_first(unmatched)}"
    if errors:
        first_error = f" The first row that could not be read says: {errors[0]}"
    return InputError(
        f"no score is about a text of {ratings.name} on one of {', '.join(ratings.attributes)}{others}. "
        f"Expected rows with attribute, score, and the id or the context_id and system of a rated text, "
        f"such as {example}.{first_error}"
    )


def _first(names: Sequence[str], most: int = 3) -> str:
    more = ", ..." if len(names) > most else ""
    return ", ".join(names[:most]) + more
