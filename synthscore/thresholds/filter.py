"""Rows -> kept, dropped and unsure rows, by a rule that looks at their scores. Knows nothing of models.

Works a batch at a time, in the order of the rows, in constant memory. A file gets its name when all its rows are there.
A run that was killed starts again from the beginning, and takes its answers from the store.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple, get_args

from ..engine import Engine, Progress
from ..engines import open_judge
from ..errors import InputError, Reasons, SynthscoreWarning
from ..io.fields import Item, Row
from ..io.files import Source, read_items
from ..io.shards import Shard
from ..io.write import Output, require_apart, require_format, sorted_into
from ..judging.asking import Asking
from ..ladders.references import References
from ..scoring.ladder import Scoring
from ..scoring.method import Method
from ..scoring.paper import Paper
from ..scoring.run import Judges, Tally, score_rows
from ..scoring.scorer import Planned, Scorer, find_criteria, ladder_scales, make_method
from ..store.engine import store_of
from ..types import Score
from .certificate import Certificate
from .rules import AtLeast, Decision, MinScore, Rule, check_threshold

ABOUT: Mapping[str, type] = {
    **dict.fromkeys(("score", "stderr", "low", "high"), float),
    **dict.fromkeys(("decision", "why", "status", "reason"), str),
}
"""The fields of the column `synthscore` that dropped and unsure rows get."""


class Decided(NamedTuple):
    """A row, its score, and the decision."""

    item: Item
    score: Score
    decision: Decision
    why: str

    @property
    def values(self) -> Mapping[str, Any]:
        """The row's values as they were read."""
        row = self.item.row
        return row.values if isinstance(row, Row) else {"unreadable": row.value}

    @property
    def marked(self) -> dict[str, Any]:
        """The row's values, with the decision in a column synthscore."""
        score = self.score
        numbers = (score.value, score.stderr, score.low, score.high)
        about = dict(zip(ABOUT, (*numbers, self.decision, self.why, score.status, score.reason), strict=True))
        return {**self.values, "synthscore": about}


@dataclass
class Filtered:
    """What became of the rows.

    n_unscored_unsure, n_scored_unsure : rows that are unsure, without a score and with one
    why_unsure : reasons why scored rows are unsure
    n_incomplete : rows that were not scored in full, or are unsure
    tally : what was asked, and the scores of the rows
    kept, dropped, unsure : the rows, where no file was named for any of them; those that are not kept have a column
        synthscore: score, stderr, low, high, decision, why, status, reason
    """

    n_rows: int = 0
    n_unscored_unsure: int = 0
    n_incomplete: int = 0
    decisions: Counter[str] = field(default_factory=Counter)
    why_unsure: Reasons = field(default_factory=Reasons)
    tally: Tally = field(default_factory=Tally)
    kept: list[Mapping[str, Any]] = field(default_factory=list)
    dropped: list[Mapping[str, Any]] = field(default_factory=list)
    unsure: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def n_scored_unsure(self) -> int:
        """Scored rows that are unsure."""
        return self.decisions["unsure"] - self.n_unscored_unsure

    @property
    def complete(self) -> bool:
        """Whether every row was scored in full, and decided."""
        return not self.n_incomplete

    def count(self, decided: Sequence[Decided]) -> None:
        """Add what was decided of some of the rows."""
        self.n_rows += len(decided)
        self.decisions.update(row.decision for row in decided)
        for _, score, decision, why in decided:
            self.n_incomplete += score.status != "ok" or decision == "unsure"
            if score.status == "unscored":
                self.n_unscored_unsure += decision == "unsure"
            elif decision == "unsure":
                self.why_unsure.add(*(score.reasons or [why]))


def filter(
    rows: Source,
    references: References | str | os.PathLike[str] | None,
    judge: Engine | str | Judges,
    rule: Rule | float,
    *,
    task: str | None = None,
    attribute: str | None = None,
    scoring: Scoring = Paper(),
    asking: Asking = Asking(),
    method: str | Method | None = None,
    kept: str | os.PathLike[str] | None = None,
    dropped: str | os.PathLike[str] | None = None,
    unsure: str | os.PathLike[str] | None = None,
    encoding: str = "utf-8",
    fields: Mapping[str, str] | None = None,
    shard: Shard | None = None,
    planned: Planned | None = None,
    progress: Progress | None = None,
) -> Filtered:
    """Score rows, and sort them by what a rule makes of their scores.

    rows : a file, or mappings, with context_id and text, and maybe id, system, task, attribute, context
    references, judge, task, attribute, scoring, asking, method : as of Scorer. A judge by name, or a StoredEngine,
        answers through a store, so that the same call, made again after it was killed, asks only what was not answered
        before. Several judges by name score together, with anchored scoring (scoring/jury.py)
    rule : MinScore, AtLeast, a Certificate; or a number, the least score that is kept
    kept, dropped, unsure : files; where none is named, the rows are in what is returned. Without one for the unsure,
        they go with the dropped
    fields : our name -> the rows' own column. shard : only the rows of its contexts
    planned : as of Scorer.score_batches. progress : called with numbers of questions that were answered
    raises : InputError, also for a threshold off the scale; LadderError; CertificateError for other scores than were
        certified, before anything is asked where their signature is known by then: not of scales fitted to these rows
    """
    if references is not None and not isinstance(references, References):
        references = References.load(references)
    rule = rule if isinstance(rule, Rule) else MinScore(rule)
    method = make_method(method, scoring)
    named = {"kept": kept, "dropped": dropped, "unsure": unsure}
    paths = {name: str(path) for name, path in named.items() if path is not None}
    for path in paths.values():
        require_format(path)
    inputs = []
    if isinstance(rows, str | os.PathLike):
        inputs.append(("rows", os.fspath(rows)))
    require_apart(paths.items(), inputs)
    check(references, rule, task=task, attribute=attribute, method=method)
    if shard is not None:
        method.require_alone()
    filtered = Filtered()
    if isinstance(rule, Certificate):
        filtered.tally.watches[""] = rule.watch
    batches = read_items(rows, encoding=encoding, fields=fields, only=shard.owns if shard else None)

    def make_scorer(engine: Engine) -> Scorer:
        return Scorer(
            references,
            engine,
            task=task,
            attribute=attribute,
            asking=asking,
            method=method,
            whole_texts=store_of(engine),
        )

    with sorted_into(paths) as outputs:
        judges = judge if isinstance(judge, Mapping) else {"": nullcontext(open_judge(judge))}
        for part in score_rows(batches, judges, make_scorer, check=rule.check, planned=planned, progress=progress):
            filtered.tally.add(part.scored, method)
            scores = (score for score, _ in part.scored)
            for batch in part.batches:
                these = zip(batch.items, islice(scores, len(batch.items)), strict=True)
                decided = [Decided(item, score, *rule.decide(score)) for item, score in these]
                filtered.count(decided)
                _sort(batch.schema, decided, outputs, filtered)
    return filtered


def check(
    references: References | None,
    rule: Rule,
    *,
    task: str | None,
    attribute: str | None,
    method: Method,
) -> None:
    """What `filter` refuses before it asks anything.

    raises : InputError for several attributes (field "attribute"), a rule that needs errors which the scores have not
        ("alpha") and a threshold off the scale ("threshold"); LadderError
    """
    criteria = find_criteria(references, task, None if attribute is None else [attribute])
    every = dict.fromkeys(name for attributes in criteria.values() for name in attributes)
    names = list(every) if attribute is None else [attribute]
    if len(names) != 1:
        problem = "none is named"
        if names:
            problem = f"there are {len(names)}: {', '.join(names)}"
        raise InputError(
            f"filter decides by one attribute, and {problem}. Say which with one --attribute NAME (attribute=NAME); "
            "for several, filter the result again",
            field="attribute",
            value=tuple(names),
        )
    if not isinstance(rule, MinScore | AtLeast):
        return
    if isinstance(rule, AtLeast) and not method.gives_errors:
        raise InputError(
            "alpha needs the error of each score, which these scores have not. Use anchored scoring (--scoring "
            "anchored), or leave alpha out",
            field="alpha",
            value=rule.alpha,
        )
    scales = ladder_scales(references, criteria)
    if len(scales) > 1 and method.on_rungs:
        shown = ", ".join(map(str, scales))
        message = f"the ladders have {shown} rungs: {rule.threshold:g} means another quality on each"
        warnings.warn(message, SynthscoreWarning, stacklevel=2)
    check_threshold(rule.threshold, method.limits(max(scales, default=0)))


def _sort(schema: Any, decided: Sequence[Decided], outputs: Mapping[str, Output], filtered: Filtered) -> None:
    """Write each row to the file of its decision, or keep it in `filtered` where there are no files.

    schema : the Arrow schema of the rows, or None
    """
    for name in outputs or get_args(Decision):
        decisions = {name}
        if name == "dropped" and outputs and "unsure" not in outputs:
            decisions.add("unsure")
        chosen = [row for row in decided if row.decision in decisions]
        if name == "kept":
            lines = [row.item.row.line for row in chosen if isinstance(row.item.row, Row) and row.item.row.line]
            if outputs and 0 < len(chosen) == len(lines):
                whole_lines = [line if line.endswith("\n") else f"{line}\n" for line in lines]
                outputs[name].write_lines("".join(whole_lines).encode())
                continue
            rows = [row.values for row in chosen]
            row_schema = schema
        else:
            rows = [row.marked for row in chosen]
            row_schema = None if schema is None else _mark_schema(schema)
        if outputs:
            outputs[name].write_rows(rows, row_schema)
        else:
            getattr(filtered, name).extend(rows)


def _mark_schema(schema: Any) -> Any:
    """The schema of rows with the column synthscore."""
    import pyarrow as pa

    kinds = {float: pa.float64(), str: pa.string()}
    about = pa.field("synthscore", pa.struct([(name, kinds[kind]) for name, kind in ABOUT.items()]))
    index = schema.get_field_index("synthscore")
    return schema.append(about) if index < 0 else schema.set(index, about)
