"""Nouns for tests, made in a line: contexts, ladders, references, targets, ratings, ways to ask and to score."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from papers.designs import connecting
from synthscore.engine import Engine
from synthscore.evaluation.ratings import RatedText, Ratings
from synthscore.judging.asking import Asking
from synthscore.ladders.references import References
from synthscore.ranking.comparisons import Comparisons
from synthscore.ranking.designs import all_pairs
from synthscore.scoring.anchored.mode import Anchored
from synthscore.scoring.paper import Paper
from synthscore.scoring.scorer import Scorer
from synthscore.types import Context, IntArray, Ladder, Rung, Target

GERMAN = Path(__file__).parent / "data" / "zusammenfassung"
"""A task that is not the package's: its words, its answers and its templates are German."""


def context(id: str = "c1", text: str = "", facts: str = "", references: tuple[str, ...] = ()) -> Context:
    return Context(id, text or f"Article {id}.", facts, references)


def ladder(
    context_id: str = "c1",
    attribute: str = "coherence",
    task: str = "summarization",
    *,
    n: int = 5,
    texts: Sequence[str | None] = (),
    text: str = "rung of {context_id} q={quality} .",
    qualities: Sequence[float] | None = None,
    failed: Collection[int] = (),
    reason: str = "it is a refusal",
    context: Context | str | None = "",
    provenance: Mapping[str, Any] | None = None,
) -> Ladder:
    """texts : of the rungs, worst first; None for one that failed. Or text : of each of the n rungs, by its level, its
        quality and the ladder's names
    qualities : worst first; None: the levels
    failed : levels without a text, for this reason
    context : None for a ladder without one; or its text, or the noun
    """

    def rung(level: int) -> Rung:
        fraction, quality = (level - 1) / (n - 1), qualities[level - 1] if qualities else level
        filled = text.format(context_id=context_id, attribute=attribute, level=level, quality=quality)
        written = texts[level - 1] if texts else filled
        if level in failed or written is None:
            return Rung(level, fraction, "", "failed", reason, provenance=provenance or {})
        return Rung(level, fraction, written, provenance=provenance or {})

    n = len(texts) or n
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


def random_calls(n: int, n_calls: int, rng: np.random.Generator) -> IntArray:
    """Any of the n (n - 1) calls, so that they connect all candidates, shape (n_calls, 2)."""
    calls = rng.permutation(all_pairs(n))
    return calls[connecting(n, *calls.T, n_calls)]


def turned(comparisons: Comparisons) -> Comparisons:
    """Every call as if the texts had been shown in the other order."""
    return replace(
        comparisons,
        first=comparisons.second,
        second=comparisons.first,
        log_probs=comparisons.log_probs[:, [1, 0, 2]],
    )


# --------------------------------------------------------------------------------------------- texts that people rated

QUALITIES = {"c1": (2.5, 1.0, 4.5, 3.0), "c2": (1.5, 4.0, 2.0, 3.5)}
BEST_FIRST = {"c1": [2, 3, 0, 1], "c2": [1, 3, 2, 0]}


def rated(qualities=QUALITIES, attribute="coherence", task="summarization", **fields) -> Ratings:
    """One text a quality, which is its rating; None: an empty text."""
    texts = tuple(
        RatedText(f"{c}-{k}", c, f"s{k}", "" if q is None else f"Text of q={q} .", {attribute: q or 1.0})
        for c, values in qualities.items()
        for k, q in enumerate(values)
    )
    contexts = {c: Context(c, f"An article, {c}.") for c in qualities}
    return Ratings(
        **({"name": "toy", "texts": texts, "attributes": (attribute,), "contexts": contexts} | {"task": task} | fields)
    )


def ladders(
    n: int = 5, contexts: Iterable[str] = ("c1", "c2"), attribute: str = "coherence", text: str = "An article, {}."
) -> References:
    """For the contexts of `rated`: rungs of quality 1..5, evenly spaced. text : of the contexts; empty: none"""
    return references(
        *(
            ladder(
                c,
                attribute,
                n=n,
                text="Rung of q={quality} .",
                qualities=np.linspace(1, 5, n).tolist(),
                context=text.format(c) if text else None,
            )
            for c in contexts
        )
    )


def places(scores, ratings) -> dict[str, list[int]]:
    """Context -> places of its texts in it, best first."""
    found = {}
    for context_id in ratings.contexts:
        values = [-score.value for score in scores if score.context_id == context_id]
        found[context_id] = np.argsort(values, kind="stable").tolist()
    return found
