"""Why an answer of a judge does not count, in words: it failed, or too little of its labels is there or reported."""

from __future__ import annotations

import numpy as np

from ..engine import LabelLogProbs
from ..types import FloatArray


def unanswered(
    answers: LabelLogProbs, min_mass: float, max_unreported: float, unreported: FloatArray | None = None
) -> dict[int, str]:
    """Row -> why it counts as no answer: it failed, or too little of its labels' probability is there or reported.

    unreported : shape (n_prompts,); what max_unreported is the most of. None: answers.unreported
    """
    failures = dict(answers.failures)
    mass = answers.label_mass
    off = answers.unreported
    if unreported is not None:
        off = unreported
    wrong = (mass < min_mass) | (mass == 0) | (off > max_unreported)
    for row in np.flatnonzero(wrong).tolist():
        failures[row] = _why_not(answers, row, off[row], min_mass, max_unreported)
    return failures


def unreported_note(unreported: FloatArray | float) -> str:
    """The note in a score's reason about labels that a server did not report; "" where they change no probability by
    more than .001, as when only rare spellings of reported labels are missing.

    unreported : by which probabilities may be off, of one or more answers
    """
    most = float(np.max(unreported))
    if not most > 1e-3:
        return ""
    return f"the server did not report all labels, so that probabilities may be off by {most:.1g}"


def _why_not(answers: LabelLogProbs, row: int, unreported: float, min_mass: float, max_unreported: float) -> str:
    """Why a row that was answered is not an answer."""
    labels = answers.labels
    most = np.exp(answers.log_probs[row])
    if unreported > max_unreported and most.sum() >= min_mass:
        return why_unreported(bounded(answers, row), unreported, max_unreported)
    if answers.censored is not None and answers.censored[row].all() and answers.label_mass[row] == 0:
        return (
            f"the answer tells no label: {', '.join(labels)} have probability {most.max():.2g} at most, each. A server "
            "that reports chosen tokens would tell them, or one that reports more (docs/servers.md); what was recorded "
            "elsewhere stays as it is"
        )
    mass = float(answers.label_mass[row])
    shown = f"{mass:.2g}"
    if mass >= 0.1:
        shown = f"{int(mass * 1e4) / 1e4:g}"  # is not rounded up to what was expected
    instead = ""
    other = answers.other_tokens[row] if answers.other_tokens else None
    if other:
        instead = f"; it would rather answer {other.token!r} (p = {np.exp(other.log_prob):.3f})"
    return (
        f"the labels {', '.join(labels)} have probability {shown} together, expected at "
        f"least {min_mass:g}{instead}. Look at the prompt with `synthscore doctor`, or lower min_mass (--min-mass)"
    )


def why_unreported(missing: str, unreported: float, max_unreported: float) -> str:
    return (
        f"the server did not report the probability of {missing}, by which a verdict can be off by {unreported:.2g}, "
        f"expected at most {max_unreported:g}. Take a server that reports chosen tokens, or more of the most probable "
        "ones (docs/servers.md), or raise max_unreported (--max-unreported)"
    )


def bounded(answers: LabelLogProbs, row: int) -> str:
    """Which labels of an answer have bounds, and the most that they can be; "" where none has."""
    if answers.censored is None:
        return ""
    most = np.exp(answers.log_probs[row])
    labels = np.flatnonzero(answers.censored[row])
    return ", ".join(f"{answers.labels[label]} (at most {most[label]:.2g})" for label in labels)


def why_contradictory(by_order: FloatArray) -> str:
    """by_order : of one pair, shape (2, 3)"""
    one, other = (", ".join(f"{p:g}" for p in probs) for probs in by_order)
    return (
        f"the two orders exclude each other: better, worse and similar have the probabilities {one} in one and {other} "
        "in the other, so that nothing is possible in both. Ask in one order, or take a judge that is less sure; an "
        "engine whose answers are choices says so in its capabilities (docs/engines.md)"
    )
