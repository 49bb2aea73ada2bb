import codecs
import gzip
import json
import subprocess
import sys

import numpy as np
import pytest

from synthscore.errors import InputError
from synthscore.io.contexts import read_contexts
from synthscore.io.fields import id_of_text, make_row, read_item
from synthscore.io.files import read_rows, some_contexts
from synthscore.io.write import write_rows
from synthscore.types import Context, Target

ROW = {
    "context_id": "c1",
    "context": "An article.",
    "system": "s1",
    "text": "A summary.",
    "references": ["A good one."],
}


def jsonl(path, *rows):
    path.write_bytes(b"".join((r if isinstance(r, bytes) else json.dumps(r).encode()) + b"\n" for r in rows))
    return path


def read_targets(source, **options):
    """Targets, and the errors of rows that hold none."""
    held = [read_item(row).target for row in read_rows(source, **options)]
    errors = [target for target in held if isinstance(target, InputError)]
    return [target for target in held if isinstance(target, Target)], errors


def good(rows):
    return [row for row in rows if not isinstance(row, InputError)]


# ------------------------------------------------------------------------------------------------- bad input


def test_a_broken_line_in_the_middle_costs_that_line_only(tmp_path):
    path = jsonl(tmp_path / "t.jsonl", ROW, b'{"context_id": "c1", "te', b"", b"[1]", ROW | {"system": "s2"})
    targets, errors = read_targets(path)
    assert [target.id for target in targets] == ["c1/s1", "c1/s2"]
    assert [(error.source, error.row) for error in errors] == [(str(path), 2), (str(path), 4)]
    assert "t.jsonl row 2: not JSON" in str(errors[0])
    assert "Mend or remove the line" in str(errors[0])
    assert "expected an object" in str(errors[1])


@pytest.mark.parametrize("value", [None, "", " \n", float("nan"), 3, ["a"]])
def test_a_row_without_a_usable_text_is_named_with_its_id_and_the_others_are_kept(tmp_path, value):
    path = jsonl(tmp_path / "t.jsonl", ROW, ROW | {"system": "s2", "text": value}, ROW | {"system": "s3"})
    targets, errors = read_targets(path)
    assert [target.id for target in targets] == ["c1/s1", "c1/s3"]
    (error,) = errors
    assert (error.row, error.field, error.id, error.context_id, error.system) == (2, "text", "c1/s2", "c1", "s2")
    assert error.value is value or error.value == value or value != value
    shown = None if value != value else value  # NaN is how pandas writes null
    is_there = shown in (3, ["a"])
    wanted = "a text. Write the text there" if is_there else "a text that is not empty. Fill it"
    assert f"row 2: text is {shown!r}, expected {wanted}" in str(error)


def test_a_missing_column_is_named_with_those_there_are_and_the_way_to_map_it(tmp_path):
    path = jsonl(tmp_path / "t.jsonl", {"context_id": "c", "summary": "S.", "output": "which of the two?"})
    _, (error,) = read_targets(path)
    assert "there is no 'text', but 'context_id', 'summary', 'output'" in str(error)
    assert "--field text=summary" in str(error)
    targets, errors = read_targets(path, fields={"text": "summary"})
    assert (targets, errors) == ([Target("c/1", "c", "S.")], [])


def test_fields_can_swap_two_columns_and_never_fall_back_to_a_column_of_our_name(tmp_path):
    row = {"id": "c", "text": "The article.", "summary": "S."}
    path = jsonl(tmp_path / "t.jsonl", row, {"id": "d", "text": "The article."})
    fields = {"context_id": "id", "context": "text", "text": "summary"}
    targets, (error,) = read_targets(path, fields=fields)
    assert targets == [Target("c/1", "c", "S.")]
    assert (error.row, error.field) == (2, "text")
    assert "there is no 'summary'" in str(error)
    write_rows([row], tmp_path / "t.csv")
    with pytest.raises(InputError, match="is to be in column 'sumary', but its columns are 'id', 'text'"):
        read_targets(tmp_path / "t.csv", fields={"text": "sumary"})


@pytest.mark.parametrize(
    ("encoding", "guess"), [("cp1252", "--encoding cp1252"), ("utf-16", "--encoding utf-16"), ("koi8-r", "--encoding")]
)
@pytest.mark.parametrize("suffix", [".csv", ".json", ".csv.gz"])
def test_another_encoding_is_told_with_its_byte_and_read_when_named(tmp_path, encoding, guess, suffix):
    word = "Сэр" if encoding == "koi8-r" else "café"
    rows = f"context_id,text\r\nc1,{'plain ' * 20000}\r\nc1,{word}\r\n"
    if suffix == ".json":
        rows = json.dumps({"context_id": "c1", "text": word}, ensure_ascii=False) + "\n"
    data = rows.encode(encoding)
    path = tmp_path / f"t{suffix}"
    path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    with pytest.raises(InputError) as caught:
        read_targets(path)
    error = caught.value
    assert guess in str(error)
    with pytest.raises(UnicodeDecodeError) as truth:
        data.decode()
    at = truth.value.start
    assert error.line == data[:at].count(b"\n") + 1
    assert f"line {error.line} holds the byte 0x{data[at]:02x}" in str(error)
    assert read_targets(path, encoding=encoding)[0][-1].text == word
    with pytest.raises(InputError, match="no encoding 'latin-15x'"):
        read_targets(path, encoding="latin-15x")


def test_a_byte_order_mark_is_accepted(tmp_path):
    (tmp_path / "t.csv").write_bytes(codecs.BOM_UTF8 + "context_id,text\nc,é\n".encode())
    assert read_targets(tmp_path / "t.csv") == ([Target("c/1", "c", "é")], [])
    (tmp_path / "t.jsonl").write_bytes(codecs.BOM_UTF8 + b'{"context_id": "c", "text": "x"}')
    assert read_targets(tmp_path / "t.jsonl")[0] == [Target("c/1", "c", "x")]


def test_csv_rows_with_too_many_or_too_few_fields_cost_only_themselves(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('context_id,text\nc,"two\nlines"\nc,a,b\nc\n\nc,"bad"quote\nc,last\n')
    targets, errors = read_targets(path)
    assert [(target.id, target.text) for target in targets] == [("c/1", "two\nlines"), ("c/5", "last")]
    assert [(error.row, error.line) for error in errors] == [(2, 4), (3, 5), (4, 7)]
    assert "3 fields, expected 2 as in the header: ['c', 'a', 'b']" in str(errors[0])
    assert "not CSV" in str(errors[2])


def test_long_csv_fields_are_read_and_columns_that_are_named_twice_are_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(f"context_id,text\nc,{'x' * 300_000}\n")
    assert len(read_targets(path)[0][0].text) == 300_000
    path.write_text("context_id;text\nc;x\n")
    assert read_targets(path)[0][0].text == "x"
    path.write_text("text,text\nc,x\n")
    with pytest.raises(InputError, match="names a column twice"):
        read_targets(path)


def test_a_truncated_gzip_file_is_told(tmp_path):
    data = gzip.compress(b"\n".join(json.dumps(ROW | {"system": f"{i}"}).encode() for i in range(500)))
    (tmp_path / "t.jsonl.gz").write_bytes(data[:-20])
    with pytest.raises(InputError, match=r"beyond line .*\. Make or download the file again"):
        read_targets(tmp_path / "t.jsonl.gz")


def test_half_a_surrogate_pair_is_not_a_text(tmp_path):
    path = jsonl(tmp_path / "t.jsonl", b'{"context_id": "c", "text": "\\ud83d"}')
    assert "half a surrogate pair" in str(read_targets(path)[1][0])


# ------------------------------------------------------------------------------------------------- nouns


def test_a_file_of_targets_that_carry_their_context_gives_both(tmp_path):
    rows = [ROW, ROW | {"system": "s2", "text": "Other."}, ROW | {"context_id": "c2", "context": "More.", "facts": "F"}]
    path = jsonl(tmp_path / "b.jsonl", *rows)
    contexts, errors = read_contexts(path)
    assert errors == []
    assert contexts == [
        Context("c1", "An article.", references=("A good one.",)),
        Context("c2", "More.", "F", ("A good one.",)),
    ]
    targets, errors = read_targets(path)
    assert errors == []
    assert [target.id for target in targets] == ["c1/s1", "c1/s2", "c2/s1"]


def test_contexts_come_from_id_and_text_too_and_references_from_one_text_or_a_list():
    rows = [
        {"id": 7, "text": "T.", "references": "[One] text", "facts": None},
        {"id": "b", "text": "T.", "references": '["x", "y"]', "facts": float("nan")},
        {"id": "c", "text": "T.", "references": np.array(["x"]).tolist()},
        {"context_id": None, "id": "d", "text": "T.", "references": ""},
    ]
    contexts, errors = read_contexts(rows)
    assert errors == []
    assert [(c.id, c.references, c.facts) for c in contexts] == [
        ("7", ("[One] text",), ""), ("b", ("x", "y"), ""), ("c", ("x",), ""), ("d", (), ""),
    ]  # fmt: skip


CHAT = [{"role": "user", "content": "Where is it?"}, {"role": "assistant", "content": "On the left."}]
LONG_CHAT = [{"role": "system", "content": "Be kind."}, *CHAT, {"role": "user", "content": "Mine?"}]
PARTS = {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}


@pytest.mark.parametrize(
    ("row", "context", "text"),
    [
        ({"article": "A.", "summary": "S."}, "A.", "S."),
        ({"Source": "A.", "Output": "S."}, "A.", "S."),
        ({"id": 7, "prompt": "A.", "completion": "S.", "source": "the web"}, "A.", "S."),
        ({"question": "A.", "answer": "S."}, "A.", "S."),
        ({"document": "A.", "text": "S.", "source": "the web"}, "A.", "S."),
        ({"messages": CHAT}, "Where is it?", "On the left."),
        ({"messages": [*LONG_CHAT, PARTS]},
         "System: Be kind.\nUser: Where is it?\nAssistant: On the left.\nUser: Mine?", "Yes."),
        ({"prompt": CHAT[:1], "response": CHAT[1:]}, "Where is it?", "On the left."),
    ],
)  # fmt: skip
def test_columns_of_usual_names_give_a_context_and_a_target_of_it_without_any_id(row, context, text):
    ((target,), _) = read_targets([row])
    ((found,), errors) = read_contexts([row])
    assert (errors, found.text, target.text) == ([], context, text)
    assert target.context_id == found.id == id_of_text(f" {context} ")
    assert target.id == str(row.get("id", f"{found.id}/1"))


def test_what_was_taken_for_what_is_said(caplog):
    with caplog.at_level("INFO", "synthscore"):
        read_contexts([{"article": "A.", "summary": "S."}, ROW])
    (line,) = caplog.messages
    assert line == "rows: reading text from 'summary', context from 'article'; to read others: --field NAME=COLUMN"


@pytest.mark.parametrize(
    ("row", "context", "read_as"),
    [
        ({"context": "Its own."}, "Its own.", "text from 'messages'"),
        ({"prompt": "Its own."}, "Its own.", "context from 'prompt', text from 'messages'"),
        ({"context": None}, "Where is it?", "text from 'messages', context from 'messages'"),
        ({}, "Where is it?", "text from 'messages', context from 'messages'"),
    ],
)
def test_beside_a_chat_a_context_of_the_rows_own_is_read_and_said(row, context, read_as, caplog):
    with caplog.at_level("INFO", "synthscore"):
        item = read_item(make_row(1, {**row, "messages": CHAT}))
    assert (item.context, item.require_target().text) == (context, "On the left.")
    assert caplog.messages == [f"rows: reading {read_as}; to read others: --field NAME=COLUMN"]


@pytest.mark.parametrize("chat", [CHAT[:1], [*CHAT, *CHAT[:1]]])
def test_a_chat_that_ends_with_no_answer_holds_no_target(chat):
    for read in (read_contexts, read_targets):
        _, (error,) = read([{"messages": chat}])
        assert "row 1: messages" in str(error)
        assert "expected others and an assistant's. Give the chat up to the answer" in str(error)


def test_both_columns_that_are_missing_are_told_at_once():
    _, (error,) = read_targets([{"a": "b"}])
    assert "there is no 'context_id', but 'a'. Add it, or its text as context" in str(error)
    assert "--field context_id=COLUMN (or context=COLUMN) --field text=COLUMN" in str(error)


@pytest.mark.parametrize("change", [{"system": "s1"}, {"id": "c1/s1"}, {"id": 7}])
def test_a_target_without_its_context_is_not_taken_for_a_context(change):
    contexts, (error,) = read_contexts([{"context_id": "c1", "text": "A summary."} | change])
    assert contexts == []
    assert (error.row, error.field, error.id) == (1, "context", "c1")
    assert "this row is a target" in str(error)
    assert "its context is missing. Add a column context" in str(error)


@pytest.mark.parametrize("change", [{}, {"id": "7"}, {"id": 7, "system": None}, {"id": "", "system": ""}])
def test_a_context_that_has_a_targets_columns_but_nothing_in_them_is_a_context(change):
    contexts, errors = read_contexts([{"context_id": "7", "text": "An article."} | change])
    assert errors == []
    assert contexts == [Context("7", "An article.")]


def test_an_id_with_two_different_contexts_is_an_error_of_the_later_row(tmp_path):
    path = jsonl(tmp_path / "b.jsonl", ROW, ROW | {"context": "Another article."}, ROW | {"context_id": "c2"})
    contexts, (error,) = read_contexts(path)
    assert [context.id for context in contexts] == ["c1", "c2"]
    assert (error.row, error.field, error.value, error.id) == (2, "context", "Another article.", "c1")
    assert "context 'c1' has another text in an earlier row: 'An article.'" in str(error)
    _, (error,) = read_contexts([ROW | {"facts": "A."}, ROW | {"facts": "B."}])
    assert (error.row, error.field) == (2, "facts")


def test_a_limit_takes_the_same_contexts_in_any_order_and_a_lower_one_some_of_these():
    ids = [f"c{k:02d}" for k in range(50)]
    taken = some_contexts(ids, 10)
    assert len(taken) == 10
    assert taken == some_contexts(ids[::-1] + ids, 10)
    assert some_contexts(ids, 3) < taken < some_contexts(ids, 50) == some_contexts(ids, None) == set(ids)
    assert taken != set(ids[:10])
    with pytest.raises(InputError, match="cannot take 0 contexts"):
        some_contexts(ids, 0)


def test_what_one_row_of_a_context_leaves_out_another_says_and_the_first_references_count():
    rows = [ROW | {"references": []}, ROW | {"references": ["A."], "facts": "F."}, ROW | {"references": ["B."]}]
    (context,), errors = read_contexts(rows)
    assert (context.references, context.facts, errors) == (("A.",), "F.", [])


@pytest.mark.parametrize(
    ("change", "field"),
    [({"context_id": ""}, "context_id"), ({"context": None}, "context"), ({"facts": ["a"]}, "facts"),
     ({"references": ["a", " "]}, "references"), ({"references": {"a": 1}}, "references")],
)  # fmt: skip
def test_a_bad_context_row_names_its_field(change, field):
    contexts, (error,) = read_contexts([ROW | {"context_id": "ok"}, ROW | change])
    assert [context.id for context in contexts] == ["ok"]
    assert (error.row, error.field) == (2, field)


def test_a_target_row_names_its_context_id():
    _, errors = read_targets([{"text": "x"}, {"context_id": 1.5, "text": "x"}, {"context_id": True, "text": "x"}])
    assert [(error.row, error.field) for error in errors] == [(1, "context_id"), (2, "context_id"), (3, "context_id")]


def test_importing_the_data_modules_imports_nothing_slow():
    code = (
        "import sys, synthscore.io.contexts, synthscore.store.file, synthscore.ladders.references; "
        "print({'torch', 'transformers', 'datasets', 'pyarrow', 'pandas'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"
