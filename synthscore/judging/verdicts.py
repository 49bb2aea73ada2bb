"""Label probabilities -> better / worse / similar: what a judge's answers say of a pair of texts. Pure NumPy.

A rung, a real candidate and a reference written by a person are all just texts: the question is always about the
*target*, compared with the *reference*. Protocols (arXiv:2509.05440 Tables 13-18, arXiv:2307.07889 section 3):

    compare            Better / Worse / Similar, about the target
    yes_no             "does the target read better?"  Yes = better, No = worse
    yes_no_two_sided   the same, and "does it read worse?": worse is the Yes of the second question
    choose             A / B: which text is better; the reference is shown first, as A
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ..engine import LabelLogProbs
from ..signature import Signature
from ..types import BoolArray, Context, FloatArray

ProtocolName = Literal["compare", "yes_no", "yes_no_two_sided", "choose"]

PROTOCOLS: Mapping[ProtocolName, tuple[str, ...]] = {
    "compare": ("Better", "Worse", "Similar"),
    "yes_no": ("Yes", "No"),
    "yes_no_two_sided": ("Yes", "No"),
    "choose": ("A", "B"),
}
"""Protocol -> the labels that the judge is asked for."""

TURNED = [1, 0, 2]  # a verdict about the reference -> the verdict about the target


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

    better, worse, similar : float64, shape (n_pairs,), sum to 1; similar is 0 for protocols without that label
        (yes_no_two_sided: two answers, which need not sum to 1, and of which both are needed)
    label_mass : float64, shape (n_pairs,): the least over the questions asked about the pair
    by_order : float64, shape (n_orders, n_pairs, 3): better, worse, similar in each order; the second, where
        it was asked for, has the reference where the target was
    unreported : float64, shape (n_pairs,): for labels that a server did not report, better - worse can be off by at
        most twice this; the mean of LabelLogProbs.unreported over the questions asked about the pair
    failures : pair index -> reason
    answers : what the engine answered; one row a question, all first questions in pair order, then all second ones
    asked : bool, shape (n_orders, n_pairs), or None: all. What was not asked has no failure, and is NaN
    """

    better: FloatArray
    worse: FloatArray
    similar: FloatArray
    by_order: FloatArray
    label_mass: FloatArray
    unreported: FloatArray
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


def read_verdicts(protocol: ProtocolName, probs: FloatArray) -> FloatArray:
    """Label probabilities -> better, worse, similar of the text that each question was about.

    probs : shape (n_orders * n_sides, n_pairs, n_labels), the sides of an order one after the other
    returns : shape (n_orders, n_pairs, 3); NaN where an answer is missing
    """
    if protocol == "compare":
        return probs
    better, worse = probs[..., 0], probs[..., 1]  # yes_no: Yes is better
    if protocol == "yes_no_two_sided":  # better?, then worse?
        better, worse = probs[0::2, :, 0], probs[1::2, :, 0]
    elif protocol == "choose":  # the target is shown second
        better, worse = worse, better
    verdicts = np.stack([better, worse, np.zeros_like(better)], axis=-1)
    verdicts[np.isnan(verdicts).any(axis=-1)] = np.nan
    return verdicts


def unanswered(answers: LabelLogProbs, min_mass: float, max_unreported: float) -> dict[int, str]:
    """Row -> why it counts as no answer: it failed, or too little of its labels' probability is there or reported."""
    failures = dict(answers.failures)
    mass = answers.label_mass
    for row in np.flatnonzero((mass < min_mass) | (mass == 0) | (answers.unreported > max_unreported)).tolist():
        failures[row] = _why_not(answers, row, min_mass, max_unreported)
    return failures


def _why_not(answers: LabelLogProbs, row: int, min_mass: float, max_unreported: float) -> str:
    """Why a row that was answered is not an answer."""
    labels, most = answers.labels, np.exp(answers.log_probs[row])
    if answers.censored is not None and answers.unreported[row] > max_unreported and most.sum() >= min_mass:
        missing = np.flatnonzero(answers.censored[row])
        names = ", ".join(f"{labels[i]} (at most {most[i]:.2g})" for i in missing)
        return (
            f"the server did not report the probability of {names}, by which a verdict can be off by "
            f"{answers.unreported[row]:.2g}, expected at most {max_unreported:g}. Take a server that reports "
            "chosen tokens, or more of the most probable ones (docs/servers.md)"
        )
    other = answers.other_tokens[row] if answers.other_tokens else None
    instead = f"; it would rather answer {other.token!r} (p = {np.exp(other.log_prob):.3f})" if other else ""
    return (
        f"the labels {', '.join(labels)} have probability {answers.label_mass[row]:.2g} together, expected at "
        f"least {min_mass:g}{instead}. Look at the prompt with `synthscore doctor`, or lower min_mass"
    )
