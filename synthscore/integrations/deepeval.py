"""deepeval: a metric. deepeval shows scores as shares, and makes a metric anew for each test case, by its arguments."""

from __future__ import annotations

import asyncio
from typing import Any

from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase

from .mount import Mount, row_of


class SynthscoreMetric(BaseMetric):
    """How far up its ladder the actual output is: 0 as bad as the worst rung or worse, 1 as good as the best or better.

    The score on the rung scale is in `score_breakdown` and in the reason. What cannot be scored has an error and fails.

    references ... deadline_s : as of Mount; judge is its model
    threshold : least share that passes. context_key : in a test case's metadata, the id of its context; without it, its
        input is the context
    """

    def __init__(
        self,
        references: str,
        judge: str = "nano",
        attribute: str | None = None,
        threshold: float = 0.5,
        task: str | None = None,
        both_orders: bool = False,
        scale: str | None = None,
        store: str | None = None,
        deadline_s: float | None = None,
        context_key: str = "context_id",
    ) -> None:
        self.references, self.judge, self.attribute, self.threshold = references, judge, attribute, threshold
        self.task, self.both_orders, self.scale, self.store = task, both_orders, scale, store
        self.deadline_s, self.context_key = deadline_s, context_key
        self.evaluation_model, self.evaluation_cost = judge, 0.0

    async def a_measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float | None:
        """The score, on a scale from 0 to 1; None where there is none, and then the error says why."""
        mount = Mount(
            references=self.references,
            model=self.judge,
            attribute=self.attribute,
            task=self.task,
            both_orders=self.both_orders,
            scale=self.scale,
            store=self.store,
            deadline_s=self.deadline_s,
        )
        context_id = (getattr(test_case, "metadata", None) or {}).get(self.context_key)
        found = await mount.score_one(row_of(0, test_case.actual_output or "", context_id, test_case.input))
        self.score, self.error = mount.unit(found), found.reason if found.value is None else None
        self.score_breakdown = {"rungs": found.value, "stderr": found.stderr, "signature": mount.signature}
        self.reason = found.reason or f"{found.value:.2f} on the scale of the ladder's rungs"
        self.is_successful()
        return self.score

    def measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float | None:
        """As a_measure."""
        return asyncio.run(self.a_measure(test_case, *args, **kwargs))

    @property
    def __name__(self) -> str:
        """What deepeval calls the metric in its tables."""
        return f"synthscore ({self.attribute})" if self.attribute else "synthscore"
