"""One question of a paper's table -> the figure that our code finds, with its interval over contexts.

    agreement          of a method with people
    axes               of people's ratings on one attribute with theirs on another
    curve              of a way to rank with people, from fewer calls than there are
    first_wins         P(A), share of all calls that the text shown first wins
    accuracy           share of calls that choose the text which people rate higher
    self_consistency   share of pairs that a few texts alone put in the order of all, or of people

A judge is asked through `Tools.judge`; what one question asks, another finds in the store, and here in memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from synthscore.errors import RankingError
from synthscore.evaluation.agreement import measure
from synthscore.evaluation.intervals import all_equal, mean_without, spread
from synthscore.evaluation.methods import Tools, method, method_kinds
from synthscore.evaluation.methods.base import task_of
from synthscore.evaluation.methods.comparing import Compared, group_rows
from synthscore.evaluation.ratings import Ratings
from synthscore.io.scores import Scores
from synthscore.judging.templates import Templates
from synthscore.ladders.references import References
from synthscore.ranking import METHODS, Comparisons, Selection, median_debiasing, pool, position_bias
from synthscore.ranking.designs import all_pairs
from synthscore.signature import seeded_rng
from synthscore.types import FloatArray, IntArray

from .accuracy import pairwise_accuracy
from .accuracy import self_consistency as self_consistency_of
from .designs import symmetric, thinned
from .linearity import Linearity, linearity

Ask = Mapping[str, Any]
Of = tuple[str, str]  # benchmark, attribute


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Without what is 0."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return {what: count for what, count in total.items() if count}


class Unmeasured(Exception):
    """Something that the table needs and that was not given. what : in words. which : by name"""

    def __init__(self, what: str, which: str) -> None:
        super().__init__(f"{what} {which}")
        self.what, self.which = what, which


@dataclass(frozen=True, slots=True, eq=False)
class Figure:
    """draws : shape (n_draws,), the value of each draw of calls, or trial; one where nothing is drawn
    without : benchmark -> the value with each of its contexts left out, mean over draws; NaN for one not used
    ends : the least and the greatest value there is
    n_contexts : that it rests on; of several benchmarks or attributes, the fewest
    left_out : what takes no part -> how many of them, in all parts of a mean together
    """

    draws: FloatArray
    without: Mapping[str, FloatArray]
    n_contexts: int
    left_out: Mapping[str, int] = field(default_factory=dict)
    ends: tuple[float, float] = (-1.0, 1.0)

    @property
    def value(self) -> float:
        return float(self.draws.mean())

    @property
    def sd(self) -> float | None:
        return float(self.draws.std(ddof=1)) if len(self.draws) > 1 else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 %; None for one context. The contexts of several benchmarks are so many draws of one kind."""
        without = np.concatenate(list(self.without.values()))
        if self.n_contexts < 2 or not len(without):
            return None
        found = spread(self.value, without, self.ends, degrees_of_freedom=self.n_contexts - 1)
        return None if found.low is None or found.high is None else (found.low, found.high)


@dataclass(frozen=True, slots=True, eq=False)
class _Calls:
    """All calls about each problem of one attribute, and the rows of ratings that its candidates are."""

    problems: tuple[Comparisons, ...]
    rows: tuple[IntArray, ...]
    names: tuple[str, ...]  # of their contexts; "" where all texts are one problem
    left_out: Mapping[str, int]


@dataclass(frozen=True, slots=True, eq=False)
class Bench:
    """What questions are answered with. models : by the paper's name of the judge; the rest as in tables.make_table"""

    ratings: Mapping[str, Ratings]
    models: Mapping[str, Tools]
    writers: Mapping[str, References] = field(default_factory=dict)
    prompts: tuple[str, ...] = ()
    n_draws: int | None = None
    seed: int = 0
    _kept: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def figure(self, ask: Ask, of: Sequence[Of]) -> Figure:
        """The mean over benchmarks, attributes and prompts. raises : Unmeasured; what the methods raise"""
        for each in of:
            self.require_options(*each)
        tools = self._tools(ask)
        parts = [
            MEASURES[ask["measure"]](self, ask, each, one_of) for each in self._prompted(ask, tools) for one_of in of
        ]
        values = [part.value for part in parts]
        without = {}
        for name in dict.fromkeys(name for part in parts for name in part.without):  # other benchmarks stay as they are
            n = max(len(part.without[name]) for part in parts if name in part.without)
            without[name] = mean_without(values, [part.without.get(name, np.full(n, np.nan)) for part in parts])
        return Figure(
            np.mean([part.draws for part in parts], axis=0),
            without,
            min(part.n_contexts for part in parts),
            _added(part.left_out for part in parts),
            parts[0].ends,
        )

    def require_options(self, benchmark: str, attribute: str) -> None:
        if benchmark not in self.ratings:
            raise Unmeasured("no ratings are given of", benchmark)
        if attribute not in self.ratings[benchmark].attributes:
            raise Unmeasured("no ratings are given of", f"{benchmark}/{attribute}")

    def _tools(self, ask: Ask) -> Tools:
        judge, writer = ask.get("judge"), ask.get("writer")
        if judge == "":
            raise Unmeasured("which model was asked is not stated; each one given has its own row:", ask["method"])
        if judge is not None and judge not in self.models:
            raise Unmeasured("no model is given as", judge)
        tools = Tools() if judge is None else self.models[judge]
        if writer is None:
            return tools
        if writer not in self.writers:
            raise Unmeasured("no ladders are given by", writer)
        return replace(tools, references=self.writers[writer])

    def _prompted(self, ask: Ask, tools: Tools) -> list[Tools]:
        """With the template sets that stand for the paper's prompts."""
        if not self.prompts and ask.get("prompt", 1) == 1:
            return [tools]
        if ask.get("prompt", 1) > len(self.prompts):
            raise Unmeasured("no template set is given for", f"prompt {ask['prompt']}")
        chosen = [self.prompts[ask["prompt"] - 1]] if "prompt" in ask else self.prompts[: ask.get("prompts", 1)]
        return [replace(tools, asking=replace(tools.asking, prompts=prompts)) for prompts in chosen]

    def kept(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def rng(self, *names: object) -> np.random.Generator:
        return seeded_rng(self.seed, *map(str, names))

    def calls(self, tools: Tools, of: Of, *, most: int | None = None, debias: str | None = None) -> _Calls:
        """most : asks all texts as one problem, and at most so many calls. debias : "median" """
        key = ("calls", id(tools.judge), tools.asking.prompts, of, most)
        found: _Calls = self.kept(key, lambda: self._asked(tools, of, most))
        if debias is None:
            return found
        shift = median_debiasing(pool({str(k): calls for k, calls in enumerate(found.problems)}))
        return replace(found, problems=tuple(map(shift.apply, found.problems)))

    def _asked(self, tools: Tools, of: Of, most: int | None) -> _Calls:
        benchmark, attribute = of
        ratings = self.ratings[benchmark]
        groups, why = group_rows(ratings, pool=most is not None)
        task, _ = task_of(ratings, attribute, tools.references)
        compared = Compared(Selection(), "poe-bt", {}, pool=most is not None)  # whom to ask; how to rank is the cell's
        judge = compared.judge(ratings, attribute, groups, tools.require_judge(), Templates(task, tools.asking.prompts))
        wanted = []
        for k, rows in enumerate(groups):
            n = len(rows)
            calls = (
                all_pairs(n)
                if most is None or most >= n * (n - 1)
                else symmetric(n, most, self.rng("calls", benchmark))
            )
            wanted += [(k, i, j) for i, j in calls.tolist()]
        judge(wanted)
        return _Calls(
            tuple(judge.comparisons()),
            tuple(np.array(rows, dtype=np.int64) for rows in groups),
            tuple("" if most is not None else ratings.texts[rows[0]].context_id for rows in groups),
            {"calls without an answer": len(judge.failures), "texts not compared": sum(map(bool, why))},
        )

    def linearity(self, judge: str, of: Of) -> Linearity:
        """Of all pairs in both orders. raises : Unmeasured; what the methods raise"""
        self.require_options(*of)
        calls = self.calls(self._tools({"judge": judge}), of)
        human = self.ratings[of[0]].human(of[1])
        ratings = [human[rows] for rows in calls.rows]
        return linearity(
            calls.problems, ratings, judge=judge, benchmark=of[0], attribute=of[1], left_out=calls.left_out
        )

    def scores(self, spec: str, tools: Tools, of: Of) -> Scores:
        """What a method says of each text on an attribute."""
        benchmark, attribute = of
        key = ("scores", spec, id(tools.judge), id(tools.references), tools.asking.prompts, of)
        scores: Scores = self.kept(key, lambda: method(spec)(self.ratings[benchmark], attribute, tools))
        return scores


# ------------------------------------------------------------------------------------------------- agreement


def _agreement(bench: Bench, ask: Ask, tools: Tools, of: Of) -> Figure:
    specs = [_spec(ask)]
    if trials := ask.get("trials"):
        specs = [with_options(specs[0], seed=trial) for trial in range(trials)]
    scores = [bench.scores(spec, tools, of) for spec in specs]
    human = bench.ratings[of[0]].human(of[1])
    figure = _compared_with(bench, ask, of[0], [each.values for each in scores], human)
    n_partial = max(sum(score.status == "partial" for score in each) for each in scores)
    return replace(figure, left_out=_added([figure.left_out, {"a part of the score of texts": n_partial}]))


def _axes(bench: Bench, ask: Ask, tools: Tools, of: Of) -> Figure:
    bench.require_options(of[0], ask["attribute"])
    ratings = bench.ratings[of[0]]
    ask = {**ask, "nan_policy": "skip"}  # the same whichever of the two is the constant one
    return _compared_with(bench, ask, of[0], [ratings.human(ask["attribute"])], ratings.human(of[1]))


def _compared_with(bench: Bench, ask: Ask, benchmark: str, columns: Sequence[FloatArray], human: FloatArray) -> Figure:
    """Agreement of each column with people, at the table's level."""
    ratings = bench.ratings[benchmark]
    skips = ask["nan_policy"] == "skip" and ask["level"] == "per_context"
    shown = columns
    if skips:  # contexts where all values are equal: G-Eval, UniEval, the curves of PoE
        shown = [np.where(all_equal(values, ratings.context_ids), np.nan, values) for values in columns]
    found = [
        measure(values, human, ratings.context_ids, ratings.systems, level=ask["level"], statistic=ask["statistic"])
        for values in shown
    ]
    if undefined := [each.note for each, _ in found if np.isnan(each.value)]:
        raise Unmeasured("there is no correlation:", undefined[0])
    values = np.array([each.value for each, _ in found])
    without = mean_without(values.tolist(), [without for _, without in found])
    fewest = min((each for each, _ in found), key=lambda agreement: agreement.n_contexts)
    left_out = {
        "texts without a score": max(int((np.isnan(values) & ~np.isnan(human)).sum()) for values in columns),
        "texts that nobody rated": fewest.n_unrated,
        "contexts without two different ratings, or scores": fewest.n_skipped,
    }
    return Figure(values, {benchmark: without}, fewest.n_contexts, left_out)


def _spec(ask: Ask) -> str:
    """The method with what else the cell asks for."""
    spec: str = ask["method"]
    kind = method_kinds().get(spec.partition(":")[0])
    if "debias" in ask:
        spec = with_options(spec, debias=ask["debias"])
    if ask["level"] == "pooled" and kind and "pool" in kind.options:
        spec = with_options(spec, pool="yes")
    return spec


def with_options(spec: str, **options: object) -> str:
    """
    >>> with_options("ladder:samples=3", seed=1)
    'ladder:samples=3,seed=1'
    """
    said = ",".join(f"{name}={value}" for name, value in options.items())
    return f"{spec}{',' if ':' in spec else ':'}{said}"


# ------------------------------------------------------------------------------------------------- calls


def _first_wins(bench: Bench, ask: Ask, tools: Tools, of: Of) -> Figure:
    calls = bench.calls(tools, of)
    shares = [position_bias(each).first_wins for each in calls.problems]
    return _share(bench, of[0], calls, [(share.value, share.n) for share in shares])


def _accuracy(bench: Bench, ask: Ask, tools: Tools, of: Of) -> Figure:
    calls = bench.calls(tools, of, debias=ask.get("debias"))
    human = bench.ratings[of[0]].human(of[1])
    found = [pairwise_accuracy(each, human[rows]) for each, rows in zip(calls.problems, calls.rows, strict=True)]
    return _share(bench, of[0], calls, [(share.value, share.n) for share in found])


def _self_consistency(bench: Bench, ask: Ask, tools: Tools, of: Of) -> Figure:
    calls, size = bench.calls(tools, of), ask["size"]
    human = bench.ratings[of[0]].human(of[1])

    def of_all() -> list[Any]:
        rng = bench.rng("subsets", of, size)
        return [
            self_consistency_of(each, size, rng, human=human[rows], n_draws=bench.n_draws or 1000)
            for each, rows in zip(calls.problems, calls.rows, strict=True)
        ]

    found = bench.kept(("self_consistency", id(tools.judge), tools.asking.prompts, of, size), of_all)
    shares = [getattr(each, ask["order"]) for each in found]
    return _share(bench, of[0], calls, [(share, 0 if np.isnan(share) else 1) for share in shares])


def _share(bench: Bench, benchmark: str, calls: _Calls, found: Sequence[tuple[float, int]]) -> Figure:
    """Of what was counted in all contexts together. found : for each problem a share, and of how many"""
    names = list(dict.fromkeys(bench.ratings[benchmark].context_ids))
    counted, of_all = np.zeros(len(names)), np.zeros(len(names))
    for name, (share, n) in zip(calls.names, found, strict=True):
        if n:
            counted[names.index(name)], of_all[names.index(name)] = share * n, n
    if not of_all.any():
        raise Unmeasured("no call can be counted on", benchmark)
    total, n_used = of_all.sum(), int((of_all > 0).sum())
    with np.errstate(invalid="ignore"):
        without = np.where(of_all > 0, (counted.sum() - counted) / (total - of_all), np.nan)
    value = np.array([counted.sum() / total])
    return Figure(value, {benchmark: without}, n_used, calls.left_out, ends=(0.0, 1.0))


# ------------------------------------------------------------------------------------------------- fewer calls


def _curve(bench: Bench, ask: Ask, tools: Tools, of: Of) -> Figure:
    """Of every draw of calls, agreement of the scores that a method makes of them; all methods see the same draws."""
    benchmark, attribute = of
    calls = bench.calls(tools, of, most=ask["most_calls"] if ask["level"] == "pooled" else None)
    n_draws = 1 if ask["calls"] == "all" else bench.n_draws or ask["draws"]
    key = ("drawn", id(tools.judge), tools.asking.prompts, of, ask["level"], ask["calls"], ask["design"], n_draws)
    drawn = bench.kept(key, lambda: _drawn(bench, ask, calls, of, n_draws))
    columns, n_failed = [], 0
    for draw in drawn:
        values = np.full(len(bench.ratings[benchmark]), np.nan)
        for each, rows, used in zip(calls.problems, calls.rows, draw, strict=True):
            try:
                ranking = METHODS[ask["method"]].fast(each.subset(used))
            except RankingError:
                n_failed += 1
                continue
            values[rows] = np.round(ranking.scores, 9)  # rounding errors must not split ties
        columns.append(values)
    figure = _compared_with(bench, ask, benchmark, columns, bench.ratings[benchmark].human(attribute))
    left_out = _added([figure.left_out, calls.left_out, {"rankings that failed, of all draws": n_failed}])
    return replace(figure, left_out=left_out)


def _drawn(bench: Bench, ask: Ask, calls: _Calls, of: Of, n_draws: int) -> list[list[IntArray]]:
    """For each draw, the calls of each problem that are in it."""
    draws = []
    for draw in range(n_draws):
        rng = bench.rng("draw", of, ask["calls"], draw)
        draws.append([thinned(each, ask["calls"], ask["design"], rng) for each in calls.problems])
    return draws


MEASURES: Mapping[str, Callable[[Bench, Ask, Tools, Of], Figure]] = {
    "agreement": _agreement,
    "axes": _axes,
    "curve": _curve,
    "first_wins": _first_wins,
    "accuracy": _accuracy,
    "self_consistency": _self_consistency,
}
