"""A judge + ladders of known order -> can it judge? Pure, given the engine.

Pairs of rungs are asked about in both orders. With z the log-odds log P(better) - log P(worse) of the text asked about:

    signal of a pair   (z of the higher rung - z of the lower) / 2      nats; above 0: in order
    prior of a pair    (z of the higher rung + z of the lower) / 2      what the judge says whatever is shown
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, zip_longest
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..engine import Engine, Progress
from ..errors import LadderError, unusable
from ..io.write import plain, write_whole
from ..judging.asking import PROTOCOLS, Asking, Pair, ProtocolName, ask
from ..judging.templates import Templates
from ..scoring.run import CONTRADICTIONS
from ..signature import Signature, text_hash
from ..types import FloatArray, Ladder, Rung
from .check import by_task
from .rungs import context_of

T = TypeVar("T")

DISTANCES = ("adjacent", "two apart", "far")
LEAST = 2 / 3  # of the pairs in order, for a judge
LEAST_DROWNED = 0.9  # where the two orders contradict each other: the rest is a small difference of large numbers
BOTH = 0.25  # share of contradictions from which both orders are advised


@dataclass(frozen=True, slots=True)
class RungPair:
    """Two rungs of a ladder."""

    ladder: Ladder
    lower: Rung
    higher: Rung

    @property
    def distance(self) -> int:
        """Place in DISTANCES."""
        return min(self.higher.level - self.lower.level, 3) - 1

    @property
    def hash(self) -> str:
        return text_hash(self.ladder.context_id, self.ladder.attribute, self.lower.text, self.higher.text)

    def question(self, attribute: str) -> Pair:
        """What the judge is asked about."""
        return Pair(context_of(self.ladder), attribute, target=self.higher.text, reference=self.lower.text)


class Rate(NamedTuple):
    """A mean over n pairs, with its standard error over their ladders; NaN where n is 0 (and the error of 1)."""

    value: float
    stderr: float
    n: int


def rate(values: FloatArray, clusters: Sequence[Any]) -> Rate:
    """Mean of what is known. clusters : of each value, such as its ladder; those of one are not independent"""
    rows = np.flatnonzero(~np.isnan(values)).tolist()
    if not rows:
        return Rate(math.nan, math.nan, 0)
    mean = float(values[rows].mean())
    sums = dict[Any, float]()
    for row in rows:
        sums[clusters[row]] = sums.get(clusters[row], 0.0) + values[row] - mean
    groups = len(sums)
    spread = sum(value**2 for value in sums.values()) * groups / (groups - 1) if groups > 1 else math.nan
    return Rate(mean, math.sqrt(spread) / len(rows), len(rows))


@dataclass(frozen=True, slots=True, eq=False)
class JudgeReport:
    """What a judge made of pairs of rungs.

    log_odds : float64, shape (2, n_pairs), nats; of the text asked about: the higher rung, then the lower one. Infinite
        where an answer is certain, NaN where there is none
    margins : float64, shape (n_pairs,); p(better) - p(worse) of the higher rung, of both orders together
    other_margins : the same pairs asked about another attribute, in which they do not differ; NaN where not asked
    failures : pair -> why it has no answer
    n_questions, tokens_naive, tokens_computed : about the pairs, in both orders, and about other attributes; tokens as
        in LabelLogProbs
    """

    pairs: tuple[RungPair, ...]
    log_odds: FloatArray
    margins: FloatArray
    other_margins: FloatArray
    signature: Signature
    protocol: ProtocolName = "compare"
    failures: Mapping[int, str] = field(default_factory=dict)
    n_questions: int = 0
    tokens_naive: int = 0
    tokens_computed: int = 0

    def __len__(self) -> int:
        return len(self.pairs)

    def part(self, which: Sequence[int]) -> JudgeReport:
        """Of these pairs alone; the questions and tokens stay those of all."""
        rows = np.array(which, dtype=np.int64)
        return replace(
            self,
            pairs=tuple(self.pairs[row] for row in which),
            log_odds=self.log_odds[:, rows],
            margins=self.margins[rows],
            other_margins=self.other_margins[rows],
            failures={new: self.failures[old] for new, old in enumerate(which) if old in self.failures},
        )

    def by_attribute(self) -> dict[tuple[str, str], JudgeReport]:
        """Of each task and attribute."""
        groups: dict[tuple[str, str], list[int]] = {}
        for row, pair in enumerate(self.pairs):
            groups.setdefault((pair.ladder.task, pair.ladder.attribute), []).append(row)
        return {key: self.part(rows) for key, rows in sorted(groups.items())}

    # --------------------------------------------------------------------------------------------- figures

    @property
    def prior(self) -> float:
        """Mean over the pairs, nats; NaN where all answers are certain. Above 0: for the text asked about."""
        return float(np.mean(self._finite.mean(axis=0))) if self._finite.size else math.nan

    @property
    def signal(self) -> float:
        """Root mean square over the pairs, nats; NaN where all answers are certain."""
        higher, lower = self._finite
        return float(np.sqrt(np.mean(((higher - lower) / 2) ** 2))) if higher.size else math.nan

    @property
    def in_order(self) -> Rate:
        """Pairs of which the higher rung is the better one, by both orders together; a tie is half."""
        return self._rate(_half_up(self.margins))

    @property
    def one_order(self) -> Rate:
        """The same by one order, mean of the two: 1/2 for a judge that says the same whatever is shown."""
        return self._rate((_half_up(self.log_odds[0]) + _half_up(-self.log_odds[1])) / 2)

    @property
    def contradicts(self) -> Rate:
        """Pairs of which the judge finds each text the better one, or each the worse, when asked about it."""
        signs = np.sign(self.log_odds)
        return self._rate(np.where(np.isnan(signs).any(axis=0), np.nan, signs[0] * signs[1] > 0))

    def at(self, distance: int) -> Rate:
        """in_order of the pairs of this distance, a place in DISTANCES."""
        return self.part([row for row, pair in enumerate(self.pairs) if pair.distance == distance]).in_order

    @property
    def tells(self) -> float:
        """Mean size of the margins of pairs that were asked about another attribute too; NaN where there are none."""
        return self._mean_size(self.margins)

    @property
    def tells_other(self) -> float:
        """Mean size of the margins of these pairs in the other attribute: 0 for a judge that tells attributes apart."""
        return self._mean_size(self.other_margins)

    def _mean_size(self, margins: FloatArray) -> float:
        known = ~np.isnan(self.other_margins) & ~np.isnan(self.margins)
        return float(np.abs(margins[known]).mean()) if known.any() else math.nan

    @property
    def _finite(self) -> FloatArray:
        return self.log_odds[:, np.isfinite(self.log_odds).all(axis=0)]

    def _rate(self, values: FloatArray) -> Rate:
        return rate(values, [id(pair.ladder) for pair in self.pairs])

    # --------------------------------------------------------------------------------------------- the verdict

    @property
    def drowned(self) -> bool:
        """Asked about either text of a pair, the judge says the same, nearly always."""
        return self.contradicts.value > CONTRADICTIONS

    @property
    def usable(self) -> bool:
        """It has clearly more pairs in order than chance, and enough of them; in both orders together."""
        return self._enough(self.in_order)

    def _enough(self, rate: Rate) -> bool:
        """At least two thirds (nine tenths of a judge that contradicts itself), and two standard errors above 1/2."""
        if not rate.n:
            return False
        error = max(0.5 / math.sqrt(rate.n), 0.0 if math.isnan(rate.stderr) else rate.stderr)
        return rate.value >= max(LEAST_DROWNED if self.drowned else LEAST, 0.5 + 2 * error)

    @property
    def verdict(self) -> str:
        """Whether it can judge, and what to do, in a few words for a user."""
        both = self.in_order
        one = self.one_order
        missing = ""
        if self.failures:
            missing = f" {len(self.failures)} of {len(self)} pairs have no answer: {next(iter(self.failures.values()))}"
        if not both.n:
            return f"It cannot be used as a judge.{missing}"
        in_order = f"{both.value * both.n:g} of {both.n} pairs in order"
        if self.drowned and not self.usable:
            verdict = (
                f"It says {self._always} ({self._sizes}): it cannot be used as a judge ({one.value:.0%} in one order, "
                f"{both.value:.0%} in both; chance is 50%). Take another model, or try another --protocol."
            )
        elif not self.usable:
            verdict = (
                "It does not tell better texts from worse ones well enough to be used as a judge: "
                f"{in_order} by both orders (chance is half). Take another model, or try another --protocol "
                f"({self._sizes})."
            )
        elif self.contradicts.value > BOTH or not self._enough(one):
            verdict = (
                f"It can judge in both orders, not in one: use --both-orders. {in_order} by both orders; in "
                f"{self.contradicts.value:.0%} it contradicts itself, for it says {self._always} ({self._sizes})."
            )
        else:
            verdict = f"It can judge: {in_order} ({self._sizes})."
        return verdict + missing

    @property
    def _always(self) -> str:
        labels = PROTOCOLS[self.protocol]
        better = labels.index("B") if self.protocol == "choose" else 0
        says_better = np.nanmean(np.sign(self.log_odds)) > 0
        return f"{labels[better if says_better else 1 - better]} whatever is shown"

    @property
    def _sizes(self) -> str:
        known = not math.isnan(self.prior)
        return f"prior {self.prior:+.1f} nats, signal {self.signal:.1f}" if known else "its answers are certain"

    # --------------------------------------------------------------------------------------------- out

    def figures(self) -> dict[str, Any]:
        """Of all pairs; shares as [value, stderr, n]."""
        shares = {name.replace(" ", "_"): self.at(place) for place, name in enumerate(DISTANCES)}
        return {
            "pairs": len(self),
            "unanswered": len(self.failures),
            "in_order": self.in_order,
            **shares,
            "one_order": self.one_order,
            "contradicts": self.contradicts,
            "prior": self.prior,
            "signal": self.signal,
            "tells": self.tells,
            "tells_other": self.tells_other,
        }

    def to_dict(self) -> dict[str, Any]:
        """Of plain values: the figures, by task and attribute too, the verdict, and each pair."""
        groups = [{"task": key[0], "attribute": key[1], **each.figures()} for key, each in self.by_attribute().items()]
        each = [
            {
                "task": pair.ladder.task,
                "context_id": pair.ladder.context_id,
                "attribute": pair.ladder.attribute,
                "levels": [pair.lower.level, pair.higher.level],
                "log_odds": self.log_odds[:, row],
                "margin": self.margins[row],
                "other_margin": self.other_margins[row],
                "reason": self.failures.get(row, ""),
            }
            for row, pair in enumerate(self.pairs)
        ]
        whole = {"usable": self.usable, "verdict": self.verdict, **self.figures(), "n_questions": self.n_questions}
        figures: dict[str, Any] = plain({**whole, "groups": groups, "each": each, "signature": str(self.signature)})
        return figures

    def save(self, path: str | os.PathLike[str]) -> None:
        """As JSON; the file appears whole or not at all."""
        write_whole(path, json.dumps(self.to_dict(), indent=1).encode() + b"\n")


def examine(
    judge: Engine,
    ladders: Iterable[Ladder],
    asking: Asking = Asking(),
    *,
    limit: int | None = None,
    others: bool = False,
    task: str | None = None,
    progress: Progress | None = None,
) -> JudgeReport:
    """Ask a judge about pairs of rungs whose order is known, in both orders.

    ladders : each with its context. limit : the most pairs, chosen by `choose`; None: all
    others : ask about the widest pair of each ladder in another attribute of the task too, drawn by the ladder's hash
    task : folder of a task of one's own
    raises : LadderError for a ladder without its context, or no pairs at all; TaskError, TemplateError, LabelError
    """
    drawn = choose(ladders, limit)  # those of a context one after another: a judge reads it once
    pairs = tuple(sorted(drawn, key=lambda pair: (pair.ladder.task, pair.ladder.context_id, pair.ladder.attribute)))
    if not pairs:
        raise LadderError("there are no ladders with two rungs to ask about, expected one at least")
    n = len(pairs)
    log_odds = np.full((2, n), np.nan)
    margins = np.full(n, np.nan)
    other_margins = np.full(n, np.nan)
    failures: dict[int, str] = {}
    signatures = []
    cost = np.zeros(3, dtype=np.int64)
    asking = replace(asking, both_orders=True)
    for own, group in by_task(list({id(pair.ladder): pair.ladder for pair in pairs}.values()), task):
        rows = [row for row, pair in enumerate(pairs) if pair.ladder.task == group[0].task]
        asked = [pairs[row].question(pairs[row].ladder.attribute) for row in rows]
        again = _widest(pairs, rows) if others and len(own.attributes) > 1 else []
        asked += [pairs[row].question(_other(pairs[row].ladder, list(own.attributes))) for row in again]
        verdicts = ask(asked, judge, Templates(own, asking.prompts), asking, progress)
        signatures.append(verdicts.signature)
        answers = verdicts.answers
        cost += (len(answers), answers.tokens_naive, answers.tokens_computed)
        here = slice(0, len(rows))
        probs = verdicts.by_order[:, here]
        with np.errstate(divide="ignore", invalid="ignore"):  # certain answers; 0 and 0: none, as for Similar alone
            of_higher = np.log(probs[..., 0]) - np.log(probs[..., 1])
        of_higher[(probs[..., :2] == 0).all(axis=-1)] = 0
        log_odds[:, rows] = of_higher * np.array([[1], [-1]])
        differences = verdicts.better - verdicts.worse
        margins[rows] = differences[here]
        other_margins[again] = differences[len(rows) :]
        failures |= {rows[index]: reason for index, reason in verdicts.failures.items() if index < len(rows)}
    n_questions, naive, computed = cost.tolist()
    return JudgeReport(
        pairs=pairs,
        log_odds=log_odds,
        margins=margins,
        other_margins=other_margins,
        signature=Signature.merged(signatures),
        protocol=asking.protocol,
        failures=dict(sorted(failures.items())),
        n_questions=n_questions,
        tokens_naive=naive,
        tokens_computed=computed,
    )


def choose(ladders: Iterable[Ladder], limit: int | None = None) -> tuple[RungPair, ...]:
    """The pairs of rungs, in an order of which any beginning is spread over attributes and distances, drawn by hash.

    limit : how many
    raises : InputError for less than 1; LadderError for a ladder without its context
    """
    groups: dict[tuple[str, str], list[RungPair]] = {}
    for ladder in ladders:
        context_of(ladder)
        pairs = (RungPair(ladder, lower, higher) for lower, higher in combinations(ladder.usable, 2))
        groups.setdefault((ladder.task, ladder.attribute), []).extend(pairs)
    queues = []
    for place, (_, group) in enumerate(sorted(groups.items())):
        group.sort(key=lambda pair: pair.hash)
        kinds = [[pair for pair in group if pair.distance == distance] for distance in range(len(DISTANCES))]
        start = place % len(kinds)
        queues.append(in_turn(kinds[start:] + kinds[:start]))
    return first_in_turn(queues, limit)


def in_turn(queues: Iterable[Sequence[T]]) -> list[T]:
    """The first of each, then the second of each."""
    return [item for item in chain.from_iterable(zip_longest(*queues)) if item is not None]


def first_in_turn(queues: Iterable[Sequence[T]], limit: int | None) -> tuple[T, ...]:
    """As many as `limit` says, in turn; None: all. raises : InputError for less than 1"""
    if limit is not None and limit < 1:
        raise unusable("limit", limit, "at least 1")
    return tuple(in_turn(queues)[:limit])


def _widest(pairs: Sequence[RungPair], rows: Sequence[int]) -> list[int]:
    """Of each ladder the pair whose rungs are furthest apart."""
    found: dict[int, int] = {}
    for row in sorted(rows, key=lambda row: pairs[row].higher.level - pairs[row].lower.level):
        found[id(pairs[row].ladder)] = row
    return sorted(found.values())


def _other(ladder: Ladder, attributes: Sequence[str]) -> str:
    others = [name for name in attributes if name != ladder.attribute]
    return others[int(text_hash(ladder.context_id, ladder.attribute)[:8], 16) % len(others)]


def _half_up(values: FloatArray) -> FloatArray:
    """1 for above 0, 1/2 for 0, NaN for NaN."""
    return (np.sign(values) + 1) / 2
