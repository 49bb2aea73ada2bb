"""Rank correlation inside contexts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from synthscore.agreement import per_context, spearman

VALUES = st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=12)


@given(VALUES, st.data())
def test_spearman_is_scipys(values, data):
    human = data.draw(st.lists(st.integers(-5, 5).map(float), min_size=len(values), max_size=len(values)))
    if len(set(values)) > 1 and len(set(human)) > 1:
        assert spearman(values, human) == pytest.approx(stats.spearmanr(values, human).statistic)
    else:
        assert np.isnan(spearman(values, human))


@given(st.lists(st.floats(-20, 20), min_size=2, max_size=9, unique=True))
def test_a_rising_map_changes_nothing_and_a_falling_one_turns_it_round(values):
    values = np.round(values, 3)
    human = np.arange(len(values))
    assert spearman(values, np.exp(values / 10)) == pytest.approx(1) or len(set(values)) == 1
    assert spearman(values, -human) == pytest.approx(-spearman(values, human), nan_ok=True)


def test_contexts_are_averaged_not_pooled():
    found = per_context([1, 2, 3, 30, 20, 10], [1, 2, 3, 1, 2, 3], list("aaabbb"))
    assert found.value == pytest.approx(0)
    assert found.n_contexts == 2
    assert found.stderr == pytest.approx(1)


def test_equal_ratings_are_skipped_and_equal_scores_count_as_zero():
    values = [1, 2, 3, 3, 1, 2, 5]
    human = [4, 4, 1, 2, 1, 2, 3]
    found = per_context(values, human, list("aabbccd"))
    assert (found.value, found.n_contexts, found.n_skipped, found.n_constant) == (0.5, 2, 2, 1)


def test_an_unscored_text_is_left_out_and_its_context_counted():
    found = per_context([np.nan, 1, 2, np.nan], [1, 2, 3, 1], list("aaab"))
    assert (found.value, found.n_contexts, found.n_skipped) == (1, 1, 1)
    assert np.isnan(per_context([np.nan], [1], ["a"]).value)


def test_columns_of_different_length_are_refused():
    with pytest.raises(ValueError, match="expected as many"):
        per_context([1, 2], [1], ["a", "a"])
