"""SNLI -> groups: a premise, and hypotheses that follow from it, may be true and cannot be.

SNLI (Bowman et al. 2015, arXiv 1508.05326; CC BY-SA 4.0): people read a caption, the premise, and wrote a true, a
possible and a false sentence. The words of a hypothesis alone (sleeping, nobody, outdoors) give away two labels of
three (Gururangan et al. 2018, arXiv 1803.02324). So a hypothesis is kept with a probability inverse to that of its
label by its words: what is left must be read beside its premise.
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
PREMISES = (1, 1, 1, 2, 3)  # of a group; what is false beside one seldom follows from another
AMID = 0.4  # of them stand between paragraphs of a document
RARE = 0.2  # a hypothesis whose words give its label this probability, or less, is always kept
TEMPERATURES = (1.0, 1.4, 2.0, 2.8, 4.0, 5.6)  # naive Bayes is surer than it is right


@dataclass(frozen=True, slots=True)
class Premise:
    """hypotheses : each with its label, an index of LABELS"""

    text: str
    hypotheses: dict[str, int]


def of_snli(file: Path, rng: Generator) -> list[Premise]:
    """Premises with hypotheses of two labels or more, drawn so that their words alone give no label away."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows = [row for row in rows if row["gold_label"] in SEVERITY]  # "-": those who labelled it did not agree
    labels = np.array([LABELS.index(row["gold_label"]) for row in rows])
    given = hypothesis_only([row["sentence2"] for row in rows], labels)
    kept = np.flatnonzero(rng.random(len(rows)) * given < RARE)
    found = []
    for premise, same in groupby(kept, lambda i: rows[i]["sentence1"].strip()):
        hypotheses = {rows[i]["sentence2"].strip(): int(labels[i]) for i in same}
        if len(set(hypotheses.values())) > 1:
            found.append(Premise(premise, hypotheses))
    return found


def hypothesis_only(hypotheses: Sequence[str], labels: NDArray[np.int64]) -> NDArray[np.float64]:
    """Of each hypothesis the probability of its own label by its words and pairs of words: naive Bayes, fitted on the
    other half of the hypotheses (in pieces of a hundred, so that those of a premise stand together)."""
    words = [_counted(hypothesis) for hypothesis in hypotheses]
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
    log_given = [log_softmax(fits / t, axis=1)[np.arange(len(words)), labels] for t in TEMPERATURES]
    return np.exp(max(log_given, key=np.mean))


def _counted(hypothesis: str) -> set[str]:
    words = re.findall(r"\w+", hypothesis.lower())
    return {*words, *(" ".join(pair) for pair in pairwise(words))}


def of_premises(every: Sequence[Premise], documents: Iterator[Mapping[str, str]], rng: Generator) -> Iterator[Group]:
    """An endless stream of groups; some are of several premises, some amid a document."""
    while True:
        drawn = rng.choice(len(every), size=PREMISES[int(rng.integers(len(PREMISES)))], replace=False)
        premises = [every[int(i)] for i in drawn]
        texts = {text: label for premise in premises for text, label in premise.hypotheses.items()}
        if len(texts) < sum(len(premise.hypotheses) for premise in premises):
            continue  # one hypothesis of two premises, perhaps with two labels
        kinds = tuple(LABELS[label] for label in texts.values())
        context = " ".join(premise.text for premise in premises)
        if rng.random() < AMID:
            context = amid(context, next(documents)["text"], rng)
        yield Group(
            "summarization", "consistency", context, "", tuple(texts), tuple(SEVERITY[kind] for kind in kinds), kinds
        )
