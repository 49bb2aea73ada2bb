"""How should the prompts of an encoder-decoder model be read on a CPU, and what do all labels from one encoding save?

    OMP_NUM_THREADS=1 python benchmarks/seq2seq.py [--repeats 3]

A T5 of random weights (8 + 8 layers of 512, the shape of flan-t5-small), prompts of 300-900 tokens, and of 30-120.
Encoder only: one prompt a forward; padded on the right beside others of similar length; packed one behind the other
with a block-diagonal additive mask. Whole answers: the engine, and one forward a label, each of which reads the prompt.
All ways are compared first, then timed in turn, in CPU time. Floor: the encoder's matrix products alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np
import torch
import transformers as tf
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from synthscore.engine import Prompt, label_log_probs
from synthscore.engines.local import TokenIds
from synthscore.engines.seq2seq import Seq2SeqEngine
from synthscore.engines.tree.writing import batches

LABELS = ["better", "worse", "similar to it"]  # 1, 1 and 3 tokens
BUDGETS = (1024, 2048)
SETS = {"300-900 tokens": (10, 300, 900), "30-120 tokens": (80, 30, 120)}


def tokenizer() -> tf.PreTrainedTokenizerFast:
    words = ["<pad>", "</s>", "<unk>", *" ".join(LABELS).split(), *(f"w{n}" for n in range(1000))]
    made = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    return tf.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")


def t5() -> tf.T5ForConditionalGeneration:
    torch.manual_seed(0)
    sizes = {
        "d_model": 512,
        "d_kv": 64,
        "num_heads": 6,
        "d_ff": 1024,
        "num_layers": 8,
        "feed_forward_proj": "gated-gelu",
    }
    return tf.T5ForConditionalGeneration(tf.T5Config(vocab_size=32128, decoder_start_token_id=0, **sizes))


def side_by_side(engine: Seq2SeqEngine, texts: Sequence[TokenIds]) -> list[torch.Tensor]:
    """The encoder's states of each text, in order, as the engine gets them."""
    states: dict[int, torch.Tensor] = {}
    for batch in batches(texts, engine._n_beside):
        found, _ = engine._encode([texts[index] for index in batch])
        states.update((index, found[row, : len(texts[index])]) for row, index in enumerate(batch))
    return [states[index] for index in range(len(texts))]


@torch.inference_mode()
def packed(engine: Seq2SeqEngine, texts: Sequence[TokenIds]) -> list[torch.Tensor]:
    """The same, from texts one behind the other that do not see each other."""
    groups: list[list[TokenIds]] = [[]]
    for text in texts:
        if groups[-1] and sum(map(len, groups[-1])) + len(text) > engine.max_tokens:
            groups.append([])
        groups[-1].append(text)
    states: list[torch.Tensor] = []
    for group in groups:
        lengths = torch.tensor([len(text) for text in group])
        owner = torch.arange(len(group)).repeat_interleave(lengths)
        mask = torch.zeros(len(owner), len(owner)).masked_fill_(owner[:, None] != owner, torch.finfo(torch.float32).min)
        ids = torch.from_numpy(np.concatenate(group)).long()[None]
        found = engine.model.encoder(input_ids=ids, attention_mask=mask[None, None]).last_hidden_state[0]
        states += found.split(lengths.tolist())
    return states


@torch.inference_mode()
def one_forward_a_label(engine: Seq2SeqEngine, prompts: Sequence[Prompt]) -> np.ndarray:
    rows = []
    for prompt in prompts:
        encoder, start = engine.prompts.split(np.array(engine.prompts.encode(prompt), dtype=np.int32))
        row = []
        for (form,) in engine.prompts.label_forms(prompt, LABELS).forms:
            decoder = torch.tensor([[*start.tolist(), *form]])
            logits = engine.model(input_ids=torch.from_numpy(encoder).long()[None], decoder_input_ids=decoder).logits[0]
            log_probs = logits.log_softmax(-1)[len(start) - 1 :]
            row.append(sum(float(log_probs[place, token]) for place, token in enumerate(form)))
        rows.append(row)
    return np.array(rows)


@torch.inference_mode()
def products(engine: Seq2SeqEngine, n_tokens: int) -> None:
    for module in engine.model.encoder.modules():
        if isinstance(module, torch.nn.Linear):
            module(torch.zeros(n_tokens, module.in_features))


def timed(ways: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, run in ways.items():
            start = time.process_time()
            run()
            times[name].append(time.process_time() - start)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    if os.environ.get("OMP_NUM_THREADS") != "1":
        sys.exit("CPU times of several threads add up: set OMP_NUM_THREADS=1")
    rng = np.random.default_rng(0)
    model, words = t5(), tokenizer()
    padded = {n: Seq2SeqEngine(model, words, name="t5", backend="padded", max_tokens=n) for n in BUDGETS}
    single = Seq2SeqEngine(model, words, name="t5", backend="single")
    report: dict[str, object] = {"repeats": args.repeats, "machine": platform.machine(), "torch": torch.__version__}
    for title, (n, shortest, longest) in SETS.items():
        lengths = rng.integers(shortest, longest + 1, size=n)
        prompts = [Prompt(" ".join(f"w{k}" for k in rng.integers(1000, size=length))) for length in lengths]
        texts = [single.prompts.split(np.array(single.prompts.encode(prompt), dtype=np.int32))[0] for prompt in prompts]
        n_tokens = sum(map(len, texts))
        encoders: dict[str, Callable[[], list[torch.Tensor]]] = {
            "one prompt a forward": lambda texts=texts: side_by_side(single, texts)
        }
        for budget, engine in padded.items():
            encoders[f"padded, {budget} tokens"] = lambda texts=texts, engine=engine: side_by_side(engine, texts)
            encoders[f"packed, {budget} tokens"] = lambda texts=texts, engine=engine: packed(engine, texts)
        answers: dict[str, Callable[[], np.ndarray]] = {
            "one forward a label": lambda prompts=prompts: one_forward_a_label(single, prompts),
            "engine, single": lambda prompts=prompts: label_log_probs(single, prompts, LABELS).log_probs,
        }
        for budget, engine in padded.items():
            answers[f"engine, padded, {budget}"] = lambda prompts=prompts, engine=engine: (
                label_log_probs(engine, prompts, LABELS).log_probs
            )
        plain_states, plain_answers = encoders["one prompt a forward"](), answers["one forward a label"]()
        differences = {
            name: max(float((a - b).abs().max()) for a, b in zip(run(), plain_states, strict=True))
            for name, run in encoders.items()
        }
        differences |= {name: float(abs(run() - plain_answers).max()) for name, run in answers.items()}
        if max(differences.values()) > 5e-5:
            sys.exit(f"the ways differ: {differences}; not timed")
        floors: dict[str, Callable[[], None]] = {"floor, products only": lambda k=n_tokens: products(single, k)}
        times = timed(encoders | floors, args.repeats)
        times |= timed(answers, args.repeats)
        print(f"{n} prompts of {title}, {n_tokens:,} in all; CPU time, median of {args.repeats} (min-max)")
        for part, names in (("encoder", [*encoders, *floors]), ("answers to 3 labels", list(answers))):
            print(f"  {part}")
            base = statistics.median(times[names[0]])
            for name in names:
                found = times[name]
                middle, spread = statistics.median(found), f"({min(found):.2f}-{max(found):.2f})"
                gap = f"max |difference| {differences[name]:.1e}" if name in differences else ""
                print(f"    {name:<22} {middle:6.2f} s {spread:<14} {base / middle:5.2f}x   {gap}")
        report[title] = {"n_tokens": n_tokens, "seconds": times, "differences": differences}
    print(json.dumps(report))


if __name__ == "__main__":
    main()
