"""Small tokenizers of the families that models come with, trained on the spot on a page of text; and a small model."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
import torch
import transformers as tf
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

TEXT = """
Which of the two summaries is better? Answer with one word: Better, Worse or Similar. The storm closed the harbour on
Monday, and forty boats stayed in port. The mayor said that repairs would take 3 weeks; fishermen expect to lose a third
of their income. Nobody was hurt. Is "Summary 1" better than Summary 2? Yes. No. A. B. Begin in the end. Schools open!
Reference: It rained. Target: The harbour is closed after a storm, and the boats stay there until it is repaired again.
"""

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    "{% if add_generation_prompt and enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}"
)
LLAMA2 = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if message['role'] != 'user' %}{{ raise_exception('users only') }}{% endif %}"
    "[INST] {{ message['content'] | trim }} [/INST]{% endfor %}"
)


@cache
def byte_level(chat: bool = True) -> PreTrainedTokenizerFast:
    """Byte-level BPE with control tokens that are added afterwards, as Qwen and Llama 3 have it."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=420, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(TEXT.splitlines() * 3, trainer)
    tokenizer.add_special_tokens([AddedToken(name, special=True) for name in ("<|im_start|>", "<|im_end|>", "<|end|>")])
    tokenizer.add_tokens([AddedToken(name, normalized=False) for name in ("<think>", "</think>", "    ", "harbours")])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|end|>", chat_template=CHATML if chat else None
    )


@cache
def word_piece() -> PreTrainedTokenizerFast:
    """WordPiece with [CLS] and [SEP], as BERT has it: no chat template, no beginning-of-sequence token."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([*TEXT.splitlines() * 3, "[ ] < > / |"], trainer)
    ends = [(name, tokenizer.token_to_id(name)) for name in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = processors.BertProcessing(*ends)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="[UNK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )


@cache
def metaspace(chat: bool = True) -> PreTrainedTokenizerFast:
    """Unigram pieces with U+2581 for spaces, <s> and </s> among them; a template in plain text, as Llama 2 has it."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=260,
        special_tokens=special,
        unk_token="<unk>",
        initial_alphabet=list("[]<>/|\n"),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT.splitlines() * 3, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        chat_template=LLAMA2 if chat else None,
    )


@cache
def sentence_piece() -> PreTrainedTokenizerFast:
    """Unigram pieces, every word with U+2581 in front, and the end token behind a text, as T5 has it."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")]
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    special = ["<pad>", "</s>", "<unk>", "<extra_id_0>"]
    trainer = trainers.UnigramTrainer(
        vocab_size=260,
        special_tokens=special,
        unk_token="<unk>",
        initial_alphabet=list("<>/_|0123456789"),
        show_progress=False,
    )
    tokenizer.train_from_iterator([*TEXT.splitlines() * 3, "Summary A. Summary B."], trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        eos_token="</s>",
        pad_token="<pad>",
        additional_special_tokens=["<extra_id_0>"],
    )


def save_model(folder) -> str:
    """A Llama with wide random weights (log-probabilities differ by 0.1 to 1 nats between prompts)."""
    torch.manual_seed(0)
    config = tf.LlamaConfig(
        vocab_size=len(byte_level()),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=256,
        eos_token_id=byte_level().eos_token_id,
    )
    model = tf.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for weights in model.parameters():
            if weights.ndim >= 2:
                weights.normal_(0, 0.15)
    model.save_pretrained(folder)
    byte_level().save_pretrained(folder)
    return str(folder)


def save_without_thinking(folder) -> str:
    """The same, with a chat template that puts no block of thinking before an answer, so that one can go on."""
    save_model(folder)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    tokenizer.chat_template = CHATML.rpartition("{% if")[0]
    tokenizer.save_pretrained(folder)
    return str(folder)


def one_fast(names, fast=1):
    """Parameters of a test: all but the first are slow."""
    return [name if k < fast else pytest.param(name, marks=pytest.mark.slow) for k, name in enumerate(names)]


def save_gguf(path) -> str:
    """The same kind of model with other weights, as Q8_0 in one GGUF file."""
    gguf = pytest.importorskip("gguf")
    tokenizer, rng = byte_level(), np.random.default_rng(0)
    size, inner, heads, layers = 32, 64, 4, 2
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_context_length(256)
    writer.add_embedding_length(size)
    writer.add_feed_forward_length(inner)
    writer.add_block_count(layers)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_dimension_count(size // heads)
    words = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    special = set(tokenizer.all_special_tokens) | {"<think>", "</think>"}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(words)
    writer.add_token_types([gguf.TokenType.CONTROL if word in special else gguf.TokenType.NORMAL for word in words])
    writer.add_token_merges(
        [" ".join(pair) for pair in json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]]
    )
    writer.add_bos_token_id(tokenizer.eos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_chat_template(CHATML)

    def add(name, *shape):
        weights = rng.normal(0, 0.15, shape).astype(np.float32)
        if len(shape) == 1:
            writer.add_tensor(name, 1 + weights)
        else:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(name, gguf.quants.quantize(weights, kind), raw_dtype=kind)

    add("token_embd.weight", len(words), size)
    add("output.weight", len(words), size)
    add("output_norm.weight", size)
    for n in range(layers):
        for name in ("attn_norm", "ffn_norm"):
            add(f"blk.{n}.{name}.weight", size)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{n}.{name}.weight", size, size)
        add(f"blk.{n}.ffn_up.weight", inner, size)
        add(f"blk.{n}.ffn_gate.weight", inner, size)
        add(f"blk.{n}.ffn_down.weight", size, inner)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return str(path)
