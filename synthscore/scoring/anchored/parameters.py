"""Answers, and where their texts stand -> what the judge is like. Pure NumPy.

There is a function for each group of parameters, which takes the judge as it is and returns it with better ones.
Together they are the maximisation of fit.py.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...types import FloatArray, IntArray
from .correlation import Evidence, find_pair_correlation, find_rung_correlation
from .model import JudgeModel, Posterior, Residuals, SoftAnswers, centred_levels, margin, variance
from .positions import log_odds_at

# The priors of the variances count as this many ladders, targets and answers.
FEW_LADDERS = 2.0
FEW_TARGETS = 2.0
FEW_ANSWERS = 20.0
# The priors themselves.
RUNG_SD = (0.3, 0.2, 0.3)  # shift, stretch, unevenness; in rungs of N = 5, the stretch relative
TARGET_SD = 1.5  # in rungs of N = 5
NOISE = 0.05
SPREAD = 0.7  # noise of about 0.8 nats in the log-odds
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def first_guess(answers: SoftAnswers) -> JudgeModel:
    """The judge by the priors alone."""
    n = answers.n_rungs
    unit = unit_of(n)
    return JudgeModel(
        n_rungs=n,
        discrimination=1.0 / unit,
        position_bias=0.0,
        log_tie=0.0 if (answers.probs[:, 2] > 0).any() else -np.inf,
        noise=NOISE,
        spread=SPREAD,
        rung_sd=(RUNG_SD[0] * unit, RUNG_SD[1], RUNG_SD[2] * unit),
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

        sum of w E[p_B log P_B + p_W log P_W + p_S log P_S]        d = a (x_first - x_second) + b sign

    The expectation is over the posterior of x_first - x_second, by Gauss-Hermite quadrature.

    difference_vars : posterior variance of x_first - x_second, shape (n_answers,)
    """
    sign = answers.sign[:, None]
    expected = judge.probs(log_odds_at(answers, judge, posterior))
    weight = Evidence(answers, judge).weight(expected)[:, None] * _WEIGHTS
    tells = _tells_bias(answers)[:, None] * sign
    bare = replace(judge, discrimination=1.0, position_bias=0.0)
    x = log_odds_at(answers, bare, posterior)[:, None] + np.sqrt(difference_vars)[:, None] * _NODES
    observed = answers.margin[:, None]
    similar = answers.probs[:, 2][:, None]
    free = np.array([True, judge.bias_known, np.isfinite(judge.log_tie)])
    values = np.array([judge.discrimination, judge.position_bias, judge.log_tie])
    for _ in range(50):
        now = replace(judge, discrimination=values[0], position_bias=values[1], log_tie=values[2])
        probs = now.probs(values[0] * x + values[1] * sign)
        mean = margin(probs)
        tie = probs[..., 2]
        off = weight * (observed - mean)
        off_tie = weight * (similar - tie)
        grad = np.array([(off * x).sum(), (off * tells).sum(), off_tie.sum()])
        var = weight * variance(probs)
        both = -weight * mean * tie
        tied = weight * tie * (1 - tie)
        hessian = np.array(
            [
                [(var * x * x).sum(), (var * x * sign).sum(), (both * x).sum()],
                [(var * x * tells).sum(), (var * sign * tells).sum(), (both * tells).sum()],
                [(both * x).sum(), (both * sign).sum(), tied.sum()],
            ]
        )
        step = np.zeros(3)
        system = hessian[np.ix_(free, free)] + 1e-9 * np.eye(free.sum())
        step[free] = np.linalg.solve(system, grad[free])
        step = np.clip(step, -0.5, 0.5)
        step[0] = max(step[0], -values[0] / 2)  # The discrimination stays above 0.
        values[free] += step[free]
        if np.abs(step).max() < 1e-8:
            break
    return replace(judge, discrimination=float(values[0]), position_bias=float(values[1]), log_tie=float(values[2]))


def find_residuals(
    judge: JudgeModel, answers: SoftAnswers, posterior: Posterior, difference_vars: FloatArray
) -> Residuals:
    """difference_vars : as in `fit_answering`"""
    probs = judge.probs(log_odds_at(answers, judge, posterior))
    return Residuals(
        probs=probs,
        variance=np.maximum(variance(probs), 1e-12),
        residual=answers.margin - margin(probs),
        sampling=answers.sampling,
        hidden=judge.discrimination**2 * difference_vars,
    )


def fit_noise(judge: JudgeModel, off: Residuals) -> JudgeModel:
    """The parameters noise and spread of the mean squared residual, by non-negative least squares on relative errors.

        noise V + spread V^2,        of n samples V / n + (1 - 1/n) (noise V + spread V^2)

    The positions are fitted to these very answers and hide their own variance, V^2 hidden, in the residuals: it is
    added.
    """
    from scipy.optimize import nnls

    var = off.variance
    squared = off.residual**2 + var**2 * off.hidden
    expected = judge.noise * var + judge.spread * var**2
    terms = np.stack([var, var**2], axis=1)
    if off.sampling is not None:
        expected = off.sampling * var + (1 - off.sampling) * expected
        squared = squared - off.sampling * var
        terms *= (1 - off.sampling)[:, None]
    design = terms / expected[:, None]
    observed = squared / expected
    prior = np.sqrt(FEW_ANSWERS) * np.diag([1 / NOISE, 1 / SPREAD])
    rows = np.vstack([design, prior])
    values = np.append(observed, np.full(2, np.sqrt(FEW_ANSWERS)))
    (noise, spread), _ = nnls(rows, values)
    return replace(judge, noise=float(max(noise, 1e-4)), spread=float(spread))


def fit_correlations(judge: JudgeModel, answers: SoftAnswers, posterior: Posterior, off: Residuals) -> JudgeModel:
    """The correlations of the noise: between answers about the same texts, and about neighbouring rungs."""
    judge = replace(judge, pair_correlation=find_pair_correlation(answers, judge, off))
    return replace(judge, rung_correlation=find_rung_correlation(answers, judge, posterior, off))


def median_stretch(posterior: Posterior) -> float:
    """The distance between neighbouring rungs of the median ladder; 1 on the scale."""
    if not len(posterior.rungs):
        return 1.0
    level = centred_levels(posterior.rungs.shape[1])
    return float(np.median(posterior.rungs @ level / (level @ level)))


def put_on_scale(judge: JudgeModel, posterior: Posterior) -> tuple[JudgeModel, Posterior]:
    """The judge and the positions on the scale on which the median ladder is 1..N. Answers fix neither the origin of a
    scale nor its unit.
    """
    stretch = median_stretch(posterior)
    middle = (judge.n_rungs + 1) / 2
    centre = posterior.rungs.mean(axis=1)
    shift = float(np.median(centre)) if len(centre) else middle
    moved = replace(
        posterior,
        rungs=middle + (posterior.rungs - shift) / stretch,
        mean=middle + (posterior.mean - shift) / stretch,
        sd=posterior.sd / stretch,
        rung_cov=posterior.rung_cov / stretch**2,
    )
    return replace(judge, discrimination=judge.discrimination * stretch), moved


def fit_spreads(judge: JudgeModel, posterior: Posterior, target_ladder: IntArray) -> JudgeModel:
    """Variances of ladders and targets: those of the mean positions, plus the positions' own variances.

    Where no ladder has two targets, differences between ladders look like differences between texts, and the prior of
    the shift stands.
    """
    n = judge.n_rungs
    unit = unit_of(n)
    level = centred_levels(n)
    off = posterior.rungs - np.arange(1.0, n + 1)
    basis = np.linalg.qr(np.column_stack([np.ones(n), level, np.eye(n)[:, : n - 2]]))[0].T
    second = (off @ basis.T) ** 2 + np.einsum("kn,cnm,km->ck", basis, posterior.rung_cov, basis)
    # In this basis the covariance is diagonal: unevenness has a part in every direction, shift and stretch in one each.
    uneven = _pool(second[:, 2:].ravel(), (RUNG_SD[2] * unit) ** 2, FEW_LADDERS)
    stretch = _pool((second[:, 1] - uneven) / (level @ level), RUNG_SD[1] ** 2, FEW_LADDERS)
    asked = posterior.n_answers > 0
    shift = (RUNG_SD[0] * unit) ** 2
    if np.bincount(target_ladder[asked]).max(initial=0) > 1:
        shift = _pool((second[:, 0] - uneven) / n, shift, FEW_LADDERS)
    least = 0.02 * unit
    sds = np.sqrt(np.maximum([shift, stretch, uneven], [least**2, 0.02**2, least**2]))
    mean = float(posterior.mean[asked].mean()) if asked.any() else judge.target_mean
    squares = (posterior.mean[asked] - mean) ** 2 + posterior.sd[asked] ** 2
    target = _pool(squares, (TARGET_SD * unit) ** 2, FEW_TARGETS)
    rung_sd = (float(sds[0]), float(sds[1]), float(sds[2]))
    return replace(judge, rung_sd=rung_sd, target_mean=mean, target_sd=float(np.sqrt(target)))


def _pool(squares: FloatArray, prior: float, n_prior: float) -> float:
    """Their mean together with the prior, which counts n_prior times."""
    return float((squares.sum() + n_prior * prior) / (len(squares) + n_prior))


def give_texts_their_part(judge: JudgeModel) -> JudgeModel:
    """The judge whose ladders differ as wholes by no more than the prior; texts differ by the rest (context_sd).

    Answers cannot tell a ladder that is low from texts that are good.
    """
    shift, stretch, uneven = judge.rung_sd
    ladder_shift = min(shift, RUNG_SD[0] * unit_of(judge.n_rungs))
    context_sd = float(np.sqrt(shift**2 - ladder_shift**2))
    return replace(judge, rung_sd=(ladder_shift, stretch, uneven), context_sd=context_sd)
