"""The degraded writer: rungs of known order without a model, a good text damaged more and more."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import cache
from typing import Any

import numpy as np

from ..degrade.damage import REVISION, damages_for, degrade
from ..degrade.edits import Material
from ..degrade.reading import centrality, sentences
from ..engine import Progress
from ..errors import DegradeError
from ..signature import text_hash
from ..types import Context, Rung, Task, blank
from .write import Job, derive_seed, hash_parts, subject

INSTEAD = (
    "Have a model write the ladders (synthscore generate --model M), or bring those that you wrote yourself "
    "(synthscore references import, docs/own_ladders.md)"
)


class DegradedWriter:
    """Rungs of known order without a model: a good text, damaged in the attribute, the more the lower the rung.

    The good text is the context's first reference, or, where a text is a summary of its context, its central sentences.
    Rung f is that text with damage of severity 1 - f; f is not part of the seed, so the damage of a better rung is part
    of the damage of a worse one, and a rung is the same on every ladder that has its fraction. Foreign material are
    other contexts, of the run or `lenders`, and their good texts. Of two rungs that come out alike, the one that fewer
    ladders have (the later in the schedule) fails; of the two extremes, or of one wave, the worse.
    """

    name = "degrade"
    needs_parents = False

    def __init__(self, *, seed: int = 0, lenders: Sequence[Context] = ()) -> None:
        self.seed, self.lenders = seed, lenders

    def write(self, task: Task, jobs: Sequence[Job], progress: Progress | None = None) -> list[Rung]:
        wanted = {job.context.id: job.context for job in jobs}
        contexts = {context.id: context for context in self.lenders} | wanted
        good = cache(lambda name: _good_text(contexts[name], task))
        foreign = _neighbours(list(contexts.values()), wanted, lambda name: good(name)[0])
        taken = {(job.context.id, job.attribute.name): {_spaced(text) for text in job.others} for job in jobs}
        rungs = []
        for job in jobs:
            name = job.context.id
            rungs.append(self._rung(task, job, *good(name), foreign[name], taken[name, job.attribute.name]))
            if progress:
                progress(1)
        return rungs

    def _rung(self, task: Task, job: Job, good: str, source: str, foreign: tuple[str, ...], taken: set[str]) -> Rung:
        severity = 1.0 - job.fraction
        model = f"degrade@{REVISION}"
        made_by: dict[str, Any] = {"writer": self.name, "model": model, "seed": self.seed}
        if job.attempt > 1:
            made_by["attempt"] = job.attempt
        same_for_all = subject(task, job) | {"writer": self.name, "good": good, "seed": self.seed}
        provenance = made_by | {
            "source": source,
            "severity": severity,
            "context_sha256": text_hash(job.context.text),
            "key": hash_parts(same_for_all | made_by | {"foreign": foreign, "fraction": job.fraction}),
        }
        if not good:
            return job.failed(f"{source}. {INSTEAD}", provenance)
        try:
            text, kinds = degrade(
                good,
                task=task.name,
                attribute=job.attribute.name,
                severity=severity,
                rng=np.random.default_rng(derive_seed(hash_parts(same_for_all), job.attempt)),
                material=Material(context=job.context.text, facts=job.context.facts, foreign=foreign),
            )
        except DegradeError as error:
            instead = "" if damages_for(task.name, job.attribute.name) else f". {INSTEAD}"
            return job.failed(f"{error}{instead}", provenance)
        provenance["kinds"] = list(kinds)
        if blank(text):
            return job.failed(f"damage of severity {severity:g} left nothing of the text", provenance)
        if _spaced(text) in taken:
            short = f"the text is too short for {job.n_rungs} rungs; ask for fewer (--rungs)"
            return job.failed(f"it is the same as another rung: {short}", provenance)
        taken.add(_spaced(text))
        return job.written(text, provenance)


def _spaced(text: str) -> str:
    """White space aside; letter case counts here, because it can be the damage."""
    return " ".join(text.split())


def _good_text(context: Context, task: Task) -> tuple[str, str]:
    """(text, where it is from), or ("", why there is none)."""
    if context.references:
        return context.references[0].strip(), "reference"
    why = f"a good {task.text_noun} cannot be taken from its {task.context_noun}"
    if "summar" in task.text_noun.lower():
        central = _central_sentences(context.text)
        if len(central) > 1:
            return " ".join(central), "central sentences"
        why = f"the {task.context_noun} has fewer than two sentences to take one from"
    return "", f"a reference is needed, in a column references: {why}"


def _central_sentences(text: str) -> list[str]:
    """The sentences that share most words with the whole text, in their order: three, or two of a short text."""
    distinct = dict.fromkeys(sentences(text))
    usable = [sentence for sentence in distinct if 6 <= len(sentence.split()) <= 45]
    best_first = sorted(usable, key=lambda sentence: centrality(sentence, text), reverse=True)
    central = best_first[: 3 if len(usable) > 5 else 2]
    return [sentence for sentence in usable if sentence in central]


def _neighbours(
    contexts: Sequence[Context], wanted: Container[str], good: Callable[[str], str], most: int = 4
) -> dict[str, tuple[str, ...]]:
    """Id of a context that is wanted -> good texts, and contexts, of the next contexts on a ring in the order of
    hashes. So the material does not depend on the order of the run, and one context more or less changes that of few
    others."""
    ring = sorted(contexts, key=lambda context: text_hash(context.id, context.text))
    foreign = {}
    for i, context in enumerate(ring):
        if context.id in wanted:
            near = [ring[(i + k) % len(ring)] for k in range(1, min(most + 1, len(ring)))]
            texts = [text for other in near for text in (good(other.id), other.text) if text]
            foreign[context.id] = tuple(text for text in texts if text not in (good(context.id), context.text))
    return foreign
