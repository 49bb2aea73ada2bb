"""Pairs of texts + engine + how it is asked -> Verdicts. The one place that asks a judge about pairs.

A verdict is the probability that a *target* is better than, worse than or similar to a *reference*; a rung, a real
candidate and a text written by a person are all just texts here. Protocols (arXiv:2509.05440 Tables 13-18,
arXiv:2307.07889 section 3):

    compare            Better / Worse / Similar, about the target
    yes_no             "does the target read better?"  Yes = better, No = worse
    yes_no_two_sided   the same, and "does it read worse?": worse is the Yes of the second question
    choose             A / B: which text is better; the reference is shown first, as A

`Inquiry` makes each pair into questions, in one order of the two texts or in both, keeps the answers, and reads them as
verdicts (labels.py).
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
from .labels import (
    OrdersMean,
    about_target,
    both_in_one,
    bounded,
    combine_sides,
    margin_limits,
    read_labels,
    unanswered,
    why_contradictory,
    why_unreported,
)
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
    if protocol == "compare":
        return tuple(task.labels)
    return tuple(task.yes_no)


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
    failures : pair index -> why it has no verdict
    answers : what the engine answered, one row a question. A question is about a pair, in an order (1: the two texts
        exchanged), on a side (0: is the target better; 1, of yes_no_two_sided: is it worse):

            row = (order * n_sides + side) * n_pairs + pair

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
        """The name of the prompt template."""
        return "yes_no" if self.protocol == "yes_no_two_sided" else self.protocol

    @property
    def n_orders(self) -> int:
        return 2 if self.both_orders else 1

    def for_judge(self, engine: Engine) -> Asking:
        """With both_orders decided where it was left open: with answers in words, the other order says more than a
        second answer in the same order."""
        if self.both_orders is not None:
            return self
        in_words = capabilities_of(engine).answers == "words"
        return replace(self, both_orders=in_words)

    @property
    def n_sides(self) -> int:
        """Questions about a pair in one order: is the target better and, of yes_no_two_sided, is it worse."""
        return 2 if self.protocol == "yes_no_two_sided" else 1

    @property
    def n_questions(self) -> int:
        """Questions about a pair, in all orders and on all sides."""
        return self.n_orders * self.n_sides

    def signature(
        self, engine: Engine, templates: Templates, *, on_ladders: bool = False, **parts: Hashable
    ) -> Signature:
        """The name of all that verdicts depend on.

        on_ladders : as of `ask`
        parts : further parts, in their order
        """
        asking = self.for_judge(engine)
        reward_scale = ""
        if capabilities_of(engine).gives_rewards:
            reward_scale = "rungs" if on_ladders else "1"
        orders = "1"
        if asking.both_orders:
            orders = f"2,{mean_of_orders(engine)}"
        return _sign(asking, engine.signature, reward_scale, orders, templates, **parts)


def mean_of_orders(engine: Engine) -> OrdersMean:
    """What is averaged over both orders: log-odds, or probabilities where answers are choices or words."""
    if capabilities_of(engine).answers == "probabilities":
        return "log-odds"
    return "probabilities"


@lru_cache(64)  # A run asks for the same signature once a batch of rows, or once a text.
def _sign(
    asking: Asking, judge: Signature, reward_scale: str, orders: str, templates: Templates, **parts: Hashable
) -> Signature:
    """The signature, of values that can be looked up in a cache.

    reward_scale : by what differences of rewards are divided to become log-odds (tau in rewards.py); "" for judges that
        are asked for labels
    orders : how many, and what is averaged over two
    """
    template = "likelihood" if reward_scale else asking.template
    if reward_scale:
        parts = {"tau": reward_scale, **parts}
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
        self.asking = asking.for_judge(engine)
        self._on_ladders = on_ladders
        self._rewards: Rewards | None = None
        if capabilities_of(engine).gives_rewards:
            reply_to = cache(templates.reply_to)
            places = [(reply_to(pair.context, pair.attribute), pair.target, pair.reference) for pair in pairs]
            self._rewards = Rewards(places, engine, on_ladders=on_ladders)
        else:
            templates.require_texts(self.asking.template)
        n_questions = self.asking.n_questions * len(pairs)
        self._answers: list[Answer] = [_NOT_ASKED] * n_questions  # rows as of Verdicts.answers
        self._usage = Usage()

    @property
    def signature(self) -> Signature:
        return self.asking.signature(self.engine, self.templates, on_ladders=self._on_ladders)

    @property
    def n_asked(self) -> int:
        """Questions asked so far."""
        return int(self._asked.sum())

    @property
    def _asked(self) -> BoolArray:
        """Whether each question was asked, shape (n_questions,); rows as of Verdicts.answers."""
        return np.array([answer is not _NOT_ASKED for answer in self._answers], dtype=bool)

    def postponed(self, pair: IntArray) -> BoolArray:
        """Whether an answer about each of these pairs is still to come, as from a batch at a provider; shape (n,).

        pair : indices in `pairs`, shape (n,)
        """
        n_pairs = len(self.pairs)
        late = []
        for index in pair.tolist():
            answers = self._answers[index::n_pairs]  # to all questions about the pair
            late.append(any(isinstance(answer, Postponed) for answer in answers))
        return np.array(late, dtype=bool)

    def ask_all(self, progress: Progress | None = None) -> None:
        """Ask every question about every pair. The orders of a pair follow each other, because they share a context."""
        orders = [False, True][: self.asking.n_orders]
        n_pairs = len(self.pairs)
        pair = np.repeat(np.arange(n_pairs), len(orders))
        swapped = np.tile(orders, n_pairs)
        self._ask(pair, swapped, progress)

    def ask(self, pair: IntArray, swapped: BoolArray, progress: Progress | None = None) -> FloatArray:
        """The verdicts on these pairs' targets: better, worse, similar, shape (n, 3); NaN where there is no answer.

        pair : indices in `pairs`, shape (n,)
        swapped : bool, shape (n,): ask whether the reference is better. The answer is turned round: the verdict is on
            the target all the same
        raises : as `ask`
        """
        answers = self._ask(pair, swapped, progress)
        verdicts: FloatArray = self._read(answers, swapped[None]).by_order[0]
        return verdicts

    def _ask(self, pair: IntArray, swapped: BoolArray, progress: Progress | None) -> Answers:
        """Ask about these pairs, each in one order: all on side 0, then all on side 1 if there is one.

        returns : the answers, which are also kept, in the order in which they were asked
        """
        protocol = self.asking.protocol
        n_sides = self.asking.n_sides
        labels = labels_of(protocol, self.templates.task)
        asked = list(zip(pair.tolist(), swapped.tolist(), strict=True))
        # Side 1 asks what is worse.
        questions = [(index, is_swapped, bool(side)) for side in range(n_sides) for index, is_swapped in asked]
        if self._rewards:
            # The first label stands for the target's lead, unless the question is about the reference, asks what is
            # worse, or names the reference first (choose). Two of these together cancel.
            reference_first = protocol == "choose"
            turned = [(index, is_swapped ^ worse ^ reference_first) for index, is_swapped, worse in questions]
            answers = self._rewards.answer(len(labels), turned, progress)
        else:
            asked_for = []
            for index, is_swapped, worse in questions:
                prompt = prompt_of(self.pairs[index], self.templates, protocol, swapped=is_swapped, worse=worse)
                asked_for.append(Question(prompt, labels))
            answers = ask_engine(self.engine, asked_for, progress)
        for (index, is_swapped, worse), answer in zip(questions, answers.rows, strict=True):
            row = (is_swapped * n_sides + worse) * len(self.pairs) + index  # as of Verdicts.answers
            self._answers[row] = answer
        self._usage += answers.usage
        return answers

    def _read(self, answers: Answers, swapped: BoolArray) -> _Reading:
        """What the answers say of the targets, without those that do not count.

        answers : one a question, in the order of Verdicts.answers
        swapped : bool, shape (n_orders, n_pairs): where the question was about the reference
        """
        protocol = self.asking.protocol
        min_mass = self.asking.min_mass
        labels = labels_of(protocol, self.templates.task)
        columns = stacked(labels, answers, capabilities_of(self.engine).reports_mass)
        n_orders, n_pairs = swapped.shape
        shape = (n_orders * self.asking.n_sides, n_pairs, len(labels))

        too_little = np.exp(columns.log_probs).sum(axis=1) < min_mass
        least_log_probs = np.where(too_little[:, None], np.nan, columns.least)
        most_log_probs = np.where(too_little[:, None], np.nan, columns.log_probs)
        least = read_labels(protocol, least_log_probs.reshape(shape), absent=-np.inf)
        most = read_labels(protocol, most_log_probs.reshape(shape), absent=-np.inf)
        low, high = margin_limits(least, most)
        half_width = (high - low) / 2
        half_width_of_rows = np.swapaxes(half_width, 0, 1).ravel()  # from (side, order, pair) to the order of rows

        failures = unanswered(columns, min_mass, self.asking.max_unreported, half_width_of_rows)
        probs = columns.probs
        probs[list(failures)] = np.nan
        shares = read_labels(protocol, probs.reshape(shape), absent=0.0)
        return _Reading(
            answers=columns,
            by_order=combine_sides(about_target(shares, swapped)),
            least=about_target(least, swapped),
            most=about_target(most, swapped),
            failures=failures,
        )

    def verdicts(self) -> Verdicts:
        """The verdicts on all that was asked."""
        asking = self.asking
        n_pairs = len(self.pairs)
        asked = self._asked
        orders = [False, True][: asking.n_orders]
        swapped = np.repeat(np.array(orders)[:, None], n_pairs, axis=1)
        reading = self._read(Answers(self._answers, self._usage), swapped)
        by_order = reading.by_order
        unanswered_orders = np.isnan(by_order[..., 0])

        mean = mean_of_orders(self.engine)
        verdict = both_in_one(by_order, asking.protocol, mean)  # NaN where one order has no answer
        limits = reading.limit_margins(verdict[:, 0] - verdict[:, 1], mean)
        uncombined = reading.why_not_combined(verdict, limits, asking.max_unreported)
        verdict[list(uncombined)] = np.nan
        better, worse, similar = verdict.T
        low, high = limits

        failures: dict[int, str] = {}
        for row in sorted(reading.failures):  # Of several failures about a pair, the first is its reason.
            if asked[row]:
                failures.setdefault(row % n_pairs, reading.failures[row])

        by_question = (asking.n_orders, asking.n_sides, n_pairs)
        unreported = reading.answers.unreported.reshape(by_question).max(axis=1)
        n_samples = reading.answers.n_samples
        if n_samples is None:
            n_samples = np.full(len(reading.answers), np.inf)
        n_samples = n_samples.reshape(by_question).min(axis=1)
        return Verdicts(
            better=better,
            worse=worse,
            similar=similar,
            margin_low=np.where(np.isnan(low), -1.0, low),
            margin_high=np.where(np.isnan(high), 1.0, high),
            by_order=by_order,
            label_mass=reading.answers.label_mass.reshape(by_question).min(axis=(0, 1)),
            unreported=np.where(unanswered_orders, np.nan, unreported),
            n_samples=np.where(unanswered_orders, np.nan, n_samples),
            answers=reading.answers,
            signature=self.signature,
            failures=failures | uncombined,
            asked=asked.reshape(by_question)[:, 0],
        )


class _Reading(NamedTuple):
    """The answers, turned so that they are about the targets of pairs.

    answers : as Verdicts.answers, not turned
    by_order : as Verdicts.by_order
    least, most : shape (n_sides, n_orders, n_pairs, 3): the least and the most that the log-probabilities of better,
        worse and similar can be, by each question; NaN where there is no answer
    failures : row of answers -> why it does not count
    """

    answers: LabelLogProbs
    by_order: FloatArray
    least: FloatArray
    most: FloatArray
    failures: Mapping[int, str]

    def limit_margins(self, margin: FloatArray, mean: OrdersMean) -> FloatArray:
        """The least and the greatest that better - worse of all orders together can be, shape (2, n_pairs): `margin`
        where all was reported, NaN where nothing is known.

        margin : better - worse, shape (n_pairs,), with what was not reported at its most
        mean : what is averaged over the orders, as `mean_of_orders` says
        """
        least = self.least
        most = self.most
        if mean == "log-odds":
            least = least.mean(axis=1, keepdims=True)
            most = most.mean(axis=1, keepdims=True)
        # Over sides and orders. Log-odds of the orders were averaged above, which left an axis of length 1; of
        # probabilities, it is the margins that are averaged over both.
        low, high = margin_limits(least, most).mean(axis=(1, 2))
        widest = [np.fmin(low, margin), np.fmax(high, margin)]
        incomplete = (self.least < self.most).any(axis=(0, 1, 3))
        return np.where(incomplete, widest, margin)

    def why_not_combined(self, verdict: FloatArray, limits: FloatArray, max_unreported: float) -> dict[int, str]:
        """Pair -> why it has no verdict although each of its orders has an answer that counts.

        verdict : of all orders together, shape (n_pairs, 3)
        limits : of `limit_margins`
        """
        low, high = limits
        half_width = (high - low) / 2
        answered = ~np.isnan(self.by_order).any(axis=(0, 2))
        contradictory = answered & np.isnan(verdict).any(axis=1)
        reasons = {pair: why_contradictory(self.by_order[:, pair]) for pair in np.flatnonzero(contradictory).tolist()}
        for pair in np.flatnonzero(answered & (half_width > max_unreported)).tolist():
            missing = self._missing_labels(pair, n_pairs=len(verdict))
            reasons[pair] = why_unreported(missing, half_width[pair], max_unreported)
        return reasons

    def _missing_labels(self, pair: int, n_pairs: int) -> str:
        """Which labels were not reported in which order, in words."""
        n_sides = len(self.least)
        rows = range(pair, len(self.answers), n_pairs)
        orders = np.repeat(["first", "second"], n_sides).tolist()
        missing = []
        for row, order in zip(rows, orders, strict=True):
            if labels := bounded(self.answers, row):
                missing.append(f"{labels} in the {order} order")
        return " and ".join(missing)


def prompt_of(
    pair: Pair, templates: Templates, protocol: ProtocolName, *, swapped: bool = False, worse: bool = False
) -> Prompt:
    """The prompt about a pair.

    swapped : the two texts exchanged, so that it asks about the reference
    worse : of yes_no, it asks whether the text that it is about is worse
    """
    attribute = templates.task.attribute(pair.attribute)
    target = pair.target
    reference = pair.reference
    if swapped:
        target, reference = reference, target
    if protocol == "choose":
        return templates.choose(pair.context, attribute, first=reference, second=target)
    if protocol == "compare":
        return templates.compare(pair.context, attribute, target=target, reference=reference)
    return templates.yes_no(pair.context, attribute, target=target, reference=reference, worse=worse)
