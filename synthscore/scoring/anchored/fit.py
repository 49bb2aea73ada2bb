"""Answers -> what the judge is like, pooled over all ladders: expectation and maximisation in turn.

The positions and their errors come from positions.py (expectation); given them, the judge's parameters are those that
make the answers most probable, and the variances those that the positions show (maximisation).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...types import FloatArray
from .model import JudgeModel, Posterior, SoftAnswers, centred_levels, margin, variance
from .positions import log_odds_at, positions, solve
from .sharpness import Lengths, share, sharpness

_ROUNDS = 300
_TOLERANCE = 1e-4
_CALM = 10.0  # rounds, half of those after which the weights of answers change by less and less
_LEAST_STRETCH = 0.05  # below: the judge sees the rungs upside down
_CLEAR = 2.0  # standard errors by which answers must favour higher rungs
_LEAST_NATS = 0.2  # between the worst and the best rung, or it sees them as one
_MOST_ANSWERS = 50_000
_FEW_LADDERS = 2.0
_FEW_TARGETS = 2.0
_FEW_ANSWERS = 20.0  # how many of each the priors of the variances count as
_RUNG_SD = (0.3, 0.2, 0.3)  # prior: shift and unevenness in rungs of N = 5, stretch relative
_NOISE = 0.05
_SPREAD = 0.7  # prior: logit noise of about 0.8 nats
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(5)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()


def fit(answers: SoftAnswers) -> tuple[JudgeModel, Posterior]:
    """The judge's parameters, and the positions under them.

    The position bias is known from its opposite sign in the two orders, or from rungs against each other; where there
    are neither, it counts as 0. Not converging is part of the result: JudgeModel.converged, Posterior.settled.
    Of more than 50,000 answers, the parameters are fitted on those about some of the targets, spread over all ladders;
    which ones depends on their number alone. The positions are of all.
    """
    judge = _fit(_some(answers))
    posterior = positions(answers, judge)
    return replace(judge, converged=judge.converged and bool(posterior.settled.all())), posterior


def _some(answers: SoftAnswers, most: int = _MOST_ANSWERS) -> SoftAnswers:
    """The answers about as many targets as have `most` together, a target of every ladder before a second of any."""
    if len(answers) <= most:
        return answers
    rng = np.random.default_rng(0)
    n = answers.n_rungs
    ladder_of = answers.target_ladder
    order = np.lexsort((rng.random(answers.n_targets), ladder_of))
    starts = np.searchsorted(ladder_of[order], ladder_of[order])
    turn = np.empty(answers.n_targets, dtype=np.int64)
    turn[order] = np.arange(answers.n_targets) - starts
    order = np.lexsort((rng.permutation(answers.n_ladders)[ladder_of], turn))
    among_rungs = answers.first < n
    about = np.where(among_rungs, 0, answers.first - n)
    costs = np.bincount(about[~among_rungs], minlength=answers.n_targets)[order]
    of_ladder = np.bincount(answers.ladder[among_rungs], minlength=answers.n_ladders)
    costs = costs + np.where(turn[order] == 0, of_ladder[ladder_of[order]], 0)
    kept = np.zeros(answers.n_targets, dtype=bool)
    ladders = np.zeros(answers.n_ladders, dtype=bool)
    kept[order[: max(1, int(np.searchsorted(np.cumsum(costs), most, "right")))]] = True
    ladders[ladder_of[kept]] = True
    some = answers.take(np.where(among_rungs, ladders[answers.ladder], kept[about]))
    new_ladder = np.cumsum(ladders) - 1
    new_code = np.concatenate([np.arange(n), n + np.cumsum(kept) - 1])
    return replace(
        some,
        n_ladders=int(ladders.sum()),
        target_ladder=new_ladder[ladder_of[kept]],
        ladder=new_ladder[some.ladder],
        first=new_code[some.first],
    )


def _fit(answers: SoftAnswers) -> JudgeModel:
    """The judge's parameters by all of these answers."""
    n = answers.n_rungs
    unit = (n - 1) / 4  # N = 5 is where the priors are stated
    judge = JudgeModel(
        n_rungs=n,
        discrimination=1.0 / unit,
        position_bias=0.0,
        log_tie=0.0 if (answers.probs[:, 2] > 0).any() else -np.inf,
        noise=_NOISE,
        spread=_SPREAD,
        rung_sd=(_RUNG_SD[0] * unit, _RUNG_SD[1], _RUNG_SD[2] * unit),
        target_mean=(n + 1) / 2,
        target_sd=1.5 * unit,
        n_answers=len(answers),
        n_ladders=answers.n_ladders,
        n_targets=answers.n_targets,
        bias_known=bool(_tells_bias(answers).any()),
        converged=False,
    )
    if not _rises(answers):
        return replace(judge, rungs_rise=False)
    posterior: Posterior | None = None
    start: Posterior | None = None
    told: FloatArray | None = None  # sharpness of the judge on each context; None: it is not yet told from stretch
    for turn in range(_ROUNDS):
        before = judge
        posterior, differences = solve(answers, judge, start, judge.prior(answers.n_ladders, told))
        judge = _answering(answers, judge, posterior, differences)
        judge = _noise(answers, judge, posterior, differences)
        stretch = _stretch(posterior)
        if stretch < _LEAST_STRETCH or judge.discrimination * stretch * (n - 1) < _LEAST_NATS:
            return replace(judge, rungs_rise=False)
        judge, posterior = _gauge(judge, posterior, stretch)
        judge = _spreads(judge, posterior)
        if told is not None:
            judge = replace(judge, rung_sd=(judge.rung_sd[0], before.rung_sd[1], judge.rung_sd[2]))
        if _change(before, judge) < _TOLERANCE and posterior.settled.all():
            if told is not None:
                judge = replace(judge, converged=True)
                break
            # What ladders were given as length is shared between them and the judge's sharpness.
            lengths = Lengths.of(answers, posterior, judge)
            (shift, _, uneven), shared = judge.rung_sd, share(lengths, _RUNG_SD[1], _FEW_LADDERS)
            judge = replace(
                judge,
                rung_sd=(shift, shared.stretch, uneven),
                sharpness_sd=shared.sharpness,
                spread_sd=shared.spread,
                sharpness_told=shared.told,
            )
            told = sharpness(lengths, judge)[0]
        if start is None:
            start = posterior
        else:  # answers weigh what they do part of the way to these positions: at them, rounds may go back and forth
            part = min(0.5, _CALM / (turn + 1))
            rungs = start.rungs + part * (posterior.rungs - start.rungs)
            start = replace(posterior, rungs=rungs, mean=start.mean + part * (posterior.mean - start.mean))
    assert posterior is not None
    # Answers do not tell a low ladder from good texts: ladders differ as wholes by no more than the prior says, and
    # what contexts differ by beyond that is their texts'.
    shift, stretch, uneven = judge.rung_sd
    ladders = min(shift, _RUNG_SD[0] * unit)
    return replace(
        judge,
        rung_sd=(ladders, stretch, uneven),
        context_sd=float(np.sqrt(shift**2 - ladders**2)),
        bias_sd=_bias_sd(answers, judge, posterior),
    )


def _rises(answers: SoftAnswers) -> bool:
    """Whether answers favour higher rungs by more than twice the error of that: of their noise, and of ladders.

    By least squares, of the margin on the rung's level, with a constant for each target in each order, and each ladder.
    """
    n_ladders = answers.n_ladders
    of_rungs = answers.first < answers.n_rungs
    asked: FloatArray = np.where(of_rungs, answers.sign, 1.0)
    up: FloatArray = asked * (np.where(of_rungs, answers.first, 0) - answers.second)
    group = np.where(of_rungs, answers.ladder, n_ladders + 2 * (answers.first - answers.n_rungs) + (answers.sign > 0))
    count = np.maximum(np.bincount(group), 1)
    up, margins = (values - (np.bincount(group, values) / count)[group] for values in (up, asked * answers.margin))
    size = up @ up
    if not size:
        return False
    rise = (up @ margins) / size
    left = margins - rise * up
    free = max(len(left) - len(np.unique(group)) - 1, 0)
    typical = _NOISE / 5 + _SPREAD / 25  # of one answer, of variance 1/5
    by_answers = (left @ left + typical) / (free + 1) * size
    by_ladders = (np.bincount(answers.ladder, up * left) ** 2).sum()
    return bool(rise * size > _CLEAR * np.sqrt(max(by_answers, by_ladders)))


def _bias_sd(answers: SoftAnswers, judge: JudgeModel, posterior: Posterior) -> float:
    """By how much the bias differs between texts, as rungs show it that are asked about, nats.

    What is off in the answers on two rungs, each asked about once, is summed: where they stand goes out, and the bias
    of both texts is left. Two sums that share a rung have its bias in common; those that do not, what is the context's.
    """
    n = answers.n_rungs
    some = answers.take(answers.first < n)
    probs = judge.probs(log_odds_at(some, judge, posterior))
    var = np.maximum(variance(probs), 1e-12)
    off = some.sign * (some.margin - margin(probs)) / var
    known = var / (judge.noise + judge.spread * var)
    about, other = np.where(some.sign > 0, (some.first, some.second), (some.second, some.first))
    place = (some.ladder * n + about) * n + other
    shape = (answers.n_ladders, n, n)
    weight, sums = (np.bincount(place, each, np.prod(shape)).reshape(shape) for each in (known, known * off))
    unsure = 1 / np.maximum(weight, 1e-300)
    mean = sums * unsure
    both = np.where((weight > 0) & (weight.swapaxes(1, 2) > 0), 1 / (unsure + unsure.swapaxes(1, 2)), 0.0)
    (shared, apart), (n_shared, n_apart) = _products(both * (mean + mean.swapaxes(1, 2))), _products(both)
    least = 1e-9 * (both**2).sum()  # what rounding leaves where no two pairs share a rung, or none is apart
    of_texts = shared / n_shared if n_shared > least else 0.0
    of_contexts = max(apart / n_apart, 0.0) if n_apart > least else 0.0
    return float(np.sqrt(max(of_texts - 0.75 * of_contexts, 0.0)))  # one has 4 times what contexts differ by


def _products(values: FloatArray) -> tuple[float, float]:
    """Of the pairs of each ladder: sums of products of two that share a rung, and of two that do not.

    values : of pairs, shape (n_ladders, N, N), symmetric, 0 on the diagonal
    """
    squares = (values**2).sum()
    sharing = (values.sum(axis=2) ** 2).sum() - squares
    return float(sharing), float(((values.sum(axis=(1, 2)) / 2) ** 2).sum() - squares / 2 - sharing)


def _tells_bias(answers: SoftAnswers) -> FloatArray:
    """1 for each answer that can tell the position bias, 0 for others, shape (n_answers,).

    With targets asked about in one order only, their positions take up any bias: rungs against each other alone tell.
    """
    among_rungs = answers.first < answers.n_rungs
    both_orders = len(set(np.sign(answers.sign[~among_rungs]).tolist())) > 1
    return (among_rungs | both_orders).astype(np.float64)


def _answering(answers: SoftAnswers, judge: JudgeModel, posterior: Posterior, differences: FloatArray) -> JudgeModel:
    """Discrimination, bias and ties that make the answers most probable, on average over the posterior."""
    expected = judge.probs(log_odds_at(answers, judge, posterior))
    sign = answers.sign[:, None]
    weight = judge.weight(expected)[:, None] * _WEIGHTS
    tells = _tells_bias(answers)[:, None] * sign
    bare = replace(judge, discrimination=1.0, position_bias=0.0)
    x = log_odds_at(answers, bare, posterior)[:, None] + np.sqrt(differences)[:, None] * _NODES
    observed = answers.margin[:, None]
    similar = answers.probs[:, 2][:, None]
    free = np.array([True, judge.bias_known, np.isfinite(judge.log_tie)])
    values = np.array([judge.discrimination, judge.position_bias, judge.log_tie])
    for _ in range(50):
        now = replace(judge, discrimination=values[0], position_bias=values[1], log_tie=values[2])
        probs = now.probs(values[0] * x + values[1] * sign)
        mean = margin(probs)
        tie = probs[..., 2]
        var = variance(probs)
        off = weight * (observed - mean)
        off_tie = weight * (similar - tie)
        grad = np.array([(off * x).sum(), (off * tells).sum(), off_tie.sum()])
        var = weight * var
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
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)] + 1e-9 * np.eye(free.sum()), grad[free])
        step = np.clip(step, -0.5, 0.5)
        step[0] = max(step[0], -values[0] / 2)  # a judge that prefers the worse text is not a scale: it stays above 0
        values[free] += step[free]
        if np.abs(step).max() < 1e-8:
            break
    return replace(judge, discrimination=float(values[0]), position_bias=float(values[1]), log_tie=float(values[2]))


def _noise(answers: SoftAnswers, judge: JudgeModel, posterior: Posterior, differences: FloatArray) -> JudgeModel:
    """How far answers lie from what the positions say: squared residuals ~ noise * V + spread * V^2."""
    from scipy.optimize import nnls

    probs = judge.probs(log_odds_at(answers, judge, posterior))
    var = np.maximum(variance(probs), 1e-12)
    residual = answers.margin - margin(probs)
    # The positions are fitted to these very answers: what they hide of the residual is their own variance.
    squared = residual**2 + (var * judge.discrimination) ** 2 * differences
    expected = judge.noise * var + judge.spread * var**2
    design = np.stack([var, var**2], axis=1) / expected[:, None]
    observed = squared / expected
    prior = np.sqrt(_FEW_ANSWERS) * np.diag([1 / _NOISE, 1 / _SPREAD])
    found, _ = nnls(np.vstack([design, prior]), np.append(observed, np.full(2, np.sqrt(_FEW_ANSWERS))))
    return replace(judge, noise=float(max(found[0], 1e-4)), spread=float(found[1]))


def _stretch(posterior: Posterior) -> float:
    """How far the median ladder's rungs are apart, as the judge sees them; 1 on the scale."""
    if not len(posterior.rungs):
        return 1.0
    level = centred_levels(posterior.rungs.shape[1])
    return float(np.median(posterior.rungs @ level / (level @ level)))


def _gauge(judge: JudgeModel, posterior: Posterior, stretch: float) -> tuple[JudgeModel, Posterior]:
    """The scale on which the median ladder is 1..N: nothing in the answers says where a scale begins, or its unit."""
    n = judge.n_rungs
    centre = posterior.rungs.mean(axis=1)
    shift = float(np.median(centre)) if len(centre) else (n + 1) / 2
    rungs = (n + 1) / 2 + (posterior.rungs - shift) / stretch
    mean = (n + 1) / 2 + (posterior.mean - shift) / stretch
    moved = replace(
        posterior, rungs=rungs, mean=mean, sd=posterior.sd / stretch, rung_cov=posterior.rung_cov / stretch**2
    )
    return replace(judge, discrimination=judge.discrimination * stretch), moved


def _spreads(judge: JudgeModel, posterior: Posterior) -> JudgeModel:
    """Variances of rungs and targets: of their positions, and what is not known of these."""
    n = judge.n_rungs
    unit = (judge.n_rungs - 1) / 4
    level = centred_levels(n)
    off = posterior.rungs - np.arange(1.0, n + 1)
    basis = np.linalg.qr(np.column_stack([np.ones(n), level, np.eye(n)[:, : n - 2]]))[0].T
    second = (off @ basis.T) ** 2 + np.einsum("kn,cnm,km->ck", basis, posterior.rung_cov, basis)
    # In this basis the covariance is diagonal: unevenness in all directions, shift and stretch on top of it in theirs.
    uneven = _pooled(second[:, 2:].ravel(), (_RUNG_SD[2] * unit) ** 2, _FEW_LADDERS)
    shift = _pooled((second[:, 0] - uneven) / n, (_RUNG_SD[0] * unit) ** 2, _FEW_LADDERS)
    stretch = _pooled((second[:, 1] - uneven) / (level @ level), _RUNG_SD[1] ** 2, _FEW_LADDERS)
    least = 0.02 * unit
    asked = posterior.n_answers > 0
    mean = float(posterior.mean[asked].mean()) if asked.any() else judge.target_mean
    squares = (posterior.mean[asked] - mean) ** 2 + posterior.sd[asked] ** 2
    target = _pooled(squares, (1.5 * unit) ** 2, _FEW_TARGETS)
    sds = np.sqrt(np.maximum([shift, stretch, uneven], [least**2, 0.02**2, least**2]))
    rung_sd = (float(sds[0]), float(sds[1]), float(sds[2]))
    return replace(judge, rung_sd=rung_sd, target_mean=mean, target_sd=float(np.sqrt(target)))


def _pooled(squares: FloatArray, prior: float, n_prior: float) -> float:
    return float((squares.sum() + n_prior * prior) / (len(squares) + n_prior))


def _change(before: JudgeModel, after: JudgeModel) -> float:
    """Largest change, relative where a value has a unit of its own."""
    names = ("discrimination", "position_bias", "log_tie", "noise", "spread", "target_mean", "target_sd")
    pairs = [(getattr(before, name), getattr(after, name)) for name in names]
    pairs += zip(before.rung_sd, after.rung_sd, strict=True)
    return float(max(abs(b - a) / max(1.0, abs(a)) for a, b in pairs if np.isfinite(a)))
