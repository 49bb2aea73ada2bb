"""`synthscore serve` is no more: it says what to use instead."""

from __future__ import annotations

import argparse

from .common import Commands, UsageError, add_command, add_messages

TEXT = """
Examples:
  $ vllm serve Qwen/Qwen3-8B
  $ synthscore score targets.jsonl --references ladders/ --model http://localhost:8000/v1

There is no server here any more. vLLM, SGLang and llama.cpp serve a model, and --model asks it.
"""


def add(commands: Commands) -> None:
    parser = add_command(commands, "serve", run, "serve", "gone: use vLLM, SGLang or llama.cpp", TEXT)
    for option in ("--model", "--host", "--port"):
        parser.add_argument(option, help=argparse.SUPPRESS)
    add_messages(parser)


def run(args: argparse.Namespace) -> int:
    raise UsageError(
        "cannot serve a model: synthscore asks servers and is none. Start vLLM (vllm serve MODEL), SGLang or "
        "llama.cpp, and name it with --model http://HOST:PORT/v1 (docs/servers.md)"
    )
