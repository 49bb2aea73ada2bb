"""`synthscore estimate`: many scores and few labels -> what the texts are worth, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from .labels import LabelOptions
from .messages import Messages, UsageError, exit_code, format_number, table
from .options import FileIn, Input, RowsOut
from .panels import FIRST

if TYPE_CHECKING:
    from ..estimating import Estimates
    from ..estimating.prediction_powered import IntervalEstimate


def estimate(
    scores: FileIn,
    /,
    *,
    labels: LabelOptions = LabelOptions(),
    min_score: float | None = None,
    by: Literal["system"] | None = None,
    confidence: float = 0.9,
    attribute: Annotated[str | None, Parameter(name=["--attribute", "-a"], group=FIRST)] = None,
    output: RowsOut | None = None,
    input: Input = Input(),
    messages: Messages = Messages(),
) -> int:
    """Many scores and few labels -> what the texts are worth.

    For example:
      $ synthscore estimate scores.jsonl --labels people.csv
      $ synthscore estimate scores.jsonl --labels people.csv --good-from 4 --min-score 3.5
      $ synthscore estimate scores.jsonl --labels people.csv --by system -o estimates.jsonl

    The mean rating that people would give all these texts, and texts like them, of whom they have rated a
    few, drawn at random (`synthscore export --sample N`): the mean of the labels, corrected by the scores of
    all, with an interval. With --min-score it is the share of good texts: by people, whose label is true or
    whose rating is --good-from or more; by score, whose score is --min-score or more. With --by system it is
    that of each system, and the difference of each two.

    Whatever the judge is worth, the number is right: good scores make its interval shorter, useless ones get
    no weight (lambda). Beside it stands what labels alone and scores alone say. Labels of texts that were
    chosen by their score are refused.

    The rows are those of `synthscore score`, with a column human (or label); or the labels are in a file of
    their own, joined on id, or on context_id and system. The exit code is 3 where a row could not be used, or
    a number has no interval (docs/estimate.md).

    Args:
        scores: rows with score and signature
        min_score: the share of good texts; by score, those of at least this
        by: estimates of each system, and of their differences
        confidence: of each interval by itself, such as 0.9 or 0.95
        attribute: which, where the scores are of several
        output: write the estimates as rows, more of each, into this file, or - for stdout (default: print a table)
    """
    from ..estimating import estimate as estimate_rows
    from ..io.write import write_rows

    if not 0 < confidence < 1:
        raise UsageError(f"--confidence {confidence:g}: expected 0 < C < 1, such as 0.9")
    if labels.good_from is not None and min_score is None:
        raise UsageError("--good-from makes a share of good texts: say from which score on too (--min-score)")
    found = estimate_rows(
        scores,
        labels.read(input.encoding),
        by=by,
        min_score=min_score,
        good_from=labels.good_from,
        confidence=confidence,
        attribute=attribute,
        encoding=input.encoding,
        fields=input.fields,
    )
    if output:
        write_rows(found.to_rows(), output)
    else:
        print(_table(found, "share" if min_score is not None else "mean"))
    messages.note(*_lines(found), signature=str(found.signature))
    has_intervals = all(not math.isnan(row.value.low) for row in found)
    return exit_code(has_intervals and not found.n_broken)


def _table(found: Estimates, what: str) -> str:
    rows = [
        (
            row.name,
            *map(_shown, (row.value, row.labels_alone, row.scores_alone)),
            row.weight,
            str(row.n_labels),
            str(row.n_texts),
        )
        for row in found
    ]
    interval = f"{100 * found.confidence:g} % interval"
    return table(rows, (what, interval, "labels alone", "scores alone", "lambda", "labels", "texts"))


def _shown(figure: IntervalEstimate) -> str:
    if math.isnan(figure.low):
        return format_number(figure.value)
    return f"{figure.value:.2f} [{figure.low:.2f}, {figure.high:.2f}]"


def _lines(found: Estimates) -> Iterator[str]:
    from ..thresholds.drawn import NOT_KNOWN

    yield from found.left_out
    for note in dict.fromkeys(row.note for row in found if row.note):
        names = [row.name for row in found if row.note == note]
        yield f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}: {note}"
    if found.drawn == "not known":
        yield NOT_KNOWN
