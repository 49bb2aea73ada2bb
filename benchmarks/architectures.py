"""Is any causal architecture of transformers run wrong?

    python -m benchmarks.architectures [--only NAME ...] [--docs docs/engines.md]

Every architecture that transformers lists for causal language models is built tiny with wide random weights and windows
of 96 tokens, opened as an engine, and asked three prompts of about 40, 300 and 2,000 tokens each that share beginnings.
The numbers must be those of one plain forward a prompt (float32, 5e-5 nats). Each is of one of these kinds:

    right      shared, by the cascade or by branches, and the same numbers
    rounding   the same but for rounding: the plain forward differs from float64 by as much
    alone      refused by the check at load: asked one prompt at a time
    refused    not opened at all: it looks ahead, takes other inputs, ...
    not built  no tiny config was found by which the plain forward runs

Each is built in a process of its own with a limit of time. --docs writes the table between its marks in a page.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers as tf
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from synthscore.engines.tree.causal import CausalEngine
from synthscore.errors import EngineError, SynthscoreWarning
from tests.models import byte_level

SAME = 5e-5  # nats
WINDOW = 96
LENGTHS = (40, 300, 2000)
MOST_PARAMETERS = 40_000_000
LIMIT_S = 400
RESULTS = Path("benchmarks/results/architectures.json")
MARKS = ("<!-- architectures -->", "<!-- end of architectures -->")
N_LAYERS = 4
ENDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}

# ------------------------------------------------------------------------------------------------- tiny configs

NAMED = (  # a size by the end of its name; the first that matches
    (r"vocab_size|_vocab$", lambda _: len(byte_level())),
    (r"(sliding_window|attention_chunk_size|window_size|attention_window_size|local_attention)$", lambda _: WINDOW),
    (r"index_topk$", lambda _: WINDOW),
    (r"(max_position_embeddings|n_positions|max_seq_len|max_sequence_length|seq_length|n_ctx)$", lambda _: 4096),
    (r"max_target_positions$", lambda _: 4096),
    (r"(num_hidden_layers|n_layers?|num_layers|num_decoder_layers|decoder_layers|encoder_layers)$", lambda _: N_LAYERS),
    (r"(key_value_heads|kv_heads|n_head_kv|multi_query_group_num|num_k_heads|key_heads)$", None),
    (r"(heads|n_head)$", lambda _: 4),
    (r"(experts_per_tok|experts_per_token|topk|top_k|moe_k|num_selected_experts)$", lambda n: min(n, 2)),
    (r"kv_shared_layers$", lambda _: 2),
    (r"(experts|expert_num)$", lambda n: min(n, 4)),
    (r"(n_groups?|expert_group|topk_group)$", lambda _: 1),
    (r"period$", lambda n: min(n, 2)),
    (r"offset$", lambda n: min(n, 1)),
)
DIMS = (
    r"(hidden_size|d_model|n_embd|embedding_size|dim|intermediate_size|d_ff|ffn|n_inner|rank|width|_size_mlp|d_inner"
    r"|d_ssm|_channels)\w*$"
)

FIELDS: dict[str, dict[str, Any]] = {  # where the default config has layers of one kind alone, or is not whole
    "lfm2": {"layer_types": ["conv", "full_attention"] * 2},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"] * 2},
    "bamba": {"attn_layer_indices": [1, 3]},
    "dbrx": {"attn_config": {"kv_n_heads": 2, "clip_qkv": 8.0, "rope_theta": 10000.0}},
    "dots3_note_text": {
        "qk_nope_head_dim": 8,  # with the other half of 16
        "qk_rope_head_dim": 8,
        "per_layer_config": {layer: {"num_attention_heads": 2, "num_key_value_heads": 2} for layer in ("01", "03")},
    },
    "qwen4_exp_text": {
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 16,
        "indexer_budget": WINDOW,
        "indexer_compress_ratio": 4,
    },
    "reformer": {"axial_pos_embds": False, "is_decoder": True},
    "xmod": {"default_language": "en_XX"},
    "zamba2": {"hybrid_layer_ids": [1, 3]},
}

UNBUILT = {  # why no model of text alone is built, in a few words
    "gemma3n": "wants timm",
    "gemma4_assistant": "drafts for another model",
    "gemma4_unified_assistant": "drafts for another model",
    "musicgen": "writes sound",
    "musicgen_melody": "writes sound",
}


def rules_of(name: str, n_kv: int) -> list[Any]:
    """Those of NAMED that fit a name."""
    return [rule or (lambda _: n_kv) for pattern, rule in NAMED if re.search(pattern, name)]


def shrunk(config: Any, n_dims: int, head_dim: int, n_kv: int, *, fills: bool) -> dict[str, Any]:
    """Fields of a config that make it small. n_dims : what widths are divided by; n_kv : heads of keys and values;
    fills : whether counts of heads, experts and groups that the config leaves open are named, too"""
    fields: dict[str, Any] = {}
    values = config.to_dict()
    before = values.get("num_hidden_layers") or values.get("n_layer") or values.get("num_layers") or 0
    for name, value in values.items():
        if name.startswith("_") or name == "qk_head_dim":
            continue
        part = vars(config).get(name)
        if isinstance(part, tf.PreTrainedConfig):
            fields[name] = type(part)(**shrunk(part, n_dims, head_dim, n_kv, fills=fills))
        elif name in ENDS:
            fields[name] = ENDS[name]
        elif name == "is_decoder":
            fields[name] = True
        elif fills and name == "head_dim" and value is None:
            fields[name] = head_dim
        elif fills and value is None and (rules := rules_of(name, n_kv)):
            fields[name] = rules[0](4)
        elif name == "num_key_value_heads" and value is None:
            fields[name] = n_kv
        elif name == "sliding_window" and value is None:
            fields[name] = WINDOW
        elif isinstance(value, bool) or value is None:
            continue
        elif isinstance(value, int) and value > 1:
            if rules := rules_of(name, n_kv):
                fields[name] = rules[0](value)
            elif re.search(DIMS, name):
                head = re.search(r"head_?dim|d_head|head_size", name)
                fields[name] = head_dim if head else max(8, value // n_dims // 8 * 8)
                if re.search(r"^(hidden_size|d_model|n_embd|embedding_size)$", name):
                    fields[name] = 64
        elif isinstance(value, list) and before and len(value) == before and name != "layer_types":
            fields[name] = value[:N_LAYERS]
    return fields


def candidates(config_class: Any) -> Iterator[Callable[[], Any]]:
    """Tiny configs, from the smallest guess on."""
    default = config_class()
    types = getattr(default, "layer_types", None)
    kinds = list(dict.fromkeys(types or ()))
    few = {"layer_types": (kinds * N_LAYERS)[: max(N_LAYERS, len(kinds))]} if kinds else {}
    if len(kinds) > N_LAYERS:
        few["num_hidden_layers"] = len(kinds)
    rope = {"rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
    guesses = [
        {"layer_types": [kind, "full_attention"] * 2} for kind in ("conv", "linear_attention", "sliding_attention")
    ]
    rope_of_kinds = {"rope_parameters": dict.fromkeys(kinds, rope["rope_parameters"])}
    named = few | FIELDS.get(config_class.model_type, {})
    for fills in (False, True):
        for more in (named, {}, rope, few | rope_of_kinds, *guesses):
            for sizes in ((32, 16, 2), (32, 16, 4), (32, 32, 4), (16, 16, 4), (64, 16, 4)):
                yield lambda sizes=sizes, fills=fills, more=more: config_class(
                    **shrunk(default, *sizes, fills=fills) | more
                )


def tiny(config_class: Any, model_class: Any) -> Any:
    """A model whose plain forward runs. raises : ValueError, with the reasons why none does"""
    reasons: dict[str, None] = {}
    for make in candidates(config_class):
        try:
            config = make()
            with torch.device("meta"):
                n = model_class(deepcopy(config)).num_parameters()
            if n > MOST_PARAMETERS:
                reasons[f"{n / 1e6:.0f}M parameters"] = None
                continue
            torch.manual_seed(0)
            model = model_class(config).eval().float()
            with torch.no_grad():
                for weights in model.parameters():
                    if weights.ndim >= 2:
                        weights.normal_(0, 0.15)
                    else:  # a selection among equal numbers would be of no use
                        weights.add_(torch.randn_like(weights), alpha=0.05)
                logits = model(input_ids=torch.arange(3, 60)[None], use_cache=False).logits
            if logits.shape[1] != 57 or logits.isnan().any():
                reasons[f"logits of shape {tuple(logits.shape)}, NaN {bool(logits.isnan().any())}"] = None
                continue
            return model
        except Exception as error:
            reasons[f"{type(error).__name__}: {str(error)[:150]}"] = None
    raise ValueError("; ".join(reasons))


# ------------------------------------------------------------------------------------------------- one architecture


def prompts() -> list[np.ndarray]:
    """Of each length some that share three quarters or a half, and one that differs in its last token alone."""
    rng = np.random.default_rng(0)
    rows = []
    for n in LENGTHS:
        text, other = (rng.integers(3, len(byte_level()), n).astype(np.int32) for _ in range(2))
        rows += [text, np.append(text[:-1], other[:1]), np.append(text[: n * 3 // 4], other[: n // 4])]
        if n < 1000:
            rows.append(np.append(text[: n // 2], other[n // 2 : n - 7]))
    return rows


def measure(kind: str) -> dict[str, Any]:
    """What became of one architecture."""
    name = MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[kind]
    row: dict[str, Any] = {"kind": kind, "model": name}
    try:
        config_class, model_class = tf.CONFIG_MAPPING[kind], getattr(tf, name)
        if not issubclass(config_class, model_class.config_class):  # of a model that also sees: its language model's
            config_class = model_class.config_class
        model = tiny(config_class, model_class)
    except Exception as error:
        return row | {"verdict": "not built", "why": f"{error}"[:400]}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            engine = CausalEngine(model, byte_level(), name=kind, max_tokens=600)
        except EngineError as error:
            return row | {"verdict": "refused", "why": str(error)[:300]}
    row["backend"] = engine.backend
    row["why"] = " ".join(str(each.message) for each in said if each.category is SynthscoreWarning)[:600]
    if engine.backend == "exact":
        return row | {"verdict": "alone"}
    sequences = prompts()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = engine._table(sequences, "exact")
        found = engine._table(sequences, engine.backend)
    difference = float((found - plain).abs().max())
    spread = float(plain[: len(sequences) // 3].std(dim=0).max())
    row |= {"difference": difference, "spread": spread}
    if difference <= SAME:
        return row | {"verdict": "right"}
    row["rounding"] = float((in_double(model, sequences) - plain).abs().max())
    return row | {"verdict": "rounding" if difference <= row["rounding"] else "WRONG"}


@torch.inference_mode()
def in_double(model: Any, sequences: list[np.ndarray]) -> torch.Tensor:
    """What the plain forward gives in float64: a model whose own rounding is larger than SAME tells no less."""
    exact = deepcopy(model).double()
    exact.set_experts_implementation("eager")  # grouped products know no float64
    rows = [torch.from_numpy(ids.astype(np.int64))[None] for ids in sequences]
    logits = torch.stack([exact(input_ids=row, use_cache=False).logits[0, -1] for row in rows])
    return logits.log_softmax(-1)


# ------------------------------------------------------------------------------------------------- all of them


def table(rows: list[dict[str, Any]]) -> str:
    """For people: which architectures are of which kind, and which have no result."""
    names = {
        ("right", "cascade"): "`cascade`, right",
        ("right", "branches"): "`branches`, right",
        ("rounding", "cascade"): "`cascade`, no further than the plain forward is from float64",
        ("rounding", "branches"): "`branches`, no further than the plain forward is from float64",
        ("alone", "exact"): "`exact`, because the check refuses all else",
        ("refused", None): "refused: not causal as configured, or takes other inputs",
        ("not built", None): "not built tiny by the script",
        ("WRONG", "cascade"): "wrong as `cascade`",
        ("WRONG", "branches"): "wrong as `branches`",
    }
    lines = [f"| transformers {tf.__version__} | | architectures |", "|---|---:|---|"]
    for (verdict, backend), words in names.items():
        kinds = sorted(r["kind"] for r in rows if (r["verdict"], r.get("backend")) == (verdict, backend))
        if verdict == "not built":
            kinds = [f"{kind} ({UNBUILT.get(kind, 'no fitting config found')})" for kind in kinds]
        if kinds or verdict == "WRONG":
            lines.append(f"| {words} | {len(kinds)} | {', '.join(kinds)} |")
    missing = sorted(set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES) - {row["kind"] for row in rows})
    if missing:
        lines.append(f"| not run yet | {len(missing)} | {', '.join(missing)} |")
    worst = max((row.get("difference", 0.0) for row in rows), default=0.0)
    return "\n".join([*lines, "", f"Largest difference from the plain forward: {worst:.1e} nats."])


def apart(kind: str) -> dict[str, Any]:
    """`measure` in a process of its own, which may take LIMIT_S."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    process = context.Process(target=lambda: there.send(measure(kind)))
    process.start()
    there.close()  # the child's end, so that its death is seen
    row = {"kind": kind, "verdict": "not built", "why": f"not done in {LIMIT_S} s"}
    try:
        if here.poll(LIMIT_S):
            row = here.recv()
    except EOFError:
        row["why"] = "its process ended"
    process.kill()
    process.join()
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="model types")
    parser.add_argument(
        "--docs", type=Path, help="the page whose table is written anew, from the results that are there"
    )
    args = parser.parse_args()
    torch.set_num_threads(1)
    tf.logging.set_verbosity_error()
    rows = json.loads(RESULTS.read_text()) if RESULTS.exists() else []
    if not args.docs:
        for kind in args.only or MODEL_FOR_CAUSAL_LM_MAPPING_NAMES:
            row = apart(kind)
            rows = [*(each for each in rows if each["kind"] != kind), row]
            print(json.dumps(row), flush=True)
            RESULTS.write_text(json.dumps(rows, indent=0) + "\n")
    print(table(rows))
    if args.docs:
        page = args.docs.read_text()
        before, rest = page.split(MARKS[0])
        _, after = rest.split(MARKS[1])
        args.docs.write_text(f"{before}{MARKS[0]}\n\n{table(rows)}\n\n{MARKS[1]}{after}")


if __name__ == "__main__":
    main()
