"""Conversations -> replies that a weak language model writes: damage to sentences of people's replies.

    python -m training.weak_replies --corpora CORPORA --out runs/weak-replies.jsonl

A writer of four million parameters reads conversations, then goes on with some of them: with its
likeliest words, and with words drawn from the first .4, .6 and .75 of probability. What it says sounds like a reply, is
dull or odd, and beside the point.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from .corpora import training_documents
from .good_texts import LIMITS
from .tiny_writer import fitted

READ = {"alexa/Topical-Chat": 1, "jfainberg/self_dialogue_corpus": 2}  # source -> one of so many of its documents
TOP_P = (0.0, 0.4, 0.6, 0.75)  # 0: the likeliest word
N_HISTORY = 64  # tokens that the writer sees
BATCH = 64


def conversations(corpora: Path) -> list[str]:
    """Turns, one a line, without the names of the speakers; each ends with a line end."""
    found = []
    seen = dict.fromkeys(READ, 0)
    for row in training_documents(corpora, "dialogue"):
        if row["source"] in READ:
            seen[row["source"]] += 1
            if seen[row["source"]] % READ[row["source"]] == 0:
                found.append("\n".join(line[3:] for line in row["text"].splitlines()) + "\n")
    return found


def replies(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, texts: Sequence[str], n_replies: int
) -> Iterator[str]:
    """Up to n_replies, one way of drawing words after the other, and none twice in a way. Those that are too short, too
    long or do not end are left out; a way gives up after twice as many texts as it needs."""
    end = tokenizer.convert_tokens_to_ids(tokenizer.tokenize("\n")[0])
    low, high = LIMITS["dialogue"]
    wanted = math.ceil(n_replies / len(TOP_P))
    rng = torch.Generator().manual_seed(1)
    torch.manual_seed(1)

    def histories() -> list[list[int]]:
        found: list[list[int]] = []
        while len(found) < BATCH:
            text = texts[int(torch.randint(len(texts), (1,), generator=rng))]
            ids = tokenizer(text)["input_ids"]
            turns = [place for place, token in enumerate(ids) if token == end and place + 1 >= N_HISTORY]
            if turns:
                stop = turns[int(torch.randint(len(turns), (1,), generator=rng))] + 1
                found.append(ids[stop - N_HISTORY : stop])
        return found

    def of_one_way(top_p: float) -> Iterator[str]:
        made: set[str] = set()
        for _ in range(math.ceil(2 * wanted / BATCH)):
            with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
                drawn = model.generate(
                    torch.tensor(histories()),
                    attention_mask=torch.ones(BATCH, N_HISTORY, dtype=torch.long),
                    max_new_tokens=52,
                    do_sample=top_p > 0,
                    top_p=top_p or None,
                    top_k=0 if top_p else None,
                    eos_token_id=[end, tokenizer.eos_token_id],
                    pad_token_id=tokenizer.eos_token_id,
                )
            for row in drawn[:, N_HISTORY:].tolist():
                reply = tokenizer.decode(row[: row.index(end)] if end in row else [], skip_special_tokens=True).strip()
                if low <= len(reply.split()) <= high and reply[-1] in ".!?" and reply not in made:
                    made.add(reply)
                    yield reply

    for top_p in TOP_P:
        yield from islice(of_one_way(top_p), wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=Path("runs/weak-replies.jsonl"))
    parser.add_argument("--steps", type=int, default=700, help="of reading")
    parser.add_argument("--replies", type=int, default=6000)
    args = parser.parse_args()
    texts = conversations(args.corpora)
    model, tokenizer = fitted(texts, width=256, steps=args.steps)
    found = sorted(set(replies(model, tokenizer, texts, args.replies)))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("".join(json.dumps({"text": text}) + "\n" for text in found), encoding="utf-8")
    print(f"{len(found)} replies in {args.out}")


if __name__ == "__main__":
    main()
