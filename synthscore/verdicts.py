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

from . import __version__
from .engines.base import Engine, Progress
from .prompts import Templates
from .types import Context, FloatArray, LabelLogProbs, Prompt, Signature

PROTOCOLS: Mapping[str, tuple[str, ...]] = {
    "compare": ("Better", "Worse", "Similar"),
    "yes_no": ("Yes", "No"),
    "yes_no_two_sided": ("Yes", "No"),
    "choose": ("A", "B"),
}
"""Protocol -> the labels that the judge is asked for."""

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
        twice this; the mean of LabelLogProbs.slack over the questions asked about the pair
    failures : pair index -> reason
    answers : what the engine answered; one row a question, all first questions in pair order, then all second ones
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

    def __len__(self) -> int:
        return len(self.better)


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
    if protocol not in PROTOCOLS:
        raise ValueError(f"protocol is {protocol!r}, expected one of {', '.join(PROTOCOLS)}")
    rounds = _rounds(protocol, both_orders)
    prompts = [_prompt(pair, templates, protocol, *question) for question in rounds for pair in pairs]
    labels = PROTOCOLS[protocol]
    answers = engine.label_log_probs(prompts, labels, progress)
    failures = unanswered(answers, min_mass, max_slack)
    slack = answers.slack
    probs = answers.probs
    probs[list(failures)] = np.nan
    by_round = probs.reshape(len(rounds), len(pairs), len(labels))
    by_order = _said_of_targets(protocol, by_round)
    better, worse, similar = _mean(by_order)
    return Verdicts(
        better=better,
        worse=worse,
        similar=similar,
        by_order=by_order,
        label_mass=answers.label_mass.reshape(len(rounds), len(pairs)).min(axis=0),
        slack=slack.reshape(len(rounds), len(pairs)).mean(axis=0),
        answers=answers,
        signature=Signature.of(synthscore=__version__, **dict(engine.signature.parts)).with_(
            template=f"{templates.name}/{_TEMPLATE[protocol]}@{templates.hash(_TEMPLATE[protocol])}",
            protocol=protocol,
            labels=",".join(labels),
            orders=2 if both_orders else 1,
        ),
        failures={row % len(pairs): reason for row, reason in sorted(failures.items(), reverse=True)},
    )


def unanswered(answers: LabelLogProbs, min_mass: float, max_slack: float) -> dict[int, str]:
    """Row -> why it counts as no answer: it failed, or its labels are too improbable or too little told (see ask)."""
    failures = dict(answers.failures)
    mass = answers.label_mass
    for row in np.flatnonzero((mass < min_mass) | (mass == 0) | (answers.slack > max_slack)).tolist():
        failures[row] = _why_not(answers, row, min_mass, max_slack)
    return failures


def _why_not(answers: LabelLogProbs, row: int, min_mass: float, max_slack: float) -> str:
    """Why a row that was answered is not an answer."""
    labels, most = answers.labels, np.exp(answers.log_probs[row])
    if answers.censored is not None and answers.slack[row] > max_slack and most.sum() >= min_mass:
        untold = answers.censored[row]
        names = ", ".join(f"{labels[i]} (at most {most[i]:.2g})" for i in np.flatnonzero(untold))
        return (
            f"the server did not tell the probability of {names}, by which a verdict can be off by "
            f"{answers.slack[row]:.2g}, expected at most {max_slack:g}. Take a server that tells chosen tokens, or "
            "more of the most probable ones (docs/servers.md), or raise max_slack"
        )
    rival = answers.rivals[row] if answers.rivals else None
    said = f"; it would rather have said {rival.token!r} (p = {np.exp(rival.log_prob):.3f})" if rival else ""
    return (
        f"the labels {', '.join(labels)} have probability {answers.label_mass[row]:.2g} together, expected at "
        f"least {min_mass:g}{said}. Look at the prompt with `synthscore doctor`, or lower min_mass"
    )


def _rounds(protocol: str, both_orders: bool) -> list[tuple[bool, bool]]:
    """The questions asked about each pair, as (about the reference instead, worse instead of better)."""
    orders = (False, True) if both_orders else (False,)
    sides = (False, True) if protocol == "yes_no_two_sided" else (False,)
    return [(swapped, worse) for swapped in orders for worse in sides]


def _prompt(pair: Pair, templates: Templates, protocol: str, swapped: bool, worse: bool) -> Prompt:
    attribute = templates.task.attribute(pair.attribute)
    target, reference = (pair.reference, pair.target) if swapped else (pair.target, pair.reference)
    if protocol == "choose":
        return templates.choose(pair.context, attribute, first=reference, second=target)
    if protocol == "compare":
        return templates.compare(pair.context, attribute, target=target, reference=reference)
    return templates.yes_no(pair.context, attribute, target=target, reference=reference, worse=worse)


def _said_of_targets(protocol: str, probs: FloatArray) -> FloatArray:
    """Label probabilities, shape (n_rounds, n_pairs, n_labels), -> by_order of Verdicts."""
    if protocol == "compare":
        better, worse, similar = probs[..., 0], probs[..., 1], probs[..., 2]
    elif protocol == "yes_no_two_sided":  # rounds alternate: better?, worse?
        better, worse = probs[0::2, :, 0], probs[1::2, :, 0]
        similar = 0 * better  # NaN where there is no answer
    else:  # yes_no: Yes is better; choose: the target is shown second, so B is better
        better, worse = (probs[..., 0], probs[..., 1]) if protocol == "yes_no" else (probs[..., 1], probs[..., 0])
        similar = 0 * better  # NaN where there is no answer
    said = np.stack([better, worse, similar], axis=-1)
    said[1:] = said[1:, :, [1, 0, 2]]  # the second order asks about the reference
    return said


def _mean(by_order: FloatArray) -> FloatArray:
    """Of the orders, shape (3, n_pairs); a pair answered in one order only is NaN."""
    mean: FloatArray = by_order[0].T if len(by_order) == 1 else by_order.sum(axis=0).T / len(by_order)
    return mean
