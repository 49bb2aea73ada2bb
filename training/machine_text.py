"""Damage as machines do it: halves of two sentences in one, and text of a chain of word pairs.

synthscore.degrade damages texts as careless people would; these edits are for training alone. Knows nothing of groups.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from numpy.random import Generator

from synthscore.degrade import Material, Step, sentences

Edit = Callable[[str, Generator, Material], "str | None"]
"""A sentence -> the sentence in its place, or None where none can be made."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One kind. lowers : task -> attributes that it surely lowers; the damage of one sentence is SHARE of the text."""

    lowers: Mapping[str, frozenset[str]]
    edit: Edit


SHARE = 1.2  # of the full severity, divided by the number of sentences: as for a foreign sentence
_JOINT = re.compile(r" (?=(?:and|but|which|who|that|when|after|before|because|while|was|were|is|are|had|has|in|to) )")


def fused(sentence: str, rng: Generator, material: Material) -> str | None:
    """The beginning of the sentence, and the end of one of the source's, cut at the same word."""
    own = _halves(sentence)
    options = [
        f"{head} {tail}"
        for other in sentences(material.context)
        if other != sentence and len(other.split()) < 45
        for head, joint, _ in own
        for _, same, tail in _halves(other)
        if joint == same and f"{head} {tail}" not in (sentence, other)
    ]
    return options[int(rng.integers(len(options)))] if options else None


def _halves(sentence: str) -> list[tuple[str, str, str]]:
    """(head, the word after it, tail from this word on) for each place to cut, both of four words or more."""
    made = []
    for match in _JOINT.finditer(sentence):
        head, tail = sentence[: match.start()], sentence[match.end() :]
        if len(head.split()) >= 4 and len(tail.split()) >= 4:
            made.append((head, tail.split()[0], tail))
    return made


def chained(sentence: str, rng: Generator, material: Material) -> str | None:
    """As many words as the sentence has, each one that followed the word before somewhere in the material."""
    followers: dict[str, list[str]] = defaultdict(list)
    sources = (material.context,) if rng.random() < 0.5 else (material.context, *material.foreign)
    for text in sources:
        words = text.split()
        for word, following in pairwise(words):
            followers[word].append(following)
    made = sentence.split()[:2]
    size = len(sentence.split())
    while len(made) < size + 8:
        following = followers.get(made[-1])
        if not following:
            word = list(followers)[int(rng.integers(len(followers)))] if followers else ""
        else:
            word = following[int(rng.integers(len(following)))]
        if not word:
            return None
        made.append(word)
        if len(made) >= size and word[-1] in ".!?":
            break
    text = " ".join(made)
    return None if text == sentence else text if text[-1] in ".!?" else text + "."


_ALL = frozenset(("coherence", "consistency", "fluency", "relevance"))
MACHINES: Mapping[str, Machine] = {
    "fused-sentences": Machine({"summarization": frozenset(("consistency",))}, fused),
    "word-chain": Machine(
        {
            "summarization": _ALL,
            "dialogue": frozenset(("naturalness", "understandability", "overall")),
            "story": frozenset(("coherence", "engagement")),
        },
        chained,
    ),
}


def machines_for(task: str, attribute: str) -> tuple[str, ...]:
    """The kinds that surely lower this attribute of this task."""
    return tuple(name for name, machine in MACHINES.items() if attribute in machine.lowers.get(task, ()))


def machine_path(text: str, kinds: Sequence[str], rng: Generator, material: Material) -> Iterator[Step]:
    """Ever worse versions of the text, a sentence each, in random order, until severity 1 or all are replaced."""
    parts = list(sentences(text))
    share = SHARE / max(2, len(parts))
    severity = 0.0
    for index in rng.permutation(len(parts)):
        if severity >= 1 - 1e-9:
            return
        kind = kinds[int(rng.integers(len(kinds)))]
        made = MACHINES[kind].edit(parts[index], rng, material)
        if made is None:
            continue
        parts[index] = made
        severity = min(1.0, severity + share)
        yield Step(" ".join(parts), kind, severity)
