"""A user's own ratings, in all the ways in which rows can hold them, and scores joined to them."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.errors import InputError
from synthscore.evaluation.join import join
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.io.scores import score_row
from synthscore.io.write import write_rows
from synthscore.signature import Signature
from synthscore.types import Score

RATED = [
    {"context_id": "c1", "system": "a", "text": "One.", "human": {"coherence": [4, 5, 5], "fluency": 3}},
    {"context_id": "c1", "system": "b", "text": "", "human": {"coherence": 2.5, "fluency": None}},
]


# ------------------------------------------------------------------------------------------------- reading


def test_an_object_of_ratings_is_read_with_means_that_are_not_rounded():
    ratings = Ratings.load(RATED)
    assert [text.id for text in ratings] == ["c1/a", "c1/b"]
    assert ratings.attributes == ("coherence", "fluency")
    assert ratings.texts[0].human == {"coherence": 14 / 3, "fluency": 3.0}
    assert ratings.texts[0].annotators == {"coherence": (4.0, 5.0, 5.0)}
    assert ratings.texts[1].text == ""
    np.testing.assert_array_equal(ratings.human("fluency"), [3.0, np.nan])
    assert ratings.left_out == ("1 texts: not rated on fluency",)


def test_some_contexts_are_a_part_that_says_so_and_all_are_the_ratings_themselves():
    rows = [{"context_id": f"c{k}", "system": "a", "text": "One.", "human": {"fluency": k}} for k in range(4)]
    ratings = Ratings.load(rows)
    assert {id(ratings.limited(4)), id(ratings.limited(None))} == {id(ratings)}
    some = ratings.limited(3)
    assert len(some.texts) == 3
    assert some.source == f"{ratings.source}, 3 of 4 contexts"


@pytest.mark.parametrize("end", [".jsonl", ".csv", ".parquet"])
@pytest.mark.parametrize("column", ["human.{}", "human_{}"])
def test_columns_of_ratings_read_as_the_object_does(tmp_path, end, column):
    file = tmp_path / f"mine{end}"
    rows = [
        {
            **{name: row[name] for name in ("context_id", "system", "text")},
            **{
                column.format(name): value and (json.dumps(value) if end == ".csv" else np.mean(value))
                for name, value in row["human"].items()
            },
        }
        for row in RATED
    ]
    write_rows(rows, file)
    ratings, expected = Ratings.load(file), Ratings.load(RATED)
    assert ratings.name == "mine"
    assert [text.human for text in ratings] == [text.human for text in expected]
    assert ratings.source.startswith(f"mine{end}@")


def test_long_rows_read_as_wide_ones_do():
    long = [
        {**{name: row[name] for name in ("context_id", "system", "text")}, "attribute": name, "human": value}
        for row in RATED
        for name, value in row["human"].items()
    ]
    assert Ratings.load(long).texts == Ratings.load(RATED).texts
    assert Ratings.load(long).source == Ratings.load(RATED).source


def test_long_rows_may_hold_the_text_once():
    rows = [
        {"id": "1", "attribute": "fluency", "human": 1},
        {"id": "1", "attribute": "coherence", "human": 2, "text": "One."},
    ]
    assert Ratings.load(rows).texts == (RatedText("1", "", "", "One.", {"fluency": 1.0, "coherence": 2.0}),)


def test_a_single_column_needs_to_be_told_its_attribute():
    rows = [{"id": "1", "human": 3}]
    assert Ratings.load(rows, attribute="overall").texts[0].human == {"overall": 3.0}
    with pytest.raises(InputError, match="nothing says of which attribute"):
        Ratings.load(rows)


def test_columns_go_by_the_names_that_are_said():
    rows = [{"item": "1", "expert": 3, "score": 0.2}]
    ratings = Ratings.load(rows, fields={"id": "item", "human.coherence": "expert"})
    assert ratings.texts[0].id == "1"
    assert ratings.texts[0].human == {"coherence": 3.0}


def test_scores_in_the_same_file_are_no_ratings():
    (text,) = Ratings.load([{"id": "1", "human": {"coherence": 3}, "score": 5, "coherence": 1, "reason": "x"}])
    assert text.human == {"coherence": 3.0}
    with pytest.raises(InputError, match="there is no 'human'"):
        Ratings.load([{"id": "1", "score": 5, "coherence": 1}])


def test_ratings_of_single_people_may_lie_beside_their_mean():
    row = {"id": "1", "human": {"coherence": 3.6666666667}, "human_raw": {"coherence": [3, 4, 4], "fluency": [1, None]}}
    ratings = Ratings.load([row])
    assert ratings.texts[0].human == {"coherence": 11 / 3, "fluency": 1.0}
    assert ratings.texts[0].annotators["fluency"] == (1.0,)


def test_a_mean_that_is_not_that_of_its_ratings_is_an_error():
    rows = [{"id": "1", "human": {"c": 3.5}, "human_raw": {"c": [3, 3]}}, {"id": "2", "human": {"c": 1}}]
    ratings = Ratings.load(rows)
    assert [text.id for text in ratings] == ["2"]
    assert "c is 3.5, but the mean of [3.0, 3.0] is 3" in ratings.left_out[0]


def test_contexts_come_along():
    row = {"context_id": "c", "context": "Article.", "references": ["R."], "facts": "F.", "system": "a", "human.c": 1}
    context = Ratings.load([row]).contexts["c"]
    assert (context.text, context.references, context.facts) == ("Article.", ("R.",), "F.")
    other = row | {"system": "b", "context": "Another."}
    assert "context 'c' has another text" in Ratings.load([row, other]).left_out[0]


def test_rows_of_a_context_may_name_references_of_their_own(tmp_path):
    row = {"context_id": "c", "context": "Article.", "text": "T.", "human.c": 1}
    named = {"person": [], "other": ["P.", "Q."], "model": ["P."], "silent": None}
    ratings = Ratings.load([row | {"system": name, "references": own} for name, own in named.items()])
    ratings.save(tmp_path / "ratings.jsonl")
    for each in (ratings, Ratings.load(tmp_path / "ratings.jsonl")):
        assert not each.left_out
        assert each.contexts["c"].references == ("P.", "Q.")
        assert [each.references(text) for text in each] == [(), ("P.", "Q."), ("P.",), ("P.", "Q.")]


@pytest.mark.parametrize("value", [3, {"a": "b"}, None, " ", "\ud800"])
def test_a_rated_text_that_cannot_be_read_stays_with_the_reason_why_it_cannot_be_judged(value):
    (text,) = Ratings.load([{"id": "1", "text": value, "human": {"c": 1}}])
    assert text.text == ""
    assert text.fault.startswith(("text is ", "text holds half a surrogate pair"))
    (mended,) = Ratings.load(
        [{"id": "1", "text": value, "human": {"c": 1}}, {"id": "1", "text": "A text.", "human": {"d": 2}}]
    )
    assert (mended.text, mended.fault) == ("A text.", "")


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"human": {"c": 1}}, "nothing says which text"),
        ({"context_id": "c", "human": {"c": 1}}, "nothing says which text"),
        ({"id": "1", "human": {"c": "good"}}, "c is 'good', expected a number"),
        ({"id": "1", "human": {"c": True}}, "c is True, expected a number"),
        ({"id": "1", "human": {"c": math.inf}}, "c is inf, expected a number"),
        ({"id": "1", "human": {"c": [1, "x"]}}, "c is 'x', expected a number"),
        ({"id": "1", "human": {"c": 1}, "human.c": 1}, "c is in 'human' and in a column of its own"),
        ({"id": "1", "human_raw": "x"}, "human_raw is 'x'"),
    ],
)
def test_a_broken_row_is_counted_with_its_reason_and_the_others_are_read(row, said):
    ratings = Ratings.load([{"id": "good", "human": {"c": 5}}, row])
    assert [text.id for text in ratings] == ["good"]
    (line,) = ratings.left_out
    assert line.startswith("1 of 2 rows (")
    assert "row 2" in line
    assert said in line


def test_broken_rows_are_grouped_by_what_is_wrong():
    rows = [{"id": str(k), "human": {"c": "x" if k else 1}} for k in range(4)]
    assert Ratings.load([*rows, {"human": {"c": 1}}]).left_out == (
        "3 of 5 rows (human): rows row 2: c is 'x', expected a number, or a list of numbers. Mend it, or write null "
        "where nobody rated",
        "1 of 5 rows (id): rows row 5: nothing says which text it is about: its columns are 'human'. Add id, or "
        "context_id and system, or name their columns: --field id=COLUMN",
    )


def test_the_source_changes_with_every_text_and_rating():
    row = {"id": "1", "context_id": "c", "system": "s", "text": "T.", "human": {"c": [1, 2]}}
    changes = ({}, {"id": "2"}, {"context_id": "d"}, {"system": "t"}, {"text": "U."}, {"human": {"c": [0, 3]}})
    assert len({Ratings.load([row | change]).source for change in (*changes, {"human": {"d": [1, 2]}})}) == 7


def test_texts_that_nobody_rated_are_left_out_and_named():
    ratings = Ratings.load([{"id": "1", "human": {"c": None}}, {"id": "2", "human": {"c": 1}}])
    assert [text.id for text in ratings] == ["2"]
    assert ratings.left_out == ("1 texts: nobody rated them, such as '1'",)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"id": "1", "human": {"c": 2}}, "rated on c a second time, after row 1"),
        ({"id": "1", "text": "Other.", "human": {"d": 2}}, "has another text, context or system in row 1"),
        ({"id": "1", "context_id": "c2", "human": {"d": 2}}, "has another text, context or system in row 1"),
    ],
)
def test_a_second_row_of_a_text_that_contradicts_the_first_is_an_error(second, said):
    with pytest.raises(InputError, match=said) as caught:
        Ratings.load([{"id": "1", "text": "One.", "human": {"c": 1}}, second])
    assert caught.value.row == 2


def test_a_source_without_ratings_is_an_error():
    with pytest.raises(InputError, match="holds no ratings"):
        Ratings.load([])
    with pytest.raises(InputError, match="the first row that has none says"):
        Ratings.load([{"id": "1", "text": "One."}])


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=5), min_size=1, max_size=8))
def test_the_mean_is_that_of_the_list(lists):
    ratings = Ratings.load([{"id": str(k), "human": {"c": values}} for k, values in enumerate(lists)])
    assert ratings.human("c").tolist() == [sum(values) / len(values) for values in lists]
    assert [list(text.annotators["c"]) for text in ratings] == lists


# ------------------------------------------------------------------------------------------------- joining

SIGNATURE = Signature.of(synthscore="0", model="fake")


def ratings_of(*ids, attributes=("coherence",), asked_as=None):
    texts = tuple(RatedText(id_, *id_.split("/"), "T.", dict.fromkeys(attributes, 1.0)) for id_ in ids)
    return Ratings("mine", texts, attributes, asked_as=asked_as or {})


def scored(id_, value, attribute="coherence", reason=""):
    status = "unscored" if value is None else "ok"
    score = Score(id_, id_.split("/")[0], attribute, value, status=status, reason=reason)
    return score_row(score, SIGNATURE)


THREE = ratings_of("c1/a", "c1/b", "c2/a")


def test_scores_are_joined_in_the_order_of_the_texts_and_what_is_not_there_is_named():
    rows = [scored("c2/a", 3.0), scored("c1/a", None, reason="too long"), scored("c9/a", 1.0)]
    joined = join(THREE, rows)
    np.testing.assert_array_equal(joined.scores["coherence"].values, [np.nan, np.nan, 3.0])
    assert [score.reason for score in joined.scores["coherence"]] == ["too long", "it has no row of scores", ""]
    assert joined.unmatched == ("row 3, c9/a/coherence",)
    assert joined.scores["coherence"].signature == SIGNATURE
    assert joined.lines == [
        "coherence: 1 rated texts without a score: c1/b",
        "coherence: 1 unscored: c1/a",
        "1 scores of texts that nobody rated: row 3, c9/a/coherence",
    ]


@pytest.mark.parametrize("end", [".jsonl", ".csv"])
def test_a_file_of_scores_joins_as_its_rows_do(tmp_path, end):
    rows = [scored("c1/a", 1.5), scored("c1/b", None, reason="empty")]
    write_rows(rows, tmp_path / f"scores{end}")
    joined = join(THREE, tmp_path / f"scores{end}")
    np.testing.assert_array_equal(joined.scores["coherence"].values, [1.5, np.nan, np.nan])
    assert joined.scores["coherence"][1].reason == "empty"


def test_a_row_is_matched_by_its_id_or_else_by_context_and_system():
    joined = join(
        THREE,
        [
            {"id": "own-1", "context_id": "c1", "system": "a", "attribute": "coherence", "score": 1},
            {"context_id": "c1", "system": "b", "attribute": "coherence", "score": 2},
            {"id": "c2/a", "attribute": "coherence", "score": 3},
        ],
    )
    assert joined.scores["coherence"].values.tolist() == [1, 2, 3]


def test_an_id_of_another_context_is_another_text():
    ratings = Ratings("mine", (RatedText("1", "c1", "", "T.", {"coherence": 1.0}),), ("coherence",))
    rows = [{"id": "1", "context_id": "c2", "attribute": "coherence", "score": 1}]
    with pytest.raises(InputError, match=r"no score is about a text of mine on one of coherence; there are 1 of other"):
        join(ratings, rows)
    rows.append({"id": "1", "context_id": "c1", "attribute": "coherence", "score": 2})
    assert join(ratings, rows).scores["coherence"].values.tolist() == [2]


def test_a_system_that_wrote_two_texts_for_a_context_identifies_neither():
    texts = tuple(RatedText(id_, "c1", "a", "T.", {"coherence": 1.0}) for id_ in "12")
    rows = [
        {"context_id": "c1", "system": "a", "attribute": "coherence", "score": 9},
        {"id": "2", "attribute": "coherence", "score": 1},
    ]
    joined = join(Ratings("mine", texts, ("coherence",)), rows)
    np.testing.assert_array_equal(joined.scores["coherence"].values, [np.nan, 1])
    assert len(joined.unmatched) == 1


def test_the_tasks_name_of_an_attribute_is_understood_unless_the_ratings_use_it_for_another():
    asked_as = {"informativeness": "relevance", "relevance": "consistency"}
    ratings = ratings_of("c1/a", attributes=("informativeness", "relevance"), asked_as=asked_as)
    joined = join(ratings, [scored("c1/a", 1, "relevance"), scored("c1/a", 2, "informativeness")])
    assert {name: scores.values.tolist() for name, scores in joined.scores.items()} == {
        "informativeness": [2],
        "relevance": [1],
    }
    assert join(ratings, [scored("c1/a", 1, "consistency")]).scores["relevance"].values.tolist() == [1]
    with pytest.raises(InputError, match="no score is about"):
        join(ratings_of("c1/a"), [scored("c1/a", 1, "fluency")])
    two = ratings_of("c1/a", attributes=("one", "other"), asked_as={"one": "fluency", "other": "fluency"})
    with pytest.raises(InputError, match="no score is about"):  # of which of the two?
        join(two, [scored("c1/a", 1, "fluency")])


def test_rows_without_an_attribute_are_about_the_one_that_is_said():
    rows = [{"id": "c1/a", "score": 1}, {"id": "c1/b", "score": 2, "attribute": "fluency"}]
    joined = join(THREE, rows, attribute="coherence")
    np.testing.assert_array_equal(joined.scores["coherence"].values, [1, np.nan, np.nan])
    assert joined.unmatched == ("row 2, c1/b/fluency",)


def test_two_scores_of_one_text_are_an_error_that_names_both_rows():
    with pytest.raises(InputError, match=r"row 2: text 'c1/a' has a second score on coherence, after row 1"):
        join(THREE, [scored("c1/a", 1.0), scored("c1/a", 1.0)])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"score": "high"}, "score is 'high'"),
        ({"score": True}, "score is True"),
        ({"score": math.inf}, "score is inf"),
        ({"status": "unscored"}, "status is 'unscored', but score is 1"),
        ({"attribute": None}, "attribute is None"),
        ({"id": None, "context_id": None}, "nothing says which text"),
    ],
)
def test_a_broken_score_is_counted_and_the_others_are_joined(change, said):
    joined = join(THREE, [scored("c1/a", 1.0) | change, scored("c1/b", 2.0)])
    np.testing.assert_array_equal(joined.scores["coherence"].values, [np.nan, 2, np.nan])
    assert said in str(joined.errors[0])
    assert joined.lines[-1].startswith("1 rows that hold no score")


def test_rows_without_a_score_column_are_an_error_that_says_what_was_expected():
    with pytest.raises(InputError, match=r"such as 'c1/a'\. The first row that could not be read says: .*no 'score'"):
        join(THREE, [{"id": "c1/a", "attribute": "coherence", "value": 1}])


@settings(max_examples=30)
@given(st.permutations(["c1/a", "c1/b", "c2/a"]), st.lists(st.floats(-5, 5), min_size=3, max_size=3))
def test_the_order_of_the_rows_does_not_matter(order, values):
    by_id = dict(zip(("c1/a", "c1/b", "c2/a"), values, strict=True))
    joined = join(THREE, [scored(id_, by_id[id_]) for id_ in order])
    assert joined.scores["coherence"].values.tolist() == values
    assert joined.lines == []


def test_a_row_a_rater_is_the_same_as_a_list_of_ratings():
    names = {"context_id": "c", "system": "s", "attribute": "coherence"}
    rows = [{**names, "rater": rater, "human": human} for rater, human in (("ann", 4), ("bob", 2), (3, 3))]
    several = Ratings.load(rows)
    assert several.human("coherence").tolist() == [3.0]
    assert several.texts[0].annotators == {"coherence": (4.0, 2.0, 3.0)}
    assert several.texts == Ratings.load([{**names, "human": [4, 2, 3]}]).texts


def test_the_same_rater_twice_and_a_second_rating_by_nobody_are_refused():
    names = {"context_id": "c", "system": "s", "attribute": "coherence", "human": 4}
    with pytest.raises(InputError, match="a second time by 'ann', after row 1"):
        Ratings.load([{**names, "rater": "ann"}, {**names, "rater": "ann"}])
    for raters in ([{}, {}], [{"rater": "ann"}, {}], [{}, {"rater": "ann"}]):
        with pytest.raises(InputError, match="say who rated: in a column rater"):
            Ratings.load([names | rater for rater in raters])
