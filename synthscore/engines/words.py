"""Answers in words: a judge that gives no probabilities is asked for a label, once or several times, and how often it
says each label is its answer (arXiv:2307.07889, equations 4 and 5).

An engine around another one, which only has to write. Each sample is a question of its own, with a seed of its own, so
that a store between the two keeps each sample, and a larger number of samples asks only for the rest.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..engine import (
    Answer,
    Answers,
    Capabilities,
    Engine,
    EngineAround,
    Generation,
    LabelAnswer,
    Progress,
    Prompt,
    Question,
    Sampling,
    capabilities_of,
)
from ..errors import EngineError, Postponed, require_kind, unusable
from ..signature import Signature, text_hash

SHORT, LONG = 64, 4096
"""Tokens that an answer may have: of a model that says its label at once, and of one that reasons before."""

_BEFORE_LABEL = re.compile(r"(?:(?:final\s+)?(?:verdict|answer|rating)\s*[:=])?", re.IGNORECASE)
_AROUND_LABEL = " \t*_\"'`.:#"


class InWords(EngineAround):
    """An engine whose answers about labels are frequencies among `n_votes` answers in words of the engine inside.

    A sample whose answer is no label (`read_label`), that was cut, or refused is a failed sample, never a vote. Where
    more than a third of the samples failed, the question has an EngineError that says why; else log_probs are those of
    counts / n_votes, so that the labels' mass is the share of samples that were read. What is no question on labels is
    passed on.

    n_tokens : that an answer may have, its reasoning included; None: SHORT, or LONG where the engine may reason
    raises : InputError, unless n_votes is a whole number of at least 1
    """

    def __init__(self, engine: Engine, n_votes: int = 1, n_tokens: int | None = None) -> None:
        super().__init__(engine)
        require_kind("n_votes", n_votes, int, "a whole number of at least 1")
        if n_votes < 1:
            raise unusable("n_votes", n_votes, "at least 1")
        self.n_votes = n_votes
        limit = n_tokens or (LONG if capabilities_of(engine).reasons else SHORT)
        self.sampling = Sampling(max_new_tokens=limit, temperature=1.0, top_p=1.0)

    @property
    def signature(self) -> Signature:
        """Of the engine inside, with how its answers become one."""
        return self.engine.signature.with_(answers="words", votes=self.n_votes)

    @property
    def capabilities(self) -> Capabilities:
        return replace(capabilities_of(self.engine), judges=True, answers="words", reports_mass=True)

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        """`progress` is told of samples as n_votes of them make a question."""
        samples = [sample for question in questions for sample in self._samples(question)]
        answers = self.engine.answer(samples, self._count_questions(questions, progress))
        rows = iter(answers.rows)
        voted: list[Answer] = []
        for question in questions:
            given = [next(rows) for _ in self._samples(question)]
            in_words = question.kind == "labels"
            voted.append(count_votes(question.labels, given, cue_of(question.prompt)) if in_words else given[0])
        return replace(answers, rows=voted)

    def ask_samples(
        self, questions: Sequence[Question], n: int, progress: Progress | None = None
    ) -> list[list[str | None]]:
        """The labels that the first n samples of each question on labels end in; None for a failed sample."""
        judge = InWords(self.engine, n, self.sampling.max_new_tokens)
        samples = [sample for question in questions for sample in judge._samples(question)]
        rows = iter(self.engine.answer(samples, judge._count_questions(questions, progress)).rows)
        return [
            [read_label(next(rows), question.labels, cue_of(question.prompt)) for _ in range(n)]
            for question in questions
        ]

    def _samples(self, question: Question) -> list[Question]:
        if question.kind != "labels":
            return [question]
        seeds = [sample_seed(question, number) for number in range(self.n_votes)]
        return [replace(question, sampling=self.sampling, seed=seed) for seed in seeds]

    def _count_questions(self, questions: Sequence[Question], progress: Progress | None) -> Progress | None:
        """Told of samples, it tells `progress` of questions."""
        if progress is None:
            return None
        n_samples = sum(len(self._samples(question)) for question in questions)
        n_read = n_shown = 0

        def count(n: int) -> None:
            nonlocal n_read, n_shown
            n_read += n
            n_answered = n_read * len(questions) // max(n_samples, 1)
            progress(n_answered - n_shown)
            n_shown = n_answered

        return count


def find_in_words(engine: Engine) -> InWords | None:
    """The engine that asks in words, of this one and those inside it; None where there is none."""
    inside: Any = engine
    while inside is not None and not isinstance(inside, InWords):
        inside = getattr(inside, "engine", None)
    return inside


def sample_seed(question: Question, number: int) -> int:
    """Of one sample of a question, 31 bits. Questions do not share seeds: the first samples of all of them would else
    be drawn with the same luck, and err alike."""
    digest = text_hash(question.prompt.text, question.prompt.prefill, *question.labels, str(number))
    return int(digest[:8], 16) >> 1


def cue_of(prompt: Prompt) -> str:
    """The words that a prompt ends with, after which it wants the answer: "Verdict:", or "Urteil:"; "" where it ends
    otherwise."""
    last = prompt.text.rstrip().rpartition("\n")[2].strip()
    return last if last.endswith(":") else ""


def count_votes(labels: Sequence[str], samples: Sequence[Answer], cue: str = "") -> LabelAnswer | EngineError:
    """What the samples of one question say together; an EngineError where more than a third of them failed, Postponed
    where some are. cue : as of `read_label`"""
    if any(isinstance(sample, Postponed) for sample in samples):
        return Postponed()
    votes: Counter[str] = Counter()
    failures: list[str] = []
    for sample in samples:
        if isinstance(sample, Exception):
            failures.append(str(sample))
            continue
        label = read_label(sample, labels, cue)
        if label is None:
            failures.append(_why_no_label(sample, labels))
        else:
            votes[label] += 1
    if 3 * len(failures) > len(samples):
        if len(samples) == 1:
            return EngineError(failures[0])
        return EngineError(f"{len(failures)} of {len(samples)} answers in words are no label; the first: {failures[0]}")
    log_probs = [math.log(votes[label] / len(samples)) if votes[label] else -math.inf for label in labels]
    return LabelAnswer(log_probs, n_samples=votes.total())


def read_label(sample: Answer, labels: Sequence[str], cue: str = "") -> str | None:
    """The label that an answer in words ends in: its last line that is not empty, whole but for what surrounds it
    ("**Better**.", "Verdict: Better"), in capitals or not; or the one value of a JSON object. None where that is no
    label, more than one, or the answer was cut or refused.

    cue : words that the answer may repeat before its label: those that the prompt ends with
    """
    if not isinstance(sample, Generation) or sample.finish_reason != "stop":
        return None
    lines = [line for line in sample.text.splitlines() if line.strip()]
    last = _value_of_json(sample.text) or (lines[-1] if lines else "")
    answer = last.strip(_AROUND_LABEL)
    answer = _BEFORE_LABEL.sub("", answer, count=1).strip(_AROUND_LABEL).casefold()
    if cue:
        answer = answer.removeprefix(cue.casefold()).strip(_AROUND_LABEL)
    fitting = [label for label in labels if label.strip().casefold() == answer]
    return fitting[0] if len(fitting) == 1 else None


def _value_of_json(text: str) -> str:
    """Of an object with one value, that value; "" of any other text."""
    if not text.lstrip().startswith("{") or len(text) > 1000:
        return ""
    try:
        parsed = json.loads(text)
    except ValueError:
        return ""
    values = list(parsed.values()) if isinstance(parsed, dict) else []
    is_label = len(values) == 1 and isinstance(values[0], str | int) and not isinstance(values[0], bool)
    return str(values[0]) if is_label else ""


def _why_no_label(sample: Answer, labels: Sequence[str]) -> str:
    expected = f"expected one of {', '.join(labels)} as its last line"
    if not isinstance(sample, Generation):
        return f"the answer is {sample!r:.80}, {expected}"
    shown = " ".join(sample.text.split())[-80:]
    if sample.finish_reason == "refusal":
        return f"the model or its provider refused to answer ({shown!r}), {expected}"
    if sample.finish_reason == "length":
        return (
            f"the answer was cut after {sample.n_tokens} tokens ({shown!r}), {expected}. If the model reasons, say so "
            "with --thinking or --reasoning-effort, and it is given room for that"
        )
    return f"the answer ends in {shown!r}, {expected}"
