"""Controlled damage: text + attribute + severity + rng -> a worse text. No files, no model, no clock.

A damage is a small function that makes ONE edit, or finds nothing to damage and returns None. `damage_path` chains
edits, each on top of the one before; `degrade` takes the first part of that chain. So with the same seed a higher
severity is the lower severity's text with more edits. `EDITS` are the opposite: edits that leave meaning and quality as
they are.

English only. All functions take raw text and also text in the look of benchmark systems ("it ca n't , he said .").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from numpy.random import Generator

from ..errors import DegradeError
from . import edits
from .edits import Edit, Material
from .neutral import EDITS
from .reading import (
    SURFACES,
    Name,
    centrality,
    content_words,
    names,
    opening_words,
    sentences,
    surface,
    to_ptb,
    word_pairs,
)

__all__ = [
    "ATTRIBUTES",
    "DAMAGES",
    "EDITS",
    "REVISION",
    "SURFACES",
    "Damage",
    "DegradeError",
    "Material",
    "Name",
    "Step",
    "centrality",
    "content_words",
    "damage_path",
    "damages_for",
    "degrade",
    "names",
    "neutral_for",
    "preserve",
    "preserve_path",
    "sentences",
    "surface",
    "to_ptb",
]


@dataclass(frozen=True, slots=True)
class Damage:
    """A kind of damage.

    lowers : task -> attributes that it surely lowers
    also : task -> attributes that it may lower as well: no verdict about these should be learnt from it
    share, unit : one edit is share / (number of units in the text) of the full severity, at most 1. Units are
        "text" (one), "sentence", "word", or "fact" (lines of the context)
    apply : ONE edit; None where it finds nothing to damage
    """

    name: str
    lowers: Mapping[str, frozenset[str]]
    also: Mapping[str, frozenset[str]]
    share: float
    unit: str
    apply: Edit

    def severity(self, text: str, material: Material) -> float:
        """How much of the full severity one edit of this kind is, in a text of this length."""
        n_units = {
            "text": 1,
            "sentence": max(2, len(sentences(text))),
            "word": len(text.split()),
            "fact": len([line for line in material.context.splitlines() if line.strip()]),
        }[self.unit]
        return min(1.0, self.share / max(1, n_units))


@dataclass(frozen=True, slots=True)
class Step:
    """A text on a path of growing damage: the last edit's kind, and the severity reached, in [0, 1]."""

    text: str
    kind: str
    severity: float


# Which damage this is; part of the key of every rung that it writes. Raise it (to any other 12 hex digits) when the
# same seed gives another text, and only then: moving, renaming or tidying code leaves every rung as it is. The tests
# hold it against the texts that come out.
REVISION = "2cd5176fbea6"

NOTHING = Material()


@cache
def damages_for(task: str, attribute: str) -> tuple[str, ...]:
    """The kinds of damage that surely lower this attribute of this task."""
    return tuple(name for name, damage in DAMAGES.items() if attribute in damage.lowers.get(task, ()))


@cache
def neutral_for(task: str, attribute: str) -> tuple[str, ...]:
    """The kinds of damage that lower some attribute of this task, and surely not this one."""
    return tuple(
        name
        for name, damage in DAMAGES.items()
        if damage.lowers.get(task) and attribute not in damage.lowers[task] | damage.also.get(task, frozenset())
    )


def damage_path(
    text: str,
    *,
    task: str,
    attribute: str,
    rng: Generator,
    material: Material = NOTHING,
    kinds: Sequence[str] | None = None,
    least: int = 1,
    longest: int | None = None,
) -> Iterator[Step]:
    """Ever worse versions of the text, until severity 1 and `least` edits, or until nothing more can be damaged.

    May be empty. No edit makes the text longer than `longest` words. An edit counts only if it takes the text further
    from the original (in adjacent word pairs), so that no edit undoes another one.
    """
    kinds = _known(task, attribute, kinds)
    original, current, distance, severity, n_edits = word_pairs(text), text, 0, 0.0, 0
    while severity < 1 - 1e-9 or n_edits < least:
        twice = [*rng.permutation(len(kinds)), *rng.permutation(len(kinds))]  # an edit may fail by bad luck
        for index in twice:
            damage = DAMAGES[kinds[index]]
            made = damage.apply(current, rng, material)
            if made is None or not made.strip():
                continue
            if longest is not None and len(made.split()) > max(longest, len(current.split())):
                continue
            made_distance = _distance(original, made)
            if made_distance > distance:
                current, distance, n_edits = made, made_distance, n_edits + 1
                severity = min(1.0, severity + damage.severity(text, material))
                yield Step(current, damage.name, severity)
                break
        else:
            return


def _known(task: str, attribute: str, kinds: Sequence[str] | None) -> tuple[str, ...]:
    kinds = damages_for(task, attribute) if kinds is None else tuple(kinds)
    unknown = [kind for kind in kinds if kind not in DAMAGES]
    if unknown or not kinds:
        raise DegradeError(
            f"cannot damage {attribute!r} of {task!r}: "
            + (f"unknown kinds {', '.join(unknown)}" if unknown else "no kind of damage is known for it")
            + f". Kinds: {', '.join(DAMAGES)}",
            task=task,
            attribute=attribute,
        )
    return kinds


GRADES = 8  # edits that a text is given at least, where it allows them: enough for a ladder of nine
LONGEST = 1.3  # times the words of the text, or SPARE more words: length must not give the damage away
SPARE = 15


def degrade(
    text: str,
    *,
    task: str,
    attribute: str,
    severity: float,
    rng: Generator,
    material: Material = NOTHING,
    kinds: Sequence[str] | None = None,
) -> str:
    """The text with this share of all the damage planned for it: 0 is the text itself, 1 is as bad as it gets.

    The plan has GRADES edits or more, small ones first; what replaces the whole text at once comes last, if at all.
    raises : DegradeError for a severity outside [0, 1], an unknown attribute or kind, or a text in which nothing can be
        damaged.
    """
    if not 0 <= severity <= 1:
        raise DegradeError(f"cannot degrade to severity {severity}: expected a number in [0, 1]", severity=severity)
    if severity == 0:
        return text
    plan = _plan(text, task, attribute, rng, material, _known(task, attribute, kinds))
    if not plan:
        raise DegradeError(
            f"cannot lower the {attribute} of the {task} text {opening_words(text)!r}: found nothing to damage with "
            f"{', '.join(kinds or damages_for(task, attribute))}. Give a longer text, or more material "
            "(context, facts, foreign)",
            task=task,
            attribute=attribute,
        )
    return plan[max(1, int(severity * len(plan) + 0.5)) - 1]


def _plan(
    text: str, task: str, attribute: str, rng: Generator, material: Material, kinds: Sequence[str]
) -> tuple[str, ...]:
    """The text after each planned edit."""
    whole = [kind for kind in kinds if DAMAGES[kind].unit == "text"]
    small = [kind for kind in kinds if kind not in whole]

    n_words = len(text.split())
    longest = int(max(LONGEST * n_words, n_words + SPARE))

    def path(start: str, some: Sequence[str], least: int) -> list[str]:
        if not some:
            return []
        steps = damage_path(
            start, task=task, attribute=attribute, rng=rng, material=material, kinds=some, least=least, longest=longest
        )
        return [step.text for step in steps]

    if not small:
        return tuple(path(text, kinds, GRADES))
    plan = path(text, small, GRADES)
    worst, original = plan[-1] if plan else text, word_pairs(text)
    last = (made for made in path(worst, whole, 1) if _distance(original, made) > _distance(original, worst))
    return (*plan, *islice(last, 1))


def _distance(original: Counter[tuple[str, str]], text: str) -> int:
    """Adjacent word pairs that only one of the two has."""
    pairs = word_pairs(text)
    return (pairs - original).total() + (original - pairs).total()


def preserve(text: str, rng: Generator, n: int = 2) -> str:
    """The text with up to n edits that keep its meaning and its quality. The text itself where none fits."""
    for step in preserve_path(text, rng, n):
        text = step.text
    return text


def preserve_path(text: str, rng: Generator, n: int = 2) -> Iterator[Step]:
    """Up to n edits of different kinds that keep meaning and quality, each on top of the one before; severity 0."""
    names = list(EDITS)
    for index in rng.permutation(len(names)):
        if n <= 0:
            return
        made = EDITS[names[index]](text, rng, Material())
        if made is not None and made != text:
            text, n = made, n - 1
            yield Step(text, names[index], 0.0)


# --------------------------------------------------------------------------------------------- the kinds of damage


def _attributes(text: str) -> dict[str, frozenset[str]]:
    """ "summarization fluency, story coherence engagement" -> {task: {attributes}}; "all" is every attribute"""
    found: dict[str, frozenset[str]] = {}
    for entry in filter(None, map(str.strip, text.split(","))):
        task, *attributes = entry.split()
        named = ATTRIBUTES[task] if attributes == ["all"] else frozenset(attributes)
        found[task] = found.get(task, frozenset()) | named
    return found


ATTRIBUTES: dict[str, frozenset[str]] = {
    "summarization": frozenset(("coherence", "consistency", "fluency", "relevance")),
    "dialogue": frozenset(
        ("naturalness", "engagingness", "coherence", "continuity", "understandability", "groundedness", "overall")
    ),
    "story": frozenset(("relevance", "coherence", "empathy", "surprise", "engagement", "complexity")),
    "data_to_text": frozenset(("fluency", "grammar", "semantics")),
    "question": frozenset(("difficulty",)),
}

_ERROR = "summarization fluency, dialogue naturalness understandability overall, data_to_text fluency grammar"
_FORM = "summarization fluency, dialogue naturalness overall, data_to_text grammar"
_FORM_ALSO = "dialogue understandability, data_to_text fluency, story engagement coherence"
_ERROR_ALSO = "story engagement coherence empathy"
_ORDER = "summarization coherence, story coherence"
_ORDER_ALSO = "dialogue all, data_to_text fluency, story engagement surprise complexity"
_CLAIM = "summarization consistency, data_to_text semantics"
_CLAIM_ALSO = "summarization relevance, dialogue coherence continuity groundedness understandability overall, story all"
_SWAPPED_ALSO = _CLAIM_ALSO + ", summarization coherence, data_to_text fluency grammar"

_DAMAGES: tuple[tuple[str, Edit, float, str, str, str], ...] = (
    # name, edit, share, unit, lowers, may lower as well
    ("dropped-word", edits.dropped_word, 7, "word", _ERROR, _ERROR_ALSO),
    ("doubled-word", edits.doubled_word, 6, "word", _ERROR, _ERROR_ALSO),
    (
        "repeated-phrase",
        edits.repeated_phrase,
        8,
        "word",
        _ERROR,
        _ERROR_ALSO + ", summarization coherence relevance",
    ),
    ("shuffled-window", edits.shuffled_window, 10, "word", _ERROR, _ERROR_ALSO + ", summarization coherence"),
    (
        "wrong-function-word",
        edits.wrong_function_word,
        6,
        "word",
        _ERROR,
        _ERROR_ALSO + ", summarization consistency",
    ),
    ("agreement", edits.agreement, 6, "word", _FORM, _FORM_ALSO),
    ("wrong-inflection", edits.wrong_inflection, 6, "word", _FORM, _FORM_ALSO),
    (
        "cut-off-ending",
        edits.cut_off_ending,
        18,
        "word",
        _ERROR,
        "summarization coherence relevance, dialogue engagingness groundedness coherence continuity, "
        "data_to_text semantics, story all, question difficulty",
    ),
    ("swapped-neighbours", edits.swapped_neighbours, 1.0, "sentence", _ORDER, _ORDER_ALSO),
    ("reversed-sentences", edits.reversed_sentences, 0.8, "text", _ORDER, _ORDER_ALSO),
    ("shuffled-sentences", edits.shuffled_sentences, 0.7, "text", _ORDER, _ORDER_ALSO),
    (
        "repeated-sentence",
        edits.repeated_sentence,
        1.2,
        "sentence",
        "summarization coherence, story coherence engagement, dialogue naturalness engagingness overall, "
        "data_to_text fluency",
        "summarization relevance fluency, story surprise complexity empathy, dialogue coherence continuity "
        "understandability, data_to_text semantics grammar",
    ),
    (
        "foreign-sentence",
        edits.foreign_sentence,
        1.2,
        "sentence",
        "summarization coherence consistency relevance, story coherence relevance, "
        "dialogue coherence continuity overall, data_to_text semantics",
        "story all, dialogue all, data_to_text fluency",
    ),
    (
        "dangling-reference",
        edits.dangling_reference,
        0.4,
        "text",
        "summarization coherence, story coherence",
        "summarization consistency relevance, story all, dialogue understandability coherence overall groundedness, "
        "data_to_text semantics fluency, question difficulty",
    ),
    ("entity-same-document", edits.entity_same_document, 1.2, "sentence", _CLAIM, _CLAIM_ALSO),
    (
        "entity-other-document",
        edits.entity_other_document,
        1.2,
        "sentence",
        _CLAIM + ", story relevance",
        _CLAIM_ALSO + ", summarization coherence",
    ),
    (
        "number-changed",
        edits.number_changed,
        1.0,
        "sentence",
        _CLAIM,
        "dialogue groundedness overall coherence, story coherence",
    ),
    ("negation", edits.negation, 1.2, "sentence", _CLAIM, _CLAIM_ALSO + ", summarization coherence fluency"),
    (
        "content-word-replaced",
        edits.content_word_replaced,
        1.2,
        "sentence",
        _CLAIM + ", dialogue understandability coherence overall",
        _CLAIM_ALSO + ", summarization coherence fluency, data_to_text fluency grammar, dialogue all",
    ),
    ("swapped-roles", edits.swapped_roles, 1.2, "sentence", _CLAIM, _SWAPPED_ALSO),
    (
        "peripheral-sentences",
        edits.peripheral_sentences,
        1.1,
        "sentence",
        "summarization relevance",
        "summarization coherence",
    ),
    (
        "dropped-central-sentence",
        edits.dropped_central_sentence,
        1.2,
        "sentence",
        "summarization relevance",
        "summarization coherence, story all, dialogue all, data_to_text semantics",
    ),
    (
        "generic-filler",
        edits.generic_filler,
        1.1,
        "sentence",
        "summarization relevance",
        "summarization coherence consistency, dialogue all, story all, data_to_text all",
    ),
    (
        "generic-reply",
        edits.generic_reply,
        0.8,
        "text",
        "dialogue engagingness groundedness overall",
        "dialogue coherence continuity naturalness",
    ),
    (
        "wrong-next-turn",
        edits.wrong_next_turn,
        1.0,
        "text",
        "dialogue coherence continuity groundedness overall",
        "dialogue engagingness naturalness understandability",
    ),
    (
        "echoed-turn",
        edits.echoed_turn,
        0.9,
        "text",
        "dialogue engagingness continuity naturalness groundedness overall",
        "dialogue coherence understandability",
    ),
    ("stilted", edits.stilted, 4, "word", "dialogue naturalness", "dialogue engagingness overall understandability"),
    (
        "shortened-reply",
        edits.shortened_reply,
        0.5,
        "text",
        "dialogue engagingness",
        "dialogue overall groundedness continuity coherence",
    ),
    (
        "ungrounded-fact",
        edits.ungrounded_fact,
        0.5,
        "text",
        "dialogue groundedness",
        "dialogue coherence overall understandability naturalness",
    ),
    (
        "dropped-facts",
        edits.dropped_facts,
        0.7,
        "text",
        "dialogue groundedness engagingness",
        "dialogue coherence continuity overall",
    ),
    (
        "flattened-emotion",
        edits.flattened_emotion,
        22,
        "word",
        "story empathy",
        "story engagement coherence complexity",
    ),
    (
        "spoiled-ending",
        edits.spoiled_ending,
        0.7,
        "text",
        "story surprise",
        "story coherence engagement relevance complexity",
    ),
    (
        "predictable-ending",
        edits.predictable_ending,
        0.5,
        "text",
        "story surprise",
        "story coherence empathy engagement relevance complexity",
    ),
    (
        "dull-sentence",
        edits.dull_sentence,
        1.1,
        "sentence",
        "story engagement surprise complexity empathy",
        "story coherence relevance",
    ),
    ("plain-words", edits.plain_words, 9, "word", "story complexity", "story engagement empathy"),
    (
        "dropped-clause",
        edits.dropped_clause,
        0.9,
        "sentence",
        "story complexity",
        "story engagement empathy coherence",
    ),
    ("other-story", edits.other_story, 1.0, "text", "story relevance", "story all"),
    ("dropped-triple", edits.dropped_triple, 1.0, "fact", "data_to_text semantics", "data_to_text fluency grammar"),
    ("wrong-value", edits.wrong_value, 1.0, "fact", "data_to_text semantics", "data_to_text fluency grammar"),
    (
        "joined-fragments",
        edits.joined_fragments,
        0.8,
        "text",
        "data_to_text fluency",
        "data_to_text grammar semantics",
    ),
    ("simple-lookup", edits.simple_lookup, 0.4, "text", "question difficulty", ""),
    ("quoted-source", edits.quoted_source, 0.35, "text", "question difficulty", ""),
    ("yes-no", edits.yes_no, 0.6, "text", "question difficulty", ""),
    ("given-answer", edits.given_answer, 0.6, "text", "question difficulty", ""),
)

DAMAGES: dict[str, Damage] = {
    name: Damage(name, _attributes(lowers), _attributes(also), share, unit, edit)
    for name, edit, share, unit, lowers, also in _DAMAGES
}
