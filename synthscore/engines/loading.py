"""A model's files -> a model of transformers, its tokenizer, and the facts about it that engines need."""

from __future__ import annotations

import json
import logging
import math
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import torch
import transformers
from transformers import (
    CONFIG_MAPPING,
    MODEL_MAPPING,
    AutoConfig,
    AutoModel,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedConfig,
)
from transformers.utils import logging as hf_logging

from ..errors import EngineError, InputError, SynthscoreWarning, in_short
from .adapters import Adapter
from .source import Source, opened_gguf
from .tokens import settle_template

DType = Literal["auto", "float32", "bfloat16"]
Backend = TypeVar("Backend", bound=str)

CHECK_TEXT = """
Which of two summaries is better? A storm closed the harbour on Monday, and forty boats stayed in port. The mayor said
that repairs would take 3 weeks; fishermen expect to lose a third of their income. Nobody was hurt. Schools open again.
Summary 1: The harbour is closed after a storm. Summary 2: It rained. Answer with one word, "Better" or "Worse".
"""
"""Ordinary text, to check with whether a way to run a model is right."""

SMALL = 1_000_000_000
"""Parameters below which a model on a CPU is run in float32, unless another dtype is named."""


MOST_LAYERS = 1_000
"""That a config may name. It is believed before any weights are read, and making a million would take hours."""

_LAYERS = ("num_hidden_layers", "num_layers", "encoder_layers", "decoder_layers", "num_decoder_layers")
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
_SIZES = {
    **dict.fromkeys(_LAYERS, MOST_LAYERS),
    **dict.fromkeys(("num_attention_heads", "num_experts_per_tok", "sliding_window"), math.inf),
}
"""Entries of configs that are 1 or more, and at most so much. What else is absurd does not fit the weights."""


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """revision : the commit of a hub model, or a hash of a folder's or file's content
    base : of an adapter, name@revision of the model that it was put into; "" for all others
    quantised : how the weights of a GGUF file are, "Q4_1"; "" for all others
    date : the one that its chat template prints; "" where it prints none
    """

    model: Any
    tokenizer: Any
    name: str
    revision: str
    base: str = ""
    quantised: str = ""
    date: str = ""


def load(
    auto_class: Any,
    kind: str,
    where: str | Path | Source,
    *,
    revision: str | None = None,
    dtype: DType = "auto",
    device: str | None = None,
    device_map: Any = None,
    date: str | None = None,
    unread: str = "",
) -> Loaded:
    """A model from a folder, a GGUF file or the hub; an adapter with its base model.

    auto_class, kind : of transformers, and what it is in words
    dtype : "auto" is bfloat16 for a model that is stored in 16 bits or less, on hardware that computes with it; on a
        CPU only from a billion parameters on. Else float32
    device : "cuda" where there is one, else "cpu"; device_map spreads a model over devices instead
    date : YYYY-MM-DD, for a chat template that prints today's (tokens.settle_template)
    unread : how the names of weights begin that may be missing, because nobody reads what they give
    raises : EngineError, when it cannot be loaded or is of another kind. warns : what a GGUF file is read as
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # an unknown name, no such device, or a torch that is not for it
        raise EngineError(
            f"cannot use the device {device!r}: {in_short(error, 100)}; name one that is here, such as cpu",
            device=device,
        ) from error
    source = where if isinstance(where, Source) else Source.of(where, revision)
    show_progress = hf_logging.is_progress_bar_enabled()
    hf_logging.disable_progress_bar()
    try:
        file = source.adapter_config()
        adapter = Adapter.read(file, source) if file else None
        base = adapter.base if adapter else source
        with opened_gguf(base) as quantised:
            config = _config(base)
            tokenizer = _tokenizer(adapter.folder if adapter and adapter.has_tokenizer else base.place, base, config)
            printed = settle_template(tokenizer, date)

            def read(dtype: DType) -> tuple[Any, Mapping[str, Any]]:
                found: tuple[Any, Mapping[str, Any]] = auto_class.from_pretrained(
                    str(base.place),
                    config=deepcopy(config),
                    use_safetensors=True,
                    dtype=getattr(torch, dtype),
                    device_map=device_map,
                    attn_implementation=None,  # as in _config; some kinds of models read a config of their own, too
                    output_loading_info=True,
                    **base.arguments,
                )
                return found

            if dtype != "auto":
                model, info = read(dtype)
            else:
                on_gpu = torch.cuda.is_available() if device_map is not None else torch.device(device).type == "cuda"
                dtype = _suitable(config, quantised, on_gpu)
                model, info = read(dtype)
                if device_map is not None and (landed := _suitable(config, quantised, _on_gpu(model))) != dtype:
                    dtype = landed  # its devices are known once it is there; weights of 16 bits cannot be cast back
                    model, info = read(dtype)
        _silence_bitsandbytes()
        missing = sorted(key for key in info["missing_keys"] if not (unread and key.startswith(unread)))
        if missing:
            raise EngineError(
                f"{source.name!r} lacks weights of {type(model).__name__} ({missing[0]!s:.60}), which would be random: "
                f"take a checkpoint that was trained as {kind}",
                model=source.name,
            )
        if left := _left_out(model, info["unexpected_keys"]):
            warnings.warn(
                f"{source.name!r} has weights of more layers or experts than its config ({left[0]!s:.60}), which are "
                "not used: where its card does not say so, config.json belongs to another model",
                SynthscoreWarning,
                stacklevel=2,
            )
        if adapter:
            model = adapter.put_into(model, merge=not quantisation(model))
        revision = source.hash()
        signed_base = f"{base.name}@{base.hash()}" if adapter else ""
    except (EngineError, InputError):
        raise
    except Exception as error:  # the libraries raise OSError, ValueError, KeyError, ImportError, RuntimeError, ...
        raise _cannot("load {!r} as " + kind, source, error) from error
    finally:
        if show_progress:
            hf_logging.enable_progress_bar()
    if quantised:
        model.generation_config = GenerationConfig.from_model_config(model.config)  # not that of a file beside it
        n_bytes = sum(weights.nbytes for weights in model.parameters())
        warnings.warn(
            f"{source.gguf}: its {quantised} weights are read as {dtype}, which takes {n_bytes / 1e9:.2g} GB. "
            "A server of llama.cpp reads them as they are",
            SynthscoreWarning,
            stacklevel=2,
        )
    if device_map is None:
        model = model.to(device)
    return Loaded(model, tokenizer, source.name, revision, base=signed_base, quantised=quantised, date=printed)


def _left_out(model: Any, unexpected: Iterable[str]) -> list[str]:
    """Weights beside the model's whose names differ from one of its own in a number alone."""
    own = {re.sub(r"\d+", "0", name) for name, _ in model.named_parameters()}
    return sorted(key for key in unexpected if re.sub(r"\d+", "0", key) in own)


def _config(source: Source) -> Any:
    """raises : EngineError, where it names a kind that transformers does not know, or a size that no model has;
    whatever transformers does"""
    if source.gguf is None:
        named, _ = PreTrainedConfig.get_config_dict(str(source.place), **source.arguments)
        kind = named.get("model_type")
        if kind and kind not in CONFIG_MAPPING:
            own = ", and code that comes with a model is not run" if named.get("auto_map") else ""
            raise EngineError(
                f"cannot load {source.name!r}: it is of the kind {kind!s:.40}, which transformers "
                f"{transformers.__version__} does not know{own}; update that, or serve it (docs/servers.md)",
                model=source.name,
            )
    config = AutoConfig.from_pretrained(str(source.place), **source.arguments)
    # Whoever wrote it is not trusted, and a name in here can be that of code on the hub: the usual ones are taken.
    config._attn_implementation = config._experts_implementation = None
    _refuse_sizes(config, source)
    return config


def _refuse_sizes(config: Any, source: Source) -> None:
    """raises : EngineError, where transformers would make a model without layers, heads or experts, or not come to an
    end of making them"""
    for part in (config, config.get_text_config()):
        # Of an attribute in which layers differ, getattr raises.
        entries = {
            name: vars(part).get(part.attribute_map.get(name, name)) for name in (*_SIZES, *_EXPERTS, "layer_types")
        }
        unused = set() if any(entries[name] for name in _EXPERTS) else {"num_experts_per_tok"}
        if "sliding_attention" not in (entries["layer_types"] or ["sliding_attention"]):
            unused.add("sliding_window")
        for name, most in _SIZES.items():
            value = entries[name]
            if isinstance(value, int) and name not in unused and not 1 <= value <= most:
                expected = "1 or more" if most == math.inf else f"1 to {most}"
                raise EngineError(
                    f"cannot load {source.name!r}: its config says {name} {in_short(str(value), 20)}, expected "
                    f"{expected}; download the model again, or take another",
                    model=source.name,
                )


def _tokenizer(place: str | Path, base: Source, config: Any) -> Any:
    """With the chat template of the model's processor, where it has none itself. raises : what transformers does"""
    tokenizer = AutoTokenizer.from_pretrained(str(place), config=config, **base.arguments)
    if not tokenizer.chat_template and (file := base.file("chat_template.json")):
        tokenizer.chat_template = json.loads(file.read_text("utf-8"))["chat_template"]
    return tokenizer


def _on_gpu(model: Any) -> bool:
    """Whether any of its weights are there."""
    return any(weights.device.type == "cuda" for weights in model.parameters())


def _silence_bitsandbytes() -> None:
    """It says with each product of 8-bit weights that it rounds to float16."""
    logging.getLogger("bitsandbytes.autograd._functions").setLevel(logging.ERROR)


def _cannot(what: str, source: Source, error: Exception) -> EngineError:
    """In one sentence. what : with {!r} in the place of the model's name"""
    name = source.gguf.name if source.gguf else source.name
    said = str(error).replace(str(source.gguf or source.place), name).replace(str(source.place), name)
    begin, end = f"cannot {what.format(name)}: ", "; download the model again, or take another"
    if isinstance(error, NotImplementedError) or isinstance(source.place, str):  # its files are whole, or on the hub
        end = ""
    why = next((words for theirs, words in _IN_OUR_WORDS.items() if theirs in said), said)
    if isinstance(error, IndexError | AttributeError | TypeError | KeyError):
        why = "it is damaged, or of another form"
    why = in_short(why or type(error).__name__, max(60, 200 - len(begin) - len(end)))
    return EngineError(f"{begin}{why}{end}", model=source.name)


_IN_OUR_WORDS = {
    "Unrecognized model in": "there is none that names a kind of model",
    "couldn't find them in the cached files": (
        "it is no folder, it was not downloaded, and the hub cannot be reached; check its name, or the network"
    ),
    "Couldn't instantiate the backend tokenizer": "it has no tokenizer that can be read",
    "ignore_mismatched_sizes": "its weights have other shapes than config.json says",
    "contains custom code": "it comes with code of its own, which is not run",
    "Expecting property name": "one of its files of JSON is cut off or damaged",
}
"""What transformers says -> what it means for whoever has the files."""


def _suitable(config: Any, quantised: str, on_gpu: bool) -> DType:
    """The dtype of "auto". The signal of a small judge is not much larger than bfloat16's rounding (decision 6)."""
    stored = getattr(config.get_text_config(), "dtype", None)
    halved = stored in (torch.bfloat16, torch.float16) or quantised not in ("", "F32")
    if not halved or not computes_in_bfloat16(on_gpu):
        return "float32"
    if on_gpu or type(config) not in MODEL_MAPPING:
        return "bfloat16"
    with torch.device("meta"):  # no weights
        n_parameters = AutoModel.from_config(deepcopy(config), trust_remote_code=False).num_parameters()
    return "float32" if n_parameters < SMALL else "bfloat16"


def computes_in_bfloat16(on_gpu: bool) -> bool:
    """Whether the device has instructions for it; else each step is emulated."""
    if on_gpu and torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    flags = [getattr(torch.cpu, name, None) for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported")]
    return any(flag() for flag in flags if flag is not None)


_DECISION_FILES = ("decision.json", "decision_config.json", "judge_config.json")


def read_as(source: Source) -> str:
    """How the config says that a model is to be read: causal, encoder-decoder, isolated, decision or reward.

    GGUF files are of causal models. An adapter is read as its base model is.
    raises : EngineError, when there is no config that can be read, or it cannot be reached
    """
    if source.gguf is not None:
        return "causal"
    try:
        if file := source.adapter_config():
            return read_as(Adapter.read(file, source).base)
        config = _config(source)
        decides = any(source.file(name) for name in _DECISION_FILES)
    except EngineError:
        raise
    except Exception as error:  # the libraries raise OSError, ValueError, TypeError, AttributeError, ...
        raise _cannot("read config.json of {!r}", source, error) from error
    if "paragraph_end" in (getattr(config, "synthscore", None) or {}):
        return "isolated"
    architectures = " ".join(config.architectures or ())
    if decides or "ForDecision" in architectures:
        return "decision"
    if "ForSequenceClassification" in architectures:
        return "reward"
    return "encoder-decoder" if getattr(config, "is_encoder_decoder", False) else "causal"


def dtype_name(model: Any) -> str:
    return str(model.dtype).removeprefix("torch.")


def quantisation(model: Any) -> str:
    """How transformers keeps the weights of a model that it quantised, or found quantised, and in how many bits, where
    the method leaves a choice: "bitsandbytes-8bit", "fp8"; "" for weights that are numbers of the model's dtype."""
    config = getattr(model.config, "quantization_config", None)
    if config is None:
        return ""
    fields = config if isinstance(config, Mapping) else config.to_dict()
    method = fields.get("quant_method", "unknown")
    named = [bits for bits in (4, 8) if fields.get(f"load_in_{bits}bit")]
    bits = next(iter([*named, *(fields[name] for name in ("bits", "w_bit", "nbits") if fields.get(name))]), None)
    return str(getattr(method, "value", method)) + (f"-{bits}bit" if bits else "")


def max_length(config: Any, tokenizer: Any) -> int:
    """Tokens that the model takes: what its config says; else its tokenizer; else a million."""
    names = ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length")
    return n_positions(config.get_text_config(), names) or int(min(tokenizer.model_max_length, 1_000_000))


def n_positions(config: Any, names: Iterable[str]) -> int | None:
    """The first of these entries of a config that is a number of tokens."""
    values = (getattr(config, name, None) for name in names)
    return next((value for value in values if isinstance(value, int) and value > 0), None)


def stop_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end a text, wherever they are named: generation config, config, tokenizer."""
    found: set[int] = set()
    for owner in (getattr(model, "generation_config", None), model.config, tokenizer):
        value = getattr(owner, "eos_token_id", None)
        found.update(value if isinstance(value, Iterable) else [] if value is None else [value])
    return frozenset(found)


# -------------------------------------------------------------------------------------------- checks at load


def disagreement(found: torch.Tensor, plain: torch.Tensor, dtype: torch.dtype) -> str:
    """In words, if log-probabilities differ by more than rounding; "" if they do not.

    Looks at the 50 most probable tokens of each row. Rounding is below 1e-4 nats in float32. Below float32 it grows
    with the numbers, 5 % of the largest at most; a wrong mask or position changes log-probabilities by nats.
    """
    top = plain.topk(min(50, plain.shape[-1])).indices
    found, plain = found.gather(-1, top), plain.gather(-1, top)
    difference = float((found - plain).abs().max())
    tolerance = 1e-4 if dtype == torch.float32 else max(0.1, 0.05 * float(plain.abs().max()))
    if difference <= tolerance:
        return ""
    return f"log-probabilities differ by {difference:.2g} nats from the plain forward, expected {tolerance:.2g}"


def choose_backend(
    name: str, wanted: str, backends: Mapping[Backend, str], problem_of: Callable[[Backend], str]
) -> Backend:
    """The first way to run a model that gives the numbers of its plain forward; or the one that is wanted, if it does.

    backends : in the order in which they are tried -> how prompts are then run, in words
    problem_of : why a backend is wrong, "" if it is not; it may raise whatever a forward raises
    raises : EngineError. warns : where the first backend is not the one that is taken
    """
    if wanted != "auto" and wanted not in backends:
        raise EngineError(f"{name}: backend is {wanted!r}, expected one of {', '.join(backends)}, or auto", model=name)
    problems: list[str] = []
    for backend in backends if wanted == "auto" else (cast("Backend", wanted),):
        try:
            problem = problem_of(backend)
        except EngineError as error:
            problem = str(error)
        except Exception as error:  # a forward that does not take our arguments fails in its own way
            problem = f"its forward fails on {backend} input ({type(error).__name__}: {str(error)[:200]})"
        if not problem:
            if problems:
                words = f"{name}: prompts are run {backends[backend]}, because as {', '.join(problems)}"
                warnings.warn(words, SynthscoreWarning, stacklevel=6)
            return backend
        problems.append(f"{backend}, {problem}")
    remedy = "Take another model" if wanted == "auto" else "Try backend 'auto'"
    raise EngineError(f"{name} cannot be run right as {'; as '.join(problems)}. {remedy}", model=name)
