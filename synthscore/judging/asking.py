"""Pairs of texts + engine + how it is asked -> Verdicts. The one place that asks a judge about pairs.

A rung, a real candidate and a reference written by a person are all just texts: the question is always about the
*target*, compared with the *reference*. Protocols (arXiv:2509.05440 Tables 13-18, arXiv:2307.07889 section 3):

    compare            Better / Worse / Similar, about the target
    yes_no             "does the target read better?"  Yes = better, No = worse
    yes_no_two_sided   the same, and "does it read worse?": worse is the Yes of the second question
    choose             A / B: which text is better; the reference is shown first, as A
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Literal, NamedTuple

import numpy as np

from .._version import __version__
from ..engine import (
    Answer,
    Answers,
    Engine,
    LabelLogProbs,
    Progress,
    Prompt,
    Question,
    ask_engine,
    capabilities_of,
    stacked,
)
from ..errors import EngineError, Postponed, unusable
from ..signature import Signature
from ..types import BoolArray, Context, FloatArray, IntArray, Task, Usage
from .failures import bounded, unanswered, why_contradictory, why_unreported
from .rewards import Rewards
from .templates import Templates

ProtocolName = Literal["compare", "yes_no", "yes_no_two_sided", "choose"]

PROTOCOLS: Mapping[ProtocolName, tuple[str, ...]] = {
    "compare": ("Better", "Worse", "Similar"),
    "yes_no": ("Yes", "No"),
    "yes_no_two_sided": ("Yes", "No"),
    "choose": ("A", "B"),
}
"""Protocol -> the labels that the judge is asked for, of a task in English."""


def labels_of(protocol: ProtocolName, task: Task) -> tuple[str, ...]:
    """The labels that the judge is asked for, in the order of PROTOCOLS and the words of the task."""
    if protocol == "choose":
        return PROTOCOLS[protocol]
    return tuple(task.labels if protocol == "compare" else task.yes_no)


OrdersMean = Literal["log-odds", "probabilities"]
"""What the mean of both orders is taken of (`both_in_one`): the same for a whole run, whose signature says it."""

TURNED = [1, 0, 2]  # a verdict about the reference -> the verdict about the target
_NOT_ASKED = EngineError("not asked")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts for one context; the question is about the target."""

    context: Context
    attribute: str
    target: str
    reference: str


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """The judge's verdict on each pair's target: probabilities over its labels, NaN where there is no answer.

    better, worse, similar : float64, shape (n_pairs,), sum to 1, of both orders `both_in_one`; similar is 0 for
        protocols without that label (yes_no_two_sided: two answers, which need not sum to 1, and of which both are
        needed). A label that a server did not report counts as the most that it can be.
    margin_low, margin_high : float64, shape (n_pairs,): the least and the greatest that better - worse can be, whatever
        was not reported (`margin_limits`); both are better - worse where all was. Also of answers that do not count
        because too much is missing; -1 and 1 where nothing is known.
    label_mass : float64, shape (n_pairs,): the least over the questions asked about the pair
    by_order : float64, shape (n_orders, n_pairs, 3): better, worse, similar in each order; the second, where
        it was asked for, has the reference where the target was
    unreported : float64, shape (n_orders, n_pairs): the most by which a probability in `by_order` can be off for labels
        that a server did not report; 0 where all were, NaN where there is no answer
    n_samples : float64, shape (n_orders, n_pairs): the answers in words that each order's verdict rests on, of two
        questions the fewer; inf where probabilities are exact, NaN where there is no answer
    failures : pair index -> reason
    answers : what the engine answered; one row a question, all first questions in pair order, then all second ones
    asked : bool, shape (n_orders, n_pairs). What was not asked has no failure, and is NaN
    """

    better: FloatArray
    worse: FloatArray
    similar: FloatArray
    by_order: FloatArray
    margin_low: FloatArray
    margin_high: FloatArray
    label_mass: FloatArray
    unreported: FloatArray
    n_samples: FloatArray
    answers: LabelLogProbs
    signature: Signature
    failures: Mapping[int, str]
    asked: BoolArray

    def __len__(self) -> int:
        return len(self.better)

    @property
    def protocol(self) -> str:
        """One of PROTOCOLS."""
        return dict(self.signature.parts)["protocol"]


@dataclass(frozen=True)
class Asking:
    """How a judge is asked about pairs of texts, and what counts as an answer. Checked when made: InputError."""

    protocol: ProtocolName = "compare"
    """compare: better, worse or similar; yes_no: better or not; yes_no_two_sided: and worse or not; choose: which"""

    both_orders: bool | None = None
    """ask about every pair in both orders, and take their mean: twice the questions, no position bias (default: in one
    order; of a judge that answers in words in both)"""

    prompts: str = "default"
    """template set: default, paper, or a folder with templates of your own"""

    min_mass: float = 0.01
    """least probability, 0 to 1, that the labels have together for an answer to count"""

    max_unreported: float = 0.02
    """the most by which labels that a server did not report may move p(better) - p(worse), to either side of the
    middle, for a verdict to count"""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise unusable("protocol", self.protocol, f"one of {', '.join(PROTOCOLS)}")
        if self.both_orders is not None and not isinstance(self.both_orders, bool):
            raise unusable("both_orders", self.both_orders, "True, False or None")
        for name in ("min_mass", "max_unreported"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
                raise unusable(name, value, "a number from 0 to 1")

    @property
    def template(self) -> str:
        """The name of the prompt."""
        return "yes_no" if self.protocol == "yes_no_two_sided" else self.protocol

    @property
    def n_orders(self) -> int:
        return 2 if self.both_orders else 1

    def for_judge(self, engine: Engine) -> Asking:
        """With both_orders decided where it was left open: with answers in words, the other order says more than a
        second answer in the same order."""
        if self.both_orders is not None:
            return self
        return replace(self, both_orders=capabilities_of(engine).answers == "words")

    @property
    def n_sides(self) -> int:
        """Questions about a pair in one order."""
        return 2 if self.protocol == "yes_no_two_sided" else 1

    @property
    def n_questions(self) -> int:
        """Questions about a pair."""
        return self.n_orders * self.n_sides

    def signature(
        self, engine: Engine, templates: Templates, *, on_ladders: bool = False, **parts: Hashable
    ) -> Signature:
        """All that verdicts depend on, and further parts. on_ladders : as of `ask`"""
        self = self.for_judge(engine)
        tau = ""
        if capabilities_of(engine).gives_rewards:
            tau = "rungs" if on_ladders else "1"
        orders = f"2,{mean_of_orders(engine)}" if self.both_orders else "1"
        return _sign(self, engine.signature, tau, orders, templates, **parts)


def mean_of_orders(engine: Engine) -> OrdersMean:
    """What is averaged over both orders: log-odds, or probabilities where answers are choices or words."""
    return "log-odds" if capabilities_of(engine).answers == "probabilities" else "probabilities"


@lru_cache(64)  # of each batch of rows, and of each text that is asked for by itself, it is the same
def _sign(
    asking: Asking, judge: Signature, tau: str, orders: str, templates: Templates, **parts: Hashable
) -> Signature:
    """tau : how rewards become preferences (rewards.py); "" for judges that are asked for labels"""
    template = "likelihood" if tau else asking.template
    if tau:
        parts = {"tau": tau, **parts}
    return Signature.of(synthscore=__version__, **dict(judge.parts)).with_(
        **templates.signature_parts(template),
        protocol=asking.protocol,
        labels=",".join(labels_of(asking.protocol, templates.task)),
        orders=orders,
        **parts,
    )


def ask(
    pairs: Sequence[Pair],
    engine: Engine,
    templates: Templates,
    asking: Asking = Asking(),
    progress: Progress | None = None,
    *,
    on_ladders: bool = False,
) -> Verdicts:
    """Ask the judge about every pair.

    templates : the prompts; of another set than asking.prompts if the caller wants
    on_ladders : each reference is a rung, and all of one context and attribute are a ladder: a reward model's scale
    raises : TemplateError, TaskError, LabelError. A prompt that is too long fails its pair alone.
    """
    inquiry = Inquiry(pairs, engine, templates, asking, on_ladders=on_ladders)
    inquiry.ask_all(progress)
    return inquiry.verdicts()


class Inquiry:
    """Pairs that are asked about in several calls: each question once, some of them perhaps never.

    on_ladders : as of `ask`
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        engine: Engine,
        templates: Templates,
        asking: Asking = Asking(),
        *,
        on_ladders: bool = False,
    ) -> None:
        self.pairs = pairs
        self.engine = engine
        self.templates = templates
        asking = self.asking = asking.for_judge(engine)
        self._on_ladders = on_ladders
        self._rewards: Rewards | None = None
        if capabilities_of(engine).gives_rewards:
            reply_to = cache(templates.reply_to)
            places = [(reply_to(pair.context, pair.attribute), pair.target, pair.reference) for pair in pairs]
            self._rewards = Rewards(places, engine, on_ladders=on_ladders)
        else:
            templates.require_texts(asking.template)
        self._answers: list[Answer] = [_NOT_ASKED] * (asking.n_questions * len(pairs))  # rows as of Verdicts.answers
        self._usage = Usage()

    @property
    def signature(self) -> Signature:
        return self.asking.signature(self.engine, self.templates, on_ladders=self._on_ladders)

    @property
    def n_asked(self) -> int:
        """Questions so far."""
        return int(self._asked.sum())

    @property
    def _asked(self) -> BoolArray:
        return np.array([answer is not _NOT_ASKED for answer in self._answers], dtype=bool)

    def postponed(self, pair: IntArray) -> BoolArray:
        """Whether an answer about any of these pairs will come later, shape (n,)."""
        rows = range(0, len(self._answers), len(self.pairs))
        late = [any(isinstance(self._answers[row + index], Postponed) for row in rows) for index in pair.tolist()]
        return np.array(late, dtype=bool)

    def ask_all(self, progress: Progress | None = None) -> None:
        """Ask every question about every pair. The orders of a pair follow each other, because they share a context."""
        n_orders = self.asking.n_orders
        n_pairs = len(self.pairs)
        self._ask(np.repeat(np.arange(n_pairs), n_orders), np.tile([False, True][:n_orders], n_pairs), progress)

    def ask(self, pair: IntArray, swapped: BoolArray, progress: Progress | None = None) -> FloatArray:
        """The verdicts on these pairs' targets: better, worse, similar, shape (n, 3); NaN where there is no answer.

        pair : indices in `pairs`. swapped : bool, shape (n,): ask about the reference instead
        raises : as `ask`
        """
        verdicts: FloatArray = self._read(self._ask(pair, swapped, progress), swapped[None]).by_order[0]
        return verdicts

    def _ask(self, pair: IntArray, swapped: BoolArray, progress: Progress | None) -> Answers:
        """Asks all first questions about these pairs, then all second ones, and keeps the answers."""
        protocol = self.asking.protocol
        n_sides = self.asking.n_sides
        labels = labels_of(protocol, self.templates.task)
        asked = list(zip(pair.tolist(), swapped.tolist(), strict=True))
        questions = [(index, is_swapped, bool(side)) for side in range(n_sides) for index, is_swapped in asked]
        if self._rewards:
            first = protocol == "choose"  # whose first label is the text that is not asked about
            signs = [(index, is_swapped ^ worse ^ first) for index, is_swapped, worse in questions]
            answers = self._rewards.answer(len(labels), signs, progress)
        else:
            prompts = [
                prompt_of(self.pairs[index], self.templates, protocol, swapped=is_swapped, worse=worse)
                for index, is_swapped, worse in questions
            ]
            answers = ask_engine(self.engine, [Question(prompt, labels) for prompt in prompts], progress)
        for (index, is_swapped, worse), answer in zip(questions, answers.rows, strict=True):
            self._answers[(is_swapped * n_sides + worse) * len(self.pairs) + index] = answer
        self._usage += answers.usage
        return answers

    def _read(self, answers: Answers, swapped: BoolArray) -> _Reading:
        """swapped : bool, shape (n_orders, n_pairs): where the question was about the reference"""
        asking = self.asking
        labels = labels_of(asking.protocol, self.templates.task)
        columns = stacked(labels, answers, capabilities_of(self.engine).reports_mass)
        n_orders, n_pairs = swapped.shape
        shape = (n_orders * asking.n_sides, n_pairs, len(labels))
        below_mass = np.exp(columns.log_probs).sum(axis=1) < asking.min_mass
        least_and_most = np.where(below_mass[:, None], np.nan, [columns.least, columns.log_probs])
        least, most = (read_labels(asking.protocol, end.reshape(shape), absent=-np.inf) for end in least_and_most)
        low, high = margin_limits(least, most)
        half_width = np.swapaxes(high - low, 0, 1).ravel() / 2  # of each question, in the order of its answers
        failures = unanswered(columns, asking.min_mass, asking.max_unreported, half_width)
        probs = columns.probs
        probs[list(failures)] = np.nan
        shares = read_labels(asking.protocol, probs.reshape(shape), absent=0.0)
        least, most, shares = (_about_target(questions, swapped) for questions in (least, most, shares))
        return _Reading(columns, _verdicts_of(shares), least, most, failures)

    def verdicts(self) -> Verdicts:
        """The verdicts on all that was asked."""
        asking, n_pairs, asked = self.asking, len(self.pairs), self._asked
        swapped = np.repeat([[False], [True]][: asking.n_orders], n_pairs, axis=1)
        read = self._read(Answers(self._answers, self._usage), swapped)
        reasons = {row % n_pairs: why for row, why in sorted(read.failures.items(), reverse=True) if asked[row]}
        mean = mean_of_orders(self.engine)
        verdict = both_in_one(read.by_order, asking.protocol, mean)  # NaN where one order has no answer
        limits = read.margin_limits(verdict[:, 0] - verdict[:, 1], mean)
        uncombined = read.why_not_combined(verdict, limits, asking.max_unreported)
        verdict[list(uncombined)] = np.nan
        better, worse, similar = verdict.T
        low, high = limits
        by_question = (asking.n_orders, asking.n_sides, n_pairs)
        unreported = read.answers.unreported.reshape(by_question).max(axis=1)
        n_samples = read.answers.n_samples
        if n_samples is None:
            n_samples = np.full(len(read.answers), np.inf)
        n_samples = n_samples.reshape(by_question).min(axis=1)
        return Verdicts(
            better=better,
            worse=worse,
            similar=similar,
            margin_low=np.where(np.isnan(low), -1.0, low),
            margin_high=np.where(np.isnan(high), 1.0, high),
            by_order=read.by_order,
            label_mass=read.answers.label_mass.reshape(by_question).min(axis=(0, 1)),
            unreported=np.where(np.isnan(read.by_order[..., 0]), np.nan, unreported),
            n_samples=np.where(np.isnan(read.by_order[..., 0]), np.nan, n_samples),
            answers=read.answers,
            signature=self.signature,
            failures=reasons | uncombined,
            asked=asked.reshape(by_question)[:, 0],
        )


class _Reading(NamedTuple):
    """The answers, turned so that they are about the targets of pairs.

    by_order : as Verdicts.by_order. failures : row of answers -> why it does not count
    least, most : shape (n_sides, n_orders, n_pairs, 3): the least and the most that the log-probabilities of better,
        worse and similar can be, by each question; NaN where there is no answer
    """

    answers: LabelLogProbs
    by_order: FloatArray
    least: FloatArray
    most: FloatArray
    failures: Mapping[int, str]

    def margin_limits(self, margin: FloatArray, mean: OrdersMean) -> FloatArray:
        """The least and the greatest that better - worse of all orders together can be, shape (2, n_pairs): `margin`
        where all was reported, NaN where nothing is known.

        margin : better - worse, shape (n_pairs,), with what was not reported at its most
        """
        least, most = self.least, self.most
        if mean == "log-odds":
            least, most = (end.mean(axis=1, keepdims=True) for end in (least, most))
        low, high = margin_limits(least, most).mean(axis=(1, 2))  # over questions, and over orders that are not yet one
        incomplete = (self.least < self.most).any(axis=(0, 1, 3))
        return np.where(incomplete, [np.fmin(low, margin), np.fmax(high, margin)], margin)

    def why_not_combined(self, verdict: FloatArray, limits: FloatArray, max_unreported: float) -> dict[int, str]:
        """Pair -> why it has no verdict although each of its two orders has an answer that counts."""
        n_pairs = len(verdict)
        half_width = (limits[1] - limits[0]) / 2
        answered = ~np.isnan(self.by_order).any(axis=(0, 2))
        contradictory = np.flatnonzero(answered & np.isnan(verdict).any(axis=1)).tolist()
        reasons = {pair: why_contradictory(self.by_order[:, pair]) for pair in contradictory}
        for pair in np.flatnonzero(answered & (half_width > max_unreported)).tolist():
            rows = range(pair, len(self.answers), n_pairs)
            orders = np.repeat(["first", "second"], len(self.least)).tolist()
            unreported = [(bounded(self.answers, row), order) for row, order in zip(rows, orders, strict=True)]
            missing = " and ".join(f"{labels} in the {order} order" for labels, order in unreported if labels)
            reasons[pair] = why_unreported(missing, half_width[pair], max_unreported)
        return reasons


def prompt_of(
    pair: Pair, templates: Templates, protocol: ProtocolName, *, swapped: bool = False, worse: bool = False
) -> Prompt:
    """The prompt about a pair. swapped : it is about the reference; worse : it asks whether that is worse (yes_no)"""
    attribute = templates.task.attribute(pair.attribute)
    target, reference = (pair.reference, pair.target) if swapped else (pair.target, pair.reference)
    if protocol == "choose":
        return templates.choose(pair.context, attribute, first=reference, second=target)
    if protocol == "compare":
        return templates.compare(pair.context, attribute, target=target, reference=reference)
    return templates.yes_no(pair.context, attribute, target=target, reference=reference, worse=worse)


def read_labels(protocol: ProtocolName, values: FloatArray, *, absent: float) -> FloatArray:
    """Numbers of labels -> the same numbers of better, worse and similar, of the text that each question was about.

    values : shape (n_orders * n_sides, n_pairs, n_labels), the sides of an order one after the other
    absent : the number of similar, where no label stands for it
    returns : shape (n_sides, n_orders, n_pairs, 3)
    """
    if protocol == "compare":
        return values[None]
    similar = np.full(values.shape[:-1], absent)
    better, worse = values[..., 0], values[..., 1]  # yes_no: Yes is better
    if protocol == "choose":  # the text in question is shown second
        better, worse = worse, better
    questions = np.stack([better, worse, similar], axis=-1)
    if protocol == "yes_no_two_sided":  # of the second question, Yes is worse
        return np.stack([questions[0::2], questions[1::2][..., TURNED]])
    return questions[None]


def _about_target(questions: FloatArray, swapped: BoolArray) -> FloatArray:
    """The numbers of `read_labels`, turned where the question was about the reference: that the reference is better
    means that the target is worse."""
    turned: FloatArray = np.where(swapped[..., None], questions[::-1, ..., TURNED], questions)
    return turned


def _verdicts_of(questions: FloatArray) -> FloatArray:
    """Better, worse and similar by each question, shape (n_sides, ..., 3) -> those of a pair, shape (..., 3); NaN where
    an answer is missing."""
    verdicts = np.array(questions[0])
    if len(questions) == 2:
        verdicts[..., 1:] = questions[1, ..., 1:]
    verdicts[np.isnan(verdicts).any(axis=-1)] = np.nan
    return verdicts


def both_in_one(by_order: FloatArray, protocol: ProtocolName, mean: OrdersMean) -> FloatArray:
    """The verdict of both orders together: the mean of their log-probabilities, normalised over the labels.

        p(l) = sqrt(p_0(l) p_1(l)) / sum_m sqrt(p_0(m) p_1(m))

    A position bias that adds a constant to a label's log-odds cancels, whatever its size. NaN where no label is
    possible in both orders. By "probabilities" the mean of these, for choices, which are 1 and 0.
    by_order : float64, shape (n_orders, ..., 3), as of Verdicts. returns : shape (..., 3)
    """
    if len(by_order) == 1 or mean == "probabilities":
        averaged: FloatArray = by_order.mean(axis=0)
        return averaged
    if protocol == "yes_no_two_sided":
        together = _log_mean(np.stack([by_order, 1 - by_order], axis=-1))[..., 0]
        together[np.isnan(together).any(axis=-1)] = np.nan
        return together
    return _log_mean(by_order)


def _log_mean(probs: FloatArray) -> FloatArray:
    """Of both orders; shape (2, ..., n_labels) -> (..., n_labels)."""
    with np.errstate(divide="ignore"):
        logs = np.log(probs).mean(axis=0)
    top = logs.max(axis=-1, keepdims=True)
    weights = np.exp(logs - np.where(np.isneginf(top), np.nan, top))
    mean: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return mean


def margin_limits(least: FloatArray, most: FloatArray) -> FloatArray:
    """The least and the greatest that p(better) - p(worse) can be, where each log-probability is between two ends.

        p(better) - p(worse) = (b - w) / (b + w + s),      rising in b, falling in w, and s draws it towards 0

    So the greatest is at the most of better and the least of worse, with the least of similar where that is above 0 and
    the most of it elsewhere. Exact: each limit is reached, or approached where a label may be arbitrarily improbable.

    least, most : shape (..., 3), nats: better, worse, similar, all on one scale
    returns : shape (2, ...): the least and the greatest; NaN where no label is possible. Of yes_no_two_sided, for each
        of its questions, whose mean is p(better) - p(worse)
    """
    return np.stack([-_greatest_margin(least[..., TURNED], most[..., TURNED]), _greatest_margin(least, most)])


def _greatest_margin(least: FloatArray, most: FloatArray) -> FloatArray:
    better, worse = most[..., 0], least[..., 1]
    corner = np.stack([better, worse, np.where(better > worse, least[..., 2], most[..., 2])], axis=-1)
    top = corner.max(axis=-1, keepdims=True)
    weights = np.exp(corner - np.where(np.isneginf(top), np.nan, top))
    greatest: FloatArray = (weights[..., 0] - weights[..., 1]) / weights.sum(axis=-1)
    only_worse = np.isneginf(top[..., 0]) & (most[..., 1] > -np.inf)  # however improbable, it is all that there is
    return np.where(only_worse, -1.0, greatest)
