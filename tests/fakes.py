"""Engines without a model, for tests of everything that asks one: their answers are functions of the question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from synthscore.engine import (
    Answer,
    Answers,
    Capabilities,
    Generation,
    LabelAnswer,
    OtherToken,
    Progress,
    Prompt,
    Question,
)
from synthscore.errors import EngineError
from synthscore.signature import Signature
from synthscore.store.engine import StoredEngine
from synthscore.store.parts import InBatches
from synthscore.types import Usage

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
    """Implements the contract of engine.py with three functions, and counts what it is asked.

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
        capabilities: Capabilities | None = None,
    ) -> None:
        if capabilities is not None:
            self.capabilities = capabilities
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

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        groups: dict[object, list[int]] = {}
        for row, question in enumerate(questions):
            groups.setdefault((question.kind, question.labels or question.sampling), []).append(row)
        rows: dict[int, Answer] = {}
        n_tokens = 0
        for group in groups.values():
            answers = self.answer_alike([questions[row] for row in group], progress)
            rows.update(zip(group, answers.rows, strict=True))
            n_tokens += answers.usage.n_computed
        return Answers([rows[row] for row in range(len(questions))], Usage(n_tokens, n_tokens))

    def answer_alike(self, questions: Sequence[Question], progress: Progress | None) -> Answers:
        """Questions of one kind, with the same labels or sampling."""
        self.calls.append(({"labels": "judge", "text": "write", "tokens": "read"}[questions[0].kind], len(questions)))
        rows: list[Answer] = []
        for question in questions:
            try:
                rows.append(self.answer_one(question))
            except Exception as error:
                rows.append(error)
            if progress:
                progress(1)
        judged = questions[0].kind == "labels"
        n_tokens = sum(len(question.prompt.text.split()) for question in questions) if judged else 0
        return Answers(rows, Usage(n_tokens, n_tokens))

    def answer_one(self, question: Question) -> Answer:
        """raises : what makes the row fail"""
        prompt = question.prompt
        if question.sampling is not None:
            self.written.append(prompt)
            text = self.writer(prompt, question.seed)
            return Generation(text, "stop", len(text.split())) if isinstance(text, str) else text
        if question.continuation is not None:
            self.read.append((prompt, question.continuation))
            return np.array(self.reader(prompt, question.continuation), dtype=np.float64)
        self.judged.append(prompt)
        if prompt.text in self.failures:
            raise EngineError(self.failures[prompt.text])
        log_probs = [float(value) for value in self.judge(prompt, question.labels)]
        return LabelAnswer(log_probs, OtherToken("The", float(np.log(0.05))))


class CensoringEngine(FakeEngine):
    """A FakeEngine of which `untold(prompt)` says what is not told: label index -> share of it that is."""

    def __init__(self, judge: Judge, untold: Callable[[Prompt], Mapping[int, float]]) -> None:
        super().__init__(judge)
        self.untold = untold

    def answer_one(self, question: Question) -> Answer:
        answer = super().answer_one(question)
        shares = self.untold(question.prompt)
        if not isinstance(answer, LabelAnswer) or not shares:
            return answer
        censored = [label in shares for label in range(len(answer.log_probs))]
        floors = list(answer.log_probs)
        for label, share in shares.items():
            floors[label] += float(np.log(share)) if share else -np.inf
        return answer._replace(censored=censored, floors=floors)


def qualities(prompt) -> list[float]:
    """Of the texts shown, in order."""
    return [float(part.split()[0]) for part in prompt.text.split("q=")[1:]]


def reading_judge(bias=0.0, mass=0.9):
    """Of two texts the better, by their difference in nats plus bias for the first; of one, numbers near it."""

    def judge(prompt, labels):
        shown = qualities(prompt)
        if len(shown) == 1:
            log_odds = [-((float(label) - shown[0]) ** 2) for label in labels]
        else:
            odds = shown[0] - shown[1] + bias
            first, second = -np.logaddexp(0, -odds), -np.logaddexp(0, odds)
            said = {
                "A": first,
                "B": second,
                "Worse": first,
                "Better": second,
                "No": first,
                "Yes": second,
                "Similar": -2.0,
            }
            log_odds = [said[label] for label in labels]
        log_odds = np.array(log_odds, dtype=float)
        return log_odds - np.logaddexp.reduce(log_odds) + np.log(mass)

    return judge


def stored_in_batches(engine, store, size):
    """A StoredEngine that asks so many questions at a time."""
    made = StoredEngine(engine, store)
    made.source = InBatches(engine, most=size)
    made.source.sizes = dict.fromkeys(made.source.sizes, size)
    return made
