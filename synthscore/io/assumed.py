"""What a command says of the files that it reads, where they do not say it themselves."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Assumed:
    """separator : of columns of CSV; "" for what a file's first lines show
    format : of files whose names say none, and of stdin: a suffix of io/formats.py without its dot; "" for none, and
        JSONL on stdin
    """

    separator: str = ""
    format: str = ""


_NOTHING = Assumed()
ASSUMED: ContextVar[Assumed] = ContextVar("ASSUMED", default=_NOTHING)
"""For one command, whichever of its files is read, so that no function in between hands it on."""
