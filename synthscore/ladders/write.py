"""Contexts + a writer -> Ladders. Decides which rung is written from which, and checks what comes back.

The extremes come first, then the midpoints between rungs that exist, all contexts and attributes level by level. No
files and no cache: what a rung is made from is hashed into its key, its seeds derive from the key, and the order of
asking is fixed, so that a store of answers below the engine resumes a killed run. A rung that cannot be written is a
failed rung with a reason; it never holds a text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..degrade.damage import REVISION, damages_for, degrade
from ..degrade.edits import Material
from ..degrade.reading import centrality, sentences
from ..engine import Engine, Generation, Progress, Prompt, Sampling, generate
from ..errors import DegradeError, InputError, LadderError
from ..judging.templates import Templates
from ..signature import text_hash
from ..types import Attribute, Context, Ladder, Rung, Task

# ------------------------------------------------------------------------------------------------- the schedule


@dataclass(frozen=True, slots=True)
class Step:
    """Write rung `level`; an extreme from the context alone, any other between the rungs `worse` and `better`."""

    level: int
    worse: int | None = None
    better: int | None = None

    @property
    def parents(self) -> tuple[int, ...]:
        return () if self.worse is None or self.better is None else (self.worse, self.better)


def schedule(n_rungs: int) -> tuple[tuple[Step, ...], ...]:
    """Which rung is written from which: the extremes 1 and N, then breadth-first midpoints, in waves.

        level = floor((worse + better) / 2)

    returns : ceil(log2(N - 1)) + 1 waves. The parents of a step are in earlier waves, so a wave can be asked at once.
        For N = 2^m + 1 every midpoint is exact and the ladders are nested. For other N a rung may be asked for as the
        middle of a gap that its level does not halve (N = 4: rung 2 between 1 and 4).
    raises : LadderError for fewer than two rungs.
    source : arXiv:2509.05440. Its neighbours i-1 and i+1 are circular if read literally; halving is what works.
    """
    if n_rungs < 2:
        raise LadderError(f"cannot make a ladder of {n_rungs} rungs: expected at least 2, the worst and the best")
    waves: list[tuple[Step, ...]] = [(Step(1), Step(n_rungs))]
    gaps = [(1, n_rungs)]
    while True:
        gaps = [(worse, better) for worse, better in gaps if better - worse >= 2]
        if not gaps:
            return tuple(waves)
        waves.append(tuple(Step((worse + better) // 2, worse, better) for worse, better in gaps))
        gaps = [half for a, b in gaps for half in ((a, (a + b) // 2), ((a + b) // 2, b))]


# ------------------------------------------------------------------------------------------------- ladders


@dataclass(frozen=True, slots=True)
class Job:
    """One rung to write. worse, better : texts of its parents, "" for an extreme or a writer that needs none.
    others : the texts that the ladder has so far; the new one must differ from them.
    attempt : number of the first attempt; each has another seed, so that a rung can be written again."""

    context: Context
    attribute: Attribute
    level: int
    n_rungs: int
    worse: str = ""
    better: str = ""
    others: tuple[str, ...] = ()
    attempt: int = 1

    @property
    def fraction(self) -> float:
        return (self.level - 1) / (self.n_rungs - 1)

    @property
    def parents(self) -> tuple[str, ...]:
        """Hashes of the parents' texts, worse first."""
        return (text_hash(self.worse), text_hash(self.better)) if self.worse and self.better else ()


class Writer(Protocol):
    """Writes rungs. name : its word in provenance. needs_parents : whether a rung between is made from its parents; if
    not, all jobs of a run come in one call, coarser levels first and of one wave the better first."""

    name: str
    needs_parents: bool

    def write(self, task: Task, jobs: Sequence[Job], progress: Progress | None = None) -> list[Rung]:
        """One rung a job, in order; `progress` is told how many were written. A job that fails gives a failed rung."""
        ...


def generate_ladders(
    contexts: Sequence[Context],
    task: Task,
    attributes: Sequence[str],
    writer: Writer,
    *,
    n_rungs: int = 5,
    progress: Progress | None = None,
) -> list[Ladder]:
    """One ladder for each context and attribute: contexts outer, attributes inner, in the order given.

    A context or attribute that is given twice gets one ladder. progress : told of n_rungs rungs for each ladder.
    raises : InputError for two different contexts of one id, or no attribute; TaskError for an attribute that the task
        does not have; LadderError for n_rungs < 2; whatever the engine raises for a whole call. A single rung that
        cannot be written raises nothing: it is a failed rung with a reason, and so are the rungs that need it.
    """
    waves = schedule(n_rungs)
    if not writer.needs_parents:  # one wave, still coarse to fine: of two equal texts the one on fewer ladders fails
        waves = (tuple(step for wave in waves for step in sorted(wave, key=lambda step: -step.level)),)
    names = [attributes] if isinstance(attributes, str) else attributes
    chosen = [task.attribute(name) for name in dict.fromkeys(names)]
    if not chosen:
        raise InputError(f"no attribute to write ladders for. Task {task.name!r} has: {', '.join(task.attributes)}")
    pairs = [(context, attribute) for context in _unique(contexts) for attribute in chosen]
    made: dict[tuple[str, str], dict[int, Rung]] = {(context.id, attribute.name): {} for context, attribute in pairs}
    for wave in waves:
        jobs = []
        for context, attribute in pairs:
            rungs = made[context.id, attribute.name]
            others = tuple(rung.text for rung in rungs.values() if rung.status == "ok")
            for step in wave:
                job = Job(context, attribute, step.level, n_rungs, others=others)
                parents = [rungs[level] for level in step.parents] if writer.needs_parents else []
                if any(parent.status == "failed" for parent in parents):
                    rungs[step.level] = _orphan(job, parents, writer)
                    if progress:
                        progress(1)
                elif parents:
                    jobs.append(replace(job, worse=parents[0].text, better=parents[1].text))
                else:
                    jobs.append(job)
        written = writer.write(task, jobs, progress) if jobs else []
        for job, rung in zip(jobs, written, strict=True):
            made[job.context.id, job.attribute.name][job.level] = rung
    levels = range(1, n_rungs + 1)
    return [
        Ladder(
            context_id=context.id,
            task=task.name,
            attribute=attribute.name,
            rungs=tuple(made[context.id, attribute.name][level] for level in levels),
            context=context,
        )
        for context, attribute in pairs
    ]


def _unique(contexts: Sequence[Context]) -> list[Context]:
    unique: dict[str, Context] = {}
    for context in contexts:
        if unique.setdefault(context.id, context) != context:
            raise InputError(
                f"two different contexts have the id {context.id!r}: {unique[context.id].text[:40]!r}... and "
                f"{context.text[:40]!r}... (or their facts or references differ). Give each its own id",
                field="id",
                value=context.id,
            )
    return list(unique.values())


def _orphan(job: Job, parents: Sequence[Rung], writer: Writer) -> Rung:
    failed = " and ".join(f"rung {parent.level}" for parent in parents if parent.status == "failed")
    provenance = {"writer": writer.name, "context_sha256": text_hash(job.context.text)}
    return _failed(job, f"it is written from {failed}, which failed", provenance)


def _ok(job: Job, text: str, provenance: Mapping[str, Any]) -> Rung:
    return Rung(job.level, job.fraction, text, parents=job.parents, provenance=provenance)


def _failed(job: Job, reason: str, provenance: Mapping[str, Any]) -> Rung:
    return Rung(job.level, job.fraction, "", "failed", reason, job.parents, provenance)


# ------------------------------------------------------------------------------------------------- keys and seeds


def _digest(parts: Mapping[str, object]) -> str:
    """Hex sha256 of the parts by name; JSON keeps them apart, so that no two different sets of parts look alike."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _subject(task: Task, job: Job) -> dict[str, object]:
    """What a rung is about: the parts of its key that do not depend on the writer."""
    context, attribute = job.context, job.attribute
    return {
        "context": [context.id, context.text, context.facts],
        "attribute": [attribute.name, attribute.description, attribute.more, attribute.better, attribute.worse],
        "task": [task.name, task.context_noun, task.text_noun, task.texts_noun, task.facts_noun, task.length],
    }


def _seed(key: str, attempt: int) -> int:
    """31 bits, the most that every engine and server takes as a seed."""
    return int(hashlib.sha256(f"{key}:{attempt}".encode()).hexdigest()[:8], 16) >> 1


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


# ------------------------------------------------------------------------------------------------- checking a text

_QUOTES = (('"', '"'), ("“", "”"), ("«", "»"), ("'", "'"), ("‘", "’"))
_NOUNS = "text|version|summary|summaries|story|response|description|paragraph|draft|rewrite"
_YES = r"(?:sure|certainly|of course|absolutely|okay|ok)"
_OPENING = re.compile(rf"(?:{_YES}|here(?:'s| is| are)?)\b", re.I)  # announces a text if it also names a kind of text,
_BARE = re.compile(rf"(?:{_YES}\W*)?(?:here (?:it is|you go|you are))?:", re.I)  # or if nothing else is in the line
_CANNOT = r"i(?:'m unable to| am unable to|'m not able to| am not able to| cannot| can't| can not| won't| will not)"
_SERVE = (
    r"(?:help(?! (?:it|but|\w+ing|myself)\b)|assist|comply|provide|write|generate|create|produce|complete|answer"
    r"|respond|summari[sz]e|fulfil|offer|engage|continue|do (?:this|that|it|so))"
)
_REFUSAL = re.compile(
    r"(?:i'm|i am) (?:very |so |really )?sorry, but\b"
    r"|as an? (?:ai|artificial intelligence|large language model|language model)\b"
    rf"|(?:(?:i'm |i am )?sorry[,.]? |(?:i apologi[sz]e|my apologies|sorry), but )?"
    rf"{_CANNOT}(?: (?:\w+ )?{_SERVE}\w*\b|[.,]|$)",
    re.I,
)


def clean(
    text: str, finish_reason: str, parents: Sequence[str] = (), *, text_noun: str = "text"
) -> tuple[str | None, str]:
    """What a model wrote, without what surrounds it, or None and the reason why it cannot be a rung.

    Takes off white space, one leading line that only announces the text ("Here is the summary:", "Sure, ... story:",
    "The worst possible summary:"), and one pair of quotation marks around the whole. The rest is left as it is: a first
    line that names no kind of text ("Sure, bring these:"), or a quotation inside, belongs to the text.

    parents : texts that it must differ from, letter case and white space aside: parents and the ladder's other rungs.
    text_noun : the task's word for a text, which an announcing line may name.
    A genuine text that opens like a refusal ("I'm sorry, but ...") is lost too; that costs one more attempt.
    """
    body = _unquoted(_without_announcement(text.strip(), text_noun))
    if not any(character.isalnum() for character in body):
        return None, "it is empty"
    if _REFUSAL.match(body.replace("’", "'").lstrip('"“*_ ')):
        return None, "it is a refusal"
    if finish_reason == "length" and not body.rstrip("\"'”’»)]*_").endswith((".", "!", "?", "…", "。", "！", "？")):
        return None, "it was cut before a sentence ended"
    if _normal(body) in map(_normal, parents):
        return None, "it is the same as another rung of the ladder"
    return body, ""


def _normal(text: str) -> str:
    return " ".join(text.split()).casefold()


def _without_announcement(text: str, text_noun: str) -> str:
    line, _, rest = text.partition("\n")
    line = line.strip(" \t\r*_#").replace("’", "'")
    if not rest.strip() or not line.endswith(":") or len(line) > 120:
        return text
    nouns = f"(?:{_NOUNS}|{re.escape(text_noun)})"
    opens = _OPENING.match(line) and (_BARE.fullmatch(line) or re.search(rf"\b{nouns}\b", line, re.I))
    titled = re.fullmatch(rf"(?:(?:the|my|an?) )?(?:[\w-]+ ){{0,2}}{nouns}(?: (?:in )?between(?: them)?)?:", line, re.I)
    return rest.strip() if opens or titled else text


def _unquoted(text: str) -> str:
    for opening, closing in _QUOTES:
        if len(text) > 2 and text.startswith(opening) and text.endswith(closing):
            inner = text[1:-1]
            quotes = re.sub(r"(?<=\w)['’](?=\w)", "", inner)  # an apostrophe is no quotation mark
            if opening not in quotes and closing not in quotes:
                return inner.strip()
    return text


# ------------------------------------------------------------------------------------------------- the prompted writer


class PromptedWriter:
    """A generator LLM writes each rung: the extremes from the context alone, the others between two.

    engine : any engine that can write. templates : as for `Templates`; `extreme` and `between` are used.
    sampling : how to decode; None: the task's max_new_tokens, temperature 0.7, top_p 0.9.
    seed : changes every text. max_attempts : how often a rung is asked for while the answer cannot be used, each time
        with another seed; once when decoding is greedy, which would repeat itself.
    """

    name = "prompt"
    needs_parents = True

    def __init__(
        self,
        engine: Engine,
        *,
        templates: str | Path = "default",
        sampling: Sampling | None = None,
        seed: int = 0,
        max_attempts: int = 5,
    ) -> None:
        if max_attempts < 1:
            raise ValueError(f"max_attempts is {max_attempts}, expected at least 1")
        self.engine, self.templates, self.sampling = engine, templates, sampling
        self.seed, self.max_attempts = seed, max_attempts

    def write(self, task: Task, jobs: Sequence[Job], progress: Progress | None = None) -> list[Rung]:
        sampling = self.sampling or Sampling(max_new_tokens=task.max_new_tokens)
        asked = self._ask(task, jobs, sampling)
        limit = self.max_attempts if sampling.temperature > 0 else 1
        taken = {(job.context.id, job.attribute.name): list(job.others) for job in jobs}
        rungs: dict[int, Rung] = {}
        pending = list(range(len(jobs)))
        for turn in range(limit):
            attempts = {i: jobs[i].attempt + turn for i in pending}
            seeds = [_seed(asked[i][1]["key"], attempts[i]) for i in pending]
            prompts = [asked[i][0] for i in pending]
            rows = generate(self.engine, prompts, sampling, seeds, None if turn else progress)
            rejected = []
            for i, seed, row in zip(pending, seeds, rows, strict=True):
                job = jobs[i]
                provenance = asked[i][1] | {"sampling_seed": seed, "attempt": attempts[i], "created_at": _now()}
                if not isinstance(row, Generation):
                    rungs[i] = _failed(job, str(row) or type(row).__name__, provenance)
                    continue
                provenance |= {"finish_reason": row.finish_reason, "n_tokens": row.n_tokens}
                ladder = taken[job.context.id, job.attribute.name]
                text, reason = clean(row.text, row.finish_reason, ladder, text_noun=task.text_noun)
                if text is None:
                    rungs[i] = _failed(job, _after(attempts[i], sampling, reason), provenance)
                    rejected.append(i)
                else:
                    rungs[i] = _ok(job, text, provenance)
                    ladder.append(text)
            pending = rejected
            if not pending:
                break
        return [rungs[i] for i in range(len(jobs))]

    def _ask(self, task: Task, jobs: Sequence[Job], sampling: Sampling) -> list[tuple[Prompt, dict[str, Any]]]:
        """The prompt of each job, and all that its provenance says before an answer is there."""
        makers, hashes = {}, {}
        for attribute in {job.attribute.name: job.attribute for job in jobs}.values():
            # Of the task only this attribute: another one's wording must not change this one's keys.
            maker = Templates(replace(task, attributes={attribute.name: attribute}), self.templates)
            makers[attribute.name] = maker
            hashes[attribute.name] = {name: maker.hash(name) for name in ("extreme", "between")}
        signature = str(self.engine.signature)
        asked = []
        for job in jobs:
            maker = makers[job.attribute.name]
            template = "between" if job.parents else "extreme"
            if job.parents:
                prompt = maker.between(job.context, job.attribute, worse=job.worse, better=job.better)
            else:
                prompt = maker.extreme(job.context, job.attribute, best=job.level == job.n_rungs)
            made_from = {
                "writer": self.name,
                "model": signature,
                "template_hash": hashes[job.attribute.name][template],
                "prompt_sha256": text_hash(prompt.text, prompt.prefill),
                "max_new_tokens": sampling.max_new_tokens,
                "temperature": float(sampling.temperature),
                "top_p": float(sampling.top_p),
                "seed": self.seed,
            } | ({"stop": list(sampling.stop)} if sampling.stop else {})
            key = _digest(_subject(task, job) | made_from | {"fraction": job.fraction, "parents": job.parents})
            named = {"templates": str(self.templates), "template": template}
            asked.append((prompt, made_from | named | {"context_sha256": text_hash(job.context.text), "key": key}))
        return asked


def _after(attempt: int, sampling: Sampling, reason: str) -> str:
    if sampling.temperature == 0:
        return f"{reason}; not asked again, because greedy decoding (temperature 0) would repeat it"
    return f"{reason} (attempt {attempt}, the last)"


# ------------------------------------------------------------------------------------------------- the degraded writer


class DegradedWriter:
    """Rungs of known order without a model: a good text, damaged in the attribute, the more the lower the rung.

    The good text is the context's first reference, or, where a text is a summary of its context, its central sentences.
    Rung f is that text with damage of severity 1 - f; f is not part of the seed, so the damage of a better rung is part
    of the damage of a worse one, and a rung is the same on every ladder that has its fraction. Foreign material are
    other contexts of the run and their good texts. Of two rungs that come out alike, the one that fewer ladders have
    (the later in the schedule) fails; of the two extremes, or of one wave, the worse.
    """

    name = "degrade"
    needs_parents = False

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed

    def write(self, task: Task, jobs: Sequence[Job], progress: Progress | None = None) -> list[Rung]:
        contexts = {job.context.id: job.context for job in jobs}
        good = {name: _good_text(context, task) for name, context in contexts.items()}
        foreign = _neighbours(list(contexts.values()), {name: text for name, (text, _) in good.items()})
        taken = {(job.context.id, job.attribute.name): {_spaced(text) for text in job.others} for job in jobs}
        rungs = []
        for job in jobs:
            name = job.context.id
            rungs.append(self._rung(task, job, *good[name], foreign[name], taken[name, job.attribute.name]))
            if progress:
                progress(1)
        return rungs

    def _rung(self, task: Task, job: Job, good: str, source: str, foreign: tuple[str, ...], taken: set[str]) -> Rung:
        severity = 1.0 - job.fraction
        made_by: dict[str, Any] = {"writer": self.name, "model": f"degrade@{REVISION}", "seed": self.seed}
        if job.attempt > 1:
            made_by["attempt"] = job.attempt
        same_for_all = _subject(task, job) | {"writer": self.name, "good": good, "seed": self.seed}
        provenance = made_by | {
            "source": source,
            "severity": severity,
            "kinds": list(damages_for(task.name, job.attribute.name)),
            "context_sha256": text_hash(job.context.text),
            "key": _digest(same_for_all | made_by | {"foreign": foreign, "fraction": job.fraction}),
        }
        if not good:
            return _failed(job, source, provenance)
        try:
            text = degrade(
                good,
                task=task.name,
                attribute=job.attribute.name,
                severity=severity,
                rng=np.random.default_rng(_seed(_digest(same_for_all), job.attempt)),
                material=Material(context=job.context.text, facts=job.context.facts, foreign=foreign),
            )
        except DegradeError as error:
            return _failed(job, str(error), provenance)
        if not text.strip():
            return _failed(job, f"damage of severity {severity:g} left nothing of the text", provenance)
        if _spaced(text) in taken:
            reason = f"it is the same as another rung: the text is too short for {job.n_rungs} rungs; ask for fewer"
            return _failed(job, reason, provenance)
        taken.add(_spaced(text))
        return _ok(job, text, provenance)


def _spaced(text: str) -> str:
    """White space aside; letter case counts here, because it can be the damage."""
    return " ".join(text.split())


def _good_text(context: Context, task: Task) -> tuple[str, str]:
    """(text, where it is from), or ("", why there is none)."""
    if context.references:
        return context.references[0].strip(), "reference"
    if "summar" not in task.text_noun.lower():
        return "", f"a reference is needed: a good {task.text_noun} cannot be taken from its {task.context_noun}"
    central = _central_sentences(context.text)
    if len(central) < 2:
        return "", f"a reference is needed: the {task.context_noun} has fewer than two sentences to take one from"
    return " ".join(central), "central sentences"


def _central_sentences(text: str) -> list[str]:
    """The sentences that share most words with the whole text, in their order: three, or two of a short text."""
    usable = [sentence for sentence in dict.fromkeys(sentences(text)) if 6 <= len(sentence.split()) <= 45]
    best_first = sorted(usable, key=lambda sentence: centrality(sentence, text), reverse=True)
    central = best_first[: 3 if len(usable) > 5 else 2]
    return [sentence for sentence in usable if sentence in central]


def _neighbours(contexts: Sequence[Context], good: Mapping[str, str], most: int = 4) -> dict[str, tuple[str, ...]]:
    """Context id -> good texts, and contexts, of the next contexts on a ring in the order of hashes. So the material
    does not depend on the order of the run, and one context more or less changes that of few others."""
    ring = sorted(contexts, key=lambda context: text_hash(context.id, context.text))
    foreign = {}
    for i, context in enumerate(ring):
        near = (ring[i + 1 :] + ring[:i])[:most]
        texts = [text for other in near for text in (good[other.id], other.text) if text]
        foreign[context.id] = tuple(text for text in texts if text not in (good[context.id], context.text))
    return foreign
