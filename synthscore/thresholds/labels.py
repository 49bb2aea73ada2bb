"""Rows of scores and people's labels -> scores of texts, of some of which it is known what people said."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real

import numpy as np

from ..errors import InputError, require_kind, unusable
from ..io.fields import Row, find_id, read_flag, read_names, read_number, require_column, row_error, shorten
from ..io.files import Source, good_rows, read_rows
from ..io.scores import read_score
from ..signature import Signature, text_hash
from ..types import BoolArray, FloatArray, IntArray, Score
from .drawn import Drawn, read_stamps, require_like_scores

ReadLabel = Callable[[Row], float | None]
"""What people said of a row's text, None where nobody did. raises : InputError"""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRows:
    """Scores of texts, and people's labels of some.

    labels : float64, shape (n,), NaN where nobody labelled the text
    systems : what wrote the texts, "" where nothing says it
    drawn : how the labelled ones were drawn, as far as their rows say
    unmatched : labelled texts without a score. errors : of rows that could not be used
    """

    scores: tuple[Score, ...]
    labels: FloatArray
    systems: tuple[str, ...]
    signature: Signature
    drawn: Drawn
    unmatched: tuple[str, ...] = ()
    errors: tuple[InputError, ...] = ()

    @property
    def values(self) -> FloatArray:
        """The scores, shape (n,), NaN where unscored."""
        return np.array([score.value for score in self.scores], dtype=np.float64)  # None becomes NaN

    @property
    def labelled(self) -> BoolArray:
        return ~np.isnan(self.labels)

    @property
    def contexts(self) -> IntArray:
        """Each text's context as a number, shape (n,). A text that names none is a context of its own."""
        names = [("context", score.context_id) if score.context_id else ("text", score.id) for score in self.scores]
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        return np.array([numbers[name] for name in names], dtype=np.int64)

    @classmethod
    def load(
        cls,
        scores: Source,
        labels: Source | None,
        read_label: ReadLabel,
        *,
        attribute: str | None = None,
        encoding: str = "utf-8",
        fields: Mapping[str, str] | None = None,
    ) -> LabelledRows:
        """Rows as `synthscore score` writes them, with people's labels in the same rows or in others.

        labels : rows with the id of a score's row, or its context_id and system, and maybe the attribute. Their
            contexts are those of texts whose score's row names none. Of several rows about a text, each with another
            rater, human is the mean, and label what most of them say
        attribute : which of several
        fields : as in read_rows, of the rows that hold the labels
        raises : InputError where two rows are about one text, labelled texts were chosen (read_stamps), the scores
            are of two signatures (of what is unscored it does not matter), or no text has a label
        """
        errors: list[InputError] = []
        read = partial(read_rows, encoding=encoding)
        all_rows = list(good_rows(read(scores, fields=fields if labels is None else None), errors))
        attribute = attribute or _only_attribute(all_rows)
        rows = {name: row for name, (row,) in _by_text(all_rows, attribute, "score", errors).items()}
        label_rows = rows
        if labels is not None:
            by_rater = _by_text(good_rows(read(labels, fields=fields), errors), attribute, "label", errors)
            label_rows = dict(_joined_raters(by_rater, errors))
        kept_scores: list[Score] = []
        kept_labels: list[float | None] = []
        systems: list[str] = []
        labelled_rows: list[Row] = []
        signatures: dict[Signature, None] = {}
        for name, row in rows.items():
            label_row = label_rows.get(name)
            try:
                label = None
                if label_row is not None:
                    label = read_label(label_row)
                score, signature = _read_signed(row)
                if label_row is not None and not score.context_id:
                    score = replace(score, context_id=read_names(label_row).context_id or "")
                system = _system(row, label_row)
            except InputError as broken:
                errors.append(broken)
                continue
            kept_scores.append(score)
            kept_labels.append(label)
            systems.append(system)
            if score.value is not None:  # An unscored row may be signed without its ladder, which it never met.
                signatures[signature] = None
            if label is not None and label_row is not None:
                labelled_rows.append(label_row)
        unmatched = tuple(name for name in label_rows if name not in rows)
        if not labelled_rows:
            raise _no_labels(left_out_lines(errors, len(kept_scores), 0, unmatched))
        return cls(
            scores=tuple(kept_scores),
            labels=np.array(kept_labels, dtype=np.float64),  # None becomes NaN
            systems=tuple(systems),
            signature=_one_signature(list(signatures)) if signatures else signature,
            drawn=read_stamps(labelled_rows, sum(score.value is not None for score in kept_scores)),
            unmatched=unmatched,
            errors=tuple(errors),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Scores of texts of which it is known whether they are good.

    value : float64, shape (n,), NaN where unscored. good : bool, shape (n,)
    n_contexts : how many contexts the texts are of; 0 where that is not known
    n_broken : rows that were read and could not be used
    left_out : what was read and is not here, and why; one line a reason, with a count
    scores : of the texts, as they were read, to tell drift by
    drawn : how the texts were drawn, as far as their rows say
    """

    value: FloatArray
    good: BoolArray
    signature: Signature
    n_contexts: int = 0
    n_broken: int = 0
    left_out: tuple[str, ...] = ()
    scores: tuple[Score, ...] = ()
    drawn: Drawn = "not known"

    def __post_init__(self) -> None:
        if self.value.ndim != 1 or self.good.shape != self.value.shape or np.isinf(self.value).any():
            raise InputError(
                f"labelled scores have shapes {self.value.shape} and {self.good.shape}, expected (n,) both, and finite "
                "scores or NaN. Give each text a score, or NaN, and a label"
            )

    def __len__(self) -> int:
        return len(self.value)

    @property
    def scored(self) -> BoolArray:
        return ~np.isnan(self.value)

    @classmethod
    def load(
        cls,
        scores: Source,
        labels: Source | None = None,
        *,
        good_from: float | None = None,
        attribute: str | None = None,
        one_per_context: bool = False,
        encoding: str = "utf-8",
        fields: Mapping[str, str] | None = None,
    ) -> Labelled:
        """The labelled ones of rows as LabelledRows reads them.

        good_from : good is whose column `human` is at least this. None: whose column `label` is true or 1
        one_per_context : take one text of each context, by a hash of its id: texts of one context are alike

        A row without a label, a label without a row, and a row that cannot be read are left out, and counted.
        warns : SynthscoreWarning where the scores of labelled texts and others differ (require_like_scores)
        raises : InputError as LabelledRows does, or where those scores differ too much to be drawn at random, or
            good_from is no finite number
        """
        require_line("good_from", good_from)
        read_label = partial(read_good, good_from=good_from)
        rows = LabelledRows.load(scores, labels, read_label, attribute=attribute, encoding=encoding, fields=fields)
        require_like_scores(rows.values, rows.labelled, rows.contexts)
        errors = list(rows.errors)
        taken = np.flatnonzero(rows.labelled).tolist()
        n_further = 0
        if one_per_context:
            by_context: dict[str, int] = {}
            for index in sorted(taken, key=lambda row: text_hash(rows.scores[row].id)):
                score = rows.scores[index]
                if score.context_id:
                    n_further += score.context_id in by_context
                    by_context.setdefault(score.context_id, index)
                else:
                    errors.append(InputError(f"text {score.id!r}: context_id is None, expected its context's. Fill it"))
            taken = list(by_context.values())
        left_out = left_out_lines(errors, int((~rows.labelled).sum()), n_further, rows.unmatched)
        if not taken:
            raise _no_labels(left_out)
        kept = [rows.scores[index] for index in taken]
        contexts = {score.context_id for score in kept}
        return cls(
            value=rows.values[taken],
            good=rows.labels[taken] > 0,
            signature=rows.signature,
            n_contexts=0 if "" in contexts else len(contexts),
            n_broken=len(errors),
            left_out=left_out,
            scores=tuple(kept),
            drawn=rows.drawn,
        )


def require_line(name: str, line: float | None) -> None:
    """The rating, or score, from which on a text is good. raises : InputError where it is NaN, infinite or no number"""
    if line is not None:
        expected = "a finite number: the least that is good"
        require_kind(name, line, Real, expected)
        if not math.isfinite(line):
            raise unusable(name, line, expected)


def read_good(row: Row, good_from: float | None) -> float | None:
    """1 where the row's text is good, 0 where it is not; None where nobody says. raises : InputError"""
    if good_from is not None:
        rating = read_number(row, "human")
        if rating is None:
            return None
        return float(rating >= good_from)
    if "label" not in row.values and row.has("human"):
        problem = f"there is no 'label', but human is {shorten(row.values['human'])}"
        raise row_error(row, "label", None, problem, "Say from which rating on a text is good (--good-from)")
    flag = read_flag(row, "label", remedy="Mend it; a rating goes into a column human (--good-from)")
    if flag is None:
        return None
    return float(flag)


def left_out_lines(
    errors: Sequence[InputError], n_unlabelled: int = 0, n_further: int = 0, unmatched: Sequence[str] = ()
) -> tuple[str, ...]:
    """What was read and is not used, and why: a line a reason, with a count."""
    lines = []
    if errors:
        lines.append(f"{counted(len(errors), 'row', 'rows')} could not be used: {errors[0]}")
    if n_unlabelled:
        lines.append(f"{counted(n_unlabelled, 'score has', 'scores have')} no label")
    if n_further:
        lines.append(f"{counted(n_further, 'text is a further one', 'texts are further ones')} of their context")
    if n := len(unmatched):
        lines.append(
            f"{counted(n, 'label is of a text', 'labels are of texts')} without a score; the first is {unmatched[0]!r}"
        )
    return tuple(lines)


def counted(n: int, one: str, several: str) -> str:
    return f"{n} {one if n == 1 else several}"


def _no_labels(left_out: Sequence[str]) -> InputError:
    return InputError(
        f"no score has a label: {'; '.join(left_out) or 'there are no rows'}. Expected rows with score and "
        "label (true or false), or with human (a rating). Add them, or name the file that has them (--labels)"
    )


def _system(row: Row, label_row: Row | None) -> str:
    """What wrote the text: as a row says, or as an id CONTEXT/SYSTEM says; "" where nothing does."""
    for one in (row, label_row):
        if one is not None and (system := find_id(one, "system")):
            return system
    names = read_names(row)
    prefix = f"{names.context_id}/"
    if not names.id.startswith(prefix):
        return ""
    return names.id.removeprefix(prefix)


def _read_signed(row: Row) -> tuple[Score, Signature]:
    """raises : InputError for a row without a score, or without a signature"""
    require_column(row, "score", "Give rows of `synthscore score`; labels alone go into --labels")
    score, signature = read_score(row)
    if not signature.parts:
        problem = "there is no signature, which says what judge, templates and ladders the score is of"
        raise row_error(row, "signature", None, problem, "Give rows as `synthscore score` wrote them")
    return score, signature


def _only_attribute(rows: list[Row]) -> str | None:
    names = dict.fromkeys(str(row.values["attribute"]) for row in rows if row.has("attribute"))
    if len(names) > 1:
        raise InputError(
            f"the scores are of {len(names)} attributes, {', '.join(names)}, expected one. Say which (--attribute)",
            field="attribute",
            value=tuple(names),
        )
    return next(iter(names), None)


def _by_text(rows: Iterable[Row], attribute: str | None, noun: str, errors: list[InputError]) -> dict[str, list[Row]]:
    """Text id -> the rows about it and this attribute: one, or, of labels, one a rater. raises : InputError for a
    second one"""
    by_text: dict[str, dict[str, Row]] = {}
    for row in rows:
        if attribute is not None and row.has("attribute") and row.values.get("attribute") != attribute:
            continue
        try:
            name = read_names(row).id
            rater = (noun == "label" and find_id(row, "rater")) or ""
        except InputError as error:
            errors.append(error)
            continue
        rows_of_text = by_text.setdefault(name, {})
        if known := [other for other in rows_of_text if other == rater or "" in (other, rater)]:
            raise row_error(
                row,
                "id",
                name,
                f"text {name!r} has a second {noun}, after row {rows_of_text[known[0]].number}",
                "Give each text one row; of several people's labels, name whose each is in a column rater",
            )
        rows_of_text[rater] = row
    return {name: list(rows_of_text.values()) for name, rows_of_text in by_text.items()}


def _joined_raters(by_text: Mapping[str, Sequence[Row]], errors: list[InputError]) -> Iterator[tuple[str, Row]]:
    """Each text's id with one row: the mean of what its raters gave it as human, and as label what most of them say."""
    for name, rows in by_text.items():
        try:
            yield name, _joined(name, rows)
        except InputError as error:
            errors.append(error)


def _joined(name: str, rows: Sequence[Row]) -> Row:
    """raises : InputError for a rating or a label that is none, and where as many say good as bad"""
    if len(rows) == 1:
        return rows[0]
    values = dict(rows[0].values)
    ratings = [rating for row in rows if (rating := read_number(row, "human")) is not None]
    if ratings:
        values["human"] = sum(ratings) / len(ratings)
    flags = [flag for row in rows if (flag := read_flag(row, "label")) is not None]
    if flags:
        n_good = sum(flags)
        if 2 * n_good == len(flags):
            problem = f"text {name!r} is good by {n_good} of its raters, and bad by as many"
            raise row_error(rows[0], "label", None, problem, "Ask one more, or leave the text out")
        values["label"] = 2 * n_good > len(flags)
    return replace(rows[0], values=values)


def _one_signature(signatures: list[Signature]) -> Signature:
    if len(signatures) > 1:
        differs = signatures[0].differs(signatures[1])
        differences = "; ".join(f"{part} is {one} and {other}" for part, (one, other) in differs.items())
        raise InputError(
            f"the scores have {len(signatures)} signatures: {differences}. Expected one: scores of one judge say "
            "nothing of another's. Score all texts alike",
            field="signature",
            value=tuple(map(str, signatures)),
        )
    return signatures[0]
