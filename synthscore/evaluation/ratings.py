"""How people rated texts: rows -> Ratings -> rows.

A row names a text by id, or by context_id and system, and says what people gave it, in one of these ways:

    human                  attribute -> rating
    human.ATTR, human_ATTR a column for each attribute
    human, attribute       one rating a row
    human_raw              attribute -> ratings of single people, beside or instead of their mean in human

A rating is a number, or a list of the ratings of single people, whose mean is taken and never rounded; null is no
rating. text, context, facts and references may be there, too. No other column is looked at: scores are no ratings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..io.contexts import add_context, read_references
from ..io.fields import Row, check_number, is_missing, parse_json, read_id, read_names, row_error, shorten, text_fault
from ..io.files import Source, read_rows, some_contexts
from ..io.write import plain, write_rows
from ..signature import text_hash
from ..types import Context, FloatArray, Score, grouped

_TOLERANCE = 1e-6  # a mean and its ratings may differ by this: published means are rounded to 10 digits


@dataclass(frozen=True, slots=True)
class RatedText:
    """A text, and how people rated it. It may be empty: some systems wrote nothing, and people rated that.

    human : attribute -> mean rating, never rounded; without the attributes on which nobody rated it
    annotators : attribute -> the ratings of single people, where they are known
    references : that its row names, where these are not its context's; Ratings.references has those of any text
    fault : why the row's text cannot be judged, where it cannot be read
    """

    id: str
    context_id: str
    system: str
    text: str
    human: Mapping[str, float]
    annotators: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    references: tuple[str, ...] | None = None
    fault: str = ""

    def unscored(self, attribute: str, reason: str) -> Score:
        return Score(self.id, self.context_id, attribute, None, status="unscored", reason=reason)


@dataclass(frozen=True, slots=True)
class Ratings:
    """Texts with people's ratings, on one or more attributes: a benchmark, or a user's own.

    task : name of the task whose templates ask about these texts; "" where nothing is to be asked
    contexts : context id -> context; without those whose text is not known
    attributes : in the order in which tables show them
    asked_as : attribute -> the task's attribute of the same meaning, where their names differ
    source : what the ratings were read from, with a hash
    left_out : what the source holds that is not here, and why; one line a reason, with a count
    raises : InputError, for two texts of one id
    """

    name: str
    texts: tuple[RatedText, ...]
    attributes: tuple[str, ...]
    contexts: Mapping[str, Context] = field(default_factory=dict)
    task: str = ""
    asked_as: Mapping[str, str] = field(default_factory=dict)
    source: str = ""
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        ids: set[str] = set()
        for text in self.texts:
            if text.id in ids:
                raise InputError(
                    f"{self.name}: two texts have the id {text.id!r}, expected each id once. Give each text an id of "
                    "its own, or each context and system one row",
                    value=text.id,
                )
            ids.add(text.id)

    @classmethod
    def load(
        cls,
        source: Source,
        *,
        encoding: str = "utf-8",
        fields: Mapping[str, str] | None = None,
        task: str = "",
        attribute: str | None = None,
    ) -> Ratings:
        """A user's own ratings: a file of any kind that io reads, or mappings.

        fields : our name -> the source's column, where they differ: {"human.coherence": "expert_1"}
        attribute : what a single column human is about, where there is no column attribute

        Without a column context_id all texts are of one context, "". Rows that hold no rating that can be used are left
        out and counted in left_out, with the first of each kind; so are ratings that are null.
        raises : InputError for a source without a single rating, a text that is rated twice on an attribute, or two
            texts of one id
        """
        rows = RatedRows.read(read_rows(source, encoding=encoding, fields=fields), attribute)
        path = str(source) if isinstance(source, str | os.PathLike) else ""
        if not rows.texts:
            first = f", and the first row that has none says: {rows.errors[0]}" if rows.errors else ""
            raise InputError(
                f"{path or 'the source'} holds no ratings, expected rows with id, or context_id and system, and human"
                f"{first}. Name columns with --field human.ATTRIBUTE=COLUMN"
            )
        named = path not in ("", "-")
        texts = tuple(rows.texts)
        held = []
        for text in texts:
            human = sorted(text.human.items())
            annotators = sorted(text.annotators.items())
            held.append((text.id, text.context_id, text.system, text.text, human, annotators))
        file = Path(path).name
        return cls(
            name=file.split(".")[0] if named else "ratings",
            texts=texts,
            attributes=rows.attributes,
            contexts=rows.contexts,
            task=task,
            source=f"{file if named else 'rows'}@{text_hash(*map(repr, held))[:12]}",
            left_out=(*rows.broken, *rows.unrated),
        )

    def limited(self, limit: int | None) -> Ratings:
        """Those of so many contexts (io.contexts.some_contexts); left_out says how many others there are."""
        return self.of_contexts(some_contexts(self.context_ids, limit), f"--limit {limit}")

    def of_contexts(self, ids: Iterable[str], why: str) -> Ratings:
        """Those of these contexts; left_out says how many others there are, and why they are left out."""
        n_contexts = len(set(self.context_ids))
        taken = set(ids).intersection(self.context_ids)
        if len(taken) == n_contexts:
            return self
        texts = [text for text in self.texts if text.context_id in taken]
        contexts = {name: context for name, context in self.contexts.items() if name in taken}
        others = f"{n_contexts - len(taken)} of {n_contexts} contexts: {why}"
        return replace(
            self,
            texts=tuple(texts),
            contexts=contexts,
            source=f"{self.source}, {len(taken)} of {n_contexts} contexts",
            left_out=(*self.left_out, others),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Rows that `load` reads; what is known of a context stands in one of its rows."""
        write_rows(self._rows(), path)

    def _rows(self) -> Iterator[dict[str, Any]]:
        # A context stands in its first row without references of the text's own, since it may bring references of its
        # own; where each row has some, in the first.
        firsts = {text.context_id: text.id for text in reversed(self.texts)}
        firsts |= {text.context_id: text.id for text in reversed(self.texts) if text.references is None}
        for text in self.texts:
            row: dict[str, Any] = {name: getattr(text, name) for name in ("id", "context_id", "system", "text")}
            context = self.contexts.get(text.context_id)
            references = text.references
            if context and firsts[text.context_id] == text.id:
                row["context"] = context.text
                if context.facts:
                    row["facts"] = context.facts
                references = references or context.references or None
            if references is not None:
                row["references"] = list(references)
            row["human"] = plain(text.human)
            if text.annotators:
                row["human_raw"] = plain(text.annotators)
            yield row

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[RatedText]:
        return iter(self.texts)

    @property
    def context_ids(self) -> tuple[str, ...]:
        """Of each text."""
        return tuple(text.context_id for text in self.texts)

    @property
    def systems(self) -> tuple[str, ...]:
        """Of each text."""
        return tuple(text.system for text in self.texts)

    def references(self, text: RatedText) -> tuple[str, ...]:
        """By people, that a text is compared with: those of its own row, or else of its context."""
        if text.references is not None or text.context_id not in self.contexts:
            return text.references or ()
        return self.contexts[text.context_id].references

    def human(self, attribute: str) -> FloatArray:
        """Mean rating of each text, shape (n_texts,); NaN where nobody rated it."""
        return np.array([text.human.get(attribute, np.nan) for text in self.texts], dtype=np.float64)


# ------------------------------------------------------------------------------------------------- reading


class Rated(NamedTuple):
    """How a text was rated, in which row first, and by whom, where rows are of one rater each."""

    rating: MeanRating
    first: int
    raters: tuple[str, ...] = ()


class MeanRating(NamedTuple):
    """How a text was rated on an attribute.

    mean : None where nobody rated it
    single : ratings of single people, where they are known
    """

    mean: float | None
    single: tuple[float, ...] = ()


@dataclass(slots=True)
class RatedRows:
    """The texts and ratings of rows, in their order. errors : of rows that could not be used"""

    contexts: dict[str, Context] = field(default_factory=dict)
    errors: list[InputError] = field(default_factory=list)
    n_rows: int = 0
    # Of each text, with the number of its first row; of each rating: attribute -> id -> what was rated, and where.
    _texts: dict[str, tuple[RatedText, int]] = field(default_factory=dict)
    _rated: dict[str, dict[str, Rated]] = field(default_factory=dict)

    @classmethod
    def read(cls, rows: Iterable[Row | InputError], attribute: str | None) -> RatedRows:
        """raises : InputError for a text that is there twice"""
        result = cls()
        for row in rows:
            result.n_rows += 1
            try:
                if isinstance(row, InputError):
                    raise row
                names = read_names(row)
                written, fault = _text(row)
                context_id = names.context_id or ""
                references = read_references(row, context_id) if row.has("references") else None
                text = RatedText(
                    id=names.id,
                    context_id=context_id,
                    system=names.system or "",
                    text=written,
                    human={},
                    references=references,
                    fault=fault,
                )
                rated = _rated(row, attribute)
                if row.has("context") and text.context_id:
                    add_context(result.contexts, row)
            except InputError as error:
                result.errors.append(error)
                continue
            result._add(row, text, rated)
        return result

    def _add(self, row: Row, text: RatedText, rated: Mapping[str, MeanRating]) -> None:
        known, first = self._texts.setdefault(text.id, (text, row.number))
        same = (known.context_id, known.system) == (text.context_id, text.system)
        if not same or (text.text and known.text and text.text != known.text):
            problem = f"text {text.id!r} has another text, context or system in row {first}"
            raise row_error(row, "id", text.id, problem, "Give each text an id of its own")
        references = known.references
        if references is None:
            references = text.references
        written = known.text or text.text
        fault = ""
        if not written:
            fault = known.fault or text.fault
        self._texts[text.id] = replace(known, text=written, fault=fault, references=references), first
        raters: tuple[str, ...] = ()
        if row.has("rater"):
            raters = (read_id(row, "rater"),)
        for name, rating in rated.items():
            by_id = self._rated.setdefault(name, {})
            if rating.mean is None:
                continue
            if raters:
                rating = MeanRating(rating.mean, rating.single or (rating.mean,))
            new = Rated(rating, row.number, raters)
            before = by_id.get(text.id)
            if before and (not raters or not before.raters or raters[0] in before.raters):
                who = f" by {raters[0]!r}" if raters else ""
                problem = f"text {text.id!r} is rated on {name} a second time{who}, after row {before.first}"
                remedy = "Leave out one of them, or say who rated: in a column rater, or with all ratings in a list"
                raise row_error(row, "id", text.id, problem, remedy)
            if before:
                single = before.rating.single + new.rating.single
                mean = MeanRating(sum(single) / len(single), single)
                new = Rated(mean, before.first, before.raters + raters)
            by_id[text.id] = new

    @property
    def texts(self) -> list[RatedText]:
        """The texts that somebody rated."""
        texts = []
        for text, _ in self._texts.values():
            rated = {name: by_id[text.id].rating for name, by_id in self._rated.items() if text.id in by_id}
            human = {name: rating.mean for name, rating in rated.items() if rating.mean is not None}
            if not human:
                continue
            annotators = {name: rating.single for name, rating in rated.items() if rating.single}
            context = self.contexts.get(text.context_id)
            references = text.references
            if context and references == context.references:
                references = None
            texts.append(replace(text, human=human, annotators=annotators, references=references))
        return texts

    @property
    def attributes(self) -> tuple[str, ...]:
        return tuple(name for name, by_id in self._rated.items() if by_id)

    @property
    def broken(self) -> tuple[str, ...]:
        """Lines: rows that could not be used, by the field that is wrong, each with its first."""
        by_field = grouped((error.field or "row", error) for error in self.errors)
        return tuple(f"{len(errors)} of {self.n_rows} rows ({name}): {errors[0]}" for name, errors in by_field.items())

    @property
    def unrated(self) -> tuple[str, ...]:
        """Lines: texts and ratings that are not there."""
        rated = {id_ for by_id in self._rated.values() for id_ in by_id}
        never_rated = [id_ for id_ in self._texts if id_ not in rated]
        lines = []
        if never_rated:
            examples = ", ".join(map(repr, never_rated[:3]))
            lines.append(f"{len(never_rated)} texts: nobody rated them, such as {examples}")
        for name, by_id in self._rated.items():
            n_without = len(rated) - len(by_id)
            if n_without:
                lines.append(f"{n_without} texts: not rated on {name}")
        return tuple(lines)


def _text(row: Row) -> tuple[str, str]:
    """The row's text, "" where another row may hold it; and why it cannot be judged, as every reader of texts says."""
    if "text" not in row.values:
        return "", ""
    value = row.values["text"]
    problem, remedy = text_fault(value)
    if problem:
        return "", f"{problem}. {remedy}"
    return value, ""


def _rated(row: Row, attribute: str | None) -> dict[str, MeanRating]:
    """Attribute -> how the text was rated."""
    raw = _parsed(row.values.get("human_raw"))
    if is_missing(raw):
        raw = {}
    if not isinstance(raw, Mapping):
        problem = f"human_raw is {shorten(raw)}, expected attribute -> ratings"
        raise row_error(row, "human_raw", raw, problem, "Write it as an object, or leave it out")
    values = _by_attribute(row, attribute, bool(raw))
    if values:  # The rating in `human` counts, and not those of groups of people, such as experts and a crowd.
        raw = {name: single for name, single in raw.items() if not isinstance(single, Mapping)}
    rated = {name: _ratings(row, name, value) for name, value in values.items()}
    for name, value in raw.items():
        mean = rated.get(name, MeanRating(None)).mean
        single = _ratings(row, name, value)
        if mean is not None and single.mean is not None and abs(mean - single.mean) > _TOLERANCE:
            problem = f"{name} is {mean:g}, but the mean of {list(single.single)} is {single.mean:g}"
            raise row_error(row, "human_raw", value, problem, "Mend whichever is wrong, or leave out one")
        rated[name] = single._replace(mean=mean) if single.mean is None else single
    return rated


def _by_attribute(row: Row, attribute: str | None, has_raw: bool) -> dict[str, Any]:
    """Attribute -> what stands in the row's columns."""
    columns = {}
    for column, value in row.values.items():
        match = re.fullmatch(r"human[._](.+)", column)
        if match and column != "human_raw":
            columns[match[1]] = value
    value = _parsed(row.values.get("human"))
    if isinstance(value, Mapping):
        values = {str(name): rating for name, rating in value.items()}
    elif row.has("attribute") and "human" in row.values:
        values = {read_id(row, "attribute"): value}
    elif attribute is not None and "human" in row.values:
        values = {attribute: value}
    elif not is_missing(value):
        problem = f"human is {shorten(value)}, and nothing says of which attribute"
        raise row_error(row, "attribute", None, problem, "Add a column attribute, or pass attribute=NAME")
    elif not columns and not has_raw and "human" not in row.values:
        problem = f"there is no 'human' and no 'human.ATTRIBUTE', but {', '.join(map(repr, row.values))}"
        raise row_error(row, "human", None, problem, "Add it, or say which column holds it: human=COLUMN")
    else:
        values = {}
    if twice := sorted(values.keys() & columns.keys()):
        problem = f"{twice[0]} is in 'human' and in a column of its own"
        raise row_error(row, "human", twice[0], problem, "Leave out one of them")
    return values | columns


def _parsed(value: Any) -> Any:
    """A list or object that was written as JSON, as CSV files must."""
    if isinstance(value, str) and value.lstrip().startswith(("{", "[")):
        with suppress(ValueError):
            return parse_json(value)
    return value


def _ratings(row: Row, name: str, value: Any) -> MeanRating:
    """Of a number, or of a list of those of single people."""

    def rating(value: object) -> float | None:
        expected, remedy = "a number, or a list of numbers", "Mend it, or write null where nobody rated"
        return check_number(row, "human", value, expected, called=name, remedy=remedy)

    value = _parsed(value)
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray):
        return MeanRating(rating(value))
    single = tuple(number for item in value if (number := rating(item)) is not None)
    if not single:
        return MeanRating(None)
    return MeanRating(sum(single) / len(single), single)
