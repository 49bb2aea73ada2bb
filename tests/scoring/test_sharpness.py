"""A judge that is sharper on one context than on another: what is told of it, what is shared, and what scores gain."""

import dataclasses
import importlib

import numpy as np
import pytest

from synthscore.cli.score import judge_lines
from synthscore.scoring.anchored import Anchors, Scale, Scales, SoftAnswers, fit, positions
from synthscore.scoring.anchored.model import Posterior
from synthscore.scoring.anchored.parameters import fit_deviations, put_on_scale
from synthscore.scoring.anchored.rising import sees_rise
from synthscore.scoring.anchored.sharpness import Lengths, find_deviations, find_sharpness
from synthscore.signature import Signature
from tests.scoring.test_anchored import judge_of, simulate

fitting = importlib.import_module("synthscore.scoring.anchored.fit")


def uneven(seed, sd, n_texts=12, n_ladders=40, **options):
    """As simulate, by a judge whose sharpness differs between contexts; and the log of it."""
    answers, truth, _ = simulate(seed, n_ladders=n_ladders, n_texts=n_texts, noise=0.0, **options)
    rng = np.random.default_rng(seed + 500)
    g = rng.normal(0, sd, n_ladders)
    bias = options.get("bias", 0.8) * answers.sign
    d = np.log(answers.probs[:, 0] / answers.probs[:, 1])
    d = (d - bias) * np.exp(g)[answers.ladder] + bias + 0.5 * rng.normal(size=len(d))
    return dataclasses.replace(answers, probs=judge_of(log_tie=0.3).probs(d)), truth, g


@pytest.mark.parametrize("sd", [0.0, 0.4])
def test_a_judge_that_is_sharper_on_some_contexts_is_told_from_ladders_that_are_longer(sd):
    answers, truth, g = uneven(1, sd)
    judge, posterior = fit(answers)
    assert judge.converged
    assert judge.sharpness_sd == pytest.approx(sd, abs=0.12)
    assert judge.rung_sd[1] < 0.2
    assert judge.sharpness_told > 0.4
    error = np.sqrt(np.mean((posterior.mean - truth) ** 2))
    assert error < 0.35
    assert np.mean(np.abs(posterior.mean - truth) <= 1.645 * posterior.sd) > 0.85
    if sd:
        assert np.corrcoef(posterior.sharpness, g)[0, 1] > 0.9
        assert np.sqrt(np.mean((posterior.sharpness - g) ** 2)) < 1.5 * posterior.sharpness_sd.mean()
        alike = positions(answers, dataclasses.replace(judge.equally_sharp, n_ladders=10**9))
        assert error < 0.7 * np.sqrt(np.mean((alike.mean - truth) ** 2))


def test_with_one_text_a_context_nothing_tells_and_half_is_shared():
    judge, posterior = fit(uneven(2, 0.4, n_texts=1)[0])
    assert judge.sharpness_told == pytest.approx(0.0, abs=1e-6)
    assert judge.sharpness_sd == pytest.approx(judge.rung_sd[1])
    assert (posterior.sharpness_sd > 0.5 * judge.sharpness_sd).all()


def test_where_sharpness_is_not_known_texts_far_from_the_middle_are_less_sure():
    answers, _, _ = uneven(3, 0.0, n_texts=1)
    judge = judge_of(5, sharpness_sd=0.3, rung_sd=(0.3, 0.3, 0.3))
    found = positions(answers, judge)
    added = (found.sharpness_sd[answers.target_ladder] * (found.mean - 3)) ** 2
    single = dataclasses.replace(judge, sharpness_sd=0.0)
    prior = dataclasses.replace(single.prior(40), sharpness=found.sharpness, sharpness_sd=np.zeros(40))
    assert found.sd**2 - positions(answers, single, prior).sd ** 2 == pytest.approx(added, abs=1e-3)
    assert added.max() > 0.05


def test_texts_as_spread_as_ladders_are_long_are_a_judges_sharpness_and_texts_alike_a_ladders_length():
    rng = np.random.default_rng(0)
    g, s, h = (sd * rng.normal(size=4000) for sd in (0.3, 0.2, 0.4))
    error = np.full(4000, 0.01)
    noise = 0.1 * rng.normal(size=(2, 4000))
    found = find_deviations(Lengths(g + s + noise[0], error, g + h + noise[1], error), 0.2, 2.0)
    assert found[:3] == pytest.approx((0.3, 0.2, 0.4), abs=0.02)
    assert found.told_apart > 0.99
    swapped = find_deviations(Lengths(g + s + noise[0], error, -g + h + noise[1], error), 0.2, 2.0)
    assert swapped.sharpness == pytest.approx(0.0, abs=0.03)
    assert swapped.stretch == pytest.approx(np.hypot(0.3, 0.2), abs=0.02)


def test_few_contexts_hardly_tell_and_none_tells_nothing():
    told = []
    for n in (1, 2, 8, 40):
        lengths = Lengths(0.3 * (-1.0) ** np.arange(n), np.full(n, 0.01), np.zeros(n), np.full(n, 0.03))
        told.append(find_deviations(lengths, 0.2, 2.0).told_apart)
    assert told == sorted(told)
    assert told[0] == pytest.approx(0.0, abs=1e-6)
    assert told[-1] > 0.8
    silent = Lengths(np.full(3, 0.2), np.zeros(3), np.zeros(3), np.full(3, np.inf))
    found = find_deviations(silent, 0.2, 2.0)
    assert found == pytest.approx((np.sqrt(0.04 / 2), np.sqrt(0.04 / 2), 0.0, 0.0), abs=1e-6)


def test_the_sharpness_of_a_context_is_its_mean_given_both_lengths():
    judge = judge_of(5, sharpness_sd=0.3, rung_sd=(0.3, 0.2, 0.3), spread_sd=0.1)
    lengths = Lengths(np.array([0.5]), np.array([0.02]), np.array([0.1]), np.array([0.03]))
    covariance = np.array([[0.09 + 0.04 + 0.02, 0.09], [0.09, 0.09 + 0.01 + 0.03]])
    by = np.array([0.09, 0.09]) @ np.linalg.inv(covariance)
    mean, sd = find_sharpness(lengths, judge)
    assert mean == pytest.approx([by @ [0.5, 0.1]])
    assert sd == pytest.approx([np.sqrt(0.09 - by @ [0.09, 0.09])])


def test_of_lengths_what_answers_leave_open_is_not_seen_as_alike():
    """Fewer answers draw ladders to the same length, and texts to the same spread: that says nothing of their own."""
    answers, _, g = uneven(4, 0.5, n_texts=30)
    judge, _ = fit(answers)
    some = answers.take(np.random.default_rng(0).random(len(answers)) < 0.3)
    for rows in (answers, some):
        plain = positions(rows, judge.equally_sharp)
        lengths = Lengths.measure(rows, plain, judge.equally_sharp)
        assert np.polyfit(g, lengths.ladder, 1)[0] == pytest.approx(1.0, abs=0.12)
        assert np.polyfit(g, lengths.spread, 1)[0] == pytest.approx(1.0, abs=0.12)


def test_texts_as_far_apart_as_usual_show_just_that_however_little_is_known_of_them():
    """Positions are drawn to the mean by what their errors leave open: a context of few answers looks no narrower."""
    rng = np.random.default_rng(0)
    n_texts = 20_000
    target_ladder = np.repeat([0, 1], n_texts)
    known = np.array([0.95, 0.6])[target_ladder]
    judge = judge_of(5, target_sd=2.0)
    posterior = Posterior(
        mean=3.0 + judge.target_sd * np.sqrt(known) * rng.normal(size=2 * n_texts),
        sd=judge.target_sd * np.sqrt(1 - known),
        rungs=np.tile(np.arange(1.0, 6.0), (2, 1)),
        rung_cov=np.tile(0.01 * np.eye(5), (2, 1, 1)),
        n_answers=np.ones(2 * n_texts, dtype=np.int64),
        settled=np.ones(2, dtype=bool),
        sharpness=np.zeros(2),
        sharpness_sd=np.zeros(2),
    )
    answers = SoftAnswers(  # one of each text, about its lowest rung; only whose they are is read
        n_ladders=2,
        n_rungs=5,
        target_ladder=target_ladder,
        ladder=target_ladder,
        first=5 + np.arange(2 * n_texts),
        second=np.zeros(2 * n_texts, dtype=np.int64),
        sign=np.ones(2 * n_texts),
        probs=np.tile([0.5, 0.3, 0.2], (2 * n_texts, 1)),
    )
    lengths = Lengths.measure(answers, posterior, judge)
    assert lengths.spread == pytest.approx([0.0, 0.0], abs=0.05)


def test_a_single_context_tells_nothing_by_the_spread_of_its_texts():
    answers, _, _ = simulate(9, n_ladders=1)
    judge = judge_of(5)
    lengths = Lengths.measure(answers, positions(answers, judge), judge)
    assert lengths.spread_var[0] > 1e6
    assert np.isfinite(lengths.spread).all()


# ------------------------------------------------------------------------------------------------- kept


def test_a_kept_scale_knows_the_sharpness_of_its_contexts(tmp_path):
    answers, _, _ = uneven(5, 0.4)
    judge, posterior = fit(answers)
    by_ladder = zip(posterior.rungs, posterior.rung_cov, posterior.sharpness, posterior.sharpness_sd, strict=True)
    anchors = {str(k): Anchors(rungs, cov, "", *map(float, more)) for k, (rungs, cov, *more) in enumerate(by_ladder)}
    Scales([Scale(judge, anchors, "task", "coherence", Signature.of(model="m"))]).save(tmp_path / "scale.json")
    (scale,) = Scales.load(tmp_path / "scale.json")
    assert scale.judge == judge
    assert scale.ladders["3"].sharpness == posterior.sharpness[3]
    own = answers.take(answers.first >= 5)
    contexts = [str(k) for k in answers.target_ladder]
    alone = scale.place(contexts, own.first - 5, own.second + 1, own.sign < 0, own.probs)
    assert alone.mean == pytest.approx(posterior.mean, abs=0.25)
    assert alone.sd == pytest.approx(posterior.sd, rel=0.2)
    unknown = scale.place(["new"] * 480, own.first - 5, own.second + 1, own.sign < 0, own.probs)
    assert unknown.sharpness_sd == pytest.approx(np.full(480, judge.sharpness_sd))
    assert (unknown.sd > alone.sd).mean() > 0.8


def test_a_scale_of_before_sharpness_was_told_reads_as_of_a_judge_that_is_alike(tmp_path):
    of = dataclasses.asdict(judge_of(3))
    for name in ("sharpness_sd", "spread_sd", "sharpness_told", "bias_sd"):
        del of[name]
    assert type(judge_of()).from_dict(of) == judge_of(3)
    anchors = Anchors(np.arange(1.0, 4), np.eye(3))
    scale = Scale(judge_of(3), {"c": anchors}, "task", "coherence", Signature.of(model="m"))
    Scales([scale]).save(tmp_path / "scale.json")
    text = (tmp_path / "scale.json").read_text()
    for name in ("sharpness", "sharpness_sd"):
        text = text.replace(f'"{name}": 0.0,', "", 1).replace(f',\n     "{name}": 0.0', "")
    (tmp_path / "scale.json").write_text(text)
    assert Scales.load(tmp_path / "scale.json")[0].hash == scale.hash


# ------------------------------------------------------------------------------------------------- bias


def by_text(seed, sd, orders=(1,), of_contexts=0.0, **options):
    """As simulate, by a judge whose position bias differs from text to text, rungs among them."""
    n = options.get("n", 5)
    answers, truth, _ = simulate(seed, orders=orders, n_ladders=30, **options)
    rng = np.random.default_rng(seed + 900)
    own = rng.normal(0, of_contexts, 30)
    of_rungs, of_texts = (sd * rng.normal(size=size) for size in ((30, n), len(truth)))
    is_rung = answers.first < n
    favour = own[answers.ladder] + np.where(
        is_rung, of_rungs[answers.ladder, np.minimum(answers.first, n - 1)], of_texts[np.maximum(answers.first - n, 0)]
    )
    d = np.log(answers.probs[:, 0] / answers.probs[:, 1]) + answers.sign * favour
    return dataclasses.replace(answers, probs=judge_of(log_tie=0.3).probs(d)), truth


@pytest.mark.parametrize("orders", [(1,), (1, -1)])
@pytest.mark.parametrize("sd", [0.0, 0.8])
def test_a_bias_that_differs_from_text_to_text_is_told_by_rungs_and_is_in_the_errors_of_one_order(orders, sd):
    answers, truth = by_text(6, sd, orders)
    judge, posterior = fit(answers)
    assert judge.bias_sd == pytest.approx(sd, abs=0.25)
    assert np.mean(np.abs(posterior.mean - truth) <= 1.645 * posterior.sd) > 0.85
    without = positions(answers, dataclasses.replace(judge, bias_sd=0.0))
    more = np.sqrt(posterior.sd**2 - without.sd**2).mean()
    assert more == pytest.approx(judge.bias_sd / judge.discrimination if len(orders) == 1 else 0.0, abs=0.05)


def test_what_a_context_favours_is_counted_once():
    judge, _ = fit(by_text(7, 0.5, of_contexts=0.6)[0])
    assert judge.bias_sd == pytest.approx(np.hypot(0.5, 0.6), rel=0.25)


def test_two_rungs_do_not_tell_whether_the_bias_differs():
    judge, _ = fit(by_text(8, 0.8, n=2)[0])
    assert judge.bias_sd == 0.0


@pytest.mark.parametrize(("orders", "said"), [("1", True), ("2,log_odds", False)])
def test_where_one_order_was_asked_the_command_line_says_what_the_other_would_take_out(orders, said):
    scale = Scale(judge_of(5, bias_sd=0.9), {}, "task", "coherence", Signature.of(model="m", orders=orders))
    lines = "\n".join(judge_lines([scale]))
    assert ("differs by 0.90 nats from text to text, in one order a score by 0.60 rungs" in lines) == said


# ------------------------------------------------------------------------------------------------- coming to rest


def by_thresholds(answers):
    """As of a judge of thresholds, whose ties are not the model's: answers that the model takes for nearly certain."""
    d = np.log(answers.probs[:, 0] / answers.probs[:, 1])
    better, worse = 1 / (1 + np.exp(0.8 - d)), 1 / (1 + np.exp(0.8 + d))
    return dataclasses.replace(answers, probs=np.stack([better, worse, 1 - better - worse], axis=1))


@pytest.mark.parametrize("case", ["bias by text", "three rungs, one order"])
@pytest.mark.parametrize("seed", [0, 2])
def test_rounds_do_not_go_back_and_forth(seed, case, monkeypatch):
    rounds = []
    change = fitting._change
    monkeypatch.setattr(fitting, "_change", lambda *judges: rounds.append(change(*judges)) or rounds[-1])
    if case == "bias by text":
        answers, truth = by_text(seed, 0.8, (1, -1), noise=0.7, a=1.2)
    else:
        answers, truth, _ = simulate(seed, n_ladders=40, n=3, n_texts=16, orders=(1,), noise=0.7, a=1.2)
    judge, posterior = fit(by_thresholds(answers))
    assert judge.converged
    assert len(rounds) < 100
    assert np.mean(np.abs(posterior.mean - truth) <= 1.645 * posterior.sd) > 0.84


def test_a_parameter_that_falls_has_changed_as_much_as_one_that_rises():
    lower, higher = judge_of(noise=0.05), judge_of(noise=0.25)
    assert fitting._change(lower, higher) == fitting._change(higher, lower) == pytest.approx(0.2)


# ------------------------------------------------------------------------------------------------- a rise


def test_noise_on_a_few_ladders_makes_no_scale():
    for n_ladders in (1, 2, 3):
        for orders in ((1,), (1, -1)):
            of_noise = [simulate(seed, n_ladders, a=0.0, noise=1.5, orders=orders)[0] for seed in range(30)]
            assert sum(map(sees_rise, of_noise)) <= 3  # 2.3 % of them, by chance


def test_ladders_of_which_nearly_as_many_fall_as_rise_make_no_scale():
    answers, _, _ = simulate(31, n_ladders=10)
    falls = answers.ladder < 4
    turned = answers.probs[:, [1, 0, 2]]
    mixed = dataclasses.replace(answers, probs=np.where(falls[:, None], turned, answers.probs))
    assert not sees_rise(mixed)
    assert sees_rise(answers)


def test_a_judge_who_sees_most_ladders_rise_is_not_blamed_for_those_that_fall():
    answers, truth, _ = simulate(31, n_ladders=30)
    turned = np.where(answers.first < 5, 4 - answers.first, answers.first), 4 - answers.second
    falls = answers.ladder < 10
    mixed = dataclasses.replace(
        answers,
        first=np.where(falls, turned[0], answers.first),
        second=np.where(falls, turned[1], answers.second),
    )
    judge, posterior = fit(mixed)
    assert judge.rungs_rise
    assert judge.converged
    level = np.arange(-2, 3)
    assert np.flatnonzero(posterior.rungs @ level < 0).tolist() == list(range(10))
    assert np.mean(np.abs(posterior.mean - truth) <= 1.645 * posterior.sd) > 0.85


def test_a_small_rise_that_is_clear_is_a_scale():
    judge, _ = fit(simulate(32, n_ladders=40, a=0.12, noise=0.2)[0])
    assert judge.rungs_rise
    assert judge.discrimination == pytest.approx(0.12, rel=0.2)  # 0.5 nats from the worst rung to the best


def test_a_rise_of_less_than_a_fifth_of_a_nat_is_none_however_clear():
    answers = simulate(33, n_ladders=40, a=0.03, noise=0.02)[0]
    assert sees_rise(answers)
    assert not fit(answers)[0].rungs_rise


# ------------------------------------------------------------------------------------------------- variances, exactly


def known(rungs, mean, sd=0.0):
    n_ladders, n = np.shape(rungs)
    posterior = positions(simulate(0, n_ladders, n=n, n_texts=len(mean) // n_ladders)[0], judge_of(n))
    return dataclasses.replace(
        posterior,
        rungs=np.array(rungs, dtype=float),
        rung_cov=np.zeros((n_ladders, n, n)),
        mean=np.array(mean, dtype=float),
        sd=np.full(len(mean), sd),
    )


def test_the_variance_of_stretch_is_that_of_slopes():
    slopes = 1 + np.array([-0.6, 0.6, 0.6, -0.6])
    judge = fit_deviations(judge_of(), known(3 + slopes[:, None] * np.arange(-2, 3), np.full(4, 3.0)), np.arange(4))
    uneven = 2 * 0.3**2 / (4 * 3 + 2)
    assert judge.rung_sd[2] ** 2 == pytest.approx(uneven)
    assert judge.rung_sd[1] ** 2 == pytest.approx((4 * (0.36 - uneven / 10) + 2 * 0.2**2) / 6)


def test_what_is_not_known_of_texts_is_part_of_their_variance():
    rungs, mean = np.tile(np.arange(1.0, 6), (2, 1)), [1.0, 3.0, 5.0, 3.0]
    judge = fit_deviations(judge_of(), known(rungs, mean, sd=0.5), np.repeat([0, 1], 2))
    assert judge.target_sd**2 == pytest.approx((8 + 4 * 0.25 + 2 * 1.5**2) / 6)


def test_another_unit_is_one_for_errors_too():
    posterior = known(3 + 2.0 * np.arange(-2, 3)[None], [5.0], sd=0.5)
    posterior = dataclasses.replace(posterior, rung_cov=np.eye(5)[None])
    judge, moved = put_on_scale(judge_of(discrimination=1.0), posterior)
    assert judge.discrimination == 2.0
    assert moved.rungs[0] == pytest.approx(np.arange(1.0, 6))
    assert (moved.mean[0], moved.sd[0], moved.rung_cov[0, 0, 0]) == pytest.approx((4.0, 0.25, 0.25))
