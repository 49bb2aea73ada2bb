"""datatrove: a filter, for pipelines on one machine, Slurm or Ray."""

from __future__ import annotations

from typing import Any

from datatrove.data import Document
from datatrove.pipeline.filters.base_filter import BaseFilter

from ..thresholds.rules import MinScore
from .mount import Mount, row_of


class SynthscoreFilter(BaseFilter):
    """Keeps documents that score at_least so much; reasons of the others: "dropped" and "unsure" (which are unscored).

    All of them have synthscore and synthscore_status in their metadata, and synthscore_reason where something is amiss.

    mount : what the scorer is made of. It is loaded where documents are filtered
    context_key : in a document's metadata, the id of its context; without it, metadata["context"] is the context
    batch_size : documents in a call
    """

    name = "synthscore"

    def __init__(
        self,
        mount: Mount,
        at_least: float,
        context_key: str = "context_id",
        exclusion_writer: Any = None,
        batch_size: int = 1024,
    ) -> None:
        super().__init__(exclusion_writer, batch_size)
        self.mount, self.rule, self.context_key = mount, MinScore(at_least), context_key

    def filter(self, doc: Document) -> bool | tuple[bool, str]:
        return self.filter_batch([doc])[0]

    def filter_batch(self, batch: list[Document]) -> list[bool | tuple[bool, str]]:
        rows = []
        for doc in batch:
            context_id, context = doc.metadata.get(self.context_key), doc.metadata.get("context")
            rows.append(row_of(doc.id, doc.text, context_id=context_id, context=context))
        decisions: list[bool | tuple[bool, str]] = []
        for doc, score in zip(batch, self.mount.scores(rows), strict=True):
            doc.metadata |= {"synthscore": score.value, "synthscore_status": score.status}
            if score.reason:
                doc.metadata["synthscore_reason"] = score.reason
            decision, _ = self.rule.decide(score)
            decisions.append(True if decision == "kept" else (False, decision))
        return decisions
