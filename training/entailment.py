"""SNLI -> groups of statements about what was seen: those that follow, those that may be and those that cannot be.

SNLI (Bowman et al. 2015, arXiv 1508.05326; CC BY-SA 4.0): a caption, and sentences that people wrote who had read it
and were asked for a true, a possible and a false one. In two of three cases the words alone of what they wrote
(sleeping, nobody, outdoors) give its label away (Gururangan et al. 2018, arXiv 1803.02324). So a sentence is kept with
a probability inverse to what its words give away: the rest must be read beside its caption.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import log_softmax

from .groups import Group
from .relations import amid

SEVERITY = {"entailment": 0.0, "neutral": 0.6, "contradiction": 0.9}
LABELS = tuple(SEVERITY)
CAPTIONS = (1, 1, 1, 2, 3)  # of a group
AMID = 0.4  # of them stand between paragraphs of a document
RARE = 0.2  # a sentence whose words give its label this probability, or less, is always kept
TEMPERATURES = (1.0, 0.7, 0.5, 0.35, 0.25, 0.18)  # naive Bayes is surer than it is right


@dataclass(frozen=True, slots=True)
class Seen:
    """A caption, and sentences about it with their labels (indices of LABELS)."""

    caption: str
    said: dict[str, int]


def of_snli(file: Path, rng: Generator) -> list[Seen]:
    """Captions with sentences of two labels or more, without those that their words alone give away."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["gold_label"] in SEVERITY]  # "-": those who labelled it did not agree
    labels = np.array([LABELS.index(row["gold_label"]) for row in rows])
    given = given_away([row["sentence2"] for row in rows], labels)
    kept = np.flatnonzero(rng.random(len(rows)) * given < RARE)
    found = []
    for caption, same in groupby(kept, lambda i: rows[i]["sentence1"].strip()):
        said = {rows[i]["sentence2"].strip(): int(labels[i]) for i in same}
        if len(set(said.values())) > 1:
            found.append(Seen(caption, said))
    return found


def given_away(sentences: Sequence[str], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of each sentence the probability of its own label by its words and pairs of words: naive Bayes, of the other half
    of the sentences (in pieces of a hundred, so that the sentences of a caption stand together)."""
    words = [_counted(sentence) for sentence in sentences]
    half = np.arange(len(words)) // 100 % 2
    fits = np.zeros((len(words), len(LABELS)))
    for side in (0, 1):
        counts = [Counter[str]() for _ in LABELS]
        for i in np.flatnonzero(half != side):
            counts[labels[i]].update(words[i])
        log_counts = {word: np.log([1 + one[word] for one in counts]) for word in set().union(*counts)}
        log_totals = np.log([1 + len(log_counts) + one.total() for one in counts])
        for i in np.flatnonzero(half == side):
            fits[i] += sum(log_counts[word] - log_totals for word in words[i] if word in log_counts)
    log_given = [log_softmax(t * fits, axis=1)[np.arange(len(words)), labels] for t in TEMPERATURES]
    return np.exp(max(log_given, key=np.mean))


def _counted(sentence: str) -> set[str]:
    words = re.findall(r"\w+", sentence.lower())
    return {*words, *(" ".join(pair) for pair in pairwise(words))}


def of_captions(every: Sequence[Seen], documents: Iterator[Mapping[str, str]], rng: Generator) -> Iterator[Group]:
    """An endless stream of groups; some are of several captions, some amid a document."""
    while True:
        n = CAPTIONS[int(rng.integers(len(CAPTIONS)))]
        scenes = [every[int(i)] for i in rng.choice(len(every), size=n, replace=False)]
        texts = {said: label for scene in scenes for said, label in scene.said.items()}
        kinds = tuple(LABELS[label] for label in texts.values())
        context = " ".join(scene.caption for scene in scenes)
        if rng.random() < AMID:
            context = amid(context, next(documents)["text"], rng)
        yield Group(
            "summarization", "consistency", context, "", tuple(texts), tuple(SEVERITY[kind] for kind in kinds), kinds
        )
