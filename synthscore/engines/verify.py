"""Stored answers -> the models that gave them, asked a sample of it again -> how far they have drifted."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import engines
from ..engine import KINDS, Engine, Generation, LabelAnswer, Progress
from ..errors import EngineError, InputError, StoreError
from ..signature import Signature
from ..store.answers import Stored, n_shared
from ..store.engine import answer_of
from ..store.file import Store


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


def verify(
    path: str | Path,
    *,
    engine: str = "",
    kinds: Sequence[str] = KINDS,
    n_sample: int = 100,
    seed: int = 0,
    tolerance: float = 1e-3,
    model: str | None = None,
    options: Mapping[str, Any] | None = None,
    watch: Callable[[int], AbstractContextManager[Progress]] = lambda n: nullcontext(lambda n: None),
) -> list[Drift]:
    """Ask a sample of what is stored again, of the models themselves. One Drift an engine and kind.

    path : a store, or a folder of stores
    engine : only answers whose signature contains this. n_sample : answers of each engine and kind
    tolerance : most that the log-probability of a label or token may differ, nats
    model, options : in place of what the stored signature names, and how to open it (open_engine)
    watch : how many answers are asked for -> where they are counted
    raises : StoreError, where nothing can be asked again; InputError, for a number out of its range, and where `model`
        would have to be several; EngineError
    """
    if n_sample < 1 or seed < 0 or not tolerance >= 0:
        raise InputError(
            f"cannot replay a sample of {n_sample} with seed {seed} and tolerance {tolerance:g}: expected at least "
            "1, 0 and 0. Change what is less"
        )
    drifts: list[Drift] = []
    with ExitStack() as stack:
        folder = Path(path).expanduser()
        files = sorted(folder.glob("*.sqlite")) if folder.is_dir() else [folder]
        if not files:
            raise StoreError(f"there is no store in {path}: expected files named *.sqlite. Check the path", path=folder)
        stores = [stack.enter_context(Store(file, create=False)) for file in files]
        held = dict.fromkeys(batch.engine for store in stores for batch in store.batches())
        for stored in _fitting(path, held, engine, model):
            rng = np.random.default_rng(seed)
            drawn = [sample(stores, stored, kind, n_sample, rng) for kind in kinds]
            drawn = [(answers, n_stored) for answers, n_stored in drawn if answers]
            if drawn:
                now = _open(Signature.parse(stored), model, options or {})
                with watch(sum(len(answers) for answers, _ in drawn)) as progress:
                    drifts += [replay(answers, n_stored, now, tolerance, progress) for answers, n_stored in drawn]
    if not drifts:
        raise StoreError(
            f"cannot replay {path}: it holds no such answers with their questions. Choose others with "
            "--engine and --kind",
            path=path,
        )
    return drifts


def _fitting(path: str | Path, held: Iterable[str], part: str, model: str | None) -> list[str]:
    """The engines to replay, by their signatures."""
    chosen = [engine for engine in held if part in engine]
    if not chosen:
        listed = ", ".join(held) or "none"
        what = f"whose signature contains {part!r}" if part else "at all"
        raise StoreError(f"{path} holds no answers of an engine {what}. It has: {listed}. Check --engine")
    models = dict.fromkeys(dict(Signature.parse(engine).parts).get("model", "") for engine in chosen)
    if model and len(models) > 1:
        raise InputError(
            f"--model {model} cannot replay the answers of {len(models)} models: {', '.join(models)}. "
            "Choose one with --engine"
        )
    return chosen


def _open(stored: Signature, model: str | None, wanted: Mapping[str, Any]) -> Engine:
    """The model that is named, or that the signature names, run as the options or the signature say."""
    parts = dict(stored.parts)
    name = model or parts.get("model", "").partition("@")[0]
    if not name or ("server" in parts and not model):
        raise EngineError(f"cannot tell which model gave the answers of {stored}. Name it with --model M")
    options: dict[str, Any] = {}
    if not re.match(r"[a-z]+:", name):  # a server and a recording run as they do
        options = {key: parts[key] for key in ("dtype", "backend") if key in parts}
        if "max_tokens" in parts:
            options["max_tokens"] = int(parts["max_tokens"])
        if wanted.get("exact"):
            options.pop("backend", None)
    try:
        return engines.open_engine(name, **options | dict(wanted))
    except EngineError as error:
        if model:
            raise
        raise EngineError(f"{error} It is what the store names: {stored}. Say where it is with --model M") from error


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
            at = n_shared(was.text, now.text)
            if was.text != now.text:
                what = f"from character {at}: {was.text[at : at + 40]!r} is now {now.text[at : at + 40]!r}"
                texts.append(f"{one.key.hex()[:12]}: {what}")
            elif was != now:
                what = f"{was.finish_reason}, {was.n_tokens} tokens is now {now.finish_reason}, {now.n_tokens}"
                texts.append(f"{one.key.hex()[:12]}: the same text: {what}")
            continue
        if isinstance(was, LabelAnswer) and isinstance(now, LabelAnswer):
            left_out = [np.array(each.censored or [False] * len(each.log_probs)) for each in (was, now)]
            reported = ~(left_out[0] | left_out[1])
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
