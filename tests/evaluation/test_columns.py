"""Sums of methods, and columns of scores out of files."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscore.errors import InputError
from synthscore.evaluation.methods import MethodError, Tools, method
from synthscore.evaluation.methods.base import scored
from synthscore.evaluation.methods.derived import SUMS, Sum, mid_ranks, z_scores
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.io.scores import score_row
from synthscore.io.write import write_rows
from synthscore.signature import Signature
from synthscore.types import Score

CONTEXTS = ("c", "c", "c", "d", "d", "e")
VALUES = st.lists(st.integers(-5, 5).map(float), min_size=len(CONTEXTS), max_size=len(CONTEXTS))


def ratings(contexts=CONTEXTS, attributes=("fluency", "coherence")):
    human = dict.fromkeys(attributes, 1.0)
    texts = tuple(RatedText(f"t{i}", context, f"s{i}", "some text", human) for i, context in enumerate(contexts))
    return Ratings("made up", texts, attributes)


def fixed(values, name="fixed"):
    """A method that says what it is given: numbers, or reasons."""
    return lambda made, attribute, tools: scored(made, attribute, values, Signature.of(synthscore=1, method=name))


def total(how, *columns, weights=None, contexts=CONTEXTS):
    weights = weights or (1.0,) * len(columns)
    names = tuple(f"m{i}" for i in range(len(columns)))
    return Sum(how, names, tuple(map(fixed, columns)), tuple(weights))(ratings(contexts), "fluency", Tools())


# ------------------------------------------------------------------------------------------------ sums


def test_sums_by_hand():
    found = total("zsum", [1.0, 2, 3, 5, 9, 4], [0.0, 0, 3, 1, 1, 7])
    z = np.sqrt(3 / 2)  # of 1, 2, 3; and 0, 0, 3 is -1, -1, 2 over sqrt(2)
    assert found.values == pytest.approx([-z - 1 / 2**0.5, -1 / 2**0.5, z + 2 / 2**0.5, -1, 1, 0])
    found = total("ranksum", [1.0, 2, 3, 5, 9, 4], [0.0, 0, 3, 1, 1, 7])
    assert found.values.tolist() == [1 + 1.5, 2 + 1.5, 3 + 3, 1 + 1.5, 2 + 1.5, 1 + 1]


@given(VALUES, VALUES, st.sampled_from(sorted(SUMS)))
def test_a_sum_does_not_depend_on_the_order_of_methods_or_texts(one, other, how):
    found = total(how, one, other).values
    np.testing.assert_allclose(total(how, other, one).values, found, atol=1e-12)
    back = total(how, one[::-1], other[::-1], contexts=CONTEXTS[::-1]).values
    np.testing.assert_allclose(back[::-1], found, atol=1e-12)


@given(VALUES, VALUES, st.floats(0.1, 10), st.floats(-5, 5))
def test_a_zsum_does_not_depend_on_the_unit_of_a_method(one, other, factor, shift):
    scaled = [factor * value + shift for value in one]
    np.testing.assert_allclose(total("zsum", scaled, other).values, total("zsum", one, other).values, atol=1e-9)


@given(VALUES, VALUES)
def test_a_ranksum_depends_on_the_order_of_texts_alone(one, other):
    curved = [np.exp(value) for value in one]
    assert total("ranksum", curved, other).values.tolist() == total("ranksum", one, other).values.tolist()


@given(VALUES, st.sampled_from(sorted(SUMS)))
def test_a_sum_of_one_orders_texts_as_that_one_does(values, how):
    found = total(how, values).values
    for context in set(CONTEXTS):
        here = [row for row, other in enumerate(CONTEXTS) if other == context]
        ours, theirs = found[here], np.array(values)[here]
        assert (np.sign(ours[:, None] - ours) == np.sign(theirs[:, None] - theirs)).all()


def test_weights_multiply_and_a_negative_one_turns_a_method_round():
    one, other = [1.0, 2, 3, 5, 9, 4], [0.0, 0, 3, 1, 1, 7]
    twice = total("zsum", one, one, other).values
    assert total("zsum", one, other, weights=(2, 1)).values == pytest.approx(twice)
    assert total("zsum", one, weights=(-1,)).values == pytest.approx(-total("zsum", one).values)


def test_a_method_that_tells_no_texts_of_a_context_apart_adds_nothing_there():
    one = [1.0, 2, 3, 5, 9, 4]
    assert total("zsum", one, [7.0] * 6).values == pytest.approx(total("zsum", one).values)
    noisy = [0.3, 0.1 + 0.2, 0.3, 0.3, 0.1 + 0.2, 0.3]  # equal up to rounding
    assert total("zsum", one, noisy).values == pytest.approx(total("zsum", one).values)
    assert z_scores(np.zeros(3)).tolist() == [0, 0, 0]
    assert mid_ranks(np.zeros(3)).tolist() == [2, 2, 2]


def test_a_text_that_one_method_does_not_score_is_unscored_and_takes_no_part():
    one, other = [1.0, 2, 3, 5, 9, 4], [0.0, "too long", 3, 1, 1, "lost"]
    found = total("zsum", one, other)
    assert [row.status for row in found] == ["ok", "unscored", "ok", "ok", "ok", "unscored"]
    assert found[1].reason == "m1: too long"
    alone = total("zsum", [1.0, 3, 5, 9], [0.0, 3, 1, 1], contexts=["c", "c", "d", "d"])
    assert found.values[[0, 2, 3, 4]] == pytest.approx(alone.values)
    both = total("ranksum", ["empty", *one[1:]], ["short", *other[1:]])
    assert both[0].reason == "m0: empty; m1: short"


def test_where_nothing_is_scored_by_all_there_is_an_error_with_the_reasons():
    with pytest.raises(MethodError, match="any of the 6 texts"):
        total("zsum", ["too long", 1.0, "too long", 1, 1, 1], [1.0, "lost", 1, "lost", "lost", "lost"])


def test_specs_make_sums_with_weights_inside_sums():
    made = ratings()
    found = method("zsum(2*length, -0.5*random:seed=3,ranksum(length,constant))")(made, "fluency", Tools())
    rows = np.array([method("random:seed=3")(made, "fluency", Tools()).values[list(rows)] for rows in [(0, 1, 2)]])
    assert found.values[:3] == pytest.approx(-0.5 * z_scores(rows[0]))  # all texts are of one length
    parts = dict(found.signature.parts)
    assert parts["method"] == "zsum(2*length,-0.5*random:seed=3,ranksum(length,constant))"
    assert (parts["1.words"], parts["2.seed"], parts["3.1.words"]) == ("letters", "3", "letters")
    assert [key for key, _ in found.signature.parts].count("synthscore") == 1
    assert Signature.parse(str(found.signature)) == found.signature


def test_a_sum_of_nothing_or_of_an_unknown_kind_is_refused():
    with pytest.raises(MethodError, match="expected one of zsum, ranksum"):
        method("product(length)")
    with pytest.raises(MethodError, match="a name is empty"):
        method("zsum()")
    with pytest.raises(MethodError, match="there is no method 'lenght'"):
        method("zsum(2*lenght)")


# ------------------------------------------------------------------------------------------------ columns


def saved(path, rows):
    write_rows(rows, path)
    return path


def said(path, attribute="fluency", options="", made=None):
    return method(f"file:{path}{options}")(made or ratings(), attribute, Tools())


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet", ".jsonl.gz"])
def test_a_column_is_found_by_id_or_by_context_and_system(tmp_path, suffix):
    made = ratings(("c", "c", "d"))
    by_id = saved(tmp_path / f"a{suffix}", [{"id": f"t{i}", "score": i / 2} for i in (2, 0, 1)])
    assert said(by_id, made=made).values.tolist() == [0, 0.5, 1]
    rows = [{"context_id": c, "system": f"s{i}", "score": i / 2} for i, c in enumerate("ccd")]
    assert said(saved(tmp_path / f"b{suffix}", rows), made=made).values.tolist() == [0, 0.5, 1]


def test_what_synthscore_score_writes_is_a_column_with_its_signature(tmp_path):
    signature = Signature.of(synthscore="0.1", model="nano@1", protocol="compare")
    scores = [Score(f"t{i}", CONTEXTS[i], "fluency", float(i)) for i in range(5)]
    scores.append(Score("t5", "e", "fluency", None, status="unscored", reason="too long"))
    found = said(saved(tmp_path / "scores.jsonl", [score_row(score, signature) for score in scores]))
    assert found.values[:5].tolist() == [0, 1, 2, 3, 4]
    assert found[5].reason == "too long"
    assert dict(found.signature.parts)["file.model"] == "nano@1"
    assert Signature.parse(str(found.signature)) == found.signature


def test_columns_of_other_names_are_named_in_the_spec(tmp_path):
    path = saved(tmp_path / "a.jsonl", [{"doc": f"t{i}", "score": "high", "align": i} for i in range(6)])
    found = said(path, options=":score=align,id=doc")
    assert found.values.tolist() == [0, 1, 2, 3, 4, 5]
    assert dict(found.signature.parts)["score"] == "align"
    sums = method(f"zsum(-1*file:{path}:score=align,id=doc,constant)")(ratings(), "fluency", Tools())
    assert sums.values[0] > sums.values[2]
    for options in (":mark=align", ":score=", ":score=a,score=b"):
        with pytest.raises(MethodError, match="each once, out of: score, id, context_id, system, attribute"):
            said(path, options=options)


def test_rows_without_an_attribute_count_on_every_one_and_others_on_their_own(tmp_path):
    every = saved(tmp_path / "a.jsonl", [{"id": f"t{i}", "score": i} for i in range(6)])
    assert said(every, "fluency").values.tolist() == said(every, "coherence").values.tolist()
    rows = [{"id": f"t{i}", "score": i, "attribute": "fluency"} for i in range(6)]
    own = saved(tmp_path / "b.jsonl", rows)
    assert said(own, "fluency").values.tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(MethodError, match="holds no scores on coherence, only on fluency"):
        said(own, "coherence")


def test_what_does_not_match_is_unscored_and_counted_in_the_reason(tmp_path):
    path = tmp_path / "a.jsonl"
    rows = [{"id": "t0", "score": 1}, {"id": "t1", "score": None}, {"id": "other", "score": 3}, {"id": "t3"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + "not json\n")
    found = said(path)
    assert [row.value for row in found] == [1, None, None, None, None, None]
    assert found[1].reason == "no score"
    assert "it has no row of scores; 1 scores of texts that nobody rated: row 3, other" in found[2].reason
    assert "2 rows that hold no score, such as: " in found[2].reason


def test_two_scores_of_one_text_are_an_error_that_names_both_rows(tmp_path):
    path = saved(tmp_path / "a.jsonl", [{"id": f"t{i}", "score": i} for i in (0, 1, 0)])
    with pytest.raises(InputError, match=r"row 3: .*'t0' .* after row 1"):
        said(path)


def test_a_file_that_is_not_there_or_about_other_texts_says_so(tmp_path):
    with pytest.raises(MethodError, match="there is no file"):
        method(f"file:{tmp_path / 'none.jsonl'}")
    path = saved(tmp_path / "a.jsonl", [{"id": "x", "score": 1}])
    with pytest.raises(InputError, match="no score is about a text of made up"):
        said(path)


def test_a_changed_file_has_another_signature(tmp_path):
    path = saved(tmp_path / "a.jsonl", [{"id": f"t{i}", "score": i} for i in range(6)])
    before = said(path).signature
    assert said(path).signature == before
    saved(path, [{"id": f"t{i}", "score": i + 1} for i in range(6)])
    assert said(path).signature != before
