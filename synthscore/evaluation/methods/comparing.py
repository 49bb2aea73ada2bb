"""Texts compared with each other -> scores: comparative assessment, products of experts, PairS.

Each context is a problem of its own: between contexts, only the ranks of what comes out can be compared. What can be
asked at the same time is one call to the judge, about all contexts.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ...engine import Engine
from ...errors import InputError, RankingError
from ...io.scores import Scores
from ...judging.asking import Asking
from ...judging.templates import Templates
from ...judging.verdicts import ProtocolName
from ...types import Context, Score, Task
from ..ratings.types import Ratings
from .base import ANSWERS, Kind, Method, MethodError, Tools, judge_of, scored, switch, task_of, why_not_asked

if TYPE_CHECKING:  # SciPy is not imported before a method is called
    from ...ranking import Comparisons, Ranking
    from ...ranking.judge import Failure, Judge, Problem

METHODS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "win-ratio": ("share of comparisons won", ("decisions",)),
    "average-probability": ("mean probability to win a comparison", ()),
    "colley": ("share of comparisons won, minding against whom", ("decisions",)),
    "bt": ("Bradley-Terry on who won", ("decisions", "prior")),
    "poe-bt": ("Bradley-Terry on probabilities", ()),
    "bt-ties": ("Bradley-Terry on probabilities, with ties", ()),
    "poe-g": ("least squares on probabilities", ()),
    "poe-g-hard": ("least squares on who won", ("decisions",)),
    "likelihood": ("the order under which the answers are most probable", ()),
}
"""Methods of synthscore.ranking -> what they are, and their options here."""

DEBIASING: Mapping[str, Sequence[str]] = {
    "none": tuple(METHODS),
    "median": tuple(METHODS),
    "mean": tuple(METHODS),
    "gamma": ("poe-bt", "poe-g"),
    "mle": ("poe-bt",),
}
"""How a favour for the place is taken out -> the methods that can (docs/ranking.md)."""

CHOICES: Mapping[str, Sequence[str]] = {
    "method": tuple(METHODS),
    "protocol": ("choose", "compare", "yes_no"),
    "design": ("all", "random", "no-repeat", "symmetric", "greedy", "sequential"),
    "orders": ("both", "one"),
    "debias": tuple(DEBIASING),
    "decisions": ("averaged", "per_call"),
    "prior": ("all", "observed", "none"),
}


class Ranker(Protocol):
    """Asks a judge about its problems, and ranks each or says why it cannot."""

    def __call__(self, judge: Judge) -> list[Ranking | str]: ...


# ------------------------------------------------------------------------------------------------- methods


@dataclass(frozen=True, slots=True)
class Compared:
    """A method that compares texts with each other. about : what the signature says of the ranker

    pool : all texts are one problem, and each is shown with its own context
    asking : of its template set, Tools.templates is taken

    Scores and stderr are the ranking's; details hold the rank, 1 is best. A text is "partial" where a call about it has
    no answer, or the ranking did not converge.
    """

    rank: Ranker
    about: Mapping[str, object]
    asking: Asking = Asking("choose")
    pool: bool = False

    def __call__(self, ratings: Ratings, attribute: str, tools: Tools) -> Scores:
        task, _ = task_of(ratings, attribute)
        return self.scores(ratings, attribute, judge_of(tools), Templates(task, tools.templates))

    def scores(self, ratings: Ratings, attribute: str, engine: Engine, templates: Templates) -> Scores:
        """Of all texts, by questions of these templates."""
        groups, found = grouped(ratings, pool=self.pool)
        judge = self.judge(ratings, attribute, groups, engine, templates)
        for k, (rows, ranking) in enumerate(zip(groups, self.rank(judge), strict=True)):
            lost: dict[str, list[Failure]] = {ratings.texts[row].id: [] for row in rows}
            for failure in judge.failures:
                if failure.problem == k:
                    lost[failure.first].append(failure)
                    lost[failure.second].append(failure)
            for place, row in enumerate(rows):
                text = ratings.texts[row]
                found[row] = _score(text.id, text.context_id, attribute, ranking, place, lost[text.id])
        about = {
            "attribute": task_of(ratings, attribute)[1].name,
            **({"pool": "yes"} if self.pool else {}),
            **self.about,
        }
        return scored(ratings, attribute, found, judge.signature.with_(**about))

    def judge(
        self, ratings: Ratings, attribute: str, groups: Sequence[Sequence[int]], engine: Engine, templates: Templates
    ) -> Judge:
        """Whom to ask about these groups of rows."""
        from ...ranking.judge import Judge

        _, asked = task_of(ratings, attribute)
        problems = [_problem(ratings, asked.name, rows, templates.task, self.pool) for rows in groups]
        return Judge(problems, engine, templates, self.asking)


def grouped(ratings: Ratings, *, pool: bool = False) -> tuple[list[list[int]], list[float | str | Score]]:
    """The rows to compare with each other, two or more in a group; and for each row why it is in none, or ""."""
    found: list[float | str | Score] = [*why_not_asked(ratings)]
    groups: dict[str, list[int]] = {}
    for row, text in enumerate(ratings):
        if not found[row]:
            groups.setdefault("" if pool else text.context_id, []).append(row)
    for rows in groups.values():
        if len(rows) == 1:
            found[rows[0]] = "it is the only text of its context, expected at least 2 to compare"
    return [rows for rows in groups.values() if len(rows) > 1], found


def _problem(ratings: Ratings, asked: str, rows: Sequence[int], task: Task, pool: bool) -> Problem:
    from ...ranking.judge import Problem

    texts = [ratings.texts[row] for row in rows]
    shown = [text.text for text in texts]
    context = ratings.contexts[texts[0].context_id]
    if pool:
        sources = [ratings.contexts[text.context_id] for text in texts]
        shown = [
            f"{task.context_noun.capitalize()}: {source.text}\n"
            + (f"{task.facts_noun.capitalize()}: {source.facts}\n" if source.facts else "")
            + f"{task.text_noun.capitalize()}: {text}"
            for source, text in zip(sources, shown, strict=True)
        ]
        context = Context(
            "pool", f"Each {task.text_noun} below was written for the {task.context_noun} it stands with."
        )
    return Problem(context, asked, tuple(text.id for text in texts), tuple(shown))


def _score(
    name: str, context_id: str, attribute: str, ranking: Ranking | str, place: int, lost: Sequence[Failure]
) -> Score | str:
    """One text's, or why it has none. lost : calls about it without an answer"""
    if isinstance(ranking, str):
        return ranking
    value, stderr = float(ranking.scores[place]), float(ranking.stderr[place])
    if math.isnan(value):
        return lost[0].reason if lost else "it was not compared with any other text"
    why = [f"no answer to {len(lost)} of the calls about it: {lost[0].reason}"] if lost else []
    if not ranking.converged:
        why.append(f"not converged: a derivative of {ranking.gradient:.2g} is left")
    return Score(
        name,
        context_id,
        attribute,
        round(value, 9),  # rounding errors must not split ties
        stderr=None if math.isnan(stderr) else stderr,
        n_comparisons=round(float(ranking.n_comparisons[place])),
        status="partial" if why else "ok",
        reason="; ".join(why),
        details={"rank": float(ranking.ranks[place])},
    )


# ------------------------------------------------------------------------------------------------- rankers


@dataclass(frozen=True, slots=True)
class Pairwise:
    """Asks the calls of a design, takes out a favour for the place, and ranks each problem.

    design, calls, both_orders : as in ranking.selection; "sequential", in one order, as in ranking.asking
    debias : estimated over the calls of all problems
    """

    method: str
    design: str = "all"
    calls: int | None = None
    both_orders: bool = True
    seed: int = 0
    debias: str = "none"
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, judge: Judge) -> list[Ranking | str]:
        refused = self.ask(judge)
        compared, options = self._debiased(judge.comparisons())
        return [refused.get(k) or self._ranking(calls, options) for k, calls in enumerate(compared)]

    def ask(self, judge: Judge) -> dict[int, str]:
        """Asks; returns the problems that it could not ask about, with the reason."""
        from ...ranking import ask_in_rounds, selection

        refused, designs = {}, {}
        name = "greedy" if self.design == "sequential" else self.design  # which begins like it
        for k, problem in enumerate(judge.problems):
            rng = problem.rng(self.seed)
            try:
                designs[k] = selection.design(name, len(problem.ids), self.calls, rng, both_orders=self.both_orders)
            except InputError as error:
                refused[k] = str(error)
        if self.design != "sequential":
            judge([(k, i, j) for k, calls in designs.items() for i, j in calls.tolist()])
            return refused
        asked = list(designs)
        ask_in_rounds(
            [judge.problems[k].ids for k in asked],
            lambda calls: judge([(asked[k], i, j) for k, i, j in calls]),
            [len(designs[k]) for k in asked],
            [judge.problems[k].rng(self.seed) for k in asked],
        )
        return refused

    def _debiased(self, compared: list[Comparisons]) -> tuple[list[Comparisons], Mapping[str, Any]]:
        """The comparisons to rank, and options of the method."""
        from ...ranking import mean_debiasing, median_debiasing, pool

        if self.debias in ("none", "mle") or not any(map(len, compared)):
            return compared, {**self.options, **({"bias": "mle"} if self.debias == "mle" else {})}
        run = pool({str(k): calls for k, calls in enumerate(compared)})
        try:
            shift = (median_debiasing if self.debias == "median" else mean_debiasing)(run)
            if self.debias == "gamma":
                beta = 1 / (1 + math.exp(shift.shift))
                return compared, {**self.options, "bias": beta if self.method == "poe-g" else shift.shift}
            return [shift.apply(calls) for calls in compared], self.options
        except InputError as error:
            raise MethodError(f"cannot take out the favour for a place with debias={self.debias}: {error}") from error

    def _ranking(self, calls: Comparisons, options: Mapping[str, Any]) -> Ranking | str:
        from ...ranking import METHODS as METHODS_OF

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it did not converge is in the result
            try:
                return METHODS_OF[self.method](calls, **options)
            except (RankingError, InputError) as error:
                return str(error)


@dataclass(frozen=True, slots=True)
class Sort:
    """PairS (ranking.pairs). gap 0 with beam 1: a merge sort. calibrate : ask in both orders and average"""

    gap: float = 0.0
    beam: int = 1
    calibrate: bool = False
    seed: int = 0

    def __call__(self, judge: Judge) -> list[Ranking | str]:
        from ...ranking import merge_sort

        ids = [problem.ids for problem in judge.problems]
        found: list[Ranking | str] = [
            *merge_sort(ids, judge, gap=self.gap, beam_size=self.beam, calibrate=self.calibrate, seed=self.seed)
        ]
        for k, first, second, reason in judge.failures:
            found[k] = f"the sort ended at {first!r} and {second!r}: {reason}"
        return found


# ------------------------------------------------------------------------------------------------- kinds


def pairwise(
    *,
    method: str = "poe-bt",
    protocol: ProtocolName | None = None,
    design: str | None = None,
    calls: int | None = None,
    orders: str | None = None,
    debias: str = "none",
    seed: int = 0,
    decisions: str | None = None,
    prior: str | None = None,
    pool: bool = False,
    **answers: Any,
) -> Method:
    """Any method of ranking, over any design."""
    said = {"method": method, "protocol": protocol, "design": design, "orders": orders, "debias": debias}
    mine = {"decisions": decisions, "prior": prior}
    mine = {name: value for name, value in mine.items() if value is not None}
    _check(method, said | mine, seed)
    design = design or ("all" if calls is None else "greedy")
    wrong = {
        f"{', '.join(mine)} does nothing with method={method}": bool(mine.keys() - METHODS[method][1]),
        f"debias={debias} is for {', '.join(DEBIASING[debias])}": method not in DEBIASING[debias],
        "design=all asks about all pairs: leave calls out": design == "all" and calls is not None,
        f"design={design} needs a number of calls: calls=N": design != "all" and calls is None,
        f"calls is {calls}, expected 1 or more": calls is not None and calls < 1,
        f"design={design} decides the orders itself: leave orders out": orders and design not in ("all", "greedy"),
    }
    for what, holds in wrong.items():
        if holds:
            raise MethodError(f"cannot make {method}: {what}")
    both = design == "symmetric" or (design in ("all", "greedy") and orders != "one")
    selection = [design, *([f"calls={calls}"] if calls else []), "both-orders" if both else "one-order"]
    return Compared(
        Pairwise(method, design, calls, both, seed, debias, {**mine, "prior": None} if prior == "none" else mine),
        {"selection": ",".join([*selection, f"seed={seed}"]), "method": method, **mine, "debias": debias},
        Asking(protocol or ("compare" if method == "bt-ties" else "choose"), **answers),
        pool,
    )


def pairs_beam(
    *,
    gap: float = 0.1,
    beam: int = 1000,
    orders: str = "one",
    seed: int = 0,
    protocol: ProtocolName = "choose",
    pool: bool = False,
    **answers: Any,
) -> Method:
    """PairS."""
    _check("pairs-beam", {"orders": orders, "protocol": protocol}, seed)
    if not 0 <= gap <= 0.5 or beam < 1:
        raise MethodError(f"cannot make pairs-beam: gap is {gap}, beam {beam}, expected gap 0 to 0.5, beam >= 1")
    about = {"selection": f"pairs,{orders}-order{'s' * (orders == 'both')},seed={seed}", "method": "pairs"}
    return Compared(
        Sort(gap, beam, orders == "both", seed),
        {**about, "gap": f"{gap:g}", "beam": beam},
        Asking(protocol, **answers),
        pool,
    )


def _check(kind: str, said: Mapping[str, str | None], seed: int) -> None:
    for name, value in said.items():
        if value is not None and value not in CHOICES[name]:
            raise MethodError(f"cannot make {kind}: {name} is {value!r}, expected one of {', '.join(CHOICES[name])}")
    if seed < 0:
        raise MethodError(f"cannot make {kind}: seed is {seed}, expected 0 or more")


Parsers = Mapping[str, Callable[[str], object]]

_ASKING: Parsers = {"protocol": str, "orders": str, "seed": int, "pool": switch, **ANSWERS}
_DESIGN: Parsers = {"design": str, "calls": int, "debias": str, **_ASKING}

KINDS: Mapping[str, Kind] = {
    "pairwise": Kind(
        pairwise,
        "any of the following, by its name",
        ("judge",),
        {"method": str, "decisions": str, "prior": str, **_DESIGN},
    ),
    **{
        name: Kind(partial(pairwise, method=name), summary, ("judge",), {**dict.fromkeys(options, str), **_DESIGN})
        for name, (summary, options) in METHODS.items()
    },
    "pairs-beam": Kind(
        pairs_beam, "PairS: a sort that asks as it goes", ("judge",), {"gap": float, "beam": int, **_ASKING}
    ),
}
