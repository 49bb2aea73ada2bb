"""Files of answers, cut, doubled, shuffled, of another model, with errors, half answered: no wrong row is stored."""

import json
import math
import random
import warnings

import pytest

from synthscore.engine import Prompt, Question, Sampling
from synthscore.engines import open_engine
from synthscore.engines.batch.add import add_answers
from synthscore.engines.batch.write import QuestionFile
from synthscore.signature import text_hash
from synthscore.store.engine import look_up
from synthscore.store.file import Store
from tests.batch_lines import chosen, failed, id_of, lines_of, result, stem
from tests.models import save_without_thinking

N_TRIES = 40  # of each of five forms
LABELS = ("Better", "Worse", "Similar")


def questions(wire):
    texts = [Question(Prompt(f"Context.\n\nWrite text {n}: é"), (), Sampling(40), seed=n) for n in range(8)]
    if wire == "exact":
        return [Question(Prompt(f"Which, {n}?"), LABELS[: 2 + n % 2]) for n in range(8)]
    return texts + [Question(Prompt("Which?"), LABELS, Sampling(64, 1.0, 1.0), seed=n) for n in range(8)]


def answer_to(line, kind="true"):
    """A line of results; each question has a true answer, and others."""
    draw = random.Random(f"{kind}{id_of(line)}")
    if "logprob_token_ids" in line.get("body", {}):
        return chosen(line, lambda token: math.log(draw.uniform(0.001, 0.2)))
    ended = draw.choice(["stop", "stop", "length", "refusal"])
    return result(line, f"{draw.choice([*LABELS, 'a text'])} {draw.random()}", ended, n_tokens=draw.randrange(90))


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """By form: its folder, the engine, the questions, the lines, and the true answers by key."""
    tokenizer = save_without_thinking(tmp_path_factory.mktemp("tokens") / "tiny")
    made = {}
    for form in ("openai", "anthropic", "gemini", "vllm", "exact"):
        folder = tmp_path_factory.mktemp(form)
        options = {"wire": "vllm", "tokenizer": tokenizer} if form == "exact" else {"wire": form}
        with QuestionFile(folder / "q.jsonl") as file:
            engine = open_engine("batch:m", questions=file, **options)
            engine.answer(questions(form))
            file.save()
        lines = lines_of(folder / "q.jsonl")
        whole = folder / "whole.jsonl"
        whole.write_text("".join(f"{json.dumps(answer_to(line))}\n" for line in lines), "utf-8")
        found, told = added(folder, engine, questions(form), [whole], "true.sqlite")
        assert len(found) == len(questions(form))
        assert set(told.fates) == {"stored"}
        made[form] = folder, engine, lines, found
    return made


def added(folder, engine, asked, files, name):
    keys = [question.key(str(engine.signature)) for question in asked]
    with warnings.catch_warnings(), Store(folder / name) as store:
        warnings.simplefilter("ignore")
        told = add_answers(store, files, [folder / "q.jsonl.manifest"])
        return look_up(store, keys, asked, engine.capabilities), told


def spoilt(lines, draw):
    """A file of answers that something has happened to; bytes."""
    given = [answer_to(line) for line in lines]
    given = draw.sample(given, draw.randint(len(given) // 2, len(given)))
    given += [failed(line, "it broke") for line in draw.sample(lines, 3)]
    given += draw.sample(given, 3)  # doubled
    given += [by_another(answer_to(line, "other")) for line in draw.sample(lines, 3)]
    given += [{"custom_id": f"{text_hash(str(draw.random()))[:40].upper()}-0"}, {"object": "batch"}]
    draw.shuffle(given)
    data = b"".join(json.dumps(line).encode() + b"\n" for line in given)
    return data[: draw.randrange(0, len(data), 10)] if draw.random() < 0.7 else data


def by_another(line):
    text = json.dumps(line)
    return json.loads(
        text.replace('"model": "m"', '"model": "n"').replace('"modelVersion": "m"', '"modelVersion": "n"')
    )


@pytest.mark.parametrize("form", ["openai", "anthropic", "gemini", "vllm", "exact"])
def test_what_became_of_a_file_makes_no_wrong_row_and_the_rest_is_taken_later(form, asked, tmp_path):
    folder, engine, lines, true = asked[form]
    n_stored = 0
    for attempt in range(N_TRIES):
        draw = random.Random(f"{form}{attempt}")
        file = tmp_path / "out.jsonl"
        file.write_bytes(spoilt(lines, draw))
        name = f"{attempt}.sqlite"
        found, told = added(folder, engine, questions(form), [file], name)
        assert same(found, {key: true[key] for key in found})
        n_lines = sum(bool(line.strip()) for line in file.read_bytes().split(b"\n"))
        assert told.fates.total() == n_lines
        assert told.n_unasked == len(true) - len(found)
        n_stored += len(found)
        found, told = added(folder, engine, questions(form), [file, folder / "whole.jsonl"], name)
        assert same(found, true)
        assert told.n_unasked == 0
    assert n_stored > N_TRIES  # it was not all lost


def test_a_file_cut_at_every_tenth_byte_gives_the_answers_before_the_cut(asked, tmp_path):
    folder, engine, _, true = asked["openai"]
    data = (folder / "whole.jsonl").read_bytes()
    file = tmp_path / "out.jsonl"
    for n, cut in enumerate(range(0, len(data), 10)):
        if n % 10 and n > 20:  # the others say the same
            continue
        file.write_bytes(data[:cut])
        found, told = added(folder, engine, questions("openai"), [file], f"cut-{cut}.sqlite")
        assert same(found, {key: true[key] for key in found})
        assert len(found) in (data[:cut].count(b"\n"), data[:cut].count(b"\n") + 1)
        assert told.fates["damaged"] <= 1


def same(found, true):
    """To the last bit."""
    return repr(sorted(found.items())) == repr(sorted(true.items()))


def test_ids_of_two_questions_differ(asked):
    for _, _, lines, true in asked.values():
        assert len({stem(line) for line in lines}) == len(true)
