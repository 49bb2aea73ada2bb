"""PairS: the order it finds, what it asks for, and what it does when an answer is missing."""

from itertools import permutations
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papers.methods import pairs as sorting
from papers.methods.pairs import merge_sort
from synthscore.errors import InputError
from synthscore.evaluation.methods import MethodError, Tools, method
from synthscore.ranking.comparisons import Comparisons
from synthscore.store.engine import StoredEngine
from synthscore.store.file import Store
from tests.factories import BEST_FIRST, places, rated
from tests.fakes import FakeEngine, reading_judge

SEEDS = st.integers(0, 2**32 - 1)


def _judge(p):
    """ask for problems that all have P(i is better than j) = p[problem, i, j]."""

    def ask(calls):
        problem, first, second = np.array(calls).T
        return p[problem, first, second]

    return ask


def _transitive(quality, steepness=3.0):
    return 1 / (1 + np.exp(-steepness * (quality[..., :, None] - quality[..., None, :])))


def _ids(n, problems=1):
    return [[str(k) for k in range(n)]] * problems


class Sorted(NamedTuple):
    ranking: object
    comparisons: Comparisons


def _log_probs(p):
    with np.errstate(divide="ignore"):
        return np.stack([np.log(p), np.log1p(-p), np.where(np.isnan(p), np.nan, -np.inf)], axis=1)


def rank_many(problems, ask, *, gap=0.0, beam_size=1, calibrate=False, start=np.arange):
    """merge_sort from a start, and what was asked. ask : calls -> P(first), or log-probabilities"""
    calls, answers = [], []

    def answer(asked):
        given = np.asarray(ask(asked), dtype=float)
        calls.extend(asked)
        answers.extend(given if given.ndim == 2 else _log_probs(given))
        return np.array(answers[-len(asked) :])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "_start", lambda ids, seed: start(len(ids)))
        found = merge_sort(problems, answer, gap=gap, beam_size=beam_size, both_orders=calibrate)
    results = []
    for k, (ids, ranking) in enumerate(zip(problems, found, strict=True)):
        rows = [row for row, call in enumerate(calls) if call[0] == k and not np.isnan(answers[row]).any()]
        pairs = np.array([calls[row][1:] for row in rows], dtype=np.int64).reshape(-1, 2)
        log_probs = np.array([answers[row] for row in rows]).reshape(-1, 3)
        results.append(
            Sorted(ranking, Comparisons(tuple(ids), pairs[:, 0], pairs[:, 1], log_probs, np.ones(len(rows))))
        )
    return results


def _merge_sort(items, p):
    """Plain recursive merge sort, worst first; each question it asks is in `asked`."""
    asked = []

    def sort(run):
        if len(run) < 2:
            return run
        left, right = sort(run[: len(run) // 2]), sort(run[len(run) // 2 :])
        merged = []
        while left and right:
            asked.append((left[0], right[0]))
            merged.append(right.pop(0) if p[left[0], right[0]] > 0.5 else left.pop(0))
        return merged + left + right

    return sort(list(items)), asked


def _symmetric_noise(n, rng):
    p = rng.random((n, n))
    return (p + 1 - p.T) / 2


# ------------------------------------------------------------------------------------------------- the order


@given(SEEDS, st.integers(2, 20), st.sampled_from([(0.0, 1), (0.0, 50), (0.2, 1), (0.5, 1)]))
@settings(max_examples=60)
def test_without_a_gap_or_with_a_single_path_it_is_plain_merge_sort(seed, n, gap_and_beam_size):
    gap, beam_size = gap_and_beam_size
    p = np.random.default_rng(seed).random((n, n))
    ((ranking, comparisons),) = rank_many(_ids(n), _judge(p[None]), gap=gap, beam_size=beam_size)
    ascending, asked = _merge_sort(range(n), p)
    np.testing.assert_array_equal(ranking.order[::-1], ascending)
    np.testing.assert_array_equal(np.sort(ranking.scores), np.arange(n) - (n - 1) / 2)
    calls = list(zip(comparisons.first.tolist(), comparisons.second.tolist(), strict=True))
    assert sorted(calls) == sorted(asked)
    np.testing.assert_allclose(comparisons.probabilities, [p[call] for call in calls])


def _best_path(left, right, p, gap):
    """Of all ways to interleave two runs that no answer forbids, the one that scores most."""
    best = None
    for sides in set(permutations([0] * len(left) + [1] * len(right))):
        a = b = 0
        logs = []
        for side in sides:
            if a < len(left) and b < len(right):
                q = p[left[a], right[b]]
                if (side == 0 and q > 0.5 + gap) or (side == 1 and q < 0.5 - gap):
                    break
                logs.append(np.log(max(q if side else 1 - q, 1e-9)))
            a, b = a + (side == 0), b + (side == 1)
        else:
            score = np.mean(logs)
            if best is None or score > best[0] + 1e-12:
                best = score, sides
    left, right = iter(left), iter(right)
    return [next(right) if side else next(left) for side in best[1]]


@given(SEEDS, st.sampled_from([0.1, 0.3, 0.5]))
@settings(max_examples=25)
def test_a_wide_beam_finds_the_best_scoring_way_to_merge(seed, gap):
    n = 6
    p = np.random.default_rng(seed).random((n, n))
    ((ranking, _),) = rank_many(_ids(n), _judge(p[None]), gap=gap, beam_size=1000)

    def sort(run):
        if len(run) < 2:
            return run
        return _best_path(sort(run[: len(run) // 2]), sort(run[len(run) // 2 :]), p, gap)

    np.testing.assert_array_equal(ranking.order[::-1], sort(list(range(n))))


@given(SEEDS, st.integers(2, 14), st.sampled_from([0.0, 0.1, 0.3]), st.booleans())
@settings(max_examples=40)
def test_answers_beyond_the_gap_give_the_true_order(seed, n, gap, calibrate):
    rng = np.random.default_rng(seed)
    quality = rng.permutation(n)
    margin = gap + (0.5 - gap) * (0.01 + 0.99 * rng.random((n, n)))
    p = 0.5 + np.sign(quality[:, None] - quality) * margin
    ((ranking, _),) = rank_many(
        _ids(n), _judge(p[None]), gap=gap, beam_size=100, calibrate=calibrate, start=rng.permutation
    )
    np.testing.assert_array_equal(ranking.scores, quality - (n - 1) / 2)


def test_a_gap_makes_even_a_transitive_judge_miss_the_true_order_often():
    rng = np.random.default_rng(0)
    n, problems = 16, 60
    quality = rng.normal(size=(problems, n))
    found = {}
    for gap in (0.0, 0.2):
        results = rank_many(_ids(n, problems), _judge(_transitive(quality)), gap=gap, beam_size=1000)
        true = np.argsort(np.argsort(quality, axis=1), axis=1)
        places = np.stack([result.ranking.scores for result in results]) + (n - 1) / 2
        spearman = 1 - 6 * ((places - true) ** 2).sum(axis=1) / (n**3 - n)
        n_calls = np.mean([result.ranking.settings["n_calls"] for result in results])
        found[gap] = np.mean(spearman == 1), spearman.mean(), n_calls
    assert found[0.0][:2] == (1, 1)
    assert found[0.0][2] == pytest.approx(45.7, abs=1)  # merge sort's mean, 2 m - 2 m / (m + 1) for two runs of m
    assert found[0.2][0] < 0.25
    assert 0.97 < found[0.2][1] < 0.995
    assert found[0.2][2] == pytest.approx(60, abs=2)


# ------------------------------------------------------------------------------------------------- what it asks


@given(SEEDS, st.integers(2, 24), st.sampled_from([0.0, 0.2]), st.booleans())
@settings(max_examples=40)
def test_no_pair_is_asked_twice_and_greedy_keeps_to_its_bound(seed, n, gap, calibrate):
    rng = np.random.default_rng(seed)
    p = _symmetric_noise(n, rng)
    ((ranking, comparisons),) = rank_many(
        _ids(n), _judge(p[None]), gap=gap, beam_size=200 if gap else 1, calibrate=calibrate, start=rng.permutation
    )
    calls = list(zip(comparisons.first.tolist(), comparisons.second.tolist(), strict=True))
    assert len(set(calls)) == len(calls) == ranking.settings["n_calls"]
    pairs = {frozenset(call) for call in calls}
    assert len(pairs) * (1 + calibrate) == len(calls)
    if not gap:
        assert len(pairs) <= n * np.ceil(np.log2(n))
    assert sorted(ranking.order.tolist()) == list(range(n))
    np.testing.assert_allclose(ranking.n_comparisons, np.bincount(np.array(calls).ravel(), minlength=n))
    np.testing.assert_allclose(comparisons.probabilities, [p[call] for call in calls])


def test_calibration_decides_by_the_mean_of_both_orders():
    p = np.array([[np.nan, 0.7], [0.9, np.nan]])  # both times the first, but 1 more clearly
    assert rank_many(_ids(2), _judge(p[None]))[0].ranking.order.tolist() == [0, 1]
    ((ranking, comparisons),) = rank_many(_ids(2), _judge(p[None]), calibrate=True)
    assert ranking.order.tolist() == [1, 0]
    np.testing.assert_array_equal(comparisons.first, [0, 1])
    np.testing.assert_allclose(comparisons.probabilities, [0.7, 0.9])


def test_a_certain_loss_is_an_answer_and_is_not_asked_again():
    p = _transitive(np.arange(8.0)) > 0.5
    ((ranking, comparisons),) = rank_many(_ids(8), _judge(p[None].astype(float)), gap=0.2, beam_size=10)
    np.testing.assert_array_equal(ranking.order, np.arange(8)[::-1])
    assert len(comparisons) == 12


def test_many_problems_share_their_rounds_and_do_not_disturb_each_other():
    rng = np.random.default_rng(3)
    sizes = [2, 16, 5, 9, 16]
    p = np.stack([np.pad(_symmetric_noise(n, rng), (0, 16 - n)) for n in sizes])
    rounds = []

    def ask(calls):
        rounds.append(calls)
        return _judge(p)(calls)

    together = rank_many([_ids(n)[0] for n in sizes], ask, gap=0.1, beam_size=50)
    for k, n in enumerate(sizes):
        ((alone, _),) = rank_many(_ids(n), _judge(p[k : k + 1]), gap=0.1, beam_size=50)
        np.testing.assert_array_equal(together[k].ranking.scores, alone.scores)
        assert together[k].ranking.settings["n_rounds"] == alone.settings["n_rounds"]
    assert len(rounds) == max(result.ranking.settings["n_rounds"] for result in together) <= 26  # 1 + 3 + 7 + 15
    assert sum(map(len, rounds)) == sum(len(result.comparisons) for result in together)
    assert len(rounds[0]) == 1 + 8 + 2 + 4 + 8  # of each problem, every merge of its lowest level: 5 = 2 + (1 + 2)


def test_the_start_order_is_drawn_by_the_seed_and_the_ids():
    p = _symmetric_noise(12, np.random.default_rng(0))

    def asked(seed, ids):
        calls = []

        def answer(some):
            calls.extend((ids[i], ids[j]) for _, i, j in some)
            return _log_probs(np.array([p[int(ids[i]), int(ids[j])] for _, i, j in some]))

        merge_sort([ids], answer, seed=seed)
        return calls

    ids = _ids(12)[0]
    assert asked(1, ids) == asked(1, ids) == asked(1, ids[::-1])
    assert asked(1, ids) != asked(2, ids)


# ------------------------------------------------------------------------------------------------- answers


def test_log_probabilities_are_kept_as_they_are():
    given = np.log([[0.3, 0.2, 0.5]])
    ((ranking, comparisons),) = rank_many(_ids(2), lambda calls: given)
    np.testing.assert_array_equal(comparisons.log_probs, given)
    assert ranking.order.tolist() == [0, 1]
    similar = np.log([[0.25, 0.35, 0.4]])
    assert rank_many(_ids(2), lambda calls: similar)[0].ranking.order.tolist() == [1, 0]


def test_a_missing_answer_ends_its_problem_and_no_other():
    p = np.stack([_transitive(np.arange(6.0)), _transitive(np.arange(6.0))])
    p[0, 2, 1] = p[0, 1, 2] = np.nan
    failed, other = rank_many(_ids(6, 2), _judge(p))
    assert not failed.ranking.converged
    assert np.isnan(failed.ranking.scores).all()
    assert set(failed.ranking.settings["failed"]) == {"1", "2"}
    assert len(failed.comparisons) == failed.ranking.settings["n_calls"] > 0
    assert other.ranking.converged
    assert other.ranking.order.tolist() == [5, 4, 3, 2, 1, 0]
    (none,) = rank_many(_ids(2), lambda calls: [[np.nan] * 3])
    assert len(none.comparisons) == 0


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"gap": -0.1}, "gap=-0.1"),
        ({"gap": 0.6}, "gap from 0 to 0.5"),
        ({"beam_size": 0}, "beam_size=0"),
    ],
)
def test_settings_that_are_none_are_refused(settings, says):
    with pytest.raises(InputError, match=says):
        rank_many(_ids(3), _judge(np.full((1, 3, 3), 0.5)), **settings)


def test_no_problems_need_no_answers():
    assert rank_many([], lambda calls: 1 / 0) == []


# ------------------------------------------------------------------------------------------------- the method


def scores(spec, engine=None, ratings=None):
    return method(spec)(ratings or rated(), "coherence", Tools(engine or FakeEngine(reading_judge())))


@pytest.mark.parametrize("spec", ["pairs-beam", "pairs-beam:gap=0,beam=1"])
@pytest.mark.parametrize("protocol", ["choose", "compare", "yes_no"])
def test_clearly_different_texts_are_put_in_order(spec, protocol):
    found = scores(f"{spec}{',' if ':' in spec else ':'}protocol={protocol}")
    assert places(found, rated()) == BEST_FIRST
    assert {score.status for score in found} == {"ok"}
    ranks = {score.id: score.details["rank"] for score in found}
    assert [ranks[f"c1-{place}"] for place in BEST_FIRST["c1"]] == [1, 2, 3, 4]


def test_what_other_methods_asked_is_not_asked_again(tmp_path):
    engine = FakeEngine(reading_judge(bias=1.0))
    stored = StoredEngine(engine, Store(tmp_path / "answers.sqlite"))
    scores("poe-bt", stored)
    assert engine.n_judged == 24
    assert scores("pairs-beam:seed=2", stored) == scores("pairs-beam:seed=2", stored)
    assert engine.n_judged == 24


def test_sorting_asks_in_both_orders_when_told():
    engine = FakeEngine(reading_judge(bias=2.0))
    one = scores("pairs-beam:gap=0,beam=1", engine)
    n_one = engine.n_judged
    both = scores("pairs-beam:gap=0,beam=1,orders=both", engine)
    assert places(both, rated()) == BEST_FIRST
    assert engine.n_judged - n_one >= n_one
    assert "|selection:sort,both-orders,seed=0|method:pairs|gap:0|beam:1" in str(both.signature)
    assert sorted(one.values[:4]) == [-1.5, -0.5, 0.5, 1.5]


def test_a_context_whose_sort_lacks_an_answer_is_unscored_and_no_other():
    def judge(prompt, labels):
        if "q=4.5 " in prompt.text:
            raise ValueError("too long")
        return reading_judge()(prompt, labels)

    found = scores("pairs-beam", FakeEngine(judge))
    assert [score.status for score in found] == ["unscored"] * 4 + ["ok"] * 4
    assert found[0].reason.startswith("the sort needs an answer about 'c1-")
    assert found[0].reason.endswith("too long")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("pairs-beam:gap=0.6", r"gap is '0.6', expected a number from 0 to 0.5"),
        ("pairs-beam:gap=wide", r"gap is 'wide', expected a number"),
        ("pairs-beam:beam=0", r"beam is '0', expected a whole number of 1 or more"),
        ("pairs-beam:orders=all", r"orders is 'all'"),
        ("pairs-beam:protocol=rate", r"protocol is 'rate'"),
    ],
)
def test_options_that_mean_nothing_are_refused(spec, message):
    with pytest.raises(MethodError, match=message):
        method(spec)
