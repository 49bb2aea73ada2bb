"""Answers -> what the judge is like, pooled over all ladders: expectation and maximisation in turn.

The positions and their errors come from positions.py (expectation); given them, the judge's parameters are those that
make the answers most probable, and the variances those that the positions show (maximisation, parameters.py).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...types import FloatArray
from .bias import bias_between_texts
from .model import JudgeModel, Posterior, SoftAnswers
from .parameters import (
    FEW_LADDERS,
    RUNG_SD,
    find_residuals,
    first_guess,
    fit_answering,
    fit_correlations,
    fit_noise,
    fit_spreads,
    give_texts_their_part,
    median_stretch,
    put_on_scale,
)
from .positions import positions, settle
from .rising import sees_rise
from .sample import choose_answers
from .sharpness import Lengths, share, sharpness

_ROUNDS = 300
_TOLERANCE = 1e-4
_LEAST_STRETCH = 0.05  # below: the judge sees the rungs upside down
_LEAST_NATS = 0.2  # between the worst and the best rung, or it sees them as one
_FITTED = (
    "discrimination", "position_bias", "log_tie", "noise", "spread", "pair_correlation", "rung_correlation",
    "target_mean", "target_sd",
)  # fmt: skip


def fit(answers: SoftAnswers) -> tuple[JudgeModel, Posterior]:
    """The judge's parameters, and the positions under them.

    The position bias is known from its opposite sign in the two orders, or from rungs against each other; where there
    are neither, it counts as 0. Not converging is part of the result: JudgeModel.converged, Posterior.settled.
    Of more than 50,000 answers, the parameters are fitted on those about some of the targets, spread over all ladders;
    which ones depends on their number alone. The positions are of all.
    """
    judge = fit_judge(choose_answers(answers))
    posterior = positions(answers, judge)
    return replace(judge, converged=judge.converged and bool(posterior.settled.all())), posterior


def fit_judge(answers: SoftAnswers) -> JudgeModel:
    """The judge's parameters by all of these answers.

    First as if each answer had noise of its own: where ladders are not yet where their answers put them, residuals look
    as if answers shared it. Then with what they share. Last, what ladders differ by in length is shared between them
    and the judge's sharpness (sharpness.py), and the other parameters are fitted again.
    """
    judge = first_guess(answers)
    if not sees_rise(answers):
        return replace(judge, rungs_rise=False)
    judge, posterior = _iterate(answers, judge, None, None, independent=True)
    if judge.rungs_rise:
        judge, posterior = _iterate(answers, judge, posterior, None)
    if not judge.rungs_rise:
        return judge
    at_first = judge.converged
    judge, told = _share_length(answers, judge, posterior)
    judge, posterior = _iterate(answers, judge, posterior, told)
    if not judge.rungs_rise:
        return judge
    bias_sd = bias_between_texts(answers, judge, posterior)
    return replace(give_texts_their_part(judge), bias_sd=bias_sd, converged=judge.converged and at_first)


def _iterate(
    answers: SoftAnswers,
    judge: JudgeModel,
    start: Posterior | None,
    told: FloatArray | None,
    *,
    independent: bool = False,
) -> tuple[JudgeModel, Posterior]:
    """Rounds of expectation and maximisation, until no parameter changes; and the positions of the last one.

    told : sharpness of the judge on each context, with which the stretch of ladders is known; None: all of their length
        is stretch
    independent : the correlations of answers stay as they are
    """
    posterior = start
    for _ in range(_ROUNDS):
        before = judge
        prior = judge.prior(answers.n_ladders, told)
        posterior, differences = settle(answers, judge, posterior, prior)
        judge = fit_answering(judge, answers, posterior, differences)
        residuals = find_residuals(judge, answers, posterior, differences)
        judge = fit_noise(judge, residuals)
        if not independent:
            judge = fit_correlations(judge, answers, posterior, residuals)
        stretch = median_stretch(posterior)
        if stretch < _LEAST_STRETCH or judge.discrimination * stretch * (judge.n_rungs - 1) < _LEAST_NATS:
            return replace(judge, rungs_rise=False, converged=False), posterior
        judge, posterior = put_on_scale(judge, posterior)
        judge = fit_spreads(judge, posterior, answers.target_ladder)
        if told is not None:
            shift, _, uneven = judge.rung_sd
            judge = replace(judge, rung_sd=(shift, before.rung_sd[1], uneven))
        if _change(before, judge) < _TOLERANCE and posterior.settled.all():
            return replace(judge, converged=True), posterior
    assert posterior is not None
    return replace(judge, converged=False), posterior


def _share_length(answers: SoftAnswers, judge: JudgeModel, posterior: Posterior) -> tuple[JudgeModel, FloatArray]:
    """What ladders were given as length, shared between them and the judge's sharpness; and that of each context."""
    lengths = Lengths.of(answers, posterior, judge)
    shared = share(lengths, RUNG_SD[1], FEW_LADDERS)
    shift, _, uneven = judge.rung_sd
    judge = replace(
        judge,
        rung_sd=(shift, shared.stretch, uneven),
        sharpness_sd=shared.sharpness,
        spread_sd=shared.spread,
        sharpness_told=shared.told,
    )
    return judge, sharpness(lengths, judge)[0]


def _change(before: JudgeModel, after: JudgeModel) -> float:
    """Largest change, relative where a value has a unit of its own."""
    pairs = [(getattr(before, name), getattr(after, name)) for name in _FITTED]
    pairs += zip(before.rung_sd, after.rung_sd, strict=True)
    return float(max(abs(b - a) / max(1.0, abs(a)) for a, b in pairs if np.isfinite(a)))
