"""Damage to a text about given facts: the context is triples, "subject | relation | value", one a line."""

from __future__ import annotations

import re

from numpy.random import Generator

from ..reading import like, sentences
from .base import Material, NoPlaceError, edit, join, pick, require
from .claims import NUMBER, number_changed

Triple = tuple[str, str, str]


def _triples(context: str) -> list[Triple]:
    rows = [tuple(part.strip().replace("_", " ") for part in line.split("|")) for line in context.splitlines()]
    return [(row[0], row[1], row[2]) for row in rows if len(row) == 3 and all(row)]


def find(text: str, value: str) -> int:
    """Where the text first says the value, as whole words; -1 where it does not."""
    match = re.search(rf"(?<!\w){re.escape(value.lower())}(?!\w)", text.lower())
    return match.start() if match else -1


@edit
def dropped_triple(text: str, rng: Generator, material: Material) -> str:
    """One fact is no longer told: its sentence goes, or the words that end in its value."""
    values = [value for _, _, value in _triples(material.context) if find(text, value) >= 0]
    parts = sentences(text)
    for i in rng.permutation(len(values)):
        index = next((j for j, part in enumerate(parts) if find(part, values[i]) >= 0), None)
        if index is not None and len(parts) > 1:
            return join(parts[:index] + parts[index + 1 :])
        words = r"(?:,? (?:and|which|who|where)\b[^.,]*?|,? (?:in|on|at|by|from|with|for|to|of|as)) (?:the |an? )?"
        end = r"(?=\s?(?:[.,]|and\b|$))"
        made = re.sub(words + re.escape(values[i]) + end, "", text, count=1, flags=re.IGNORECASE)
        if made != text and len(made.split()) > 2:
            return made
    raise NoPlaceError


@edit
def wrong_value(text: str, rng: Generator, material: Material) -> str:
    """A value (or the subject) becomes that of another fact."""
    own = _triples(material.context)
    values = sorted({value for _, _, value in own if find(text, value) >= 0})
    value = pick(rng, values)
    at = find(text, value)
    foreign = {value for other in material.foreign for _, _, value in _triples(other)}
    others = {other for other in foreign if find(material.context, other) < 0} | {subject for subject, _, _ in own}
    fitting = sorted(other for other in others if other.lower() != value.lower() and _look(other) == _look(value))
    other_number = NUMBER.search(value) and (not fitting or rng.random() < 0.5)
    new = (number_changed(value, rng, material) if other_number else pick(rng, fitting)) or value
    require(new != value)
    return text[:at] + like(new, text) + text[at + len(value) :]


def _look(value: str) -> tuple[bool, bool]:
    return value[:1].isdigit(), value[:1].isupper()


@edit
def joined_fragments(text: str, rng: Generator, material: Material) -> str:
    """The facts as a bare list in one breath: nothing is wrong with what is said."""
    parts = [_spoken(triple) for triple in _triples(material.context)]
    made = (" and " if rng.random() < 0.5 else ". ").join(parts) + "."
    require(parts and made not in text)
    return like(made, text)


def _spoken(triple: Triple) -> str:
    relation = re.sub("([a-z])([A-Z])", r"\1 \2", triple[1]).lower()
    return f"{triple[0]} {relation} {triple[2]}"
