"""Rows -> kept, dropped and unsure rows: they are scored, a rule decides, and each goes where it belongs.

A batch at a time, in the order of the rows, in flat memory. Files take their names when all rows are there; a run that
was killed is run again from the start, and has its scores from the store. Knows nothing of models.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

from ..errors import InputError, Reasons
from ..io.fields import Row
from ..io.files import RowBatch
from ..io.outputs import Outputs
from ..io.write import json_line
from ..signature import Signature
from ..types import Score
from .rules import Decision, Rule

BATCH = 1024  # rows that are read, decided and written before the next

ScoreRows = Callable[[Sequence[Row | InputError]], Sequence[tuple[Score, Signature]]]
"""What scores rows: one Score each, in their order, unscored where a row holds no target; and its signature."""

ABOUT: Mapping[str, type] = {
    **dict.fromkeys(("score", "stderr", "low", "high"), float),
    **dict.fromkeys(("decision", "why", "status", "reason"), str),
}
"""What the column `synthscore` of a row that is not kept says."""


@dataclass
class Filtered:
    """What became of the rows.

    n_open : unscored rows that their low and high do not decide. unsure, unscored : reasons
    signatures : of what was compared
    kept, dropped, unsure : the rows, where no file was named for any
    """

    n_rows: int = 0
    n_open: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    decisions: Counter[str] = field(default_factory=Counter)
    signatures: dict[Signature, None] = field(default_factory=dict)
    why_unsure: Reasons = field(default_factory=Reasons)
    why_unscored: Reasons = field(default_factory=Reasons)
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
        return self.statuses["ok"] == self.n_rows and not self.n_unsure

    def count(self, scores: Sequence[Score], decisions: Sequence[Decision], rule: Rule) -> None:
        self.n_rows += len(scores)
        self.statuses.update(score.status for score in scores)
        self.decisions.update(decisions)
        for score, decision in zip(scores, decisions, strict=True):
            if score.status == "unscored":
                self.n_open += decision == "unsure"
                self.why_unscored.add(*score.reasons)
            elif decision == "unsure":
                self.why_unsure.add(*(score.reasons or [rule.why(score, decision)]))


def filter_rows(
    batches: Iterable[RowBatch], score_rows: ScoreRows, rule: Rule, paths: Mapping[str, str | os.PathLike[str]]
) -> Filtered:
    """Sort rows into files by what a rule makes of their scores.

    paths : where the kept, dropped and unsure rows go, "-" for stdout; without one for the unsure, they go with the
        dropped. Empty: the rows are in what is returned
    raises : InputError where two outputs are one file, or another process writes it; whatever the rule does not decide
    """
    check_paths(paths)
    found = Filtered()
    with Outputs({name: str(path) for name, path in paths.items()}) as outputs:
        for batch in batches:
            scored = score_rows(batch.rows)
            used = {id(signature): signature for score, signature in scored if score.n_comparisons}
            for signature in dict.fromkeys(used.values()):
                rule.check(signature)
                found.signatures[signature] = None
            scores = [score for score, _ in scored]
            decisions = rule.decide_scores(scores)
            found.count(scores, decisions, rule)
            _Sorted(batch, scores, decisions, rule).into(outputs, found)
        outputs.finish()
    return found


def check_paths(paths: Mapping[str, str | os.PathLike[str]]) -> None:
    """raises : InputError where two outputs are one file"""
    if len({os.path.realpath(path) for path in paths.values()}) < len(paths):
        names = " and ".join(f"{name} rows to {path}" for name, path in paths.items())
        raise InputError(f"cannot write {names}: two of these are one file. Give each a file of its own")


@dataclass(frozen=True, slots=True)
class _Sorted:
    """A batch and what was decided of it."""

    batch: RowBatch
    scores: Sequence[Score]
    decisions: Sequence[Decision]
    rule: Rule

    def into(self, outputs: Outputs, found: Filtered) -> None:
        names = list(outputs.paths or get_args(Decision))
        for name in names:
            which = {"dropped", "unsure"} if name == "dropped" and "unsure" not in names else {name}
            chosen = [index for index, decision in enumerate(self.decisions) if decision in which]
            if not outputs.paths:
                getattr(found, name).extend(self._kept(chosen) if name == "kept" else self._others(chosen))
            elif self.batch.table is not None and outputs.paths[name].lower().endswith(".parquet"):
                about = None if name == "kept" else ("synthscore", ABOUT, [self._about(index) for index in chosen])
                outputs.write(name, outputs.arrow(name, self.batch.table, chosen, about))
            elif name == "kept" and self.batch.lines:
                lines = [self.batch.lines[index] for index in chosen]
                outputs.write(name, "".join(line if line.endswith("\n") else f"{line}\n" for line in lines).encode())
            else:
                rows = self._kept(chosen) if name == "kept" else self._others(chosen)
                outputs.write(name, b"".join(map(json_line, rows)))

    def _kept(self, chosen: Sequence[int]) -> list[Mapping[str, Any]]:
        """As they were read; what is kept was scored, so it is a row."""
        return [row.values for index in chosen if isinstance(row := self.batch.rows[index], Row)]

    def _others(self, chosen: Sequence[int]) -> list[Mapping[str, Any]]:
        """With the column synthscore."""
        rows = [(self.batch.rows[index], self._about(index)) for index in chosen]
        return [
            {**(row.values if isinstance(row, Row) else {"unreadable": vars(row).get("value")}), "synthscore": about}
            for row, about in rows
        ]

    def _about(self, index: int) -> dict[str, Any]:
        score, decision = self.scores[index], self.decisions[index]
        why = self.rule.decide(score)[1] if score.value is None else self.rule.why(score, decision)
        values = (score.value, score.stderr, score.low, score.high, decision, why, score.status, score.reason)
        return dict(zip(ABOUT, values, strict=True))
