"""The table of methods, and what `rank` and `compare` make of sets of comparisons in Python."""

import json

import numpy as np
import pytest

from synthscore import ranking
from synthscore.errors import InputError, RankingError, SynthscoreWarning
from synthscore.judging.asking import Asking
from synthscore.ranking import METHODS, Comparisons, ComparisonSets, Selection, compare, rank
from synthscore.ranking.bias import mean_debiasing, median_debiasing, pool
from synthscore.ranking.methods import DEBIAS, STDERR
from tests.fakes import FakeEngine

CALLS = Comparisons.from_records([("a", "b", 0.8), ("b", "c", 0.7), ("a", "c", 0.6), ("c", "a", 0.5), ("b", "a", 0.35)])
OTHERS = Comparisons.from_records([("x", "y", 0.9), ("y", "x", 0.4)])
SETS = ComparisonSets(("context_id",), {("1",): CALLS, ("2",): OTHERS})


@pytest.mark.filterwarnings("ignore:.*resamples could not be ranked")  # of three pairs, some leave a text out
@pytest.mark.parametrize("name", METHODS)
def test_a_method_does_all_that_the_table_says_of_it_and_refuses_the_rest(name):
    method = METHODS[name]
    for debias in DEBIAS:
        for stderr in STDERR:
            if debias in method.debias and stderr in ("auto", "none", *method.stderr):
                found = rank(CALLS, name, debias=debias, stderr=stderr, **method.options)
                assert (found.method, found.ids[found.order[0]]) == (name, "a")
                given = stderr != "none" and (stderr == "bootstrap" or "model" in method.stderr)
                assert np.isfinite(found.stderr).all() == given
            else:
                with pytest.raises(InputError, match=rf"{debias}|{stderr}"):
                    rank(CALLS, name, debias=debias, stderr=stderr)
    with pytest.raises(InputError, match="tau does nothing with method="):
        rank(CALLS, name, tau=1)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "elo"}, "method is 'elo', expected one of win-ratio"),
        ({"method": "bt", "prior": "some"}, "prior is 'some', expected one of all, observed, none"),
        ({"debias": "threshold"}, "debias is 'threshold', expected one of none, median"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_what_means_nothing_is_refused(options, says):
    with pytest.raises(InputError, match=says):
        rank(CALLS, **options)


@pytest.mark.parametrize("name", [name for name, method in METHODS.items() if "decisions" in method.options])
def test_a_method_that_lets_one_say_what_a_win_is_sees_decisions_alone(name):
    np.testing.assert_allclose(METHODS[name](CALLS).scores, METHODS[name](CALLS.hard()).scores, atol=1e-12)


@pytest.mark.parametrize("name", ["average-probability", "poe-bt", "bt-ties", "poe-g"])
def test_a_method_on_probabilities_sees_more_than_decisions(name):
    assert not np.allclose(METHODS[name](CALLS).scores, METHODS[name](CALLS.hard()).scores)


def test_a_bias_is_estimated_over_all_sets_and_taken_out_of_each():
    together = pool({"1": CALLS, "2": OTHERS})
    found = rank(SETS, "average-probability", debias="median")
    shift = median_debiasing(together)
    assert found.shift == shift
    for group, calls in SETS.sets.items():
        expected = METHODS["average-probability"](shift.apply(calls))
        np.testing.assert_array_equal(found.by_group[group].scores, expected.scores)
    gamma = rank(SETS, "poe-bt", debias="gamma").by_group["1",]
    assert gamma.settings["gamma"] == mean_debiasing(together).shift
    beta = rank(SETS, "poe-g", debias="gamma").by_group["1",]
    assert beta.settings["beta"] == pytest.approx(together.probabilities.mean())


def test_a_set_that_cannot_be_ranked_is_a_reason_beside_the_others_and_an_error_alone():
    apart = Comparisons.from_records([("a", "b", 0.8), ("c", "d", 0.7)])
    found = rank(ComparisonSets(("context_id",), {("1",): apart, ("2",): OTHERS}))
    assert "no comparison links" in found.by_group["1",]
    rows = list(found.to_rows())
    assert [(row["id"], row["context_id"], row["status"]) for row in rows] == [
        *((name, "1", "unscored") for name in "abcd"),
        *((name, "2", "ok") for name in "xy"),
    ]
    assert all(row["score"] is None and row["n_comparisons"] == 0 for row in rows[:4])
    json.dumps(rows, allow_nan=False)
    with pytest.raises(RankingError, match="no comparison links"):
        rank(apart)


def test_rows_name_what_the_numbers_depend_on():
    (one, *_) = rank(SETS, "bt", prior="observed", stderr="model").to_rows()
    for part in ("method:bt", "decisions:averaged", "prior:observed", "debias:none", "stderr:model"):
        assert f"|{part}" in one["signature"]
    assert one["signature"] == next(rank(SETS, "bt", prior="observed", stderr="model").to_rows())["signature"]
    other = ComparisonSets(("context_id",), {("1",): CALLS})
    assert next(rank(other, "bt").to_rows())["signature"].split("|")[1] != one["signature"].split("|")[1]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"budget": 0}, "budget is 0"),
        ({"orders": "two"}, "orders is 'two'"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_a_selection_that_means_nothing_is_refused(settings, says):
    with pytest.raises(InputError, match=says):
        Selection(**settings)


def test_a_selection_says_what_is_asked():
    assert str(Selection()) == "all,both-orders,seed=0"
    assert str(Selection(budget=48)) == "greedy,budget=48,both-orders,seed=0"
    assert str(Selection(orders="one", seed=3)) == "all,one-order,seed=3"


ROWS = [
    {"id": f"{c}{k}", "context_id": c, "context": f"Article {c}.", "text": f"Text {k} of {c}."}
    for c in "pq"
    for k in range(3)
]


def test_candidates_are_compared_and_ranked_in_python(tmp_path):
    engine = FakeEngine()
    sets = compare(ROWS, engine, task="summarization", attribute=["coherence", "fluency"], asking=Asking("choose"))
    assert engine.n_judged == 2 * 2 * 6
    assert list(sets.sets) == [(c, a) for c in "pq" for a in ("coherence", "fluency")]
    assert sets.complete
    path = tmp_path / "calls.jsonl"
    sets.save(path)
    assert ComparisonSets.load(path).fingerprint == sets.fingerprint
    few = compare(ROWS, engine, task="summarization", attribute="coherence", selection=Selection(budget=4))
    assert {len(calls) for calls in few.sets.values()} == {4}
    assert "selection:greedy,budget=4,both-orders,seed=0" in str(few.signature)
    assert len(list(rank(few).to_rows())) == 6


def test_a_broken_row_of_contexts_is_a_warning_and_its_candidates_are_left_out():
    rows = [{name: value for name, value in row.items() if name != "context"} for row in ROWS]
    contexts = [{"context_id": "p", "context": "Article p."}, {"context_id": "q", "context": " "}]
    with pytest.warns(SynthscoreWarning, match="context is ' '"):
        sets = compare(rows, FakeEngine(), task="summarization", attribute="coherence", contexts=contexts)
    assert [each.names["id"] for each in sets.left_out] == ["q0", "q1", "q2"]
    assert not sets.complete


def test_every_method_has_a_function_and_every_public_name_is_there():
    comparisons = Comparisons.from_records([("a", "b", 0.8), ("b", "c", 0.7), ("a", "c", 0.6), ("c", "a", 0.5)])
    for name, method in ranking.METHODS.items():
        found = method(comparisons)
        assert found.method == name
        assert found.ids[found.order[0]] == "a"
    assert all(getattr(ranking, name) is not None for name in ranking.__all__)
