"""The degraded writer: a good text -> rungs of known order, by more and more damage, without a model.

Of each context it takes a good text, plans damage to it (synthscore.degrade.damage), and gives each rung the part of
that plan which is its severity, 1 - fraction.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ..degrade.damage import REVISION, DamagedText, at_severity, damages_for, plan_damage
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


DRAWS = 16  # of damage to a good text, before its ladder gets fewer rungs


@dataclass(frozen=True, slots=True)
class GoodText:
    """source : "reference", "reference 2", ..., "central sentences" or "sentences" """

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Damaging:
    """All the damage that a ladder's rungs are parts of.

    good : what is damaged. draw : number of the draw, 0 for the first. error : why nothing can be damaged
    """

    good: GoodText
    draw: int
    steps: tuple[DamagedText, ...]
    error: str = ""


class DegradedWriter:
    """Rungs of known order without a model: a good text, damaged in the attribute, the more the lower the rung.

    The good text is the context's first reference, or, where a text is a summary of its context, its central sentences.
    Rung f is that text with damage of severity 1 - f; f is not part of the seed, so the damage of a better rung is part
    of the damage of a worse one. Foreign material are other contexts, of the run or `lenders`, and their good texts.

    Where the text allows too few edits for all rungs to differ, the damage is drawn again, DRAWS times at most, then
    another good text takes its place: the next reference, at last the central sentences. Where none allows as many,
    that with most edits is taken: `most_rungs` says beforehand how many rungs will differ. Of two rungs that come out
    alike, the one that fewer ladders have (the later in the schedule) fails; of the two extremes, or of one wave, the
    worse. A rung is the same on every ladder that has its fraction and was made by the same draw on the same text.
    """

    name = "degrade"
    needs_parents = False

    def __init__(self, *, seed: int = 0, lenders: Sequence[Context] = ()) -> None:
        self.seed = seed
        self.lenders = lenders

    def write(self, task: Task, jobs: Sequence[Job], progress: Progress | None = None) -> list[Rung]:
        plan = self._planner(task, jobs)
        taken: dict[tuple[str, str], set[str]] = {}  # the texts of each ladder, from which new ones must differ
        for job in jobs:
            taken[job.context.id, job.attribute.name] = {_spaced(text) for text in job.others}
        rungs = []
        for job in jobs:
            damaging, material = plan(job)
            rungs.append(self._rung(task, job, damaging, material, taken[job.context.id, job.attribute.name]))
            if progress:
                progress(1)
        return rungs

    def most_rungs(self, task: Task, jobs: Sequence[Job]) -> list[int]:
        plan = self._planner(task, jobs)
        most = []
        for job in jobs:
            damaging, _ = plan(job)
            n_rungs = job.n_rungs
            if damaging is not None and damaging.steps:
                n_rungs = min(n_rungs, len(damaging.steps) + 1)
            most.append(n_rungs)
        return most

    def _planner(self, task: Task, jobs: Sequence[Job]) -> Callable[[Job], tuple[Damaging | None, Material]]:
        """Gives the damage that a job's rung is a part of, None without a good text, and the material for it."""
        wanted = {job.context.id: job.context for job in jobs}
        contexts = {context.id: context for context in self.lenders} | wanted
        good = cache(lambda name: _good_texts(contexts[name], task))
        foreign = _neighbours(list(contexts.values()), wanted, lambda name: _lent(good(name)))
        plans: dict[tuple[str, str, int, int], Damaging] = {}

        def plan(job: Job) -> tuple[Damaging | None, Material]:
            context = job.context
            material = Material(context=context.text, facts=context.facts, foreign=foreign[context.id])
            if not (texts := _of_ladder(good(context.id), job.others)):
                return None, material
            key = (context.id, job.attribute.name, job.n_rungs, job.attempt)
            if key not in plans:
                plans[key] = self._damaging(task, job, texts, material)
            return plans[key], material

        return plan

    def _damaging(self, task: Task, job: Job, texts: Sequence[GoodText], material: Material) -> Damaging:
        """The first damage that makes all rungs differ; else the one with the most edits."""
        tried: list[Damaging] = []
        for good in texts:
            for draw in range(DRAWS):
                key = hash_parts(self._same_for_all(task, job, good, draw))
                rng = np.random.default_rng(derive_seed(key, job.attempt))
                names = {"task": task.name, "attribute": job.attribute.name}
                try:
                    steps = plan_damage(good.text, **names, rng=rng, material=material)
                except DegradeError as error:
                    tried.append(Damaging(good, draw, (), str(error)))
                    continue
                tried.append(Damaging(good, draw, steps))
                if len(steps) >= job.n_rungs - 1:
                    return tried[-1]
        return max(tried, key=lambda damaging: len(damaging.steps))

    def _same_for_all(self, task: Task, job: Job, good: GoodText, draw: int) -> dict[str, object]:
        """What the rungs of a ladder have in common."""
        parts = subject(task, job) | {"writer": self.name, "good": good.text, "seed": self.seed}
        if draw:
            parts["draw"] = draw
        return parts

    def _rung(self, task: Task, job: Job, damaging: Damaging | None, material: Material, taken: set[str]) -> Rung:
        severity = 1.0 - job.fraction
        good = GoodText("", _why_no_good_text(job.context, task))
        draw = 0
        if damaging is not None:
            good = damaging.good
            draw = damaging.draw
        made_by: dict[str, Any] = {"writer": self.name, "model": f"degrade@{REVISION}", "seed": self.seed}
        if job.attempt > 1:
            made_by["attempt"] = job.attempt
        if draw:
            made_by["draw"] = draw
        same_for_all = self._same_for_all(task, job, good, draw)
        key_parts = same_for_all | made_by | {"foreign": material.foreign, "fraction": job.fraction}
        provenance = made_by | {
            "source": good.source,
            "severity": severity,
            "context_sha256": text_hash(job.context.text),
            "key": hash_parts(key_parts),
        }
        if damaging is None:
            return job.failed(f"{good.source}. {INSTEAD}", provenance)
        if damaging.error and severity:
            instead = "" if damages_for(task.name, job.attribute.name) else f". {INSTEAD}"
            return job.failed(f"{damaging.error}{instead}", provenance)
        text, kinds = at_severity(good.text, damaging.steps, severity)
        provenance["kinds"] = list(kinds)
        if blank(text):
            return job.failed(f"damage of severity {severity:g} left nothing of the text", provenance)
        if _spaced(text) in taken:
            short = f"the text is too short for {job.n_rungs} rungs; ask for fewer (--rungs), or for auto"
            return job.failed(f"it is the same as another rung: {short}", provenance)
        taken.add(_spaced(text))
        return job.written(text, provenance)


def _spaced(text: str) -> str:
    """The text with its white space made equal. Letter case is kept, because it can be the damage."""
    return " ".join(text.split())


def _good_texts(context: Context, task: Task) -> tuple[GoodText, ...]:
    """The good texts that a context gives, in the order in which they are tried."""
    texts = [text.strip() for text in context.references]
    good = []
    for number, text in enumerate(texts, 1):
        source = "reference"
        if number > 1:
            source = f"reference {number}"
        good.append(GoodText(text, source))
    if _summarises(task):
        central = _central_sentences(context.text)
        whole = list(dict.fromkeys(sentences(context.text)))
        if len(central) > 1:
            good.append(GoodText(" ".join(central), "central sentences"))
        elif len(whole) > 1:
            good.append(GoodText(" ".join(_most_central(whole, context.text, 3)), "sentences"))
    return tuple(good)


def _why_no_good_text(context: Context, task: Task) -> str:
    why = f"a good {task.text_noun} cannot be taken from its {task.context_noun}"
    if _summarises(task):
        why = f"the {task.context_noun} has fewer than two sentences to take one from"
    return f"a reference is needed, in a column references: {why}"


def _summarises(task: Task) -> bool:
    return "summar" in task.text_noun.lower()


def _lent(good: Sequence[GoodText]) -> str:
    """The text that damage in other contexts may take material from; "" for none."""
    if not good or good[0].source == "sentences":
        return ""
    return good[0].text


def _of_ladder(good: Sequence[GoodText], others: Sequence[str]) -> Sequence[GoodText]:
    """The good text that a ladder was made from, where it is among the ladder's texts; else all."""
    there = {_spaced(text) for text in others}
    for text in good:
        if _spaced(text.text) in there:
            return [text]
    return good


def _central_sentences(text: str) -> list[str]:
    """The sentences that share most words with the whole text, in their order: three, or two of a short text."""
    distinct = dict.fromkeys(sentences(text))
    usable = [sentence for sentence in distinct if 6 <= len(sentence.split()) <= 45]
    return _most_central(usable, text, 3 if len(usable) > 5 else 2)


def _most_central(some: Sequence[str], text: str, n: int) -> list[str]:
    best_first = sorted(some, key=lambda sentence: centrality(sentence, text), reverse=True)
    return [sentence for sentence in some if sentence in best_first[:n]]


def _neighbours(
    contexts: Sequence[Context], wanted: Container[str], good: Callable[[str], str], most: int = 4
) -> dict[str, tuple[str, ...]]:
    """Id of a wanted context -> good texts, and texts, of the contexts that follow it on a ring in the order of hashes.
    So the material does not depend on the order of the run, and a further context changes that of few others."""
    ring = sorted(contexts, key=lambda context: text_hash(context.id, context.text))
    foreign = {}
    twice_round = [*ring, *ring]  # so that a slice goes on from the last to the first
    n_near = min(most, len(ring) - 1)
    for index, context in enumerate(ring):
        if context.id not in wanted:
            continue
        not_foreign = ("", good(context.id), context.text)
        texts: list[str] = []
        for other in twice_round[index + 1 : index + 1 + n_near]:
            texts += [text for text in (good(other.id), other.text) if text not in not_foreign]
        foreign[context.id] = tuple(texts)
    return foreign
