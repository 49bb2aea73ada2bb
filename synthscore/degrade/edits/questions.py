"""Making a question easier."""

from __future__ import annotations

from numpy.random import Generator

from ..reading import bare, content_words, names, sentences
from .base import Material, edit, pick, put, require
from .claims import NUMBER
from .triples import find

_QUOTED, _YES_NO = "the passage says:", "is it true that"
_ANSWERED = ("the answer is", "is the answer")
_LOOKED_UP = ("how does this sentence go on:", "which word fills the gap:")


def _has(text: str, *marks: str) -> bool:
    return any(mark in text.lower().replace(" :", ":") for mark in marks)


def _statements(material: Material, shortest: int, longest: int) -> list[str]:
    whole = sentences(material.context)
    return [s for s in whole if shortest <= len(s.split()) <= longest and not s.endswith("?")]


def _source_sentence(question: str, material: Material) -> str:
    """The sentence of the context that the question is about. raises : NoPlaceError"""
    wanted, options = {word[:6] for word in content_words(question)}, _statements(material, 5, 30)
    require(options)
    return max(options, key=lambda sentence: len(wanted & {word[:6] for word in content_words(sentence)}))


@edit
def quoted_source(text: str, rng: Generator, material: Material) -> str:
    source = _source_sentence(text, material)
    require(not _has(text, _QUOTED))
    return f'The passage says: "{source}" {text}' if rng.random() < 0.5 else f'{text} The passage says: "{source}"'


@edit
def yes_no(text: str, rng: Generator, material: Material) -> str:
    source = _source_sentence(text, material)
    require(not _has(text, _QUOTED, _YES_NO, *_ANSWERED))
    first = source.split()[0]
    capital = first == "I" or any(first == name.text.split()[0] for name in names(f"x {material.context}"))
    low = source if capital else first.lower() + source[len(first) :]
    return f"Is it true that {low.rstrip('.!')}?"


@edit
def given_answer(text: str, rng: Generator, material: Material) -> str:
    """The question tells its own answer."""
    require(not _has(text, *_ANSWERED))
    if _has(text, _YES_NO):
        return f"{text} The answer is yes."
    source = _source_sentence(text, material)
    values = [name.text for name in names(source)] + NUMBER.findall(source)
    known = [value for value in values if find(text, value) < 0]
    answer = pick(rng, known) if known else " ".join(source.rstrip(".!").split()[-4:])
    return f"{text} The answer is {answer}." if rng.random() < 0.6 else f"{text} Is the answer {answer}?"


@edit
def simple_lookup(text: str, rng: Generator, material: Material) -> str:
    """A question that asks for the rest of one sentence, in place of one that asks for thought."""
    options = _statements(material, 6, 26)
    require(not _has(text, _QUOTED, _YES_NO, *_ANSWERED, *_LOOKED_UP))
    source = pick(rng, options)
    words = source.rstrip(".!").split()
    if rng.random() < 0.5:
        start = int(rng.integers(max(1, len(words) // 2), len(words)))
        return f'How does this sentence go on: "{" ".join(words[:start])} ..."?'
    index = pick(rng, [i for i, word in enumerate(words) if i and bare(word) in content_words(source)])
    words[index] = put(words[index].lower(), "___")
    return f'Which word fills the gap: "{" ".join(words)}"?'
