"""Answers in words: frequencies of a few samples weigh what they tell, and exact probabilities what they did."""

import dataclasses

import numpy as np
import pytest

from benchmarks.misfits import Judge, simulate
from benchmarks.words import answer_in_words, by_rung, run_paper
from synthscore.engine import Generation
from synthscore.engines.words import InWords
from synthscore.errors import InputError
from synthscore.io.scores import Scores
from synthscore.judging.asking import Asking, Inquiry, Pair
from synthscore.judging.labels import both_in_one
from synthscore.judging.templates import Templates, load_task
from synthscore.ladders.references import References
from synthscore.scoring.anchored import JudgeModel, fit, positions
from synthscore.scoring.anchored.adaptive import Sure, ask_in_rounds
from synthscore.scoring.anchored.correlation import Evidence, effect_of_neighbours
from synthscore.scoring.anchored.drift import verdict_table
from synthscore.scoring.anchored.model import half_margin, variance
from synthscore.scoring.frequencies import error_on_rungs, variance_of_sum
from synthscore.scoring.paper import paper_sum, rung_equivalent
from synthscore.signature import Signature
from synthscore.thresholds.rules import score_limits
from tests import factories
from tests.fakes import FakeEngine
from tests.scoring.test_scale import LADDERS, scorer, soft_judge, targets, truth

JUDGE = JudgeModel(
    n_rungs=5,
    discrimination=1.5,
    position_bias=0.0,
    log_tie=0.2,
    noise=0.05,
    spread=0.7,
    rung_sd=(0.3, 0.2, 0.3),
    target_mean=3.0,
    target_sd=1.5,
    n_ladders=10**9,
    pair_correlation=0.4,
    rung_correlation=0.3,
)


def drawn(seed=0, **values):
    return simulate(np.random.default_rng(seed), Judge(**{"n_contexts": 8, "n_texts": 6, **values}))[0]


def of_samples(answers, n):
    return dataclasses.replace(answers, n_samples=np.broadcast_to(np.asarray(n, dtype=float), len(answers)))


def in_words(answers, n, seed=0):
    return answer_in_words(np.random.default_rng(seed), answers, np.full(len(answers), float(n)))


def test_samples_of_a_settled_opinion_scatter_as_the_weight_says():
    """Opinions that vary by m V, n samples of each: the variance of their mean margin is V / w."""
    rng = np.random.default_rng(0)
    mean = np.array([0.55, 0.25, 0.2])
    settled = 0.3  # Dirichlet's 1 / (1 + precision): the variance of the opinion's margin over V
    opinions = rng.dirichlet(mean * (1 / settled - 1), 200_000)
    judge = dataclasses.replace(JUDGE, noise=settled, spread=0.0)
    for n in (1, 3, 10):
        margins = half_margin(rng.multinomial(n, opinions) / n)
        expected = variance(mean) / judge.weight(mean, np.array(1 / n))
        assert margins.var() == pytest.approx(expected, rel=0.02)


def test_one_sample_is_one_answer_and_infinitely_many_are_exact_probabilities():
    probs = JUDGE.probs(np.linspace(-4, 4, 9))
    assert JUDGE.weight(probs, np.ones(9)) == pytest.approx(np.ones(9))
    assert (JUDGE.weight(probs, np.zeros(9)) == JUDGE.weight(probs)).all()
    weights = [JUDGE.weight(probs, np.full(9, 1 / n)) for n in (1, 2, 3, 10, 1000)]
    assert (np.diff(weights, axis=0) > 0).all()
    assert (weights[-1] < JUDGE.weight(probs)).all()


def test_answers_of_infinitely_many_samples_have_todays_weights_to_the_last_bit():
    """Beside one answer that is sampled, so that none of the short ways of exact answers is taken."""
    answers = drawn(pair_noise=0.7)
    one = np.flatnonzero(answers.first == 5)[0]  # of the first text: the others' weights have nothing to do with it
    n_samples = np.full(len(answers), np.inf)
    n_samples[one] = 3.0
    mixed = dataclasses.replace(answers, n_samples=n_samples)
    probs = JUDGE.probs(np.random.default_rng(1).normal(0, 2, len(answers)))
    exact, other = Evidence(answers, JUDGE).weight(probs), Evidence(mixed, JUDGE).weight(probs)
    rest = answers.first != 5
    assert (exact[rest] == other[rest]).all()
    assert other[one] < exact[one]


def test_a_fit_to_answers_of_infinitely_many_samples_is_todays_to_the_last_bit():
    answers = drawn()
    (exact, found), (judge, posterior) = fit(answers), fit(of_samples(answers, np.inf))
    assert judge == exact
    assert (posterior.mean == found.mean).all()
    assert (posterior.sd == found.sd).all()


def test_fewer_samples_leave_a_text_less_sure():
    answers = drawn()
    sds = [positions(of_samples(answers, n), JUDGE).sd for n in (1, 3, 10, np.inf)]
    assert (np.diff(sds, axis=0) < 0).all()


def test_as_many_copies_of_one_sample_as_there_are_in_an_answer_say_the_same():
    """n answers of one sample each, which share the opinion, weigh what their frequency does."""
    judge = dataclasses.replace(JUDGE, pair_correlation=1.0, rung_correlation=0.0, noise=0.3, spread=0.0)
    answers = drawn(both_orders=False)
    answers = in_words(answers.take(answers.first >= 5), 4)  # of two rungs both questions are about one pair
    rows = np.repeat(np.arange(len(answers)), 4)
    counts = np.rint(4 * answers.probs).astype(int)
    labels = np.concatenate([np.repeat(np.arange(3), row) for row in counts])
    apart = dataclasses.replace(answers.take(rows), probs=np.eye(3)[labels], n_samples=np.ones(len(rows)))
    together, single = positions(answers, judge), positions(apart, judge)
    assert single.mean == pytest.approx(together.mean, abs=1e-3)
    assert single.sd == pytest.approx(together.sd, rel=1e-3)


def test_what_sampling_adds_is_of_no_other_rung():
    rng = np.random.default_rng(1)
    judge = dataclasses.replace(JUDGE, rung_correlation=0.6)
    info, share = rng.uniform(0.5, 2, (3, 5)), rng.uniform(0.1, 1, (3, 5))
    opinion = rng.normal(size=(200_000, 5))
    for k in range(1, 5):
        opinion[:, k] = 0.6 * opinion[:, k - 1] + 0.8 * opinion[:, k]
    noise = rng.normal(size=opinion.shape)
    g = np.sqrt(info)
    sums = opinion @ (g * np.sqrt(share)).T + noise @ (g * np.sqrt(1 - share)).T
    assert effect_of_neighbours(judge, info, share) == pytest.approx(sums.var(axis=0) / info.sum(axis=1), rel=0.02)


def test_the_judge_that_samples_make_has_the_weights_of_samples():
    probs = JUDGE.probs(np.linspace(-4, 4, 9))
    made = JUDGE.for_samples(3.0)
    assert made.weight(probs) == pytest.approx(JUDGE.weight(probs, np.full(9, 1 / 3)))
    assert 0 < made.pair_correlation < JUDGE.pair_correlation
    assert JUDGE.for_samples(np.inf) is JUDGE


def test_the_noise_of_the_opinion_is_found_under_that_of_sampling():
    answers = simulate(np.random.default_rng(3), Judge(call_noise=1.5))[0]
    exact, _ = fit(answers)
    sampled, _ = fit(in_words(answers, 5))
    at = np.array([0.1, 0.2])
    assert sampled.dispersion(at) == pytest.approx(exact.dispersion(at), rel=0.35)
    assert sampled.discrimination == pytest.approx(exact.discrimination, rel=0.15)


def test_intervals_hold_what_they_say_whether_answers_are_exact_or_in_words():
    held = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        opinions, truth = simulate(rng, Judge(call_noise=1.0, n_contexts=20, n_texts=8))
        answers = answer_in_words(rng, opinions, rng.choice([1.0, 3.0, np.inf], len(opinions)))
        low, high = fit(answers)[1].interval(0.9)
        held.append(((low <= truth) & (truth <= high)).mean())
    assert 0.83 < np.mean(held) < 0.96  # 480 texts: a standard error of .014, and more as scales are shared


def test_fewer_than_one_sample_is_refused():
    with pytest.raises(InputError, match=r"answer 0 is of 0 samples, expected 1 or more"):
        of_samples(drawn(), 0.0)
    with pytest.raises(InputError, match="answer 0 is of nan samples"):
        of_samples(drawn(), np.nan)


def test_both_orders_of_frequencies_that_exclude_each_other_have_a_mean():
    by_order = np.array([[[1.0, 0.0, 0.0]], [[0.0, 1.0, 0.0]]])
    assert both_in_one(by_order, "compare", "probabilities").tolist() == [[0.5, 0.5, 0.0]]
    assert np.isnan(both_in_one(by_order, "compare", "log-odds")).all()


# ------------------------------------------------------------------------------------------------- the paper's sum


def test_the_error_of_the_papers_sum_of_one_rung_is_that_of_a_mean():
    """Far from all other effects: many samples of one order, one rung that counts."""
    better, worse = np.array([[0.3]]), np.array([[0.5]])
    n = 80.0
    found = variance_of_sum(better, worse, np.array([[n]]), two_sided=False)
    assert found == pytest.approx((0.8 - 0.04) / n, rel=0.03)
    two_sided = variance_of_sum(better, worse, np.array([[n]]), two_sided=True)
    assert two_sided == pytest.approx((0.21 + 0.25) / n, rel=0.03)


def test_the_error_falls_with_the_root_of_n_and_exact_probabilities_have_none():
    better, worse = np.full((2, 5), 0.4), np.full((2, 5), 0.3)
    errors = [variance_of_sum(better, worse, np.full((2, 5), n), two_sided=False) for n in (10.0, 40.0, np.inf)]
    assert errors[0] / errors[1] == pytest.approx(4, rel=0.1)
    assert errors[2] == 0


def test_answers_that_all_agree_are_not_certain():
    found = variance_of_sum(np.ones((2, 5)), np.zeros((2, 5)), np.ones((2, 5)), two_sided=False)
    assert 0 < found < 55 / 2 * 0.25


def test_the_error_in_rungs_is_the_delta_method_where_the_score_is_not_0_and_finite_where_it_is():
    raw, e = 10.0, 0.01
    found = error_on_rungs(raw, e**2, 5)
    assert found.stderr == pytest.approx(e / (2 * 5.0), rel=1e-3)
    assert found.low < 5.0 < found.high
    assert found.high - found.low == pytest.approx(2 * 1.645 * found.stderr, rel=1e-3)
    at_0 = error_on_rungs(-15.0, 1.0, 5)
    assert at_0.stderr == pytest.approx(1.0)
    assert at_0.low == 0.0
    assert error_on_rungs(15.0, 4.0, 5).high == pytest.approx(np.sqrt(30))
    assert error_on_rungs(-15.0, 0.0, 5) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize(("tau", "n"), [(0.0, 1), (1.0, 3), (2.0, 10)])
def test_the_interval_of_the_papers_sum_holds_what_infinitely_many_samples_would_give(tau, n):
    held, with_true_variance, variances = run_paper(1, tau, n)
    assert 0.84 < held.mean() < 0.97  # a standard error of .014
    assert with_true_variance.mean() == pytest.approx(0.9, abs=0.04)
    assert np.sqrt(variances[0].mean() / variances[1].mean()) < 1.4


def test_the_simulated_table_holds_every_answer_about_a_text():
    opinions = drawn()
    table = by_rung(opinions)
    assert table.shape == (48, 2, 5, 3)
    assert table.sum(axis=-1) == pytest.approx(np.ones((48, 2, 5)))
    mean = table.mean(axis=1)
    assert rung_equivalent(paper_sum(mean[..., 0], mean[..., 1]), 5).shape == (48,)


# ------------------------------------------------------------------------------------------------- from texts to scores


class SampledJudge(FakeEngine):
    """Answers each question on labels in words, by labels drawn from `soft_judge`; one in `silent` says no label."""

    def __init__(self, silent=0):
        super().__init__(soft_judge)
        self.silent = silent
        self.n_said = 0

    def answer_one(self, question):
        assert question.sampling is not None
        self.n_said += 1
        if self.silent and self.n_said % self.silent == 0:
            return Generation("I cannot say.", "stop", 4)
        probs = np.exp(soft_judge(question.prompt, question.labels))
        rng = np.random.default_rng([question.seed, *question.prompt.text.encode()[-200:]])
        return Generation(rng.choice(question.labels, p=probs / probs.sum()), "stop", 1)


def worded(n, scoring="paper", silent=0, **options):
    engine = InWords(SampledJudge(silent), n)
    return factories.scorer(References(tuple(LADDERS)), engine, scoring=scoring, **options)


def test_a_paper_score_in_words_has_an_error_that_shrinks_and_verdicts_that_say_of_how_many_samples():
    texts = targets()
    few, many = (worded(n).score(texts) for n in (1, 9))
    exact = factories.scorer(References(tuple(LADDERS)), FakeEngine(soft_judge), both_orders=True).score(texts)
    assert {verdict.n_samples for row in few for verdict in row.verdicts} == {1}
    assert len(few[0].verdicts) == 10  # in both orders, unless somebody says otherwise
    for row in [*few, *many]:
        assert row.low <= row.value <= row.high
        assert 0 < row.stderr < 1.5
        assert score_limits(row) == (row.value, row.value)
    assert np.mean([row.stderr for row in many]) < np.mean([row.stderr for row in few]) / 2
    assert all(row.stderr is row.low is row.high is None for row in exact)
    assert all(verdict.n_samples is None for row in exact for verdict in row.verdicts)


def test_a_score_of_which_verdicts_are_missing_keeps_hard_limits_and_has_no_error():
    ladders = tuple(factories.ladder(f"c{i}", failed=(2,)) for i in range(6))
    rows = factories.scorer(References(ladders), InWords(SampledJudge(), 3)).score(targets())
    for row in rows:
        assert row.status == "partial"
        assert row.stderr is None
        assert row.low < row.high


def test_samples_that_said_no_label_are_not_counted():
    rows = worded(5, silent=9).score(targets(contexts=2))
    assert {verdict.n_samples for row in rows for verdict in row.verdicts} == {4, 5}
    assert all(row.stderr > 0 for row in rows)


def test_anchored_scores_in_words_are_less_sure_and_come_back_from_a_file(tmp_path):
    texts = targets()
    few = worded(1, "anchored").score(texts)
    exact = scorer(both_orders=True).score(texts)
    assert np.mean([row.stderr for row in few]) > 1.3 * np.mean([row.stderr for row in exact])
    assert np.corrcoef(few.values, truth(texts))[0, 1] > 0.8
    few.save(tmp_path / "few.jsonl")
    back = Scores.load(str(tmp_path / "few.jsonl"))
    assert [row.verdicts for row in back] == [row.verdicts for row in few]
    assert verdict_table(back)[:, 6].tolist() == [1.0] * 300
    assert np.isinf(verdict_table(exact)[:, 6]).all()


def test_adaptive_questions_to_a_judge_in_words_stop_later_than_to_an_exact_one():
    texts = targets()
    fitted = scorer(both_orders=True)
    fitted.score(texts)
    scale = fitted.scales[0]
    n_asked = []
    for engine in (InWords(SampledJudge(), 1), FakeEngine(soft_judge)):
        same = dataclasses.replace(scale, signature=Signature(()))
        asked = []

        def ask(target, level, swapped, engine=engine, asked=asked):
            asked.extend(target.tolist())
            pairs = [
                Pair(
                    LADDERS[0].context,
                    "coherence",
                    texts[k].text,
                    LADDERS[int(texts[k].context_id[1:])].rungs[j - 1].text,
                )
                for k, j in zip(target.tolist(), level.tolist(), strict=True)
            ]
            one = Inquiry(pairs, engine, Templates(load_task("summarization")), Asking(both_orders=True))
            return one.ask(np.arange(len(pairs)), swapped)

        n = 1.0 if isinstance(engine, InWords) else np.inf
        ask_in_rounds(same, [text.context_id for text in texts], ask, Sure(3.0), n_samples=n)
        n_asked.append(len(asked))
    assert n_asked[0] > 1.3 * n_asked[1]
