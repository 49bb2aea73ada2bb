"""A store of answers -> an engine that gives these answers, and asks nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..engine import Generation, LabelLogProbs, Progress, Prompt, Sampling
from ..errors import EngineError
from ..signature import Signature
from ..types import FloatArray
from .engine import StoredEngine
from .file import Store


class RecordedEngine:
    """The engine whose answers a store holds, under its own signature. What is not there is a failure of its row.

    file : FILE, or FILE#PART, where the signature of one engine alone contains PART
    raises : StoreError, where the file is no store; EngineError, where it does not hold answers of exactly one engine
    """

    def __init__(self, file: str) -> None:
        name, _, part = file.partition("#")
        self.path = Path(name).expanduser()
        with Store(self.path, create=False) as store:
            engines = list(dict.fromkeys(batch.engine for batch in store.batches()))
        fitting = [engine for engine in engines if part in engine]
        if len(fitting) != 1:
            what = f"{len(fitting)} engines" + (f" whose signature contains {part!r}" if part else "")
            listed = "".join(f"\n  {engine}" for engine in engines) or " none at all"
            raise EngineError(
                f"cannot replay {self.path}: it holds answers of {what}, expected one. It has:{listed}\n"
                f"Name one by a part of its signature: recorded:{self.path}#PART",
                path=self.path,
                engines=engines,
            )
        self._signature = Signature.parse(fitting[0])

    @property
    def signature(self) -> Signature:
        return self._signature

    def label_log_probs(
        self, prompts: Sequence[Prompt], labels: Sequence[str], progress: Progress | None = None
    ) -> LabelLogProbs:
        with Store(self.path, create=False) as store:
            return StoredEngine(_Silent(self), store).label_log_probs(prompts, labels, progress)

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int], progress: Progress | None = None
    ) -> list[Generation | Exception]:
        with Store(self.path, create=False) as store:
            return StoredEngine(_Silent(self), store).generate(prompts, sampling, seeds, progress)

    def token_log_probs(
        self, prompts: Sequence[Prompt], continuations: Sequence[str], progress: Progress | None = None
    ) -> list[FloatArray | Exception]:
        with Store(self.path, create=False) as store:
            return StoredEngine(_Silent(self), store).token_log_probs(prompts, continuations, progress)


class _Silent:
    """What a store asks for the answers that it does not hold: it says that they are missing."""

    def __init__(self, recorded: RecordedEngine) -> None:
        self.path, self.signature = recorded.path, recorded.signature

    def label_log_probs(
        self, prompts: Sequence[Prompt], labels: Sequence[str], progress: Progress | None = None
    ) -> LabelLogProbs:
        failures = {row: self._missing(prompt, f"labels {', '.join(labels)}") for row, prompt in enumerate(prompts)}
        if progress:
            progress(len(prompts))
        return LabelLogProbs(tuple(labels), np.full((len(prompts), len(labels)), np.nan), (), failures)

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int], progress: Progress | None = None
    ) -> list[Generation | Exception]:
        if progress:
            progress(len(prompts))
        return [
            EngineError(self._missing(prompt, f"{sampling}, seed {seed}"))
            for prompt, seed in zip(prompts, seeds, strict=True)
        ]

    def token_log_probs(
        self, prompts: Sequence[Prompt], continuations: Sequence[str], progress: Progress | None = None
    ) -> list[FloatArray | Exception]:
        if progress:
            progress(len(prompts))
        return [
            EngineError(self._missing(prompt, f"the continuation {text[:60]!r}"))
            for prompt, text in zip(prompts, continuations, strict=True)
        ]

    def _missing(self, prompt: Prompt, how: str) -> str:
        end = f"{prompt.text[-60:]}{prompt.prefill}"
        return (
            f"{self.path} holds no answer of {self.signature} to the prompt of {len(prompt.text)} characters that ends "
            f"in {end!r} ({how}). Ask the model itself, with --store {self.path}"
        )
