"""How much faster are label log-probabilities when prompts share their beginnings, and how near is that to the ceiling?

    python -m benchmarks.engine --shape 0.1b --dtype bfloat16 --targets 16 --reps 5 [--llama]

The work: one context of 700 tokens, 5 rungs of 68 to 108, TARGETS targets of 60 to 100 between a separator of 8 and a
question of 25; mean prompt about 900 tokens. Models have random weights, on whose values speed does not depend.

Ways, all over the same prompts, each giving full-vocabulary log-probabilities after each prompt:

    cascade       this engine: every distinct prefix once
    cascade fp32  the same in float32, where the table is of bfloat16
    one by one    one prompt a forward, logits at all places: what the papers' code does (also in float32)
    batched       8 prompts side by side, padded on the left, logits at the last place: the usual batched transformers
    right         the same, padded on the right without a mask: the strongest plain baseline
    llama.cpp     its shared-sequence mode over the same weights (llama-cpp-python), in 16 sequences
    linear        the model's linear layers alone over as many tokens as there are distinct prefixes: the ceiling that
                  the machine sets; no engine that computes each distinct prefix once can be faster

The slow ways run on the first PART prompts and are scaled up (prompts per second do not depend on how many are asked).
First all ways must give the same numbers (float32: 5e-5 nats), then they are timed in turn, REPS times, in one process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as tf

from synthscore.engines.tree.causal import CausalEngine
from synthscore.engines.tree.trie import pack
from tests.models import byte_level

SHAPES = {
    "tiny": {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128},
    "0.1b": {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 2048},
    "0.5b": {"hidden_size": 896, "num_hidden_layers": 24, "num_attention_heads": 14, "intermediate_size": 4864},
    "1b": {"hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32, "intermediate_size": 8192},
    "8b": {"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "intermediate_size": 14336},
}
MORE = {
    "tiny": {"num_key_value_heads": 4, "vocab_size": 1000},
    "0.1b": {"num_key_value_heads": 12, "vocab_size": 32_000},
    "0.5b": {"num_key_value_heads": 2, "vocab_size": 151_936, "tie_word_embeddings": True},
    "1b": {"num_key_value_heads": 8, "vocab_size": 128_256, "tie_word_embeddings": True},
    "8b": {"num_key_value_heads": 8, "vocab_size": 128_256},
}


def make_model(shape: str, dtype: torch.dtype, device: str) -> Any:
    torch.manual_seed(0)
    config = tf.Qwen2Config(max_position_embeddings=4096, **SHAPES[shape], **MORE[shape])
    with torch.device(device):
        torch.set_default_dtype(dtype)
        model = tf.Qwen2ForCausalLM(config).eval()
        torch.set_default_dtype(torch.float32)
    return model


def make_prompts(n_targets: int, n_vocab: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)

    def text(n: int) -> list[int]:
        return rng.integers(5, n_vocab, n).tolist()

    root, separator, question = text(700), text(8), text(25)
    rungs = [text(int(rng.integers(68, 109))) for _ in range(5)]
    targets = [text(int(rng.integers(60, 101))) for _ in range(n_targets)]
    return [np.array(root + r + separator + t + question, dtype=np.int32) for r in rungs for t in targets]


Way = Callable[[], torch.Tensor]


class Ways:
    """Each way as a function of no arguments that gives log-probabilities in float32, shape (n_prompts, vocabulary)."""

    def __init__(self, model: Any, prompts: Sequence[np.ndarray], n_part: int, max_tokens: int) -> None:
        self.model, self.prompts, self.part = model, prompts, prompts[:: max(1, len(prompts) // n_part)][:n_part]
        self.device = model.device
        self.max_tokens = max_tokens
        self.engine = CausalEngine(model, byte_level(), name="random", max_tokens=max_tokens)
        assert self.engine.backend == "cascade", self.engine.backend
        self.n_tokens = pack(prompts).n_tokens

    def cascade(self) -> torch.Tensor:
        rows: list[Any] = [None] * len(self.prompts)
        n_tokens = 0
        for group, log_probs, n in self.engine.run(self.prompts, "cascade"):
            n_tokens += n
            for index, row in zip(group, log_probs, strict=True):
                rows[index] = row
        assert n_tokens == self.n_tokens, (n_tokens, self.n_tokens)
        return torch.stack(rows)

    @torch.inference_mode()
    def one_by_one(self) -> torch.Tensor:
        rows = [self.model(input_ids=self._ids([p]), use_cache=False).logits[0, -1] for p in self.part]
        return torch.stack(rows).float().log_softmax(-1)

    @torch.inference_mode()
    def batched(self) -> torch.Tensor:
        rows = []
        for start in range(0, len(self.part), 8):
            batch = self.part[start : start + 8]
            width = max(map(len, batch))
            ids = self._ids([np.pad(p, (width - len(p), 0)) for p in batch])
            mask = self._ids([np.pad(np.ones(len(p), dtype=np.int32), (width - len(p), 0)) for p in batch])
            places = (mask.cumsum(1) - 1).clamp(min=0)
            out = self.model(input_ids=ids, attention_mask=mask, position_ids=places, use_cache=False, logits_to_keep=1)
            rows.append(out.logits[:, -1])
        return torch.cat(rows).float().log_softmax(-1)

    @torch.inference_mode()
    def right(self) -> torch.Tensor:
        rows = []
        for start in range(0, len(self.part), 8):
            batch = self.part[start : start + 8]
            width = max(map(len, batch))
            ids = self._ids([np.pad(p, (0, width - len(p))) for p in batch])
            ends = torch.tensor([len(p) - 1 for p in batch], device=self.device)
            states = self.model.model(input_ids=ids, use_cache=False).last_hidden_state
            rows.append(self.model.lm_head(states[torch.arange(len(batch), device=self.device), ends]))
        return torch.cat(rows).float().log_softmax(-1)

    @torch.inference_mode()
    def linear(self) -> torch.Tensor:
        layers = [m for layer in self.model.model.layers for m in layer.modules() if isinstance(m, torch.nn.Linear)]
        if not hasattr(self, "_inputs"):
            sizes = {layer.in_features for layer in layers}
            options = {"dtype": self.model.dtype, "device": self.device}
            self._inputs = {size: torch.randn(1, self.max_tokens, size, **options) for size in sizes}
        for start in range(0, self.n_tokens, self.max_tokens):
            n = min(self.max_tokens, self.n_tokens - start)
            for layer in layers:
                layer(self._inputs[layer.in_features][:, :n])
        return torch.empty(0)

    def _ids(self, rows: Sequence[np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.stack(rows).astype(np.int64)).to(self.device)


# ------------------------------------------------------------------------------------------------- llama.cpp


def write_gguf(model: Any, path: Path) -> None:
    """The model's weights for llama.cpp, in bfloat16 (norms and biases in float32)."""
    import gguf

    config = model.config
    writer = gguf.GGUFWriter(str(path), "qwen2")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(config.vocab_size)
    names = {
        "model.embed_tokens": "token_embd",
        "model.norm": "output_norm",
        "lm_head": "output",
    }
    parts = {
        "self_attn.q_proj": "attn_q",
        "self_attn.k_proj": "attn_k",
        "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output",
        "mlp.gate_proj": "ffn_gate",
        "mlp.up_proj": "ffn_up",
        "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm",
        "post_attention_layernorm": "ffn_norm",
    }
    for name, weights in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stem, kind = name.rsplit(".", 1)
        if stem.startswith("model.layers."):
            _, _, layer, part = stem.split(".", 3)
            target = f"blk.{layer}.{parts[part]}.{kind}"
        else:
            target = f"{names[stem]}.{kind}"
        if weights.ndim == 2:
            raw = weights.to(torch.bfloat16).contiguous().view(torch.uint16).numpy()
            writer.add_tensor(target, raw.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(target, weights.float().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def common_beginning(prompts: Sequence[np.ndarray]) -> list[int]:
    rows = np.stack([prompt[: min(map(len, prompts))] for prompt in prompts])
    return rows[0, : int((rows == rows[0]).all(axis=0).cumprod().sum())].tolist()


class LlamaCpp:
    """llama.cpp's own way to share: the context decoded once, copied to 16 sequences; each rung's tokens belong to all
    of them; targets in one batch, logits at their last tokens only."""

    N_SEQUENCES = 16

    def __init__(self, model: Any, prompts: Sequence[np.ndarray], n_ubatch: int) -> None:
        import llama_cpp.llama_cpp as api

        self.api, self.n_vocab = api, model.config.vocab_size
        folder = tempfile.mkdtemp()
        write_gguf(model, Path(folder) / "model.gguf")
        self._quiet = api.llama_log_callback(lambda *_: None)  # must live as long as the model
        api.llama_log_set(self._quiet, None)
        api.llama_backend_init()
        self.model = api.llama_model_load_from_file(
            str(Path(folder) / "model.gguf").encode(), api.llama_model_default_params()
        )
        options = api.llama_context_default_params()
        options.n_ctx, options.n_batch, options.n_ubatch = 4096, 4096, n_ubatch
        options.n_seq_max, options.kv_unified, options.flash_attn_type = self.N_SEQUENCES + 1, True, 1
        options.n_threads = options.n_threads_batch = torch.get_num_threads()
        self.context = api.llama_init_from_model(self.model, options)
        assert self.context
        self.memory = api.llama_get_memory(self.context)
        self.root = common_beginning(prompts)
        self.n_prompts = len(prompts)
        by_rung: dict[int, list[int]] = {}
        for index, prompt in enumerate(prompts):
            by_rung.setdefault(int(prompt[len(self.root)]), []).append(index)
        self.groups = []
        for indices in by_rung.values():
            rung = common_beginning([prompts[i] for i in indices])
            self.groups.append((rung, [(i, prompts[i].tolist()[len(rung) :]) for i in indices]))

    def __call__(self) -> torch.Tensor:
        api, n_root = self.api, len(self.root)
        everyone = list(range(self.N_SEQUENCES))
        api.llama_memory_clear(self.memory, True)
        self._decode([(token, place, [0], False) for place, token in enumerate(self.root)])
        for sequence in everyone[1:]:
            api.llama_memory_seq_cp(self.memory, 0, sequence, -1, -1)
        rows: list[Any] = [None] * self.n_prompts
        for rung, targets in self.groups:
            shared = [(token, n_root + place, everyone, False) for place, token in enumerate(rung[n_root:])]
            self._decode(shared)
            for start in range(0, len(targets), self.N_SEQUENCES):
                some = targets[start : start + self.N_SEQUENCES]
                tokens = [
                    (token, len(rung) + place, [sequence], place == len(target) - 1)
                    for sequence, (_, target) in enumerate(some)
                    for place, token in enumerate(target)
                ]
                self._decode(tokens)
                ends = [place for place, token in enumerate(tokens) if token[3]]
                for (index, _), end in zip(some, ends, strict=True):
                    logits = api.llama_get_logits_ith(self.context, end)
                    rows[index] = torch.from_numpy(np.ctypeslib.as_array(logits, (self.n_vocab,)).copy())
                for sequence in everyone:
                    api.llama_memory_seq_rm(self.memory, sequence, len(rung), -1)
            for sequence in everyone:
                api.llama_memory_seq_rm(self.memory, sequence, n_root, -1)
        return torch.stack(rows).log_softmax(-1)

    def _decode(self, tokens: list[tuple[int, int, list[int], bool]]) -> None:
        batch = self.api.llama_batch_init(len(tokens), 0, self.N_SEQUENCES)
        batch.n_tokens = len(tokens)
        for place, (token, position, sequences, wanted) in enumerate(tokens):
            batch.token[place], batch.pos[place] = token, position
            batch.n_seq_id[place], batch.logits[place] = len(sequences), wanted
            for i, sequence in enumerate(sequences):
                batch.seq_id[place][i] = sequence
        status = self.api.llama_decode(self.context, batch)
        self.api.llama_batch_free(batch)
        assert status == 0, status


# ------------------------------------------------------------------------------------------------- the run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="0.1b")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="bfloat16")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--targets", type=int, default=16)
    parser.add_argument("--part", type=int, default=8, help="prompts that the slow ways run on")
    parser.add_argument("--max-tokens", type=int, default=2048)
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--llama", action="store_true", help="also llama.cpp (bfloat16, CPU)")
    parser.add_argument("--skip-fp32", action="store_true", help="no float32 baselines beside bfloat16")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()

    model = make_model(args.shape, getattr(torch, args.dtype), args.device)
    prompts = make_prompts(args.targets, model.config.vocab_size)
    ways = Ways(model, prompts, args.part, args.max_tokens)
    n_part = len(ways.part)
    chosen: dict[str, tuple[Way, int]] = {
        "cascade": (ways.cascade, len(prompts)),
        "one by one": (ways.one_by_one, n_part),
        "batched": (ways.batched, n_part),
        "right": (ways.right, n_part),
        "linear": (ways.linear, len(prompts)),
    }
    if args.dtype != "float32" and not args.skip_fp32:
        wide = Ways(make_model(args.shape, torch.float32, args.device), prompts, args.part, args.max_tokens)
        wide.model.load_state_dict({k: v.float() for k, v in model.state_dict().items()})
        chosen["one by one fp32"] = (wide.one_by_one, n_part)
    if args.llama:
        for n_ubatch in (512, 2048):
            chosen[f"llama.cpp {n_ubatch}"] = (LlamaCpp(model, prompts, n_ubatch), len(prompts))

    places = [next(i for i, p in enumerate(prompts) if p is q) for q in ways.part]
    truth = (wide if "one by one fp32" in chosen else ways).one_by_one()
    differences = {}
    for name, (way, n) in chosen.items():
        if name != "linear":
            found = way()
            differences[name] = float(((found[places] if n > n_part else found).cpu() - truth.cpu()).abs().max())
    limit = 5e-5 if args.dtype == "float32" else max(0.1, 3 * differences["one by one"])
    for name, difference in differences.items():
        assert difference <= limit, f"{name} differs by {difference} nats from the plain forward, expected {limit}"

    times: dict[str, list[float]] = {name: [] for name in chosen}
    for _ in range(args.reps):
        for name, (way, n) in chosen.items():
            if args.device != "cpu":
                torch.cuda.synchronize()
            start = time.perf_counter()
            way()
            if args.device != "cpu":
                torch.cuda.synchronize()
            times[name].append((time.perf_counter() - start) / n)
    rates = {name: 1 / statistics.median(seconds) for name, seconds in times.items()}
    machine = torch.cuda.get_device_name() if args.device != "cpu" else f"{os.cpu_count()} CPUs, {_cpu_name()}"
    precise = " fp32" if "one by one fp32" in chosen else ""
    lines = [
        f"{args.shape} {args.dtype}, {args.targets} targets x 5 rungs, {len(prompts)} prompts, "
        f"{sum(map(len, prompts)):,} tokens, {ways.n_tokens:,} distinct; {machine}, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}, transformers {tf.__version__}; median of {args.reps} (min-max)",
        f"{'':<18}{'prompts/s':>10}{'':>18}{'cascade is':>12}   max |diff| from one by one{precise}, nats",
    ]
    for name, rate in rates.items():
        low, high = 1 / max(times[name]), 1 / min(times[name])
        ratio = f"{rates['cascade'] / rate:.2f} x" if name != "linear" else f"{100 * rates['cascade'] / rate:.1f} %"
        off = f"{differences[name]:.1e}" if name in differences else ""
        lines.append(f"{name:<18}{rate:>10.2f}{f'({low:.2f}-{high:.2f})':>18}{ratio:>12}   {off}")
    result = {
        "shape": args.shape,
        "dtype": args.dtype,
        "device": machine,
        "targets": args.targets,
        "prompts": len(prompts),
        "tokens_naive": sum(map(len, prompts)),
        "tokens_computed": ways.n_tokens,
        "prompts_per_s": rates,
        "seconds_per_prompt": times,
        "ratios": {name: rates["cascade"] / rate for name, rate in rates.items()},
        "differences": differences,
    }
    text = "\n".join([*lines, json.dumps(result)])
    print(text)
    args.out.mkdir(parents=True, exist_ok=True)
    kind = "" if args.device == "cpu" else f"-{args.device}"
    (args.out / f"engine-{args.shape}-{args.dtype}-{args.targets}{kind}.txt").write_text(text + "\n")


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
