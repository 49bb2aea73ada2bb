"""Published answers of other people's judges -> a store, from which they are replayed: --model recorded:FILE#PART.

Their judges were asked in their own words. Here the answers stand behind our prompts about the same texts, under a
signature that says so: model, prompt:theirs, benchmark, and the hash of the file that they come from. Kinds of rows:

    score_distribution   log-probabilities of "1", "2", ...; null: below their floor of 1e-5  -> template `rate`
    pairwise             choice A, B or tie between system_a, shown first, and system_b       -> template `choose`
    score                a number: no answer of ours, but a row of scores (score_rows)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from synthscore.engine import LabelAnswer, Prompt, Question
from synthscore.errors import InputError
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.io.fields import Row, check_number, read_id, require_number, row_error, shorten
from synthscore.io.files import each_row, good_rows, read_rows
from synthscore.judging.templates import Templates, load_task
from synthscore.signature import Signature, file_hash
from synthscore.store.engine import stored_value
from synthscore.store.file import Store, Stored

FLOOR = math.log(1e-5)
"""A published log-probability that is null is at most this, nats: it is censored, not zero."""

_CHOICES = {"A": (0.0, -math.inf), "B": (-math.inf, 0.0), "tie": (math.log(0.5), math.log(0.5))}


@dataclass(frozen=True, slots=True)
class Imported:
    """What came into a store.

    engines : signature -> answers under it
    n_new : how many the store did not hold yet
    repeated : rows with the question of an earlier row, as of two systems that wrote the same: the first answer counts
    untold : rows that tell no label at all: their label mass is 0, so no method scores them
    left_out : rows that could not be used, with the reason
    """

    engines: Mapping[str, int]
    n_new: int
    repeated: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


def import_answers(source: Path | str, ratings: Ratings, store: Store, *, templates: str = "default") -> Imported:
    """Puts published answers about a benchmark's texts into a store, as answers to our prompts about them.

    raises : InputError where no row can be used; TaskError, TemplateError
    """
    rows = read_rows(source)
    read = partial(_read, _Prompts(ratings, templates), file_hash(source))
    answers: dict[bytes, Stored] = {}
    repeated: list[str] = []
    untold: list[str] = []
    errors: list[InputError] = []
    for name, answer in each_row(good_rows(rows, errors), read, errors):
        if answer.key in answers:
            repeated.append(name)
            continue
        if all(answer.value.get("censored", (False,))):
            untold.append(name)
        answers[answer.key] = answer
    if not answers:
        first = f"; the first of {len(errors)} rows: {errors[0]}" if errors else ""
        raise InputError(
            f"{source} holds no answers about the texts of {ratings.name}, expected rows of kind "
            f"score_distribution or pairwise{first}. Take the benchmark that the rows are about"
        )
    engines = Counter(answer.engine for answer in answers.values())
    n_new = store.put_many(answers.values())
    return Imported(engines, n_new, tuple(repeated), tuple(untold), tuple(map(str, errors)))


def score_rows(source: Path | str, part: str = "") -> list[dict[str, Any]]:
    """Published scores as rows of `synthscore score`, for methods of the kind file:PATH.

    part : of the signature of the scores that are taken, where the file holds those of several judges, prompts or
        methods: "GPT-4o|prompt:theirs/0", "method:rts". Scores that a judge gave one text several times, by one prompt
        and method, are averaged; n_repeats says how many there are. A text of which no score can be read is unscored.
    raises : InputError for a row that is no score or names no text, and where the part is that of several signatures,
        or of none
    """
    found: dict[Signature, dict[tuple[str, ...], list[float | str]]] = {}
    rows = read_rows(source)
    published = file_hash(source)
    for row in rows:
        if isinstance(row, InputError):
            raise row
        _require_kind(row, "score")
        signature = Signature.of(
            model=read_id(row, "judge"),
            prompt=_prompt(row),
            method=str(row.values.get("method") or "none"),
            published=published,
        )
        if part in str(signature):
            names = tuple(read_id(row, name) for name in ("context_id", "system", "attribute"))
            found.setdefault(signature, {}).setdefault(names, []).append(_score(row))
    if len(found) != 1:
        of = f" whose signature contains {part!r}" if part else ""
        there = "".join(f"\n  {signature}" for signature in found) or " none"
        raise InputError(
            f"{source} holds scores{of} of {len(found)} judges, prompts and methods, expected one:{there}\n"
            "Name one by a part of its signature"
        )
    ((signature, by_text),) = found.items()
    scored = []
    for (context_id, system, attribute), told in by_text.items():
        scores = [each for each in told if isinstance(each, float)]
        why = [each for each in told if isinstance(each, str)]
        scored.append(
            {
                "id": f"{context_id}/{system}",
                "context_id": context_id,
                "system": system,
                "attribute": attribute,
                "score": math.fsum(scores) / len(scores) if scores else None,
                "status": "partial" if scores and why else "ok" if scores else "unscored",
                "reason": "; ".join(why),
                "n_repeats": len(scores),
                "signature": str(signature),
            }
        )
    return scored


def _score(row: Row) -> float | str:
    """A number, or why there is none."""
    try:
        return float(require_number(row, "score"))
    except InputError as error:
        return str(error)


def _prompt(row: Row) -> str:
    """What a signature says of the prompt."""
    index = row.values.get("prompt_index")
    return "theirs" if index is None else f"theirs/{index}"


class _Prompts:
    """Our prompts about the texts of a benchmark."""

    def __init__(self, ratings: Ratings, templates: str) -> None:
        self.ratings = ratings
        self._task = load_task(ratings.task)
        self._templates = Templates(self._task, templates)
        self._texts = {(text.context_id, text.system): text for text in ratings}
        self._rated: dict[tuple[str, str, tuple[str, ...]], Prompt] = {}  # each is asked of several judges

    def text(self, row: Row, name: str) -> RatedText:
        if (benchmark := row.values.get("benchmark")) != self.ratings.name:
            seen = f"it is about {shorten(benchmark)}, not about {self.ratings.name}"
            raise row_error(row, "benchmark", benchmark, seen, "Take the benchmark that the rows are about")
        context_id, system = read_id(row, "context_id"), read_id(row, name)
        if (context_id, system) not in self._texts:
            seen = f"{self.ratings.name} has no text of {system!r} for context {context_id!r}"
            raise row_error(row, name, system, seen, "Take the whole benchmark")
        if context_id not in self.ratings.contexts:
            seen = f"the text of context {context_id!r} is not known"
            raise row_error(row, "context_id", context_id, seen, "Take a form of the benchmark with its contexts")
        return self._texts[context_id, system]

    def rate(self, row: Row, labels: tuple[str, ...]) -> Prompt:
        text, attribute = self.text(row, "system"), self._attribute(row)
        key = text.id, attribute, labels
        if key not in self._rated:
            self._rated[key] = self._templates.rate(
                self.ratings.contexts[text.context_id],
                self._task.attribute(attribute),
                text=text.text,
                low=int(labels[0]),
                high=int(labels[-1]),
            )
        return self._rated[key]

    def choose(self, row: Row) -> Prompt:
        first, second = self.text(row, "system_a"), self.text(row, "system_b")
        context, attribute = self.ratings.contexts[first.context_id], self._task.attribute(self._attribute(row))
        return self._templates.choose(context, attribute, first=first.text, second=second.text)

    def _attribute(self, row: Row) -> str:
        """The task's name of it."""
        name = read_id(row, "attribute")
        if name not in self.ratings.attributes:
            seen = f"{self.ratings.name} has no attribute {name!r}, but {', '.join(self.ratings.attributes)}"
            raise row_error(row, "attribute", name, seen, "Take the benchmark that the rows are about")
        return self.ratings.asked_as.get(name, name)


def _read(prompts: _Prompts, published: str, row: Row) -> tuple[str, Stored]:
    """A name for people, and the answer. published : hash of the file"""
    if row.values.get("kind") == "pairwise":
        choice = row.values.get("choice")
        if choice not in _CHOICES:
            raise row_error(row, "choice", choice, f"choice is {shorten(choice)}, expected A, B or tie", "Mend the row")
        question = Question(prompts.choose(row), ("A", "B"))
        answer = LabelAnswer(_CHOICES[choice])
        systems = f"{row.values['system_a']} or {row.values['system_b']}"
    else:
        _require_kind(row, "score_distribution")
        labels, answer = _distribution(row)
        question, systems = Question(prompts.rate(row, labels), labels), row.values["system"]
    # Model and prompt first, so that `MODEL|prompt:theirs/0` is a part that names one engine.
    engine = str(
        Signature.of(
            model=read_id(row, "judge"), prompt=_prompt(row), benchmark=prompts.ratings.name, published=published
        )
    )
    name = f"row {row.number}, {row.values['context_id']}/{systems}/{row.values['attribute']}"
    return name, Stored(question.key(engine), question.kind, stored_value(answer), engine, question)


def _distribution(row: Row) -> tuple[tuple[str, ...], LabelAnswer]:
    told = row.values.get("logprobs")
    if not isinstance(told, Mapping) or not told or not all(str(label).isdecimal() for label in told):
        seen = f"logprobs is {shorten(told)}, expected whole numbers -> log-probabilities"
        raise row_error(row, "logprobs", told, seen, "Mend or remove the row")
    labels = tuple(sorted((str(label) for label in told), key=int))
    if [int(label) for label in labels] != list(range(int(labels[0]), int(labels[-1]) + 1)):
        seen = f"logprobs are of {', '.join(labels)}, expected all whole numbers between the first and the last"
        raise row_error(row, "logprobs", told, seen, "Write null for a label that is not told")
    found = [check_number(row, "logprobs", told[label]) for label in labels]
    values = [FLOOR if value is None else value for value in found]
    censored = [value is None for value in found]
    if max(values) > 1e-4:
        seen = f"logprobs are {shorten(told)}, expected at most 0"
        raise row_error(row, "logprobs", told, seen, "Natural logarithms go there")
    return labels, LabelAnswer(values, censored=censored if any(censored) else None)


def _require_kind(row: Row, kind: str) -> None:
    if (seen := row.values.get("kind")) != kind:
        remedy = "Scores go through score_rows" if seen == "score" else "Leave the row out"
        raise row_error(row, "kind", seen, f"kind is {shorten(seen)}, expected {kind}", remedy)
