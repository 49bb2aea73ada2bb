"""Rows of scores and people's labels -> scores of texts of which it is known whether they are good."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..errors import InputError
from ..io.fields import Row, read_flag, read_id, read_names, read_number, require_column, row_error, shorten
from ..io.files import Source, good_rows, read_rows
from ..io.scores import read_score
from ..signature import Signature, text_hash
from ..types import BoolArray, FloatArray, Score

DRAWN = "drawn"
CHOSEN = "chosen"
"""The column that says how a text came to be labelled, and what stands there where it was chosen by its score."""


@dataclass(frozen=True, slots=True, eq=False)
class Labelled:
    """Scores of texts of which it is known whether they are good.

    value : float64, shape (n,), NaN where unscored. good : bool, shape (n,)
    n_contexts : how many contexts the texts are of; 0 where that is not known
    n_broken : rows that were read and could not be used
    left_out : what was read and is not here, and why; one line a reason, with a count
    scores : of the texts, as they were read, to tell drift by
    """

    value: FloatArray
    good: BoolArray
    signature: Signature
    n_contexts: int = 0
    n_broken: int = 0
    left_out: tuple[str, ...] = ()
    scores: tuple[Score, ...] = ()

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
        """Rows as `synthscore score` writes them, with people's labels in the same rows or in others.

        labels : rows with the id of a score's row, or its context_id and system, and maybe the attribute
        good_from : good is whose column `human` is at least this. None: whose column `label` is true or 1
        attribute : which of several
        one_per_context : take one text of each context, by a hash of its id: texts of one context are alike
        fields : as in read_rows, of the rows that hold the labels

        A row without a label, a label without a row, and a row that cannot be read are left out, and counted.
        raises : InputError where two rows are about one text, a text was chosen by its score (column `drawn`), the
            scores are of two signatures, or nothing is left
        """
        errors: list[InputError] = []
        read = partial(read_rows, encoding=encoding)
        all_rows = list(good_rows(read(scores, fields=fields if labels is None else None), errors))
        attribute = attribute or _only_attribute(all_rows)
        rows = labels_of = _by_text(all_rows, attribute, "score", errors)
        if labels is not None:
            labels_of = _by_text(good_rows(read(labels, fields=fields), errors), attribute, "label", errors)
        _require_drawn(labels_of.values())
        joined: list[tuple[Score, bool]] = []
        contexts: set[object] = set()
        signatures: dict[Signature, None] = {}
        n_without = n_further = 0
        for name in sorted(rows, key=text_hash) if one_per_context else rows:
            row = rows[name]
            label_row = labels_of.get(name)
            try:
                good = None if label_row is None else _good(label_row, good_from)
                if good is None:
                    n_without += 1
                elif one_per_context and read_id(row, "context_id") in contexts:
                    n_further += 1
                else:
                    score, signature = _read_signed(row)
                    signatures[signature] = None
                    joined.append((score, good))
                    contexts.add(row.values.get("context_id"))
            except InputError as broken:
                errors.append(broken)
        left_out = [f"{len(errors)} rows could not be used: {errors[0]}"] if errors else []
        if n_without:
            left_out.append(f"{n_without} scores have no label")
        if n_further:
            left_out.append(f"{n_further} texts are further ones of their context")
        if unmatched := [name for name in labels_of if name not in rows]:
            left_out.append(f"{len(unmatched)} labels are of texts without a score; the first is {unmatched[0]!r}")
        if not joined:
            raise InputError(
                f"no score has a label: {'; '.join(left_out) or 'there are no rows'}. Expected rows with score and "
                "label (true or false), or human with good_from. Add them, or name the file that has them (--labels)"
            )
        return cls(
            value=np.array([np.nan if score.value is None else score.value for score, _ in joined], dtype=np.float64),
            good=np.array([good for _, good in joined], dtype=bool),
            signature=_one_signature(list(signatures)),
            n_contexts=0 if None in contexts else len(contexts),
            n_broken=len(errors),
            left_out=tuple(left_out),
            scores=tuple(score for score, _ in joined),
        )


def _require_drawn(rows: Collection[Row]) -> None:
    """raises : InputError where a text was chosen by its score"""
    if chosen := [row for row in rows if row.values.get(DRAWN) == CHOSEN]:
        seen = f"text {read_names(chosen[0]).id!r}, as {len(chosen)} of {len(rows)}, was chosen by its score"
        remedy = "A certificate is of texts drawn at random: label some of all texts (synthscore export --sample N)"
        raise row_error(chosen[0], DRAWN, CHOSEN, f"{seen}, expected only texts drawn at random", remedy)


def _read_signed(row: Row) -> tuple[Score, Signature]:
    """raises : InputError for a row without a score, or without a signature"""
    require_column(row, "score", "Give rows of `synthscore score`; labels alone go into --labels")
    score, signature = read_score(row)
    if not signature.parts:
        seen = "there is no signature, which says what judge, templates and ladders the score is of"
        raise row_error(row, "signature", None, seen, "Give rows as `synthscore score` wrote them")
    return score, signature


def _only_attribute(rows: list[Row]) -> str | None:
    names = dict.fromkeys(str(row.values["attribute"]) for row in rows if row.has("attribute"))
    if len(names) > 1:
        raise InputError(
            f"the scores are of {len(names)} attributes, {', '.join(names)}, expected one: a threshold is of one. Say "
            "which (--attribute)",
            field="attribute",
            value=tuple(names),
        )
    return next(iter(names), None)


def _by_text(rows: Iterable[Row], attribute: str | None, noun: str, errors: list[InputError]) -> dict[str, Row]:
    """Text id -> row; those of other attributes are not meant. raises : InputError for a second row about a text"""
    found: dict[str, Row] = {}
    for row in rows:
        own = row.values.get("attribute")
        if attribute is not None and row.has("attribute") and own != attribute:
            continue
        try:
            name = read_names(row).id
        except InputError as error:
            errors.append(error)
            continue
        if name in found:
            raise row_error(
                row,
                "id",
                name,
                f"text {name!r} has a second {noun}, after row {found[name].number}",
                "Give each text one row; of several people's labels, the one that counts",
            )
        found[name] = row
    return found


def _good(row: Row, good_from: float | None) -> bool | None:
    """Whether the text is good; None where nobody says."""
    if good_from is not None:
        rating = read_number(row, "human")
        return None if rating is None else rating >= good_from
    if "label" not in row.values and row.has("human"):
        seen = f"there is no 'label', but human is {shorten(row.values['human'])}"
        raise row_error(row, "label", None, seen, "Say from which rating on a text is good (--good-from)")
    return read_flag(row, "label", remedy="Mend it; a rating goes into a column human (--good-from)")


def _one_signature(signatures: list[Signature]) -> Signature:
    if len(signatures) > 1:
        differs = signatures[0].differs(signatures[1])
        seen = "; ".join(f"{part} is {one} and {other}" for part, (one, other) in differs.items())
        raise InputError(
            f"the scores have {len(signatures)} signatures: {seen}. Expected one: a threshold on the scores of one "
            "judge says nothing of another's. Score all texts alike",
            field="signature",
            value=tuple(map(str, signatures)),
        )
    return signatures[0]
