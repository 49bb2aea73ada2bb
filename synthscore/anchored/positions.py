"""Answers + what the judge is like -> where the texts stand: Newton's method on a concave function, then Laplace.

    sum over answers  w [ p_B log P_B + p_W log P_W + p_S log P_S ]  -  1/2 (r - level)' K (r - level)
        -  1/2 (t - mean)^2 / sd^2

Targets that are held against rungs alone are independent of each other given their ladder, so that the system falls
apart into one of N x N for each ladder (Schur complement), whatever the number of targets.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..types import FloatArray, IntArray
from .model import Answers, JudgeModel, Posterior, variance

_STEP = 2.0  # nats by which a Newton step may change a log-odds
_STEPS = 100
_TOLERANCE = 1e-8  # rungs
_REWEIGHTED, _SETTLED = 30, 1e-4  # rounds of new weights, and the rungs by which the last one may move a target


def positions(answers: Answers, judge: JudgeModel) -> Posterior:
    """The posterior of all targets and rungs under this judge; the errors of targets are those of the scale, too.

    raises : ArithmeticError, where Newton's method does not end
    """
    posterior, _ = solve(answers, judge)
    for _ in range(_REWEIGHTED):
        before = posterior
        posterior, _ = solve(answers, judge, before)
        if np.abs(posterior.mean - before.mean).max(initial=0.0) < _SETTLED:
            break
    return replace(posterior, sd=np.sqrt(posterior.sd**2 + judge.scale_variance(posterior.mean)))


def solve(answers: Answers, judge: JudgeModel, start: Posterior | None = None) -> tuple[Posterior, FloatArray]:
    """The posterior where each answer has its weight at `start`, and the posterior variance of x_first - x_second.

    A weight at the positions, not at the answer itself: answers that noise has made clearer would weigh more.
    start : positions to begin from; None: the answers' own weights
    """
    n, n_targets = answers.n_rungs, answers.n_targets
    level = np.arange(1.0, n + 1)
    if start is None:
        rungs, targets = np.tile(level, (answers.n_ladders, 1)), np.full(n_targets, judge.target_mean)
        weight = judge.weight(answers.probs)
    else:
        rungs, targets = start.rungs.copy(), start.mean.copy()
        weight = judge.weight(judge.probs(log_odds(answers, judge, rungs, targets)))
    margin = answers.margin
    system = _Star(answers, judge) if (np.minimum(answers.first, answers.second) < n).all() else _Dense(answers, judge)
    for _ in range(_STEPS):
        probs = judge.probs(log_odds(answers, judge, rungs, targets))
        push = weight * judge.discrimination * (margin - (probs[:, 0] - probs[:, 1]) / 2)
        pull = weight * judge.discrimination**2 * variance(probs)
        step_rungs, step_targets = system.step(push, pull, rungs - level, targets - judge.target_mean)
        largest = np.abs(step_rungs).max(axis=1)
        np.maximum.at(largest, answers.target_ladder, np.abs(step_targets))
        scale = np.minimum(1.0, _STEP / judge.discrimination / np.maximum(largest, 1e-300))
        rungs += scale[:, None] * step_rungs
        targets += scale[answers.target_ladder] * step_targets
        if largest.max(initial=0.0) < _TOLERANCE:
            break
    else:
        raise ArithmeticError(f"positions still move by {largest.max():.2g} rungs after {_STEPS} steps")
    sd, rung_cov, differences = system.errors()
    counted = [codes[codes >= n] - n for codes in (answers.first, answers.second)]
    n_answers: IntArray = np.bincount(np.concatenate(counted), minlength=n_targets)
    return Posterior(targets, sd, rungs, rung_cov, n_answers), np.maximum(differences, 0.0)


def log_odds(answers: Answers, judge: JudgeModel, rungs: FloatArray, targets: FloatArray) -> FloatArray:
    """d of each answer, nats."""
    difference = _of(answers, answers.first, rungs, targets) - _of(answers, answers.second, rungs, targets)
    d: FloatArray = judge.discrimination * difference + judge.position_bias * answers.sign
    return d


def _of(answers: Answers, codes: IntArray, rungs: FloatArray, targets: FloatArray) -> FloatArray:
    is_rung = codes < answers.n_rungs
    found: FloatArray = rungs[answers.ladder, np.where(is_rung, codes, 0)]
    if not is_rung.all():
        found = np.where(is_rung, found, targets[np.where(is_rung, 0, codes - answers.n_rungs)])
    return found


class _Star:
    """The system where every answer has a rung on one side."""

    def __init__(self, answers: Answers, judge: JudgeModel) -> None:
        self.answers, self.prior, self.precision = answers, judge.target_sd**-2.0, judge.rung_precision()
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
        grad = np.bincount(self.place[mixed], -signed[mixed], self.size)
        own = np.bincount(self.place[mixed], pull[mixed], self.size).reshape(-1, n)
        system = np.zeros((answers.n_ladders, n, n)) + self.precision
        system[:, np.arange(n), np.arange(n)] += own
        plain = ~mixed
        ladder, first, second = answers.ladder[plain], answers.first[plain], answers.second[plain]
        for a, b, sign in ((first, first, 1), (second, second, 1), (first, second, -1), (second, first, -1)):
            np.add.at(system, (ladder, a, b), sign * pull[plain])
        grad += np.bincount(ladder * n + first, push[plain], self.size)
        grad -= np.bincount(ladder * n + second, push[plain], self.size)
        grad_rungs = grad.reshape(-1, n) - off_rungs @ self.precision
        # Without the targets: what is left of each ladder's system when theirs is solved for given the rungs.
        ratio = self.cross / self.own[:, None]
        np.subtract.at(system, ladders, ratio[:, :, None] * self.cross[:, None, :])
        np.add.at(grad_rungs, ladders, ratio * grad_targets[:, None])
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
        variances = 1 / self.own + (shared * self.ratio).sum(axis=1)
        differences = np.empty(len(answers))
        ladder, rung = answers.ladder, self.rung
        differences[mixed] = cov[ladder, rung, rung][mixed] + variances[self.target]
        differences[mixed] -= 2 * shared[self.target, rung[mixed]]
        ladder, first, second = ladder[plain], answers.first[plain], answers.second[plain]
        differences[plain] = cov[ladder, first, first] + cov[ladder, second, second] - 2 * cov[ladder, first, second]
        return np.sqrt(variances), cov, differences


class _Dense:
    """The system where targets are held against each other, too: one matrix for each ladder."""

    def __init__(self, answers: Answers, judge: JudgeModel) -> None:
        self.answers, self.prior, self.precision = answers, judge.target_sd**-2.0, judge.rung_precision()
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
            system[:n, :n] = self.precision
            system[range(n, len(system)), range(n, len(system))] = self.prior
            grad = np.concatenate([-self.precision @ off_rungs[ladder], -self.prior * off_targets[members]])
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
        for ladder, (members, rows, system) in enumerate(zip(self.members, self.rows, self.systems, strict=True)):
            inverse = np.linalg.inv(system)
            cov[ladder], sd[members] = inverse[:n, :n], np.sqrt(np.diag(inverse)[n:])
            first, second = self.first[rows], self.second[rows]
            differences[rows] = inverse[first, first] + inverse[second, second] - 2 * inverse[first, second]
        return sd, cov, differences
