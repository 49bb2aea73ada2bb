"""Rows of other tools' files <-> ours: a small function a format, in three tables. Needs none of the tools, but for the
logs of Inspect, which its own reader opens."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import InputError, why_unreadable
from ..io.fields import Row, make_row, read_item, row_error, shorten
from ..io.files import Source, read_rows
from ..thresholds.drawn import CHOSEN, stamp
from ..types import Target
from . import Labels, ScoresTo, Texts

Values = Mapping[str, Any]


def read_form(source: Source, form: Texts | Labels, encoding: str = "utf-8") -> Iterator[Any]:
    """Our rows of a file of this format; in the place of one that is none, the InputError that says so."""
    read, rows = READERS[form], read_rows(source, encoding=encoding) if form != "inspect" else _samples(source)
    for row in rows:
        if isinstance(row, InputError):
            yield row
            continue
        try:
            yield read(row.values)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
            seen = f"it is no row of {form}, since {why_unreadable(error)}: {shorten(row.values)}"
            yield row_error(row, form, row.values, seen, "Leave it out, or name the format that it has")


# ------------------------------------------------------------------------------------------------- texts


def _from_lm_eval(row: Values) -> Values:
    """A sample of --log_samples: the columns of its document, its answer after the filter, its prompt as context where
    the document names none."""
    doc = row["doc"] if isinstance(row["doc"], Mapping) else {}
    answer = row["filtered_resps"][0]
    ours = {"id": f"{row['doc_id']}/{row['filter']}", "text": answer, "system": row["filter"]}
    if not {"context_id", "context"} & doc.keys():
        ours["context"] = row["arguments"]["gen_args_0"]["arg_0"]
    return {**doc, **ours}


def _from_inspect(sample: Values) -> Values:
    """A sample of a log: its metadata as columns, what was completed, its input as context where that names none."""
    about = sample["metadata"]
    context = {} if {"context_id", "context"} & about.keys() else {"context": sample["input"]}
    return {**about, **context, "id": sample["id"], "text": sample["text"]}


def _samples(source: Source) -> Iterator[Row | InputError]:
    """raises : InputError for a log of several epochs, of which scores of texts by their ids cannot be told apart"""
    try:
        from inspect_ai.log import read_eval_log
    except ImportError:
        message = f"cannot read {source}: logs of Inspect need the package inspect-ai"
        raise InputError(f"{message}. Run: pip install 'synthscore[inspect-ai]'", source=str(source)) from None
    try:
        log = read_eval_log(str(source))
    except Exception as error:  # of many kinds
        message = f"cannot read {source}: it is no log of Inspect ({type(error).__name__}: {error})"
        raise InputError(
            f"{message}. Name the .eval or .json file that inspect eval wrote", source=str(source)
        ) from error
    samples = log.samples or []
    if any(sample.epoch > 1 for sample in samples):
        raise InputError(
            f"cannot read {source}: it holds several epochs of a sample, expected one. Score it in Inspect: inspect "
            f"score {source} --scorer synthscore/score",
            source=str(source),
        )
    for number, sample in enumerate(samples, 1):
        said = {"id": str(sample.id), "text": sample.output.completion, "metadata": sample.metadata or {}}
        given = sample.input if isinstance(sample.input, str) else [each.model_dump() for each in sample.input]
        yield make_row(number, {**said, "input": given}, str(source))


# ------------------------------------------------------------------------------------------------- people's labels


def _from_label_studio(task: Values) -> Values:
    """A task of a JSON export: its rating, the mean of several people's; none where nobody rated it."""
    results = [each["result"] for each in task["annotations"] if not each.get("was_cancelled")]
    ratings = [float(one["value"]["rating"]) for result in results for one in result if one["type"] == "rating"]
    return {**task["data"], "human": float(np.mean(ratings)) if ratings else None}


def _from_argilla(record: Values) -> Values:
    """A record of `records.to_json`: as above."""
    responses = [each["value"] for answers in (record["responses"] or {}).values() for each in answers]
    ratings = [float(value) for value in responses if value is not None]
    return {**record["metadata"], "id": record["id"], "human": float(np.mean(ratings)) if ratings else None}


def tasks(
    rows: Iterable[Row | InputError],
    form: Labels,
    n: int | None = None,
    seed: int = 0,
    contexts: Mapping[str, str] = {},
) -> list[Values]:
    """Texts for people to rate, in what this tool imports; no score with them, which would lead whoever rates.

    rows : id, context_id (or context), text. contexts : id -> text, where rows do not have it
    n : so many, drawn at random; None: all
    Each says how its text was drawn (thresholds/drawn.py): at random, with all, or chosen, as rows that `filter` did
    not keep; and from how many. Where labels are read, chosen ones are refused, and those drawn from a part.
    raises : InputError for a row that holds no text, and for fewer rows than n
    """
    texts_given: list[tuple[Target, str]] = []
    chosen = False
    for row in rows:
        item = read_item(row)
        texts_given.append((item.require_target(), item.context))
        assert isinstance(row, Row)
        chosen = chosen or row.has("synthscore")
    n_given, drawn = len(texts_given), "all"
    places: Sequence[int] = range(n_given)
    if n is not None:
        if n > n_given:
            raise InputError(f"cannot draw {n} texts: there are {n_given}. Draw fewer, or give more", value=n)
        drawn, places = "random", sorted(np.random.default_rng(seed).choice(n_given, n, False))
    if chosen:
        drawn = CHOSEN
    made: list[Values] = []
    for target, context in (texts_given[place] for place in places):
        about = {"context_id": target.context_id, **stamp(drawn, n_given)}
        texts = {"context": context or contexts.get(target.context_id, ""), "text": target.text}
        if form == "argilla":
            made.append({"id": target.id, "fields": texts, "metadata": about, "suggestions": {}, "responses": {}})
        else:
            made.append({"data": {"id": target.id, **about, **texts}})
    return made


# ------------------------------------------------------------------------------------------------- scores


def _to_inspect(row: Values) -> Values | None:
    """A record for `precomputed_scores`, which leaves a sample without one unscored."""
    about = {name: row[name] for name in ("attribute", "low", "high", "signature")}
    known = {"id": row["id"], "value": row["score"], "explanation": row["reason"] or None, "metadata": about}
    return None if row["score"] is None else known


def _to_otel(row: Values) -> Values:
    """The event gen_ai.evaluation.result of OpenTelemetry's conventions, for your own collector to ship."""
    attributes = {
        "gen_ai.evaluation.name": f"synthscore {row['attribute']}",
        "gen_ai.evaluation.score.value": row["score"],
        "gen_ai.evaluation.explanation": row["reason"] or None,
        "gen_ai.response.id": row["id"],
        "error.type": "unscored" if row["score"] is None else None,
        **{f"synthscore.{name}": row[name] for name in ("context_id", "low", "high", "signature")},
    }
    return {
        "name": "gen_ai.evaluation.result",
        "attributes": {name: value for name, value in attributes.items() if value is not None},
    }


def scores_to(rows: Iterable[Values], form: ScoresTo) -> Iterator[Values]:
    """rows : as score_row makes them"""
    return (made for row in rows if (made := WRITERS[form](row)) is not None)


READERS: Mapping[str, Callable[[Values], Values]] = {
    "inspect": _from_inspect,
    "lm-eval": _from_lm_eval,
    "label-studio": _from_label_studio,
    "argilla": _from_argilla,
}
WRITERS: Mapping[str, Callable[[Values], Values | None]] = {"inspect": _to_inspect, "otel": _to_otel}
