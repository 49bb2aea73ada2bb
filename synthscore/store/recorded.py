"""A store of answers -> an engine that gives these answers, and asks nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..engine import Answers, Progress, Question
from ..errors import EngineError
from ..signature import Signature
from .engine import look_up
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

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        keys = [question.key(str(self._signature)) for question in questions]
        with Store(self.path, create=False) as store:
            found = look_up(store, keys, questions)
        if progress:
            progress(len(questions))
        return Answers(
            [
                found[key] if key in found else EngineError(self._missing(question))
                for key, question in zip(keys, questions, strict=True)
            ]
        )

    def _missing(self, question: Question) -> str:
        prompt = question.prompt
        end = f"{prompt.text[-60:]}{prompt.prefill}"
        how = f"labels {', '.join(question.labels)}"
        if question.sampling is not None:
            how = f"{question.sampling}, seed {question.seed}"
        if question.continuation is not None:
            how = f"the continuation {question.continuation[:60]!r}"
        return (
            f"{self.path} holds no answer of {self.signature} to the prompt of {len(prompt.text)} characters that ends "
            f"in {end!r} ({how}). Ask the model itself, with --store {self.path}"
        )
