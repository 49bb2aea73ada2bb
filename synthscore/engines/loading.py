"""A model's files -> a model of transformers, its tokenizer, and the facts about it that engines need."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
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
from transformers.utils import cached_file
from transformers.utils import logging as hf_logging

from ..engine import Answer, Answers, Kind, Progress, Question, Sampling, answer_by_kind
from ..errors import EngineError, SynthscoreWarning
from ..signature import Signature
from .labels import TokenIds
from .source import EXPECTED, Source, opened_gguf
from .tokens import PromptTokenizer

DType = Literal["auto", "float32", "bfloat16"]
E = TypeVar("E", bound="LocalEngine")

CHECK_TEXT = """
Which of two summaries is better? A storm closed the harbour on Monday, and forty boats stayed in port. The mayor said
that repairs would take 3 weeks; fishermen expect to lose a third of their income. Nobody was hurt. Schools open again.
Summary 1: The harbour is closed after a storm. Summary 2: It rained. Answer with one word, "Better" or "Worse".
"""
"""Ordinary text, to check with whether a way to run a model is right."""

SMALL = 1_000_000_000
"""Parameters below which a model on a CPU is run in float32, unless another dtype is named."""


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """revision : the commit of a hub model, or a hash of a folder's or file's content
    quantised : how the weights of a GGUF file are, "Q4_1"; "" for all others
    """

    model: Any
    tokenizer: Any
    name: str
    revision: str
    quantised: str = ""


def load(
    auto_class: Any,
    kind: str,
    where: str | Path | Source,
    *,
    revision: str | None = None,
    dtype: DType = "auto",
    device: str | None = None,
    device_map: Any = None,
    unread: str = "",
) -> Loaded:
    """A model from a folder, a GGUF file or the hub.

    auto_class, kind : of transformers, and what it is in words
    dtype : "auto" is bfloat16 for a model that is stored in 16 bits or less, on hardware that computes with it; on a
        CPU only from a billion parameters on. Else float32
    device : "cuda" where there is one, else "cpu"; device_map spreads a model over devices instead
    unread : how the names of weights begin that may be missing, because nobody reads what they give
    raises : EngineError, when it cannot be loaded or is of another kind. warns : what a GGUF file is read as
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:  # an unknown name, no such device, or a torch that is not for it
        raise EngineError(
            f"cannot use the device {device!r}: {str(error).splitlines()[0]}. Name one that is here, such as cpu, or "
            "leave it out",
            device=device,
        ) from error
    source = where if isinstance(where, Source) else Source.of(where, revision)
    place = str(source.place)
    show_progress = hf_logging.is_progress_bar_enabled()
    hf_logging.disable_progress_bar()
    try:
        with opened_gguf(source) if source.gguf else nullcontext("") as quantised:
            config = AutoConfig.from_pretrained(place, **source.arguments)
            tokenizer = AutoTokenizer.from_pretrained(place, **source.arguments)
            if dtype == "auto":
                on_gpu = device_map is not None or torch.device(device).type == "cuda"
                dtype = _suitable(config, quantised, on_gpu)
            model, info = auto_class.from_pretrained(
                place,
                config=config,
                use_safetensors=True,
                dtype=getattr(torch, dtype),
                device_map=device_map,
                output_loading_info=True,
                **source.arguments,
            )
    except EngineError:
        raise
    except Exception as error:  # the libraries raise OSError, ValueError, KeyError, ImportError, RuntimeError, ...
        raise EngineError(
            f"cannot load model {place if source.gguf is None else str(source.gguf)!r} as {kind}: {error} {EXPECTED}",
            model=source.name,
        ) from error
    finally:
        if show_progress:
            hf_logging.enable_progress_bar()
    missing = sorted(key for key in info["missing_keys"] if not (unread and key.startswith(unread)))
    if missing:
        raise EngineError(
            f"model {source.name!r} lacks weights of {type(model).__name__}: {missing[:3]}. "
            f"They would be random. Take a checkpoint that was trained as {kind}",
            model=source.name,
        )
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
    found = getattr(model.config, "_commit_hash", None)
    return Loaded(model, tokenizer, source.name, found[:12] if found else source.hash(), quantised)


class LocalEngine:
    """An engine whose model is loaded here. `load` makes one from a folder or a hub id.

    auto_class, kind : of transformers, and what it is in words
    alone : the backend whose numbers depend on one prompt alone
    usual : max_tokens, where none is given
    cannot : kinds of questions that it does not answer, and what that would be, in words
    """

    auto_class: ClassVar[Any]
    kind: ClassVar[str]
    alone: ClassVar[str]
    usual: ClassVar[int]
    cannot: ClassVar[Mapping[Kind, str]] = {}
    prompts: PromptTokenizer

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        *,
        name: str,
        revision: str = "unknown",
        quantised: str = "",
        max_tokens: int | None = None,
        backend: str = "auto",
    ) -> None:
        """name, revision, quantised : for the signature
        max_tokens : tokens in one forward; bounds memory, whatever the number of prompts
        backend : how prompts are run; "auto" takes the first that the model gets right; a named one is taken, or
            EngineError
        """
        self.model = model.eval()
        self.name, self.revision, self.quantised = name, revision, quantised
        self.max_tokens = max_tokens or self.usual
        self.backend = self._prepare(tokenizer, backend)

    def _prepare(self, tokenizer: Any, backend: str) -> str:
        """Make `prompts` and all that answers need, and choose the backend: here, the only one. raises : EngineError"""
        self.prompts = PromptTokenizer(tokenizer, max_length(self.model.config, tokenizer))
        if backend not in ("auto", self.alone):
            raise EngineError(f"{self.name}: backend is {backend!r}, expected {self.alone!r}, or auto", model=self.name)
        return self.alone

    @property
    def signature(self) -> Signature:
        """Model, revision, how its weights were quantised, dtype, backend, rendered chat template, library versions.

        max_tokens is part of it below float32, where what is run together shows in the second digit.
        """
        dtype = dtype_name(self.model)
        parts = {"model": f"{self.name}@{self.revision}"}
        if self.quantised:
            parts["gguf"] = self.quantised
        parts |= {"dtype": dtype, "backend": self.backend}
        if dtype != "float32" and self.backend != self.alone:
            parts["max_tokens"] = str(self.max_tokens)
        parts |= {"chat": self.prompts.template_hash, **self._own_parts}
        if self.prompts.boundary == "separate":
            parts["boundary"] = "separate"
        return Signature.of(**parts, transformers=transformers.__version__, torch=torch.__version__)

    @property
    def _own_parts(self) -> dict[str, str]:
        """Of the signature, behind the chat template's."""
        return {}

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        """As the contract has it (engine.py)."""
        ways = {"labels": self._judge, "text": self._write, "tokens": self._read}

        def answer(kind: Kind, alike: Sequence[Question]) -> Answers:
            if kind not in self.cannot:
                return ways[kind](alike, progress)
            what = self.cannot[kind]
            error = EngineError(f"{self.name} cannot {what}: it is {self.kind}. Take a language model", model=self.name)
            if progress:
                progress(len(alike))
            return Answers([error] * len(alike))

        return answer_by_kind(questions, answer)

    def _one_by_one(
        self, questions: Sequence[Question], progress: Progress | None, ask: Callable[[Question], tuple[Answer, int]]
    ) -> Answers:
        """Each by itself. ask : a question -> its answer, and the tokens read for it; it may raise EngineError"""
        answers: list[Answer] = []
        n_tokens = 0
        for question in questions:
            try:
                answer, n = ask(question)
                answers.append(answer)
                n_tokens += n
            except EngineError as error:
                answers.append(error)
            if progress:
                progress(1)
        return Answers(answers, n_tokens, n_tokens)

    def _judge(self, questions: Sequence[Question], progress: Progress | None) -> Answers:
        """Of questions on the same labels."""
        raise NotImplementedError

    def _write(self, questions: Sequence[Question], progress: Progress | None) -> Answers:
        """Of texts with the same sampling, each drawn with its question's seed alone.

        A text ends where the model ends it or before a stop string ("stop"), or is cut at max_new_tokens or where the
        model's context ends ("length").
        """
        answers: list[Answer] = [EngineError("not written")] * len(questions)
        prompts: dict[int, TokenIds] = {}
        for row, question in enumerate(questions):
            try:
                prompts[row] = np.array(self.prompts.encode(question.prompt), dtype=np.int32)
            except EngineError as error:
                answers[row] = error
        if progress and len(prompts) < len(questions):
            progress(len(questions) - len(prompts))
        rows, sampling = list(prompts), questions[0].sampling or Sampling()
        for batch, texts in self._written(list(prompts.values()), sampling, [questions[row].seed for row in rows]):
            for index, text in zip(batch, texts, strict=True):
                answers[rows[index]] = text
            if progress:
                progress(len(batch))
        return Answers(answers)

    def _written(
        self, prompts: Sequence[TokenIds], sampling: Sampling, seeds: Sequence[int]
    ) -> Iterator[tuple[list[int], Sequence[Answer]]]:
        """Every prompt once, some side by side: which they are, and their texts."""
        raise NotImplementedError

    def _read(self, questions: Sequence[Question], progress: Progress | None) -> Answers:
        """Of continuations."""
        raise NotImplementedError

    @classmethod
    def load(
        cls: type[E],
        where: str | Path | Source,
        *,
        dtype: DType = "auto",
        max_tokens: int | None = None,
        backend: Any = "auto",
        exact: bool = False,
        **options: Any,
    ) -> E:
        """A model from a folder, a GGUF file or the hub.

        dtype, options : of `load`
        max_tokens, backend : as the engine says; None: its default
        exact : numbers that do not depend on what else is asked, to the last bit: the backend that reads prompts alone,
            float32 unless a dtype is named, texts one at a time. Slow: nothing is shared.
        raises : EngineError, when it cannot be loaded or is not of this kind
        """
        if exact:
            if backend not in ("auto", cls.alone):
                raise EngineError(f"exact=True with backend {backend!r}: expected one of the two")
            backend, dtype = cls.alone, "float32" if dtype == "auto" else dtype
        loaded = load(cls.auto_class, cls.kind, where, dtype=dtype, **options)
        named = {"name": loaded.name, "revision": loaded.revision, "quantised": loaded.quantised}
        return cls(loaded.model, loaded.tokenizer, **named, max_tokens=max_tokens, backend=backend)


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

ReadAs = Literal["causal", "encoder-decoder", "isolated", "decision", "reward"]


def read_as(source: Source) -> ReadAs:
    """How the config says that a model is to be read.

    Causal also where the config names no kind that transformers knows, or there is none: `load` then says so. GGUF
    files are of causal models.
    raises : EngineError, when there is a config that cannot be read, or it cannot be reached
    """
    if source.gguf is not None:
        return "causal"
    place = str(source.place)
    try:
        named, _ = PreTrainedConfig.get_config_dict(place, **source.arguments)
        if named.get("model_type") not in CONFIG_MAPPING:
            return "causal"
        config = AutoConfig.from_pretrained(place, **source.arguments)
        decides = any(
            cached_file(place, name, revision=source.revision, _raise_exceptions_for_missing_entries=False)
            for name in _DECISION_FILES
        )
    except Exception as error:  # the libraries raise OSError, ValueError, TypeError, AttributeError, ...
        raise EngineError(
            f"cannot load model {place!r}: its config.json cannot be read: {error} {EXPECTED}. "
            "Mend the file, or download the model again",
            model=source.name,
        ) from error
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


def max_length(config: Any, tokenizer: Any) -> int:
    """Tokens that the model takes: what its config says; else its tokenizer; else a million."""
    text = config.get_text_config()
    for name in ("max_position_embeddings", "n_positions", "max_sequence_length", "max_seq_len", "seq_length"):
        value = getattr(text, name, None)
        if isinstance(value, int) and value > 0:
            return value
    return int(min(tokenizer.model_max_length, 1_000_000))


def stop_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Tokens that end a text, wherever they are named: generation config, config, tokenizer."""
    found: set[int] = set()
    for owner in (getattr(model, "generation_config", None), model.config, tokenizer):
        value = getattr(owner, "eos_token_id", None)
        found.update(value if isinstance(value, Iterable) else [] if value is None else [value])
    return frozenset(found)
