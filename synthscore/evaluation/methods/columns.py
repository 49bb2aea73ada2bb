"""Methods made of what is there already: a column of scores out of a file, and sums of methods.

    file:PATH                          columns score, id or context_id and system, and attribute
    file:PATH:score=COLUMN,id=COLUMN   where they have other names
    zsum(A,B)      sum over methods of  weight (x - mean) / sd,  mean and sd (population) over the texts of the context
    ranksum(A,B)   sum over methods of  weight r,  r = 1 for the lowest text of the context; equal ones share the mean

So what any other tool gives the texts stands in the same tables. Rows without a column attribute count on every
attribute. A weight may stand before each method of a sum: `zsum(-1*file:PATH)` turns a column round, where lower is
better. A sum compares the texts of one context; between contexts it says nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...io.scores import Scores
from ...signature import Signature
from ...types import FloatArray
from ..join import NO_ROW, join
from ..ratings import Ratings
from .base import Kind, Method, MethodError, Tools, scored, signed


def file_column(name: str) -> Method:
    """The method of a spec's text behind "file:".

    raises : MethodError for a path that is no file, or an option that is not there
    """
    path, options = re.fullmatch(r"(.*?)(?::(\w+=.*))?", name.strip(), re.DOTALL).groups()  # type: ignore[union-attr]
    if not Path(path).is_file():
        raise MethodError(
            f"cannot read the scores file:{name}: there is no file {path!r}. Check the path", spec=f"file:{name}"
        )
    return Kind(_file, "", fixed={"path": Path(path)}).method(f"file:{name}", options or "")


def _file(
    path: Path,
    score: str = "score",
    id: str = "id",
    context_id: str = "context_id",
    system: str = "system",
    attribute: str = "attribute",
) -> Method:
    given = {"score": score, "id": id, "context_id": context_id, "system": system, "attribute": attribute}
    return FileColumn(path, {name: column for name, column in given.items() if column != name})


@dataclass(frozen=True, slots=True)
class FileColumn:
    """Scores out of a file. fields : our name -> the file's column, where they differ

    Signed with the file's hash and, where its rows have one signature, the parts of that: file.model:...
    raises : InputError where two rows are about one text and attribute, or none is about a rated text
    """

    path: Path
    fields: Mapping[str, str]

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        found = join(ratings, self.path, fields=self.fields, attribute=attribute)
        if attribute not in found.scores:
            raise MethodError(
                f"{self.path} holds no scores on {attribute}, only on {', '.join(found.scores)}. Leave it or the "
                "file out",
                attribute=attribute,
            )
        scores, lost = found.scores[attribute], "; ".join([NO_ROW, *found.left_out])
        rows = [replace(score, reason=lost) if score.reason == NO_ROW else score for score in scores]
        digest = hashlib.sha256(self.path.read_bytes()).hexdigest()[:12]
        parts = signed(method="file", file=f"{self.path.name}@{digest}", **self.fields).parts
        if not scores.signature.mixed:
            parts += tuple((f"file.{key}", value) for key, value in scores.signature.parts)
        return scored(ratings, attribute, rows, Signature(parts))


# ------------------------------------------------------------------------------------------------- sums


def z_scores(values: FloatArray) -> FloatArray:
    """(x - mean) / sd (population), shape (n,); 0 where all are equal up to rounding: no text stands out."""
    if np.ptp(values) <= 1e-12 * np.abs(values).max():
        return np.zeros_like(values)
    z: FloatArray = (values - values.mean()) / values.std()
    return z


def mid_ranks(values: FloatArray) -> FloatArray:
    """1 for the lowest, n for the highest, shape (n,); equal values share the mean of their ranks."""
    from scipy.stats import rankdata

    ranks: FloatArray = rankdata(values)
    return ranks


SUMS: Mapping[str, Callable[[FloatArray], FloatArray]] = {"zsum": z_scores, "ranksum": mid_ranks}


def parse_sum(specs: Sequence[str]) -> tuple[tuple[float, ...], tuple[str, ...]]:
    """Weight and spec of each: "2*ladder" is 2, "ladder"."""
    found = [re.fullmatch(r"(?:(-?\d+(?:\.\d+)?)\*)?(.*)", spec.strip(), re.DOTALL) for spec in specs]
    weights, names = zip(*(match.groups() for match in found if match), strict=True)
    return tuple(float(weight or 1) for weight in weights), names


@dataclass(frozen=True, slots=True)
class Sum:
    """Adds up methods. A text that one of them does not score is unscored, with its reason.

    specs : as they are shown, with their weights
    Means, deviations and ranks are over the texts of a context that all methods score.
    """

    how: str
    specs: tuple[str, ...]
    parts: tuple[Method, ...]
    weights: tuple[float, ...]

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        added = [part(ratings, attribute, tools) for part in self.parts]
        found: list[float | str] = []
        together: dict[str, list[int]] = defaultdict(list)  # context -> the texts that all methods score
        for row, text in enumerate(ratings):
            here = [(spec, scores[row]) for spec, scores in zip(self.specs, added, strict=True)]
            found.append("; ".join(f"{spec}: {score.reason}" for spec, score in here if score.value is None))
            if not found[row]:
                together[text.context_id].append(row)
        values = [scores.values for scores in added]
        for rows in together.values():
            scaled = [SUMS[self.how](column[rows]) for column in values]
            for row, total in zip(rows, np.array(self.weights) @ np.array(scaled), strict=True):
                found[row] = float(total)
        # The signatures of all parts, with their numbers: 1.method:length|1.words:letters|2.method:...
        parts = signed(method=f"{self.how}({','.join(self.specs)})").parts
        for number, scores in enumerate(added, 1):
            own = (part for part in scores.signature.parts if part[0] != "synthscore")
            parts += tuple((f"{number}.{key}", value) for key, value in own)
        return scored(ratings, attribute, found, Signature(parts))
