"""Questions asked in rounds: which, how many, and that the answers are used as by the scale itself."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.adaptive import Data, on_rungs, place, simulated
from synthscore.errors import InputError
from synthscore.scoring.anchored import Anchors, JudgeModel, Scale
from synthscore.scoring.anchored.adaptive import SameDecision, Sure, _add_information, _Known, ask_in_rounds
from synthscore.signature import Signature

JUDGE = JudgeModel(5, 1.2, 0.8, 0.2, 0.05, 0.7, (0.3, 0.2, 0.3), 3.0, 1.3, n_ladders=50)


def scale(judge=JUDGE, ladders=None):
    return Scale(judge, ladders or {}, "summarization", "coherence", Signature.of(judge="made up"))


def anchors(means, sds):
    return Anchors(np.array(means, dtype=float), np.diag(np.square(sds)).astype(float))


class Asking:
    """Answers as the judge's model says, of targets at x on rungs at 1..N; keeps what it was asked, round by round."""

    def __init__(self, x, judge=JUDGE, fails=lambda target, level, swapped: False):
        self.x, self.judge, self.fails, self.rounds = np.asarray(x, dtype=float), judge, fails, []

    def __call__(self, target, level, swapped):
        self.rounds.append(list(zip(target.tolist(), level.tolist(), swapped.tolist(), strict=True)))
        sign = np.where(swapped, -1, 1)
        said = self.judge.probs(self.judge.discrimination * (self.x[target] - level) + self.judge.position_bias * sign)
        said[[self.fails(*each) for each in self.rounds[-1]]] = np.nan
        return said

    @property
    def questions(self):
        """target, level, swapped of each, in the order asked."""
        return np.array([each for questions in self.rounds for each in questions]).T


NEVER = Sure(3.0, 1e-300)
AT_ONCE = Sure(1.0, 0.49)
"""After any answer: of texts that are better than the worst rung."""


@pytest.fixture(scope="module")
def data() -> Data:
    return simulated(0, 5)


# ------------------------------------------------------------------------------------------------- rounds


def test_the_posterior_is_the_scales_own_of_the_answers_that_were_given(data):
    asked = ask_in_rounds(data.scale, data.contexts, data.ask, SameDecision(3.5, 0.05), usable=data.usable)
    target, order, rung = np.nonzero(~np.isnan(asked.probs[..., 0]))
    expected = data.scale.place(data.contexts, target, rung + 1, order == 1, asked.probs[target, order, rung])
    np.testing.assert_allclose(asked.posterior.mean, expected.mean, atol=1e-9)
    np.testing.assert_allclose(asked.posterior.sd, expected.sd, atol=1e-9)


def test_a_rule_that_is_never_met_asks_whole_ladders_and_gives_their_scores(data):
    asked = ask_in_rounds(data.scale, data.contexts, data.ask, NEVER, usable=data.usable)
    assert asked.n_asked.tolist() == asked.n_full.tolist()
    assert asked.n_rounds == 10
    assert not asked.met.any()
    whole = place(data, (1, 2, 3, 4, 5), 2)
    np.testing.assert_allclose(asked.posterior.mean, whole.mean, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("n_rungs", [5, 9])
def test_half_of_the_questions_give_98_percent_of_the_decisions(n_rungs):
    data = simulated(1, n_rungs)
    whole = place(data, tuple(range(1, n_rungs + 1)), 2)
    same, shares = [], []
    for threshold in (2.5, 3.5):
        t = on_rungs(threshold, n_rungs)
        asked = ask_in_rounds(data.scale, data.contexts, data.ask, SameDecision(t), usable=data.usable)
        same.append(((asked.posterior.mean >= t) == (whole.mean >= t)).mean())
        shares.append(asked.n_asked.sum() / asked.n_full.sum())
    assert np.mean(same) >= 0.98
    assert np.mean(shares) <= 0.5


def test_what_is_asked_about_a_target_does_not_depend_on_the_others(data):
    stop = SameDecision(3.0, 0.05)
    together = ask_in_rounds(data.scale, data.contexts, data.ask, stop, usable=data.usable)
    for k in (0, 7, 300):
        one = ask_in_rounds(data.scale, [data.contexts[k]], lambda t, *q, k=k: data.ask(t + k, *q), stop)
        np.testing.assert_array_equal(one.probs[0], together.probs[k])
        assert (one.posterior.mean[0], one.posterior.sd[0]) == (together.posterior.mean[k], together.posterior.sd[k])


def test_questions_that_share_a_prompts_beginning_lie_together():
    asking = Asking([1.0, 3.0, 5.0, 1.0, 3.0, 5.0])
    ask_in_rounds(scale(), ["b", "a", "b", "a", "b", "a"], asking, NEVER)
    for asked in asking.rounds:
        keys = [("bababa"[target], level, swapped) for target, level, swapped in asked]
        assert keys == sorted(keys)
    assert len(asking.rounds) == 10


def test_no_question_is_asked_twice_and_all_are_counted():
    asking = Asking([2.0, 4.0])
    asked = ask_in_rounds(scale(), ["a", "a"], asking, NEVER)
    questions = [each for questions in asking.rounds for each in questions]
    assert len(set(questions)) == len(questions) == asked.n_asked.sum() == asked.n_full.sum() == 20
    assert list(map(len, asking.rounds)) == [2] * 10
    assert asked.n_rounds == 10


def test_the_orders_take_turns_even_where_one_tells_more():
    judge = replace(JUDGE, position_bias=3.0, noise=1.0, spread=0.0, target_mean=5.0)
    asking = Asking([5.0], judge)
    ask_in_rounds(scale(judge), ["a"], asking, NEVER)
    swapped = [questions[0][2] for questions in asking.rounds]
    assert all(abs(swapped[:k].count(True) - swapped[:k].count(False)) <= 1 for k in range(11))


def test_in_one_order_no_question_is_swapped():
    asking = Asking([2.0])
    asked = ask_in_rounds(scale(), ["a"], asking, NEVER, both_orders=False)
    assert not asking.questions[2].any()
    assert asked.n_full.tolist() == [5]


def test_a_failed_question_is_counted_and_not_asked_again():
    asking = Asking([2.0, 4.0], fails=lambda target, level, swapped: target == 0)
    asked = ask_in_rounds(scale(), ["a", "a"], asking, AT_ONCE)
    assert asked.n_asked[0] == 10
    assert np.isnan(asked.probs[0]).all()
    assert not asked.met[0]
    assert asked.met[1]
    assert asked.posterior.n_answers[0] == 0
    assert asked.posterior.mean[0] == JUDGE.target_mean


def test_rungs_that_are_not_usable_are_not_asked_about():
    usable = np.ones((2, 5), dtype=bool)
    usable[1, :4] = False
    asking = Asking([2.0, 4.0])
    asked = ask_in_rounds(scale(), ["a", "a"], asking, NEVER, usable=usable)
    assert asked.n_full.tolist() == asked.n_asked.tolist() == [10, 2]
    target, level, _ = asking.questions
    assert set(level[target == 1]) == {5}


def test_a_target_without_any_rung_is_not_asked_about_and_does_not_end_the_others():
    usable = np.ones((2, 5), dtype=bool)
    usable[0] = False
    asked = ask_in_rounds(scale(), ["a", "a"], Asking([2.0, 4.0]), AT_ONCE, usable=usable)
    assert asked.n_asked[0] == 0
    assert not asked.met[0]
    assert asked.met[1]


def test_of_no_targets_nothing_is_asked():
    asked = ask_in_rounds(scale(), [], Asking([]), NEVER)
    assert asked.n_rounds == 0
    assert asked.n_asked.tolist() == []


def test_at_least_one_answer_is_asked_for():
    asked = ask_in_rounds(scale(), ["a"], Asking([2.0]), AT_ONCE)
    assert asked.n_asked.tolist() == [1]


def test_after_an_answer_that_is_still_to_come_a_target_is_asked_nothing_more_and_has_not_met_the_rule():
    asking = Asking([3.4, 4.0])

    def ask(target, level, swapped):
        probs = asking(target, level, swapped)
        probs[(target == 0) & (len(asking.rounds) == 2)] = np.inf
        return probs

    asked = ask_in_rounds(scale(), ["a", "a"], ask, SameDecision(3.5, 0.05))
    target, *_ = asking.questions
    assert asked.n_asked.tolist() == np.bincount(target).tolist()
    assert asked.n_asked[0] == 2
    assert asked.n_full.tolist() == [10, 10]
    assert asked.met.tolist() == [False, True]
    assert asked.posterior.n_answers.tolist() == [1, asked.n_asked[1]]


# ------------------------------------------------------------------------------------------------- which question


def test_a_rung_whose_place_is_not_known_is_asked_about_last():
    ladders = {"a": anchors([1, 2, 3, 4, 5], [0.1, 0.1, 3.0, 0.1, 0.1])}
    asking = Asking([3.0])
    ask_in_rounds(scale(ladders=ladders), ["a"], asking, NEVER, both_orders=False)
    assert asking.questions[1][-1] == 3


def test_a_clear_judge_is_asked_about_the_rung_where_the_target_is_expected():
    judge = JudgeModel(5, 6.0, 0.0, -5.0, 1.0, 0.0, (0.01, 0.01, 0.01), 4.0, 0.5)
    asking = Asking([4.0], judge)
    ask_in_rounds(scale(judge), ["a"], asking, NEVER, both_orders=False)
    assert asking.questions[1][0] == 4


def test_the_first_question_leaves_less_variance_than_any_other_rung():
    ladders = {"a": anchors([1, 2, 3, 4, 5], [0.8, 0.5, 0.3, 0.6, 0.7])}
    made = scale(ladders=ladders)
    rng = np.random.default_rng(0)
    x = 3 + 1.3 * rng.normal(size=4000)
    left = []
    for level in range(1, 6):
        rungs = level + ladders["a"].cov[level - 1, level - 1] ** 0.5 * rng.normal(size=len(x))
        margin = JUDGE.discrimination * (x - rungs) + JUDGE.position_bias + 0.7**0.5 * rng.normal(size=len(x))
        levels = np.full(len(x), level)
        found = made.place(["a"] * len(x), np.arange(len(x)), levels, levels < 0, JUDGE.probs(margin))
        left.append(np.mean((found.mean - x) ** 2))
    asking = Asking([3.0])
    ask_in_rounds(made, ["a"], asking, AT_ONCE, both_orders=False)
    assert left[asking.questions[1][0] - 1] < min(left) + 0.05  # the sampling error of a mean square


def test_what_is_known_of_a_target_is_what_the_scale_says():
    judge = replace(JUDGE, context_sd=1.5)
    made = scale(judge, {"a": anchors([1, 2.5, 3, 4, 5.5], [0.2, 0.9, 0.6, 0.2, 0.4])})
    level, swapped = np.array([1, 4, 4, 5]), np.array([False, False, True, True])
    said = judge.probs(np.array([2.0, -1.0, 0.5, -2.0]))
    posterior = made.place(["a"], np.zeros(4, dtype=int), level, swapped, said)
    answered = np.zeros((1, 2, 5), dtype=bool)
    answered[0, swapped.astype(int), level - 1] = True
    known = _Known(judge, posterior, made.prior(["a"]).precision, answered)
    variance = known.cov[0, 0, 0] + judge.scale_variance(posterior.mean)[0]
    assert variance == pytest.approx(posterior.sd[0] ** 2, rel=1e-3)  # of Newton's last step
    np.testing.assert_allclose(known.cov[:, 1:, 1:], posterior.rung_cov, rtol=1e-3, atol=1e-4)


def test_the_next_question_is_the_one_that_leaves_least_variance_once_it_is_answered():
    rng = np.random.default_rng(0)
    n = 30
    means, sds = np.arange(1, 6) + 0.3 * rng.normal(size=(n, 5)), rng.uniform(0.1, 2.0, (n, 5))
    made = scale(ladders={str(k): anchors(means[k], sds[k]) for k in range(n)})
    contexts = [str(k) for k in range(n)]
    target, level = np.repeat(np.arange(n), 3), np.array([rng.permutation(5)[:3] + 1 for _ in range(n)]).ravel()
    said = JUDGE.probs(rng.normal(size=3 * n))
    posterior = made.place(contexts, target, level, np.zeros(3 * n, dtype=bool), said)
    answered = np.zeros((n, 1, 5), dtype=bool)
    answered[target, 0, level - 1] = True
    known = _Known(JUDGE, posterior, made.prior(contexts).precision, answered)
    chosen = known.best(~answered, np.ones(n, dtype=bool))[:, 1]
    now = known.precision_by(known.certain, answered)
    left = [np.linalg.inv(_add_information(now, known.info[:, 0] * np.eye(5)[k]))[:, 0, 0] for k in range(5)]
    assert chosen.tolist() == np.argmin(np.where(answered[:, 0], np.inf, np.stack(left, axis=1)), axis=1).tolist()


def test_the_other_order_of_a_question_adds_less_the_more_the_two_orders_share():
    made = scale()
    posterior = made.place(["a"], np.array([0]), np.array([3]), np.array([False]), JUDGE.probs(np.array([0.1])))
    answered = np.zeros((1, 2, 5), dtype=bool)
    answered[0, 0, 2] = True
    gains = []
    for correlation in (-0.3, 0.0, 0.6, 1.0):
        judge = replace(JUDGE, position_bias=0.0, pair_correlation=correlation)
        gain = _Known(judge, posterior, made.prior(["a"]).precision, answered).gain()[0]
        assert gain[0, [0, 1, 3, 4]] == pytest.approx(gain[1, [0, 1, 3, 4]])
        gains.append(gain[1, 2] / gain[1, 1])
    assert gains == sorted(gains, reverse=True)
    assert gains[-1] < 0.1 < gains[-2]


# ------------------------------------------------------------------------------------------------- stop rules


def test_sure_stops_where_the_probability_leaves_its_bounds():
    mean, sd = np.array([3.0, 3.0 + 1.66, 3.0 - 1.66, 3.0 + 1.62]), np.ones(4)
    assert Sure(3.0, 0.05).met(mean, sd, 9 * sd).tolist() == [False, True, True, False]


def test_same_decision_stops_by_what_is_to_come_and_not_by_what_is_not_known():
    mean, sd, to_come = np.array([3.4, 3.4, 3.0]), np.full(3, 2.0), np.array([0.2, 0.4, 0.0])
    assert SameDecision(3.0, 0.05).met(mean, sd, to_come).tolist() == [True, False, False]


@settings(max_examples=10)
@given(st.floats(1.5, 4.5), st.sampled_from([0.01, 0.05, 0.2]))
def test_what_is_left_open_grows_with_being_less_strict(threshold, eps):
    mean, sd = np.linspace(0, 6, 50), np.full(50, 0.7)
    strict, loose = (SameDecision(threshold, each).met(mean, sd, sd / 2) for each in (eps / 2, eps))
    assert (strict <= loose).all()
    assert (Sure(threshold, eps).met(mean, sd, sd / 2) <= loose).all()


def test_the_mean_moves_as_far_as_was_said_to_come(data):
    """Of texts asked about once: where whole ladders would put them, against the deviation told to the rule."""
    told = []

    class Once:
        def met(self, mean, sd, to_come):
            told.append((mean, to_come))
            return np.ones(len(mean), dtype=bool)

    ask_in_rounds(data.scale, data.contexts, data.ask, Once(), usable=data.usable)
    mean, to_come = told[-1]
    moved = (place(data, (1, 2, 3, 4, 5), 2).mean - mean) / to_come
    assert 0.85 < moved.std() < 1.15  # 800 texts; their ladders are 50


# ------------------------------------------------------------------------------------------------- faults


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Sure(float("nan")), "threshold is nan"),
        (lambda: Sure(3.0, alpha=0.0), "alpha is 0.0, expected between 0 and 0.5"),
        (lambda: SameDecision(float("inf")), "threshold is inf"),
        (lambda: SameDecision(3.0, 0.5), "eps is 0.5, expected between 0 and 0.5"),
    ],
)
def test_what_cannot_be_used_is_refused(make, says):
    with pytest.raises(InputError, match=says):
        make()
