"""A scorer made of plain strings and numbers, for tools that pickle, log, copy and make again what they are given.

What is loaded for it is loaded when the first text comes, once a process, and shared by all that are made alike.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from .._version import __version__
from ..engines import open_judge, split_kind
from ..engines.source import Source
from ..errors import unusable
from ..io.fields import is_missing
from ..judging.asking import Asking
from ..ladders.references import References
from ..scoring.anchored import Anchored, Scales
from ..scoring.paper import Paper
from ..scoring.scorer import Scorer
from ..signature import text_hash
from ..types import Score

M = TypeVar("M", bound="Mount")
_LOG = logging.getLogger(__name__)
_OF_NANO = (
    "texts are judged by nano, a small model that knows a few attributes. See what it can judge with `synthscore "
    "doctor`, or name another judge: model=..."
)
_LOADED: dict[tuple[Any, ...], Scorer] = {}
_LOADING = threading.Lock()


def _forget() -> None:
    """In a process that was forked: threads and files of the one before are not its own."""
    global _LOADING
    _LOADING = threading.Lock()
    _LOADED.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


@dataclass(frozen=True, kw_only=True)
class Mount:
    """What a scorer is made of. Equal ones share it, and the calls of the judge.

    references, model, store : a folder or hub id; as of open_engine; a file of answers, "none", or None: in your cache
    ladder : id of a context whose ladder texts of all contexts are compared with
    task, attribute : may be left out where the references hold one
    scale : a file of scales: then scores are anchored, each with its error
    method : as of Scorer: "place", "g-eval:samples=20", ...; one that needs no ladders needs no references
    deadline_s : after which a text is unscored; None: it is waited for
    """

    references: str | None = None
    ladder: str | None = None
    model: str = "nano"
    attribute: str | None = None
    task: str | None = None
    both_orders: bool = False
    scale: str | None = None
    method: str = "ladder"
    store: str | None = None
    deadline_s: float | None = None

    @classmethod
    def from_environment(cls: type[M]) -> M:
        """From SYNTHSCORE_REFERENCES, SYNTHSCORE_MODEL, ...: a variable a field. raises : InputError"""
        given: dict[str, Any] = {}
        for each in fields(cls):
            name = f"SYNTHSCORE_{each.name.upper()}"
            if value := os.environ.get(name):
                try:
                    given[each.name] = _READ[str(each.type).removesuffix(" | None")](value)
                except (ValueError, KeyError):
                    raise unusable(name, value, f"a {each.type}", "Set it anew") from None
        if not {"references", "method"} & given.keys():
            raise unusable("SYNTHSCORE_REFERENCES", None, "a folder or hub id of ladders", "Set it")
        return cls(**given)

    @property
    def scorer(self) -> Scorer:
        """The one that this process made before, or makes now.

        raises : what loading the references and the model raises
        """
        values = (getattr(self, each.name) for each in fields(Mount) if each.name != "deadline_s")
        made_of = (os.getcwd(), *values)
        with _LOADING:
            if made_of not in _LOADED:
                if self.model == Mount.model and not any(self.model in known for known in _LOADED):
                    _LOG.warning(_OF_NANO)
                scoring = Paper() if self.scale is None else Anchored(self.scale)
                judge = open_judge(self.model, self.store)
                asking = Asking(both_orders=self.both_orders)
                _LOADED[made_of] = Scorer(
                    self._ladders,
                    judge,
                    task=self.task,
                    attribute=self.attribute,
                    scoring=scoring,
                    asking=asking,
                    method=self.method,
                )
            return _LOADED[made_of]

    @property
    def _ladders(self) -> References | None:
        """raises : ReferencesError; InputError, LadderError for a ladder that there is not"""
        if self.references is None:
            if self.ladder is not None:
                raise unusable("ladder", self.ladder, "with references", "Say where the ladders are")
            return None
        references = References.load(self.references)
        return references if self.ladder is None else references.share(self.ladder)

    @property
    def signature(self) -> str:
        return str(self.scorer.signature)

    @property
    def fingerprint(self) -> str:
        """Hex digits that change with the ladders, with a model or scale on this machine, and with every field. No
        model is loaded for it, so that processes may be forked afterwards."""
        model = self.model
        if not split_kind(model)[0]:
            source = Source.of(model)
            model = f"{model}@{source.hash()}" if os.path.exists(source.place) else model
        scale = "" if self.scale is None else "".join(each.hash for each in Scales.load(self.scale))
        ladders = "" if self._ladders is None else self._ladders.hash
        return text_hash(__version__, repr(self), ladders, model, scale)

    def scores(self, rows: Sequence[Mapping[str, Any]]) -> list[Score]:
        """One a row, in order, in any thread. rows : as of Scorer.score: id, context_id (or context), text"""
        scorer = self.scorer
        found = scorer.submit(rows)
        wait([found], self.deadline_s)
        if found.done() or self.deadline_s is None:
            return list(found.result())
        found.cancel()
        return scorer.late(rows, self.deadline_s)

    async def score_one(self, row: Mapping[str, Any]) -> Score:
        """As Scorer.score_one."""
        return await self.scorer.score_one(row, within_s=self.deadline_s)

    def unit(self, score: Score) -> float | None:
        """The score on a scale from 0, as bad as the worst rung or worse, to 1, as good as the best or better; of a
        method with a scale of its own, from its least score to its greatest. None where the text is unscored.

        raises : InputError for a method whose scores have no ends
        """
        if score.value is None:
            return None
        best = score.details.get("scale", score.details.get("n_rungs"))
        if best is not None:
            low, high = 1.0, best
        else:
            limits = self.scorer.method.limits(0)
            low, high = limits.low, limits.high
        if not math.isfinite(high - low):
            raise unusable("method", self.method, "one whose scores have a least and a greatest")
        return min(max((score.value - low) / (high - low), 0.0), 1.0)


def row_of(
    id: object, text: object, *, context_id: object = None, context: object = None, prompt: object = None
) -> dict[str, Any]:
    """A row of what a tool calls by other names. What is missing there is missing here, so that its reason is said.

    context : the text of the context. prompt : what a tool asked for the text with, which stands for the context where
        nothing else says which one it is: tools write prompts anew, so that its words need not be the context's
    """
    row: dict[str, Any] = {"id": str(id), "text": text}
    if not is_missing(context_id):
        row["context_id"] = context_id
    if not is_missing(context):
        row["context"] = context
    if "context_id" not in row and "context" not in row:
        row["context"] = prompt
    return row


_READ: Mapping[str, Any] = {
    "str": str,
    "float": float,
    "bool": {"1": True, "true": True, "0": False, "false": False}.__getitem__,
}
