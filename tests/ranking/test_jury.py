"""Several judges, one order: the mean of theirs, which a copy, an adversary or noise cannot take over."""

import numpy as np
import pytest

from synthscore.errors import InputError
from synthscore.ranking import Comparisons, ComparisonSets, rank, rank_jury
from synthscore.ranking.designs import all_pairs

N = 12
IDS = tuple(f"t{k}" for k in range(N))
CALLS = all_pairs(N, both_orders=True).T


def judge(rng, truth, *, slope=1.0, own=0.3, noise=0.5, bias=0.0, hard=False):
    """A judge's comparisons in each context: it sees the truth with an error of its own, times its slope."""
    first, second = CALLS
    sets = []
    for s in truth:
        seen = slope * (s + own * rng.normal(size=N))
        p = 1 / (1 + np.exp(-(seen[first] - seen[second] + bias + noise * rng.normal(size=len(first)))))
        sets.append(Comparisons.from_probabilities(IDS, first, second, (rng.random(len(p)) < p) * 1.0 if hard else p))
    return sets


def sets_of(**judges):
    return ComparisonSets(
        ("context_id", "judge"),
        {(f"c{c}", name): sets[c] for c in range(len(next(iter(judges.values())))) for name, sets in judges.items()},
    )


def agreement(rankings, truth):
    return np.mean([np.corrcoef(r.scores, s)[0, 1] for r, s in zip(rankings.by_group.values(), truth, strict=True)])


def wrong(rankings, truth):
    i, j = np.triu_indices(N, 1)
    pairs = [
        (r.scores[i] > r.scores[j]) != (s[i] > s[j]) for r, s in zip(rankings.by_group.values(), truth, strict=True)
    ]
    return np.mean(pairs)


@pytest.fixture
def rng():
    return np.random.default_rng(3)


@pytest.fixture
def truth(rng):
    return rng.normal(size=(12, N))


@pytest.mark.parametrize("method", ["poe-bt", "poe-g", "colley", "average-probability", "bt"])
def test_a_jury_is_better_than_each_of_its_judges_by_any_method(rng, truth, method):
    judges = {str(k): judge(rng, truth, own=0.5, bias=bias) for k, bias in enumerate((0.5, -0.5, 0.2))}
    together = rank_jury(sets_of(**judges), method)
    alone = [
        rank(ComparisonSets(("c",), {(str(c),): x for c, x in enumerate(each)}), method) for each in judges.values()
    ]
    assert agreement(together, truth) > max(agreement(each, truth) for each in alone) + 0.005
    assert together.juries[()].votes == (("0",), ("1",), ("2",))
    for ranking in together.by_group.values():
        assert ranking.scores.mean() == pytest.approx(0, abs=1e-12)
        assert ranking.n_comparisons.tolist() == [3 * 2 * (N - 1)] * N
        assert (ranking.stderr > 0).all()


def test_equal_weights_whoever_is_surer_of_itself(rng, truth):
    one, other = judge(rng, truth), judge(rng, truth)
    together = rank_jury(sets_of(one=one, other=other))
    sure = [Comparisons.from_probabilities(IDS, c.first, c.second, 1 / (1 + np.exp(-3 * c.log_odds))) for c in one]
    with_sure = rank_jury(sets_of(one=sure, other=other))
    for plain, found in zip(together.by_group.values(), with_sure.by_group.values(), strict=True):
        assert np.corrcoef(plain.scores, found.scores)[0, 1] > 0.99


def test_a_copy_of_the_worst_judge_changes_nothing_but_that_it_is_named(rng, truth):
    judges = {"a": judge(rng, truth, own=0.7), "b": judge(rng, truth), "c": judge(rng, truth)}
    three = rank_jury(sets_of(**judges))
    four = rank_jury(sets_of(**judges, again=judges["a"]))
    assert four.juries[()].votes == (("b",), ("c",), ("a", "again"))
    assert four.juries[()].alike["a", "again"] == 1
    assert max(abs(r) for names, r in four.juries[()].alike.items() if names != ("a", "again")) < 0.5
    for plain, found in zip(three.by_group.values(), four.by_group.values(), strict=True):
        np.testing.assert_allclose(found.scores, plain.scores, rtol=0.1, atol=1e-9)
    assert wrong(four, truth) == pytest.approx(wrong(three, truth), abs=0.001)


@pytest.mark.parametrize("kind", [{"slope": -1.0}, {"slope": 0.0, "noise": 0.0}, {"slope": 0.0, "noise": 2.0}])
@pytest.mark.parametrize("hard", [False, True])
def test_an_adversary_a_constant_and_noise_are_left_out_and_named(rng, truth, kind, hard):
    good = {name: judge(rng, truth, hard=hard) for name in "abc"}
    bad = judge(rng, truth, hard=hard and kind["slope"] != 0, **kind)
    jury = rank_jury(sets_of(**good, bad=bad), "bt" if hard else "poe-bt")
    assert list(jury.juries[()].left_out) == ["bad"]
    plain = rank_jury(sets_of(**good), "bt" if hard else "poe-bt")
    for one, other in zip(plain.by_group.values(), jury.by_group.values(), strict=True):
        np.testing.assert_allclose(other.scores, one.scores)


def test_of_two_judges_none_is_left_out_but_one_that_tells_nothing(rng, truth):
    good, turned = judge(rng, truth), judge(rng, truth, slope=-1.0)
    jury = rank_jury(sets_of(good=good, turned=turned)).juries[()]
    assert (len(jury.votes), jury.left_out) == (2, {})
    even = [Comparisons.from_probabilities(IDS, *CALLS, np.full(len(CALLS[0]), 0.5)) for _ in truth]
    jury = rank_jury(sets_of(good=good, even=even))
    assert jury.juries[()].left_out == {"even": "it puts no text above another"}
    assert agreement(jury, truth) > 0.9
    nothing = rank_jury(sets_of(one=even, two=even))
    assert set(nothing.by_group.values()) == {"one: it is left out of the jury; two: it is left out of the jury"}
    assert {row["status"] for row in nothing.to_rows()} == {"unscored"}


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("shared", [0.0, 0.8])
def test_intervals_hold_though_judges_share_errors(rng, copied, shared):
    truth = rng.normal(size=(40, N))
    common = rng.normal(size=truth.shape)
    seen = [truth + 0.7 * (np.sqrt(shared) * common + np.sqrt(1 - shared) * rng.normal(size=truth.shape)) for _ in "ab"]
    judges = {name: judge(rng, its, own=0.0) for name, its in zip("ab", seen, strict=True)}
    judges["c"] = judge(rng, truth, own=0.5)
    if copied:
        judges["again"] = judges["a"]
    jury = rank_jury(sets_of(**judges))
    scores, stderr = (np.stack([getattr(r, name) for r in jury.by_group.values()]) for name in ("scores", "stderr"))
    centred = truth - truth.mean(axis=1, keepdims=True)
    slope = (scores * centred).sum() / (centred**2).sum()
    assert 0.85 <= np.mean(np.abs(scores - slope * centred) < 1.645 * stderr) < 0.99


def test_the_names_and_places_of_judges_and_texts_do_not_matter(rng, truth):
    sets = sets_of(a=judge(rng, truth[:3]), b=judge(rng, truth[:3], slope=0.5), c=judge(rng, truth[:3], slope=2.0))
    turned = {
        group: Comparisons.from_probabilities(IDS[::-1], N - 1 - c.first, N - 1 - c.second, c.probabilities)
        for group, c in reversed(sets.sets.items())
    }
    one, two = rank_jury(sets), rank_jury(ComparisonSets(sets.by, turned))
    for group, ranking in one.by_group.items():
        np.testing.assert_allclose(two.by_group[group].scores[::-1], ranking.scores, atol=1e-6)
        np.testing.assert_allclose(two.by_group[group].stderr[::-1], ranking.stderr, atol=1e-6)
    alike = {frozenset(names): r for names, r in two.juries[()].alike.items()}
    assert alike == pytest.approx({frozenset(names): r for names, r in one.juries[()].alike.items()}, abs=1e-6)


def test_judges_need_not_have_seen_the_same_texts(rng, truth):
    truth[0] = np.sort(truth[0])
    sets = dict(sets_of(a=judge(rng, truth, own=0.1), b=judge(rng, truth, own=0.1)).sets)
    some = sets["c0", "a"]  # of the six worst texts, the other one says the same
    kept = (some.first < 6) & (some.second < 6)
    sets["c0", "b"] = Comparisons.from_probabilities(
        IDS[:6], some.first[kept], some.second[kept], some.probabilities[kept]
    )
    del sets["c1", "a"]
    found = rank_jury(ComparisonSets(("context_id", "judge"), sets))
    assert found.by_group["c0",].n_comparisons.tolist() == [2 * (N - 1) + 10] * 6 + [2 * (N - 1)] * 6
    assert np.corrcoef(found.by_group["c0",].scores, rank(some).scores)[0, 1] > 0.995
    assert found.by_group["c1",].stderr.mean() > 1.2 * found.by_group["c2",].stderr.mean()


def test_a_judge_whose_answers_make_no_order_in_a_context_leaves_it_to_the_others(rng, truth):
    sets = dict(sets_of(a=judge(rng, truth), b=judge(rng, truth)).sets)
    certain = Comparisons.from_records([("t0", "t1", 1.0), ("t1", "t2", 1.0)])
    sets["c0", "b"] = sets["c1", "a"] = sets["c1", "b"] = certain
    found = rank_jury(ComparisonSets(("context_id", "judge"), sets))
    assert found.by_group["c0",].n_comparisons.tolist() == [2 * (N - 1)] * N
    assert found.by_group["c1",].startswith("a: scores are not finite")
    assert "; b: scores are not finite" in found.by_group["c1",]


def test_a_judge_without_any_ranking_is_left_out_for_that_and_the_worst_of_the_others_is_still_found(rng, truth):
    judges = {name: judge(rng, truth) for name in "abc"} | {"bad": judge(rng, truth, slope=-1.0)}
    certain = [Comparisons.from_probabilities(IDS, *CALLS, (CALLS[0] < CALLS[1]) * 1.0) for _ in truth]
    jury = rank_jury(sets_of(**judges, certain=certain)).juries[()]
    assert list(jury.left_out) == ["certain", "bad"]
    assert jury.left_out["certain"] == "it has no ranking"
    assert jury.lacking["certain"].startswith("has no ranking of its own in 12 of 12: scores are not finite")


def test_a_judge_is_compared_where_it_has_scores(rng, truth):
    """Contexts that it has not seen take nothing from what the others say of its order."""
    sets = dict(sets_of(**{name: judge(rng, truth) for name in "ab"}, seldom=judge(rng, truth, slope=-1.0)).sets)
    for c in range(1, len(truth)):
        del sets[f"c{c}", "seldom"]
    jury = rank_jury(ComparisonSets(("context_id", "judge"), sets)).juries[()]
    assert list(jury.left_out) == ["seldom"]


def test_what_is_no_jury_is_refused(rng, truth):
    one = judge(rng, truth[:1])
    with pytest.raises(InputError, match="of one judge, 'a', expected two judges"):
        rank_jury(sets_of(a=one))
    with pytest.raises(InputError, match="method is 'best', expected one of"):
        rank_jury(sets_of(a=one, b=one), "best")
    with pytest.raises(InputError, match="without a column judge"):
        rank_jury(ComparisonSets(("context_id",), {("c",): one[0]}))
