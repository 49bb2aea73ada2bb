"""An engine that asks a model only what the store does not hold; and verdicts on whole texts, kept beside answers."""

from __future__ import annotations

import binascii
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..engine import Engine, Generation, LabelLogProbs, Progress, Prompt, Question, Rival, Sampling
from ..errors import StoreError
from ..signature import Signature, text_hash
from ..types import FloatArray, Ladder, Score
from .answers import VERDICTS, Answer
from .file import Store

BATCH_S = 15.0  # how long a batch should take: what a killed run loses
LEAST = {"labels": 256, "text": 16, "tokens": 256}  # questions in a batch; a text costs as much as tens of verdicts
MOST = 8192
_GROWTH = 4  # a batch is at most so many times as large as the one before: a pace may have been luck


class StoredEngine:
    """An engine that is asked only what the store does not hold. Itself an Engine.

    Distinct questions that are missing go to the inner engine in the order given, a batch at a time, and each batch is
    stored before the next is asked: a killed run resumes. Rows that failed are not stored.

    batch_size : questions in a batch. None: as many as take about 15 s at the pace of the last batch, because a batch
        that ends within a context makes the engine compute its beginning once more; 256 (texts: 16) to 8192
    """

    def __init__(self, engine: Engine, store: Store, batch_size: int | None = None) -> None:
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, expected at least 1")
        self.engine, self.store, self.batch_size = engine, store, batch_size
        self._sizes = dict(LEAST)

    @property
    def signature(self) -> Signature:
        return self.engine.signature

    def label_log_probs(
        self, prompts: Sequence[Prompt], labels: Sequence[str], progress: Progress | None = None
    ) -> LabelLogProbs:
        """As the inner engine's; the token counts are of what was asked now."""
        labels = tuple(labels)
        failed: dict[int, str] = {}
        n_tokens = Counter[str]()

        def ask(rows: Sequence[int], told: Progress | None) -> dict[int, Any]:
            asked = self.engine.label_log_probs([prompts[row] for row in rows], labels, told)
            n_tokens.update(naive=asked.tokens_naive, computed=asked.tokens_computed)
            failed.update({rows[i]: reason for i, reason in asked.failures.items()})
            return {row: label_value(asked, i) for i, row in enumerate(rows) if i not in asked.failures}

        questions = [Question(prompt, labels) for prompt in prompts]
        values, first = self._values("labels", questions, ask, progress)
        failures = {row: failed[first[row]] for row, value in enumerate(values) if value is None}
        return label_log_probs(labels, values, failures, n_tokens["naive"], n_tokens["computed"])

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, seeds: Sequence[int], progress: Progress | None = None
    ) -> list[Generation | Exception]:
        """As the inner engine's."""
        failed: dict[int, Exception] = {}

        def ask(rows: Sequence[int], told: Progress | None) -> dict[int, Any]:
            written = self.engine.generate([prompts[row] for row in rows], sampling, [seeds[row] for row in rows], told)
            values = {}
            for row, text in zip(rows, written, strict=True):
                if isinstance(text, Generation):
                    values[row] = [text.text, text.finish_reason, text.n_tokens]
                else:
                    failed[row] = text
            return values

        questions = [Question(prompt, (), sampling, int(seed)) for prompt, seed in zip(prompts, seeds, strict=True)]
        values, first = self._values("text", questions, ask, progress)
        return [failed[first[row]] if value is None else Generation(*value) for row, value in enumerate(values)]

    def token_log_probs(
        self, prompts: Sequence[Prompt], continuations: Sequence[str], progress: Progress | None = None
    ) -> list[FloatArray | Exception]:
        """As the inner engine's."""
        failed: dict[int, Exception] = {}

        def ask(rows: Sequence[int], told: Progress | None) -> dict[int, Any]:
            read = self.engine.token_log_probs(
                [prompts[row] for row in rows], [continuations[row] for row in rows], told
            )
            failed.update({row: found for row, found in zip(rows, read, strict=True) if isinstance(found, Exception)})
            return {
                row: found.tolist() for row, found in zip(rows, read, strict=True) if not isinstance(found, Exception)
            }

        questions = [Question(prompt, continuation=text) for prompt, text in zip(prompts, continuations, strict=True)]
        values, first = self._values("tokens", questions, ask, progress)
        return [failed[first[row]] if value is None else np.array(value) for row, value in enumerate(values)]

    def _values(
        self,
        kind: str,
        questions: Sequence[Question],
        ask: Callable[[Sequence[int], Progress | None], Mapping[int, Any]],
        progress: Progress | None,
    ) -> tuple[list[Any], list[int]]:
        """The value of every row, from the store or from `ask`, None where that failed; and the first row of the same
        question, which is the one that was asked."""
        engine = str(self.signature)
        keys = [question.key(engine) for question in questions]
        found = self.store.get_many(keys)
        counts, first = Counter(keys), dict[bytes, int]()
        for row, key in enumerate(keys):
            first.setdefault(key, row)
        if progress and (n_stored := sum(counts[key] for key in found)):
            progress(n_stored)
        missing = [row for key, row in first.items() if key not in found]
        start = 0
        while start < len(missing):
            rows = missing[start : start + (self.batch_size or self._sizes[kind])]
            began = time.monotonic()
            values = ask(rows, progress)
            self._adapt(kind, len(rows), time.monotonic() - began)
            self.store.put_many(Answer(keys[row], kind, value, engine, questions[row]) for row, value in values.items())
            found.update({keys[row]: value for row, value in values.items()})
            if progress and (n_repeated := sum(counts[keys[row]] - 1 for row in rows)):
                progress(n_repeated)
            start += len(rows)
        return [found.get(key) for key in keys], [first[key] for key in keys]

    def _adapt(self, kind: str, n_asked: int, seconds: float) -> None:
        """The size of the next batch, so that it takes BATCH_S."""
        wanted = n_asked * BATCH_S / max(seconds, 1e-9)
        if n_asked >= LEAST[kind]:  # a few questions say little of the pace of many
            self._sizes[kind] = int(min(max(wanted, LEAST[kind]), MOST, _GROWTH * self._sizes[kind]))


class StoredVerdicts:
    """What the judge said of whole texts: a short hash and a look into the store, where a text has been scored before,
    rather than a prompt, its hash and its answer for every rung.

    Only of texts whose every rung has a verdict, with all labels told: all else is scored from its answers as ever.

    asked : how the judge was asked (the signature of Verdicts), with whatever decides if an answer counts
    """

    def __init__(self, store: Store, engine: Signature, asked: str) -> None:
        self.store, self.engine, self.asked = store, str(engine), asked

    def begun(self, ladder: Ladder) -> Any:
        """A hash of all that the verdicts depend on but the text, for `key`. None for a ladder without its context."""
        if ladder.context is None:
            return None
        context = ladder.context
        parts = (self.asked, ladder.task, ladder.attribute, context.text, context.facts, ladder.hash)
        return hashlib.sha256(text_hash(VERDICTS, self.engine, *parts).encode())

    @staticmethod
    def key(begun: Any, text: str) -> bytes:
        digest = begun.copy()
        digest.update(text.encode())
        return bytes(digest.digest())

    def get_many(self, keys: Sequence[bytes], n_rungs: int, n_orders: int) -> dict[bytes, FloatArray]:
        """Of the keys that are stored: better, worse, similar of each rung, worst first, in each order asked; shape
        (n_rungs, n_orders, 3), every bit as it was."""
        found = self.store.get_many(keys)
        size = 24 * n_rungs * n_orders
        data = binascii.a2b_base64("".join(found.values()))
        if len(data) != size * len(found):
            raise StoreError(
                f"the verdicts on {len(found)} texts in the store {self.store.path} have {len(data)} bytes, expected "
                f"{size} each. Name another store, or none",
                path=self.store.path,
            )
        return dict(zip(found, np.frombuffer(data, dtype="<f8").reshape(-1, n_rungs, n_orders, 3), strict=True))

    def put_many(self, scores: Mapping[bytes, Score], n_rungs: int, n_orders: int) -> int:
        """Keep what the scores were computed from, of those that are whole. How many were new."""
        answers = []
        for key, score in scores.items():
            said = {(v.level, v.swapped): (v.better, v.worse, v.similar) for v in score.verdicts}
            if score.status == "ok" and not score.reason and len(said) == n_rungs * n_orders:
                value = np.array([said[at] for at in sorted(said)], dtype="<f8").tobytes()
                answers.append(Answer(key, VERDICTS, binascii.b2a_base64(value, newline=False).decode(), self.engine))
        return self.store.put_many(answers)


def label_value(answers: LabelLogProbs, row: int) -> dict[str, Any]:
    """What is stored of a row; JSON keeps every bit of its numbers."""
    rival = answers.rivals[row] if answers.rivals else None
    value: dict[str, Any] = {
        "log_probs": answers.log_probs[row].tolist(),
        "rival": None if rival is None else [rival.token, rival.log_prob],
    }
    if answers.censored is not None and answers.censored[row].any():
        value["censored"] = answers.censored[row].tolist()
        if answers.floors is not None:
            value["floors"] = answers.floors[row].tolist()
    return value


def label_log_probs(
    labels: tuple[str, ...],
    values: Sequence[Mapping[str, Any] | None],
    failures: Mapping[int, str],
    tokens_naive: int = 0,
    tokens_computed: int = 0,
) -> LabelLogProbs:
    """Rows made of what was stored. values : None in rows that failed"""
    log_probs = np.full((len(values), len(labels)), np.nan)
    censored, floors = np.zeros(log_probs.shape, dtype=bool), np.full(log_probs.shape, -np.inf)
    rivals: list[Rival | None] = [None] * len(values)
    for row, value in enumerate(values):
        if value is not None:
            log_probs[row] = value["log_probs"]
            rivals[row] = Rival(*value["rival"]) if value["rival"] else None
            if "censored" in value:
                censored[row], floors[row] = value["censored"], value.get("floors", -np.inf)
    limits = (censored, floors) if censored.any() else (None, None)
    return LabelLogProbs(labels, log_probs, tuple(rivals), failures, tokens_naive, tokens_computed, *limits)
