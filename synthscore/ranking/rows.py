"""Rows to comparisons and back. An error names its row, what it held and what to do. Knows nothing of methods.

A row names two texts and says, in one of these ways, which is better:

    first, second    ids; which text was shown first and which second
    log_p_first, log_p_second[, log_p_tie]   log-probabilities of the judge's labels, nats
    log_odds         log P(first is better) - log P(second is better), nats
    probability      P(first is better)
    winner           the id of the better text, or tie
    outcome          first, second or tie (win, loss, draw; A, B; 1, 0, 0.5)
    weight           how many comparisons the row stands for (default: 1)

Comparisons of one group that carry several signatures carry all of them: `model:a & b` (Signature.merged).
Broken rows come back as `InputError`s beside the good ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..io.fields import Row, read_id, read_number, require_number, row_error, shorten
from ..io.files import Source, read_rows
from ..signature import Signature, text_hash
from .comparisons import Comparisons

GROUPS = ("context_id", "attribute")
"""Columns that tell rankings apart, where rows have them and nothing else is said."""

Group = tuple[str, ...]
"""The values of the columns that tell rankings apart."""

_TIES = frozenset({"tie", "tied", "draw", "similar", "equal", "even"})
_OUTCOMES: Mapping[str, float] = {  # P(first is better)
    **dict.fromkeys(("first", "win", "a", "1"), 1.0),
    **dict.fromkeys(("second", "loss", "b", "0"), 0.0),
    **dict.fromkeys((*_TIES, "0.5"), 0.5),
}
_ANSWERS = ("log_p_first", "log_odds", "probability", "winner", "outcome")


class Read(NamedTuple):
    """by : the columns that tell rankings apart. errors : rows that hold no comparison."""

    by: tuple[str, ...]
    groups: dict[Group, Comparisons]
    errors: list[InputError]


class _Calls(NamedTuple):
    """What a group's rows hold."""

    first: list[str]
    second: list[str]
    log_probs: list[tuple[float, float, float]]
    weights: list[float]
    signatures: set[str]


def read_comparisons(
    source: Source,
    *,
    encoding: str = "utf-8",
    fields: Mapping[str, str] | None = None,
    by: Sequence[str] | None = None,
    candidates: Callable[[Mapping[str, str]], Iterable[str]] | None = None,
) -> Read:
    """Comparisons, a set for each group, groups and candidates in the order in which they come.

    by : columns whose values tell groups apart; (): one group. Default: those of context_id and attribute that the
        first row has
    candidates : group, as column -> value, to the ids of all its candidates, where some may not have been compared;
        else those that the rows name
    raises : InputError for a source without a single comparison, or that cannot be read at all
    """
    errors: list[InputError] = []
    found: dict[Group, _Calls] = {}
    columns = None if by is None else tuple(by)
    known: dict[Group, dict[str, None]] = {}
    for row in read_rows(source, encoding=encoding, fields=fields):
        try:
            if isinstance(row, InputError):
                raise row
            if columns is None:
                columns = tuple(name for name in GROUPS if name in row.values)
            group = tuple(read_id(row, name) for name in columns)
            first, second = (read_id(row, name) for name in ("first", "second"))
            if first == second:
                raise row_error(
                    row, "second", second, f"{first!r} is compared with itself", "Name two texts, or remove the row"
                )
            if candidates is not None:
                if group not in known:
                    known[group] = dict.fromkeys(candidates(dict(zip(columns, group, strict=True))))
                _require_known(row, group, (first, second), known[group])
            log_probs, weight = _log_probs(row, first, second), _weight(row)
        except InputError as error:
            errors.append(error)
            continue
        calls = found.setdefault(group, _Calls([], [], [], [], set()))
        calls.first.append(first)
        calls.second.append(second)
        calls.log_probs.append(log_probs)
        calls.weights.append(weight)
        calls.signatures.add(str(row.values.get("signature") or ""))
    if not found:
        why = f", and the first row that has none says: {errors[0]}" if errors else ""
        raise InputError(
            f"{source if isinstance(source, str) else 'the source'} holds no comparisons, expected at least one row "
            f"with first, second and one of {', '.join(_ANSWERS)}{why}"
        )
    groups = {group: _comparisons(calls, known.get(group)) for group, calls in found.items()}
    return Read(columns or (), groups, errors)


def comparison_rows(by: Sequence[str], groups: Mapping[Group, Comparisons]) -> Iterator[dict[str, Any]]:
    """Rows that read_comparisons gives back to the last bit.

    A column in which an answer is impossible, "-inf", holds texts: JSON has no infinities, Parquet one type a column.
    """
    labels = ("log_p_first", "log_p_second", "log_p_tie")
    infinite = [any(np.isinf(calls.log_probs[:, label]).any() for calls in groups.values()) for label in range(3)]
    for group, comparisons in groups.items():
        names = dict(zip(by, group, strict=True))
        for first, second, answer, weight in zip(
            comparisons.first.tolist(),
            comparisons.second.tolist(),
            comparisons.log_probs.tolist(),
            comparisons.weights.tolist(),
            strict=True,
        ):
            row = names | {"first": comparisons.ids[first], "second": comparisons.ids[second]}
            row |= {
                name: repr(value) if text else value for name, value, text in zip(labels, answer, infinite, strict=True)
            }
            yield row | {"weight": weight, "signature": str(comparisons.signature or "")}


def fingerprint(groups: Mapping[Group, Comparisons]) -> str:
    """12 hex digits that change when any comparison does; their order, and that of the candidates, does not matter."""
    lines = []
    for group, calls in groups.items():
        names = [calls.ids[place] for place in calls.first], [calls.ids[place] for place in calls.second]
        numbers = calls.log_probs.tolist(), calls.weights.tolist()
        lines += [repr((group, *row)) for row in zip(*names, *numbers, strict=True)]
        lines += [repr((group, name)) for name in calls.ids]  # one without comparisons counts, too: in priors
    return text_hash(*sorted(lines))[:12]


def _comparisons(calls: _Calls, ids: Iterable[str] | None) -> Comparisons:
    names = tuple(dict.fromkeys(name for both in zip(calls.first, calls.second, strict=True) for name in both))
    names = names if ids is None else tuple(ids)
    place = {name: index for index, name in enumerate(names)}
    judges = {Signature.parse(line) if line else Signature(()) for line in calls.signatures}
    signature = judges.pop() if len(judges) == 1 else Signature.merged(judges)
    return Comparisons(
        names,
        np.array([place[name] for name in calls.first], dtype=np.int64),
        np.array([place[name] for name in calls.second], dtype=np.int64),
        np.array(calls.log_probs),
        np.array(calls.weights),
        signature if signature.parts else None,
    )


def _require_known(row: Row, group: Group, names: Sequence[str], known: Mapping[str, None]) -> None:
    for name in names:
        if name not in known:
            there = ", ".join(map(repr, list(known)[:5])) or "none"
            where = f" of {'/'.join(group)}" if group else ""
            seen = f"{name!r} is no candidate{where}, which are: {there}"
            raise row_error(row, "first", name, seen, "Add it to the candidates, or remove the row")


def _log_probs(row: Row, first: str, second: str) -> tuple[float, float, float]:
    """log P of first, second, tie; normalised."""
    said = [name for name in _ANSWERS if row.has(name)]
    if len(said) != 1:
        seen = f"it says which text is better in {' and '.join(said)}" if said else "it does not say which is better"
        remedy = f"Expected one of {', '.join(_ANSWERS)}; name the column with --field NAME=COLUMN"
        raise row_error(row, "probability", None, seen, remedy)
    name = said[0]
    value = row.values[name]
    if name == "log_p_first":
        return _labels(row)
    if name == "log_odds":
        odds = require_number(row, name, "log-odds in nats", finite=False)
        return -float(np.logaddexp(0, -odds)), -float(np.logaddexp(0, odds)), -math.inf
    if name == "probability":
        p = require_number(row, name, "a probability from 0 to 1")
        if not 0 <= p <= 1:
            raise row_error(row, name, p, f"probability is {p:g}, expected 0 to 1", "Mend or remove the row")
        return _log(p), float(np.log1p(-p)) if p < 1 else -math.inf, -math.inf
    if name == "winner":
        winner = read_id(row, name)
        if winner in (first, second):
            return _hard(float(winner == first))
        if winner.strip().lower() in _TIES:
            return _hard(0.5)
        seen = f"winner is {shorten(winner)}, expected {first!r}, {second!r} or tie"
        raise row_error(row, name, winner, seen, "Mend or remove the row")
    word = str(value).strip().lower()
    with suppress(ValueError):
        word = f"{float(word):g}"  # 1.0
    if word not in _OUTCOMES:
        seen = f"outcome is {shorten(value)}, expected first, second or tie (win, loss, draw; A, B; 1, 0, 0.5)"
        raise row_error(row, name, value, seen, "Mend or remove the row")
    return _hard(_OUTCOMES[word])


def _labels(row: Row) -> tuple[float, float, float]:
    names = ["log_p_first", "log_p_second"]
    if row.has("log_p_tie"):
        names.append("log_p_tie")
    values = [require_number(row, name, "a log-probability in nats, at most 0", finite=False) for name in names]
    values += [-math.inf] * (3 - len(values))
    if max(values) > 1e-4 or max(values) == -math.inf:
        seen = f"the log-probabilities are {values}, expected at most 0 and one that is not -inf"
        raise row_error(row, "log_p_first", values, seen, "Natural logarithms go into these columns")
    total = float(np.logaddexp.reduce(np.array(values)))
    if abs(total) > 1e-9:  # of labels that do not cover all that could have been said
        values = [value - total for value in values]
    return values[0], values[1], values[2]


def _hard(outcome: float) -> tuple[float, float, float]:
    if outcome == 0.5:
        return -math.inf, -math.inf, 0.0
    return (0.0, -math.inf, -math.inf) if outcome == 1 else (-math.inf, 0.0, -math.inf)


def _weight(row: Row) -> float:
    weight = read_number(row, "weight", "a number above 0")
    if weight is None:
        return 1.0
    if weight <= 0:
        raise row_error(row, "weight", weight, f"weight is {weight:g}, expected above 0", "Mend or remove the row")
    return weight


def _log(p: float) -> float:
    return math.log(p) if p > 0 else -math.inf
