"""Pairs of texts + engine -> verdicts. The one place that turns a question's labels into better / worse / similar.

A rung, a real candidate and a reference written by a person are all just texts: the question is always about the
*target*, held against the *reference*. Protocols (arXiv:2509.05440 Tables 13-18, arXiv:2307.07889 section 3):

    compare            Better / Worse / Similar, said of the target
    yes_no             "does the target read better?"  Yes = better, No = worse
    yes_no_two_sided   the same, and "does it read worse?": worse is the Yes of the second question
    choose             A / B: which text is better; the reference is shown first, as A
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .._version import __version__
from ..engine import Engine, LabelLogProbs, OtherToken, Progress, Prompt, label_log_probs
from ..signature import Signature
from ..types import BoolArray, Context, FloatArray, IntArray
from .templates import Templates

PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "compare": ("Better", "Worse", "Similar"),
    "yes_no": ("Yes", "No"),
    "yes_no_two_sided": ("Yes", "No"),
    "choose": ("A", "B"),
}
"""Protocol -> the labels that the judge is asked for."""

_TURNED = [1, 0, 2]  # what is said of the reference, said of the target

_TEMPLATE = {"compare": "compare", "yes_no": "yes_no", "yes_no_two_sided": "yes_no", "choose": "choose"}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts for one context; the question is about the target."""

    context: Context
    attribute: str
    target: str
    reference: str


@dataclass(frozen=True, slots=True, eq=False)
class Verdicts:
    """What the judge said of each pair's target: probabilities over its labels, NaN where it could not be asked.

    better, worse, similar : float64, shape (n_pairs,), sum to 1; similar is 0 for protocols without that label
        (yes_no_two_sided: two answers, which need not sum to 1)
    label_mass : float64, shape (n_pairs,): the least over the questions asked about the pair
    by_order : float64, shape (n_orders, n_pairs, 3): better, worse, similar as said in each order; the second, where
        it was asked for, has the reference where the target was
    slack : float64, shape (n_pairs,): for labels that a server did not tell, better - worse can be off by at most
        twice this; the mean of LabelLogProbs.unreported over the questions asked about the pair
    failures : pair index -> reason
    answers : what the engine answered; one row a question, all first questions in pair order, then all second ones
    asked : bool, shape (n_orders, n_pairs), or None: all. What was not asked has no failure, and is NaN
    """

    better: FloatArray
    worse: FloatArray
    similar: FloatArray
    by_order: FloatArray
    label_mass: FloatArray
    slack: FloatArray
    answers: LabelLogProbs
    signature: Signature
    failures: Mapping[int, str] = field(default_factory=dict)
    asked: BoolArray | None = None

    def __len__(self) -> int:
        return len(self.better)

    @property
    def protocol(self) -> str:
        """One of PROTOCOLS."""
        return dict(self.signature.parts)["protocol"]


def ask(
    pairs: Sequence[Pair],
    engine: Engine,
    templates: Templates,
    *,
    protocol: str = "compare",
    both_orders: bool = False,
    min_mass: float = 0.01,
    max_slack: float = 0.02,
    progress: Progress | None = None,
) -> Verdicts:
    """Ask the judge about every pair.

    both_orders : ask about the reference too, and average: cancels the effect of what is shown first (the
        sources never do this for ladders, and judges do favour a position)
    min_mass : labels that together are less probable than this are not an answer: the pair fails with the reason
    max_slack : a pair fails, too, where labels that a server did not tell could change a probability by more than this
    raises : TemplateError, TaskError, LabelError. A prompt that is too long fails its pair alone.
    """
    asking = Asking(
        pairs,
        engine,
        templates,
        protocol=protocol,
        both_orders=both_orders,
        min_mass=min_mass,
        max_slack=max_slack,
    )
    asking.ask_all(progress)
    return asking.verdicts()


class Asking:
    """Pairs that are asked about in several calls: each question once, some of them perhaps never.

    Arguments as of `ask`.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        engine: Engine,
        templates: Templates,
        *,
        protocol: str = "compare",
        both_orders: bool = False,
        min_mass: float = 0.01,
        max_slack: float = 0.02,
    ) -> None:
        if protocol not in PROTOCOLS:
            raise ValueError(f"protocol is {protocol!r}, expected one of {', '.join(PROTOCOLS)}")
        self.pairs, self.engine, self.templates = pairs, engine, templates
        self.protocol, self.both_orders = protocol, both_orders
        self.min_mass, self.max_slack = min_mass, max_slack
        self.n_sides = 2 if protocol == "yes_no_two_sided" else 1
        self._asked: list[tuple[IntArray, LabelLogProbs]] = []  # places in Verdicts.answers, and what was answered

    @property
    def _shape(self) -> tuple[int, int, int]:
        """Orders, sides, pairs: how the rows of Verdicts.answers lie."""
        return 2 if self.both_orders else 1, self.n_sides, len(self.pairs)

    @property
    def signature(self) -> Signature:
        """What the numbers depend on."""
        template = _TEMPLATE[self.protocol]
        return Signature.of(synthscore=__version__, **dict(self.engine.signature.parts)).with_(
            template=f"{self.templates.name}/{template}@{self.templates.hash(template)}",
            protocol=self.protocol,
            labels=",".join(PROTOCOLS[self.protocol]),
            orders=2 if self.both_orders else 1,
        )

    def ask_all(self, progress: Progress | None = None) -> None:
        """Every question about every pair."""
        n_orders, _, n_pairs = self._shape
        self.ask(np.tile(np.arange(n_pairs), n_orders), np.repeat([False, True][:n_orders], n_pairs), progress)

    def ask(self, pair: IntArray, swapped: BoolArray, progress: Progress | None = None) -> FloatArray:
        """What is said of these pairs' targets: better, worse, similar, shape (n, 3); NaN where there is no answer.

        pair : places in `pairs`. swapped : ask about the reference instead
        raises : as `ask`
        """
        sides = np.arange(self.n_sides)[:, None]
        _, n_sides, n_pairs = self._shape
        rows = ((swapped.astype(np.int64) * n_sides + sides) * n_pairs + pair).ravel()
        prompts = [
            _prompt(self.pairs[k], self.templates, self.protocol, turned, bool(side))
            for side in range(n_sides)
            for k, turned in zip(pair.tolist(), swapped.tolist(), strict=True)
        ]
        answers = label_log_probs(self.engine, prompts, PROTOCOLS[self.protocol], progress)
        self._asked.append((rows, answers))
        probs = answers.probs
        probs[list(unanswered(answers, self.min_mass, self.max_slack))] = np.nan
        said = _said(self.protocol, probs.reshape(n_sides, len(pair), len(answers.labels)))[0]
        turned: FloatArray = np.where(swapped[:, None], said[:, _TURNED], said)
        return turned

    def verdicts(self) -> Verdicts:
        """Of all that was asked."""
        n_orders, n_sides, n_pairs = self._shape
        answers, asked = self._together()
        failures = unanswered(answers, self.min_mass, self.max_slack)
        probs, slack, mass = answers.probs, answers.unreported, answers.label_mass
        probs[list(failures)] = np.nan
        n_questions = n_orders * n_sides  # about each pair
        by_order = _said(self.protocol, probs.reshape(n_questions, n_pairs, len(answers.labels)))
        by_order[1:] = by_order[1:, :, _TURNED]
        better, worse, similar = _mean(by_order)
        slack = slack.reshape(n_questions, n_pairs)
        known = ~np.isnan(slack)
        return Verdicts(
            better=better,
            worse=worse,
            similar=similar,
            by_order=by_order,
            label_mass=mass.reshape(n_questions, n_pairs).min(axis=0),
            slack=np.where(known, slack, 0).sum(axis=0) / np.where(known.any(axis=0), known.sum(axis=0), np.nan),
            answers=answers,
            signature=self.signature,
            failures={row % n_pairs: reason for row, reason in sorted(failures.items(), reverse=True) if asked[row]},
            asked=asked.reshape(n_orders, n_sides, n_pairs)[:, 0],
        )

    def _together(self) -> tuple[LabelLogProbs, BoolArray]:
        """The answers to all calls, one row a question, and which of them were asked."""
        labels = PROTOCOLS[self.protocol]
        n_rows = int(np.prod(self._shape))
        asked, log_probs = np.zeros(n_rows, dtype=bool), np.full((n_rows, len(labels)), np.nan)
        other_tokens: list[OtherToken | None] = [None] * n_rows
        failures: dict[int, str] = {}
        censored, floors = np.zeros(log_probs.shape, dtype=bool), np.full(log_probs.shape, -np.inf)
        for rows, answers in self._asked:
            asked[rows], log_probs[rows] = True, answers.log_probs
            for row, token in zip(rows.tolist(), answers.other_tokens, strict=False):  # some engines report none
                other_tokens[row] = token
            failures |= {int(rows[row]): reason for row, reason in answers.failures.items()}
            if answers.censored is not None:
                censored[rows] = answers.censored
                floors[rows] = -np.inf if answers.floors is None else answers.floors
        failures |= dict.fromkeys(np.flatnonzero(~asked).tolist(), "not asked")
        naive, computed = (sum(getattr(a, f"tokens_{name}") for _, a in self._asked) for name in ("naive", "computed"))
        limits = (censored, floors) if censored.any() else (None, None)
        return LabelLogProbs(labels, log_probs, tuple(other_tokens), failures, naive, computed, *limits), asked


def unanswered(answers: LabelLogProbs, min_mass: float, max_slack: float) -> dict[int, str]:
    """Row -> why it counts as no answer: it failed, or its labels are too improbable or too little told (see ask)."""
    failures = dict(answers.failures)
    mass = answers.label_mass
    for row in np.flatnonzero((mass < min_mass) | (mass == 0) | (answers.unreported > max_slack)).tolist():
        failures[row] = _why_not(answers, row, min_mass, max_slack)
    return failures


def _why_not(answers: LabelLogProbs, row: int, min_mass: float, max_slack: float) -> str:
    """Why a row that was answered is not an answer."""
    labels, most = answers.labels, np.exp(answers.log_probs[row])
    if answers.censored is not None and answers.unreported[row] > max_slack and most.sum() >= min_mass:
        untold = answers.censored[row]
        names = ", ".join(f"{labels[i]} (at most {most[i]:.2g})" for i in np.flatnonzero(untold))
        return (
            f"the server did not tell the probability of {names}, by which a verdict can be off by "
            f"{answers.unreported[row]:.2g}, expected at most {max_slack:g}. Take a server that tells chosen tokens, "
            "or more of the most probable ones (docs/servers.md)"
        )
    other = answers.other_tokens[row] if answers.other_tokens else None
    said = f"; it would rather have said {other.token!r} (p = {np.exp(other.log_prob):.3f})" if other else ""
    return (
        f"the labels {', '.join(labels)} have probability {answers.label_mass[row]:.2g} together, expected at "
        f"least {min_mass:g}{said}. Look at the prompt with `synthscore doctor`, or lower min_mass"
    )


def _prompt(pair: Pair, templates: Templates, protocol: str, swapped: bool, worse: bool) -> Prompt:
    attribute = templates.task.attribute(pair.attribute)
    target, reference = (pair.reference, pair.target) if swapped else (pair.target, pair.reference)
    if protocol == "choose":
        return templates.choose(pair.context, attribute, first=reference, second=target)
    if protocol == "compare":
        return templates.compare(pair.context, attribute, target=target, reference=reference)
    return templates.yes_no(pair.context, attribute, target=target, reference=reference, worse=worse)


def _said(protocol: str, probs: FloatArray) -> FloatArray:
    """Label probabilities, shape (n_orders * n_sides, n_pairs, n_labels), -> better, worse, similar of what each
    question was about, shape (n_orders, n_pairs, 3)."""
    if protocol == "compare":
        better, worse, similar = probs[..., 0], probs[..., 1], probs[..., 2]
    elif protocol == "yes_no_two_sided":  # sides alternate: better?, worse?
        better, worse = probs[0::2, :, 0], probs[1::2, :, 0]
        similar = 0 * better  # NaN where there is no answer
    else:  # yes_no: Yes is better; choose: the target is shown second, so B is better
        better, worse = (probs[..., 0], probs[..., 1]) if protocol == "yes_no" else (probs[..., 1], probs[..., 0])
        similar = 0 * better  # NaN where there is no answer
    said: FloatArray = np.stack([better, worse, similar], axis=-1)
    return said


def _mean(by_order: FloatArray) -> FloatArray:
    """Of the orders, shape (3, n_pairs); a pair answered in one order only is NaN."""
    mean: FloatArray = by_order[0].T if len(by_order) == 1 else by_order.sum(axis=0).T / len(by_order)
    return mean
