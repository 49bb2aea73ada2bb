"""Models that judge and write. `open_engine` alone knows the kinds; torch is not imported before it is asked."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pkgutil import resolve_name
from typing import Any, Literal

from ..engine import Engine, Progress, capabilities_of
from ..errors import EngineError, SynthscoreError, require_kind
from ..plugins import load_plugins
from .source import Source
from .words import InWords

AnswersWanted = Literal["probabilities", "words", "auto"]

__all__ = ["Engine", "Progress", "open_engine", "open_judge"]

if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & set(os.environ):
    # Threads of torch that wait for each other sleep. Else they spin, which on a machine that others use too takes the
    # time of the very thread that is waited for: 3 to 20 times as long. Read when torch is imported, not later.
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
# Of products of matrices in bfloat16, each size is compiled and kept: 1,024 of them, were they not fewer.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

_ENGINES = {  # by how a model's config says that it is to be read
    "causal": "tree.causal:CausalEngine",
    "encoder-decoder": "seq2seq:Seq2SeqEngine",
    "isolated": "isolated:IsolatedEngine",
    "decision": "decision:DecisionEngine",
    "reward": "reward:RewardEngine",
}
_LOADED = ("revision", "dtype", "device", "device_map", "date", "max_tokens", "backend", "exact", "thinking")
_ADDRESS = re.compile(r"https?://")
PLUGINS = "synthscore.engines"
"""The group of entry points in which installed packages name their kinds of engine."""


def open_engine(name: str, **options: Any) -> Engine:
    """An engine by name: "nano" (the embedded model), a model folder, a GGUF file, "organisation/model" on the hub,
    "http://HOST:PORT/v1#MODEL" (a server, or several with commas between; "systemone:http://..." and
    "decisions:http://..." one that decides, asked so), "anthropic:MODEL" (with ANTHROPIC_API_KEY), or
    "recorded:FILE" (a store's answers; "recorded:FILE#PART" where it has several engines: part of a signature),
    "batch:NAME" (a model that is asked through files alone, by its name there),
    or "KIND:REST", where an installed package has a kind of engine of that name (docs/engines.md).

    options : those of the engines' own load (revision, dtype, device, device_map, date, max_tokens, backend,
        exact, thinking), of
        ServerPool.open (in_flight, retry, method, tokenizer, date, thinking, reasoning_effort, top_k, timeout_s), of
        BatchEngine (wire, tokenizer, date, thinking, reasoning_effort, questions), or of the plug-in
    raises : EngineError, when the name means nothing, this kind of model does not take an option, or the model cannot
        be loaded
    """
    kind, rest = split_kind(name)
    if not kind:
        return _load(name, options)
    if kind == "recorded":
        if given := [f"{key} {value}" for key, value in options.items() if value is not None]:
            what = f"cannot open {name!r} with {', '.join(given)}"
            raise EngineError(f"{what}: its answers are given already. Leave that out", model=name)
        if not rest:
            raise EngineError("cannot open 'recorded:': it names no store. Name one: recorded:FILE", model=name)
        from ..store.engine import RecordedEngine

        return RecordedEngine(rest)
    if kind == "batch":
        from .batch.engine import BatchEngine

        return BatchEngine(rest, **options)
    from .servers.decisions import WIRES
    from .servers.pool import ServerPool

    if _ADDRESS.match(name):
        return ServerPool.open(name, **options)
    if kind == "anthropic":
        return _open_anthropic(rest, options)
    if kind in WIRES and _ADDRESS.match(rest):
        return ServerPool.open(rest, **{"method": kind, **options})
    return _open_plugin(name, kind, rest, options, wires=WIRES)


def split_kind(name: str) -> tuple[str, str]:
    """A kind of engine, and what stands behind its colon; "" and the name, for a model that is loaded here.

    The letter of a drive and a path with a colon in it name no kind.
    """
    kind, colon, rest = name.partition(":")
    if colon and re.fullmatch(r"\w[\w.-]+", kind):
        return kind, rest
    return "", name


def _load(name: str, options: dict[str, Any]) -> Engine:
    """A model that is loaded here."""
    if others := [f"{key} {value}" for key, value in options.items() if key not in _LOADED]:
        raise EngineError(
            f"cannot open {name!r} with {', '.join(others)}: a model that is loaded here takes "
            f"{', '.join(_LOADED)}, and the rest is for servers. Leave that out",
            model=name,
        )
    devices = str(options.get("device") or "").split(",")
    if len(devices) > 1:
        from .pool import EnginePool

        return EnginePool([_load(name, {**options, "device": device.strip()}) for device in devices])
    source = Source.of(name, options.pop("revision", None))
    if name == "nano":  # small, so there is nothing to gain from other numbers on other machines
        options = {"dtype": "float32", **options}
    from .loading import read_as  # imports torch

    kind = read_as(source)
    if options.get("thinking") and kind != "causal":
        raise EngineError(
            f"cannot open {name!r} with thinking: it writes no thoughts, as causal language models can. Leave that out",
            model=name,
        )
    opened: Engine = resolve_name(f"{__package__}.{_ENGINES[kind]}").load(source, **options)
    return opened


def _open_anthropic(rest: str, options: dict[str, Any]) -> Engine:
    """rest : a model; behind "http://HOST:PORT#", of a gateway that speaks as Anthropic does, and is given the key"""
    from .servers.anthropic import API, AnthropicServer
    from .servers.pool import ServerPool

    url, _, model = rest.partition("#") if _ADDRESS.match(rest) else (API, "", rest)
    if not model:
        raise EngineError("cannot open 'anthropic:': it names no model. Name one: anthropic:MODEL", model=rest)
    url = url.rstrip("/").removesuffix("/v1") + "/v1"
    return ServerPool.open(f"{url}#{model}", **{**options, "method": AnthropicServer.name})


def _open_plugin(name: str, kind: str, rest: str, options: Mapping[str, Any], *, wires: Iterable[str]) -> Engine:
    """By a callable of an installed package: (rest, **options) -> Engine. wires : for the error where there is none"""
    plugins = load_plugins(PLUGINS)
    if kind not in plugins:
        forms = ", ".join(["recorded:FILE", "batch:NAME", "http://...", *(f"{wire}:http://..." for wire in wires)])
        installed = ", ".join(sorted(plugins)) or "none"
        raise EngineError(
            f"cannot open {name!r}: expected {forms}, or a kind of engine that an installed package adds "
            f"({PLUGINS}), of which there are: {installed}. Install the package that adds {kind!r}, or put ./ before "
            "the path of a model",
            model=name,
        )
    plugin: Any = plugins[kind]
    try:
        engine: Engine = plugin(rest, **options)
    except SynthscoreError:
        raise
    except Exception as error:  # it is code of others, and may raise anything
        raise EngineError(
            f"cannot open {name!r}: its plug-in raised {type(error).__name__}: {error}. See its own documentation for "
            f"what it takes behind {kind}:, and which options",
            model=name,
        ) from error
    require_kind(f"the engine of {name!r}", engine, Engine, "an engine (synthscore.engine.Engine)")
    return engine


def open_judge(
    judge: Engine | str,
    store: str | os.PathLike[str] | None = None,
    *,
    answers: AnswersWanted = "probabilities",
    n_votes: int = 1,
    **options: Any,
) -> Engine:
    """The engine; one that is named is opened behind a store, so that it is asked nothing twice.

    store : file of answers; None: in your cache; "none", or for recorded answers: nowhere
    answers : of questions on labels: their probabilities; "words": frequencies among n_votes answers in words
        (engines/words.py); "auto": words where the model reports no probabilities
    options : those of open_engine
    """
    if not isinstance(judge, str):
        require_kind("judge", judge, Engine, "an engine (open_engine), or the name of one, such as 'nano'")
        return judge
    if answers == "words" and _ADDRESS.match(judge):
        options = {"method": "words", **options}
    engine = open_engine(judge, **options)
    if not judge.startswith("recorded:") and store != "none":
        from ..store.engine import StoredEngine
        from ..store.file import Store

        engine = StoredEngine(engine, Store(store))
    if answers == "words" or (answers == "auto" and not capabilities_of(engine).judges):
        return InWords(engine, n_votes)
    return engine
