"""Rows -> people's ratings of candidates, each of which goes by its id, or by its system."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from synthscore.errors import InputError
from synthscore.io.fields import Row, check_number, find_id, require_number, row_error
from synthscore.io.files import Source, read_rows
from synthscore.ranking.sets import Group
from synthscore.types import FloatArray

Human = float | Mapping[str, float | None]
"""A rating, or attribute -> rating; None where nobody rated."""


@dataclass(frozen=True, slots=True)
class CandidateRatings:
    """People's ratings of candidates; of one that was rated more than once, the mean.

    values : (context id, name of a candidate) -> ratings: numbers, or attribute -> number. The context id is "" where a
        row names none; under None are all rows, whatever their context.
    """

    source: str
    values: Mapping[tuple[str | None, str], Sequence[Human]]

    @classmethod
    def load(
        cls, source: Source, *, encoding: str = "utf-8", fields: Mapping[str, str] | None = None
    ) -> CandidateRatings:
        """Rows with id, or system, or both; human, a number or attribute -> number; and maybe context_id.

        raises : InputError for a row that holds no rating
        """
        values: dict[tuple[str | None, str], list[Human]] = {}
        for row in read_rows(source, encoding=encoding, fields=fields):
            if isinstance(row, InputError):
                raise row
            human = _human(row)
            names = {name for name in (find_id(row, "id"), find_id(row, "system")) if name is not None}
            if not names:
                seen = "nothing says which candidate it is about"
                raise row_error(row, "id", None, seen, "Add id, or system, or name their columns: id=COLUMN")
            for name in names:
                for key in (find_id(row, "context_id") or "", None):
                    values.setdefault((key, name), []).append(human)
        return cls(source if isinstance(source, str) else "the source of ratings", values)

    def of(self, ids: Sequence[str], by: Sequence[str], group: Group, attribute: str | None = None) -> FloatArray:
        """The ratings of a group's candidates, shape (N,); NaN where there are none.

        by, group : the columns that tell groups apart, and this one's values. A group of one context has the ratings of
            that context, or else those that name none: never another context's. A group over contexts has all.
        attribute : where `by` names none
        raises : InputError for ratings of other attributes
        """
        names = dict(zip(by, group, strict=True))
        wanted = names.get("attribute", attribute)
        means = []
        for name in ids:
            known = self.values.get((names.get("context_id"), name)) or self.values.get(("", name), [])
            ratings = [rating for human in known if (rating := self._rating(human, wanted)) is not None]
            means.append(float(np.mean(ratings)) if ratings else np.nan)
        return np.array(means)

    def _rating(self, human: Human, attribute: str | None) -> float | None:
        if not isinstance(human, Mapping):
            return human
        if attribute is None and len(human) == 1:
            return next(iter(human.values()))
        if attribute is None or attribute not in human:
            raise InputError(
                f"{self.source} rates {', '.join(map(repr, human))}, and {attribute!r} was asked for. Name one with "
                "--attribute"
            )
        return human[attribute]


def _human(row: Row) -> Human:
    human = row.values.get("human")
    if isinstance(human, str) and human.lstrip().startswith("{"):
        human = json.loads(human)
    expected, remedy = "a number, or a number for each attribute", "Name the column with --field human=COLUMN"
    if isinstance(human, Mapping):
        return {name: check_number(row, "human", one, expected, remedy=remedy) for name, one in human.items()}
    return require_number(row, "human", expected, remedy=remedy)
