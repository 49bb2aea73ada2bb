"""What the papers claim, in shape and not in value: numbers of their tables that should rise, as they were published or
measured. Nothing is tested here: for differences with intervals, `synthscore evaluate --against`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from .layout import Table

PARITY = 1.0  # points of 100 up to which PoE-BT and PoE-g are "similar"; in the paper they differ by up to 0.4

Number = float | None
Numbers = Callable[..., list[Number]]
Rising = Iterator[tuple[str, list[Number]]]
"""Of whom -> numbers that should rise."""


@dataclass(frozen=True, slots=True)
class Finding:
    """claim : in words. of : of which judge. numbers : that should rise. holds : None where one is missing"""

    claim: str
    of: str
    holds: bool | None
    numbers: tuple[Number, ...]


def findings(tables: Mapping[str, Table], *, published: bool = False) -> list[Finding]:
    """What becomes of each claim whose tables are all there, in the measured figures or in the published ones."""

    def numbers(table: str, column: str, **ask: object) -> list[Number]:
        """Of the rows that ask for this, or have this name, in the table's order."""
        return [
            cell.published if published else cell.value
            for line in tables[table].lines
            if ask.items() <= {"name": line.row.name, **line.row.ask}.items()
            for of, cell in zip(tables[table].of.columns, line.cells, strict=True)
            if column in of.names
        ]

    found = []
    for text, needs, rising in CLAIMS:
        if all(name in tables for name in needs):
            judges = [line.row.ask["judge"] for line in tables[needs[0]].lines if "judge" in line.row.ask]
            for of, series in rising(numbers, list(dict.fromkeys(judges))):
                found.append(Finding(text, of, _rises(series), tuple(series)))
    return found


def _rises(series: Sequence[Number]) -> bool | None:
    known = [number for number in series if number is not None]
    if len(known) < max(2, len(series)):
        return None
    return all(low < high for low, high in pairwise(known))


def _samples(numbers: Numbers, judges: Sequence[str]) -> Rising:
    for judge in judges:
        yield judge, numbers("ds2", "SummEval", judge=judge, trials=5)


def _rungs(numbers: Numbers, judges: Sequence[str]) -> Rising:
    for judge in judges:
        names = (f"N = {n}" for n in (2, 3, 5, 9))
        yield judge, [each for name in names for each in numbers("ds2", "SummEval", judge=judge, name=name)]


def _ladders(numbers: Numbers, judges: Sequence[str]) -> Rising:
    for judge in judges:
        for benchmark in ("summeval", "topicalchat", "hanna"):
            names = ("Direct Scoring", "Ours")
            both = (numbers("ds1", f"{benchmark}/AVG", judge=judge, name=name) for name in names)
            yield f"{judge}, {benchmark}", [number for each in both for number in each]


def _probabilities(numbers: Numbers, judges: Sequence[str]) -> Rising:
    for judge in judges:
        for product in ("PoE-BT", "PoE-g"):
            columns = ("win-ratio", "avg-prob", product)
            yield f"{judge}, {product}", [n for c in columns for n in numbers("poe1", c, judge=judge, calls="3N")]


def _alike(numbers: Numbers, judges: Sequence[str]) -> Rising:
    for judge in judges:
        both = [numbers("poe1", column, judge=judge, calls="3N")[0] for column in ("PoE-BT", "PoE-g")]
        yield judge, [None if None in both else abs(both[0] - both[1]), PARITY]  # type: ignore[operator]


def _greedy(numbers: Numbers, judges: Sequence[str]) -> Rising:
    for judge in judges:
        for column in ("win-ratio", "BT", "avg-prob", "PoE-BT", "PoE-g"):
            both = (numbers(table, column, judge=judge, calls="3N") for table in ("poe1", "poe2"))
            yield f"{judge}, {column}", [number for table in both for number in table]


def _debiased(numbers: Numbers, judges: Sequence[str]) -> Rising:
    gains: list[tuple[float, Number]] = []
    for judge in judges:
        asked, debiased = numbers("ca6", "Avg.", judge=judge)
        favours = [
            abs(share - 0.5)
            for benchmark in ("summeval", "topicalchat", "webnlg/FLU", "webnlg/GRA")
            for share in numbers("ca9", benchmark, judge=judge)
            if share is not None
        ]
        if asked is not None and debiased is not None and favours:
            gains.append((float(np.mean(favours)), debiased - asked))
    yield "all judges", [gain for _, gain in sorted(gains)]


CLAIMS: Sequence[tuple[str, tuple[str, ...], Callable[[Numbers, Sequence[str]], Rising]]] = (
    ("the more samples, the better", ("ds2",), _samples),
    ("the more rungs, the better", ("ds2",), _rungs),
    ("ladders are better than direct scoring", ("ds1",), _ladders),
    ("with few calls: win-ratio < average probability < PoE", ("poe1",), _probabilities),
    ("PoE-BT and PoE-g are alike", ("poe1",), _alike),
    ("greedy pairs are better than random ones with few calls", ("poe1", "poe2"), _greedy),
    ("debiasing gains the more, the further P(A) is from 1/2", ("ca6", "ca9"), _debiased),
)
"""In words, the tables it needs, and the numbers that should rise."""
