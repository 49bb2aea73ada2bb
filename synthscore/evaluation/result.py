"""What an evaluation found: how far each method agrees with people. Nouns and their JSON; no files, no models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..io.write import plain
from ..types import FloatArray
from .agreement import LEVELS, NAN_POLICIES, STATISTICS, Agreement, Difference, Reliability


class Place(NamedTuple):
    """Where a figure stands: the agreement of which method, on which attribute, at which level, by which statistic."""

    method: str
    attribute: str
    level: str
    statistic: str


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """What a method says of each text on one attribute.

    values : shape (n_texts,), in the order of the ratings' texts; NaN where unscored
    signature : of the scores; "" where the method could score nothing
    n_partial : texts scored only in part
    reasons : why texts are unscored, one for each that is
    """

    method: str
    attribute: str
    values: FloatArray
    signature: str = ""
    n_partial: int = 0
    reasons: tuple[str, ...] = ()

    @property
    def n_scored(self) -> int:
        return int((~np.isnan(self.values)).sum())

    @property
    def n_unscored(self) -> int:
        return len(self.values) - self.n_scored


@dataclass(frozen=True, slots=True)
class Settings:
    """Which figures are computed, and how.

    against : the method that all others are contrasted with; "" for none
    n_resamples : of contexts, the same for all figures; 0: no intervals
    raises : ValueError for a level, statistic or policy that is not there, and for contrasts without resamples
    """

    levels: Sequence[str] = LEVELS
    statistics: Sequence[str] = STATISTICS
    nan_policy: str = "zero"
    against: str = ""
    n_resamples: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        for what, names, known in (
            ("levels", self.levels, LEVELS),
            ("statistics", self.statistics, STATISTICS),
            ("nan_policy", (self.nan_policy,), NAN_POLICIES),
        ):
            if not names or not set(names) <= set(known):
                raise ValueError(f"{what} is {getattr(self, what)!r}, expected of {', '.join(known)}")
        if self.n_resamples < (1 if self.against else 0):
            raise ValueError(f"n_resamples is {self.n_resamples}, expected 0 or more, and 1 or more with `against`")


class Mean(NamedTuple):
    """Plain mean of a method's agreement over attributes, NaN where one of them has none; low, high : its interval."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Contrast:
    """How much better a method agrees with people than `against` does.

    p_holm, p_bh : found.p corrected for all contrasts at this level and by this statistic (Holm; Benjamini and
        Hochberg); None where there is no p
    """

    place: Place
    against: str
    found: Difference
    p_holm: float | None
    p_bh: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Methods held against people's ratings.

    name, source : of the ratings. hash : of their texts and numbers
    columns : (method, attribute) -> what the method said
    agreements : place -> agreement with people, with its interval
    means : (method, level, statistic) -> mean over attributes
    contrasts : of each method with settings.against
    people : (attribute, level, statistic) -> how far people agree with each other; without those of whom only the mean
        is known
    left_out : what was left out before anything was measured; one line a reason, with a count
    """

    name: str
    source: str
    hash: str
    n_texts: int
    n_contexts: int
    n_systems: int
    methods: tuple[str, ...]
    attributes: tuple[str, ...]
    settings: Settings
    columns: Mapping[tuple[str, str], Column]
    agreements: Mapping[Place, Agreement]
    means: Mapping[tuple[str, str, str], Mean] = field(default_factory=dict)
    contrasts: tuple[Contrast, ...] = ()
    people: Mapping[tuple[str, str, str], Reliability] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def at(self, method: str, attribute: str, level: str = "per_context", statistic: str = "spearman") -> Agreement:
        return self.agreements[Place(method, attribute, level, statistic)]

    def to_json(self) -> dict[str, Any]:
        """{"methods": {METHOD: {"attributes": {ATTRIBUTE: {LEVEL: {STATISTIC: {value, low, high, n, skipped, ...}}}},
        "mean": ..., "counts": ..., "signature": ...}}, "people": ..., "contrasts": [...], "ratings": ..., ...}"""
        methods = {method: {"attributes": self._figures(method), **self._more(method)} for method in self.methods}
        return {"methods": methods, **self._rest()}

    def of_one_method(self) -> dict[str, Any]:
        """{ATTRIBUTE: {LEVEL: {STATISTIC: {value, low, high, n, skipped, ...}}}, "about": ...}, of the only method."""
        if "about" in self.attributes:
            raise InputError(
                "cannot write the JSON of one file of scores: an attribute is named 'about', as is the part that holds "
                "all but the attributes. Rename it, or give the file as --methods file:SCORES",
                value="about",
            )
        (method,) = self.methods
        return {**self._figures(method), "about": {"method": method, **self._more(method), **self._rest()}}

    def _figures(self, method: str) -> dict[str, Any]:
        return {
            attribute: {
                level: {
                    statistic: _figure(self.at(method, attribute, level, statistic))
                    for statistic in self.settings.statistics
                }
                for level in self.settings.levels
            }
            for attribute in self.attributes
        }

    def _more(self, method: str) -> dict[str, Any]:
        columns = {attribute: self.columns[method, attribute] for attribute in self.attributes}
        means = {
            level: {
                statistic: plain(self.means[method, level, statistic]._asdict())
                for statistic in self.settings.statistics
            }
            for level in self.settings.levels
        }
        return {
            "mean": means,
            "counts": {
                attribute: {"scored": column.n_scored, "partial": column.n_partial, "unscored": column.n_unscored}
                for attribute, column in columns.items()
            },
            "signature": {attribute: column.signature for attribute, column in columns.items()},
        }

    def _rest(self) -> dict[str, Any]:
        people: dict[str, Any] = {}
        for (attribute, level, statistic), found in self.people.items():
            people.setdefault(attribute, {}).setdefault(level, {})[statistic] = plain(asdict(found))
        ratings = ("name", "source", "hash", "n_texts", "n_contexts", "n_systems")
        return {
            "people": people,
            "contrasts": [
                {**each.place._asdict(), **plain(asdict(each.found) | {"p_holm": each.p_holm, "p_bh": each.p_bh})}
                for each in self.contrasts
            ],
            "ratings": {name: getattr(self, name) for name in ratings},
            "settings": plain(asdict(self.settings)),
            "left_out": list(self.left_out),
        }


_SHORT = {"n_skipped": "skipped", "n_constant": "constant", "n_unscored": "unscored", "n_unrated": "unrated"}


def _figure(found: Agreement) -> dict[str, Any]:
    first = dict.fromkeys(("value", "low", "high", "n"))
    figure: dict[str, Any] = first | {_SHORT.get(name, name): value for name, value in plain(asdict(found)).items()}
    return figure
