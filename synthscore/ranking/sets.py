"""Sets of comparisons, from rows and back. An error names its row, what it held and what to do.

A row names two texts and says, in one of these ways, which is better:

    first, second    ids; which text was shown first and which second
    log_p_first, log_p_second[, log_p_tie]   log-probabilities of the judge's labels, nats
    log_odds         log P(first is better) - log P(second is better), nats
    probability      P(first is better)
    winner           the id of the better text, or tie
    outcome          first, second or tie (win, loss, draw; A, B; 1, 0, 0.5)
    weight           how many comparisons the row stands for (default: 1, of sampled answers their number)
    n_samples        of a judge that answers in words: how many answers the probabilities are the frequencies of
    judge            who says so; each judge's comparisons are a set

Comparisons of one group that carry several signatures carry all of them: `model:a & b` (Signature.merged).
Broken rows come back as `InputError`s beside the good ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..io.fields import Row, read_id, read_number, require_number, row_error, shorten
from ..io.files import Source, read_rows
from ..io.write import write_rows
from ..signature import Signature, text_hash
from .comparisons import Comparisons

GROUPS = ("context_id", "attribute")
"""Columns that tell rankings apart, where rows have them and `by` is not given."""

JUDGE = "judge"
"""The column that names the judge of a comparison. Where there are several, it is in `by`: each judge has its sets."""

Group = tuple[str, ...]
"""The values of the columns that tell rankings apart."""

LABELS = ("log_p_first", "log_p_second", "log_p_tie")
"""Columns of log-probabilities."""

_LogProbs = tuple[float, float, float]  # of first, second, tie
# A call is the answer of one row: first, second, log-probabilities, weight, number of samples, signature.
_Call = tuple[str, str, _LogProbs, float, float, str]
_FIRST: _LogProbs = (0.0, -math.inf, -math.inf)
_SECOND: _LogProbs = (-math.inf, 0.0, -math.inf)
_TIE: _LogProbs = (-math.inf, -math.inf, 0.0)
_TIES: Mapping[str, _LogProbs] = dict.fromkeys(("tie", "tied", "draw", "similar", "equal", "even"), _TIE)
_OUTCOMES: Mapping[str, _LogProbs] = {
    **dict.fromkeys(("first", "win", "a", "1"), _FIRST),
    **dict.fromkeys(("second", "loss", "b", "0"), _SECOND),
    **_TIES,
    "0.5": _TIE,
}
_ANSWERS = ("log_p_first", "log_odds", "probability", "winner", "outcome")


class LeftOut(NamedTuple):
    """A candidate that is in no set, and why. names : its id, context_id and attribute, as far as they are known"""

    names: Mapping[str, str]
    reason: str


class Unanswered(NamedTuple):
    """A question without an answer: the group, the ids of the two texts as shown, and why."""

    group: Group
    first: str
    second: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class ComparisonSets:
    """Sets of comparisons, each of which is ranked by itself; sets and candidates in the order in which they came.

    by : the columns that tell sets apart, such as ("context_id", "attribute"); () for one set of all
    sets : the values of these columns -> comparisons
    left_out : candidates that are in no set. failures : questions that a judge did not answer
    errors : rows that hold no comparison, or no candidate
    """

    by: tuple[str, ...]
    sets: Mapping[Group, Comparisons]
    left_out: tuple[LeftOut, ...] = ()
    failures: tuple[Unanswered, ...] = ()
    errors: tuple[InputError, ...] = ()

    @property
    def sampled(self) -> bool:
        """Whether some of the answers are sampled: frequencies, not probabilities."""
        return any(calls.sampled.any() for calls in self.sets.values())

    @property
    def n_open(self) -> int:
        """Candidates in no set, questions without an answer, and rows that hold nothing."""
        return len(self.left_out) + len(self.failures) + len(self.errors)

    @property
    def n_answers(self) -> int:
        """Comparisons in all sets, each counted once, whatever its weight."""
        return sum(len(calls.first) for calls in self.sets.values())

    @property
    def complete(self) -> bool:
        """Whether every row was read, and every question answered."""
        return not self.n_open

    @property
    def signature(self) -> Signature:
        """Of all judges; without parts where nobody signed."""
        return Signature.merged(calls.signature for calls in self.sets.values())

    @classmethod
    def of_judges(cls, asked: Mapping[str, ComparisonSets]) -> ComparisonSets:
        """The comparisons of judges who were asked the same. asked : name of a judge -> its comparisons"""
        sets: dict[Group, Comparisons] = {}
        failures: list[Unanswered] = []
        for name, judged in asked.items():
            sets |= {(*group, name): calls for group, calls in judged.sets.items()}
            failures += [failure._replace(group=(*failure.group, name)) for failure in judged.failures]
        some = next(iter(asked.values()))
        return cls(by=(*some.by, JUDGE), sets=sets, left_out=some.left_out, failures=tuple(failures))

    @property
    def judges(self) -> tuple[str, ...]:
        """Their names, where the sets have them."""
        if JUDGE not in self.by:
            return ()
        return tuple(dict.fromkeys(group[self.by.index(JUDGE)] for group in self.sets))

    @property
    def fingerprint(self) -> str:
        """12 hex digits that depend on every comparison, but not on the order of comparisons or candidates."""
        lines = []
        for group, calls in self.sets.items():
            first = [calls.ids[k] for k in calls.first]
            second = [calls.ids[k] for k in calls.second]
            numbers = [calls.log_probs.tolist(), calls.weights.tolist()]
            if calls.n_samples is not None:
                numbers.append(calls.n_samples.tolist())
            lines += [repr((group, *row)) for row in zip(first, second, *numbers, strict=True)]
            lines += [repr((group, name)) for name in calls.ids]  # A prior also counts candidates without comparisons.
        return text_hash(*sorted(lines))[:12]

    @classmethod
    def load(
        cls,
        source: Source,
        *,
        by: Sequence[str] | None = None,
        encoding: str = "utf-8",
        fields: Mapping[str, str] | None = None,
    ) -> ComparisonSets:
        """Comparisons of a file, or of mappings.

        by : columns whose values tell sets apart; (): one set. Default: those of context_id and attribute that the
            first row has. A column judge, where it has one, always does
        raises : InputError for a source without a single comparison, or that cannot be read at all
        """
        columns = None if by is None else tuple(by)
        calls_by_group: dict[Group, list[_Call]] = {}
        errors: list[InputError] = []
        for row in read_rows(source, encoding=encoding, fields=fields):
            try:
                if isinstance(row, InputError):
                    raise row
                if columns is None:
                    columns = tuple(name for name in GROUPS if name in row.values)
                # Only until the first good row: the columns have to be the same for all groups.
                if not calls_by_group and JUDGE in row.values and JUDGE not in columns:
                    columns = (*columns, JUDGE)
                group = tuple(read_id(row, name) for name in columns)
                first = read_id(row, "first")
                second = read_id(row, "second")
                if first == second:
                    problem = f"{first!r} is compared with itself"
                    raise row_error(row, "second", second, problem, "Name two texts, or remove the row")
                log_probs = _log_probs(row, first, second)
                n_samples = _n_samples(row)
                weight = _weight(row, default=n_samples if math.isfinite(n_samples) else 1.0)
            except InputError as error:
                errors.append(error)
                continue
            signature = str(row.values.get("signature") or "")
            call = (first, second, log_probs, weight, n_samples, signature)
            calls_by_group.setdefault(group, []).append(call)
        if not calls_by_group:
            name = source if isinstance(source, str) else "the source"
            why = f", and the first row that has none says: {errors[0]}" if errors else ""
            raise InputError(
                f"{name} holds no comparisons, expected at least one row with first, second and one of "
                f"{', '.join(_ANSWERS)}{why}. See: synthscore rank --help"
            )
        sets = {group: _make_comparisons(calls) for group, calls in calls_by_group.items()}
        return cls(by=columns or (), sets=sets, errors=tuple(errors))

    def save(self, path: str | Path) -> None:
        """Rows that `load` gives back to the last bit, in any format that rows can be written in."""
        write_rows(self.to_rows(), str(path))

    def to_rows(self) -> Iterator[dict[str, Any]]:
        """A row for each comparison, as `load` reads them.

        A column of which some numbers are infinite holds texts, such as "-inf": JSON has no infinities, and a column of
        Parquet has one type.
        """
        sampled = any(calls.n_samples is not None for calls in self.sets.values())
        infinite = np.zeros(3, dtype=bool)
        for calls in self.sets.values():
            infinite |= np.isinf(calls.log_probs).any(axis=0)
        for group, calls in self.sets.items():
            names = dict(zip(self.by, group, strict=True))
            signature = str(calls.signature)
            columns = (calls.first, calls.second, calls.log_probs, calls.weights)
            counts = [int(n) if math.isfinite(n) else None for n in calls.samples.tolist()]
            answers = zip(*(column.tolist() for column in columns), counts, strict=True)
            for first, second, answer, weight, n_samples in answers:
                row: dict[str, Any] = dict(names)
                row["first"] = calls.ids[first]
                row["second"] = calls.ids[second]
                for name, log_prob, as_text in zip(LABELS, answer, infinite.tolist(), strict=True):
                    row[name] = repr(log_prob) if as_text else log_prob
                row["weight"] = weight
                if sampled:
                    row["n_samples"] = n_samples
                row["signature"] = signature
                yield row


def _make_comparisons(rows: Sequence[_Call]) -> Comparisons:
    """The comparisons of one group; texts in the order in which they first occur."""
    names = tuple(dict.fromkeys(name for row in rows for name in row[:2]))
    index = {name: k for k, name in enumerate(names)}
    firsts, seconds, log_probs, weights, counts, lines = zip(*rows, strict=True)
    n_samples = np.array(counts)
    signatures = [Signature.parse(line) if line else Signature() for line in set(lines)]
    sampled = np.isfinite(n_samples).any()
    return Comparisons(
        ids=names,
        first=np.array([index[name] for name in firsts]),
        second=np.array([index[name] for name in seconds]),
        log_probs=np.array(log_probs),
        weights=np.array(weights),
        signature=Signature.merged(signatures),
        n_samples=n_samples if sampled else None,
    )


def _log_probs(row: Row, first: str, second: str) -> _LogProbs:
    """The row's answer: log P of first, second, tie, in nats; normalised. raises : InputError where it has none"""
    given = [name for name in _ANSWERS if row.has(name)]
    if len(given) != 1:
        problem = "it does not say which is better"
        if given:
            problem = f"it says which text is better in {' and '.join(given)}"
        remedy = f"Expected one of {', '.join(_ANSWERS)}; name the column with --field NAME=COLUMN"
        raise row_error(row, "probability", None, problem, remedy)
    (name,) = given
    if name == "log_p_first":
        return _labels(row)
    if name == "log_odds":
        odds = require_number(row, name, "log-odds in nats", finite=False)
        log_p_first = -float(np.logaddexp(0, -odds))
        log_p_second = -float(np.logaddexp(0, odds))
        return log_p_first, log_p_second, -math.inf
    if name == "probability":
        p = require_number(row, name, "a probability from 0 to 1")
        if not 0 <= p <= 1:
            raise row_error(row, name, p, f"probability is {p:g}, expected 0 to 1", "Mend or remove the row")
        log_p_first = -math.inf
        log_p_second = -math.inf
        if p > 0:
            log_p_first = math.log(p)
        if p < 1:
            log_p_second = float(np.log1p(-p))
        return log_p_first, log_p_second, -math.inf
    value = row.values[name]
    if name == "winner":
        known: Mapping[str, _LogProbs] = {**_TIES, first: _FIRST, second: _SECOND}
        expected = f"{first!r}, {second!r} or tie"
        word = read_id(row, name)
        if word not in known:
            word = word.strip().lower()
    else:
        known = _OUTCOMES
        expected = "first, second or tie (win, loss, draw; A, B; 1, 0, 0.5)"
        word = str(value).strip().lower()
        with suppress(ValueError):
            word = f"{float(word):g}"  # "1.0" becomes "1".
    if word not in known:
        problem = f"{name} is {shorten(value)}, expected {expected}"
        raise row_error(row, name, value, problem, "Mend or remove the row")
    return known[word]


def _labels(row: Row) -> _LogProbs:
    """`_log_probs` of a row with a log-probability for each label, two or three."""
    names = LABELS if row.has("log_p_tie") else LABELS[:2]
    values = [require_number(row, name, "a log-probability in nats, at most 0", finite=False) for name in names]
    values += [-math.inf] * (3 - len(values))
    if max(values) > 1e-4 or max(values) == -math.inf:
        problem = f"the log-probabilities are {values}, expected at most 0 and one that is not -inf"
        raise row_error(row, "log_p_first", values, problem, "Natural logarithms go into these columns")
    total = float(np.logaddexp.reduce(np.array(values)))
    if abs(total) > 1e-9:  # The labels may not cover all answers that the judge could give.
        values = [value - total for value in values]
    return values[0], values[1], values[2]


def _n_samples(row: Row) -> float:
    """How many answers the row's probabilities are frequencies of; inf where it does not say. raises : InputError"""
    n_samples = read_number(row, "n_samples", "a whole number from 1")
    if n_samples is not None and (n_samples < 1 or n_samples % 1):
        problem = f"n_samples is {n_samples:g}, expected a whole number from 1"
        raise row_error(
            row, "n_samples", n_samples, problem, "Mend or remove the row; leave it empty for probabilities"
        )
    if n_samples is None:
        return math.inf
    return n_samples


def _weight(row: Row, default: float) -> float:
    """How many comparisons the row stands for; the default where it does not say. raises : InputError"""
    weight = read_number(row, "weight", "a number above 0")
    if weight is not None and weight <= 0:
        raise row_error(row, "weight", weight, f"weight is {weight:g}, expected above 0", "Mend or remove the row")
    if weight is None:
        return default
    return weight
