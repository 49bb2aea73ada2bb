"""Rows to comparisons: every way of saying which text is better, and every way of saying it wrongly."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.errors import InputError
from synthscore.ranking.comparisons import Comparisons
from synthscore.ranking.sets import ComparisonSets
from synthscore.signature import Signature


def read(*rows, **options):
    return ComparisonSets.load(rows, **options)


def one(**answer):
    """The probabilities of first, second and tie that a single row is read as."""
    (comparisons,) = read({"first": "x", "second": "y", **answer}).sets.values()
    return np.exp(comparisons.log_probs[0]).tolist()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"probability": 0.25}, [0.25, 0.75, 0]),
        ({"probability": "0.25"}, [0.25, 0.75, 0]),
        ({"probability": 1}, [1, 0, 0]),
        ({"probability": 0}, [0, 1, 0]),
        ({"log_odds": math.log(3)}, [0.75, 0.25, 0]),
        ({"log_odds": "-inf"}, [0, 1, 0]),
        ({"log_p_first": math.log(0.6), "log_p_second": math.log(0.3)}, [2 / 3, 1 / 3, 0]),
        ({"log_p_first": math.log(0.3), "log_p_second": math.log(0.1), "log_p_tie": math.log(0.1)}, [0.6, 0.2, 0.2]),
        ({"log_p_first": "-inf", "log_p_second": 0.0, "log_p_tie": "-inf"}, [0, 1, 0]),
        ({"winner": "x"}, [1, 0, 0]),
        ({"winner": "y"}, [0, 1, 0]),
        ({"winner": "Tie"}, [0, 0, 1]),
        *(({"outcome": word}, [1, 0, 0]) for word in ("first", "win", "A", 1, 1.0, "1", "1.0")),
        *(({"outcome": word}, [0, 1, 0]) for word in ("second", "Loss", "b", 0, 0.0, "0")),
        *(({"outcome": word}, [0, 0, 1]) for word in ("tie", "draw", "similar", 0.5, "0.5", ".5")),
    ],
)
def test_each_way_of_saying_which_is_better_is_read(answer, expected):
    assert one(**answer) == pytest.approx(expected, abs=1e-15)


def test_the_first_column_is_the_text_that_was_shown_first():
    (comparisons,) = read({"first": "b", "second": "a", "probability": 0.9}).sets.values()
    assert comparisons.ids == ("b", "a")
    assert (comparisons.first.tolist(), comparisons.second.tolist()) == ([0], [1])


def test_a_candidate_may_be_called_tie():
    (comparisons,) = read({"first": "tie", "second": "y", "winner": "tie"}).sets.values()
    assert comparisons.decisions.tolist() == [1]


def test_ids_may_be_whole_numbers_and_weights_say_how_often_a_row_counts():
    (comparisons,) = read({"first": 1, "second": 2, "outcome": 1, "weight": "2.5"}).sets.values()
    assert comparisons.ids == ("1", "2")
    assert comparisons.weights.tolist() == [2.5]


GOOD = {"first": "x", "second": "y", "probability": 0.5}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({**GOOD, "probability": 1.2}, ["probability is 1.2", "0 to 1"]),
        ({**GOOD, "probability": -0.1}, ["probability is -0.1"]),
        ({**GOOD, "probability": "nan"}, ["probability is 'nan'", "0 to 1"]),
        ({**GOOD, "probability": "high"}, ["probability is 'high'"]),
        ({**GOOD, "probability": True}, ["probability is True"]),
        ({**GOOD, "probability": math.nan}, ["does not say which is better", "log_odds"]),
        ({**GOOD, "second": "x"}, ["'x' is compared with itself"]),
        ({**GOOD, "second": " "}, ["second is ' '"]),
        ({"first": "x", "probability": 0.5}, ["there is no 'second'", "second=COLUMN"]),
        ({**GOOD, "winner": "x"}, ["in probability and winner", "--field"]),
        ({"first": "x", "second": "y"}, ["does not say which is better"]),
        ({"first": "x", "second": "y", "winner": "z"}, ["winner is 'z'", "'x', 'y' or tie"]),
        ({"first": "x", "second": "y", "outcome": "third"}, ["outcome is 'third'", "first, second or tie"]),
        ({"first": "x", "second": "y", "outcome": 0.7}, ["outcome is 0.7"]),
        ({"first": "x", "second": "y", "outcome": True}, ["outcome is True"]),
        ({"first": "x", "second": "y", "log_p_first": -1.0}, ["log_p_second is None", "log-probability"]),
        ({"first": "x", "second": "y", "log_p_first": 0.5, "log_p_second": -1}, ["at most 0"]),
        ({"first": "x", "second": "y", "log_p_first": "-inf", "log_p_second": "-inf"}, ["one that is not -inf"]),
        ({**GOOD, "weight": 0}, ["weight is 0", "above 0"]),
        ({**GOOD, "weight": "inf"}, ["weight is 'inf'", "above 0"]),
        ({**GOOD, "weight": "many"}, ["weight is 'many'"]),
    ],
)
def test_a_broken_row_is_an_error_with_its_number_and_value_and_the_others_are_read(row, words):
    found = read(GOOD, row, {**GOOD, "probability": 0.7})
    (comparisons,) = found.sets.values()
    assert comparisons.probabilities == pytest.approx([0.5, 0.7])
    (error,) = found.errors
    assert error.row == 2
    assert "row 2" in str(error)
    assert all(word in str(error) for word in words), str(error)


def test_nothing_to_read_is_an_error_that_says_what_was_expected():
    with pytest.raises(InputError, match="no comparisons, expected at least one row"):
        read()
    with pytest.raises(InputError, match=r"first row that has none says.*probability is 2"):
        read({**GOOD, "probability": 2})


def test_contexts_and_attributes_are_ranked_apart_where_there_are_such_columns():
    rows = [
        {**GOOD, "context_id": c, "attribute": a} for c, a in (("1", "fluency"), ("2", "fluency"), ("1", "fluency"))
    ]
    found = read(*rows)
    assert found.by == ("context_id", "attribute")
    assert {group: len(c) for group, c in found.sets.items()} == {("1", "fluency"): 2, ("2", "fluency"): 1}
    assert read(*rows, by=("attribute",)).sets.keys() == {("fluency",)}
    assert read(*rows, by=()).sets.keys() == {()}
    assert read(GOOD).by == ()


def test_a_group_column_that_a_row_does_not_fill_is_an_error():
    found = read({**GOOD, "context_id": "1"}, GOOD)
    assert "context_id" in str(found.errors[0])


def test_a_signature_is_kept_where_all_rows_have_the_same():
    (comparisons,) = read({**GOOD, "signature": "model:m|orders:1"}).sets.values()
    assert comparisons.signature == Signature.parse("model:m|orders:1")


@pytest.mark.parametrize(
    ("signatures", "expected"),
    [
        (("model:m|orders:1", "model:n|orders:1"), "model:m & n|orders:1"),
        (("model:n|orders:1", "model:m|orders:1", "model:n|orders:1"), "model:m & n|orders:1"),
        (("model:m|orders:1", ""), "model:m & none|orders:1 & none"),
        (("", "model:m"), "model:m & none"),
        (("model:m|bias:mle", "model:m|orders:1"), "model:m|bias:mle & none|orders:1 & none"),
        (("model:m & n", "model:o", "model:m"), "model:m & n & o"),
        (("", ""), ""),
    ],
)
def test_comparisons_by_several_judges_are_signed_by_all_of_them(signatures, expected):
    (comparisons,) = read(*({**GOOD, "signature": signature} for signature in signatures)).sets.values()
    assert str(comparisons.signature) == expected
    back = read(*ComparisonSets((), {(): comparisons}).to_rows()).sets[()]
    assert back.signature == comparisons.signature


LOG_PROBS = st.tuples(*[st.one_of(st.just(-math.inf), st.floats(-700, 0))] * 3).filter(lambda p: max(p) > -700)


@settings(max_examples=20)
@given(rows=st.lists(LOG_PROBS, min_size=1, max_size=5), suffix=st.sampled_from(["jsonl", "csv", "parquet"]))
def test_comparisons_come_back_from_a_file_to_the_last_bit(tmp_path_factory, rows, suffix):
    log_probs = np.array(rows)
    log_probs -= np.logaddexp.reduce(log_probs, axis=1, keepdims=True)
    k = len(rows)
    weights = np.linspace(0.1, 3, k)
    given_ = Comparisons(
        ("a", "b"), np.arange(k) % 2, 1 - np.arange(k) % 2, log_probs, weights, Signature.of(model="m", orders=1)
    )
    path = tmp_path_factory.mktemp("rows") / f"c.{suffix}"
    sets = ComparisonSets(("context_id",), {("c1",): given_})
    sets.save(str(path))
    found = ComparisonSets.load(path)
    back = found.sets["c1",]
    assert not found.errors
    assert (back.ids, back.signature) == (given_.ids, given_.signature)
    for name in ("first", "second", "log_probs", "weights"):
        np.testing.assert_array_equal(getattr(back, name), getattr(given_, name))
    assert found.fingerprint == sets.fingerprint


def test_rows_of_a_file_are_what_people_would_write(tmp_path):
    path = tmp_path / "c.csv"
    path.write_text("first,second,better\na,b,0.75\nb,a,0.5\n")
    found = ComparisonSets.load(path, fields={"probability": "better"})
    assert found.sets[()].probabilities == pytest.approx([0.75, 0.5])


def test_the_fingerprint_changes_with_any_answer_and_not_with_the_order_of_rows():
    rows = [GOOD, {**GOOD, "first": "y", "second": "x", "probability": 0.9}]
    same = read(*rows).fingerprint
    assert read(*rows[::-1]).fingerprint == same
    changed = [
        [rows[0]],
        [rows[0], {**rows[1], "probability": 0.90000001}],
        [rows[0], {**rows[1], "weight": 2}],
        [{**rows[0], "first": "y", "second": "x"}, rows[1]],
    ]
    hashes = [read(*some).fingerprint for some in changed]
    hashes.append(ComparisonSets((), {(): replace(read(*rows).sets[()], ids=("x", "y", "z"))}).fingerprint)
    hashes.append(ComparisonSets(("context_id",), {("1",): read(*rows).sets[()]}).fingerprint)
    assert len({same, *hashes}) == 7


def test_written_rows_are_json_without_infinities():
    rows = list(ComparisonSets((), {(): Comparisons.from_records([("a", "b", 1.0)])}).to_rows())
    assert json.loads(json.dumps(rows[0], allow_nan=False))["log_p_second"] == "-inf"


def test_each_judge_of_a_file_has_sets_of_its_own_and_they_are_saved_with_its_name(tmp_path):
    rows = [{**GOOD, "context_id": "c", "judge": name} for name in ("A", "B")]
    sets = read(*rows)
    assert (sets.by, sets.judges) == (("context_id", "judge"), ("A", "B"))
    assert read(*rows, by=()).by == ("judge",)
    assert read(*rows, by=("judge", "context_id")).by == ("judge", "context_id")
    sets.save(tmp_path / "calls.jsonl")
    assert ComparisonSets.load(str(tmp_path / "calls.jsonl")).fingerprint == sets.fingerprint
    assert read({**GOOD}).judges == ()
    together = ComparisonSets.of_judges({name: read({**GOOD, "context_id": "c"}) for name in ("A", "B")})
    assert together.fingerprint == sets.fingerprint
