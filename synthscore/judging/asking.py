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
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

import numpy as np

from .._version import __version__
from ..engine import Answer, Answers, Engine, LabelLogProbs, Progress, Prompt, Question, capabilities_of, stacked
from ..errors import EngineError, unusable
from ..signature import Signature
from ..types import BoolArray, Context, FloatArray, IntArray
from .rewards import Rewards
from .templates import Templates

ProtocolName = Literal["compare", "yes_no", "yes_no_two_sided", "choose"]

PROTOCOLS: Mapping[ProtocolName, tuple[str, ...]] = {
    "compare": ("Better", "Worse", "Similar"),
    "yes_no": ("Yes", "No"),
    "yes_no_two_sided": ("Yes", "No"),
    "choose": ("A", "B"),
}
"""Protocol -> the labels that the judge is asked for."""

TURNED = [1, 0, 2]  # a verdict about the reference -> the verdict about the target
_NOT_ASKED = EngineError("not asked")
LOG_ODDS = "log-odds"
"""What a signature says of both orders: how they are made one (`both_in_one`)."""


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
        needed)
    label_mass : float64, shape (n_pairs,): the least over the questions asked about the pair
    by_order : float64, shape (n_orders, n_pairs, 3): better, worse, similar in each order; the second, where
        it was asked for, has the reference where the target was
    unreported : float64, shape (n_pairs,): for labels that a server did not report, better - worse can be off by at
        most twice this; where it is not 0, both orders are averaged in probability, and it is the mean of
        LabelLogProbs.unreported over the questions asked about the pair
    failures : pair index -> reason
    answers : what the engine answered; one row a question, all first questions in pair order, then all second ones
    asked : bool, shape (n_orders, n_pairs). What was not asked has no failure, and is NaN
    """

    better: FloatArray
    worse: FloatArray
    similar: FloatArray
    by_order: FloatArray
    label_mass: FloatArray
    unreported: FloatArray
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

    both_orders: bool = False
    """ask about every pair in both orders, and take the mean in log-odds: twice the questions, no position bias"""

    prompts: str = "default"
    """template set: default, paper, or a folder with templates of your own"""

    min_mass: float = 0.01
    """least probability, 0 to 1, that the labels have together for an answer to count"""

    max_unreported: float = 0.02
    """the most by which labels that a server did not report may change a probability for an answer to count"""

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise unusable("protocol", self.protocol, f"one of {', '.join(PROTOCOLS)}")
        if not isinstance(self.both_orders, bool):
            raise unusable("both_orders", self.both_orders, "True or False")
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

    @property
    def n_sides(self) -> int:
        """Questions about a pair in one order."""
        return 2 if self.protocol == "yes_no_two_sided" else 1

    @property
    def n_questions(self) -> int:
        """Questions about a pair."""
        return self.n_orders * self.n_sides

    def signature(self, engine: Engine, templates: Templates, **parts: Hashable) -> Signature:
        """What verdicts depend on; and further parts."""
        return _sign(self, engine.signature, capabilities_of(engine).gives_rewards, templates, **parts)


@lru_cache(64)  # of each batch of rows, and of each text that is asked for by itself, it is the same
def _sign(asking: Asking, judge: Signature, rewarded: bool, templates: Templates, **parts: Hashable) -> Signature:
    template = "likelihood" if rewarded else asking.template
    return Signature.of(synthscore=__version__, **dict(judge.parts)).with_(
        template=f"{templates.name}/{template}@{templates.hash(template)}",
        protocol=asking.protocol,
        labels=",".join(PROTOCOLS[asking.protocol]),
        orders=f"2,{LOG_ODDS}" if asking.both_orders else 1,
        **({"tau": "rungs"} if rewarded else {}),
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
        self.asking = asking
        self._rewards: Rewards | None = None
        if capabilities_of(engine).gives_rewards:
            reply_to = cache(templates.reply_to)
            places = [(reply_to(pair.context, pair.attribute), pair.target, pair.reference) for pair in pairs]
            self._rewards = Rewards(places, engine, on_ladders=on_ladders)
        else:
            templates.require_texts(asking.template)
        self._answers: list[Answer] = [_NOT_ASKED] * (asking.n_questions * len(pairs))  # rows as of Verdicts.answers
        self._tokens = np.zeros(2, dtype=np.int64)  # naive, computed

    @property
    def signature(self) -> Signature:
        return self.asking.signature(self.engine, self.templates)

    @property
    def n_asked(self) -> int:
        """Questions so far."""
        return int(self._asked.sum())

    @property
    def _asked(self) -> BoolArray:
        return np.array([answer is not _NOT_ASKED for answer in self._answers], dtype=bool)

    def ask_all(self, progress: Progress | None = None) -> None:
        """Every question about every pair, in its orders one after another: they share a context."""
        n_orders = self.asking.n_orders
        n_pairs = len(self.pairs)
        self._ask(np.repeat(np.arange(n_pairs), n_orders), np.tile([False, True][:n_orders], n_pairs), progress)

    def ask(self, pair: IntArray, swapped: BoolArray, progress: Progress | None = None) -> FloatArray:
        """The verdicts on these pairs' targets: better, worse, similar, shape (n, 3); NaN where there is no answer.

        pair : indices in `pairs`. swapped : ask about the reference instead
        raises : as `ask`
        """
        answers = self._ask(pair, swapped, progress)
        _, probs, _ = self._read(answers, self.asking.n_sides)
        verdicts = read_verdicts(self.asking.protocol, probs)[0]
        turned: FloatArray = np.where(swapped[:, None], verdicts[:, TURNED], verdicts)
        return turned

    def _ask(self, pair: IntArray, swapped: BoolArray, progress: Progress | None) -> Answers:
        """Asks all first questions about these pairs, then all second ones, and keeps the answers."""
        protocol = self.asking.protocol
        n_sides = self.asking.n_sides
        labels = PROTOCOLS[protocol]
        asked = list(zip(pair.tolist(), swapped.tolist(), strict=True))
        questions = [(index, turned, bool(side)) for side in range(n_sides) for index, turned in asked]
        if self._rewards:
            first = protocol == "choose"  # whose first label is the text that is not asked about
            signs = [(index, turned ^ worse ^ first) for index, turned, worse in questions]
            answers = self._rewards.answer(len(labels), signs, progress)
        else:
            prompts = [
                prompt_of(self.pairs[index], self.templates, protocol, swapped=turned, worse=worse)
                for index, turned, worse in questions
            ]
            answers = self.engine.answer([Question(prompt, labels) for prompt in prompts], progress)
        for (index, turned, worse), answer in zip(questions, answers.rows, strict=True):
            self._answers[(turned * n_sides + worse) * len(self.pairs) + index] = answer
        self._tokens += answers.tokens_naive, answers.tokens_computed
        return answers

    def _read(self, answers: Answers, n_series: int) -> tuple[LabelLogProbs, FloatArray, dict[int, str]]:
        """What was answered; the labels' probabilities, shape (n_series, n, n_labels), NaN where an answer does not
        count; and why it does not, by row."""
        labels = PROTOCOLS[self.asking.protocol]
        found = stacked(labels, answers, capabilities_of(self.engine).reports_mass)
        failures = unanswered(found, self.asking.min_mass, self.asking.max_unreported)
        probs = found.probs
        probs[list(failures)] = np.nan
        return found, probs.reshape(n_series, len(found) // n_series, len(labels)), failures

    def verdicts(self) -> Verdicts:
        """On all that was asked."""
        n_orders = self.asking.n_orders
        n_sides = self.asking.n_sides
        n_pairs = len(self.pairs)
        asked = self._asked
        together = Answers(self._answers, *self._tokens.tolist())
        answers, probs, failures = self._read(together, n_orders * n_sides)
        unreported = answers.unreported.reshape(probs.shape[:2])
        by_order = read_verdicts(self.asking.protocol, probs)
        by_order[1:] = by_order[1:, :, TURNED]
        verdict = both_in_one(by_order, self.asking.protocol)  # NaN where one order has no answer
        bounded = (unreported > 0).any(axis=0)  # what is not reported has no log-odds
        verdict[bounded] = by_order[:, bounded].mean(axis=0)
        known = ~np.isnan(unreported)
        n_known = np.where(known.any(axis=0), known.sum(axis=0), np.nan)
        better, worse, similar = verdict.T
        return Verdicts(
            better=better,
            worse=worse,
            similar=similar,
            by_order=by_order,
            label_mass=answers.label_mass.reshape(unreported.shape).min(axis=0),
            unreported=np.where(known, unreported, 0).sum(axis=0) / n_known,
            answers=answers,
            signature=self.signature,
            failures={row % n_pairs: reason for row, reason in sorted(failures.items(), reverse=True) if asked[row]},
            asked=asked.reshape(n_orders, n_sides, n_pairs)[:, 0],
        )


def prompt_of(
    pair: Pair, templates: Templates, protocol: ProtocolName, *, swapped: bool = False, worse: bool = False
) -> Prompt:
    """What the judge is asked about a pair. swapped : about the reference; worse : whether it is worse (yes_no)"""
    attribute = templates.task.attribute(pair.attribute)
    target, reference = (pair.reference, pair.target) if swapped else (pair.target, pair.reference)
    if protocol == "choose":
        return templates.choose(pair.context, attribute, first=reference, second=target)
    if protocol == "compare":
        return templates.compare(pair.context, attribute, target=target, reference=reference)
    return templates.yes_no(pair.context, attribute, target=target, reference=reference, worse=worse)


def read_verdicts(protocol: ProtocolName, probs: FloatArray) -> FloatArray:
    """Label probabilities -> better, worse, similar of the text that each question was about.

    probs : shape (n_orders * n_sides, n_pairs, n_labels), the sides of an order one after the other
    returns : shape (n_orders, n_pairs, 3); NaN where an answer is missing
    """
    if protocol == "compare":
        return probs
    better = probs[..., 0]
    worse = probs[..., 1]  # yes_no: Yes is better
    if protocol == "yes_no_two_sided":  # better?, then worse?
        better = probs[0::2, :, 0]
        worse = probs[1::2, :, 0]
    elif protocol == "choose":  # the target is shown second
        better, worse = worse, better
    verdicts = np.stack([better, worse, np.zeros_like(better)], axis=-1)
    verdicts[np.isnan(verdicts).any(axis=-1)] = np.nan
    return verdicts


def both_in_one(by_order: FloatArray, protocol: ProtocolName) -> FloatArray:
    """The verdict of both orders together: the mean of their log-probabilities, normalised over the labels.

        p(l) = sqrt(p_0(l) p_1(l)) / sum_m sqrt(p_0(m) p_1(m))
    What a judge adds to a label's log-odds for the text's place is gone, however large. Answers of which a label is
    impossible in one order alone, such as choices (1 and 0), have no log-odds: their probabilities are averaged.
    by_order : float64, shape (n_orders, ..., 3), as of `read_verdicts`, the second turned. returns : shape (..., 3)
    """
    if len(by_order) == 1:
        return np.array(by_order[0])
    if protocol == "yes_no_two_sided":
        return _log_mean(np.stack([by_order, 1 - by_order], axis=-1))[..., 0]
    return _log_mean(by_order)


def _log_mean(probs: FloatArray) -> FloatArray:
    """Of both orders; shape (2, ..., n_labels) -> (..., n_labels)."""
    impossible = probs == 0
    hard = (impossible[0] != impossible[1]).any(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        logs = np.log(np.where(hard, 1, probs)).mean(axis=0)
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    mean: FloatArray = np.where(hard, probs.mean(axis=0), weights / weights.sum(axis=-1, keepdims=True))
    return mean


def unanswered(answers: LabelLogProbs, min_mass: float, max_unreported: float) -> dict[int, str]:
    """Row -> why it counts as no answer: it failed, or too little of its labels' probability is there or reported."""
    failures = dict(answers.failures)
    mass = answers.label_mass
    for row in np.flatnonzero((mass < min_mass) | (mass == 0) | (answers.unreported > max_unreported)).tolist():
        failures[row] = _why_not(answers, row, min_mass, max_unreported)
    return failures


def unreported_note(unreported: FloatArray | float) -> str:
    """What a score's reason says of labels that a server did not report; "" where that changes no probability by .001,
    as where rare spellings of labels that it did report are missing.

    unreported : as of Verdicts, of one or more answers
    """
    most = float(np.max(unreported))
    note = f"the server did not report all labels, so that probabilities may be off by {most:.1g}"
    return note if most > 1e-3 else ""


def _why_not(answers: LabelLogProbs, row: int, min_mass: float, max_unreported: float) -> str:
    """Why a row that was answered is not an answer."""
    labels, most = answers.labels, np.exp(answers.log_probs[row])
    if answers.censored is not None and answers.unreported[row] > max_unreported and most.sum() >= min_mass:
        missing = np.flatnonzero(answers.censored[row])
        names = ", ".join(f"{labels[i]} (at most {most[i]:.2g})" for i in missing)
        return (
            f"the server did not report the probability of {names}, by which a verdict can be off by "
            f"{answers.unreported[row]:.2g}, expected at most {max_unreported:g}. Take a server that reports chosen "
            "tokens, or more of the most probable ones (docs/servers.md), or raise max_unreported (--max-unreported)"
        )
    if answers.censored is not None and answers.censored[row].all() and answers.label_mass[row] == 0:
        return (
            f"the answer tells no label: {', '.join(labels)} have probability {most.max():.2g} at most, each. A server "
            "that reports chosen tokens would tell them, or one that reports more (docs/servers.md); what was recorded "
            "elsewhere stays as it is"
        )
    mass = float(answers.label_mass[row])
    shown = f"{mass:.2g}" if mass < 0.1 else f"{int(mass * 1e4) / 1e4:g}"  # not up to what was expected
    other = answers.other_tokens[row] if answers.other_tokens else None
    instead = f"; it would rather answer {other.token!r} (p = {np.exp(other.log_prob):.3f})" if other else ""
    return (
        f"the labels {', '.join(labels)} have probability {shown} together, expected at "
        f"least {min_mass:g}{instead}. Look at the prompt with `synthscore doctor`, or lower min_mass (--min-mass)"
    )
