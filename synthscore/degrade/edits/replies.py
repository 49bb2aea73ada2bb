"""Damage to a reply in a dialogue."""

from __future__ import annotations

import re

from numpy.random import Generator

from ..reading import content_words, like, sentences
from ..words import word_list, word_map
from .base import Material, NoPlaceError, about_as_long, edit, exchange_one, join, pick, require
from .claims import NUMBER, content_word_replaced, entity_other_document, entity_same_document, number_changed


def _turns(text: str) -> list[str]:
    return [turn for turn in (re.sub(r"^(?:[A-Z]|\w+): ", "", line).strip() for line in text.splitlines()) if turn]


@edit
def generic_reply(text: str, rng: Generator, material: Material) -> str:
    shown = [like(reply, text) for reply in word_list("generic_replies")]
    require(text not in shown)
    return pick(rng, shown)


@edit
def wrong_next_turn(text: str, rng: Generator, material: Material) -> str:
    require(text not in {like(turn, text) for other in material.foreign for turn in _turns(other)})
    turns = [turn for turn in _turns(pick(rng, material.foreign)) if 4 <= len(turn.split()) <= 60]
    return like(about_as_long(rng, turns, len(text.split())), text)


@edit
def echoed_turn(text: str, rng: Generator, material: Material) -> str:
    turns = [like(turn, text) for turn in _turns(material.context) if len(turn.split()) >= 4]
    require(text not in turns)
    return pick(rng, turns[:-5:-1])


@edit
def stilted(text: str, rng: Generator, material: Material) -> str:
    try:
        return exchange_one(text, rng, word_map("stilted"))
    except NoPlaceError:
        shown = [like(sentence, text) for sentence in word_list("stilted_closings")]
        require(not any(sentence in text for sentence in shown))
        return join([text, pick(rng, shown)])


@edit
def shortened_reply(text: str, rng: Generator, material: Material) -> str:
    parts = sentences(text)
    if len(parts) > 1:
        return join(parts[:-1])
    match = re.match(r"^(.{12,}?\w)(?: ,|,| because| but| so| and| when| if| since)\s", text)
    start = match.group(1) if match else ""
    require(len(start.split()) >= 3)
    return start + (" ." if " ." in text else ".")


def _claims(text: str) -> set[str]:
    """What a text says, as a bag: its content words and its numbers."""
    return {*content_words(text), *NUMBER.findall(text)}


@edit
def ungrounded_fact(text: str, rng: Generator, material: Material) -> str:
    """A number, name or word that the text has from the facts is changed."""
    known = _claims(material.facts)
    kinds = (number_changed, entity_other_document, entity_same_document)
    for kind in (*(kinds[i] for i in rng.permutation(len(kinds))), content_word_replaced):
        made = kind(text, rng, material) if known else None
        if made is not None and known & (_claims(text) - _claims(made)):
            return made
    raise NoPlaceError


@edit
def dropped_facts(text: str, rng: Generator, material: Material) -> str:
    """The sentence that uses the facts most is dropped, or gives way to a generic one."""
    parts, known = list(sentences(text)), set(content_words(material.facts))
    shared = [len(known & set(content_words(part))) for part in parts]
    require(max(shared, default=0) >= 2)
    index = shared.index(max(shared))
    if len(parts) > 1 and rng.random() < 0.4:
        del parts[index]
    else:
        shown = [like(reply, text) for reply in word_list("generic_replies")]
        parts[index] = about_as_long(rng, shown, len(parts[index].split()))
    return join(parts)
