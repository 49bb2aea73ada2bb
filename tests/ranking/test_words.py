"""Answers in words: comparisons carry counts, each sample is a decision, and errors are those of pairs."""

import dataclasses

import numpy as np
import pytest

from synthscore.engine import Generation
from synthscore.engines.words import InWords
from synthscore.errors import InputError
from synthscore.ranking import METHODS, Comparisons, ComparisonSets, compare, rank
from synthscore.ranking.methods import default_method
from synthscore.ranking.repeats import correlate_errors, weigh_in_decisions
from tests.fakes import FakeEngine, reading_judge

IN_WORDS = [name for name, method in METHODS.items() if method.in_words]


def sampled(n, n_texts=12, *, spread=1.0, tau=0.0, best=None, seed=0, ties=0.0):
    """Both orders of all pairs, n answers each. tau : nats, of the pair. best : a text that wins every answer"""
    rng = np.random.default_rng(seed)
    truth = np.sort(rng.normal(0, spread, n_texts))
    low, high = np.triu_indices(n_texts, 1)
    first, second = np.concatenate([low, high]), np.concatenate([high, low])
    settled = np.tile(rng.normal(0, tau, len(low)), 2) * np.where(first < second, 1, -1)
    p = 1 / (1 + np.exp(truth[second] - truth[first] - settled))
    probs = np.stack([p, 1 - p, np.zeros_like(p)], axis=1) * (1 - ties) + np.array([0, 0, ties])
    counts = rng.multinomial(n, probs)
    if best is not None:
        counts[first == best], counts[second == best] = (n, 0, 0), (0, n, 0)
    with np.errstate(divide="ignore"):
        log_probs = np.log(counts / n)
    n_samples = np.full(len(p), float(n))
    ids = tuple(f"text {k}" for k in range(n_texts))
    calls = Comparisons(ids, first, second, log_probs, n_samples, n_samples=n_samples)
    return calls, truth - truth.mean()


def test_one_answer_a_question_about_texts_that_separate_ranks_all_of_them():
    calls, _ = sampled(1, best=11)
    found = rank(calls)
    assert found.method == "bt"
    assert found.converged
    assert found.ids[found.order[0]] == "text 11"
    assert np.isfinite(found.scores).all()
    assert np.isfinite(found.stderr).all()


@pytest.mark.parametrize("name", METHODS)
def test_a_method_takes_answers_in_words_or_refuses_them_by_name(name):
    calls, _ = sampled(3, ties=0.1)
    if name in IN_WORDS:
        found = rank(calls, name)
        assert np.argmax(found.scores) >= 10
        assert "rho" in found.settings
        return
    with pytest.raises(InputError, match=rf"{name} does not take answers in words.*Take bt"):
        rank(calls, name)
    with pytest.raises(InputError, match=rf"{name} does not take answers in words"):
        METHODS[name](calls)


def test_the_methods_that_take_words_are_those_that_the_documentation_names():
    assert set(IN_WORDS) == {"bt", "bt-ties", "win-ratio", "poe-g-hard", "poe-bt"}


def test_probabilities_are_ranked_by_poe_bt_and_answers_in_words_by_bt():
    exact = Comparisons.from_records([("a", "b", 0.8), ("b", "a", 0.3)])
    assert rank(exact).method == "poe-bt"
    words, _ = sampled(1)
    assert default_method(ComparisonSets((), {(): exact})) == "poe-bt"
    assert default_method(ComparisonSets((), {(): exact, ("b",): words})) == "bt"


def test_a_win_ratio_is_the_share_of_answers_that_were_won():
    calls, _ = sampled(4)
    won = np.zeros(12)
    counts = np.exp(calls.log_probs) * 4
    np.add.at(won, calls.first, counts[:, 0])
    np.add.at(won, calls.second, counts[:, 1])
    assert rank(calls, "win-ratio").scores == pytest.approx(won / (11 * 2 * 4))


def test_averaged_decisions_still_give_a_pair_to_the_majority():
    calls, _ = sampled(3)
    found = rank(calls, "win-ratio", decisions="averaged")
    assert found.settings["rho"] == 1
    halves = found.scores * 11 * 2  # of 11 pairs, each won, lost or even
    assert halves == pytest.approx(np.rint(halves))


def test_the_same_answers_as_rows_of_one_sample_each_are_worth_the_same():
    calls, _ = sampled(4, tau=1.0)
    rows = np.repeat(np.arange(len(calls)), 4)
    counts = np.rint(np.exp(calls.log_probs) * 4).astype(int)
    labels = np.concatenate([np.repeat(np.arange(3), row) for row in counts])
    with np.errstate(divide="ignore"):
        log_probs = np.log(np.eye(3)[labels])
    ones = np.ones(len(rows))
    apart = dataclasses.replace(calls.subset(rows), log_probs=log_probs, weights=ones, n_samples=ones)
    assert correlate_errors(apart) == pytest.approx(correlate_errors(calls))
    together, single = rank(calls, "bt"), rank(apart, "bt")
    assert single.scores == pytest.approx(together.scores, abs=1e-6)
    assert single.stderr == pytest.approx(together.stderr, rel=1e-6)


def test_a_judge_that_repeats_itself_is_worth_one_decision_a_pair_however_often_it_is_asked():
    once, _ = sampled(1, tau=2.0)
    counts = np.full(len(once), 10.0)
    forward = once.first < once.second  # both orders, and ten samples of each, say the same
    winner = np.where(once.log_probs[forward][:, 0] == 0, 0, 1)
    log_probs = np.full((len(once), 3), -np.inf)
    log_probs[forward, winner] = 0
    log_probs[~forward, 1 - winner] = 0
    alike = dataclasses.replace(once, log_probs=log_probs, weights=counts, n_samples=counts)
    rho = correlate_errors(alike)
    assert rho == 1
    assert weigh_in_decisions(alike, rho).pairs().games == pytest.approx(np.ones(66))


@pytest.mark.parametrize("tau", [0.0, 2.0])
def test_errors_are_those_of_pairs_whether_samples_agree_or_not(tau):
    """The truth is taken to the unit of the scores, which the settled opinions shrink."""
    off = []
    for seed in range(25):
        calls, truth = sampled(10, tau=tau, seed=seed)
        found = rank(calls)
        unit = (found.scores @ truth) / (truth @ truth) if tau else 1.0
        off.append((found.scores - unit * truth) / found.stderr)
    assert 0.8 < np.std(off) < 1.15


def test_half_an_answer_more_for_each_text_makes_none_certain():
    calls, _ = sampled(1)
    smooth = calls.smoothed()
    assert np.unique(np.exp(smooth.log_probs[:, 0])) == pytest.approx([0.25, 0.75])
    assert np.exp(smooth.log_probs).sum(axis=1) == pytest.approx(np.ones(len(calls)))
    exact = Comparisons.from_records([("a", "b", 1.0)])
    assert exact.smoothed() is exact


def test_comparisons_with_counts_come_back_from_a_file_to_the_last_bit(tmp_path):
    words, _ = sampled(3, n_texts=4)
    n_samples = np.where(np.arange(len(words)) % 2, np.inf, 3.0)
    mixed = dataclasses.replace(words, n_samples=n_samples)
    sets = ComparisonSets(("context_id",), {("words",): words, ("mixed",): mixed})
    path = tmp_path / "calls.jsonl"
    sets.save(path)
    back = ComparisonSets.load(str(path))
    for group, calls in sets.sets.items():
        assert (back.sets[group].n_samples == calls.n_samples).all()
        assert (back.sets[group].log_probs == calls.log_probs).all()
    assert back.fingerprint == sets.fingerprint
    exact = ComparisonSets(("context_id",), {("words",): dataclasses.replace(words, n_samples=None)})
    assert "n_samples" not in next(exact.to_rows())
    assert exact.fingerprint != ComparisonSets(("context_id",), {("words",): words}).fingerprint


def test_a_row_of_samples_weighs_as_many_as_they_are_unless_it_says_otherwise():
    rows = [
        {"first": "a", "second": "b", "probability": 0.6, "n_samples": 5},
        {"first": "b", "second": "a", "probability": 0.4, "n_samples": 5, "weight": 2},
        {"first": "a", "second": "c", "probability": 0.4},
    ]
    calls = ComparisonSets.load(rows, by=()).sets[()]
    assert calls.weights.tolist() == [5, 2, 1]
    assert calls.samples.tolist() == [5, 5, np.inf]
    sets = ComparisonSets.load([*rows, {**rows[0], "n_samples": 0.5}], by=())
    assert "n_samples is 0.5, expected a whole number from 1" in str(sets.errors[0])


def test_a_number_of_samples_below_1_is_refused():
    calls, _ = sampled(2, n_texts=3)
    with pytest.raises(InputError, match="a number of samples below 1"):
        dataclasses.replace(calls, n_samples=np.zeros(len(calls)))


def test_a_judge_asked_in_words_gives_counts_that_bt_ranks():
    class Coin(FakeEngine):
        def answer_one(self, question):
            probs = np.exp(self.judge(question.prompt, question.labels))
            rng = np.random.default_rng([question.seed, *question.prompt.text.encode()[-120:]])
            return Generation(rng.choice(question.labels, p=probs / probs.sum()), "stop", 1)

    rows = [
        {"id": f"t{k}", "context_id": "c", "context": "The river rose.", "text": f"Text of q={k} ."} for k in range(5)
    ]
    judge = InWords(Coin(reading_judge()), 3)
    sets = compare(rows, judge, task="summarization", attribute="coherence")
    calls = sets.sets["c", "coherence"]
    assert len(calls) == 20
    assert calls.n_samples.tolist() == calls.weights.tolist() == [3.0] * 20
    ranking = rank(sets).by_group["c", "coherence"]
    assert ranking.method == "bt"
    assert {ranking.ids[k] for k in ranking.order[:2]} == {"t3", "t4"}
