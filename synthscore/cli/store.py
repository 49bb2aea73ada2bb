"""`synthscore store`: look at stored answers, join them, save the good ones of a damaged file."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from ..errors import StoreError
from .messages import OK, Messages, UsageError, counted, exit_code, spaced, table
from .options import Positive, RowsOut
from .panels import ARGUMENTS, OPTIONS

if TYPE_CHECKING:
    from ..store.file import Batch
    from ..store.runs import Spent

HELP = """
Look at stored answers, join them.

For example:
  $ synthscore store info
  $ synthscore store show --kind labels --limit 3
  $ synthscore store merge part-1.sqlite part-2.sqlite --store answers.sqlite
  $ synthscore store salvage answers.sqlite -o answers.sqlite.new
  $ synthscore store add batch_abc_output.jsonl --questions q.jsonl.manifest

Looks at the answers that are kept so that nothing is asked twice. Each action has a --help of its own.
"""

File = Annotated[str | None, Parameter(name="--store", help="the store (default: the one in your cache)")]

store = App(name="store", help=HELP, help_epilogue="", group_arguments=ARGUMENTS, group_parameters=OPTIONS)


@store.command(help_epilogue="")
def info(*, file: File = None, messages: Messages = Messages()) -> int:
    """What is in it.

    For example:
      $ synthscore store info --store answers.sqlite

    Prints how large the store is, and a table of its answers by engine and kind: how many, how many of them are kept
    with their question, and the days of the first and the last (UTC). Then what they took, as far as it is known:
    questions asked, failed ones among them, a second of waiting, and tokens.
    """
    from ..store.file import FORMAT, Store, utc
    from ..store.runs import Spent

    with Store(file, create=False) as opened:
        batches, runs, size = opened.batches(), opened.runs(), opened.size_bytes
    held: dict[tuple[str, str], list[Batch]] = {}
    for batch in batches:
        held.setdefault((batch.kind, batch.engine), []).append(batch)
    n_answers = sum(batch.n_answers for batch in batches)
    print(f"{opened.path}: {size / 1e6:,.2f} MB, format {FORMAT}, {counted(n_answers, 'answer')}")
    rows = [
        (
            kind,
            sum(batch.n_answers for batch in some),
            sum(batch.n_answers for batch in some if batch.has_questions),
            utc(min(batch.created_at for batch in some))[:10],
            utc(max(batch.created_at for batch in some))[:10],
            engine,
        )
        for (kind, engine), some in held.items()
    ]
    if rows:
        print("\n" + table(rows, ("kind", "answers", "with question", "first", "last", "engine"), width=10**6))
    spent: dict[tuple[str, str], Spent] = {}
    for run in runs:
        spent[run.kind, run.engine] = spent.get((run.kind, run.engine), Spent()) + run.spent
    if spent:
        columns = ("kind", "asked", "failed", "a second", "tokens in", "cached", "out", "reasoning", "engine")
        print("\n" + table([_row(kind, engine, one) for (kind, engine), one in spent.items()], columns, width=10**6))
    return OK


def _row(kind: str, engine: str, spent: Spent) -> list[object]:
    usage = spent.usage
    rate = spent.n_asked / spent.seconds if spent.seconds else None
    return [
        kind,
        spent.n_asked,
        spent.n_failed,
        rate,
        usage.n_in,
        usage.n_cached,
        usage.n_out,
        usage.n_reasoning,
        engine,
    ]


@store.command(help_epilogue="")
def show(
    *,
    file: File = None,
    engine: str = "",
    kind: Literal["labels", "text", "tokens", "verdicts"] | None = None,
    limit: Positive | None = None,
    output: RowsOut = "-",
    messages: Messages = Messages(),
) -> int:
    """Answers and questions as rows.

    For example:
      $ synthscore store show --limit 3
      $ synthscore store show --store answers.sqlite --engine Qwen3-8B --kind text -o texts.jsonl

    Writes one row for each answer, in the order in which they came into the store: key, kind, engine, created_at (UTC),
    question (null where it was not kept) and answer. Log-probabilities are in nats; that of an impossible label is
    "-inf".

    Args:
        engine: only answers whose signature contains this
        kind: only answers about labels, texts, texts that were read (tokens), or verdicts on whole texts
        limit: at most so many rows (default: all)
    """
    from ..io.write import write_rows
    from ..store.file import Store

    with Store(file, create=False) as opened:
        n_written = write_rows(islice(opened.rows(engine, kind), limit), output)
    if not n_written:
        messages.warn("no answer in the store is like that")
    return OK


@store.command(help_epilogue="")
def merge(*parts: str, file: File = None, messages: Messages = Messages()) -> int:
    """Join stores.

    For example:
      $ synthscore store merge part-1.sqlite part-2.sqlite --store answers.sqlite

    Takes all answers of the parts, with their questions, into the store, which is made where there is none; the parts
    stay. An answer that the store holds already stays as it is.

    Args:
        parts: stores to take answers from
    """
    from ..store.file import Store

    if not parts:
        raise UsageError("store merge needs parts: name the stores to take answers from")
    _require_files("merge", *parts)
    with Store(file) as opened:
        for part in parts:
            messages.note(f"{part}: {counted(opened.merge(part), 'new answer')}")
        messages.note(f"{opened.path}: {counted(len(opened), 'answer')}")
    return OK


@store.command(help_epilogue="")
def salvage(
    damaged: str, /, *, file: Annotated[str, Parameter(name=["--store", "-o"])], messages: Messages = Messages()
) -> int:
    """The good answers of a damaged store.

    For example:
      $ synthscore store salvage answers.sqlite -o answers.sqlite.new

    Takes every answer of a damaged store that can be read and has its checksum, with its question where that can be
    read, into another store; the damaged file stays. What does not come back is asked again.

    Args:
        damaged: the file; with its -wal beside it, if there is one
        file: the store; made where there is none
    """
    from ..store.file import Store

    _require_files("salvage", damaged)
    with Store(file) as opened:
        n_new = opened.salvage(damaged)
        messages.note(f"{opened.path}: {counted(n_new, 'answer')} of {damaged} came back; others are asked again")
    return OK


@store.command(help_epilogue="")
def add(
    *answers: str,
    file: File = None,
    questions: list[str] | None = None,
    served_as: str | None = None,
    tokenizer: str | None = None,
    messages: Messages = Messages(),
) -> int:
    """Answers of a batch service, out of files.

    For example:
      $ synthscore store add batch_abc_output.jsonl batch_abc_error.jsonl
      $ synthscore store add results.jsonl --questions q.jsonl.manifest --store answers.sqlite

    Takes files of answers to questions that --questions-to wrote into the store: results and errors as OpenAI (and
    Azure, Together, Groq, Mistral), vLLM's run-batch, Anthropic or Gemini write them, in any order, also a part of
    them. Says what became of every line. An answer of another model is refused. What no line answers is unasked: the
    command that wrote the questions, run again, writes it again. The exit code is 3 where a line gave no answer.

    Args:
        answers: files of results and of errors
        questions: manifests, which lie beside the files of questions; may be repeated (default: those beside the
            answers, and in this folder)
        served_as: the name by which the replies name the model, where it is another than was asked for
        tokenizer: of the model, where it lies elsewhere than when the questions were written
    """
    from ..engines.batch.add import add_answers
    from ..store.file import Store

    if not answers:
        raise UsageError("store add needs files of answers: name them")
    _require_files("add", *answers, *(questions or ()))
    folders = dict.fromkeys([*(Path(path).resolve().parent for path in answers), Path.cwd()])
    found = questions or [str(path) for folder in folders for path in sorted(folder.glob("*.manifest"))]
    with Store(file) as opened:
        added = add_answers(opened, answers, found, served_as=served_as, tokenizer=tokenizer)
        messages.note(
            *added.why.lines(),
            added.words,
            f"{opened.path}: {counted(len(opened), 'answer')}; {spaced(added.n_unasked)} of "
            f"{counted(added.n_questions, 'question')} still unasked",
        )
    return exit_code(added.complete)


def _require_files(what: str, *files: str) -> None:
    """Before a store is made for what they hold. raises : StoreError"""
    if missing := [file for file in files if not Path(file).is_file()]:
        raise StoreError(f"cannot {what} {', '.join(missing)}: there is no such file. Nothing was made; check the path")
