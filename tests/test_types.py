"""The plain types: a signature and its line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthscore.errors import InputError
from synthscore.signature import Signature
from synthscore.types import context_key, grouped, same_context


@given(st.text(" \n\tab"), st.text(" \n\tab"))
def test_two_texts_are_of_one_context_where_their_words_are_the_same(one, other):
    assert same_context(one, other) == (one.split() == other.split())
    assert same_context(one, other) == (context_key(one) == context_key(other))


VALUES = st.text(st.sampled_from("|%:7C25 a"), max_size=8)


@given(st.dictionaries(st.sampled_from(("model", "system", "task")), VALUES, min_size=1))
def test_a_signature_can_be_read_from_its_line(parts):
    signature = Signature.of(**parts)
    assert Signature.parse(str(signature)) == signature
    assert str(signature).count("|") == len(parts) - 1


def test_a_line_is_its_parts():
    assert str(Signature.of(model="nano@1f2e", dtype="float32")) == "model:nano@1f2e|dtype:float32"
    assert str(Signature.of(model="a|b", share="5%")) == "model:a%7Cb|share:5%25"
    assert Signature.of_any("model:a%7Cb|odd").parts == (("model", "a|b"), ("odd", ""))


@pytest.mark.parametrize("line", ["", "model", "model:a|", ":a"])
def test_what_is_no_signature_is_named(line):
    with pytest.raises(InputError, match="cannot read the signature"):
        Signature.parse(line)


def test_values_are_grouped_in_the_order_in_which_keys_and_values_come():
    found = grouped([("b", 1), ("a", 2), ("b", 3)])
    assert list(found.items()) == [("b", [1, 3]), ("a", [2])]
    assert grouped([]) == {}
