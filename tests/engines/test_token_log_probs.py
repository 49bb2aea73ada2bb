"""Log-probabilities of given texts, token by token, against a plain forward each, on small models with random weights.

In float32 all ways to run a model agree within 5e-5 nats (measured: 2e-6).
"""

import copy
import json
import math

import numpy as np
import pytest
import torch

from synthscore.cli.app import main
from synthscore.cli.messages import Messages, Watched
from synthscore.engine import Prompt, Question, Sampling, label_log_probs, token_log_probs
from synthscore.engines import open_engine, seq2seq
from synthscore.engines.seq2seq import Seq2SeqEngine
from synthscore.engines.tree import causal as causal_models
from synthscore.engines.tree.causal import CausalEngine
from synthscore.errors import EngineError, PromptTooLongError, SynthscoreWarning
from synthscore.store.engine import RecordedEngine, StoredEngine
from synthscore.store.file import Store
from synthscore.store.packing import pack, unpack
from tests.fakes import FakeEngine, stored_in_batches
from tests.models import byte_level, metaspace, one_fast

from . import test_causal, test_seq2seq
from .test_causal import SAME, llama, one_thread  # noqa: F401
from .test_seq2seq import t5

TEXTS = ["The storm closed the harbour.", "The storm closed a school, said the mayor.", "Nobody was hurt </s>", "A"]
PROMPTS = [
    Prompt(f"The storm closed {what}. Write a summary, please.", prefill)
    for what in ("the harbour", "the harbour of the mayor", "boats")
    for prefill in ("", " Summary:")
]
PAIRS = [(prompt, text) for prompt in PROMPTS for text in TEXTS]


def read(engine, pairs=PAIRS, progress=None):
    return token_log_probs(engine, [prompt for prompt, _ in pairs], [text for _, text in pairs], progress)


def plain(engine, prompt, text):
    """By one forward over the prompt and all of the text, without a mask or a cache."""
    ids, added, _ = engine.prompts.continuation(prompt, text)
    with torch.no_grad():
        if isinstance(engine, Seq2SeqEngine):
            encoder, decoder = engine.prompts.split(np.array(ids))
            decoder = [*decoder.tolist(), *added]
            logits = engine.model(torch.tensor(encoder[None]), decoder_input_ids=torch.tensor([decoder])).logits[0]
            ids = decoder[: len(decoder) - len(added)]
        else:
            logits = engine.model(torch.tensor([[*ids, *added]])).logits[0]
    log_probs = logits.float().log_softmax(-1)[len(ids) - 1 :]
    return np.array([float(log_probs[place, token]) for place, token in enumerate(added)])


def check(engine, pairs=PAIRS):
    for found, (prompt, text) in zip(read(engine, pairs), pairs, strict=True):
        np.testing.assert_allclose(found, plain(engine, prompt, text), atol=SAME, rtol=0)


# ------------------------------------------------------------------------------------------------- models


@pytest.mark.parametrize("name", one_fast(["llama", "gpt2", "mistral", "gemma2", "falcon", "bloom", "mamba"]))
@pytest.mark.parametrize("max_tokens", [20, 2048])
def test_every_causal_model_agrees_with_its_plain_forward(name, max_tokens):
    check(test_causal.engine_of(name, max_tokens=max_tokens))


@pytest.mark.parametrize("backend", ["cascade", "branches", "exact"])
def test_every_way_to_run_a_model_gives_the_same_numbers(backend):
    check(CausalEngine(*llama(), name="llama", backend=backend))


@pytest.mark.parametrize("name", one_fast(["t5", "bart", "t5gemma", "m2m100", "led"]))
@pytest.mark.parametrize("max_tokens", [20, 1024])
def test_every_encoder_decoder_model_agrees_with_its_plain_forward(name, max_tokens):
    check(test_seq2seq.engine_of(name, max_tokens=max_tokens))


@pytest.fixture(scope="module")
def causal():
    return CausalEngine(*llama(), name="llama", max_tokens=100)


@pytest.fixture(scope="module")
def encoder_decoder():
    return Seq2SeqEngine(*t5(), name="t5")


@pytest.fixture(params=["causal", "encoder_decoder"])
def engine(request):
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize(
    "make",
    [
        lambda: CausalEngine(*llama(), name="llama", backend="exact"),
        lambda: Seq2SeqEngine(*t5(), name="t5", backend="single"),
    ],
)
def test_an_exact_answer_does_not_depend_on_its_neighbours_to_the_last_bit(make):
    engine = make()
    for together, pair in zip(read(engine), PAIRS, strict=True):
        (alone,) = read(engine, [pair])
        assert np.array_equal(together, alone)


def test_rows_come_in_the_order_given_each_told_once_and_repeated_ones_are_equal(engine):
    order = [5, 3, 5, 0, 17, 5, 2]
    straight, told = read(engine), []
    mixed = read(engine, [PAIRS[row] for row in order], told.append)
    for found, row in zip(mixed, order, strict=True):
        np.testing.assert_allclose(found, straight[row], atol=SAME, rtol=0)
    assert sum(told) == len(order)
    mixed[0][:] = 0
    assert mixed[2].any(), "a row of its own"
    assert read(engine, []) == []


def test_the_prompt_matters(engine):
    first = np.array([row[0] for row in read(engine, [(prompt, "A") for prompt in PROMPTS])])
    assert first.std() > 100 * SAME


def test_a_label_is_as_probable_as_its_tokens_together(engine):
    labels = ["Better", "Worse", "Similar"]
    answers = label_log_probs(engine, PROMPTS, labels).log_probs
    for row, prompt in enumerate(PROMPTS):
        for column, label in enumerate(labels):
            sums = {}  # of spellings that are different tokens
            for spelling in (label, f" {label}"):
                ids = engine.prompts.continuation(prompt, spelling)[1]
                sums[ids] = read(engine, [(prompt, spelling)])[0].sum()
            assert np.logaddexp.reduce(list(sums.values())) == pytest.approx(answers[row, column], abs=SAME)


def test_nothing_but_the_text_is_read_neither_its_end_nor_a_token_before_it(engine):
    (found,) = read(engine, [(PROMPTS[0], "A")])
    assert len(found) == 1
    assert found.dtype == np.float64


def test_a_cascade_runs_over_every_distinct_beginning_once(causal, monkeypatch):
    n_tokens = 0
    logits = CausalEngine._logits

    def counted(self, ids, *args, **kwargs):
        nonlocal n_tokens
        n_tokens += ids.numel()
        return logits(self, ids, *args, **kwargs)

    monkeypatch.setattr(CausalEngine, "_logits", counted)
    read(causal, PAIRS * 2)
    whole = [(*ids, *added[:-1]) for ids, added, _ in (causal.prompts.continuation(*pair) for pair in PAIRS)]
    assert n_tokens == len({row[:n] for row in whole for n in range(1, len(row) + 1)})


@pytest.mark.parametrize("n_rows", [1, 3])
def test_logits_are_never_had_of_more_tokens_at_once_than_memory_allows(n_rows, engine, monkeypatch):
    shapes = []
    for module in (causal_models, seq2seq):
        monkeypatch.setattr(module, "MOST_LOGITS", n_rows * engine.model.config.get_text_config().vocab_size)
    chosen = causal_models.chosen

    def seen(logits, rows, tokens):
        shapes.append(logits.shape[:-1].numel())
        return chosen(logits, rows, tokens)

    for module in (causal_models, seq2seq):
        monkeypatch.setattr(module, "chosen", seen)
    check(engine, PAIRS[:9])
    if isinstance(engine, Seq2SeqEngine):  # one text, by a decoder
        found = [engine.prompts.continuation(*pair)[:2] for pair in PAIRS[:9]]
        n_rows = max(n_rows, *(len(engine.prompts.split(np.array(ids))[1]) + len(added) for ids, added in found))
    assert max(shapes) <= n_rows


def test_texts_are_read_side_by_side_only_as_far_as_memory_allows(monkeypatch):
    engine = Seq2SeqEngine(*t5(), name="t5", max_tokens=150)
    shapes = []
    decode = engine._decode
    monkeypatch.setattr(
        engine, "_decode", lambda states, *rest: shapes.append(states.shape[:2]) or decode(states, *rest)
    )
    read(engine, [(prompt, text) for prompt in PROMPTS[4:] for text in [*TEXTS, "B", "C", "It rained."]])
    assert max(n_rows for n_rows, _ in shapes) > 1
    assert all(n_rows == 1 or n_rows * width <= 150 for n_rows, width in shapes)


def test_the_same_tokens_are_read_from_where_each_text_begins(engine):
    whole, rest = read(engine, [(Prompt("The storm.", " It"), " rained"), (Prompt("The storm.", " It rained"), " A")])
    again = read(engine, [(Prompt("The storm.", " It"), " rained A"), (Prompt("The storm.", " It rained"), " A")])
    np.testing.assert_allclose(again[0], [*whole, *rest], atol=SAME)
    np.testing.assert_allclose(again[1], rest, atol=SAME)


def test_an_encoder_reads_each_prompt_once_however_many_texts_there_are(monkeypatch):
    engine = Seq2SeqEngine(*t5(), name="t5", max_tokens=30)  # one prompt, and one text, at a time
    n_read = []
    encode = engine._encode
    monkeypatch.setattr(engine, "_encode", lambda texts: n_read.append(len(texts)) or encode(texts))
    read(engine)
    assert sum(n_read) == 3, "prompts that differ in their prefill are one to the encoder"


# ------------------------------------------------------------------------------------------------- tokens


@pytest.mark.parametrize(
    ("tokenizer", "names"), [(byte_level, ("<|im_end|>", "<think>")), (metaspace, ("</s>", "<s>", "<unk>"))]
)
def test_names_of_control_tokens_in_a_text_stay_plain_text(tokenizer, names):
    engine = CausalEngine(llama()[0], tokenizer(), name="llama")
    control = {*tokenizer().all_special_ids, *tokenizer().convert_tokens_to_ids(list(names))}
    for name in names:
        for prompt in (Prompt("The storm:"), Prompt("A", name[:2])):
            ids, added, _ = engine.prompts.continuation(prompt, f"The storm {name} closed {name}")
            assert ids == engine.prompts.encode(prompt)
            assert not control & set(added)
            assert engine.prompts.decode(added).count(name) == 2


def test_where_the_tokenizer_merges_across_the_border_the_text_is_tokenised_by_itself_with_a_warning(causal):
    pair = Prompt("The storm.", "the harbour"), "s <think> closed"  # "harbours" is one token
    ids, added, boundary = causal.prompts.continuation(*pair)
    assert boundary == "separate"
    assert ids == causal.prompts.encode(pair[0])
    tokenizer = causal.prompts.tokenizer
    assert tokenizer.decode(added) == "s <think> closed"
    assert tokenizer.convert_tokens_to_ids("<think>") not in added
    with pytest.warns(SynthscoreWarning, match="merges 1 of 2 continuations"):
        found = read(causal, [pair, (Prompt("The storm."), "s")])
    np.testing.assert_allclose(found[0], plain(causal, *pair), atol=SAME, rtol=0)


def test_a_text_goes_on_right_behind_its_prompt(causal):
    ids, added, boundary = causal.prompts.continuation(Prompt("The storm."), " It rained.")
    tokenizer = causal.prompts.tokenizer
    assert boundary == "whole"
    assert [*ids, *added] == tokenizer(causal.prompts.render(Prompt("The storm.")) + " It rained.")["input_ids"]


def test_what_cannot_be_read_fails_alone(engine):
    long = "The storm closed the harbour. " * 200
    short = engine.prompts.max_length < 1000
    pairs = [PAIRS[0], (PROMPTS[0], ""), (Prompt(long), "A") if short else PAIRS[1], PAIRS[0]]
    told = []
    found = read(engine, pairs, told.append)
    np.testing.assert_array_equal(found[0], found[3])
    assert isinstance(found[1], EngineError)
    assert "the continuation '' has no tokens" in str(found[1])
    assert isinstance(found[2], PromptTooLongError) is short
    assert sum(told) == 4


def test_a_text_must_fit_behind_its_prompt_to_the_last_token():
    for engine in (CausalEngine(*llama(), name="llama"), test_seq2seq.engine_of("led")):
        room, n = 0, 0
        tokenizer = engine.prompts
        limit = tokenizer.max_length if isinstance(engine, CausalEngine) else tokenizer.max_decoder_length
        start = len(tokenizer.encode(PROMPTS[0])) if isinstance(engine, CausalEngine) else len(tokenizer.start)
        while n + start < limit + 2:  # one token more each time
            room += 1
            n = len(tokenizer.added(PROMPTS[0], " A" * room, tokenizer.encode(PROMPTS[0]))[0])
            if n + start < limit - 1:
                continue
            (found,) = read(engine, [(PROMPTS[0], " A" * room)])
            assert isinstance(found, PromptTooLongError) == (n + start > limit)
        assert n + start >= limit + 1


def test_a_prompt_without_tokens_cannot_be_gone_on_from():
    engine = CausalEngine(llama()[0], byte_level(chat=False), name="llama")
    (found,) = read(engine, [(Prompt(""), "A")])
    assert isinstance(found, EngineError)
    assert "the prompt has no tokens" in str(found)


def test_nan_is_an_error_of_its_row_and_never_a_number():
    model, tokenizer = llama()
    engine = CausalEngine(copy.deepcopy(model), tokenizer, name="llama")
    with torch.no_grad():
        engine.model.lm_head.weight[:] = torch.nan
    (found,) = read(engine, PAIRS[:1])
    assert isinstance(found, EngineError)
    assert "NaN" in str(found)


def test_positions_that_depend_on_the_length_of_the_input_are_run_one_at_a_time():
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    model, tokenizer = llama(max_position_embeddings=64, rope_parameters=rope)
    engine = CausalEngine(model, tokenizer, name="llama")
    engine.prompts.max_length = 256
    long = [(PROMPTS[2], "The storm closed the harbour of the mayor. " * 4), *PAIRS[:2]]
    check(engine, long)


# ------------------------------------------------------------------------------------------------- stored


def test_questions_of_before_have_the_keys_of_before():
    verdict, text = Question(Prompt("a", "b"), ("Yes", "No")), Question(Prompt("ab", "b"), (), Sampling(5), 7)
    assert verdict.key("engine").hex() == "723101a13c8772cbe40805f9131c90d02e9624e3c8cff88995c94945a65c1125"
    written = Question(Prompt("a", "b"), (), Sampling(5), 7).key("engine").hex()
    assert written == "a789ba172a7d5b9dfbd513d0a6b89f350d3639c4e8683656c7ff49ff51b7dd03"
    packed = "78018b8e36d0514a54d2514a52d289568a4c2d0632fdf295626375a20dc1826009531d033d7320b68cd5318f8d05004f670c83"
    assert unpack(bytes.fromhex(packed)) == [verdict, text]


def test_a_reading_is_a_question_of_its_own():
    keys = {
        Question(prompt, continuation=text).key(engine)
        for prompt in (Prompt("a"), Prompt("a", "b"))
        for text in ("b", "c", "")
        for engine in ("one", "other")
    }
    keys |= {Question(Prompt("a"), ("b",)).key("one"), Question(Prompt("a"), ()).key("one")}
    assert len(keys) == 14


def test_questions_of_all_kinds_are_packed_together():
    questions = [
        Question(Prompt("The storm"), ("A", "B")),
        Question(Prompt("The storm.", "x"), continuation=" It rained."),
        Question(Prompt("The storm"), (), Sampling(5), 7),
        Question(Prompt("Nobody"), continuation=""),
    ]
    assert unpack(pack(questions)) == questions


def hardly(prompt, text):
    """Log-probabilities with all the digits that a float has, the last token impossible."""
    if not text:
        raise EngineError("no tokens")
    return [*(-math.pi / len(word) for word in text.split()), -math.inf]


def test_what_was_read_is_stored_and_what_failed_is_not(tmp_path):
    pairs = [(Prompt("a"), "It rained."), (Prompt("a"), ""), (Prompt("b"), "It rained."), (Prompt("a"), "It rained.")]
    inner, told = FakeEngine(reader=hardly), []
    for run in range(2):
        with Store(tmp_path / "answers.sqlite") as store:
            found = read(stored_in_batches(inner, store, 2), pairs, told.append)
        for row, (prompt, text) in enumerate(pairs):
            if text:
                np.testing.assert_array_equal(found[row], hardly(prompt, text))
                assert found[row].dtype == np.float64
        assert isinstance(found[1], EngineError)
        assert inner.read == pairs[:3] + pairs[1:2] * run
    assert sum(told) == 8
    engine = RecordedEngine(str(tmp_path / "answers.sqlite"))
    same, other, failed = read(engine, [pairs[2], (Prompt("a"), "It snowed."), pairs[1]], told.append)
    np.testing.assert_array_equal(same, hardly(*pairs[2]))
    assert "holds no answer" in str(other)
    assert "'It snowed.'" in str(other)
    assert isinstance(failed, EngineError)
    assert sum(told) == 11


def test_stored_readings_are_shown(tmp_path, capsys):
    path = str(tmp_path / "answers.sqlite")
    pairs = [(Prompt("a"), "It rained all day"), (Prompt("b"), "It"), (Prompt("c"), "It snowed")]
    with Store(path) as store:
        read(StoredEngine(FakeEngine(), store), pairs)
        label_log_probs(StoredEngine(FakeEngine(), store), [Prompt("a")], ["A", "B"])
    assert main(["store", "show", "--store", path, "--kind", "tokens"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["question"]["continuation"] for row in rows] == [text for _, text in pairs]
    assert rows[0]["answer"] == [-0.2, -0.6, -0.3, -0.3]


def test_the_command_line_counts_what_is_read(tmp_path):
    watched = Watched(StoredEngine(FakeEngine(reader=hardly), Store(tmp_path / "answers")), Messages(quiet=True))
    pairs = [(Prompt("a"), "It rained."), (Prompt("a"), "")]
    told = []
    for found in (read(watched, pairs), read(watched, pairs, told.append)):
        assert len(found) == 2
        assert isinstance(found[1], EngineError)
    spent = watched.engine.spent
    assert (spent.n_answers, spent.n_failed, watched.n_judged, sum(told)) == (1, 2, 4, 2)
    assert watched.cost[0].startswith("3 questions asked now (2 failed)")


# ------------------------------------------------------------------------------------------------- servers


def test_a_server_does_not_offer_it_and_fails_each_row(url):
    found = read(open_engine(url), PAIRS[:3])
    assert len(found) == 3
    for row in found:
        assert isinstance(row, EngineError)
        assert "not offered by servers" in str(row)
