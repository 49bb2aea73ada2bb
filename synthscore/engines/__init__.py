"""Models that judge and write. `open_engine` alone knows the kinds; torch is not imported before it is asked."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import Any

from ..engine import Engine, Progress
from ..errors import EngineError, require_kind
from .source import Source

__all__ = ["Engine", "Progress", "open_engine", "open_judge"]

if not {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} & set(os.environ):
    # Threads of torch that wait for each other sleep. Else they spin, which on a machine that others use too takes the
    # time of the very thread that is waited for: 3 to 20 times as long. Read when torch is imported, not later.
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
# Of products of matrices in bfloat16, each size is compiled and kept: 1,024 of them, were they not fewer.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")

_ENGINES = {  # by how a model's config says that it is to be read
    "causal": (".tree.causal", "CausalEngine"),
    "encoder-decoder": (".seq2seq", "Seq2SeqEngine"),
    "isolated": (".isolated", "IsolatedEngine"),
    "decision": (".decision", "DecisionEngine"),
    "reward": (".reward", "RewardEngine"),
}
_LOADED = ("revision", "dtype", "device", "device_map", "max_tokens", "backend", "exact")


def open_engine(name: str, **options: Any) -> Engine:
    """An engine by name: "nano" (the embedded model), a model folder, a GGUF file, "organisation/model" on the hub,
    "http://HOST:PORT/v1#MODEL" (a server, or several with commas between; "systemone:http://..." and
    "decisions:http://..." one that decides, asked so), or
    "recorded:FILE" (a store's answers; "recorded:FILE#PART" where it has several engines: part of a signature).

    options : those of the engines' own load (revision, dtype, device, device_map, max_tokens, backend, exact), or of
        ServerPool.open (in_flight, retry, method, tokenizer, top_k, timeout_s)
    raises : EngineError, when the name means nothing, this kind of model does not take an option, or the model cannot
        be loaded
    """
    if server := re.match(r"(?:(systemone|decisions):)?https?://", name):
        from .servers.pool import ServerPool

        if server[1]:
            name, options = name[len(server[1]) + 1 :], {"method": server[1], **options}
        return ServerPool.open(name, **options)
    kind, colon, path = name.partition(":")
    if colon and kind == "recorded":
        if given := [f"{key} {value}" for key, value in options.items() if value is not None]:
            what = f"cannot open {name!r} with {', '.join(given)}"
            raise EngineError(f"{what}: its answers are given already. Leave that out", model=name)
        from ..store.engine import RecordedEngine

        return RecordedEngine(path)
    if others := [f"{key} {value}" for key, value in options.items() if key not in _LOADED]:
        raise EngineError(
            f"cannot open {name!r} with {', '.join(others)}: a model that is loaded here takes "
            f"{', '.join(_LOADED)}, and the rest is for servers. Leave that out",
            model=name,
        )
    source = Source.of(name, options.pop("revision", None))
    if name == "nano":  # small, so there is nothing to gain from other numbers on other machines
        options = {"dtype": "float32", **options}
    from .loading import read_as  # imports torch

    module, engine = _ENGINES[read_as(source)]
    opened: Engine = getattr(import_module(module, __package__), engine).load(source, **options)
    return opened


def open_judge(judge: Engine | str, store: str | os.PathLike[str] | None = None, **options: Any) -> Engine:
    """The engine; one that is named is opened behind a store, so that it is asked nothing twice.

    store : file of answers; None: in your cache; "none", or for recorded answers: nowhere
    options : those of open_engine
    """
    if not isinstance(judge, str):
        require_kind("judge", judge, Engine, "an engine (open_engine), or the name of one, such as 'nano'")
        return judge
    engine = open_engine(judge, **options)
    if judge.startswith("recorded:") or store == "none":
        return engine
    from ..store.engine import StoredEngine
    from ..store.file import Store

    return StoredEngine(engine, Store(store))
