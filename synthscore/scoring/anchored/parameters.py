"""Answers, and where their texts stand -> what the judge is like. Pure NumPy.

`first_guess` makes a judge of the priors alone. Then there is a function for each group of parameters, which takes the
judge as it is and returns it with better ones; together they are the maximisation step of fit.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...types import FloatArray, IntArray
from .correlation import Evidence, find_pair_correlation, find_rung_correlation
from .model import (
    JudgeModel,
    Posterior,
    Residuals,
    SoftAnswers,
    centred_levels,
    half_margin,
    label_probs,
    variance,
)
from .positions import log_odds_at

# The priors, and how many ladders, targets or answers they count as. Lengths are in rungs of a ladder of 5.
RUNG_SD = (0.3, 0.2, 0.3)  # shift; stretch, relative; unevenness
FEW_LADDERS = 2.0
TARGET_SD = 1.5
FEW_TARGETS = 2.0
NOISE = 0.05
SPREAD = 0.7  # noise of about 0.8 nats in the log-odds
FEW_ANSWERS = 20.0

_LEAST_SD = 0.02  # Deviations of ladders are taken to be at least this, so that their covariance can be inverted.
_LEAST_NOISE = 1e-4
_MOST_STEPS = 50  # of Newton's method
_LARGEST_STEP = 0.5  # change of a parameter in one of these steps
_SETTLED = 1e-8  # largest change of the last step
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)  # for the expectation over a normal variable
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def first_guess(answers: SoftAnswers) -> JudgeModel:
    """The judge by the priors alone."""
    n = answers.n_rungs
    unit = unit_of(n)
    shift, stretch, uneven = RUNG_SD
    has_similar = (answers.probs[:, 2] > 0).any()
    return JudgeModel(
        n_rungs=n,
        discrimination=1.0 / unit,
        position_bias=0.0,
        log_tie=0.0 if has_similar else -np.inf,
        noise=NOISE,
        spread=SPREAD,
        rung_sd=(shift * unit, stretch, uneven * unit),
        target_mean=(n + 1) / 2,
        target_sd=TARGET_SD * unit,
        n_answers=len(answers),
        n_ladders=answers.n_ladders,
        n_targets=answers.n_targets,
        bias_known=bool(_tells_bias(answers).any()),
        converged=False,
    )


def unit_of(n_rungs: int) -> float:
    """How many rungs of this ladder are one rung of a ladder of N = 5, for which the priors are stated."""
    return (n_rungs - 1) / 4


def _tells_bias(answers: SoftAnswers) -> FloatArray:
    """1 for each answer that can tell the position bias, 0 for others, shape (n_answers,).

    Where targets are asked about in one order only, their positions take up any bias, and only pairs of rungs tell it.
    """
    among_rungs = answers.first < answers.n_rungs
    both_orders = len(set(np.sign(answers.sign[~among_rungs]).tolist())) > 1
    return (among_rungs | both_orders).astype(np.float64)


def fit_answering(
    judge: JudgeModel, answers: SoftAnswers, posterior: Posterior, difference_vars: FloatArray
) -> JudgeModel:
    """Discrimination a, bias b and ties nu that make the answers most probable, by Newton's method.

        sum of w E[p_B log P_B + p_W log P_W + p_S log P_S]        d = a x + b sign
        x = exp(sharpness of the context) (x_first - x_second)

    The expectation is over the posterior of x, by Gauss-Hermite quadrature.

    difference_vars : posterior variance of x, rungs squared, shape (n_answers,)
    """
    sign = answers.sign[:, None]
    expected = judge.probs(log_odds_at(answers, judge, posterior))
    weight = Evidence(answers, judge).weight(expected)[:, None] * _WEIGHTS
    bias_sign = _tells_bias(answers)[:, None] * sign  # 0 where an answer cannot tell the bias
    # x at each node of the quadrature, shape (n_answers, n_nodes).
    bare = replace(judge, discrimination=1.0, position_bias=0.0)
    x = log_odds_at(answers, bare, posterior)[:, None] + np.sqrt(difference_vars)[:, None] * _NODES
    observed = answers.half_margin[:, None]
    similar = answers.probs[:, 2][:, None]

    # The parameters in the order a, b, log nu, and which of them are fitted.
    values = np.array([judge.discrimination, judge.position_bias, judge.log_tie])
    free = np.array([True, judge.bias_known, np.isfinite(judge.log_tie)])
    inside = np.ix_(free, free)
    ridge = 1e-9 * np.eye(free.sum())  # a system can then be solved even where nothing tells
    for _ in range(_MOST_STEPS):
        probs = label_probs(values[0] * x + values[1] * sign, values[2])
        mean = half_margin(probs)
        tie = probs[..., 2]
        residual = weight * (observed - mean)
        tie_residual = weight * (similar - tie)
        equations = np.array([(residual * x).sum(), (residual * bias_sign).sum(), tie_residual.sum()])

        # Minus the derivatives of these three equations, which are to become 0, by a, b and log nu. Not symmetric: the
        # bias acts on all answers (sign), but only those that tell it enter its equation (bias_sign).
        var = weight * variance(probs)
        cov = -weight * mean * tie
        tie_var = weight * tie * (1 - tie)
        var_x = var * x
        tie_by_discrimination = (cov * x).sum()
        of_discrimination = [(var_x * x).sum(), (var_x * sign).sum(), tie_by_discrimination]
        of_bias = [(var_x * bias_sign).sum(), (var * sign * bias_sign).sum(), (cov * bias_sign).sum()]
        of_ties = [tie_by_discrimination, (cov * sign).sum(), tie_var.sum()]
        jacobian = np.array([of_discrimination, of_bias, of_ties])

        step = np.zeros(3)
        step[free] = np.linalg.solve(jacobian[inside] + ridge, equations[free])
        step = np.clip(step, -_LARGEST_STEP, _LARGEST_STEP)
        step[0] = max(step[0], -values[0] / 2)  # The discrimination stays above 0.
        values[free] += step[free]
        if np.abs(step).max() < _SETTLED:
            break
    discrimination, position_bias, log_tie = values.tolist()
    return replace(judge, discrimination=discrimination, position_bias=position_bias, log_tie=log_tie)


def find_residuals(
    judge: JudgeModel, answers: SoftAnswers, posterior: Posterior, difference_vars: FloatArray
) -> Residuals:
    """How far each answer is from what the judge is expected to say at the positions.

    difference_vars : as in `fit_answering`
    """
    probs = judge.probs(log_odds_at(answers, judge, posterior))
    return Residuals(
        probs=probs,
        variance=np.maximum(variance(probs), 1e-12),
        residual=answers.half_margin - half_margin(probs),
        sampling=answers.sampling,
        hidden=judge.discrimination**2 * difference_vars,
    )


def fit_noise(judge: JudgeModel, residuals: Residuals) -> JudgeModel:
    """Noise and spread, by non-negative least squares on relative errors. Squared residuals are expected to be

        noise V + spread V^2,        of n samples V / n + (1 - 1/n) (noise V + spread V^2)

    Residuals are too small by V^2 hidden, because the positions are fitted to these very answers: that is added.
    The prior enters as two further rows, one for each parameter.
    """
    from scipy.optimize import nnls

    var = residuals.variance
    sampling = residuals.sampling
    squared = residuals.residual**2 + var**2 * residuals.hidden
    expected = judge.noise * var + judge.spread * var**2
    terms = np.stack([var, var**2], axis=1)
    if sampling is not None:
        expected = sampling * var + (1 - sampling) * expected
        squared = squared - sampling * var
        terms *= (1 - sampling)[:, None]
    design = terms / expected[:, None]
    observed = squared / expected
    prior = np.sqrt(FEW_ANSWERS) * np.diag([1 / NOISE, 1 / SPREAD])
    rows = np.vstack([design, prior])
    values = np.append(observed, np.full(2, np.sqrt(FEW_ANSWERS)))
    (noise, spread), _ = nnls(rows, values)
    return replace(judge, noise=float(max(noise, _LEAST_NOISE)), spread=float(spread))


def fit_correlations(judge: JudgeModel, answers: SoftAnswers, posterior: Posterior, residuals: Residuals) -> JudgeModel:
    """The correlations of the noise: between answers about the same texts, and about neighbouring rungs."""
    judge = replace(judge, pair_correlation=find_pair_correlation(answers, judge, residuals))
    return replace(judge, rung_correlation=find_rung_correlation(answers, judge, posterior, residuals))


def median_stretch(posterior: Posterior) -> float:
    """The distance between neighbouring rungs of the median ladder, in rungs of the scale; 1 after `put_on_scale`."""
    if not len(posterior.rungs):
        return 1.0
    level = centred_levels(posterior.rungs.shape[1])
    return float(np.median(posterior.rungs @ level / (level @ level)))


def put_on_scale(judge: JudgeModel, posterior: Posterior) -> tuple[JudgeModel, Posterior]:
    """The judge and the positions on the scale on which the median ladder is 1..N.

    Answers fix neither the origin of a scale nor its unit, so the median ladder has to. Of the judge only the
    discrimination, nats a rung, changes here; `fit_deviations` then finds target_mean, target_sd and rung_sd anew.
    """
    stretch = median_stretch(posterior)
    middle = (judge.n_rungs + 1) / 2
    centres = posterior.rungs.mean(axis=1)
    centre = middle
    if len(centres):
        centre = float(np.median(centres))
    moved = replace(
        posterior,
        rungs=middle + (posterior.rungs - centre) / stretch,
        mean=middle + (posterior.mean - centre) / stretch,
        sd=posterior.sd / stretch,
        rung_cov=posterior.rung_cov / stretch**2,
    )
    return replace(judge, discrimination=judge.discrimination * stretch), moved


def fit_deviations(judge: JudgeModel, posterior: Posterior, target_ladder: IntArray) -> JudgeModel:
    """Mean and standard deviation of the targets, and the three standard deviations of ladders, rung_sd.

    They are those of the true positions, which are only estimated: the squared deviation of each is that of its
    posterior mean plus its posterior variance. The priors count as further deviations.

    Where no ladder has two targets, differences between ladders look like differences between texts, and the prior of
    the shift stands.
    """
    asked = posterior.n_answers > 0
    several_targets = np.bincount(target_ladder[asked]).max(initial=0) > 1
    judge = replace(judge, rung_sd=_rung_deviations(posterior, judge.n_rungs, shift_known=several_targets))

    mean = judge.target_mean
    if asked.any():
        mean = float(posterior.mean[asked].mean())
    squares = (posterior.mean[asked] - mean) ** 2 + posterior.sd[asked] ** 2
    prior_var = (TARGET_SD * unit_of(judge.n_rungs)) ** 2
    target_var = _pool(squares, prior_var, FEW_TARGETS)
    return replace(judge, target_mean=mean, target_sd=float(np.sqrt(target_var)))


def _rung_deviations(posterior: Posterior, n: int, *, shift_known: bool) -> tuple[float, float, float]:
    """JudgeModel.rung_sd by these positions, with the priors.

    The differences of a ladder's rungs from 1..N are turned to a basis whose first direction is all rungs alike, whose
    second is the levels, and whose others are what is left. Shift adds N var(shift) to the first alone, stretch
    |level|^2 var(stretch) to the second alone, and unevenness its variance to each of them.
    """
    unit = unit_of(n)
    level = centred_levels(n)
    directions = np.column_stack([np.ones(n), level, np.eye(n)[:, : n - 2]])
    basis = np.linalg.qr(directions)[0].T
    off_level = posterior.rungs - np.arange(1.0, n + 1)
    error_vars = np.einsum("kn,cnm,km->ck", basis, posterior.rung_cov, basis)
    squares = (off_level @ basis.T) ** 2 + error_vars

    prior_shift, prior_stretch, prior_uneven = RUNG_SD
    uneven_var = _pool(squares[:, 2:].ravel(), (prior_uneven * unit) ** 2, FEW_LADDERS)
    stretch_squares = (squares[:, 1] - uneven_var) / (level @ level)
    stretch_var = _pool(stretch_squares, prior_stretch**2, FEW_LADDERS)
    shift_var = (prior_shift * unit) ** 2
    if shift_known:
        shift_squares = (squares[:, 0] - uneven_var) / n
        shift_var = _pool(shift_squares, shift_var, FEW_LADDERS)

    least_var = (_LEAST_SD * unit) ** 2
    least = np.array([least_var, _LEAST_SD**2, least_var])
    shift, stretch, uneven = np.sqrt(np.maximum([shift_var, stretch_var, uneven_var], least)).tolist()
    return shift, stretch, uneven


def _pool(squares: FloatArray, prior: float, n_prior: float) -> float:
    """The mean of squared deviations together with their prior mean, which counts as n_prior of them."""
    return float((squares.sum() + n_prior * prior) / (len(squares) + n_prior))


def divide_shift_variance(judge: JudgeModel) -> JudgeModel:
    """The judge with the variance of the shift of contexts divided among ladders (rung_sd) and texts (context_sd).

    Answers cannot tell a ladder that is low from texts that are good, so the prior has to divide what sets contexts
    apart. Ladders get no more than the prior of their shift, and the texts of contexts get the rest.
    """
    shift, stretch, uneven = judge.rung_sd
    prior_shift = RUNG_SD[0] * unit_of(judge.n_rungs)
    ladder_shift = min(shift, prior_shift)
    context_sd = float(np.sqrt(shift**2 - ladder_shift**2))
    return replace(judge, rung_sd=(ladder_shift, stretch, uneven), context_sd=context_sd)
