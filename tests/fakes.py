"""A deterministic engine without a model, for tests of everything that asks one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from synthscore.engine import Generation, LabelLogProbs, Progress, Prompt, Rival, Sampling
from synthscore.signature import Signature
from synthscore.types import FloatArray

Judge = Callable[[Prompt, tuple[str, ...]], Sequence[float]]
Writer = Callable[[Prompt, int], "str | Generation | Exception"]
Reader = Callable[[Prompt, str], Sequence[float]]


def even_judge(prompt: Prompt, labels: tuple[str, ...]) -> Sequence[float]:
    """All labels equally probable, together 0.9 of the mass."""
    return [float(np.log(0.9 / len(labels)))] * len(labels)


def seed_writer(prompt: Prompt, seed: int) -> str:
    """A text that names its seed, so that every seed writes another one."""
    return f"Text {seed} of {len(prompt.text)} characters."


def length_reader(prompt: Prompt, continuation: str) -> Sequence[float]:
    """Each word is a token, the less probable the longer it is."""
    return [-len(word) / 10 for word in continuation.split()]


class FakeEngine:
    """Implements the contract of engines/base.py with three functions, and counts what it is asked.

    judge(prompt, labels) -> log-probability of each label (nats). A row whose judge raises is a failure.
    writer(prompt, seed) -> a text, a Generation, or an exception (returned or raised) for a row that fails.
    reader(prompt, continuation) -> log-probability of each of its tokens (nats), or an exception, raised.
    n_judged, n_written : prompts asked so far; calls : ("judge" | "write" | "read", n_prompts) of every call, in order;
    judged, written : the prompts themselves; read : pairs of prompt and continuation.
    """

    def __init__(
        self,
        judge: Judge = even_judge,
        writer: Writer = seed_writer,
        name: str = "fake",
        failures: Mapping[str, str] | None = None,
        reader: Reader = length_reader,
    ) -> None:
        self.judge, self.writer, self.reader, self.name = judge, writer, reader, name
        self.failures = dict(failures or {})  # prompt text -> reason
        self.calls: list[tuple[str, int]] = []
        self.judged: list[Prompt] = []
        self.written: list[Prompt] = []
        self.read: list[tuple[Prompt, str]] = []

    @property
    def signature(self) -> Signature:
        return Signature.of(model=self.name, backend="fake")

    @property
    def n_judged(self) -> int:
        return len(self.judged)

    @property
    def n_written(self) -> int:
        return len(self.written)

    def label_log_probs(
        self, prompts: Sequence[Prompt], labels: Sequence[str], progress: Progress | None = None
    ) -> LabelLogProbs:
        self.calls.append(("judge", len(prompts)))
        self.judged.extend(prompts)
        log_probs = np.full((len(prompts), len(labels)), np.nan)
        rivals: list[Rival | None] = [None] * len(prompts)
        failures: dict[int, str] = {}
        for row, prompt in enumerate(prompts):
            if prompt.text in self.failures:
                failures[row] = self.failures[prompt.text]
            else:
                try:
                    log_probs[row] = self.judge(prompt, tuple(labels))
                    rivals[row] = Rival("The", float(np.log(0.05)))
                except Exception as error:
                    failures[row] = str(error)
            if progress:
                progress(1)
        n_tokens = sum(len(prompt.text.split()) for prompt in prompts)
        return LabelLogProbs(tuple(labels), log_probs, tuple(rivals), failures, n_tokens, n_tokens)

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int], progress: Progress | None = None
    ) -> list[Generation | Exception]:
        assert len(seeds) == len(prompts), f"{len(seeds)} seeds for {len(prompts)} prompts"
        self.calls.append(("write", len(prompts)))
        self.written.extend(prompts)
        rows: list[Generation | Exception] = []
        for prompt, seed in zip(prompts, seeds, strict=True):
            try:
                text = self.writer(prompt, seed)
            except Exception as error:
                text = error
            rows.append(Generation(text, "stop", len(text.split())) if isinstance(text, str) else text)
            if progress:
                progress(1)
        return rows

    def token_log_probs(
        self, prompts: Sequence[Prompt], continuations: Sequence[str], progress: Progress | None = None
    ) -> list[FloatArray | Exception]:
        self.calls.append(("read", len(prompts)))
        rows: list[FloatArray | Exception] = []
        for prompt, text in zip(prompts, continuations, strict=True):
            self.read.append((prompt, text))
            try:
                rows.append(np.array(self.reader(prompt, text), dtype=np.float64))
            except Exception as error:
                rows.append(error)
            if progress:
                progress(1)
        return rows


class CensoringEngine(FakeEngine):
    """A FakeEngine of which `untold(prompt)` says what is not told: label index -> share of it that is."""

    def __init__(self, judge: Judge, untold: Callable[[Prompt], Mapping[int, float]]) -> None:
        super().__init__(judge)
        self.untold = untold

    def label_log_probs(
        self, prompts: Sequence[Prompt], labels: Sequence[str], progress: Progress | None = None
    ) -> LabelLogProbs:
        answers = super().label_log_probs(prompts, labels, progress)
        censored, floors = np.zeros(answers.log_probs.shape, dtype=bool), answers.log_probs.copy()
        for row, prompt in enumerate(prompts):
            for label, share in self.untold(prompt).items():
                censored[row, label] = True
                floors[row, label] += np.log(share) if share else -np.inf
        return replace(answers, censored=censored, floors=floors)
