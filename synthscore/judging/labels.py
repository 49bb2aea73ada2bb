"""Probabilities of labels -> better, worse and similar, about a pair's target; or why they count as no answer. Asks
nobody.

Each function is one step on the way from what a judge answers to a verdict:

    read_labels      labels -> how probable it is that the text a question was about is better, worse, similar
    about_target     the same of a question about the reference -> the same of the target
    combine_sides    two questions, "better?" and "worse?" -> one verdict
    both_in_one      a verdict in each order of the two texts -> one verdict
    margin_limits    what a server did not report -> how far it could move the verdict
    unanswered       an answer that failed, or of whose labels too little is there or reported -> why, in words
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..engine import LabelLogProbs
from ..types import BoolArray, FloatArray

OrdersMean = Literal["log-odds", "probabilities"]
"""What the mean of both orders is taken of (`both_in_one`): the same for a whole run, whose signature says it."""

TURNED = [1, 0, 2]
"""Columns of a verdict about the reference, in the order of one about the target: better and worse are exchanged."""


def read_labels(protocol: str, values: FloatArray, *, absent: float) -> FloatArray:
    """Numbers of labels -> the same numbers, as better, worse and similar of the text that each question was about.

    values : shape (n_orders * n_sides, n_pairs, n_labels); of each label its probability, or a limit of its
        log-probability. A side is one of the questions about a pair in one order: yes_no_two_sided has two, "better?"
        and "worse?", all other protocols one. The sides of an order follow each other
    absent : the number of similar, where no label stands for it
    returns : shape (n_sides, n_orders, n_pairs, 3)
    """
    if protocol == "compare":
        return values[None]
    similar = np.full(values.shape[:-1], absent)
    better = values[..., 0]  # yes_no: Yes is better
    worse = values[..., 1]
    if protocol == "choose":  # Labels are the first and the second text; the question is about the second.
        better, worse = worse, better
    questions = np.stack([better, worse, similar], axis=-1)
    if protocol == "yes_no_two_sided":
        is_better = questions[0::2]
        is_worse = questions[1::2][..., TURNED]  # Of the second question, Yes is worse.
        return np.stack([is_better, is_worse])
    return questions[None]


def about_target(questions: FloatArray, swapped: BoolArray) -> FloatArray:
    """The numbers of `read_labels`, turned where the question was about the reference: that the reference is better
    means that the target is worse.

    questions : shape (n_sides, n_orders, n_pairs, 3), which the result has, too. swapped : shape (n_orders, n_pairs)
    """
    # Axis 0 is the side. With two, "is the reference better?" takes the place of "is the target worse?"; with one,
    # [::-1] does nothing.
    turned = questions[::-1, ..., TURNED]
    numbers: FloatArray = np.where(swapped[..., None], turned, questions)
    return numbers


def combine_sides(questions: FloatArray) -> FloatArray:
    """Better, worse and similar by each side, shape (n_sides, ..., 3) -> those of a pair, shape (..., 3).

    Of two sides, the first says how probable better is, the second worse. NaN where an answer is missing.
    """
    verdicts = np.array(questions[0])
    if len(questions) == 2:
        verdicts[..., 1:] = questions[1, ..., 1:]
    verdicts[np.isnan(verdicts).any(axis=-1)] = np.nan
    return verdicts


def both_in_one(by_order: FloatArray, protocol: str, mean: OrdersMean) -> FloatArray:
    """The verdict of both orders together: the mean of their log-probabilities, normalised over the labels.

        p(l) = sqrt(p_0(l) p_1(l)) / sum_m sqrt(p_0(m) p_1(m))

    A position bias that adds a constant to a label's log-odds cancels, whatever its size. NaN where no label is
    possible in both orders.

    by_order : float64, shape (n_orders, ..., 3), as of Verdicts; of one order, it is returned as it is
    mean : "log-odds" as above; "probabilities" for the mean of probabilities, where answers are choices: 1 and 0
    returns : shape (..., 3)
    """
    if len(by_order) == 1 or mean == "probabilities":
        averaged: FloatArray = by_order.mean(axis=0)
        return averaged
    if protocol == "yes_no_two_sided":
        # Better and worse are answers to two questions, each of which has Yes and No as its labels.
        yes_and_no = np.stack([by_order, 1 - by_order], axis=-1)
        together = _log_mean(yes_and_no)[..., 0]
        together[np.isnan(together).any(axis=-1)] = np.nan
        return together
    return _log_mean(by_order)


def _log_mean(probs: FloatArray) -> FloatArray:
    """The normalised geometric mean of both orders' probabilities; shape (2, ..., n_labels) -> (..., n_labels)."""
    with np.errstate(divide="ignore"):
        logs = np.log(probs).mean(axis=0)
    weights = _weights(logs)
    mean: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return mean


def _weights(log_probs: FloatArray) -> FloatArray:
    """Numbers in proportion to the probabilities, over the last axis, the largest 1; NaN where all are impossible."""
    top = log_probs.max(axis=-1, keepdims=True)
    weights: FloatArray = np.exp(log_probs - np.where(np.isneginf(top), np.nan, top))
    return weights


def margin_limits(least: FloatArray, most: FloatArray) -> FloatArray:
    """The least and the greatest that p(better) - p(worse) can be, where each log-probability is between two ends.

        p(better) - p(worse) = (b - w) / (b + w + s),      rising in b, falling in w, and s draws it towards 0

    So the greatest is at the most of better and the least of worse, with the least of similar where that is above 0 and
    the most of it elsewhere. Exact: each limit is reached, or approached where a label may be arbitrarily improbable.

    least, most : shape (..., 3), nats: the ends of the log-probabilities of better, worse, similar, all less the same
        constant
    returns : shape (2, ...): the least and the greatest; NaN where no label is possible. For yes_no_two_sided, these
        are limits of each of its two sides, and p(better) - p(worse) is the mean of the sides
    """
    lowest = -_greatest_margin(least[..., TURNED], most[..., TURNED])
    return np.stack([lowest, _greatest_margin(least, most)])


def _greatest_margin(least: FloatArray, most: FloatArray) -> FloatArray:
    """The greatest p(better) - p(worse); arguments as of `margin_limits`."""
    better = most[..., 0]
    worse = least[..., 1]
    similar = np.where(better > worse, least[..., 2], most[..., 2])
    corner = np.stack([better, worse, similar], axis=-1)
    weights = _weights(corner)
    greatest: FloatArray = (weights[..., 0] - weights[..., 1]) / weights.sum(axis=-1)
    # Where worse alone is possible, it has all the probability, however improbable it may be.
    nothing_else = np.isneginf(corner).all(axis=-1)
    only_worse = nothing_else & (most[..., 1] > -np.inf)
    return np.where(only_worse, -1.0, greatest)


# ------------------------------------------------------------------------------------------------- no answer


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
