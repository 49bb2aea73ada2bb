"""Rows of scores + ratings -> the scores of each rated text, and what did not match on either side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ...errors import InputError
from ...io.fields import Row, read_id, read_names, read_number, require_column, row_error
from ...io.files import Source, read_rows
from ...types import FloatArray
from .types import RatedText, Ratings


@dataclass(frozen=True, slots=True, eq=False)
class Joined:
    """Scores beside ratings.

    values : attribute -> score of each text, shape (n_texts,), in the order of ratings.texts; NaN where there is none
    unscored : attribute -> id of a text whose row holds no score -> the reason that it gives
    without_score : attribute -> ids of the texts that no row is about
    unmatched_scores : rows that are about no rated text, or about an attribute on which nobody rated
    partial : attribute -> id of a text whose score is partial -> the reason that its row gives
    signatures : attribute -> the signatures of its rows
    errors : rows that could not be read
    Attributes on which there are only ratings are in none of these.
    """

    values: Mapping[str, FloatArray]
    unscored: Mapping[str, Mapping[str, str]]
    without_score: Mapping[str, tuple[str, ...]]
    unmatched_scores: tuple[str, ...]
    signatures: Mapping[str, tuple[str, ...]]
    errors: tuple[InputError, ...] = ()
    partial: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """For people: what did not match, counted, with the first few names."""
        lines = []
        for name in self.values:
            if ids := self.without_score[name]:
                lines.append(f"{name}: {len(ids)} rated texts without a score: {_first(ids)}")
            if reasons := self.unscored[name]:
                lines.append(f"{name}: {len(reasons)} unscored: {_first(tuple(reasons))}")
        return lines + self.left_out

    @property
    def left_out(self) -> list[str]:
        """Lines: rows that are held against nothing, counted, with the first few."""
        lines = []
        if self.unmatched_scores:
            n = len(self.unmatched_scores)
            lines.append(f"{n} scores of texts that nobody rated: {_first(self.unmatched_scores)}")
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
    values: dict[str, FloatArray] = {}
    unscored: dict[str, dict[str, str]] = {}
    partial: dict[str, dict[str, str]] = {}
    signatures: dict[str, dict[str, None]] = {}
    seen: dict[tuple[str, int], int] = {}
    unmatched: list[str] = []
    errors: list[InputError] = []
    places = _Places(ratings, attribute)
    for row in read_rows(rows, encoding=encoding, fields=fields):
        try:
            if isinstance(row, InputError):
                raise row
            name, place, score = places.attribute(row), places.text(row), _score(row)
        except InputError as error:
            errors.append(error)
            continue
        if name is None or place is None:
            unmatched.append(f"row {row.number}, {_name(row)}/{row.values.get('attribute', attribute)}")
            continue
        text = ratings.texts[place]
        if (name, place) in seen:
            said = f"text {text.id!r} has a second score on {name}, after row {seen[name, place]}"
            raise row_error(row, "id", text.id, said, "Give one of them, or each method a file of its own")
        seen[name, place] = row.number
        column = values.setdefault(name, np.full(len(ratings), np.nan))
        if score is None:
            reason = row.values.get("reason") or row.values.get("status") or "no score"
            unscored.setdefault(name, {})[text.id] = str(reason)
        else:
            column[place] = score
            if row.values.get("status") == "partial":
                partial.setdefault(name, {})[text.id] = str(row.values.get("reason") or "partial")
        if signature := row.values.get("signature"):
            signatures.setdefault(name, {})[str(signature)] = None
    if not seen:
        why = f" The first row that could not be read says: {errors[0]}" if errors else ""
        raise InputError(
            f"no score is about a text of {ratings.name} on one of {', '.join(ratings.attributes)}; there are "
            f"{len(unmatched)} of other texts or attributes: {_first(tuple(unmatched))}. Expected rows with attribute, "
            f"score, and the id or the context_id and system of a rated text, such as {_example(ratings)}.{why}"
        )
    return Joined(
        values={name: values[name] for name in ratings.attributes if name in values},
        unscored={name: unscored.get(name, {}) for name in values},
        without_score={
            name: tuple(text.id for place, text in enumerate(ratings) if (name, place) not in seen) for name in values
        },
        unmatched_scores=tuple(unmatched),
        signatures={name: tuple(signatures.get(name, ())) for name in values},
        errors=tuple(errors),
        partial={name: partial.get(name, {}) for name in values},
    )


class _Places:
    """Which text and which attribute of the ratings a row is about."""

    def __init__(self, ratings: Ratings, attribute: str | None) -> None:
        self._texts, self._default = ratings.texts, attribute
        self._by_id = {text.id: place for place, text in enumerate(ratings)}
        systems = Counter((text.context_id, text.system) for text in ratings)
        self._by_system = {
            (text.context_id, text.system): place
            for place, text in enumerate(ratings)
            if text.system and systems[text.context_id, text.system] == 1
        }
        asked = Counter(ratings.asked_as.values())
        self._names = {task: name for name, task in ratings.asked_as.items() if asked[task] == 1}
        self._names |= {name: name for name in ratings.attributes}  # where one name means two things: the ratings'

    def attribute(self, row: Row) -> str | None:
        if "attribute" not in row.values and self._default is not None:
            return self._names.get(self._default)
        return self._names.get(read_id(row, "attribute"))

    def text(self, row: Row) -> int | None:
        names = read_names(row)
        place = self._by_id.get(names.id) if row.has("id") else None
        if place is not None and _agree(self._texts[place], names.context_id or ""):
            return place
        return self._by_system.get((names.context_id or "", names.system or ""))


def _agree(text: RatedText, context_id: str) -> bool:
    return not context_id or not text.context_id or context_id == text.context_id


def _score(row: Row) -> float | None:
    """None where the row says that there is none."""
    require_column(row, "score")
    number = read_number(row, "score")
    if number is not None and row.values.get("status") == "unscored":
        said = f"status is 'unscored', but score is {number:g}"
        raise row_error(row, "status", "unscored", said, "Mend whichever is wrong")
    return number


def _name(row: Row) -> str:
    return read_names(row).id


def _example(ratings: Ratings) -> str:
    return repr(ratings.texts[0].id) if len(ratings) else "none: there are no ratings"


def _first(names: tuple[str, ...], most: int = 3) -> str:
    return ", ".join(names[:most]) + (", ..." if len(names) > most else "")
