"""Scores <-> rows: the format of `synthscore score`, in which every score carries the signature of its number.

id, context_id, attribute             which text, and on what it was judged
score, stderr, low, high              null where there is none
n_comparisons, status, reason
raw, unit, label_mass, ...            the scoring's own further numbers (Score.details)
verdicts                              if asked for: lists [level, swapped (1 or 0), better, worse, similar], and of
                                      sampled answers their number behind it
signature
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..signature import Signature
from ..types import FloatArray, Score, Verdict
from .fields import Row, find_id, read_list, read_names, read_number, require_column, row_error, shorten
from .files import Source, read_rows
from .write import plain, write_rows

if TYPE_CHECKING:
    import pandas

_COLUMNS = (
    "id", "context_id", "attribute", "score", "stderr", "low", "high", "n_comparisons", "status", "reason",
    "verdicts", "signature",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of many texts, in the order in which the texts were given, and the signature they share.

    signatures : of each row, where they differ; signature is then what they make together (Signature.merged)
    """

    rows: tuple[Score, ...]
    signature: Signature
    signatures: tuple[Signature, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Score]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> Score:
        return self.rows[index]

    @property
    def values(self) -> FloatArray:
        """Shape (n,), NaN where unscored."""
        return np.array([row.value for row in self.rows], dtype=np.float64)  # None becomes NaN

    @property
    def n_unscored(self) -> int:
        return sum(row.status == "unscored" for row in self.rows)

    def to_rows(self, *, verdicts: bool = False) -> list[dict[str, Any]]:
        """One row a score. verdicts : also what the judge answered about each rung"""
        signatures = self.signatures or (self.signature,) * len(self.rows)
        return [
            score_row(score, signature, verdicts=verdicts)
            for score, signature in zip(self.rows, signatures, strict=True)
        ]

    def to_pandas(self) -> pandas.DataFrame:
        """One row a score; needs pandas."""
        import pandas

        return pandas.DataFrame(self.to_rows())

    def save(self, path: str | os.PathLike[str]) -> None:
        """All of it, in the format that the file's name says (io/formats.py); `load` gives the same back."""
        write_rows(self.to_rows(verdicts=True), path)

    @classmethod
    def load(cls, source: Source, *, attribute: str | None = None) -> Scores:
        """Scores of a file of `synthscore score`. attribute : of several

        raises : InputError for a row that is none, for rows of several signatures (of several attributes, say which),
            and where there are none
        """
        scores: list[Score] = []
        signatures: dict[Signature, None] = {}
        for row in read_rows(source):
            if isinstance(row, InputError):
                raise row
            if attribute is not None and row.values.get("attribute") != attribute:
                continue
            score, signature = read_score(row)
            scores.append(score)
            signatures[signature] = None
        if len(signatures) != 1:
            attributes = ", ".join(dict.fromkeys(score.attribute for score in scores)) or "none"
            raise InputError(
                f"the rows are not one set of scores: they have {len(signatures)} signatures, of the attributes "
                f"{attributes}; expected one. Name an attribute of them (attribute=NAME), or score all texts alike"
            )
        return cls(tuple(scores), next(iter(signatures)))


def score_row(score: Score, signature: Signature, *, verdicts: bool = False) -> dict[str, Any]:
    """One row: the score, its error, its details, and the signature that makes the number citable."""
    front = _COLUMNS[:-2]  # verdicts and signature stand behind the details
    row = {name: getattr(score, {"score": "value"}.get(name, name)) for name in front}
    if clash := sorted({*_COLUMNS} & score.details.keys()):
        raise InputError(f"score {score.id!r}: details {clash} have the names of columns. Rename them", value=clash)
    row |= dict(score.details)
    if verdicts:
        row["verdicts"] = [_verdict_list(verdict) for verdict in score.verdicts]
    return {name: plain(value) for name, value in row.items()} | {"signature": str(signature)}


def _verdict_list(verdict: Verdict) -> list[float]:
    numbers = [verdict.level, int(verdict.swapped), verdict.better, verdict.worse, verdict.similar]
    if verdict.n_samples is not None:
        numbers.append(verdict.n_samples)
    return numbers


def one_scale(name: str, signatures: Iterable[Signature]) -> str:
    """The scale that scores are on as their signatures name it, such as "1..5"; "" where they name none.

    name : of the scores, for the error
    raises : InputError for several scales, on which numbers do not mean the same
    """
    scales = list(dict.fromkeys(signature.part("scale") for signature in signatures))
    if len(scales) > 1:
        listed = " and ".join(scale or "one that the signature does not name, as of rungs" for scale in scales)
        raise InputError(
            f"{name}: the scores are on {len(scales)} scales, {listed}; expected one. Give the scores of each method a "
            "file of their own",
            field="signature",
            value=tuple(scales),
        )
    return "".join(scales)


def read_score(row: Row) -> tuple[Score, Signature]:
    """What `score_row` made a row of. Further columns that hold a number are its details; others are left alone.

    raises : InputError, also where a score stands beside the status "unscored", or none beside another
    """
    require_column(row, "score")
    numbers = {name: read_number(row, name) for name in ("score", "stderr", "low", "high", "n_comparisons")}
    value = numbers.pop("score")
    status = str(row.values.get("status") or ("unscored" if value is None else "ok"))
    if status not in ("ok", "partial", "unscored") or (value is None) != (status == "unscored"):
        problem = f"its score is {shorten(row.values['score'])} and its status {status!r}, expected 'unscored' for null"
        raise row_error(row, "status", status, problem, "Give rows as `synthscore score` wrote them")
    reason = row.values.get("reason") or ("" if status == "ok" else "no reason is given")
    score = Score(
        id=read_names(row).id,
        context_id=find_id(row, "context_id") or "",
        attribute=find_id(row, "attribute") or "",
        value=value,
        stderr=numbers["stderr"],
        low=numbers["low"],
        high=numbers["high"],
        n_comparisons=int(numbers["n_comparisons"] or 0),
        status=status,  # type: ignore[arg-type]
        reason=str(reason),
        details=_details(row),
        verdicts=_verdicts(row),
    )
    line = row.values.get("signature")
    if not isinstance(line, str) or not line:
        return score, Signature(())
    return score, Signature.parse(line)


def _details(row: Row) -> Mapping[str, float]:
    others = [name for name in row.values if name not in (*_COLUMNS, "system", "method") and row.has(name)]
    details = {}
    for name in others:
        try:
            number = read_number(row, name)
        except InputError:  # a column of somebody else's
            continue
        if number is not None:
            details[name] = number
    return details


def _verdicts(row: Row) -> tuple[Verdict, ...]:
    listed = row.values.get("verdicts") or ()
    try:
        verdicts = tuple(
            Verdict(int(level), bool(swapped), float(better), float(worse), float(similar), *map(int, n_samples))
            for level, swapped, better, worse, similar, *n_samples in read_list(listed)
        )
        if all(
            v.level >= 1
            and all(0 <= p <= 1 + 1e-6 for p in (v.better, v.worse, v.similar))
            and (v.n_samples is None or v.n_samples >= 1)
            for v in verdicts
        ):
            return verdicts
    except (ValueError, TypeError, OverflowError):
        pass
    problem = (
        f"verdicts is {shorten(listed)}, expected lists [level, swapped, better, worse, similar], levels from 1, maybe "
        "the number of samples behind them, and "
    )
    remedy = "Give rows as `synthscore score --verdicts` wrote them"
    raise row_error(row, "verdicts", listed, f"{problem}probabilities", remedy)
