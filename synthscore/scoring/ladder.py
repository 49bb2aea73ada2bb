"""The method `ladder`: each text is compared with every rung of its context's ladder, and the verdicts become a score.

`LadderMethod.plan` finds each text's ladder (`find_ladders`) and makes a pair of the text and each rung; a `Scoring`
then asks the judge about the pairs and makes scores of the verdicts: Paper (the paper's sum), Anchored (positions by a
model of the judge), or one of your own. `on_scale` puts scores of short ladders on the scale of long ones.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ..engine import Progress
from ..errors import LadderError, require_kind, where_they_part
from ..io.fields import Item
from ..judging.asking import Asking, Inquiry, Pair, Verdicts
from ..ladders.references import References
from ..types import ChosenLadder, Context, FloatArray, Ladder, Score, Target, Verdict, same_context
from .method import Limits, Method, MethodError, MethodPlan, ScoreKind, Texts, Tools
from .whole import WholeTexts

LadderChoice = Literal["own", "foreign", "shared"]
"""Which ladder a text is compared with: that of its own context; another context's, as a control (References.foreign);
or the one that all texts share (References.share)."""


def unscored(item: Item, attribute: str, reason: str, details: Mapping[str, float] | None = None) -> Score:
    """The score of a row that has none, under the names that the row gives its text."""
    return Score(
        id=item.id,
        context_id=item.context_id,
        attribute=attribute,
        value=None,
        status="unscored",
        reason=reason,
        details=details or {},
    )


@dataclass(frozen=True, slots=True)
class OnLadder:
    """A text, its ladder, and the pairs that are asked about.

    context : that the text was written for, which need not be the ladder's
    pairs : indices among the pairs of a call, one for each rung that has a text, worst first
    attribute : its name in scores, which may differ from the one that the judge is asked about
    """

    item: Item
    ladder: Ladder
    context: Context
    pairs: range
    attribute: str

    @property
    def target(self) -> Target:
        return self.item.require_target()

    @property
    def chosen(self) -> ChosenLadder:
        return ChosenLadder(self.ladder, self.context)

    @property
    def levels(self) -> list[int]:
        """The levels, 1..N, of the rungs that have a text; one for each of `pairs`."""
        return [rung.level for rung in self.ladder.usable]

    def unscored(self, reason: str, details: Mapping[str, float] | None = None) -> Score:
        return unscored(self.item, self.attribute, reason, details)

    def verdicts(self, verdicts: Verdicts) -> tuple[Verdict, ...]:
        """The verdicts on this text, by rung and order, as far as there are any. verdicts : of all pairs of the call"""
        given = []
        for pair, level in zip(self.pairs, self.levels, strict=True):
            by_order = verdicts.by_order[:, pair].tolist()
            n_samples = verdicts.n_samples[:, pair].tolist()
            for swapped, (probs, n) in enumerate(zip(by_order, n_samples, strict=True)):
                better, worse, similar = probs
                if math.isnan(better):
                    continue
                count = int(n) if math.isfinite(n) else None
                given.append(Verdict(level, bool(swapped), better, worse, similar, count))
        return tuple(given)

    def missing(self, verdicts: Verdicts, known: Collection[int]) -> list[str]:
        """Why rungs have no verdict, a reason each; rungs that have no text for the same reason are named together.

        known : levels that have a verdict. A rung that was not asked about has no reason
        """
        pair_of = dict(zip(self.levels, self.pairs, strict=True))
        failed: dict[str, list[int]] = {}
        reasons = []
        for rung in self.ladder.rungs:
            if rung.level in known:
                continue
            if rung.status == "failed":
                failed.setdefault(rung.reason, []).append(rung.level)
            elif pair_of[rung.level] in verdicts.failures:
                reasons.append(f"rung {rung.level}: {verdicts.failures[pair_of[rung.level]]}")
        for reason, levels in failed.items():
            which = f"rung {levels[0]} has"
            if len(levels) > 1:
                which = f"rungs {','.join(map(str, levels))} have"
            reasons.append(f"{which} no text: {reason}")
        return reasons


def rescaled(value: float, n_from: int, n_to: int) -> float:
    """A score on 1..n_from -> the same on 1..n_to: rungs keep their fractions, and what is worse than the worst or
    better than the best is as far from these as before. Strictly increasing; inverse:
    rescaled(value, n_to, n_from)."""
    if n_from == n_to:
        return value
    inside = min(max(value, 1.0), float(n_from))
    beyond = value - inside
    return 1.0 + (inside - 1.0) * (n_to - 1) / (n_from - 1) + beyond


def on_scale(score: Score, ladder: Ladder) -> Score:
    """The score on the scale of its ladder, where that is not 1..n_rungs: see Ladder.scale. Its details then say so."""
    n_rungs = ladder.n_rungs
    scale = ladder.scale
    if scale == n_rungs:
        return score

    def put_on_scale(number: float | None) -> float | None:
        return None if number is None else rescaled(number, n_rungs, scale)

    stderr = score.stderr
    if stderr is not None and score.value is not None and 1 <= score.value <= n_rungs:
        stderr *= (scale - 1) / (n_rungs - 1)
    return replace(
        score,
        value=put_on_scale(score.value),
        stderr=stderr,
        low=put_on_scale(score.low),
        high=put_on_scale(score.high),
        details={**score.details, "scale": float(scale)},
    )


class Scoring(ScoreKind, ABC):
    """How the verdicts on a text and its ladder's rungs become the text's score.

    One that looks at one text at a time is a `TextScoring`, which needs a `name` and `score_text` and nothing else.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """What a signature says of it."""

    def for_question(self, task: str, attribute: str) -> Scoring:
        """This scoring as it is for one task and attribute. raises : InputError where it cannot score these"""
        return self

    def refuse(self, ladder: Ladder) -> str:
        """Why texts cannot be scored on this ladder; "" where they can."""
        return ""

    def on_ladder_scale(self, score: Score, ladder: Ladder) -> Score:
        """As the function `on_scale`, where this scoring's scores are on the rungs; the score as it is where not."""
        return on_scale(score, ladder) if self.on_rungs else score

    def name_with(self, scales: Sequence[Any]) -> str:
        """What a signature says of it, with the scales that were fitted."""
        return self.name

    def whole_values(self, verdicts: FloatArray) -> FloatArray | None:
        """Scores of texts from verdicts on every rung alone, to the last bit as `score` gives them; None where this
        scoring needs more than that.

        verdicts : float64, shape (n_texts, n_rungs, 3): better, worse, similar, of all orders together
        returns : shape (n_texts,)
        """
        return None

    def prepare(self, texts: Mapping[int, OnLadder], pairs: list[Pair], attribute: str, asking: Asking) -> Any:
        """Add to `pairs`, in place, what else is asked about. The result is kept for `score`, as LadderPlan.prepared.

        texts : by index of an item
        """
        return None

    @abstractmethod
    def score(self, plan: LadderPlan, progress: Progress | None) -> tuple[dict[int, Score], Sequence[Any]]:
        """Asks, and gives the scores of the `texts_on_ladders` and the scales that they are on."""


class TextScoring(Scoring):
    """A scoring that makes each text's score from that text's verdicts alone."""

    @abstractmethod
    def score_text(self, text: OnLadder, verdicts: Verdicts) -> Score:
        """verdicts : of all pairs of the call, of which `text.pairs` are the text's"""

    def score(self, plan: LadderPlan, progress: Progress | None) -> tuple[dict[int, Score], Sequence[Any]]:
        plan.inquiry.ask_all(progress)
        verdicts = plan.inquiry.verdicts()
        scores = {index: self.score_text(text, verdicts) for index, text in plan.texts_on_ladders.items()}
        return scores, ()


@dataclass(frozen=True)
class LadderMethod(Method):
    """Scores texts against the ladders of `Tools.references`.

    n_rungs : takes the ladder of so many rungs out of each; None: the ladders as they are
    ladders : which ladder a text is compared with; None: the shared one, where there is one, or else its own
    asking : instead of Tools.asking, the fields that are named
    """

    scoring: Scoring
    n_rungs: int | None = None
    ladders: LadderChoice | None = None
    asking: Mapping[str, Any] = field(default_factory=dict)

    uses = ("judge", "references")
    asks_pairs = True

    def __post_init__(self) -> None:
        require_kind("scoring", self.scoring, Scoring, "Paper(...), Anchored(...), or a Scoring of your own")

    @property
    def alone(self) -> bool:  # type: ignore[override]
        return self.scoring.alone

    @property
    def gives_errors(self) -> bool:  # type: ignore[override]
        return self.scoring.gives_errors

    @property
    def on_rungs(self) -> bool:  # type: ignore[override]
        return self.scoring.on_rungs

    def limits(self, n_rungs: int) -> Limits:
        return self.scoring.limits(self.n_rungs or n_rungs)

    def require_alone(self) -> None:
        self.scoring.require_alone()

    def plan(self, texts: Texts, tools: Tools) -> LadderPlan:
        judge = tools.require_judge()
        references = tools.require_references(texts.task, texts.attribute)
        asking = replace(tools.asking, **self.asking).for_judge(judge)
        scoring = self.scoring.for_question(texts.task.name, texts.attribute.name)
        scores: dict[int, Score] = {}
        compared: dict[int, tuple[Item, ChosenLadder]] = {}
        chosen_ladders = find_ladders(texts, references, self.ladders)
        for index, (item, chosen) in enumerate(zip(texts.items, chosen_ladders, strict=True)):
            if not isinstance(chosen, str):
                chosen = self._fitting(chosen, scoring)
            if isinstance(chosen, str):  # why there is no ladder
                scores[index] = unscored(item, texts.scored_as, chosen)
            else:
                compared[index] = item, chosen
        signature = asking.signature(
            judge,
            texts.templates,
            on_ladders=True,
            task=texts.task.name,
            attribute=texts.attribute.name,
            **ladder_parts(texts, references, self.ladders),
            scoring=scoring.name_with(()),
            **self._scale_parts,
        )
        complete_texts = None
        if tools.whole_texts is not None:
            complete_texts = tools.whole_texts.texts(judge, signature, scoring.whole_values, asking)
            stored = complete_texts.find(compared, texts.scored_as)
            for index, score in stored.items():
                _, chosen_ladder = compared[index]
                scores[index] = scoring.on_ladder_scale(score, chosen_ladder.ladder)
        to_ask = [index for index in compared if index not in scores]
        on_ladders, pairs = _pair_with_rungs(texts, compared, to_ask)
        prepared = scoring.prepare(on_ladders, pairs, texts.attribute.name, asking)
        stored_rungs = {index: score.n_comparisons for index, score in scores.items() if score.n_comparisons}
        asked_rungs = {index: len(text.pairs) for index, text in on_ladders.items()}
        return LadderPlan(
            signature=signature,
            n_questions=len(pairs) * asking.n_questions,
            # Stored verdicts count as asked; LadderPlan.score adds the questions that it asks.
            n_asked=sum(stored_rungs.values()) * asking.n_questions,
            n_rungs=stored_rungs | asked_rungs,
            scoring=scoring,
            scores=scores,
            texts_on_ladders=on_ladders,
            prepared=prepared,
            inquiry=Inquiry(pairs, judge, texts.templates, asking, on_ladders=True),
            complete_texts=complete_texts,
        )

    @property
    def _scale_parts(self) -> dict[str, object]:
        """What a signature says of the scale, where it is not that of the whole ladders."""
        parts: dict[str, object] = {}
        if not self.on_rungs:
            parts["scale"] = self.limits(0)  # off the rung scale, they do not depend on the number of rungs
        if self.n_rungs is not None:
            parts["rungs"] = self.n_rungs
        return parts

    def _fitting(self, chosen: ChosenLadder, scoring: Scoring) -> ChosenLadder | str:
        """The ladder with as many rungs as are wanted, or why texts cannot be scored on it."""
        if self.n_rungs is not None:
            try:
                chosen = replace(chosen, ladder=evenly_spaced(chosen.ladder, self.n_rungs))
            except MethodError as error:
                # Only the texts of a ladder that was generated too short are refused; otherwise the call is wrong.
                if chosen.ladder.wanted is None:
                    raise
                return str(error)
        return scoring.refuse(chosen.ladder) or chosen


def _pair_with_rungs(
    texts: Texts, compared: Mapping[int, tuple[Item, ChosenLadder]], to_ask: Collection[int]
) -> tuple[dict[int, OnLadder], list[Pair]]:
    """A pair of each text that is asked about and each rung of its ladder, texts of one context side by side."""
    on_ladders: dict[int, OnLadder] = {}
    pairs: list[Pair] = []
    for index in texts.in_contexts(to_ask):
        item, chosen = compared[index]
        start = len(pairs)
        text = item.require_target().text
        for rung in chosen.ladder.usable:
            pairs.append(Pair(chosen.context, texts.attribute.name, text, rung.text))
        on_ladders[index] = OnLadder(
            item=item,
            ladder=chosen.ladder,
            context=chosen.context,
            pairs=range(start, len(pairs)),
            attribute=texts.scored_as,
        )
    return on_ladders, pairs


@dataclass(slots=True, kw_only=True)
class LadderPlan(MethodPlan):
    """What is asked about texts and their ladders' rungs.

    scores : by index of an item; at first those that need no question, and `score` adds the others
    texts_on_ladders : by index of an item, the texts that are asked about
    prepared : what the scoring's `prepare` gave
    complete_texts : keeps the scores of texts that have a verdict on every rung; None: they are not kept
    """

    scoring: Scoring
    scores: dict[int, Score]
    texts_on_ladders: Mapping[int, OnLadder]
    prepared: Any
    inquiry: Inquiry
    complete_texts: WholeTexts | None = None

    def score(self, progress: Progress | None = None) -> list[Score]:
        new_scores, self.scales = self.scoring.score(self, progress)
        self.n_asked += self.inquiry.n_asked
        if self.scales:
            self.signature = self.signature.with_(scoring=self.scoring.name_with(self.scales))
        if self.complete_texts is not None:
            asked = {index: (text.item, text.chosen) for index, text in self.texts_on_ladders.items()}
            self.complete_texts.keep(asked, new_scores)
        for index, score in new_scores.items():
            ladder = self.texts_on_ladders[index].ladder
            self.scores[index] = self.scoring.on_ladder_scale(score, ladder)
        return [self.scores[index] for index in range(len(self.scores))]


def find_ladders(texts: Texts, references: References, which: LadderChoice | None = None) -> list[ChosenLadder | str]:
    """Of each item the ladder that its text is compared with, of at least one rung, and the context that the text was
    written for; or why there is none. This is the one place where rows and ladders meet.

    A context's own ladder is found by its id; where the row gives none, or one that no ladder has, by its text. An id
    whose ladder was made for another text is not looked up by text: one id then means two contexts.
    which : as LadderMethod.ladders
    raises : ReferencesError for a ladder whose texts are not those that were hashed; MethodError for a shared ladder
        that there is not, LadderError where there are several
    """
    task = texts.task.name
    attribute = texts.attribute.name
    if which == "foreign":
        chosen = [references.foreign(item.context_id, attribute, task) for item in texts.items]
        return _with_contexts(chosen, texts, references)
    if shared := _shared_ladder(texts, references, which):
        return _with_contexts([shared] * len(texts.items), texts, references)
    wanted = [(item.context_id, attribute, task) for item in texts.items]
    by_id = references.find_all(wanted)
    return [_own_ladder(item, ladder, texts, references) for item, ladder in zip(texts.items, by_id, strict=True)]


def ladder_parts(texts: Texts, references: References, which: LadderChoice | None = None) -> dict[str, object]:
    """What a signature says of the ladders that `find_ladders` finds."""
    if which == "foreign":
        return {"references": references.hash[:12], "ladders": "foreign"}
    if shared := _shared_ladder(texts, references, which):
        return {"ladder": f"shared@{shared.hash[:12]}"}
    return {"references": references.hash[:12]}


def _shared_ladder(texts: Texts, references: References, which: LadderChoice | None) -> Ladder | None:
    """The ladder that all texts are compared with; None where each has one of its own."""
    if which == "own":
        return None
    task = texts.task.name
    attribute = texts.attribute.name
    shared = references.shared(task, attribute)
    if which == "shared" and shared is None:
        raise MethodError(
            f"none of the ladders {task}/{attribute} in {references.source} is shared. Name the context whose ladder "
            "texts of all contexts are to be compared with: --ladder ID; in Python References.share(ID)"
        )
    return shared


def _own_ladder(item: Item, by_id: Ladder | LadderError, texts: Texts, references: References) -> ChosenLadder | str:
    """The ladder of the item's own context; or why there is none. by_id : what was found by the context's id"""
    known = texts.contexts.get(item.context_id)
    context_text = known.text if known is not None else item.context
    if isinstance(by_id, LadderError):
        if not context_text:
            return str(by_id)
        try:
            ladder = references.find_by_text(context_text, texts.attribute.name, texts.task.name)
        except LadderError as error:
            return str(by_id if item.names_context else error)
    elif not context_text or by_id.context is None or same_context(context_text, by_id.context.text):
        ladder = by_id
    else:
        theirs, its_own = where_they_part(by_id.context.text, context_text)
        return (
            f"the ladder of context {by_id.context_id!r} was made for another text of that id: where they part, it is "
            f"{theirs!r}, the row's is {its_own!r}. Generate ladders for "
            "this file, or give its contexts other ids"
        )
    if why := _why_unusable(ladder):
        return why
    if ladder.context is not None:
        return ChosenLadder(ladder, ladder.context)
    context = texts.context(item)
    if context is None:
        return f"ladder {ladder.context_id}/{ladder.attribute} does not carry its context's text"
    return ChosenLadder(replace(ladder, context=context), context)


def _with_contexts(
    ladders: Sequence[Ladder | LadderError], texts: Texts, references: References
) -> list[ChosenLadder | str]:
    """Each item's ladder, which may be another context's, with the item's own context: as the ladder of that context
    has it, where there is one and it agrees with the row."""
    carried = _carried_contexts(texts, references)
    chosen: list[ChosenLadder | str] = []
    for item, ladder in zip(texts.items, ladders, strict=True):
        if isinstance(ladder, LadderError):
            chosen.append(str(ladder))
        elif why := _why_unusable(ladder):
            chosen.append(why)
        elif context := _context_of(item, carried.get(item.context_id), texts):
            chosen.append(ChosenLadder(ladder, context))
        else:
            chosen.append(
                f"the text of its context {item.context_id!r} is not known, and the ladder is another context's. Add "
                "it to the row, as context"
            )
    return chosen


def _carried_contexts(texts: Texts, references: References) -> dict[str, Context]:
    """Id -> the context that the ladder of that id carries, for the items' contexts that have one."""
    task = texts.task.name
    attribute = texts.attribute.name
    names = dict.fromkeys(item.context_id for item in texts.items)
    with_ladder = [name for name in names if (task, name, attribute) in references]
    ladders = references.find_all((name, attribute, task) for name in with_ladder)
    carried = {}
    for name, ladder in zip(with_ladder, ladders, strict=True):
        if isinstance(ladder, Ladder) and ladder.context is not None:
            carried[name] = ladder.context
    return carried


def _context_of(item: Item, carried: Context | None, texts: Texts) -> Context | None:
    """What the text was written for; None where nobody knows. carried : by the ladder of that id"""
    known = texts.context(item)
    if carried and (known is None or same_context(carried.text, known.text)):
        return carried
    return known


def _why_unusable(ladder: Ladder) -> str:
    """ "" where the ladder has a rung with a text."""
    if any(rung.status == "ok" for rung in ladder.rungs):
        return ""
    return f"ladder {ladder.context_id}/{ladder.attribute}: all rungs failed. {ladder.rungs[0].reason}"


def evenly_spaced(ladder: Ladder, n_rungs: int) -> Ladder:
    """The ladder of so many rungs that is in this one. raises : MethodError where there is none"""
    step, rest = divmod(ladder.n_rungs - 1, n_rungs - 1)
    if rest or not step:  # Steps of whole rungs do not lead from the worst rung to the best.
        raise MethodError(
            f"cannot take {n_rungs} rungs, evenly spaced, out of the {ladder.n_rungs} of ladder "
            f"{ladder.context_id}/{ladder.attribute}. 2, 3, 5, 9, ... are in each other; write ladders of 9"
        )
    rungs = tuple(replace(rung, level=level) for level, rung in enumerate(ladder.rungs[::step], 1))
    return replace(ladder, rungs=rungs, wanted=None)
