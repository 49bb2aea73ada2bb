"""Damage by whole sentences and turns: they move, come in, go, or give way to others."""

from __future__ import annotations

import re

from numpy.random import Generator

from .claims import NUMBER, content_word_replaced, entity_other_document, entity_same_document, number_changed
from .edits import Material, NoPlaceError, about_as_long, edit, join, pick, place, ready_made, require, shuffled, stock
from .reading import centrality, content_words, like, sentences, word_list

# ------------------------------------------------------------------------------------------------- order and selection


@edit
def swapped_neighbours(text: str, rng: Generator, material: Material) -> str:
    parts = list(sentences(text))
    require(len(parts) > 1)
    i = int(rng.integers(len(parts) - 1))
    parts[i], parts[i + 1] = parts[i + 1], parts[i]
    return join(parts)


@edit
def reversed_sentences(text: str, rng: Generator, material: Material) -> str:
    parts = sentences(text)
    require(len(parts) > 2)
    return join(parts[::-1])


@edit
def shuffled_sentences(text: str, rng: Generator, material: Material) -> str:
    parts = sentences(text)
    require(len(parts) > 2)
    made = tuple(parts[i] for i in shuffled(rng, len(parts), 6))
    require(made != parts)
    return join(made)


@edit
def repeated_sentence(text: str, rng: Generator, material: Material) -> str:
    """A sentence is said again: right after itself, later, or in place of a later one."""
    parts = sentences(text)
    require(parts and len(set(parts)) >= len(parts) - 1)
    i = int(rng.integers(len(parts)))
    later = int(rng.integers(i + 1, len(parts) + 1))
    in_place = later < len(parts) and len(parts) > 2 and rng.random() < 0.6
    return join([*parts[:later], parts[i], *parts[later + in_place :]])


def _foreign_sentences(material: Material, rng: Generator) -> list[str]:
    """Those of the first foreign text, in a random order, that has any of a usual length."""
    for i in rng.permutation(len(material.foreign)):
        whole = [re.sub(r"^[AB]: ", "", sentence) for sentence in sentences(material.foreign[i])]
        usual = [part for part in whole if 4 <= len(part.split()) <= 32 and "|" not in part]
        if usual:
            return usual
    return []


@edit
def foreign_sentence(text: str, rng: Generator, material: Material) -> str:
    """A sentence of another text, between the sentences or in place of one of them."""
    parts = sentences(text)
    options = _foreign_sentences(material, rng)
    require(parts and options)
    not_foreign = [i for i, part in enumerate(parts) if not any(part in other for other in material.foreign)]
    index = pick(rng, not_foreign)
    if rng.random() < 0.75 and len(parts) > 1:
        new = about_as_long(rng, options, len(parts[index].split()))
        return place(parts, index, like(new, text), replace=True)
    return place(parts, index, like(pick(rng, options), text), replace=False)


@edit
def peripheral_sentences(text: str, rng: Generator, material: Material) -> str:
    """The most central sentence gives way to a sentence of the context that hardly matters."""
    parts = sentences(text)
    options = [s for s in sentences(material.context) if 6 <= len(s.split()) <= 36]
    require(parts and len(options) >= 4)
    least_central_first = sorted(options, key=lambda option: centrality(option, material.context))
    options = least_central_first[: max(2, len(options) // 3)]
    shown = {like(option, text) for option in options}
    unlike = [part for part in parts if part not in shown]
    options = [option for option in options if like(option, text) not in parts]
    require(unlike and options)
    central = max(unlike, key=lambda part: centrality(part, material.context))
    minor = about_as_long(rng, options, len(central.split()))
    require(centrality(minor, material.context) <= 0.8 * centrality(central, material.context))
    return place(parts, parts.index(central), like(minor, text), replace=True)


@edit
def dropped_central_sentence(text: str, rng: Generator, material: Material) -> str:
    parts = list(sentences(text))
    require(len(parts) > 1)
    parts.remove(max(parts, key=lambda part: centrality(part, material.context or text)))
    return join(parts)


@edit
def generic_filler(text: str, rng: Generator, material: Material) -> str:
    return stock(text, "fillers", rng, 0.7)


# ------------------------------------------------------------------------------------------------- stories


@edit
def spoiled_ending(text: str, rng: Generator, material: Material) -> str:
    """The end is told at the start, and again (or no more) at the end."""
    parts = list(sentences(text))
    spoilers = word_list("spoilers")
    openings = tuple(like(spoiler.split("{")[0], text).strip() for spoiler in spoilers)
    require(len(parts) > 2 and not text.startswith(openings))
    last = parts[-1] if rng.random() < 0.5 else parts.pop()
    return join([like(pick(rng, spoilers).format(last), text), *parts])


@edit
def predictable_ending(text: str, rng: Generator, material: Material) -> str:
    parts = sentences(text)
    shown = ready_made("stock_endings", text)
    require(len(parts) > 1 and not any(part in shown for part in parts))
    if rng.random() < 0.7:
        parts = parts[:-1]
    return join([*parts, pick(rng, shown)])


@edit
def dull_sentence(text: str, rng: Generator, material: Material) -> str:
    return stock(text, "dull_sentences", rng, 0.85)


@edit
def other_story(text: str, rng: Generator, material: Material) -> str:
    """A passage of another text, of about the same length."""
    n_words = len(text.split())
    for _ in range(3):
        parts = sentences(pick(rng, material.foreign))
        start = int(rng.integers(max(1, len(parts) // 2)))
        size = 0
        made = []
        for part in parts[start:]:
            if size and abs(size + len(part.split()) - n_words) > abs(size - n_words):
                break
            made.append(part)
            size += len(part.split())
        passage = like(join(made), text)
        if abs(size - n_words) < 0.35 * n_words and passage != text:
            return passage
    raise NoPlaceError


# ------------------------------------------------------------------------------------------------- replies


def _turns(text: str) -> list[str]:
    turns = [re.sub(r"^(?:[A-Z]|\w+): ", "", line).strip() for line in text.splitlines()]
    return [turn for turn in turns if turn]


@edit
def generic_reply(text: str, rng: Generator, material: Material) -> str:
    shown = ready_made("generic_replies", text)
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
    in_turn = [kinds[i] for i in rng.permutation(len(kinds))]
    for kind in (*in_turn, content_word_replaced):
        made = None
        if known:
            made = kind(text, rng, material)
        if made is not None and known & (_claims(text) - _claims(made)):
            return made
    raise NoPlaceError


@edit
def dropped_facts(text: str, rng: Generator, material: Material) -> str:
    """The sentence that uses the facts most is dropped, or gives way to a generic one."""
    parts = list(sentences(text))
    known = set(content_words(material.facts))
    shared = [len(known & set(content_words(part))) for part in parts]
    require(max(shared, default=0) >= 2)
    index = shared.index(max(shared))
    if len(parts) > 1 and rng.random() < 0.4:
        del parts[index]
    else:
        parts[index] = about_as_long(rng, ready_made("generic_replies", text), len(parts[index].split()))
    return join(parts)
