"""Stored answers -> asked again -> how far they have drifted. The model is asked directly, not through a store."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..engine import Engine, Generation, LabelAnswer, Progress
from ..errors import StoreError
from ..signature import Signature
from ..types import BoolArray
from .answers import Stored, n_shared
from .engine import answer_of
from .file import Store


@dataclass(frozen=True, slots=True)
class Drift:
    """Answers of one kind that one engine gave, against those that an engine gives now.

    stored, now : the two engines
    n_stored : stored answers of this kind that have their question; n_replayed : how many of them were asked again
    n_beyond : answers with a label or token that differs by more than the tolerance; texts that are not identical;
        continuations that are other tokens now
    max_diff : |log P(label) now - stored|, nats, over the labels of all answers, or the same of tokens; NaN where there
        are none
    n_censored : labels left out of all this, because a server did not report them then or now
    worst : key of the answer with the largest difference, "" where there is none
    failures : why answers could not be given now
    texts : where texts, or numbers of tokens, differ, one line each
    """

    stored: Signature
    now: Signature
    kind: str
    n_stored: int
    n_replayed: int
    n_beyond: int
    max_diff: float = math.nan
    n_censored: int = 0
    worst: str = ""
    failures: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not (self.n_beyond or self.failures)

    @property
    def changed(self) -> dict[str, tuple[str, str]]:
        """Parts of the two signatures that differ: name -> (stored, now), "" where one has no such part."""
        return {name: (was or "", now or "") for name, (was, now) in self.stored.differs(self.now).items()}


def store_files(path: str | Path) -> list[Path]:
    """The store itself, or every *.sqlite of a folder: one a shard. raises : StoreError where there is none"""
    path = Path(path).expanduser()
    files = sorted(path.glob("*.sqlite")) if path.is_dir() else [path]
    if not files:
        raise StoreError(f"there is no store in {path}: expected files named *.sqlite. Check the path", path=path)
    return files


def sample(
    stores: Iterable[Store], engine: str, kind: str, n_sample: int, rng: np.random.Generator
) -> tuple[list[Stored], int]:
    """Answers of an engine (by its signature), drawn without repetition from those that have their question, in stored
    order; and how many there are to draw from."""
    batches = [
        (store, batch)
        for store in stores
        for batch in store.batches()
        if (batch.engine, batch.kind) == (engine, kind) and batch.has_questions
    ]
    ends = np.cumsum([batch.n_answers for _, batch in batches], dtype=np.int64)
    total = int(ends[-1]) if batches else 0
    chosen = np.sort(rng.choice(total, min(n_sample, total), replace=False)) if total else np.array([], dtype=np.int64)
    owners = np.searchsorted(ends, chosen, side="right")
    answers: list[Stored] = []
    for owner in np.unique(owners):
        store, batch = batches[owner]
        stored = store.read(batch)
        places = chosen[owners == owner] - (ends[owner] - batch.n_answers)
        # Fewer, if it is damaged on disk.
        answers += [stored[place] for place in places if place < len(stored) and stored[place].question is not None]
    return answers, total


def replay(
    stored: Sequence[Stored], n_stored: int, engine: Engine, tolerance: float, progress: Progress | None = None
) -> Drift:
    """Ask an engine what was asked before. stored : of one kind and one engine, with their questions; at least one.

    tolerance : most that the log-probability of a label or token may differ, nats
    """
    kind = stored[0].kind
    questions = [one.question for one in stored if one.question is not None]
    answers = engine.answer(questions, progress).rows
    worst = [(-1.0, "")]  # (largest difference, key) of each answer
    failures: list[str] = []
    texts: list[str] = []
    n_censored = 0
    for one, question, now in zip(stored, questions, answers, strict=True):
        was = answer_of(question.kind, one.value)
        if isinstance(now, Exception):
            failures.append(str(now))
            continue
        if isinstance(was, Generation) and isinstance(now, Generation):
            if was != now:
                texts.append(f"{one.key.hex()[:12]}: {_difference(was, now)}")
            continue
        if isinstance(was, LabelAnswer) and isinstance(now, LabelAnswer):
            reported = ~(_censored(was) | _censored(now))
            n_censored += int((~reported).sum())
            before, after = np.array(was.log_probs)[reported], np.array(now.log_probs)[reported]
        else:
            before, after = np.asarray(was), np.asarray(now)
            if len(before) != len(after):
                texts.append(f"{one.key.hex()[:12]}: {len(before)} tokens is now {len(after)}")
                continue
        if len(before):
            with np.errstate(invalid="ignore"):  # a label that stays impossible has not drifted
                diff = np.where(before == after, 0.0, np.abs(before - after))
            worst.append((float(diff.max()), one.key.hex()))
    largest, key = max(worst)
    return Drift(
        stored=Signature.parse(stored[0].engine),
        now=engine.signature,
        kind=kind,
        n_stored=n_stored,
        n_replayed=len(stored),
        n_beyond=len(texts) + sum(diff > tolerance for diff, _ in worst),
        max_diff=math.nan if largest < 0 else largest,
        n_censored=n_censored,
        worst=key if largest > 0 else "",
        failures=tuple(failures),
        texts=tuple(texts),
    )


def _censored(answer: LabelAnswer) -> BoolArray:
    return np.array(answer.censored or [False] * len(answer.log_probs), dtype=bool)


def _difference(was: Generation, now: Generation) -> str:
    """Where two generations that are not equal part."""
    place = n_shared(was.text, now.text)
    if was.text != now.text:
        return f"from character {place}: {was.text[place : place + 40]!r} is now {now.text[place : place + 40]!r}"
    return f"the same text: {was.finish_reason}, {was.n_tokens} tokens is now {now.finish_reason}, {now.n_tokens}"
