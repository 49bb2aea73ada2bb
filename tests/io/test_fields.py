import json
import math
import sys
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest

from synthscore.errors import InputError, LadderError
from synthscore.io.fields import (
    Row,
    check_number,
    id_of_text,
    parse_json,
    read_flag,
    read_id,
    read_item,
    read_names,
    read_number,
    read_text,
    require_column,
    require_number,
    text_fault,
)
from synthscore.types import Context, Rung, Target


def row(value, **more):
    return Row(3, {"x": value, **more}, "file.csv")


@pytest.mark.parametrize(
    ("value", "number"),
    [(0.5, 0.5), (3, 3.0), (-0.0, 0.0), (np.float32(0.5), 0.5), (np.int64(3), 3.0), (Decimal("0.1"), 0.1),
     ("0.5", 0.5), (" -3 ", -3.0), ("1e3", 1000.0), (".5", 0.5), ("5.", 5.0), ("+2", 2.0), ("1E-2", 0.01)],
)  # fmt: skip
def test_a_number_reads_alike_whether_it_is_one_or_a_text_of_one(value, number):
    assert read_number(row(value), "x") == number
    assert require_number(row(value), "x") == number


@pytest.mark.parametrize(
    "value",
    [True, False, np.True_, "0,5", "1_000", "½", "٣", "1e", "e3", "0x10", "good", " ", "1 2", 1j, [1], {"a": 1}, b"1",
     10**400],
    ids=repr,
)  # fmt: skip
def test_what_is_no_number_is_an_error_of_its_row_and_never_a_0(value):
    with pytest.raises(
        InputError, match=r"file\.csv row 3: x is .*, expected a number.*\. Mend or remove the row"
    ) as e:
        read_number(row(value), "x")
    assert (e.value.source, e.value.row, e.value.field, e.value.value) == ("file.csv", 3, "x", value)


@pytest.mark.parametrize("value", [None, "", float("nan"), np.float32("nan"), Decimal("NaN"), "nan", " NaN "])
def test_a_number_may_be_missing_and_whoever_needs_it_says_so(value):
    assert read_number(row(value), "x") is None
    assert read_number(row(1), "y") is None
    with pytest.raises(InputError, match=r"row 3: x is .*, expected a number\. Mend"):
        require_number(row(value), "x")


@pytest.mark.parametrize("value", [float("-inf"), "-inf", "-Infinity", np.float64("-inf"), "-1e999"])
def test_an_infinity_is_a_number_only_where_one_may_be(value):
    assert require_number(row(value), "x", finite=False) == float("-inf")
    with pytest.raises(InputError, match="expected a number"):
        read_number(row(value), "x")


def test_a_number_in_a_list_is_read_by_the_same_rule():
    assert [check_number(row([]), "x", value) for value in (1, "2", None, "nan")] == [1, 2, None, None]
    with pytest.raises(InputError, match="x is True, expected a number"):
        check_number(row([]), "x", True)


@pytest.mark.parametrize(
    ("value", "flag"),
    [(True, True), (1, True), (1.0, True), (" TRUE ", True), ("1", True), ("1.0", True), (np.True_, True),
     (False, False), (0, False), ("false", False), (None, None), ("", None), (float("nan"), None)],
)  # fmt: skip
def test_a_flag_is_true_or_1_false_or_0_or_missing(value, flag):
    assert read_flag(row(value), "x") is flag


@pytest.mark.parametrize("value", ["yes", 2, 0.5, "t", " "])
def test_what_is_no_flag_is_an_error_of_its_row(value):
    with pytest.raises(InputError, match=r"row 3: x is .*, expected true or 1, or false or 0"):
        read_flag(row(value), "x")


def test_an_id_is_a_text_or_a_whole_number_as_it_stands():
    assert [read_id(row(value), "x") for value in ("a b", " a", 7, np.int64(7))] == ["a b", " a", "7", "7"]
    for value in (None, "", " ", "\ud800"):
        with pytest.raises(InputError, match=r"row 3: x is .*, expected a text that is not empty"):
            read_id(row(value), "x")
    with pytest.raises(
        InputError, match=r"there is no 'id', but 'x'\. Add it, or say which column holds it: --field id=COLUMN"
    ):
        read_id(row(1), "id")


@pytest.mark.parametrize("nothing", [" ", "\u200b", "\u00ad\u2060\ufeff", " \u200d\n\x00", "\u3000\u200e"])
def test_a_text_of_which_nothing_can_be_seen_is_empty(nothing):
    for read in (read_id, read_text):
        with pytest.raises(InputError, match=r"row 3: x is .*, expected a text that is not empty"):
            read(row(nothing), "x")
        assert read(row(f"{nothing}e\u0301"), "x") == f"{nothing}e\u0301"
    for noun in (Target("t", "c", "text"), Context("c", "text"), Rung(1, 0.0, "text")):
        with pytest.raises((InputError, LadderError), match="empty"):
            replace(noun, text=nothing)


@pytest.mark.parametrize(
    ("name", "columns", "guess"),
    [
        ("text", ("article", "summary"), "text=summary"),
        ("text", ("prompt", "Response"), "text=Response"),
        ("context", ("article", "summary"), "context=article"),
        ("context_id", ("doc_id", "id"), "context_id=doc_id"),
        ("text", ("messages",), "text=COLUMN"),
    ],
)
def test_a_column_that_is_missing_is_guessed_from_those_that_there_are(name, columns, guess):
    with pytest.raises(InputError, match=rf"there is no '{name}', but '{columns[0]}'.* --field {guess};"):
        require_column(Row(3, dict.fromkeys(columns, "x"), "file.csv"), name)


def test_a_context_without_an_id_has_the_same_one_in_every_version():
    assert id_of_text(" The ferry lost power.\n") == "691db74946904380"  # ladders in the world are found by it


def test_a_text_is_named_by_the_column_of_the_source():
    renamed = Row(3, {"text": ""}, "file.csv", {"text": "summary"})
    with pytest.raises(InputError, match="summary is '', expected a text that is not empty") as caught:
        read_text(renamed, "text", id="c/s")
    assert (caught.value.field, caught.value.id) == ("text", "c/s")


def test_a_row_is_about_the_text_of_its_id_or_of_its_context_and_system():
    assert read_names(Row(1, {"id": "t"})).id == "t"
    names = read_names(Row(1, {"id": None, "context_id": 7, "system": "s"}))
    assert (names.id, names.context_id, names.system) == ("7/s", "7", "s")
    for values in ({}, {"context_id": "c"}, {"system": "s", "id": ""}):
        with pytest.raises(InputError, match="nothing says which text it is about"):
            read_names(Row(1, values))


def test_to_parse_a_row_costs_a_few_calls_however_deep_a_row_may_be():
    calls = []
    sys.setprofile(lambda frame, event, argument: calls.append(frame.f_code.co_name) if event == "call" else None)
    try:
        parse_json('{"id": "1", "text": "[{"}', object_pairs_hook=dict)
    finally:
        sys.setprofile(None)
    assert len(calls) < 10


@pytest.mark.parametrize("value", [1, 1.0, np.float64(1), np.int64(1), Decimal("1"), Decimal("1.0"), "1"])
def test_a_whole_number_is_one_id_however_it_is_stored(value):
    """As pandas stores ints beside a missing one."""
    assert read_id(row(value), "x") == "1"


@pytest.mark.parametrize("value", [1.5, True, 2.0**53 + 2, math.inf, [1], b"a", {}, Decimal("0.1")])
def test_an_id_that_is_there_and_is_none_says_so_rather_than_to_fill_it(value):
    with pytest.raises(InputError, match=r"expected a text or a whole number\. Write the id as text"):
        read_id(row(value), "x")


@pytest.mark.parametrize("value", [1, 1.5, True, ["a"], b"a"])
def test_a_text_that_is_there_and_is_none_says_so_rather_than_to_fill_it(value):
    seen, remedy = text_fault(value)
    assert "expected a text" in seen
    assert "Fill" not in remedy


CHAT = [{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}]
SHARED = [{"from": "human", "value": "Why?"}, {"from": "gpt", "value": "Because."}]


@pytest.mark.parametrize("chat", [CHAT, SHARED, json.dumps(CHAT), f" {json.dumps(SHARED, indent=1)}"])
@pytest.mark.parametrize("column", ["messages", "conversations"])
def test_a_chat_is_read_in_both_usual_forms_and_as_json_in_a_cell(column, chat):
    item = read_item(Row(1, {"id": "a", column: chat}))
    assert (item.require_target().text, item.context) == ("Because.", "Why?")


def test_a_chat_of_more_than_one_turn_names_who_spoke_alike_in_both_forms():
    turns = [{"from": "system", "value": "Be brief."}, *SHARED[:1]]
    asked = read_item(Row(1, {"conversations": [*turns, SHARED[1]]})).context
    assert asked == "System: Be brief.\nUser: Why?"
    with pytest.raises(InputError, match="conversations ends with one of 'user'"):
        read_item(Row(1, {"conversations": turns})).require_target()


@pytest.mark.parametrize("text", ["[1, 2]", "[not JSON", '[{"role": 1}]', '[{"role": "user"'])
def test_a_text_that_begins_with_a_bracket_is_a_text(text):
    assert read_item(Row(1, {"context_id": "c", "text": text})).require_target().text == text
