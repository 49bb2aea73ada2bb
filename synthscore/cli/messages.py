"""How a command talks and ends: what goes to stderr beside the results, lines for people, exit codes."""

from __future__ import annotations

import hashlib
import logging
import math
import re
import shutil
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from ..errors import InputError, Reasons, SynthscoreError, Unasked
from ..signature import Signature

if TYPE_CHECKING:
    from ..engine import Answers, Capabilities, Engine, Progress, Question
    from ..store.engine import QuestionCounter, StoredEngine
    from ..store.file import Store
    from ..types import Usage


# ------------------------------------------------------------------------------------------------- how it ends

OK, ERROR, USAGE, INCOMPLETE, STOPPED, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 4, 130, 141


def exit_code(complete: bool) -> int:
    """complete : all that was asked for is there"""
    return OK if complete else INCOMPLETE


class UsageError(SynthscoreError):
    """Options that contradict each other, or that mean nothing. Exit code 2."""


@contextmanager
def usage() -> Iterator[None]:
    """Nouns made of options. raises : UsageError for what they refuse"""
    try:
        yield
    except InputError as error:
        raise as_usage(error) from error


def as_usage(error: InputError) -> UsageError:
    """What a noun refuses, by the name that the option has."""
    words = str(error)
    if error.field:
        option = error.field.removeprefix("n_").replace("_", "-")
        words = words.replace(f"{error.field} is", f"--{option} is", 1)
    return UsageError(words)


# ------------------------------------------------------------------------------------------------- lines for people


def visible(text: str) -> str:
    """Control characters as their escapes, line breaks and tabs aside: no text changes what a terminal shows."""
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", lambda match: repr(match[0])[1:-1], text)


def format_number(value: float, form: str = ".2f") -> str:
    """A number as `form` says, as ".0%"; what is not known, NaN, is a dash."""
    return "-" if math.isnan(value) else format(value, form)


def counted(n: int, noun: str, plural: str = "") -> str:
    """1 rung, 2 rungs, 12 000 rungs."""
    return f"{spaced(n)} " + (noun if n == 1 else plural or f"{noun}s")


def spaced(n: int) -> str:
    return f"{n:,}".replace(",", " ")


def broken(line: str, width: int) -> str:
    """The line in lines of at most this width, broken between words and in no number (12 000)."""
    indent = " " * (len(line) - len(line.lstrip()))
    whole = re.sub(r"(?<=\d) (?=\d{3}\b)", "\N{NO-BREAK SPACE}", line)
    return textwrap.fill(whole, width, subsequent_indent=indent, break_on_hyphens=False) or line


LONG = 60  # characters: of a longer signature a hash is printed


def short_signature(signature: str) -> str:
    """In one line; as it is where it is short."""
    if len(signature) <= LONG:
        return signature
    digest = hashlib.sha256(signature.encode()).hexdigest()[:12]
    return f"signature {digest} (whole: -v)"


def reasons(texts: Iterable[str], most: int = 5) -> list[str]:
    """Lines of reasons, the most frequent first; those alike but for names and numbers are one, shown by its first."""
    found = Reasons()
    found.add(*texts)
    return found.lines(most)


def table(rows: Iterable[Sequence[object]], headers: Sequence[str], width: int = 100) -> str:
    """Columns of text, numbers to the right; the last column is cut to what is left of the width."""
    cells = [list(headers)] + [[_cell(value) for value in row] for row in rows]
    columns = list(zip(*cells, strict=True))
    widths = [max(map(len, column)) for column in columns]
    is_number = re.compile(r"[-+]?[\d. ]*\d%?|-|").fullmatch
    justify = [str.rjust if all(map(is_number, column[1:])) else str.ljust for column in columns]
    last = len(headers) - 1
    left = width - sum(widths[:last]) - 2 * last
    widths[last] = min(widths[last], max(left, 20))
    return "\n".join(
        "  ".join(
            aligned(clip(text, size), size) for text, size, aligned in zip(row, widths, justify, strict=True)
        ).rstrip()
        for row in cells
    )


def clip(text: str, size: int) -> str:
    """The text on one line, cut at `size` characters."""
    flat = " ".join(text.split())
    if len(flat) <= size:
        return flat
    return flat[: max(size - 3, 0)].rstrip() + "..."


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return format_number(value) if isinstance(value, float) else visible(str(value))


# ------------------------------------------------------------------------------------------------- stderr


@contextmanager
def held_stdout() -> Iterator[None]:
    """What is written to stdout inside comes out at the end; nothing of it where questions are unasked."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="") as held:
        unasked = False
        try:
            with redirect_stdout(held):
                yield
        except Unasked:
            unasked = True
            raise
        finally:
            held.seek(0)
            if not unasked:
                shutil.copyfileobj(held, sys.stdout)
                sys.stdout.flush()


MANY = 1000  # questions: before more, what they take is said

_SAID = logging.getLogger("synthscore.said")
EVERY = 10.0  # seconds between lines of progress, where stderr is no terminal
PROGRESS_ENDS: ContextVar[Callable[[], str]] = ContextVar("synthscore_progress_ends", default=str)
"""What a line of progress ends with."""


@Parameter(name="*", group="messages")
@dataclass(frozen=True, kw_only=True)
class Messages:
    """What is written to stderr, beside the results."""

    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"])] = False
    "no progress, counts or signature on stderr"
    debug: bool = False
    "show the traceback of an error"
    verbose: Annotated[bool, Parameter(name=["--verbose", "-v"])] = False
    "also say what is tried again, and why; and signatures whole"
    log_file: str | None = None
    "file to which all of this is added, with the time"

    @contextmanager
    def logged(self) -> Iterator[None]:
        """What the library says, each line once, on stderr, not with --quiet; its warnings always."""
        log, said = logging.getLogger("synthscore"), set[str]()

        def new(record: logging.LogRecord) -> bool:
            before = len(said) + (record.name == _SAID.name)  # that is printed
            said.add(record.getMessage())
            return len(said) > before

        shown = logging.StreamHandler()
        shown.setLevel(logging.DEBUG if self.verbose else logging.WARNING if self.quiet else logging.INFO)
        shown.addFilter(new)
        shown.format = lambda record: visible(record.getMessage())  # type: ignore[method-assign]
        before = log.level
        handlers: list[logging.Handler] = [shown]
        hub = logging.getLogger("huggingface_hub")  # says of each of many retries that it retries
        hub_level = hub.level
        if not self.verbose:
            hub.setLevel(logging.ERROR)
        if self.log_file:
            try:
                handlers.append(logging.FileHandler(self.log_file, encoding="utf-8"))
            except OSError as error:
                raise UsageError(f"cannot write --log-file {self.log_file}: {error.strerror}. Name another") from error
            handlers[-1].setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        log.setLevel(logging.DEBUG)
        for handler in handlers:
            log.addHandler(handler)
        try:
            with warnings.catch_warnings():
                warnings.showwarning = lambda message, *where, **more: self.warn(str(message))
                yield
        finally:
            for handler in handlers:
                log.removeHandler(handler)
                handler.close()
            log.setLevel(before)
            hub.setLevel(hub_level)

    def note(self, *lines: str, signature: str = "") -> None:
        """Print counts, and the signature of the numbers they are about, on stderr; not with --quiet. Of a long
        signature a hash is printed; the whole with --verbose, and in the log file."""
        for line in lines:
            _SAID.info("%s", line)
            if not self.quiet:
                self._print(line)
        if signature:
            _SAID.info("%s", signature)
            if not self.quiet:
                self._print(signature if self.verbose else short_signature(signature))

    def warn(self, text: str) -> None:
        _SAID.info("warning: %s", text)
        self._print(f"warning: {text}")

    @staticmethod
    def _print(text: str) -> None:
        """On stderr; on a terminal above a progress bar, and broken between words."""
        text = visible(text)
        if not sys.stderr.isatty():
            print(text, file=sys.stderr, flush=True)
            return
        width = shutil.get_terminal_size().columns
        text = "\n".join(broken(line, width) for line in text.split("\n"))
        tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)
        with nullcontext() if tqdm is None else tqdm.external_write_mode(file=sys.stderr):
            print(text, file=sys.stderr, flush=True)

    def _lines(self, total: int | None, unit: str) -> Progress:
        n_done, next_at = 0, time.monotonic() + EVERY

        def update(n: int) -> None:
            nonlocal n_done, next_at
            n_done += n
            if time.monotonic() >= next_at:
                next_at = time.monotonic() + EVERY
                self.note(f"{spaced(n_done)}{f' of {spaced(total)}' if total else ''} {unit}")

        return update

    @contextmanager
    def bar(self, total: int | None, unit: str) -> Iterator[Progress]:
        """A progress bar on stderr where that is a terminal; it leaves nothing behind. Elsewhere a line now and then.

        total : None where nobody knows
        """
        if self.quiet or total == 0:
            yield lambda n: None
            return
        if not sys.stderr.isatty():
            yield self._lines(total, unit)
            return
        from tqdm import tqdm

        with tqdm(total=total, unit=f" {unit}", leave=False, dynamic_ncols=True) as shown:

            def update(n: int) -> None:
                shown.set_postfix_str(PROGRESS_ENDS.get()(), refresh=False)
                shown.update(n)

            yield update


def plan_line(plan: QuestionCounter) -> str:
    """What it takes to ask."""
    repeats = "" if plan.n_distinct == plan.n_questions else f" ({spaced(plan.n_questions)} with equal ones)"
    line = f"{counted(plan.n_distinct, 'question')}{repeats}, of which {spaced(plan.n_new)} are to be asked"
    if not plan.n_new:
        return line
    how = "" if plan.tokenised else " (an estimate: 4 characters each)"
    line += f": about {counted(plan.n_tokens, 'token')}{how}"
    if pace := plan.pace:
        minutes = plan.n_new / pace / 60
        duration = "less than a minute"
        if minutes >= 1:
            duration = f"about {spaced(round(minutes))} min"
        line += f", {duration} at {pace:.2g} a second"
    return line


def spent_line(engine: StoredEngine) -> list[str]:
    """What was really asked now; nothing where nothing was."""
    spent = engine.spent
    if not spent.n_asked:
        return []
    rate = spent.n_asked / max(spent.seconds, 1e-9)
    failed = f" ({spaced(spent.n_failed)} failed)" if spent.n_failed else ""
    pace = f"{rate:,.0f}" if rate >= 100 else f"{rate:.2g}"
    line = f"{counted(spent.n_asked, 'question')} asked now{failed}, {pace} a second"
    if tokens := usage_words(spent.usage):
        line += f": {tokens}"
    if engine.budget is not None and (cost := engine.budget.cost_of(engine)) is not None:
        line += f"; cost {cost:.4g}"
    return [line]


def usage_words(usage: Usage) -> str:
    """Tokens, as far as known; "" where nothing is."""
    words = [f"{counted(usage.n_in, 'token')} in"] if usage.n_in else []
    if usage.n_cached:
        words.append(f"{spaced(usage.n_cached)} of them cached")
    if usage.n_out:
        words.append(f"{spaced(usage.n_out)} out" if words else f"{counted(usage.n_out, 'token')} out")
    if usage.n_reasoning:
        words.append(f"{spaced(usage.n_reasoning)} of these reasoning")
    return ", ".join(words)


class Watched:
    """An engine whose calls show a progress bar, and that counts what it is asked.

    engine : with a store, it knows what the model behind it was asked; without, that is not known
    n_judged : questions asked so far, answered from the store or not
    plan : with --dry-run: counts what would be asked, and nothing is asked
    expected : questions in all, where more are to come than the first call has; None: nobody knows how many
    """

    def __init__(self, engine: Engine, messages: Messages, *, dry_run: bool = False) -> None:
        self.engine, self.messages, self.n_judged = engine, messages, 0
        self.plan: QuestionCounter | None = None
        self.expected: int | None = 0
        self.announced = False
        if dry_run:
            from ..store.engine import QuestionCounter

            self.plan = QuestionCounter.replacing(engine)

    @property
    def signature(self) -> Signature:
        return self.engine.signature

    @property
    def capabilities(self) -> Capabilities:
        from ..engine import capabilities_of

        return capabilities_of(self.engine)

    def answer(self, questions: Sequence[Question], progress: Progress | None = None) -> Answers:
        n_judged = sum(question.kind != "text" for question in questions)
        self.n_judged += n_judged
        if self.plan is not None:
            return self.plan.front.answer(questions)
        expected = max(self.expected or 0, len(questions))
        if not self.announced and expected > MANY and not self.messages.quiet:
            from ..store.engine import QuestionCounter

            plan = QuestionCounter.replacing(self.engine)
            plan.front.answer(questions)
            self.announce(plan.scaled_to(expected * plan.n_samples))
        if progress is not None or n_judged < len(questions):  # who writes has a bar of their own
            return self.engine.answer(questions, progress)
        unit = "questions" if questions and questions[0].kind == "labels" else "texts"
        with self.messages.bar(len(questions), unit) as shown:
            return self.engine.answer(questions, shown)

    def announce(self, plan: QuestionCounter) -> None:
        """Before the first question of many: what they take. Once."""
        self.announced = True
        if plan.n_questions > MANY and self.plan is None:
            self.messages.note("the first " * (self.expected is None) + plan_line(plan))

    @property
    def store(self) -> Store | None:
        """Behind the engine, if there is one that is used."""
        from ..store.engine import store_of

        return None if self.plan else store_of(self.engine)

    @property
    def cost(self) -> list[str]:
        """What the model was really asked, a line; none where nothing was. With --dry-run, what it would be."""
        if self.plan is not None:
            plan = self.plan
            if self.expected:
                plan = plan.scaled_to(self.expected * plan.n_samples)
            return [plan_line(plan)]
        from ..store.engine import stored_engine

        stored = stored_engine(self.engine)
        return [] if stored is None else spent_line(stored)
