"""A LoRA adapter -> its base model, and that model with the adapter in its weights, by peft.

Whoever made an adapter's files is not trusted, and its config names a base model. Nothing is fetched on its word: the
base is a folder beside the adapter's, or a model of the hub that was downloaded before. Of the other entries peft gets
those alone that are read here; with some of the rest it imports modules.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache
from safetensors import safe_open

from ..errors import EngineError, in_short
from .source import HUB_ID, Source

_WEIGHTS = "adapter_model.safetensors"

_READ = {
    "r", "lora_alpha", "target_modules", "exclude_modules", "target_parameters", "modules_to_save", "rank_pattern",
    "alpha_pattern", "layers_to_transform", "layers_pattern", "fan_in_fan_out", "use_rslora", "use_dora", "lora_bias",
    "bias", "trainable_token_indices", "ensure_weight_tying",
}  # fmt: skip
_WITHOUT_EFFECT = {
    "peft_type", "task_type", "base_model_name_or_path", "revision", "auto_mapping", "peft_version", "inference_mode",
    "init_lora_weights", "lora_dropout", "megatron_core", "qalora_group_size", "eva_config", "runtime_config",
}  # fmt: skip
"""On an adapter that is read and not trained."""
_PLAIN_STARTS = (True, False, None, "gaussian", "eva", "orthogonal")
"""Values of init_lora_weights that leave the base model unchanged."""
_TASKS = (None, "CAUSAL_LM", "SEQ_2_SEQ_LM")


@dataclass(frozen=True, slots=True)
class Adapter:
    """name : for messages
    folder : on this machine
    base : the model that it changes
    settings : of peft's LoraConfig
    """

    name: str
    folder: Path
    base: Source
    settings: Mapping[str, Any]

    @classmethod
    def read(cls, file: Path, source: Source) -> Adapter:
        """file : the source's adapter_config. raises : EngineError, for an adapter that is not read; OSError"""
        if source.gguf is not None or source.file("config.json"):
            raise EngineError(
                f"{source.name!r} holds a model and an adapter ({file.name}), and which is meant is not said: give the "
                "adapter's files a folder of their own beside the model's",
                model=source.name,
            )
        if find_spec("peft") is None:
            raise EngineError(
                f"{source.name!r} is an adapter, and such are read with peft, which is not installed: "
                "pip install 'synthscore[peft]'",
                model=source.name,
            )
        config = _read_config(file, source.name)
        if source.file(_WEIGHTS) is None:
            raise EngineError(
                f"the adapter {source.name!r} has no {_WEIGHTS}, expected its weights there; pickled ones are not read",
                model=source.name,
            )
        settings = {name: value for name, value in config.items() if name in _READ}
        return cls(source.name, file.parent, _base(config, file.parent, source.name), settings)

    @property
    def has_tokenizer(self) -> bool:
        return (self.folder / "tokenizer_config.json").is_file()

    def put_into(self, model: Any, *, merge: bool) -> Any:
        """The model with the adapter; it is changed itself.

        merge : added to its weights, in their dtype; else computed beside them
        raises : EngineError, where the adapter does not fit
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            peft: Any = import_module("peft")
            settings = peft.LoraConfig(**self.settings)
            try:
                adapted = peft.PeftModel.from_pretrained(model, str(self.folder), config=settings, torch_device="cpu")
            except Exception as error:  # of a module that is not there, of shapes, of a damaged file
                raise self._misfit(in_short(error, 60)) from error
        with safe_open(self.folder / _WEIGHTS, "pt") as weights:
            n_there = len(weights.keys())
        states = (peft.get_peft_model_state_dict(adapted, save_embedding_layers=whole) for whole in (False, True))
        n_read = [*map(len, states)]  # a file can hold the embeddings, too
        if n_there not in n_read or any("missing adapter keys" in str(each.message) for each in caught):
            raise self._misfit(f"it has {n_there} tensors, expected {n_read[0]}")
        return adapted.merge_and_unload() if merge else adapted.get_base_model()

    def _misfit(self, why: str) -> EngineError:
        return EngineError(
            f"the adapter {self.name!r} does not fit its base {self.base.name!r} ({why}): merge it where it "
            "was trained",
            model=self.name,
        )


def _read_config(file: Path, name: str) -> dict[str, Any]:
    """An adapter's config, if it is of a kind that is read."""
    try:
        config = json.loads(file.read_text("utf-8"))
        named = config["base_model_name_or_path"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        what = f"{file.name} of {name!r} is damaged ({error!s:.80})"
        raise EngineError(f"{what}: download it again", model=name) from error
    problem = ""
    if (kind := config.get("peft_type")) != "LORA":
        problem = f"of the kind {kind!s:.30}"
    elif (task := config.get("task_type")) not in _TASKS:
        problem = f"trained for {task!s:.30}"
    elif (start := config.get("init_lora_weights")) not in _PLAIN_STARTS:
        problem = f"begun as {start!s:.30}, which changes the base model"
    elif others := sorted(key for key, value in config.items() if value and key not in _READ | _WITHOUT_EFFECT):
        problem = f"with {', '.join(others)!s:.60}"
    elif not isinstance(named, str) or not named.strip():
        problem = "without the name of its base model"
    if problem:
        raise EngineError(
            f"the adapter {name!r} is {problem}, expected a plain LoRA of a language model: merge it into its base "
            "with peft",
            model=name,
        )
    return dict(config)


def _base(config: Mapping[str, Any], folder: Path, name: str) -> Source:
    """The base model that an adapter's config names, if it is here."""
    named, revision = config["base_model_name_or_path"].strip(), config.get("revision")
    last = re.split(r"[\\/:]", named.rstrip("\\/"))[-1]
    base = None
    if not last.startswith(".") and (folder.parent / last / "config.json").is_file():
        base = Source.of(folder.parent / last)
    elif HUB_ID.fullmatch(named):
        downloaded = try_to_load_from_cache(named, "config.json", revision=str(revision) if revision else None)
        if isinstance(downloaded, str):
            base = replace(Source.of(Path(downloaded).parent), name=named)
    if base is None:
        raise EngineError(
            f"the base model of the adapter {name!r}, {named!r:.60}, is not here: put its folder beside the adapter's, "
            "or fetch it, if it is on the hub (hf download NAME)",
            model=name,
        )
    if base.adapter_config():
        raise EngineError(
            f"the base model {named!r:.60} of the adapter {name!r} holds an adapter: merge that", model=name
        )
    return base
