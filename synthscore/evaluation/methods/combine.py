"""Several methods -> one: what each says of the texts of a context, brought to one scale there and added up.

    zsum       sum over methods of  weight (x - mean) / sd,  mean and sd (population) over the texts of the context
    ranksum    sum over methods of  weight r,  r = 1 for the lowest text of the context; equal ones share the mean

A sum compares the texts of one context; between contexts it says nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..._version import __version__
from ...io.scores import Scores
from ...signature import Signature
from ...types import FloatArray
from ..ratings.types import Ratings
from .base import Method, MethodError, Tools, scored


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


def combined(how: str, specs: Sequence[str]) -> Method:
    """The sum of methods, named by their specs; a weight may stand before each: "2*ladder".

    raises : MethodError for a sum that is not known, and for specs that `method` does not take
    """
    from . import method  # it knows sums as well

    if how not in SUMS or not specs:
        raise MethodError(
            f"cannot add up {list(specs)} by {how!r}, expected one of {', '.join(SUMS)} and a method or more"
        )
    weights, names = zip(*(_weighed(spec) for spec in specs), strict=True)
    return Sum(how, tuple(specs), tuple(method(name) for name in names), weights)


def _weighed(spec: str) -> tuple[float, str]:
    weight, name = re.fullmatch(r"(?:(-?\d+(?:\.\d+)?)\*)?(.*)", spec.strip(), re.DOTALL).groups()  # type: ignore[union-attr]
    return float(weight or 1), name


@dataclass(frozen=True, slots=True)
class Sum:
    """Adds up methods. A text that one of them does not score is unscored, with its reason.

    Means, deviations and ranks are over the texts of a context that all methods score.
    """

    how: str
    specs: tuple[str, ...]
    parts: tuple[Method, ...]
    weights: tuple[float, ...]

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        said = [part(ratings, attribute, tools) for part in self.parts]
        found: list[float | str] = []
        together: dict[str, list[int]] = defaultdict(list)  # context -> the texts that all methods score
        for row, text in enumerate(ratings):
            here = [(spec, scores[row]) for spec, scores in zip(self.specs, said, strict=True)]
            found.append("; ".join(f"{spec}: {score.reason}" for spec, score in here if score.value is None))
            if not found[row]:
                together[text.context_id].append(row)
        values = [scores.values for scores in said]
        for rows in together.values():
            scaled = [SUMS[self.how](column[rows]) for column in values]
            for row, total in zip(rows, np.array(self.weights) @ np.array(scaled), strict=True):
                found[row] = float(total)
        return scored(ratings, attribute, found, self._signed(said))

    def _signed(self, said: Sequence[Scores]) -> Signature:
        """The signatures of all parts, with their numbers: 1.method:length|1.words:letters|2.method:..."""
        parts = Signature.of(synthscore=__version__, method=f"{self.how}({','.join(self.specs)})").parts
        for number, scores in enumerate(said, 1):
            own = (part for part in scores.signature.parts if part[0] != "synthscore")
            parts += tuple((f"{number}.{key}", value) for key, value in own)
        return Signature(parts)
