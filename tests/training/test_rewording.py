"""Edits that keep meaning and quality, and the looks of a text."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthscore.degrade.edits import Material
from synthscore.degrade.reading import names
from tests.degrade.test_damage import ARTICLE, REPLY, SEEDS, STORY, SUMMARY, VERBALISED
from training.phrases import SURFACES, surface
from training.rewording import EDITS, preserve_path


def preserve(text, rng, n):
    return [text, *(step.text for step in preserve_path(text, rng, n))][-1]


KEPT = {  # edit: text, all outcomes there can be
    "contraction": ("It is not cold, and they are here now.", {"It's not cold, and they are here now.",
                    "It is not cold, and they're here now."}),
    "expansion": ("We can't see it.", {"We cannot see it."}),
    "synonym": ("She bought an automobile.", {"She bought a car."}),
    "second-synonym": ("Due to rain, we left.", {"Because of rain, we left."}),
    "spelling": ("The colour faded.", {"The color faded."}),
    "number-form": ("He ate three apples.", {"He ate 3 apples."}),
    "speaking-verb": ("He said that it rained.", {"He stated that it rained."}),
    "optional-that": ("He said that she was ill.", {"He said she was ill."}),
    "moved-adverbial": ("In 1990, the hall closed for repairs.", {"The hall closed for repairs in 1990."}),
    "which-that": ("He read the letter that was lost.", {"He read the letter which was lost."}),
    "list-order": ("They met Ann Lee and Bob Ray.", {"They met Bob Ray and Ann Lee."}),
    "punctuation": ("He ate figs, plums, pears and nuts.", {"He ate figs, plums, pears, and nuts."}),
}  # fmt: skip


def test_each_kind_of_preserving_edit_has_a_worked_example():
    assert set(KEPT) == set(EDITS)


@pytest.mark.parametrize("kind", list(KEPT))
def test_an_edit_that_keeps_the_meaning_does_what_its_name_says(kind):
    text, expected = KEPT[kind]
    assert {EDITS[kind](text, np.random.default_rng(seed), Material()) for seed in range(20)} == expected


@pytest.mark.parametrize(
    "text",
    [
        "Black and White Films bought it.",  # a name stays a name
        "In 1990, he said that the mayor of the town that was hit had left.",  # clauses would attach elsewhere
        '"Give me this!" said the old man.',
        "Yes, it is.",
    ],
)
def test_what_is_not_safe_is_left_alone(text):
    safe = (
        ("town that", "town which"),
        ("that the", "the"),
        ("said that", "stated that"),
        ("!", "."),
        ("1990,", "1990"),
    )
    allowed = {text, *(text.replace(old, new) for old, new in safe)}
    assert {preserve(text, np.random.default_rng(seed), 1) for seed in range(30)} <= allowed


_NUMBER_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def _numbers(text):
    words = (str(_NUMBER_WORDS.index(word) + 2) if word in _NUMBER_WORDS else word for word in re.findall(r"\w+", text))
    return sorted(word for word in words if word.isdigit())


@given(st.sampled_from([ARTICLE, SUMMARY, STORY, REPLY, VERBALISED]), SEEDS, st.integers(0, 6))
@settings(max_examples=60)
def test_preserving_edits_keep_numbers_and_names(text, seed, n):
    made = preserve(text, np.random.default_rng(seed), n)
    assert _numbers(made) == _numbers(text)
    assert sorted(name.text for name in names(made)) == sorted(name.text for name in names(text))
    assert made == preserve(text, np.random.default_rng(seed), n)
    assert abs(len(made.split()) - len(text.split())) <= 4 * n


# ------------------------------------------------------------------------------------------------- looks


def test_a_look_is_raw_lower_or_that_of_benchmarks():
    text = 'He can\'t pay $2.5 million (now), said "Bob" of the U.S. Army.'
    assert surface(text, "raw") == text
    assert surface(text, "lower") == text.lower()
    assert surface(text, "ptb-cased").startswith("He ca n't")


@given(st.sampled_from([ARTICLE, SUMMARY, STORY, REPLY]), st.sampled_from(SURFACES))
def test_a_look_changes_no_word(text, style):
    def letters(shown):
        return re.sub(r"[^a-z0-9]", "", shown.lower())

    assert letters(surface(text, style)) == letters(text)
