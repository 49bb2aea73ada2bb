"""`synthscore store`: look at stored answers, join them, bound them, save the good ones of a damaged file."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Iterator
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from typing import Any

from ..engine import KINDS
from ..errors import StoreError
from ..io.write import write_rows
from ..store.answers import VERDICTS, Batch, Stored
from ..store.file import FORMAT, MIN_BYTES, Store, default_store_path
from .common import (
    ERROR,
    INCOMPLETE,
    OK,
    Commands,
    UsageError,
    add_command,
    add_messages,
    counted,
    home,
    note,
    rows_file,
    table,
    warn,
    whole,
)

TEXT = """
Examples:
  $ synthscore store info
  $ synthscore store show --kind labels --limit 3
  $ synthscore store merge part-*.sqlite --store answers.sqlite
  $ synthscore store prune --max-size 2GB
  $ synthscore store salvage answers.sqlite.corrupt-20250131T101500-7 -o answers.sqlite

Looks at the answers that are kept so that nothing is asked twice. Each action has a --help of its own.
"""

INFO = """
Example:
  $ synthscore store info --store answers.sqlite

Prints how large the store is, and a table of its answers by engine and kind: how many, how many of them
are kept with their question, and the days of the first and the last (UTC).
"""

SHOW = """
Examples:
  $ synthscore store show --limit 3
  $ synthscore store show --store answers.sqlite --engine Qwen3-8B --kind text -o texts.jsonl

Writes one row for each answer, in the order in which they came into the store: key, kind, engine,
created_at (UTC), question (null where it was not kept) and answer. Log-probabilities are in nats; that of
an impossible label is "-inf".
"""

MERGE = """
Example:
  $ synthscore store merge part-1.sqlite part-2.sqlite --store answers.sqlite

Takes all answers of the parts, with their questions, into the store; the parts stay. An answer that the
store holds already stays as it is. The store is made where there is none.
"""

PRUNE = """
Example:
  $ synthscore store prune --max-size 2GB

Drops the oldest answers, with their questions, a batch at a time, until the file is no larger; the newest
batch stays. A run that needs them asks the model again. Other processes may use the store meanwhile.
"""

SALVAGE = """
Example:
  $ synthscore store salvage answers.sqlite.corrupt-20250131T101500-7 -o answers.sqlite

Takes every good answer of a damaged store, by its checksum, with its question where that can be read, into
another store; the damaged file stays. It need not open: each of its pages is read by itself. The exit code
is 3 where answers did not come back: those of which a trace is left are counted. They are asked again.
"""

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def add(commands: Commands) -> None:
    parser = add_command(
        commands,
        "store",
        run_info,
        "store info|show|merge|prune|salvage ...",
        "look at stored answers, join them",
        TEXT,
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    add_command(actions, "info", run_info, "store info [--store FILE]", "what is in it", INFO)
    show = add_command(actions, "show", run_show, "store show [options]", "answers and questions as rows", SHOW)
    merge = add_command(actions, "merge", run_merge, "store merge PARTS... [options]", "join stores", MERGE)
    prune = add_command(actions, "prune", run_prune, "store prune --max-size SIZE", "drop the oldest answers", PRUNE)

    show.add_argument("--engine", default="", metavar="PART", help="only answers whose signature contains this")
    show.add_argument(
        "--kind",
        choices=(*KINDS, VERDICTS),
        help="only answers about labels, texts, texts that were read (tokens), or verdicts on whole texts",
    )
    show.add_argument("--limit", type=whole(1), metavar="N", help="at most so many rows (default: all)")
    show.add_argument(
        "-o",
        "--output",
        type=rows_file,
        default="-",
        metavar="FILE",
        help=".jsonl, .csv or .parquet (default: JSONL on stdout)",
    )
    merge.add_argument("parts", nargs="+", metavar="PARTS", help="stores to take answers from")
    prune.add_argument(
        "--max-size",
        type=_size,
        required=True,
        metavar="SIZE",
        help="of the file: 500MB, 2GB, or a number of bytes; at least 1MB",
    )
    usage = "store salvage DAMAGED -o NEW"
    salvage = add_command(actions, "salvage", run_salvage, usage, "the good answers of a damaged store", SALVAGE)
    salvage.add_argument("damaged", metavar="DAMAGED", help="the file; with its -wal beside it, if there is one")
    salvage.add_argument(
        "-o", "--store", dest="file", required=True, metavar="NEW", help="the store; made where there is none"
    )
    for name, action in actions.choices.items():
        if name != "salvage":  # these answers do not go where ours are unless that is said
            action.add_argument(
                "--store", dest="file", metavar="FILE", help=f"the store (default: {home(default_store_path())})"
            )
        add_messages(action)
    moved = actions.add_parser("import", add_help=False, prefix_chars="\0")
    moved.add_argument("rest", nargs="*")
    moved.set_defaults(run=run_import, debug=False)


def run_info(args: argparse.Namespace) -> int:
    path = _path(args)
    with Store(path, create=False) as store:
        batches, size = store.batches(), store.size_bytes
    n_answers = sum(batch.n_answers for batch in batches)
    print(f"{path}: {_bytes(size)}, format {FORMAT}, {counted(n_answers, 'answer')}")
    groups: dict[tuple[str, str], list[Batch]] = {}
    for batch in batches:
        groups.setdefault((batch.kind, batch.engine), []).append(batch)
    rows = [
        (
            kind,
            sum(batch.n_answers for batch in group),
            sum(batch.n_answers for batch in group if batch.has_questions),
            _time(min(batch.created_at for batch in group))[:10],
            _time(max(batch.created_at for batch in group))[:10],
            engine,
        )
        for (kind, engine), group in groups.items()
    ]
    if rows:
        print()
        print(table(rows, ("kind", "answers", "with question", "first", "last", "engine"), width=10**6))
    return OK


def run_show(args: argparse.Namespace) -> int:
    with Store(_path(args), create=False) as store:
        n_written = write_rows(islice(_rows(args, store), args.limit), args.output)
    if not n_written:
        warn("no answer in the store is like that")
    return OK


def run_merge(args: argparse.Namespace) -> int:
    missing = [part for part in args.parts if not Path(part).is_file()]
    if missing:
        raise StoreError(
            f"cannot merge {', '.join(missing)}: there is no such file. Nothing was merged; check the path"
        )
    path = _path(args)
    with Store(path) as store:
        for part in args.parts:
            n_new = store.merge(part)
            note(args, f"{part}: {counted(n_new, 'new answer')}")
        note(args, f"{path}: {counted(len(store), 'answer')}")
    return OK


def run_prune(args: argparse.Namespace) -> int:
    path = _path(args)
    with Store(path, create=False) as store:
        before = store.size_bytes
        n_dropped = store.prune(args.max_size)
        left, size = len(store), store.size_bytes
    note(args, f"{counted(n_dropped, 'answer')} dropped, {left} left; {_bytes(before)} before, {_bytes(size)} now")
    if size > args.max_size:
        warn(f"the newest batch, which stays, is larger than {_bytes(args.max_size)}")
        return ERROR
    return OK


def run_salvage(args: argparse.Namespace) -> int:
    path = _path(args)
    if not Path(args.damaged).is_file():
        raise StoreError(f"cannot salvage {args.damaged}: there is no such file. Nothing was made; check the path")
    with Store(path) as store:
        found = store.salvage(args.damaged)
    note(args, f"{path}: {counted(found.n_answers, 'answer')} came back, {found.n_new} of them new in it")
    if found.n_questions_lost:
        warn(f"{counted(found.n_questions_lost, 'answer')} came back without the question, which cannot be read")
    if found.n_lost:
        warn(f"{counted(found.n_lost, 'answer')} did not come back, or more where a page is gone; they are asked again")
        return INCOMPLETE
    note(args, "no trace of another answer is left in it")
    return OK


def run_import(args: argparse.Namespace) -> int:
    raise UsageError(
        "answers of published judges are imported by papers/, which lies beside synthscore in its repository. In a "
        "checkout, say: python -m papers import ROWS --benchmark NAME --data FOLDER -o FILE"
    )


def _rows(args: argparse.Namespace, store: Store) -> Iterator[dict[str, Any]]:
    for batch in store.batches():
        if args.engine in batch.engine and args.kind in (None, batch.kind):
            for answer in store.read(batch):
                yield _row(answer, batch)


def _row(answer: Stored, batch: Batch) -> dict[str, Any]:
    question: dict[str, Any] | None = None
    if answer.question is not None:
        prompt, sampling = answer.question.prompt, answer.question.sampling
        question = {"text": prompt.text, "prefill": prompt.prefill}
        if answer.question.continuation is not None:
            question["continuation"] = answer.question.continuation
        elif sampling is None:
            question["labels"] = list(answer.question.labels)
        else:
            question |= {name: getattr(sampling, name) for name in ("max_new_tokens", "temperature", "top_p")}
            question["seed"] = answer.question.seed
            if sampling.stop:
                question["stop"] = list(sampling.stop)
    return {
        "key": answer.key.hex(),
        "kind": answer.kind,
        "engine": answer.engine,
        "created_at": _time(batch.created_at),
        "question": question,
        "answer": _spelled(answer.value),
    }


def _spelled(value: Any) -> Any:
    """The value, with -inf, which JSON does not have, as a text: a label may be impossible."""
    if isinstance(value, float) and math.isinf(value):
        return str(value)
    if isinstance(value, list):
        return [_spelled(item) for item in value]
    return {name: _spelled(item) for name, item in value.items()} if isinstance(value, dict) else value


def _path(args: argparse.Namespace) -> Path:
    return Path(args.file).expanduser() if args.file else default_store_path()


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _size(text: str) -> int:
    """Bytes from 500MB, 2 GB, 1.5GB or 1000000."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?B|)", text.strip().upper())
    size = int(float(found[1]) * UNITS[found[2]]) if found else 0
    if size < MIN_BYTES:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size of at least 1MB, such as 500MB or 2GB")
    return size


def _bytes(size: int) -> str:
    for unit in ("GB", "MB", "kB"):
        factor = UNITS[unit.upper()]
        if size >= factor:
            return f"{size / factor:.3g} {unit}"
    return f"{size} bytes"
