"""A judge + ladders of known order -> what it can judge. Pure, given the engine.

Pairs of rungs are asked about in both orders. With z the log-odds log P(better) - log P(worse) of the text asked about:

    signal of a pair   (z of the higher rung - z of the lower) / 2      nats; above 0: in order
    prior of a pair    (z of the higher rung + z of the lower) / 2      what the judge says whatever is shown
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import numpy as np

from ..engine import Engine, Progress
from ..errors import LadderError, Postponed, unusable
from ..io.write import plain, write_whole
from ..judging.asking import Asking, ProtocolName, Verdicts, ask
from ..judging.templates import Templates
from ..ladders.references import find_task
from ..signature import Signature, text_hash
from ..types import FloatArray, Ladder, Task, grouped
from .counts import count_quality
from .pairs import DISTANCES, Key, RungPair, rung_pairs, widest_of_each_ladder
from .rates import LOOKS, Decision, Rate, decide, rate

CONTRADICTING = 0.25
"""A judge that contradicts itself in more than this share of the pairs is said to have a habit: ask in both orders."""


@dataclass(frozen=True, slots=True)
class JudgedPair:
    """A judge's answers about two rungs.

    log_odds : nats; of the text asked about: the higher rung, then the lower one. Infinite where an answer is certain,
        NaN where there is none
    margin : p(better) - p(worse) of the higher rung, of both orders together
    reason : why there is no answer; "" where there is one
    other_margin : the margin in another attribute, in which the two do not differ; NaN where not asked
    count_margin : quality of the higher rung - that of the lower one, as counts of words have it (`count_quality`)
    """

    pair: RungPair
    log_odds: tuple[float, float]
    margin: float
    reason: str = ""
    other_margin: float = math.nan
    count_margin: float = math.nan


@dataclass(frozen=True, slots=True, eq=False)
class JudgeReport:
    """A judge's answers about pairs of rungs, and what it can judge by these.

    n_questions, tokens_naive, tokens_computed : about the pairs, in both orders, and about other attributes; tokens as
        in LabelLogProbs
    """

    judged: tuple[JudgedPair, ...]
    signature: Signature
    protocol: ProtocolName = "compare"
    n_questions: int = 0
    tokens_naive: int = 0
    tokens_computed: int = 0

    def __len__(self) -> int:
        return len(self.judged)

    def by_attribute(self) -> dict[Key, JudgeReport]:
        """A report of each task and attribute; the numbers of questions and tokens stay those of all."""
        groups = grouped((one.pair.key, one) for one in self.judged)
        return {key: replace(self, judged=tuple(group)) for key, group in sorted(groups.items())}

    @property
    def failures(self) -> list[str]:
        """Why pairs have no answer: a reason for each of them."""
        return [one.reason for one in self.judged if one.reason]

    # --------------------------------------------------------------------------------------------- figures

    @property
    def log_odds(self) -> FloatArray:
        """float64, shape (2, n_pairs)."""
        return np.array([one.log_odds for one in self.judged], dtype=np.float64).reshape(-1, 2).T

    @property
    def prior(self) -> float:
        """Mean over the pairs, nats; NaN where all answers are certain. Above 0: for the text asked about."""
        if not self._finite.size:
            return math.nan
        return float(np.mean(self._finite.mean(axis=0)))

    @property
    def signal(self) -> float:
        """Root mean square over the pairs, nats; NaN where all answers are certain."""
        higher, lower = self._finite
        if not higher.size:
            return math.nan
        return float(np.sqrt(np.mean(((higher - lower) / 2) ** 2)))

    @property
    def in_order(self) -> Rate:
        """Pairs of which the higher rung is the better one, by both orders together; a tie is half."""
        return self._rate(_half_up(self._values("margin")))

    @property
    def one_order(self) -> Rate:
        """The same by one order, mean of the two: 1/2 for a judge that says the same whatever is shown."""
        higher, lower = self.log_odds
        return self._rate((_half_up(higher) + _half_up(-lower)) / 2)

    @property
    def by_counts(self) -> Rate:
        """Pairs that counts of characters and words put in order; what the judge is to be better than."""
        return self._rate(_half_up(self._values("count_margin")))

    @property
    def contradicts(self) -> Rate:
        """Pairs of which the judge finds each text the better one, or each the worse, when asked about it."""
        higher, lower = np.sign(self.log_odds)
        return self._rate(np.where(np.isnan(higher + lower), np.nan, higher * lower > 0))

    def in_order_at(self, distance: int) -> Rate:
        """in_order of the pairs of this distance, an index in DISTANCES."""
        chosen = tuple(one for one in self.judged if one.pair.distance == distance)
        return replace(self, judged=chosen).in_order

    @property
    def tells(self) -> float:
        """Mean size of the margins of pairs that were asked about another attribute too; NaN where there are none."""
        return self._mean_size("margin")

    @property
    def tells_other(self) -> float:
        """Mean size of the margins of these pairs in the other attribute: 0 for a judge that tells attributes apart."""
        return self._mean_size("other_margin")

    def _mean_size(self, name: str) -> float:
        known = ~np.isnan(self._values("margin") + self._values("other_margin"))
        if not known.any():
            return math.nan
        return float(np.abs(self._values(name)[known]).mean())

    def _values(self, name: str) -> FloatArray:
        return np.array([getattr(one, name) for one in self.judged], dtype=np.float64)

    @property
    def _finite(self) -> FloatArray:
        log_odds = self.log_odds
        return log_odds[:, np.isfinite(log_odds).all(axis=0)]

    def _rate(self, values: FloatArray) -> Rate:
        return rate(values, [id(one.pair.ladder) for one in self.judged])

    # --------------------------------------------------------------------------------------------- what it can judge

    @property
    def decisions(self) -> dict[Key, Decision]:
        """Of each task and attribute, whether the judge can tell better texts from worse ones, by both orders."""
        return {key: _decision(report.judged) for key, report in self.by_attribute().items()}

    @property
    def verdict(self) -> str:
        """What it can judge, and what to do, in a few words for a user."""
        sentences = [self._name_attributes(decision) for decision in get_args(Decision)]
        sentences += [self._habit, self._no_better]
        if set(self.decisions.values()) == {"cannot"}:
            sentences.append("Take another model, or try another --protocol.")
        if self.failures:
            sentences.append(f"{len(self.failures)} of {len(self)} pairs have no answer: {self.failures[0]}")
        return " ".join(filter(None, sentences))

    def _name_attributes(self, decision: Decision) -> str:
        """A sentence on the attributes of this decision, each with its share; "" where there are none."""
        groups = self.by_attribute()
        several_tasks = len({task for task, _ in self.decisions}) > 1
        names = []
        for key, decided in self.decisions.items():
            if decided != decision:
                continue
            share, _, n = groups[key].in_order
            _, name = key
            if several_tasks:
                name = "/".join(key)
            shown = "no answer"
            if n:
                shown = f"{share:.0%} of {n} pairs"
            names.append(f"{name} ({shown})")
        if not names:
            return ""
        if decision == "cannot tell yet":
            return f"Not yet to be told: {', '.join(names)}; more pairs (--pairs) or more ladders (--ladders) may tell."
        return f"It {decision} judge {', '.join(names)}."

    @property
    def _habit(self) -> str:
        """A sentence on a judge that says the same whatever it is shown; "" where it does not."""
        share = self.contradicts.value
        if math.isnan(share) or share <= CONTRADICTING:
            return ""
        labels = self.signature.part("labels").partition(" & ")[0].split(",")  # Of several tasks, the first one's.
        better = 0
        worse = 1
        if self.protocol == "choose":  # The text asked about is B.
            better = labels.index("B")
            worse = 1 - better
        label = labels[worse]
        if np.nanmean(np.sign(self.log_odds)) > 0:
            label = labels[better]
        sizes = f"prior {self.prior:+.1f} nats, signal {self.signal:.1f}"
        if math.isnan(self.prior):
            sizes = "its answers are certain"
        text = f"It says {label} whatever is shown: in {share:.0%} of the pairs it contradicts itself ({sizes})."
        if self._can:
            text += " What it can judge it can in both orders: use --both-orders."
        return text

    @property
    def _no_better(self) -> str:
        """A sentence on attributes that counts of words can judge as well; "" where there are none."""
        groups = self.by_attribute()
        names = []
        for key in self._can:
            report = groups[key]
            if report.by_counts.value >= report.in_order.value:
                _, attribute = key
                names.append(attribute)
        if not names:
            return ""
        return f"Counts of characters and words alone have as many pairs in order: {', '.join(names)}."

    @property
    def _can(self) -> list[Key]:
        return [key for key, decision in self.decisions.items() if decision == "can"]

    # --------------------------------------------------------------------------------------------- out

    def figures(self) -> dict[str, Any]:
        """Of all pairs; shares as [value, stderr, n]."""
        shares = {name.replace(" ", "_"): self.in_order_at(index) for index, name in enumerate(DISTANCES)}
        return {
            "pairs": len(self),
            "unanswered": len(self.failures),
            "in_order": self.in_order,
            **shares,
            "by_counts": self.by_counts,
            "one_order": self.one_order,
            "contradicts": self.contradicts,
            "prior": self.prior,
            "signal": self.signal,
            "tells": self.tells,
            "tells_other": self.tells_other,
        }

    def to_dict(self) -> dict[str, Any]:
        """Of plain values: the figures, by task and attribute too, the decisions, and each pair."""
        decisions = self.decisions
        groups = []
        for key, report in self.by_attribute().items():
            task, attribute = key
            names = {"task": task, "attribute": attribute, "decision": decisions[key]}
            groups.append(names | report.figures())
        pairs = [_pair_row(one) for one in self.judged]
        whole = {"verdict": self.verdict, **self.figures(), "n_questions": self.n_questions}
        figures: dict[str, Any] = plain({**whole, "groups": groups, "each": pairs, "signature": str(self.signature)})
        return figures

    def save(self, path: str | os.PathLike[str]) -> None:
        """As JSON; the file appears whole or not at all."""
        write_whole(path, json.dumps(self.to_dict(), indent=1).encode() + b"\n")


def _pair_row(judged: JudgedPair) -> dict[str, Any]:
    pair = judged.pair
    return {
        "task": pair.ladder.task,
        "context_id": pair.ladder.context_id,
        "attribute": pair.ladder.attribute,
        "levels": [pair.lower.level, pair.higher.level],
        "log_odds": judged.log_odds,
        "margin": judged.margin,
        "other_margin": judged.other_margin,
        "count_margin": judged.count_margin,
        "reason": judged.reason,
    }


def examine(
    judge: Engine,
    ladders: Iterable[Ladder],
    asking: Asking = Asking(),
    *,
    looks: Sequence[int] = LOOKS,
    others: bool = False,
    task: str | None = None,
    progress: Progress | None = None,
) -> JudgeReport:
    """Ask a judge about pairs of rungs whose order is known, in both orders, until they decide what it can judge.

    ladders : each with its context
    looks : numbers of pairs after which it is looked at whether an attribute is decided; undecided ones are asked on
    others : ask about the widest pair of each ladder in another attribute of the task too, drawn by the ladder's hash
    task : folder of a task of one's own
    raises : LadderError for a ladder without its context, or no pairs at all; InputError for a look at less than 1;
        TaskError, TemplateError, LabelError
    """
    if not looks or min(looks) < 1:
        raise unusable("looks", tuple(looks), "numbers of pairs, each at least 1")
    waiting = rung_pairs(ladders)
    if not waiting:
        raise LadderError("there are no ladders with two rungs to ask about, expected one at least")
    asker = _Asker(judge, replace(asking, both_orders=True), lambda name: find_task(ladders, task or name), progress)
    judged: dict[Key, list[JudgedPair]] = {key: [] for key in waiting}
    undecided = list(waiting)
    for look in looks:
        new: list[tuple[RungPair, str]] = []
        for key in undecided:
            _, attribute = key
            n_judged = len(judged[key])
            new += [(pair, attribute) for pair in waiting[key][n_judged:look]]
        for one in asker.ask(new):
            judged[one.pair.key].append(one)
        undecided = [key for key in undecided if _goes_on(judged[key])]
    all_judged = [one for group in judged.values() for one in _with_counts(group)]
    if others:
        questions = []
        for pair in widest_of_each_ladder(one.pair for one in all_judged):
            names = list(asker.find_task(pair.ladder.task).attributes)
            if len(names) > 1:
                questions.append((pair, _other(pair.ladder, names)))
        margins = {id(one.pair): one.margin for one in asker.ask(questions)}
        all_judged = [replace(one, other_margin=margins.get(id(one.pair), math.nan)) for one in all_judged]
    answers = [verdicts.answers for verdicts in asker.verdicts]
    return JudgeReport(
        judged=tuple(all_judged),
        signature=Signature.merged(verdicts.signature for verdicts in asker.verdicts),
        protocol=asking.protocol,
        n_questions=sum(map(len, answers)),
        tokens_naive=sum(given.usage.n_in for given in answers),
        tokens_computed=sum(given.usage.n_computed for given in answers),
    )


@dataclass
class _Asker:
    """Asks about pairs of rungs, and keeps the verdicts. find_task : the task of ladders, by its name"""

    judge: Engine
    asking: Asking
    find_task: Callable[[str], Task]
    progress: Progress | None
    verdicts: list[Verdicts] = field(default_factory=list)

    def ask(self, questions: Iterable[tuple[RungPair, str]]) -> list[JudgedPair]:
        """questions : a pair, and the attribute that is asked about"""
        judged: list[JudgedPair] = []
        for name, group in grouped((pair.ladder.task, (pair, attribute)) for pair, attribute in questions).items():
            group.sort(key=lambda asked: (asked[0].ladder.context_id, asked[1]))  # So a judge reads a context once.
            asked = [pair.question(attribute) for pair, attribute in group]
            templates = Templates(self.find_task(name), self.asking.prompts)
            verdicts = ask(asked, self.judge, templates, self.asking, self.progress)
            margins = (verdicts.better - verdicts.worse).tolist()
            higher, lower = _log_odds(verdicts).tolist()
            for row, (pair, _) in enumerate(group):
                one = JudgedPair(
                    pair=pair,
                    log_odds=(higher[row], lower[row]),
                    margin=margins[row],
                    reason=verdicts.failures.get(row, ""),
                )
                judged.append(one)
            self.verdicts.append(verdicts)
        return judged


def _log_odds(verdicts: Verdicts) -> FloatArray:
    """Of the text asked about, first the target, then the reference; float64, shape (2, n_pairs), nats."""
    better = verdicts.by_order[..., 0]
    worse = verdicts.by_order[..., 1]
    with np.errstate(divide="ignore", invalid="ignore"):  # Certain answers have infinite log-odds.
        log_odds: FloatArray = np.log(better) - np.log(worse)
    log_odds[(better == 0) & (worse == 0)] = 0  # The answer is Similar for certain.
    log_odds[1] *= -1  # The second order is about the reference.
    return log_odds


def _goes_on(judged: Sequence[JudgedPair]) -> bool:
    """Whether more is asked about an attribute, of which these pairs are judged."""
    return _decision(judged) == "cannot tell yet" and not _waits(judged)


def _waits(judged: Sequence[JudgedPair]) -> bool:
    """Whether an answer is yet to come, on which it depends whether more is asked."""
    return any(Postponed.WORDS in one.reason for one in judged)


def _decision(judged: Sequence[JudgedPair]) -> Decision:
    """What the judge can judge, by pairs of one attribute."""
    in_order = _half_up(np.array([one.margin for one in judged]))
    return decide(in_order, [id(one.pair.ladder) for one in judged])


def _with_counts(judged: Sequence[JudgedPair]) -> list[JudgedPair]:
    """Pairs of one attribute, with the margin that counts of words give them."""
    ladders = list({id(one.pair.ladder): one.pair.ladder for one in judged}.values())
    quality = dict(zip(map(id, ladders), count_quality(ladders), strict=True))
    counted = []
    for one in judged:
        by_level = quality[id(one.pair.ladder)]
        margin = by_level[one.pair.higher.level] - by_level[one.pair.lower.level]
        counted.append(replace(one, count_margin=margin))
    return counted


def _other(ladder: Ladder, attributes: Sequence[str]) -> str:
    """Another attribute, drawn by hash."""
    others = [name for name in attributes if name != ladder.attribute]
    return others[int(text_hash(ladder.context_id, ladder.attribute)[:8], 16) % len(others)]


def _half_up(values: FloatArray) -> FloatArray:
    """1 for above 0, 1/2 for 0, NaN for NaN."""
    return (np.sign(values) + 1) / 2
