"""Rows + a method -> one Score for each row and attribute, in the order of the rows. The one way to a score.

Nothing is lost on the way: a row that holds no text, or that the method cannot score, is unscored with the reason.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from ..engine import Engine, Progress
from ..engines import open_judge
from ..errors import InputError, LadderError, did_you_mean, require_kind, unusable
from ..io.fields import Item
from ..io.files import ItemBatch, Source, list_items
from ..io.scores import Scores
from ..judging.asking import Asking
from ..judging.templates import Templates, load_task
from ..ladders.references import References, find_task
from ..signature import Signature
from ..types import Attribute, Score, Target, Task
from .ladder import LadderMethod, Scoring, unscored
from .method import Method, MethodPlan, Texts, Tools
from .paper import Paper
from .singly import MicroBatcher
from .votes import Jury
from .whole import WholeTextStore

if TYPE_CHECKING:
    from ..store.file import Store
    from .anchored import Scale

Rows = Source | Iterable[Target | Mapping[str, Any]]
"""A file of rows, or rows: Targets, mappings, a pandas DataFrame, a datasets.Dataset."""

Check = Callable[[Signature], None]
"""Raises where scores of this signature are not those that are wanted."""


class Planned(Protocol):
    """Called before each call of the judge.

    n_questions, n_rows : questions of this call, and the rows that it is about
    more : whether the rows come in several groups, so that the totals are not known; true for the last group, too
    """

    def __call__(self, n_questions: int, n_rows: int, *, more: bool) -> None: ...


Criterion = tuple[str, str]
"""On what a text is judged: a task and one of its attributes."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What was asked, and what came of it; of two batches of rows, one + other.

    statuses : status -> how many scores have it. n_rows : rows that were given
    n_targets, attributes : texts and attributes that were asked about
    n_rungs : rungs of each ladder; 0 where they differ
    n_questions : all that were asked
    n_in_rounds, n_full : with a stop rule, questions asked about texts, and those that their whole ladders would take
    n_unmet : scores that do not meet the stop rule, though all was asked
    """

    statuses: Counter[str] = field(default_factory=Counter)
    n_rows: int = 0
    n_targets: int = 0
    attributes: frozenset[str] = frozenset()
    n_rungs: int = 0
    n_questions: int = 0
    n_in_rounds: int = 0
    n_full: int = 0
    n_unmet: int = 0

    @property
    def n_attributes(self) -> int:
        return len(self.attributes)

    def __add__(self, other: Counts) -> Counts:
        lengths = {counts.n_rungs for counts in (self, other) if counts.n_targets}
        names = [column.name for column in fields(Counts) if column.name != "attributes"]
        summed = {name: getattr(self, name) + getattr(other, name) for name in names}
        return replace(
            Counts(**summed),
            attributes=self.attributes | other.attributes,
            n_rungs=lengths.pop() if len(lengths) == 1 else 0,
        )


LadderKind = tuple[str, str, int]
"""Task, attribute, number of rungs: what a scale is fitted for."""


@dataclass(frozen=True, slots=True)
class Scored:
    """The scores of items: rows[i] are those of item i, one an attribute, each with its signature.

    scales : on which the scores are, where any was fitted. juries : where several judges scored, who has a vote
    """

    rows: Sequence[Sequence[tuple[Score, Signature]]]
    counts: Counts
    scales: Sequence[Any] = ()
    juries: Mapping[LadderKind, Jury] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[Score, Signature]]:
        return itertools.chain.from_iterable(self.rows)

    @property
    def used(self) -> tuple[Signature, ...]:
        """The signatures of scores that the judge was asked about or that have a value, each signature once."""
        # By id first: many scores share one object, and comparing signatures for each score would be slow.
        same = {id(signature): signature for score, signature in self if score.n_comparisons or score.value is not None}
        return tuple(dict.fromkeys(same.values()))


@dataclass(frozen=True, slots=True)
class ScoredBatch:
    """Rows as they were read, some or all, and the scores of their items, in the same order."""

    batches: Sequence[ItemBatch]
    scored: Scored


class Scorer:
    """Scores texts by a method: by default on the scale of their ladders' rungs, where 1 is as good as the worst rung,
    and N as good as the best.

    references : the ladders, or the folder or hub id that holds them; None for a method that needs none
    judge : an engine, or the name of one (open_judge: behind the default store)
    task, attribute : on what texts are judged, whatever their rows say; None: as a row says, else on all attributes
        that the references hold. attribute may be several
    scoring : how verdicts on a ladder become a score: Paper(...), Anchored(...), or a Scoring of your own
    asking : how the judge is asked, and what counts as an answer
    method : another way than ladders, by name ("g-eval:samples=20") or as a Method. Leave scoring out then
    whole_texts : a store of texts that are done, each with what all verdicts of its ladder came to; what is found there
        has no details and no verdicts
    raises : LadderError for a task or attribute of which the references hold no ladder; TaskError; InputError;
        MethodError for a method that is not known or lacks something
    """

    def __init__(
        self,
        references: References | str | os.PathLike[str] | None,
        judge: Engine | str | None,
        *,
        task: str | None = None,
        attribute: str | Sequence[str] | None = None,
        scoring: Scoring = Paper(),
        asking: Asking = Asking(),
        method: str | Method | None = None,
        whole_texts: Store | None = None,
    ) -> None:
        require_kind("asking", asking, Asking, "Asking(...)")
        if references is not None and not isinstance(references, References):
            references = References.load(references)
        self.method = make_method(method, scoring)
        self.asking = asking
        if "judge" in self.method.uses:
            require_kind("judge", judge, (Engine, str), "an engine, or the name of one")
        self.tools = Tools(
            judge=None if judge is None else open_judge(judge),
            references=references,
            asking=asking,
            whole_texts=None if whole_texts is None else WholeTextStore(whole_texts),
        )
        self.named_task = task
        self.named_attributes = (attribute,) if isinstance(attribute, str) else attribute
        self.criteria = find_criteria(references, task, self.named_attributes)
        self.scales: Sequence[Scale] = ()  # that the last call scored on
        self._asked_by: dict[Criterion, tuple[Templates, Attribute]] = {}
        for name, attributes in self.criteria.items():
            for attribute_name in attributes:
                self._texts((name, attribute_name), ())  # so that a wrong task fails here, not at the first score
        if sum(map(len, self.criteria.values())) == 1:
            _ = self.signature  # so that what the method refuses is refused here

    @property
    def judge(self) -> Engine:
        """raises : MethodError where the scorer has none"""
        return self.tools.require_judge()

    @property
    def references(self) -> References:
        """raises : LadderError where the scorer has none"""
        if self.tools.references is None:
            raise LadderError("this scorer has no ladders: its method needs none")
        return self.tools.references

    @property
    def criterion(self) -> Criterion:
        """Task and attribute, where the scorer has only one of each.

        raises : LadderError where it has several, or the rows say which
        """
        criteria = [(task, name) for task, attributes in self.criteria.items() for name in attributes]
        if len(criteria) == 1:
            return criteria[0]
        several = "task"
        names = list(self.criteria)
        if len(self.criteria) == 1:
            several = "attribute"
            names = [name for _, name in criteria]
        source = self.tools.references.source if self.tools.references else "the scorer"
        raise LadderError(f"{source} holds {len(names)} {several}s ({', '.join(names)}): say which, {several}=...")

    @property
    def task(self) -> Task:
        """The task of `criterion`. raises : as `criterion`"""
        return self._texts(self.criterion, ()).task

    @property
    def attribute(self) -> str:
        """The attribute of `criterion`. raises : as `criterion`"""
        return self.criterion[1]

    @property
    def signature(self) -> Signature:
        """What the scores' numbers depend on, with the scales of the last call."""
        plan = self.method.plan(self._texts(self.criterion, ()), self.tools)
        if isinstance(self.method, LadderMethod):
            return plan.signature.with_(scoring=self.method.scoring.name_with(self.scales))
        return plan.signature

    # ------------------------------------------------------------------------------------------------- many texts

    def score(self, rows: Rows, progress: Progress | None = None) -> Scores:
        """One Score for each row and attribute, in the order of the rows. What holds no text, or cannot be scored, is
        "unscored", with the reason. All rows are held at once; `score_batches` goes through them in flat memory.

        rows : a file of rows, or rows: mappings with context_id (or context) and text, and id and system if any; a
            pandas DataFrame, a datasets.Dataset, Targets. id defaults to "<context_id>/<system>", or, without a system,
            to "<context_id>/<row number>"
        raises : InputError for what holds no rows at all; LabelError, TemplateError
        """
        plan = self.plan(list_items(rows))
        scored = plan.score(progress)
        self.scales = scored.scales
        signatures = tuple(signature for _, signature in scored)
        scores = tuple(score for score, _ in scored)
        different = scored.used or plan.signatures or tuple(dict.fromkeys(signatures)) or (self.signature,)
        if len(different) == 1:
            return Scores(scores, different[0])
        return Scores(scores, Signature.merged(different), signatures)

    def score_batches(
        self,
        batches: Iterable[ItemBatch],
        check: Check | None = None,
        planned: Planned | None = None,
        progress: Progress | None = None,
    ) -> Iterator[ScoredBatch]:
        """As `score`, some rows at a time, in memory that does not grow with them.

        A method whose scores follow from all texts together gets all batches at once, and holds them in memory.
        check : called with each signature of the scores; where it is known before anything is asked, then as well
        planned : called before each call of the judge
        raises : as `score`, and what `check` raises
        """
        groups: Iterator[list[ItemBatch]] = ([batch] for batch in batches)
        if not self.method.alone:
            groups = iter([list(batches)])
        # Looking one group ahead tells whether this is the only one, so that its totals are final.
        ahead = list(itertools.islice(groups, 2))
        for group in itertools.chain(ahead, groups):
            items = [item for batch in group for item in batch.items]
            plan = self.plan(items)
            if planned is not None:
                planned(plan.n_questions, len(items), more=len(ahead) > 1)
            if check is not None and self.method.alone:
                for signature in plan.signatures:
                    check(signature)
            scored = plan.score(progress)
            if check is not None:
                for signature in scored.used:
                    check(signature)
            self.scales = scored.scales
            yield ScoredBatch(group, scored)

    def plan(self, items: Sequence[Item]) -> ScorerPlan:
        """What is to be asked about these items. What the method refuses shows before anything is asked."""
        judge = self.tools.judge
        unasked = judge.signature if judge else Signature()
        rows: list[list[tuple[Score, Signature]]] = [[] for _ in items]
        slots: dict[Criterion, list[Slot]] = {}
        for index, item in enumerate(items):
            for place, (criterion, reason) in enumerate(self._criteria_of(item)):
                if reason:
                    rows[index].append((unscored(item, criterion[1], reason), unasked))
                else:
                    rows[index].append((_NOT_YET, unasked))
                    slots.setdefault(criterion, []).append((index, place))
        parts = []
        for criterion, its_slots in slots.items():
            texts = self._texts(criterion, [items[index] for index, _ in its_slots])
            parts.append(PlannedPart(criterion, its_slots, self.method.plan(texts, self.tools)))
        return ScorerPlan(rows, parts)

    def _texts(self, criterion: Criterion, items: Sequence[Item]) -> Texts:
        """The items, with the templates and the attribute that they are judged by. raises : TaskError"""
        if criterion not in self._asked_by:
            name = self.named_task or criterion[0]  # the name of a folder is not the task's
            task = find_task(self.tools.references, name)
            templates = Templates(task, self.asking.prompts)
            self._asked_by[criterion] = templates, task.attribute(criterion[1])
        templates, attribute = self._asked_by[criterion]
        return Texts(templates=templates, attribute=attribute, items=items)

    def _criteria_of(self, item: Item) -> list[tuple[Criterion, str]]:
        """The criteria that the item is judged by, each with the reason why the judge cannot be asked, or "".

        An item that holds no text keeps its own reason, whatever else is wrong with its row.
        """
        no_text = ""
        if isinstance(item.target, InputError):
            no_text = item.target.of_row

        def refuse(reason: str) -> list[tuple[Criterion, str]]:
            return [(("", item.attribute), no_text or reason)]

        task = "" if self.named_task else item.task
        if task and self.criteria and task not in self.criteria:
            there = ", ".join(self.criteria)
            return refuse(
                f"the row's task is {task!r}, and there are only ladders of {there}. To overrule it: --task NAME"
            )
        if not task:
            candidates = self._tasks_of(item)
            if not candidates:
                return refuse(f"context {item.context_id!r} has no ladder")
            if len(candidates) > 1:
                names = ", ".join(candidates)
                return refuse(f"context {item.context_id!r} has ladders of {names}: say which with --task")
            task = candidates[0]
        attributes = self.criteria.get(task, ())
        if not item.attribute or self.named_attributes:
            if attributes:
                return [((task, name), no_text) for name in attributes]
            reason = "nothing says on which attribute the text is judged. Name it: --attribute NAME"
            return [((task, ""), no_text or reason)]
        if self.criteria and item.attribute not in attributes:
            return refuse(
                f"the row's attribute is {item.attribute!r}, and there are only ladders for {', '.join(attributes)}. "
                "To overrule it: --attribute NAME"
            )
        return [((task, item.attribute), no_text)]

    def _tasks_of(self, item: Item) -> Sequence[str]:
        """The tasks on which an item whose row names no task can be judged."""
        if len(self.criteria) == 1:
            return tuple(self.criteria)
        ladders = self.tools.references or References()

        def has_ladder(task: str, attribute: str) -> bool:
            return ladders.shares(task, attribute) or (task, item.context_id, attribute) in ladders

        tasks = []
        for task, attributes in self.criteria.items():
            if any(has_ladder(task, attribute) for attribute in attributes):
                tasks.append(task)
        return tasks

    # ------------------------------------------------------------------------------------------------- single texts

    async def score_one(self, row: Target | Mapping[str, Any], *, within_s: float | None = None) -> Score:
        """The score of one text. What many ask for at the same time is asked of the judge together, in one call: in any
        thread, in any event loop; a call goes on without those who were cancelled.

        within_s : a deadline, in seconds; a text without a score by then is unscored, and says so
        raises : as `score`, to all whose texts were in the call; InputError, LadderError as `submit`
        """
        waiting = asyncio.wrap_future(self.submit([row]))
        try:
            await asyncio.wait([waiting], timeout=within_s)
            if waiting.done():
                return waiting.result()[0]
            return self.late([row], within_s or 0.0)[0]
        finally:
            waiting.cancel()

    def submit(self, rows: Rows) -> Future[Sequence[Score]]:
        """As `score`, soon: in one call with what others submit at the same time.

        raises : InputError where scores depend on the other texts of a call; LadderError where texts would be scored on
            several attributes
        """
        self.method.require_alone()
        _ = self.criterion
        return self._batcher.submit(list_items(rows))

    @cached_property
    def _batcher(self) -> MicroBatcher[Item, Score]:
        return MicroBatcher(self._score_items)

    def _score_items(self, items: Sequence[Item]) -> Sequence[Score]:
        return [score for score, _ in self.plan(items).score()]

    def late(self, rows: Rows, within_s: float) -> list[Score]:
        """The scores of texts that have none in time: unscored, with the reason."""
        return [unscored(item, self.attribute, f"no answer within {within_s:g} s") for item in list_items(rows)]


_NOT_YET = Score("", "", "", None, status="unscored", reason="not asked yet")

Slot = tuple[int, int]
"""Where a score belongs: the index of its item, and the place among the scores of that item."""


@dataclass(frozen=True, slots=True)
class PlannedPart:
    """What is asked about the items that are judged by one criterion.

    slots : where each score of the plan belongs, in the plan's order
    """

    criterion: Criterion
    slots: Sequence[Slot]
    plan: MethodPlan


@dataclass(slots=True)
class ScorerPlan:
    """Items, and what is to be asked about them.

    rows : of each item, its scores as far as they are known before anything is asked
    """

    rows: list[list[tuple[Score, Signature]]]
    parts: Sequence[PlannedPart]

    @property
    def n_questions(self) -> int:
        """How many questions `score` asks at most."""
        return sum(part.plan.n_questions for part in self.parts)

    @property
    def signatures(self) -> tuple[Signature, ...]:
        """The signatures of what is planned, each once; without the scales, where these are yet to be fitted."""
        return tuple(dict.fromkeys(part.plan.signature for part in self.parts))

    def score(self, progress: Progress | None = None) -> Scored:
        """One Score for each item and attribute; they take their places in `rows`."""
        scales: list[Scale] = []
        for part in self.parts:
            scores = part.plan.score(progress)
            scales += part.plan.scales
            for (index, place), score in zip(part.slots, scores, strict=True):
                self.rows[index][place] = score, part.plan.signature
        if not scales:
            return Scored(self.rows, self._counts())
        from .anchored.scale import Scales

        return Scored(self.rows, self._counts(), Scales(scales))

    def _counts(self) -> Counts:
        targets: set[int] = set()
        attributes: set[str] = set()
        lengths: set[int] = set()
        for part in self.parts:
            _, attribute = part.criterion
            for slot, n_rungs in part.plan.n_rungs.items():
                index, _ = part.slots[slot]
                targets.add(index)
                attributes.add(attribute)
                lengths.add(n_rungs)
        scores = [score for score, _ in itertools.chain.from_iterable(self.rows)]
        return Counts(
            statuses=Counter(score.status for score in scores),
            n_rows=len(self.rows),
            n_targets=len(targets),
            attributes=frozenset(attributes),
            n_rungs=lengths.pop() if len(lengths) == 1 else 0,
            n_questions=sum(part.plan.n_asked for part in self.parts),
            n_in_rounds=int(sum(score.details.get("questions", 0) for score in scores)),
            n_full=int(sum(score.details.get("questions_full", 0) for score in scores)),
            n_unmet=sum(score.status != "unscored" and not score.details.get("met", 1) for score in scores),
        )


def make_method(method: str | Method | None, scoring: Scoring) -> Method:
    """The method that is named, or that of ladders. raises : InputError, MethodError"""
    if method is None or method == "ladder":
        return LadderMethod(scoring)
    if isinstance(method, str):
        from .methods import open_method

        method = open_method(method, scoring)
    require_kind("method", method, Method, "a name, such as 'place', or a Method")
    if scoring != Paper() and not (isinstance(method, LadderMethod) and method.scoring == scoring):
        raise unusable("scoring", scoring, "with the method ladder alone", "Leave it out, or the method")
    return method


def find_criteria(
    references: References | None, task: str | None, attributes: Sequence[str] | None
) -> dict[str, tuple[str, ...]]:
    """Task -> the attributes to judge on, in order: those of the references, as far as they are named.

    Without references, those that are named; none where rows are to say.
    raises : LadderError for a task or attribute of which the references hold no ladder, or where they hold none at all
    """
    if references is None:
        return {load_task(task).name: tuple(attributes or ())} if task else {}
    if not len(references):
        raise LadderError(f"{references.source} holds no ladders at all. Make some with `synthscore generate`")
    there = dict(references.attributes_by_task)
    if task:
        name = references.find_task(task).name
        if name not in there:
            raise LadderError(
                f"{references.source} holds no ladders of task {name!r}, but of: {', '.join(there)}. Name one of "
                f"these, or other ladders.{did_you_mean(name, there)}"
            )
        there = {name: there[name]}
    for name in attributes or ():
        if not any(name in known for known in there.values()):
            others = list(dict.fromkeys(other for known in there.values() for other in known))
            raise LadderError(
                f"{references.source} holds no ladders for attribute {name!r}, but for: {', '.join(others)}. Name one "
                f"of them, or make the ladders with `synthscore generate ... --attribute {name}`."
                f"{did_you_mean(name, others)}",
                attribute=name,
            )
    chosen = {}
    for name, known in there.items():
        names = tuple(attribute for attribute in attributes or known if attribute in known)
        if names:
            chosen[name] = names
    return chosen


def ladder_scales(references: References | None, criteria: Mapping[str, Sequence[str]]) -> list[int]:
    """The scales 1..N that scores by these criteria are on: each N once, rising; none without ladders.

    criteria : task -> attributes, as of `find_criteria`
    """
    if references is None:
        return []
    scales: set[int] = set()
    for task, attributes in criteria.items():
        for attribute in attributes:
            scales.update(references.compared(task, attribute).scales)
    return sorted(scales)
