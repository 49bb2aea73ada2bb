"""Methods with the judges that they ask: which method asks whom, and how many questions that will be."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

from ..engine import Engine
from ..errors import SynthscoreError
from ..io.scores import Scores
from ..scoring.method import Tools
from .methods import method, uses
from .methods.base import SetMethod
from .ratings import Ratings


@dataclass(frozen=True, slots=True)
class JudgedMethod:
    """A method, and the name of the judge that it asks; "" for a method that asks none."""

    method: SetMethod
    judge: str = ""

    def asking(self, engines: Mapping[str, Engine]) -> SetMethod:
        """The method that asks its judge, by name, whomever the tools name."""
        if not self.judge:
            return self.method

        def ask(ratings: Ratings, attribute: str, tools: Tools) -> Scores:
            return self.method(ratings, attribute, replace(tools, judge=engines[self.judge]))

        return ask


def pair_with_judges(specs: Iterable[str], judges: Sequence[str]) -> dict[str, JudgedMethod]:
    """Each method with each judge, or once where it asks none, in the order of tables.

    specs : as evaluation.methods.method takes them
    returns : name in tables (the spec, and the judge behind it where there are several) -> method and judge
    raises : MethodError for a spec that makes no method
    """
    paired = {}
    for spec in specs:
        for judge in judges if "judge" in uses(spec) else [""]:
            label = f"{spec} ({judge})" if judge and len(judges) > 1 else spec
            paired[label] = JudgedMethod(method(spec), judge)
    return paired


def ask_nothing(methods: Iterable[SetMethod], ratings: Ratings, attributes: Sequence[str], tools: Tools) -> None:
    """Calls methods whose judge counts questions and answers none (store.engine.QuestionCounter): no text is scored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one, attribute in product(methods, attributes):
            with suppress(SynthscoreError):
                one(ratings, attribute, tools)
