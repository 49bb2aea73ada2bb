"""Answers -> what the judge is like, pooled over all ladders, and where the texts stand.

Neither is known at first, so they are found in turn, until nothing changes (expectation and maximisation):

    expectation     given the judge, the positions of texts and rungs, with their errors           positions.py
    maximisation    given these, the parameters of the judge that make the answers most probable   parameters.py
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...types import FloatArray
from .bias import find_bias_sd
from .model import JudgeModel, Posterior, SoftAnswers
from .parameters import (
    FEW_LADDERS,
    NOISE,
    RUNG_SD,
    SPREAD,
    divide_shift_variance,
    find_residuals,
    first_guess,
    fit_answering,
    fit_correlations,
    fit_deviations,
    fit_noise,
    median_stretch,
    put_on_scale,
)
from .positions import positions, settle
from .rising import falling_ladders, sees_rise
from .sample import choose_answers, leave_out
from .sharpness import Lengths, find_deviations, find_sharpness

_ROUNDS = 300
# Parameters go round in a circle where they changed by so much in each of so many rounds, and not by less than before.
_CIRCLE = 50
_LARGE_CHANGE = 0.01
_TOLERANCE = 1e-4  # largest change of a parameter in the last round; JudgeModel.converged
# Distance between neighbouring rungs of the median ladder, in rungs of the scale, which expects 1. Below this, which
# includes all that is negative, the ladder does not rise in the judge's eyes.
_LEAST_STRETCH = 0.05
# Log-odds between the worst and the best rung. A judge that puts less between them sees no difference.
_LEAST_NATS = 0.2
# Parameters whose changes decide whether the fit has converged, beside rung_sd.
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
    """The judge's parameters, fitted to these answers, but for those about `falling_ladders`, in three passes.

    1. As if the noise of answers were independent, because residuals look correlated while ladders are not yet where
       their answers put them.
    2. With the correlations of the noise.
    3. With the judge's sharpness on each context: before, all differences in length counted as stretch of the ladders
       (sharpness.py).

    A judge that turns out not to see the rungs rise is returned at once, with rungs_rise False.
    """
    judge = first_guess(answers)
    if not sees_rise(answers):
        return replace(judge, rungs_rise=False)
    # The judge sees rungs rise, so that a ladder that falls is a bad one. It would pass for noise that answers about
    # the same texts share, and so make all answers worth less.
    answers = leave_out(answers, falling_ladders(answers))

    judge, posterior = _iterate(answers, judge, independent=True)
    if not judge.rungs_rise:
        return judge
    judge, posterior = _iterate(answers, judge, posterior)
    if not judge.rungs_rise:
        return judge
    converged_without_sharpness = judge.converged

    judge, log_sharpness = _divide_length(answers, judge, posterior)
    judge, posterior = _iterate(answers, judge, posterior, log_sharpness=log_sharpness)
    if not judge.rungs_rise:
        return judge
    return replace(
        divide_shift_variance(judge),
        bias_sd=find_bias_sd(answers, judge, posterior),
        converged=judge.converged and converged_without_sharpness,
    )


def _iterate(
    answers: SoftAnswers,
    judge: JudgeModel,
    start: Posterior | None = None,
    *,
    log_sharpness: FloatArray | None = None,
    independent: bool = False,
) -> tuple[JudgeModel, Posterior]:
    """Rounds of expectation and maximisation until no parameter changes. Returns the judge and the last positions.

    start : positions to begin from; None: the prior's
    log_sharpness : of the judge on each context, 0 for the usual, shape (n_ladders,), as `_divide_length` gives it;
        the standard deviation of the ladders' stretch then stays as it is. None: the judge is equally sharp
        everywhere, and ladders differ in length because they are stretched
    independent : the correlations of the noise are not fitted, and stay as they are
    """
    posterior = start
    changes: list[float] = []
    while len(changes) < _ROUNDS:
        if _goes_in_circles(changes):
            if not judge.noise_known:
                break
            # Of few answers by a sharp judge, any noise explains the positions that it leads to, and none stays.
            judge = replace(judge, noise=NOISE, spread=SPREAD, noise_known=False)
            changes = []
        before = judge
        prior = judge.prior(answers.n_ladders, log_sharpness)
        posterior, difference_vars = settle(answers, judge, posterior, prior)
        judge = fit_answering(judge, answers, posterior, difference_vars)
        residuals = find_residuals(judge, answers, posterior, difference_vars)
        if judge.noise_known:
            judge = fit_noise(judge, residuals)
        if not independent:
            judge = fit_correlations(judge, answers, posterior, residuals)
        stretch = median_stretch(posterior)
        ladder_nats = judge.discrimination * stretch * (judge.n_rungs - 1)
        if stretch < _LEAST_STRETCH or ladder_nats < _LEAST_NATS:
            return replace(judge, rungs_rise=False, converged=False), posterior
        judge, posterior = put_on_scale(judge, posterior)
        judge = fit_deviations(judge, posterior, answers.target_ladder)
        if log_sharpness is not None:
            shift, _, uneven = judge.rung_sd
            _, stretch_sd, _ = before.rung_sd
            judge = replace(judge, rung_sd=(shift, stretch_sd, uneven))
        changes.append(_change(before, judge))
        if changes[-1] < _TOLERANCE and posterior.settled.all():
            return replace(judge, converged=True), posterior
    assert posterior is not None
    return replace(judge, converged=False), posterior


def _divide_length(answers: SoftAnswers, judge: JudgeModel, posterior: Posterior) -> tuple[JudgeModel, FloatArray]:
    """Divide the ladders' differences in length between their stretch and the judge's sharpness.

    returns : the judge with both standard deviations, and the log of its sharpness on each context, shape (n_ladders,)
    """
    lengths = Lengths.measure(answers, posterior, judge)
    deviations = find_deviations(lengths, prior=RUNG_SD[1], n_prior=FEW_LADDERS)
    shift, _, uneven = judge.rung_sd
    judge = replace(
        judge,
        rung_sd=(shift, deviations.stretch, uneven),
        sharpness_sd=deviations.sharpness,
        spread_sd=deviations.spread,
        sharpness_told=deviations.told_apart,
    )
    log_sharpness, _ = find_sharpness(lengths, judge)
    return judge, log_sharpness


def _goes_in_circles(changes: list[float]) -> bool:
    """Whether the last rounds came no nearer to an end. changes : of the parameters, in each round so far"""
    earlier, latest = changes[:-_CIRCLE], changes[-_CIRCLE:]
    return bool(earlier) and min(latest) > max(0.9 * min(earlier), _LARGE_CHANGE)


def _change(before: JudgeModel, after: JudgeModel) -> float:
    """The largest change of a parameter, relative to its former value where that is above 1."""
    old = _parameters(before)
    new = _parameters(after)
    finite = np.isfinite(old)  # log_tie is -inf where the protocol has no Similar
    change = np.abs(new[finite] - old[finite]) / np.maximum(1.0, np.abs(old[finite]))
    return float(change.max())


def _parameters(judge: JudgeModel) -> FloatArray:
    """The values of _FITTED, then the three of rung_sd."""
    return np.array([*(getattr(judge, name) for name in _FITTED), *judge.rung_sd])
