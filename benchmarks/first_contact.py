"""What becomes of files as people have them: each is written, read as texts to judge, and given a verdict.

    python -m benchmarks.first_contact

Three texts in every file, unless its kind says otherwise. A verdict follows from what came of it, not from its words:

    good   all of its texts are read as they are, or each that is not is an error that names its row and says what to do
    poor   an error without its row, or that says nothing to do
    bad    another exception; a text that is lost without a word; a text that is none of the file's

The last line is JSON, by kind. No model is asked.
"""

from __future__ import annotations

import collections
import datetime
import gzip
import io
import itertools
import json
import math
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from synthscore.errors import InputError
from synthscore.io.assumed import ASSUMED, Assumed
from synthscore.io.files import list_items
from synthscore.io.write import write_rows

TEXTS = (
    "A burst hose stopped the ferry.",
    'It said "no", then left; all | of it,\tnow.',
    "Größe: 3,5 µm, naïve.\nTwo lines.",
)


REMEDY = re.compile(r"\. [A-Z][a-z]+ |: (pass|give|unpack|make|save) ")
"""An error that says what to do: a further sentence, or what stands behind its colon."""


class Case(NamedTuple):
    """n : texts that the file holds. readable : whether they are to be read; else refused as a whole or row by row"""

    kind: str
    what: str
    name: str
    data: bytes
    n: int = 3
    readable: bool = True
    assumed: Assumed = Assumed()


def rows(**more: Any) -> list[dict[str, Any]]:
    return [{"id": f"t{n}", "context_id": "c", "text": text, **more} for n, text in enumerate(TEXTS)]


def separated(table: list[dict[str, Any]], separator: str, end: str = "\n", quoted: bool = True) -> str:
    def cell(value: object) -> str:
        text = str(value)
        return '"' + text.replace('"', '""') + '"' if quoted or set(text) & {separator, '"', "\n"} else text

    lines = [separator.join(table[0]), *(separator.join(map(cell, row.values())) for row in table)]
    return "".join(line + end for line in lines)


def lines_of(table: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in table)


def separators() -> Iterator[Case]:
    for separator, end, mark, quoted in itertools.product(",;\t|", ("\n", "\r\n"), ("", "\ufeff"), (True, False)):
        text = mark + separated(rows(), separator, end, quoted)
        what = f"{separator!r}, {end!r}, {'with' if mark else 'without'} a mark, {'all' if quoted else 'needed'} quotes"
        yield Case("separators", what, "rows.csv", text.encode())
    for separator in ",;\t|":
        yield Case(
            "separators", f"sep={separator!r}", "rows.csv", f"sep={separator}\n{separated(rows(), separator)}".encode()
        )
        yield Case("separators", f"{separator!r} named .tsv", "rows.tsv", separated(rows(), separator).encode())
        zipped = gzip.compress(separated(rows(), separator).encode())
        yield Case("separators", f"{separator!r} in .gz", "rows.csv.gz", zipped)
    yield Case("separators", "'^', named", "rows.csv", separated(rows(), "^").encode(), assumed=Assumed("^"))


def quotes() -> Iterator[Case]:
    good = separated(rows(), ",").splitlines(keepends=True)
    broken = [
        'x,c,"Oops\n',
        'x,c,"Oops" and on\n',
        'x,c,"\n',
        'x,"c,Oops\n',
        '"x,c,Oops\n',
        'x,c,"a "b" c"\n',
        "x,c,a,b\n",
        "x\n",
    ]
    for line, place in itertools.product(broken, (1, 2, 3, len(good))):
        text = "".join([*good[:place], line, *good[place:]]) + "".join(f"u{n},c,more {n}\n" for n in range(20))
        at = "end" if place == len(good) else f"line {place + 1}"
        yield Case("quotes", f"{line!r} at {at}", "rows.csv", text.encode(), n=24)


def encodings() -> Iterator[Case]:
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "cp1252", "latin-1", "utf-32"):
        for name, text in (
            ("rows.csv", separated(rows(), ",")),
            ("rows.jsonl", json.dumps(rows()[2], ensure_ascii=False) + "\n"),
        ):
            yield Case(
                "encodings",
                f"{encoding}, {name}",
                name,
                text.encode(encoding),
                n=3 if name == "rows.csv" else 1,
                readable=encoding.startswith("utf-8"),
            )
    text = separated([{"id": n, "context_id": "c", "text": f"Text {n}."} for n in range(3)], ",", "\r", quoted=False)
    yield Case("encodings", "lines end in CR alone", "rows.csv", text.encode(), readable=False)


def containers() -> Iterator[Case]:
    parquet = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows()), parquet)
    data = {
        "zip": b"PK\x03\x04" + b"\0" * 40,
        "gzip": gzip.compress(lines_of(rows()).encode()),
        "parquet": parquet.getvalue(),
        "cut parquet": parquet.getvalue()[:-9],
        "cut gzip": gzip.compress(lines_of(rows()).encode())[:-9],
        "nothing": b"",
        "zeros": b"\0" * 64,
        "html": b"<html><body>404 not found</body></html>\n",
    }
    names = (
        "rows.csv",
        "rows.jsonl",
        "rows.json",
        "rows.tsv",
        "rows.parquet",
        "rows.xlsx",
        "rows.jsonl.gz",
        "rows.txt",
        "part.aa",
    )
    for (what, content), name in itertools.product(data.items(), names):
        is_right = (what, name) in {("parquet", "rows.parquet"), ("gzip", "rows.jsonl.gz")}
        yield Case("containers", f"{what} as {name}", name, content, n=3 if is_right else 0, readable=is_right)
    for format, text in (("csv", separated(rows(), ";")), ("jsonl", lines_of(rows())), ("json", json.dumps(rows()))):
        yield Case("containers", f"part.aa as {format}", "part.aa", text.encode(), assumed=Assumed(format=format))


def values() -> Iterator[Case]:
    for what, value in {
        "1": 1, "1.0": 1.0, "1.5": 1.5, "true": True, "null": None, "NaN": math.nan, "list": ["c"], "object": {"a": 1},
        "blank": " ", "large": 2**70, "large float": 1e300, "text": "c",
    }.items():  # fmt: skip
        good = what in ("1", "1.0", "large", "text")
        yield Case("ids", what, "rows.jsonl", lines_of(rows(context_id=value)).encode(), readable=good)
    for what, value in {
        "number": 1, "float": 1.5, "true": True, "null": None, "list": ["a"], "object": {"a": "b"}, "blank": "",
        "spaces": " \n\u00a0", "half a pair": "\ud800",
    }.items():  # fmt: skip
        yield Case("texts", what, "rows.jsonl", lines_of(rows(text=value)).encode(), readable=False)


def chats() -> Iterator[Case]:
    forms = (("role", "content", "user", "assistant"), ("from", "value", "human", "gpt"))
    for (who, what, asker, answerer), column, name in itertools.product(
        forms, ("messages", "conversations"), ("rows.jsonl", "rows.csv", "rows.parquet")
    ):
        for n_before in (0, 1, 3):
            before = [{who: asker if n % 2 == 0 else answerer, what: f"Turn {n}."} for n in range(n_before)]
            table = [{"id": f"t{n}", column: [*before, {who: answerer, what: text}]} for n, text in enumerate(TEXTS)]
            if name == "rows.csv":
                data = separated([{**row, column: json.dumps(row[column])} for row in table], ",").encode()
            elif name == "rows.jsonl":
                data = lines_of(table).encode()
            else:
                file = io.BytesIO()
                pq.write_table(pa.Table.from_pylist(table), file)
                data = file.getvalue()
            yield Case("chats", f"{column}, {who}/{what}, {n_before} before, {name}", name, data, readable=n_before > 0)


def types() -> Iterator[Case]:
    made = {
        "decimal": Decimal("1.50"), "long decimal": Decimal("12345678901234567890.12345"),
        "duration": datetime.timedelta(minutes=3), "date": datetime.date(2026, 1, 2),
        "time": datetime.time(3, 4), "instant": datetime.datetime(2026, 1, 2, 3, 4),
        "bytes": b"\x00\xff", "list": [1, 2], "object": {"a": 1}, "true": True,
    }  # fmt: skip
    for what, value in made.items():
        file = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows(more=value)), file)
        yield Case("types", what, "rows.parquet", file.getvalue())


KINDS = (separators, quotes, encodings, containers, values, chats, types)


def verdict(case: Case, folder: Path) -> tuple[str, str]:
    """good, poor or bad; and why"""
    path = folder / case.name
    path.write_bytes(case.data)
    ASSUMED.set(case.assumed)
    try:
        items = list_items(str(path))
        if case.kind == "types":  # and written again
            for name in ("out.jsonl", "out.csv", "out.parquet"):
                write_rows([item.row.values for item in items if not isinstance(item.row, InputError)], folder / name)
    except InputError as error:
        if case.readable and case.what != "bytes":
            return "bad", f"refused: {error}"
        return ("good", "") if REMEDY.search(str(error)) else ("poor", str(error))
    except Exception as error:  # what this is about
        return "bad", f"{type(error).__name__}: {error}"
    finally:
        ASSUMED.set(Assumed())
        path.unlink()
    texts = [item.target.text for item in items if not isinstance(item.target, InputError)]
    errors = [item.target for item in items if isinstance(item.target, InputError)]
    if poor := next((error for error in errors if error.row is None or not REMEDY.search(str(error))), None):
        return "poor", str(poor)
    if case.readable and case.kind != "quotes":
        return ("good", "") if texts == list(TEXTS)[-case.n :] else ("bad", f"read as {texts}, {errors}")
    if case.kind == "quotes":
        expected = [*TEXTS, *(f"more {n}" for n in range(20))]
        if texts != expected or len(errors) != case.n - len(expected):
            return "bad", f"{len(texts)} texts and {len(errors)} errors of {case.n} rows; {errors}"
        return "good", ""
    return ("bad", f"read as {texts}") if texts else ("good", "")


def main() -> Mapping[str, Mapping[str, int]]:
    counts: dict[str, collections.Counter[str]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in itertools.chain.from_iterable(kind() for kind in KINDS):
            found, why = verdict(case, Path(folder))
            counts.setdefault(case.kind, collections.Counter())[found] += 1
            if found != "good":
                print(f"{found}: {case.kind}, {case.what}: {why[:300]}")
    total: collections.Counter[str] = sum(counts.values(), collections.Counter())
    print(f"\n{'kind':<12}{'tried':>7}{'good':>7}{'poor':>7}{'bad':>7}")
    for kind, by in [*counts.items(), ("sum", total)]:
        print(f"{kind:<12}{by.total():>7}{by['good']:>7}{by['poor']:>7}{by['bad']:>7}")
    result = {kind: {name: by[name] for name in ("good", "poor", "bad")} for kind, by in counts.items()}
    print(json.dumps(result))
    return result


if __name__ == "__main__":
    sys.exit(any(by["bad"] for by in main().values()))
