"""Ladders and groups that were written for this, by a large language model -> groups.

Of the curated ladders (data/references/curated) the half `train` alone. The files in training/texts have lines {"task",
"attribute", "context", "texts": [{"text", "severity": 0 to 4, "flaw"}]}: in a good text (0) nothing is wrong, in the
others that attribute alone. Summaries are of documents of the corpora: "source" names the file and the line,
"n_characters" how much of it was read.
"""

from __future__ import annotations

import json
import lzma
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from synthscore.ladders.references import References
from synthscore.resources import resource

from .groups import Group

WORST = 4  # of the severities of written groups


def curated(split: str) -> Iterator[Group]:
    """The ladders of a split: the best rung without damage, the worst with all."""
    for path in sorted(resource("data/references/curated").glob(f"*/{split}.parquet")):
        for ladder in References.load(path):
            if ladder.context is not None:
                found = ((rung.text, 1 - rung.fraction) for rung in ladder.usable)
                yield _group(ladder.task, ladder.attribute, ladder.context.text, ladder.context.facts, found)


def written_rows() -> list[dict[str, Any]]:
    files = sorted((Path(__file__).parent / "texts").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]


def written(corpora: Path) -> Iterator[Group]:
    found = written_rows()
    documents = _documents(corpora, [row["source"] for row in found if "source" in row])
    for row in found:
        if "source" in row:
            text = documents[row["source"]][: row["n_characters"]]
        else:
            text, facts = row["context"]["context"], row["context"].get("facts", "")
        texts = ((one["text"], one["severity"] / WORST) for one in row["texts"])
        yield _group(row["task"], row["attribute"], text, facts, texts)


def _documents(corpora: Path, sources: Iterable[str]) -> dict[str, str]:
    """The texts of "FILE:LINE" of the corpora, lines counted from 0."""
    wanted: dict[str, set[int]] = defaultdict(set)
    for name, number in (source.split(":") for source in sources):
        wanted[name].add(int(number))
    found = {}
    for name, numbers in wanted.items():
        with lzma.open(corpora / f"{name}.jsonl.xz", "rt", encoding="utf-8") as lines:
            for number, line in zip(range(max(numbers) + 1), lines, strict=False):
                if number in numbers:
                    found[f"{name}:{number}"] = json.loads(line)["text"]
    return found


def with_salad(group: Group, rng: Generator) -> Group:
    """The group with a text of words of the context, drawn one by one: nothing is as bad."""
    words, n = f"{group.context} {group.facts}".split(), int(np.median([len(text.split()) for text in group.texts]))
    if len(words) < n:
        return group
    salad = " ".join(words[int(i)] for i in rng.permutation(len(words))[:n])
    return replace(
        group,
        texts=(*group.texts, salad),
        severities=(*group.severities, 1.0),
        kinds=(*group.kinds, "salad"),
        damaged=(*group.damaged, None) if group.damaged else (),
    )


def _group(task: str, attribute: str, context: str, facts: str, found: Iterable[tuple[str, float]]) -> Group:
    texts, severities = zip(*found, strict=True)
    return Group(task, attribute, context, facts, texts, severities, ("written",) * len(texts))
