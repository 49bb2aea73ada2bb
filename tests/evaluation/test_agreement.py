"""Correlations with people's ratings, at three levels."""

import gzip
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from synthscore.errors import InputError
from synthscore.evaluation import correlation
from synthscore.evaluation.agreement import LEVELS, agreement, even_split
from synthscore.evaluation.correlation import STATISTICS

BENCHMARKS = Path(__file__).resolve().parents[3] / "shared" / "benchmarks"
spearman, pearson, kendall = (
    partial(correlation.correlation, statistic=name) for name in ("spearman", "pearson", "kendall")
)
SCIPYS = {
    "spearman": lambda x, y: stats.spearmanr(x, y).statistic,
    "pearson": lambda x, y: stats.pearsonr(x, y).statistic,
    "kendall": lambda x, y: stats.kendalltau(x, y).statistic,
}
VALUES = st.lists(st.integers(-5, 5).map(float), min_size=2, max_size=12)
FEW = settings(max_examples=30)
COUNTS = ("n_contexts", "n_skipped", "n_constant", "n", "n_unscored", "n_unrated")


def counts(found):
    return tuple(getattr(found, name) for name in COUNTS)


@st.composite
def tables(draw, missing=True):
    """values, human, contexts, systems, with many ties, and gaps."""
    n = draw(st.integers(4, 24))
    number = st.integers(0, 4).map(float)
    gap = st.just(float("nan"))
    column = st.lists(st.one_of(number, number, number, gap) if missing else number, min_size=n, max_size=n)
    names = [st.lists(st.sampled_from(letters), min_size=n, max_size=n) for letters in ("abcd", "stuvw")]
    return draw(column), draw(column), draw(names[0]), draw(names[1])


def slow(values, human, contexts, systems, level, statistic):
    """As the equations say, one text after the other; NaN where there is no value."""
    rows = [row for row in zip(values, human, contexts, systems, strict=True) if not np.isnan(row[:2]).any()]
    if level == "per_context":
        groups = [[row[:2] for row in rows if row[2] == context] for context in dict.fromkeys(contexts)]
        groups = [group for group in groups if len(group) > 1]
    elif level == "pooled":
        groups = [[row[:2] for row in rows]] if len(rows) > 1 else []
    else:
        means = [[row[:2] for row in rows if row[3] == system] for system in dict.fromkeys(systems)]
        means = [np.array(group).mean(axis=0).round(9) for group in means if group]
        groups = [means] if len(means) > 2 else []
    found = []
    for group in groups:
        x, y = np.array(group).T
        if len(set(y)) == 1:
            found.append(None)
        elif len(set(x)) == 1:
            found.append(0.0)
        else:
            found.append(SCIPYS[statistic](x, y))
    found = [value for value in found if value is not None]
    return np.mean(found) if found else float("nan")


# ------------------------------------------------------------------------------------------------- statistics


@pytest.mark.parametrize(("ours", "name"), [(spearman, "spearman"), (pearson, "pearson"), (kendall, "kendall")])
@given(values=VALUES, data=st.data())
def test_statistics_are_scipys(ours, name, values, data):
    human = data.draw(st.lists(st.integers(-5, 5).map(float), min_size=len(values), max_size=len(values)))
    if len(set(values)) > 1 and len(set(human)) > 1:
        assert ours(values, human) == pytest.approx(SCIPYS[name](values, human))
    else:
        assert np.isnan(ours(values, human))


@FEW
@given(st.lists(st.floats(-20, 20), min_size=2, max_size=9, unique=True))
def test_a_rising_map_changes_nothing_and_a_falling_one_turns_it_round(values):
    values = np.round(values, 3)
    human = np.arange(len(values))
    assert spearman(values, np.exp(values / 10)) == pytest.approx(1) or len(set(values)) == 1
    for statistic in (spearman, kendall):
        assert statistic(values, -human) == pytest.approx(-statistic(values, human), nan_ok=True)
        assert statistic(np.exp(values / 10), human) == pytest.approx(statistic(values, human), nan_ok=True)
    assert pearson(3 * values - 7, human) == pytest.approx(pearson(values, human), nan_ok=True)


def test_numbers_of_any_size_correlate():
    x, y = np.array([0.0, 1.0, 3.0]), np.array([0.0, 2.0, 1.0])
    for size in (1e-160, 1e160):
        assert pearson(x * size, y) == pytest.approx(pearson(x, y))
    assert np.isnan(pearson([0.1] * 7, range(7)))  # whose mean is not 0.1
    assert pearson([1e7 + 0.1, 1e7 + 0.2, 1e7 + 0.4], [1, 2, 4]) == pytest.approx(1)
    for x in np.random.default_rng(0).normal(size=(100, 7)):
        assert pearson(x, 3 * x) <= 1  # rounding would lead beyond


def test_long_vectors_take_another_way_to_the_same_tau(monkeypatch):
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 9, (2, 40)).astype(float)
    whole = kendall(x, y)
    monkeypatch.setattr(correlation, "_FEW", 10)
    assert kendall(x, y) == pytest.approx(whole)


# ------------------------------------------------------------------------------------------------- levels

WORKED = {  # computed by hand
    ("per_context", "spearman"): (1 + 1 / 2) / 2,
    ("per_context", "pearson"): (1 + 1 / 2) / 2,
    ("per_context", "kendall"): (1 + 1 / 3) / 2,
    ("pooled", "spearman"): 11 / np.sqrt(16.5 * 16),
    ("pooled", "pearson"): 3 / np.sqrt(5.5 * 4),
    ("pooled", "kendall"): (9 - 2) / np.sqrt(13 * 12),
    ("system", "spearman"): 1.5 / np.sqrt(1.5 * 2),
    ("system", "pearson"): 1.5 / np.sqrt(1.5 * 2),
    ("system", "kendall"): 2 / np.sqrt(2 * 3),
}


@pytest.mark.parametrize(("level", "statistic"), WORKED)
def test_two_contexts_of_three_systems_are_as_computed_by_hand(level, statistic):
    columns = [1, 2, 3, 2, 4, 3], [1, 2, 3, 1, 2, 3], list("aaabbb"), list("stustu")
    found = agreement(*columns, level=level, statistic=statistic)
    assert found.value == pytest.approx(WORKED[level, statistic])
    assert counts(found) == (2, 0, 0, 3 if level == "system" else 6, 0, 0)
    assert -1 <= found.low <= found.value <= found.high <= 1


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("statistic", STATISTICS)
@settings(max_examples=15)
@given(table=tables())
def test_every_level_and_statistic_is_the_slow_one(level, statistic, table):
    found = agreement(*table, level=level, statistic=statistic)
    # The slow one rounds means of systems to 9 digits, so that a correlation of 0 comes out as some 1e-10.
    assert found.value == pytest.approx(slow(*table, level, statistic), abs=1e-8, nan_ok=True)
    assert bool(found.note) == (found.low is None)
    values, human = np.array(table[0]), np.array(table[1])
    assert found.n_unrated == np.isnan(human).sum()
    assert found.n_unscored == (np.isnan(values) & ~np.isnan(human)).sum()
    assert found.n_contexts + found.n_skipped == len(set(table[2]))


@FEW
@given(tables(), st.data())
def test_the_order_of_texts_and_the_names_of_contexts_and_systems_do_not_matter(table, data):
    order = data.draw(st.permutations(range(len(table[0]))))
    shuffled = [[column[row] for row in order] for column in table]
    renamed = (*shuffled[:2], [f"{'dcba'.index(c)}" for c in shuffled[2]], [s * 3 for s in shuffled[3]])
    for level in LEVELS:
        one, other = (agreement(*columns, level=level) for columns in (table, renamed))
        assert one.value == pytest.approx(other.value, nan_ok=True)
        assert counts(one) == counts(other)


@FEW
@given(tables(missing=False))
def test_a_perfect_scorer_has_1_and_its_opposite_minus_1(table):
    _, human, contexts, systems = table
    for level in LEVELS:
        for statistic in STATISTICS:
            found = agreement(human, human, contexts, systems, level=level, statistic=statistic)
            assert np.isnan(found.value) or found.value == pytest.approx(1)
            found = agreement(-np.array(human), human, contexts, systems, level=level, statistic=statistic)
            assert np.isnan(found.value) or found.value == pytest.approx(-1)


@FEW
@given(VALUES, st.data())
def test_one_context_pooled_is_that_context(values, data):
    human = data.draw(st.lists(st.integers(-5, 5).map(float), min_size=len(values), max_size=len(values)))
    for statistic in STATISTICS:
        one, pooled = (
            agreement(values, human, ["a"] * len(values), level=level, statistic=statistic)
            for level in ("per_context", "pooled")
        )
        assert one.value == pytest.approx(pooled.value, nan_ok=True)


def test_contexts_are_averaged_not_pooled():
    found = agreement([1, 2, 3, 30, 20, 10], [1, 2, 3, 1, 2, 3], list("aaabbb"))
    assert found.value == pytest.approx(0)
    assert found.n_contexts == 2
    assert found.stderr == pytest.approx(1)


def test_equal_ratings_are_skipped_and_equal_scores_count_as_zero():
    values = [1, 2, 3, 3, 1, 2, 5]
    human = [4, 4, 1, 2, 1, 2, 3]
    found = agreement(values, human, list("aabbccd"))
    assert (found.value, found.n_contexts, found.n_skipped, found.n_constant) == (0.5, 2, 2, 1)


def test_an_unscored_text_is_left_out_and_its_context_counted():
    found = agreement([np.nan, 1, 2, np.nan], [1, 2, 3, 1], list("aaab"))
    assert (found.value, found.n_contexts, found.n_skipped) == (1, 1, 1)
    assert np.isnan(agreement([np.nan], [1], ["a"]).value)


def test_scores_that_are_null_are_counted_not_zero():
    found = agreement([None, 1, 2, None, 5], [1, 2, 3, None, None], list("aaabb"))
    assert found.value == 1
    assert counts(found) == (1, 1, 0, 2, 1, 2)
    for level in LEVELS:
        found = agreement([None] * 4, [1, 2, 3, 4], list("aabb"), list("stst"), level=level)
        assert np.isnan(found.value)
        assert (found.n_unscored, found.n_contexts, found.n_skipped) == (4, 0, 2)
        assert found.note.startswith({"per_context": "none of 2 contexts", "pooled": "0 texts"}.get(level, "0 systems"))


def test_systems_are_compared_by_their_means_over_texts_that_have_both():
    values = [1, 2, 3, 9, np.nan, 4]
    human = [1, 3, 2, np.nan, 9, 4]
    found = agreement(values, human, list("aaabbb"), list("stustu"), level="system", statistic="pearson")
    assert found.value == pytest.approx(pearson([1, 2, 3.5], [1, 3, 3]))
    assert counts(found) == (2, 0, 0, 3, 1, 1)


def test_means_that_differ_by_rounding_alone_are_tied():
    values = [0.1, 0.2, 0.3, 0.3, 0.2, 0.1, 0.9, 0.9, 0.9]  # 0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1
    contexts, systems = list("abcabcabc"), list("ssstttuuu")
    for scale in (1, 1e-15 / 7, 1e15 / 7):
        found = agreement(np.array(values) * scale, [1, 1, 1, 2, 2, 2, 3, 3, 3], contexts, systems, level="system")
        assert found.value == pytest.approx(spearman([1, 1, 2], [1, 2, 3]))
    found = agreement([0.1] * 9, [1, 1, 1, 2, 2, 2, 3, 3, 3], contexts, systems, level="system")
    assert (found.value, found.n_constant) == (0, 1)


@pytest.mark.parametrize("n_systems", [1, 2])
def test_fewer_than_three_systems_have_no_correlation_and_it_is_said(n_systems):
    systems = ["s", "t" if n_systems == 2 else "s"] * 3
    found = agreement([1, 2, 3, 4, 5, 6], [1, 2, 3, 1, 2, 3], list("aabbcc"), systems, level="system")
    assert np.isnan(found.value)
    assert (found.n, found.note) == (n_systems, f"{n_systems} systems with texts that have both, expected 3 or more")


@pytest.mark.parametrize("level", LEVELS)
def test_constant_ratings_have_no_correlation_and_it_is_said(level):
    columns = [1, 2, 3, 4, 5, 6], [3.0] * 6, list("aaabbb"), list("stustu")
    found = agreement(*columns, level=level)
    assert np.isnan(found.value)
    assert "all ratings" in found.note
    assert found.n_constant == 0  # it is left out
    assert agreement(columns[1], columns[0], *columns[2:], level=level).value == 0  # equal scores


def test_columns_of_different_length_are_refused():
    with pytest.raises(InputError, match="2 values, 1 ratings, 2 contexts, 2 systems: expected as many"):
        agreement([1, 2], [1], ["a", "a"])
    with pytest.raises(InputError, match="expected as many"):
        agreement([1, 2], [1, 2], ["a", "a"], ["s"])


def test_unknown_names_are_refused():
    for option in ({"level": "sample"}, {"statistic": "kappa"}):
        with pytest.raises(InputError, match="expected one of"):
            agreement([1, 2], [1, 2], "aa", "st", **option)
    with pytest.raises(InputError, match="expected the system of each text"):
        agreement([1, 2], [1, 2], "aa", level="system")


def test_infinite_numbers_are_refused():
    with pytest.raises(InputError, match="scores of which 1 of 2 are infinite") as error:
        agreement([1, np.inf], [1, 2], "aa")
    assert error.value.value == np.inf
    with pytest.raises(InputError, match="ratings of which 2 of 2"):
        agreement([1, 2], [-np.inf, np.inf], "aa")


# ------------------------------------------------------------------------------------------------- published data


def rows_of(name):
    path = BENCHMARKS / f"{name}.jsonl.gz"
    if not path.exists():
        pytest.skip(f"no {name} in the benchmark folder")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.mark.slow
def test_summevals_attributes_correlate_as_computed_slowly():
    rows = rows_of("summeval")
    human = {name: [row["human"][name] for row in rows] for name in rows[0]["human"]}
    names = [[row[column] for row in rows] for column in ("context_id", "system")]
    for one in human:
        for other in human:
            for level in LEVELS:
                for statistic in STATISTICS:
                    expected = slow(human[one], human[other], *names, level, statistic)
                    found = agreement(human[one], human[other], *names, level=level, statistic=statistic)
                    assert found.value == pytest.approx(expected, nan_ok=True)


def test_published_benchmarks_have_as_many_constant_contexts_as_is_known():
    constant = {
        "summeval": {"coherence": 0, "consistency": 2, "fluency": 1, "relevance": 0},
        "topicalchat": {"understandability": 0, "naturalness": 0, "coherence": 0, "groundedness": 6, "overall": 0},
    }
    for name, expected in constant.items():
        rows = rows_of(name)
        for attribute, n in expected.items():
            human = [row["human"][attribute] for row in rows]
            found = agreement(np.arange(len(rows)), human, [row["context_id"] for row in rows])
            assert found.n_skipped == n, (name, attribute)


@pytest.mark.parametrize("statistic", STATISTICS)
def test_nothing_correlates_with_nothing(statistic):
    assert np.isnan(correlation.correlation([], [], statistic))


@pytest.mark.parametrize("level", LEVELS)
def test_without_any_text_there_is_no_agreement_and_the_note_says_why(level):
    found = agreement([], [], [], [], level=level)
    assert np.isnan(found.value)
    assert (found.n, found.n_contexts, found.low) == (0, 0, None)
    assert "0" in found.note


# ------------------------------------------------------------------------------------------------- AUC


@given(VALUES, st.data())
def test_auc_is_the_share_of_pairs_of_a_good_and_a_bad_text_that_are_in_order(values, data):
    good = data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values)))
    pairs = [
        (a > b) + (a == b) / 2
        for a, is_good in zip(values, good, strict=True)
        for b, other_is_good in zip(values, good, strict=True)
        if is_good and not other_is_good
    ]
    found = correlation.auc(values, good)
    assert np.isnan(found) if not pairs else found == pytest.approx(np.mean(pairs))


def test_auc_is_over_all_texts_with_an_interval_over_contexts():
    human = [1, 2, 4, 5, 1, 2, 4, 5, 3, 4]
    contexts = ["a"] * 4 + ["b"] * 4 + ["c"] * 2
    inside = [0, 1, 2, 3, 10, 11, 12, 13, 21, 22]  # perfect in every context, and contexts far apart
    found = agreement(inside, human, contexts, level="pooled", good_from=4)
    assert agreement(inside, human, contexts).value == pytest.approx(1)
    assert found.value == pytest.approx(17 / 25)  # by hand: 2 + 4 + 5 good texts above 2, 4 and 5 bad ones
    assert 0 <= found.low < found.value < found.high <= 1
    assert (found.n, found.n_contexts) == (10, 3)
    narrow = agreement(inside, human, contexts, level="pooled", good_from=4, confidence=0.5)
    assert found.low < narrow.low < narrow.high < found.high


def test_scores_that_are_all_equal_tell_no_good_text_from_another():
    assert agreement([1, 1, 1], [1, 2, 3], ["a", "b", "c"], level="pooled", good_from=2).value == 0.5


def test_where_all_texts_are_good_there_is_no_auc_and_the_note_says_so():
    found = agreement([1, 2, 3], [4, 4, 5], ["a", "b", "c"], level="pooled", good_from=4)
    assert np.isnan(found.value)
    assert found.note == "all ratings are 4 or more, or none is"


def test_auc_is_for_all_texts_together():
    with pytest.raises(InputError, match="level is 'per_context', expected 'pooled'"):
        agreement([1, 2], [1, 2], ["a", "a"], good_from=2)


@pytest.mark.parametrize(
    ("ratings", "split"),
    [([1, 2, 3, 4], 3), ([5, 5, 5, 4], 5), ([1, 1, 1, 2, 3], 2), ([np.nan, 1, 2], 2), ([3, 3], np.nan), ([], np.nan)],
)
def test_texts_are_split_as_evenly_as_ratings_allow(ratings, split):
    assert even_split(ratings) == pytest.approx(split, nan_ok=True)
