"""Answers + what the judge is like -> where the texts stand, and how sure that is. Pure NumPy.

The positions of rungs r and targets t are those at which the log-posterior is largest,

    sum over answers of  w [ p_B log P_B + p_W log P_W + p_S log P_S ]        what was answered, weighted
        - 1/2 (r - level)' K (r - level)                                      rungs are expected near 1..N
        - 1/2 (t - target_mean)^2 / target_sd^2                               targets near the mean of all targets

It is concave, so Newton's method finds it. Errors are the inverse of its curvature there (Laplace's approximation).

Targets are compared with rungs alone, so they are independent of each other given their ladder. Newton's system
therefore falls apart into one of N x N for each ladder (the Schur complement), however many targets there are.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...types import BoolArray, FloatArray, IntArray
from .correlation import Evidence
from .model import JudgeModel, Posterior, Prior, SoftAnswers, half_margin, variance
from .sharpness import Lengths, find_sharpness

_LARGEST_STEP = 2.0  # nats by which one Newton step may change a log-odds
# Steps with weights that stay, and with weights that are computed anew for each step, as they depend on positions.
_STEPS_FIXED = 100
_STEPS_REWEIGHTED = 100
# A ladder is settled once a step moves its texts by fewer rungs than this. With fixed weights the error that remains is
# of the order of the step's square. With weights that follow the positions, a step is about a tenth of the last one: on
# simulated answers less than 5e-5 rungs remained, where standard errors are 0.3 rungs or more, and a smaller tolerance
# would only take more steps.
_SETTLED_FIXED = 1e-4
_SETTLED_REWEIGHTED = 3e-4


def positions(answers: SoftAnswers, judge: JudgeModel, prior: Prior | None = None) -> Posterior:
    """The posterior of all targets and rungs under this judge; the errors of targets include those of the scale.

    A ladder that has settled moves no more, so other ladders do not change it. Not settling is part of the result:
    Posterior.settled.
    prior : with one text on each ladder, as Scale.prior makes it; None: the judge's own
    """
    if prior is None:
        posterior, search = _place_contexts(answers, judge)
    else:
        search = _Search(answers, replace(judge, target_sd=judge.text_sd, context_sd=0.0), prior=prior)
        posterior, _ = search.settle()
    # What the posterior takes as known adds to the errors: the scale, how sharp the judge is on this context (an error
    # of which moves a text in proportion to its distance from the middle), and its bias on this text.
    off_middle = posterior.mean - (judge.n_rungs + 1) / 2
    sharpness_var = (posterior.sharpness_sd[answers.target_ladder] * off_middle) ** 2
    bias_var = (judge.bias_sd * search.lean) ** 2
    total_var = posterior.sd**2 + judge.scale_variance(posterior.mean) + (sharpness_var + bias_var)
    return replace(posterior, sd=np.sqrt(total_var))


def _place_contexts(answers: SoftAnswers, judge: JudgeModel) -> tuple[Posterior, _Search]:
    """Where ladders and their texts stand, by the judge's own prior.

    Answers say only where the texts of a context stand relative to its ladder. So what sets a context apart from others
    is first all given to its ladder (whose shift then has the variance of both), and then divided.
    """
    shift, stretch, uneven = judge.rung_sd
    whole_shift = math.hypot(shift, judge.context_sd)
    as_ladders = replace(judge, rung_sd=(whole_shift, stretch, uneven), context_sd=0.0)
    prior = as_ladders.prior(answers.n_ladders)
    if judge.sharpness_sd:
        equally_sharp = as_ladders.equally_sharp
        by_equal, _ = settle(answers, equally_sharp)
        lengths = Lengths.measure(answers, by_equal, equally_sharp)
        sharpness, sharpness_sd = find_sharpness(lengths, judge)
        prior = replace(prior, sharpness=sharpness, sharpness_sd=sharpness_sd)
    search = _Search(answers, as_ladders, prior=prior)
    posterior, _ = search.settle()
    if judge.context_sd:
        posterior = _move_contexts(posterior, search.shared, answers, judge, as_ladders)
    return posterior, search


def _move_contexts(
    posterior: Posterior, shared: FloatArray, answers: SoftAnswers, judge: JudgeModel, as_ladders: JudgeModel
) -> Posterior:
    """Move each context, its ladder and texts together, by what its texts as a whole are better than usual (u).

    That was given to the ladder as a part of its shift s, with the opposite sign, since answers cannot tell them apart:

        s = shift - u,    E(u | s) = -part s,    part = 1 - var(shift) / var(s)

    As s itself is only estimated, E(s | rungs) = weight @ (rungs - level), the variance of u adds to the errors, and
    what rungs and texts have in common with s is taken into account.

    shared : covariances of each target and its rungs, shape (n_targets, N), rungs squared
    judge : has the standard deviations of both, rung_sd and context_sd. as_ladders : has all of it in rung_sd
    """
    n = answers.n_rungs
    ladder = answers.target_ladder
    total = as_ladders.rung_sd[0] ** 2  # var(s)
    part = 1 - judge.rung_sd[0] ** 2 / total
    weight = total * as_ladders.rung_precision().sum(axis=1)
    unknown = total - total * weight.sum()  # var(s | rungs)
    added = part**2 * unknown + part * (1 - part) * total  # var(u | rungs)
    move = -part * (posterior.rungs - np.arange(1.0, n + 1)) @ weight
    shift_var = np.einsum("n,cnm,m->c", weight, posterior.rung_cov, weight)  # var(E(s | rungs))
    moved_var = posterior.sd**2 - 2 * part * shared @ weight + part**2 * shift_var[ladder] + added
    carry = np.eye(n) - part * weight[None, :]  # rungs + move, as a matrix
    return replace(
        posterior,
        mean=posterior.mean + move[ladder],
        sd=np.sqrt(moved_var),
        rungs=posterior.rungs + move[:, None],
        rung_cov=carry @ posterior.rung_cov @ carry.T + added,
    )


def solve(
    answers: SoftAnswers, judge: JudgeModel, start: Posterior | None = None, prior: Prior | None = None
) -> tuple[Posterior, FloatArray]:
    """The posterior, where the weights of answers are held fixed; and the posterior variance of the difference that
    each answer is about, exp(sharpness of the context) (x_first - x_second), shape (n_answers,), rungs squared.

    Each has the weight of the probabilities that are expected at `start`, not its own: otherwise answers that noise
    has made clearer would weigh more.
    start : positions to begin from; None: the prior's, and the answers' own weights
    """
    search = _Search(answers, judge, start, prior)
    weight = search.evidence.weight(answers.probs) if start is None else search.weight()
    return search.result(weight, search.climb(weight))


def settle(
    answers: SoftAnswers, judge: JudgeModel, start: Posterior | None = None, prior: Prior | None = None
) -> tuple[Posterior, FloatArray]:
    """As `solve`, but weights are computed anew after every step: they are those at the positions that come out."""
    return _Search(answers, judge, start, prior).settle()


class _Search:
    """Positions on their way to the maximum.

    rungs, targets : where they stand now, rungs of the scale; shape (n_ladders, N) and (n_targets,)
    pace : the share of Newton's step that each ladder makes, shape (n_ladders,)

    `newton` also leaves these, at the positions for which it was called:

    precision : of each target given the rungs, 1 / rungs squared, shape (n_targets,)
    ratio : rungs by which each target moves when one of its rungs moves by one, shape (n_targets, N)
    system : minus the second derivatives by each ladder's rungs, targets eliminated, shape (n_ladders, N, N)
    lean : rungs by which a bias of one nat would move each target, shape (n_targets,)

    After `result`, shared : covariances of each target and its rungs, shape (n_targets, N)
    """

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
        self.pace = np.ones(answers.n_ladders)
        self.last: tuple[FloatArray, FloatArray, FloatArray]  # step of rungs and targets, and the largest of a ladder
        self.about = answers.first >= answers.n_rungs  # answers about a target; the others are about two rungs
        self.target = answers.first[self.about] - answers.n_rungs
        # Of answers about a target, the places of their rung among all rungs, and among the rungs of all targets.
        second = answers.second[self.about]
        self.rung = answers.ladder[self.about] * answers.n_rungs + second
        self.cell = self.target * answers.n_rungs + second
        self.among_rungs = ~self.about
        self.rung_pairs = (
            answers.ladder[self.among_rungs],
            answers.first[self.among_rungs],
            answers.second[self.among_rungs],
        )

    def probs(self) -> FloatArray:
        return self.judge.probs(log_odds(self.answers, self.judge, self.rungs, self.targets, self.prior.sharpness))

    def weight(self) -> FloatArray:
        """The weight of each answer, at the positions as they are."""
        return self.evidence.weight(self.probs())

    def newton(self, weight: FloatArray | None) -> tuple[FloatArray, FloatArray]:
        """Newton's step of rungs and targets, in rungs, shape (n_ladders, N) and (n_targets,). It is not made here.

        weight : of each answer, shape (n_answers,); None: those at the positions as they are
        """
        answers = self.answers
        about = self.about
        target = self.target
        n = answers.n_rungs
        n_targets = answers.n_targets
        probs = self.probs()
        if weight is None:
            weight = self.evidence.weight(probs)
        a = self.sharp[answers.ladder]
        # The first derivative of each answer's log-likelihood by x_first - x_second, and minus the second.
        push = weight * a * (answers.half_margin - half_margin(probs))
        pull = weight * a**2 * variance(probs)

        prior_precision = self.judge.target_sd**-2.0
        off_mean = self.targets - self.judge.target_mean
        grad_targets = np.bincount(target, push[about], n_targets) - prior_precision * off_mean
        self.precision = np.bincount(target, pull[about], n_targets) + prior_precision
        lean = pull / a * answers.sign  # The two orders have opposite signs, and nearly cancel where both were asked.
        self.lean = np.bincount(target, lean[about], n_targets) / self.precision
        grad_rungs, system = self._derivatives_of_rungs(push, pull)

        # The Schur complement: each ladder's system after its targets are eliminated.
        ladders = answers.target_ladder
        cross = np.bincount(self.cell, pull[about], n_targets * n).reshape(n_targets, n)
        self.ratio = cross / self.precision[:, None]
        system -= _sum_by(self.ratio[:, :, None] * cross[:, None, :], ladders, answers.n_ladders)
        grad_rungs += _sum_by(self.ratio * grad_targets[:, None], ladders, answers.n_ladders)
        self.system = system
        step_rungs = np.asarray(np.linalg.solve(system, grad_rungs[..., None])[..., 0], dtype=np.float64)
        follow = (self.ratio * step_rungs[ladders]).sum(axis=1)
        return step_rungs, grad_targets / self.precision + follow

    def _derivatives_of_rungs(self, push: FloatArray, pull: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The gradient by each ladder's rungs, shape (n_ladders, N), and minus the second derivatives, (.., N, N).

        push, pull : as in `newton`. Of an answer about a target, the rung is the second text, so its push has the
            opposite sign
        """
        answers = self.answers
        about = self.about
        n = answers.n_rungs
        size = answers.n_ladders * n
        diagonal = np.arange(n)
        grad = np.bincount(self.rung, -push[about], size).astype(np.float64)  # bincount of no answers gives integers
        system = self.prior.precision.copy()
        system[:, diagonal, diagonal] += np.bincount(self.rung, pull[about], size).reshape(-1, n)

        ladder, first, second = self.rung_pairs
        pull = pull[self.among_rungs]
        np.add.at(system, (ladder, first, first), pull)
        np.add.at(system, (ladder, second, second), pull)
        np.add.at(system, (ladder, first, second), -pull)
        np.add.at(system, (ladder, second, first), -pull)
        push = push[self.among_rungs]
        grad += np.bincount(ladder * n + first, push, size)
        grad -= np.bincount(ladder * n + second, push, size)

        off_prior = self.rungs - self.prior.rungs
        prior_grad = np.einsum("cn,cnm->cm", off_prior, self.prior.precision)
        return grad.reshape(-1, n) - prior_grad, system

    def step(self, weight: FloatArray | None, moving: BoolArray) -> FloatArray:
        """Move the ladders that still move by a step; returns the largest step of each, rungs, shape (n_ladders,).

        New weights can make a ladder's steps go back and forth. Each time that a step points against the last one and
        is more than half as long, the ladder halves its pace.
        """
        step_rungs, step_targets = self.newton(weight)
        ladders = self.answers.target_ladder
        largest: FloatArray = np.abs(step_rungs).max(axis=1)
        np.maximum.at(largest, ladders, np.abs(step_targets))
        last_rungs, last_targets, last_largest = self.last
        self.last = step_rungs, step_targets, largest
        # Below 0 where this step and the last one, as vectors, point in opposite directions.
        along = (step_rungs * last_rungs).sum(axis=1) + np.bincount(ladders, step_targets * last_targets, len(largest))
        turned_back = (along < 0) & (largest > last_largest / 2)
        self.pace[turned_back] /= 2
        allowed = _LARGEST_STEP / self.sharp / np.maximum(largest, 1e-300)
        share = moving * self.pace * np.minimum(1.0, allowed)
        self.rungs += share[:, None] * step_rungs
        self.targets += share[ladders] * step_targets
        return largest

    def climb(self, weight: FloatArray | None) -> BoolArray:
        """Make steps until nothing moves. Returns which ladders settled, shape (n_ladders,).

        weight : of each answer; None: computed anew for each step
        """
        n_ladders = len(self.rungs)
        self.pace[:] = 1.0
        self.last = np.zeros_like(self.rungs), np.zeros_like(self.targets), np.full(n_ladders, np.inf)
        moving = np.ones(n_ladders, dtype=bool)
        n_steps, tolerance = _STEPS_FIXED, _SETTLED_FIXED
        if weight is None:
            n_steps, tolerance = _STEPS_REWEIGHTED, _SETTLED_REWEIGHTED
        for _ in range(n_steps):
            moving &= self.step(weight, moving) >= tolerance
            if not moving.any():
                break
        return np.logical_not(moving)

    def settle(self) -> tuple[Posterior, FloatArray]:
        """What the function `settle` returns."""
        if not self.started:
            self.climb(self.evidence.weight(self.answers.probs))  # A ladder that this leaves moving settles below.
        settled = self.climb(None)
        return self.result(None, settled)

    def result(self, weight: FloatArray | None, settled: BoolArray) -> tuple[Posterior, FloatArray]:
        """What the function `solve` returns, at the positions as they are."""
        self.newton(weight)  # for precision, ratio, system and lean at the last positions; its step is not made
        answers = self.answers
        rung_cov = np.asarray(np.linalg.inv(self.system), dtype=np.float64)
        self.shared = np.einsum("tn,tnm->tm", self.ratio, rung_cov[answers.target_ladder])
        target_var = 1 / self.precision + (self.shared * self.ratio).sum(axis=1)
        n_answers: IntArray = np.bincount(self.target, minlength=answers.n_targets)
        posterior = Posterior(
            mean=self.targets,
            sd=np.sqrt(target_var),
            rungs=self.rungs,
            rung_cov=rung_cov,
            n_answers=n_answers,
            settled=settled,
            sharpness=self.prior.sharpness,
            sharpness_sd=self.prior.sharpness_sd,
        )
        return posterior, self._difference_vars(rung_cov, target_var)

    def _difference_vars(self, rung_cov: FloatArray, target_var: FloatArray) -> FloatArray:
        """exp(2 sharpness) (var(first) + var(second) - 2 cov(first, second)) of the two texts of each answer, shape
        (n_answers,)."""
        answers = self.answers
        variances = np.empty(len(answers))

        about = self.about
        ladder = answers.ladder[about]
        rung = answers.second[about]
        variances[about] = rung_cov[ladder, rung, rung] + target_var[self.target]
        variances[about] -= 2 * self.shared[self.target, rung]

        ladder, first, second = self.rung_pairs
        first_var = rung_cov[ladder, first, first]
        second_var = rung_cov[ladder, second, second]
        variances[self.among_rungs] = first_var + second_var - 2 * rung_cov[ladder, first, second]
        return np.maximum(variances, 0.0) * np.exp(2 * self.prior.sharpness)[answers.ladder]


def log_odds_at(answers: SoftAnswers, judge: JudgeModel, posterior: Posterior) -> FloatArray:
    """As `log_odds`, at the positions of the posterior."""
    return log_odds(answers, judge, posterior.rungs, posterior.mean, posterior.sharpness)


def log_odds(
    answers: SoftAnswers, judge: JudgeModel, rungs: FloatArray, targets: FloatArray, sharpness: FloatArray
) -> FloatArray:
    """Log-odds that the judge should give each answer, nats, shape (n_answers,); above 0: the first text is better.

        d = a (x_first - x_second) + b sign        a = discrimination * exp(sharpness of the context), b = position bias

    rungs, targets : positions, rungs of the scale, shape (n_ladders, N) and (n_targets,)
    sharpness : log, relative to the usual, shape (n_ladders,)
    """
    n = answers.n_rungs
    is_rung = answers.first < n
    first = rungs[answers.ladder, np.where(is_rung, answers.first, 0)]
    if not is_rung.all():
        target = np.where(is_rung, 0, answers.first - n)
        first = np.where(is_rung, first, targets[target])
    difference = first - rungs[answers.ladder, answers.second]
    sharp = judge.discrimination * np.exp(sharpness)[answers.ladder]
    d: FloatArray = sharp * difference + judge.position_bias * answers.sign
    return d


def _sum_by(values: FloatArray, groups: IntArray, n_groups: int) -> FloatArray:
    """Sums of rows by group, shape (n_groups, ...); np.add.at is many times slower."""
    width = math.prod(values.shape[1:])
    index = groups[:, None] * width + np.arange(width)
    sums: FloatArray = np.bincount(index.ravel(), values.ravel(), n_groups * width).astype(np.float64)
    return sums.reshape(n_groups, *values.shape[1:])
