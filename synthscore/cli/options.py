"""Options that verbs share, as groups: a dataclass a group, a field an option, the line below it its help.

A noun of the library that is made of plain values is such a group as it stands (judging.asking.Asking).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter, Token
from cyclopts.validators import Number

from ..errors import InputError, did_you_mean
from ..io.assumed import ASSUMED, Assumed
from ..io.formats import list_formats
from ..io.shards import Shard
from ..judging.asking import Asking, ProtocolName
from .costs import command_budget
from .messages import Messages, UsageError, Watched, exit_code, held_stdout
from .panels import FIRST

if TYPE_CHECKING:
    from ..engine import Engine, Progress
    from ..ladders.references import References
    from ..scoring.method import Method

JUDGE = (
    "the judge: nano, a hub model, a folder, a GGUF file, [systemone:]http://HOST:PORT/v1#MODEL, anthropic:MODEL, "
    "recorded:STORE, or batch:NAME"
)
NANO = "nano"
NANO_JUDGES = (
    "no --model is named, so nano judges: it cannot tell false facts from true ones, prefers copied sentences to good "
    "summaries (consistency, fluency), and lets word salad pass (consistency, relevance)"
)


def name_judges(models: Sequence[str] | None) -> tuple[str, ...]:
    """The judges, each once: nano where nobody named one."""
    return tuple(dict.fromkeys(models or (NANO,)))


def warn_of_nano(models: Sequence[str] | str | None, messages: Messages) -> None:
    """Before a judge is asked: a line on what nano cannot do, where nobody named a judge."""
    if not models:
        messages.note(NANO_JUDGES)


# ------------------------------------------------------------------------------------------------- single options


def _no_option(_: Any, text: str | None) -> None:
    """What begins with a hyphen, and is not the - of stdin or stdout, is an option that there is not."""
    if text is not None and text.startswith("-") and text != "-":
        raise ValueError("there is no such option; a file whose name begins with - is ./-")


def _rows_file(_: Any, text: str | None) -> None:
    _no_option(_, text)
    if text is not None:
        from ..io.write import require_format

        try:
            require_format(text)
        except InputError as error:  # of ours; cyclopts knows a ValueError
            raise ValueError(str(error)) from error


def _shard(_: Any, tokens: Sequence[Token]) -> Shard:
    return Shard.parse(tokens[0].value)


def _whole(_: Any, tokens: Sequence[Token]) -> int:
    """The number; cyclopts would round 1.5."""
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text} is no whole number") from None


_FILES = f"a file of rows: {list_formats('read')}"
_FILE = f"file of rows: {list_formats('write')}"

FileIn = Annotated[str, Parameter(validator=_no_option, allow_leading_hyphen=True)]
RowsIn = Annotated[FileIn, Parameter(help=_FILES)]
"""Rows that are read; FileIn: of a kind that the verb describes."""

RowsOut = Annotated[
    str,
    Parameter(name=["--output", "-o"], group=FIRST, validator=_rows_file, allow_leading_hyphen=True, help=_FILE),
]
MoreRows = Annotated[str | None, Parameter(validator=_rows_file, allow_leading_hyphen=True)]
"""A file that rows are written to, checked before anything is asked."""

FileOut = Annotated[str, Parameter(validator=_no_option)]
"""A file that is written."""

Output = Annotated[
    str, Parameter(name=["--output", "-o"], group=FIRST, validator=_no_option, allow_leading_hyphen=True)
]
"""A file, or a folder."""

DryRun = Annotated[bool, Parameter(help="say how many questions would be asked, of how many tokens, and stop")]

Whole = Annotated[int, Parameter(converter=_whole)]
Count = Annotated[Whole, Parameter(validator=Number(gte=0))]
Positive = Annotated[Whole, Parameter(validator=Number(gte=1))]
Seed = Annotated[Count, Parameter(help="of whatever is drawn")]

Limit = Annotated[
    Positive | None,
    Parameter(
        help="only so many contexts, drawn by the hash of their ids: the same for every command (default: all)",
    ),
]


OneShard = Annotated[
    Shard | None,
    Parameter(
        converter=_shard,
        accepts_keys=False,
        n_tokens=1,
        help="i/n: only the contexts that a hash of their ids gives to shard i of n, one for each of n machines "
        "(docs/machines.md)",
    ),
]


Source = Annotated[str, Parameter(help="references folder, or id of a hub dataset")]
Revision = Annotated[str | None, Parameter(help="commit, tag or branch of a hub dataset")]
OneAttribute = Annotated[
    str | None, Parameter(name=["--attribute", "-a"], group=FIRST, help="only this one (default: all)")
]
OneTask = Annotated[
    str | None, Parameter(group=FIRST, help="only this one; a folder with a task.toml for a task of your own")
]
"""Which ladders."""

AnyTask = Annotated[str | None, Parameter(group=FIRST)]
"""A task by name, or by a folder with a task.toml."""

LaddersIn = Annotated[str | None, Parameter(group=FIRST)]
"""Ladders that are read, of a folder or a hub dataset."""

Attributes = Annotated[list[str] | None, Parameter(name=["--attribute", "-a"], group=FIRST)]
"""Attributes by name; the option may be repeated."""

Share = Annotated[float, Parameter(validator=Number(gte=0, lte=1))]


@Parameter(name="*", group="judging")
@dataclass(frozen=True)
class AskingOptions(Asking):
    """Asking, as options."""

    both_orders: Annotated[bool | None, Parameter(negative="--one-order", group=FIRST)] = None
    """ask about every pair in both orders, and take their mean: twice the questions, no position bias (default: in one
    order; of a judge that answers in words in both)"""


# ------------------------------------------------------------------------------------------------- groups


FIELDS = (
    *("text", "context", "context_id", "id", "system", "task", "attribute", "facts", "references"),
    *("human", "human_raw", "label", "rater", "drawn", "drawn_from"),
    *("rungs", "level", "writer"),
    *("first", "second", "winner", "outcome", "probability", "log_odds", "log_p_first", "log_p_second", "log_p_tie"),
    *("weight", "n_samples", "judge", "score", "stderr", "low", "high", "status", "reason", "signature", "verdicts"),
)
"""What a column may be read as: of texts and contexts, of people's labels, of ladders, of comparisons and scores."""
_NUMBERED = re.compile(r"rung_\d+|human[._].+")


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
    field: Annotated[list[str] | None, Parameter(group=FIRST)] = None
    "NAME=COLUMN: which column holds a field of ours, such as text=summary; may be repeated"
    separator: str | None = None
    "of columns in CSV, a character or tab (default: what the first lines show)"
    input_format: Literal["jsonl", "json", "csv", "tsv"] | None = None
    "of files whose names say none, and of stdin (default: JSONL on stdin)"

    def __post_init__(self) -> None:
        _ = self.fields  # or what is wrong is reported once rows are read

    @property
    def fields(self) -> Mapping[str, str]:
        """Our name -> the column that holds it. raises : UsageError"""
        columns: dict[str, str] = {}
        for text in self.field or ():
            name, _, column = text.partition("=")
            if not (name and column):
                raise UsageError(f"--field {text!r} is not NAME=COLUMN. Write it as in --field text=summary")
            if name not in FIELDS and not _NUMBERED.fullmatch(name):
                known = ", ".join(FIELDS)
                hint = did_you_mean(name, FIELDS)
                raise UsageError(f"--field {text}: there is no field {name!r}, but {known}. Name one of them.{hint}")
            if columns.setdefault(name, column) != column:
                raise UsageError(f"--field {name} is given twice, as {columns[name]} and {column}. Leave one out")
        return columns

    def assume(self) -> None:
        """For all files of this command. raises : UsageError"""
        separator = {"tab": "\t", "\\t": "\t"}.get(self.separator or "", self.separator or "")
        if len(separator) > 1 or separator in ('"', "\n", "\r"):
            raise UsageError(f"--separator {self.separator!r} is not one character, such as ';', or tab. Write one")
        ASSUMED.set(Assumed(separator, self.input_format or ""))


@Parameter(name="*", group="input")
@dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Which rows may stay open, where the exit code would stop a pipeline."""

    allow_unscored: str | None = None
    """end with exit code 0, not 3, where at most so many rows, or questions about pairs, are open: a number, 10, or a
    share of all, 0.5%. The lines on what became of them stay (default: 0)"""

    def __post_init__(self) -> None:
        self._most(0)

    def exit_code(self, n_open: int, n_rows: int) -> int:
        """n_open : of n_rows, those that are not done in full"""
        return exit_code(n_open <= self._most(n_rows))

    def _most(self, n_rows: int) -> float:
        """raises : UsageError"""
        text = self.allow_unscored or "0"
        if text.isascii() and text.isdecimal():
            return int(text)
        with suppress(ValueError):
            share = float(text.removesuffix("%")) / 100
            if text.endswith("%") and 0 <= share <= 1:
                return share * n_rows
        raise UsageError(
            f"--allow-unscored is {text!r}, expected a number of rows, such as 10, or a share, such as "
            "0.5%. Write it so"
        )


@Parameter(name="*", group="ladders")
@dataclass(frozen=True, kw_only=True)
class On:
    """The ladders that texts are scored on."""

    references: LaddersIn = None
    "folder or hub id of the ladders, as `synthscore generate` or `synthscore references import` wrote them"
    revision: Revision = None
    ladder: str | None = None
    "id of a context whose ladder all texts are compared with, whatever their contexts (docs/shared_ladder.md)"
    task: AnyTask = None
    "task, or folder with a task.toml (default: that of each row's ladder)"
    attribute: Attributes = None
    "may be repeated (default: all that the references hold, and filter wants one)"

    def load_references(self, verb: str, method: "Method") -> "References | None":
        """The ladders; None where none are named. What is wrong with their tasks shows before a model is opened.

        raises : UsageError where the method needs them; what Scorer raises for its references, task and attribute
        """
        from ..ladders.references import References
        from ..scoring.scorer import find_criteria

        if self.references is not None:
            references = References.load(self.references, revision=self.revision)
            references = references if self.ladder is None else references.share(self.ladder)
            for name in find_criteria(references, self.task, self.attribute):
                references.find_task(self.task or name)
            return references
        if self.ladder is not None:
            raise UsageError(f"--ladder {self.ladder} names one of --references, and there are none. Name them, too")
        if "references" in method.uses:
            raise UsageError(
                f"{verb} needs --references: folder or hub id of the ladders, as `synthscore generate` or "
                f"`synthscore references import` wrote them. See: synthscore {verb} --help"
            )
        return None


@dataclass(frozen=True, kw_only=True)
class Answering:
    """What a judge is shown and what counts as its answer: what every verb that asks one lets choose of Asking."""

    prompts: str = Asking.prompts
    "template set: default, paper, or a folder with templates of your own"
    min_mass: Share = Asking.min_mass
    "least probability, 0 to 1, that the labels have together for an answer to count"
    max_unreported: Share = Asking.max_unreported
    "the most by which labels that a server did not report may move a verdict, or a probability, for it to count"

    def asking(self, protocol: ProtocolName, *, both_orders: bool = False) -> Asking:
        return Asking(protocol, both_orders, self.prompts, self.min_mass, self.max_unreported)


@Parameter(name="*", group="model")
@dataclass(frozen=True, kw_only=True)
class Running:
    """How a model is run."""

    dtype: Literal["auto", "float32", "bfloat16"] | None = None
    "of the weights (default: auto, which suits the device)"
    device: str | None = None
    """where the model runs: cpu, cuda, cuda:1; auto: spread over all GPUs; cuda:0,cuda:1: a copy on each, which share
    the questions (default: a GPU if there is)"""
    date: str | None = None
    "that a chat template prints where it would print today's, as YYYY-MM-DD (default: 2024-07-26, every day)"
    exact: bool = False
    "one prompt at a time in float32: slow, but no number depends on what else is asked, to the last bit"
    top_k: Positive | None = None
    "most probable tokens to ask a server for, where tokens cannot be chosen (default: 1000, or as many as it gives)"
    tokenizer: str | None = None
    "of a server's model, folder or hub id (default: the one that the server names)"
    in_flight: Positive | None = None
    "requests at a time, to each server (default: 16)"
    timeout_s: Annotated[float | None, Parameter(name="--timeout", validator=Number(gt=0))] = None
    "seconds that a server has for an answer (default: 600)"
    thinking: bool = False
    "let a model think before it answers in words, where its chat template can (default: it is switched off)"
    reasoning_effort: str | None = None
    "of a hosted model: none, low, medium, high, or what else it takes (default: none, where it takes that)"

    @property
    def options(self) -> dict[str, Any]:
        """What open_engine takes, as far as the options say."""
        options = {each.name: value for each in fields(Running) if (value := getattr(self, each.name))}
        if options.get("device") == "auto":
            options["device_map"] = options.pop("device")
        return options


@Parameter(name="*", group="model")
@dataclass(frozen=True, kw_only=True)
class Opening(Running):
    """How a model is run and asked, and where its answers are kept."""

    answers: Literal["probabilities", "words", "auto"] = "probabilities"
    """of a judge: the probabilities of its labels; what it says in words, where it reports none; auto: words only where
    it reports none"""
    votes: Positive = 1
    "with --answers words: answers to each question"
    store: str | None = None
    "file that keeps every answer of the model, so that nothing is asked twice; none: nowhere (default: in your cache)"
    price: str | None = None
    "TOML or JSON of your prices of a million tokens: by model, in, out, and maybe cached (docs/servers.md)"
    cost_limit: Annotated[float | None, Parameter(validator=Number(gt=0))] = None
    "with --price: stop where so much is spent. What was answered is kept, and the same command goes on"
    max_questions: Positive | None = None
    "stop where so many questions were asked now"

    questions_to: FileOut | None = None
    """file that questions without an answer in the store are written to, for --model batch:NAME; the command then stops
    with exit code 4 (docs/batches.md)"""
    questions_format: Literal["openai", "anthropic", "gemini", "vllm"] | None = None
    "form of that file: of OpenAI and those like it, ... (default: openai)"

    @contextmanager
    def open(self, model: str, messages: Messages, *, dry_run: bool = False) -> Iterator[Watched]:
        """The model of this name, behind the store; it shows its progress. dry_run : it counts, and asks nothing

        raises : Unasked at the end, where questions were written to a file
        """
        from .. import engines
        from ..engine import capabilities_of
        from ..store.engine import store_of

        if model.startswith("recorded:") and self.store not in (None, "none"):
            why = f"--store {self.store} does nothing with --model {model}, which asks nothing"
            raise UsageError(f"{why}. Leave one out")
        if self.votes > 1 and self.answers == "probabilities":
            raise UsageError(f"--votes {self.votes} changes nothing without --answers words. Leave it out, or add that")
        with self._questions(model, dry_run=dry_run) as questions:
            how = {**self.options, **questions}
            engine = engines.open_judge(model, self.store, answers=self.answers, n_votes=self.votes, **how)
            if self.answers == "auto":
                in_words = capabilities_of(engine).answers == "words"
                why = "in words, since it reports no log-probabilities" if in_words else "for probabilities"
                messages.note(f"{model} is asked {why}")
            self._limit(engine, model)
            store = store_of(engine)
            with store if store is not None else nullcontext():
                yield Watched(engine, messages, dry_run=dry_run)

    @contextmanager
    def _questions(self, model: str, *, dry_run: bool) -> Iterator[dict[str, Any]]:
        """What open_engine takes of a model that is asked through files. What is printed meanwhile is lost where it
        stops for unasked questions."""
        if not model.startswith("batch:"):
            for option in ("--questions-to", "--questions-format"):
                if option in given(self):
                    raise UsageError(
                        f"{option} does nothing with --model {model}, which is asked at once. Name batch:NAME, as the "
                        "service that answers files knows the model, or leave it out"
                    )
            yield {}
            return
        options: dict[str, Any] = {"wire": self.questions_format} if self.questions_format else {}
        if self.questions_to is None or dry_run:
            yield options
            return
        from ..engines.batch.write import unasked_to

        with held_stdout(), unasked_to(self.questions_to) as questions:
            yield {**options, "questions": questions}

    def _limit(self, engine: "Engine", model: str) -> None:
        """Count what the engine takes in the budget of this command, which stops it where it is spent."""
        from ..store.budget import model_names
        from ..store.engine import stored_engine

        budget = command_budget(self.price, self.cost_limit, self.max_questions)
        if (stored := stored_engine(engine)) is not None:
            budget.watch(stored, *model_names(engine.signature, model))
            stored.budget = budget
        elif names := [name for name in ("price", "cost_limit", "max_questions") if getattr(self, name) is not None]:
            option = f"--{names[0].replace('_', '-')}"
            raise UsageError(
                f"{option} counts what comes into a store, and answers of {model} are not stored here. Leave it out, "
                "or name a --store"
            )


@Parameter(name="*", group="model")
@dataclass(frozen=True, kw_only=True)
class Judges(Opening):
    """The models that judge."""

    model: Annotated[
        list[str] | None, Parameter(group=FIRST, help=f"{JUDGE}; several are a jury (docs/jury.md) (default: nano)")
    ] = None

    @property
    def models(self) -> tuple[str, ...]:
        return name_judges(self.model)


@Parameter(name="*", group="model")
@dataclass(frozen=True, kw_only=True)
class JudgeOptions(Opening):
    """The model that judges."""

    model: Annotated[str | None, Parameter(group=FIRST, help=f"{JUDGE} (default: nano)")] = None

    def named(self, messages: Messages) -> str:
        """The judge that is asked now."""
        warn_of_nano(self.model, messages)
        return self.model or NANO


class OpenJudges(ExitStack):
    """The judges of one command, each opened when it is asked, and closed afterwards; and one progress bar for them.

    judges : by name. cost : lines on what was asked so far, as Watched.cost
    """

    def __init__(self, options: Judges, messages: Messages, *, dry_run: bool) -> None:
        super().__init__()
        self.cost: list[str] = []
        self.judges = {model: self._open(options, model, messages, dry_run) for model in options.models}
        self._messages = messages
        self._engine: Watched | None = None
        self._rows: _RowProgress | None = None

    @contextmanager
    def _open(self, options: Judges, model: str, messages: Messages, dry_run: bool) -> Iterator[Watched]:
        warn_of_nano(options.model, messages)
        with options.open(model, messages, dry_run=dry_run) as engine:
            self._engine = engine
            yield engine
            self.cost += engine.cost

    def planned(self, n_questions: int, n_rows: int, *, more: bool) -> None:
        """As Planned: the bar counts rows, of those that are known by now."""
        assert self._engine is not None
        self._engine.expected = None if more else n_questions
        if self._rows is None or not more:
            self.close()
            total = None if more else n_rows
            self._rows = _RowProgress(self.enter_context(self._messages.bar(total, "rows")))
        self._rows.begin(n_questions, n_rows)

    def progress(self, n_questions: int) -> None:
        """So many more questions were answered."""
        if self._rows is not None:
            self._rows.add(n_questions)


class _RowProgress:
    """Questions that were answered -> rows that are done: of each call of the judge, as great a share as of its
    questions."""

    def __init__(self, show: "Progress") -> None:
        self._show = show
        self._n_questions = self._n_rows = self._n_answered = self._n_shown = 0

    def begin(self, n_questions: int, n_rows: int) -> None:
        """The next call, about so many; the rows of the one before are done."""
        self._advance(self._n_rows)
        self._n_questions, self._n_rows, self._n_answered, self._n_shown = n_questions, n_rows, 0, 0

    def add(self, n_questions: int) -> None:
        self._n_answered += n_questions
        n_done = self._n_rows * self._n_answered // max(self._n_questions, 1)
        self._advance(min(self._n_rows, n_done))

    def _advance(self, n_done: int) -> None:
        if n_done > self._n_shown:
            self._show(n_done - self._n_shown)
            self._n_shown = n_done
