"""`synthscore verify`: do stored answers still hold?"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import re
from contextlib import ExitStack
from typing import Any

import numpy as np

from .. import engines
from ..engine import KINDS, Engine
from ..errors import EngineError, StoreError
from ..signature import Signature
from ..store.file import Store
from ..store.replay import Drift, replay, sample, store_files
from .common import (
    INCOMPLETE,
    OK,
    Commands,
    UsageError,
    add_command,
    add_messages,
    add_model,
    bar,
    clip,
    counted,
    model_options,
    note,
    number,
    reasons,
    table,
    whole,
)

TEXT = """
Examples:
  $ synthscore verify answers.sqlite
  $ synthscore verify run/ --sample 500 --backend padded
  $ synthscore verify answers.sqlite --engine tree --model models/judge --json

Asks a sample of what is stored again, of the model itself, and prints how far its answers have drifted:

  stored       answers of that kind that are kept with their question, so that they can be asked again
  replayed     how many were, drawn at random; failed: how many could not be answered now
  beyond       answers with a label or token beyond the tolerance; texts that are not identical
  max, mean    |difference| of the log-probabilities of labels or tokens, nats
  mass         largest |difference| of the probability that the labels have together

The model is the one that the stored signature names, in its dtype and backend; --model, --dtype and
--backend replace them, and the parts of the signatures that then differ are listed. The exit code is 3
where something is beyond the tolerance or could not be answered.
"""


def add(commands: Commands) -> None:
    parser = add_command(
        commands, "verify", run, "verify STORE|FOLDER [options]", "ask stored answers again: have they drifted?", TEXT
    )
    parser.add_argument("path", metavar="STORE|FOLDER", help="a store, or a folder with one or more *.sqlite")
    group = parser.add_argument_group("sample")
    group.add_argument("--engine", default="", metavar="PART", help="only answers whose signature contains this")
    group.add_argument("--kind", choices=KINDS, help="only verdicts (labels), texts, or texts that were read (tokens)")
    group.add_argument(
        "--sample", type=whole(1), default=100, metavar="N", help="answers of each engine and kind (default: 100)"
    )
    group.add_argument("--seed", type=whole(0), default=0, metavar="N", help="of the sample (default: 0)")
    group.add_argument(
        "--tolerance",
        type=number(0),
        default=1e-3,
        metavar="NATS",
        help="most that the log-probability of a label or token may differ (default: 0.001)",
    )
    group.add_argument("--json", action="store_true", help="print JSON instead of a table")
    add_model(parser, None, "asked instead of the model that the signature names", stored=False)
    parser.add_argument("--revision", metavar="R", help="commit, tag or branch of a model on the hub")
    parser.add_argument("--backend", metavar="B", help="how the model is run (default: as the signature says)")
    add_messages(parser)


def run(args: argparse.Namespace) -> int:
    drifts: list[Drift] = []
    with ExitStack() as stack:
        stores = [stack.enter_context(Store(path, create=False)) for path in store_files(args.path)]
        for engine in _engines(args, stores):
            drifts += _verify(args, stores, engine)
    if not drifts:
        raise StoreError(
            f"cannot replay {args.path}: it holds no such answers with their questions, which format 1 did not keep. "
            "Answers that are stored from now on can be replayed",
            path=args.path,
        )
    if args.json:
        print(json.dumps({"tolerance": args.tolerance, "drifts": [_row(drift) for drift in drifts]}, allow_nan=False))
    else:
        print("\n\n".join(_shown(drift) for drift in drifts))
    beyond, failed = (sum(n) for n in zip(*((d.n_beyond, len(d.failures)) for d in drifts), strict=True))
    replayed = counted(sum(drift.n_replayed for drift in drifts), "answer")
    note(args, f"{replayed} replayed: {beyond} beyond {args.tolerance:g} nats, {failed} failed")
    return OK if all(drift.ok for drift in drifts) else INCOMPLETE


def _engines(args: argparse.Namespace, stores: list[Store]) -> list[str]:
    """Signatures of the engines to replay. raises : StoreError where there is none; UsageError for several models
    that --model cannot be all of."""
    held = dict.fromkeys(batch.engine for store in stores for batch in store.batches())
    chosen = [engine for engine in held if args.engine in engine]
    if not chosen:
        listed = ", ".join(held) or "none"
        what = f"whose signature contains {args.engine!r}" if args.engine else "at all"
        raise StoreError(f"{args.path} holds no answers of an engine {what}. It has: {listed}. Check --engine")
    models = dict.fromkeys(dict(Signature.parse(engine).parts).get("model", "") for engine in chosen)
    if args.model and len(models) > 1:
        raise UsageError(
            f"--model {args.model} cannot replay the answers of {counted(len(models), 'model')}: {', '.join(models)}. "
            "Choose one with --engine"
        )
    return chosen


def _verify(args: argparse.Namespace, stores: list[Store], stored: str) -> list[Drift]:
    rng = np.random.default_rng(args.seed)
    samples = [sample(stores, stored, kind, args.sample, rng) for kind in KINDS if args.kind in (None, kind)]
    samples = [(answers, n_stored) for answers, n_stored in samples if answers]
    if not samples:
        return []
    engine = _open(args, Signature.parse(stored))
    drifts = []
    with bar(args, sum(len(answers) for answers, _ in samples), "answers") as progress:
        for answers, n_stored in samples:
            drifts.append(replay(answers, n_stored, engine, args.tolerance, progress))
    return drifts


def _open(args: argparse.Namespace, stored: Signature) -> Engine:
    """The model that --model or the signature names, run as the options or the signature say."""
    parts = dict(stored.parts)
    name = args.model or parts.get("model", "").partition("@")[0]
    if not name or ("server" in parts and not args.model):
        raise EngineError(f"cannot tell which model gave the answers of {stored}. Name it with --model M")
    options: dict[str, Any] = {}
    if not re.match(r"[a-z]+:", name):  # a server and a recording run as they do
        options = {key: parts[key] for key in ("dtype", "backend") if key in parts}
        if "max_tokens" in parts:
            options["max_tokens"] = int(parts["max_tokens"])
    options |= model_options(args)
    if args.exact:
        options.pop("backend", None)
    options |= {key: value for key in ("backend", "revision") if (value := getattr(args, key)) is not None}
    try:
        return engines.open_engine(name, **options)
    except EngineError as error:
        if args.model:
            raise
        raise EngineError(f"{error} It is what the store names: {stored}. Say where it is with --model M") from error


def _shown(drift: Drift) -> str:
    lines = [str(drift.stored)]
    lines += [f"  {name}: {was or 'none'} is now {now or 'none'}" for name, (was, now) in drift.changed.items()]
    headers = ("kind", "stored", "replayed", "failed", "beyond", "max", "mean", "mass")
    numbers = (drift.max_diff, drift.mean_diff, drift.max_mass_diff)
    shown = ("-" if math.isnan(value) else f"{value:.1e}" for value in numbers)
    row = (drift.kind, drift.n_stored, drift.n_replayed, len(drift.failures), drift.n_beyond, *shown)
    lines += [f"  {line}" for line in table([row], headers).split("\n")]
    if drift.n_censored:
        lines.append(f"  left out, because a server did not tell them: {counted(drift.n_censored, 'label')}")
    if drift.n_beyond and drift.worst:
        lines.append(f"  furthest: {drift.worst[:12]}")
    lines += [f"  {clip(text, 140)}" for text in drift.texts[:5]]
    if len(drift.texts) > 5:
        lines.append(f"  and {len(drift.texts) - 5} other texts")
    return "\n".join([*lines, *reasons(drift.failures)])


def _row(drift: Drift) -> dict[str, Any]:
    row = {field.name: getattr(drift, field.name) for field in dataclasses.fields(drift)}
    row |= {"stored": str(drift.stored), "now": str(drift.now), "changed": drift.changed}
    return {name: _finite(value) for name, value in row.items()}


def _finite(value: Any) -> Any:
    """JSON has no NaN, and no infinity: a label that was possible and is not, or the other way round."""
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf"
    return value
