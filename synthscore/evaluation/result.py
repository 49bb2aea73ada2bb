"""What an evaluation found: how far each method agrees with people. Nouns, their JSON, and the folder of a run."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InputError
from ..io.scores import Scores, score_row
from ..io.write import plain, replacing, write_rows
from ..signature import text_hash
from .agreement import LEVELS, NAN_POLICIES, Agreement, Difference
from .correlation import STATISTICS
from .people import Reliability
from .ratings import Ratings


class Place(NamedTuple):
    """Where a figure stands: the agreement of which method, on which attribute, at which level, by which statistic."""

    method: str
    attribute: str
    level: str
    statistic: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Which figures are computed, and how.

    against : the method that all others are contrasted with; "" for none
    n_resamples : of contexts, the same for all figures; 0: no intervals
    raises : InputError for a level, statistic or policy that is not there, and for contrasts without resamples
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
                value = getattr(self, what)
                raise InputError(f"{what} is {value!r}, expected of {', '.join(known)}. Name some of them", value=value)
        if self.n_resamples < (1 if self.against else 0):
            raise InputError(
                f"n_resamples is {self.n_resamples}, expected 0 or more, and 1 or more with `against`. Raise it",
                value=self.n_resamples,
            )

    @property
    def kinds(self) -> list[tuple[str, str]]:
        """Each level with each statistic."""
        return [(level, statistic) for level in self.levels for statistic in self.statistics]


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
    """Methods compared with people's ratings.

    scores : (method, attribute) -> scores of all texts, in the order of ratings.texts
    agreements : place -> agreement with people, with its interval
    means : (method, level, statistic) -> mean over attributes
    contrasts : of each method with settings.against
    people : (attribute, level, statistic) -> how far people agree with each other; without those of whom only the mean
        is known
    left_out : what was left out before anything was measured; one line a reason, with a count
    """

    ratings: Ratings
    scores: Mapping[tuple[str, str], Scores]
    settings: Settings
    agreements: Mapping[Place, Agreement]
    means: Mapping[tuple[str, str, str], Mean] = field(default_factory=dict)
    contrasts: tuple[Contrast, ...] = ()
    people: Mapping[tuple[str, str, str], Reliability] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(method for method, _ in self.scores))

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(attribute for _, attribute in self.scores))

    def at(self, method: str, attribute: str, level: str = "per_context", statistic: str = "spearman") -> Agreement:
        return self.agreements[Place(method, attribute, level, statistic)]

    # --------------------------------------------------------------------------------------------- the folder

    def save(self, folder: str | os.PathLike[str]) -> None:
        """scores/METHOD.jsonl, ratings.jsonl and evaluation.json, of which `synthscore report` makes a page."""
        self.ratings.save(Path(folder) / "ratings.jsonl")
        for method in self.methods:
            write_rows(self._rows(method), Path(folder) / "scores" / _file_name(method))
        text = json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
        with replacing(Path(folder) / "evaluation.json") as file:
            file.write(text.encode() + b"\n")

    def _rows(self, method: str) -> Iterator[dict[str, Any]]:
        """Rows of scores as `synthscore score` writes them, with the method and the system."""
        for attribute in self.attributes:
            scores = self.scores[method, attribute]
            for score, text in zip(scores, self.ratings, strict=True):
                row = score_row(score, scores.signature, verdicts=bool(score.verdicts))
                whose = {"method": method, "id": row.pop("id"), "context_id": text.context_id, "system": text.system}
                yield whose | row

    # --------------------------------------------------------------------------------------------- JSON

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
        return {attribute: self._by_kind(partial(self._figure, method, attribute)) for attribute in self.attributes}

    def _figure(self, *place: str) -> dict[str, Any]:
        figure: dict[str, Any] = dict.fromkeys(("value", "low", "high", "n"))
        found = plain(asdict(self.at(*place)))
        return figure | {_SHORT.get(name, name): value for name, value in found.items()}

    def _by_kind(self, of: Any) -> dict[str, Any]:
        statistics = self.settings.statistics
        return {level: {statistic: of(level, statistic) for statistic in statistics} for level in self.settings.levels}

    def _more(self, method: str) -> dict[str, Any]:
        counts = {}
        for attribute in self.attributes:
            status = [score.status for score in self.scores[method, attribute]]
            n_scored = len(status) - status.count("unscored")
            counts[attribute] = {
                "scored": n_scored,
                "partial": status.count("partial"),
                "unscored": status.count("unscored"),
            }
        return {
            "mean": self._by_kind(lambda level, statistic: plain(self.means[method, level, statistic]._asdict())),
            "counts": counts,
            "signature": {attribute: str(self.scores[method, attribute].signature) for attribute in self.attributes},
        }

    def _rest(self) -> dict[str, Any]:
        people: dict[str, Any] = {}
        for (attribute, level, statistic), found in self.people.items():
            people.setdefault(attribute, {}).setdefault(level, {})[statistic] = plain(asdict(found))
        ratings = self.ratings
        return {
            "people": people,
            "contrasts": [
                {**each.place._asdict(), **plain(asdict(each.found) | {"p_holm": each.p_holm, "p_bh": each.p_bh})}
                for each in self.contrasts
            ],
            "ratings": {
                "name": ratings.name,
                "source": ratings.source,
                "hash": ratings.hash,
                "n_texts": len(ratings),
                "n_contexts": len(set(ratings.context_ids)),
                "n_systems": len(set(ratings.systems) - {""}),
            },
            "settings": plain(asdict(self.settings)),
            "left_out": list(self.left_out),
        }


_SHORT = {"n_skipped": "skipped", "n_constant": "constant", "n_unscored": "unscored", "n_unrated": "unrated"}


def _file_name(method: str) -> str:
    """Named after the method; a name that is no file's name on every system gets a hash besides."""
    name = re.sub(r"[^\w.,+-]+", "_", method)[:100]
    return f"{name}.jsonl" if name == method else f"{name}-{text_hash(method)[:6]}.jsonl"
