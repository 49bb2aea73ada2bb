"""deepeval: a metric. deepeval shows scores as shares, and makes a metric anew for each test case, by its arguments."""

from __future__ import annotations

from typing import Any

from deepeval.metrics import BaseMetric
from deepeval.test_case import LLMTestCase

from ..types import Score
from .mount import Mount, row_of


class SynthscoreMetric(BaseMetric):
    """How far up its ladder the actual output is: 0 as bad as the worst rung or worse, 1 as good as the best or better.

    The score on the rung scale is in `score_breakdown` and in the reason. What cannot be scored has an error and fails.

    mount : what the scorer is made of. threshold : least share that passes
    context_key : in a test case's metadata, the id of its context; without it, its input is the context
    """

    def __init__(self, mount: Mount, threshold: float = 0.5, context_key: str = "context_id") -> None:
        self.mount, self.threshold, self.context_key = mount, threshold, context_key
        self.evaluation_model, self.evaluation_cost = mount.model, 0.0

    async def a_measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float | None:
        """The score, on a scale from 0 to 1; None where there is none, and then the error says why."""
        return self._tell(await self.mount.score_one(self._row(test_case)))

    def measure(self, test_case: LLMTestCase, *args: Any, **kwargs: Any) -> float | None:
        """As a_measure, and waits for it: also where an event loop runs, as in Jupyter."""
        [score] = self.mount.scores([self._row(test_case)])
        return self._tell(score)

    def _row(self, test_case: LLMTestCase) -> dict[str, Any]:
        context_id = (getattr(test_case, "metadata", None) or {}).get(self.context_key)
        return row_of(0, test_case.actual_output, context_id=context_id, prompt=test_case.input)

    def _tell(self, score: Score) -> float | None:
        self.score = self.mount.unit(score)
        self.error = score.reason if score.value is None else None
        self.score_breakdown = {"rungs": score.value, "stderr": score.stderr, "signature": self.mount.signature}
        self.reason = score.reason or f"{score.value:.2f} on the scale of the ladder's rungs"
        self.is_successful()
        return self.score

    @property
    def __name__(self) -> str:
        """What deepeval calls the metric in its tables."""
        return f"synthscore ({self.mount.attribute})" if self.mount.attribute else "synthscore"
