"""Inspect: completions -> Scores on the rung scale; known there as synthscore/score."""

from __future__ import annotations

from typing import Any

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from ..types import blank
from .mount import Mount, row_of


@scorer(metrics=[mean(), stderr()])
def score(
    references: str,
    model: str = "nano",
    attribute: str | None = None,
    task: str | None = None,
    both_orders: bool = False,
    scale: str | None = None,
    store: str | None = None,
    deadline_s: float | None = None,
    context_key: str = "context_id",
    ladder: str | None = None,
) -> Scorer:
    """Scores of completions; those that cannot be scored are unscored, with the reason, and no metric counts them.

    references ... deadline_s, ladder : as of Mount. model : the judge's
    context_key : in the metadata of a sample, the id of its context; without it, the sample's input is the context
    """
    mount = Mount(
        references=references,
        ladder=ladder,
        model=model,
        attribute=attribute,
        task=task,
        both_orders=both_orders,
        scale=scale,
        store=store,
        deadline_s=deadline_s,
    )

    async def run(state: TaskState, target: Target) -> Score:
        text = state.output.completion
        if blank(text):
            return Score.unscored(answer=text, reason="no_response", explanation="the completion is empty")
        row = row_of(state.sample_id, text, context_id=state.metadata.get(context_key), prompt=state.input_text)
        found = await mount.score_one(row)
        if found.value is None:
            return Score.unscored(answer=text, reason="scoring_failed", explanation=found.reason)
        about: dict[str, Any] = {"signature": mount.signature, "low": found.low, "high": found.high, **found.details}
        return Score(value=found.value, answer=text, explanation=found.reason or None, metadata=about)

    return run
