"""Damage as machines do it: pieces of two sentences in one, sentences from here and there, word chains, weak replies.

synthscore.degrade.damage damages texts as careless people would; these edits are for training alone. Knows nothing of
groups.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from numpy.random import Generator

from synthscore.degrade.damage import DamagedText
from synthscore.degrade.edits import Material
from synthscore.degrade.reading import content_words, sentences


@dataclass(frozen=True, slots=True, eq=False)
class DamageSource:
    """What damage is taken from.

    weak_replies : that a weak language model wrote, in other conversations
    machines : share of the paths of damage that are machines', where there are any
    """

    material: Material
    weak_replies: Sequence[str] = ()
    machines: float = 0.0


Edit = Callable[[str, Generator, DamageSource], "str | None"]
"""A sentence -> the sentence in its place, or None where none can be made."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One kind. lowers : task -> attributes that it surely lowers; the damage of one sentence is SHARE of the text."""

    lowers: Mapping[str, frozenset[str]]
    edit: Edit


NEAR = 20  # weak replies of which the nearest is taken
SHARE = 1.2  # of the full severity, divided by the number of sentences: as for a foreign sentence
_JOINT = re.compile(
    r" (?=(?:and|but|which|who|that|when|after|before|because|while|was|were|is|are|had|has|said|says|will|in|to) )"
)


def fused(sentence: str, rng: Generator, source: DamageSource) -> str | None:
    """The beginning of the sentence, and the end of one of the source's, cut at the same word."""
    own = _halves(sentence)
    options = [
        f"{head} {tail}"
        for other in sentences(source.material.context)
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


def chained(sentence: str, rng: Generator, source: DamageSource) -> str | None:
    """As many words as the sentence has, each one that followed the word before somewhere in the material."""
    followers: dict[str, list[str]] = defaultdict(list)
    material = source.material
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


_WANTS_MORE = " the a an of in to with for by from at on his her its their and "
_PREPOSITIONS = " of in to with by from for at on "
_GOES_ON = _PREPOSITIONS + "was is were are and that which had has after when "


def spliced(sentence: str, rng: Generator, source: DamageSource) -> str | None:
    """The beginning of the sentence, up to a word that wants more, and the end of another one, which does not fit."""
    words = sentence.split()
    heads = [i for i in range(2, len(words) - 2) if f" {words[i]} " in _WANTS_MORE]
    others = [other.split() for other in sentences(source.material.context) if other != sentence]
    tails = [other[i:] for other in others for i in range(3, len(other) - 2) if f" {other[i]} " in _GOES_ON]
    if not heads or not tails:
        return None
    head = words[: heads[int(rng.integers(len(heads)))] + 1]
    tails = [tail for tail in tails if tail[0] != head[-1]]
    tails.sort(key=lambda tail: abs(len(head) + len(tail) - len(words)))
    return " ".join([*head, *tails[int(rng.integers(min(6, len(tails))))]]) if tails else None


def scattered(sentence: str, rng: Generator, source: DamageSource) -> str | None:
    """Another sentence of the context, three or more away."""
    parts = sentences(source.material.context)
    here = parts.index(sentence) if sentence in parts else -9
    far = [part for i, part in enumerate(parts) if abs(i - here) >= 3 and part != sentence and len(part.split()) >= 5]
    far.sort(key=lambda part: abs(len(part.split()) - len(sentence.split())))
    return far[int(rng.integers(min(4, len(far))))] if far else None


_CLAUSE_END = re.compile(r",? (?=(?:and|but|which|who|that|when|after|before|because|while|as|where|although) )|, |; ")


def chopped(sentence: str, rng: Generator, source: DamageSource) -> str | None:
    """Instead of one sentence, the first clauses of two others."""
    made = []
    for part in sentences(source.material.context):
        clause = _CLAUSE_END.split(part)[0].rstrip(".!?,;:")
        if part != sentence and 5 <= len(clause.split()) <= 14 and clause[:1].isupper():
            made.append(clause + ".")
    if len(made) < 3:
        return None
    chosen = rng.choice(len(made), 2, replace=False)
    return " ".join(made[int(i)] for i in chosen)


_APPOSITION = re.compile(r"^([^,]{5,60}), ([^,]{10,70}), ")
_VERBS = re.compile(r" (?:is|was|are|were|has|had|have|will|can|would|could|said|says|became|did|does|do)\b")


def fragment(sentence: str, rng: Generator, source: DamageSource) -> str | None:
    """A piece of the sentence that has no verb."""
    made = [f"{match[1]}, {match[2]}." for match in [_APPOSITION.match(sentence)] if match]
    words = sentence.split()
    tails = [" ".join(words[i:]) for i in range(3, len(words) - 4) if f" {words[i]} " in _PREPOSITIONS]
    made += [tail[:1].upper() + tail[1:] for tail in tails]
    made = [piece for piece in made if not _VERBS.search(f" {piece}") and len(piece.split()) >= 5]
    return made[int(rng.integers(len(made)))] if made else None


def weakly_said(sentence: str, rng: Generator, source: DamageSource) -> str | None:
    """A reply of a weak language model: any one, or, half of the time, of a few the one nearest to the context."""
    if not source.weak_replies:
        return None
    drawn = [source.weak_replies[int(i)] for i in rng.integers(len(source.weak_replies), size=NEAR)]
    if rng.random() < 0.5:
        return drawn[0]
    wanted = set(content_words(source.material.context))
    return max(drawn, key=lambda reply: len(wanted.intersection(content_words(reply))))


MACHINES: Mapping[str, Machine] = {
    "fused-sentences": Machine({"summarization": frozenset(("consistency",))}, fused),
    "word-chain": Machine(
        {
            "summarization": frozenset(("fluency", "relevance")),
            "story": frozenset(("coherence", "engagement")),
        },
        chained,
    ),
    "spliced-sentences": Machine(
        {
            "summarization": frozenset(("fluency",)),
            "story": frozenset(("coherence",)),
        },
        spliced,
    ),
    "scattered-sentences": Machine(
        {"summarization": frozenset(("coherence",)), "story": frozenset(("coherence",))}, scattered
    ),
    "chopped-sentences": Machine({"summarization": frozenset(("coherence",))}, chopped),
    "sentence-fragment": Machine({"summarization": frozenset(("fluency",))}, fragment),
    "weak-reply": Machine(
        {
            "dialogue": frozenset(
                ("coherence", "continuity", "engagingness", "naturalness", "overall", "understandability")
            )
        },
        weakly_said,
    ),
}


def machines_for(task: str, attribute: str, source: DamageSource) -> tuple[str, ...]:
    """The kinds that surely lower this attribute of this task, and that the source has something for."""
    return tuple(
        name
        for name, machine in MACHINES.items()
        if attribute in machine.lowers.get(task, ()) and (source.weak_replies or machine.edit is not weakly_said)
    )


def machine_path(text: str, kinds: Sequence[str], rng: Generator, source: DamageSource) -> Iterator[DamagedText]:
    """Ever worse versions of the text, a sentence each, in random order, until severity 1 or all are replaced."""
    parts = list(sentences(text))
    share = SHARE / max(2, len(parts))
    severity = 0.0
    for index in rng.permutation(len(parts)):
        if severity >= 1 - 1e-9:
            return
        for i in rng.permutation(len(kinds)):
            kind = kinds[int(i)]
            made = MACHINES[kind].edit(parts[index], rng, source)
            if made is not None:
                break
        else:
            continue
        parts[index] = made
        severity = min(1.0, severity + share)
        yield DamagedText(" ".join(parts), kind, severity)
