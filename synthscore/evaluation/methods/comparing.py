"""Texts compared with each other -> scores: comparative assessment, products of experts.

The texts of a context are compared in pairs, and the comparisons ranked (synthscore.ranking); the scores of a ranking
are the texts' scores. Scores of two contexts have no common scale: only ranks can be compared between them. All
contexts are asked about in one call of the judge.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ...engine import Engine
from ...errors import InputError
from ...io.scores import Scores
from ...judging.asking import Asking
from ...judging.templates import Templates
from ...ranking import (
    METHODS,
    ComparisonSets,
    PairJudge,
    Problem,
    Ranking,
    RankingMethod,
    Rankings,
    Selection,
    ask_judge,
    rank,
)
from ...ranking.methods import method_of
from ...ranking.sets import Group
from ...scoring.method import MethodError, Tools
from ...scoring.methods import MethodKind
from ...types import Context, Score, Task
from ..ratings import Ratings
from .base import SetMethod, asked_about, scored, task_of, why_not_asked

Protocol = Literal["choose", "compare", "yes_no"]

# ------------------------------------------------------------------------------------------------- methods


@dataclass(frozen=True, slots=True)
class Compared:
    """A method that compares texts with each other: asks what is selected of each group, and ranks it.

    method, debias, options : as in ranking.rank; bias and debiasing are estimated over the calls of all groups
    about : what the signature says of this
    pool : all texts are one problem, and each is shown with its own context
    asking : of its template set, Tools.templates is taken

    Scores and stderr are the ranking's; details hold the rank, 1 is best. A text is "partial" where a call about it has
    no answer, or the ranking did not converge.
    """

    selection: Selection
    method: str
    about: Mapping[str, object]
    asking: Asking = Asking("choose")
    debias: str = "none"
    options: Mapping[str, Any] = field(default_factory=dict)
    pool: bool = False

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        task, _ = task_of(ratings, attribute, tools.references)
        return self.scores(ratings, attribute, tools.require_judge(), Templates(task, tools.asking.prompts))

    def scores(self, ratings: Ratings, attribute: str, engine: Engine, templates: Templates) -> Scores:
        """Of all texts, by questions of these templates."""
        groups, results = group_rows(ratings, pool=self.pool)
        judge = self.judge(ratings, attribute, groups, engine, templates)
        sets, rankings = self.rank(judge)
        refused = {candidate.names["id"]: candidate.reason for candidate in sets.left_out}
        lost: dict[str, list[str]] = {}
        first_lost: dict[Group, str] = {}
        for failure in sets.failures:
            first_lost.setdefault(failure.group, failure.reason)
            for name in (failure.first, failure.second):
                lost.setdefault(name, []).append(failure.reason)
        for problem, rows in zip(judge.problems, groups, strict=True):
            ranking = rankings.by_group.get(problem.group, refused.get(problem.ids[0], ""))
            if isinstance(ranking, str) and problem.group in first_lost:
                ranking = f"{ranking}: {first_lost[problem.group]}"
            for index, row in enumerate(rows):
                text = ratings.texts[row]
                results[row] = _score(text.id, text.context_id, attribute, ranking, index, lost.get(text.id, []))
        about: dict[str, object] = {"attribute": asked_about(ratings, attribute, templates.task).name}
        if self.pool:
            about["pool"] = "yes"
        return scored(ratings, attribute, results, judge.signature.with_(**about, **self.about))

    def rank(self, judge: PairJudge) -> tuple[ComparisonSets, Rankings]:
        """The judge's comparisons about its problems, and their rankings."""
        sets = ask_judge(judge, self.selection)
        try:
            return sets, rank(sets, self.method, debias=self.debias, seed=self.selection.seed, **self.options)
        except InputError as error:
            raise MethodError(
                f"cannot take out the favour for a position with debias={self.debias}: {error}"
            ) from error

    def judge(
        self, ratings: Ratings, attribute: str, groups: Sequence[Sequence[int]], engine: Engine, templates: Templates
    ) -> PairJudge:
        """The judge to ask about these groups of rows."""
        asked = asked_about(ratings, attribute, templates.task)
        problems = [_problem(ratings, asked.name, rows, templates.task, self.pool) for rows in groups]
        return PairJudge(problems, engine, templates, self.asking)


def group_rows(ratings: Ratings, *, pool: bool = False) -> tuple[list[list[int]], list[float | str | Score]]:
    """The rows to compare with each other, two or more in a group; and for each row why it is in none, or ""."""
    reasons: list[float | str | Score] = [*why_not_asked(ratings)]
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(ratings):
        if not reasons[row]:
            groups.setdefault("" if pool else text.context_id, []).append(row)
    for rows in groups.values():
        if len(rows) == 1:
            reasons[rows[0]] = "it is the only text of its context, expected at least 2 to compare"
    return [rows for rows in groups.values() if len(rows) > 1], reasons


def _problem(ratings: Ratings, asked: str, rows: Sequence[int], task: Task, pool: bool) -> Problem:
    texts = [ratings.texts[row] for row in rows]
    shown = [text.text for text in texts]
    context = ratings.contexts[texts[0].context_id]
    if pool:
        shown = [_show_with_context(ratings.contexts[text.context_id], text.text, task) for text in texts]
        note = f"Each {task.text_noun} below was written for the {task.context_noun} it stands with."
        context = Context("pool", note)
    return Problem(context=context, attribute=asked, ids=tuple(text.id for text in texts), texts=tuple(shown))


def _show_with_context(context: Context, text: str, task: Task) -> str:
    lines = [f"{task.context_noun.capitalize()}: {context.text}"]
    if context.facts:
        lines.append(f"{task.facts_noun.capitalize()}: {context.facts}")
    lines.append(f"{task.text_noun.capitalize()}: {text}")
    return "\n".join(lines)


def _score(
    name: str, context_id: str, attribute: str, ranking: Ranking | str, index: int, lost: Sequence[str]
) -> Score | str:
    """A text's score, or why it has none. lost : why calls about it have no answer"""
    if isinstance(ranking, str):
        return ranking
    value = float(ranking.scores[index])
    stderr = float(ranking.stderr[index])
    if math.isnan(value) and lost:
        return lost[0]
    if math.isnan(value):
        return "it was not compared with any other text"
    why = []
    if lost:
        why.append(f"no answer to {len(lost)} of the calls about it: {lost[0]}")
    if not ranking.converged:
        why.append(f"not converged: a derivative of {ranking.gradient:.2g} is left")
    return Score(
        id=name,
        context_id=context_id,
        attribute=attribute,
        value=round(value, 9),  # Rounding errors must not split ties.
        stderr=None if math.isnan(stderr) else stderr,
        n_comparisons=round(float(ranking.n_comparisons[index])),
        status="partial" if why else "ok",
        reason="; ".join(why),
        details={"rank": float(ranking.ranks[index])},
    )


# ------------------------------------------------------------------------------------------------- kinds


def pairwise(
    *,
    method: str = "poe-bt",
    decisions: str | None = None,
    prior: str | None = None,
    calls: int | None = None,
    debias: str = "none",
    protocol: Protocol | None = None,
    orders: Literal["both", "one"] = "both",
    seed: int = 0,
    pool: bool = False,
    min_mass: float = 0.01,
    max_unreported: float = 0.02,
) -> SetMethod:
    """Any method of ranking, over all calls or a number of them."""
    given = {}
    if decisions is not None:
        given["decisions"] = decisions
    if prior is not None:
        given["prior"] = prior
    options = {name: None if value == "none" else value for name, value in given.items()}
    if protocol is None:
        protocol = "choose"
        if method == "bt-ties":  # the one that uses the answer Similar
            protocol = "compare"
    try:
        asking = Asking(protocol, min_mass=min_mass, max_unreported=max_unreported)
        method_of(method).check(options, debias=debias)
        selection = Selection(budget=calls, orders=orders, seed=seed)
    except InputError as error:
        raise MethodError(f"cannot make {method}: {error}") from None
    about = {"selection": selection, "method": method, **given, "debias": debias}
    return Compared(
        selection=selection,
        method=method,
        about=about,
        asking=asking,
        debias=debias,
        options=options,
        pool=pool,
    )


def _kind(ranker: RankingMethod) -> MethodKind:
    without = dict.fromkeys({"decisions", "prior"} - ranker.options.keys())
    return MethodKind(pairwise, ranker.summary, ("judge",), fixed={"method": ranker.name, **without})


KINDS: Mapping[str, MethodKind] = {
    "pairwise": MethodKind(pairwise, "any of the following, by its name", ("judge",)),
    **{name: _kind(ranker) for name, ranker in METHODS.items()},
}
