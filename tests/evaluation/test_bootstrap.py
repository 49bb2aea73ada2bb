"""Intervals from drawn contexts, differences between methods, and many of them at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.errors import InputError
from synthscore.evaluation import correlation
from synthscore.evaluation.agreement import LEVELS, agreement, difference
from synthscore.evaluation.bootstrap import Draws, draw_contexts, holm, interval, p_value
from synthscore.evaluation.correlation import STATISTICS
from tests.evaluation.test_agreement import slow, tables

FIGURES = [(level, statistic) for level in LEVELS for statistic in STATISTICS]


def simulated(rng, n_contexts=30, n_systems=6, noise=(1.0, 1.0), shared=0.0):
    """Two methods that see quality through noise, of which a part is the same for both; human ratings; names."""
    quality = rng.normal(size=(n_contexts, n_systems))
    human = quality + rng.normal(size=quality.shape)
    common = shared * rng.normal(size=quality.shape)
    methods = [(quality + common + sd * rng.normal(size=quality.shape)).ravel() for sd in noise]
    contexts = [f"c{i}" for i in range(n_contexts) for _ in range(n_systems)]
    return (*methods, human.ravel(), contexts, [f"s{j}" for _ in range(n_contexts) for j in range(n_systems)])


def repeated(columns, draws, k):
    """The k-th resample, text by text; a context that is drawn twice is two contexts."""
    rows, names = [], []
    for context, count in zip(draws.contexts, draws.counts[k], strict=True):
        here = [row for row, name in enumerate(columns[2]) if name == context]
        for copy in range(count):
            rows += here
            names += [f"{context} {copy}"] * len(here)
    values, human, systems = ([column[row] for row in rows] for column in (columns[0], columns[1], columns[3]))
    return values, human, names, systems


# ------------------------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize(("level", "statistic"), FIGURES)
@settings(max_examples=10)
@given(table=tables(), seed=st.integers(0, 99))
def test_resamples_are_those_of_repeated_texts(level, statistic, table, seed):
    draws = draw_contexts(table[2], np.random.default_rng(seed), 5)
    expected = np.array([slow(*repeated(table, draws, k), level, statistic) for k in range(5)])
    found = agreement(*table, level=level, statistic=statistic, draws=draws)
    known = expected[~np.isnan(expected)]
    if found.note:
        assert (found.low, found.high) == (None, None)
    else:
        assert (found.low, found.high) == pytest.approx(tuple(np.quantile(known, [0.025, 0.975])), abs=1e-9)


def test_large_data_take_another_way_to_the_same_resamples(monkeypatch):
    values, _, human, contexts, _ = simulated(np.random.default_rng(0), 8, 4)
    draws = draw_contexts(contexts, np.random.default_rng(1), 20)
    plain = agreement(np.round(values), np.round(human), contexts, level="pooled", statistic="kendall", draws=draws)
    for name, value in (("_CELLS", 1), ("_CELLS", 40)):
        with monkeypatch.context() as patch:
            patch.setattr(correlation, name, value)
            other = agreement(
                np.round(values), np.round(human), contexts, level="pooled", statistic="kendall", draws=draws
            )
            assert (other.value, other.low, other.high) == pytest.approx((plain.value, plain.low, plain.high))


def test_pearson_of_a_resample_survives_an_outlier_that_was_not_drawn():
    values, _, human, contexts, _ = simulated(np.random.default_rng(0), 5, 4)
    values[0] = 1e9
    draws = Draws(tuple(dict.fromkeys(contexts)), np.array([[0, 1, 1, 1, 2]] * 2, dtype=np.uint32))
    found = agreement(values, human, contexts, level="pooled", statistic="pearson", draws=draws)
    rows = [*range(4, 20), *range(16, 20)]
    assert found.low == pytest.approx(np.corrcoef(values[rows], human[rows])[0, 1], abs=1e-7)


@pytest.mark.parametrize(
    ("level", "statistic"), [("per_context", "spearman"), ("pooled", "pearson"), ("pooled", "spearman")]
)
def test_intervals_hold_the_truth_about_as_often_as_they_say(level, statistic):
    rng = np.random.default_rng(0)
    many = simulated(rng, 20_000)
    truth = agreement(many[0], *many[2:], level=level, statistic=statistic).value
    n, covered, stderrs = 150, 0, []
    for _ in range(n):
        values, _, human, contexts, systems = simulated(rng)
        draws = draw_contexts(contexts, rng, 200)
        found = agreement(values, human, contexts, systems, level=level, statistic=statistic, draws=draws)
        covered += found.low <= truth <= found.high
        stderrs.append((found.high - found.low) / 2 / 1.96)
    assert 0.88 <= covered / n <= 0.99  # 95 %, less the narrowness of 30 contexts; +- 0.04 by chance
    if level == "per_context":
        assert np.mean(stderrs) == pytest.approx(found.stderr, rel=0.35)  # one sample's


def test_the_same_draws_give_the_same_interval():
    values, _, human, contexts, _ = simulated(np.random.default_rng(0))
    found = [
        agreement(values, human, contexts, draws=draw_contexts(contexts, np.random.default_rng(seed)))
        for seed in (1, 1, 2)
    ]
    assert found[0] == found[1] != found[2]


def test_one_context_has_no_interval_and_it_is_said():
    columns = [1, 2, 3, 4], [1, 3, 2, 4], ["a"] * 4, list("stuv")
    draws = draw_contexts(columns[2], np.random.default_rng(0))
    for level in LEVELS:
        found = agreement(*columns, level=level, draws=draws)
        assert (found.value, found.low, found.high) == (pytest.approx(0.8), None, None)
        assert found.note == "no interval: 1 context, and contexts are what is drawn"
    found = agreement(
        [1, 2, 3, 5, 5], [1, 3, 2, 1, 1], list("aaabb"), draws=draw_contexts("aaabb", np.random.default_rng())
    )
    assert (found.n_contexts, found.low) == (1, None)  # ratings in b are equal
    assert difference([1, 2], [2, 1], [1, 2], "aa", draws=draws).note.startswith("no interval: 1 context")


def test_resamples_without_a_value_are_left_out():
    systems = list("stusvu")  # context b lacks t
    columns = [1, 2, 3, 2, 4, 3], [1, 2, 3, 1, 2, 3], list("aaabbb"), systems
    draws = Draws(("a", "b"), np.array([[2, 0], [1, 1], [0, 2]], dtype=np.uint32))
    assert agreement(*columns, level="system", draws=draws).low is not None
    short = [1, 2, 3, 2, None, 3]  # b alone: two systems
    found = agreement(short, *columns[1:], level="system", draws=draws)
    assert found.low == pytest.approx(1)
    only_b = Draws(("a", "b"), np.array([[0, 2]], dtype=np.uint32))
    found = agreement(short, *columns[1:], level="system", draws=only_b)
    assert (found.value, found.low, found.note) == (pytest.approx(1), None, "no resample has a value")


def test_draws_of_other_contexts_are_refused_and_of_more_are_not():
    draws = draw_contexts("abcd", np.random.default_rng(0), 50)
    assert draws.counts.sum(axis=1).tolist() == [4] * 50
    assert len(draws) == 50
    found = agreement([1, 2, 2, 1], [1, 2, 1, 2], "ddbb", draws=draws)
    assert (found.value, found.low, found.high) == (0, -1, 1)
    assert found.n_skipped == 0
    only_d = Draws(("a", "b", "c", "d"), np.array([[0, 0, 0, 4]], dtype=np.uint32))
    found = agreement([1, 2, 2, 1], [1, 2, 1, 2], "bbdd", draws=only_d)
    assert (found.low, found.high) == (-1, -1)
    with pytest.raises(InputError, match="1 of 2 contexts are not among the 4 of the draws, the first is 'e'"):
        agreement([1, 2, 2, 1], [1, 2, 1, 2], "ddee", draws=draws)
    with pytest.raises(InputError, match="n_resamples is 0"):
        draw_contexts("ab", np.random.default_rng(0), 0)


# ------------------------------------------------------------------------------------------------- differences


@pytest.mark.parametrize(("level", "statistic"), FIGURES)
def test_identical_methods_differ_by_exactly_0(level, statistic):
    values, _, *rest = simulated(np.random.default_rng(0))
    draws = draw_contexts(rest[1], np.random.default_rng(1), 50)
    found = difference(values, values, *rest, level=level, statistic=statistic, draws=draws)
    assert (found.value, found.low, found.high, found.p, found.n_left_out) == (0, 0, 0, 1, 0)


@pytest.mark.parametrize("level", LEVELS)
def test_a_difference_is_that_of_two_agreements_and_changes_sign_with_their_order(level):
    one, other, *rest = simulated(np.random.default_rng(0), noise=(0.5, 2.0))
    draws = draw_contexts(rest[1], np.random.default_rng(1), 200)
    found = difference(one, other, *rest, level=level, draws=draws)
    back = difference(other, one, *rest, level=level, draws=draws)
    a, b = (agreement(values, *rest, level=level) for values in (one, other))
    assert found.value == a.value - b.value == -back.value
    assert (found.low, found.high, found.p) == pytest.approx((-back.high, -back.low, back.p))
    assert found.low < found.value < found.high
    assert (found.n, found.n_contexts) == (a.n, 30)


def test_pairing_takes_out_what_both_methods_share():
    one, other, *rest = simulated(np.random.default_rng(0), noise=(0.3, 0.3), shared=1.5)
    for level in ("per_context", "pooled"):
        draws = draw_contexts(rest[1], np.random.default_rng(1))
        paired = difference(one, other, *rest, level=level, draws=draws)
        alone = [agreement(values, *rest, level=level, draws=draws) for values in (one, other)]
        unpaired = np.hypot(*(found.high - found.low for found in alone))
        assert paired.high - paired.low < 0.6 * unpaired


def test_p_values_are_small_for_a_clear_difference_and_spread_evenly_without_one():
    rng = np.random.default_rng(0)
    one, other, *rest = simulated(rng, noise=(0.2, 3.0))
    draws = draw_contexts(rest[1], rng)
    assert difference(one, other, *rest, draws=draws).p == pytest.approx(2 / 1001)
    found = []
    for _ in range(150):
        one, other, *rest = simulated(rng)
        found.append(difference(one, other, *rest, draws=draw_contexts(rest[1], rng, 200)).p)
    assert 0.01 <= np.mean(np.array(found) < 0.05) <= 0.12
    assert np.mean(found) == pytest.approx(0.5, abs=0.08)


def test_methods_are_compared_over_the_texts_that_both_score():
    one, other, human, contexts, systems = simulated(np.random.default_rng(0))
    draws = draw_contexts(contexts, np.random.default_rng(1), 100)
    gaps = one.copy()
    gaps[[0, 7, 8]] = np.nan
    human[[8, 20]] = np.nan
    found = difference(gaps, other, human, contexts, systems, draws=draws)
    both = other.copy()
    both[[0, 7, 8]] = np.nan
    assert found.value == agreement(gaps, human, contexts).value - agreement(both, human, contexts).value
    assert found.value != agreement(gaps, human, contexts).value - agreement(other, human, contexts).value
    assert (found.n, found.n_left_out) == (180 - 4, 2)  # one of the three has no rating
    assert difference(gaps, gaps, human, contexts, draws=draws).n_left_out == 0


def test_a_difference_from_a_method_without_agreement_is_not_a_number():
    _, other, human, contexts, _ = simulated(np.random.default_rng(0))
    draws = draw_contexts(contexts, np.random.default_rng(1), 100)
    found = difference([None] * len(other), other, human, contexts, draws=draws)
    assert np.isnan(found.value)
    assert (found.p, found.low, found.n, found.n_left_out) == (None, None, 0, 180)
    assert found.note.startswith("none of 30 contexts can be used")
    with pytest.raises(InputError, match="3 values, 180 other values, 180 ratings, 180 contexts: expected as many"):
        difference([1, 2, 3], other, human, contexts, draws=draws)


# ------------------------------------------------------------------------------------------------- p-values


def test_p_values_count_the_rarer_side_and_0_itself():
    assert p_value(np.array([1.0] * 99)) == 2 / 100
    assert p_value(np.array([-1.0] * 99)) == 2 / 100
    assert p_value(np.array([1.0] * 90 + [-1.0] * 9)) == 2 * 10 / 100
    assert p_value(np.array([1.0] * 90 + [0.0] * 9)) == 2 * 10 / 100
    assert p_value(np.array([1.0, -1.0])) == p_value(np.zeros(9)) == 1
    assert p_value(np.array([1.0, np.nan, 1.0])) == pytest.approx(2 / 3)
    assert np.isnan(p_value(np.array([np.nan])))
    assert interval(np.array([np.nan])) is None
    assert interval(np.array([np.nan, 1.0, 2.0])) == pytest.approx((1.025, 1.975))


def test_a_correction_of_a_worked_example():
    assert holm([0.01, 0.04, np.nan, 0.03, 0.005]) == pytest.approx([0.03, 0.06, np.nan, 0.06, 0.02], nan_ok=True)
    assert holm([0.6, 0.7]).tolist() == [1, 1]
    assert np.isnan(holm([np.nan])).all()
    assert len(holm([])) == 0


@settings(max_examples=30)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_corrected_p_values_are_no_smaller_and_in_the_same_order(p):
    found = holm(p)
    assert (np.array(p) <= found + 1e-12).all()
    assert (np.diff(found[np.argsort(p, kind="stable")]) >= -1e-12).all()
