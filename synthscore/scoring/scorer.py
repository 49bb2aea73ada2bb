"""Targets + references + judge -> Scores: every target is asked about against every rung of its ladder.

How verdicts become a score is a value: Paper (the paper's sum) or Anchored (positions by a model of the judge).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..engine import Engine, Progress
from ..engines import open_judge
from ..errors import InputError, LadderError, require_kind
from ..io.fields import find_target, make_row, mappings
from ..io.files import Source, read_rows
from ..io.scores import Scores
from ..judging.asking import Asking, Inquiry, Pair
from ..judging.tasks import load_task
from ..judging.templates import Templates
from ..ladders.references import References
from ..signature import Signature
from ..types import Ladder, Score, Target
from .paper import OnLadder, Paper, unscored
from .singly import MicroBatcher

if TYPE_CHECKING:  # whoever scores so has imported it
    from .anchored import Anchored, Scale
    from .anchored.questions import Group
    from .whole import WholeTexts


class Scorer:
    """Scores texts on the scale of their ladders' rungs: 1 is as good as the worst rung, N as the best.

    references : the ladders, or the folder or hub id that holds them
    judge : an engine, or the name of one (open_judge: behind the default store)
    task, attribute : which of the ladders; may be left out where they hold one
    scoring : Paper(...) or Anchored(...). asking : how the judge is asked, and what counts as an answer
    raises : LadderError where task or attribute must be named; TaskError; InputError for a scale of another attribute
    """

    def __init__(
        self,
        references: References | str | os.PathLike[str],
        judge: Engine | str,
        *,
        task: str | None = None,
        attribute: str | None = None,
        scoring: Paper | Anchored = Paper(),
        asking: Asking = Asking(),
    ) -> None:
        if not isinstance(scoring, Paper):
            from .anchored.mode import Anchored

            require_kind("scoring", scoring, Anchored, "Paper(...) or Anchored(...)")
        require_kind("asking", asking, Asking, "Asking(...)")
        if not isinstance(references, References):
            references = References.load(references)
        self.references, self.judge, self.asking = references, open_judge(judge), asking
        self.task = load_task(_only(task, references.tasks, "task"))
        self.attribute = _only(attribute, references.attributes, "attribute")
        self.task.attribute(self.attribute)
        self.templates = Templates(self.task, asking.prompts)
        self.scoring = scoring if isinstance(scoring, Paper) else scoring.own(self.task.name, self.attribute)
        self.scales: Sequence[Scale] = ()  # that the last call scored on
        self.whole: WholeTexts | None = None  # where the verdicts on whole texts are kept

    @property
    def signature(self) -> Signature:
        """What the scores' numbers depend on."""
        return self._signed(self.asking.signature(self.judge, self.templates), self.scales)

    def score(self, rows: Source | Iterable[Target], progress: Progress | None = None) -> Scores:
        """One Score a row, in the order given. What holds no target, or cannot be scored, is "unscored", with a reason.

        rows : as of `read_targets`
        raises : InputError for what holds no rows at all; LabelError, TemplateError
        """
        plan = self.plan(read_targets(rows))
        scores = plan.score(progress)
        self.scales = plan.scales
        return scores

    async def score_one(self, row: Target | Mapping[str, Any], *, within_s: float | None = None) -> Score:
        """The score of one text. What many ask for at the same time is asked of the judge together, in one call: in any
        thread, in any event loop; a call goes on without those who were cancelled.

        within_s : a deadline, in seconds; a text without a score by then is unscored, and says so
        raises : as `score`, to all whose texts were in the call; InputError as `submit`
        """
        waiting = asyncio.wrap_future(self.submit([row]))
        try:
            await asyncio.wait([waiting], timeout=within_s)
            return waiting.result()[0] if waiting.done() else self.late([row], within_s or 0.0)[0]
        finally:
            waiting.cancel()

    def submit(self, rows: Iterable[Target | Mapping[str, Any]]) -> Future[Sequence[Score]]:
        """As `score`, soon: in one call with what others submit at the same time.

        raises : InputError where scores depend on the other texts of a call
        """
        if not isinstance(self.scoring, Paper) and self.scoring.scale is None:
            raise InputError(
                "cannot score one text at a time: anchored scores without a scale are fitted to all texts of a call. "
                "Give a scale that was fitted before (Anchored(scale=...)), or score all texts in one call"
            )
        made = self.__dict__  # by the first who asks so; of two at once, the one that is in time
        batcher = made.get("_batcher") or made.setdefault(
            "_batcher",
            MicroBatcher(lambda targets: self.plan(targets).score().rows, lambda t: getattr(t, "context_id", "")),
        )
        return batcher.submit(read_targets(rows))  # type: ignore[no-any-return]

    def late(self, rows: Iterable[Target | Mapping[str, Any]], within_s: float) -> list[Score]:
        """What becomes of texts whose scores are not there in time."""
        reason = f"no answer within {within_s:g} s"
        return [unscored(target, self.attribute, reason) for target in read_targets(rows)]

    def plan(self, targets: Sequence[Target | InputError]) -> Plan:
        """What is to be asked about these targets; an error in the place of one is why there is none."""
        known: dict[int, Score] = {}
        on: dict[int, tuple[Target, Ladder]] = {}
        for index, target in enumerate(targets):
            ladder = str(target) if isinstance(target, InputError) else self._ladder(target)
            if isinstance(target, InputError) or isinstance(ladder, str):
                known[index] = unscored(target, self.attribute, str(ladder))
            else:
                on[index] = target, ladder
        known |= self.whole.find(on) if self.whole else {}
        texts: dict[int, OnLadder] = {}
        pairs: list[Pair] = []
        for index, (target, ladder) in on.items():
            if index not in known:
                assert ladder.context is not None
                rungs, n = ladder.usable, len(pairs)
                texts[index] = OnLadder(target, ladder, range(n, n + len(rungs)))
                pairs += [Pair(ladder.context, self.attribute, target.text, rung.text) for rung in rungs]
        groups: list[Group] = []
        if not isinstance(self.scoring, Paper):
            groups = self.scoring.groups(texts, pairs, self.attribute, self.asking.both_orders)
        inquiry = Inquiry(pairs, self.judge, self.templates, self.asking, on_ladders=True)
        return Plan(self, known, texts, groups, inquiry)

    def _ladder(self, target: Target) -> Ladder | str:
        """The target's ladder, or why there is none."""
        try:
            ladder = self.references.find(target.context_id, self.attribute, self.task.name)
        except LadderError as error:
            return str(error)
        if ladder.context is None:
            return f"ladder {ladder.context_id}/{ladder.attribute} does not carry its context's text"
        if not ladder.usable:
            return f"ladder {ladder.context_id}/{ladder.attribute}: all rungs failed. {ladder.rungs[0].reason}"
        return ladder if isinstance(self.scoring, Paper) else self.scoring.refuse(ladder) or ladder

    def _signed(self, verdicts: Signature, scales: Sequence[Scale]) -> Signature:
        name = self.scoring.name if isinstance(self.scoring, Paper) else self.scoring.name_with(scales)
        hash = self.references.hash[:12]
        return verdicts.with_(task=self.task.name, attribute=self.attribute, references=hash, scoring=name)


@dataclass(slots=True)
class Plan:
    """Targets of one call, and all that may be asked about them.

    known, texts : by index among the targets; those whose score needs no question, and those that are asked about
    groups : of anchored scoring: texts by length of ladder. scales : that they were scored on, then
    """

    scorer: Scorer
    known: Mapping[int, Score]
    texts: Mapping[int, OnLadder]
    groups: Sequence[Group]
    inquiry: Inquiry
    scales: Sequence[Scale] = ()

    @property
    def n_questions(self) -> int:
        """The most that is asked."""
        return len(self.inquiry.pairs) * self.inquiry.asking.n_questions

    @property
    def n_asked(self) -> int:
        """Questions so far, with those of whole texts that were asked before."""
        n_before = sum(score.n_comparisons for score in self.known.values())
        return self.inquiry.n_asked + n_before * self.inquiry.asking.n_questions

    @property
    def n_rungs(self) -> dict[int, int]:
        """Of each target that is, or was, asked about: how many rungs it is compared with."""
        before = {index: score.n_comparisons for index, score in self.known.items() if score.n_comparisons}
        return before | {index: len(text.pairs) for index, text in self.texts.items()}

    def score(self, progress: Progress | None = None) -> Scores:
        """One Score a target, in the order given."""
        scorer = self.scorer
        if isinstance(scorer.scoring, Paper):
            self.inquiry.ask_all(progress)
            verdicts = self.inquiry.verdicts()
            found = {i: scorer.scoring.score(text, scorer.attribute, verdicts) for i, text in self.texts.items()}
        else:
            of = scorer.task.name, scorer.attribute
            found, self.scales = scorer.scoring.score(self.texts, self.groups, self.inquiry, *of, progress)
        if scorer.whole:
            scorer.whole.keep({index: (text.target, text.ladder) for index, text in self.texts.items()}, found)
        rows = {**self.known, **found}
        signature = scorer._signed(self.inquiry.signature, self.scales)
        return Scores(tuple(rows[index] for index in range(len(rows))), signature)


def read_targets(rows: Source | Iterable[Target | Mapping[str, Any]]) -> list[Target | InputError]:
    """What each row holds: a target, or why none.

    rows : Targets; or what holds them in columns context_id, text, and id and system if any: mappings, a pandas
        DataFrame, a datasets.Dataset, a file. id defaults to "<context_id>/<system>", or, without a system, to
        "<context_id>/<row number>"
    raises : InputError for what holds no rows at all
    """
    if isinstance(rows, str | os.PathLike):
        return [find_target(row) for row in read_rows(rows)]
    found = enumerate(mappings(rows), 1)
    return [row if isinstance(row, Target) else find_target(make_row(number, row)) for number, row in found]


def _only(name: str | None, names: Sequence[str], what: str) -> str:
    if name is not None:
        return name
    if len(names) != 1:
        raise LadderError(f"the references hold {len(names)} {what}s ({', '.join(names)}): say which, {what}=...")
    return names[0]
