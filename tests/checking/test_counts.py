"""What counts of characters and words know of the order of rungs."""

import math

import pytest

from synthscore.checking.counts import count_quality, surface_counts
from synthscore.ladders.references import References
from synthscore.resources import resource
from tests import factories


def test_what_is_counted_of_a_text():
    counts = surface_counts(
        'Anna\'s 3 cats sleep; the dog, too. Do they? She said "No" 9 times!', "The dog and the cats of Anna: 3 cats"
    )
    words = ["anna", "s", "3", "cats", "sleep", "the", "dog", "too", "do", "they", "she", "said", "no", "9", "times"]
    n = len(words)
    assert counts["words"] == n
    assert counts["letters a word"] == pytest.approx(sum(map(len, words)) / n)
    assert counts["different words"] == 1
    assert counts["repeated pairs"] == 0
    assert counts["pairs of the source"] == pytest.approx(2 / 14)  # "3 cats", "the dog"
    assert counts["longest copied run"] == pytest.approx(1 / n)
    assert counts["content words of the source"] == pytest.approx(4 / 8)  # anna 3 cats dog; not sleep said 9 times
    assert counts["numbers"] == pytest.approx(2 / n)
    assert counts["numbers that the source lacks"] == pytest.approx(1 / n)
    assert counts["function words"] == pytest.approx(7 / n)
    assert counts["pronouns"] == pytest.approx(2 / n)
    assert counts["capitals"] == pytest.approx(4 / n)
    assert (counts["sentences"], counts["words a sentence"]) == (3, 5)
    assert counts["spread of sentences"] == pytest.approx(math.sqrt((9 + 9 + 0) / 3))
    for marks in ("commas", "; and :", "question marks", "exclamation marks", "apostrophes"):
        assert counts[marks] == pytest.approx(1 / n), marks
    assert counts["quotes"] == pytest.approx(2 / n)
    assert all(math.isfinite(value) for value in surface_counts("?!", "").values())


def ladders(n=3, longer=True):
    """Whose better rungs are longer, or shorter."""
    texts = ["One word.", "One word and another.", "One word and another, and then the last of all words."]
    return [
        factories.ladder(f"c{place}", n=3, texts=[f"{text} {place}" for text in texts[:: 1 if longer else -1]])
        for place in range(n)
    ]


@pytest.mark.parametrize("longer", [True, False])
def test_what_orders_the_ladders_of_other_contexts_is_expected_of_a_context(longer):
    for levels in count_quality(ladders(longer=longer)):
        assert levels[1] < levels[2] < levels[3]


def test_a_ladder_is_not_weighed_by_itself_nor_by_another_of_its_context():
    usual, (turned, *_) = ladders(), ladders(longer=False)
    for together in ([turned, *usual[1:]], [turned, turned, *usual[1:]]):
        levels = count_quality(together)[0]
        assert levels[1] > levels[2] > levels[3], "as the others are ordered, not as it is"


def test_of_one_context_nothing_can_be_learnt():
    assert all(math.isnan(value) for levels in count_quality(ladders(1)) for value in levels.values())


def test_counts_order_the_curated_ladders_where_they_are_known_to_and_not_where_facts_decide():
    """Naturalness: apostrophes and length of words; semantics: what is said of the triples."""
    share = {}
    for task, attribute in (("dialogue", "naturalness"), ("story", "complexity"), ("data_to_text", "grammar")):
        chosen = list(
            References.load(resource(f"data/references/curated/{task}/test.parquet")).filter(attribute=attribute)
        )
        right = [
            levels[high] > levels[low]
            for levels in count_quality(chosen)
            for low in levels
            for high in levels
            if low < high
        ]
        share[attribute] = sum(right) / len(right)
    assert share["naturalness"] > 0.75
    assert share["complexity"] > 0.85
    assert 0.4 < share["grammar"] < 0.75
