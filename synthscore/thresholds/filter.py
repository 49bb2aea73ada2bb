"""Rows -> kept, dropped and unsure rows: they are scored, a rule decides, and each goes where it belongs.

A batch at a time, in the order of the rows, in flat memory. Files take their names when all rows are there; a run that
was killed is run again from the start, and has its scores from the store. Knows nothing of models.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

import numpy as np

from ..engine import Engine, Progress
from ..engines import open_judge
from ..errors import InputError, Reasons, SynthscoreWarning
from ..io.fields import Row
from ..io.files import RowBatch, Source, read_batches
from ..io.shards import Shard
from ..io.write import Outputs, json_line, require_apart, require_format, sorted_into
from ..judging.asking import Asking
from ..ladders.references import References
from ..scoring.anchored.drift import Drift, Watch
from ..scoring.anchored.mode import Anchored
from ..scoring.anchored.scale import Scale
from ..scoring.items import context_of, read_item
from ..scoring.jury import require_alone, require_anchored, score_together
from ..scoring.paper import Paper
from ..scoring.rows import Counts, RowScorer, RowScores, held_attributes
from ..signature import Signature
from ..types import Score
from .certificate import Certificate
from .rules import AtLeast, Decision, MinScore, Rule, check_on_scale

BATCH = 1024  # rows that are read, decided and written before the next

ABOUT: Mapping[str, type] = {
    **dict.fromkeys(("score", "stderr", "low", "high"), float),
    **dict.fromkeys(("decision", "why", "status", "reason"), str),
}
"""What the column `synthscore` of a row that is not kept says."""


class Decided(NamedTuple):
    """A row, its score, and what was decided of it."""

    row: Row | InputError
    score: Score
    decision: Decision
    why: str

    @property
    def values(self) -> Mapping[str, Any]:
        """As they were read."""
        return self.row.values if isinstance(self.row, Row) else {"unreadable": vars(self.row).get("value")}

    @property
    def about(self) -> dict[str, Any]:
        score = self.score
        numbers = (score.value, score.stderr, score.low, score.high)
        return dict(zip(ABOUT, (*numbers, self.decision, self.why, score.status, score.reason), strict=True))


@dataclass
class Filtered:
    """What became of the rows.

    n_open : unscored rows that their low and high do not decide. why_unsure, why_unscored : reasons
    signatures : of what was compared. scales : that scores are on
    counts : what was asked, and the statuses of the scores
    drifts : what has changed since the certificate, or the scale, was made
    kept, dropped, unsure : the rows, where no file was named for any of them; those that are not kept have a column
        synthscore: score, stderr, low, high, decision, why, status, reason
    """

    n_rows: int = 0
    n_open: int = 0
    counts: Counts = field(default_factory=Counts)
    decisions: Counter[str] = field(default_factory=Counter)
    why_unsure: Reasons = field(default_factory=Reasons)
    why_unscored: Reasons = field(default_factory=Reasons)
    signatures: dict[Signature, None] = field(default_factory=dict)
    scales: Sequence[Scale] = ()
    drifts: Sequence[Drift] = ()
    kept: list[Mapping[str, Any]] = field(default_factory=list)
    dropped: list[Mapping[str, Any]] = field(default_factory=list)
    unsure: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def n_unsure(self) -> int:
        """Without what is unscored."""
        return self.decisions["unsure"] - self.n_open

    @property
    def complete(self) -> bool:
        """Whether every row was scored in full, and decided."""
        return self.counts.statuses["ok"] == self.n_rows and not self.n_unsure

    def count(self, scored: RowScores, decided: Sequence[Decided]) -> None:
        self.n_rows += len(decided)
        self.counts += scored.counts
        self.decisions.update(each.decision for each in decided)
        self.signatures |= dict.fromkeys(scored.used)
        self.scales = scored.scales
        for _, score, decision, why in decided:
            if score.status == "unscored":
                self.n_open += decision == "unsure"
                self.why_unscored.add(*score.reasons)
            elif decision == "unsure":
                self.why_unsure.add(*(score.reasons or [why]))


def filter(
    rows: Source,
    references: References | str | os.PathLike[str],
    judge: Engine | str | Mapping[str, Engine],
    rule: Rule | float,
    *,
    task: str | None = None,
    attribute: str | None = None,
    scoring: Paper | Anchored = Paper(),
    asking: Asking = Asking(),
    kept: str | os.PathLike[str] | None = None,
    dropped: str | os.PathLike[str] | None = None,
    unsure: str | os.PathLike[str] | None = None,
    encoding: str = "utf-8",
    fields: Mapping[str, str] | None = None,
    shard: Shard | None = None,
    progress: Progress | None = None,
) -> Filtered:
    """Sort rows by what a rule makes of their scores.

    rows : a file, or mappings, with context_id and text, and maybe id, system, task, attribute, context
    references, judge : the ladders and the engine, or their names. A judge by name, or a StoredEngine, answers through
        a store, so that the same call, made again after it was killed, asks only what was not answered before. Several
        engines by name score together, with anchored scoring (scoring/jury.py)
    rule : MinScore, AtLeast, a Certificate; or a number, the least score that is kept
    task, attribute : on what the texts are judged; may be left out where the references, or the rows, say it
    kept, dropped, unsure : files; where none is named, the rows are in what is returned. Without one for the unsure,
        they go with the dropped
    fields : our name -> the rows' own column. shard : only the rows of its contexts
    progress : called with numbers of questions that were answered
    raises : InputError, also for a threshold off the scale; LadderError; CertificateError for other scores than were
        certified, before anything is asked where their signature is known by then: not of scales fitted to these rows
    """
    if not isinstance(references, References):
        references = References.load(references)
    rule = rule if isinstance(rule, Rule) else MinScore(rule)
    named = {"kept": kept, "dropped": dropped, "unsure": unsure}
    paths = {name: str(path) for name, path in named.items() if path is not None}
    for path in paths.values():
        require_format(path)
    require_apart(paths, {"rows": os.fspath(rows)} if isinstance(rows, str | os.PathLike) else {})
    check(references, rule, task=task, attribute=attribute, scoring=scoring, paths=paths)
    alone = isinstance(scoring, Paper) or scoring.scale is not None
    found = Filtered()
    watches: dict[object, Watch] = {"": rule.watch} if isinstance(rule, Certificate) else {}
    judges = judge if isinstance(judge, Mapping) else {"": open_judge(judge)}
    if len(judges) > 1:
        require_anchored(scoring)
    if shard:
        require_alone(scoring)
    with sorted_into(paths) as outputs:
        scorers = {
            name: RowScorer(
                references,
                each,
                task=task,
                attributes=None if attribute is None else [attribute],
                scoring=scoring,
                asking=asking,
                store=getattr(each, "store", None),
            )
            for name, each in judges.items()
        }
        batches = read_batches(rows, BATCH, encoding=encoding)
        batches = _ours(batches, shard, fields) if shard else batches
        for group in ([batch] for batch in batches) if alone else [list(batches)]:
            read = [row for batch in group for row in batch.rows]
            items = [read_item(row, fields) for row in read]
            plans = {name: scorer.plan(items) for name, scorer in scorers.items()}
            for signature in [each for plan in plans.values() for each in plan.signatures] if alone else ():
                rule.check(signature)  # before anything is asked
            by_judge = {name: plan.score(progress) for name, plan in plans.items()}
            scored = score_together(by_judge)[0] if len(judges) > 1 else next(iter(by_judge.values()))
            for signature in scored.used:
                rule.check(signature)
            for scale in scored.scales if isinstance(scoring, Anchored) and scoring.scale is not None else ():
                watches.setdefault(scale.n_rungs, Watch.scale(scale))
            for watch in watches.values():
                watch.add(scored)
            decided = [Decided(row, score, *rule.decide(score)) for row, (score, _) in zip(read, scored, strict=True)]
            found.count(scored, decided)
            each = iter(decided)
            for batch in group:
                _sort(batch, list(itertools.islice(each, len(batch.rows))), outputs, found)
    found.drifts = [watch.drift() for watch in watches.values()]
    return found


def check(
    references: References,
    rule: Rule,
    *,
    task: str | None = None,
    attribute: str | None = None,
    scoring: Paper | Anchored = Paper(),
    paths: Mapping[str, str] | None = None,
) -> None:
    """What `filter` refuses before it asks anything.

    raises : InputError for two outputs that are one file (field "paths"), several attributes ("attribute"), a rule that
        needs errors which paper scores have not ("alpha") and a threshold off the scale ("threshold"); LadderError
    """
    paths = paths or {}
    require_apart(paths)
    held = held_attributes(references, task, None if attribute is None else [attribute])
    names_ = list(dict.fromkeys(name for attributes in held.values() for name in attributes))
    if len(names_) != 1:
        raise InputError(
            f"filter decides by one attribute, and there are {len(names_)}: {', '.join(names_)}. Say which with one "
            "--attribute NAME (attribute=NAME); for several, filter the result again",
            field="attribute",
            value=tuple(names_),
        )
    if not isinstance(rule, MinScore | AtLeast):
        return
    anchored = isinstance(scoring, Anchored)
    if isinstance(rule, AtLeast) and not anchored:
        raise InputError(
            "alpha needs the error of each score, which paper scores have not. Use anchored scoring (--scoring "
            "anchored), or leave alpha out",
            field="alpha",
            value=rule.alpha,
        )
    sizes = sorted({ladder.n_rungs for ladder in references if ladder.attribute in held.get(ladder.task, ())})
    if len(sizes) > 1:
        lengths = ", ".join(map(str, sizes))
        message = f"the ladders have {lengths} rungs: {rule.threshold:g} means another quality on each"
        warnings.warn(message, SynthscoreWarning, stacklevel=2)
    check_on_scale(rule.threshold, sizes[-1], "anchored" if anchored else "paper")


def _ours(batches: Iterator[RowBatch], shard: Shard, fields: Mapping[str, str] | None) -> Iterator[RowBatch]:
    """The rows that are the shard's, again in batches; without their tables."""
    read = ((row, batch.lines[index : index + 1]) for batch in batches for index, row in enumerate(batch.rows))
    ours = ((row, line) for row, line in read if shard.owns(context_of(row, fields)))
    while some := list(itertools.islice(ours, BATCH)):
        yield RowBatch([row for row, _ in some], [each for _, line in some for each in line])


def _sort(batch: RowBatch, decided: Sequence[Decided], outputs: Outputs, found: Filtered) -> None:
    """Each row where it belongs."""
    paths = outputs.paths
    for name in paths or get_args(Decision):
        which = {"dropped", "unsure"} if name == "dropped" and paths and "unsure" not in paths else {name}
        chosen = [index for index, each in enumerate(decided) if each.decision in which]
        about = [] if name == "kept" else [decided[index].about for index in chosen]
        if paths and batch.table is not None and paths[name].lower().endswith(".parquet"):
            table = batch.table.take(np.array(chosen, dtype=np.int64))
            outputs.write_table(name, table if name == "kept" else _mark(table, about))
        elif paths and name == "kept" and batch.lines:
            lines = (batch.lines[index] for index in chosen)
            outputs.write(name, "".join(line if line.endswith("\n") else f"{line}\n" for line in lines).encode())
        else:
            rows = [decided[index].values for index in chosen]
            if name != "kept":
                rows = [{**values, "synthscore": why} for values, why in zip(rows, about, strict=True)]
            if paths:
                outputs.write(name, b"".join(map(json_line, rows)))
            else:
                getattr(found, name).extend(rows)


def _mark(table: Any, about: Sequence[Mapping[str, Any]]) -> Any:
    """A table of Arrow's, with the column synthscore."""
    import pyarrow as pa

    kinds = {float: pa.float64(), str: pa.string()}
    column = pa.array(about, pa.struct([(name, kinds[kind]) for name, kind in ABOUT.items()]))
    if (at := table.schema.get_field_index("synthscore")) >= 0:
        table = table.remove_column(at)
    return table.append_column("synthscore", column)
