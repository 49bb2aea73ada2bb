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
from .sharpness import Lengths, sharpness

_STEP = 2.0  # nats by which a Newton step may change a log-odds
_STEPS = 100
_TOLERANCE = 1e-4  # rungs: Newton's last step; what it leaves is of the order of its square
_REWEIGHTED = 100
_SETTLED = 3e-4  # steps with new weights, and the rungs by which the last one may move a text


def positions(answers: SoftAnswers, judge: JudgeModel, prior: Prior | None = None) -> Posterior:
    """The posterior of all targets and rungs under this judge; the errors of targets are those of the scale, too.

    A ladder that has settled moves no more: where others settle does not change it. Not settling is part of the result:
    Posterior.settled.
    prior : None for the judge's own
    """
    shift, stretch, uneven = judge.rung_sd
    if prior is None:  # answers tell only where ladders and texts stand to each other: that is found first
        together = replace(judge, rung_sd=(math.hypot(shift, judge.context_sd), stretch, uneven), context_sd=0.0)
        prior = together.prior(answers.n_ladders)
        if judge.sharpness_sd:
            alike = together.alike
            found, _ = _at_rest(answers, alike, alike.prior(answers.n_ladders))
            told, unsure = sharpness(Lengths.of(answers, found, alike), judge)
            prior = replace(prior, sharpness=told, sharpness_sd=unsure)
        posterior, search = _at_rest(answers, together, prior)
        if judge.context_sd:
            posterior = _shared_out(posterior, search.shared, answers, judge, together)
    else:  # each ladder has one text
        posterior, search = _at_rest(answers, replace(judge, target_sd=judge.text_sd, context_sd=0.0), prior)
    variance = posterior.sd**2 + judge.scale_variance(posterior.mean)
    unsure = posterior.sharpness_sd[answers.target_ladder]
    variance += (unsure * (posterior.mean - (judge.n_rungs + 1) / 2)) ** 2 + (judge.bias_sd * search.lean) ** 2
    return replace(posterior, sd=np.sqrt(variance))


def _at_rest(answers: SoftAnswers, judge: JudgeModel, prior: Prior) -> tuple[Posterior, _Search]:
    search = _Search(answers, judge, None, prior)
    return search.rest()[0], search


def _shared_out(
    posterior: Posterior, shared: FloatArray, answers: SoftAnswers, judge: JudgeModel, together: JudgeModel
) -> Posterior:
    """What sets a context apart, which was given to its ladder (s), given in part (u) to its texts.

        s = shift - u,   E(u | s) = -(1 - rho) s,   rho = var(shift) / var(s)

    Ladder and texts move together, by u. shared : covariances of targets and rungs, shape (n_targets, N)
    """
    n = answers.n_rungs
    ladder = answers.target_ladder
    total = together.rung_sd[0] ** 2
    part = 1 - judge.rung_sd[0] ** 2 / total
    of_rungs = total * together.rung_precision().sum(axis=1)  # E(s | rungs) is of_rungs @ (rungs - level)
    unseen = total - total * of_rungs.sum()
    spread = part**2 * unseen + part * (1 - part) * total
    move = -part * (posterior.rungs - np.arange(1.0, n + 1)) @ of_rungs
    seen = np.einsum("n,cnm,m->c", of_rungs, posterior.rung_cov, of_rungs)
    variance = posterior.sd**2 - 2 * part * shared @ of_rungs + part**2 * seen[ladder] + spread
    carry = np.eye(n) - part * of_rungs[None, :]
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

    A weight at the positions, not at the answer itself: answers that noise has made clearer would weigh more.
    start : positions to begin from; None: the prior's, and the answers' own weights
    """
    search = _Search(answers, judge, start, prior)
    weight = search.evidence.weight(answers.probs) if start is None else search.weight()
    return search.result(weight, search.climb(weight))


def settle(
    answers: SoftAnswers, judge: JudgeModel, start: Posterior | None = None, prior: Prior | None = None
) -> tuple[Posterior, FloatArray]:
    """As `solve`, where each answer has its weight at the positions that are found."""
    return _Search(answers, judge, start, prior).rest()


class _Search:
    """Positions on their way to the maximum."""

    def __init__(self, answers: SoftAnswers, judge: JudgeModel, start: Posterior | None, prior: Prior | None) -> None:
        self.answers = answers
        self.judge = judge
        self.started = start is not None
        self.evidence = Evidence(answers, judge)
        self.prior = prior or judge.prior(answers.n_ladders)
        self.sharp = judge.discrimination * np.exp(self.prior.sharpness)  # nats a rung, of each ladder
        self.rungs = (self.prior.rungs if start is None else start.rungs).copy()
        self.targets = np.full(answers.n_targets, judge.target_mean) if start is None else start.mean.copy()
        self.pace = np.ones(answers.n_ladders)  # by how much of Newton's step each ladder moves
        self.last: tuple[FloatArray, FloatArray, FloatArray]  # step of rungs and targets, and the largest of a ladder
        self.about = answers.first >= answers.n_rungs  # which answers are about a target; others are about rungs alone
        self.target = answers.first[self.about] - answers.n_rungs

    def probs(self) -> FloatArray:
        return self.judge.probs(log_odds(self.answers, self.judge, self.rungs, self.targets, self.prior.sharpness))

    def weight(self) -> FloatArray:
        """Of each answer, at the positions as they are."""
        return self.evidence.weight(self.probs())

    def newton(self, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Newton's step of rungs and targets. Its system is kept for `result`."""
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
        self.own = np.bincount(target, pull[about], n_targets) + prior
        lean = pull / a * answers.sign  # rungs by which a bias of one nat moves the target: 0 in both orders, all but
        self.lean = np.bincount(target, lean[about], n_targets) / self.own
        cross = np.bincount(target * n + answers.second[about], pull[about], n_targets * n).reshape(n_targets, n)
        place = answers.ladder * n + answers.second
        grad = np.bincount(place[about], -push[about], size).astype(np.float64)  # of no answers: integers
        system = self.prior.precision.copy()
        system[:, np.arange(n), np.arange(n)] += np.bincount(place[about], pull[about], size).reshape(-1, n)
        ladder, first, second = (codes[~about] for codes in (answers.ladder, answers.first, answers.second))
        for i, j, sign in ((first, first, 1), (second, second, 1), (first, second, -1), (second, first, -1)):
            np.add.at(system, (ladder, i, j), sign * pull[~about])
        grad += np.bincount(ladder * n + first, push[~about], size)
        grad -= np.bincount(ladder * n + second, push[~about], size)
        off_rungs = self.rungs - self.prior.rungs
        grad_rungs = grad.reshape(-1, n) - np.einsum("cn,cnm->cm", off_rungs, self.prior.precision)
        # Without the targets: what is left of each ladder's system when theirs is solved for given the rungs.
        self.ratio = cross / self.own[:, None]
        system -= _summed(self.ratio[:, :, None] * cross[:, None, :], ladders, answers.n_ladders)
        grad_rungs += _summed(self.ratio * grad_targets[:, None], ladders, answers.n_ladders)
        self.system = system
        step_rungs = np.asarray(np.linalg.solve(system, grad_rungs[..., None])[..., 0], dtype=np.float64)
        step_targets = grad_targets / self.own + (self.ratio * step_rungs[ladders]).sum(axis=1)
        return step_rungs, step_targets

    def step(self, weight: FloatArray, moving: BoolArray) -> FloatArray:
        """Move the ladders that still move by a step; how far it is from done, rungs, shape (n_ladders,).

        Where steps go back and forth, as new weights can make them, each is made by half as much from then on.
        """
        step_rungs, step_targets = self.newton(weight)
        ladders = self.answers.target_ladder
        largest: FloatArray = np.abs(step_rungs).max(axis=1)
        np.maximum.at(largest, ladders, np.abs(step_targets))
        last_rungs, last_targets, last_largest = self.last
        self.last = step_rungs, step_targets, largest
        back = (step_rungs * last_rungs).sum(axis=1) + np.bincount(ladders, step_targets * last_targets, len(largest))
        self.pace[(back < 0) & (largest > last_largest / 2)] /= 2
        scale = moving * self.pace * np.minimum(1.0, _STEP / self.sharp / np.maximum(largest, 1e-300))
        self.rungs += scale[:, None] * step_rungs
        self.targets += scale[ladders] * step_targets
        return largest

    def climb(self, weight: FloatArray | None) -> BoolArray:
        """Steps with these weights, or new ones for each (None); which ladders came to rest, shape (n_ladders,)."""
        self.pace[:] = 1.0
        self.last = np.zeros_like(self.rungs), np.zeros_like(self.targets), np.full(len(self.rungs), np.inf)
        moving = np.ones(len(self.rungs), dtype=bool)
        n_steps, tolerance = (_REWEIGHTED, _SETTLED) if weight is None else (_STEPS, _TOLERANCE)
        for _ in range(n_steps):
            moving &= self.step(self.weight() if weight is None else weight, moving) >= tolerance
            if not moving.any():
                break
        return np.logical_not(moving)

    def rest(self) -> tuple[Posterior, FloatArray]:
        """As of `settle`."""
        if not self.started:
            self.climb(self.evidence.weight(self.answers.probs))  # where that stops short, reweighting goes on
        settled = self.climb(None)
        return self.result(self.weight(), settled)

    def result(self, weight: FloatArray, settled: BoolArray) -> tuple[Posterior, FloatArray]:
        """As of `solve`, at the positions as they are."""
        self.newton(weight)
        answers, about, plain = self.answers, self.about, ~self.about
        cov = np.asarray(np.linalg.inv(self.system), dtype=np.float64)
        self.shared = np.einsum("tn,tnm->tm", self.ratio, cov[answers.target_ladder])  # of each target and the rungs
        variances = 1 / self.own + (self.shared * self.ratio).sum(axis=1)
        differences = np.empty(len(answers))
        ladder = answers.ladder
        first = answers.first
        second = answers.second
        differences[about] = cov[ladder, second, second][about] + variances[self.target]
        differences[about] -= 2 * self.shared[self.target, second[about]]
        ladder = ladder[plain]
        first = first[plain]
        second = second[plain]
        differences[plain] = cov[ladder, first, first] + cov[ladder, second, second] - 2 * cov[ladder, first, second]
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
        return posterior, np.maximum(differences, 0.0)


def log_odds_at(answers: SoftAnswers, judge: JudgeModel, posterior: Posterior) -> FloatArray:
    """d of each answer where texts stand, nats."""
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
    d: FloatArray = (
        judge.discrimination * np.exp(sharpness)[answers.ladder] * difference + judge.position_bias * answers.sign
    )
    return d


def _summed(values: FloatArray, groups: IntArray, n_groups: int) -> FloatArray:
    """Sums of rows by group, shape (n_groups, ...); np.add.at is many times slower."""
    width = int(np.prod(values.shape[1:]))
    places = groups[:, None] * width + np.arange(width)
    sums: FloatArray = np.bincount(places.ravel(), values.ravel(), n_groups * width).astype(np.float64)
    return sums.reshape(n_groups, *values.shape[1:])
