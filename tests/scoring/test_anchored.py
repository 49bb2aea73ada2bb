"""Anchored inference: positions that are known, the objective as it is written, judges of all kinds, bad input."""

import dataclasses
import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.errors import InputError
from synthscore.scoring.anchored import JudgeModel, Prior, SoftAnswers, fit, positions
from synthscore.scoring.anchored.model import variance
from synthscore.scoring.anchored.parameters import NOISE, SPREAD
from synthscore.scoring.anchored.positions import log_odds, solve
from synthscore.scoring.anchored.scale import three_way

fitting = importlib.import_module("synthscore.scoring.anchored.fit")
steps = importlib.import_module("synthscore.scoring.anchored.positions")
sampling = importlib.import_module("synthscore.scoring.anchored.sample")


def judge_of(n=5, **values):
    given = {
        "n_rungs": n, "discrimination": 1.5, "position_bias": 0.4, "log_tie": 0.2, "noise": 0.05, "spread": 0.7,
        "rung_sd": (0.3, 0.2, 0.3), "target_mean": (n + 1) / 2, "target_sd": 1.5, "n_ladders": 10**9,
    }  # fmt: skip
    return JudgeModel(**{**given, **values})


def simulate(seed, n_ladders=30, n=5, n_texts=10, noise=0.5, a=1.5, bias=0.8, tie=0.3, orders=(1, -1), rungs_too=True,
             uneven=0.3):  # fmt: skip
    """Answers of a judge, and the truth: positions of targets, and of rungs, on 1..n."""
    rng = np.random.default_rng(seed)
    rungs = np.arange(1.0, n + 1) + uneven * rng.normal(size=(n_ladders, n))
    truth = rng.uniform(1, n, n_ladders * n_texts)
    targets, ladder_of = np.arange(len(truth)), np.arange(len(truth)) // n_texts
    parts = [(ladder_of, n + targets, np.full(len(truth), k), np.full(len(truth), s)) for s in orders for k in range(n)]
    each = np.arange(n_ladders)
    if rungs_too:
        pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
        parts += [(each, np.full(n_ladders, i), np.full(n_ladders, j), np.ones(n_ladders)) for i, j in pairs]
    ladder, first, second, sign = (np.concatenate(column) for column in zip(*parts, strict=True))
    place = np.concatenate([rungs, np.zeros((n_ladders, 1))], axis=1)
    asked = np.where(first < n, place[ladder, np.minimum(first, n)], truth[np.maximum(first - n, 0)])
    d = a * (asked - rungs[ladder, second]) + bias * sign + noise * rng.normal(size=len(ladder))
    probs = judge_of(log_tie=tie).probs(d)
    return SoftAnswers(n_ladders, n, ladder_of, ladder, first, second, sign.astype(float), probs), truth, rungs


SMALL, _, _ = simulate(3, n_ladders=3, n=3, n_texts=4)


@pytest.mark.parametrize("seed", range(3))
def test_few_answers_that_leave_the_noise_open_are_fitted_with_the_usual_noise(seed):
    answers, truth, _ = simulate(seed, n_ladders=3, n_texts=2, noise=0.0, a=30.0)
    judge, posterior = fit(answers)
    assert judge.converged
    assert not judge.noise_known
    assert (judge.noise, judge.spread) == (NOISE, SPREAD)
    assert np.abs(posterior.mean - truth).max() < 2 * posterior.sd.min()


def test_a_judge_without_noise_puts_texts_where_they_are():
    answers, truth, rungs = simulate(0, noise=0.0, uneven=0.0)
    judge, posterior = fit(answers)
    assert judge.converged
    # Answers compare texts of one context: where a whole ladder stands is told by its neighbours alone, and less well.
    middle = posterior.rungs.mean(axis=1)
    assert posterior.mean - middle[answers.target_ladder] == pytest.approx(truth - 3, abs=0.01)
    assert posterior.rungs - middle[:, None] == pytest.approx(rungs - 3, abs=0.01)
    assert middle == pytest.approx(np.full(30, 3.0), abs=0.4)
    assert (np.abs(posterior.mean - truth) < 3 * posterior.sd).all()
    assert (judge.discrimination, judge.position_bias, judge.log_tie) == pytest.approx((1.5, 0.8, 0.3), abs=0.01)


def test_a_text_that_ties_with_a_rung_in_both_orders_stands_on_it():
    both = np.array([1, 1])
    probs = judge_of().probs(np.array([0.4, -0.4]))
    answers = SoftAnswers(1, 3, np.array([0]), 0 * both, 3 * both, both, np.array([1.0, -1.0]), probs)
    posterior = positions(answers, judge_of(3))
    assert posterior.mean == pytest.approx([2.0], abs=1e-6)
    assert posterior.n_answers.tolist() == [2]


def test_the_judges_parameters_are_found():
    answers, truth, _ = simulate(1, n_ladders=60, noise=1.0)
    judge, posterior = fit(answers)
    assert judge.discrimination == pytest.approx(1.5, rel=0.1)
    assert judge.position_bias == pytest.approx(0.8, abs=0.1)
    assert judge.log_tie == pytest.approx(0.3, abs=0.15)
    assert judge.bias_known
    assert judge.converged
    assert np.mean(np.abs(posterior.mean - truth) <= 1.645 * posterior.sd) == pytest.approx(0.9, abs=0.05)
    assert (judge.n_answers, judge.n_ladders, judge.n_targets) == (len(answers), 60, 600)


def objective(answers, judge, prior, weight, x):
    """As positions.py writes it; x : rungs, ladder by ladder, then targets."""
    size = answers.n_ladders * answers.n_rungs
    rungs, targets = x[:size].reshape(answers.n_ladders, -1), x[size:]
    probs = judge.probs(log_odds(answers, judge, rungs, targets, np.zeros(answers.n_ladders)))
    value = (weight[:, None] * answers.probs * np.log(probs)).sum()
    for off, precision in zip(rungs - prior.rungs, prior.precision, strict=True):
        value -= off @ precision @ off / 2
    return value - ((targets - judge.target_mean) ** 2).sum() / judge.target_sd**2 / 2


def test_positions_are_the_maximum_of_the_objective_and_errors_its_curvature():
    answers, judge = SMALL, judge_of(3)
    prior = judge.prior(answers.n_ladders)
    start, _ = solve(answers, judge)
    found, differences = solve(answers, judge, start)
    again = judge.weight(judge.probs(log_odds(answers, judge, start.rungs, start.mean, start.sharpness)))
    x = np.concatenate([found.rungs.ravel(), found.mean])
    step = 1e-4 * np.eye(len(x))
    at = np.array([[objective(answers, judge, prior, again, x + i + j) for j in step] for i in step])
    up, down = ([objective(answers, judge, prior, again, x + sign * i) for i in step] for sign in (1, -1))
    gradient = (np.array(up) - np.array(down)) / 2e-4
    assert gradient == pytest.approx(np.zeros(len(x)), abs=1e-4)
    here = objective(answers, judge, prior, again, x)
    hessian = (at - np.array(up)[:, None] - np.array(up)[None] + here) / 1e-8
    covariance = np.linalg.inv(-hessian)
    assert found.sd == pytest.approx(np.sqrt(np.diag(covariance)[9:]), rel=0.02)
    assert found.rung_cov[1] == pytest.approx(covariance[3:6, 3:6], rel=0.05, abs=1e-3)
    first, second = (
        np.where(code < 3, answers.ladder * 3 + code, 9 + code - 3) for code in (answers.first, answers.second)
    )
    variances = covariance[first, first] + covariance[second, second] - 2 * covariance[first, second]
    assert differences == pytest.approx(variances, rel=0.03)


def test_laplace_is_near_the_integral_over_a_grid():
    judge = judge_of(5)
    prior = Prior(np.arange(1.0, 6)[None], 1e8 * np.eye(5)[None], np.zeros(1), np.zeros(1))  # rungs that are known
    answers, _, _ = simulate(5, n_ladders=1, n_texts=1, rungs_too=False)
    found = positions(answers, judge, prior)
    weight = judge.weight(judge.probs(log_odds(answers, judge, found.rungs, found.mean, found.sharpness)))
    grid = np.linspace(-6, 12, 4001)
    log = np.array([objective(answers, judge, prior, weight, np.append(np.arange(1.0, 6), x)) for x in grid])
    density = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
    mean = density @ grid
    assert found.mean[0] == pytest.approx(mean, abs=0.02)
    assert found.sd[0] == pytest.approx(np.sqrt(density @ (grid - mean) ** 2), rel=0.03)


def turned_round(answers, rows):
    """The same answers, of which these, about two rungs, say it of the other rung."""
    return dataclasses.replace(
        answers,
        first=np.where(rows, answers.second, answers.first),
        second=np.where(rows, answers.first, answers.second),
        sign=np.where(rows, -answers.sign, answers.sign),
        probs=np.where(rows[:, None], answers.probs[:, [1, 0, 2]], answers.probs),
    )


@settings(max_examples=15)
@given(st.integers(0, 10**6))
def test_the_same_question_said_of_the_other_text_changes_nothing(seed):
    rng = np.random.default_rng(seed)
    turned = (rng.random(len(SMALL)) < 0.5) & (SMALL.first < 3)  # of two rungs
    other = turned_round(SMALL, turned)
    one, two = positions(SMALL, judge_of(3)), positions(other, judge_of(3))
    assert one.mean == pytest.approx(two.mean, abs=1e-9)
    assert one.sd == pytest.approx(two.sd, abs=1e-9)


def test_the_order_of_ladders_targets_and_answers_does_not_matter():
    rng = np.random.default_rng(1)
    answers, _, _ = simulate(6, n_ladders=8, n=3, n_texts=4)
    ladders, targets, rows = rng.permutation(8), rng.permutation(32), rng.permutation(len(answers))
    codes = np.concatenate([np.arange(3), 3 + targets])
    target_ladder = np.empty(32, dtype=np.int64)
    target_ladder[targets] = ladders[answers.target_ladder]
    other = SoftAnswers(8, 3, target_ladder, ladders[answers.ladder[rows]], codes[answers.first[rows]],
                    codes[answers.second[rows]], answers.sign[rows], answers.probs[rows])  # fmt: skip
    (judge, one), (same, two) = fit(answers), fit(other)
    assert same.discrimination == pytest.approx(judge.discrimination, abs=1e-6)
    assert two.mean[targets] == pytest.approx(one.mean, abs=1e-4)
    assert two.sd[targets] == pytest.approx(one.sd, abs=1e-4)
    assert two.rungs[ladders] == pytest.approx(one.rungs, abs=1e-4)


def test_in_both_orders_a_favour_of_a_position_costs_no_accuracy():
    (plain, truth, _), (biased, _, _) = simulate(7, bias=0.0), simulate(7, bias=1.0)
    (_, one), (judge, two) = fit(plain), fit(biased)
    assert judge.position_bias == pytest.approx(1.0, abs=0.1)
    assert two.mean.mean() == pytest.approx(one.mean.mean(), abs=0.05)
    error, biased_error = (np.sqrt(np.mean((each.mean - truth) ** 2)) for each in (one, two))
    assert biased_error == pytest.approx(error, rel=0.1)


def test_a_mirrored_judge_mirrors_the_positions():
    mirrored = dataclasses.replace(
        SMALL,
        first=np.where(SMALL.first < 3, 2 - SMALL.first, SMALL.first),
        second=2 - SMALL.second,
        sign=-SMALL.sign,
        probs=SMALL.probs[:, [1, 0, 2]],
    )
    one, two = positions(SMALL, judge_of(3)), positions(mirrored, judge_of(3))
    assert two.mean == pytest.approx(4 - one.mean, abs=1e-6)


def test_more_answers_leave_less_uncertain():
    answers, _, _ = simulate(8, n_ladders=5)
    judge = judge_of(5)
    sds = [positions(answers.take(np.arange(n)), judge).sd.mean() for n in (0, 50, 200, len(answers))]
    assert sds == sorted(sds, reverse=True)
    assert sds[0] > 2 * sds[-1]


def test_a_text_without_answers_is_where_texts_are_expected():
    answers = SMALL.take(SMALL.first != 3)
    posterior = positions(answers, judge_of(3))
    assert posterior.n_answers[0] == 0
    assert posterior.mean[0] == pytest.approx(2.0)
    assert posterior.sd[0] == pytest.approx(1.5)


def test_intervals_are_those_of_a_normal_distribution():
    posterior = positions(SMALL, judge_of(3))
    low, high = posterior.interval(0.9)
    assert high - low == pytest.approx(2 * 1.6449 * posterior.sd, rel=1e-4)
    assert (low + high) / 2 == pytest.approx(posterior.mean)


def test_positions_outside_the_ladder_are_named():
    said = judge_of().probs(np.array([5.0, 4.0, 1.4, -0.6]))
    places = np.zeros(2, dtype=int), np.zeros(4, dtype=int), np.array([2, 2, 3, 3]), np.array([0, 1, 0, 1])
    answers = SoftAnswers(1, 2, *places, np.ones(4), said)
    posterior = positions(answers, judge_of(2))
    assert posterior.extrapolated().tolist() == [True, False]


def test_the_uncertainty_of_the_scale_is_part_of_every_error():
    sure, unsure = (positions(SMALL, judge_of(3, n_ladders=n)) for n in (10**9, 4))
    added = unsure.sd**2 - sure.sd**2
    assert added == pytest.approx((0.3**2 + (0.2 * (sure.mean - 2)) ** 2) * np.pi / 2 / 4, rel=1e-6)


# ------------------------------------------------------------------------------------------------- judges of all kinds


@pytest.mark.parametrize("ties", [True, False])
def test_a_protocol_without_similar_has_no_ties_to_estimate(ties):
    answers, truth, _ = simulate(9, tie=0.3 if ties else -np.inf)
    judge, posterior = fit(answers)
    assert np.isfinite(judge.log_tie) == ties
    assert np.corrcoef(posterior.mean, truth)[0, 1] > 0.95


@pytest.mark.slow
def test_what_few_answers_hide_of_the_noise_is_counted():
    """Two answers a text, and three parameters' worth of texts and rungs fitted to them."""
    judge, _ = fit(simulate(30, n_ladders=100, n=2, n_texts=8, noise=1.0, orders=(1,), a=1.0)[0])
    full, _ = fit(simulate(31, n_ladders=30, n=5, noise=1.0, a=1.0)[0])
    assert judge.noise + judge.spread / 4 == pytest.approx(full.noise + full.spread / 4, rel=0.25)


def test_one_order_without_rungs_against_rungs_cannot_tell_the_bias_and_says_so():
    judge, _ = fit(simulate(10, orders=(1,), rungs_too=False)[0])
    assert not judge.bias_known
    assert judge.position_bias == 0.0


def test_rungs_against_rungs_tell_the_bias_of_one_order():
    answers, truth, _ = simulate(11, orders=(1,))
    judge, posterior = fit(answers)
    assert judge.bias_known
    assert judge.position_bias == pytest.approx(0.8, abs=0.15)
    assert np.mean(posterior.mean - truth) == pytest.approx(0.0, abs=0.15)


def test_missing_answers_widen_the_error_and_do_not_move_the_scale():
    answers, truth, _ = simulate(12)
    whole, some = fit(answers)[1], fit(answers.take((answers.second != 2) & (answers.first != 2)))[1]
    assert (some.sd > whole.sd).mean() > 0.9
    assert np.mean(some.mean - truth) == pytest.approx(0.0, abs=0.15)


@pytest.mark.parametrize(("ladders", "texts"), [(1, 10), (1, 1), (30, 1)])
def test_little_data_gives_finite_wide_errors(ladders, texts):
    answers, truth, _ = simulate(13, n_ladders=ladders, n_texts=texts)
    judge, posterior = fit(answers)
    assert np.isfinite(posterior.mean).all()
    assert np.isfinite(posterior.sd).all()
    assert (np.abs(posterior.mean - truth) < 4 * posterior.sd).all()
    if ladders == 1:
        assert (posterior.sd > np.sqrt(judge.scale_variance(posterior.mean))).all()


@pytest.mark.parametrize("ladders", [15, 30])
def test_a_judge_that_answers_at_random_is_named(ladders):
    judge, posterior = fit(simulate(14, n_ladders=ladders, a=0.0, noise=1.0)[0])
    assert not judge.rungs_rise
    assert np.isfinite(posterior.mean).all()
    assert np.isfinite(posterior.sd).all()


def test_an_upside_down_judge_is_named():
    judge, posterior = fit(simulate(15, n_ladders=10, a=-1.5)[0])
    assert not judge.rungs_rise
    assert not judge.converged
    assert np.isfinite(posterior.mean).all()
    assert fit(SMALL)[0].rungs_rise


def test_not_converging_is_part_of_the_result(monkeypatch):
    monkeypatch.setattr(fitting, "_ROUNDS", 2)
    assert not fit(SMALL)[0].converged


def test_positions_that_do_not_come_to_rest_are_named_and_make_no_fit_converge(monkeypatch):
    assert positions(SMALL, judge_of(3)).settled.tolist() == [True] * 3
    assert fit(SMALL)[0].converged
    monkeypatch.setattr(steps, "_STEPS_REWEIGHTED", 1)
    judge, posterior = fit(SMALL)
    assert not judge.converged
    assert np.isfinite(posterior.mean).all()
    assert not posterior.settled.any()
    monkeypatch.setattr(steps, "_STEPS_FIXED", 0)
    assert not solve(SMALL, judge_of(3))[0].settled.any()


def test_one_ladder_that_does_not_come_to_rest_leaves_the_others_settled(monkeypatch):
    monkeypatch.setattr(steps, "_STEPS_REWEIGHTED", 1)
    empty = SMALL.take(SMALL.ladder == 1)
    assert positions(empty, judge_of(3)).settled.tolist() == [True, False, True]


def test_many_answers_are_fitted_on_some_of_the_targets_of_all_ladders():
    answers, _, _ = simulate(16, n_ladders=20, n_texts=20)
    some = sampling.choose_answers(answers, 2000)
    assert 1900 < len(some) <= 2000
    assert some.n_ladders == 20
    assert some.n_targets == (len(some) - 20 * 20) // 10
    assert np.ptp(np.bincount(some.target_ladder)) <= 1
    assert (some.first >= 5).sum() == 10 * some.n_targets
    (whole, _), part = fit(answers), fitting.fit_judge(some)
    assert part.discrimination == pytest.approx(whole.discrimination, rel=0.1)
    few = sampling.choose_answers(answers, 300)
    assert few.n_ladders == 10
    assert len(few) == 300
    assert sampling.choose_answers(answers, len(answers)) is answers


def test_the_answers_of_the_sample_are_those_of_its_targets():
    answers, _, _ = simulate(17, n_ladders=6, n_texts=8)
    marked = dataclasses.replace(answers, sign=answers.target_ladder[np.maximum(answers.first - 5, 0)] + 1.0)
    some = sampling.choose_answers(marked, 200)
    about = some.first >= 5
    known = some.target_ladder[some.first[about] - 5]
    assert (known == some.ladder[about]).all()
    pairs = {(int(new), int(old)) for new, old in zip(known, some.sign[about], strict=True)}
    assert len(pairs) == some.n_ladders  # each ladder is one of the old ones


# ------------------------------------------------------------------------------------------------- values


@settings(max_examples=30)
@given(st.floats(-40, 40), st.floats(-5, 5))
def test_probabilities_sum_to_1_and_have_the_log_odds_that_they_are_made_of(d, tie):
    better, worse, similar = judge_of(log_tie=tie).probs(np.array([d]))[0]
    assert better + worse + similar == pytest.approx(1)
    assert np.log(better) - np.log(worse) == pytest.approx(d)
    assert np.log(similar) - (np.log(better) + np.log(worse)) / 2 == pytest.approx(tie, abs=1e-9)


def test_two_answers_of_yes_and_no_become_three_with_the_same_margin():
    said = np.array([[0.8, 0.4, 0.0], [0.6, 0.4, 0.0]])  # the second happens to sum to 1
    three = three_way(said, "yes_no_two_sided")
    assert three == pytest.approx(np.array([[0.48, 0.08, 0.44], [0.36, 0.16, 0.48]]))
    assert three[:, 0] - three[:, 1] == pytest.approx(said[:, 0] - said[:, 1])


def test_verdicts_of_one_question_stay_what_they_are_and_are_no_two_answers_where_they_do_not_sum_to_1():
    said = np.array([[0.6, 0.4, 0.0], [0.5, 0.25, 0.25]])
    assert three_way(said, "compare") == pytest.approx(said)
    with pytest.raises(InputError, match="expected three that sum to 1"):
        dataclasses.replace(SMALL.take(np.arange(1)), probs=three_way(np.array([[0.8, 0.4, 0.0]]), "compare"))


@pytest.mark.parametrize("probs", [[0.5, 0.5, 0.5], [np.nan, 0.5, 0.5], [-0.2, 0.7, 0.5]])
def test_what_is_no_probability_is_refused(probs):
    with pytest.raises(InputError, match="answer 1 has probabilities"):
        dataclasses.replace(SMALL, probs=np.concatenate([SMALL.probs[:1], [probs], SMALL.probs[2:]]))


def test_a_judge_survives_its_plain_form():
    for judge in (judge_of(), judge_of(log_tie=-np.inf), judge_of(pair_correlation=-0.2, rung_correlation=0.4)):
        assert JudgeModel.from_dict(judge.to_dict()) == judge


@pytest.mark.parametrize("wrong", [{"pair_correlation": 1.1}, {"pair_correlation": -1.0}, {"rung_correlation": -0.1}])
def test_a_judge_with_impossible_correlations_is_refused(wrong):
    with pytest.raises(ValueError, match="expected correlations"):
        JudgeModel.from_dict(judge_of(**wrong).to_dict())


@pytest.mark.parametrize("name", ["spread", "target_sd", "context_sd", "sharpness_sd", "spread_sd", "bias_sd"])
def test_a_judge_with_a_negative_deviation_is_refused(name):
    assert getattr(JudgeModel.from_dict(judge_of(**{name: 0.0}).to_dict()), name) == 0
    with pytest.raises(ValueError, match="spread and all deviations 0 or more"):
        JudgeModel.from_dict(judge_of(**{name: -0.1}).to_dict())


@pytest.mark.parametrize("rung_sd", [(-0.1, 0.2, 0.3), (0.1, -0.2, 0.3), (0.1, 0.2, -0.3)])
def test_a_judge_with_a_negative_deviation_of_ladders_is_refused(rung_sd):
    with pytest.raises(ValueError, match="spread and all deviations 0 or more"):
        JudgeModel.from_dict(judge_of(rung_sd=rung_sd).to_dict())


def contexts_apart(seed, orders=(1, -1), apart=1.5):
    """Contexts whose texts are all better, or all worse, than those of others."""
    answers, truth, rungs = simulate(seed, n_ladders=30, n_texts=8, uneven=0.2)
    by = apart * np.random.default_rng(seed).normal(size=30)
    lift = 1.5 * by[answers.ladder] * (answers.first >= 5)
    probs = judge_of(log_tie=0.3).probs(np.log(answers.probs[:, 0] / answers.probs[:, 1]) + lift)
    return dataclasses.replace(answers, probs=probs), truth + by[answers.target_ladder], rungs


def test_texts_of_contexts_that_are_better_stay_better():
    answers, truth, rungs = contexts_apart(50)
    judge, posterior = fit(answers)
    assert judge.context_sd == pytest.approx(1.5, rel=0.35)
    assert judge.rung_sd[0] == pytest.approx(0.3)
    means = [np.bincount(answers.target_ladder, values) / 8 for values in (posterior.mean, truth)]
    assert np.corrcoef(*means)[0, 1] > 0.95
    assert np.std(means[0]) == pytest.approx(np.std(means[1]), rel=0.25)
    assert np.mean(np.abs(posterior.mean - truth) <= 1.645 * posterior.sd) > 0.85
    assert posterior.rungs.mean(axis=1) == pytest.approx(rungs.mean(axis=1), abs=0.5)


def test_what_contexts_have_in_common_is_shared_out_as_the_whole_model_says():
    """Against the normal model with the texts' own shift as one more unknown of each ladder."""
    judge = judge_of(3, rung_sd=(0.3, 0.2, 0.3), context_sd=0.8)
    found = positions(SMALL, judge)
    together = dataclasses.replace(judge, rung_sd=(np.hypot(0.3, 0.8), 0.2, 0.3), context_sd=0.0)
    first = positions(SMALL, together)
    weight = judge.weight(judge.probs(log_odds(SMALL, judge, found.rungs, found.mean, found.sharpness)))
    pull = (
        weight
        * judge.discrimination**2
        * variance(judge.probs(log_odds(SMALL, judge, first.rungs, first.mean, first.sharpness)))
    )
    for ladder in range(3):
        rows = np.flatnonzero(SMALL.ladder == ladder)
        members = np.flatnonzero(SMALL.target_ladder == ladder)
        size = 3 + len(members) + 1  # rungs, targets, and the texts' shift
        system = np.zeros((size, size))
        system[:3, :3] = judge.rung_precision()
        for place in range(3, size - 1):
            contrast = np.zeros(size)
            contrast[[place, -1]] = 1, -1
            system += np.outer(contrast, contrast) / judge.target_sd**2
        system[-1, -1] += 0.8**-2
        codes = np.concatenate([np.arange(3), 3 + np.searchsorted(members, np.arange(SMALL.n_targets))])
        for row in rows:
            contrast = np.zeros(size)
            contrast[codes[SMALL.first[row]]] += 1
            contrast[codes[SMALL.second[row]]] -= 1
            system += pull[row] * np.outer(contrast, contrast)
        covariance = np.linalg.inv(system)
        assert found.sd[members] == pytest.approx(np.sqrt(np.diag(covariance)[3:-1]), rel=1e-3)
        assert found.rung_cov[ladder] == pytest.approx(covariance[:3, :3], rel=1e-2, abs=1e-4)
        assert found.rungs[ladder] - found.mean[members[0]] == pytest.approx(
            first.rungs[ladder] - first.mean[members[0]]
        )
