"""What is written to stderr, beside the results: counts, signatures, warnings, progress."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ..signature import Signature
from .talk import counted, spaced

if TYPE_CHECKING:
    from ..engine import Answers, Engine, Progress, Question


@Parameter(name="*", group="messages")
@dataclass(frozen=True, kw_only=True)
class Messages:
    """What is written to stderr, beside the results."""

    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False
    "no progress, counts or signature on stderr"
    debug: bool = False
    "show the traceback of an error"

    @contextmanager
    def logged(self) -> Iterator[None]:
        """What the library says, each line once, on stderr; not with --quiet."""
        log, said = logging.getLogger("synthscore"), set[str]()

        def new(record: logging.LogRecord) -> bool:
            before = len(said)
            said.add(record.getMessage())
            return len(said) > before

        shown = logging.StreamHandler()
        shown.setLevel(logging.WARNING if self.quiet else logging.INFO)
        shown.addFilter(new)
        before = log.level
        log.addHandler(shown)
        log.setLevel(logging.INFO)
        try:
            yield
        finally:
            log.removeHandler(shown)
            log.setLevel(before)

    def note(self, *lines: str, signature: str = "") -> None:
        """Print counts, and the signature of the numbers they are about, on stderr; not with --quiet."""
        if not self.quiet:
            for line in (*lines, signature) if signature else lines:
                print(line, file=sys.stderr, flush=True)

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


class Watched:
    """An engine whose calls show a progress bar, and that counts what it is asked.

    engine : with a store, it knows what the model behind it was asked; without, that is not known
    n_judged : questions asked so far, answered from the store or not
    """

    def __init__(self, engine: Engine, messages: Messages) -> None:
        self.engine, self.messages, self.n_judged = engine, messages, 0

    @property
    def signature(self) -> Signature:
        return self.engine.signature

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        n_judged = sum(question.kind != "text" for question in questions)
        self.n_judged += n_judged
        if progress is not None or n_judged < len(questions):  # who writes has a bar of their own
            return self.engine.answer(questions, progress)
        unit = "questions" if questions and questions[0].kind == "labels" else "texts"
        with self.messages.bar(len(questions), unit, self.saved) as shown:
            return self.engine.answer(questions, shown)

    def saved(self) -> float | None:
        """The share of all prompts' tokens that the model did not have to run over; None where that is not known."""
        asked = getattr(self.engine, "asked", None)
        return 1 - asked.tokens_computed / asked.tokens_naive if asked and asked.tokens_computed else None

    @property
    def cost(self) -> list[str]:
        """What the model was really asked, a line; none where nothing was."""
        asked = getattr(self.engine, "asked", None)
        if not asked or not asked.n:
            return []
        rate = asked.n / max(asked.seconds, 1e-9)
        line = f"{counted(asked.n, 'question')} asked now, {rate:{',.0f' if rate >= 100 else '.2g'}} a second"
        if asked.tokens_computed:
            line += f": {counted(asked.tokens_computed, 'token')} run over instead of {spaced(asked.tokens_naive)}"
        return [line]
