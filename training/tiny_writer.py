"""A causal model that writes, badly, made in two minutes on a CPU: for trying `generate --model` without a real one.

    python -m training.tiny_writer --corpora CORPORA --out runs/tiny-writer

A Llama of 1.8 million parameters with a byte-level vocabulary, trained on next tokens of plain text. Its sentences look
like English from afar. It has never seen a prompt. weak_replies.py makes a larger one.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from .corpora import documents

LENGTH = 256
LR = 2e-3


def tokenizer_of(texts: Sequence[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=4096, special_tokens=["<end>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>")


def fitted(texts: Sequence[str], *, width: int, steps: int) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """A writer of four layers that has read so many batches of the texts, and its tokenizer."""
    tokenizer = tokenizer_of(texts)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=width,
        intermediate_size=width * 14 // 5,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
    )
    torch.manual_seed(0)
    model = LlamaForCausalLM(config)
    ids = [token for row in tokenizer(list(texts))["input_ids"] for token in [*row, tokenizer.eos_token_id]]
    rows = torch.tensor(ids[: len(ids) // LENGTH * LENGTH]).view(-1, LENGTH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LR)
    generator = torch.Generator().manual_seed(0)
    loss = torch.tensor(float("nan"))
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = LR * min(1.0, (step + 1) / 20, 0.05 + 2 * (1 - step / steps))
        batch = rows[torch.randint(len(rows), (8,), generator=generator)]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    print(f"{steps} steps, loss {float(loss.detach()):.2f}, {model.num_parameters():,} parameters", flush=True)
    return model.eval(), tokenizer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/tiny-writer"))
    parser.add_argument("--steps", type=int, default=600)
    args = parser.parse_args()
    texts = [row["text"] for row in islice(documents(args.corpora, seed=0), 4000)]
    model, tokenizer = fitted(texts, width=160, steps=args.steps)
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)


if __name__ == "__main__":
    main()
