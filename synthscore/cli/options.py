"""Options that verbs share, as groups: a dataclass a group, a field an option, the line below it its help.

A noun of the library that is made of plain values is such a group as it stands (judging.asking.Asking).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from ..errors import InputError, SynthscoreError
from .messages import STEP, Messages
from .watched import Metered, Watched

OK, ERROR, USAGE, INCOMPLETE, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 3, 130, 141

JUDGE = "the judge: nano, a hub model, a folder, a GGUF file, [systemone:]http://HOST:PORT/v1#MODEL, or recorded:STORE"


class UsageError(SynthscoreError):
    """Options that contradict each other, or that mean nothing. Exit code 2."""


# ------------------------------------------------------------------------------------------------- single options


def _rows_file(_: Any, text: str | None) -> None:
    if text is not None:
        from ..io.write import require_format

        try:
            require_format(text)
        except InputError as error:  # of ours; cyclopts knows a ValueError
            raise ValueError(str(error)) from error


RowsIn = Annotated[str, Parameter(allow_leading_hyphen=True)]
"""A file of rows, a datasets folder, or - for JSONL on stdin."""

RowsOut = Annotated[str, Parameter(name=["--output", "-o"], validator=_rows_file, allow_leading_hyphen=True)]
"""A file that rows are written to, checked before anything is asked."""

Ladders = Annotated[str, Parameter(help="references folder, or id of a hub dataset")]
Revision = Annotated[str | None, Parameter(help="commit, tag or branch of a hub dataset")]
OneAttribute = Annotated[str | None, Parameter(name=["--attribute", "-a"], help="only this one (default: all)")]
OneTask = Annotated[str | None, Parameter(help="only this one; a folder with a task.toml for a task of your own")]
"""Which ladders."""

Attributes = Annotated[list[str] | None, Parameter(name=["--attribute", "-a"])]
"""Attributes by name; the option may be repeated."""


# ------------------------------------------------------------------------------------------------- groups


def given(group: Any) -> list[str]:
    """The options of a group that are not at their defaults, as they are typed."""
    changed = (each.name for each in fields(group) if getattr(group, each.name) != each.default)
    return [f"--{name.replace('_', '-')}" for name in changed]


@Parameter(name="*", group="input")
@dataclass(frozen=True, kw_only=True)
class Input:
    """How rows are read."""

    encoding: str = "utf-8"
    "of text files"
    field: list[str] | None = None
    "NAME=COLUMN: which column holds a field of ours, such as text=summary; may be repeated"

    def __post_init__(self) -> None:
        _ = self.fields  # or what is wrong is reported once rows are read

    @property
    def fields(self) -> Mapping[str, str]:
        """Our name -> the column that holds it. raises : UsageError"""
        pairs = [text.partition("=") for text in self.field or ()]
        for text, (name, equals, column) in zip(self.field or (), pairs, strict=True):
            if not (name and equals and column):
                raise UsageError(f"--field {text!r} is not NAME=COLUMN. Write it as in --field text=summary")
        return {name: column for name, _, column in pairs}


@Parameter(name="*", group="model")
@dataclass(frozen=True, kw_only=True)
class Running:
    """How a model is opened. --model itself is each verb's own."""

    dtype: Literal["auto", "float32", "bfloat16"] | None = None
    "of the weights (default: auto, which suits the device)"
    device: str | None = None
    "where the model runs: cpu, cuda, cuda:1, or auto: spread over all GPUs (default: a GPU if there is)"
    exact: bool = False
    "one prompt at a time in float32: slow, but no number depends on what else is asked, to the last bit"
    tokenizer: str | None = None
    "of a server's model, folder or hub id (default: the one that the server names)"
    in_flight: int | None = None
    "requests at a time, to each server (default: 16)"

    def __post_init__(self) -> None:
        if self.in_flight is not None and self.in_flight < 1:
            raise UsageError(f"--in-flight {self.in_flight} asks nothing. Give at least 1")

    @property
    def options(self) -> dict[str, Any]:
        """What open_engine takes, as far as the options say."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "store"}
        options = {name: value for name, value in given.items() if value not in (None, False)}
        if options.get("device") == "auto":
            options["device_map"] = options.pop("device")
        return options


@Parameter(name="*", group="model")
@dataclass(frozen=True, kw_only=True)
class Opening(Running):
    """How a model is opened, and where its answers are kept."""

    store: str | None = None
    "file that keeps every answer of the model, so that nothing is asked twice; none: nowhere (default: in your cache)"

    @contextmanager
    def open(self, model: str, messages: Messages) -> Iterator[Any]:
        """The model of this name, behind the store; it shows its progress."""
        from .. import engines
        from ..store.engine import StoredEngine
        from ..store.file import Store
        from ..store.recorded import RecordedEngine

        with ExitStack() as stack:
            step = STEP.get()
            engine = (step and step.engine) or engines.open_engine(model, **self.options)
            if isinstance(engine, RecordedEngine):
                if self.store not in (None, "none"):
                    raise UsageError(
                        f"--store {self.store} does nothing with --model {model}, which asks nothing. Leave one out"
                    )
            elif self.store != "none":
                answers = stack.enter_context(Store(self.store))
                meter = Metered(engine)
                yield Watched(StoredEngine(meter, answers), messages, meter)
                return
            yield Watched(engine, messages)
