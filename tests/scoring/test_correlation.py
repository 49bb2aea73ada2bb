"""What answers share: a pair's noise in both orders, and noise that neighbouring rungs have in common."""

import dataclasses

import numpy as np
import pytest

from benchmarks.misfits import Judge, simulate
from synthscore.scoring.anchored import JudgeModel, SoftAnswers, fit, positions
from synthscore.scoring.anchored.correlation import (
    Evidence,
    effect_of_neighbours,
    find_pair_correlation,
    find_rung_correlation,
    information_of_rungs,
    pairs_of,
)
from synthscore.scoring.anchored.model import variance
from synthscore.scoring.anchored.parameters import find_residuals, fit_answering
from synthscore.scoring.anchored.positions import settle
from synthscore.scoring.anchored.scale import Anchors, Scale
from synthscore.signature import Signature
from tests.scoring.test_anchored import turned_round

JUDGE = JudgeModel(5, 1.5, 0.0, 0.2, 0.05, 0.7, (0.3, 0.2, 0.3), 3.0, 1.5, n_ladders=10**9)


def drawn(seed=0, **values):
    return simulate(np.random.default_rng(seed), Judge(**{"n_contexts": 20, "n_texts": 8, **values}))


def again(answers, orders=2):
    """The same answers, `orders` times."""
    whole = np.tile(np.arange(len(answers)), orders)
    return answers.take(whole)


def test_answers_that_say_the_same_again_change_nothing():
    answers, _ = drawn(both_orders=False)
    judge = dataclasses.replace(JUDGE, pair_correlation=1.0)
    once, thrice = positions(answers, judge), positions(again(answers, 3), judge)
    assert thrice.mean == pytest.approx(once.mean, abs=1e-6)
    assert thrice.sd == pytest.approx(once.sd, rel=1e-6)
    independent = positions(again(answers, 3), JUDGE)
    assert (independent.sd < 0.85 * once.sd).all()  # the rest is of rungs and of the scale


def test_the_pairs_are_those_of_the_two_texts_in_whatever_order():
    answers = SoftAnswers(
        n_ladders=2,
        n_rungs=3,
        target_ladder=np.array([0, 1]),
        ladder=np.array([0, 0, 1, 1]),
        first=np.array([0, 2, 2, 4]),
        second=np.array([2, 0, 0, 1]),
        sign=np.ones(4),
        probs=np.full((4, 3), 1 / 3),
    )
    one, other, elsewhere, of_target = pairs_of(answers).tolist()
    assert one == other != elsewhere
    assert len({one, elsewhere, of_target}) == 3


def test_the_effect_of_neighbours_is_the_variance_of_the_sum_over_that_of_independent_answers():
    rng = np.random.default_rng(1)
    judge = dataclasses.replace(JUDGE, rung_correlation=0.6)
    info = rng.uniform(0, 2, (3, 5))
    g = np.sqrt(info)
    noise = rng.normal(size=(200_000, 5))
    for k in range(1, 5):
        noise[:, k] = 0.6 * noise[:, k - 1] + 0.8 * noise[:, k]
    assert effect_of_neighbours(judge, info) == pytest.approx((noise @ g.T).var(axis=0) / info.sum(axis=1), rel=0.02)
    assert effect_of_neighbours(JUDGE, info) == pytest.approx(np.ones(3))
    assert effect_of_neighbours(judge, np.zeros((1, 5))) == 1


def test_a_text_is_as_unsure_as_the_noise_of_its_rungs_together_leaves_it():
    """Rungs that are known, many draws: how far positions scatter is what their errors say."""
    judge = dataclasses.replace(
        JUDGE, noise=1e-4, spread=0.25, target_sd=20.0, rung_correlation=0.6, pair_correlation=0.5
    )
    n = 4000
    rng = np.random.default_rng(2)
    of_pairs = rng.normal(size=(n, 5))
    for k in range(1, 5):
        of_pairs[:, k] = 0.6 * of_pairs[:, k - 1] + 0.8 * of_pairs[:, k]
    of_calls = rng.normal(size=(2, n, 5))
    of_calls[:, :, 1:] *= 0.8
    for k in range(1, 5):
        of_calls[:, :, k] += 0.6 * of_calls[:, :, k - 1]
    d = 1.5 * (3 - np.arange(1, 6)) + 0.5 * np.sqrt(0.5) * (of_pairs + of_calls)
    order, target, level = (part.ravel() for part in np.indices(d.shape))
    scale = Scale(judge, {"a": Anchors(np.arange(1.0, 6), 1e-8 * np.eye(5))}, "t", "a", Signature.of(model="m"))
    found = scale.place(["a"] * n, target, level + 1, order == 1, judge.probs(d.ravel()))
    assert found.sd.mean() == pytest.approx(found.mean.std(), rel=0.06)


@pytest.mark.parametrize(
    ("call", "pair", "low", "high"), [(0.7, 0.0, -0.1, 0.15), (0.7, 0.7, 0.3, 0.6), (0, 0.7, 0.8, 1)]
)
def test_the_correlation_of_both_orders_is_found(call, pair, low, high):
    judge, _ = fit(drawn(call_noise=call, pair_noise=pair)[0])
    assert low < judge.pair_correlation < high
    assert judge.rung_correlation < 0.15


def test_a_sharper_context_is_a_judge_of_more_nats_a_rung():
    """Twice as sharp on every context, or with twice the discrimination: the same judge, whatever is found by it."""
    answers, _ = drawn(call_noise=0.0, pair_noise=1.0, neighbours=0.8)
    sharper = dataclasses.replace(JUDGE, discrimination=2 * JUDGE.discrimination)
    found = []
    for judge, sharpness in ((JUDGE, np.full(20, np.log(2.0))), (sharper, np.zeros(20))):
        posterior, difference_vars = settle(answers, judge, None, judge.prior(20, sharpness))
        residuals = find_residuals(judge, answers, posterior, difference_vars)
        answering = fit_answering(judge, answers, posterior, difference_vars)
        rung_correlation = find_rung_correlation(answers, judge, posterior, residuals)
        nats = answering.discrimination * np.exp(sharpness[0])
        found.append([nats, answering.position_bias, rung_correlation, *residuals.hidden])
    assert found[0] == pytest.approx(found[1], rel=1e-6)


def test_which_of_two_texts_is_called_the_first_changes_no_correlation():
    """Answers about two rungs may have either as `first`; what their positions hide is the same error in both."""
    answers, _ = drawn(call_noise=0.0, pair_noise=0.7)
    among_rungs = answers.first < answers.n_rungs
    turned = among_rungs & (answers.first > answers.second)
    other = turned_round(answers, turned)
    found = []
    for same in (answers, other):
        posterior, difference_vars = settle(same, JUDGE)
        residuals = find_residuals(JUDGE, same, posterior, difference_vars)
        found.append(find_pair_correlation(same, JUDGE, residuals))
    assert found[1] == pytest.approx(found[0], abs=1e-9)


def test_a_bias_that_differs_by_text_goes_out_in_both_orders():
    assert fit(drawn(bias_sd=1.2)[0])[0].pair_correlation < -0.1


@pytest.mark.parametrize("n_rungs", [3, 5])
def test_the_correlation_of_neighbouring_rungs_is_found_and_is_0_of_two_rungs_or_one_text(n_rungs):
    answers, _ = drawn(call_noise=0.0, pair_noise=1.0, neighbours=0.8, n_rungs=n_rungs, n_contexts=30)
    assert 0.4 < fit(answers)[0].rung_correlation < 0.9
    none, _ = drawn(call_noise=0.0, pair_noise=1.0, n_rungs=n_rungs, n_contexts=30)
    assert fit(none)[0].rung_correlation < 0.15
    assert fit(drawn(n_rungs=2)[0])[0].rung_correlation == 0
    one = answers.take((answers.first == n_rungs) & (answers.ladder == 0))
    judge = dataclasses.replace(JUDGE, n_rungs=n_rungs)
    posterior, differences = settle(one, judge)
    assert find_rung_correlation(one, judge, posterior, find_residuals(judge, one, posterior, differences)) == 0


@pytest.mark.parametrize(
    "values",
    [
        {"call_noise": 0.0, "pair_noise": 0.7},
        {"call_noise": 0.0, "pair_noise": 1.2, "n_rungs": 3},
        {"call_noise": 0.0, "pair_noise": 1.2, "n_rungs": 2},
        {"call_noise": 0.0, "pair_noise": 0.7, "neighbours": 0.7},
        {},
    ],
)
def test_intervals_hold_what_they_say_where_answers_share_their_noise(values):
    held = []
    for seed in range(4):
        answers, truth = drawn(seed, n_contexts=30, **values)
        judge, posterior = fit(answers)
        assert judge.converged
        low, high = posterior.interval(0.9)
        held.append(((low <= truth) & (truth <= high)).mean())
    assert 0.84 < np.mean(held) < 0.96  # .78 to .85 where both orders count as two answers, .64 with neighbours alike


def test_the_information_of_questions_is_that_by_which_answers_weigh():
    judge = dataclasses.replace(JUDGE, pair_correlation=0.6)
    answers, _ = drawn(n_contexts=1, n_texts=3)
    answers = answers.take((answers.first >= 5) & ((answers.second != 1) | (answers.sign > 0)))
    evidence = Evidence(answers, judge)
    probs = judge.probs(np.zeros(len(answers)))
    found = evidence.by_rung(evidence.weight(probs) * variance(probs))
    each = judge.weight(probs[0]) * variance(probs[0])
    asked = np.ones((3, 2, 5), dtype=bool)
    asked[:, 1, 1] = False
    assert information_of_rungs(judge, np.full((3, 2, 5), each), asked) == pytest.approx(found)


def test_texts_that_stand_alone_in_their_contexts_are_fitted_in_few_rounds():
    answers, truth = drawn(n_contexts=60, n_texts=1, sharpness_sd=0.5)
    judge, posterior = fit(answers)
    assert judge.converged
    assert judge.context_sd == 0
    assert np.mean(np.abs(posterior.mean - truth) <= 1.645 * posterior.sd) > 0.8
