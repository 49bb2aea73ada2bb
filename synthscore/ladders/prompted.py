"""The prompted writer: a generator LLM writes each rung, and what it wrote is checked.

What a rung is made from is hashed into its key, and its seeds derive from the key: a store of answers below the engine
resumes a killed run.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..engine import Engine, Generation, Progress, Prompt, Sampling, generate
from ..errors import InputError
from ..judging.templates import Templates
from ..signature import text_hash
from ..types import Rung, Task
from .write import Job, derive_seed, hash_parts, now, subject


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
            raise InputError(
                f"max_attempts is {max_attempts}, expected at least 1: how often a rung is asked for. Raise it",
                field="max_attempts",
                value=max_attempts,
            )
        self.engine, self.templates, self.sampling = engine, templates, sampling
        self.seed, self.max_attempts = seed, max_attempts

    def write(self, task: Task, jobs: Sequence[Job], progress: Progress | None = None) -> list[Rung]:
        sampling = self.sampling or Sampling(max_new_tokens=task.max_new_tokens)
        asked = self._prompts(task, jobs, sampling)
        limit = self.max_attempts if sampling.temperature > 0 else 1
        taken = {(job.context.id, job.attribute.name): list(job.others) for job in jobs}
        rungs: dict[int, Rung] = {}
        pending = list(range(len(jobs)))
        for turn in range(limit):
            attempts = {i: jobs[i].attempt + turn for i in pending}
            seeds = [derive_seed(asked[i][1]["key"], attempts[i]) for i in pending]
            prompts = [asked[i][0] for i in pending]
            rows = generate(self.engine, prompts, sampling, seeds, None if turn else progress)
            rejected = []
            for i, seed, row in zip(pending, seeds, rows, strict=True):
                job = jobs[i]
                provenance = asked[i][1] | {"sampling_seed": seed, "attempt": attempts[i], "created_at": now()}
                if not isinstance(row, Generation):
                    rungs[i] = job.failed(str(row) or type(row).__name__, provenance)
                    continue
                provenance |= {"finish_reason": row.finish_reason, "n_tokens": row.n_tokens}
                ladder = taken[job.context.id, job.attribute.name]
                text, reason = clean(row.text, row.finish_reason, ladder, text_noun=task.text_noun)
                if text is None:
                    rungs[i] = job.failed(_after(attempts[i], sampling, reason), provenance)
                    rejected.append(i)
                else:
                    rungs[i] = job.written(text, provenance)
                    ladder.append(text)
            pending = rejected
            if not pending:
                break
        return [rungs[i] for i in range(len(jobs))]

    def _prompts(self, task: Task, jobs: Sequence[Job], sampling: Sampling) -> list[tuple[Prompt, dict[str, Any]]]:
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
            key = hash_parts(subject(task, job) | made_from | {"fraction": job.fraction, "parents": job.parents})
            named = {"templates": str(self.templates), "template": template}
            asked.append((prompt, made_from | named | {"context_sha256": text_hash(job.context.text), "key": key}))
        return asked


def _after(attempt: int, sampling: Sampling, reason: str) -> str:
    if sampling.temperature == 0:
        return f"{reason}; not asked again, because greedy decoding (temperature 0) would repeat it"
    return f"{reason} (attempt {attempt}, the last)"


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
