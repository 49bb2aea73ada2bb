"""Damage to what is said and in which order: whole sentences move, come in, or go."""

from __future__ import annotations

import re

from numpy.random import Generator

from ..reading import centrality, like, sentences
from ..words import word_list
from .base import Material, about_as_long, edit, join, pick, place, require, shuffled, stock


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
    for i in rng.permutation(len(material.foreign)) if material.foreign else ():
        whole = [re.sub(r"^[AB]: ", "", sentence) for sentence in sentences(material.foreign[i])]
        found = [part for part in whole if 4 <= len(part.split()) <= 32 and "|" not in part]
        if found:
            return found
    return []


@edit
def foreign_sentence(text: str, rng: Generator, material: Material) -> str:
    """A sentence of another text, between the sentences or in place of one of them."""
    parts, options = sentences(text), _foreign_sentences(material, rng)
    require(parts and options)
    index = pick(rng, [i for i, part in enumerate(parts) if not any(part in other for other in material.foreign)])
    replace = rng.random() < 0.75 and len(parts) > 1
    new = about_as_long(rng, options, len(parts[index].split())) if replace else pick(rng, options)
    return place(parts, index, like(new, text), replace)


@edit
def peripheral_sentences(text: str, rng: Generator, material: Material) -> str:
    """The most central sentence gives way to a sentence of the context that hardly matters."""
    parts = sentences(text)
    options = [s for s in sentences(material.context) if 6 <= len(s.split()) <= 36]
    require(parts and len(options) >= 4)
    options = sorted(options, key=lambda option: centrality(option, material.context))[: max(2, len(options) // 3)]
    shown = {like(option, text) for option in options}
    own = [part for part in parts if part not in shown]
    options = [option for option in options if like(option, text) not in parts]
    require(own and options)
    central = max(own, key=lambda part: centrality(part, material.context))
    minor = about_as_long(rng, options, len(central.split()))
    require(centrality(minor, material.context) <= 0.8 * centrality(central, material.context))
    return place(parts, parts.index(central), like(minor, text), True)


@edit
def dropped_central_sentence(text: str, rng: Generator, material: Material) -> str:
    parts = list(sentences(text))
    require(len(parts) > 1)
    parts.remove(max(parts, key=lambda part: centrality(part, material.context or text)))
    return join(parts)


@edit
def generic_filler(text: str, rng: Generator, material: Material) -> str:
    return stock(text, word_list("fillers"), rng, 0.7)
