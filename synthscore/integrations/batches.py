"""Columns of a batch -> with a score each: a callable for `datasets.map(..., batched=True)` and Ray's `map_batches`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .mount import Mount, row_of

ADDED = {"synthscore": "float64", "synthscore_status": "string", "synthscore_reason": "string"}
"""The columns of scores, and their types."""


@dataclass(frozen=True, kw_only=True)
class ScoreBatch(Mount):
    """Adds synthscore (null where there is none), synthscore_status and synthscore_reason to a batch of columns.

    In pickles there is the fingerprint: datasets computes again what it kept when the ladders or the model changed.

    text, context_id : columns. context : column of contexts' texts, where there is no column of ids. id : or None
    """

    text: str = "text"
    context_id: str = "context_id"
    context: str = "context"

    def __call__(self, batch: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
        """batch : column -> values, as many each"""
        texts = batch[self.text]
        nothing = [None] * len(texts)
        ids, contexts = batch.get(self.context_id, nothing), batch.get(self.context, nothing)
        rows = [
            row_of(number, text, context_id=context_id, context=context)
            for number, (text, context_id, context) in enumerate(zip(texts, ids, contexts, strict=True), 1)
        ]
        scores = self.scores(rows)
        values = [
            [score.value for score in scores],
            [score.status for score in scores],
            [score.reason for score in scores],
        ]
        return {**batch, **dict(zip(ADDED, values, strict=True))}

    def features(self, features: Mapping[str, Any]) -> Any:
        """Those of a datasets.Dataset and of the columns that are added, for `map(..., features=...)`.

        Without them datasets takes the types of columns from the first rows, and stops where those have no score.
        """
        from datasets import Features, Value

        return Features({**features, **{name: Value(dtype) for name, dtype in ADDED.items()}})

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fingerprint": self.fingerprint}
