"""What is counted of a text beside its source, and how far counts lean to one of two texts."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscore.engines.counts import CONTENT, COUNTS, FUNCTION, NONE, NUMBER, Counted, SourceText, Vocabulary
from tests.models import word_piece

VOCABULARY = Vocabulary(np.array([NONE, FUNCTION, NUMBER, NUMBER, *[CONTENT] * 26], dtype=np.uint8), frozenset({0}))
STOP, THE, ONE, TWO, A, B, C, D, E, X, Y = range(11)
WORDS = st.lists(st.integers(1, 9), max_size=20)


def counted(text, source):
    return dict(
        zip(
            COUNTS,
            SourceText(np.array(source, dtype=np.int64), VOCABULARY).counts(np.array(text, dtype=np.int64)),
            strict=True,
        )
    )


def test_counts_of_a_text_that_was_worked_out_by_hand():
    found = counted([A, B, THE, X, TWO, D, E, STOP], [A, B, THE, C, ONE, STOP, D, E])
    assert found == pytest.approx(
        {
            "pairs held": 3 / 6,  # a b, b the, d e
            "content held": 4 / 6,  # a b d e of a b x two d e
            "copied span": 3 / 7,
            "longest run": np.log(4),
            "density of runs": np.log(1 + (9 + 4) / 7),
            "unsupported numbers": 1 / 7,
            "order of runs": 1.0,
            "repeated pairs": 0.0,
            "length": np.log(7),
            "closed": 1.0,
            "pairs of the end": 3 / 6,
            "place of runs": (0 + 5) / 2 / 7,
            "pairs apart": 0.0,
        }
    )


def test_a_copy_holds_everything_and_a_copy_in_another_order_goes_back():
    source = [A, B, C, STOP, D, E, X]
    copy, turned = counted(source, source), counted([D, E, X, A, B, C], source)
    assert copy["pairs held"] == copy["content held"] == copy["copied span"] == 1
    assert turned["order of runs"] == 0
    assert turned["copied span"] == 0.5
    assert turned["closed"] == 0
    assert turned["pairs apart"] == 1 / 5  # x a
    assert counted([A, E, B, D], source)["pairs apart"] == 1


@given(WORDS, WORDS)
def test_runs_are_as_long_as_can_be_and_lie_where_they_say(words, source):
    held = SourceText(np.array(source, dtype=np.int64), VOCABULARY)
    at, covered = 0, 0
    for size, place in held.runs(words):
        while words[at : at + size] != source[place : place + size]:
            at += 1  # to where the run begins
        assert size >= 2
        longer = words[at : at + size + 1]
        assert len(longer) == size or all(source[p : p + size + 1] != longer for p in range(len(source)))
        at += size
        covered += size
    assert covered >= 2 * any(pair in set(pairwise(source)) for pair in pairwise(words))


@given(WORDS, WORDS)
def test_counts_are_numbers_whatever_the_texts(words, source):
    assert np.isfinite(list(counted(words, source).values())).all()


def test_time_does_not_grow_with_the_square_of_a_monotonous_source():
    found = SourceText(np.array([A] * 20_000), VOCABULARY)
    assert max(map(len, found.places.values())) <= 50
    assert found.runs([A] * 20_000)[0] == (20_000, 0)


def test_kinds_of_words_come_from_the_tokenizer():
    tokenizer = word_piece()
    found = Vocabulary.of(tokenizer)
    kinds = {
        token: found.kinds[tokenizer.convert_tokens_to_ids(token)] for token in ("the", "storm", "##men", "2", ".")
    }
    assert kinds == {"the": FUNCTION, "storm": CONTENT, "##men": CONTENT, "2": NUMBER, ".": NONE}
    assert tokenizer.convert_tokens_to_ids(".") in found.closing


def test_weights_are_of_the_attribute_that_is_asked_about_and_turn_with_the_question():
    tokenizer = word_piece()
    weights = [float(n) for n in range(len(COUNTS))]
    counts = Counted([{"begins": "near an island", "worse": "ferry stopped", "weights": weights}], tokenizer)

    def of(text):
        found = counts.weights(np.array(tokenizer(text, add_special_tokens=False)["input_ids"]))
        return None if found is None else found.tolist()

    assert of("near an island. A ferry") == weights
    assert of("near an island. Ferry stopped?") == [-weight for weight in weights]
    assert of("A ferry near an island") is None
