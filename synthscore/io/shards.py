"""A run shared out among machines: whose a row is, and what all wrote put together as one would have written it.

Each machine reads all rows, and works on those whose context a hash gives it. Beside each FILE that it writes stands
FILE.shard: which shard it is, of what input, made by what, and where in the input each row of FILE comes from.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import InputError
from ..signature import Signature, text_hash
from ..types import IntArray
from .fields import parse_json, shorten
from .write import TABLES, require_format, sorted_into, write_whole

_ROWS = 4096  # that are merged at once


@dataclass(frozen=True, slots=True)
class Shard:
    """One of the shards of a run: `2/7`. index : from 1 to count. raises : InputError"""

    index: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.index <= self.count:
            raise InputError(f"shard is {self}, expected 1/n to n/n. Count shards from 1", field="shard", value=self)

    @classmethod
    def parse(cls, text: str) -> Shard:
        index, _, count = text.partition("/")
        if not (index.isdecimal() and count.isdecimal()):
            raise InputError(f"shard is {text!r}, expected i/n, as in 2/7. Write it so", field="shard", value=text)
        return cls(int(index), int(count))

    def __str__(self) -> str:
        return f"{self.index}/{self.count}"

    def owns(self, context_id: str) -> bool:
        """Whether what belongs to a context is for this shard: so for every machine, verb and order of rows."""
        return _number(context_id) % self.count == self.index - 1


@lru_cache(1 << 16)  # rows of a context stand near each other, as a rule
def _number(context_id: str) -> int:
    return int(text_hash(context_id)[-16:], 16)


class Portion:
    """What a shard took of the input, and what it wrote of that.

    paths : files of JSON lines, or a folder, that will be written. n_rows : of the whole input, so far
    raises : InputError for a file whose rows do not stand in lines
    """

    def __init__(self, shard: Shard, *paths: str) -> None:
        self.shard, self.n_rows = shard, 0
        self._seen = hashlib.sha256()
        for path in paths:
            if path == "-" or path.lower().endswith((*TABLES, ".gz")):
                raise InputError(
                    f"a shard cannot be written to {path}, expected a file of its own, .jsonl. Write it so; synthscore "
                    "merge makes one file of all, also .csv or .jsonl.gz",
                    field="output",
                    value=path,
                )
            _beside(path).unlink(missing_ok=True)  # what is killed before its end must not look done

    def takes(self, context_id: str) -> bool:
        """Whether it is for this shard. Called for each row of the input once, in order."""
        self.n_rows += 1
        self._seen.update(f"{context_id}\0".encode())
        return self.shard.owns(context_id)

    def record(
        self, path: str, made_by: Signature, places: Iterable[int], signatures: Collection[Signature] = ()
    ) -> None:
        """Say of a file that it is done.

        made_by : whatever all shards must have in common. signatures : of its rows, where these have their own
        places : of each of its rows, of a folder each of its ladders: rising numbers that give the order of all shards'
        """
        about = {
            "shard": str(self.shard),
            "n_rows": self.n_rows,
            "input": self._seen.hexdigest(),
            "made_by": str(made_by),
            "signatures": sorted(map(str, signatures)),
            "places": list(places),
        }
        write_whole(_beside(path), json.dumps(about).encode())


class Part(NamedTuple):
    """A file or folder that a shard wrote, and what it said of it."""

    path: str
    shard: Shard
    n_rows: int
    input: str
    made_by: Signature
    signatures: Sequence[Signature]
    places: IntArray

    @classmethod
    def load(cls, path: str) -> Part:
        beside = _beside(path)
        again = "Run that shard again, with --shard i/n and the same output"
        if not beside.exists() or not Path(path).exists():
            missing = beside if Path(path).exists() else path
            raise InputError(f"{path} is no shard that is done: there is no {missing}. {again}", source=path)
        try:
            about = parse_json(beside.read_text(encoding="utf-8"))
            return cls(
                path, Shard.parse(about["shard"]), int(about["n_rows"]), str(about["input"]),
                Signature.parse(about["made_by"]), [Signature.parse(line) for line in about["signatures"]],
                np.array(about["places"], dtype=np.int64),
            )  # fmt: skip
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise InputError(f"cannot read {beside}: {error}. {again}", source=str(beside)) from error

    def require(self, n: int) -> None:
        """raises : InputError where what it holds by now is not so much"""
        if n != len(self.places):
            raise InputError(
                f"{self.path} holds {n}, expected the {len(self.places)} that its shard wrote. Run shard {self.shard} "
                "again, with an output of its own",
                source=self.path,
            )


def read_parts(paths: Sequence[str]) -> list[Part]:
    """The shards of one run, all of them, by index.

    raises : InputError for one that is missing, or there twice; of another input; made by something else
    """
    parts = sorted(map(Part.load, paths), key=lambda part: part.shard.index)
    first = parts[0] if parts else None
    there = [part.shard for part in parts]
    if first is None or there != [Shard(index + 1, first.shard.count) for index in range(first.shard.count)]:
        seen = ", ".join(map(str, there)) or "none"
        raise InputError(
            f"the shards are {seen}, expected 1/n to n/n, each once. Name the files of all shards of a run"
        )
    signed: dict[tuple[str | None, ...], tuple[Part, Signature]] = {}
    for part in parts:
        if (part.n_rows, part.input) != (first.n_rows, first.input):
            raise InputError(
                f"{part.path} is of other input than {first.path}: {part.n_rows} rows, expected {first.n_rows} of the "
                "same contexts. Run the shards of the old input again",
                source=part.path,
            )
        for one in (part.made_by, *part.signatures):
            named = {"of": "all"} if one is part.made_by else dict(one.parts)
            of = tuple(named.get(name) for name in ("of", "task", "attribute"))
            other, same = signed.setdefault(of, (part, one))
            if differ := one.differs(same):
                raise InputError(
                    f"{part.path} was not made as {other.path} was: {shorten(differ)}. Run one of them again as the "
                    "other was",
                    source=part.path,
                )
    return parts


def merge_rows(paths: Sequence[str], out: str) -> int:
    """Files that the shards of a run wrote -> the file that one machine would have written, to the byte. How many rows.

    raises : InputError as read_parts; for a Parquet file, whose bytes follow from how its rows came together
    """
    parts = read_parts(paths)
    if require_format(out).endswith(".parquet"):
        raise InputError(f"cannot merge into {out}, expected .jsonl, .jsonl.gz, .csv or .tsv. Name one", source=out)
    owners = np.repeat(np.arange(len(parts)), [len(part.places) for part in parts])
    owners = owners[np.argsort(np.concatenate([part.places for part in parts]), kind="stable")]
    with sorted_into({"rows": out}) as outputs, ExitStack() as opened:
        files = [opened.enter_context(open(part.path, "rb")) for part in parts]
        for part, file in zip(parts, files, strict=True):
            part.require(sum(1 for _ in file))
            file.seek(0)
        for start in range(0, len(owners), _ROWS):
            outputs.write("rows", b"".join(next(files[k]) for k in owners[start : start + _ROWS].tolist()))
    return len(owners)


def _beside(path: str) -> Path:
    return Path(path).with_name(f"{Path(path).name}.shard")
