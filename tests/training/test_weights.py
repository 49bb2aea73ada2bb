"""What was written by hand, and the weights of counts that are fitted on it and on damage."""

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from synthscore.engines.counts import COUNTS
from synthscore.judging.templates import load_task, task_names
from tests.models import word_piece
from training.groups import Group
from training.weights import differences, fitted, of_attributes
from training.written import (
    curated,
    false_words,
    severity,
    with_copied,
    with_foreign,
    with_invented,
    with_salad,
    written_rows,
)

FACTS = [json.loads(line) for line in (Path(__file__).parents[1] / "data" / "facts.jsonl").read_text().splitlines()]
CONTEXT = "The storm closed the harbour on Monday. Forty boats stayed."
TEXTS = ("The storm closed the harbour.", "A mayor sank.")
GROUP = Group("summarization", "consistency", CONTEXT, "", TEXTS, (0.0, 1.0), ("", ""))


def words(text):
    return re.findall(r"\w+", text.lower())


def test_weights_put_the_better_texts_first_and_turn_round_with_them():
    rng = np.random.default_rng(0)
    truth = np.array([2.0, -1.0, 0.0])
    rows = rng.normal(size=(2000, 3))
    rows *= np.where(rng.random(2000) < 1 / (1 + np.exp(-rows @ truth)), 1, -1)[:, None]
    found = fitted(rows, np.ones(2000), ridge=1e-6)
    np.testing.assert_allclose(found, truth, atol=0.25)
    np.testing.assert_allclose(fitted(-rows, np.ones(2000), ridge=1e-6), -found, atol=1e-3)


def test_differences_are_of_the_better_text_from_the_worse():
    rows, weights = differences([GROUP], word_piece())
    assert rows.shape == (1, len(COUNTS))
    assert rows[0, COUNTS.index("pairs held")] > 0
    assert weights.tolist() == [1.3]


def test_each_attribute_has_its_weights_under_the_words_that_a_question_begins_with():
    (found,) = of_attributes([GROUP], [GROUP], word_piece())
    assert found["begins"].startswith("Consistency: everything that is stated")
    assert found["worse"] == load_task("summarization").attribute("consistency").worse
    assert len(found["weights"]) == len(COUNTS)
    assert found["weights"][COUNTS.index("pairs held")] > 0


def test_no_two_attributes_begin_alike():
    every = [f"{one.title}: {one.description}" for name in task_names() for one in load_task(name).attributes.values()]
    assert not [(a, b) for a, b in pairwise(sorted(every)) if b.startswith(a)]


def test_salad_is_words_of_the_context_and_the_worst_of_all():
    made = with_salad(GROUP, np.random.default_rng(0))
    assert set(made.texts[-1].split()) <= set(CONTEXT.split())
    assert (len(made.texts), made.severities[-1], made.kinds[-1]) == (3, 1.0, "salad")


def test_a_copied_sentence_is_of_the_context_stands_by_itself_and_is_true():
    alone = "Three boats left the harbour of Skarvik on the morning of the storm, and two came back."
    group = replace(GROUP, context=f"{alone} It was said that none of their crews had looked at the forecast that day.")
    made = with_copied(group, np.random.default_rng(0))
    assert (made.texts[-1], made.severities[-1], made.kinds[-1]) == (alone, 0.0, "copied")
    assert with_copied(GROUP, np.random.default_rng(0)) == GROUP  # its sentences are too short


def test_a_text_of_another_context_is_the_worst_where_the_context_is_asked_about_and_stands_nowhere_else():
    other = replace(GROUP, context="A ferry sank.", texts=("The ferry sank.", "It did not sink."))
    of_fluency = [replace(group, attribute="fluency") for group in (GROUP, other)]
    every = with_foreign([GROUP, other] * 50 + of_fluency * 50, np.random.default_rng(0))
    added = {(group.attribute, group.texts[2:], group.severities[2:]) for group in every}
    assert added == {
        ("consistency", (), ()),
        ("consistency", (GROUP.texts[0],), (1.0,)),
        ("consistency", (other.texts[0],), (1.0,)),
        ("fluency", (), ()),
    }
    assert all(group.texts[2:] != group.texts[:1] for group in every)


def test_a_false_statement_is_false_where_it_differs_from_the_true_one_before():
    texts = (
        "Ada sued Bo in May.",
        "Ada sued Cy in June.",
        "Nobody went to court.",
        "It rained.",
        "The sun shone all day.",
    )
    group = Group("summarization", "consistency", CONTEXT, "", texts, (0.0, 0.75, 0.75, 0.0, 0.75), ("",) * 5)
    changed = (False, False, True, False, True)
    assert false_words(group) == ((False,) * 5, changed, None, (False,) * 2, None)


def test_what_is_said_nowhere_is_another_name_or_number_where_truth_is_asked_about():
    texts = ("In Skarvik the storm closed Harbour House for 40 days.", "It closed nothing.")
    group = replace(GROUP, context="The storm in Skarvik closed Harbour House for 40 days.", texts=texts)
    other = replace(group, context="A ferry of the Oslo line sank near Bergen in 1911.", attribute="fluency")
    every = with_invented([group, other] * 30, np.random.default_rng(0))
    assert {made for made in every if made.attribute == "fluency"} == {other}
    added = {made for made in every if len(made.texts) == 3}
    assert 5 < len([made for made in every if made in added]) < 25
    assert any({"Oslo", "Bergen"} & set(made.texts[2].split()) for made in added)
    assert any("40" not in made.texts[2] for made in added)
    for made in added:
        false = [word for word, is_false in zip(made.texts[2].split(), made.damaged[2], strict=True) if is_false]
        assert false
        assert not set(false) & set(texts[0].split())
        assert (made.severities[2], made.kinds[2], made.damaged[:2]) == (0.75, "invented", (None, None))


def test_written_groups_are_of_known_attributes_have_good_texts_and_are_of_no_test_context():
    rows = written_rows()
    kept = {group.context for group in curated("test")}
    for row in rows:
        for attribute in [row["attribute"]] if "attribute" in row else row["texts"][0]["ratings"]:
            load_task(row["task"]).attribute(attribute)
            severities = [severity(text, attribute) for text in row["texts"]]
            assert 0 <= min(severities) <= max(severities) <= 1
            assert "ratings" in row["texts"][0] or min(severities) == 0 < max(severities)
        assert row.get("context", {}).get("context") not in kept
    assert len(rows) > 500


def test_curated_ladders_go_from_all_damage_to_none():
    groups = list(curated("train"))
    assert len(groups) > 100
    assert all(group.severities == (1.0, 0.75, 0.5, 0.25, 0.0) for group in groups)


@pytest.mark.parametrize("row", FACTS, ids=lambda row: row["id"])
def test_of_true_and_false_summaries_length_and_copied_words_tell_nothing(row):
    """A false one says what the article does not, in nearly the words of the true one, which copies no long run."""
    source = " ".join(words(row["document"]))
    assert len(row["pairs"]) == 3
    assert row["document"].startswith(row["copied"])
    for pair in row["pairs"]:
        true, false = words(pair["true"]), words(pair["false"])
        assert true != false
        assert abs(len(true) - len(false)) <= 3
        assert not [at for at in range(len(true) - 7) if " ".join(true[at : at + 8]) in source]
