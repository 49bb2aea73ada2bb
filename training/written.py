"""Ladders and groups that were written by hand -> groups, as training and the weights of counts take them.

Of the curated ladders (data/references/curated) the half `train` alone. Files of written groups have lines {"task",
"attribute", "context": {"context", "facts"} or "document", "texts": [{"text", "severity": 0 to 4}]}: in a good text
(0) nothing is wrong, in the others that attribute alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

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


def written(paths: Iterable[Path]) -> Iterator[Group]:
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                context = row.get("context") or {"context": row["document"]}
                found = ((text["text"], text["severity"] / WORST) for text in row["texts"])
                yield _group(row["task"], row["attribute"], context["context"], context.get("facts", ""), found)


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
