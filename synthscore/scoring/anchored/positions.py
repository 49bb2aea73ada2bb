"""Answers + what the judge is like -> where the texts stand: Newton's method on a concave function, then Laplace.

    sum over answers  w [ p_B log P_B + p_W log P_W + p_S log P_S ]  -  1/2 (r - level)' K (r - level)
        -  1/2 (t - mean)^2 / sd^2

Targets that are compared with rungs alone are independent of each other given their ladder, so that the system falls
apart into one of N x N for each ladder (Schur complement), whatever the number of targets.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...errors import InputError
from ...types import BoolArray, FloatArray, IntArray
from .model import Answers, JudgeModel, Posterior, Prior, variance

_STEP = 2.0  # nats by which a Newton step may change a log-odds
_STEPS = 100
_TOLERANCE = 1e-4  # rungs: Newton's last step; what it leaves is of the order of its square
_REWEIGHTED, _SETTLED = 100, 3e-4  # steps with new weights, and the rungs by which the last one may move a text


def positions(answers: Answers, judge: JudgeModel, prior: Prior | None = None) -> Posterior:
    """The posterior of all targets and rungs under this judge; the errors of targets are those of the scale, too.

    A ladder that has settled moves no more: where others settle does not change it. Not settling is part of the result:
    Posterior.settled.
    prior : None for the judge's own
    """
    shift, stretch, uneven = judge.rung_sd
    if prior is None:  # answers tell only where ladders and texts stand to each other: that is found first
        together = replace(judge, rung_sd=(math.hypot(shift, judge.context_sd), stretch, uneven), context_sd=0.0)
    else:  # each ladder has one text
        together = replace(judge, target_sd=judge.text_sd, context_sd=0.0)
    search = _Search(answers, together, None, prior)
    search.climb(judge.weight(answers.probs))  # where that stops short, reweighting goes on, and tells
    moving = np.ones(answers.n_ladders, dtype=bool)
    for _ in range(_REWEIGHTED):
        moving &= search.step(search.weight(), moving) >= _SETTLED
        if not moving.any():
            break
    posterior, _ = search.result(search.weight(), ~moving)
    if prior is None and judge.context_sd:
        posterior = _shared_out(posterior, search.system.shared, answers, judge, together)
    variance = posterior.sd**2 + judge.scale_variance(posterior.mean)
    if answers.target_length is not None:
        variance = variance + (answers.target_length * (judge.length_stderr or 0.0)) ** 2
    return replace(posterior, sd=np.sqrt(variance))


def _shared_out(
    posterior: Posterior, shared: FloatArray, answers: Answers, judge: JudgeModel, together: JudgeModel
) -> Posterior:
    """What sets a context apart, which was given to its ladder (s), given in part (u) to its texts.

        s = shift - u,   E(u | s) = -(1 - rho) s,   rho = var(shift) / var(s)

    Ladder and texts move together, by u. shared : covariances of targets and rungs, shape (n_targets, N)
    """
    n, ladder = answers.n_rungs, answers.target_ladder
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
    answers: Answers, judge: JudgeModel, start: Posterior | None = None, prior: Prior | None = None
) -> tuple[Posterior, FloatArray]:
    """The posterior where each answer has its weight at `start`, and the posterior variance of x_first - x_second.

    A weight at the positions, not at the answer itself: answers that noise has made clearer would weigh more.
    start : positions to begin from; None: the prior's, and the answers' own weights
    """
    search = _Search(answers, judge, start, prior)
    weight = judge.weight(answers.probs) if start is None else search.weight()
    return search.result(weight, search.climb(weight))


class _Search:
    """Positions on their way to the maximum."""

    def __init__(self, answers: Answers, judge: JudgeModel, start: Posterior | None, prior: Prior | None) -> None:
        self.answers, self.judge = answers, judge
        self.prior = prior or judge.prior(answers.n_ladders, answers.n_targets)
        self.rungs = (self.prior.rungs if start is None else start.rungs).copy()
        self.targets = (self.prior.targets if start is None else start.mean).copy()
        kind = _Star if (np.minimum(answers.first, answers.second) < answers.n_rungs).all() else _Dense
        self.system = kind(answers, judge, self.prior)

    def probs(self) -> FloatArray:
        return self.judge.probs(log_odds(self.answers, self.judge, self.rungs, self.targets))

    def weight(self) -> FloatArray:
        """Of each answer, at the positions as they are."""
        weight: FloatArray = self.judge.weight(self.probs())
        return weight

    def newton(self, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
        probs, a = self.probs(), self.judge.discrimination
        push = weight * a * (self.answers.margin - (probs[:, 0] - probs[:, 1]) / 2)
        pull = weight * a**2 * variance(probs)
        return self.system.step(push, pull, self.rungs - self.prior.rungs, self.targets - self.prior.targets)

    def step(self, weight: FloatArray, moving: BoolArray) -> FloatArray:
        """One step of the ladders that move; how far it is from done, rungs, shape (n_ladders,)."""
        step_rungs, step_targets = self.newton(weight)
        largest: FloatArray = np.abs(step_rungs).max(axis=1)
        np.maximum.at(largest, self.answers.target_ladder, np.abs(step_targets))
        scale = moving * np.minimum(1.0, _STEP / self.judge.discrimination / np.maximum(largest, 1e-300))
        self.rungs += scale[:, None] * step_rungs
        self.targets += scale[self.answers.target_ladder] * step_targets
        return largest

    def climb(self, weight: FloatArray) -> BoolArray:
        """Steps with these weights; which ladders came to rest, shape (n_ladders,)."""
        moving = np.ones(self.answers.n_ladders, dtype=bool)
        for _ in range(_STEPS):
            moving &= self.step(weight, moving) >= _TOLERANCE
            if not moving.any():
                break
        return ~moving

    def result(self, weight: FloatArray, settled: BoolArray) -> tuple[Posterior, FloatArray]:
        self.newton(weight)
        sd, rung_cov, differences = self.system.errors()
        n = self.answers.n_rungs
        counted = [codes[codes >= n] - n for codes in (self.answers.first, self.answers.second)]
        n_answers: IntArray = np.bincount(np.concatenate(counted), minlength=self.answers.n_targets)
        posterior = Posterior(self.targets, sd, self.rungs, rung_cov, n_answers, settled)
        return posterior, np.maximum(differences, 0.0)


def log_odds(answers: Answers, judge: JudgeModel, rungs: FloatArray, targets: FloatArray) -> FloatArray:
    """d of each answer, nats."""
    if judge.length_effect is not None:
        if answers.rung_length is None or answers.target_length is None:
            raise InputError(
                "the judge's model holds the effect of length, and the answers do not say how long their texts are, "
                "expected both or neither. Give the lengths (debias='length')"
            )
        rungs = rungs + judge.length_effect * answers.rung_length
        targets = targets + judge.length_effect * answers.target_length
    difference = _of(answers, answers.first, rungs, targets) - _of(answers, answers.second, rungs, targets)
    d: FloatArray = judge.discrimination * difference + judge.position_bias * answers.sign
    return d


def _of(answers: Answers, codes: IntArray, rungs: FloatArray, targets: FloatArray) -> FloatArray:
    is_rung = codes < answers.n_rungs
    found: FloatArray = rungs[answers.ladder, np.where(is_rung, codes, 0)]
    if not is_rung.all():
        found = np.where(is_rung, found, targets[np.where(is_rung, 0, codes - answers.n_rungs)])
    return found


def _summed(values: FloatArray, groups: IntArray, n_groups: int) -> FloatArray:
    """Sums of rows by group, shape (n_groups, ...); np.add.at is many times slower."""
    width = int(np.prod(values.shape[1:]))
    places = groups[:, None] * width + np.arange(width)
    sums: FloatArray = np.bincount(places.ravel(), values.ravel(), n_groups * width).astype(np.float64)
    return sums.reshape(n_groups, *values.shape[1:])


class _Star:
    """The system where every answer has a rung on one side."""

    def __init__(self, answers: Answers, judge: JudgeModel, prior: Prior) -> None:
        self.answers, self.prior, self.precision = answers, judge.target_sd**-2.0, prior.precision
        n = answers.n_rungs
        target_first = answers.first >= n
        self.mixed = target_first | (answers.second >= n)
        self.side = np.where(target_first, 1.0, -1.0)  # of the target's push
        self.target = np.where(target_first, answers.first, answers.second)[self.mixed] - n
        self.rung = np.where(target_first, answers.second, answers.first)
        self.size = answers.n_ladders * n
        self.place = answers.ladder * n + self.rung

    def step(
        self, push: FloatArray, pull: FloatArray, off_rungs: FloatArray, off_targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Newton's step. push, pull : first and minus second derivative of each answer by x_first - x_second"""
        answers, n, mixed = self.answers, self.answers.n_rungs, self.mixed
        ladders, targets = answers.target_ladder, len(off_targets)
        signed = push * self.side
        grad_targets = np.bincount(self.target, signed[mixed], targets) - self.prior * off_targets
        self.own = np.bincount(self.target, pull[mixed], targets) + self.prior
        at = self.target * n + self.rung[mixed]
        self.cross = np.bincount(at, pull[mixed], targets * n).reshape(targets, n)
        grad = np.bincount(self.place[mixed], -signed[mixed], self.size).astype(np.float64)  # of no answers: integers
        own = np.bincount(self.place[mixed], pull[mixed], self.size).reshape(-1, n)
        system = self.precision.copy()
        system[:, np.arange(n), np.arange(n)] += own
        plain = ~mixed
        ladder, first, second = answers.ladder[plain], answers.first[plain], answers.second[plain]
        for a, b, sign in ((first, first, 1), (second, second, 1), (first, second, -1), (second, first, -1)):
            np.add.at(system, (ladder, a, b), sign * pull[plain])
        grad += np.bincount(ladder * n + first, push[plain], self.size)
        grad -= np.bincount(ladder * n + second, push[plain], self.size)
        grad_rungs = grad.reshape(-1, n) - np.einsum("cn,cnm->cm", off_rungs, self.precision)
        # Without the targets: what is left of each ladder's system when theirs is solved for given the rungs.
        ratio = self.cross / self.own[:, None]
        system -= _summed(ratio[:, :, None] * self.cross[:, None, :], ladders, answers.n_ladders)
        grad_rungs += _summed(ratio * grad_targets[:, None], ladders, answers.n_ladders)
        self.system, self.ratio = system, ratio
        step_rungs = np.asarray(np.linalg.solve(system, grad_rungs[..., None])[..., 0], dtype=np.float64)
        step_targets = grad_targets / self.own + (ratio * step_rungs[ladders]).sum(axis=1)
        return step_rungs, step_targets

    def errors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Standard deviations of the targets, covariances of the rungs, variances of x_first - x_second; all of the
        last step's system."""
        answers, mixed, plain = self.answers, self.mixed, ~self.mixed
        cov = np.asarray(np.linalg.inv(self.system), dtype=np.float64)
        shared = np.einsum("tn,tnm->tm", self.ratio, cov[answers.target_ladder])  # of each target and the rungs
        self.shared = shared
        variances = 1 / self.own + (shared * self.ratio).sum(axis=1)
        differences = np.empty(len(answers))
        ladder, rung = answers.ladder, self.rung
        differences[mixed] = cov[ladder, rung, rung][mixed] + variances[self.target]
        differences[mixed] -= 2 * shared[self.target, rung[mixed]]
        ladder, first, second = ladder[plain], answers.first[plain], answers.second[plain]
        differences[plain] = cov[ladder, first, first] + cov[ladder, second, second] - 2 * cov[ladder, first, second]
        return np.sqrt(variances), cov, differences


class _Dense:
    """The system where targets are compared with each other, too: one matrix for each ladder."""

    def __init__(self, answers: Answers, judge: JudgeModel, prior: Prior) -> None:
        self.answers, self.prior, self.precision = answers, judge.target_sd**-2.0, prior.precision
        n = answers.n_rungs
        place = np.empty(answers.n_targets, dtype=np.int64)  # of each target in its ladder's system
        self.members = [np.flatnonzero(answers.target_ladder == ladder) for ladder in range(answers.n_ladders)]
        for members in self.members:
            place[members] = n + np.arange(len(members))
        codes = np.concatenate([np.arange(n), place])
        self.first, self.second = codes[answers.first], codes[answers.second]
        self.rows = [np.flatnonzero(answers.ladder == ladder) for ladder in range(answers.n_ladders)]

    def step(
        self, push: FloatArray, pull: FloatArray, off_rungs: FloatArray, off_targets: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        n = self.answers.n_rungs
        step_rungs, step_targets = np.empty_like(off_rungs), np.empty_like(off_targets)
        self.systems = []
        for ladder, (members, rows) in enumerate(zip(self.members, self.rows, strict=True)):
            system = np.zeros((n + len(members), n + len(members)))
            system[:n, :n] = self.precision[ladder]
            system[range(n, len(system)), range(n, len(system))] = self.prior
            grad = np.concatenate([-self.precision[ladder] @ off_rungs[ladder], -self.prior * off_targets[members]])
            first, second = self.first[rows], self.second[rows]
            for a, b, sign in ((first, first, 1), (second, second, 1), (first, second, -1), (second, first, -1)):
                np.add.at(system, (a, b), sign * pull[rows])
            np.add.at(grad, first, push[rows])
            np.subtract.at(grad, second, push[rows])
            step = np.linalg.solve(system, grad)
            step_rungs[ladder], step_targets[members] = step[:n], step[n:]
            self.systems.append(system)
        return step_rungs, step_targets

    def errors(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        n = self.answers.n_rungs
        sd, cov = np.empty(self.answers.n_targets), np.empty((self.answers.n_ladders, n, n))
        differences = np.empty(len(self.answers))
        self.shared = np.empty((self.answers.n_targets, n))
        for ladder, (members, rows, system) in enumerate(zip(self.members, self.rows, self.systems, strict=True)):
            inverse = np.linalg.inv(system)
            cov[ladder], sd[members] = inverse[:n, :n], np.sqrt(np.diag(inverse)[n:])
            self.shared[members] = inverse[n:, :n]
            first, second = self.first[rows], self.second[rows]
            differences[rows] = inverse[first, first] + inverse[second, second] - 2 * inverse[first, second]
        return sd, cov, differences
