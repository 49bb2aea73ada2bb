"""Ladders and groups that were written for this, by a large language model -> groups.

Of the curated ladders (data/references/curated) the half `train` alone. The files in training/texts have lines {"task",
"attribute", "context", "texts": [{"text", "severity": 0 to 4, "flaw"}]}: in a good text (0) nothing is wrong, in the
others that attribute alone. Without "attribute" the texts are such as different systems write, many of them small
language models' own (small_models.py), each with "ratings" in all attributes, 1 to 5. Where "source" names a file and a
line, the context is that document of the corpora, or its first "n_characters".
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from synthscore.degrade.edits import EDITS, Material
from synthscore.degrade.reading import sentences
from synthscore.ladders.references import References
from synthscore.resources import resource

from .corpora import numbered
from .good_texts import leans
from .groups import Group
from .phrases import damaged_words

WRITTEN_FOR_THIS = "written"  # kind of their texts
WORST = 4  # of the severities of written groups
BEST = 5  # of the ratings, which end at 1
STATEMENTS = 0.25  # of them are read: four thousand pairs taught nothing that carried over (LOG.md, run 12)
COPIED = 0.4  # of them get a sentence of the context, which is true
FOREIGN = 0.4  # of the groups that ask whether a text fits its context get a good text of another context
ABOUT_CONTEXT = {
    ("summarization", "consistency"),
    ("summarization", "relevance"),
    ("data_to_text", "semantics"),
    ("story", "relevance"),
    ("product_descriptions", "accuracy"),
    ("support_replies", "resolution"),
}
ABOUT_FACTS = {("summarization", "consistency"), ("data_to_text", "semantics"), ("product_descriptions", "accuracy")}
INVENTED = 0.4  # of the groups that ask whether a text is true get a good one with another name or number
FALSE = 0.75  # severity of these, as of what is false by one fact elsewhere


def curated(split: str) -> Iterator[Group]:
    """The ladders of a split: the best rung without damage, the worst with all."""
    for path in sorted(resource("data/references/curated").glob(f"*/{split}.parquet")):
        for ladder in References.load(path):
            if ladder.context is not None:
                found = ((rung.text, 1 - rung.fraction) for rung in ladder.usable)
                yield _group(ladder.task, ladder.attribute, ladder.context.text, ladder.context.facts, found)


def written_rows() -> list[dict[str, Any]]:
    """Each with its file's name, as "file"."""
    files = sorted((Path(__file__).parent / "texts").glob("*.jsonl"))
    found = [(file.stem, line) for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [{**json.loads(line), "file": name} for name, line in found]


def written(corpora: Path) -> list[Group]:
    """All of training/texts and the half `train` of the curated ladders; some with a text of another context, or with
    what is said nowhere."""
    every = with_foreign([*curated("train"), *_of_rows(corpora)], np.random.default_rng(3))
    return with_invented(every, np.random.default_rng(4))


def _of_rows(corpora: Path) -> Iterator[Group]:
    found = written_rows()
    documents, rng = _documents(corpora, [row["source"] for row in found if "source" in row]), np.random.default_rng(2)
    for row in found:
        if "source" in row:
            text, facts = documents[row["source"]][: row["n_characters"]], row.get("facts", "")
        else:
            text, facts = row["context"]["context"], row["context"].get("facts", "")
        for attribute in [row["attribute"]] if "attribute" in row else row["texts"][0]["ratings"]:
            texts = ((one["text"], severity(one, attribute)) for one in row["texts"])
            group = _group(row["task"], attribute, text, facts, texts)
            if row["file"] != "statements":
                yield group
            elif rng.random() < STATEMENTS:
                group = replace(group, damaged=false_words(group))
                yield with_copied(group, rng) if rng.random() < COPIED else group


def false_words(group: Group) -> tuple[tuple[bool, ...] | None, ...]:
    """Of each statement, its words that are false: none of a true one; of a false one, those in which it differs from
    the one before, if that is true and says half as much in the same words."""
    found: list[tuple[bool, ...] | None] = []
    before = ""
    for text, is_false in zip(group.texts, np.array(group.severities) > 0, strict=True):
        marks = damaged_words(before, text) if is_false else (False,) * len(text.split())
        found.append(marks if sum(marks) <= len(marks) / 2 and not (is_false and not before) else None)
        before = "" if is_false else text
    return tuple(found)


def severity(one: Mapping[str, Any], attribute: str) -> float:
    """Of a text of a row, in [0, 1]."""
    if "ratings" in one:
        return float(BEST - one["ratings"][attribute]) / (BEST - 1)
    return float(one["severity"] / WORST)


def _documents(corpora: Path, sources: Iterable[str]) -> dict[str, str]:
    """The texts of these sources, as corpora.numbered says them."""
    wanted = set(sources)
    files = (corpora / f"{name}.jsonl.xz" for name in sorted({source.split(":")[0] for source in wanted}))
    lines = (each for file in files for each in numbered(file))
    return {source: json.loads(line)["text"] for source, line in lines if source in wanted}


def with_salad(group: Group, rng: Generator) -> Group:
    """The group with a text of words of the context, drawn one by one: nothing is as bad."""
    words, n = f"{group.context} {group.facts}".split(), int(np.median([len(text.split()) for text in group.texts]))
    if len(words) < n:
        return group
    salad = " ".join(words[int(i)] for i in rng.permutation(len(words))[:n])
    return with_text(group, salad, 1.0, "salad")


def with_copied(group: Group, rng: Generator) -> Group:
    """The group with a whole sentence of the context, where one stands by itself: nothing in it is false."""
    every = (one for paragraph in group.context.split("\n\n") for one in sentences(paragraph))
    found = [one for one in every if 10 <= len(one.split()) <= 35 and one[0].isupper()]
    found = [one for one in found if one not in group.texts and not leans(one)]
    if not found:
        return group
    copied = found[int(rng.integers(len(found)))]
    return with_text(group, copied, 0.0, "copied", (False,) * len(copied.split()))


def with_foreign(every: Sequence[Group], rng: Generator) -> list[Group]:
    """The groups, FOREIGN of those in ABOUT_CONTEXT with the best text of another one: nothing is worse there."""
    best = defaultdict(list)
    for group in every:
        best[group.task, group.attribute].append((group.context, group.texts[int(np.argmin(group.severities))]))
    found = []
    for group in every:
        others = best[group.task, group.attribute]
        context, text = others[int(rng.integers(len(others)))]
        wanted = (group.task, group.attribute) in ABOUT_CONTEXT and rng.random() < FOREIGN
        found.append(with_text(group, text, 1.0, "foreign") if wanted and context != group.context else group)
    return found


def with_invented(every: Sequence[Group], rng: Generator) -> list[Group]:
    """The groups, INVENTED of those in ABOUT_FACTS with a good text in which a name is another context's, a number is
    changed, or both."""
    found = []
    for group in every:
        other = every[int(rng.integers(len(every)))]
        if (group.task, group.attribute) in ABOUT_FACTS and rng.random() < INVENTED:
            material = Material(group.context, group.facts, foreign=(other.context,))
            text = good = group.texts[int(np.argmin(group.severities))]
            for kind in ("entity-other-document", "number-changed"):
                text = EDITS[kind](text, rng, material) or text
            group = with_text(group, text, FALSE, "invented", damaged_words(good, text))
        found.append(group)
    return found


def with_text(group: Group, text: str, severity: float, kind: str, damaged: tuple[bool, ...] | None = None) -> Group:
    """The group with one more text, if it is not there already."""
    if text in group.texts:
        return group
    return replace(
        group,
        texts=(*group.texts, text),
        severities=(*group.severities, severity),
        kinds=(*group.kinds, kind),
        damaged=(*(group.damaged or (None,) * len(group.texts)), damaged),
    )


def _group(task: str, attribute: str, context: str, facts: str, found: Iterable[tuple[str, float]]) -> Group:
    texts, severities = zip(*found, strict=True)
    return Group(task, attribute, context, facts, texts, severities, (WRITTEN_FOR_THIS,) * len(texts))
