"""Rows of scores and people's labels -> scores of texts of which it is known whether they are good."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..errors import InputError
from ..io.fields import Row, read_flag, read_id, read_names, read_number, require_column, row_error, shorten
from ..io.files import Source, good_rows, read_rows
from ..io.scores import read_score
from ..signature import Signature, text_hash
from ..types import BoolArray, FloatArray, Score

DRAWN, CHOSEN = "drawn", "chosen"
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
        own = fields if labels is None else None
        all_rows = list(good_rows(read_rows(scores, encoding=encoding, fields=own), errors))
        attribute = attribute or _only_attribute(all_rows)
        rows = _by_text(all_rows, attribute, "score", errors)
        labels_of = rows
        if labels is not None:
            others = good_rows(read_rows(labels, encoding=encoding, fields=fields), errors)
            labels_of = _by_text(others, attribute, "label", errors)
        if chosen := [row for row in labels_of.values() if row.values.get(DRAWN) == CHOSEN]:
            seen = f"text {read_names(chosen[0]).id!r}, as {len(chosen)} of {len(labels_of)}, was chosen by its score"
            remedy = "A certificate is of texts drawn at random: label some of all texts (synthscore export --sample N)"
            raise row_error(chosen[0], DRAWN, CHOSEN, f"{seen}, expected only texts drawn at random", remedy)
        found_, good, contexts = [], [], set()
        signatures: dict[Signature, None] = {}
        n_without = n_further = 0
        for name, row in sorted(rows.items(), key=lambda item: text_hash(item[0])) if one_per_context else rows.items():
            found = labels_of.get(name)
            try:
                label = None if found is None else _good(found, good_from)
                if label is None:
                    n_without += 1
                    continue
                if one_per_context and read_id(row, "context_id") in contexts:
                    n_further += 1
                    continue
                require_column(row, "score", "Give rows of `synthscore score`; labels alone go into --labels")
                score, signature = read_score(row)
                if not signature.parts:
                    seen = "there is no signature, which says what judge, templates and ladders the score is of"
                    raise row_error(row, "signature", None, seen, "Give rows as `synthscore score` wrote them")
            except InputError as broken:
                errors.append(broken)
                continue
            signatures[signature] = None
            found_.append(score)
            good.append(label)
            contexts.add(row.values.get("context_id"))
        left_out = [f"{len(errors)} rows could not be used: {errors[0]}"] if errors else []
        if n_without:
            left_out.append(f"{n_without} scores have no label")
        if n_further:
            left_out.append(f"{n_further} texts are further ones of their context")
        if n_unmatched := len(labels_of.keys() - rows.keys()):
            first = next(name for name in labels_of if name not in rows)
            left_out.append(f"{n_unmatched} labels are of texts without a score; the first is {first!r}")
        if not found_:
            raise InputError(
                f"no score has a label: {'; '.join(left_out) or 'there are no rows'}. Expected rows with score and "
                "label (true or false), or human with good_from. Add them, or name the file that has them (--labels)"
            )
        return cls(
            np.array([np.nan if score.value is None else score.value for score in found_], dtype=np.float64),
            np.array(good, dtype=bool),
            _one_signature(list(signatures)),
            0 if None in contexts else len(contexts),
            len(errors),
            tuple(left_out),
            tuple(found_),
        )


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
