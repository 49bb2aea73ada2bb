"""Questions into files and answers out of them: the forms, the ids, the manifest, and what becomes of each line."""

import json
import re
import threading
from dataclasses import replace

import pytest

from synthscore.engine import Generation, LabelAnswer, Prompt, Question, Sampling
from synthscore.engines import open_engine
from synthscore.engines.batch.add import add_answers
from synthscore.engines.batch.manifest import Manifest, manifest_of
from synthscore.engines.batch.replies import read_reply, read_text, same_model
from synthscore.engines.batch.wires import FILE_FORMS
from synthscore.engines.batch.write import QuestionFile, unasked_to
from synthscore.errors import EngineError, InputError, Postponed, SynthscoreWarning, Unasked
from synthscore.store.engine import StoredEngine, look_up
from synthscore.store.file import Store
from tests.batch_lines import body_of, failed, id_of, lines_of, result
from tests.batch_runner import run_batch
from tests.model_server import ModelServer
from tests.models import save_without_thinking

TEXTS = [Question(Prompt(f"Write text {n}, please: é \u2028 <end>"), (), Sampling(40), seed=n) for n in range(5)]
WORDS = [Question(Prompt("Which?\n\nA or B"), ("Better", "Worse"), Sampling(64), seed=n) for n in range(3)]
LABELS = ("Yes", "No")


def written(folder, questions, **options):
    """The engine that wrote the questions to q.jsonl, and what it answered."""
    with QuestionFile(
        folder / "q.jsonl", **{k: options.pop(k) for k in ("most_lines", "most_bytes") if k in options}
    ) as file:
        engine = open_engine("batch:m", questions=file, **options)
        rows = engine.answer(questions).rows
        if file.n:
            file.save()
    return engine, rows


def added(folder, lines, store="s.sqlite", **options):
    """What became of result lines, and the store."""
    (folder / "out.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    opened = Store(folder / store)
    return add_answers(opened, [folder / "out.jsonl"], [folder / "q.jsonl.manifest"], **options), opened


def stored(store, engine, questions):
    """The answers that are found for these questions; None where there is none."""
    keys = [question.key(str(engine.signature)) for question in questions]
    found = look_up(store, keys, questions, engine.capabilities)
    return [found.get(key) for key in keys]


# ------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("wire", sorted(FILE_FORMS))
def test_a_question_goes_into_the_file_and_its_answer_comes_back_out_of_a_file(tmp_path, wire):
    engine, rows = written(tmp_path, TEXTS, wire=wire)
    assert all(isinstance(row, Postponed) for row in rows)
    lines = lines_of(tmp_path / "q.jsonl")
    assert [re.fullmatch("[A-Za-z0-9_-]{1,64}", id_of(line)) is not None for line in lines] == [True] * 5
    assert len({id_of(line) for line in lines}) == 5
    answers = [result(line, f"text {n}", "length" if n == 2 else "stop") for n, line in enumerate(lines)]
    told, store = added(tmp_path, reversed(answers))
    assert (told.words, told.n_unasked) == ("5 lines: 5 stored", 0)
    ends = ["stop", "stop", "length", "stop", "stop"]
    expected = [Generation(f"text {n}", end, 7) for n, end in enumerate(ends)]
    assert sorted(stored(store, engine, TEXTS), key=str) == sorted(expected, key=str)
    with StoredEngine(engine, store).store:
        assert StoredEngine(engine, store).answer(TEXTS).rows == stored(store, engine, TEXTS)


def test_lines_are_in_the_order_of_prompts_and_a_question_is_written_once(tmp_path):
    prompts = ["b shared, end", "a shared, end", "b shared, also", "a shared, also"]
    questions = [Question(Prompt(text), (), Sampling(9), seed=1) for text in prompts]
    with QuestionFile(tmp_path / "q.jsonl") as file:
        engine = open_engine("batch:m", questions=file)
        engine.answer(questions)
        engine.answer(questions[:2])
        assert file.n == 4
        file.save()
    texts = [body_of(line)["messages"][0]["content"] for line in lines_of(tmp_path / "q.jsonl")]
    assert texts == sorted(prompts)


@pytest.mark.parametrize("most", [{"most_lines": 2}, {"most_bytes": 500}])
def test_files_are_split_and_their_manifest_is_one(tmp_path, most):
    written(tmp_path, TEXTS, **most)
    parts = sorted(path.name for path in tmp_path.glob("q*.jsonl"))
    assert parts == ["q-2.jsonl", "q-3.jsonl", "q.jsonl"]
    assert sum(len(lines_of(tmp_path / part)) for part in parts) == 5
    assert sum(len(chunk.stems) for chunk in Manifest(manifest_of(tmp_path / "q.jsonl")).chunks()) == 5
    assert max(len(lines_of(tmp_path / part)) for part in parts) == 2


def test_without_a_file_each_question_fails_with_one_sentence():
    (row,) = open_engine("batch:m").answer(TEXTS[:1]).rows
    assert str(row).startswith("batch:m is asked through files alone")
    assert not isinstance(row, Postponed)


def test_what_no_file_can_ask_fails_alone(tmp_path):
    exact = Question(Prompt("Which?"), LABELS)
    read = Question(Prompt("Which?"), continuation="This.")
    begun = replace(TEXTS[0], prompt=Prompt("Write.", "Text:"))
    _, rows = written(tmp_path, [exact, TEXTS[0], read, begun])
    assert [isinstance(row, Postponed) for row in rows] == [False, True, False, False]
    for row, words in zip((rows[0], rows[2], rows[3]), ("--answers words", "how probable", "'Text:'"), strict=True):
        assert words in str(row)
    assert len(lines_of(tmp_path / "q.jsonl")) == 1


def test_the_manifest_keeps_what_was_written_before_and_refuses_another_judge(tmp_path):
    engine, _ = written(tmp_path, TEXTS[:3])
    first = lines_of(tmp_path / "q.jsonl")
    written(tmp_path, TEXTS[3:])
    told, store = added(tmp_path, [result(line, "late") for line in first])
    assert (told.fates["stored"], told.n_questions, told.n_unasked) == (3, 5, 2)
    assert [answer is not None for answer in stored(store, engine, TEXTS)] == [True] * 3 + [False] * 2
    with pytest.raises(InputError, match="for another judge"):
        written(tmp_path, TEXTS, wire="gemini")


def test_an_error_for_want_of_answers_is_not_shown_but_that_questions_are_unasked(tmp_path):

    def ask(path, questions):
        with unasked_to(path) as file:
            open_engine("batch:m", questions=file).answer(questions)
            raise EngineError("nothing could be scored")

    with pytest.raises(Unasked, match=r"1 question in .*q\.jsonl; have"):
        ask(tmp_path / "q.jsonl", TEXTS[:1])
    with pytest.raises(EngineError, match="nothing"):
        ask(tmp_path / "r.jsonl", [])
    assert not (tmp_path / "r.jsonl").exists()
    assert not list(tmp_path.glob(".questions-*"))


def test_a_text_ends_at_its_stop_strings_also_where_the_service_is_not_told_of_them(tmp_path):
    question = Question(Prompt("Write."), (), Sampling(40, stop=("\n\n", "END")))
    engine, _ = written(tmp_path, [question])
    assert "stop" not in body_of(lines_of(tmp_path / "q.jsonl")[0])
    _, store = added(tmp_path, [result(lines_of(tmp_path / "q.jsonl")[0], "A text. END More.", "length")])
    assert stored(store, engine, [question]) == [Generation("A text. ", "stop", 7)]


def test_what_prompts_share_is_marked_for_anthropics_cache(tmp_path):
    shared = Question(Prompt("Article. Which?", n_shared=9), (), Sampling(40))
    written(tmp_path, [shared], wire="anthropic")
    ((message,),) = [body_of(line)["messages"] for line in lines_of(tmp_path / "q.jsonl")]
    assert [block["text"] for block in message["content"]] == ["Article. ", "Which?"]
    assert message["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "1h"}


# ------------------------------------------------------------------------------------------------- fates


def test_each_line_has_one_fate_and_a_good_answer_beats_an_error(tmp_path):
    engine, _ = written(tmp_path, TEXTS)
    lines = sorted(lines_of(tmp_path / "q.jsonl"), key=lambda line: body_of(line)["messages"][0]["content"])
    nobody = {**lines[0], "custom_id": "A" * 40 + "-0"}
    given = [
        failed(lines[0], "it expired"),
        result(lines[0], "first"),
        result(lines[0], "second"),
        result(lines[1], "by another", model="m2"),
        result(lines[2], "late"),
        result(lines[3], "", "what"),
        result(nobody, "lost"),
        {"custom_id": "x"},
        ["no object"],
    ]
    told, store = added(tmp_path, given)
    fates = {"error": 1, "stored": 2, "doubled": 1, "other model": 1, "unreadable": 1, "unknown": 1, "damaged": 2}
    assert dict(told.fates) == fates
    assert told.n_unasked == 3
    found = stored(store, engine, TEXTS)
    assert [answer and answer.text for answer in found] == ["first", None, "late", None, None]
    assert "the service: it expired" in "".join(told.why.lines(9))
    again, _ = added(tmp_path, given[1:2])
    assert dict(again.fates) == {"known": 1}
    azure, _ = added(tmp_path, given[3:4], served_as="m2")
    assert dict(azure.fates) == {"stored": 1}


def test_replies_of_two_dated_models_are_warned_of(tmp_path):
    written(tmp_path, TEXTS)
    lines = lines_of(tmp_path / "q.jsonl")
    with pytest.warns(SynthscoreWarning, match="2 models: m-2026-01-01, m-2026-02-02"):
        added(tmp_path, [result(line, "t", model=f"m-2026-0{n}-0{n}") for n, line in enumerate(lines[:2], 1)])


@pytest.mark.parametrize(
    ("asked", "answered", "same"),
    [
        ("gpt-6-luna", "gpt-6-luna-2026-08-01", True),
        ("claude-haiku-5-5", "claude-haiku-5-5-20260901", True),
        ("models/gemini-4", "gemini-4-001", True),
        ("gpt-6", "gpt-6-luna", False),
        ("gpt-6-luna-2026-08-01", "gpt-6-luna", False),
        ("a.c", "abc", False),
        ("m", "", False),
    ],
)
def test_a_dated_name_is_of_the_model_that_was_asked(asked, answered, same):
    assert same_model(asked, answered) is same


@pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini"])
def test_a_refusal_of_a_text_is_a_text_that_ended_and_is_not_asked_for_ever(tmp_path, wire):
    engine, _ = written(tmp_path, TEXTS[:1], wire=wire)
    (line,) = lines_of(tmp_path / "q.jsonl")
    _, store = added(tmp_path, [result(line, "I cannot", "refusal")])
    assert stored(store, engine, TEXTS[:1]) == [Generation("I cannot", "stop", 7)]


def test_a_refusal_that_openai_has_apart_and_a_chain_that_was_cut_are_read(tmp_path):
    body = {"choices": [{"message": {"content": None, "refusal": "No."}, "finish_reason": "stop"}]}
    usage = {"usage": {"completion_tokens": 3}}
    assert read_text("openai", body | usage) == ("No.", "refusal", 3)
    body = {"choices": [{"message": {"content": None}, "finish_reason": "length"}]}
    assert read_text("openai", body | usage) == ("", "length", 3)
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}}
    assert read_text("gemini", blocked) == ("", "refusal", 0)


@pytest.mark.parametrize("error", ["expired", "canceled"])
def test_what_anthropic_did_not_answer_is_an_error(error):
    reply = read_reply({"custom_id": "A" * 40 + "-0", "result": {"type": error}})
    assert (reply.error, reply.body) == (error, None)


# ------------------------------------------------------------------------------------------------- manifests


def test_a_strangers_or_damaged_manifest_gives_no_wrong_row(tmp_path):
    written(tmp_path, TEXTS)
    lines = lines_of(tmp_path / "q.jsonl")
    manifest = tmp_path / "q.jsonl.manifest"
    head, chunk = manifest.read_bytes().splitlines(keepends=True)
    answers = [result(line, "t") for line in lines]

    other = json.loads(chunk)
    other["ids"] = other["ids"][1:] + other["ids"][:1]  # each id to another question
    manifest.write_bytes(head + json.dumps(other).encode() + b"\n")
    told, store = added(tmp_path, answers)
    assert (dict(told.fates), len(store)) == ({"unknown": 5}, 0)

    manifest.write_bytes(head + chunk[: len(chunk) // 2])
    with pytest.warns(SynthscoreWarning, match="1 lines of the manifest"):
        told, store = added(tmp_path, answers)
    assert (dict(told.fates), len(store)) == ({"unknown": 5}, 0)

    for broken, words in (
        (head.replace(b"batch-words", b"cascade"), "expected one that is asked through files"),
        (head.replace(b'"model":"m"', b'"model":"n"'), "by the name 'n'"),
        (head.replace(b'_questions":1', b'_questions":2'), "it has format 2, expected 1"),
        (b"[]\n", "none of a manifest"),
        (b"", "none of a manifest"),
    ):
        manifest.write_bytes(broken + chunk)
        with pytest.raises(InputError, match=words):
            added(tmp_path, answers)
    renamed = head.replace(b"wire:openai", b"wire:gemini")  # keys are then others
    manifest.write_bytes(renamed + chunk)
    told, store = added(tmp_path, answers)
    assert (dict(told.fates), len(store)) == ({"unknown": 5}, 0)


# ------------------------------------------------------------------------------------------------- exact labels


@pytest.fixture(scope="module")
def single(tmp_path_factory):
    return save_without_thinking(tmp_path_factory.mktemp("single") / "tiny")


ASKED = [Question(Prompt(f"Is it {word}?", n_shared=3), LABELS) for word in ("good", "bad", "é", "1 < 2")]
ASKED += [Question(Prompt("Which summary?"), labels) for labels in (("Better", "Worse", "Similar"), ("A", "B"))]


def test_exact_labels_from_a_file_are_those_of_the_live_route_to_the_last_bit(tmp_path, single):
    server = ModelServer(open_engine(single), single)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    live = open_engine(server.url, method="ids", tokenizer=single).answer(ASKED).rows
    engine, rows = written(tmp_path, ASKED, wire="vllm", tokenizer=single)
    assert all(isinstance(row, Postponed) for row in rows)
    lines = lines_of(tmp_path / "q.jsonl")
    assert len(lines) > len(ASKED)  # some labels have several tokens
    run_batch(tmp_path / "q.jsonl", tmp_path / "out.jsonl", server)
    server.close()
    thread.join()
    told, store = added(tmp_path, reversed(lines_of(tmp_path / "out.jsonl")))
    assert dict(told.fates) == {"stored": len(lines)}
    found = stored(store, engine, ASKED)
    assert all(isinstance(answer, LabelAnswer) for answer in found)
    assert [tuple(answer.log_probs) for answer in found] == [tuple(answer.log_probs) for answer in live]
    assert [answer.other_token for answer in found] == [answer.other_token for answer in live]

    part = [line for line in lines_of(tmp_path / "out.jsonl") if not line["custom_id"].endswith("-1")]
    told, _ = added(tmp_path, part, "part.sqlite")
    assert told.fates["incomplete"] > 0
    assert told.fates["stored"] + told.fates["incomplete"] == len(part)


def test_labels_whose_beginnings_no_chat_can_hold_are_refused_by_the_template(tmp_path, folder):
    """Its template puts an empty block of thinking before the answer, and none before an answer that has begun."""
    _, rows = written(tmp_path, [Question(Prompt("Which?"), ("Better", "Worse"))], wire="vllm", tokenizer=folder)
    assert "would become other tokens" in str(rows[0])
    assert "--answers words" in str(rows[0])


def test_a_text_that_holds_a_control_token_is_refused(tmp_path, single):
    forged = Question(Prompt("Is it <|im_end|> good?"), ("A", "B"))
    _, rows = written(tmp_path, [forged], wire="vllm", tokenizer=single)
    assert "the name of a control token" in str(rows[0])


def test_another_tokenizer_is_refused_when_answers_come(tmp_path, single, folder):
    written(tmp_path, [Question(Prompt("Which?"), ("A", "B"))], wire="vllm", tokenizer=single)
    run_batch(tmp_path / "q.jsonl", tmp_path / "a.jsonl", ModelServer(open_engine(single), single))
    with pytest.raises(InputError, match="Name the right one with --tokenizer"):
        added(tmp_path, lines_of(tmp_path / "a.jsonl"), tokenizer=folder)


def test_a_tokenizer_for_a_service_that_takes_no_token_ids_is_refused(single):
    with pytest.raises(EngineError, match="a tokenizer does nothing with questions for openai"):
        open_engine("batch:m", tokenizer=single)
    with pytest.raises(InputError, match="expected one of openai, anthropic, gemini, vllm"):
        open_engine("batch:m", wire="xml")
    with pytest.raises(EngineError, match="expected batch:NAME"):
        open_engine("batch:")
