"""`synthscore serve`: a model -> an OpenAI-compatible server."""

from __future__ import annotations

import argparse
import warnings

from ..errors import EngineError, SynthscoreWarning
from .common import OK, Commands, UsageError, add_command, add_messages, add_model, note, open_engine, whole

TEXT = """
Examples:
  $ synthscore serve --model Qwen/Qwen3-8B --port 8000
  $ synthscore serve --model models/mine --port 0

Loads a model and answers requests in the form of OpenAI's API until it is interrupted (Ctrl-C), to this
machine only unless --host says otherwise. It asks for no key: whoever reaches the port can use the model.
Elsewhere, --model http://HOST:PORT/v1 then gives the same numbers as the model itself. Prints that address
on stdout. Thin: no streaming, no system messages, log-probabilities of the first token only.
"""


def add(commands: Commands) -> None:
    parser = add_command(commands, "serve", run, "serve --model M [--port P]", "a model -> a server", TEXT)
    group = parser.add_argument_group("server")
    group.add_argument("--host", default="127.0.0.1", metavar="H", help="address to listen on (default: 127.0.0.1)")
    group.add_argument("--port", type=whole(0), default=8000, metavar="P", help="0: any free one (default: 8000)")
    add_model(parser, None, "the model: a causal language model, on the hub or in a folder", stored=False)
    add_messages(parser)


def run(args: argparse.Namespace) -> int:
    if args.model is None:
        raise UsageError("serve needs a model: add --model ORGANISATION/MODEL, or a folder")
    engine = open_engine(args)

    from ..engines.servers.serving import ModelServer
    from ..engines.tree.causal import CausalEngine

    if not isinstance(engine, CausalEngine):
        raise EngineError(
            f"cannot serve {args.model!r}: expected a causal language model that runs here, a folder or a hub id"
        )
    server = ModelServer(engine, host=args.host, port=args.port)
    if args.host not in ("127.0.0.1", "localhost", "::1"):
        warnings.warn(f"whoever reaches {server.url} can use the model: no key is asked for", SynthscoreWarning, 2)
    print(server.url, flush=True)
    note(args, f"serving {engine.name}; stop it with Ctrl-C", signature=str(engine.signature))
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        note(args, "stopped")
    return OK
