"""Intervals over contexts, differences between methods, and many of them at once."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from synthscore.errors import InputError
from synthscore.evaluation.agreement import LEVELS, agreement, difference
from synthscore.evaluation.correlation import STATISTICS, correlation
from synthscore.evaluation.intervals import LEAST_CONTEXTS, holm, mean_without, p_value, spread
from tests.evaluation.test_agreement import tables

FIGURES = [(level, statistic) for level in LEVELS for statistic in STATISTICS]


def simulated(rng, n_contexts=30, n_systems=6, noise=(1.0, 1.0), shared=0.0):
    """Two methods that see quality through noise, of which a part is the same for both; human ratings; names."""
    quality = rng.normal(size=(n_contexts, n_systems))
    human = quality + rng.normal(size=quality.shape)
    common = shared * rng.normal(size=quality.shape)
    methods = [(quality + common + sd * rng.normal(size=quality.shape)).ravel() for sd in noise]
    contexts = [f"c{i}" for i in range(n_contexts) for _ in range(n_systems)]
    return (*methods, human.ravel(), contexts, [f"s{j}" for _ in range(n_contexts) for j in range(n_systems)])


def without(columns, context):
    """All texts of the other contexts."""
    rows = [row for row, name in enumerate(columns[2]) if name != context]
    return [[column[row] for row in rows] for column in columns]


# ------------------------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize(("level", "statistic"), FIGURES)
@settings(max_examples=20)
@given(table=tables())
def test_the_error_is_that_of_agreements_without_each_context(level, statistic, table):
    found = agreement(*table, level=level, statistic=statistic)
    if found.note:
        assert (found.low, found.high) == (None, None)
        return
    alone = [agreement(*without(table, c), level=level, statistic=statistic) for c in dict.fromkeys(table[2])]
    known = np.array([each.value for each in alone if not np.isnan(each.value) and each.n_contexts < found.n_contexts])
    n = len(known)
    assert found.stderr == pytest.approx(np.sqrt((n - 1) * known.var()), abs=1e-9)
    assert -1 <= found.low <= found.value <= found.high <= 1


def test_the_error_of_a_mean_over_contexts_is_that_of_the_mean():
    values, _, human, contexts, _ = simulated(np.random.default_rng(0), 7)
    found = agreement(values, human, contexts)
    inside = [agreement(values[6 * k : 6 * k + 6], human[6 * k : 6 * k + 6], contexts[:6]).value for k in range(7)]
    assert found.stderr == pytest.approx(np.std(inside, ddof=1) / np.sqrt(7))


def test_an_interval_is_students_where_the_ends_are_far():
    others = np.array([0.1, 0.3, 0.2, 0.4])
    found = spread(0.25, others, ends=(-1e6, 1e6))
    assert (found.low, found.high) == pytest.approx(stats.t.interval(0.95, 3, 0.25, found.stderr), abs=1e-6)


def test_a_figure_that_no_context_changes_has_no_interval_but_where_all_contexts_agree():
    assert spread(0.5, np.full(4, 0.5)).note == "no interval: without any one context it is the same"
    assert spread(1.0, np.ones(4))[:3] == (0, 1, 1)
    assert spread(0.0, np.zeros(4))[:3] == (0, 0, 0)


def test_an_interval_is_longer_where_there_is_room_and_stays_within_the_ends():
    found = spread(0.9, np.array([0.8, 0.95, 0.92]))
    assert 0.9 - found.low > found.high - 0.9 > 0
    assert -1 < found.low < found.high < 1
    share = spread(0.9, np.array([0.8, 0.95, 0.92]), ends=(0.0, 1.0))
    turned = spread(0.1, 1 - np.array([0.8, 0.95, 0.92]), ends=(0.0, 1.0))
    assert (share.low, share.high) == pytest.approx((1 - turned.high, 1 - turned.low))


@pytest.mark.slow
@pytest.mark.parametrize("n_contexts", [5, 30])
@pytest.mark.parametrize(
    ("level", "statistic"), [("per_context", "spearman"), ("pooled", "pearson"), ("pooled", "spearman")]
)
def test_intervals_hold_the_truth_about_as_often_as_they_say(level, statistic, n_contexts):
    rng = np.random.default_rng(0)
    texts, _, ratings, _, _ = simulated(rng, 5_000)
    size = len(texts) if level == "pooled" else 6  # its own interval, which leaves out each context, is not needed
    columns = zip(texts.reshape(-1, size), ratings.reshape(-1, size), strict=True)
    truth = np.mean([correlation(*column, statistic) for column in columns])
    n, covered = 200, 0
    for _ in range(n):
        values, _, human, contexts, _ = simulated(rng, n_contexts)
        found = agreement(values, human, contexts, level=level, statistic=statistic)
        covered += found.low <= truth <= found.high
    assert 0.91 <= covered / n <= 0.985  # 95 %, +- 0.03 by chance


def test_one_context_has_no_interval_and_it_is_said():
    columns = [1, 2, 3, 4], [1, 3, 2, 4], ["a"] * 4, list("stuv")
    for level in LEVELS:
        found = agreement(*columns, level=level)
        assert (found.value, found.low, found.high) == (pytest.approx(0.8), None, None)
        assert found.note == "no interval: it takes two contexts or more"
    found = agreement([1, 2, 3, 5, 5], [1, 3, 2, 1, 1], list("aaabb"))
    assert (found.n_contexts, found.low) == (1, None)  # ratings in b are equal
    assert difference([1, 2], [2, 1], [1, 2], "aa").note.startswith("no interval")


def test_a_context_without_which_there_is_nothing_to_measure_takes_no_part():
    systems = list("stusvu")  # without a, b knows three systems; a alone as well
    found = agreement([1, 2, 3, 2, None, 3], [1, 2, 3, 1, 2, 3], list("aaabbb"), systems, level="system")
    assert (found.low, found.note) == (None, "no interval: it takes two contexts or more")


def test_the_mean_of_two_figures_leaves_out_the_same_contexts():
    one, other = np.array([0.1, 0.3, np.nan]), np.array([0.5, np.nan, np.nan])
    assert mean_without([0.2, 0.4], [one, other]) == pytest.approx([0.3, 0.35, np.nan], nan_ok=True)
    assert mean_without([0.2, 0.4], [one, other], [3, 1]) == pytest.approx([0.2, 0.325, np.nan], nan_ok=True)


# ------------------------------------------------------------------------------------------------- differences


@pytest.mark.parametrize(("level", "statistic"), FIGURES)
def test_identical_methods_differ_by_exactly_0(level, statistic):
    values, _, *rest = simulated(np.random.default_rng(0))
    found = difference(values, values, *rest, level=level, statistic=statistic)
    assert (found.value, found.low, found.high, found.p, found.n_left_out) == (0, 0, 0, 1, 0)


@pytest.mark.parametrize("level", LEVELS)
def test_a_difference_is_that_of_two_agreements_and_changes_sign_with_their_order(level):
    one, other, *rest = simulated(np.random.default_rng(0), noise=(0.5, 2.0))
    found = difference(one, other, *rest, level=level)
    back = difference(other, one, *rest, level=level)
    a, b = (agreement(values, *rest, level=level) for values in (one, other))
    assert found.value == a.value - b.value == -back.value
    assert (found.low, found.high, found.p) == pytest.approx((-back.high, -back.low, back.p))
    assert found.low < found.value < found.high
    assert (found.n, found.n_contexts) == (a.n, 30)


def test_pairing_takes_out_what_both_methods_share():
    one, other, *rest = simulated(np.random.default_rng(0), noise=(0.3, 0.3), shared=1.5)
    for level in ("per_context", "pooled"):
        paired = difference(one, other, *rest, level=level)
        alone = [agreement(values, *rest, level=level) for values in (one, other)]
        unpaired = np.hypot(*(found.high - found.low for found in alone))
        assert paired.high - paired.low < 0.6 * unpaired


@pytest.mark.slow
@pytest.mark.parametrize("n_contexts", [2, 3, 5, 10, 20])
def test_without_a_difference_few_p_values_are_small(n_contexts):
    rng = np.random.default_rng(0)
    found = [difference(*simulated(rng, n_contexts)[:4]).p for _ in range(400)]
    found = [p for p in found if p is not None]
    assert np.mean(np.array(found) < 0.05) <= 0.07  # bootstrapped contexts gave .5, .26, .18, .14, .085
    if n_contexts < LEAST_CONTEXTS:
        assert min(found) > 0.05


def test_a_clear_difference_has_a_small_p_value_where_there_are_contexts_enough():
    rng = np.random.default_rng(0)
    assert difference(*simulated(rng, noise=(0.2, 3.0))[:4]).p < 0.01
    assert difference(*simulated(rng, 6, noise=(0.2, 9.0))[:4]).p < 0.05
    assert difference(*simulated(rng, 5, noise=(0.2, 9.0))[:4]).p >= 1 / 16


def test_methods_are_compared_over_the_texts_that_both_score():
    one, other, human, contexts, systems = simulated(np.random.default_rng(0))
    gaps = one.copy()
    gaps[[0, 7, 8]] = np.nan
    human[[8, 20]] = np.nan
    found = difference(gaps, other, human, contexts, systems)
    both = other.copy()
    both[[0, 7, 8]] = np.nan
    assert found.value == agreement(gaps, human, contexts).value - agreement(both, human, contexts).value
    assert found.value != agreement(gaps, human, contexts).value - agreement(other, human, contexts).value
    assert (found.n, found.n_left_out) == (180 - 4, 2)  # one of the three has no rating
    assert difference(gaps, gaps, human, contexts).n_left_out == 0


def test_a_difference_from_a_method_without_agreement_is_not_a_number():
    _, other, human, contexts, _ = simulated(np.random.default_rng(0))
    found = difference([None] * len(other), other, human, contexts)
    assert np.isnan(found.value)
    assert (found.p, found.low, found.n, found.n_left_out) == (None, None, 0, 180)
    assert found.note.startswith("none of 30 contexts can be used")
    with pytest.raises(InputError, match="3 values, 180 other values, 180 ratings, 180 contexts: expected as many"):
        difference([1, 2, 3], other, human, contexts)


# ------------------------------------------------------------------------------------------------- p-values


def test_a_p_value_is_students_and_no_smaller_than_that_of_equal_signs():
    assert p_value(0.2, 0.1, 20) == pytest.approx(2 * stats.t.sf(2, 19))
    assert p_value(-0.2, 0.1, 20) == p_value(0.2, 0.1, 20)
    assert p_value(9.0, 0.1, 5) == 2 / 32
    assert p_value(0.1, 0.0, 2) == 0.5
    assert p_value(0.0, 0.0, 9) == 1


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
