"""Encoder-decoder models against one plain forward a label, on small models with random weights of each kind.

The weights are wide (standard deviation 0.15), so that attention matters. In float32 all agree within 5e-5 nats
(measured: 6e-6).
"""

import copy

import numpy as np
import pytest
import torch
import transformers as tf
from tokenizers import processors

from synthscore.cli.app import main
from synthscore.engine import Engine, Generation, Prompt, Sampling, generate, label_log_probs
from synthscore.engines import open_engine
from synthscore.engines.seq2seq import Seq2SeqEngine
from synthscore.engines.tree.causal import CausalEngine
from synthscore.errors import EngineError, LabelError, PromptTooLongError, SynthscoreWarning
from synthscore.ladders.references import References
from tests import factories
from tests.models import byte_level, one_fast, sentence_piece

from .test_causal import SAME, one_thread, wide  # noqa: F401

LABELS = ["Better", "Worse", "Similar"]  # 1 to 5 tokens
PROMPTS = [
    Prompt(f"The storm closed {what}. Which of the two summaries is {how}?", prefill)
    for what in ("the harbour", "a school", "boats and fishermen of the mayor")
    for how in ("better", "similar to it, in the end")
    for prefill in ("", " Summary")
]
T5 = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 3, "num_heads": 4, "decoder_start_token_id": 0}
BART = {
    "d_model": 32,
    **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in
       {"layers": 3, "attention_heads": 4, "ffn_dim": 64}.items()},
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 2,
}  # fmt: skip
TABLE = {"max_position_embeddings": 256}


def bart_like(chat=False):
    """The tests' byte-level tokenizer, which puts tokens around a text as BART's does."""
    tokenizer = copy.deepcopy(byte_level(chat))
    ends = [(name, tokenizer.convert_tokens_to_ids(name)) for name in ("<|im_start|>", "<|im_end|>")]
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<|im_start|> $A <|im_end|>", special_tokens=ends
    )
    tokenizer.bos_token = "<|im_start|>"
    return tokenizer


def kind(model, config, tokenizer=sentence_piece, **sizes):
    """A model of an architecture that takes the usual names of sizes."""

    def make(**more):
        made = getattr(tf, config)(vocab_size=len(tokenizer()), **sizes | more)
        return wide(getattr(tf, model), made), tokenizer()

    return make


def t5gemma():
    tokenizer = byte_level()  # a chat template
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4}
    sizes |= {"vocab_size": len(tokenizer), "head_dim": 8, "num_key_value_heads": 2, "sliding_window": 16}
    sides = {side: tf.T5GemmaModuleConfig(**sizes) for side in ("encoder", "decoder")}
    config = tf.T5GemmaConfig(**sides, vocab_size=len(tokenizer), decoder_start_token_id=2)
    return wide(tf.T5GemmaForConditionalGeneration, config), tokenizer


t5 = kind("T5ForConditionalGeneration", "T5Config", **T5)
EOS = byte_level().eos_token_id
bart = kind("BartForConditionalGeneration", "BartConfig", bart_like, **BART | TABLE | {"decoder_start_token_id": EOS})
LONG = ("LongT5ForConditionalGeneration", "LongT5Config")
MODELS = {
    "t5": t5,
    "t5 1.1": kind("T5ForConditionalGeneration", "T5Config", **T5, feed_forward_proj="gated-gelu"),
    "mt5": kind("MT5ForConditionalGeneration", "MT5Config", **T5),
    "umt5": kind("UMT5ForConditionalGeneration", "UMT5Config", **T5),  # a bias of positions in every layer
    "longt5": kind(*LONG, **T5, local_radius=7),
    "longt5 global": kind(*LONG, **T5, local_radius=7, encoder_attention_type="transient-global", global_block_size=4),
    "t5gemma": t5gemma,
    "bart": bart,  # learned positions, two tokens that the decoder starts from
    "mbart": kind("MBartForConditionalGeneration", "MBartConfig", byte_level, **BART, **TABLE),
    "m2m100": kind("M2M100ForConditionalGeneration", "M2M100Config", byte_level, **BART, **TABLE),  # counts no padding
    "led": kind(
        "LEDForConditionalGeneration",
        "LEDConfig",
        byte_level,
        **BART,
        attention_window=16,
        max_encoder_position_embeddings=256,
        max_decoder_position_embeddings=128,
    ),
}


def engine_of(name, **options):
    return Seq2SeqEngine(*MODELS[name](), name=name, **options)


def plain(engine, prompts, labels):
    """log P(label | prompt) by one plain forward a form: one prompt, all decoder tokens, no mask, no cache."""
    rows = []
    for prompt in prompts:
        encoder, decoder = engine.prompts.split(np.array(engine.prompts.encode(prompt)))
        row = []
        for forms in engine.prompts.label_forms(prompt, labels).forms:
            sums = []
            for form in forms:
                with torch.no_grad():
                    logits = engine.model(
                        input_ids=torch.tensor(encoder[None]), decoder_input_ids=torch.tensor([[*decoder, *form]])
                    ).logits[0]
                log_probs = logits.float().log_softmax(-1)[len(decoder) - 1 :]
                sums.append(sum(float(log_probs[place, token]) for place, token in enumerate(form)))
            row.append(np.logaddexp.reduce(sums))
        rows.append(row)
    return np.array(rows)


def tokens(engine, ids):
    return engine.prompts.tokenizer.convert_ids_to_tokens(list(ids))


@pytest.fixture(scope="module")
def engine():
    return Seq2SeqEngine(*t5(), name="t5", revision="1f2e")


# ------------------------------------------------------------------------------------------------- tokens


def test_the_encoder_reads_the_prompt_and_its_end_and_the_decoder_starts_with_the_prefill(engine):
    ids = np.array(engine.prompts.encode(Prompt("The storm. ", " Summary")))
    encoder, decoder = engine.prompts.split(ids)
    assert tokens(engine, encoder) == [*engine.prompts.tokenizer.tokenize("The storm."), "</s>"]
    assert tokens(engine, decoder) == ["<pad>", *engine.prompts.tokenizer.tokenize("Summary")]


def test_labels_are_tokenised_as_they_follow_the_decoder_not_the_prompt(engine):
    def forms(prompt, labels):
        found = engine.prompts.label_forms(prompt, labels).forms
        return [[tokens(engine, ids) for ids in each] for each in found]

    # behind nothing, with a space and without are the same; behind "Summary" they are not
    assert forms(Prompt("x:"), ["A", "B"]) == [[["▁A"]], [["▁B"]]]
    assert forms(Prompt("x:", "Summary"), ["A", "B"]) == [[["A"], ["▁A"]], [["B"], ["▁B"]]]
    many = forms(Prompt("x:"), LABELS)
    assert [len(each) for each in many] == [1, 1, 1]
    assert {len(each[0]) for each in many} >= {2, 5}


def test_names_of_control_tokens_in_a_text_stay_plain_text(engine):
    control = set(engine.prompts.tokenizer.all_special_ids)
    for name in ("</s>", "<pad>", "<extra_id_0>", "<unk>"):
        whole = np.array(engine.prompts.encode(Prompt(f"The storm {name} closed the harbour.", f" Summary {name}")))
        encoder, decoder = engine.prompts.split(whole)
        assert not control & {*encoder[:-1].tolist(), *decoder[1:].tolist()}
        assert (encoder[-1], decoder[0]) == (1, 0)  # ours
        assert "".join(tokens(engine, encoder[:-1])).replace("▁", "") == f"Thestorm{name}closedtheharbour."


def test_bart_reads_a_text_between_its_two_ends_and_answers_behind_its_two_starts():
    engine = engine_of("bart")
    start, stop = engine.prompts.tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    encoder, decoder = engine.prompts.split(np.array(engine.prompts.encode(Prompt("A storm.", " B"))))
    text = engine.prompts.tokenizer("A storm.", add_special_tokens=False)["input_ids"]
    assert encoder.tolist() == [start, *text, stop]
    assert decoder[:2].tolist() == list(engine.prompts.start) == [stop, start]
    assert engine.prompts.decode(decoder[2:]) == " B"
    for forced, starts in ((7, (stop, 7)), (stop, (stop,))):
        engine.model.generation_config.forced_bos_token_id = forced
        assert Seq2SeqEngine(engine.model, bart_like(), name="bart").prompts.start == starts


def test_a_decoder_start_that_is_an_ordinary_token_is_not_found_in_texts():
    tokenizer = sentence_piece()
    (ordinary,) = tokenizer.convert_tokens_to_ids(["ummar"])
    engine = Seq2SeqEngine(*t5(decoder_start_token_id=ordinary), name="t5")
    encoder, decoder = engine.prompts.split(np.array(engine.prompts.encode(Prompt("Summary", " Summary"))))
    assert (encoder[-1], decoder[0]) == (tokenizer.eos_token_id, ordinary)
    assert ordinary not in {*encoder.tolist(), *decoder[1:].tolist()}


def test_a_chat_template_goes_around_the_prompt_and_not_around_the_answer():
    engine = Seq2SeqEngine(t5gemma()[0], bart_like(chat=True), name="t5gemma")
    encoder, decoder = engine.prompts.split(np.array(engine.prompts.encode(Prompt("A storm.", "B"))))
    text = engine.prompts.tokenizer.decode(encoder)
    assert text.startswith("<|im_start|>user\nA storm.<|im_end|>")
    assert text.endswith("</think>\n\n")
    assert engine.prompts.tokenizer.decode(decoder[1:]) == "B"
    assert engine.prompts.start == (2,)  # the template says how an answer begins


def test_a_model_that_does_not_say_how_its_decoder_starts_is_refused():
    with pytest.raises(EngineError, match="decoder_start_token_id"):
        Seq2SeqEngine(*t5(decoder_start_token_id=None), name="t5")


# ------------------------------------------------------------------------------------------------- judging


@pytest.mark.parametrize("name", one_fast(MODELS))
@pytest.mark.parametrize("max_tokens", [50, 1024])
def test_every_model_agrees_with_its_plain_forward(name, max_tokens):
    engine = engine_of(name, max_tokens=max_tokens)
    assert engine.backend == "padded"
    answers = label_log_probs(engine, PROMPTS, LABELS)
    np.testing.assert_allclose(answers.log_probs, plain(engine, PROMPTS, LABELS), atol=SAME, rtol=0)
    assert answers.log_probs.std(axis=0).max() > 100 * SAME  # the prompts matter


@pytest.mark.parametrize("backend", ["padded", "single"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_every_way_to_run_a_model_gives_the_same_numbers(backend, attention):
    engine = Seq2SeqEngine(*t5(attn_implementation=attention), name="t5", backend=backend)
    answers = label_log_probs(engine, PROMPTS, [*LABELS, "A", "Yes", "No"])
    np.testing.assert_allclose(
        answers.log_probs, plain(engine, PROMPTS, [*LABELS, "A", "Yes", "No"]), atol=SAME, rtol=0
    )


def test_labels_that_begin_alike_are_each_summed_to_their_end(engine):
    with pytest.raises(LabelError, match="cannot be told apart"):
        label_log_probs(engine, PROMPTS, ["the harbour", "the harbour is"])
    labels = ["the harbour is open", "the harbour is closed", "the school", "Yes"]
    answers = label_log_probs(engine, PROMPTS[:4], labels)
    np.testing.assert_allclose(answers.log_probs, plain(engine, PROMPTS[:4], labels), atol=SAME, rtol=0)


def test_the_prefill_moves_the_labels(engine):
    answers = label_log_probs(engine, [Prompt("The storm."), Prompt("The storm.", " Summary")], ["A", "B"])
    assert abs(answers.log_probs[0] - answers.log_probs[1]).max() > 100 * SAME


def test_prefills_of_the_same_tokens_may_be_followed_by_different_tokens(engine):
    prompts = [Prompt("The storm.", "Summary"), Prompt("The storm is near.", "Summary ")]
    forms = [engine.prompts.label_forms(prompt, LABELS).forms for prompt in prompts]
    assert forms[0] != forms[1]
    answers = label_log_probs(engine, prompts, LABELS)
    np.testing.assert_allclose(answers.log_probs, plain(engine, prompts, LABELS), atol=SAME, rtol=0)


def test_rows_come_in_the_order_of_the_prompts(engine):
    order = [3, 8, 1, 1, 0, 7, 2, 6, 5, 4, 3]
    straight = label_log_probs(engine, PROMPTS, LABELS)
    mixed = label_log_probs(engine, [PROMPTS[row] for row in order], LABELS)
    np.testing.assert_allclose(mixed.log_probs, straight.log_probs[order], atol=SAME, rtol=0)
    assert [rival.token for rival in mixed.other_tokens] == [straight.other_tokens[row].token for row in order]


def test_the_contract_is_kept(engine):
    assert isinstance(engine, Engine)
    assert len(label_log_probs(engine, [], LABELS)) == 0
    assert generate(engine, [], Sampling(), []) == []


def test_each_distinct_prompt_is_read_once_whatever_its_labels_and_prefills():
    engine = Seq2SeqEngine(*t5(), name="t5", backend="single")
    prompts = [Prompt("The storm closed the harbour.", prefill) for prefill in ("", " Summary", "", " Summary")]
    answers = label_log_probs(engine, prompts, LABELS)
    encoder, short = engine.prompts.split(np.array(engine.prompts.encode(prompts[0])))
    _, long = engine.prompts.split(np.array(engine.prompts.encode(prompts[1])))
    assert answers.usage.n_in == 4 * len(encoder) + 2 * len(short) + 2 * len(long)
    n_decoded = 0
    for prompt, start in zip(prompts, (short, long), strict=False):
        forms = engine.prompts.label_forms(prompt, LABELS).all
        n_decoded += sum(len(start) + len(ids) for ids in {form[:n] for form in forms for n in range(len(form))})
    assert answers.usage.n_computed == len(encoder) + n_decoded
    one_token = label_log_probs(engine, prompts, ["A", "B"])
    assert one_token.usage.n_computed == len(encoder) + len(short) + len(long)


def test_padding_is_counted_among_the_tokens_computed(engine):
    prompts = [Prompt("The storm."), Prompt("The storm closed the harbour. " * 4)]
    longest = len(engine.prompts.split(np.array(engine.prompts.encode(prompts[1])))[0])
    assert label_log_probs(engine, prompts, ["A", "B"]).usage.n_computed == 2 * longest + 2


@pytest.mark.parametrize("max_tokens", [1, 60, 10_000])
def test_no_forward_reads_more_than_max_tokens_but_for_a_longer_prompt(max_tokens, monkeypatch):
    engine = Seq2SeqEngine(*t5(), name="t5", max_tokens=max_tokens)
    sizes = []
    encode = engine.model.encoder.forward
    monkeypatch.setattr(
        engine.model.encoder, "forward", lambda **given: sizes.append(given["input_ids"].shape) or encode(**given)
    )
    label_log_probs(engine, [*PROMPTS, Prompt("storm " * 20), Prompt("boats")], LABELS)
    assert all(rows == 1 or rows * width <= max_tokens for rows, width in sizes)
    assert sum(rows for rows, _ in sizes) == 8  # distinct prompts
    assert sorted((width for _, width in sizes), reverse=True) == [width for _, width in sizes]
    assert max_tokens != 10_000 or len(sizes) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_single_answers_do_not_depend_on_their_neighbours_to_the_last_bit(dtype):
    model, tokenizer = t5()
    engine = Seq2SeqEngine(model.to(dtype), tokenizer, name="t5", backend="single")
    together = label_log_probs(engine, PROMPTS, LABELS).log_probs
    alone = np.concatenate([label_log_probs(engine, [prompt], LABELS).log_probs for prompt in PROMPTS])
    assert np.array_equal(together, alone)
    sampling = Sampling(max_new_tokens=8, temperature=1.0)
    assert generate(engine, PROMPTS[:3], sampling, [1, 2, 3])[1:2] == generate(engine, PROMPTS[1:2], sampling, [2])


def test_bfloat16_is_as_near_to_float32_as_a_plain_bfloat16_forward():
    exact = plain(engine_of("t5"), PROMPTS, LABELS)
    model, tokenizer = t5()
    engine = Seq2SeqEngine(model.to(torch.bfloat16), tokenizer, name="t5")
    shared, alone = label_log_probs(engine, PROMPTS, LABELS).log_probs, plain(engine, PROMPTS, LABELS)
    assert np.square(shared - exact).mean() <= 1.5**2 * np.square(alone - exact).mean()
    assert "|dtype:bfloat16|backend:padded|max_tokens:1024|" in str(engine.signature)


def test_label_mass_is_at_most_one_and_the_rival_is_no_label(engine):
    answers = label_log_probs(engine, PROMPTS, LABELS)
    assert (answers.label_mass <= 1 + 1e-6).all()
    for prompt, rival in zip(PROMPTS, answers.other_tokens, strict=True):
        encoder, decoder = engine.prompts.split(np.array(engine.prompts.encode(prompt)))
        with torch.no_grad():
            given = {"input_ids": torch.tensor(encoder[None]), "decoder_input_ids": torch.tensor(decoder[None])}
            log_probs = engine.model(**given).logits[0, -1].log_softmax(-1)
        log_probs[list(engine.prompts.label_forms(prompt, LABELS).starts)] = -torch.inf
        assert rival.log_prob == pytest.approx(float(log_probs.max()), abs=SAME)
        assert rival.token == engine.prompts.tokenizer.decode([int(log_probs.argmax())])


def test_labels_that_cannot_be_said_are_refused(engine):
    with pytest.raises(LabelError, match="cannot write the label"):
        label_log_probs(engine, PROMPTS, ["Better", "世界"])


def test_labels_that_merge_with_the_prefill_are_warned_about():
    engine = engine_of("mbart")
    with pytest.warns(SynthscoreWarning, match="merges the labels"):
        answers = label_log_probs(engine, [Prompt("The storm.", "Answer: B")], ["etter", "x"])
    assert not answers.failures


def test_progress_counts_every_prompt_once():
    engine = engine_of("bart", max_tokens=100)
    counts = []
    prompts = [*PROMPTS, PROMPTS[0], Prompt("storm " * 500)]
    label_log_probs(engine, prompts, LABELS, counts.append)
    assert sum(counts) == len(prompts)
    counts.clear()
    generate(engine, prompts, Sampling(2), [0] * len(prompts), counts.append)
    assert sum(counts) == len(prompts)


# ------------------------------------------------------------------------------------------------- lengths


def test_a_prompt_that_is_too_long_fails_alone():
    engine = engine_of("bart")
    answers = label_log_probs(engine, [PROMPTS[0], Prompt("storm " * 500), PROMPTS[1]], LABELS)
    assert list(answers.failures) == [1]
    assert "expected at most 256: the encoder takes 256" in answers.failures[1]
    np.testing.assert_allclose(answers.log_probs[[0, 2]], plain(engine, PROMPTS[:2], LABELS), atol=SAME, rtol=0)
    assert isinstance(generate(engine, [Prompt("storm " * 500)], Sampling(2), [0])[0], PromptTooLongError)


def test_the_longest_prompt_and_answer_that_fit_are_read():
    engine = engine_of("led")  # 256 tokens, and 128 of an answer
    n_frame = len(engine.prompts.encode(Prompt(""))) - 1
    longest = 256 - n_frame
    answers = label_log_probs(engine, [Prompt("x" * longest), Prompt("x" * (longest + 1))], LABELS)
    assert list(answers.failures) == [1]
    n_label = engine.prompts.label_forms(PROMPTS[0], LABELS).n_longest
    prefills = [Prompt("A storm.", "x" * n) for n in (127 - n_label, 128 - n_label)]
    answers = label_log_probs(engine, prefills, LABELS)
    assert list(answers.failures) == [1]
    assert f"{n_label} must be left" in answers.failures[1]
    engine._stop_ids = frozenset()
    texts = generate(engine, [Prompt("A storm.", "x" * n) for n in (124, 126, 127)], Sampling(50), [0, 0, 0])
    assert [(text.n_tokens, text.finish_reason) for text in texts[:2]] == [(3, "length"), (1, "length")]
    assert isinstance(texts[2], PromptTooLongError)


def test_relative_positions_take_any_length():
    model, tokenizer = t5(n_positions=64)
    engine = Seq2SeqEngine(model, tokenizer, name="t5")
    assert engine.prompts.takes == "takes prompts of any length; trained with up to 64 tokens"
    prompts = [Prompt("The storm closed the harbour. " * 12)]
    answers = label_log_probs(engine, prompts, LABELS)
    np.testing.assert_allclose(answers.log_probs, plain(engine, prompts, LABELS), atol=SAME, rtol=0)


def test_a_prompt_without_tokens_fails_alone(engine, monkeypatch):
    monkeypatch.setattr(engine.prompts, "_behind", [])
    assert list(label_log_probs(engine, [PROMPTS[0], Prompt(" ")], LABELS).failures) == [1]


# ------------------------------------------------------------------------------------------------- checks at load


def broken(model, monkeypatch, side, change):
    forward = getattr(model, side).forward
    monkeypatch.setattr(getattr(model, side), "forward", lambda **given: forward(**given | change(given)))
    return model


def test_a_model_that_reads_padding_is_run_one_prompt_at_a_time(monkeypatch):
    model, tokenizer = t5()
    model = broken(model, monkeypatch, "encoder", lambda given: {"attention_mask": None})
    with pytest.warns(SynthscoreWarning, match=r"one at a time, .* as padded, log-probabilities differ by"):
        engine = Seq2SeqEngine(model, tokenizer, name="t5")
    assert engine.backend == "single"
    answers = label_log_probs(engine, PROMPTS, LABELS)
    np.testing.assert_allclose(answers.log_probs, plain(engine, PROMPTS, LABELS), atol=SAME, rtol=0)
    with pytest.raises(EngineError, match="Try backend 'auto'"):
        Seq2SeqEngine(model, tokenizer, name="t5", backend="padded")


def test_a_backend_of_other_models_is_refused():
    with pytest.raises(EngineError, match="backend is 'tree', expected one of padded, single, or auto"):
        Seq2SeqEngine(*t5(), name="t5", backend="tree")


def test_a_model_that_answers_nan_is_refused():
    model, tokenizer = t5()
    with torch.no_grad():
        model.shared.weight[5] = torch.nan
    with pytest.raises(EngineError, match="NaN"):
        Seq2SeqEngine(model, tokenizer, name="t5")


def test_float16_and_random_attention_are_refused():
    model, tokenizer = t5()
    with pytest.raises(EngineError, match="float16 overflows"):
        Seq2SeqEngine(model.half(), tokenizer, name="t5")
    sparse = kind("BigBirdPegasusForConditionalGeneration", "BigBirdPegasusConfig", byte_level, **BART, **TABLE)
    with pytest.raises(EngineError, match="drawn at random"):
        Seq2SeqEngine(*sparse(), name="bigbird")
    assert Seq2SeqEngine(*sparse(attention_type="original_full"), name="bigbird").backend == "padded"


# ------------------------------------------------------------------------------------------------- writing


def greedy_ids(engine, prompt, n):
    """The most probable token n times, by the plain forward."""
    encoder, decoder = engine.prompts.split(np.array(engine.prompts.encode(prompt)))
    ids = decoder.tolist()
    with torch.no_grad():
        for _ in range(n):
            given = {"input_ids": torch.tensor(encoder[None]), "decoder_input_ids": torch.tensor([ids])}
            ids.append(int(engine.model(**given).logits[0, -1].argmax()))
    return ids[-n:]


@pytest.mark.parametrize("name", one_fast(["t5", "longt5 global", "t5gemma", "bart", "led"]))
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_text_does_not_depend_on_its_neighbours(name, temperature):
    engine = engine_of(name)
    sampling = Sampling(max_new_tokens=12, temperature=temperature, top_p=0.95)
    together = generate(engine, PROMPTS, sampling, range(12))
    alone = [generate(engine, [prompt], sampling, [seed])[0] for seed, prompt in enumerate(PROMPTS)]
    assert together == alone
    assert all(isinstance(text, Generation) for text in together)


@pytest.mark.parametrize("row", [0, 1])
def test_a_greedy_text_takes_the_most_probable_token_each_time(engine, row):
    text = generate(engine, [PROMPTS[row]], Sampling(max_new_tokens=8, temperature=0), [0])[0]
    written = greedy_ids(engine, PROMPTS[row], 8)
    assert engine.prompts.tokenizer.eos_token_id not in written
    assert (text.text, text.n_tokens, text.finish_reason) == (engine.prompts.decode(written), 8, "length")


def test_the_seed_decides_the_text(engine):
    texts = generate(engine, [PROMPTS[0]] * 4, Sampling(max_new_tokens=20, temperature=2.0, top_p=1.0), [1, 2, 1, -3])
    assert texts[0] == texts[2]
    assert len({text.text for text in texts}) == 3


def test_a_text_ends_at_the_end_token_or_before_a_stop_string():
    model, tokenizer = t5()
    engine = Seq2SeqEngine(model, tokenizer, name="t5")
    written = greedy_ids(engine, PROMPTS[2], 3)
    whole = generate(engine, [PROMPTS[2]], Sampling(max_new_tokens=12, temperature=0), [0])[0]
    word = whole.text[4:6]
    text = generate(engine, [PROMPTS[2]], Sampling(max_new_tokens=12, temperature=0, stop=("no such", word)), [0])[0]
    assert (text.text, text.finish_reason) == (whole.text[: whole.text.find(word)], "stop")
    model.generation_config.eos_token_id = [1, written[2]]
    n = written.index(written[2])
    text = generate(Seq2SeqEngine(model, tokenizer, name="t5"), [PROMPTS[2]], Sampling(9, temperature=0), [0])[0]
    assert text == Generation(engine.prompts.decode(written[:n]), "stop", n + 1)


# ------------------------------------------------------------------------------------------------- opening


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "small-t5"
    model, tokenizer = t5()
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


def test_a_folder_whose_config_says_encoder_decoder_opens_as_one(folder):
    opened = open_engine(str(folder), device="cpu")
    assert isinstance(opened, Seq2SeqEngine)
    np.testing.assert_allclose(
        label_log_probs(opened, PROMPTS, LABELS).log_probs, plain(opened, PROMPTS, LABELS), atol=SAME, rtol=0
    )
    assert str(opened.signature).startswith("model:small-t5@")
    assert "|dtype:float32|backend:padded|chat:none|decoder:0|" in str(opened.signature)


def test_exact_is_single_in_float32(folder):
    opened = open_engine(str(folder), device="cpu", exact=True)
    assert (opened.backend, opened.model.dtype) == ("single", torch.float32)
    with pytest.raises(EngineError, match="expected one of the two"):
        open_engine(str(folder), device="cpu", exact=True, backend="padded")


def test_other_folders_still_open_as_causal_models(tmp_path):
    config = tf.GPT2Config(vocab_size=len(byte_level()), n_embd=32, n_layer=1, n_head=4, n_positions=256)
    wide(tf.GPT2LMHeadModel, config).save_pretrained(tmp_path)
    byte_level().save_pretrained(tmp_path)
    assert isinstance(open_engine(str(tmp_path), device="cpu"), CausalEngine)


def test_doctor_examines_it(folder, capsys, tmp_path):
    """On short contexts: the small tokenizer makes a token of nearly each letter, and attention is over all pairs of
    tokens. A prompt about an article takes 4,500, which are 5 seconds."""
    References([factories.ladder(f"c{n}", "coherence", "summarization", context="A storm.") for n in range(2)]).save(
        tmp_path / "ladders"
    )
    asked = ["--prompts", "paper", "--protocol", "choose", "--pairs", "2", "--ladders", str(tmp_path / "ladders")]
    main(["doctor", "--model", str(folder), "--device", "cpu", *asked])
    shown = capsys.readouterr().out
    assert "takes prompts of any length" in shown
    assert "(answer) <pad> Summary" in shown
    assert "▁A" in shown
    assert "backend:padded" in shown
