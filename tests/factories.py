"""Nouns for tests, made in a line: contexts, ladders, references, targets, ways to ask and to score."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from synthscore.engine import Engine
from synthscore.judging.asking import Asking
from synthscore.ladders.references import References
from synthscore.ranking.comparisons import Comparisons
from synthscore.scoring.anchored.mode import Anchored
from synthscore.scoring.paper import Paper
from synthscore.scoring.scorer import Scorer
from synthscore.types import Context, Ladder, Rung, Target


def context(id: str = "c1", text: str = "", facts: str = "", references: tuple[str, ...] = ()) -> Context:
    return Context(id, text or f"Article {id}.", facts, references)


def ladder(
    context_id: str = "c1",
    attribute: str = "coherence",
    task: str = "summarization",
    *,
    n: int = 5,
    text: str = "rung of {context_id} q={quality} .",
    qualities: Sequence[float] | None = None,
    failed: Collection[int] = (),
    reason: str = "it is a refusal",
    context: Context | str | None = "",
    provenance: Mapping[str, Any] | None = None,
) -> Ladder:
    """text : of a rung, with its level, its quality and the ladder's names. qualities : worst first; None: the levels

    failed : levels without a text, for this reason
    context : None for a ladder without one; or its text, or the noun
    """

    def rung(level: int) -> Rung:
        fraction = (level - 1) / (n - 1)
        if level in failed:
            return Rung(level, fraction, "", "failed", reason, provenance=provenance or {})
        quality = qualities[level - 1] if qualities else level
        written = text.format(context_id=context_id, attribute=attribute, level=level, quality=quality)
        return Rung(level, fraction, written, provenance=provenance or {})

    if isinstance(context, str):
        context = Context(context_id, context or f"Article {context_id}.")
    return Ladder(context_id, task, attribute, tuple(rung(level) for level in range(1, n + 1)), context)


def references(*ladders: Ladder, **options: Any) -> References:
    """Of these ladders; or of one, made with the options."""
    return References(ladders or (ladder(**options),))


def target(quality: float, id: str = "", context_id: str = "c1", **more: Any) -> Target:
    """Whose text says how good it is."""
    return Target(id or f"t{quality}", context_id, f"text of q={quality} .", **more)


def targets(qualities: Iterable[float], context_id: str = "c1") -> list[Target]:
    return [target(quality, f"t{k}", context_id) for k, quality in enumerate(qualities)]


def asking(options: dict[str, Any]) -> Asking:
    """Made of the options that are fields of Asking, which are taken out."""
    return Asking(**_taken(Asking, options))


def scorer(references: References, judge: Engine, *, scoring: str = "paper", **options: Any) -> Scorer:
    """scoring : "paper" or "anchored". options : of Asking, of the scoring, and of Scorer"""
    how = asking(options)
    mode = Paper(**_taken(Paper, options)) if scoring == "paper" else Anchored(**_taken(Anchored, options))
    return Scorer(references, judge, scoring=mode, asking=how, **options)


def _taken(kind: Any, options: dict[str, Any]) -> dict[str, Any]:
    return {field.name: options.pop(field.name) for field in fields(kind) if field.name in options}


def turned(comparisons: Comparisons) -> Comparisons:
    """Every call as if the texts had been shown in the other order."""
    return replace(
        comparisons,
        first=comparisons.second,
        second=comparisons.first,
        log_probs=comparisons.log_probs[:, [1, 0, 2]],
    )
