"""A folder with the files of a benchmark -> Ratings, checked against what its release holds. Nothing is downloaded.

A file is of our own form, NAME.jsonl or NAME.jsonl.gz (docs/benchmarks.md), or as its authors released it
(official.py). It lies in the folder, or in a folder NAME there. What releases hold is in benchmarks.toml.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from synthscore.errors import BenchmarkError, InputError
from synthscore.evaluation.ratings import RatedRows, Ratings
from synthscore.io.fields import Row
from synthscore.io.files import read_rows
from synthscore.signature import file_hash

from .official import FORMS, Form, OurRow, facts

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, slots=True)
class Benchmark:
    """What a benchmark is, and what its release holds.

    scales : attribute -> (lowest, highest) rating, or None where there are no bounds
    asked_as : attribute -> the task's attribute of the same meaning, where their names differ
    size : contexts and texts of the full release; None: not known, and not checked
    not_read : what people said of these texts, too
    home, how, licence : where it is from, how to get it, what its source states; as of the writing of the table
    """

    name: str
    title: str
    task: str
    scales: Mapping[str, tuple[float, float] | None]
    home: str
    how: str
    licence: str
    asked_as: Mapping[str, str] = field(default_factory=dict)
    size: tuple[int, int] | None = None
    not_read: tuple[str, ...] = ()

    def load(self, folder: str | Path) -> Ratings:
        """The ratings, of files in this folder.

        Ids of texts are "context_id/system"; people's ratings are means that are never rounded. What the release holds
        and this file does not is in Ratings.left_out: a file may hold a part of the texts.
        raises : BenchmarkError for a file that is missing, in another layout, with more texts than the release, with a
            text twice, or with a rating that is missing or outside its scale
        """
        file, read = _find(self, Path(folder))
        try:
            rows = (Row(number, row, str(file)) for number, row in enumerate(read(file), 1))
            found = RatedRows.read(rows, None)
        except InputError as error:
            raise _error(self, file, str(error)) from error
        except (AttributeError, KeyError, TypeError) as error:
            raise _error(self, file, f"it is not in the layout that its name says ({error!r})") from error
        left_out = _check(self, file, found)
        return Ratings(
            name=self.name,
            texts=tuple(found.texts),
            attributes=tuple(self.scales),
            contexts=found.contexts,
            task=self.task,
            asked_as=self.asked_as,
            source=f"{file.name}@{file_hash(file)}",
            left_out=left_out,
        )


def _benchmark(name: str, said: Mapping[str, Any]) -> Benchmark:
    scales = {attribute: tuple(map(float, ends)) or None for attribute, ends in said["scales"].items()}
    tuples = {key: tuple(said[key]) for key in ("size", "not_read") if key in said}
    return Benchmark(name=name, **{**said, "scales": scales, **tuples})


BENCHMARKS: Mapping[str, Benchmark] = {
    name: _benchmark(name, said)
    for name, said in tomllib.loads(Path(__file__).with_name("benchmarks.toml").read_text(encoding="utf-8")).items()
}
"""Name -> benchmark."""

RELEASED = SimpleNamespace(**BENCHMARKS)
"""The same as attributes, by which entry points name them."""


def _find(benchmark: Benchmark, folder: Path) -> tuple[Path, Callable[[Path], Iterator[OurRow]]]:
    """The file to read, and how. Files of our own form come first, then those of the releases in the table's order."""
    ours = [
        Form(f"{benchmark.name}{end}", partial(_our_rows, benchmark=benchmark.name)) for end in (".jsonl", ".jsonl.gz")
    ]
    forms = (*ours, *FORMS[benchmark.name])
    for form in forms:
        for place in (folder, folder / benchmark.name):
            for file in sorted(place.glob(form.file)):
                return file, form.read
    names = [form.file for form in forms]
    raise BenchmarkError(
        f"there is no {benchmark.name} in {folder}{'' if folder.is_dir() else ', which is no folder'}: looked for "
        f"{', '.join(names)}, there and in {folder / benchmark.name}. {benchmark.how}: {benchmark.home} (licence: "
        f"{benchmark.licence}). synthscore downloads nothing",
        benchmark=benchmark.name,
        folder=folder,
        files=names,
    )


def _our_rows(file: Path, benchmark: str) -> Iterator[OurRow]:
    for row in read_rows(file):
        if isinstance(row, InputError):
            raise row
        values = dict(row.values)
        if values.get("benchmark", benchmark) != benchmark:
            raise InputError(
                f"row {row.number} is of {values['benchmark']}. Give each benchmark a file of its own name"
            )
        raw = values.get("human_raw")
        if isinstance(raw, Mapping) and "expert" in raw:  # SummEval: the turkers' ratings are no part of its means
            values["human_raw"] = raw["expert"]
        yield values | {"facts": facts(values.get("facts") or "")}


def _check(benchmark: Benchmark, file: Path, found: RatedRows) -> tuple[str, ...]:
    """raises : BenchmarkError where it is not what the table says. returns : what is left out, for Ratings"""
    if found.errors:
        n = len(found.errors)
        raise _error(benchmark, file, f"{n} of {found.n_rows} rows cannot be used; the first says: {found.errors[0]}")
    for text in found.texts:
        for attribute, scale in benchmark.scales.items():
            for rating in (text.human.get(attribute), *text.annotators.get(attribute, ())):
                if scale and rating is not None and not scale[0] - 1e-6 <= rating <= scale[1] + 1e-6:
                    seen = f"{attribute} of {text.id} is {rating:g}"
                    raise _error(benchmark, file, seen, f"{scale[0]:g} to {scale[1]:g}")
    for attribute in benchmark.scales:
        unrated = [text.id for text in found.texts if attribute not in text.human]
        if unrated:
            named = ", ".join(unrated[:3])
            raise _error(benchmark, file, f"{len(unrated)} texts have no rating of {attribute}, such as {named}")
    if more := [name for name in found.attributes if name not in benchmark.scales]:
        raise _error(benchmark, file, f"it rates {', '.join(more)}, which {benchmark.name} does not")
    counts = Counter(text.context_id for text in found.texts)
    size = len(counts), len(found.texts)
    left_out = [*found.unrated, *benchmark.not_read]
    if benchmark.size and size != benchmark.size:
        if size[0] > benchmark.size[0] or size[1] > benchmark.size[1]:
            raise _error(benchmark, file, f"it holds {_sizes(size)}", _sizes(benchmark.size))
        sizes = zip(("contexts", "texts"), benchmark.size, size, strict=True)
        missing = ", ".join(f"{all_ - here} of {all_} {what}" for what, all_, here in sizes if all_ > here)
        left_out.append(f"{missing}: not in {file.name}{_short(benchmark.size, counts)}")
    if unknown := len(counts.keys() - found.contexts.keys()):
        left_out.append(f"{unknown} contexts, and their references: their texts are not in {file.name}")
    return tuple(left_out)


def _sizes(size: tuple[int, int]) -> str:
    return f"{size[1]} texts of {size[0]} contexts"


def _short(size: tuple[int, int], counts: Mapping[str, int]) -> str:
    """Which contexts do not have as many texts as each should; "" where contexts differ in that."""
    a_context, odd = divmod(size[1], size[0])
    short = [] if odd else [f"{name} ({n})" for name, n in counts.items() if n != a_context]
    more = ", ..." if len(short) > 5 else ""
    return f"; {len(short)} contexts do not have {a_context} texts: {', '.join(short[:5])}{more}" if short else ""


def _error(benchmark: Benchmark, file: Path, seen: str, expected: str = "") -> BenchmarkError:
    return BenchmarkError(
        f"cannot use {file} as {benchmark.name}: {seen}{f', expected {expected}' if expected else ''}. "
        f"{benchmark.how}: {benchmark.home}",
        benchmark=benchmark.name,
        file=file,
    )
