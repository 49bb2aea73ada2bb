"""Agreement of single decisions with ratings, and of few decisions with all."""

import gzip
import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papers.accuracy import pairwise_accuracy, self_consistency
from synthscore.errors import InputError
from synthscore.ranking.bias import pool, position_bias
from synthscore.ranking.comparisons import Comparisons
from synthscore.ranking.designs import all_pairs
from tests.factories import turned

SEEDS = st.integers(0, 2**32 - 1)
BENCHMARKS = Path(__file__).resolve().parents[3] / "shared" / "benchmarks"


def _answers(p, n):
    calls = all_pairs(n)
    p = np.asarray(p(calls[:, 0], calls[:, 1]), dtype=float)
    return Comparisons.from_probabilities([str(k) for k in range(n)], calls[:, 0], calls[:, 1], p)


@given(st.lists(st.integers(1, 4).map(float), min_size=2, max_size=8))
def test_a_perfect_judge_has_one_its_opposite_none_and_tied_ratings_do_not_count(human):
    human = np.array(human)
    n = len(human)
    perfect = _answers(lambda i, j: np.where(human[i] > human[j], 0.9, 0.2), n)
    opposite = _answers(lambda i, j: np.where(human[i] > human[j], 0.1, 0.8), n)
    unequal = sum(a != b for a in human for b in human)
    for judged, expected in ((perfect, 1.0), (opposite, 0.0)):
        found = pairwise_accuracy(judged, human)
        assert found.n == unequal
        assert np.isnan(found.value) if not unequal else found.value == expected


def test_a_tie_of_the_judge_is_half_and_a_missing_rating_is_left_out():
    judged = Comparisons.from_records(
        [("a", "b", 0.5), ("b", "a", 0.1), ("a", "c", 0.9), ("c", "d", 0.7), ("b", "d", 0.7)]
    )
    found = pairwise_accuracy(judged, [3, 1, np.nan, 2])
    assert found.value == pytest.approx((0.5 + 1 + 0) / 3)
    assert found.n == 3


def test_means_that_differ_by_rounding_are_tied():
    judged = Comparisons.from_records([("a", "b", 0.9)])
    assert pairwise_accuracy(judged, [0.1 + 0.2, 0.3]).n == 0


def test_both_orders_of_a_pair_are_one_independent_answer():
    rng = np.random.default_rng(0)
    right = rng.random((30, 30)) < 0.7
    one = Comparisons.from_probabilities(
        list(map(str, range(30))),
        *np.array(list(combinations(range(30), 2))).T,
        [right[i, j] * 0.8 + 0.1 for i, j in combinations(range(30), 2)],
    )
    flipped = turned(one)
    twice = Comparisons(
        one.ids,
        np.concatenate([one.first, flipped.first]),
        np.concatenate([one.second, flipped.second]),
        np.concatenate([one.log_probs, flipped.log_probs]),
        np.ones(2 * len(one)),
    )
    ratings = -np.arange(30)
    assert pairwise_accuracy(twice, ratings)[:3] == pytest.approx(pairwise_accuracy(one, ratings)[:3])


def test_ratings_are_one_a_candidate():
    with pytest.raises(InputError, match=r"ratings of shape \(3,\), expected \(2,\)"):
        pairwise_accuracy(Comparisons.from_records([("a", "b", 0.9)]), [1, 2, 3])


# ------------------------------------------------------------------------------------------------- self-consistency


@given(SEEDS)
@settings(max_examples=20)
def test_all_candidates_agree_with_themselves(seed):
    judged = _answers(lambda i, j: np.random.default_rng(seed).random(len(i)), 6)
    found = self_consistency(judged, 6, np.random.default_rng(0), human=[np.nan] * 6, n_draws=5)
    assert found.final == 1 or np.isnan(found.final)


def test_a_transitive_judge_is_consistent_at_every_size_and_its_opposite_never_gold():
    quality = np.array([0.3, 2.0, 1.1, -1.0, 0.7, -2.0])
    judged = _answers(lambda i, j: 1 / (1 + np.exp(quality[j] - quality[i])), 6)
    for human, gold in ((quality, 1), (-quality, 0)):
        for size in (2, 4, 6):
            assert self_consistency(judged, size, np.random.default_rng(0), human=human, n_draws=20) == (1, gold)


def test_pairs_alone_agree_as_often_as_the_pairs_of_a_plain_count():
    rng = np.random.default_rng(5)
    n = 7
    p = rng.integers(1, 10, (n, n)) / 10
    judged = _answers(lambda i, j: p[i, j], n)
    decided = np.where(p > 0.5, 1.0, np.where(p < 0.5, 0.0, 0.5))
    np.fill_diagonal(decided, 0)
    wins = decided.sum(1) + (1 - decided).sum(0) - 1
    human = rng.integers(0, 4, n)
    final, gold = [], []
    for i, j in combinations(range(n), 2):
        small = np.sign(decided[i, j] - decided[j, i])
        for credits, truth in ((final, wins), (gold, human)):
            if abs(truth[i] - truth[j]) > 1e-9:
                credits.append((1 + small * np.sign(truth[i] - truth[j])) / 2)
    found = self_consistency(judged, 2, np.random.default_rng(0), human=human, n_draws=40_000)
    assert found.final == pytest.approx(np.mean(final), abs=0.01)  # 4 sd of 40,000 draws
    assert found.gold == pytest.approx(np.mean(gold), abs=0.01)


def test_a_tie_is_half_a_win_in_the_ratio():
    ties_with_all = [("a", other, 0.5) for other in "bcd"] * 2
    wins_little = [("b", "c", 0.9), ("c", "b", 0.5), ("d", "b", 0.9), ("b", "d", 0.1), ("c", "d", 0.7)]
    judged = Comparisons.from_records(ties_with_all + wins_little)
    found = self_consistency(judged, 4, np.random.default_rng(0), human=[2, 1, np.nan, np.nan], n_draws=3)
    assert found.gold == 1  # 3 of 6 against 2.5 of 6; without the ties it would be 0 against 1


def test_agreement_rises_with_the_size_of_the_subset():
    rng = np.random.default_rng(1)
    quality = rng.normal(size=16)
    noise = rng.normal(size=(16, 16))
    judged = _answers(lambda i, j: 1 / (1 + np.exp(quality[j] - quality[i] + noise[i, j])), 16)
    unrated = [np.nan] * 16
    found = [self_consistency(judged, size, rng, human=unrated, n_draws=300) for size in (2, 4, 8, 16)]
    final = [each.final for each in found]
    assert final == sorted(final)
    assert final[-1] == 1
    assert np.isnan(found[0].gold)


def test_subsets_need_every_pair_and_a_size_there_is():
    some = Comparisons.from_records([("a", "b", 0.9), ("b", "c", 0.9)])
    with pytest.raises(InputError, match="1 of 3 pairs of candidates were never compared"):
        self_consistency(some, 2, np.random.default_rng(0), human=[1, 2, 3])
    whole = _answers(lambda i, j: np.full(len(i), 0.6), 3)
    for size in (1, 4):
        with pytest.raises(InputError, match=f"cannot draw {size} of 3"):
            self_consistency(whole, size, np.random.default_rng(0), human=[1, 2, 3])


# ------------------------------------------------------------------------------------------------- a real judge

# Answers without a winner are left out: P(A), accuracy; pairs in both orders, calls with unequal
# ratings. 50 contexts are at hand.
CHATGPT = {
    "coherence": (0.524697, 0.633475, 530, 944),
    "consistency": (0.401905, 0.620321, 512, 374),
    "fluency": (0.487759, 0.584466, 521, 515),
    "relevance": (0.572770, 0.642608, 523, 859),
}
ALL_100_CONTEXTS = {  # the first two
    "coherence": (0.519, 0.619),
    "consistency": (0.402, 0.669),
    "fluency": (0.481, 0.610),
    "relevance": (0.577, 0.640),
}


@pytest.fixture(scope="module")
def chatgpt():
    """Attribute -> verdicts of all contexts, pooled, and the ratings of their candidates."""
    if not BENCHMARKS.exists():
        pytest.skip("the benchmark folder, with a real judge's published verdicts, is not here")
    with gzip.open(BENCHMARKS / "summeval.jsonl.gz", "rt", encoding="utf-8") as lines:
        human = {(row["context_id"], row["system"]): row["human"] for row in map(json.loads, lines)}
    verdicts = {attribute: {} for attribute in CHATGPT}
    with gzip.open(
        BENCHMARKS / "judge_outputs" / "summeval_pairwise_chatgpt.jsonl.gz", "rt", encoding="utf-8"
    ) as lines:
        for row in map(json.loads, lines):
            p = {"A": 1.0, "B": 0.0, "tie": 0.5}[row["choice"]]
            of_context = verdicts[row["attribute"]].setdefault(row["context_id"], [])
            of_context.append((row["system_a"], row["system_b"], p))
    pooled = {}
    for attribute, contexts in verdicts.items():
        judged = pool({context: Comparisons.from_records(records) for context, records in contexts.items()}).hard()
        pooled[attribute] = judged, [human[tuple(name.split("/"))][attribute] for name in judged.ids]
    return pooled


@pytest.mark.parametrize("attribute", CHATGPT)
def test_a_real_judges_verdicts_give_figures_near_those_of_all_contexts(chatgpt, attribute):
    judged, ratings = chatgpt[attribute]
    assert len(judged) == 1100
    decided = judged.subset(judged.decisions != 0.5)
    bias, accuracy = position_bias(decided), pairwise_accuracy(decided, ratings)
    found = (bias.first_wins, accuracy)
    assert [each.value for each in found] == pytest.approx(CHATGPT[attribute][:2], abs=1e-6)
    assert (bias.n_both_orders, accuracy.n) == CHATGPT[attribute][2:]
    for each, whole in zip(found, ALL_100_CONTEXTS[attribute], strict=True):
        assert each.low < whole < each.high
