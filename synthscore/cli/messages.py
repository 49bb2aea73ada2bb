"""What is written to stderr, beside the results: counts, signatures, warnings, progress."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

if TYPE_CHECKING:
    from ..engine import Engine, Progress


@dataclass(frozen=True)
class Step:
    """A command that `synthscore demo` runs as one of its steps. engine : a model that is open already"""

    engine: Engine | None = None


STEP: ContextVar[Step | None] = ContextVar("step", default=None)


@Parameter(name="*", group="messages")
@dataclass(frozen=True, kw_only=True)
class Messages:
    """What is written to stderr, beside the results."""

    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False
    "no progress, counts or signature on stderr"
    debug: bool = False
    "show the traceback of an error"

    def note(self, *lines: str, signature: str = "") -> None:
        """Print counts, and the signature of the numbers they are about, on stderr; not with --quiet."""
        if not self.quiet:
            within_demo = STEP.get() is not None
            for line in lines if within_demo or not signature else [*lines, signature]:
                print("    " * within_demo + line, file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        print(f"warning: {text}", file=sys.stderr)

    @contextmanager
    def bar(self, total: int | None, unit: str, saved: Any = None) -> Iterator[Progress]:
        """A progress bar on stderr where that is a terminal; it leaves nothing behind.

        total : None where nobody knows. saved : no arguments -> the share of tokens that need not be run over, or None
        """
        if self.quiet or total == 0 or not sys.stderr.isatty():
            yield lambda n: None
            return
        from tqdm import tqdm

        with tqdm(total=total, unit=f" {unit}", leave=False, dynamic_ncols=True) as shown:

            def update(n: int) -> None:
                if saved is not None and (share := saved()) is not None:
                    shown.set_postfix_str(f"{share:.0%} of tokens saved", refresh=False)
                shown.update(n)

            yield update
