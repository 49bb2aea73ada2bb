"""The prompted writer: a generator LLM writes each rung, and what it wrote is checked.

The key of a rung is a hash of what it is made from, and its seeds derive from the key, so that a store of answers below
the engine resumes a killed run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..engine import Engine, Generation, Progress, Prompt, Question, Sampling, ask_engine
from ..errors import Postponed, unusable
from ..judging.templates import Templates
from ..signature import text_hash
from ..types import Rung, Task
from .faults import Fault, clean
from .write import Job, derive_seed, hash_parts, subject

WARMER = 0.15  # by which the temperature rises with every text that was refused


class PromptedWriter:
    """A generator LLM writes each rung: the extremes from the context alone, the others between two.

    engine : any engine that can write. templates : as for `Templates`; `extreme` and `between` are used.
    sampling : how to decode; None: the task's max_new_tokens, temperature 0.7, top_p 0.9.
    seed : changes every text. max_attempts : how often a rung is asked for while the answer cannot be used, each time
        with another seed, warmer, and told what was wrong; once when decoding is greedy, which would repeat itself.
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
            raise unusable("max_attempts", max_attempts, "at least 1: how often a rung is asked for", "Raise it")
        self.engine = engine
        self.templates = templates
        self.sampling = sampling
        self.seed = seed
        self.max_attempts = max_attempts

    def write(
        self, task: Task, jobs: Sequence[Job], progress: Progress | None = None
    ) -> list[Rung | Fault | Postponed]:
        sampling = self.sampling or Sampling(max_new_tokens=task.max_new_tokens)
        prompts = self._prompts(task, jobs, sampling)
        asked = []
        for job, (prompt, made_from) in zip(jobs, prompts, strict=True):
            seed = derive_seed(made_from["key"], job.attempt)
            asked.append(Question(prompt, sampling=_warmer(sampling, job), seed=seed))
        taken = {(job.context.id, job.attribute.name): list(job.others) for job in jobs}
        limit = self.max_attempts if sampling.temperature > 0 else 1
        rungs: list[Rung | Fault | Postponed] = []
        rows = ask_engine(self.engine, asked, progress).rows
        for job, (_, made_from), question, row in zip(jobs, prompts, asked, rows, strict=True):
            if isinstance(row, Postponed):
                rungs.append(row)
                continue
            provenance = made_from | {"sampling_seed": question.seed, "attempt": job.attempt}
            if not isinstance(row, Generation):
                rungs.append(job.failed(str(row) or type(row).__name__, provenance))
                continue
            provenance |= {"finish_reason": row.finish_reason, "n_tokens": row.n_tokens}
            if job.refused:
                provenance["warmed_to"] = _warmer(sampling, job).temperature
            ladder = taken[job.context.id, job.attribute.name]
            best = job.level == job.n_rungs
            text = clean(row.text, task, job.context, finish_reason=row.finish_reason, others=ladder, best=best)
            if isinstance(text, str):
                rungs.append(job.written(text, provenance))
                ladder.append(text)
            elif len(job.refused) + 1 < limit:
                rungs.append(text)
            else:
                rungs.append(job.failed(_last(text, job, sampling), provenance))
        return rungs

    def _prompts(self, task: Task, jobs: Sequence[Job], sampling: Sampling) -> list[tuple[Prompt, dict[str, Any]]]:
        """The prompt of each job, and all that its provenance says before an answer is there."""
        makers = {}
        hashes = {}
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
            first = _prompt(maker, job, "")  # The key is of this one, so that a rung that is asked for again keeps it.
            prompt = first
            if job.refused:
                prompt = _prompt(maker, job, job.refused[-1].kind)
            made_from = {
                "writer": self.name,
                "model": signature,
                "template_hash": hashes[job.attribute.name][template],
                "prompt_sha256": text_hash(first.text, first.prefill),
                "max_new_tokens": sampling.max_new_tokens,
                "temperature": float(sampling.temperature),
                "top_p": float(sampling.top_p),
                "seed": self.seed,
            }
            if sampling.stop:
                made_from["stop"] = list(sampling.stop)
            place = {"fraction": job.fraction, "parents": job.parents}
            key = hash_parts(subject(task, job) | made_from | place)
            named = {
                "templates": str(self.templates),
                "template": template,
                "prompt_sha256": text_hash(prompt.text, prompt.prefill),
                "context_sha256": text_hash(job.context.text),
                "key": key,
            }
            asked.append((prompt, made_from | named))
        return asked


def _prompt(maker: Templates, job: Job, fault: str) -> Prompt:
    """fault : the kind of what was wrong with an earlier text, which the template may speak of"""
    if job.parents:
        return maker.between(job.context, job.attribute, worse=job.worse, better=job.better, again=fault)
    return maker.extreme(job.context, job.attribute, best=job.level == job.n_rungs, again=fault)


def _warmer(sampling: Sampling, job: Job) -> Sampling:
    """Sampling at a higher temperature after each refused text: a model that is sure of a text writes it with any
    seed."""
    temperature = sampling.temperature + WARMER * len(job.refused)
    return replace(sampling, temperature=round(temperature, 6))


def _last(fault: Fault, job: Job, sampling: Sampling) -> str:
    if sampling.temperature == 0:
        return f"{fault.evidence}; not asked again, because greedy decoding (temperature 0) would repeat it"
    return f"{fault.evidence} (attempt {job.attempt}, the last)"
