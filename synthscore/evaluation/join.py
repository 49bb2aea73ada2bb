"""Rows of scores + ratings -> the scores of each rated text, and what did not match on either side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import InputError
from ..io.fields import Row, read_id, read_names, read_number, require_column, row_error
from ..io.files import Source, read_rows
from ..io.scores import Scores
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

    @property
    def lines(self) -> list[str]:
        """For people: what did not match, counted, with the first few names."""
        lines = []
        for name, scores in self.scores.items():
            unscored = [score for score in scores if score.value is None]
            silent = [score.id for score in unscored if score.reason == NO_ROW]
            null = [score.id for score in unscored if score.reason != NO_ROW]
            lines += [f"{name}: {len(silent)} rated texts without a score: {_first(silent)}"] if silent else []
            lines += [f"{name}: {len(null)} unscored: {_first(null)}"] if null else []
        return lines + self.left_out

    @property
    def left_out(self) -> list[str]:
        """Lines: rows that are compared with nothing, counted, with the first few."""
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

    attribute : what rows without a column attribute are about

    A row is about the text of its id, if their contexts agree, or else of its context_id and system. Its attribute is
    one of the ratings, or the task's attribute that one of them is asked as.
    raises : InputError for a second row about a text and attribute, and where no row is about a rated text
    """
    found: dict[str, dict[str, Score]] = {}
    signatures: dict[str, dict[str, None]] = {}
    seen: dict[tuple[str, str], int] = {}
    unmatched: list[str] = []
    errors: list[InputError] = []
    by_id = {text.id: text for text in ratings}
    systems = Counter((text.context_id, text.system) for text in ratings)
    by_system = {key: text for text in ratings if text.system and systems[key := (text.context_id, text.system)] == 1}
    asked = Counter(ratings.asked_as.values())
    attributes = {task: name for name, task in ratings.asked_as.items() if asked[task] == 1}
    attributes |= {name: name for name in ratings.attributes}  # where one name means two things: the ratings'
    for row in read_rows(rows, encoding=encoding, fields=fields):
        try:
            if isinstance(row, InputError):
                raise row
            silent = attribute is not None and "attribute" not in row.values
            name = attributes.get(attribute or "" if silent else read_id(row, "attribute"))
            names = read_names(row)
            text = by_id.get(names.id) if row.has("id") else None
            if text is None or (names.context_id and text.context_id and names.context_id != text.context_id):
                text = by_system.get((names.context_id or "", names.system or names.id))  # rankings call a system id
            value = _value(row)
        except InputError as error:
            errors.append(error)
            continue
        if name is None or text is None:
            unmatched.append(f"row {row.number}, {names.id}/{row.values.get('attribute', attribute)}")
            continue
        if (name, text.id) in seen:
            twice = f"text {text.id!r} has a second score on {name}, after row {seen[name, text.id]}"
            raise row_error(row, "id", text.id, twice, "Give one of them, or each method a file of its own")
        seen[name, text.id] = row.number
        found.setdefault(name, {})[text.id] = _score(row, text, name, value)
        if signature := row.values.get("signature"):
            signatures.setdefault(name, {})[str(signature)] = None
    if not seen:
        why = f" The first row that could not be read says: {errors[0]}" if errors else ""
        example = repr(ratings.texts[0].id) if len(ratings) else "none: there are no ratings"
        others = f"; there are {len(unmatched)} of other texts or attributes: {_first(unmatched)}" if unmatched else ""
        raise InputError(
            f"no score is about a text of {ratings.name} on one of {', '.join(ratings.attributes)}{others}. "
            f"Expected rows with attribute, score, and the id or the context_id and system of a rated text, "
            f"such as {example}.{why}"
        )
    scores = {
        name: Scores(
            tuple(found[name].get(text.id) or text.unscored(name, NO_ROW) for text in ratings),
            Signature.merged(map(Signature.of_any, signatures.get(name, ()))),
        )
        for name in ratings.attributes
        if name in found
    }
    return Joined(scores, tuple(unmatched), tuple(errors))


def _value(row: Row) -> float | None:
    """None where the row says that there is none."""
    require_column(row, "score")
    number = read_number(row, "score")
    if number is not None and row.values.get("status") == "unscored":
        seen = f"status is 'unscored', but score is {number:g}"
        raise row_error(row, "status", "unscored", seen, "Mend whichever is wrong")
    return number


def _score(row: Row, text: RatedText, attribute: str, value: float | None) -> Score:
    status, reason = row.values.get("status"), row.values.get("reason")
    if value is None:
        return text.unscored(attribute, str(reason or status or "no score"))
    if status == "partial":
        return Score(text.id, text.context_id, attribute, value, status="partial", reason=str(reason or "partial"))
    return Score(text.id, text.context_id, attribute, value)


def _first(names: Sequence[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
