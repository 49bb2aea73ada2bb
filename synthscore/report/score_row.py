"""One row of a file of scores, checked: what is missing, and what is wrong. Knows no files."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from ..io.fields import Row, read_number, row_error, shorten
from ..signature import Signature
from ..types import Verdict

AGAIN = "Write the file again"  # what to do about a row that no file of ours has


@dataclass(frozen=True, slots=True)
class ScoreRow:
    """One row of a file of scores. value is None where the text is unscored; other numbers where they are not told.

    n_rungs : of the scale that the score is on; None: it is on no scale of rungs
    """

    id: str
    context_id: str
    attribute: str
    value: float | None
    low: float | None = None
    high: float | None = None
    stderr: float | None = None
    status: str = "ok"
    reason: str = ""
    n_rungs: int | None = None
    label_mass: float | None = None
    verdicts: tuple[Verdict, ...] = ()
    signature: str = ""

    def part(self, name: str) -> str:
        """A part of the signature; "" where it has none of this name."""
        return dict(Signature.of_any(self.signature).parts).get(name, "")


def score_row(row: Row) -> ScoreRow:
    """The row, checked. raises : InputError"""
    values = row.values
    numbers: dict[str, Any] = {name: read_number(row, name) for name in ("low", "high", "stderr", "label_mass")}
    words = {name: word(values.get(name)) for name in ("context_id", "attribute", "reason", "signature")}
    value, status = read_number(row, "score"), word(values.get("status")) or "ok"
    if (value is None) != (status == "unscored"):
        seen = f"its score is {shorten(values.get('score'))} and its status {status!r}"
        seen += ", expected a score exactly where the status is not 'unscored'"
        raise row_error(row, "status", status, seen, AGAIN)
    own = word(values.get("id")) or f"row {row.number}"
    n_rungs = _n_rungs(value, *(read_number(row, name) for name in ("raw", "unit", "n_rungs")))
    return ScoreRow(id=own, value=value, status=status, n_rungs=n_rungs, verdicts=_verdicts(row), **numbers | words)


def _n_rungs(value: float | None, raw: float | None, unit: float | None, told: float | None) -> int | None:
    """As anchored scores tell it; or from value = sqrt(raw + N(N+1)/2) and raw = unit * N(N+1)/2, if both hold."""
    if told is not None:
        return round(told) if told >= 2 else None
    if value is None or raw is None or unit is None:
        return None
    bound = value**2 - raw
    n_rungs = round((math.sqrt(1 + 8 * bound) - 1) / 2) if 0 < bound < 1e6 else 0
    exact = n_rungs * (n_rungs + 1) / 2
    alike = abs(bound - exact) < 1e-6 and abs(raw - unit * exact) < 1e-6
    return n_rungs if alike and n_rungs >= 2 else None


def _verdicts(row: Row) -> tuple[Verdict, ...]:
    """Of lists [level, swapped, better, worse, similar]; in CSV, JSON in a text."""
    found = row.values.get("verdicts") or ()
    try:
        if isinstance(found, str):
            found = json.loads(found)
        verdicts = tuple(Verdict(int(level), bool(swapped), *map(float, said)) for level, swapped, *said in found)
    except (ValueError, TypeError) as error:
        raise row_error(row, "verdicts", found, f"its verdicts are {shorten(found)} ({error})", AGAIN) from error
    if not all(v.level >= 1 and all(0 <= p <= 1 + 1e-6 for p in (v.better, v.worse, v.similar)) for v in verdicts):
        seen = f"its verdicts are {shorten(found)}, expected levels from 1 and probabilities"
        raise row_error(row, "verdicts", found, seen, AGAIN)
    return verdicts


def word(value: Any) -> str:
    return "" if value is None else str(value)
