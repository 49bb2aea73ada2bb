"""Texts + engine -> comparisons. The one module of ranking that asks a model; it reads no files.

A `Judge` answers calls of many problems at a time: those of a design (`selection`), or those that depend on earlier
answers (`asking`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..engine import Engine
from ..errors import InputError
from ..judging.asking import Asking, ask
from ..judging.templates import Templates
from ..judging.verdicts import Pair
from ..signature import Signature, text_hash
from ..types import Context, FloatArray
from .asking import Call, compared
from .comparisons import Comparisons

PROTOCOLS = ("choose", "compare", "yes_no")
"""Those whose answers about a pair are probabilities that sum to 1."""


_PROBE = Context("probe", "<context>")


@dataclass(frozen=True, slots=True)
class Problem:
    """Two texts or more, for one context, to be put in order on one attribute."""

    context: Context
    attribute: str
    ids: tuple[str, ...]
    texts: tuple[str, ...]

    def __post_init__(self) -> None:
        n = len(self.ids)
        if n < 2 or len(set(self.ids)) < n or len(self.texts) != n:
            raise InputError(
                f"context {self.context.id!r} has {n} candidates with {len(set(self.ids))} different ids and "
                f"{len(self.texts)} texts, expected at least 2, each with an id of its own and a text",
                value=self.ids,
            )

    def rng(self, seed: int) -> np.random.Generator:
        """For what is drawn about this problem, whatever its neighbours are."""
        name = text_hash(self.context.id, self.attribute)
        return np.random.default_rng([seed, int(name[:16], 16)])


class Failure(NamedTuple):
    """A call without an answer: the ids of the texts, and why."""

    problem: int
    first: str
    second: str
    reason: str


class Judge:
    """Answers calls about problems by asking an engine, and keeps what was answered.

    asking : its protocol is "choose": which of the two is better; "compare": also similar, which bt-ties uses; or
        "yes_no". In each of them, which text is the target of synthscore.judging.verdicts is read off the template: the
        one it shows second or first. Each call says in which order it is asked, so both_orders is False
    failures : calls without an answer, so far
    """

    def __init__(
        self,
        problems: Sequence[Problem],
        engine: Engine,
        templates: Templates,
        asking: Asking = Asking("choose"),
    ) -> None:
        if asking.protocol not in PROTOCOLS or asking.both_orders:
            raise InputError(
                f"cannot ask about pairs of candidates with {asking}: expected both_orders=False, since each call says "
                f"its order, and one of the protocols {', '.join(PROTOCOLS)}. Take one of them",
                field="asking",
                value=asking,
            )
        self.problems, self.engine, self.templates, self.asking = tuple(problems), engine, templates, asking
        self.failures: list[Failure] = []
        self._calls: list[list[Call]] = [[] for _ in problems]
        self._answers: list[list[FloatArray]] = [[] for _ in problems]
        self._target_first = _target_first(templates, asking.protocol)
        self.signature: Signature = asking.signature(engine, templates).with_(task=templates.task.name)

    def __call__(self, calls: Sequence[Call]) -> FloatArray:
        """log P(first is better), log P(second is better), log P(similar), nats, shape (k, 3); NaN: no answer.

        raises : TemplateError, TaskError, LabelError
        """
        # Sorted, because neighbours share their beginning: the context, then the text that is shown first.
        order = sorted(range(len(calls)), key=calls.__getitem__)
        verdicts = ask([self._pair(*calls[row]) for row in order], self.engine, self.templates, self.asking)
        both = (verdicts.better, verdicts.worse) if self._target_first else (verdicts.worse, verdicts.better)
        answers = np.empty((len(calls), 3))
        with np.errstate(divide="ignore"):
            answers[order] = np.log(np.stack([*both, verdicts.similar], axis=1))
        reasons = {order[place]: reason for place, reason in verdicts.failures.items()}
        answers[list(reasons)] = np.nan
        for row, (k, first, second) in enumerate(calls):
            if row in reasons:
                ids = self.problems[k].ids
                self.failures.append(Failure(k, ids[first], ids[second], reasons[row]))
            else:
                self._calls[k].append(calls[row])
                self._answers[k].append(answers[row])
        return answers

    def _pair(self, k: int, first: int, second: int) -> Pair:
        problem = self.problems[k]
        target, reference = (first, second) if self._target_first else (second, first)
        return Pair(problem.context, problem.attribute, problem.texts[target], problem.texts[reference])

    def comparisons(self) -> list[Comparisons]:
        """What was answered so far, one set a problem, in the order in which it was asked."""
        return [
            compared(problem.ids, np.array(calls, dtype=np.int64).reshape(-1, 3)[:, 1:], answers, self.signature)
            for problem, calls, answers in zip(self.problems, self._calls, self._answers, strict=True)
        ]


def _target_first(templates: Templates, protocol: str) -> bool:
    attribute = next(iter(templates.task.attributes.values()))
    texts = {"target": "<target>", "reference": "<reference>"}
    if protocol == "choose":
        prompt = templates.choose(_PROBE, attribute, first=texts["reference"], second=texts["target"])
    else:
        prompt = (templates.compare if protocol == "compare" else templates.yes_no)(_PROBE, attribute, **texts)
    return prompt.text.find(texts["target"]) < prompt.text.find(texts["reference"])
