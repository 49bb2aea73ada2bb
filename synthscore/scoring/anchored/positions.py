"""Answers + what the judge is like -> where the texts stand: Newton's method on a concave function, then Laplace.

    sum over answers  w [ p_B log P_B + p_W log P_W + p_S log P_S ]  -  1/2 (r - level)' K (r - level)
        -  1/2 (t - mean)^2 / sd^2

Targets are compared with rungs alone, so that they are independent of each other given their ladder: the system falls
apart into one of N x N for each ladder (Schur complement), whatever the number of targets.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...types import BoolArray, FloatArray, IntArray
from .correlation import Evidence
from .model import JudgeModel, Posterior, Prior, SoftAnswers, margin, variance
from .sharpness import Lengths, find_sharpness

_STEP = 2.0  # nats by which one Newton step may change a log-odds
_STEPS = 100  # steps with fixed weights
_TOLERANCE = 1e-4  # rungs that the last of these may move a text; the remaining error is of the order of its square
_REWEIGHTED = 100  # steps with weights that are computed anew for each
_SETTLED = 3e-4  # rungs that the last of these may move a text


def positions(answers: SoftAnswers, judge: JudgeModel, prior: Prior | None = None) -> Posterior:
    """The posterior of all targets and rungs under this judge; the errors of targets include those of the scale.

    A ladder that has settled moves no more, so that other ladders do not change it. Not settling is part of the result:
    Posterior.settled.
    prior : with one text on each ladder, as Scale.prior makes it; None: the judge's own
    """
    if prior is None:
        posterior, search = _place_contexts(answers, judge)
    else:
        search = _Search(answers, replace(judge, target_sd=judge.text_sd, context_sd=0.0), prior=prior)
        posterior, _ = search.settle()
    off_middle = posterior.mean - (judge.n_rungs + 1) / 2
    by_sharpness = (posterior.sharpness_sd[answers.target_ladder] * off_middle) ** 2
    by_bias = (judge.bias_sd * search.lean) ** 2
    variance = posterior.sd**2 + judge.scale_variance(posterior.mean) + (by_sharpness + by_bias)
    return replace(posterior, sd=np.sqrt(variance))


def _place_contexts(answers: SoftAnswers, judge: JudgeModel) -> tuple[Posterior, _Search]:
    """Where ladders and their texts stand, by the judge's own prior.

    Answers say only where a ladder and its texts stand relative to each other. So what sets a context apart is first
    all given to its ladder; then its texts get their part.
    """
    shift, stretch, uneven = judge.rung_sd
    as_ladders = replace(judge, rung_sd=(math.hypot(shift, judge.context_sd), stretch, uneven), context_sd=0.0)
    prior = as_ladders.prior(answers.n_ladders)
    if judge.sharpness_sd:
        equal = as_ladders.equally_sharp
        plain, _ = settle(answers, equal)
        sharpness, sharpness_sd = find_sharpness(Lengths.measure(answers, plain, equal), judge)
        prior = replace(prior, sharpness=sharpness, sharpness_sd=sharpness_sd)
    search = _Search(answers, as_ladders, prior=prior)
    posterior, _ = search.settle()
    if judge.context_sd:
        posterior = _give_texts_their_part(posterior, search.shared, answers, judge, as_ladders)
    return posterior, search


def _give_texts_their_part(
    posterior: Posterior, shared: FloatArray, answers: SoftAnswers, judge: JudgeModel, as_ladders: JudgeModel
) -> Posterior:
    """Give the texts their part (u) of what sets a context apart, which was all given to its ladder (s).

        s = shift - u,   E(u | s) = -(1 - rho) s,   rho = var(shift) / var(s)

    Ladder and texts move together, by u.

    shared : covariances of targets and rungs, shape (n_targets, N)
    as_ladders : the judge by whom the ladder was given all of it
    """
    n = answers.n_rungs
    ladder = answers.target_ladder
    total = as_ladders.rung_sd[0] ** 2
    part = 1 - judge.rung_sd[0] ** 2 / total
    weight = total * as_ladders.rung_precision().sum(axis=1)  # E(s | rungs) is weight @ (rungs - level)
    unknown = total - total * weight.sum()
    spread = part**2 * unknown + part * (1 - part) * total
    move = -part * (posterior.rungs - np.arange(1.0, n + 1)) @ weight
    known = np.einsum("n,cnm,m->c", weight, posterior.rung_cov, weight)
    variance = posterior.sd**2 - 2 * part * shared @ weight + part**2 * known[ladder] + spread
    carry = np.eye(n) - part * weight[None, :]
    return replace(
        posterior,
        mean=posterior.mean + move[ladder],
        sd=np.sqrt(variance),
        rungs=posterior.rungs + move[:, None],
        rung_cov=carry @ posterior.rung_cov @ carry.T + spread,
    )


def solve(
    answers: SoftAnswers, judge: JudgeModel, start: Posterior | None = None, prior: Prior | None = None
) -> tuple[Posterior, FloatArray]:
    """The posterior where each answer has its weight at `start`, and the posterior variance of x_first - x_second.

    The weight is that of the probabilities expected at the positions, not of the answer itself: otherwise answers that
    noise has made clearer would weigh more.
    start : positions to begin from; None: the prior's, and the answers' own weights
    """
    search = _Search(answers, judge, start, prior)
    weight = search.evidence.weight(answers.probs) if start is None else search.weight()
    return search.result(weight, search.climb(weight))


def settle(
    answers: SoftAnswers, judge: JudgeModel, start: Posterior | None = None, prior: Prior | None = None
) -> tuple[Posterior, FloatArray]:
    """As `solve`, where each answer has its weight at the positions that come out."""
    return _Search(answers, judge, start, prior).settle()


class _Search:
    """Positions on their way to the maximum."""

    def __init__(
        self, answers: SoftAnswers, judge: JudgeModel, start: Posterior | None = None, prior: Prior | None = None
    ) -> None:
        self.answers = answers
        self.judge = judge
        self.started = start is not None
        self.evidence = Evidence(answers, judge)
        self.prior = prior or judge.prior(answers.n_ladders)
        self.sharp = judge.discrimination * np.exp(self.prior.sharpness)  # nats a rung, of each ladder
        if start is None:
            self.rungs = self.prior.rungs.copy()
            self.targets = np.full(answers.n_targets, judge.target_mean)
        else:
            self.rungs = start.rungs.copy()
            self.targets = start.mean.copy()
        self.pace = np.ones(answers.n_ladders)  # the share of Newton's step that each ladder makes
        self.last: tuple[FloatArray, FloatArray, FloatArray]  # step of rungs and targets, and the largest of a ladder
        self.about = answers.first >= answers.n_rungs  # answers about a target; the others are about two rungs
        self.target = answers.first[self.about] - answers.n_rungs

    def probs(self) -> FloatArray:
        return self.judge.probs(log_odds(self.answers, self.judge, self.rungs, self.targets, self.prior.sharpness))

    def weight(self) -> FloatArray:
        """The weight of each answer, at the positions as they are."""
        return self.evidence.weight(self.probs())

    def newton(self, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Newton's step of rungs and targets. Also sets system, precision and ratio, for `result`, and lean, for
        `positions`."""
        answers, about, target, n = self.answers, self.about, self.target, self.answers.n_rungs
        ladders = answers.target_ladder
        n_targets = answers.n_targets
        size = answers.n_ladders * n
        probs = self.probs()
        a = self.sharp[answers.ladder]
        prior = self.judge.target_sd**-2.0
        # First and minus second derivative of each answer by x_first - x_second.
        push = weight * a * (answers.margin - margin(probs))
        pull = weight * a**2 * variance(probs)
        grad_targets = np.bincount(target, push[about], n_targets) - prior * (self.targets - self.judge.target_mean)
        self.precision = np.bincount(target, pull[about], n_targets) + prior  # of each target given the rungs
        # Rungs by which a bias of one nat moves each target: almost 0 where it is asked about in both orders.
        lean = pull / a * answers.sign
        self.lean = np.bincount(target, lean[about], n_targets) / self.precision
        cross = np.bincount(target * n + answers.second[about], pull[about], n_targets * n).reshape(n_targets, n)
        rung = answers.ladder[about] * n + answers.second[about]
        grad = np.bincount(rung, -push[about], size).astype(np.float64)  # bincount of no answers gives integers
        system = self.prior.precision.copy()
        system[:, np.arange(n), np.arange(n)] += np.bincount(rung, pull[about], size).reshape(-1, n)
        among_rungs = ~about
        ladder = answers.ladder[among_rungs]
        first = answers.first[among_rungs]
        second = answers.second[among_rungs]
        for i, j, sign in ((first, first, 1), (second, second, 1), (first, second, -1), (second, first, -1)):
            np.add.at(system, (ladder, i, j), sign * pull[among_rungs])
        grad += np.bincount(ladder * n + first, push[among_rungs], size)
        grad -= np.bincount(ladder * n + second, push[among_rungs], size)
        off_rungs = self.rungs - self.prior.rungs
        grad_rungs = grad.reshape(-1, n) - np.einsum("cn,cnm->cm", off_rungs, self.prior.precision)
        # The Schur complement: each ladder's system after its targets are eliminated.
        self.ratio = cross / self.precision[:, None]
        system -= _sum_by(self.ratio[:, :, None] * cross[:, None, :], ladders, answers.n_ladders)
        grad_rungs += _sum_by(self.ratio * grad_targets[:, None], ladders, answers.n_ladders)
        self.system = system
        step_rungs = np.asarray(np.linalg.solve(system, grad_rungs[..., None])[..., 0], dtype=np.float64)
        step_targets = grad_targets / self.precision + (self.ratio * step_rungs[ladders]).sum(axis=1)
        return step_rungs, step_targets

    def step(self, weight: FloatArray, moving: BoolArray) -> FloatArray:
        """Move the ladders that still move by a step; returns the largest step of each, rungs, shape (n_ladders,).

        A ladder whose steps go back and forth, which new weights can cause, makes half of each step from then on.
        """
        step_rungs, step_targets = self.newton(weight)
        ladders = self.answers.target_ladder
        largest: FloatArray = np.abs(step_rungs).max(axis=1)
        np.maximum.at(largest, ladders, np.abs(step_targets))
        last_rungs, last_targets, last_largest = self.last
        self.last = step_rungs, step_targets, largest
        along = (step_rungs * last_rungs).sum(axis=1) + np.bincount(ladders, step_targets * last_targets, len(largest))
        turned_back = (along < 0) & (largest > last_largest / 2)
        self.pace[turned_back] /= 2
        scale = moving * self.pace * np.minimum(1.0, _STEP / self.sharp / np.maximum(largest, 1e-300))
        self.rungs += scale[:, None] * step_rungs
        self.targets += scale[ladders] * step_targets
        return largest

    def climb(self, weight: FloatArray | None) -> BoolArray:
        """Steps until nothing moves; which ladders settled, shape (n_ladders,).

        weight : of each answer; None: computed anew for each step
        """
        self.pace[:] = 1.0
        self.last = np.zeros_like(self.rungs), np.zeros_like(self.targets), np.full(len(self.rungs), np.inf)
        moving = np.ones(len(self.rungs), dtype=bool)
        n_steps, tolerance = (_REWEIGHTED, _SETTLED) if weight is None else (_STEPS, _TOLERANCE)
        for _ in range(n_steps):
            step_weight = self.weight() if weight is None else weight
            moving &= self.step(step_weight, moving) >= tolerance
            if not moving.any():
                break
        return np.logical_not(moving)

    def settle(self) -> tuple[Posterior, FloatArray]:
        """What the function `settle` returns."""
        if not self.started:
            self.climb(self.evidence.weight(self.answers.probs))  # A ladder that this leaves moving settles below.
        settled = self.climb(None)
        return self.result(self.weight(), settled)

    def result(self, weight: FloatArray, settled: BoolArray) -> tuple[Posterior, FloatArray]:
        """What the function `solve` returns, at the positions as they are."""
        self.newton(weight)
        answers = self.answers
        about = self.about
        among_rungs = ~about
        cov = np.asarray(np.linalg.inv(self.system), dtype=np.float64)
        self.shared = np.einsum("tn,tnm->tm", self.ratio, cov[answers.target_ladder])  # of each target and the rungs
        variances = 1 / self.precision + (self.shared * self.ratio).sum(axis=1)
        difference_vars = np.empty(len(answers))
        ladder = answers.ladder
        first = answers.first
        second = answers.second
        difference_vars[about] = cov[ladder, second, second][about] + variances[self.target]
        difference_vars[about] -= 2 * self.shared[self.target, second[about]]
        ladder = ladder[among_rungs]
        first = first[among_rungs]
        second = second[among_rungs]
        variance_first = cov[ladder, first, first]
        variance_second = cov[ladder, second, second]
        difference_vars[among_rungs] = variance_first + variance_second - 2 * cov[ladder, first, second]
        n_answers: IntArray = np.bincount(self.target, minlength=answers.n_targets)
        posterior = Posterior(
            mean=self.targets,
            sd=np.sqrt(variances),
            rungs=self.rungs,
            rung_cov=cov,
            n_answers=n_answers,
            settled=settled,
            sharpness=self.prior.sharpness,
            sharpness_sd=self.prior.sharpness_sd,
        )
        return posterior, np.maximum(difference_vars, 0.0)


def log_odds_at(answers: SoftAnswers, judge: JudgeModel, posterior: Posterior) -> FloatArray:
    """d of each answer at the positions of the posterior, nats."""
    return log_odds(answers, judge, posterior.rungs, posterior.mean, posterior.sharpness)


def log_odds(
    answers: SoftAnswers, judge: JudgeModel, rungs: FloatArray, targets: FloatArray, sharpness: FloatArray
) -> FloatArray:
    """d of each answer, nats."""
    is_rung = answers.first < answers.n_rungs
    first = rungs[answers.ladder, np.where(is_rung, answers.first, 0)]
    if not is_rung.all():
        first = np.where(is_rung, first, targets[np.where(is_rung, 0, answers.first - answers.n_rungs)])
    difference = first - rungs[answers.ladder, answers.second]
    sharp = judge.discrimination * np.exp(sharpness)[answers.ladder]
    d: FloatArray = sharp * difference + judge.position_bias * answers.sign
    return d


def _sum_by(values: FloatArray, groups: IntArray, n_groups: int) -> FloatArray:
    """Sums of rows by group, shape (n_groups, ...); np.add.at is many times slower."""
    width = int(np.prod(values.shape[1:]))
    index = groups[:, None] * width + np.arange(width)
    sums: FloatArray = np.bincount(index.ravel(), values.ravel(), n_groups * width).astype(np.float64)
    return sums.reshape(n_groups, *values.shape[1:])
