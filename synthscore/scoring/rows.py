"""Rows + references + judge -> one Score for each row and attribute, in the order of the rows.

Nothing is lost on the way: a row that holds no target, or has no ladder, gets an unscored Score with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from ..engine import Engine, Progress
from ..errors import InputError, LadderError
from ..io.fields import Row
from ..judging.asking import Asking
from ..judging.tasks import load_task
from ..ladders.references import References
from ..ladders.release import MAKE
from ..signature import Signature
from ..store.file import Store
from ..types import Score, Target
from .items import Item
from .paper import Paper, unscored
from .scorer import Plan, Scorer
from .whole import WholeTexts

if TYPE_CHECKING:
    from .anchored import Anchored, Scale

DROWNED = 0.75  # share of contradictions from which a judge says the same whatever is shown
ENOUGH, NEARLY_ALL = 30, 0.98  # verdicts that are enough to speak of, and the share of them that is nearly all

_NOT_YET = Score("", "", "", None, status="unscored", reason="not asked yet"), Signature()

Held = Mapping[str, Sequence[str]]
"""Task -> the attributes to judge on, in order."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What was asked, and what came of it; of two batches of rows, one + other.

    statuses : of the scores. n_targets, n_attributes, n_rungs : asked about; rungs of a ladder, 0 where they differ
    n_questions : all of them. n_in_rounds, n_full : with a stop rule, those about texts, and of their whole ladders
    n_unmet : scores that do not meet the stop rule, though all was asked
    """

    statuses: Counter[str] = field(default_factory=Counter)
    n_targets: int = 0
    n_attributes: int = 0
    n_rungs: int = 0
    n_questions: int = 0
    n_in_rounds: int = 0
    n_full: int = 0
    n_unmet: int = 0

    def __add__(self, other: Counts) -> Counts:
        rungs = {each.n_rungs for each in (self, other) if each.n_targets}
        summed = {each.name: getattr(self, each.name) + getattr(other, each.name) for each in fields(Counts)}
        n_attributes = max(self.n_attributes, other.n_attributes)
        return replace(Counts(**summed), n_attributes=n_attributes, n_rungs=rungs.pop() if len(rungs) == 1 else 0)


@dataclass(frozen=True, slots=True)
class RowScores:
    """rows[i] are the scores of item i, one an attribute, each with its signature. scales : that they are on"""

    rows: Sequence[Sequence[tuple[Score, Signature]]]
    counts: Counts
    scales: Sequence[Scale] = ()

    def __iter__(self) -> Iterator[tuple[Score, Signature]]:
        return chain.from_iterable(self.rows)

    @property
    def used(self) -> tuple[Signature, ...]:
        """The signatures of what was compared, each once."""
        same = {id(signature): signature for score, signature in self if score.n_comparisons}
        return tuple(dict.fromkeys(same.values()))


class RowScorer:
    """Scores rows of any of the tasks and attributes that the references hold.

    task, attributes : instead of what the rows say; None: as they say, else all that the references hold
    store : of paper scores from exact probabilities: where the verdicts on whole texts are kept. The scores of texts
        that are found there are the same to the last bit, but hold no details and no verdicts
    raises : LadderError for a task or attribute of which the references hold no ladder
    """

    def __init__(
        self,
        references: References,
        judge: Engine,
        *,
        task: str | None = None,
        attributes: Sequence[str] | None = None,
        scoring: Paper | Anchored = Paper(),
        asking: Asking = Asking(),
        store: Store | None = None,
    ) -> None:
        self.references, self.judge, self.task, self.attributes = references, judge, task, attributes
        self.scoring, self.asking = scoring, asking
        self.held = held_attributes(references, task, attributes)
        self._tasks_of: dict[str, set[str]] = {}  # by context
        for ladder in references:
            if ladder.attribute in self.held.get(ladder.task, ()):
                self._tasks_of.setdefault(ladder.context_id, set()).add(ladder.task)
        self.store = store if isinstance(scoring, Paper) and scoring.n_samples is None else None
        self._scorers: dict[tuple[str, str], Scorer] = {}

    def plan(self, items: Sequence[Item]) -> RowsPlan:
        """Who is asked about what. What one of the scorers refuses shows before anything is asked."""
        rows: list[list[tuple[Score, Signature]]] = [[] for _ in items]
        groups: dict[tuple[str, str], list[tuple[int, int]]] = {}  # (task, attribute) -> (item, which of its scores)
        for index, item in enumerate(items):
            for place, (task, attribute, reason) in enumerate(self._wanted(item)):
                if reason := reason or self._other_context(item, task, attribute):
                    rows[index].append((unscored(item.target, attribute, reason), self.judge.signature))
                else:
                    rows[index].append(_NOT_YET)
                    groups.setdefault((task, attribute), []).append((index, place))
        parts = []
        for of, places in groups.items():
            targets = [target for index, _ in places if isinstance(target := items[index].target, Target)]
            parts.append((places, self._scorer(*of).plan(targets)))
        return RowsPlan(rows, parts)

    def score(self, items: Sequence[Item], progress: Progress | None = None) -> RowScores:
        """One Score for each item and attribute."""
        return self.plan(items).score(progress)

    def _scorer(self, task: str, attribute: str) -> Scorer:
        if (task, attribute) not in self._scorers:
            how: Any = {"scoring": self.scoring, "asking": self.asking}
            made = Scorer(self.references, self.judge, task=self.task or task, attribute=attribute, **how)
            if self.store is not None:
                made.whole = WholeTexts(self.store, self.judge.signature, made.signature, self.asking)
            self._scorers[task, attribute] = made
        return self._scorers[task, attribute]

    def _wanted(self, item: Item) -> list[tuple[str, str, str]]:
        """(task, attribute, reason) of every score that the item gets; a reason says why it is not asked about."""
        broken = str(item.target) if isinstance(item.target, InputError) else ""
        task = item.task if item.task and not self.task else ""
        context_id = str(item.known.get("context_id", ""))
        if task and task not in self.held:
            there = ", ".join(self.held)
            reason = f"the row's task is {task!r}, and there are only ladders of {there}. To overrule it: --task NAME"
            return [("", item.attribute, broken or reason)]
        if not task:
            among = list(self.held) if len(self.held) == 1 else sorted(self._tasks_of.get(context_id, ()))
            if len(among) != 1:
                which = f"ladders of {', '.join(among)}: say which with --task" if among else "no ladder"
                return [("", item.attribute, broken or f"context {context_id!r} has {which}")]
            task = among[0]
        if not item.attribute or self.attributes:
            return [(task, attribute, broken) for attribute in self.held[task]]
        if item.attribute in self.held[task]:
            return [(task, item.attribute, broken)]
        reason = (
            f"the row's attribute is {item.attribute!r}, and there are only ladders for {', '.join(self.held[task])}. "
            "To overrule it: --attribute NAME"
        )
        return [("", item.attribute, broken or reason)]

    def _other_context(self, item: Item, task: str, attribute: str) -> str:
        """Why the ladder is not for this row: it was made for another text of the context's id. "" where it is."""
        if not item.context:
            return ""
        try:
            ladder = self.references.find(str(item.known["context_id"]), attribute, task)
        except LadderError:
            if isinstance(item.row, Row) and item.row.has("context_id"):
                return ""  # the scorer will say so, by that
            return (
                f"there is no ladder {task}/{attribute} for the row's context, {item.context[:40]!r}, whose id is "
                f"{item.known['context_id']}, in {self.references.source}. {MAKE}"
            )
        made_for = ladder.context.text.strip() if ladder.context else ""
        if not made_for or item.context == made_for:
            return ""
        return (
            f"the ladder of context {ladder.context_id!r} was made for another text of that id: it is "
            f"{made_for[:40]!r}, the row's is {item.context[:40]!r}. Generate ladders for this file, or give its "
            "contexts other ids"
        )


@dataclass(slots=True)
class RowsPlan:
    """Items, and what is asked about them.

    rows : of each item, its scores as far as they are known before anything is asked
    parts : of each (task, attribute), which item each of its targets is, and which of the item's scores; and its plan
    """

    rows: list[list[tuple[Score, Signature]]]
    parts: Sequence[tuple[Sequence[tuple[int, int]], Plan]]

    @property
    def n_questions(self) -> int:
        """The most that is asked now."""
        return sum(plan.n_questions for _, plan in self.parts)

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """Of what is compared, each once; without the scales, where these are yet to be fitted."""
        return tuple(dict.fromkeys(plan.scorer.signature for _, plan in self.parts if plan.n_rungs))

    def score(self, progress: Progress | None = None) -> RowScores:
        """One Score for each item and attribute."""
        scales: list[Scale] = []
        for places, plan in self.parts:
            scored = plan.score(progress)
            scales += plan.scales
            for (index, place), score in zip(places, scored, strict=True):
                self.rows[index][place] = score, scored.signature
        return RowScores(self.rows, self._counts(), scales)

    def _counts(self) -> Counts:
        texts = [(places[k][0], n) for places, plan in self.parts for k, n in plan.n_rungs.items()]
        sizes = {size for _, size in texts}
        scores = [score for score, _ in chain.from_iterable(self.rows)]
        return Counts(
            statuses=Counter(score.status for score in scores),
            n_targets=len({index for index, _ in texts}),
            n_attributes=len({plan.scorer.attribute for _, plan in self.parts if plan.n_rungs}),
            n_rungs=sizes.pop() if len(sizes) == 1 else 0,
            n_questions=sum(plan.n_asked for _, plan in self.parts),
            n_in_rounds=int(sum(score.details.get("questions", 0) for score in scores)),
            n_full=int(sum(score.details.get("questions_full", 0) for score in scores)),
            n_unmet=sum(score.status != "unscored" and not score.details.get("met", 1) for score in scores),
        )


def leaning(scores: Iterable[Score]) -> str:
    """What speaks for a judge that says the same whatever it is shown; "" where nothing does, or verdicts are few.

    Of pairs asked in both orders: that it contradicts itself. In one order: that nearly all verdicts are the same,
    which may also be the texts.
    """
    contradicts: list[bool] = []
    alone: list[float] = []
    for score in scores:
        signs: dict[int, dict[bool, float]] = {}
        for verdict in score.verdicts:
            signs.setdefault(verdict.level, {})[verdict.swapped] = float(np.sign(verdict.better - verdict.worse))
        contradicts += [asked[False] * asked[True] < 0 for asked in signs.values() if len(asked) == 2]
        alone += [asked[False] for asked in signs.values() if list(asked) == [False]]
    if len(contradicts) >= ENOUGH and (share := float(np.mean(contradicts))) > DROWNED:
        return (
            f"the judge contradicts itself in {share:.0%} of {len(contradicts)} pairs: asked about either text, it "
            "says the same, so that scores rest on small differences. See what it can with `synthscore doctor`"
        )
    for sign, name in ((1, "better"), (-1, "worse")):
        if len(alone) >= ENOUGH and (share := float(np.mean(np.equal(alone, sign)))) >= NEARLY_ALL:
            return (
                f"{share:.0%} of {len(alone)} verdicts find the text the {name} one: the texts are beyond their "
                "ladders, or the judge says so whatever it is shown. Ask with --both-orders, or see `synthscore doctor`"
            )
    return ""


def held_attributes(references: References, task: str | None, attributes: Sequence[str] | None) -> Held:
    """Those of the references that are to be judged on, of one task or all. raises : LadderError where there is none"""
    if not len(references):
        raise LadderError(f"{references.source} holds no ladders at all. Make some with `synthscore generate`")
    held: dict[str, dict[str, None]] = {}
    for ladder in references:
        held.setdefault(ladder.task, {})[ladder.attribute] = None
    if task:
        name = load_task(task).name
        if name not in held:
            raise LadderError(f"{references.source} holds no ladders of task {name!r}, but of: {', '.join(held)}")
        held = {name: held[name]}
    for name in attributes or ():
        if not any(name in there for there in held.values()):
            others = ", ".join(dict.fromkeys(name for there in held.values() for name in there))
            raise LadderError(
                f"{references.source} holds no ladders for attribute {name!r}, but for: {others}. Name one of them, or "
                f"make the ladders with `synthscore generate ... --attribute {name}`",
                attribute=name,
            )
    chosen = {task: [name for name in attributes or there if name in there] for task, there in held.items()}
    return {task: names for task, names in chosen.items() if names}
