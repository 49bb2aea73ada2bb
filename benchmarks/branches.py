"""How much faster is a model whose attention cannot be replaced, when prompts go on from its own cache?

    python -m benchmarks.branches [--kinds lfm2 qwen3_5 ...] [--reps 3]

The work of benchmarks/engine.py: 16 targets x 5 rungs, mean prompt 906 tokens, float32, models of 0.1B parameters (12
layers, 768 wide) with random weights. `branches` against batched transformers (8 prompts side by side, padded on the
left, logits at the last place; on the first PART prompts, scaled up) and, where it applies, against the cascade.

First all ways must give the same numbers: within 5e-5 nats, or, where the plain forward itself is further from float64
than that (Mamba 2 with random weights), within its distance. Then they are run in turn, REPS times, in one process with
one thread, and what counts is that thread's CPU time, because others use the machine: the ratio of the least times.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as tf

from benchmarks.architectures import in_double
from benchmarks.engine import make_prompts
from synthscore.engines.tree.causal import CausalEngine
from synthscore.engines.tree.trie import pack
from synthscore.errors import SynthscoreWarning
from tests.models import byte_level

SIZES = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "num_key_value_heads": 12,
    "intermediate_size": 2048,
    "vocab_size": 32_000,
    "max_position_embeddings": 4096,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ONE_IN_FOUR = ["linear_attention"] * 3 + ["full_attention"]
KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", SIZES),
    "lfm2": (
        "Lfm2ForCausalLM",
        "Lfm2Config",
        SIZES | {"layer_types": ["conv", "conv", "full_attention"] * 4, "num_key_value_heads": 4},
    ),
    "qwen3_5": (
        "Qwen3_5ForCausalLM",
        "Qwen3_5TextConfig",
        SIZES
        | {"layer_types": ONE_IN_FOUR * 3, "num_key_value_heads": 4, "head_dim": 64}
        | {"linear_num_value_heads": 8, "linear_num_key_heads": 8}
        | {"linear_key_head_dim": 64, "linear_value_head_dim": 64},
    ),
    "mamba2": (
        "Mamba2ForCausalLM",
        "Mamba2Config",
        {name: SIZES[name] for name in ("vocab_size", "pad_token_id", "bos_token_id", "eos_token_id")}
        | {"hidden_size": 768, "num_hidden_layers": 24, "num_heads": 24, "head_dim": 64, "state_size": 128}
        | {"n_groups": 1, "chunk_size": 256},
    ),
    "llama4": (
        "Llama4ForCausalLM",
        "Llama4TextConfig",
        SIZES
        | {"head_dim": 64, "intermediate_size_mlp": 2048, "num_local_experts": 4, "attention_chunk_size": 256}
        | {"interleave_moe_layer_step": 2},
    ),
}


def make_kind(kind: str) -> Any:
    """A model of one of KINDS with random weights, float32."""
    model_class, config_class, fields = KINDS[kind]
    return getattr(tf, model_class)(getattr(tf, config_class)(**fields)).eval()


def rows(engine: CausalEngine, prompts: list[np.ndarray], backend: str) -> tuple[torch.Tensor, int]:
    """Log-probabilities in order, and the tokens run over."""
    found: list[Any] = [None] * len(prompts)
    n_tokens = 0
    for group, log_probs, n in engine.run(prompts, backend):
        n_tokens += n
        for index, row in zip(group, log_probs, strict=True):
            found[index] = row
    return torch.stack(found), n_tokens


@torch.inference_mode()
def batched(model: Any, prompts: list[np.ndarray]) -> torch.Tensor:
    """8 side by side, as generation reads them."""
    found = []
    for start in range(0, len(prompts), 8):
        batch = prompts[start : start + 8]
        width = max(map(len, batch))
        ids = torch.from_numpy(np.stack([np.pad(p, (width - len(p), 0)) for p in batch]).astype(np.int64))
        mask = torch.stack([(torch.arange(width) >= width - len(p)).long() for p in batch])
        found.append(model(input_ids=ids, attention_mask=mask, use_cache=False, logits_to_keep=1).logits[:, -1])
    return torch.cat(found).float().log_softmax(-1)


def measure(kind: str, n_targets: int, n_part: int, reps: int) -> dict[str, Any]:
    """Seconds of CPU time a prompt of each way, and the greatest difference from one plain forward a prompt."""
    torch.manual_seed(0)
    model = make_kind(kind)
    prompts = make_prompts(n_targets, SIZES["vocab_size"])
    part = prompts[:: max(1, len(prompts) // n_part)][:n_part]
    places = [next(i for i, p in enumerate(prompts) if p is q) for q in part]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SynthscoreWarning)
        engine = CausalEngine(model, byte_level(), name=kind)
    ways = ["branches", "batched", *(["cascade"] if engine.backend == "cascade" else [])]
    plain, _ = rows(engine, part[:3], "exact")
    times: dict[str, list[float]] = {way: [] for way in ways}
    differences = {}
    n_tokens = 0
    for _ in range(reps):
        for way in ways:
            start = time.process_time()
            if way == "batched":
                found, n = batched(model, part), len(part)
            else:
                (found, n_run), n = rows(engine, prompts, way), len(prompts)
                found, n_tokens = found[places], n_run if way == "branches" else n_tokens
            times[way].append((time.process_time() - start) / n)
            differences[way] = float((found[:3] - plain).abs().max())
    same = 5e-5
    if max(differences.values()) > same:
        same = float((in_double(model, part[:3]) - plain).abs().max())
    for way, difference in differences.items():
        assert difference <= same, f"{kind}: {way} differs by {difference} nats from the plain forward"
    return {
        "kind": kind,
        "chosen": engine.backend,
        "parameters": model.num_parameters(),
        "tokens": sum(map(len, prompts)),
        "distinct": pack(prompts).n_tokens,
        "run": n_tokens,
        "seconds": times,
        "differences": differences,
        "same": same,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", choices=KINDS, nargs="+", default=list(KINDS))
    parser.add_argument("--targets", type=int, default=16)
    parser.add_argument("--part", type=int, default=8, help="prompts that the slow way runs on")
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/branches.txt"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        f"{args.targets} targets x 5 rungs, float32, one thread, least CPU time of {args.reps} (most); torch "
        f"{torch.__version__}, transformers {tf.__version__}",
        f"{'':<10}{'branches, s a prompt':>24}{'x batched':>11}{'x cascade':>11}{'tokens':>9}{'of':>8}   max |diff|",
    ]
    results = []
    for kind in args.kinds:
        row = measure(kind, args.targets, args.part, args.reps)
        results.append(row)
        least = {way: min(seconds) for way, seconds in row["seconds"].items()}
        most = max(row["seconds"]["branches"])
        cascade = f"{least['cascade'] / least['branches']:.2f}" if "cascade" in least else "-"
        ratio = least["batched"] / least["branches"]
        lines.append(
            f"{kind:<10}{least['branches']:>15.3f} ({most:.3f}){ratio:>11.2f}{cascade:>11}"
            f"{row['run']:>9,}{row['tokens']:>8,}   {row['differences']['branches']:.1e}"
        )
        print(lines[-1], flush=True)
    text = "\n".join([*lines, json.dumps(results)])
    print(text)
    args.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
