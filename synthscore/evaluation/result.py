"""The result of an evaluation: how far each method agrees with people. Nouns, their JSON, and the folder of a run."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..errors import InputError
from ..io.fields import parse_json
from ..io.scores import Scores, score_row
from ..io.write import plain, write_rows, write_whole
from ..signature import text_hash
from ..types import FloatArray
from .agreement import LEVELS, Agreement, Difference, Level, check_names, even_split
from .correlation import STATISTICS, Statistic
from .people import Reliability
from .ratings import Ratings

T = TypeVar("T")

FILE = "evaluation.json"
"""What a run's folder holds figures in."""


AUC = "auc"
"""As a statistic, at the level `pooled`: how well the scores tell good texts from others (Settings.good_from)."""


class FigureKey(NamedTuple):
    """Names a figure: the agreement of a method, on an attribute, at a level, by a statistic or AUC."""

    method: str
    attribute: str
    level: str
    statistic: str


@dataclass(frozen=True, slots=True)
class Settings:
    """Which figures are computed, and how.

    against : the method that all others are contrasted with; "" for none
    good_from : the least rating of a good text, for AUC at the level `pooled`; None: of each attribute the one that
        splits its texts most evenly (agreement.even_split)
    raises : InputError for a level or statistic that is not there
    """

    levels: Sequence[Level] = LEVELS
    statistics: Sequence[Statistic] = STATISTICS
    against: str = ""
    good_from: float | None = None

    def __post_init__(self) -> None:
        check_names(level=self.levels, statistic=self.statistics)

    @property
    def kinds(self) -> list[tuple[Level, Statistic]]:
        """Each level with each statistic."""
        return list(product(self.levels, self.statistics))

    def good_from_of(self, human: FloatArray) -> float | None:
        """The least rating of a good text, for an attribute with these ratings; None where there is none, or AUC is not
        computed."""
        if "pooled" not in self.levels:
            return None
        chosen = self.good_from
        if chosen is None:
            chosen = even_split(human)
        if np.isnan(chosen):
            return None
        return chosen


@dataclass(frozen=True, slots=True)
class Mean:
    """Plain mean of a method's agreement over attributes.

    value : NaN where the method has no agreement on one of them
    low, high : 95 % interval; None where there is none
    """

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Methods compared with people's ratings.

    scores : (method, attribute) -> scores of all texts, in the order of ratings.texts
    agreements : which figure -> agreement with people, with its interval
    means : (method, level, statistic) -> mean over attributes
    contrasts : which figure -> how much better the method agrees with people than settings.against does
    people : (attribute, level, statistic) -> how far people agree with each other; without those of whom only the mean
        is known
    good_from : attribute -> the rating from which on texts count as good
    left_out : what was left out before anything was measured; one line a reason, with a count
    """

    ratings: Ratings
    scores: Mapping[tuple[str, str], Scores]
    settings: Settings
    agreements: Mapping[FigureKey, Agreement]
    means: Mapping[tuple[str, str, str], Mean] = field(default_factory=dict)
    contrasts: Mapping[FigureKey, Difference] = field(default_factory=dict)
    people: Mapping[tuple[str, str, str], Reliability] = field(default_factory=dict)
    good_from: Mapping[str, float] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def methods(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(method for method, _ in self.scores))

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(attribute for _, attribute in self.scores))

    def find_agreement(
        self, method: str, attribute: str, level: str = "per_context", statistic: str = "spearman"
    ) -> Agreement:
        return self.agreements[FigureKey(method, attribute, level, statistic)]

    # --------------------------------------------------------------------------------------------- the folder

    def save(self, folder: str | os.PathLike[str]) -> None:
        """scores/METHOD.jsonl, ratings.jsonl and evaluation.json, of which `synthscore report` makes a page."""
        self.ratings.save(Path(folder) / "ratings.jsonl")
        for method in self.methods:
            write_rows(self._rows(method), _scores_file(folder, method))
        text = json.dumps(self.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
        write_whole(Path(folder) / FILE, text.encode() + b"\n")

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> Evaluation:
        """What `save` wrote; of the ratings without task and scales. raises : InputError for any other folder"""
        folder = Path(folder)
        try:
            content = parse_json((folder / FILE).read_text(encoding="utf-8"))
            return cls._from_json(content, folder)
        except (AttributeError, KeyError, OSError, RecursionError, TypeError, ValueError) as error:
            raise InputError(
                f"cannot read {folder / FILE}: it is not as `synthscore evaluate` writes it ({error!r}). "
                "Evaluate again",
                source=str(folder),
            ) from error

    @classmethod
    def _from_json(cls, content: Mapping[str, Any], folder: Path) -> Evaluation:
        """What to_json made, with the ratings and scores that lie beside it in the folder."""
        settings = Settings(**content["settings"])
        methods = content["methods"]
        names = {name: content["ratings"][name] for name in ("name", "source")}
        ratings = replace(Ratings.load(folder / "ratings.jsonl"), **names)
        figures = {name: method["attributes"] for name, method in methods.items()}
        means = {name: method["mean"] for name, method in methods.items()}
        scores = {}
        for method, attributes in figures.items():
            for attribute in attributes:
                scores[method, attribute] = Scores.load(_scores_file(folder, method), attribute=attribute)
        contrasts = {}
        for figure in content["contrasts"]:
            key = FigureKey(*(figure.pop(name) for name in FigureKey._fields))
            contrasts[key] = _restored(Difference, figure)
        agreements = {FigureKey(*key): _restored(Agreement, figure) for key, figure in _leaves(figures, 4)}
        people = {key: _restored(Reliability, figure) for key, figure in _leaves(content["people"], 3)}
        return cls(
            ratings=ratings,
            scores=scores,
            settings=settings,
            agreements=agreements,
            means={key: _restored(Mean, figure) for key, figure in _leaves(means, 3)},
            contrasts=contrasts,
            people=people,
            good_from=content.get("good_from", {}),
            left_out=tuple(content["left_out"]),
        )

    def _rows(self, method: str) -> Iterator[dict[str, Any]]:
        """Rows of scores as `synthscore score` writes them, with the method and the system."""
        for attribute in self.attributes:
            scores = self.scores[method, attribute]
            for score, text in zip(scores, self.ratings, strict=True):
                row = score_row(score, scores.signature, verdicts=bool(score.verdicts))
                names = {"method": method, "id": row.pop("id"), "context_id": text.context_id, "system": text.system}
                yield names | row

    def to_json(self) -> dict[str, Any]:
        """{"methods": {METHOD: {"attributes": {ATTRIBUTE: {LEVEL: {STATISTIC: {value, low, high, n, ...}}}},
        "mean": ..., "counts": ..., "signature": ...}}, "people": ..., "contrasts": [...], "ratings": ..., ...}"""
        contrasts = [key._asdict() | plain(asdict(figure)) for key, figure in self.contrasts.items()]
        ratings = {
            "name": self.ratings.name,
            "source": self.ratings.source,
            "n_texts": len(self.ratings),
            "n_contexts": len(set(self.ratings.context_ids)),
            "n_systems": len(set(self.ratings.systems) - {""}),
        }
        return {
            "methods": self._methods_json(),
            "people": _nested_json(self.people),
            "contrasts": contrasts,
            "ratings": ratings,
            "settings": plain(asdict(self.settings)),
            "good_from": dict(self.good_from),
            "left_out": list(self.left_out),
        }

    def _methods_json(self) -> dict[str, Any]:
        figures = _nested_json(self.agreements)
        means = _nested_json(self.means)
        methods = {}
        for method in self.methods:
            scores = {attribute: self.scores[method, attribute] for attribute in self.attributes}
            methods[method] = {
                "attributes": figures[method],
                "mean": means[method],
                "counts": {attribute: _counts(column) for attribute, column in scores.items()},
                "signature": {attribute: str(column.signature) for attribute, column in scores.items()},
            }
        return methods


def _counts(scores: Scores) -> dict[str, int]:
    status = [score.status for score in scores]
    return {
        "scored": len(status) - status.count("unscored"),
        "partial": status.count("partial"),
        "unscored": status.count("unscored"),
    }


def _nested_json(figures: Mapping[Any, Any]) -> dict[str, Any]:
    """Figures as JSON in mappings, one for each part of a key: {(a, b): figure} -> {a: {b: its fields}}."""
    nested: dict[str, Any] = {}
    for (*outer, last), figure in figures.items():
        inner = nested
        for name in outer:
            inner = inner.setdefault(name, {})
        inner[last] = plain(asdict(figure))
    return nested


def _leaves(nested: Mapping[str, Any], depth: int) -> Iterator[tuple[Any, Any]]:
    """The inverse of _nested_json: keys of `depth` parts, each with the fields of its figure."""
    for name, inner in nested.items():
        if depth == 1:
            yield (name,), inner
        else:
            for key, figure in _leaves(inner, depth - 1):
                yield (name, *key), figure


def _restored(noun: type[T], values: Mapping[str, Any]) -> T:
    """A noun of this type from its JSON, which has null for NaN."""
    numbers = {field.name for field in fields(noun) if field.type == "float"}  # type: ignore[arg-type]
    restored = dict(values)
    for name, value in values.items():
        if value is None and name in numbers:
            restored[name] = np.nan
    return noun(**restored)


def _scores_file(folder: str | os.PathLike[str], method: str) -> Path:
    """Named after the method; a name that is no file's name on every system gets a hash besides."""
    name = re.sub(r"[^\w.,+-]+", "_", method)[:100]
    if name != method:
        name = f"{name}-{text_hash(method)[:6]}"
    return Path(folder) / "scores" / f"{name}.jsonl"
