"""Stored answers -> the models that gave them, asked a sample of it again -> how far they have drifted."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from .. import engines
from ..engine import KINDS, Engine, Progress
from ..errors import EngineError, InputError, StoreError
from ..signature import Signature
from ..store.file import Store
from ..store.replay import Drift, replay, sample, store_files


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
        stores = [stack.enter_context(Store(file, create=False)) for file in store_files(path)]
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
